/* SPDX-License-Identifier: Apache-2.0
 *
 * MAP ops: shapes and lowering. Operands have equal rank, sizes equal or 1. What an element means is numerics.md and
 * loop/elem.c; here is only which element types an op takes.
 */
#include "op/op_int.h"

static bool same_as_first(ShapeArgs *args)
{
    return sh_out(args, 0, args->in[0]->dtype, args->in[0]->rank, args->in[0]->dim);
}

/* neg, abs, sign, relu take numbers; stop_gradient takes anything. */
bool shape_same(ShapeArgs *args)
{
    return sh_dtype(args, 0, args->op == OP_stop_gradient ? DS_ANY : DS_NUMBER) && same_as_first(args);
}

bool shape_same_float(ShapeArgs *args) { return sh_dtype(args, 0, DS_FLOAT) && same_as_first(args); }
bool shape_same_bits(ShapeArgs *args) { return sh_dtype(args, 0, DS_INT | DS_BOOL) && same_as_first(args); }

bool shape_test(ShapeArgs *args)
{
    return sh_dtype(args, 0, DS_FLOAT) && sh_out(args, 0, DT_BOOL, args->in[0]->rank, args->in[0]->dim);
}

static bool stretch(ShapeArgs *args, uint32_t first, uint32_t last, DType dtype)
{
    const Dim *dims[IR_MAX_RANK];
    return sh_broadcast(args, first, last, dims) && sh_out(args, 0, dtype, args->in[first]->rank, dims);
}

static bool pair_of(ShapeArgs *args, unsigned set) { return sh_dtype(args, 0, set) && sh_same_dtype(args, 0, 1); }

bool shape_bcast(ShapeArgs *args)
{
    return pair_of(args, DS_NUMBER) && stretch(args, 0, 1, args->in[0]->dtype);
}

bool shape_bcast_bits(ShapeArgs *args)
{
    bool shift = args->op == OP_shl || args->op == OP_shr;
    return pair_of(args, shift ? DS_INT : DS_INT | DS_BOOL) && stretch(args, 0, 1, args->in[0]->dtype);
}

bool shape_compare(ShapeArgs *args)
{
    bool ordered = args->op == OP_lt || args->op == OP_le;
    return pair_of(args, ordered ? DS_NUMBER : DS_NUMBER | DS_BOOL) && stretch(args, 0, 1, DT_BOOL);
}

bool shape_select(ShapeArgs *args)
{
    return sh_dtype(args, 0, DS_BOOL) && sh_same_dtype(args, 1, 2) && stretch(args, 0, 2, args->in[1]->dtype);
}

bool shape_fma(ShapeArgs *args)
{
    return sh_dtype(args, 0, DS_FLOAT) && sh_same_dtype(args, 0, 1) && sh_same_dtype(args, 0, 2) &&
           stretch(args, 0, 2, args->in[0]->dtype);
}

bool shape_cast(ShapeArgs *args)
{
    DType to = sh_attr(args, AN_dtype)->u.dtype;
    if (to == DT_NONE || to >= DT_COUNT || dset_of(to) == DS_OTHER)
        return sh_bad_attr(args, AN_dtype, "%s; supported is every element type but complex and str", dtype_name(to));
    return sh_dtype(args, 0, DS_ANY & ~(unsigned)DS_OTHER) && sh_out(args, 0, to, args->in[0]->rank, args->in[0]->dim);
}

bool shape_bitcast(ShapeArgs *args)
{
    DType to = sh_attr(args, AN_dtype)->u.dtype, from = args->in[0]->dtype;
    if (!sh_dtype(args, 0, DS_NUMBER | DS_SMALL))
        return false;
    if (to == DT_NONE || to >= DT_COUNT || !(dset_of(to) & (DS_NUMBER | DS_SMALL)) ||
        dtype_bits(to) != dtype_bits(from))
        return sh_bad_attr(args, AN_dtype, "%s has not the width of %s, or is bool, complex or str", dtype_name(to),
                           dtype_name(from));
    return sh_out(args, 0, to, args->in[0]->rank, args->in[0]->dim);
}

/* A bound is a tensor that does not grow the first operand; absent: no bound. */
bool shape_clip(ShapeArgs *args)
{
    if (!sh_dtype(args, 0, DS_NUMBER))
        return false;
    for (uint32_t i = 1; i < 3; i++)
        if (args->in[i] && (!sh_same_dtype(args, 0, i) || !sh_fits(args, i, args->in[0]->dim, args->in[0]->rank)))
            return false;
    return same_as_first(args);
}

bool lower_map(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    const Node *node = args->node;
    DType dtype = node->out[0].type->dtype, operand = lower_type(args, node->n_in - 1u)->dtype;
    if (!elem_supported((Op)node->op, operand))
        return lower_fail(args, "there is no kernel for elements of this type");
    if (node->op == OP_cast)
        args->value = lx_cast(args->k, args->arg[0], dtype);
    else if (node->op == OP_stop_gradient)
        args->value = args->arg[0];
    else
        args->value = lx_map(args->k, (Op)node->op, dtype, args->arg, node->n_in);
    return true;
}
