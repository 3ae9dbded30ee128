/* SPDX-License-Identifier: Apache-2.0
 *
 * Shorthands over op_emit. A NULL operand gives NULL, so a chain of them needs one check at its end.
 */
#include "op/op_int.h"

#include <string.h>

static bool is_one(const Dim *dim)
{
    int64_t size;
    return dim_is_const(dim, &size) && size == 1;
}

Val *op_unary(Builder *b, Op op, Val *x) { return x ? op_emit(b, op, &x, 1, NULL, 0) : NULL; }

/* x with ones put before its axes. */
static Val *with_rank(Builder *b, Val *x, uint32_t rank)
{
    const Dim *dims[IR_MAX_RANK];
    if (!x || x->type->kind != TY_TENSOR || x->type->rank >= rank || rank > IR_MAX_RANK)
        return x;
    uint32_t lead = rank - x->type->rank;
    for (uint32_t a = 0; a < rank; a++)
        dims[a] = a < lead ? dim_const(b->module->ctx, 1) : x->type->dim[a - lead];
    return op_reshape(b, x, rank, dims);
}

static uint32_t rank_of(const Val *x) { return x->type->kind == TY_TENSOR ? x->type->rank : 0; }
static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

Val *op_binary(Builder *b, Op op, Val *x, Val *y)
{
    if (!x || !y)
        return NULL;
    uint32_t rank = larger(rank_of(x), rank_of(y));
    Val *in[2] = {x, y}; /* one after the other: C orders neither arguments nor initializers */
    for (int i = 0; i < 2; i++)
        in[i] = with_rank(b, in[i], rank);
    return in[0] && in[1] ? op_emit(b, op, in, 2, NULL, 0) : NULL;
}

Val *op_select(Builder *b, Val *cond, Val *x, Val *y)
{
    if (!cond || !x || !y)
        return NULL;
    uint32_t rank = larger(rank_of(cond), larger(rank_of(x), rank_of(y)));
    Val *in[3] = {cond, x, y};
    for (int i = 0; i < 3; i++)
        in[i] = with_rank(b, in[i], rank);
    return in[0] && in[1] && in[2] ? op_emit(b, OP_select, in, 3, NULL, 0) : NULL;
}

/* ---- constants -------------------------------------------------------------------------------------------------- */

static Val *const_bytes(Builder *b, const Type *type, const void *data)
{
    return op_const_weight(b, module_weight(b->module, str_intern(b->module->ctx, ""), type, data, true));
}

Val *op_const_f64(Builder *b, DType dtype, double value)
{
    uint64_t data[2] = {0};
    elem_set_f64(dtype, data, 0, value);
    return const_bytes(b, type_tensor(b->module->ctx, dtype, 0, NULL), data);
}

Val *op_const_s64(Builder *b, DType dtype, int64_t value)
{
    uint64_t data[2] = {0};
    if (dtype_is_float(dtype))
        return op_const_f64(b, dtype, (double)value);
    elem_set_s64(dtype, data, 0, value);
    return const_bytes(b, type_tensor(b->module->ctx, dtype, 0, NULL), data);
}

Val *op_const_ints(Builder *b, const int64_t *values, uint32_t n)
{
    int64_t dim = n;
    return const_bytes(b, type_tensor_s64(b->module->ctx, DT_S64, 1, &dim), values);
}

Val *op_const_weight(Builder *b, Weight *weight)
{
    AttrVal attr = attr_weight(weight);
    return weight ? op_emit(b, OP_const, NULL, 0, &attr, 1) : NULL;
}

Val *op_like(Builder *b, Val *like, double value)
{
    return like ? with_rank(b, op_const_f64(b, like->type->dtype, value), like->type->rank) : NULL;
}

Val *op_cast_to(Builder *b, Val *x, DType dtype)
{
    AttrVal attr = attr_dtype(dtype);
    return x ? op_emit(b, OP_cast, &x, 1, &attr, 1) : NULL;
}

/* ---- moves ------------------------------------------------------------------------------------------------------ */

Val *op_reshape(Builder *b, Val *x, uint32_t rank, const Dim *const *dims)
{
    AttrVal attr = attr_dims(dims, rank);
    return x ? op_emit(b, OP_reshape, &x, 1, &attr, 1) : NULL;
}

Val *op_reshape_s64(Builder *b, Val *x, uint32_t rank, const int64_t *dims)
{
    const Dim *list[IR_MAX_RANK];
    IG_CHECK(b->module->ctx, rank <= IR_MAX_RANK);
    for (uint32_t a = 0; a < rank; a++)
        list[a] = dim_const(b->module->ctx, dims[a]);
    return op_reshape(b, x, rank, list);
}

Val *op_transpose(Builder *b, Val *x, const int64_t *perm)
{
    if (!x)
        return NULL;
    AttrVal attr = attr_ints(perm, x->type->rank);
    return op_emit(b, OP_transpose, &x, 1, &attr, 1);
}

Val *op_broadcast(Builder *b, Val *x, uint32_t rank, const Dim *const *dims)
{
    AttrVal attr = attr_dims(dims, rank);
    x = x ? with_rank(b, x, rank) : NULL;
    return x ? op_emit(b, OP_broadcast, &x, 1, &attr, 1) : NULL;
}

Val *op_reduce(Builder *b, Val *x, const char *kind, const int64_t *axes, uint32_t n_axes)
{
    AttrVal attrs[2] = {attr_ints(axes, n_axes), attr_str(b->module->ctx, kind)};
    return x ? op_emit(b, OP_reduce, &x, 1, attrs, 2) : NULL;
}

Val *op_slice_axis(Builder *b, Val *x, uint32_t axis, const Dim *start, const Dim *size, int64_t step)
{
    const Dim *starts[IR_MAX_RANK], *sizes[IR_MAX_RANK];
    int64_t steps[IR_MAX_RANK];
    if (!x)
        return NULL;
    uint32_t rank = x->type->rank;
    IG_CHECK(b->module->ctx, axis < rank);
    for (uint32_t a = 0; a < rank; a++) {
        starts[a] = a == axis ? start : dim_const(b->module->ctx, 0);
        sizes[a] = a == axis ? size : x->type->dim[a];
        steps[a] = a == axis ? step : 1;
    }
    AttrVal attrs[3] = {attr_dims(starts, rank), attr_dims(sizes, rank), attr_ints(steps, rank)};
    return op_emit(b, OP_slice, &x, 1, attrs, 3);
}

Val *op_concat(Builder *b, Val *const *xs, uint32_t n, int64_t axis)
{
    AttrVal attr = attr_int(axis);
    for (uint32_t i = 0; i < n; i++)
        if (!xs[i])
            return NULL;
    return op_emit(b, OP_concat, xs, n, &attr, 1);
}

Val *op_pad_end(Builder *b, Val *x, uint32_t axis, const Dim *more, Val *fill)
{
    const Dim *lo[IR_MAX_RANK], *hi[IR_MAX_RANK];
    int64_t interior[IR_MAX_RANK] = {0};
    if (!x || !fill)
        return NULL;
    uint32_t rank = x->type->rank;
    for (uint32_t a = 0; a < rank; a++) {
        lo[a] = dim_const(b->module->ctx, 0);
        hi[a] = a == axis ? more : lo[a];
    }
    AttrVal attrs[3] = {attr_dims(lo, rank), attr_dims(hi, rank), attr_ints(interior, rank)};
    return op_emit(b, OP_pad, (Val *[]){x, fill}, 2, attrs, 3);
}

Val *op_dimval(Builder *b, const Dim *dim)
{
    AttrVal attr = attr_dim(dim);
    return op_emit(b, OP_dimval, NULL, 0, &attr, 1);
}

/* ---- contractions ----------------------------------------------------------------------------------------------- */

Val *op_dot(Builder *b, Val *x, Val *y, const int64_t *lb, const int64_t *rb, uint32_t nb, const int64_t *lc,
            const int64_t *rc, uint32_t nc)
{
    if (!x || !y)
        return NULL;
    Val *in[2] = {x, y};
    AttrVal attrs[4] = {attr_ints(lb, nb), attr_ints(rb, nb), attr_ints(lc, nc), attr_ints(rc, nc)};
    return op_emit(b, OP_dot, in, 2, attrs, 4);
}

/* Batch axes of one side stretched to those of both; false: left to the shape rule to report. */
static bool batch_dims(const Val *x, const Val *y, uint32_t n, const Dim **dims)
{
    for (uint32_t a = 0; a < n; a++) {
        int64_t ax = (int64_t)a + x->type->rank - 2 - n, ay = (int64_t)a + y->type->rank - 2 - n;
        const Dim *p = ax >= 0 ? x->type->dim[ax] : NULL, *q = ay >= 0 ? y->type->dim[ay] : NULL;
        dims[a] = !p || (q && is_one(p)) ? q : p;
        if (p && q && !is_one(p) && !is_one(q) && dim_eq(p, q) != TRI_YES)
            return false;
    }
    return true;
}

static Val *stretch_batch(Builder *b, Val *x, uint32_t n, const Dim **dims)
{
    memcpy(dims + n, x->type->dim + x->type->rank - 2, 2 * sizeof *dims);
    return op_broadcast(b, x, n + 2, dims);
}

/* x [M,K], y [.., K, N] without batch on one side: no axis is stretched, the free axes keep their places. */
Val *op_matmul(Builder *b, Val *x, Val *y)
{
    static const int64_t count[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    Context *ctx = b->module->ctx;
    if (!x || !y)
        return NULL;
    uint32_t rx = rank_of(x), ry = rank_of(y), n = larger(rx, ry);
    ShapeArgs report = {ctx, b->loc, OP_dot, NULL, (const Type *const[]){x->type, y->type}, 2, NULL, 0};
    if (rx == 0 || ry == 0)
        return sh_bad_shape(&report, "matmul takes operands of rank 1 or more"), NULL;
    if (ry <= 2) { /* [.., M, K] x [K, N] or [K]: one dot over the last axis */
        int64_t k = rx - 1, zero = 0;
        return op_dot(b, x, y, NULL, NULL, 0, &k, &zero, 1);
    }
    if (rx == 1) { /* [K] x [.., K, N]: NumPy puts a row axis before and takes it away after */
        const Dim *dims[IR_MAX_RANK];
        Val *product = op_matmul(b, with_rank(b, x, 2), y);
        for (uint32_t a = 0, o = 0; product && a < ry; a++)
            if (a != ry - 2)
                dims[o++] = product->type->dim[a];
        return product ? op_reshape(b, product, ry - 1, dims) : NULL;
    }
    const Dim *dims[IR_MAX_RANK + 2];
    n -= 2;
    if (!batch_dims(x, y, n, dims))
        return sh_bad_shape(&report, "matmul: batch axes do not broadcast"), NULL;
    x = stretch_batch(b, x, n, dims);
    y = x ? stretch_batch(b, y, n, dims) : NULL;
    int64_t lc = (int64_t)n + 1, rc = n;
    return op_dot(b, x, y, count, count, n, &lc, &rc, 1);
}
