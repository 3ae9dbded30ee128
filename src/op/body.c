/* SPDX-License-Identifier: Apache-2.0
 *
 * What composite bodies share, and the frame around them: 16-bit floats are widened on entry and rounded once at the
 * end (numerics.md "Rounding").
 */
#include "op/op_int.h"

#include <string.h>

Val *body_none(Builder *b, const Attrs *attrs, Val *const *in, uint32_t n_in, const Type *out)
{
    BODY_UNUSED;
    ig_bug(b->module->ctx, "a primitive was asked for its body");
}

Val *body_widened(Builder *b, const Attrs *attrs, Val *const *in, uint32_t n_in, const Type *out, BodyFn *inner)
{
    bool narrow = out->dtype == DT_F16 || out->dtype == DT_BF16;
    Val *wide[8] = {NULL};
    IG_CHECK(b->module->ctx, n_in <= IG_COUNT(wide));
    for (uint32_t i = 0; i < n_in; i++)
        wide[i] = in[i] && narrow && in[i]->type->dtype == out->dtype ? op_cast_to(b, in[i], DT_F32) : in[i];
    Val *result = inner(b, attrs, wide, n_in, out);
    return narrow ? op_cast_to(b, result, out->dtype) : result;
}

Val *part_count(Builder *b, const Type *type, DType dtype, const int64_t *axes, uint32_t n_axes)
{
    Context *ctx = b->module->ctx;
    const Dim *count = dim_const(ctx, 1);
    int64_t n;
    for (uint32_t i = 0; i < n_axes; i++)
        count = dim_mul(ctx, count, type->dim[axes[i]]);
    if (dim_is_const(count, &n))
        return op_const_f64(b, dtype, (double)n);
    return op_cast_to(b, op_dimval(b, count), dtype);
}

Val *part_channel(Builder *b, Val *vector, uint32_t rank)
{
    const Dim *dims[IR_MAX_RANK];
    if (!vector)
        return NULL;
    for (uint32_t a = 0; a < rank; a++)
        dims[a] = a == 1 ? vector->type->dim[0] : dim_const(b->module->ctx, 1);
    return op_reshape(b, vector, rank, dims);
}
