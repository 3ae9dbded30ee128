/* SPDX-License-Identifier: Apache-2.0
 *
 * The index space of a fold or register tile: loops over its axes that carry accumulators, with guards as branches at the
 * outermost loop that decides them, the last axis several positions at a time, and blocks of positions (numerics.md: 512
 * for contractions, 8192 for reductions) around it all. Extents are constants, so every trip count is known, every loop is
 * tested at the bottom, and what is left over is emitted once behind its loop. Only the first axis may end at a size that the run
 * decides: its loop is then left earlier, and what is left over is a last unit in which the body looks at the size.
 */
#include "cgen/llvm/llvm_int.h"

int64_t cg_nest_positions(const Nest *nest, uint32_t from_axis)
{
    int64_t n = 1;
    for (uint32_t i = from_axis; i < nest->n_axes; i++)
        n *= nest->axis[i].extent;
    return n;
}

bool cg_nest_can_split(const Nest *nest, int64_t block)
{
    return cg_nest_positions(nest, 0) <= block || (block % cg_nest_positions(nest, 1) == 0 && !nest->axis[0].unroll);
}

static void add_guard(Cg *cg, Nest *nest, const Expr *e)
{
    if (!e || lx_is_true(e))
        return;
    if (e->kind == LX_AND) {
        add_guard(cg, nest, e->arg[0]);
        add_guard(cg, nest, e->arg[1]);
        return;
    }
    int level = -1;
    for (uint32_t i = 0; i < nest->n_axes; i++)
        if (lx_uses_iter(e, nest->axis[i].iter))
            level = (int)i;
    if (nest->step && lx_uses_iter(e, nest->step))
        level = (int)nest->n_axes - 1;
    if (cg->lane && cg_has_lanes(cg, e))
        level = (int)nest->n_axes;
    if (nest->n_guards == NEST_MAX_GUARDS)
        ig_bug(cg->ctx, "kernel %s: a guard has more than %d terms", cg->k->name, NEST_MAX_GUARDS);
    nest->guard[nest->n_guards] = e;
    nest->guard_level[nest->n_guards++] = level;
}

void cg_nest_split_guard(Cg *cg, Nest *nest, const Expr *guard) { add_guard(cg, nest, guard); }

void cg_nest_flatten(Cg *cg, Nest *nest, const Expr **exprs, uint32_t n_exprs)
{
    int64_t n = cg_nest_positions(nest, 0), inner = n;
    Iter *flat = kernel_iter(cg->k, "p", 0, n - 1);
    for (uint32_t i = 0; i < nest->n_axes; i++) {
        inner /= nest->axis[i].extent;
        const Expr *value = lx_mod(cg->k, lx_div(cg->k, lx_iter(cg->k, flat), inner), nest->axis[i].extent);
        for (uint32_t e = 0; e < n_exprs; e++)
            exprs[e] = lx_replace_iter(cg->k, exprs[e], nest->axis[i].iter, value);
    }
    const Expr *size = nest->axis[0].size;
    if (size && nest->axis[0].extent)
        size = lx_mul(cg->k, size, n / nest->axis[0].extent);
    nest->n_axes = 1;
    nest->axis[0] = (NestAxis){.iter = flat, .extent = n, .size = size};
}

static void nest_level(Cg *cg, Nest *nest, uint32_t level, LLVMValueRef start, LLVMValueRef end);

/* What lies inside axis `level` (-1: everything) under the guards that it decides. */
static void nest_guarded(Cg *cg, Nest *nest, int level)
{
    const Expr *guard = NULL;
    bool last = level == (int)nest->n_axes - 1;
    for (uint32_t i = 0; i < nest->n_guards && !last; i++)
        if (nest->guard_level[i] == level)
            guard = lx_and(cg->k, guard, nest->guard[i]);
    LLVMValueRef cond = guard ? cg_scalar(cg, guard) : NULL;
    if (cond && LLVMIsAConstantInt(cond)) {
        if (!LLVMConstIntGetZExtValue(cond))
            return;
        cond = NULL;
    }
    Branch branch;
    if (cond)
        cg_if_begin(cg, &branch, cond, false, nest->acc, nest->n_acc);
    if (last)
        nest->body(cg, nest, nest->unit);
    else
        nest_level(cg, nest, (uint32_t)(level + 1), NULL, NULL);
    if (cond)
        cg_if_end(cg, &branch, nest->acc);
}

static void enter_constant(Cg *cg, const Nest *nest, const Iter *iter, int64_t value)
{
    LLVMValueRef leave = NULL;
    if (nest->apart) {
        LLVMBasicBlockRef next = cg_block(cg, "next");
        cg_place(cg, cg->top);
        leave = LLVMBuildBr(cg->b, next);
        cg_scope_push(cg, leave, false);
        cg_use_block(cg, next);
    } else {
        cg_scope_push(cg, NULL, false);
    }
    cg_bind_iter(cg, iter, cg_int(cg, value), cg->top);
}

/* Axis `level` from start to end (NULL: all of it); the last axis counts in units. */
static void nest_level(Cg *cg, Nest *nest, uint32_t level, LLVMValueRef start, LLVMValueRef end)
{
    const NestAxis *axis = &nest->axis[level];
    bool last = level + 1 == nest->n_axes;
    const Iter *iter = last ? nest->step : axis->iter;
    int64_t trips = last ? axis->extent / nest->unit : axis->extent, rest = last ? axis->extent % nest->unit : 0;
    bool whole = !start;
    if (whole && (axis->unroll || trips == 1)) {
        for (int64_t v = 0; v < trips; v++) {
            nest->value[level] = v;
            enter_constant(cg, nest, iter, v);
            nest_guarded(cg, nest, (int)level);
            cg_scope_pop(cg);
        }
    } else if (!whole || trips > 0) {
        Loop loop;
        cg_loop_begin(cg, &loop, iter, whole ? cg_int(cg, 0) : start, whole ? cg_int(cg, trips) : end, 1, axis->size != NULL,
                      nest->stores, nest->acc, nest->n_acc);
        nest_guarded(cg, nest, (int)level);
        cg_loop_end(cg, &loop, nest->acc);
    }
    if (whole && rest) {
        nest->value[level] = trips;
        enter_constant(cg, nest, iter, trips);
        nest->body(cg, nest, rest);
        cg_scope_pop(cg);
    }
}

/* Guards that no axis decides come first of all. */
static void run_segment(Cg *cg, Nest *nest, LLVMValueRef start, LLVMValueRef end)
{
    if (start) {
        const Expr *guard = NULL;
        for (uint32_t i = 0; i < nest->n_guards; i++)
            if (nest->guard_level[i] == -1)
                guard = lx_and(cg->k, guard, nest->guard[i]);
        Branch branch;
        if (guard)
            cg_if_begin(cg, &branch, cg_scalar(cg, guard), false, nest->acc, nest->n_acc);
        nest_level(cg, nest, 0, start, end);
        if (guard)
            cg_if_end(cg, &branch, nest->acc);
        return;
    }
    nest_guarded(cg, nest, -1);
}

/* The positions after the last full block, when they are no whole number of units: a nest of their own. */
static void run_remainder(Cg *cg, Nest *nest, int64_t first, int64_t count)
{
    Nest part = *nest;
    int64_t trips = count / nest->unit, rest = count % nest->unit;
    if (trips)
        run_segment(cg, nest, cg_int(cg, first / nest->unit), cg_int(cg, first / nest->unit + trips));
    if (rest) {
        enter_constant(cg, &part, nest->step, first / nest->unit + trips);
        nest->body(cg, nest, rest); /* guards of a single axis are the body's */
        cg_scope_pop(cg);
    }
}

/* Iterations [start, end) of a sized first axis; start is a multiple of the unit. */
static void run_sized(Cg *cg, Nest *nest, LLVMValueRef start, LLVMValueRef end)
{
    int64_t unit = nest->n_axes == 1 ? nest->unit : 1;
    if (unit == 1) {
        run_segment(cg, nest, start, end);
        return;
    }
    cg_place(cg, cg->top);
    LLVMValueRef units = cg_int(cg, unit), full = LLVMBuildUDiv(cg->b, end, units, "");
    LLVMValueRef some = LLVMBuildICmp(cg->b, LLVMIntNE, LLVMBuildURem(cg->b, end, units, ""), cg_int(cg, 0), "");
    run_segment(cg, nest, LLVMBuildUDiv(cg->b, start, units, ""), full);
    Branch branch;
    cg_if_begin(cg, &branch, some, nest->stores, nest->acc, nest->n_acc);
    cg_bind_iter(cg, nest->step, full, cg->top);
    nest->ending = true;
    nest->body(cg, nest, unit); /* guards of a single axis are the body's */
    nest->ending = false;
    cg_if_end(cg, &branch, nest->acc);
}

static void run_sized_blocks(Cg *cg, Nest *nest, NestBlocks *blocks)
{
    const NestAxis *axis = &nest->axis[0];
    int64_t length = blocks->block / cg_nest_positions(nest, 1);
    LLVMValueRef size = cg_scalar(cg, axis->size);
    if (axis->extent <= length) {
        blocks->before(cg, nest);
        run_sized(cg, nest, cg_int(cg, 0), size);
        blocks->after(cg, nest, true);
        return;
    }
    IG_CHECK(cg->ctx, length % (nest->n_axes == 1 ? nest->unit : 1) == 0 && cg_nest_can_split(nest, blocks->block));
    Loop loop;
    cg_loop_begin(cg, &loop, NULL, cg_int(cg, 0), size, length, axis->size->lo < 1, nest->stores, blocks->total,
                  blocks->n_total);
    LLVMValueRef end = LLVMBuildAdd(cg->b, loop.phi[0], cg_int(cg, length), "");
    end = LLVMBuildSelect(cg->b, LLVMBuildICmp(cg->b, LLVMIntSLT, end, size, ""), end, size, "");
    blocks->before(cg, nest);
    run_sized(cg, nest, loop.phi[0], end);
    blocks->after(cg, nest, false);
    cg_loop_end(cg, &loop, blocks->total);
}

void cg_nest_run(Cg *cg, Nest *nest, NestBlocks *blocks)
{
    int64_t n = cg_nest_positions(nest, 0), per_iteration = cg_nest_positions(nest, 1);
    if (nest->axis[0].size) {
        run_sized_blocks(cg, nest, blocks);
        return;
    }
    if (n <= blocks->block) {
        blocks->before(cg, nest);
        run_segment(cg, nest, NULL, NULL);
        blocks->after(cg, nest, true);
        return;
    }
    bool single = nest->n_axes == 1;
    int64_t unit = single ? nest->unit : 1, length = blocks->block / per_iteration, extent = nest->axis[0].extent;
    int64_t full = extent / length, left = extent % length;
    IG_CHECK(cg->ctx, length % unit == 0 && cg_nest_can_split(nest, blocks->block));
    bool together = left % unit == 0; /* the last, shorter block needs no code of its own */
    int64_t looped = together ? extent : full * length;
    Loop loop;
    cg_loop_begin(cg, &loop, NULL, cg_int(cg, 0), cg_int(cg, looped / unit), length / unit, false, nest->stores,
                  blocks->total, blocks->n_total);
    LLVMValueRef start = loop.phi[0];
    LLVMValueRef end = LLVMBuildAdd(cg->b, start, cg_int(cg, length / unit), "");
    if (together && left) {
        LLVMValueRef all = cg_int(cg, extent / unit);
        end = LLVMBuildSelect(cg->b, LLVMBuildICmp(cg->b, LLVMIntSLT, end, all, ""), end, all, "");
    }
    blocks->before(cg, nest);
    run_segment(cg, nest, start, end);
    blocks->after(cg, nest, false);
    cg_loop_end(cg, &loop, blocks->total);
    if (!together) {
        blocks->before(cg, nest);
        run_remainder(cg, nest, full * length, left);
        blocks->after(cg, nest, false);
    }
}

/* ---- merging axes -------------------------------------------------------------------------------------------------------- */

/* Whether e sees outer and inner only as outer*extent + inner. */
static bool walks_as_one(Cg *cg, const Expr *e, const Iter *outer, const Iter *inner, int64_t extent)
{
    if (!e || (!lx_uses_iter(e, outer) && !lx_uses_iter(e, inner)))
        return true;
    if (e->kind == LX_LOAD) {
        int64_t a, b;
        const Expr *rest;
        if (e->n_args > e->u.buf->rank || !lx_linear(cg->k, lx_offset(cg->k, e->u.buf, e->arg), outer, &a, &rest))
            return false;
        return lx_linear(cg->k, rest, inner, &b, NULL) && a == b * extent;
    }
    if (e->kind != LX_MAP && (e->kind != LX_CAST || lx_is_index(e->arg[0])))
        return false;
    for (uint32_t i = 0; i < e->n_args; i++)
        if (!walks_as_one(cg, e->arg[i], outer, inner, extent))
            return false;
    return true;
}

/* Expressions keep only the offsets of their loads: the outer iterator becomes 0, the inner one runs over both. */
uint32_t cg_merge_axes(Cg *cg, FoldAxis *axis, uint32_t n, const Expr **exprs, uint32_t n_exprs)
{
    for (uint32_t i = n; i-- > 0;) {
        if (axis[i].extent != 1 || axis[i].size || n == 1)
            continue;
        for (uint32_t e = 0; e < n_exprs; e++)
            exprs[e] = lx_replace_iter(cg->k, exprs[e], axis[i].iter, lx_int(cg->k, 0));
        for (uint32_t j = i; j + 1 < n; j++)
            axis[j] = axis[j + 1];
        n--;
    }
    for (uint32_t i = n - 1; i-- > 0;) {
        const FoldAxis outer = axis[i], inner = axis[i + 1];
        bool one = true;
        for (uint32_t e = 0; e < n_exprs && one; e++)
            one = walks_as_one(cg, exprs[e], outer.iter, inner.iter, inner.extent);
        if (!one)
            continue;
        Iter *both = kernel_iter(cg->k, inner.iter->name, 0, outer.extent * inner.extent - 1);
        for (uint32_t e = 0; e < n_exprs; e++) {
            exprs[e] = lx_replace_iter(cg->k, exprs[e], outer.iter, lx_int(cg->k, 0));
            exprs[e] = lx_replace_iter(cg->k, exprs[e], inner.iter, lx_iter(cg->k, both));
        }
        axis[i] = (FoldAxis){both, outer.extent * inner.extent, outer.size ? lx_mul(cg->k, outer.size, inner.extent) : NULL};
        for (uint32_t j = i + 1; j + 1 < n; j++)
            axis[j] = axis[j + 1];
        n--;
    }
    return n;
}
