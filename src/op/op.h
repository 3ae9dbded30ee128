/* SPDX-License-Identifier: Apache-2.0
 *
 * op: what each op means. The behaviour columns of ir/ops.def become functions here, side by side per family:
 * shape_X (types of results), eval_X (reference evaluation), adjoint_X (gradient), lower_X (loop IR), body_X (composites).
 * Elsewhere ask op_defs or traits; do not switch on ops. How to add one: doc/adding-an-op.md.
 */
#ifndef IGATA_OP_H
#define IGATA_OP_H

#include "ir/ir.h"
#include "loop/loop.h"

/* ---- shape ---------------------------------------------------------------------------------------------------- */

/* One inference: operand types in (NULL for an absent operand), result types out (room for n_out). */
typedef struct ShapeArgs {
    Context *ctx;
    Loc loc;
    Op op;
    const Attrs *attrs;
    const Type *const *in;
    uint32_t n_in;
    const Type **out;
    uint32_t n_out;
} ShapeArgs;
typedef bool ShapeFn(ShapeArgs *args); /* false after reporting shapes, dtypes and what is supported */

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

typedef enum EvalMode { EVAL_REF32, EVAL_F64 } EvalMode;
/* Dense row-major host tensor. In EVAL_F64 every float element type is held as F64 (store), else store = dtype. */
typedef struct Tensor {
    DType dtype, store;
    uint32_t rank;
    int64_t dim[IR_MAX_RANK];
    uint64_t count;
    void *data;
} Tensor;
typedef struct EvalCtx {
    Context *ctx;
    Arena *arena; /* results and temporaries; dies with the evaluation */
    EvalMode mode;
    Loc loc;
    uint64_t *error; /* sticky run-time error: node id << 8 | code; 0: none */
    void *driver;    /* eval's own: runs regions and functions for control ops */
    bool (*run_region)(struct EvalCtx *ec, const Region *region, Tensor *const *params, Tensor **results);
} EvalCtx;
/* in[i] NULL: absent. Allocates each result with tensor_new. False: reported (unsupported dtype), nothing usable. */
typedef bool EvalFn(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out);
Tensor *tensor_new(EvalCtx *ec, DType dtype, uint32_t rank, const int64_t *dims);

/* ---- adjoint ----------------------------------------------------------------------------------------------------- */

/* Emits the gradient of one node through b with op_emit. operands and results: the node's values in the function under
 * construction (the primal clone). out_grad[i]: NULL for a symbolic zero. Sets in_grad[i] (NULL: zero). False: reported. */
typedef struct AdjointArgs {
    Builder *b;
    const Node *node;
    Val *const *out_grad;
    Val **in_grad;
} AdjointArgs;
typedef bool AdjointFn(AdjointArgs *args);

/* ---- lowering, by op kind (ir.md section 2) ------------------------------------------------------------------------- */

/* Where an INDEX op's element comes from: operand `in` at `index` if guard holds. Pieces are tried in order; where the
 * last one has a guard that fails, too, the element is 0. An index is inside its operand only where its guard holds and no earlier one does: a
 * load made before the choice needs that mask. */
typedef struct IndexPiece {
    uint32_t in;
    const Expr *guard;
    const Expr *index[IR_MAX_RANK];
} IndexPiece;
/* A FOLD or CONTRACT: result element = kind/form fold over axes of a (times b): accesses of operands. The maker of the kernel casts
 * the operands' elements to acc and the fold's value to the result's dtype. Axes of one element are left out. */
typedef struct FoldNest {
    FoldKind kind;
    FoldForm form;
    int64_t kb;
    DType acc; /* dtype of the fold */
    uint32_t n_axes;
    FoldAxis axis[LOOP_MAX_FOLD_ITERS];
    const Expr *guard;
    uint32_t n_operands; /* 1, or 2 for DOT; operand i of the node at index[i] */
    const Expr *index[2][IR_MAX_RANK];
} FoldNest;
typedef struct LowerArgs {
    Kernel *k;
    const Node *node;
    uint32_t result;
    const Expr *const *out; /* index of the wanted element of the result */
    /* MAP: operand values; the answer */
    const Expr *const *arg;
    const Expr *value;
    /* INDEX: the pieces; data-dependent ones ask for values of other operands through load */
    IndexPiece *piece; /* allocated from k->arena by the function */
    uint32_t n_pieces;
    const Expr *(*load)(void *user, uint32_t in, const Expr *const *index);
    void *user;
    /* gather: adds an in-range check; may be called by lower functions */
    void (*check)(void *user, const Expr *cond, uint64_t code);
    /* FOLD, CONTRACT */
    FoldNest nest;
    /* OPAQUE: where the results go (NULL: nobody reads it); operands are in memory, and `load` gives their elements. The answer:
     * statements that compute all results, row-major loops under BIND_SEQ. Iterations may depend on each other through memory;
     * scheduling finds out from the indices (sched: loop_carries). */
    Buf *const *dst;
    Stmt *stmts;
} LowerArgs;
typedef bool LowerFn(LowerArgs *args); /* false after reporting what cannot be compiled */
/* Every type of args->node is a tensor of an element type that kernels can hold, and its sizes are numbers or known when the
 * kernel runs; else reports. */
bool lower_ready(LowerArgs *args);
bool lower_fail(LowerArgs *args, const char *why); /* reports that the node is not compiled; false */

/* ---- composites ------------------------------------------------------------------------------------------------------ */

/* Emits the body in primitives (and other composites); in[] stand for the node's operands, out is the composite's type (16-bit
 * floats are widened and rounded back inside). Returns the result, NULL after reporting. attrs: of the composite. */
typedef Val *BodyFn(Builder *b, const Attrs *attrs, Val *const *in, uint32_t n_in, const Type *out);

/* ---- the table --------------------------------------------------------------------------------------------------------- */

typedef struct OpDef {
    ShapeFn *shape;
    EvalFn *eval;
    AdjointFn *adjoint;
    LowerFn *lower;
    BodyFn *body; /* body_none for primitives */
} OpDef;
extern const OpDef op_defs[OP_COUNT];
#define OP(id, in_min, in_max, outs, kind, traits, attrs, shape, eval, adjoint, lower, body)                          \
    ShapeFn shape_##shape;                                                                                             \
    EvalFn eval_##eval;                                                                                                \
    AdjointFn adjoint_##adjoint;                                                                                       \
    LowerFn lower_##lower;                                                                                             \
    BodyFn body_##body;
#include "ir/ops.def"
#undef OP
bool op_is_composite(Op op);
bool op_is_evalonly(Op op);
bool op_is_differentiable(Op op); /* adjoint is not nondiff */
bool op_is_compiled(Op op);       /* lower is not uncompiled */

/* emit.c: op_emit infers result types, folds what is trivially foldable (identity moves, integer tensors of known content) and
 * finds an equal node already in the region. NULL after reporting. Results: ir_out of the returned value's def; an op without
 * results (check) gives its operand. `if` and `loop` are built with ir_emit and ir_add_region. */
Val *op_emit(Builder *b, Op op, Val *const *in, uint32_t n_in, const AttrVal *attrs, uint32_t n_attrs);
Val *op_emit_interned(Builder *b, Op op, Val *const *in, uint32_t n_in, const Attrs *attrs);
/* Shorthands used all over importers, bodies and adjoints; NULL operands give NULL, so that chains need one check. */
Val *op_unary(Builder *b, Op op, Val *x);
Val *op_binary(Builder *b, Op op, Val *x, Val *y); /* makes NumPy broadcasting explicit: rank by reshape, size by rule */
Val *op_select(Builder *b, Val *cond, Val *x, Val *y);
Val *op_const_f64(Builder *b, DType dtype, double value); /* rank 0 */
Val *op_const_s64(Builder *b, DType dtype, int64_t value);
Val *op_const_ints(Builder *b, const int64_t *values, uint32_t n); /* s64[n] */
Val *op_const_weight(Builder *b, Weight *weight);
Val *op_like(Builder *b, Val *like, double value); /* constant of like's dtype, rank of ones */
Val *op_cast_to(Builder *b, Val *x, DType dtype);
Val *op_reshape(Builder *b, Val *x, uint32_t rank, const Dim *const *dims);
Val *op_reshape_s64(Builder *b, Val *x, uint32_t rank, const int64_t *dims);
Val *op_transpose(Builder *b, Val *x, const int64_t *perm);
Val *op_broadcast(Builder *b, Val *x, uint32_t rank, const Dim *const *dims); /* NumPy rule: rank too */
Val *op_reduce(Builder *b, Val *x, const char *kind, const int64_t *axes, uint32_t n_axes); /* keeps size-1 axes */
Val *op_slice_axis(Builder *b, Val *x, uint32_t axis, const Dim *start, const Dim *size, int64_t step);
Val *op_concat(Builder *b, Val *const *xs, uint32_t n, int64_t axis);
Val *op_pad_end(Builder *b, Val *x, uint32_t axis, const Dim *more, Val *fill); /* `more` elements behind those of the axis */
Val *op_dimval(Builder *b, const Dim *dim); /* a size as s64 scalar */
Val *op_dot(Builder *b, Val *x, Val *y, const int64_t *lb, const int64_t *rb, uint32_t nb, const int64_t *lc,
            const int64_t *rc, uint32_t nc);
Val *op_matmul(Builder *b, Val *x, Val *y); /* NumPy matmul: broadcasts batch axes, rank 1 promoted */
/* The content of an integer tensor of up to 64 elements as dims, when known (Shape arithmetic); 0 elements: unknown.
 * Tracks const, dimval, reshape, slice, concat, gather, cast, add, sub, mul, div, min, max, select of known. */
const Dim *const *op_content(const Val *val, uint32_t *n);
bool op_const_value(const Val *val, int64_t *value); /* one-element integer constant */
/* What a parameter of a region stands for: the operand around it that it captures. NULL: it is another kind of parameter, or none. */
Val *op_captured(const Val *val);

/* verify.c: types of every node agree with its shape rule; false after reporting all. */
bool op_verify(const Module *module);
/* Replaces a composite node by its body. False after reporting. */
bool op_expand(Node *node);

/* Arithmetic class of a value's definition: "exact", "ref32", "wino2" (for some sizes at least), or "" for ops without folds. */
const char *op_class(const Node *node);
/* The attributes of reduce_window and argwindow. */
typedef struct WindowAttrs {
    uint32_t rank;
    const int64_t *size, *stride, *lo, *hi, *dilation;
} WindowAttrs;
WindowAttrs op_window(const Node *node);

/* ---- Winograd F(2x2,3x3): winograd.c ----------------------------------------------------------------------------------- */

enum { WINO2_PRODUCTS = 16 /* of a tile of 4x4 inputs or 2x2 outputs, row-major */, WINO2_MIN_SIZE = 8 };
/* Whether a node is a conv of this arithmetic class, numerics.md "wino2"; TRI_UNKNOWN: where both sizes of its result are
 * WINO2_MIN_SIZE or more in a run. */
Tri op_is_wino2(const Node *node);
/* Its transforms as expressions. let gives a name to a value that is used several times. */
typedef const Expr *Wino2Let(void *user, const Expr *value);
void wino2_input(Kernel *k, const Expr *const *d, const Expr **v, Wino2Let *let, void *user);  /* 4x4 -> 4x4 */
void wino2_filter(Kernel *k, const Expr *const *g, const Expr **u, Wino2Let *let, void *user); /* 3x3 -> 4x4 */
void wino2_output(Kernel *k, const Expr *const *m, const Expr **y);                            /* 4x4 -> 2x2 */

#endif
