/* SPDX-License-Identifier: Apache-2.0
 *
 * Semantic verification: the types of every node are what its shape rule gives, and the regions of `if` and `loop` have
 * the parameters and yields that their operands and results ask for. Reports everything; requires ir_verify. Also
 * op_expand.
 */
#include "op/op_int.h"

#include <stdio.h>

static const char *type_text(Context *ctx, const Type *type)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    if (type)
        type_print(&text, type);
    else
        text_add(&text, "nothing");
    return text.data;
}

static bool region_fail(const Node *node, const char *format, ...) IG_PRINTF(2, 3);
static bool region_fail(const Node *node, const char *format, ...)
{
    Context *ctx = node->parent->module->ctx;
    va_list list;
    char detail[400];
    va_start(list, format);
    vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    return diag_report(ctx, node->loc, DIAG_op_region, op_info[node->op].name, detail);
}

static bool regions_complete(const Node *node, uint32_t n)
{
    if (node->n_region != n)
        return region_fail(node, "has %u regions, expected %u", node->n_region, n);
    for (uint32_t i = 0; i < n; i++)
        if (!node->region[i]->last || node->region[i]->last->op != OP_yield)
            return region_fail(node, "region %u has no yield", i);
    return true;
}

static bool param_is(const Node *node, uint32_t region, uint32_t i, const Type *type)
{
    const Region *r = node->region[region];
    if (i < r->params.len && r->params.data[i]->type == type)
        return true;
    Context *ctx = r->module->ctx;
    return region_fail(node, "parameter %u of region %u is %s, expected %s", i, region,
                       type_text(ctx, i < r->params.len ? r->params.data[i]->type : NULL), type_text(ctx, type));
}

static bool yield_is(const Node *node, uint32_t region, uint32_t i, const Type *type)
{
    const Val *val = ir_in(node->region[region]->last, i);
    if (val && val->type == type)
        return true;
    Context *ctx = node->parent->module->ctx;
    return region_fail(node, "region %u yields %s as value %u, expected %s", region,
                       type_text(ctx, val ? val->type : NULL), i, type_text(ctx, type));
}

/* Both regions take the captures and yield the results. */
static bool verify_if(const Node *node)
{
    if (!regions_complete(node, 2))
        return false;
    bool good = true;
    for (uint32_t r = 0; r < 2; r++) {
        if (node->region[r]->params.len != node->n_in - 1u || node->region[r]->last->n_in != node->n_out)
            good = region_fail(node, "region %u takes %u values and yields %u, expected %u and %u", r,
                               node->region[r]->params.len, node->region[r]->last->n_in, node->n_in - 1u, node->n_out);
        for (uint32_t i = 1; good && i < node->n_in; i++)
            good = param_is(node, r, i - 1, node->in[i].val->type);
        for (uint32_t i = 0; good && i < node->n_out; i++)
            good = yield_is(node, r, i, node->out[i].type);
    }
    return good;
}

static const Type *without_first(Context *ctx, const Type *type)
{
    return type_tensor(ctx, type->dtype, type->rank - 1, type->dim + 1);
}

/* (i, carried, elems, captured) -> (go, carried', stacked); results (carried, stacked). */
static bool verify_loop(const Node *node)
{
    Context *ctx = node->parent->module->ctx;
    if (!regions_complete(node, 1))
        return false;
    uint32_t carried = (uint32_t)node_int(node, AN_n_carried), scanned = (uint32_t)node_int(node, AN_n_scanned);
    const Node *yield = node->region[0]->last;
    if (node->region[0]->params.len != node->n_in - 1u || yield->n_in != node->n_out + 1u)
        return region_fail(node, "its body takes %u values and yields %u, expected %u and %u",
                           node->region[0]->params.len, yield->n_in, node->n_in - 1u, node->n_out + 1u);
    bool good = param_is(node, 0, 0, type_tensor(ctx, DT_S64, 0, NULL));
    good &= yield_is(node, 0, 0, type_tensor(ctx, DT_BOOL, 0, NULL));
    for (uint32_t i = 2; i < node->n_in; i++) {
        const Type *type = node->in[i].val->type;
        bool is_scanned = i - 2 >= carried && i - 2 < carried + scanned;
        good &= param_is(node, 0, i - 1, is_scanned ? without_first(ctx, type) : type);
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        const Type *type = node->out[i].type;
        if (i >= carried && (type->kind != TY_TENSOR || type->rank == 0))
            good = region_fail(node, "stacked result %u has no first axis", i);
        else
            good &= yield_is(node, 0, i + 1, i < carried ? type : without_first(ctx, type));
    }
    return good;
}

static bool verify_node(const Node *node)
{
    Context *ctx = node->parent->module->ctx;
    Arena *scratch = arena_create(ctx);
    const Type **in = ARENA_ARRAY(scratch, const Type *, node->n_in + 1u);
    const Type **out = ARENA_ARRAY(scratch, const Type *, node->n_out + 1u);
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i].val ? node->in[i].val->type : NULL;
    if (op_info[node->op].outs < 0)
        for (uint32_t i = 0; i < node->n_out; i++)
            out[i] = node->out[i].type;
    ShapeArgs args = {ctx, node->loc, (Op)node->op, node->attr, in, node->n_in, out, node->n_out};
    bool good = op_infer(&args);
    for (uint32_t i = 0; good && i < node->n_out; i++)
        if (out[i] != node->out[i].type)
            good = diag_report(ctx, node->loc, DIAG_op_result_type, i, op_info[node->op].name,
                               type_text(ctx, node->out[i].type), type_text(ctx, out[i]));
    arena_destroy(scratch);
    if (good && node->op == OP_if)
        good = verify_if(node);
    if (good && node->op == OP_loop)
        good = verify_loop(node);
    return good;
}

/* Regions nest at most IR_MAX_NESTING deep (ir_verify). */
static bool verify_region(const Region *region)
{
    bool good = true;
    REGION_FOREACH(node, region)
    {
        good &= verify_node(node);
        for (uint32_t i = 0; i < node->n_region; i++)
            good &= verify_region(node->region[i]);
    }
    return good;
}

bool op_verify(const Module *module)
{
    bool good = true;
    for (uint32_t i = 0; i < module->funcs.len; i++)
        good &= verify_region(module->funcs.data[i]->body);
    return good;
}

bool op_expand(Node *node)
{
    Module *module = node->parent->module;
    IG_CHECK(module->ctx, op_is_composite((Op)node->op) && node->n_out == 1 && node->n_in <= 8);
    Builder b = ir_before_node(node, loc_from(module->ctx, node->loc, "expand"));
    Val *in[8] = {NULL};
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i].val;
    Val *result = op_defs[node->op].body(&b, node->attr, in, node->n_in, node->out[0].type);
    if (!result)
        return false;
    if (result->type != node->out[0].type)
        ig_bug(module->ctx, "the body of %s gives %s, the op %s", op_info[node->op].name,
               type_text(module->ctx, result->type), type_text(module->ctx, node->out[0].type));
    ir_replace_all(&node->out[0], result);
    ir_erase(node);
    return true;
}
