/* SPDX-License-Identifier: Apache-2.0
 * fold: a node whose operands are constants is evaluated by ref32, the contract's own evaluator, so nothing changes but
 * the time of day. Results larger than FOLD_BYTES stay (a broadcast constant would only grow the artifact); a node that
 * makes more bytes than it reads stays unless it is small. What stays so is still a constant to the opaque ops that read it (a
 * scatter into zeros), since they need it in memory. A weight that is only rearranged on its way to contractions stays as
 * well, unless it is small: they read it packed, and the pack is made of the original while that is streamed to the artifact, so
 * its bytes are never copied. */
#include "pass/pass.h"

enum { FOLD_BYTES = 64 << 20, SMALL_BYTES = 1 << 12, PACK_BYTES = 1 << 16 };

static bool is_rearrangement(const Node *node)
{
    uint64_t in, out;
    return op_info[node->op].kind == OK_INDEX && node->n_in == 1 && type_count(node->out[0].type, &out) &&
           type_count(ir_in(node, 0)->type, &in) && in == out;
}

static bool only_contracted(const Val *val)
{
    for (const Use *use = val->uses; use; use = use->next)
        if (op_info[use->user->op].kind != OK_CONTRACT &&
            !(is_rearrangement(use->user) && only_contracted(&use->user->out[0])))
            return false;
    return val->uses != NULL;
}

static bool is_number(void *user, const Dim *dim)
{
    (void)user;
    return dim_is_const(dim, NULL);
}

static bool is_constant(const Node *user, const Val *val)
{
    uint64_t bytes;
    if (val_const(val) || op_info[user->op].kind != OK_OPAQUE || !val_is_const_view(val))
        return val_const(val) != NULL;
    for (; !val_const(val); val = ir_in(val->def, 0))
        if (!attrs_all_dims(val->def->attr, is_number, NULL) || !type_bytes(val->type, &bytes) || bytes > FOLD_BYTES)
            return false;
    return true;
}

static bool is_foldable(const Node *node)
{
    uint64_t in_bytes = 0, out_bytes = 0, bytes;
    if (node->n_in == 0 || !attrs_all_dims(node->attr, is_number, NULL) || node->n_region || node->op == OP_call ||
        (op_info[node->op].traits & OT_PINNED))
        return false;
    for (uint32_t i = 0; i < node->n_in; i++) {
        const Val *in = node->in[i].val;
        if (in && !is_constant(node, in))
            return false;
        if (in && type_bytes(in->type, &bytes))
            in_bytes += bytes;
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (!type_bytes(node->out[i].type, &bytes))
            return false;
        out_bytes += bytes;
    }
    if (out_bytes > PACK_BYTES && is_rearrangement(node) && only_contracted(&node->out[0]))
        return false;
    return out_bytes <= FOLD_BYTES && (out_bytes <= in_bytes || out_bytes <= SMALL_BYTES);
}

static Tensor *tensor_of(Arena *arena, const Weight *weight)
{
    Tensor *t = ARENA_NEW(arena, Tensor);
    t->dtype = t->store = weight->type->dtype;
    t->rank = weight->type->rank;
    for (uint32_t i = 0; i < t->rank; i++)
        t->dim[i] = type_dim(weight->type, i);
    (void)type_count(weight->type, &t->count);
    t->data = (void *)(uintptr_t)weight->data;
    return t;
}

/* The value of a constant or of a view of one; NULL: it has none. */
static Tensor *value_of(PassCtx *pc, const Val *val)
{
    if (val_const(val))
        return tensor_of(pc->tmp, val_const(val));
    Tensor *in = value_of(pc, ir_in(val->def, 0)), *out = NULL;
    return in && eval_node_const(pc->ctx, pc->tmp, val->def, &in, &out) ? out : NULL;
}

static bool fold_node(PassCtx *pc, Module *module, Node *node)
{
    Tensor **in = ARENA_ARRAY(pc->tmp, Tensor *, node->n_in + 1), **out = ARENA_ARRAY(pc->tmp, Tensor *, node->n_out + 1);
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = node->in[i].val ? value_of(pc, node->in[i].val) : NULL;
        if (node->in[i].val && !in[i])
            return false;
    }
    if (!eval_node_const(pc->ctx, pc->tmp, node, in, out))
        return false;
    Builder b = ir_before_node(node, loc_from(pc->ctx, node->loc, "fold"));
    for (uint32_t i = 0; i < node->n_out; i++) {
        Str name = str_format(pc->ctx, "%s_folded_%u_%u", loc_name(pc->ctx, node->loc), node->id, i);
        Weight *weight = module_weight(module, name, node->out[i].type, out[i]->data, true);
        ir_replace_all(&node->out[i], op_const_weight(&b, weight));
    }
    ir_erase(node);
    return true;
}

bool pass_fold(PassCtx *pc, Unit *unit)
{
    bool changed = false;
    for (uint32_t i = 0; i < unit->module->funcs.len; i++) {
        Region *body = unit->module->funcs.data[i]->body;
        for (Node *node = body->first, *next; node; node = next) {
            next = node->next;
            if (is_foldable(node))
                changed |= fold_node(pc, unit->module, node);
        }
    }
    return changed;
}
