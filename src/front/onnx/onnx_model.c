/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole ONNX model: versions, what it needs that igata lacks (all at once, before anything is built), inputs, outputs.
 */
#include "front/onnx/onnx_int.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_MAX_BYTES (INT64_C(1) << 36)

Loc onnx_model_loc(const Importer *im)
{
    Str none = str_intern(im->ctx, "");
    return loc_onnx(im->ctx, im->file, none, 0, none, none);
}

static bool bad_model(const Importer *im, const char *format, ...) IG_PRINTF(2, 3);
static bool bad_model(const Importer *im, const char *format, ...)
{
    char detail[400];
    va_list list;
    va_start(list, format);
    vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    return diag_report(im->ctx, onnx_model_loc(im), DIAG_onnx_model, detail);
}

static bool bad_value(const Importer *im, Str name, const char *format, ...) IG_PRINTF(3, 4);
static bool bad_value(const Importer *im, Str name, const char *format, ...)
{
    char detail[400];
    va_list list;
    va_start(list, format);
    vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    return diag_report(im->ctx, onnx_model_loc(im), DIAG_onnx_value, or_blank(name), detail);
}

/* ---- what is needed and lacks ------------------------------------------------------------------------------------------ */

typedef struct Lack { /* one operator, or function, that cannot be imported */
    Str domain, type;
    const char *why;
    Loc loc;
    uint32_t count;
    Text nodes;
} Lack;
typedef struct Survey {
    Importer *im;
    VEC(Lack *) lacks;
    Map *functions; /* KEY(FunctionProto) -> 1: being walked, 2: done */
    bool good;
} Survey;

static void lack(Survey *survey, const NodeProto *node, uint32_t index, Str path, const char *why)
{
    Importer *im = survey->im;
    Lack *found = NULL;
    Str domain = str_intern(im->ctx, or_blank(node->domain)), type = str_intern(im->ctx, or_blank(node->op_type));
    for (uint32_t i = 0; i < survey->lacks.len && !found; i++)
        if (survey->lacks.data[i]->domain == domain && survey->lacks.data[i]->type == type)
            found = survey->lacks.data[i];
    if (!found) {
        found = ARENA_NEW(im->arena, Lack);
        *found = (Lack){.domain = domain, .type = type, .why = why};
        found->loc = loc_onnx(im->ctx, im->file, path, index, node->name, node->op_type);
        text_init(&found->nodes, im->arena);
        vec_push(im->arena, &survey->lacks, found);
    }
    if (found->count++ < 3)
        text_addf(&found->nodes, "%s%s%s#%u '%s'", found->count > 1 ? ", " : "", path, *path ? "/" : "", index,
                  or_blank(node->name));
}

static void survey_nodes(Survey *survey, const MsgList *nodes, const MsgList *opsets, Str path, uint32_t depth);

static void survey_function(Survey *survey, const FunctionProto *f, uint32_t depth)
{
    void **state = map_slot(survey->functions, KEY(f));
    if (*state == (void *)2)
        return;
    if (*state) {
        survey->good = bad_model(survey->im, "function '%s' calls itself", or_blank(f->name));
        return;
    }
    *state = (void *)1;
    survey_nodes(survey, &f->node, &f->opset_import, str_intern(survey->im->ctx, or_blank(f->name)), depth + 1);
    map_set(survey->functions, KEY(f), (void *)2);
}

static void survey_operator(Survey *survey, const NodeProto *node, const MsgList *opsets, uint32_t index, Str path)
{
    Importer *im = survey->im;
    const char *domain = or_blank(node->domain), *type = onnx_table_name(im->arena, node);
    int64_t version = onnx_domain_version(opsets, domain), first;
    if (!onnx_is_main_domain(domain) && !onnx_type_exists(type, &first)) {
        lack(survey, node, index, path, arena_printf(im->arena, "operators of domain '%s' are not supported", domain));
        return;
    }
    if (!version) {
        lack(survey, node, index, path, "the operator set of its domain is not imported");
        return;
    }
    const OnnxRow *row = onnx_find_row(type, version);
    if (!onnx_type_exists(type, &first))
        lack(survey, node, index, path, "there is no such operator");
    else if (!row)
        lack(survey, node, index, path,
             arena_printf(im->arena, "it exists from operator set %lld on, the model imports %lld", (long long)first,
                          (long long)version));
    else if (row->import == import_deprecated)
        lack(survey, node, index, path, arena_printf(im->arena, "it is deprecated since operator set %d", row->since));
    else if (row->import == import_unsupported)
        lack(survey, node, index, path,
             arena_printf(im->arena, "version %d of it is not supported (operator set %lld)", row->since, (long long)version));
}

static void survey_nodes(Survey *survey, const MsgList *nodes, const MsgList *opsets, Str path, uint32_t depth)
{
    Importer *im = survey->im;
    if (depth > IR_MAX_NESTING) {
        survey->good = bad_model(im, "graphs and functions are nested more than %d deep", IR_MAX_NESTING);
        return;
    }
    for (uint32_t i = 0; i < nodes->len; i++) {
        const NodeProto *node = nodes->data[i];
        const FunctionProto *f = onnx_find_function(im, node);
        if (f)
            survey_function(survey, f, depth);
        else
            survey_operator(survey, node, opsets, i, path);
        for (uint32_t k = 0; k < node->attribute.len; k++) {
            const AttributeProto *a = node->attribute.data[k];
            for (uint32_t g = 0; g <= a->graphs.len; g++) {
                const GraphProto *graph = g < a->graphs.len ? a->graphs.data[g] : a->g;
                const char *label = *or_blank(node->name) ? node->name : or_blank(node->op_type);
                const char *inner = str_format(im->ctx, "%s%s%s.%s", path, *path ? "/" : "", label, or_blank(a->name));
                if (graph)
                    survey_nodes(survey, &graph->node, opsets, inner, depth + 1);
            }
        }
    }
}

static bool survey_model(Importer *im)
{
    Survey survey = {.im = im, .functions = map_create(im->arena), .good = true};
    survey_nodes(&survey, &im->model->graph->node, &im->model->opset_import, str_intern(im->ctx, ""), 1);
    for (uint32_t i = 0; i < survey.lacks.len; i++) {
        const Lack *l = survey.lacks.data[i];
        survey.good = diag_report(im->ctx, l->loc, DIAG_onnx_unsupported, *l->type ? l->type : "a node without op_type",
                                  l->why, l->count, l->nodes.data);
    }
    return survey.good;
}

/* ---- versions ------------------------------------------------------------------------------------------------------------- */

static bool check_opsets(const Importer *im, const MsgList *opsets, const char *whose)
{
    bool good = true;
    if (opsets->len == 0)
        return bad_model(im, "%s imports no operator set (opset_import)", whose);
    for (uint32_t i = 0; i < opsets->len; i++) {
        const OperatorSetIdProto *set = opsets->data[i];
        const char *domain = or_blank(set->domain);
        bool main = onnx_is_main_domain(domain);
        if (set->version < 1)
            good = bad_model(im, "%s imports version %lld of operator set '%s', versions begin with 1", whose,
                             (long long)set->version, domain);
        else if (main && (set->version < ONNX_OPSET_MIN || set->version > ONNX_OPSET_MAX))
            good = bad_model(im, "%s imports operator set %lld, supported are %d to %d", whose, (long long)set->version,
                             ONNX_OPSET_MIN, ONNX_OPSET_MAX);
        for (uint32_t k = 0; k < i; k++) {
            const OperatorSetIdProto *other = opsets->data[k];
            bool same = !strcmp(or_blank(other->domain), domain) || (main && onnx_is_main_domain(or_blank(other->domain)));
            if (same && other->version != set->version)
                good = bad_model(im, "%s imports operator set '%s' in versions %lld and %lld", whose, domain,
                                 (long long)other->version, (long long)set->version);
        }
    }
    return good;
}

static bool check_functions(const Importer *im)
{
    bool good = true;
    for (uint32_t i = 0; i < im->model->functions.len; i++) {
        const FunctionProto *f = im->model->functions.data[i];
        const NodeProto call = {.op_type = f->name, .domain = f->domain, .overload = f->overload};
        const char *name = or_blank(f->name);
        if (!*name)
            good = bad_model(im, "function %u has no name", i);
        else if (onnx_find_function(im, &call) != f)
            good = bad_model(im, "function '%s' is defined twice", name);
        else
            good &= check_opsets(im, &f->opset_import, arena_printf(im->arena, "function '%s'", name));
    }
    return good;
}

static bool check_model(const Importer *im)
{
    const ModelProto *model = im->model;
    if (!HAS(ModelProto, model, ir_version))
        return bad_model(im, "it has no ir_version: it is not an ONNX model");
    if (model->ir_version < 1 || model->ir_version > ONNX_IR_MAX)
        return bad_model(im, "ir_version %lld is not supported, supported are 1 to %d", (long long)model->ir_version,
                         ONNX_IR_MAX);
    if (!model->graph)
        return bad_model(im, "it has no graph");
    if (model->graph->output.len == 0)
        return bad_model(im, "its graph has no outputs");
    bool opsets = check_opsets(im, &model->opset_import, "the model");
    return check_functions(im) && opsets;
}

/* ---- types of inputs --------------------------------------------------------------------------------------------------------- */

static const DimBinding *find_dim(const Importer *im, Str name)
{
    for (uint32_t i = 0; i < im->options->n_dims; i++)
        if (im->options->dims[i].name == name)
            return &im->options->dims[i];
    return NULL;
}

/* The size that a name stands for: given by an option or an input's given shape, or a symbol of the module. */
static const Dim *named_dim(Importer *im, Str name)
{
    void **slot = map_slot(im->symbols, KEY(name));
    if (!*slot) {
        const DimBinding *given = find_dim(im, name);
        int64_t lo = given && given->lo >= 0 ? given->lo : 0, hi = given && given->hi >= lo ? given->hi : INT32_MAX;
        const Dim *dim = given && lo == hi ? dim_const(im->ctx, lo) : dim_sym(im->ctx, module_sym(im->module, name, lo, hi));
        *slot = (void *)(uintptr_t)dim;
    }
    return *slot;
}

static const Dim *fresh_dim(Importer *im)
{
    Str name;
    do
        name = str_format(im->ctx, "d%u", im->n_fresh++);
    while (module_find_sym(im->module, name));
    return dim_sym(im->ctx, module_sym(im->module, name, 0, INT32_MAX));
}

static const ShapeBinding *find_shape(const Importer *im, Str name)
{
    for (uint32_t i = 0; i < im->options->n_shapes; i++)
        if (im->options->shapes[i].name == name)
            return &im->options->shapes[i];
    return NULL;
}

/* Binds the names of an input's sizes to the sizes given for it. */
static bool bind_named_dims(Importer *im, const ValueInfoProto *value, const ShapeBinding *given)
{
    const TensorTypeProto *tensor = value->type ? value->type->tensor_type : NULL;
    if (!given || !tensor || !tensor->shape || tensor->shape->dim.len != given->rank)
        return true;
    for (uint32_t a = 0; a < given->rank; a++) {
        const DimensionProto *dim = tensor->shape->dim.data[a];
        if (given->dim[a] < 0 || !*or_blank(dim->dim_param))
            continue;
        void **slot = map_slot(im->symbols, KEY(dim->dim_param));
        const DimBinding *option = find_dim(im, dim->dim_param);
        const Dim *size = dim_const(im->ctx, given->dim[a]);
        if ((*slot && *slot != (const void *)size) || (option && (given->dim[a] < option->lo || given->dim[a] > option->hi)))
            return bad_value(im, value->name, "its axis %u is %lld, but '%s' has another size elsewhere", a,
                             (long long)given->dim[a], dim->dim_param);
        *slot = (void *)(uintptr_t)size;
    }
    return true;
}

static const Dim *declared_dim(Importer *im, const DimensionProto *dim)
{
    if (HAS(DimensionProto, dim, dim_value) && !(dim->dim_value <= 0 && *or_blank(dim->dim_param)))
        return dim_const(im->ctx, dim->dim_value);
    return *or_blank(dim->dim_param) ? named_dim(im, dim->dim_param) : fresh_dim(im);
}

const Type *onnx_declared_type(Importer *im, const ValueInfoProto *value, const ShapeBinding *given)
{
    const TensorTypeProto *tensor = value->type ? value->type->tensor_type : NULL;
    const Dim *dims[IR_MAX_RANK];
    if (!tensor)
        return bad_value(im, value->name, value->type && value->type->has ? "it is no dense tensor, which is not supported as input"
                                                                         : "it has no type"), NULL;
    DType dtype = dtype_from_onnx(tensor->elem_type);
    if (dtype == DT_NONE)
        return bad_value(im, value->name, "its element type %lld is unknown", (long long)tensor->elem_type), NULL;
    if (!tensor->shape && !given)
        return bad_value(im, value->name, "it has no declared rank: give its shape (--shape)"), NULL;
    uint32_t rank = tensor->shape ? tensor->shape->dim.len : given->rank;
    if (rank > IR_MAX_RANK || (given && given->rank != rank))
        return bad_value(im, value->name, "it has rank %u, %s %u", rank, given ? "given is" : "supported are up to",
                         given ? given->rank : (uint32_t)IR_MAX_RANK), NULL;
    for (uint32_t a = 0; a < rank; a++) {
        const DimensionProto *dim = tensor->shape ? tensor->shape->dim.data[a] : NULL;
        int64_t size;
        dims[a] = dim ? declared_dim(im, dim) : NULL;
        if (dims[a] && dim_is_const(dims[a], &size) && size < 0)
            return bad_value(im, value->name, "its axis %u has size %lld", a, (long long)size), NULL;
        if (!given || given->dim[a] < 0) {
            dims[a] = dims[a] ? dims[a] : fresh_dim(im);
            continue;
        }
        const Dim *wanted = dim_const(im->ctx, given->dim[a]);
        if (dims[a] && dim_eq(dims[a], wanted) == TRI_NO)
            return bad_value(im, value->name, "its axis %u has a declared size that is not the %lld given", a,
                             (long long)given->dim[a]), NULL;
        dims[a] = wanted;
    }
    const Type *type = type_tensor(im->ctx, dtype, rank, dims);
    uint64_t count, bytes = 0;
    if (type && type_is_static(type) && dtype != DT_STR &&
        (!type_count(type, &count) || !type_bytes(type, &bytes) || bytes > (uint64_t)im->max_bytes))
        type = NULL;
    if (!type)
        bad_value(im, value->name, "it is larger than the %lld bytes that a value may take (--max-bytes)", (long long)im->max_bytes);
    return type;
}

static bool is_overridable(const Importer *im, Str name)
{
    for (uint32_t i = 0; i < im->options->n_overridable; i++)
        if (im->options->overridable[i] == name)
            return true;
    return false;
}

static bool has_initializer(const GraphProto *graph, Str name)
{
    for (uint32_t i = 0; i < graph->initializer.len; i++) {
        const TensorProto *t = graph->initializer.data[i];
        if (t->name == name)
            return true;
    }
    for (uint32_t i = 0; i < graph->sparse_initializer.len; i++) {
        const SparseTensorProto *s = graph->sparse_initializer.data[i];
        if (s->values && s->values->name == name)
            return true;
    }
    return false;
}

static const Tensor *find_value(const Importer *im, Str name)
{
    for (uint32_t i = 0; i < im->options->n_values; i++)
        if (im->options->values[i].name == name)
            return im->options->values[i].value;
    return NULL;
}

/* What the name of an input stands for: the parameter, or a constant where its value is given. */
static Val *input_value(Importer *im, Scope *scope, Str name, const Type *type)
{
    Val *param = func_param(im->func, name, type);
    const Tensor *value = find_value(im, name);
    if (!value)
        return param;
    const Type *given = type_tensor_s64(im->ctx, value->dtype, value->rank, value->dim);
    bool fits = given && value->dtype == type->dtype && value->rank == type->rank;
    for (uint32_t a = 0; fits && a < type->rank; a++)
        fits = dim_eq(given->dim[a], type->dim[a]) != TRI_NO;
    if (!fits)
        return bad_value(im, name, "the value given for it has another type"), NULL;
    return op_const_weight(&scope->b, module_weight(im->module, name, given, value->data, false));
}

/* ---- the import --------------------------------------------------------------------------------------------------------------- */

static bool import_inputs(Importer *im, Scope *scope)
{
    const GraphProto *graph = im->model->graph;
    Map *seen = map_create(im->arena);
    bool good = true;
    for (uint32_t i = 0; i < graph->input.len; i++) {
        const ValueInfoProto *input = graph->input.data[i];
        if (input->name)
            good &= bind_named_dims(im, input, find_shape(im, input->name));
    }
    for (uint32_t i = 0; i < graph->input.len; i++) {
        const ValueInfoProto *input = graph->input.data[i];
        const char *name = or_blank(input->name);
        if (!*name || map_has(seen, KEY(name))) {
            good = bad_value(im, name, *name ? "it is declared as an input twice" : "input %u has no name", i);
            continue;
        }
        map_slot(seen, KEY(name));
        if (has_initializer(graph, name) && !is_overridable(im, name))
            continue;
        const Type *type = onnx_declared_type(im, input, find_shape(im, name));
        Val *val = type ? input_value(im, scope, name, type) : NULL;
        good &= onnx_bind(im, scope, onnx_model_loc(im), name, val) && val;
    }
    for (uint32_t i = 0; i < im->options->n_shapes; i++)
        if (!map_has(seen, KEY(im->options->shapes[i].name)))
            good = bad_value(im, im->options->shapes[i].name, "a shape is given for it, but no input has that name");
    return good;
}

static bool import_outputs(Importer *im, Scope *scope)
{
    const MsgList *outputs = &im->model->graph->output;
    Val **values = ARENA_ARRAY(im->arena, Val *, outputs->len);
    Str *names = ARENA_ARRAY(im->arena, Str, outputs->len);
    Map *seen = map_create(im->arena);
    bool good = true;
    for (uint32_t i = 0; i < outputs->len; i++) {
        const ValueInfoProto *output = outputs->data[i];
        names[i] = or_blank(output->name);
        if (!*names[i] || map_has(seen, KEY(names[i]))) {
            good = bad_value(im, names[i], *names[i] ? "it is an output twice" : "an output has no name");
            continue;
        }
        map_slot(seen, KEY(names[i]));
        values[i] = onnx_lookup(im, scope, onnx_model_loc(im), names[i]);
        const TensorTypeProto *declared = output->type ? output->type->tensor_type : NULL;
        DType dtype = declared ? dtype_from_onnx(declared->elem_type) : DT_NONE;
        if (!values[i])
            good = false;
        else if (values[i]->type->kind != TY_TENSOR)
            good = bad_value(im, names[i], "sequences and optionals are not supported as outputs");
        else if (dtype != DT_NONE && values[i]->type->kind == TY_TENSOR && dtype != values[i]->type->dtype)
            good = bad_value(im, names[i], "the output is declared as %s, but it is %s", dtype_name(dtype),
                             dtype_name(values[i]->type->dtype));
    }
    if (good)
        func_yield(im->func, onnx_model_loc(im), values, names, outputs->len);
    return good;
}

static bool import_model(Importer *im)
{
    BodyEnv env = {.opsets = &im->model->opset_import};
    im->func = module_func(im->module, str_intern(im->ctx, "main"), true);
    Scope *scope = onnx_scope(im, NULL, &env, im->func->body, str_intern(im->ctx, ""), onnx_model_loc(im));
    bool inputs = import_inputs(im, scope), graph = onnx_import_graph(im, scope, im->model->graph);
    scope->b.loc = onnx_model_loc(im);
    if (!import_outputs(im, scope) || !inputs || !graph)
        return false;
    ir_drop_dead(im->func); /* a convolution whose only reader took it in, shapes that were computed by tensors */
    for (uint32_t i = 0; i < im->model->metadata_props.len; i++) {
        const StringStringEntryProto *entry = im->model->metadata_props.data[i];
        vec_push(im->module->arena, &im->module->meta, str_intern(im->ctx, or_blank(entry->key)));
        vec_push(im->module->arena, &im->module->meta, str_intern(im->ctx, or_blank(entry->value)));
    }
    return true;
}

Module *front_onnx_import(Context *ctx, const char *path, Blob blob, const ImportOptions *options)
{
    static const ImportOptions defaults;
    Arena *arena = arena_create(ctx);
    Importer im = {.ctx = ctx, .arena = arena, .options = options ? options : &defaults, .file = str_intern(ctx, path)};
    im.max_bytes = im.options->max_bytes > 0 ? im.options->max_bytes : DEFAULT_MAX_BYTES;
    im.model = wire_read_model(ctx, arena, im.file, blob);
    if (im.model && check_model(&im) && survey_model(&im)) {
        im.module = module_create(ctx);
        im.foldable = map_create(arena);
        im.symbols = map_create(arena);
        im.lists = map_create(arena);
        im.tensors = (TensorSource){.ctx = ctx,
                                    .arena = im.module->arena,
                                    .file = im.file,
                                    .files = map_create(arena),
                                    .blob = blob,
                                    .loc = onnx_model_loc(&im),
                                    .max_bytes = im.max_bytes};
        uint32_t errors = diag_errors(ctx);
        bool good = import_model(&im);
        if (good && diag_errors(ctx) != errors)
            ig_bug(ctx, "an error was reported, but the import went on");
        if (!good) {
            module_destroy(im.module);
            im.module = NULL;
        }
    }
    arena_destroy(arena);
    return im.module;
}

/* ---- declarations only ------------------------------------------------------------------------------------------------------------ */

static void describe(Context *ctx, Arena *arena, const GraphProto *graph, const ValueInfoProto *value, FrontValue *out)
{
    const TensorTypeProto *tensor = value->type ? value->type->tensor_type : NULL;
    *out = (FrontValue){.name = str_intern(ctx, or_blank(value->name))};
    out->initializer = value->name && has_initializer(graph, value->name);
    out->dtype = tensor ? dtype_from_onnx(tensor->elem_type) : DT_NONE;
    if (!tensor || !tensor->shape)
        return;
    out->has_rank = true;
    out->rank = tensor->shape->dim.len;
    FrontDim *dims = ARENA_ARRAY(arena, FrontDim, out->rank);
    for (uint32_t a = 0; a < out->rank; a++) {
        const DimensionProto *dim = tensor->shape->dim.data[a];
        dims[a].size = HAS(DimensionProto, dim, dim_value) && dim->dim_value >= 0 ? dim->dim_value : -1;
        dims[a].symbol = str_intern(ctx, or_blank(dim->dim_param));
        if (*dims[a].symbol && dim->dim_value <= 0)
            dims[a].size = -1;
    }
    out->dim = dims;
}

bool front_onnx_info(Context *ctx, Arena *arena, const char *path, FrontInfo *info)
{
    Blob blob;
    Str file = str_intern(ctx, path);
    *info = (FrontInfo){0};
    if (!file_map(ctx, path, &blob))
        return false;
    Importer im = {.ctx = ctx, .arena = arena, .file = file};
    im.model = wire_read_model(ctx, arena, file, blob);
    if (!im.model || !check_model(&im))
        return false;
    const GraphProto *graph = im.model->graph;
    FrontValue *in = ARENA_ARRAY(arena, FrontValue, graph->input.len), *out = ARENA_ARRAY(arena, FrontValue, graph->output.len);
    for (uint32_t i = 0; i < graph->input.len; i++)
        describe(ctx, arena, graph, graph->input.data[i], &in[i]);
    for (uint32_t i = 0; i < graph->output.len; i++)
        describe(ctx, arena, graph, graph->output.data[i], &out[i]);
    *info = (FrontInfo){.n_in = graph->input.len, .n_out = graph->output.len, .in = in, .out = out};
    return true;
}
