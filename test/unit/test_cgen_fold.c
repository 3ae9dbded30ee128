/* SPDX-License-Identifier: Apache-2.0
 * Folds of every form, outside and inside vector loops: lengths around lanes and blocks, several axes (mergeable or not),
 * guards, prologues. */
#include "support/kernel_bits.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static void add(BitsSuite *suite, const char *format, ...) IG_PRINTF(2, 3);
static void add(BitsSuite *suite, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char text[2048];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bits_add_text(suite, text);
}

static void finish(BitsSuite *suite)
{
    assert_int_equal(bits_run(suite), 0);
    bits_end(suite);
}

typedef struct Form {
    const char *kind, *form, *dtype;
} Form;
static const Form forms[] = {
    {"sum", "lanes16", "f32"}, {"prod", "lanes16", "f32"}, {"sum", "lanes16", "f64"}, {"max", "exact", "f32"},
    {"min", "exact", "f32"},   {"max", "exact", "f16"},    {"min", "exact", "bf16"},  {"max", "exact", "f64"},
    {"sum", "exact", "s32"},   {"sum", "exact", "s64"},    {"prod", "exact", "s32"},  {"max", "exact", "s8"},
    {"min", "exact", "u8"},    {"max", "exact", "u64"},    {"and", "exact", "bool"},  {"or", "exact", "bool"},
};

static void one_row(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 15, 16, 17, 31, 32, 100, 1000, 8191, 8192, 8193, 17000};
    BitsSuite *suite = bits_begin();
    for (uint32_t f = 0; f < IG_COUNT(forms); f++)
        for (uint32_t i = 0; i < IG_COUNT(sizes); i++) {
            long long n = sizes[i];
            if (n > 100 && f > 3)
                continue;
            add(suite,
                "kernel \"row\" {\n  arg x: %s[2, %lld]\n  arg o: %s[2] written\n  iter r in [0, 1]\n  iter k in [0, %lld]\n"
                "  var s: %s\n  for r in 0 .. 2 par {\n    fold s = %s %s over (k: %lld) : x[r, k]\n    store o[r] = s\n  }\n}\n",
                forms[f].dtype, n, forms[f].dtype, n ? n - 1 : 0, forms[f].dtype, forms[f].kind, forms[f].form, n);
        }
    finish(suite);
}

/* A fold of what the vector loop before it stores, in place or not, up to a size of the run or not; and loops that are none of that:
 * they store elsewhere, in another order, or to fewer elements. */
static void folds_of_loops(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 15, 16, 17, 49, 128, 130, 8200};
    static const char *const stores[] = {"e[j] = exp.f32(sub.f32(x[r, j], m))", "e[j] = add.f32(e[j], x[r, j])",
                                         "e[j*-1 + n1] = neg.f32(x[r, j])", "y[r, j] = neg.f32(x[r, j])"};
    static const Form form[] = {
        {"sum", "lanes16", "f32"}, {"max", "exact", "f32"}, {"min", "exact", "f32"}, {"prod", "lanes16", "f32"}};
    BitsSuite *suite = bits_begin();
    for (uint32_t i = 0; i < IG_COUNT(sizes); i++)
        for (uint32_t s = 0; s < IG_COUNT(stores); s++)
            for (uint32_t f = 0; f < 5; f++) {
                long long n = sizes[i];
                char store[80];
                const char *at = strstr(stores[s], "n1");
                snprintf(store, sizeof store, "%.*s%lld%s", at ? (int)(at - stores[s]) : 0, stores[s], at ? n - 1 : 0, at ? at + 2 : "");
                if (n > 200 && (s || f > 1))
                    continue;
                add(suite,
                    "kernel \"row\" {\n  arg x: f32[2, %lld]\n  arg y: f32[2, %lld] written\n  arg o: f32[2] written\n"
                    "  local e: f32[%lld] written\n  iter r in [0, 1]\n  iter i in [0, %lld]\n  iter j in [0, %lld]\n"
                    "  iter k in [0, %lld]\n  var m: f32\n  var s: f32\n  for r in 0 .. 2 {\n    for i in 0 .. %lld vec {\n"
                    "      store e[i] = mul.f32(x[r, i], f32(3))\n    }\n    fold m = max exact over (k: %lld) : x[r, k]\n"
                    "    for j in 0 .. %lld vec {\n      store %s\n    }\n    fold s = %s %s over (k: %lld) : e[k]\n    store o[r] = s\n"
                    "    for i in 0 .. %lld vec {\n      store y[r, i] = add.f32(e[i], s)\n    }\n  }\n}\n",
                    n, n, n, n - 1, n - 1, n - 1, n, n, f == 4 ? n / 2 : n, at ? store : stores[s], form[f % 4].kind, form[f % 4].form, n,
                    n);
            }
    finish(suite);
}

static void column_in_lanes(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 3, 9, 16, 17, 49, 64, 65, 100, 8192, 8200};
    BitsSuite *suite = bits_begin();
    for (uint32_t f = 0; f < IG_COUNT(forms); f++)
        for (uint32_t i = 0; i < IG_COUNT(sizes); i++) {
            long long n = sizes[i];
            if (n > 100 && f > 1)
                continue;
            add(suite,
                "kernel \"column\" {\n  arg x: %s[%lld, 21]\n  arg o: %s[21] written\n  iter c in [0, 20]\n"
                "  iter k in [0, %lld]\n  var s: %s\n  for c in 0 .. 21 vec {\n    fold s = %s %s over (k: %lld) : x[k, c]\n"
                "    store o[c] = s\n  }\n}\n",
                forms[f].dtype, n, forms[f].dtype, n ? n - 1 : 0, forms[f].dtype, forms[f].kind, forms[f].form, n);
        }
    finish(suite);
}

/* Axes that are adjacent in memory, apart, strided, in either order; the last a multiple of 16 or not. */
static void several_axes(void **state)
{
    (void)state;
    static const struct {
        int64_t a, b;
        const char *index;
    } shapes[] = {{3, 16, "x[0, p, q]"}, {3, 7, "x[0, p, q]"},  {16, 3, "x[0, p, q]"}, {4, 32, "x[p, 1, q]"},
                  {4, 10, "x[p, 1, q]"}, {7, 7, "x[q, 0, p]"},  {2, 16, "x[q, p, 1]"}, {1, 5, "x[p, 2, q]"},
                  {9, 9, "x[p, q, 3]"},  {40, 250, "x[p, 1, q]"}, {40, 256, "x[p, 1, q]"}};
    BitsSuite *suite = bits_begin();
    for (uint32_t i = 0; i < IG_COUNT(shapes); i++)
        for (uint32_t f = 0; f < 4; f += 3) {
            long long a = shapes[i].a, b = shapes[i].b, d = a > b ? a : b;
            add(suite,
                "kernel \"axes\" {\n  arg x: f32[%lld, %lld, %lld]\n  arg o: f32[1] written\n  iter p in [0, %lld]\n"
                "  iter q in [0, %lld]\n  var s: f32\n  fold s = %s %s over (p: %lld, q: %lld) : mul.f32(%s, f32(0.25))\n"
                "  store o[0] = s\n}\n",
                d, d < 4 ? 4 : d, d < 4 ? 4 : d, a - 1, b - 1, forms[f].kind, forms[f].form, a, b, shapes[i].index);
            if (d > 40)
                continue;
            add(suite,
                "kernel \"axes_lanes\" {\n  arg x: f32[%lld, %lld, %lld, 18]\n  arg o: f32[18] written\n  iter p in [0, %lld]\n"
                "  iter q in [0, %lld]\n  iter c in [0, 17]\n  var s: f32\n  for c in 0 .. 18 vec {\n"
                "    fold s = %s %s over (p: %lld, q: %lld) : %.*s, c]\n    store o[c] = s\n  }\n}\n",
                d, d < 4 ? 4 : d, d < 4 ? 4 : d, a - 1, b - 1, forms[f].kind, forms[f].form, a, b,
                (int)__builtin_strlen(shapes[i].index) - 1, shapes[i].index);
        }
    finish(suite);
}

static void guards(void **state)
{
    (void)state;
    static const char *const conditions[] = {"k < 37",           "4 < k",           "(5 < k && k < r + 40)", "r < 1",
                                             "((k + r) %% 3) == 1", "!(k == r*16)", "k < 0",                 "(k / 16) == r"};
    BitsSuite *suite = bits_begin();
    for (uint32_t i = 0; i < IG_COUNT(conditions); i++)
        for (uint32_t f = 0; f < 4; f++) {
            char condition[64];
            snprintf(condition, sizeof condition, conditions[i], 0);
            add(suite,
                "kernel \"guard\" {\n  arg x: f32[2, 60]\n  arg o: f32[2] written\n  iter r in [0, 1]\n  iter k in [0, 59]\n"
                "  var s: f32\n  for r in 0 .. 2 {\n    fold s = %s %s over (k: 60) if (%s) : x[r, k]\n    store o[r] = s\n"
                "  }\n}\n",
                forms[f].kind, forms[f].form, condition);
            add(suite,
                "kernel \"guard_lanes\" {\n  arg x: f32[2, 60, 20]\n  arg o: f32[2, 20] written\n  iter r in [0, 1]\n"
                "  iter k in [0, 59]\n  iter c in [0, 19]\n  var s: f32\n  for r in 0 .. 2 {\n    for c in 0 .. 20 vec {\n"
                "      fold s = %s %s over (k: 60) if (%s) : x[r, k, c]\n      store o[r, c] = s\n    }\n  }\n}\n",
                forms[f].kind, forms[f].form, condition);
            add(suite,
                "kernel \"guard_by_lane\" {\n  arg x: f32[60, 20]\n  arg o: f32[20] written\n  iter k in [0, 59]\n"
                "  iter r in [0, 19]\n  var s: f32\n  for r in 0 .. 20 vec {\n    fold s = %s %s over (k: 60) if (%s) : x[k, r]\n"
                "    store o[r] = s\n  }\n}\n",
                forms[f].kind, forms[f].form, condition);
        }
    finish(suite);
}

/* Windows that reach outside: the address is valid only where the guard holds. */
static void windows(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    for (uint32_t f = 0; f < 4; f++)
        for (int in_lanes = 0; in_lanes < 2; in_lanes++)
            add(suite,
                "kernel \"window\" {\n  arg x: f32[9, 19]\n  arg o: f32[9, 19] written\n  iter h in [0, 8]\n  iter c in [0, 18]\n"
                "  iter p in [0, 2]\n  iter q in [0, 4]\n  var s: f32\n  for h in 0 .. 9 {\n    for c in 0 .. 19 %s {\n"
                "      fold s = %s %s over (p: 3, q: 5) if ((((0 < h + p) && (h + p < 10)) && (1 < c + q)) && (c + q < 21)) : "
                "x[h + p - 1, c + q - 2]\n      store o[h, c] = s\n    }\n  }\n}\n",
                in_lanes ? "vec" : "", forms[f].kind, forms[f].form);
    /* x fills a page: the row above it must not be touched, even for a value that is not used */
    add(suite, "kernel \"guarded_rows\" {\n  arg x: f32[16, 64]\n  arg y: f32[40]\n  arg o: f32[16] written\n  iter h in [0, 15]\n"
               "  iter p in [0, 2]\n  iter q in [0, 39]\n  var s: f32\n  for h in 0 .. 16 {\n"
               "    fold s = dot chain 512 over (p: 3, q: 40) if ((0 < h + p) && (h + p < 17)) : x[h + p - 1, 3], y[q]\n"
               "    store o[h] = s\n  }\n}\n");
    finish(suite);
}

static void chains(void **state)
{
    (void)state;
    static const struct {
        int64_t n, kb;
    } sizes[] = {{0, 8}, {1, 8}, {8, 8}, {9, 8}, {100, 8}, {512, 512}, {700, 512}, {1536, 512}, {37, 5}};
    static const char *const dtypes_of[] = {"f32", "f64", "s32", "s64"};
    BitsSuite *suite = bits_begin();
    for (uint32_t i = 0; i < IG_COUNT(sizes); i++)
        for (uint32_t d = 0; d < IG_COUNT(dtypes_of); d++) {
            const char *t = dtypes_of[d];
            long long n = sizes[i].n;
            char form[32];
            snprintf(form, sizeof form, d >= 2 ? "exact" : "chain %lld", (long long)sizes[i].kb);
            add(suite,
                "kernel \"dot\" {\n  arg x: %s[%lld]\n  arg y: %s[%lld, 3]\n  arg o: %s[1] written\n  iter k in [0, %lld]\n"
                "  var s: %s\n  fold s = dot %s over (k: %lld) : x[k], y[k, 1]\n  store o[0] = s\n}\n",
                t, n, t, n, t, n ? n - 1 : 0, t, form, n);
            add(suite,
                "kernel \"dot_lanes\" {\n  arg x: %s[%lld, 20]\n  arg y: %s[%lld]\n  arg o: %s[20] written\n"
                "  iter k in [0, %lld]\n  iter c in [0, 19]\n  var s: %s\n  for c in 0 .. 20 vec {\n"
                "    fold s = dot %s over (k: %lld) : x[k, c], y[k]\n    store o[c] = s\n  }\n}\n",
                t, n, t, n, t, n ? n - 1 : 0, t, form, n);
        }
    /* blocks that end within rows, at rows, and after several */
    for (long long kb = 4; kb <= 72; kb += 7)
        add(suite,
            "kernel \"dot_axes\" {\n  arg x: f32[9, 11]\n  arg y: f32[9, 12]\n  arg o: f32[1] written\n  iter p in [0, 8]\n"
            "  iter q in [0, 7]\n  var s: f32\n  fold s = dot chain %lld over (p: 9, q: 8) if (2 < p + q) : x[p, q + 2], y[p, q]\n"
            "  store o[0] = s\n}\n",
            kb);
    add(suite, "kernel \"dot_rows\" {\n  arg x: f32[9, 11]\n  arg y: f32[9, 12]\n  arg o: f32[1] written\n  iter p in [0, 8]\n"
               "  iter q in [0, 7]\n  var s: f32\n  fold s = dot chain 16 over (p: 9, q: 8) if (2 < p + q) : x[p, q + 2], y[p, q]\n"
               "  store o[0] = s\n}\n");
    /* depthwise convolution over channels in lanes */
    add(suite, "kernel \"depthwise\" {\n  arg x: f32[6, 7, 24]\n  weight w: f32[3, 3, 24]\n  arg o: f32[6, 7, 24] written\n"
               "  iter h in [0, 5]\n  iter v in [0, 6]\n  iter c in [0, 23]\n  iter p in [0, 2]\n  iter q in [0, 2]\n  var s: f32\n"
               "  for h in 0 .. 6 par {\n    for v in 0 .. 7 {\n      for c in 0 .. 24 vec {\n"
               "        fold s = dot chain 513 over (p: 3, q: 3) if ((((0 < h + p) && (h + p < 7)) && (0 < v + q)) && (v + q < 8)) : "
               "x[h + p - 1, v + q - 1, c], w[p, q, c]\n        store o[h, v, c] = s\n      }\n    }\n  }\n}\n");
    finish(suite);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_row), cmocka_unit_test(folds_of_loops), cmocka_unit_test(column_in_lanes), cmocka_unit_test(several_axes),
        cmocka_unit_test(guards),  cmocka_unit_test(windows),         cmocka_unit_test(chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
