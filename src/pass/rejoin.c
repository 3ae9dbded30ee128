/* SPDX-License-Identifier: Apache-2.0
 *
 * rejoin: elementwise work between a reshape and the one that undoes it is done in the shape outside, so that rows stay in place
 * and fuse.c sees one row from end to end. Shifted windows (swin) add a mask a window to scores in between:
 *
 *   a = reshape s : [batch * windows, heads, T, T] -> [batch, windows, heads, T, T]
 *   b = add a, mask                                               ->  b = add s, (mask as [batch * windows, 1, T, T])
 *   c = reshape b : [batch, windows, ..] -> [batch * windows, ..]
 *
 * The other operand is stretched where axes that become one have it in part only, and reshaped: changes of indices, not copies.
 */
#include "pass/pass.h"

enum { MAX_DEPTH = 8 };

/* Axes [outer, outer_end) of one shape hold the positions of axes [inner, inner_end) of the other. */
typedef struct Run {
    uint32_t outer, outer_end, inner, inner_end;
} Run;
typedef struct Runs {
    const Type *outer, *inner;
    Run run[2 * IR_MAX_RANK];
    uint32_t n;
} Runs;

static bool has_shape(const Type *type, const Type *like)
{
    bool same = type->rank == like->rank;
    for (uint32_t i = 0; i < type->rank && same; i++)
        same = type->dim[i] == like->dim[i];
    return same;
}

static bool find_runs(Context *ctx, Runs *r)
{
    const Type *outer = r->outer, *inner = r->inner;
    for (uint32_t i = 0, j = 0; i < outer->rank || j < inner->rank; r->n++) {
        Run *run = &r->run[r->n];
        run->outer = i;
        run->inner = j;
        const Dim *a = i < outer->rank ? outer->dim[i++] : dim_const(ctx, 1), *b = j < inner->rank ? inner->dim[j++] : dim_const(ctx, 1);
        while (a != b) {
            if (j < inner->rank && (i == outer->rank || dim_le(b, a) == TRI_YES))
                b = dim_mul(ctx, b, inner->dim[j++]);
            else if (i < outer->rank)
                a = dim_mul(ctx, a, outer->dim[i++]);
            else
                return false;
        }
        run->outer_end = i;
        run->inner_end = j;
    }
    return true;
}

static bool is_reshape_of(const Val *val, const Type *outer)
{
    return val && val->def && val->def->op == OP_reshape && has_shape(ir_in(val->def, 0)->type, outer); /* op-switch: what this is about */
}

static bool can_rejoin(const Runs *r, const Val *val, int depth);

/* A node between the reshapes that may move: nobody else reads it, and its other operands are constant or smaller, so that no
 * other value of this size would change its shape for it. */
static bool can_move(const Runs *r, const Val *val, int depth)
{
    const Node *def = val->def;
    bool found = false;
    if (!def || depth == MAX_DEPTH || op_info[def->op].kind != OK_MAP || def->n_out != 1 || val_n_uses(val) != 1 || val_is_output(val) ||
        !has_shape(val->type, r->inner))
        return false;
    for (uint32_t i = 0; i < def->n_in; i++) {
        const Val *in = ir_in(def, i);
        if (can_rejoin(r, in, depth + 1))
            found = true;
        else if (!in || in->type->rank != r->inner->rank || (has_shape(in->type, r->inner) && !val_is_const_view(in)))
            return false;
    }
    return found;
}

static bool can_rejoin(const Runs *r, const Val *val, int depth) { return is_reshape_of(val, r->outer) || can_move(r, val, depth); }

/* An operand of a moved node, whose axes have the size of the inner shape or 1, as it fits the outer shape. */
static Val *fitted(Builder *b, const Runs *r, Val *val)
{
    const Dim *one = dim_const(b->module->ctx, 1), *whole[IR_MAX_RANK], *dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < r->n; i++) {
        const Run *run = &r->run[i];
        bool any = false;
        for (uint32_t a = run->inner; a < run->inner_end; a++)
            any |= val->type->dim[a] != one;
        for (uint32_t a = run->inner; a < run->inner_end; a++)
            whole[a] = any ? r->inner->dim[a] : one;
        for (uint32_t a = run->outer; a < run->outer_end; a++)
            dims[a] = any ? r->outer->dim[a] : one;
    }
    return op_reshape(b, op_broadcast(b, val, r->inner->rank, whole), r->outer->rank, dims);
}

static Val *rejoined(Builder *b, const Runs *r, Val *val)
{
    Node *def = val->def;
    if (is_reshape_of(val, r->outer))
        return ir_in(def, 0);
    Val **in = ARENA_ARRAY(b->module->arena, Val *, def->n_in);
    for (uint32_t i = 0; i < def->n_in; i++) {
        in[i] = can_rejoin(r, ir_in(def, i), 0) ? rejoined(b, r, ir_in(def, i)) : fitted(b, r, ir_in(def, i));
        if (!in[i])
            return NULL;
    }
    b->loc = def->loc;
    return op_emit_interned(b, (Op)def->op, in, def->n_in, def->attr);
}

static bool rejoin_node(Node *node)
{
    if (node->op != OP_reshape) /* op-switch: what this is about */
        return false;
    Runs r = {.outer = node->out[0].type, .inner = ir_in(node, 0)->type};
    if (!can_move(&r, ir_in(node, 0), 0))
        return false;
    Builder b = ir_before_node(node, node->loc);
    Val *val = find_runs(b.module->ctx, &r) ? rejoined(&b, &r, ir_in(node, 0)) : NULL;
    if (!val || val->type != node->out[0].type)
        return false;
    ir_replace_all(&node->out[0], val);
    ir_erase(node);
    return true;
}

bool pass_rejoin(PassCtx *pc, Unit *unit)
{
    (void)pc;
    return pass_each_node(unit->module, rejoin_node);
}
