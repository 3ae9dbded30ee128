/* SPDX-License-Identifier: Apache-2.0
 *
 * simplify: algebra that keeps every bit, for all values including NaN, infinities and -0 (numerics.md). NaN payloads are not
 * promised, NaN-ness is. What only holds in real arithmetic (x*0, x-x, reassociation) is not here.
 */
#include "pass/pass.h"

/* Whether every element of a constant equals `value` with its sign; reads up to 64 elements. */
static bool is_all(const Val *val, double value)
{
    const Weight *w = val ? val_const(val) : NULL;
    uint64_t count = 0;
    if (!w || !type_count(w->type, &count) || count == 0 || count > 64 || dtype_kind(w->type->dtype) == DK_COMPLEX ||
        w->type->dtype == DT_STR)
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (f64_bits(elem_get_f64(w->type->dtype, w->data, i)) != f64_bits(value))
            return false;
    return true;
}

static bool keeps_type(const Node *node, const Val *val) { return val->type == node->out[0].type; }

/* The operand that the node equals, or NULL. */
static Val *equal_operand(const Node *node)
{
    Val *x = ir_in(node, 0), *y = ir_in(node, 1);
    bool is_float = dtype_is_float(node->out[0].type->dtype);
    switch (node->op) { /* op-switch: this is the table of identities */
    case OP_mul: /* x*1 -> x */
        return is_all(y, 1) && keeps_type(node, x) ? x : is_all(x, 1) && keeps_type(node, y) ? y : NULL;
    case OP_div: /* x/1 -> x */
        return is_all(y, 1) && keeps_type(node, x) ? x : NULL;
    case OP_add: /* x + -0 -> x; integers: x + 0 -> x */
        return is_all(y, is_float ? -0.0 : 0.0) && keeps_type(node, x)   ? x
               : is_all(x, is_float ? -0.0 : 0.0) && keeps_type(node, y) ? y
                                                                         : NULL;
    case OP_sub: /* x - +0 -> x */
        return is_all(y, 0.0) && keeps_type(node, x) ? x : NULL;
    case OP_neg: /* -(-x) -> x */
    case OP_not:
        return x->def && x->def->op == node->op ? ir_in(x->def, 0) : NULL;
    case OP_abs: /* abs(abs(x)) -> abs(x) */
    case OP_floor:
    case OP_ceil:
    case OP_trunc:
    case OP_rint:
        return x->def && x->def->op == node->op ? x : NULL;
    case OP_cast:
    case OP_broadcast:
    case OP_reshape:
        return keeps_type(node, x) ? x : NULL;
    case OP_select: /* select(c, x, x) -> x; constant condition */
        if (ir_in(node, 1) == ir_in(node, 2) && keeps_type(node, ir_in(node, 1)))
            return ir_in(node, 1);
        if (is_all(x, 1) && keeps_type(node, ir_in(node, 1)))
            return ir_in(node, 1);
        return is_all(x, 0) && keeps_type(node, ir_in(node, 2)) ? ir_in(node, 2) : NULL;
    default:
        return NULL;
    }
}

static bool simplify_node(Node *node)
{
    Val *equal = node->n_out == 1 ? equal_operand(node) : NULL;
    if (!equal)
        return false;
    ir_replace_all(&node->out[0], equal);
    ir_erase(node);
    return true;
}

bool pass_simplify(PassCtx *pc, Unit *unit)
{
    (void)pc;
    return pass_each_node(unit->module, simplify_node);
}
