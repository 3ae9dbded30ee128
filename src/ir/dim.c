/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes as expressions in normal form.
 *
 * A dim is  constant + sum of coefficient * product,  a product is a sorted list of atoms, an atom is a symbol,
 * floordiv(a,b), mod(a,b), min(a,b) or max(a,b) of dims. Atoms, products, term lists and dims are hash-consed, so equal
 * normal forms are equal pointers. Order never depends on addresses: atoms compare by kind, symbol name and content;
 * products by degree (greater first), then lexicographically. That is a monomial order (multiplying both sides keeps
 * it), which long division needs.
 *
 * Rewrites (all integers, / is floor division, c > 0 a number, x - c*(x/c) = x mod c):
 *   (c*q + r) / c        -> q + r/c              coefficients and constant of r in [0,c)
 *   (g*r + s) / (g*c)    -> (r + s/g) / c        g = gcd of the coefficients and the divisor
 *   (x/c + k) / d        -> (x + k*c) / (c*d)
 *   (b*q + r) / b        -> q + r/b              b symbolic and never 0, by long division
 *   x/c, x mod c, min, max whose ranges decide   -> the result
 *   k*c*(x/c) + k*(x mod c) -> k*x
 *
 * What cannot be represented (overflow, division by 0, too large an expression) is the invalid dim, which is absorbing.
 */
#include "ir/ir_int.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_TERMS = 64, MAX_DEGREE = 16, MAX_DEPTH = 24, MAX_SIZE = 2048 };

typedef enum AtomKind { ATOM_SYM, ATOM_FLOORDIV, ATOM_MOD, ATOM_MIN, ATOM_MAX } AtomKind;

/* All of these are interned by their bytes: no padding, no unused field other than zero. */
typedef struct Atom {
    const Sym *sym;      /* SYM */
    const Dim *a, *b;    /* the others */
    int64_t lo, hi;      /* INT64_MIN, INT64_MAX: unbounded */
    uint32_t kind, size; /* size: of the expression as a tree */
} Atom;
typedef struct Product {
    const Atom *atom[MAX_DEGREE]; /* sorted, n of them */
    int64_t lo, hi;
    uint32_t n, size;
} Product;
typedef struct Term {
    int64_t factor;
    const Product *product;
} Term;
struct Dim {
    Context *ctx;
    int64_t constant;
    const Term *term; /* n, greatest first */
    int64_t lo, hi;
    uint32_t n, size, depth, invalid;
};

/* ---- saturating arithmetic on bounds -------------------------------------------------------------------------- */

static bool is_unbounded(int64_t x) { return x == INT64_MIN || x == INT64_MAX; }

/* Sum of two bounds of one side; `unbounded` of that side absorbs. */
static int64_t bound_add(int64_t a, int64_t b, int64_t unbounded)
{
    int64_t sum;
    if (a == unbounded || b == unbounded)
        return unbounded;
    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

static int64_t bound_mul(int64_t a, int64_t b)
{
    int64_t product;
    if (a == 0 || b == 0)
        return 0;
    if (is_unbounded(a) || is_unbounded(b) || __builtin_mul_overflow(a, b, &product))
        return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return product;
}

/* Requires b != 0, not (a = INT64_MIN, b = -1). */
static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static int64_t floor_mod(int64_t a, int64_t b) { return b == -1 ? 0 : a - b * floor_div(a, b); }

static int64_t bound_div(int64_t a, int64_t b)
{
    if (is_unbounded(a))
        return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return floor_div(a, b);
}

typedef struct Range {
    int64_t lo, hi;
} Range;

static Range range_of_corners(const Range *a, const Range *b, int64_t (*apply)(int64_t, int64_t))
{
    int64_t corner[4] = {apply(a->lo, b->lo), apply(a->lo, b->hi), apply(a->hi, b->lo), apply(a->hi, b->hi)};
    Range r = {corner[0], corner[0]};
    for (int i = 1; i < 4; i++) {
        r.lo = corner[i] < r.lo ? corner[i] : r.lo;
        r.hi = corner[i] > r.hi ? corner[i] : r.hi;
    }
    return r;
}

static bool excludes_zero(Range r) { return r.lo > 0 || r.hi < 0; }

static Range range_of(const Dim *dim) { return (Range){dim->lo, dim->hi}; }

/* ---- construction --------------------------------------------------------------------------------------------- */

static const Dim *intern_dim(Context *ctx, const Dim *dim) { return intern_bytes(ir_ctx(ctx)->dims, dim, sizeof *dim); }

static const Dim *invalid(Context *ctx)
{
    return intern_dim(ctx, &(Dim){.ctx = ctx, .lo = INT64_MIN, .hi = INT64_MAX, .size = 1, .invalid = 1});
}

static int compare_dims(const Dim *a, const Dim *b);

static int compare_atoms(const Atom *a, const Atom *b)
{
    if (a == b)
        return 0;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind == ATOM_SYM) {
        int order = strcmp(a->sym->name, b->sym->name);
        return order ? order : a->sym->id < b->sym->id ? -1 : 1;
    }
    int order = compare_dims(a->a, b->a);
    return order ? order : compare_dims(a->b, b->b);
}

/* < 0: a is printed before b. */
static int compare_products(const Product *a, const Product *b)
{
    if (a == b)
        return 0;
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    for (uint32_t i = 0; i < a->n; i++) {
        int order = compare_atoms(a->atom[i], b->atom[i]);
        if (order)
            return order;
    }
    return 0;
}

static int compare_dims(const Dim *a, const Dim *b)
{
    if (a == b)
        return 0;
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    for (uint32_t i = 0; i < a->n; i++) {
        int order = compare_products(a->term[i].product, b->term[i].product);
        if (order)
            return order;
        if (a->term[i].factor != b->term[i].factor)
            return a->term[i].factor < b->term[i].factor ? -1 : 1;
    }
    return a->constant < b->constant ? -1 : a->constant > b->constant;
}

/* Requires sorted terms with factors other than 0. */
static const Dim *make(Context *ctx, int64_t constant, const Term *terms, uint32_t n)
{
    if (n > MAX_TERMS)
        return invalid(ctx);
    Dim dim = {.ctx = ctx, .constant = constant, .lo = constant, .hi = constant, .n = n, .size = 1};
    for (uint32_t i = 0; i < n; i++) {
        const Product *product = terms[i].product;
        Range factor = {terms[i].factor, terms[i].factor}, range = {product->lo, product->hi};
        range = range_of_corners(&factor, &range, bound_mul);
        dim.lo = bound_add(dim.lo, range.lo, INT64_MIN);
        dim.hi = bound_add(dim.hi, range.hi, INT64_MAX);
        dim.size += product->size;
        for (uint32_t k = 0; k < product->n; k++) {
            const Atom *atom = product->atom[k];
            if (atom->kind == ATOM_SYM)
                continue;
            uint32_t inner = atom->a->depth > atom->b->depth ? atom->a->depth : atom->b->depth;
            dim.depth = inner + 1 > dim.depth ? inner + 1 : dim.depth;
        }
    }
    if (dim.depth > MAX_DEPTH || dim.size > MAX_SIZE)
        return invalid(ctx);
    dim.term = n ? intern_bytes(ir_ctx(ctx)->terms, terms, n * sizeof *terms) : NULL;
    return intern_dim(ctx, &dim);
}

static const Product *make_product(Context *ctx, const Atom *const *atoms, uint32_t n)
{
    Product product = {.lo = 1, .hi = 1, .n = n};
    for (uint32_t i = 0; i < n; i++) {
        product.atom[i] = atoms[i];
        Range before = {product.lo, product.hi}, atom = {atoms[i]->lo, atoms[i]->hi};
        Range after = range_of_corners(&before, &atom, bound_mul);
        product.lo = after.lo;
        product.hi = after.hi;
        product.size += atoms[i]->size;
    }
    return intern_bytes(ir_ctx(ctx)->products, &product, sizeof product);
}

static const Dim *from_atom(Context *ctx, const Atom *atom)
{
    const Atom *stored = intern_bytes(ir_ctx(ctx)->atoms, atom, sizeof *atom);
    return make(ctx, 0, &(Term){1, make_product(ctx, &stored, 1)}, 1);
}

const Dim *dim_const(Context *ctx, int64_t value) { return make(ctx, value, NULL, 0); }

const Dim *dim_sym(Context *ctx, const Sym *sym)
{
    if (sym->lo == sym->hi)
        return dim_const(ctx, sym->lo);
    return from_atom(ctx, &(Atom){.sym = sym, .lo = sym->lo, .hi = sym->hi, .kind = ATOM_SYM, .size = 1});
}

static Range range_of_atom(AtomKind kind, Range a, Range b)
{
    Range r = {INT64_MIN, INT64_MAX};
    switch (kind) {
    case ATOM_SYM:
        break;
    case ATOM_FLOORDIV:
        if (excludes_zero(b))
            r = range_of_corners(&a, &b, bound_div);
        break;
    case ATOM_MOD: /* between 0 and the divisor, exclusive */
        r.lo = b.lo >= 0 ? 0 : b.lo == INT64_MIN ? INT64_MIN : b.lo + 1;
        r.hi = b.hi <= 0 ? 0 : b.hi == INT64_MAX ? INT64_MAX : b.hi - 1;
        break;
    case ATOM_MIN:
        r = (Range){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
        break;
    case ATOM_MAX:
        r = (Range){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
        break;
    }
    return r;
}

static const Dim *from_pair(Context *ctx, AtomKind kind, const Dim *a, const Dim *b)
{
    Range r = range_of_atom(kind, range_of(a), range_of(b));
    if (r.lo == r.hi && !is_unbounded(r.lo))
        return dim_const(ctx, r.lo);
    Atom atom = {.a = a, .b = b, .lo = r.lo, .hi = r.hi, .kind = kind, .size = 1 + a->size + b->size};
    return from_atom(ctx, &atom);
}

/* ---- sums and products ---------------------------------------------------------------------------------------- */

/* a + factor * product * b; product may be NULL (1). Multiplying keeps the order of the terms, so this is one merge. */
static const Dim *add_scaled(Context *ctx, const Dim *a, const Dim *b, int64_t factor, const Product *by);

/* The atom of a term that is factor * (one atom of `kind`), or NULL. */
static const Atom *lone_atom(const Term *term, AtomKind kind)
{
    const Product *product = term->product;
    return product->n == 1 && product->atom[0]->kind == (uint32_t)kind ? product->atom[0] : NULL;
}

const Sym *dim_as_sym(const Dim *dim)
{
    const Atom *atom = dim->n == 1 && dim->constant == 0 && dim->term[0].factor == 1 ? lone_atom(&dim->term[0], ATOM_SYM) : NULL;
    return atom ? atom->sym : NULL;
}

/* k*c*(x/c) + k*(x mod c) -> k*x; the sum itself if there is no such pair. */
static const Dim *join_div_mod(Context *ctx, const Dim *sum)
{
    for (uint32_t i = 0; i < sum->n; i++) {
        const Atom *mod = lone_atom(&sum->term[i], ATOM_MOD);
        int64_t divisor, want;
        if (!mod || !dim_is_const(mod->b, &divisor) || __builtin_mul_overflow(sum->term[i].factor, divisor, &want))
            continue;
        for (uint32_t k = 0; k < sum->n; k++) {
            const Atom *div = lone_atom(&sum->term[k], ATOM_FLOORDIV);
            if (!div || div->a != mod->a || div->b != mod->b || sum->term[k].factor != want)
                continue;
            Term rest[MAX_TERMS];
            uint32_t n = 0;
            for (uint32_t t = 0; t < sum->n; t++)
                if (t != i && t != k)
                    rest[n++] = sum->term[t];
            return add_scaled(ctx, make(ctx, sum->constant, rest, n), mod->a, sum->term[i].factor, NULL);
        }
    }
    return sum;
}

static const Product *multiply_products(Context *ctx, const Product *a, const Product *b)
{
    const Atom *atoms[2 * MAX_DEGREE];
    if (a->n + b->n > MAX_DEGREE)
        return NULL;
    uint32_t i = 0, k = 0, n = 0;
    while (i < a->n || k < b->n) {
        bool first = k == b->n || (i < a->n && compare_atoms(a->atom[i], b->atom[k]) <= 0);
        atoms[n++] = first ? a->atom[i++] : b->atom[k++];
    }
    return make_product(ctx, atoms, n);
}

/* factor * by * (terms and constant of b) as a sorted list; false when it cannot be represented. */
static bool scale(Context *ctx, const Dim *b, int64_t factor, const Product *by, Term *list, uint32_t *n,
                  int64_t *constant)
{
    *n = 0;
    *constant = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        Term *term = &list[(*n)++];
        term->product = by ? multiply_products(ctx, by, b->term[i].product) : b->term[i].product;
        if (!term->product || __builtin_mul_overflow(b->term[i].factor, factor, &term->factor))
            return false;
    }
    int64_t scaled;
    if (__builtin_mul_overflow(b->constant, factor, &scaled))
        return false;
    if (by && scaled)
        list[(*n)++] = (Term){scaled, by};
    else if (!by)
        *constant = scaled;
    return true;
}

static const Dim *add_scaled(Context *ctx, const Dim *a, const Dim *b, int64_t factor, const Product *by)
{
    Term scaled[MAX_TERMS + 1], sum[2 * MAX_TERMS + 1];
    uint32_t n_scaled, n = 0, i = 0, k = 0;
    int64_t constant;
    if (a->invalid || b->invalid)
        return invalid(ctx);
    if (factor == 0)
        return a;
    if (!scale(ctx, b, factor, by, scaled, &n_scaled, &constant) ||
        __builtin_add_overflow(a->constant, constant, &constant))
        return invalid(ctx);
    while (i < a->n || k < n_scaled) {
        int order = i == a->n ? 1 : k == n_scaled ? -1 : compare_products(a->term[i].product, scaled[k].product);
        if (order) {
            sum[n++] = order < 0 ? a->term[i++] : scaled[k++];
            continue;
        }
        Term term = a->term[i++];
        if (__builtin_add_overflow(term.factor, scaled[k++].factor, &term.factor))
            return invalid(ctx);
        if (term.factor)
            sum[n++] = term;
    }
    return join_div_mod(ctx, make(ctx, constant, sum, n));
}

const Dim *dim_add(Context *ctx, const Dim *a, const Dim *b) { return add_scaled(ctx, a, b, 1, NULL); }
const Dim *dim_sub(Context *ctx, const Dim *a, const Dim *b) { return add_scaled(ctx, a, b, -1, NULL); }

const Dim *dim_mul(Context *ctx, const Dim *a, const Dim *b)
{
    if (a->invalid || b->invalid)
        return invalid(ctx);
    const Dim *sum = add_scaled(ctx, dim_const(ctx, 0), a, b->constant, NULL);
    for (uint32_t i = 0; i < b->n; i++)
        sum = add_scaled(ctx, sum, a, b->term[i].factor, b->term[i].product);
    return sum;
}

static const Dim *negate(Context *ctx, const Dim *a) { return add_scaled(ctx, dim_const(ctx, 0), a, -1, NULL); }

/* ---- division ------------------------------------------------------------------------------------------------- */

/* x / y for products, or NULL if y does not divide x. *one: the quotient is 1. */
static const Product *divide_products(Context *ctx, const Product *x, const Product *y, bool *divides)
{
    const Atom *atoms[MAX_DEGREE];
    uint32_t n = 0, k = 0;
    for (uint32_t i = 0; i < x->n; i++)
        if (k < y->n && x->atom[i] == y->atom[k])
            k++;
        else
            atoms[n++] = x->atom[i];
    *divides = k == y->n;
    return *divides && n ? make_product(ctx, atoms, n) : NULL;
}

/* Long division by the leading term of b: a = b*quotient + rest, no term of rest divisible by b's leading term.
 * False when an intermediate result cannot be represented. */
static bool divide(Context *ctx, const Dim *a, const Dim *b, const Dim **quotient, const Dim **rest)
{
    const Dim *q = dim_const(ctx, 0), *one = dim_const(ctx, 1);
    const Dim *left = a;
    for (uint32_t done = 0, steps = 0; done < left->n && steps < 4 * MAX_TERMS; steps++) {
        const Term *lead = &left->term[done];
        bool divides;
        const Product *by = divide_products(ctx, lead->product, b->term[0].product, &divides);
        if (!divides || (b->term[0].factor != -1 && lead->factor % b->term[0].factor != 0) ||
            (b->term[0].factor == -1 && lead->factor == INT64_MIN)) {
            done++; /* stays in the rest; what follows is smaller, so subtracting never disturbs it */
            continue;
        }
        int64_t factor = lead->factor / b->term[0].factor;
        if (factor == INT64_MIN)
            return false;
        q = add_scaled(ctx, q, one, factor, by);
        left = add_scaled(ctx, left, b, -factor, by);
        if (q->invalid || left->invalid)
            return false;
    }
    *quotient = q;
    *rest = left;
    return true;
}

/* a = c*q + g*r + s with 0 <= s < g, r's factors and constant in [0, c/g), gcd of r's factors and c/g is 1.
 * Then a/c = q + r/(c/g) and a mod c = g*(r mod c/g) + s. Requires c > 0. */
typedef struct Split {
    const Dim *q, *r;
    int64_t g, s;
} Split;

static Split split_by(Context *ctx, const Dim *a, int64_t c)
{
    Term q[MAX_TERMS] = {{0}}, r[MAX_TERMS] = {{0}};
    uint32_t n_q = 0, n_r = 0;
    int64_t g = c;
    for (uint32_t i = 0; i < a->n; i++) {
        Term high = {floor_div(a->term[i].factor, c), a->term[i].product};
        Term low = {floor_mod(a->term[i].factor, c), a->term[i].product};
        if (high.factor)
            q[n_q++] = high;
        if (low.factor)
            r[n_r++] = low;
        g = gcd_s64(g, low.factor);
    }
    int64_t low = floor_mod(a->constant, c);
    for (uint32_t i = 0; i < n_r; i++)
        r[i].factor /= g;
    return (Split){.q = make(ctx, floor_div(a->constant, c), q, n_q),
                   .r = join_div_mod(ctx, make(ctx, low / g, r, n_r)),
                   .g = g,
                   .s = low % g};
}

/* r / c, r as split_by leaves it. */
static const Dim *floordiv_rest(Context *ctx, const Dim *r, int64_t c)
{
    if (c == 1)
        return r;
    if (!is_unbounded(r->lo) && !is_unbounded(r->hi) && floor_div(r->lo, c) == floor_div(r->hi, c))
        return dim_const(ctx, floor_div(r->lo, c));
    int64_t inner, product;
    const Atom *nested = r->n == 1 && r->term[0].factor == 1 ? lone_atom(&r->term[0], ATOM_FLOORDIV) : NULL;
    if (nested && dim_is_const(nested->b, &inner) && inner > 0 && !__builtin_mul_overflow(inner, c, &product)) {
        const Dim *sum = add_scaled(ctx, nested->a, dim_const(ctx, r->constant), inner, NULL);
        if (!sum->invalid)
            return dim_floordiv(ctx, sum, dim_const(ctx, product));
    }
    return from_pair(ctx, ATOM_FLOORDIV, r, dim_const(ctx, c));
}

static const Dim *mod_rest(Context *ctx, const Dim *r, int64_t c)
{
    if (c == 1)
        return dim_const(ctx, 0);
    if (!is_unbounded(r->lo) && !is_unbounded(r->hi) && floor_div(r->lo, c) == floor_div(r->hi, c))
        return add_scaled(ctx, r, dim_const(ctx, floor_div(r->lo, c)), -c, NULL);
    return from_pair(ctx, ATOM_MOD, r, dim_const(ctx, c));
}

const Dim *dim_floordiv(Context *ctx, const Dim *a, const Dim *b)
{
    int64_t c;
    if (a->invalid || b->invalid)
        return invalid(ctx);
    if (dim_is_const(b, &c)) {
        if (c == 0)
            return invalid(ctx);
        if (c < 0) /* a/c = -a/-c */
            return dim_floordiv(ctx, negate(ctx, a), negate(ctx, b));
        Split split = split_by(ctx, a, c);
        if (split.q->invalid || split.r->invalid)
            return invalid(ctx);
        return dim_add(ctx, split.q, floordiv_rest(ctx, split.r, c / split.g));
    }
    const Dim *quotient, *rest;
    if (excludes_zero(range_of(b)) && divide(ctx, a, b, &quotient, &rest)) {
        int64_t zero;
        if (dim_is_const(rest, &zero) && zero == 0)
            return quotient;
        return dim_add(ctx, quotient, from_pair(ctx, ATOM_FLOORDIV, rest, b));
    }
    return from_pair(ctx, ATOM_FLOORDIV, a, b);
}

const Dim *dim_mod(Context *ctx, const Dim *a, const Dim *b)
{
    int64_t c;
    if (a->invalid || b->invalid)
        return invalid(ctx);
    if (dim_is_const(b, &c)) {
        if (c == 0)
            return invalid(ctx);
        if (c < 0) /* the sign of the divisor: a mod c = -(-a mod -c) */
            return negate(ctx, dim_mod(ctx, negate(ctx, a), negate(ctx, b)));
        Split split = split_by(ctx, a, c);
        if (split.r->invalid)
            return invalid(ctx);
        return add_scaled(ctx, dim_const(ctx, split.s), mod_rest(ctx, split.r, c / split.g), split.g, NULL);
    }
    const Dim *quotient, *rest;
    if (excludes_zero(range_of(b)) && divide(ctx, a, b, &quotient, &rest)) {
        int64_t zero;
        if ((dim_is_const(rest, &zero) && zero == 0) || (rest->lo >= 0 && b->lo > 0 && rest->hi < b->lo))
            return rest;
        return from_pair(ctx, ATOM_MOD, rest, b);
    }
    return from_pair(ctx, ATOM_MOD, a, b);
}

static const Dim *extremum(Context *ctx, AtomKind kind, const Dim *a, const Dim *b)
{
    if (a->invalid || b->invalid)
        return invalid(ctx);
    const Dim *less = dim_le(a, b) == TRI_YES ? a : dim_le(b, a) == TRI_YES ? b : NULL;
    if (less)
        return (less == a) == (kind == ATOM_MIN) ? a : b;
    return compare_dims(a, b) <= 0 ? from_pair(ctx, kind, a, b) : from_pair(ctx, kind, b, a);
}

const Dim *dim_min(Context *ctx, const Dim *a, const Dim *b) { return extremum(ctx, ATOM_MIN, a, b); }
const Dim *dim_max(Context *ctx, const Dim *a, const Dim *b) { return extremum(ctx, ATOM_MAX, a, b); }

/* ---- questions ------------------------------------------------------------------------------------------------ */

bool dim_is_valid(const Dim *dim) { return !dim->invalid; }

bool dim_is_const(const Dim *dim, int64_t *value)
{
    if (dim->invalid || dim->n)
        return false;
    if (value)
        *value = dim->constant;
    return true;
}

/* dim with its i-th term, factor * atom, replaced by factor * with. */
static const Dim *replace_term(const Dim *dim, uint32_t i, const Dim *with)
{
    Term rest[MAX_TERMS];
    uint32_t n = 0;
    for (uint32_t t = 0; t < dim->n; t++)
        if (t != i)
            rest[n++] = dim->term[t];
    return add_scaled(dim->ctx, make(dim->ctx, dim->constant, rest, n), with, dim->term[i].factor, NULL);
}

/* A lower bound that sees what intervals alone do not: with k*(x/c), c times the dim is at least
 * c*rest + k*(x-c+1) (k > 0) or c*rest + k*x (k < 0); min and max are one of their operands, and a bound of each. */
static int64_t lower_bound_within(const Dim *dim, int *fuel)
{
    int64_t best = dim->lo;
    for (uint32_t i = 0; i < dim->n && !dim->invalid; i++) {
        const Term *term = &dim->term[i];
        const Atom *atom = term->product->n == 1 ? term->product->atom[0] : NULL;
        int64_t c, bound = INT64_MIN;
        if (!atom || atom->kind == ATOM_SYM || atom->kind == ATOM_MOD)
            continue;
        if (--*fuel < 0)
            break;
        if (atom->kind == ATOM_FLOORDIV) {
            if (!dim_is_const(atom->b, &c) || c <= 1)
                continue;
            Context *ctx = dim->ctx;
            const Dim *x = term->factor > 0 ? dim_sub(ctx, atom->a, dim_const(ctx, c - 1)) : atom->a;
            const Dim *rest = replace_term(dim, i, dim_const(ctx, 0));
            const Dim *whole =
                add_scaled(ctx, add_scaled(ctx, dim_const(ctx, 0), rest, c, NULL), x, term->factor, NULL);
            bound = whole->invalid ? INT64_MIN : lower_bound_within(whole, fuel);
            if (!is_unbounded(bound))
                bound = -floor_div(-bound, c); /* rounded up: the dim is an integer */
        } else {
            const Dim *with_a = replace_term(dim, i, atom->a), *with_b = replace_term(dim, i, atom->b);
            int64_t a = with_a->invalid ? INT64_MIN : lower_bound_within(with_a, fuel);
            int64_t b = with_b->invalid ? INT64_MIN : lower_bound_within(with_b, fuel);
            /* factor*atom >= factor*operand for both operands when it is -min or +max, else for one of them */
            bound = (atom->kind == ATOM_MAX) == (term->factor > 0) ? (a > b ? a : b) : (a < b ? a : b);
        }
        best = bound > best ? bound : best;
    }
    return best;
}

/* The fuel keeps large expressions cheap; it is part of what the answer is a function of, so answers stay the same. */
static int64_t lower_bound(const Dim *dim)
{
    int fuel = 48;
    return lower_bound_within(dim, &fuel);
}

static int64_t upper_bound(const Dim *dim)
{
    const Dim *negated = negate(dim->ctx, dim);
    int64_t bound = negated->invalid ? INT64_MIN : lower_bound(negated);
    int64_t hi = bound == INT64_MIN ? INT64_MAX : -bound;
    return hi < dim->hi ? hi : dim->hi;
}

void dim_range(const Dim *dim, int64_t *lo, int64_t *hi)
{
    *lo = dim->invalid ? INT64_MIN : lower_bound(dim);
    *hi = dim->invalid ? INT64_MAX : upper_bound(dim);
}

/* Is `dim`, not a number, never 0 because its constant is no multiple of what divides all its terms? */
static bool never_zero_by_gcd(const Dim *dim)
{
    int64_t g = 0;
    for (uint32_t i = 0; i < dim->n; i++) {
        int64_t factor = dim->term[i].factor;
        if (factor == INT64_MIN)
            return false;
        g = gcd_s64(g, factor < 0 ? -factor : factor);
    }
    return g > 1 && dim->constant % g != 0;
}

Tri dim_eq(const Dim *a, const Dim *b)
{
    if (a->invalid || b->invalid)
        return TRI_UNKNOWN;
    if (a == b)
        return TRI_YES;
    const Dim *difference = dim_sub(a->ctx, a, b);
    if (difference->invalid)
        return a->hi < b->lo || b->hi < a->lo ? TRI_NO : TRI_UNKNOWN;
    bool apart = lower_bound(difference) > 0 || upper_bound(difference) < 0;
    return apart || never_zero_by_gcd(difference) ? TRI_NO : TRI_UNKNOWN;
}

Tri dim_le(const Dim *a, const Dim *b)
{
    if (a->invalid || b->invalid)
        return TRI_UNKNOWN;
    if (a == b || a->hi <= b->lo)
        return TRI_YES;
    const Dim *difference = dim_sub(a->ctx, b, a);
    if (difference->invalid)
        return a->lo > b->hi ? TRI_NO : TRI_UNKNOWN;
    return lower_bound(difference) >= 0 ? TRI_YES : upper_bound(difference) < 0 ? TRI_NO : TRI_UNKNOWN;
}

Tri dim_divides(const Dim *divisor, const Dim *dim)
{
    int64_t c, value;
    if (divisor->invalid || dim->invalid)
        return TRI_UNKNOWN;
    if (dim_is_const(dim, &value) && value == 0)
        return TRI_YES;
    if (dim_is_const(divisor, &c)) {
        if (c == 0) /* 0 divides 0 only */
            return dim_eq(dim, divisor);
        const Dim *rest = dim_mod(dim->ctx, dim, divisor);
        if (rest->invalid)
            return TRI_UNKNOWN;
        if (dim_is_const(rest, &value))
            return value == 0 ? TRI_YES : TRI_NO;
        return excludes_zero(range_of(rest)) ? TRI_NO : TRI_UNKNOWN;
    }
    const Dim *quotient, *rest; /* dim = divisor * quotient holds also where the divisor is 0 */
    if (divide(dim->ctx, dim, divisor, &quotient, &rest) && dim_is_const(rest, &value) && value == 0)
        return TRI_YES;
    return TRI_UNKNOWN;
}

static const void *fold_product(const Term *term, const DimFold *f)
{
    const void *product = term->factor == 1 ? NULL : f->number(f->user, term->factor);
    for (uint32_t k = 0; k < term->product->n; k++) {
        const Atom *atom = term->product->atom[k];
        static const DimOp op[] = {[ATOM_FLOORDIV] = DIM_FLOORDIV, [ATOM_MOD] = DIM_MOD, [ATOM_MIN] = DIM_MIN, [ATOM_MAX] = DIM_MAX};
        const void *value = atom->kind == ATOM_SYM
                                ? f->sym(f->user, atom->sym)
                                : f->apply(f->user, op[atom->kind], dim_fold(atom->a, f), dim_fold(atom->b, f));
        product = product ? f->apply(f->user, DIM_MUL, value, product) : value;
    }
    return product;
}

const void *dim_fold(const Dim *dim, const DimFold *fold)
{
    const void *sum = dim->n && !dim->constant ? NULL : fold->number(fold->user, dim->constant);
    for (uint32_t i = 0; i < dim->n; i++) {
        const void *product = fold_product(&dim->term[i], fold);
        sum = sum ? fold->apply(fold->user, DIM_ADD, sum, product) : product;
    }
    return sum;
}

typedef struct Bind {
    Context *ctx;
    const Dim *(*bind)(void *user, const Sym *sym);
    void *user;
} Bind;

static const void *bind_number(void *user, int64_t value) { return dim_const(((const Bind *)user)->ctx, value); }

static const void *bind_sym(void *user, const Sym *sym)
{
    const Bind *b = user;
    const Dim *with = b->bind(b->user, sym);
    return with ? with : dim_sym(b->ctx, sym);
}

static const void *bind_apply(void *user, DimOp op, const void *a, const void *b)
{
    static const Dim *(*const apply[])(Context *, const Dim *, const Dim *) = {
        [DIM_ADD] = dim_add, [DIM_MUL] = dim_mul, [DIM_FLOORDIV] = dim_floordiv,
        [DIM_MOD] = dim_mod, [DIM_MIN] = dim_min, [DIM_MAX] = dim_max};
    return apply[op](((const Bind *)user)->ctx, a, b);
}

const Dim *dim_bind(Context *ctx, const Dim *dim, const Dim *(*bind)(void *user, const Sym *sym), void *user)
{
    Bind b = {ctx, bind, user};
    DimFold fold = {&b, bind_number, bind_sym, bind_apply};
    return dim->invalid ? dim : dim_fold(dim, &fold);
}

void dim_each_sym(const Dim *dim, void (*visit)(void *user, const Sym *sym), void *user)
{
    for (uint32_t i = 0; i < dim->n; i++)
        for (uint32_t k = 0; k < dim->term[i].product->n; k++) {
            const Atom *atom = dim->term[i].product->atom[k];
            if (atom->kind == ATOM_SYM) {
                visit(user, atom->sym);
            } else {
                dim_each_sym(atom->a, visit, user);
                dim_each_sym(atom->b, visit, user);
            }
        }
}

/* ---- text ----------------------------------------------------------------------------------------------------- */

static void print_atom(Text *text, const Atom *atom)
{
    static const char *const call[] = {"", "floordiv", "mod", "min", "max"};
    if (atom->kind == ATOM_SYM) {
        bool taken = strcmp(atom->sym->name, "invalid") == 0; /* a function's name is known by its parenthesis */
        if (taken)
            text_add_quoted(text, atom->sym->name);
        else
            ir_print_name(text, atom->sym->name);
        return;
    }
    text_addf(text, "%s(", call[atom->kind]);
    dim_print(text, atom->a);
    text_add(text, ",");
    dim_print(text, atom->b);
    text_add(text, ")");
}

static void print_magnitude(Text *text, int64_t value)
{
    text_addf(text, "%" PRIu64, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void dim_print(Text *text, const Dim *dim)
{
    if (dim->invalid) {
        text_add(text, "invalid");
        return;
    }
    for (uint32_t i = 0; i < dim->n; i++) {
        const Term *term = &dim->term[i];
        text_add(text, term->factor < 0 ? "-" : i ? "+" : "");
        if (term->factor != 1 && term->factor != -1) {
            print_magnitude(text, term->factor);
            text_add(text, "*");
        }
        for (uint32_t k = 0; k < term->product->n; k++) {
            text_add(text, k ? "*" : "");
            print_atom(text, term->product->atom[k]);
        }
    }
    if (dim->n == 0 || dim->constant) {
        text_add(text, dim->constant < 0 ? "-" : dim->n ? "+" : "");
        print_magnitude(text, dim->constant);
    }
}
