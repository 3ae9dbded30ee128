/* SPDX-License-Identifier: Apache-2.0
 *
 * What is inside small integer tensors, as dims. Exporters compute shapes with tensors (Shape to Gather to Mul to
 * Concat to Reshape); here such chains are followed back to constants and `dimval`, so that the shape is known when the
 * graph is built. An element is known when it is a dim whose every value the tensor's element type holds; wrapped
 * integers, out of range indices and divisions by zero are left to run time.
 *
 * The walk is bounded (a chain may use each value twice, so its paths may be 2^depth): beyond the budget the answer is
 * "unknown", which is always right.
 */
#include "op/op_int.h"

#include <string.h>

enum { VISITS = 4096 };
typedef const Dim *const *Dims;
typedef struct Track {
    Context *ctx;
    Arena *arena;
    uint32_t visits;
} Track;

static Dims track_val(Track *t, const Val *val);

/* Elements of a type whose content may be tracked; 0: not tracked. */
static uint32_t tracked_count(const Type *type)
{
    uint64_t count;
    if (type->kind != TY_TENSOR || !(dset_of(type->dtype) & (DS_INT | DS_BOOL)) || !type_count(type, &count))
        return 0;
    return count <= OP_CONTENT_MAX ? (uint32_t)count : 0;
}

static bool holds(DType dtype, const Dim *dim)
{
    int64_t lo, hi;
    if (!dim_is_valid(dim))
        return false;
    dim_range(dim, &lo, &hi);
    bool is_signed = dtype_kind(dtype) == DK_SINT;
    int bits = dtype == DT_BOOL ? 1 : dtype_bits(dtype);
    if (!is_signed && lo < 0)
        return false;
    if (bits == 64)
        return true;
    int64_t top = (INT64_C(1) << (is_signed ? bits - 1 : bits)) - 1;
    return hi <= top && (!is_signed || lo >= -top - 1);
}

/* ---- elements --------------------------------------------------------------------------------------------------- */

static const Dim *from_tri(Context *ctx, Tri tri) { return tri == TRI_UNKNOWN ? NULL : dim_const(ctx, tri == TRI_YES); }

static Tri less(Context *ctx, const Dim *a, const Dim *b) { return dim_le(dim_add(ctx, a, dim_const(ctx, 1)), b); }

/* Truncating division and both remainders; symbolic only where they agree with floor. */
static const Dim *divide(Context *ctx, Op op, const Dim *a, const Dim *b)
{
    int64_t x, y, lo, hi, divisor_lo, divisor_hi;
    if (dim_is_const(a, &x) && dim_is_const(b, &y)) {
        if (y == 0 || (x == INT64_MIN && y == -1))
            return NULL;
        int64_t rest = x % y;
        if (op == OP_mod && rest && (rest < 0) != (y < 0))
            rest += y;
        return dim_const(ctx, op == OP_div ? x / y : rest);
    }
    dim_range(a, &lo, &hi);
    dim_range(b, &divisor_lo, &divisor_hi);
    if (lo < 0 || divisor_lo < 1)
        return NULL;
    return op == OP_div ? dim_floordiv(ctx, a, b) : dim_mod(ctx, a, b);
}

static const Dim *logic(Context *ctx, Op op, const Dim *a, const Dim *b)
{
    int64_t x, y;
    if (!dim_is_const(a, &x) || !dim_is_const(b, &y) || (x | y) >> 1)
        return NULL;
    return dim_const(ctx, op == OP_and ? x & y : op == OP_or ? x | y : x ^ y);
}

/* One element of a MAP op, or NULL. An element of select's unused side may be unknown (NULL). */
static const Dim *element(Context *ctx, Op op, DType in_dtype, const Dim *const *a)
{
    const Dim *zero = dim_const(ctx, 0);
    int64_t value;
    switch (op) { /* op-switch: arithmetic on dims, not behaviour of nodes */
    case OP_add: return dim_add(ctx, a[0], a[1]);
    case OP_sub: return dim_sub(ctx, a[0], a[1]);
    case OP_mul: return dim_mul(ctx, a[0], a[1]);
    case OP_neg: return dim_sub(ctx, zero, a[0]);
    case OP_abs: return dim_max(ctx, a[0], dim_sub(ctx, zero, a[0]));
    case OP_min: return dim_min(ctx, a[0], a[1]);
    case OP_max: return dim_max(ctx, a[0], a[1]);
    case OP_div:
    case OP_rem:
    case OP_mod: return divide(ctx, op, a[0], a[1]);
    case OP_eq: return from_tri(ctx, dim_eq(a[0], a[1]));
    case OP_ne: return from_tri(ctx, dim_eq(a[0], a[1]) == TRI_UNKNOWN ? TRI_UNKNOWN : dim_eq(a[0], a[1]) == TRI_NO);
    case OP_lt: return from_tri(ctx, less(ctx, a[0], a[1]));
    case OP_le: return from_tri(ctx, dim_le(a[0], a[1]));
    case OP_and:
    case OP_or:
    case OP_xor: return logic(ctx, op, a[0], a[1]);
    case OP_not: return in_dtype == DT_BOOL && dim_is_const(a[0], &value) ? dim_const(ctx, !value) : NULL;
    case OP_select: return dim_is_const(a[0], &value) ? a[value ? 1 : 2] : NULL;
    case OP_cast:
    case OP_stop_gradient: return a[0];
    default: return NULL;
    }
}

/* To bool a cast asks "not zero"; elsewhere values are kept, and `holds` tells whether they can be. */
static const Dim *cast_element(Context *ctx, DType to, const Dim *x)
{
    Tri zero = dim_eq(x, dim_const(ctx, 0));
    return to != DT_BOOL ? x : from_tri(ctx, zero == TRI_UNKNOWN ? zero : zero == TRI_NO);
}

/* ---- coordinates ------------------------------------------------------------------------------------------------ */

/* Advances a row-major coordinate. */
static void step_coord(const Type *type, int64_t *coord)
{
    for (uint32_t a = type->rank; a-- > 0;) {
        if (++coord[a] < type_dim(type, a))
            return;
        coord[a] = 0;
    }
}

/* Element number of a coordinate; axes of size 1 are stretched. */
static uint32_t offset_of(const Type *type, const int64_t *coord)
{
    int64_t at = 0;
    for (uint32_t a = 0; a < type->rank; a++) {
        int64_t size = type_dim(type, a);
        at = at * size + (size == 1 ? 0 : coord[a]);
    }
    return (uint32_t)at;
}

/* What one node looks like to the rules below. */
typedef struct View {
    Op op;
    const Attrs *attrs;
    Val *const *in;
    uint32_t n_in;
    const Type *out;
    uint32_t count;
} View;

static const AttrVal *view_attr(const View *v, AttrName name) { return attrs_get(v->op, v->attrs, name); }

static bool map_rule(Track *t, const View *v, const Dim **result)
{
    Dims in[3] = {NULL};
    int64_t coord[IR_MAX_RANK] = {0};
    if (v->n_in > 3)
        return false;
    for (uint32_t i = 0; i < v->n_in; i++) {
        in[i] = track_val(t, v->in[i]);
        if (!in[i] && !(v->op == OP_select && i > 0))
            return false;
    }
    for (uint32_t e = 0; e < v->count; e++, step_coord(v->out, coord)) {
        const Dim *arg[3] = {NULL};
        for (uint32_t i = 0; i < v->n_in; i++)
            arg[i] = in[i] ? in[i][offset_of(v->in[i]->type, coord)] : NULL;
        result[e] = v->op == OP_cast ? cast_element(t->ctx, v->out->dtype, arg[0])
                                     : element(t->ctx, v->op, v->in[0]->type->dtype, arg);
        if (!result[e])
            return false;
    }
    return true;
}

/* Maps a coordinate of the result to one of the operand; false: unknown. */
static bool move_coord(const View *v, const int64_t *to, int64_t *from)
{
    const Type *x = v->in[0]->type;
    memcpy(from, to, IR_MAX_RANK * sizeof *from);
    if (v->op == OP_broadcast)
        return true;
    if (v->op == OP_transpose) {
        for (uint32_t a = 0; a < x->rank; a++)
            from[view_attr(v, AN_perm)->u.ints[a]] = to[a];
        return true;
    }
    if (v->op == OP_reverse) {
        const AttrVal *axes = view_attr(v, AN_axes);
        for (uint32_t i = 0; i < axes->n; i++)
            from[axes->u.ints[i]] = type_dim(x, (uint32_t)axes->u.ints[i]) - 1 - to[axes->u.ints[i]];
        return true;
    }
    for (uint32_t a = 0; a < x->rank; a++) { /* slice */
        int64_t start;
        if (!dim_is_const(view_attr(v, AN_start)->u.dims[a], &start))
            return false;
        from[a] = start + to[a] * view_attr(v, AN_step)->u.ints[a];
    }
    return true;
}

static bool move_rule(Track *t, const View *v, const Dim **result)
{
    Dims in = track_val(t, v->in[0]);
    int64_t coord[IR_MAX_RANK] = {0}, from[IR_MAX_RANK];
    for (uint32_t e = 0; in && e < v->count; e++, step_coord(v->out, coord)) {
        if (v->op == OP_reshape)
            result[e] = in[e];
        else if (!move_coord(v, coord, from))
            return false;
        else
            result[e] = in[offset_of(v->in[0]->type, from)];
    }
    return in != NULL;
}

static bool concat_rule(Track *t, const View *v, const Dim **result)
{
    int64_t axis = view_attr(v, AN_axis)->u.i, start = 0;
    for (uint32_t i = 0; i < v->n_in; i++) {
        const Type *type = v->in[i]->type;
        uint32_t n = tracked_count(type);
        Dims in = n ? track_val(t, v->in[i]) : NULL;
        int64_t coord[IR_MAX_RANK] = {0}, to[IR_MAX_RANK];
        if (n && !in)
            return false;
        for (uint32_t e = 0; e < n; e++, step_coord(type, coord)) {
            memcpy(to, coord, sizeof to);
            to[axis] += start;
            result[offset_of(v->out, to)] = in[e];
        }
        start += type_dim(type, (uint32_t)axis);
    }
    return true;
}

/* gather without batch axes, of known indices inside the axis. */
static bool gather_rule(Track *t, const View *v, const Dim **result)
{
    const Type *data = v->in[0]->type, *indices = v->in[1]->type;
    uint32_t axis = (uint32_t)view_attr(v, AN_axis)->u.i;
    Dims in = track_val(t, v->in[0]), index = track_val(t, v->in[1]);
    int64_t coord[IR_MAX_RANK] = {0}, from[IR_MAX_RANK], at[IR_MAX_RANK];
    if (!in || !index || view_attr(v, AN_batch)->u.i != 0)
        return false;
    for (uint32_t e = 0; e < v->count; e++, step_coord(v->out, coord)) {
        int64_t i, size = type_dim(data, axis);
        memcpy(at, coord + axis, indices->rank * sizeof *at);
        for (uint32_t a = 0; a < data->rank; a++)
            from[a] = a < axis ? coord[a] : a > axis ? coord[a - 1 + indices->rank] : 0;
        if (!dim_is_const(index[offset_of(indices, at)], &i))
            return false;
        i += i < 0 ? size : 0;
        if (i < 0 || i >= size)
            return false;
        from[axis] = i;
        result[e] = in[offset_of(data, from)];
    }
    return true;
}

static bool reduce_rule(Track *t, const View *v, const Dim **result)
{
    const Type *x = v->in[0]->type;
    Dims in = track_val(t, v->in[0]);
    const char *kind = view_attr(v, AN_kind)->u.s;
    Op op = !strcmp(kind, "sum") ? OP_add : !strcmp(kind, "prod") ? OP_mul : op_from_name(kind);
    int64_t coord[IR_MAX_RANK] = {0};
    memset(result, 0, v->count * sizeof *result);
    for (uint32_t e = 0, n = tracked_count(x); in && e < n; e++, step_coord(x, coord)) {
        const Dim **slot = &result[offset_of(v->out, coord)];
        *slot = *slot ? element(t->ctx, op, x->dtype, (const Dim *const[]){*slot, in[e]}) : in[e];
        if (!*slot)
            return false;
    }
    return in != NULL;
}

static bool source_rule(Track *t, const View *v, const Dim **result)
{
    if (v->op == OP_dimval) {
        result[0] = view_attr(v, AN_dim)->u.dim;
        return true;
    }
    int64_t coord[IR_MAX_RANK] = {0};
    for (uint32_t e = 0; e < v->count; e++, step_coord(v->out, coord)) {
        int64_t value = v->op == OP_const ? elem_get_s64(v->out->dtype, view_attr(v, AN_weight)->u.weight->data, e)
                                          : coord[view_attr(v, AN_axis)->u.i];
        result[e] = dim_const(t->ctx, value);
    }
    return true;
}

/* ---- the walk --------------------------------------------------------------------------------------------------- */

typedef bool RuleFn(Track *t, const View *v, const Dim **result);

static RuleFn *rule_of(Op op)
{
    static const struct {
        Op op;
        RuleFn *rule;
    } rules[] = {{OP_broadcast, move_rule}, {OP_reshape, move_rule}, {OP_transpose, move_rule},
                 {OP_slice, move_rule},     {OP_reverse, move_rule}, {OP_concat, concat_rule},
                 {OP_gather, gather_rule},  {OP_reduce, reduce_rule}};
    if (op_info[op].kind == OK_MAP)
        return map_rule;
    if (op_info[op].kind == OK_SOURCE)
        return source_rule;
    for (size_t i = 0; i < IG_COUNT(rules); i++)
        if (rules[i].op == op)
            return rules[i].rule;
    return NULL;
}

static Dims track(Track *t, const View *v)
{
    RuleFn *rule = rule_of(v->op);
    if (!v->count || !rule || t->visits == 0)
        return NULL;
    t->visits--;
    const Dim **result = ARENA_ARRAY(t->arena, const Dim *, v->count);
    if (!rule(t, v, result))
        return NULL;
    for (uint32_t e = 0; e < v->count; e++)
        if (!holds(v->out->dtype, result[e]))
            return NULL;
    return result;
}

static Dims track_val(Track *t, const Val *val)
{
    if (!val || !val->def)
        return NULL;
    const Node *node = val->def;
    Val *in[OP_CONTENT_MAX + 1];
    if (node->n_in > IG_COUNT(in))
        return NULL;
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i].val;
    View view = {(Op)node->op, node->attr, in, node->n_in, val->type, tracked_count(val->type)};
    return track(t, &view);
}

const Dim *const *content_of_op(Context *ctx, Arena *arena, Op op, const Attrs *attrs, Val *const *in, uint32_t n_in,
                                const Type *out)
{
    Track t = {ctx, arena, VISITS};
    View view = {op, attrs, in, n_in, out, tracked_count(out)};
    return track(&t, &view);
}

const Dim *const *op_content(const Val *val, uint32_t *n)
{
    *n = 0;
    if (!val || !val->def || !tracked_count(val->type))
        return NULL;
    const Module *module = val->def->parent->module;
    Arena *scratch = arena_create(module->ctx);
    Track t = {module->ctx, scratch, VISITS};
    Dims found = track_val(&t, val);
    if (found) {
        *n = tracked_count(val->type);
        found = arena_copy(module->arena, found, *n * sizeof *found);
    }
    arena_destroy(scratch);
    return found;
}

bool op_const_value(const Val *val, int64_t *value)
{
    uint32_t n;
    const Dim *const *content = op_content(val, &n);
    return n == 1 && dim_is_const(content[0], value);
}
