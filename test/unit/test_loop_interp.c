/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter against results worked out by hand or by a direct transcription of numerics.md. Inputs are chosen so
 * that another order of the same additions gives another number.
 */
#include "loop/loop.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static Kernel *parse(Context *ctx, const char *text)
{
    Kernel *k = kernel_parse(ctx, ctx_arena(ctx), str_intern(ctx, "test"), text, strlen(text));
    bool fine = k && kernel_verify(k);
    if (!fine) {
        Text message;
        text_init(&message, ctx_arena(ctx));
        for (uint32_t i = 0; i < diag_count(ctx); i++)
            diag_print(ctx, &message, diag_get(ctx, i));
        fail_msg("%s", message.data);
    }
    return k;
}

static void run(Kernel *k, void *const *data) { kernel_interp(k, data, 0, kernel_tiles(k), NULL); }

/* y[0] = fold `fold` over n elements of x, all f32 */
static float fold_f32(Context *ctx, const char *fold, int64_t n, const float *x)
{
    float y = 77;
    Kernel *k = parse(ctx, str_format(ctx,
                                      "kernel \"t\" { arg x: f32[%lld] arg y: f32[1] iter i in [0, %lld] var s: f32\n"
                                      "fold s = %s over (i: %lld) : x[i]\n store y[0] = s }",
                                      (long long)n, (long long)(n ? n - 1 : 0), fold, (long long)n));
    run(k, (void *[]){(void *)(uintptr_t)x, &y});
    return y;
}

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }
static float any_f32(uint32_t *state)
{
    return (float)(int32_t)next(state) * (1.0f / (float)(1 << (next(state) >> 28)));
}

static float lanes16(const float *x, int64_t n, bool product)
{
    float total = 0;
    if (n == 0)
        return product ? 1.0f : 0.0f;
    for (int64_t block = 0; block < n; block += 8192) {
        float lane[16];
        for (int j = 0; j < 16; j++)
            lane[j] = product ? 1.0f : -0.0f;
        for (int64_t i = block; i < n && i < block + 8192; i++)
            lane[i % 16] = product ? lane[i % 16] * x[i] : lane[i % 16] + x[i];
        for (int half = 8; half; half /= 2)
            for (int j = 0; j < half; j++)
                lane[j] = product ? lane[j] * lane[j + half] : lane[j] + lane[j + half];
        total = block == 0 ? lane[0] : product ? total * lane[0] : total + lane[0];
    }
    return total;
}

static void lanes16_at_every_length(void **state)
{
    static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 31, 33, 8191, 8192, 8193, 20000};
    static float x[20000];
    uint32_t seed = 1;
    for (size_t i = 0; i < IG_COUNT(lengths); i++) {
        for (int64_t j = 0; j < lengths[i]; j++)
            x[j] = any_f32(&seed);
        assert_int_equal(f32_bits(fold_f32(*state, "sum lanes16", lengths[i], x)),
                         f32_bits(lanes16(x, lengths[i], false)));
        for (int64_t j = 0; j < lengths[i]; j++)
            x[j] = 1.0f + (float)((int32_t)next(&seed) >> 8) * 0x1p-26f;
        assert_int_equal(f32_bits(fold_f32(*state, "prod lanes16", lengths[i], x)),
                         f32_bits(lanes16(x, lengths[i], true)));
    }
}

static void lanes16_by_hand(void **state)
{
    static float x[8193];
    assert_int_equal(f32_bits(fold_f32(*state, "sum lanes16", 0, x)), 0);
    x[0] = -0.0f; /* missing lanes hold -0: the sum of one -0 stays -0 */
    assert_int_equal(f32_bits(fold_f32(*state, "sum lanes16", 1, x)), 0x80000000u);
    /* lane 0: 1e8 - 1e8; lane 8: 1. One after the other it would be 0. */
    x[0] = 1e8f, x[8] = 1, x[16] = -1e8f;
    assert_true(fold_f32(*state, "sum lanes16", 17, x) == 1.0f);
    /* the block ends before 8192: 1e8 + 1 is rounded to 1e8 first */
    x[16] = 0, x[8192] = -1e8f;
    assert_true(fold_f32(*state, "sum lanes16", 8193, x) == 0.0f);
    x[8192] = NAN;
    assert_true(isnan(fold_f32(*state, "sum lanes16", 8193, x)));
}

static void max_and_min(void **state)
{
    const float x[] = {1, -3, 2}, nan_last[] = {1, NAN}, nan_first[] = {NAN, 1}, zeros[] = {-0.0f, -0.0f};
    assert_true(fold_f32(*state, "max exact", 3, x) == 2);
    assert_true(fold_f32(*state, "min exact", 3, x) == -3);
    assert_true(isnan(fold_f32(*state, "max exact", 2, nan_last)) &&
                isnan(fold_f32(*state, "max exact", 2, nan_first)));
    assert_true(isnan(fold_f32(*state, "min exact", 2, nan_last)) &&
                isnan(fold_f32(*state, "min exact", 2, nan_first)));
    assert_int_equal(f32_bits(fold_f32(*state, "max exact", 2, zeros)), 0);
    assert_int_equal(f32_bits(fold_f32(*state, "min exact", 2, zeros)), 0);
    assert_true(fold_f32(*state, "max exact", 0, x) == -HUGE_VALF);
    assert_true(fold_f32(*state, "min exact", 0, x) == HUGE_VALF);
}

static void folds_of_integers(void **state)
{
    int8_t x[] = {100, 100, -7, 3};
    uint8_t u[] = {255, 255, 255, 1};
    int8_t y[6];
    int32_t dot;
    uint8_t b;
    bool flags[] = {true, true, false, true};
    Kernel *k = parse(
        *state, "kernel \"t\" { arg x: s8[4] arg u: u8[4] arg f: bool[4] arg y: s8[6] arg d: s32[1] arg b: u8[1]\n"
                "iter i in [0, 3] var s: s8 var p: s8 var hi: s8 var lo: s8 var none: s8 var least: s8\n"
                "var d1: s32 var all: bool var some: bool\n"
                "fold s = sum exact over (i: 4) : x[i]\n"
                "fold p = prod exact over (i: 4) : x[i]\n"
                "fold hi = max exact over (i: 4) : x[i]\n"
                "fold lo = min exact over (i: 4) : x[i]\n"
                "fold none = sum exact over (i: 0) : x[i]\n"
                "fold least = max exact over (i: 0) : x[i]\n"
                "fold d1 = dot exact over (i: 4) : u[i], x[i]\n"
                "fold all = and exact over (i: 4) : f[i]\n"
                "fold some = or exact over (i: 4) : f[i]\n"
                "store y[0] = s store y[1] = p store y[2] = hi store y[3] = lo store y[4] = none store y[5] = least\n"
                "store d[0] = d1 store b[0] = cast.u8(or.bool(and.bool(some, not.bool(all)), all)) }");
    run(k, (void *[]){x, u, flags, y, &dot, &b});
    assert_int_equal(y[0], (int8_t)(uint8_t)196);
    assert_int_equal(y[1], (int8_t)(uint8_t)(int)(100 * 100 * -7 * 3));
    assert_int_equal(y[2], 100);
    assert_int_equal(y[3], -7);
    assert_int_equal(y[4], 0);
    assert_int_equal(y[5], -128);
    assert_int_equal(dot, 255 * 100 + 255 * 100 - 255 * 7 + 3);
    assert_int_equal(b, 1);
}

static float dot_f32(Context *ctx, int64_t n, int64_t kb, const char *guard, const float *a, const float *b)
{
    float y = 77;
    Kernel *k =
        parse(ctx, str_format(ctx,
                              "kernel \"t\" { arg a: f32[%lld] arg b: f32[%lld] arg y: f32[1] iter i in [0, 9]\n"
                              "var s: f32 fold s = dot chain %lld over (i: %lld) %s : a[i], b[i] store y[0] = s }",
                              (long long)n, (long long)n, (long long)kb, (long long)n, guard));
    run(k, (void *[]){(void *)(uintptr_t)a, (void *)(uintptr_t)b, &y});
    return y;
}

static void chains(void **state)
{
    const float ones[] = {1, 1, 1, 1, 1}, a[] = {1e8f, 1, -1e8f, 1}, e[] = {-1, 1 + 0x1p-12f}, f[] = {1, 1 + 0x1p-12f};
    assert_true(dot_f32(*state, 4, 512, "", a, ones) == 1); /* ((1e8+1)-1e8)+1 */
    assert_true(dot_f32(*state, 4, 2, "", a, ones) == 0);   /* (1e8+1) + (-1e8+1) */
    assert_true(dot_f32(*state, 4, 3, "", a, ones) == 1);
    assert_true(dot_f32(*state, 2, 9, "", e, f) == 0x1p-11f + 0x1p-24f); /* one rounding, so the square is exact */
    assert_int_equal(f32_bits(dot_f32(*state, 0, 2, "", a, ones)), 0);
    const float minus[] = {-0.0f, -0.0f, -0.0f, -0.0f};
    assert_int_equal(f32_bits(dot_f32(*state, 4, 2, "", minus, ones)), 0); /* chains start from +0 */
    /* absent positions still count for the blocks: blocks {-} {1e8, -} {1} */
    const float g[] = {5, 1e8f, 7, 1}, h[] = {1, NAN, 1, 1};
    assert_true(dot_f32(*state, 4, 2, "if ((i == 1) || (i == 3))", g, ones) == 1e8f);
    assert_true(dot_f32(*state, 4, 3, "if (i == 3)", h, ones) == 1); /* the NaN is absent */
    assert_int_equal(f32_bits(dot_f32(*state, 4, 2, "if (i < 0)", a, ones)), 0);
    /* tiny products round to -0 only at the end of a block; p0 itself is the start of the sum of blocks */
    const float t[] = {-0x1p-100f, 0}, u[] = {0x1p-100f, 0};
    assert_int_equal(f32_bits(dot_f32(*state, 1, 2, "", t, u)), 0x80000000u);
}

static void narrow_floats_widen(void **state)
{
    uint16_t a[2] = {f16_from_f32(2048), f16_from_f32(1)}, b[2] = {f16_from_f32(1), f16_from_f32(1)}, c[2];
    uint16_t big[1] = {bf16_from_f32(256)};
    float y[1];
    Kernel *k =
        parse(*state, "kernel \"t\" { arg a: f16[2] arg b: f16[2] arg c: f16[2] arg big: bf16[1] arg y: f32[1]\n"
                      "iter i in [0, 1] var s: f32 fold s = dot chain 4 over (i: 2) : a[i], b[i]\n"
                      "store c[0] = add.f16(a[0], b[1]) store c[1] = cast.f16(add.f32(cast.f32(a[0]), f32(3)))\n"
                      "store y[0] = add.f32(s, cast.f32(add.bf16(big[0], bf16(1)))) }");
    run(k, (void *[]){a, b, c, big, y});
    assert_true(y[0] == 2049.0f + 256.0f); /* f32 holds 2049; bf16 256 + 1 rounds to even */
    assert_true(f16_to_f32(c[0]) == 2048);
    assert_true(f16_to_f32(c[1]) == 2052); /* 2051 is half way, ties to even */
}

/* A register tile equals single folds, with a guard that depends on the row and clipped columns. */
static void tile_equals_folds(void **state)
{
    enum { ROWS = 5, K = 37, N = 21 };
    static float x[ROWS * K], w[2 * K * 16], y[ROWS * N + 3], z[ROWS * N];
    uint32_t seed = 9;
    for (int i = 0; i < ROWS * K; i++)
        x[i] = any_f32(&seed);
    for (int i = 0; i < 2 * K * 16; i++)
        w[i] = any_f32(&seed);
    y[ROWS * N] = 3.25f;
    Kernel *k =
        parse(*state, "kernel \"t\" { arg x: f32[5, 37] arg w: f32[2, 37, 16] arg y: f32[5, 21] arg z: f32[5, 21]\n"
                      "iter p in [0, 1] iter r in [0, 4] iter c in [0, 15] iter i in [0, 36] iter n in [0, 20]\n"
                      "iter q in [0, 4] var t: f32 var s: f32\n"
                      "for p in 0 .. 2 { mma t[r: 5, c: 16] = dot 8 over (i: 37) if (i < 40 - r*3) cols 21 - p*16 : "
                      "x[r, i], w[p, i, c]\n"
                      "  put t[r: 5, c: 16] cols 21 - p*16 : y[r, p*16 + c] = add.f32(t, f32(1)) }\n"
                      "for q in 0 .. 5 { for n in 0 .. 21 { fold s = dot chain 8 over (i: 37) if (i < 40 - q*3) : x[q, "
                      "i], w[n / 16, i, n % 16]\n"
                      "  store z[q, n] = add.f32(s, f32(1)) } } }");
    run(k, (void *[]){x, w, y, z});
    assert_memory_equal(y, z, sizeof z);
    assert_true(y[ROWS * N] == 3.25f);
    assert_true(y[0] != y[1]);
}

static void rows_beyond_the_limit_are_not_stored(void **state)
{
    int64_t n[1] = {3};
    float x[5] = {1, 2, 3, 4, 5}, y[5 * 16];
    for (int i = 0; i < 5 * 16; i++)
        y[i] = -1;
    Kernel *k = parse(*state, "kernel \"t\" { sizes n: s64[1] arg x: f32[5] arg y: f32[5, 16]\n"
                              "iter r in [0, 4] iter c in [0, 15] var t: f32\n"
                              "mma t[r: 5, c: 16] = dot 8 over () : x[r], f32(2)\n"
                              "put t[r: 5, c: 16] cols 15 rows index(n[0], 1, 5) : y[r, c] = t }");
    run(k, (void *[]){n, x, y});
    for (int i = 0; i < 5 * 16; i++)
        assert_true(y[i] == (i / 16 < 3 && i % 16 < 15 ? 2 * x[i / 16] : -1));
}

static void tiles_of_the_par_loop(void **state)
{
    float y[6] = {0};
    Kernel *k = parse(*state, "kernel \"t\" { arg y: f32[6] iter i in [0, 5]\n"
                              "for i in 0 .. 6 step 2 par { store y[i] = cast.f32(i + 1) store y[i + 1] = f32(9) } }");
    assert_int_equal(kernel_tiles(k), 3);
    kernel_interp(k, (void *[]){y}, 1, 2, NULL);
    const float want[] = {0, 0, 3, 9, 0, 0};
    assert_memory_equal(y, want, sizeof y);
    kernel_interp(k, (void *[]){y}, 2, 9, NULL);
    assert_true(y[4] == 5 && y[0] == 0);
}

static void branches_masks_and_checks(void **state)
{
    int64_t index[4] = {0, 7, -3, 2}, out[4];
    float x[3] = {10, 20, 30}, y[4] = {-1, -1, -1, -1};
    uint64_t error = 0;
    Kernel *k = parse(
        *state, "kernel \"t\" { arg n: s64[4] arg x: f32[3] arg y: f32[4] arg o: s64[4] iter i in [0, 3] var v: s64\n"
                "for i in 0 .. 4 { let v = max.s64(s64(0), min.s64(n[i], s64(2)))\n"
                "  check !!eq.bool(v, n[i]) code 517\n"
                "  if (i < 2) { store y[i] = x[index(v, 0, 2)] } else { store y[i] = x[i if (i < 3) else f32(-5)] "
                "where (i < 4) }\n"
                "  store o[i] = v } }");
    kernel_interp(k, (void *[]){index, x, y, out}, 0, 1, &error);
    assert_int_equal(error, 517);
    assert_true(y[0] == 10 && y[1] == 30 && y[2] == 30 && y[3] == -5);
    assert_true(out[0] == 0 && out[1] == 2 && out[2] == 0 && out[3] == 2);
    error = 3; /* the first error stays */
    kernel_interp(k, (void *[]){index, x, y, out}, 0, 1, &error);
    assert_int_equal(error, 3);
}

/* What a guard keeps out is never read: position 3 would lie outside. */
static void guarded_loads_are_not_read(void **state)
{
    float x[3] = {1, 2, 3};
    assert_true(fold_f32(*state, "sum lanes16", 3, x) == 6);
    float y;
    Kernel *k = parse(*state, "kernel \"t\" { arg x: f32[3] arg y: f32[1] iter i in [0, 3] var s: f32\n"
                              "fold s = sum lanes16 over (i: 4) if (i < 3) : x[i] store y[0] = s }");
    run(k, (void *[]){x, &y});
    assert_true(y == 6);
}

typedef struct Run {
    Kernel *k;
    void **data;
} Run;
static void run_body(void *arg)
{
    Run *r = arg;
    run(r->k, r->data);
}

static void leaving_a_buffer_is_a_bug(void **state)
{
    Context *ctx = *state;
    const int64_t dim[] = {4};
    Kernel *k = kernel_create(ctx, ctx_arena(ctx), str_intern(ctx, "t"));
    Buf *x = kernel_buf(k, str_intern(ctx, "x"), DT_F32, BUF_ARG, 1, dim);
    k->body = ls_store(k, x, (const Expr *[]){lx_int(k, 4)}, lx_const_f64(k, DT_F32, 1), NULL);
    float data[5] = {0};
    Run r = {k, (void *[]){data}};
    assert_int_equal(ctx_protect(ctx, run_body, &r), CTX_BUG);
    assert_true(data[4] == 0);
    diag_clear(ctx);
}

/* Shared subexpressions: the tree has 2^60 nodes, the graph 60. */
static void shared_expressions(void **state)
{
    Context *ctx = *state;
    const int64_t dim[] = {1};
    Kernel *k = kernel_create(ctx, ctx_arena(ctx), str_intern(ctx, "t"));
    Buf *x = kernel_buf(k, str_intern(ctx, "x"), DT_F32, BUF_ARG, 1, dim);
    Iter *i = kernel_iter(k, "i", 0, 0);
    const Expr *index[] = {lx_iter(k, i)};
    const Expr *e = lx_load(k, x, index, NULL, NULL);
    for (int n = 0; n < 60; n++)
        e = lx_map(k, OP_add, DT_F32, (const Expr *[]){e, e}, 2);
    k->body = ls_for(k, i, lx_int(k, 0), lx_int(k, 1), 1, BIND_SEQ, ls_store(k, x, index, e, NULL));
    float data[1] = {3};
    assert_true(kernel_verify(k));
    run(k, (void *[]){data});
    assert_true(data[0] == 0x3p60f);
    Text text, again;
    text_init(&text, ctx_arena(ctx));
    text_init(&again, ctx_arena(ctx));
    kernel_print(&text, k);
    Kernel *parsed = parse(ctx, text.data);
    kernel_print(&again, parsed);
    assert_string_equal(text.data, again.data);
    kernel_print(&again, kernel_clone(ctx_arena(ctx), k));
    assert_true(lx_uses_iter(e, i));
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
        cmocka_unit_test(lanes16_at_every_length),
        cmocka_unit_test(lanes16_by_hand),
        cmocka_unit_test(max_and_min),
        cmocka_unit_test(folds_of_integers),
        cmocka_unit_test(chains),
        cmocka_unit_test(narrow_floats_widen),
        cmocka_unit_test(tile_equals_folds),
        cmocka_unit_test(rows_beyond_the_limit_are_not_stored),
        cmocka_unit_test(tiles_of_the_par_loop),
        cmocka_unit_test(branches_masks_and_checks),
        cmocka_unit_test(guarded_loads_are_not_read),
        cmocka_unit_test(leaving_a_buffer_is_a_bug),
        cmocka_unit_test(shared_expressions),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
