/* SPDX-License-Identifier: Apache-2.0
 *
 * What lowerings share. A size is a number, or an index expression over the sizes of the run (lx_dim); element types are those
 * that the loop IR holds.
 */
#include "op/op_int.h"

static const char *node_text(const Node *node, Context *ctx)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    for (uint32_t i = 0; i < node->n_in; i++) {
        text_add(&text, i ? ", " : "");
        if (node->in[i].val)
            type_print(&text, node->in[i].val->type);
        else
            text_add(&text, "absent");
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        text_add(&text, i || !node->n_in ? "" : " -> ");
        text_add(&text, i ? ", " : "");
        type_print(&text, node->out[i].type);
    }
    return text.data;
}

bool lower_fail(LowerArgs *args, const char *why)
{
    Context *ctx = args->k->ctx;
    return diag_report(ctx, args->node->loc, DIAG_op_uncompiled, op_info[args->node->op].name,
                       node_text(args->node, ctx), why);
}

static bool type_fits(LowerArgs *args, const Type *type)
{
    if (type->kind != TY_TENSOR)
        return lower_fail(args, "sequences and optionals do not fit in kernels");
    if (!(dset_of(type->dtype) & (DS_NUMBER | DS_BOOL)))
        return lower_fail(args, "kernels hold f64 f32 f16 bf16, bool and integers of 8 to 64 bits");
    for (uint32_t a = 0; a < type->rank; a++)
        if (!lx_dim(args->k, type->dim[a]))
            return lower_fail(args, "a size is known neither now nor at the call; give input shapes (--shape)");
    return true;
}

static bool dim_fits(void *kernel, const Dim *dim) { return lx_dim(kernel, dim) != NULL; }

static bool attributes_fit(LowerArgs *args)
{
    return attrs_all_dims(args->node->attr, dim_fits, args->k) ||
           lower_fail(args, "an attribute is a size that is known neither now nor at the call");
}

bool lower_ready(LowerArgs *args)
{
    for (uint32_t i = 0; i < args->node->n_in; i++)
        if (args->node->in[i].val && !type_fits(args, args->node->in[i].val->type))
            return false;
    for (uint32_t i = 0; i < args->node->n_out; i++)
        if (!type_fits(args, args->node->out[i].type))
            return false;
    return attributes_fit(args);
}

const Expr *lower_dim(const LowerArgs *args, const Dim *dim)
{
    const Expr *e = lx_dim(args->k, dim);
    IG_CHECK(args->k->ctx, e); /* lower_ready asked */
    return e;
}

const Expr *lower_size(const LowerArgs *args, uint32_t operand, uint32_t axis)
{
    return lower_dim(args, lower_type(args, operand)->dim[axis]);
}

const Type *lower_type(const LowerArgs *args, uint32_t operand) { return args->node->in[operand].val->type; }

IndexPiece *lower_pieces(LowerArgs *args, uint32_t n)
{
    args->piece = ARENA_ARRAY(args->k->arena, IndexPiece, n);
    args->n_pieces = n;
    return args->piece;
}

/* An index as s64: what s64 cannot hold is past the end, not negative. */
const Expr *lower_index_s64(Kernel *k, const Expr *value)
{
    if (value->dtype == DT_U64)
        value = lx_map(k, OP_min, DT_U64, (const Expr *const[]){value, lx_const(k, DT_U64, INT64_MAX)}, 2);
    return lx_cast(k, value, DT_S64);
}

const Expr *lower_clamped(LowerArgs *args, const Expr *position, const Expr *size)
{
    const Expr *last = lx_sub(args->k, lx_max(args->k, size, lx_int(args->k, 1)), lx_int(args->k, 1));
    return position->hi < size->lo ? position : lx_min(args->k, position, last);
}

const Expr *lower_nonempty(LowerArgs *args, const Expr *guard, const Dim *size)
{
    const Expr *n = lower_dim(args, size);
    return n->lo >= 1 || lx_is_int(n, NULL) ? guard : lx_and(args->k, guard, lx_lt(args->k, lx_int(args->k, 0), n));
}

bool lower_within(LowerArgs *args, uint32_t axis)
{
    const Type *data = lower_type(args, 0), *indices = lower_type(args, 1);
    for (uint32_t a = 0; a < data->rank; a++)
        if (a != axis && dim_le(indices->dim[a], data->dim[a]) != TRI_YES)
            return lower_fail(args, "the indices may reach farther than the data: give other ranges");
    return true;
}

/* Whether all indices are known to be in [0, size): constants, as those of resized axes. */
static bool indices_are_inside(const LowerArgs *args, uint32_t in, const Dim *dim)
{
    const Weight *weight = ir_in(args->node, in) ? val_const(ir_in(args->node, in)) : NULL;
    uint64_t count;
    int64_t size;
    if (!weight || !dim_is_const(dim, &size) || !type_count(weight->type, &count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        int64_t at = elem_get_s64(weight->type->dtype, weight->data, i);
        if (at < 0 || at >= size)
            return false;
    }
    return true;
}

/* i < 0 ? i + size : i, in s64; then checked, then clamped: to 0 where the axis turns out to be empty, which lower_nonempty guards. */
const Expr *lower_index_value(LowerArgs *args, uint32_t in, const Expr *const *index, const Dim *dim)
{
    Kernel *k = args->k;
    const Expr *size = lower_dim(args, dim);
    const Expr *raw = lower_index_s64(k, args->load(args->user, in, index));
    if (indices_are_inside(args, in, dim))
        return lx_index(k, raw, 0, size->hi - 1);
    const Expr *zero = lx_const(k, DT_S64, 0), *end = lx_cast(k, size, DT_S64);
    const Expr *below = lx_map(k, OP_lt, DT_BOOL, (const Expr *const[]){raw, zero}, 2);
    const Expr *wrapped = lx_map(k, OP_add, DT_S64, (const Expr *const[]){raw, end}, 2);
    const Expr *at = lx_map(k, OP_select, DT_S64, (const Expr *const[]){below, wrapped, raw}, 3);
    if (args->check) {
        const Expr *low = lx_map(k, OP_le, DT_BOOL, (const Expr *const[]){zero, at}, 2);
        const Expr *high = lx_map(k, OP_lt, DT_BOOL, (const Expr *const[]){at, end}, 2);
        const Expr *inside = lx_map(k, OP_and, DT_BOOL, (const Expr *const[]){low, high}, 2);
        args->check(args->user, inside, (uint64_t)args->node->id << 8 | OP_ERROR_INDEX);
    }
    const Expr *floor = lx_map(k, OP_max, DT_S64, (const Expr *const[]){at, zero}, 2);
    const Expr *last = lx_const(k, DT_S64, (uint64_t)(size->hi - 1));
    at = lx_index(k, lx_map(k, OP_min, DT_S64, (const Expr *const[]){floor, last}, 2), 0, size->hi - 1);
    return lower_clamped(args, at, size);
}

static const Expr *add_axis(LowerArgs *args, const char *name, int64_t extent, const Expr *size)
{
    FoldNest *nest = &args->nest;
    if (nest->n_axes == LOOP_MAX_FOLD_ITERS) {
        lower_fail(args, "it folds over more than 8 axes");
        return NULL;
    }
    const Iter *iter = kernel_iter(args->k, name, 0, extent - 1);
    nest->axis[nest->n_axes++] = (FoldAxis){.iter = iter, .extent = extent, .size = size};
    return lx_iter(args->k, iter);
}

const Expr *lower_fold_axis(LowerArgs *args, const char *name, int64_t extent)
{
    return extent == 1 ? lx_int(args->k, 0) : add_axis(args, name, extent, NULL);
}

/* A size of at most 1 that varies keeps its axis: it may be empty. */
static const Expr *sized_axis(LowerArgs *args, const char *name, const Expr *size)
{
    return lx_is_int(size, NULL) ? lower_fold_axis(args, name, size->hi) : add_axis(args, name, size->hi, size);
}

/* One axis over all positions, of which the axes' indices are quotients and remainders. */
static bool flat_axes(LowerArgs *args, const char *name, const Expr *const *size, uint32_t n, const Expr **at)
{
    Kernel *k = args->k;
    const Expr *total = lx_int(k, 1), *one = lx_int(k, 1);
    for (uint32_t i = 0; i < n; i++)
        total = lx_times(k, total, size[i]);
    const Expr *position = sized_axis(args, name, total);
    for (uint32_t i = n; position && i-- > 0;) {
        const Expr *divisor = lx_max(k, size[i], one); /* without positions nothing is read */
        at[i] = lower_clamped(args, i ? lx_remainder(k, position, divisor) : position, divisor);
        position = lx_quotient(k, position, divisor);
    }
    return position != NULL;
}

/* Row-major at the sizes of the run is row-major at the bounds if only the first size varies. Where the order does not matter,
 * the other axes run to their bounds under a guard. */
bool lower_fold_axes(LowerArgs *args, const char *name, const Dim *const *dims, uint32_t n, const Expr **at)
{
    Kernel *k = args->k;
    const Expr *size[IR_MAX_RANK];
    bool varies = false, first = true;
    for (uint32_t i = 0; i < n; i++) {
        size[i] = lower_dim(args, dims[i]);
        varies |= !first && !lx_is_int(size[i], NULL);
        first &= size[i]->hi == 1;
    }
    if (varies && args->nest.form != FORM_EXACT)
        return flat_axes(args, name, size, n, at);
    for (uint32_t i = 0; i < n; i++) {
        bool guarded = args->nest.n_axes && !lx_is_int(size[i], NULL);
        at[i] = guarded ? lower_fold_axis(args, name, size[i]->hi) : sized_axis(args, name, size[i]);
        if (at[i] && guarded)
            args->nest.guard = lx_and(k, args->nest.guard, lx_lt(k, at[i], size[i]));
        if (!at[i])
            return false;
    }
    return true;
}

const Expr *lower_bounded(LowerArgs *args, const Expr *position, const Dim *size)
{
    Kernel *k = args->k;
    const Expr *inside = lx_and(k, lx_le(k, lx_int(k, 0), position), lx_lt(k, position, lower_dim(args, size)));
    if (!lx_is_true(inside))
        args->nest.guard = lx_and(k, args->nest.guard, inside);
    return position;
}

DType lower_acc(DType dtype) { return dtype == DT_F16 || dtype == DT_BF16 ? DT_F32 : dtype; }

/* What has regions is compiled by making kernels of their nodes (sched/regions.c): asked for one itself, it has none. */
bool lower_regions(LowerArgs *args) { return lower_fail(args, "its regions would be kernels of their own here"); }

bool lower_uncompiled(LowerArgs *args) { return lower_fail(args, "there is no kernel for this op yet"); }

/* `expand` replaces composites by their bodies before kernels are made. */
bool lower_expand(LowerArgs *args)
{
    ig_bug(args->k->ctx, "composite %s reached lowering; the pass expand has to run before",
           op_info[args->node->op].name);
}
