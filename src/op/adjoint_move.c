/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of data movement and of indexed reads and writes. A read's gradient is an adding write; a write without
 * combination passes the gradient of each place to the update that won it (the last one, numerics.md).
 */
#include "op/adjoint_int.h"

static Context *context(const AdjointArgs *a) { return a->b->module->ctx; }

bool adjoint_broadcast(AdjointArgs *args) { return adj_give(args, 0, args->out_grad[0]); }

bool adjoint_reshape(AdjointArgs *args)
{
    return !adj_wanted(args, 0) || adj_give(args, 0, adj_same_shape(args->b, args->out_grad[0], adj_in(args, 0)->type));
}

bool adjoint_transpose(AdjointArgs *args)
{
    const int64_t *perm;
    int64_t inverse[IR_MAX_RANK];
    uint32_t rank = node_ints(args->node, AN_perm, &perm);
    for (uint32_t i = 0; i < rank; i++)
        inverse[perm[i]] = i;
    return !adj_wanted(args, 0) || adj_give(args, 0, op_transpose(args->b, args->out_grad[0], inverse));
}

static Val *emit_reverse(Builder *b, Val *x, const int64_t *axes, uint32_t n)
{
    return x && n ? op_emit(b, OP_reverse, &x, 1, (AttrVal[]){attr_ints(axes, n)}, 1) : x;
}

bool adjoint_reverse(AdjointArgs *args)
{
    const int64_t *axes;
    uint32_t n = node_ints(args->node, AN_axes, &axes);
    return !adj_wanted(args, 0) || adj_give(args, 0, emit_reverse(args->b, args->out_grad[0], axes, n));
}

static Val *emit_pad(Builder *b, Val *x, const Dim *const *lo, const Dim *const *hi, const int64_t *interior)
{
    if (!x)
        return NULL;
    uint32_t rank = x->type->rank;
    AttrVal attrs[] = {attr_dims(lo, rank), attr_dims(hi, rank), attr_ints(interior, rank)};
    return op_emit(b, OP_pad, (Val *[]){x, op_const_f64(b, x->type->dtype, 0)}, 2, attrs, 3);
}

static Val *emit_slice(Builder *b, Val *x, const Dim *const *start, const Dim *const *size, const int64_t *step)
{
    if (!x)
        return NULL;
    uint32_t rank = x->type->rank;
    AttrVal attrs[] = {attr_dims(start, rank), attr_dims(size, rank), attr_ints(step, rank)};
    return op_emit(b, OP_slice, &x, 1, attrs, 3);
}

/* Back to the places it came from, zeros between; a descending axis is turned round first. */
bool adjoint_slice(AdjointArgs *args)
{
    Context *ctx = context(args);
    const Node *node = args->node;
    const Dim *const *start, *const *size, *lo[IR_MAX_RANK], *hi[IR_MAX_RANK];
    const int64_t *step;
    int64_t interior[IR_MAX_RANK], turned[IR_MAX_RANK], number;
    uint32_t rank = node_dims(node, AN_start, &start), n_turned = 0;
    node_dims(node, AN_size, &size);
    node_ints(node, AN_step, &step);
    if (!adj_wanted(args, 0))
        return true;
    const Type *type = adj_in(args, 0)->type;
    for (uint32_t i = 0; i < rank; i++) {
        if (dim_is_const(size[i], &number) && number == 0)
            return true; /* nothing was read */
        const Dim *way = dim_mul(ctx, dim_sub(ctx, size[i], dim_const(ctx, 1)), dim_const(ctx, step[i]));
        const Dim *first = start[i], *last = dim_add(ctx, start[i], way);
        if (step[i] < 0) {
            turned[n_turned++] = i;
            first = last;
            last = start[i];
        }
        lo[i] = first;
        hi[i] = dim_sub(ctx, dim_sub(ctx, type->dim[i], dim_const(ctx, 1)), last);
        interior[i] = (step[i] < 0 ? -step[i] : step[i]) - 1;
    }
    Val *g = emit_reverse(args->b, args->out_grad[0], turned, n_turned);
    return adj_give(args, 0, emit_pad(args->b, g, lo, hi, interior));
}

/* What was cropped (negative lo, hi) gets zeros; the value of the padding gets the sum over the padding. */
bool adjoint_pad(AdjointArgs *args)
{
    Context *ctx = context(args);
    Builder *b = args->b;
    const Dim *const *lo, *const *hi, *crop_lo[IR_MAX_RANK], *crop_hi[IR_MAX_RANK], *start[IR_MAX_RANK];
    const Dim *zero = dim_const(ctx, 0);
    const int64_t *interior;
    int64_t step[IR_MAX_RANK], none[IR_MAX_RANK] = {0}, axes[IR_MAX_RANK];
    uint32_t rank = node_dims(args->node, AN_lo, &lo);
    node_dims(args->node, AN_hi, &hi);
    node_ints(args->node, AN_interior, &interior);
    if (!adj_wanted(args, 0))
        return true;
    const Type *type = adj_in(args, 0)->type;
    bool crops = false;
    for (uint32_t i = 0; i < rank; i++) {
        crop_lo[i] = dim_max(ctx, zero, dim_sub(ctx, zero, lo[i]));
        crop_hi[i] = dim_max(ctx, zero, dim_sub(ctx, zero, hi[i]));
        crops |= crop_lo[i] != zero || crop_hi[i] != zero;
        start[i] = dim_max(ctx, zero, lo[i]);
        step[i] = interior[i] + 1;
        axes[i] = i;
    }
    Val *g = args->out_grad[0];
    Val *whole = crops ? emit_pad(b, g, crop_lo, crop_hi, none) : g;
    if (!adj_give(args, 0, emit_slice(b, whole, start, type->dim, step)))
        return false;
    AttrVal attrs[] = {attr_dims(lo, rank), attr_dims(hi, rank), attr_ints(interior, rank)};
    Val *zeros = adj_zeros(b, type);
    Val *mask = zeros ? op_emit(b, OP_pad, (Val *[]){zeros, op_const_f64(b, type->dtype, 1)}, 2, attrs, 3) : NULL;
    Val *sum = op_reduce(b, adj_mul(b, g, mask), "sum", axes, rank);
    return adj_give(args, 1, sum ? op_reshape(b, sum, 0, NULL) : NULL);
}

bool adjoint_concat(AdjointArgs *args)
{
    Context *ctx = context(args);
    uint32_t axis = (uint32_t)node_int(args->node, AN_axis);
    const Dim *at = dim_const(ctx, 0);
    for (uint32_t i = 0; i < args->node->n_in; i++) {
        const Dim *size = adj_in(args, i)->type->dim[axis];
        if (adj_wanted(args, i) && !adj_give(args, i, op_slice_axis(args->b, args->out_grad[0], axis, at, size, 1)))
            return false;
        at = dim_add(ctx, at, size);
    }
    return true;
}

/* ---- indexed reads ---------------------------------------------------------------------------------------------- */

static Val *emit_scatter_nd(Builder *b, Val *data, Val *indices, Val *updates, const char *combine)
{
    if (!data || !indices || !updates)
        return NULL;
    return op_emit(b, OP_scatter_nd, (Val *[]){data, indices, updates}, 3,
                   (AttrVal[]){attr_str(b->module->ctx, combine)}, 1);
}

static Val *emit_scatter_elements(Builder *b, Val *data, Val *indices, Val *updates, int64_t axis, const char *combine)
{
    if (!data || !indices || !updates)
        return NULL;
    return op_emit(b, OP_scatter_elements, (Val *[]){data, indices, updates}, 3,
                   (AttrVal[]){attr_int(axis), attr_str(b->module->ctx, combine)}, 2);
}

static Val *emit_gather_elements(Builder *b, Val *data, Val *indices, int64_t axis)
{
    return data ? op_emit(b, OP_gather_elements, (Val *[]){data, indices}, 2, (AttrVal[]){attr_int(axis)}, 1) : NULL;
}

static Val *emit_gather_nd(Builder *b, Val *data, Val *indices)
{
    return data ? op_emit(b, OP_gather_nd, (Val *[]){data, indices}, 2, (AttrVal[]){attr_int(0)}, 1) : NULL;
}

static Val *emit_iota(Builder *b, DType dtype, uint32_t rank, const Dim *const *dims, int64_t axis)
{
    AttrVal attrs[] = {attr_dtype(dtype), attr_dims(dims, rank), attr_int(axis)};
    return op_emit(b, OP_iota, NULL, 0, attrs, 3);
}

/* indices [B.., K.., q] whose rows count inside the first `batch` axes -> [B.., K.., batch + q] that count from the
 * whole. */
static Val *with_batch(Builder *b, Val *indices, uint32_t batch)
{
    Val *parts[IR_MAX_RANK + 1];
    const Dim *dims[IR_MAX_RANK];
    if (!indices || batch == 0)
        return indices;
    uint32_t rank = indices->type->rank;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = indices->type->dim[i];
    dims[rank - 1] = dim_const(b->module->ctx, 1);
    for (uint32_t i = 0; i < batch; i++)
        if (!(parts[i] = emit_iota(b, indices->type->dtype, rank, dims, i)))
            return NULL;
    parts[batch] = indices;
    return op_concat(b, parts, batch + 1, rank - 1);
}

/* data [B, O, n, I], indices [B, K], g [B, O, K, I]: with n behind B and K behind B, an adding scatter of rows. */
bool adjoint_gather(AdjointArgs *args)
{
    Builder *b = args->b;
    Val *data = adj_in(args, 0), *indices = adj_in(args, 1), *g = args->out_grad[0];
    uint32_t axis = (uint32_t)node_int(args->node, AN_axis), batch = (uint32_t)node_int(args->node, AN_batch);
    if (!adj_wanted(args, 0))
        return true;
    uint32_t k = indices->type->rank - batch, rank = g->type->rank, n = batch;
    int64_t perm[IR_MAX_RANK];
    for (uint32_t i = 0; i < batch; i++)
        perm[i] = i;
    for (uint32_t i = axis; i < axis + k; i++)
        perm[n++] = i;
    for (uint32_t i = batch; i < rank; i++)
        if (i < axis || i >= axis + k)
            perm[n++] = i;
    Val *updates = op_transpose(b, g, perm);
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < indices->type->rank; i++)
        dims[i] = indices->type->dim[i];
    dims[indices->type->rank] = dim_const(b->module->ctx, 1);
    Val *rows = with_batch(b, op_reshape(b, indices, indices->type->rank + 1, dims), batch);
    Val *zeros = adj_move_axis(b, adj_zeros(b, data->type), axis, batch);
    Val *sum = emit_scatter_nd(b, zeros, rows, updates, "add");
    return adj_give(args, 0, adj_move_axis(b, sum, batch, axis));
}

bool adjoint_gather_elements(AdjointArgs *args)
{
    Builder *b = args->b;
    if (!adj_wanted(args, 0))
        return true;
    Val *zeros = adj_zeros(b, adj_in(args, 0)->type);
    return adj_give(
        args, 0,
        emit_scatter_elements(b, zeros, adj_in(args, 1), args->out_grad[0], node_int(args->node, AN_axis), "add"));
}

bool adjoint_gather_nd(AdjointArgs *args)
{
    Builder *b = args->b;
    if (!adj_wanted(args, 0))
        return true;
    Val *rows = with_batch(b, adj_in(args, 1), (uint32_t)node_int(args->node, AN_batch));
    return adj_give(args, 0, emit_scatter_nd(b, adj_zeros(b, adj_in(args, 0)->type), rows, args->out_grad[0], "add"));
}

/* topk: the values come from where the indices say */
bool adjoint_topk(AdjointArgs *args)
{
    Builder *b = args->b;
    if (!adj_wanted(args, 0) || !args->out_grad[0])
        return true;
    Val *zeros = adj_zeros(b, adj_in(args, 0)->type);
    return adj_give(
        args, 0,
        emit_scatter_elements(b, zeros, adj_out(args, 1), args->out_grad[0], node_int(args->node, AN_axis), "add"));
}

/* ---- indexed writes ---------------------------------------------------------------------------------------------- */

/* mul, max and min share a place among its updates in ways that have no agreed gradient. */
static bool scatter_kind(AdjointArgs *args, bool *adds)
{
    *adds = node_str_is(args->node, AN_combine, "add");
    if (*adds || node_str_is(args->node, AN_combine, "none"))
        return true;
    return diag_report(context(args), args->node->loc, DIAG_ad_scatter, op_info[args->node->op].name,
                       node_str(args->node, AN_combine));
}

/* 0, 1, 2 .. over all elements of dims */
static Val *numbers(Builder *b, const Type *type, uint32_t rank)
{
    const Dim *count = adj_count(b->module->ctx, type, 0, rank);
    Val *flat = emit_iota(b, DT_S64, 1, &count, 0);
    return flat ? op_reshape(b, flat, rank, type->dim) : NULL;
}

bool adjoint_scatter_elements(AdjointArgs *args)
{
    Builder *b = args->b;
    Context *ctx = context(args);
    Val *data = adj_in(args, 0), *indices = adj_in(args, 1), *updates = adj_in(args, 2), *g = args->out_grad[0];
    int64_t axis = node_int(args->node, AN_axis);
    bool adds;
    if (!adj_wanted(args, 0))
        return true;
    if (!scatter_kind(args, &adds))
        return false;
    Val *taken = emit_gather_elements(b, g, indices, axis);
    if (adds)
        return adj_give(args, 0, g) && adj_give(args, 2, taken);
    Val *id = numbers(b, updates->type, updates->type->rank);
    Val *who =
        emit_scatter_elements(b, adj_zeros(b, type_with_dtype(ctx, data->type, DT_S64)), indices, id, axis, "none");
    Val *won = op_binary(b, OP_eq, emit_gather_elements(b, who, indices, axis), id);
    Val *left = emit_scatter_elements(b, g, indices, adj_zeros(b, updates->type), axis, "none");
    return adj_give(args, 0, left) && adj_give(args, 2, op_select(b, won, taken, op_like(b, g, 0)));
}

bool adjoint_scatter_nd(AdjointArgs *args)
{
    Builder *b = args->b;
    Context *ctx = context(args);
    Val *data = adj_in(args, 0), *indices = adj_in(args, 1), *updates = adj_in(args, 2), *g = args->out_grad[0];
    bool adds;
    if (!adj_wanted(args, 0))
        return true;
    if (!scatter_kind(args, &adds))
        return false;
    Val *taken = emit_gather_nd(b, g, indices);
    if (adds)
        return adj_give(args, 0, g) && adj_give(args, 2, taken);
    uint32_t last = indices->type->rank - 1;
    int64_t q = type_dim(indices->type, last);
    const Type *places = type_tensor(ctx, DT_S64, (uint32_t)q, data->type->dim);
    Val *id = numbers(b, indices->type, last);
    Val *who = emit_scatter_nd(b, adj_zeros(b, places), indices, id, "none");
    Val *won = op_binary(b, OP_eq, emit_gather_nd(b, who, indices), id);
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < updates->type->rank; i++)
        dims[i] = i < last ? updates->type->dim[i] : dim_const(ctx, 1);
    won = won ? op_reshape(b, won, updates->type->rank, dims) : NULL;
    Val *left = emit_scatter_nd(b, g, indices, adj_zeros(b, updates->type), "none");
    return adj_give(args, 0, left) && adj_give(args, 2, op_select(b, won, taken, op_like(b, g, 0)));
}
