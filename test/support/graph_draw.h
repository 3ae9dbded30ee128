/* SPDX-License-Identifier: Apache-2.0
 * Draws well-typed random functions from the op table. */
#ifndef IGATA_TEST_GRAPH_DRAW_H
#define IGATA_TEST_GRAPH_DRAW_H

#include "op/op.h"

typedef struct Draw { /* where decisions come from: bytes, and a generator seeded by them once they are used up */
    const uint8_t *data;
    size_t size, at;
    uint64_t state;
    DType dtype; /* of operands where there is a choice; DT_NONE: any */
} Draw;
Draw draw_begin(const uint8_t *data, size_t size);
Draw draw_seeded(uint64_t seed); /* from the generator alone */
uint32_t draw_below(Draw *d, uint32_t n); /* 0 .. n-1; 0 for n = 0 */

/* An entry function `main` of up to `max_nodes` nodes: every value that nothing reads is an output. Diagnostics of refused tries
 * are cleared. only: OP_COUNT, or an op that every drawn node shall have if possible. False if nothing could be drawn. */
bool draw_function(Module *module, Draw *d, uint32_t max_nodes, Op only);

#endif
