/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipelines, one screen. No result bit depends on which of them runs, nor on any optional pass (numerics.md).
 *
 *            tensor IR                                   schedule             loops
 *  -O0    inline expand dce                            lower                                                    plan
 *  -O1    inline fold simplify cse expand fold dce     fuse lower           phases groups pack tensorize vectorize window  plan
 *  -O2    + raise; rejoin, simplify, cse, narrow       + layout views       + parallel
 *  eager  as -O1, but fuse makes a kernel of each source node; parallel as at -O2; nothing shares a place
 */
#include "driver/driver.h"

static const char *const tensor_o0[] = {"inline", "expand", "dce", NULL};
static const char *const tensor_o1[] = {"inline", "fold", "simplify", "cse", "expand", "fold", "dce", NULL};
static const char *const tensor_o2[] = {"inline", "fold", "simplify", "cse", "raise", "expand",
                                        "fold",   "rejoin", "simplify", "cse", /* bodies share subexpressions with their surroundings */
                                        "narrow", "dce", NULL};
static const char *const sched_o0[] = {"lower", "plan", NULL};
static const char *const sched_o1[] = {"fuse", "lower", "phases", "groups", "pack", "tensorize", "vectorize", "window", "plan", NULL};
static const char *const sched_o2[] = {"fuse",      "layout",    "views",  "lower",    "phases", "groups", "pack",
                                       "tensorize", "vectorize", "window", "parallel", "plan",   NULL};
static const char *const sched_eager[] = {"fuse",      "lower",     "phases", "groups",   "pack",
                                          "tensorize", "vectorize", "window", "parallel", "plan", NULL};

Pipeline driver_pipeline(int opt_level, bool eager)
{
    if (eager)
        return (Pipeline){tensor_o1, sched_eager};
    if (opt_level <= 0)
        return (Pipeline){tensor_o0, sched_o0};
    if (opt_level == 1)
        return (Pipeline){tensor_o1, sched_o1};
    return (Pipeline){tensor_o2, sched_o2};
}

const PassDef *driver_find_pass(const char *id)
{
    const PassDef *pass = pass_find(pass_defs, id);
    return pass ? pass : pass_find(sched_pass_defs, id);
}
