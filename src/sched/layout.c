/* SPDX-License-Identifier: Apache-2.0
 *
 * layout: the order of dims of each stored value. Inputs and outputs are row-major by contract. Others:
 *  - read only through one transpose: stored in the order of its result, so that the transpose costs nothing (attention's heads,
 *    channels moved last by the exporter); in that which a convolution wants, where one reads the result;
 *  - read or written by a convolution or a window fold (rank >= 3): channels last, so that channels are the vector axis; maps between
 *    such values follow. Not what a convolution to a few channels reads: there the pixels of a row are the vector axis;
 *  - joined from the channels of values that are stored channels last: the same;
 *  - computed, and read only by indices along the last axis (resized): that axis before the one before it, so that what an index picks is
 *    a vector and not an element;
 *  - everything else: row-major.
 * Kernels work for any strides; only speed is decided here.
 */
#include "sched/sched_int.h"

enum { FEW_CHANNELS = 4 };

static bool is_spatial(const Node *node)
{
    if (!node)
        return false;
    OpKind kind = op_info[node->op].kind;
    if (kind == OK_CONTRACT && node->out[0].type->rank >= 3 && type_bound(node->out[0].type, 1) < FEW_CHANNELS)
        return false;
    return (kind == OK_CONTRACT && attrs_get((Op)node->op, node->attr, AN_groups)) ||
           (kind == OK_FOLD && attrs_get((Op)node->op, node->attr, AN_window));
}

/* The transpose through which all users read the value, or NULL. */
static const Node *only_transpose(const Val *val)
{
    const Node *found = NULL;
    for (const Use *use = val->uses; use; use = use->next) {
        if (use->user->op != OP_transpose || (found && found->attr != use->user->attr)) /* op-switch: a layout question */
            return NULL;
        found = use->user;
    }
    return found;
}

/* Read along its last axis by indices only, and computed: resizing. */
static bool only_picked(const Val *val)
{
    uint32_t rank = val->type->rank;
    bool picked = val->uses && val->def && op_info[val->def->op].kind == OK_MAP && rank >= 2;
    for (const Use *use = val->uses; use && picked; use = use->next)
        picked = use->user->op == OP_gather && /* op-switch: a layout question */
                 use == &use->user->in[0] && node_int(use->user, AN_axis) == rank - 1;
    return picked;
}

typedef struct Layout {
    Schedule *s;
    Map *spatial; /* value id: touched by a convolution or window, directly or through maps of equal shape */
} Layout;

static bool group_is_spatial(const Group *g)
{
    for (uint32_t i = 0; i < g->nodes.len; i++)
        if (is_spatial(g->nodes.data[i]))
            return true;
    return false;
}

static bool read_by_spatial(const Val *val, int depth)
{
    for (const Use *use = val->uses; use; use = use->next) {
        const Node *user = use->user;
        if (is_spatial(user) && use == &user->in[0])
            return true;
        OpKind kind = op_info[user->op].kind;
        bool picks = user->op == OP_gather && use == &user->in[0] && node_int(user, AN_axis) != 1; /* op-switch: a resized axis */
        bool passes = kind == OK_MAP || picks || user->op == OP_pad || user->op == OP_concat; /* op-switch: keep the axes */
        if (depth > 0 && passes && user->out[0].type->rank == val->type->rank && read_by_spatial(&user->out[0], depth - 1))
            return true;
    }
    return false;
}

static bool is_channels_last(const Storage *st) { return st->rank >= 3 && st->dim[1] > 1 && st->stride[1] == 1; }

/* Joins channels of values that are stored channels last. */
static bool joins_channels(const Schedule *s, const Node *node)
{
    if (!node || node->op != OP_concat || node_int(node, AN_axis) != 1) /* op-switch: keeps the axes */
        return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const Storage *st = sched_storage_of(s, ir_in(node, i));
        if (!st || !is_channels_last(st))
            return false;
    }
    return true;
}

/* Dim i of the value as its readers see it is dim[i] of the storage. */
static void channels_last(Storage *st, const int64_t *dim)
{
    uint32_t order[IR_MAX_RANK], n = 0;
    order[n++] = (uint32_t)dim[0];
    for (uint32_t i = 2; i < st->rank; i++)
        order[n++] = (uint32_t)dim[i];
    order[n] = (uint32_t)dim[1];
    storage_set_order(st, order);
}

/* Readers see the value through a transpose. */
static void as_transposed(Storage *st, const int64_t *perm)
{
    uint32_t order[IR_MAX_RANK];
    bool spatial = false;
    for (const Use *use = st->val->uses; use && st->rank >= 3; use = use->next)
        spatial |= read_by_spatial(&use->user->out[0], 4);
    if (spatial) {
        channels_last(st, perm);
        return;
    }
    for (uint32_t i = 0; i < st->rank; i++)
        order[i] = (uint32_t)perm[i];
    storage_set_order(st, order);
}

bool pass_layout(PassCtx *pc, Unit *unit)
{
    (void)pc;
    Schedule *s = unit->schedule;
    int64_t same[IR_MAX_RANK];
    for (int64_t i = 0; i < IR_MAX_RANK; i++)
        same[i] = i;
    for (uint32_t i = 0; i < s->storages.len; i++) {
        Storage *st = s->storages.data[i];
        if (st->kind != SLOT_WORKSPACE)
            continue;
        const Node *transpose = only_transpose(st->val);
        if (transpose) {
            const int64_t *perm;
            node_ints(transpose, AN_perm, &perm);
            as_transposed(st, perm);
        } else if (st->rank >= 3 &&
                   ((st->val->def && sched_group_of(s, st->val->def) && group_is_spatial(sched_group_of(s, st->val->def))) ||
                    read_by_spatial(st->val, 6))) {
            channels_last(st, same);
        } else if (only_picked(st->val)) {
            uint32_t order[IR_MAX_RANK];
            for (uint32_t a = 0; a < st->rank; a++)
                order[a] = a;
            order[st->rank - 1] = st->rank - 2;
            order[st->rank - 2] = st->rank - 1;
            storage_set_order(st, order);
        }
    }
    for (uint32_t i = 0; i < s->groups.len; i++) { /* after what they read */
        Storage *st = s->groups.data[i]->writes.len == 1 ? s->groups.data[i]->writes.data[0] : NULL;
        if (st && st->kind == SLOT_WORKSPACE && !only_transpose(st->val) && joins_channels(s, st->val->def))
            channels_last(st, same);
    }
    return true;
}
