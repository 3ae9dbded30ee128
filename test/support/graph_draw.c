/* SPDX-License-Identifier: Apache-2.0
 *
 * Nothing here knows an op. A node is drawn by picking a row of the op table, operands, and attributes by their *names and kinds*
 * (the vocabulary of attrs.def means the same in every row), and asking op_emit; what the shape rule refuses is drawn again. To
 * make acceptance likely, one Plan is made per try, from the first operand: an axis, a permutation, window sizes, the axes
 * that a contraction shares ..., and the later operands are made to fit one of the ways in which operands of any op relate: equal
 * shapes, sizes 1 (broadcasting), a vector along the channel axis, a matrix or filter that shares axes, indices, a scalar.
 * A new row is thus drawn without a change here, unless it brings attributes of new names (test_driver_fuzz fails then).
 */
#include "support/graph_draw.h"

#include <string.h>

enum { MAX_POOL = 64, MAX_COUNT = 4096, TRIES = 150, RELATIONS = 10 };

Draw draw_begin(const uint8_t *data, size_t size) { return (Draw){data, size, 0, hash_bytes(data, size, 1) | 1, DT_NONE}; }

Draw draw_seeded(uint64_t seed)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(seed >> 8 * i);
    Draw d = draw_begin(bytes, sizeof bytes);
    d.data = NULL;
    d.size = 0;
    return d;
}

uint32_t draw_below(Draw *d, uint32_t n)
{
    if (n <= 1)
        return 0;
    if (d->at < d->size)
        return d->data[d->at++] % n;
    d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(hash_mix(d->state >> 13, d->state) >> 24) % n;
}

static bool chance(Draw *d, uint32_t percent) { return draw_below(d, 100) < percent; }

/* ---- one try's decisions ------------------------------------------------------------------------------------------------- */

typedef struct Plan {
    uint32_t rank;
    int64_t dim[IR_MAX_RANK];
    DType dtype;
    int64_t axis, batch, groups;
    int64_t perm[IR_MAX_RANK], axes[IR_MAX_RANK], step[IR_MAX_RANK], interior[IR_MAX_RANK], start[IR_MAX_RANK],
        size[IR_MAX_RANK], lo[IR_MAX_RANK], hi[IR_MAX_RANK], shape[IR_MAX_RANK];
    uint32_t n_axes, shape_rank;
    uint32_t spatial_from, n_spatial; /* windows and filters: all axes, or those behind batch and channel */
    int64_t window[IR_MAX_RANK], stride[IR_MAX_RANK], pad[IR_MAX_RANK], dilation[IR_MAX_RANK], lhs_dilation[IR_MAX_RANK];
    int64_t lhs_batch[IR_MAX_RANK], rhs_batch[IR_MAX_RANK], lhs_contract[IR_MAX_RANK], rhs_contract[IR_MAX_RANK];
    uint32_t n_batch, n_contract, rhs_rank;
    int64_t rhs[IR_MAX_RANK];
    uint32_t relation; /* of all later operands to the first, or RELATIONS: each its own */
    DType others;      /* element type of the later operands, if they are alike */
} Plan;

typedef struct Maker {
    Context *ctx;
    Module *module;
    Func *func;
    Builder b;
    Draw *d;
    Val *pool[MAX_POOL];
    uint32_t n_pool, n_inputs;
} Maker;

static int64_t draw_dim(Draw *d)
{
    static const int64_t odd[] = {1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 19, 33, 40, 0, 64, 100};
    return chance(d, 70) ? 1 + draw_below(d, 6) : odd[draw_below(d, IG_COUNT(odd))];
}

static DType draw_dtype(Draw *d)
{
    static const DType often[] = {DT_F32, DT_F32, DT_F32, DT_F16, DT_BF16, DT_F64, DT_S32, DT_S64, DT_U8, DT_S8, DT_BOOL};
    if (d->dtype != DT_NONE && chance(d, 85))
        return d->dtype;
    if (chance(d, 55))
        return DT_F32;
    return chance(d, 70) ? often[draw_below(d, IG_COUNT(often))] : (DType)(1 + draw_below(d, DT_COUNT - 1));
}

static int64_t count_of(const int64_t *dim, uint32_t rank)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; i++)
        count = count * dim[i] > MAX_COUNT * 16 ? MAX_COUNT * 16 : count * dim[i];
    return count;
}

static uint32_t draw_shape(Draw *d, int64_t *dim, uint32_t max_rank)
{
    uint32_t rank = draw_below(d, max_rank + 1);
    for (uint32_t i = 0; i < rank; i++)
        dim[i] = draw_dim(d);
    while (count_of(dim, rank) > MAX_COUNT)
        dim[draw_below(d, rank)] = 2;
    return rank;
}

static void shuffle(Draw *d, int64_t *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        list[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = draw_below(d, i);
        int64_t t = list[i - 1];
        list[i - 1] = list[j];
        list[j] = t;
    }
}

static void plan_moves(Draw *d, Plan *p)
{
    shuffle(d, p->perm, p->rank);
    for (uint32_t i = 0; i < p->rank; i++) {
        if (chance(d, 40))
            p->axes[p->n_axes++] = i;
        p->step[i] = chance(d, 70) ? 1 : (int64_t)draw_below(d, 5) - 2;
        if (p->step[i] == 0)
            p->step[i] = 3;
        int64_t step = p->step[i] < 0 ? -p->step[i] : p->step[i], n = p->dim[i];
        p->start[i] = draw_below(d, (uint32_t)n + (p->step[i] > 0));
        int64_t most = p->step[i] > 0 ? (n - p->start[i] + step - 1) / step : n ? p->start[i] / step + 1 : 0;
        p->size[i] = chance(d, 50) ? most : draw_below(d, (uint32_t)most + 1);
        p->lo[i] = chance(d, 50) ? 0 : (int64_t)draw_below(d, 6) - 2;
        p->hi[i] = chance(d, 50) ? 0 : (int64_t)draw_below(d, 6) - 2;
        p->interior[i] = chance(d, 80) ? 0 : draw_below(d, 3);
    }
    if (p->n_axes == 0 && p->rank)
        p->axes[p->n_axes++] = draw_below(d, p->rank);
    if (chance(d, 30) && p->rank) /* the last axis alone: rows */
        p->n_axes = 1, p->axes[0] = p->rank - 1;
}

static void plan_shape(Draw *d, Plan *p)
{
    memcpy(p->shape, p->dim, sizeof p->shape);
    p->shape_rank = p->rank;
    if (chance(d, 40)) { /* stretch axes of size 1 */
        for (uint32_t i = 0; i < p->rank; i++)
            p->shape[i] = p->dim[i] == 1 && chance(d, 60) ? draw_dim(d) : p->dim[i];
        return;
    }
    uint32_t n = 0; /* merge or split axes, or insert 1 */
    for (uint32_t i = 0; i < p->rank && n + 2 < IR_MAX_RANK; i++) {
        int64_t size = p->dim[i];
        if (n && chance(d, 30)) {
            p->shape[n - 1] *= size;
        } else if (size > 1 && size % 2 == 0 && chance(d, 40)) {
            p->shape[n++] = 2;
            p->shape[n++] = size / 2;
        } else {
            if (chance(d, 15))
                p->shape[n++] = 1;
            p->shape[n++] = size;
        }
    }
    p->shape_rank = n;
}

static void plan_windows(Draw *d, Plan *p)
{
    p->spatial_from = chance(d, 50) && p->rank > 2 ? 2 : 0;
    p->n_spatial = p->rank - p->spatial_from;
    bool plain = chance(d, 30);
    for (uint32_t i = 0; i < p->n_spatial; i++) {
        bool leading = p->spatial_from == 0 && p->rank > 2 && i < 2;
        p->window[i] = leading ? 1 : 1 + draw_below(d, 4);
        p->stride[i] = leading || plain || chance(d, 60) ? 1 : 1 + draw_below(d, 3);
        p->pad[i] = leading || p->window[i] == 1 || chance(d, 50) ? 0 : draw_below(d, (uint32_t)p->window[i]);
        p->dilation[i] = leading || plain || chance(d, 75) ? 1 : 1 + draw_below(d, 3);
        p->lhs_dilation[i] = plain || chance(d, 75) ? 1 : 1 + draw_below(d, 3);
    }
    int64_t channels = p->rank > 1 ? p->dim[1] : 1;
    p->groups = 1;
    if (chance(d, 40) && channels > 1)
        p->groups = channels % 2 == 0 && chance(d, 50) ? 2 : channels;
}

/* Which axes of the first operand a second one shares: as a matrix product or at random. */
static void plan_contraction(Draw *d, Plan *p)
{
    int64_t order[IR_MAX_RANK], place[IR_MAX_RANK];
    uint32_t lhs = p->rank;
    shuffle(d, order, lhs);
    if (lhs >= 2 && chance(d, 60)) {
        p->n_batch = lhs - 2;
        for (uint32_t i = 0; i < lhs - 2; i++)
            order[i] = i;
        order[lhs - 2] = lhs - 1;
        order[lhs - 1] = lhs - 2;
        p->n_contract = 1;
        if (chance(d, 40))
            order[0] = lhs - 1, p->n_batch = 0;
    } else {
        p->n_batch = lhs > 1 ? draw_below(d, 2) : 0;
        p->n_contract = lhs > p->n_batch ? draw_below(d, lhs - p->n_batch + 1) : 0;
    }
    p->rhs_rank = p->n_batch + p->n_contract + draw_below(d, 3);
    bool ordered = chance(d, 60);
    shuffle(d, place, p->rhs_rank);
    for (uint32_t i = 0; i < p->rhs_rank; i++)
        p->rhs[i] = draw_dim(d);
    for (uint32_t i = 0; i < p->n_batch + p->n_contract; i++) {
        int64_t to = ordered ? (int64_t)i : place[i];
        p->rhs[to] = p->dim[order[i]];
        if (i < p->n_batch)
            p->lhs_batch[i] = order[i], p->rhs_batch[i] = to;
        else
            p->lhs_contract[i - p->n_batch] = order[i], p->rhs_contract[i - p->n_batch] = to;
    }
}

static Plan plan_make(Maker *m, const Val *first)
{
    Plan p = {.dtype = draw_dtype(m->d)};
    if (first) {
        p.rank = first->type->rank;
        for (uint32_t i = 0; i < p.rank; i++)
            p.dim[i] = type_dim(first->type, i);
    } else {
        p.rank = draw_shape(m->d, p.dim, 4);
    }
    p.axis = draw_below(m->d, p.rank);
    p.batch = chance(m->d, 70) ? 0 : draw_below(m->d, p.rank);
    plan_moves(m->d, &p);
    plan_shape(m->d, &p);
    plan_windows(m->d, &p);
    plan_contraction(m->d, &p);
    p.relation = chance(m->d, 40) ? draw_below(m->d, RELATIONS) : RELATIONS;
    p.others = first && chance(m->d, 75) ? first->type->dtype : draw_dtype(m->d);
    return p;
}

/* ---- attributes ------------------------------------------------------------------------------------------------------------- */

static AttrVal draw_choice(Maker *m, const char *choices)
{
    uint32_t n = 1;
    for (const char *c = choices; *c; c++)
        n += *c == '|';
    uint32_t which = draw_below(m->d, n);
    while (which--)
        choices = strchr(choices, '|') + 1;
    return attr_str(m->ctx, str_intern_n(m->ctx, choices, strcspn(choices, "|")));
}

static const int64_t *ints_named(const Plan *p, AttrName name, uint32_t *n)
{
    *n = p->rank;
    switch (name) {
    case AN_perm: return p->perm;
    case AN_axes: return *n = p->n_axes, p->axes;
    case AN_step: return p->step;
    case AN_interior: return p->interior;
    case AN_window: return *n = p->n_spatial, p->window;
    case AN_stride: return *n = p->n_spatial, p->stride;
    case AN_pad_lo:
    case AN_pad_hi: return *n = p->n_spatial, p->pad;
    case AN_dilation: return *n = p->n_spatial, p->dilation;
    case AN_lhs_dilation: return *n = p->n_spatial, p->lhs_dilation;
    case AN_lhs_batch: return *n = p->n_batch, p->lhs_batch;
    case AN_rhs_batch: return *n = p->n_batch, p->rhs_batch;
    case AN_lhs_contract: return *n = p->n_contract, p->lhs_contract;
    case AN_rhs_contract: return *n = p->n_contract, p->rhs_contract;
    case AN_start: return p->start;
    case AN_size: return p->size;
    case AN_lo: return p->lo;
    case AN_hi: return p->hi;
    case AN_shape: return *n = p->shape_rank, p->shape;
    default: return p->dim;
    }
}

static AttrVal draw_attr(Maker *m, const Plan *p, const AttrSchema *schema)
{
    static const double factors[] = {1.0, 0.5, 0.01, 1e-5, 2.0, 0.25, 1.75};
    const Dim **dims = ARENA_ARRAY(m->b.module->arena, const Dim *, IR_MAX_RANK); /* outlives the call, as attr_dims wants */
    uint32_t n;
    const int64_t *ints = ints_named(p, schema->name, &n);
    switch (schema->kind) {
    case AK_INT:
        return attr_int(schema->name == AN_axis     ? p->axis
                        : schema->name == AN_batch  ? p->batch
                        : schema->name == AN_groups ? p->groups
                        : schema->name == AN_size   ? 1 + 2 * (int64_t)draw_below(m->d, 3)
                                                    : 1 + (int64_t)draw_below(m->d, 4));
    case AK_BOOL: return attr_bool(chance(m->d, 50));
    case AK_FLOAT: return attr_float(factors[draw_below(m->d, IG_COUNT(factors))]);
    case AK_DTYPE: return attr_dtype(p->dtype);
    case AK_INTS: return attr_ints(ints, n);
    case AK_DIM:
        return attr_dim(dim_const(m->ctx, p->rank ? draw_below(m->d, (uint32_t)p->dim[p->axis] + 1) : 1));
    case AK_DIMS:
        for (uint32_t i = 0; i < n; i++)
            dims[i] = dim_const(m->ctx, ints[i]);
        return attr_dims(dims, n);
    default: return draw_choice(m, schema->choices ? schema->choices : "");
    }
}

/* ---- operands ---------------------------------------------------------------------------------------------------------------- */

static Val *new_constant(Maker *m, const Type *type)
{
    uint64_t count = 0, bytes = 0;
    if (!type_count(type, &count) || !type_bytes(type, &bytes))
        return NULL;
    uint8_t *data = arena_alloc(m->module->arena, bytes + 16);
    for (uint64_t i = 0; i < count && dtype_bits(type->dtype) >= 8; i++)
        if (dtype_is_float(type->dtype))
            elem_set_f64(type->dtype, data, i, chance(m->d, 5) ? -0.0 : ((double)draw_below(m->d, 4096) - 2048) / 1024);
        else
            elem_set_s64(type->dtype, data, i, dtype_kind(type->dtype) == DK_BOOL ? draw_below(m->d, 2)
                                                                                 : (int64_t)draw_below(m->d, 9) - 2);
    return op_const_weight(&m->b, module_weight(m->module, "", type, data, true));
}

static Val *pool_add(Maker *m, Val *val)
{
    for (uint32_t i = 0; i < m->n_pool; i++)
        if (m->pool[i] == val)
            return val;
    if (m->n_pool < MAX_POOL)
        m->pool[m->n_pool++] = val;
    return val;
}

static Val *new_leaf(Maker *m, DType dtype, uint32_t rank, const int64_t *dim)
{
    if (count_of(dim, rank) > MAX_COUNT)
        return NULL;
    const Type *type = type_tensor_s64(m->ctx, dtype, rank, dim);
    if (!type)
        return NULL;
    bool plain = dtype_bits(dtype) >= 8 && dtype_kind(dtype) != DK_COMPLEX && dtype_kind(dtype) != DK_STRING;
    if (plain && (m->n_inputs >= 6 || chance(m->d, 35)))
        return new_constant(m, type);
    if (!plain || m->n_inputs >= 6)
        return NULL;
    Val *val = func_param(m->func, str_format(m->ctx, "x%u", m->n_inputs++), type);
    return pool_add(m, val);
}

/* A value of this type that there is already (half of the times), or a new one. */
static Val *leaf_like(Maker *m, DType dtype, uint32_t rank, const int64_t *dim)
{
    if (rank > IR_MAX_RANK)
        return NULL;
    const Type *type = type_tensor_s64(m->ctx, dtype, rank, dim);
    for (uint32_t i = m->n_pool; i-- > 0;)
        if (m->pool[i]->type == type && chance(m->d, 50))
            return m->pool[i];
    return new_leaf(m, dtype, rank, dim);
}

/* Operand i >= 1, related to the first in one of the ways that ops know. */
static Val *draw_operand(Maker *m, const Plan *p, const Val *first, uint32_t i)
{
    bool alike = p->relation < RELATIONS;
    DType same = first->type->dtype;
    DType dtype = alike ? p->others : chance(m->d, 75) ? same : chance(m->d, 50) ? DT_S64 : draw_dtype(m->d);
    int64_t dim[IR_MAX_RANK + 2];
    uint32_t rank = p->rank;
    memcpy(dim, p->dim, sizeof p->dim);
    switch (alike ? p->relation : draw_below(m->d, RELATIONS)) {
    case 0: /* equal */
        return leaf_like(m, dtype, rank, dim);
    case 1: /* some sizes 1 */
        for (uint32_t a = 0; a < rank; a++)
            dim[a] = chance(m->d, 50) ? 1 : dim[a];
        return leaf_like(m, dtype, rank, dim);
    case 2: /* per channel */
        dim[0] = rank > 1 ? p->dim[1] : 1;
        return leaf_like(m, dtype, 1, dim);
    case 3: return leaf_like(m, dtype, p->rhs_rank, p->rhs);
    case 4: /* filter */
        dim[0] = p->groups * (1 + (int64_t)draw_below(m->d, 4));
        dim[1] = rank > 1 ? p->dim[1] / p->groups : 1;
        for (uint32_t a = 2; a < rank; a++)
            dim[a] = p->window[a - p->spatial_from < p->n_spatial ? a - p->spatial_from : 0];
        return leaf_like(m, dtype, rank, dim);
    case 5: return leaf_like(m, dtype, 0, dim);
    case 6: /* indices of any shape behind shared batch axes */
        rank = draw_shape(m->d, dim + p->batch, 2) + (uint32_t)p->batch;
        memcpy(dim, p->dim, sizeof *dim * (size_t)p->batch);
        return leaf_like(m, chance(m->d, 80) ? DT_S64 : DT_S32, rank, dim);
    case 7: /* indices along one axis */
        if (rank)
            dim[p->axis] = draw_dim(m->d);
        return leaf_like(m, i == 1 ? DT_S64 : dtype, rank, dim);
    case 8: /* another length along the axis, or along one axis of the last two */
        if (rank)
            dim[chance(m->d, 50) ? (uint32_t)p->axis : rank - 1 - draw_below(m->d, rank > 1 ? 2 : 1)] = draw_dim(m->d);
        return leaf_like(m, dtype, rank, dim);
    default: return m->n_pool ? m->pool[draw_below(m->d, m->n_pool)] : NULL;
    }
}

/* ---- nodes ---------------------------------------------------------------------------------------------------------------------- */

static bool can_be_drawn(Op op)
{
    return op_info[op].kind != OK_CONTROL && op != OP_const; /* regions are ir_emit's; constants are operands */
}

static void draw_node(Maker *m, Op only)
{
    Op op = only != OP_COUNT && chance(m->d, 80) ? only : (Op)draw_below(m->d, OP_COUNT);
    if (!can_be_drawn(op))
        return;
    const OpInfo *info = &op_info[op];
    for (int try = 0; try < TRIES; try++) {
        Val *in[8];
        uint32_t n_in = (uint32_t)info->in_min, most = info->in_max < 0 ? 4 : (uint32_t)info->in_max;
        n_in += draw_below(m->d, most - n_in + 1);
        Val *first = NULL;
        int64_t dim[IR_MAX_RANK];
        if (n_in && chance(m->d, 25)) {
            uint32_t rank = draw_shape(m->d, dim, 5);
            first = new_leaf(m, draw_dtype(m->d), rank, dim);
        } else if (n_in && m->n_pool) {
            first = m->pool[draw_below(m->d, m->n_pool)];
        }
        if (n_in && !first)
            continue;
        Plan p = plan_make(m, first);
        bool complete = true;
        for (uint32_t i = 0; i < n_in; i++) {
            in[i] = i ? draw_operand(m, &p, first, i) : first;
            complete = complete && in[i];
        }
        if (!complete)
            continue;
        AttrVal attrs[IR_MAX_ATTRS];
        uint32_t n_attrs = 0;
        for (; info->attr[n_attrs].name != AN_NONE; n_attrs++)
            attrs[n_attrs] = draw_attr(m, &p, &info->attr[n_attrs]);
        Val *out = op_emit(&m->b, op, in, n_in, attrs, n_attrs);
        uint64_t count;
        if (!out)
            continue;
        if (out->type->kind == TY_TENSOR && type_count(out->type, &count) && count <= MAX_COUNT * 4)
            for (uint32_t i = 0; i < (out->def ? out->def->n_out : 1u); i++)
                pool_add(m, out->def ? ir_out(out->def, i) : out);
        return;
    }
}

bool draw_function(Module *module, Draw *d, uint32_t max_nodes, Op only)
{
    Context *ctx = module->ctx;
    Maker m = {.ctx = ctx, .module = module, .d = d};
    m.func = module_func(module, str_intern(ctx, "main"), true);
    m.b = ir_at_end(m.func->body, loc_text(ctx, str_intern(ctx, "drawn.ig"), 1, 1));
    int64_t dim[IR_MAX_RANK];
    for (uint32_t i = 0, n = 1 + draw_below(d, 2); i < n; i++) {
        uint32_t rank = draw_shape(d, dim, 4);
        new_leaf(&m, draw_dtype(d), rank, dim);
    }
    for (uint32_t i = 0, n = 1 + draw_below(d, max_nodes); i < n; i++) {
        m.b.loc = loc_text(ctx, str_intern(ctx, "drawn.ig"), i + 1, 1);
        draw_node(&m, only);
    }
    diag_clear(ctx);
    for (Node *node = m.func->body->first, *next; node; node = next) { /* constants of refused tries */
        next = node->next;
        if (node->op == OP_const && !node->out[0].uses)
            ir_erase(node);
    }
    Val *out[MAX_POOL];
    Str names[MAX_POOL];
    uint32_t n = 0;
    REGION_FOREACH(node, m.func->body)
        for (uint32_t i = 0; i < node->n_out; i++)
            if (!node->out[i].uses && node->op != OP_const && n < MAX_POOL) {
                out[n] = &node->out[i];
                names[n] = str_format(ctx, "y%u", n);
                n++;
            }
    func_yield(m.func, m.b.loc, out, names, n);
    return n > 0;
}
