/* SPDX-License-Identifier: Apache-2.0
 *
 * What options say about a model's inputs by name: names are checked against what the model declares, values that
 * --input-value fixes are read by the declared type, and the values that an import turns out to need are found.
 */
#include "api/api_int.h"

#include <inttypes.h>
#include <string.h>

enum { SMALL = 64 }; /* elements of an input that may decide shapes */

/* ---- names that the model must have ------------------------------------------------------------------------------------ */

typedef struct Names {
    Context *ctx;
    VEC(Str) list;
} Names;

static bool has_name(const Names *names, Str name)
{
    for (uint32_t i = 0; i < names->list.len; i++)
        if (names->list.data[i] == name)
            return true;
    return false;
}

static void add_name(Names *names, Str name)
{
    if (*name && !has_name(names, name))
        vec_push(ctx_arena(names->ctx), &names->list, name);
}

static bool check_name(const Names *known, const char *option, const char *what, Str name)
{
    Text text;
    if (has_name(known, name))
        return true;
    text_init(&text, ctx_arena(known->ctx));
    for (uint32_t i = 0; i < known->list.len; i++)
        text_addf(&text, "%s '%s'", i ? "," : "", known->list.data[i]);
    return diag_report(known->ctx, 0, DIAG_api_name, option, what, name, known->list.len ? text.data : " none");
}

/* A bound may be of a size that only an import names: see api_set_bounds. */
static bool check_options(const igata_options *o, const Names *symbols, const Names *inputs)
{
    bool ok = true;
    for (uint32_t i = 0; i < o->dims.len; i++) {
        bool bound = o->dims.data[i].bound;
        if (!bound || !front_may_name(o->dims.data[i].name))
            ok &= check_name(symbols, bound ? "--bound" : "--dim", "symbolic size", o->dims.data[i].name);
    }
    for (uint32_t i = 0; i < o->shapes.len; i++)
        ok &= check_name(inputs, "--shape", "input", o->shapes.data[i].name);
    for (uint32_t i = 0; i < o->values.len; i++)
        ok &= check_name(inputs, "--input-value", "input", o->values.data[i].name);
    return ok;
}

static void add_declared(Names *symbols, const FrontInfo *info)
{
    for (uint32_t i = 0; i < info->n_in + info->n_out; i++) {
        const FrontValue *value = i < info->n_in ? &info->in[i] : &info->out[i - info->n_in];
        for (uint32_t a = 0; value->has_rank && a < value->rank; a++)
            if (value->dim[a].size < 0)
                add_name(symbols, value->dim[a].symbol);
    }
}

bool api_check_names(Context *ctx, const igata_options *o, const FrontInfo *info)
{
    Names symbols = {.ctx = ctx}, inputs = {.ctx = ctx};
    for (uint32_t i = 0; i < info->n_in; i++)
        add_name(&inputs, info->in[i].name);
    add_declared(&symbols, info);
    return check_options(o, &symbols, &inputs);
}

/* The size of an output where the model calls it `name`; NULL: no output has such an axis. */
static const Dim *declared_size(const FrontInfo *info, const Func *func, Str name)
{
    for (uint32_t i = 0; i < info->n_out && i < func_n_out(func); i++) {
        const Type *type = func_out(func, i)->type;
        for (uint32_t a = 0; info->out[i].has_rank && type->kind == TY_TENSOR && info->out[i].rank == type->rank && a < type->rank; a++)
            if (info->out[i].dim[a].size < 0 && info->out[i].dim[a].symbol == name)
                return type->dim[a];
    }
    return NULL;
}

static bool is_declared(const FrontInfo *info, Str name)
{
    for (uint32_t i = 0; i < info->n_in; i++)
        for (uint32_t a = 0; info->in[i].has_rank && a < info->in[i].rank; a++)
            if (info->in[i].dim[a].size < 0 && info->in[i].dim[a].symbol == name)
                return true;
    return false;
}

/* An option about a name that only outputs have: it means what the run finds there. */
static bool resolve_name(Context *ctx, const FrontInfo *info, const Func *func, DimBinding *dim)
{
    const Dim *size = declared_size(info, func, dim->name);
    const Sym *sym = size ? dim_as_sym(size) : NULL;
    if (sym && sym->unbacked && !dim->bound)
        return diag_report(ctx, 0, DIAG_driver_found, dim->name, dim->name);
    if (sym && sym->unbacked)
        dim->name = sym->name;
    else if (size && dim->bound) {
        Text text;
        text_init(&text, ctx_arena(ctx));
        dim_print(&text, size);
        return diag_report(ctx, 0, DIAG_api_bound, dim->name, text.data);
    }
    return true;
}

bool api_set_bounds(Context *ctx, const igata_options *o, const char *path, Func *func)
{
    const Module *module = func->module;
    Names symbols = {.ctx = ctx};
    FrontInfo info = {0};
    DimBinding *dims = ARENA_ARRAY(ctx_arena(ctx), DimBinding, o->dims.len + 1);
    bool ok = true;
    for (uint32_t i = 0; i < module->syms.len; i++)
        add_name(&symbols, module->syms.data[i]->name);
    for (uint32_t i = 0; i < o->dims.len; i++) {
        dims[i] = o->dims.data[i];
        if (has_name(&symbols, dims[i].name))
            continue;
        if (!info.n_out && str_ends_with(path, ".onnx") && !front_onnx_info(ctx, ctx_arena(ctx), path, &info))
            return false;
        if (is_declared(&info, dims[i].name)) /* a size that has been given is no symbol of the module */
            continue;
        ok &= resolve_name(ctx, &info, func, &dims[i]);
        if (dims[i].bound && !has_name(&symbols, dims[i].name) && !declared_size(&info, func, dims[i].name)) {
            add_declared(&symbols, &info);
            ok &= check_name(&symbols, "--bound", "size", dims[i].name);
        }
    }
    return ok && driver_set_bounds(ctx, func, dims, o->dims.len);
}

bool api_check_module_names(Context *ctx, const igata_options *o, const Module *module, const Func *func)
{
    Names symbols = {.ctx = ctx}, inputs = {.ctx = ctx};
    for (uint32_t i = 0; i < module->syms.len; i++)
        add_name(&symbols, module->syms.data[i]->name);
    for (uint32_t i = 0; i < func->body->params.len; i++)
        add_name(&inputs, func->in_names[i]);
    return check_options(o, &symbols, &inputs);
}

Str api_declared_text(Context *ctx, const FrontValue *value)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    text_add(&text, value->dtype == DT_NONE ? "?" : dtype_name(value->dtype));
    text_add(&text, value->has_rank ? "[" : " of any shape");
    for (uint32_t a = 0; value->has_rank && a < value->rank; a++) {
        text_add(&text, a ? "," : "");
        if (value->dim[a].size >= 0)
            text_addf(&text, "%" PRId64, value->dim[a].size);
        else
            text_add(&text, *value->dim[a].symbol ? value->dim[a].symbol : "?");
    }
    text_add(&text, value->has_rank ? "]" : "");
    return text.data;
}

/* ---- --input-value ------------------------------------------------------------------------------------------------------- */

static bool read_element(DType dtype, Str text, void *data, uint64_t i)
{
    int64_t integer;
    double number;
    if (dtype_is_float(dtype)) {
        if (!text_parse_f64(text, &number))
            return false;
        elem_set_f64(dtype, data, i, number);
        return true;
    }
    if (!text_parse_s64(text, &integer))
        return false;
    elem_set_s64(dtype, data, i, integer);
    return elem_get_s64(dtype, data, i) == integer;
}

/* One element is a scalar where the model says so; a list has one axis, or the declared ones. */
static bool fit_shape(const FrontValue *input, Tensor *t)
{
    uint64_t count = 1;
    t->rank = input->has_rank ? input->rank : 1;
    if (t->rank > IR_MAX_RANK)
        return false;
    for (uint32_t a = 0; a < t->rank; a++) {
        t->dim[a] = input->has_rank ? input->dim[a].size : -1;
        if (t->rank == 1 && t->dim[a] < 0)
            t->dim[a] = (int64_t)t->count;
        if (t->dim[a] < 0 || t->dim[a] > SMALL)
            return false;
        count *= (uint64_t)t->dim[a];
    }
    return count == t->count;
}

static bool read_value(Context *ctx, const FrontValue *input, Str text, Tensor *t)
{
    bool number = dtype_is_float(input->dtype) || dtype_is_int(input->dtype) || input->dtype == DT_BOOL;
    *t = (Tensor){.dtype = input->dtype, .store = input->dtype, .data = api_aligned(ctx_arena(ctx), SMALL * sizeof(int64_t))};
    bool ok = number;
    for (const char *at = text; ok && *at; t->count++) {
        size_t n = strcspn(at, ",");
        ok = t->count < SMALL && read_element(t->dtype, str_intern_n(ctx, at, n), t->data, t->count);
        at += n + (at[n] == ',');
    }
    return (ok && fit_shape(input, t)) ||
           diag_report(ctx, 0, DIAG_api_input, input->name,
                       str_format(ctx, "'%s' is no value of %s", text, api_declared_text(ctx, input)));
}

const ValueBinding *api_read_values(Context *ctx, const igata_options *o, const FrontInfo *info)
{
    ValueBinding *list = ARENA_ARRAY(ctx_arena(ctx), ValueBinding, o->values.len + 1);
    bool ok = true;
    for (uint32_t i = 0; i < o->values.len; i++)
        for (uint32_t k = 0; k < info->n_in; k++)
            if (info->in[k].name == o->values.data[i].name) {
                Tensor *t = ARENA_NEW(ctx_arena(ctx), Tensor);
                ok &= read_value(ctx, &info->in[k], o->values.data[i].text, t);
                list[i] = (ValueBinding){info->in[k].name, t};
            }
    return ok ? list : NULL;
}

/* The parameters of fixed inputs, which nothing reads, go: an artifact must not take a value that it would ignore. */
void api_drop_inputs(Func *func, const igata_options *o)
{
    Region *body = func->body;
    uint32_t n = 0;
    for (uint32_t i = 0; i < body->params.len; i++) {
        bool fixed = false;
        for (uint32_t k = 0; k < o->values.len; k++)
            fixed |= o->values.data[k].name == func->in_names[i];
        if (fixed && !body->params.data[i]->uses)
            continue;
        func->in_names[n] = func->in_names[i];
        body->params.data[n] = body->params.data[i];
        body->params.data[n]->out = n;
        n++;
    }
    body->params.len = n;
}

/* ---- values that an import lacks --------------------------------------------------------------------------------------------- */

bool api_lacks_values(const Context *ctx, uint32_t from)
{
    for (uint32_t i = from; i < diag_count(ctx); i++)
        if (diag_get(ctx, i)->id == DIAG_onnx_unknown)
            return true;
    return false;
}

bool api_may_decide(DType dtype, uint64_t count, bool floats)
{
    return count <= SMALL && (dtype_is_int(dtype) || dtype == DT_BOOL || (floats && dtype_is_float(dtype)));
}

void api_advise_values(Context *ctx, const FrontInfo *info)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    for (uint32_t i = 0; i < info->n_in; i++) {
        const FrontValue *input = &info->in[i];
        if (!input->initializer && (dtype_is_int(input->dtype) || input->dtype == DT_BOOL || (input->has_rank && input->rank < 2)))
            text_addf(&text, " '%s' (%s)", input->name, api_declared_text(ctx, input));
    }
    if (text.len)
        diag_report(ctx, 0, DIAG_api_fix, text.data);
}
