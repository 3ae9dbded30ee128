/* SPDX-License-Identifier: Apache-2.0
 * Everything that must hold for any well-typed function. */
#ifndef IGATA_TEST_GRAPH_CHECK_H
#define IGATA_TEST_GRAPH_CHECK_H

#include "driver/driver.h"

typedef struct GraphCheck {
    Context *ctx;
    uint64_t seed;      /* of the data, and of which levels are tried */
    const char *folder; /* for the artifact */
    bool run_code;      /* also compile and run on this machine */
    bool gradients;     /* also differentiate */
    bool quick;         /* one level only */
    bool was_evaluated, was_compiled, was_differentiated; /* answers: how far it came */
    const char *wrong;                /* NULL: all held */
} GraphCheck;
/* The module is consumed. Verifiers accept; text is a fixed point before and after each pass; scheduled and interpreted, and
 * compiled and run, it gives the bits of the ref32 evaluator at -O0, -O1 and -O2, eagerly, or without some pass. */
void graph_check(GraphCheck *c, Module *module);

#endif
