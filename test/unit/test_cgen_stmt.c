/* SPDX-License-Identifier: Apache-2.0
 * Statements: vector loops with tails, bounds known late, masks and branches by lane, gathers and scatters, unrolling, checks;
 * properties of the object: deterministic, unwindable, named, self-contained. */
#define _GNU_SOURCE
#include "cgen/cgen.h"
#include "support/kernel_bits.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static void finish(BitsSuite *suite)
{
    assert_int_equal(bits_run(suite), 0);
    bits_end(suite);
}

static void vector_loops(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    for (int n = 1; n <= 70; n += n < 34 ? 1 : 12)
        bits_add_text(suite, arena_printf(suite->arena,
                                          "kernel \"copy\" {\n  arg x: f32[%d]\n  arg b: bool[%d]\n  arg y: f32[%d] written\n"
                                          "  arg h: s16[%d] written\n  iter i in [0, %d]\n  for i in 0 .. %d vec {\n"
                                          "    store y[i] = select.f32(b[i], x[i], f32(2))\n    store h[i] = cast.s16(i*3)\n  }\n}\n",
                                          n, n, n, n, n - 1, n));
    /* bounds that depend on an outer loop, and may be empty */
    bits_add_text(suite, "kernel \"triangle\" {\n  arg x: f32[40, 40]\n  arg y: f32[40, 40] written\n  iter r in [0, 39]\n"
                         "  iter i in [0, 39]\n  for r in 0 .. 40 par {\n    for i in r .. min(r*2, 40) vec {\n"
                         "      store y[r, i] = add.f32(x[r, i], cast.f32(i + r))\n    }\n  }\n}\n");
    bits_add_text(suite, "kernel \"stepped\" {\n  arg x: f32[33]\n  arg y: f32[99] written\n  iter i in [0, 32]\n"
                         "  for i in 0 .. 33 vec {\n    store y[i*3 + 1] = neg.f32(x[i*-1 + 32])\n  }\n}\n");
    /* channels in blocks of 16 */
    bits_add_text(suite, "kernel \"blocked\" {\n  arg x: f32[3, 5, 16]\n  arg y: f32[5, 40] written\n  iter r in [0, 4]\n"
                         "  iter i in [0, 39]\n  for r in 0 .. 5 par {\n    for i in 0 .. 40 vec {\n"
                         "      store y[r, i] = x[(i / 16), r, (i % 16)]\n    }\n  }\n}\n");
    bits_add_text(suite, "kernel \"odd\" {\n  arg x: f32[7, 11]\n  arg y: f32[70] written\n  iter i in [0, 69]\n"
                         "  for i in 0 .. 70 vec {\n    store y[i] = x[(i / 10), (i % 10)]\n  }\n}\n");
    finish(suite);
}

static void loads_and_stores(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    static const char *const types[] = {"f32", "f64", "f16", "s64", "u8", "bool"};
    for (uint32_t t = 0; t < IG_COUNT(types); t++)
        for (int n = 16; n <= 37; n += 21) {
            const char *e = types[t];
            bits_add_text(suite, arena_printf(suite->arena,
                                              "kernel \"transpose\" {\n  arg x: %s[%d, 5]\n  arg y: %s[5, %d] written\n"
                                              "  arg z: %s[%d, 3] written\n  iter r in [0, 4]\n  iter i in [0, %d]\n"
                                              "  for r in 0 .. 5 {\n    for i in 0 .. %d vec {\n      store y[r, i] = x[i, r]\n"
                                              "      store z[i, 1] = x[i, 4]\n    }\n  }\n}\n",
                                              e, n, e, n, e, n, n - 1, n));
            /* padding: guarded loads, uniform and by lane, of rows that may not exist */
            bits_add_text(suite, arena_printf(suite->arena,
                                              "kernel \"pad\" {\n  arg x: %s[4, %d]\n  arg y: %s[6, %d] written\n  iter r in [0, 5]\n"
                                              "  iter i in [0, %d]\n  for r in 0 .. 6 {\n    for i in 0 .. %d vec {\n"
                                              "      store y[r, i] = x[r - 1, i - 2 if (((0 < r && r < 5) && 1 < i) && i < %d) else "
                                              "cast.%s(i)]\n    }\n  }\n}\n",
                                              e, n, e, n + 5, n + 4, n + 5, n + 2, e));
            bits_add_text(suite, arena_printf(suite->arena,
                                              "kernel \"pad_rows\" {\n  arg x: %s[4, %d]\n  arg y: %s[6, %d] written\n"
                                              "  iter r in [0, 5]\n  iter i in [0, %d]\n  for r in 0 .. 6 {\n    for i in 0 .. %d vec {\n"
                                              "      store y[r, i] = x[r - 1, i if (0 < r && r < 5) else cast.%s(r)]\n    }\n"
                                              "    for i in 0 .. %d {\n      if 2 < r {\n        store y[r, i] = x[r - 3, i if i < 9 "
                                              "else cast.%s(7)]\n      }\n    }\n  }\n}\n",
                                              e, n, e, n, n - 1, n, e, n, e));
        }
    bits_add_text(suite, "kernel \"gather\" {\n  arg t: s64[21]\n  arg x: f32[9, 40]\n  arg y: f32[40, 21] written\n  iter r in [0, 39]\n"
                         "  iter i in [0, 20]\n  var a: s64\n  for r in 0 .. 40 {\n    for i in 0 .. 21 vec {\n"
                         "      let a = min.s64(max.s64(t[i], s64(0)), s64(8))\n      store y[r, i] = x[index(a, 0, 8), r]\n    }\n  }\n}\n");
    bits_add_text(suite, "kernel \"rows\" {\n  arg t: s32[21]\n  arg x: f32[9, 40]\n  arg y: f32[21, 40] written\n  iter r in [0, 20]\n"
                         "  iter i in [0, 39]\n  for r in 0 .. 21 par {\n    check lt.bool(t[r], s32(9)) code 77\n    for i in 0 .. 40 vec {\n"
                         "      store y[r, i] = x[index(cast.s64(min.s32(max.s32(t[r], s32(0)), s32(8))), 0, 8), i]\n    }\n  }\n}\n");
    /* reads what it wrote before, in the same and in another loop */
    bits_add_text(suite, "kernel \"again\" {\n  arg x: f32[50] written\n  local l: f32[50] written\n  iter i in [0, 49]\n  iter j in [0, 48]\n"
                         "  for i in 0 .. 50 vec {\n    store l[i] = add.f32(x[i], f32(1))\n    store x[i] = mul.f32(l[i], x[i])\n"
                         "    store x[i] = sub.f32(x[i], l[i])\n  }\n  for j in 0 .. 49 {\n    store x[j + 1] = add.f32(x[j], x[j + 1])\n"
                         "  }\n}\n");
    finish(suite);
}

/* Loops that exchange axes 16 x 16 elements at a time: rows that lie apart, two operands of which one is turned, masks by lane, two
 * turned ones; and those that may not, since the loop reads what it stores, k is not the contiguous axis, or types differ. */
static void exchanged_axes(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    static const struct {
        int k, l;
    } sizes[] = {{16, 16}, {48, 32}, {16, 64}, {24, 16}, {32, 40}};
    static const char *const values[] = {
        "x[i, r]", "mul.f32(x[i, r], f32(0.375))", "add.f32(sub.f32(x[i, r], z[r, i]), w[r])", "x[i, r if i < 13 else f32(2.5)]",
        "add.f32(x[i, r], mul.f32(v[i, r + 3], w[i]))", "x[i, r if r < 13 else f32(2.5)]", "add.f32(x[i, r], cast.f32(h[i, r]))",
        "max.f32(x[i, r], x[i, r + 1])",
    };
    for (uint32_t s = 0; s < IG_COUNT(sizes); s++)
        for (uint32_t v = 0; v < IG_COUNT(values); v++) {
            int k = sizes[s].k, l = sizes[s].l;
            bits_add_text(suite, arena_printf(suite->arena,
                                              "kernel \"turned\" {\n  arg x: f32[%d, %d]\n  arg v: f32[%d, %d]\n"
                                              "  arg h: f16[%d, %d]\n  arg z: f32[%d, %d]\n  arg w: f32[%d]\n"
                                              "  arg y: f32[%d, %d] written\n  iter r in [0, %d]\n  iter i in [0, %d]\n"
                                              "  for r in 0 .. %d {\n    for i in 0 .. %d vec {\n      store y[r, i] = %s\n    }\n  }\n}\n",
                                              l, k + 1, l, k + 3, l, k, k, l, k > l ? k : l, k, l, k - 1, l - 1, k, l, values[v]));
        }
    bits_add_text(suite, "kernel \"in_place\" {\n  arg x: f32[48, 48] written\n  iter r in [0, 15]\n  iter i in [0, 15]\n"
                         "  for r in 0 .. 16 {\n    for i in 0 .. 16 vec {\n      store x[r + 16, i] = x[i, r + 16]\n    }\n  }\n}\n");
    finish(suite);
}

static void masks_and_branches(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    for (int n = 32; n <= 45; n += 13) {
        bits_add_text(suite, arena_printf(suite->arena,
                                          "kernel \"by_lane\" {\n  arg x: f32[%d]\n  arg y: f32[%d] written\n  arg z: f32[%d, 2] written\n"
                                          "  iter i in [0, %d]\n  for i in 0 .. %d vec {\n    if 3 < i {\n"
                                          "      if ((i %% 3) == 1) {\n        store z[i, 1] = x[i]\n      } else {\n"
                                          "        store z[i, 0] = neg.f32(x[i])\n      }\n      store y[i] = x[i - 4]\n    } else {\n      store y[i] = f32(9)\n    }\n"
                                          "    store y[i] = add.f32(y[i], x[i]) where ((i %% 2) == 0)\n  }\n}\n",
                                          n, n, n, n - 1, n));
        bits_add_text(suite, arena_printf(suite->arena,
                                          "kernel \"by_row\" {\n  arg x: f32[6, %d]\n  arg y: f32[6, %d] written\n  iter r in [0, 5]\n"
                                          "  iter i in [0, %d]\n  for r in 0 .. 6 par {\n    if (1 < r && r < 5) {\n"
                                          "      for i in 0 .. %d vec {\n        store y[r, i] = x[r - 2, i]\n      }\n    } else {\n"
                                          "      for i in 0 .. %d {\n        store y[r, i] = x[r, i] where i < r*7\n      }\n    }\n  }\n}\n",
                                          n, n, n - 1, n, n));
    }
    bits_add_text(suite, "kernel \"unrolled\" {\n  arg x: f32[7, 20]\n  arg y: f32[7, 20] written\n  iter r in [0, 6]\n  iter i in [0, 19]\n"
                         "  var v: f32\n  var s: f32\n  iter k in [0, 19]\n  for r in 0 .. 7 step 2 unroll {\n"
                         "    let v = mul.f32(x[r, 0], cast.f32(r))\n    fold s = sum lanes16 over (k: 20) : sub.f32(x[r, k], v)\n"
                         "    for i in 0 .. 20 vec {\n      store y[r, i] = add.f32(mul.f32(x[r, i], v), s)\n    }\n  }\n}\n");
    bits_add_text(suite, "kernel \"checks\" {\n  arg x: s32[40]\n  arg y: s32[40] written\n  iter i in [0, 39]\n  for i in 0 .. 40 vec {\n"
                         "    check lt.bool(x[i], s32(100)) code 513\n    store y[i] = x[i]\n  }\n}\n");
    bits_add_text(suite, "kernel \"check_never\" {\n  arg y: s32[40] written\n  iter i in [0, 39]\n  for i in 0 .. 40 vec {\n"
                         "    check (i < 40) code 5\n    store y[i] = s32(1)\n  }\n}\n");
    finish(suite);
}

static void rows_of_models(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    for (int n = 30; n <= 64; n += 34)
        bits_add_text(suite, arena_printf(suite->arena,
                                          "kernel \"layer_norm\" {\n  arg x: f32[9, %d]\n  weight g: f32[%d]\n  weight b: f32[%d]\n"
                                          "  arg y: f32[9, %d] written\n  iter r in [0, 8]\n  iter i in [0, %d]\n  iter k in [0, %d]\n"
                                          "  var s: f32\n  var m: f32\n  var q: f32\n  var d: f32\n  for r in 0 .. 9 par {\n"
                                          "    fold s = sum lanes16 over (k: %d) : x[r, k]\n    let m = div.f32(s, f32(%d))\n"
                                          "    fold q = sum lanes16 over (k: %d) : mul.f32(sub.f32(x[r, k], m), sub.f32(x[r, k], m))\n"
                                          "    let d = div.f32(f32(1), sqrt.f32(add.f32(div.f32(q, f32(%d)), f32(1e-05))))\n"
                                          "    for i in 0 .. %d vec {\n"
                                          "      store y[r, i] = add.f32(mul.f32(mul.f32(sub.f32(x[r, i], m), d), g[i]), b[i])\n    }\n  }\n}\n",
                                          n, n, n, n, n - 1, n - 1, n, n, n, n, n));
    finish(suite);
}

/* ---- the object ------------------------------------------------------------------------------------------------------------------- */

static Blob emit(Context *ctx, const TargetInfo *target, CgenOutput output)
{
    static const char text[] = "kernel \"a/b:0, gelu\" {\n  arg x: f32[40]\n  arg y: f32[40] written\n  iter i in [0, 39]\n"
                               "  for i in 0 .. 40 vec {\n    store y[i] = pow.f32(tanh.f32(x[i]), sin.f32(x[i]))\n  }\n}\n";
    const Kernel *k = kernel_parse(ctx, ctx_arena(ctx), str_intern(ctx, "t"), text, sizeof text - 1);
    CgenOptions options = {.target = target, .opt_level = 1, .output = output};
    Blob out;
    assert_true(cgen_emit(ctx, ctx_arena(ctx), &options, &k, 1, &out));
    return out;
}

static bool contains(Blob blob, const char *text)
{
    return memmem(blob.data, blob.size, text, strlen(text) + 1) != NULL;
}

static void objects(void **state)
{
    (void)state;
    for (const TargetInfo *t = cgen_targets(); t->triple; t++) {
        Context *first = ctx_create(NULL), *second = ctx_create(NULL);
        Blob a = emit(first, t, CGEN_OBJECT), b = emit(second, t, CGEN_OBJECT);
        assert_int_equal(a.size, b.size);
        assert_memory_equal(a.data, b.data, a.size);
        assert_true(contains(a, "a_b_0__gelu"));
        assert_true(contains(a, ".eh_frame"));
        Blob text = emit(first, t, CGEN_ASSEMBLY), ir = emit(first, t, CGEN_LLVM_IR);
        assert_non_null(memmem(text.data, text.size, "a_b_0__gelu:", 12));
        assert_non_null(memmem(ir.data, ir.size, "define void @a_b_0__gelu(", 25));
        ctx_destroy(first);
        ctx_destroy(second);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_loops),   cmocka_unit_test(loads_and_stores), cmocka_unit_test(masks_and_branches),
        cmocka_unit_test(rows_of_models), cmocka_unit_test(objects),          cmocka_unit_test(exchanged_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
