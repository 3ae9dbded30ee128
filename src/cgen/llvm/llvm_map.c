/* SPDX-License-Identifier: Apache-2.0
 *
 * MAP ops and casts in the meaning of numerics.md, "Edge rules": the same bits as elem_map and elem_cast of loop/elem.c.
 *
 * f16 and bf16 values are their 16 bits; arithmetic widens to f32 and rounds back. bf16 conversions are integer code, f16 ones
 * the instructions that every target here has. No operation here becomes a library call, and none traps: divisors are made
 * safe first.
 */
#include "cgen/llvm/llvm_int.h"

static LLVMTypeRef shaped(LLVMValueRef like, LLVMTypeRef elem) { return cg_is_vec(like) ? cg_vec_type(elem) : elem; }

static LLVMValueRef int_like(LLVMValueRef like, uint64_t value)
{
    LLVMTypeRef type = LLVMTypeOf(like);
    if (!cg_is_vec(like))
        return LLVMConstInt(type, value, false);
    return cg_splat_const(LLVMConstInt(LLVMGetElementType(type), value, false));
}

static LLVMValueRef real_like(LLVMValueRef like, double value)
{
    LLVMTypeRef type = LLVMTypeOf(like);
    if (!cg_is_vec(like))
        return LLVMConstReal(type, value);
    return cg_splat_const(LLVMConstReal(LLVMGetElementType(type), value));
}

static LLVMValueRef sel(Cg *cg, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildSelect(cg->b, c, a, b, ""); }

static LLVMValueRef fcmp(Cg *cg, LLVMRealPredicate p, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildFCmp(cg->b, p, a, b, "");
}

static LLVMValueRef icmp(Cg *cg, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildICmp(cg->b, p, a, b, "");
}

static bool is_half(DType t) { return t == DT_F16 || t == DT_BF16; }

/* ---- float formats -------------------------------------------------------------------------------------------------------- */

static LLVMValueRef half_to_f32(Cg *cg, DType t, LLVMValueRef v)
{
    LLVMTypeRef f32 = shaped(v, cg->f32), i32 = shaped(v, cg->i32);
    if (t == DT_F16)
        return LLVMBuildFPExt(cg->b, LLVMBuildBitCast(cg->b, v, shaped(v, cg->half), ""), f32, "");
    LLVMValueRef wide = LLVMBuildZExt(cg->b, v, i32, "");
    return LLVMBuildBitCast(cg->b, LLVMBuildShl(cg->b, wide, int_like(wide, 16), ""), f32, "");
}

static LLVMValueRef half_from_f32(Cg *cg, DType t, LLVMValueRef v)
{
    LLVMTypeRef i16 = shaped(v, cg->i16), i32 = shaped(v, cg->i32);
    if (t == DT_F16)
        return LLVMBuildBitCast(cg->b, LLVMBuildFPTrunc(cg->b, v, shaped(v, cg->half), ""), i16, "");
    /* round half to even: add 0x7fff and the bit that will be last */
    LLVMValueRef bits = LLVMBuildBitCast(cg->b, v, i32, "");
    LLVMValueRef last = LLVMBuildLShr(cg->b, bits, int_like(bits, 16), "");
    last = LLVMBuildAnd(cg->b, last, int_like(bits, 1), "");
    LLVMValueRef sum = LLVMBuildAdd(cg->b, bits, int_like(bits, 0x7fff), "");
    sum = LLVMBuildAdd(cg->b, sum, last, "");
    LLVMValueRef quiet = LLVMBuildOr(cg->b, bits, int_like(bits, 0x400000), "");
    sum = sel(cg, fcmp(cg, LLVMRealUNO, v, v), quiet, sum);
    return LLVMBuildTrunc(cg->b, LLVMBuildLShr(cg->b, sum, int_like(sum, 16), ""), i16, "");
}

/* To f32 rounding to odd, so that a second rounding to fewer bits is correct (Boldo, Melquiond 2008). */
static LLVMValueRef f64_to_odd_f32(Cg *cg, LLVMValueRef x)
{
    LLVMTypeRef f32 = shaped(x, cg->f32), i32 = shaped(x, cg->i32);
    LLVMValueRef near = LLVMBuildFPTrunc(cg->b, x, f32, "");
    LLVMValueRef back = LLVMBuildFPExt(cg->b, near, LLVMTypeOf(x), "");
    LLVMValueRef bits = LLVMBuildBitCast(cg->b, near, i32, "");
    LLVMValueRef inexact = fcmp(cg, LLVMRealONE, back, x);
    LLVMValueRef even = icmp(cg, LLVMIntEQ, LLVMBuildAnd(cg->b, bits, int_like(bits, 1), ""), int_like(bits, 0));
    LLVMValueRef size = cg_unary_intrinsic(cg, "llvm.fabs", back);
    LLVMValueRef too_far = fcmp(cg, LLVMRealOGT, size, cg_unary_intrinsic(cg, "llvm.fabs", x));
    LLVMValueRef step = sel(cg, too_far, int_like(bits, UINT32_MAX), int_like(bits, 1));
    LLVMValueRef odd = LLVMBuildAdd(cg->b, bits, step, "");
    return LLVMBuildBitCast(cg->b, sel(cg, LLVMBuildAnd(cg->b, inexact, even, ""), odd, bits), f32, "");
}

static LLVMValueRef to_arith(Cg *cg, DType t, LLVMValueRef v) { return is_half(t) ? half_to_f32(cg, t, v) : v; }
static LLVMValueRef from_arith(Cg *cg, DType t, LLVMValueRef v) { return is_half(t) ? half_from_f32(cg, t, v) : v; }

/* ---- casts ------------------------------------------------------------------------------------------------------------------ */

static LLVMValueRef cast_from_float(Cg *cg, DType to, DType from, LLVMValueRef v)
{
    if (to == DT_BOOL) {
        v = to_arith(cg, from, v);
        return fcmp(cg, LLVMRealUNE, v, real_like(v, 0));
    }
    if (dtype_is_int(to)) {
        v = to_arith(cg, from, v);
        LLVMTypeRef types[] = {shaped(v, cg_type(cg, to, false)), LLVMTypeOf(v)};
        const char *name = dtype_kind(to) == DK_SINT ? "llvm.fptosi.sat" : "llvm.fptoui.sat";
        return cg_intrinsic(cg, name, types, 2, &v, 1);
    }
    if (from == DT_F64 && to != DT_F64)
        return to == DT_F32 ? LLVMBuildFPTrunc(cg->b, v, shaped(v, cg->f32), "")
                            : half_from_f32(cg, to, f64_to_odd_f32(cg, v));
    v = to_arith(cg, from, v);
    return to == DT_F64 ? LLVMBuildFPExt(cg->b, v, shaped(v, cg->f64), "") : from_arith(cg, to, v);
}

static LLVMValueRef int_to_real(Cg *cg, bool sign, LLVMValueRef v, LLVMTypeRef real)
{
    return sign ? LLVMBuildSIToFP(cg->b, v, shaped(v, real), "") : LLVMBuildUIToFP(cg->b, v, shaped(v, real), "");
}

static LLVMValueRef cast_from_int(Cg *cg, DType to, DType from, LLVMValueRef v)
{
    bool sign = dtype_kind(from) == DK_SINT;
    if (to == DT_BOOL)
        return icmp(cg, LLVMIntNE, v, int_like(v, 0));
    if (dtype_is_int(to)) {
        int have = from == DT_BOOL ? 1 : dtype_bits(from), want = dtype_bits(to);
        LLVMTypeRef type = shaped(v, cg_type(cg, to, false));
        return have == want  ? v
               : have > want ? LLVMBuildTrunc(cg->b, v, type, "")
               : sign        ? LLVMBuildSExt(cg->b, v, type, "")
                             : LLVMBuildZExt(cg->b, v, type, "");
    }
    if (from == DT_BOOL)
        v = LLVMBuildZExt(cg->b, v, shaped(v, cg->i8), "");
    if (to == DT_F32 || to == DT_F64)
        return int_to_real(cg, sign, v, to == DT_F32 ? cg->f32 : cg->f64);
    if (dtype_bits(from) == 64) {
        /* 53 bits with the last one sticky where more are there: any narrow format then rounds it like the integer */
        LLVMValueRef low = LLVMBuildAnd(cg->b, v, int_like(v, 0x7ff), "");
        LLVMValueRef high = LLVMBuildAnd(cg->b, v, int_like(v, ~UINT64_C(0x7ff)), "");
        LLVMValueRef stuck = LLVMBuildOr(cg->b, high, int_like(v, 0x800), "");
        stuck = sel(cg, icmp(cg, LLVMIntEQ, low, int_like(v, 0)), v, stuck);
        LLVMValueRef top = sign ? LLVMBuildXor(cg->b, v, LLVMBuildAShr(cg->b, v, int_like(v, 63), ""), "") : v;
        v = sel(cg, icmp(cg, LLVMIntULT, top, int_like(v, UINT64_C(1) << 53)), v, stuck);
    }
    return half_from_f32(cg, to, f64_to_odd_f32(cg, int_to_real(cg, sign, v, cg->f64)));
}

LLVMValueRef cg_cast(Cg *cg, DType to, DType from, LLVMValueRef v)
{
    if (to == from)
        return v;
    if (dtype_is_float(from))
        return cast_from_float(cg, to, from, v);
    return cast_from_int(cg, to, from, v);
}

static LLVMValueRef bitcast(Cg *cg, DType to, DType from, LLVMValueRef v)
{
    if (to == from)
        return v;
    if (from == DT_BOOL)
        v = LLVMBuildZExt(cg->b, v, shaped(v, cg->i8), "");
    if (to == DT_BOOL)
        return icmp(cg, LLVMIntNE, v, int_like(v, 0));
    return LLVMBuildBitCast(cg->b, v, shaped(v, cg_memory_type(cg, to)), "");
}

/* ---- floats ----------------------------------------------------------------------------------------------------------------- */

static bool constant_not_nan(LLVMValueRef v)
{
    LLVMValueRef one = v;
    if (!LLVMIsConstant(v))
        return false;
    if (cg_is_vec(v))
        one = LLVMGetAggregateElement(v, 0);
    LLVMBool lossy;
    if (!one || !LLVMIsAConstantFP(one))
        return false;
    double value = LLVMConstRealGetDouble(one, &lossy);
    return value == value;
}

static double constant_value(LLVMValueRef v)
{
    LLVMBool lossy;
    return LLVMConstRealGetDouble(cg_is_vec(v) ? LLVMGetAggregateElement(v, 0) : v, &lossy);
}

/* max(a,b) = a > b or a is NaN ? a : b; min alike. Against a constant other than zero one comparison with the variable
 * second keeps NaN and is one instruction. */
static LLVMValueRef choose(Cg *cg, bool max, LLVMValueRef a, LLVMValueRef b)
{
    LLVMRealPredicate p = max ? LLVMRealOGT : LLVMRealOLT;
    if (constant_not_nan(b) && constant_value(b) != 0)
        return sel(cg, fcmp(cg, p, b, a), b, a);
    LLVMValueRef m = sel(cg, fcmp(cg, p, a, b), a, b);
    return constant_not_nan(a) ? m : sel(cg, fcmp(cg, LLVMRealUNO, a, a), a, m);
}

LLVMValueRef cg_fma(Cg *cg, DType dtype, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    if (!dtype_is_float(dtype))
        return LLVMBuildAdd(cg->b, LLVMBuildMul(cg->b, a, b, ""), c, "");
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef args[] = {a, b, c};
    return cg_intrinsic(cg, "llvm.fma", &type, 1, args, 3);
}

LLVMValueRef cg_add(Cg *cg, DType dtype, LLVMValueRef a, LLVMValueRef b)
{
    return dtype_is_float(dtype) ? LLVMBuildFAdd(cg->b, a, b, "") : LLVMBuildAdd(cg->b, a, b, "");
}

static LLVMValueRef map_float(Cg *cg, Op op, DType t, LLVMValueRef *x)
{
    LLVMValueRef a = x[0], b = x[1];
    switch (op) { /* op-switch: one instruction sequence an op */
    case OP_neg: return LLVMBuildFNeg(cg->b, a, "");
    case OP_abs: return cg_unary_intrinsic(cg, "llvm.fabs", a);
    case OP_sign: {
        LLVMValueRef low = sel(cg, fcmp(cg, LLVMRealOLT, a, real_like(a, 0)), real_like(a, -1), a);
        return sel(cg, fcmp(cg, LLVMRealOGT, a, real_like(a, 0)), real_like(a, 1), low);
    }
    case OP_floor: return cg_unary_intrinsic(cg, "llvm.floor", a);
    case OP_ceil: return cg_unary_intrinsic(cg, "llvm.ceil", a);
    case OP_trunc: return cg_unary_intrinsic(cg, "llvm.trunc", a);
    case OP_rint: return cg_unary_intrinsic(cg, "llvm.roundeven", a);
    case OP_sqrt: return cg_unary_intrinsic(cg, "llvm.sqrt", a);
    case OP_rsqrt: return LLVMBuildFDiv(cg->b, real_like(a, 1), cg_unary_intrinsic(cg, "llvm.sqrt", a), "");
    case OP_add: return LLVMBuildFAdd(cg->b, a, b, "");
    case OP_sub: return LLVMBuildFSub(cg->b, a, b, "");
    case OP_mul: return LLVMBuildFMul(cg->b, a, b, "");
    case OP_div: return LLVMBuildFDiv(cg->b, a, b, "");
    case OP_min: return choose(cg, false, a, b);
    case OP_max: return choose(cg, true, a, b);
    case OP_fma: return cg_fma(cg, DT_F32, a, b, x[2]);
    default: break;
    }
    if (t != DT_F64 && cg_has_elementary(op))
        return cg_elementary(cg, op, a, b);
    cg_unsupported(cg, "op %s of %s has no machine code yet", op_info[op].name, dtype_name(t));
    return LLVMGetPoison(LLVMTypeOf(a));
}

/* Comparisons and tests of floats: NULL if op is none. */
static LLVMValueRef test_float(Cg *cg, Op op, LLVMValueRef a, LLVMValueRef b)
{
    switch (op) { /* op-switch: one predicate an op */
    case OP_eq: return fcmp(cg, LLVMRealOEQ, a, b);
    case OP_ne: return fcmp(cg, LLVMRealUNE, a, b);
    case OP_lt: return fcmp(cg, LLVMRealOLT, a, b);
    case OP_le: return fcmp(cg, LLVMRealOLE, a, b);
    case OP_isnan: return fcmp(cg, LLVMRealUNO, a, a);
    case OP_isinf: {
        LLVMValueRef bits = LLVMBuildBitCast(cg->b, a, shaped(a, LLVMGetTypeKind(LLVMTypeOf(a)) == LLVMDoubleTypeKind
                                                                        || (cg_is_vec(a) && LLVMGetElementType(LLVMTypeOf(a)) == cg->f64)
                                                                    ? cg->i64 : cg->i32), "");
        LLVMTypeRef elem = cg_is_vec(bits) ? LLVMGetElementType(LLVMTypeOf(bits)) : LLVMTypeOf(bits);
        uint64_t inf = elem == cg->i64 ? UINT64_C(0x7ff) << 52 : UINT64_C(0xff) << 23;
        uint64_t no_sign = elem == cg->i64 ? UINT64_MAX >> 1 : UINT32_MAX >> 1;
        return icmp(cg, LLVMIntEQ, LLVMBuildAnd(cg->b, bits, int_like(bits, no_sign), ""), int_like(bits, inf));
    }
    default: return NULL;
    }
}

/* ---- integers ---------------------------------------------------------------------------------------------------------------- */

typedef struct IntType {
    bool sign;
    uint64_t width; /* that shifts see */
} IntType;

/* By zero: 0 for div, the dividend for the others. INT_MIN / -1 wraps. */
static LLVMValueRef divide(Cg *cg, Op op, IntType t, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef zero = int_like(a, 0), one = int_like(a, 1), by_zero = icmp(cg, LLVMIntEQ, b, zero);
    LLVMValueRef fallback = op == OP_div ? zero : a;
    if (!t.sign) {
        LLVMValueRef d = sel(cg, by_zero, one, b);
        LLVMValueRef q = op == OP_div ? LLVMBuildUDiv(cg->b, a, d, "") : LLVMBuildURem(cg->b, a, d, "");
        return sel(cg, by_zero, fallback, q);
    }
    LLVMValueRef by_minus = icmp(cg, LLVMIntEQ, b, int_like(a, UINT64_MAX));
    LLVMValueRef d = sel(cg, LLVMBuildOr(cg->b, by_zero, by_minus, ""), one, b);
    if (op == OP_div) {
        LLVMValueRef q = LLVMBuildSDiv(cg->b, a, d, "");
        q = sel(cg, by_minus, LLVMBuildNeg(cg->b, a, ""), q);
        return sel(cg, by_zero, fallback, q);
    }
    LLVMValueRef r = LLVMBuildSRem(cg->b, a, d, ""); /* 0 for -1 by way of 1 */
    if (op == OP_mod) {
        LLVMValueRef differ = icmp(cg, LLVMIntSLT, LLVMBuildXor(cg->b, r, b, ""), zero);
        LLVMValueRef fix = LLVMBuildAnd(cg->b, differ, icmp(cg, LLVMIntNE, r, zero), "");
        r = sel(cg, fix, LLVMBuildAdd(cg->b, r, b, ""), r);
    }
    return sel(cg, by_zero, fallback, r);
}

static LLVMValueRef shift(Cg *cg, Op op, IntType t, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef over = icmp(cg, LLVMIntUGE, b, int_like(b, t.width)), zero = int_like(a, 0);
    LLVMValueRef n = sel(cg, over, zero, b);
    if (op == OP_shl)
        return sel(cg, over, zero, LLVMBuildShl(cg->b, a, n, ""));
    if (!t.sign)
        return sel(cg, over, zero, LLVMBuildLShr(cg->b, a, n, ""));
    return LLVMBuildAShr(cg->b, a, sel(cg, over, int_like(a, t.width - 1), b), "");
}

/* Square and multiply, modulo 2^width. A negative exponent is 1/x^|y| truncated, and 1/0 is 0. */
static LLVMValueRef power(Cg *cg, IntType t, unsigned bits, LLVMValueRef x, LLVMValueRef y)
{
    LLVMValueRef zero = int_like(x, 0), one = int_like(x, 1), result = one, base = x;
    for (unsigned i = 0; i < bits; i++) {
        LLVMValueRef bit = LLVMBuildAnd(cg->b, y, int_like(y, UINT64_C(1) << i), "");
        LLVMValueRef product = LLVMBuildMul(cg->b, result, base, "");
        result = sel(cg, icmp(cg, LLVMIntEQ, bit, zero), result, product);
        if (i + 1 < bits)
            base = LLVMBuildMul(cg->b, base, base, "");
    }
    if (!t.sign)
        return result;
    LLVMValueRef odd = icmp(cg, LLVMIntNE, LLVMBuildAnd(cg->b, y, one, ""), zero);
    LLVMValueRef minus = int_like(x, UINT64_MAX);
    LLVMValueRef small = sel(cg, odd, minus, one);
    small = sel(cg, icmp(cg, LLVMIntEQ, x, minus), small, zero);
    small = sel(cg, icmp(cg, LLVMIntEQ, x, one), one, small);
    return sel(cg, icmp(cg, LLVMIntSLT, y, zero), small, result);
}

static LLVMValueRef map_int(Cg *cg, Op op, DType dtype, LLVMValueRef *x)
{
    LLVMValueRef a = x[0], b = x[1];
    IntType t = {dtype_kind(dtype) == DK_SINT, dtype == DT_BOOL ? 1 : (uint64_t)dtype_bits(dtype)};
    LLVMIntPredicate lt = t.sign ? LLVMIntSLT : LLVMIntULT, le = t.sign ? LLVMIntSLE : LLVMIntULE;
    switch (op) { /* op-switch: one instruction sequence an op */
    case OP_neg: return LLVMBuildNeg(cg->b, a, "");
    case OP_abs: {
        LLVMValueRef minus = t.sign ? LLVMBuildNeg(cg->b, a, "") : NULL;
        return t.sign ? sel(cg, icmp(cg, LLVMIntSLT, a, int_like(a, 0)), minus, a) : a;
    }
    case OP_sign: {
        LLVMValueRef up = sel(cg, icmp(cg, LLVMIntNE, a, int_like(a, 0)), int_like(a, 1), int_like(a, 0));
        return t.sign ? sel(cg, icmp(cg, LLVMIntSLT, a, int_like(a, 0)), int_like(a, UINT64_MAX), up) : up;
    }
    case OP_not: return LLVMBuildNot(cg->b, a, "");
    case OP_add: return LLVMBuildAdd(cg->b, a, b, "");
    case OP_sub: return LLVMBuildSub(cg->b, a, b, "");
    case OP_mul: return LLVMBuildMul(cg->b, a, b, "");
    case OP_div:
    case OP_rem:
    case OP_mod: return divide(cg, op, t, a, b);
    case OP_pow: return power(cg, t, (unsigned)dtype_bits(dtype), a, b);
    case OP_min: return sel(cg, icmp(cg, lt, a, b), a, b);
    case OP_max: return sel(cg, icmp(cg, lt, a, b), b, a);
    case OP_and: return LLVMBuildAnd(cg->b, a, b, "");
    case OP_or: return LLVMBuildOr(cg->b, a, b, "");
    case OP_xor: return LLVMBuildXor(cg->b, a, b, "");
    case OP_shl:
    case OP_shr: return shift(cg, op, t, a, b);
    case OP_eq: return icmp(cg, LLVMIntEQ, a, b);
    case OP_ne: return icmp(cg, LLVMIntNE, a, b);
    case OP_lt: return icmp(cg, lt, a, b);
    case OP_le: return icmp(cg, le, a, b);
    case OP_isnan:
    case OP_isinf: return LLVMConstNull(shaped(a, cg->i1));
    case OP_fma: return LLVMBuildAdd(cg->b, LLVMBuildMul(cg->b, a, b, ""), x[2], "");
    default: break;
    }
    cg_unsupported(cg, "op %s of %s has no machine code", op_info[op].name, dtype_name(dtype));
    return LLVMGetPoison(LLVMTypeOf(a));
}

/* bool arithmetic is that of bytes 0 and 1, then != 0 */
static LLVMValueRef map_bool(Cg *cg, Op op, LLVMValueRef *x, uint32_t n)
{
    LLVMValueRef byte[3] = {0};
    if (op == OP_not)
        return LLVMBuildNot(cg->b, x[0], "");
    for (uint32_t i = 0; i < n && i < IG_COUNT(byte); i++)
        byte[i] = LLVMBuildZExt(cg->b, x[i], shaped(x[i], cg->i8), "");
    LLVMValueRef v = map_int(cg, op, DT_BOOL, byte);
    return LLVMTypeOf(v) == shaped(v, cg->i1) ? v : icmp(cg, LLVMIntNE, v, int_like(v, 0));
}

static bool supported_dtype(DType t)
{
    return t == DT_F32 || t == DT_F64 || is_half(t) || t == DT_BOOL || (dtype_is_int(t) && dtype_bits(t) >= 8);
}

LLVMValueRef cg_map(Cg *cg, Op op, DType to, const DType *from, LLVMValueRef *args, uint32_t n)
{
    LLVMValueRef x[4] = {0};
    DType t = from[0];
    for (uint32_t i = 0; i < n && i < IG_COUNT(x); i++)
        x[i] = args[i];
    if (!supported_dtype(t) || !supported_dtype(to)) {
        cg_unsupported(cg, "%s of %s", op_info[op].name, dtype_name(supported_dtype(t) ? to : t));
        return LLVMGetPoison(shaped(x[0], cg->i8));
    }
    if (op == OP_select)
        return sel(cg, x[0], x[1], x[2]);
    if (op == OP_cast)
        return cg_cast(cg, to, t, x[0]);
    if (op == OP_bitcast)
        return bitcast(cg, to, t, x[0]);
    if (op == OP_stop_gradient)
        return x[0];
    if (t == DT_BOOL)
        return map_bool(cg, op, x, n);
    if (!dtype_is_float(t))
        return map_int(cg, op, t, x);
    for (uint32_t i = 0; i < n; i++)
        x[i] = to_arith(cg, t, x[i]);
    LLVMValueRef truth = test_float(cg, op, x[0], x[1]);
    return truth ? truth : from_arith(cg, t, map_float(cg, op, t, x));
}
