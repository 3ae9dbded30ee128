/* SPDX-License-Identifier: Apache-2.0
 *
 * What shape rules share: checks that report, and proofs about sizes. Two sizes that must agree have to be *provably*
 * equal; "unknown" is refused with the two expressions in the message. Bounds (a slice inside its axis) are refused
 * when provably broken; with symbolic sizes they are checked again by op_verify once the symbols are numbers.
 */
#include "op/op_int.h"

#include <stdio.h>
#include <string.h>

DSet dset_of(DType dtype)
{
    switch (dtype_kind(dtype)) {
    case DK_FLOAT:
        return dtype == DT_F64 || dtype == DT_F32 || dtype == DT_F16 || dtype == DT_BF16 ? DS_FLOAT : DS_SMALL;
    case DK_SINT:
    case DK_UINT: return dtype_bits(dtype) >= 8 ? DS_INT : DS_SMALL;
    case DK_BOOL: return DS_BOOL;
    default: return DS_OTHER;
    }
}

static const char *dset_text(unsigned set)
{
    switch (set) {
    case DS_FLOAT: return "f64 f32 f16 bf16";
    case DS_INT: return "integers of 8 to 64 bits";
    case DS_BOOL: return "bool";
    case DS_NUMBER: return "f64 f32 f16 bf16 and integers of 8 to 64 bits";
    case DS_INT | DS_BOOL: return "bool and integers of 8 to 64 bits";
    case DS_NUMBER | DS_BOOL: return "f64 f32 f16 bf16, bool and integers of 8 to 64 bits";
    default: return "every element type but complex and str";
    }
}

static const char *operands_text(const ShapeArgs *args)
{
    Text text;
    text_init(&text, ctx_arena(args->ctx));
    if (args->n_in == 0)
        text_add(&text, "none");
    for (uint32_t i = 0; i < args->n_in; i++) {
        text_add(&text, i ? ", " : "");
        if (args->in[i])
            type_print(&text, args->in[i]);
        else
            text_add(&text, "absent");
    }
    return text.data;
}

bool sh_bad_shape(const ShapeArgs *args, const char *format, ...)
{
    char detail[400];
    va_list list;
    va_start(list, format);
    vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    return diag_report(args->ctx, args->loc, DIAG_op_shape, op_info[args->op].name, detail, operands_text(args));
}

bool sh_bad_attr(const ShapeArgs *args, AttrName name, const char *format, ...)
{
    char detail[400];
    va_list list;
    va_start(list, format);
    vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    return diag_report(args->ctx, args->loc, DIAG_op_attr, op_info[args->op].name, attr_name(name), detail,
                       operands_text(args));
}

const AttrVal *sh_attr(const ShapeArgs *args, AttrName name) { return attrs_get(args->op, args->attrs, name); }
int64_t sh_int(const ShapeArgs *args, AttrName name) { return sh_attr(args, name)->u.i; }

static const char *dim_text(const ShapeArgs *args, const Dim *dim)
{
    Text text;
    text_init(&text, ctx_arena(args->ctx));
    dim_print(&text, dim);
    return text.data;
}

/* ---- element types, ranks --------------------------------------------------------------------------------------- */

bool sh_dtype(const ShapeArgs *args, uint32_t i, unsigned set)
{
    if (dset_of(args->in[i]->dtype) & set)
        return true;
    return diag_report(args->ctx, args->loc, DIAG_op_dtype, op_info[args->op].name, i, dtype_name(args->in[i]->dtype),
                       dset_text(set), operands_text(args));
}

bool sh_same_dtype(const ShapeArgs *args, uint32_t i, uint32_t j)
{
    if (args->in[i]->dtype == args->in[j]->dtype)
        return true;
    return diag_report(args->ctx, args->loc, DIAG_op_dtype, op_info[args->op].name, j, dtype_name(args->in[j]->dtype),
                       dtype_name(args->in[i]->dtype), operands_text(args));
}

bool sh_rank(const ShapeArgs *args, uint32_t i, uint32_t rank)
{
    if (args->in[i]->rank == rank)
        return true;
    return sh_bad_shape(args, "operand %u has rank %u, expected %u", i, args->in[i]->rank, rank);
}

bool sh_scalar(const ShapeArgs *args, uint32_t i, unsigned set)
{
    return sh_rank(args, i, 0) && sh_dtype(args, i, set);
}

bool sh_same_dim(const ShapeArgs *args, uint32_t i, uint32_t a, uint32_t j, uint32_t b)
{
    const Dim *x = args->in[i]->dim[a], *y = args->in[j]->dim[b];
    Tri equal = dim_eq(x, y);
    if (equal == TRI_YES)
        return true;
    return sh_bad_shape(args, "axis %u of operand %u (%s) and axis %u of operand %u (%s) %s", a, i, dim_text(args, x),
                        b, j, dim_text(args, y), equal == TRI_NO ? "differ" : "are not known to be equal");
}

bool sh_same_shape(const ShapeArgs *args, uint32_t i, uint32_t j)
{
    if (!sh_rank(args, j, args->in[i]->rank))
        return false;
    for (uint32_t a = 0; a < args->in[i]->rank; a++)
        if (!sh_same_dim(args, i, a, j, a))
            return false;
    return true;
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

bool sh_axis(const ShapeArgs *args, AttrName name, uint32_t rank, uint32_t *axis)
{
    int64_t value = sh_int(args, name);
    if (value < 0 || value >= rank)
        return sh_bad_attr(args, name, "%lld is outside of [0,%u)", (long long)value, rank);
    *axis = (uint32_t)value;
    return true;
}

bool sh_axes(const ShapeArgs *args, AttrName name, uint32_t rank, bool *seen)
{
    const AttrVal *list = sh_attr(args, name);
    memset(seen, 0, rank * sizeof *seen);
    for (uint32_t i = 0; i < list->n; i++) {
        int64_t axis = list->u.ints[i];
        if (axis < 0 || axis >= rank)
            return sh_bad_attr(args, name, "%lld is outside of [0,%u)", (long long)axis, rank);
        if (seen[axis])
            return sh_bad_attr(args, name, "axis %lld is listed twice", (long long)axis);
        seen[axis] = true;
    }
    return true;
}

bool sh_ints(const ShapeArgs *args, AttrName name, uint32_t n, int64_t min, const int64_t **values)
{
    const AttrVal *list = sh_attr(args, name);
    if (list->n != n)
        return sh_bad_attr(args, name, "has %u entries, expected %u", list->n, n);
    for (uint32_t i = 0; i < n; i++)
        if (list->u.ints[i] < min || list->u.ints[i] > INT32_MAX)
            return sh_bad_attr(args, name, "entry %u is %lld, supported are %lld to %d", i, (long long)list->u.ints[i],
                               (long long)min, INT32_MAX);
    *values = list->u.ints;
    return true;
}

/* ---- results ---------------------------------------------------------------------------------------------------- */

bool sh_out(ShapeArgs *args, uint32_t i, DType dtype, uint32_t rank, const Dim *const *dims)
{
    if (rank > IR_MAX_RANK)
        return sh_bad_shape(args, "result has rank %u, at most %d are supported", rank, IR_MAX_RANK);
    int64_t count = 1;
    bool empty = false, huge = false;
    for (uint32_t a = 0; a < rank; a++) {
        int64_t lo, hi, size;
        if (!dim_is_valid(dims[a]))
            return diag_report(args->ctx, args->loc, DIAG_op_size, op_info[args->op].name, a, "overflows",
                               operands_text(args));
        dim_range(dims[a], &lo, &hi);
        if (hi < 0)
            return diag_report(args->ctx, args->loc, DIAG_op_size, op_info[args->op].name, a, "is negative",
                               operands_text(args));
        if (!dim_is_const(dims[a], &size))
            continue;
        empty |= size == 0;
        huge |= __builtin_mul_overflow(count, size, &count) || count > OP_MAX_ELEMENTS;
        if (huge)
            count = 1;
    }
    if (huge && !empty)
        return diag_report(args->ctx, args->loc, DIAG_op_size, op_info[args->op].name, rank - 1,
                           "makes more than 2^40 elements", operands_text(args));
    args->out[i] = type_tensor(args->ctx, dtype, rank, dims);
    return true;
}

bool sh_broadcast(const ShapeArgs *args, uint32_t first, uint32_t last, const Dim **dims)
{
    uint32_t rank = args->in[first]->rank;
    for (uint32_t i = first; i <= last; i++) {
        if (!args->in[i])
            continue;
        if (args->in[i]->rank != rank)
            return sh_bad_shape(args, "operands %u and %u have ranks %u and %u, which must be equal", first, i, rank,
                                args->in[i]->rank);
        for (uint32_t a = 0; a < rank; a++) {
            const Dim *have = dims[a], *add = args->in[i]->dim[a];
            int64_t size;
            if (i == first || (dim_is_const(have, &size) && size == 1))
                dims[a] = add;
            else if (!(dim_is_const(add, &size) && size == 1) && dim_eq(have, add) != TRI_YES)
                return sh_bad_shape(args, "axis %u has sizes %s and %s, which must be equal or 1", a,
                                    dim_text(args, have), dim_text(args, add));
        }
    }
    return true;
}

bool sh_fits(const ShapeArgs *args, uint32_t i, const Dim *const *dims, uint32_t rank)
{
    const Type *type = args->in[i];
    if (type->rank > rank)
        return sh_bad_shape(args, "operand %u has rank %u, at most %u fits", i, type->rank, rank);
    for (uint32_t a = 0; a < type->rank; a++) {
        int64_t size;
        const Dim *want = dims[rank - type->rank + a];
        if (!(dim_is_const(type->dim[a], &size) && size == 1) && dim_eq(type->dim[a], want) != TRI_YES)
            return sh_bad_shape(args, "axis %u of operand %u has size %s, expected %s or 1", a, i,
                                dim_text(args, type->dim[a]), dim_text(args, want));
    }
    return true;
}

/* floor((dilated + lo + hi - reach) / stride) + 1, ONNX Conv-11 and MaxPool-12 with auto_pad NOTSET. */
bool sh_window(const ShapeArgs *args, uint32_t axis, const Dim *in, int64_t lhs_dilation, int64_t kernel,
               int64_t dilation, int64_t stride, int64_t lo, int64_t hi, const Dim **out)
{
    Context *ctx = args->ctx;
    int64_t size, reach, range_lo, range_hi;
    if (__builtin_mul_overflow(kernel - 1, dilation, &reach) || reach > INT32_MAX)
        return sh_bad_shape(args, "the window of axis %u reaches over more than 2^31 elements", axis);
    const Dim *dilated = in;
    if (lhs_dilation != 1 && !(dim_is_const(in, &size) && size == 0))
        dilated = dim_add(ctx, dim_mul(ctx, dim_sub(ctx, in, dim_const(ctx, 1)), dim_const(ctx, lhs_dilation)),
                          dim_const(ctx, 1));
    const Dim *room = dim_add(ctx, dilated, dim_const(ctx, lo + hi - reach - 1));
    dim_range(room, &range_lo, &range_hi);
    if (dim_is_valid(room) && range_hi < (reach == 0 ? -1 : 0)) /* one tap fits in an empty axis, at no position */
        return sh_bad_shape(
            args, "the window of axis %u (%lld elements, dilation %lld) is larger than the padded axis (%s)", axis,
            (long long)kernel, (long long)dilation, dim_text(args, dim_add(ctx, dilated, dim_const(ctx, lo + hi))));
    *out = dim_add(ctx, dim_floordiv(ctx, room, dim_const(ctx, stride)), dim_const(ctx, 1));
    return true;
}

bool sh_window_op(ShapeArgs *args, DType result)
{
    const Type *x = args->in[0];
    const int64_t *window, *stride, *lo, *hi, *dilation;
    const Dim *dims[IR_MAX_RANK];
    if (!sh_ints(args, AN_window, x->rank, 1, &window) || !sh_ints(args, AN_stride, x->rank, 1, &stride) ||
        !sh_ints(args, AN_pad_lo, x->rank, INT32_MIN, &lo) || !sh_ints(args, AN_pad_hi, x->rank, INT32_MIN, &hi) ||
        !sh_ints(args, AN_dilation, x->rank, 1, &dilation))
        return false;
    for (uint32_t a = 0; a < x->rank; a++)
        if (!sh_window(args, a, x->dim[a], 1, window[a], dilation[a], stride[a], lo[a], hi[a], &dims[a]))
            return false;
    return sh_out(args, 0, result, x->rank, dims);
}

/* ---- the frame of every inference ------------------------------------------------------------------------------- */

/* Operands below in_min are there, but for these (ops.def says so beside the row). */
static bool may_be_absent(Op op, uint32_t i)
{
    return i >= (uint32_t)op_info[op].in_min || (op == OP_clip && i > 0) || (op == OP_loop && i < 2);
}

static bool choice_is_listed(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *at = choices; at; at = strchr(at, '|'), at = at ? at + 1 : NULL)
        if (!strncmp(at, value, length) && (at[length] == '|' || !at[length]))
            return true;
    return false;
}

static bool attrs_fit(const ShapeArgs *args)
{
    const OpInfo *info = &op_info[args->op];
    uint32_t n = 0;
    while (n < IR_MAX_ATTRS && info->attr[n].name != AN_NONE)
        n++;
    uint32_t have = args->attrs ? args->attrs->n : 0;
    if (have != n)
        ig_bug(args->ctx, "%s built with %u attributes, its schema has %u", info->name, have, n);
    for (uint32_t i = 0; i < n; i++) {
        const AttrVal *val = &args->attrs->val[i];
        if (val->kind != info->attr[i].kind)
            ig_bug(args->ctx, "%s built with attribute %s of kind %d, its schema says %d", info->name,
                   attr_name(info->attr[i].name), (int)val->kind, (int)info->attr[i].kind);
        if (val->kind == AK_STR && info->attr[i].choices && !choice_is_listed(info->attr[i].choices, val->u.s))
            return sh_bad_attr(args, info->attr[i].name, "'%s' is none of %s", val->u.s, info->attr[i].choices);
        if (val->kind == AK_DIMS)
            for (uint32_t d = 0; d < val->n; d++)
                if (!dim_is_valid(val->u.dims[d]))
                    return sh_bad_attr(args, info->attr[i].name, "entry %u overflows", d);
        if ((val->kind == AK_INTS || val->kind == AK_DIMS) && val->n > IR_MAX_RANK)
            return sh_bad_attr(args, info->attr[i].name, "has %u entries, at most %d are supported", val->n,
                               IR_MAX_RANK);
    }
    return true;
}

bool op_infer(ShapeArgs *args)
{
    const OpInfo *info = &op_info[args->op];
    if (args->n_in < (uint32_t)info->in_min || (info->in_max >= 0 && args->n_in > (uint32_t)info->in_max)) {
        char takes[40];
        if (info->in_max < 0)
            snprintf(takes, sizeof takes, "%d or more", info->in_min);
        else
            snprintf(takes, sizeof takes, info->in_max > info->in_min ? "%d to %d" : "%d", info->in_min, info->in_max);
        return diag_report(args->ctx, args->loc, DIAG_op_arity, info->name, takes, args->n_in);
    }
    if (!attrs_fit(args))
        return false;
    for (uint32_t i = 0; i < args->n_in; i++) {
        if (!args->in[i] && !may_be_absent(args->op, i))
            return sh_bad_shape(args, "operand %u is required", i);
        if (args->in[i] && args->in[i]->kind != TY_TENSOR && info->kind != OK_CONTROL)
            return sh_bad_shape(args, "operand %u is not a tensor", i);
    }
    return op_defs[args->op].shape(args);
}
