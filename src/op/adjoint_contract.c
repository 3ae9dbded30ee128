/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of dot and conv: they are dot and conv again, so higher orders need nothing more.
 *
 * conv along one axis reads input i = (o*s + k'*d - p) / r where that is whole, with k' = k, or K-1-k under flip; s, d,
 * r are stride, dilation and dilation of the input. Solved for i, it is a conv over g with s and r exchanged, the other
 * flip and padding (K-1)*d - p. Solved for k', it is a conv that runs g as a dilated kernel (dilation s) over the input
 * with stride d; batch and channels change places.
 */
#include "op/adjoint_int.h"

/* ---- dot ------------------------------------------------------------------------------------------------------ */

typedef struct Side {
    Val *val;
    const int64_t *batch, *contract;
    int64_t free[IR_MAX_RANK], g_free[IR_MAX_RANK]; /* free axes; where g has them */
    uint32_t n_free;
} Side;

static Side side_of(Val *val, const int64_t *batch, uint32_t nb, const int64_t *contract, uint32_t nc, uint32_t g_first)
{
    Side s = {.val = val, .batch = batch, .contract = contract};
    for (int64_t axis = 0; axis < val->type->rank; axis++) {
        bool used = false;
        for (uint32_t i = 0; i < nb; i++)
            used |= batch[i] == axis;
        for (uint32_t i = 0; i < nc; i++)
            used |= contract[i] == axis;
        if (!used) {
            s.g_free[s.n_free] = g_first + s.n_free;
            s.free[s.n_free++] = axis;
        }
    }
    return s;
}

/* g contracted with `other` over other's free axes has batch axes, this side's free axes, and other's contracted axes
 * in the order of other's axes: moved to where this side has them. */
static Val *dot_side(Builder *b, Val *g, const Side *self, const Side *other, uint32_t nb, uint32_t nc)
{
    int64_t g_batch[IR_MAX_RANK], perm[IR_MAX_RANK];
    for (uint32_t i = 0; i < nb; i++) {
        g_batch[i] = i;
        perm[self->batch[i]] = i;
    }
    for (uint32_t i = 0; i < self->n_free; i++)
        perm[self->free[i]] = nb + i;
    for (uint32_t i = 0; i < nc; i++) {
        uint32_t before = 0; /* contracted axes of other in front of this one */
        for (uint32_t j = 0; j < nc; j++)
            before += other->contract[j] < other->contract[i];
        perm[self->contract[i]] = nb + self->n_free + before;
    }
    Val *out = op_dot(b, g, other->val, g_batch, other->batch, nb, other->g_free, other->free, other->n_free);
    return out ? op_transpose(b, out, perm) : NULL;
}

bool adjoint_dot(AdjointArgs *args)
{
    const int64_t *lb, *rb, *lc, *rc;
    uint32_t nb = node_ints(args->node, AN_lhs_batch, &lb), nc = node_ints(args->node, AN_lhs_contract, &lc);
    node_ints(args->node, AN_rhs_batch, &rb);
    node_ints(args->node, AN_rhs_contract, &rc);
    if (!adj_wanted(args, 0))
        return true;
    Side x = side_of(adj_in(args, 0), lb, nb, lc, nc, nb);
    Side y = side_of(adj_in(args, 1), rb, nb, rc, nc, nb + x.n_free);
    Val *g = args->out_grad[0];
    return adj_give(args, 0, dot_side(args->b, g, &x, &y, nb, nc)) &&
           adj_give(args, 1, dot_side(args->b, g, &y, &x, nb, nc));
}

/* ---- conv ----------------------------------------------------------------------------------------------------- */

typedef struct ConvAttrs {
    int64_t stride[IR_MAX_RANK], lo[IR_MAX_RANK], hi[IR_MAX_RANK], dilation[IR_MAX_RANK], lhs_dilation[IR_MAX_RANK];
    int64_t groups;
    bool flip;
    uint32_t spatial;
} ConvAttrs;

static ConvAttrs conv_attrs(const Node *node)
{
    const int64_t *s, *p, *d, *r;
    ConvAttrs c = {.groups = node_int(node, AN_groups), .flip = node_bool(node, AN_flip)};
    c.spatial = node_ints(node, AN_stride, &s);
    node_ints(node, AN_pad_lo, &p);
    node_ints(node, AN_dilation, &d);
    node_ints(node, AN_lhs_dilation, &r);
    for (uint32_t i = 0; i < c.spatial; i++) {
        c.stride[i] = s[i];
        c.lo[i] = p[i];
        c.dilation[i] = d[i];
        c.lhs_dilation[i] = r[i];
    }
    return c;
}

static Val *emit_conv(Builder *b, Val *x, Val *w, const ConvAttrs *c)
{
    uint32_t n = c->spatial;
    AttrVal attrs[] = {attr_ints(c->stride, n),   attr_ints(c->lo, n),           attr_ints(c->hi, n),
                       attr_ints(c->dilation, n), attr_ints(c->lhs_dilation, n), attr_int(c->groups),
                       attr_bool(c->flip)};
    return x && w ? op_emit(b, OP_conv, (Val *[]){x, w}, 2, attrs, 7) : NULL;
}

/* [g*a, b, ..] -> [g*b, a, ..] */
static Val *swap_channels(Builder *b, Val *w, int64_t groups)
{
    Context *ctx = b->module->ctx;
    const Dim *dims[IR_MAX_RANK + 1], *g = dim_const(ctx, groups);
    int64_t perm[IR_MAX_RANK + 1];
    uint32_t rank = w->type->rank;
    if (groups == 1) {
        for (uint32_t i = 0; i < rank; i++)
            perm[i] = i < 2 ? 1 - (int64_t)i : i;
        return op_transpose(b, w, perm);
    }
    dims[0] = g;
    dims[1] = dim_floordiv(ctx, w->type->dim[0], g);
    for (uint32_t i = 1; i < rank; i++)
        dims[i + 1] = w->type->dim[i];
    for (uint32_t i = 0; i <= rank; i++)
        perm[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    Val *split = op_reshape(b, w, rank + 1, dims);
    Val *turned = split ? op_transpose(b, split, perm) : NULL;
    const Dim *out[IR_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        out[i] = i == 0 ? dim_mul(ctx, g, dims[2]) : i == 1 ? dims[1] : dims[i + 1];
    return turned ? op_reshape(b, turned, rank, out) : NULL;
}

/* [N, g*C, ..] -> [C, g*N, ..]: what the gradient of the weights takes as its input */
static Val *swap_batch(Builder *b, Val *x, int64_t groups)
{
    Context *ctx = b->module->ctx;
    const Dim *dims[IR_MAX_RANK + 1], *out[IR_MAX_RANK], *g = dim_const(ctx, groups);
    int64_t perm[IR_MAX_RANK + 1];
    uint32_t rank = x->type->rank;
    if (groups == 1)
        return swap_channels(b, x, 1);
    dims[0] = x->type->dim[0];
    dims[1] = g;
    dims[2] = dim_floordiv(ctx, x->type->dim[1], g);
    for (uint32_t i = 2; i < rank; i++)
        dims[i + 1] = x->type->dim[i];
    for (uint32_t i = 0; i <= rank; i++)
        perm[i] = i == 0 ? 2 : i == 1 ? 1 : i == 2 ? 0 : i;
    Val *split = op_reshape(b, x, rank + 1, dims);
    Val *turned = split ? op_transpose(b, split, perm) : NULL;
    for (uint32_t i = 0; i < rank; i++)
        out[i] = i == 0 ? dims[2] : i == 1 ? dim_mul(ctx, g, dims[0]) : dims[i + 1];
    return turned ? op_reshape(b, turned, rank, out) : NULL;
}

/* [N, g*C, ..] -> [N, g, C, ..] */
static Val *split_groups(Builder *b, Val *x, int64_t groups)
{
    Context *ctx = b->module->ctx;
    const Dim *dims[IR_MAX_RANK + 1], *g = dim_const(ctx, groups);
    if (!x)
        return NULL;
    for (uint32_t i = 0; i < x->type->rank; i++)
        dims[i < 2 ? i : i + 1] = x->type->dim[i];
    dims[1] = g;
    dims[2] = dim_floordiv(ctx, x->type->dim[1], g);
    return op_reshape(b, x, x->type->rank + 1, dims);
}

/* The weights' gradient where the batch is no number, so that it cannot be the channels of a kernel: a dot for every
 * tap, of g and of what the tap reads. */
static Val *weight_by_taps(Builder *b, Val *x, Val *g, const Type *w, const ConvAttrs *c)
{
    Context *ctx = b->module->ctx;
    const Dim *lo[IR_MAX_RANK], *hi[IR_MAX_RANK], *start[IR_MAX_RANK], *size[IR_MAX_RANK], *zero = dim_const(ctx, 0);
    int64_t interior[IR_MAX_RANK] = {0}, step[IR_MAX_RANK] = {1, 1}, contract[IR_MAX_RANK] = {0}, kernel[IR_MAX_RANK];
    int64_t at[IR_MAX_RANK] = {0}, taps = 1;
    uint32_t rank = c->spatial + 2;
    lo[0] = lo[1] = hi[0] = hi[1] = start[0] = start[1] = zero;
    size[0] = x->type->dim[0];
    size[1] = x->type->dim[1];
    for (uint32_t i = 0; i < c->spatial; i++) {
        int64_t n = type_dim(x->type, i + 2), o = type_dim(g->type, i + 2);
        kernel[i] = type_dim(w, i + 2);
        int64_t reach = (kernel[i] - 1) * c->dilation[i] + (o - 1) * c->stride[i] + 1;
        lo[i + 2] = dim_const(ctx, c->lo[i]);
        hi[i + 2] = dim_const(ctx, reach - ((n - 1) * c->lhs_dilation[i] + 1) - c->lo[i]);
        size[i + 2] = g->type->dim[i + 2];
        interior[i + 2] = c->lhs_dilation[i] - 1;
        step[i + 2] = c->stride[i];
        contract[i + 1] = i + 3;
        taps *= kernel[i];
    }
    AttrVal pad[] = {attr_dims(lo, rank), attr_dims(hi, rank), attr_ints(interior, rank)};
    Val *spread = op_emit(b, OP_pad, (Val *[]){x, op_const_f64(b, x->type->dtype, 0)}, 2, pad, 3);
    Val *gs = split_groups(b, g, c->groups), **parts = ARENA_ARRAY(b->module->arena, Val *, (size_t)taps);
    const Dim *one_tap[3] = {w->dim[0], w->dim[1], dim_const(ctx, 1)};
    for (int64_t t = 0; t < taps && spread; t++) {
        for (uint32_t i = 0; i < c->spatial; i++)
            start[i + 2] = dim_const(ctx, (c->flip ? kernel[i] - 1 - at[i] : at[i]) * c->dilation[i]);
        AttrVal slice[] = {attr_dims(start, rank), attr_dims(size, rank), attr_ints(step, rank)};
        Val *read = split_groups(b, op_emit(b, OP_slice, &spread, 1, slice, 3), c->groups);
        Val *dw = gs && read ? op_dot(b, gs, read, &(int64_t){1}, &(int64_t){1}, 1, contract, contract, c->spatial + 1)
                             : NULL;
        if (!dw || !(parts[t] = op_reshape(b, dw, 3, one_tap)))
            return NULL;
        for (uint32_t i = c->spatial; i-- > 0 && ++at[i] == kernel[i];)
            at[i] = 0;
    }
    Val *all = spread ? op_concat(b, parts, (uint32_t)taps, 2) : NULL;
    return all ? op_reshape(b, all, w->rank, w->dim) : NULL;
}

bool adjoint_conv(AdjointArgs *args)
{
    Builder *b = args->b;
    Val *x = adj_in(args, 0), *w = adj_in(args, 1), *g = args->out_grad[0];
    ConvAttrs c = conv_attrs(args->node), of_x = c, of_w = c;
    int64_t spatial_axes[IR_MAX_RANK], n, k, o;
    if (!adj_wanted(args, 0))
        return true;
    of_x.flip = !c.flip;
    of_w.flip = false;
    for (uint32_t i = 0; i < c.spatial; i++) {
        if (!dim_is_const(x->type->dim[i + 2], &n) || !dim_is_const(w->type->dim[i + 2], &k) ||
            !dim_is_const(g->type->dim[i + 2], &o))
            return diag_report(b->module->ctx, args->node->loc, DIAG_ad_static, op_info[args->node->op].name);
        int64_t s = c.stride[i], d = c.dilation[i], r = c.lhs_dilation[i], reach = (k - 1) * d;
        int64_t g_spread = (o - 1) * s + 1, x_spread = (n - 1) * r + 1;
        of_x.stride[i] = r;
        of_x.lhs_dilation[i] = s;
        of_x.lo[i] = reach - c.lo[i];
        of_x.hi[i] = x_spread + reach - g_spread - of_x.lo[i];
        of_w.stride[i] = d;
        of_w.dilation[i] = s;
        of_w.hi[i] = reach + g_spread - x_spread - c.lo[i];
        spatial_axes[i] = i + 2;
    }
    if (!adj_give(args, 0, emit_conv(b, g, swap_channels(b, w, c.groups), &of_x)))
        return false;
    if (!dim_is_const(x->type->dim[0], NULL))
        return adj_give(args, 1, weight_by_taps(b, x, g, w->type, &c));
    Val *swapped = swap_batch(b, x, c.groups);
    Val *dw = emit_conv(b, swapped, swap_channels(b, g, 1), &of_w);
    dw = dw ? swap_channels(b, dw, 1) : NULL; /* [C, OC, ..] -> [OC, C, ..] */
    if (dw && c.flip && c.spatial)
        dw = op_emit(b, OP_reverse, &dw, 1, (AttrVal[]){attr_ints(spatial_axes, c.spatial)}, 1);
    return adj_give(args, 1, dw);
}
