/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels, hash-consed expressions, statements, substitution and copies. What simplifies index arithmetic and
 * predicates is in index_form.c; what folds constants is in elem_ops.c.
 */
#include "loop/loop_int.h"

#include <string.h>

/* ---- kernel ------------------------------------------------------------------------------------------------------ */

Kernel *kernel_create(Context *ctx, Arena *arena, Str name)
{
    Kernel *k = ARENA_NEW(arena, Kernel);
    k->ctx = ctx;
    k->arena = arena;
    k->name = name;
    k->exprs = intern_create(arena);
    k->expr_of = map_create(arena);
    k->names = map_create(arena);
    return k;
}

Str kernel_unique_name(Kernel *k, const char *name, const char *fallback)
{
    const char *base = name && *name ? name : fallback;
    Str unique = str_intern(k->ctx, base);
    for (uintptr_t n = 1; map_has(k->names, KEY(unique)); n++) {
        void **count = map_slot(k->names, KEY(str_intern(k->ctx, base)));
        if ((uintptr_t)*count > n)
            n = (uintptr_t)*count;
        *count = (void *)n;
        unique = str_format(k->ctx, "%s_%u", base, (unsigned)n);
    }
    map_slot(k->names, KEY(unique));
    return unique;
}

Buf *kernel_buf(Kernel *k, Str name, DType dtype, BufSpace space, uint32_t rank, const int64_t *dim)
{
    IG_CHECK(k->ctx, rank <= LOOP_MAX_RANK);
    Buf *buf = ARENA_NEW(k->arena, Buf);
    buf->id = k->bufs.len;
    buf->name = kernel_unique_name(k, name, "b");
    buf->dtype = dtype;
    buf->space = space;
    buf->rank = rank;
    buf->elements = 1;
    for (uint32_t d = rank; d-- > 0;) {
        IG_CHECK(k->ctx, dim[d] >= 0);
        buf->dim[d] = dim[d];
        buf->stride[d] = buf->elements;
        /* an empty axis leaves the strides of the others */
        if (dim[d] > 1 && __builtin_mul_overflow(buf->elements, dim[d], &buf->elements))
            ig_bug(k->ctx, "buffer '%s' has more than 2^63 elements", buf->name);
    }
    vec_push(k->arena, &k->bufs, buf);
    return buf;
}

/* An iterator without values (an axis of size 0) gets the range [lo, lo]: what holds there holds vacuously. */
Iter *kernel_iter(Kernel *k, const char *name, int64_t lo, int64_t hi_inclusive)
{
    Iter *iter = ARENA_NEW(k->arena, Iter);
    *iter = (Iter){.id = k->iters.len, .lo = lo, .hi = hi_inclusive < lo ? lo : hi_inclusive};
    iter->name = kernel_unique_name(k, name, "i");
    vec_push(k->arena, &k->iters, iter);
    return iter;
}

Var *kernel_var(Kernel *k, const char *name, DType dtype)
{
    Var *var = ARENA_NEW(k->arena, Var);
    *var = (Var){.id = k->vars.len, .dtype = dtype};
    var->name = kernel_unique_name(k, name, "v");
    vec_push(k->arena, &k->vars, var);
    return var;
}

/* ---- stored expressions ------------------------------------------------------------------------------------------ */

/* Union of two sorted sets; one of them itself if it holds the other. */
static void unite(Kernel *k, Expr *e, const uint32_t *uses, uint32_t n)
{
    if (n == 0 || e->uses == uses)
        return;
    uint32_t *both = ARENA_ARRAY(k->arena, uint32_t, e->n_uses + n);
    uint32_t len = 0, i = 0, j = 0;
    while (i < e->n_uses || j < n) {
        uint32_t x = i < e->n_uses ? e->uses[i] : UINT32_MAX, y = j < n ? uses[j] : UINT32_MAX;
        i += x <= y;
        j += y <= x;
        both[len++] = x < y ? x : y;
    }
    if (len == e->n_uses)
        return;
    e->uses = len == n ? uses : both;
    e->n_uses = len;
}

static void set_uses(Kernel *k, Expr *e)
{
    uint32_t own = e->kind == LX_ITER ? e->u.iter->id : e->kind == LX_VAR ? e->u.var->id + EXPR_USES_VAR : UINT32_MAX;
    if (own != UINT32_MAX)
        unite(k, e, arena_copy(k->arena, &own, sizeof own), 1);
    e->loads = e->kind == LX_LOAD;
    for (uint32_t i = 0; i < e->n_args; i++) {
        unite(k, e, e->arg[i]->uses, e->arg[i]->n_uses);
        e->loads |= e->arg[i]->loads;
    }
}

/* Keys hold addresses: they are hashed and compared, never ordered, so nothing depends on them. */
const Expr *expr_intern(Kernel *k, const Expr *proto, const Expr *const *args)
{
    enum { HEAD = 6, MAX_ARGS = LOOP_MAX_RANK + 2 };
    uint64_t key[HEAD + MAX_ARGS];
    IG_CHECK(k->ctx, proto->n_args <= MAX_ARGS);
    key[0] = (uint64_t)proto->kind | (uint64_t)proto->dtype << 16 | (uint64_t)proto->op << 32;
    key[1] = proto->u.bits;
    key[2] = proto->n_args;
    key[3] = proto->kind == LX_INDEX ? (uint64_t)proto->lo : 0;
    key[4] = proto->kind == LX_INDEX ? (uint64_t)proto->hi : 0;
    key[5] = 0;
    for (uint32_t i = 0; i < proto->n_args; i++)
        key[HEAD + i] = KEY(args[i]);
    void **slot = map_slot(k->expr_of, KEY(intern_bytes(k->exprs, key, (HEAD + proto->n_args) * sizeof *key)));
    if (!*slot) {
        Expr *e = ARENA_NEW(k->arena, Expr);
        *e = *proto;
        e->id = k->n_exprs++;
        e->arg = proto->n_args ? arena_copy(k->arena, args, proto->n_args * sizeof *args) : NULL;
        set_uses(k, e);
        *slot = e;
    }
    return *slot;
}

static int order_u64(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }
static int order_s64(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

int expr_compare(const Expr *a, const Expr *b)
{
    if (a == b)
        return 0;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind == LX_ITER)
        return order_u64(a->u.iter->id, b->u.iter->id);
    if (a->kind == LX_VAR)
        return order_u64(a->u.var->id, b->u.var->id);
    if (a->kind == LX_INT)
        return order_s64(a->u.i, b->u.i);
    int order = order_u64(a->dtype, b->dtype);
    if (!order)
        order = order_u64(a->op, b->op);
    if (!order && a->kind == LX_LOAD)
        order = order_u64(a->u.buf->id, b->u.buf->id);
    if (!order)
        order = order_u64(a->n_args, b->n_args);
    for (uint32_t i = 0; i < a->n_args && !order; i++)
        order = expr_compare(a->arg[i], b->arg[i]);
    if (!order && a->kind != LX_LOAD)
        order = order_u64(a->u.bits, b->u.bits);
    if (!order)
        order = order_s64(a->lo, b->lo);
    return order ? order : order_s64(a->hi, b->hi);
}

const Expr *lx_int(Kernel *k, int64_t value)
{
    return expr_intern(k, &(Expr){.kind = LX_INT, .dtype = DT_S64, .u.i = value, .lo = value, .hi = value}, NULL);
}

const Expr *lx_iter(Kernel *k, const Iter *iter)
{
    return expr_intern(k, &(Expr){.kind = LX_ITER, .dtype = DT_S64, .u.iter = iter, .lo = iter->lo, .hi = iter->hi},
                       NULL);
}

static uint64_t low_bits(DType dtype, uint64_t bits)
{
    int n = dtype_bits(dtype);
    return n >= 64 ? bits : bits & ((UINT64_C(1) << n) - 1);
}

const Expr *lx_const(Kernel *k, DType dtype, uint64_t bits)
{
    return expr_intern(k, &(Expr){.kind = LX_CONST, .dtype = dtype, .u.bits = low_bits(dtype, bits)}, NULL);
}

const Expr *lx_const_f64(Kernel *k, DType dtype, double value)
{
    uint64_t bits = 0;
    elem_set_f64(dtype, &bits, 0, value);
    return lx_const(k, dtype, bits);
}

const Expr *lx_var(Kernel *k, const Var *var)
{
    return expr_intern(k, &(Expr){.kind = LX_VAR, .dtype = var->dtype, .u.var = var}, NULL);
}

/* A mask that is known disappears: always true keeps the plain load, always false leaves the other value. */
const Expr *lx_load(Kernel *k, Buf *buf, const Expr *const *index, const Expr *mask, const Expr *otherwise)
{
    if (mask && lx_is_true(mask))
        mask = NULL;
    if (mask && lx_is_index(otherwise))
        otherwise = lx_cast(k, otherwise, DT_S64);
    if (mask && lx_is_false(mask))
        return otherwise;
    const Expr *args[LOOP_MAX_RANK + 2];
    for (uint32_t i = 0; i < buf->rank; i++)
        args[i] = index[i];
    Expr proto = {.kind = LX_LOAD, .dtype = buf->dtype, .u.buf = buf, .n_args = buf->rank};
    if (mask) {
        IG_CHECK(k->ctx, otherwise && otherwise->dtype == buf->dtype && mask->dtype == DT_BOOL);
        args[proto.n_args++] = mask;
        args[proto.n_args++] = otherwise;
    }
    return expr_intern(k, &proto, args);
}

bool lx_is_index(const Expr *e)
{
    switch (e->kind) {
    case LX_INT:
    case LX_ITER:
    case LX_IADD:
    case LX_IMUL:
    case LX_IDIV:
    case LX_IMOD:
    case LX_IMIN:
    case LX_IMAX:
    case LX_INDEX: return true;
    default: return false;
    }
}

/* Folds constant operands; a select by a constant takes its side. Nothing else is simplified: no bit may change.
 * An index operand is its value as s64. */
const Expr *lx_map(Kernel *k, Op op, DType dtype, const Expr *const *args, uint32_t n)
{
    const Expr *arg[4];
    uint64_t bits[4];
    DType dtypes[4];
    bool constant = true;
    IG_CHECK(k->ctx, n >= 1 && n <= IG_COUNT(arg));
    for (uint32_t i = 0; i < n; i++) {
        arg[i] = lx_is_index(args[i]) ? lx_cast(k, args[i], DT_S64) : args[i];
        constant &= arg[i]->kind == LX_CONST;
        dtypes[i] = arg[i]->dtype;
        bits[i] = arg[i]->kind == LX_CONST ? arg[i]->u.bits : 0;
    }
    if (op == OP_cast)
        return lx_cast(k, arg[0], dtype);
    if (op == OP_stop_gradient)
        return arg[0];
    if (op == OP_select && arg[0]->kind == LX_CONST)
        return arg[bits[0] ? 1 : 2];
    if (constant && elem_supported(op, dtypes[n - 1]))
        return lx_const(k, dtype, elem_map(op, dtype, dtypes, bits, n));
    return expr_intern(k, &(Expr){.kind = LX_MAP, .dtype = dtype, .op = op, .n_args = n}, arg);
}

const Expr *lx_cast(Kernel *k, const Expr *a, DType dtype)
{
    if (lx_is_index(a)) {
        if (a->kind == LX_INT)
            return lx_const(k, dtype, elem_cast(dtype, DT_S64, (uint64_t)a->u.i));
        if (dtype != DT_S64 && dtype != DT_S32)
            a = lx_cast(k, a, DT_S64);
    } else if (a->dtype == dtype) {
        return a;
    } else if (a->kind == LX_CONST) {
        return lx_const(k, dtype, elem_cast(dtype, a->dtype, a->u.bits));
    }
    return expr_intern(k, &(Expr){.kind = LX_CAST, .dtype = dtype, .n_args = 1}, &a);
}

/* The index that a value came from is the index itself. */
const Expr *lx_index(Kernel *k, const Expr *value, int64_t lo, int64_t hi)
{
    if (lx_is_index(value))
        return value;
    if (value->kind == LX_CONST)
        return lx_int(k, (int64_t)elem_cast(DT_S64, value->dtype, value->u.bits));
    if (value->kind == LX_CAST && value->dtype == DT_S64 && lx_is_index(value->arg[0]))
        return value->arg[0];
    return expr_intern(k, &(Expr){.kind = LX_INDEX, .dtype = DT_S64, .n_args = 1, .lo = lo, .hi = hi}, &value);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

bool lx_is_int(const Expr *e, int64_t *value)
{
    if (e->kind == LX_INT && value)
        *value = e->u.i;
    return e->kind == LX_INT;
}

bool lx_is_true(const Expr *e) { return e->kind == LX_CONST && e->dtype == DT_BOOL && e->u.bits; }
bool lx_is_false(const Expr *e) { return e->kind == LX_CONST && e->dtype == DT_BOOL && !e->u.bits; }

static bool uses_id(const Expr *e, uint32_t id)
{
    uint32_t lo = 0, hi = e->n_uses;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (e->uses[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < e->n_uses && e->uses[lo] == id;
}

bool lx_uses_iter(const Expr *e, const Iter *iter) { return uses_id(e, iter->id); }
bool lx_uses_var(const Expr *e, const Var *var) { return uses_id(e, var->id + EXPR_USES_VAR); }

bool lx_linear(Kernel *k, const Expr *e, const Iter *iter, int64_t *coef, const Expr **rest)
{
    if (!lx_is_index(e))
        return false;
    Lin lin, others = {0};
    lin_from(e, &lin);
    others.c = lin.c;
    *coef = 0;
    for (uint32_t i = 0; i < lin.n; i++) {
        const Expr *atom = lin.term[i].atom;
        if (atom->kind == LX_ITER && atom->u.iter == iter)
            *coef = lin.term[i].coef;
        else if (lx_uses_iter(atom, iter))
            return false;
        else
            others.term[others.n++] = lin.term[i];
    }
    if (rest)
        *rest = lin_expr(k, &others);
    return true;
}

const Expr *lx_offset(Kernel *k, const Buf *buf, const Expr *const *index)
{
    Lin lin = {0};
    const Expr *stride = lx_int(k, 1);
    for (uint32_t d = buf->rank; buf->size && d-- > 0; stride = lx_times(k, stride, buf->size[d]))
        lin_add_expr(k, &lin, lx_times(k, index[d], stride), 1);
    if (buf->size)
        return lin_expr(k, &lin);
    for (uint32_t d = 0; d < buf->rank; d++)
        lin_add_expr(k, &lin, index[d], buf->stride[d]);
    return lin_expr(k, &lin);
}

/* ---- substitution ------------------------------------------------------------------------------------------------ */

typedef struct Copier {
    Kernel *k;
    const ExprSubst *subst;
    Map *done; /* KEY(old) -> new */
} Copier;

static const Expr *copy_expr(Copier *c, const Expr *e);

static Buf *copy_buf(const Copier *c, Buf *buf)
{
    Buf *other = c->subst->buf ? c->subst->buf(c->subst->user, buf) : NULL;
    if (other)
        IG_CHECK(c->k->ctx, other->rank == buf->rank && other->dtype == buf->dtype);
    return other ? other : buf;
}

static const Expr *copy_load(const Copier *c, const Expr *e, const Expr *const *arg)
{
    Buf *buf = copy_buf(c, e->u.buf);
    bool masked = e->n_args > buf->rank;
    const Expr *load = lx_load(c->k, buf, arg, masked ? arg[buf->rank] : NULL, masked ? arg[buf->rank + 1] : NULL);
    if (load->kind != LX_LOAD || load->u.buf != buf || !c->subst->load)
        return load;
    const Expr *other = c->subst->load(c->subst->user, load);
    return other ? other : load;
}

static const Expr *copy_leaf(const Copier *c, const Expr *e)
{
    const Expr *other = NULL;
    if (e->kind == LX_ITER) {
        other = c->subst->iter ? c->subst->iter(c->subst->user, e->u.iter) : NULL;
        return other ? other : lx_iter(c->k, e->u.iter);
    }
    if (e->kind == LX_VAR) {
        other = c->subst->var ? c->subst->var(c->subst->user, e->u.var) : NULL;
        return other ? other : lx_var(c->k, e->u.var);
    }
    return e->kind == LX_INT ? lx_int(c->k, e->u.i) : lx_const(c->k, e->dtype, e->u.bits);
}

/* e anew, from arguments that were copied. */
static const Expr *rebuild(const Copier *c, const Expr *e, const Expr *const *arg)
{
    Kernel *k = c->k;
    switch (e->kind) {
    case LX_IADD: return lx_add(k, arg[0], arg[1]);
    case LX_IMUL: return lx_mul(k, arg[0], e->u.i);
    case LX_IDIV: return lx_div(k, arg[0], e->u.i);
    case LX_IMOD: return lx_mod(k, arg[0], e->u.i);
    case LX_IMIN: return lx_min(k, arg[0], arg[1]);
    case LX_IMAX: return lx_max(k, arg[0], arg[1]);
    case LX_ILT: return lx_lt(k, arg[0], arg[1]);
    case LX_IEQ: return lx_eq(k, arg[0], arg[1]);
    case LX_AND: return lx_and(k, arg[0], arg[1]);
    case LX_OR: return lx_or(k, arg[0], arg[1]);
    case LX_NOT: return lx_not(k, arg[0]);
    case LX_LOAD: return copy_load(c, e, arg);
    case LX_MAP: return lx_map(k, e->op, e->dtype, arg, e->n_args);
    case LX_CAST: return lx_cast(k, arg[0], e->dtype);
    case LX_INDEX: return lx_index(k, arg[0], e->lo, e->hi);
    case LX_INT:
    case LX_ITER:
    case LX_CONST:
    case LX_VAR: break;
    }
    return copy_leaf(c, e);
}

static const Expr *copy_expr(Copier *c, const Expr *e)
{
    if (!e)
        return NULL;
    const Expr *copy = map_get(c->done, KEY(e));
    if (copy)
        return copy;
    const Expr *arg[LOOP_MAX_RANK + 2];
    for (uint32_t i = 0; i < e->n_args; i++)
        arg[i] = copy_expr(c, e->arg[i]);
    copy = rebuild(c, e, arg);
    map_set(c->done, KEY(e), (void *)(uintptr_t)copy);
    return copy;
}

const Expr *lx_subst(Kernel *k, const Expr *e, const ExprSubst *subst)
{
    Arena *tmp = arena_create(k->ctx);
    Copier copier = {k, subst, map_create(tmp)};
    const Expr *copy = copy_expr(&copier, e);
    arena_destroy(tmp);
    return copy;
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

Stmt *ls_new(Kernel *k, StmtKind kind)
{
    Stmt *stmt = ARENA_NEW(k->arena, Stmt);
    stmt->kind = kind;
    return stmt;
}

Stmt **ls_append(Stmt **tail, Stmt *stmt)
{
    *tail = stmt;
    while (*tail)
        tail = &(*tail)->next;
    return tail;
}

Stmt *ls_for(Kernel *k, const Iter *iter, const Expr *lo, const Expr *hi, int64_t step, Bind bind, Stmt *body)
{
    IG_CHECK(k->ctx, step > 0);
    Stmt *stmt = ls_new(k, LS_FOR);
    stmt->u.loop.iter = iter;
    stmt->u.loop.lo = lo;
    stmt->u.loop.hi = hi;
    stmt->u.loop.step = step;
    stmt->u.loop.bind = bind;
    stmt->u.loop.body = body;
    return stmt;
}

Stmt *ls_if(Kernel *k, const Expr *cond, Stmt *then, Stmt *otherwise)
{
    Stmt *stmt = ls_new(k, LS_IF);
    stmt->u.branch.cond = cond;
    stmt->u.branch.then = then;
    stmt->u.branch.otherwise = otherwise;
    return stmt;
}

Stmt *ls_let(Kernel *k, const Var *var, const Expr *value)
{
    Stmt *stmt = ls_new(k, LS_LET);
    stmt->u.let.var = var;
    stmt->u.let.value = lx_is_index(value) ? lx_cast(k, value, DT_S64) : value;
    return stmt;
}

/* A mask that is always true is dropped. Marks the buffer as written. */
Stmt *ls_store(Kernel *k, Buf *buf, const Expr *const *index, const Expr *value, const Expr *mask)
{
    Stmt *stmt = ls_new(k, LS_STORE);
    buf->written = true;
    stmt->u.store.buf = buf;
    stmt->u.store.n_index = buf->rank;
    stmt->u.store.index = arena_copy(k->arena, index, buf->rank * sizeof *index);
    stmt->u.store.value = lx_is_index(value) ? lx_cast(k, value, DT_S64) : value;
    stmt->u.store.mask = mask && lx_is_true(mask) ? NULL : mask;
    return stmt;
}

static const Iter *copy_iter(Copier *c, const Iter *iter)
{
    const Expr *other = c->subst->iter ? c->subst->iter(c->subst->user, iter) : NULL;
    if (!other)
        return iter;
    IG_CHECK(c->k->ctx, other->kind == LX_ITER);
    return other->u.iter;
}

static const Var *copy_var(Copier *c, const Var *var)
{
    const Expr *other = c->subst->var ? c->subst->var(c->subst->user, var) : NULL;
    if (!other)
        return var;
    IG_CHECK(c->k->ctx, other->kind == LX_VAR);
    return other->u.var;
}

static const Expr *const *copy_index(Copier *c, const Expr *const *index, uint32_t n)
{
    const Expr **copy = ARENA_ARRAY(c->k->arena, const Expr *, n);
    for (uint32_t i = 0; i < n; i++)
        copy[i] = copy_expr(c, index[i]);
    return copy;
}

static void copy_axes(Copier *c, FoldAxis *axis, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        axis[i].size = copy_expr(c, axis[i].size);
        axis[i].iter = copy_iter(c, axis[i].iter);
    }
}

static Stmt *copy_list(Copier *c, const Stmt *list);

static Stmt *copy_stmt(Copier *c, const Stmt *stmt)
{
    Stmt *s = ARENA_NEW(c->k->arena, Stmt);
    *s = *stmt;
    s->next = NULL;
    switch (s->kind) {
    case LS_FOR:
        s->u.loop.lo = copy_expr(c, s->u.loop.lo);
        s->u.loop.hi = copy_expr(c, s->u.loop.hi);
        s->u.loop.iter = copy_iter(c, s->u.loop.iter);
        s->u.loop.body = copy_list(c, s->u.loop.body);
        break;
    case LS_IF:
        s->u.branch.cond = copy_expr(c, s->u.branch.cond);
        s->u.branch.then = copy_list(c, s->u.branch.then);
        s->u.branch.otherwise = copy_list(c, s->u.branch.otherwise);
        break;
    case LS_LET:
        s->u.let.var = copy_var(c, s->u.let.var);
        s->u.let.value = copy_expr(c, s->u.let.value);
        break;
    case LS_STORE:
        s->u.store.buf = copy_buf(c, s->u.store.buf);
        s->u.store.buf->written = true;
        s->u.store.index = copy_index(c, s->u.store.index, s->u.store.n_index);
        s->u.store.value = copy_expr(c, s->u.store.value);
        s->u.store.mask = copy_expr(c, s->u.store.mask);
        break;
    case LS_FOLD:
        s->u.fold.var = copy_var(c, s->u.fold.var);
        copy_axes(c, s->u.fold.axis, s->u.fold.n_axes);
        s->u.fold.guard = copy_expr(c, s->u.fold.guard);
        s->u.fold.a = copy_expr(c, s->u.fold.a);
        s->u.fold.b = copy_expr(c, s->u.fold.b);
        break;
    case LS_MMA:
        s->u.mma.tile = copy_var(c, s->u.mma.tile);
        s->u.mma.row = copy_iter(c, s->u.mma.row);
        s->u.mma.col = copy_iter(c, s->u.mma.col);
        copy_axes(c, s->u.mma.axis, s->u.mma.n_axes);
        s->u.mma.guard = copy_expr(c, s->u.mma.guard);
        s->u.mma.a = copy_expr(c, s->u.mma.a);
        s->u.mma.b = copy_expr(c, s->u.mma.b);
        s->u.mma.col_limit = copy_expr(c, s->u.mma.col_limit);
        s->u.mma.ahead = copy_expr(c, s->u.mma.ahead);
        break;
    case LS_PUT:
        s->u.put.tile = copy_var(c, s->u.put.tile);
        s->u.put.row = copy_iter(c, s->u.put.row);
        s->u.put.col = copy_iter(c, s->u.put.col);
        s->u.put.col_limit = copy_expr(c, s->u.put.col_limit);
        s->u.put.row_limit = copy_expr(c, s->u.put.row_limit);
        s->u.put.buf = copy_buf(c, s->u.put.buf);
        s->u.put.buf->written = true;
        s->u.put.index = copy_index(c, s->u.put.index, s->u.put.n_index);
        s->u.put.value = copy_expr(c, s->u.put.value);
        break;
    case LS_CHECK: s->u.check.cond = copy_expr(c, s->u.check.cond); break;
    }
    return s;
}

static Stmt *copy_list(Copier *c, const Stmt *list)
{
    Stmt *first = NULL, **tail = &first;
    for (; list; list = list->next)
        tail = ls_append(tail, copy_stmt(c, list));
    return first;
}

Stmt *ls_clone(Kernel *k, const Stmt *list, const ExprSubst *subst)
{
    static const ExprSubst nothing = {0};
    Arena *tmp = arena_create(k->ctx);
    Copier copier = {k, subst ? subst : &nothing, map_create(tmp)};
    Stmt *copy = copy_list(&copier, list);
    arena_destroy(tmp);
    return copy;
}

typedef struct OneIter {
    const Iter *iter;
    const Expr *with;
} OneIter;

static const Expr *replace_one(void *user, const Iter *iter)
{
    const OneIter *one = user;
    return iter == one->iter ? one->with : NULL;
}

const Expr *lx_replace_iter(Kernel *k, const Expr *e, const Iter *iter, const Expr *with)
{
    OneIter one = {iter, with};
    return e ? lx_subst(k, e, &(ExprSubst){.user = &one, .iter = replace_one}) : NULL;
}

Stmt *ls_replace_iter(Kernel *k, const Stmt *list, const Iter *iter, const Expr *with)
{
    OneIter one = {iter, with};
    return ls_clone(k, list, &(ExprSubst){.user = &one, .iter = replace_one});
}

static const Expr *move_iter(void *user, const Iter *iter)
{
    Kernel *k = user;
    return lx_iter(k, k->iters.data[iter->id]);
}

static const Expr *move_var(void *user, const Var *var)
{
    Kernel *k = user;
    return lx_var(k, k->vars.data[var->id]);
}

static Buf *move_buf(void *user, Buf *buf)
{
    Kernel *k = user;
    return k->bufs.data[buf->id];
}

Kernel *kernel_clone(Arena *arena, const Kernel *k)
{
    Context *ctx = arena_context(arena); /* may be another than k->ctx: code is generated in several threads */
    Kernel *copy = kernel_create(ctx, arena, k->name);
    copy->loc = k->loc;
    for (uint32_t i = 0; i < k->bufs.len; i++) {
        Buf *buf = arena_copy(arena, k->bufs.data[i], sizeof *buf);
        vec_push(arena, &copy->bufs, buf);
        buf->name = str_intern(ctx, buf->name);
        map_slot(copy->names, KEY(buf->name));
    }
    for (uint32_t i = 0; i < k->iters.len; i++) {
        Iter *iter = arena_copy(arena, k->iters.data[i], sizeof *iter);
        vec_push(arena, &copy->iters, iter);
        iter->name = str_intern(ctx, iter->name);
        map_slot(copy->names, KEY(iter->name));
    }
    for (uint32_t i = 0; i < k->vars.len; i++) {
        Var *var = arena_copy(arena, k->vars.data[i], sizeof *var);
        vec_push(arena, &copy->vars, var);
        var->name = str_intern(ctx, var->name);
        map_slot(copy->names, KEY(var->name));
    }
    ExprSubst subst = {.user = copy, .iter = move_iter, .var = move_var, .buf = move_buf};
    copy->sizes = k->sizes ? copy->bufs.data[k->sizes->id] : NULL;
    copy->syms = k->syms;
    for (uint32_t i = 0; i < copy->bufs.len; i++) {
        Buf *buf = copy->bufs.data[i];
        const Expr **size = ARENA_ARRAY(arena, const Expr *, buf->rank + 1);
        for (uint32_t d = 0; buf->size && d < buf->rank; d++)
            size[d] = lx_subst(copy, buf->size[d], &subst);
        buf->size = buf->size ? size : NULL;
    }
    copy->body = ls_clone(copy, k->body, &subst);
    return copy;
}

int64_t kernel_tiles(const Kernel *k)
{
    for (const Stmt *s = k->body; s; s = s->next) {
        if (s->kind != LS_FOR || s->u.loop.bind != BIND_PAR)
            continue;
        int64_t lo = s->u.loop.lo->u.i, hi = s->u.loop.hi->u.i;
        IG_CHECK(k->ctx, s->u.loop.lo->kind == LX_INT && s->u.loop.hi->kind == LX_INT);
        return hi > lo ? (hi - lo - 1) / s->u.loop.step + 1 : 0;
    }
    return 1;
}
