/* SPDX-License-Identifier: Apache-2.0
 *
 * base/scalar.inc over LLVM values of 16 lanes: the same operations in the same order as its plain C reading, so the same
 * bits. A scalar argument runs through all lanes and leaves by the first.
 */
#include "cgen/llvm/llvm_int.h"

#include <string.h>

typedef LLVMValueRef ScF, ScI, ScM;
typedef struct ScPair {
    ScF hi, lo;
} ScPair;
typedef struct ScReduced {
    ScF r, lo;
    ScI q;
} ScReduced;
typedef struct ScExp {
    ScI n;
    ScF r, lo;
} ScExp;

static LLVMValueRef const_f(const Cg *cg, float value) { return cg_splat_const(cg_const_bits(cg, DT_F32, f32_bits(value))); }
static LLVMValueRef const_i(const Cg *cg, uint32_t value) { return cg_splat_const(LLVMConstInt(cg->i32, value, false)); }

static LLVMValueRef fma_lanes(Cg *cg, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef args[] = {a, b, c};
    return cg_intrinsic(cg, "llvm.fma", &type, 1, args, 3);
}

static LLVMValueRef mul_high(Cg *cg, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef wide = cg_vec_type(cg->i64);
    LLVMValueRef x = LLVMBuildZExt(cg->b, a, wide, ""), y = LLVMBuildZExt(cg->b, b, wide, "");
    LLVMValueRef p = LLVMBuildMul(cg->b, x, y, "");
    p = LLVMBuildLShr(cg->b, p, cg_splat_const(cg_int(cg, 32)), "");
    return LLVMBuildTrunc(cg->b, p, LLVMTypeOf(a), "");
}

/* ---- table lookup ------------------------------------------------------------------------------------------------------ */

static LLVMValueRef part(Cg *cg, LLVMValueRef v, int first, int n)
{
    int64_t lane[LANES];
    for (int i = 0; i < n; i++)
        lane[i] = first + i;
    return cg_shuffle(cg, v, NULL, lane, (uint32_t)n);
}

static LLVMValueRef join(Cg *cg, LLVMValueRef a, LLVMValueRef b)
{
    uint32_t n = 2 * LLVMGetVectorSize(LLVMTypeOf(a));
    int64_t lane[LANES];
    for (uint32_t i = 0; i < n; i++)
        lane[i] = i;
    return cg_shuffle(cg, a, b, lane, n);
}

/* Two vpermps a half, chosen by bit 3 of the index. */
static LLVMValueRef lookup_avx2(Cg *cg, LLVMValueRef table, LLVMValueRef index)
{
    LLVMValueRef half[2], low = part(cg, table, 0, 8), high = part(cg, table, 8, 8);
    for (int h = 0; h < 2; h++) {
        LLVMValueRef i = part(cg, index, 8 * h, 8);
        LLVMValueRef from_low[] = {low, i}, from_high[] = {high, i};
        LLVMValueRef a = cg_intrinsic(cg, "llvm.x86.avx2.permps", NULL, 0, from_low, 2);
        LLVMValueRef b = cg_intrinsic(cg, "llvm.x86.avx2.permps", NULL, 0, from_high, 2);
        LLVMValueRef bit = LLVMBuildShl(cg->b, i, part(cg, const_i(cg, 28), 0, 8), "");
        LLVMValueRef upper = LLVMBuildICmp(cg->b, LLVMIntSLT, bit, LLVMConstNull(LLVMTypeOf(bit)), "");
        half[h] = LLVMBuildSelect(cg->b, upper, b, a, "");
    }
    return join(cg, half[0], half[1]);
}

/* tbl over the table's 64 bytes: byte 4*i + k of each lane. */
static LLVMValueRef lookup_neon(Cg *cg, LLVMValueRef table, LLVMValueRef index)
{
    LLVMTypeRef bytes16 = LLVMVectorType(cg->i8, 16);
    LLVMValueRef args[5], out[4];
    for (int i = 0; i < 4; i++)
        args[i] = LLVMBuildBitCast(cg->b, part(cg, table, 4 * i, 4), bytes16, "");
    LLVMValueRef at = LLVMBuildMul(cg->b, index, const_i(cg, 0x04040404u), "");
    at = LLVMBuildAdd(cg->b, at, const_i(cg, 0x03020100u), "");
    for (int i = 0; i < 4; i++) {
        args[4] = LLVMBuildBitCast(cg->b, part(cg, at, 4 * i, 4), bytes16, "");
        LLVMValueRef v = cg_intrinsic(cg, "llvm.aarch64.neon.tbl4", &bytes16, 1, args, 5);
        out[i] = LLVMBuildBitCast(cg->b, v, LLVMVectorType(cg->f32, 4), "");
    }
    LLVMValueRef low = join(cg, out[0], out[1]);
    return join(cg, low, join(cg, out[2], out[3]));
}

static LLVMValueRef lookup16(Cg *cg, const float *table, LLVMValueRef index)
{
    LLVMValueRef entry[LANES];
    for (int i = 0; i < LANES; i++)
        entry[i] = cg_const_bits(cg, DT_F32, f32_bits(table[i]));
    LLVMValueRef all = LLVMConstVector(entry, LANES), args[] = {all, index};
    switch (cg->machine) {
    case MACHINE_AVX512: return cg_intrinsic(cg, "llvm.x86.avx512.permvar.sf.512", NULL, 0, args, 2);
    case MACHINE_AVX2: return lookup_avx2(cg, all, index);
    case MACHINE_AARCH64: return lookup_neon(cg, all, index);
    default: break;
    }
    LLVMValueRef out = LLVMGetPoison(LLVMTypeOf(all));
    for (unsigned i = 0; i < LANES; i++) {
        LLVMValueRef lane = LLVMConstInt(cg->i32, i, false), at = LLVMBuildExtractElement(cg->b, index, lane, "");
        out = LLVMBuildInsertElement(cg->b, out, LLVMBuildExtractElement(cg->b, all, at, ""), lane, "");
    }
    return out;
}

static LLVMValueRef sc_scale(Cg *cg, LLVMValueRef p, LLVMValueRef i);

/* One instruction of AVX-512 rounds once, as the two steps do. */
static LLVMValueRef scale_lanes(Cg *cg, LLVMValueRef p, LLVMValueRef n, LLVMValueRef i)
{
    if (cg->machine != MACHINE_AVX512)
        return sc_scale(cg, p, i);
    LLVMValueRef all = LLVMConstAllOnes(cg->i16), current = LLVMConstInt(cg->i32, 4, false);
    LLVMValueRef args[] = {p, n, LLVMGetPoison(LLVMTypeOf(p)), all, current};
    return cg_intrinsic(cg, "llvm.x86.avx512.mask.scalef.ps.512", NULL, 0, args, 5);
}

/* ---- the vocabulary ----------------------------------------------------------------------------------------------------- */

#define SC_FN(ret, name, ...) static ret sc_##name(Cg *cg, __VA_ARGS__)
#define SC_CALL(name, ...) sc_##name(cg, __VA_ARGS__)
#define SC_K(z) const_f(cg, (z))
#define SC_KI(z) const_i(cg, (uint32_t)(z))
#define SC_FMA(x, y, z) fma_lanes(cg, (x), (y), (z))
#define SC_ADD(x, y) LLVMBuildFAdd(cg->b, (x), (y), "")
#define SC_SUB(x, y) LLVMBuildFSub(cg->b, (x), (y), "")
#define SC_MUL(x, y) LLVMBuildFMul(cg->b, (x), (y), "")
#define SC_DIV(x, y) LLVMBuildFDiv(cg->b, (x), (y), "")
#define SC_SQRT(x) cg_unary_intrinsic(cg, "llvm.sqrt", (x))
#define SC_RINT(x) cg_unary_intrinsic(cg, "llvm.roundeven", (x))
#define SC_IADD(x, y) LLVMBuildAdd(cg->b, (x), (y), "")
#define SC_ISUB(x, y) LLVMBuildSub(cg->b, (x), (y), "")
#define SC_IMUL(x, y) LLVMBuildMul(cg->b, (x), (y), "")
#define SC_UMULH(x, y) mul_high(cg, (x), (y))
#define SC_AND(x, y) LLVMBuildAnd(cg->b, (x), (y), "")
#define SC_OR(x, y) LLVMBuildOr(cg->b, (x), (y), "")
#define SC_XOR(x, y) LLVMBuildXor(cg->b, (x), (y), "")
#define SC_SHL(x, n) LLVMBuildShl(cg->b, (x), (n), "")
#define SC_LSHR(x, n) LLVMBuildLShr(cg->b, (x), (n), "")
#define SC_ASHR(x, n) LLVMBuildAShr(cg->b, (x), (n), "")
#define SC_LT(x, y) LLVMBuildFCmp(cg->b, LLVMRealOLT, (x), (y), "")
#define SC_LE(x, y) LLVMBuildFCmp(cg->b, LLVMRealOLE, (x), (y), "")
#define SC_GT(x, y) LLVMBuildFCmp(cg->b, LLVMRealOGT, (x), (y), "")
#define SC_GE(x, y) LLVMBuildFCmp(cg->b, LLVMRealOGE, (x), (y), "")
#define SC_EQ(x, y) LLVMBuildFCmp(cg->b, LLVMRealOEQ, (x), (y), "")
#define SC_NE(x, y) LLVMBuildFCmp(cg->b, LLVMRealUNE, (x), (y), "")
#define SC_ILT(x, y) LLVMBuildICmp(cg->b, LLVMIntSLT, (x), (y), "")
#define SC_ULT(x, y) LLVMBuildICmp(cg->b, LLVMIntULT, (x), (y), "")
#define SC_IEQ(x, y) LLVMBuildICmp(cg->b, LLVMIntEQ, (x), (y), "")
#define SC_MAND(x, y) LLVMBuildAnd(cg->b, (x), (y), "")
#define SC_MOR(x, y) LLVMBuildOr(cg->b, (x), (y), "")
#define SC_MXOR(x, y) LLVMBuildXor(cg->b, (x), (y), "")
#define SC_MNOT(x) LLVMBuildNot(cg->b, (x), "")
#define SC_SEL(m, x, y) LLVMBuildSelect(cg->b, (m), (x), (y), "")
#define SC_ISEL(m, x, y) LLVMBuildSelect(cg->b, (m), (x), (y), "")
#define SC_SCALE(p, n, i) scale_lanes(cg, (p), (n), (i))
#define SC_S2F(i) LLVMBuildSIToFP(cg->b, (i), cg_vec_type(cg->f32), "")
/* in range by contract; a NaN lane is unspecified: frozen, for poison may not reach a select */
#define SC_F2S(x) LLVMBuildFreeze(cg->b, LLVMBuildFPToSI(cg->b, (x), cg_vec_type(cg->i32), ""), "")
#define SC_BITS(x) LLVMBuildBitCast(cg->b, (x), cg_vec_type(cg->i32), "")
#define SC_FLOAT(i) LLVMBuildBitCast(cg->b, (i), cg_vec_type(cg->f32), "")
#define SC_LOOKUP16(t, i) lookup16(cg, (t), (i))

#include "base/scalar.inc"

typedef struct Elementary {
    const char *name;
    LLVMValueRef (*one)(Cg *cg, LLVMValueRef x);
    LLVMValueRef (*two)(Cg *cg, LLVMValueRef x, LLVMValueRef y);
} Elementary;
#define ELEMENTARY_1(id) sc_##id, NULL
#define ELEMENTARY_2(id) NULL, sc_##id
static const Elementary elementary[] = {
#define SCALAR_FN(id, arity, bound) {#id, ELEMENTARY_##arity(id)},
#include "base/scalar.def"
#undef SCALAR_FN
};

static const Elementary *find_elementary(Op op)
{
    for (size_t i = 0; i < IG_COUNT(elementary); i++)
        if (!strcmp(elementary[i].name, op_info[op].name))
            return &elementary[i];
    return NULL;
}

bool cg_has_elementary(Op op) { return find_elementary(op) != NULL; }

LLVMValueRef cg_elementary(Cg *cg, Op op, LLVMValueRef x, LLVMValueRef y)
{
    const Elementary *fn = find_elementary(op);
    bool vec = cg_is_vec(x);
    LLVMValueRef zero = LLVMConstInt(cg->i32, 0, false), none = LLVMGetPoison(cg_vec_type(cg->f32));
    if (!vec) {
        /* every lane alike: the garbage of unused lanes may be slow (denormals) */
        LLVMValueRef all = LLVMConstNull(cg_vec_type(cg->i32));
        x = LLVMBuildShuffleVector(cg->b, LLVMBuildInsertElement(cg->b, none, x, zero, ""), none, all, "");
        if (y)
            y = LLVMBuildShuffleVector(cg->b, LLVMBuildInsertElement(cg->b, none, y, zero, ""), none, all, "");
    }
    LLVMValueRef out = fn->one ? fn->one(cg, x) : fn->two(cg, x, y);
    return vec ? out : LLVMBuildExtractElement(cg->b, out, zero, "");
}
