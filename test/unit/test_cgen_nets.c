/* SPDX-License-Identifier: Apache-2.0
 * The kernels of small networks of every kind, as scheduled for AArch64 (the target that the others' artifacts do not cover here),
 * equal their interpretation on every target. Whole artifacts: test_driver_bits.c. */
#define _GNU_SOURCE
#include "cgen/cgen.h"
#include "sched/sched.h"
#include "support/kernel_bits.h"
#include "support/nets.h"
#include "support/unit.h"

#include <string.h>

static void run_passes(Net *n, Schedule *s, const TargetInfo *target, const char *const *names, uint32_t count)
{
    const PassDef *passes[16];
    assert_true(count <= IG_COUNT(passes));
    for (uint32_t i = 0; i < count; i++)
        passes[i] = pass_find(s ? sched_pass_defs : pass_defs, names[i]);
    PassOptions options = {.opt_level = 2, .target = target, .limit = -1};
    PassCtx pc = {.ctx = n->ctx, .tmp = arena_create(n->ctx), .options = &options};
    Unit unit = {.module = n->module, .schedule = s};
    assert_true(pass_run(&pc, &unit, passes, count));
    arena_destroy(pc.tmp);
}

static void every_kernel(void **state)
{
    static const char *const tensor[] = {"expand", "dce"};
    static const char *const sched[] = {"fuse",      "layout",    "views",  "lower",    "phases", "groups", "pack",
                                        "tensorize", "vectorize", "window", "parallel", "plan"};
    (void)state;
    BitsSuite *suite = bits_begin();
    const TargetInfo *arm = cgen_targets();
    while (arm->triple && strcmp(arm->level, "aarch64"))
        arm++;
    assert_non_null(arm->triple);
    for (size_t which = 0; net_defs[which].name; which++) {
        Net n = net_make(suite->ctx, &net_defs[which], 42 + which);
        run_passes(&n, NULL, arm, tensor, IG_COUNT(tensor));
        Schedule *s = sched_create(n.ctx, n.module, n.func);
        run_passes(&n, s, arm, sched, IG_COUNT(sched));
        for (uint32_t i = 0; i < s->kernels.len; i++)
            bits_add(suite, s->kernels.data[i]);
    }
    assert_int_equal(bits_run(suite), 0);
    bits_end(suite);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kernel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
