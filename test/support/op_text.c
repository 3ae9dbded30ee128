/* SPDX-License-Identifier: Apache-2.0 */
#include "support/op_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

OpText op_text_begin(void)
{
    Context *ctx = ctx_create(NULL);
    return (OpText){ctx, module_create(ctx), arena_create(ctx)};
}

static const Dim *dim_of(OpText *f, const char *text)
{
    char *end;
    long long number = strtoll(text, &end, 10);
    if (!*end)
        return dim_const(f->ctx, number);
    const char *star = strchr(text, '*');
    Sym *sym = module_sym(f->module, str_intern(f->ctx, star ? star + 1 : text), 1, 4096);
    sym->unbacked = sym->name[0] == 'u';
    return star ? dim_mul(f->ctx, dim_sym(f->ctx, sym), dim_const(f->ctx, number)) : dim_sym(f->ctx, sym);
}

uint32_t op_text_split(OpText *f, const char *text, char separator, char **parts)
{
    uint32_t n = 0;
    for (char *at = arena_printf(f->arena, "%s", text); at && *at;) {
        parts[n++] = at;
        at = strchr(at, separator);
        if (at)
            *at++ = 0;
    }
    return n;
}

static const Type *type_of(OpText *f, const char *text)
{
    char *parts[16], *open;
    const Dim *dims[16];
    if (!strcmp(text, "-"))
        return NULL;
    char *copy = arena_printf(f->arena, "%s", text);
    open = strchr(copy, '[');
    *open++ = 0;
    *strchr(open, ']') = 0;
    uint32_t rank = op_text_split(f, open, ',', parts);
    for (uint32_t a = 0; a < rank; a++)
        dims[a] = dim_of(f, parts[a]);
    const Type *type = type_tensor(f->ctx, dtype_from_name(copy), rank, dims);
    assert_non_null(type);
    return type;
}

static AttrVal attr_of(OpText *f, AttrKind kind, const char *text)
{
    char *parts[16];
    uint32_t n = op_text_split(f, text, ',', parts);
    int64_t *ints = ARENA_ARRAY(f->arena, int64_t, 16);
    const Dim **dims = ARENA_ARRAY(f->arena, const Dim *, 16);
    static const float data[2] = {1, 2};
    for (uint32_t i = 0; i < n && (kind == AK_INTS || kind == AK_DIMS); i++) {
        if (kind == AK_INTS)
            ints[i] = strtoll(parts[i], NULL, 10);
        else
            dims[i] = dim_of(f, parts[i]);
    }
    switch (kind) {
    case AK_INT: return attr_int(strtoll(text, NULL, 10));
    case AK_BOOL: return attr_bool(text[0] == '1');
    case AK_FLOAT: return attr_float(strtod(text, NULL));
    case AK_STR: return attr_str(f->ctx, text);
    case AK_DTYPE: return attr_dtype(dtype_from_name(text));
    case AK_INTS: return attr_ints(ints, n);
    case AK_DIM: return attr_dim(dim_of(f, text));
    case AK_DIMS: return attr_dims(dims, n);
    default: return attr_weight(module_weight(f->module, str_intern(f->ctx, text), type_of(f, "f32[2]"), data, true));
    }
}

const Attrs *op_text_attrs(OpText *f, Op op, const char *text)
{
    char *parts[16];
    AttrVal vals[IR_MAX_ATTRS];
    uint32_t n = op_text_split(f, text, ' ', parts);
    for (uint32_t i = 0; i < n; i++) {
        char *value = strchr(parts[i], '=');
        *value++ = 0;
        assert_string_equal(parts[i], attr_name(op_info[op].attr[i].name));
        vals[i] = attr_of(f, op_info[op].attr[i].kind, value);
    }
    return attrs_make(f->ctx, vals, n);
}

Func *op_text_func(OpText *f, const char *types, Val **in, uint32_t *n_in)
{
    char *parts[16];
    Func *func = module_func(f->module, str_format(f->ctx, "f%u", f->module->funcs.len), true);
    *n_in = op_text_split(f, types, ' ', parts);
    for (uint32_t i = 0; i < *n_in; i++) {
        const Type *type = type_of(f, parts[i]);
        in[i] = type ? func_param(func, str_format(f->ctx, "x%u", i), type) : NULL;
    }
    return func;
}
