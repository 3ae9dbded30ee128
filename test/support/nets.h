/* SPDX-License-Identifier: Apache-2.0
 * Small networks of every kind that the scheduler knows, built in memory, and the pieces to build more. */
#ifndef IGATA_TEST_NETS_H
#define IGATA_TEST_NETS_H

#include "op/op.h"

typedef struct Net {
    Context *ctx;
    Module *module;
    Func *func;
    Builder b;
    uint64_t seed;
} Net;
typedef struct NetDef {
    const char *name;
    void (*build)(Net *n);
} NetDef;
extern const NetDef net_defs[]; /* ends with name NULL */
Net net_make(Context *ctx, const NetDef *def, uint64_t seed);

#define DIMS(...) (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

double net_random(Net *n); /* in [-1, 1) */
Val *net_input(Net *n, const char *name, DType dtype, uint32_t rank, const int64_t *dims);
Val *net_weight(Net *n, uint32_t rank, const int64_t *dims); /* random f32 */
Val *net_conv(Net *n, Val *x, Val *w, int64_t stride, int64_t pad, int64_t dilation, int64_t lhs, int64_t groups, bool flip);
Val *net_window(Net *n, Op op, Val *x, const char *kind, int64_t size, int64_t stride, int64_t pad); /* over the last two axes */
void net_outputs(Net *n, uint32_t count, Val *const *vals); /* at most 4 */

#endif
