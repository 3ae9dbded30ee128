/* SPDX-License-Identifier: Apache-2.0
 * RNN, GRU and LSTM of more steps than are written out: each direction is a loop. Compiled, and run eagerly, they give the bits of
 * the evaluator; so does one program for a range of step counts, where the loop's trips are a size of the run. */
#include "support/artifact_run.h"
#include "support/onnx_run.h"
#include "support/tensors.h"

enum { I = 3, H = 5, B = 2, STEPS = 70, ROUNDS = 2 };

static const struct Kind {
    const char *op;
    int gates;
} kinds[] = {{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}};
static const char *const directions[] = {"forward", "reverse", "bidirectional"};

/* `steps` -1: the symbol N. The lengths of the rows are an input. */
static Pb graph_of(const struct Kind *kind, const char *direction, int64_t steps)
{
    static float value[2 * 4 * H * H];
    bool both = strcmp(direction, "bidirectional") == 0;
    const int64_t d = both ? 2 : 1, rows = kind->gates * H, x[3] = {steps, B, I}, y[4] = {steps, d, B, H}, h[3] = {d, B, H}, batch = B;
    const int64_t w[3] = {d, rows, I}, r[3] = {d, rows, H}, bias[2] = {d, 2 * rows};
    for (size_t i = 0; i < IG_COUNT(value); i++)
        value[i] = (float)((int)(i * 37 % 101) - 50) / 64;
    Pb graph = {.len = 0}, attrs = {.len = 0};
    onnx_attr_str(&attrs, "direction", direction);
    onnx_attr_int(&attrs, "hidden_size", H);
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 3, x);
    onnx_add_value(&graph, GRAPH_IN, "lens", 6, 1, &batch);
    onnx_add_f32(&graph, "w", 3, w, value);
    onnx_add_f32(&graph, "r", 3, r, value);
    onnx_add_f32(&graph, "b", 2, bias, value);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 4, y);
    onnx_add_value(&graph, GRAPH_OUT, "h", ONNX_F32, 3, h);
    onnx_add_node(&graph, kind->op, "x w r b lens", "y h", &attrs);
    return graph;
}

static void check_run(Context *ctx, const Func *func, int64_t steps, int64_t round, const EagerPlan *plan)
{
    Arena *arena = arena_create(ctx);
    const int64_t x[3] = {steps, B, I}, batch = B;
    Tensor *in[2] = {tensor_random(arena, type_tensor_s64(ctx, DT_F32, 3, x), (uint64_t)(steps + round), TASTE_TAME),
                     tensor_random(arena, type_tensor_s64(ctx, DT_S32, 1, &batch), 0, TASTE_TAME)},
           *want[2];
    for (int row = 0; row < B; row++)
        ((int32_t *)in[1]->data)[row] = (int32_t)(row == round ? steps : (steps + 1) / 2);
    assert_true(eval_func(ctx, arena, EVAL_REF32, func, in, want, NULL));
    ArtifactCase c = {.arena = arena, .path = "rnn.so", .threads = 1 + (unsigned)round, .n_in = 2, .n_out = 2, .in = in, .want = want};
    const char *wrong = plan ? artifact_eager_wrong(&c, plan) : artifact_wrong(&c);
    if (wrong)
        fail_msg("%lld steps: %s", (long long)steps, wrong);
    arena_destroy(arena);
}

static void check(const struct Kind *kind, const char *direction, bool ranged, const TargetInfo *host, bool eager, int level)
{
    Context *ctx = ctx_create(NULL);
    Arena *arena = arena_create(ctx);
    Pb graph = graph_of(kind, direction, ranged ? -1 : STEPS), model = onnx_model(&graph, 14);
    DimBinding n = {.name = str_intern(ctx, "N"), .lo = 1, .hi = STEPS};
    ImportOptions import = {.dims = &n, .n_dims = ranged ? 1 : 0};
    assert_true(model.len <= sizeof model.data);
    Module *m = front_onnx_import(ctx, "rnn.onnx", (Blob){model.data, model.len}, &import);
    assert_non_null(m);
    assert_int_equal(onnx_count_op(m, OP_loop), strcmp(direction, "bidirectional") == 0 ? 2 : 1);
    Module *copy = module_clone(m);
    DriverOptions options = {.pass = {.opt_level = level, .eager = eager, .limit = -1, .verify_each = true}, .target = {host}, .n_targets = 1};
    Program *p = driver_compile(ctx, copy, driver_entry(ctx, copy, NULL), &options);
    EagerPlan *plan = NULL;
    if (!p || (eager ? !(plan = driver_write_eager(p, arena, "rnn.so")) : !driver_write(p, "rnn.so")))
        fail_msg("%s %s -O%d: %s", kind->op, direction, level, diags_text(ctx));
    for (int64_t steps = ranged ? 1 : STEPS; steps <= STEPS; steps += steps == 1 ? 63 : 6)
        for (int64_t round = 0; round < ROUNDS; round++)
            check_run(ctx, m->funcs.data[0], steps, round, plan);
    driver_destroy(p);
    ctx_destroy(ctx);
}

static void test_kind(void **state)
{
    const TargetInfo *host = cgen_host_target();
    if (!host)
        skip();
    for (size_t d = 0; d < IG_COUNT(directions); d++) {
        for (int level = 0; level <= 2; level += 2)
            for (int ranged = 0; ranged < 2; ranged++)
                check(*state, directions[d], ranged, host, false, level);
        check(*state, directions[d], false, host, true, 2);
    }
}

int main(void)
{
    static struct CMUnitTest tests[IG_COUNT(kinds)];
    for (size_t i = 0; i < IG_COUNT(kinds); i++)
        tests[i] = (struct CMUnitTest){kinds[i].op, test_kind, NULL, NULL, (void *)(uintptr_t)&kinds[i]};
    return _cmocka_run_group_tests("driver_rnn", tests, IG_COUNT(tests), NULL, NULL);
}
