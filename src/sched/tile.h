/* SPDX-License-Identifier: Apache-2.0
 * Contractions inside a kernel body, as pack and tensorize see them (contraction.c). Private to sched/. */
#ifndef IGATA_TILE_H
#define IGATA_TILE_H

#include "sched/sched_int.h"

typedef struct LoopStack { /* loops around a statement list, outermost first */
    uint32_t n;
    Stmt *loop[NEST_MAX_LOOPS];
} LoopStack;

enum { MAX_SIBLINGS = 3, MIN_ROWS_TO_PACK = 4 /* that make packing a local operand worth it */ };

/* An f32 chain fold with its stores in one statement list: tile[row][col] += a(row, k) * b(k, col). Folds before it over the same
 * rows and columns (a gated unit's other products) are its siblings: one panel of each b, then the stores, which read them all. */
typedef struct Contraction {
    Kernel *k;
    Stmt *fold, *after;   /* the last fold; the lets and stores behind it */
    struct Contraction *sibling[MAX_SIBLINGS]; /* earlier folds, in order; `after` is NULL */
    uint32_t n_siblings;
    Buf *sibling_tile[MAX_SIBLINGS]; /* tensorize: one register tile of each */
    const Expr *a, *b;    /* exchanged with the fold's where that suits (a product does not care) */
    Stmt *row, *col;      /* loops; row NULL: one row */
    int64_t n_rows, n_cols;               /* the most */
    const Expr *row_size, *col_size;      /* numbers, or sizes of the run */
    bool packed;                          /* b is a local copy, with zeros up to whole vectors */
    int64_t col_stride;   /* of b, in elements; LOOP_LANES-packed weights count as 1; 0: b is no load */
    Stmt *outer[NEST_MAX_LOOPS]; /* the other loops, outermost first */
    uint32_t n_outer;
    bool b_uses[NEST_MAX_LOOPS]; /* outer[i]: b depends on it (batch, groups) */
} Contraction;

/* Whether list is such a contraction under the loops of stack with a column loop. any_operand: if it has no siblings, a and b
 * may be expressions, which the caller will stage; else they are plain loads. */
bool contraction_find(Kernel *k, Stmt *list, const LoopStack *stack, bool any_operand, Contraction *c);
bool contraction_find_in_nest(Kernel *k, const Nest *nest, Contraction *c); /* its body, with operands that are plain loads */
bool is_plain_load(const Expr *e); /* of f32, without a mask */
/* A load's step in elements along an iterator; 1 for columns of packed panels (col/16, .., col%16), 0 if not linear. */
int64_t stride_along(Kernel *k, const Expr *load, const Iter *iter);
bool is_f32_chain(Kernel *k, const Stmt *fold); /* a dot in order, of f32, that has at least one position */
double chain_length(const Stmt *fold); /* positions, at most */

/* columns.c: products of single rows with columns that are contiguous along the reduction; true if there was one. */
bool tensorize_columns(Kernel *k);

/* row_loops.c: stages of a row, one after the other. Values in local rows that others may take the place of do; the list is changed. */
Stmt *rows_share_buffers(Kernel *k, Stmt *list);
/* `for row { list }`, whose iterations do not need each other, as several such loops: behind a fold the next stage has its own. */
Stmt *rows_split_at_folds(Kernel *k, Stmt *loop);
/* Whether statements from `end` on read variables of those before it, from `first` on. */
bool rows_need_vars(const Stmt *first, const Stmt *end);

/* tile_shape.c: register tiles of a target, for n_rows x n_cols results of chains of k positions. */
enum { MAX_TILE_ROWS = 16 };
typedef struct TileShape {
    int64_t rows, vectors; /* vectors of 16 columns */
} TileShape;
bool tile_fits(const TargetInfo *t, int64_t rows, int64_t vectors);
double tile_covering_cycles(const TargetInfo *t, TileShape shape, int64_t n_rows, int64_t n_vectors, double k);
TileShape tile_choose(const TargetInfo *t, int64_t n_rows, int64_t n_cols, double k);

#endif
