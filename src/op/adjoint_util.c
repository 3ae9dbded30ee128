/* SPDX-License-Identifier: Apache-2.0
 * What the gradient rules share, and the rules that say there is none. */
#include "op/adjoint_int.h"

bool adj_wanted(const AdjointArgs *a, uint32_t i)
{
    const Val *x = adj_in(a, i);
    return x && x->type->kind == TY_TENSOR && dtype_is_float(x->type->dtype);
}

bool adj_give(const AdjointArgs *a, uint32_t i, Val *value)
{
    if (!adj_wanted(a, i))
        return true;
    a->in_grad[i] = adj_sum_to(a->b, value, adj_in(a, i)->type);
    return a->in_grad[i] != NULL;
}

Val *adj_sum_to(Builder *b, Val *value, const Type *type)
{
    int64_t axes[IR_MAX_RANK], size;
    uint32_t n = 0;
    if (!value)
        return NULL;
    IG_CHECK(b->module->ctx, value->type->rank >= type->rank);
    uint32_t lead = value->type->rank - type->rank; /* axes that the operand lacks, as clip's bounds may */
    for (uint32_t i = 0; i < lead; i++)
        axes[n++] = i;
    for (uint32_t i = 0; i < type->rank; i++)
        if (dim_is_const(type->dim[i], &size) && size == 1 && value->type->dim[lead + i] != type->dim[i])
            axes[n++] = lead + i;
    value = n ? op_reduce(b, value, "sum", axes, n) : value;
    return lead ? op_reshape(b, value, type->rank, type->dim) : value;
}

Val *adj_zeros(Builder *b, const Type *type)
{
    Val *zero = dtype_is_float(type->dtype) ? op_const_f64(b, type->dtype, 0) : op_const_s64(b, type->dtype, 0);
    return op_broadcast(b, zero, type->rank, type->dim);
}

Val *adj_stretch(Builder *b, Val *value, const Type *type)
{
    return value ? op_broadcast(b, value, type->rank, type->dim) : NULL;
}

Val *adj_same_shape(Builder *b, Val *value, const Type *type)
{
    return value ? op_reshape(b, value, type->rank, type->dim) : NULL;
}

Val *adj_move_axis(Builder *b, Val *value, uint32_t from, uint32_t to)
{
    int64_t perm[IR_MAX_RANK];
    if (!value || from == to)
        return value;
    uint32_t rank = value->type->rank, n = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (i == to)
            perm[i] = from;
        else {
            if (n == from)
                n++;
            perm[i] = n++;
        }
    }
    return op_transpose(b, value, perm);
}

const Dim *adj_count(Context *ctx, const Type *type, uint32_t from, uint32_t to)
{
    const Dim *n = dim_const(ctx, 1);
    for (uint32_t i = from; i < to; i++)
        n = dim_mul(ctx, n, type->dim[i]);
    return n;
}

Val *adj_mul(Builder *b, Val *x, Val *y) { return op_binary(b, OP_mul, x, y); }
Val *adj_add(Builder *b, Val *x, Val *y) { return op_binary(b, OP_add, x, y); }
Val *adj_scale(Builder *b, Val *x, double factor) { return x ? adj_mul(b, x, op_like(b, x, factor)) : NULL; }
Val *adj_plus(Builder *b, Val *x, double addend) { return x ? adj_add(b, x, op_like(b, x, addend)) : NULL; }

bool adjoint_zero(AdjointArgs *args)
{
    (void)args;
    return true;
}

bool adjoint_nondiff(AdjointArgs *args)
{
    Context *ctx = args->b->module->ctx;
    return diag_report(ctx, args->node->loc, DIAG_ad_nondiff, op_info[args->node->op].name);
}

/* The driver differentiates the body instead: composites with this rule are expanded before the walk. */
bool adjoint_expand(AdjointArgs *args)
{
    ig_bug(args->b->module->ctx, "composite %s was not expanded before differentiation", op_info[args->node->op].name);
}
