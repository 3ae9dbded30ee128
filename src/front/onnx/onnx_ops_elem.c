/* SPDX-License-Identifier: Apache-2.0
 *
 * Importers of elementwise operators. The text of each ONNX operator is the authority; versions are named where they differ.
 */
#include "front/onnx/onnx_int.h"

#include <math.h>
#include <string.h>

static Val *unary(OnnxNode *n, Op op, Val *x) { return op_unary(n->b, op, x); }
static Val *binary(OnnxNode *n, Op op, Val *x, Val *y) { return op_binary(n->b, op, x, y); }
static Val *fill(OnnxNode *n, Val *like, double value) { return op_const_f64(n->b, like->type->dtype, value); }


/* Before operator set 7 shapes are equal, or with broadcast = 1 the second operand is one element or a run of the first one's
 * axes, from `axis` on or at the end (Add-6). */
static Val *legacy_operand(OnnxNode *n, Val *x, Val *y)
{
    uint64_t count;
    const Dim *dims[IR_MAX_RANK];
    if (n->opset >= 7)
        return y;
    uint32_t rx = val_rank(x), ry = val_rank(y), axis;
    if (!na_int(n, "broadcast", 0)) {
        bool equal = rx == ry;
        for (uint32_t a = 0; equal && a < rx; a++)
            equal = dim_eq(x->type->dim[a], y->type->dim[a]) != TRI_NO;
        return equal ? y : (node_bad(n, "%s without broadcast takes equal shapes", n->row->type), NULL);
    }
    if (type_count(y->type, &count) && count == 1)
        return node_scalar(n, y);
    if (ry > rx)
        return node_bad(n, "the second operand of %s has more axes than the first", n->row->type), NULL;
    int64_t given = na_int(n, "axis", rx - ry);
    if (given == (int64_t)rx - ry)
        return y;
    if (!node_axis(n, "axis", given, rx, &axis))
        return NULL;
    if (axis + ry > rx)
        return na_bad(n, "axis", "%u leaves too few axes for the second operand", axis), NULL;
    for (uint32_t a = 0; a < rx - axis; a++)
        dims[a] = a < ry ? y->type->dim[a] : dim_const(n->ctx, 1);
    return op_reshape(n->b, y, rx - axis, dims);
}

/* PRelu-6: one slope per channel. */
static Val *legacy_slope(OnnxNode *n, Val *x, Val *slope)
{
    const Dim *dims[IR_MAX_RANK];
    int64_t size;
    if (n->opset >= 7 || val_rank(slope) != 1 || val_rank(x) < 2 || (dim_is_const(slope->type->dim[0], &size) && size == 1))
        return slope;
    for (uint32_t a = 0; a + 1 < val_rank(x); a++)
        dims[a] = a ? dim_const(n->ctx, 1) : slope->type->dim[0];
    return op_reshape(n->b, slope, val_rank(x) - 1, dims);
}

bool import_unary(OnnxNode *n)
{
    Op op = (Op)n->row->arg;
    return node_done(n, unary(n, op, n->in[0]));
}

bool import_binary(OnnxNode *n)
{
    Op op = (Op)n->row->arg;
    bool arithmetic = op == OP_add || op == OP_sub || op == OP_mul || op == OP_div;
    if (arithmetic && n->in[0]->type->kind == TY_TENSOR && n->in[0]->type->dtype == DT_BOOL)
        return node_bad(n, "%s takes numbers, not bool", n->row->type);
    bool logical = !strcmp(n->row->type, "And") || !strcmp(n->row->type, "Or") || !strcmp(n->row->type, "Xor");
    for (uint32_t i = 0; logical && i < 2; i++)
        if (n->in[i]->type->kind != TY_TENSOR || n->in[i]->type->dtype != DT_BOOL)
            return node_bad(n, "%s takes bool", n->row->type);
    Val *second = op == OP_prelu ? legacy_slope(n, n->in[0], n->in[1]) : legacy_operand(n, n->in[0], n->in[1]);
    if (!second)
        return false;
    Val *y = binary(n, op, n->in[0], second);
    if (op == OP_prelu && y && (val_rank(y) != val_rank(n->in[0]) || y->type != n->in[0]->type))
        return node_bad(n, "the slope of PRelu does not stretch to the shape of the input");
    return node_done(n, y);
}

bool import_greater(OnnxNode *n)
{
    Val *second = legacy_operand(n, n->in[0], n->in[1]);
    return second && node_done(n, binary(n, (Op)n->row->arg, second, n->in[0]));
}

/* Min, Max, Sum: from left to right */
bool import_variadic(OnnxNode *n)
{
    Val *y = n->in[0];
    for (uint32_t i = 0; i < n->n_in; i++)
        if (!n->in[i])
            return node_bad(n, "input %u of %s is absent", i, n->row->type);
    for (uint32_t i = 1; i < n->n_in; i++)
        y = binary(n, (Op)n->row->arg, y, n->in[i]);
    if (n->n_in == 1 && !(dtype_is_float(y->type->dtype) || dtype_is_int(y->type->dtype)))
        return node_bad(n, "%s takes numbers", n->row->type);
    return node_done(n, y);
}

bool import_mean(OnnxNode *n)
{
    DType dtype = n->in[0]->type->dtype;
    for (uint32_t i = 0; i < n->n_in; i++) {
        if (n->in[i] && n->in[i]->type->dtype != dtype)
            return node_bad(n, "Mean takes inputs of one type");
        n->in[i] = node_widened(n, n->in[i]);
    }
    if (!import_variadic(n))
        return false;
    return node_done_as(n, binary(n, OP_div, n->out[0], fill(n, n->out[0], n->n_in)), dtype);
}


bool import_activation(OnnxNode *n)
{
    Op op = (Op)n->row->arg;
    static const struct {
        Op op;
        double alpha, beta;
        const char *second; /* ONNX name of the second attribute; NULL: none */
    } defaults[] = {{OP_leaky_relu, 0.01, 0, NULL},
                    {OP_elu, 1, 0, NULL},
                    {OP_celu, 1, 0, NULL},
                    {OP_silu, 1, 0, NULL},
                    {OP_selu, 1.67326319217681884765625, 1.05070102214813232421875, "gamma"},
                    {OP_hard_sigmoid, 0.2, 0.5, "beta"}};
    for (size_t i = 0; i < IG_COUNT(defaults); i++) {
        if (defaults[i].op != op)
            continue;
        const char *second = defaults[i].second;
        bool rounded = op == OP_selu && n->opset < 6; /* Selu-1 has shorter defaults */
        double alpha = rounded ? 1.6732 : defaults[i].alpha, beta = rounded ? 1.0507 : defaults[i].beta;
        /* an attribute is an f32; so is a default that f32 does not hold */
        AttrVal attrs[2] = {attr_float(na_float(n, "alpha", (float)alpha)),
                            attr_float(second ? na_float(n, second, (float)beta) : 0)};
        return node_done(n, op_emit(n->b, op, n->in, 1, attrs, second ? 2 : 1));
    }
    ig_bug(n->ctx, "onnx.def: %s is no activation", op_info[op].name);
}

bool import_gelu(OnnxNode *n)
{
    const char *approx;
    if (!na_choice(n, "approximate", "none|tanh", "none", &approx))
        return false;
    AttrVal attr = attr_str(n->ctx, approx);
    return node_done(n, op_emit(n->b, OP_gelu, n->in, 1, &attr, 1));
}

/* x > alpha ? x : 0 */
bool import_thresholded_relu(OnnxNode *n)
{
    Val *x = n->in[0];
    if (!dtype_is_float(x->type->dtype))
        return node_bad(n, "ThresholdedRelu takes floats");
    Val *above = binary(n, OP_lt, fill(n, x, na_float(n, "alpha", 1)), x);
    return node_done(n, op_select(n->b, above, x, fill(n, x, 0)));
}

/* x < -lambd ? x + bias : x > lambd ? x - bias : 0 */
bool import_shrink(OnnxNode *n)
{
    Val *x = n->in[0];
    if (!dtype_is_float(x->type->dtype))
        return node_bad(n, "Shrink takes floats");
    double lambda = na_float(n, "lambd", 0.5), bias = na_float(n, "bias", 0);
    Val *low = binary(n, OP_add, x, fill(n, x, bias)), *high = binary(n, OP_sub, x, fill(n, x, bias));
    Val *above = binary(n, OP_lt, fill(n, x, lambda), x);
    Val *y = op_select(n->b, above, high, fill(n, x, 0));
    return node_done(n, op_select(n->b, binary(n, OP_lt, x, fill(n, x, -lambda)), low, y));
}

bool import_reciprocal(OnnxNode *n)
{
    if (!dtype_is_float(n->in[0]->type->dtype))
        return node_bad(n, "Reciprocal takes floats");
    return node_done(n, binary(n, OP_div, fill(n, n->in[0], 1), n->in[0]));
}

/* x^2 and x^3 of floats as products (doc/numerics.md): half an ULP and 1.5, the bound of pow, and a fraction of its time. NULL
 * where the exponent is another one, or decides the result's shape. The cube needs a type that is not rounded in between. */
static Val *small_power(OnnxNode *n, Val *x, const Val *exponent)
{
    DType t = x->type->dtype;
    uint64_t count;
    double e;
    if (!dtype_is_float(t) || exponent->type->rank > x->type->rank || !node_is_const_fill(exponent, &e) ||
        !type_count(exponent->type, &count) || count != 1)
        return NULL;
    if (e == 2)
        return binary(n, OP_mul, x, x);
    return e == 3 && dtype_bits(t) >= 32 ? binary(n, OP_mul, binary(n, OP_mul, x, x), x) : NULL;
}

/* The exponent may have another type than the base (since 12): float bases take it in their type; an integer base with a float
 * exponent is computed in that float type and truncated. */
bool import_pow(OnnxNode *n)
{
    Val *x = n->in[0], *e = legacy_operand(n, x, n->in[1]);
    if (!e)
        return false;
    DType base = x->type->dtype, exponent = e->type->dtype;
    if (n->opset < 12 && base != exponent)
        return node_bad(n, "before operator set 12 base and exponent of Pow have one type");
    Val *product = small_power(n, x, e);
    if (product)
        return node_done(n, product);
    if (base == exponent)
        return node_done(n, binary(n, OP_pow, x, e));
    if (dtype_is_float(base) || dtype_is_int(exponent))
        return node_done(n, binary(n, OP_pow, x, op_cast_to(n->b, e, base)));
    DType wide = exponent == DT_F64 || dtype_bits(base) > 16 ? DT_F64 : exponent;
    Val *y = op_cast_to(n->b, x, wide);
    y = binary(n, OP_pow, y, op_cast_to(n->b, e, wide));
    return node_done(n, op_cast_to(n->b, y, base));
}

/* Mod-10: fmod = 0: sign of the divisor, integers (floats since 10 need fmod = 1); fmod = 1: sign of the dividend. */
bool import_mod(OnnxNode *n)
{
    int64_t fmod = na_int(n, "fmod", 0);
    if (fmod != 0 && fmod != 1)
        return na_bad(n, "fmod", "%lld is neither 0 nor 1", (long long)fmod);
    if (!fmod && n->opset < 28 && dtype_is_float(n->in[0]->type->dtype))
        return na_bad(n, "fmod", "it must be 1 for floats");
    return node_done(n, binary(n, fmod ? OP_rem : OP_mod, n->in[0], n->in[1]));
}

bool import_bit_shift(OnnxNode *n)
{
    const char *direction;
    if (!na_choice(n, "direction", "LEFT|RIGHT", "", &direction))
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (n->opset < 28 ? dtype_kind(n->in[i]->type->dtype) != DK_UINT : !dtype_is_int(n->in[i]->type->dtype))
            return node_bad(n, n->opset < 28 ? "BitShift takes unsigned integers" : "BitShift takes integers");
    return node_done(n, binary(n, *direction == 'L' ? OP_shl : OP_shr, n->in[0], n->in[1]));
}

bool import_is_inf(OnnxNode *n)
{
    Val *x = n->in[0], *y = unary(n, OP_isinf, x);
    bool negative = na_int(n, "detect_negative", 1) != 0, positive = na_int(n, "detect_positive", 1) != 0;
    if (!y)
        return false;
    if (!negative)
        y = binary(n, OP_and, y, binary(n, OP_lt, fill(n, x, 0), x));
    if (!positive)
        y = binary(n, OP_and, y, binary(n, OP_lt, x, fill(n, x, 0)));
    return node_done(n, y);
}

bool import_where(OnnxNode *n)
{
    if (n->in[0]->type->kind != TY_TENSOR || n->in[0]->type->dtype != DT_BOOL)
        return node_bad(n, "the condition of Where is bool");
    return node_done(n, op_select(n->b, n->in[0], n->in[1], n->in[2]));
}

/* A bound is a scalar; [1] is taken too, as others do. */
static bool clip_bound(OnnxNode *n, uint32_t i, Val **bound)
{
    int64_t size;
    *bound = node_in(n, i);
    if (!*bound)
        return true;
    if (val_rank(*bound) > 1 || (val_rank(*bound) == 1 && !(dim_is_const((*bound)->type->dim[0], &size) && size == 1)))
        return node_bad(n, "a bound of Clip is a scalar");
    *bound = node_scalar(n, *bound);
    return *bound != NULL;
}

bool import_clip(OnnxNode *n)
{
    Val *x = n->in[0], *in[3] = {x, NULL, NULL};
    if (n->row->since < 11) {
        if (na_find(n, "min"))
            in[1] = fill(n, x, na_float(n, "min", 0));
        if (na_find(n, "max"))
            in[2] = fill(n, x, na_float(n, "max", 0));
    } else if (!clip_bound(n, 1, &in[1]) || !clip_bound(n, 2, &in[2])) {
        return false;
    }
    for (uint32_t i = 1; i < 3; i++)
        if (in[i] && in[i]->type->dtype != x->type->dtype)
            return node_bad(n, "bounds of Clip have the type of the input");
    if (!in[1] && !in[2])
        return dtype_is_float(x->type->dtype) || dtype_is_int(x->type->dtype) ? node_done(n, x)
                                                                              : node_bad(n, "Clip takes numbers");
    if (!in[1] || !in[2]) /* numerics.md: min(max(x, lo), hi), of which an absent bound drops its half */
        return node_done(n, in[1] ? binary(n, OP_max, x, in[1]) : binary(n, OP_min, x, in[2]));
    return node_done(n, op_emit(n->b, OP_clip, in, 3, NULL, 0));
}

/* ---- types ----------------------------------------------------------------------------------------------------------------- */

static Val *bits_as(OnnxNode *n, Val *x, DType dtype)
{
    AttrVal attr = attr_dtype(dtype);
    return x ? op_emit(n->b, OP_bitcast, &x, 1, &attr, 1) : NULL;
}

/* Cast-19 with saturate = 0: what rounds beyond the largest f8 becomes infinity where the type has one, else NaN. Halfway to the
 * next power-of-two step goes to the even side: 464 down to 448, the others up. */
Val *node_unsaturated(OnnxNode *n, Val *x, Val *y)
{
    static const struct {
        DType dtype;
        bool down;
        double edge;
        uint8_t positive, negative;
    } rows[] = {{DT_F8E4M3FN, true, 464, 0x7F, 0x7F},
                {DT_F8E4M3FNUZ, false, 248, 0x80, 0x80},
                {DT_F8E5M2, false, 61440, 0x7C, 0xFC},
                {DT_F8E5M2FNUZ, false, 61440, 0x80, 0x80}};
    for (size_t i = 0; i < IG_COUNT(rows); i++) {
        if (rows[i].dtype != y->type->dtype || y->type == x->type)
            continue;
        Val *size = unary(n, OP_abs, x), *edge = fill(n, x, rows[i].edge);
        Val *over = rows[i].down ? binary(n, OP_lt, edge, size) : binary(n, OP_le, edge, size);
        Val *special = op_const_s64(n->b, DT_U8, rows[i].positive); /* chosen as bits: there is no arithmetic on f8 */
        if (rows[i].negative != rows[i].positive) {
            Val *below = binary(n, OP_lt, x, fill(n, x, 0));
            special = op_select(n->b, below, op_const_s64(n->b, DT_U8, rows[i].negative), special);
        }
        return bits_as(n, op_select(n->b, over, special, bits_as(n, y, DT_U8)), rows[i].dtype);
    }
    return y;
}

static bool cast(OnnxNode *n, DType to)
{
    const char *round = na_str(n, "round_mode", "up");
    if (to == DT_F8E8M0 && strcmp(round, "up") != 0)
        return na_bad(n, "round_mode", "'%s' is not supported, supported is up", round);
    Val *y = op_cast_to(n->b, n->in[0], to);
    bool overflows = y && dtype_is_float(n->in[0]->type->dtype) && na_int(n, "saturate", 1) == 0;
    return node_done(n, overflows ? node_unsaturated(n, n->in[0], y) : y);
}

/* Cast-1 names the type as TensorProto.DataType does. */
static DType named_type(const char *name)
{
    static const char *const names[] = {"UNDEFINED", "FLOAT", "UINT8",   "INT8",   "UINT16", "INT16",  "INT32",
                                        "INT64",     "STRING", "BOOL",   "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
    for (uint32_t i = 1; i < IG_COUNT(names); i++)
        if (!strcmp(names[i], name))
            return dtype_from_onnx(i);
    return DT_NONE;
}

bool import_cast(OnnxNode *n)
{
    if (n->row->since < 6) {
        DType named = named_type(na_str(n, "to", ""));
        return named == DT_NONE ? na_bad(n, "to", "element type '%s' is unknown", na_str(n, "to", "")) : cast(n, named);
    }
    DType to = dtype_from_onnx(na_int(n, "to", 0));
    if (to == DT_NONE)
        return na_bad(n, "to", "element type %lld is unknown", (long long)na_int(n, "to", 0));
    return cast(n, to);
}

bool import_cast_like(OnnxNode *n) { return cast(n, n->in[1]->type->dtype); }

bool import_bit_cast(OnnxNode *n)
{
    DType to = dtype_from_onnx(na_int(n, "to", 0));
    if (to == DT_NONE)
        return na_bad(n, "to", "element type %lld is unknown", (long long)na_int(n, "to", 0));
    AttrVal attr = attr_dtype(to);
    return node_done(n, op_emit(n->b, OP_bitcast, n->in, 1, &attr, 1));
}

bool import_identity(OnnxNode *n) { return node_done(n, n->in[0]); }

/* Inference: the data as they are, and a mask of true. */
bool import_dropout(OnnxNode *n)
{
    Val *training = node_in(n, 2);
    double on = 0;
    if (training && !node_scalar_f64(n, 2, "training_mode", &on))
        return false;
    if (on != 0 || (n->row->since < 7 && !na_int(n, "is_test", 0)))
        return node_bad(n, "Dropout in training mode is not supported");
    if (n->n_out > 1) {
        Val *mask = op_const_s64(n->b, DT_BOOL, 1);
        n->out[1] = op_broadcast(n->b, mask, n->in[0]->type->rank, n->in[0]->type->dim);
    }
    return node_done(n, n->in[0]);
}
