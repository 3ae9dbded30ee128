/* SPDX-License-Identifier: Apache-2.0
 * Runs a scheduled function with the loop interpreter: the same memory plan as an artifact, no code generation. */
#ifndef IGATA_TEST_RUN_SCHEDULE_H
#define IGATA_TEST_RUN_SCHEDULE_H

#include "sched/sched.h"

/* in: data of the inputs; out: storage for the outputs (row-major). The workspace is filled with NaN patterns first. Tiles of each
 * phase run in descending order, so that no tile can rely on an earlier one. */
void run_schedule(const Schedule *s, void *const *in, void *const *out, uint64_t *error);

#endif
