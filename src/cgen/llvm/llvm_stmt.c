/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements. A vector loop runs 16 iterations at a time: its iterator becomes lo + step*(16*chunk + lane), which lets index
 * arithmetic see chunks and lanes apart, and the rest is one more chunk under a mask. Inside, a condition that differs between lanes
 * is a mask too.
 */
#include "cgen/llvm/llvm_int.h"

static bool stores(const Stmt *list)
{
    for (const Stmt *s = list; s; s = s->next)
        if (s->kind == LS_STORE || s->kind == LS_PUT || (s->kind == LS_FOR && stores(s->u.loop.body)) ||
            (s->kind == LS_IF && (stores(s->u.branch.then) || stores(s->u.branch.otherwise))))
            return true;
    return false;
}

/* ---- loops --------------------------------------------------------------------------------------------------------------------- */

/* A copy of the loop's body in a scope and block of its own. */
static void straight(Cg *cg, const Stmt *body)
{
    LLVMBasicBlockRef next = cg_block(cg, "next");
    cg_place(cg, cg->top);
    cg_scope_push(cg, LLVMBuildBr(cg->b, next), true);
    cg_use_block(cg, next);
    cg_list(cg, body);
    cg_scope_pop(cg);
}

static void unrolled_loop(Cg *cg, const Stmt *s)
{
    int64_t lo, hi;
    if (!lx_is_int(s->u.loop.lo, &lo) || !lx_is_int(s->u.loop.hi, &hi))
        ig_bug(cg->ctx, "kernel %s: loop %s is unrolled but its bounds are not constant", cg->k->name, s->u.loop.iter->name);
    for (int64_t v = lo; v < hi; v += s->u.loop.step)
        straight(cg, ls_replace_iter(cg->k, s->u.loop.body, s->u.loop.iter, lx_int(cg->k, v)));
}

/* The lanes below n of one more chunk; n is 1..15. */
static void vector_tail(Cg *cg, const Stmt *body, const Iter *chunk, LLVMValueRef at, LLVMValueRef n)
{
    LLVMBasicBlockRef next = cg_block(cg, "tail");
    cg_place(cg, cg->top);
    cg_scope_push(cg, LLVMBuildBr(cg->b, next), true);
    cg_use_block(cg, next);
    LLVMValueRef lanes[LANES];
    for (int i = 0; i < LANES; i++)
        lanes[i] = LLVMConstInt(cg->i32, (uint64_t)i, false);
    CgVal limit = {.v = LLVMBuildTrunc(cg->b, n, cg->i32, ""), .depth = cg->top};
    limit = cg_splat(cg, limit, 0);
    cg->mask = LLVMBuildICmp(cg->b, LLVMIntSLT, LLVMConstVector(lanes, LANES), limit.v, "");
    cg->mask_depth = cg->top;
    cg_bind_iter(cg, chunk, at, cg->top);
    cg_list(cg, body);
    cg->mask = NULL;
    cg_scope_pop(cg);
}

static void vector_loop(Cg *cg, const Stmt *s)
{
    Kernel *k = cg->k;
    IG_CHECK(cg->ctx, !cg->lane);
    int64_t step = s->u.loop.step, known;
    const Expr *n = lx_div(k, lx_add(k, lx_sub(k, s->u.loop.hi, s->u.loop.lo), lx_int(k, step - 1)), step);
    if (n->hi <= 0)
        return;
    Iter *chunk = kernel_iter(k, s->u.loop.iter->name, 0, (n->hi - 1) / LANES), *lane = kernel_iter(k, "lane", 0, LANES - 1);
    const Expr *at = lx_add(k, lx_mul(k, lx_iter(k, chunk), LANES), lx_iter(k, lane));
    Stmt *body = ls_replace_iter(cg->k, s->u.loop.body, s->u.loop.iter, lx_add(k, s->u.loop.lo, lx_mul(k, at, step)));
    const Expr *full = lx_div(k, lx_max(k, n, lx_int(k, 0)), LANES), *rest = lx_mod(k, lx_max(k, n, lx_int(k, 0)), LANES);
    bool some = stores(body), constant = lx_is_int(n, &known);
    cg->lane = lane;
    LLVMValueRef chunks = cg_scalar(cg, full);
    if (full->hi > 0) {
        Loop loop;
        cg_loop_begin(cg, &loop, chunk, cg_int(cg, 0), chunks, 1, full->lo < 1, some, NULL, 0);
        cg_list(cg, body);
        cg_loop_end(cg, &loop, NULL);
    }
    if (constant) {
        if (known % LANES)
            vector_tail(cg, body, chunk, cg_int(cg, known / LANES), cg_int(cg, known % LANES));
    } else if (rest->hi > 0) {
        Branch branch;
        LLVMValueRef left = cg_scalar(cg, rest);
        cg_place(cg, cg->top);
        cg_if_begin(cg, &branch, LLVMBuildICmp(cg->b, LLVMIntNE, left, cg_int(cg, 0), ""), some, NULL, 0);
        vector_tail(cg, body, chunk, chunks, left);
        cg_if_end(cg, &branch, NULL);
    }
    cg->lane = NULL;
}

static void for_loop(Cg *cg, const Stmt *s)
{
    const Expr *lo = s->u.loop.lo, *hi = s->u.loop.hi;
    if (hi->hi <= lo->lo)
        return;
    Loop loop;
    LLVMValueRef start = cg_scalar(cg, lo), end = cg_scalar(cg, hi);
    bool may_skip = hi->lo <= lo->hi;
    if (s->u.loop.bind == BIND_PAR) {
        IG_CHECK(cg->ctx, cg->top == 0);
        LLVMValueRef step = cg_int(cg, s->u.loop.step), base = start;
        cg_place(cg, 0);
        start = LLVMBuildAdd(cg->b, base, LLVMBuildMul(cg->b, LLVMGetParam(cg->fn, 1), step, ""), "");
        end = LLVMBuildAdd(cg->b, base, LLVMBuildMul(cg->b, LLVMGetParam(cg->fn, 2), step, ""), "");
        may_skip = true;
    }
    cg_loop_begin(cg, &loop, s->u.loop.iter, start, end, s->u.loop.step, may_skip, stores(s->u.loop.body), NULL, 0);
    cg_list(cg, s->u.loop.body);
    cg_loop_end(cg, &loop, NULL);
}

/* ---- the others -------------------------------------------------------------------------------------------------------------------- */

static void masked_arm(Cg *cg, const Stmt *list, LLVMValueRef cond)
{
    if (!list)
        return;
    LLVMValueRef outer = cg->mask;
    int outer_depth = cg->mask_depth;
    cg_scope_push(cg, NULL, stores(list));
    cg_place(cg, cg->top);
    cg->mask = outer ? LLVMBuildAnd(cg->b, outer, cond, "") : cond;
    cg->mask_depth = cg->top;
    cg_list(cg, list);
    cg_scope_pop(cg);
    cg->mask = outer;
    cg->mask_depth = outer_depth;
}

static void scalar_arm(Cg *cg, const Stmt *list, LLVMValueRef cond)
{
    if (!list)
        return;
    Branch branch;
    cg_if_begin(cg, &branch, cond, stores(list), NULL, 0);
    cg_list(cg, list);
    cg_if_end(cg, &branch, NULL);
}

static void if_stmt(Cg *cg, const Stmt *s)
{
    CgVal cond = cg_value(cg, s->u.branch.cond);
    if (LLVMIsAConstantInt(cond.v)) {
        const Stmt *arm = LLVMConstIntGetZExtValue(cond.v) ? s->u.branch.then : s->u.branch.otherwise;
        if (arm)
            straight(cg, arm);
        return;
    }
    cg_place(cg, cg->top);
    LLVMValueRef inverse = s->u.branch.otherwise ? LLVMBuildNot(cg->b, cond.v, "") : NULL;
    if (cond.vec) {
        masked_arm(cg, s->u.branch.then, cond.v);
        masked_arm(cg, s->u.branch.otherwise, inverse);
    } else {
        scalar_arm(cg, s->u.branch.then, cond.v);
        scalar_arm(cg, s->u.branch.otherwise, inverse);
    }
}

static void store_value(Cg *cg, const Stmt *s)
{
    CgVal value = cg_value(cg, s->u.store.value);
    cg_store(cg, s->u.store.buf, s->u.store.index, value, NULL);
}

static void store_stmt(Cg *cg, const Stmt *s)
{
    CgVal mask = s->u.store.mask ? cg_value(cg, s->u.store.mask) : (CgVal){0};
    if (!mask.v) {
        store_value(cg, s);
        return;
    }
    if (!mask.vec) {
        Branch branch;
        cg_if_begin(cg, &branch, mask.v, true, NULL, 0);
        store_value(cg, s);
        cg_if_end(cg, &branch, NULL);
        return;
    }
    LLVMValueRef outer = cg->mask;
    int outer_depth = cg->mask_depth;
    cg_scope_push(cg, NULL, true);
    cg_place(cg, cg->top);
    cg->mask = outer ? LLVMBuildAnd(cg->b, outer, mask.v, "") : mask.v;
    cg->mask_depth = cg->top;
    store_value(cg, s);
    cg_scope_pop(cg);
    cg->mask = outer;
    cg->mask_depth = outer_depth;
}

/* The first failure of a run stays: exchanged for the code only where the word is still 0. */
static void check_stmt(Cg *cg, const Stmt *s)
{
    CgVal cond = cg_value(cg, s->u.check.cond);
    Branch branch;
    cg_place(cg, cg->top);
    LLVMValueRef fails = LLVMBuildNot(cg->b, cond.v, "");
    if (cond.vec) {
        fails = cg->mask ? LLVMBuildAnd(cg->b, fails, cg->mask, "") : fails;
        LLVMValueRef bits = LLVMBuildBitCast(cg->b, fails, cg->i16, "");
        fails = LLVMBuildICmp(cg->b, LLVMIntNE, bits, LLVMConstNull(cg->i16), "");
    } else if (cg->mask) {
        LLVMValueRef bits = LLVMBuildBitCast(cg->b, cg->mask, cg->i16, "");
        LLVMValueRef any = LLVMBuildICmp(cg->b, LLVMIntNE, bits, LLVMConstNull(cg->i16), "");
        fails = LLVMBuildAnd(cg->b, fails, any, "");
    }
    cg_if_begin(cg, &branch, fails, false, NULL, 0);
    LLVMBuildAtomicCmpXchg(cg->b, LLVMGetParam(cg->fn, 3), cg_int(cg, 0), cg_int(cg, (int64_t)s->u.check.code),
                           LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, false);
    cg_if_end(cg, &branch, NULL);
}

/* A variable is bound in the scope of its statement whatever its value depends on: what is built from it must not outlive the
 * next value that the same variable gets. */
static void let_stmt(Cg *cg, const Stmt *s)
{
    CgVal val = cg_value(cg, s->u.let.value);
    val.depth = cg->top;
    val.mem = false;
    cg_bind_var(cg, s->u.let.var, val, NULL);
}

static bool puts_tile(const Stmt *list, const Var *tile)
{
    for (const Stmt *s = list; s; s = s->next)
        if ((s->kind == LS_PUT && (s->u.put.tile == tile || lx_uses_var(s->u.put.value, tile))) ||
            (s->kind == LS_FOR && puts_tile(s->u.loop.body, tile)) ||
            (s->kind == LS_IF && (puts_tile(s->u.branch.then, tile) || puts_tile(s->u.branch.otherwise, tile))))
            return true;
    return false;
}

/* After its last put a tile's memory serves the next one: the stack stays small (runtime.md: 4 KB) with many tiles in a list. */
static void release_tile(Cg *cg, const Stmt *put, uint32_t first_of_list)
{
    Tile *tile = cg_var(cg, put->u.put.tile)->tile;
    bool ours = false;
    for (uint32_t i = first_of_list; i < cg->tiles.len && !ours; i++)
        ours = cg->tiles.data[i] == tile;
    if (ours && tile->slot && !puts_tile(put->next, put->u.put.tile)) {
        tile->slot->busy = false;
        tile->slot = NULL;
    }
}

void cg_list(Cg *cg, const Stmt *list)
{
    int floor = cg->floor;
    uint32_t tiles = cg->tiles.len;
    for (const Stmt *s = list; s && !cg->unsupported; s = s->next) {
        cg->floor = cg->top;
        switch (s->kind) {
        case LS_FOR:
            if (s->u.loop.bind == BIND_UNROLL)
                unrolled_loop(cg, s);
            else if (s->u.loop.bind == BIND_VEC && cg_fold_of_loop(cg, s, s->next))
                s = s->next;
            else if (s->u.loop.bind == BIND_VEC)
                vector_loop(cg, s);
            else if (s->u.loop.bind != BIND_SEQ || !cg_turned_loop(cg, s))
                for_loop(cg, s);
            break;
        case LS_IF: if_stmt(cg, s); break;
        case LS_LET: let_stmt(cg, s); break;
        case LS_STORE: store_stmt(cg, s); break;
        case LS_FOLD: cg_fold(cg, s); break;
        case LS_MMA: cg_mma(cg, s); break;
        case LS_PUT:
            cg_put(cg, s);
            release_tile(cg, s, tiles);
            break;
        case LS_CHECK: check_stmt(cg, s); break;
        }
    }
    while (cg->tiles.len > tiles) {
        Tile *tile = vec_pop(&cg->tiles);
        if (tile->slot)
            tile->slot->busy = false;
    }
    cg->floor = floor;
}
