/* SPDX-License-Identifier: Apache-2.0
 * Class wino2: which convolutions are of it, that the transforms are right (small integers come out exact), and how far results
 * are from f64. That compiled code has the bits of ref32 is shown by test_sched_bits.c and test_cgen_nets.c. */
#include "op/op.h"
#include "support/op_case.h"
#include "support/tensors.h"

#include <math.h>
#include <string.h>

#define CONV(stride, lo, hi, dilation, lhs, groups, flip)                                                             \
    "stride=" stride " pad_lo=" lo " pad_hi=" hi " dilation=" dilation " lhs_dilation=" lhs " groups=" groups " flip=" flip
#define PLAIN CONV("1,1", "1,1", "1,1", "1,1", "1,1", "1", "0")

static int begin(void **state)
{
    *state = ctx_create(NULL);
    return 0;
}

static int end(void **state)
{
    ctx_destroy(*state);
    return 0;
}

static const char *class_of(Context *ctx, const char *in, const char *attrs, bool strict)
{
    Module *module = module_create(ctx);
    if (strict)
        module_set_strict(module);
    Func *func = case_func(module, "f", OP_conv, in, attrs);
    return op_class(func->body->last->prev);
}

static void the_rule(void **state)
{
    static const struct {
        const char *in, *attrs, *want;
    } cases[] = {
        {"f32[1,32,8,8] f32[32,32,3,3]", PLAIN, "wino2"},
        {"f32[1,32,10,10] f32[32,32,3,3]", CONV("1,1", "0,0", "0,0", "1,1", "1,1", "1", "1"), "wino2"},
        {"f32[1,32,9,10] f32[32,32,3,3]", CONV("1,1", "0,0", "0,0", "1,1", "1,1", "1", "0"), "ref32"}, /* 7 rows */
        {"f32[1,31,8,8] f32[32,31,3,3]", PLAIN, "ref32"},
        {"f32[1,32,8,8] f32[31,32,3,3]", PLAIN, "ref32"},
        {"f32[1,32,8,8] f32[32,32,3,1]", PLAIN, "ref32"},
        {"f16[1,32,8,8] f16[32,32,3,3]", PLAIN, "ref32"},
        {"f64[1,32,8,8] f64[32,32,3,3]", PLAIN, "ref32"},
        {"f32[1,32,8] f32[32,32,3]", CONV("1", "1", "1", "1", "1", "1", "0"), "ref32"},
        {"f32[1,32,16,16] f32[32,32,3,3]", CONV("2,2", "1,1", "1,1", "1,1", "1,1", "1", "0"), "ref32"},
        {"f32[1,32,16,16] f32[32,32,3,3]", CONV("1,1", "2,2", "2,2", "2,2", "1,1", "1", "0"), "ref32"},
        {"f32[1,32,16,16] f32[32,32,3,3]", CONV("1,1", "1,1", "1,1", "1,1", "2,2", "1", "1"), "ref32"},
        {"f32[1,64,8,8] f32[64,32,3,3]", CONV("1,1", "1,1", "1,1", "1,1", "1,1", "2", "0"), "ref32"},
    };
    for (size_t i = 0; i < IG_COUNT(cases); i++) {
        const char *have = class_of(*state, cases[i].in, cases[i].attrs, false);
        if (strcmp(have, cases[i].want) != 0)
            fail_msg("case %zu, %s: %s instead of %s", i, cases[i].in, have, cases[i].want);
    }
    assert_string_equal(class_of(*state, cases[0].in, cases[0].attrs, true), "ref32");
}

/* The strict mark is part of the module's text. */
static void strict_is_kept(void **state)
{
    Context *ctx = *state;
    Module *module = module_create(ctx);
    assert_false(module_is_strict(module));
    module_set_strict(module);
    assert_true(module_is_strict(module) && module_is_strict(module_clone(module)));
    Text text;
    text_init(&text, ctx_arena(ctx));
    ir_print(&text, module);
    Module *read = ir_parse(ctx, str_intern(ctx, "text"), text.data, text.len);
    assert_true(read && module_is_strict(read));
}

static Tensor *conv(Context *ctx, Arena *arena, EvalMode mode, const char *attrs, Tensor *x, Tensor *w)
{
    uint64_t error = 0;
    return case_run(ctx, arena, mode, OP_conv, attrs, (Tensor *[]){x, w}, 2, &error);
}

/* Integers of at most 4: filters are multiples of a quarter, every sum is exact, so the mode f64, which convolves directly, agrees. */
static void small_integers_are_exact(void **state)
{
    static const struct {
        const char *x, *w, *attrs;
    } cases[] = {
        {"f32[1,32,8,8]", "f32[32,32,3,3]", PLAIN},
        {"f32[2,33,9,11]", "f32[40,33,3,3]", PLAIN},
        {"f32[1,32,8,12]", "f32[32,32,3,3]", CONV("1,1", "1,1", "1,1", "1,1", "1,1", "1", "1")},
        {"f32[1,32,9,10]", "f32[32,32,3,3]", CONV("1,1", "0,2", "2,1", "1,1", "1,1", "1", "0")},
        {"f32[1,32,11,7]", "f32[32,32,3,3]", CONV("1,1", "0,3", "0,1", "1,1", "1,1", "1", "1")},
        {"f32[1,600,8,8]", "f32[32,600,3,3]", PLAIN},
    };
    Context *ctx = *state;
    uint32_t seed = 1;
    for (size_t i = 0; i < IG_COUNT(cases); i++) {
        Arena *arena = arena_create(ctx);
        Tensor *in[2] = {case_values(ctx, arena, cases[i].x, ""), case_values(ctx, arena, cases[i].w, "")};
        for (int t = 0; t < 2; t++)
            for (uint64_t e = 0; e < in[t]->count; e++)
                ((float *)in[t]->data)[e] = (float)((seed = seed * 1664525 + 1013904223) >> 24 & 7) - 4;
        const Tensor *have = conv(ctx, arena, EVAL_REF32, cases[i].attrs, in[0], in[1]);
        Tensor *wide[2];
        for (int t = 0; t < 2; t++) {
            wide[t] = arena_copy(arena, in[t], sizeof *in[t]);
            wide[t]->store = DT_F64;
            double *d = ARENA_ARRAY(arena, double, in[t]->count);
            for (uint64_t e = 0; e < in[t]->count; e++)
                d[e] = ((const float *)in[t]->data)[e];
            wide[t]->data = d;
        }
        const Tensor *want = conv(ctx, arena, EVAL_F64, cases[i].attrs, wide[0], wide[1]);
        assert_int_equal(have->count, want->count);
        for (uint64_t e = 0; e < have->count; e++)
            if ((double)((const float *)have->data)[e] != ((const double *)want->data)[e])
                fail_msg("case %zu, element %llu: %g instead of %g", i, (unsigned long long)e,
                         (double)((const float *)have->data)[e], ((const double *)want->data)[e]);
        arena_destroy(arena);
    }
}

/* An infinite input spoils the outputs of the tiles that read it, and no others. */
static void infinity_stays_in_its_tiles(void **state)
{
    Context *ctx = *state;
    Arena *arena = arena_create(ctx);
    Tensor *x = case_values(ctx, arena, "f32[1,32,8,8]", "1"), *w = case_values(ctx, arena, "f32[32,32,3,3]", "1");
    ((float *)x->data)[0] = INFINITY; /* read by tile (0, 0) only */
    const float *y = conv(ctx, arena, EVAL_REF32, PLAIN, x, w)->data;
    assert_false(isfinite(y[0]));
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 8; column++)
            if (row > 1 || column > 1)
                assert_true(isfinite(y[row * 8 + column]));
    arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rule),
        cmocka_unit_test(strict_is_kept),
        cmocka_unit_test(small_integers_are_exact),
        cmocka_unit_test(infinity_stays_in_its_tiles),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
