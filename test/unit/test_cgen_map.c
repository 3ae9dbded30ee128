/* SPDX-License-Identifier: Apache-2.0
 * Every MAP op and cast on every compiled element type, scalar and in lanes with a tail, against the interpreter. */
#include "cgen/cgen.h"
#include "support/kernel_bits.h"
#include "support/unit.h"

#include <string.h>

static const DType dtypes[] = {DT_F32, DT_F64, DT_F16, DT_BF16, DT_S64, DT_S32, DT_S16,
                               DT_S8,  DT_U64, DT_U32, DT_U16,  DT_U8,  DT_BOOL};

/* f64 remainders have no machine code yet: cgen reports them. */
static bool compiled(Op op, DType dtype)
{
    return elem_supported(op, dtype) && !(dtype == DT_F64 && (op == OP_rem || op == OP_mod));
}

static void add_op(BitsSuite *suite, Op op, DType dtype, const char *bind)
{
    const OpInfo *info = &op_info[op];
    const char *t = dtype_name(dtype);
    bool truth = (info->traits & OT_COMPARE) || op == OP_isnan || op == OP_isinf;
    const char *args = op == OP_select      ? "lt.bool(x[i], y[i]), x[i], y[i]"
                       : info->in_max == 1 ? "x[i]"
                       : info->in_max == 2 ? "x[i], y[i]"
                                           : "x[i], y[i], z[i]";
    Text text;
    text_init(&text, suite->arena);
    text_addf(&text, "kernel \"%s_%s_%s\" {\n", info->name, t, *bind ? bind : "seq");
    text_addf(&text, "  arg x: %s[341]\n  arg y: %s[341]\n  arg z: %s[341]\n  arg o: %s[341] written\n", t, t, t,
              truth ? "bool" : t);
    text_addf(&text, "  iter i in [0, 340]\n  for i in 0 .. 341 %s {\n    store o[i] = %s.%s(%s)\n  }\n}\n", bind, info->name,
              truth ? "bool" : t, args);
    bits_add_text(suite, text.data);
}

static void every_op(const char *bind)
{
    BitsSuite *suite = bits_begin();
    for (Op op = 0; op < OP_COUNT; op++) {
        if (op_info[op].kind != OK_MAP || op == OP_cast || op == OP_bitcast)
            continue;
        for (uint32_t d = 0; d < IG_COUNT(dtypes); d++)
            if (compiled(op, dtypes[d]))
                add_op(suite, op, dtypes[d], bind);
    }
    assert_int_equal(bits_run(suite), 0);
    bits_end(suite);
}

static void ops_in_lanes(void **state)
{
    (void)state;
    every_op("vec");
}

static void ops_on_scalars(void **state)
{
    (void)state;
    every_op("");
}

/* Rows from the last to the first: a tail that writes past its row hits one that was written before. */
static void tails_leave_the_next_row(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    for (uint32_t width = 17; width < 32; width += width < 19 ? 2 : 6)
        for (uint32_t from = 0; from < IG_COUNT(dtypes); from++)
            for (uint32_t to = 0; to < IG_COUNT(dtypes); to++) {
                if (dtype_bits(dtypes[to]) >= dtype_bits(dtypes[from]))
                    continue;
                const char *f = dtype_name(dtypes[from]), *t = dtype_name(dtypes[to]);
                bits_add_text(suite, arena_printf(suite->arena,
                                                  "kernel \"%s_to_%s_%u\" {\n  arg x: %s[4, %u]\n  arg o: %s[4, %u] written\n"
                                                  "  iter j in [0, 3]\n  iter i in [0, %u]\n  for j in 0 .. 4 {\n"
                                                  "    for i in 0 .. %u vec {\n"
                                                  "      store o[3 - j, i] = cast.%s(x[3 - j, i])\n    }\n  }\n}\n",
                                                  f, t, width, f, width, t, width, width - 1, width, t));
            }
    assert_int_equal(bits_run(suite), 0);
    bits_end(suite);
}

static void casts(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    static const char *const binds[] = {"vec", "seq"};
    for (uint32_t bind = 0; bind < 2; bind++)
        for (uint32_t from = 0; from < IG_COUNT(dtypes); from++)
            for (uint32_t to = 0; to < IG_COUNT(dtypes); to++) {
                if (from == to)
                    continue;
                const char *f = dtype_name(dtypes[from]), *t = dtype_name(dtypes[to]);
                bits_add_text(suite, arena_printf(suite->arena,
                                                  "kernel \"%s_to_%s\" {\n  arg x: %s[203]\n  arg o: %s[203] written\n"
                                                  "  iter i in [0, 202]\n  for i in 0 .. 203 %s {\n"
                                                  "    store o[i] = cast.%s(x[i])\n  }\n}\n",
                                                  f, t, f, t, bind ? "" : binds[bind], t));
            }
    assert_int_equal(bits_run(suite), 0);
    bits_end(suite);
}

static void bitcasts(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"f32", "s32"}, {"u32", "f32"}, {"f64", "s64"}, {"f16", "u16"}, {"s16", "bf16"},
                                           {"s8", "u8"},   {"s64", "f64"}};
    BitsSuite *suite = bits_begin();
    for (uint32_t i = 0; i < IG_COUNT(pairs); i++)
        bits_add_text(suite, arena_printf(suite->arena,
                                          "kernel \"bits\" {\n  arg x: %s[40]\n  arg o: %s[40] written\n  iter i in [0, 39]\n"
                                          "  for i in 0 .. 40 vec {\n    store o[i] = bitcast.%s(x[i])\n  }\n}\n",
                                          pairs[i][0], pairs[i][1], pairs[i][1]));
    assert_int_equal(bits_run(suite), 0);
    bits_end(suite);
}

static void eight_bit_floats_are_refused(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    Arena *arena = ctx_arena(ctx);
    const char *text = "kernel \"e\" {\n  arg x: f8e5m2[4]\n  arg o: f8e5m2[4] written\n  iter i in [0, 3]\n  for i in 0 .. 4 {\n"
                       "    store o[i] = x[i]\n  }\n}\n";
    const Kernel *k = kernel_parse(ctx, arena, str_intern(ctx, "t"), text, strlen(text));
    assert_non_null(k);
    CgenOptions options = {.target = cgen_targets(), .opt_level = 1, .output = CGEN_OBJECT};
    Blob out;
    assert_false(cgen_emit(ctx, arena, &options, &k, 1, &out));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_cgen_unsupported);
    ctx_destroy(ctx);
}

static void unknown_target_is_refused(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    TargetInfo target = {.triple = "pdp11-unknown-unix", .cpu = "", .features = "", .level = "pdp11"};
    CgenOptions options = {.target = &target, .output = CGEN_OBJECT};
    Blob out;
    assert_false(cgen_emit(ctx, ctx_arena(ctx), &options, NULL, 0, &out));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_cgen_target);
    ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_in_lanes),
        cmocka_unit_test(ops_on_scalars),
        cmocka_unit_test(casts),
        cmocka_unit_test(tails_leave_the_next_row),
        cmocka_unit_test(bitcasts),
        cmocka_unit_test(eight_bit_floats_are_refused),
        cmocka_unit_test(unknown_target_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
