/* SPDX-License-Identifier: Apache-2.0
 * The pass runner notices a pass that leaves a broken module; calls are replaced by bodies, within bounds. */
#include "support/unit.h"

#include "pass/pass.h"

#include <string.h>

static Context *ctx;
static Module *module;

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ctx_destroy(ctx);
    return 0;
}

static void parse(const Text *text)
{
    module = ir_parse(ctx, str_intern(ctx, "t.ig"), text->data, text->len);
    if (!module || !ir_verify(module))
        fail_msg("%s", diag_count(ctx) ? diag_get(ctx, 0)->message : "no module");
}

static bool run(const PassDef *pass)
{
    PassOptions options = {.limit = -1, .verify_each = true};
    PassCtx pc = {.ctx = ctx, .tmp = arena_create(ctx), .options = &options};
    Unit unit = {.module = module};
    bool ok = pass_run(&pc, &unit, &pass, 1);
    arena_destroy(pc.tmp);
    return ok;
}

static void assert_last(DiagId id, const char *word)
{
    assert_true(diag_count(ctx) > 0);
    const Diag *last = diag_get(ctx, diag_count(ctx) - 1);
    assert_int_equal(last->id, id);
    assert_non_null(strstr(last->message, word));
}

static uint32_t nodes_of_main(void)
{
    uint32_t n = 0;
    REGION_FOREACH(node, module_find_func(module, str_intern(ctx, "main"))->body)
    {
        assert_int_not_equal(node->op, OP_call);
        n++;
    }
    return n;
}

static bool spoil(PassCtx *pc, Unit *unit)
{
    (void)pc;
    unit->module->funcs.data[0]->body->first->loc = 0;
    return true;
}

static void broken_module_names_the_pass(void **state)
{
    (void)state;
    Text text;
    text_init(&text, ctx_arena(ctx));
    text_add(&text, "entry func @main(%x : f32[2] \"x\") -> (\"y\") {\n  %1 = neg %x : f32[2]\n  yield %1\n}\n");
    parse(&text);
    assert_false(run(&(PassDef){.id = "spoil", .run = spoil}));
    assert_last(DIAG_pass_invalid, "'spoil'");
}

/* Functions f0 .. f(levels): each calls the one below it `calls` times in a row, f0 negates; main calls the last. */
static void parse_tower(int levels, int calls)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    text_add(&text, "func @f0(%x : f32[2] \"x\") -> (\"y\") {\n  %1 = neg %x : f32[2]\n  yield %1\n}\n");
    for (int level = 1; level <= levels + 1; level++) {
        text_addf(&text, level > levels ? "entry func @main" : "func @f%d", level);
        text_add(&text, "(%x : f32[2] \"x\") -> (\"y\") {\n");
        int n = level > levels ? 1 : calls;
        for (int i = 1; i <= n; i++) {
            text_addf(&text, "  %%%d = call ", i);
            text_addf(&text, i == 1 ? "%%x" : "%%%d", i - 1);
            text_addf(&text, " {func=@f%d} : f32[2]\n", level - 1);
        }
        text_addf(&text, "  yield %%%d\n}\n", n);
    }
    parse(&text);
}

static void many_calls_and_deep_calls_are_inlined(void **state)
{
    (void)state;
    parse_tower(1, 500);
    assert_true(run(pass_find(pass_defs, "inline")));
    assert_int_equal(nodes_of_main(), 500 + 1);
    parse_tower(100, 1);
    assert_true(run(pass_find(pass_defs, "inline")));
    assert_int_equal(nodes_of_main(), 1 + 1);
}

static void doubling_calls_are_refused(void **state)
{
    (void)state;
    parse_tower(60, 2);
    assert_false(run(pass_find(pass_defs, "inline")));
    assert_last(DIAG_pass_inline, "2^20");
}

static void regions_nested_by_calls_are_refused(void **state)
{
    (void)state;
    Text text;
    text_init(&text, ctx_arena(ctx));
    text_add(&text, "func @f0(%c : bool[] \"c\") -> (\"y\") {\n  %1 = not %c : bool[]\n  yield %1\n}\n");
    for (int level = 1; level <= 66; level++) {
        text_addf(&text, level == 66 ? "entry func @main" : "func @f%d", level);
        text_add(&text, "(%c : bool[] \"c\") -> (\"y\") {\n  %1 = if %c, %c : bool[] { (%2 : bool[])\n");
        text_addf(&text, "    %%3 = call %%2 {func=@f%d} : bool[]\n", level - 1);
        text_add(&text, "    yield %3\n  } { (%4 : bool[]) yield %4 }\n  yield %1\n}\n");
    }
    parse(&text);
    assert_false(run(pass_find(pass_defs, "inline")));
    assert_last(DIAG_pass_inline, "nest");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(broken_module_names_the_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(many_calls_and_deep_calls_are_inlined, setup, teardown),
        cmocka_unit_test_setup_teardown(doubling_calls_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(regions_nested_by_calls_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests_name("pass_run", tests, NULL, NULL);
}
