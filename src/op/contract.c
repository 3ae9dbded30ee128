/* SPDX-License-Identifier: Apache-2.0
 *
 * Contractions: dot and conv, shapes and nests. Which product meets which in what order is numerics.md "Contraction":
 * the position of a product is its row-major index over the contracted axes (dot: as listed; conv: kernel axes, then
 * channel), blocks of kb positions are FMA chains, blocks are added ascending. Skipped taps (padding, holes of
 * lhs_dilation) are no part of a chain but keep their positions.
 */
#include "op/op_int.h"

#include <string.h>

enum { KB = 512 };

/* ---- dot -------------------------------------------------------------------------------------------------------- */

/* Marks the axes of two paired lists and proves them equal in size. */
static bool paired(const ShapeArgs *args, AttrName lhs, AttrName rhs, bool *lhs_used, bool *rhs_used)
{
    const AttrVal *l = sh_attr(args, lhs), *r = sh_attr(args, rhs);
    bool seen[IR_MAX_RANK];
    if (l->n != r->n)
        return sh_bad_attr(args, rhs, "lists %u axes, %s lists %u", r->n, attr_name(lhs), l->n);
    if (!sh_axes(args, lhs, args->in[0]->rank, seen) || !sh_axes(args, rhs, args->in[1]->rank, seen))
        return false;
    for (uint32_t i = 0; i < l->n; i++) {
        uint32_t a = (uint32_t)l->u.ints[i], c = (uint32_t)r->u.ints[i];
        if (lhs_used[a] || rhs_used[c])
            return sh_bad_attr(args, lhs, "axis %u or %u is batch and contracted at once", a, c);
        if (!sh_same_dim(args, 0, a, 1, c))
            return false;
        lhs_used[a] = rhs_used[c] = true;
    }
    return true;
}

bool shape_dot(ShapeArgs *args)
{
    const Type *x = args->in[0], *y = args->in[1];
    bool x_used[IR_MAX_RANK] = {false}, y_used[IR_MAX_RANK] = {false};
    const Dim *dims[2 * IR_MAX_RANK];
    uint32_t n = 0;
    if (!sh_dtype(args, 0, DS_NUMBER) || !sh_same_dtype(args, 0, 1) ||
        !paired(args, AN_lhs_batch, AN_rhs_batch, x_used, y_used) ||
        !paired(args, AN_lhs_contract, AN_rhs_contract, x_used, y_used))
        return false;
    const AttrVal *batch = sh_attr(args, AN_lhs_batch);
    for (uint32_t i = 0; i < batch->n; i++)
        dims[n++] = x->dim[batch->u.ints[i]];
    for (uint32_t a = 0; a < x->rank; a++)
        if (!x_used[a])
            dims[n++] = x->dim[a];
    for (uint32_t a = 0; a < y->rank; a++)
        if (!y_used[a])
            dims[n++] = y->dim[a];
    return sh_out(args, 0, x->dtype, n, dims);
}

static void start_chain(LowerArgs *args, int64_t kb)
{
    DType dtype = lower_type(args, 0)->dtype;
    args->nest = (FoldNest){.kind = FOLD_DOT,
                            .form = dtype_is_float(dtype) ? FORM_CHAIN : FORM_EXACT,
                            .kb = kb,
                            .acc = lower_acc(dtype),
                            .n_operands = 2};
}

bool lower_dot(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    const int64_t *lb, *rb, *lc, *rc;
    uint32_t nb = node_ints(args->node, AN_lhs_batch, &lb), nc = node_ints(args->node, AN_lhs_contract, &lc), n = 0;
    node_ints(args->node, AN_rhs_batch, &rb);
    node_ints(args->node, AN_rhs_contract, &rc);
    start_chain(args, KB);
    for (; n < nb; n++)
        args->nest.index[0][lb[n]] = args->nest.index[1][rb[n]] = args->out[n];
    const Dim *dims[IR_MAX_RANK];
    const Expr *k[IR_MAX_RANK];
    for (uint32_t i = 0; i < nc; i++)
        dims[i] = lower_type(args, 0)->dim[lc[i]];
    if (!lower_fold_axes(args, "k", dims, nc, k))
        return false;
    for (uint32_t i = 0; i < nc; i++)
        args->nest.index[0][lc[i]] = args->nest.index[1][rc[i]] = k[i];
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t a = 0; a < lower_type(args, side)->rank; a++)
            if (!args->nest.index[side][a])
                args->nest.index[side][a] = args->out[n++];
    return true;
}

/* ---- conv ------------------------------------------------------------------------------------------------------- */

static bool conv_channels(const ShapeArgs *args, int64_t groups)
{
    const Type *x = args->in[0], *w = args->in[1];
    const Dim *g = dim_const(args->ctx, groups);
    int64_t outs, per;
    if (groups < 1)
        return sh_bad_attr(args, AN_groups, "%lld is below 1", (long long)groups);
    if (!dim_is_const(w->dim[0], &outs) || !dim_is_const(w->dim[1], &per))
        return sh_bad_shape(args, "the channels of the kernel must be numbers");
    if (outs % groups)
        return sh_bad_attr(args, AN_groups, "%lld output channels do not divide into %lld groups", (long long)outs,
                           (long long)groups);
    if (dim_eq(x->dim[1], dim_mul(args->ctx, w->dim[1], g)) != TRI_YES)
        return sh_bad_shape(args, "the operand's channels are not %lld groups of the kernel's %lld", (long long)groups,
                            (long long)per);
    return true;
}

bool shape_conv(ShapeArgs *args)
{
    const Type *x = args->in[0], *w = args->in[1];
    const int64_t *stride, *lo, *hi, *dilation, *lhs_dilation;
    const Dim *dims[IR_MAX_RANK];
    if (!sh_dtype(args, 0, DS_NUMBER) || !sh_same_dtype(args, 0, 1))
        return false;
    if (x->rank < 3)
        return sh_bad_shape(args, "operand 0 has rank %u, expected [batch, channels, spatial..]", x->rank);
    uint32_t n = x->rank - 2;
    if (!sh_rank(args, 1, x->rank) || !conv_channels(args, sh_int(args, AN_groups)) ||
        !sh_ints(args, AN_stride, n, 1, &stride) || !sh_ints(args, AN_pad_lo, n, INT32_MIN, &lo) ||
        !sh_ints(args, AN_pad_hi, n, INT32_MIN, &hi) || !sh_ints(args, AN_dilation, n, 1, &dilation) ||
        !sh_ints(args, AN_lhs_dilation, n, 1, &lhs_dilation))
        return false;
    dims[0] = x->dim[0];
    dims[1] = w->dim[0];
    for (uint32_t a = 0; a < n; a++) {
        int64_t kernel;
        if (!dim_is_const(w->dim[a + 2], &kernel) || kernel < 1)
            return sh_bad_shape(args, "kernel axis %u must be a number of 1 or more", a);
        if (!sh_window(args, a, x->dim[a + 2], lhs_dilation[a], kernel, dilation[a], stride[a], lo[a], hi[a],
                       &dims[a + 2]))
            return false;
    }
    return sh_out(args, 0, x->dtype, x->rank, dims);
}

/* Positions of a block: whole rows (one kw and channel range), as many as fit 512, at least one; a kernel of one tap is
 * the dot over the channels. */
static int64_t conv_block(const Type *w)
{
    int64_t taps = 1, row = type_dim(w, w->rank - 1) * type_dim(w, 1);
    for (uint32_t a = 2; a < w->rank; a++)
        taps *= type_dim(w, a);
    if (taps == 1)
        return KB;
    return row == 0 ? KB : row > KB ? row : KB / row * row;
}

/* Where tap k of spatial axis a reads x: the axis with its holes, then without. */
static const Expr *conv_position(LowerArgs *args, uint32_t a, const Expr *tap)
{
    Kernel *k = args->k;
    const int64_t *stride, *lo, *dilation, *holes;
    node_ints(args->node, AN_stride, &stride);
    node_ints(args->node, AN_pad_lo, &lo);
    node_ints(args->node, AN_dilation, &dilation);
    node_ints(args->node, AN_lhs_dilation, &holes);
    int64_t kernel = type_dim(lower_type(args, 1), a + 2);
    const Expr *offset = node_bool(args->node, AN_flip) ? lx_sub(k, lx_int(k, kernel - 1), tap) : tap;
    const Expr *start = lx_sub(k, lx_mul(k, args->out[a + 2], stride[a]), lx_int(k, lo[a]));
    const Expr *at = lx_add(k, start, lx_mul(k, offset, dilation[a]));
    const Expr *real = lx_eq(k, lx_mod(k, at, holes[a]), lx_int(k, 0)); /* not in a hole */
    if (!lx_is_true(real))
        args->nest.guard = lx_and(k, args->nest.guard, real);
    return lower_bounded(args, lx_div(k, at, holes[a]), lower_type(args, 0)->dim[a + 2]);
}

bool lower_conv(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    const Type *x = lower_type(args, 0), *w = lower_type(args, 1);
    int64_t groups = node_int(args->node, AN_groups), per_group = type_dim(w, 1), outs = type_dim(w, 0);
    start_chain(args, conv_block(w));
    FoldNest *nest = &args->nest;
    nest->index[0][0] = args->out[0];
    nest->index[1][0] = args->out[1];
    for (uint32_t a = 2; a < x->rank; a++) {
        const Expr *tap = lower_fold_axis(args, "k", type_dim(w, a));
        if (!tap)
            return false;
        nest->index[1][a] = tap;
        nest->index[0][a] = conv_position(args, a - 2, tap);
    }
    const Expr *channel = lower_fold_axis(args, "c", per_group);
    if (!channel)
        return false;
    nest->index[1][1] = channel;
    if (groups > 1 && outs) {
        const Expr *group = lx_div(k, args->out[1], outs / groups);
        channel = lx_add(k, lx_mul(k, group, per_group), channel);
    }
    nest->index[0][1] = channel;
    return true;
}
