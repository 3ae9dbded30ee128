/* SPDX-License-Identifier: Apache-2.0
 *
 * views: operands of a concat that are computed in memory are computed in their places in its result, so nothing is left to copy
 * (skip connections, dense blocks, branches that meet). Such an operand is a view: it takes the strides of the result and a place
 * `at` in it, and has no bytes of its own; the result may be a view itself. Kernels work for any strides and do not notice.
 *
 * An operand stays where it is, and is copied, if it is an input, an output or a view already; if it crosses a border of a region;
 * if its place is not the same in every run; if views would be slow: its dims lie in another order, or what lies
 * together of it is less than a vector; or if the peak of memory would grow: the result exists as soon as its first view does, which
 * a skip over a large part of the network may not be worth.
 * The plan gives a result its bytes from the first write of a view to the last use of any of them.
 */
#include "sched/sched_int.h"

bool storage_is_view_at(const Storage *st, const Storage *base, int64_t at)
{
    return st && st->view && st->in_place == base && st->at == at;
}

static bool is_concat(const Group *g) { return sched_is_concat(g->nodes.data[0]); }

/* Moving along a dim of the operand jumps over what moving along another one reaches, or not, as in the result. */
static bool same_order(const Storage *part, const Storage *whole)
{
    for (uint32_t i = 0; i < part->rank; i++)
        for (uint32_t j = 0; j < part->rank; j++)
            if (part->dim[i] > 1 && part->dim[j] > 1 && part->stride[i] < part->stride[j] && whole->stride[i] > whole->stride[j])
                return false;
    return true;
}

static bool may_be_base(const Storage *whole)
{
    return !whole->merged && dtype_bits(whole->val->type->dtype) >= 8 &&
           (whole->kind == SLOT_WORKSPACE || (whole->kind == SLOT_OUTPUT && type_is_static(whole->val->type)));
}

static bool may_be_view(const Schedule *s, const Storage *part, const Storage *whole, uint32_t axis)
{
    const Node *def = part->val->def;
    return part->kind == SLOT_WORKSPACE && !part->merged && !part->in_place && sched_group_of(s, def) && !control_stack(def) &&
           def->parent == whole->val->def->parent && same_order(part, whole) &&
           part->dim[axis] * whole->stride[axis] >= LOOP_LANES;
}

/* ---- memory: bytes that live during each kernel, as far as is known before kernels are made --------------------------------------- */

typedef struct Views {
    Schedule *s;
    uint64_t *live, peak; /* peak: without views */
    VEC(Storage *) parts; /* of the concat at hand, with their places on the axis */
} Views;

static uint64_t bytes_of(const Storage *st) { return st->kind == SLOT_WORKSPACE && !st->in_place ? st->bytes : 0; }

static bool lives(const Storage *st, uint32_t p) { return st->first <= p && p <= st->last; }

static void find_live(Views *v)
{
    Schedule *s = v->s;
    sched_find_lifetimes(s);
    v->live = ARENA_ARRAY(s->arena, uint64_t, s->groups.len + 1);
    for (uint32_t p = 0; p < s->groups.len; p++) {
        for (uint32_t i = 0; i < s->storages.len; i++)
            v->live[p] += lives(s->storages.data[i], p) ? bytes_of(s->storages.data[i]) : 0;
        v->peak = v->live[p] > v->peak ? v->live[p] : v->peak;
    }
}

/* When the result has to live for its views. */
static void span_of(const Views *v, const Storage *whole, uint32_t *first, uint32_t *last)
{
    *first = whole->first;
    *last = whole->last;
    for (uint32_t i = 0; i < v->parts.len; i++) {
        *first = v->parts.data[i]->first < *first ? v->parts.data[i]->first : *first;
        *last = v->parts.data[i]->last > *last ? v->parts.data[i]->last : *last;
    }
}

static uint64_t live_with_views(const Views *v, const Storage *whole, uint32_t p)
{
    uint64_t bytes = v->live[p] + (lives(whole, p) ? 0 : bytes_of(whole));
    for (uint32_t i = 0; i < v->parts.len; i++)
        bytes -= lives(v->parts.data[i], p) ? bytes_of(v->parts.data[i]) : 0;
    return bytes;
}

static bool views_fit(const Views *v, const Storage *whole)
{
    uint32_t first, last;
    span_of(v, whole, &first, &last);
    for (uint32_t p = first; p <= last; p++)
        if (live_with_views(v, whole, p) > v->peak)
            return false;
    return true;
}

static void drop_earliest(Views *v)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < v->parts.len; i++)
        at = v->parts.data[i]->first < v->parts.data[at]->first ? i : at;
    v->parts.data[at]->at = 0;
    v->parts.data[at] = v->parts.data[--v->parts.len];
}

static void make_views(Views *v, Storage *whole)
{
    uint32_t first, last;
    span_of(v, whole, &first, &last);
    for (uint32_t p = first; p <= last; p++)
        v->live[p] = live_with_views(v, whole, p);
    whole->first = first;
    whole->last = last;
    for (uint32_t i = 0; i < v->parts.len; i++) {
        v->parts.data[i]->in_place = whole;
        v->parts.data[i]->view = true;
    }
}

/* ---- places ------------------------------------------------------------------------------------------------------------------------ */

/* Whether operand i is an earlier one too: a value has one place, so it is copied to the others. */
static bool comes_again(const Node *concat, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++)
        if (ir_in(concat, j) == ir_in(concat, i))
            return true;
    return false;
}

static bool place_operands(Views *v, const Group *g)
{
    Schedule *s = v->s;
    const Node *concat = g->nodes.data[0];
    uint32_t axis = (uint32_t)node_int(concat, AN_axis);
    Storage *whole = sched_storage_of(s, &concat->out[0]);
    int64_t position = 0, size;
    v->parts.len = 0;
    for (uint32_t i = 0; may_be_base(whole) && i < concat->n_in; i++, position += size) {
        const Val *in = ir_in(concat, i);
        Storage *part = sched_storage_of(s, in);
        if (!dim_is_const(in->type->dim[axis], &size))
            break;
        if (!part || comes_again(concat, i) || !may_be_view(s, part, whole, axis))
            continue;
        part->at = position;
        vec_push(s->arena, &v->parts, part);
    }
    while (!views_fit(v, whole)) /* without any it does */
        drop_earliest(v);
    make_views(v, whole);
    return v->parts.len > 0;
}

/* From the place on an axis of the result to one in elements: after the result has got its own strides. */
static void take_strides(Schedule *s, const Group *g)
{
    const Node *concat = g->nodes.data[0];
    Storage *whole = sched_storage_of(s, &concat->out[0]);
    for (uint32_t i = 0; i < concat->n_in; i++) {
        Storage *part = sched_storage_of(s, ir_in(concat, i));
        if (!part || !part->view || part->in_place != whole || comes_again(concat, i))
            continue;
        part->at *= whole->stride[node_int(concat, AN_axis)];
        part->kind = whole->kind;
        part->index = whole->index;
        int64_t count = 1;
        for (uint32_t d = 0; d < part->rank; d++) {
            part->stride[d] = whole->stride[d];
            count *= part->dim[d];
        }
        part->bytes = (uint64_t)count * (uint64_t)dtype_bits(part->val->type->dtype) / 8; /* no more: its neighbours are alive */
    }
}

bool pass_views(PassCtx *pc, Unit *unit)
{
    (void)pc;
    Schedule *s = unit->schedule;
    Views v = {.s = s};
    bool changed = false;
    find_live(&v);
    for (uint32_t i = 0; i < s->groups.len; i++)
        if (is_concat(s->groups.data[i]))
            changed |= place_operands(&v, s->groups.data[i]);
    for (uint32_t i = s->groups.len; i-- > 0;)
        if (is_concat(s->groups.data[i]))
            take_strides(s, s->groups.data[i]);
    return changed;
}
