/* SPDX-License-Identifier: Apache-2.0
 * Runs an artifact against expected results, distrusting it: every buffer ends at an inaccessible page and has guard bytes around
 * it, workspace and outputs are poisoned with NaN patterns, inputs must stay as they are, and it runs twice. */
#ifndef IGATA_TEST_ARTIFACT_RUN_H
#define IGATA_TEST_ARTIFACT_RUN_H

#include "driver/driver.h"

typedef struct ArtifactCase {
    Arena *arena; /* for the message */
    const char *path;
    const char *variant;   /* NULL: the best one */
    unsigned threads;
    uint32_t n_in, n_out;
    Tensor *const *in, *const *want;
    bool index_error;      /* an index out of range may be reported (not where the element that needs it is unused) */
} ArtifactCase;
/* What is wrong, or NULL. */
const char *artifact_wrong(const ArtifactCase *c);
/* The same for a program of eager steps; threads is ignored. */
const char *artifact_eager_wrong(const ArtifactCase *c, const EagerPlan *plan);

#endif
