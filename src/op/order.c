/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops that order elements. Stable: of equal elements the lower index comes first (numerics.md "Edge rules").
 */
#include "op/op_int.h"

#include <string.h>

/* ONNX TopK-11 with sorted = 1. */
bool shape_topk(ShapeArgs *args)
{
    const Type *x = args->in[0];
    const Dim *size = sh_attr(args, AN_size)->u.dim, *dims[IR_MAX_RANK];
    uint32_t axis;
    if (!sh_dtype(args, 0, DS_NUMBER) || !sh_axis(args, AN_axis, x->rank, &axis))
        return false;
    if (!dim_is_valid(size) || dim_le(size, x->dim[axis]) == TRI_NO)
        return sh_bad_attr(args, AN_size, "more elements are wanted than axis %u has", axis);
    memcpy(dims, x->dim, x->rank * sizeof *dims);
    dims[axis] = size;
    return sh_out(args, 0, x->dtype, x->rank, dims) && sh_out(args, 1, DT_S64, x->rank, dims);
}
