/* SPDX-License-Identifier: Apache-2.0
 * Small networks of every kind through scheduling and code generation: the run function's outputs equal the ref32 evaluator's
 * bits, and each kernel equals its interpretation on every target. */
#define _GNU_SOURCE
#include "cgen/cgen.h"
#include "support/kernel_bits.h"
#include "support/nets.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int RunFn(const void *const in[], void *const out[], void *workspace, void *state);
static const char *const sched_passes[] = {"fuse", "layout", "lower", "phases", "pack", "tensorize", "vectorize", "window", "parallel", "plan"};

static Schedule *schedule(Net *n, const TargetInfo *target, bool optional)
{
    const PassDef *passes[IG_COUNT(sched_passes)];
    uint32_t n_passes = 0;
    for (uint32_t i = 0; i < IG_COUNT(sched_passes); i++) {
        const PassDef *pass = pass_find(sched_pass_defs, sched_passes[i]);
        if (optional || !pass->optional)
            passes[n_passes++] = pass;
    }
    PassOptions options = {.opt_level = optional ? 2 : 0, .target = target, .limit = -1};
    PassCtx pc = {.ctx = n->ctx, .tmp = arena_create(n->ctx), .options = &options};
    Unit unit = {.module = n->module, .schedule = sched_create(n->ctx, n->module, n->func)};
    assert_true(pass_run(&pc, &unit, passes, n_passes));
    arena_destroy(pc.tmp);
    return unit.schedule;
}

static Net make_net(Context *ctx, size_t which, Tensor **in, Tensor **want)
{
    Net n = net_make(ctx, &net_defs[which], 42 + which);
    Arena *arena = ctx_arena(ctx);
    for (uint32_t i = 0; i < n.func->body->params.len; i++)
        in[i] = tensor_random(arena, n.func->body->params.data[i]->type, 42 + which + 100 * i, TASTE_TAME);
    uint64_t error = 0;
    assert_true(eval_func(ctx, arena, EVAL_REF32, n.func, in, want, &error));
    PassOptions options = {.limit = -1};
    PassCtx pc = {.ctx = ctx, .tmp = arena_create(ctx), .options = &options};
    Unit unit = {.module = n.module};
    const PassDef *expand[] = {pass_find(pass_defs, "expand"), pass_find(pass_defs, "dce")};
    assert_true(pass_run(&pc, &unit, expand, 2));
    return n;
}

/* Runs the schedule's object; false if an output differs. */
static bool same_outputs(Net *n, const Schedule *s, const TargetInfo *target, int opt_level, Tensor *const *in,
                         Tensor *const *want)
{
    Context *ctx = n->ctx;
    Arena *arena = ctx_arena(ctx);
    CgenOptions options = {.target = target, .opt_level = opt_level, .symbol_suffix = "", .output = CGEN_OBJECT};
    CgenRun run = {s, "net", 11};
    Blob object;
    if (!cgen_emit_run(ctx, arena, &options, &run, &object)) {
        print_message("%s", diags_text(ctx));
        return false;
    }
    assert_true(file_write_all(ctx, "net.o", object.data, object.size));
    assert_int_equal(system("ld -shared -z noexecstack -o net.so net.o"), 0);
    void *library = dlopen("./net.so", RTLD_NOW), *address = library ? dlsym(library, "net_run") : NULL;
    RunFn *fn;
    assert_non_null(address);
    memcpy(&fn, &address, sizeof fn);
    const void *in_data[4];
    void *out_data[4], *workspace = aligned_alloc(64, (s->workspace_bytes + s->scratch_bytes + 255) / 64 * 64);
    memset(workspace, 0xff, s->workspace_bytes + s->scratch_bytes + 64);
    for (uint32_t i = 0; i < n->func->body->params.len; i++)
        in_data[i] = in[i]->data;
    for (uint32_t i = 0; i < func_n_out(n->func); i++)
        out_data[i] = arena_alloc(arena, want[i]->count * 8 + 64);
    bool same = fn(in_data, out_data, workspace, NULL) == 0;
    for (uint32_t i = 0; i < func_n_out(n->func); i++) {
        uint64_t at;
        if (!tensor_same_bits(want[i]->dtype, out_data[i], want[i]->data, want[i]->count, &at)) {
            print_message("output %u differs at %llu, %s\n", i, (unsigned long long)at, target->level);
            same = false;
        }
    }
    free(workspace);
    dlclose(library);
    return same;
}

static void run_net(void **state)
{
    size_t which = *(size_t *)*state;
    const TargetInfo *host = cgen_host_target();
    Context *ctx = ctx_create(NULL);
    Tensor *in[4], *want[4];
    Net n = make_net(ctx, which, in, want);
    bool same = host != NULL;
    for (const TargetInfo *t = cgen_targets(); host && t <= host; t++)
        for (int optional = 0; optional < 2; optional++) {
            Schedule *s = schedule(&n, t, optional);
            same &= same_outputs(&n, s, t, 2 * optional, in, want);
            sched_destroy(s);
        }
    ctx_destroy(ctx);
    assert_true(same);
}

/* Kernels of all nets as scheduled for AArch64, on every target. */
static void every_kernel(void **state)
{
    (void)state;
    BitsSuite *suite = bits_begin();
    const TargetInfo *arm = cgen_targets();
    while (arm->triple && strcmp(arm->level, "aarch64"))
        arm++;
    assert_non_null(arm->triple);
    for (size_t which = 0; net_defs[which].name; which++) {
        Tensor *in[4], *want[4];
        Net n = make_net(suite->ctx, which, in, want);
        Schedule *s = schedule(&n, arm, true);
        for (uint32_t i = 0; i < s->kernels.len; i++)
            bits_add(suite, s->kernels.data[i]);
    }
    assert_int_equal(bits_run(suite), 0);
    bits_end(suite);
}

int main(void)
{
    static size_t index[64];
    struct CMUnitTest tests[65];
    size_t n = 0;
    for (; net_defs[n].name; n++) {
        index[n] = n;
        tests[n] = (struct CMUnitTest){net_defs[n].name, run_net, NULL, NULL, &index[n]};
    }
    tests[n++] = (struct CMUnitTest){"every_kernel", every_kernel, NULL, NULL, NULL};
    return _cmocka_run_group_tests("cgen_nets", tests, n, NULL, NULL);
}
