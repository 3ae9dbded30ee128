/* SPDX-License-Identifier: Apache-2.0
 *
 * op_emit: folds that keep every bit, equal nodes found again, contents of small integer tensors followed through shape
 * arithmetic; expansion of composites; semantic verification.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "eval/eval.h"
#include "op/op.h"

typedef struct Fixture {
    Context *ctx;
    Module *module;
    Func *func;
    Builder b;
    const Dim *n; /* a symbol */
} Fixture;

static int begin(void **state)
{
    static Fixture f; /* one test at a time */
    f.ctx = ctx_create(NULL);
    f.module = module_create(f.ctx);
    f.func = module_func(f.module, str_intern(f.ctx, "main"), true);
    f.b = ir_at_end(f.func->body, loc_text(f.ctx, str_intern(f.ctx, "t.ig"), 1, 1));
    f.n = dim_sym(f.ctx, module_sym(f.module, str_intern(f.ctx, "N"), 1, 2048));
    *state = &f;
    return 0;
}

static int end(void **state)
{
    Fixture *f = *state;
    ctx_destroy(f->ctx);
    return 0;
}

static Val *param(Fixture *f, DType dtype, uint32_t rank, const int64_t *dims)
{
    return func_param(f->func, str_intern(f->ctx, "x"), type_tensor_s64(f->ctx, dtype, rank, dims));
}
#define DIMS(...)                                                                                                      \
    (const int64_t[]) { __VA_ARGS__ }
#define PARAM(f, dtype, ...) param(f, dtype, sizeof(DIMS(__VA_ARGS__)) / 8, DIMS(__VA_ARGS__))

static Val *dimval(Fixture *f, const Dim *dim)
{
    AttrVal attr = attr_dim(dim);
    return op_emit(&f->b, OP_dimval, NULL, 0, &attr, 1);
}

static Val *gather0(Fixture *f, Val *data, Val *index)
{
    AttrVal attrs[2] = {attr_int(0), attr_int(0)};
    return op_emit(&f->b, OP_gather, (Val *[]){data, index}, 2, attrs, 2);
}

static const char *content_text(Fixture *f, const Val *val)
{
    uint32_t n;
    const Dim *const *dims = op_content(val, &n);
    Text text;
    text_init(&text, ctx_arena(f->ctx));
    for (uint32_t i = 0; i < n; i++) {
        text_add(&text, i ? "," : "");
        dim_print(&text, dims[i]);
    }
    return text.data;
}

/* Shape of [N, 12, 64] -> Gather -> Mul -> Concat, as exporters write a head merge. */
static void shape_arithmetic_is_followed(void **state)
{
    Fixture *f = *state;
    Builder *b = &f->b;
    Val *parts[3] = {op_reshape_s64(b, dimval(f, f->n), 1, DIMS(1)), op_const_ints(b, DIMS(12), 1),
                     op_const_ints(b, DIMS(64), 1)};
    Val *shape = op_concat(b, parts, 3, 0);
    assert_string_equal(content_text(f, shape), "N,12,64");
    Val *heads = gather0(f, shape, op_const_s64(b, DT_S64, -2)), *depth = gather0(f, shape, op_const_s64(b, DT_S64, 2));
    Val *merged = op_binary(b, OP_mul, heads, depth);
    int64_t value = 0;
    assert_true(op_const_value(merged, &value));
    assert_int_equal(value, 768);
    assert_int_equal(merged->def->op, OP_const);
    Val *batch = gather0(f, shape, op_const_s64(b, DT_S64, 0));
    Val *target[2] = {op_reshape_s64(b, batch, 1, DIMS(1)), op_reshape_s64(b, merged, 1, DIMS(1))};
    assert_string_equal(content_text(f, op_concat(b, target, 2, 0)), "N,768");
    Val *twice = op_binary(b, OP_add, batch, batch);
    assert_string_equal(content_text(f, twice), "2*N");
    assert_string_equal(content_text(f, op_cast_to(b, twice, DT_S32)), "2*N");
    Val *total = op_reduce(b, shape, "prod", DIMS(0), 1);
    assert_string_equal(content_text(f, total), "768*N");
}

static void expand_pattern_is_followed(void **state)
{
    Fixture *f = *state;
    Builder *b = &f->b;
    Val *wanted = op_const_ints(b, DIMS(-1, 4), 2), *have = op_const_ints(b, DIMS(7, 1), 2);
    Val *is_free = op_binary(b, OP_eq, wanted, op_const_s64(b, DT_S64, -1));
    assert_string_equal(content_text(f, is_free), "1,0");
    assert_string_equal(content_text(f, op_select(b, is_free, have, wanted)), "7,4");
    Val *picked = op_slice_axis(b, have, 0, dim_const(f->ctx, 1), dim_const(f->ctx, 2), -1);
    assert_string_equal(content_text(f, picked), "1,7");
}

/* Wrapped, divided by zero, out of range, unknown: no content. Division truncates; mod follows the divisor. */
static void contents_are_exact_or_unknown(void **state)
{
    Fixture *f = *state;
    Builder *b = &f->b;
    Val *seven = op_const_s64(b, DT_S64, -7), *two = op_const_s64(b, DT_S64, 2), *zero = op_const_s64(b, DT_S64, 0);
    assert_string_equal(content_text(f, op_binary(b, OP_div, seven, two)), "-3");
    assert_string_equal(content_text(f, op_binary(b, OP_mod, seven, two)), "1");
    assert_string_equal(content_text(f, op_binary(b, OP_rem, seven, two)), "-1");
    assert_string_equal(content_text(f, op_binary(b, OP_div, seven, zero)), "");
    Val *big = op_const_s64(b, DT_S64, INT64_MAX);
    assert_string_equal(content_text(f, op_binary(b, OP_add, big, two)), "");
    assert_string_equal(content_text(f, op_cast_to(b, op_const_s64(b, DT_S64, 300), DT_U8)), "");
    assert_string_equal(content_text(f, op_cast_to(b, op_const_s64(b, DT_S64, 300), DT_BOOL)), "1");
    assert_string_equal(content_text(f, gather0(f, op_const_ints(b, DIMS(1, 2), 2), op_const_s64(b, DT_S64, 5))), "");
    assert_string_equal(content_text(f, PARAM(f, DT_S64, 2)), "");
    assert_string_equal(content_text(f, op_const_f64(b, DT_F32, 2)), "");
    Val *deep =
        op_concat(b, (Val *[]){op_reshape_s64(b, dimval(f, f->n), 1, DIMS(1)), op_const_ints(b, DIMS(1), 1)}, 2, 0);
    for (int i = 0; i < 200; i++) { /* 3^200 paths: the walk gives up, it does not hang */
        deep = op_binary(b, OP_sub, op_binary(b, OP_add, deep, deep), deep);
        if (i == 1)
            assert_string_equal(content_text(f, deep), "N,1");
    }
    assert_string_equal(content_text(f, deep), "");
}

static void moves_fold(void **state)
{
    Fixture *f = *state;
    Builder *b = &f->b;
    Val *x = PARAM(f, DT_F32, 2, 3, 4);
    assert_ptr_equal(op_reshape_s64(b, x, 3, DIMS(2, 3, 4)), x);
    Val *flat = op_reshape_s64(b, x, 1, DIMS(24));
    assert_ptr_equal(op_reshape_s64(b, flat, 3, DIMS(2, 3, 4)), x);
    assert_ptr_equal(op_reshape_s64(b, flat, 2, DIMS(6, 4))->def->in[0].val, x);
    Val *turned = op_transpose(b, x, DIMS(2, 0, 1));
    assert_ptr_equal(op_transpose(b, turned, DIMS(1, 2, 0)), x);
    assert_ptr_equal(op_transpose(b, turned, DIMS(0, 2, 1))->def->in[0].val, x);
    assert_ptr_equal(op_transpose(b, x, DIMS(0, 1, 2)), x);
    const Dim *same[3] = {dim_const(f->ctx, 2), dim_const(f->ctx, 3), dim_const(f->ctx, 4)};
    assert_ptr_equal(op_broadcast(b, x, 3, same), x);
    assert_ptr_equal(op_slice_axis(b, x, 1, dim_const(f->ctx, 0), dim_const(f->ctx, 3), 1), x);
    assert_ptr_not_equal(op_slice_axis(b, x, 1, dim_const(f->ctx, 2), dim_const(f->ctx, 3), -1), x);
    assert_ptr_equal(op_concat(b, &x, 1, 0), x);
    Val *empty = PARAM(f, DT_F32, 2, 0, 4);
    assert_ptr_equal(op_concat(b, (Val *[]){empty, x, empty}, 3, 1), x);
    assert_ptr_equal(op_cast_to(b, x, DT_F32), x);
}

static void concats_share_what_they_begin_with(void **state)
{
    Fixture *f = *state;
    Builder *b = &f->b;
    Val *in[] = {PARAM(f, DT_F32, 2, 3), PARAM(f, DT_F32, 2, 5), PARAM(f, DT_F32, 2, 2), PARAM(f, DT_F32, 2, 1)};
    Val *two = op_concat(b, in, 2, 1), *three = op_concat(b, in, 3, 1), *four = op_concat(b, in, 4, 1);
    assert_int_equal(three->def->n_in, 2);
    assert_ptr_equal(ir_in(three->def, 0), two);
    assert_int_equal(four->def->n_in, 2);
    assert_ptr_equal(ir_in(four->def, 0), three);
    assert_int_equal(op_concat(b, (Val *[]){in[0], in[2], in[1]}, 3, 1)->def->n_in, 3);
    Val *part[4];
    for (int i = 0; i < 4; i++)
        part[i] = op_slice_axis(b, four, 1, dim_const(f->ctx, (int64_t[]){0, 4, 7, 8}[i]), dim_const(f->ctx, (int64_t[]){4, 3, 4, 3}[i]), 1);
    assert_ptr_equal(op_concat(b, part, 3, 1), four);
    assert_ptr_equal(op_concat(b, part + 1, 2, 1), op_slice_axis(b, four, 1, dim_const(f->ctx, 4), dim_const(f->ctx, 7), 1));
    assert_int_equal(op_concat(b, (Val *[]){part[1], part[0]}, 2, 1)->def->n_in, 2);
    assert_int_equal(op_concat(b, (Val *[]){part[1], part[3]}, 2, 1)->def->n_in, 2);
    assert_int_equal(op_concat(b, (Val *[]){part[1], part[3]}, 2, 0)->def->n_in, 2);
}

/* One known index inside the axis is a slice; one outside stays a gather, which records the error when it runs. */
static void known_gathers_are_slices(void **state)
{
    Fixture *f = *state;
    Val *x = PARAM(f, DT_F32, 3, 5);
    Val *last = gather0(f, x, op_const_s64(&f->b, DT_S64, -1));
    assert_ptr_equal(last->type, type_tensor_s64(f->ctx, DT_F32, 1, DIMS(5)));
    assert_int_equal(last->def->op, OP_reshape);
    const Node *slice = last->def->in[0].val->def;
    const Dim *const *start;
    assert_int_equal(slice->op, OP_slice);
    node_dims(slice, AN_start, &start);
    assert_ptr_equal(start[0], dim_const(f->ctx, 2));
    assert_int_equal(gather0(f, x, op_const_s64(&f->b, DT_S64, 3))->def->op, OP_gather);
    assert_int_equal(gather0(f, x, PARAM(f, DT_S64, 1))->def->op, OP_gather);
}

/* Only what keeps every bit: f32 to f16 and back rounds, f16 to f32 and back does not; max turns -0 into +0. */
static void only_exact_folds(void **state)
{
    Fixture *f = *state;
    Builder *b = &f->b;
    Val *x = PARAM(f, DT_F32, 5, 1), *h = PARAM(f, DT_F16, 5, 1);
    assert_ptr_not_equal(op_cast_to(b, op_cast_to(b, x, DT_F16), DT_F32), x);
    assert_ptr_equal(op_cast_to(b, op_cast_to(b, h, DT_F32), DT_F16), h);
    assert_ptr_not_equal(op_reduce(b, x, "max", DIMS(1), 1), x);
    assert_ptr_equal(op_reduce(b, x, "sum", DIMS(1), 1), x);
    assert_ptr_not_equal(op_binary(b, OP_add, x, op_like(b, x, 0)), x);
}

static void equal_nodes_are_found(void **state)
{
    Fixture *f = *state;
    Builder *b = &f->b;
    Val *x = PARAM(f, DT_F32, 5), *y = PARAM(f, DT_F32, 5);
    Val *sum = op_binary(b, OP_add, x, y);
    assert_ptr_equal(op_binary(b, OP_add, x, y), sum);
    assert_ptr_equal(op_binary(b, OP_add, y, x), sum);
    assert_ptr_not_equal(op_binary(b, OP_sub, x, y), op_binary(b, OP_sub, y, x));
    assert_ptr_not_equal(op_binary(b, OP_max, x, y), op_binary(b, OP_max, y, x)); /* -0, NaN */
    assert_ptr_equal(op_const_f64(b, DT_F32, 3), op_const_f64(b, DT_F32, 3));
    Val *gone = op_unary(b, OP_exp, x);
    ir_erase(gone->def);
    Val *again = op_unary(b, OP_exp, x);
    assert_ptr_equal(again->def->parent, f->func->body);
    Builder early = ir_before_node(sum->def, b->loc); /* a node behind the insertion point is no help */
    assert_ptr_not_equal(op_unary(&early, OP_exp, x), again);
}

static void matmul_follows_numpy(void **state)
{
    Fixture *f = *state;
    Builder *b = &f->b;
    static const struct {
        uint32_t rx, ry, r;
        int64_t x[4], y[4], want[4];
    } cases[] = {{2, 2, 2, {2, 3}, {3, 5}, {2, 5}},
                 {1, 1, 0, {3}, {3}, {0}},
                 {1, 2, 1, {3}, {3, 5}, {5}},
                 {3, 1, 2, {4, 2, 3}, {3}, {4, 2}},
                 {1, 3, 2, {3}, {4, 3, 5}, {4, 5}},
                 {4, 3, 4, {7, 1, 2, 3}, {4, 3, 5}, {7, 4, 2, 5}},
                 {2, 3, 3, {2, 3}, {4, 3, 5}, {4, 2, 5}},
                 {3, 2, 3, {4, 2, 3}, {3, 5}, {4, 2, 5}}};
    for (size_t i = 0; i < IG_COUNT(cases); i++) {
        Val *r = op_matmul(b, param(f, DT_F32, cases[i].rx, cases[i].x), param(f, DT_F32, cases[i].ry, cases[i].y));
        assert_non_null(r);
        assert_ptr_equal(r->type, type_tensor_s64(f->ctx, DT_F32, cases[i].r, cases[i].want));
    }
    assert_null(op_matmul(b, PARAM(f, DT_F32, 2, 2, 3), PARAM(f, DT_F32, 3, 3, 5)));
    assert_int_equal(diag_get(f->ctx, 0)->id, DIAG_op_shape);
}

/* A failed operand fails what is built on it, without a second message. */
static void failures_are_reported_once(void **state)
{
    Fixture *f = *state;
    Builder *b = &f->b;
    Val *bad = op_unary(b, OP_exp, PARAM(f, DT_S32, 3));
    assert_null(bad);
    assert_null(op_binary(b, OP_add, op_unary(b, OP_neg, bad), bad));
    assert_null(op_emit(b, OP_neg, &bad, 1, NULL, 0));
    assert_int_equal(diag_count(f->ctx), 1);
}

static void call_is_typed_by_its_function(void **state)
{
    Fixture *f = *state;
    Func *callee = module_func(f->module, str_intern(f->ctx, "callee"), false);
    Val *p = func_param(callee, str_intern(f->ctx, "p"), type_tensor_s64(f->ctx, DT_F32, 1, DIMS(4)));
    func_yield(callee, f->b.loc, (Val *[]){p, p}, (Str[]){str_intern(f->ctx, "a"), str_intern(f->ctx, "b")}, 2);
    AttrVal attr = attr_func(callee);
    Val *x = PARAM(f, DT_F32, 4), *y = PARAM(f, DT_F32, 5);
    Val *r = op_emit(&f->b, OP_call, &x, 1, &attr, 1);
    assert_non_null(r);
    assert_int_equal(r->def->n_out, 2);
    assert_null(op_emit(&f->b, OP_call, &y, 1, &attr, 1));
    assert_int_equal(diag_get(f->ctx, 0)->id, DIAG_op_shape);
}

static void classes(void **state)
{
    Fixture *f = *state;
    Val *x = PARAM(f, DT_F32, 4, 4), *i = PARAM(f, DT_S32, 4, 4);
    assert_string_equal(op_class(op_reduce(&f->b, x, "sum", DIMS(0), 1)->def), "ref32");
    assert_string_equal(op_class(op_reduce(&f->b, x, "max", DIMS(0), 1)->def), "exact");
    assert_string_equal(op_class(op_reduce(&f->b, i, "sum", DIMS(0), 1)->def), "exact");
    assert_string_equal(op_class(op_matmul(&f->b, x, x)->def), "ref32");
    assert_string_equal(op_class(op_matmul(&f->b, i, i)->def), "exact");
    assert_string_equal(op_class(op_unary(&f->b, OP_exp, x)->def), "");
}

/* ---- verification ----------------------------------------------------------------------------------------------- */

static void wrong_types_are_found(void **state)
{
    Fixture *f = *state;
    Val *x = PARAM(f, DT_F32, 4);
    const Type *wrong = type_tensor_s64(f->ctx, DT_F32, 1, DIMS(5));
    Node *node = ir_emit(&f->b, OP_exp, &x, 1, NULL, &wrong, 1);
    func_yield(f->func, f->b.loc, (Val *[]){ir_out(node, 0)}, (Str[]){str_intern(f->ctx, "y")}, 1);
    assert_false(op_verify(f->module));
    assert_int_equal(diag_get(f->ctx, 0)->id, DIAG_op_result_type);
    node->out[0].type = x->type;
    diag_clear(f->ctx);
    assert_true(op_verify(f->module));
}

static Node *make_if(Fixture *f, Val *cond, Val *x, bool same)
{
    Node *node = ir_emit(&f->b, OP_if, (Val *[]){cond, x}, 2, NULL, (const Type *[]){x->type}, 1);
    for (int r = 0; r < 2; r++) {
        Region *region = ir_add_region(node);
        Val *p = region_param(region, x->type);
        Builder b = ir_at_end(region, f->b.loc);
        Val *y = r && !same ? op_reshape_s64(&b, p, 2, DIMS(2, 2)) : op_unary(&b, OP_neg, p);
        ir_emit(&b, OP_yield, &y, 1, NULL, NULL, 0);
    }
    return node;
}

static void regions_are_checked(void **state)
{
    Fixture *f = *state;
    Val *x = PARAM(f, DT_F32, 4), *cond = param(f, DT_BOOL, 0, NULL);
    Node *good = make_if(f, cond, x, true);
    func_yield(f->func, f->b.loc, (Val *[]){ir_out(good, 0)}, (Str[]){str_intern(f->ctx, "y")}, 1);
    assert_true(op_verify(f->module));
    f->b = ir_before_node(f->func->body->last, f->b.loc);
    make_if(f, cond, x, false);
    assert_false(op_verify(f->module));
    assert_int_equal(diag_get(f->ctx, 0)->id, DIAG_op_region);
}

static void loops_are_checked(void **state)
{
    Fixture *f = *state;
    Val *trip = param(f, DT_S64, 0, NULL), *x = PARAM(f, DT_F32, 4), *rows = PARAM(f, DT_F32, 9, 4);
    AttrVal attrs[2] = {attr_int(1), attr_int(1)};
    Node *node = ir_emit(&f->b, OP_loop, (Val *[]){trip, NULL, x, rows}, 4, attrs_make(f->ctx, attrs, 2),
                         (const Type *[]){x->type, rows->type}, 2);
    Region *body = ir_add_region(node);
    region_param(body, trip->type);
    Val *carried = region_param(body, x->type), *row = region_param(body, x->type);
    Builder b = ir_at_end(body, f->b.loc);
    Val *sum = op_binary(&b, OP_add, carried, row), *go = op_const_s64(&b, DT_BOOL, 1);
    Node *yield = ir_emit(&b, OP_yield, (Val *[]){go, sum, row}, 3, NULL, NULL, 0);
    func_yield(f->func, f->b.loc, (Val *[]){ir_out(node, 0)}, (Str[]){str_intern(f->ctx, "y")}, 1);
    assert_true(op_verify(f->module));
    ir_set_in(yield, 0, sum);
    assert_false(op_verify(f->module));
    assert_int_equal(diag_get(f->ctx, 0)->id, DIAG_op_region);
}

/* ---- composites ------------------------------------------------------------------------------------------------- */

/* Runs main of one f32 parameter and gives its first result as doubles. */
static void run(Fixture *f, const float *data, double *result, uint32_t n)
{
    Arena *arena = arena_create(f->ctx);
    const Type *type = f->func->body->params.data[0]->type;
    Tensor in = {.dtype = type->dtype, .store = type->dtype, .rank = type->rank}, *list[1] = {&in}, *out[4];
    uint64_t error = 0;
    type_count(type, &in.count);
    for (uint32_t a = 0; a < type->rank; a++)
        in.dim[a] = type_dim(type, a);
    in.data = arena_alloc(arena, in.count * 8);
    for (uint64_t i = 0; i < in.count; i++)
        elem_set_f64(in.dtype, in.data, i, (double)data[i]);
    assert_true(eval_func(f->ctx, arena, EVAL_REF32, f->func, list, out, &error));
    assert_int_equal(out[0]->count, n);
    for (uint32_t i = 0; i < n; i++)
        result[i] = elem_get_f64(out[0]->dtype, out[0]->data, i);
    arena_destroy(arena);
}

static void finish(Fixture *f, Val *y)
{
    assert_non_null(y);
    func_yield(f->func, f->b.loc, &y, (Str[]){str_intern(f->ctx, "y")}, 1);
}

/* The bits of an evaluation do not change when composites are replaced by their bodies. */
static void argreduce_is_its_body(void **state)
{
    static const float data[] = {1, 3,   3, 2,   -0.0f,     0,         -1,        0,
                                 5, NAN, 7, NAN, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    for (int kind = 0; kind < 4; kind++) {
        begin(state);
        Fixture *f = *state;
        AttrVal attrs[3] = {attr_int(1), attr_str(f->ctx, kind & 1 ? "min" : "max"), attr_bool(kind & 2)};
        Val *x = PARAM(f, DT_F32, 4, 4);
        Val *index = op_emit(&f->b, OP_argreduce, &x, 1, attrs, 3);
        finish(f, index);
        double before[4], after[4];
        run(f, data, before, 4);
        assert_true(op_expand(index->def));
        assert_true(ir_verify(f->module) && op_verify(f->module));
        run(f, data, after, 4);
        assert_memory_equal(before, after, sizeof before);
        assert_true(before[2] == 1); /* the first NaN, last or not */
        if (kind < 3)
            end(state);
    }
}

/* Inside, a composite of 16-bit floats computes in f32: relu and clip excepted, it casts first and last. */
static void narrow_composites_compute_wide(void **state)
{
    Fixture *f = *state;
    Val *x = PARAM(f, DT_F16, 2, 3), *g = op_emit(&f->b, OP_gelu, &x, 1, (AttrVal[]){attr_str(f->ctx, "none")}, 1);
    finish(f, g);
    assert_true(op_expand(g->def));
    assert_true(ir_verify(f->module) && op_verify(f->module));
    const Node *last = func_out(f->func, 0)->def;
    assert_int_equal(last->op, OP_cast);
    assert_int_equal(last->in[0].val->type->dtype, DT_F32);
    const LocInfo *info = loc_info(f->ctx, last->loc);
    assert_int_equal(info->kind, LOC_FROM);
    assert_string_equal(info->what, "expand");
}

/* Rows without any key are 0, not NaN (ONNX Attention-23); a causal row sees its past only. */
static void attention_masks(void **state)
{
    Fixture *f = *state;
    Val *x = PARAM(f, DT_F32, 1, 2, 1);
    uint8_t keep[4] = {0, 0, 1, 1};
    Val *mask = op_const_weight(&f->b, module_weight(f->module, str_intern(f->ctx, "m"),
                                                     type_tensor_s64(f->ctx, DT_BOOL, 2, DIMS(2, 2)), keep, true));
    AttrVal attrs[3] = {attr_float(1), attr_bool(false), attr_float(0)};
    finish(f, op_emit(&f->b, OP_sdpa, (Val *[]){x, x, x, mask}, 4, attrs, 3));
    double y[2];
    run(f, (float[]){2, 4}, y, 2);
    assert_true(y[0] == 0);
    assert_true(y[1] > 3.99 && y[1] < 4);
}

static void average_counts(void **state)
{
    Fixture *f = *state;
    Val *x = PARAM(f, DT_F32, 1, 1, 3);
    AttrVal attrs[6] = {attr_ints(DIMS(1, 1, 3), 3), attr_ints(DIMS(1, 1, 1), 3), attr_ints(DIMS(0, 0, 1), 3),
                        attr_ints(DIMS(0, 0, 1), 3), attr_ints(DIMS(1, 1, 1), 3), attr_bool(false)};
    finish(f, op_emit(&f->b, OP_avg_pool, &x, 1, attrs, 6));
    double y[3];
    run(f, (float[]){2, 4, 9}, y, 3);
    assert_true(y[0] == 3 && y[1] == 5 && y[2] == 6.5);
}

static void relu_keeps_negative_zero_and_nan(void **state)
{
    Fixture *f = *state;
    Val *x = PARAM(f, DT_F32, 3);
    finish(f, op_unary(&f->b, OP_relu, x));
    double y[3];
    run(f, (float[]){-0.0f, NAN, -3}, y, 3);
    assert_true(y[0] == 0 && signbit(y[0]) && isnan(y[1]) && y[2] == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void)
{
    const struct CMUnitTest tests[] = {TEST(shape_arithmetic_is_followed),
                                       TEST(expand_pattern_is_followed),
                                       TEST(contents_are_exact_or_unknown),
                                       TEST(moves_fold),
                                       TEST(concats_share_what_they_begin_with),
                                       TEST(known_gathers_are_slices),
                                       TEST(only_exact_folds),
                                       TEST(equal_nodes_are_found),
                                       TEST(matmul_follows_numpy),
                                       TEST(failures_are_reported_once),
                                       TEST(call_is_typed_by_its_function),
                                       TEST(classes),
                                       TEST(wrong_types_are_found),
                                       TEST(regions_are_checked),
                                       TEST(loops_are_checked),
                                       cmocka_unit_test_teardown(argreduce_is_its_body, end),
                                       TEST(narrow_composites_compute_wide),
                                       TEST(attention_masks),
                                       TEST(average_counts),
                                       TEST(relu_keeps_negative_zero_and_nan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
