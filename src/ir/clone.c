/* SPDX-License-Identifier: Apache-2.0
 *
 * A deep copy of a module. Ids are kept, so that what is sorted or named by id is the same in the copy. Types, dims and
 * symbols belong to the Context and are shared, as are the bytes of weights.
 */
#include "ir/ir_int.h"

typedef struct Cloner {
    Module *to;
    Arena *scratch;
    Map *vals, *weights, *funcs; /* KEY(old) -> new */
} Cloner;

static const Attrs *clone_attrs(Cloner *c, const Attrs *attrs)
{
    AttrVal *values = NULL;
    for (uint32_t i = 0; i < attrs->n; i++) {
        AttrVal value = attrs->val[i];
        if (value.kind == AK_WEIGHT)
            value.u.weight = map_get(c->weights, KEY(value.u.weight));
        else if (value.kind == AK_FUNC)
            value.u.func = map_get(c->funcs, KEY(value.u.func));
        else
            continue;
        if (!values)
            values = arena_copy(c->scratch, attrs->val, attrs->n * sizeof *values);
        values[i] = value;
    }
    return values ? attrs_make(c->to->ctx, values, attrs->n) : attrs;
}

static void clone_region(Cloner *c, const Region *from, Region *to);

static void clone_node(Cloner *c, const Node *node, Region *to)
{
    Val **in = ARENA_ARRAY(c->scratch, Val *, node->n_in);
    const Type **types = ARENA_ARRAY(c->scratch, const Type *, node->n_out);
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = node->in[i].val ? map_get(c->vals, KEY(node->in[i].val)) : NULL;
        IG_CHECK(c->to->ctx, in[i] || !node->in[i].val); /* the order is topological, regions are closed */
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        types[i] = node->out[i].type;
    Builder b = ir_at_end(to, node->loc);
    Node *copy = ir_emit(&b, (Op)node->op, in, node->n_in, clone_attrs(c, node->attr), types, node->n_out);
    copy->id = node->id;
    for (uint32_t i = 0; i < node->n_out; i++) {
        copy->out[i].id = node->out[i].id;
        map_set(c->vals, KEY(&node->out[i]), &copy->out[i]);
    }
    for (uint32_t i = 0; i < node->n_region; i++)
        clone_region(c, node->region[i], ir_add_region(copy));
}

static void clone_region(Cloner *c, const Region *from, Region *to)
{
    for (uint32_t i = 0; i < from->params.len; i++) {
        const Val *param = from->params.data[i];
        Val *copy = to->func->body == to ? func_param(to->func, NULL, param->type) : region_param(to, param->type);
        copy->id = param->id;
        map_set(c->vals, KEY(param), copy);
    }
    REGION_FOREACH(node, from)
    clone_node(c, node, to);
}

static void clone_func(Cloner *c, const Func *func)
{
    Func *copy = map_get(c->funcs, KEY(func));
    clone_region(c, func->body, copy->body);
    for (uint32_t i = 0; i < func->body->params.len; i++)
        copy->in_names[i] = func->in_names[i];
    if (func->out_names)
        copy->out_names = arena_copy(c->to->arena, func->out_names, func_n_out(func) * sizeof(Str));
}

static void clone_symbols(Cloner *c, const Module *from)
{
    Module *to = c->to;
    for (uint32_t i = 0; i < from->syms.len; i++) {
        Sym *sym = from->syms.data[i];
        vec_push(to->arena, &to->syms, sym);
        map_set(to->index->syms, KEY(sym->name), sym);
    }
    for (uint32_t i = 0; i < from->meta.len; i++)
        vec_push(to->arena, &to->meta, from->meta.data[i]);
    for (uint32_t i = 0; i < from->weights.len; i++) {
        const Weight *weight = from->weights.data[i];
        Weight *copy = arena_copy(to->arena, weight, sizeof *weight);
        vec_push(to->arena, &to->weights, copy);
        map_set(to->index->weights, KEY(copy->name), copy);
        void **slot = map_slot(to->index->weights_by_hash, copy->hash);
        *slot = *slot ? *slot : copy;
        map_set(c->weights, KEY(weight), copy);
    }
    for (uint32_t i = 0; i < from->states.len; i++) {
        const State *state = from->states.data[i];
        module_state(to, state->name, state->type)->id = state->id;
    }
    for (uint32_t i = 0; i < from->funcs.len; i++) {
        const Func *func = from->funcs.data[i];
        map_set(c->funcs, KEY(func), module_func(to, func->name, func->entry));
    }
}

Module *module_clone(const Module *module)
{
    Arena *scratch = arena_create(module->ctx);
    Cloner c = {.to = module_create(module->ctx),
                .scratch = scratch,
                .vals = map_create(scratch),
                .weights = map_create(scratch),
                .funcs = map_create(scratch)};
    c.to->dir = module->dir;
    clone_symbols(&c, module);
    for (uint32_t i = 0; i < module->funcs.len; i++)
        clone_func(&c, module->funcs.data[i]);
    c.to->next_id = module->next_id;
    arena_destroy(scratch);
    return c.to;
}
