/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowering of ops that are no folds and no maps: cumulate, argwindow, scatter_elements, scatter_nd, topk. Each gives the
 * statements of a whole kernel. Where one element depends on another, it does so through memory under sequential loops:
 * cumulate reads the prefix before, a scatter reads what earlier updates left, a merge reads two heads. Loops over
 * independent axes stand outside, so that they can be split between threads, or innermost along memory, for vectors.
 *
 *   cumulate  y[0] = x[0]; y[i+1] = y[i] op x[i+1]. Sums and products of f16 and bf16 keep an f32 accumulator (numerics.md).
 *   scatter   y = data; then in the order of the updates y[p] = y[p] op u, p clamped and checked.
 *   argwindow the best of the window as an exact fold, then the first tap that equals it.
 *   topk      a stable merge sort of each line's indices, bottom up, each pass a loop over the merged runs.
 */
#include "op/op_int.h"

#include <math.h>

/* ---- loops and values ---------------------------------------------------------------------------------------------- */

/* One loop for each axis; an axis of one element, in any run, takes none. */
typedef struct Axes {
    const Iter *iter[IR_MAX_RANK];
    const Expr *size[IR_MAX_RANK], *at[IR_MAX_RANK];
} Axes;

static void open_axis(Kernel *k, Axes *axes, uint32_t a, const Expr *size)
{
    bool lone = size->lo == 1 && size->hi == 1;
    axes->size[a] = size;
    axes->iter[a] = lone ? NULL : kernel_iter(k, "i", 0, size->hi > 1 ? size->hi - 1 : 0);
    axes->at[a] = lone ? lx_int(k, 0) : lx_iter(k, axes->iter[a]);
}

static void open_axis_of(const LowerArgs *args, Axes *axes, uint32_t a, const Type *type)
{
    open_axis(args->k, axes, a, lower_dim(args, type->dim[a]));
}

/* Loops over axes [from, to) around body, the first outermost. */
static Stmt *close_axes(Kernel *k, const Axes *axes, uint32_t from, uint32_t to, Stmt *body)
{
    for (uint32_t a = to; a-- > from && body;)
        if (axes->iter[a])
            body = ls_for(k, axes->iter[a], lx_int(k, 0), axes->size[a], 1, BIND_SEQ, body);
    return body;
}

static Stmt *only_if(Kernel *k, const Expr *cond, Stmt *body)
{
    return lx_is_true(cond) ? body : ls_if(k, cond, body, NULL);
}

static const Expr *unary(Kernel *k, Op op, DType dtype, const Expr *x) { return lx_map(k, op, dtype, &x, 1); }

static const Expr *binary(Kernel *k, Op op, DType dtype, const Expr *x, const Expr *y)
{
    return lx_map(k, op, dtype, (const Expr *const[]){x, y}, 2);
}

static const Expr *choose(Kernel *k, const Expr *cond, const Expr *x, const Expr *y)
{
    return lx_map(k, OP_select, x->dtype, (const Expr *const[]){cond, x, y}, 3);
}

static const Expr *s64(Kernel *k, int64_t value) { return lx_const(k, DT_S64, (uint64_t)value); }

/* A value computed here, before what follows is stored. */
static const Expr *let(Kernel *k, Stmt ***tail, const char *name, const Expr *value)
{
    Var *var = kernel_var(k, name, value->dtype);
    *tail = ls_append(*tail, ls_let(k, var, value));
    return lx_var(k, var);
}

static const Expr *load(LowerArgs *args, uint32_t in, const Expr *const *index) { return args->load(args->user, in, index); }

static bool is_empty(const Type *type)
{
    for (uint32_t a = 0; a < type->rank; a++)
        if (type_dim(type, a) == 0)
            return true;
    return false;
}

/* ---- cumulate ------------------------------------------------------------------------------------------------------ */

typedef struct Cumulate {
    LowerArgs *args;
    Op op;
    bool exact, reverse;
    uint32_t axis;
    const Expr *n;
    DType acc;
    Buf *y, *prefix; /* prefix: the accumulators of a line's last axis, or NULL where y itself holds them */
    Axes axes;
} Cumulate;

/* What the fold shows of no elements. */
static const Expr *identity(Kernel *k, Op op, DType dtype)
{
    if (op == OP_add || op == OP_mul)
        return lx_cast(k, s64(k, op == OP_mul), dtype);
    if (dtype_is_float(dtype))
        return lx_const_f64(k, dtype, op == OP_max ? -INFINITY : INFINITY);
    bool is_signed = dtype_kind(dtype) == DK_SINT;
    uint64_t ones = UINT64_MAX >> (64 - dtype_bits(dtype)), top = is_signed ? ones >> 1 : ones;
    return lx_const(k, dtype, op == OP_min ? top : ~top & ones);
}

/* Element p of the line, counted in the direction of the fold. */
static void line_index(const Cumulate *c, const Expr *p, const Expr **index)
{
    Kernel *k = c->args->k;
    for (uint32_t a = 0; a < c->y->rank; a++)
        index[a] = a != c->axis ? c->axes.at[a] : c->reverse ? lx_sub(k, lx_sub(k, c->n, lx_int(k, 1)), p) : p;
}

static const Expr *line_value(const Cumulate *c, const Expr *p)
{
    const Expr *index[IR_MAX_RANK];
    line_index(c, p, index);
    return lx_cast(c->args->k, load(c->args, 0, index), c->acc);
}

/* y[p] = acc, which the next element goes on from; a max or min that is zero shows +0. */
static void show(const Cumulate *c, Stmt ***tail, const Expr *p, const Expr *acc)
{
    Kernel *k = c->args->k;
    const Expr *index[IR_MAX_RANK];
    if (c->exact && dtype_is_float(c->acc)) {
        const Expr *zero = lx_const(k, c->acc, 0);
        acc = let(k, tail, "a", acc);
        acc = choose(k, binary(k, OP_eq, DT_BOOL, acc, zero), zero, acc);
    }
    if (c->prefix) {
        acc = let(k, tail, "a", acc);
        *tail = ls_append(*tail, ls_store(k, c->prefix, &c->axes.at[c->y->rank - 1], acc, NULL));
    }
    line_index(c, p, index);
    *tail = ls_append(*tail, ls_store(k, c->y, index, lx_cast(k, acc, c->y->dtype), NULL));
}

static const Expr *prefix_at(const Cumulate *c, const Expr *p)
{
    Kernel *k = c->args->k;
    const Expr *index[IR_MAX_RANK];
    if (c->prefix)
        return lx_load(k, c->prefix, &c->axes.at[c->y->rank - 1], NULL, NULL);
    line_index(c, p, index);
    return lx_load(k, c->y, index, NULL, NULL);
}

/* Around each of the line's statements: the innermost axis, if it is not the line itself. */
static Stmt *along_last(const Cumulate *c, Stmt *body)
{
    uint32_t rank = c->y->rank;
    return c->axis + 1 < rank ? close_axes(c->args->k, &c->axes, rank - 1, rank, body) : body;
}

/* The statements of a line, in order of the elements; shift: 1 where an element is not part of its own prefix. */
static Stmt *cumulate_line(Cumulate *c, int64_t shift)
{
    Kernel *k = c->args->k;
    Stmt *line = NULL, **end = &line, *body = NULL, **tail = &body;
    const Expr *left = lx_sub(k, c->n, lx_int(k, shift)); /* elements that have a prefix */
    if (shift) {
        const Expr *index[IR_MAX_RANK];
        line_index(c, lx_int(k, 0), index);
        end = ls_append(end, along_last(c, ls_store(k, c->y, index, identity(k, c->op, c->y->dtype), NULL)));
    }
    if (left->hi > 0) {
        show(c, &tail, lx_int(k, shift), line_value(c, lx_int(k, 0)));
        end = ls_append(end, only_if(k, lx_lt(k, lx_int(k, 0), left), along_last(c, body)));
    }
    if (left->hi > 1) {
        const Iter *iter = kernel_iter(k, "p", 0, left->hi - 2);
        const Expr *p = lx_iter(k, iter), *one = lx_int(k, 1), *to = lx_add(k, p, lx_int(k, shift));
        body = NULL;
        tail = &body;
        show(c, &tail, lx_add(k, to, one), binary(k, c->op, c->acc, prefix_at(c, to), line_value(c, lx_add(k, p, one))));
        ls_append(end, ls_for(k, iter, lx_int(k, 0), lx_sub(k, left, one), 1, BIND_SEQ, along_last(c, body)));
    }
    return line;
}

bool lower_cumulate(LowerArgs *args)
{
    static const struct {
        const char *kind;
        Op op;
    } ops[] = {{"sum", OP_add}, {"prod", OP_mul}, {"max", OP_max}, {"min", OP_min}};
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    const Type *type = lower_type(args, 0);
    uint32_t rank = type->rank;
    Cumulate c = {.args = args, .y = args->dst[0], .reverse = node_bool(args->node, AN_reverse)};
    c.axis = (uint32_t)node_int(args->node, AN_axis);
    c.n = lower_size(args, 0, c.axis);
    for (size_t i = 0; i < IG_COUNT(ops); i++)
        if (node_str_is(args->node, AN_kind, ops[i].kind))
            c.op = ops[i].op;
    c.exact = c.op == OP_max || c.op == OP_min;
    c.acc = c.exact ? type->dtype : lower_acc(type->dtype);
    for (uint32_t a = 0; a < rank; a++)
        open_axis(k, &c.axes, a, a == c.axis ? lx_int(k, 1) : lower_size(args, 0, a));
    if (c.acc != type->dtype)
        c.prefix = kernel_buf(k, str_intern(k->ctx, "prefix"), c.acc, BUF_LOCAL, 1, &c.axes.size[rank - 1]->hi);
    Stmt *line = cumulate_line(&c, node_bool(args->node, AN_exclusive));
    args->stmts = close_axes(k, &c.axes, 0, c.axis + 1 < rank ? rank - 1 : rank, line);
    return true;
}

/* ---- argwindow ----------------------------------------------------------------------------------------------------- */

typedef struct Taps {
    const Expr *position[IR_MAX_RANK]; /* in the operand, by axis; may be outside */
    const Expr *number;                /* of the tap in the window, row-major */
    const Expr *inside;                /* or NULL */
} Taps;

/* The taps of the window of element `out` at offsets `tap`. */
static Taps window_taps(LowerArgs *args, const Expr *const *out, const Expr *const *tap)
{
    Kernel *k = args->k;
    const Type *x = lower_type(args, 0);
    WindowAttrs w = op_window(args->node);
    Taps taps = {.number = lx_int(k, 0)};
    for (uint32_t a = 0; a < x->rank; a++) {
        const Expr *start = lx_sub(k, lx_mul(k, out[a], w.stride[a]), lx_int(k, w.lo[a]));
        const Expr *p = taps.position[a] = lx_add(k, start, lx_mul(k, tap[a], w.dilation[a]));
        taps.number = lx_add(k, lx_mul(k, taps.number, w.size[a]), tap[a]);
        taps.inside = lx_and(k, taps.inside,
                             lx_and(k, lx_le(k, lx_int(k, 0), p), lx_lt(k, p, lower_size(args, 0, a))));
    }
    if (taps.inside && lx_is_true(taps.inside))
        taps.inside = NULL;
    return taps;
}

/* A fold over all taps of the window of `out`; fresh axes each time. Its statement lacks kind, variable and operand. */
static Stmt *window_fold(LowerArgs *args, const Expr *const *out, Taps *taps)
{
    Kernel *k = args->k;
    const int64_t *window;
    uint32_t rank = node_ints(args->node, AN_window, &window);
    const Expr *tap[IR_MAX_RANK];
    Stmt *fold = ls_new(k, LS_FOLD);
    fold->u.fold.form = FORM_EXACT;
    for (uint32_t a = 0; a < rank; a++) {
        tap[a] = lx_int(k, 0);
        if (window[a] == 1)
            continue;
        if (fold->u.fold.n_axes == LOOP_MAX_FOLD_ITERS) {
            lower_fail(args, "its window has more than 8 axes");
            return NULL;
        }
        const Iter *iter = kernel_iter(k, "w", 0, window[a] - 1);
        fold->u.fold.axis[fold->u.fold.n_axes++] = (FoldAxis){.iter = iter, .extent = window[a]};
        tap[a] = lx_iter(k, iter);
    }
    *taps = window_taps(args, out, tap);
    fold->u.fold.guard = taps->inside;
    return fold;
}

/* The flat position behind the two leading axes: row-major, or the first of them fastest (ONNX MaxPool-12 storage_order). */
static const Expr *flat_position(LowerArgs *args, const Taps *taps)
{
    Kernel *k = args->k;
    const Type *x = lower_type(args, 0);
    bool column = node_str_is(args->node, AN_order, "column");
    const Expr *flat = lx_int(k, 0);
    for (uint32_t i = 2; i < x->rank; i++) {
        uint32_t a = column ? x->rank + 1 - i : i;
        flat = lx_add(k, lx_times(k, flat, lower_size(args, 0, a)), taps->position[a]);
    }
    return flat;
}

/* Exact: equal to any other way of finding the element. A NaN is the best of its window. A window without elements answers 0. */
bool lower_argwindow(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    const Type *x = lower_type(args, 0);
    const int64_t *window;
    int64_t n_taps = 1;
    Axes axes;
    Taps taps;
    Stmt *body = NULL, **tail = &body;
    node_ints(args->node, AN_window, &window);
    for (uint32_t a = 0; a < x->rank; a++) {
        n_taps *= window[a];
        open_axis_of(args, &axes, a, args->node->out[0].type);
    }
    Stmt *best = window_fold(args, axes.at, &taps);
    if (!best)
        return false;
    Var *value = kernel_var(k, "best", x->dtype), *first = kernel_var(k, "first", DT_S64);
    best->u.fold.kind = node_str_is(args->node, AN_kind, "max") ? FOLD_MAX : FOLD_MIN;
    best->u.fold.var = value;
    best->u.fold.a = load(args, 0, taps.position);
    tail = ls_append(tail, best);
    Stmt *where = window_fold(args, axes.at, &taps);
    const Expr *element = load(args, 0, taps.position), *hit = binary(k, OP_eq, DT_BOOL, element, lx_var(k, value));
    if (dtype_is_float(x->dtype))
        hit = choose(k, unary(k, OP_isnan, DT_BOOL, lx_var(k, value)), unary(k, OP_isnan, DT_BOOL, element), hit);
    where->u.fold.kind = FOLD_MIN;
    where->u.fold.var = first;
    where->u.fold.a = choose(k, hit, lx_cast(k, taps.number, DT_S64), s64(k, n_taps));
    tail = ls_append(tail, where);
    const Expr *some = binary(k, OP_lt, DT_BOOL, lx_var(k, first), s64(k, n_taps)), *tap[IR_MAX_RANK];
    const Expr *number = lx_index(k, binary(k, OP_min, DT_S64, lx_var(k, first), s64(k, n_taps - 1)), 0, n_taps - 1);
    for (uint32_t a = x->rank; a-- > 0; number = lx_div(k, number, window[a]))
        tap[a] = window[a] == 1 ? lx_int(k, 0) : lx_mod(k, number, window[a]);
    taps = window_taps(args, axes.at, tap);
    const Expr *flat = choose(k, some, lx_cast(k, flat_position(args, &taps), DT_S64), s64(k, 0));
    ls_append(tail, ls_store(k, args->dst[0], axes.at, flat, NULL));
    args->stmts = close_axes(k, &axes, 0, x->rank, body);
    return true;
}

/* ---- scatter ------------------------------------------------------------------------------------------------------- */

/* The value at `index` of operand 1 as a position on an axis: negative ones count from the end; checked, then clamped. */
static const Expr *scatter_position(LowerArgs *args, Stmt ***tail, const Expr *const *index, const Expr *size)
{
    Kernel *k = args->k;
    const Expr *zero = s64(k, 0), *end = lx_cast(k, size, DT_S64);
    const Expr *raw = let(k, tail, "p", lower_index_s64(k, load(args, 1, index)));
    const Expr *wrapped = binary(k, OP_add, DT_S64, raw, end);
    const Expr *at = let(k, tail, "p", choose(k, binary(k, OP_lt, DT_BOOL, raw, zero), wrapped, raw));
    Stmt *check = ls_new(k, LS_CHECK);
    check->u.check.cond =
        binary(k, OP_and, DT_BOOL, binary(k, OP_le, DT_BOOL, zero, at), binary(k, OP_lt, DT_BOOL, at, end));
    check->u.check.code = (uint64_t)args->node->id << 8 | OP_ERROR_INDEX;
    *tail = ls_append(*tail, check);
    const Expr *clamped = binary(k, OP_min, DT_S64, binary(k, OP_max, DT_S64, at, zero), s64(k, size->hi - 1));
    return lower_clamped(args, lx_index(k, let(k, tail, "p", clamped), 0, size->hi - 1), size);
}

/* y[to] = y[to] (combine) update, rounded to the dtype; where the guard (or NULL) holds. */
static Stmt *scatter_update(LowerArgs *args, const Expr *guard, const Expr *const *to, const Expr *const *from)
{
    static const struct {
        const char *name;
        Op op;
    } combine[] = {{"add", OP_add}, {"mul", OP_mul}, {"max", OP_max}, {"min", OP_min}};
    Kernel *k = args->k;
    Buf *y = args->dst[0];
    const Expr *value = load(args, 2, from);
    for (size_t i = 0; i < IG_COUNT(combine); i++)
        if (node_str_is(args->node, AN_combine, combine[i].name))
            value = binary(k, combine[i].op, y->dtype, lx_load(k, y, to, guard, guard ? lx_const(k, y->dtype, 0) : NULL), value);
    return ls_store(k, y, to, value, guard);
}

/* y = data over axes [from, rank), inside loops over the others. */
static Stmt *scatter_copy(LowerArgs *args, const Axes *outer, uint32_t from)
{
    Kernel *k = args->k;
    Buf *y = args->dst[0];
    Axes axes = *outer;
    for (uint32_t a = from; a < y->rank; a++)
        open_axis_of(args, &axes, a, lower_type(args, 0));
    return close_axes(k, &axes, from, y->rank, ls_store(k, y, axes.at, load(args, 0, axes.at), NULL));
}

/* Axes before `axis` on which the indices are as long as the data: one loop for the copy and the updates of a slice. */
bool lower_scatter_elements(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    const Type *data = lower_type(args, 0), *indices = lower_type(args, 1);
    uint32_t axis = (uint32_t)node_int(args->node, AN_axis), rank = data->rank, shared = 0;
    Axes axes;
    while (shared < axis && data->dim[shared] == indices->dim[shared]) {
        open_axis_of(args, &axes, shared, data);
        shared++;
    }
    Stmt *list = scatter_copy(args, &axes, shared), *body = NULL, **tail = &body;
    if (!is_empty(indices)) {
        const Expr *to[IR_MAX_RANK];
        for (uint32_t a = shared; a < rank; a++)
            open_axis_of(args, &axes, a, indices);
        for (uint32_t a = 0; a < rank; a++)
            to[a] = axes.at[a];
        if (!lower_within(args, axis))
            return false;
        to[axis] = scatter_position(args, &tail, axes.at, lower_size(args, 0, axis));
        ls_append(tail, scatter_update(args, lower_nonempty(args, NULL, data->dim[axis]), to, axes.at));
        ls_append(&list->next, close_axes(k, &axes, shared, rank, body));
    }
    args->stmts = close_axes(k, &axes, 0, shared, list);
    return true;
}

bool lower_scatter_nd(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    const Type *data = lower_type(args, 0), *indices = lower_type(args, 1), *updates = lower_type(args, 2);
    uint32_t outer = indices->rank - 1, length = (uint32_t)type_dim(indices, outer);
    Axes axes = {.at = {NULL}};
    args->stmts = scatter_copy(args, &axes, 0);
    if (is_empty(updates))
        return true;
    Stmt *body = NULL, **tail = &body;
    const Expr *at[IR_MAX_RANK], *to[IR_MAX_RANK], *guard = NULL;
    for (uint32_t a = 0; a < updates->rank; a++)
        open_axis_of(args, &axes, a, updates);
    for (uint32_t a = 0; a < outer; a++)
        at[a] = axes.at[a];
    for (uint32_t a = 0; a < data->rank; a++) {
        at[outer] = lx_int(k, a < length ? a : 0);
        guard = a < length ? lower_nonempty(args, guard, data->dim[a]) : guard;
        to[a] = a < length ? scatter_position(args, &tail, at, lower_size(args, 0, a)) : axes.at[outer + a - length];
    }
    ls_append(tail, close_axes(k, &axes, outer, updates->rank, scatter_update(args, guard, to, axes.at)));
    ls_append(&args->stmts->next, close_axes(k, &axes, 0, outer, body));
    return true;
}

/* ---- topk ---------------------------------------------------------------------------------------------------------- */

typedef struct Sort {
    LowerArgs *args;
    uint32_t axis;
    int64_t most;   /* elements of a line */
    const Expr *n;  /* those of this run */
    const Expr *keep;
    bool max;
    Axes axes;
    Buf *order[2]; /* the line's indices, from one to the other in each pass */
    Buf *head;     /* where the two runs of a merge stand */
} Sort;

static const Expr *line_element(const Sort *s, const Expr *i)
{
    Kernel *k = s->args->k;
    const Expr *index[IR_MAX_RANK], *at = lx_index(k, i, 0, s->most - 1);
    for (uint32_t a = 0; a < lower_type(s->args, 0)->rank; a++)
        index[a] = a != s->axis ? s->axes.at[a] : lx_is_int(s->n, NULL) ? at : lx_min(k, at, lx_sub(k, s->n, lx_int(k, 1)));
    return load(s->args, 0, index);
}

/* Whether y, of the right run, goes before x: strictly, for the left run holds the lower indices. NaN goes before all. */
static const Expr *right_first(const Sort *s, const Expr *x, const Expr *y)
{
    Kernel *k = s->args->k;
    const Expr *better = s->max ? binary(k, OP_lt, DT_BOOL, x, y) : binary(k, OP_lt, DT_BOOL, y, x);
    if (!dtype_is_float(x->dtype))
        return better;
    const Expr *nan = unary(k, OP_isnan, DT_BOOL, y), *not_x = unary(k, OP_not, DT_BOOL, unary(k, OP_isnan, DT_BOOL, x));
    return binary(k, OP_or, DT_BOOL, better, binary(k, OP_and, DT_BOOL, nan, not_x));
}

/* One step of a merge of the runs from lo to mid and from mid to hi: the better head goes to order[to][m]. Behind the end of a run
 * there may be nothing, so the head of an empty one reads the first element of all. */
static Stmt *merge_step(const Sort *s, int to, const Expr *m, const Expr *lo, const Expr *mid, const Expr *hi)
{
    Kernel *k = s->args->k;
    Stmt *body = NULL, **tail = &body;
    const Expr *head[2], *some[2], *index[2], *next[2], *one = s64(k, 1);
    for (int side = 0; side < 2; side++) {
        head[side] = let(k, &tail, "h", lx_load(k, s->head, (const Expr *const[]){lx_int(k, side)}, NULL, NULL));
        some[side] = binary(k, OP_lt, DT_BOOL, head[side], lx_cast(k, side ? hi : mid, DT_S64));
        const Expr *at = lx_index(k, choose(k, some[side], head[side], lx_cast(k, lo, DT_S64)), 0, s->most - 1);
        index[side] = let(k, &tail, "x", lx_load(k, s->order[!to], &at, NULL, NULL));
        next[side] = binary(k, OP_add, DT_S64, head[side], one);
    }
    const Expr *better = right_first(s, line_element(s, index[0]), line_element(s, index[1]));
    const Expr *right = binary(k, OP_and, DT_BOOL, some[1], binary(k, OP_or, DT_BOOL, unary(k, OP_not, DT_BOOL, some[0]), better));
    right = let(k, &tail, "right", right);
    tail = ls_append(tail, ls_store(k, s->order[to], &m, choose(k, right, index[1], index[0]), NULL));
    for (int side = 0; side < 2; side++) {
        const Expr *moved = side ? choose(k, right, next[1], head[1]) : choose(k, right, head[0], next[0]);
        tail = ls_append(tail, ls_store(k, s->head, (const Expr *const[]){lx_int(k, side)}, moved, NULL));
    }
    return body;
}

/* Merges all pairs of runs of `width` into order[to]; of each pair only what can be among the first `keep` of the line. */
static Stmt *merge_pass(const Sort *s, int to, int64_t width)
{
    Kernel *k = s->args->k;
    const Expr *most = lx_min(k, s->keep, lx_int(k, 2 * width));
    Axes pair;
    Stmt *body = NULL, **tail = &body;
    open_axis(k, &pair, 0, lx_div(k, lx_add(k, s->n, lx_int(k, 2 * width - 1)), 2 * width));
    const Expr *lo = lx_mul(k, pair.at[0], 2 * width);
    const Expr *mid = lx_min(k, lx_add(k, lo, lx_int(k, width)), s->n), *hi = lx_min(k, lx_add(k, lo, lx_int(k, 2 * width)), s->n);
    const Iter *m = kernel_iter(k, "m", 0, s->most - 1);
    for (int side = 0; side < 2; side++) {
        const Expr *start = lx_cast(k, side ? mid : lo, DT_S64);
        tail = ls_append(tail, ls_store(k, s->head, (const Expr *const[]){lx_int(k, side)}, start, NULL));
    }
    ls_append(tail, ls_for(k, m, lo, lx_min(k, hi, lx_add(k, lo, most)), 1, BIND_SEQ, merge_step(s, to, lx_iter(k, m), lo, mid, hi)));
    return close_axes(k, &pair, 0, 1, body);
}

/* values and indices (those that somebody reads) at the places of the sorted line. */
static Stmt *give(const Sort *s, const Axes *out, const Expr *value, const Expr *index)
{
    Stmt *body = NULL, **tail = &body;
    for (int i = 0; i < 2; i++)
        if (s->args->dst[i])
            tail = ls_append(tail, ls_store(s->args->k, s->args->dst[i], out->at, i ? index : value, NULL));
    return close_axes(s->args->k, out, s->axis, s->axis + 1, body);
}

/* The first `keep` of order[last]. */
static Stmt *give_sorted(const Sort *s, int last)
{
    Kernel *k = s->args->k;
    Axes out = s->axes;
    Stmt *body = NULL, **tail = &body;
    open_axis(k, &out, s->axis, lx_min(k, s->keep, s->n));
    const Expr *i = let(k, &tail, "x", lx_load(k, s->order[last], &out.at[s->axis], NULL, NULL));
    Axes line = out;
    line.iter[s->axis] = NULL; /* the loop goes around the load, too */
    ls_append(tail, give(s, &line, line_element(s, i), i));
    return close_axes(k, &out, s->axis, s->axis + 1, body);
}

/* A line that may be shorter than what is asked for: the run has an error then, and what is missing is 0. */
static Stmt *check_line(const Sort *s)
{
    Kernel *k = s->args->k;
    Axes out = s->axes;
    Stmt *check = ls_new(k, LS_CHECK);
    check->u.check.cond = lx_le(k, s->keep, s->n);
    check->u.check.code = (uint64_t)s->args->node->id << 8 | OP_ERROR_INDEX;
    if (lx_is_true(check->u.check.cond))
        return NULL;
    open_axis(k, &out, s->axis, s->keep);
    check->next = give(s, &out, lx_const(k, lower_type(s->args, 0)->dtype, 0), s64(k, 0));
    return check;
}

bool lower_topk(LowerArgs *args)
{
    if (!lower_ready(args))
        return false;
    Kernel *k = args->k;
    const Type *x = lower_type(args, 0);
    Sort s = {.args = args, .max = node_str_is(args->node, AN_kind, "max")};
    s.axis = (uint32_t)node_int(args->node, AN_axis);
    s.n = lower_size(args, 0, s.axis);
    s.most = s.n->hi;
    s.keep = lower_dim(args, args->node->out[0].type->dim[s.axis]);
    for (uint32_t a = 0; a < x->rank; a++)
        open_axis(k, &s.axes, a, a == s.axis ? lx_int(k, 1) : lower_size(args, 0, a));
    for (int i = 0; i < 2; i++)
        s.order[i] = kernel_buf(k, str_intern(k->ctx, "order"), DT_S64, BUF_LOCAL, 1, &s.most);
    s.head = kernel_buf(k, str_intern(k->ctx, "head"), DT_S64, BUF_LOCAL, 1, (const int64_t[]){2});
    Axes all;
    open_axis(k, &all, 0, s.n);
    Stmt *list = NULL, **tail = &list;
    Stmt *start = ls_store(k, s.order[0], all.at, lx_cast(k, all.at[0], DT_S64), NULL);
    tail = ls_append(tail, close_axes(k, &all, 0, 1, start));
    int last = 0;
    for (int64_t width = 1; width < s.most; width *= 2, last = !last)
        tail = ls_append(tail, merge_pass(&s, !last, width));
    ls_append(tail, give_sorted(&s, last));
    list = only_if(k, lx_lt(k, lx_int(k, 0), s.n), list);
    Stmt *before = check_line(&s);
    if (before)
        ls_append(&before->next->next, list);
    args->stmts = close_axes(k, &s.axes, 0, x->rank, before ? before : list);
    return true;
}
