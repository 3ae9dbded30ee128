/* SPDX-License-Identifier: Apache-2.0
 *
 * window: chains over small windows (convolutions that are depthwise, or have few channels a group) on tiles of pixels, 16
 * channels at a time.
 * A loop nest over rows, columns and a vector of channels around one chain becomes
 *     for blocks of channels { for row tiles { for column tiles { for channels vec { taps of the tile's pixels, then stores } } } }
 * with the taps written out as multiply-adds: input by input, all the taps that use it, so that inputs and filter elements are
 * loaded once, few of them are alive at a time, and the chains of the pixels run side by side. Each chain keeps its order.
 * Guards are decided here: tiles simply lack the taps outside of the map, and tiles side by side that lack the same ones (of a
 * dilated convolution many do at a border; all in the interior) are one loop, over which ranges prove the guards. Rows stay one
 * loop (threads claim its iterations), with an arm for each stretch of rows that lack the same taps; an arm computes with the row
 * clamped to the stretch, which is the row itself there, so that ranges say so. The last tile of a stretch may have fewer rows.
 */
#include "sched/sched_int.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TAPS = 128, MAX_STRETCHES = 7, MAX_SUBST = LOOP_MAX_FOLD_ITERS + 2, MAX_LETS = 8, MAX_PIXELS = 14 };
enum { MAX_FMAS = 720 }; /* of a tile: written out, they are its code */

typedef struct Window {
    Kernel *k;
    Nest nest; /* row may be absent; then column, channels */
    Stmt *fold, *row, *col, *vec;
    int64_t n_rows, n_cols, tile_rows, tile_cols, taps;
    const int64_t *col_stretch;  /* of each column: those side by side that lack the same taps have one number */
    const Expr *vec_lo, *vec_hi; /* of the channels of a block */
    const Iter *block;           /* NULL: there is one */
    int64_t n_blocks;
    bool blocks_outside; /* of the rows, or around one vector */
    bool grouped;        /* the lanes of an input are no neighbours: shuffled for all the taps that use it */
    bool rolled;         /* what is behind the fold is long */
    bool undecided;      /* a guard stayed open: nothing is changed */
} Window;

typedef struct Subst {
    uint32_t n, n_vars;
    const Iter *iter[MAX_SUBST];
    const Expr *value[MAX_SUBST];
    const Var *var[MAX_LETS + 1];
    const Expr *var_value[MAX_LETS + 1];
} Subst;

static const Expr *subst_iter(void *user, const Iter *iter)
{
    const Subst *s = user;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->iter[i] == iter)
            return s->value[i];
    return NULL;
}

static const Expr *subst_var(void *user, const Var *var)
{
    const Subst *s = user;
    for (uint32_t i = 0; i < s->n_vars; i++)
        if (s->var[i] == var)
            return s->var_value[i];
    return NULL;
}

static const Expr *apply(const Window *w, Subst *s, const Expr *e)
{
    return e ? lx_subst(w->k, e, &(ExprSubst){.user = s, .iter = subst_iter, .var = subst_var}) : NULL;
}

static void set(Subst *s, const Stmt *loop, const Expr *value)
{
    if (!loop)
        return;
    s->iter[s->n] = loop->u.loop.iter;
    s->value[s->n++] = value;
}

/* ---- finding -------------------------------------------------------------------------------------------------------------- */

static bool is_pixel_loop(const Stmt *loop, const Stmt *fold, int64_t *extent)
{
    const Iter *iter = loop->u.loop.iter;
    return loop->u.loop.bind == BIND_SEQ && loop_extent(loop, extent) && *extent >= 2 && lx_uses_iter(fold->u.fold.a, iter) &&
           !lx_uses_iter(fold->u.fold.b, iter);
}

static bool find_window(Kernel *k, Stmt *list, Window *w)
{
    *w = (Window){.k = k, .nest = nest_of(list), .taps = 1};
    Nest *nest = &w->nest;
    w->fold = nest->body;
    if (nest->n < 2 || !w->fold || w->fold->kind != LS_FOLD || w->fold->u.fold.kind != FOLD_DOT || w->fold->u.fold.form != FORM_CHAIN ||
        w->fold->u.fold.var->dtype != DT_F32 || w->fold->u.fold.a->dtype != DT_F32 || w->fold->u.fold.b->dtype != DT_F32)
        return false;
    int n_lets = 0;
    for (const Stmt *s = w->fold->next; s; s = s->next) {
        if ((s->kind != LS_LET && s->kind != LS_STORE) || (s->kind == LS_LET && ++n_lets > MAX_LETS))
            return false;
    }
    for (uint32_t i = 0; i < w->fold->u.fold.n_axes; i++) {
        if (w->fold->u.fold.axis[i].size) /* taps are written out */
            return false;
        w->taps *= w->fold->u.fold.axis[i].extent;
    }
    w->vec = nest->loop[nest->n - 1];
    w->col = nest->loop[nest->n - 2];
    if (w->taps < 2 || w->taps > MAX_TAPS || (w->fold->u.fold.kb > 0 && w->taps > w->fold->u.fold.kb) || w->vec->u.loop.bind != BIND_VEC ||
        !is_pixel_loop(w->col, w->fold, &w->n_cols) || (w->fold->u.fold.guard && lx_uses_iter(w->fold->u.fold.guard, w->vec->u.loop.iter)))
        return false;
    const Expr *a = w->fold->u.fold.a;
    int64_t coef;
    w->grouped = a->kind == LX_LOAD && !lx_linear(k, lx_offset(k, a->u.buf, a->arg), w->vec->u.loop.iter, &coef, NULL);
    w->n_rows = 1;
    if (nest->n >= 3 && is_pixel_loop(nest->loop[nest->n - 3], w->fold, &w->n_rows))
        w->row = nest->loop[nest->n - 3];
    return true;
}

/* How many positions of the loop further on the same inputs come again: 1 unless dilated. */
static int64_t distance(Kernel *k, const Stmt *fold, const Iter *position)
{
    const Expr *a = fold->u.fold.a;
    for (uint32_t i = 0; a->kind == LX_LOAD && i < a->u.buf->rank; i++) {
        int64_t stride, dilation;
        if (!lx_linear(k, a->arg[i], position, &stride, NULL) || stride <= 0)
            continue;
        for (uint32_t j = 0; j < fold->u.fold.n_axes; j++)
            if (lx_linear(k, a->arg[i], fold->u.fold.axis[j].iter, &dilation, NULL) && dilation > 0)
                return dilation / gcd_s64(dilation, stride);
    }
    return 1;
}

/* A dilated convolution is several plain ones, each of every second (third ..) row and column: loops over these go around the rows. */
static bool split_dilated(Window *w)
{
    Nest *nest = &w->nest;
    Stmt *pixels[] = {w->row, w->col};
    uint32_t outer = nest->n - (w->row ? 3 : 2), at = outer;
    bool is_split = false;
    for (int i = 0; i < 2; i++) {
        int64_t *n = i ? &w->n_cols : &w->n_rows, apart = pixels[i] ? distance(w->k, w->fold, pixels[i]->u.loop.iter) : 1;
        if (pixels[i] && apart > 1 && *n % apart == 0 && *n / apart > 1 && nest->n < NEST_MAX_LOOPS) {
            const Iter *phase = kernel_iter(w->k, "phase", 0, apart - 1);
            const Iter *each = kernel_iter(w->k, pixels[i]->u.loop.iter->name, 0, *n / apart - 1);
            nest_split_at(w->k, nest, at, phase, each, lx_add(w->k, lx_mul(w->k, lx_iter(w->k, each), apart), lx_iter(w->k, phase)));
            Stmt *loop = nest->loop[at]; /* outside of all pixels */
            memmove(&nest->loop[outer + 1], &nest->loop[outer], (at - outer) * sizeof(Stmt *));
            nest->loop[outer++] = loop;
            *n /= apart;
            at++;
            is_split = true;
        }
        at += pixels[i] != NULL;
    }
    w->fold = nest->body;
    w->col = nest->loop[nest->n - 2];
    w->row = w->row ? nest->loop[nest->n - 3] : NULL;
    return is_split;
}

bool window_takes(Kernel *k, Stmt *list)
{
    Window w;
    return find_window(k, list, &w);
}

static bool loads_weights_only(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    (void)user;
    (void)index;
    return is_store || buf->space == BUF_WEIGHT;
}

/* Where the channels of a trip begin and end, and how many trips there are. Rows that fit L1 only in part go by blocks of channels
 * around the rows; wide ones do not: what lies side by side is read together then. Channels that are no whole vectors end with one
 * that computes some of its lanes over again, one code for all, if nothing is read behind the fold that might lie in the place of
 * the result. */
static void choose_channels(Window *w)
{
    enum { BLOCK_VECTORS = 6, MOST_COLUMNS = 14 };
    Kernel *k = w->k;
    int64_t channels, each = 1;
    w->vec_lo = w->vec->u.loop.lo;
    w->vec_hi = w->vec->u.loop.hi;
    if (!loop_extent(w->vec, &channels) || channels <= LOOP_LANES)
        return;
    int64_t vectors = (channels + LOOP_LANES - 1) / LOOP_LANES;
    bool whole = channels % LOOP_LANES == 0, narrow = w->n_cols <= MOST_COLUMNS;
    if (whole ? !narrow || vectors <= BLOCK_VECTORS : !stmts_each_access(k->arena, w->fold->next, loads_weights_only, NULL))
        return;
    if (whole) {
        int64_t blocks = (vectors + BLOCK_VECTORS - 1) / BLOCK_VECTORS;
        each = (vectors + blocks - 1) / blocks;
    }
    w->n_blocks = (vectors + each - 1) / each;
    w->block = kernel_iter(k, "b", 0, w->n_blocks - 1);
    w->blocks_outside = whole;
    const Expr *first = lx_mul(k, lx_iter(k, w->block), each), *n = lx_min(k, lx_sub(k, lx_int(k, vectors), first), lx_int(k, each));
    w->vec_lo = lx_mul(k, first, LOOP_LANES);
    if (!whole)
        w->vec_lo = lx_min(k, w->vec_lo, lx_int(k, channels - LOOP_LANES));
    w->vec_hi = lx_add(k, w->vec_lo, lx_mul(k, n, LOOP_LANES));
}

/* As measured: what fits the registers is 2 x 7 pixels and the filter's elements for two rows, but maps wider than two such tiles
 * gain nothing over 2 x 4, and 1 x 2 in half the registers, which are less code; grouped ones do best at 2 x 4 (doc/performance.md). */
static void choose_tile(Window *w, const TargetInfo *t)
{
    enum { MOST_NARROW = 7, WIDE = 4 };
    int64_t room = t->vector_registers * t->f32_lanes / LOOP_LANES; /* registers of 16 lanes */
    w->tile_cols = room < 32 && w->n_cols > 2 * MOST_NARROW ? 2 : w->n_cols < WIDE ? w->n_cols : WIDE;
    w->tile_rows = room >= 32 && w->n_rows > 1 ? 2 : 1;
    if (room >= 32 && w->n_cols <= 2 * MOST_NARROW) {
        int64_t tiles = (w->n_cols + MOST_NARROW - 1) / MOST_NARROW;
        w->tile_cols = (w->n_cols + tiles - 1) / tiles;
    }
    if (w->grouped) {
        w->tile_cols = w->n_cols < WIDE ? w->n_cols : WIDE;
        w->tile_rows = w->n_rows > 1 ? 2 : 1;
    }
    while (w->tile_rows * w->tile_cols * w->taps > MAX_FMAS)
        *(w->tile_rows > 1 ? &w->tile_rows : &w->tile_cols) -= 1;
    choose_channels(w);
}

/* ---- one tile ----------------------------------------------------------------------------------------------------------------- */

static const Expr *multiply_add(Kernel *k, const Expr *a, const Expr *b, const Expr *c)
{
    return lx_map(k, OP_fma, DT_F32, (const Expr *[]){a, b, c}, 3);
}

typedef struct RowTile {
    const Expr *at, *store_at; /* first row, as the taps see it and as the stores do */
    int64_t n;
} RowTile;

typedef struct Tap {
    const Expr *a, *b;
    int64_t at, tap, pixel; /* where in memory a lies, from the first one on; number of the tap; which chain it belongs to */
} Tap;

/* Tap number t->tap of the pixel (row, col); false if it falls outside. */
static bool find_tap(Window *w, const Expr *row, const Expr *col, Tap *t)
{
    const Stmt *f = w->fold;
    Subst s = {0};
    int64_t tap = t->tap;
    set(&s, w->row, row);
    set(&s, w->col, col);
    for (uint32_t i = f->u.fold.n_axes; i-- > 0;) {
        s.iter[s.n] = f->u.fold.axis[i].iter;
        s.value[s.n++] = lx_int(w->k, tap % f->u.fold.axis[i].extent);
        tap /= f->u.fold.axis[i].extent;
    }
    const Expr *guard = apply(w, &s, f->u.fold.guard);
    if (guard && lx_is_false(guard))
        return false;
    w->undecided |= guard && !lx_is_true(guard);
    t->a = apply(w, &s, f->u.fold.a);
    t->b = apply(w, &s, f->u.fold.b);
    return true;
}

static int compare_taps(const void *a, const void *b)
{
    const Tap *x = a, *y = b;
    int64_t x_key[] = {x->at, x->tap, x->pixel}, y_key[] = {y->at, y->tap, y->pixel};
    for (int i = 0; i < 3; i++)
        if (x_key[i] != y_key[i])
            return x_key[i] < y_key[i] ? -1 : 1;
    return 0;
}

/* Input by input as they lie in memory, if each chain then meets its taps in their order: an input is read once and needs no
 * register for long, and filter elements are needed as long as their row is. Else the order is that of the taps. */
static void order_by_input(const Window *w, Tap *tap, int64_t n)
{
    int64_t last[MAX_PIXELS];
    Kernel *k = w->k;
    for (int64_t i = 0; i < n; i++) {
        if (tap[i].a->kind != LX_LOAD || tap[i].a->n_args != tap[i].a->u.buf->rank || tap[i].a->u.buf != tap[0].a->u.buf)
            return;
        const Buf *buf = tap[i].a->u.buf;
        if (!lx_is_int(lx_sub(k, lx_offset(k, buf, tap[i].a->arg), lx_offset(k, buf, tap[0].a->arg)), &tap[i].at))
            return;
    }
    for (int pixel = 0; pixel < MAX_PIXELS; pixel++)
        last[pixel] = INT64_MIN;
    for (int64_t i = 0; i < n; i++) { /* in the order of the taps so far */
        if (tap[i].at < last[tap[i].pixel])
            return;
        last[tap[i].pixel] = tap[i].at;
    }
    qsort(tap, (size_t)n, sizeof *tap, compare_taps);
}

/* The chains of a tile's pixels. */
static Stmt **emit_chains(Window *w, const RowTile *rows, const Expr *col0, int64_t cols, const Expr **acc, Stmt **tail)
{
    Kernel *k = w->k;
    int64_t n = 0;
    Tap *tap = ARENA_ARRAY(k->arena, Tap, w->taps * rows->n * cols);
    for (int64_t i = 0; i < w->taps; i++)
        for (int64_t pixel = 0; pixel < rows->n * cols; pixel++) {
            tap[n] = (Tap){.tap = i, .pixel = pixel};
            const Expr *row = lx_add(k, rows->at, lx_int(k, pixel / cols)), *col = lx_add(k, col0, lx_int(k, pixel % cols));
            n += find_tap(w, row, col, &tap[n]);
        }
    order_by_input(w, tap, n);
    for (int64_t i = 0; i < rows->n * cols; i++)
        acc[i] = lx_const(k, DT_F32, 0);
    for (int64_t i = 0; i < n; i++) {
        const Var *var = kernel_var(k, "f", DT_F32);
        tail = ls_append(tail, ls_let(k, var, multiply_add(k, tap[i].a, tap[i].b, acc[tap[i].pixel])));
        acc[tap[i].pixel] = lx_var(k, var);
    }
    return tail;
}

/* The statements behind the fold, for one pixel. */
static Stmt **emit_after(Window *w, const Expr *row, const Expr *col, const Expr *acc, Stmt **tail)
{
    Subst s = {.n_vars = 1, .var = {w->fold->u.fold.var}, .var_value = {acc}};
    set(&s, w->row, row);
    set(&s, w->col, col);
    for (const Stmt *one = w->fold->next; one; one = one->next) {
        if (one->kind == LS_LET) {
            s.var[s.n_vars] = one->u.let.var;
            s.var_value[s.n_vars] = apply(w, &s, one->u.let.value);
            s.n_vars++;
            continue;
        }
        const Expr **index = ARENA_ARRAY(w->k->arena, const Expr *, one->u.store.n_index + 1);
        for (uint32_t i = 0; i < one->u.store.n_index; i++)
            index[i] = apply(w, &s, one->u.store.index[i]);
        tail = ls_append(tail, ls_store(w->k, one->u.store.buf, index, apply(w, &s, one->u.store.value), apply(w, &s, one->u.store.mask)));
    }
    return tail;
}

static bool is_short(void *user, const Expr *e)
{
    if (map_has(user, KEY(e)))
        return true;
    map_set(user, KEY(e), user);
    bool is_all = e->kind != LX_MAP || e->op == OP_div || !(op_info[e->op].traits & OT_COSTLY);
    for (uint32_t i = 0; i < e->n_args && is_all; i++)
        is_all = is_short(user, e->arg[i]);
    return is_all;
}

static Stmt *around_blocks(const Window *w, Stmt *body)
{
    return ls_for(w->k, w->block, lx_int(w->k, 0), lx_int(w->k, w->n_blocks), 1, BIND_SEQ, body);
}

static Stmt *emit_channels(const Window *w, Stmt *body)
{
    return ls_for(w->k, w->vec->u.loop.iter, w->vec_lo, w->vec_hi, 1, BIND_VEC, body);
}

/* What is behind the folds in loops over the pixels of a tile, whose chains' results wait in memory: much less code where it
 * is long. chains: the list that makes them, with its end. */
static Stmt *emit_rolled(Window *w, const RowTile *rows, const Expr *col0, int64_t cols, const Expr *const *acc, Stmt **chains, Stmt **tail)
{
    Kernel *k = w->k;
    int64_t width = lx_sub(k, w->vec_hi, w->vec_lo)->hi;
    Buf *buf = kernel_buf(k, "chains", DT_F32, BUF_LOCAL, 3, (int64_t[]){rows->n, cols, width});
    const Expr *lane = lx_sub(k, lx_iter(k, w->vec->u.loop.iter), w->vec_lo);
    for (int64_t i = 0; i < rows->n * cols; i++) {
        const Expr *at[] = {lx_int(k, i / cols), lx_int(k, i % cols), lane};
        tail = ls_append(tail, ls_store(k, buf, arena_copy(k->arena, at, sizeof at), acc[i], NULL));
    }
    const Iter *y = kernel_iter(k, "y", 0, rows->n - 1), *x = kernel_iter(k, "x", 0, cols - 1);
    const Expr *at[] = {lx_iter(k, y), lx_iter(k, x), lane};
    const Expr *result = lx_load(k, buf, at, NULL, NULL);
    Stmt *after = NULL, *list = emit_channels(w, *chains);
    emit_after(w, lx_add(k, rows->store_at, at[0]), lx_add(k, col0, at[1]), result, &after);
    after = ls_for(k, x, lx_int(k, 0), lx_int(k, cols), 1, BIND_SEQ, emit_channels(w, after));
    list->next = ls_for(k, y, lx_int(k, 0), lx_int(k, rows->n), 1, BIND_SEQ, after);
    return list;
}

static Stmt **emit_tile(Window *w, const RowTile *rows, const Expr *col0, int64_t cols, Stmt **tail)
{
    Kernel *k = w->k;
    const Expr *acc[MAX_PIXELS];
    Stmt *body = NULL, **body_tail = &body;
    IG_CHECK(k->ctx, rows->n * cols <= MAX_PIXELS);
    body_tail = emit_chains(w, rows, col0, cols, acc, body_tail);
    if (w->rolled && rows->n * cols > 1) {
        body = emit_rolled(w, rows, col0, cols, acc, &body, body_tail);
    } else {
        for (int64_t i = 0; i < rows->n * cols && !w->undecided; i++)
            body_tail =
                emit_after(w, lx_add(k, rows->store_at, lx_int(k, i / cols)), lx_add(k, col0, lx_int(k, i % cols)), acc[i], body_tail);
        body = emit_channels(w, body);
    }
    if (w->block && !w->blocks_outside)
        body = around_blocks(w, body);
    return ls_append(tail, body);
}

/* ---- rows and columns of tiles -------------------------------------------------------------------------------------------------- */

/* Whether the positions [first, first + n) have the same taps on the map; one of the fold's axes decides on each loop. */
static bool is_alike(const Window *w, const Stmt *loop, int64_t first, int64_t n)
{
    Kernel *k = w->k;
    const Iter *r = kernel_iter(k, "r", first, first + n - 1);
    const Expr *guard = lx_replace_iter(k, w->fold->u.fold.guard, loop->u.loop.iter, lx_iter(k, r));
    bool is_decided = !lx_uses_iter(guard, r);
    for (uint32_t i = 0; i < w->fold->u.fold.n_axes && !is_decided; i++) {
        const FoldAxis *axis = &w->fold->u.fold.axis[i];
        is_decided = true;
        for (int64_t tap = 0; tap < axis->extent && is_decided; tap++)
            is_decided = !lx_uses_iter(lx_replace_iter(k, guard, axis->iter, lx_int(k, tap)), r);
    }
    return is_decided;
}

/* Number of the stretch of positions with the same taps that each of n positions lies in. */
static const int64_t *find_stretches(Window *w, const Stmt *loop, int64_t n)
{
    int64_t *stretch = ARENA_ARRAY(w->k->arena, int64_t, n), number = 0;
    for (int64_t first = 0, len; first < n && !w->undecided; first += len, number++) {
        int64_t least = 1, most = w->fold->u.fold.guard ? n - first : 1;
        len = w->fold->u.fold.guard ? 0 : n;
        while (!len && least < most) {
            int64_t middle = (least + most + 1) / 2;
            if (is_alike(w, loop, first, middle))
                least = middle;
            else
                most = middle - 1;
        }
        len = len ? len : least;
        for (int64_t i = 0; i < len; i++)
            stretch[first + i] = number;
        w->undecided |= number == MAX_STRETCHES;
    }
    return stretch;
}

/* Tiles that lack the same taps are one loop. */
static Stmt *emit_columns(Window *w, const RowTile *rows)
{
    Kernel *k = w->k;
    Stmt *list = NULL, **tail = &list;
    int64_t t = w->tile_cols, full = w->n_cols / t, rest = w->n_cols % t;
    for (int64_t first = 0, end; first < full && !w->undecided; first = end) {
        for (end = first + 1; end < full && !memcmp(w->col_stretch + first * t, w->col_stretch + end * t, (size_t)t * sizeof(int64_t));)
            end++;
        if (end - first == 1) {
            tail = emit_tile(w, rows, lx_int(k, first * t), t, tail);
            continue;
        }
        const Iter *m = kernel_iter(k, "m", first, end - 1);
        Stmt *body = NULL;
        emit_tile(w, rows, lx_mul(k, lx_iter(k, m), t), t, &body);
        tail = ls_append(tail, ls_for(k, m, lx_int(k, first), lx_int(k, end), 1, BIND_SEQ, body));
    }
    if (rest)
        emit_tile(w, rows, lx_int(k, full * t), rest, tail);
    return list;
}

/* Trips [trip, trip + tiles) of the loop over m do `n` rows each from `row` on, in front of the trips that `others` does. */
static Stmt *emit_arm(Window *w, const Iter *m, int64_t trip, int64_t tiles, int64_t row, int64_t n, Stmt *others)
{
    Kernel *k = w->k;
    const Expr *at = lx_iter(k, m), *start = lx_int(k, row - trip * n);
    const Expr *inside = lx_max(k, lx_min(k, at, lx_int(k, trip + tiles - 1)), lx_int(k, trip));
    RowTile rows = {lx_add(k, lx_mul(k, inside, n), start), lx_add(k, lx_mul(k, at, n), start), n};
    Stmt *arm = emit_columns(w, &rows);
    return others ? ls_if(k, lx_lt(k, at, lx_int(k, trip + tiles)), arm, others) : arm;
}

/* Rows that lack the same taps in tiles, of which the last may have fewer. */
static Stmt *emit_rows(Window *w)
{
    Kernel *k = w->k;
    w->col_stretch = find_stretches(w, w->col, w->n_cols);
    if (!w->row)
        return emit_columns(w, &(RowTile){lx_int(k, 0), lx_int(k, 0), 1});
    const int64_t *stretch = find_stretches(w, w->row, w->n_rows);
    struct {
        int64_t row, tiles, n;
    } arm[2 * (MAX_STRETCHES + 1)];
    int64_t n_arms = 0, trips = 0;
    for (int64_t row = 0, end; row < w->n_rows && !w->undecided; row = end) {
        for (end = row; end < w->n_rows && stretch[end] == stretch[row];)
            end++;
        for (int64_t n = w->tile_rows; row < end; n = end - row) {
            if (row + n > end)
                continue;
            arm[n_arms].row = row;
            arm[n_arms].n = n;
            arm[n_arms].tiles = (end - row) / n;
            trips += arm[n_arms].tiles;
            row += n * arm[n_arms++].tiles;
        }
    }
    if (w->undecided)
        return NULL;
    const Iter *m = kernel_iter(k, "m", 0, trips - 1);
    Stmt *body = NULL;
    for (int64_t i = n_arms, trip = trips; i-- > 0 && !w->undecided;) {
        trip -= arm[i].tiles;
        body = emit_arm(w, m, trip, arm[i].tiles, arm[i].row, arm[i].n, body);
    }
    return ls_for(k, m, lx_int(k, 0), lx_int(k, trips), 1, BIND_SEQ, body);
}

/* The nest on tiles, or NULL. */
static Stmt *tile_window(Window w, const TargetInfo *target)
{
    choose_tile(&w, target);
    w.rolled = !stmts_each_expr(w.fold->next, is_short, map_create(w.k->arena));
    Stmt *body = emit_rows(&w);
    if (w.undecided)
        return NULL;
    w.nest.body = w.block && w.blocks_outside ? around_blocks(&w, body) : body;
    w.nest.n -= w.row ? 3 : 2;
    return nest_rebuild(w.k, &w.nest);
}

static Stmt *tile_windows(Kernel *k, const TargetInfo *target, Stmt *list, bool *changed)
{
    Stmt *result = NULL, **tail = &result;
    for (Stmt *s = list, *next; s; s = next) {
        Window w;
        next = s->next;
        s->next = NULL;
        if (s->kind == LS_FOR && find_window(k, s, &w)) {
            Window split = w;
            Stmt *tiled = split_dilated(&split) ? tile_window(split, target) : NULL;
            tiled = tiled ? tiled : tile_window(w, target);
            *changed |= tiled != NULL;
            s = tiled ? tiled : s;
        } else if (s->kind == LS_FOR) {
            s->u.loop.body = tile_windows(k, target, s->u.loop.body, changed);
        }
        tail = ls_append(tail, s); /* a rebuilt nest may be a list */
    }
    return result;
}

bool pass_window(PassCtx *pc, Unit *unit)
{
    Schedule *s = unit->schedule;
    bool changed = false;
    for (uint32_t i = 0; i < s->groups.len; i++) {
        Kernel *k = s->groups.data[i]->kernel;
        k->body = tile_windows(k, pc->options->target, k->body, &changed);
    }
    return changed;
}
