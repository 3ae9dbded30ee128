/* SPDX-License-Identifier: Apache-2.0
 * What scheduling makes of loops that depend on themselves through memory: lines that need nothing of each other are split
 * between threads or run as vectors, the loop along which values are handed on stays sequential. */
#include "support/nets.h"
#include "support/unit.h"

#include "sched/sched.h"

#include <string.h>

static const TargetInfo target = {"x86_64-pc-linux-gnu", "haswell", "", "x86-64-v3", 8, 16, 1 << 19};

/* The only kernel of the function, scheduled. */
static const Kernel *schedule(Net *n, Val *out, Schedule **s)
{
    static const char *const names[] = {"fuse", "layout", "lower", "pack", "tensorize", "vectorize", "parallel", "plan"};
    const PassDef *passes[IG_COUNT(names)];
    for (size_t i = 0; i < IG_COUNT(names); i++)
        passes[i] = pass_find(sched_pass_defs, names[i]);
    net_outputs(n, 1, &out);
    PassOptions options = {.opt_level = 2, .target = &target, .limit = -1};
    PassCtx pc = {.ctx = n->ctx, .tmp = arena_create(n->ctx), .options = &options};
    Unit unit = {.module = n->module, .schedule = *s = sched_create(n->ctx, n->module, n->func)};
    assert_true(pass_run(&pc, &unit, passes, IG_COUNT(names)));
    arena_destroy(pc.tmp);
    assert_true(sched_verify(*s, LEVEL_LOOP));
    assert_int_equal((*s)->groups.len, 1);
    return (*s)->groups.data[0]->kernel;
}

typedef struct Expect {
    Op op;
    uint32_t n_in, rank;
    int64_t dim[3], axis;
    bool threads, vectors;
} Expect;

static Val *build(Net *n, const Expect *e)
{
    AttrVal cumulate[] = {attr_int(e->axis), attr_str(n->ctx, "sum"), attr_bool(false), attr_bool(false)};
    AttrVal scatter[] = {attr_int(e->axis), attr_str(n->ctx, "add")};
    AttrVal top[] = {attr_int(e->axis), attr_dim(dim_const(n->ctx, e->dim[e->axis])), attr_str(n->ctx, "max")};
    AttrVal rows[] = {attr_str(n->ctx, "add")};
    Val *in[3];
    in[0] = net_input(n, "x", DT_F32, e->rank, e->dim);
    if (e->op == OP_scatter_nd) {
        in[1] = net_input(n, "i", DT_S64, 2, (int64_t[]){500, 1});
        in[2] = net_input(n, "u", DT_F32, 2, (int64_t[]){500, e->dim[1]});
        return op_emit(&n->b, e->op, in, 3, rows, 1);
    }
    if (e->op == OP_scatter_elements) {
        in[1] = net_input(n, "i", DT_S64, e->rank, e->dim);
        in[2] = net_input(n, "u", DT_F32, e->rank, e->dim);
        return op_emit(&n->b, e->op, in, 3, scatter, 2);
    }
    return e->op == OP_topk ? op_emit(&n->b, e->op, in, 1, top, 3) : op_emit(&n->b, e->op, in, 1, cumulate, 4);
}

static void independent_lines_alone_are_split(void **state)
{
    static const Expect expect[] = {
        {OP_cumulate, 1, 1, {100000}, 0, false, false},
        {OP_cumulate, 1, 2, {300, 400}, 0, false, true},
        {OP_cumulate, 1, 2, {300, 400}, 1, true, false},
        {OP_cumulate, 1, 3, {50, 60, 70}, 1, true, true},
        {OP_cumulate, 1, 3, {50, 60, 70}, 0, true, true},
        {OP_scatter_elements, 3, 1, {100000}, 0, false, true}, /* the copy is a vector loop */
        {OP_scatter_elements, 3, 2, {300, 400}, 1, true, true},
        {OP_scatter_nd, 3, 2, {300, 400}, 0, false, true},
        {OP_topk, 1, 2, {300, 100}, 1, true, true},
        {OP_topk, 1, 1, {100000}, 0, false, true},
    };
    (void)state;
    for (size_t i = 0; i < IG_COUNT(expect); i++) {
        Context *ctx = ctx_create(NULL);
        NetDef def = {op_info[expect[i].op].name, NULL};
        Net n = {.ctx = ctx, .module = module_create(ctx)};
        n.func = module_func(n.module, str_intern(ctx, "main"), true);
        n.b = ir_at_end(n.func->body, loc_text(ctx, str_intern(ctx, def.name), 1, 1));
        Val *out = build(&n, &expect[i]);
        assert_non_null(out);
        Schedule *s;
        const Kernel *k = schedule(&n, out, &s);
        Text text;
        text_init(&text, ctx_arena(ctx));
        kernel_print(&text, k);
        bool threads = kernel_tiles(k) > 1, vectors = strstr(text.data, " vec {") != NULL;
        if (threads != expect[i].threads || vectors != expect[i].vectors)
            fail_msg("case %zu: %s threads, %s vectors\n%s", i, threads ? "with" : "no", vectors ? "with" : "no", text.data);
        sched_destroy(s);
        ctx_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(independent_lines_alone_are_split)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
