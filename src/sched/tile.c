/* SPDX-License-Identifier: Apache-2.0
 *
 * tensorize: contractions as register tiles. Two shapes of kernel:
 *
 * (A) a perfect nest around one contraction (matmul, conv, with epilogue). The loops are reordered:
 *       for batch/group loops that b needs { for column panels { for other loops { for row tiles { mma; put } } } }
 *     so that one panel of b stays in cache while all rows pass. Siblings (gated units) take their turns per register tile.
 * (B) row loops around several stages (attention). The innermost row loop is cut into tiles of 16 rows; local row buffers get
 *     a row dimension; contractions become mma over the tile, everything else runs row by row (row_loops.c). An operand b that is
 *     not contiguous along its columns (K^T), or whose rows lie apart (V), is packed once per trip of the outer loops.
 *
 * (C) tiles of outputs around a batch of contractions (Winograd: lower_group.c): per trip, statements that fill local operands,
 *     `for p { for c { fold; store m[p, c] } }`, statements that read m. Trips come in blocks whose operands stay in L2, local
 *     buffers get a dimension for them, and column panels go outside the batch, so that m is as wide as a panel:
 *       for blocks { for r { fill }; for column panels { for p { for row tiles { mma; put m } }; for r { read m } } }
 *     The last block fills the rows that it lacks with its last one. A single block is done twice, for half of the panels each,
 *     so that two threads can share it.
 *
 * Rows and columns whose number a run decides: all full tiles, then one that computes rows of its own over again and stores only those
 * that exist; all full panels, then single vectors of which the last is cut off.
 *
 * A guard that depends on the row (padding along a convolution's width) must be decidable inside a tile: border tiles get
 * a constant row base and are emitted one by one; runs of tiles that have the same taps become loops, where ranges prove the guard
 * at each tap.
 * The order inside each chain is untouched, so the bits are.
 */
#include "sched/tile.h"

enum { MAX_RUNS = 10, ATTENTION_ROWS = 16 };

/* ---- emitting one register tile --------------------------------------------------------------------------------------------- */

/* How local row buffers of a (B) kernel are addressed once rows come in tiles; NULL in an (A) kernel. */
typedef struct RowTile {
    Map *wide;           /* Buf -> Buf with a leading row dimension */
    const Expr *row;     /* index in the tile of the row at hand */
    const Buf *panel;    /* of the wide ones, that which holds one panel, from column col0; or NULL */
    const Expr *col0;
    const Expr *last;    /* NULL, or the last of all rows, which is taken for those behind it */
} RowTile;

typedef struct TileSubst {
    Kernel *k;
    const Iter *row, *col;
    const Expr *row_value, *col_value;
    const Var **var; /* of the fold, then of each let behind it */
    const Expr **var_value;
    uint32_t n_vars;
    const RowTile *rows;
} TileSubst;

static const Expr *tile_iter(void *user, const Iter *iter)
{
    TileSubst *t = user;
    return iter == t->row ? t->row_value : iter == t->col ? t->col_value : NULL;
}

static const Expr *tile_var(void *user, const Var *var)
{
    TileSubst *t = user;
    for (uint32_t i = 0; i < t->n_vars; i++)
        if (t->var[i] == var)
            return t->var_value[i];
    return NULL;
}

static Buf *wide_buf(const RowTile *rows, const Buf *buf)
{
    return rows && buf->space == BUF_LOCAL ? map_get(rows->wide, KEY(buf)) : NULL;
}

/* index[1 ..] of a narrow buffer becomes that of the wide one. */
static void widen_index(Kernel *k, const RowTile *rows, const Buf *wide, const Expr **index)
{
    index[0] = rows->row;
    if (wide == rows->panel)
        index[wide->rank - 1] = lx_sub(k, index[wide->rank - 1], rows->col0);
}

static const Expr *tile_load(void *user, const Expr *load)
{
    TileSubst *t = user;
    Buf *wide = wide_buf(t->rows, load->u.buf);
    if (!wide)
        return NULL;
    const Expr *index[LOOP_MAX_RANK];
    for (uint32_t i = 0; i < load->u.buf->rank; i++)
        index[i + 1] = load->arg[i];
    widen_index(t->k, t->rows, wide, index);
    bool masked = load->n_args > load->u.buf->rank;
    return lx_load(t->k, wide, index, masked ? load->arg[load->n_args - 2] : NULL, masked ? load->arg[load->n_args - 1] : NULL);
}

static const Expr *apply(TileSubst *t, const Expr *e)
{
    ExprSubst subst = {.user = t, .iter = tile_iter, .var = tile_var, .load = t->rows ? tile_load : NULL};
    return e ? lx_subst(t->k, e, &subst) : NULL;
}

typedef struct Panel {
    const Expr *col0;
    int64_t cols;
    const Expr *limit; /* columns from col0 that exist; NULL: all */
    /* What its row tiles read ahead of the next panel, each a share of so many elements of it; 0: nothing */
    int64_t share, tile_rows;
    const Expr *tiles_before; /* of the loops around the rows */
    const Iter *batch;        /* (C): the loop over n_batch contractions inside this panel; the next one's panel comes first */
    int64_t n_batch;
} Panel;

/* A register tile: rows from row0, row_limit of which exist (NULL: all; the others read what the last one does), of a panel. */
typedef struct TilePlace {
    const Expr *row0;
    int64_t rows;
    const Expr *row_limit;
    const Panel *panel;
    const Iter *r, *n; /* iterators over its rows and columns */
} TilePlace;

/* The next panel of constants, which comes from far away, is read ahead by all row tiles of this one: the first would wait for it. */
static void set_ahead(const Contraction *c, const TilePlace *at, Stmt *mma)
{
    Kernel *k = c->k;
    const Panel *p = at->panel;
    if (p->share == 0)
        return;
    const Expr *from = lx_offset(k, c->b->u.buf, c->b->arg);
    for (uint32_t i = 0; i < c->fold->u.fold.n_axes; i++)
        from = lx_replace_iter(k, from, c->fold->u.fold.axis[i].iter, lx_int(k, 0));
    const Expr *panels = lx_int(k, 1);
    if (p->batch) {
        const Expr *next = lx_add(k, lx_iter(k, p->batch), lx_int(k, 1));
        from = lx_replace_iter(k, from, p->batch, lx_mod(k, next, p->n_batch));
        panels = lx_div(k, next, p->n_batch);
    }
    from = lx_replace_iter(k, from, c->col->u.loop.iter, lx_add(k, p->col0, lx_mul(k, panels, p->cols)));
    const Expr *tile = lx_add(k, p->tiles_before, lx_div(k, at->row0, p->tile_rows));
    mma->u.mma.ahead = lx_add(k, from, lx_mul(k, tile, p->share));
    mma->u.mma.n_ahead = p->share;
}

static Stmt *emit_mma(const Contraction *c, const TilePlace *at, TileSubst *t)
{
    Kernel *k = c->k;
    Stmt *mma = ls_new(k, LS_MMA);
    const Expr *row = t->row_value;
    mma->u.mma.tile = kernel_var(k, "t", DT_F32);
    mma->u.mma.row = at->r;
    mma->u.mma.col = at->n;
    mma->u.mma.rows = at->rows;
    mma->u.mma.cols = at->panel->cols;
    mma->u.mma.kb = c->fold->u.fold.kb;
    mma->u.mma.n_axes = c->fold->u.fold.n_axes;
    for (uint32_t i = 0; i < c->fold->u.fold.n_axes; i++)
        mma->u.mma.axis[i] = c->fold->u.fold.axis[i];
    if (at->row_limit)
        t->row_value = lx_add(k, at->row0, lx_min(k, lx_iter(k, at->r), lx_sub(k, at->row_limit, lx_int(k, 1))));
    mma->u.mma.guard = apply(t, c->fold->u.fold.guard);
    if (mma->u.mma.guard && lx_is_true(mma->u.mma.guard))
        mma->u.mma.guard = NULL;
    mma->u.mma.a = apply(t, c->a);
    t->row_value = row;
    mma->u.mma.b = apply(t, c->b);
    set_ahead(c, at, mma);
    const Expr *limit = at->panel->limit;
    mma->u.mma.col_limit = c->packed && limit && !lx_is_int(limit, NULL) ? NULL : limit;
    return mma;
}

static Stmt *emit_put(Kernel *k, const TilePlace *at, const Var *tile, Buf *buf, const Expr *const *index, uint32_t n_index,
                      const Expr *value)
{
    Stmt *put = ls_new(k, LS_PUT);
    put->u.put.tile = tile;
    put->u.put.row = at->r;
    put->u.put.col = at->n;
    put->u.put.rows = at->rows;
    put->u.put.cols = at->panel->cols;
    put->u.put.col_limit = at->panel->limit;
    put->u.put.row_limit = at->row_limit;
    put->u.put.buf = buf;
    put->u.put.n_index = n_index;
    put->u.put.index = index;
    put->u.put.value = value;
    return put;
}

static Stmt *emit_store_of_tile(const TilePlace *at, TileSubst *t, const Var *tile, const Stmt *store)
{
    Kernel *k = t->k;
    const Expr **index = ARENA_ARRAY(k->arena, const Expr *, store->u.store.n_index + 1);
    Buf *wide = wide_buf(t->rows, store->u.store.buf);
    uint32_t n = wide != NULL;
    for (uint32_t i = 0; i < store->u.store.n_index; i++)
        index[n++] = apply(t, store->u.store.index[i]);
    if (wide)
        widen_index(k, t->rows, wide, index);
    return emit_put(k, at, tile, wide ? wide : store->u.store.buf, index, n, apply(t, store->u.store.value));
}

/* mma and put into scratch for each sibling, which later values read there; then the mma and a put per store. */
static Stmt **emit_tile(const Contraction *c, const Expr *row0, int64_t rows, const Expr *row_limit, const Panel *p,
                        RowTile *row_tile, Stmt **tail)
{
    Kernel *k = c->k;
    TilePlace at = {row0, rows, row_limit, p, kernel_iter(k, "r", 0, rows - 1), kernel_iter(k, "n", 0, p->cols - 1)};
    const Expr *r = lx_iter(k, at.r), *n = lx_iter(k, at.n), *row = lx_add(k, row0, r);
    if (row_tile)
        row_tile->row = row;
    TileSubst t = {.k = k, .row = c->row ? c->row->u.loop.iter : NULL, .col = c->col->u.loop.iter, .row_value = row,
                   .col_value = lx_add(k, p->col0, n), .rows = row_tile};
    uint32_t n_vars = 1 + c->n_siblings;
    for (const Stmt *s = c->after; s; s = s->next)
        n_vars += s->kind == LS_LET;
    t.var = ARENA_ARRAY(k->arena, const Var *, n_vars);
    t.var_value = ARENA_ARRAY(k->arena, const Expr *, n_vars);
    const Expr **in_tile = arena_copy(k->arena, (const Expr *[]){r, n}, 2 * sizeof r);
    for (uint32_t i = 0; i < c->n_siblings; i++) {
        Stmt *mma = emit_mma(c->sibling[i], &at, &t);
        const Var *tile = mma->u.mma.tile;
        tail = ls_append(tail, mma);
        tail = ls_append(tail, emit_put(k, &at, tile, c->sibling_tile[i], in_tile, 2, lx_var(k, tile)));
        t.var[t.n_vars] = c->sibling[i]->fold->u.fold.var;
        t.var_value[t.n_vars++] = lx_load(k, c->sibling_tile[i], in_tile, NULL, NULL);
    }
    Stmt *mma = emit_mma(c, &at, &t);
    tail = ls_append(tail, mma);
    t.var[t.n_vars] = c->fold->u.fold.var;
    t.var_value[t.n_vars++] = lx_var(k, mma->u.mma.tile);
    for (const Stmt *s = c->after; s; s = s->next) {
        if (s->kind == LS_LET) {
            t.var[t.n_vars] = s->u.let.var;
            t.var_value[t.n_vars] = apply(&t, s->u.let.value);
            t.n_vars++;
        } else {
            tail = ls_append(tail, emit_store_of_tile(&at, &t, mma->u.mma.tile, s));
        }
    }
    return tail;
}

/* ---- rows: runs of tiles with the same taps in loops, borders one by one ------------------------------------------------------- */

enum { MAX_TAP_CASES = 64, MAX_TAP_AXIS = 16 /* the emitter unrolls no longer ones */ };

/* Whether no position is part of the chain for some of the rows only, at each value of the fold's axes that the guard asks. */
static bool guard_is_free(const Contraction *c, const Expr *row0, int64_t rows)
{
    Kernel *k = c->k;
    const Stmt *fold = c->fold;
    if (!c->row || !fold->u.fold.guard)
        return true;
    const Iter *r = kernel_iter(k, "r", 0, rows - 1);
    const Expr *guard = lx_replace_iter(k, fold->u.fold.guard, c->row->u.loop.iter, lx_add(k, row0, lx_iter(k, r)));
    if (!lx_uses_iter(guard, r))
        return true;
    int64_t cases = 1;
    for (uint32_t i = 0; i < fold->u.fold.n_axes; i++) {
        int64_t extent = fold->u.fold.axis[i].extent;
        if (lx_uses_iter(guard, fold->u.fold.axis[i].iter) && (extent > MAX_TAP_AXIS || (cases *= extent) > MAX_TAP_CASES))
            return false;
    }
    for (int64_t which = 0; which < cases; which++) {
        const Expr *e = guard;
        int64_t left = which;
        for (uint32_t i = 0; i < fold->u.fold.n_axes; i++) {
            const FoldAxis *axis = &fold->u.fold.axis[i];
            if (!lx_uses_iter(guard, axis->iter))
                continue;
            e = lx_replace_iter(k, e, axis->iter, lx_int(k, left % axis->extent));
            left /= axis->extent;
        }
        if (lx_uses_iter(e, r))
            return false;
    }
    return true;
}

static bool run_is_free(const Contraction *c, int64_t first, int64_t end, int64_t rows)
{
    if (end - first == 1)
        return guard_is_free(c, lx_int(c->k, first * rows), rows);
    const Iter *m = kernel_iter(c->k, "m", first, end - 1);
    return guard_is_free(c, lx_mul(c->k, lx_iter(c->k, m), rows), rows);
}

/* The end of the longest run of tiles from `first` that one loop can compute; first + 1 if the tile is a border. */
static int64_t run_end(const Contraction *c, int64_t first, int64_t full, int64_t rows)
{
    int64_t good = first + 1, bad = full + 1;
    if (!run_is_free(c, first, good, rows))
        return good;
    if (run_is_free(c, first, full, rows))
        return full;
    while (bad - good > 1) {
        int64_t middle = good + (bad - good) / 2;
        if (run_is_free(c, first, middle, rows))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

static Stmt **emit_row_loop(const Contraction *c, int64_t first, const Expr *end, int64_t rows, const Panel *p, RowTile *row_tile,
                            Stmt **tail)
{
    Kernel *k = c->k;
    if (first >= end->hi)
        return tail;
    if (lx_is_int(end, NULL) && end->hi - first == 1)
        return emit_tile(c, lx_int(k, first * rows), rows, NULL, p, row_tile, tail);
    const Iter *ti = kernel_iter(k, "m", first, end->hi - 1);
    Stmt *body = NULL;
    emit_tile(c, lx_mul(k, lx_iter(k, ti), rows), rows, NULL, p, row_tile, &body);
    return ls_append(tail, ls_for(k, ti, lx_int(k, first), end, 1, BIND_SEQ, body));
}

static const Expr *round_up(Kernel *k, const Expr *e, int64_t unit) { return lx_div(k, lx_add(k, e, lx_int(k, unit - 1)), unit); }

/* The guard without the terms that hold for all rows of a tile where `inside` does; false if one with a row is left in it. */
static bool reduce_guard(const Contraction *c, const Expr *e, const Expr *row0, int64_t rows, const Expr *inside, const Expr **guard)
{
    Kernel *k = c->k;
    if (e && e->kind == LX_AND) {
        bool left = reduce_guard(c, e->arg[0], row0, rows, inside, guard);
        return reduce_guard(c, e->arg[1], row0, rows, inside, guard) && left;
    }
    if (!e)
        return true;
    const Iter *r = kernel_iter(k, "r", 0, rows - 1);
    const Expr *there = lx_replace_iter(k, e, c->row->u.loop.iter, lx_add(k, row0, lx_iter(k, r)));
    bool asks = lx_uses_iter(there, r);
    if (asks && lx_follows(k, there, inside))
        return true;
    *guard = lx_and(k, *guard, e);
    return !asks;
}

/* A whole tile of rows where `inside` holds, under what is left of the guard then; NULL if a term of it still asks for the row. */
static Stmt *whole_tile(const Contraction *c, const Expr *row0, int64_t rows, const Expr *inside, const Panel *p, RowTile *row_tile)
{
    const Expr *guard = NULL;
    Stmt *tile = NULL, fold = *c->fold;
    Contraction interior = *c;
    if (!reduce_guard(c, c->fold->u.fold.guard, row0, rows, inside, &guard))
        return NULL;
    fold.u.fold.guard = guard;
    interior.fold = &fold;
    emit_tile(&interior, row0, rows, NULL, p, row_tile, &tile);
    return tile;
}

/* The last rows: a tile with places for all that may be left. Without a guard, which would make them large, also tiles of half the
 * rows, and so on, for where fewer are left. */
static Stmt *cut_tile(const Contraction *c, const Expr *row0, int64_t rows, const Expr *left, const Panel *p, RowTile *row_tile)
{
    Kernel *k = c->k;
    Stmt *tile = NULL;
    int64_t half = rows / 2;
    emit_tile(c, row0, rows, left, p, row_tile, &tile);
    if (c->fold->u.fold.guard || half == 0)
        return tile;
    return ls_if(k, lx_le(k, left, lx_int(k, half)), cut_tile(c, row0, half, left, p, row_tile), tile);
}

/* As many rows as the run says: one loop over tiles. Up to `margin` rows before the end they are whole; the first may have borders of
 * its own, which its constant rows decide. Those at the end decide row by row and may be cut off. */
static Stmt **emit_sized_rows(const Contraction *c, int64_t rows, const Panel *p, RowTile *row_tile, Stmt **tail)
{
    enum { MOST_MARGIN = 8 };
    Kernel *k = c->k;
    const Expr *tiles = round_up(k, c->row_size, rows), *fits = NULL, *zero = lx_int(k, 0);
    const Iter *ti = kernel_iter(k, "m", 0, tiles->hi - 1);
    const Expr *m = lx_iter(k, ti), *row0 = lx_mul(k, m, rows), *left = lx_sub(k, c->row_size, row0), *later = lx_lt(k, zero, m);
    Stmt *whole = NULL, *first = NULL, *part = NULL;
    for (int64_t margin = 0; margin <= MOST_MARGIN && !whole && rows > 1; margin++) {
        fits = lx_le(k, lx_int(k, rows + margin), left);
        whole = whole_tile(c, row0, rows, fits, p, row_tile);
        if (whole || !(whole = whole_tile(c, row0, rows, lx_and(k, later, fits), p, row_tile)))
            continue;
        Contraction border = *c;
        Stmt fold = *c->fold;
        border.fold = &fold;
        fold.u.fold.guard = NULL;
        reduce_guard(c, c->fold->u.fold.guard, zero, rows, lx_le(k, lx_int(k, rows + margin), c->row_size), &fold.u.fold.guard);
        emit_tile(&border, zero, rows, NULL, p, row_tile, &first);
    }
    if (!whole)
        return emit_row_loop(c, 0, c->row_size, 1, p, row_tile, tail);
    part = cut_tile(c, row0, rows, left, p, row_tile);
    if (c->row_size->lo < 1) /* always so; what is proven of the tile needs it */
        part = ls_if(k, lx_lt(k, zero, left), part, NULL);
    if (first)
        whole = ls_if(k, later, whole, first);
    return ls_append(tail, ls_for(k, ti, zero, tiles, 1, BIND_SEQ, ls_if(k, fits, whole, part)));
}

/* All rows of one panel. */
static Stmt **emit_rows(const Contraction *c, int64_t rows, const Panel *p, RowTile *row_tile, Stmt **tail)
{
    int64_t full = c->n_rows / rows, rest = c->n_rows % rows, end[MAX_RUNS];
    uint32_t n = 0;
    if (!lx_is_int(c->row_size, NULL))
        return emit_sized_rows(c, rows, p, row_tile, tail);
    for (int64_t at = 0; at < full; at = end[n++]) {
        if (n == MAX_RUNS)
            return emit_row_loop(c, 0, c->row_size, 1, p, row_tile, tail); /* row by row: the guard is a branch */
        end[n] = run_end(c, at, full, rows);
    }
    for (uint32_t i = 0; i < n; i++)
        tail = emit_row_loop(c, i ? end[i - 1] : 0, lx_int(c->k, end[i]), rows, p, row_tile, tail);
    if (rest)
        tail = emit_tile(c, lx_int(c->k, full * rows), rest, NULL, p, row_tile, tail);
    return tail;
}

typedef struct PanelBody {
    const Contraction *c;
    TileShape shape;
    RowTile *row_tile;
    bool around; /* put the contraction's other loops that b does not use around the rows */
    /* (C): the loop over the batch, and what follows it for n_rows rows from row0 */
    const Stmt *batch, *then;
    const Iter *row;
    const Expr *row0, *n_rows;
} PanelBody;

static Stmt *row_segment(Kernel *k, const Stmt *first, const Stmt *end, const Iter *row, const Expr *row0, const Expr *rows,
                         RowTile *row_tile);

/* The list with its loops over all columns cut to those of a panel. */
static Stmt *restrict_columns(Kernel *k, const Stmt *list, int64_t n_cols, const Panel *p)
{
    Stmt *result = NULL, **tail = &result;
    for (const Stmt *s = list; s; s = s->next) {
        Stmt *one = ls_new(k, s->kind);
        int64_t extent, cols = p->limit ? p->limit->hi : p->cols;
        *one = *s;
        one->next = NULL;
        if (s->kind == LS_IF) {
            one->u.branch.then = restrict_columns(k, s->u.branch.then, n_cols, p);
        } else if (loop_extent(s, &extent) && extent == n_cols) {
            const Iter *iter = kernel_iter(k, s->u.loop.iter->name, 0, cols - 1);
            Stmt *body = ls_replace_iter(k, s->u.loop.body, s->u.loop.iter, lx_add(k, p->col0, lx_iter(k, iter)));
            one = ls_for(k, iter, lx_int(k, 0), lx_int(k, cols), 1, BIND_SEQ, body);
        }
        tail = ls_append(tail, one);
    }
    return result;
}

/* Constants of panels that lie one behind the other. */
static void plan_ahead(const PanelBody *pb, Panel *p)
{
    const Contraction *c = pb->c;
    int64_t tiles = 1, extent, rows = (c->n_rows + pb->shape.rows - 1) / pb->shape.rows;
    const Buf *buf = c->b->kind == LX_LOAD ? c->b->u.buf : NULL;
    if (!buf || buf->space != BUF_WEIGHT || !buf->pack || (!pb->batch && (pb->row_tile || c->n_cols <= p->cols)) ||
        !lx_is_int(c->row_size, NULL) ||
        c->b->arg[buf->rank - 1] != lx_mod(c->k, lx_iter(c->k, c->col->u.loop.iter), LOOP_LANES))
        return;
    p->tiles_before = lx_int(c->k, 0);
    if (pb->batch && !loop_extent(pb->batch, &p->n_batch))
        return;
    p->batch = pb->batch ? pb->batch->u.loop.iter : NULL;
    for (uint32_t i = 0; i < c->n_outer && !pb->batch; i++) {
        if (c->b_uses[i])
            continue;
        if (!loop_extent(c->outer[i], &extent))
            return;
        p->tiles_before = lx_add(c->k, lx_mul(c->k, p->tiles_before, extent), lx_iter(c->k, c->outer[i]->u.loop.iter));
        tiles *= extent;
    }
    p->tiles_before = lx_mul(c->k, p->tiles_before, rows);
    tiles *= rows;
    if (tiles == 1 && !pb->batch)
        return;
    p->tile_rows = pb->shape.rows;
    p->share = ((int64_t)chain_length(c->fold) * p->cols / LOOP_LANES + tiles - 1) / tiles * LOOP_LANES;
}

static Stmt *panel_body(const PanelBody *pb, const Panel *panel)
{
    const Contraction *c = pb->c;
    Stmt *body = NULL;
    Panel with_ahead = *panel, *p = &with_ahead;
    plan_ahead(pb, p);
    if (pb->batch)
        pb->row_tile->col0 = p->col0;
    emit_rows(c, pb->shape.rows, p, pb->row_tile, &body);
    if (pb->batch) {
        const Stmt *loop = pb->batch, *then = restrict_columns(c->k, pb->then, c->n_cols, p);
        body = ls_for(c->k, loop->u.loop.iter, loop->u.loop.lo, loop->u.loop.hi, 1, BIND_SEQ, body);
        ls_append(&body->next, row_segment(c->k, then, NULL, pb->row, pb->row0, pb->n_rows, pb->row_tile));
        return body;
    }
    for (uint32_t i = c->n_outer; pb->around && i-- > 0;) {
        const Stmt *loop = c->outer[i];
        if (!c->b_uses[i])
            body = ls_for(c->k, loop->u.loop.iter, loop->u.loop.lo, loop->u.loop.hi, 1, loop->u.loop.bind, body);
    }
    return body;
}

/* As many columns as the run says: a loop over panels, of which the last goes vector by vector. */
static Stmt *emit_sized_panels(const PanelBody *pb, int64_t width)
{
    Kernel *k = pb->c->k;
    const Expr *n = pb->c->col_size, *panels = round_up(k, n, width);
    const Iter *pi = kernel_iter(k, "p", 0, panels->hi - 1), *vi = kernel_iter(k, "v", 0, width / LOOP_LANES - 1);
    const Expr *col0 = lx_mul(k, lx_iter(k, pi), width), *left = lx_sub(k, n, col0);
    const Expr *at = lx_add(k, col0, lx_mul(k, lx_iter(k, vi), LOOP_LANES));
    const Expr *vectors = lx_min(k, round_up(k, left, LOOP_LANES), lx_int(k, width / LOOP_LANES));
    Stmt *whole = panel_body(pb, &(Panel){.col0 = col0, .cols = width});
    Stmt *part = panel_body(pb, &(Panel){.col0 = at, .cols = LOOP_LANES, .limit = lx_sub(k, n, at)});
    part = ls_for(k, vi, lx_int(k, 0), vectors, 1, BIND_SEQ, part);
    return ls_for(k, pi, lx_int(k, 0), panels, 1, BIND_SEQ, ls_if(k, lx_le(k, lx_int(k, width), left), whole, part));
}

/* One loop over all panels; the last may be narrower. */
static Stmt *emit_panels(const PanelBody *pb)
{
    const Contraction *c = pb->c;
    Kernel *k = c->k;
    int64_t width = pb->shape.vectors * LOOP_LANES, full = c->n_cols / width, rest = c->n_cols % width;
    int64_t rest_cols = (rest + LOOP_LANES - 1) / LOOP_LANES * LOOP_LANES;
    const Expr *limit = rest % LOOP_LANES ? lx_int(k, rest) : NULL;
    if (!lx_is_int(c->col_size, NULL))
        return emit_sized_panels(pb, width);
    if (full + (rest > 0) == 1) {
        Panel only = {.col0 = lx_int(k, 0), .cols = full ? width : rest_cols, .limit = full ? NULL : limit};
        return panel_body(pb, &only);
    }
    const Iter *pi = kernel_iter(k, "p", 0, full - 1 + (rest > 0));
    const Expr *col0 = lx_mul(k, lx_iter(k, pi), width);
    Stmt *body = panel_body(pb, &(Panel){.col0 = col0, .cols = width});
    if (rest) {
        Stmt *last = panel_body(pb, &(Panel){.col0 = col0, .cols = rest_cols, .limit = limit});
        body = ls_if(k, lx_lt(k, lx_iter(k, pi), lx_int(k, full)), body, last);
    }
    return ls_for(k, pi, lx_int(k, 0), lx_int(k, full + (rest > 0)), 1, BIND_SEQ, body);
}

static void tiles_for_siblings(Contraction *c, TileShape shape)
{
    int64_t dim[] = {shape.rows, shape.vectors * LOOP_LANES};
    for (uint32_t i = 0; i < c->n_siblings; i++)
        c->sibling_tile[i] = kernel_buf(c->k, "tile", DT_F32, BUF_LOCAL, 2, dim);
}

/* ---- packing b of activations -------------------------------------------------------------------------------------------------- */

typedef struct MaskLoads {
    Kernel *k;
    const Expr *mask;
} MaskLoads;

static const Expr *masked_load(void *user, const Expr *load)
{
    MaskLoads *m = user;
    const Buf *buf = load->u.buf;
    bool masked = load->n_args > buf->rank;
    const Expr *mask = masked ? lx_and(m->k, load->arg[buf->rank], m->mask) : m->mask;
    return lx_load(m->k, load->u.buf, load->arg, mask, masked ? load->arg[buf->rank + 1] : lx_const(m->k, buf->dtype, 0));
}

/* e with every load guarded by mask, so that nothing outside is read where it fails. */
static const Expr *mask_loads(Kernel *k, const Expr *e, const Expr *mask)
{
    MaskLoads m = {k, mask};
    return lx_subst(k, e, &(ExprSubst){.user = &m, .load = masked_load});
}

/* Copies b into a local [N/16][K..][16] and makes the contraction read that; the statement goes before the row loop. */
static Stmt *pack_locally(Contraction *c)
{
    Kernel *k = c->k;
    const Stmt *fold = c->fold;
    int64_t dim[LOOP_MAX_RANK];
    const Expr *to[LOOP_MAX_RANK], *from[LOOP_MAX_RANK];
    const Iter *axis[LOOP_MAX_FOLD_ITERS];
    uint32_t rank = 0;
    int64_t panels = (c->n_cols + LOOP_LANES - 1) / LOOP_LANES;
    const Iter *panel = kernel_iter(k, "p", 0, panels - 1), *lane = kernel_iter(k, "l", 0, LOOP_LANES - 1);
    const Expr *col = lx_add(k, lx_mul(k, lx_iter(k, panel), LOOP_LANES), lx_iter(k, lane)), *load = c->b;
    dim[rank] = panels;
    from[rank] = lx_div(k, lx_iter(k, c->col->u.loop.iter), LOOP_LANES);
    to[rank++] = lx_iter(k, panel);
    load = lx_replace_iter(k, load, c->col->u.loop.iter, col);
    for (uint32_t i = 0; i < fold->u.fold.n_axes; i++) {
        axis[i] = kernel_iter(k, "k", 0, fold->u.fold.axis[i].extent - 1);
        load = lx_replace_iter(k, load, fold->u.fold.axis[i].iter, lx_iter(k, axis[i]));
        dim[rank] = fold->u.fold.axis[i].extent;
        from[rank] = lx_iter(k, fold->u.fold.axis[i].iter);
        to[rank++] = lx_iter(k, axis[i]);
    }
    dim[rank] = LOOP_LANES;
    from[rank] = lx_mod(k, lx_iter(k, c->col->u.loop.iter), LOOP_LANES);
    to[rank++] = lx_iter(k, lane);
    Buf *packed = kernel_buf(k, "packed", DT_F32, BUF_LOCAL, rank, dim);
    const Expr *exists = lx_lt(k, col, c->col_size);
    if (!lx_is_true(exists))
        load = mask_loads(k, load, exists);
    Stmt *body = ls_store(k, packed, to, load, NULL);
    const Expr *n_panels = round_up(k, c->col_size, LOOP_LANES);
    body = ls_for(k, lane, lx_int(k, 0), lx_int(k, LOOP_LANES), 1, BIND_SEQ, body);
    if (c->col_stride == 1) /* whole rows of b at a time */
        body = ls_for(k, panel, lx_int(k, 0), n_panels, 1, BIND_SEQ, body);
    for (uint32_t i = fold->u.fold.n_axes; i-- > 0;)
        body = ls_for(k, axis[i], lx_int(k, 0), axis_end(k, &fold->u.fold.axis[i]), 1, BIND_SEQ, body);
    if (c->col_stride != 1)
        body = ls_for(k, panel, lx_int(k, 0), n_panels, 1, BIND_SEQ, body);
    c->b = lx_load(k, packed, from, NULL, NULL);
    c->packed = true;
    c->col_stride = 1;
    return body;
}

/* Whether rows of b that lie apart in memory are read often enough to bring them together (values of attention: each in a page of its
 * own, and all of them in few sets of the cache). */
static bool is_worth_packing(const Contraction *c, int64_t n_rows)
{
    enum { MIN_PASSES = 64 };
    const FoldAxis *axis = &c->fold->u.fold.axis[0];
    int64_t coef;
    return is_plain_load(c->b) && c->b->u.buf->space == BUF_ARG && c->fold->u.fold.n_axes == 1 && n_rows >= MIN_PASSES &&
           lx_linear(c->k, lx_offset(c->k, c->b->u.buf, c->b->arg), axis->iter, &coef, NULL) && coef > c->n_cols;
}

/* ---- (A) ---------------------------------------------------------------------------------------------------------------------------- */

static bool tensorize_nest(Kernel *k, const TargetInfo *target)
{
    Nest nest = nest_of(k->body);
    Contraction c, of_windows;
    nest_merge(k, &nest);
    if (!contraction_find_in_nest(k, &nest, &c))
        return false;
    /* rows of windows of an image (of swin transformers, say) are not equally far apart; those of one line of a window are */
    if (!c.row && nest_split(k, &nest, c.a) && contraction_find_in_nest(k, &nest, &of_windows) && of_windows.row)
        c = of_windows;
    if (c.col_stride != 1 && c.n_rows < MIN_ROWS_TO_PACK)
        return false; /* `pack` was disabled */
    Stmt *pack = c.col_stride == 1 ? NULL : pack_locally(&c);
    PanelBody pb = {.c = &c, .shape = tile_choose(target, c.n_rows, c.n_cols, chain_length(c.fold)),
                    .around = true};
    tiles_for_siblings(&c, pb.shape);
    Stmt *body = emit_panels(&pb);
    if (pack) {
        pack->next = body;
        body = pack;
    }
    for (uint32_t i = c.n_outer; i-- > 0;) {
        const Stmt *loop = c.outer[i];
        if (c.b_uses[i])
            body = ls_for(k, loop->u.loop.iter, loop->u.loop.lo, loop->u.loop.hi, 1, BIND_SEQ, body);
    }
    k->body = body;
    return true;
}

/* ---- (B) ---------------------------------------------------------------------------------------------------------------------------- */

static bool is_content_contraction(Kernel *k, Stmt *stmt, const Nest *rows, Contraction *c)
{
    if (stmt->kind != LS_FOR)
        return false;
    Stmt *alone = ls_new(k, LS_FOR); /* the loop without its followers */
    *alone = *stmt;
    alone->next = NULL;
    Nest content = nest_of(alone);
    LoopStack stack = {.n = rows->n};
    for (uint32_t i = 0; i < rows->n; i++)
        stack.loop[i] = rows->loop[i];
    for (uint32_t i = 0; i < content.n && stack.n < NEST_MAX_LOOPS; i++)
        stack.loop[stack.n++] = content.loop[i];
    return content.n == 1 && contraction_find(k, content.body, &stack, true, c) && c->col == content.loop[0];
}

typedef struct WidenLocals {
    Kernel *k;
    Map *wide;
    int64_t rows;
} WidenLocals;

static bool widen(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    WidenLocals *w = user;
    (void)index;
    (void)is_store;
    if (buf->space == BUF_LOCAL && !map_has(w->wide, KEY(buf))) {
        int64_t dim[LOOP_MAX_RANK];
        IG_CHECK(w->k->ctx, buf->rank + 1 <= LOOP_MAX_RANK);
        dim[0] = w->rows;
        for (uint32_t i = 0; i < buf->rank; i++)
            dim[i + 1] = buf->dim[i];
        map_set(w->wide, KEY(buf), kernel_buf(w->k, buf->name, buf->dtype, BUF_LOCAL, buf->rank + 1, dim));
    }
    return true;
}

static void widen_stores(Kernel *k, Stmt *list, const RowTile *rows)
{
    for (Stmt *s = list; s; s = s->next) {
        if (s->kind == LS_FOR)
            widen_stores(k, s->u.loop.body, rows);
        if (s->kind == LS_IF)
            widen_stores(k, s->u.branch.then, rows);
        Buf *wide = s->kind == LS_STORE ? wide_buf(rows, s->u.store.buf) : NULL;
        if (!wide)
            continue;
        const Expr **index = ARENA_ARRAY(k->arena, const Expr *, s->u.store.n_index + 1);
        for (uint32_t i = 0; i < s->u.store.n_index; i++)
            index[i + 1] = s->u.store.index[i];
        widen_index(k, rows, wide, index);
        s->u.store.buf = wide;
        s->u.store.index = index;
        s->u.store.n_index++;
    }
}

/* `for r in [0, rows) { stmts with row := row0 + r }` for the statements [first, end). */
static Stmt *row_segment(Kernel *k, const Stmt *first, const Stmt *end, const Iter *row, const Expr *row0, const Expr *rows,
                         RowTile *row_tile)
{
    Stmt *copy = NULL, **tail = &copy;
    for (const Stmt *s = first; s != end; s = s->next) {
        Stmt *one = ls_new(k, s->kind);
        *one = *s;
        one->next = NULL;
        tail = ls_append(tail, one);
    }
    const Iter *r = kernel_iter(k, "r", 0, rows->hi - 1);
    row_tile->row = lx_iter(k, r);
    TileSubst t = {.k = k, .row = row, .row_value = lx_add(k, row0, lx_iter(k, r)), .rows = row_tile};
    if (row_tile->last)
        t.row_value = lx_min(k, t.row_value, row_tile->last);
    ExprSubst subst = {.user = &t, .iter = tile_iter, .load = tile_load};
    Stmt *body = ls_clone(k, copy, &subst);
    widen_stores(k, body, row_tile);
    return ls_for(k, r, lx_int(k, 0), rows, 1, BIND_SEQ, body);
}

/* An operand a that is computed (scaled queries): its rows of the tile go to a local buffer first. */
static Stmt *stage_rows(Contraction *c, const Iter *r)
{
    Kernel *k = c->k;
    const Stmt *fold = c->fold;
    int64_t dim[LOOP_MAX_RANK] = {c->n_rows};
    const Expr *to[LOOP_MAX_RANK], *from[LOOP_MAX_RANK], *value = c->a;
    const Iter *axis[LOOP_MAX_FOLD_ITERS], *row = kernel_iter(k, "r", 0, c->n_rows - 1);
    value = lx_replace_iter(k, value, r, lx_iter(k, row));
    to[0] = lx_iter(k, row);
    from[0] = lx_iter(k, r);
    for (uint32_t i = 0; i < fold->u.fold.n_axes; i++) {
        axis[i] = kernel_iter(k, "k", 0, fold->u.fold.axis[i].extent - 1);
        value = lx_replace_iter(k, value, fold->u.fold.axis[i].iter, lx_iter(k, axis[i]));
        dim[i + 1] = fold->u.fold.axis[i].extent;
        to[i + 1] = lx_iter(k, axis[i]);
        from[i + 1] = lx_iter(k, fold->u.fold.axis[i].iter);
    }
    Buf *staged = kernel_buf(k, "rows", DT_F32, BUF_LOCAL, fold->u.fold.n_axes + 1, dim);
    Stmt *body = ls_store(k, staged, to, value, NULL);
    for (uint32_t i = fold->u.fold.n_axes; i-- > 0;)
        body = ls_for(k, axis[i], lx_int(k, 0), axis_end(k, &fold->u.fold.axis[i]), 1, BIND_SEQ, body);
    c->a = lx_load(k, staged, from, NULL, NULL);
    return ls_for(k, row, lx_int(k, 0), c->row_size, 1, BIND_SEQ, body);
}

/* c with the rows of a tile in place of `row`: its own loop over them, and `global_row` in what it reads. */
static Contraction of_row_tile(const Contraction *c, const Iter *row, Stmt *local_row, const Expr *global_row, const Expr *rows)
{
    Kernel *k = c->k;
    Contraction t = *c;
    Stmt *fold = ls_new(k, LS_FOLD);
    *fold = *c->fold;
    fold->u.fold.guard = lx_replace_iter(k, c->fold->u.fold.guard, row, global_row);
    t.fold = fold;
    t.a = lx_replace_iter(k, c->a, row, global_row);
    t.after = ls_replace_iter(k, c->after, row, global_row);
    t.row = local_row;
    t.n_rows = rows->hi;
    t.row_size = rows;
    return t;
}

/* The stages for rows [row0, row0 + rows). */
static Stmt *row_tile_body(Kernel *k, const Nest *nest, Contraction *const *contraction, const TargetInfo *target, const Expr *row0,
                           const Expr *rows, RowTile *row_tile)
{
    Stmt *body = NULL, **tail = &body;
    const Iter *row = nest->loop[nest->n - 1]->u.loop.iter;
    uint32_t i = 0;
    for (Stmt *s = nest->body; s; i++) {
        if (!contraction[i]) {
            Stmt *end = s;
            while (end && !contraction[i]) {
                end = end->next;
                i++;
            }
            i--;
            tail = ls_append(tail, rows_split_at_folds(k, row_segment(k, s, end, row, row0, rows, row_tile)));
            s = end;
            continue;
        }
        /* rows of the tile are counted from 0; in global accesses the row is row0 + r */
        Stmt local_row = *nest->loop[nest->n - 1];
        const Iter *r = kernel_iter(k, "t", 0, rows->hi - 1);
        const Expr *global_row = lx_add(k, row0, lx_iter(k, r));
        local_row.u.loop.iter = r;
        Contraction c = of_row_tile(contraction[i], row, &local_row, global_row, rows), sibling[MAX_SIBLINGS];
        for (uint32_t j = 0; j < c.n_siblings; j++) {
            sibling[j] = of_row_tile(c.sibling[j], row, &local_row, global_row, rows);
            c.sibling[j] = &sibling[j];
        }
        if (!is_plain_load(c.a))
            tail = ls_append(tail, stage_rows(&c, r));
        PanelBody pb = {.c = &c, .shape = tile_choose(target, c.n_rows, c.n_cols, chain_length(c.fold)),
                        .row_tile = row_tile};
        tiles_for_siblings(&c, pb.shape);
        tail = ls_append(tail, emit_panels(&pb));
        s = s->next;
    }
    return body;
}

/* Operands that leave L2 are read from beyond it for each tile, so that tiles are larger. */
static int64_t rows_of_tile(Contraction *const *contraction, uint32_t n, int64_t n_rows, const TargetInfo *target)
{
    double bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        bytes += contraction[i] ? chain_length(contraction[i]->fold) * (double)contraction[i]->n_cols * sizeof(float) : 0;
    int64_t rows = bytes > (double)target->l2_bytes / 2 ? 2 * ATTENTION_ROWS : ATTENTION_ROWS;
    return n_rows < rows ? n_rows : rows;
}

static bool tensorize_rows(Kernel *k, const TargetInfo *target)
{
    Nest nest = nest_of(k->body);
    const Expr *size = nest.n ? loop_size(nest.loop[nest.n - 1]) : NULL;
    if (!size)
        return false;
    int64_t n_rows = size->hi;
    uint32_t n_stmts = 0, n_found = 0;
    nest.body = rows_share_buffers(k, nest.body);
    for (Stmt *s = nest.body; s; s = s->next)
        n_stmts++;
    Contraction **contraction = ARENA_ARRAY(k->arena, Contraction *, n_stmts + 1);
    uint32_t i = 0;
    const Iter *row = nest.loop[nest.n - 1]->u.loop.iter;
    for (Stmt *s = nest.body; s; s = s->next, i++) {
        Contraction c;
        if (is_content_contraction(k, s, &nest, &c) && !lx_uses_iter(c.b, row) &&
            (c.col_stride == 1 || n_rows >= MIN_ROWS_TO_PACK)) {
            contraction[i] = arena_copy(k->arena, &c, sizeof c);
            n_found++;
        }
    }
    if (!n_found)
        return false;
    i = 0;
    for (Stmt *s = nest.body; s; s = s->next, i++)
        if (!contraction[i]) {
            Stmt *end = s;
            for (uint32_t j = i; end && !contraction[j]; j++)
                end = end->next;
            if (rows_need_vars(s, end)) /* there is one per row */
                return false;
        }
    WidenLocals w = {k, map_create(k->arena), rows_of_tile(contraction, n_stmts, n_rows, target)};
    stmts_each_access(k->arena, nest.body, widen, &w);
    Stmt *body = NULL, **tail = &body;
    for (i = 0; i < n_stmts; i++)
        if (contraction[i] && (contraction[i]->col_stride != 1 || is_worth_packing(contraction[i], n_rows)))
            tail = ls_append(tail, pack_locally(contraction[i]));
    RowTile row_tile = {.wide = w.wide};
    bool sized = !lx_is_int(size, NULL);
    const Expr *tiles = sized ? round_up(k, size, w.rows) : lx_int(k, n_rows / w.rows);
    const Iter *ti = kernel_iter(k, "m", 0, tiles->hi - 1);
    const Expr *row0 = lx_mul(k, lx_iter(k, ti), w.rows), *left = lx_sub(k, size, row0), *most = lx_int(k, w.rows);
    Stmt *tile = row_tile_body(k, &nest, contraction, target, row0, most, &row_tile);
    if (sized)
        tile = ls_if(k, lx_le(k, most, left), tile,
                      row_tile_body(k, &nest, contraction, target, row0, lx_min(k, left, most), &row_tile));
    tail = ls_append(tail, ls_for(k, ti, lx_int(k, 0), tiles, 1, BIND_SEQ, tile));
    if (!sized && n_rows % w.rows)
        ls_append(tail, row_tile_body(k, &nest, contraction, target, lx_int(k, n_rows / w.rows * w.rows),
                                      lx_int(k, n_rows % w.rows), &row_tile));
    nest.n--;
    nest.body = body;
    k->body = nest_rebuild(k, &nest);
    return true;
}

/* ---- (C) ---------------------------------------------------------------------------------------------------------------------------- */

typedef struct Batch {
    Contraction c;
    const Stmt *tiles, *loop; /* over tiles of outputs, over the contractions */
    const Expr *n_tiles;
    int64_t n;
    const Buf *result;        /* [n][columns]: of the contractions for one tile */
} Batch;

typedef struct ColumnUse {
    const Buf *result;
    const Iter *column;
} ColumnUse;

static bool uses_column(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    const ColumnUse *u = user;
    (void)is_store;
    if (buf != u->result)
        return true;
    const Expr *last = index[buf->rank - 1];
    return last->kind == LX_ITER && last->u.iter == u->column;
}

/* Every access of the result in the list is at the iterator of a loop over all columns. */
static bool reads_by_column(const Batch *b, Kernel *k, const Stmt *list)
{
    for (const Stmt *s = list; s; s = s->next) {
        int64_t extent;
        if (s->kind == LS_IF) {
            if (s->u.branch.otherwise || !reads_by_column(b, k, s->u.branch.then))
                return false;
            continue;
        }
        ColumnUse u = {b->result, s->kind == LS_FOR && loop_extent(s, &extent) && extent == b->c.n_cols ? s->u.loop.iter : NULL};
        Stmt one = *s;
        one.next = NULL;
        if (!stmts_each_access(k->arena, &one, uses_column, &u))
            return false;
    }
    return true;
}

static bool batch_find(Kernel *k, Stmt *list, Batch *b)
{
    Stmt *tiles = list;
    while (tiles && tiles->next)
        tiles = tiles->next;
    if (!tiles || !(b->n_tiles = loop_size(tiles)))
        return false;
    b->tiles = tiles;
    for (Stmt *s = tiles->u.loop.body; s; s = s->next) {
        Stmt alone = *s;
        alone.next = NULL;
        Nest nest = nest_of(&alone);
        if (nest.n != 2 || !nest.body || nest.body->kind != LS_FOLD)
            continue;
        LoopStack stack = {.n = 3, .loop = {tiles, s, nest.loop[1]}};
        const Stmt *store = nest.body->next;
        if (!contraction_find(k, nest.body, &stack, false, &b->c) || b->c.col != nest.loop[1] || b->c.col_stride != 1 || b->c.row ||
            !store || store->next || store->kind != LS_STORE || store->u.store.buf->space != BUF_LOCAL ||
            b->c.a->u.buf->space != BUF_LOCAL || lx_uses_iter(b->c.b, tiles->u.loop.iter) || !loop_extent(s, &b->n))
            return false;
        b->loop = s;
        b->result = store->u.store.buf;
        ColumnUse u = {b->result, b->c.col->u.loop.iter};
        return stmts_each_access(k->arena, store, uses_column, &u) && reads_by_column(b, k, s->next);
    }
    return false;
}

typedef struct BlockShape {
    int64_t tiles; /* in a block */
    TileShape mma;
} BlockShape;

enum { L1_BYTES = 32 << 10 }; /* the least of what CPUs have */

/* Cycles of the mma, and half of those of reading what it does not find near: a panel of b comes from L2 for each row tile unless
 * it fits L1; all of b comes anew for each block, from beyond L2 where that does not hold it, at 16 bytes a cycle; a for each
 * panel, if a block of it and of the results is too large for L2. Smaller blocks are better by a little. */
static double block_cycles(const TargetInfo *t, const Batch *b, int64_t tiles, TileShape shape)
{
    int64_t n_vectors = (b->c.n_cols + LOOP_LANES - 1) / LOOP_LANES, blocks = (b->n_tiles->hi + tiles - 1) / tiles;
    double k = chain_length(b->c.fold), batch = (double)b->n, n_blocks = (double)blocks, l2 = (double)t->l2_bytes;
    double column = k * LOOP_LANES * sizeof(float), b_bytes = batch * column * (double)n_vectors;
    double panels = (double)((n_vectors + shape.vectors - 1) / shape.vectors);
    double a_bytes = batch * (double)tiles * k * sizeof(float);
    double m_bytes = batch * (double)(tiles * shape.vectors * LOOP_LANES) * sizeof(float);
    double cycles = batch * n_blocks * tile_covering_cycles(t, shape, tiles, n_vectors, k);
    if (column * (double)shape.vectors > (double)L1_BYTES / 2)
        cycles += n_blocks * (double)((tiles + shape.rows - 1) / shape.rows) * b_bytes / 128;
    cycles += n_blocks * b_bytes / (b_bytes > l2 / 2 ? 16 : 128);
    if (a_bytes + m_bytes > l2 * 3 / 4)
        cycles += n_blocks * panels * a_bytes / 32;
    cycles *= 1 + 0.05 * (a_bytes + m_bytes) / l2;
    return blocks == 1 ? cycles * 1.02 : cycles; /* nothing to share between threads */
}

static BlockShape choose_block(const TargetInfo *t, const Batch *b)
{
    enum { MOST = 128 };
    BlockShape best = {1, {1, 1}};
    double best_cycles = 0;
    for (int64_t tiles = 1; tiles <= MOST && tiles <= b->n_tiles->hi; tiles++)
        for (int64_t vectors = 1; vectors <= 8 && vectors * LOOP_LANES < b->c.n_cols + LOOP_LANES; vectors++)
            for (int64_t rows = 1; rows <= MAX_TILE_ROWS && rows <= tiles; rows++) {
                TileShape shape = {rows, vectors};
                double cycles = tile_fits(t, rows, vectors) ? block_cycles(t, b, tiles, shape) : 0;
                if (cycles == 0 || (best_cycles > 0 && cycles >= best_cycles))
                    continue;
                best = (BlockShape){tiles, shape};
                best_cycles = cycles;
            }
    return best;
}

/* [dims of buf] with `rows` of them as a leading dimension that lies before the last in memory, a cache line between the others;
 * rows whose distance is a multiple of 1 KB would share few sets of the cache. */
static Buf *rows_inside(Kernel *k, const Buf *buf, int64_t rows, int64_t width)
{
    int64_t dim[LOOP_MAX_RANK] = {rows};
    IG_CHECK(k->ctx, buf->rank + 1 <= LOOP_MAX_RANK);
    for (uint32_t i = 0; i < buf->rank; i++)
        dim[i + 1] = buf->dim[i];
    dim[buf->rank] = width;
    Buf *wide = kernel_buf(k, buf->name, buf->dtype, BUF_LOCAL, buf->rank + 1, dim);
    int64_t step = (width + LOOP_LANES - 1) / LOOP_LANES * LOOP_LANES;
    step += step % (16 * LOOP_LANES) == 0 ? LOOP_LANES : 0;
    wide->stride[0] = step;
    step = step * rows + LOOP_LANES;
    for (uint32_t i = buf->rank; i-- > 1;) {
        wide->stride[i] = step;
        step *= wide->dim[i];
    }
    wide->elements = step;
    return wide;
}

typedef struct WidenBatch {
    Kernel *k;
    const Batch *b;
    Map *wide;
    int64_t rows, width;
} WidenBatch;

static bool widen_in_batch(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    WidenBatch *w = user;
    (void)index;
    if (buf->space == BUF_LOCAL && is_store && !map_has(w->wide, KEY(buf)))
        map_set(w->wide, KEY(buf), rows_inside(w->k, buf, w->rows, buf == w->b->result ? w->width : buf->dim[buf->rank - 1]));
    return true;
}

/* The only block, for half of the panels at a time. */
static Stmt *halve_panels(Kernel *k, const Batch *b, Stmt *block)
{
    int64_t panels;
    Stmt *loop = block->next;
    if (loop->u.loop.iter == b->loop->u.loop.iter || !loop_extent(loop, &panels)) /* one panel has no loop */
        return block;
    const Iter *half = kernel_iter(k, "h", 0, 1);
    const Expr *first = lx_mul(k, lx_iter(k, half), (panels + 1) / 2);
    loop->u.loop.hi = lx_min(k, lx_add(k, first, lx_int(k, (panels + 1) / 2)), lx_int(k, panels));
    loop->u.loop.lo = first;
    return ls_for(k, half, lx_int(k, 0), lx_int(k, 2), 1, BIND_SEQ, block);
}

static bool tensorize_batch(Kernel *k, const TargetInfo *target)
{
    Batch b;
    Stmt **link = &k->body;
    if (*link && (*link)->kind == LS_IF && !(*link)->next) /* the sizes of the run decide whether there is one */
        link = &(*link)->u.branch.then;
    if (!batch_find(k, *link, &b))
        return false;
    BlockShape chosen = choose_block(target, &b);
    int64_t rows = chosen.tiles;
    WidenBatch w = {.k = k, .b = &b, .wide = map_create(k->arena), .rows = rows, .width = chosen.mma.vectors * LOOP_LANES};
    stmts_each_access(k->arena, b.tiles->u.loop.body, widen_in_batch, &w);
    RowTile row_tile = {.wide = w.wide, .panel = map_get(w.wide, KEY(b.result)), .last = lx_sub(k, b.n_tiles, lx_int(k, 1))};
    const Expr *blocks = round_up(k, b.n_tiles, rows), *all = lx_int(k, rows);
    const Iter *block = kernel_iter(k, "b", 0, blocks->hi - 1), *row = b.tiles->u.loop.iter;
    const Expr *row0 = lx_mul(k, lx_iter(k, block), rows);
    b.c.n_rows = rows;
    b.c.row_size = all;
    Stmt *body = row_segment(k, b.tiles->u.loop.body, b.loop, row, row0, all, &row_tile);
    PanelBody pb = {.c = &b.c, .shape = chosen.mma, .row_tile = &row_tile, .batch = b.loop, .then = b.loop->next,
                    .row = row, .row0 = row0, .n_rows = lx_min(k, all, lx_sub(k, b.n_tiles, row0))};
    body->next = emit_panels(&pb);
    bool only = lx_is_int(blocks, NULL) && blocks->hi == 1;
    body = only ? halve_panels(k, &b, ls_replace_iter(k, body, block, lx_int(k, 0)))
                : ls_for(k, block, lx_int(k, 0), blocks, 1, BIND_SEQ, body);
    while (*link != b.tiles)
        link = &(*link)->next;
    *link = body;
    return true;
}

bool pass_tensorize(PassCtx *pc, Unit *unit)
{
    Schedule *s = unit->schedule;
    bool changed = false;
    for (uint32_t i = 0; i < s->groups.len; i++) {
        Kernel *k = s->groups.data[i]->kernel;
        if (tensorize_nest(k, pc->options->target) || tensorize_rows(k, pc->options->target) ||
            tensorize_batch(k, pc->options->target))
            changed = true;
        changed |= tensorize_columns(k);
    }
    return changed;
}
