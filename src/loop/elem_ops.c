/* SPDX-License-Identifier: Apache-2.0
 *
 * The elementwise meaning of every MAP op on typed scalars: numerics.md, "Edge rules" and "Rounding". A scalar is its
 * bits in the low part of a u64, the rest zero.
 *
 * Arithmetic happens in one of three classes. f32, f16 and bf16 are computed in f32 and rounded to their type after
 * each op; f64 in f64; integers and bool as two's complement words modulo 2^64, then cut to their width (bool: != 0).
 * Elementary functions exist in f32 only (base/scalar.h): libm's f64 ones have no portable bits, so elem_supported
 * refuses them. sign keeps zeros of either sign and NaN.
 */
#include "base/scalar.h"
#include "loop/loop_int.h"

#include <math.h>

typedef enum ElemClass { EC_NONE, EC_F32, EC_F64, EC_INT } ElemClass;

static ElemClass class_of(DType dtype)
{
    switch (dtype) {
    case DT_F32:
    case DT_F16:
    case DT_BF16: return EC_F32;
    case DT_F64: return EC_F64;
    case DT_S64:
    case DT_S32:
    case DT_S16:
    case DT_S8:
    case DT_U64:
    case DT_U32:
    case DT_U16:
    case DT_U8:
    case DT_BOOL: return EC_INT;
    default: return EC_NONE;
    }
}

static bool is_signed(DType dtype) { return dtype_kind(dtype) == DK_SINT; }

/* Bits that shifts see; bool is one bit. */
static uint64_t width_of(DType dtype) { return dtype == DT_BOOL ? 1 : (uint64_t)dtype_bits(dtype); }

static float get_f32(DType dtype, uint64_t bits)
{
    return dtype == DT_F32   ? f32_from_bits((uint32_t)bits)
           : dtype == DT_F16 ? f16_to_f32((uint16_t)bits)
                             : bf16_to_f32((uint16_t)bits);
}

static uint64_t put_f32(DType dtype, float value)
{
    return dtype == DT_F32 ? f32_bits(value) : dtype == DT_F16 ? f16_from_f32(value) : bf16_from_f32(value);
}

static int64_t get_int(DType dtype, uint64_t bits)
{
    switch (dtype) {
    case DT_S32: return (int32_t)(uint32_t)bits;
    case DT_S16: return (int16_t)(uint16_t)bits;
    case DT_S8: return (int8_t)(uint8_t)bits;
    default: return (int64_t)bits;
    }
}

static uint64_t put_int(DType dtype, int64_t value)
{
    uint64_t width = (uint64_t)dtype_bits(dtype);
    if (dtype == DT_BOOL)
        return value != 0;
    return width == 64 ? (uint64_t)value : (uint64_t)value & ((UINT64_C(1) << width) - 1);
}

/* ---- floats ------------------------------------------------------------------------------------------------------ */

typedef float F32Fn(float);
static float neg_f32(float x) { return f32_from_bits(f32_bits(x) ^ 0x80000000u); }
static float sign_f32(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : x; }
static float rsqrt_f32(float x) { return 1.0f / sqrtf(x); }

static F32Fn *const f32_unary[OP_COUNT] = {
    [OP_neg] = neg_f32,        [OP_abs] = fabsf,          [OP_sign] = sign_f32,
    [OP_floor] = floorf,       [OP_ceil] = ceilf,         [OP_trunc] = truncf,
    [OP_rint] = rintf,         [OP_sqrt] = sqrtf,         [OP_rsqrt] = rsqrt_f32,
    [OP_exp] = scalar_exp,     [OP_expm1] = scalar_expm1, [OP_log] = scalar_log,
    [OP_log1p] = scalar_log1p, [OP_sin] = scalar_sin,     [OP_cos] = scalar_cos,
    [OP_tan] = scalar_tan,     [OP_asin] = scalar_asin,   [OP_acos] = scalar_acos,
    [OP_atan] = scalar_atan,   [OP_sinh] = scalar_sinh,   [OP_cosh] = scalar_cosh,
    [OP_tanh] = scalar_tanh,   [OP_asinh] = scalar_asinh, [OP_acosh] = scalar_acosh,
    [OP_atanh] = scalar_atanh, [OP_erf] = scalar_erf,     [OP_sigmoid] = scalar_sigmoid,
};

typedef double F64Fn(double);
static double neg_f64(double x) { return f64_from_bits(f64_bits(x) ^ UINT64_C(1) << 63); }
static double sign_f64(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
static double rsqrt_f64(double x) { return 1.0 / sqrt(x); }

static F64Fn *const f64_unary[OP_COUNT] = {
    [OP_neg] = neg_f64, [OP_abs] = fabs,  [OP_sign] = sign_f64, [OP_floor] = floor,     [OP_ceil] = ceil,
    [OP_trunc] = trunc, [OP_rint] = rint, [OP_sqrt] = sqrt,     [OP_rsqrt] = rsqrt_f64,
};

/* Sign of the divisor; an exact zero keeps the dividend's sign. */
static float mod_f32(float x, float y)
{
    float r = fmodf(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static double mod_f64(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static float binary_f32(Op op, float a, float b)
{
    switch (op) { /* op-switch: this file is the meaning of the ops */
    case OP_add: return a + b;
    case OP_sub: return a - b;
    case OP_mul: return a * b;
    case OP_div: return a / b;
    case OP_rem: return fmodf(a, b);
    case OP_mod: return mod_f32(a, b);
    case OP_pow: return scalar_pow(a, b);
    case OP_min: return a < b || a != a ? a : b;
    default: return a > b || a != a ? a : b; /* max */
    }
}

static double binary_f64(Op op, double a, double b)
{
    switch (op) { /* op-switch: this file is the meaning of the ops */
    case OP_add: return a + b;
    case OP_sub: return a - b;
    case OP_mul: return a * b;
    case OP_div: return a / b;
    case OP_rem: return fmod(a, b);
    case OP_mod: return mod_f64(a, b);
    case OP_min: return a < b || a != a ? a : b;
    default: return a > b || a != a ? a : b; /* max */
    }
}

static bool compare_float(Op op, double a, double b)
{
    return op == OP_eq ? a == b : op == OP_ne ? a != b : op == OP_lt ? a < b : a <= b;
}

/* ---- integers -------------------------------------------------------------------------------------------------------- */

/* By zero: 0 for div, the dividend for rem and mod. INT_MIN / -1 wraps. */
static int64_t divide(bool sign, int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    if (!sign)
        return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t remainder_of(bool sign, int64_t a, int64_t b, bool floored)
{
    if (b == 0)
        return a;
    if (!sign)
        return (int64_t)((uint64_t)a % (uint64_t)b);
    int64_t r = b == -1 ? 0 : a % b;
    return floored && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Exact modulo 2^64. A negative exponent is 1/x^|y| truncated, and 1/0 is 0. */
static int64_t power(bool sign, int64_t x, int64_t y)
{
    if (sign && y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)x;
    for (uint64_t e = (uint64_t)y; e; e >>= 1, base *= base)
        if (e & 1)
            result *= base;
    return (int64_t)result;
}

/* By >= width: 0, or the sign; a negative amount is a large one. */
static int64_t shift(Op op, DType dtype, int64_t a, int64_t b)
{
    bool over = (uint64_t)b >= width_of(dtype);
    if (op == OP_shl)
        return over ? 0 : (int64_t)((uint64_t)a << b);
    if (!is_signed(dtype))
        return over ? 0 : (int64_t)((uint64_t)a >> b);
    uint64_t sign = a < 0 ? UINT64_MAX : 0;
    return over ? (int64_t)sign : (int64_t)((((uint64_t)a ^ sign) >> b) ^ sign);
}

static int64_t binary_int(Op op, DType dtype, int64_t a, int64_t b)
{
    bool sign = is_signed(dtype), less = sign ? a < b : (uint64_t)a < (uint64_t)b;
    switch (op) { /* op-switch: this file is the meaning of the ops */
    case OP_add: return wrap_add(a, b);
    case OP_sub: return (int64_t)((uint64_t)a - (uint64_t)b);
    case OP_mul: return wrap_mul(a, b);
    case OP_div: return divide(sign, a, b);
    case OP_rem: return remainder_of(sign, a, b, false);
    case OP_mod: return remainder_of(sign, a, b, true);
    case OP_pow: return power(sign, a, b);
    case OP_min: return less ? a : b;
    case OP_max: return less ? b : a;
    case OP_and: return a & b;
    case OP_or: return a | b;
    case OP_xor: return a ^ b;
    case OP_eq: return a == b;
    case OP_ne: return a != b;
    case OP_lt: return less;
    case OP_le: return less || a == b;
    default: return shift(op, dtype, a, b); /* shl, shr */
    }
}

static int64_t unary_int(Op op, DType dtype, int64_t x)
{
    bool negative = is_signed(dtype) && x < 0;
    switch (op) { /* op-switch: this file is the meaning of the ops */
    case OP_neg: return (int64_t)(0 - (uint64_t)x);
    case OP_abs: return negative ? (int64_t)(0 - (uint64_t)x) : x;
    case OP_sign: return negative ? -1 : x != 0;
    default: return dtype == DT_BOOL ? !x : ~x; /* not */
    }
}

/* ---- the two entries ------------------------------------------------------------------------------------------------- */

bool elem_supported(Op op, DType dtype)
{
    ElemClass c = class_of(dtype);
    if (c == EC_NONE || op_info[op].kind != OK_MAP)
        return false;
    switch (op) { /* op-switch: this file is the meaning of the ops */
    case OP_neg:
    case OP_abs:
    case OP_sign:
    case OP_isnan:
    case OP_isinf:
    case OP_add:
    case OP_sub:
    case OP_mul:
    case OP_div:
    case OP_min:
    case OP_max:
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le:
    case OP_select:
    case OP_fma:
    case OP_cast:
    case OP_bitcast:
    case OP_stop_gradient: return true;
    case OP_rem:
    case OP_mod:
    case OP_pow: return c != EC_F64;
    case OP_not:
    case OP_and:
    case OP_or:
    case OP_xor:
    case OP_shl:
    case OP_shr: return c == EC_INT;
    default: return c == EC_F32 ? f32_unary[op] != NULL : c == EC_F64 && f64_unary[op] != NULL;
    }
}

static double widen(DType dtype, uint64_t bits)
{
    return dtype == DT_F64 ? f64_from_bits(bits) : (double)get_f32(dtype, bits);
}

static uint64_t test_float(Op op, double x) { return op == OP_isnan ? isnan(x) != 0 : isinf(x) != 0; }

static uint64_t map_f32(Op op, DType t, const uint64_t *args)
{
    float a = get_f32(t, args[0]);
    if (op == OP_fma)
        return put_f32(t, fmaf(a, get_f32(t, args[1]), get_f32(t, args[2])));
    if (op_info[op].in_max == 1)
        return put_f32(t, f32_unary[op](a));
    return put_f32(t, binary_f32(op, a, get_f32(t, args[1])));
}

static uint64_t map_f64(Op op, const uint64_t *args)
{
    double a = f64_from_bits(args[0]);
    if (op == OP_fma)
        return f64_bits(fma(a, f64_from_bits(args[1]), f64_from_bits(args[2])));
    if (op_info[op].in_max == 1)
        return f64_bits(f64_unary[op](a));
    return f64_bits(binary_f64(op, a, f64_from_bits(args[1])));
}

static uint64_t map_int(Op op, DType to, DType t, const uint64_t *args)
{
    int64_t a = get_int(t, args[0]);
    if (op == OP_fma)
        return put_int(to, wrap_add(wrap_mul(a, get_int(t, args[1])), get_int(t, args[2])));
    if (op_info[op].in_max == 1)
        return put_int(to, unary_int(op, t, a));
    return put_int(to, binary_int(op, t, a, get_int(t, args[1])));
}

uint64_t elem_map(Op op, DType dtype, const DType *arg_dtypes, const uint64_t *args, uint32_t n)
{
    DType t = arg_dtypes[0];
    ElemClass c = class_of(t);
    (void)n;
    switch (op) { /* op-switch: this file is the meaning of the ops */
    case OP_select: return args[0] ? args[1] : args[2];
    case OP_cast: return elem_cast(dtype, t, args[0]);
    case OP_bitcast:
    case OP_stop_gradient: return args[0];
    case OP_isnan:
    case OP_isinf: return c != EC_INT && test_float(op, widen(t, args[0]));
    case OP_eq:
    case OP_ne:
    case OP_lt:
    case OP_le:
        if (c != EC_INT)
            return compare_float(op, widen(t, args[0]), widen(t, args[1]));
        break;
    default: break;
    }
    return c == EC_F32 ? map_f32(op, t, args) : c == EC_F64 ? map_f64(op, args) : map_int(op, dtype, t, args);
}

/* Float to integer truncates and saturates, NaN gives 0; integers keep their low bits; to bool: != 0 (NaN is true).
 * Every conversion to a float rounds once from the exact value. */
uint64_t elem_cast(DType to, DType from, uint64_t bits)
{
    uint64_t out = 0;
    if (to == from)
        return bits;
    if (class_of(from) != EC_INT) {
        elem_set_f64(to, &out, 0, class_of(from) == EC_NONE ? elem_get_f64(from, &bits, 0) : widen(from, bits));
        return out;
    }
    int64_t value = get_int(from, bits);
    if (class_of(to) == EC_INT)
        return put_int(to, value);
    bool large = !is_signed(from) && value < 0;
    if (to == DT_F32)
        return f32_bits(large ? (float)(uint64_t)value : (float)value);
    if (to == DT_F64)
        return f64_bits(large ? (double)(uint64_t)value : (double)value);
    if (large) /* 53 bits, the last one sticky, so that the narrow format rounds it like the integer */
        elem_set_f64(to, &out, 0, (double)((uint64_t)value >> 11 | (((uint64_t)value & 0x7FF) != 0)) * 2048.0);
    else
        elem_set_s64(to, &out, 0, value);
    return out;
}
