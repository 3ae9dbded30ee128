/* SPDX-License-Identifier: Apache-2.0
 *
 * Importers of operators that fold whole axes.
 */
#include "front/onnx/onnx_int.h"

#include <math.h>
#include <string.h>

/* The axes of a Reduce*: an attribute, or (ReduceSum-13, the others from 18 on) an input. */
static bool reduce_axes(OnnxNode *n, int64_t *axes, uint32_t *n_axes, bool *nothing)
{
    uint32_t rank = n->in[0]->type->rank, count = 0;
    const int64_t *values = NULL;
    *nothing = false;
    if (node_in(n, 1)) {
        if (!node_ints_in(n, 1, "axes", &count, &values))
            return false;
    } else {
        values = na_ints(n, "axes", &count);
    }
    if (count == 0) {
        *nothing = na_int(n, "noop_with_empty_axes", 0) != 0;
        *n_axes = rank;
        for (uint32_t a = 0; a < rank; a++)
            axes[a] = a;
        return true;
    }
    *n_axes = count;
    return node_axes(n, "axes", values, count, rank, axes);
}

static Val *square(Builder *b, Val *x) { return op_binary(b, OP_mul, x, x); }

static Val *composite(Builder *b, Op op, Val *x, const int64_t *axes, uint32_t n_axes)
{
    AttrVal attr = attr_ints(axes, n_axes);
    return op_emit(b, op, &x, 1, &attr, 1);
}

/* Integers: the sum, divided with truncation, as the reference does by casting the quotient. */
static Val *integer_mean(OnnxNode *n, Val *x, const int64_t *axes, uint32_t n_axes)
{
    const Dim *count = dim_const(n->ctx, 1);
    for (uint32_t i = 0; i < n_axes; i++)
        count = dim_mul(n->ctx, count, x->type->dim[axes[i]]);
    Val *size = op_cast_to(n->b, op_dimval(n->b, count), x->type->dtype);
    return op_binary(n->b, OP_div, op_reduce(n->b, x, "sum", axes, n_axes), size);
}

static Val *log_sum_exp(OnnxNode *n, Val *x, const int64_t *axes, uint32_t n_axes)
{
    if (dtype_is_float(x->type->dtype))
        return composite(n->b, OP_logsumexp, x, axes, n_axes);
    Val *wide = composite(n->b, OP_logsumexp, op_cast_to(n->b, x, DT_F64), axes, n_axes);
    return op_cast_to(n->b, wide, x->type->dtype);
}

/* A float function of an integer tensor: through f64, truncated back. */
static Val *in_floats(OnnxNode *n, Op op, Val *x)
{
    if (!x || dtype_is_float(x->type->dtype))
        return op_unary(n->b, op, x);
    return op_cast_to(n->b, op_unary(n->b, op, op_cast_to(n->b, x, DT_F64)), x->type->dtype);
}

static Val *reduce_value(OnnxNode *n, Val *x, const int64_t *axes, uint32_t n_axes)
{
    Builder *b = n->b;
    bool is_bool = x->type->dtype == DT_BOOL;
    switch ((enum ReduceKind)n->row->arg) {
    case RED_SUM: return op_reduce(b, x, "sum", axes, n_axes);
    case RED_PROD: return op_reduce(b, x, "prod", axes, n_axes);
    case RED_MAX: return op_reduce(b, x, is_bool ? "or" : "max", axes, n_axes);
    case RED_MIN: return op_reduce(b, x, is_bool ? "and" : "min", axes, n_axes);
    case RED_MEAN:
        return dtype_is_float(x->type->dtype) ? composite(b, OP_mean, x, axes, n_axes) : integer_mean(n, x, axes, n_axes);
    case RED_L1: return op_reduce(b, op_unary(b, OP_abs, x), "sum", axes, n_axes);
    case RED_L2: return in_floats(n, OP_sqrt, op_reduce(b, square(b, x), "sum", axes, n_axes));
    case RED_LOG_SUM: return in_floats(n, OP_log, op_reduce(b, x, "sum", axes, n_axes));
    case RED_LOG_SUM_EXP: return log_sum_exp(n, x, axes, n_axes);
    case RED_SUM_SQUARE: return op_reduce(b, square(b, x), "sum", axes, n_axes);
    }
    return NULL;
}

bool import_reduce(OnnxNode *n)
{
    Val *x = n->in[0];
    DType dtype = x->type->dtype;
    int64_t axes[IR_MAX_RANK];
    uint32_t n_axes;
    bool nothing;
    if (!reduce_axes(n, axes, &n_axes, &nothing))
        return false;
    enum ReduceKind kind = (enum ReduceKind)n->row->arg;
    if (kind == RED_L1 || kind == RED_L2 || kind == RED_LOG_SUM || kind == RED_SUM_SQUARE)
        x = node_widened(n, x);
    if (nothing) { /* "the output tensor would be equivalent to the input", but for the element's function */
        bool function = kind == RED_L1 || kind == RED_L2 || kind == RED_LOG_SUM || kind == RED_LOG_SUM_EXP || kind == RED_SUM_SQUARE;
        return function ? node_done_as(n, reduce_value(n, x, axes, 0), dtype) : node_done(n, x);
    }
    Val *y = reduce_value(n, x, axes, n_axes);
    return node_done_as(n, y && !na_int(n, "keepdims", 1) ? op_squeeze_axes(n->b, y, axes, n_axes) : y, dtype);
}

bool import_arg(OnnxNode *n)
{
    uint32_t axis;
    Val *x = n->in[0];
    if (!node_axis(n, "axis", na_int(n, "axis", 0), x->type->rank, &axis))
        return false;
    int64_t keep = axis;
    AttrVal attrs[3] = {attr_int(axis), attr_str(n->ctx, (Op)n->row->arg == OP_max ? "max" : "min"),
                        attr_bool(na_int(n, "select_last_index", 0) != 0)};
    Val *y = op_emit(n->b, OP_argreduce, &x, 1, attrs, 3);
    return node_done(n, y && !na_int(n, "keepdims", 1) ? op_squeeze_axes(n->b, y, &keep, 1) : y);
}

static bool cumulate(OnnxNode *n, const char *kind)
{
    const int64_t *values;
    uint32_t count, axis;
    if (!node_ints_in(n, 1, "axis", &count, &values))
        return false;
    if (count != 1)
        return node_bad(n, "axis has %u entries, expected 1", count);
    if (!node_axis(n, "axis", values[0], n->in[0]->type->rank, &axis))
        return false;
    AttrVal attrs[4] = {attr_int(axis), attr_str(n->ctx, kind), attr_bool(na_int(n, "exclusive", 0) != 0),
                        attr_bool(na_int(n, "reverse", 0) != 0)};
    return node_done(n, op_emit(n->b, OP_cumulate, n->in, 1, attrs, 4));
}

bool import_cum_sum(OnnxNode *n) { return cumulate(n, "sum"); }
bool import_cum_prod(OnnxNode *n) { return cumulate(n, "prod"); }

/* Softmax, LogSoftmax. Before 13 the input is flattened to 2-D at axis (default 1), from 13 on one axis (default -1) is meant. */
bool import_softmax(OnnxNode *n)
{
    Val *x = n->in[0];
    Op op = (Op)n->row->arg;
    bool flat = n->opset < 13;
    uint32_t axis, rank = x->type->rank;
    int64_t axes[IR_MAX_RANK], given = na_int(n, "axis", flat ? 1 : -1);
    if (flat && given == rank)
        axis = rank; /* [all, 1] */
    else if (!node_axis(n, "axis", given, rank, &axis))
        return false;
    uint32_t n_axes = 0;
    for (uint32_t a = axis; a < (flat ? rank : axis + 1); a++)
        axes[n_axes++] = a;
    AttrVal attrs[2] = {attr_ints(axes, n_axes), attr_str(n->ctx, "mul")};
    return node_done(n, op_emit(n->b, op, &x, 1, attrs, op == OP_softmax ? 2 : 1));
}

/* 1 at the first largest element of the axis, 0 elsewhere; before 13 flattened as Softmax. */
bool import_hardmax(OnnxNode *n)
{
    Val *x = n->in[0], *shaped = x;
    bool flat = n->opset < 13;
    uint32_t axis, rank = x->type->rank;
    if (!node_axis(n, "axis", na_int(n, "axis", flat ? 1 : -1), rank, &axis))
        return false;
    if (flat) {
        shaped = op_flatten_to(n->b, x, axis);
        axis = 1;
    }
    AttrVal attrs[3] = {attr_int(axis), attr_str(n->ctx, "max"), attr_bool(false)};
    Val *best = shaped ? op_emit(n->b, OP_argreduce, &shaped, 1, attrs, 3) : NULL;
    if (!best)
        return false;
    AttrVal iota[3] = {attr_dtype(DT_S64), attr_dims(shaped->type->dim, shaped->type->rank), attr_int(axis)};
    Val *hit = op_binary(n->b, OP_eq, op_emit(n->b, OP_iota, NULL, 0, iota, 3), best);
    Val *one = op_const_f64(n->b, x->type->dtype, 1);
    Val *y = op_select(n->b, hit, one, op_const_f64(n->b, x->type->dtype, 0));
    return node_done(n, op_reshape(n->b, y, rank, x->type->dim));
}

bool onnx_top_k(OnnxNode *n, Val *x, uint32_t axis, const Dim *k, bool largest, Val **out)
{
    AttrVal attrs[3] = {attr_int(axis), attr_dim(k), attr_str(n->ctx, largest ? "max" : "min")};
    out[0] = op_emit(n->b, OP_topk, &x, 1, attrs, 3);
    out[1] = out[0] && out[0]->def && out[0]->def->op == OP_topk ? ir_out(out[0]->def, 1) : NULL;
    return out[0] && out[1];
}

/* TopK: k is an attribute before 10, then an input. The largest first, or the smallest; `sorted = 0` leaves the order open, so
 * sorted is right. */
bool import_top_k(OnnxNode *n)
{
    Val *x = n->in[0], *out[2];
    uint32_t axis;
    const Dim *k;
    if (!node_axis(n, "axis", na_int(n, "axis", -1), x->type->rank, &axis))
        return false;
    if (n->row->since < 10)
        k = dim_const(n->ctx, na_int(n, "k", 0));
    else if (!node_dim_in(n, 1, "k", &k))
        return false;
    int64_t low, high;
    dim_range(k, &low, &high);
    if (high < 0)
        return node_bad(n, "k is %lld, it must be 0 or more", (long long)high);
    if (!onnx_top_k(n, x, axis, k, na_int(n, "largest", 1) != 0, out))
        return false;
    for (uint32_t i = 0; i < n->n_out; i++)
        n->out[i] = out[i];
    return true;
}
