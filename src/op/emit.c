/* SPDX-License-Identifier: Apache-2.0
 *
 * op_emit: what importers, bodies, adjoints and passes build with. It infers result types, gives back an existing value
 * where the op changes nothing (or repeats a node that is there already), and only then makes a node.
 *
 * Folds keep every bit and need no more work at run time: identities, a move of a move of the same kind, a
 * gather of one known index, and small integer tensors whose content is known (content.c). Everything else, floats
 * above all, is left to passes.
 */
#include "op/op_int.h"

#include <string.h>

enum {
    SCAN = 64
}; /* uses or nodes looked at for an equal node: a miss costs a duplicate, which the cse pass removes */

static bool is_op(const Val *val, Op op) { return val->def && val->def->op == op; }
static bool dim_is(const Dim *dim, int64_t value)
{
    int64_t size;
    return dim_is_const(dim, &size) && size == value;
}

/* ---- folds ------------------------------------------------------------------------------------------------------ */

typedef struct Fold {
    Builder *b;
    Op op;
    const Attrs *attrs;
    Val *const *in;
    uint32_t n_in;
    const Type *out;
} Fold;
typedef Val *FoldFn(const Fold *f); /* NULL: nothing to fold */

static const AttrVal *fold_attr(const Fold *f, AttrName name) { return attrs_get(f->op, f->attrs, name); }

/* reshape(reshape(x)) -> reshape(x), broadcast(broadcast(x)) -> broadcast(x) */
static Val *fold_to_shape(const Fold *f)
{
    if (f->out == f->in[0]->type)
        return f->in[0];
    if (!is_op(f->in[0], f->op))
        return NULL;
    return op_emit_interned(f->b, f->op, &f->in[0]->def->in[0].val, 1, f->attrs);
}

static Val *fold_transpose(const Fold *f)
{
    const AttrVal *perm = fold_attr(f, AN_perm);
    bool identity = true;
    for (uint32_t a = 0; a < perm->n; a++)
        identity &= perm->u.ints[a] == a;
    if (identity)
        return f->in[0];
    if (!is_op(f->in[0], OP_transpose))
        return NULL;
    const int64_t *inner;
    int64_t both[IR_MAX_RANK];
    node_ints(f->in[0]->def, AN_perm, &inner);
    for (uint32_t a = 0; a < perm->n; a++)
        both[a] = inner[perm->u.ints[a]];
    return op_transpose(f->b, f->in[0]->def->in[0].val, both);
}

static Val *fold_slice(const Fold *f)
{
    if (f->out != f->in[0]->type)
        return NULL;
    for (uint32_t a = 0; a < f->out->rank; a++)
        if (!dim_is(fold_attr(f, AN_start)->u.dims[a], 0) || fold_attr(f, AN_step)->u.ints[a] != 1)
            return NULL;
    return f->in[0];
}

static Val *fold_pad(const Fold *f)
{
    for (uint32_t a = 0; a < f->out->rank; a++)
        if (!dim_is(fold_attr(f, AN_lo)->u.dims[a], 0) || !dim_is(fold_attr(f, AN_hi)->u.dims[a], 0) ||
            (fold_attr(f, AN_interior)->u.ints[a] != 0 && !dim_is(f->in[0]->type->dim[a], 1)))
            return NULL;
    return f->in[0];
}

/* The slice that two parts of one value make up, the second where the first ends on the axis, or NULL. */
static Val *join_slices(Builder *b, const Val *first, const Val *second, int64_t axis)
{
    if (!is_op(first, OP_slice) || !is_op(second, OP_slice) || ir_in(first->def, 0) != ir_in(second->def, 0))
        return NULL;
    const AttrVal *start[2], *step[2];
    const Val *part[2] = {first, second};
    for (int i = 0; i < 2; i++) {
        start[i] = attrs_get(OP_slice, part[i]->def->attr, AN_start);
        step[i] = attrs_get(OP_slice, part[i]->def->attr, AN_step);
    }
    for (uint32_t a = 0; a < first->type->rank; a++) {
        const Dim *next = start[0]->u.dims[a];
        if (a == axis)
            next = dim_add(b->module->ctx, next, first->type->dim[a]);
        if (step[0]->u.ints[a] != 1 || step[1]->u.ints[a] != 1 || start[1]->u.dims[a] != next)
            return NULL;
    }
    AttrVal attr[3] = {*start[0], *attrs_get(OP_slice, first->def->attr, AN_size), *step[0]};
    const Dim *size[IR_MAX_RANK];
    for (uint32_t a = 0; a < first->type->rank; a++)
        size[a] = a == axis ? dim_add(b->module->ctx, attr[1].u.dims[a], second->type->dim[a]) : attr[1].u.dims[a];
    attr[1].u.dims = size;
    return op_emit(b, OP_slice, &first->def->in[0].val, 1, attr, IG_COUNT(attr));
}

static bool usable(const Builder *b, Node *node, Op op, Val *const *in, uint32_t n_in, const Attrs *attrs);

/* A concat that is there already of the first operands, the more the better, or NULL. */
static Node *find_prefix(const Fold *f)
{
    Node *found = NULL;
    uint32_t left = SCAN;
    for (Use *use = f->in[0]->uses; use && left; use = use->next, left--) {
        uint32_t n = use->user->n_in;
        if (n > 1 && n < f->n_in && (!found || n > found->n_in) && usable(f->b, use->user, OP_concat, f->in, n, f->attrs))
            found = use->user;
    }
    return found;
}

/* Empty operands contribute nothing; parts of one value side by side are one part. What begins like another concat begins with its
 * result: blocks that append to all that came before copy nothing twice. */
static Val *fold_concat(const Fold *f)
{
    int64_t axis = fold_attr(f, AN_axis)->u.i;
    Val **kept = ARENA_ARRAY(f->b->module->arena, Val *, f->n_in);
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n_in; i++) {
        Val *joined = n > 0 ? join_slices(f->b, kept[n - 1], f->in[i], axis) : NULL;
        if (joined)
            kept[n - 1] = joined;
        else if (!dim_is(f->in[i]->type->dim[axis], 0))
            kept[n++] = f->in[i];
    }
    if (n == 0)
        kept[n++] = f->in[0];
    if (n == 1)
        return kept[0];
    Node *prefix = n == f->n_in ? find_prefix(f) : NULL;
    if (prefix) {
        uint32_t skip = prefix->n_in - 1;
        kept[skip] = ir_out(prefix, 0);
        return op_emit_interned(f->b, OP_concat, kept + skip, n - skip, f->attrs);
    }
    return n < f->n_in ? op_emit_interned(f->b, OP_concat, kept, n, f->attrs) : NULL;
}

/* gather of one known index inside the axis -> slice: its place is known, nothing has to be checked at run time */
static Val *fold_gather(const Fold *f)
{
    Context *ctx = f->b->module->ctx;
    const Type *data = f->in[0]->type;
    uint32_t axis = (uint32_t)fold_attr(f, AN_axis)->u.i;
    int64_t index, size;
    if (fold_attr(f, AN_batch)->u.i != 0 || !op_const_value(f->in[1], &index) || !dim_is_const(data->dim[axis], &size))
        return NULL;
    index += index < 0 ? size : 0;
    if (index < 0 || index >= size)
        return NULL;
    Val *row = op_slice_axis(f->b, f->in[0], axis, dim_const(ctx, index), dim_const(ctx, 1), 1);
    return op_reshape(f->b, row, f->out->rank, f->out->dim);
}

static bool axes_are_ones(const Fold *f)
{
    const AttrVal *axes = fold_attr(f, AN_axes);
    for (uint32_t i = 0; i < axes->n; i++)
        if (!dim_is(f->in[0]->type->dim[axes->u.ints[i]], 1))
            return false;
    return true;
}

static Val *fold_reverse(const Fold *f) { return axes_are_ones(f) ? f->in[0] : NULL; }

/* A fold of one element is the element, but for float max and min, which turn -0 into +0. */
static Val *fold_reduce(const Fold *f)
{
    const char *kind = fold_attr(f, AN_kind)->u.s;
    bool signless = dtype_is_float(f->out->dtype) && (!strcmp(kind, "max") || !strcmp(kind, "min"));
    return !signless && axes_are_ones(f) ? f->in[0] : NULL;
}

/* Every value of `from` is one of `to`. */
static bool widens(DType from, DType to)
{
    if (dset_of(from) == DS_FLOAT && dset_of(to) == DS_FLOAT)
        return to == DT_F64 || (to == DT_F32 && from != DT_F64) || to == from;
    if (dset_of(from) != DS_INT || dset_of(to) != DS_INT)
        return false;
    bool from_signed = dtype_kind(from) == DK_SINT, to_signed = dtype_kind(to) == DK_SINT;
    return from_signed == to_signed ? dtype_bits(to) >= dtype_bits(from)
                                    : to_signed && dtype_bits(to) > dtype_bits(from);
}

/* cast to the same type; cast(cast(x)) back to x's type over a wider one */
static Val *fold_cast(const Fold *f)
{
    Val *x = f->in[0];
    if (f->out == x->type)
        return x;
    if (!is_op(x, OP_cast))
        return NULL;
    Val *inner = x->def->in[0].val;
    return inner->type == f->out && widens(inner->type->dtype, x->type->dtype) ? inner : NULL;
}

static Val *fold_stop_gradient(const Fold *f) { return is_op(f->in[0], OP_stop_gradient) ? f->in[0] : NULL; }

/* select by a condition that is the same everywhere, where the chosen side has the result's shape */
static Val *fold_select(const Fold *f)
{
    uint32_t n;
    const Dim *const *cond = op_content(f->in[0], &n);
    for (uint32_t i = 1; i < n; i++)
        if (cond[i] != cond[0])
            return NULL;
    int64_t value;
    if (n == 0 || !dim_is_const(cond[0], &value))
        return NULL;
    Val *side = f->in[value ? 1 : 2];
    return side->type == f->out ? side : NULL;
}

static FoldFn *const folds[OP_COUNT] = {
    [OP_reshape] = fold_to_shape,
    [OP_broadcast] = fold_to_shape,
    [OP_transpose] = fold_transpose,
    [OP_slice] = fold_slice,
    [OP_pad] = fold_pad,
    [OP_concat] = fold_concat,
    [OP_reverse] = fold_reverse,
    [OP_reduce] = fold_reduce,
    [OP_cast] = fold_cast,
    [OP_select] = fold_select,
    [OP_stop_gradient] = fold_stop_gradient,
    [OP_gather] = fold_gather,
};

/* A small integer tensor of known content becomes a constant, or one `dimval`. Broadcasts stay (they are smaller). */
static Val *fold_content(const Fold *f)
{
    OpKind kind = op_info[f->op].kind;
    Context *ctx = f->b->module->ctx;
    uint64_t n;
    if ((kind == OK_SOURCE && f->op != OP_dimval) || f->op == OP_broadcast || f->out->kind != TY_TENSOR ||
        !(dset_of(f->out->dtype) & (DS_INT | DS_BOOL)) || !type_count(f->out, &n) || n == 0 || n > OP_CONTENT_MAX)
        return NULL;
    Arena *scratch = arena_create(ctx);
    const Dim *const *dims = content_of_op(ctx, scratch, f->op, f->attrs, f->in, f->n_in, f->out);
    int64_t value[OP_CONTENT_MAX];
    uint64_t known = 0;
    Val *result = NULL;
    while (dims && known < n && dim_is_const(dims[known], &value[known]))
        known++;
    if (known == n) {
        int64_t data[OP_CONTENT_MAX];
        for (uint64_t i = 0; i < n; i++)
            elem_set_s64(f->out->dtype, data, i, value[i]);
        result = op_const_weight(f->b, module_weight(f->b->module, str_intern(ctx, ""), f->out, data, true));
    } else if (dims && n == 1 && kind == OK_MAP && f->op != OP_cast) {
        result = op_cast_to(f->b, op_dimval(f->b, dims[0]), f->out->dtype);
        result = op_reshape(f->b, result, f->out->rank, f->out->dim);
    }
    arena_destroy(scratch);
    return result;
}

/* ---- an equal node ---------------------------------------------------------------------------------------------- */

static bool same_inputs(const Node *node, Val *const *in, uint32_t n_in, bool commutes)
{
    bool straight = node->n_in == n_in, crossed = commutes && n_in == 2 && straight;
    for (uint32_t i = 0; i < n_in && (straight || crossed); i++) {
        straight &= node->in[i].val == in[i];
        crossed &= node->in[i].val == in[n_in - 1 - i];
    }
    return straight || crossed;
}

static bool usable(const Builder *b, Node *node, Op op, Val *const *in, uint32_t n_in, const Attrs *attrs)
{
    return node->op == op && node->attr == attrs && node->parent == b->region &&
           same_inputs(node, in, n_in, (op_info[op].traits & OT_COMM) != 0) &&
           (!b->before || ir_before(node, b->before));
}

/* A node without operands is sought among the last ones, any other among the users of an operand. */
static Node *find_equal(const Builder *b, Op op, Val *const *in, uint32_t n_in, const Attrs *attrs)
{
    bool any = false;
    if (op_info[op].traits & (OT_PINNED | OT_REGION))
        return NULL;
    for (uint32_t i = 0; i < n_in; i++) {
        if (!in[i])
            continue;
        any = true;
        uint32_t left = SCAN;
        for (Use *use = in[i]->uses; use && left; use = use->next, left--)
            if (usable(b, use->user, op, in, n_in, attrs))
                return use->user;
        if (left)
            return NULL;
    }
    Node *node = any ? NULL : b->before ? b->before->prev : b->region->last;
    for (uint32_t left = SCAN; node && left; node = node->prev, left--)
        if (usable(b, node, op, in, n_in, attrs))
            return node;
    return NULL;
}

/* ---- op_emit ---------------------------------------------------------------------------------------------------- */

static uint32_t result_count(const Builder *b, Op op, const Attrs *attrs)
{
    if (op_info[op].outs >= 0)
        return (uint32_t)op_info[op].outs;
    if (op_info[op].traits & OT_REGION)
        ig_bug(b->module->ctx, "%s is built with ir_emit and ir_add_region, its types follow from its regions",
               op_info[op].name);
    const AttrVal *func = attrs_get(op, attrs, AN_func);
    return func && func->u.func && func->u.func->body->last ? func_n_out(func->u.func) : 0;
}

/* A required operand is missing because making it was reported: nothing to add. */
static bool lacks_operand(const Builder *b, Op op, Val *const *in, uint32_t n_in)
{
    for (uint32_t i = 0; i < n_in && i < (uint32_t)op_info[op].in_min; i++)
        if (!in[i] && !(op == OP_clip && i > 0))
            return diag_errors(b->module->ctx) > 0;
    return false;
}

Val *op_emit_interned(Builder *b, Op op, Val *const *in, uint32_t n_in, const Attrs *attrs)
{
    Context *ctx = b->module->ctx;
    if (!attrs)
        attrs = attrs_make(ctx, NULL, 0);
    if (lacks_operand(b, op, in, n_in))
        return NULL;
    uint32_t n_out = result_count(b, op, attrs);
    const Type *few_in[8], *few_out[8], **types = few_in, **out = few_out;
    if (n_in > IG_COUNT(few_in))
        types = ARENA_ARRAY(b->module->arena, const Type *, n_in);
    if (n_out > IG_COUNT(few_out))
        out = ARENA_ARRAY(b->module->arena, const Type *, n_out);
    for (uint32_t i = 0; i < n_in; i++)
        types[i] = in[i] ? in[i]->type : NULL;
    memset(out, 0, n_out * sizeof *out);
    ShapeArgs args = {ctx, b->loc, op, attrs, types, n_in, out, n_out};
    if (!op_infer(&args))
        return NULL;
    if (n_out == 1) {
        Fold f = {b, op, attrs, in, n_in, out[0]};
        Val *folded = folds[op] ? folds[op](&f) : NULL;
        folded = folded ? folded : fold_content(&f);
        if (folded)
            return folded;
    }
    Node *node = find_equal(b, op, in, n_in, attrs);
    if (!node)
        node = ir_emit(b, op, in, n_in, attrs, out, n_out);
    return n_out ? ir_out(node, 0) : n_in ? in[0] : NULL;
}

Val *op_emit(Builder *b, Op op, Val *const *in, uint32_t n_in, const AttrVal *attrs, uint32_t n_attrs)
{
    return op_emit_interned(b, op, in, n_in, attrs_make(b->module->ctx, attrs, n_attrs));
}
