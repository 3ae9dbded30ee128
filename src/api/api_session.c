/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: a model and an engine. What is declared is read first; a set of input shapes is compiled (or imported, for the
 * evaluator) when it is seen first, and kept.
 */
#include "api/api_int.h"

#include <inttypes.h>
#include <string.h>

/* ---- what is declared ---------------------------------------------------------------------------------------------------- */

static bool is_named(const igata_options *o, Str name)
{
    for (uint32_t i = 0; i < o->inputs.len; i++)
        if (o->inputs.data[i] == name)
            return true;
    return false;
}

static bool is_fixed(const igata_options *o, Str name)
{
    for (uint32_t i = 0; i < o->values.len; i++)
        if (o->values.data[i].name == name)
            return true;
    return false;
}

static Declared *declare_values(const igata_session *s, const FrontValue *from, uint32_t n, uint32_t *count)
{
    Declared *list = ARENA_ARRAY(ctx_arena(s->owner->ctx), Declared, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        if ((from[i].initializer && !is_named(s->options, from[i].name)) || is_fixed(s->options, from[i].name))
            continue;
        Declared *d = &list[(*count)++];
        *d = from[i];
        d->initializer = false;
        d->rank = d->has_rank ? d->rank : IGATA_ANY_RANK;
    }
    return list;
}

static Declared declare_typed(Context *ctx, Str name, const Type *type)
{
    Arena *arena = ctx_arena(ctx);
    Declared d = {.name = name, .rank = IGATA_ANY_RANK};
    if (type->kind != TY_TENSOR)
        return d;
    FrontDim *dims = ARENA_ARRAY(arena, FrontDim, type->rank + 1);
    for (uint32_t a = 0; a < type->rank; a++) {
        dims[a] = (FrontDim){-1, ""};
        if (!dim_is_const(type->dim[a], &dims[a].size)) {
            Text text;
            text_init(&text, arena);
            dim_print(&text, type->dim[a]);
            dims[a] = (FrontDim){-1, str_intern(ctx, text.data)};
        }
    }
    return (Declared){.name = name, .dtype = type->dtype, .has_rank = true, .rank = type->rank, .dim = dims};
}

static void declare_func(igata_session *s, const Func *func)
{
    Context *ctx = s->owner->ctx;
    s->n_in = func->body->params.len;
    s->n_out = func_n_out(func);
    s->in = ARENA_ARRAY(ctx_arena(ctx), Declared, s->n_in + 1);
    s->out = ARENA_ARRAY(ctx_arena(ctx), Declared, s->n_out + 1);
    for (uint32_t i = 0; i < s->n_in; i++)
        s->in[i] = declare_typed(ctx, func->in_names[i], func->body->params.data[i]->type);
    for (uint32_t i = 0; i < s->n_out; i++)
        s->out[i] = declare_typed(ctx, func->out_names[i], func_out(func, i)->type);
}

static igata_status declare_artifact(igata_session *s)
{
    Context *ctx = s->owner->ctx;
    Arena *arena = ctx_arena(ctx);
    const igata_open_options check = {.size = sizeof check, .flags = IGATA_CHECK};
    Shaped *base = s->bases = ARENA_NEW(arena, Shaped);
    igata_status status = igata_open(s->path, &check, &base->model); /* its code runs only if it is what was written */
    igata_close(base->model);
    base->model = NULL;
    double start = api_now();
    if (status == IGATA_OK)
        status = igata_open(s->path, NULL, &base->model);
    double open_us = (api_now() - start) * 1e6;
    int entry = *s->options->entry ? igata_entry_find(base->model, s->options->entry) : 0;
    igata_entry info = {.size = sizeof info};
    if (status == IGATA_OK && (entry < 0 || igata_entry_info(base->model, (size_t)entry, &info) != IGATA_OK))
        return api_status(diag_report(ctx, 0, DIAG_driver_no_entry, s->options->entry));
    if (status != IGATA_OK)
        return api_status(diag_report(ctx, 0, DIAG_api_run, s->path, igata_status_text(status)));
    s->n_in = (uint32_t)info.inputs;
    s->n_out = (uint32_t)info.outputs;
    s->in = ARENA_ARRAY(arena, Declared, info.inputs + 1);
    s->out = ARENA_ARRAY(arena, Declared, info.outputs + 1);
    for (size_t i = 0; i < info.inputs + info.outputs; i++) {
        igata_value value = {.size = sizeof value};
        igata_io_info(base->model, (size_t)entry, i, &value);
        FrontDim *dims = ARENA_ARRAY(arena, FrontDim, value.rank + 1);
        for (size_t a = 0; a < value.rank; a++)
            dims[a] = (FrontDim){value.dims[a], ""};
        *(i < info.inputs ? &s->in[i] : &s->out[i - info.inputs]) =
            (Declared){.name = str_intern(ctx, value.name), .dtype = dtype_from_onnx(value.dtype), .has_rank = true,
                       .rank = (uint32_t)value.rank, .dim = dims};
    }
    base->entry = (size_t)entry;
    base->stats.open_us = open_us;
    return IGATA_OK;
}

static igata_status declare_model(igata_session *s)
{
    Context *ctx = s->owner->ctx;
    Arena *arena = ctx_arena(ctx);
    FrontInfo info;
    Func *func;
    if (str_ends_with(s->path, ".onnx")) {
        if (!front_onnx_info(ctx, arena, s->path, &info) || !api_check_names(ctx, s->options, &info))
            return IGATA_E_MODEL;
        s->in = declare_values(s, info.in, info.n_in, &s->n_in);
        s->out = declare_values(s, info.out, info.n_out, &s->n_out);
        return IGATA_OK;
    }
    s->from_stdin = strcmp(s->path, "-") == 0;
    if (s->from_stdin && !file_map(ctx, "-", &s->stdin_blob))
        return IGATA_E_MODEL;
    Module *module = api_import(s->owner, s->path, s->from_stdin ? &s->stdin_blob : NULL, s->options, NULL, &func);
    if (!module)
        return IGATA_E_MODEL;
    declare_func(s, func);
    return IGATA_OK;
}

/* ---- opening and closing ------------------------------------------------------------------------------------------------------ */

typedef struct Open {
    igata_context *ctx;
    const char *path;
    const igata_options *options;
    igata_session *made;
} Open;

static igata_status open_body(void *arg)
{
    Open *o = arg;
    Context *ctx = o->ctx->ctx;
    igata_session *s = ARENA_NEW(ctx_arena(ctx), igata_session);
    s->owner = o->ctx;
    s->options = (igata_options *)(uintptr_t)o->options;
    s->path = str_intern(ctx, o->path);
    s->next = o->ctx->sessions;
    if (s->next)
        s->next->prev = s;
    o->ctx->sessions = o->made = s; /* so that it is closed whatever happens below */
    s->run_arena = arena_create(ctx);
    s->has_runner = *s->options->runner != 0;
    s->is_artifact = strcmp(o->path, "-") != 0 && art_is_artifact(o->path);
    if (s->is_artifact && s->options->engine != ENGINE_COMPILED)
        return api_status(diag_report(ctx, 0, DIAG_api_artifact, o->path, "only the engine 'compiled' runs it"));
    if (s->is_artifact && s->has_runner)
        return api_status(diag_report(ctx, 0, DIAG_api_artifact, o->path, "--runner needs a model"));
    if (s->is_artifact && (s->options->dims.len || s->options->values.len || s->options->also_output.len))
        return api_status(diag_report(ctx, 0, DIAG_api_artifact, o->path,
                                      "--dim, --bound, --input-value and --also-output need a model; sizes of a run come with its inputs, or "
                                      "by --shape"));
    return s->is_artifact ? declare_artifact(s) : declare_model(s);
}

igata_status igata_session_open(igata_context *ctx, const char *path, const igata_options *options, igata_session **session)
{
    igata_options *copy = igata_options_copy(options);
    Open open = {ctx, path, copy, NULL};
    *session = NULL;
    if (!copy)
        return IGATA_E_MEMORY;
    igata_status status = api_run(ctx, open_body, &open);
    if (status == IGATA_OK)
        *session = open.made;
    else
        igata_session_close(open.made);
    return status;
}

static void close_all(Shaped *list)
{
    for (Shaped *shaped = list; shaped; shaped = shaped->next) {
        igata_close(shaped->base ? NULL : shaped->model);
        api_temp_close(&shaped->artifact);
    }
}

void igata_session_close(igata_session *s)
{
    if (!s)
        return;
    if (s->pool) {
        igata_pool_quiesce(s->pool);
        igata_pool_destroy(s->pool);
    }
    close_all(s->shaped);
    close_all(s->bases);
    if (s->run_arena)
        arena_destroy(s->run_arena);
    if (s->next)
        s->next->prev = s->prev;
    *(s->prev ? &s->prev->next : &s->owner->sessions) = s->next;
}

size_t igata_session_inputs(const igata_session *s) { return s->n_in; }

size_t igata_session_outputs(const igata_session *s) { return s->current ? s->current->n_out : s->n_out; }

/* ---- declared types --------------------------------------------------------------------------------------------------------------- */

typedef struct TypeCall {
    igata_session *s;
    const Declared *value;
    const char *name;
    const igata_tensor *given;
    size_t n_given;
    igata_tensor *type;
} TypeCall;

static const Declared *find_input(const igata_session *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_in; i++)
        if (strcmp(s->in[i].name, name) == 0)
            return &s->in[i];
    return NULL;
}

/* The size of a symbol, by given inputs and options; -1 if nothing says. */
static int64_t symbol_size(const TypeCall *c, Str symbol)
{
    const igata_options *o = c->s->options;
    for (size_t i = 0; *symbol && i < c->n_given; i++) {
        const Declared *d = c->given[i].name ? find_input(c->s, c->given[i].name) : NULL;
        for (uint32_t a = 0; d && d->rank == c->given[i].rank && a < d->rank; a++)
            if (d->dim[a].size < 0 && strcmp(d->dim[a].symbol, symbol) == 0)
                return c->given[i].dims[a];
    }
    for (uint32_t i = 0; i < o->dims.len; i++)
        if (o->dims.data[i].name == symbol && o->dims.data[i].lo == o->dims.data[i].hi && !o->dims.data[i].bound)
            return o->dims.data[i].lo;
    for (uint32_t i = 0; *symbol && i < o->shapes.len; i++) {
        const Declared *d = find_input(c->s, o->shapes.data[i].name);
        for (uint32_t a = 0; d && d->rank == o->shapes.data[i].rank && a < d->rank; a++)
            if (d->dim[a].size < 0 && d->dim[a].symbol == symbol && o->shapes.data[i].dim[a] >= 0)
                return o->shapes.data[i].dim[a];
    }
    for (uint32_t i = 0; i < o->dims.len; i++) /* the largest of a range */
        if (o->dims.data[i].name == symbol && o->dims.data[i].lo >= 1)
            return o->dims.data[i].hi;
    return -1;
}

static igata_status type_body(void *arg)
{
    TypeCall *c = arg;
    const Declared *d = c->value;
    int64_t *dims = ARENA_ARRAY(ctx_arena(c->s->owner->ctx), int64_t, IR_MAX_RANK + 64);
    const ShapeBinding *shape = NULL;
    for (uint32_t i = 0; i < c->s->options->shapes.len; i++)
        if (c->s->options->shapes.data[i].name == d->name)
            shape = &c->s->options->shapes.data[i];
    *c->type = (igata_tensor){.name = d->name, .dtype = d->dtype == DT_NONE ? 0 : dtype_to_onnx(d->dtype), .rank = d->rank};
    c->type->dims = dims;
    if (d->rank == IGATA_ANY_RANK && shape)
        c->type->rank = shape->rank;
    for (size_t a = 0; c->type->rank != IGATA_ANY_RANK && a < c->type->rank; a++) {
        dims[a] = d->rank == IGATA_ANY_RANK ? -1 : d->dim[a].size;
        if (dims[a] < 0 && shape && shape->rank == c->type->rank)
            dims[a] = shape->dim[a];
        if (dims[a] < 0 && d->rank != IGATA_ANY_RANK)
            dims[a] = symbol_size(c, d->dim[a].symbol);
    }
    return IGATA_OK;
}

igata_status igata_session_input(const igata_session *s, size_t index, igata_tensor *info)
{
    if (index >= s->n_in)
        return IGATA_E_ARGUMENT;
    TypeCall call = {(igata_session *)(uintptr_t)s, &s->in[index], NULL, NULL, 0, info};
    return api_run(s->owner, type_body, &call);
}

igata_status igata_session_output(const igata_session *s, size_t index, igata_tensor *info)
{
    if (index >= s->n_out)
        return IGATA_E_ARGUMENT;
    TypeCall call = {(igata_session *)(uintptr_t)s, &s->out[index], NULL, NULL, 0, info};
    return api_run(s->owner, type_body, &call);
}

igata_status igata_session_input_type(igata_session *s, const char *name, const igata_tensor *given, size_t n_given,
                                      igata_tensor *type)
{
    const Declared *d = find_input(s, name);
    TypeCall call = {s, d, name, given, n_given, type};
    return d ? api_run(s->owner, type_body, &call) : IGATA_E_ARGUMENT;
}

/* ---- inputs of a run --------------------------------------------------------------------------------------------------------------- */

static bool check_input(Context *ctx, const Declared *d, const Tensor *t)
{
    bool ok = (d->dtype == DT_NONE || d->dtype == t->dtype) && (d->rank == IGATA_ANY_RANK || d->rank == t->rank);
    for (uint32_t a = 0; ok && d->rank != IGATA_ANY_RANK && a < d->rank; a++)
        ok = d->dim[a].size < 0 || d->dim[a].size == t->dim[a];
    return ok || diag_report(ctx, 0, DIAG_api_input, d->name,
                             str_format(ctx, "given is %s, declared is %s", api_type_text(ctx, t->dtype, t->rank, t->dim),
                                        api_declared_text(ctx, d)));
}

/* --shape speaks of what is given, too. */
static bool check_shape_options(const igata_session *s, const Declared *d, const Tensor *t)
{
    Context *ctx = s->owner->ctx;
    bool ok = true;
    for (uint32_t i = 0; i < s->options->shapes.len; i++) {
        const ShapeBinding *b = &s->options->shapes.data[i];
        bool equal = b->name != d->name || b->rank == t->rank;
        for (uint32_t a = 0; equal && b->name == d->name && a < b->rank; a++)
            equal = b->dim[a] < 0 || b->dim[a] == t->dim[a];
        if (!equal)
            ok = diag_report(ctx, 0, DIAG_api_input, d->name,
                             str_format(ctx, "given is %s, --shape says otherwise", api_type_text(ctx, t->dtype, t->rank, t->dim)));
    }
    return ok;
}

/* Sizes of one name are equal everywhere. */
static bool check_symbols(igata_session *s, const Tensor *tensors)
{
    Context *ctx = s->owner->ctx;
    Arena *tmp = arena_create(ctx);
    Map *first = map_create(tmp);
    bool ok = true;
    for (uint32_t i = 0; i < s->n_in; i++)
        for (uint32_t a = 0; s->in[i].rank != IGATA_ANY_RANK && a < s->in[i].rank; a++) {
            const FrontDim *dim = &s->in[i].dim[a];
            if (dim->size >= 0 || !*dim->symbol)
                continue;
            void **slot = map_slot(first, KEY(dim->symbol));
            if (!*slot)
                *slot = (void *)(uintptr_t)&tensors[i].dim[a];
            if (*(const int64_t *)*slot != tensors[i].dim[a])
                ok = diag_report(ctx, 0, DIAG_api_input, s->in[i].name,
                                 str_format(ctx, "its axis %u ('%s') is %" PRId64 ", elsewhere %" PRId64, a, dim->symbol,
                                            tensors[i].dim[a], *(const int64_t *)*slot));
        }
    arena_destroy(tmp);
    return ok;
}

/* The given tensors in declared order; reports all that is missing, extra or of the wrong type. */
static bool match_inputs(igata_session *s, const igata_tensor *inputs, size_t n, Tensor *tensors)
{
    Context *ctx = s->owner->ctx;
    bool ok = true;
    for (size_t g = 0; g < n; g++)
        if (!find_input(s, inputs[g].name))
            ok = diag_report(ctx, 0, DIAG_api_input, inputs[g].name, "the model has no such input");
    for (uint32_t i = 0; i < s->n_in; i++) {
        const igata_tensor *given = NULL;
        for (size_t g = 0; g < n; g++)
            if (strcmp(inputs[g].name, s->in[i].name) == 0)
                given = &inputs[g];
        if (!given)
            ok = diag_report(ctx, 0, DIAG_api_input, s->in[i].name,
                             str_format(ctx, "missing; declared is %s", api_declared_text(ctx, &s->in[i])));
        else
            ok &= api_to_tensor(ctx, given, &tensors[i]) && check_input(ctx, &s->in[i], &tensors[i]) &&
                  check_shape_options(s, &s->in[i], &tensors[i]);
    }
    return ok && check_symbols(s, tensors);
}

static uint64_t input_bytes(Context *ctx, const Tensor *t)
{
    uint64_t bytes = t->count * sizeof(char *);
    if (t->dtype != DT_STR && !dtype_bytes(t->dtype, t->count, &bytes))
        ig_bug(ctx, "input of %" PRIu64 " elements", t->count);
    return bytes;
}

/* Types, sizes, and the values that sizes depend on. */
static bool same_key(Context *ctx, const Shaped *shaped, const Tensor *tensors, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (shaped->key[i].dtype != tensors[i].dtype || shaped->key[i].rank != tensors[i].rank ||
            memcmp(shaped->key[i].dim, tensors[i].dim, sizeof(int64_t) * tensors[i].rank) != 0)
            return false;
    for (uint32_t i = 0; shaped->fixed && i < n; i++) {
        uint64_t bytes = shaped->fixed[i] ? input_bytes(ctx, &tensors[i]) : 0;
        if (bytes && memcmp(shaped->in[i]->data, tensors[i].data, bytes) != 0)
            return false;
    }
    return true;
}

static void copy_inputs(igata_session *s, Shaped *shaped, const Tensor *tensors)
{
    for (uint32_t i = 0; i < s->n_in; i++) {
        uint64_t bytes = input_bytes(s->owner->ctx, &tensors[i]);
        if (bytes)
            memcpy(shaped->in[i]->data, tensors[i].data, bytes);
    }
}

static void add_buffers(igata_session *s, Shaped *shaped, const Tensor *tensors)
{
    Arena *arena = ctx_arena(s->owner->ctx);
    shaped->n_in = s->n_in;
    shaped->in = ARENA_ARRAY(arena, Tensor *, s->n_in + 1);
    for (uint32_t i = 0; i < s->n_in; i++) {
        shaped->in[i] = arena_copy(arena, &tensors[i], sizeof tensors[i]);
        shaped->in[i]->data = api_aligned(arena, input_bytes(s->owner->ctx, &tensors[i]));
    }
}

typedef struct RunCall {
    igata_session *s;
    const igata_tensor *inputs;
    size_t n_inputs, index;
    igata_tensor *result;
} RunCall;

static igata_status bind_body(void *arg)
{
    RunCall *c = arg;
    igata_session *s = c->s;
    Arena *arena = ctx_arena(s->owner->ctx);
    Tensor *tensors = ARENA_ARRAY(arena, Tensor, s->n_in + 1);
    if (!match_inputs(s, c->inputs, c->n_inputs, tensors))
        return IGATA_E_MODEL;
    Shaped *shaped = s->shaped;
    while (shaped && !same_key(s->owner->ctx, shaped, tensors, s->n_in))
        shaped = shaped->next;
    if (!shaped) {
        shaped = ARENA_NEW(arena, Shaped);
        shaped->key = tensors;
        shaped->next = s->shaped;
        s->shaped = shaped;
    }
    if (!shaped->in) {
        add_buffers(s, shaped, tensors);
        copy_inputs(s, shaped, tensors); /* the import may need values */
        igata_status status = engine_prepare(s, shaped);
        if (status != IGATA_OK) {
            s->shaped = shaped->next;
            igata_close(shaped->base ? NULL : shaped->model);
            api_temp_close(&shaped->artifact);
            return status;
        }
    }
    copy_inputs(s, shaped, tensors);
    s->current = shaped;
    return IGATA_OK;
}

igata_status igata_session_bind(igata_session *s, const igata_tensor *inputs, size_t n_inputs)
{
    RunCall call = {s, inputs, n_inputs, 0, NULL};
    return api_run(s->owner, bind_body, &call);
}

static igata_status step_body(void *arg)
{
    igata_session *s = arg;
    if (!s->current)
        return IGATA_E_ARGUMENT;
    if (s->current->ran)
        return engine_step(s, s->current);
    double start = api_now();
    igata_status status = engine_step(s, s->current);
    s->current->stats.first_run_us = (api_now() - start) * 1e6;
    s->current->ran = true;
    return status;
}

/* The common case, a prepared artifact on one thread, is a call and nothing else: it is what `bench` measures. */
igata_status igata_session_step(igata_session *s)
{
    const Shaped *c = s->current;
    if (c && c->ran && c->model && !c->eager && !c->sizes && !s->pool && !s->has_runner) {
        igata_status status = igata_run(c->model, c->entry, c->io, c->workspace, c->state);
        if (status == IGATA_OK)
            return status;
    }
    return api_run(s->owner, step_body, s);
}

static const Shaped *timed_program(const igata_session *s)
{
    const Shaped *c = s->current;
    return c && c->model && !c->eager ? c : NULL;
}

typedef struct TimedCall {
    igata_session *s;
    igata_timing *times;
} TimedCall;

static igata_status timed_body(void *arg)
{
    const TimedCall *c = arg;
    return timed_program(c->s) ? engine_step_artifact(c->s, c->s->current, c->times) : IGATA_E_ARGUMENT;
}

igata_status igata_session_step_timed(igata_session *s, igata_timing times[])
{
    TimedCall call = {s, times};
    return api_run(s->owner, timed_body, &call);
}

size_t igata_session_phases(const igata_session *s)
{
    const Shaped *p = timed_program(s);
    igata_entry entry = {.size = sizeof entry};
    return p && igata_entry_info(p->model, p->entry, &entry) == IGATA_OK ? entry.phases : 0;
}

igata_status igata_session_phase(const igata_session *s, size_t index, igata_phase *info)
{
    const Shaped *p = timed_program(s);
    return p ? igata_phase_info(p->model, p->entry, index, info) : IGATA_E_ARGUMENT;
}

static igata_status run_body(void *arg)
{
    RunCall *c = arg;
    igata_status status = bind_body(c);
    return status == IGATA_OK ? step_body(c->s) : status;
}

igata_status igata_session_run(igata_session *s, const igata_tensor *inputs, size_t n_inputs)
{
    RunCall call = {s, inputs, n_inputs, 0, NULL};
    return api_run(s->owner, run_body, &call);
}

static igata_status result_body(void *arg)
{
    RunCall *c = arg;
    const Shaped *shaped = c->s->current;
    if (!shaped || !shaped->ran || c->index >= shaped->n_out)
        return IGATA_E_ARGUMENT;
    *c->result = api_from_tensor(c->s->run_arena, shaped->out_names[c->index], shaped->out[c->index]);
    return IGATA_OK;
}

igata_status igata_session_result(igata_session *s, size_t index, igata_tensor *result)
{
    RunCall call = {s, NULL, 0, index, result};
    return api_run(s->owner, result_body, &call);
}

igata_status igata_session_statistics(const igata_session *s, igata_session_stats *stats)
{
    if (!s->current || stats->size != sizeof *stats)
        return IGATA_E_ARGUMENT;
    *stats = s->current->stats;
    stats->size = sizeof *stats;
    return IGATA_OK;
}
