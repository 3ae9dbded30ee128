/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes for a module that has symbols: every dim of it, in types and attributes, is rewritten. (Models of other formats get
 * their sizes while they are imported; igata's own text carries its symbols.)
 */
#include "driver/driver.h"

#include <string.h>

typedef struct Sizes {
    Context *ctx;
    Func *func;
    Map *size; /* symbol id -> Dim */
    const Dim *(*find)(void *user, const Sym *sym);
    bool changed; /* some value's type */
} Sizes;

static const Dim *bound(void *user, const Sym *sym) { return map_get(((const Sizes *)user)->size, sym->id); }

/* A size that a shape gave has to be in the range; a low end of 0 leaves the symbol's own. */
static bool set_range(Sizes *b, const Sym *sym, int64_t lo, int64_t hi)
{
    void **slot = map_slot(b->size, sym->id);
    int64_t size;
    lo = lo ? lo : sym->lo;
    if (*slot && dim_is_const(*slot, &size))
        return (size >= lo && size <= hi) || diag_report(b->ctx, 0, DIAG_driver_bind, "", sym->name, (long long)size);
    if (lo < sym->lo || hi > sym->hi || lo > hi)
        return diag_report(b->ctx, 0, DIAG_driver_bind, "", sym->name, (long long)(lo < sym->lo ? lo : hi));
    *slot = (void *)(uintptr_t)dim_sym(b->ctx, module_replace_sym(b->func->module, sym, lo, hi));
    return true;
}

static bool set_size(Sizes *b, Str input, const Sym *sym, int64_t size)
{
    void **slot = map_slot(b->size, sym->id);
    const Dim *dim = dim_const(b->ctx, size);
    if ((*slot && *slot != (const void *)dim) || size < sym->lo || size > sym->hi)
        return diag_report(b->ctx, 0, DIAG_driver_bind, input, sym->name, (long long)size);
    *slot = (void *)(uintptr_t)dim;
    return true;
}

static bool bind_shape(Sizes *b, const ShapeBinding *shape)
{
    for (uint32_t i = 0; i < b->func->body->params.len; i++) {
        const Type *type = b->func->body->params.data[i]->type;
        if (strcmp(b->func->in_names[i], shape->name) != 0 || type->kind != TY_TENSOR)
            continue;
        if (type->rank != shape->rank)
            return diag_report(b->ctx, 0, DIAG_driver_rank, shape->name, type->rank, shape->rank);
        for (uint32_t a = 0; a < shape->rank; a++) {
            const Sym *sym = dim_as_sym(type->dim[a]);
            if (shape->dim[a] >= 0 && sym && !set_size(b, shape->name, sym, shape->dim[a]))
                return false;
        }
    }
    return true;
}

static bool rebind_val(Sizes *b, Val *val)
{
    const Type *old = val->type;
    val->type = type_bind(b->ctx, old, b->find, b);
    b->changed |= val->type != old;
    return val->type != NULL;
}

static bool rebind_region(Sizes *b, Arena *tmp, Region *region)
{
    bool ok = true;
    for (uint32_t i = 0; i < region->params.len; i++)
        ok &= rebind_val(b, region->params.data[i]);
    REGION_FOREACH(node, region) {
        if (node->attr)
            node->attr = attrs_bind(b->ctx, tmp, node->attr, b->find, b);
        for (uint32_t i = 0; i < node->n_out; i++)
            ok &= rebind_val(b, &node->out[i]);
        for (uint32_t i = 0; ok && i < node->n_region; i++)
            ok = rebind_region(b, tmp, node->region[i]);
        if (!ok)
            return diag_report(b->ctx, node->loc, DIAG_driver_sizes, op_info[node->op].name);
    }
    return ok;
}

static bool rebind_module(Sizes *b, Arena *tmp)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < b->func->module->funcs.len; i++)
        ok = rebind_region(b, tmp, b->func->module->funcs.data[i]->body);
    return ok && (!b->changed || op_verify(b->func->module)); /* a number or a bound may be too small for a node */
}

bool driver_bind_dims(Context *ctx, Func *func, const ImportOptions *options)
{
    Module *module = func->module;
    Arena *tmp = arena_create(ctx);
    Sizes b = {ctx, func, map_create(tmp), bound, false};
    bool ok = true;
    for (uint32_t i = 0; ok && i < options->n_dims; i++) {
        const DimBinding *dim = &options->dims[i];
        Sym *sym = module_find_sym(module, dim->name);
        if (sym && sym->unbacked && !dim->bound) /* what a run finds cannot be said before */
            ok = diag_report(ctx, 0, DIAG_driver_found, sym->name, sym->name);
        else if (sym && !sym->unbacked && dim->lo == dim->hi)
            ok = set_size(&b, "", sym, dim->lo);
    }
    for (uint32_t i = 0; ok && i < options->n_shapes; i++)
        ok = bind_shape(&b, &options->shapes[i]);
    for (uint32_t i = 0; ok && i < options->n_dims; i++) {
        const DimBinding *dim = &options->dims[i];
        Sym *sym = module_find_sym(module, dim->name);
        if (sym && !sym->unbacked && dim->lo < dim->hi)
            ok = set_range(&b, sym, dim->lo, dim->hi);
    }
    ok = ok && rebind_module(&b, tmp);
    arena_destroy(tmp);
    return ok;
}

/* ---- sizes that the run finds ------------------------------------------------------------------------------------------------------ */

static void lower_end(Sizes *b, const Sym *sym, int64_t hi)
{
    map_set(b->size, sym->id, (void *)(uintptr_t)dim_sym(b->ctx, module_replace_sym(b->func->module, sym, sym->lo, hi)));
}

/* A size that nothing bounds, met in a type or an attribute. */
static const Dim *default_bound(void *user, const Sym *sym)
{
    Sizes *b = user;
    if (sym->unbacked && sym->hi >= INT32_MAX && !map_get(b->size, sym->id)) {
        diag_report(b->ctx, 0, DIAG_driver_bound, sym->name, (long long)DRIVER_BOUND, sym->name);
        lower_end(b, sym, DRIVER_BOUND);
    }
    return bound(b, sym);
}

bool driver_set_bounds(Context *ctx, Func *func, const DimBinding *bounds, uint32_t n)
{
    Arena *tmp = arena_create(ctx);
    Sizes b = {ctx, func, map_create(tmp), bound, false};
    for (uint32_t i = 0; i < func->module->syms.len; i++) {
        const Sym *sym = func->module->syms.data[i];
        int64_t hi = sym->hi;
        for (uint32_t k = 0; k < n; k++)
            if (bounds[k].bound && bounds[k].name == sym->name && bounds[k].hi < hi)
                hi = bounds[k].hi;
        if (sym->unbacked && hi < sym->hi)
            lower_end(&b, sym, hi);
    }
    bool ok = rebind_module(&b, tmp);
    arena_destroy(tmp);
    return ok;
}

bool driver_bound_sizes(Context *ctx, Func *func)
{
    Arena *tmp = arena_create(ctx);
    Sizes b = {ctx, func, map_create(tmp), default_bound, false};
    bool ok = rebind_module(&b, tmp);
    arena_destroy(tmp);
    return ok;
}
