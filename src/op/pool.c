/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows: shapes of reduce_window and argwindow (lowering is beside reduce), and average pooling on top of them.
 * Windows have one entry per axis of the operand, batch and channels included.
 */
#include "op/op_int.h"

bool shape_reduce_window(ShapeArgs *args)
{
    return sh_dtype(args, 0, DS_NUMBER) && sh_window_op(args, args->in[0]->dtype);
}
bool shape_argwindow(ShapeArgs *args) { return sh_dtype(args, 0, DS_NUMBER) && sh_window_op(args, DT_S64); }
bool shape_avg_pool(ShapeArgs *args) { return sh_dtype(args, 0, DS_FLOAT) && sh_window_op(args, args->in[0]->dtype); }

static const int64_t *ints_of(const Attrs *attrs, AttrName name) { return attrs_get(OP_avg_pool, attrs, name)->u.ints; }

/* Taps w of window position `at` with 0 <= start + w * dilation < size. */
static int64_t taps_inside(const Attrs *attrs, uint32_t axis, int64_t size, int64_t at)
{
    int64_t start = at * ints_of(attrs, AN_stride)[axis] - ints_of(attrs, AN_pad_lo)[axis];
    int64_t dilation = ints_of(attrs, AN_dilation)[axis], taps = ints_of(attrs, AN_window)[axis];
    int64_t first = start < 0 ? (-start + dilation - 1) / dilation : 0;
    int64_t end = start < size ? (size - 1 - start) / dilation + 1 : 0;
    end = end < taps ? end : taps;
    return end > first ? end - first : 0;
}

static bool axis_is_padded(const Attrs *attrs, uint32_t axis)
{
    return ints_of(attrs, AN_pad_lo)[axis] > 0 || ints_of(attrs, AN_pad_hi)[axis] > 0;
}

/* The count of taps along one padded axis as a constant of shape [1,..,size,..,1]. */
static Val *axis_count(Builder *b, const Attrs *attrs, const Type *in, const Type *out, DType dtype, uint32_t axis)
{
    Context *ctx = b->module->ctx;
    int64_t dims[IR_MAX_RANK], n = type_dim(out, axis);
    for (uint32_t a = 0; a < out->rank; a++)
        dims[a] = a == axis ? n : 1;
    const Type *type = type_tensor_s64(ctx, dtype, out->rank, dims);
    uint64_t bytes;
    if (!type_bytes(type, &bytes))
        ig_bug(ctx, "avg_pool: its shape rule let a size pass that overflows");
    void *data = arena_alloc(b->module->arena, bytes);
    for (int64_t i = 0; i < n; i++)
        elem_set_f64(dtype, data, (uint64_t)i, (double)taps_inside(attrs, axis, type_dim(in, axis), i));
    return op_const_weight(b, module_weight(b->module, str_intern(ctx, ""), type, data, false));
}

/* The same of sizes that are symbols: taps from ceil(-start / dilation) to ceil((size - start) / dilation), neither beyond the window. */
static Val *sized_axis_count(Builder *b, const Attrs *attrs, const Type *in, const Type *out, DType dtype, uint32_t axis)
{
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t a = 0; a < out->rank; a++)
        dims[a] = a == axis ? out->dim[a] : dim_const(b->module->ctx, 1);
    AttrVal iota[3] = {attr_dtype(DT_S64), attr_dims(dims, out->rank), attr_int(axis)};
    Val *zero = op_const_s64(b, DT_S64, 0), *dilation = op_const_s64(b, DT_S64, ints_of(attrs, AN_dilation)[axis]);
    Val *at = op_emit(b, OP_iota, NULL, 0, iota, 3), *bound[2] = {zero, op_dimval(b, in->dim[axis])};
    Val *start = op_binary(b, OP_mul, at, op_const_s64(b, DT_S64, ints_of(attrs, AN_stride)[axis]));
    start = op_binary(b, OP_sub, start, op_const_s64(b, DT_S64, ints_of(attrs, AN_pad_lo)[axis]));
    for (int i = 0; i < 2; i++) {
        Val *way = op_binary(b, OP_max, op_binary(b, OP_sub, bound[i], start), zero);
        way = op_binary(b, OP_add, way, op_binary(b, OP_sub, dilation, op_const_s64(b, DT_S64, 1)));
        bound[i] = op_binary(b, OP_div, way, dilation);
    }
    Val *end = op_binary(b, OP_min, bound[1], op_const_s64(b, DT_S64, ints_of(attrs, AN_window)[axis]));
    return op_cast_to(b, op_binary(b, OP_max, op_binary(b, OP_sub, end, bound[0]), zero), dtype);
}

/* ONNX AveragePool-22: sum / count. count_pad: all taps of the window count (the part of a window beyond the padding,
 * which ceil_mode makes, is expressed by an explicit pad before: then count_pad is false). */
BODY(avg_pool)
{
    BODY_UNUSED;
    const Type *x = in[0]->type;
    bool count_pad = attrs_get(OP_avg_pool, attrs, AN_count_pad)->u.i != 0;
    AttrVal window[6];
    static const AttrName names[5] = {AN_window, AN_stride, AN_pad_lo, AN_pad_hi, AN_dilation};
    for (uint32_t i = 0; i < 5; i++)
        window[i] = *attrs_get(OP_avg_pool, attrs, names[i]);
    window[5] = attr_str(b->module->ctx, "sum");
    Val *sum = op_emit(b, OP_reduce_window, in, 1, window, 6);
    double full = 1;
    Val *count = NULL;
    for (uint32_t a = 0; a < x->rank; a++) {
        if (count_pad || !axis_is_padded(attrs, a)) {
            full *= (double)ints_of(attrs, AN_window)[a];
            continue;
        }
        bool numbers = dim_is_const(x->dim[a], NULL) && dim_is_const(out->dim[a], NULL);
        Val *axis = (numbers ? axis_count : sized_axis_count)(b, attrs, x, out, x->dtype, a);
        count = count ? op_binary(b, OP_mul, count, axis) : axis;
    }
    Val *whole = full != 1 || !count ? op_const_f64(b, x->dtype, full) : NULL;
    count = !count ? whole : whole ? op_binary(b, OP_mul, count, whole) : count;
    return op_binary(b, OP_div, sum, count);
}
