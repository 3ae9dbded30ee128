/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementwise ops on typed scalars: the edge rules of numerics.md, one row each, for every element type they speak of;
 * and what the constructors of value expressions may and may not fold.
 */
#include "loop/loop.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t map2(Op op, DType result, DType t, uint64_t a, uint64_t b)
{
    assert_true(elem_supported(op, t));
    return elem_map(op, result, (DType[]){t, t}, (uint64_t[]){a, b}, 2);
}
static uint64_t map1(Op op, DType t, uint64_t a)
{
    assert_true(elem_supported(op, t));
    return elem_map(op, t, &t, &a, 1);
}
static float f2(Op op, float a, float b)
{
    return f32_from_bits((uint32_t)map2(op, DT_F32, DT_F32, f32_bits(a), f32_bits(b)));
}
static float f1(Op op, float a) { return f32_from_bits((uint32_t)map1(op, DT_F32, f32_bits(a))); }
static bool is_minus_zero(float x) { return f32_bits(x) == 0x80000000u; }

/* An integer op on s8, s16, s32, s64, u8 .. u64 in turn: operands and the result as s64. */
static int64_t i2(Op op, DType t, int64_t a, int64_t b)
{
    bool compare = op_info[op].traits & OT_COMPARE;
    uint64_t x = elem_cast(t, DT_S64, (uint64_t)a), y = elem_cast(t, DT_S64, (uint64_t)b);
    uint64_t r = map2(op, compare ? DT_BOOL : t, t, x, y);
    return compare ? (int64_t)r : (int64_t)elem_cast(DT_S64, t, r);
}
static const DType sints[] = {DT_S8, DT_S16, DT_S32, DT_S64}, uints[] = {DT_U8, DT_U16, DT_U32, DT_U64};
static int64_t least(DType t) { return -(int64_t)((UINT64_C(1) << (dtype_bits(t) - 1)) - 1) - 1; }

static void min_max_keep_nan_and_order(void **state)
{
    (void)state;
    assert_true(isnan(f2(OP_max, NAN, 1)) && isnan(f2(OP_max, 1, NAN)));
    assert_true(isnan(f2(OP_min, NAN, 1)) && isnan(f2(OP_min, 1, NAN)));
    assert_true(f2(OP_max, 1, 2) == 2 && f2(OP_max, 2, 1) == 2 && f2(OP_min, 1, 2) == 1 && f2(OP_min, 2, 1) == 1);
    assert_true(is_minus_zero(f2(OP_max, 0.0f, -0.0f)) && !is_minus_zero(f2(OP_max, -0.0f, 0.0f))); /* b unless a > b */
    assert_true(is_minus_zero(f2(OP_min, 0.0f, -0.0f)) && !is_minus_zero(f2(OP_min, -0.0f, 0.0f)));
}

static void signs_and_rounding(void **state)
{
    (void)state;
    assert_true(is_minus_zero(f1(OP_neg, 0)) && is_minus_zero(f1(OP_sign, -0.0f)) && isnan(f1(OP_sign, NAN)));
    assert_true(f1(OP_sign, -3) == -1 && f1(OP_sign, HUGE_VALF) == 1 && !is_minus_zero(f1(OP_abs, -0.0f)));
    assert_true(f1(OP_rint, 0.5f) == 0 && f1(OP_rint, 1.5f) == 2 && f1(OP_rint, 2.5f) == 2 &&
                is_minus_zero(f1(OP_rint, -0.5f)));
    assert_true(f1(OP_floor, -1.5f) == -2 && f1(OP_ceil, -1.5f) == -1 && f1(OP_trunc, -1.5f) == -1);
    assert_true(isnan(f1(OP_sqrt, -1)) && f1(OP_rsqrt, 0) == HUGE_VALF);
    assert_true(f1(OP_sigmoid, 0) == 0.5f && f1(OP_sigmoid, -200) == 0 && f1(OP_sigmoid, HUGE_VALF) == 1);
    assert_true(f1(OP_exp, 0) == 1 && f1(OP_tanh, HUGE_VALF) == 1);
}

static void float_remainders(void **state)
{
    (void)state;
    assert_true(f2(OP_rem, -7, 3) == -1 && f2(OP_mod, -7, 3) == 2 && f2(OP_mod, 7, -3) == -2 && f2(OP_rem, 7, -3) == 1);
    assert_true(is_minus_zero(f2(OP_rem, -6, 3)) && is_minus_zero(f2(OP_mod, -6, 3)));
    assert_true(isnan(f2(OP_rem, 1, 0)) && isnan(f2(OP_mod, HUGE_VALF, 1)) && f2(OP_rem, 5, HUGE_VALF) == 5);
    assert_true(f2(OP_rem, 0x1p127f, 3) == 2); /* exact: 2^127 = 2 modulo 3 */
}

static void integers_wrap(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(sints); i++) {
        DType t = sints[i];
        int64_t lo = least(t), hi = -(lo + 1);
        assert_int_equal(i2(OP_add, t, hi, 1), lo);
        assert_int_equal(i2(OP_sub, t, lo, 1), hi);
        assert_int_equal(i2(OP_mul, t, lo, -1), lo);
        assert_int_equal(i2(OP_div, t, lo, -1), lo);
        assert_int_equal(i2(OP_rem, t, lo, -1), 0);
        assert_int_equal(i2(OP_mod, t, lo, -1), 0);
        assert_int_equal(i2(OP_div, t, 5, 0), 0);
        assert_int_equal(i2(OP_rem, t, -5, 0), -5);
        assert_int_equal(i2(OP_mod, t, -5, 0), -5);
        assert_int_equal(i2(OP_div, t, -7, 2), -3);
        assert_int_equal(i2(OP_rem, t, -7, 2), -1);
        assert_int_equal(i2(OP_mod, t, -7, 2), 1);
        assert_int_equal(i2(OP_mod, t, 7, -2), -1);
        assert_int_equal(i2(OP_lt, t, -1, 1), 1);
        assert_int_equal(i2(OP_min, t, -1, 1), -1);
        assert_int_equal((int64_t)elem_cast(DT_S64, t, map1(OP_abs, t, elem_cast(t, DT_S64, (uint64_t)lo))), lo);
        assert_int_equal((int64_t)elem_cast(DT_S64, t, map1(OP_sign, t, elem_cast(t, DT_S64, (uint64_t)-9))), -1);
        assert_int_equal((int64_t)elem_cast(DT_S64, t, map1(OP_not, t, 0)), -1);
    }
    for (size_t i = 0; i < IG_COUNT(uints); i++) {
        DType t = uints[i];
        assert_int_equal(i2(OP_sub, t, 0, 1), (int64_t)elem_cast(DT_S64, t, elem_cast(t, DT_S64, UINT64_MAX)));
        assert_int_equal(i2(OP_lt, t, -1, 1), 0); /* the largest, not -1 */
        assert_int_equal(i2(OP_div, t, -1, -1), 1);
        assert_int_equal(i2(OP_mod, t, -1, 2), 1);
        assert_int_equal(i2(OP_max, t, -1, 1), i2(OP_or, t, -1, 0));
    }
}

static void shifts(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(sints); i++) {
        int width = dtype_bits(sints[i]);
        assert_int_equal(i2(OP_shl, sints[i], 1, width - 1), least(sints[i]));
        assert_int_equal(i2(OP_shl, sints[i], 1, width), 0);
        assert_int_equal(i2(OP_shr, sints[i], -8, 1), -4);
        assert_int_equal(i2(OP_shr, sints[i], -8, width), -1);
        assert_int_equal(i2(OP_shr, sints[i], 8, -1), 0); /* a negative amount is a large one */
        assert_int_equal(i2(OP_shr, uints[i], -1, width - 1), 1);
        assert_int_equal(i2(OP_shr, uints[i], -1, width), 0);
    }
}

static void integer_powers(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(sints); i++) {
        DType t = sints[i];
        assert_int_equal(i2(OP_pow, t, 3, 4), 81);
        assert_int_equal(i2(OP_pow, t, -2, 3), -8);
        assert_int_equal(i2(OP_pow, t, 0, 0), 1);
        assert_int_equal(i2(OP_pow, t, 1, -5), 1);
        assert_int_equal(i2(OP_pow, t, -1, -5), -1);
        assert_int_equal(i2(OP_pow, t, -1, -4), 1);
        assert_int_equal(i2(OP_pow, t, 2, -1), 0);
        assert_int_equal(i2(OP_pow, t, 0, -1), 0);
        assert_int_equal(i2(OP_pow, t, 2, dtype_bits(t)), 0);
    }
    assert_int_equal(i2(OP_pow, DT_U8, 3, 200), 0xa1); /* 3^200 mod 256 */
}

static int64_t to_int(DType t, float x) { return (int64_t)elem_cast(DT_S64, t, elem_cast(t, DT_F32, f32_bits(x))); }

static void casts(void **state)
{
    (void)state;
    assert_int_equal(to_int(DT_S8, -3.9f), -3);
    assert_int_equal(to_int(DT_S8, 300), 127);
    assert_int_equal(to_int(DT_S8, -300), -128);
    assert_int_equal(to_int(DT_U8, -1), 0);
    assert_int_equal(to_int(DT_U8, 255.9f), 255);
    assert_int_equal(to_int(DT_S32, NAN), 0);
    assert_int_equal(to_int(DT_S64, HUGE_VALF), INT64_MAX);
    assert_int_equal(to_int(DT_S64, -HUGE_VALF), INT64_MIN);
    assert_int_equal(elem_cast(DT_U64, DT_F32, f32_bits(HUGE_VALF)), UINT64_MAX);
    assert_int_equal(elem_cast(DT_BOOL, DT_F32, f32_bits(NAN)), 1);
    assert_int_equal(elem_cast(DT_BOOL, DT_F32, f32_bits(-0.0f)), 0);
    assert_int_equal(elem_cast(DT_S8, DT_S32, 0x1ff), 0xff); /* integers keep the low bits */
    assert_int_equal(elem_cast(DT_S64, DT_S8, 0xff), UINT64_MAX);
    assert_int_equal(elem_cast(DT_U32, DT_S8, 0xff), 0xffffffffu);
    assert_true(f32_from_bits((uint32_t)elem_cast(DT_F32, DT_U64, UINT64_MAX)) == 0x1p64f);
    assert_true(f32_from_bits((uint32_t)elem_cast(DT_F32, DT_S64, (UINT64_C(1) << 62) + (UINT64_C(1) << 38) + 1)) ==
                0x1.000002p62f);
    /* one rounding: 2^40 + 2^32 + 1 is above the midpoint of two bf16 numbers, its f32 value is the midpoint */
    assert_true(bf16_to_f32((uint16_t)elem_cast(DT_BF16, DT_S64, (UINT64_C(1) << 40) + (UINT64_C(1) << 32) + 1)) ==
                0x1.02p40f);
    assert_true(bf16_to_f32((uint16_t)elem_cast(DT_BF16, DT_U64, (UINT64_C(1) << 63) + (UINT64_C(1) << 55) + 1)) ==
                0x1.02p63f);
    assert_int_equal(elem_cast(DT_F16, DT_F64, f64_bits(2049.0000001)), f16_from_f32(2050));
    assert_int_equal(elem_cast(DT_F16, DT_F32, f32_bits(1e6f)), 0x7c00);
}

static void tests_and_comparisons(void **state)
{
    (void)state;
    DType f = DT_F32;
    uint64_t nan = f32_bits(NAN), one = f32_bits(1);
    assert_int_equal(elem_map(OP_isnan, DT_BOOL, &f, &nan, 1), 1);
    assert_int_equal(elem_map(OP_isnan, DT_BOOL, &f, &one, 1), 0);
    assert_int_equal(elem_map(OP_isinf, DT_BOOL, &f, (uint64_t[]){f32_bits(-HUGE_VALF)}, 1), 1);
    assert_int_equal(map2(OP_eq, DT_BOOL, f, nan, nan), 0);
    assert_int_equal(map2(OP_ne, DT_BOOL, f, nan, nan), 1);
    assert_int_equal(map2(OP_lt, DT_BOOL, f, nan, one), 0);
    assert_int_equal(map2(OP_le, DT_BOOL, f, one, one), 1);
    assert_int_equal(map2(OP_eq, DT_BOOL, f, f32_bits(0), f32_bits(-0.0f)), 1);
    assert_int_equal(map2(OP_xor, DT_BOOL, DT_BOOL, 1, 1), 0);
    assert_int_equal(map1(OP_not, DT_BOOL, 1), 0);
    assert_int_equal(elem_map(OP_bitcast, DT_S32, &f, &one, 1), 0x3f800000);
}

static void narrow_floats_round_after_each_op(void **state)
{
    (void)state;
    uint64_t big = f16_from_f32(2048), one = f16_from_f32(1);
    assert_int_equal(map2(OP_add, DT_F16, DT_F16, big, one), big);
    assert_int_equal(map2(OP_mul, DT_F16, DT_F16, f16_from_f32(300), f16_from_f32(300)), 0x7c00);
    assert_int_equal(map1(OP_exp, DT_BF16, bf16_from_f32(1)), bf16_from_f32(f1(OP_exp, 1)));
    assert_int_equal(elem_map(OP_fma, DT_F32, (DType[]){DT_F32, DT_F32, DT_F32},
                              (uint64_t[]){f32_bits(1 + 0x1p-12f), f32_bits(1 + 0x1p-12f), f32_bits(-1)}, 3),
                     f32_bits(0x1p-11f + 0x1p-24f));
}

static void what_is_not_compiled(void **state)
{
    (void)state;
    static const Op elementary[] = {OP_exp, OP_log, OP_tanh, OP_erf, OP_sin, OP_pow, OP_sigmoid};
    for (size_t i = 0; i < IG_COUNT(elementary); i++) {
        assert_false(elem_supported(elementary[i], DT_F64));
        assert_true(elem_supported(elementary[i], DT_F32) && elem_supported(elementary[i], DT_BF16));
    }
    assert_true(elem_supported(OP_sqrt, DT_F64) && elem_supported(OP_rint, DT_F64) && elem_supported(OP_fma, DT_F64));
    assert_false(elem_supported(OP_exp, DT_S32) || elem_supported(OP_shl, DT_F32) || elem_supported(OP_add, DT_S4));
    assert_false(elem_supported(OP_reduce, DT_F32) || elem_supported(OP_relu, DT_F32) ||
                 elem_supported(OP_add, DT_STR));
    /* every MAP op is compiled for f32 or for s32: a new row of the table must get its meaning here */
    for (int op = 0; op < OP_COUNT; op++)
        if (op_info[op].kind == OK_MAP)
            assert_true(elem_supported((Op)op, DT_F32) || elem_supported((Op)op, DT_S32));
}

static void constructors_fold_constants_only(void **state)
{
    Context *ctx = *state;
    Kernel *k = kernel_create(ctx, ctx_arena(ctx), "k");
    const Expr *x = lx_var(k, kernel_var(k, "x", DT_F32)), *zero = lx_const_f64(k, DT_F32, 0),
               *two = lx_const_f64(k, DT_F32, 2);
    const Expr *sum = lx_map(k, OP_add, DT_F32, (const Expr *[]){two, two}, 2);
    assert_ptr_equal(sum, lx_const_f64(k, DT_F32, 4));
    assert_int_equal(lx_map(k, OP_add, DT_F32, (const Expr *[]){x, zero}, 2)->kind, LX_MAP); /* -0 + 0 */
    assert_int_equal(lx_map(k, OP_mul, DT_F32, (const Expr *[]){x, zero}, 2)->kind, LX_MAP);
    assert_int_equal(lx_map(k, OP_sub, DT_F32, (const Expr *[]){x, x}, 2)->kind, LX_MAP);
    const Expr *xy = lx_map(k, OP_max, DT_F32, (const Expr *[]){x, zero}, 2);
    assert_ptr_not_equal(xy, lx_map(k, OP_max, DT_F32, (const Expr *[]){zero, x}, 2));
    assert_ptr_equal(xy, lx_map(k, OP_max, DT_F32, (const Expr *[]){x, zero}, 2));
    const Expr *chosen[] = {lx_const(k, DT_BOOL, 1), x, two};
    assert_ptr_equal(lx_map(k, OP_select, DT_F32, chosen, 3), x);
    chosen[0] = lx_const(k, DT_BOOL, 0);
    assert_ptr_equal(lx_map(k, OP_select, DT_F32, chosen, 3), two);
    assert_ptr_equal(lx_cast(k, two, DT_S32), lx_const(k, DT_S32, 2));
    assert_ptr_equal(lx_cast(k, x, DT_F32), x);
    assert_int_equal(lx_cast(k, lx_cast(k, x, DT_F16), DT_F32)->kind, LX_CAST); /* rounding stays */
    const Expr *i = lx_iter(k, kernel_iter(k, "i", 0, 9));
    assert_ptr_equal(lx_index(k, lx_cast(k, i, DT_S64), 0, 9), i);
    assert_ptr_equal(lx_cast(k, lx_int(k, -1), DT_U8), lx_const(k, DT_U8, 255));
    const int64_t dim[] = {10};
    Buf *buf = kernel_buf(k, "x", DT_F32, BUF_ARG, 1, dim); /* the name is taken by the variable */
    assert_string_equal(buf->name, "x_1");
    const Expr *plain = lx_load(k, buf, &i, NULL, NULL);
    assert_ptr_equal(lx_load(k, buf, &i, lx_lt(k, i, lx_int(k, 10)), zero), plain);
    assert_ptr_equal(lx_load(k, buf, &i, lx_lt(k, i, lx_int(k, 0)), zero), zero);
    assert_int_equal(lx_load(k, buf, &i, lx_lt(k, i, lx_int(k, 5)), zero)->n_args, 3);
}

static int setup(void **state) { return !(*state = ctx_create(NULL)); }
static int teardown(void **state)
{
    ctx_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(min_max_keep_nan_and_order),
        cmocka_unit_test(signs_and_rounding),
        cmocka_unit_test(float_remainders),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(shifts),
        cmocka_unit_test(integer_powers),
        cmocka_unit_test(casts),
        cmocka_unit_test(tests_and_comparisons),
        cmocka_unit_test(narrow_floats_round_after_each_op),
        cmocka_unit_test(what_is_not_compiled),
        cmocka_unit_test(constructors_fold_constants_only),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
