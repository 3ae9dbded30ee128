/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies that the storage orders have made void: a kernel that stores every element of one value at the place where it lies in
 * another (a transpose of a value that is stored in the transpose's order, a reshape of a dense one). The value gets the bytes of
 * its source - of an output, the source is written there in the first place - and the kernel goes. So does that of a concat whose
 * operands were all computed in their places (views.c).
 */
#include "sched/sched_int.h"

/* The one store below the loops of a body, or NULL. */
static const Stmt *only_store(const Stmt *list)
{
    while (list && !list->next && list->kind == LS_FOR)
        list = list->u.loop.body;
    return list && !list->next && list->kind == LS_STORE && !list->u.store.mask ? list : NULL;
}

static bool copies_in_place(Group *g, const Storage *from, const Storage *to)
{
    Kernel *k = g->kernel;
    const Stmt *store = only_store(k->body);
    if (!store || store->u.store.buf->val != to->val || store->u.store.value->kind != LX_LOAD)
        return false;
    const Expr *load = store->u.store.value;
    const Buf *source = load->u.buf;
    return source->val == from->val && source->space == BUF_ARG && load->n_args == source->rank &&
           lx_offset(k, source, load->arg) == lx_offset(k, store->u.store.buf, store->u.store.index);
}

static bool same_count(const Type *a, const Type *b)
{
    uint64_t n, m;
    return type_count_bound(a, &n) && type_count_bound(b, &m) && n == m;
}

static bool is_void(Group *g)
{
    if (g->reads.len != 1 || g->writes.len != 1)
        return false;
    const Storage *from = g->reads.data[0], *to = g->writes.data[0];
    return !from->merged && !to->merged && from->kind == SLOT_WORKSPACE && !from->in_place && !to->in_place &&
           from->bytes == to->bytes && same_count(from->val->type, to->val->type) &&
           from->val->type->dtype == to->val->type->dtype &&
           ((to->kind == SLOT_OUTPUT && type_is_static(to->val->type)) || to->kind == SLOT_WORKSPACE) &&
           copies_in_place(g, from, to);
}

/* A concat that has nothing left to copy. */
static bool is_in_place(const Schedule *s, const Group *g)
{
    const Storage *whole = g->writes.len == 1 ? g->writes.data[0] : NULL;
    const Node *node = g->nodes.data[0];
    if (!whole || g->kernel->body || !sched_is_concat(node))
        return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const Storage *part = sched_storage_of(s, ir_in(node, i));
        if (part && part->view && part->in_place == whole)
            return true;
    }
    return false; /* without elements */
}

/* The kernel among the first n that makes the last of the values a group reads. */
static Group *last_producer(const Schedule *s, const Group *g, uint32_t n)
{
    while (n-- > 0)
        for (uint32_t i = 0; i < g->reads.len; i++)
            if (sched_group_of(s, g->reads.data[i]->val->def) == s->groups.data[n])
                return s->groups.data[n];
    return NULL;
}

void sched_drop_copies(Schedule *s)
{
    uint32_t kept = 0, step = 0;
    for (uint32_t i = 0; i < s->groups.len; i++) {
        for (; step < s->steps.len && s->steps.data[step].group == i; step++)
            s->steps.data[step].group = kept;
        Group *g = s->groups.data[i];
        bool in_place = is_in_place(s, g);
        if (!in_place && !is_void(g)) {
            s->groups.data[kept++] = g;
            continue;
        }
        Storage *from = g->reads.data[0], *to = g->writes.data[0];
        Group *producer = last_producer(s, g, kept); /* now produces both */
        vec_push(s->arena, &producer->writes, to);
        vec_push(s->arena, &producer->results, g->results.data[0]);
        for (uint32_t n = 0; n < g->nodes.len; n++) {
            vec_push(s->arena, &producer->nodes, g->nodes.data[n]);
            map_set(s->group_of, g->nodes.data[n]->id, producer);
        }
        if (in_place)
            continue;
        if (to->kind == SLOT_OUTPUT) {
            from->kind = to->kind;
            from->index = to->index;
        } else {
            to->in_place = from;
        }
    }
    for (; step < s->steps.len; step++)
        s->steps.data[step].group = kept;
    s->groups.len = kept;
}
