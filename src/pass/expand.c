/* SPDX-License-Identifier: Apache-2.0
 * expand: composites become their bodies until only primitives are left. Bodies may hold composites; these are visited
 * in turn, because the walk resumes at the first node that the expansion inserted. */
#include "pass/pass.h"

static bool expand_region(Region *region, bool *changed)
{
    for (Node *node = region->first; node;) {
        for (uint32_t i = 0; i < node->n_region; i++)
            if (!expand_region(node->region[i], changed))
                return false;
        if (!op_is_composite((Op)node->op)) {
            node = node->next;
            continue;
        }
        Node *before = node->prev;
        if (!op_expand(node))
            return false;
        *changed = true;
        node = before ? before->next : region->first;
    }
    return true;
}

bool pass_expand(PassCtx *pc, Unit *unit)
{
    (void)pc;
    bool changed = false;
    for (uint32_t i = 0; i < unit->module->funcs.len; i++)
        if (!expand_region(unit->module->funcs.data[i]->body, &changed))
            break;
    return changed;
}
