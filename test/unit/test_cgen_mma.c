/* SPDX-License-Identifier: Apache-2.0
 * Register tiles: every shape that fits the registers, block counts, column limits, guards, prologues and epilogues. */
#define _GNU_SOURCE
#include "cgen/cgen.h"
#include "support/kernel_bits.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static void add(BitsSuite *suite, const char *format, ...) IG_PRINTF(2, 3);
static void add(BitsSuite *suite, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char text[4096];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bits_add_text(suite, text);
}

static void finish(BitsSuite *suite)
{
    assert_int_equal(bits_run(suite), 0);
    bits_end(suite);
}

#define MATMUL                                                                                                         \
    "kernel \"matmul\" {\n  arg x: %s[%d, %d]\n  weight w: %s[%d, %d, 16]\n  weight bias: %s[%d]\n  arg y: %s[%d, %d] written\n"            \
    "  iter p in [0, %d]\n  iter t in [0, %d]\n  iter r in [0, %d]\n  iter c in [0, %d]\n  iter k in [0, %d]\n  var acc: %s\n"              \
    "  for p in 0 .. %d par {\n    for t in 0 .. %d step %d {\n      mma acc[r: %d, c: %d] = dot %d over (k: %d) : "  \
    "%s(x[t + r, k]), w[p*%d + (c / 16), k, (c %% 16)]\n"                                                               \
    "      put acc[r: %d, c: %d] : y[t + r, p*%d + c] = %s\n    }\n  }\n}\n"

/* y [m, n] = epilogue(x [m, k] w [k, n]) by rows x cols tiles that divide it */
static void matmul(BitsSuite *suite, const char *in, const char *t, int rows, int cols, int k, int kb, const char *epilogue)
{
    int m = 2 * rows, n = 2 * cols;
    char prologue[32] = "";
    if (__builtin_strcmp(in, t))
        snprintf(prologue, sizeof prologue, "cast.%s", t);
    add(suite, MATMUL, in, m, k, t, n / 16, k, t, n, t, m, n, 1, m - rows, rows - 1, cols - 1, k ? k - 1 : 0, t, 2, m - rows + 1,
        rows, rows, cols, kb, k, *prologue ? prologue : "", cols / 16, rows, cols, cols, epilogue);
}

static void every_shape(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    for (int vecs = 1; vecs <= 6; vecs++)
        for (int rows = 1; rows <= 28 && rows * vecs <= 28; rows++)
            if (rows <= 8 || rows == 12 || rows == 14 || rows == 16 || rows == 28)
                matmul(suite, "f32", "f32", rows, 16 * vecs, 12, 512, "add.f32(acc, bias[c])");
    finish(suite);
}

static void depths_and_blocks(void **state)
{
    (void)state;
    static const int depth[][2] = {{0, 8},  {1, 8},  {2, 8},   {3, 8},  {4, 8},  {5, 8},   {7, 8},    {8, 8},   {9, 8},
                                   {16, 8}, {17, 8}, {20, 8},  {21, 4}, {22, 4}, {100, 8}, {101, 10}, {37, 37}, {38, 37},
                                   {600, 512}, {1024, 512}, {1026, 512}, {30, 7}};
    BitsSuite *suite = bits_begin();
    for (uint32_t i = 0; i < IG_COUNT(depth); i++) {
        matmul(suite, "f32", "f32", 3, 32, depth[i][0], depth[i][1], "acc");
        matmul(suite, "f32", "f32", 1, 64, depth[i][0], depth[i][1], "exp.f32(acc)");
    }
    finish(suite);
}

static void types_and_epilogues(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    matmul(suite, "f16", "f32", 4, 32, 33, 16, "acc");
    matmul(suite, "bf16", "f32", 4, 32, 33, 16, "max.f32(acc, f32(0))");
    matmul(suite, "f64", "f64", 4, 16, 33, 16, "sub.f64(acc, bias[c])");
    matmul(suite, "s8", "s32", 4, 32, 33, 512, "add.s32(acc, bias[c])");
    matmul(suite, "u8", "s32", 2, 32, 33, 512, "mul.s32(acc, acc)");
    static const char *const heavy =
        "mul.f32(mul.f32(f32(0.5), acc), add.f32(f32(1), erf.f32(mul.f32(add.f32(acc, bias[p*32 + c]), f32(0.70710677)))))";
    for (int rows = 1; rows <= 6; rows++) {
        matmul(suite, "f32", "f32", rows, 32, 40, 16, heavy);
        matmul(suite, "f32", "f32", rows, 32, 40, 64, heavy);
        matmul(suite, "f32", "f32", rows, 32, 40, 64, "select.f32(lt.bool(x[t + r, 3], f32(0)), acc, tanh.f32(acc))");
        matmul(suite, "f32", "f32", rows, 32, 40, 16, "mul.f32(acc, cast.f32(t*7 + r*3 + c))");
    }
    finish(suite);
}

static void column_limits(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    for (int n = 1; n <= 70; n += n < 34 ? 3 : 9) {
        /* constant: unpacked b that ends with column n */
        add(suite,
            "kernel \"limit\" {\n  arg x: f32[5, 9]\n  arg w: f32[9, %d]\n  arg y: f32[5, %d] written\n  iter r in [0, 4]\n"
            "  iter c in [0, 79]\n  iter k in [0, 8]\n  var acc: f32\n  mma acc[r: 5, c: 80] = dot 4 over (k: 9) cols %d : x[r, k], "
            "w[k, c]\n  put acc[r: 5, c: 80] cols %d : y[r, c] = neg.f32(acc)\n}\n",
            n, n, n, n);
        /* known at run time, rows stored apart */
        add(suite,
            "kernel \"limit_late\" {\n  arg x: f32[5, 9]\n  arg w: f32[9, %d]\n  arg y: f32[%d, 5] written\n  iter p in [0, %d]\n"
            "  iter r in [0, 4]\n  iter c in [0, 31]\n  iter k in [0, 8]\n  var acc: f32\n  for p in 0 .. %d par {\n"
            "    mma acc[r: 5, c: 32] = dot 512 over (k: 9) cols p*-32 + %d : x[r, k], w[k, p*32 + c]\n"
            "    put acc[r: 5, c: 32] cols p*-32 + %d : y[p*32 + c, r] = acc\n  }\n}\n",
            n, n, (n - 1) / 32, (n - 1) / 32 + 1, n, n);
    }
    finish(suite);
}

/* Convolutions whose tiles hang over the edges: rows of pixels with taps outside, by class of tile. */
static void conv(BitsSuite *suite, int size, int kernel, int stride, int pad, int dilation, int ic, int kb, bool nchw)
{
    int out = (size + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
    add(suite,
        "kernel \"conv\" {\n  arg x: f32[%d, %d, %d] strides [%d, %d, %d]\n  weight w: f32[%d, %d, %d, 16]\n"
        "  arg y: f32[%d, %d, 16] written\n  iter h in [0, %d]\n  iter v in [0, %d]\n  iter c in [0, 15]\n  iter p in [0, %d]\n"
        "  iter q in [0, %d]\n  iter z in [0, %d]\n  var acc: f32\n  for h in 0 .. %d par {\n"
        "    mma acc[v: %d, c: 16] = dot %d over (p: %d, q: %d, z: %d) if ((((%d < h*%d + p*%d) && (h*%d + p*%d < %d)) && (%d < v*%d + "
        "q*%d)) && (v*%d + q*%d < %d)) : x[h*%d + p*%d - %d, v*%d + q*%d - %d, z], w[p, q, z, c]\n"
        "    put acc[v: %d, c: 16] : y[h, v, c] = select.f32(lt.bool(acc, f32(0)), f32(0), acc)\n  }\n}\n",
        size, size, ic, nchw ? size : size * ic, nchw ? 1 : ic, nchw ? size * size : 1, kernel, kernel, ic, out, out, out - 1, out - 1,
        kernel - 1, kernel - 1, ic - 1, out, out, kb, kernel, kernel, ic, pad - 1, stride, dilation, stride, dilation, size + pad,
        pad - 1, stride, dilation, stride, dilation, size + pad, stride, dilation, pad, stride, dilation, pad, out);
}

static void convolutions(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    conv(suite, 7, 3, 1, 1, 1, 8, 504, false);
    conv(suite, 7, 3, 1, 1, 1, 20, 60, false);
    conv(suite, 8, 3, 2, 1, 1, 5, 512, false);
    conv(suite, 9, 5, 1, 2, 1, 3, 15, false);
    conv(suite, 9, 3, 1, 2, 2, 4, 512, false);
    conv(suite, 11, 7, 2, 3, 1, 3, 504, true);
    conv(suite, 6, 3, 1, 0, 1, 8, 24, false);
    conv(suite, 6, 3, 1, 1, 1, 1, 512, true);
    conv(suite, 5, 1, 1, 0, 1, 24, 512, false);
    conv(suite, 7, 3, 1, 1, 1, 20, 7, false); /* blocks that end anywhere */
    /* 1-d, dilated, causal: a tile whose place is not known, so rows decide at run time; one block, and a block per tap */
    for (int kb = 6; kb <= 18; kb += 12)
        add(suite,
            "kernel \"tcn\" {\n  arg x: f32[40, 6]\n  weight w: f32[3, 6, 16]\n  arg y: f32[40, 16] written\n"
            "  iter t in [0, 36]\n  iter r in [0, 3]\n  iter c in [0, 15]\n  iter q in [0, 2]\n  iter z in [0, 5]\n  var acc: f32\n"
            "  for t in 0 .. 37 step 4 par {\n    mma acc[r: 4, c: 16] = dot %d over (q: 3, z: 6) if (15 < t + r + q*8) : "
            "x[t + r + q*8 - 16, z], w[q, z, c]\n    put acc[r: 4, c: 16] : y[t + r, c] = acc\n  }\n}\n",
            kb);
    finish(suite);
}

/* How many prefetches are in the LLVM IR of a matmul over so many panels of 32 KB, each read by so many row tiles. */
static int prefetches(const TargetInfo *target, int panels, int tiles, const char *ahead)
{
    char text[1024];
    Context *ctx = ctx_create(NULL);
    int n = snprintf(text, sizeof text,
                     "kernel \"m\" {\n  arg x: f32[%d, 512]\n  weight w: f32[%d, 512, 16]\n  arg y: f32[%d, %d] written\n"
                     "  iter p in [0, %d]\n  iter t in [0, %d]\n  iter r in [0, 3]\n  iter c in [0, 15]\n  iter k in [0, 511]\n"
                     "  var acc: f32\n  for p in 0 .. %d par {\n    for t in 0 .. %d {\n"
                     "      mma acc[r: 4, c: 16] = dot 512 over (k: 512) : x[t*4 + r, k], w[p, k, c] %s\n"
                     "      put acc[r: 4, c: 16] : y[t*4 + r, p*16 + c] = acc\n    }\n  }\n}\n",
                     4 * tiles, panels, 4 * tiles, 16 * panels, panels - 1, tiles - 1, panels, tiles, ahead);
    const Kernel *k = kernel_parse(ctx, ctx_arena(ctx), str_intern(ctx, "t"), text, (size_t)n);
    CgenOptions options = {.target = target, .opt_level = 2, .output = CGEN_LLVM_IR};
    Blob ir;
    assert_true(k && cgen_emit(ctx, ctx_arena(ctx), &options, &k, 1, &ir));
    int found = 0;
    const char *at = (const char *)ir.data, *end = at + ir.size;
    while ((at = memmem(at, (size_t)(end - at), "call void @llvm.prefetch", 24))) {
        found++;
        at++;
    }
    ctx_destroy(ctx);
    return found;
}

static void streamed_constants(void **state)
{
    (void)state;
    for (const TargetInfo *t = cgen_targets(); t->triple; t++) {
        int beyond_l2 = (int)(t->l2_bytes >> 15) + 1;
        assert_int_equal(prefetches(t, beyond_l2, 1, ""), 4); /* one for each of the positions of an iteration */
        assert_int_equal(prefetches(t, beyond_l2, 4, ""), 4);
        assert_int_equal(prefetches(t, beyond_l2, 100, ""), 0);
        assert_int_equal(prefetches(t, beyond_l2 - 1, 1, ""), 0);
        /* what the schedule says instead: 1024 or 512 lines over 128 iterations, 100 with some of them twice, or 2 before the first */
        assert_int_equal(prefetches(t, beyond_l2, 4, "ahead p*8192 + 8192, 16384"), 8);
        assert_int_equal(prefetches(t, 4, 4, "ahead p*8192 + t*2048 + 8192, 2048"), 1);
        assert_int_equal(prefetches(t, 4, 100, "ahead p*8192 + t*96 + 8192, 1600"), 1);
        assert_int_equal(prefetches(t, 4, 100, "ahead p*8192 + t*96 + 8192, 32"), 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape),   cmocka_unit_test(depths_and_blocks), cmocka_unit_test(types_and_epilogues),
        cmocka_unit_test(column_limits), cmocka_unit_test(convolutions),       cmocka_unit_test(streamed_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
