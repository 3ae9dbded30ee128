/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes, hash-consed by content (floats by their bits), and the op table's columns of this layer.
 */
#include "ir/ir_int.h"

#include <string.h>

#define ATTRS(...)                                                                                                     \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define AT(kind, name)                                                                                                 \
    {                                                                                                                  \
        AN_##name, AK_##kind, NULL                                                                                     \
    }
#define AE(name, choices)                                                                                              \
    {                                                                                                                  \
        AN_##name, AK_STR, choices                                                                                     \
    }
#define A_END                                                                                                          \
    {                                                                                                                  \
        AN_NONE, AK_INT, NULL                                                                                          \
    }
#define OP(id, lo, hi, n_out, op_kind, trait, attrs, shape, eval, adjoint, lower, body)                                \
    [OP_##id] = {.name = #id,                                                                                          \
                 .in_min = (lo),                                                                                       \
                 .in_max = (hi),                                                                                       \
                 .outs = (n_out),                                                                                      \
                 .kind = OK_##op_kind,                                                                                 \
                 .traits = OT_##trait,                                                                                 \
                 .attr = attrs},
const OpInfo op_info[OP_COUNT] = {
#include "ir/ops.def"
};
#undef OP

static const char *const names[AN_COUNT] = {
    [AN_NONE] = "",
#define ATTRNAME(name) [AN_##name] = #name,
#include "ir/attrs.def"
#undef ATTRNAME
};

const char *attr_name(AttrName name) { return names[name < AN_COUNT ? name : AN_NONE]; }

Op op_from_name(const char *name)
{
    int op = 0;
    while (op < OP_COUNT && strcmp(op_info[op].name, name) != 0)
        op++;
    return (Op)op;
}

AttrVal attr_int(int64_t value) { return (AttrVal){.kind = AK_INT, .u.i = value}; }
AttrVal attr_bool(bool value) { return (AttrVal){.kind = AK_BOOL, .u.i = value}; }
AttrVal attr_float(double value) { return (AttrVal){.kind = AK_FLOAT, .u.f = value}; }
AttrVal attr_str(Context *ctx, const char *value) { return (AttrVal){.kind = AK_STR, .u.s = str_intern(ctx, value)}; }
AttrVal attr_dtype(DType dtype) { return (AttrVal){.kind = AK_DTYPE, .u.dtype = dtype}; }
AttrVal attr_ints(const int64_t *values, uint32_t n) { return (AttrVal){.kind = AK_INTS, .n = n, .u.ints = values}; }
AttrVal attr_dim(const Dim *dim) { return (AttrVal){.kind = AK_DIM, .u.dim = dim}; }
AttrVal attr_dims(const Dim *const *dims, uint32_t n) { return (AttrVal){.kind = AK_DIMS, .n = n, .u.dims = dims}; }
AttrVal attr_weight(Weight *weight) { return (AttrVal){.kind = AK_WEIGHT, .u.weight = weight}; }
AttrVal attr_func(Func *func) { return (AttrVal){.kind = AK_FUNC, .u.func = func}; }

/* The 64 bits that tell a scalar attribute from others of its kind. */
static uint64_t scalar_bits(const AttrVal *value)
{
    switch (value->kind) {
    case AK_INT:
    case AK_BOOL:
        return (uint64_t)value->u.i;
    case AK_FLOAT:
        return f64_bits(value->u.f);
    case AK_STR:
        return KEY(value->u.s);
    case AK_DTYPE:
        return value->u.dtype;
    case AK_DIM:
        return KEY(value->u.dim);
    case AK_WEIGHT:
        return KEY(value->u.weight);
    case AK_FUNC:
        return KEY(value->u.func);
    case AK_INTS:
    case AK_DIMS:
        break;
    }
    return 0;
}

const Attrs *attrs_make(Context *ctx, const AttrVal *values, uint32_t n)
{
    IrCtx *ir = ir_ctx(ctx);
    uint64_t small[64], *key = small;
    size_t size = 1, at = 0;
    for (uint32_t i = 0; i < n; i++)
        size += 2 + values[i].n;
    if (size > IG_COUNT(small))
        key = ARENA_ARRAY(ir->arena, uint64_t, size);
    key[at++] = UINT64_C(1) << 63 | n; /* unlike the first word of a type's key */
    for (uint32_t i = 0; i < n; i++) {
        const AttrVal *value = &values[i];
        bool list = value->kind == AK_INTS || value->kind == AK_DIMS;
        IG_CHECK(ctx, list || value->n == 0);
        key[at++] = (uint64_t)value->kind << 32 | value->n;
        key[at++] = scalar_bits(value);
        for (uint32_t k = 0; k < value->n; k++)
            key[at++] = value->kind == AK_INTS ? (uint64_t)value->u.ints[k] : KEY(value->u.dims[k]);
    }
    void **slot = map_slot(ir->attrs, KEY(intern_bytes(ir->keys, key, at * sizeof *key)));
    if (*slot)
        return *slot;
    Attrs *attrs = arena_alloc(ir->arena, sizeof *attrs + n * sizeof attrs->val[0]);
    attrs->n = n;
    for (uint32_t i = 0; i < n; i++) {
        attrs->val[i] = values[i];
        if (values[i].kind == AK_INTS)
            attrs->val[i].u.ints = arena_copy(ir->arena, values[i].u.ints, values[i].n * sizeof(int64_t));
        else if (values[i].kind == AK_DIMS)
            attrs->val[i].u.dims = arena_copy(ir->arena, values[i].u.dims, values[i].n * sizeof(const Dim *));
    }
    return *slot = attrs;
}

bool attrs_all_dims(const Attrs *attrs, bool (*test)(void *user, const Dim *dim), void *user)
{
    for (uint32_t i = 0; attrs && i < attrs->n; i++) {
        const AttrVal *val = &attrs->val[i];
        if (val->kind == AK_DIM && val->u.dim && !test(user, val->u.dim))
            return false;
        for (uint32_t d = 0; val->kind == AK_DIMS && d < val->n; d++)
            if (!test(user, val->u.dims[d]))
                return false;
    }
    return true;
}

const Attrs *attrs_bind(Context *ctx, Arena *tmp, const Attrs *attrs, const Dim *(*bind)(void *user, const Sym *sym), void *user)
{
    AttrVal *values = ARENA_ARRAY(tmp, AttrVal, attrs->n + 1);
    for (uint32_t i = 0; i < attrs->n; i++) {
        values[i] = attrs->val[i];
        if (values[i].kind == AK_DIM && values[i].u.dim)
            values[i].u.dim = dim_bind(ctx, values[i].u.dim, bind, user);
        if (values[i].kind != AK_DIMS)
            continue;
        const Dim **dims = ARENA_ARRAY(tmp, const Dim *, values[i].n + 1);
        for (uint32_t d = 0; d < values[i].n; d++)
            dims[d] = dim_bind(ctx, values[i].u.dims[d], bind, user);
        values[i].u.dims = dims;
    }
    return attrs_make(ctx, values, attrs->n);
}
