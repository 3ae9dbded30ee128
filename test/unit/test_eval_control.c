/* SPDX-License-Identifier: Apache-2.0
 *
 * The evaluator's driver: control ops, symbols, calls, what it refuses, and how much memory it holds.
 */
#include "support/op_case.h"

#include <stdlib.h>
#include <string.h>

typedef struct Fixture {
    Context *ctx;
    Arena *arena;
    Module *module;
    uint64_t error;
} Fixture;

static int begin(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    f->ctx = ctx_create(NULL);
    f->arena = arena_create(f->ctx);
    *state = f;
    return 0;
}

static int end(void **state)
{
    Fixture *f = *state;
    ctx_destroy(f->ctx);
    free(f);
    return 0;
}

static const Func *parse(Fixture *f, const char *text)
{
    f->module = ir_parse(f->ctx, str_intern(f->ctx, "t.ig"), text, strlen(text));
    if (!f->module || !ir_verify(f->module))
        case_fail(f->ctx, "text");
    return module_find_func(f->module, str_intern(f->ctx, "main"));
}

/* Results of @main as text, separated by " | "; the name of the first diagnostic where it is refused. */
static const char *run(Fixture *f, const char *text, Tensor *const *params)
{
    Tensor *out[8] = {NULL};
    const Func *func = parse(f, text);
    Text all;
    text_init(&all, f->arena);
    f->error = 0;
    diag_clear(f->ctx);
    if (!eval_func(f->ctx, f->arena, EVAL_REF32, func, params, out, &f->error))
        return diag_name(diag_get(f->ctx, 0)->id);
    for (uint32_t i = 0; i < func_n_out(func); i++)
        text_addf(&all, "%s%s", i ? " | " : "", case_text(f->arena, out[i]));
    return all.data;
}

#define VALUES(type, text) case_values(f->ctx, f->arena, type, text)
#define PARAMS(...)                                                                                                    \
    (Tensor *[]) { __VA_ARGS__ }

static void branches(void **state)
{
    Fixture *f = *state;
    const char *text =
        "entry func @main(%c : bool[] \"c\", %x : f32[2] \"x\") -> (\"y\") {\n"
        "  %y = if %c, %x : f32[2] { (%a : f32[2]) %b = neg %a : f32[2] yield %b } { (%a : f32[2]) yield %a }\n"
        "  yield %y\n}\n";
    assert_string_equal(run(f, text, PARAMS(VALUES("bool[]", "1"), VALUES("f32[2]", "1 2"))), "-1 -2");
    assert_string_equal(run(f, text, PARAMS(VALUES("bool[]", "0"), VALUES("f32[2]", "1 2"))), "1 2");
}

/* carried, captured, scanned and stacked values; the count of steps decides a size that a later node uses */
static const char loop_text[] = "sym K in [0, 64] unbacked\n"
                                "weight @ten : f32[] = [10]\n"
                                "entry func @main(%n : s64[] \"n\", %go : bool[] \"go\", %x : f32[] \"x\", %e : f32[3] "
                                "\"e\") -> (\"y\", \"s\", \"t\") {\n"
                                "  %y, %s = loop %n, %go, %x, %e, %x {n_carried=1, n_scanned=1} : f32[], f32[K] {\n"
                                "    (%i : s64[], %state : f32[], %elem : f32[], %captured : f32[])\n"
                                "    %a = add %state, %elem : f32[]\n"
                                "    %b = mul %a, %captured : f32[]\n"
                                "    %ten = const {weight=@ten} : f32[]\n"
                                "    %more = lt %b, %ten : bool[]\n"
                                "    yield %more, %b, %a\n"
                                "  }\n"
                                "  %t = broadcast %s {shape=[K]} : f32[K]\n"
                                "  yield %y, %s, %t\n}\n";

static void loops(void **state)
{
    Fixture *f = *state;
    Tensor *yes = VALUES("bool[]", "1"), *x = VALUES("f32[]", "2"), *e = VALUES("f32[3]", "1 2 3");
    assert_string_equal(run(f, loop_text, PARAMS(VALUES("s64[]", "9"), yes, x, e)),
                        "16 | 3 8 | 3 8");                                                        /* the condition */
    assert_string_equal(run(f, loop_text, PARAMS(VALUES("s64[]", "1"), yes, x, e)), "6 | 3 | 3"); /* the trip count */
    assert_string_equal(run(f, loop_text, PARAMS(VALUES("s64[]", "9"), VALUES("bool[]", "0"), x, e)), "2 |  | ");
    Tensor *small = VALUES("f32[]", "1");
    assert_string_equal(run(f, loop_text, PARAMS(VALUES("s64[]", "9"), yes, small, e)),
                        "7 | 2 4 7 | 2 4 7"); /* the scanned length */
}

static void endless_loop(void **state)
{
    Fixture *f = *state;
    const char *text = "weight @yes : bool[] = [true]\n"
                       "entry func @main(%x : f32[] \"x\") -> (\"y\") {\n"
                       "  %y = loop _, _, %x {n_carried=1, n_scanned=0} : f32[] {\n"
                       "    (%i : s64[], %a : f32[]) %t = const {weight=@yes} : bool[] yield %t, %a }\n"
                       "  yield %y\n}\n";
    run(f, text, PARAMS(VALUES("f32[]", "1")));
    assert_int_equal(f->error & 0xFF, 2);
}

/* Symbols take their values from the arguments that have them alone as a size. */
static void symbols(void **state)
{
    Fixture *f = *state;
    const char *main_text = "sym N in [1, 64]\n"
                            "sym M in [1, 64]\n"
                            "entry func @main(%x : f32[N,2*M] \"x\", %m : f32[M] \"m\") -> (\"y\", \"n\") {\n"
                            "  %y = reshape %x {shape=[N*M,2]} : f32[N*M,2]\n"
                            "  %n = dimval {dim=N*M+1} : s64[]\n"
                            "  yield %y, %n\n}\n";
    Tensor *x = VALUES("f32[2,2]", "1 2 3 4");
    assert_string_equal(run(f, main_text, PARAMS(x, VALUES("f32[1]", "0"))), "1 2 3 4 | 3");
    assert_string_equal(run(f, main_text, PARAMS(x, VALUES("f32[2]", "0"))), "eval_param"); /* 2*M is not 2 */
    assert_string_equal(run(f, main_text, PARAMS(x, VALUES("s32[1]", "0"))), "eval_param");
    assert_string_equal(run(f, main_text, PARAMS(x, VALUES("f32[1,1]", "0"))), "eval_param");
    const char *same = "sym N in [1, 64]\n"
                       "entry func @main(%x : f32[N] \"x\", %z : f32[N] \"z\") -> (\"y\") {\n"
                       "  %y = add %x, %z : f32[N]\n  yield %y\n}\n";
    assert_string_equal(run(f, same, PARAMS(VALUES("f32[2]", "1"), VALUES("f32[3]", "1"))), "eval_sym_conflict");
    Tensor *long_x = VALUES("f32[65]", "1");
    assert_string_equal(run(f, same, PARAMS(long_x, long_x)), "eval_sym_range");
    const char *unbound = "sym N in [1, 64]\n"
                          "entry func @main() -> (\"n\") { %n = dimval {dim=N} : s64[] yield %n }\n";
    assert_string_equal(run(f, unbound, NULL), "eval_unbound_dim");
}

static void calls(void **state)
{
    Fixture *f = *state;
    const char *text = "func @square(%a : f32[2] \"a\") -> (\"b\", \"c\") { %b = mul %a, %a : f32[2] yield %b, %a }\n"
                       "entry func @main(%x : f32[2] \"x\") -> (\"y\", \"z\") {\n"
                       "  %b, %c = call %x {func=@square} : f32[2], f32[2]\n"
                       "  %d, %e = call %b {func=@square} : f32[2], f32[2]\n"
                       "  yield %d, %c\n}\n";
    assert_string_equal(run(f, text, PARAMS(VALUES("f32[2]", "2 3"))), "16 81 | 2 3");
}

/* The first error stays, as node id and code. */
static void checks(void **state)
{
    Fixture *f = *state;
    const char *text = "entry func @main(%a : bool[] \"a\", %b : bool[] \"b\") -> () {\n"
                       "  check %a {code=7}\n  check %b {code=9}\n  yield\n}\n";
    Tensor *yes = VALUES("bool[]", "1"), *no = VALUES("bool[]", "0");
    run(f, text, PARAMS(yes, yes));
    assert_int_equal(f->error, 0);
    run(f, text, PARAMS(yes, no));
    assert_int_equal(f->error & 0xFF, 9);
    run(f, text, PARAMS(no, no));
    assert_int_equal(f->error & 0xFF, 7);
    assert_int_equal(f->error >> 8, f->module->funcs.data[0]->body->first->id);
}

/* What only a graph built without shape rules, or sizes known at run time, can do wrong. */
static void refusals(void **state)
{
    Fixture *f = *state;
    assert_string_equal(run(f, "entry func @main(%x : c64[2] \"x\") -> (\"y\") { %y = neg %x : c64[2] yield %y }\n",
                            PARAMS(VALUES("c64[2]", "1"))),
                        "eval_dtype");
    const char *shapes = "sym N in [0, 64]\nsym M in [0, 64]\n"
                         "entry func @main(%x : f32[N] \"x\", %m : f32[M] \"m\") -> (\"y\") {\n  %y = %s yield %y\n}\n";
    static const char *const bodies[][2] = {
        {"reshape %x {shape=[M]} : f32[M]", "eval_reshape"},
        {"slice %x {start=[M], size=[2], step=[1]} : f32[2]", "eval_slice"},
        {"slice %x {start=[0], size=[N-M], step=[1]} : f32[N-M]", "eval_negative_dim"},
    };
    for (size_t i = 0; i < IG_COUNT(bodies); i++) {
        const char *at = strstr(shapes, "%s");
        const char *text = arena_printf(f->arena, "%.*s%s%s", (int)(at - shapes), shapes, bodies[i][0], at + 2);
        assert_string_equal(run(f, text, PARAMS(VALUES("f32[2]", "1"), VALUES("f32[3]", "1"))), bodies[i][1]);
    }
    const Func *func = parse(f, "entry func @main(%x : f32[2] \"x\") -> (\"y\") { %y = relu %x : f32[2] yield %y }\n");
    EvalCtx bare = {.ctx = f->ctx, .arena = f->arena, .loc = func->body->first->loc};
    Tensor *x = VALUES("f32[2]", "1"), *out = NULL;
    diag_clear(f->ctx);
    assert_false(op_defs[OP_relu].eval(&bare, func->body->first, &x, &out));
    assert_string_equal(diag_name(diag_get(f->ctx, 0)->id), "eval_no_region");
}

static void constant_nodes(void **state)
{
    Fixture *f = *state;
    const Func *func = parse(
        f, "sym N in [0, 4]\n"
           "entry func @main(%x : f32[2] \"x\", %i : s64[1] \"i\", %n : f32[N] \"n\") -> (\"y\", \"z\", \"w\") {\n"
           "  %y = relu %x : f32[2]\n  %z = gather %x, %i {axis=0, batch=0} : f32[1]\n"
           "  %w = neg %n : f32[N]\n  yield %y, %z, %w\n}\n");
    Node *relu = func->body->first, *gather = relu->next, *neg = gather->next;
    Tensor *x = VALUES("f32[2]", "-1 2"), *out = NULL;
    assert_true(eval_node_const(f->ctx, f->arena, relu, PARAMS(x), &out));
    assert_string_equal(case_text(f->arena, out), "0 2");
    assert_true(eval_node_const(f->ctx, f->arena, gather, PARAMS(x, VALUES("s64[1]", "1")), &out));
    assert_false(
        eval_node_const(f->ctx, f->arena, gather, PARAMS(x, VALUES("s64[1]", "2")), &out)); /* an error is kept */
    assert_false(eval_node_const(f->ctx, f->arena, neg, PARAMS(x), &out));
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

typedef struct Meter {
    size_t now, most;
} Meter;

static void *take(void *user, size_t bytes)
{
    Meter *meter = user;
    size_t *block = malloc(bytes + 16);
    *block = bytes;
    meter->now += bytes;
    meter->most = meter->now > meter->most ? meter->now : meter->most;
    return (char *)block + 16;
}

static void give(void *user, void *pointer)
{
    if (!pointer)
        return;
    size_t *block = (size_t *)(void *)((char *)pointer - 16);
    ((Meter *)user)->now -= *block;
    free(block);
}

static void count_nodes(void *user, const Node *node, Tensor *const *results)
{
    assert_int_equal(results[0]->count, 1 << 18);
    assert_int_equal(node->op, OP_neg);
    ++*(int *)user;
}

/* A chain of 100 nodes of 1 MB holds a few of them at a time. */
static void lifetimes(void **state)
{
    (void)state;
    Meter meter = {0};
    Context *ctx = ctx_create(&(Allocator){take, give, &meter});
    Arena *arena = arena_create(ctx);
    Module *module = module_create(ctx);
    const Type *type = type_tensor_s64(ctx, DT_F32, 1, (int64_t[]){1 << 18});
    Func *func = module_func(module, str_intern(ctx, "main"), true);
    Val *x = func_param(func, str_intern(ctx, "x"), type);
    Builder b = ir_at_end(func->body, loc_text(ctx, str_intern(ctx, "t"), 1, 1));
    for (int i = 0; i < 100; i++)
        x = ir_out(ir_emit(&b, OP_neg, &x, 1, attrs_make(ctx, NULL, 0), &type, 1), 0);
    func_yield(func, b.loc, &x, (Str[]){str_intern(ctx, "y")}, 1);
    Tensor *in = case_values(ctx, arena, "f32[262144]", "1 2"), *out;
    size_t before = meter.now;
    int seen = 0;
    meter.most = 0;
    assert_true(eval_func_observed(ctx, arena, EVAL_REF32, func, &in, &out, NULL, count_nodes, &seen));
    assert_int_equal(seen, 100);
    assert_true(meter.most - before < (size_t)4 << 20);
    assert_true(meter.now - before < (size_t)2 << 20);
    ctx_destroy(ctx);
    assert_int_equal(meter.now, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(branches), TEST(loops),          TEST(endless_loop),
                                       TEST(symbols),  TEST(calls),          TEST(checks),
                                       TEST(refusals), TEST(constant_nodes), TEST(lifetimes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
