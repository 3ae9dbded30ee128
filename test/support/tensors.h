/* SPDX-License-Identifier: Apache-2.0
 * Random tensors for tests, and their comparison bit by bit. */
#ifndef IGATA_TEST_TENSORS_H
#define IGATA_TEST_TENSORS_H

#include "eval/eval.h"

typedef enum Taste {
    TASTE_TAME,    /* small values and -0; integers in -6 .. 5 */
    TASTE_SPECIAL, /* one in eight is NaN, an infinity, a zero, a denormal, the largest or smallest integer */
} Taste;
Tensor *tensor_random(Arena *arena, const Type *type, uint64_t seed, Taste taste); /* static type; room for a spare element */
/* Elements equal bit by bit, NaN as one value. *at: the first that is not. */
bool tensor_same_bits(DType dtype, const void *a, const void *b, uint64_t count, uint64_t *at);
/* The sink's diagnostics, one a line. */
const char *diags_text(Context *ctx);

#endif
