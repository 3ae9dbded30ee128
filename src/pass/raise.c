/* SPDX-License-Identifier: Apache-2.0
 *
 * raise: composites that an exporter wrote out as primitives become one node again, so that listings, gradients and later
 * overrides see them. The pattern of a composite is its own body (ir.md, composite rule 3): built on the candidate's types and
 * matched by graph isomorphism, operands of commutative ops in either order, inner values used once and no outputs. A match is
 * therefore equal in bits by construction. An attribute that the candidate decides (epsilon) is built as a sentinel number and
 * read off the constant that stands in its place. stop_gradient changes no value and may be absent in the candidate. A softmax that
 * an exporter wrote out is no match: its small weights are subnormal, the composite's are 0 (decision 010).
 */
#include "pass/pass.h"

#include <string.h>

enum { MAX_PARAMS = 3, MAX_MATCHED = 64 };
static const double SENTINEL = 0x1.2a3b4c5d6e7f8p-17; /* no exporter writes this epsilon */

/* What to look for. Operand 0 has the root's type; the others, if any, are vectors along the last axis. */
typedef struct Raise {
    Op op;
    uint32_t n_in;
    const char *choice; /* of the string attribute, if it has one */
} Raise;
static const Raise raises[] = {
    {OP_gelu, 1, "none"},    {OP_gelu, 1, "tanh"},   {OP_softmax, 1, "mul"}, {OP_softmax, 1, "div"}, {OP_log_softmax, 1, NULL},
    {OP_layer_norm, 3, NULL}, {OP_rms_norm, 2, NULL}, {OP_hard_swish, 1, NULL}, {OP_mish, 1, NULL}, {OP_softplus, 1, NULL},
    {OP_relu, 1, NULL},
};

typedef struct Pattern {
    const Raise *raise;
    const Attrs *attrs;
    Func *func; /* parameters and body */
    const Val *root;
} Pattern;

typedef struct Match {
    const Pattern *pattern;
    Val *bound[MAX_PARAMS];
    Node *node[MAX_MATCHED];
    const Val *stands_for[MAX_MATCHED];
    uint32_t n;
    double number; /* found in the sentinel's place */
    bool has_number;
} Match;

/* ---- patterns ------------------------------------------------------------------------------------------------------------------- */

static const Attrs *pattern_attrs(Context *ctx, const Raise *raise, const Type *type)
{
    AttrVal values[IR_MAX_ATTRS];
    int64_t last = (int64_t)type->rank - 1;
    uint32_t n = 0;
    for (const AttrSchema *a = op_info[raise->op].attr; a->name != AN_NONE; a++)
        values[n++] = a->kind == AK_INTS    ? attr_ints(&last, 1)
                      : a->kind == AK_FLOAT ? attr_float(SENTINEL)
                                            : attr_str(ctx, raise->choice);
    return attrs_make(ctx, values, n);
}

static Pattern *make_pattern(Context *ctx, Arena *arena, Module *scratch, const Raise *raise, const Type *type)
{
    Pattern *p = ARENA_NEW(arena, Pattern);
    p->raise = raise;
    p->attrs = pattern_attrs(ctx, raise, type);
    p->func = module_func(scratch, str_format(ctx, "p%u", scratch->funcs.len), false);
    Val *in[MAX_PARAMS];
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        dims[i] = i + 1 == type->rank ? type->dim[i] : dim_const(ctx, 1);
    for (uint32_t i = 0; i < raise->n_in; i++)
        in[i] = func_param(p->func, str_intern(ctx, ""), i ? type_tensor(ctx, type->dtype, type->rank, dims) : type);
    Builder b = ir_at_end(p->func->body, loc_text(ctx, str_intern(ctx, "raise"), 1, 1));
    p->root = op_defs[raise->op].body(&b, p->attrs, in, raise->n_in, type);
    return p->root && p->root->def ? p : NULL;
}

/* ---- matching ---------------------------------------------------------------------------------------------------------------------- */

static bool match_val(Match *m, const Val *want, Val *have);

static bool match_const(Match *m, const Weight *want, const Weight *have)
{
    uint64_t count = 0, bytes = 0;
    if (!have || want->type->dtype != have->type->dtype || !type_count(want->type, &count))
        return false;
    uint64_t have_count = 0;
    if (!type_count(have->type, &have_count) || count != have_count)
        return false;
    if (count == 1 && dtype_is_float(want->type->dtype)) {
        uint8_t sentinel[16] = {0};
        elem_set_f64(want->type->dtype, sentinel, 0, SENTINEL);
        if (memcmp(sentinel, want->data, (size_t)dtype_bits(want->type->dtype) / 8) == 0) {
            double number = elem_get_f64(have->type->dtype, have->data, 0);
            if (m->has_number && m->number != number)
                return false;
            m->number = number;
            return m->has_number = true;
        }
    }
    return dtype_bytes(want->type->dtype, count, &bytes) && memcmp(want->data, have->data, bytes) == 0;
}

static bool match_operands(Match *m, const Node *want, Node *have)
{
    for (uint32_t i = 0; i < want->n_in; i++)
        if (!match_val(m, ir_in(want, i), ir_in(have, i)))
            return false;
    return true;
}

static bool match_node(Match *m, const Node *want, Node *have)
{
    if (want->op != have->op || want->attr != have->attr || want->n_in != have->n_in || m->n == MAX_MATCHED)
        return false;
    Match before = *m;
    m->node[m->n] = have;
    m->stands_for[m->n++] = &want->out[0];
    Match with = *m;
    if (match_operands(m, want, have))
        return true;
    if (want->n_in == 2 && (op_info[want->op].traits & OT_COMM)) {
        *m = with;
        if (match_val(m, ir_in(want, 0), ir_in(have, 1)) && match_val(m, ir_in(want, 1), ir_in(have, 0)))
            return true;
    }
    *m = before;
    return false;
}

static bool match_val(Match *m, const Val *want, Val *have)
{
    if (!want || !have)
        return !want && !have;
    if (!want->def) { /* parameter */
        if (want->type != have->type || (m->bound[want->out] && m->bound[want->out] != have))
            return false;
        m->bound[want->out] = have;
        return true;
    }
    for (uint32_t i = 0; i < m->n; i++)
        if (m->stands_for[i] == want)
            return &m->node[i]->out[0] == have;
    if (val_const(want))
        return match_const(m, val_const(want), val_const(have));
    if (want->def->op == OP_stop_gradient && (!have->def || have->def->op != OP_stop_gradient))
        return match_val(m, ir_in(want->def, 0), have);
    return have->def && want->type == have->type && match_node(m, want->def, have->def);
}

/* Inner values may be seen by matched nodes only. */
static bool is_closed(const Match *m)
{
    for (uint32_t i = 1; i < m->n; i++)
        for (const Use *use = m->node[i]->out[0].uses; use; use = use->next) {
            bool inside = false;
            for (uint32_t j = 0; j < m->n; j++)
                inside |= use->user == m->node[j];
            if (!inside)
                return false;
        }
    return true;
}

/* ---- the pass ----------------------------------------------------------------------------------------------------------------------- */

static bool replace(Context *ctx, const Match *m)
{
    const Pattern *p = m->pattern;
    Node *root = m->node[0];
    AttrVal values[IR_MAX_ATTRS];
    uint32_t n = 0;
    for (const AttrSchema *a = op_info[p->raise->op].attr; a->name != AN_NONE; a++, n++) {
        values[n] = *attrs_get(p->raise->op, p->attrs, a->name);
        if (a->kind == AK_FLOAT)
            values[n] = attr_float(m->number);
    }
    Loc locs[MAX_MATCHED];
    for (uint32_t i = 0; i < m->n; i++)
        locs[i] = m->node[i]->loc;
    Builder b = ir_before_node(root, loc_from(ctx, m->n == 1 ? locs[0] : loc_fused(ctx, locs, m->n), "raise"));
    Node *node = ir_emit(&b, p->raise->op, m->bound, p->raise->n_in, attrs_make(ctx, values, n), &root->out[0].type, 1);
    ir_replace_all(&root->out[0], &node->out[0]);
    return true;
}

static bool raise_node(Context *ctx, Pattern *const *patterns, uint32_t n, Node *node)
{
    for (uint32_t i = 0; i < n; i++) {
        Match m = {.pattern = patterns[i]};
        if (!patterns[i] || patterns[i]->root->def->op != node->op || patterns[i]->root->type != node->out[0].type ||
            !match_val(&m, patterns[i]->root, &node->out[0]) || !is_closed(&m))
            continue;
        bool complete = true;
        for (uint32_t j = 0; j < patterns[i]->raise->n_in; j++)
            complete &= m.bound[j] != NULL;
        if (complete)
            return replace(ctx, &m);
    }
    return false;
}

typedef struct TypePatterns { /* the patterns for one result type */
    Pattern *pattern[IG_COUNT(raises)];
} TypePatterns;

static TypePatterns *patterns_for(PassCtx *pc, Map *known, Module *scratch, const Type *type)
{
    void **slot = map_slot(known, KEY(type));
    if (!*slot) {
        TypePatterns *t = ARENA_NEW(pc->tmp, TypePatterns);
        for (uint32_t i = 0; i < IG_COUNT(raises); i++)
            t->pattern[i] = make_pattern(pc->ctx, pc->tmp, scratch, &raises[i], type);
        *slot = t;
    }
    return *slot;
}

bool pass_raise(PassCtx *pc, Unit *unit)
{
    bool changed = false;
    Module *scratch = module_create(pc->ctx);
    Map *known = map_create(pc->tmp);
    for (uint32_t i = 0; i < unit->module->funcs.len; i++) {
        Region *body = unit->module->funcs.data[i]->body;
        for (Node *node = body->last, *prev; node; node = prev) { /* users first: the largest match wins */
            prev = node->prev;
            if (node->n_out != 1 || node->out[0].type->kind != TY_TENSOR || node->out[0].type->rank == 0 ||
                !dtype_is_float(node->out[0].type->dtype) || dtype_bits(node->out[0].type->dtype) < 16 ||
                !node->out[0].uses || op_is_composite((Op)node->op))
                continue;
            TypePatterns *t = patterns_for(pc, known, scratch, node->out[0].type);
            changed |= raise_node(pc->ctx, t->pattern, IG_COUNT(raises), node);
        }
    }
    module_destroy(scratch);
    return changed; /* what was matched is dead now: dce */
}
