/* SPDX-License-Identifier: Apache-2.0
 *
 * Types, constants, scopes, loops and branches of the code under construction (llvm_int.h says what scopes are for).
 */
#include "cgen/llvm/llvm_int.h"

#include <stdio.h>
#include <string.h>

/* ---- types and constants ------------------------------------------------------------------------------------------- */

LLVMTypeRef cg_vec_type(LLVMTypeRef elem) { return LLVMVectorType(elem, LANES); }

LLVMTypeRef cg_memory_type(const Cg *cg, DType dtype)
{
    if (dtype == DT_F32)
        return cg->f32;
    if (dtype == DT_F64)
        return cg->f64;
    switch (dtype_bits(dtype)) {
    case 8: return cg->i8;
    case 16: return cg->i16;
    case 32: return cg->i32;
    case 64: return cg->i64;
    default: ig_bug(cg->ctx, "no machine type for %s", dtype_name(dtype));
    }
}

LLVMTypeRef cg_type(const Cg *cg, DType dtype, bool vec)
{
    LLVMTypeRef type = dtype == DT_BOOL ? cg->i1 : cg_memory_type(cg, dtype);
    return vec ? cg_vec_type(type) : type;
}

bool cg_is_vec(LLVMValueRef v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind; }
unsigned cg_bytes(DType dtype) { return (unsigned)dtype_bits(dtype) / 8; }
LLVMValueRef cg_int(const Cg *cg, int64_t value) { return LLVMConstInt(cg->i64, (uint64_t)value, true); }

LLVMValueRef cg_splat_const(LLVMValueRef scalar)
{
    LLVMValueRef all[LANES];
    for (int i = 0; i < LANES; i++)
        all[i] = scalar;
    return LLVMConstVector(all, LANES);
}

LLVMValueRef cg_shuffle(Cg *cg, LLVMValueRef a, LLVMValueRef b, const int64_t *lane, uint32_t n)
{
    LLVMValueRef mask[LANES];
    for (uint32_t i = 0; i < n; i++)
        mask[i] = lane[i] < 0 ? LLVMGetPoison(cg->i32) : LLVMConstInt(cg->i32, (uint64_t)lane[i], false);
    return LLVMBuildShuffleVector(cg->b, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)), LLVMConstVector(mask, n), "");
}

LLVMValueRef cg_same(LLVMValueRef like, LLVMValueRef scalar_const)
{
    return cg_is_vec(like) ? cg_splat_const(scalar_const) : scalar_const;
}

LLVMValueRef cg_const_bits(const Cg *cg, DType dtype, uint64_t bits)
{
    if (dtype == DT_BOOL)
        return LLVMConstInt(cg->i1, bits != 0, false);
    if (dtype == DT_F32)
        return LLVMConstBitCast(LLVMConstInt(cg->i32, bits, false), cg->f32);
    if (dtype == DT_F64)
        return LLVMConstBitCast(LLVMConstInt(cg->i64, bits, false), cg->f64);
    return LLVMConstInt(cg_memory_type(cg, dtype), bits, false);
}

LLVMValueRef cg_intrinsic(Cg *cg, const char *name, LLVMTypeRef *types, unsigned n_types, LLVMValueRef *args, unsigned n)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (!id)
        ig_bug(cg->ctx, "LLVM has no intrinsic %s", name);
    LLVMValueRef fn = LLVMGetIntrinsicDeclaration(cg->mod, id, types, n_types);
    return LLVMBuildCall2(cg->b, LLVMIntrinsicGetType(cg->lc, id, types, n_types), fn, args, n, "");
}

LLVMValueRef cg_unary_intrinsic(Cg *cg, const char *name, LLVMValueRef x)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    return cg_intrinsic(cg, name, &type, 1, &x, 1);
}

LLVMValueRef cg_alloca(Cg *cg, LLVMTypeRef type, int64_t count, unsigned align)
{
    LLVMPositionBuilderBefore(cg->b, cg->entry_end);
    LLVMValueRef p = LLVMBuildAlloca(cg->b, LLVMArrayType2(type, (uint64_t)count), "");
    LLVMSetAlignment(p, align);
    return p;
}

void cg_unsupported(Cg *cg, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char text[256];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!cg->unsupported)
        diag_report(cg->ctx, cg->k->loc, DIAG_cgen_unsupported, cg->k->name, text);
    cg->unsupported = true;
}

/* ---- scopes ----------------------------------------------------------------------------------------------------------- */

typedef struct Cached {
    CgVal val;
    uint64_t epoch;
} Cached;

LLVMBasicBlockRef cg_block(Cg *cg, const char *name) { return LLVMAppendBasicBlockInContext(cg->lc, cg->fn, name); }

void cg_use_block(Cg *cg, LLVMBasicBlockRef bb)
{
    cg->bb = bb;
    LLVMPositionBuilderAtEnd(cg->b, bb);
}

void cg_place(Cg *cg, int depth)
{
    if (depth < cg->top && cg->scope[depth].hoist)
        LLVMPositionBuilderBefore(cg->b, cg->scope[depth].hoist);
    else
        LLVMPositionBuilderAtEnd(cg->b, cg->bb);
}

/* hoist: the instruction that leaves the scopes opened so far; NULL: the new scope continues the same straight line. */
void cg_scope_push(Cg *cg, LLVMValueRef hoist, bool stores)
{
    if (cg->top + 1 >= CG_MAX_DEPTH)
        ig_bug(cg->ctx, "kernel %s: more than %d nested scopes", cg->k->name, CG_MAX_DEPTH);
    cg->scope[cg->top].epoch = cg->epoch;
    if (hoist)
        for (int d = cg->top; d >= 0 && !cg->scope[d].hoist; d--)
            cg->scope[d].hoist = hoist;
    cg->scope[++cg->top] = (Scope){.cache = map_create(cg->arena)};
    if (stores)
        cg_memory_changed(cg);
}

void cg_scope_pop(Cg *cg)
{
    cg->top--;
    /* outer scopes that share the straight line continue at the current end again */
    LLVMValueRef hoist = cg->scope[cg->top].hoist;
    for (int d = cg->top; hoist && d >= 0 && cg->scope[d].hoist == hoist; d--)
        cg->scope[d].hoist = NULL;
}

void cg_memory_changed(Cg *cg) { cg->epoch = ++cg->last_epoch; }

CgVal *cg_find(Cg *cg, uint64_t key)
{
    for (int d = cg->top; d >= 0; d--) {
        Cached *c = map_get(cg->scope[d].cache, key);
        if (c && (!c->val.mem || c->epoch == cg->epoch))
            return &c->val;
    }
    return NULL;
}

void cg_remember(Cg *cg, uint64_t key, CgVal val)
{
    Cached *c = ARENA_NEW(cg->arena, Cached);
    *c = (Cached){val, cg->epoch};
    map_set(cg->scope[val.depth].cache, key, c);
}

void cg_bind_iter(Cg *cg, const Iter *iter, LLVMValueRef v, int depth)
{
    CgVal *val = ARENA_NEW(cg->arena, CgVal);
    *val = (CgVal){.v = v, .depth = depth};
    map_set(cg->iters, KEY(iter), val);
}

void cg_bind_var(Cg *cg, const Var *var, CgVal val, Tile *tile)
{
    VarBinding *binding = ARENA_NEW(cg->arena, VarBinding);
    *binding = (VarBinding){val, tile};
    map_set(cg->vars, KEY(var), binding);
}

VarBinding *cg_var(Cg *cg, const Var *var)
{
    VarBinding *binding = map_get(cg->vars, KEY(var));
    if (!binding)
        ig_bug(cg->ctx, "kernel %s: variable %s has no value here", cg->k->name, var->name);
    return binding;
}

/* ---- loops and branches -------------------------------------------------------------------------------------------------- */

static LLVMValueRef phi_at(Cg *cg, LLVMTypeRef type, LLVMValueRef value, LLVMBasicBlockRef from)
{
    LLVMValueRef phi = LLVMBuildPhi(cg->b, type, "");
    LLVMAddIncoming(phi, &value, &from, 1);
    return phi;
}

void cg_loop_begin(Cg *cg, Loop *loop, const Iter *iter, LLVMValueRef start, LLVMValueRef end, int64_t step, bool may_skip,
                   bool stores, LLVMValueRef *carried, uint32_t n)
{
    IG_CHECK(cg->ctx, n < IG_COUNT(loop->first));
    cg_place(cg, cg->top);
    LLVMBasicBlockRef before = cg->bb, body = cg_block(cg, iter ? iter->name : "loop");
    *loop = (Loop){.exit = cg_block(cg, "done"), .skip = may_skip ? before : NULL, .start = start, .end = end, .n = n};
    LLVMValueRef leave;
    if (may_skip)
        leave = LLVMBuildCondBr(cg->b, LLVMBuildICmp(cg->b, LLVMIntSLT, start, end, ""), body, loop->exit);
    else
        leave = LLVMBuildBr(cg->b, body);
    cg_scope_push(cg, leave, stores);
    cg_use_block(cg, body);
    loop->phi[0] = phi_at(cg, cg->i64, start, before);
    for (uint32_t i = 0; i < n; i++) {
        loop->first[i] = carried[i];
        loop->phi[i + 1] = carried[i] = phi_at(cg, LLVMTypeOf(carried[i]), carried[i], before);
    }
    Scope *s = &cg->scope[cg->top];
    s->before = before;
    s->body = body;
    s->step = step;
    s->iter = iter;
    s->iv = loop->phi[0];
    if (iter)
        cg_bind_iter(cg, iter, loop->phi[0], cg->top);
}

void cg_loop_end(Cg *cg, Loop *loop, LLVMValueRef *carried)
{
    Scope *s = &cg->scope[cg->top];
    cg_place(cg, cg->top);
    LLVMValueRef next = LLVMBuildAdd(cg->b, loop->phi[0], cg_int(cg, s->step), "");
    LLVMAddIncoming(loop->phi[0], &next, &cg->bb, 1);
    for (uint32_t i = 0; i < loop->n; i++)
        LLVMAddIncoming(loop->phi[i + 1], &carried[i], &cg->bb, 1);
    for (uint32_t i = 0; i < s->cursors.len; i++) {
        LLVMValueRef bytes = cg_int(cg, s->cursors.data[i].bytes), phi = s->cursors.data[i].phi;
        LLVMValueRef moved = LLVMBuildGEP2(cg->b, cg->i8, phi, &bytes, 1, "");
        LLVMAddIncoming(phi, &moved, &cg->bb, 1);
    }
    LLVMBuildCondBr(cg->b, LLVMBuildICmp(cg->b, LLVMIntSLT, next, loop->end, ""), s->body, loop->exit);
    LLVMBasicBlockRef last = cg->bb;
    cg_scope_pop(cg);
    cg_use_block(cg, loop->exit);
    if (!loop->skip)
        return;
    for (uint32_t i = 0; i < loop->n; i++) {
        LLVMValueRef phi = phi_at(cg, LLVMTypeOf(carried[i]), loop->first[i], loop->skip);
        LLVMAddIncoming(phi, &carried[i], &last, 1);
        carried[i] = phi;
    }
}

void cg_if_begin(Cg *cg, Branch *branch, LLVMValueRef cond, bool stores, const LLVMValueRef *carried, uint32_t n)
{
    IG_CHECK(cg->ctx, n <= IG_COUNT(branch->before));
    cg_place(cg, cg->top);
    LLVMBasicBlockRef then = cg_block(cg, "then");
    branch->join = cg_block(cg, "join");
    branch->from = cg->bb;
    branch->n = n;
    if (n)
        memcpy(branch->before, carried, n * sizeof *carried);
    cg_scope_push(cg, LLVMBuildCondBr(cg->b, cond, then, branch->join), stores);
    cg_use_block(cg, then);
}

void cg_if_end(Cg *cg, Branch *branch, LLVMValueRef *carried)
{
    cg_place(cg, cg->top);
    LLVMBuildBr(cg->b, branch->join);
    LLVMBasicBlockRef last = cg->bb;
    cg_scope_pop(cg);
    cg_use_block(cg, branch->join);
    for (uint32_t i = 0; i < branch->n; i++) {
        if (carried[i] == branch->before[i])
            continue;
        LLVMValueRef phi = phi_at(cg, LLVMTypeOf(carried[i]), branch->before[i], branch->from);
        LLVMAddIncoming(phi, &carried[i], &last, 1);
        carried[i] = phi;
    }
}
