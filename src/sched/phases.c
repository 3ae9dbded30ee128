/* SPDX-License-Identifier: Apache-2.0
 *
 * phases: a transposed convolution with stride s has taps for every s-th output only: the guard of its chain says
 * (i - k + c) % s == 0. A loop over i with such a guard becomes s loops over every s-th i. In each of them the guard depends on
 * the tap alone, and the input moves with the output by one element, so that rows form tiles. Taps stay in their order and
 * blocks, so bits do.
 */
#include "sched/tile.h"

typedef struct FindPhase {
    Kernel *k;
    const Iter *iter;
    int64_t stride; /* 0: none found */
} FindPhase;

/* A remainder by `stride` of iter +- something. */
static void find_phase(FindPhase *p, const Expr *e)
{
    int64_t coef;
    if (!e || !lx_uses_iter(e, p->iter))
        return;
    if (e->kind == LX_IMOD && p->stride == 0 && lx_linear(p->k, e->arg[0], p->iter, &coef, NULL) && (coef == 1 || coef == -1))
        p->stride = e->u.i;
    for (uint32_t i = 0; i < e->n_args; i++)
        find_phase(p, e->arg[i]);
}

/* for i in [0, n) -> for q in [0, s) { for i' in [0, n / s) }, i = s*i' + q */
static void split_loop(Kernel *k, Nest *nest, uint32_t at, int64_t extent, int64_t stride, Bind bind)
{
    const Iter *old = nest->loop[at]->u.loop.iter;
    const Iter *phase = kernel_iter(k, "q", 0, stride - 1), *iter = kernel_iter(k, old->name, 0, extent / stride - 1);
    const Expr *value = lx_add(k, lx_mul(k, lx_iter(k, iter), stride), lx_iter(k, phase));
    nest_split_at(k, nest, at, phase, iter, value);
    nest->loop[at]->u.loop.bind = bind;
}

static bool split_phases(Kernel *k)
{
    Nest nest = nest_of(k->body);
    Contraction c;
    if (!contraction_find_in_nest(k, &nest, &c))
        return false;
    bool changed = false;
    for (uint32_t i = nest.n; i-- > 0 && nest.n < NEST_MAX_LOOPS;) {
        int64_t extent;
        FindPhase p = {.k = k, .iter = nest.loop[i]->u.loop.iter};
        for (const Stmt *s = nest.body; s; s = s->next)
            if (s->kind == LS_FOLD)
                find_phase(&p, s->u.fold.guard);
        if (p.stride < 2 || !loop_extent(nest.loop[i], &extent) || extent % p.stride || extent == p.stride)
            continue;
        /* the loop that rows will come from: each phase gets code of its own, where the taps beyond an edge are known */
        split_loop(k, &nest, i, extent, p.stride, changed ? BIND_SEQ : BIND_UNROLL);
        changed = true;
    }
    if (changed)
        k->body = nest_rebuild(k, &nest);
    return changed;
}

bool pass_phases(PassCtx *pc, Unit *unit)
{
    Schedule *s = unit->schedule;
    bool changed = false;
    (void)pc;
    for (uint32_t i = 0; i < s->groups.len; i++)
        changed |= split_phases(s->groups.data[i]->kernel);
    return changed;
}
