/* SPDX-License-Identifier: Apache-2.0
 * inline: a call becomes a copy of the called function's body, with locations that name the call. */
#include "pass/pass.h"

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

static bool inline_region(PassCtx *pc, Region *region, int depth)
{
    bool changed = false;
    for (Node *node = region->first, *next; node; node = next) {
        next = node->next;
        for (uint32_t i = 0; i < node->n_region; i++)
            changed |= inline_region(pc, node->region[i], depth);
        if (node->op != OP_call)
            continue;
        if (depth >= IR_MAX_NESTING) {
            diag_report(pc->ctx, node->loc, DIAG_pass_recursion, attrs_get(OP_call, node->attr, AN_func)->u.func->name);
            return changed;
        }
        const Func *func = attrs_get(OP_call, node->attr, AN_func)->u.func;
        Map *map = map_create(pc->tmp);
        for (uint32_t i = 0; i < node->n_in; i++)
            map_set(map, func->body->params.data[i]->id, node->in[i].val);
        Node *before = node->prev;
        Builder b = ir_before_node(node, node->loc);
        clone_region(pc->ctx, &b, func->body, map, node->loc, true);
        for (uint32_t i = 0; i < node->n_out; i++)
            ir_replace_all(&node->out[i], mapped(map, func_out(func, i)));
        ir_erase(node);
        next = before ? before->next : region->first; /* the copy may hold calls */
        depth++;
        changed = true;
    }
    return changed;
}

bool pass_inline(PassCtx *pc, Unit *unit)
{
    bool changed = false;
    for (uint32_t i = 0; i < unit->module->funcs.len; i++)
        if (unit->module->funcs.data[i]->entry)
            changed |= inline_region(pc, unit->module->funcs.data[i]->body, 0);
    return changed;
}
