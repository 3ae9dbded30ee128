/* SPDX-License-Identifier: Apache-2.0
 *
 * lower: the naive loop nest of each group. Row loops around a list of stages:
 *
 *   for rows {                                  one iterator per row axis (fuse.c)
 *     fold %m = max over j of x[row, j]         scalars of the row: folds without content, then MAPs on them
 *     for j { store %e[j] = exp(x[row,j]-m) }   content loops: contractions and whatever is computed in the same trip
 *     fold %s = sum over j of e[j]
 *     for j { store y[row, j] = e[j] * (1/s) }
 *   }
 *
 * Every node of the group has a level: a fold or contraction is one above what it reads, a MAP is at the level of what it reads.
 * Levels are emitted in order. A value with content that a higher level reads is kept in a local buffer of one row (staged) if
 * computing it again would cost a contraction or an elementary function; else it is recomputed from what it reads.
 * Everything that belongs to no group is inlined: value_at composes the index functions symbolically, and the expression
 * constructors reduce them to affine form.
 */
#include "sched/sched_int.h"

#include <string.h>

typedef struct Lower {
    Schedule *s;
    Group *g;
    Kernel *k;
    uint32_t rank, row_axes;
    const Expr *row[IR_MAX_RANK]; /* index on each row axis */
    Map *level;                   /* node id -> level + 1 */
    Map *staged;                  /* node id -> Buf: local, or the result's own */
    Map *var;                     /* node id -> Var: scalars of the row, and folds of the content loop being emitted */
    Map *bufs;                    /* Storage or Weight -> Buf */
    Intern *memo_keys;
    Map *memo; /* (value, index) -> Expr within one statement list */
    const Expr *mask; /* under which loads happen; NULL: always */
    /* lower_winograd: the conv, m, index of the tile's first output, and which of the outputs a content loop computes */
    const Node *winograd;
    Buf *products;
    const Expr *corner[2];
    int pixel, n_pixels;
    const Var *output[4]; /* of the conv, in a content loop */
    Stmt **tail;
    bool failed;
} Lower;

static const Expr *value_at(Lower *l, const Val *val, const Expr *const *index);

static void append(Lower *l, Stmt *stmt) { l->tail = ls_append(l->tail, stmt); }

static int level_of(const Lower *l, const Node *node) { return (int)(intptr_t)map_get(l->level, node->id) - 1; }

static bool is_mine(const Lower *l, const Node *node) { return node && sched_group_of(l->s, node) == l->g; }

static bool is_fold(const Node *node)
{
    OpKind kind = op_info[node->op].kind;
    return kind == OK_FOLD || kind == OK_CONTRACT || kind == OK_OPAQUE;
}

static bool is_one(const Type *type, uint32_t axis) { return type_dim(type, axis) == 1; }

/* Whether one row of the value may have more than one element. */
static bool has_content(const Lower *l, const Val *val)
{
    for (uint32_t i = 0; i < val->type->rank; i++)
        if (!(l->row_axes >> i & 1) && !is_one(val->type, i))
            return true;
    return false;
}

/* The size of an axis; types of nodes were looked at before. */
static const Expr *size_of(Lower *l, const Type *type, uint32_t axis)
{
    const Expr *size = lx_dim(l->k, type->dim[axis]);
    IG_CHECK(l->s->ctx, size);
    return size;
}

/* A loop over [0, size), or the index 0 where there is one element. */
typedef struct Counter {
    const Iter *iter; /* NULL: none */
    const Expr *size, *at;
} Counter;

static Counter count_to(Lower *l, const char *name, const Expr *size)
{
    Counter c = {.size = size, .at = lx_int(l->k, 0)};
    if (lx_is_int(size, NULL) && size->u.i <= 1)
        return c;
    c.iter = kernel_iter(l->k, name, 0, size->hi - 1);
    c.at = lx_iter(l->k, c.iter);
    return c;
}

static Stmt *loop_around(Lower *l, const Counter *c, Stmt *body)
{
    return c->iter ? ls_for(l->k, c->iter, lx_int(l->k, 0), c->size, 1, BIND_SEQ, body) : body;
}

/* ---- buffers ---------------------------------------------------------------------------------------------------------- */

static Buf *storage_buf(Lower *l, Storage *st)
{
    void **slot = map_slot(l->bufs, KEY(st));
    if (!*slot) {
        Buf *buf = kernel_buf(l->k, st->name, st->val->type->dtype, BUF_ARG, st->rank, st->dim);
        buf->elements = 1;
        for (uint32_t i = 0; i < st->rank; i++) {
            buf->stride[i] = st->stride[i];
            buf->elements += st->dim[i] > 0 ? (st->dim[i] - 1) * st->stride[i] : 0;
        }
        buf->val = st->val;
        if (st->kind != SLOT_WORKSPACE && !type_is_static(st->val->type)) {
            const Expr **size = ARENA_ARRAY(l->k->arena, const Expr *, st->rank + 1);
            for (uint32_t i = 0; i < st->rank; i++)
                size[i] = size_of(l, st->val->type, i);
            buf->size = size;
        }
        *slot = buf;
    }
    return *slot;
}

static Buf *weight_buf(Lower *l, Weight *weight)
{
    void **slot = map_slot(l->bufs, KEY(weight));
    if (!*slot) {
        int64_t dim[IR_MAX_RANK];
        for (uint32_t i = 0; i < weight->type->rank; i++)
            dim[i] = type_dim(weight->type, i);
        Buf *buf = kernel_buf(l->k, weight->name, weight->type->dtype, BUF_WEIGHT, weight->type->rank, dim);
        Pack *pack = ARENA_NEW(l->k->arena, Pack);
        pack->weight = weight;
        for (uint32_t i = 0; i < buf->rank; i++)
            pack->stride[i] = buf->stride[i];
        buf->pack = pack;
        *slot = buf;
    }
    return *slot;
}

/* A local buffer for the content of one row of val. */
static Buf *local_buf(Lower *l, const Val *val)
{
    int64_t dim[IR_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < val->type->rank; i++)
        if (!(l->row_axes >> i & 1))
            dim[n++] = type_bound(val->type, i);
    return kernel_buf(l->k, str_format(l->s->ctx, "row%u", val->id), val->type->dtype, BUF_LOCAL, n, dim);
}

static const Expr *load(Lower *l, Buf *buf, const Expr *const *index)
{
    const Expr *otherwise = l->mask ? lx_const(l->k, buf->dtype, 0) : NULL;
    return lx_load(l->k, buf, index, l->mask, otherwise);
}

static const Expr *staged_load(Lower *l, Buf *buf, const Val *val, const Expr *const *index)
{
    const Expr *content[IR_MAX_RANK];
    uint32_t n = 0;
    if (buf->space != BUF_LOCAL)
        return load(l, buf, index);
    for (uint32_t i = 0; i < val->type->rank; i++)
        if (!(l->row_axes >> i & 1))
            content[n++] = index[i];
    return load(l, buf, content);
}

static const Expr *zero_of(Lower *l, const Val *val) { return lx_const(l->k, val->type->dtype, 0); }

/* ---- value_at -------------------------------------------------------------------------------------------------------- */

static const Expr *const_at(Lower *l, Weight *weight, const Expr *const *index)
{
    uint64_t count = 0;
    if (type_count(weight->type, &count) && count == 1) {
        uint64_t bits = 0;
        memcpy(&bits, weight->data, (size_t)dtype_bits(weight->type->dtype) / 8);
        return lx_const(l->k, weight->type->dtype, bits);
    }
    return load(l, weight_buf(l, weight), index);
}

/* Index into an operand of an elementwise op: size-1 axes are stretched. */
static void stretch(Lower *l, const Val *operand, const Expr *const *index, const Expr **result)
{
    for (uint32_t i = 0; i < operand->type->rank; i++)
        result[i] = is_one(operand->type, i) ? lx_int(l->k, 0) : index[i];
}

typedef struct LoadUser {
    Lower *l;
    const Node *node;
} LoadUser;

static const Expr *load_operand(void *user, uint32_t in, const Expr *const *index)
{
    LoadUser *u = user;
    return value_at(u->l, ir_in(u->node, in), index);
}

static void add_check(void *user, const Expr *cond, uint64_t code)
{
    Lower *l = ((LoadUser *)user)->l;
    if (lx_is_true(cond))
        return;
    if (l->mask)
        cond = lx_or(l->k, lx_not(l->k, l->mask), cond);
    Stmt *stmt = ls_new(l->k, LS_CHECK);
    stmt->u.check.cond = cond;
    stmt->u.check.code = code;
    append(l, stmt);
}

static const Expr *inline_index(Lower *l, const Node *node, const Expr *const *index)
{
    LoadUser user = {l, node};
    LowerArgs args = {.k = l->k, .node = node, .out = index, .load = load_operand, .check = add_check, .user = &user};
    if (!op_defs[node->op].lower(&args)) {
        l->failed = true;
        return zero_of(l, &node->out[0]);
    }
    const Expr *outer = l->mask, *before = NULL, *guard[64];
    const Expr *value[64];
    uint32_t n = args.n_pieces;
    IG_CHECK(l->s->ctx, n > 0 && n <= IG_COUNT(value));
    for (uint32_t i = 0; i < n; i++) {
        guard[i] = args.piece[i].guard;
        l->mask = lx_and(l->k, outer, lx_and(l->k, before ? lx_not(l->k, before) : NULL, guard[i]));
        if (l->mask && lx_is_true(l->mask))
            l->mask = NULL;
        if (l->mask && lx_is_false(l->mask))
            value[i] = zero_of(l, &node->out[0]);
        else
            value[i] = value_at(l, ir_in(node, args.piece[i].in), args.piece[i].index);
        before = before ? (guard[i] ? lx_or(l->k, before, guard[i]) : before) : guard[i];
    }
    l->mask = outer;
    const Expr *result = guard[n - 1] ? zero_of(l, &node->out[0]) : value[n - 1];
    for (uint32_t i = guard[n - 1] ? n : n - 1; i-- > 0;) {
        if (!guard[i] || lx_is_true(guard[i])) {
            result = value[i];
        } else if (!lx_is_false(guard[i])) {
            const Expr *arg[3] = {guard[i], value[i], result};
            result = lx_map(l->k, OP_select, node->out[0].type->dtype, arg, 3);
        }
    }
    return result;
}

static const Expr *inline_map(Lower *l, const Node *node, const Expr *const *index)
{
    const Expr *arg[4], *at[IR_MAX_RANK];
    IG_CHECK(l->s->ctx, node->n_in <= IG_COUNT(arg));
    for (uint32_t i = 0; i < node->n_in; i++) {
        stretch(l, ir_in(node, i), index, at);
        arg[i] = value_at(l, ir_in(node, i), at);
    }
    LowerArgs args = {.k = l->k, .node = node, .out = index, .arg = arg};
    if (!op_defs[node->op].lower(&args)) {
        l->failed = true;
        return zero_of(l, &node->out[0]);
    }
    return args.value;
}

/* The trip of the loop that the counter belongs to, as an index into `size` elements. */
static const Expr *trip_index(Lower *l, const Val *counter, int64_t size)
{
    Buf *buf = storage_buf(l, sched_storage_of(l->s, counter));
    return lx_index(l->k, lx_load(l->k, buf, NULL, NULL, NULL), 0, size > 0 ? size - 1 : 0);
}

/* A region's parameter: what it stands for. */
static const Expr *param_at(Lower *l, const Val *origin, const Val *counter, const Expr *const *index)
{
    const Expr *element[IR_MAX_RANK];
    if (!counter)
        return value_at(l, origin, index);
    const Expr *size = size_of(l, origin->type, 0), *outer = l->mask;
    element[0] = trip_index(l, counter, size->hi);
    for (uint32_t i = 1; i < origin->type->rank; i++)
        element[i] = index[i - 1];
    if (size->lo >= 1) /* no trip goes behind the last element, but that cannot be proven of a word in memory */
        element[0] = lx_min(l->k, element[0], lx_add(l->k, size, lx_int(l->k, -1)));
    else
        l->mask = lx_and(l->k, outer, lx_lt(l->k, element[0], size));
    const Expr *value = value_at(l, origin, element);
    l->mask = outer;
    return value;
}

static const Expr *compute_at(Lower *l, const Val *val, const Expr *const *index)
{
    const Node *def = val->def;
    const Val *counter, *origin = control_origin(val, &counter);
    if (origin != val)
        return param_at(l, origin, counter, index);
    if (def && is_mine(l, def)) {
        const Var *var = map_get(l->var, def->id);
        if (var)
            return lx_var(l->k, var);
        Buf *buf = map_get(l->staged, def->id);
        if (buf)
            return staged_load(l, buf, val, index);
    } else {
        Storage *st = sched_storage_of(l->s, val);
        if (st)
            return load(l, storage_buf(l, st), index);
    }
    if (l->failed) /* what is missing was reported */
        return zero_of(l, val);
    IG_CHECK(l->s->ctx, def && !is_fold(def));
    switch (op_info[def->op].kind) { /* op-switch: by kind */
    case OK_MAP:
        return inline_map(l, def, index);
    case OK_INDEX:
        return inline_index(l, def, index);
    case OK_SOURCE: {
        Weight *weight = val_const(val);
        if (weight)
            return const_at(l, weight, index);
        LowerArgs args = {.k = l->k, .node = def, .out = index};
        if (op_defs[def->op].lower(&args))
            return args.value;
        l->failed = true;
        return zero_of(l, val);
    }
    default:
        ig_bug(l->s->ctx, "op '%s' has no element form", op_info[def->op].name);
    }
}

static const Expr *value_at(Lower *l, const Val *val, const Expr *const *index)
{
    const void *key[2 + IR_MAX_RANK] = {val, l->mask};
    for (uint32_t i = 0; i < val->type->rank; i++)
        key[2 + i] = index[i];
    const void *id = intern_bytes(l->memo_keys, key, (2 + val->type->rank) * sizeof key[0]);
    const Expr *known = map_get(l->memo, KEY(id));
    if (!known) {
        known = compute_at(l, val, index);
        map_set(l->memo, KEY(id), (void *)(uintptr_t)known);
    }
    return known;
}

/* ---- stages ------------------------------------------------------------------------------------------------------------ */

static void forget_values(Lower *l) { l->memo = map_create(l->k->arena); }

/* At its own level, computing the value takes a contraction's element or an elementary function. */
static bool costs_to_repeat(const Lower *l, const Node *node, int level)
{
    if (!is_mine(l, node) || level_of(l, node) != level)
        return false;
    if (is_fold(node))
        return has_content(l, &node->out[0]);
    if (op_info[node->op].traits & OT_COSTLY && has_content(l, &node->out[0]))
        return true;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i].val && costs_to_repeat(l, node->in[i].val->def, level))
            return true;
    return false;
}

static bool is_result(const Lower *l, const Val *val)
{
    for (uint32_t i = 0; i < l->g->results.len; i++)
        if (l->g->results.data[i] == val)
            return true;
    return false;
}

/* Read by a higher level: must be in memory by then. */
static bool must_stage(const Lower *l, const Node *node)
{
    const Val *val = &node->out[0];
    if (!has_content(l, val))
        return false;
    bool costly = costs_to_repeat(l, node, level_of(l, node));
    for (const Use *use = val->uses; use; use = use->next)
        if (is_mine(l, use->user) && level_of(l, use->user) > level_of(l, node) &&
            (costly || op_info[use->user->op].kind == OK_CONTRACT))
            return true;
    return false;
}

/* Stores the element at index: to the result's storage if it is one, else to its local row. */
static void store_value(Lower *l, const Node *node, const Expr *const *index, bool stage)
{
    const Val *val = &node->out[0];
    const Expr *value = value_at(l, val, index);
    if (is_result(l, val)) {
        Buf *buf = storage_buf(l, sched_storage_of(l->s, val));
        const Val *stack = control_stack(node);
        const Expr *element[IR_MAX_RANK];
        for (uint32_t i = 0; stack && i < val->type->rank; i++)
            element[1 + i] = index[i];
        if (stack)
            element[0] = trip_index(l, stack, buf->dim[0]);
        const Expr *inside = stack && buf->size ? lx_lt(l->k, element[0], buf->size[0]) : NULL; /* always true, see goes_on of rt */
        append(l, ls_store(l->k, buf, stack ? element : index, value, inside));
        if (stage)
            map_set(l->staged, node->id, buf);
    } else if (stage) {
        const Expr *content[IR_MAX_RANK];
        uint32_t n = 0;
        Buf *buf = local_buf(l, val);
        for (uint32_t i = 0; i < val->type->rank; i++)
            if (!(l->row_axes >> i & 1))
                content[n++] = index[i];
        append(l, ls_store(l->k, buf, content, value, NULL));
        map_set(l->staged, node->id, buf);
    }
}

/* ---- fold axes --------------------------------------------------------------------------------------------------------------------
 * A reshape between a value and its fold (flattened channels-last images) makes accesses of the form k/16, k/4 % 4, k % 4. Such an axis
 * is split into several: positions stay row-major over them, so the order of the fold stays, and accesses become linear. */

typedef struct Divisors {
    const Iter *iter;
    Map *seen;
    int64_t d[LOOP_MAX_FOLD_ITERS];
    uint32_t n;
} Divisors;

static void add_divisor(Divisors *v, int64_t d)
{
    for (uint32_t i = 0; i < v->n; i++)
        if (v->d[i] == d)
            return;
    if (v->n == IG_COUNT(v->d))
        return;
    uint32_t at = v->n++;
    for (; at > 0 && v->d[at - 1] > d; at--)
        v->d[at] = v->d[at - 1];
    v->d[at] = d;
}

static void find_divisors(Divisors *v, const Expr *e)
{
    if (!e || map_has(v->seen, KEY(e)) || !lx_uses_iter(e, v->iter))
        return;
    map_set(v->seen, KEY(e), v);
    const Expr *arg = e->n_args ? e->arg[0] : NULL;
    if (e->kind == LX_IDIV || e->kind == LX_IMOD) {
        if (arg->kind == LX_ITER)
            add_divisor(v, e->u.i);
        else if (e->kind == LX_IMOD && arg->kind == LX_IDIV && arg->arg[0]->kind == LX_ITER)
            add_divisor(v, arg->u.i * e->u.i);
    }
    for (uint32_t i = 0; i < e->n_args; i++)
        find_divisors(v, e->arg[i]);
}

static bool divisors_nest(const Divisors *v, int64_t extent)
{
    for (uint32_t i = 0; i < v->n; i++)
        if ((i + 1 < v->n ? v->d[i + 1] : extent) % v->d[i])
            return false;
    return v->n > 0;
}

static void split_axis(Kernel *k, Stmt *fold, uint32_t at, const Divisors *v)
{
    FoldAxis old = fold->u.fold.axis[at], part[LOOP_MAX_FOLD_ITERS];
    const Expr *position = lx_int(k, 0);
    uint32_t n = v->n + 1;
    for (uint32_t i = 0; i < n; i++) { /* outermost first */
        int64_t unit = i < v->n ? v->d[v->n - 1 - i] : 1, outer = i ? v->d[v->n - i] : old.extent;
        part[i] = (FoldAxis){kernel_iter(k, "k", 0, outer / unit - 1), outer / unit, NULL};
        position = lx_add(k, position, lx_mul(k, lx_iter(k, part[i].iter), unit));
    }
    for (uint32_t i = fold->u.fold.n_axes; i-- > at + 1;)
        fold->u.fold.axis[i + n - 1] = fold->u.fold.axis[i];
    for (uint32_t i = 0; i < n; i++)
        fold->u.fold.axis[at + i] = part[i];
    fold->u.fold.n_axes += n - 1;
    fold->u.fold.a = lx_replace_iter(k, fold->u.fold.a, old.iter, position);
    fold->u.fold.b = lx_replace_iter(k, fold->u.fold.b, old.iter, position);
    fold->u.fold.guard = lx_replace_iter(k, fold->u.fold.guard, old.iter, position);
}

static void split_axes(Kernel *k, Stmt *fold)
{
    for (uint32_t i = fold->u.fold.n_axes; i-- > 0;) {
        Divisors v = {.iter = fold->u.fold.axis[i].iter, .seen = map_create(k->arena)};
        find_divisors(&v, fold->u.fold.a);
        find_divisors(&v, fold->u.fold.b);
        if (!fold->u.fold.axis[i].size && divisors_nest(&v, fold->u.fold.axis[i].extent) &&
            fold->u.fold.n_axes + v.n <= LOOP_MAX_FOLD_ITERS)
            split_axis(k, fold, i, &v);
    }
}

/* An operand of a fold, widened to the type that the fold computes in. */
static const Expr *operand_at(Lower *l, const Node *node, uint32_t i, const FoldNest *nest)
{
    const Expr *value = value_at(l, ir_in(node, i), nest->index[i]);
    return value->dtype != nest->acc && nest->kind == FOLD_DOT ? lx_cast(l->k, value, nest->acc) : value;
}

/* Index checks of a fold's operands: once per position that is part of the fold, before it. */
static Stmt *checks_over_axes(Kernel *k, Stmt *checks, const FoldNest *nest)
{
    if (nest->guard && !lx_is_true(nest->guard))
        checks = ls_if(k, nest->guard, checks, NULL);
    for (uint32_t i = nest->n_axes; i-- > 0;) {
        if (!stmts_use_iter(checks, nest->axis[i].iter))
            continue;
        const Iter *iter = kernel_iter(k, "k", 0, nest->axis[i].extent - 1);
        const Expr *end = nest->axis[i].size ? nest->axis[i].size : lx_int(k, nest->axis[i].extent);
        checks = ls_replace_iter(k, checks, nest->axis[i].iter, lx_iter(k, iter));
        checks = ls_for(k, iter, lx_int(k, 0), end, 1, BIND_SEQ, checks);
    }
    return checks;
}

static void emit_winograd_outputs(Lower *l, const Expr *channel);

static void emit_fold(Lower *l, const Node *node, const Expr *const *index)
{
    if (node == l->winograd) {
        emit_winograd_outputs(l, index[1]);
        return;
    }
    LoadUser user = {l, node};
    LowerArgs args = {.k = l->k, .node = node, .out = index, .load = load_operand, .check = add_check, .user = &user};
    if (!op_defs[node->op].lower(&args)) {
        l->failed = true;
        return;
    }
    FoldNest *nest = &args.nest;
    Stmt *stmt = ls_new(l->k, LS_FOLD);
    Var *var = kernel_var(l->k, "f", nest->acc);
    stmt->u.fold.var = var;
    stmt->u.fold.kind = nest->kind;
    stmt->u.fold.form = nest->form;
    stmt->u.fold.kb = nest->kb;
    stmt->u.fold.n_axes = nest->n_axes;
    for (uint32_t i = 0; i < nest->n_axes; i++)
        stmt->u.fold.axis[i] = nest->axis[i];
    stmt->u.fold.guard = nest->guard && lx_is_true(nest->guard) ? NULL : nest->guard;
    Stmt *checks = NULL, **outer_tail = l->tail;
    l->tail = &checks;
    stmt->u.fold.a = operand_at(l, node, 0, nest);
    if (nest->n_operands == 2)
        stmt->u.fold.b = operand_at(l, node, 1, nest);
    l->tail = outer_tail;
    if (checks)
        append(l, checks_over_axes(l->k, checks, nest));
    split_axes(l->k, stmt);
    append(l, stmt);
    DType dtype = node->out[0].type->dtype;
    if (nest->acc != dtype) { /* a wider accumulator: the value of the node is rounded */
        Var *rounded = kernel_var(l->k, "r", dtype);
        append(l, ls_let(l->k, rounded, lx_cast(l->k, lx_var(l->k, var), dtype)));
        var = rounded;
    }
    map_set(l->var, node->id, var);
    forget_values(l);
}

/* Scalars of the row at one level: folds, then lets for MAPs that later levels read. */
static void emit_scalars(Lower *l, int level)
{
    for (uint32_t n = 0; n < l->g->nodes.len; n++) {
        const Node *node = l->g->nodes.data[n];
        if (level_of(l, node) != level || has_content(l, &node->out[0]))
            continue;
        const Expr *index[IR_MAX_RANK];
        for (uint32_t i = 0; i < l->rank; i++)
            index[i] = (l->row_axes >> i & 1) ? l->row[i] : lx_int(l->k, 0);
        if (is_fold(node)) {
            emit_fold(l, node, index);
        } else if (level > 0) {
            Var *var = kernel_var(l->k, "s", node->out[0].type->dtype);
            append(l, ls_let(l->k, var, value_at(l, &node->out[0], index)));
            map_set(l->var, node->id, var);
            forget_values(l);
        }
        if (is_result(l, &node->out[0]))
            store_value(l, node, index, false);
    }
}

static bool same_content(const Lower *l, const Val *a, const Val *b)
{
    for (uint32_t i = 0; i < l->rank; i++)
        if (!(l->row_axes >> i & 1) && a->type->dim[i] != b->type->dim[i])
            return false;
    return true;
}

/* Groups of a grouped convolution with several channels each: the channel loop is two loops, so that what depends on the group
 * and what depends on the channel in it stay apart. 1: none. */
static int64_t channel_groups(const Node *node)
{
    if (op_info[node->op].kind != OK_CONTRACT || !attrs_get((Op)node->op, node->attr, AN_groups))
        return 1;
    int64_t groups = node_int(node, AN_groups);
    return groups < type_dim(node->out[0].type, 1) ? groups : 1;
}

/* What is in a content loop: everything of the level whose content has the shape given, for one row. */
static void emit_content_body(Lower *l, int level, const Val *shape, int64_t groups, const Expr *const *index, Map *done)
{
    for (uint32_t n = 0; n < l->g->nodes.len; n++) { /* folds first: what follows may read several */
        const Node *node = l->g->nodes.data[n];
        if (level_of(l, node) == level && is_fold(node) && has_content(l, &node->out[0]) &&
            same_content(l, &node->out[0], shape) && channel_groups(node) == groups)
            emit_fold(l, node, index);
    }
    for (uint32_t n = 0; n < l->g->nodes.len; n++) {
        const Node *node = l->g->nodes.data[n];
        if (level_of(l, node) != level || !has_content(l, &node->out[0]) || !same_content(l, &node->out[0], shape) ||
            map_has(done, node->id))
            continue;
        map_set(done, node->id, l);
        store_value(l, node, index, must_stage(l, node));
    }
    for (uint32_t n = 0; n < l->g->nodes.len; n++) /* the folds' variables end with the loop */
        if (is_fold(l->g->nodes.data[n]) && has_content(l, &l->g->nodes.data[n]->out[0]))
            map_set(l->var, l->g->nodes.data[n]->id, NULL);
    forget_values(l);
}

static void set_pixel(Lower *l, int pixel)
{
    l->pixel = pixel;
    l->row[2] = lx_add(l->k, l->corner[0], lx_int(l->k, pixel / 2));
    l->row[3] = lx_add(l->k, l->corner[1], lx_int(l->k, pixel % 2));
}

/* One content loop: everything of this level whose content has the shape of `first`'s. done: nodes already emitted. */
static void emit_content_loop(Lower *l, int level, const Node *first, Map *done)
{
    const Expr *index[IR_MAX_RANK];
    Counter loop[IR_MAX_RANK + 1];
    uint32_t n_loops = 0;
    const Val *shape = &first->out[0];
    int64_t groups = channel_groups(first);
    for (uint32_t i = 0; i < l->rank; i++) {
        if (l->row_axes >> i & 1) {
            index[i] = l->row[i];
        } else if (groups > 1) {
            int64_t size = type_dim(shape->type, i) / groups;
            loop[n_loops] = count_to(l, "g", lx_int(l->k, groups));
            loop[n_loops + 1] = count_to(l, "c", lx_int(l->k, size));
            index[i] = lx_add(l->k, lx_mul(l->k, loop[n_loops].at, size), loop[n_loops + 1].at);
            n_loops += 2;
        } else {
            loop[n_loops] = count_to(l, "c", size_of(l, shape->type, i));
            index[i] = loop[n_loops++].at;
        }
    }
    Stmt *body = NULL, **outer_tail = l->tail;
    l->tail = &body;
    forget_values(l);
    emit_content_body(l, level, shape, groups, index, l->n_pixels > 1 ? map_create(l->k->arena) : done);
    for (int pixel = 1; pixel < l->n_pixels; pixel++) {
        set_pixel(l, pixel);
        index[2] = l->row[2];
        index[3] = l->row[3];
        emit_content_body(l, level, shape, groups, index, pixel + 1 < l->n_pixels ? map_create(l->k->arena) : done);
    }
    for (uint32_t i = n_loops; i-- > 0;)
        body = loop_around(l, &loop[i], body);
    l->tail = outer_tail;
    if (body)
        append(l, body);
}

static void emit_content(Lower *l, int level)
{
    Map *done = map_create(l->k->arena);
    for (uint32_t n = 0; n < l->g->nodes.len; n++) {
        const Node *node = l->g->nodes.data[n];
        if (level_of(l, node) != level || !has_content(l, &node->out[0]) || map_has(done, node->id))
            continue;
        if (is_fold(node) || is_result(l, &node->out[0]) || must_stage(l, node))
            emit_content_loop(l, level, node, done);
    }
}

/* The value comes out of a fold in a content loop of this level. */
static bool made_by_content_fold(const Lower *l, const Node *node, int level)
{
    if (!is_mine(l, node) || level_of(l, node) != level || !has_content(l, &node->out[0]))
        return false;
    if (is_fold(node))
        return true;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i].val && made_by_content_fold(l, node->in[i].val->def, level))
            return true;
    return false;
}

/* A value that comes out of a content loop is in memory for loops of another shape, so these are of the next level. */
static int level_after(const Lower *l, const Node *node, const Val *in)
{
    int level = level_of(l, in->def);
    return level + (!is_fold(node) && !same_content(l, &node->out[0], in) && made_by_content_fold(l, in->def, level));
}

static int assign_levels(Lower *l)
{
    int highest = 0;
    for (uint32_t n = 0; n < l->g->nodes.len; n++) {
        const Node *node = l->g->nodes.data[n];
        int level = 0;
        for (uint32_t i = 0; i < node->n_in; i++) {
            const Val *in = node->in[i].val;
            if (in && is_mine(l, in->def) && level_after(l, node, in) > level)
                level = level_after(l, node, in);
        }
        level += is_fold(node);
        map_set(l->level, node->id, (void *)(intptr_t)(level + 1));
        highest = level > highest ? level : highest;
    }
    return highest;
}

/* Row loops around the stages. */
static void lower_rows(Lower *l)
{
    const Node *anchor = l->g->nodes.data[0];
    const Type *type = anchor->out[0].type;
    Counter row[IR_MAX_RANK] = {{0}};
    l->rank = type->rank;
    l->row_axes = group_row_axes(anchor);
    Stmt *body = NULL;
    for (uint32_t i = 0; i < l->rank; i++) {
        if (!(l->row_axes >> i & 1))
            continue;
        row[i] = count_to(l, "i", size_of(l, type, i));
        l->row[i] = row[i].at;
    }
    l->tail = &body;
    int highest = assign_levels(l);
    for (int level = 0; level <= highest && !l->failed; level++) {
        emit_scalars(l, level);
        emit_content(l, level);
    }
    for (uint32_t i = l->rank; i-- > 0;)
        body = loop_around(l, &row[i], body);
    l->k->body = body;
}

/* ---- convolutions of class wino2 --------------------------------------------------------------------------------------------
 * The rows are tiles of 2x2 outputs. Each has three stages with local buffers between:
 *
 *   for t {
 *     for c { d = 4x4 inputs; store v[p, c] = (B^T d B)[p] }                    p: 0 .. 15
 *     for p { for c { fold f = dot over ic of v[p, ic] * u[p, ic, c]; store m[p, c] = f } }
 *     for each of 4 pixels: if it exists { what lower_rows emits, the conv's element being (A^T m A)[pixel] }     in one loop
 *                                                                                       over c, if all pixels exist everywhere
 *   }
 *
 * u = G g G^T is constant data if the filters are (Pack), else local and computed first. */

static const Expr *let_value(void *user, const Expr *value)
{
    Lower *l = user;
    Var *var = kernel_var(l->k, "w", value->dtype);
    append(l, ls_let(l->k, var, value));
    return lx_var(l->k, var);
}

static Stmt *loop_over(Kernel *k, const Iter *iter, int64_t extent, Stmt *body)
{
    return ls_for(k, iter, lx_int(k, 0), lx_int(k, extent), 1, BIND_SEQ, body);
}

static void store_products(Lower *l, Buf *buf, const Expr *const *value, const Expr *const *rest)
{
    const Expr *index[LOOP_MAX_RANK];
    for (uint32_t i = 1; i < buf->rank; i++)
        index[i] = rest[i - 1];
    for (int p = 0; p < WINO2_PRODUCTS; p++) {
        index[0] = lx_int(l->k, p);
        append(l, ls_store(l->k, buf, index, value[p], NULL));
    }
}

/* u of filters that are no constant: loops before all others. */
static void emit_winograd_filters(Lower *l, Buf *u, int64_t ic, int64_t oc)
{
    Kernel *k = l->k;
    const Iter *in = kernel_iter(k, "k", 0, ic - 1), *out = kernel_iter(k, "c", 0, oc - 1);
    const Expr *rest[] = {lx_iter(k, in), lx_iter(k, out)}, *g[9], *value[WINO2_PRODUCTS];
    Stmt *body = NULL, **outer_tail = l->tail;
    bool flip = node_bool(l->winograd, AN_flip);
    l->tail = &body;
    for (int i = 0; i < 9; i++) {
        int tap = flip ? 8 - i : i;
        const Expr *index[] = {rest[1], rest[0], lx_int(k, tap / 3), lx_int(k, tap % 3)};
        g[i] = let_value(l, lx_cast(k, value_at(l, ir_in(l->winograd, 1), index), DT_F64));
    }
    wino2_filter(k, g, value, let_value, l);
    for (int p = 0; p < WINO2_PRODUCTS; p++)
        value[p] = lx_cast(k, value[p], DT_F32);
    store_products(l, u, value, rest);
    l->tail = outer_tail;
    append(l, loop_over(k, in, ic, loop_over(k, out, oc, body)));
    forget_values(l);
}

static Buf *winograd_filters(Lower *l, int64_t ic, int64_t oc)
{
    const int64_t dim[] = {WINO2_PRODUCTS, ic, oc};
    Weight *weight = val_const(ir_in(l->winograd, 1));
    Buf *u = kernel_buf(l->k, str_intern(l->s->ctx, "u"), DT_F32, weight ? BUF_WEIGHT : BUF_LOCAL, 3, dim);
    if (!weight) {
        emit_winograd_filters(l, u, ic, oc);
        return u;
    }
    Pack *pack = ARENA_NEW(l->k->arena, Pack);
    pack->weight = weight;
    pack->winograd = node_bool(l->winograd, AN_flip) ? WINOGRAD_FLIPPED : WINOGRAD;
    for (uint32_t i = 0; i < u->rank; i++)
        pack->stride[i] = u->stride[i];
    u->pack = pack;
    return u;
}

/* Whether the position lies in an image of val's. What is sure becomes true by itself. */
static const Expr *in_image(Lower *l, const Val *val, const Expr *n, const Expr *row, const Expr *column)
{
    const Expr *at[] = {n, row, column}, *all = NULL;
    for (uint32_t a = 0; a < 3; a++) {
        all = lx_and(l->k, all, lx_le(l->k, lx_int(l->k, 0), at[a]));
        all = lx_and(l->k, all, lx_lt(l->k, at[a], size_of(l, val->type, a ? a + 1 : 0)));
    }
    return all;
}

static void emit_winograd_input(Lower *l, Buf *v, int64_t ic)
{
    Kernel *k = l->k;
    const Val *x = ir_in(l->winograd, 0);
    const Iter *c = kernel_iter(k, "c", 0, ic - 1);
    const Expr *channel = lx_iter(k, c), *d[WINO2_PRODUCTS], *value[WINO2_PRODUCTS];
    const int64_t *pad;
    Stmt *body = NULL, **outer_tail = l->tail;
    node_ints(l->winograd, AN_pad_lo, &pad);
    l->tail = &body;
    for (int i = 0; i < WINO2_PRODUCTS; i++) {
        const Expr *index[] = {l->row[0], channel, lx_add(k, l->corner[0], lx_int(k, i / 4 - pad[0])),
                               lx_add(k, l->corner[1], lx_int(k, i % 4 - pad[1]))};
        const Expr *inside = in_image(l, x, index[0], index[2], index[3]);
        l->mask = lx_is_true(inside) ? NULL : inside;
        const Expr *at = value_at(l, x, index);
        if (l->mask && at->kind != LX_LOAD) /* a masked load gives zero by itself */
            at = lx_map(k, OP_select, DT_F32, (const Expr *[]){inside, at, zero_of(l, x)}, 3);
        l->mask = NULL;
        d[i] = let_value(l, at);
    }
    wino2_input(k, d, value, let_value, l);
    store_products(l, v, value, &channel);
    l->tail = outer_tail;
    append(l, loop_over(k, c, ic, body));
    forget_values(l);
}

static void emit_winograd_products(Lower *l, Buf *v, Buf *u, int64_t ic, int64_t oc)
{
    enum { KB = 512 };
    Kernel *k = l->k;
    const Iter *p = kernel_iter(k, "p", 0, WINO2_PRODUCTS - 1), *c = kernel_iter(k, "c", 0, oc - 1), *in = kernel_iter(k, "k", 0, ic - 1);
    const Expr *to[] = {lx_iter(k, p), lx_iter(k, c)}, *a[] = {to[0], lx_iter(k, in)}, *b[] = {to[0], a[1], to[1]};
    Stmt *fold = ls_new(k, LS_FOLD);
    Var *var = kernel_var(k, "f", DT_F32);
    fold->u.fold.var = var;
    fold->u.fold.kind = FOLD_DOT;
    fold->u.fold.form = FORM_CHAIN;
    fold->u.fold.kb = KB;
    fold->u.fold.n_axes = 1;
    fold->u.fold.axis[0] = (FoldAxis){in, ic, NULL};
    fold->u.fold.a = lx_load(k, v, a, NULL, NULL);
    fold->u.fold.b = lx_load(k, u, b, NULL, NULL);
    fold->next = ls_store(k, l->products, to, lx_var(k, var), NULL);
    append(l, loop_over(k, p, WINO2_PRODUCTS, loop_over(k, c, oc, fold)));
}

/* The conv's value at this pixel; the first one of a content loop names those of all. */
static void emit_winograd_outputs(Lower *l, const Expr *channel)
{
    const Expr *m[WINO2_PRODUCTS], *y[4];
    if (l->pixel == 0 || l->n_pixels == 1) {
        for (int p = 0; p < WINO2_PRODUCTS; p++)
            m[p] = lx_load(l->k, l->products, (const Expr *[]){lx_int(l->k, p), channel}, NULL, NULL);
        wino2_output(l->k, m, y);
        for (int i = l->pixel; i < l->pixel + l->n_pixels; i++) {
            Var *var = kernel_var(l->k, "f", DT_F32);
            append(l, ls_let(l->k, var, y[i]));
            l->output[i] = var;
        }
    }
    map_set(l->var, l->winograd->id, (void *)(uintptr_t)l->output[l->pixel]);
    forget_values(l);
}

/* The group's results at n_pixels pixels of the tile from `pixel` on; the image may lack a lone one. */
static void emit_winograd_pixels(Lower *l, int highest, int pixel)
{
    Kernel *k = l->k;
    set_pixel(l, pixel);
    const Expr *exists = l->n_pixels > 1 ? NULL : in_image(l, &l->winograd->out[0], l->row[0], l->row[2], l->row[3]);
    Stmt *body = NULL, **outer_tail = l->tail;
    l->tail = &body;
    for (int level = 0; level <= highest && !l->failed; level++) {
        emit_scalars(l, level);
        emit_content(l, level);
    }
    l->tail = outer_tail;
    if (exists && !lx_is_true(exists))
        body = ls_if(k, exists, body, NULL);
    append(l, body);
}

/* Whether every node of the group has the conv's content, so that one loop can compute it for several pixels. */
static bool content_is_alike(const Lower *l)
{
    for (uint32_t n = 0; n < l->g->nodes.len; n++)
        if (!same_content(l, &l->g->nodes.data[n]->out[0], &l->winograd->out[0]))
            return false;
    return true;
}

/* Tiles of 2 outputs along an axis. */
static const Expr *tiles_along(Lower *l, const Type *type, uint32_t axis)
{
    const Expr *tiles = lx_div(l->k, lx_add(l->k, size_of(l, type, axis), lx_int(l->k, 1)), 2);
    return lx_max(l->k, tiles, lx_int(l->k, 1)); /* a divisor */
}

static bool is_even(const Type *type, uint32_t axis)
{
    int64_t size;
    return dim_is_const(type->dim[axis], &size) && size % 2 == 0;
}

static void lower_winograd(Lower *l)
{
    Kernel *k = l->k;
    const Node *conv = l->g->nodes.data[0];
    const Type *type = conv->out[0].type;
    int64_t oc = type_dim(type, 1), ic = type_dim(ir_in(conv, 1)->type, 1);
    const Expr *down = tiles_along(l, type, 2), *across = tiles_along(l, type, 3), *image = lx_times(k, down, across);
    const Expr *tiles = lx_times(k, size_of(l, type, 0), image);
    const Iter *t = kernel_iter(k, "t", 0, tiles->hi - 1);
    const Expr *tile = lx_iter(k, t);
    Stmt *body = NULL;
    l->winograd = conv;
    l->rank = type->rank;
    l->row_axes = group_row_axes(conv);
    l->row[0] = lx_quotient(k, tile, image);
    l->corner[0] = lx_mul(k, lx_remainder(k, lx_quotient(k, tile, across), down), 2);
    l->corner[1] = lx_mul(k, lx_remainder(k, tile, across), 2);
    int highest = assign_levels(l);
    l->tail = &k->body;
    Buf *u = winograd_filters(l, ic, oc);
    Buf *v = kernel_buf(k, str_intern(l->s->ctx, "v"), DT_F32, BUF_LOCAL, 2, (int64_t[]){WINO2_PRODUCTS, ic});
    l->products = kernel_buf(k, str_intern(l->s->ctx, "m"), DT_F32, BUF_LOCAL, 2, (int64_t[]){WINO2_PRODUCTS, oc});
    Stmt **top = l->tail;
    l->tail = &body;
    emit_winograd_input(l, v, ic);
    emit_winograd_products(l, v, u, ic, oc);
    bool whole = dim_is_const(type->dim[0], NULL) && is_even(type, 2) && is_even(type, 3) && content_is_alike(l);
    l->n_pixels = whole ? 4 : 1;
    for (int pixel = 0; pixel < 4; pixel += l->n_pixels)
        emit_winograd_pixels(l, highest, pixel);
    ls_append(top, ls_for(k, t, lx_int(k, 0), tiles, 1, BIND_SEQ, body));
}

/* By rows, or as Winograd's tiles; where the sizes of the run decide, both. */
static void lower_by_class(Lower *l)
{
    Kernel *k = l->k;
    const Node *anchor = l->g->nodes.data[0];
    Tri winograd = op_is_wino2(anchor);
    if (winograd != TRI_YES)
        lower_rows(l);
    if (winograd == TRI_NO || l->failed)
        return;
    Stmt *rows = k->body;
    k->body = NULL;
    l->level = map_create(k->arena);
    l->staged = map_create(k->arena);
    l->var = map_create(k->arena);
    forget_values(l);
    lower_winograd(l);
    if (winograd == TRI_YES)
        return;
    const Expr *large = NULL;
    for (uint32_t a = 2; a < 4; a++)
        large = lx_and(k, large, lx_le(k, lx_int(k, WINO2_MIN_SIZE), size_of(l, anchor->out[0].type, a)));
    k->body = ls_if(k, large, k->body, rows);
}

/* concat into memory: one nest per operand, each writing its part, unless that was computed there (views.c). */
static void concat_operands(Lower *l)
{
    const Node *node = l->g->nodes.data[0];
    uint32_t axis = (uint32_t)node_int(node, AN_axis);
    Storage *whole = sched_storage_of(l->s, &node->out[0]);
    Buf *out = storage_buf(l, whole);
    const Expr *offset = lx_int(l->k, 0);
    Stmt **outer = &l->k->body;
    for (uint32_t n = 0; n < node->n_in; n++) {
        const Val *in = ir_in(node, n);
        const Expr *from[IR_MAX_RANK], *to[IR_MAX_RANK];
        Counter loop[IR_MAX_RANK];
        uint64_t count = 0;
        bool there = lx_is_int(offset, NULL) &&
                     storage_is_view_at(sched_storage_of(l->s, in), whole, offset->u.i * whole->stride[axis]);
        if (!there && type_count_bound(in->type, &count) && count > 0) {
            for (uint32_t i = 0; i < in->type->rank; i++) {
                loop[i] = count_to(l, "i", size_of(l, in->type, i));
                from[i] = loop[i].at;
                to[i] = i == axis ? lx_add(l->k, from[i], offset) : from[i];
            }
            Stmt *body = NULL;
            l->tail = &body;
            forget_values(l);
            append(l, ls_store(l->k, out, to, value_at(l, in, from), NULL));
            for (uint32_t i = in->type->rank; i-- > 0;)
                body = loop_around(l, &loop[i], body);
            outer = ls_append(outer, body);
        }
        offset = lx_add(l->k, offset, size_of(l, in->type, axis));
    }
}

/* The op gives the statements itself; its operands are in memory or constant. */
static void lower_opaque(Lower *l)
{
    const Node *node = l->g->nodes.data[0];
    LoadUser user = {l, node};
    Buf **dst = ARENA_ARRAY(l->k->arena, Buf *, node->n_out);
    Stmt *checks = NULL;
    l->tail = &checks;
    for (uint32_t i = 0; i < node->n_out; i++)
        dst[i] = is_result(l, &node->out[i]) ? storage_buf(l, sched_storage_of(l->s, &node->out[i])) : NULL;
    LowerArgs args = {.k = l->k, .node = node, .load = load_operand, .user = &user, .dst = dst};
    l->failed = !op_defs[node->op].lower(&args) || l->failed;
    IG_CHECK(l->s->ctx, !checks);
    l->k->body = args.stmts;
}

static bool writes_nothing(const Group *g)
{
    for (uint32_t i = 0; i < g->results.len; i++) {
        uint64_t count = 0;
        if (!type_count_bound(g->results.data[i]->type, &count) || count > 0)
            return false;
    }
    return true;
}

static bool lower_group(Schedule *s, Group *g)
{
    Arena *arena = s->arena;
    Kernel *k = kernel_create(s->ctx, arena, g->name);
    Lower l = {.s = s, .g = g, .k = k, .level = map_create(arena), .staged = map_create(arena), .var = map_create(arena),
               .bufs = map_create(arena), .memo_keys = intern_create(arena), .memo = map_create(arena)};
    Loc *locs = ARENA_ARRAY(arena, Loc, g->nodes.len);
    for (uint32_t i = 0; i < g->nodes.len; i++)
        locs[i] = g->nodes.data[i]->loc;
    k->loc = g->nodes.len == 1 ? locs[0] : loc_fused(s->ctx, locs, g->nodes.len);
    g->kernel = k;
    kernel_sizes(k, s->syms, s->n_syms);
    bool opaque = op_info[g->nodes.data[0]->op].kind == OK_OPAQUE;
    for (uint32_t i = 0; i < g->nodes.len && !opaque; i++)
        if (op_info[g->nodes.data[i]->op].kind == OK_CONTROL || g->nodes.data[i]->n_out != 1) {
            LowerArgs args = {.k = k, .node = g->nodes.data[i]};
            if (op_defs[g->nodes.data[i]->op].lower(&args)) /* reports what is not compiled */
                ig_bug(s->ctx, "op '%s' has no loop nest", op_info[g->nodes.data[i]->op].name);
            return false;
        }
    if (writes_nothing(g))
        return true;
    for (uint32_t i = 0; i < g->nodes.len && k->sizes; i++)
        if (!lower_ready(&(LowerArgs){.k = k, .node = g->nodes.data[i]}))
            return false;
    if (opaque)
        lower_opaque(&l);
    else if (sched_is_concat(g->nodes.data[0]))
        concat_operands(&l);
    else
        lower_by_class(&l);
    return !l.failed;
}

bool pass_lower(PassCtx *pc, Unit *unit)
{
    Schedule *s = unit->schedule;
    if (!s->groups.len && !s->steps.len)
        sched_make_groups(s, pc->options, false);
    for (uint32_t i = 0; i < s->groups.len; i++)
        lower_group(s, s->groups.data[i]); /* reports; every group is tried, so that all unsupported nodes are named */
    return true;
}
