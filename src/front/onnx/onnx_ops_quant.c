/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantisation: QuantizeLinear-10 .. 25, DequantizeLinear-10 .. 25, DynamicQuantizeLinear-11 and the operators on quantised
 * tensors. There are no quantised types: an element is a number of its integer type, and these are casts, sums and products.
 *
 *  quantise    saturate(rint(x / scale) + zero point); the quotient has the type `precision`, or that of scale; halves to even,
 *              the sum in f32 (f64 from f64), exact wherever it does not saturate; NaN gives 0
 *  dequantise  (x - zero point) * scale: the difference in s32, the product in f32, rounded once to the result's type
 *  contract    differences from zero points in s32, products and sums in s32 modulo 2^32; padding is skipped, which is what a
 *              padding of zero points is; then saturate(rint(f32(sum) * (scale_a * scale_b / scale_y)) + zero point)
 *
 * Constants of 4 and 2 bits and of f8 and f4 become s8, u8 or f32 here, value by value, since kernels hold no narrower types.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

static Val *binary(OnnxNode *n, Op op, Val *x, Val *y) { return op_binary(n->b, op, x, y); }

static bool is_narrow(DType dtype) { return dtype_bits(dtype) < 8 || (dtype_is_float(dtype) && dtype_bits(dtype) == 8); }

static bool is_quantised(const Val *val)
{
    DType t = val->type->kind == TY_TENSOR ? val->type->dtype : DT_NONE;
    return (dtype_is_int(t) && dtype_bits(t) <= 16) || t == DT_S32 || (dtype_is_float(t) && dtype_bits(t) <= 8);
}

/* The same values in a type that kernels hold, where x is a constant of a narrow type; else x. */
static Val *widened_const(OnnxNode *n, Val *x)
{
    Weight *weight = x && x->type->kind == TY_TENSOR && is_narrow(x->type->dtype) ? val_const(x) : NULL;
    uint64_t count, bytes;
    if (!weight || !type_count(weight->type, &count))
        return x;
    DType from = weight->type->dtype, to = dtype_is_float(from) ? DT_F32 : dtype_kind(from) == DK_SINT ? DT_S8 : DT_U8;
    const Type *type = type_with_dtype(n->ctx, weight->type, to);
    if (!type_bytes(type, &bytes) || bytes > (uint64_t)n->im->max_bytes)
        return x;
    uint8_t *data = arena_alloc(n->im->module->arena, bytes + 8);
    for (uint64_t i = 0; i < count; i++)
        if (to == DT_F32)
            elem_set_f64(to, data, i, elem_get_f64(from, weight->data, i));
        else
            elem_set_s64(to, data, i, elem_get_s64(from, weight->data, i));
    return op_const_weight(n->b, module_weight(n->im->module, weight->name, type, data, false));
}

/* ---- scales and zero points ----------------------------------------------------------------------------------------------- */

static bool has_one_element(const Val *val)
{
    uint64_t count;
    return val->type->kind == TY_TENSOR && type_count(val->type, &count) && count == 1;
}

/* One number per element of `axis` as a tensor that broadcasts against rank axes. */
static Val *on_axis(OnnxNode *n, Val *p, uint32_t axis, uint32_t rank)
{
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t a = 0; a < rank; a++)
        dims[a] = a == axis ? p->type->dim[0] : dim_const(n->ctx, 1);
    return op_reshape(n->b, p, rank, dims);
}

/* One number per block of `block` elements along `axis`; the last block may be short. */
static Val *in_blocks(OnnxNode *n, const Type *x, Val *p, uint32_t axis, int64_t block)
{
    Context *c = n->ctx;
    const Dim *apart[IR_MAX_RANK + 1], *whole[IR_MAX_RANK], *size = dim_const(c, block), *one = dim_const(c, 1);
    const Dim *blocks = dim_floordiv(c, dim_add(c, x->dim[axis], dim_const(c, block - 1)), size);
    bool fits = val_rank(p) == x->rank && x->rank < IR_MAX_RANK && dim_eq(p->type->dim[axis], blocks) == TRI_YES;
    for (uint32_t a = 0; fits && a < x->rank; a++) {
        fits = a == axis || dim_eq(p->type->dim[a], x->dim[a]) == TRI_YES;
        apart[a + (a > axis)] = whole[a] = p->type->dim[a];
    }
    if (!fits)
        return node_bad(n, "scale and zero point in blocks have the shape of the input, but for ceil(size / block_size) on axis %u",
                        axis), NULL;
    apart[axis + 1] = one;
    Val *y = op_reshape(n->b, p, x->rank + 1, apart);
    apart[axis + 1] = size;
    whole[axis] = dim_mul(c, blocks, size);
    y = op_reshape(n->b, op_broadcast(n->b, y, x->rank + 1, apart), x->rank, whole);
    return op_slice_axis(n->b, y, axis, dim_const(c, 0), x->dim[axis], 1);
}

/* A scale or zero point of QuantizeLinear and DequantizeLinear: one, one per element of an axis, or one per block. */
static Val *spread(OnnxNode *n, const Type *x, Val *p)
{
    int64_t block = na_int(n, "block_size", 0);
    uint32_t axis;
    if (p->type->kind != TY_TENSOR)
        return node_bad(n, "scale and zero point are tensors"), NULL;
    if (block < 0 || block > INT32_MAX)
        return na_bad(n, "block_size", "%lld is below 0 or above 2^31-1", (long long)block), NULL;
    if (has_one_element(p) && val_rank(p) <= 1)
        return node_scalar(n, p);
    if (n->row->since < 13)
        return node_bad(n, "before operator set 13 scale and zero point of %s have one element", n->row->type), NULL;
    if (!node_axis(n, "axis", na_int(n, "axis", 1), x->rank, &axis))
        return NULL;
    if (block)
        return in_blocks(n, x, p, axis, block);
    if (val_rank(p) != 1 || dim_eq(p->type->dim[0], x->dim[axis]) != TRI_YES)
        return node_bad(n, "scale and zero point of %s have one element, or as many as axis %u", n->row->type, axis), NULL;
    return on_axis(n, p, axis, x->rank);
}

static bool read_scale(OnnxNode *n, Val **scale)
{
    *scale = n->in[1];
    if ((*scale)->type->kind != TY_TENSOR || !dtype_is_float((*scale)->type->dtype))
        return node_bad(n, "the scale of %s is a float", n->row->type);
    *scale = spread(n, n->in[0]->type, widened_const(n, *scale));
    return *scale != NULL;
}

/* saturate(rint(q) + zero) for a quotient q in f32 or f64 */
static Val *round_to(OnnxNode *n, Val *q, Val *zero, DType dtype)
{
    q = op_unary(n->b, OP_rint, q);
    if (zero)
        q = binary(n, OP_add, q, op_cast_to(n->b, zero, q ? q->type->dtype : DT_F32));
    if (q && dtype_bits(dtype) < 8) {
        int64_t steps = INT64_C(1) << dtype_bits(dtype), low = dtype_kind(dtype) == DK_SINT ? -steps / 2 : 0;
        Val *in[3] = {q, op_const_f64(n->b, q->type->dtype, (double)low), op_const_f64(n->b, q->type->dtype, (double)(low + steps - 1))};
        q = op_emit(n->b, OP_clip, in, 3, NULL, 0);
    }
    return op_cast_to(n->b, q, dtype);
}

static bool quantised_type(OnnxNode *n, const Val *zero, DType *dtype)
{
    int64_t named = na_int(n, "output_dtype", 0);
    *dtype = zero ? zero->type->dtype : named ? dtype_from_onnx(named) : DT_U8;
    if (named && dtype_from_onnx(named) != *dtype)
        return na_bad(n, "output_dtype", "it is %lld, the zero point of QuantizeLinear has another type", (long long)named);
    if (*dtype == DT_NONE || !((dtype_is_int(*dtype) && dtype_bits(*dtype) <= 16) || (dtype_is_float(*dtype) && is_narrow(*dtype))))
        return node_bad(n, "QuantizeLinear gives integers of 2 to 16 bits, f8 and f4");
    return true;
}

bool import_quantize_linear(OnnxNode *n)
{
    Val *x = n->in[0], *zero = node_in(n, 2), *scale;
    int64_t named = na_int(n, "precision", 0);
    DType dtype, precision;
    if (x->type->kind != TY_TENSOR || !(dtype_is_float(x->type->dtype) || x->type->dtype == DT_S32) || is_narrow(x->type->dtype))
        return node_bad(n, "QuantizeLinear takes f64 f32 f16 bf16 and s32");
    if (!read_scale(n, &scale) || !quantised_type(n, zero, &dtype))
        return false;
    precision = named ? dtype_from_onnx(named) : scale->type->dtype;
    if (!dtype_is_float(precision) || is_narrow(precision))
        return na_bad(n, "precision", "%lld is not supported, supported are f64 f32 f16 bf16", (long long)named);
    Val *q = binary(n, OP_div, op_cast_to(n->b, x, precision), op_cast_to(n->b, scale, precision));
    if (dtype_is_float(dtype)) {
        Val *y = op_cast_to(n->b, q, dtype);
        return node_done(n, y && !na_int(n, "saturate", 1) ? node_unsaturated(n, q, y) : y);
    }
    zero = zero ? spread(n, x->type, widened_const(n, zero)) : NULL;
    return (zero || !node_in(n, 2)) && node_done(n, round_to(n, node_widened(n, q), zero, dtype));
}

bool import_dequantize_linear(OnnxNode *n)
{
    Val *x = n->in[0], *zero = node_in(n, 2), *scale;
    int64_t named = na_int(n, "output_dtype", 0);
    DType from = x->type->kind == TY_TENSOR ? x->type->dtype : DT_NONE;
    if (!is_quantised(x))
        return node_bad(n, "DequantizeLinear takes s32, integers of 2 to 16 bits, f8 and f4");
    if (zero && (zero->type->kind != TY_TENSOR || zero->type->dtype != from))
        return node_bad(n, "the zero point of DequantizeLinear has the type of the input");
    if (!read_scale(n, &scale))
        return false;
    DType dtype = named ? dtype_from_onnx(named) : n->in[1]->type->dtype, wide = dtype == DT_F64 ? DT_F64 : DT_F32;
    if (!dtype_is_float(dtype) || is_narrow(dtype))
        return na_bad(n, "output_dtype", "%lld is not supported, supported are f64 f32 f16 bf16", (long long)named);
    x = widened_const(n, x);
    if (zero && !dtype_is_float(from)) {
        zero = op_cast_to(n->b, spread(n, x->type, widened_const(n, zero)), DT_S32);
        x = binary(n, OP_sub, op_cast_to(n->b, x, DT_S32), zero);
    }
    return node_done_as(n, binary(n, OP_mul, op_cast_to(n->b, x, wide), op_cast_to(n->b, scale, wide)), dtype);
}

/* scale = (max(0, max x) - min(0, min x)) / 255; zero point = saturate(rint(-min / scale)). All zeros: scale 0, zeros. */
bool import_dynamic_quantize_linear(OnnxNode *n)
{
    Builder *b = n->b;
    Val *x = n->in[0];
    int64_t axes[IR_MAX_RANK];
    if (x->type->kind != TY_TENSOR || x->type->dtype != DT_F32)
        return node_bad(n, "DynamicQuantizeLinear takes f32");
    for (uint32_t a = 0; a < x->type->rank; a++)
        axes[a] = a;
    Val *zero = op_const_f64(b, DT_F32, 0), *steps = op_const_f64(b, DT_F32, 255);
    Val *high = binary(n, OP_max, node_scalar(n, op_reduce(b, x, "max", axes, x->type->rank)), zero);
    Val *low = binary(n, OP_min, node_scalar(n, op_reduce(b, x, "min", axes, x->type->rank)), zero);
    n->out[1] = binary(n, OP_div, binary(n, OP_sub, high, low), steps);
    n->out[2] = round_to(n, binary(n, OP_div, op_unary(b, OP_neg, low), n->out[1]), NULL, DT_U8);
    n->out[0] = round_to(n, binary(n, OP_div, x, n->out[1]), n->out[2], DT_U8);
    return n->out[0] != NULL;
}

/* ---- contractions ----------------------------------------------------------------------------------------------------------- */

/* A parameter of the rows ([M], or with batch axes and 1 last) or of the columns ([N], or with 1 before) of a matrix. */
static Val *of_matrix(OnnxNode *n, Val *p, bool rows)
{
    p = widened_const(n, p);
    if (p->type->kind != TY_TENSOR)
        return node_bad(n, "scale and zero point are tensors"), NULL;
    if (has_one_element(p))
        return node_scalar(n, p);
    return rows && val_rank(p) == 1 ? on_axis(n, p, 0, 2) : p;
}

/* x - zero in s32; zero already broadcasts. */
static Val *centred(OnnxNode *n, Val *x, Val *zero)
{
    x = op_cast_to(n->b, widened_const(n, x), DT_S32);
    return zero ? binary(n, OP_sub, x, op_cast_to(n->b, zero, DT_S32)) : x;
}

static bool integers(OnnxNode *n, uint32_t i, uint32_t zero)
{
    Val *x = n->in[i], *z = node_in(n, zero);
    if (!is_quantised(x) || dtype_is_float(x->type->dtype) || x->type->dtype == DT_S32)
        return node_bad(n, "input %u of %s is of integers of 2 to 16 bits", i, n->row->type);
    return !z || (z->type->kind == TY_TENSOR && z->type->dtype == x->type->dtype) ||
           node_bad(n, "a zero point of %s has the type of its tensor", n->row->type);
}

static Val *matrix_product(OnnxNode *n, uint32_t a, uint32_t a_zero, uint32_t b, uint32_t b_zero)
{
    Val *za = node_in(n, a_zero), *zb = node_in(n, b_zero);
    if (!integers(n, a, a_zero) || !integers(n, b, b_zero))
        return NULL;
    if ((za && !(za = of_matrix(n, za, true))) || (zb && !(zb = of_matrix(n, zb, false))))
        return NULL;
    return op_matmul(n->b, centred(n, n->in[a], za), centred(n, n->in[b], zb));
}

/* A zero point or scale of a filter: one, or one per output channel; `axis`: that of the channels, of `rank`. */
static Val *of_channels(OnnxNode *n, Val *p, uint32_t axis, uint32_t rank)
{
    if (has_one_element(p))
        return node_scalar(n, p);
    if (val_rank(p) != 1)
        return node_bad(n, "a parameter of the weight of %s is a scalar or a list of channels", n->row->type), NULL;
    return on_axis(n, p, axis, rank);
}

static Val *filter(OnnxNode *n, uint32_t x, uint32_t x_zero, uint32_t w, uint32_t w_zero, Val *bias)
{
    Val *zx = node_in(n, x_zero), *zw = node_in(n, w_zero);
    if (!integers(n, x, x_zero) || !integers(n, w, w_zero))
        return NULL;
    if (zx && !has_one_element(zx))
        return node_bad(n, "the zero point of the input of %s has one element", n->row->type), NULL;
    zw = zw ? of_channels(n, zw, 0, val_rank(n->in[w])) : NULL;
    if (node_in(n, w_zero) && !zw)
        return NULL;
    Val *cx = centred(n, n->in[x], zx ? node_scalar(n, zx) : NULL), *cw = centred(n, n->in[w], zw);
    return cx && cw ? onnx_build_conv(n, cx, cw, bias) : NULL;
}

/* The sum in units of y's scale, rounded. */
static bool requantise(OnnxNode *n, Val *sum, Val *scale_a, Val *scale_b, uint32_t y_scale, uint32_t y_zero)
{
    Val *scale = n->in[y_scale], *zero = n->in[y_zero];
    if (!sum || !scale_a || !scale_b)
        return false;
    if (!is_quantised(zero) || dtype_is_float(zero->type->dtype) || dtype_bits(zero->type->dtype) > 16)
        return node_bad(n, "the zero point of the result of %s is an integer of 2 to 16 bits", n->row->type);
    Val *wide[3] = {scale_a, scale_b, scale};
    for (uint32_t i = 0; i < 3; i++) {
        if (wide[i]->type->kind != TY_TENSOR || !dtype_is_float(wide[i]->type->dtype))
            return node_bad(n, "the scales of %s are floats", n->row->type);
        wide[i] = op_cast_to(n->b, wide[i], DT_F32);
    }
    if (!has_one_element(scale) || !has_one_element(zero))
        return node_bad(n, "scale and zero point of the result of %s have one element", n->row->type);
    Val *factor = binary(n, OP_div, binary(n, OP_mul, wide[0], wide[1]), node_scalar(n, wide[2]));
    Val *y = binary(n, OP_mul, op_cast_to(n->b, sum, DT_F32), factor);
    return node_done(n, round_to(n, y, node_scalar(n, widened_const(n, zero)), zero->type->dtype));
}

bool import_mat_mul_integer(OnnxNode *n) { return node_done(n, matrix_product(n, 0, 2, 1, 3)); }
bool import_conv_integer(OnnxNode *n) { return node_done(n, filter(n, 0, 2, 1, 3, NULL)); }

static bool all_given(const OnnxNode *n, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!node_in(n, i))
            return node_bad(n, "input %u of %s is absent", i, n->row->type);
    return true;
}

bool import_qlinear_mat_mul(OnnxNode *n)
{
    if (!all_given(n, 8))
        return false;
    Val *scale_a = of_matrix(n, n->in[1], true), *scale_b = of_matrix(n, n->in[4], false);
    return requantise(n, matrix_product(n, 0, 2, 3, 5), scale_a, scale_b, 6, 7);
}

bool import_qlinear_conv(OnnxNode *n)
{
    if (!all_given(n, 8))
        return false;
    Val *bias = node_in(n, 8);
    if (bias && (bias->type->kind != TY_TENSOR || bias->type->dtype != DT_S32))
        return node_bad(n, "the bias of QLinearConv is of s32");
    if (!has_one_element(n->in[1]))
        return node_bad(n, "the scale of the input of QLinearConv has one element");
    Val *sum = filter(n, 0, 2, 3, 5, bias);
    Val *scale = sum ? of_channels(n, n->in[4], 1, val_rank(sum)) : NULL;
    return requantise(n, sum, node_scalar(n, n->in[1]), scale, 6, 7);
}

/* ---- operators of the domain com.microsoft, which quantising tools write ------------------------------------------------- */

/* One element of each parameter: scales at i, zero points (may be absent) after them. */
static bool one_each(OnnxNode *n, uint32_t i)
{
    if (!has_one_element(n->in[i]) || (node_in(n, i + 1) && !has_one_element(n->in[i + 1])))
        return node_bad(n, "scales and zero points of %s have one element", n->row->type);
    return true;
}

static Val *centred_at(OnnxNode *n, uint32_t i)
{
    Val *zero = node_in(n, i + 2);
    return integers(n, i, i + 2) && one_each(n, i + 1) ? centred(n, n->in[i], zero ? node_scalar(n, zero) : NULL) : NULL;
}

/* QLinearAdd: (a + b) / scale of dequantised operands; QLinearMul: the product of the differences, requantised */
bool import_qlinear_binary(OnnxNode *n)
{
    Val *x[2], *scale[2];
    if (!all_given(n, 8))
        return false;
    for (uint32_t k = 0; k < 2; k++) {
        if (!(x[k] = centred_at(n, 3 * k)))
            return false;
        scale[k] = op_cast_to(n->b, node_scalar(n, n->in[3 * k + 1]), DT_F32);
    }
    if ((Op)n->row->arg == OP_mul)
        return requantise(n, binary(n, OP_mul, x[0], x[1]), scale[0], scale[1], 6, 7);
    for (uint32_t k = 0; k < 2; k++)
        x[k] = binary(n, OP_mul, op_cast_to(n->b, x[k], DT_F32), scale[k]);
    Val *one = op_const_f64(n->b, DT_F32, 1);
    return requantise(n, binary(n, OP_add, x[0], x[1]), one, one, 6, 7);
}

/* The exact sum over the spatial axes, times scale / count */
bool import_qlinear_global_average_pool(OnnxNode *n)
{
    Val *x = all_given(n, 5) ? centred_at(n, 0) : NULL;
    int64_t axes[IR_MAX_RANK], size;
    uint32_t count = 0;
    double elements = 1;
    bool last = na_int(n, "channels_last", 0) != 0;
    if (!x)
        return false;
    if (x->type->rank < 3)
        return node_bad(n, "%s takes a batch axis, channels and spatial axes", n->row->type);
    for (uint32_t a = last ? 1 : 2; a < x->type->rank - (last ? 1 : 0); a++) {
        if (!dim_is_const(x->type->dim[a], &size) || size < 1)
            return node_bad(n, "axis %u of the input of %s must be a number of 1 or more", a, n->row->type);
        axes[count++] = a;
        elements *= (double)size;
    }
    Val *sum = op_reduce(n->b, x, "sum", axes, count);
    return requantise(n, sum, node_scalar(n, n->in[1]), op_const_f64(n->b, DT_F32, 1 / elements), 3, 4);
}

/* QGemm: alpha * A B + C with C in s32 of scale alpha * a * b; without a scale of y: f32 */
bool import_qgemm(OnnxNode *n)
{
    static const int64_t swap[2] = {1, 0};
    Val *bias = node_in(n, 6);
    if (!all_given(n, 6) || !integers(n, 0, 2) || !integers(n, 3, 5) || !one_each(n, 1))
        return false;
    if (val_rank(n->in[0]) != 2 || val_rank(n->in[3]) != 2)
        return node_bad(n, "QGemm takes matrices");
    if (bias && (bias->type->kind != TY_TENSOR || bias->type->dtype != DT_S32))
        return node_bad(n, "the bias of QGemm is of s32");
    bool across = na_int(n, "transB", 0) != 0;
    Val *zero_b = of_channels(n, n->in[5], across ? 0 : 1, 2), *scale_b = of_channels(n, n->in[4], 1, 2);
    Val *a = centred(n, n->in[0], node_scalar(n, n->in[2])), *b = zero_b ? centred(n, n->in[3], zero_b) : NULL;
    a = na_int(n, "transA", 0) ? op_transpose(n->b, a, swap) : a;
    Val *sum = op_matmul(n->b, a, across ? op_transpose(n->b, b, swap) : b);
    sum = bias ? binary(n, OP_add, sum, bias) : sum;
    Val *alpha = op_const_f64(n->b, DT_F32, na_float(n, "alpha", 1));
    Val *scale_a = binary(n, OP_mul, alpha, op_cast_to(n->b, node_scalar(n, n->in[1]), DT_F32));
    if (node_in(n, 7) && !node_in(n, 8))
        return node_bad(n, "the scale of y comes with its zero point");
    if (node_in(n, 7))
        return requantise(n, sum, scale_a, scale_b, 7, 8);
    return node_done(n, binary(n, OP_mul, op_cast_to(n->b, sum, DT_F32), binary(n, OP_mul, scale_a, scale_b)));
}
