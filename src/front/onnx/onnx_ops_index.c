/* SPDX-License-Identifier: Apache-2.0
 *
 * Importers of operators that index by data, and of those that compare positions (Trilu, OneHot, EyeLike, ReverseSequence).
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

/* Indices that are constants are checked now; others when the model runs. limit(user, position) is the size they index. */
static bool indices_in_range(OnnxNode *n, const Val *indices, const Dim *const *limits, uint32_t n_limits)
{
    Weight *weight = val_const(indices);
    uint64_t count;
    if (!weight || !dtype_is_int(weight->type->dtype) || !type_count(weight->type, &count))
        return true;
    for (uint64_t i = 0; i < count; i++) {
        int64_t size, index = elem_get_s64(weight->type->dtype, weight->data, i);
        if (dim_is_const(limits[i % n_limits], &size) && (index < -size || index >= size))
            return node_bad(n, "%s: constant index %lld is outside of [-%lld,%lld)", n->row->type, (long long)index,
                            (long long)size, (long long)size);
    }
    return true;
}

static bool indices_are_ints(OnnxNode *n, uint32_t i)
{
    DType dtype = n->in[i]->type->dtype;
    return n->in[i]->type->kind == TY_TENSOR && (dtype == DT_S32 || dtype == DT_S64)
               ? true
               : node_bad(n, "%s takes indices of s32 or s64", n->row->type);
}

bool import_gather(OnnxNode *n)
{
    uint32_t axis;
    const Type *data = n->in[0]->type;
    if (!indices_are_ints(n, 1) || !node_axis(n, "axis", na_int(n, "axis", 0), data->rank, &axis) ||
        !indices_in_range(n, n->in[1], &data->dim[axis], 1))
        return false;
    AttrVal attrs[2] = {attr_int(axis), attr_int(0)};
    return node_done(n, op_emit(n->b, OP_gather, n->in, 2, attrs, 2));
}

bool import_gather_elements(OnnxNode *n)
{
    uint32_t axis;
    const Type *data = n->in[0]->type;
    if (!indices_are_ints(n, 1) || !node_axis(n, "axis", na_int(n, "axis", 0), data->rank, &axis) ||
        !indices_in_range(n, n->in[1], &data->dim[axis], 1))
        return false;
    AttrVal attr = attr_int(axis);
    return node_done(n, op_emit(n->b, OP_gather_elements, n->in, 2, &attr, 1));
}

/* The length of index tuples, if they fit the axes from `batch` on; else 0, and the op's own rule reports. */
static uint32_t tuple_length(const Type *indices, const Type *data, int64_t batch)
{
    int64_t length;
    bool fits = indices->rank > 0 && dim_is_const(indices->dim[indices->rank - 1], &length) && length > 0 && batch >= 0 &&
                batch + length <= data->rank;
    return fits ? (uint32_t)length : 0;
}

bool import_gather_nd(OnnxNode *n)
{
    int64_t batch = na_int(n, "batch_dims", 0);
    const Type *data = n->in[0]->type, *indices = n->in[1]->type;
    if (!indices_are_ints(n, 1))
        return false;
    uint32_t length = tuple_length(indices, data, batch);
    if (length && !indices_in_range(n, n->in[1], data->dim + batch, length))
        return false;
    AttrVal attr = attr_int(batch);
    return node_done(n, op_emit(n->b, OP_gather_nd, n->in, 2, &attr, 1));
}

static bool combine_of(OnnxNode *n, AttrVal *attr)
{
    const char *combine;
    if (!na_choice(n, "reduction", n->opset < 18 ? "none|add|mul" : "none|add|mul|max|min", "none", &combine))
        return false;
    *attr = attr_str(n->ctx, combine);
    return indices_are_ints(n, 1);
}

bool import_scatter_elements(OnnxNode *n)
{
    uint32_t axis;
    AttrVal attrs[2];
    const Type *data = n->in[0]->type;
    if (!combine_of(n, &attrs[1]) || !node_axis(n, "axis", na_int(n, "axis", 0), data->rank, &axis) ||
        !indices_in_range(n, n->in[1], &data->dim[axis], 1))
        return false;
    attrs[0] = attr_int(axis);
    return node_done(n, op_emit(n->b, OP_scatter_elements, n->in, 3, attrs, 2));
}

bool import_scatter(OnnxNode *n) { return import_scatter_elements(n); }

bool import_scatter_nd(OnnxNode *n)
{
    AttrVal attr;
    if (!combine_of(n, &attr))
        return false;
    uint32_t length = tuple_length(n->in[1]->type, n->in[0]->type, 0);
    if (length && !indices_in_range(n, n->in[1], n->in[0]->type->dim, length))
        return false;
    return node_done(n, op_emit(n->b, OP_scatter_nd, n->in, 3, &attr, 1));
}

/* ---- positions ------------------------------------------------------------------------------------------------------------ */

/* 0, 1, 2 ... along one axis of a shape that is 1 elsewhere. */
static Val *positions(OnnxNode *n, DType dtype, const Dim *size, uint32_t axis, uint32_t rank)
{
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t a = 0; a < rank; a++)
        dims[a] = a == axis ? size : dim_const(n->ctx, 1);
    AttrVal attrs[3] = {attr_dtype(dtype), attr_dims(dims, rank), attr_int(axis)};
    return op_emit(n->b, OP_iota, NULL, 0, attrs, 3);
}

static Val *zero_of(OnnxNode *n, DType dtype)
{
    return dtype_is_float(dtype) ? op_const_f64(n->b, dtype, 0) : op_const_s64(n->b, dtype, 0);
}

/* upper: column >= row + k is kept; lower: column <= row + k */
bool import_trilu(OnnxNode *n)
{
    Val *x = n->in[0], *k = node_in(n, 1);
    uint32_t rank = x->type->rank;
    if (rank < 2)
        return node_bad(n, "Trilu takes rank 2 or more");
    if (k && (k->type->dtype != DT_S64 || !(k = node_scalar(n, k))))
        return node_bad(n, "Trilu: k is one s64");
    Val *row = positions(n, DT_S64, x->type->dim[rank - 2], rank - 2, rank);
    Val *column = positions(n, DT_S64, x->type->dim[rank - 1], rank - 1, rank);
    Val *edge = k ? op_binary(n->b, OP_add, row, k) : row;
    bool upper = na_int(n, "upper", 1) != 0;
    Val *keep = op_binary(n->b, OP_le, upper ? edge : column, upper ? column : edge);
    return node_done(n, op_select(n->b, keep, x, zero_of(n, x->type->dtype)));
}

bool import_eye_like(OnnxNode *n)
{
    const Type *x = n->in[0]->type;
    DType dtype = na_find(n, "dtype") ? dtype_from_onnx(na_int(n, "dtype", 0)) : x->dtype;
    if (x->rank != 2 || dtype == DT_NONE || dtype == DT_STR)
        return node_bad(n, "EyeLike takes rank 2 and a numeric dtype");
    Val *row = positions(n, DT_S64, x->dim[0], 0, 2), *column = positions(n, DT_S64, x->dim[1], 1, 2);
    Val *edge = op_binary(n->b, OP_add, row, op_const_s64(n->b, DT_S64, na_int(n, "k", 0)));
    return node_done(n, op_cast_to(n->b, op_binary(n->b, OP_eq, edge, column), dtype));
}

/* An index outside of [-depth, depth) gives a row of `off`. */
bool import_one_hot(OnnxNode *n)
{
    Val *index = n->in[0], *values = n->in[2];
    const Dim *size, *dims[IR_MAX_RANK];
    uint32_t axis, rank = index->type->rank + 1;
    double number;
    int64_t two, one = 1;
    if (dtype_is_float(n->in[1]->type->dtype)) {
        if (!node_scalar_f64(n, 1, "depth", &number))
            return false;
        size = dim_const(n->ctx, number > -1e9 && number < 1e9 ? (int64_t)number : -1);
    } else {
        if (!node_dim_in(n, 1, "depth", &size))
            return false;
    }
    int64_t low, high;
    dim_range(size, &low, &high);
    if (high < 1 || rank > IR_MAX_RANK)
        return node_bad(n, "OneHot: depth must be 1 or more, the rank at most %d", IR_MAX_RANK - 1);
    if (values->type->rank != 1 || !dim_is_const(values->type->dim[0], &two) || two != 2)
        return node_bad(n, "OneHot: values are [off, on]");
    if (!node_axis(n, "axis", na_int(n, "axis", -1), rank, &axis))
        return false;
    for (uint32_t a = 0, from = 0; a < rank; a++)
        dims[a] = a == axis ? dim_const(n->ctx, one) : index->type->dim[from++];
    index = op_reshape(n->b, op_cast_to(n->b, index, DT_S64), rank, dims);
    Val *wrapped = op_binary(n->b, OP_add, index, op_dimval(n->b, size));
    index = op_select(n->b, op_binary(n->b, OP_lt, index, op_const_s64(n->b, DT_S64, 0)), wrapped, index);
    Val *hit = op_binary(n->b, OP_eq, index, positions(n, DT_S64, size, axis, rank));
    Val *side[2];
    for (int64_t i = 0; i < 2; i++)
        side[i] = op_reshape(n->b, op_slice_axis(n->b, values, 0, dim_const(n->ctx, i), dim_const(n->ctx, 1), 1), 0, NULL);
    return node_done(n, op_select(n->b, hit, side[1], side[0]));
}

/* The first len[b] elements of the time axis in reverse, the rest as they are. */
bool import_reverse_sequence(OnnxNode *n)
{
    Val *x = n->in[0], *lens = n->in[1];
    int64_t time = na_int(n, "time_axis", 0), batch = na_int(n, "batch_axis", 1);
    uint32_t rank = x->type->rank;
    const Dim *dims[IR_MAX_RANK];
    if (rank < 2 || time + batch != 1 || time < 0 || time > 1)
        return node_bad(n, "ReverseSequence: time_axis and batch_axis are 0 and 1, or 1 and 0, of rank 2 or more");
    if (lens->type->rank != 1 || lens->type->dtype != DT_S64 || dim_eq(lens->type->dim[0], x->type->dim[batch]) != TRI_YES)
        return node_bad(n, "ReverseSequence: sequence_lens is s64[batch]");
    for (uint32_t a = 0; a < rank; a++)
        dims[a] = dim_const(n->ctx, 1);
    dims[batch] = x->type->dim[batch];
    Val *length = op_reshape(n->b, lens, rank, dims), *at = positions(n, DT_S64, x->type->dim[time], (uint32_t)time, rank);
    Val *back = op_binary(n->b, OP_sub, op_binary(n->b, OP_sub, length, op_const_s64(n->b, DT_S64, 1)), at);
    Val *index = op_select(n->b, op_binary(n->b, OP_lt, at, length), back, at);
    Val *in[2] = {x, op_broadcast(n->b, index, rank, x->type->dim)};
    AttrVal attr = attr_int(time);
    return node_done(n, in[1] ? op_emit(n->b, OP_gather_elements, in, 2, &attr, 1) : NULL);
}
