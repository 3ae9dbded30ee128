/* SPDX-License-Identifier: Apache-2.0
 *
 * Control: the regions of `if` and `loop` in a schedule. Their nodes become kernels in place, with steps of control between them
 * (sched.h: Step). Regions are closed, so all that is left are the values at their borders:
 *
 *   captured     a parameter stands for the operand outside; nothing is copied, and a constant stays one
 *   scanned      an element is a load of the operand at the trip counter
 *   counter      a word of the workspace, written by the steps
 *   carried      has one place: that of the loop's result. A copy before the loop fills it; copies at the end of a trip fill it again,
 *                after all else, since values of the next trip may be computed from any of this one
 *   stacked      a copy at the end of a trip stores the element into the result at the counter
 *   of a branch  the value yielded lies in the place of the result
 *
 * The copies are nodes (stop_gradient, the identity), made once here, so that kernels of all other passes need to know nothing.
 */
#include "sched/sched_int.h"

#include <string.h>

/* A loop without a trip count that runs this long is cut with an error, as in the reference evaluator. */
#define MOST_STEPS (INT64_C(1) << 20)

static bool is_loop(const Node *node) { return node && node->op == OP_loop; } /* op-switch: structure */
static bool is_if(const Node *node) { return node && node->op == OP_if; }     /* op-switch: structure */

typedef struct LoopForm {
    uint32_t n_carried, n_scanned, n_stacked;
} LoopForm;

static LoopForm form_of(const Node *loop)
{
    LoopForm f = {(uint32_t)node_int(loop, AN_n_carried), (uint32_t)node_int(loop, AN_n_scanned), 0};
    f.n_stacked = loop->n_out - f.n_carried;
    return f;
}

const Val *control_origin(const Val *val, const Val **counter)
{
    *counter = NULL;
    for (const Val *outer; !val->def && val->region->node; val = outer) {
        const Node *owner = val->region->node;
        if ((outer = op_captured(val)))
            continue;
        if (val->out <= form_of(owner).n_carried)
            return val;
        *counter = owner->region[0]->params.data[0]; /* an operand of a scan is never scanned itself: see add_loop_copies */
        const Val *none;
        return control_origin(ir_in(owner, 1 + val->out), &none);
    }
    return val;
}

/* ---- copies ----------------------------------------------------------------------------------------------------------------------- */

static bool is_copy(const Val *val)
{
    return val->def && val->def->op == OP_stop_gradient && val_n_uses(val) == 1; /* op-switch: the identity */
}

static void copy_operand(Schedule *s, Node *node, uint32_t i)
{
    Val *val = ir_in(node, i);
    Builder b = ir_before_node(node, node->op == OP_yield && val->def ? val->def->loc : node->loc); /* op-switch: structure */
    Node *copy = ir_emit(&b, OP_stop_gradient, &val, 1, attrs_make(s->ctx, NULL, 0), &val->type, 1);
    ir_set_in(node, i, &copy->out[0]);
}

static bool is_source(const Val *val) { return val->def && op_info[val->def->op].kind == OK_SOURCE; }

/* Has no place of its own: a constant, or an element of what a loop scans. */
static bool has_no_place(const Val *val)
{
    const Val *counter;
    val = control_origin(val, &counter);
    return counter || is_source(val);
}

/* A value that copies at the end of a trip overwrite. */
static bool is_carried(const Val *val)
{
    const Node *owner = val->def ? NULL : val->region->node;
    return is_loop(owner) && val->out >= 1 && val->out <= form_of(owner).n_carried;
}

static bool is_known(const Val *val)
{
    const Val *counter;
    return !val || val_const(control_origin(val, &counter));
}

/* A word that a step reads. */
static void copy_word(Schedule *s, Node *node, uint32_t i)
{
    if (!is_known(ir_in(node, i)) && has_no_place(ir_in(node, i)))
        copy_operand(s, node, i);
}

/* A loop over scanned operands whose length only the run knows: it is the trip count. */
static void add_trip(Schedule *s, Node *loop)
{
    LoopForm f = form_of(loop);
    const Dim *trips = NULL;
    for (uint32_t i = 0; i < f.n_scanned; i++) {
        const Dim *size = ir_in(loop, 2 + f.n_carried + i)->type->dim[0];
        trips = trips ? dim_min(s->ctx, trips, size) : size;
    }
    if (loop->in[0].val || !trips || dim_is_const(trips, NULL))
        return;
    Builder b = ir_before_node(loop, loop->loc);
    ir_set_in(loop, 0, op_dimval(&b, trips));
}

static void add_loop_copies(Schedule *s, Node *loop)
{
    LoopForm f = form_of(loop);
    Node *yield = loop->region[0]->last;
    const Val *counter;
    add_trip(s, loop);
    for (uint32_t i = 0; i < 2; i++)
        if (loop->in[i].val)
            copy_word(s, loop, i);
    for (uint32_t i = 0; i < f.n_carried; i++)
        if (!is_copy(ir_in(loop, 2 + i)))
            copy_operand(s, loop, 2 + i);
    for (uint32_t i = 0; i < f.n_scanned; i++) {
        (void)control_origin(ir_in(loop, 2 + f.n_carried + i), &counter);
        if (counter)
            copy_operand(s, loop, 2 + f.n_carried + i);
    }
    if (!is_known(yield->in[0].val) && (is_carried(ir_in(yield, 0)) || has_no_place(ir_in(yield, 0))))
        copy_operand(s, yield, 0);
    for (uint32_t i = 1; i < yield->n_in; i++) {
        bool done = is_copy(ir_in(yield, i)) && !is_carried(ir_in(ir_in(yield, i)->def, 0));
        if (done)
            continue;
        if (is_carried(ir_in(yield, i))) /* all copies happen at once: what they overwrite is saved before */
            copy_operand(s, yield, i);
        copy_operand(s, yield, i);
    }
}

static void add_if_copies(Schedule *s, Node *node)
{
    copy_word(s, node, 0);
    for (uint32_t r = 0; r < node->n_region; r++) {
        Node *yield = node->region[r]->last;
        for (uint32_t i = 0; i < yield->n_in; i++) {
            const Val *val = ir_in(yield, i);
            bool shared = !val->def || is_source(val);
            for (uint32_t j = 0; j < i; j++)
                shared |= ir_in(yield, j) == val;
            if (shared)
                copy_operand(s, yield, i);
        }
    }
}

void control_add_copies(Schedule *s, Region *body)
{
    for (Node *node = body->first; node; node = node->next) {
        if (is_loop(node))
            add_loop_copies(s, node);
        else if (is_if(node))
            add_if_copies(s, node);
        else if (control_is_found(node) && (is_known(ir_in(node, 0)) || has_no_place(ir_in(node, 0))))
            copy_operand(s, node, 0); /* a word that a step reads */
        for (uint32_t r = 0; r < node->n_region; r++)
            control_add_copies(s, node->region[r]);
    }
}

/* The loop at the end of whose trips the node copies, or NULL; *at: which operand of the yield. */
static const Node *loop_of_copy(const Node *node, uint32_t *at)
{
    if (!is_loop(node->parent->node) || node->n_out != 1 || !is_copy(&node->out[0]))
        return NULL;
    const Use *use = node->out[0].uses;
    *at = (uint32_t)(use - use->user->in);
    return use->user == node->parent->last && *at > 0 ? node->parent->node : NULL;
}

bool control_is_last(const Node *node)
{
    uint32_t at;
    return loop_of_copy(node, &at) != NULL;
}

const Val *control_stack(const Node *copy)
{
    uint32_t at;
    const Node *loop = loop_of_copy(copy, &at);
    return loop && at > form_of(loop).n_carried ? loop->region[0]->params.data[0] : NULL;
}

/* ---- places ------------------------------------------------------------------------------------------------------------------------ */

void control_bind(Schedule *s, const Region *region)
{
    REGION_FOREACH(node, region) {
        if (!is_loop(node) && !is_if(node))
            continue;
        for (uint32_t i = 0; i < node->n_out; i++) {
            Storage *st = sched_storage_add(s, &node->out[i]);
            st->merged = true;
            if (is_loop(node)) {
                if (i < form_of(node).n_carried) {
                    map_set(s->storage_of, ir_in(node, 2 + i)->id, st);
                    map_set(s->storage_of, node->region[0]->params.data[1 + i]->id, st);
                }
                map_set(s->storage_of, ir_in(node->region[0]->last, 1 + i)->id, st);
            }
            for (uint32_t r = 0; is_if(node) && r < node->n_region; r++)
                map_set(s->storage_of, ir_in(node->region[r]->last, i)->id, st);
        }
        if (is_loop(node))
            sched_storage_add(s, node->region[0]->params.data[0])->merged = true;
        for (uint32_t r = 0; r < node->n_region; r++)
            control_bind(s, node->region[r]);
    }
}

Storage *control_word(Schedule *s, const Val *val)
{
    const Val *counter;
    if (is_known(val))
        return NULL;
    return sched_storage_add(s, control_origin(val, &counter));
}

/* ---- trips --------------------------------------------------------------------------------------------------------------------------- */

/* The symbol, of those that a run finds, that is the first size of what the loop stacks. */
static const Sym *stacked_size(const Node *node)
{
    const Sym *sym = NULL;
    if (is_loop(node) && node->n_out > form_of(node).n_carried)
        sym = dim_as_sym(node->out[node->n_out - 1].type->dim[0]);
    return sym && sym->unbacked ? sym : NULL;
}

/* Where a trip count comes from, behind copies of it. */
static const Val *trip_origin(const Node *loop, const Val **counter)
{
    const Val *val = loop->in[0].val;
    while (val && val->def && val->def->op == OP_stop_gradient) /* op-switch: the identity */
        val = ir_in(val->def, 0);
    *counter = NULL;
    return val ? control_origin(val, counter) : NULL;
}

/* Whether the trip count alone says how often a loop goes round. */
static bool is_counted(const Node *loop)
{
    return loop->in[0].val && form_of(loop).n_scanned == 0 && control_is_true(loop->in[1].val) &&
           control_is_true(loop->region[0]->last->in[0].val);
}

static bool same_trips(const Node *a, const Node *b)
{
    const Val *counter[2];
    return is_counted(a) && is_counted(b) && trip_origin(a, &counter[0]) == trip_origin(b, &counter[1]) && counter[0] == counter[1];
}

/* Whether the size that a loop stacks was found before, and it makes exactly so many trips: the size is its trip count, or that of a
 * loop before it, in its region or around it, is the same. */
static bool was_found(const Node *loop, const Sym *sym)
{
    const Val *counter;
    uint32_t count = 0;
    const Dim *const *trip = is_counted(loop) ? op_content(trip_origin(loop, &counter), &count) : NULL;
    if (count == 1 && dim_as_sym(trip[0]) == sym)
        return true;
    for (const Node *at = loop; at; at = at->parent->node)
        for (const Node *before = at->prev; before; before = before->prev)
            if (stacked_size(before) == sym && same_trips(before, loop))
                return true;
    return false;
}

bool control_is_found(const Node *node) { return node->op == OP_found; } /* op-switch: structure */

const Sym *sched_found_size(const Node *node)
{
    if (control_is_found(node))
        return dim_as_sym(node_attr(node, AN_size)->u.dim);
    const Sym *sym = stacked_size(node);
    return sym && node_finds(node, sym) && !was_found(node, sym) ? sym : NULL;
}

bool control_is_true(const Val *val)
{
    const Val *counter;
    const Weight *weight = val ? val_const(control_origin(val, &counter)) : NULL;
    return !val || (weight && *(const uint8_t *)weight->data);
}

static bool is_false(const Val *val) { return is_known(val) && !control_is_true(val); }

int64_t control_trips(const Node *loop, bool *fixed, bool *cut)
{
    LoopForm f = form_of(loop);
    int64_t most = INT64_MAX;
    const Val *counter, *trip = loop->in[0].val, *again = loop->region[0]->last->in[0].val;
    const Sym *found = stacked_size(loop);
    const Weight *weight = trip ? val_const(control_origin(trip, &counter)) : NULL;
    *fixed = control_is_true(loop->in[1].val) && control_is_true(again);
    if (weight) { /* in a file, so at any address */
        memcpy(&most, weight->data, sizeof most);
        most = most > 0 ? most : 0;
    } else if (trip) {
        *fixed = false;
    }
    for (uint32_t i = 0; i < f.n_scanned; i++) {
        int64_t size = type_bound(ir_in(loop, 2 + f.n_carried + i)->type, 0);
        most = size < most ? size : most;
    }
    if (is_false(loop->in[1].val))
        most = 0;
    else if (is_false(again))
        most = most < 1 ? most : 1;
    *fixed &= most < INT64_MAX;
    int64_t limit = trip ? INT64_MAX : MOST_STEPS;
    limit = found && found->hi < limit ? found->hi : limit;
    *cut = limit < most;
    return *cut ? limit : most;
}

/* Whether the trips of a loop are as many as the dim says. */
static bool gives_size(Context *ctx, const Node *loop, const Dim *dim)
{
    uint32_t count = 0;
    const Sym *sym = stacked_size(loop);
    const Val *counter, *again = loop->region[0]->last->in[0].val;
    const Dim *const *trip = loop->in[0].val ? op_content(control_origin(loop->in[0].val, &counter), &count) : NULL;
    if (sym && dim == dim_sym(ctx, sym) && (node_finds(loop, sym) || was_found(loop, sym)))
        return true;
    return count == 1 && control_is_true(loop->in[1].val) && control_is_true(again) &&
           dim_eq(dim, dim_max(ctx, trip[0], dim_const(ctx, 0))) == TRI_YES;
}

bool control_is_ready(Schedule *s, const Node *node)
{
    LowerArgs args = {.k = kernel_create(s->ctx, s->arena, "control"), .node = node};
    kernel_sizes(args.k, s->syms, s->n_syms);
    if (!lower_ready(&args))
        return false;
    if (!is_loop(node))
        return true;
    LoopForm f = form_of(node);
    bool fixed, cut;
    int64_t most = control_trips(node, &fixed, &cut), size;
    for (uint32_t i = f.n_carried; i < node->n_out; i++) {
        const Dim *dim = node->out[i].type->dim[0];
        if (dim_is_const(dim, &size) ? size != most || (!fixed && most) : !gives_size(s->ctx, node, dim))
            return lower_fail(&args, "how many elements it stacks depends on the run, but not its type");
    }
    return true;
}
