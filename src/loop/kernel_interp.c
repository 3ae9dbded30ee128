/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a kernel literally: loops in order, folds by their form, every bit as numerics.md says. It is the oracle of the
 * scheduling steps and of the code generators, so it favours plainness; speed comes only from what does not change the
 * order of anything: expressions become lists of instructions in evaluation order (shared subexpressions once), and
 * what does not depend on a fold's iterators is computed before the fold.
 *
 * Everything is a u64: an index is its s64, a value its bits (elem_ops.c). Evaluation is eager, also of both sides of a
 * select; only a masked load looks at its mask before it touches memory. A load or store outside its buffer is a bug of
 * the kernel's maker and ends in ig_bug, never in a wild access.
 */
#include "loop/loop_int.h"

#include <math.h>
#include <string.h>

typedef struct Ins {
    const Expr *e;
    uint64_t *dst;
    const uint64_t **arg;
    const DType *arg_dtype;
} Ins;
typedef VEC(Ins) Code;

typedef struct Interp {
    const Kernel *k;
    Arena *arena;
    void *const *data;
    uint64_t *error;
    uint64_t *iter, *var, *slot; /* by id of Iter, Var, Expr */
    uint32_t *mark;              /* by id of Expr: the code list it was last put in */
    uint32_t n_lists;
    const int64_t **stride; /* by id of Buf */
    void **tile;            /* by id of Var: values of a register tile, [rows][cols] */
    int64_t *tile_cols;
} Interp;

/* ---- expressions ----------------------------------------------------------------------------------------------------- */

static const uint64_t *place_of(const Interp *in, const Expr *e)
{
    if (e->kind == LX_ITER)
        return &in->iter[e->u.iter->id];
    if (e->kind == LX_VAR)
        return &in->var[e->u.var->id];
    return &in->slot[e->id];
}

/* Does e change while the iterators run (or, for a put, while the tile's element does)? */
typedef struct Inner {
    const Iter *iter[LOOP_MAX_FOLD_ITERS + 2];
    uint32_t n;
    const Var *var;
    bool guarded; /* a load may be out of its buffer where the guard fails: it stays behind the guard */
} Inner;

static bool is_inner(const Expr *e, const Inner *inner)
{
    if (!inner || (inner->guarded && e->loads))
        return true;
    for (uint32_t i = 0; i < inner->n; i++)
        if (lx_uses_iter(e, inner->iter[i]))
            return true;
    return inner->var && lx_uses_var(e, inner->var);
}

static void translate(Interp *in, const Expr *e, const Inner *inner, Code *outer_code, Code *code)
{
    if (!e || e->kind == LX_ITER || e->kind == LX_VAR || in->mark[e->id] == in->n_lists)
        return;
    in->mark[e->id] = in->n_lists;
    if (e->kind == LX_INT || e->kind == LX_CONST) {
        in->slot[e->id] = e->u.bits;
        return;
    }
    DType *dtypes = ARENA_ARRAY(in->arena, DType, e->n_args);
    const uint64_t **arg = ARENA_ARRAY(in->arena, const uint64_t *, e->n_args);
    for (uint32_t i = 0; i < e->n_args; i++) {
        translate(in, e->arg[i], inner, outer_code, code);
        arg[i] = place_of(in, e->arg[i]);
        dtypes[i] = e->arg[i]->dtype;
    }
    Ins ins = {e, &in->slot[e->id], arg, dtypes};
    Code *to = is_inner(e, inner) ? code : outer_code;
    vec_push(in->arena, to, ins);
}

/* Code for all roots (NULL ones are skipped): `outer_code` for what `inner` cannot change, `code` for the rest. inner
 * NULL: everything is in `code`. */
static void translate_all(Interp *in, const Expr *const *roots, uint32_t n, const Inner *inner, Code *outer_code,
                          Code *code)
{
    in->n_lists++;
    for (uint32_t i = 0; i < n; i++)
        translate(in, roots[i], inner, outer_code, code);
}

static uint8_t *element(const Interp *in, const Buf *buf, int64_t offset)
{
    if (offset < 0 || offset >= buf->elements)
        ig_bug(in->k->ctx, "kernel '%s': element %lld of buffer '%s' with %lld elements", in->k->name,
               (long long)offset, buf->name, (long long)buf->elements);
    return (uint8_t *)in->data[buf->id] + (size_t)offset * ((size_t)dtype_bits(buf->dtype) / 8);
}

static uint64_t read_element(const Interp *in, const Buf *buf, int64_t offset)
{
    const uint8_t *at = element(in, buf, offset);
    uint16_t h;
    uint32_t w;
    uint64_t d;
    switch (dtype_bits(buf->dtype)) {
    case 8: return *at;
    case 16: memcpy(&h, at, sizeof h); return h;
    case 32: memcpy(&w, at, sizeof w); return w;
    default: memcpy(&d, at, sizeof d); return d;
    }
}

static void write_element(const Interp *in, const Buf *buf, int64_t offset, uint64_t bits)
{
    uint8_t *at = element(in, buf, offset);
    uint16_t h = (uint16_t)bits;
    uint32_t w = (uint32_t)bits;
    switch (dtype_bits(buf->dtype)) {
    case 8: *at = (uint8_t)bits; break;
    case 16: memcpy(at, &h, sizeof h); break;
    case 32: memcpy(at, &w, sizeof w); break;
    default: memcpy(at, &bits, sizeof bits); break;
    }
}

static uint64_t load_value(const Interp *in, const Ins *ins)
{
    const Buf *buf = ins->e->u.buf;
    if (ins->e->n_args > buf->rank && !*ins->arg[buf->rank])
        return *ins->arg[buf->rank + 1];
    int64_t offset = 0;
    for (uint32_t d = 0; d < buf->rank; d++)
        offset = wrap_add(offset, wrap_mul((int64_t)*ins->arg[d], in->stride[buf->id][d]));
    return read_element(in, buf, offset);
}

static uint64_t map_value(const Ins *ins)
{
    uint64_t args[4];
    for (uint32_t i = 0; i < ins->e->n_args; i++)
        args[i] = *ins->arg[i];
    return elem_map(ins->e->op, ins->e->dtype, ins->arg_dtype, args, ins->e->n_args);
}

static uint64_t value_of(const Interp *in, const Ins *ins)
{
    const Expr *e = ins->e;
    uint64_t a = e->n_args > 0 ? *ins->arg[0] : 0, b = e->n_args > 1 ? *ins->arg[1] : 0;
    int64_t x = (int64_t)a, y = (int64_t)b;
    switch (e->kind) {
    case LX_IADD: return a + b;
    case LX_IMUL: return a * e->u.bits;
    case LX_IDIV: return (uint64_t)floor_div(x, e->u.i);
    case LX_IMOD: return (uint64_t)floor_mod(x, e->u.i);
    case LX_IMIN: return x < y ? a : b;
    case LX_IMAX: return x > y ? a : b;
    case LX_ILT: return x < y;
    case LX_IEQ: return x == y;
    case LX_AND: return a && b;
    case LX_OR: return a || b;
    case LX_NOT: return !a;
    case LX_LOAD: return load_value(in, ins);
    case LX_MAP: return map_value(ins);
    case LX_CAST: return elem_cast(e->dtype, ins->arg_dtype[0], a);
    case LX_INDEX: return elem_cast(DT_S64, ins->arg_dtype[0], a);
    case LX_INT:
    case LX_ITER:
    case LX_CONST:
    case LX_VAR: break;
    }
    return e->u.bits;
}

static void execute(const Interp *in, const Code *code)
{
    for (uint32_t i = 0; i < code->len; i++)
        *code->data[i].dst = value_of(in, &code->data[i]);
}

/* ---- compiled statements --------------------------------------------------------------------------------------------- */

/* A statement with its code. `pre` runs once per execution of the statement, `code` (and for a register tile row, col)
 * for every position or element. */
typedef struct Step {
    const Stmt *s;
    struct Step *next, *body, *other;
    Code pre, code, row_code, col_code, limit_code, size_code;
} Step;

static Step *compile_list(Interp *in, const Stmt *list);

static void compile_sizes(Interp *in, Step *step, const FoldAxis *axis, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        translate_all(in, &axis[i].size, 1, NULL, NULL, &step->size_code);
}

static void compile_fold(Interp *in, Step *step)
{
    const Stmt *s = step->s;
    compile_sizes(in, step, s->u.fold.axis, s->u.fold.n_axes);
    Inner inner = {.n = s->u.fold.n_axes, .guarded = s->u.fold.guard != NULL};
    for (uint32_t i = 0; i < inner.n; i++)
        inner.iter[i] = s->u.fold.axis[i].iter;
    /* the guard decides whether a and b may be evaluated: its code comes first, in a list of its own */
    translate_all(in, &s->u.fold.guard, 1, &inner, &step->pre, &step->row_code);
    translate_all(in, (const Expr *[]){s->u.fold.a, s->u.fold.b}, 2, &inner, &step->pre, &step->code);
}

static void compile_mma(Interp *in, Step *step)
{
    const Stmt *s = step->s;
    compile_sizes(in, step, s->u.mma.axis, s->u.mma.n_axes);
    Inner inner = {.n = s->u.mma.n_axes, .guarded = s->u.mma.guard || s->u.mma.col_limit};
    for (uint32_t i = 0; i < inner.n; i++)
        inner.iter[i] = s->u.mma.axis[i].iter;
    inner.iter[inner.n++] = s->u.mma.row;
    inner.iter[inner.n++] = s->u.mma.col;
    translate_all(in, &s->u.mma.col_limit, 1, NULL, NULL, &step->limit_code);
    translate_all(in, &s->u.mma.guard, 1, &inner, &step->pre, &step->code);
    translate_all(in, &s->u.mma.a, 1, &inner, &step->pre, &step->row_code);
    translate_all(in, &s->u.mma.b, 1, &inner, &step->pre, &step->col_code);
    uint32_t id = s->u.mma.tile->id;
    in->tile[id] = ARENA_ARRAY(in->arena, uint64_t, (size_t)(s->u.mma.rows * s->u.mma.cols));
    in->tile_cols[id] = s->u.mma.cols;
}

static void compile_put(Interp *in, Step *step)
{
    const Stmt *s = step->s;
    Inner inner = {.iter = {s->u.put.row, s->u.put.col}, .n = 2, .var = s->u.put.tile,
                   .guarded = s->u.put.col_limit || s->u.put.row_limit};
    const Expr *roots[LOOP_MAX_RANK + 1];
    for (uint32_t i = 0; i < s->u.put.n_index; i++)
        roots[i] = s->u.put.index[i];
    roots[s->u.put.n_index] = s->u.put.value;
    translate_all(in, (const Expr *[]){s->u.put.col_limit, s->u.put.row_limit}, 2, NULL, NULL, &step->limit_code);
    translate_all(in, roots, s->u.put.n_index + 1, &inner, &step->pre, &step->code);
}

static Step *compile_stmt(Interp *in, const Stmt *s)
{
    Step *step = ARENA_NEW(in->arena, Step);
    step->s = s;
    switch (s->kind) {
    case LS_FOR:
        translate_all(in, (const Expr *[]){s->u.loop.lo, s->u.loop.hi}, 2, NULL, NULL, &step->pre);
        step->body = compile_list(in, s->u.loop.body);
        break;
    case LS_IF:
        translate_all(in, &s->u.branch.cond, 1, NULL, NULL, &step->pre);
        step->body = compile_list(in, s->u.branch.then);
        step->other = compile_list(in, s->u.branch.otherwise);
        break;
    case LS_LET: translate_all(in, &s->u.let.value, 1, NULL, NULL, &step->pre); break;
    case LS_STORE:
        translate_all(in, &s->u.store.mask, 1, NULL, NULL, &step->pre);
        in->n_lists++;
        translate(in, s->u.store.value, NULL, NULL, &step->code);
        for (uint32_t i = 0; i < s->u.store.n_index; i++)
            translate(in, s->u.store.index[i], NULL, NULL, &step->code);
        break;
    case LS_FOLD: compile_fold(in, step); break;
    case LS_MMA: compile_mma(in, step); break;
    case LS_PUT: compile_put(in, step); break;
    case LS_CHECK: translate_all(in, &s->u.check.cond, 1, NULL, NULL, &step->pre); break;
    }
    return step;
}

static Step *compile_list(Interp *in, const Stmt *list)
{
    Step *first = NULL, **tail = &first;
    for (; list; list = list->next) {
        *tail = compile_stmt(in, list);
        tail = &(*tail)->next;
    }
    return first;
}

/* ---- folds ----------------------------------------------------------------------------------------------------------- */

/* Sets the axes' iterators to position 0; returns the number of positions. */
static int64_t positions_begin(Interp *in, const FoldAxis *axis, uint32_t n)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < n; i++) {
        in->iter[axis[i].iter->id] = 0;
        int64_t size = axis[i].size ? (int64_t)*place_of(in, axis[i].size) : axis[i].extent;
        if (__builtin_mul_overflow(count, size, &count))
            ig_bug(in->k->ctx, "kernel '%s': a fold over more than 2^63 positions", in->k->name);
    }
    return count;
}

static void positions_next(Interp *in, const FoldAxis *axis, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;) {
        uint64_t *at = &in->iter[axis[i].iter->id];
        if (++*at < (uint64_t)axis[i].extent || i == 0) /* the first axis ends with the positions */
            return;
        *at = 0;
    }
}

static uint64_t identity_of(FoldKind kind, DType dtype)
{
    bool is_float = dtype_is_float(dtype);
    uint64_t all = dtype == DT_BOOL ? 1 : elem_cast(dtype, DT_S64, UINT64_MAX);
    uint64_t top = UINT64_C(1) << (dtype_bits(dtype) - 1);
    bool sign = dtype_kind(dtype) == DK_SINT;
    switch (kind) {
    case FOLD_SUM: return is_float ? top : 0; /* -0 */
    case FOLD_PROD: return elem_cast(dtype, DT_S64, 1);
    case FOLD_MAX: return is_float ? elem_cast(dtype, DT_F64, f64_bits(-HUGE_VAL)) : sign ? top : 0;
    case FOLD_MIN: return is_float ? elem_cast(dtype, DT_F64, f64_bits(HUGE_VAL)) : sign ? top - 1 : all;
    case FOLD_AND: return all;
    case FOLD_OR:
    case FOLD_DOT: break;
    }
    return 0;
}

static uint64_t combine(FoldKind kind, DType dtype, uint64_t a, uint64_t b)
{
    static const Op op[] = {[FOLD_SUM] = OP_add, [FOLD_PROD] = OP_mul, [FOLD_MAX] = OP_max, [FOLD_MIN] = OP_min,
                            [FOLD_AND] = OP_and, [FOLD_OR] = OP_or,    [FOLD_DOT] = OP_add};
    return elem_map(op[kind], dtype, (DType[]){dtype, dtype}, (uint64_t[]){a, b}, 2);
}

/* acc + a*b: one rounding for floats, modulo 2^n for integers. Operands are of the accumulator's dtype. */
static uint64_t multiply_add(DType dtype, uint64_t a, uint64_t b, uint64_t acc)
{
    if (dtype == DT_F32)
        return f32_bits(fmaf(f32_from_bits((uint32_t)a), f32_from_bits((uint32_t)b), f32_from_bits((uint32_t)acc)));
    return elem_map(OP_fma, dtype, (DType[]){dtype, dtype, dtype}, (uint64_t[]){a, b, acc}, 3);
}

/* numerics.md "Reduction": the lanes of one block, pairwise. */
static uint64_t combine_lanes(FoldKind kind, DType dtype, uint64_t *lane)
{
    for (uint32_t half = LOOP_LANES / 2; half; half /= 2)
        for (uint32_t j = 0; j < half; j++)
            lane[j] = combine(kind, dtype, lane[j], lane[j + half]);
    return lane[0];
}

/* A running fold: blocks of `block` positions, combined ascending; within a block 16 lanes, or one chain. */
typedef struct Acc {
    FoldKind kind;
    DType dtype;
    uint64_t start; /* of a lane or chain */
    uint32_t lanes;
    int64_t block;
    uint64_t lane[LOOP_LANES];
    uint64_t total;
    bool has_total;
} Acc;

static void acc_block_end(Acc *acc)
{
    uint64_t value = acc->lanes > 1 ? combine_lanes(acc->kind, acc->dtype, acc->lane) : acc->lane[0];
    acc->total = acc->has_total ? combine(acc->kind, acc->dtype, acc->total, value) : value;
    acc->has_total = true;
    for (uint32_t j = 0; j < acc->lanes; j++)
        acc->lane[j] = acc->start;
}

static void acc_begin(const Interp *in, Acc *acc, const Stmt *s)
{
    enum { LANES_BLOCK = 8192 };
    FoldForm form = s->u.fold.form;
    DType dtype = s->u.fold.var->dtype;
    *acc = (Acc){.kind = s->u.fold.kind, .dtype = dtype, .lanes = 1, .block = INT64_MAX};
    if (form == FORM_LANES16) {
        acc->lanes = LOOP_LANES;
        acc->block = LANES_BLOCK;
    } else if (form == FORM_CHAIN) {
        IG_CHECK(in->k->ctx, s->u.fold.kb > 0 && acc->kind == FOLD_DOT);
        acc->block = s->u.fold.kb;
    }
    acc->start = identity_of(acc->kind, dtype);
    for (uint32_t j = 0; j < acc->lanes; j++)
        acc->lane[j] = acc->start;
}

/* Empty sums are +0; a zero that max or min found is +0. */
static uint64_t acc_end(const Acc *acc, int64_t count)
{
    if (count == 0)
        return acc->kind == FOLD_SUM ? 0 : acc->start;
    bool extremum = acc->kind == FOLD_MAX || acc->kind == FOLD_MIN;
    bool zero = dtype_is_float(acc->dtype) && acc->total == UINT64_C(1) << (dtype_bits(acc->dtype) - 1);
    return extremum && zero ? 0 : acc->total;
}

static void run_fold(Interp *in, const Step *step)
{
    const Stmt *s = step->s;
    const FoldAxis *axis = s->u.fold.axis;
    uint32_t n = s->u.fold.n_axes;
    const Expr *a = s->u.fold.a, *b = s->u.fold.b, *guard = s->u.fold.guard;
    Acc acc;
    acc_begin(in, &acc, s);
    execute(in, &step->size_code);
    int64_t count = positions_begin(in, axis, n), in_block = 0;
    if (count)
        execute(in, &step->pre);
    for (int64_t p = 0; p < count; p++, in_block++, positions_next(in, axis, n)) {
        if (in_block == acc.block) {
            acc_block_end(&acc);
            in_block = 0;
        }
        execute(in, &step->row_code);
        if (guard && !*place_of(in, guard))
            continue;
        execute(in, &step->code);
        uint64_t *lane = &acc.lane[acc.lanes > 1 ? in_block % LOOP_LANES : 0];
        uint64_t x = elem_cast(acc.dtype, a->dtype, *place_of(in, a));
        if (acc.kind == FOLD_DOT)
            *lane = multiply_add(acc.dtype, x, elem_cast(acc.dtype, b->dtype, *place_of(in, b)), *lane);
        else
            *lane = combine(acc.kind, acc.dtype, *lane, x);
    }
    if (count)
        acc_block_end(&acc);
    in->var[s->u.fold.var->id] = acc_end(&acc, count);
}

/* ---- register tiles -------------------------------------------------------------------------------------------------- */

/* How many of the n rows or columns exist. */
static int64_t below_limit(const Interp *in, const Expr *e, int64_t n)
{
    if (!e)
        return n;
    int64_t limit = (int64_t)*place_of(in, e);
    return limit < 0 ? 0 : limit < n ? limit : n;
}

typedef struct Mma {
    DType dtype;
    int64_t rows, cols, n_cols; /* n_cols: those present */
    uint64_t *chain, *total, *b;
    bool has_total;
} Mma;

static void mma_block_end(Mma *m)
{
    for (int64_t i = 0; i < m->rows * m->cols; i++) {
        m->total[i] = m->has_total ? combine(FOLD_DOT, m->dtype, m->total[i], m->chain[i]) : m->chain[i];
        m->chain[i] = 0;
    }
    m->has_total = true;
}

static void mma_position(Interp *in, const Step *step, Mma *m)
{
    const Stmt *s = step->s;
    uint64_t *row = &in->iter[s->u.mma.row->id], *col = &in->iter[s->u.mma.col->id];
    bool have_b = false;
    for (int64_t i = 0; i < m->rows; i++) {
        *row = (uint64_t)i;
        execute(in, &step->code);
        if (s->u.mma.guard && !*place_of(in, s->u.mma.guard))
            continue;
        execute(in, &step->row_code);
        uint64_t a = elem_cast(m->dtype, s->u.mma.a->dtype, *place_of(in, s->u.mma.a));
        for (int64_t j = 0; !have_b && j < m->n_cols; j++) {
            *col = (uint64_t)j;
            execute(in, &step->col_code);
            m->b[j] = elem_cast(m->dtype, s->u.mma.b->dtype, *place_of(in, s->u.mma.b));
        }
        have_b = true;
        for (int64_t j = 0; j < m->n_cols; j++)
            m->chain[i * m->cols + j] = multiply_add(m->dtype, a, m->b[j], m->chain[i * m->cols + j]);
    }
}

static void run_mma(Interp *in, const Step *step)
{
    const Stmt *s = step->s;
    Arena *tmp = arena_create(in->k->ctx);
    Mma m = {.dtype = s->u.mma.tile->dtype, .rows = s->u.mma.rows, .cols = s->u.mma.cols};
    m.total = in->tile[s->u.mma.tile->id];
    m.chain = ARENA_ARRAY(tmp, uint64_t, (size_t)(m.rows * m.cols));
    m.b = ARENA_ARRAY(tmp, uint64_t, (size_t)m.cols);
    IG_CHECK(in->k->ctx, s->u.mma.kb > 0);
    execute(in, &step->size_code);
    int64_t count = positions_begin(in, s->u.mma.axis, s->u.mma.n_axes), in_block = 0;
    execute(in, &step->limit_code);
    if (count)
        execute(in, &step->pre);
    m.n_cols = below_limit(in, s->u.mma.col_limit, m.cols);
    for (int64_t p = 0; p < count; p++, in_block++, positions_next(in, s->u.mma.axis, s->u.mma.n_axes)) {
        if (in_block == s->u.mma.kb) {
            mma_block_end(&m);
            in_block = 0;
        }
        mma_position(in, step, &m);
    }
    mma_block_end(&m);
    arena_destroy(tmp);
}

static void store_value(const Interp *in, Buf *buf, const Expr *const *index, uint32_t n, const Expr *value)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < n; d++)
        offset = wrap_add(offset, wrap_mul((int64_t)*place_of(in, index[d]), in->stride[buf->id][d]));
    write_element(in, buf, offset, *place_of(in, value));
}

static void run_put(Interp *in, const Step *step)
{
    const Stmt *s = step->s;
    uint32_t id = s->u.put.tile->id;
    const uint64_t *tile = in->tile[id];
    IG_CHECK(in->k->ctx, tile);
    execute(in, &step->limit_code);
    int64_t n_cols = below_limit(in, s->u.put.col_limit, s->u.put.cols);
    int64_t n_rows = below_limit(in, s->u.put.row_limit, s->u.put.rows);
    if (n_cols > 0 && n_rows > 0)
        execute(in, &step->pre);
    for (int64_t i = 0; i < n_rows; i++) {
        in->iter[s->u.put.row->id] = (uint64_t)i;
        for (int64_t j = 0; j < n_cols; j++) {
            in->iter[s->u.put.col->id] = (uint64_t)j;
            in->var[id] = tile[i * in->tile_cols[id] + j];
            execute(in, &step->code);
            store_value(in, s->u.put.buf, s->u.put.index, s->u.put.n_index, s->u.put.value);
        }
    }
}

/* ---- statements ------------------------------------------------------------------------------------------------------ */

static void run_list(Interp *in, const Step *list, int64_t tile_lo, int64_t tile_hi);

/* Iterations with numbers [tile_lo, tile_hi) of a par loop, all of another. */
static void run_for(Interp *in, const Step *step, int64_t tile_lo, int64_t tile_hi)
{
    const Stmt *s = step->s;
    execute(in, &step->pre);
    int64_t lo = (int64_t)*place_of(in, s->u.loop.lo), hi = (int64_t)*place_of(in, s->u.loop.hi);
    int64_t trip = hi > lo ? (hi - lo - 1) / s->u.loop.step + 1 : 0, first = 0;
    if (s->u.loop.bind == BIND_PAR) {
        first = tile_lo;
        trip = trip < tile_hi ? trip : tile_hi;
    }
    for (int64_t t = first; t < trip; t++) {
        in->iter[s->u.loop.iter->id] = (uint64_t)(lo + t * s->u.loop.step);
        run_list(in, step->body, tile_lo, tile_hi);
    }
}

static void run_store(Interp *in, const Step *step)
{
    const Stmt *s = step->s;
    execute(in, &step->pre);
    if (s->u.store.mask && !*place_of(in, s->u.store.mask))
        return;
    execute(in, &step->code);
    store_value(in, s->u.store.buf, s->u.store.index, s->u.store.n_index, s->u.store.value);
}

static void run_list(Interp *in, const Step *step, int64_t tile_lo, int64_t tile_hi)
{
    for (; step; step = step->next) {
        const Stmt *s = step->s;
        switch (s->kind) {
        case LS_FOR: run_for(in, step, tile_lo, tile_hi); break;
        case LS_IF:
            execute(in, &step->pre);
            run_list(in, *place_of(in, s->u.branch.cond) ? step->body : step->other, tile_lo, tile_hi);
            break;
        case LS_LET:
            execute(in, &step->pre);
            in->var[s->u.let.var->id] = *place_of(in, s->u.let.value);
            break;
        case LS_STORE: run_store(in, step); break;
        case LS_FOLD: run_fold(in, step); break;
        case LS_MMA: run_mma(in, step); break;
        case LS_PUT: run_put(in, step); break;
        case LS_CHECK:
            execute(in, &step->pre);
            if (!*place_of(in, s->u.check.cond) && in->error && !*in->error)
                *in->error = s->u.check.code;
            break;
        }
    }
}

/* Those of a dense buffer follow from its sizes. */
static void find_strides(Interp *in)
{
    const Kernel *k = in->k;
    in->stride = ARENA_ARRAY(in->arena, const int64_t *, k->bufs.len + 1);
    for (uint32_t i = 0; i < k->bufs.len; i++) {
        const Buf *buf = k->bufs.data[i];
        int64_t *stride = ARENA_ARRAY(in->arena, int64_t, LOOP_MAX_RANK), elements = 1;
        in->stride[i] = buf->size ? stride : buf->stride;
        for (uint32_t d = buf->rank; buf->size && d-- > 0;) {
            Code code = {0};
            translate_all(in, &buf->size[d], 1, NULL, NULL, &code);
            execute(in, &code);
            stride[d] = elements;
            elements = wrap_mul(elements, (int64_t)*place_of(in, buf->size[d]));
        }
    }
}

void kernel_interp(const Kernel *k, void *const *data, int64_t lo, int64_t hi, uint64_t *error)
{
    Arena *arena = arena_create(k->ctx);
    Interp in = {.k = k, .arena = arena, .data = data, .error = error};
    in.iter = ARENA_ARRAY(arena, uint64_t, k->iters.len);
    in.var = ARENA_ARRAY(arena, uint64_t, k->vars.len);
    in.slot = ARENA_ARRAY(arena, uint64_t, k->n_exprs);
    in.mark = ARENA_ARRAY(arena, uint32_t, k->n_exprs);
    in.tile = ARENA_ARRAY(arena, void *, k->vars.len);
    in.tile_cols = ARENA_ARRAY(arena, int64_t, k->vars.len);
    find_strides(&in);
    const Step *body = compile_list(&in, k->body);
    run_list(&in, body, lo, hi);
    arena_destroy(arena);
}
