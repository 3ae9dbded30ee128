/* SPDX-License-Identifier: Apache-2.0
 *
 * What (B) of tile.c does to the stages between contractions, where a row is a list of folds and loops over its content:
 *
 *   for r {                                       for r { fold m = max of x[r]; store t[r] = m }
 *     fold m = max of x[r]                        for r {
 *     for c { store e[r, c] = exp(x[r, c] - m) }    let m' = t[r]; for c { store x[r, c] = exp(x[r, c] - m') }
 *     fold s = sum of e[r]                    ->    fold s = sum of x[r]; store u[r] = s
 *     for c { store y[r, c] = e[r, c] / s }       }
 *   }                                             for r { let s' = u[r]; for c { store x[r, c] = x[r, c] / s' } }
 *
 * A fold ends with a chain of dependent steps across lanes, and what follows in its row needs the result. In a loop of folds the
 * next row's work hides that. And a value that is computed element by element from one that nobody reads later takes its place: a
 * third of the memory for attention's scores. Iterations are rows, which do not depend on each other, and no value changes.
 */
#include "sched/tile.h"

/* ---- one buffer for values after one another ------------------------------------------------------------------------- */

typedef struct BufUse {
    const Buf *buf;
    const Expr *const *index; /* NULL: any access counts; else only those at other indices, and stores */
    bool found;
} BufUse;

static bool find_use(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    BufUse *u = user;
    if (buf != u->buf)
        return true;
    bool same = u->index && !is_store;
    for (uint32_t i = 0; i < buf->rank && same; i++)
        same = index[i] == u->index[i];
    u->found |= !same;
    return true;
}

/* Whether statements [first, end) use the buffer. */
static bool uses_buf(Kernel *k, const Stmt *first, const Stmt *end, const Buf *buf, const Expr *const *index)
{
    BufUse use = {.buf = buf, .index = index};
    for (const Stmt *s = first; s != end && !use.found; s = s->next) {
        Stmt one = *s;
        one.next = NULL;
        stmts_each_access(k->arena, &one, find_use, &use);
    }
    return use.found;
}

static bool same_form(const Buf *a, const Buf *b)
{
    bool same = a->space == BUF_LOCAL && b->space == BUF_LOCAL && a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t i = 0; i < a->rank && same; i++)
        same = a->dim[i] == b->dim[i];
    return same;
}

typedef struct Exchange {
    Buf *from, *to;
} Exchange;

static Buf *exchange(void *user, Buf *buf)
{
    Exchange *e = user;
    return buf == e->from ? e->to : NULL;
}

/* The buffer that the one stored by `store`, which is all that the loop at `at` does, can take the place of; NULL: none. */
static Buf *free_from_here(Kernel *k, const Stmt *list, const Stmt *at, const Stmt *store)
{
    if (uses_buf(k, list, at, store->u.store.buf, NULL))
        return NULL;
    for (uint32_t i = 0; i < k->bufs.len; i++) {
        Buf *buf = k->bufs.data[i];
        if (buf != store->u.store.buf && same_form(buf, store->u.store.buf) && uses_buf(k, list, at, buf, NULL) &&
            !uses_buf(k, at, at->next, buf, store->u.store.index) && !uses_buf(k, at->next, NULL, buf, NULL))
            return buf;
    }
    return NULL;
}

Stmt *rows_share_buffers(Kernel *k, Stmt *list)
{
    for (Stmt **link = &list; *link; link = &(*link)->next) {
        Stmt alone = **link;
        alone.next = NULL;
        const Stmt *store = nest_of(&alone).body;
        if (alone.kind != LS_FOR || !store || store->next || store->kind != LS_STORE || store->u.store.mask ||
            store->u.store.buf->space != BUF_LOCAL)
            continue;
        Exchange e = {store->u.store.buf, free_from_here(k, list, *link, store)};
        if (e.to)
            *link = ls_clone(k, *link, &(ExprSubst){.user = &e, .buf = exchange});
    }
    return list;
}

/* ---- loops of folds -------------------------------------------------------------------------------------------------- */

static const Var *var_of(const Stmt *s) { return s->kind == LS_LET ? s->u.let.var : s->kind == LS_FOLD ? s->u.fold.var : NULL; }

static bool free_of_var(void *user, const Expr *e) { return !lx_uses_var(e, user); }

static bool reads_var(const Stmt *list, const Var *var) { return !stmts_each_expr(list, free_of_var, (void *)(uintptr_t)var); }

bool rows_need_vars(const Stmt *first, const Stmt *end)
{
    for (const Stmt *s = first; s != end; s = s->next)
        if (var_of(s) && reads_var(end, var_of(s)))
            return true;
    return false;
}

typedef struct Rename {
    const Var *from;
    const Expr *to;
} Rename;

static const Expr *rename_var(void *user, const Var *var)
{
    Rename *r = user;
    return var == r->from ? r->to : NULL;
}

/* What `rest` reads of the variables of `part` goes through a buffer with an element per row; returns rest with lets before it. */
static Stmt *carry_over(Kernel *k, Stmt *part, Stmt *rest, const Expr *row, int64_t rows)
{
    Stmt *lets = NULL, **tail = &lets, *last = part;
    while (last->next)
        last = last->next;
    for (Stmt *s = part, *end = last; s; s = s == end ? NULL : s->next) {
        const Var *var = var_of(s);
        if (!var || !reads_var(rest, var))
            continue;
        Buf *buf = kernel_buf(k, var->name, var->dtype, BUF_LOCAL, 1, &rows);
        const Expr **index = arena_copy(k->arena, &row, sizeof row);
        last->next = ls_store(k, buf, index, lx_var(k, var), NULL);
        last = last->next;
        Var *again = kernel_var(k, var->name, var->dtype);
        tail = ls_append(tail, ls_let(k, again, lx_load(k, buf, index, NULL, NULL)));
        Rename r = {var, lx_var(k, again)};
        rest = ls_clone(k, rest, &(ExprSubst){.user = &r, .var = rename_var});
    }
    *tail = rest;
    return lets;
}

Stmt *rows_split_at_folds(Kernel *k, Stmt *loop)
{
    const Iter *row = loop->u.loop.iter;
    Stmt *result = NULL, **tail = &result;
    for (Stmt *body = loop->u.loop.body, *rest; body; body = rest) {
        Stmt *last = body;
        bool folded = body->kind == LS_FOLD;
        for (; last->next; last = last->next) {
            bool stage = last->next->kind == LS_FOR || last->next->kind == LS_FOLD;
            if (stage && folded)
                break;
            folded |= last->next->kind == LS_FOLD;
        }
        rest = last->next;
        last->next = NULL;
        if (rest)
            rest = carry_over(k, body, rest, lx_iter(k, row), row->hi + 1);
        const Iter *own = kernel_iter(k, row->name, row->lo, row->hi);
        body = ls_replace_iter(k, body, row, lx_iter(k, own));
        tail = ls_append(tail, ls_for(k, own, loop->u.loop.lo, loop->u.loop.hi, 1, BIND_SEQ, body));
    }
    return result;
}
