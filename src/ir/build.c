/* SPDX-License-Identifier: Apache-2.0
 *
 * Building and changing modules. Everything lives in the module's arena; what is erased is unlinked, not freed.
 * The functions at the end are the only ones that touch use lists.
 */
#include "ir/ir_int.h"

#include <string.h>

/* ---- modules --------------------------------------------------------------------------------------------------- */

Module *module_create(Context *ctx)
{
    IrCtx *ir = ir_ctx(ctx);
    Arena *arena = arena_create(ctx);
    Module *module = ARENA_NEW(arena, Module);
    module->ctx = ctx;
    module->arena = arena;
    module->next_id = 1;
    module->dir = str_intern(ctx, "");
    ModuleIndex *index = ARENA_NEW(arena, ModuleIndex);
    *index = (ModuleIndex){.weights_by_hash = map_create(arena),
                           .weights = map_create(arena),
                           .funcs = map_create(arena),
                           .states = map_create(arena),
                           .syms = map_create(arena),
                           .next = ir->modules,
                           .prev = &ir->modules};
    if (ir->modules)
        ir->modules->index->prev = &index->next;
    ir->modules = module;
    module->index = index;
    return module;
}

void module_destroy(Module *module)
{
    if (!module)
        return;
    ModuleIndex *index = module->index;
    *index->prev = index->next;
    if (index->next)
        index->next->index->prev = index->prev;
    arena_destroy(module->arena);
}

static Region *new_region(Module *module, Func *func, Node *owner)
{
    Region *region = ARENA_NEW(module->arena, Region);
    region->module = module;
    region->func = func;
    region->node = owner;
    region->order_valid = true;
    return region;
}

Func *module_find_func(const Module *module, Str name) { return map_get(module->index->funcs, KEY(name)); }
Weight *module_find_weight(const Module *module, Str name) { return map_get(module->index->weights, KEY(name)); }
State *module_find_state(const Module *module, Str name) { return map_get(module->index->states, KEY(name)); }
Sym *module_find_sym(const Module *module, Str name) { return map_get(module->index->syms, KEY(name)); }

bool module_is_strict(const Module *module)
{
    for (uint32_t i = 0; i + 1 < module->meta.len; i += 2)
        if (strcmp(module->meta.data[i], "igata.arithmetic") == 0 && strcmp(module->meta.data[i + 1], "strict") == 0)
            return true;
    return false;
}

void module_set_strict(Module *module)
{
    if (module_is_strict(module))
        return;
    vec_push(module->arena, &module->meta, str_intern(module->ctx, "igata.arithmetic"));
    vec_push(module->arena, &module->meta, str_intern(module->ctx, "strict"));
}

Func *module_func(Module *module, Str name, bool entry)
{
    IG_CHECK(module->ctx, !module_find_func(module, name));
    Func *func = ARENA_NEW(module->arena, Func);
    func->module = module;
    func->name = name;
    func->entry = entry;
    func->body = new_region(module, func, NULL);
    vec_push(module->arena, &module->funcs, func);
    map_set(module->index->funcs, KEY(name), func);
    return func;
}

static Sym *new_sym(Module *module, Str name, int64_t lo, int64_t hi)
{
    IG_CHECK(module->ctx, 0 <= lo && lo <= hi);
    IrCtx *ir = ir_ctx(module->ctx);
    Sym *sym = ARENA_NEW(ir->arena, Sym); /* dims outlive modules, and clones share symbols */
    *sym = (Sym){.name = name, .lo = lo, .hi = hi, .id = ++ir->n_syms};
    map_set(module->index->syms, KEY(name), sym);
    return sym;
}

Sym *module_sym(Module *module, Str name, int64_t lo, int64_t hi)
{
    Sym *sym = module_find_sym(module, name);
    if (sym)
        return sym;
    sym = new_sym(module, name, lo, hi);
    vec_push(module->arena, &module->syms, sym);
    return sym;
}

Sym *module_replace_sym(Module *module, const Sym *sym, int64_t lo, int64_t hi)
{
    for (uint32_t i = 0; i < module->syms.len; i++)
        if (module->syms.data[i] == sym) {
            module->syms.data[i] = new_sym(module, sym->name, lo, hi);
            module->syms.data[i]->unbacked = sym->unbacked;
            return module->syms.data[i];
        }
    ig_bug(module->ctx, "symbol '%s' is of another module", sym->name);
}

State *module_state(Module *module, Str name, const Type *type)
{
    IG_CHECK(module->ctx, !module_find_state(module, name));
    State *state = ARENA_NEW(module->arena, State);
    *state = (State){.name = name, .type = type, .id = module->next_id++};
    vec_push(module->arena, &module->states, state);
    map_set(module->index->states, KEY(name), state);
    return state;
}

/* `name`, or a name derived from it, that no weight has. */
static Str unique_weight_name(Module *module, Str name, uint32_t id)
{
    if (*name == '\0')
        name = str_format(module->ctx, "w%u", (unsigned)id);
    Str unique = name;
    for (unsigned i = 1; map_has(module->index->weights, KEY(unique)); i++)
        unique = str_format(module->ctx, "%s.%u", name, i);
    return unique;
}

static void register_weight(Module *module, Weight *weight)
{
    vec_push(module->arena, &module->weights, weight);
    map_set(module->index->weights, KEY(weight->name), weight);
    void **slot = map_slot(module->index->weights_by_hash, weight->hash);
    if (!*slot)
        *slot = weight;
}

/* Equal type and bytes. Different weights of one hash are found by a walk: that needs a 64-bit collision. */
static Weight *find_equal_weight(const Module *module, const Weight *like, uint64_t bytes)
{
    Weight *first = map_get(module->index->weights_by_hash, like->hash);
    if (!first)
        return NULL;
    if (first->type == like->type && (bytes == 0 || memcmp(first->data, like->data, bytes) == 0))
        return first;
    for (uint32_t i = 0; i < module->weights.len; i++) {
        Weight *weight = module->weights.data[i];
        if (weight->hash == like->hash && weight->type == like->type && memcmp(weight->data, like->data, bytes) == 0)
            return weight;
    }
    return NULL;
}

Weight *module_weight(Module *module, Str name, const Type *type, const void *data, bool copy)
{
    uint64_t bytes = 0;
    IG_CHECK(module->ctx, type_bytes(type, &bytes) && bytes <= SIZE_MAX);
    Weight like = {.type = type, .data = data, .hash = hash_bytes(data, (size_t)bytes, type_hash(type))};
    Weight *equal = find_equal_weight(module, &like, bytes), *weight;
    if (equal && (!*name || equal->name == name))
        return equal;
    if (equal) { /* two names of the user's, one copy of the bytes */
        like.data = equal->data;
        copy = false;
    }
    weight = ARENA_NEW(module->arena, Weight);
    *weight = like;
    weight->id = module->next_id++;
    weight->name = unique_weight_name(module, name, weight->id);
    weight->file = str_intern(module->ctx, "");
    if (copy)
        weight->data = arena_copy(module->arena, data, (size_t)bytes);
    register_weight(module, weight);
    return weight;
}

/* ---- values, nodes, regions -------------------------------------------------------------------------------------- */

Val *region_param(Region *region, const Type *type)
{
    Module *module = region->module;
    Val *val = ARENA_NEW(module->arena, Val);
    *val = (Val){.type = type, .region = region, .id = module->next_id++, .out = region->params.len};
    vec_push(module->arena, &region->params, val);
    return val;
}

Val *func_param(Func *func, Str name, const Type *type)
{
    Arena *arena = func->module->arena;
    uint32_t n = func->body->params.len;
    if (n == 0 || (n & (n - 1)) == 0) { /* room for a power of two */
        Str *names = ARENA_ARRAY(arena, Str, n ? 2 * (size_t)n : 1);
        if (n)
            memcpy(names, func->in_names, n * sizeof *names);
        func->in_names = names;
    }
    func->in_names[n] = name;
    return region_param(func->body, type);
}

void func_yield(Func *func, Loc loc, Val *const *values, const Str *names, uint32_t n)
{
    Region *body = func->body;
    IG_CHECK(func->module->ctx, !body->last || body->last->op != OP_yield);
    Builder b = ir_at_end(body, loc);
    ir_emit(&b, OP_yield, values, n, NULL, NULL, 0);
    func->out_names = arena_copy(func->module->arena, names, n * sizeof *names);
}

static const Node *yield_of(const Func *func)
{
    const Node *last = func->body->last;
    return last && last->op == OP_yield ? last : NULL;
}

uint32_t func_n_out(const Func *func) { return yield_of(func) ? yield_of(func)->n_in : 0; }

Val *func_out(const Func *func, uint32_t i)
{
    IG_CHECK(func->module->ctx, i < func_n_out(func));
    return yield_of(func)->in[i].val;
}

Builder ir_at_end(Region *region, Loc loc) { return (Builder){.module = region->module, .region = region, .loc = loc}; }

Builder ir_before_node(Node *node, Loc loc)
{
    return (Builder){.module = node->parent->module, .region = node->parent, .before = node, .loc = loc};
}

/* Links node before `before` (NULL: last) and gives it an order number, if there is one between its neighbours'. */
static void link_node(Region *region, Node *node, Node *before)
{
    node->parent = region;
    node->next = before;
    node->prev = before ? before->prev : region->last;
    *(node->prev ? &node->prev->next : &region->first) = node;
    *(before ? &before->prev : &region->last) = node;
    uint32_t low = node->prev ? node->prev->order : 0;
    if (!before && low < UINT32_MAX - 256)
        node->order = low + 256;
    else if (before && before->order - low >= 2)
        node->order = low + (before->order - low) / 2;
    else
        region->order_valid = false;
}

static void unlink_node(Node *node)
{
    *(node->prev ? &node->prev->next : &node->parent->first) = node->next;
    *(node->next ? &node->next->prev : &node->parent->last) = node->prev;
    node->next = node->prev = NULL;
}

static void drop_use(Use *use)
{
    if (!use->val)
        return;
    *use->prev = use->next;
    if (use->next)
        use->next->prev = use->prev;
    *use = (Use){.user = use->user};
}

static void add_use(Use *use, Val *val)
{
    use->val = val;
    if (!val)
        return;
    use->next = val->uses;
    use->prev = &val->uses;
    if (val->uses)
        val->uses->prev = &use->next;
    val->uses = use;
}

Node *ir_emit(Builder *b, Op op, Val *const *in, uint32_t n_in, const Attrs *attrs, const Type *const *types,
              uint32_t n_out)
{
    Module *module = b->module;
    IG_CHECK(module->ctx, n_in <= UINT16_MAX && n_out <= UINT16_MAX && (unsigned)op < OP_COUNT);
    Node *node = ARENA_NEW(module->arena, Node);
    node->op = (uint16_t)op;
    node->n_in = (uint16_t)n_in;
    node->n_out = (uint16_t)n_out;
    node->loc = b->loc;
    node->attr = attrs ? attrs : attrs_make(module->ctx, NULL, 0);
    node->id = module->next_id++;
    node->in = n_in ? ARENA_ARRAY(module->arena, Use, n_in) : NULL;
    node->out = n_out ? ARENA_ARRAY(module->arena, Val, n_out) : NULL;
    for (uint32_t i = 0; i < n_in; i++) {
        node->in[i].user = node;
        add_use(&node->in[i], in[i]);
    }
    for (uint32_t i = 0; i < n_out; i++)
        node->out[i] = (Val){.type = types[i], .def = node, .id = module->next_id++, .out = i};
    link_node(b->region, node, b->before);
    return node;
}

Region *ir_add_region(Node *node)
{
    Module *module = node->parent->module;
    IG_CHECK(module->ctx, node->n_region < UINT16_MAX);
    Region **list = ARENA_ARRAY(module->arena, Region *, node->n_region + 1u);
    if (node->n_region)
        memcpy(list, node->region, node->n_region * sizeof(Region *));
    node->region = list;
    return list[node->n_region++] = new_region(module, node->parent->func, node);
}

void ir_set_in(Node *node, uint32_t i, Val *val)
{
    IG_CHECK(node->parent->module->ctx, i < node->n_in);
    drop_use(&node->in[i]);
    add_use(&node->in[i], val);
}

void ir_replace_all(Val *old, Val *with)
{
    if (old == with)
        return;
    while (old->uses) {
        Use *use = old->uses;
        drop_use(use);
        add_use(use, with);
    }
}

void ir_erase(Node *node)
{
    for (uint32_t i = 0; i < node->n_out; i++)
        IG_CHECK(node->parent->module->ctx, !node->out[i].uses);
    for (uint32_t i = 0; i < node->n_in; i++)
        drop_use(&node->in[i]);
    unlink_node(node);
}

void ir_move(Node *node, Node *before)
{
    Region *region = node->parent;
    IG_CHECK(region->module->ctx, !before || before->parent == region);
    if (node == before || node->next == before)
        return;
    unlink_node(node);
    link_node(region, node, before);
}
