/* SPDX-License-Identifier: Apache-2.0
 * inline: a call becomes a copy of the called function's body, with locations that name the call. No function calls itself
 * (ir_verify), but functions that call others twice double with every level, and calls in regions nest them: both are bounded. */
#include "pass/pass.h"

enum { MAX_COPIES = 1 << 20 }; /* nodes */

typedef struct Inliner {
    PassCtx *pc;
    uint32_t copies;
} Inliner;

static Val *mapped(Map *map, Val *val) { return val ? map_get(map, val->id) : NULL; }

static void clone_region(Context *ctx, Builder *b, const Region *from, Map *map, Loc call, bool skip_yield);

static void clone_node(Context *ctx, Builder *b, const Node *node, Map *map, Loc call)
{
    Arena *arena = b->module->arena;
    Val **in = ARENA_ARRAY(arena, Val *, node->n_in + 1);
    const Type **types = ARENA_ARRAY(arena, const Type *, node->n_out + 1);
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = mapped(map, node->in[i].val);
    for (uint32_t i = 0; i < node->n_out; i++)
        types[i] = node->out[i].type;
    Loc parents[2] = {node->loc, call};
    b->loc = loc_fused(ctx, parents, 2);
    Node *copy = ir_emit(b, (Op)node->op, in, node->n_in, node->attr, types, node->n_out);
    for (uint32_t i = 0; i < node->n_out; i++)
        map_set(map, node->out[i].id, &copy->out[i]);
    for (uint32_t r = 0; r < node->n_region; r++) {
        Region *region = ir_add_region(copy);
        for (uint32_t p = 0; p < node->region[r]->params.len; p++)
            map_set(map, node->region[r]->params.data[p]->id, region_param(region, node->region[r]->params.data[p]->type));
        Builder inner = ir_at_end(region, b->loc);
        clone_region(ctx, &inner, node->region[r], map, call, false);
    }
}

static void clone_region(Context *ctx, Builder *b, const Region *from, Map *map, Loc call, bool skip_yield)
{
    REGION_FOREACH(node, from)
        if (!skip_yield || node != from->last)
            clone_node(ctx, b, node, map, call);
}

static uint32_t count_nodes(const Region *region)
{
    uint32_t n = 0;
    REGION_FOREACH(node, region)
    {
        n++;
        for (uint32_t i = 0; i < node->n_region; i++)
            n += count_nodes(node->region[i]);
    }
    return n;
}

static void inline_call(Inliner *il, Node *node, const Func *func)
{
    Map *map = map_create(il->pc->tmp);
    for (uint32_t i = 0; i < node->n_in; i++)
        map_set(map, func->body->params.data[i]->id, node->in[i].val);
    Builder b = ir_before_node(node, node->loc);
    clone_region(il->pc->ctx, &b, func->body, map, node->loc, true);
    for (uint32_t i = 0; i < node->n_out; i++)
        ir_replace_all(&node->out[i], mapped(map, func_out(func, i)));
    ir_erase(node);
}

/* Stops after a report; *changed stays true where something was done before. */
static bool inline_region(Inliner *il, Region *region, int depth, bool *changed)
{
    for (Node *node = region->first, *next; node; node = next) {
        next = node->next;
        if (node->n_region && depth >= IR_MAX_NESTING)
            return diag_report(il->pc->ctx, node->loc, DIAG_pass_inline, op_info[node->op].name, "regions nest more than 64 deep");
        for (uint32_t i = 0; i < node->n_region; i++)
            if (!inline_region(il, node->region[i], depth + 1, changed))
                return false;
        if (node->op != OP_call)
            continue;
        const Func *func = attrs_get(OP_call, node->attr, AN_func)->u.func;
        il->copies += count_nodes(func->body);
        if (il->copies > MAX_COPIES)
            return diag_report(il->pc->ctx, node->loc, DIAG_pass_inline, func->name, "calls copy more than 2^20 nodes");
        Node *before = node->prev;
        inline_call(il, node, func);
        next = before ? before->next : region->first; /* the copy may hold calls */
        *changed = true;
    }
    return true;
}

bool pass_inline(PassCtx *pc, Unit *unit)
{
    Inliner il = {.pc = pc};
    bool changed = false;
    for (uint32_t i = 0; i < unit->module->funcs.len; i++)
        if (unit->module->funcs.data[i]->entry && !inline_region(&il, unit->module->funcs.data[i]->body, 0, &changed))
            break;
    return changed;
}
