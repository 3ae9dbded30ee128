/* SPDX-License-Identifier: Apache-2.0
 *
 * Means, softmax and normalisations: shape rules and bodies. Every formula and its order is numerics.md "Composites",
 * "Softmax" and "Reduction"; variance is two-pass, exponentials are shifted by the maximum.
 */
#include "op/op_int.h"

#include <string.h>

static Val *add(Builder *b, Val *x, Val *y) { return op_binary(b, OP_add, x, y); }
static Val *sub(Builder *b, Val *x, Val *y) { return op_binary(b, OP_sub, x, y); }
static Val *mul(Builder *b, Val *x, Val *y) { return op_binary(b, OP_mul, x, y); }
static Val *divide(Builder *b, Val *x, Val *y) { return op_binary(b, OP_div, x, y); }
static const AttrVal *axes_of(Op op, const Attrs *attrs) { return attrs_get(op, attrs, AN_axes); }

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static bool like_first(ShapeArgs *args)
{
    return sh_out(args, 0, args->in[0]->dtype, args->in[0]->rank, args->in[0]->dim);
}

/* softmax, log_softmax */
bool shape_axes_float(ShapeArgs *args)
{
    bool seen[IR_MAX_RANK];
    return sh_dtype(args, 0, DS_FLOAT) && sh_axes(args, AN_axes, args->in[0]->rank, seen) && like_first(args);
}

/* layer_norm, rms_norm: scale and bias stretch to x (NumPy rule), never beyond. */
bool shape_norm(ShapeArgs *args)
{
    const Type *x = args->in[0];
    bool seen[IR_MAX_RANK];
    if (!sh_dtype(args, 0, DS_FLOAT) || !sh_axes(args, AN_axes, x->rank, seen))
        return false;
    for (uint32_t i = 1; i < args->n_in; i++)
        if (args->in[i] && (!sh_same_dtype(args, 0, i) || !sh_fits(args, i, x->dim, x->rank)))
            return false;
    return like_first(args);
}

/* instance_norm, group_norm, batch_norm, lrn: x [N, C, ..], vectors [C]. */
bool shape_channel_norm(ShapeArgs *args)
{
    const Type *x = args->in[0];
    if (!sh_dtype(args, 0, DS_FLOAT))
        return false;
    if (x->rank < 2)
        return sh_bad_shape(args, "operand 0 has rank %u, expected [batch, channels, ..]", x->rank);
    for (uint32_t i = 1; i < args->n_in; i++)
        if (!sh_same_dtype(args, 0, i) || !sh_rank(args, i, 1) || !sh_same_dim(args, i, 0, 0, 1))
            return false;
    if (args->op == OP_group_norm) {
        int64_t groups = sh_int(args, AN_groups);
        if (groups < 1 || dim_divides(dim_const(args->ctx, groups), x->dim[1]) != TRI_YES)
            return sh_bad_attr(args, AN_groups, "%lld does not divide the channels", (long long)groups);
    }
    if (args->op == OP_lrn && (sh_int(args, AN_size) < 1 || sh_int(args, AN_size) > INT32_MAX))
        return sh_bad_attr(args, AN_size, "%lld is below 1 or above 2^31-1", (long long)sh_int(args, AN_size));
    return like_first(args);
}

/* ---- means ------------------------------------------------------------------------------------------------------ */

Val *part_mean(Builder *b, Val *x, const int64_t *axes, uint32_t n_axes)
{
    Val *sum = op_reduce(b, x, "sum", axes, n_axes);
    return sum ? divide(b, sum, part_count(b, x->type, x->type->dtype, axes, n_axes)) : NULL;
}

BODY(mean)
{
    BODY_UNUSED;
    const AttrVal *axes = axes_of(OP_mean, attrs);
    return part_mean(b, in[0], axes->u.ints, axes->n);
}

/* The maximum, constant under differentiation. Infinite maxima count as 0 where asked: x - m is then no NaN. */
static Val *row_max(Builder *b, Val *x, const int64_t *axes, uint32_t n_axes, bool finite)
{
    Val *max = op_unary(b, OP_stop_gradient, op_reduce(b, x, "max", axes, n_axes));
    if (!finite || !max)
        return max;
    Val *infinite = op_unary(b, OP_isinf, max);
    return op_select(b, infinite, op_like(b, max, 0), max);
}

/* log(sum(exp(x - m))) + m; a row of -inf gives -inf, a row with +inf gives +inf (ONNX ReduceLogSumExp-18). */
BODY(logsumexp)
{
    BODY_UNUSED;
    const AttrVal *axes = axes_of(OP_logsumexp, attrs);
    Val *max = row_max(b, in[0], axes->u.ints, axes->n, true);
    Val *e = op_unary(b, OP_exp, sub(b, in[0], max));
    return add(b, op_unary(b, OP_log, op_reduce(b, e, "sum", axes->u.ints, axes->n)), max);
}

/* ---- softmax ---------------------------------------------------------------------------------------------------- */

/* exp(d), and +0 where that would be subnormal (decision 010): exp(-87) = 2^-125.5, exp(-708) = 2^-1021.4. NaN is not below. */
static Val *weight_of(Builder *b, Val *d)
{
    if (!d)
        return NULL;
    Val *below = op_binary(b, OP_lt, d, op_like(b, d, d->type->dtype == DT_F64 ? -708 : -87));
    return op_unary(b, OP_exp, op_select(b, below, op_like(b, d, -__builtin_inf()), d));
}

/* m = max, e = exp(x - m), s = sum(e), y = e * (1/s), or e / s where the graph divided; e is never subnormal. guard_empty_rows:
 * a row of -inf only (all keys masked) gives zeros instead of NaN, as ONNX Attention-23 wants. */
Val *part_softmax(Builder *b, Val *x, const int64_t *axes, uint32_t n_axes, bool by_division, bool guard_empty_rows)
{
    Val *max = op_unary(b, OP_stop_gradient, op_reduce(b, x, "max", axes, n_axes));
    if (!max)
        return NULL;
    if (guard_empty_rows) {
        Val *lowest = op_like(b, max, -__builtin_inf());
        Val *none = op_binary(b, OP_eq, max, lowest);
        max = op_select(b, none, op_like(b, max, 0), max);
    }
    Val *e = weight_of(b, sub(b, x, max));
    Val *sum = op_reduce(b, e, "sum", axes, n_axes);
    if (!sum)
        return NULL;
    Val *one = op_like(b, sum, 1);
    if (guard_empty_rows)
        sum = op_select(b, op_binary(b, OP_eq, sum, op_like(b, sum, 0)), one, sum);
    return by_division ? divide(b, e, sum) : mul(b, e, divide(b, one, sum));
}

BODY(softmax)
{
    BODY_UNUSED;
    const AttrVal *axes = axes_of(OP_softmax, attrs);
    bool by_division = attrs_get(OP_softmax, attrs, AN_norm)->u.s[0] == 'd';
    return part_softmax(b, in[0], axes->u.ints, axes->n, by_division, false);
}

/* (x - m) - log(s) */
BODY(log_softmax)
{
    BODY_UNUSED;
    const AttrVal *axes = axes_of(OP_log_softmax, attrs);
    Val *shifted = sub(b, in[0], row_max(b, in[0], axes->u.ints, axes->n, false));
    Val *sum = op_reduce(b, op_unary(b, OP_exp, shifted), "sum", axes->u.ints, axes->n);
    return sub(b, shifted, op_unary(b, OP_log, sum));
}

/* ---- normalisation ---------------------------------------------------------------------------------------------- */

/* 1/sqrt(v + eps) */
static Val *inverse_deviation(Builder *b, Val *variance, double epsilon)
{
    if (!variance)
        return NULL;
    Val *deviation = op_unary(b, OP_sqrt, add(b, variance, op_like(b, variance, epsilon)));
    return divide(b, op_like(b, variance, 1), deviation);
}

/* d = x - mean; v = mean(d*d); d * (1/sqrt(v + eps)) */
static Val *standardise(Builder *b, Val *x, const int64_t *axes, uint32_t n_axes, double epsilon)
{
    Val *d = sub(b, x, part_mean(b, x, axes, n_axes));
    Val *square = mul(b, d, d);
    return square ? mul(b, d, inverse_deviation(b, part_mean(b, square, axes, n_axes), epsilon)) : NULL;
}

/* ONNX LayerNormalization-17 */
BODY(layer_norm)
{
    BODY_UNUSED;
    const AttrVal *axes = axes_of(OP_layer_norm, attrs);
    Val *y = standardise(b, in[0], axes->u.ints, axes->n, attrs_get(OP_layer_norm, attrs, AN_epsilon)->u.f);
    y = mul(b, y, in[1]);
    return n_in > 2 && in[2] ? add(b, y, in[2]) : y;
}

/* ONNX RMSNormalization-23: (x * (1/sqrt(mean(x*x) + eps))) * scale */
BODY(rms_norm)
{
    BODY_UNUSED;
    const AttrVal *axes = axes_of(OP_rms_norm, attrs);
    Val *mean = part_mean(b, mul(b, in[0], in[0]), axes->u.ints, axes->n);
    Val *factor = inverse_deviation(b, mean, attrs_get(OP_rms_norm, attrs, AN_epsilon)->u.f);
    return mul(b, mul(b, in[0], factor), in[1]);
}

/* All axes from `first` on. */
static uint32_t axes_from(const Val *x, uint32_t first, int64_t *axes)
{
    uint32_t n = 0;
    for (uint32_t a = first; a < x->type->rank; a++)
        axes[n++] = a;
    return n;
}

/* ONNX InstanceNormalization-22: over the spatial axes of each channel. */
BODY(instance_norm)
{
    BODY_UNUSED;
    int64_t axes[IR_MAX_RANK];
    uint32_t n = axes_from(in[0], 2, axes), rank = in[0]->type->rank;
    Val *y = standardise(b, in[0], axes, n, attrs_get(OP_instance_norm, attrs, AN_epsilon)->u.f);
    y = mul(b, y, part_channel(b, in[1], rank));
    return add(b, y, part_channel(b, in[2], rank));
}

/* ONNX GroupNormalization-21: over channels and space of each group of channels. */
BODY(group_norm)
{
    BODY_UNUSED;
    Context *ctx = b->module->ctx;
    const Type *type = in[0]->type;
    const Dim *groups = dim_const(ctx, attrs_get(OP_group_norm, attrs, AN_groups)->u.i), *dims[IR_MAX_RANK];
    int64_t axes[IR_MAX_RANK];
    if (type->rank == IR_MAX_RANK) {
        diag_report(ctx, b->loc, DIAG_op_shape, "group_norm", "its body needs one axis more than 12",
                    "a tensor of rank 12");
        return NULL;
    }
    dims[0] = type->dim[0];
    dims[1] = groups;
    dims[2] = dim_floordiv(ctx, type->dim[1], groups);
    memcpy(dims + 3, type->dim + 2, (type->rank - 2) * sizeof *dims);
    Val *split = op_reshape(b, in[0], type->rank + 1, dims);
    if (!split)
        return NULL;
    uint32_t n = axes_from(split, 2, axes);
    Val *y = standardise(b, split, axes, n, attrs_get(OP_group_norm, attrs, AN_epsilon)->u.f);
    y = op_reshape(b, y, type->rank, type->dim);
    y = mul(b, y, part_channel(b, in[1], type->rank));
    return add(b, y, part_channel(b, in[2], type->rank));
}

/* ONNX BatchNormalization-15, inference: ((x - mean) * (1/sqrt(var + eps))) * scale + bias */
BODY(batch_norm)
{
    BODY_UNUSED;
    uint32_t rank = in[0]->type->rank;
    Val *factor = inverse_deviation(b, in[4], attrs_get(OP_batch_norm, attrs, AN_epsilon)->u.f);
    Val *y = sub(b, in[0], part_channel(b, in[3], rank));
    y = mul(b, y, part_channel(b, factor, rank));
    y = mul(b, y, part_channel(b, in[1], rank));
    return add(b, y, part_channel(b, in[2], rank));
}

/* ONNX LRN-13: x / (bias + alpha / size * sum over neighbouring channels of x^2) ^ beta; bias here `epsilon`. The
 * channels summed are c - floor((size-1)/2) .. c + ceil((size-1)/2). */
BODY(lrn)
{
    BODY_UNUSED;
    Context *ctx = b->module->ctx;
    int64_t size = attrs_get(OP_lrn, attrs, AN_size)->u.i, one[IR_MAX_RANK], window[IR_MAX_RANK], lo[IR_MAX_RANK],
            hi[IR_MAX_RANK];
    uint32_t rank = in[0]->type->rank;
    if (dim_is_const(in[0]->type->dim[1], &one[0]) && one[0] == 0) /* no channel: no window fits, nothing to compute */
        return in[0];
    for (uint32_t a = 0; a < rank; a++)
        one[a] = window[a] = 1, lo[a] = hi[a] = 0;
    window[1] = size;
    lo[1] = (size - 1) / 2;
    hi[1] = size / 2;
    AttrVal pool[6] = {attr_ints(window, rank), attr_ints(one, rank), attr_ints(lo, rank),
                       attr_ints(hi, rank),     attr_ints(one, rank), attr_str(ctx, "sum")};
    Val *square = mul(b, in[0], in[0]);
    Val *sum = square ? op_emit(b, OP_reduce_window, &square, 1, pool, 6) : NULL;
    if (!sum)
        return NULL;
    double alpha = attrs_get(OP_lrn, attrs, AN_alpha)->u.f / (double)size;
    Val *epsilon = op_like(b, sum, attrs_get(OP_lrn, attrs, AN_epsilon)->u.f);
    Val *base = add(b, epsilon, mul(b, op_like(b, sum, alpha), sum));
    return divide(b, in[0], op_binary(b, OP_pow, base, op_like(b, base, attrs_get(OP_lrn, attrs, AN_beta)->u.f)));
}
