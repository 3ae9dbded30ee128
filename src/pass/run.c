/* SPDX-License-Identifier: Apache-2.0
 * The pass runner: order, skipping, verification after each pass, timing, dumps. It is the only caller of passes. */
#include "pass/pass.h"

#include <string.h>
#include <time.h>

const PassDef pass_defs[] = {
#define PASS(id, level, optional, doc) {#id, LEVEL_##level, optional, pass_##id, doc},
#include "pass/passes.def"
#undef PASS
    {0},
};

const PassDef *pass_find(const PassDef *table, const char *id)
{
    for (; table->id; table++)
        if (strcmp(table->id, id) == 0)
            return table;
    return NULL;
}

static bool is_skipped(PassCtx *pc, const PassDef *pass)
{
    const PassOptions *o = pc->options;
    if (!pass->optional)
        return false;
    for (uint32_t i = 0; i < o->n_disabled; i++)
        if (strcmp(o->disabled[i], pass->id) == 0)
            return true;
    if (o->limit >= 0 && pc->n_optional_run >= o->limit)
        return true;
    pc->n_optional_run++;
    return false;
}

static double now_seconds(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print_unit(PassCtx *pc, const PassDef *pass, const Unit *unit)
{
    const char *wanted = pc->options->print_after;
    if (!wanted || !pc->dump || (strcmp(wanted, "all") != 0 && strcmp(wanted, pass->id) != 0))
        return;
    Text text;
    text_init(&text, pc->tmp);
    if (pass->level == LEVEL_TENSOR)
        ir_print(&text, unit->module);
    else if (pc->print_unit)
        pc->print_unit(pc->level_user, &text, pass->level, unit);
    pc->dump(pc->dump_user, pass->id, text.data);
}

static bool verify_unit(PassCtx *pc, const PassDef *pass, const Unit *unit)
{
    if (pass->level == LEVEL_TENSOR)
        return ir_verify(unit->module) && op_verify(unit->module);
    return !pc->verify || pc->verify(pc->level_user, pass->level, unit);
}

bool pass_run(PassCtx *pc, Unit *unit, const PassDef *const *passes, uint32_t n)
{
    for (uint32_t i = 0; i < n && !pc->stopped; i++) {
        const PassDef *pass = passes[i];
        uint32_t errors = diag_errors(pc->ctx);
        if (!is_skipped(pc, pass)) {
            double start = pc->options->time ? now_seconds() : 0;
            bool changed = pass->run(pc, unit);
            if (pc->options->time) {
                struct PassTime time = {pass->id, now_seconds() - start, changed};
                vec_push(ctx_arena(pc->ctx), &pc->times, time);
            }
            if (diag_errors(pc->ctx) > errors)
                return false;
            if (pc->options->verify_each && !verify_unit(pc, pass, unit))
                return diag_report(pc->ctx, 0, DIAG_pass_invalid, pass->id);
            print_unit(pc, pass, unit);
        }
        pc->stopped = pc->options->stop_after && strcmp(pc->options->stop_after, pass->id) == 0;
        arena_reset(pc->tmp);
    }
    return true;
}

static bool each_node(Region *region, bool (*visit)(Node *node))
{
    bool changed = false;
    for (Node *node = region->first, *next; node; node = next) {
        next = node->next;
        for (uint32_t i = 0; i < node->n_region; i++)
            changed |= each_node(node->region[i], visit);
        changed |= visit(node);
    }
    return changed;
}

bool pass_each_node(Module *module, bool (*visit)(Node *node))
{
    bool changed = false;
    for (uint32_t i = 0; i < module->funcs.len; i++)
        changed |= each_node(module->funcs.data[i]->body, visit);
    return changed;
}
