/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of cgen/llvm/ share.
 *
 * The emitter writes final IR: no pass cleans up behind it, so it places every value itself. Scopes are the nested regions
 * of the code under construction: the function, loop bodies, arms of branches. A value is emitted once in the outermost
 * scope that has all it depends on, and found again by its expression's id (expressions are hash-consed). Index arithmetic
 * moves out of loops without limit; values (loads, elementwise ops) only up to the statement that needs them, lest
 * registers run out. A load is moved over nothing that stores, and only if its address lies in its buffer whatever its
 * guards say.
 *
 * A value is one scalar or 16 lanes: it has lanes if it depends on the iterator `lane` (0..15). The lane width is 16 on
 * every target; LLVM makes two or four registers of it.
 */
#ifndef IGATA_LLVM_INT_H
#define IGATA_LLVM_INT_H

#include "cgen/cgen.h"
#include "cgen/llvm/compat.h"

enum { CG_MAX_DEPTH = 48, LANES = LOOP_LANES };
typedef enum CgMachine { MACHINE_AVX512, MACHINE_AVX2, MACHINE_AARCH64, MACHINE_OTHER } CgMachine;

typedef struct CgVal {
    LLVMValueRef v;
    int depth; /* index of the innermost scope it depends on */
    bool vec;  /* 16 lanes */
    bool mem;  /* read from memory that stores of this kernel may change */
} CgVal;

/* A pointer that a loop carries: it grows by `bytes` an iteration. */
typedef struct CgCursor {
    LLVMValueRef phi;
    int64_t bytes;
} CgCursor;

typedef struct Scope {
    Map *cache;         /* expression key -> Cached */
    LLVMValueRef hoist; /* while inner scopes are open: code of this scope goes before it; NULL: to the current end */
    uint64_t epoch;     /* of memory when the inner scope was opened */
    const Iter *iter;   /* the loop's iterator, or NULL; addresses linear in it become cursors */
    int64_t step;
    LLVMBasicBlockRef before, body;
    LLVMValueRef iv;
    VEC(CgCursor) cursors;
} Scope;

/* Stack memory for one tile; every slot of a kernel has the size of its largest tile. */
typedef struct TileSlot {
    LLVMValueRef memory;
    bool busy;
} TileSlot;

/* A register tile (LS_MMA): values row-major by 16 columns, or memory. */
typedef struct Tile {
    int64_t rows, vecs;
    DType dtype;
    LLVMValueRef *reg;   /* rows * vecs; NULL when the tile lies in memory */
    TileSlot *slot; /* NULL until needed */
} Tile;
typedef struct VarBinding {
    CgVal val;
    Tile *tile; /* not NULL: a tile; `val` is its element inside put */
} VarBinding;

typedef struct Cg {
    Context *ctx;
    Arena *arena;
    const CgenOptions *options;
    CgMachine machine;
    LLVMContextRef lc;
    LLVMModuleRef mod;
    LLVMBuilderRef b;
    LLVMTypeRef i1, i8, i16, i32, i64, half, f32, f64, ptr, nothing;
    /* of the kernel under construction */
    Kernel *k;
    LLVMValueRef fn, entry_end, error, safe;
    LLVMBasicBlockRef bb; /* where the innermost scope continues */
    Scope scope[CG_MAX_DEPTH];
    int top, floor; /* innermost scope; values do not leave scopes below `floor` */
    Map *iters;     /* KEY(iter) -> CgVal */
    Map *vars;      /* KEY(var) -> VarBinding */
    const Iter *lane;
    LLVMValueRef mask; /* lanes that are live; NULL: all */
    int mask_depth;
    uint64_t epoch, last_epoch;
    int64_t tile_bytes; /* of the largest tile */
    VEC(TileSlot *) slots;
    VEC(Tile *) tiles; /* alive */
    bool unsupported; /* reported: the kernel cannot be compiled */
    bool llvm_error;
} Cg;

/* ---- llvm_core.c: types, constants, scopes, loops -------------------------------------------------------------------- */
LLVMTypeRef cg_type(const Cg *cg, DType dtype, bool vec);   /* of a value; f16 and bf16 are i16, bool is i1 */
LLVMTypeRef cg_memory_type(const Cg *cg, DType dtype);      /* of an element in memory */
LLVMTypeRef cg_vec_type(LLVMTypeRef elem);
bool cg_is_vec(LLVMValueRef v);
unsigned cg_bytes(DType dtype);
LLVMValueRef cg_int(const Cg *cg, int64_t value);           /* i64 */
LLVMValueRef cg_splat_const(LLVMValueRef scalar);
/* n <= LANES lanes of a, then of b (NULL: none), by their numbers; -1: any value. */
LLVMValueRef cg_shuffle(Cg *cg, LLVMValueRef a, LLVMValueRef b, const int64_t *lane, uint32_t n);
LLVMValueRef cg_same(LLVMValueRef like, LLVMValueRef scalar_const); /* the constant, splat if `like` has lanes */
LLVMValueRef cg_const_bits(const Cg *cg, DType dtype, uint64_t bits);
LLVMValueRef cg_intrinsic(Cg *cg, const char *name, LLVMTypeRef *types, unsigned n_types, LLVMValueRef *args, unsigned n);
LLVMValueRef cg_unary_intrinsic(Cg *cg, const char *name, LLVMValueRef x); /* overloaded on x's type */
LLVMValueRef cg_alloca(Cg *cg, LLVMTypeRef type, int64_t count, unsigned align);
void cg_place(Cg *cg, int depth); /* the builder now adds to that scope */
void cg_scope_push(Cg *cg, LLVMValueRef hoist, bool stores);
void cg_scope_pop(Cg *cg);
CgVal *cg_find(Cg *cg, uint64_t key);
void cg_remember(Cg *cg, uint64_t key, CgVal val);
void cg_bind_iter(Cg *cg, const Iter *iter, LLVMValueRef v, int depth);
void cg_bind_var(Cg *cg, const Var *var, CgVal val, Tile *tile);
VarBinding *cg_var(Cg *cg, const Var *var);
void cg_memory_changed(Cg *cg);
LLVMBasicBlockRef cg_block(Cg *cg, const char *name);
void cg_use_block(Cg *cg, LLVMBasicBlockRef bb);

/* A bottom-tested loop for iter in [start, end) by step that carries values. `may_skip`: the trip count may be 0. */
typedef struct Loop {
    LLVMBasicBlockRef exit, skip;
    LLVMValueRef start, end, phi[1 + 128], first[128];
    uint32_t n;
} Loop;
void cg_loop_begin(Cg *cg, Loop *loop, const Iter *iter, LLVMValueRef start, LLVMValueRef end, int64_t step, bool may_skip,
                   bool stores, LLVMValueRef *carried, uint32_t n);
void cg_loop_end(Cg *cg, Loop *loop, LLVMValueRef *carried); /* in: values at the end of the body; out: after the loop */
/* if cond { .. } that updates carried values */
typedef struct Branch {
    LLVMBasicBlockRef from, join;
    LLVMValueRef before[128];
    uint32_t n;
} Branch;
void cg_if_begin(Cg *cg, Branch *branch, LLVMValueRef cond, bool stores, const LLVMValueRef *carried, uint32_t n);
void cg_if_end(Cg *cg, Branch *branch, LLVMValueRef *carried);

/* ---- llvm_expr.c ------------------------------------------------------------------------------------------------------ */
CgVal cg_value(Cg *cg, const Expr *e);      /* values, predicates and index expressions (i64) */
LLVMValueRef cg_scalar(Cg *cg, const Expr *e); /* an expression without lanes */
LLVMValueRef cg_lanes(Cg *cg, const Expr *e);  /* with lanes, splat if need be */
void cg_preset(Cg *cg, const Expr *e, CgVal val); /* what the expression is worth in the scope of its depth */
CgVal cg_splat(Cg *cg, CgVal val, uint64_t key); /* key 0: not remembered */
bool cg_has_lanes(Cg *cg, const Expr *e);
void cg_prefetch(Cg *cg, const Buf *buf, const Expr *offset); /* the line of that element, which may not exist, into L2 */
void cg_store(Cg *cg, Buf *buf, const Expr *const *index, CgVal value, LLVMValueRef mask);
/* The mask "column 16*j + lane < limit" (limit NULL: none): NULL if all live; *none if no lane is. */
LLVMValueRef cg_column_mask(Cg *cg, const Expr *limit, int64_t first, bool *none);

/* ---- llvm_map.c, llvm_math.c ------------------------------------------------------------------------------------------ */
LLVMValueRef cg_map(Cg *cg, Op op, DType to, const DType *from, LLVMValueRef *args, uint32_t n);
LLVMValueRef cg_cast(Cg *cg, DType to, DType from, LLVMValueRef v);
bool cg_has_elementary(Op op);
LLVMValueRef cg_elementary(Cg *cg, Op op, LLVMValueRef x, LLVMValueRef y); /* f32, scalar or lanes */
LLVMValueRef cg_fma(Cg *cg, DType dtype, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c); /* integers: multiply and add */
LLVMValueRef cg_add(Cg *cg, DType dtype, LLVMValueRef a, LLVMValueRef b);

/* ---- llvm_nest.c: the index space of a fold or mma as loops around a body -------------------------------------------- */
enum { NEST_MAX_GUARDS = 32 };
typedef struct NestAxis {
    const Iter *iter;
    int64_t extent;
    const Expr *size; /* NULL, or where the axis ends in this run: the first one only, which is then not unrolled */
    bool unroll; /* the body is repeated with the iterator a constant */
} NestAxis;
typedef struct Nest Nest;
struct Nest {
    uint32_t n_axes;
    NestAxis axis[LOOP_MAX_FOLD_ITERS];
    /* The last axis advances by `unit` positions: its iterator in expressions was replaced by unit*step + u. */
    int64_t unit;
    const Iter *step;
    bool stores; /* the body does */
    bool apart; /* each repetition of an unrolled axis is a basic block of its own */
    bool ending; /* the body is at the last unit of a sized axis: positions from its size on do not exist */
    uint32_t n_guards;
    const Expr *guard[NEST_MAX_GUARDS];
    int guard_level[NEST_MAX_GUARDS]; /* axis that decides it; -1: none; n_axes - 1 and above: left to the body */
    int64_t value[LOOP_MAX_FOLD_ITERS]; /* of unrolled axes */
    LLVMValueRef *acc;
    uint32_t n_acc;
    void (*body)(Cg *cg, Nest *nest, int64_t count); /* positions unit*step .. + count */
    void *user;
};
/* Blocks of `block` positions: before(nest) and after(nest) run around each. */
typedef struct NestBlocks {
    int64_t block;
    LLVMValueRef *total; /* carried over blocks */
    uint32_t n_total;
    void (*before)(Cg *cg, Nest *nest);
    void (*after)(Cg *cg, Nest *nest, bool only);
} NestBlocks;
int64_t cg_nest_positions(const Nest *nest, uint32_t from_axis);
/* Whether blocks fall between iterations of the first axis; if not, the index space must be flattened. */
bool cg_nest_can_split(const Nest *nest, int64_t block);
void cg_nest_split_guard(Cg *cg, Nest *nest, const Expr *guard);
void cg_nest_run(Cg *cg, Nest *nest, NestBlocks *blocks);
/* Exchanges the axes for one over all positions; exprs are rewritten. */
void cg_nest_flatten(Cg *cg, Nest *nest, const Expr **exprs, uint32_t n_exprs);

/* ---- statements --------------------------------------------------------------------------------------------------------- */
void cg_list(Cg *cg, const Stmt *list);
void cg_fold(Cg *cg, const Stmt *s);
/* The vector loop and the statement behind it in one, if that is a fold of what the loop stores; false: nothing was emitted. */
bool cg_fold_of_loop(Cg *cg, const Stmt *loop, const Stmt *fold);
/* llvm_transpose.c: the loop, if it is one around a vector loop that exchanges axes; false: nothing was emitted. */
bool cg_turned_loop(Cg *cg, const Stmt *s);
void cg_mma(Cg *cg, const Stmt *s);
void cg_put(Cg *cg, const Stmt *s);
/* Merges neighbouring axes that a, b and guard (each may be NULL) walk as one; returns the new count, iterators may be new. */
uint32_t cg_merge_axes(Cg *cg, FoldAxis *axis, uint32_t n, const Expr **exprs, uint32_t n_exprs);
LLVMValueRef cg_tile_memory(Cg *cg, Tile *tile);
LLVMValueRef cg_tile_at(Cg *cg, Tile *tile, LLVMValueRef index); /* address of the vector at index row*vecs + vec */
void cg_unsupported(Cg *cg, const char *format, ...) IG_PRINTF(2, 3);

/* ---- llvm_object.c --------------------------------------------------------------------------------------------------------- */
/* Names an undefined symbol of a relocatable ELF64 object; NULL if there is none. */
const char *cg_object_undefined(const Blob *object);

#endif
