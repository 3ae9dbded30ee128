/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX models as bytes, written field by field: what the tests of the ONNX reader feed it, sound or not.
 */
#ifndef IGATA_TEST_ONNX_BYTES_H
#define IGATA_TEST_ONNX_BYTES_H

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

typedef struct Pb {
    uint8_t data[8192];
    size_t len;
} Pb;

static inline void pb_raw(Pb *pb, const void *bytes, size_t n)
{
    if (pb->len + n <= sizeof pb->data)
        memcpy(pb->data + pb->len, bytes, n);
    pb->len += n;
}
static inline void pb_varint(Pb *pb, uint64_t v)
{
    do {
        uint8_t byte = (uint8_t)((v & 0x7F) | (v > 0x7F ? 0x80 : 0));
        pb_raw(pb, &byte, 1);
        v >>= 7;
    } while (v);
}
static inline void pb_tag(Pb *pb, uint32_t field, uint32_t wire) { pb_varint(pb, (uint64_t)field << 3 | wire); }
static inline void pb_int(Pb *pb, uint32_t field, int64_t v)
{
    pb_tag(pb, field, 0);
    pb_varint(pb, (uint64_t)v);
}
static inline void pb_bytes(Pb *pb, uint32_t field, const void *bytes, size_t n)
{
    pb_tag(pb, field, 2);
    pb_varint(pb, n);
    pb_raw(pb, bytes, n);
}
static inline void pb_str(Pb *pb, uint32_t field, const char *s) { pb_bytes(pb, field, s, strlen(s)); }
static inline void pb_sub(Pb *pb, uint32_t field, const Pb *sub) { pb_bytes(pb, field, sub->data, sub->len); }
static inline void pb_f32(Pb *pb, uint32_t field, float v)
{
    pb_tag(pb, field, 5);
    pb_raw(pb, &v, 4);
}

/* ValueInfoProto, TensorType of an ONNX element type. A size of -1 is the symbol "N", -2 is unknown. */
static inline Pb onnx_value(const char *name, int elem, uint32_t rank, const int64_t *dims)
{
    Pb value = {.len = 0}, type = {.len = 0}, tensor = {.len = 0}, shape = {.len = 0};
    for (uint32_t a = 0; a < rank; a++) {
        Pb dim = {.len = 0};
        if (dims[a] >= 0)
            pb_int(&dim, 1, dims[a]);
        else if (dims[a] == -1)
            pb_str(&dim, 2, "N");
        pb_sub(&shape, 1, &dim);
    }
    pb_int(&tensor, 1, elem);
    pb_sub(&tensor, 2, &shape);
    pb_sub(&type, 1, &tensor);
    pb_str(&value, 1, name);
    pb_sub(&value, 2, &type);
    return value;
}

/* TensorProto with raw_data. */
static inline Pb onnx_tensor(const char *name, int elem, uint32_t rank, const int64_t *dims, const void *raw, size_t n)
{
    Pb tensor = {.len = 0};
    for (uint32_t a = 0; a < rank; a++)
        pb_int(&tensor, 1, dims[a]);
    pb_int(&tensor, 2, elem);
    pb_str(&tensor, 8, name);
    pb_bytes(&tensor, 9, raw, n);
    return tensor;
}

static inline void onnx_names(Pb *pb, uint32_t field, const char *names)
{
    while (names && *names) {
        size_t n = strcspn(names, " ");
        size_t length = n == 1 && *names == '-' ? 0 : n; /* "-": an empty name */
        pb_bytes(pb, field, names, length);
        names += n + (names[n] == ' ');
    }
}

/* NodeProto; names of inputs and outputs separated by blanks, attributes already as field 5. */
static inline Pb onnx_node(const char *op, const char *in, const char *out, const Pb *attrs)
{
    Pb node = {.len = 0};
    onnx_names(&node, 1, in);
    onnx_names(&node, 2, out);
    pb_str(&node, 4, op);
    if (attrs)
        pb_raw(&node, attrs->data, attrs->len);
    return node;
}
static inline void onnx_attr_int(Pb *node_attrs, const char *name, int64_t value)
{
    Pb a = {.len = 0};
    pb_str(&a, 1, name);
    pb_int(&a, 3, value);
    pb_int(&a, 20, 2);
    pb_sub(node_attrs, 5, &a);
}
static inline void onnx_attr_ints(Pb *node_attrs, const char *name, uint32_t n, const int64_t *values)
{
    Pb a = {.len = 0};
    pb_str(&a, 1, name);
    for (uint32_t i = 0; i < n; i++)
        pb_int(&a, 8, values[i]);
    pb_int(&a, 20, 7);
    pb_sub(node_attrs, 5, &a);
}
static inline void onnx_attr_graph(Pb *node_attrs, const char *name, const Pb *graph)
{
    Pb a = {.len = 0};
    pb_str(&a, 1, name);
    pb_sub(&a, 6, graph);
    pb_int(&a, 20, 5);
    pb_sub(node_attrs, 5, &a);
}

static inline Pb onnx_opset(const char *domain, int64_t version)
{
    Pb set = {.len = 0};
    pb_str(&set, 1, domain);
    pb_int(&set, 2, version);
    return set;
}

static inline Pb onnx_model(const Pb *graph, int64_t opset)
{
    Pb model = {.len = 0}, set = onnx_opset("", opset);
    pb_int(&model, 1, 8);
    pb_sub(&model, 7, graph);
    pb_sub(&model, 8, &set);
    return model;
}

enum { ONNX_F32 = 1, ONNX_S64 = 7, ONNX_BOOL = 9, ONNX_C64 = 14, ONNX_U4 = 21 };
enum { GRAPH_NODE = 1, GRAPH_INIT = 5, GRAPH_IN = 11, GRAPH_OUT = 12 };

static inline void onnx_add_value(Pb *graph, uint32_t field, const char *name, int elem, uint32_t rank, const int64_t *dims)
{
    Pb value = onnx_value(name, elem, rank, dims);
    pb_sub(graph, field, &value);
}
static inline void onnx_add_node(Pb *graph, const char *op, const char *in, const char *out, const Pb *attrs)
{
    Pb node = onnx_node(op, in, out, attrs);
    pb_sub(graph, GRAPH_NODE, &node);
}
static inline void onnx_add_tensor(Pb *graph, const char *name, int elem, uint32_t rank, const int64_t *dims, const void *raw, size_t n)
{
    Pb tensor = onnx_tensor(name, elem, rank, dims, raw, n);
    pb_sub(graph, GRAPH_INIT, &tensor);
}

#endif
