/* SPDX-License-Identifier: Apache-2.0
 *
 * If, Loop and Scan. Sub-graphs become closed regions: the names that they use and do not define are looked up around them
 * and passed as operands. Constants, and integer tensors whose content is known as sizes, are made anew inside instead, so
 * that shapes which depend on them stay known. A condition that is known leaves its branch in place of the If.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

/* ---- free names ------------------------------------------------------------------------------------------------------- */

typedef struct Known { /* names that a sub-graph and those around it define, up to the one that is imported */
    const struct Known *outer;
    Map *names;
} Known;
typedef struct Capture {
    Str name;
    Val *outer; /* NULL: its maker failed */
} Capture;
typedef VEC(Capture) Captures;
typedef struct Collect {
    OnnxNode *n;
    Map *seen;
    Captures *out;
} Collect;

static bool is_known(const Known *known, Str name)
{
    for (; known; known = known->outer)
        if (map_has(known->names, KEY(name)))
            return true;
    return false;
}

/* Names that nothing outside defines either are left for the import of the sub-graph to report. */
static void use_name(Collect *c, const Known *known, Str name)
{
    if (!*name || is_known(known, name) || map_has(c->seen, KEY(name)))
        return;
    map_slot(c->seen, KEY(name));
    if (!map_has(c->n->scope->names, KEY(name)))
        return;
    Capture capture = {name, onnx_lookup(c->n->im, c->n->scope, node_loc(c->n), name)};
    vec_push(c->n->im->arena, c->out, capture);
}

static void collect_graph(Collect *c, const Known *outer, const GraphProto *graph);

static void collect_node(Collect *c, const Known *known, const NodeProto *node)
{
    for (uint32_t i = 0; i < node->input.len; i++)
        use_name(c, known, node->input.data[i]);
    for (uint32_t i = 0; i < node->attribute.len; i++) {
        const AttributeProto *a = node->attribute.data[i];
        if (a->g)
            collect_graph(c, known, a->g);
        for (uint32_t g = 0; g < a->graphs.len; g++)
            collect_graph(c, known, a->graphs.data[g]);
    }
    for (uint32_t i = 0; i < node->output.len; i++)
        map_slot(known->names, KEY(node->output.data[i]));
}

static void collect_graph(Collect *c, const Known *outer, const GraphProto *graph)
{
    Known known = {outer, map_create(c->n->im->arena)};
    for (uint32_t i = 0; i < graph->input.len; i++) {
        const ValueInfoProto *input = graph->input.data[i];
        map_slot(known.names, KEY(or_blank(input->name)));
    }
    for (uint32_t i = 0; i < graph->initializer.len; i++) {
        const TensorProto *t = graph->initializer.data[i];
        map_slot(known.names, KEY(or_blank(t->name)));
    }
    for (uint32_t i = 0; i < graph->sparse_initializer.len; i++) {
        const SparseTensorProto *s = graph->sparse_initializer.data[i];
        map_slot(known.names, KEY(or_blank(s->values ? s->values->name : NULL)));
    }
    for (uint32_t i = 0; i < graph->node.len; i++)
        collect_node(c, &known, graph->node.data[i]);
    for (uint32_t i = 0; i < graph->output.len; i++) {
        const ValueInfoProto *output = graph->output.data[i];
        use_name(c, &known, or_blank(output->name));
    }
}

static void collect(OnnxNode *n, const GraphProto *const *graphs, uint32_t count, Captures *out)
{
    Collect c = {n, map_create(n->im->arena), out};
    for (uint32_t i = 0; i < count; i++)
        collect_graph(&c, NULL, graphs[i]);
}

/* ---- a sub-graph as a region ---------------------------------------------------------------------------------------------- */

/* A constant, or known integers, made again by b; NULL: it has to be captured. */
static Val *remake(Builder *b, const Val *outer)
{
    Weight *weight = val_const(outer);
    if (weight)
        return op_const_weight(b, weight);
    uint32_t count;
    int64_t one = 1;
    Val *part[16];
    const Dim *const *dims = op_content(outer, &count);
    if (count == 0 || count > IG_COUNT(part))
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        part[i] = op_reshape_s64(b, op_cast_to(b, op_dimval(b, dims[i]), outer->type->dtype), 1, &one);
    return op_reshape(b, op_concat(b, part, count, 0), outer->type->rank, outer->type->dim);
}

typedef struct Body {
    const GraphProto *graph;
    Scope *scope;
    Val **out; /* graph outputs */
} Body;

static void put(Importer *im, Scope *scope, Str name, Val *val)
{
    Binding entry = {.val = val, .name = name};
    map_set(scope->names, KEY(name), arena_copy(im->arena, &entry, sizeof entry));
}

static Body open_body(OnnxNode *n, const GraphProto *graph, Region *region, const char *attr)
{
    const char *label = *or_blank(n->proto->name) ? n->proto->name : n->row->type;
    Str path = str_format(n->ctx, "%s%s%s.%s", n->scope->path, *n->scope->path ? "/" : "", label, attr);
    Body body = {.graph = graph, .scope = onnx_scope(n->im, n->scope, n->scope->env, region, path, node_loc(n))};
    body.out = ARENA_ARRAY(n->im->arena, Val *, graph->output.len + 1);
    return body;
}

/* Binds a body input, which may shadow a name around it, to a value of the region. */
static bool bind_input(OnnxNode *n, Body *body, uint32_t i, Val *val)
{
    const ValueInfoProto *input = body->graph->input.data[i];
    const char *name = or_blank(input->name);
    if (!*name || map_has(body->scope->names, KEY(name)))
        return node_bad(n, "input %u of the body of %s has no name, or that of another", i, n->row->type);
    const TensorTypeProto *declared = input->type ? input->type->tensor_type : NULL;
    DType dtype = declared ? dtype_from_onnx(declared->elem_type) : DT_NONE;
    if (val && dtype != DT_NONE && val->type->kind == TY_TENSOR && val->type->dtype != dtype)
        return node_bad(n, "input '%s' of the body of %s is declared %s, but gets %s", name, n->row->type, dtype_name(dtype),
                        dtype_name(val->type->dtype));
    put(n->im, body->scope, name, val);
    return true;
}

static bool run_body(OnnxNode *n, Body *body)
{
    Importer *im = n->im;
    bool good = onnx_import_graph(im, body->scope, body->graph);
    body->scope->b.loc = node_loc(n);
    for (uint32_t i = 0; i < body->graph->output.len; i++) {
        const ValueInfoProto *output = body->graph->output.data[i];
        const char *name = or_blank(output->name);
        if (!*name)
            return node_bad(n, "output %u of a body of %s has no name", i, n->row->type);
        body->out[i] = onnx_lookup(im, body->scope, node_loc(n), name);
        good &= body->out[i] != NULL;
    }
    return good;
}

static void end_body(Body *body, Val *const *vals, uint32_t count)
{
    ir_emit(&body->scope->b, OP_yield, vals, count, NULL, NULL, 0);
}

/* Splits captures into those made again inside and those that become operands, which are moved to the front. */
static uint32_t operands_of(Captures *captures)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < captures->len; i++) {
        Capture c = captures->data[i];
        uint32_t known = 0;
        if (c.outer && !val_const(c.outer))
            op_content(c.outer, &known);
        if (!c.outer || val_const(c.outer) || (known && known <= 16))
            continue;
        captures->data[i] = captures->data[count];
        captures->data[count++] = c;
    }
    return count;
}

/* Lists are known to the importer only: they pass into a branch or body that is written out, not into a region. */
static bool captures_are_tensors(const OnnxNode *n, const Captures *captures)
{
    for (uint32_t i = 0; i < captures->len; i++)
        if (captures->data[i].outer && captures->data[i].outer->type->kind != TY_TENSOR)
            return node_bad(n, "'%s', a sequence or an optional, is used inside of %s, which runs a number of times that is not known",
                            captures->data[i].name, n->row->type);
    return true;
}

static void bind_captures(OnnxNode *n, Body *body, Region *region, const Captures *captures, uint32_t n_operands)
{
    for (uint32_t i = 0; i < captures->len; i++) {
        const Capture *c = &captures->data[i];
        Val *val = i < n_operands ? region_param(region, c->outer->type) : c->outer ? remake(&body->scope->b, c->outer) : NULL;
        put(n->im, body->scope, c->name, val);
    }
}

/* ---- If -------------------------------------------------------------------------------------------------------------------- */

/* The branch in place: its nodes go into this region, its names see what is around. */
static bool inline_branch(OnnxNode *n, const GraphProto *graph, const char *attr, const Captures *captures)
{
    Body body = open_body(n, graph, n->b->region, attr);
    for (uint32_t i = 0; i < captures->len; i++)
        put(n->im, body.scope, captures->data[i].name, captures->data[i].outer);
    if (!run_body(n, &body))
        return false;
    memcpy(n->out, body.out, n->n_out * sizeof *n->out);
    return true;
}

static const char *type_text(const OnnxNode *n, const Type *type)
{
    Text text;
    text_init(&text, n->im->arena);
    type_print(&text, type);
    return text.data;
}

/* The condition as a scalar; the reference also takes [1]. */
static Val *condition(OnnxNode *n, Val *cond)
{
    uint64_t count;
    if (cond->type->kind != TY_TENSOR || cond->type->dtype != DT_BOOL || !type_count(cond->type, &count) || count != 1)
        return node_bad(n, "the condition of %s must be one bool, it is %s", n->row->type, type_text(n, cond->type)), NULL;
    return node_scalar(n, cond);
}

/* Whether nothing was reported since but sizes that do not fit: a branch that is never taken with these sizes. */
static bool only_sizes_are_wrong(const Context *ctx, uint32_t from)
{
    for (uint32_t i = from; i < diag_count(ctx); i++)
        if (diag_get(ctx, i)->id != DIAG_onnx_node && diag_get(ctx, i)->id != DIAG_op_shape)
            return false;
    return true;
}

/* An axis of a result of If whose branches give it different sizes: they yield the value padded to the most of both, and their sizes. */
typedef struct Join {
    uint32_t out, axis;
    int64_t most;
} Join;
typedef struct IfArgs {
    const GraphProto *graph[2];
    Val *cond;
    Captures captures;
    uint32_t n_operands;
    VEC(Join) joins;
} IfArgs;
static const char *const branch_names[2] = {"then_branch", "else_branch"};

/* Notes where the types differ; false if they differ in more than sizes with bounds. */
static bool note_joins(OnnxNode *n, IfArgs *a, uint32_t out, const Type *x, const Type *y)
{
    int64_t low, most[2];
    if (x->dtype != y->dtype || x->rank != y->rank)
        return false;
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        dim_range(x->dim[axis], &low, &most[0]);
        dim_range(y->dim[axis], &low, &most[1]);
        Join join = {out, axis, most[0] < most[1] ? most[1] : most[0]};
        if (x->dim[axis] == y->dim[axis])
            continue;
        if (join.most >= INT32_MAX)
            return false;
        vec_push(n->im->arena, &a->joins, join);
    }
    return true;
}

static void pad_joined(OnnxNode *n, const IfArgs *a, Builder *b, Val **vals)
{
    for (uint32_t j = 0; j < a->joins.len; j++) {
        const Join *join = &a->joins.data[j];
        Val *x = vals[join->out];
        DType dtype = x->type->dtype;
        const Dim *size = x->type->dim[join->axis], *missing = dim_sub(n->ctx, dim_const(n->ctx, join->most), size);
        Val *zero = dtype_is_float(dtype) ? op_const_f64(b, dtype, 0) : op_const_s64(b, dtype, 0);
        vals[join->out] = op_pad_end(b, x, join->axis, missing, zero);
        vals[n->n_out + j] = op_dimval(b, size);
    }
}

/* The node with its branches. *fits: false if a type or a size in them is wrong; *again: joins were noted, so nothing was made. */
static bool emit_if(OnnxNode *n, IfArgs *a, bool *fits, bool *again)
{
    uint32_t count = n->n_out + a->joins.len;
    bool good = true, joined = a->joins.len > 0;
    Val **in = ARENA_ARRAY(n->im->arena, Val *, a->n_operands + 1);
    const Type **types = ARENA_ARRAY(n->im->arena, const Type *, count + 1);
    in[0] = a->cond;
    for (uint32_t i = 0; i < a->n_operands; i++)
        in[i + 1] = a->captures.data[i].outer;
    for (uint32_t i = 0; i < count; i++)
        types[i] = a->cond->type; /* until the branches are known */
    Node *node = ir_emit(n->b, OP_if, in, a->n_operands + 1, attrs_make(n->ctx, NULL, 0), types, count);
    for (uint32_t r = 0; r < 2; r++) {
        Region *region = ir_add_region(node);
        Body body = open_body(n, a->graph[r], region, branch_names[r]);
        Val **vals = ARENA_ARRAY(n->im->arena, Val *, count + 1);
        bind_captures(n, &body, region, &a->captures, a->n_operands);
        good &= run_body(n, &body);
        *fits &= good;
        for (uint32_t i = 0; good && i < n->n_out; i++) {
            vals[i] = body.out[i];
            if (vals[i]->type->kind != TY_TENSOR)
                return node_bad(n, "output %u of If is a sequence or an optional, and its condition is not known", i);
        }
        if (!good)
            continue;
        pad_joined(n, a, &body.scope->b, vals);
        for (uint32_t i = 0; i < count; i++) {
            if (r && types[i] != vals[i]->type && (joined || !note_joins(n, a, i, types[i], vals[i]->type))) {
                *fits = types[i]->dtype != vals[i]->type->dtype;
                return node_bad(n, "output %u of If is %s in one branch and %s in the other", i, type_text(n, types[i]),
                                type_text(n, vals[i]->type));
            }
            types[i] = node->out[i].type = vals[i]->type;
        }
        end_body(&body, vals, count);
    }
    *again = good && !joined && a->joins.len;
    if (*again)
        ir_erase(node);
    for (uint32_t i = 0; good && !*again && i < n->n_out; i++)
        n->out[i] = ir_out(node, i);
    for (uint32_t j = 0; good && joined && j < a->joins.len; j++) {
        const Join *join = &a->joins.data[j];
        const Dim *size = onnx_found_size(n, ir_out(node, n->n_out + j), dim_const(n->ctx, join->most));
        Val **out = &n->out[join->out];
        good = size && (*out = op_slice_axis(n->b, *out, join->axis, dim_const(n->ctx, 0), size, 1));
    }
    return good;
}

bool import_if(OnnxNode *n)
{
    IfArgs a = {.graph = {na_find(n, branch_names[0])->g, na_find(n, branch_names[1])->g}, .cond = condition(n, n->in[0])};
    int64_t known;
    if (!a.cond)
        return false;
    for (uint32_t i = 0; i < 2; i++)
        if (a.graph[i]->output.len != n->n_out || a.graph[i]->input.len)
            return node_bad(n, "If has %u outputs, its %s has %u and %u inputs", n->n_out, branch_names[i], a.graph[i]->output.len,
                            a.graph[i]->input.len);
    if (op_const_value(a.cond, &known)) {
        uint32_t taken = known ? 0 : 1;
        collect(n, &a.graph[taken], 1, &a.captures);
        return inline_branch(n, a.graph[taken], branch_names[taken], &a.captures);
    }
    collect(n, a.graph, 2, &a.captures);
    if (!captures_are_tensors(n, &a.captures))
        return node_unknown(n, 0, "the condition");
    a.n_operands = operands_of(&a.captures);
    bool fits = true, again = false;
    uint32_t errors = diag_count(n->ctx);
    bool good = emit_if(n, &a, &fits, &again) && (!again || emit_if(n, &a, &fits, &again));
    if (!fits && only_sizes_are_wrong(n->ctx, errors))
        node_unknown(n, 0, "the condition, of which one side does not fit the sizes,");
    return good;
}

enum { MAX_WRITTEN_OUT = 1024 };

/* ---- Loop and Scan ------------------------------------------------------------------------------------------------------------ */

typedef struct LoopArgs {
    const GraphProto *graph;
    Val *trip, *go;      /* scalars, or NULL */
    Val **carried;
    Val **scanned;       /* along axis 0 */
    uint32_t n_carried, n_scanned, n_stacked;
    bool has_counter;    /* Loop: the body takes i and the condition, and yields the condition */
    bool grows;          /* found: a carried value changes its shape, which no region can */
    const Dim *steps;    /* NULL: not known before the run */
    TripCount *counted;  /* how often the trip count alone lets it go round; NULL: no trip count */
} LoopArgs;

static const Type *without_first(Context *ctx, const Type *type)
{
    return type_tensor(ctx, type->dtype, type->rank - 1, type->dim + 1);
}

static const Type *with_first(Context *ctx, const Dim *first, const Type *type)
{
    const Dim *dims[IR_MAX_RANK + 1];
    if (type->rank >= IR_MAX_RANK)
        return NULL;
    dims[0] = first;
    memcpy(dims + 1, type->dim, type->rank * sizeof *dims);
    return type_tensor(ctx, type->dtype, type->rank + 1, dims);
}

/* The names that onnx_unbacked_dim gives: u0, u1, .. */
bool front_may_name(Str symbol)
{
    return symbol[0] == 'u' && symbol[1] && symbol[1 + strspn(symbol + 1, "0123456789")] == '\0';
}

const Dim *onnx_unbacked_dim(OnnxNode *n, const Dim *bound)
{
    Str name;
    int64_t low, high = INT32_MAX;
    if (bound)
        dim_range(bound, &low, &high);
    do
        name = str_format(n->ctx, "u%u", n->im->n_fresh++);
    while (module_find_sym(n->im->module, name));
    Sym *sym = module_sym(n->im->module, name, 0, high < 0 ? 0 : high > INT32_MAX ? INT32_MAX : high);
    sym->unbacked = true;
    return dim_sym(n->ctx, sym);
}

static bool body_counts_fit(OnnxNode *n, const LoopArgs *l)
{
    uint32_t extra = l->has_counter ? 2 : 0, ins = extra + l->n_carried + l->n_scanned;
    uint32_t outs = (l->has_counter ? 1 : 0) + l->n_carried + l->n_stacked;
    if (l->graph->input.len == ins && l->graph->output.len == outs)
        return true;
    return node_bad(n, "the body of %s has %u inputs and %u outputs, the node asks for %u and %u", n->row->type,
                    l->graph->input.len, l->graph->output.len, ins, outs);
}

/* Region parameters: i, carried, elements, captured. */
static bool bind_loop_inputs(OnnxNode *n, const LoopArgs *l, Body *body, Region *region)
{
    Val *i = region_param(region, type_tensor(n->ctx, DT_S64, 0, NULL));
    uint32_t at = 0;
    if (l->has_counter) { /* the condition is true whenever the body runs */
        if (!bind_input(n, body, at++, i) || !bind_input(n, body, at++, op_const_s64(&body->scope->b, DT_BOOL, 1)))
            return false;
    }
    for (uint32_t k = 0; k < l->n_carried + l->n_scanned; k++) {
        const Type *type = k < l->n_carried ? l->carried[k]->type : without_first(n->ctx, l->scanned[k - l->n_carried]->type);
        if (!bind_input(n, body, at++, region_param(region, type)))
            return false;
    }
    return true;
}

/* Checks what the body gave, yields (go, carried, stacked) and gives the node its result types. */
static bool finish_loop(OnnxNode *n, LoopArgs *l, Body *body, Node *node, Val **results)
{
    uint32_t first = l->has_counter ? 1 : 0, count = l->n_carried + l->n_stacked;
    Val **yields = ARENA_ARRAY(n->im->arena, Val *, count + 1);
    Builder *b = &body->scope->b;
    int64_t go = 1;
    yields[0] = l->has_counter ? body->out[0] : op_const_s64(b, DT_BOOL, 1);
    if (l->has_counter) {
        uint64_t elements;
        const Type *type = yields[0]->type;
        if (type->kind != TY_TENSOR || type->dtype != DT_BOOL || !type_count(type, &elements) || elements != 1)
            return node_bad(n, "the condition that the body of %s gives must be one bool, it is %s", n->row->type, type_text(n, type));
        yields[0] = op_reshape(b, yields[0], 0, NULL);
    }
    bool full = !l->go && op_const_value(yields[0], &go) && go;
    const Dim *steps = full && l->steps ? l->steps : l->n_stacked ? onnx_unbacked_dim(n, l->steps) : NULL;
    for (uint32_t k = 0; k < count; k++) {
        Val *val = yields[k + 1] = body->out[first + k];
        if (val->type->kind != TY_TENSOR)
            return node_bad(n, "result %u of %s is a sequence or an optional, which is not supported", k, n->row->type);
        if (k < l->n_carried && val->type != l->carried[k]->type) {
            l->grows = val->type->dtype == l->carried[k]->type->dtype && l->has_counter;
            return l->grows || node_bad(n, "carried value %u of %s is %s before and %s after the body; its type may not change", k,
                                        n->row->type, type_text(n, l->carried[k]->type), type_text(n, val->type));
        }
        results[k] = ir_out(node, k);
        results[k]->type = k < l->n_carried ? val->type : with_first(n->ctx, steps, val->type);
        if (!results[k]->type)
            return node_bad(n, "stacked result %u of %s has more than %d axes, or overflows", k, n->row->type, IR_MAX_RANK);
    }
    end_body(body, yields, count + 1);
    if (full && l->counted && l->n_stacked)
        l->counted->size = steps;
    return true;
}

static bool emit_loop(OnnxNode *n, LoopArgs *l, Val **results)
{
    Captures captures = {0};
    if (!body_counts_fit(n, l))
        return false;
    for (uint32_t k = 0; k < l->n_scanned; k++)
        if (l->scanned[k]->type->kind != TY_TENSOR || l->scanned[k]->type->rank == 0)
            return node_bad(n, "scanned input %u of %s has no axis", k, n->row->type);
    collect(n, &l->graph, 1, &captures);
    if (!captures_are_tensors(n, &captures))
        return node_unknown(n, 0, "the trip count");
    uint32_t operands = operands_of(&captures), at = 2, outs = l->n_carried + l->n_stacked;
    Val **in = ARENA_ARRAY(n->im->arena, Val *, 2 + l->n_carried + l->n_scanned + operands);
    const Type **types = ARENA_ARRAY(n->im->arena, const Type *, outs + 1);
    in[0] = l->trip;
    in[1] = l->go;
    for (uint32_t k = 0; k < l->n_carried; k++)
        in[at++] = l->carried[k];
    for (uint32_t k = 0; k < l->n_scanned; k++)
        in[at++] = l->scanned[k];
    for (uint32_t k = 0; k < operands; k++)
        in[at++] = captures.data[k].outer;
    for (uint32_t k = 0; k < outs; k++)
        types[k] = type_tensor(n->ctx, DT_BOOL, 0, NULL); /* until the body is known */
    AttrVal attrs[2] = {attr_int(l->n_carried), attr_int(l->n_scanned)};
    Node *node = ir_emit(n->b, OP_loop, in, at, attrs_make(n->ctx, attrs, 2), types, outs);
    Region *region = ir_add_region(node);
    Body body = open_body(n, l->graph, region, "body");
    if (!bind_loop_inputs(n, l, &body, region))
        return false;
    for (uint32_t i = 0; i < captures.len; i++) /* a body input shadows: it is no free name */
        IG_CHECK(n->ctx, !map_has(body.scope->names, KEY(captures.data[i].name)));
    bind_captures(n, &body, region, &captures, operands);
    return run_body(n, &body) && finish_loop(n, l, &body, node, results);
}

/* The body once per step, in place; for what a region cannot carry. The trip count and every condition must be known. */
static bool write_out_loop(OnnxNode *n, const LoopArgs *l)
{
    Captures captures = {0};
    int64_t trip = MAX_WRITTEN_OUT, go = 1, step = 0;
    Val **parts = ARENA_ARRAY(n->im->arena, Val *, (uint64_t)l->n_stacked * MAX_WRITTEN_OUT + 1);
    if (!body_counts_fit(n, l))
        return false;
    if (l->trip && !op_const_value(l->trip, &trip))
        return node_unknown(n, 0, "the trip count");
    if (l->go && !op_const_value(l->go, &go))
        return node_unknown(n, 1, "the condition");
    collect(n, &l->graph, 1, &captures);
    memcpy(n->out, l->carried, l->n_carried * sizeof *n->out);
    for (; go && step < trip; step++) {
        Body body = open_body(n, l->graph, n->b->region, "body");
        if (step == MAX_WRITTEN_OUT)
            return node_bad(n, "a Loop that is written out, of more than %d steps, is not supported", MAX_WRITTEN_OUT);
        for (uint32_t i = 0; i < captures.len; i++)
            put(n->im, body.scope, captures.data[i].name, captures.data[i].outer);
        bool bound = bind_input(n, &body, 0, op_const_s64(n->b, DT_S64, step)) && bind_input(n, &body, 1, op_const_s64(n->b, DT_BOOL, 1));
        for (uint32_t k = 0; k < l->n_carried && bound; k++)
            bound = bind_input(n, &body, k + 2, n->out[k]);
        if (!bound || !run_body(n, &body))
            return false;
        if (!op_const_value(body.out[0], &go))
            return node_bad(n, "the condition of a Loop whose carried values are sequences or change their shape must be known when the graph is built");
        memcpy(n->out, body.out + 1, l->n_carried * sizeof *n->out);
        for (uint32_t k = 0; k < l->n_stacked; k++)
            parts[(uint64_t)k * MAX_WRITTEN_OUT + (uint64_t)step] = onnx_with_axis(n, body.out[1 + l->n_carried + k], 0);
    }
    for (uint32_t k = 0; k < l->n_stacked; k++) {
        if (step == 0)
            return node_bad(n, "a Loop without a step has no stacked results of known shape");
        if (!(n->out[l->n_carried + k] = op_concat(n->b, parts + (uint64_t)k * MAX_WRITTEN_OUT, (uint32_t)step, 0)))
            return false;
    }
    return true;
}

static const Val *origin(const Val *val)
{
    for (const Val *outer; (outer = op_captured(val));)
        val = outer;
    return val;
}

static bool is_around(const Region *outer, const Region *region)
{
    while (region && region != outer)
        region = region->node ? region->node->parent : NULL;
    return region != NULL;
}

/* Loops with one trip count, and without a condition, stack as many elements each: those before, in this region or around it. */
static TripCount *trip_count(OnnxNode *n, Val *trip)
{
    const Dim *size = NULL;
    for (uint32_t i = 0; i < n->im->trips.len; i++) {
        TripCount *t = n->im->trips.data[i];
        if (origin(t->given) != origin(trip) || !is_around(t->region, n->b->region))
            continue;
        if (t->region == n->b->region)
            return t;
        size = t->size ? t->size : size;
    }
    TripCount *count = ARENA_NEW(n->im->arena, TripCount);
    *count = (TripCount){.given = trip, .scalar = node_scalar(n, trip), .region = n->b->region, .size = size};
    vec_push(n->im->arena, &n->im->trips, count);
    return count;
}

/* Loop-1 .. 25: trip count and condition, each may be absent. */
bool import_loop(OnnxNode *n)
{
    LoopArgs l = {.graph = na_find(n, "body")->g, .has_counter = true};
    uint32_t given = n->proto->input.len < 2 ? 0 : n->proto->input.len - 2, count;
    Val *trip = node_in(n, 0), *go = node_in(n, 1);
    int64_t known;
    l.n_carried = given;
    l.carried = n->in + 2;
    for (uint32_t k = 0; k < given; k++)
        if (!node_in(n, k + 2))
            return node_bad(n, "initial value %u of Loop is absent", k);
    if (n->n_out < l.n_carried)
        return node_bad(n, "Loop has %u carried values, but %u outputs", l.n_carried, n->n_out);
    l.n_stacked = n->n_out - l.n_carried;
    if (trip) {
        uint64_t elements;
        if (trip->type->kind != TY_TENSOR || trip->type->dtype != DT_S64 || !type_count(trip->type, &elements) || elements != 1)
            return node_bad(n, "the trip count of Loop must be one s64");
        const Dim *const *dims = op_content(trip, &count);
        l.counted = trip_count(n, trip);
        l.steps = count == 1 ? dim_max(n->ctx, dims[0], dim_const(n->ctx, 0)) : l.counted->size;
        l.trip = l.counted->scalar;
    }
    if (go && !(go = condition(n, go)))
        return false;
    l.go = go && op_const_value(go, &known) && known ? NULL : go;
    for (uint32_t k = 0; k < given; k++)
        if (l.carried[k]->type->kind != TY_TENSOR)
            return write_out_loop(n, &l);
    return emit_loop(n, &l, n->out) && (!l.grows || write_out_loop(n, &l));
}

/* Entry i of a list attribute of Scan, 0 if the list is missing. */
static bool scan_list(OnnxNode *n, const char *name, uint32_t count, uint32_t i, int64_t *value)
{
    uint32_t have;
    const int64_t *values = na_ints(n, name, &have);
    if (values && have != count)
        return na_bad(n, name, "it has %u entries, Scan asks for %u", have, count);
    *value = values ? values[i] : 0;
    return true;
}

/* Axis `from` of x moved to `to`, the others keeping their order. */
static Val *move_axis(OnnxNode *n, Val *x, uint32_t from, uint32_t to)
{
    int64_t perm[IR_MAX_RANK];
    uint32_t other = 0;
    for (uint32_t a = 0; a < x->type->rank; a++) {
        other += other == from;
        perm[a] = a == to ? from : other++;
    }
    return op_transpose(n->b, x, perm);
}

static Val *backwards(OnnxNode *n, Val *x)
{
    int64_t first = 0;
    AttrVal attr = attr_ints(&first, 1);
    return x ? op_emit(n->b, OP_reverse, &x, 1, &attr, 1) : NULL;
}

static bool scan_inputs(OnnxNode *n, LoopArgs *l)
{
    for (uint32_t k = 0; k < l->n_scanned; k++) {
        Val *x = n->in[l->n_carried + k];
        int64_t axis = 0, direction = 0;
        uint32_t from;
        if (!scan_list(n, "scan_input_axes", l->n_scanned, k, &axis) || !scan_list(n, "scan_input_directions", l->n_scanned, k, &direction) ||
            !node_axis(n, "scan_input_axes", axis, val_rank(x), &from))
            return false;
        const Dim *steps = x->type->dim[from];
        if (l->steps && dim_eq(l->steps, steps) != TRI_YES)
            return node_bad(n, "the scanned inputs of Scan differ in length");
        l->steps = steps;
        x = move_axis(n, x, from, 0);
        l->scanned[k] = direction == 1 ? backwards(n, x) : x;
        if (direction != 0 && direction != 1)
            return na_bad(n, "scan_input_directions", "%lld is neither 0 nor 1", (long long)direction);
        if (!l->scanned[k])
            return false;
    }
    return true;
}

static bool scan_outputs(OnnxNode *n, const LoopArgs *l)
{
    for (uint32_t k = 0; k < l->n_stacked; k++) {
        Val **y = &n->out[l->n_carried + k];
        int64_t axis = 0, direction = 0;
        uint32_t to;
        if (!scan_list(n, "scan_output_axes", l->n_stacked, k, &axis) ||
            !scan_list(n, "scan_output_directions", l->n_stacked, k, &direction) ||
            !node_axis(n, "scan_output_axes", axis, val_rank(*y), &to))
            return false;
        if (direction != 0 && direction != 1)
            return na_bad(n, "scan_output_directions", "%lld is neither 0 nor 1", (long long)direction);
        *y = direction ? backwards(n, *y) : *y;
        *y = *y ? move_axis(n, *y, 0, to) : NULL;
        if (!*y)
            return false;
    }
    return true;
}

/* Scan-9 .. 25 */
bool import_scan(OnnxNode *n)
{
    LoopArgs l = {.graph = na_find(n, "body")->g};
    int64_t scanned = na_int(n, "num_scan_inputs", 0);
    if (n->row->since < 9)
        return node_bad(n, "Scan of operator set 8 (with a batch axis) is not supported, supported is 9 and later");
    if (scanned < 1 || scanned > n->n_in)
        return na_bad(n, "num_scan_inputs", "%lld is not in 1 to the %u inputs of Scan", (long long)scanned, n->n_in);
    for (uint32_t k = 0; k < n->n_in; k++)
        if (!n->in[k])
            return node_bad(n, "input %u of Scan is absent", k);
    l.n_scanned = (uint32_t)scanned;
    l.n_carried = n->n_in - l.n_scanned;
    l.carried = n->in;
    l.scanned = ARENA_ARRAY(n->im->arena, Val *, l.n_scanned);
    if (n->n_out < l.n_carried)
        return node_bad(n, "Scan has %u states, but %u outputs", l.n_carried, n->n_out);
    l.n_stacked = n->n_out - l.n_carried;
    return scan_inputs(n, &l) && emit_loop(n, &l, n->out) && scan_outputs(n, &l);
}
