/* SPDX-License-Identifier: Apache-2.0
 *
 * parallel: the outermost loops become the tiles that threads claim. Neighbouring outer loops are flattened into one until there
 * are enough tiles; a kernel of less than about 2 us of work stays one tile.
 */
#include "sched/sched_int.h"

enum { WANTED_TILES = 32, MAX_TILES = 256, SMALL_WORK = 200000 /* scalar operations, about 2 us at 16 lanes and 3 GHz */ };

/* Rough count of scalar operations. */
static double work_of(Kernel *k, const Stmt *list)
{
    double total = 0;
    for (const Stmt *s = list; s; s = s->next) {
        double fold = 1;
        switch (s->kind) {
        case LS_FOR: {
            int64_t trips = lx_sub(k, s->u.loop.hi, s->u.loop.lo)->hi; /* the most */
            total += (double)(trips > 1 ? trips : 1) * work_of(k, s->u.loop.body);
            break;
        }
        case LS_IF:
            total += work_of(k, s->u.branch.then);
            break;
        case LS_FOLD:
            for (uint32_t i = 0; i < s->u.fold.n_axes; i++)
                fold *= (double)s->u.fold.axis[i].extent;
            total += fold;
            break;
        case LS_MMA:
            for (uint32_t i = 0; i < s->u.mma.n_axes; i++)
                fold *= (double)s->u.mma.axis[i].extent;
            total += fold * (double)(s->u.mma.rows * s->u.mma.cols);
            break;
        case LS_STORE:
            total += 4;
            break;
        case LS_PUT:
            total += 4 * (double)(s->u.put.rows * s->u.put.cols);
            break;
        default:
            break;
        }
    }
    return total;
}

static bool may_flatten(const Stmt *loop)
{
    const Expr *size = loop_size(loop);
    return loop->u.loop.bind == BIND_SEQ && size && size->hi >= 1;
}

/* for i { for j { B } }  ->  for f in [0, ni*nj) { B with i = f / nj, j = f % nj }, nj at most; where a run has fewer, f skips them. */
static Stmt *flatten(Kernel *k, const Stmt *outer, const Stmt *inner)
{
    const Expr *end = loop_size(outer), *size = loop_size(inner);
    int64_t n_inner = size->hi;
    const Iter *f = kernel_iter(k, "f", 0, end->hi * n_inner - 1);
    const Expr *at = lx_mod(k, lx_iter(k, f), n_inner), *exists = lx_lt(k, at, size);
    Stmt *body = ls_replace_iter(k, inner->u.loop.body, outer->u.loop.iter, lx_div(k, lx_iter(k, f), n_inner));
    body = ls_replace_iter(k, body, inner->u.loop.iter, at);
    if (!lx_is_true(exists))
        body = ls_if(k, exists, body, NULL);
    return ls_for(k, f, lx_int(k, 0), lx_mul(k, end, n_inner), 1, BIND_SEQ, body);
}

/* A tile of several iterations: for f in [0, n) -> for t par { for f in [t*chunk, min(n, t*chunk + chunk)) }; tiles at the largest n. */
static Stmt *chunk_loop(Kernel *k, const Stmt *loop, const Expr *n, int64_t chunk)
{
    int64_t tiles = (n->hi + chunk - 1) / chunk;
    const Iter *t = kernel_iter(k, "tile", 0, tiles - 1);
    const Expr *lo = lx_mul(k, lx_iter(k, t), chunk), *hi = lx_min(k, lx_add(k, lo, lx_int(k, chunk)), n);
    Stmt *inner = ls_for(k, loop->u.loop.iter, lo, hi, 1, BIND_SEQ, loop->u.loop.body);
    return ls_for(k, t, lx_int(k, 0), lx_int(k, tiles), 1, BIND_PAR, inner);
}

/* Whether the loop's iterations need each other. The loops that lower and tensorize make outermost are rows or panels of results,
 * which never do; those of an opaque op are looked at. */
static bool is_serial(Kernel *k, const Stmt *loop, bool opaque)
{
    return opaque && loop_carries(k, loop->u.loop.body, loop->u.loop.iter, true);
}

/* Lists of several statements stay serial. */
static void parallelize(Kernel *k, bool opaque)
{
    Stmt *loop = k->body;
    if (!loop || loop->next || loop->kind != LS_FOR || work_of(k, loop) < SMALL_WORK)
        return;
    if (loop->u.loop.bind == BIND_VEC || !may_flatten(loop) || is_serial(k, loop, opaque))
        return;
    int64_t n = loop_size(loop)->hi;
    while (n < WANTED_TILES && loop->u.loop.body && !loop->u.loop.body->next && loop->u.loop.body->kind == LS_FOR &&
           may_flatten(loop->u.loop.body) && !is_serial(k, loop->u.loop.body, opaque)) {
        loop = flatten(k, loop, loop->u.loop.body);
        n = loop_size(loop)->hi;
    }
    double per_iteration = work_of(k, loop) / (double)n;
    int64_t chunk = 1;
    while (chunk < n && (n / chunk > MAX_TILES || per_iteration * (double)chunk < SMALL_WORK / 8))
        chunk *= 2;
    if (chunk >= n)
        return;
    if (chunk == 1 && lx_is_int(loop->u.loop.hi, NULL))
        k->body = ls_for(k, loop->u.loop.iter, loop->u.loop.lo, loop->u.loop.hi, 1, BIND_PAR, loop->u.loop.body);
    else
        k->body = chunk_loop(k, loop, loop->u.loop.hi, chunk);
}

bool pass_parallel(PassCtx *pc, Unit *unit)
{
    (void)pc;
    Schedule *s = unit->schedule;
    for (uint32_t i = 0; i < s->groups.len; i++)
        parallelize(s->groups.data[i]->kernel, op_info[s->groups.data[i]->nodes.data[0]->op].kind == OK_OPAQUE);
    return true;
}
