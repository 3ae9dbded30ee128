/* SPDX-License-Identifier: Apache-2.0
 *
 * cse: of two nodes with equal op, attributes, operands and result types in one region the later one goes. Commutative operands are
 * compared in either order, constants by their bytes, regions node by node; pinned nodes stay, but for `found`.
 *
 * Nodes that find a size (NonZero's count, the trips of a loop) each have a symbol of their own for it. What two equal ones find is one
 * size: the symbol of the later one becomes that of the first in all that follows, so that what has such sizes merges too.
 */
#include "pass/pass.h"

#include <string.h>

typedef struct Pair {
    const void *from, *to;
} Pair;

/* An unbacked symbol: the node that was the first to name it, or the symbol that it became. */
typedef struct Size {
    const Node *first;
    const Sym *now;
} Size;

typedef struct Cse {
    Context *ctx;
    Arena *tmp;
    Map *size; /* symbol id -> Size, once it was met */
    /* What two nodes that are compared name differently, values inside of regions and symbols; those of an open question at the end. */
    VEC(Pair) vals;
    VEC(Pair) syms;
    bool changed, renamed; /* something; some symbol */
} Cse;

/* ---- symbols --------------------------------------------------------------------------------------------------------- */

static Size *size_of(Cse *c, const Sym *sym)
{
    void **slot = map_slot(c->size, sym->id);
    if (!*slot)
        *slot = ARENA_NEW(c->tmp, Size);
    return *slot;
}

static const Dim *now(void *user, const Sym *sym)
{
    Cse *c = user;
    const Size *size = sym->unbacked ? map_get(c->size, sym->id) : NULL;
    return size && size->now ? dim_sym(c->ctx, size->now) : NULL;
}

/* As the first of two nodes names it. */
static const Dim *translate(void *user, const Sym *sym)
{
    Cse *c = user;
    for (uint32_t i = 0; i < c->syms.len; i++)
        if (c->syms.data[i].from == sym)
            return dim_sym(c->ctx, c->syms.data[i].to);
    return NULL;
}

/* Whether two dims are equal, or symbols that the nodes find, and which then are the same. */
static bool same_dim(Cse *c, const Node *node, const Dim *a, const Dim *b)
{
    if (dim_bind(c->ctx, b, translate, c) == a)
        return true;
    const Sym *to = dim_as_sym(a), *from = dim_as_sym(b);
    if (!to || !from || !to->unbacked || !from->unbacked || to->lo != from->lo || to->hi != from->hi || !node_finds(node, from))
        return false;
    const Size *size = map_get(c->size, from->id);
    if (size && size->first != node) /* what was before has its name */
        return false;
    Pair pair = {from, to};
    vec_push(c->tmp, &c->syms, pair);
    return true;
}

static bool same_type(Cse *c, const Node *node, const Type *a, const Type *b)
{
    if (a == b && !c->syms.len)
        return true;
    if (a->kind != TY_TENSOR || b->kind != TY_TENSOR)
        return type_bind(c->ctx, b, translate, c) == a;
    if (a->dtype != b->dtype || a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!same_dim(c, node, a->dim[i], b->dim[i]))
            return false;
    return true;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------ */

static uint64_t node_hash(const Node *node)
{
    uint64_t attr = node->op == OP_const ? node_weight(node, AN_weight)->hash : node->op == OP_found ? 0 : KEY(node->attr);
    uint64_t h = hash_mix(node->op, attr), operands = 0;
    bool commutes = op_info[node->op].traits & OT_COMM;
    for (uint32_t i = 0; i < node->n_in; i++) {
        uint64_t id = node->in[i].val ? node->in[i].val->id + 1 : 0;
        operands = commutes ? operands + id * UINT64_C(0x9E3779B97F4A7C15) : hash_mix(operands, id);
    }
    return hash_mix(h, operands);
}

/* The hash is of the content, so bytes are compared where they are equal but for a chance of 2^-64. */
static bool same_weight(const Weight *a, const Weight *b)
{
    uint64_t bytes;
    return a == b || (a->hash == b->hash && a->type == b->type && type_bytes(a->type, &bytes) &&
                      (a->data == b->data || bytes == 0 || memcmp(a->data, b->data, (size_t)bytes) == 0));
}

static bool same_attributes(Cse *c, const Node *a, const Node *b)
{
    if (a->op == OP_const)
        return same_weight(node_weight(a, AN_weight), node_weight(b, AN_weight));
    if (a->op == OP_found)
        return same_dim(c, b, node_attr(a, AN_size)->u.dim, node_attr(b, AN_size)->u.dim);
    return a->attr == b->attr || (b->attr && c->syms.len && attrs_bind(c->ctx, c->tmp, b->attr, translate, c) == a->attr);
}

/* The value of the first of two nodes that stands where the second has val. */
static const Val *counterpart(const Cse *c, const Val *val)
{
    for (uint32_t i = c->vals.len; i-- > 0;)
        if (c->vals.data[i].from == val)
            return c->vals.data[i].to;
    return val;
}

static bool same_operands(const Cse *c, const Node *a, const Node *b)
{
    if (a->n_in != b->n_in)
        return false;
    if ((op_info[a->op].traits & OT_COMM) && a->in[0].val == counterpart(c, b->in[1].val) && a->in[1].val == counterpart(c, b->in[0].val))
        return true;
    for (uint32_t i = 0; i < a->n_in; i++)
        if (a->in[i].val != counterpart(c, b->in[i].val))
            return false;
    return true;
}

static bool same_region(Cse *c, const Region *a, const Region *b);

static bool same_node(Cse *c, const Node *a, const Node *b)
{
    if (a->op != b->op || a->n_out != b->n_out || a->n_region != b->n_region || !same_operands(c, a, b) || !same_attributes(c, a, b))
        return false;
    for (uint32_t i = 0; i < a->n_out; i++)
        if (!same_type(c, b, a->out[i].type, b->out[i].type))
            return false;
    for (uint32_t i = 0; i < a->n_region; i++)
        if (!same_region(c, a->region[i], b->region[i]))
            return false;
    return true;
}

/* Regions are closed: all that they name is theirs. */
static bool same_region(Cse *c, const Region *a, const Region *b)
{
    const Node *x = a->first, *y = b->first;
    if (a->params.len != b->params.len)
        return false;
    for (uint32_t i = 0; i < a->params.len; i++) {
        Pair pair = {b->params.data[i], a->params.data[i]};
        if (type_bind(c->ctx, b->params.data[i]->type, translate, c) != a->params.data[i]->type)
            return false;
        vec_push(c->tmp, &c->vals, pair);
    }
    for (; x && y && x->op != OP_check && same_node(c, x, y); x = x->next, y = y->next)
        for (uint32_t i = 0; i < x->n_out; i++) {
            Pair pair = {&y->out[i], &x->out[i]};
            vec_push(c->tmp, &c->vals, pair);
        }
    return !x && !y;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------------- */

typedef struct Seen { /* nodes with one hash */
    Node *node;
    struct Seen *next;
} Seen;

static void rename_sizes(Cse *c, Node *node)
{
    if (!c->renamed)
        return;
    if (node->attr)
        node->attr = attrs_bind(c->ctx, c->tmp, node->attr, now, c);
    for (uint32_t i = 0; i < node->n_out; i++)
        node->out[i].type = type_bind(c->ctx, node->out[i].type, now, c);
}

typedef struct Meeting {
    Cse *cse;
    const Node *node;
} Meeting;

static const Dim *meet_sym(void *user, const Sym *sym)
{
    const Meeting *m = user;
    Size *size = sym->unbacked ? size_of(m->cse, sym) : NULL;
    if (size && !size->first)
        size->first = m->node;
    return NULL;
}

static bool meet_dim(void *user, const Dim *dim)
{
    dim_bind(((const Meeting *)user)->cse->ctx, dim, meet_sym, user);
    return true;
}

static void meet_sizes(Cse *c, const Node *node)
{
    Meeting m = {c, node};
    attrs_all_dims(node->attr, meet_dim, &m);
    for (uint32_t i = 0; i < node->n_out; i++)
        type_bind(c->ctx, node->out[i].type, meet_sym, &m);
}

/* The node that is to stay, NULL if none equals it; the sizes that both find have one name then. */
static Node *find_equal(Cse *c, const Seen *seen, const Node *node)
{
    for (; seen; seen = seen->next) {
        c->vals.len = c->syms.len = 0;
        if (same_node(c, seen->node, node)) {
            for (uint32_t i = 0; i < c->syms.len; i++)
                size_of(c, c->syms.data[i].from)->now = c->syms.data[i].to;
            c->renamed |= c->syms.len != 0;
            return seen->node;
        }
    }
    return NULL;
}

static void merge_region(Cse *c, Region *region)
{
    Map *seen = map_create(c->tmp);
    for (uint32_t i = 0; c->renamed && i < region->params.len; i++)
        region->params.data[i]->type = type_bind(c->ctx, region->params.data[i]->type, now, c);
    for (Node *node = region->first, *next; node; node = next) {
        next = node->next;
        rename_sizes(c, node);
        for (uint32_t i = 0; i < node->n_region; i++)
            merge_region(c, node->region[i]);
        if (node->op != OP_found && ((op_info[node->op].traits & OT_PINNED) || node->n_out == 0))
            continue;
        void **slot = map_slot(seen, node_hash(node));
        Node *equal = find_equal(c, *slot, node);
        if (!equal) {
            Seen *entry = ARENA_NEW(c->tmp, Seen);
            *entry = (Seen){node, *slot};
            *slot = entry;
            meet_sizes(c, node);
            continue;
        }
        for (uint32_t i = 0; i < node->n_out; i++)
            ir_replace_all(&node->out[i], &equal->out[i]);
        ir_erase(node);
        c->changed = true;
    }
}

bool pass_cse(PassCtx *pc, Unit *unit)
{
    Cse c = {.ctx = pc->ctx, .tmp = pc->tmp, .size = map_create(pc->tmp)};
    for (uint32_t i = 0; i < unit->module->funcs.len; i++)
        merge_region(&c, unit->module->funcs.data[i]->body);
    return c.changed;
}
