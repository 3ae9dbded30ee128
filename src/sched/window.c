/* SPDX-License-Identifier: Apache-2.0
 *
 * window: chains over small windows (depthwise convolutions) on tiles of pixels, 16 channels at a time (codegen.md part two, C).
 * A loop nest over rows, columns and a vector of channels around one chain becomes
 *     for row tiles { for column tiles { for channels vec { taps of all pixels of the tile, then their stores } } }
 * with the taps written out as multiply-adds: tap by tap over the pixels, so that a filter element is loaded once, an input
 * element once for all the taps that use it, and the chains of the pixels run side by side. Each chain keeps its order.
 * Guards are decided here: border tiles have constant positions and simply lack the taps outside; in the interior ranges prove
 * the guards. Rows stay one loop (threads claim its iterations), with an arm per border row tile; the interior arm computes with
 * the row clamped to the interior, which is the row itself there, so that ranges say so.
 */
#include "sched/sched_int.h"

enum { MAX_TAPS = 49, MAX_BORDERS = 3, MAX_SUBST = LOOP_MAX_FOLD_ITERS + 2, MAX_LETS = 8 };

typedef struct Window {
    Kernel *k;
    Nest nest; /* row may be absent; then column, channels */
    Stmt *fold, *row, *col, *vec;
    int64_t n_rows, n_cols, tile_rows, tile_cols, taps;
    bool undecided; /* a guard stayed open: nothing is changed */
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
    if (nest->n < 2 || !w->fold || w->fold->kind != LS_FOLD || w->fold->u.fold.kind != FOLD_DOT ||
        w->fold->u.fold.form != FORM_CHAIN || w->fold->u.fold.var->dtype != DT_F32 || w->fold->u.fold.a->dtype != DT_F32 ||
        w->fold->u.fold.b->dtype != DT_F32)
        return false;
    int n_lets = 0;
    for (const Stmt *s = w->fold->next; s; s = s->next) {
        if ((s->kind != LS_LET && s->kind != LS_STORE) || (s->kind == LS_LET && ++n_lets > MAX_LETS))
            return false;
    }
    for (uint32_t i = 0; i < w->fold->u.fold.n_axes; i++)
        w->taps *= w->fold->u.fold.axis[i].extent;
    w->vec = nest->loop[nest->n - 1];
    w->col = nest->loop[nest->n - 2];
    if (w->taps < 2 || w->taps > MAX_TAPS || (w->fold->u.fold.kb > 0 && w->taps > w->fold->u.fold.kb) ||
        w->vec->u.loop.bind != BIND_VEC || !is_pixel_loop(w->col, w->fold, &w->n_cols) ||
        (w->fold->u.fold.guard && lx_uses_iter(w->fold->u.fold.guard, w->vec->u.loop.iter)))
        return false;
    w->n_rows = 1;
    if (nest->n >= 3 && is_pixel_loop(nest->loop[nest->n - 3], w->fold, &w->n_rows))
        w->row = nest->loop[nest->n - 3];
    return true;
}

static void choose_tile(Window *w, const TargetInfo *t)
{
    int64_t room = t->vector_registers * t->f32_lanes / LOOP_LANES; /* registers of 16 lanes */
    w->tile_cols = room >= 32 ? 4 : 2;
    if (room >= 32 && (w->n_cols <= 7 || w->n_cols == 14))
        w->tile_cols = w->n_cols <= 7 ? w->n_cols : 7;
    w->tile_rows = w->row && room >= 32 && w->n_rows % 2 == 0 && w->tile_cols <= 4 ? 2 : 1;
}

/* ---- one tile ----------------------------------------------------------------------------------------------------------------- */

static const Expr *multiply_add(Kernel *k, const Expr *a, const Expr *b, const Expr *c)
{
    return lx_map(k, OP_fma, DT_F32, (const Expr *[]){a, b, c}, 3);
}

/* Tap number `tap` of the pixel (row, col): one more term of its chain, or nothing if it falls outside. */
static Stmt **emit_tap(Window *w, int64_t tap, const Expr *row, const Expr *col, const Expr **acc, Stmt **tail)
{
    const Stmt *f = w->fold;
    Subst s = {0};
    set(&s, w->row, row);
    set(&s, w->col, col);
    for (uint32_t i = f->u.fold.n_axes; i-- > 0;) {
        s.iter[s.n] = f->u.fold.axis[i].iter;
        s.value[s.n++] = lx_int(w->k, tap % f->u.fold.axis[i].extent);
        tap /= f->u.fold.axis[i].extent;
    }
    const Expr *guard = apply(w, &s, f->u.fold.guard);
    if (guard && lx_is_false(guard))
        return tail;
    w->undecided |= guard && !lx_is_true(guard);
    const Var *var = kernel_var(w->k, "f", DT_F32);
    tail = ls_append(tail, ls_let(w->k, var, multiply_add(w->k, apply(w, &s, f->u.fold.a), apply(w, &s, f->u.fold.b), *acc)));
    *acc = lx_var(w->k, var);
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
        tail = ls_append(tail, ls_store(w->k, one->u.store.buf, index, apply(w, &s, one->u.store.value),
                                        apply(w, &s, one->u.store.mask)));
    }
    return tail;
}

typedef struct RowTile {
    const Expr *at, *store_at; /* first row, as the taps see it and as the stores do */
} RowTile;

static Stmt **emit_tile(Window *w, const RowTile *rows, const Expr *col0, int64_t cols, Stmt **tail)
{
    enum { MAX_PIXELS = 16 };
    Kernel *k = w->k;
    const Expr *acc[MAX_PIXELS];
    Stmt *body = NULL, **body_tail = &body;
    IG_CHECK(k->ctx, w->tile_rows * cols <= MAX_PIXELS);
    for (int64_t i = 0; i < w->tile_rows * cols; i++)
        acc[i] = lx_const(k, DT_F32, 0);
    for (int64_t tap = 0; tap < w->taps && !w->undecided; tap++)
        for (int64_t i = 0; i < w->tile_rows * cols; i++)
            body_tail = emit_tap(w, tap, lx_add(k, rows->at, lx_int(k, i / cols)), lx_add(k, col0, lx_int(k, i % cols)), &acc[i],
                                 body_tail);
    for (int64_t i = 0; i < w->tile_rows * cols && !w->undecided; i++)
        body_tail = emit_after(w, lx_add(k, rows->store_at, lx_int(k, i / cols)), lx_add(k, col0, lx_int(k, i % cols)), acc[i],
                               body_tail);
    const Stmt *v = w->vec;
    return ls_append(tail, ls_for(k, v->u.loop.iter, v->u.loop.lo, v->u.loop.hi, 1, BIND_VEC, body));
}

/* ---- rows and columns of tiles -------------------------------------------------------------------------------------------------- */

/* Whether no tap of the `count` positions from base depends on where they are; guard: of the fold, other loop substituted. */
static bool is_interior(Window *w, const Expr *guard, const Stmt *loop, const Expr *base, int64_t count)
{
    if (!guard)
        return true;
    const Iter *r = kernel_iter(w->k, "r", 0, count - 1);
    const Expr *at = lx_add(w->k, base, lx_iter(w->k, r)), *e = lx_replace_iter(w->k, guard, loop->u.loop.iter, at);
    for (uint32_t i = 0; i < e->n_uses; i++) {
        const Iter *used = e->uses[i] & EXPR_USES_VAR ? NULL : w->k->iters.data[e->uses[i]];
        if (used == r || (used && lx_uses_iter(base, used)))
            return false;
    }
    return true;
}

/* Tiles [0, first) and [end, full) and the rest are borders. */
static void find_borders(Window *w, const Expr *guard, const Stmt *loop, int64_t tile, int64_t full, int64_t *first, int64_t *end)
{
    Kernel *k = w->k;
    *first = 0;
    *end = full;
    while (*first < full && !is_interior(w, guard, loop, lx_int(k, *first * tile), tile))
        ++*first;
    while (*end > *first && !is_interior(w, guard, loop, lx_int(k, (*end - 1) * tile), tile))
        --*end;
    w->undecided |= *first > MAX_BORDERS || full - *end > MAX_BORDERS;
}

static Stmt *emit_columns(Window *w, const RowTile *rows)
{
    Kernel *k = w->k;
    Stmt *list = NULL, **tail = &list;
    int64_t t = w->tile_cols, full = w->n_cols / t, rest = w->n_cols % t, first, end;
    const Expr *guard = w->fold->u.fold.guard;
    if (w->row)
        guard = lx_replace_iter(k, guard, w->row->u.loop.iter, rows->at);
    find_borders(w, guard, w->col, t, full, &first, &end);
    for (int64_t i = 0; i < first && !w->undecided; i++)
        tail = emit_tile(w, rows, lx_int(k, i * t), t, tail);
    if (end - first == 1) {
        tail = emit_tile(w, rows, lx_int(k, first * t), t, tail);
    } else if (end > first) {
        const Iter *m = kernel_iter(k, "m", first, end - 1);
        Stmt *body = NULL;
        emit_tile(w, rows, lx_mul(k, lx_iter(k, m), t), t, &body);
        tail = ls_append(tail, ls_for(k, m, lx_int(k, first), lx_int(k, end), 1, BIND_SEQ, body));
    }
    for (int64_t i = end; i < full && !w->undecided; i++)
        tail = emit_tile(w, rows, lx_int(k, i * t), t, tail);
    if (rest)
        emit_tile(w, rows, lx_int(k, full * t), rest, tail);
    return list;
}

static Stmt *emit_arm(Window *w, const Iter *m, const Expr *tile)
{
    RowTile rows = {lx_mul(w->k, tile, w->tile_rows), lx_mul(w->k, lx_iter(w->k, m), w->tile_rows)};
    return emit_columns(w, &rows);
}

/* if m < limit { then } else { otherwise } */
static Stmt *branch(Kernel *k, const Iter *m, int64_t limit, Stmt *then, Stmt *otherwise)
{
    if (!otherwise)
        return then;
    Stmt *s = ls_new(k, LS_IF);
    s->u.branch.cond = lx_lt(k, lx_iter(k, m), lx_int(k, limit));
    s->u.branch.then = then;
    s->u.branch.otherwise = otherwise;
    return s;
}

static Stmt *emit_rows(Window *w)
{
    Kernel *k = w->k;
    if (!w->row)
        return emit_columns(w, &(RowTile){lx_int(k, 0), lx_int(k, 0)});
    int64_t full = w->n_rows / w->tile_rows, first, end;
    const Expr *guard = w->fold->u.fold.guard;
    find_borders(w, guard, w->row, w->tile_rows, full, &first, &end);
    const Iter *m = kernel_iter(k, "m", 0, full - 1);
    Stmt *body = NULL;
    for (int64_t i = full; i-- > end && !w->undecided;)
        body = branch(k, m, i + 1, emit_arm(w, m, lx_int(k, i)), body);
    if (end > first && !w->undecided) {
        const Expr *inside = lx_max(k, lx_min(k, lx_iter(k, m), lx_int(k, end - 1)), lx_int(k, first));
        body = branch(k, m, end, emit_arm(w, m, inside), body);
    }
    for (int64_t i = first; i-- > 0 && !w->undecided;)
        body = branch(k, m, i + 1, emit_arm(w, m, lx_int(k, i)), body);
    return ls_for(k, m, lx_int(k, 0), lx_int(k, full), 1, BIND_SEQ, body);
}

static Stmt *tile_windows(Kernel *k, const TargetInfo *target, Stmt *list, bool *changed)
{
    Stmt *result = NULL, **tail = &result;
    for (Stmt *s = list, *next; s; s = next) {
        Window w;
        next = s->next;
        s->next = NULL;
        if (s->kind == LS_FOR && find_window(k, s, &w)) {
            choose_tile(&w, target);
            Stmt *body = emit_rows(&w);
            if (!w.undecided) {
                w.nest.n -= w.row ? 3 : 2;
                w.nest.body = body;
                s = nest_rebuild(k, &w.nest);
                *changed = true;
            }
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
