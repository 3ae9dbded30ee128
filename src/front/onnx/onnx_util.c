/* SPDX-License-Identifier: Apache-2.0
 *
 * What the importers of single operators share: reporting, axes, inputs that must be known when the graph is built.
 */
#include "front/onnx/onnx_int.h"

#include "eval/eval.h"

#include <stdio.h>
#include <string.h>

Loc node_loc(const OnnxNode *n) { return n->b->loc; }

bool node_bad(const OnnxNode *n, const char *format, ...)
{
    Text text;
    char detail[400];
    va_list list;
    va_start(list, format);
    vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    text_init(&text, n->im->arena);
    text_add(&text, detail);
    for (uint32_t i = 0; i < n->n_in; i++) {
        text_add(&text, i ? ", " : "; inputs: ");
        if (n->in[i])
            type_print(&text, n->in[i]->type);
        else
            text_add(&text, "absent");
    }
    return diag_report(n->ctx, node_loc(n), DIAG_onnx_node, text.data);
}

bool node_done(OnnxNode *n, Val *result)
{
    n->out[0] = result;
    return result != NULL;
}

bool node_axis(const OnnxNode *n, const char *name, int64_t value, uint32_t rank, uint32_t *axis)
{
    if (value < -(int64_t)rank || value >= (int64_t)rank)
        return na_bad(n, name, "axis %lld is outside of [-%u,%u)", (long long)value, rank, rank);
    *axis = (uint32_t)(value < 0 ? value + rank : value);
    return true;
}

bool node_axes(const OnnxNode *n, const char *name, const int64_t *values, uint32_t count, uint32_t rank, int64_t *axes)
{
    bool seen[IR_MAX_RANK] = {false};
    if (count > rank)
        return na_bad(n, name, "%u axes of a tensor of rank %u", count, rank);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis = 0;
        if (!node_axis(n, name, values[i], rank, &axis))
            return false;
        if (seen[axis])
            return na_bad(n, name, "axis %u is listed twice", axis);
        seen[axis] = true;
        axes[i] = axis;
    }
    return true;
}

/* ---- inputs known when the graph is built -----------------------------------------------------------------------------
 * Sizes are followed by op_content. What exporters compute through floats (a size times a scale, rounded) is evaluated by the
 * reference evaluator where all of it is constant, a bounded number of small tensors at most. */

enum { FOLD_NODES = 256, FOLD_ELEMENTS = 4096 };

static Tensor *fold_value(const OnnxNode *n, const Val *val, uint32_t *budget)
{
    uint64_t count;
    if (val->type->kind != TY_TENSOR || !type_count(val->type, &count) || count > FOLD_ELEMENTS || val->type->dtype == DT_STR)
        return NULL;
    Weight *weight = val_const(val);
    Arena *arena = n->im->arena;
    if (weight) {
        Tensor *t = ARENA_NEW(arena, Tensor);
        *t = (Tensor){.dtype = val->type->dtype, .store = val->type->dtype, .rank = val->type->rank, .count = count};
        for (uint32_t a = 0; a < t->rank; a++)
            t->dim[a] = type_dim(val->type, a);
        uint64_t bytes;
        if (!type_bytes(val->type, &bytes))
            return NULL;
        t->data = arena_copy(arena, weight->data, bytes);
        return t;
    }
    const Node *def = val->def;
    if (!def || def->n_region || def->n_in > 8 || def->n_out > 4 || *budget == 0)
        return NULL;
    --*budget;
    Tensor *in[8] = {NULL}, *out[4];
    for (uint32_t i = 0; i < def->n_in; i++)
        if (ir_in(def, i) && !(in[i] = fold_value(n, ir_in(def, i), budget)))
            return NULL;
    return eval_node_const(n->ctx, arena, def, in, out) ? out[val->out] : NULL;
}

static Tensor *fold(const OnnxNode *n, const Val *val)
{
    uint32_t budget = FOLD_NODES;
    return fold_value(n, val, &budget);
}

bool node_folds_to(const OnnxNode *n, const Val *val, int64_t *value)
{
    const Tensor *t = fold(n, val);
    if (t)
        *value = elem_get_s64(t->store, t->data, 0);
    return t != NULL;
}

/* A diagnostic of its own: who has the inputs' values can import again with ImportOptions.values. */
bool node_unknown(const OnnxNode *n, uint32_t i, const char *what)
{
    return diag_report(n->ctx, node_loc(n), DIAG_onnx_unknown, n->row->type, i, what);
}

/* ---- lists ---------------------------------------------------------------------------------------------------------------- */

bool node_dims_in(const OnnxNode *n, uint32_t i, const char *what, uint32_t *count, const Dim *const **dims)
{
    static const Dim *const none[1];
    Val *val = node_in(n, i);
    *count = 0;
    *dims = none;
    if (!val)
        return node_bad(n, "input %u (%s) is required", i, what);
    if (val->type->kind != TY_TENSOR || !dtype_is_int(val->type->dtype) || val->type->rank > 1)
        return node_bad(n, "input %u (%s) must be a list of integers", i, what);
    int64_t size;
    if (val->type->rank == 1 && dim_is_const(val->type->dim[0], &size) && size == 0)
        return true;
    *dims = op_content(val, count);
    if (*count)
        return true;
    const Tensor *t = fold(n, val);
    const Dim **list = ARENA_ARRAY(n->im->arena, const Dim *, t ? t->count + 1 : 1);
    for (uint64_t k = 0; t && k < t->count; k++)
        list[k] = dim_const(n->ctx, elem_get_s64(t->store, t->data, k));
    *count = t ? (uint32_t)t->count : 0;
    *dims = list;
    if (*count == 0)
        return node_unknown(n, i, what);
    return true;
}

bool node_dim_in(const OnnxNode *n, uint32_t i, const char *what, const Dim **dim)
{
    uint32_t count;
    const Dim *const *dims;
    if (!node_dims_in(n, i, what, &count, &dims))
        return false;
    if (count != 1)
        return node_bad(n, "input %u (%s) has %u elements, expected one", i, what, count);
    *dim = dims[0];
    return true;
}

bool node_ints_in(const OnnxNode *n, uint32_t i, const char *what, uint32_t *count, const int64_t **values)
{
    Val *val = node_in(n, i);
    Weight *weight = val && val->type->kind == TY_TENSOR && dtype_is_int(val->type->dtype) && val->type->rank <= 1
                         ? val_const(val)
                         : NULL;
    uint64_t elements;
    if (weight && type_count(weight->type, &elements) && elements < UINT32_MAX) {
        int64_t *list = ARENA_ARRAY(n->im->arena, int64_t, elements + 1);
        for (uint64_t k = 0; k < elements; k++)
            list[k] = elem_get_s64(weight->type->dtype, weight->data, k);
        *count = (uint32_t)elements;
        *values = list;
        return true;
    }
    const Dim *const *dims;
    if (!node_dims_in(n, i, what, count, &dims))
        return false;
    int64_t *list = ARENA_ARRAY(n->im->arena, int64_t, *count + 1);
    *values = list;
    for (uint32_t k = 0; k < *count; k++)
        if (!dim_is_const(dims[k], &list[k]))
            return node_bad(n, "input %u (%s) depends on a symbolic size, supported are numbers", i, what);
    return true;
}

bool node_scalar_f64(const OnnxNode *n, uint32_t i, const char *what, double *value)
{
    Val *val = node_in(n, i);
    const Tensor *t = val ? fold(n, val) : NULL;
    if (!t || t->count != 1)
        return t ? node_bad(n, "input %u (%s) must have one element", i, what) : node_unknown(n, i, what);
    *value = elem_get_f64(t->store, t->data, 0);
    return true;
}

bool node_floats_in(const OnnxNode *n, uint32_t i, const char *what, uint32_t *count, const double **values)
{
    Val *val = node_in(n, i);
    if (!val || val->type->kind != TY_TENSOR || val->type->rank > 1 || dtype_kind(val->type->dtype) > DK_UINT)
        return node_bad(n, "input %u (%s) must be a list of numbers", i, what);
    const Tensor *t = fold(n, val);
    if (!t)
        return node_unknown(n, i, what);
    double *list = ARENA_ARRAY(n->im->arena, double, t->count + 1);
    for (uint64_t k = 0; k < t->count; k++)
        list[k] = elem_get_f64(t->store, t->data, k);
    *count = (uint32_t)t->count;
    *values = list;
    return true;
}

bool node_is_const_fill(const Val *val, double *value)
{
    Weight *weight = val ? val_const(val) : NULL;
    uint64_t elements;
    if (!weight || !type_count(weight->type, &elements) || elements == 0 || dtype_kind(weight->type->dtype) > DK_BOOL)
        return false;
    *value = elem_get_f64(weight->type->dtype, weight->data, 0);
    for (uint64_t i = 1; i < elements; i++)
        if (f64_bits(elem_get_f64(weight->type->dtype, weight->data, i)) != f64_bits(*value))
            return false;
    return true;
}

Val *node_const(const OnnxNode *n, DType dtype, uint32_t rank, const int64_t *dims, const double *values)
{
    uint64_t count, bytes;
    const Type *type = type_tensor_s64(n->ctx, dtype, rank, dims);
    IG_CHECK(n->ctx, type_count(type, &count) && type_bytes(type, &bytes));
    void *data = arena_alloc(n->im->arena, bytes + 8);
    for (uint64_t i = 0; i < count; i++)
        elem_set_f64(dtype, data, i, values[i]);
    return op_const_weight(n->b, module_weight(n->im->module, str_intern(n->ctx, ""), type, data, true));
}

/* ---- small builders -------------------------------------------------------------------------------------------------------- */

Val *node_scalar(const OnnxNode *n, Val *x) { return op_reshape(n->b, x, 0, NULL); }

Val *node_widened(const OnnxNode *n, Val *x)
{
    bool narrow = x && dtype_is_float(x->type->dtype) && dtype_bits(x->type->dtype) == 16;
    return narrow ? op_cast_to(n->b, x, DT_F32) : x;
}

bool node_done_as(OnnxNode *n, Val *result, DType dtype) { return node_done(n, op_cast_to(n->b, result, dtype)); }

Val *op_squeeze_axes(Builder *b, Val *x, const int64_t *axes, uint32_t n)
{
    const Dim *dims[IR_MAX_RANK];
    bool drop[IR_MAX_RANK] = {false};
    uint32_t rank = 0;
    if (!x)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        drop[axes[i]] = true;
    for (uint32_t a = 0; a < x->type->rank; a++)
        if (!drop[a])
            dims[rank++] = x->type->dim[a];
    return op_reshape(b, x, rank, dims);
}

const Dim *dim_product(Context *ctx, const Dim *const *dims, uint32_t n)
{
    const Dim *product = dim_const(ctx, 1);
    for (uint32_t i = 0; i < n; i++)
        product = dim_mul(ctx, product, dims[i]);
    return product;
}

Val *op_flatten_to(Builder *b, Val *x, uint32_t axis)
{
    if (!x)
        return NULL;
    Context *ctx = b->module->ctx;
    const Dim *dims[2] = {dim_product(ctx, x->type->dim, axis),
                          dim_product(ctx, x->type->dim + axis, x->type->rank - axis)};
    return op_reshape(b, x, 2, dims);
}
