/* SPDX-License-Identifier: Apache-2.0
 *
 * groups: a grouped convolution whose groups have 2, 4 or 8 output channels would leave most lanes of a register tile empty. Its
 * loops over the groups and over the channels of one become one loop over all output channels, along which 16 lanes then run, each
 * with its own chain: over the inputs of its group. What the lanes of a vector read lies in one block of the input, of which the
 * emitter makes a load and a shuffle (lx_lane_block), and `window` computes the chains on tiles of pixels, where an input that was
 * shuffled once is used by several taps. Kernels that `window` does not take stay as they are.
 */
#include "sched/tile.h"

/* What 16 lanes from a multiple of 16 channels on read lies in a block, at the first and at the last position of the chain. */
static bool reads_blocks(Kernel *k, const Stmt *fold, const Expr *load, const Iter *channel, int64_t n)
{
    const Iter *chunk = kernel_iter(k, "c", 0, n / LOOP_LANES - 1), *lane = kernel_iter(k, "lane", 0, LOOP_LANES - 1);
    const Expr *at = lx_add(k, lx_mul(k, lx_iter(k, chunk), LOOP_LANES), lx_iter(k, lane));
    const Expr *first = lx_replace_iter(k, lx_offset(k, load->u.buf, load->arg), channel, at), *last = first;
    LaneBlock block;
    for (uint32_t i = 0; i < fold->u.fold.n_axes; i++) {
        const FoldAxis *axis = &fold->u.fold.axis[i];
        first = lx_replace_iter(k, first, axis->iter, lx_int(k, 0));
        last = lx_replace_iter(k, last, axis->iter, lx_int(k, axis->extent - 1));
    }
    return lx_lane_block(k, load->u.buf, first, lane, &block) && lx_lane_block(k, load->u.buf, last, lane, &block);
}

static bool writes_side_by_side(Kernel *k, const Stmt *list, const Iter *channel)
{
    for (const Stmt *s = list; s; s = s->next) {
        int64_t coef;
        if (s->kind == LS_STORE &&
            (!lx_linear(k, lx_offset(k, s->u.store.buf, s->u.store.index), channel, &coef, NULL) || coef != 1))
            return false;
    }
    return true;
}

static bool merge_groups(Kernel *k)
{
    Nest nest = nest_of(k->body);
    Contraction c;
    int64_t groups;
    if (nest.n < 3 || !contraction_find_in_nest(k, &nest, &c) || c.n_siblings || c.b->u.buf->space != BUF_WEIGHT ||
        c.n_cols >= LOOP_LANES || LOOP_LANES % c.n_cols || c.col != nest.loop[nest.n - 1])
        return false;
    const Stmt *outer = nest.loop[nest.n - 2];
    if (!lx_uses_iter(c.a, outer->u.loop.iter) || !lx_uses_iter(c.b, outer->u.loop.iter) || !loop_extent(outer, &groups) ||
        !lx_is_int(c.col_size, NULL) || groups * c.n_cols % LOOP_LANES)
        return false;
    const Iter *channel = kernel_iter(k, "c", 0, groups * c.n_cols - 1);
    const Expr *at = lx_iter(k, channel), *group = lx_div(k, at, c.n_cols), *member = lx_mod(k, at, c.n_cols);
    Stmt *body = ls_replace_iter(k, ls_replace_iter(k, nest.body, outer->u.loop.iter, group), c.col->u.loop.iter, member);
    const Expr *a = lx_replace_iter(k, c.a, outer->u.loop.iter, group);
    Stmt *loop = ls_for(k, channel, lx_int(k, 0), lx_int(k, groups * c.n_cols), 1, BIND_VEC, body);
    nest.n -= 2;
    nest.body = loop;
    if (!reads_blocks(k, c.fold, a, channel, groups * c.n_cols) || !writes_side_by_side(k, body, channel) ||
        !window_takes(k, nest_rebuild(k, &nest)))
        return false;
    loop->u.loop.bind = BIND_SEQ; /* `vectorize` decides */
    k->body = nest_rebuild(k, &nest);
    return true;
}

bool pass_groups(PassCtx *pc, Unit *unit)
{
    Schedule *s = unit->schedule;
    bool changed = false;
    (void)pc;
    for (uint32_t i = 0; i < s->groups.len; i++)
        changed |= merge_groups(s->groups.data[i]->kernel);
    return changed;
}
