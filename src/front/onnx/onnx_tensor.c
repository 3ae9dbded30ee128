/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorProto and SparseTensorProto: element type, sizes, and where the bytes are (onnx.proto, "TensorProto"). Raw data and
 * external files are views; typed fields are packed into the arena. External data must lie in the model's own folder, also
 * after symbolic links are resolved.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* realpath */
#endif
#include "front/onnx/onnx_int.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool bad(const TensorSource *s, const char *what, const TensorProto *t, const char *format, ...) IG_PRINTF(4, 5);
static bool bad(const TensorSource *s, const char *what, const TensorProto *t, const char *format, ...)
{
    char detail[400];
    va_list list;
    va_start(list, format);
    vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    return diag_report(s->ctx, s->loc, DIAG_onnx_tensor, what, or_blank(t->name), detail);
}

/* Sizes and their product, checked in 64 bits. */
static bool read_dims(const TensorSource *s, const char *what, const TensorProto *t, const IntList *dims, TensorData *out)
{
    if (dims->len > IR_MAX_RANK)
        return bad(s, what, t, "rank %u, at most %d are supported", dims->len, IR_MAX_RANK);
    bool empty = false, overflow = false;
    out->rank = dims->len;
    out->count = 1;
    for (uint32_t a = 0; a < dims->len; a++) {
        int64_t size = out->dim[a] = dims->data[a];
        if (size < 0)
            return bad(s, what, t, "dims[%u] is %lld, sizes are 0 or more", a, (long long)size);
        empty |= size == 0;
        if (!overflow && size)
            overflow = __builtin_mul_overflow(out->count, (uint64_t)size, &out->count) || out->count >> 62;
    }
    if (empty)
        out->count = 0;
    uint64_t bytes;
    if (overflow && !empty)
        return bad(s, what, t, "the product of dims does not fit 62 bits");
    if (out->dtype == DT_STR)
        return true;
    if (!dtype_bytes(out->dtype, out->count, &bytes) || bytes > (uint64_t)s->max_bytes)
        return bad(s, what, t, "%llu elements of %s are more than the %lld bytes that a value may take (--max-bytes)",
                   (unsigned long long)out->count, dtype_name(out->dtype), (long long)s->max_bytes);
    return true;
}

/* ---- external data --------------------------------------------------------------------------------------------------- */

static bool read_number(const char *text, int64_t *value)
{
    return *text >= '0' && *text <= '9' && text_parse_s64(text, value) && *value >= 0;
}

/* The real path of location, if it is a regular file in the model's folder. */
static bool resolve(const TensorSource *s, const char *what, const TensorProto *t, const char *location, char *real)
{
    char folder[PATH_MAX];
    struct stat info;
    for (const char *part = location; part; part = strchr(part, '/'), part = part ? part + 1 : NULL)
        if (!strncmp(part, "..", 2) && (part[2] == '/' || !part[2]))
            return bad(s, what, t, "external data '%s' leaves the model's folder", location);
    if (*location == '/')
        return bad(s, what, t, "external data '%s' is an absolute path; it must lie in the model's folder", location);
    char *dir = path_dir(s->arena, s->file);
    char *path = path_join(s->arena, dir, location);
    if (!realpath(dir, folder) || !realpath(path, real))
        return bad(s, what, t, "external data '%s' is not there", location);
    size_t n = strlen(folder);
    bool inside = !strncmp(real, folder, n) && (real[n] == '/' || (n == 1 && *folder == '/'));
    if (!inside)
        return bad(s, what, t, "external data '%s' leaves the model's folder", location);
    if (stat(real, &info) != 0 || !S_ISREG(info.st_mode))
        return bad(s, what, t, "external data '%s' is no regular file", location);
    return true;
}

static bool map_external(TensorSource *s, const char *what, const TensorProto *t, const char *location, Str *path, Blob *blob)
{
    char real[PATH_MAX];
    if (!resolve(s, what, t, location, real))
        return false;
    *path = str_intern(s->ctx, real);
    Blob *known = map_get(s->files, KEY(*path));
    if (!known) {
        Blob opened;
        if (!file_map(s->ctx, real, &opened))
            return false;
        known = arena_copy(s->arena, &opened, sizeof opened);
        map_set(s->files, KEY(*path), known);
    }
    *blob = *known;
    return true;
}

static bool read_external(TensorSource *s, const char *what, const TensorProto *t, uint64_t bytes, TensorData *out)
{
    const char *location = NULL;
    int64_t offset = 0, length = (int64_t)bytes;
    if (s->file == NULL || !strcmp(s->file, "-"))
        return bad(s, what, t, "external data needs a model that is a file");
    for (uint32_t i = 0; i < t->external_data.len; i++) {
        const StringStringEntryProto *entry = t->external_data.data[i];
        const char *key = or_blank(entry->key), *value = or_blank(entry->value);
        if (!strcmp(key, "location"))
            location = value;
        else if (!strcmp(key, "offset") && !read_number(value, &offset))
            return bad(s, what, t, "external data: offset '%s' is no number of 0 or more", value);
        else if (!strcmp(key, "length") && !read_number(value, &length))
            return bad(s, what, t, "external data: length '%s' is no number of 0 or more", value);
    }
    if (!location || !*location)
        return bad(s, what, t, "external data without a location");
    if ((uint64_t)length != bytes)
        return bad(s, what, t, "external data has length %lld, the type needs %llu bytes", (long long)length,
                   (unsigned long long)bytes);
    Blob blob;
    if (!map_external(s, what, t, location, &out->file, &blob))
        return false;
    if ((uint64_t)offset > blob.size || bytes > blob.size - (uint64_t)offset)
        return bad(s, what, t, "external data '%s' has %llu bytes, wanted are %llu at offset %lld", location,
                   (unsigned long long)blob.size, (unsigned long long)bytes, (long long)offset);
    out->data = blob.data + offset;
    out->offset = (uint64_t)offset;
    return true;
}

/* ---- typed fields ------------------------------------------------------------------------------------------------------ */

static bool wrong_count(const TensorSource *s, const char *what, const TensorProto *t, const TensorData *out,
                        const char *field, uint64_t have, uint64_t want)
{
    return bad(s, what, t, "%s has %llu entries, dims and element type %s need %llu", field, (unsigned long long)have,
               dtype_name(out->dtype), (unsigned long long)want);
}

/* int32_data: the value, or the bits of a small float; elements below a byte come packed in bytes, first one lowest. */
static bool pack_int32(const TensorSource *s, const char *what, const TensorProto *t, TensorData *out, uint64_t bytes)
{
    int bits = dtype_bits(out->dtype);
    bool is_signed = dtype_kind(out->dtype) == DK_SINT && bits >= 8;
    uint64_t want = bits < 8 ? bytes : out->count, each = bits < 8 ? 1 : (uint64_t)bits / 8;
    if (t->int32_data.len != want)
        return wrong_count(s, what, t, out, "int32_data", t->int32_data.len, want);
    uint8_t *data = arena_alloc(s->arena, bytes);
    int64_t top = (INT64_C(1) << (is_signed ? bits - 1 : (int)each * 8)) - 1;
    for (uint64_t i = 0; i < want; i++) {
        int64_t value = t->int32_data.data[i];
        bool fits = is_signed ? value >= -top - 1 && value <= top : value >= 0 && value <= top;
        if (!fits || (out->dtype == DT_BOOL && value > 1))
            return bad(s, what, t, "int32_data[%llu] is %lld, which %s does not hold", (unsigned long long)i,
                       (long long)value, dtype_name(out->dtype));
        memcpy(data + i * each, &value, each); /* little-endian */
    }
    out->data = data;
    return true;
}

static bool copy_list(const TensorSource *s, const char *what, const TensorProto *t, TensorData *out, uint64_t bytes,
                      const char *field, const void *list, uint64_t have, uint64_t each)
{
    if (have * each != bytes)
        return wrong_count(s, what, t, out, field, have, bytes / each);
    out->data = arena_copy(s->arena, list, bytes);
    return true;
}

static bool pack_uint64(const TensorSource *s, const char *what, const TensorProto *t, TensorData *out, uint64_t bytes)
{
    if (t->uint64_data.len != out->count)
        return wrong_count(s, what, t, out, "uint64_data", t->uint64_data.len, out->count);
    uint8_t *data = arena_alloc(s->arena, bytes);
    uint64_t each = (uint64_t)dtype_bits(out->dtype) / 8;
    for (uint64_t i = 0; i < out->count; i++) {
        if (each == 4 && (uint64_t)t->uint64_data.data[i] >> 32)
            return bad(s, what, t, "uint64_data[%llu] does not fit u32", (unsigned long long)i);
        memcpy(data + i * each, &t->uint64_data.data[i], each);
    }
    out->data = data;
    return true;
}

static bool read_typed(const TensorSource *s, const char *what, const TensorProto *t, TensorData *out, uint64_t bytes)
{
    uint64_t used = t->float_data.len ? 1 : 0;
    used += (t->int32_data.len != 0) + (t->int64_data.len != 0) + (t->double_data.len != 0) + (t->uint64_data.len != 0);
    if (used > 1 || (used == 0 && out->count))
        return bad(s, what, t, used ? "data in more than one field" : "it has no data");
    switch (out->dtype) {
    case DT_F32:
    case DT_C64: return copy_list(s, what, t, out, bytes, "float_data", t->float_data.data, t->float_data.len, 4);
    case DT_F64:
    case DT_C128: return copy_list(s, what, t, out, bytes, "double_data", t->double_data.data, t->double_data.len, 8);
    case DT_S64: return copy_list(s, what, t, out, bytes, "int64_data", t->int64_data.data, t->int64_data.len, 8);
    case DT_U64:
    case DT_U32: return pack_uint64(s, what, t, out, bytes);
    default: return pack_int32(s, what, t, out, bytes);
    }
}

/* ---- the whole ----------------------------------------------------------------------------------------------------------- */

static bool read_head(TensorSource *s, const char *what, const TensorProto *t, const IntList *dims, TensorData *out)
{
    *out = (TensorData){.dtype = dtype_from_onnx(t->data_type), .file = str_intern(s->ctx, "")};
    if (out->dtype == DT_NONE)
        return bad(s, what, t, "element type %lld is unknown", (long long)t->data_type);
    if (t->segment)
        return bad(s, what, t, "segmented tensors are not supported");
    return read_dims(s, what, t, dims, out);
}

bool onnx_read_tensor(TensorSource *s, const char *what, const TensorProto *t, TensorData *out)
{
    uint64_t bytes;
    if (!read_head(s, what, t, &t->dims, out))
        return false;
    if (out->dtype == DT_STR)
        return bad(s, what, t, "constants of strings are not supported");
    if (!dtype_bytes(out->dtype, out->count, &bytes))
        return bad(s, what, t, "its size overflows");
    if (t->data_location == 1)
        return read_external(s, what, t, bytes, out);
    if (t->data_location != 0)
        return bad(s, what, t, "data_location %lld is unknown", (long long)t->data_location);
    if (!HAS(TensorProto, t, raw_data))
        return read_typed(s, what, t, out, bytes);
    if (t->float_data.len || t->int32_data.len || t->int64_data.len || t->double_data.len || t->uint64_data.len)
        return bad(s, what, t, "data in more than one field");
    if (t->raw_data.size != bytes)
        return bad(s, what, t, "raw_data has %llu bytes, dims and element type %s need %llu",
                   (unsigned long long)t->raw_data.size, dtype_name(out->dtype), (unsigned long long)bytes);
    out->data = t->raw_data.data;
    out->file = str_intern(s->ctx, s->file && strcmp(s->file, "-") != 0 ? s->file : "");
    out->offset = (uint64_t)(t->raw_data.data - s->blob.data);
    return true;
}

/* The linear position of sparse element i; false if an index is out of range. */
static bool sparse_position(const TensorData *indices, const TensorData *out, uint64_t i, uint64_t *at)
{
    *at = 0;
    if (indices->rank == 1) {
        int64_t linear = elem_get_s64(DT_S64, indices->data, i);
        *at = (uint64_t)linear;
        return linear >= 0 && *at < out->count;
    }
    for (uint32_t a = 0; a < out->rank; a++) {
        int64_t index = elem_get_s64(DT_S64, indices->data, i * out->rank + a);
        if (index < 0 || index >= out->dim[a])
            return false;
        *at = *at * (uint64_t)out->dim[a] + (uint64_t)index;
    }
    return true;
}

/* SparseTensorProto: values [NNZ], indices [NNZ] linear or [NNZ, rank], ascending without repetition; made dense. */
bool onnx_read_sparse(TensorSource *s, const SparseTensorProto *sparse, TensorData *out)
{
    static const char *const what = "sparse initializer";
    TensorData values, indices;
    static const TensorProto nothing;
    const TensorProto *t = sparse->values ? sparse->values : &nothing;
    uint64_t bytes, last = 0;
    if (!sparse->values || !sparse->indices)
        return bad(s, what, t, "values or indices are missing");
    if (!onnx_read_tensor(s, what, t, &values) || !onnx_read_tensor(s, what, sparse->indices, &indices) ||
        !read_head(s, what, t, &sparse->dims, out) || !dtype_bytes(out->dtype, out->count, &bytes))
        return false;
    bool shaped = values.rank == 1 && indices.dtype == DT_S64 && indices.dim[0] == values.dim[0] &&
                  (indices.rank == 1 || (indices.rank == 2 && indices.dim[1] == out->rank));
    if (!shaped || dtype_bits(out->dtype) < 8)
        return bad(s, what, t, "values must be [N] of a byte or more each, indices s64[N] or s64[N,%u]", out->rank);
    uint64_t each = (uint64_t)dtype_bits(out->dtype) / 8;
    uint8_t *data = arena_alloc(s->arena, bytes);
    for (uint64_t i = 0; i < values.count; i++) {
        uint64_t at;
        if (!sparse_position(&indices, out, i, &at))
            return bad(s, what, t, "index %llu is out of range", (unsigned long long)i);
        if (i && at <= last)
            return bad(s, what, t, "indices are not ascending at %llu", (unsigned long long)i);
        memcpy(data + at * each, (const uint8_t *)values.data + i * each, each);
        last = at;
    }
    out->data = data;
    return true;
}
