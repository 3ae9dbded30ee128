/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types. The small float formats are tested against their definition: a code's value is computed here from sign,
 * exponent and fraction, and rounding is checked as "the nearest code, the even one of two equally near" by search.
 */
#include "support/unit.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

typedef struct Small {
    DType dtype;
    int exponent_bits, mantissa_bits, bias;
    double max;
    bool has_inf, fnuz;
} Small;

static const Small smalls[] = {
    {DT_F16, 5, 10, 15, 65504, true, false},          {DT_BF16, 8, 7, 127, 0x1.fep127, true, false},
    {DT_F8E4M3FN, 4, 3, 7, 448, false, false},        {DT_F8E4M3FNUZ, 4, 3, 8, 240, false, true},
    {DT_F8E5M2, 5, 2, 15, 57344, true, false},        {DT_F8E5M2FNUZ, 5, 2, 16, 57344, false, true},
    {DT_F4E2M1, 2, 1, 1, 6, false, false},
};

/* Of a code without sign, which must denote a finite number. */
static double value_of(const Small *s, unsigned code)
{
    int field = (int)(code >> s->mantissa_bits);
    double fraction = (double)(code & ((1u << s->mantissa_bits) - 1)) / (1 << s->mantissa_bits);
    return field ? ldexp(1 + fraction, field - s->bias) : ldexp(fraction, 1 - s->bias);
}

static unsigned largest_code(const Small *s)
{
    unsigned code = 0;
    while (value_of(s, code) < s->max)
        code++;
    assert_true(value_of(s, code) == s->max);
    return code;
}

static unsigned bits_of(DType dtype, double value)
{
    uint16_t word = 0;
    elem_set_f64(dtype, &word, 0, value);
    return word;
}

static void test_small_floats_decode(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(smalls); i++) {
        const Small *s = &smalls[i];
        unsigned sign = 1u << (s->exponent_bits + s->mantissa_bits), max = largest_code(s);
        for (unsigned code = 0; code < 2 * sign; code++) {
            uint16_t word = (uint16_t)code;
            double x = elem_get_f64(s->dtype, &word, 0);
            unsigned magnitude = code & (sign - 1);
            if (s->fnuz && code == sign)
                assert_true(isnan(x));
            else if (magnitude <= max)
                assert_int_equal(f64_bits(x), f64_bits(code & sign ? -value_of(s, magnitude) : value_of(s, magnitude)));
            else if (s->has_inf && magnitude == max + 1)
                assert_true(isinf(x) && (x < 0) == ((code & sign) != 0));
            else
                assert_true(isnan(x));
            if (!isnan(x)) /* every number encodes to its own code, infinities of f8 saturate */
                assert_int_equal(bits_of(s->dtype, x), isinf(x) && sign == 0x80 ? code - 1 : code);
        }
    }
}

/* Just below, at and just above the midpoint of each pair of neighbours. */
static void test_small_floats_round_half_to_even(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(smalls); i++) {
        const Small *s = &smalls[i];
        unsigned sign = 1u << (s->exponent_bits + s->mantissa_bits), max = largest_code(s);
        for (unsigned code = 0; code < max; code++) {
            double low = value_of(s, code), high = value_of(s, code + 1), middle = low + (high - low) / 2;
            unsigned even = code & 1 ? code + 1 : code;
            assert_int_equal(bits_of(s->dtype, middle), even);
            assert_int_equal(bits_of(s->dtype, nextafter(middle, 0)), code);
            assert_int_equal(bits_of(s->dtype, nextafter(middle, high)), code + 1);
            unsigned negative = bits_of(s->dtype, -middle);
            assert_int_equal(negative, even == 0 && s->fnuz ? 0 : even | sign);
        }
    }
}

/* ONNX Cast-25, the two tables of float 8. */
static void test_f8_saturation(void **state)
{
    (void)state;
    const float inf = HUGE_VALF, nan = f32_from_bits(0x7FC00000);
    assert_int_equal(f8_from_f32(DT_F8E4M3FN, inf, true), 0x7E);
    assert_int_equal(f8_from_f32(DT_F8E4M3FN, -1e9f, true), 0xFE);
    assert_int_equal(f8_from_f32(DT_F8E4M3FN, inf, false), 0x7F);
    assert_int_equal(f8_from_f32(DT_F8E4M3FN, 464, false), 0x7E); /* rounds to the largest: in range */
    assert_int_equal(f8_from_f32(DT_F8E4M3FN, 465, false), 0x7F);
    assert_int_equal(f8_from_f32(DT_F8E4M3FN, nan, true), 0x7F);
    assert_int_equal(f8_from_f32(DT_F8E4M3FNUZ, inf, true), 0x7F);
    assert_int_equal(f8_from_f32(DT_F8E4M3FNUZ, inf, false), 0x80);
    assert_int_equal(f8_from_f32(DT_F8E4M3FNUZ, -0.0f, true), 0);
    assert_int_equal(f8_from_f32(DT_F8E4M3FNUZ, nan, true), 0x80);
    assert_int_equal(f8_from_f32(DT_F8E5M2, -inf, true), 0xFB);
    assert_int_equal(f8_from_f32(DT_F8E5M2, -inf, false), 0xFC);
    assert_int_equal(f8_from_f32(DT_F8E5M2, 1e9f, false), 0x7C);
    assert_int_equal(f8_from_f32(DT_F8E5M2FNUZ, 1e9f, true), 0x7F);
    assert_int_equal(f8_from_f32(DT_F8E5M2FNUZ, 1e9f, false), 0x80);
    assert_int_equal(bits_of(DT_F4E2M1, 1e9), 7);
    assert_int_equal(bits_of(DT_F4E2M1, -HUGE_VAL), 15);
}

/* ONNX Cast-24 `round_mode`; OCP Microscaling formats 1.0 section 5.4.1. */
static void test_e8m0(void **state)
{
    (void)state;
    assert_true(f8_to_f32(DT_F8E8M0, 127) == 1);
    assert_true(f8_to_f32(DT_F8E8M0, 0) == 0x1p-127f);
    assert_true(f8_to_f32(DT_F8E8M0, 254) == 0x1p127f);
    assert_true(isnan(f8_to_f32(DT_F8E8M0, 255)));
    for (unsigned code = 0; code < 255; code++)
        assert_int_equal(f8_from_f32(DT_F8E8M0, f8_to_f32(DT_F8E8M0, (uint8_t)code), true), code);
    assert_int_equal(f8e8m0_from_f64(2.1, E8M0_UP, true), 129);
    assert_int_equal(f8e8m0_from_f64(2.1, E8M0_DOWN, true), 128);
    assert_int_equal(f8e8m0_from_f64(2.9, E8M0_NEAREST, true), 128);
    assert_int_equal(f8e8m0_from_f64(3.0, E8M0_NEAREST, true), 129);
    assert_int_equal(f8e8m0_from_f64(0, E8M0_UP, true), 0);
    assert_int_equal(f8e8m0_from_f64(0, E8M0_NEAREST, false), 255);
    assert_int_equal(f8e8m0_from_f64(HUGE_VAL, E8M0_UP, true), 254);
    assert_int_equal(f8e8m0_from_f64(1e300, E8M0_UP, false), 255);
    assert_int_equal(f8e8m0_from_f64((double)NAN, E8M0_UP, true), 255);
}

static void test_halves(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 65536; code++) {
        float half = f16_to_f32((uint16_t)code), brain = bf16_to_f32((uint16_t)code);
        if (!isnan(half))
            assert_int_equal(f16_from_f32(half), code);
        else
            assert_true(isnan(f16_to_f32(f16_from_f32(half))));
        if (!isnan(brain))
            assert_int_equal(bf16_from_f32(brain), code);
        else
            assert_true(isnan(bf16_to_f32(bf16_from_f32(brain))));
    }
    assert_int_equal(f16_from_f32(65520), 0x7C00);
    assert_int_equal(f16_from_f32(65519), 0x7BFF);
    /* one rounding: via f32 this lies on a tie and would go down to even */
    assert_int_equal(f16_from_f64(1 + 0x1p-11 + 0x1p-40), 0x3C01);
    assert_int_equal(f16_from_f32((float)(1 + 0x1p-11 + 0x1p-40)), 0x3C00);
}

static void test_table(void **state)
{
    (void)state;
    for (int i = DT_NONE + 1; i < DT_COUNT; i++) {
        assert_int_equal(dtype_from_name(dtype_name((DType)i)), i);
        assert_int_equal(dtype_from_onnx(dtype_to_onnx((DType)i)), i);
    }
    assert_int_equal(dtype_from_name("float"), DT_NONE);
    assert_int_equal(dtype_from_name("none"), DT_NONE);
    assert_int_equal(dtype_from_onnx(0), DT_NONE);
    assert_int_equal(dtype_from_onnx(-1), DT_NONE);
    assert_int_equal(dtype_from_onnx(INT64_C(1) << 32 | 1), DT_NONE);
    uint64_t n;
    assert_true(dtype_bytes(DT_S4, 3, &n) && n == 2);
    assert_true(dtype_bytes(DT_U2, 5, &n) && n == 2);
    assert_true(dtype_bytes(DT_F4E2M1, UINT64_MAX, &n) && n == UINT64_C(1) << 63);
    assert_true(dtype_bytes(DT_C128, 2, &n) && n == 32);
    assert_true(dtype_bytes(DT_F64, UINT64_MAX / 8, &n) && n == UINT64_MAX - 7);
    assert_false(dtype_bytes(DT_F64, UINT64_MAX / 8 + 1, &n));
    assert_false(dtype_bytes(DT_STR, 1, &n));
    assert_true(dtype_is_int(DT_U2) && !dtype_is_int(DT_BOOL) && dtype_is_float(DT_F4E2M1));
}

/* All integer types: limits, wrapping, truncation, saturation, and packed neighbours left alone. */
static void test_integers(void **state)
{
    (void)state;
    for (int t = DT_S64; t <= DT_U2; t++) {
        DType dtype = (DType)t;
        int bits = dtype_bits(dtype);
        bool is_signed = dtype_kind(dtype) == DK_SINT;
        uint8_t data[64], guard[64];
        memset(data, 0x5A, sizeof data);
        memcpy(guard, data, sizeof guard);
        int64_t before = elem_get_s64(dtype, data, 0), after = elem_get_s64(dtype, data, 2);
        int64_t least = is_signed ? (bits == 64 ? INT64_MIN : -(INT64_C(1) << (bits - 1))) : 0;
        int64_t most = (int64_t)(UINT64_MAX >> (64 - bits + is_signed));
        elem_set_s64(dtype, data, 1, least);
        assert_int_equal(elem_get_s64(dtype, data, 1), least);
        elem_set_s64(dtype, data, 1, (int64_t)((uint64_t)most + 1)); /* wraps */
        assert_int_equal(elem_get_s64(dtype, data, 1), least);
        elem_set_f64(dtype, data, 1, 1e30);
        assert_int_equal(elem_get_s64(dtype, data, 1), most);
        elem_set_f64(dtype, data, 1, -1e30);
        assert_int_equal(elem_get_s64(dtype, data, 1), least);
        elem_set_f64(dtype, data, 1, (double)NAN);
        assert_int_equal(elem_get_s64(dtype, data, 1), 0);
        elem_set_f64(dtype, data, 1, 1.9);
        assert_int_equal(elem_get_s64(dtype, data, 1), 1);
        elem_set_f64(dtype, data, 1, -1.9);
        assert_int_equal(elem_get_s64(dtype, data, 1), is_signed ? -1 : 0);
        assert_int_equal(elem_get_s64(dtype, data, 0), before);
        assert_int_equal(elem_get_s64(dtype, data, 2), after);
        assert_memory_equal(data + 24, guard + 24, sizeof data - 24);
    }
    uint64_t big = UINT64_MAX;
    assert_true(elem_get_f64(DT_U64, &big, 0) == 0x1p64);
    uint8_t nibbles[] = {0xA3};
    assert_int_equal(elem_get_s64(DT_U4, nibbles, 0), 3); /* low half first */
    assert_int_equal(elem_get_s64(DT_S4, nibbles, 1), -6);
}

static void test_other_elements(void **state)
{
    (void)state;
    uint8_t truth = 0;
    elem_set_f64(DT_BOOL, &truth, 0, 0.25);
    assert_int_equal(truth, 1);
    elem_set_s64(DT_BOOL, &truth, 0, 256);
    assert_int_equal(truth, 1);
    elem_set_f64(DT_BOOL, &truth, 0, -0.0);
    assert_int_equal(truth, 0);
    float complex32[4] = {1, 2, 3, 4};
    assert_true(elem_get_f64(DT_C64, complex32, 1) == 3);
    elem_set_f64(DT_C64, complex32, 1, 7);
    assert_true(complex32[1] == 2 && complex32[2] == 7 && complex32[3] == 0);
    double complex64[4] = {1, 2, 3, 4};
    elem_set_s64(DT_C128, complex64, 0, 9);
    assert_true(complex64[0] == 9 && complex64[1] == 0 && elem_get_f64(DT_C128, complex64, 1) == 3);
    double x = -1e30;
    assert_int_equal(elem_get_s64(DT_F64, &x, 0), INT64_MIN);
    /* one rounding from s64: through an ordinary double, the last bit would be lost and the tie go to even */
    float f;
    int64_t tie = (INT64_C(1) << 62) + (INT64_C(1) << 38) + 1;
    elem_set_s64(DT_F32, &f, 0, tie);
    assert_true(f == (float)tie);
    assert_true(f != (float)(double)tie);
    uint16_t h;
    elem_set_s64(DT_F16, &h, 0, -2049);
    assert_int_equal(h, 0xE800);
    elem_set_s64(DT_F16, &h, 0, INT64_MIN);
    assert_int_equal(h, 0xFC00);
    double d;
    elem_set_s64(DT_F64, &d, 0, INT64_MAX);
    assert_true(d == 0x1p63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_floats_decode), cmocka_unit_test(test_small_floats_round_half_to_even),
        cmocka_unit_test(test_f8_saturation),       cmocka_unit_test(test_e8m0),
        cmocka_unit_test(test_halves),              cmocka_unit_test(test_table),
        cmocka_unit_test(test_integers),            cmocka_unit_test(test_other_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
