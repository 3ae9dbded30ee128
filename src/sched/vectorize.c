/* SPDX-License-Identifier: Apache-2.0
 *
 * vectorize: 16 lanes on innermost loops. Perfect nests are first reordered so that the innermost loop is the one along which
 * most accesses are contiguous, and neighbouring loops are merged where memory is contiguous across them. A loop whose
 * iterations are independent, whose body has no mma, and whose stores are contiguous along it (or at least not scattered while
 * loads are contiguous) becomes BIND_VEC. Where a load is contiguous along another loop only, both go in blocks. Folds over a
 * contiguous axis inside a row are vectors already: their form is 16 lanes; then the loops around them stay scalar.
 */
#include "sched/sched_int.h"

typedef struct Contiguity {
    Kernel *k;
    const Iter *iter;
    int unit, zero, strided; /* accesses by stride along iter */
    int store_unit, store_other;
} Contiguity;

static bool count_access(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    Contiguity *c = user;
    int64_t coef;
    bool linear = lx_linear(c->k, lx_offset(c->k, buf, index), c->iter, &coef, NULL);
    if (linear && coef == 1)
        c->unit++;
    else if (linear && coef == 0)
        c->zero++;
    else
        c->strided++;
    if (is_store) {
        c->store_unit += linear && coef == 1;
        c->store_other += !(linear && coef == 1);
    }
    return true;
}

static Contiguity contiguity(Kernel *k, const Stmt *list, const Iter *iter)
{
    Contiguity c = {.k = k, .iter = iter};
    stmts_each_access(k->arena, list, count_access, &c);
    return c;
}

static bool has_kind(const Stmt *list, StmtKind kind)
{
    for (const Stmt *s = list; s; s = s->next)
        if (s->kind == kind || (s->kind == LS_FOR && has_kind(s->u.loop.body, kind)) ||
            (s->kind == LS_IF && (has_kind(s->u.branch.then, kind) || has_kind(s->u.branch.otherwise, kind))))
            return true;
    return false;
}

/* A fold of the list runs along memory on its last axis: the emitter makes it a vector loop itself. */
static bool folds_along_memory(Kernel *k, const Stmt *list)
{
    for (const Stmt *s = list; s; s = s->next) {
        if (s->kind != LS_FOLD || s->u.fold.n_axes == 0)
            continue;
        const FoldAxis *last = &s->u.fold.axis[s->u.fold.n_axes - 1];
        Stmt one = *s;
        one.next = NULL;
        Contiguity c = contiguity(k, &one, last->iter);
        if (c.unit > 0 && c.strided == 0 && last->extent >= LOOP_LANES)
            return true;
    }
    return false;
}

static bool stores_every_iteration(const Stmt *list, const Iter *iter)
{
    for (const Stmt *s = list; s; s = s->next) {
        if (s->kind == LS_STORE) {
            bool uses = false;
            for (uint32_t i = 0; i < s->u.store.n_index; i++)
                uses |= lx_uses_iter(s->u.store.index[i], iter);
            if (!uses)
                return false;
        } else if (s->kind != LS_LET && s->kind != LS_FOLD && s->kind != LS_CHECK) {
            return false;
        }
    }
    return true;
}

static bool may_vectorize(Kernel *k, const Stmt *loop)
{
    const Expr *size = loop_size(loop);
    if (!size || size->hi < 2 || !stores_every_iteration(loop->u.loop.body, loop->u.loop.iter) ||
        folds_along_memory(k, loop->u.loop.body) || loop_carries(k, loop->u.loop.body, loop->u.loop.iter, false))
        return false;
    Contiguity c = contiguity(k, loop->u.loop.body, loop->u.loop.iter);
    return c.store_other == 0 && c.store_unit > 0;
}

/* The loop of a perfect nest that should be innermost, or the present one. */
static void choose_innermost(Kernel *k, Nest *nest)
{
    int best_score = -1;
    uint32_t best = nest->n - 1;
    if (!stores_every_iteration(nest->body, nest->loop[nest->n - 1]->u.loop.iter) || folds_along_memory(k, nest->body))
        return;
    for (uint32_t i = 0; i < nest->n; i++) {
        const Expr *size = loop_size(nest->loop[i]);
        if (!size)
            return;
        Contiguity c = contiguity(k, nest->body, nest->loop[i]->u.loop.iter);
        bool bad = c.store_other || loop_carries(k, nest->body, nest->loop[i]->u.loop.iter, false);
        int score = bad ? 0 : 16 * c.store_unit + 2 * c.unit + c.zero + (size->hi >= LOOP_LANES ? 8 : 0);
        if (score > best_score || (score == best_score && i == nest->n - 1)) {
            best_score = score;
            best = i;
        }
    }
    Stmt *chosen = nest->loop[best];
    for (uint32_t i = best; i + 1 < nest->n; i++)
        nest->loop[i] = nest->loop[i + 1];
    nest->loop[nest->n - 1] = chosen;
}

/* ---- transposing ------------------------------------------------------------------------------------------------------------- */

enum { BLOCK = LOOP_LANES }; /* a cache line of 4-byte elements in both directions */

typedef struct Crossing {
    Kernel *k;
    const Iter *inner, *other;
    bool found;
} Crossing;

static bool crosses(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    Crossing *c = user;
    int64_t along, across;
    const Expr *offset = lx_offset(c->k, buf, index);
    bool linear = lx_linear(c->k, offset, c->inner, &along, NULL); /* else by a table */
    c->found |= !is_store && lx_linear(c->k, offset, c->other, &across, NULL) && (!linear || along > 1 || along < -1) && across == 1;
    return true;
}

/* The nest's loop along which a load lies in memory that the innermost loop reads with a step; the number of loops if there is none. */
static uint32_t crossing_loop(Kernel *k, const Nest *nest)
{
    Crossing c = {.k = k, .inner = nest->loop[nest->n - 1]->u.loop.iter};
    int64_t extent;
    for (uint32_t i = nest->n - 1; i-- > 0;) {
        c.other = nest->loop[i]->u.loop.iter;
        if (!loop_extent(nest->loop[i], &extent) || extent < 2)
            continue;
        stmts_each_access(k->arena, nest->body, crosses, &c);
        if (c.found)
            return i;
    }
    return nest->n;
}

/* rows x cols of the nest from row0, col0: each row as a vector. */
static Stmt *block_of(Kernel *k, const Nest *nest, const Iter *row, const Expr *row0, int64_t rows, const Expr *col0, int64_t cols)
{
    const Iter *r = kernel_iter(k, "r", 0, rows - 1), *lane = kernel_iter(k, "l", 0, cols - 1);
    Stmt *body = ls_replace_iter(k, nest->body, nest->loop[nest->n - 1]->u.loop.iter, lx_add(k, col0, lx_iter(k, lane)));
    body = ls_replace_iter(k, body, row, lx_add(k, row0, lx_iter(k, r)));
    body = ls_for(k, lane, lx_int(k, 0), lx_int(k, cols), 1, BIND_VEC, body);
    return ls_for(k, r, lx_int(k, 0), lx_int(k, rows), 1, BIND_SEQ, body);
}

static Stmt *row_of_blocks(Kernel *k, const Nest *nest, const Iter *row, const Expr *row0, int64_t rows, int64_t n_cols)
{
    int64_t whole = n_cols / BLOCK, rest = n_cols % BLOCK;
    const Iter *c = kernel_iter(k, "c", 0, whole - 1);
    Stmt *blocks = block_of(k, nest, row, row0, rows, lx_mul(k, lx_iter(k, c), BLOCK), BLOCK);
    blocks = ls_for(k, c, lx_int(k, 0), lx_int(k, whole), 1, BIND_SEQ, blocks);
    if (rest)
        blocks->next = block_of(k, nest, row, row0, rows, lx_int(k, whole * BLOCK), rest);
    return blocks;
}

/* Where a load runs across the innermost loop, blocks of both loops, so that a line of cache that was read is used up before it
 * leaves. The nest keeps its other loops and a loop over blocks of rows. */
static bool block_transposed(Kernel *k, Nest *nest)
{
    uint32_t at = crossing_loop(k, nest);
    int64_t n_rows, n_cols;
    if (at == nest->n || !loop_extent(nest->loop[at], &n_rows) || !loop_extent(nest->loop[nest->n - 1], &n_cols) || n_cols < 2 * BLOCK)
        return false;
    int64_t whole = n_rows / BLOCK, rest = n_rows % BLOCK;
    const Iter *row = nest->loop[at]->u.loop.iter, *b = kernel_iter(k, "b", 0, whole - (rest == 0));
    Stmt *body = whole ? row_of_blocks(k, nest, row, lx_mul(k, lx_iter(k, b), BLOCK), BLOCK, n_cols) : NULL;
    Stmt *last = rest ? row_of_blocks(k, nest, row, lx_int(k, whole * BLOCK), rest, n_cols) : NULL;
    nest->body = !last ? body : !body ? last : ls_if(k, lx_lt(k, lx_iter(k, b), lx_int(k, whole)), body, last);
    for (uint32_t i = at; i + 2 < nest->n; i++)
        nest->loop[i] = nest->loop[i + 1];
    nest->n--;
    nest->loop[nest->n - 1] = ls_for(k, b, lx_int(k, 0), lx_int(k, b->hi + 1), 1, BIND_SEQ, NULL);
    return true;
}

/* ---- nests -------------------------------------------------------------------------------------------------------------------- */

static Stmt *vectorize_list(Kernel *k, Stmt *list);

static Stmt *vectorize_nest(Kernel *k, Stmt *loop)
{
    Nest nest = nest_of(loop);
    bool simple = !has_kind(nest.body, LS_FOR) && !has_kind(nest.body, LS_MMA) && !has_kind(nest.body, LS_IF);
    bool all_seq = true;
    for (uint32_t i = 0; i < nest.n; i++)
        all_seq &= nest.loop[i]->u.loop.bind == BIND_SEQ;
    if (simple && all_seq) {
        bool carried = false;
        for (uint32_t i = 0; i < nest.n; i++)
            carried |= loop_carries(k, nest.body, nest.loop[i]->u.loop.iter, false);
        choose_innermost(k, &nest);
        if (!carried)
            nest_merge(k, &nest);
        Stmt *inner = nest.loop[nest.n - 1];
        Stmt probe = *inner;
        probe.u.loop.body = nest.body;
        if (may_vectorize(k, &probe) && (carried || !block_transposed(k, &nest)))
            nest.loop[nest.n - 1] = ls_for(k, inner->u.loop.iter, inner->u.loop.lo, inner->u.loop.hi, 1, BIND_VEC, NULL);
    } else {
        nest.body = vectorize_list(k, nest.body);
    }
    return nest_rebuild(k, &nest);
}

static Stmt *vectorize_list(Kernel *k, Stmt *list)
{
    Stmt *result = NULL, **tail = &result;
    for (Stmt *s = list, *next; s; s = next) {
        next = s->next;
        s->next = NULL;
        if (s->kind == LS_FOR) {
            s = vectorize_nest(k, s);
        } else if (s->kind == LS_IF) {
            s->u.branch.then = vectorize_list(k, s->u.branch.then);
            s->u.branch.otherwise = vectorize_list(k, s->u.branch.otherwise);
        }
        tail = ls_append(tail, s);
    }
    return result;
}

bool pass_vectorize(PassCtx *pc, Unit *unit)
{
    (void)pc;
    Schedule *s = unit->schedule;
    for (uint32_t i = 0; i < s->groups.len; i++) {
        Kernel *k = s->groups.data[i]->kernel;
        k->body = vectorize_list(k, k->body);
    }
    return true;
}
