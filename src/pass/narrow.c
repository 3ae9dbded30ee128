/* SPDX-License-Identifier: Apache-2.0
 *
 * narrow: where slices of a contraction's columns meet again elementwise (a gated unit, gelu(x W1) * (x W2), exported as one
 * product and a split), each slice becomes a contraction of its own with a slice of the constant operand. All of them and
 * what follows can then share a kernel (fuse.c), and the wide product is never in memory. Every element keeps its chain, so no
 * bit changes. Slices that do not meet (queries, keys and values) stay one product.
 */
#include "pass/pass.h"

enum { MAX_CHAIN = 8, MAX_PARTS = 4, MAX_REACHED = 48 };

typedef struct Part { /* columns [start, start + size) of the last axis */
    Node *slice;
    const Dim *start, *size;
} Part;

/* The free axis of the constant operand that gives the result its last axis; -1: not such a contraction. */
static int column_axis(const Node *dot)
{
    const int64_t *axes;
    const Val *rhs = ir_in(dot, 1);
    if (dot->op != OP_dot || !val_is_const_view(rhs)) /* op-switch: only dot has free axes */
        return -1;
    uint32_t taken = 0, n = node_ints(dot, AN_rhs_contract, &axes), free_axes = 0;
    for (uint32_t i = 0; i < n; i++)
        taken |= 1u << axes[i];
    n = node_ints(dot, AN_rhs_batch, &axes);
    for (uint32_t i = 0; i < n; i++)
        taken |= 1u << axes[i];
    int axis = -1;
    for (uint32_t i = 0; i < rhs->type->rank; i++)
        if (!(taken >> i & 1)) {
            axis = (int)i;
            free_axes++;
        }
    return free_axes == 1 ? axis : -1;
}

static bool is_one(const Dim *dim)
{
    int64_t size;
    return dim_is_const(dim, &size) && size == 1;
}

static bool is_map(const Node *node) { return op_info[node->op].kind == OK_MAP && node->n_out == 1; }

/* Whether val is a contraction behind MAPs whose other operands are constants: bias and scale. */
static bool is_narrowable(const Val *val, int depth)
{
    const Node *def = val->def;
    if (!def || depth > MAX_CHAIN || val->type->rank == 0)
        return false;
    if (!is_map(def))
        return column_axis(def) >= 0;
    const Val *inner = NULL;
    for (uint32_t i = 0; i < def->n_in; i++) {
        const Val *in = ir_in(def, i);
        if (!in || val_is_const_view(in))
            continue;
        if (inner || val_n_uses(in) != 1 || in->type->rank != val->type->rank)
            return false;
        inner = in;
    }
    return inner && inner->type->dim[val->type->rank - 1] == val->type->dim[val->type->rank - 1] && is_narrowable(inner, depth + 1);
}

/* val's columns of the part: the operands that have columns are cut, for a product that is its constant. */
static Val *emit_part(Builder *b, Val *val, const Part *part)
{
    Node *def = val->def;
    Val **in = ARENA_ARRAY(b->module->arena, Val *, def->n_in);
    bool is_dot = !is_map(def);
    uint32_t axis = is_dot ? (uint32_t)column_axis(def) : val->type->rank - 1;
    for (uint32_t i = 0; i < def->n_in; i++) {
        in[i] = ir_in(def, i);
        if (is_dot ? i != 1 : !in[i] || in[i]->type->rank != val->type->rank || is_one(in[i]->type->dim[axis]))
            continue;
        in[i] = val_is_const_view(in[i]) ? op_slice_axis(b, in[i], axis, part->start, part->size, 1) : emit_part(b, in[i], part);
        if (!in[i])
            return NULL;
    }
    b->loc = def->loc;
    return op_emit_interned(b, (Op)def->op, in, def->n_in, def->attr);
}

/* A slice of the last axis only, step 1. */
static bool is_part(Node *node, const Val *of, Part *part)
{
    if (node->op != OP_slice) /* op-switch: the op this pass is about */
        return false;
    const Dim *const *start, *const *size;
    const int64_t *step;
    uint32_t last = of->type->rank - 1;
    (void)node_dims(node, AN_start, &start);
    (void)node_dims(node, AN_size, &size);
    (void)node_ints(node, AN_step, &step);
    for (uint32_t i = 0; i <= last; i++)
        if (step[i] != 1 || (i < last && size[i] != of->type->dim[i]))
            return false;
    *part = (Part){node, start[last], size[last]};
    return true;
}

/* MAP nodes that are reached from val through MAPs of the same size. */
static uint32_t reached_maps(const Val *val, const Node **reached)
{
    uint32_t n = 0;
    for (uint32_t at = 0; at <= n; at++) {
        const Val *from = at == 0 ? val : &reached[at - 1]->out[0];
        for (const Use *use = from->uses; use && n < MAX_REACHED; use = use->next) {
            bool known = !is_map(use->user) || use->user->out[0].type->rank != val->type->rank;
            for (uint32_t i = 0; i < val->type->rank && !known; i++)
                known = use->user->out[0].type->dim[i] != val->type->dim[i];
            for (uint32_t i = 0; i < n && !known; i++)
                known = reached[i] == use->user;
            if (!known)
                reached[n++] = use->user;
        }
    }
    return n;
}

static bool meets(const Part *a, const Part *b)
{
    const Node *from_a[MAX_REACHED], *from_b[MAX_REACHED];
    uint32_t n_a = reached_maps(&a->slice->out[0], from_a), n_b = reached_maps(&b->slice->out[0], from_b);
    for (uint32_t i = 0; i < n_a; i++)
        for (uint32_t j = 0; j < n_b; j++)
            if (from_a[i] == from_b[j])
                return true;
    return false;
}

/* The slices of val's columns if these, without overlap, are all its uses and meet; else 0. */
static uint32_t find_parts(const Val *val, Part *parts)
{
    uint32_t n = 0;
    int64_t start[MAX_PARTS], size[MAX_PARTS];
    for (const Use *use = val->uses; use; use = use->next, n++) {
        if (n == MAX_PARTS || !is_part(use->user, val, &parts[n]) || !dim_is_const(parts[n].start, &start[n]) ||
            !dim_is_const(parts[n].size, &size[n]) || (n && size[n] != size[0]) || (n && !meets(&parts[0], &parts[n])))
            return 0;
        for (uint32_t i = 0; i < n; i++)
            if (start[i] < start[n] + size[n] && start[n] < start[i] + size[i])
                return 0;
    }
    return n;
}

static bool narrow_node(Node *node)
{
    Part parts[MAX_PARTS];
    uint32_t n = node->n_out == 1 && is_narrowable(&node->out[0], 0) ? find_parts(&node->out[0], parts) : 0;
    for (uint32_t i = 0; n > 1 && i < n; i++) {
        Builder b = ir_before_node(parts[i].slice, node->loc);
        Val *val = emit_part(&b, &node->out[0], &parts[i]);
        if (!val)
            return false;
        ir_replace_all(&parts[i].slice->out[0], val);
    }
    return n > 1;
}

bool pass_narrow(PassCtx *pc, Unit *unit)
{
    (void)pc;
    return pass_each_node(unit->module, narrow_node);
}
