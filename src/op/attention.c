/* SPDX-License-Identifier: Apache-2.0
 *
 * Scaled dot-product attention: ONNX Attention-23 without its caches and head splitting, which the importer makes
 * explicit.
 */
#include "op/op_int.h"

#include <math.h>

/* q [..,T,d], k [..,S,d], v [..,S,e] with equal leading axes; mask stretches to [..,T,S]. */
bool shape_sdpa(ShapeArgs *args)
{
    const Type *q = args->in[0], *v = args->in[2], *mask = args->n_in > 3 ? args->in[3] : NULL;
    const Dim *scores[IR_MAX_RANK], *dims[IR_MAX_RANK];
    if (!sh_dtype(args, 0, DS_FLOAT) || !sh_same_dtype(args, 0, 1) || !sh_same_dtype(args, 0, 2))
        return false;
    if (q->rank < 3)
        return sh_bad_shape(args, "operand 0 has rank %u, expected [batch, heads, rows, depth]", q->rank);
    uint32_t rank = q->rank, row = rank - 2;
    if (!sh_rank(args, 1, rank) || !sh_rank(args, 2, rank))
        return false;
    for (uint32_t a = 0; a < row; a++) {
        if (!sh_same_dim(args, 0, a, 1, a) || !sh_same_dim(args, 0, a, 2, a))
            return false;
        scores[a] = dims[a] = q->dim[a];
    }
    if (!sh_same_dim(args, 0, row + 1, 1, row + 1) || !sh_same_dim(args, 1, row, 2, row))
        return false;
    scores[row] = dims[row] = q->dim[row];
    scores[row + 1] = args->in[1]->dim[row];
    dims[row + 1] = v->dim[row + 1];
    if (mask && mask->dtype != DT_BOOL && !sh_same_dtype(args, 0, 3))
        return false;
    double scale = sh_attr(args, AN_scale)->u.f, cap = sh_attr(args, AN_softcap)->u.f;
    if (!(scale >= 0) || isinf(scale))
        return sh_bad_attr(args, AN_scale, "%g is not a finite number of 0 or more", scale);
    if (!(cap >= 0) || isinf(cap))
        return sh_bad_attr(args, AN_softcap, "%g is not a finite number of 0 or more", cap);
    return (!mask || sh_fits(args, 3, scores, rank)) && sh_out(args, 0, q->dtype, rank, dims);
}

/* x [..,R,K] times y: [..,C,K] if transposed, else [..,K,C]. */
static Val *batched(Builder *b, Val *x, Val *y, bool transposed)
{
    static const int64_t axes[IR_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    if (!x || !y)
        return NULL;
    uint32_t rank = x->type->rank;
    int64_t lc = rank - 1, rc = transposed ? rank - 1 : rank - 2;
    return op_dot(b, x, y, axes, axes, rank - 2, &lc, &rc, 1);
}

static Val *iota(Builder *b, const Val *scores, uint32_t axis)
{
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t a = 0; a < scores->type->rank; a++)
        dims[a] = a == axis ? scores->type->dim[a] : dim_const(b->module->ctx, 1);
    AttrVal attrs[3] = {attr_dtype(DT_S64), attr_dims(dims, scores->type->rank), attr_int(axis)};
    return op_emit(b, OP_iota, NULL, 0, attrs, 3);
}

/* Attention-23: S = (q * sqrt(scale)) . (k * sqrt(scale)); softcap: S = cap * tanh(S / cap); a float mask is added, a
 * bool mask puts -inf where it is false; causal puts -inf where key > query (aligned at the first key: with a cache of
 * past keys the importer gives a mask). Then softmax over the keys and the product with v. A row without any key left
 * is 0. */
BODY(sdpa)
{
    BODY_UNUSED;
    double root = sqrt(attrs_get(OP_sdpa, attrs, AN_scale)->u.f), cap = attrs_get(OP_sdpa, attrs, AN_softcap)->u.f;
    bool causal = attrs_get(OP_sdpa, attrs, AN_causal)->u.i != 0;
    Val *mask = n_in > 3 ? in[3] : NULL, *q = in[0], *k = in[1];
    if (root != 1) {
        q = op_binary(b, OP_mul, q, op_like(b, q, root));
        k = op_binary(b, OP_mul, k, op_like(b, k, root));
    }
    Val *scores = batched(b, q, k, true);
    if (!scores)
        return NULL;
    if (cap > 0) {
        Val *bounded = op_unary(b, OP_tanh, op_binary(b, OP_div, scores, op_like(b, scores, cap)));
        scores = op_binary(b, OP_mul, bounded, op_like(b, bounded, cap));
    }
    Val *lowest = op_like(b, scores, -INFINITY);
    if (mask)
        scores = mask->type->dtype == DT_BOOL ? op_select(b, mask, scores, lowest) : op_binary(b, OP_add, scores, mask);
    if (causal && scores) {
        uint32_t rank = scores->type->rank;
        Val *key = iota(b, scores, rank - 1);
        Val *seen = op_binary(b, OP_le, key, iota(b, scores, rank - 2));
        scores = op_select(b, seen, scores, lowest);
    }
    int64_t keys = in[0]->type->rank - 1;
    return batched(b, part_softmax(b, scores, &keys, 1, false, mask != NULL), in[2], false);
}
