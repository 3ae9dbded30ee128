/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of op/ only: reporting and proof helpers of shape rules, small constructors for lowering, and the
 * frame around composite bodies.
 */
#ifndef IGATA_OP_INT_H
#define IGATA_OP_INT_H

#include "op/op.h"

enum { OP_CONTENT_MAX = 64, OP_MAX_PIECES = 64 };
#define OP_MAX_ELEMENTS (INT64_C(1) << 40)

/* ---- shape.c ---------------------------------------------------------------------------------------------------- */

/* Sets of element types, by what arithmetic on them means here. */
typedef enum DSet {
    DS_FLOAT = 1 << 0, /* f64 f32 f16 bf16 */
    DS_INT = 1 << 1,   /* s/u 64 32 16 8 */
    DS_BOOL = 1 << 2,
    DS_SMALL = 1 << 3, /* f8, f4, e8m0, 4- and 2-bit integers: stored and converted, no arithmetic */
    DS_OTHER = 1 << 4, /* complex, str: moved only */
    DS_NUMBER = DS_FLOAT | DS_INT,
    DS_ANY = DS_NUMBER | DS_BOOL | DS_SMALL | DS_OTHER
} DSet;
DSet dset_of(DType dtype);

/* Arity, attribute kinds and choices, absent operands, then the op's shape rule. False after reporting. For ops whose
 * result count is given at construction, out[] holds the given types (or NULL) on entry. */
bool op_infer(ShapeArgs *args);

/* Each reports and returns false. */
bool sh_bad_shape(const ShapeArgs *args, const char *format, ...) IG_PRINTF(2, 3);
bool sh_bad_attr(const ShapeArgs *args, AttrName name, const char *format, ...) IG_PRINTF(3, 4);
/* Operand i has an element type of the set. */
bool sh_dtype(const ShapeArgs *args, uint32_t i, unsigned set);
bool sh_same_dtype(const ShapeArgs *args, uint32_t i, uint32_t j);
bool sh_rank(const ShapeArgs *args, uint32_t i, uint32_t rank);
/* Operand i is a scalar (rank 0) of an element type of the set. */
bool sh_scalar(const ShapeArgs *args, uint32_t i, unsigned set);
/* Axis a of operand i provably equals axis b of operand j. */
bool sh_same_dim(const ShapeArgs *args, uint32_t i, uint32_t a, uint32_t j, uint32_t b);
bool sh_same_shape(const ShapeArgs *args, uint32_t i, uint32_t j);
/* An axis attribute inside [0, rank). */
bool sh_axis(const ShapeArgs *args, AttrName name, uint32_t rank, uint32_t *axis);
/* A list of different axes inside [0, rank); seen[axis] is set for each. */
bool sh_axes(const ShapeArgs *args, AttrName name, uint32_t rank, bool *seen);
/* A list of exactly n integers, each >= min. */
bool sh_ints(const ShapeArgs *args, AttrName name, uint32_t n, int64_t min, const int64_t **values);
/* Sets result i; refuses sizes that are invalid or surely negative, and more than 2^40 elements. */
bool sh_out(ShapeArgs *args, uint32_t i, DType dtype, uint32_t rank, const Dim *const *dims);
/* dims of the elementwise broadcast of operands first..last at equal rank; false after reporting */
bool sh_broadcast(const ShapeArgs *args, uint32_t first, uint32_t last, const Dim **dims);
/* Operand i stretches (NumPy rule, aligned at the right) to the shape of operand j without growing it. */
bool sh_fits(const ShapeArgs *args, uint32_t i, const Dim *const *dims, uint32_t rank);
const AttrVal *sh_attr(const ShapeArgs *args, AttrName name);
int64_t sh_int(const ShapeArgs *args, AttrName name);
/* Output size of one window axis; false after reporting. dilated by lhs_dilation first. */
bool sh_window(const ShapeArgs *args, uint32_t axis, const Dim *in, int64_t lhs_dilation, int64_t kernel,
               int64_t dilation, int64_t stride, int64_t lo, int64_t hi, const Dim **out);
/* The rule of reduce_window and argwindow, of all operands' attributes. */
bool sh_window_op(ShapeArgs *args, DType result);

/* ---- lower.c ---------------------------------------------------------------------------------------------------- */

/* A size or a Dim attribute as an index expression. */
const Expr *lower_dim(const LowerArgs *args, const Dim *dim);
const Expr *lower_size(const LowerArgs *args, uint32_t operand, uint32_t axis);
const Type *lower_type(const LowerArgs *args, uint32_t operand);
/* An s64 value expression of an index loaded from operand `in`: negative values count from the end, the range is
 * checked with the node's error code and clamped to [0, size). */
const Expr *lower_index_s64(Kernel *k, const Expr *value);
/* guard, and that an axis of this size has an element which an index can be clamped to. */
const Expr *lower_nonempty(LowerArgs *args, const Expr *guard, const Dim *size);
/* Whether the indices (operand 1) reach no farther than the data on the axes that they share; else reports. */
bool lower_within(LowerArgs *args, uint32_t axis);
const Expr *lower_index_value(LowerArgs *args, uint32_t in, const Expr *const *index, const Dim *size);
IndexPiece *lower_pieces(LowerArgs *args, uint32_t n);
/* Appends an axis of the fold; returns its index expression. An axis of one element takes none. NULL: too many axes. */
const Expr *lower_fold_axis(LowerArgs *args, const char *name, int64_t extent);
/* All axes of a fold at once, whose positions are row-major at the sizes of the run; at: their index expressions. */
bool lower_fold_axes(LowerArgs *args, const char *name, const Dim *const *dims, uint32_t n, const Expr **at);
/* Guards nest with 0 <= position < size; returns position. */
const Expr *lower_bounded(LowerArgs *args, const Expr *position, const Dim *size);
/* position, where only the numbers it is computed from say that it is below size: at least that is made sure of. */
const Expr *lower_clamped(LowerArgs *args, const Expr *position, const Expr *size);
DType lower_acc(DType dtype); /* f16 and bf16 accumulate in f32 */
/* Sticky error codes of compiled and evaluated nodes: node id << 8 | code. */
enum { OP_ERROR_INDEX = 1 };

/* ---- body.c ----------------------------------------------------------------------------------------------------- */

/* Runs inner with 16-bit float operands widened to f32 and rounds its result to out (numerics.md: composites compute
 * inside in f32). */
Val *body_widened(Builder *b, const Attrs *attrs, Val *const *in, uint32_t n_in, const Type *out, BodyFn *inner);
/* Defines body_NAME as a widened body whose text follows. */
#define BODY(NAME)                                                                                                     \
    static BodyFn inner_##NAME;                                                                                        \
    Val *body_##NAME(Builder *b, const Attrs *attrs, Val *const *in, uint32_t n_in, const Type *out)                   \
    {                                                                                                                  \
        return body_widened(b, attrs, in, n_in, out, inner_##NAME);                                                    \
    }                                                                                                                  \
    static Val *inner_##NAME(Builder *b, const Attrs *attrs, Val *const *in, uint32_t n_in, const Type *out)
#define BODY_UNUSED ((void)b, (void)attrs, (void)in, (void)n_in, (void)out)

/* The number of elements reduced over axes, as a scalar constant of the dtype (dimval and cast where symbolic). */
Val *part_count(Builder *b, const Type *type, DType dtype, const int64_t *axes, uint32_t n_axes);
/* Channel vector [C] -> [1,C,1..] of rank. */
Val *part_channel(Builder *b, Val *vector, uint32_t rank);
Val *part_softmax(Builder *b, Val *x, const int64_t *axes, uint32_t n_axes, bool divide, bool guard_empty_rows);
Val *part_mean(Builder *b, Val *x, const int64_t *axes, uint32_t n_axes);

/* ---- content.c -------------------------------------------------------------------------------------------------- */

/* The contents of the op's result if it were built, without building it; NULL if unknown. In arena. */
const Dim *const *content_of_op(Context *ctx, Arena *arena, Op op, const Attrs *attrs, Val *const *in, uint32_t n_in,
                                const Type *out);

#endif
