/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions: special values, the published error bound on a sample (tools/scalar_exhaustive.c takes all
 * inputs), equality of array and single entries, and fingerprints of the sampled results, which must be the same on
 * every machine and in every build.
 */
#include "support/unit.h"

#include "base/scalar.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INF INFINITY
#define N NAN

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return isnan(x) ? 0x7fc00000u : bits;
}

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static double sigmoid(double x)
{
    double e = exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

static double mod(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static double rem(double x, double y) { return fmod(x, y); }

typedef struct Entry {
    double (*ref1)(double);
    double (*ref2)(double, double);
    float (*one1)(float);
    float (*one2)(float, float);
} Entry;

#define ENTRY_1(id) {.ref1 = id, .one1 = scalar_##id},
#define ENTRY_2(id) {.ref2 = id, .one2 = scalar_##id},
static const Entry entries[SCALAR_COUNT] = {
#define SCALAR_FN(id, arity, bound) ENTRY_##arity(id)
#include "base/scalar.def"
#undef SCALAR_FN
};

typedef struct Special {
    ScalarFn fn;
    float x, y, want;
} Special;

#define ODD(fn)                                                                                                        \
    {SCALAR_##fn, 0.0f, 0, 0.0f}, {SCALAR_##fn, -0.0f, 0, -0.0f}, {SCALAR_##fn, 0x1p-149f, 0, 0x1p-149f},              \
        {SCALAR_##fn, -0x1p-149f, 0, -0x1p-149f},                                                                      \
    {                                                                                                                  \
        SCALAR_##fn, N, 0, N                                                                                           \
    }
#define ODD_INF(fn, limit)                                                                                             \
    ODD(fn), {SCALAR_##fn, INF, 0, limit}, { SCALAR_##fn, -INF, 0, -(limit) }

static const Special specials[] = {
    {SCALAR_exp, 0.0f, 0, 1},
    {SCALAR_exp, -0.0f, 0, 1},
    {SCALAR_exp, INF, 0, INF},
    {SCALAR_exp, -INF, 0, 0},
    {SCALAR_exp, N, 0, N},
    {SCALAR_exp, -104, 0, 0},
    {SCALAR_exp, -103.9f, 0, 0x1p-149f},
    {SCALAR_exp, 88.73f, 0, INF},
    {SCALAR_exp, 0x1p-149f, 0, 1},
    {SCALAR_exp, -3e38f, 0, 0},
    {SCALAR_exp, 3e38f, 0, INF},
    ODD(expm1),
    {SCALAR_expm1, INF, 0, INF},
    {SCALAR_expm1, -INF, 0, -1},
    {SCALAR_expm1, -18, 0, -1},
    {SCALAR_expm1, 88.73f, 0, INF},
    {SCALAR_log, 1, 0, 0.0f},
    {SCALAR_log, 0, 0, -INF},
    {SCALAR_log, -0.0f, 0, -INF},
    {SCALAR_log, INF, 0, INF},
    {SCALAR_log, -1, 0, N},
    {SCALAR_log, -INF, 0, N},
    {SCALAR_log, N, 0, N},
    {SCALAR_log, -0x1p-149f, 0, N},
    ODD(log1p),
    {SCALAR_log1p, -1, 0, -INF},
    {SCALAR_log1p, INF, 0, INF},
    {SCALAR_log1p, -1.5f, 0, N},
    {SCALAR_log1p, -INF, 0, N},
    ODD_INF(sin, N),
    ODD_INF(tan, N),
    {SCALAR_cos, 0, 0, 1},
    {SCALAR_cos, -0.0f, 0, 1},
    {SCALAR_cos, INF, 0, N},
    {SCALAR_cos, -INF, 0, N},
    {SCALAR_cos, N, 0, N},
    ODD(asin),
    {SCALAR_asin, 1, 0, 0x1.921fb6p0f},
    {SCALAR_asin, -1, 0, -0x1.921fb6p0f},
    {SCALAR_asin, 0x1.000002p0f, 0, N},
    {SCALAR_asin, -INF, 0, N},
    {SCALAR_acos, 1, 0, 0.0f},
    {SCALAR_acos, -1, 0, 0x1.921fb6p1f},
    {SCALAR_acos, 0, 0, 0x1.921fb6p0f},
    {SCALAR_acos, -0x1.000002p0f, 0, N},
    {SCALAR_acos, N, 0, N},
    ODD_INF(atan, 0x1.921fb6p0f),
    {SCALAR_atan, 1, 0, 0x1.921fb6p-1f},
    ODD_INF(sinh, INF),
    {SCALAR_sinh, 89.5f, 0, INF},
    {SCALAR_sinh, -89.5f, 0, -INF},
    {SCALAR_cosh, 0, 0, 1},
    {SCALAR_cosh, -INF, 0, INF},
    {SCALAR_cosh, 89.5f, 0, INF},
    {SCALAR_cosh, N, 0, N},
    ODD_INF(tanh, 1),
    {SCALAR_tanh, 10, 0, 1},
    {SCALAR_tanh, -10, 0, -1},
    ODD_INF(asinh, INF),
    {SCALAR_acosh, 1, 0, 0.0f},
    {SCALAR_acosh, INF, 0, INF},
    {SCALAR_acosh, 0.5f, 0, N},
    {SCALAR_acosh, -2, 0, N},
    {SCALAR_acosh, -INF, 0, N},
    {SCALAR_acosh, N, 0, N},
    ODD(atanh),
    {SCALAR_atanh, 1, 0, INF},
    {SCALAR_atanh, -1, 0, -INF},
    {SCALAR_atanh, 1.5f, 0, N},
    {SCALAR_atanh, INF, 0, N},
    {SCALAR_erf, 0, 0, 0},
    {SCALAR_erf, -0.0f, 0, -0.0f},
    {SCALAR_erf, INF, 0, 1},
    {SCALAR_erf, -INF, 0, -1},
    {SCALAR_erf, N, 0, N},
    {SCALAR_sigmoid, 0, 0, 0.5f},
    {SCALAR_sigmoid, INF, 0, 1},
    {SCALAR_sigmoid, -INF, 0, 0},
    {SCALAR_sigmoid, N, 0, N},
    /* C99 F.9.4.4 */
    {SCALAR_pow, 0, -3, INF},
    {SCALAR_pow, -0.0f, -3, -INF},
    {SCALAR_pow, -0.0f, -2, INF},
    {SCALAR_pow, -0.0f, -0.5f, INF},
    {SCALAR_pow, -0.0f, 3, -0.0f},
    {SCALAR_pow, -0.0f, 2, 0},
    {SCALAR_pow, 0, 0.5f, 0},
    {SCALAR_pow, 0, -INF, INF},
    {SCALAR_pow, -1, INF, 1},
    {SCALAR_pow, -1, -INF, 1},
    {SCALAR_pow, 1, N, 1},
    {SCALAR_pow, 1, INF, 1},
    {SCALAR_pow, N, 0, 1},
    {SCALAR_pow, N, -0.0f, 1},
    {SCALAR_pow, INF, -0.0f, 1},
    {SCALAR_pow, -2, 0.5f, N},
    {SCALAR_pow, 0.5f, -INF, INF},
    {SCALAR_pow, 2, -INF, 0},
    {SCALAR_pow, 0.5f, INF, 0},
    {SCALAR_pow, -2, INF, INF},
    {SCALAR_pow, -INF, -3, -0.0f},
    {SCALAR_pow, -INF, -2, 0},
    {SCALAR_pow, -INF, 3, -INF},
    {SCALAR_pow, -INF, 2, INF},
    {SCALAR_pow, -INF, 0.5f, INF},
    {SCALAR_pow, INF, -1, 0},
    {SCALAR_pow, INF, 0x1p-149f, INF},
    {SCALAR_pow, 0, 0x1p-149f, 0},
    {SCALAR_pow, N, 1, N},
    {SCALAR_pow, 2, N, N},
    {SCALAR_pow, -2, 3, -8},
    {SCALAR_pow, -2, 0x1.000002p23f, -INF},
    {SCALAR_pow, -2, 0x1p24f, INF},
    {SCALAR_pow, 2, -149, 0x1p-149f},
    {SCALAR_pow, 2, 127, 0x1p127f},
    {SCALAR_pow, 10, 2, 100},
    {SCALAR_pow, 3, 3, 27},
    {SCALAR_pow, 0x1p-149f, 0.5f, 0x1.6a09e6p-75f},
    {SCALAR_pow, 7, 1, 7},
    /* C99 F.9.1.4, arguments (y, x) */
    {SCALAR_atan2, 0, 0, 0},
    {SCALAR_atan2, -0.0f, 0, -0.0f},
    {SCALAR_atan2, 0, -0.0f, 0x1.921fb6p1f},
    {SCALAR_atan2, -0.0f, -0.0f, -0x1.921fb6p1f},
    {SCALAR_atan2, 0, -1, 0x1.921fb6p1f},
    {SCALAR_atan2, -0.0f, 1, -0.0f},
    {SCALAR_atan2, 1, 0, 0x1.921fb6p0f},
    {SCALAR_atan2, -1, -0.0f, -0x1.921fb6p0f},
    {SCALAR_atan2, 1, -INF, 0x1.921fb6p1f},
    {SCALAR_atan2, -1, INF, -0.0f},
    {SCALAR_atan2, INF, 1, 0x1.921fb6p0f},
    {SCALAR_atan2, INF, INF, 0x1.921fb6p-1f},
    {SCALAR_atan2, -INF, -INF, -0x1.2d97c8p1f},
    {SCALAR_atan2, N, 1, N},
    {SCALAR_atan2, 1, N, N},
    {SCALAR_atan2, INF, N, N},
    {SCALAR_rem, 5, 3, 2},
    {SCALAR_rem, -5, 3, -2},
    {SCALAR_rem, -6, 3, -0.0f},
    {SCALAR_rem, 1, 0, N},
    {SCALAR_rem, INF, 1, N},
    {SCALAR_rem, 1, INF, 1},
    {SCALAR_rem, -0.0f, 1, -0.0f},
    {SCALAR_rem, N, 1, N},
    {SCALAR_rem, 1, N, N},
    {SCALAR_rem, 0x1.fffffep127f, 0x1.8p-148f, 0x0p0f},
    {SCALAR_rem, 0x1p127f, 0x1.8p-148f, 0x1p-149f},
    {SCALAR_mod, -5, 3, 1},
    {SCALAR_mod, 5, -3, -1},
    {SCALAR_mod, -6, 3, -0.0f},
    {SCALAR_mod, 1, 0, N},
};

static void test_special_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        Special s = specials[i];
        Entry e = entries[s.fn];
        float got = e.ref2 ? e.one2(s.x, s.y) : e.one1(s.x);
        if (bits_of(got) != bits_of(s.want))
            fail_msg("%s(%a, %a) = %a, expected %a", scalar_defs[s.fn].name, (double)s.x, (double)s.y, (double)got,
                     (double)s.want);
    }
}

enum { STEP = 10007, MAX_SAMPLES = (int)(0x100000000 / STEP + 1) };

/* Unary: every STEP-th input. Binary: x so, y any bits in one half and near x or 1 in the other. */
static size_t sample(const Entry *e, float *x, float *y)
{
    size_t n = 0;
    uint64_t h = 1;
    for (uint64_t i = 0; i < 0x100000000; i += STEP, n++) {
        x[n] = from_bits((uint32_t)i);
        y[n] = 0;
        if (!e->ref2)
            continue;
        h = h * 6364136223846793005u + 1442695040888963407u;
        uint32_t r = (uint32_t)(h >> 32);
        y[n] = from_bits(n % 2 ? r : (r & 0x83ffffffu) + (n % 4 ? 0x3e000000u : (uint32_t)i & 0x7c000000u));
        if (n % 8 == 2)
            x[n] = from_bits(((uint32_t)i & 0x81ffffffu) + 0x3f000000u);
    }
    return n;
}

static double ulp_error(float got, double ref)
{
    if (isnan(ref) || isnan(got))
        return isnan(ref) && isnan(got) ? 0 : INF;
    if ((double)got == ref || (isinf(got) && fabs(ref) >= 0x1.ffffffp127 && (got > 0) == (ref > 0)))
        return 0;
    int exponent;
    (void)frexp(ref, &exponent);
    return fabs(got - ref) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

/* Of the sampled results, NaN canonical: FNV-1a over 32-bit units. A change here is a change of the bit contract. */
static const struct {
    ScalarFn fn;
    uint64_t hash;
} fingerprints[SCALAR_COUNT] = {
    {SCALAR_exp, 0xf7017f9ca9f4294du},   {SCALAR_log, 0xf1221a597f559619u},     {SCALAR_tanh, 0xfae7dc6c32c7d9abu},
    {SCALAR_erf, 0x52b444d8202e0c29u},   {SCALAR_sigmoid, 0x46d5d03432b72b48u}, {SCALAR_sin, 0xe6b6156b7f1bdaf8u},
    {SCALAR_cos, 0x3251637d59e93ad2u},   {SCALAR_pow, 0xb7914e11c16bbfb9u},     {SCALAR_expm1, 0x720f2099ed91eca1u},
    {SCALAR_log1p, 0xe493ecd1b51ca56eu}, {SCALAR_tan, 0x8d4fb1e0b9eb162bu},     {SCALAR_asin, 0x8f40777e5c50df39u},
    {SCALAR_acos, 0x3d3c4f314979713fu},  {SCALAR_atan, 0x347a340d916bebaau},    {SCALAR_sinh, 0x063c002198c51822u},
    {SCALAR_cosh, 0xc707508a31017af7u},  {SCALAR_asinh, 0x21656266ddfb68bcu},   {SCALAR_acosh, 0xb14b882137f69263u},
    {SCALAR_atanh, 0x145df0436abbddd6u}, {SCALAR_atan2, 0x719030cd6836ea39u},   {SCALAR_rem, 0x15133fba3abb192au},
    {SCALAR_mod, 0x3f4d63545ae926c1u},
};

static void test_samples(void **state)
{
    (void)state;
    float *x = malloc(4 * MAX_SAMPLES * sizeof *x), *y = x + MAX_SAMPLES, *z = y + MAX_SAMPLES, *w = z + MAX_SAMPLES;
    assert_non_null(x);
    for (int fn = 0; fn < SCALAR_COUNT; fn++) {
        Entry e = entries[fn];
        const ScalarDef *def = &scalar_defs[fn];
        size_t n = sample(&e, x, y);
        memset(w, 0x55, MAX_SAMPLES * sizeof *w);
        /* one pass in uneven pieces; then in place */
        for (size_t i = 0, part = 1; i < n; i += part, part = part * 2 + 1) {
            size_t count = n - i < part ? n - i : part;
            if (e.ref2)
                scalar_apply2((ScalarFn)fn, x + i, y + i, w + i, count);
            else
                scalar_apply1((ScalarFn)fn, x + i, w + i, count);
        }
        memcpy(z, x, n * sizeof *x);
        if (e.ref2)
            scalar_apply2((ScalarFn)fn, z, y, z, n);
        else
            scalar_apply1((ScalarFn)fn, z, z, n);
        uint64_t hash = 0xcbf29ce484222325u;
        for (size_t i = 0; i < n; i++) {
            float one = e.ref2 ? e.one2(x[i], y[i]) : e.one1(x[i]);
            if (bits_of(one) != bits_of(w[i]) || bits_of(one) != bits_of(z[i]))
                fail_msg("%s(%a, %a): single %a, array %a, in place %a", def->name, (double)x[i], (double)y[i],
                         (double)one, (double)w[i], (double)z[i]);
            double ref = e.ref2 ? e.ref2(x[i], y[i]) : e.ref1(x[i]);
            double error = ulp_error(one, ref);
            if (!(error <= def->bound))
                fail_msg("%s(%a, %a) = %a is off by %g ulp", def->name, (double)x[i], (double)y[i], (double)one, error);
            hash = (hash ^ bits_of(one)) * 0x100000001b3u;
        }
        assert_int_equal(fingerprints[fn].fn, fn);
        if (hash != fingerprints[fn].hash)
            fail_msg("%s: fingerprint 0x%016llx", def->name, (unsigned long long)hash);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_special_values), cmocka_unit_test(test_samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
