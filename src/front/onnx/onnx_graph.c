/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs: names and what they stand for, nodes in order, calls of model-local functions (inlined: each call imports the body
 * anew, so its shapes are those of the call). Name rules of the ONNX IR specification ("Names Within a Graph"): every value is
 * defined once, before its uses; a sub-graph sees the names around it and may not define them again, except as its inputs.
 *
 * A node that failed leaves its results unmade; what uses them is passed over in silence, so that one import reports every
 * independent mistake once.
 */
#include "front/onnx/onnx_int.h"

#include <stdio.h>
#include <string.h>


const char *or_blank(Str text) { return text ? text : ""; }

/* ---- names ------------------------------------------------------------------------------------------------------------- */

Scope *onnx_scope(Importer *im, Scope *outer, const BodyEnv *env, Region *region, Str path, Loc loc)
{
    Scope *scope = ARENA_NEW(im->arena, Scope);
    *scope = (Scope){.outer = outer,
                     .env = env,
                     .names = map_create(im->arena),
                     .b = ir_at_end(region, loc),
                     .path = path,
                     .depth = outer ? outer->depth + 1 : 1};
    return scope;
}

static Binding *find(const Scope *scope, Str name) { return map_get(scope->names, KEY(name)); }

static bool bind_entry(Importer *im, Scope *scope, Loc loc, Binding entry)
{
    for (const Scope *s = scope; s; s = s->outer)
        if (find(s, entry.name))
            return diag_report(im->ctx, loc, DIAG_onnx_value, entry.name,
                               s == scope ? "it is defined twice"
                                          : "it is defined again inside a graph that sees it already");
    map_set(scope->names, KEY(entry.name), arena_copy(im->arena, &entry, sizeof entry));
    return true;
}

bool onnx_bind(Importer *im, Scope *scope, Loc loc, Str name, Val *val)
{
    return bind_entry(im, scope, loc, (Binding){.val = val, .name = name});
}

/* The constant of an initializer, made in this region. */
static Val *make_constant(Importer *im, Scope *scope, const Binding *entry)
{
    const TensorData *data = entry->tensor;
    const Type *type = type_tensor_s64(im->ctx, data->dtype, data->rank, data->dim);
    Weight *weight = module_weight(im->module, entry->name, type, data->data, false);
    if (weight->data == data->data && *data->file) {
        weight->file = data->file;
        weight->file_offset = data->offset;
    }
    return op_const_weight(&scope->b, weight);
}

static bool makes(const MsgList *nodes, Str name)
{
    for (uint32_t i = 0; nodes && i < nodes->len; i++) {
        const NodeProto *node = nodes->data[i];
        for (uint32_t k = 0; k < node->output.len; k++)
            if (node->output.data[k] == name)
                return true;
    }
    return false;
}

Val *onnx_lookup(Importer *im, Scope *scope, Loc loc, Str name)
{
    Binding *entry = find(scope, name);
    if (!entry) {
        const char *why = makes(scope->nodes, name)
                              ? "it is used before the node that makes it: nodes must be in topological order, without a cycle"
                              : "it is used, but nothing visible here defines it";
        diag_report(im->ctx, loc, DIAG_onnx_value, name, why);
        return NULL;
    }
    if (!entry->val && entry->tensor)
        entry->val = make_constant(im, scope, entry);
    return entry->val;
}

/* ---- operator sets and functions ----------------------------------------------------------------------------------------- */

bool onnx_is_main_domain(const char *domain) { return !*domain || !strcmp(domain, "ai.onnx"); }

int64_t onnx_domain_version(const MsgList *opsets, const char *domain)
{
    for (uint32_t i = 0; i < opsets->len; i++) {
        const OperatorSetIdProto *set = opsets->data[i];
        const char *have = or_blank(set->domain);
        if (!strcmp(have, domain) || (onnx_is_main_domain(have) && onnx_is_main_domain(domain)))
            return set->version;
    }
    return 0;
}

const FunctionProto *onnx_find_function(const Importer *im, const NodeProto *node)
{
    for (uint32_t i = 0; i < im->model->functions.len; i++) {
        const FunctionProto *f = im->model->functions.data[i];
        bool same_domain = !strcmp(or_blank(f->domain), or_blank(node->domain)) ||
                           (onnx_is_main_domain(or_blank(f->domain)) && onnx_is_main_domain(or_blank(node->domain)));
        if (f->name == node->op_type && same_domain && !strcmp(or_blank(f->overload), or_blank(node->overload)))
            return f;
    }
    return NULL;
}

static const OnnxRow rows[] = {
#define ONNX(type, since, importer, arg, in_min, in_max, out_min, out_max, attrs)                                      \
    {type, since, in_min, in_max, out_min, out_max, import_##importer, arg, attrs},
#include "front/onnx/onnx.def"
#undef ONNX
};

const OnnxRow *onnx_find_row(const char *type, int64_t opset)
{
    const OnnxRow *best = NULL;
    for (size_t i = 0; i < IG_COUNT(rows); i++)
        if (!strcmp(rows[i].type, type) && rows[i].since <= opset && (!best || rows[i].since > best->since))
            best = &rows[i];
    return best;
}

const char *onnx_table_name(Arena *arena, const NodeProto *node)
{
    const char *domain = or_blank(node->domain), *type = or_blank(node->op_type);
    return onnx_is_main_domain(domain) ? type : arena_printf(arena, "%s:%s", domain, type);
}

bool onnx_type_exists(const char *type, int64_t *first_version)
{
    *first_version = 0;
    for (size_t i = 0; i < IG_COUNT(rows); i++)
        if (!strcmp(rows[i].type, type) && (!*first_version || rows[i].since < *first_version))
            *first_version = rows[i].since;
    return *first_version != 0;
}

/* Refused before any import, by a walk over all nodes (onnx_model.c); here only against a table that grew a hole. */
bool import_unsupported(OnnxNode *n) { return node_bad(n, "%s is not supported", n->row->type); }
bool import_deprecated(OnnxNode *n) { return node_bad(n, "%s is deprecated at operator set %d", n->row->type, n->row->since); }

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

static bool count_fits(const OnnxNode *n, const char *what, uint32_t have, int least, int most)
{
    if (have >= (uint32_t)least && (most < 0 || have <= (uint32_t)most))
        return true;
    if (most < 0)
        return node_bad(n, "%s has %u %s, at least %d are due", or_blank(n->proto->op_type), have, what, least);
    return node_bad(n, "%s has %u %s, %d to %d are due", or_blank(n->proto->op_type), have, what, least, most);
}

/* False if an operand is unknown, or (in silence) if it could not be made. */
static bool resolve_inputs(OnnxNode *n)
{
    const StrList *names = &n->proto->input;
    bool good = true;
    n->n_in = names->len;
    while (n->n_in && !*names->data[n->n_in - 1])
        n->n_in--;
    n->in = ARENA_ARRAY(n->im->arena, Val *, n->n_in + 1);
    for (uint32_t i = 0; i < n->n_in; i++) {
        const Binding *entry = *names->data[i] ? find(n->scope, names->data[i]) : NULL;
        if (!*names->data[i] || (entry && entry->absent))
            continue;
        n->in[i] = onnx_lookup(n->im, n->scope, node_loc(n), names->data[i]);
        good &= n->in[i] != NULL;
    }
    while (n->n_in && !n->in[n->n_in - 1])
        n->n_in--;
    return good;
}

/* Values are limited in size, so that a small file cannot ask for more memory than there is. */
static bool result_is_small(const OnnxNode *n, const Val *val)
{
    uint64_t count, bytes;
    if (val->type->kind != TY_TENSOR || !type_is_static(val->type) || val->type->dtype == DT_STR)
        return true;
    if (type_count(val->type, &count) && type_bytes(val->type, &bytes) && bytes <= (uint64_t)n->im->max_bytes)
        return true;
    Text text;
    text_init(&text, n->im->arena);
    type_print(&text, val->type);
    return node_bad(n, "a result of type %s is larger than the %lld bytes that a value may take (--max-bytes)", text.data,
                    (long long)n->im->max_bytes);
}

static bool bind_results(OnnxNode *n, bool made)
{
    bool good = made;
    for (uint32_t i = 0; i < n->n_out; i++) {
        Str name = n->proto->output.data[i];
        if (!*name)
            continue;
        if (made && !n->out[i])
            made = good = node_bad(n, "output %u ('%s') is not supported", i, name);
        if (made && !result_is_small(n, n->out[i]))
            made = good = false;
        good &= onnx_bind(n->im, n->scope, node_loc(n), name, made ? n->out[i] : NULL);
    }
    return good;
}

static bool call_function(OnnxNode *n, const FunctionProto *f)
{
    Importer *im = n->im;
    const BodyEnv *outer = n->scope->env;
    BodyEnv env = {.opsets = &f->opset_import, .function = f, .caller = n, .depth = outer->depth + 1};
    const char *name = or_blank(f->name);
    if (env.depth > IR_MAX_NESTING)
        return node_bad(n, "functions are nested more than %d deep at '%s'", IR_MAX_NESTING, name);
    if (n->proto->input.len > f->input.len || n->n_out > f->output.len)
        return node_bad(n, "function '%s' has %u inputs and %u outputs, the call %u and %u", name, f->input.len,
                        f->output.len, n->proto->input.len, n->n_out);
    for (uint32_t i = 0; i < f->attribute.len; i++)
        if (!na_find(n, f->attribute.data[i]))
            return na_bad(n, f->attribute.data[i], "function '%s' requires it", name);
    const char *label = *or_blank(n->proto->name) ? n->proto->name : name;
    Str path = str_format(im->ctx, "%s%s%s", n->scope->path, *n->scope->path ? "/" : "", label);
    Scope *scope = onnx_scope(im, NULL, &env, n->b->region, path, node_loc(n));
    scope->depth = n->scope->depth;
    for (uint32_t i = 0; i < f->input.len; i++) {
        Binding entry = {.val = node_in(n, i), .name = f->input.data[i], .absent = i >= n->n_in || !n->in[i]};
        if (!bind_entry(im, scope, node_loc(n), entry))
            return false;
    }
    bool good = onnx_import_nodes(im, scope, &f->node);
    for (uint32_t i = 0; i < n->n_out && good; i++)
        good = (n->out[i] = onnx_lookup(im, scope, node_loc(n), f->output.data[i])) != NULL;
    return good;
}

static bool import_row(OnnxNode *n)
{
    const NodeProto *node = n->proto;
    n->opset = onnx_domain_version(n->scope->env->opsets, or_blank(node->domain));
    n->row = onnx_find_row(onnx_table_name(n->im->arena, node), n->opset);
    IG_CHECK(n->ctx, n->row); /* onnx_model.c looked at all nodes */
    bool attrs = onnx_attrs_resolve(n), inputs = resolve_inputs(n);
    if (!attrs || !inputs || !count_fits(n, "inputs", node->input.len, n->row->in_min, n->row->in_max) ||
        !count_fits(n, "outputs", n->n_out, n->row->out_min, n->row->out_max))
        return false;
    for (uint32_t i = 0; i < (uint32_t)n->row->in_min; i++)
        if (!node_in(n, i) && !(n->row->import == import_loop && i < 2) && n->row->import != import_scan) /* may be absent */
            return node_bad(n, "input %u of %s is required", i, n->row->type);
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i]->type->kind != TY_TENSOR && !onnx_takes_lists(n->row->import))
            return node_bad(n, "input %u of %s is a sequence or an optional", i, n->row->type);
    bool good = n->row->import(n);
    if (!good && diag_errors(n->ctx) == 0) /* what a sub-graph captures may have failed, and was reported, before */
        ig_bug(n->ctx, "the importer of %s failed without a report", n->row->type);
    return good;
}

static bool import_node(Importer *im, Scope *scope, const NodeProto *node, uint32_t index)
{
    OnnxNode *n = ARENA_NEW(im->arena, OnnxNode); /* lives on: what can be folded refers to it */
    *n = (OnnxNode){.im = im, .scope = scope, .proto = node, .b = &scope->b, .ctx = im->ctx, .n_out = node->output.len};
    scope->b.loc = loc_onnx(im->ctx, im->file, scope->path, index, node->name, node->op_type);
    n->loc = scope->b.loc;
    n->out = ARENA_ARRAY(im->arena, Val *, n->n_out + 1);
    if (++im->n_nodes > ONNX_MAX_NODES)
        return node_bad(n, "the model has more than %d nodes, calls of functions expanded", ONNX_MAX_NODES);
    const FunctionProto *function = onnx_find_function(im, node);
    bool made;
    if (function) {
        bool attrs = onnx_attrs_resolve(n), inputs = resolve_inputs(n);
        made = attrs && inputs && call_function(n, function);
    } else {
        made = import_row(n);
    }
    scope->b.loc = n->loc;
    return bind_results(n, made);
}

bool onnx_import_nodes(Importer *im, Scope *scope, const MsgList *nodes)
{
    bool good = true;
    scope->nodes = nodes;
    for (uint32_t i = 0; i < nodes->len && im->n_nodes <= ONNX_MAX_NODES; i++)
        good &= import_node(im, scope, nodes->data[i], i);
    return good;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------------------- */

/* Declares one initializer; `input`: its declaration as a graph input, or NULL. */
static bool declare(Importer *im, Scope *scope, Str name, const TensorData *data, const ValueInfoProto *input)
{
    const TypeProto *type = input ? input->type : NULL;
    if (type && type->tensor_type && dtype_from_onnx(type->tensor_type->elem_type) != data->dtype)
        return diag_report(im->ctx, onnx_model_loc(im), DIAG_onnx_value, name,
                           "its initializer has another element type than it declares as an input");
    Binding entry = {.name = name, .tensor = arena_copy(im->arena, data, sizeof *data)};
    return bind_entry(im, scope, onnx_model_loc(im), entry);
}

static const ValueInfoProto *find_input(const GraphProto *graph, Str name)
{
    for (uint32_t i = 0; i < graph->input.len; i++) {
        const ValueInfoProto *input = graph->input.data[i];
        if (input->name == name)
            return input;
    }
    return NULL;
}

/* Initializers that are not bound as inputs already (the overridable ones are). */
static bool import_initializers(Importer *im, Scope *scope, const GraphProto *graph)
{
    bool good = true;
    Map *seen = map_create(im->arena);
    for (uint32_t i = 0; i < graph->initializer.len + graph->sparse_initializer.len; i++) {
        bool sparse = i >= graph->initializer.len;
        const SparseTensorProto *s = sparse ? graph->sparse_initializer.data[i - graph->initializer.len] : NULL;
        const TensorProto *t = sparse ? s->values : graph->initializer.data[i];
        Str name = t && t->name && *t->name ? t->name : NULL;
        TensorData data;
        if (!name) {
            good = diag_report(im->ctx, onnx_model_loc(im), DIAG_onnx_tensor, "initializer", "", "it has no name");
            continue;
        }
        if (map_has(seen, KEY(name))) {
            good = diag_report(im->ctx, onnx_model_loc(im), DIAG_onnx_value, name, "it has two initializers");
            continue;
        }
        map_slot(seen, KEY(name));
        if (!(sparse ? onnx_read_sparse(&im->tensors, s, &data) : onnx_read_tensor(&im->tensors, "initializer", t, &data)))
            good = false;
        else if (!scope->outer && scope->env->depth == 0 && find(scope, name))
            continue;
        else
            good &= declare(im, scope, name, &data, find_input(graph, name));
    }
    return good;
}

bool onnx_import_graph(Importer *im, Scope *scope, const GraphProto *graph)
{
    bool constants = import_initializers(im, scope, graph);
    return onnx_import_nodes(im, scope, &graph->node) && constants;
}
