/* SPDX-License-Identifier: Apache-2.0
 * cse: of two nodes with equal op, attributes, operands and result types in one region the later one goes. Commutative
 * operands are compared in either order. Nodes with regions and pinned nodes stay. */
#include "pass/pass.h"

static uint64_t node_hash(const Node *node)
{
    uint64_t h = hash_mix(node->op, KEY(node->attr)), operands = 0;
    bool commutes = op_info[node->op].traits & OT_COMM;
    for (uint32_t i = 0; i < node->n_in; i++) {
        uint64_t id = node->in[i].val ? node->in[i].val->id + 1 : 0;
        operands = commutes ? operands + id * UINT64_C(0x9E3779B97F4A7C15) : hash_mix(operands, id);
    }
    return hash_mix(h, operands);
}

static bool same_operands(const Node *a, const Node *b)
{
    if (a->n_in != b->n_in)
        return false;
    if ((op_info[a->op].traits & OT_COMM) && a->in[0].val == b->in[1].val && a->in[1].val == b->in[0].val)
        return true;
    for (uint32_t i = 0; i < a->n_in; i++)
        if (a->in[i].val != b->in[i].val)
            return false;
    return true;
}

static bool same_node(const Node *a, const Node *b)
{
    if (a->op != b->op || a->attr != b->attr || a->n_out != b->n_out || !same_operands(a, b))
        return false;
    for (uint32_t i = 0; i < a->n_out; i++)
        if (a->out[i].type != b->out[i].type)
            return false;
    return true;
}

typedef struct Seen { /* nodes with one hash */
    Node *node;
    struct Seen *next;
} Seen;

static bool merge_region(Arena *tmp, Region *region)
{
    bool changed = false;
    Map *seen = map_create(tmp);
    for (Node *node = region->first, *next; node; node = next) {
        next = node->next;
        for (uint32_t i = 0; i < node->n_region; i++)
            changed |= merge_region(tmp, node->region[i]);
        if (node->n_region || (op_info[node->op].traits & OT_PINNED) || node->n_out == 0)
            continue;
        void **slot = map_slot(seen, node_hash(node));
        const Seen *equal = *slot;
        while (equal && !same_node(equal->node, node))
            equal = equal->next;
        if (!equal) {
            Seen *entry = ARENA_NEW(tmp, Seen);
            *entry = (Seen){node, *slot};
            *slot = entry;
            continue;
        }
        for (uint32_t i = 0; i < node->n_out; i++)
            ir_replace_all(&node->out[i], &equal->node->out[i]);
        ir_erase(node);
        changed = true;
    }
    return changed;
}

bool pass_cse(PassCtx *pc, Unit *unit)
{
    bool changed = false;
    for (uint32_t i = 0; i < unit->module->funcs.len; i++)
        changed |= merge_region(pc->tmp, unit->module->funcs.data[i]->body);
    return changed;
}
