/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes that are known when the kernel runs: index expressions over loads from the buffer of sizes. What the normal form of
 * index_form.c can hold (sums, multiples, division by numbers) is held by it; products of symbols and division by them are s64
 * values with the range that follows from their operands.
 */
#include "loop/loop_int.h"

void kernel_sizes(Kernel *k, const Sym *const *syms, uint32_t n)
{
    int64_t dim = n;
    k->sizes = n ? kernel_buf(k, str_intern(k->ctx, "sizes"), DT_S64, BUF_SIZES, 1, &dim) : NULL;
    k->syms = syms;
}

static const Expr *index_of(Kernel *k, Op op, const Expr *a, const Expr *b, int64_t lo, int64_t hi)
{
    return lx_index(k, lx_map(k, op, DT_S64, (const Expr *const[]){a, b}, 2), lo, hi);
}

const Expr *lx_times(Kernel *k, const Expr *a, const Expr *b)
{
    if (lx_is_int(b, NULL))
        return lx_mul(k, a, b->u.i);
    if (lx_is_int(a, NULL))
        return lx_mul(k, b, a->u.i);
    int64_t lo = INT64_MAX, hi = INT64_MIN;
    for (int i = 0; i < 4; i++) {
        int64_t corner;
        if (__builtin_mul_overflow(i & 1 ? a->hi : a->lo, i & 2 ? b->hi : b->lo, &corner))
            return index_of(k, OP_mul, a, b, INT64_MIN, INT64_MAX);
        lo = corner < lo ? corner : lo;
        hi = corner > hi ? corner : hi;
    }
    return index_of(k, OP_mul, a, b, lo, hi);
}

const Expr *lx_quotient(Kernel *k, const Expr *a, const Expr *b)
{
    IG_CHECK(k->ctx, b->lo >= 1);
    if (lx_is_int(b, NULL))
        return lx_div(k, a, b->u.i);
    a = lx_max(k, a, lx_int(k, 0)); /* below 0 only where a guard says that there is no element */
    return index_of(k, OP_div, a, b, a->lo / b->hi, a->hi / b->lo);
}

const Expr *lx_remainder(Kernel *k, const Expr *a, const Expr *b)
{
    IG_CHECK(k->ctx, b->lo >= 1);
    if (lx_is_int(b, NULL))
        return lx_mod(k, a, b->u.i);
    a = lx_max(k, a, lx_int(k, 0));
    return a->hi < b->lo ? a : index_of(k, OP_rem, a, b, 0, a->hi < b->hi - 1 ? a->hi : b->hi - 1);
}

static const void *number(void *user, int64_t value) { return lx_int(user, value); }

static const void *symbol(void *user, const Sym *sym)
{
    Kernel *k = user;
    for (int64_t i = 0; k->sizes && i < k->sizes->dim[0]; i++)
        if (k->syms[i] == sym) {
            const Expr *at = lx_int(k, i);
            return lx_index(k, lx_load(k, k->sizes, &at, NULL, NULL), sym->lo, sym->hi);
        }
    return NULL;
}

static const void *apply(void *user, DimOp op, const void *x, const void *y)
{
    Kernel *k = user;
    const Expr *a = x, *b = y;
    if (!a || !b)
        return NULL;
    switch (op) { /* op-switch: of a dim, no node */
    case DIM_ADD: return lx_add(k, a, b);
    case DIM_MUL: return lx_times(k, a, b);
    case DIM_MIN: return lx_min(k, a, b);
    case DIM_MAX: return lx_max(k, a, b);
    default: break;
    }
    if (b->lo < 1 || (a->lo < 0 && !lx_is_int(b, NULL)))
        return NULL;
    if (lx_is_int(b, NULL))
        return op == DIM_MOD ? lx_mod(k, a, b->u.i) : lx_div(k, a, b->u.i);
    return op == DIM_MOD ? lx_remainder(k, a, b) : lx_quotient(k, a, b);
}

const Expr *lx_dim(Kernel *k, const Dim *dim)
{
    int64_t lo, hi;
    DimFold fold = {k, number, symbol, apply};
    const Expr *e = dim_fold(dim, &fold);
    dim_range(dim, &lo, &hi);
    if (e && e->hi > hi)
        e = lx_min(k, e, lx_int(k, hi));
    return e && e->lo < lo ? lx_max(k, e, lx_int(k, lo)) : e;
}

bool lx_is_size(const Expr *e)
{
    if (e->n_uses || (e->kind == LX_LOAD && e->u.buf->space != BUF_SIZES))
        return false;
    for (uint32_t i = 0; i < e->n_args; i++)
        if (!lx_is_size(e->arg[i]))
            return false;
    return true;
}

const Expr *lx_axis_size(Kernel *k, const Buf *buf, uint32_t axis)
{
    return buf->size ? buf->size[axis] : lx_int(k, buf->dim[axis]);
}
