/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops without operands: constants, iota, sizes as values.
 */
#include "op/op_int.h"

bool shape_const(ShapeArgs *args)
{
    const Weight *weight = sh_attr(args, AN_weight)->u.weight;
    if (!weight || !weight->type)
        return sh_bad_attr(args, AN_weight, "names no weight of the module");
    args->out[0] = weight->type;
    return true;
}

bool shape_iota(ShapeArgs *args)
{
    const AttrVal *shape = sh_attr(args, AN_shape);
    DType dtype = sh_attr(args, AN_dtype)->u.dtype;
    uint32_t axis;
    if (dtype == DT_NONE || dtype >= DT_COUNT || !(dset_of(dtype) & DS_NUMBER))
        return sh_bad_attr(args, AN_dtype, "%s; supported: f64 f32 f16 bf16 and integers of 8 to 64 bits",
                           dtype_name(dtype));
    return sh_axis(args, AN_axis, shape->n, &axis) && sh_out(args, 0, dtype, shape->n, shape->u.dims);
}

bool shape_dimval(ShapeArgs *args)
{
    if (!dim_is_valid(sh_attr(args, AN_dim)->u.dim))
        return sh_bad_attr(args, AN_dim, "the size overflows");
    return sh_out(args, 0, DT_S64, 0, NULL);
}

/* iota and dimval are index expressions; a const is a buffer, which sched loads. */
bool lower_source(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    const Node *node = args->node;
    DType dtype = node->out[0].type->dtype;
    if (node->op == OP_const)
        ig_bug(args->k->ctx, "a const is a buffer of the kernel, not an expression");
    if (node->op == OP_iota) {
        const Expr *index = lx_cast(args->k, args->out[node_int(node, AN_axis)], DT_S64);
        args->value = lx_cast(args->k, index, dtype);
        return true;
    }
    args->value = lx_cast(args->k, lower_dim(args, node_attr(node, AN_dim)->u.dim), DT_S64);
    return true;
}
