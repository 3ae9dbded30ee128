/* SPDX-License-Identifier: Apache-2.0
 *
 * The f32 elementary functions in plain C: `float scalar_exp(float)`, `float scalar_pow(float, float)`, .. one per row
 * of scalar.def, and the same over arrays. Every entry gives the same bits on every machine, and the bits of compiled
 * code, since all are made of the one text scalar.inc (numerics.md, "Elementary functions").
 */
#ifndef IGATA_BASE_SCALAR_H
#define IGATA_BASE_SCALAR_H

#include <stddef.h>

typedef enum ScalarFn {
#define SCALAR_FN(id, arity, bound) SCALAR_##id,
#include "base/scalar.def"
#undef SCALAR_FN
    SCALAR_COUNT
} ScalarFn;

typedef struct ScalarDef {
    const char *name;
    int arity;    /* 1 or 2 */
    double bound; /* published error in ULP */
} ScalarDef;
extern const ScalarDef scalar_defs[SCALAR_COUNT];

#define SCALAR_DECLARE_1(id) float scalar_##id(float x);
#define SCALAR_DECLARE_2(id) float scalar_##id(float x, float y);
#define SCALAR_FN(id, arity, bound) SCALAR_DECLARE_##arity(id)
#include "base/scalar.def"
#undef SCALAR_FN
#undef SCALAR_DECLARE_1
#undef SCALAR_DECLARE_2

/* y[i] = fn(x[i]); the arrays may be the same, but not overlap otherwise. Require the matching arity. */
void scalar_apply1(ScalarFn fn, const float *x, float *y, size_t n);
void scalar_apply2(ScalarFn fn, const float *x, const float *y, float *z, size_t n);

#endif
