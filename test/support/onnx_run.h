/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of one node: built, imported, run by the reference evaluator; or refused with a text.
 */
#ifndef IGATA_TEST_ONNX_RUN_H
#define IGATA_TEST_ONNX_RUN_H

#include "support/unit.h"

#include "eval/eval.h"
#include "front/front.h"
#include "support/onnx_bytes.h"

static inline void onnx_attr_str(Pb *node_attrs, const char *name, const char *value)
{
    Pb a = {.len = 0};
    pb_str(&a, 1, name);
    pb_str(&a, 4, value);
    pb_int(&a, 20, 3);
    pb_sub(node_attrs, 5, &a);
}
static inline void onnx_attr_f32(Pb *node_attrs, const char *name, float value)
{
    Pb a = {.len = 0};
    pb_str(&a, 1, name);
    pb_f32(&a, 2, value);
    pb_int(&a, 20, 1);
    pb_sub(node_attrs, 5, &a);
}
static inline void onnx_add_f32(Pb *graph, const char *name, uint32_t rank, const int64_t *dims, const float *values)
{
    size_t count = 1;
    for (uint32_t a = 0; a < rank; a++)
        count *= (size_t)dims[a];
    onnx_add_tensor(graph, name, ONNX_F32, rank, dims, values, count * sizeof *values);
}

/* The bytes live with the context: weights are views of them. */
static inline Module *onnx_load(Context *ctx, const Pb *graph, int64_t opset)
{
    Pb model = onnx_model(graph, opset);
    assert_true(model.len <= sizeof model.data);
    void *bytes = arena_copy(ctx_arena(ctx), model.data, model.len);
    return front_onnx_import(ctx, "m.onnx", (Blob){bytes, model.len}, NULL);
}

/* The graph is refused with a diagnostic whose text holds `text`. */
static inline void onnx_refused(const Pb *graph, int64_t opset, const char *text)
{
    Context *ctx = ctx_create(NULL);
    bool found = false;
    assert_null(onnx_load(ctx, graph, opset));
    for (uint32_t i = 0; i < diag_count(ctx); i++) {
        Text line;
        text_init(&line, ctx_arena(ctx));
        diag_print(ctx, &line, diag_get(ctx, i));
        found |= strstr(line.data, text) != NULL;
        if (i + 1 == diag_count(ctx) && !found)
            print_error("wanted '%s', last was: %s\n", text, line.data);
    }
    assert_true(found);
    ctx_destroy(ctx);
}

/* Runs the entry on dense inputs; results live in the context. */
static inline void onnx_run(Context *ctx, const Module *m, const void *const *inputs, Tensor **out)
{
    const Func *f = m->funcs.data[0];
    Tensor tensors[8] = {{0}}, *params[8];
    assert_true(f->body->params.len <= 8);
    assert_true(ir_verify(m) && op_verify(m));
    for (uint32_t i = 0; i < f->body->params.len; i++) {
        const Type *t = f->body->params.data[i]->type;
        tensors[i] = (Tensor){.dtype = t->dtype, .store = t->dtype, .rank = t->rank};
        assert_true(type_count(t, &tensors[i].count));
        for (uint32_t a = 0; a < t->rank; a++)
            tensors[i].dim[a] = type_dim(t, a);
        tensors[i].data = arena_alloc(ctx_arena(ctx), tensors[i].count * 8 + 8);
        memcpy(tensors[i].data, inputs[i], tensors[i].count * dtype_bits(t->dtype) / 8);
        params[i] = &tensors[i];
    }
    assert_true(eval_func(ctx, ctx_arena(ctx), EVAL_REF32, f, params, out, NULL));
}

static inline uint32_t onnx_count_op(const Module *m, Op op)
{
    uint32_t n = 0;
    REGION_FOREACH(node, m->funcs.data[0]->body)
        n += node->op == op;
    return n;
}

#endif
