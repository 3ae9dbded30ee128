/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands and attributes of one op as short texts, for tables of test cases:
 * types "f32[2,N,2*N] - s64[]" (- is an absent operand), attributes in schema order "axis=1 perm=0,1".
 * Malformed text aborts the test.
 */
#ifndef TEST_SUPPORT_OP_TEXT_H
#define TEST_SUPPORT_OP_TEXT_H

#include "op/op.h"

typedef struct OpText {
    Context *ctx;
    Module *module;
    Arena *arena;
} OpText;

OpText op_text_begin(void); /* ends with ctx_destroy(ctx) */
/* Splits a copy of text at the separator. */
uint32_t op_text_split(OpText *f, const char *text, char separator, char **parts);
/* A function with one parameter for each type that is not absent. in[] gets room for 16. */
Func *op_text_func(OpText *f, const char *types, Val **in, uint32_t *n_in);
const Attrs *op_text_attrs(OpText *f, Op op, const char *text);

#endif
