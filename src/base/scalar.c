/* SPDX-License-Identifier: Apache-2.0
 *
 * scalar.inc on plain `float`.
 *
 * On x86-64 every body is compiled twice: for the baseline, where fma and rint are calls into the C library, and for
 * AVX2 + FMA, chosen at run time. Both are exact operations, so the results are equal. Arrays go through blocks of a
 * constant length, which compilers turn into vector code without alias or remainder tests. Must be compiled without
 * contraction (-ffp-contract=off), as all of igata.
 */
#include "base/scalar.h"

#include <stdint.h>
#include <string.h>

typedef float ScF;
typedef uint32_t ScI;
typedef int32_t ScM; /* 0 or -1 */
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

#define INLINE static inline __attribute__((always_inline))

INLINE ScI to_bits(ScF x)
{
    ScI i;
    memcpy(&i, &x, sizeof i);
    return i;
}

INLINE ScF from_bits(ScI i)
{
    ScF x;
    memcpy(&x, &i, sizeof x);
    return x;
}

/* C leaves >> of a negative number to the compiler; both that build igata shift in the sign, and this must not hang on
 * it either. */
INLINE ScI shift_signed(ScI a, ScI n)
{
    ScI sign = 0u - (a >> 31);
    return ((a ^ sign) >> n) ^ sign;
}

#define SC_FN(ret, name, ...) INLINE ret sc_##name(__VA_ARGS__)
#define SC_CALL(name, ...) sc_##name(__VA_ARGS__)
#define SC_K(c) (c)
#define SC_KI(c) ((ScI)(c))
#define SC_FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#define SC_ADD(a, b) ((a) + (b))
#define SC_SUB(a, b) ((a) - (b))
#define SC_MUL(a, b) ((a) * (b))
#define SC_DIV(a, b) ((a) / (b))
#define SC_SQRT(a) __builtin_sqrtf(a)
#define SC_RINT(a) __builtin_rintf(a)
#define SC_IADD(a, b) ((ScI)((a) + (b)))
#define SC_ISUB(a, b) ((ScI)((a) - (b)))
#define SC_IMUL(a, b) ((ScI)((a) * (b)))
#define SC_UMULH(a, b) ((ScI)(((uint64_t)(a) * (b)) >> 32))
#define SC_AND(a, b) ((a) & (b))
#define SC_OR(a, b) ((a) | (b))
#define SC_XOR(a, b) ((a) ^ (b))
#define SC_SHL(a, n) ((ScI)((a) << (n)))
#define SC_LSHR(a, n) ((a) >> (n))
#define SC_ASHR(a, n) shift_signed((a), (n))
#define SC_LT(a, b) (-(ScM)((a) < (b)))
#define SC_LE(a, b) (-(ScM)((a) <= (b)))
#define SC_GT(a, b) (-(ScM)((a) > (b)))
#define SC_GE(a, b) (-(ScM)((a) >= (b)))
#define SC_EQ(a, b) (-(ScM)((a) == (b)))
#define SC_NE(a, b) (-(ScM)((a) != (b)))
#define SC_ILT(a, b) (-(ScM)((int32_t)(a) < (int32_t)(b)))
#define SC_ULT(a, b) (-(ScM)((a) < (b)))
#define SC_IEQ(a, b) (-(ScM)((a) == (b)))
#define SC_MAND(a, b) ((a) & (b))
#define SC_MOR(a, b) ((a) | (b))
#define SC_MXOR(a, b) ((a) ^ (b))
#define SC_MNOT(a) (~(a))
#define SC_ISEL(m, a, b) select_bits((m), (a), (b))
#define SC_SEL(m, a, b) from_bits(select_bits((m), to_bits(a), to_bits(b)))
#define SC_SCALE(p, n, i) sc_scale((p), (i))
#define SC_S2F(i) ((ScF)(int32_t)(i))
#define SC_F2S(a) ((ScI)(int32_t)(a))
#define SC_BITS(a) to_bits(a)
#define SC_FLOAT(i) from_bits(i)
#define SC_LOOKUP16(t, i) ((t)[i])

INLINE ScI select_bits(ScM m, ScI a, ScI b) { return (a & (ScI)m) | (b & ~(ScI)m); }

#include "base/scalar.inc"

const ScalarDef scalar_defs[SCALAR_COUNT] = {
#define SCALAR_FN(id, arity, bound) {#id, arity, bound},
#include "base/scalar.def"
#undef SCALAR_FN
};

#if defined(__x86_64__) && !defined(__FMA__)
#define HAVE_WIDE 1
#define WIDE __attribute__((target("avx2,fma")))
static int has_wide(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
#else
#define HAVE_WIDE 0
#define WIDE
#endif

enum { BLOCK = 64 };
typedef void Block1(const float *x, float *y);
typedef void Block2(const float *x, const float *y, float *z);
typedef struct Blocks {
    Block1 *one;
    Block2 *two;
} Blocks;

/* One value and one block of BLOCK values, for one instruction set. The local copies keep aliasing out of the loop. */
#define BODY_1(kind, attr, id)                                                                                         \
    attr static float kind##_##id(float x) { return sc_##id(x); }                                                      \
    attr static void kind##_block_##id(const float *x, float *y)                                                       \
    {                                                                                                                  \
        float in[BLOCK], out[BLOCK];                                                                                   \
        memcpy(in, x, sizeof in);                                                                                      \
        for (int i = 0; i < BLOCK; i++)                                                                                \
            out[i] = sc_##id(in[i]);                                                                                   \
        memcpy(y, out, sizeof out);                                                                                    \
    }
#define BODY_2(kind, attr, id)                                                                                         \
    attr static float kind##_##id(float x, float y) { return sc_##id(x, y); }                                          \
    attr static void kind##_block_##id(const float *x, const float *y, float *z)                                       \
    {                                                                                                                  \
        float in[BLOCK], by[BLOCK], out[BLOCK];                                                                        \
        memcpy(in, x, sizeof in);                                                                                      \
        memcpy(by, y, sizeof by);                                                                                      \
        for (int i = 0; i < BLOCK; i++)                                                                                \
            out[i] = sc_##id(in[i], by[i]);                                                                            \
        memcpy(z, out, sizeof out);                                                                                    \
    }
#define ROW_1(kind, id) {kind##_block_##id, NULL},
#define ROW_2(kind, id) {NULL, kind##_block_##id},

#define SCALAR_FN(id, arity, bound) BODY_##arity(base, , id)
#include "base/scalar.def"
#undef SCALAR_FN
static const Blocks base_blocks[SCALAR_COUNT] = {
#define SCALAR_FN(id, arity, bound) ROW_##arity(base, id)
#include "base/scalar.def"
#undef SCALAR_FN
};

#if HAVE_WIDE
#define SCALAR_FN(id, arity, bound) BODY_##arity(wide, WIDE, id)
#include "base/scalar.def"
#undef SCALAR_FN
static const Blocks wide_blocks[SCALAR_COUNT] = {
#define SCALAR_FN(id, arity, bound) ROW_##arity(wide, id)
#include "base/scalar.def"
#undef SCALAR_FN
};
static Blocks blocks_of(ScalarFn fn) { return has_wide() ? wide_blocks[fn] : base_blocks[fn]; }
#define CHOOSE(id, ...) (has_wide() ? wide_##id(__VA_ARGS__) : base_##id(__VA_ARGS__))
#else
static Blocks blocks_of(ScalarFn fn) { return base_blocks[fn]; }
#define CHOOSE(id, ...) base_##id(__VA_ARGS__)
#endif

#define PUBLIC_1(id)                                                                                                   \
    float scalar_##id(float x) { return CHOOSE(id, x); }
#define PUBLIC_2(id)                                                                                                   \
    float scalar_##id(float x, float y) { return CHOOSE(id, x, y); }
#define SCALAR_FN(id, arity, bound) PUBLIC_##arity(id)
#include "base/scalar.def"
#undef SCALAR_FN

void scalar_apply1(ScalarFn fn, const float *x, float *y, size_t n)
{
    Block1 *block = blocks_of(fn).one;
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        block(x + i, y + i);
    if (i < n) {
        float in[BLOCK] = {0}, out[BLOCK];
        memcpy(in, x + i, (n - i) * sizeof *x);
        block(in, out);
        memcpy(y + i, out, (n - i) * sizeof *y);
    }
}

void scalar_apply2(ScalarFn fn, const float *x, const float *y, float *z, size_t n)
{
    Block2 *block = blocks_of(fn).two;
    size_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        block(x + i, y + i, z + i);
    if (i < n) {
        float in[BLOCK] = {0}, by[BLOCK] = {0}, out[BLOCK];
        memcpy(in, x + i, (n - i) * sizeof *x);
        memcpy(by, y + i, (n - i) * sizeof *y);
        block(in, by, out);
        memcpy(z + i, out, (n - i) * sizeof *z);
    }
}
