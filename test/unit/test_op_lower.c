/* SPDX-License-Identifier: Apache-2.0
 *
 * Lowerings: a kernel of one op, built as plainly as lower_* allows (no schedule), is run by the loop interpreter and
 * compared with the evaluator in ref32, bit for bit, on random data; some cases also with values worked out by hand.
 * The evaluator knows nothing of lowering, so an agreement means both read numerics.md alike.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "eval/eval.h"
#include "support/op_text.h"

/* ---- a kernel of one op ----------------------------------------------------------------------------------------- */

typedef struct Build {
    Kernel *k;
    const Node *node;
    Buf *buf[16]; /* operands, then the results */
    Stmt *body, **tail;
} Build;

static void shape_of(const Type *type, int64_t *dims)
{
    for (uint32_t a = 0; a < type->rank; a++)
        dims[a] = type_dim(type, a);
}

static const Expr *load_at(void *user, uint32_t in, const Expr *const *index)
{
    Build *b = user;
    return lx_load(b->k, b->buf[in], index, NULL, NULL);
}

static void add_check(void *user, const Expr *cond, uint64_t code)
{
    Build *b = user;
    Stmt *check = ls_new(b->k, LS_CHECK);
    check->u.check.cond = cond;
    check->u.check.code = code;
    b->tail = ls_append(b->tail, check);
}

static const Expr *map_value(Build *b, LowerArgs *args)
{
    const Expr *arg[8], *index[IR_MAX_RANK];
    for (uint32_t i = 0; i < b->node->n_in; i++) {
        const Type *type = b->node->in[i].val->type;
        for (uint32_t a = 0; a < type->rank; a++)
            index[a] = type_dim(type, a) == 1 ? lx_int(b->k, 0) : args->out[a];
        arg[i] = load_at(b, i, index);
    }
    args->arg = arg;
    assert_true(op_defs[b->node->op].lower(args));
    return args->value;
}

static const Expr *index_value(Build *b, LowerArgs *args)
{
    assert_true(op_defs[b->node->op].lower(args));
    assert_true(args->n_pieces > 0);
    const Expr *value[16],
        *before = NULL; /* an index is in its operand where its guard holds and no earlier one does */
    for (uint32_t i = 0; i < args->n_pieces; i++) {
        IndexPiece *piece = &args->piece[i];
        const Expr *mask = lx_and(b->k, before ? lx_not(b->k, before) : NULL, piece->guard);
        const Expr *zero = lx_const(b->k, b->buf[piece->in]->dtype, 0);
        value[i] = lx_load(b->k, b->buf[piece->in], piece->index, mask, mask ? zero : NULL);
        before = before && piece->guard ? lx_or(b->k, before, piece->guard) : piece->guard;
        assert_true((piece->guard == NULL) == (i + 1 == args->n_pieces)); /* the last piece takes the rest */
    }
    const Expr *result = value[args->n_pieces - 1];
    for (uint32_t i = args->n_pieces - 1; i-- > 0;)
        result =
            lx_map(b->k, OP_select, result->dtype, (const Expr *const[]){args->piece[i].guard, value[i], result}, 3);
    return result;
}

static const Expr *fold_value(Build *b, LowerArgs *args)
{
    assert_true(op_defs[b->node->op].lower(args));
    const FoldNest *nest = &args->nest;
    const Expr *operand[2] = {NULL};
    for (uint32_t i = 0; i < nest->n_operands; i++)
        operand[i] = lx_cast(b->k, load_at(b, i, nest->index[i]), nest->acc);
    Stmt *fold = ls_new(b->k, LS_FOLD);
    Var *var = kernel_var(b->k, "s", nest->acc);
    fold->u.fold.var = var;
    fold->u.fold.kind = nest->kind;
    fold->u.fold.form = nest->form;
    fold->u.fold.kb = nest->kb;
    fold->u.fold.n_axes = nest->n_axes;
    memcpy(fold->u.fold.axis, nest->axis, sizeof nest->axis);
    fold->u.fold.guard = nest->guard;
    fold->u.fold.a = operand[0];
    fold->u.fold.b = operand[1];
    b->tail = ls_append(b->tail, fold);
    return lx_cast(b->k, lx_var(b->k, var), b->node->out[0].type->dtype);
}

static Kernel *build(OpText *f, const Node *node)
{
    Build b = {.k = kernel_create(f->ctx, f->arena, str_intern(f->ctx, "k")), .node = node};
    const Type *type = node->out[0].type;
    const Expr *out[IR_MAX_RANK];
    const Iter *iter[IR_MAX_RANK];
    int64_t dims[IR_MAX_RANK];
    b.tail = &b.body;
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        const Type *t = i < node->n_in ? node->in[i].val->type : node->out[i - node->n_in].type;
        shape_of(t, dims);
        b.buf[i] = kernel_buf(b.k, str_format(f->ctx, "b%u", i), t->dtype, BUF_ARG, t->rank, dims);
        b.buf[i]->written = i >= node->n_in;
    }
    if (op_info[node->op].kind == OK_OPAQUE) {
        LowerArgs args = {.k = b.k, .node = node, .load = load_at, .user = &b, .dst = &b.buf[node->n_in]};
        assert_true(op_defs[node->op].lower(&args));
        b.k->body = args.stmts;
        return b.k;
    }
    for (uint32_t a = 0; a < type->rank; a++) {
        iter[a] = kernel_iter(b.k, "o", 0, type_dim(type, a) - 1);
        out[a] = lx_iter(b.k, iter[a]);
    }
    LowerArgs args = {.k = b.k, .node = node, .out = out, .load = load_at, .check = add_check, .user = &b};
    OpKind kind = op_info[node->op].kind;
    const Expr *value = kind == OK_MAP      ? map_value(&b, &args)
                        : kind == OK_INDEX  ? index_value(&b, &args)
                        : kind == OK_SOURCE ? (op_defs[node->op].lower(&args) ? args.value : NULL)
                                            : fold_value(&b, &args);
    assert_non_null(value);
    b.tail = ls_append(b.tail, ls_store(b.k, b.buf[node->n_in], out, value, NULL));
    for (uint32_t a = type->rank; a-- > 0;)
        b.body = ls_for(b.k, iter[a], lx_int(b.k, 0), lx_int(b.k, dims[a]), 1, BIND_SEQ, b.body);
    b.k->body = b.body;
    return b.k;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *seed)
{
    *seed = hash_mix(*seed, 1);
    return *seed >> 20;
}

/* Floats around zero with some special values; integers in [-range, range). */
static Tensor *random_tensor(OpText *f, const Type *type, int64_t range, uint64_t *seed)
{
    static const double special[] = {0.0, -0.0, 1.0, 1e-40, NAN, INFINITY, -INFINITY, -1.0};
    Tensor *t = ARENA_NEW(f->arena, Tensor);
    *t = (Tensor){.dtype = type->dtype, .store = type->dtype, .rank = type->rank};
    shape_of(type, t->dim);
    assert_true(type_count(type, &t->count));
    t->data = arena_alloc(f->arena, t->count * 8 + 64);
    for (uint64_t i = 0; i < t->count; i++) {
        uint64_t r = draw(seed);
        if (dtype_is_float(type->dtype))
            elem_set_f64(type->dtype, t->data, i,
                         r % 32 < 8 ? special[r % 8] : ((double)(r % 200001) - 100000) / 30000);
        else
            elem_set_s64(type->dtype, t->data, i, (int64_t)(r % (uint64_t)(2 * range)) - range);
    }
    return t;
}

static bool same_element(DType dtype, const void *a, const void *b, uint64_t i)
{
    if (!dtype_is_float(dtype))
        return elem_get_s64(dtype, a, i) == elem_get_s64(dtype, b, i);
    double x = elem_get_f64(dtype, a, i), y = elem_get_f64(dtype, b, i);
    return (isnan(x) && isnan(y)) || f64_bits(x) == f64_bits(y);
}

typedef struct Case {
    Op op;
    const char *in, *attrs;
    int64_t range; /* of integer operands; 0: 100 */
} Case;

/* The op as the only node of a function. op_emit may fold it away, so it is emitted raw once its types are inferred. */
static Node *make_node(OpText *f, const Case *c, Func **func)
{
    Val *in[16];
    uint32_t n;
    const Type *types[16], *out[2] = {NULL};
    Val *result[2];
    static const char *const names[2] = {"y0", "y1"};
    *func = op_text_func(f, c->in, in, &n);
    Builder b = ir_at_end((*func)->body, loc_text(f->ctx, str_intern(f->ctx, "t.ig"), 1, 1));
    for (uint32_t i = 0; i < n; i++)
        types[i] = in[i]->type;
    const Attrs *attrs = op_text_attrs(f, c->op, c->attrs);
    ShapeArgs args = {f->ctx, b.loc, c->op, attrs, types, n, out, (uint32_t)op_info[c->op].outs};
    assert_true(op_defs[c->op].shape(&args));
    Node *node = ir_emit(&b, c->op, in, n, attrs, out, args.n_out);
    Str name[2];
    for (uint32_t i = 0; i < args.n_out; i++) {
        result[i] = ir_out(node, i);
        name[i] = str_intern(f->ctx, names[i]);
    }
    func_yield(*func, b.loc, result, name, args.n_out);
    return node;
}

static void check_case(const Case *c, uint64_t seed)
{
    OpText f = op_text_begin();
    Func *func;
    Node *node = make_node(&f, c, &func);
    Kernel *k = build(&f, node);
    if (!kernel_verify(k)) {
        Text text;
        text_init(&text, f.arena);
        kernel_print(&text, k);
        fail_msg("%s(%s) %s: %s\n%s", op_info[c->op].name, c->in, c->attrs, diag_get(f.ctx, 0)->message, text.data);
    }
    Tensor *in[16], *want[2];
    void *data[64] = {NULL};
    uint64_t eval_error = 0, error = 0;
    for (uint32_t i = 0; i < node->n_in; i++) {
        in[i] = random_tensor(&f, node->in[i].val->type, c->range ? c->range : 100, &seed);
        data[i] = in[i]->data;
    }
    assert_true(eval_func(f.ctx, f.arena, EVAL_REF32, func, in, want, &eval_error));
    assert_true(k->bufs.len <= IG_COUNT(data));
    for (uint32_t i = node->n_in; i < k->bufs.len; i++) { /* results and locals */
        data[i] = arena_alloc(f.arena, (size_t)k->bufs.data[i]->elements * 8 + 64);
        memset(data[i], 0xFF, (size_t)k->bufs.data[i]->elements * 8 + 64);
    }
    kernel_interp(k, data, 0, kernel_tiles(k), &error);
    assert_true((error != 0) == (eval_error != 0));
    for (uint32_t o = 0; o < node->n_out; o++)
        for (uint64_t i = 0; i < want[o]->count; i++) {
            DType dtype = want[o]->dtype;
            void *got = data[node->n_in + o];
            if (!same_element(dtype, got, want[o]->data, i))
                fail_msg("%s(%s) %s: element %llu of result %u is %.17g, ref32 gives %.17g", op_info[c->op].name, c->in,
                         c->attrs, (unsigned long long)i, o, elem_get_f64(dtype, got, i), elem_get_f64(dtype, want[o]->data, i));
        }
    ctx_destroy(f.ctx);
}

/* clang-format off */
static const Case cases[] = {
    {OP_add, "f32[3,1] f32[1,4]", "", 0}, {OP_div, "s32[40] s32[40]", "", 3}, {OP_rem, "s8[40] s8[40]", "", 4},
    {OP_mod, "s64[40] s64[40]", "", 4}, {OP_mul, "f16[40] f16[40]", "", 0}, {OP_max, "f32[99] f32[99]", "", 0},
    {OP_min, "bf16[99] bf16[99]", "", 0}, {OP_pow, "f32[40] f32[40]", "", 0}, {OP_exp, "f32[99]", "", 0}, {OP_tanh, "f16[99]", "", 0},
    {OP_erf, "f32[99]", "", 0}, {OP_sigmoid, "f32[99]", "", 0}, {OP_sqrt, "f64[99]", "", 0}, {OP_rint, "f32[99]", "", 0},
    {OP_shl, "s32[40] s32[40]", "", 40}, {OP_xor, "bool[40] bool[40]", "", 1}, {OP_lt, "f32[40] f32[40]", "", 0},
    {OP_eq, "f16[40] f16[40]", "", 0}, {OP_select, "bool[5,1] f32[1,7] f32[5,7]", "", 1}, {OP_fma, "f32[40] f32[40] f32[40]", "", 0},
    {OP_cast, "f32[99]", "dtype=s8", 0}, {OP_cast, "f32[99]", "dtype=bf16", 0}, {OP_cast, "s64[99]", "dtype=bool", 2},
    {OP_cast, "bool[9]", "dtype=f32", 1}, {OP_bitcast, "f32[99]", "dtype=s32", 0}, {OP_not, "u8[9]", "", 0},
    {OP_isnan, "f32[9]", "", 0}, {OP_stop_gradient, "f32[9]", "", 0}, {OP_neg, "s8[40]", "", 128},
    {OP_iota, "", "dtype=s64 shape=3,4 axis=1", 0}, {OP_iota, "", "dtype=f16 shape=3,4 axis=0", 0}, {OP_dimval, "", "dim=7", 0},
    {OP_broadcast, "f32[1,3,1]", "shape=2,3,4", 0},
    {OP_reshape, "f32[2,3,8]", "shape=6,4,2", 0}, {OP_reshape, "f32[2,6]", "shape=4,3", 0}, {OP_reshape, "f32[1,6,1]", "shape=1,1,2,3", 0},
    {OP_reshape, "f32[1,1]", "shape=", 0}, {OP_reshape, "f32[]", "shape=1,1", 0}, {OP_reshape, "f32[3,0]", "shape=0,7", 0},
    {OP_reshape, "f32[4,6,5]", "shape=2,12,5", 0}, {OP_reshape, "f32[2,3,4,5]", "shape=3,2,20", 0},
    {OP_transpose, "f32[2,3,4]", "perm=2,0,1", 0}, {OP_reverse, "s32[2,3,4]", "axes=0,2", 0},
    {OP_slice, "f32[10,4]", "start=9,1 size=5,2 step=-2,1", 0}, {OP_slice, "f32[10]", "start=1 size=3 step=4", 0},
    {OP_pad, "f32[3,4] f32[]", "lo=1,-1 hi=2,3 interior=2,0", 0}, {OP_pad, "f32[3] f32[]", "lo=-1 hi=-1 interior=0", 0},
    {OP_pad, "f32[0] f32[]", "lo=2 hi=1 interior=3", 0}, {OP_pad, "f32[5] f32[]", "lo=-2 hi=0 interior=1", 0},
    {OP_concat, "f32[2,3] f32[2,0] f32[2,5]", "axis=1", 0}, {OP_concat, "s8[1] s8[2]", "axis=0", 0},
    {OP_gather, "f32[6,4] s64[2,3]", "axis=0 batch=0", 6}, {OP_gather, "f32[2,6,4] s32[2,3]", "axis=1 batch=1", 6},
    {OP_gather, "f32[2,6] s32[]", "axis=1 batch=0", 6}, {OP_gather, "f32[6,4] s64[9]", "axis=0 batch=0", 9},
    {OP_gather_elements, "f32[6,4] s64[5,4]", "axis=0", 6}, {OP_gather_elements, "f32[3,4] s64[3,9]", "axis=1", 4},
    {OP_gather_nd, "f32[4,4,5] s64[7,2]", "batch=0", 4}, {OP_gather_nd, "f32[3,4,5] s64[3,2,1]", "batch=1", 4},
    {OP_reduce, "f32[5,300]", "axes=1 kind=sum", 0}, {OP_reduce, "f32[3,9000]", "axes=1 kind=sum", 0},
    {OP_reduce, "f32[4,5,6]", "axes=0,2 kind=sum", 0}, {OP_reduce, "f16[40,6]", "axes=0 kind=sum", 0},
    {OP_reduce, "f64[40,6]", "axes=0 kind=prod", 0}, {OP_reduce, "f32[2,0]", "axes=1 kind=sum", 0}, {OP_reduce, "f32[2,0]", "axes=1 kind=max", 0},
    {OP_reduce, "s8[9,40]", "axes=1 kind=prod", 5}, {OP_reduce, "f32[9,3]", "axes=1 kind=max", 0}, {OP_reduce, "u8[9,3]", "axes=1 kind=min", 100},
    {OP_reduce, "bool[9,3]", "axes=1 kind=and", 1}, {OP_reduce, "s32[9,3]", "axes=0 kind=or", 100}, {OP_reduce, "f32[3]", "axes= kind=sum", 0},
    {OP_reduce_window, "f32[1,2,7,6]", "window=1,1,3,2 stride=1,1,2,2 pad_lo=0,0,1,0 pad_hi=0,0,1,0 dilation=1,1,1,2 kind=sum", 0},
    {OP_reduce_window, "f32[1,2,7,6]", "window=1,1,3,2 stride=1,1,2,1 pad_lo=0,0,1,0 pad_hi=0,0,1,1 dilation=1,1,2,1 kind=max", 0},
    {OP_reduce_window, "s8[2,9]", "window=1,20 stride=1,3 pad_lo=0,10 pad_hi=0,10 dilation=1,1 kind=min", 100},
    {OP_dot, "f32[2,5,700] f32[2,700,3]", "lhs_batch=0 rhs_batch=0 lhs_contract=2 rhs_contract=1", 0},
    {OP_dot, "f32[4,3,5] f32[5,3,2]", "lhs_batch= rhs_batch= lhs_contract=1,2 rhs_contract=1,0", 0},
    {OP_dot, "f16[4,30] f16[30,2]", "lhs_batch= rhs_batch= lhs_contract=1 rhs_contract=0", 0},
    {OP_dot, "f64[4,600] f64[600]", "lhs_batch= rhs_batch= lhs_contract=1 rhs_contract=0", 0},
    {OP_dot, "s8[4,30] s8[30,2]", "lhs_batch= rhs_batch= lhs_contract=1 rhs_contract=0", 100},
    {OP_dot, "f32[4,0] f32[0,2]", "lhs_batch= rhs_batch= lhs_contract=1 rhs_contract=0", 0},
    {OP_dot, "f32[4] f32[3]", "lhs_batch= rhs_batch= lhs_contract= rhs_contract=", 0},
    {OP_dot, "f32[3,4,2] f32[5,2,3]", "lhs_batch=2,0 rhs_batch=1,2 lhs_contract= rhs_contract=", 0},
#define CONV "dilation=1,1 lhs_dilation=1,1 groups="
    {OP_conv, "f32[2,80,7,6] f32[4,80,3,3]", "stride=1,2 pad_lo=1,1 pad_hi=1,0 " CONV "1 flip=0", 0},
    {OP_conv, "f32[1,600,3,3] f32[2,600,1,1]", "stride=1,1 pad_lo=0,0 pad_hi=0,0 " CONV "1 flip=0", 0},
    {OP_conv, "f32[1,200,4,5] f32[2,200,2,3]", "stride=1,1 pad_lo=0,0 pad_hi=0,0 " CONV "1 flip=0", 0},
    {OP_conv, "f32[1,600,5,2] f32[2,600,3,1]", "stride=1,1 pad_lo=1,0 pad_hi=1,0 " CONV "1 flip=0", 0},
    {OP_conv, "f32[1,6,7,6] f32[9,2,3,3]", "stride=1,1 pad_lo=-1,2 pad_hi=0,0 " CONV "3 flip=0", 0},
    {OP_conv, "f32[1,6,7,6] f32[6,1,3,2]", "stride=2,1 pad_lo=2,2 pad_hi=2,2 dilation=2,3 lhs_dilation=1,1 groups=6 flip=0", 0},
    {OP_conv, "f32[1,3,4,5] f32[4,3,3,4]", "stride=1,1 pad_lo=2,3 pad_hi=2,4 dilation=1,1 lhs_dilation=2,3 groups=1 flip=1", 0},
    {OP_conv, "f32[1,8,7,7] f32[4,8,4,4]", "stride=1,1 pad_lo=2,2 pad_hi=2,2 dilation=1,1 lhs_dilation=2,2 groups=1 flip=1", 0},
    {OP_conv, "f32[1,8,7,7] f32[4,8,2,2]", "stride=1,1 pad_lo=1,1 pad_hi=1,1 dilation=1,1 lhs_dilation=2,2 groups=1 flip=1", 0},
    {OP_conv, "s32[1,3,4,5] s32[4,3,3,4]", "stride=1,1 pad_lo=2,3 pad_hi=2,4 dilation=1,1 lhs_dilation=2,3 groups=1 flip=1", 0},
    {OP_conv, "f16[1,64,20] f16[3,64,9]", "stride=1 pad_lo=4 pad_hi=4 dilation=1 lhs_dilation=1 groups=1 flip=0", 0},
#define CUMULATE " exclusive=0 reverse=0"
    {OP_cumulate, "f32[40]", "axis=0 kind=sum" CUMULATE, 0}, {OP_cumulate, "f32[3,17,5]", "axis=1 kind=prod" CUMULATE, 0},
    {OP_cumulate, "f16[17,4,6]", "axis=0 kind=sum exclusive=1 reverse=1", 0}, {OP_cumulate, "bf16[4,19]", "axis=1 kind=prod exclusive=0 reverse=1", 0},
    {OP_cumulate, "f64[9,3]", "axis=0 kind=max exclusive=1 reverse=0", 0}, {OP_cumulate, "f16[5,30]", "axis=1 kind=min" CUMULATE, 0},
    {OP_cumulate, "s8[5,30]", "axis=1 kind=sum" CUMULATE, 100}, {OP_cumulate, "u8[5,9]", "axis=0 kind=max exclusive=1 reverse=1", 100},
    {OP_cumulate, "s16[9]", "axis=0 kind=min exclusive=1 reverse=0", 100}, {OP_cumulate, "f32[1,1]", "axis=0 kind=sum exclusive=1 reverse=0", 0},
    {OP_argwindow, "f32[1,2,7,6]", "window=1,1,3,2 stride=1,1,2,2 pad_lo=0,0,1,0 pad_hi=0,0,1,0 dilation=1,1,1,2 kind=max order=row", 0},
    {OP_argwindow, "f16[2,2,9,6]", "window=1,1,3,2 stride=1,1,1,1 pad_lo=0,0,2,1 pad_hi=0,0,2,1 dilation=1,1,2,1 kind=min order=column", 0},
    {OP_argwindow, "s8[1,1,3,4,5]", "window=1,1,2,2,2 stride=1,1,1,1,2 pad_lo=0,0,0,1,0 pad_hi=0,0,0,0,1 dilation=1,1,1,1,1 kind=max order=column", 2},
    {OP_argwindow, "f32[1,1,2]", "window=1,1,3 stride=1,1,1 pad_lo=0,0,5 pad_hi=0,0,5 dilation=1,1,1 kind=max order=row", 0},
    {OP_scatter_elements, "f32[6,4] s64[5,4] f32[5,4]", "axis=0 combine=none", 6}, {OP_scatter_elements, "f32[6,4] s32[5,3] f32[5,3]", "axis=0 combine=add", 6},
    {OP_scatter_elements, "f16[3,9] s64[3,20] f16[3,20]", "axis=1 combine=mul", 9}, {OP_scatter_elements, "bf16[3,9,2] s64[3,20,1] bf16[3,20,1]", "axis=1 combine=max", 9},
    {OP_scatter_elements, "s8[3,9] s64[2,20] s8[2,20]", "axis=1 combine=min", 12}, {OP_scatter_elements, "bool[7] s64[0] bool[0]", "axis=0 combine=none", 1},
    {OP_scatter_nd, "f32[4,4,5] s64[7,2] f32[7,5]", "combine=add", 4}, {OP_scatter_nd, "f32[4,5] s64[2,3,1] f32[2,3,5]", "combine=none", 4},
    {OP_scatter_nd, "f64[4] s64[30,1] f64[30]", "combine=mul", 4}, {OP_scatter_nd, "s32[4,3] s32[9,2] s32[9]", "combine=max", 4},
    {OP_scatter_nd, "f32[4,3] s64[2,0] f32[2,4,3]", "combine=min", 1}, {OP_scatter_nd, "f32[4,3] s64[0,1] f32[0,3]", "combine=add", 1},
    {OP_topk, "f32[40]", "axis=0 size=40 kind=max", 0}, {OP_topk, "f32[3,33,2]", "axis=1 size=7 kind=min", 0}, {OP_topk, "f16[5,1]", "axis=1 size=1 kind=max", 0},
    {OP_topk, "u8[5,70]", "axis=1 size=3 kind=max", 3}, {OP_topk, "s64[70,2]", "axis=0 size=64 kind=min", 3}, {OP_topk, "f64[100]", "axis=0 size=1 kind=max", 0},
    {OP_conv, "f32[1,70,3,4,5] f32[2,70,2,2,3]", "stride=1,1,1 pad_lo=0,1,1 pad_hi=0,1,1 dilation=1,1,1 lhs_dilation=1,1,1 groups=1 flip=0", 0},
};
/* clang-format on */

static void every_case_is_ref32(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(cases); i++)
        check_case(&cases[i], i + 1);
}

/* The cases hold every op that has a lowering, or another op of its MAP rule. */
static void every_lowering_is_run(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        LowerFn *lower = op_defs[op].lower;
        bool found = lower == lower_uncompiled || lower == lower_regions || lower == lower_expand;
        for (size_t i = 0; i < IG_COUNT(cases) && !found; i++)
            found = op_defs[cases[i].op].lower == lower;
        if (!found)
            fail_msg("%s is lowered, but no case runs it", op_info[op].name);
    }
}

/* Sizes of blocks, by numerics.md "Contraction". */
static void blocks_are_whole_rows(void **state)
{
    static const struct {
        const char *x, *w, *attrs;
        int64_t kb;
    } convs[] = {
        {"f32[1,64,8,8]", "f32[8,64,3,3]", "stride=1,1 pad_lo=0,0 pad_hi=0,0 " CONV "1 flip=0", 384},
        {"f32[1,3,8,8]", "f32[8,3,7,7]", "stride=1,1 pad_lo=0,0 pad_hi=0,0 " CONV "1 flip=0", 504},
        {"f32[1,512,8,8]", "f32[8,512,3,3]", "stride=1,1 pad_lo=0,0 pad_hi=0,0 " CONV "1 flip=0", 1536},
        {"f32[1,960,8,8]", "f32[8,960,1,1]", "stride=1,1 pad_lo=0,0 pad_hi=0,0 " CONV "1 flip=0", 512},
        {"f32[1,8,8,8]", "f32[8,1,3,3]", "stride=1,1 pad_lo=0,0 pad_hi=0,0 " CONV "8 flip=0", 510},
    };
    (void)state;
    for (size_t i = 0; i < IG_COUNT(convs); i++) {
        OpText f = op_text_begin();
        Func *func;
        Case c = {OP_conv, arena_printf(f.arena, "%s %s", convs[i].x, convs[i].w), convs[i].attrs, 0};
        Node *node = make_node(&f, &c, &func);
        Kernel *k = kernel_create(f.ctx, f.arena, str_intern(f.ctx, "k"));
        const Expr *out[4];
        for (uint32_t a = 0; a < 4; a++)
            out[a] = lx_iter(k, kernel_iter(k, "o", 0, type_dim(node->out[0].type, a) - 1));
        LowerArgs args = {.k = k, .node = node, .out = out};
        assert_true(op_defs[OP_conv].lower(&args));
        assert_int_equal(args.nest.kb, convs[i].kb);
        assert_int_equal(args.nest.form, FORM_CHAIN);
        assert_null(args.nest.guard); /* no padding: nothing to ask */
        ctx_destroy(f.ctx);
    }
}

/* An index outside is clamped and recorded; one inside records nothing. */
static void bad_indices_are_recorded(void **state)
{
    (void)state;
    OpText f = op_text_begin();
    Func *func;
    Case c = {OP_gather, "f32[3] s64[4]", "axis=0 batch=0", 0};
    Node *node = make_node(&f, &c, &func);
    Kernel *k = build(&f, node);
    float x[3] = {10, 20, 30}, y[4];
    int64_t good[4] = {0, 2, -1, -3}, bad[4] = {3, -4, INT64_MAX, INT64_MIN};
    uint64_t error = 0;
    kernel_interp(k, (void *const[]){x, good, y}, 0, kernel_tiles(k), &error);
    assert_memory_equal(y, ((float[]){10, 30, 30, 10}), sizeof y);
    assert_int_equal(error, 0);
    kernel_interp(k, (void *const[]){x, bad, y}, 0, kernel_tiles(k), &error);
    assert_memory_equal(y, ((float[]){30, 10, 30, 10}), sizeof y);
    assert_int_equal(error >> 8, node->id);
    ctx_destroy(f.ctx);
}

static void what_is_not_compiled_is_reported(void **state)
{
    (void)state;
    static const Case refused[] = {{OP_cumulate, "f32[N]", "axis=0 kind=sum exclusive=0 reverse=0", 0},
                                   {OP_transpose, "u4[2,3]", "perm=1,0", 0},
                                   {OP_neg, "f32[N]", "", 0}};
    for (size_t i = 0; i < IG_COUNT(refused); i++) {
        OpText f = op_text_begin();
        Func *func;
        Node *node = make_node(&f, &refused[i], &func);
        LowerArgs args = {.k = kernel_create(f.ctx, f.arena, str_intern(f.ctx, "k")), .node = node};
        assert_false(op_defs[node->op].lower(&args));
        assert_int_equal(diag_get(f.ctx, 0)->id, DIAG_op_uncompiled);
        ctx_destroy(f.ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_is_ref32), cmocka_unit_test(every_lowering_is_run),
                                       cmocka_unit_test(blocks_are_whole_rows),
                                       cmocka_unit_test(bad_indices_are_recorded),
                                       cmocka_unit_test(what_is_not_compiled_is_reported)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
