/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the IR: program order, uses, attributes by name.
 */
#include "ir/ir_int.h"

#include <string.h>

/* Order numbers leave gaps, so that an insertion between two nodes seldom costs a renumbering (build.c fills them). */
static void renumber(Region *region)
{
    uint32_t count = 0, order = 0;
    REGION_FOREACH(node, region)
    count++;
    uint32_t step = count < UINT32_C(1) << 22 ? 256 : 1;
    REGION_FOREACH(node, region)
    node->order = order += step;
    region->order_valid = true;
}

bool ir_before(const Node *a, const Node *b)
{
    IG_CHECK(a->parent->module->ctx, a->parent == b->parent);
    if (!a->parent->order_valid)
        renumber(a->parent);
    return a->order < b->order;
}

uint32_t val_n_uses(const Val *val)
{
    uint32_t n = 0;
    for (const Use *use = val->uses; use; use = use->next)
        n++;
    return n;
}

bool val_is_output(const Val *val)
{
    for (const Use *use = val->uses; use; use = use->next)
        if (use->user->op == OP_yield && !use->user->parent->node) /* op-switch: yield is structure */
            return true;
    return false;
}

const AttrVal *attrs_get(Op op, const Attrs *attrs, AttrName name)
{
    const AttrSchema *schema = op_info[op].attr;
    for (uint32_t i = 0; i < IR_MAX_ATTRS && schema[i].name != AN_NONE; i++)
        if (schema[i].name == name)
            return i < attrs->n ? &attrs->val[i] : NULL;
    return NULL;
}

const AttrVal *node_attr(const Node *node, AttrName name) { return attrs_get((Op)node->op, node->attr, name); }

static const AttrVal *attr_of_kind(const Node *node, AttrName name, AttrKind kind)
{
    const AttrVal *value = node_attr(node, name);
    if (!value || value->kind != kind)
        ig_bug(node->parent->module->ctx, "%s has no attribute '%s' of kind %d", op_info[node->op].name,
               attr_name(name), (int)kind);
    return value;
}

int64_t node_int(const Node *node, AttrName name) { return attr_of_kind(node, name, AK_INT)->u.i; }
bool node_bool(const Node *node, AttrName name) { return attr_of_kind(node, name, AK_BOOL)->u.i != 0; }
double node_float(const Node *node, AttrName name) { return attr_of_kind(node, name, AK_FLOAT)->u.f; }
Str node_str(const Node *node, AttrName name) { return attr_of_kind(node, name, AK_STR)->u.s; }
Weight *node_weight(const Node *node, AttrName name) { return attr_of_kind(node, name, AK_WEIGHT)->u.weight; }

bool node_str_is(const Node *node, AttrName name, const char *value)
{
    return strcmp(node_str(node, name), value) == 0;
}

uint32_t node_ints(const Node *node, AttrName name, const int64_t **values)
{
    const AttrVal *value = attr_of_kind(node, name, AK_INTS);
    *values = value->u.ints;
    return value->n;
}

uint32_t node_dims(const Node *node, AttrName name, const Dim *const **values)
{
    const AttrVal *value = attr_of_kind(node, name, AK_DIMS);
    *values = value->u.dims;
    return value->n;
}

Weight *val_const(const Val *val)
{
    bool constant = val->def && val->def->op == OP_const; /* op-switch: what a weight is read by */
    return constant ? node_weight(val->def, AN_weight) : NULL;
}

bool val_is_const_view(const Val *val)
{
    while (val->def && op_info[val->def->op].kind == OK_INDEX && val->def->n_in == 1 && ir_in(val->def, 0))
        val = ir_in(val->def, 0);
    return val_const(val) != NULL;
}
