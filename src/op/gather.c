/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-dependent moves: gather (ONNX Gather-13), gather_elements (GatherElements-13), gather_nd (GatherND-13); and the
 * shape rules of their inverses. A negative index counts from the end; one outside is clamped and recorded as an error
 * of the run (numerics.md "Edge rules"): never a wild access.
 */
#include "op/op_int.h"

#include <string.h>

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static bool indices_type(const ShapeArgs *args, uint32_t i) { return sh_dtype(args, i, DS_INT); }

/* A clamped index needs an element to clamp to. */
static bool axis_has_elements(const ShapeArgs *args, uint32_t axis, const Type *indices)
{
    int64_t size;
    bool none = dim_is_const(args->in[0]->dim[axis], &size) && size == 0;
    for (uint32_t a = 0; a < indices->rank && none; a++)
        none = !(dim_is_const(indices->dim[a], &size) && size == 0);
    return !none || sh_bad_shape(args, "axis %u of the data is empty, the indices are not", axis);
}

static bool batch_axes(const ShapeArgs *args, uint32_t limit, uint32_t *batch)
{
    int64_t n = sh_int(args, AN_batch);
    if (n < 0 || n > limit || n > args->in[0]->rank || n > args->in[1]->rank)
        return sh_bad_attr(args, AN_batch, "%lld is outside of [0,%u] or above a rank", (long long)n, limit);
    for (uint32_t a = 0; a < n; a++)
        if (!sh_same_dim(args, 0, a, 1, a))
            return false;
    *batch = (uint32_t)n;
    return true;
}

bool shape_gather(ShapeArgs *args)
{
    const Type *data = args->in[0], *indices = args->in[1];
    uint32_t axis, batch, n = 0;
    const Dim *dims[2 * IR_MAX_RANK];
    if (!indices_type(args, 1) || !sh_axis(args, AN_axis, data->rank, &axis) || !batch_axes(args, axis, &batch) ||
        !axis_has_elements(args, axis, indices))
        return false;
    for (uint32_t a = 0; a < axis; a++)
        dims[n++] = data->dim[a];
    for (uint32_t a = batch; a < indices->rank; a++)
        dims[n++] = indices->dim[a];
    for (uint32_t a = axis + 1; a < data->rank; a++)
        dims[n++] = data->dim[a];
    return sh_out(args, 0, data->dtype, n, dims);
}

/* Indices reach no farther than the data on the axes that they share. */
static bool elements_fit(const ShapeArgs *args, uint32_t axis)
{
    const Type *data = args->in[0], *indices = args->in[1];
    for (uint32_t a = 0; a < data->rank; a++)
        if (a != axis && dim_le(indices->dim[a], data->dim[a]) == TRI_NO)
            return sh_bad_shape(args, "axis %u of the indices is longer than that of the data", a);
    return true;
}

bool shape_gather_elements(ShapeArgs *args)
{
    const Type *data = args->in[0], *indices = args->in[1];
    uint32_t axis;
    return indices_type(args, 1) && sh_rank(args, 1, data->rank) && sh_axis(args, AN_axis, data->rank, &axis) &&
           elements_fit(args, axis) && axis_has_elements(args, axis, indices) &&
           sh_out(args, 0, data->dtype, indices->rank, indices->dim);
}

/* The length of index tuples: the last axis of the indices, a number. */
static bool tuple_length(const ShapeArgs *args, uint32_t limit, uint32_t *length)
{
    const Type *indices = args->in[1];
    int64_t size;
    if (indices->rank == 0 || !dim_is_const(indices->dim[indices->rank - 1], &size))
        return sh_bad_shape(args, "the last axis of the indices must be a number");
    if (size < 0 || size > limit)
        return sh_bad_shape(args, "index tuples have %lld entries, the data has %u axes for them", (long long)size,
                            limit);
    *length = (uint32_t)size;
    return true;
}

bool shape_gather_nd(ShapeArgs *args)
{
    const Type *data = args->in[0], *indices = args->in[1];
    uint32_t batch, length, n = 0;
    const Dim *dims[2 * IR_MAX_RANK];
    if (!indices_type(args, 1) || !batch_axes(args, data->rank, &batch))
        return false;
    if (batch >= indices->rank)
        return sh_bad_attr(args, AN_batch, "%u leaves no axis of the indices", batch);
    if (!tuple_length(args, data->rank - batch, &length))
        return false;
    for (uint32_t a = 0; a < length; a++)
        if (!axis_has_elements(args, batch + a, indices))
            return false;
    for (uint32_t a = 0; a + 1 < indices->rank; a++)
        dims[n++] = indices->dim[a];
    for (uint32_t a = batch + length; a < data->rank; a++)
        dims[n++] = data->dim[a];
    return sh_out(args, 0, data->dtype, n, dims);
}

static bool combine_type(const ShapeArgs *args)
{
    bool replaces = !strcmp(sh_attr(args, AN_combine)->u.s, "none");
    return sh_dtype(args, 0, replaces ? DS_ANY : DS_NUMBER) && sh_same_dtype(args, 0, 2) && indices_type(args, 1);
}

/* ONNX ScatterElements-18 */
bool shape_scatter_elements(ShapeArgs *args)
{
    const Type *data = args->in[0];
    uint32_t axis;
    return combine_type(args) && sh_rank(args, 1, data->rank) && sh_axis(args, AN_axis, data->rank, &axis) &&
           sh_same_shape(args, 1, 2) && elements_fit(args, axis) && axis_has_elements(args, axis, args->in[1]) &&
           sh_out(args, 0, data->dtype, data->rank, data->dim);
}

/* ONNX ScatterND-18: updates are [index tuples.., rest of the data..]. */
bool shape_scatter_nd(ShapeArgs *args)
{
    const Type *data = args->in[0], *indices = args->in[1], *updates = args->in[2];
    uint32_t length;
    if (!combine_type(args) || !tuple_length(args, data->rank, &length))
        return false;
    uint32_t outer = indices->rank - 1;
    if (!sh_rank(args, 2, outer + data->rank - length))
        return false;
    for (uint32_t a = 0; a < updates->rank; a++)
        if (!(a < outer ? sh_same_dim(args, 1, a, 2, a) : sh_same_dim(args, 0, a - outer + length, 2, a)))
            return false;
    for (uint32_t a = 0; a < length; a++)
        if (!axis_has_elements(args, a, indices))
            return false;
    return sh_out(args, 0, data->dtype, data->rank, data->dim);
}

/* ---- lowering --------------------------------------------------------------------------------------------------- */

bool lower_gather(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    const Type *data = lower_type(args, 0), *indices = lower_type(args, 1);
    uint32_t axis = (uint32_t)node_int(args->node, AN_axis), batch = (uint32_t)node_int(args->node, AN_batch);
    uint32_t inner = indices->rank - batch;
    const Expr *at[IR_MAX_RANK];
    IndexPiece *piece = lower_pieces(args, 1);
    for (uint32_t a = 0; a < indices->rank; a++)
        at[a] = args->out[a < batch ? a : axis + a - batch];
    for (uint32_t a = 0; a < data->rank; a++)
        piece->index[a] = a < axis ? args->out[a] : a > axis ? args->out[a - 1 + inner] : NULL;
    piece->index[axis] = lower_index_value(args, 1, at, data->dim[axis]);
    piece->guard = lower_nonempty(args, NULL, data->dim[axis]);
    return true;
}

bool lower_gather_elements(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    const Type *data = lower_type(args, 0);
    uint32_t axis = (uint32_t)node_int(args->node, AN_axis);
    if (!lower_within(args, axis))
        return false;
    IndexPiece *piece = lower_pieces(args, 1);
    for (uint32_t a = 0; a < data->rank; a++)
        piece->index[a] = args->out[a];
    piece->index[axis] = lower_index_value(args, 1, args->out, data->dim[axis]);
    piece->guard = lower_nonempty(args, NULL, data->dim[axis]);
    return true;
}

bool lower_gather_nd(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    const Type *data = lower_type(args, 0), *indices = lower_type(args, 1);
    uint32_t batch = (uint32_t)node_int(args->node, AN_batch), outer = indices->rank - 1;
    uint32_t length = (uint32_t)type_dim(indices, outer);
    const Expr *at[IR_MAX_RANK];
    IndexPiece *piece = lower_pieces(args, 1);
    for (uint32_t a = 0; a < outer; a++)
        at[a] = args->out[a];
    for (uint32_t a = 0; a < data->rank; a++) {
        if (a < batch) {
            piece->index[a] = args->out[a];
        } else if (a < batch + length) {
            at[outer] = lx_int(args->k, a - batch);
            piece->index[a] = lower_index_value(args, 1, at, data->dim[a]);
            piece->guard = lower_nonempty(args, piece->guard, data->dim[a]);
        } else {
            piece->index[a] = args->out[outer + a - batch - length];
        }
    }
    return true;
}
