/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse: which nodes share a kernel. Only op kinds are looked at (ir.md section 2).
 *
 * A kernel computes *rows*: its outer loops run over the row axes of the anchor's result, and one trip computes everything that
 * belongs to a row (the content axes): the anchor, then whatever follows it without leaving the row.
 *   anchor     row axes                        content
 *   reduce     those not reduced               none (a scalar per row; what it reads is the row)
 *   dot        batch and lhs-free axes         rhs-free axes
 *   conv       batch and space                 channels
 *   window     batch and space                 channels
 *   MAP/INDEX  all                             none
 * A node joins a group if (1) it reads a value of the group, (2) its own result keeps the rows in place: MAP at equal rank with
 * equal row sizes, a reduce over content axes, a dot that contracts the last content axis, (3) no value it reads from outside
 * depends on the group, so that the group graph stays acyclic, and (4) it pays: MAPs always do; a fold after a contraction
 * only while the contraction's second operand and 16 rows stay in half of L2 (small norms), or where rows are long and would else
 * be written and read several times (attention), since its rows then have to be computed whole.
 * A dot of the same rows with another constant that meets the group elementwise (gated units, pass `narrow`) joins as a sibling.
 * MAP and INDEX nodes that join no group are inlined into their users, unless somebody needs them in memory (`needs_memory`). MAPs
 * of one size that need memory for each other only share a kernel (`merge_maps`).
 */
#include "sched/tile.h"

#include <string.h>

enum { ROW_TILE = 16, INLINE_DEPTH = 6 };

typedef struct Fuse {
    Schedule *s;
    const PassOptions *options;
    Map *group_of;  /* node id -> Group */
    Map *seen;      /* scratch of depends_on: node id */
    uint64_t stamp;
    Map *names;     /* of kernels */
    uint32_t depth; /* of steps around the region at hand */
} Fuse;

static Group *in_group(const Fuse *f, const Node *node) { return node ? map_get(f->group_of, node->id) : NULL; }

uint32_t group_row_axes(const Node *anchor)
{
    uint32_t rank = anchor->out[0].type->rank, all = (1u << rank) - 1, content = 0;
    switch (op_info[anchor->op].kind) { /* op-switch: by kind */
    case OK_FOLD: {
        const int64_t *axes;
        if (attrs_get((Op)anchor->op, anchor->attr, AN_axes)) {
            uint32_t n = node_ints(anchor, AN_axes, &axes);
            for (uint32_t i = 0; i < n; i++)
                content |= 1u << axes[i];
        } else if (rank >= 2) {
            content = 1u << 1;
        }
        break;
    }
    case OK_CONTRACT: {
        const int64_t *batch, *contract;
        if (!attrs_get((Op)anchor->op, anchor->attr, AN_lhs_batch)) {
            content = 1u << 1;
            break;
        }
        uint32_t nb = node_ints(anchor, AN_lhs_batch, &batch), nc = node_ints(anchor, AN_lhs_contract, &contract);
        uint32_t rows = ir_in(anchor, 0)->type->rank - nc; /* batch and lhs-free axes lead the result */
        (void)nb;
        content = all & ~((1u << rows) - 1);
        break;
    }
    default:
        break;
    }
    return all & ~content;
}

/* ---- dependence between groups ------------------------------------------------------------------------------------ */

/* Whether computing `val` needs a node of group g, or node `target`: a walk over operands in which a grouped node stands for
 * its whole group. */
static bool depends_walk(Fuse *f, const Val *val, const Group *g, const Node *target)
{
    const Node *def = val ? val->def : NULL;
    if (!def)
        return false;
    if (def == target || (g && in_group(f, def) == g))
        return true;
    void **slot = map_slot(f->seen, def->id);
    if ((uint64_t)(uintptr_t)*slot == f->stamp)
        return false;
    *slot = (void *)(uintptr_t)f->stamp;
    Group *other = in_group(f, def);
    if (!other) {
        for (uint32_t i = 0; i < def->n_in; i++)
            if (depends_walk(f, def->in[i].val, g, target))
                return true;
        return false;
    }
    for (uint32_t n = 0; n < other->nodes.len; n++) {
        Node *node = other->nodes.data[n];
        *map_slot(f->seen, node->id) = (void *)(uintptr_t)f->stamp;
        if (node == target)
            return true;
    }
    for (uint32_t n = 0; n < other->nodes.len; n++) {
        Node *node = other->nodes.data[n];
        for (uint32_t i = 0; i < node->n_in; i++) {
            const Val *in = node->in[i].val;
            if (in && in->def && in_group(f, in->def) != other && depends_walk(f, in, g, target))
                return true;
        }
    }
    return false;
}

static bool joining_keeps_acyclic(Fuse *f, const Group *g, const Node *node)
{
    f->stamp++;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const Val *in = node->in[i].val;
        if (in && in->def && in_group(f, in->def) != g && depends_walk(f, in, g, NULL))
            return false;
    }
    /* and nothing the group reads may come to depend on the new node */
    f->stamp++;
    for (uint32_t n = 0; n < g->nodes.len; n++) {
        const Node *member = g->nodes.data[n];
        for (uint32_t i = 0; i < member->n_in; i++) {
            const Val *in = member->in[i].val;
            if (in && in->def && in_group(f, in->def) != g && depends_walk(f, in, NULL, node))
                return false;
        }
    }
    return true;
}

/* ---- joining --------------------------------------------------------------------------------------------------------- */

static bool same_rows(const Type *type, const Type *rows_of, uint32_t row_axes)
{
    if (type->rank != rows_of->rank)
        return false;
    for (uint32_t i = 0; i < type->rank; i++)
        if ((row_axes >> i & 1) && type->dim[i] != rows_of->dim[i])
            return false;
    return true;
}

static bool same_shape(const Type *a, const Type *b) { return a->rank == b->rank && same_rows(a, b, (1u << a->rank) - 1); }

static bool dot_keeps_rows(const Node *dot, const Group *g, const Fuse *f, uint32_t row_axes)
{
    const Val *lhs = ir_in(dot, 0), *rhs = ir_in(dot, 1);
    if (!lhs->def || in_group(f, lhs->def) != g || (rhs->def && in_group(f, rhs->def) == g))
        return false;
    const int64_t *lb, *rb, *lc, *rc;
    uint32_t nb = node_ints(dot, AN_lhs_batch, &lb), nc = node_ints(dot, AN_lhs_contract, &lc), rank = lhs->type->rank;
    (void)node_ints(dot, AN_rhs_batch, &rb);
    (void)node_ints(dot, AN_rhs_contract, &rc);
    if (nc != 1 || lc[0] != (int64_t)rank - 1 || row_axes != (1u << (rank - 1)) - 1 || dot->out[0].type->rank != rank)
        return false;
    for (uint32_t i = 0; i < nb; i++)
        if (lb[i] != (int64_t)i)
            return false;
    return true;
}

/* Bytes of the second operand of a contraction that one row needs, batch axes excluded. */
static uint64_t operand_bytes_per_row(const Node *node)
{
    uint64_t bytes = 0, count;
    const Type *type = ir_in(node, 1)->type;
    if (!type_count_bound(type, &count) || !dtype_bytes(type->dtype, count, &bytes))
        return UINT64_MAX;
    const int64_t *rb;
    if (attrs_get((Op)node->op, node->attr, AN_rhs_batch)) {
        uint32_t nb = node_ints(node, AN_rhs_batch, &rb);
        for (uint32_t i = 0; i < nb; i++) {
            int64_t size = type_bound(type, (uint32_t)rb[i]);
            bytes /= size > 0 ? (uint64_t)size : 1;
        }
    }
    return bytes;
}

/* Rows that must be computed whole: do the operands of the group's contractions (and the candidate's) stay in cache? If not, they are
 * read for each tile of rows, which still pays where the rows, else written and read several times, are long (attention). */
static bool rows_fit(const Fuse *f, const Group *g, const Node *candidate)
{
    enum { WORTH = 16 };
    uint64_t budget = (uint64_t)f->options->target->l2_bytes / 2, operands = 0, rows = 0;
    for (uint32_t n = 0; n <= g->nodes.len; n++) {
        const Node *node = n < g->nodes.len ? g->nodes.data[n] : candidate;
        uint64_t row = 1;
        if (op_info[node->op].kind != OK_CONTRACT)
            continue;
        if (node->op == OP_conv) /* op-switch: windows overlap, rows of a conv are never recomputed whole */
            return false;
        const Type *type = node->out[0].type;
        uint32_t row_axes = group_row_axes(node);
        for (uint32_t i = 0; i < type->rank; i++)
            if (!(row_axes >> i & 1))
                row *= (uint64_t)type_bound(type, i);
        uint64_t bytes = operand_bytes_per_row(node);
        if (bytes >= UINT64_MAX / LOOP_MAX_RANK || row >= UINT64_MAX / (LOOP_MAX_RANK * ROW_TILE * sizeof(float)))
            return false;
        operands += bytes;
        rows += row * ROW_TILE * sizeof(float);
    }
    return operands + rows <= budget || operands / WORTH <= rows;
}

static Loc source_of(Context *ctx, Loc loc)
{
    const LocInfo *info = loc_info(ctx, loc);
    while (info->kind == LOC_FROM && info->n_parents == 1) {
        loc = info->parents[0];
        info = loc_info(ctx, loc);
    }
    return loc;
}

static bool group_has_kind(const Group *g, OpKind kind)
{
    for (uint32_t i = 0; i < g->nodes.len; i++)
        if (op_info[g->nodes.data[i]->op].kind == kind)
            return true;
    return false;
}

/* Whether a node between the two finds a size: what comes behind it may be of that size without reading a value of it. */
static bool size_is_found_between(const Fuse *f, const Node *anchor, const Node *node)
{
    const Node *at = f->s->n_syms > f->s->n_told ? anchor->next : node;
    while (at && at != node && !sched_found_size(at))
        at = at->next;
    return at != node;
}

static bool may_join(Fuse *f, const Group *g, const Node *node, uint32_t row_axes)
{
    const Node *anchor = g->nodes.data[0];
    const Type *rows_of = anchor->out[0].type;
    if (in_group(f, node) || node->n_out != 1)
        return false;
    if (f->options->eager && source_of(f->s->ctx, node->loc) != source_of(f->s->ctx, anchor->loc))
        return false;
    OpKind kind = op_info[node->op].kind;
    if (kind == OK_MAP) {
        if (!same_rows(node->out[0].type, rows_of, row_axes))
            return false;
        for (uint32_t i = 0; i < node->n_in; i++) { /* no broadcast of a group value along its rows */
            const Val *in = ir_in(node, i);
            if (in && in->def && in_group(f, in->def) == g && !same_rows(in->type, rows_of, row_axes))
                return false;
        }
    } else if (kind == OK_FOLD && attrs_get((Op)node->op, node->attr, AN_axes)) {
        const Val *in = ir_in(node, 0);
        if (!same_rows(in->type, rows_of, row_axes) || (group_row_axes(node) & row_axes) != row_axes)
            return false;
        if (group_has_kind(g, OK_CONTRACT) && !rows_fit(f, g, node))
            return false;
        if (op_info[anchor->op].kind == OK_FOLD && !attrs_get((Op)anchor->op, anchor->attr, AN_axes))
            return false; /* after a window fold rows are pixels: not worth a row-wise kernel */
    } else if (kind == OK_CONTRACT && node->op == OP_dot) { /* op-switch: only dot has free axes to keep */
        if (!group_has_kind(g, OK_CONTRACT) || !group_has_kind(g, OK_FOLD) || !dot_keeps_rows(node, g, f, row_axes) ||
            !rows_fit(f, g, node))
            return false;
    } else {
        return false;
    }
    return joining_keeps_acyclic(f, g, node) && !size_is_found_between(f, anchor, node);
}

static void join(Fuse *f, Group *g, Node *node)
{
    vec_push(f->s->arena, &g->nodes, node);
    map_set(f->group_of, node->id, g);
}

/* Whether everything that val is used for outside g ends in g through MAPs of its size: then all of it can join g. */
static bool leads_only_to(Fuse *f, const Group *g, const Val *val, int depth)
{
    for (const Use *use = val->uses; use; use = use->next) {
        Node *user = use->user;
        if (in_group(f, user) == g)
            continue;
        if (depth == INLINE_DEPTH || in_group(f, user) || op_info[user->op].kind != OK_MAP || user->n_out != 1 ||
            !same_shape(user->out[0].type, val->type) || !leads_only_to(f, g, &user->out[0], depth + 1))
            return false;
    }
    return true;
}

/* A product of the same rows with another constant that `val` is computed from elementwise, or NULL. */
static Node *find_sibling(Fuse *f, const Group *g, const Val *val, int depth)
{
    const Node *anchor = g->nodes.data[0];
    Node *def = val ? val->def : NULL;
    if (!def || depth > INLINE_DEPTH || in_group(f, def) || def->n_out != 1 || def->out[0].type != anchor->out[0].type)
        return NULL;
    if (def->op == anchor->op) {
        bool fits = val_is_const_view(ir_in(def, 1)) && val_is_const_view(ir_in(anchor, 1)) &&
                    ir_in(def, 0) == ir_in(anchor, 0) && def->attr == anchor->attr && leads_only_to(f, g, &def->out[0], 0);
        return fits ? def : NULL;
    }
    Node *found = NULL;
    for (uint32_t i = 0; i < def->n_in && !found && op_info[def->op].kind == OK_MAP; i++)
        found = find_sibling(f, g, ir_in(def, i), depth + 1);
    return found;
}

/* A sibling of the group's product that meets it elementwise (a gated unit), or NULL. */
static Node *sibling_to_join(Fuse *f, const Group *g)
{
    uint32_t n_products = 0;
    Node *found = NULL;
    if (f->options->eager || g->nodes.data[0]->op != OP_dot) /* op-switch: convolutions are not worth it: their rows are long */
        return NULL;
    for (uint32_t n = 0; n < g->nodes.len; n++) {
        OpKind kind = op_info[g->nodes.data[n]->op].kind;
        if (kind != OK_MAP && kind != OK_CONTRACT)
            return NULL;
        n_products += kind == OK_CONTRACT;
    }
    for (uint32_t n = 0; n < g->nodes.len && !found && n_products <= MAX_SIBLINGS; n++)
        for (uint32_t i = 0; i < g->nodes.data[n]->n_in && !found && op_info[g->nodes.data[n]->op].kind == OK_MAP; i++)
            found = find_sibling(f, g, ir_in(g->nodes.data[n], i), 0);
    return found;
}

/* The node and all that lies between it and g (leads_only_to). */
static void join_towards(Fuse *f, Group *g, Node *node)
{
    join(f, g, node);
    for (const Use *use = node->out[0].uses; use; use = use->next)
        if (in_group(f, use->user) != g)
            join_towards(f, g, use->user);
}

/* Grows g forward over the users of its values, in program order, and over siblings of its product. */
static void grow(Fuse *f, Group *g)
{
    const Node *anchor = g->nodes.data[0];
    OpKind kind = op_info[anchor->op].kind;
    if (kind == OK_OPAQUE || kind == OK_CONTROL || sched_is_concat(anchor))
        return;
    uint32_t row_axes = group_row_axes(anchor);
    for (;;) {
        Node *best = NULL;
        for (uint32_t n = 0; n < g->nodes.len; n++) {
            Node *member = g->nodes.data[n];
            for (uint32_t o = 0; o < member->n_out; o++)
                for (const Use *use = member->out[o].uses; use; use = use->next)
                    if ((!best || ir_before(use->user, best)) && may_join(f, g, use->user, row_axes))
                        best = use->user;
        }
        if (best) {
            join(f, g, best);
        } else {
            Node *sibling = sibling_to_join(f, g);
            if (!sibling)
                return;
            join_towards(f, g, sibling);
        }
    }
}

static Group *new_group(Fuse *f, Node *anchor)
{
    Group *g = ARENA_NEW(f->s->arena, Group);
    vec_push(f->s->arena, &f->s->groups, g);
    join(f, g, anchor);
    return g;
}

/* ---- what must be in memory ------------------------------------------------------------------------------------------ */

static bool is_anchor(const Node *node)
{
    OpKind kind = op_info[node->op].kind;
    return kind == OK_FOLD || kind == OK_CONTRACT || kind == OK_OPAQUE || (kind == OK_CONTROL && node->op != OP_yield);
}

/* Depth of MAP nodes that would be recomputed to inline `node`, at most limit + 1, and whether a costly one is among them. */
static int inline_depth(const Fuse *f, const Node *node, bool *costly, int limit)
{
    int depth = 0, here = node && op_info[node->op].kind == OK_MAP;
    if (!node || in_group(f, node) || op_info[node->op].kind == OK_SOURCE)
        return 0;
    if (here && limit == 0)
        return 1;
    *costly |= (op_info[node->op].traits & OT_COSTLY) != 0;
    for (uint32_t i = 0; i < node->n_in; i++) {
        int d = node->in[i].val ? inline_depth(f, node->in[i].val->def, costly, limit - here) : 0;
        depth = d > depth ? d : depth;
    }
    return depth + here;
}

/* Reaches a MAP through INDEX nodes only: what a contraction would have to recompute for each use. */
static bool computed_by_map(const Fuse *f, const Val *val)
{
    for (const Node *def = val->def; def && !in_group(f, def); def = ir_in(def, 0) ? ir_in(def, 0)->def : NULL) {
        OpKind kind = op_info[def->op].kind;
        if (kind == OK_MAP)
            return true;
        if (kind != OK_INDEX)
            return false;
        if (def->n_in > 1) /* gather, pad, concat: not affine in one operand */
            return true;
    }
    return false;
}

/* Computed while a row tile or a packed panel is filled: attention's scaled queries and keys. The kernel fills these once, so only
 * cheap maps that nobody else needs qualify. */
static bool fills_a_panel(Fuse *f, const Node *contract, const Val *val)
{
    const Group *g = in_group(f, contract);
    bool costly = false;
    if (f->options->eager || !g || !group_has_kind(g, OK_FOLD) || contract->op != OP_dot) /* op-switch: windows overlap */
        return false;
    for (const Node *def = val->def; def && !in_group(f, def); def = ir_in(def, 0) ? ir_in(def, 0)->def : NULL) {
        if (op_info[def->op].kind == OK_INDEX && def->n_in > 1)
            return false;
        if (op_info[def->op].kind == OK_MAP && (val_n_uses(&def->out[0]) > 1 || val_is_output(&def->out[0])))
            return false;
    }
    return inline_depth(f, val->def, &costly, 2) <= 2 && !costly;
}

/* Reads where an index says; one that only the run knows is checked by the kernel which computes the node. */
static bool looks_up(const Node *node)
{
    return node->op == OP_gather || node->op == OP_gather_elements || node->op == OP_gather_nd;
}

/* Whether a kernel with a contraction would compute `val` for itself, `depth` inlined nodes further at most. */
static bool reaches_contraction(const Fuse *f, const Val *val, int depth)
{
    for (const Use *use = val->uses; use; use = use->next) {
        const Group *g = in_group(f, use->user);
        if (g ? group_has_kind(g, OK_CONTRACT)
              : depth > 0 && sched_is_inlined(use->user) && reaches_contraction(f, &use->user->out[0], depth - 1))
            return true;
    }
    return false;
}

/* Whether elementwise nodes read each element of val for many of theirs. */
static bool is_stretched(const Val *val)
{
    uint64_t have, count;
    for (const Use *use = val->uses; use; use = use->next) {
        const Node *user = use->user;
        OpKind kind = op_info[user->op].kind;
        if (kind == OK_INDEX && user->n_in == 1 && is_stretched(&user->out[0]))
            return true;
        if (kind == OK_MAP && type_count_bound(val->type, &have) && type_count_bound(user->out[0].type, &count) && count > have)
            return true;
    }
    return false;
}

/* Whether indices read the elements of val several times: resizing, axis after axis. */
static bool is_repeated(const Val *val)
{
    uint64_t have, count;
    for (const Use *use = val->uses; use; use = use->next) {
        const Node *user = use->user;
        if (looks_up(user) && use == &user->in[0] && type_count_bound(val->type, &have) &&
            type_count_bound(user->out[0].type, &count) && count / 2 >= have)
            return true;
    }
    return false;
}

static bool needs_memory(Fuse *f, Node *node)
{
    if (!sched_is_inlined(node) || op_info[node->op].kind == OK_SOURCE)
        return false;
    const Val *val = &node->out[0];
    if (val_is_output(val))
        return true;
    uint32_t users = 0;
    for (const Use *use = val->uses; use; use = use->next) {
        const Node *user = use->user;
        OpKind kind = op_info[user->op].kind;
        if (kind == OK_OPAQUE || kind == OK_CONTROL || control_is_last(user))
            return true;
        if (kind == OK_CONTRACT && computed_by_map(f, val) && !fills_a_panel(f, user, val))
            return true;
        users++;
    }
    bool costly = false;
    int depth = inline_depth(f, node, &costly, INLINE_DEPTH);
    if (depth > INLINE_DEPTH && op_info[node->op].kind == OK_MAP)
        return true; /* bounds the size of a kernel's expressions */
    if (sched_is_concat(node)) /* each operand is copied once instead of being searched for at every use */
        return true;
    if (looks_up(node) && reaches_contraction(f, val, INLINE_DEPTH)) /* tiles of rows and columns have no place for a check of each */
        return true;
    if (looks_up(node) && is_stretched(val)) /* looked up once, not for each element beside it */
        return true;
    if (op_info[node->op].kind == OK_MAP && is_repeated(val))
        return true;
    return users > 1 && (costly || depth > 2);
}

/* A contraction reads a chain of INDEX nodes that ends in a MAP: the MAP is what goes to memory, not the last view. */
static void materialise_map_operands(Fuse *f, Node *contract)
{
    for (uint32_t i = 0; i < contract->n_in; i++) {
        const Val *val = ir_in(contract, i);
        Node *def = val ? val->def : NULL;
        if (!def || !computed_by_map(f, val) || fills_a_panel(f, contract, val))
            continue;
        while (op_info[def->op].kind == OK_INDEX && def->n_in == 1 && ir_in(def, 0)->def && !in_group(f, def))
            def = ir_in(def, 0)->def;
        if (!in_group(f, def) && sched_is_inlined(def) && op_info[def->op].kind != OK_SOURCE)
            grow(f, new_group(f, def));
    }
}

static int by_order(const void *a, const void *b)
{
    const Node *x = *(Node *const *)a, *y = *(Node *const *)b;
    return x == y ? 0 : ir_before(x, y) ? -1 : 1;
}

static void sort_nodes(Node **nodes, uint32_t n) /* insertion sort: groups are short and nearly sorted */
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && by_order(&nodes[j - 1], &nodes[j]) > 0; j--) {
            Node *t = nodes[j];
            nodes[j] = nodes[j - 1];
            nodes[j - 1] = t;
        }
}

/* ---- order, results, names ------------------------------------------------------------------------------------------- */

static void add_read(Fuse *f, Group *g, const Val *val)
{
    Storage *st = sched_storage_add(f->s, val);
    for (uint32_t i = 0; i < g->reads.len; i++)
        if (g->reads.data[i] == st)
            return;
    vec_push(f->s->arena, &g->reads, st);
}

static void collect_reads(Fuse *f, Group *g, const Val *val)
{
    const Val *counter;
    val = control_origin(val, &counter);
    if (counter)
        add_read(f, g, counter);
    const Node *def = val->def;
    Group *owner = in_group(f, def);
    if (owner == g)
        return;
    if (def && !owner) { /* inlined */
        for (uint32_t i = 0; i < def->n_in; i++)
            if (def->in[i].val)
                collect_reads(f, g, def->in[i].val);
        return;
    }
    add_read(f, g, val);
}

static void find_results(Fuse *f, Group *g)
{
    for (uint32_t n = 0; n < g->nodes.len; n++) {
        Node *node = g->nodes.data[n];
        for (uint32_t o = 0; o < node->n_out; o++) {
            Val *val = &node->out[o];
            bool outside = false;
            for (const Use *use = val->uses; use && !outside; use = use->next)
                outside = in_group(f, use->user) != g;
            if (outside)
                vec_push(f->s->arena, &g->results, val);
        }
    }
}

static Node *last_node(const Group *g) { return g->nodes.data[g->nodes.len - 1]; }

typedef VEC(Group *) GroupVec;

static void place_group(Fuse *f, Group *g, Map *placed, GroupVec *order);

static void place_source(Fuse *f, const Group *g, const Val *val, Map *placed, GroupVec *order)
{
    const Node *def = val ? val->def : NULL;
    Group *owner = in_group(f, def);
    if (owner && owner != g)
        place_group(f, owner, placed, order);
    for (uint32_t i = 0; def && !owner && i < def->n_in; i++)
        place_source(f, g, def->in[i].val, placed, order);
}

/* Emits g after every group it reads from. */
static void place_group(Fuse *f, Group *g, Map *placed, GroupVec *order)
{
    if (map_has(placed, KEY(g)))
        return;
    map_set(placed, KEY(g), g);
    for (uint32_t n = 0; n < g->nodes.len; n++)
        for (uint32_t i = 0; i < g->nodes.data[n]->n_in; i++)
            place_source(f, g, g->nodes.data[n]->in[i].val, placed, order);
    vec_push(f->s->arena, order, g);
}

/* A kernel is named by its first node, and its last if that is another: "fc1_gelu". */
static void name_group(Fuse *f, Group *g)
{
    Context *ctx = f->s->ctx;
    Arena *arena = f->s->arena;
    Str first = loc_name(ctx, g->nodes.data[0]->loc), last = loc_name(ctx, g->nodes.data[g->nodes.len - 1]->loc);
    Text text;
    text_init(&text, arena);
    text_add(&text, first);
    if (last != first) {
        const char *tail = strrchr(last, '/');
        text_addf(&text, "_%s", tail ? tail + 1 : last);
    }
    for (char *c = text.data; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    Str base = str_intern(ctx, text.data);
    if (base[0] >= '0' && base[0] <= '9')
        base = str_format(ctx, "k%s", base);
    Str name = base;
    for (int i = 2; map_has(f->names, KEY(name)); i++)
        name = str_format(ctx, "%s_%d", base, i);
    map_set(f->names, KEY(name), g);
    g->name = name;
}

static void find_memory(Fuse *f, Group *g)
{
    Schedule *s = f->s;
    sort_nodes(g->nodes.data, g->nodes.len);
    find_results(f, g);
    for (uint32_t n = 0; n < g->nodes.len; n++) {
        const Node *node = g->nodes.data[n];
        const Val *stack = control_stack(node);
        for (uint32_t j = 0; j < node->n_in; j++)
            if (node->in[j].val)
                collect_reads(f, g, node->in[j].val);
        if (stack)
            add_read(f, g, stack);
    }
    for (uint32_t r = 0; r < g->results.len; r++) {
        Storage *st = sched_storage_add(s, g->results.data[r]);
        vec_push(s->arena, &g->writes, st);
    }
}

/* The groups from the `first` on, by the program order of their last nodes, as far as reads allow; those that end a trip come last. */
static GroupVec order_groups(Fuse *f, uint32_t first)
{
    Schedule *s = f->s;
    GroupVec order = {0};
    Map *placed = map_create(s->arena);
    for (uint32_t i = first + 1; i < s->groups.len; i++)
        for (uint32_t j = i; j > first && ir_before(last_node(s->groups.data[j]), last_node(s->groups.data[j - 1])); j--) {
            Group *t = s->groups.data[j];
            s->groups.data[j] = s->groups.data[j - 1];
            s->groups.data[j - 1] = t;
        }
    for (uint32_t i = first; i < s->groups.len; i++)
        if (!control_is_last(s->groups.data[i]->nodes.data[0]))
            place_group(f, s->groups.data[i], placed, &order);
    for (uint32_t i = first; i < s->groups.len; i++)
        place_group(f, s->groups.data[i], placed, &order);
    return order;
}

static void group_region(Fuse *f, Region *body, bool fused);

static uint32_t add_step(Fuse *f, Step step)
{
    step.group = f->s->groups.len;
    step.depth = f->depth;
    vec_push(f->s->arena, &f->s->steps, step);
    return f->s->steps.len - 1;
}

static void emit_if(Fuse *f, const Node *node, bool fused)
{
    Storage *go = control_word(f->s, ir_in(node, 0));
    uint32_t first = add_step(f, (Step){STEP_IF, .node = node, .go = go});
    f->depth++;
    group_region(f, node->region[0], fused);
    f->depth--;
    uint32_t middle = add_step(f, (Step){STEP_ELSE, .node = node});
    f->depth++;
    group_region(f, node->region[1], fused);
    f->depth--;
    uint32_t end = add_step(f, (Step){STEP_END, .node = node});
    f->s->steps.data[first].target = middle;
    f->s->steps.data[middle].target = f->s->steps.data[end].target = end;
}

/* 1 + number of the symbol whose value the node finds, or 0. */
static uint32_t number_of_size(const Schedule *s, const Node *node)
{
    const Sym *size = sched_found_size(node);
    for (uint32_t i = 0; size && i < s->n_syms; i++)
        if (s->syms[i] == size)
            return i + 1;
    return 0;
}

static void emit_loop(Fuse *f, const Node *node, bool fused)
{
    const Region *body = node->region[0];
    bool fixed;
    Step step = {STEP_LOOP, .node = node};
    step.bound = control_trips(node, &fixed, &step.cut);
    step.size = number_of_size(f->s, node);
    step.counter = sched_storage_add(f->s, body->params.data[0]);
    step.go = control_word(f->s, node->in[1].val);
    step.trip = control_word(f->s, node->in[0].val);
    uint32_t first = add_step(f, step);
    f->depth++;
    group_region(f, node->region[0], fused);
    f->depth--;
    step = (Step){STEP_NEXT, .node = node, .counter = step.counter, .go = control_word(f->s, body->last->in[0].val), .target = first};
    uint32_t next = add_step(f, step); /* may move the steps */
    f->s->steps.data[first].target = next;
}

static void emit_found(Fuse *f, const Node *node)
{
    Step step = {STEP_SIZE, .node = node, .trip = control_word(f->s, ir_in(node, 0)), .size = number_of_size(f->s, node), .cut = true};
    int64_t low;
    dim_range(node_attr(node, AN_size)->u.dim, &low, &step.bound);
    step.target = f->s->steps.len;
    add_step(f, step);
}

static void emit_control(Fuse *f, const Node *node, bool fused)
{
    if (control_is_found(node)) {
        emit_found(f, node);
        return;
    }
    if (!control_is_ready(f->s, node))
        return;
    if (node->op == OP_loop) /* op-switch: structure */
        emit_loop(f, node, fused);
    else if (control_word(f->s, ir_in(node, 0)))
        emit_if(f, node, fused);
    else
        group_region(f, node->region[control_is_true(ir_in(node, 0)) ? 0 : 1], fused);
}

/* Copies at the end of a trip read nothing that one of them writes, so those of one shape share a kernel. */
static void add_last(Fuse *f, Node *copy, uint32_t first, bool fused)
{
    Schedule *s = f->s;
    for (uint32_t i = first; fused && i < s->groups.len; i++)
        if (same_shape(s->groups.data[i]->nodes.data[0]->out[0].type, copy->out[0].type)) {
            join(f, s->groups.data[i], copy);
            return;
        }
    new_group(f, copy);
}

/* ---- MAPs that need memory for each other only ----------------------------------------------------------------------- */

enum { MAP_NODES = 48 }; /* of a kernel: bounds its expressions */

static bool is_plain_map(const Node *node) { return op_info[node->op].kind == OK_MAP && node->n_out == 1 && !control_is_last(node); }

static bool used_only_by(const Fuse *f, const Group *g, const Val *val)
{
    const Use *use = val->uses;
    while (use && in_group(f, use->user) == g)
        use = use->next;
    return !use;
}

/* Whether the node, which is in no group, is computed elementwise from what a group of one MAP computes. */
static bool reads_a_map(const Fuse *f, const Node *node, int depth)
{
    bool reads = false;
    for (uint32_t i = 0; i < node->n_in && !reads; i++) {
        const Node *def = ir_in(node, i) ? ir_in(node, i)->def : NULL;
        if (def && is_plain_map(def) && same_shape(def->out[0].type, node->out[0].type))
            reads = in_group(f, def) ? in_group(f, def)->nodes.len == 1 : depth < INLINE_DEPTH && reads_a_map(f, def, depth + 1);
    }
    return reads;
}

/* Whether g can compute the node that it reads: nothing that g reads otherwise depends on it, nor it on g. */
static bool taking_keeps_acyclic(Fuse *f, const Group *g, const Node *node)
{
    f->stamp++;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (depends_walk(f, ir_in(node, i), g, NULL))
            return false;
    f->stamp++;
    for (uint32_t n = 0; n < g->nodes.len; n++) {
        const Node *member = g->nodes.data[n];
        for (uint32_t i = 0; i < member->n_in; i++) {
            const Node *def = ir_in(member, i) ? ir_in(member, i)->def : NULL;
            if (def && def != node && in_group(f, def) != g && depends_walk(f, ir_in(member, i), NULL, node))
                return false;
        }
    }
    return true;
}

/* A MAP that g reads elementwise and can compute: one that has a group of its own, or is between such and g. */
static Node *map_to_take(Fuse *f, const Group *g)
{
    for (uint32_t n = g->nodes.len; n-- > 0;)
        for (uint32_t i = 0; i < g->nodes.data[n]->n_in; i++) {
            const Val *in = ir_in(g->nodes.data[n], i);
            Node *def = in ? in->def : NULL;
            const Group *other = in_group(f, def);
            if (def && other != g && is_plain_map(def) && same_shape(in->type, g->nodes.data[0]->out[0].type) &&
                (other ? other->nodes.len == 1 : used_only_by(f, g, in) && reads_a_map(f, def, 0)) && taking_keeps_acyclic(f, g, def))
                return def;
        }
    return NULL;
}

static void drop_group(Schedule *s, const Group *g)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < s->groups.len; i++)
        if (s->groups.data[i] != g)
            s->groups.data[left++] = s->groups.data[i];
    s->groups.len = left;
}

/* A long elementwise chain that uses some of its values several times is one pass: the last of its groups takes those before it. */
static void merge_maps(Fuse *f, const Region *body)
{
    for (Node *node = body->last->prev; node; node = node->prev) {
        Group *g = in_group(f, node), *other;
        if (!g || g->nodes.len > 1 || !is_plain_map(node))
            continue;
        for (Node *next; g->nodes.len < MAP_NODES && (next = map_to_take(f, g));) {
            if ((other = in_group(f, next)))
                drop_group(f->s, other);
            join(f, g, next);
        }
    }
}

/* Groups of nodes without fusion, or grown from anchors. */
static void find_groups(Fuse *f, Region *body, bool fused)
{
    uint32_t first = f->s->groups.len;
    REGION_FOREACH(node, body)
        if (control_is_last(node))
            add_last(f, node, first, fused);
    if (!fused) {
        REGION_FOREACH(node, body)
            if (node != body->last && op_info[node->op].kind != OK_SOURCE && !in_group(f, node))
                new_group(f, node);
        return;
    }
    REGION_FOREACH(node, body)
        if (is_anchor(node) && !in_group(f, node))
            grow(f, new_group(f, node));
    REGION_FOREACH(node, body)
        if (op_info[node->op].kind == OK_CONTRACT)
            materialise_map_operands(f, node);
    /* A later decision can make an earlier node needed, so from the last to the first; growth goes forward. */
    for (Node *node = body->last->prev; node; node = node->prev)
        if (!in_group(f, node) && needs_memory(f, node))
            new_group(f, node);
    if (!f->options->eager) {
        merge_maps(f, body);
        return;
    }
    REGION_FOREACH(node, body)
        if (node != body->last && !in_group(f, node) && op_info[node->op].kind == OK_MAP)
            grow(f, new_group(f, node));
}

/* Appends the kernels of a region, with steps of control around those of its own regions. */
static void group_region(Fuse *f, Region *body, bool fused)
{
    Schedule *s = f->s;
    uint32_t first = s->groups.len;
    find_groups(f, body, fused);
    for (uint32_t i = 0; !body->node && i < func_n_out(s->func); i++) { /* outputs that are sources: a kernel writes them */
        Val *out = func_out(s->func, i);
        if (out->def && !in_group(f, out->def))
            new_group(f, out->def);
    }
    for (uint32_t i = first; i < s->groups.len; i++)
        find_memory(f, s->groups.data[i]);
    GroupVec order = order_groups(f, first);
    s->groups.len = first;
    for (uint32_t i = 0; i < order.len; i++) {
        Group *g = order.data[i];
        if (op_info[g->nodes.data[0]->op].kind == OK_CONTROL) {
            emit_control(f, g->nodes.data[0], fused);
            continue;
        }
        name_group(f, g);
        vec_push(s->arena, &s->groups, g);
    }
}

void sched_make_groups(Schedule *s, const PassOptions *options, bool fused)
{
    Fuse f = {.s = s, .options = options, .group_of = map_create(s->arena), .seen = map_create(s->arena),
              .names = map_create(s->arena)};
    s->group_of = f.group_of;
    control_bind(s, s->func->body);
    group_region(&f, s->func->body, fused);
}

bool pass_fuse(PassCtx *pc, Unit *unit)
{
    sched_make_groups(unit->schedule, pc->options, true);
    return true;
}
