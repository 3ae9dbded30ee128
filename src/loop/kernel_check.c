/* SPDX-License-Identifier: Apache-2.0
 *
 * The verifier of kernels. It walks the statements with what is in scope (iterators, variables, tiles) and what holds
 * there (conditions, guards, masks, loop bounds), and checks
 *  - that every name is bound where it is used, and by one statement at a time;
 *  - that every operand has the type its place wants, and every fold a form its kind and type allow;
 *  - that loops keep to the declared ranges of their iterators, which the simplifier relied on;
 *  - that every access lies in its buffer: proven from ranges and facts (prove.c), or under a mask of its own;
 *  - that under a par or vec loop no iteration can depend on another: what it stores, and what it loads from stored
 *    buffers, moves with the loop's iterator (a par loop's locals are its own);
 *  - the operand rules of register tiles.
 * Code that never runs (an axis of size 0) may access anything.
 */
#include "loop/loop_int.h"

#include <string.h>

typedef enum VarState { VAR_UNBOUND, VAR_VALUE, VAR_TILE, VAR_ELEMENT } VarState;

typedef struct Checker {
    Kernel *k;
    Arena *arena;
    bool fine;
    bool *iter_bound;    /* by id of Iter */
    VarState *var_state; /* by id of Var */
    const Stmt **tile;   /* by id of Var: its mma */
    Map *typed;          /* expressions whose types were checked */
    Map *accessed;       /* loads checked under the facts of the statement */
    Facts facts;
    uint32_t dead; /* > 0: inside code that never runs */
    /* the enclosing par and vec loops, and what depends on their iterators */
    const Stmt *par, *vec;
    bool *par_iter, *par_var, *vec_iter, *vec_var;
} Checker;

/* ---- types of expressions -------------------------------------------------------------------------------------------- */

bool cast_types_match(DType to, DType from)
{
    DType both[] = {to, from};
    for (int i = 0; i < 2; i++) {
        bool number = dtype_is_float(both[i]) || dtype_is_int(both[i]) || both[i] == DT_BOOL;
        if (!number || dtype_bits(both[i]) < 8 || dtype_bits(both[i]) > 64)
            return false;
    }
    return true;
}

bool map_types_match(Op op, DType dtype, const Expr *const *args, uint32_t n, const char **why)
{
    const OpInfo *info = &op_info[op];
    *why = "not an elementwise op, or the number of its operands is wrong";
    if (info->kind != OK_MAP || op == OP_cast || (int)n < info->in_min || (int)n > info->in_max)
        return false;
    DType t = args[n - 1]->dtype, result = t;
    *why = "the condition of a select is a bool";
    if (op == OP_select && args[0]->dtype != DT_BOOL)
        return false;
    *why = "operands of different element types";
    for (uint32_t i = op == OP_select; i < n; i++)
        if (args[i]->dtype != t)
            return false;
    *why = "the op is not compiled for the element type of its operands";
    if (!elem_supported(op, t))
        return false;
    if ((info->traits & OT_COMPARE) || op == OP_isnan || op == OP_isinf)
        result = DT_BOOL;
    *why = "bitcast keeps the number of bits";
    if (op == OP_bitcast)
        return cast_types_match(dtype, t) && dtype_bits(dtype) == dtype_bits(t);
    *why = "the result has another element type";
    return dtype == result;
}

static void type_error(Checker *c, const char *what, const char *why)
{
    c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_type, c->k->name, what, why);
}

static void scope_error(Checker *c, const char *name, const char *why)
{
    c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_scope, c->k->name, name, why);
}

static bool args_are_indices(const Expr *e)
{
    for (uint32_t i = 0; i < e->n_args; i++)
        if (!lx_is_index(e->arg[i]))
            return false;
    return true;
}

static const char *load_fault(const Expr *e)
{
    const Buf *buf = e->u.buf;
    if (e->n_args != buf->rank && e->n_args != buf->rank + 2)
        return "a load has one index for each axis, and a mask with its value or neither";
    for (uint32_t i = 0; i < buf->rank; i++)
        if (!lx_is_index(e->arg[i]))
            return "the index of a load is not an index expression";
    if (e->n_args > buf->rank && (e->arg[buf->rank]->dtype != DT_BOOL || e->arg[buf->rank + 1]->dtype != buf->dtype))
        return "the mask of a load is a predicate, its value of the buffer's element type";
    return e->dtype == buf->dtype ? NULL : "a load has the element type of its buffer";
}

static const char *type_fault(const Expr *e)
{
    const char *why = NULL;
    switch (e->kind) {
    case LX_IADD:
    case LX_IMUL:
    case LX_IDIV:
    case LX_IMOD:
    case LX_IMIN:
    case LX_IMAX:
    case LX_ILT:
    case LX_IEQ: return args_are_indices(e) ? NULL : "index arithmetic on a value";
    case LX_AND:
    case LX_OR:
    case LX_NOT:
        for (uint32_t i = 0; i < e->n_args; i++)
            if (e->arg[i]->dtype != DT_BOOL)
                return "logic on something that is no predicate";
        return NULL;
    case LX_LOAD: return load_fault(e);
    case LX_MAP: return map_types_match(e->op, e->dtype, e->arg, e->n_args, &why) ? NULL : why;
    case LX_CAST: return cast_types_match(e->dtype, e->arg[0]->dtype) ? NULL : "no such conversion";
    case LX_INDEX: return dtype_is_int(e->arg[0]->dtype) ? NULL : "only an integer value can become an index";
    case LX_INT:
    case LX_ITER:
    case LX_CONST:
    case LX_VAR: break;
    }
    return NULL;
}

static void check_types(Checker *c, const Expr *e)
{
    if (map_has(c->typed, KEY(e)))
        return;
    map_slot(c->typed, KEY(e));
    for (uint32_t i = 0; i < e->n_args; i++)
        check_types(c, e->arg[i]);
    const char *why = type_fault(e);
    if (why)
        type_error(c,
                   e->kind == LX_MAP    ? op_info[e->op].name
                   : e->kind == LX_LOAD ? e->u.buf->name
                                        : "expression",
                   why);
}

static void check_scope(Checker *c, const Expr *e)
{
    for (uint32_t i = 0; i < e->n_uses; i++) {
        if (e->uses[i] < EXPR_USES_VAR) {
            if (!c->iter_bound[e->uses[i]])
                scope_error(c, c->k->iters.data[e->uses[i]]->name, "is used outside its loop");
            continue;
        }
        uint32_t id = e->uses[i] - EXPR_USES_VAR;
        if (c->var_state[id] == VAR_UNBOUND)
            scope_error(c, c->k->vars.data[id]->name, "is used where it has no value");
        else if (c->var_state[id] == VAR_TILE)
            scope_error(c, c->k->vars.data[id]->name, "is a tile: its elements are seen by put only");
    }
}

/* ---- accesses -------------------------------------------------------------------------------------------------------- */

static bool moves(const Expr *e, const bool *iters, const bool *vars)
{
    for (uint32_t i = 0; i < e->n_uses; i++)
        if (e->uses[i] < EXPR_USES_VAR ? iters[e->uses[i]] : vars[e->uses[i] - EXPR_USES_VAR])
            return true;
    return false;
}

static void check_independence(Checker *c, const Buf *buf, const Expr *offset, bool is_store)
{
    const char *why = is_store ? "a store does not move with it" : "a load from a stored buffer does not move with it";
    if (!is_store && !buf->written)
        return;
    if (c->par && buf->space != BUF_LOCAL && !moves(offset, c->par_iter, c->par_var))
        c->fine =
            diag_report(c->k->ctx, c->k->loc, DIAG_loop_parallel, c->k->name, "par", c->par->u.loop.iter->name, why);
    if (c->vec && is_store && !moves(offset, c->vec_iter, c->vec_var))
        c->fine =
            diag_report(c->k->ctx, c->k->loc, DIAG_loop_parallel, c->k->name, "vec", c->vec->u.loop.iter->name, why);
}

/* 0 <= e < end; floor(a / n) is in range if 0 <= a < end*n is. */
static bool proven_within(Checker *c, const Expr *e, const Expr *end)
{
    int64_t most;
    if (e->kind == LX_IDIV && !__builtin_mul_overflow(end->hi, e->u.i, &most))
        return proven_within(c, e->arg[0], lx_mul(c->k, end, e->u.i));
    const Expr *left = lx_sub(c->k, end, lx_add(c->k, e, lx_int(c->k, 1)));
    return facts_prove(c->k, &c->facts, e) && facts_prove(c->k, &c->facts, left);
}

/* Every index within its axis, if the axes themselves lie in the buffer. */
static bool axes_in_range(Checker *c, const Buf *buf, const Expr *const *index)
{
    Wide last = 0;
    for (uint32_t d = 0; d < buf->rank; d++) {
        last += (Wide)(buf->dim[d] - 1) * buf->stride[d];
        if (!proven_within(c, index[d], lx_axis_size(c->k, buf, d)))
            return false;
    }
    return last < buf->elements;
}

static void check_access(Checker *c, Buf *buf, const Expr *const *index, bool masked, bool is_store)
{
    const Expr *offset = lx_offset(c->k, buf, index);
    check_independence(c, buf, offset, is_store);
    if (c->dead || masked || axes_in_range(c, buf, index))
        return;
    if (!buf->size && facts_prove(c->k, &c->facts, offset) &&
        facts_prove(c->k, &c->facts, lx_sub(c->k, lx_int(c->k, buf->elements - 1), offset)))
        return;
    Text text;
    text_init(&text, c->arena);
    expr_print(&text, c->k, offset);
    c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_access, c->k->name, is_store ? "store" : "load", buf->name,
                          text.data, (long long)buf->elements);
}

static void check_loads(Checker *c, const Expr *e)
{
    if (!e->loads || map_has(c->accessed, KEY(e)))
        return;
    map_slot(c->accessed, KEY(e));
    for (uint32_t i = 0; i < e->n_args; i++)
        check_loads(c, e->arg[i]);
    if (e->kind == LX_LOAD && !load_fault(e))
        check_access(c, e->u.buf, e->arg, e->n_args > e->u.buf->rank, false);
}

/* One expression of a statement; index, pred: what its place wants. */
typedef enum Want { WANT_VALUE, WANT_INDEX, WANT_PRED } Want;

static void check_expr(Checker *c, const Expr *e, Want want)
{
    if (!e)
        return;
    check_types(c, e);
    check_scope(c, e);
    if ((want == WANT_INDEX) != lx_is_index(e))
        type_error(c, "expression",
                   want == WANT_INDEX ? "a value where an index is wanted" : "an index where a value is wanted");
    else if (want == WANT_PRED && e->dtype != DT_BOOL)
        type_error(c, "expression", "a value where a predicate is wanted");
    c->accessed = map_create(c->arena);
    check_loads(c, e);
}

static void assume(Checker *c, const Expr *pred, bool holds)
{
    if (!pred)
        return;
    c->dead += lx_is_false(pred) == holds && pred->kind == LX_CONST;
    facts_add(c->k, c->arena, &c->facts, pred, holds);
}

typedef struct Mark {
    uint32_t facts, dead;
} Mark;
static Mark mark(const Checker *c) { return (Mark){c->facts.positive.len, c->dead}; }
static void forget(Checker *c, Mark m)
{
    c->facts.positive.len = m.facts;
    c->dead = m.dead;
}

/* ---- binders
 * ---------------------------------------------------------------------------------------------------------------------
 */

static void bind_iter(Checker *c, const Iter *iter)
{
    if (c->iter_bound[iter->id])
        scope_error(c, iter->name, "is bound again inside its own loop");
    c->iter_bound[iter->id] = true;
    c->par_iter[iter->id] = c->vec_iter[iter->id] = false;
}

/* iter takes values of [0, extent), or of [0, size) where there is one */
static void bind_axis(Checker *c, const Iter *iter, int64_t extent, const Expr *size)
{
    bind_iter(c, iter);
    if (size && lx_is_index(size) && !facts_prove(c->k, &c->facts, lx_sub(c->k, lx_int(c->k, extent), size)))
        c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_range, c->k->name, iter->name, (long long)iter->lo,
                              (long long)iter->hi);
    c->dead += extent <= 0;
    if (extent > 0 && (iter->lo > 0 || iter->hi < extent - 1))
        c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_range, c->k->name, iter->name, (long long)iter->lo,
                              (long long)iter->hi);
    const Expr *i = lx_iter(c->k, iter);
    assume(c, lx_lt(c->k, i, size && lx_is_index(size) ? size : lx_int(c->k, extent)), true);
    assume(c, lx_le(c->k, lx_int(c->k, 0), i), true);
}

static void bind_axes(Checker *c, const FoldAxis *axis, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        check_expr(c, axis[i].size, WANT_INDEX);
        if (i && axis[i].size)
            scope_error(c, axis[i].iter->name, "is not the first axis: its size is a number");
        bind_axis(c, axis[i].iter, axis[i].extent, axis[i].size);
    }
}

static void unbind_axes(Checker *c, const FoldAxis *axis, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        c->iter_bound[axis[i].iter->id] = false;
}

static void bind_var(Checker *c, const Var *var, VarState state, const Expr *const *sources, uint32_t n)
{
    if (c->var_state[var->id] != VAR_UNBOUND)
        scope_error(c, var->name, "gets a second value while it has one");
    c->var_state[var->id] = state;
    c->par_var[var->id] = c->vec_var[var->id] = false;
    for (uint32_t i = 0; i < n; i++) {
        c->par_var[var->id] |= sources[i] && moves(sources[i], c->par_iter, c->par_var);
        c->vec_var[var->id] |= sources[i] && moves(sources[i], c->vec_iter, c->vec_var);
    }
}

/* ---- statements
 * --------------------------------------------------------------------------------------------------------------------
 */

static void check_list(Checker *c, const Stmt *list, bool top);

static void parallel_error(Checker *c, const Stmt *s, const char *why)
{
    c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_parallel, c->k->name, bind_name(s->u.loop.bind),
                          s->u.loop.iter->name, why);
}

static void check_bind(Checker *c, const Stmt *s, bool top)
{
    bool constant = lx_is_int(s->u.loop.lo, NULL) && lx_is_int(s->u.loop.hi, NULL);
    Bind bind = s->u.loop.bind;
    if (bind == BIND_PAR && (!top || !constant))
        parallel_error(c, s, "is not outermost with constant bounds");
    if (bind == BIND_UNROLL && !lx_is_int(lx_sub(c->k, s->u.loop.hi, s->u.loop.lo), NULL))
        parallel_error(c, s, "has no constant trip count");
    if (bind == BIND_VEC && c->vec)
        parallel_error(c, s, "lies inside another vec loop");
    if (bind == BIND_VEC && s->u.loop.step != 1)
        parallel_error(c, s, "has a step other than 1");
}

/* lo + step * floor((hi - 1 - lo) / step) */
static const Expr *last_value(Kernel *k, const Expr *lo, const Expr *hi, int64_t step)
{
    const Expr *span = lx_add(k, lx_sub(k, hi, lo), lx_int(k, -1));
    return lx_add(k, lo, lx_mul(k, lx_div(k, span, step), step));
}

static void check_for(Checker *c, const Stmt *s, bool top)
{
    const Iter *iter = s->u.loop.iter;
    const Expr *lo = s->u.loop.lo, *hi = s->u.loop.hi, *i = lx_iter(c->k, iter);
    const Stmt *par = c->par, *vec = c->vec;
    check_expr(c, lo, WANT_INDEX);
    check_expr(c, hi, WANT_INDEX);
    check_bind(c, s, top);
    if (!lx_is_index(lo) || !lx_is_index(hi))
        return;
    Mark m = mark(c);
    bind_iter(c, iter);
    c->dead += lx_is_true(lx_le(c->k, hi, lo));
    const Expr *last = last_value(c->k, lo, hi, s->u.loop.step);
    if (!c->dead && (!facts_prove(c->k, &c->facts, lx_sub(c->k, lo, lx_int(c->k, iter->lo))) ||
                     !facts_prove(c->k, &c->facts, lx_sub(c->k, lx_int(c->k, iter->hi), last))))
        c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_range, c->k->name, iter->name, (long long)iter->lo,
                              (long long)iter->hi);
    if (!c->dead) {
        assume(c, lx_lt(c->k, i, hi), true);
        assume(c, lx_le(c->k, i, last), true);
        assume(c, lx_le(c->k, lo, i), true);
    }
    c->par_iter[iter->id] = moves(lo, c->par_iter, c->par_var) || s->u.loop.bind == BIND_PAR;
    c->vec_iter[iter->id] = moves(lo, c->vec_iter, c->vec_var) || s->u.loop.bind == BIND_VEC;
    c->par = s->u.loop.bind == BIND_PAR ? s : par;
    c->vec = s->u.loop.bind == BIND_VEC ? s : vec;
    check_list(c, s->u.loop.body, false);
    c->par = par;
    c->vec = vec;
    c->iter_bound[iter->id] = false;
    forget(c, m);
}

static void check_if(Checker *c, const Stmt *s)
{
    Mark m = mark(c);
    check_expr(c, s->u.branch.cond, WANT_PRED);
    assume(c, s->u.branch.cond, true);
    check_list(c, s->u.branch.then, false);
    forget(c, m);
    assume(c, s->u.branch.cond, false);
    check_list(c, s->u.branch.otherwise, false);
    forget(c, m);
}

static void check_target(Checker *c, Buf *buf, const Expr *const *index, uint32_t n, const Expr *value, bool masked)
{
    if (n != buf->rank || value->dtype != buf->dtype)
        type_error(c, buf->name, "a store has one index for each axis and a value of the buffer's element type");
    if (buf->space == BUF_WEIGHT || buf->space == BUF_SIZES)
        type_error(c, buf->name, "weights and sizes are not stored to");
    bool fine = n == buf->rank;
    for (uint32_t i = 0; i < n; i++) {
        check_expr(c, index[i], WANT_INDEX);
        fine &= lx_is_index(index[i]);
    }
    if (fine)
        check_access(c, buf, index, masked, true);
}

static void check_store(Checker *c, const Stmt *s)
{
    Mark m = mark(c);
    check_expr(c, s->u.store.mask, WANT_PRED);
    assume(c, s->u.store.mask, true); /* the value is needed only where the mask holds */
    check_expr(c, s->u.store.value, WANT_VALUE);
    check_target(c, s->u.store.buf, s->u.store.index, s->u.store.n_index, s->u.store.value, s->u.store.mask != NULL);
    forget(c, m);
}

static bool widens(DType from, DType to)
{
    if (dtype_is_float(to))
        return dtype_is_float(from) && dtype_bits(from) <= dtype_bits(to);
    return dtype_is_int(from) && dtype_is_int(to);
}

static const char *fold_fault(const Stmt *s)
{
    FoldKind kind = s->u.fold.kind;
    FoldForm form = s->u.fold.form;
    DType t = s->u.fold.var->dtype, a = s->u.fold.a->dtype;
    bool arithmetic = kind == FOLD_SUM || kind == FOLD_PROD || kind == FOLD_DOT;
    if ((kind == FOLD_DOT) != (s->u.fold.b != NULL))
        return "a dot has two operands, other folds have one";
    if (!arithmetic && (form != FORM_EXACT || a != t))
        return "max, min, and, or are exact and keep the element type";
    if ((kind == FOLD_AND || kind == FOLD_OR) && dtype_is_float(t))
        return "and, or need integers or bool";
    if (!arithmetic)
        return elem_supported(OP_max, t) ? NULL : "the element type is not compiled";
    if (t != DT_F32 && t != DT_F64 && !dtype_is_int(t))
        return "sums, products and dots accumulate in f32, f64 or integers";
    if (dtype_is_int(t) != (form == FORM_EXACT))
        return "integers are folded exactly, floats are not";
    if ((kind == FOLD_DOT) != (form == FORM_CHAIN) && form != FORM_EXACT)
        return "a float dot is a chain, float sums and products are lanes16";
    if (form == FORM_CHAIN && s->u.fold.kb <= 0)
        return "a chain has a positive block";
    if (!widens(a, t) || (s->u.fold.b && !widens(s->u.fold.b->dtype, t)))
        return "an operand cannot be widened to the result";
    return NULL;
}

static void check_fold(Checker *c, const Stmt *s)
{
    const char *why = fold_fault(s);
    Mark m = mark(c);
    if (why)
        c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_fold, c->k->name, s->u.fold.var->name, why);
    bind_axes(c, s->u.fold.axis, s->u.fold.n_axes);
    check_expr(c, s->u.fold.guard, WANT_PRED);
    assume(c, s->u.fold.guard, true);
    check_expr(c, s->u.fold.a, WANT_VALUE);
    check_expr(c, s->u.fold.b, WANT_VALUE);
    unbind_axes(c, s->u.fold.axis, s->u.fold.n_axes);
    forget(c, m);
    bind_var(c, s->u.fold.var, VAR_VALUE, (const Expr *[]){s->u.fold.a, s->u.fold.b, s->u.fold.guard}, 3);
}

static bool uses_axis(const Expr *e, const Stmt *mma)
{
    for (uint32_t i = 0; i < mma->u.mma.n_axes; i++)
        if (lx_uses_iter(e, mma->u.mma.axis[i].iter))
            return true;
    return false;
}

static const char *mma_fault(const Checker *c, const Stmt *s)
{
    const Iter *row = s->u.mma.row, *col = s->u.mma.col;
    const Expr *limit = s->u.mma.col_limit;
    DType t = s->u.mma.tile->dtype;
    if (s->u.mma.rows < 1 || s->u.mma.cols < 1 || s->u.mma.cols % LOOP_LANES || s->u.mma.cols > 1024 ||
        s->u.mma.rows > 1024)
        return "a tile has 1 .. 1024 rows and a multiple of 16 columns, at most 1024";
    if (s->u.mma.kb <= 0)
        return "a chain has a positive block";
    if (lx_uses_iter(s->u.mma.a, col))
        return "operand a depends on the column";
    if (lx_uses_iter(s->u.mma.b, row))
        return "operand b depends on the row";
    if (s->u.mma.guard && lx_uses_iter(s->u.mma.guard, col))
        return "the guard depends on the column";
    if (limit && (lx_uses_iter(limit, row) || lx_uses_iter(limit, col) || uses_axis(limit, s)))
        return "the column limit depends on the row, the column or an axis";
    if (t != DT_F32 && t != DT_F64 && !dtype_is_int(t))
        return "a tile accumulates in f32, f64 or integers";
    if (!widens(s->u.mma.a->dtype, t) || !widens(s->u.mma.b->dtype, t))
        return "an operand cannot be widened to the tile's element type";
    if (s->u.mma.ahead && (s->u.mma.b->kind != LX_LOAD || s->u.mma.n_ahead < 1))
        return "what is read ahead is at least one element of the buffer that operand b loads from";
    return c->vec ? "a tile inside a vec loop" : NULL;
}

static void assume_below(Checker *c, const Iter *iter, const Expr *limit)
{
    if (limit && lx_is_index(limit))
        assume(c, lx_lt(c->k, lx_iter(c->k, iter), limit), true);
}

static void check_mma(Checker *c, const Stmt *s)
{
    const char *why = mma_fault(c, s);
    Mark m = mark(c);
    if (why)
        c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_mma, c->k->name, s->u.mma.tile->name, why);
    check_expr(c, s->u.mma.col_limit, WANT_INDEX);
    check_expr(c, s->u.mma.ahead, WANT_INDEX);
    bind_axes(c, s->u.mma.axis, s->u.mma.n_axes);
    bind_axis(c, s->u.mma.row, s->u.mma.rows, NULL);
    check_expr(c, s->u.mma.guard, WANT_PRED);
    assume(c, s->u.mma.guard, true);
    check_expr(c, s->u.mma.a, WANT_VALUE);
    bind_axis(c, s->u.mma.col, s->u.mma.cols, NULL);
    assume_below(c, s->u.mma.col, s->u.mma.col_limit);
    check_expr(c, s->u.mma.b, WANT_VALUE);
    c->iter_bound[s->u.mma.row->id] = c->iter_bound[s->u.mma.col->id] = false;
    unbind_axes(c, s->u.mma.axis, s->u.mma.n_axes);
    forget(c, m);
    bind_var(c, s->u.mma.tile, VAR_TILE, NULL, 0);
    c->tile[s->u.mma.tile->id] = s;
}

static void check_put(Checker *c, const Stmt *s)
{
    const Var *tile = s->u.put.tile;
    const Stmt *mma = c->tile[tile->id];
    Mark m = mark(c);
    if (c->var_state[tile->id] != VAR_TILE) {
        scope_error(c, tile->name, "is no tile here");
        return;
    }
    if (s->u.put.rows != mma->u.mma.rows || s->u.put.cols != mma->u.mma.cols)
        c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_mma, c->k->name, tile->name,
                              "put has another number of rows or columns");
    const Expr *limit[2] = {s->u.put.col_limit, s->u.put.row_limit};
    for (int i = 0; i < 2; i++) {
        check_expr(c, limit[i], WANT_INDEX);
        if (limit[i] && (lx_uses_iter(limit[i], s->u.put.row) || lx_uses_iter(limit[i], s->u.put.col)))
            c->fine = diag_report(c->k->ctx, c->k->loc, DIAG_loop_mma, c->k->name, tile->name,
                                  "a limit of columns or rows depends on the row or the column");
    }
    bind_axis(c, s->u.put.row, s->u.put.rows, NULL);
    bind_axis(c, s->u.put.col, s->u.put.cols, NULL);
    assume_below(c, s->u.put.col, s->u.put.col_limit);
    assume_below(c, s->u.put.row, s->u.put.row_limit);
    c->var_state[tile->id] = VAR_ELEMENT;
    check_expr(c, s->u.put.value, WANT_VALUE);
    check_target(c, s->u.put.buf, s->u.put.index, s->u.put.n_index, s->u.put.value, false);
    c->var_state[tile->id] = VAR_TILE;
    c->iter_bound[s->u.put.row->id] = c->iter_bound[s->u.put.col->id] = false;
    forget(c, m);
}

static void check_let(Checker *c, const Stmt *s)
{
    check_expr(c, s->u.let.value, WANT_VALUE);
    if (s->u.let.value->dtype != s->u.let.var->dtype)
        type_error(c, s->u.let.var->name, "its value has another element type");
    bind_var(c, s->u.let.var, VAR_VALUE, &s->u.let.value, 1);
}

static const Var *bound_by(const Stmt *s)
{
    switch (s->kind) {
    case LS_LET: return s->u.let.var;
    case LS_FOLD: return s->u.fold.var;
    case LS_MMA: return s->u.mma.tile;
    default: return NULL;
    }
}

static void check_list(Checker *c, const Stmt *list, bool top)
{
    for (const Stmt *s = list; s; s = s->next) {
        switch (s->kind) {
        case LS_FOR: check_for(c, s, top); break;
        case LS_IF: check_if(c, s); break;
        case LS_LET: check_let(c, s); break;
        case LS_STORE: check_store(c, s); break;
        case LS_FOLD: check_fold(c, s); break;
        case LS_MMA: check_mma(c, s); break;
        case LS_PUT: check_put(c, s); break;
        case LS_CHECK: check_expr(c, s->u.check.cond, WANT_PRED); break;
        }
    }
    for (const Stmt *s = list; s; s = s->next)
        if (bound_by(s))
            c->var_state[bound_by(s)->id] = VAR_UNBOUND;
}

/* Whatever stands beside a par loop runs once for every range of tiles, so it may only compute values. */
static void check_beside_par(Checker *c)
{
    const Stmt *par = NULL;
    for (const Stmt *s = c->k->body; s; s = s->next) {
        bool is_par = s->kind == LS_FOR && s->u.loop.bind == BIND_PAR;
        if (is_par && par)
            parallel_error(c, s, "is a second one");
        par = is_par ? s : par;
    }
    for (const Stmt *s = c->k->body; par && s; s = s->next)
        if (s != par && s->kind != LS_LET && s->kind != LS_FOLD && s->kind != LS_CHECK &&
            !(s->kind == LS_FOR && s->u.loop.bind == BIND_PAR))
            parallel_error(c, par, "shares the top level with statements that store");
}

static void check_bufs(Checker *c)
{
    for (uint32_t i = 0; i < c->k->bufs.len; i++) {
        const Buf *buf = c->k->bufs.data[i];
        if (!cast_types_match(buf->dtype, buf->dtype))
            type_error(c, buf->name, "element types are numbers or bool of 8 to 64 bits");
        if ((buf->pack != NULL) && buf->space != BUF_WEIGHT)
            type_error(c, buf->name, "only a weight is packed");
        if (buf->space == BUF_SIZES && (buf->dtype != DT_S64 || buf->rank != 1 || buf != c->k->sizes))
            type_error(c, buf->name, "there is one buffer of sizes, s64 of rank 1");
        for (uint32_t d = 0; buf->size && d < buf->rank; d++)
            if (buf->space != BUF_ARG || !lx_is_index(buf->size[d]) || !lx_is_size(buf->size[d]) || buf->size[d]->hi > buf->dim[d])
                type_error(c, buf->name, "the sizes of an argument come from the sizes of the run");
    }
}

/* Simplification and proofs add expressions to the kernel; nothing that can be seen in it changes. */
bool kernel_verify(const Kernel *k)
{
    Arena *arena = arena_create(k->ctx);
    Checker c = {.k = (Kernel *)(uintptr_t)k, .arena = arena, .fine = true, .typed = map_create(arena)};
    c.iter_bound = ARENA_ARRAY(arena, bool, k->iters.len);
    c.par_iter = ARENA_ARRAY(arena, bool, k->iters.len);
    c.vec_iter = ARENA_ARRAY(arena, bool, k->iters.len);
    c.var_state = ARENA_ARRAY(arena, VarState, k->vars.len);
    c.par_var = ARENA_ARRAY(arena, bool, k->vars.len);
    c.vec_var = ARENA_ARRAY(arena, bool, k->vars.len);
    c.tile = ARENA_ARRAY(arena, const Stmt *, k->vars.len);
    check_bufs(&c);
    check_beside_par(&c);
    check_list(&c, k->body, true);
    arena_destroy(arena);
    return c.fine;
}
