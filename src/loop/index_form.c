/* SPDX-License-Identifier: Apache-2.0
 *
 * Index arithmetic in normal form.
 *
 * An index expression is c + sum of coef * atom; an atom is an iterator, a div, a mod, a min, a max or a loaded index.
 * Sums are stored as a left-leaning tree in the order of expr_compare. The rules below make chains of reshape,
 * transpose and slice affine wherever they are. With e = b*q + r split term by term (coefficients truncated, constant
 * floored), b > 0:
 *
 *   e / b  = q + r/b                    e % b  = r % b
 *   r / b  = t                          r % b  = r - t*b              if floor(r/b) = t over r's whole range
 *   r / b  = (A+t) / (b/g)              r % b  = g*((A+t) % (b/g)) + s - t*g    r = g*A + s, g | b, floor(s/g) = t
 *   (x/a + c) / b = (x + a*c) / (a*b)
 *   (x % m) / b = (x/b) % (m/b)         (x % m) % b = x % b           if b | m
 *   b*(x/b) + x%b = x                   x%a + a*((x/a) % m) = x % (a*m)         x - b*(x/b) = x % b
 *
 * All are identities of integers; they are applied only where ranges prove that no sum leaves s64, because there the
 * arithmetic of s64 is that of the integers. Where it might wrap, the operation is kept as it was written.
 */
#include "loop/loop_int.h"

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
int64_t floor_mod(int64_t a, int64_t b) { return a % b < 0 ? a % b + b : a % b; }

/* ---- linear forms ------------------------------------------------------------------------------------------------ */

static void add_term(Context *ctx, Lin *lin, const Expr *atom, int64_t coef)
{
    uint32_t at = 0;
    int order = 1;
    for (; at < lin->n && (order = expr_compare(lin->term[at].atom, atom)) < 0; at++)
        ;
    if (at < lin->n && order == 0) {
        lin->term[at].coef = wrap_add(lin->term[at].coef, coef);
        if (lin->term[at].coef == 0) {
            lin->n--;
            for (uint32_t i = at; i < lin->n; i++)
                lin->term[i] = lin->term[i + 1];
        }
        return;
    }
    if (coef == 0)
        return;
    if (lin->n == LIN_MAX_TERMS)
        ig_bug(ctx, "an index expression has more than %d terms", LIN_MAX_TERMS);
    for (uint32_t i = lin->n; i > at; i--)
        lin->term[i] = lin->term[i - 1];
    lin->n++;
    lin->term[at].atom = atom;
    lin->term[at].coef = coef;
}

void lin_add_expr(Kernel *k, Lin *lin, const Expr *e, int64_t factor)
{
    while (e->kind == LX_IADD) {
        lin_add_expr(k, lin, e->arg[1], factor);
        e = e->arg[0];
    }
    if (e->kind == LX_INT)
        lin->c = wrap_add(lin->c, wrap_mul(e->u.i, factor));
    else if (e->kind == LX_IMUL)
        lin_add_expr(k, lin, e->arg[0], wrap_mul(e->u.i, factor));
    else
        add_term(k->ctx, lin, e, factor);
}

static void add_lin(Kernel *k, Lin *lin, const Lin *other, int64_t factor)
{
    lin->c = wrap_add(lin->c, wrap_mul(other->c, factor));
    for (uint32_t i = 0; i < other->n; i++)
        add_term(k->ctx, lin, other->term[i].atom, wrap_mul(other->term[i].coef, factor));
}

/* Exact bounds of the sum by interval arithmetic; false if they leave s64. */
bool lin_range(const Lin *lin, int64_t *lo, int64_t *hi)
{
    const Wide limit = (Wide)1 << 100;
    Wide least = lin->c, most = lin->c;
    for (uint32_t i = 0; i < lin->n; i++) {
        Wide x = (Wide)lin->term[i].coef * lin->term[i].atom->lo, y = (Wide)lin->term[i].coef * lin->term[i].atom->hi;
        if (x > limit || x < -limit || y > limit || y < -limit)
            return false;
        least += x < y ? x : y;
        most += x < y ? y : x;
    }
    if (least < INT64_MIN || most > INT64_MAX)
        return false;
    *lo = (int64_t)least;
    *hi = (int64_t)most;
    return true;
}

static const Expr *scaled_atom(Kernel *k, const Expr *atom, int64_t coef)
{
    if (coef == 1)
        return atom;
    Lin one = {.n = 1, .term = {{coef, atom}}};
    Expr proto = {.kind = LX_IMUL, .dtype = DT_S64, .u.i = coef, .n_args = 1, .lo = INT64_MIN, .hi = INT64_MAX};
    lin_range(&one, &proto.lo, &proto.hi);
    return expr_intern(k, &proto, &atom);
}

/* The stored tree of a sum, as it is. */
static const Expr *tree_of(Kernel *k, const Lin *lin)
{
    if (lin->n == 0)
        return lx_int(k, lin->c);
    Lin prefix = {0};
    const Expr *sum = NULL;
    for (uint32_t i = 0; i <= lin->n; i++) {
        if (i == lin->n && lin->c == 0)
            break;
        const Expr *next = i < lin->n ? scaled_atom(k, lin->term[i].atom, lin->term[i].coef) : lx_int(k, lin->c);
        if (i < lin->n)
            prefix.term[prefix.n++] = lin->term[i];
        else
            prefix.c = lin->c;
        if (!sum) {
            sum = next;
            continue;
        }
        Expr proto = {.kind = LX_IADD, .dtype = DT_S64, .n_args = 2, .lo = INT64_MIN, .hi = INT64_MAX};
        lin_range(&prefix, &proto.lo, &proto.hi);
        sum = expr_intern(k, &proto, (const Expr *[]){sum, next});
    }
    return sum;
}

/* All terms of `part` * factor are terms of lin, with exactly these coefficients. */
static bool contains(const Lin *lin, const Lin *part, int64_t factor)
{
    if (part->n == 0)
        return false;
    for (uint32_t i = 0; i < part->n; i++) {
        uint32_t at = 0;
        while (at < lin->n && lin->term[at].atom != part->term[i].atom)
            at++;
        if (at == lin->n || lin->term[at].coef != wrap_mul(part->term[i].coef, factor))
            return false;
    }
    return true;
}

static bool mul_fits(int64_t a, int64_t b, int64_t *product) { return !__builtin_mul_overflow(a, b, product); }

/* q*(x % b) with q*b*(x/b), or with q*b*((x/b) % m): see the top. */
static bool recombine_mod(Kernel *k, Lin *lin, uint32_t at)
{
    const Expr *mod = lin->term[at].atom;
    int64_t q = lin->term[at].coef, b = mod->u.i, qb;
    if (lin->n < 2 || !mul_fits(q, b, &qb))
        return false;
    bool candidate = false;
    for (uint32_t i = 0; i < lin->n; i++)
        candidate |= i != at && lin->term[i].coef % b == 0;
    if (!candidate)
        return false;
    const Expr *quotient = lx_div(k, mod->arg[0], b);
    Lin part = {0};
    lin_add_expr(k, &part, quotient, 1);
    if (contains(lin, &part, qb)) {
        add_term(k->ctx, lin, mod, wrap_mul(q, -1));
        add_lin(k, lin, &part, wrap_mul(qb, -1));
        lin_add_expr(k, lin, mod->arg[0], q);
        return true;
    }
    for (uint32_t i = 0; i < lin->n; i++) {
        const Expr *other = lin->term[i].atom;
        int64_t m;
        if (other->kind == LX_IMOD && lin->term[i].coef == qb && other->arg[0] == quotient &&
            mul_fits(b, other->u.i, &m)) {
            add_term(k->ctx, lin, mod, wrap_mul(q, -1));
            add_term(k->ctx, lin, other, wrap_mul(qb, -1));
            lin_add_expr(k, lin, lx_mod(k, mod->arg[0], m), q);
            return true;
        }
    }
    return false;
}

/* q*x - q*b*(x/b) = q*(x % b) */
static bool recombine_div(Kernel *k, Lin *lin, uint32_t at)
{
    const Expr *div = lin->term[at].atom;
    int64_t coef = lin->term[at].coef, b = div->u.i;
    if (coef % b != 0 || coef == INT64_MIN)
        return false;
    int64_t q = -coef / b;
    Lin part;
    lin_from(div->arg[0], &part);
    for (uint32_t i = 0; i < part.n; i++)
        if (part.term[i].atom == div)
            return false;
    if (!contains(lin, &part, q))
        return false;
    add_term(k->ctx, lin, div, wrap_mul(coef, -1));
    add_lin(k, lin, &part, wrap_mul(q, -1));
    lin_add_expr(k, lin, lx_mod(k, div->arg[0], b), q);
    return true;
}

static bool recombine(Kernel *k, Lin *lin)
{
    for (uint32_t i = 0; i < lin->n; i++) {
        if (lin->term[i].atom->kind == LX_IMOD && recombine_mod(k, lin, i))
            return true;
        if (lin->term[i].atom->kind == LX_IDIV && recombine_div(k, lin, i))
            return true;
    }
    return false;
}

static void normalise(Kernel *k, Lin *lin)
{
    while (recombine(k, lin))
        ;
}

const Expr *lin_expr(Kernel *k, Lin *lin)
{
    normalise(k, lin);
    return tree_of(k, lin);
}

void lin_from(const Expr *e, Lin *lin)
{
    /* A stored sum is sorted and its atoms are distinct: no kernel is needed to merge them. */
    uint32_t n = 1;
    for (const Expr *at = e; at->kind == LX_IADD; at = at->arg[0])
        n++;
    lin->c = 0;
    lin->n = 0;
    uint32_t left = n;
    const Expr *parts[LIN_MAX_TERMS + 1];
    for (const Expr *at = e; left; at = at->kind == LX_IADD ? at->arg[0] : at)
        parts[--left] = at->kind == LX_IADD ? at->arg[1] : at;
    for (uint32_t i = 0; i < n; i++) {
        const Expr *p = parts[i];
        if (p->kind == LX_INT) {
            lin->c = p->u.i;
            continue;
        }
        lin->term[lin->n].coef = p->kind == LX_IMUL ? p->u.i : 1;
        lin->term[lin->n].atom = p->kind == LX_IMUL ? p->arg[0] : p;
        lin->n++;
    }
}

const Expr *lx_add(Kernel *k, const Expr *a, const Expr *b)
{
    if (a->kind == LX_INT && a->u.i == 0)
        return b;
    if (b->kind == LX_INT && b->u.i == 0)
        return a;
    Lin lin;
    lin_from(a, &lin);
    lin_add_expr(k, &lin, b, 1);
    return lin_expr(k, &lin);
}

const Expr *lx_sub(Kernel *k, const Expr *a, const Expr *b)
{
    Lin lin;
    lin_from(a, &lin);
    lin_add_expr(k, &lin, b, -1);
    return lin_expr(k, &lin);
}

const Expr *lx_mul(Kernel *k, const Expr *a, int64_t factor)
{
    if (factor == 1)
        return a;
    Lin lin = {0};
    if (factor)
        lin_add_expr(k, &lin, a, factor);
    return lin_expr(k, &lin);
}

/* ---- division ---------------------------------------------------------------------------------------------------- */

static const Expr *raw_div(Kernel *k, const Expr *a, int64_t b)
{
    Expr proto = {.kind = LX_IDIV, .dtype = DT_S64, .u.i = b, .n_args = 1};
    proto.lo = floor_div(a->lo, b);
    proto.hi = floor_div(a->hi, b);
    return expr_intern(k, &proto, &a);
}

static const Expr *raw_mod(Kernel *k, const Expr *a, int64_t b)
{
    Expr proto = {.kind = LX_IMOD, .dtype = DT_S64, .u.i = b, .n_args = 1, .lo = 0, .hi = b - 1};
    return expr_intern(k, &proto, &a);
}

/* lin = b*quot + rest: coefficients of rest are smaller than b and keep their sign, its constant is in [0, b). */
static void split_multiples(const Lin *lin, int64_t b, Lin *quot, Lin *rest)
{
    quot->n = rest->n = 0;
    quot->c = floor_div(lin->c, b);
    rest->c = floor_mod(lin->c, b);
    for (uint32_t i = 0; i < lin->n; i++) {
        int64_t coef = lin->term[i].coef, q = coef / b, r = coef % b;
        if (q) {
            quot->term[quot->n].coef = q;
            quot->term[quot->n++].atom = lin->term[i].atom;
        }
        if (r) {
            rest->term[rest->n].coef = r;
            rest->term[rest->n++].atom = lin->term[i].atom;
        }
    }
}

/* lin = g*major + minor with g | b, 1 < g < b, and floor(minor/g) the same number everywhere, which moves to major, so
 * that 0 <= minor < g. The largest such g. 0 if there is none. */
static int64_t split_digits(const Lin *lin, int64_t b, Lin *major, Lin *minor)
{
    int64_t best = 0;
    for (uint32_t i = 0; i < lin->n; i++) {
        int64_t g = gcd_s64(lin->term[i].coef, b), lo, hi;
        if (g <= 1 || g >= b || g <= best)
            continue;
        Lin low = {.c = lin->c}, high = {0};
        for (uint32_t j = 0; j < lin->n; j++) {
            Lin *to = lin->term[j].coef % g == 0 ? &high : &low;
            to->term[to->n].coef = to == &high ? lin->term[j].coef / g : lin->term[j].coef;
            to->term[to->n++].atom = lin->term[j].atom;
        }
        if (!lin_range(&low, &lo, &hi) || floor_div(lo, g) != floor_div(hi, g))
            continue;
        high.c = floor_div(lo, g);
        low.c -= high.c * g;
        int64_t high_lo, high_hi;
        if (!lin_range(&high, &high_lo, &high_hi))
            continue;
        *major = high;
        *minor = low;
        best = g;
    }
    return best;
}

static const Expr *div_rest(Kernel *k, Lin *rest, int64_t b)
{
    int64_t lo, hi, ab;
    if (lin_range(rest, &lo, &hi) && floor_div(lo, b) == floor_div(hi, b))
        return lx_int(k, floor_div(lo, b));
    Lin major, minor;
    int64_t g = split_digits(rest, b, &major, &minor);
    if (g)
        return lx_div(k, lin_expr(k, &major), b / g);
    if (rest->n == 1 && rest->term[0].coef == 1) {
        const Expr *atom = rest->term[0].atom;
        int64_t shift;
        if (atom->kind == LX_IDIV && mul_fits(atom->u.i, b, &ab) && mul_fits(atom->u.i, rest->c, &shift)) {
            Lin inner;
            lin_from(atom->arg[0], &inner);
            if (!__builtin_add_overflow(inner.c, shift, &inner.c) && lin_range(&inner, &lo, &hi))
                return lx_div(k, lin_expr(k, &inner), ab);
        }
        if (atom->kind == LX_IMOD && rest->c == 0 && atom->u.i % b == 0)
            return lx_mod(k, lx_div(k, atom->arg[0], b), atom->u.i / b);
    }
    return raw_div(k, lin_expr(k, rest), b);
}

static const Expr *mod_rest(Kernel *k, Lin *rest, int64_t b)
{
    int64_t lo, hi;
    if (lin_range(rest, &lo, &hi) && floor_div(lo, b) == floor_div(hi, b)) {
        rest->c = wrap_add(rest->c, wrap_mul(floor_div(lo, b), -b));
        return lin_expr(k, rest);
    }
    Lin major, minor;
    int64_t g = split_digits(rest, b, &major, &minor);
    if (g) {
        lin_add_expr(k, &minor, lx_mod(k, lin_expr(k, &major), b / g), g);
        return lin_expr(k, &minor);
    }
    if (rest->n == 1 && rest->term[0].coef == 1 && rest->c == 0) {
        const Expr *atom = rest->term[0].atom;
        if (atom->kind == LX_IMOD && atom->u.i % b == 0)
            return lx_mod(k, atom->arg[0], b);
    }
    return raw_mod(k, lin_expr(k, rest), b);
}

/* Splits e for division by b; false if the sum or its rest may leave s64. */
static bool split_for(const Expr *e, int64_t b, Lin *quot, Lin *rest)
{
    Lin lin;
    int64_t lo, hi;
    lin_from(e, &lin);
    if (!lin_range(&lin, &lo, &hi))
        return false;
    split_multiples(&lin, b, quot, rest);
    return lin_range(rest, &lo, &hi);
}

const Expr *lx_div(Kernel *k, const Expr *a, int64_t divisor)
{
    IG_CHECK(k->ctx, divisor > 0);
    if (divisor == 1)
        return a;
    if (a->kind == LX_INT)
        return lx_int(k, floor_div(a->u.i, divisor));
    Lin quot, rest;
    if (!split_for(a, divisor, &quot, &rest))
        return raw_div(k, a, divisor);
    lin_add_expr(k, &quot, div_rest(k, &rest, divisor), 1);
    return lin_expr(k, &quot);
}

const Expr *lx_mod(Kernel *k, const Expr *a, int64_t divisor)
{
    IG_CHECK(k->ctx, divisor > 0);
    Lin quot, rest;
    if (a->kind == LX_INT)
        return lx_int(k, floor_mod(a->u.i, divisor));
    if (divisor == 1)
        return lx_int(k, 0);
    if (!split_for(a, divisor, &quot, &rest))
        return raw_mod(k, a, divisor);
    return mod_rest(k, &rest, divisor);
}

bool lx_lane_block(Kernel *k, const Buf *buf, const Expr *offset, const Iter *lane, LaneBlock *block)
{
    const Expr *first = lx_replace_iter(k, offset, lane, lx_int(k, 0));
    int64_t least = 0, most = 0, place;
    if (buf->size)
        return false;
    for (int64_t i = 0; i < LOOP_LANES; i++) {
        if (!lx_is_int(lx_sub(k, lx_replace_iter(k, offset, lane, lx_int(k, i)), first), &block->at[i]))
            return false;
        least = block->at[i] < least ? block->at[i] : least;
        most = block->at[i] > most ? block->at[i] : most;
    }
    for (block->width = 2; block->width <= 2 * LOOP_LANES; block->width *= 2) {
        if (!lx_is_int(lx_mod(k, first, block->width), &place) || buf->elements % block->width)
            return false;
        if (place + least < 0 || place + most >= block->width)
            continue;
        block->base = lx_sub(k, first, lx_int(k, place));
        for (int i = 0; i < LOOP_LANES; i++)
            block->at[i] += place;
        return true;
    }
    return false;
}

/* ---- min, max ---------------------------------------------------------------------------------------------------- */

static const Expr *min_max(Kernel *k, ExprKind kind, const Expr *a, const Expr *b)
{
    int64_t lo, hi;
    Lin diff;
    lin_from(a, &diff);
    lin_add_expr(k, &diff, b, -1);
    bool is_min = kind == LX_IMIN;
    int64_t a_lo = a->lo, a_hi = a->hi, b_lo = b->lo, b_hi = b->hi;
    if (a == b || a_hi <= b_lo)
        return is_min ? a : b;
    if (b_hi <= a_lo)
        return is_min ? b : a;
    /* The difference tells more than the two ranges, if neither sum wraps. */
    if (a_lo != INT64_MIN && b_lo != INT64_MIN && a_hi != INT64_MAX && b_hi != INT64_MAX &&
        lin_range(&diff, &lo, &hi)) {
        if (hi <= 0)
            return is_min ? a : b;
        if (lo >= 0)
            return is_min ? b : a;
    }
    if (a->kind == LX_INT || (b->kind != LX_INT && expr_compare(a, b) > 0)) {
        const Expr *other = a;
        a = b;
        b = other;
    }
    if (b->kind == LX_INT && a->kind == kind && a->arg[1]->kind == LX_INT)
        return min_max(k, kind, a->arg[0], min_max(k, kind, a->arg[1], b));
    Expr proto = {.kind = kind, .dtype = DT_S64, .n_args = 2};
    proto.lo = is_min == (a_lo < b_lo) ? a_lo : b_lo;
    proto.hi = is_min == (a_hi < b_hi) ? a_hi : b_hi;
    return expr_intern(k, &proto, (const Expr *[]){a, b});
}

const Expr *lx_min(Kernel *k, const Expr *a, const Expr *b) { return min_max(k, LX_IMIN, a, b); }
const Expr *lx_max(Kernel *k, const Expr *a, const Expr *b) { return min_max(k, LX_IMAX, a, b); }

/* ---- predicates -------------------------------------------------------------------------------------------------- */

static const Expr *truth(Kernel *k, bool value) { return lx_const(k, DT_BOOL, value); }

static const Expr *pred(Kernel *k, ExprKind kind, const Expr *a, const Expr *b)
{
    Expr proto = {.kind = kind, .dtype = DT_BOOL, .n_args = b ? 2 : 1, .lo = 0, .hi = 1};
    return expr_intern(k, &proto, (const Expr *[]){a, b});
}

static bool bounded(const Expr *e) { return e->lo != INT64_MIN && e->hi != INT64_MAX; }

/* a - b, if neither may wrap and every part has a negative. */
static bool difference(Kernel *k, const Expr *a, const Expr *b, Lin *diff, int64_t *lo, int64_t *hi)
{
    if (!bounded(a) || !bounded(b))
        return false;
    lin_from(a, diff);
    lin_add_expr(k, diff, b, -1);
    normalise(k, diff);
    for (uint32_t i = 0; i < diff->n; i++)
        if (diff->term[i].coef == INT64_MIN)
            return false;
    return diff->c != INT64_MIN && lin_range(diff, lo, hi);
}

static int64_t content(const Lin *lin)
{
    int64_t g = 0;
    for (uint32_t i = 0; i < lin->n; i++)
        g = gcd_s64(lin->term[i].coef, g);
    return g;
}

/* diff REL 0 as positive terms on the left, the others and the constant on the right; without positive terms the
 * constant stands on the left. NULL if a side may wrap. */
static const Expr *two_sides(Kernel *k, ExprKind kind, const Lin *diff)
{
    Lin left = {0}, right = {0};
    for (uint32_t i = 0; i < diff->n; i++) {
        int64_t coef = diff->term[i].coef;
        Lin *to = coef > 0 ? &left : &right;
        to->term[to->n].coef = coef > 0 ? coef : wrap_mul(coef, -1);
        to->term[to->n++].atom = diff->term[i].atom;
    }
    if (left.n)
        right.c = wrap_mul(diff->c, -1);
    else
        left.c = diff->c;
    int64_t lo, hi;
    if (!lin_range(&left, &lo, &hi) || !lin_range(&right, &lo, &hi))
        return NULL;
    return pred(k, kind, lin_expr(k, &left), lin_expr(k, &right));
}

const Expr *lx_lt(Kernel *k, const Expr *a, const Expr *b)
{
    Lin diff;
    int64_t lo, hi;
    if (a->hi < b->lo)
        return truth(k, true);
    if (a->lo >= b->hi)
        return truth(k, false);
    if (!difference(k, a, b, &diff, &lo, &hi))
        return pred(k, LX_ILT, a, b);
    if (hi < 0 || lo >= 0)
        return truth(k, hi < 0);
    int64_t g = content(&diff); /* g*T + c < 0 iff T + floor(c/g) < 0 */
    if (g > 1) {
        diff.c = floor_div(diff.c, g);
        for (uint32_t i = 0; i < diff.n; i++)
            diff.term[i].coef /= g;
    }
    const Expr *atom = diff.term[0].atom;
    int64_t bound;
    if (diff.n == 1 && atom->kind == LX_IDIV && bounded(atom->arg[0])) {
        if (diff.term[0].coef == 1 && diff.c != INT64_MIN && mul_fits(-diff.c, atom->u.i, &bound)) /* x/d < -c */
            return lx_lt(k, atom->arg[0], lx_int(k, bound));
        if (diff.term[0].coef == -1 && diff.c < INT64_MAX && mul_fits(diff.c + 1, atom->u.i, &bound) &&
            bound > INT64_MIN) /* c < x/d */
            return lx_lt(k, lx_int(k, bound - 1), atom->arg[0]);
    }
    const Expr *sides = two_sides(k, LX_ILT, &diff);
    return sides ? sides : pred(k, LX_ILT, a, b);
}

const Expr *lx_le(Kernel *k, const Expr *a, const Expr *b)
{
    if (b->hi == INT64_MAX)
        return lx_not(k, lx_lt(k, b, a));
    return lx_lt(k, a, lx_add(k, b, lx_int(k, 1)));
}

const Expr *lx_eq(Kernel *k, const Expr *a, const Expr *b)
{
    Lin diff;
    int64_t lo, hi;
    if (a == b)
        return truth(k, true);
    if (a->hi < b->lo || b->hi < a->lo)
        return truth(k, false);
    if (!difference(k, a, b, &diff, &lo, &hi))
        return expr_compare(a, b) < 0 ? pred(k, LX_IEQ, a, b) : pred(k, LX_IEQ, b, a);
    int64_t g = content(&diff);
    if (lo > 0 || hi < 0 || (g && diff.c % g != 0))
        return truth(k, false);
    if (diff.n == 0)
        return truth(k, diff.c == 0);
    int64_t unit = diff.term[0].coef < 0 ? -g : g;
    diff.c /= unit;
    for (uint32_t i = 0; i < diff.n; i++)
        diff.term[i].coef /= unit;
    const Expr *sides = two_sides(k, LX_IEQ, &diff);
    return sides ? sides : pred(k, LX_IEQ, a, b);
}

bool pred_implies(Kernel *k, const Expr *p, const Expr *q)
{
    Lin by_p, by_q;
    int64_t lo, hi;
    if (p == q)
        return true;
    if (p->kind != LX_ILT || q->kind != LX_ILT || !difference(k, p->arg[0], p->arg[1], &by_p, &lo, &hi) ||
        !difference(k, q->arg[0], q->arg[1], &by_q, &lo, &hi))
        return false;
    add_lin(k, &by_q, &by_p, -1); /* by_p < 0 and by_q <= by_p */
    return lin_range(&by_q, &lo, &hi) && hi <= 0;
}

static bool is_negation(const Expr *a, const Expr *b)
{
    return (a->kind == LX_NOT && a->arg[0] == b) || (b->kind == LX_NOT && b->arg[0] == a);
}

const Expr *lx_and(Kernel *k, const Expr *a, const Expr *b)
{
    if (!a || !b)
        return a ? a : b ? b : truth(k, true);
    if (lx_is_true(a) || lx_is_false(b))
        return b;
    if (lx_is_true(b) || lx_is_false(a))
        return a;
    if (b->kind == LX_AND)
        return lx_and(k, lx_and(k, a, b->arg[0]), b->arg[1]);
    /* a is a left-leaning chain; drop what b makes redundant, keep the order of the rest */
    const Expr *kept = NULL;
    const Expr *chain[64];
    uint32_t n = 0;
    const Expr *at = a;
    for (; at->kind == LX_AND && n < IG_COUNT(chain) - 1; at = at->arg[0])
        chain[n++] = at->arg[1];
    chain[n++] = at;
    for (uint32_t i = 0; i < n; i++) {
        if (pred_implies(k, chain[i], b))
            return a;
        if (is_negation(chain[i], b))
            return truth(k, false);
    }
    while (n--)
        if (!pred_implies(k, b, chain[n]))
            kept = kept ? pred(k, LX_AND, kept, chain[n]) : chain[n];
    return kept ? pred(k, LX_AND, kept, b) : b;
}

const Expr *lx_or(Kernel *k, const Expr *a, const Expr *b)
{
    if (lx_is_true(a) || lx_is_false(b) || pred_implies(k, b, a))
        return a;
    if (lx_is_true(b) || lx_is_false(a) || pred_implies(k, a, b))
        return b;
    if (is_negation(a, b))
        return truth(k, true);
    return pred(k, LX_OR, a, b);
}

const Expr *lx_not(Kernel *k, const Expr *a)
{
    if (a->kind == LX_CONST)
        return truth(k, !a->u.bits);
    if (a->kind == LX_NOT)
        return a->arg[0];
    if (a->kind == LX_OR) /* conjuncts simplify each other */
        return lx_and(k, lx_not(k, a->arg[0]), lx_not(k, a->arg[1]));
    if (a->kind == LX_ILT && a->arg[0]->hi != INT64_MAX) /* !(x < y) iff y < x + 1 */
        return lx_lt(k, a->arg[1], lx_add(k, a->arg[0], lx_int(k, 1)));
    return pred(k, LX_NOT, a, NULL);
}
