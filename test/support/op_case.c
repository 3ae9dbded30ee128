/* SPDX-License-Identifier: Apache-2.0 */
#include "support/op_case.h"

#include <stdlib.h>
#include <string.h>

void case_fail(Context *ctx, const char *what)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    if (diag_count(ctx))
        diag_print(ctx, &text, diag_get(ctx, diag_count(ctx) - 1));
    fail_msg("%s: %s", what, text.data);
}

static uint32_t split(Context *ctx, const char *text, char separator, char **parts)
{
    char *copy = arena_copy(ctx_arena(ctx), text, strlen(text) + 1);
    uint32_t n = 0;
    while (*copy) {
        parts[n++] = copy;
        char *end = strchr(copy, separator);
        if (!end)
            break;
        *end = 0;
        copy = end + 1;
    }
    return n;
}

const Type *case_type(Context *ctx, const char *text)
{
    char *parts[IR_MAX_RANK], name[16] = "", inner[128] = "";
    int64_t dims[IR_MAX_RANK];
    if (strcmp(text, "-") == 0)
        return NULL;
    const char *open = strchr(text, '[');
    memcpy(name, text, (size_t)(open - text));
    memcpy(inner, open + 1, strlen(open) - 2);
    uint32_t rank = split(ctx, inner, ',', parts);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = strtoll(parts[i], NULL, 10);
    return type_tensor_s64(ctx, dtype_from_name(name), rank, dims);
}

static AttrVal attr_of(Context *ctx, AttrKind kind, const char *text)
{
    char *parts[32];
    uint32_t n = split(ctx, text, ',', parts);
    int64_t *ints = ARENA_ARRAY(ctx_arena(ctx), int64_t, n + 1); /* lists are copied only when interned */
    const Dim **dims = ARENA_ARRAY(ctx_arena(ctx), const Dim *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        ints[i] = strtoll(parts[i], NULL, 10);
        dims[i] = dim_const(ctx, ints[i]);
    }
    switch (kind) {
    case AK_INT:
        return attr_int(ints[0]);
    case AK_BOOL:
        return attr_bool(ints[0] != 0);
    case AK_FLOAT:
        return attr_float(strtod(text, NULL));
    case AK_DTYPE:
        return attr_dtype(dtype_from_name(text));
    case AK_INTS:
        return attr_ints(ints, n);
    case AK_DIM:
        return attr_dim(dims[0]);
    case AK_DIMS:
        return attr_dims(dims, n);
    default:
        return attr_str(ctx, text);
    }
}

static const Attrs *attrs_of(Context *ctx, Op op, const char *text)
{
    char *parts[16];
    AttrVal vals[IR_MAX_ATTRS];
    uint32_t n = split(ctx, text, ' ', parts);
    for (uint32_t i = 0; i < n; i++) {
        char *value = strchr(parts[i], '=');
        *value++ = 0;
        assert_string_equal(parts[i], attr_name(op_info[op].attr[i].name));
        vals[i] = attr_of(ctx, op_info[op].attr[i].kind, value);
    }
    return attrs_make(ctx, vals, n);
}

static Func *build(Module *module, const char *name, Op op, const Type *const *types, uint32_t n, const char *attrs)
{
    Context *ctx = module->ctx;
    Val *in[16], *out[4];
    Str names[4];
    Func *func = module_func(module, str_intern(ctx, name), true);
    Builder b = ir_at_end(func->body, loc_text(ctx, str_intern(ctx, "case.ig"), 1, 1));
    uint32_t present = 0;
    for (uint32_t i = 0; i < n; i++)
        in[i] = types[i] ? func_param(func, str_format(ctx, "x%u", present++), types[i]) : NULL;
    Val *result = op_emit_interned(&b, op, in, n, attrs_of(ctx, op, attrs));
    if (!result)
        case_fail(ctx, op_info[op].name);
    uint32_t n_out = (uint32_t)op_info[op].outs;
    for (uint32_t i = 0; i < n_out; i++) {
        out[i] = n_out == 1 ? result : ir_out(result->def, i);
        names[i] = str_format(ctx, "y%u", i);
    }
    func_yield(func, b.loc, out, names, n_out);
    return func;
}

Func *case_func(Module *module, const char *name, Op op, const char *in, const char *attrs)
{
    char *parts[16];
    const Type *types[16];
    uint32_t n = split(module->ctx, in, ' ', parts);
    for (uint32_t i = 0; i < n; i++)
        types[i] = case_type(module->ctx, parts[i]);
    return build(module, name, op, types, n, attrs);
}

Tensor *case_tensor(Context *ctx, Arena *arena, const Type *type)
{
    EvalCtx ec = {.ctx = ctx, .arena = arena, .mode = EVAL_REF32};
    int64_t dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        dims[i] = type_dim(type, i);
    return tensor_new(&ec, type->dtype, type->rank, dims);
}

Tensor *case_values(Context *ctx, Arena *arena, const char *type, const char *values)
{
    char *parts[256];
    Tensor *t = case_tensor(ctx, arena, case_type(ctx, type));
    uint32_t n = split(ctx, values, ' ', parts);
    for (uint64_t i = 0; i < t->count && n; i++) {
        const char *text = parts[i % n];
        if (dtype_is_float(t->dtype))
            elem_set_f64(t->dtype, t->data, i, strtod(text, NULL));
        else if (dtype_kind(t->dtype) == DK_UINT)
            elem_set_s64(t->dtype, t->data, i, (int64_t)strtoull(text, NULL, 0));
        else
            elem_set_s64(t->dtype, t->data, i, strtoll(text, NULL, 0));
    }
    return t;
}

const char *case_text(Arena *arena, const Tensor *t)
{
    Text text;
    text_init(&text, arena);
    for (uint64_t i = 0; i < t->count; i++) {
        text_add(&text, i ? " " : "");
        if (!dtype_is_float(t->dtype)) {
            int64_t value = elem_get_s64(t->store, t->data, i);
            text_addf(&text, dtype_kind(t->dtype) == DK_UINT ? "%llu" : "%lld", (long long)value);
            continue;
        }
        double value = elem_get_f64(t->store, t->data, i);
        if (value != value)
            text_add(&text, "nan");
        else if (t->store == DT_F64)
            text_add_f64(&text, value);
        else
            text_add_f32(&text, (float)value);
    }
    return text.data;
}

Tensor *case_run(Context *ctx, Arena *arena, EvalMode mode, Op op, const char *attrs, Tensor *const *in, uint32_t n,
                 uint64_t *error)
{
    const Type *types[16];
    Tensor *params[16], *out[4];
    uint32_t present = 0;
    for (uint32_t i = 0; i < n; i++) {
        types[i] = in[i] ? type_tensor_s64(ctx, in[i]->dtype, in[i]->rank, in[i]->dim) : NULL;
        if (in[i])
            params[present++] = in[i];
    }
    Module *module = module_create(ctx);
    Func *func = build(module, "f", op, types, n, attrs);
    if (!eval_func(ctx, arena, mode, func, params, out, error))
        case_fail(ctx, op_info[op].name);
    module_destroy(module);
    return out[0];
}
