/* SPDX-License-Identifier: Apache-2.0
 *
 * loop: the kernel IR, where fusion, tiling, code generation and the bit oracle meet. A kernel is a list of statements
 * over buffers; no pointers, no control-flow graph, no target names. Language reference: doc/loop.md.
 *
 * The form of a fold (numerics.md: lanes16, chain, exact) belongs to the algorithm, not to the schedule, so the
 * interpreter's bits before and after every scheduling step are equal. Tests rely on it.
 */
#ifndef IGATA_LOOP_H
#define IGATA_LOOP_H

#include "ir/ir.h"

enum { LOOP_MAX_RANK = 16, LOOP_LANES = 16, LOOP_MAX_FOLD_ITERS = 8 };

typedef struct Kernel Kernel;
typedef struct Buf Buf;
typedef struct Iter Iter;
typedef struct Var Var;
typedef struct Expr Expr;
typedef struct Stmt Stmt;

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

typedef enum BufSpace {
    BUF_ARG,    /* an input or output of the entry, or a value of the workspace: bound by the planner */
    BUF_WEIGHT, /* constant data, possibly packed (Pack) */
    BUF_LOCAL,  /* scratch of one kernel: one copy per thread slot, contents undefined at the start of every tile */
    BUF_SIZES,  /* s64[n]: the values that the symbols of kernel->syms have in this run */
} BufSpace;

/* How a packed constant is made from its weight while it is streamed to the artifact: element (i0, i1, ..) of the packed
 * array is weight element sum(i_d * stride[d]) + offset if every bound holds, else zero. */
typedef struct Pack {
    Weight *weight;
    /* What is packed is not the weight [OC][IC][3][3] but its Winograd form [16][IC][OC], reversed kernels for FLIPPED
     * (numerics.md "wino2"); elements are counted in that. */
    enum { WINOGRAD_NONE, WINOGRAD, WINOGRAD_FLIPPED } winograd;
    int64_t offset;
    int64_t stride[LOOP_MAX_RANK];
    /* up to two padded logical axes: sum(i_d * coef[d]) < limit */
    int n_bounds;
    struct {
        int64_t coef[LOOP_MAX_RANK], limit;
    } bound[2];
} Pack;

struct Buf {
    uint32_t id; /* index in kernel->bufs */
    Str name;
    DType dtype;
    BufSpace space;
    uint32_t rank;
    int64_t dim[LOOP_MAX_RANK];    /* logical sizes */
    int64_t stride[LOOP_MAX_RANK]; /* in elements; >= 0; bool is a byte; sub-byte types are not compiled yet */
    int64_t elements;              /* allocated: 1 + the largest offset, rounded by pitches */
    /* NULL, or the size of each axis in this run: the buffer is dense and row-major at these sizes, and nothing lies behind them
     * (inputs and outputs); dim, stride and elements are those of the largest sizes. */
    const Expr *const *size;
    bool written;
    const Val *val;   /* ARG: the tensor value that lives here (sched) */
    const Pack *pack; /* WEIGHT */
};

/* ---- expressions: hash-consed per kernel, so equal expressions are equal pointers -------------------------------- */

typedef enum ExprKind {
    /* index arithmetic, s64; normal form by the lx_ constructors, with ranges from iterators */
    LX_INT,  /* i */
    LX_ITER, /* iter */
    LX_IADD, /* arg0 + arg1 */
    LX_IMUL, /* arg0 * i */
    LX_IDIV, /* floor(arg0 / i), i > 0 */
    LX_IMOD, /* arg0 - i*floor(arg0/i), i > 0 */
    LX_IMIN, LX_IMAX,
    /* predicates on indices: bool */
    LX_ILT, LX_IEQ, LX_AND, LX_OR, LX_NOT,
    /* values */
    LX_CONST, /* dtype, bits */
    LX_VAR,   /* var: result of a let or fold, or the element of a tile inside put */
    LX_LOAD,  /* buf, args = index (rank of them) and, if n_args = rank + 2, predicate and value used where it fails */
    LX_MAP,   /* op (kind MAP, not cast), args: elementwise meaning of the op, numerics.md; result dtype in dtype */
    LX_CAST,  /* arg0 to dtype by OP_cast's rules; an index expression casts to s64 or s32 exactly */
    LX_INDEX, /* a loaded or computed s64 value used as an index: arg0 is a value expression; clamped by its maker */
} ExprKind;
enum { EXPR_USES_VAR = 1 << 30 };
struct Expr {
    ExprKind kind;
    DType dtype; /* of the value; DT_S64 for indices, DT_BOOL for predicates */
    Op op;       /* MAP */
    uint32_t id; /* creation order within the kernel */
    uint32_t n_args;
    union {
        int64_t i;
        uint64_t bits;
        const Iter *iter;
        const Var *var;
        Buf *buf;
    } u;
    int64_t lo, hi; /* index expressions: conservative inclusive range */
    const Expr *const *arg;
    const uint32_t *uses; /* what lx_uses_iter and lx_uses_var ask: ids of iterators and (+ EXPR_USES_VAR) variables, sorted */
    uint32_t n_uses;
    bool loads; /* contains a load */
};
struct Iter {
    uint32_t id;
    Str name;
    int64_t lo, hi; /* inclusive bounds of its values, for simplification */
};
struct Var {
    uint32_t id;
    Str name;
    DType dtype;
};

/* ---- statements -------------------------------------------------------------------------------------------------- */

typedef enum StmtKind { LS_FOR, LS_IF, LS_LET, LS_STORE, LS_FOLD, LS_MMA, LS_PUT, LS_CHECK } StmtKind;
typedef enum Bind {
    BIND_SEQ,
    BIND_PAR,    /* outermost loop of the kernel only: its iterations are the tiles that threads claim */
    BIND_UNROLL, /* constant trip; the emitter repeats the body with the iterator a constant */
    BIND_VEC,    /* step 1, 16 iterations at a time, the last ones masked; none may read what another stores */
} Bind;
typedef enum FoldKind { FOLD_SUM, FOLD_PROD, FOLD_MAX, FOLD_MIN, FOLD_AND, FOLD_OR, FOLD_DOT } FoldKind;
typedef enum FoldForm {
    FORM_EXACT,   /* integers, max, min, and, or: order does not matter (float max/min: a zero result is +0, NaN wins) */
    FORM_LANES16, /* numerics.md "Reduction": blocks of 8192, element i in lane i mod 16, pairwise lanes, missing = identity */
    FORM_CHAIN,   /* numerics.md "Contraction": FMA chains from +0 over blocks of kb positions, blocks added ascending */
} FoldForm;
/* One axis of a fold's index space; position = row-major index over all of them at full extent, guard or not. */
typedef struct FoldAxis {
    const Iter *iter; /* runs over [0, extent) */
    int64_t extent;
    const Expr *size; /* NULL, or an index expression of at most extent: it runs over [0, size). First axis only. */
} FoldAxis;

struct Stmt {
    StmtKind kind;
    Stmt *next;
    union {
        struct { /* for iter in [lo, hi) step s; lo, hi: index expressions over outer iterators */
            const Iter *iter;
            const Expr *lo, *hi;
            int64_t step;
            Bind bind;
            Stmt *body;
        } loop;
        struct {
            const Expr *cond;
            Stmt *then, *otherwise;
        } branch;
        struct {
            const Var *var;
            const Expr *value;
        } let;
        struct {
            Buf *buf;
            uint32_t n_index;
            const Expr *const *index;
            const Expr *value;
            const Expr *mask; /* predicate or NULL */
        } store;
        /* var = fold kind form over axes of a (DOT: of a*b). guard: positions where it fails are absent (LANES16: hold the
         * identity; CHAIN: not part of the chain). Result dtype: var->dtype. Float CHAIN is DOT only. */
        struct {
            const Var *var;
            FoldKind kind;
            FoldForm form;
            int64_t kb; /* CHAIN */
            uint32_t n_axes;
            FoldAxis axis[LOOP_MAX_FOLD_ITERS];
            const Expr *guard; /* or NULL */
            const Expr *a, *b;
        } fold;
        /* Register tile: tile[m][n] = DOT CHAIN fold over axes of a(m, k) * b(k, n) for m in [0, rows), n in [0, cols):
         * `row` and `col` are the tile's iterators; a must not depend on col, b not on row; the guard not on col.
         * rows and cols are constants (cols a multiple of 16: loads of b beyond its logical size read padding or are
         * clipped by col_limit). Lives until the enclosing statement list ends. */
        struct {
            const Var *tile;
            const Iter *row, *col;
            int64_t rows, cols;
            int64_t kb;
            uint32_t n_axes;
            FoldAxis axis[LOOP_MAX_FOLD_ITERS];
            const Expr *guard;
            const Expr *a, *b;
            const Expr *col_limit; /* NULL, or columns >= this are absent: b is not read there */
            /* NULL, or b is a load, and elements [ahead, ahead + n_ahead) of its buffer's memory are read soon: a hint, which may point
             * anywhere. */
            const Expr *ahead;
            int64_t n_ahead;
        } mma;
        /* for m, n of the tile: store value (which may use LX_VAR tile, row and col). Columns >= col_limit and rows >= row_limit
         * are not stored. */
        struct {
            const Var *tile;
            const Iter *row, *col;
            int64_t rows, cols;
            const Expr *col_limit, *row_limit;
            Buf *buf;
            uint32_t n_index;
            const Expr *const *index;
            const Expr *value;
        } put;
        struct { /* records `code` in the run's error word, once, if cond is false */
            const Expr *cond;
            uint64_t code;
        } check;
    } u;
};

struct Kernel {
    Context *ctx;
    Arena *arena;
    Str name;
    VEC(Buf *) bufs;
    VEC(Iter *) iters;
    VEC(Var *) vars;
    Stmt *body;
    Intern *exprs; /* keys of the stored expressions */
    Map *expr_of;  /* stored key -> Expr */
    Map *names;    /* of buffers, iterators and variables: unique in a kernel, so that the text form can use them */
    Buf *sizes;    /* BUF_SIZES, or NULL: every size is a number */
    const Sym *const *syms; /* what its elements are; NULL in a parsed kernel */
    uint32_t n_exprs;
    Loc loc; /* FUSED over the nodes it computes */
};

/* kernel_build.c, index_form.c: constructors. All simplify; index expressions are kept in the form sum of (coef * atom) + constant,
 * atoms in a fixed order, div and mod reduced by ranges and divisibility: (64*h + d)/64 -> h and mod -> d for d in [0,64).
 * Index arithmetic is that of s64 modulo 2^64; nothing is simplified that might wrap.
 * A name already taken in the kernel gets a number: buffers, iterators and variables share one name space. */
Kernel *kernel_create(Context *ctx, Arena *arena, Str name);
Buf *kernel_buf(Kernel *k, Str name, DType dtype, BufSpace space, uint32_t rank, const int64_t *dim); /* row-major */
Iter *kernel_iter(Kernel *k, const char *name, int64_t lo, int64_t hi_inclusive);
Var *kernel_var(Kernel *k, const char *name, DType dtype);

const Expr *lx_int(Kernel *k, int64_t value);
const Expr *lx_iter(Kernel *k, const Iter *iter);
const Expr *lx_add(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_sub(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_mul(Kernel *k, const Expr *a, int64_t factor);
const Expr *lx_div(Kernel *k, const Expr *a, int64_t divisor);
const Expr *lx_mod(Kernel *k, const Expr *a, int64_t divisor);
const Expr *lx_min(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_max(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_lt(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_le(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_eq(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_and(Kernel *k, const Expr *a, const Expr *b); /* NULL counts as true */
const Expr *lx_or(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_not(Kernel *k, const Expr *a);
const Expr *lx_const(Kernel *k, DType dtype, uint64_t bits);
const Expr *lx_const_f64(Kernel *k, DType dtype, double value);
const Expr *lx_var(Kernel *k, const Var *var);
const Expr *lx_load(Kernel *k, Buf *buf, const Expr *const *index, const Expr *mask, const Expr *otherwise);
const Expr *lx_map(Kernel *k, Op op, DType dtype, const Expr *const *args, uint32_t n);
const Expr *lx_cast(Kernel *k, const Expr *a, DType dtype);
const Expr *lx_index(Kernel *k, const Expr *value, int64_t lo, int64_t hi); /* promised range */

/* size.c: sizes that are known when the kernel runs. */
void kernel_sizes(Kernel *k, const Sym *const *syms, uint32_t n); /* makes k->sizes */
/* The dim as an index expression in its range, NULL if it has a symbol that is not in k->syms or divides what may be negative. */
const Expr *lx_dim(Kernel *k, const Dim *dim);
bool lx_is_size(const Expr *e); /* computed from numbers and k->sizes alone */
/* Index arithmetic by a divisor or factor that may be no number; b >= 1. Where b is no number, quotient and remainder of a
 * negative a are those of 0: it stands under a guard. */
const Expr *lx_times(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_quotient(Kernel *k, const Expr *a, const Expr *b);
const Expr *lx_remainder(Kernel *k, const Expr *a, const Expr *b);
/* Whether a predicate holds wherever another one does, as far as ranges and a few steps of arithmetic tell. */
bool lx_follows(Kernel *k, const Expr *pred, const Expr *given);
/* The number of elements of an axis of buf in this run. */
const Expr *lx_axis_size(Kernel *k, const Buf *buf, uint32_t axis);

bool lx_is_index(const Expr *e); /* index arithmetic, as opposed to a value or predicate */
bool lx_is_int(const Expr *e, int64_t *value); /* value may be NULL */
bool lx_is_true(const Expr *e);
bool lx_is_false(const Expr *e);
bool lx_uses_iter(const Expr *e, const Iter *iter);
bool lx_uses_var(const Expr *e, const Var *var);
/* e = coef * iter + rest with rest free of iter; false if e is not linear in iter. rest may be NULL. */
bool lx_linear(Kernel *k, const Expr *e, const Iter *iter, int64_t *coef, const Expr **rest);
/* Elements that 16 lanes read in an aligned block of a buffer: lane i the one at base + at[i], base a multiple of width. */
typedef struct LaneBlock {
    const Expr *base;
    int64_t width, at[LOOP_LANES]; /* width: a power of two up to 2 * LOOP_LANES; at < width */
} LaneBlock;
/* Whether offset reads such a block for lane = 0 .. 15, for each lane a constant place in it, and the block lies inside buf if
 * what is read does. */
bool lx_lane_block(Kernel *k, const Buf *buf, const Expr *offset, const Iter *lane, LaneBlock *block);
/* The element offset of a load or store as one index expression: sum of index * stride. */
const Expr *lx_offset(Kernel *k, const Buf *buf, const Expr *const *index);
/* Copy with iterators, variables or buffers exchanged; each callback returns NULL to keep. */
typedef struct ExprSubst {
    void *user;
    const Expr *(*iter)(void *user, const Iter *iter);
    const Expr *(*var)(void *user, const Var *var);
    const Expr *(*load)(void *user, const Expr *load); /* gets the load after its arguments were replaced */
    Buf *(*buf)(void *user, Buf *buf); /* of loads (before `load` is asked), stores and puts; same rank and dtype */
} ExprSubst;
const Expr *lx_subst(Kernel *k, const Expr *e, const ExprSubst *subst);
const Expr *lx_replace_iter(Kernel *k, const Expr *e, const Iter *iter, const Expr *with); /* e may be NULL */

Stmt *ls_new(Kernel *k, StmtKind kind);
/* Appends to a list whose last link is *tail; returns the new last link. */
Stmt **ls_append(Stmt **tail, Stmt *stmt);
Stmt *ls_for(Kernel *k, const Iter *iter, const Expr *lo, const Expr *hi, int64_t step, Bind bind, Stmt *body);
Stmt *ls_if(Kernel *k, const Expr *cond, Stmt *then, Stmt *otherwise); /* otherwise may be NULL */
Stmt *ls_let(Kernel *k, const Var *var, const Expr *value);
Stmt *ls_store(Kernel *k, Buf *buf, const Expr *const *index, const Expr *value, const Expr *mask);
/* Deep copy of a statement list with substitution in all its expressions. Where the list itself binds an iterator or
 * variable that `subst` replaces, the replacement must be another iterator or variable, which is then bound instead. */
Stmt *ls_clone(Kernel *k, const Stmt *list, const ExprSubst *subst);
Stmt *ls_replace_iter(Kernel *k, const Stmt *list, const Iter *iter, const Expr *with);
Kernel *kernel_clone(Arena *arena, const Kernel *k); /* ids of buffers, iterators and variables are kept */
int64_t kernel_tiles(const Kernel *k); /* trip count of the outermost par loop, 1 if there is none */

/* kernel_text.c, kernel_parse.c: print(parse(print(k))) = print(k) */
void kernel_print(Text *text, const Kernel *k);
Kernel *kernel_parse(Context *ctx, Arena *arena, Str file, const char *text, size_t size);

/* kernel_check.c: scopes, types, ranges of every access inside its buffer, vec and par independence, mma operand rules */
bool kernel_verify(const Kernel *k);

/* kernel_interp.c: runs tiles [lo, hi) of a kernel literally, by numerics.md. data[i]: storage of bufs[i] (locals included).
 * error: as in the kernel ABI, may be NULL. */
void kernel_interp(const Kernel *k, void *const *data, int64_t lo, int64_t hi, uint64_t *error);

/* elem_ops.c: the elementwise meaning of a MAP op on typed scalars in ref32, shared by the interpreter and by constant
 * folding of expressions; bits are little-endian in the low part. The evaluator has its own. */
bool elem_supported(Op op, DType dtype); /* dtype of the operands; false: not compiled for it (numerics.md: f64 bodies) */
uint64_t elem_map(Op op, DType dtype, const DType *arg_dtypes, const uint64_t *args, uint32_t n);
uint64_t elem_cast(DType to, DType from, uint64_t bits);

#endif
