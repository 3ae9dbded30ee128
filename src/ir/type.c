/* SPDX-License-Identifier: Apache-2.0
 *
 * Types, hash-consed by content, and the tables that a Context keeps for this layer.
 */
#include "ir/ir_int.h"

#include <string.h>

IrCtx *ir_ctx(Context *ctx)
{
    void **slot = ctx_ir_slot(ctx);
    if (!*slot) {
        Arena *arena = ctx_arena(ctx);
        IrCtx *ir = ARENA_NEW(arena, IrCtx);
        *ir = (IrCtx){.arena = arena,
                      .atoms = intern_create(arena),
                      .products = intern_create(arena),
                      .terms = intern_create(arena),
                      .dims = intern_create(arena),
                      .keys = intern_create(arena),
                      .types = map_create(arena),
                      .attrs = map_create(arena)};
        *slot = ir;
    }
    return *slot;
}

typedef struct TypeKey {
    uint64_t kind, dtype, rank;
    const void *part[IR_MAX_RANK]; /* dims, or the element type */
} TypeKey;

static const Type *intern_type(Context *ctx, const TypeKey *key)
{
    IrCtx *ir = ir_ctx(ctx);
    void **slot = map_slot(ir->types, KEY(intern_bytes(ir->keys, key, sizeof *key)));
    if (*slot)
        return *slot;
    Type *type = ARENA_NEW(ir->arena, Type);
    type->kind = (TypeKind)key->kind;
    if (type->kind == TY_TENSOR) {
        const Dim **dims = ARENA_ARRAY(ir->arena, const Dim *, key->rank);
        for (uint32_t i = 0; i < key->rank; i++)
            dims[i] = key->part[i];
        type->dtype = (DType)key->dtype;
        type->rank = (uint32_t)key->rank;
        type->dim = dims;
    } else {
        type->elem = key->part[0];
    }
    return *slot = type;
}

const Type *type_tensor(Context *ctx, DType dtype, uint32_t rank, const Dim *const *dims)
{
    if (rank > IR_MAX_RANK || dtype == DT_NONE || dtype >= DT_COUNT)
        return NULL;
    TypeKey key = {.kind = TY_TENSOR, .dtype = dtype, .rank = rank};
    for (uint32_t i = 0; i < rank; i++) {
        int64_t lo, hi;
        dim_range(dims[i], &lo, &hi);
        if (!dim_is_valid(dims[i]) || hi < 0)
            return NULL;
        key.part[i] = dims[i];
    }
    return intern_type(ctx, &key);
}

const Type *type_tensor_s64(Context *ctx, DType dtype, uint32_t rank, const int64_t *dims)
{
    const Dim *list[IR_MAX_RANK];
    for (uint32_t i = 0; i < rank && i < IR_MAX_RANK; i++)
        list[i] = dim_const(ctx, dims[i]);
    return type_tensor(ctx, dtype, rank, list);
}

const Type *type_seq(Context *ctx, const Type *elem)
{
    return intern_type(ctx, &(TypeKey){.kind = TY_SEQ, .part = {elem}});
}

const Type *type_opt(Context *ctx, const Type *elem)
{
    return intern_type(ctx, &(TypeKey){.kind = TY_OPT, .part = {elem}});
}

const Type *type_with_dtype(Context *ctx, const Type *type, DType dtype)
{
    IG_CHECK(ctx, type->kind == TY_TENSOR);
    return type_tensor(ctx, dtype, type->rank, type->dim);
}

const Type *type_bind(Context *ctx, const Type *type, const Dim *(*bind)(void *user, const Sym *sym), void *user)
{
    if (type->kind != TY_TENSOR) {
        const Type *elem = type_bind(ctx, type->elem, bind, user);
        return !elem ? NULL : type->kind == TY_SEQ ? type_seq(ctx, elem) : type_opt(ctx, elem);
    }
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        dims[i] = dim_bind(ctx, type->dim[i], bind, user);
    return type_tensor(ctx, type->dtype, type->rank, dims);
}

bool type_is_static(const Type *type)
{
    if (type->kind != TY_TENSOR)
        return false;
    for (uint32_t i = 0; i < type->rank; i++)
        if (!dim_is_const(type->dim[i], NULL))
            return false;
    return true;
}

int64_t type_dim(const Type *type, uint32_t axis)
{
    int64_t value = -1;
    if (axis < type->rank)
        dim_is_const(type->dim[axis], &value);
    return value;
}

int64_t type_bound(const Type *type, uint32_t axis)
{
    int64_t lo, hi = -1;
    if (axis < type->rank)
        dim_range(type->dim[axis], &lo, &hi);
    return hi;
}

bool type_count_bound(const Type *type, uint64_t *elements)
{
    const uint64_t limit = UINT64_C(1) << 62;
    uint64_t count = 1;
    bool fits = type->kind == TY_TENSOR;
    for (uint32_t i = 0; i < type->rank; i++) {
        uint64_t size = (uint64_t)type_bound(type, i);
        if (size == 0) { /* empty, however large the other axes are */
            *elements = 0;
            return true;
        }
        fits = fits && count <= limit / size;
        count = fits ? count * size : count;
    }
    *elements = count;
    return fits;
}

bool type_count(const Type *type, uint64_t *elements) { return type_is_static(type) && type_count_bound(type, elements); }

bool type_bytes(const Type *type, uint64_t *bytes)
{
    uint64_t count;
    return type_count(type, &count) && dtype_bytes(type->dtype, count, bytes);
}

static uint64_t hash_text(uint64_t h, const char *text) { return hash_bytes(text, strlen(text), h); }

typedef struct SymHash {
    uint64_t h;
} SymHash;

static void hash_sym(void *user, const Sym *sym)
{
    SymHash *state = user;
    state->h = hash_text(state->h, sym->name);
}

uint64_t type_hash(const Type *type)
{
    if (type->kind != TY_TENSOR)
        return hash_mix(type_hash(type->elem), type->kind);
    uint64_t h = hash_mix(hash_text(type->rank, dtype_name(type->dtype)), TY_TENSOR);
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t size;
        SymHash symbols = {h};
        if (dim_is_const(type->dim[i], &size))
            h = hash_mix(h, (uint64_t)size);
        else
            dim_each_sym(type->dim[i], hash_sym, &symbols);
        h = hash_mix(h, symbols.h);
    }
    return h;
}

void type_print(Text *text, const Type *type)
{
    if (type->kind != TY_TENSOR) {
        text_add(text, type->kind == TY_SEQ ? "seq<" : "opt<");
        type_print(text, type->elem);
        text_add(text, ">");
        return;
    }
    text_addf(text, "%s[", dtype_name(type->dtype));
    for (uint32_t i = 0; i < type->rank; i++) {
        if (i)
            text_add(text, ",");
        dim_print(text, type->dim[i]);
    }
    text_add(text, "]");
}
