/* SPDX-License-Identifier: Apache-2.0
 *
 * NegativeLogLikelihoodLoss-12 .. 22 and SoftmaxCrossEntropyLoss-12 .. 13.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

/* [N, d..] with a class axis of 1 put second. */
static Val *with_class_axis(OnnxNode *n, Val *x)
{
    const Dim *dims[IR_MAX_RANK];
    uint32_t rank = x->type->rank + 1;
    for (uint32_t a = 0; a < rank; a++)
        dims[a] = a == 0 ? x->type->dim[0] : a == 1 ? dim_const(n->ctx, 1) : x->type->dim[a - 1];
    return op_reshape(n->b, x, rank, dims);
}

static bool check_target(const OnnxNode *n, const Type *x, const Type *target)
{
    if (x->rank < 2 || target->rank + 1 != x->rank || !dtype_is_float(x->dtype) ||
        (target->dtype != DT_S32 && target->dtype != DT_S64))
        return node_bad(n, "%s takes scores [N,C,d..] of floats and classes [N,d..] of s32 or s64", n->row->type);
    for (uint32_t a = 0; a < target->rank; a++)
        if (dim_eq(target->dim[a], x->dim[a ? a + 1 : 0]) == TRI_NO)
            return node_bad(n, "the classes of %s have other sizes than the scores", n->row->type);
    return true;
}

/* Of each place the negated log probability of its class times the class's weight; an ignored class weighs 0. mean divides by
 * the sum of the weights. The row's argument: 1 where the scores are not yet log probabilities. */
bool import_class_loss(OnnxNode *n)
{
    Builder *b = n->b;
    Val *x = node_widened(n, n->in[0]), *target = n->in[1], *weights = node_widened(n, node_in(n, 2)), *valid = NULL;
    DType dtype = n->in[0]->type->dtype;
    const char *reduction;
    int64_t axis = 1, all[IR_MAX_RANK];
    if (!na_choice(n, "reduction", "none|sum|mean", "mean", &reduction) || !x || !check_target(n, x->type, target->type))
        return false;
    if (n->row->arg) {
        AttrVal attr = attr_ints(&axis, 1);
        x = op_emit(b, OP_log_softmax, &x, 1, &attr, 1);
        if (n->n_out > 1)
            n->out[1] = op_cast_to(b, x, dtype);
    }
    target = op_cast_to(b, target, DT_S64);
    if (na_find(n, "ignore_index")) {
        valid = op_binary(b, OP_ne, target, op_const_s64(b, DT_S64, na_int(n, "ignore_index", 0)));
        target = op_select(b, valid, target, op_const_s64(b, DT_S64, 0));
    }
    AttrVal along = attr_int(1), first[2] = {attr_int(0), attr_int(0)};
    Val *pick[2] = {x, target ? with_class_axis(n, target) : NULL}, *each = pick[1];
    Val *loss = each ? op_unary(b, OP_neg, op_squeeze_axes(b, op_emit(b, OP_gather_elements, pick, 2, &along, 1), &axis, 1)) : NULL;
    if (!loss)
        return false;
    Val *weigh[2] = {weights, target}, *weight = weights ? op_emit(b, OP_gather, weigh, 2, first, 2) : NULL;
    if (valid) {
        weight = weight ? weight : op_const_f64(b, x->type->dtype, 1);
        weight = op_select(b, valid, weight, op_const_f64(b, x->type->dtype, 0));
    }
    if (weight)
        loss = op_binary(b, OP_mul, loss, weight);
    if (*reduction == 'n')
        return node_done_as(n, loss, dtype);
    uint32_t rank = target->type->rank;
    for (uint32_t a = 0; a < rank; a++)
        all[a] = a;
    Val *sum = op_reduce(b, loss, "sum", all, rank);
    if (*reduction == 'm') {
        const Dim *count = dim_product(n->ctx, target->type->dim, rank);
        Val *total = weight ? op_reduce(b, weight, "sum", all, rank) : op_cast_to(b, op_dimval(b, count), x->type->dtype);
        sum = op_binary(b, OP_div, sum, total);
    }
    return node_done_as(n, node_scalar(n, sum), dtype);
}
