/* SPDX-License-Identifier: Apache-2.0
 *
 * The text form of kernels: a fixed point on the examples of test/loop and on constants of every type; what the parser
 * and the verifier refuse, one text for each reason.
 */
#include "loop/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *source_dir(void) { return getenv("SRC") ? getenv("SRC") : "."; }

static Kernel *parse(Context *ctx, const char *text)
{
    return kernel_parse(ctx, ctx_arena(ctx), str_intern(ctx, "test"), text, strlen(text));
}

static const char *print(Context *ctx, const Kernel *k)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    kernel_print(&text, k);
    return text.data;
}

static void assert_fixed_point(Context *ctx, Kernel *k)
{
    assert_non_null(k);
    const char *once = print(ctx, k);
    Kernel *again = parse(ctx, once);
    assert_non_null(again);
    assert_string_equal(print(ctx, again), once);
    assert_string_equal(print(ctx, kernel_clone(ctx_arena(ctx), k)), once);
    assert_string_equal(print(ctx, kernel_clone(ctx_arena(ctx), again)), once);
}

static void examples_are_fixed_points(void **state)
{
    static const char *const names[] = {"matmul_gelu", "softmax", "conv_guard", "sizes"};
    Context *ctx = *state;
    for (size_t i = 0; i < IG_COUNT(names); i++) {
        Blob blob;
        char *path = path_join(ctx_arena(ctx), source_dir(), str_format(ctx, "test/loop/%s.loop", names[i]));
        if (!file_map(ctx, path, &blob))
            skip();
        Kernel *k = kernel_parse(ctx, ctx_arena(ctx), str_intern(ctx, path), (const char *)blob.data, blob.size);
        assert_fixed_point(ctx, k);
        assert_true(kernel_verify(k));
        assert_true(kernel_tiles(k) > 1 || k->sizes);
    }
    assert_int_equal(diag_errors(ctx), 0);
}

/* The sizes of a run decide where a dense buffer's elements are, how far loops go and where folds end. */
static void sizes_are_those_of_the_run(void **state)
{
    static const char text[] = "kernel \"sizes\" {\n"
                               "  sizes n: s64[2]\n"
                               "  arg x: f32[8, 6] dense [index(n[0], 1, 8), index(n[1], 1, 6)]\n"
                               "  arg y: f32[8] written\n"
                               "  iter i in [0, 7] iter k in [0, 5]\n"
                               "  var s: f32\n"
                               "  for i in 0 .. index(n[0], 1, 8) {\n"
                               "    fold s = sum lanes16 over (k: 6 to index(n[1], 1, 6)) : x[i, k]\n"
                               "    store y[i] = s\n  }\n}\n";
    Context *ctx = *state;
    Kernel *k = parse(ctx, text);
    int64_t n[2] = {3, 4};
    float x[12], y[8] = {0};
    uint64_t error = 0;
    assert_non_null(k);
    assert_true(kernel_verify(k));
    for (int i = 0; i < 12; i++)
        x[i] = (float)i;
    kernel_interp(k, (void *[]){n, x, y}, 0, 1, &error);
    for (int i = 0; i < 8; i++)
        assert_true(y[i] == (i < 3 ? (float)(16 * i + 6) : 0));
    static const char *const wrong[][2] = {/* beyond the rows, the columns, and an extent that the size may pass */
                                           {"i in 0 .. index(n[0], 1, 8)", "i in 0 .. 8"},
                                           {"6 to index(n[1], 1, 6)", "6"},
                                           {"6 to index(n[1], 1, 6)", "5 to index(n[1], 1, 6)"}};
    for (size_t i = 0; i < IG_COUNT(wrong); i++) {
        const char *at = strstr(text, wrong[i][0]);
        assert_non_null(at);
        k = parse(ctx, str_format(ctx, "%.*s%s%s", (int)(at - text), text, wrong[i][1], at + strlen(wrong[i][0])));
        assert_non_null(k);
        assert_false(kernel_verify(k));
    }
}

static void everything_is_written_and_read(void **state)
{
    Context *ctx = *state;
    Kernel *k =
        parse(ctx, "kernel \"all / \\\"quoted\\\"\" {\n"
                   "  arg \"a/b\": f32[2, 8] strides [16, 1] elements 40\n"
                   "  arg n: s64[8]\n"
                   "  weight w: s8[4, 4] pack \"W\" offset 3 strides [4, -1] bound [1, 1] < 5 bound [0, 1] < 3\n"
                   "  local l: f32[16] written\n"
                   "  iter i in [0, 7] iter j in [-2, 5] iter true1 in [0, 1]\n"
                   "  var v: f32 var u: bool var h: f16 var x: u64 var z: s8\n"
                   "  for i in 0 .. 8 step 2 unroll {\n"
                   "    let h = f16(0x7e00)\n    let x = u64(0xfedcba9876543210)\n    let z = s8(-128)\n"
                   "    if (i < 4) { check true code 18446744073709551615 } else { check !(n[i] , 0) code 0 } } }");
    assert_null(k); /* !(a, b) is no expression */
    diag_clear(ctx);
    k = parse(
        ctx,
        "kernel \"all / \\\"quoted\\\"\" {\n"
        "  arg \"a/b\": f32[2, 8] strides [16, 1] elements 40\n"
        "  arg n: s64[8]\n"
        "  weight w: s8[4, 4] pack \"W\" offset 3 strides [4, -1] bound [1, 1] < 5 bound [0, 1] < 3\n"
        "  weight t: f32[16, 4] pack \"T\" winograd offset 0 strides [4, 1]\n"
        "  weight g: f32[16, 4] pack \"T\" winograd flipped offset 0 strides [4, 1]\n"
        "  local l: f32[16] written\n"
        "  iter i in [0, 7] iter j in [-2, 5] iter \"true\" in [0, 1]\n"
        "  var v: f32 var u: bool var h: f16 var x: u64 var z: s8 var d: f64 var b: bf16 var m: f32\n"
        "  for i in 0 .. 8 step 2 unroll {\n"
        "    let h = f16(0x7e00) let x = u64(0xfedcba9876543210) let z = s8(-128) let d = f64(-1e+300)\n"
        "    let b = bf16(inf) let m = f32(-0)\n"
        "    let u = ((i < 4) || !(i*3 + 1 == 7))\n"
        "    if u { check (u && eq.bool(n[i], s64(5))) code 18446744073709551615 } else { }\n"
        "    fold v = sum lanes16 over (j: 6, \"true\": 2) if (j < 3) :\n"
        "      \"a/b\"[\"true\", index(n[(i + j) % 8], 0, 7) if (i < 5) else mul.f32(f32(0.1), cast.f32(j*-2 - 3))]\n"
        "    store l[min(i + 1, 7)] = select.f32(u, v, cast.f32(h)) where !(i == 3)\n"
        "    store l[max(i - 2, 0)] = cast.f32(x) } }");
    assert_fixed_point(ctx, k);
    const char *text = print(ctx, k);
    static const char *const parts[] = {"f16(0x7e00)",
                                        "u64(0xfedcba9876543210)",
                                        "s8(-128)",
                                        "f64(-1e300)",
                                        "bf16(inf)",
                                        "f32(-0)",
                                        "step 2 unroll",
                                        "elements 40",
                                        "bound [0, 1] < 3",
                                        "f32(0.1)",
                                        "code 18446744073709551615",
                                        "\"true\": 2",
                                        "!(i == 2)",
                                        "n[((i + j) % 8)]"};
    for (size_t i = 0; i < IG_COUNT(parts); i++)
        if (!strstr(text, parts[i]))
            fail_msg("'%s' is missing in\n%s", parts[i], text);
}

static void shared_values_are_printed_once(void **state)
{
    Context *ctx = *state;
    Kernel *k =
        parse(ctx, "kernel \"t\" { arg x: f32[4] iter i in [0, 3]\n"
                   "for i in 0 .. 4 { $0 = exp.f32(x[i]) $1 = add.f32($0, $0) store x[i] = mul.f32($1, $1) } }");
    assert_fixed_point(ctx, k);
    assert_non_null(
        strstr(print(ctx, k), "    $0 = exp.f32(x[i])\n    $1 = add.f32($0, $0)\n    store x[i] = mul.f32($1, $1)\n"));
}

/* The mask of a store and a statement that follows it start with different words. */
static void a_store_before_an_if(void **state)
{
    Context *ctx = *state;
    Kernel *k = parse(ctx, "kernel \"t\" { arg x: f32[4] iter i in [0, 3]\n"
                           "for i in 0 .. 4 { store x[i] = f32(1) if (i < 2) { store x[i] = f32(2) where (i == 1) }\n"
                           "store x[i] = f32(3) where (i == 3) if (i == 3) { } } }");
    assert_fixed_point(ctx, k);
    const Stmt *plain = k->body->u.loop.body, *branch = plain->next, *masked = branch->next;
    assert_null(plain->u.store.mask);
    assert_int_equal(branch->kind, LS_IF);
    assert_non_null(branch->u.branch.then->u.store.mask);
    assert_non_null(masked->u.store.mask);
    assert_int_equal(masked->next->kind, LS_IF);
}

static void statements_are_cloned_with_substitution(void **state)
{
    Context *ctx = *state;
    Kernel *k = parse(
        ctx,
        "kernel \"t\" { arg x: f32[8] iter i in [0, 7] iter j in [0, 7] for i in 0 .. 8 { store x[i] = f32(1) } }");
    assert_non_null(k);
    Kernel *copy = kernel_clone(ctx_arena(ctx), k);
    copy->body->u.loop.body->u.store.value = lx_const_f64(copy, DT_F32, 2);
    assert_non_null(strstr(print(ctx, copy), "f32(2)"));
    assert_non_null(strstr(print(ctx, k), "f32(1)")); /* the original is untouched */
    Iter *again = kernel_iter(k, "i", 0, 3);
    assert_string_equal(again->name, "i_1");
}

typedef struct Bad {
    DiagId id;
    const char *text;
} Bad;

#define HEAD                                                                                                           \
    "kernel \"t\" { arg x: f32[8] arg y: f32[8] arg n: s32[8] iter i in [0, 7] iter j in [0, 7] iter c in [0, 15] "    \
    "var v: f32 var w: f32 var b: bool var s: s32 "

static const Bad unreadable[] = {
    {DIAG_loop_syntax, ""},
    {DIAG_loop_syntax, "kernel { }"},
    {DIAG_loop_syntax, "kernel \"t\" {"},
    {DIAG_loop_syntax, "kernel \"t\" { } x"},
    {DIAG_loop_syntax, "kernel \"t\" { arg x: s4[2] }"},
    {DIAG_loop_syntax, "kernel \"t\" { arg x: str[2] }"},
    {DIAG_loop_syntax, HEAD "for i in 0 .. { } }"},
    {DIAG_loop_syntax, HEAD "for q in 0 .. 2 { } }"},
    {DIAG_loop_syntax, HEAD "store q[0] = f32(1) }"},
    {DIAG_loop_syntax, HEAD "store x[0, 1] = f32(1) }"},
    {DIAG_loop_syntax, HEAD "let v = f32(nan) }"},
    {DIAG_loop_syntax, HEAD "fold v = sum best over (i: 2) : x[i] }"},
    {DIAG_loop_syntax, HEAD "let v = \"open }"},
    {DIAG_loop_syntax, HEAD "check (i < 99999999999999999999) code 1 }"},
    {DIAG_loop_syntax, HEAD "jump }"},
    {DIAG_loop_misfit, HEAD "let v = nothing }"},
    {DIAG_loop_misfit, HEAD "let v = $0 }"},
    {DIAG_loop_misfit, HEAD "$1 = x[0] }"},
    {DIAG_loop_misfit, "kernel \"t\" { arg x: f32[2] arg x: f32[2] }"},
    {DIAG_loop_misfit, "kernel \"t\" { arg x: f32[-2] }"},
    {DIAG_loop_misfit, "kernel \"t\" { arg x: f32[9223372036854775807, 2] }"},
    {DIAG_loop_misfit, "kernel \"t\" { iter i in [3, 2] }"},
    {DIAG_loop_misfit, HEAD "for i in 0 .. 8 step 0 { } }"},
    {DIAG_loop_misfit, HEAD "store x[i / 0] = f32(1) }"},
    {DIAG_loop_misfit, HEAD "store x[x[0]] = f32(1) }"},
    {DIAG_loop_misfit, HEAD "let v = exp.f32(s32(1)) }"},
    {DIAG_loop_misfit, HEAD "let v = add.f32(x[0]) }"},
    {DIAG_loop_misfit, HEAD "let v = conv.f32(x[0], x[0]) }"},
    {DIAG_loop_misfit, HEAD "let v = exp.f64(f64(1)) }"}, /* no portable bits */
    {DIAG_loop_misfit, HEAD "let b = lt.f32(x[0], x[1]) }"},
    {DIAG_loop_misfit, HEAD "if i { } }"},
    {DIAG_loop_misfit, HEAD "let v = x[0 if (i < 3) else s32(1)] }"},
    {DIAG_loop_misfit, HEAD "let v = select.f32(x[0], x[0], x[0]) }"},
};

static const Bad refused[] = {
    {DIAG_loop_scope, HEAD "store x[i] = f32(1) }"},
    {DIAG_loop_scope, HEAD "store x[0] = v }"},
    {DIAG_loop_scope, HEAD "for i in 0 .. 8 { let v = f32(1) } store x[0] = v }"},
    {DIAG_loop_scope, HEAD "let v = f32(1) let v = f32(2) }"},
    {DIAG_loop_scope, HEAD "for i in 0 .. 8 { for i in 0 .. 8 { } } }"},
    {DIAG_loop_scope, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) : x[i], y[j] let w = v }"},
    {DIAG_loop_scope, HEAD "let v = f32(1) put v[i: 2, c: 16] : x[i] = v }"},
    {DIAG_loop_type, HEAD "let v = s32(1) }"},
    {DIAG_loop_type, HEAD "store x[0] = s32(1) }"},
    {DIAG_loop_type, "kernel \"t\" { weight w: f32[2] store w[0] = f32(1) }"},
    {DIAG_loop_fold, HEAD "fold v = sum exact over (i: 8) : x[i] }"},
    {DIAG_loop_fold, HEAD "fold v = dot lanes16 over (i: 8) : x[i], y[i] }"},
    {DIAG_loop_fold, HEAD "fold v = dot chain 0 over (i: 8) : x[i], y[i] }"},
    {DIAG_loop_fold, HEAD "fold v = max lanes16 over (i: 8) : x[i] }"},
    {DIAG_loop_fold, HEAD "fold s = sum lanes16 over (i: 8) : n[i] }"},
    {DIAG_loop_fold, HEAD "fold s = sum exact over (i: 8) : x[i] }"},
    {DIAG_loop_fold,
     "kernel \"t\" { arg x: f16[8] iter i in [0, 7] var v: f16 fold v = sum lanes16 over (i: 8) : x[i] }"},
    {DIAG_loop_range, HEAD "for i in 0 .. 9 { } }"},
    {DIAG_loop_range, HEAD "for i in -1 .. 3 { } }"},
    {DIAG_loop_range, HEAD "fold v = max exact over (i: 9) : x[0] }"},
    {DIAG_loop_access, HEAD "store x[8] = f32(1) }"},
    {DIAG_loop_access, HEAD "for i in 0 .. 8 { store x[i + 1] = f32(1) } }"},
    {DIAG_loop_access, HEAD "for i in 0 .. 8 { store x[i] = y[i - 1] } }"},
    {DIAG_loop_access, HEAD "for i in 0 .. 8 { if (i < 7) { } else { store x[i + 1] = f32(1) } } }"},
    {DIAG_loop_access, HEAD "for i in 0 .. 8 { if (i < 3) { } else { store x[i + 1] = f32(1) } } }"},
    {DIAG_loop_access, HEAD "for i in 0 .. 8 { for j in 0 .. 8 { store x[min(i - 1, j)] = f32(1) } } }"},
    {DIAG_loop_access, HEAD "for i in 0 .. 8 { for j in 0 .. 8 { store x[max(i + 1, j)] = f32(1) } } }"},
    {DIAG_loop_access, HEAD "for i in 0 .. 8 { store x[7 - (i/3)*3 - i] = f32(1) } }"},
    {DIAG_loop_access, HEAD "for i in 0 .. 8 { store x[index(n[i], 0, 8)] = f32(1) } }"},
    {DIAG_loop_parallel, HEAD "for i in 0 .. 8 par { store x[0] = f32(1) } }"},
    {DIAG_loop_parallel, HEAD "for i in 0 .. 8 vec { store x[3] = f32(1) } }"},
    {DIAG_loop_parallel, HEAD "for i in 0 .. 8 par { for j in 0 .. 8 { store x[j] = f32(1) } } }"},
    {DIAG_loop_parallel, HEAD "for i in 0 .. 7 par { store x[i] = x[3] } }"},
    {DIAG_loop_parallel, HEAD "for i in 0 .. 8 { for j in 0 .. 8 par { store x[j] = f32(1) } } }"},
    {DIAG_loop_parallel, HEAD "for i in 0 .. 8 vec { for j in 0 .. 8 vec { store x[i] = f32(1) } } }"},
    {DIAG_loop_parallel, HEAD "store y[0] = f32(1) for i in 0 .. 8 par { store x[i] = f32(1) } }"},
    {DIAG_loop_parallel, HEAD "for i in 0 .. 8 { for j in 0 .. i unroll { store x[i] = f32(1) } } }"},
    {DIAG_loop_mma, HEAD "mma v[i: 2, c: 12] = dot 4 over (j: 8) : x[i], y[j] }"},
    {DIAG_loop_mma, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) : x[c % 8], y[j] }"},
    {DIAG_loop_mma, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) : x[i], y[i] }"},
    {DIAG_loop_mma, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) if (c < 3) : x[i], y[j] }"},
    {DIAG_loop_mma, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) cols i : x[i], y[j] }"},
    {DIAG_loop_mma, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) : x[i], n[j] }"},
    {DIAG_loop_mma, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) : x[i], y[j] ahead 8, 0 }"},
    {DIAG_loop_mma, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) : x[i], f32(1) ahead 8, 4 }"},
    {DIAG_loop_scope, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) : x[i], y[j] ahead j, 4 }"},
    {DIAG_loop_mma, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) : x[i], y[j] put v[i: 3, c: 16] : x[i] = v }"},
    {DIAG_loop_scope, HEAD "mma v[i: 2, c: 16] = dot 4 over (j: 8) : x[i], y[j] put v[i: 2, c: 16] rows c : x[i] = v }"},
};

static void check_bad(Context *ctx, const Bad *bad, bool readable)
{
    diag_clear(ctx);
    Kernel *k = parse(ctx, bad->text);
    if (readable && !k)
        fail_msg("not readable: %s\n%s", bad->text, diag_get(ctx, 0)->message);
    if (!readable && k)
        fail_msg("not refused: %s", bad->text);
    if (k && kernel_verify(k))
        fail_msg("not refused: %s", bad->text);
    assert_true(diag_count(ctx) > 0);
    if (diag_get(ctx, 0)->id != bad->id)
        fail_msg("[%s] instead of [%s]: %s", diag_name(diag_get(ctx, 0)->id), diag_name(bad->id), bad->text);
    Text message;
    text_init(&message, ctx_arena(ctx));
    diag_print(ctx, &message, diag_get(ctx, 0));
    assert_non_null(strstr(message.data, "test:1:"));
}

static void the_parser_refuses(void **state)
{
    for (size_t i = 0; i < IG_COUNT(unreadable); i++)
        check_bad(*state, &unreadable[i], false);
    diag_clear(*state);
}

static void the_verifier_refuses(void **state)
{
    for (size_t i = 0; i < IG_COUNT(refused); i++)
        check_bad(*state, &refused[i], true);
    diag_clear(*state);
}

static const char *const accepted[] = {
    HEAD "for i in 0 .. 8 { if (i < 7) { store x[i + 1] = f32(1) } } }",
    HEAD "for i in 0 .. 8 { store x[i + 1] = f32(1) where (i + 1 < 8) } }",
    HEAD "for i in 0 .. 8 step 3 { store x[i + 1] = f32(1) } }",
    HEAD "for i in 0 .. 2 { for j in i*4 .. min(i*4 + 4, 7) { store x[j + 1] = f32(1) } } }",
    HEAD "for i in 0 .. 2 par { for j in i*4 .. i*4 + 4 { store x[j] = f32(1) } } }",
    HEAD "fold v = sum lanes16 over (i: 8) if (i < 3) : x[i + 5] }",
    HEAD "fold v = sum lanes16 over (i: 8) if !(i < 3) : x[i - 3] }",
    HEAD "fold v = sum lanes16 over (i: 0) : x[i + 50] }",
    HEAD "for i in 0 .. 8 { store x[7 - (i/3)*3] = f32(1) } }",
    HEAD "for i in 0 .. 8 { for j in 0 .. 8 { store x[min(i + 1, j)] = f32(1) store y[max(i - 1, j)] = f32(1) } } }",
    "kernel \"t\" { local l: f32[4] iter i in [0, 3] for i in 0 .. 4 par { store l[0] = f32(1) } }",
};

static void the_verifier_proves(void **state)
{
    for (size_t i = 0; i < IG_COUNT(accepted); i++) {
        diag_clear(*state);
        Kernel *k = parse(*state, accepted[i]);
        if (!k || !kernel_verify(k))
            fail_msg("refused: %s\n%s", accepted[i], diag_get(*state, 0)->message);
    }
}

/* No prefix and no changed character of a kernel makes the parser or the verifier crash. */
static void damaged_texts(void **state)
{
    Context *ctx = *state;
    const char *text =
        HEAD "for i in 0 .. 8 par { $0 = exp.f32(x[i if (i < 5) else f32(1e3)]) store x[i] = mul.f32($0, $0) }\n"
             "fold v = dot chain 8 over (i: 8, j: 2) if ((i < 3) && !(j == 1)) : x[i], y[(i + j*2) % 8] }";
    size_t n = strlen(text);
    char *copy = arena_copy(ctx_arena(ctx), text, n + 1);
    static const char changes[] = "0-9$({[]})\"%/*.i,x\n\x01";
    for (size_t i = 0; i < n; i++) {
        Arena *arena = arena_create(ctx);
        assert_null(kernel_parse(ctx, arena, "test", text, i));
        for (const char *c = changes; *c; c++) {
            copy[i] = *c;
            Kernel *k = kernel_parse(ctx, arena, "test", copy, n);
            if (k)
                (void)kernel_verify(k);
        }
        copy[i] = text[i];
        arena_destroy(arena);
        diag_clear(ctx);
    }
    char deep[3000];
    memset(deep, '(', sizeof deep);
    memcpy(deep, "kernel \"t\" { check ", 19);
    assert_null(kernel_parse(ctx, ctx_arena(ctx), "test", deep, sizeof deep));
    memset(deep + 19, '!', sizeof deep - 19);
    assert_null(kernel_parse(ctx, ctx_arena(ctx), "test", deep, sizeof deep));
    diag_clear(ctx);
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
        cmocka_unit_test(examples_are_fixed_points),
        cmocka_unit_test(sizes_are_those_of_the_run),
        cmocka_unit_test(everything_is_written_and_read),
        cmocka_unit_test(shared_values_are_printed_once),
        cmocka_unit_test(a_store_before_an_if),
        cmocka_unit_test(statements_are_cloned_with_substitution),
        cmocka_unit_test(the_parser_refuses),
        cmocka_unit_test(the_verifier_refuses),
        cmocka_unit_test(the_verifier_proves),
        cmocka_unit_test(damaged_texts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
