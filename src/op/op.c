/* SPDX-License-Identifier: Apache-2.0
 *
 * The behaviour columns of ir/ops.def as a table, and the questions the other layers ask of it.
 */
#include "op/op_int.h"

const OpDef op_defs[OP_COUNT] = {
#define OP(id, in_min, in_max, outs, kind, traits, attrs, shape, eval, adjoint, lower, body)                           \
    [OP_##id] = {shape_##shape, eval_##eval, adjoint_##adjoint, lower_##lower, body_##body},
#include "ir/ops.def"
#undef OP
};

bool op_is_composite(Op op) { return op_info[op].kind == OK_COMPOSITE; }
bool op_is_evalonly(Op op) { return (op_info[op].traits & OT_EVALONLY) != 0; }
bool op_is_differentiable(Op op) { return op_defs[op].adjoint != adjoint_nondiff; }
bool op_is_compiled(Op op) { return op_defs[op].lower != lower_uncompiled; }

/* numerics.md, "Arithmetic classes". A composite has none of its own: its body's folds do. */
const char *op_class(const Node *node)
{
    OpKind kind = op_info[node->op].kind;
    if (kind != OK_FOLD && kind != OK_CONTRACT)
        return "";
    if (!dtype_is_float(node->out[0].type->dtype))
        return "exact";
    if (kind == OK_CONTRACT)
        return op_is_wino2(node) == TRI_NO ? "ref32" : "wino2";
    return node_str_is(node, AN_kind, "sum") || node_str_is(node, AN_kind, "prod") ? "ref32" : "exact";
}

WindowAttrs op_window(const Node *node)
{
    WindowAttrs w;
    w.rank = node_ints(node, AN_window, &w.size);
    node_ints(node, AN_stride, &w.stride);
    node_ints(node, AN_pad_lo, &w.lo);
    node_ints(node, AN_pad_hi, &w.hi);
    node_ints(node, AN_dilation, &w.dilation);
    return w;
}
