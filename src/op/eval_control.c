/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of control ops and of composites. Bodies run through EvalCtx.run_region; where there is none (constant
 * folding at emission) these ops cannot be evaluated.
 *
 * A composite means its body, so its evaluation is that of the body, built once per kind of operands in a scratch
 * module with the sizes of this run as numbers.
 */
#include "op/eval_support.h"

/* A loop without a trip count that runs this long is cut with an error, so that no input can hang the oracle. */
#define MOST_STEPS (INT64_C(1) << 20)

static bool no_runner(EvalCtx *ec, const Node *node)
{
    return diag_report(ec->ctx, ec->loc, DIAG_eval_no_region, op_info[node->op].name);
}

bool eval_yield(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    (void)ec, (void)node, (void)in, (void)out;
    return true; /* whoever runs the region takes the operands */
}

bool eval_check(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    (void)out;
    for (uint64_t i = 0; i < in[0]->count; i++)
        if (!eval_index(in[0], i))
            eval_error(ec, node, node_int(node, AN_code));
    return true;
}

bool eval_found(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    (void)out;
    const Dim *size = node_attr(node, AN_size)->u.dim;
    int64_t value = eval_index(in[0], 0), lo, hi;
    dim_range(size, &lo, &hi);
    if (value > hi)
        eval_error(ec, node, EVAL_ERR_STEPS);
    value = value < 0 ? 0 : value > hi ? hi : value;
    if (dim_as_sym(size))
        map_set(((EvalScope *)ec->driver)->syms, dim_as_sym(size)->id, (void *)(intptr_t)(value + 1));
    return true;
}

bool eval_if(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    if (!ec->run_region)
        return no_runner(ec, node);
    return ec->run_region(ec, node->region[eval_index(in[0], 0) ? 0 : 1], in + 1, out);
}

/* The callee's symbols are bound by this call's arguments. */
bool eval_call(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    if (!ec->run_region)
        return no_runner(ec, node);
    EvalScope *scope = ec->driver;
    Map *outer = scope->syms;
    scope->syms = map_create(scope->arena);
    bool ok = ec->run_region(ec, node_attr(node, AN_func)->u.func->body, in, out);
    scope->syms = outer;
    return ok;
}

/* ---- loop --------------------------------------------------------------------------------------------------- */

typedef struct Loop {
    EvalCtx *ec;
    const Node *node;
    uint32_t n_carried, n_scanned, n_stacked, n_captured;
    Tensor *const *in; /* behind trip and go */
    Tensor **params;   /* i, carried, elements, captured */
    Tensor **yields;   /* go, carried, stacked */
    VEC(Tensor *) * stacked;
    Arena *keep; /* stacked elements */
} Loop;

static Tensor *copy_of(EvalCtx *ec, const Tensor *t)
{
    Tensor *copy = tensor_new(ec, t->dtype, t->rank, t->dim);
    eval_copy_run(copy, 0, t, 0, t->count);
    return copy;
}

static Tensor *copy_in(EvalCtx *ec, Arena *arena, const Tensor *t)
{
    Arena *outer = ec->arena;
    ec->arena = arena;
    Tensor *copy = copy_of(ec, t);
    ec->arena = outer;
    return copy;
}

/* One step into `arena`; *go: the yielded condition. */
static bool loop_step(Loop *l, Arena *arena, int64_t i, bool *go)
{
    EvalCtx *ec = l->ec;
    Arena *outer = ec->arena;
    ec->arena = arena;
    Tensor *count = tensor_new(ec, DT_S64, 0, NULL);
    *(int64_t *)count->data = i;
    l->params[0] = count;
    for (uint32_t k = 0; k < l->n_scanned; k++) {
        const Tensor *all = l->in[l->n_carried + k];
        Tensor *one = tensor_new(ec, all->dtype, all->rank - 1, all->dim + 1);
        eval_copy_run(one, 0, all, (uint64_t)i * one->count, one->count);
        l->params[1 + l->n_carried + k] = one;
    }
    bool ok = ec->run_region(ec, l->node->region[0], l->params, l->yields);
    ec->arena = outer;
    if (!ok)
        return false;
    *go = !l->yields[0] || eval_index(l->yields[0], 0);
    for (uint32_t k = 0; k < l->n_carried; k++)
        l->params[1 + k] = l->yields[1 + k];
    for (uint32_t k = 0; k < l->n_stacked; k++)
        vec_push(l->keep, &l->stacked[k], copy_in(ec, l->keep, l->yields[1 + l->n_carried + k]));
    return true;
}

/* The most trips that a run may make: what is stacked has a largest size, and without a trip count something else has to end it. */
static int64_t most_trips(const Loop *l, bool is_counted)
{
    int64_t most = is_counted ? INT64_MAX : MOST_STEPS;
    for (uint32_t k = 0; k < l->n_stacked; k++) {
        const Sym *sym = dim_as_sym(l->node->out[l->n_carried + k].type->dim[0]);
        most = sym && sym->unbacked && sym->hi < most ? sym->hi : most;
    }
    return most;
}

/* Whether only its trip count ends the loop. */
static bool has_no_condition(const Loop *l)
{
    const Val *again = ir_in(l->node->region[0]->last, 0);
    const Weight *weight = again ? val_const(again) : NULL;
    return !again || (weight && *(const uint8_t *)weight->data);
}

static bool loop_steps(Loop *l, Tensor *const *in)
{
    EvalCtx *ec = l->ec;
    int64_t trip = in[0] ? eval_index(in[0], 0) : INT64_MAX, most = most_trips(l, in[0] || l->n_scanned);
    bool go = !in[1] || eval_index(in[1], 0);
    for (uint32_t k = 0; k < l->n_scanned; k++)
        if (l->in[l->n_carried + k]->dim[0] < trip)
            trip = l->in[l->n_carried + k]->dim[0];
    Arena *now = arena_create(ec->ctx), *before = arena_create(ec->ctx);
    bool ok = true;
    if (go && trip > most && has_no_condition(l)) {
        eval_error(ec, l->node, EVAL_ERR_STEPS);
        go = false;
    }
    for (int64_t i = 0; ok && go && i < trip; i++) {
        if (i == most) {
            eval_error(ec, l->node, EVAL_ERR_STEPS);
            break;
        }
        ok = loop_step(l, now, i, &go);
        Arena *spare = before; /* the step before this one has been consumed */
        arena_reset(spare);
        before = now;
        now = spare;
    }
    for (uint32_t k = 0; ok && k < l->n_carried; k++)
        l->params[1 + k] = copy_of(ec, l->params[1 + k]);
    arena_destroy(now);
    arena_destroy(before);
    return ok;
}

/* The stack of one result; of no steps its element sizes come from the node's type. */
static Tensor *stack(Loop *l, uint32_t k)
{
    const Type *type = l->node->out[l->n_carried + k].type;
    int64_t dims[IR_MAX_RANK] = {l->stacked[k].len};
    for (uint32_t i = 1; i < type->rank; i++) {
        if (l->stacked[k].len)
            dims[i] = l->stacked[k].data[0]->dim[i - 1];
        else if (!eval_dim(l->ec, type->dim[i], &dims[i]))
            return NULL;
    }
    Tensor *all = tensor_new(l->ec, type->dtype, type->rank, dims);
    for (uint32_t i = 0; i < l->stacked[k].len; i++) {
        const Tensor *one = l->stacked[k].data[i];
        eval_copy_run(all, i * one->count, one, 0, one->count);
    }
    return all;
}

bool eval_loop(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    if (!ec->run_region)
        return no_runner(ec, node);
    Loop l = {.ec = ec, .node = node, .in = in + 2};
    l.n_carried = (uint32_t)node_int(node, AN_n_carried);
    l.n_scanned = (uint32_t)node_int(node, AN_n_scanned);
    l.n_stacked = node->n_out - l.n_carried;
    l.n_captured = node->n_in - 2 - l.n_carried - l.n_scanned;
    l.keep = arena_create(ec->ctx);
    l.params = ARENA_ARRAY(l.keep, Tensor *, 1 + l.n_carried + l.n_scanned + l.n_captured);
    l.yields = ARENA_ARRAY(l.keep, Tensor *, 1 + l.n_carried + l.n_stacked);
    l.stacked = arena_array(l.keep, l.n_stacked, sizeof *l.stacked);
    for (uint32_t k = 0; k < l.n_carried; k++)
        l.params[1 + k] = l.in[k];
    for (uint32_t k = 0; k < l.n_captured; k++)
        l.params[1 + l.n_carried + l.n_scanned + k] = l.in[l.n_carried + l.n_scanned + k];
    bool ok = loop_steps(&l, in);
    for (uint32_t k = 0; ok && k < l.n_carried; k++)
        out[k] = l.params[1 + k];
    for (uint32_t k = 0; ok && k < l.n_stacked; k++)
        ok = (out[l.n_carried + k] = stack(&l, k)) != NULL;
    arena_destroy(l.keep);
    return ok;
}

/* ---- composites --------------------------------------------------------------------------------------------- */

typedef struct EvalBody {
    struct EvalBody *next;
    Op op;
    const Attrs *attrs;
    uint32_t n_in;
    const Type **in;
    const Func *func;
} EvalBody;

/* The composite alone in a function of a scratch module, replaced by its body. NULL after reporting. */
static const Func *build_body(EvalCtx *ec, const Node *node, const EvalBody *key, const Type *const *out,
                              Module *module)
{
    Func *func = module_func(module, str_intern(ec->ctx, op_info[node->op].name), false);
    Val *vals[16];
    IG_CHECK(ec->ctx, key->n_in <= IG_COUNT(vals));
    Str name = str_intern(ec->ctx, "x");
    for (uint32_t i = 0; i < key->n_in; i++)
        vals[i] = key->in[i] ? func_param(func, str_format(ec->ctx, "x%u", i), key->in[i]) : NULL;
    Builder b = ir_at_end(func->body, node->loc);
    Node *composite = ir_emit(&b, (Op)node->op, vals, key->n_in, node->attr, out, node->n_out);
    Val *result = ir_out(composite, 0);
    func_yield(func, node->loc, &result, &name, 1);
    return op_expand(composite) ? func : NULL;
}

static const Func *find_body(EvalCtx *ec, const Node *node, Tensor *const *in)
{
    EvalScope *scope = ec->driver;
    EvalBody key = {.op = (Op)node->op, .attrs = node->attr, .n_in = node->n_in};
    key.in = ARENA_ARRAY(scope->arena, const Type *, node->n_in);
    uint64_t hash = hash_mix(key.op, KEY(key.attrs)); /* never leaves this run */
    for (uint32_t i = 0; i < key.n_in; i++) {
        key.in[i] = in[i] ? type_tensor_s64(ec->ctx, in[i]->dtype, in[i]->rank, in[i]->dim) : NULL;
        hash = hash_mix(hash, KEY(key.in[i]));
    }
    void **slot = map_slot(scope->bodies, hash);
    for (EvalBody *body = *slot; body; body = body->next)
        if (body->op == key.op && body->attrs == key.attrs && body->n_in == key.n_in &&
            memcmp(body->in, key.in, key.n_in * sizeof *key.in) == 0)
            return body->func;
    int64_t dims[IR_MAX_RANK];
    const Type *type = node->out[0].type;
    for (uint32_t i = 0; i < type->rank; i++)
        if (!eval_dim(ec, type->dim[i], &dims[i]))
            return NULL;
    const Type *out = type_tensor_s64(ec->ctx, type->dtype, type->rank, dims);
    EvalBody *body = ARENA_NEW(scope->arena, EvalBody);
    *body = key;
    Module *module = module_create(ec->ctx);
    vec_push(scope->arena, &scope->modules, module);
    if (!(body->func = build_body(ec, node, body, &out, module)))
        return NULL;
    body->next = *slot;
    *slot = body;
    return body->func;
}

bool eval_expand(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    if (!ec->run_region)
        return no_runner(ec, node);
    const Func *func = find_body(ec, node, in);
    if (!func)
        return false;
    Arena *tmp = arena_create(ec->ctx);
    Tensor **params = ARENA_ARRAY(tmp, Tensor *, node->n_in);
    uint32_t n = 0;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (in[i])
            params[n++] = in[i];
    bool ok = ec->run_region(ec, func->body, params, out);
    arena_destroy(tmp);
    return ok;
}
