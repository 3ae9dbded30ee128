/* SPDX-License-Identifier: Apache-2.0
 *
 * What lowerings share. Kernels see numbers only: every size is constant, element types are those that the loop IR
 * holds.
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
    return type_is_static(type) || lower_fail(args, "a size is symbolic; give input shapes (--shape)");
}

bool lower_ready(LowerArgs *args)
{
    for (uint32_t i = 0; i < args->node->n_in; i++)
        if (args->node->in[i].val && !type_fits(args, args->node->in[i].val->type))
            return false;
    for (uint32_t i = 0; i < args->node->n_out; i++)
        if (!type_fits(args, args->node->out[i].type))
            return false;
    return true;
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

/* i < 0 ? i + size : i, in s64; then checked, then clamped. size >= 1. */
const Expr *lower_index_value(LowerArgs *args, uint32_t in, const Expr *const *index, int64_t size)
{
    Kernel *k = args->k;
    const Expr *raw = lower_index_s64(k, args->load(args->user, in, index));
    const Expr *zero = lx_const(k, DT_S64, 0), *end = lx_const(k, DT_S64, (uint64_t)size);
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
    const Expr *last = lx_const(k, DT_S64, (uint64_t)(size - 1));
    return lx_index(k, lx_map(k, OP_min, DT_S64, (const Expr *const[]){floor, last}, 2), 0, size - 1);
}

const Expr *lower_fold_axis(LowerArgs *args, const char *name, int64_t extent)
{
    FoldNest *nest = &args->nest;
    if (extent == 1)
        return lx_int(args->k, 0);
    if (nest->n_axes == LOOP_MAX_FOLD_ITERS) {
        lower_fail(args, "it folds over more than 8 axes");
        return NULL;
    }
    const Iter *iter = kernel_iter(args->k, name, 0, extent - 1);
    nest->axis[nest->n_axes++] = (FoldAxis){iter, extent};
    return lx_iter(args->k, iter);
}

const Expr *lower_bounded(LowerArgs *args, const Expr *position, int64_t size)
{
    Kernel *k = args->k;
    const Expr *inside = lx_and(k, lx_le(k, lx_int(k, 0), position), lx_lt(k, position, lx_int(k, size)));
    if (!lx_is_true(inside))
        args->nest.guard = lx_and(k, args->nest.guard, inside);
    return position;
}

DType lower_acc(DType dtype) { return dtype == DT_F16 || dtype == DT_BF16 ? DT_F32 : dtype; }

bool lower_uncompiled(LowerArgs *args) { return lower_fail(args, "there is no kernel for this op yet"); }

/* `expand` replaces composites by their bodies before kernels are made. */
bool lower_expand(LowerArgs *args)
{
    ig_bug(args->k->ctx, "composite %s reached lowering; the pass expand has to run before",
           op_info[args->node->op].name);
}
