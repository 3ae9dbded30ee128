/* SPDX-License-Identifier: Apache-2.0
 *
 * INDEX ops whose maps are known at compile time: shapes, and lowering to pieces (where an element comes from).
 */
#include "op/op_int.h"

#include <string.h>

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

bool shape_broadcast(ShapeArgs *args)
{
    const AttrVal *shape = sh_attr(args, AN_shape);
    const Type *x = args->in[0];
    if (shape->n != x->rank)
        return sh_bad_attr(args, AN_shape, "has %u entries, the operand has rank %u", shape->n, x->rank);
    return sh_fits(args, 0, shape->u.dims, shape->n) && sh_out(args, 0, x->dtype, shape->n, shape->u.dims);
}

static const Dim *product(Context *ctx, const Dim *const *dims, uint32_t n)
{
    const Dim *result = dim_const(ctx, 1);
    for (uint32_t i = 0; i < n; i++)
        result = dim_mul(ctx, result, dims[i]);
    return result;
}

bool shape_reshape(ShapeArgs *args)
{
    const AttrVal *shape = sh_attr(args, AN_shape);
    const Type *x = args->in[0];
    const Dim *have = product(args->ctx, x->dim, x->rank), *want = product(args->ctx, shape->u.dims, shape->n);
    if (!dim_is_valid(have) || !dim_is_valid(want) || dim_eq(have, want) != TRI_YES) {
        Text text;
        text_init(&text, ctx_arena(args->ctx));
        dim_print(&text, want);
        text_add(&text, " elements wanted, the operand has ");
        dim_print(&text, have);
        return sh_bad_attr(args, AN_shape, "%s", text.data);
    }
    return sh_out(args, 0, x->dtype, shape->n, shape->u.dims);
}

bool shape_transpose(ShapeArgs *args)
{
    const Type *x = args->in[0];
    const AttrVal *perm = sh_attr(args, AN_perm);
    bool seen[IR_MAX_RANK];
    const Dim *dims[IR_MAX_RANK];
    if (perm->n != x->rank)
        return sh_bad_attr(args, AN_perm, "has %u entries, the operand has rank %u", perm->n, x->rank);
    if (!sh_axes(args, AN_perm, x->rank, seen))
        return false;
    for (uint32_t a = 0; a < x->rank; a++)
        dims[a] = x->dim[perm->u.ints[a]];
    return sh_out(args, 0, x->dtype, x->rank, dims);
}

/* 0 <= start and start + (size - 1) * step inside the axis, unless the result is empty. */
static bool slice_axis_fits(const ShapeArgs *args, uint32_t a, const Dim *start, const Dim *size, int64_t step)
{
    Context *ctx = args->ctx;
    const Dim *zero = dim_const(ctx, 0), *one = dim_const(ctx, 1);
    const Dim *last = dim_add(ctx, start, dim_mul(ctx, dim_sub(ctx, size, one), dim_const(ctx, step)));
    const Dim *low = step > 0 ? start : last, *high = step > 0 ? last : start;
    if (step == 0 || step > INT32_MAX || step < -INT32_MAX)
        return sh_bad_attr(args, AN_step, "entry %u is %lld, supported are 1 to 2^31-1 and their negatives", a,
                           (long long)step);
    if (dim_le(size, zero) == TRI_YES)
        return true;
    if (!dim_is_valid(last) || dim_le(zero, low) == TRI_NO ||
        dim_le(dim_add(ctx, high, one), args->in[0]->dim[a]) == TRI_NO)
        return sh_bad_attr(args, AN_start, "the slice of axis %u leaves the operand", a);
    return true;
}

bool shape_slice(ShapeArgs *args)
{
    const Type *x = args->in[0];
    const AttrVal *start = sh_attr(args, AN_start), *size = sh_attr(args, AN_size), *step = sh_attr(args, AN_step);
    if (start->n != x->rank || size->n != x->rank || step->n != x->rank)
        return sh_bad_attr(args, AN_start, "start, size and step have %u, %u and %u entries, the operand has rank %u",
                           start->n, size->n, step->n, x->rank);
    for (uint32_t a = 0; a < x->rank; a++)
        if (!slice_axis_fits(args, a, start->u.dims[a], size->u.dims[a], step->u.ints[a]))
            return false;
    return sh_out(args, 0, x->dtype, x->rank, size->u.dims);
}

bool shape_pad(ShapeArgs *args)
{
    Context *ctx = args->ctx;
    const Type *x = args->in[0];
    const AttrVal *lo = sh_attr(args, AN_lo), *hi = sh_attr(args, AN_hi);
    const int64_t *interior;
    const Dim *dims[IR_MAX_RANK];
    if (!sh_same_dtype(args, 0, 1) || !sh_rank(args, 1, 0) || !sh_ints(args, AN_interior, x->rank, 0, &interior))
        return false;
    if (lo->n != x->rank || hi->n != x->rank)
        return sh_bad_attr(args, AN_lo, "lo and hi have %u and %u entries, the operand has rank %u", lo->n, hi->n,
                           x->rank);
    for (uint32_t a = 0; a < x->rank; a++) {
        const Dim *wide = x->dim[a];
        if (interior[a]) {
            const Dim *between = dim_max(ctx, dim_sub(ctx, wide, dim_const(ctx, 1)), dim_const(ctx, 0));
            wide = dim_add(ctx, wide, dim_mul(ctx, between, dim_const(ctx, interior[a])));
        }
        dims[a] = dim_add(ctx, wide, dim_add(ctx, lo->u.dims[a], hi->u.dims[a]));
    }
    return sh_out(args, 0, x->dtype, x->rank, dims);
}

bool shape_concat(ShapeArgs *args)
{
    const Type *x = args->in[0];
    uint32_t axis;
    const Dim *dims[IR_MAX_RANK];
    if (!sh_axis(args, AN_axis, x->rank, &axis))
        return false;
    memcpy(dims, x->dim, x->rank * sizeof *dims);
    for (uint32_t i = 1; i < args->n_in; i++) {
        if (!args->in[i])
            return sh_bad_shape(args, "operand %u is required", i);
        if (!sh_same_dtype(args, 0, i) || !sh_rank(args, i, x->rank))
            return false;
        for (uint32_t a = 0; a < x->rank; a++)
            if (a != axis && !sh_same_dim(args, 0, a, i, a))
                return false;
        dims[axis] = dim_add(args->ctx, dims[axis], args->in[i]->dim[axis]);
    }
    return sh_out(args, 0, x->dtype, x->rank, dims);
}

bool shape_reverse(ShapeArgs *args)
{
    bool seen[IR_MAX_RANK];
    const Type *x = args->in[0];
    return sh_axes(args, AN_axes, x->rank, seen) && sh_out(args, 0, x->dtype, x->rank, x->dim);
}

/* ---- lowering --------------------------------------------------------------------------------------------------- */

bool lower_broadcast(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    IndexPiece *piece = lower_pieces(args, 1);
    const Type *x = lower_type(args, 0);
    for (uint32_t a = 0; a < x->rank; a++)
        piece->index[a] = type_dim(x, a) == 1 ? lx_int(args->k, 0) : args->out[a];
    return true;
}

/* Axes are cut into the smallest groups of equal products on both sides: [2,3,768] -> [6,12,64] pairs (2,3)|(6) and
 * (768)|(12,64), so an index never mixes more axes than the reshape does. */
static bool takes_result(const Dim *in_size, const Dim *out_size)
{
    int64_t in, out;
    if (dim_is_const(in_size, &in) && dim_is_const(out_size, &out))
        return out < in;
    return dim_divides(out_size, in_size) == TRI_YES || dim_divides(in_size, out_size) != TRI_YES;
}

/* The indices of axes [from, to) of the operand at a row-major position over them. */
static void split_linear(LowerArgs *args, const Expr *linear, uint32_t from, uint32_t to, const Expr **index)
{
    Kernel *k = args->k;
    bool opaque = false; /* a division whose divisor is no number */
    for (uint32_t a = to; a-- > from;) {
        const Expr *size = lower_size(args, 0, a), *divisor = lx_max(k, size, lx_int(k, 1));
        bool lone = size->hi <= 1;
        index[a] = lone ? lx_int(k, 0) : a == from ? linear : lx_remainder(k, linear, divisor);
        opaque |= !lone && a > from && !lx_is_int(divisor, NULL);
        if (opaque)
            index[a] = lower_clamped(args, index[a], divisor);
        linear = lone || a == from ? linear : lx_quotient(k, linear, divisor);
    }
}

bool lower_reshape(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    const Type *from = lower_type(args, 0), *to = args->node->out[0].type;
    IndexPiece *piece = lower_pieces(args, 1);
    const Dim *one = dim_const(k->ctx, 1);
    uint64_t count;
    bool empty = type_count(from, &count) && count == 0;
    uint32_t i = 0, o = 0;
    while (i < from->rank || o < to->rank) {
        uint32_t i0 = i;
        const Dim *in_size = one, *out_size = one;
        const Expr *linear = lx_int(k, 0);
        if (empty) { /* any index will do */
            i = from->rank, o = to->rank;
        } else {
            if (i < from->rank)
                in_size = from->dim[i++];
            while (in_size != out_size || (i >= from->rank && o < to->rank)) {
                if (i >= from->rank || (o < to->rank && takes_result(in_size, out_size))) {
                    linear = lx_add(k, lx_times(k, linear, lower_dim(args, to->dim[o])), args->out[o]);
                    out_size = dim_mul(k->ctx, out_size, to->dim[o++]);
                } else {
                    in_size = dim_mul(k->ctx, in_size, from->dim[i++]);
                }
            }
        }
        split_linear(args, linear, i0, i, piece->index);
    }
    return true;
}

bool lower_transpose(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    IndexPiece *piece = lower_pieces(args, 1);
    const int64_t *perm;
    uint32_t n = node_ints(args->node, AN_perm, &perm);
    for (uint32_t a = 0; a < n; a++)
        piece->index[perm[a]] = args->out[a];
    return true;
}

/* First and last element are, in every run; of numbers the shape rule knows it. */
static bool slice_is_inside(const LowerArgs *args, uint32_t axis, const Dim *start, int64_t step)
{
    Context *ctx = args->k->ctx;
    const Dim *size = args->node->out[0].type->dim[axis], *end = lower_type(args, 0)->dim[axis];
    const Dim *zero = dim_const(ctx, 0), *one = dim_const(ctx, 1);
    const Dim *last = dim_add(ctx, start, dim_mul(ctx, dim_sub(ctx, size, one), dim_const(ctx, step)));
    const Dim *low = step > 0 ? start : last, *high = step > 0 ? last : start;
    if (dim_is_const(start, NULL) && dim_is_const(size, NULL) && dim_is_const(end, NULL))
        return true;
    return dim_le(zero, low) == TRI_YES && dim_le(dim_add(ctx, high, one), end) == TRI_YES;
}

bool lower_slice(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    IndexPiece *piece = lower_pieces(args, 1);
    const Dim *const *start;
    const int64_t *step;
    uint32_t n = node_dims(args->node, AN_start, &start);
    node_ints(args->node, AN_step, &step);
    for (uint32_t a = 0; a < n; a++) {
        if (!slice_is_inside(args, a, start[a], step[a]))
            return lower_fail(args, "it may read outside of an axis whose size has a range: give another range");
        piece->index[a] = lx_add(args->k, lx_mul(args->k, args->out[a], step[a]), lower_dim(args, start[a]));
    }
    return true;
}

bool lower_pad(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    uint32_t rank = lower_type(args, 0)->rank;
    IndexPiece *piece = lower_pieces(args, 2);
    const Dim *const *lo;
    const int64_t *interior;
    node_dims(args->node, AN_lo, &lo);
    node_ints(args->node, AN_interior, &interior);
    const Expr *guard = NULL;
    for (uint32_t a = 0; a < rank; a++) {
        int64_t pitch = interior[a] + 1;
        const Expr *at = lx_sub(k, args->out[a], lower_dim(args, lo[a]));
        const Expr *end = lx_sub(k, lx_mul(k, lower_size(args, 0, a), pitch), lx_int(k, interior[a])); /* an empty axis: <= 0 */
        guard = lx_and(k, guard, lx_le(k, lx_int(k, 0), at));
        guard = lx_and(k, guard, lx_lt(k, at, end));
        if (pitch > 1)
            guard = lx_and(k, guard, lx_eq(k, lx_mod(k, at, pitch), lx_int(k, 0)));
        piece[0].index[a] = pitch > 1 ? lx_div(k, at, pitch) : at;
    }
    piece[1].in = 1;
    if (!guard || lx_is_true(guard))
        args->n_pieces = 1;
    else
        piece[0].guard = guard;
    return true;
}

bool lower_concat(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    int64_t axis = node_int(args->node, AN_axis);
    const Expr *start = lx_int(k, 0);
    uint32_t n = args->node->n_in, used = 0, rank = args->node->out[0].type->rank;
    IndexPiece *piece = lower_pieces(args, n);
    for (uint32_t i = 0; i < n; i++) {
        const Expr *size = lower_size(args, i, (uint32_t)axis);
        if (size->hi == 0 && !(i + 1 == n && used == 0))
            continue;
        IndexPiece *p = &piece[used++];
        p->in = i;
        for (uint32_t a = 0; a < rank; a++)
            p->index[a] = args->out[a];
        p->index[axis] = lx_sub(k, args->out[axis], start);
        start = lx_add(k, start, size);
        p->guard = lx_lt(k, args->out[axis], start);
    }
    if (used > OP_MAX_PIECES)
        return lower_fail(args, "it joins more than 64 operands; join them in steps");
    args->n_pieces = used;
    piece[used - 1].guard = NULL;
    return true;
}

bool lower_reverse(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    IndexPiece *piece = lower_pieces(args, 1);
    const int64_t *axes;
    uint32_t n = node_ints(args->node, AN_axes, &axes);
    for (uint32_t a = 0; a < lower_type(args, 0)->rank; a++)
        piece->index[a] = args->out[a];
    for (uint32_t i = 0; i < n; i++) {
        const Expr *last = lx_sub(args->k, lower_size(args, 0, (uint32_t)axes[i]), lx_int(args->k, 1));
        piece->index[axes[i]] = lx_sub(args->k, last, args->out[axes[i]]);
    }
    return true;
}
