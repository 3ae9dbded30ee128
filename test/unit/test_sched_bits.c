/* SPDX-License-Identifier: Apache-2.0
 * Scheduling changes no bit: for small networks of every kind, the interpreted kernels equal the ref32 evaluator at every set of
 * passes (all, all minus each optional one, none) and for every target's tile shapes. */
#include "support/nets.h"
#include "support/run_schedule.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static const TargetInfo targets[] = {
    {"x86_64-pc-linux-gnu", "skylake-avx512", "", "x86-64-v4", 16, 32, 1 << 20},
    {"x86_64-pc-linux-gnu", "haswell", "", "x86-64-v3", 8, 16, 1 << 19},
    {"aarch64-linux-gnu", "generic", "", "aarch64", 4, 32, 1 << 19},
};
static const char *const sched_passes[] = {"fuse",      "layout",    "views",  "lower",    "phases", "groups", "pack",
                                            "tensorize", "vectorize", "window", "parallel", "plan"};

static bool verify(void *user, PassLevel level, const Unit *unit)
{
    (void)user;
    return sched_verify(unit->schedule, level);
}

/* One configuration: passes with `skip` left out (NULL: none). */
static void check(Net *n, Arena *arena, Tensor *const *in, Tensor *const *want, const TargetInfo *target, bool eager,
                  const char *skip, const char *what)
{
    const PassDef *passes[IG_COUNT(sched_passes)];
    uint32_t n_passes = 0;
    for (uint32_t i = 0; i < IG_COUNT(sched_passes); i++) {
        const PassDef *pass = pass_find(sched_pass_defs, sched_passes[i]);
        bool skipped = skip && (strcmp(skip, "all") == 0 ? pass->optional : strcmp(skip, pass->id) == 0);
        if (!skipped)
            passes[n_passes++] = pass;
    }
    PassOptions options = {.opt_level = 2, .eager = eager, .target = target, .limit = -1, .verify_each = true};
    PassCtx pc = {.ctx = n->ctx, .tmp = arena_create(n->ctx), .options = &options, .verify = verify};
    Unit unit = {.module = n->module, .schedule = sched_create(n->ctx, n->module, n->func)};
    bool ok = pass_run(&pc, &unit, passes, n_passes);
    void *in_data[4], *out_data[4];
    for (uint32_t i = 0; i < n->func->body->params.len; i++)
        in_data[i] = in[i]->data;
    for (uint32_t i = 0; i < func_n_out(n->func); i++)
        out_data[i] = arena_alloc(arena, want[i]->count * 8 + 64);
    if (ok) {
        uint64_t error = 0, at;
        run_schedule(unit.schedule, in_data, out_data, &error);
        assert_int_equal(error, 0);
        for (uint32_t i = 0; i < func_n_out(n->func); i++)
            if (!tensor_same_bits(want[i]->dtype, out_data[i], want[i]->data, want[i]->count, &at)) {
                print_message("%s: output %u differs at %llu, target %s, without %s\n", what, i, (unsigned long long)at,
                              target->level, skip ? skip : "nothing");
                ok = false;
            }
        assert_true(unit.schedule->peak_bytes <= unit.schedule->lower_bound_bytes * 11 / 10 + 64);
    }
    if (!ok) {
        Text text;
        text_init(&text, arena);
        print_message("%s", diags_text(n->ctx));
        sched_print(&text, unit.schedule);
        FILE *f = fopen("schedule.txt", "w");
        if (f) {
            fputs(text.data, f);
            fclose(f);
        }
        print_message("%s, without %s: the schedule is in schedule.txt\n", what, skip ? skip : "nothing");
        fail();
    }
    sched_destroy(unit.schedule);
    arena_destroy(pc.tmp);
}

static void check_net(void **state)
{
    size_t which = *(size_t *)*state;
    Context *ctx = ctx_create(NULL);
    Net n = net_make(ctx, &net_defs[which], 42 + which);
    Arena *arena = arena_create(ctx);
    Tensor *in[4], *want[4];
    for (uint32_t i = 0; i < n.func->body->params.len; i++)
        in[i] = tensor_random(arena, n.func->body->params.data[i]->type, 42 + which + 100 * i, TASTE_TAME);
    uint64_t error = 0;
    if (!eval_func(ctx, arena, EVAL_REF32, n.func, in, want, &error)) {
        print_message("%s", diags_text(ctx));
        fail();
    }
    PassOptions options = {.limit = -1};
    PassCtx pc = {.ctx = ctx, .tmp = arena_create(ctx), .options = &options};
    Unit unit = {.module = n.module};
    const PassDef *expand[] = {pass_find(pass_defs, "expand"), pass_find(pass_defs, "dce")};
    assert_true(pass_run(&pc, &unit, expand, 2));
    for (size_t t = 0; t < IG_COUNT(targets); t++)
        check(&n, arena, in, want, &targets[t], false, NULL, net_defs[which].name);
    check(&n, arena, in, want, &targets[0], true, NULL, net_defs[which].name);
    check(&n, arena, in, want, &targets[0], false, "all", net_defs[which].name);
    for (size_t i = 0; i < IG_COUNT(sched_passes); i++)
        if (pass_find(sched_pass_defs, sched_passes[i])->optional)
            check(&n, arena, in, want, &targets[0], false, sched_passes[i], net_defs[which].name);
    ctx_destroy(ctx);
}

int main(void)
{
    static size_t index[64];
    struct CMUnitTest tests[64];
    size_t n = 0;
    for (; net_defs[n].name; n++) {
        index[n] = n;
        tests[n] = (struct CMUnitTest){net_defs[n].name, check_net, NULL, NULL, &index[n]};
    }
    return _cmocka_run_group_tests("sched_bits", tests, n, NULL, NULL);
}
