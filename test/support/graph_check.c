/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/graph_check.h"
#include "ad/ad.h"
#include "support/artifact_run.h"
#include "support/run_schedule.h"
#include "support/tensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_IO = 80 };

typedef struct Way {
    const char *name;
    int opt_level;
    bool eager;
    const char *without;
} Way;

typedef struct Data {
    uint32_t n_in, n_out;
    Tensor *in[MAX_IO], *want[MAX_IO];
    uint64_t error;
} Data;

/* The diagnostics are all of kinds that say "not supported here". */
static bool is_refusal(Context *ctx, bool gradient)
{
    static const DiagId kinds[] = {DIAG_eval_dtype, DIAG_op_uncompiled, DIAG_cgen_unsupported, DIAG_driver_dynamic,
                                   DIAG_driver_not_tensor};
    if (diag_errors(ctx) == 0)
        return false;
    for (uint32_t i = 0; i < diag_count(ctx); i++) {
        const Diag *d = diag_get(ctx, i);
        bool known = d->severity == SEV_NOTE || d->severity == SEV_WARNING;
        for (size_t k = 0; k < IG_COUNT(kinds); k++)
            known = known || d->id == kinds[k];
        /* gradients that do not exist, or take an op that the element type lacks */
        known = known || strncmp(diag_name(d->id), "ad_", 3) == 0 || (gradient && d->id == DIAG_op_dtype);
        if (!known)
            return false;
    }
    diag_clear(ctx);
    return true;
}

static void set_wrong(GraphCheck *c, const char *where, const char *what)
{
    if (!c->wrong)
        c->wrong = arena_printf(ctx_arena(c->ctx), "%s: %s\n%s", where, what, diags_text(c->ctx));
}

static void check_text(GraphCheck *c, const char *where, const char *text)
{
    Module *again = ir_parse(c->ctx, str_intern(c->ctx, "printed.ig"), text, strlen(text));
    if (!again) {
        set_wrong(c, where, arena_printf(ctx_arena(c->ctx), "the printed text does not parse\n%s", text));
        return;
    }
    Text second;
    text_init(&second, ctx_arena(c->ctx));
    ir_print(&second, again);
    if (strcmp(text, second.data) != 0)
        set_wrong(c, where, arena_printf(ctx_arena(c->ctx), "the printed text is no fixed point\n%s\n%s", text, second.data));
    if (!ir_verify(again) || !op_verify(again))
        set_wrong(c, where, "the verifier refuses the printed text");
    module_destroy(again);
}

static void on_dump(void *user, const char *pass, const char *text)
{
    if (driver_find_pass(pass)->level == LEVEL_TENSOR)
        check_text(user, pass, text);
}

static const char *compare(Arena *arena, const Data *data, void *const *out)
{
    for (uint32_t i = 0; i < data->n_out; i++) {
        const Tensor *want = data->want[i];
        uint64_t at = 0;
        if (tensor_same_bits(want->dtype, out[i], want->data, want->count, &at))
            continue;
        bool real = dtype_is_float(want->dtype);
        return arena_printf(arena, "interpreted: output %u, element %llu: %.9g instead of %.9g", i, (unsigned long long)at,
                            real ? elem_get_f64(want->dtype, out[i], at) : (double)elem_get_s64(want->dtype, out[i], at),
                            real ? elem_get_f64(want->dtype, want->data, at) : (double)elem_get_s64(want->dtype, want->data, at));
    }
    return NULL;
}

static const char *run_interpreted(Arena *arena, const Schedule *s, const Data *data)
{
    void *in[MAX_IO], *out[MAX_IO];
    uint64_t error = 0;
    for (uint32_t i = 0; i < data->n_in; i++)
        in[i] = data->in[i]->data;
    for (uint32_t i = 0; i < data->n_out; i++) {
        out[i] = arena_alloc(arena, data->want[i]->count * 16 + 64);
        memset(out[i], 0xFF, data->want[i]->count * 16);
    }
    run_schedule(s, in, out, &error);
    return error && !data->error ? "interpreted: an index error that the evaluator does not have" : compare(arena, data, out);
}

static void check_way(GraphCheck *c, Module *module, const Way *way, const Data *data)
{
    Context *ctx = c->ctx;
    Arena *arena = arena_create(ctx);
    Module *clone = module_clone(module);
    Func *func = module_find_func(clone, str_intern(ctx, "main"));
    DriverOptions options = {.pass = {.opt_level = way->opt_level, .eager = way->eager, .limit = -1, .verify_each = true,
                                      .print_after = "all"},
                             .target = {cgen_host_target() ? cgen_host_target() : cgen_targets()},
                             .n_targets = 1,
                             .dump = on_dump,
                             .dump_user = c};
    Str without[1] = {way->without};
    options.pass.disabled = without;
    options.pass.n_disabled = way->without ? 1 : 0;
    Program *p = driver_compile(ctx, clone, func, &options);
    const char *wrong = NULL;
    if (!p) {
        if (!is_refusal(ctx, false))
            wrong = "does not compile";
    } else {
        c->was_compiled = true;
        wrong = run_interpreted(arena, p->variant[0].schedule, data);
        if (p->variant[0].schedule->peak_bytes > p->variant[0].schedule->lower_bound_bytes * 2 + 64)
            wrong = "the plan takes more than twice the lower bound";
        const char *path = arena_printf(arena, "%s/drawn-%ld.so", c->folder, (long)getpid()); /* jobs may share a folder */
        ArtifactCase run = {.arena = arena, .path = path, .threads = 1 + c->seed % 2, .n_in = data->n_in, .n_out = data->n_out,
                            .in = data->in, .want = data->want, .index_error = data->error != 0};
        EagerPlan *plan = NULL;
        if (wrong || !c->run_code || !cgen_host_target())
            ;
        else if (way->eager ? !(plan = driver_write_eager(p, arena, path)) : !driver_write(p, path))
            wrong = "is not written";
        else
            wrong = way->eager ? artifact_eager_wrong(&run, plan) : artifact_wrong(&run);
        unlink(path);
        driver_destroy(p);
    }
    if (wrong)
        set_wrong(c, arena_printf(arena, "%s -O%d without %s", way->name, way->opt_level, way->without ? way->without : "nothing"),
                  wrong);
    module_destroy(clone);
    arena_destroy(arena);
}

static bool make_data(GraphCheck *c, Arena *arena, const Func *func, Data *data)
{
    data->n_in = func->body->params.len;
    data->n_out = func_n_out(func);
    if (data->n_in > MAX_IO || data->n_out > MAX_IO)
        return false;
    for (uint32_t i = 0; i < data->n_in; i++)
        data->in[i] = tensor_random(arena, func->body->params.data[i]->type, c->seed * 64 + i,
                                    c->seed % 3 == 0 ? TASTE_SPECIAL : TASTE_TAME);
    if (eval_func(c->ctx, arena, EVAL_REF32, func, data->in, data->want, &data->error))
        return true;
    if (!is_refusal(c->ctx, false))
        set_wrong(c, "evaluator", "fails");
    return false;
}

/* The gradient of the first float output: its primal part keeps the bits, and it compiles like any function. */
static void check_gradient(GraphCheck *c, Arena *arena, Module *module, const Data *primal)
{
    Context *ctx = c->ctx;
    Module *clone = module_clone(module);
    Func *func = module_find_func(clone, str_intern(ctx, "main"));
    uint32_t which = 0;
    while (which < primal->n_out && !dtype_is_float(primal->want[which]->dtype))
        which++;
    if (which < primal->n_out) {
        AdOutput output = {func->out_names[which], str_intern(ctx, "seed")};
        Str name = str_intern(ctx, "gradient");
        AdRequest request = {.func = func, .name = name, .outputs = &output, .n_outputs = 1, .keep = func->out_names,
                             .n_keep = primal->n_out};
        Func *gradient = ad_gradient(clone, &request);
        if (!gradient) {
            if (!is_refusal(ctx, true))
                set_wrong(c, "gradient", "fails");
        } else if (!ir_verify(clone) || !op_verify(clone)) {
            set_wrong(c, "gradient", "the verifier refuses it");
        } else {
            Data data = {0};
            uint64_t at;
            gradient->name = str_intern(ctx, "main"); /* what the other checks look for */
            func->name = str_intern(ctx, "primal");
            Text text;
            text_init(&text, arena);
            ir_print(&text, clone);
            Module *alone = ir_parse(ctx, str_intern(ctx, "gradient.ig"), text.data, text.len);
            if (!alone)
                set_wrong(c, "gradient", "the printed text does not parse");
            else if (make_data(c, arena, module_find_func(alone, str_intern(ctx, "main")), &data)) {
                for (uint32_t i = 0; i < primal->n_out; i++)
                    if (!tensor_same_bits(primal->want[i]->dtype, data.want[i]->data, primal->want[i]->data,
                                          primal->want[i]->count, &at))
                        set_wrong(c, "gradient", "its primal part has other bits");
                check_way(c, alone, &(Way){"gradient", 2, false, NULL}, &data);
                c->was_differentiated = true;
            }
        }
    }
    module_destroy(clone);
}

void graph_check(GraphCheck *c, Module *module)
{
    Context *ctx = c->ctx;
    Arena *arena = arena_create(ctx);
    Func *func = module_find_func(module, str_intern(ctx, "main"));
    Data data = {0};
    Text text;
    text_init(&text, arena);
    ir_print(&text, module);
    if (!ir_verify(module) || !op_verify(module))
        set_wrong(c, "built", "the verifier refuses it");
    check_text(c, "built", text.data);
    if (!c->wrong && make_data(c, arena, func, &data)) {
        c->was_evaluated = true;
        Way ways[] = {{"plain", 2, false, NULL}, {"plain", 0, false, NULL}, {"plain", 1, false, NULL},
                      {"eager", 2, true, NULL},  {"plain", 2, false, NULL}};
        uint32_t n_passes = 0, pick = 0;
        for (int round = 0; round < 2; round++) { /* which optional pass is left out */
            if (round && n_passes)
                pick = (uint32_t)(c->seed % n_passes) + 1;
            n_passes = 0;
            for (const PassDef *pass = pass_defs; pass->id; pass++)
                if (pass->optional && ++n_passes == pick)
                    ways[4].without = pass->id;
            for (const PassDef *pass = sched_pass_defs; pass->id; pass++)
                if (pass->optional && ++n_passes == pick)
                    ways[4].without = pass->id;
        }
        for (size_t i = 0; i < (c->quick ? 1 : IG_COUNT(ways)) && !c->wrong; i++)
            check_way(c, module, &ways[i], &data);
        if (c->gradients && !c->wrong)
            check_gradient(c, arena, module, &data);
    }
    arena_destroy(arena);
}
