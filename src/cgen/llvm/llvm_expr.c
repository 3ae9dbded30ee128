/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions: index arithmetic, predicates, addresses, loads, stores, elementwise ops.
 *
 * An address is the buffer's base plus the terms of its offset, added scope by scope from the outside in, so that every
 * loop adds only what changes in it; the constant comes last and becomes a displacement. In a loop whose step is the only
 * change the pointer is carried instead (a cursor), for which one register is enough.
 */
#include "cgen/llvm/llvm_int.h"

enum { KEY_VALUE, KEY_SPLAT, KEY_ADDRESS, KEY_BLOCK };
static uint64_t key_of(const Expr *e, int kind) { return (uint64_t)e->id << 2 | (uint64_t)kind; }
static int max_int(int a, int b) { return a > b ? a : b; }

bool cg_has_lanes(Cg *cg, const Expr *e)
{
    if (!cg->lane)
        return false;
    for (uint32_t i = 0; i < e->n_uses; i++) {
        uint32_t id = e->uses[i] & ~(uint32_t)EXPR_USES_VAR;
        if (e->uses[i] & EXPR_USES_VAR ? cg_var(cg, cg->k->vars.data[id])->val.vec : id == cg->lane->id)
            return true;
    }
    return false;
}

CgVal cg_splat(Cg *cg, CgVal val, uint64_t key)
{
    if (val.vec)
        return val;
    CgVal *known = key ? cg_find(cg, key) : NULL;
    if (known)
        return *known;
    val.vec = true;
    if (LLVMIsConstant(val.v)) {
        val.v = cg_splat_const(val.v);
        return val;
    }
    val.depth = max_int(val.depth, cg->floor);
    cg_place(cg, val.depth);
    LLVMTypeRef type = cg_vec_type(LLVMTypeOf(val.v));
    LLVMValueRef one = LLVMBuildInsertElement(cg->b, LLVMGetPoison(type), val.v, LLVMConstInt(cg->i32, 0, false), "");
    val.v = LLVMBuildShuffleVector(cg->b, one, LLVMGetPoison(type), LLVMConstNull(cg_vec_type(cg->i32)), "");
    if (key)
        cg_remember(cg, key, val);
    return val;
}

LLVMValueRef cg_scalar(Cg *cg, const Expr *e)
{
    CgVal val = cg_value(cg, e);
    if (val.vec)
        ig_bug(cg->ctx, "kernel %s: a value that must be one scalar depends on the vectorised iterator", cg->k->name);
    return val.v;
}

static CgVal value_lanes(Cg *cg, const Expr *e) { return cg_splat(cg, cg_value(cg, e), key_of(e, KEY_SPLAT)); }
LLVMValueRef cg_lanes(Cg *cg, const Expr *e) { return value_lanes(cg, e).v; }

void cg_preset(Cg *cg, const Expr *e, CgVal val) { cg_remember(cg, key_of(e, KEY_VALUE), val); }

/* ---- index arithmetic ------------------------------------------------------------------------------------------------ */

static bool fits32(const Expr *e)
{
    if (e->lo < INT32_MIN || e->hi > INT32_MAX || e->kind == LX_INDEX)
        return false;
    for (uint32_t i = 0; i < e->n_args; i++)
        if (!fits32(e->arg[i]))
            return false;
    return true;
}

/* To lanes of 32 or 64 bits. */
static LLVMValueRef index_resize(Cg *cg, LLVMValueRef v, bool narrow)
{
    LLVMTypeRef want = narrow ? cg->i32 : cg->i64, have = LLVMTypeOf(v);
    if (cg_is_vec(v)) {
        have = LLVMGetElementType(have);
        want = have == want ? want : cg_vec_type(want);
        if (LLVMGetTypeKind(want) != LLVMVectorTypeKind)
            return v;
        return narrow ? LLVMBuildTrunc(cg->b, v, want, "") : LLVMBuildSExt(cg->b, v, want, "");
    }
    return have == want ? v : narrow ? LLVMBuildTrunc(cg->b, v, want, "") : LLVMBuildSExt(cg->b, v, want, "");
}

/* floor(a/d) or a - d*floor(a/d), d > 0; a scalar or lanes. */
static LLVMValueRef divide_floor(Cg *cg, LLVMValueRef a, int64_t divisor, bool never_negative, bool rest)
{
    LLVMValueRef d = cg_same(a, LLVMConstInt(cg_is_vec(a) ? LLVMGetElementType(LLVMTypeOf(a)) : LLVMTypeOf(a),
                                             (uint64_t)divisor, true));
    if (never_negative)
        return rest ? LLVMBuildURem(cg->b, a, d, "") : LLVMBuildUDiv(cg->b, a, d, "");
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a));
    LLVMValueRef r = LLVMBuildSRem(cg->b, a, d, "");
    LLVMValueRef below = LLVMBuildICmp(cg->b, LLVMIntSLT, r, zero, "");
    if (rest)
        return LLVMBuildAdd(cg->b, r, LLVMBuildSelect(cg->b, below, d, zero, ""), "");
    LLVMValueRef quotient = LLVMBuildSDiv(cg->b, a, d, "");
    return LLVMBuildAdd(cg->b, quotient, LLVMBuildSExt(cg->b, below, LLVMTypeOf(a), ""), "");
}

static LLVMValueRef index_op(Cg *cg, const Expr *e, LLVMValueRef a, LLVMValueRef b, LLVMTypeRef elem)
{
    switch (e->kind) {
    case LX_IADD: return LLVMBuildAdd(cg->b, a, b, "");
    case LX_IMUL: return LLVMBuildMul(cg->b, a, cg_same(a, LLVMConstInt(elem, (uint64_t)e->u.i, true)), "");
    case LX_IDIV: return divide_floor(cg, a, e->u.i, e->arg[0]->lo >= 0, false);
    case LX_IMOD: return divide_floor(cg, a, e->u.i, e->arg[0]->lo >= 0, true);
    default: {
        LLVMValueRef less = LLVMBuildICmp(cg->b, LLVMIntSLT, a, b, "");
        return e->kind == LX_IMIN ? LLVMBuildSelect(cg->b, less, a, b, "") : LLVMBuildSelect(cg->b, less, b, a, "");
    }
    }
}

static CgVal lane_numbers(const Cg *cg, LLVMTypeRef elem)
{
    LLVMValueRef all[LANES];
    for (int i = 0; i < LANES; i++)
        all[i] = LLVMConstInt(elem, (uint64_t)i, false);
    (void)cg;
    return (CgVal){.v = LLVMConstVector(all, LANES), .vec = true};
}

/* A value computed from indices and sizes alone: it moves out of loops like index arithmetic. */
static bool is_arithmetic(const Expr *e)
{
    if (lx_is_index(e))
        return e->kind != LX_INDEX || is_arithmetic(e->arg[0]);
    if (e->kind == LX_LOAD)
        return e->u.buf->space == BUF_SIZES;
    bool all = e->kind == LX_MAP || e->kind == LX_CAST || e->kind == LX_CONST;
    for (uint32_t i = 0; i < e->n_args && all; i++)
        all = is_arithmetic(e->arg[i]);
    return all;
}

static CgVal emit_index(Cg *cg, const Expr *e)
{
    if (e->kind == LX_ITER) {
        if (e->u.iter == cg->lane)
            return lane_numbers(cg, cg->i32);
        CgVal *bound = map_get(cg->iters, KEY(e->u.iter));
        if (!bound)
            ig_bug(cg->ctx, "kernel %s: iterator %s has no value here", cg->k->name, e->u.iter->name);
        return *bound;
    }
    if (e->kind == LX_INDEX) {
        int outer_floor = cg->floor;
        cg->floor = is_arithmetic(e->arg[0]) ? 0 : outer_floor;
        CgVal val = cg_value(cg, e->arg[0]);
        cg->floor = outer_floor;
        cg_place(cg, val.depth);
        val.v = cg_cast(cg, DT_S64, e->arg[0]->dtype, val.v);
        return val;
    }
    CgVal a = cg_value(cg, e->arg[0]), b = e->n_args > 1 ? cg_value(cg, e->arg[1]) : (CgVal){0};
    bool vec = a.vec || b.vec, narrow = vec && fits32(e);
    LLVMTypeRef elem = narrow ? cg->i32 : cg->i64;
    CgVal out = {.depth = max_int(a.depth, b.depth), .vec = vec, .mem = a.mem || b.mem};
    cg_place(cg, out.depth);
    a.v = index_resize(cg, a.v, narrow);
    if (b.v)
        b.v = index_resize(cg, b.v, narrow);
    a.depth = b.depth = out.depth; /* where they were resized */
    if (vec) {
        int floor = cg->floor;
        cg->floor = 0;
        a = cg_splat(cg, a, 0);
        b = b.v ? cg_splat(cg, b, 0) : b;
        cg->floor = floor;
        cg_place(cg, out.depth);
    }
    out.v = index_op(cg, e, a.v, b.v, elem);
    return out;
}

/* ---- predicates -------------------------------------------------------------------------------------------------------- */

static CgVal emit_predicate(Cg *cg, const Expr *e)
{
    CgVal a = cg_value(cg, e->arg[0]), b = e->n_args > 1 ? cg_value(cg, e->arg[1]) : a;
    CgVal out = {.depth = max_int(a.depth, b.depth), .vec = a.vec || b.vec, .mem = a.mem || b.mem};
    bool indices = e->kind == LX_ILT || e->kind == LX_IEQ;
    cg_place(cg, out.depth);
    if (indices && out.vec) {
        bool narrow = fits32(e->arg[0]) && fits32(e->arg[1]);
        a.v = index_resize(cg, a.v, narrow);
        b.v = index_resize(cg, b.v, narrow);
    }
    a.depth = b.depth = out.depth; /* where they were resized */
    if (out.vec) {
        int floor = cg->floor;
        cg->floor = 0;
        a = cg_splat(cg, a, 0);
        b = cg_splat(cg, b, 0);
        cg->floor = floor;
        cg_place(cg, out.depth);
    }
    switch (e->kind) {
    case LX_ILT: out.v = LLVMBuildICmp(cg->b, LLVMIntSLT, a.v, b.v, ""); break;
    case LX_IEQ: out.v = LLVMBuildICmp(cg->b, LLVMIntEQ, a.v, b.v, ""); break;
    case LX_AND: out.v = LLVMBuildAnd(cg->b, a.v, b.v, ""); break;
    case LX_OR: out.v = LLVMBuildOr(cg->b, a.v, b.v, ""); break;
    default: out.v = LLVMBuildNot(cg->b, a.v, ""); break;
    }
    return out;
}

/* ---- addresses ----------------------------------------------------------------------------------------------------------- */

enum { MAX_TERMS = 64 };
typedef struct Terms {
    uint32_t n;
    int64_t constant;
    int depth; /* of iterators that are constants in this repetition of an unrolled body */
    struct {
        const Expr *atom;
        int64_t coef;
        CgVal val;
    } term[MAX_TERMS];
} Terms;

static void collect_terms(Cg *cg, Terms *terms, const Expr *e, int64_t factor)
{
    if (e->kind == LX_IADD) {
        collect_terms(cg, terms, e->arg[0], factor);
        collect_terms(cg, terms, e->arg[1], factor);
        return;
    }
    if (e->kind == LX_IMUL) {
        collect_terms(cg, terms, e->arg[0], factor * e->u.i);
        return;
    }
    if (e->kind == LX_INT) {
        terms->constant += factor * e->u.i;
        return;
    }
    CgVal val = cg_value(cg, e);
    if (LLVMIsAConstantInt(val.v)) {
        terms->constant += factor * LLVMConstIntGetSExtValue(val.v);
        terms->depth = max_int(terms->depth, val.depth);
        return;
    }
    if (terms->n == MAX_TERMS)
        ig_bug(cg->ctx, "kernel %s: an index has more than %d terms", cg->k->name, MAX_TERMS);
    /* sorted by scope, outermost first, in the order of the expression within a scope */
    uint32_t i = terms->n++;
    for (; i > 0 && terms->term[i - 1].val.depth > val.depth; i--)
        terms->term[i] = terms->term[i - 1];
    terms->term[i].atom = e;
    terms->term[i].coef = factor;
    terms->term[i].val = val;
}

/* The pointer that the loop of scope `depth` carries from `base` in steps of coef elements an iteration. */
static LLVMValueRef make_cursor(Cg *cg, int depth, LLVMValueRef base, int64_t coef_bytes)
{
    Scope *s = &cg->scope[depth];
    LLVMValueRef start = base, iv_start = LLVMGetIncomingValue(s->iv, 0);
    cg_place(cg, depth - 1);
    if (!LLVMIsNull(iv_start)) {
        LLVMValueRef bytes = LLVMBuildMul(cg->b, iv_start, cg_int(cg, coef_bytes), "");
        start = LLVMBuildGEP2(cg->b, cg->i8, base, &bytes, 1, "");
    }
    LLVMPositionBuilderBefore(cg->b, LLVMGetFirstInstruction(s->body));
    LLVMValueRef phi = LLVMBuildPhi(cg->b, cg->ptr, "");
    LLVMAddIncoming(phi, &start, &s->before, 1);
    vec_push(cg->arena, &s->cursors, ((CgCursor){phi, coef_bytes * s->step}));
    return phi;
}

static CgVal buffer_base(Cg *cg, const Buf *buf)
{
    uint64_t key = (uint64_t)(buf->id + 1) << 34 | UINT64_C(1) << 63 | KEY_ADDRESS;
    CgVal *known = cg_find(cg, key);
    if (known)
        return *known;
    LLVMPositionBuilderBefore(cg->b, cg->entry_end);
    LLVMValueRef index = cg_int(cg, buf->id);
    LLVMValueRef slot = LLVMBuildGEP2(cg->b, cg->ptr, LLVMGetParam(cg->fn, 0), &index, 1, "");
    CgVal base = {.v = LLVMBuildLoad2(cg->b, cg->ptr, slot, buf->name)};
    cg_remember(cg, key, base);
    return base;
}

/* Address of an element less a displacement in bytes, which is added next to each use so that it folds into the access;
 * the offset has no lanes. */
static CgVal emit_address(Cg *cg, const Buf *buf, const Expr *offset, int64_t *displacement)
{
    Terms terms = {0};
    collect_terms(cg, &terms, offset, 1);
    CgVal p = buffer_base(cg, buf);
    const Expr *partial = lx_int(cg->k, 0);
    int64_t bytes = cg_bytes(buf->dtype);
    for (uint32_t i = 0, j; i < terms.n; i = j) {
        int depth = terms.term[i].val.depth;
        for (j = i; j < terms.n && terms.term[j].val.depth == depth; j++) {
            partial = lx_add(cg->k, partial, lx_mul(cg->k, terms.term[j].atom, terms.term[j].coef));
            p.mem |= terms.term[j].val.mem;
        }
        p.depth = depth;
        uint64_t key = (uint64_t)(buf->id + 1) << 34 | key_of(partial, KEY_ADDRESS);
        CgVal *known = cg_find(cg, key);
        if (known) {
            p = *known;
            continue;
        }
        const Expr *atom = terms.term[i].atom;
        if (j == i + 1 && atom->kind == LX_ITER && depth > 0 && atom->u.iter == cg->scope[depth].iter) {
            p.v = make_cursor(cg, depth, p.v, terms.term[i].coef * bytes);
        } else {
            cg_place(cg, depth);
            LLVMValueRef sum = NULL;
            for (uint32_t t = i; t < j; t++) {
                LLVMValueRef x = LLVMBuildMul(cg->b, terms.term[t].val.v, cg_int(cg, terms.term[t].coef * bytes), "");
                sum = sum ? LLVMBuildAdd(cg->b, sum, x, "") : x;
            }
            p.v = LLVMBuildGEP2(cg->b, cg->i8, p.v, &sum, 1, "");
        }
        cg_remember(cg, key, p);
    }
    *displacement = terms.constant * bytes;
    p.depth = max_int(p.depth, terms.depth);
    return p;
}

static LLVMValueRef displace(Cg *cg, LLVMValueRef p, int64_t displacement)
{
    LLVMValueRef bytes = cg_int(cg, displacement);
    return displacement ? LLVMBuildGEP2(cg->b, cg->i8, p, &bytes, 1, "") : p;
}

void cg_prefetch(Cg *cg, const Buf *buf, const Expr *offset)
{
    enum { L2 = 2 };
    int64_t displacement;
    CgVal p = emit_address(cg, buf, offset, &displacement);
    cg_place(cg, cg->top);
    p.v = displace(cg, p.v, displacement);
    LLVMValueRef args[] = {p.v, LLVMConstInt(cg->i32, 0, false), LLVMConstInt(cg->i32, L2, false), LLVMConstInt(cg->i32, 1, false)};
    cg_intrinsic(cg, "llvm.prefetch", &cg->ptr, 1, args, 4);
}

/* ---- loads --------------------------------------------------------------------------------------------------------------- */

static LLVMValueRef safe_memory(Cg *cg)
{
    if (!cg->safe)
        cg->safe = cg_alloca(cg, cg->i64, LANES, 64);
    return cg->safe;
}

static LLVMValueRef any_lane(Cg *cg, LLVMValueRef mask)
{
    return LLVMBuildICmp(cg->b, LLVMIntNE, LLVMBuildBitCast(cg->b, mask, cg->i16, ""), LLVMConstNull(cg->i16), "");
}

static LLVMValueRef from_memory(Cg *cg, DType dtype, LLVMValueRef v)
{
    return dtype == DT_BOOL ? LLVMBuildICmp(cg->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "") : v;
}

static LLVMValueRef to_memory(Cg *cg, DType dtype, LLVMValueRef v)
{
    return dtype == DT_BOOL ? LLVMBuildZExt(cg->b, v, cg_is_vec(v) ? cg_vec_type(cg->i8) : cg->i8, "") : v;
}

static LLVMValueRef and_mask(Cg *cg, LLVMValueRef a, LLVMValueRef b)
{
    return !a ? b : !b ? a : LLVMBuildAnd(cg->b, a, b, "");
}

static LLVMValueRef load_plain(Cg *cg, LLVMTypeRef type, LLVMValueRef p, DType dtype)
{
    LLVMValueRef v = LLVMBuildLoad2(cg->b, type, p, "");
    LLVMSetAlignment(v, cg_bytes(dtype));
    return v;
}

/* Marks argument `index` (0-based) of a masked memory intrinsic with the element's alignment. */
static void set_align(Cg *cg, LLVMValueRef call, unsigned index, DType dtype)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddCallSiteAttribute(call, index + 1, LLVMCreateEnumAttribute(cg->lc, kind, cg_bytes(dtype)));
}

static LLVMValueRef lane_index(const Cg *cg, int lane) { return LLVMConstInt(cg->i32, (uint64_t)lane, false); }

/* 16 elements at p + coef*lane (elements), or at p + offsets[lane] when offsets is given. */
static LLVMValueRef load_apart(Cg *cg, DType dtype, LLVMValueRef p, int64_t coef, LLVMValueRef offsets, LLVMValueRef mask)
{
    LLVMTypeRef elem = cg_memory_type(cg, dtype), type = cg_vec_type(elem);
    if (mask) {
        if (!offsets)
            offsets = LLVMBuildMul(cg->b, lane_numbers(cg, cg->i64).v, cg_splat_const(cg_int(cg, coef)), "");
        LLVMValueRef args[] = {LLVMBuildGEP2(cg->b, elem, p, &offsets, 1, ""), mask, LLVMConstNull(type)};
        LLVMTypeRef types[] = {type, cg_vec_type(cg->ptr)};
        LLVMValueRef call = cg_intrinsic(cg, "llvm.masked.gather", types, 2, args, 3);
        set_align(cg, call, 0, dtype);
        return call;
    }
    LLVMValueRef all = LLVMGetPoison(type);
    for (int i = 0; i < LANES; i++) {
        LLVMValueRef at = offsets ? LLVMBuildExtractElement(cg->b, offsets, lane_index(cg, i), "") : cg_int(cg, coef * i);
        LLVMValueRef one = load_plain(cg, elem, LLVMBuildGEP2(cg->b, elem, p, &at, 1, ""), dtype);
        all = LLVMBuildInsertElement(cg->b, all, one, lane_index(cg, i), "");
    }
    return all;
}

/* How far out a load may go: not over a store, and not out of its guards unless its address is valid anyway. */
static int load_depth(const Cg *cg, int natural, bool mem, bool anywhere)
{
    int least = max_int(natural, cg->floor), d = cg->top;
    if (!anywhere)
        return d;
    while (d > least && (!mem || cg->scope[d - 1].epoch == cg->epoch))
        d--;
    return d;
}

typedef struct LoadParts {
    const Buf *buf;
    const Expr *offset;
    CgVal p, pred, other;
    int64_t displacement;
    bool masked, in_range, mem;
} LoadParts;

static LLVMValueRef load_uniform(Cg *cg, const LoadParts *l, int depth)
{
    bool guarded = (l->masked && !l->pred.vec) || (!l->in_range && (cg->mask || l->masked));
    LLVMValueRef safe = guarded ? safe_memory(cg) : NULL;
    cg_place(cg, depth);
    LLVMValueRef p = displace(cg, l->p.v, l->displacement);
    if (l->masked && !l->pred.vec) {
        p = LLVMBuildSelect(cg->b, l->pred.v, p, safe, "");
    } else if (guarded) {
        LLVMValueRef m = and_mask(cg, cg->mask, l->masked ? l->pred.v : NULL);
        p = LLVMBuildSelect(cg->b, any_lane(cg, m), p, safe, "");
    }
    return load_plain(cg, cg_memory_type(cg, l->buf->dtype), p, l->buf->dtype);
}

static LLVMValueRef load_contiguous(Cg *cg, const LoadParts *l, int depth)
{
    DType dtype = l->buf->dtype;
    LLVMTypeRef type = cg_vec_type(cg_memory_type(cg, dtype));
    LLVMValueRef safe = l->masked && !l->pred.vec && !cg->mask ? safe_memory(cg) : NULL;
    cg_place(cg, depth);
    LLVMValueRef mask = cg->mask, p = displace(cg, l->p.v, l->displacement);
    if (safe) {
        p = LLVMBuildSelect(cg->b, l->pred.v, p, safe, "");
    } else if (l->masked) {
        CgVal pred = cg_splat(cg, l->pred, 0);
        cg_place(cg, depth);
        mask = and_mask(cg, mask, pred.v);
    }
    if (!mask)
        return load_plain(cg, type, p, dtype);
    LLVMTypeRef types[] = {type, cg->ptr};
    LLVMValueRef args[] = {p, mask, LLVMConstNull(type)};
    LLVMValueRef call = cg_intrinsic(cg, "llvm.masked.load", types, 2, args, 3);
    set_align(cg, call, 0, dtype);
    return call;
}

/* Lanes from a block of memory (the channels of several groups, say): a load that others share, and a shuffle. l->p: the block. */
static LLVMValueRef load_block(Cg *cg, const LoadParts *l, const LaneBlock *block, CgVal out)
{
    uint64_t key = (uint64_t)(l->buf->id + 1) << 34 | key_of(block->base, KEY_BLOCK);
    LLVMTypeRef type = LLVMVectorType(cg_memory_type(cg, l->buf->dtype), (unsigned)block->width);
    CgVal *known = cg_find(cg, key), whole = out;
    if (known && LLVMTypeOf(known->v) == type) {
        whole = *known;
    } else {
        cg_place(cg, out.depth);
        whole.v = load_plain(cg, type, displace(cg, l->p.v, l->displacement), l->buf->dtype);
        cg_remember(cg, key, whole);
    }
    cg_place(cg, out.depth);
    return cg_shuffle(cg, whole.v, NULL, block->at, LANES);
}

static CgVal emit_load(Cg *cg, const Expr *e)
{
    LoadParts l = {.buf = e->u.buf, .offset = lx_offset(cg->k, e->u.buf, e->arg), .masked = e->n_args > e->u.buf->rank};
    l.in_range = !l.buf->size && l.offset->lo >= 0 && l.offset->hi < l.buf->elements;
    l.mem = l.buf->space != BUF_WEIGHT && l.buf->space != BUF_SIZES;
    bool lanes = cg->lane && cg_has_lanes(cg, l.offset), linear = false, in_block = false;
    LaneBlock block;
    int64_t coef = 0;
    const Expr *rest = l.offset;
    CgVal offsets = {0};
    if (lanes) {
        linear = lx_linear(cg->k, l.offset, cg->lane, &coef, &rest) && !cg_has_lanes(cg, rest);
        in_block = !linear && !l.masked && l.in_range && !cg->mask && lx_lane_block(cg->k, l.buf, l.offset, cg->lane, &block) &&
                   !cg_has_lanes(cg, block.base); /* a position that each lane loaded, say */
        if (in_block) {
            rest = block.base;
        } else if (!linear) {
            offsets = cg_value(cg, l.offset);
            rest = lx_int(cg->k, 0);
        }
    }
    if (l.masked) {
        l.pred = cg_value(cg, e->arg[l.buf->rank]);
        l.other = cg_value(cg, e->arg[l.buf->rank + 1]);
    }
    l.p = emit_address(cg, l.buf, rest, &l.displacement);
    int natural = max_int(max_int(l.p.depth, offsets.depth), max_int(l.pred.depth, l.other.depth));
    if (cg->mask)
        natural = max_int(natural, cg->mask_depth);
    bool mem = l.mem || l.p.mem || offsets.mem || l.pred.mem || l.other.mem;
    CgVal out = {.vec = lanes, .mem = mem};
    out.depth = load_depth(cg, natural, mem, l.in_range || (l.masked && !cg->mask && !l.pred.vec));
    if (!lanes) {
        out.v = load_uniform(cg, &l, out.depth);
    } else if (linear && coef == 1) {
        out.v = load_contiguous(cg, &l, out.depth);
    } else if (in_block) {
        out.v = load_block(cg, &l, &block, out);
    } else {
        CgVal pred = l.masked ? cg_splat(cg, l.pred, 0) : l.pred;
        cg_place(cg, out.depth);
        LLVMValueRef mask = and_mask(cg, cg->mask, l.masked ? pred.v : NULL);
        LLVMValueRef p = displace(cg, l.p.v, l.displacement);
        out.v = load_apart(cg, l.buf->dtype, p, coef, linear ? NULL : offsets.v, mask);
    }
    out.v = from_memory(cg, l.buf->dtype, out.v);
    if (l.masked) {
        bool vec = out.vec || l.pred.vec || l.other.vec;
        if (vec) {
            out = cg_splat(cg, out, 0);
            l.other = cg_splat(cg, l.other, 0);
            if (l.pred.vec || LLVMIsConstant(l.pred.v))
                l.pred = cg_splat(cg, l.pred, 0);
        }
        cg_place(cg, out.depth);
        out.v = LLVMBuildSelect(cg->b, l.pred.v, out.v, l.other.v, "");
        out.vec = vec;
    }
    return out;
}

/* ---- stores -------------------------------------------------------------------------------------------------------------- */

static void store_apart(Cg *cg, DType dtype, LLVMValueRef v, LLVMValueRef p, int64_t coef, LLVMValueRef offsets,
                        LLVMValueRef mask)
{
    LLVMTypeRef elem = cg_memory_type(cg, dtype), type = cg_vec_type(elem);
    if (mask) {
        if (!offsets)
            offsets = LLVMBuildMul(cg->b, lane_numbers(cg, cg->i64).v, cg_splat_const(cg_int(cg, coef)), "");
        LLVMValueRef args[] = {v, LLVMBuildGEP2(cg->b, elem, p, &offsets, 1, ""), mask};
        LLVMTypeRef types[] = {type, cg_vec_type(cg->ptr)};
        set_align(cg, cg_intrinsic(cg, "llvm.masked.scatter", types, 2, args, 3), 1, dtype);
        return;
    }
    for (int i = 0; i < LANES; i++) {
        LLVMValueRef at = offsets ? LLVMBuildExtractElement(cg->b, offsets, lane_index(cg, i), "") : cg_int(cg, coef * i);
        LLVMValueRef one = LLVMBuildExtractElement(cg->b, v, lane_index(cg, i), "");
        LLVMSetAlignment(LLVMBuildStore(cg->b, one, LLVMBuildGEP2(cg->b, elem, p, &at, 1, "")), cg_bytes(dtype));
    }
}

/* Of each aligned pair of lanes whose constant mask has one live lane, stores that lane by itself and takes it out of the mask.
 * LLVM 22 makes one store of a constant mask's only live lane, and where the vector was truncated (to bf16, say) that store is
 * as wide as the lane was before, over its neighbours. The halves that it splits masks into then have no such lane either. */
static LLVMValueRef store_lone_lanes(Cg *cg, DType dtype, LLVMValueRef v, LLVMValueRef p, LLVMValueRef mask)
{
    LLVMValueRef live[LANES];
    if (!LLVMIsConstant(mask) || LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMVectorTypeKind ||
        LLVMGetTypeKind(cg_memory_type(cg, dtype)) != LLVMIntegerTypeKind)
        return mask;
    for (uint32_t i = 0; i < LANES; i++) {
        live[i] = LLVMGetAggregateElement(mask, i);
        if (!live[i] || !LLVMIsAConstantInt(live[i]))
            return mask;
    }
    for (int i = 0; i < LANES; i++) {
        if (LLVMConstIntGetZExtValue(live[i]) == 0 || LLVMConstIntGetZExtValue(live[i ^ 1]) != 0)
            continue;
        LLVMValueRef at = cg_int(cg, i), one = LLVMBuildExtractElement(cg->b, v, lane_index(cg, i), "");
        LLVMValueRef to = LLVMBuildGEP2(cg->b, cg_memory_type(cg, dtype), p, &at, 1, "");
        LLVMSetAlignment(LLVMBuildStore(cg->b, one, to), cg_bytes(dtype));
        live[i] = live[i ^ 1];
    }
    return LLVMConstVector(live, LANES);
}

void cg_store(Cg *cg, Buf *buf, const Expr *const *index, CgVal value, LLVMValueRef extra_mask)
{
    const Expr *offset = lx_offset(cg->k, buf, index), *rest = offset;
    DType dtype = buf->dtype;
    bool lanes = cg->lane && cg_has_lanes(cg, offset), linear = false;
    int64_t coef = 0;
    CgVal offsets = {0};
    if (lanes) {
        linear = lx_linear(cg->k, offset, cg->lane, &coef, &rest) && !cg_has_lanes(cg, rest);
        if (!linear) {
            offsets = cg_value(cg, offset);
            rest = lx_int(cg->k, 0);
        }
        value = cg_splat(cg, value, 0);
    } else if (value.vec) {
        ig_bug(cg->ctx, "kernel %s: lanes of a vector loop store to one element of %s", cg->k->name, buf->name);
    }
    int64_t displacement;
    CgVal p = emit_address(cg, buf, rest, &displacement);
    cg_place(cg, cg->top);
    p.v = displace(cg, p.v, displacement);
    LLVMValueRef v = to_memory(cg, dtype, value.v), mask = and_mask(cg, cg->mask, extra_mask);
    if (!lanes) {
        LLVMSetAlignment(LLVMBuildStore(cg->b, v, p.v), cg_bytes(dtype));
    } else if (!linear || coef != 1) {
        store_apart(cg, dtype, v, p.v, coef, linear ? NULL : offsets.v, mask);
    } else if (mask) {
        LLVMTypeRef types[] = {LLVMTypeOf(v), cg->ptr};
        LLVMValueRef args[] = {v, p.v, store_lone_lanes(cg, dtype, v, p.v, mask)};
        if (!LLVMIsNull(args[2]))
            set_align(cg, cg_intrinsic(cg, "llvm.masked.store", types, 2, args, 3), 1, dtype);
    } else {
        LLVMSetAlignment(LLVMBuildStore(cg->b, v, p.v), cg_bytes(dtype));
    }
    cg_memory_changed(cg);
}

LLVMValueRef cg_column_mask(Cg *cg, const Expr *limit, int64_t first, bool *none)
{
    *none = limit && limit->hi <= first;
    if (!limit || limit->lo >= first + LANES || *none)
        return NULL;
    const Expr *left = lx_sub(cg->k, limit, lx_int(cg->k, first));
    LLVMValueRef n = cg_scalar(cg, left);
    cg_place(cg, cg->top);
    LLVMValueRef all = cg_splat(cg, (CgVal){.v = LLVMBuildTrunc(cg->b, n, cg->i32, ""), .depth = cg->top}, 0).v;
    cg_place(cg, cg->top);
    return LLVMBuildICmp(cg->b, LLVMIntSLT, lane_numbers(cg, cg->i32).v, all, "");
}

/* ---- values --------------------------------------------------------------------------------------------------------------- */

static CgVal emit_map(Cg *cg, const Expr *e)
{
    enum { MAX_ARGS = 4 };
    CgVal arg[MAX_ARGS];
    LLVMValueRef v[MAX_ARGS];
    DType dtype[MAX_ARGS];
    CgVal out = {.depth = cg->floor};
    IG_CHECK(cg->ctx, e->n_args <= MAX_ARGS);
    for (uint32_t i = 0; i < e->n_args; i++) {
        arg[i] = cg_value(cg, e->arg[i]);
        dtype[i] = e->arg[i]->dtype;
        out.depth = max_int(out.depth, arg[i].depth);
        out.vec |= arg[i].vec;
        out.mem |= arg[i].mem;
    }
    for (uint32_t i = 0; i < e->n_args; i++)
        v[i] = (out.vec ? cg_splat(cg, arg[i], key_of(e->arg[i], KEY_SPLAT)) : arg[i]).v;
    cg_place(cg, out.depth);
    if (e->kind == LX_CAST)
        out.v = lx_is_index(e->arg[0]) ? index_resize(cg, v[0], e->dtype == DT_S32) : cg_cast(cg, e->dtype, dtype[0], v[0]);
    else
        out.v = cg_map(cg, e->op, e->dtype, dtype, v, e->n_args);
    return out;
}

CgVal cg_value(Cg *cg, const Expr *e)
{
    switch (e->kind) {
    case LX_INT: return (CgVal){.v = cg_int(cg, e->u.i)};
    case LX_CONST: return (CgVal){.v = cg_const_bits(cg, e->dtype, e->u.bits)};
    case LX_ITER: return emit_index(cg, e);
    case LX_VAR: {
        VarBinding *binding = cg_var(cg, e->u.var);
        if (!binding->val.v)
            ig_bug(cg->ctx, "kernel %s: tile %s used outside put", cg->k->name, e->u.var->name);
        return binding->val;
    }
    default: break;
    }
    CgVal *known = cg_find(cg, key_of(e, KEY_VALUE)), val;
    if (known)
        return *known;
    switch (e->kind) {
    case LX_LOAD: val = emit_load(cg, e); break;
    case LX_MAP:
    case LX_CAST: val = emit_map(cg, e); break;
    case LX_ILT:
    case LX_IEQ:
    case LX_AND:
    case LX_OR:
    case LX_NOT: val = emit_predicate(cg, e); break;
    default: val = emit_index(cg, e); break;
    }
    cg_remember(cg, key_of(e, KEY_VALUE), val);
    return val;
}
