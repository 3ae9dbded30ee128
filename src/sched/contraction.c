/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding contractions: which operand gives the columns, which loops are rows and columns.
 */
#include "sched/tile.h"

bool is_plain_load(const Expr *e) { return e && e->kind == LX_LOAD && e->n_args == e->u.buf->rank && e->dtype == DT_F32; }

int64_t stride_along(Kernel *k, const Expr *load, const Iter *iter)
{
    int64_t coef;
    const Buf *buf = load->u.buf;
    if (lx_linear(k, lx_offset(k, buf, load->arg), iter, &coef, NULL))
        return coef;
    const Expr *last = load->arg[buf->rank - 1];
    return last == lx_mod(k, lx_iter(k, iter), LOOP_LANES) && buf->pack ? 1 : 0;
}

/* only: the column loop to use, NULL: any. */
static bool try_columns(Contraction *c, const LoopStack *stack, const Stmt *only, const Expr *a, const Expr *b, int *best)
{
    bool is_load = is_plain_load(b), is_weight = is_load && b->u.buf->space == BUF_WEIGHT;
    bool found = false;
    const Expr *guard = c->fold->u.fold.guard;
    for (uint32_t i = 0; i < stack->n; i++) {
        Stmt *loop = stack->loop[i];
        const Iter *iter = loop->u.loop.iter;
        const Expr *size = loop_size(loop);
        if ((only && loop != only) || lx_uses_iter(a, iter) || !lx_uses_iter(b, iter) || (guard && lx_uses_iter(guard, iter)) ||
            !size || size->hi < 2)
            continue;
        int64_t extent = size->hi;
        int64_t stride = is_load ? stride_along(c->k, b, iter) : 0;
        int score = (is_weight ? 8 : 0) + (stride == 1 ? 4 : stride != 0) + (extent >= LOOP_LANES ? 2 : 0) + (i + 1 == stack->n);
        if ((is_load && stride == 0) || score <= *best)
            continue;
        *best = score;
        c->a = a;
        c->b = b;
        c->col = loop;
        c->n_cols = extent;
        c->col_size = size;
        c->col_stride = stride;
        found = true;
    }
    return found;
}

static void choose_row(Contraction *c, const LoopStack *stack)
{
    c->row = NULL;
    c->n_rows = 1;
    c->row_size = lx_int(c->k, 1);
    c->n_outer = 0;
    for (uint32_t i = stack->n; i-- > 0;) {
        Stmt *loop = stack->loop[i];
        const Iter *iter = loop->u.loop.iter;
        const Expr *size = loop_size(loop);
        if (loop == c->col || c->row || lx_uses_iter(c->b, iter) || !lx_uses_iter(c->a, iter) || !size ||
            (is_plain_load(c->a) && stride_along(c->k, c->a, iter) == 0))
            continue;
        c->row = loop;
        c->n_rows = size->hi;
        c->row_size = size;
    }
    for (uint32_t i = 0; i < stack->n; i++)
        if (stack->loop[i] != c->col && stack->loop[i] != c->row) {
            c->b_uses[c->n_outer] = lx_uses_iter(c->b, stack->loop[i]->u.loop.iter);
            c->outer[c->n_outer++] = stack->loop[i];
        }
}

bool is_f32_chain(Kernel *k, const Stmt *s)
{
    for (uint32_t i = 0; i < s->u.fold.n_axes; i++)
        if (axis_end(k, &s->u.fold.axis[i])->lo < 1)
            return false;
    return s->u.fold.kind == FOLD_DOT && s->u.fold.form == FORM_CHAIN && s->u.fold.var->dtype == DT_F32 &&
           s->u.fold.a->dtype == DT_F32 && s->u.fold.b->dtype == DT_F32;
}

/* The operands and loops of one fold. */
static bool take_fold(Contraction *c, Stmt *fold, const LoopStack *stack, const Stmt *col, bool any_operand)
{
    int best = -1;
    c->fold = fold;
    if (!is_f32_chain(c->k, fold) || (!any_operand && (!is_plain_load(fold->u.fold.a) || !is_plain_load(fold->u.fold.b))))
        return false;
    try_columns(c, stack, col, fold->u.fold.a, fold->u.fold.b, &best);
    try_columns(c, stack, col, fold->u.fold.b, fold->u.fold.a, &best);
    if (!c->col)
        return false;
    choose_row(c, stack);
    /* packing activations pays only if several rows read the packed panel */
    bool is_weight = is_plain_load(c->b) && c->b->u.buf->space == BUF_WEIGHT;
    return c->col_stride == 1 || is_weight || (c->n_rows >= MIN_ROWS_TO_PACK && c->n_cols >= LOOP_LANES / 2);
}

/* A sibling's second operand is a constant, packed or to be packed, with the loops of c. */
static bool take_sibling(Contraction *c, Stmt *fold, const LoopStack *stack)
{
    Contraction s = {.k = c->k};
    if (!take_fold(&s, fold, stack, c->col, false) || s.row != c->row || s.b->u.buf->space != BUF_WEIGHT || fold->u.fold.guard)
        return false;
    for (uint32_t i = 0; i < c->n_outer; i++)
        if (s.b_uses[i] != c->b_uses[i])
            return false;
    c->sibling[c->n_siblings++] = arena_copy(c->k->arena, &s, sizeof s);
    return true;
}

bool contraction_find(Kernel *k, Stmt *list, const LoopStack *stack, bool any_operand, Contraction *c)
{
    *c = (Contraction){.k = k};
    Stmt *fold[MAX_SIBLINGS + 1];
    uint32_t n = 0;
    for (Stmt *s = list; s; s = s->next) {
        if (s->kind == LS_FOLD && !c->after && n <= MAX_SIBLINGS)
            fold[n++] = s;
        else if ((s->kind == LS_LET || s->kind == LS_STORE) && n)
            c->after = c->after ? c->after : s;
        else
            return false;
    }
    if (n == 0 || !take_fold(c, fold[n - 1], stack, NULL, any_operand && n == 1))
        return false;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (!take_sibling(c, fold[i], stack))
            return false;
    return true;
}

bool contraction_find_in_nest(Kernel *k, const Nest *nest, Contraction *c)
{
    LoopStack stack = {.n = nest->n};
    for (uint32_t i = 0; i < nest->n; i++)
        stack.loop[i] = nest->loop[i];
    return contraction_find(k, nest->body, &stack, false, c);
}

double chain_length(const Stmt *fold)
{
    double k = 1;
    for (uint32_t i = 0; i < fold->u.fold.n_axes; i++)
        k *= (double)fold->u.fold.axis[i].extent;
    return k;
}
