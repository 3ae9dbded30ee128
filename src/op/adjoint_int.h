/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the adjoint_X functions of op/. A rule reads the node's operands and results in the clone, emits through
 * op_emit only (so that every rule can be differentiated again) and gives each float operand its gradient.
 */
#ifndef IGATA_OP_ADJOINT_INT_H
#define IGATA_OP_ADJOINT_INT_H

#include "op/op.h"

/* adjoint_util.c */
static inline Val *adj_in(const AdjointArgs *a, uint32_t i) { return ir_in(a->node, i); }
static inline Val *adj_out(const AdjointArgs *a, uint32_t i) { return &a->node->out[i]; }
/* Operand i takes part: present and a float tensor. */
bool adj_wanted(const AdjointArgs *a, uint32_t i);
/* Sets the gradient of operand i to value, summed back over the axes that the node stretched. Operands that do not take
 * part are left alone. False if value is NULL: its maker has reported. */
bool adj_give(const AdjointArgs *a, uint32_t i, Val *value);
Val *adj_zeros(Builder *b, const Type *type);                           /* of any number type */
Val *adj_sum_to(Builder *b, Val *value, const Type *type);              /* sums over the axes where type has size 1 */
Val *adj_stretch(Builder *b, Val *value, const Type *type);             /* broadcast to the shape of type */
Val *adj_same_shape(Builder *b, Val *value, const Type *type);          /* reshape to the shape of type */
Val *adj_move_axis(Builder *b, Val *value, uint32_t from, uint32_t to); /* the other axes keep their order */
const Dim *adj_count(Context *ctx, const Type *type, uint32_t from, uint32_t to); /* product of dims [from, to) */
Val *adj_mul(Builder *b, Val *x, Val *y);
Val *adj_add(Builder *b, Val *x, Val *y);
Val *adj_scale(Builder *b, Val *x, double factor);
Val *adj_plus(Builder *b, Val *x, double addend);

#endif
