/* SPDX-License-Identifier: Apache-2.0
 * dce: a node whose results nobody uses goes, unless it is pinned (yield, check). From the last node to the first, so that
 * whole chains go in one sweep. */
#include "pass/pass.h"

static bool is_dead(const Node *node)
{
    if (op_info[node->op].traits & OT_PINNED)
        return false;
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i].uses)
            return false;
    return true;
}

static bool has_pinned(const Region *region)
{
    REGION_FOREACH(node, region)
        if (node->op == OP_check)
            return true;
    return false;
}

static bool sweep(Region *region)
{
    bool changed = false;
    for (Node *node = region->last, *prev; node; node = prev) {
        prev = node->prev;
        bool pinned = false;
        for (uint32_t i = 0; i < node->n_region; i++) {
            changed |= sweep(node->region[i]);
            pinned |= has_pinned(node->region[i]);
        }
        if (is_dead(node) && !pinned) {
            ir_erase(node);
            changed = true;
        }
    }
    return changed;
}

bool pass_dce(PassCtx *pc, Unit *unit)
{
    (void)pc;
    bool changed = false;
    for (uint32_t i = 0; i < unit->module->funcs.len; i++)
        changed |= sweep(unit->module->funcs.data[i]->body);
    return changed;
}
