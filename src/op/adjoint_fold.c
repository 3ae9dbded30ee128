/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of folds and windows. Ties: reduce and cumulate by max or min share the gradient evenly among the equal
 * elements (torch amax; ONNX says nothing), a max window gives it to the first of them (torch and ONNX MaxPool).
 *
 * Products never divide by an element: the product of all others is that of those before times that of those behind, so
 * zeros are right in every order.
 */
#include "op/adjoint_int.h"

static Val *emit_cumulate(Builder *b, Val *x, int64_t axis, const char *kind, bool exclusive, bool reverse)
{
    AttrVal attrs[] = {attr_int(axis), attr_str(b->module->ctx, kind), attr_bool(exclusive), attr_bool(reverse)};
    return x ? op_emit(b, OP_cumulate, &x, 1, attrs, 4) : NULL;
}

/* Along axis: of every element the product of the others. */
static Val *product_of_others(Builder *b, Val *x, int64_t axis)
{
    Val *before = emit_cumulate(b, x, axis, "prod", true, false);
    return adj_mul(b, before, emit_cumulate(b, x, axis, "prod", true, true));
}

/* Several axes become the last one for it. */
static Val *reduce_others(Builder *b, Val *x, const int64_t *axes, uint32_t n_axes)
{
    Context *ctx = b->module->ctx;
    uint32_t rank = x->type->rank, n = 0;
    int64_t perm[IR_MAX_RANK], inverse[IR_MAX_RANK];
    bool reduced[IR_MAX_RANK] = {false};
    const Dim *dims[IR_MAX_RANK + 1], *count = dim_const(ctx, 1);
    for (uint32_t i = 0; i < n_axes; i++)
        reduced[axes[i]] = true;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < rank; i++)
            if (reduced[i] == (pass == 1)) {
                if (pass == 1)
                    count = dim_mul(ctx, count, x->type->dim[i]);
                else
                    dims[n] = x->type->dim[i];
                perm[n++] = i;
            }
    for (uint32_t i = 0; i < rank; i++)
        inverse[perm[i]] = i;
    dims[rank - n_axes] = count;
    Val *moved = op_transpose(b, x, perm);
    Val *flat = moved ? op_reshape(b, moved, rank - n_axes + 1, dims) : NULL;
    Val *others = adj_same_shape(b, product_of_others(b, flat, rank - n_axes), moved ? moved->type : NULL);
    return others ? op_transpose(b, others, inverse) : NULL;
}

/* 1 where x equals the extreme y, shared among those that do along `axes` */
static Val *share(Builder *b, Val *hit, DType dtype, const int64_t *axes, uint32_t n)
{
    Val *mask = op_cast_to(b, hit, dtype);
    Val *count = op_reduce(b, mask, "sum", axes, n);
    Val *one = count ? op_like(b, count, 1) : NULL;
    return op_binary(b, OP_div, mask, op_binary(b, OP_max, count, one));
}

bool adjoint_reduce(AdjointArgs *args)
{
    Builder *b = args->b;
    const int64_t *axes;
    uint32_t n = node_ints(args->node, AN_axes, &axes);
    if (!adj_wanted(args, 0))
        return true;
    Val *x = adj_in(args, 0), *y = adj_out(args, 0), *g = args->out_grad[0];
    if (node_str_is(args->node, AN_kind, "sum"))
        return adj_give(args, 0, adj_stretch(b, g, x->type));
    if (node_str_is(args->node, AN_kind, "prod"))
        return adj_give(args, 0, adj_mul(b, g, n ? reduce_others(b, x, axes, n) : op_like(b, x, 1)));
    return adj_give(args, 0, adj_mul(b, g, share(b, op_binary(b, OP_eq, x, y), x->type->dtype, axes, n)));
}

/* ---- cumulate ------------------------------------------------------------------------------------------------- */

/* bool [1 .., n, n]: element k belongs to the prefix that result i shows */
static Val *prefix_mask(Builder *b, const Node *node, uint32_t rank, const Dim *n)
{
    Context *ctx = b->module->ctx;
    const Dim *row[IR_MAX_RANK], *column[IR_MAX_RANK];
    if (rank > IR_MAX_RANK) {
        adjoint_nondiff(&(AdjointArgs){.b = b, .node = node});
        return NULL;
    }
    for (uint32_t i = 0; i < rank; i++)
        row[i] = column[i] = dim_const(ctx, 1);
    row[rank - 2] = column[rank - 1] = n;
    AttrVal of_i[] = {attr_dtype(DT_S64), attr_dims(row, rank), attr_int(rank - 2)};
    AttrVal of_k[] = {attr_dtype(DT_S64), attr_dims(column, rank), attr_int(rank - 1)};
    Val *i = op_emit(b, OP_iota, NULL, 0, of_i, 3), *k = op_emit(b, OP_iota, NULL, 0, of_k, 3);
    Op compare = node_bool(node, AN_exclusive) ? OP_lt : OP_le;
    return node_bool(node, AN_reverse) ? op_binary(b, compare, i, k) : op_binary(b, compare, k, i);
}

/* As a table of n results by n elements: quadratic, but exact for zeros and ties, and differentiable again. */
static bool cumulate_table(AdjointArgs *args, Val *x, Val *y, Val *g, uint32_t axis)
{
    Builder *b = args->b;
    Context *ctx = b->module->ctx;
    uint32_t rank = x->type->rank;
    const Dim *one = dim_const(ctx, 1), *n = x->type->dim[axis], *wide[IR_MAX_RANK + 1], *tall[IR_MAX_RANK + 1];
    Val *mask = prefix_mask(b, args->node, rank + 1, n);
    Val *xt = adj_move_axis(b, x, axis, rank - 1), *yt = adj_move_axis(b, y, axis, rank - 1);
    Val *gt = adj_move_axis(b, g, axis, rank - 1), *weight;
    if (!mask || !xt || !yt || !gt)
        return false;
    for (uint32_t i = 0; i + 1 < rank; i++)
        wide[i] = tall[i] = xt->type->dim[i];
    wide[rank - 1] = tall[rank] = one;
    wide[rank] = tall[rank - 1] = n;
    Val *xw = op_reshape(b, xt, rank + 1, wide), *gw = op_reshape(b, gt, rank + 1, tall);
    if (node_str_is(args->node, AN_kind, "prod")) {
        Val *table = op_select(b, mask, xw, xw ? op_like(b, xw, 1) : NULL);
        Val *others = product_of_others(b, table, rank);
        weight = op_select(b, mask, others, gw ? op_like(b, gw, 0) : NULL);
    } else {
        Val *hit = op_binary(b, OP_and, mask, op_binary(b, OP_eq, xw, op_reshape(b, yt, rank + 1, tall)));
        weight = share(b, hit, x->type->dtype, &(int64_t){rank}, 1);
    }
    Val *sum = op_reduce(b, adj_mul(b, gw, weight), "sum", &(int64_t){rank - 1}, 1);
    return adj_give(args, 0, adj_move_axis(b, adj_same_shape(b, sum, xt->type), rank - 1, axis));
}

bool adjoint_cumulate(AdjointArgs *args)
{
    uint32_t axis = (uint32_t)node_int(args->node, AN_axis);
    bool exclusive = node_bool(args->node, AN_exclusive), reverse = node_bool(args->node, AN_reverse);
    if (!adj_wanted(args, 0))
        return true;
    if (node_str_is(args->node, AN_kind, "sum"))
        return adj_give(args, 0, emit_cumulate(args->b, args->out_grad[0], axis, "sum", exclusive, !reverse));
    return cumulate_table(args, adj_in(args, 0), adj_out(args, 0), args->out_grad[0], axis);
}

/* ---- windows ---------------------------------------------------------------------------------------------------- */

/* Element p was read by result o at window position k where p = o*stride + k*dilation - lo. So its gradient is a window
 * sum over g, spread by the stride and padded so that position K-1-k of window p is that o. */
static bool window_sum(AdjointArgs *args, const WindowAttrs *w, const Type *x, Val *g)
{
    Builder *b = args->b;
    Context *ctx = b->module->ctx;
    const Dim *lo[IR_MAX_RANK], *hi[IR_MAX_RANK], *one = dim_const(ctx, 1);
    int64_t interior[IR_MAX_RANK], ones[IR_MAX_RANK], zeros[IR_MAX_RANK];
    for (uint32_t i = 0; i < w->rank; i++) {
        int64_t reach = (w->size[i] - 1) * w->dilation[i], before = reach - w->lo[i];
        const Dim *spread = dim_mul(ctx, dim_sub(ctx, g->type->dim[i], one), dim_const(ctx, w->stride[i]));
        lo[i] = dim_const(ctx, before);
        hi[i] = dim_sub(ctx, dim_add(ctx, x->dim[i], dim_const(ctx, reach - before)), dim_add(ctx, spread, one));
        interior[i] = w->stride[i] - 1;
        ones[i] = 1;
        zeros[i] = 0;
    }
    AttrVal pad[] = {attr_dims(lo, w->rank), attr_dims(hi, w->rank), attr_ints(interior, w->rank)};
    Val *padded = op_emit(b, OP_pad, (Val *[]){g, op_const_f64(b, x->dtype, 0)}, 2, pad, 3);
    AttrVal attrs[] = {attr_ints(w->size, w->rank), attr_ints(ones, w->rank),        attr_ints(zeros, w->rank),
                       attr_ints(zeros, w->rank),     attr_ints(w->dilation, w->rank), attr_str(ctx, "sum")};
    return adj_give(args, 0, padded ? op_emit(b, OP_reduce_window, &padded, 1, attrs, 6) : NULL);
}

/* All axes become spatial ones behind two of size 1, so that argwindow counts through the whole tensor. */
static bool window_extreme(AdjointArgs *args, const WindowAttrs *w, Val *x, Val *g)
{
    Builder *b = args->b;
    Context *ctx = b->module->ctx;
    int64_t list[5][IR_MAX_RANK] = {{1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}};
    const int64_t *const from[5] = {w->size, w->stride, w->lo, w->hi, w->dilation};
    const Dim *one = dim_const(ctx, 1), *dims[IR_MAX_RANK] = {one, one};
    if (w->rank + 2 > IR_MAX_RANK)
        return adjoint_nondiff(args);
    AttrVal attrs[7];
    for (int k = 0; k < 5; k++) {
        for (uint32_t i = 0; i < w->rank; i++)
            list[k][i + 2] = from[k][i];
        attrs[k] = attr_ints(list[k], w->rank + 2);
    }
    for (uint32_t i = 0; i < w->rank; i++)
        dims[i + 2] = x->type->dim[i];
    attrs[5] = attr_str(ctx, node_str(args->node, AN_kind));
    attrs[6] = attr_str(ctx, "row");
    Val *whole = op_reshape(b, x, w->rank + 2, dims);
    Val *index = whole ? op_emit(b, OP_argwindow, &whole, 1, attrs, 7) : NULL;
    const Dim *n_out = adj_count(ctx, g->type, 0, w->rank);
    const Dim *n_in = adj_count(ctx, x->type, 0, w->rank);
    Val *flat_index = index ? op_reshape(b, index, 1, &n_out) : NULL, *flat_g = op_reshape(b, g, 1, &n_out);
    Val *zeros = adj_zeros(b, type_tensor(ctx, x->type->dtype, 1, &n_in));
    if (!flat_index || !flat_g || !zeros)
        return false;
    Val *sum = op_emit(b, OP_scatter_elements, (Val *[]){zeros, flat_index, flat_g}, 3,
                       (AttrVal[]){attr_int(0), attr_str(ctx, "add")}, 2);
    return adj_give(args, 0, adj_same_shape(b, sum, x->type));
}

bool adjoint_reduce_window(AdjointArgs *args)
{
    WindowAttrs w = op_window(args->node);
    if (!adj_wanted(args, 0))
        return true;
    Val *x = adj_in(args, 0), *g = args->out_grad[0];
    return node_str_is(args->node, AN_kind, "sum") ? window_sum(args, &w, x->type, g) : window_extreme(args, &w, x, g);
}
