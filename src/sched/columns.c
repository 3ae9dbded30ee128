/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of tensorize: products of one row with a matrix whose columns are contiguous in memory along the reduction (a query and the
 * keys that a cache holds; too few rows to pack all of it). Each result is a chain, so lanes must be columns: 16 of them at a time
 * are transposed into a local [K..][16], which vectorize does in registers, and read from there.
 */
#include "sched/sched_int.h"
#include "sched/tile.h"

/* Whether e reads columns, and all that it reads of them is contiguous along `axis` only. */
static bool lies_across(Kernel *k, const Expr *e, const Iter *col, const Iter *axis)
{
    if (e->kind == LX_LOAD)
        return stride_along(k, e, col) > 1 && stride_along(k, e, axis) == 1;
    bool across = false;
    for (uint32_t i = 0; i < e->n_args; i++)
        if (lx_uses_iter(e->arg[i], col)) {
            if (!lies_across(k, e->arg[i], col, axis))
                return false;
            across = true;
        }
    return across;
}

/* The operand of the fold that has such columns along the loop, or NULL. */
static const Expr *columns_across(Kernel *k, const Stmt *fold, const Iter *col)
{
    const Expr *a = fold->u.fold.a, *b = fold->u.fold.b;
    const Iter *last = fold->u.fold.axis[fold->u.fold.n_axes - 1].iter;
    if (!lx_uses_iter(a, col) && lies_across(k, b, col, last))
        return b;
    return !lx_uses_iter(b, col) && lies_across(k, a, col, last) ? a : NULL;
}

/* `for col { chain; lets and stores }` over at least 16 columns of that kind: the operand; else NULL. */
static const Expr *find_columns(Kernel *k, const Stmt *loop)
{
    const Expr *size = loop_size(loop);
    const Stmt *fold = loop->u.loop.body;
    if (loop->u.loop.bind != BIND_SEQ || !size || size->hi < LOOP_LANES || !fold || fold->kind != LS_FOLD || !is_f32_chain(k, fold) ||
        fold->u.fold.guard || fold->u.fold.n_axes == 0 || fold->u.fold.axis[fold->u.fold.n_axes - 1].extent < LOOP_LANES)
        return NULL;
    for (const Stmt *s = fold->next; s; s = s->next)
        if (s->kind != LS_LET && s->kind != LS_STORE)
            return NULL;
    return columns_across(k, fold, loop->u.loop.iter);
}

/* n columns from col0: the transposed copy, and the loop over them that reads it. */
static Stmt *emit_columns(Kernel *k, const Stmt *loop, const Expr *b, const Expr *col0, const Expr *n)
{
    const Stmt *fold = loop->u.loop.body;
    const Iter *col = loop->u.loop.iter, *lane = kernel_iter(k, "l", 0, n->hi - 1), *c = kernel_iter(k, "c", 0, n->hi - 1);
    uint32_t rank = fold->u.fold.n_axes;
    int64_t dim[LOOP_MAX_RANK];
    const Expr *to[LOOP_MAX_RANK], *from[LOOP_MAX_RANK], *value = lx_replace_iter(k, b, col, lx_add(k, col0, lx_iter(k, lane)));
    const Iter *axis[LOOP_MAX_FOLD_ITERS];
    for (uint32_t i = 0; i < rank; i++) {
        const FoldAxis *of = &fold->u.fold.axis[i];
        axis[i] = kernel_iter(k, "k", 0, of->extent - 1);
        value = lx_replace_iter(k, value, of->iter, lx_iter(k, axis[i]));
        dim[i] = of->extent;
        to[i] = lx_iter(k, axis[i]);
        from[i] = lx_iter(k, of->iter);
    }
    dim[rank] = LOOP_LANES;
    to[rank] = lx_iter(k, lane);
    from[rank] = lx_iter(k, c);
    Buf *turned = kernel_buf(k, "turned", DT_F32, BUF_LOCAL, rank + 1, dim);
    Stmt *copy = ls_for(k, lane, lx_int(k, 0), n, 1, BIND_SEQ, ls_store(k, turned, to, value, NULL));
    for (uint32_t i = rank; i-- > 0;)
        copy = ls_for(k, axis[i], lx_int(k, 0), axis_end(k, &fold->u.fold.axis[i]), 1, BIND_SEQ, copy);
    Stmt *body = ls_replace_iter(k, fold, col, lx_add(k, col0, lx_iter(k, c)));
    *(b == fold->u.fold.a ? &body->u.fold.a : &body->u.fold.b) = lx_load(k, turned, from, NULL, NULL);
    copy->next = ls_for(k, c, lx_int(k, 0), n, 1, BIND_SEQ, body);
    return copy;
}

static Stmt *columns_in(Kernel *k, Stmt *list, bool *changed)
{
    Stmt *result = NULL, **tail = &result;
    for (Stmt *s = list, *next; s; s = next) {
        next = s->next;
        s->next = NULL;
        const Expr *b = s->kind == LS_FOR ? find_columns(k, s) : NULL;
        if (b) {
            const Expr *size = loop_size(s), *panels = lx_div(k, size, LOOP_LANES), *rest = lx_mod(k, size, LOOP_LANES);
            const Iter *p = kernel_iter(k, "p", 0, panels->hi - 1);
            Stmt *panel = emit_columns(k, s, b, lx_mul(k, lx_iter(k, p), LOOP_LANES), lx_int(k, LOOP_LANES));
            tail = ls_append(tail, ls_for(k, p, lx_int(k, 0), panels, 1, BIND_SEQ, panel));
            if (!lx_is_int(rest, NULL) || rest->hi > 0)
                tail = ls_append(tail, emit_columns(k, s, b, lx_mul(k, panels, LOOP_LANES), rest));
            *changed = true;
            continue;
        }
        if (s->kind == LS_FOR) {
            s->u.loop.body = columns_in(k, s->u.loop.body, changed);
        } else if (s->kind == LS_IF) {
            s->u.branch.then = columns_in(k, s->u.branch.then, changed);
            s->u.branch.otherwise = columns_in(k, s->u.branch.otherwise, changed);
        }
        tail = ls_append(tail, s);
    }
    return result;
}

bool tensorize_columns(Kernel *k)
{
    bool changed = false;
    k->body = columns_in(k, k->body, &changed);
    return changed;
}
