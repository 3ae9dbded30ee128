/* SPDX-License-Identifier: Apache-2.0
 * Views and rewrites of kernel bodies that several scheduling steps share. */
#include "sched/sched_int.h"

#include <string.h>

Nest nest_of(Stmt *list)
{
    Nest nest = {.body = list};
    while (nest.body && !nest.body->next && nest.body->kind == LS_FOR && nest.n < NEST_MAX_LOOPS) {
        nest.loop[nest.n++] = nest.body;
        nest.body = nest.body->u.loop.body;
    }
    return nest;
}

bool loop_extent(const Stmt *loop, int64_t *extent)
{
    int64_t lo, hi;
    if (loop->kind != LS_FOR || loop->u.loop.step != 1 || !lx_is_int(loop->u.loop.lo, &lo) ||
        !lx_is_int(loop->u.loop.hi, &hi) || lo != 0)
        return false;
    *extent = hi;
    return true;
}

const Expr *loop_size(const Stmt *loop)
{
    int64_t lo;
    bool counts = loop->kind == LS_FOR && loop->u.loop.step == 1 && lx_is_int(loop->u.loop.lo, &lo) && lo == 0;
    return counts && lx_is_size(loop->u.loop.hi) ? loop->u.loop.hi : NULL;
}

const Expr *axis_end(Kernel *k, const FoldAxis *axis) { return axis->size ? axis->size : lx_int(k, axis->extent); }

/* ---- visiting ----------------------------------------------------------------------------------------------------------- */

typedef bool ExprFn(void *user, const Expr *e);

static bool visit_index(const Expr *const *index, uint32_t n, ExprFn *visit, void *user)
{
    for (uint32_t i = 0; i < n; i++)
        if (!visit(user, index[i]))
            return false;
    return true;
}

static bool visit_if(const Expr *e, ExprFn *visit, void *user) { return !e || visit(user, e); }

static bool visit_axes(const FoldAxis *axis, uint32_t n, ExprFn *visit, void *user)
{
    for (uint32_t i = 0; i < n; i++)
        if (!visit_if(axis[i].size, visit, user))
            return false;
    return true;
}

static bool visit_stmt(const Stmt *s, ExprFn *visit, void *user)
{
    switch (s->kind) {
    case LS_FOR:
        return visit(user, s->u.loop.lo) && visit(user, s->u.loop.hi) && stmts_each_expr(s->u.loop.body, visit, user);
    case LS_IF:
        return visit(user, s->u.branch.cond) && stmts_each_expr(s->u.branch.then, visit, user) &&
               stmts_each_expr(s->u.branch.otherwise, visit, user);
    case LS_LET:
        return visit(user, s->u.let.value);
    case LS_STORE:
        return visit_index(s->u.store.index, s->u.store.n_index, visit, user) && visit(user, s->u.store.value) &&
               visit_if(s->u.store.mask, visit, user);
    case LS_FOLD:
        return visit_axes(s->u.fold.axis, s->u.fold.n_axes, visit, user) && visit(user, s->u.fold.a) &&
               visit_if(s->u.fold.b, visit, user) && visit_if(s->u.fold.guard, visit, user);
    case LS_MMA:
        return visit_axes(s->u.mma.axis, s->u.mma.n_axes, visit, user) && visit(user, s->u.mma.a) &&
               visit(user, s->u.mma.b) && visit_if(s->u.mma.guard, visit, user) && visit_if(s->u.mma.col_limit, visit, user) &&
               visit_if(s->u.mma.ahead, visit, user);
    case LS_PUT:
        return visit_index(s->u.put.index, s->u.put.n_index, visit, user) && visit(user, s->u.put.value) &&
               visit_if(s->u.put.col_limit, visit, user) && visit_if(s->u.put.row_limit, visit, user);
    case LS_CHECK:
        return visit(user, s->u.check.cond);
    }
    return true;
}

bool stmts_each_expr(const Stmt *list, bool (*visit)(void *user, const Expr *e), void *user)
{
    for (const Stmt *s = list; s; s = s->next)
        if (!visit_stmt(s, visit, user))
            return false;
    return true;
}

static bool not_using(void *user, const Expr *e) { return !lx_uses_iter(e, user); }

bool stmts_use_iter(const Stmt *list, const Iter *iter)
{
    return !stmts_each_expr(list, not_using, (void *)(uintptr_t)iter);
}

typedef struct AccessVisit {
    AccessFn *visit;
    void *user;
    Map *seen; /* expressions are shared: each once */
} AccessVisit;

static bool loads_of(void *user, const Expr *e)
{
    AccessVisit *v = user;
    if (map_has(v->seen, KEY(e)))
        return true;
    map_set(v->seen, KEY(e), v);
    if (e->kind == LX_LOAD && !v->visit(v->user, e->u.buf, e->arg, false))
        return false;
    for (uint32_t i = 0; i < e->n_args; i++)
        if (!loads_of(user, e->arg[i]))
            return false;
    return true;
}

static bool stores_of(const Stmt *list, AccessFn *visit, void *user)
{
    for (const Stmt *s = list; s; s = s->next) {
        bool go = true;
        if (s->kind == LS_FOR)
            go = stores_of(s->u.loop.body, visit, user);
        else if (s->kind == LS_IF)
            go = stores_of(s->u.branch.then, visit, user) && stores_of(s->u.branch.otherwise, visit, user);
        else if (s->kind == LS_STORE)
            go = visit(user, s->u.store.buf, s->u.store.index, true);
        else if (s->kind == LS_PUT)
            go = visit(user, s->u.put.buf, s->u.put.index, true);
        if (!go)
            return false;
    }
    return true;
}

bool stmts_each_access(Arena *tmp, const Stmt *list, AccessFn *visit, void *user)
{
    AccessVisit v = {visit, user, map_create(tmp)};
    return stmts_each_expr(list, loads_of, &v) && stores_of(list, visit, user);
}

typedef struct Carry {
    Kernel *k;
    const Iter *iter;
    const Buf *buf;
    const Expr *const *index; /* of the first access to buf */
    bool loaded, computed, axis[LOOP_MAX_RANK];
} Carry;

static bool has_computed_index(const Expr *e)
{
    bool found = e->kind == LX_INDEX && !lx_is_size(e);
    for (uint32_t i = 0; i < e->n_args && !found; i++)
        found = has_computed_index(e->arg[i]);
    return found;
}

static bool meet_access(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    Carry *c = user;
    if (buf != c->buf)
        return true;
    c->loaded |= !is_store;
    for (uint32_t d = 0; d < buf->rank; d++) {
        int64_t coef;
        c->axis[d] &= lx_linear(c->k, index[d], c->iter, &coef, NULL) && coef != 0 && (!c->index || c->index[d] == index[d]);
        c->computed |= is_store && has_computed_index(index[d]);
    }
    c->index = index;
    return true;
}

bool loop_carries(Kernel *k, const Stmt *list, const Iter *iter, bool own_locals)
{
    for (uint32_t i = 0; i < k->bufs.len; i++) {
        Carry c = {.k = k, .iter = iter, .buf = k->bufs.data[i]};
        bool apart = false, stored;
        if (!c.buf->written || (own_locals && c.buf->space == BUF_LOCAL))
            continue;
        memset(c.axis, true, sizeof c.axis);
        stores_of(list, meet_access, &c);
        stored = c.index != NULL;
        stmts_each_access(k->arena, list, meet_access, &c);
        for (uint32_t d = 0; d < c.buf->rank; d++)
            apart |= c.axis[d];
        if (stored && (c.loaded || c.computed) && !apart)
            return true;
    }
    return false;
}

/* ---- merging loops --------------------------------------------------------------------------------------------------------- */

typedef struct MergeCheck {
    Kernel *k;
    const Iter *outer, *inner, *merged;
    const Expr *outer_value, *inner_value;
    Map *seen;
} MergeCheck;

static bool access_merges(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    MergeCheck *m = user;
    (void)is_store;
    const Expr *offset = lx_offset(m->k, buf, index);
    offset = lx_replace_iter(m->k, offset, m->outer, m->outer_value);
    offset = lx_replace_iter(m->k, offset, m->inner, m->inner_value);
    int64_t coef;
    return lx_linear(m->k, offset, m->merged, &coef, NULL);
}

/* The two iterators occur in the indices of loads only; whatever else they decide would become a division. */
static bool only_in_loads(void *user, const Expr *e)
{
    MergeCheck *m = user;
    if (map_has(m->seen, KEY(e)))
        return true;
    map_set(m->seen, KEY(e), m);
    if (e->kind == LX_ITER)
        return e->u.iter != m->outer && e->u.iter != m->inner;
    if (e->kind == LX_LOAD) {
        for (uint32_t i = e->u.buf->rank; i < e->n_args; i++)
            if (!only_in_loads(user, e->arg[i]))
                return false;
        return true;
    }
    for (uint32_t i = 0; i < e->n_args; i++)
        if (!only_in_loads(user, e->arg[i]))
            return false;
    return true;
}

static bool values_merge(MergeCheck *m, const Stmt *list)
{
    for (const Stmt *s = list; s; s = s->next) {
        bool ok = false;
        if (s->kind == LS_STORE)
            ok = only_in_loads(m, s->u.store.value) && (!s->u.store.mask || only_in_loads(m, s->u.store.mask));
        else if (s->kind == LS_LET)
            ok = only_in_loads(m, s->u.let.value);
        else if (s->kind == LS_FOLD)
            ok = only_in_loads(m, s->u.fold.a) && (!s->u.fold.b || only_in_loads(m, s->u.fold.b)) &&
                 (!s->u.fold.guard || only_in_loads(m, s->u.fold.guard));
        else if (s->kind == LS_FOR)
            ok = only_in_loads(m, s->u.loop.lo) && only_in_loads(m, s->u.loop.hi) && values_merge(m, s->u.loop.body);
        if (!ok)
            return false;
    }
    return true;
}

/* The loops around `at` and `at + 1` become one over the product of their extents. */
static bool merge_pair(Kernel *k, Nest *nest, uint32_t at)
{
    int64_t outer, inner;
    if (nest->loop[at]->u.loop.bind != BIND_SEQ || nest->loop[at + 1]->u.loop.bind != BIND_SEQ ||
        !loop_extent(nest->loop[at], &outer) || !loop_extent(nest->loop[at + 1], &inner) || outer < 1 || inner < 1 ||
        outer > INT64_MAX / 2 / inner)
        return false;
    MergeCheck m = {.k = k, .outer = nest->loop[at]->u.loop.iter, .inner = nest->loop[at + 1]->u.loop.iter};
    const Iter *merged = kernel_iter(k, m.outer->name, 0, outer * inner - 1);
    m.merged = merged;
    m.outer_value = lx_div(k, lx_iter(k, merged), inner);
    m.inner_value = lx_mod(k, lx_iter(k, merged), inner);
    m.seen = map_create(k->arena);
    for (uint32_t i = 0; i < nest->n; i++) /* no bound depends on an iterator */
        if (!loop_size(nest->loop[i]))
            return false;
    if (!values_merge(&m, nest->body) || !stmts_each_access(k->arena, nest->body, access_merges, &m))
        return false;
    nest->body = ls_replace_iter(k, nest->body, m.outer, m.outer_value);
    nest->body = ls_replace_iter(k, nest->body, m.inner, m.inner_value);
    nest->loop[at] = ls_for(k, merged, lx_int(k, 0), lx_int(k, outer * inner), 1, BIND_SEQ, NULL);
    for (uint32_t i = at + 1; i + 1 < nest->n; i++)
        nest->loop[i] = nest->loop[i + 1];
    nest->n--;
    return true;
}

bool nest_merge(Kernel *k, Nest *nest)
{
    bool changed = false;
    for (uint32_t at = 0; at + 1 < nest->n;)
        if (merge_pair(k, nest, at))
            changed = true;
        else
            at++;
    return changed;
}

void nest_split_at(Kernel *k, Nest *nest, uint32_t at, const Iter *outer, const Iter *inner, const Expr *value)
{
    nest->body = ls_replace_iter(k, nest->body, nest->loop[at]->u.loop.iter, value);
    for (uint32_t i = nest->n++; i > at + 1; i--)
        nest->loop[i] = nest->loop[i - 1];
    nest->loop[at] = ls_for(k, outer, lx_int(k, 0), lx_int(k, outer->hi + 1), 1, BIND_SEQ, NULL);
    nest->loop[at + 1] = ls_for(k, inner, lx_int(k, 0), lx_int(k, inner->hi + 1), 1, BIND_SEQ, NULL);
}

/* The divisor by which e takes the iterator apart, 0: none. */
static int64_t divisor_of(const Expr *e, const Iter *iter)
{
    if (e->kind == LX_IMOD && e->arg[0]->kind == LX_ITER && e->arg[0]->u.iter == iter)
        return e->u.i;
    int64_t divisor = 0;
    for (uint32_t i = 0; i < e->n_args && !divisor; i++)
        divisor = divisor_of(e->arg[i], iter);
    return divisor;
}

bool nest_split(Kernel *k, Nest *nest, const Expr *load)
{
    for (uint32_t at = nest->n; nest->n < NEST_MAX_LOOPS && at-- > 0;) {
        const Iter *iter = nest->loop[at]->u.loop.iter;
        int64_t extent, size = divisor_of(load, iter);
        if (size < 2 || !loop_extent(nest->loop[at], &extent) || extent % size != 0)
            continue;
        const Iter *outer = kernel_iter(k, iter->name, 0, extent / size - 1), *inner = kernel_iter(k, iter->name, 0, size - 1);
        nest_split_at(k, nest, at, outer, inner, lx_add(k, lx_mul(k, lx_iter(k, outer), size), lx_iter(k, inner)));
        return true;
    }
    return false;
}

Stmt *nest_rebuild(Kernel *k, const Nest *nest)
{
    Stmt *body = nest->body;
    for (uint32_t i = nest->n; i-- > 0;) {
        const Stmt *loop = nest->loop[i];
        body = ls_for(k, loop->u.loop.iter, loop->u.loop.lo, loop->u.loop.hi, loop->u.loop.step, loop->u.loop.bind, body);
    }
    return body;
}
