/* SPDX-License-Identifier: Apache-2.0
 *
 * Folds over whole axes: reduce, cumulate, argreduce. Reduced axes keep size 1.
 */
#include "op/op_int.h"

#include <string.h>

/* ---- shapes ----------------------------------------------------------------------------------------------------- */

static bool reduced(ShapeArgs *args, const bool *seen, DType dtype)
{
    const Type *x = args->in[0];
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t a = 0; a < x->rank; a++)
        dims[a] = seen[a] ? dim_const(args->ctx, 1) : x->dim[a];
    return sh_out(args, 0, dtype, x->rank, dims);
}

bool shape_reduce(ShapeArgs *args)
{
    bool seen[IR_MAX_RANK];
    const char *kind = sh_attr(args, AN_kind)->u.s;
    bool logical = !strcmp(kind, "and") || !strcmp(kind, "or");
    return sh_dtype(args, 0, logical ? DS_INT | DS_BOOL : DS_NUMBER) &&
           sh_axes(args, AN_axes, args->in[0]->rank, seen) && reduced(args, seen, args->in[0]->dtype);
}

/* mean, logsumexp */
bool shape_reduce_axes(ShapeArgs *args)
{
    bool seen[IR_MAX_RANK];
    return sh_dtype(args, 0, DS_FLOAT) && sh_axes(args, AN_axes, args->in[0]->rank, seen) &&
           reduced(args, seen, args->in[0]->dtype);
}

bool shape_argreduce(ShapeArgs *args)
{
    bool seen[IR_MAX_RANK] = {false};
    uint32_t axis;
    int64_t size;
    if (!sh_dtype(args, 0, DS_NUMBER) || !sh_axis(args, AN_axis, args->in[0]->rank, &axis))
        return false;
    if (dim_is_const(args->in[0]->dim[axis], &size) && size == 0)
        return sh_bad_shape(args, "axis %u is empty: there is no largest or smallest element", axis);
    seen[axis] = true;
    return reduced(args, seen, DT_S64);
}

bool shape_cumulate(ShapeArgs *args)
{
    const Type *x = args->in[0];
    uint32_t axis;
    return sh_dtype(args, 0, DS_NUMBER) && sh_axis(args, AN_axis, x->rank, &axis) &&
           sh_out(args, 0, x->dtype, x->rank, x->dim);
}

/* ---- lowering --------------------------------------------------------------------------------------------------- */

static FoldKind fold_kind(const Node *node)
{
    static const struct {
        const char *name;
        FoldKind kind;
    } kinds[] = {{"sum", FOLD_SUM}, {"prod", FOLD_PROD}, {"max", FOLD_MAX},
                 {"min", FOLD_MIN}, {"and", FOLD_AND},   {"or", FOLD_OR}};
    for (size_t i = 0; i < IG_COUNT(kinds); i++)
        if (node_str_is(node, AN_kind, kinds[i].name))
            return kinds[i].kind;
    return FOLD_SUM; /* not reached: the shape rule checked the choices */
}

/* The kind, the form (numerics.md: float sums and products in 16 lanes, all else exact) and the accumulator. */
static void start_fold(LowerArgs *args)
{
    DType dtype = lower_type(args, 0)->dtype;
    FoldKind kind = fold_kind(args->node);
    bool ordered = dtype_is_float(dtype) && (kind == FOLD_SUM || kind == FOLD_PROD);
    args->nest = (FoldNest){.kind = kind,
                            .form = ordered ? FORM_LANES16 : FORM_EXACT,
                            .acc = ordered ? lower_acc(dtype) : dtype,
                            .n_operands = 1};
}

bool lower_reduce(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    const Type *x = lower_type(args, 0);
    const int64_t *axes;
    uint32_t n = node_ints(args->node, AN_axes, &axes);
    bool seen[IR_MAX_RANK] = {false};
    const Dim *dims[IR_MAX_RANK];
    const Expr *at[IR_MAX_RANK];
    uint32_t n_dims = 0, next = 0;
    for (uint32_t i = 0; i < n; i++)
        seen[axes[i]] = true;
    for (uint32_t a = 0; a < x->rank; a++) /* ascending axes: row-major order of the reduced space */
        if (seen[a])
            dims[n_dims++] = x->dim[a];
    start_fold(args);
    if (!lower_fold_axes(args, "r", dims, n_dims, at))
        return false;
    for (uint32_t a = 0; a < x->rank; a++)
        args->nest.index[0][a] = seen[a] ? at[next++] : args->out[a];
    return true;
}

/* The window position is the element index of the fold; padding is absent (numerics.md "Average pool"). */
bool lower_reduce_window(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    const Type *x = lower_type(args, 0);
    WindowAttrs w = op_window(args->node);
    start_fold(args);
    for (uint32_t a = 0; a < x->rank; a++) {
        const Expr *tap = lower_fold_axis(args, "w", w.size[a]);
        if (!tap)
            return false;
        const Expr *start = lx_sub(k, lx_mul(k, args->out[a], w.stride[a]), lx_int(k, w.lo[a]));
        args->nest.index[0][a] = lower_bounded(args, lx_add(k, start, lx_mul(k, tap, w.dilation[a])), x->dim[a]);
    }
    return true;
}

/* ---- argreduce as folds: exact, so equal to any other way of finding the element -------------------------------- */

/* best = fold(x); the first (or last) index whose element equals it. A NaN is the best of its row, and then the first
 * NaN is taken whatever `last` says: such rows count from the other end. No element: 0, as the evaluator says. */
Val *body_argreduce(Builder *b, const Attrs *attrs, Val *const *in, uint32_t n_in, const Type *out)
{
    (void)n_in, (void)out;
    Val *x = in[0];
    int64_t axis = attrs_get(OP_argreduce, attrs, AN_axis)->u.i;
    bool last = attrs_get(OP_argreduce, attrs, AN_last)->u.i != 0;
    bool floating = dtype_is_float(x->type->dtype);
    Val *best = op_reduce(b, x, attrs_get(OP_argreduce, attrs, AN_kind)->u.s, &axis, 1);
    Val *hit = op_binary(b, OP_eq, x, best);
    AttrVal iota[3] = {attr_dtype(DT_S64), attr_dims(x->type->dim, x->type->rank), attr_int(axis)};
    Val *index = op_emit(b, OP_iota, NULL, 0, iota, 3);
    Val *nan = floating ? op_unary(b, OP_isnan, best) : NULL;
    if (floating)
        hit = op_select(b, nan, op_unary(b, OP_isnan, x), hit);
    Val *size = op_dimval(b, x->type->dim[axis]);
    bool filled = dim_le(dim_const(b->module->ctx, 1), x->type->dim[axis]) == TRI_YES;
    if (!last) {
        Val *first = op_reduce(b, op_select(b, hit, index, size), "min", &axis, 1);
        return filled ? first : op_binary(b, OP_min, first, size);
    }
    Val *end = op_binary(b, OP_sub, size, op_const_s64(b, DT_S64, 1));
    Val *score = floating ? op_select(b, nan, op_binary(b, OP_sub, end, index), index) : index;
    Val *top = op_reduce(b, op_select(b, hit, score, op_const_s64(b, DT_S64, -1)), "max", &axis, 1);
    if (!filled)
        top = op_binary(b, OP_max, top, op_const_s64(b, DT_S64, 0));
    return floating ? op_select(b, nan, op_binary(b, OP_sub, end, top), top) : top;
}
