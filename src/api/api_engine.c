/* SPDX-License-Identifier: Apache-2.0
 *
 * The engines. `compiled` writes an artifact to a nameless temporary file and opens it, as a user of the runtime would;
 * `eager` (api_eager.c) dispatches one compiled kernel per op; `ref32` and `f64` are the evaluator on the imported module.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkdtemp, O_TMPFILE */
#endif
#include "api/api_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- temporary files ---------------------------------------------------------------------------------------------------- */

Str api_temp_dir(igata_context *owner)
{
    const char *root = getenv("TMPDIR");
    char *dir = arena_printf(ctx_arena(owner->ctx), "%s/igata-XXXXXX", root && *root ? root : "/tmp");
    if (mkdtemp(dir))
        return dir;
    diag_report(owner->ctx, 0, DIAG_file_open, dir, strerror(errno));
    return NULL;
}

void api_remove_dir(const char *dir, const char *const *names, uint32_t n)
{
    char path[4096]; /* not from an arena: this runs while sessions are torn down */
    for (uint32_t i = 0; i < n; i++) {
        size_t a = strlen(dir), b = strlen(names[i]);
        if (a + b + 2 > sizeof path)
            continue;
        memcpy(path, dir, a);
        path[a] = '/';
        memcpy(path + a + 1, names[i], b + 1);
        unlink(path);
    }
    rmdir(dir);
}

bool api_temp_file(igata_context *owner, TempFile *file)
{
    const char *root = getenv("TMPDIR");
    *file = (TempFile){.fd = open(root && *root ? root : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
    if (file->fd >= 0) {
        file->path = str_format(owner->ctx, "/proc/%ld/fd/%d", (long)getpid(), file->fd);
        if (access(file->path, R_OK | W_OK) == 0)
            return true;
        close(file->fd);
        file->fd = -1;
    }
    file->dir = api_temp_dir(owner);
    file->path = file->dir ? str_format(owner->ctx, "%s/model.so", file->dir) : NULL;
    return file->dir != NULL;
}

void api_temp_close(TempFile *file)
{
    static const char *const files[] = {"model.so"};
    if (file->dir)
        api_remove_dir(file->dir, files, 1);
    else if (file->path)
        close(file->fd);
    *file = (TempFile){.fd = -1};
}

/* ---- making -------------------------------------------------------------------------------------------------------------- */

/* The values that may decide shapes: small inputs of integers; with `floats` scales and limits, too. */
static void fix_values(igata_session *s, Shaped *shaped, bool floats, Given *given)
{
    Arena *arena = ctx_arena(s->owner->ctx);
    bool *fixed = ARENA_ARRAY(arena, bool, s->n_in + 1);
    ValueBinding *values = ARENA_ARRAY(arena, ValueBinding, s->n_in + 1);
    given->n_values = 0;
    for (uint32_t i = 0; i < s->n_in; i++) {
        fixed[i] = api_may_decide(shaped->in[i]->dtype, shaped->in[i]->count, floats);
        if (fixed[i])
            values[given->n_values++] = (ValueBinding){s->in[i].name, shaped->in[i]};
    }
    given->values = values;
    shaped->fixed = given->n_values ? fixed : NULL;
}

/* Where the value of an input decides a shape, the import says so: then it is done again with the values given, which become
 * part of what this program is for. */
static bool import_values(igata_session *s, Shaped *shaped, Given *given)
{
    Context *ctx = s->owner->ctx;
    for (int attempt = 0;; attempt++) {
        uint32_t said = diag_count(ctx), n_values = given->n_values;
        shaped->module = api_import(s->owner, s->path, s->from_stdin ? &s->stdin_blob : NULL, s->options, given, &shaped->func);
        if (shaped->module || attempt == 2 || !api_lacks_values(ctx, said))
            return shaped->module != NULL;
        fix_values(s, shaped, false, given);
        if (given->n_values == n_values)
            fix_values(s, shaped, true, given);
        if (given->n_values == n_values)
            return false;
        diag_clear(ctx);
    }
}

/* Whether an axis of an input keeps its symbol in the program: its size was given as a range. */
static bool is_ranged(const igata_session *s, uint32_t input, uint32_t axis)
{
    const Declared *d = &s->in[input];
    for (uint32_t i = 0; i < s->options->dims.len; i++) {
        const DimBinding *dim = &s->options->dims.data[i];
        if (d->rank != IGATA_ANY_RANK && axis < d->rank && d->dim[axis].size < 0 && d->dim[axis].symbol == dim->name && dim->lo >= 1 &&
            dim->lo < dim->hi)
            return true;
    }
    return false;
}

/* Whether programs serve several sizes. The evaluator needs none, but values inside of a module are those of its nodes, which are
 * others where sizes are numbers: what also-output asks for are those of the compiled program. */
static bool has_ranges(const igata_session *s)
{
    const igata_options *o = s->options;
    bool ranges = false;
    for (uint32_t i = 0; i < s->n_in; i++)
        for (uint32_t a = 0; a < IR_MAX_RANK; a++)
            ranges |= is_ranged(s, i, a);
    return ranges && (o->engine == ENGINE_COMPILED || o->also_output.len) && !s->has_runner && !s->is_artifact;
}

static bool is_reference(const igata_session *s) { return s->options->engine == ENGINE_REF32 || s->options->engine == ENGINE_F64; }

static bool import_ranged(igata_session *s, Shaped *base)
{
    Arena *arena = ctx_arena(s->owner->ctx);
    ShapeBinding *shapes = ARENA_ARRAY(arena, ShapeBinding, s->n_in + 1);
    for (uint32_t i = 0; i < s->n_in; i++) {
        int64_t *dims = arena_copy(arena, base->key[i].dim, sizeof base->key[i].dim);
        for (uint32_t a = 0; a < base->key[i].rank; a++)
            dims[a] = is_ranged(s, i, a) ? -1 : dims[a];
        shapes[i] = (ShapeBinding){s->in[i].name, base->key[i].rank, dims};
    }
    Given given = {.shapes = shapes, .n_shapes = s->n_in};
    base->module = api_import(s->owner, s->path, s->from_stdin ? &s->stdin_blob : NULL, s->options, &given, &base->func);
    return base->module != NULL;
}

static bool import_shaped(igata_session *s, Shaped *shaped)
{
    ShapeBinding *shapes = ARENA_ARRAY(ctx_arena(s->owner->ctx), ShapeBinding, s->n_in + 1);
    for (uint32_t i = 0; i < s->n_in; i++)
        shapes[i] = (ShapeBinding){s->in[i].name, shaped->in[i]->rank, shaped->in[i]->dim};
    Given given = {.shapes = shapes, .n_shapes = s->n_in};
    return import_values(s, shaped, &given);
}

typedef struct Found {
    Context *ctx;
    const Schedule *schedule;
    const int64_t *sizes;
} Found;

static const Dim *found_size(void *user, const Sym *sym)
{
    const Found *f = user;
    for (uint32_t i = 0; i < f->schedule->n_syms; i++)
        if (f->schedule->syms[i] == sym)
            return dim_const(f->ctx, f->sizes[i]);
    return NULL;
}

void api_set_shape(Context *ctx, const Program *program, const int64_t *sizes, const Type *type, Tensor *t)
{
    Found f = {ctx, program->variant[0].schedule, sizes};
    t->count = 1;
    for (uint32_t a = 0; a < type->rank; a++) {
        if (!dim_is_const(dim_bind(ctx, type->dim[a], found_size, &f), &t->dim[a]))
            ig_bug(ctx, "a size that no run finds in a program");
        t->count *= (uint64_t)t->dim[a];
    }
}

/* Shapes of the results at the sizes of a run. */
static void find_shapes(Shaped *shaped, const int64_t *sizes)
{
    for (uint32_t i = 0; i < shaped->n_out; i++) {
        Tensor *t = shaped->out[i];
        igata_shape(shaped->model, shaped->entry, shaped->n_in + i, sizes, t->dim);
        t->count = 1;
        for (uint32_t a = 0; a < t->rank; a++)
            t->count *= (uint64_t)t->dim[a];
    }
}

/* Result tensors and the pointers of a run, from what the opened artifact says. */
static igata_status add_io(igata_session *s, Shaped *shaped)
{
    Arena *arena = ctx_arena(s->owner->ctx);
    igata_entry entry = {.size = sizeof entry};
    igata_model_info info = {.size = sizeof info};
    igata_entry_info(shaped->model, shaped->entry, &entry);
    igata_info(shaped->model, &info);
    IG_CHECK(s->owner->ctx, entry.inputs == shaped->n_in);
    Str *names = ARENA_ARRAY(arena, Str, entry.outputs + 1);
    shaped->n_out = (uint32_t)entry.outputs;
    shaped->out = ARENA_ARRAY(arena, Tensor *, entry.outputs + 1);
    shaped->io = ARENA_ARRAY(arena, void *, entry.inputs + entry.outputs + 1);
    const int64_t **shapes = ARENA_ARRAY(arena, const int64_t *, entry.inputs + 1);
    int64_t *sizes = ARENA_ARRAY(arena, int64_t, entry.sizes + entry.found + 1);
    for (size_t i = 0; i < entry.inputs; i++) {
        shaped->io[i] = shaped->in[i]->data;
        shapes[i] = shaped->in[i]->dim;
    }
    shaped->io[entry.inputs + entry.outputs] = sizes;
    igata_status status = igata_sizes(shaped->model, shaped->entry, shapes, sizes);
    if (status != IGATA_OK)
        return api_explain(s, shaped, status, 0);
    for (size_t i = 0; i < entry.outputs; i++) {
        igata_value value = {.size = sizeof value};
        igata_io_info(shaped->model, shaped->entry, entry.inputs + i, &value);
        Tensor *t = ARENA_NEW(arena, Tensor);
        t->dtype = t->store = dtype_from_onnx(value.dtype);
        t->rank = (uint32_t)value.rank;
        t->data = shaped->io[entry.inputs + i] = api_aligned(arena, value.bytes);
        shaped->out[i] = t;
        names[i] = str_intern(s->owner->ctx, value.name);
    }
    find_shapes(shaped, sizes);
    shaped->sizes = entry.found ? sizes : NULL;
    shaped->out_names = names;
    shaped->workspace = api_aligned(arena, igata_workspace(shaped->model, shaped->entry, s->options->threads));
    shaped->state = info.state_bytes ? api_aligned(arena, info.state_bytes) : NULL;
    return IGATA_OK;
}

/* Of a run: those of all phases, each executed once; of an eager program those of all its entries. 0 where the run decides it. */
static uint64_t count_flops(const Shaped *shaped)
{
    uint64_t sum = 0;
    igata_entry entry = {.size = sizeof entry};
    igata_entry_info(shaped->model, shaped->entry, &entry);
    if (entry.sizes || entry.steps || (shaped->eager && shaped->program->variant[0].schedule->steps.len))
        return 0;
    for (size_t e = 0; e < igata_entry_count(shaped->model); e++) {
        igata_phase phase = {.size = sizeof phase};
        for (size_t p = 0; (shaped->eager || e == shaped->entry) && igata_phase_info(shaped->model, e, p, &phase) == IGATA_OK; p++)
            sum += phase.flops;
    }
    return sum;
}

static void add_statistics(igata_session *s, Shaped *shaped)
{
    igata_session_stats *stats = &shaped->stats;
    igata_model_info info = {.size = sizeof info};
    igata_info(shaped->model, &info);
    stats->workspace_bytes = igata_workspace(shaped->model, shaped->entry, s->options->threads);
    stats->weights_bytes = info.weights_bytes;
    stats->code_bytes = info.code_bytes;
    stats->artifact_bytes = info.file_bytes;
    stats->kernels = info.kernels;
    stats->target = info.triple;
    stats->cpu = info.variant;
    stats->flops = count_flops(shaped);
}

static igata_status open_artifact(igata_session *s, Shaped *shaped, const char *path)
{
    double start = api_now();
    igata_status status = igata_open(path, NULL, &shaped->model);
    shaped->stats.open_us = (api_now() - start) * 1e6;
    if (status == IGATA_OK)
        return status;
    return api_status(diag_report(s->owner->ctx, 0, DIAG_api_run, s->path, igata_status_text(status)));
}

static igata_status write_artifact(igata_session *s, Shaped *shaped)
{
    Str path = shaped->artifact.path;
    bool written = s->options->engine == ENGINE_EAGER ? (shaped->eager = eager_create(s, shaped, path)) != NULL
                                                      : driver_write_so(shaped->program, path);
    return !written ? IGATA_E_MODEL : s->has_runner ? IGATA_OK : open_artifact(s, shaped, path);
}

static igata_status compile_shaped(igata_session *s, Shaped *shaped)
{
    Context *ctx = s->owner->ctx;
    DriverOptions options;
    if (!api_driver_options(s->options, !s->has_runner, &options))
        return IGATA_E_OPTION;
    double start = api_now();
    Module *module = module_clone(shaped->module);
    shaped->program = driver_compile(ctx, module, driver_entry(ctx, module, shaped->func->name), &options);
    if (!shaped->program)
        return IGATA_E_MODEL;
    api_add_times(s->owner, shaped->program);
    if (!driver_is_complete(shaped->program))
        return api_status(diag_report(ctx, 0, DIAG_api_run, s->path, "--stop-after leaves nothing to run"));
    igata_status status = api_temp_file(s->owner, &shaped->artifact) ? write_artifact(s, shaped) : IGATA_E_MODEL;
    shaped->stats.compile_s = api_now() - start - shaped->stats.open_us * 1e-6;
    return status;
}

static igata_status make_pool(igata_session *s)
{
    if (s->options->threads < 2 || s->pool || s->has_runner)
        return IGATA_OK;
    igata_status status = igata_pool_create(s->options->threads, 0, &s->pool);
    return status == IGATA_OK ? status
                              : api_status(diag_report(s->owner->ctx, 0, DIAG_api_run, s->path, igata_status_text(status)));
}

static bool fits_base(const igata_session *s, const Shaped *base, const Shaped *shaped)
{
    for (uint32_t i = 0; base->key && i < s->n_in; i++)
        for (uint32_t a = 0; a < shaped->key[i].rank; a++)
            if (!is_ranged(s, i, a) && (a >= base->key[i].rank || base->key[i].dim[a] != shaped->key[i].dim[a]))
                return false;
    return true;
}

/* The program for the sizes without a range, made when they are seen first. */
static igata_status find_base(igata_session *s, Shaped *shaped)
{
    Shaped *base = s->bases;
    while (base && !fits_base(s, base, shaped))
        base = base->next;
    if (!base) {
        base = ARENA_NEW(ctx_arena(s->owner->ctx), Shaped);
        base->key = shaped->key;
        igata_status status = !import_ranged(s, base) ? IGATA_E_MODEL : is_reference(s) ? IGATA_OK : compile_shaped(s, base);
        if (status != IGATA_OK) {
            igata_close(base->model);
            api_temp_close(&base->artifact);
            return status;
        }
        base->next = s->bases;
        s->bases = base;
    }
    shaped->base = base;
    shaped->module = base->module;
    shaped->func = base->func;
    shaped->program = base->program;
    shaped->model = base->model;
    shaped->entry = base->entry;
    shaped->stats = base->stats;
    return IGATA_OK;
}

igata_status engine_prepare(igata_session *s, Shaped *shaped)
{
    igata_status status = IGATA_OK;
    if (s->is_artifact || has_ranges(s))
        status = find_base(s, shaped);
    else
        status = import_shaped(s, shaped) ? IGATA_OK : IGATA_E_MODEL;
    if (status == IGATA_OK && shaped->func) {
        shaped->n_out = func_n_out(shaped->func);
        shaped->out_names = shaped->func->out_names;
        shaped->out = ARENA_ARRAY(ctx_arena(s->owner->ctx), Tensor *, shaped->n_out + 1);
    }
    if (status != IGATA_OK || is_reference(s))
        return status;
    if (!shaped->base)
        status = compile_shaped(s, shaped);
    if (status == IGATA_OK && s->has_runner)
        return runner_prepare(s, shaped);
    if (status == IGATA_OK && !shaped->eager)
        status = add_io(s, shaped);
    if (status != IGATA_OK)
        return status;
    add_statistics(s, shaped);
    return make_pool(s);
}

/* ---- running --------------------------------------------------------------------------------------------------------------- */

static Loc loc_of_node(const Region *region, uint32_t id)
{
    REGION_FOREACH(node, region) {
        if (node->id == id)
            return node->loc;
        for (uint32_t r = 0; r < node->n_region; r++) {
            Loc loc = loc_of_node(node->region[r], id);
            if (loc)
                return loc;
        }
    }
    return 0;
}

igata_status api_node_error(igata_session *s, const Func *func, uint64_t error)
{
    Loc loc = func ? loc_of_node(func->body, (uint32_t)(error >> 8)) : 0;
    igata_status status = (error & 0xff) == ART_ERROR_STEPS ? IGATA_E_BOUND : IGATA_E_INDEX;
    diag_report(s->owner->ctx, loc, DIAG_api_error, igata_status_text(status));
    return status;
}

igata_status api_explain(igata_session *s, const Shaped *shaped, igata_status status, uint64_t error)
{
    Context *ctx = s->owner->ctx;
    const char *node = igata_error_node(shaped->model, error);
    if (!error)
        return api_status(diag_report(ctx, 0, DIAG_api_run, s->path, igata_status_text(status)));
    if (shaped->program)
        return api_node_error(s, shaped->program->func, error);
    diag_report(ctx, 0, DIAG_api_error_node, s->path, igata_status_text(status), node ? node : "?");
    return status;
}

igata_status engine_run(igata_session *s, const Shaped *shaped, size_t entry, void *const io[], uint64_t *error)
{
    if (!s->pool)
        return igata_run_report(shaped->model, entry, io, shaped->workspace, shaped->state, error);
    igata_status status = igata_pool_run(s->pool, shaped->model, entry, io, shaped->workspace, shaped->state);
    *error = status != IGATA_OK ? igata_pool_error(s->pool) : 0;
    return status;
}

igata_status engine_step_artifact(igata_session *s, Shaped *shaped, igata_timing *times)
{
    uint64_t error = 0;
    igata_status status = times ? igata_run_timed(shaped->model, shaped->entry, shaped->io, shaped->workspace, shaped->state, &error, times)
                                : engine_run(s, shaped, shaped->entry, shaped->io, &error);
    if (shaped->sizes)
        find_shapes(shaped, shaped->sizes);
    return status == IGATA_OK ? status : api_explain(s, shaped, status, error);
}

static igata_status step_reference(igata_session *s, Shaped *shaped)
{
    uint64_t error = 0;
    EvalMode mode = s->options->engine == ENGINE_F64 ? EVAL_F64 : EVAL_REF32;
    uint32_t errors = diag_errors(s->owner->ctx);
    arena_reset(s->run_arena);
    if (!eval_func(s->owner->ctx, s->run_arena, mode, shaped->func, shaped->in, shaped->out, &error) ||
        diag_errors(s->owner->ctx) > errors)
        return IGATA_E_MODEL;
    return error ? api_node_error(s, shaped->func, error) : IGATA_OK;
}

igata_status engine_step(igata_session *s, Shaped *shaped)
{
    if (is_reference(s))
        return step_reference(s, shaped);
    if (s->has_runner)
        return runner_step(s, shaped);
    return shaped->eager ? eager_step(s, shaped) : engine_step_artifact(s, shaped, NULL);
}
