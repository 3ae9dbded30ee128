/* SPDX-License-Identifier: Apache-2.0
 *
 * What the eval_X functions of op/ share with each other and with eval/: classes of arithmetic, access to elements,
 * results, run-time errors. The evaluator is the oracle: it is written from numerics.md and uses nothing of loop/.
 *
 * Arithmetic happens in one of three classes. F32: f32 and narrower floats, widened and rounded back after every node.
 * F64: the dtype f64, and every float in EVAL_F64. INT: integers and bool as two's complement words modulo 2^64,
 * narrowed when stored. The elementary functions of class F64 are libm's in both modes.
 */
#ifndef IGATA_OP_EVAL_SUPPORT_H
#define IGATA_OP_EVAL_SUPPORT_H

#include "op/op.h"

#include <string.h>

typedef enum EvalClass { EC_F32, EC_F64, EC_INT, EC_NONE } EvalClass;
enum { EVAL_CHUNK = 512, EVAL_CELL = 8 };        /* elements widened at a time; bytes of a widened element at most */
enum { EVAL_ERR_INDEX = 1, EVAL_ERR_STEPS = 2 }; /* codes in the error word, as compiled code uses them */

/* The driver behind EvalCtx.driver: values of dim symbols and the expanded bodies of composites. */
typedef struct EvalScope {
    Map *syms;             /* symbol id -> value + 1 */
    Map *bodies;           /* hash of a composite's key -> first EvalBody */
    VEC(Module *) modules; /* of those bodies */
    Arena *arena;
} EvalScope;

/* eval_util.c */
EvalClass eval_class(const Tensor *t);
size_t eval_class_bytes(EvalClass c); /* 4 or 8 */
bool eval_unsigned(const Tensor *t);  /* compares and divides as unsigned: u64 .. u2, bool */
/* Elements `index[0..n)` (NULL: first, first + 1, ..) of t, widened to class c. */
void eval_fetch(const Tensor *t, EvalClass c, const uint64_t *index, uint64_t first, uint64_t n, void *out);
/* Stores n widened elements from `first` on, rounded or wrapped to the dtype. */
void eval_put(Tensor *t, EvalClass c, uint64_t first, uint64_t n, const void *in);
void eval_put_at(Tensor *t, EvalClass c, uint64_t index, const void *in);
/* All elements widened, in `arena`; t's own data if it is of that form already. */
const void *eval_widen(Arena *arena, const Tensor *t, EvalClass c);
int64_t eval_index(const Tensor *t, uint64_t i); /* element of an integer tensor */
/* One element, bit for bit; any dtype, equal stores. */
void eval_copy(Tensor *to, uint64_t i, const Tensor *from, uint64_t j);
/* n elements at i, consecutive in both. */
void eval_copy_run(Tensor *to, uint64_t i, const Tensor *from, uint64_t j, uint64_t n);
void eval_strides(const Tensor *t, int64_t *stride); /* row-major, in elements */
/* Advances a row-major counter over dim[0..rank); false after the last. */
bool eval_next(uint32_t rank, const int64_t *dim, int64_t *at);
/* Value of a dim under the symbols bound so far; false after reporting. */
bool eval_dim(EvalCtx *ec, const Dim *dim, int64_t *value);
/* The tensor of result i, its sizes from the node's type; NULL after reporting. */
Tensor *eval_result(EvalCtx *ec, const Node *node, uint32_t i);
void eval_error(EvalCtx *ec, const Node *node, int64_t code); /* the first one stays */
/* Reports that the op cannot be evaluated on this element type; returns false. */
bool eval_refuse(EvalCtx *ec, const Node *node, const Tensor *t);
uint64_t eval_tensor_bytes(const Tensor *t);

/* max(a,b) = (a > b or a is NaN) ? a : b; min alike: numerics.md "Edge rules" */
static inline float eval_max_f32(float a, float b) { return a > b || a != a ? a : b; }
static inline float eval_min_f32(float a, float b) { return a < b || a != a ? a : b; }
static inline double eval_max_f64(double a, double b) { return a > b || a != a ? a : b; }
static inline double eval_min_f64(double a, double b) { return a < b || a != a ? a : b; }

#endif
