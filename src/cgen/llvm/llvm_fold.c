/* SPDX-License-Identifier: Apache-2.0
 *
 * Folds in the forms of numerics.md ("Reduction", "Contraction").
 *
 * Outside vector loops the lanes of LANES16 are the lanes of a register: element i of a block sits in lane i mod 16 when 16
 * consecutive positions are taken at a time. Exact folds use the same walk in several registers, any order being right. Inside a
 * vector loop each lane of the loop has a fold of its own, and LANES16 means 16 accumulators, one per position mod 16. Missing
 * positions hold the identity. Totals start from -0 (or 1): adding the first block to it is exact.
 *
 * A vector loop that only stores what the fold behind it reads, element by element (exponentials and their sum), is done by the fold:
 * it stores each register before it takes it, and need not load it.
 */
#include "cgen/llvm/llvm_int.h"

enum { REDUCTION_BLOCK = 8192, UNROLL_POSITIONS = 16, UNROLL_LANES16 = 64, EXACT_REGISTERS = 4 };

typedef struct Fold {
    const Stmt *s;
    DType dtype;
    FoldKind kind;
    bool across; /* the register's lanes are positions */
    const Expr *guard_of[LANES], *a[LANES], *b[LANES]; /* by position within a unit */
    const Expr *exists[LANES];                         /* in the last unit of a sized axis */
    bool ending;
    LLVMValueRef acc[LANES], total;
    uint32_t n_acc;
    bool unrolled;
    const Stmt *kept;                  /* the store of what is folded, or NULL */
    const Expr *const *kept_at[LANES]; /* by position within a unit */
} Fold;

/* ---- arithmetic ----------------------------------------------------------------------------------------------------------- */

static uint64_t identity_bits(FoldKind kind, DType t)
{
    bool sign = dtype_kind(t) == DK_SINT;
    uint64_t ones = dtype_bits(t) == 64 ? UINT64_MAX : (UINT64_C(1) << dtype_bits(t)) - 1;
    uint64_t lowest = sign ? UINT64_C(1) << (dtype_bits(t) - 1) : 0, bits = 0;
    if (t == DT_BOOL)
        return kind == FOLD_PROD || kind == FOLD_MIN || kind == FOLD_AND;
    if (dtype_is_float(t)) {
        double value = kind == FOLD_MAX ? -__builtin_inf() : kind == FOLD_MIN ? __builtin_inf() : kind == FOLD_PROD ? 1 : -0.0;
        elem_set_f64(t, &bits, 0, value);
        return bits;
    }
    switch (kind) {
    case FOLD_PROD: return 1;
    case FOLD_MAX: return lowest;
    case FOLD_MIN: return sign ? ones >> 1 : ones;
    case FOLD_AND: return ones;
    default: return 0;
    }
}

static LLVMValueRef combine(Cg *cg, FoldKind kind, DType t, LLVMValueRef x, LLVMValueRef y)
{
    static const Op op[] = {[FOLD_SUM] = OP_add, [FOLD_PROD] = OP_mul, [FOLD_MAX] = OP_max, [FOLD_MIN] = OP_min,
                            [FOLD_AND] = OP_and, [FOLD_OR] = OP_or,    [FOLD_DOT] = OP_add};
    LLVMValueRef args[] = {x, y};
    DType dtypes[] = {t, t};
    return cg_map(cg, op[kind], t, dtypes, args, 2);
}

/* Lane j with j + 8, then + 4, + 2, + 1. */
static LLVMValueRef combine_lanes(Cg *cg, const Fold *f, LLVMValueRef v)
{
    for (int distance = LANES / 2; distance >= 1; distance /= 2) {
        int64_t lane[LANES];
        for (int i = 0; i < LANES; i++)
            lane[i] = i < distance ? i + distance : -1;
        v = combine(cg, f->kind, f->dtype, v, cg_shuffle(cg, v, NULL, lane, LANES));
    }
    return LLVMBuildExtractElement(cg->b, v, LLVMConstInt(cg->i32, 0, false), "");
}

/* ---- one position, or 16 of them across lanes ------------------------------------------------------------------------------ */

static LLVMValueRef update(Cg *cg, const Fold *f, int64_t u, LLVMValueRef acc)
{
    bool vec = cg_is_vec(acc);
    LLVMValueRef args[3], a = vec ? cg_lanes(cg, f->a[u]) : cg_scalar(cg, f->a[u]);
    LLVMValueRef b = f->b[u] ? vec ? cg_lanes(cg, f->b[u]) : cg_scalar(cg, f->b[u]) : NULL;
    cg_place(cg, cg->top);
    if (f->kept)
        cg_store(cg, f->kept->u.store.buf, f->kept_at[u], (CgVal){.v = a, .vec = vec, .depth = cg->top}, NULL);
    cg_place(cg, cg->top);
    a = cg_cast(cg, f->dtype, f->a[u]->dtype, a);
    if (!b)
        return combine(cg, f->kind, f->dtype, acc, a);
    args[0] = a;
    args[1] = cg_cast(cg, f->dtype, f->b[u]->dtype, b);
    args[2] = acc;
    DType dtypes[] = {f->dtype, f->dtype, f->dtype};
    return cg_map(cg, OP_fma, f->dtype, dtypes, args, 3);
}

/* Lanes where `mask` fails keep acc; nothing is read there. */
static LLVMValueRef update_masked(Cg *cg, const Fold *f, int64_t u, LLVMValueRef acc, LLVMValueRef mask)
{
    LLVMValueRef outer = cg->mask;
    int outer_depth = cg->mask_depth;
    cg_scope_push(cg, NULL, false);
    cg_place(cg, cg->top);
    cg->mask = outer ? LLVMBuildAnd(cg->b, outer, mask, "") : mask;
    cg->mask_depth = cg->top;
    LLVMValueRef next = update(cg, f, u, acc);
    next = LLVMBuildSelect(cg->b, cg->mask, next, acc, "");
    cg_scope_pop(cg);
    cg->mask = outer;
    cg->mask_depth = outer_depth;
    return next;
}

static void fold_position(Cg *cg, Fold *f, int64_t u, LLVMValueRef *acc, LLVMValueRef tail)
{
    const Expr *e = f->ending ? lx_and(cg->k, f->guard_of[u], f->exists[u]) : f->guard_of[u];
    CgVal guard = e ? cg_value(cg, e) : (CgVal){0};
    if (guard.v && LLVMIsAConstantInt(guard.v)) {
        if (!LLVMConstIntGetZExtValue(guard.v))
            return;
        guard.v = NULL;
    }
    if (guard.v && !guard.vec) {
        Branch branch;
        cg_if_begin(cg, &branch, guard.v, false, acc, 1);
        *acc = tail ? update_masked(cg, f, u, *acc, tail) : update(cg, f, u, *acc);
        cg_if_end(cg, &branch, acc);
        return;
    }
    cg_place(cg, cg->top);
    LLVMValueRef mask = !guard.v ? tail : tail ? LLVMBuildAnd(cg->b, guard.v, tail, "") : guard.v;
    *acc = mask ? update_masked(cg, f, u, *acc, mask) : update(cg, f, u, *acc);
}

static LLVMValueRef first_lanes(const Cg *cg, int64_t count)
{
    LLVMValueRef lanes[LANES];
    for (int64_t i = 0; i < LANES; i++)
        lanes[i] = LLVMConstInt(cg->i1, i < count, false);
    return LLVMConstVector(lanes, LANES);
}

static void fold_body(Cg *cg, Nest *nest, int64_t count)
{
    Fold *f = nest->user;
    f->ending = nest->ending;
    if (f->across) {
        /* the last axis of an exact fold may end within a register; that of LANES16 only at the very end */
        for (int64_t u = 0; u * LANES < count; u++)
            fold_position(cg, f, u, &f->acc[u], count - u * LANES < LANES ? first_lanes(cg, count - u * LANES) : NULL);
        return;
    }
    if (f->unrolled) {
        int64_t position = 0;
        for (uint32_t i = 0; i < nest->n_axes; i++)
            position = position * nest->axis[i].extent + nest->value[i];
        fold_position(cg, f, 0, &f->acc[position % f->n_acc], NULL);
        return;
    }
    for (int64_t u = 0; u < count; u++)
        fold_position(cg, f, u, &f->acc[f->n_acc == 1 ? 0 : u], NULL);
}

/* ---- blocks ----------------------------------------------------------------------------------------------------------------- */

static void fold_before(Cg *cg, Nest *nest)
{
    Fold *f = nest->user;
    bool chain = f->s->u.fold.form == FORM_CHAIN || f->kind == FOLD_DOT;
    LLVMValueRef zero = cg_const_bits(cg, f->dtype, chain ? 0 : identity_bits(f->kind, f->dtype));
    for (uint32_t i = 0; i < f->n_acc; i++)
        f->acc[i] = cg->lane ? cg_splat_const(zero) : zero;
}

static void fold_after(Cg *cg, Nest *nest, bool only)
{
    Fold *f = nest->user;
    cg_place(cg, cg->top);
    LLVMValueRef v = f->acc[0];
    for (uint32_t i = 1; f->across && i < f->n_acc; i++)
        v = combine(cg, f->kind, f->dtype, v, f->acc[i]);
    if (f->across)
        v = combine_lanes(cg, f, v);
    if (f->n_acc == LANES) {
        LLVMValueRef lane[LANES];
        for (int i = 0; i < LANES; i++)
            lane[i] = f->acc[i];
        for (int distance = LANES / 2; distance >= 1; distance /= 2)
            for (int i = 0; i < distance; i++)
                lane[i] = combine(cg, f->kind, f->dtype, lane[i], lane[i + distance]);
        v = lane[0];
    }
    f->total = only ? v : combine(cg, f->kind, f->dtype, f->total, v);
}

/* ---- planning --------------------------------------------------------------------------------------------------------------- */

static const Expr *const *kept_index(Cg *cg, const Stmt *store, const Iter *iter, const Expr *at)
{
    const Expr **index = ARENA_ARRAY(cg->arena, const Expr *, store->u.store.n_index + 1);
    for (uint32_t i = 0; i < store->u.store.n_index; i++)
        index[i] = lx_replace_iter(cg->k, store->u.store.index[i], iter, at);
    return index;
}

/* Expressions of each position within a unit: the last axis' iterator becomes unit*step + u (+ lane). Guards that outer axes
 * decide stay with the nest, the others go to the positions. */
static void spread(Cg *cg, Fold *f, Nest *nest, const Expr *const *exprs)
{
    const NestAxis *last = &nest->axis[nest->n_axes - 1];
    int64_t trips = last->extent / nest->unit;
    uint32_t kept = 0;
    const Expr *own = NULL;
    cg_nest_split_guard(cg, nest, exprs[2]);
    for (uint32_t i = 0; i < nest->n_guards; i++) {
        if (nest->guard_level[i] >= (int)nest->n_axes - 1) {
            own = lx_and(cg->k, own, nest->guard[i]);
            continue;
        }
        nest->guard[kept] = nest->guard[i];
        nest->guard_level[kept++] = nest->guard_level[i];
    }
    nest->n_guards = kept;
    if (f->across)
        cg->lane = kernel_iter(cg->k, "lane", 0, LANES - 1);
    nest->step = kernel_iter(cg->k, last->iter->name, 0, last->extent % nest->unit ? trips : trips - 1);
    const Expr *base = lx_mul(cg->k, lx_iter(cg->k, nest->step), nest->unit);
    for (int64_t u = 0; u < (f->across ? nest->unit / LANES : nest->unit); u++) {
        const Expr *at = lx_add(cg->k, base, lx_int(cg->k, f->across ? u * LANES : u));
        at = f->across ? lx_add(cg->k, at, lx_iter(cg->k, cg->lane)) : at;
        f->a[u] = lx_replace_iter(cg->k, exprs[0], last->iter, at);
        f->b[u] = lx_replace_iter(cg->k, exprs[1], last->iter, at);
        f->guard_of[u] = lx_replace_iter(cg->k, own, last->iter, at);
        f->kept_at[u] = f->kept ? kept_index(cg, f->kept, last->iter, at) : NULL;
        f->exists[u] = last->size ? lx_lt(cg->k, at, last->size) : NULL;
        if (f->guard_of[u] && lx_is_true(f->guard_of[u]))
            f->guard_of[u] = NULL;
    }
}

static void plan_fold(Cg *cg, Fold *f, Nest *nest, NestBlocks *blocks, const Expr **exprs)
{
    const Stmt *s = f->s;
    int64_t n = cg_nest_positions(nest, 0), block = INT64_MAX;
    bool lanes16 = s->u.fold.form == FORM_LANES16;
    if (lanes16)
        block = REDUCTION_BLOCK;
    else if (s->u.fold.form == FORM_CHAIN)
        block = s->u.fold.kb;
    f->n_acc = 1;
    nest->unit = 1;
    f->across = !cg->lane && s->u.fold.form != FORM_CHAIN && f->kind != FOLD_DOT;
    if (lanes16 && !f->across)
        f->n_acc = LANES;
    bool sized = nest->axis[0].size != NULL;
    if (!sized && !f->across && n <= (lanes16 ? UNROLL_LANES16 : UNROLL_POSITIONS) && n <= block) {
        f->unrolled = true;
        for (uint32_t i = 0; i < nest->n_axes; i++)
            nest->axis[i].unroll = true;
    } else if (f->across || lanes16) {
        nest->unit = LANES;
        if (!lanes16 && nest->axis[nest->n_axes - 1].extent >= 2 * EXACT_REGISTERS * LANES) {
            f->n_acc = EXACT_REGISTERS; /* any order is right: four chains hide the latency */
            nest->unit *= EXACT_REGISTERS;
        }
        if (lanes16 && nest->n_axes > 1 && nest->axis[nest->n_axes - 1].extent % LANES)
            cg_nest_flatten(cg, nest, exprs, 3);
    }
    if (!cg_nest_can_split(nest, block))
        cg_nest_flatten(cg, nest, exprs, 3);
    blocks->block = block;
}

static CgVal fold_value(Cg *cg, Fold *f)
{
    const Stmt *s = f->s;
    FoldAxis axis[LOOP_MAX_FOLD_ITERS];
    uint32_t n = s->u.fold.n_axes;
    bool empty = false;
    for (uint32_t i = 0; i < n; i++) {
        axis[i] = s->u.fold.axis[i];
        empty |= axis[i].extent == 0;
    }
    bool plain_zero = f->kind == FOLD_SUM || f->kind == FOLD_DOT;
    if (empty || (s->u.fold.guard && lx_is_false(s->u.fold.guard) && s->u.fold.form == FORM_CHAIN))
        return (CgVal){.v = cg_const_bits(cg, f->dtype, plain_zero ? 0 : identity_bits(f->kind, f->dtype))};
    const Expr *exprs[] = {f->kept ? f->kept->u.store.value : s->u.fold.a, s->u.fold.b, s->u.fold.guard};
    if (n == 0) {
        axis[0] = (FoldAxis){kernel_iter(cg->k, "once", 0, 0), 1, NULL};
        n = 1;
    }
    n = cg_merge_axes(cg, axis, n, exprs, 3);
    Nest nest = {.n_axes = n, .body = fold_body, .user = f, .stores = f->kept != NULL};
    for (uint32_t i = 0; i < n; i++)
        nest.axis[i] = (NestAxis){.iter = axis[i].iter, .extent = axis[i].extent, .size = axis[i].size};
    const Expr *size = nest.axis[0].size;
    NestBlocks blocks = {.before = fold_before, .after = fold_after, .total = &f->total, .n_total = 1};
    const Iter *outer_lane = cg->lane;
    plan_fold(cg, f, &nest, &blocks, exprs);
    spread(cg, f, &nest, exprs);
    nest.acc = f->acc;
    nest.n_acc = f->n_acc;
    FoldKind start = f->kind == FOLD_DOT ? FOLD_SUM : f->kind;
    LLVMValueRef identity = cg_const_bits(cg, f->dtype, identity_bits(start, f->dtype));
    f->total = outer_lane ? cg_splat_const(identity) : identity;
    cg_nest_run(cg, &nest, &blocks);
    cg->lane = outer_lane;
    if (plain_zero && dtype_is_float(f->dtype) && size && size->lo < 1) { /* no position: +0 */
        LLVMValueRef zero = cg_const_bits(cg, f->dtype, 0), count = cg_scalar(cg, size);
        cg_place(cg, cg->top);
        LLVMValueRef none = LLVMBuildICmp(cg->b, LLVMIntEQ, count, cg_int(cg, 0), "");
        f->total = LLVMBuildSelect(cg->b, none, outer_lane ? cg_splat_const(zero) : zero, f->total, "");
    }
    return (CgVal){.v = f->total, .vec = outer_lane != NULL, .depth = cg->top};
}

static void fold_stmt(Cg *cg, const Stmt *s, const Stmt *kept)
{
    Fold *f = ARENA_NEW(cg->arena, Fold);
    f->s = s;
    f->kept = kept;
    f->dtype = s->u.fold.var->dtype;
    f->kind = s->u.fold.kind;
    CgVal val = fold_value(cg, f);
    cg_place(cg, cg->top);
    if (dtype_is_float(f->dtype) && (f->kind == FOLD_MAX || f->kind == FOLD_MIN)) {
        /* a zero result is +0: -0 + 0 = +0, all else stays */
        LLVMValueRef zero = cg_const_bits(cg, f->dtype, 0);
        val.v = combine(cg, FOLD_SUM, f->dtype, val.v, val.vec ? cg_splat_const(zero) : zero);
    }
    val.depth = cg->top;
    cg_bind_var(cg, s->u.fold.var, val, NULL);
}

void cg_fold(Cg *cg, const Stmt *s) { fold_stmt(cg, s, NULL); }

/* The store of the loop, at the positions of the fold that reads its elements one after the other; NULL: it is no such loop. */
static Stmt *store_to_keep(Cg *cg, const Stmt *loop, const Stmt *fold)
{
    const Stmt *store = loop->u.loop.body;
    if (cg->lane || !fold || fold->kind != LS_FOLD || fold->u.fold.form == FORM_CHAIN || fold->u.fold.kind == FOLD_DOT ||
        fold->u.fold.guard || fold->u.fold.n_axes != 1 || loop->u.loop.step != 1 || !store || store->next || store->kind != LS_STORE ||
        store->u.store.mask)
        return NULL;
    const FoldAxis *axis = &fold->u.fold.axis[0];
    const Expr *end = axis->size ? axis->size : lx_int(cg->k, axis->extent), *a = fold->u.fold.a;
    int64_t lo;
    if (!lx_is_int(loop->u.loop.lo, &lo) || lo != 0 || loop->u.loop.hi != end || a->kind != LX_LOAD || a->u.buf != store->u.store.buf ||
        a->n_args != a->u.buf->rank)
        return NULL;
    Stmt *kept = ls_replace_iter(cg->k, store, loop->u.loop.iter, lx_iter(cg->k, axis->iter));
    for (uint32_t i = 0; i < a->n_args; i++)
        if (kept->u.store.index[i] != a->arg[i])
            return NULL;
    return kept;
}

bool cg_fold_of_loop(Cg *cg, const Stmt *loop, const Stmt *fold)
{
    const Stmt *kept = store_to_keep(cg, loop, fold);
    if (kept)
        fold_stmt(cg, fold, kept);
    return kept != NULL;
}
