/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that nobody needs: no result is used, nothing in them is pinned, and no node behind them names a size that they find. (A
 * loop whose stack only Shape reads has no uses left, since the shape became a size.) From the last node to the first, so that
 * whole chains go in one sweep. What finds a size again (loops of one trip count) ends the need of those before it.
 */
#include "ir/ir_int.h"

typedef struct Sweep {
    Context *ctx;
    Arena *tmp;
    VEC(const Sym *) needed; /* sizes that nodes which stay name, and whose finder has not been met yet */
    uint32_t first;          /* of those named in this region; a region finds none for what is around it */
    bool changed;
} Sweep;

/* ---- what finds a size ------------------------------------------------------------------------------------------- */

typedef struct Mention {
    Context *ctx;
    const Sym *sym;
    bool met;
} Mention;

static const Dim *look_at_sym(void *user, const Sym *sym)
{
    Mention *m = user;
    m->met |= sym == m->sym;
    return NULL;
}

static bool lacks_sym(void *user, const Dim *dim)
{
    Mention *m = user;
    dim_bind(m->ctx, dim, look_at_sym, m);
    return !m->met;
}

bool node_finds(const Node *node, const Sym *sym)
{
    if (node->op == OP_found)
        return dim_as_sym(node_attr(node, AN_size)->u.dim) == sym;
    Mention m = {node->parent->module->ctx, sym, false};
    bool gives = false;
    for (uint32_t i = 0; i < node->n_out; i++)
        for (uint32_t a = 0; node->out[i].type->kind == TY_TENSOR && a < node->out[i].type->rank; a++)
            gives |= dim_as_sym(node->out[i].type->dim[a]) == sym;
    if (!gives || !attrs_all_dims(node->attr, lacks_sym, &m))
        return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (ir_in(node, i))
            type_bind(m.ctx, ir_in(node, i)->type, look_at_sym, &m);
    return !m.met;
}

/* ---- the sweep --------------------------------------------------------------------------------------------------------- */

static const Dim *need_sym(void *user, const Sym *sym)
{
    Sweep *s = user;
    bool known = !sym->unbacked;
    for (uint32_t i = s->first; i < s->needed.len; i++)
        known |= s->needed.data[i] == sym;
    if (!known)
        vec_push(s->tmp, &s->needed, sym);
    return NULL;
}

static bool need_dim(void *user, const Dim *dim)
{
    const Sweep *s = user;
    dim_bind(s->ctx, dim, need_sym, user);
    return true;
}

/* `found` is pinned for those who merge or evaluate nodes; it is needed where its size is. */
static bool is_pinned(const Node *node) { return op_info[node->op].traits & OT_PINNED && node->op != OP_found; }

static bool has_pinned(const Region *region)
{
    REGION_FOREACH(node, region) {
        if (is_pinned(node) && node != region->last)
            return true;
        for (uint32_t r = 0; r < node->n_region; r++)
            if (has_pinned(node->region[r]))
                return true;
    }
    return false;
}

static bool is_dead(const Node *node)
{
    if (is_pinned(node))
        return false;
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i].uses)
            return false;
    for (uint32_t r = 0; r < node->n_region; r++)
        if (has_pinned(node->region[r]))
            return false;
    return true;
}

/* Whether the node finds a needed size; then those before it need not. */
static bool meets_need(Sweep *s, const Node *node)
{
    uint32_t left = s->first;
    for (uint32_t i = s->first; i < s->needed.len; i++)
        if (!node_finds(node, s->needed.data[i]))
            s->needed.data[left++] = s->needed.data[i];
    bool meets = left < s->needed.len;
    s->needed.len = left;
    return meets;
}

static void sweep(Sweep *s, Region *region)
{
    uint32_t around = s->first;
    s->first = s->needed.len;
    for (Node *node = region->last, *before; node; node = before) {
        before = node->prev;
        if (!meets_need(s, node) && is_dead(node)) {
            ir_erase(node);
            s->changed = true;
            continue;
        }
        for (uint32_t r = 0; r < node->n_region; r++)
            sweep(s, node->region[r]);
        if (node->op != OP_found)
            attrs_all_dims(node->attr, need_dim, s);
    }
    s->first = around;
}

bool ir_drop_dead(Func *func)
{
    Arena *tmp = arena_create(func->module->ctx);
    Sweep s = {.ctx = func->module->ctx, .tmp = tmp};
    sweep(&s, func->body);
    arena_destroy(tmp);
    return s.changed;
}
