/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs regions node by node. Every node's results lie in an arena of their own, which dies with the last use of the
 * last of them; what the region yields lies in the caller's arena. Symbols take their values from the parameters that
 * carry them alone as a size, then from results with unbacked sizes.
 */
#include "eval/eval.h"

#include "op/eval_support.h"

#include <string.h>

typedef struct Driver {
    EvalScope scope; /* first: what eval_X functions see */
    EvalObserver *observer;
    void *user;
    const Region *observed; /* nodes of bodies are not shown */
} Driver;

/* Results of one node. */
typedef struct Owner {
    Arena *arena;  /* NULL: the caller's, or a parameter */
    uint32_t live; /* uses still to come */
    Tensor **results;
} Owner;

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

static bool bind_size(EvalCtx *ec, const Dim *dim, int64_t size)
{
    EvalScope *scope = ec->driver;
    const Sym *sym = dim_as_sym(dim);
    if (!sym)
        return true;
    if (!sym->unbacked && (size < sym->lo || size > sym->hi))
        return diag_report(ec->ctx, ec->loc, DIAG_eval_sym_range, sym->name, (long long)size, (long long)sym->lo,
                           (long long)sym->hi);
    void **slot = map_slot(scope->syms, sym->id);
    int64_t known = (int64_t)(intptr_t)*slot - 1;
    if (*slot && known != size && !sym->unbacked)
        return diag_report(ec->ctx, ec->loc, DIAG_eval_sym_conflict, sym->name, (long long)size, (long long)known);
    *slot = (void *)(intptr_t)(size + 1);
    return true;
}

static bool refuse_param(EvalCtx *ec, const Region *region, uint32_t i, const Tensor *t)
{
    Text want, got;
    text_init(&want, ec->arena);
    text_init(&got, ec->arena);
    type_print(&want, region->params.data[i]->type);
    text_addf(&got, "%s[", dtype_name(t->dtype));
    for (uint32_t axis = 0; axis < t->rank; axis++)
        text_addf(&got, "%s%lld", axis ? "," : "", (long long)t->dim[axis]);
    text_add(&got, "]");
    const char *name = region->node || !region->func->in_names ? "" : region->func->in_names[i];
    return diag_report(ec->ctx, ec->loc, DIAG_eval_param, (unsigned)i, name, got.data, want.data);
}

/* Every parameter has the declared type; first all symbols are bound, then the sizes made of them are compared. */
static bool bind_params(EvalCtx *ec, const Region *region, Tensor *const *params)
{
    for (uint32_t i = 0; i < region->params.len; i++) {
        const Type *type = region->params.data[i]->type;
        const Tensor *t = params[i];
        if (type->kind != TY_TENSOR || t->dtype != type->dtype || t->rank != type->rank)
            return refuse_param(ec, region, i, t);
        for (uint32_t axis = 0; axis < t->rank; axis++)
            if (!bind_size(ec, type->dim[axis], t->dim[axis]))
                return false;
    }
    for (uint32_t i = 0; i < region->params.len; i++) {
        const Type *type = region->params.data[i]->type;
        for (uint32_t axis = 0; axis < type->rank; axis++) {
            int64_t size;
            if (!eval_dim(ec, type->dim[axis], &size))
                return false;
            if (size != params[i]->dim[axis])
                return refuse_param(ec, region, i, params[i]);
        }
    }
    return true;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

typedef struct Run {
    EvalCtx *ec;
    const Region *region;
    Arena *tmp;
    Map *owners; /* node id -> Owner */
    Tensor *const *params;
} Run;

static Tensor *value_of(const Run *run, const Val *val)
{
    if (!val)
        return NULL;
    if (!val->def)
        return run->params[val->out];
    const Owner *owner = map_get(run->owners, val->def->id);
    return owner->results[val->out];
}

static void release(Owner *owner)
{
    arena_destroy(owner->arena);
    owner->arena = NULL;
}

/* Evaluates node; its results go to the caller's arena if the region yields one of them. */
static bool run_node(Run *run, Node *node)
{
    EvalCtx *ec = run->ec;
    Driver *driver = ec->driver;
    Owner *owner = ARENA_NEW(run->tmp, Owner);
    bool yielded = false;
    for (uint32_t i = 0; i < node->n_out; i++)
        for (const Use *use = node->out[i].uses; use; use = use->next) {
            owner->live++;
            yielded |= use->user == run->region->last;
        }
    owner->results = ARENA_ARRAY(run->tmp, Tensor *, node->n_out);
    owner->arena = yielded ? NULL : arena_create(ec->ctx);
    map_set(run->owners, node->id, owner);
    Tensor **in = ARENA_ARRAY(run->tmp, Tensor *, node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = value_of(run, ir_in(node, i));
    Arena *outer = ec->arena;
    ec->arena = yielded ? outer : owner->arena;
    ec->loc = node->loc;
    bool ok = op_defs[node->op].eval(ec, node, in, owner->results);
    ec->arena = outer;
    for (uint32_t i = 0; ok && i < node->n_out; i++)
        for (uint32_t axis = 0; ok && axis < owner->results[i]->rank; axis++)
            ok = bind_size(ec, node->out[i].type->dim[axis], owner->results[i]->dim[axis]);
    if (ok && driver->observer && driver->observed == run->region)
        driver->observer(driver->user, node, owner->results);
    if (!owner->live || !ok)
        release(owner);
    for (uint32_t i = 0; i < node->n_in; i++) {
        const Val *val = ir_in(node, i);
        Owner *def = val && val->def ? map_get(run->owners, val->def->id) : NULL;
        if (def && --def->live == 0)
            release(def);
    }
    return ok;
}

static bool eval_region(EvalCtx *ec, const Region *region, Tensor *const *params, Tensor **results)
{
    if (!bind_params(ec, region, params))
        return false;
    Run run = {.ec = ec, .region = region, .params = params, .tmp = arena_create(ec->ctx)};
    run.owners = map_create(run.tmp);
    bool ok = true;
    Node *node = region->first;
    for (; ok && node && node != region->last; node = node->next)
        ok = run_node(&run, node);
    for (uint32_t i = 0; ok && i < region->last->n_in; i++) {
        const Val *val = ir_in(region->last, i);
        results[i] = value_of(&run, val);
        if (val && !val->def) { /* a parameter belongs to the caller, who may free it first */
            const Tensor *param = results[i];
            results[i] = tensor_new(ec, param->dtype, param->rank, param->dim);
            eval_copy_run(results[i], 0, param, 0, param->count);
        }
    }
    for (Node *left = region->first; !ok && left != node; left = left->next)
        release(map_get(run.owners, left->id));
    arena_destroy(run.tmp);
    return ok;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static EvalCtx begin(Context *ctx, Arena *arena, EvalMode mode, Driver *driver, uint64_t *error)
{
    driver->scope.arena = arena_create(ctx);
    driver->scope.syms = map_create(driver->scope.arena);
    driver->scope.bodies = map_create(driver->scope.arena);
    return (EvalCtx){
        .ctx = ctx, .arena = arena, .mode = mode, .error = error, .driver = driver, .run_region = eval_region};
}

static void end(Driver *driver)
{
    for (uint32_t i = 0; i < driver->scope.modules.len; i++)
        module_destroy(driver->scope.modules.data[i]);
    arena_destroy(driver->scope.arena);
}

/* The parameter as this mode holds it; floats are widened in EVAL_F64. */
static Tensor *hold(EvalCtx *ec, const Tensor *t)
{
    if (ec->mode != EVAL_F64 || !dtype_is_float(t->dtype) || t->store == DT_F64)
        return (Tensor *)(uintptr_t)t;
    Tensor *wide = tensor_new(ec, t->dtype, t->rank, t->dim);
    eval_fetch(t, EC_F64, NULL, 0, t->count, wide->data);
    return wide;
}

bool eval_func_observed(Context *ctx, Arena *arena, EvalMode mode, const Func *func, Tensor *const *params,
                        Tensor **results, uint64_t *error, EvalObserver *observer, void *user)
{
    Driver driver = {.observer = observer, .user = user, .observed = func->body};
    uint64_t sink = 0;
    EvalCtx ec = begin(ctx, arena, mode, &driver, error ? error : &sink);
    ec.loc = func->body->last->loc;
    uint32_t n = func->body->params.len;
    Arena *tmp = arena_create(ctx);
    Tensor **held = ARENA_ARRAY(tmp, Tensor *, n);
    ec.arena = tmp;
    for (uint32_t i = 0; i < n; i++)
        held[i] = hold(&ec, params[i]);
    ec.arena = arena;
    bool ok = eval_region(&ec, func->body, held, results);
    arena_destroy(tmp);
    end(&driver);
    return ok;
}

bool eval_func(Context *ctx, Arena *arena, EvalMode mode, const Func *func, Tensor *const *params, Tensor **results,
               uint64_t *error)
{
    return eval_func_observed(ctx, arena, mode, func, params, results, error, NULL, NULL);
}

/* Ops that see a size that is no number, or set the error word, are not constant. */
bool eval_node_const(Context *ctx, Arena *arena, const Node *node, Tensor *const *in, Tensor **out)
{
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i].type->kind != TY_TENSOR || !type_is_static(node->out[i].type))
            return false;
    if (op_is_evalonly((Op)node->op) || (op_info[node->op].traits & OT_PINNED))
        return false;
    Driver driver = {0};
    uint64_t error = 0;
    EvalCtx ec = begin(ctx, arena, EVAL_REF32, &driver, &error);
    ec.loc = node->loc;
    bool ok = op_defs[node->op].eval(&ec, node, in, out);
    end(&driver);
    return ok && error == 0;
}
