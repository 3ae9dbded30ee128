/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of index expressions under predicates. To prove t >= 0, t is bounded by the ranges of its atoms; where that is
 * not enough, a multiple of a fact f >= 0 that cancels one of its atoms is subtracted and the rest is proven. Facts
 * come from masks, guards, conditions and loop bounds, and from the atoms: b*(x/b) <= x <= b*(x/b) + b - 1. A min or
 * max is replaced by its sides: by both where it stands as a lower bound, else by either. The depth is limited: it
 * fails to prove rather than search.
 */
#include "loop/loop_int.h"

enum { MAX_STEPS = 4, MAX_WORK = 4000 };

typedef struct Prover {
    Kernel *k;
    const Facts *facts;
    uint32_t work;
} Prover;

static bool prove(Prover *p, const Lin *t, uint32_t steps);

/* Small enough that the few steps of a proof cannot leave s64. */
static bool is_small(const Lin *lin)
{
    const int64_t limit = INT64_C(1) << 40;
    bool small = lin->c < limit && lin->c > -limit;
    for (uint32_t i = 0; i < lin->n; i++)
        small &= lin->term[i].coef < limit && lin->term[i].coef > -limit;
    return small;
}

static void subtract(Kernel *k, Lin *t, const Lin *f, int64_t m)
{
    t->c = wrap_add(t->c, wrap_mul(f->c, -m));
    for (uint32_t i = 0; i < f->n; i++)
        lin_add_expr(k, t, f->term[i].atom, wrap_mul(f->term[i].coef, -m));
}

/* The least m > 0 such that b divides a*m. */
static int64_t scale_for(int64_t a, int64_t b)
{
    int64_t x = a < 0 ? -a : a, y = b < 0 ? -b : b, whole = y;
    while (x) {
        int64_t rest = y % x;
        y = x;
        x = rest;
    }
    return whole / y;
}

static bool prove_with(Prover *p, const Lin *t, const Lin *fact, uint32_t steps)
{
    if (!is_small(t) || !is_small(fact))
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        for (uint32_t j = 0; j < fact->n; j++) {
            if (t->term[i].atom != fact->term[j].atom)
                continue;
            int64_t a = t->term[i].coef, b = fact->term[j].coef;
            if ((a < 0) != (b < 0) || t->n + fact->n > LIN_MAX_TERMS)
                break;
            int64_t m = scale_for(a, b);
            if (m > 1 << 10 || a * m / b > 1 << 20)
                break;
            Lin rest = *t; /* of integers t >= 0 if m*t + m-1 >= 0 */
            rest.c = wrap_add(wrap_mul(rest.c, m), m - 1);
            for (uint32_t e = 0; e < rest.n; e++)
                rest.term[e].coef = wrap_mul(rest.term[e].coef, m);
            subtract(p->k, &rest, fact, a * m / b);
            if (prove(p, &rest, steps - 1))
                return true;
        }
    return false;
}

/* t with its term `at` of a min or max replaced by one side. */
static bool prove_side(Prover *p, const Lin *t, uint32_t at, uint32_t side, uint32_t steps)
{
    const Expr *atom = t->term[at].atom;
    int64_t coef = t->term[at].coef;
    Lin rest = *t;
    if (t->n + 8 > LIN_MAX_TERMS)
        return false;
    lin_add_expr(p->k, &rest, atom, wrap_mul(coef, -1));
    lin_add_expr(p->k, &rest, atom->arg[side], coef);
    return prove(p, &rest, steps - 1);
}

static bool prove_by_atom(Prover *p, const Lin *t, uint32_t at, uint32_t steps)
{
    const Expr *atom = t->term[at].atom;
    if (atom->kind == LX_IMIN || atom->kind == LX_IMAX) {
        bool both = (atom->kind == LX_IMIN) == (t->term[at].coef > 0);
        bool first = prove_side(p, t, at, 0, steps);
        return both ? first && prove_side(p, t, at, 1, steps) : first || prove_side(p, t, at, 1, steps);
    }
    if (atom->kind == LX_IDIV) {
        /* below: x - b*q >= 0; above: b*q + b-1 - x >= 0 */
        Lin below, above = {.c = atom->u.i - 1};
        lin_from(atom->arg[0], &below);
        if (below.n + 2 > LIN_MAX_TERMS)
            return false;
        lin_add_expr(p->k, &below, atom, -atom->u.i);
        lin_add_expr(p->k, &above, atom, atom->u.i);
        lin_add_expr(p->k, &above, atom->arg[0], -1);
        return prove_with(p, t, t->term[at].coef < 0 ? &below : &above, steps);
    }
    return false;
}

static bool prove(Prover *p, const Lin *t, uint32_t steps)
{
    int64_t lo, hi;
    if (lin_range(t, &lo, &hi) && lo >= 0)
        return true;
    if (steps == 0 || ++p->work > MAX_WORK)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (prove_by_atom(p, t, i, steps))
            return true;
    for (uint32_t i = p->facts->positive.len; i-- > 0;)
        if (prove_with(p, t, p->facts->positive.data[i], steps))
            return true;
    return false;
}

bool facts_prove(Kernel *k, const Facts *facts, const Expr *e)
{
    Prover p = {k, facts, 0};
    Lin t;
    if (e->lo >= 0)
        return true;
    if (e->lo == INT64_MIN) /* the sum itself may wrap */
        return false;
    lin_from(e, &t);
    return prove(&p, &t, MAX_STEPS);
}

static void add_difference(Kernel *k, Arena *arena, Facts *facts, const Expr *low, const Expr *high, int64_t c)
{
    Lin *f = ARENA_NEW(arena, Lin);
    int64_t lo, hi;
    if (low->lo == INT64_MIN || low->hi == INT64_MAX || high->lo == INT64_MIN || high->hi == INT64_MAX)
        return;
    lin_from(high, f);
    lin_add_expr(k, f, low, -1);
    f->c = wrap_add(f->c, c);
    if (lin_range(f, &lo, &hi))
        vec_push(arena, &facts->positive, f);
}

/* What a predicate says about sums; others say nothing. */
void facts_add(Kernel *k, Arena *arena, Facts *facts, const Expr *pred, bool holds)
{
    const Expr *a = pred->n_args > 0 ? pred->arg[0] : NULL, *b = pred->n_args > 1 ? pred->arg[1] : NULL;
    switch (pred->kind) {
    case LX_AND:
    case LX_OR:
        if ((pred->kind == LX_AND) == holds) {
            facts_add(k, arena, facts, a, holds);
            facts_add(k, arena, facts, b, holds);
        }
        break;
    case LX_NOT: facts_add(k, arena, facts, a, !holds); break;
    case LX_ILT:
        if (holds)
            add_difference(k, arena, facts, a, b, -1);
        else
            add_difference(k, arena, facts, b, a, 0);
        break;
    case LX_IEQ:
        if (holds) {
            add_difference(k, arena, facts, a, b, 0);
            add_difference(k, arena, facts, b, a, 0);
        }
        break;
    default: break;
    }
}

static bool holds(Kernel *k, const Facts *facts, const Expr *pred)
{
    if (pred->kind == LX_AND)
        return holds(k, facts, pred->arg[0]) && holds(k, facts, pred->arg[1]);
    if (pred->kind == LX_OR)
        return holds(k, facts, pred->arg[0]) || holds(k, facts, pred->arg[1]);
    return lx_is_true(pred) ||
           (pred->kind == LX_ILT && facts_prove(k, facts, lx_sub(k, pred->arg[1], lx_add(k, pred->arg[0], lx_int(k, 1)))));
}

bool lx_follows(Kernel *k, const Expr *pred, const Expr *given)
{
    Arena *tmp = arena_create(k->ctx);
    Facts facts = {0};
    facts_add(k, tmp, &facts, given, true);
    bool yes = holds(k, &facts, pred);
    arena_destroy(tmp);
    return yes;
}
