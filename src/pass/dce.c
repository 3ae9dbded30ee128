/* SPDX-License-Identifier: Apache-2.0
 * dce: a node whose results nobody uses goes, unless it is pinned (yield, check) or finds a size that another one names. */
#include "pass/pass.h"

bool pass_dce(PassCtx *pc, Unit *unit)
{
    (void)pc;
    bool changed = false;
    for (uint32_t i = 0; i < unit->module->funcs.len; i++)
        changed |= ir_drop_dead(unit->module->funcs.data[i]);
    return changed;
}
