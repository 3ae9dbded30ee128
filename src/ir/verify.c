/* SPDX-License-Identifier: Apache-2.0
 *
 * The structural verifier: is this a well-formed module, whatever its ops mean? Reports everything that is wrong, at
 * the node's location. What the op table's columns of this layer say (arity, results, attributes, regions) is checked;
 * shapes and element types are op/'s business.
 */
#include "ir/ir_int.h"

#include <string.h>

typedef struct Verifier {
    Context *ctx;
    const Module *module;
    Arena *scratch;
    Map *syms, *weights, *funcs; /* KEY(object) of the module's own */
    Map *types;                  /* KEY(type) -> the type, if it was found sound */
    bool ok;
} Verifier;

#define REPORT(v, loc, ...) ((v)->ok = diag_report((v)->ctx, (loc), __VA_ARGS__) && (v)->ok)

static const char *op_name(const Node *node) { return node->op < OP_COUNT ? op_info[node->op].name : "?"; }

/* ---- types ------------------------------------------------------------------------------------------------------- */

typedef struct SymCheck {
    const Map *known;
    bool ok;
} SymCheck;

static void check_sym(void *user, const Sym *sym)
{
    SymCheck *check = user;
    check->ok = check->ok && map_has(check->known, KEY(sym));
}

static bool dim_is_sound(const Verifier *v, const Dim *dim)
{
    SymCheck check = {v->syms, true};
    if (!dim || !dim_is_valid(dim))
        return false;
    dim_each_sym(dim, check_sym, &check);
    return check.ok;
}

static bool type_is_sound(Verifier *v, const Type *type)
{
    if (!type)
        return false;
    if (map_has(v->types, KEY(type)))
        return true;
    bool ok = true;
    if (type->kind == TY_TENSOR) {
        ok = type->dtype != DT_NONE && type->dtype < DT_COUNT && type->rank <= IR_MAX_RANK;
        for (uint32_t i = 0; ok && i < type->rank; i++)
            ok = dim_is_sound(v, type->dim[i]);
    } else {
        ok = (type->kind == TY_SEQ || type->kind == TY_OPT) && type_is_sound(v, type->elem);
    }
    if (ok)
        map_slot(v->types, KEY(type));
    return ok;
}

/* ---- attributes -------------------------------------------------------------------------------------------------- */

/* Is `value` one of the words of "a|b|c"? */
static bool is_choice(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (const char *s = choices;; s++) {
        size_t n = strcspn(s, "|");
        if (n == length && memcmp(s, value, n) == 0)
            return true;
        s += n;
        if (!*s)
            return false;
    }
}

/* NULL: the value fits its row of the schema. */
static const char *attr_fault(const Verifier *v, const AttrSchema *row, const AttrVal *value)
{
    if (value->kind != row->kind)
        return "is of another kind than the op table says";
    switch (value->kind) {
    case AK_INT:
    case AK_FLOAT:
    case AK_INTS:
        return NULL;
    case AK_BOOL:
        return value->u.i == 0 || value->u.i == 1 ? NULL : "is neither true nor false";
    case AK_STR:
        if (!value->u.s)
            return "has no text";
        return !row->choices || is_choice(row->choices, value->u.s)
                   ? NULL
                   : arena_printf(v->scratch, "is '%s', expected one of %s", value->u.s, row->choices);
    case AK_DTYPE:
        return value->u.dtype != DT_NONE && value->u.dtype < DT_COUNT ? NULL : "is no element type";
    case AK_DIM:
        return dim_is_sound(v, value->u.dim) ? NULL : "is no size of this module";
    case AK_DIMS:
        for (uint32_t i = 0; i < value->n; i++)
            if (!dim_is_sound(v, value->u.dims[i]))
                return arena_printf(v->scratch, "has at %u no size of this module", (unsigned)i);
        return NULL;
    case AK_WEIGHT:
        return map_has(v->weights, KEY(value->u.weight)) ? NULL : "is no weight of this module";
    case AK_FUNC:
        return map_has(v->funcs, KEY(value->u.func)) ? NULL : "is no function of this module";
    }
    return "is of an unknown kind";
}

static void check_attrs(Verifier *v, const Node *node)
{
    const AttrSchema *schema = op_info[node->op].attr;
    uint32_t n = 0;
    while (n < IR_MAX_ATTRS && schema[n].name != AN_NONE)
        n++;
    for (uint32_t i = 0; i < n; i++) {
        const char *fault = i < node->attr->n ? attr_fault(v, &schema[i], &node->attr->val[i]) : "is missing";
        if (fault)
            REPORT(v, node->loc, DIAG_ir_attr, op_name(node), attr_name(schema[i].name), fault);
    }
    if (node->attr->n > n)
        REPORT(v, node->loc, DIAG_ir_attr, op_name(node), "?", "is one more than the op has");
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void check_arity(Verifier *v, const Node *node)
{
    const OpInfo *info = &op_info[node->op];
    bool optional_front = (info->traits & OT_REGION) != 0; /* a loop's trip count and condition */
    if (node->n_in < info->in_min || (info->in_max >= 0 && node->n_in > info->in_max)) {
        const char *expected = info->in_max < 0 ? arena_printf(v->scratch, "%d or more", info->in_min)
                               : info->in_min == info->in_max
                                   ? arena_printf(v->scratch, "%d", info->in_min)
                                   : arena_printf(v->scratch, "%d to %d", info->in_min, info->in_max);
        REPORT(v, node->loc, DIAG_ir_arity, op_name(node), (unsigned)node->n_in, "operands", expected);
    }
    if (info->outs >= 0 && node->n_out != info->outs)
        REPORT(v, node->loc, DIAG_ir_arity, op_name(node), (unsigned)node->n_out, "results",
               arena_printf(v->scratch, "%d", info->outs));
    if ((node->n_region > 0) != optional_front)
        REPORT(v, node->loc, DIAG_ir_arity, op_name(node), (unsigned)node->n_region, "regions",
               optional_front ? "1 or more" : "0");
    for (uint32_t i = 0; i < node->n_in; i++) {
        bool optional = (int)i < info->in_min ? optional_front : info->in_max >= 0;
        if (!node->in[i].val && !optional)
            REPORT(v, node->loc, DIAG_ir_absent, op_name(node), (unsigned)i);
    }
}

/* Every use of a value points back to the place where an operand holds it. */
static bool uses_are_sound(const Val *val)
{
    Use *const *at = &val->uses;
    for (; *at; at = &(*at)->next) {
        const Use *use = *at;
        const Node *user = use->user;
        if (use->val != val || use->prev != (Use **)at || !user || use < user->in || use >= user->in + user->n_in)
            return false;
    }
    return true;
}

/* Is this operand found from the value that it names? Each use is in one list, so walking back from it is enough. */
static bool use_is_linked(const Use *use) { return !use->val || (use->prev && *use->prev == use); }

static void check_links(Verifier *v, const Node *node)
{
    bool ok = node->prev ? node->prev->next == node : node->parent->first == node;
    ok = ok && (node->next ? node->next->prev == node : node->parent->last == node);
    for (uint32_t i = 0; i < node->n_in; i++)
        ok = ok && node->in[i].user == node && use_is_linked(&node->in[i]);
    for (uint32_t i = 0; i < node->n_out; i++)
        ok = ok && node->out[i].def == node && node->out[i].out == i && uses_are_sound(&node->out[i]);
    if (!ok)
        REPORT(v, node->loc, DIAG_ir_use_list, op_name(node));
}

static void check_region(Verifier *v, const Region *region, int depth);

static void check_node(Verifier *v, const Node *node, Map *defined, int depth)
{
    if (node->op >= OP_COUNT)
        ig_bug(v->ctx, "node %u has no op", (unsigned)node->id);
    if (!node->loc)
        REPORT(v, node->loc, DIAG_ir_no_loc, op_name(node));
    check_arity(v, node);
    check_attrs(v, node);
    check_links(v, node);
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i].val && !map_has(defined, KEY(node->in[i].val)))
            REPORT(v, node->loc, DIAG_ir_order, op_name(node), (unsigned)i);
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (!type_is_sound(v, node->out[i].type))
            REPORT(v, node->loc, DIAG_ir_bad_type, op_name(node));
        map_slot(defined, KEY(&node->out[i]));
    }
    if (node->n_region && depth >= IR_MAX_NESTING) {
        REPORT(v, node->loc, DIAG_ir_nesting, op_name(node), (int)IR_MAX_NESTING);
        return;
    }
    for (uint32_t i = 0; i < node->n_region; i++) {
        if (node->region[i]->node != node)
            REPORT(v, node->loc, DIAG_ir_use_list, op_name(node));
        check_region(v, node->region[i], depth + 1);
    }
}

static void check_region(Verifier *v, const Region *region, int depth)
{
    Map *defined = map_create(v->scratch);
    Loc loc = region->node ? region->node->loc : region->first ? region->first->loc : 0;
    const char *where = region->node ? op_name(region->node) : region->func->name;
    for (uint32_t i = 0; i < region->params.len; i++) {
        const Val *param = region->params.data[i];
        if (!type_is_sound(v, param->type))
            REPORT(v, loc, DIAG_ir_bad_type, where);
        if (param->def || param->region != region || param->out != i || !uses_are_sound(param))
            REPORT(v, loc, DIAG_ir_use_list, where);
        map_slot(defined, KEY(param));
    }
    bool ends = false;
    REGION_FOREACH(node, region)
    {
        if (node->parent != region) {
            REPORT(v, node->loc, DIAG_ir_use_list, op_name(node));
            return; /* the list is not to be trusted */
        }
        if (ends)
            REPORT(v, node->loc, DIAG_ir_yield, where);
        ends = node->op == OP_yield; /* op-switch: yield is structure */
        check_node(v, node, defined, depth);
    }
    if (!ends)
        REPORT(v, loc, DIAG_ir_yield, where);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

/* Names of an entry's parameters or outputs are how a user refers to them. */
static void check_names(Verifier *v, const Func *func, const char *what, const Str *names, uint32_t n)
{
    Map *seen = map_create(v->scratch);
    Loc loc = func->body->first ? func->body->first->loc : 0;
    for (uint32_t i = 0; i < n; i++) {
        bool named = names && names[i];
        if (!named || (func->entry && *names[i] == '\0'))
            REPORT(v, loc, DIAG_ir_names, func->name, what, (unsigned)i, "has no name");
        else if (func->entry && map_has(seen, KEY(names[i])))
            REPORT(v, loc, DIAG_ir_names, func->name, what, (unsigned)i, "has the name of another");
        if (named)
            map_slot(seen, KEY(names[i]));
    }
}

typedef VEC(const Func *) FuncVec;

/* Adds the functions that the region's attributes name. */
static void collect_callees(Verifier *v, const Region *region, FuncVec *callees)
{
    REGION_FOREACH(node, region)
    {
        for (uint32_t i = 0; i < node->attr->n; i++)
            if (node->attr->val[i].kind == AK_FUNC && map_has(v->funcs, KEY(node->attr->val[i].u.func)))
                vec_push(v->scratch, callees, node->attr->val[i].u.func);
        for (uint32_t i = 0; i < node->n_region; i++)
            collect_callees(v, node->region[i], callees);
    }
}

/* Functions without callees left are taken away until none is; what stays lies on or before a cycle (Kahn, 1962). */
static void check_recursion(Verifier *v)
{
    uint32_t n = v->module->funcs.len;
    FuncVec *callees = ARENA_ARRAY(v->scratch, FuncVec, n);
    Map *done = map_create(v->scratch);
    for (uint32_t i = 0; i < n; i++)
        collect_callees(v, v->module->funcs.data[i]->body, &callees[i]);
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < n; i++) {
            const Func *func = v->module->funcs.data[i];
            while (callees[i].len && map_has(done, KEY(callees[i].data[callees[i].len - 1])))
                (void)vec_pop(&callees[i]);
            if (callees[i].len == 0 && !map_has(done, KEY(func))) {
                map_slot(done, KEY(func));
                changed = true;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        const Func *func = v->module->funcs.data[i];
        if (!map_has(done, KEY(func)))
            REPORT(v, func->body->first ? func->body->first->loc : 0, DIAG_ir_recursion, func->name);
    }
}

static void collect_own(Verifier *v)
{
    const Module *module = v->module;
    for (uint32_t i = 0; i < module->syms.len; i++)
        map_slot(v->syms, KEY(module->syms.data[i]));
    for (uint32_t i = 0; i < module->weights.len; i++)
        map_slot(v->weights, KEY(module->weights.data[i]));
    for (uint32_t i = 0; i < module->funcs.len; i++)
        map_slot(v->funcs, KEY(module->funcs.data[i]));
}

bool ir_verify(const Module *module)
{
    Arena *scratch = arena_create(module->ctx);
    Verifier v = {.ctx = module->ctx,
                  .module = module,
                  .scratch = scratch,
                  .syms = map_create(scratch),
                  .weights = map_create(scratch),
                  .funcs = map_create(scratch),
                  .types = map_create(scratch),
                  .ok = true};
    bool entry = false;
    collect_own(&v);
    for (uint32_t i = 0; i < module->weights.len; i++)
        if (!type_is_static(module->weights.data[i]->type))
            REPORT(&v, 0, DIAG_ir_bad_type, module->weights.data[i]->name);
    for (uint32_t i = 0; i < module->states.len; i++)
        if (!type_is_sound(&v, module->states.data[i]->type))
            REPORT(&v, 0, DIAG_ir_bad_type, module->states.data[i]->name);
    for (uint32_t i = 0; i < module->funcs.len; i++) {
        const Func *func = module->funcs.data[i];
        entry = entry || func->entry;
        check_region(&v, func->body, 0);
        check_names(&v, func, "parameter", func->in_names, func->body->params.len);
        check_names(&v, func, "output", func->out_names, func_n_out(func));
    }
    check_recursion(&v);
    if (!entry)
        REPORT(&v, 0, DIAG_ir_no_entry);
    arena_destroy(scratch);
    return v.ok;
}
