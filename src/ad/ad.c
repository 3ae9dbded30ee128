/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver of reverse mode.
 *
 *   clone      the primal into a new function; calls are inlined
 *   activate   mark what depends on a wrt value through floats; replace active composites without a rule of their own
 *              by their bodies, until none is left
 *   walk       backwards over the primal nodes; a value's gradient is complete when its node is reached, since every
 *              user lies behind it. Contributions are added in reverse use order, the last operand of the last user first
 *   finish     yield kept outputs and gradients, erase what nobody reads
 *
 * A gradient that does not exist is NULL, a symbolic zero, and becomes a tensor of zeros only if it is asked for.
 */
#include "ad/ad.h"

#include <string.h>

/* A constant that is differentiated. Constants of equal bytes are one weight, and bodies bring their own, so the uses
 * that the primal makes are led through a node of their own (stop_gradient) until the end. */
typedef struct Leaf {
    Node *node;
    const Weight *weight;
} Leaf;

typedef struct Ad {
    Context *ctx;
    Module *module;
    const AdRequest *request;
    Func *func;
    Arena *tmp;
    Map *vals;        /* KEY(primal value) -> value of the clone */
    Map *active;      /* value id -> non-NULL */
    Map *grads;       /* value id -> gradient so far */
    VEC(Val *) outs;  /* clones of func's outputs */
    VEC(AttrVal) wrt; /* AK_INT: parameter index; AK_WEIGHT */
    VEC(Leaf) leaves;
    VEC(Node *) nodes; /* the primal part, in order */
} Ad;

/* ---- names of the request ------------------------------------------------------------------------------------ */

static int64_t find_name(const Str *names, uint32_t n, Str name)
{
    for (uint32_t i = 0; i < n; i++)
        if (names[i] && strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static int64_t find_output(const Ad *ad, Str name)
{
    const Func *func = ad->request->func;
    int64_t i = find_name(func->out_names, func_n_out(func), name);
    if (i < 0)
        diag_report(ad->ctx, func->body->last->loc, DIAG_ad_output, func->name, name);
    return i;
}

static Str type_text(const Ad *ad, const Type *type)
{
    Text text;
    text_init(&text, ad->tmp);
    type_print(&text, type);
    return str_intern(ad->ctx, text.data);
}

static bool is_float_tensor(const Type *type) { return type->kind == TY_TENSOR && dtype_is_float(type->dtype); }

static Weight *find_weight(const Ad *ad, Str name)
{
    for (uint32_t i = 0; i < ad->module->weights.len; i++)
        if (ad->module->weights.data[i]->name && strcmp(ad->module->weights.data[i]->name, name) == 0)
            return ad->module->weights.data[i];
    return NULL;
}

static bool resolve_wrt(Ad *ad)
{
    const AdRequest *r = ad->request;
    const Region *body = r->func->body;
    Loc loc = body->last->loc;
    bool ok = true;
    for (uint32_t i = 0; !r->n_wrt && i < body->params.len; i++)
        if (is_float_tensor(body->params.data[i]->type))
            vec_push(ad->tmp, &ad->wrt, attr_int(i));
    for (uint32_t i = 0; i < r->n_wrt; i++) {
        int64_t param = find_name(r->func->in_names, body->params.len, r->wrt[i]);
        Weight *weight = param < 0 ? find_weight(ad, r->wrt[i]) : NULL;
        const Type *type = param >= 0 ? body->params.data[param]->type : weight ? weight->type : NULL;
        if (!type)
            ok = diag_report(ad->ctx, loc, DIAG_ad_wrt, r->wrt[i], r->func->name);
        else if (!is_float_tensor(type))
            ok = diag_report(ad->ctx, loc, DIAG_ad_wrt_type, r->wrt[i], type_text(ad, type));
        else
            vec_push(ad->tmp, &ad->wrt, weight ? attr_weight(weight) : attr_int(param));
    }
    return ok;
}

/* ---- clone ------------------------------------------------------------------------------------------------------ */

static Val *cloned(const Ad *ad, const Val *val) { return val ? map_get(ad->vals, KEY(val)) : NULL; }

static bool clone_body(Ad *ad, const Region *from, Region *to, uint32_t depth);

static bool clone_node(Ad *ad, const Node *node, Region *to, uint32_t depth)
{
    Val **in = ARENA_ARRAY(ad->tmp, Val *, node->n_in);
    const Type **types = ARENA_ARRAY(ad->tmp, const Type *, node->n_out);
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = cloned(ad, ir_in(node, i));
    for (uint32_t i = 0; i < node->n_out; i++)
        types[i] = node->out[i].type;
    Builder b = ir_at_end(to, node->loc);
    Node *copy = ir_emit(&b, (Op)node->op, in, node->n_in, node->attr, types, node->n_out);
    for (uint32_t i = 0; i < node->n_out; i++)
        map_set(ad->vals, KEY(&node->out[i]), &copy->out[i]);
    for (uint32_t r = 0; r < node->n_region; r++) {
        const Region *inner = node->region[r];
        Region *region = ir_add_region(copy);
        for (uint32_t i = 0; i < inner->params.len; i++)
            map_set(ad->vals, KEY(inner->params.data[i]), region_param(region, inner->params.data[i]->type));
        if (!clone_body(ad, inner, region, depth + 1) || !clone_node(ad, inner->last, region, depth + 1))
            return false;
    }
    return true;
}

/* The callee's body in place of the call. */
static bool inline_call(Ad *ad, const Node *node, Region *to, uint32_t depth)
{
    const Func *callee = node_attr(node, AN_func)->u.func;
    if (depth >= IR_MAX_NESTING)
        return diag_report(ad->ctx, node->loc, DIAG_ad_nondiff, op_info[node->op].name);
    for (uint32_t i = 0; i < callee->body->params.len; i++)
        map_set(ad->vals, KEY(callee->body->params.data[i]), cloned(ad, ir_in(node, i)));
    if (!clone_body(ad, callee->body, to, depth + 1))
        return false;
    for (uint32_t i = 0; i < node->n_out; i++)
        map_set(ad->vals, KEY(&node->out[i]), cloned(ad, func_out(callee, i)));
    return true;
}

/* Everything but the yield. */
static bool clone_body(Ad *ad, const Region *from, Region *to, uint32_t depth)
{
    for (const Node *node = from->first; node && node != from->last; node = node->next)
        if (!(node->op == OP_call ? inline_call(ad, node, to, depth) : clone_node(ad, node, to, depth)))
            return false;
    return true;
}

static bool clone_primal(Ad *ad)
{
    const Func *from = ad->request->func;
    if (module_find_func(ad->module, ad->request->name))
        return diag_report(ad->ctx, from->body->last->loc, DIAG_ad_name, ad->request->name);
    ad->func = module_func(ad->module, ad->request->name, true);
    for (uint32_t i = 0; i < from->body->params.len; i++) {
        const Val *param = from->body->params.data[i];
        map_set(ad->vals, KEY(param), func_param(ad->func, from->in_names[i], param->type));
    }
    if (!clone_body(ad, from->body, ad->func->body, 0))
        return false;
    for (uint32_t i = 0; i < func_n_out(from); i++)
        vec_push(ad->tmp, &ad->outs, cloned(ad, func_out(from, i)));
    return true;
}

/* ---- activity --------------------------------------------------------------------------------------------------- */

static void add_leaves(Ad *ad)
{
    for (Node *node = ad->func->body->first; node; node = node->next)
        for (uint32_t i = 0; node->op == OP_const && i < ad->wrt.len; i++) {
            if (ad->wrt.data[i].kind != AK_WEIGHT || ad->wrt.data[i].u.weight != node_weight(node, AN_weight))
                continue;
            Builder b = ir_before_node(node->next, node->loc);
            Val *value = ir_out(node, 0);
            const Type *type = value->type;
            Leaf leaf = {ir_emit(&b, OP_stop_gradient, &value, 1, attrs_make(ad->ctx, NULL, 0), &type, 1),
                         node_weight(node, AN_weight)};
            ir_replace_all(value, ir_out(leaf.node, 0));
            ir_set_in(leaf.node, 0, value);
            vec_push(ad->tmp, &ad->leaves, leaf);
            break;
        }
}

static void remove_leaves(Ad *ad)
{
    for (uint32_t i = 0; i < ad->leaves.len; i++) {
        Node *node = ad->leaves.data[i].node;
        ir_replace_all(ir_out(node, 0), ir_in(node, 0));
        ir_erase(node);
    }
}

static bool is_active(const Ad *ad, const Val *val) { return val && map_get(ad->active, val->id); }

static bool node_active(const Ad *ad, const Node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (is_active(ad, ir_in(node, i)))
            return true;
    return false;
}

/* A tensor without elements hands nothing on, and rules that index into it would have nowhere to point. */
static void activate(Ad *ad, const Val *val)
{
    uint64_t count;
    if (val->type->kind != TY_TENSOR || !type_count(val->type, &count) || count > 0)
        map_set(ad->active, val->id, ad);
}

static void mark(Ad *ad)
{
    ad->active = map_create(ad->tmp);
    for (uint32_t i = 0; i < ad->wrt.len; i++)
        if (ad->wrt.data[i].kind == AK_INT)
            activate(ad, ad->func->body->params.data[ad->wrt.data[i].u.i]);
    for (uint32_t i = 0; i < ad->leaves.len; i++)
        activate(ad, &ad->leaves.data[i].node->out[0]);
    REGION_FOREACH(node, ad->func->body)
    for (uint32_t i = 0; i < node->n_out && node_active(ad, node); i++)
        if (node->out[i].type->kind != TY_TENSOR || dtype_is_float(node->out[i].type->dtype))
            activate(ad, &node->out[i]);
}

/* False after reporting. */
static bool expand_active(Ad *ad)
{
    for (bool again = true; again;) {
        again = false;
        mark(ad);
        for (Node *node = ad->func->body->first, *next; node; node = next) {
            next = node->next;
            if (op_defs[node->op].adjoint != adjoint_expand || !node_active(ad, node))
                continue;
            if (!op_expand(node))
                return false;
            again = true;
        }
    }
    return true;
}

/* ---- the walk ---------------------------------------------------------------------------------------------------- */

static bool add_gradient(Ad *ad, Builder *b, const Val *val, Val *part)
{
    void **slot = map_slot(ad->grads, val->id);
    IG_CHECK(ad->ctx, part->type == val->type);
    Val *sum = *slot ? op_binary(b, OP_add, *slot, part) : part;
    *map_slot(ad->grads, val->id) = sum;
    return sum != NULL;
}

static bool walk_node(Ad *ad, Node *node)
{
    Val **out_grad = ARENA_ARRAY(ad->tmp, Val *, node->n_out), **in_grad = ARENA_ARRAY(ad->tmp, Val *, node->n_in);
    bool any = false;
    for (uint32_t i = 0; i < node->n_out; i++) {
        out_grad[i] = map_get(ad->grads, node->out[i].id);
        any |= out_grad[i] != NULL;
    }
    if (!any || node->n_in == 0 || !node_active(ad, node))
        return true;
    Builder b = ir_at_end(ad->func->body, loc_from(ad->ctx, node->loc, "adjoint"));
    AdjointArgs args = {.b = &b, .node = node, .out_grad = out_grad, .in_grad = in_grad};
    bool ok = op_defs[node->op].adjoint(&args);
    for (uint32_t i = node->n_in; ok && i-- > 0;)
        if (in_grad[i] && is_active(ad, ir_in(node, i)))
            ok = add_gradient(ad, &b, ir_in(node, i), in_grad[i]);
    return ok;
}

static Val *ones(Builder *b, const Type *type)
{
    return op_broadcast(b, op_const_f64(b, type->dtype, 1), type->rank, type->dim);
}

static bool start_output(Ad *ad, Builder *b, const AdOutput *output, int64_t index)
{
    Val *out = ad->outs.data[index];
    uint64_t count;
    if (!is_float_tensor(out->type))
        return diag_report(ad->ctx, b->loc, DIAG_ad_loss_type, output->name, type_text(ad, out->type));
    if (!output->seed && !(type_count(out->type, &count) && count == 1))
        return diag_report(ad->ctx, b->loc, DIAG_ad_loss_shape, output->name, type_text(ad, out->type));
    Val *seed = output->seed ? func_param(ad->func, output->seed, out->type) : ones(b, out->type);
    return seed && add_gradient(ad, b, out, seed);
}

static bool start(Ad *ad)
{
    const AdRequest *r = ad->request;
    Builder b = ir_at_end(ad->func->body, loc_from(ad->ctx, r->func->body->last->loc, "seed"));
    bool ok = true;
    if (!r->n_outputs) {
        AdOutput first = {.name = r->func->out_names[0]};
        ok = start_output(ad, &b, &first, 0);
    }
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        int64_t index = find_output(ad, r->outputs[i].name);
        ok &= index >= 0 && start_output(ad, &b, &r->outputs[i], index);
    }
    return ok;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

/* Summed over the constants of the weight in program order. */
static Val *wrt_gradient(Ad *ad, Builder *b, const AttrVal *wrt)
{
    Val *sum = NULL;
    if (wrt->kind == AK_INT)
        sum = map_get(ad->grads, ad->func->body->params.data[wrt->u.i]->id);
    for (uint32_t i = 0; wrt->kind == AK_WEIGHT && i < ad->leaves.len; i++) {
        const Leaf *leaf = &ad->leaves.data[i];
        Val *part = leaf->weight == wrt->u.weight ? map_get(ad->grads, leaf->node->out[0].id) : NULL;
        sum = sum && part ? op_binary(b, OP_add, sum, part) : part ? part : sum;
    }
    if (sum)
        return sum;
    const Type *type = wrt->kind == AK_INT ? ad->func->body->params.data[wrt->u.i]->type : wrt->u.weight->type;
    return op_broadcast(b, op_const_f64(b, type->dtype, 0), type->rank, type->dim);
}

static bool finish(Ad *ad)
{
    const AdRequest *r = ad->request;
    uint32_t n = r->n_keep + ad->wrt.len;
    Val **vals = ARENA_ARRAY(ad->tmp, Val *, n);
    Str *names = ARENA_ARRAY(ad->tmp, Str, n);
    Loc loc = loc_from(ad->ctx, r->func->body->last->loc, "adjoint");
    Builder b = ir_at_end(ad->func->body, loc);
    bool ok = true;
    for (uint32_t i = 0; i < r->n_keep; i++) {
        int64_t index = find_output(ad, r->keep[i]);
        ok &= index >= 0;
        vals[i] = index >= 0 ? ad->outs.data[index] : NULL;
        names[i] = r->keep[i];
    }
    for (uint32_t i = 0; ok && i < ad->wrt.len; i++) {
        const AttrVal *wrt = &ad->wrt.data[i];
        Str name = wrt->kind == AK_INT ? ad->func->in_names[wrt->u.i] : wrt->u.weight->name;
        vals[r->n_keep + i] = wrt_gradient(ad, &b, wrt);
        names[r->n_keep + i] = str_format(ad->ctx, "grad_%s", name);
        ok &= vals[r->n_keep + i] != NULL;
    }
    if (!ok)
        return false;
    func_yield(ad->func, loc, vals, names, n);
    remove_leaves(ad);
    ir_drop_dead(ad->func);
    return true;
}

/* Outputs follow the values that expansion replaces as operands of a yield that is taken away again. */
static bool differentiate(Ad *ad)
{
    if (!resolve_wrt(ad) || !clone_primal(ad))
        return false;
    Builder b = ir_at_end(ad->func->body, ad->request->func->body->last->loc);
    Node *holder = ir_emit(&b, OP_yield, ad->outs.data, ad->outs.len, attrs_make(ad->ctx, NULL, 0), NULL, 0);
    add_leaves(ad);
    if (!expand_active(ad))
        return false;
    for (uint32_t i = 0; i < ad->outs.len; i++)
        ad->outs.data[i] = ir_in(holder, i);
    ir_erase(holder);
    REGION_FOREACH(node, ad->func->body)
    vec_push(ad->tmp, &ad->nodes, node);
    if (!start(ad))
        return false;
    bool ok = true;
    for (uint32_t i = ad->nodes.len; i-- > 0;)
        ok &= walk_node(ad, ad->nodes.data[i]);
    return ok && finish(ad);
}

Func *ad_gradient(Module *module, const AdRequest *request)
{
    Ad ad = {.ctx = module->ctx, .module = module, .request = request, .tmp = arena_create(module->ctx)};
    ad.vals = map_create(ad.tmp);
    ad.grads = map_create(ad.tmp);
    bool ok = differentiate(&ad);
    if (!ok && ad.func && !(ad.func->body->last && ad.func->body->last->op == OP_yield)) {
        ad.func->entry = false; /* what is left of it stays well-formed */
        func_yield(ad.func, request->func->body->last->loc, NULL, NULL, 0);
    }
    arena_destroy(ad.tmp);
    return ok ? ad.func : NULL;
}
