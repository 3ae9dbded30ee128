/* SPDX-License-Identifier: Apache-2.0
 * Networks: imported models, and what is made of them. */
#include "api/api_int.h"

#include <string.h>

/* ---- import ------------------------------------------------------------------------------------------------------------ */

/* Values of the session and, by the types that the model declares, of the options. */
static bool add_values(Context *ctx, const char *path, const igata_options *o, const Given *given, ImportOptions *options)
{
    bool onnx = str_ends_with(path, ".onnx");
    FrontInfo info = {0};
    if (o->values.len && !onnx)
        return diag_report(ctx, 0, DIAG_api_option, "--input-value is for .onnx files");
    if (onnx && (o->values.len || (!given && o->dims.len + o->shapes.len)) && !front_onnx_info(ctx, ctx_arena(ctx), path, &info))
        return false;
    if (onnx && !given && !api_check_names(ctx, o, &info)) /* a session did so when it was opened */
        return false;
    const ValueBinding *fixed = api_read_values(ctx, o, &info);
    uint32_t n = given ? given->n_values : 0;
    ValueBinding *all = ARENA_ARRAY(ctx_arena(ctx), ValueBinding, n + o->values.len + 1);
    for (uint32_t i = 0; i < n; i++)
        all[i] = given->values[i];
    for (uint32_t i = 0; fixed && i < o->values.len; i++)
        all[n + i] = fixed[i];
    options->values = all;
    options->n_values = n + o->values.len;
    return fixed != NULL;
}

static bool bind_text(Context *ctx, const igata_options *o, const ImportOptions *options, const Module *module, Func *func)
{
    return api_check_module_names(ctx, o, module, func) && driver_bind_dims(ctx, func, options);
}

Module *api_import(igata_context *owner, const char *path, const Blob *blob, const igata_options *o, const Given *given,
                   Func **func)
{
    Context *ctx = owner->ctx;
    ImportOptions options = {.strict = o->pass.strict, .dims = o->dims.data, .n_dims = o->dims.len, .shapes = o->shapes.data,
                             .n_shapes = o->shapes.len, .overridable = o->inputs.data, .n_overridable = o->inputs.len,
                             .max_bytes = o->max_bytes};
    if (given) { /* tensors were checked against the options */
        options.shapes = given->shapes;
        options.n_shapes = given->n_shapes;
    }
    if (!add_values(ctx, path, o, given, &options))
        return NULL;
    uint32_t errors = diag_errors(ctx);
    Module *module = blob ? front_onnx_import(ctx, path, *blob, &options) : front_load(ctx, path, &options);
    if (!module || diag_errors(ctx) > errors)
        return NULL;
    if (o->pass.strict || o->pass.direct)
        module_set_strict(module);
    *func = driver_entry(ctx, module, *o->entry ? o->entry : NULL);
    if (!*func || (str_ends_with(path, ".ig") && !bind_text(ctx, o, &options, module, *func)))
        return NULL;
    if (o->dims.len && !api_set_bounds(ctx, o, path, *func))
        return NULL;
    api_drop_inputs(*func, o);
    for (uint32_t i = 0; i < o->also_output.len; i++)
        if (!driver_also_output(ctx, *func, o->also_output.data[i]))
            return NULL;
    return module;
}

Blob api_model_file(igata_context *owner, const char *path)
{
    Blob blob;
    return strcmp(path, "-") != 0 && file_map(owner->ctx, path, &blob) ? blob : (Blob){0};
}

typedef struct Load {
    igata_context *ctx;
    const char *path;
    const igata_options *options;
    igata_network *made;
} Load;

static igata_status load_body(void *arg)
{
    Load *l = arg;
    igata_network *net = ARENA_NEW(ctx_arena(l->ctx->ctx), igata_network);
    Context *ctx = l->ctx->ctx;
    uint32_t said = diag_count(ctx);
    FrontInfo info;
    net->owner = l->ctx;
    net->module = api_import(l->ctx, l->path, NULL, l->options, NULL, &net->func);
    if (!net->module && api_lacks_values(ctx, said) && str_ends_with(l->path, ".onnx") &&
        front_onnx_info(ctx, ctx_arena(ctx), l->path, &info))
        api_advise_values(ctx, &info);
    if (!net->module)
        return IGATA_E_MODEL;
    net->file = api_model_file(l->ctx, l->path);
    l->made = net;
    return IGATA_OK;
}

igata_status igata_network_load(igata_context *ctx, const char *path, const igata_options *options, igata_network **network)
{
    Load load = {ctx, path, options, NULL};
    igata_status status = api_run(ctx, load_body, &load);
    *network = status == IGATA_OK ? load.made : NULL;
    return status;
}

/* ---- compile -------------------------------------------------------------------------------------------------------------- */

typedef struct Compile {
    igata_network *net;
    igata_options *options;
    const char *path;
} Compile;

static igata_status write_text(igata_network *net, igata_options *o, const DriverOptions *options, const char *path)
{
    Context *ctx = net->owner->ctx;
    Module *module = module_clone(net->module);
    Program times = {.ctx = ctx};
    bool ok = driver_optimize(ctx, module, options, &times);
    api_add_times(o->owner, &times);
    if (ok && o->pass.stop_after == NULL)
        ok = ir_verify(module);
    return api_status(ok && ir_save(module, path));
}

static igata_status compile_body(void *arg)
{
    Compile *c = arg;
    Context *ctx = c->net->owner->ctx;
    DriverOptions options;
    if (!api_driver_options(c->options, false, &options))
        return IGATA_E_OPTION;
    options.model = c->net->file;
    if (str_ends_with(c->path, ".ig"))
        return write_text(c->net, c->options, &options, c->path);
    if (!driver_knows_output(ctx, c->path))
        return IGATA_E_OPTION;
    Module *module = module_clone(c->net->module);
    uint32_t errors = diag_errors(ctx);
    Program *program = driver_compile(ctx, module, driver_entry(ctx, module, c->net->func->name), &options);
    if (!program)
        return IGATA_E_MODEL;
    api_add_times(c->net->owner, program);
    bool ok = diag_errors(ctx) == errors; /* a dump may have failed */
    if (ok)
        ok = driver_is_complete(program) ? driver_write(program, c->path) : true; /* --stop-after: there is no code */
    driver_destroy(program);
    return api_status(ok);
}

igata_status igata_network_compile(igata_network *network, const igata_options *options, const char *path)
{
    Compile compile = {network, (igata_options *)(uintptr_t)options, path};
    return api_run(network->owner, compile_body, &compile);
}

/* ---- passes by name --------------------------------------------------------------------------------------------------------- */

typedef struct Optimize {
    igata_network *net;
    igata_options *options;
    const char *passes;
    const char **schedule;
} Optimize;

static igata_status optimize_body(void *arg)
{
    Optimize *p = arg;
    Context *ctx = p->net->owner->ctx;
    DriverOptions options;
    const char *names[64];
    uint32_t n = 0;
    if (!api_driver_options(p->options, false, &options))
        return IGATA_E_OPTION;
    for (const char *at = p->passes; *at;) {
        size_t length = strcspn(at, ",");
        names[n] = str_intern_n(ctx, at, length);
        at += length + (at[length] == ',');
        if (!driver_find_pass(names[n]) || ++n == IG_COUNT(names) - 1) {
            diag_report(ctx, 0, DIAG_api_option, str_format(ctx, "option --passes: '%s' is not a pass", names[n]));
            return IGATA_E_OPTION;
        }
    }
    names[n] = NULL;
    Program times = {.ctx = ctx};
    Text text;
    text_init(&text, ctx_arena(ctx));
    bool scheduled = false;
    bool ok = driver_run_passes(ctx, p->net->module, p->net->func, &options, names, &times, &text, &scheduled);
    api_add_times(p->net->owner, &times);
    if (p->schedule)
        *p->schedule = ok && scheduled ? text.data : NULL;
    return api_status(ok);
}

igata_status igata_network_optimize(igata_network *network, const igata_options *options, const char *passes,
                                    const char **schedule)
{
    Optimize optimize = {network, (igata_options *)(uintptr_t)options, passes, schedule};
    return api_run(network->owner, optimize_body, &optimize);
}

/* ---- gradients ---------------------------------------------------------------------------------------------------------------- */

typedef struct Gradient {
    igata_network *net;
    const char *loss, *wrt, *seed;
    igata_network *made;
} Gradient;

/* The gradient is the new module's only function: calls were inlined into it. */
static void keep_only(Module *module, Func *func)
{
    module->funcs.len = 0;
    vec_push(module->arena, &module->funcs, func);
}

static igata_status gradient_body(void *arg)
{
    Gradient *g = arg;
    Context *ctx = g->net->owner->ctx;
    Arena *arena = ctx_arena(ctx);
    Module *module = module_clone(g->net->module);
    VEC(Str) wrt = {0};
    for (const char *at = g->wrt ? g->wrt : ""; *at;) {
        size_t n = strcspn(at, ",");
        if (n)
            vec_push(arena, &wrt, str_intern_n(ctx, at, n));
        at += n + (at[n] == ',');
    }
    AdOutput output = {g->loss ? str_intern(ctx, g->loss) : NULL, g->seed ? str_intern(ctx, g->seed) : NULL};
    AdRequest request = {.func = driver_entry(ctx, module, g->net->func->name), .outputs = &output, .n_outputs = g->loss ? 1 : 0,
                         .wrt = wrt.data, .n_wrt = wrt.len};
    request.name = str_format(ctx, "%s_grad", request.func->name);
    Func *func = ad_gradient(module, &request);
    if (!func)
        return IGATA_E_MODEL;
    keep_only(module, func);
    igata_network *net = ARENA_NEW(arena, igata_network);
    *net = (igata_network){.owner = g->net->owner, .module = module, .func = func, .file = g->net->file};
    g->made = net;
    return IGATA_OK;
}

igata_status igata_network_gradient(igata_network *network, const char *loss, const char *wrt, const char *seed,
                                    igata_network **gradient)
{
    Gradient g = {network, loss, wrt, seed, NULL};
    igata_status status = api_run(network->owner, gradient_body, &g);
    *gradient = status == IGATA_OK ? g.made : NULL;
    return status;
}

/* ---- text ------------------------------------------------------------------------------------------------------------------------ */

typedef struct Show {
    igata_network *net;
    const char *path, *text;
} Show;

static igata_status text_body(void *arg)
{
    Show *s = arg;
    Text text;
    text_init(&text, ctx_arena(s->net->owner->ctx));
    ir_print(&text, s->net->module);
    s->text = text.data;
    return IGATA_OK;
}

const char *igata_network_text(igata_network *network)
{
    Show show = {network, NULL, ""};
    api_run(network->owner, text_body, &show);
    return show.text;
}

static igata_status save_body(void *arg)
{
    Show *s = arg;
    if (strcmp(s->path, "-") != 0)
        return api_status(ir_save(s->net->module, s->path));
    text_body(s);
    return api_status(file_write_all(s->net->owner->ctx, "-", s->text, strlen(s->text)));
}

igata_status igata_network_save(igata_network *network, const char *path)
{
    Show show = {network, path, ""};
    return api_run(network->owner, save_body, &show);
}
