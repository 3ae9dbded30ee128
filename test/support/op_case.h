/* SPDX-License-Identifier: Apache-2.0
 *
 * One op as a function, from text: operand types "f64[2,3] - s64[2]" (- is absent), attributes in schema order
 * "axis=1 perm=0,1". And tensors to run it on.
 */
#ifndef IGATA_TEST_OP_CASE_H
#define IGATA_TEST_OP_CASE_H

#include "eval/eval.h"
#include "support/unit.h"

/* A function `name` whose parameters x0, x1, .. are the operands that are present, and that yields y0, y1, ...; fails
 * the test with the first diagnostic if the op refuses. */
Func *case_func(Module *module, const char *name, Op op, const char *in, const char *attrs);
const Type *case_type(Context *ctx, const char *text);
Tensor *case_tensor(Context *ctx, Arena *arena, const Type *type); /* zeros, static type */
/* A tensor of the type in text with these elements, "1 -2.5 nan inf -0 0x1p-3"; fewer are repeated. */
Tensor *case_values(Context *ctx, Arena *arena, const char *type, const char *values);
/* "-0 nan 0.5": shortest decimals. */
const char *case_text(Arena *arena, const Tensor *t);
/* Runs the op on operands in one mode. */
Tensor *case_run(Context *ctx, Arena *arena, EvalMode mode, Op op, const char *attrs, Tensor *const *in, uint32_t n,
                 uint64_t *error);
void case_fail(Context *ctx, const char *what); /* with the sink's last diagnostic */

#endif
