/* SPDX-License-Identifier: Apache-2.0
 *
 * pack: constant operands of contractions as [N/16][K...][16]: one image serves every register tile and every
 * CPU variant. The data is permuted while it is streamed to the artifact (sched_pack); here only the buffer and the index
 * of the load change, so no bit can. A constant that a channel-wise loop reads with a stride (depthwise filters) is
 * permuted so that the channel is its last axis.
 */
#include "sched/tile.h"

/* Offset of a load as a linear form over iterators; false if anything else is in it. */
static bool linear_in(Kernel *k, const Expr *offset, const Iter *iter, int64_t *coef, const Expr **rest)
{
    return lx_linear(k, offset, iter, coef, rest);
}

static void pack_operand(Contraction *c)
{
    Kernel *k = c->k;
    const Expr *load = c->b;
    const Buf *raw = load->u.buf;
    if (raw->space != BUF_WEIGHT || load->n_args != raw->rank || !c->col)
        return;
    int64_t extent[LOOP_MAX_RANK], stride[LOOP_MAX_RANK], col_coef, coef;
    const Expr *index[LOOP_MAX_RANK], *rest = lx_offset(k, raw, load->arg);
    uint32_t rank = 0;
    if (!linear_in(k, rest, c->col->u.loop.iter, &col_coef, &rest))
        return;
    for (uint32_t i = 0; i < c->n_outer; i++) { /* batch or group axes the constant has */
        const Iter *iter = c->outer[i]->u.loop.iter;
        if (!lx_uses_iter(rest, iter))
            continue;
        if (rank + 3 + c->fold->u.fold.n_axes > LOOP_MAX_RANK || !linear_in(k, rest, iter, &coef, &rest) ||
            !loop_extent(c->outer[i], &extent[rank]))
            return;
        stride[rank] = coef;
        index[rank++] = lx_iter(k, iter);
    }
    const Expr *col = lx_iter(k, c->col->u.loop.iter);
    int64_t n = c->n_cols;
    uint32_t panel = rank;
    extent[rank] = (n + LOOP_LANES - 1) / LOOP_LANES;
    stride[rank] = LOOP_LANES * col_coef;
    index[rank++] = lx_div(k, col, LOOP_LANES);
    for (uint32_t i = 0; i < c->fold->u.fold.n_axes; i++) {
        const FoldAxis *axis = &c->fold->u.fold.axis[i];
        if (!linear_in(k, rest, axis->iter, &coef, &rest))
            return;
        extent[rank] = axis->extent;
        stride[rank] = coef;
        index[rank++] = lx_iter(k, axis->iter);
    }
    extent[rank] = LOOP_LANES;
    stride[rank] = col_coef;
    index[rank++] = lx_mod(k, col, LOOP_LANES);
    int64_t offset;
    if (!lx_is_int(rest, &offset))
        return;
    Buf *packed = kernel_buf(k, str_format(k->ctx, "%s_packed", raw->name), raw->dtype, BUF_WEIGHT, rank, extent);
    Pack *pack = ARENA_NEW(k->arena, Pack);
    pack->weight = raw->pack->weight;
    pack->winograd = raw->pack->winograd;
    pack->offset = offset;
    for (uint32_t i = 0; i < rank; i++)
        pack->stride[i] = stride[i];
    if (n % LOOP_LANES) {
        pack->n_bounds = 1;
        pack->bound[0].coef[panel] = LOOP_LANES;
        pack->bound[0].coef[rank - 1] = 1;
        pack->bound[0].limit = n;
    }
    packed->pack = pack;
    c->fold->u.fold.a = c->a;
    c->fold->u.fold.b = lx_load(k, packed, index, NULL, NULL);
}

/* ---- constants read along lanes ----------------------------------------------------------------------------------------------- */

typedef struct LanePack {
    Kernel *k;
    const LoopStack *stack;
    const Iter *lane;
    int64_t n_lanes;
    const Stmt *fold; /* whose axes are in scope, or NULL */
} LanePack;

/* One axis of the packed constant: the iterator takes its coefficient out of *rest. */
static bool take_axis(LanePack *p, Buf *shape, Pack *pack, const Iter *iter, int64_t extent, const Expr **index, const Expr **rest)
{
    int64_t coef;
    if (!lx_uses_iter(*rest, iter))
        return true;
    if (shape->rank == LOOP_MAX_RANK || !lx_linear(p->k, *rest, iter, &coef, rest))
        return false;
    pack->stride[shape->rank] = coef;
    shape->dim[shape->rank] = extent;
    index[shape->rank++] = lx_iter(p->k, iter);
    return true;
}

static const Expr *pack_strided(void *user, const Expr *load)
{
    LanePack *p = user;
    const Buf *raw = load->u.buf;
    int64_t coef, extent;
    const Expr *rest = lx_offset(p->k, raw, load->arg), *index[LOOP_MAX_RANK];
    if (raw->space != BUF_WEIGHT || load->n_args != raw->rank || !lx_linear(p->k, rest, p->lane, &coef, NULL) || coef == 0 ||
        coef == 1)
        return NULL;
    Buf shape = {.rank = 0};
    Pack *pack = ARENA_NEW(p->k->arena, Pack);
    pack->weight = raw->pack->weight;
    pack->winograd = raw->pack->winograd;
    bool panels = p->fold && p->n_lanes > LOOP_LANES && p->n_lanes % LOOP_LANES == 0;
    if (panels) {
        shape.dim[0] = p->n_lanes / LOOP_LANES;
        pack->stride[0] = LOOP_LANES * coef;
        index[shape.rank++] = lx_div(p->k, lx_iter(p->k, p->lane), LOOP_LANES);
    }
    for (uint32_t i = 0; i < p->stack->n; i++) {
        const Iter *iter = p->stack->loop[i]->u.loop.iter;
        if (iter != p->lane && lx_uses_iter(rest, iter) &&
            (!loop_extent(p->stack->loop[i], &extent) || !take_axis(p, &shape, pack, iter, extent, index, &rest)))
            return NULL;
    }
    for (uint32_t i = 0; p->fold && i < p->fold->u.fold.n_axes; i++)
        if (!take_axis(p, &shape, pack, p->fold->u.fold.axis[i].iter, p->fold->u.fold.axis[i].extent, index, &rest))
            return NULL;
    if (!take_axis(p, &shape, pack, p->lane, panels ? LOOP_LANES : p->n_lanes, index, &rest) || !lx_is_int(rest, &pack->offset))
        return NULL;
    if (panels)
        index[shape.rank - 1] = lx_mod(p->k, lx_iter(p->k, p->lane), LOOP_LANES);
    Buf *packed = kernel_buf(p->k, str_format(p->k->ctx, "%s_packed", raw->name), raw->dtype, BUF_WEIGHT, shape.rank, shape.dim);
    packed->pack = pack;
    return lx_load(p->k, packed, index, NULL, NULL);
}

/* The innermost loop of the stack if its iterations write consecutive elements. */
static const Stmt *lane_loop(Kernel *k, const Stmt *list, const LoopStack *stack)
{
    const Stmt *loop = stack->n ? stack->loop[stack->n - 1] : NULL;
    bool any = false;
    for (const Stmt *s = list; s && loop; s = s->next) {
        int64_t coef;
        if (s->kind != LS_STORE)
            continue;
        any = true;
        if (!lx_linear(k, lx_offset(k, s->u.store.buf, s->u.store.index), loop->u.loop.iter, &coef, NULL) || coef != 1)
            return NULL;
    }
    return any ? loop : NULL;
}

static void pack_lanes(Kernel *k, Stmt *list, const LoopStack *stack)
{
    const Stmt *loop = lane_loop(k, list, stack);
    LanePack p = {.k = k, .stack = stack};
    if (!loop || !loop_extent(loop, &p.n_lanes))
        return;
    p.lane = loop->u.loop.iter;
    ExprSubst subst = {.user = &p, .load = pack_strided};
    for (Stmt *s = list; s; s = s->next) {
        p.fold = s->kind == LS_FOLD ? s : NULL;
        if (s->kind == LS_STORE)
            s->u.store.value = lx_subst(k, s->u.store.value, &subst);
        else if (s->kind == LS_LET)
            s->u.let.value = lx_subst(k, s->u.let.value, &subst);
        else if (s->kind == LS_FOLD) {
            s->u.fold.a = lx_subst(k, s->u.fold.a, &subst);
            s->u.fold.b = s->u.fold.b ? lx_subst(k, s->u.fold.b, &subst) : NULL;
        }
    }
}

static void pack_list(Kernel *k, Stmt *list, LoopStack *stack)
{
    Contraction c;
    if (contraction_find(k, list, stack, false, &c)) {
        pack_operand(&c);
        for (uint32_t i = 0; i < c.n_siblings; i++)
            pack_operand(c.sibling[i]);
    } else {
        pack_lanes(k, list, stack);
    }
    for (Stmt *s = list; s; s = s->next) {
        if (s->kind != LS_FOR || stack->n == NEST_MAX_LOOPS)
            continue;
        stack->loop[stack->n++] = s;
        pack_list(k, s->u.loop.body, stack);
        stack->n--;
    }
}

bool pass_pack(PassCtx *pc, Unit *unit)
{
    (void)pc;
    Schedule *s = unit->schedule;
    for (uint32_t i = 0; i < s->groups.len; i++) {
        LoopStack stack = {.n = 0};
        pack_list(s->groups.data[i]->kernel, s->groups.data[i]->kernel->body, &stack);
    }
    return true;
}
