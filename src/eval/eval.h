/* SPDX-License-Identifier: Apache-2.0
 *
 * eval: the reference evaluator, the oracle. Runs a function of the tensor IR node by node in one of two modes
 * (numerics.md): ref32 executes the numerics contract literally, f64 accumulates in double with libm and bounds the error.
 * Written independently of lowering; needs no compilation. The meaning of each op is its eval column in op/.
 */
#ifndef IGATA_EVAL_H
#define IGATA_EVAL_H

#include "op/op.h"

/* One evaluation: results live in `arena`. params: one dense tensor per parameter of func, in declared dtype, with sizes that
 * match (symbols take their values from them). *error: sticky run-time error word (0: none). False after reporting. */
bool eval_func(Context *ctx, Arena *arena, EvalMode mode, const Func *func, Tensor *const *params, Tensor **results,
               uint64_t *error);
/* Node-by-node observer for `verify --per-node`: called after each node with its results. */
typedef void EvalObserver(void *user, const Node *node, Tensor *const *results);
bool eval_func_observed(Context *ctx, Arena *arena, EvalMode mode, const Func *func, Tensor *const *params,
                        Tensor **results, uint64_t *error, EvalObserver *observer, void *user);
/* Evaluates one node on constant operands in ref32 (constant folding); NULL entries are absent. False if it cannot. */
bool eval_node_const(Context *ctx, Arena *arena, const Node *node, Tensor *const *in, Tensor **out);

#endif
