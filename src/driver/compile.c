/* SPDX-License-Identifier: Apache-2.0
 * From a module to code: tensor passes once, then schedule, loops and machine code per target. */
#include "driver/driver.h"

#include <string.h>

#define MAX_BYTES (UINT64_C(1) << 36) /* of one value whose size has a range */

static bool verify_schedule(void *user, PassLevel level, const Unit *unit)
{
    (void)user;
    return sched_verify(unit->schedule, level);
}

static void print_schedule(void *user, Text *text, PassLevel level, const Unit *unit)
{
    (void)user;
    (void)level;
    sched_print(text, unit->schedule);
}

static bool run_passes(Context *ctx, Unit *unit, const DriverOptions *options, const PassOptions *pass_options,
                       const char *const *names, int64_t *n_optional, bool *stopped, Program *times)
{
    const PassDef *passes[32];
    uint32_t n = 0;
    for (; names[n]; n++) {
        IG_CHECK(ctx, n < IG_COUNT(passes));
        passes[n] = driver_find_pass(names[n]);
        IG_CHECK(ctx, passes[n]);
    }
    PassCtx pc = {.ctx = ctx, .tmp = arena_create(ctx), .options = pass_options, .dump = options->dump,
                  .dump_user = options->dump_user, .verify = verify_schedule, .print_unit = print_schedule,
                  .n_optional_run = *n_optional};
    bool ok = pass_run(&pc, unit, passes, n);
    *n_optional = pc.n_optional_run;
    *stopped = pc.stopped;
    for (uint32_t i = 0; times && i < pc.times.len; i++)
        vec_push(ctx_arena(ctx), &times->times, pc.times.data[i]);
    arena_destroy(pc.tmp);
    return ok;
}

Func *driver_entry(Context *ctx, Module *module, const char *name)
{
    for (uint32_t i = 0; i < module->funcs.len; i++) {
        Func *func = module->funcs.data[i];
        if (func->entry && (!name || strcmp(func->name, name) == 0))
            return func;
    }
    diag_report(ctx, 0, DIAG_driver_no_entry, name ? name : "");
    return NULL;
}

static bool has_output(const Func *func, const Val *val)
{
    for (uint32_t i = 0; i < func_n_out(func); i++)
        if (func_out(func, i) == val)
            return true;
    return false;
}

bool driver_also_output(Context *ctx, Func *func, const char *name)
{
    bool all = strcmp(name, "all") == 0, found = false;
    VEC(Val *) extra = {0};
    Arena *arena = func->module->arena;
    REGION_FOREACH(node, func->body)
        for (uint32_t i = 0; i < node->n_out; i++) {
            bool wanted = all || strcmp(loc_name(ctx, node->loc), name) == 0;
            if (!wanted || node->op == OP_const || node->out[i].type->kind != TY_TENSOR)
                continue;
            found = true;
            if (!has_output(func, &node->out[i]))
                vec_push(arena, &extra, &node->out[i]);
        }
    if (!found && !all)
        return diag_report(ctx, 0, DIAG_driver_no_value, name);
    Node *yield = func->body->last;
    uint32_t n = yield->n_in, total = n + extra.len;
    Val **values = ARENA_ARRAY(arena, Val *, total + 1);
    Str *names = ARENA_ARRAY(arena, Str, total + 1);
    for (uint32_t i = 0; i < n; i++) {
        values[i] = ir_in(yield, i);
        names[i] = func->out_names[i];
    }
    for (uint32_t i = 0; i < extra.len; i++) {
        values[n + i] = extra.data[i];
        names[n + i] = str_format(ctx, "%s.%u", loc_name(ctx, extra.data[i]->def->loc), extra.data[i]->id);
    }
    Loc loc = yield->loc;
    ir_erase(yield);
    func_yield(func, loc, values, names, total);
    return true;
}

bool driver_optimize(Context *ctx, Module *module, const DriverOptions *options, Program *times)
{
    Unit unit = {.module = module};
    int64_t n_optional = 0;
    bool stopped;
    Pipeline pipeline = driver_pipeline(options->pass.opt_level, options->pass.eager);
    return run_passes(ctx, &unit, options, &options->pass, pipeline.tensor, &n_optional, &stopped, times);
}

/* ---- sizes: numbers, or expressions of symbols that have a range and are the size of an input's axis, or that a loop finds ----------- */

typedef enum Found { FOUND_NOT, FOUND_HERE, FOUND_INSIDE } Found; /* INSIDE: of a region, which is over */

typedef struct Sizes {
    const Func *func;
    Map *found; /* symbol id -> Found */
    bool all;   /* every symbol met is some input's axis, or was found, or has a range */
} Sizes;

static bool is_axis(const Func *func, const Sym *sym)
{
    for (uint32_t i = 0; i < func->body->params.len; i++) {
        const Type *type = func->body->params.data[i]->type;
        for (uint32_t a = 0; type->kind == TY_TENSOR && a < type->rank; a++)
            if (dim_as_sym(type->dim[a]) == sym)
                return true;
    }
    return false;
}

static const Dim *look_at_sym(void *user, const Sym *sym)
{
    Sizes *s = user;
    s->all = s->all && (sym->unbacked ? (Found)(uintptr_t)map_get(s->found, sym->id) == FOUND_HERE : is_axis(s->func, sym));
    return NULL;
}

/* Whether the caller of a run can say all of the type's sizes, or a loop before it has found them, and the largest have a place in
 * memory. */
static bool type_is_ready(Sizes *s, const Type *type)
{
    uint64_t count, bytes;
    if (type->kind != TY_TENSOR || !type_count_bound(type, &count) || !dtype_bytes(type->dtype, count, &bytes))
        return false;
    s->all = true;
    type_bind(s->func->module->ctx, type, look_at_sym, s);
    return s->all && (type_is_static(type) || bytes <= MAX_BYTES);
}

/* Likewise for a size that an attribute names. */
static bool dim_is_ready(void *user, const Dim *dim)
{
    Sizes *s = user;
    s->all = true;
    dim_bind(s->func->module->ctx, dim, look_at_sym, s);
    return s->all;
}

static Str type_text(const Func *func, const Type *type)
{
    Text text;
    text_init(&text, func->module->arena);
    type_print(&text, type);
    return text.data;
}

static const Dim *check_range(void *user, const Sym *sym)
{
    Sizes *s = user;
    s->all &= sym->lo >= 1 && sym->hi < INT32_MAX;
    return NULL;
}

static bool input_is_ready(Sizes *s, uint32_t i, bool eager)
{
    Context *ctx = s->func->module->ctx;
    const Type *type = s->func->body->params.data[i]->type;
    Str name = s->func->in_names[i];
    if (type->kind != TY_TENSOR)
        return diag_report(ctx, 0, DIAG_driver_not_tensor, name);
    s->all = true;
    type_bind(ctx, type, check_range, s);
    if (!s->all || (eager && !type_is_static(type)))
        return diag_report(ctx, 0, DIAG_driver_symbolic, name, type_text(s->func, type));
    return type_is_ready(s, type) || diag_report(ctx, 0, DIAG_driver_range, name, type_text(s->func, type));
}

static bool may_be_negative(const Type *type)
{
    int64_t lo = 0, hi;
    for (uint32_t a = 0; type->kind == TY_TENSOR && a < type->rank && lo >= 0; a++)
        dim_range(type->dim[a], &lo, &hi);
    return lo < 0;
}

static bool region_is_ready(Sizes *s, const Region *region)
{
    Context *ctx = s->func->module->ctx;
    VEC(const Sym *) here = {0};
    bool ok = true;
    REGION_FOREACH(node, region) {
        const Sym *finds = sched_found_size(node);
        for (uint32_t r = 0; r < node->n_region; r++)
            ok &= region_is_ready(s, node->region[r]);
        if (finds && !map_get(s->found, finds->id)) { /* another loop's trips are another size */
            map_set(s->found, finds->id, (void *)(uintptr_t)FOUND_HERE);
            vec_push(s->func->module->arena, &here, finds);
        } else if (finds) {
            map_set(s->found, finds->id, (void *)(uintptr_t)FOUND_INSIDE);
        }
        for (uint32_t i = 0; i < node->n_out; i++)
            if (may_be_negative(node->out[i].type))
                ok = diag_report(ctx, node->loc, DIAG_driver_negative, op_info[node->op].name, type_text(s->func, node->out[i].type));
            else if (!type_is_ready(s, node->out[i].type) || !attrs_all_dims(node->attr, dim_is_ready, s))
                ok = diag_report(ctx, node->loc, DIAG_driver_dynamic, op_info[node->op].name, type_text(s->func, node->out[i].type));
    }
    for (uint32_t i = 0; i < here.len; i++)
        map_set(s->found, here.data[i]->id, (void *)(uintptr_t)FOUND_INSIDE);
    return ok;
}

static bool shapes_are_ready(Context *ctx, const Func *func, bool eager)
{
    Arena *tmp = arena_create(ctx);
    Sizes s = {.func = func, .found = map_create(tmp)};
    bool ok = true;
    for (uint32_t i = 0; i < func->body->params.len; i++)
        ok &= input_is_ready(&s, i, eager);
    ok = ok && region_is_ready(&s, func->body);
    arena_destroy(tmp);
    return ok;
}

static bool schedule_variant(Program *p, const TargetInfo *target, int64_t n_optional, bool *stopped)
{
    Context *ctx = p->ctx;
    DriverVariant *v = &p->variant[p->n_variants++];
    PassOptions pass = p->options.pass;
    pass.target = target;
    v->target = target;
    v->schedule = sched_create(ctx, p->module, p->func);
    Unit unit = {.module = p->module, .schedule = v->schedule};
    Pipeline pipeline = driver_pipeline(pass.opt_level, pass.eager);
    if (!run_passes(ctx, &unit, &p->options, &pass, pipeline.sched, &n_optional, stopped, p))
        return false;
    v->code = (CgenOptions){.target = target, .opt_level = pass.opt_level, .output = CGEN_OBJECT,
                            .ftz = p->options.ftz};
    return true;
}

static void run_part(void *arg) { cgen_run_part(arg); }

static void hash_model(void *arg)
{
    Program *p = arg;
    Sha256 sha;
    sha256_begin(&sha);
    sha256_add(&sha, p->options.model.data, p->options.model.size);
    sha256_end(&sha, p->model_sha256);
}

/* Code of all variants and the model's hash, which takes as long, at the same time. */
static bool generate_code(Program *p)
{
    enum { HASH_BYTES = 10000 }; /* per unit of a part's cost */
    Arena *tmp = arena_create(p->ctx);
    VEC(Task) tasks = {0};
    uint32_t workers = p->options.workers;
    bool good = true;
    for (uint32_t i = 0; i < p->n_variants; i++) {
        DriverVariant *v = &p->variant[i];
        const Schedule *s = v->schedule;
        cgen_begin(p->ctx, s->arena, &v->code, (const Kernel *const *)s->kernels.data, s->kernels.len, &v->objects);
        for (uint32_t k = 0; k < v->objects.len; k++) {
            CgenPart *part = &v->objects.data[k];
            Task task = {run_part, part, part->cost};
            vec_push(tmp, &tasks, task);
            if (part->ctx == p->ctx)
                workers = 1;
        }
    }
    if (p->options.model.size) {
        Task task = {hash_model, p, p->options.model.size / HASH_BYTES};
        vec_push(tmp, &tasks, task);
    }
    task_run_all(tasks.data, tasks.len, workers);
    arena_destroy(tmp);
    for (uint32_t i = 0; i < p->n_variants; i++)
        good &= cgen_end(p->variant[i].schedule->arena, &p->variant[i].objects);
    return good;
}

Program *driver_compile(Context *ctx, Module *module, Func *func, const DriverOptions *options)
{
    Program *p = ARENA_NEW(ctx_arena(ctx), Program);
    p->ctx = ctx;
    p->module = module;
    p->func = func;
    p->options = *options;
    Unit unit = {.module = module};
    int64_t n_optional = 0;
    bool stopped;
    Pipeline pipeline = driver_pipeline(options->pass.opt_level, options->pass.eager);
    if (!driver_bound_sizes(ctx, func) ||
        !run_passes(ctx, &unit, options, &options->pass, pipeline.tensor, &n_optional, &stopped, p))
        return NULL;
    if (stopped)
        return p;
    if (!shapes_are_ready(ctx, func, options->pass.eager))
        return NULL;
    for (uint32_t i = 0; i < options->n_targets; i++)
        if (!schedule_variant(p, options->target[i], n_optional, &stopped)) {
            driver_destroy(p);
            return NULL;
        }
    if (!stopped && !generate_code(p)) {
        driver_destroy(p);
        return NULL;
    }
    return p;
}

void driver_destroy(Program *program)
{
    for (uint32_t i = 0; program && i < program->n_variants; i++)
        sched_destroy(program->variant[i].schedule);
}

bool driver_is_complete(const Program *program)
{
    return program->n_variants > 0 && program->variant[program->n_variants - 1].objects.len > 0;
}

bool driver_run_passes(Context *ctx, Module *module, Func *func, const DriverOptions *options, const char *const *names,
                       Program *times, Text *text, bool *scheduled)
{
    PassOptions pass = options->pass;
    Unit unit = {.module = module};
    int64_t n_optional = 0;
    bool ok = true, stopped = false;
    pass.target = options->target[0];
    for (uint32_t i = 0; ok && !stopped && names[i]; i++) {
        const char *const one[] = {names[i], NULL};
        if (driver_find_pass(names[i])->level != LEVEL_TENSOR && !unit.schedule) {
            if (!driver_bound_sizes(ctx, func) || !shapes_are_ready(ctx, func, options->pass.eager))
                return false;
            unit.schedule = sched_create(ctx, module, func);
        } else if (driver_find_pass(names[i])->level == LEVEL_TENSOR && unit.schedule) {
            ok = diag_report(ctx, 0, DIAG_driver_pass_order, names[i]);
            break;
        }
        ok = run_passes(ctx, &unit, options, &pass, one, &n_optional, &stopped, times);
    }
    *scheduled = ok && unit.schedule;
    if (*scheduled)
        sched_print(text, unit.schedule);
    sched_destroy(unit.schedule);
    return ok;
}
