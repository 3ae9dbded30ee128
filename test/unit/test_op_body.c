/* SPDX-License-Identifier: Apache-2.0
 *
 * Composites: every body builds, verifies and ends in primitives for every float type; its values in f64 are those of
 * the formula, also where a naive form overflows or loses its digits.
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

typedef struct Row {
    Op op;
    const char *in, *attrs;      /* T stands for the element type */
    double (*formula)(double x); /* of unary activations */
} Row;

static double f_relu(double x) { return x < 0 ? 0 : x; }
static double f_leaky(double x) { return x < 0 ? 0.1 * x : x; }
static double f_elu(double x) { return x < 0 ? 0.5 * expm1(x) : x; }
static double f_selu(double x) { return 2 * (x < 0 ? 1.5 * expm1(x) : x); }
static double f_celu(double x) { return x < 0 ? 0.5 * expm1(x / 0.5) : x; }
static double f_gelu(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }
static double f_gelu_tanh(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))); }
static double f_silu(double x) { return x / (1 + exp(-2 * x)); }
static double f_softplus(double x) { return x > 40 ? x : log1p(exp(x)); }
static double f_mish(double x) { return x * tanh(f_softplus(x)); }
static double f_softsign(double x) { return x / (1 + fabs(x)); }
static double f_hard_sigmoid(double x) { return fmax(0, fmin(1, 0.2 * x + 0.5)); }
static double f_hard_swish(double x) { return x * fmax(0, fmin(1, x / 6 + 0.5)); }

#define WINDOW "window=1,1,3,2 stride=1,1,2,1 pad_lo=0,0,1,0 pad_hi=0,0,1,1 dilation=1,1,1,1 count_pad="
static const Row rows[] = {
    {OP_relu, "T[9]", "", f_relu},
    {OP_leaky_relu, "T[9]", "alpha=0.1", f_leaky},
    {OP_prelu, "T[2,3] T[1,3]", "", NULL},
    {OP_elu, "T[9]", "alpha=0.5", f_elu},
    {OP_selu, "T[9]", "alpha=1.5 beta=2", f_selu},
    {OP_celu, "T[9]", "alpha=0.5", f_celu},
    {OP_gelu, "T[9]", "approx=none", f_gelu},
    {OP_gelu, "T[9]", "approx=tanh", f_gelu_tanh},
    {OP_silu, "T[9]", "alpha=2", f_silu},
    {OP_mish, "T[9]", "", f_mish},
    {OP_softplus, "T[9]", "", f_softplus},
    {OP_softsign, "T[9]", "", f_softsign},
    {OP_hard_sigmoid, "T[9]", "alpha=0.2 beta=0.5", f_hard_sigmoid},
    {OP_hard_swish, "T[9]", "", f_hard_swish},
    {OP_clip, "T[2,3] T[] -", "", NULL},
    {OP_argreduce, "T[2,3]", "axis=0 kind=max last=1", NULL},
    {OP_mean, "T[2,3]", "axes=0,1", NULL},
    {OP_logsumexp, "T[2,3]", "axes=1", NULL},
    {OP_softmax, "T[2,3]", "axes=1 norm=mul", NULL},
    {OP_softmax, "T[2,N]", "axes=1 norm=div", NULL},
    {OP_log_softmax, "T[2,3]", "axes=1", NULL},
    {OP_layer_norm, "T[2,N] T[N] T[1]", "axes=1 epsilon=1e-5", NULL},
    {OP_layer_norm, "T[2,3] T[3]", "axes=1 epsilon=1e-5", NULL},
    {OP_rms_norm, "T[2,3] T[3]", "axes=1 epsilon=1e-5", NULL},
    {OP_instance_norm, "T[2,3,4] T[3] T[3]", "epsilon=1e-5", NULL},
    {OP_group_norm, "T[2,6,4] T[6] T[6]", "groups=3 epsilon=1e-5", NULL},
    {OP_batch_norm, "T[2,3,N] T[3] T[3] T[3] T[3]", "epsilon=1e-5", NULL},
    {OP_lrn, "T[2,7,3]", "size=4 alpha=1 beta=0.75 epsilon=1", NULL},
    {OP_avg_pool, "T[1,2,7,6]", WINDOW "0", NULL},
    {OP_avg_pool, "T[1,2,7,6]", WINDOW "1", NULL},
    {OP_sdpa, "T[1,2,5,4] T[1,2,6,4] T[1,2,6,3] T[5,6]", "scale=0.5 causal=1 softcap=20", NULL},
    {OP_sdpa, "T[1,2,N,4] T[1,2,N,4] T[1,2,N,3] bool[N,N]", "scale=0.5 causal=0 softcap=0", NULL},
};

static const char *with_dtype(OpText *f, const char *in, const char *dtype)
{
    Text text;
    text_init(&text, f->arena);
    for (; *in; in++)
        *in == 'T' ? text_add(&text, dtype) : text_add_n(&text, in, 1);
    return text.data;
}

static Node *make(OpText *f, const Row *row, const char *dtype, Func **func)
{
    Val *in[16];
    uint32_t n;
    *func = op_text_func(f, with_dtype(f, row->in, dtype), in, &n);
    Builder b = ir_at_end((*func)->body, loc_text(f->ctx, str_intern(f->ctx, "t.ig"), 1, 1));
    Val *y = op_emit_interned(&b, row->op, in, n, op_text_attrs(f, row->op, row->attrs));
    assert_non_null(y);
    func_yield(*func, b.loc, &y, (Str[]){str_intern(f->ctx, "y")}, 1);
    return y->def;
}

/* Expands until no composite is left. */
static void expand_all(OpText *f, Func *func)
{
    for (Node *node = func->body->first, *next; node; node = next) {
        bool composite = op_is_composite((Op)node->op);
        Node *before = node->prev;
        next = node->next;
        if (composite) {
            assert_true(op_expand(node));
            next = before ? before->next : func->body->first; /* the body may hold composites */
        }
    }
    assert_true(ir_verify(f->module));
    assert_true(op_verify(f->module));
}

static void bodies_are_well_typed(void **state)
{
    static const char *const dtypes[] = {"f64", "f32", "f16", "bf16"};
    (void)state;
    for (size_t i = 0; i < IG_COUNT(rows); i++) {
        for (size_t d = 0; d < IG_COUNT(dtypes); d++) {
            OpText f = op_text_begin();
            Func *func;
            make(&f, &rows[i], dtypes[d], &func);
            const Type *type = func_out(func, 0)->type;
            expand_all(&f, func);
            assert_ptr_equal(func_out(func, 0)->type, type);
            ctx_destroy(f.ctx);
        }
    }
}

static void every_composite_has_a_row(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        bool found = !op_is_composite((Op)op);
        for (size_t i = 0; i < IG_COUNT(rows); i++)
            found |= rows[i].op == (Op)op;
        if (!found)
            fail_msg("%s has no row", op_info[op].name);
    }
}

/* Runs the function in f64; data[i] fills parameter i. */
static const double *run(OpText *f, const Func *func, const double *const *data, EvalMode mode)
{
    Tensor *in[8], *out[2];
    uint64_t error = 0;
    for (uint32_t i = 0; i < func->body->params.len; i++) {
        const Type *type = func->body->params.data[i]->type;
        in[i] = ARENA_NEW(f->arena, Tensor);
        *in[i] = (Tensor){.dtype = type->dtype, .store = type->dtype, .rank = type->rank};
        for (uint32_t a = 0; a < type->rank; a++)
            in[i]->dim[a] = type_dim(type, a);
        assert_true(type_count(type, &in[i]->count));
        in[i]->data = arena_alloc(f->arena, in[i]->count * 8);
        for (uint64_t e = 0; e < in[i]->count; e++)
            elem_set_f64(type->dtype, in[i]->data, e, data[i][e]);
    }
    assert_true(eval_func(f->ctx, f->arena, mode, func, in, out, &error));
    double *result = ARENA_ARRAY(f->arena, double, out[0]->count);
    for (uint64_t e = 0; e < out[0]->count; e++)
        result[e] = elem_get_f64(out[0]->store, out[0]->data, e);
    return result;
}

static void near(double have, double want, const char *what)
{
    bool same = isnan(want) ? isnan(have) : have == want || fabs(have - want) <= 1e-11 * fmax(1e-3, fabs(want));
    if (!same)
        fail_msg("%s: %.17g, expected %.17g", what, have, want);
}

static void activations_follow_their_formula(void **state)
{
    static const double x[9] = {-1000, -3.5, -1, -1e-9, 0, 1e-9, 0.7, 5, 1000};
    (void)state;
    for (size_t i = 0; i < IG_COUNT(rows); i++) {
        if (!rows[i].formula)
            continue;
        OpText f = op_text_begin();
        Func *func;
        make(&f, &rows[i], "f64", &func);
        const double *y = run(&f, func, (const double *const[]){x}, EVAL_F64);
        for (int e = 0; e < 9; e++)
            near(y[e], rows[i].formula(x[e]), op_info[rows[i].op].name);
        ctx_destroy(f.ctx);
    }
}

/* One op on f64 data against expected values. */
static void expect(const Row *row, const double *const *data, const double *want, uint32_t n)
{
    OpText f = op_text_begin();
    Func *func;
    make(&f, row, "f64", &func);
    const double *y = run(&f, func, data, EVAL_F64);
    for (uint32_t i = 0; i < n; i++)
        near(y[i], want[i], op_info[row->op].name);
    ctx_destroy(f.ctx);
}

static void rows_are_normalised(void **state)
{
    static const double logits[6] = {1e4, 1e4, 1e4, -1e4, -1e4, 1e4}, third = 1.0 / 3;
    static const double x[3] = {1, 2, 6}, g[3] = {1, 2, 3}, c[3] = {0.5, 0, 0};
    (void)state;
    expect(&(Row){OP_softmax, "T[2,3]", "axes=1 norm=mul", NULL}, (const double *const[]){logits},
           (double[]){third, third, third, 0, 0, 1}, 6);
    expect(&(Row){OP_log_softmax, "T[2,3]", "axes=1", NULL}, (const double *const[]){logits},
           (double[]){-log(3), -log(3), -log(3), -2e4, -2e4, 0}, 6);
    expect(&(Row){OP_logsumexp, "T[2,3]", "axes=1", NULL}, (const double *const[]){logits},
           (double[]){1e4 + log(3), 1e4}, 2);
    expect(&(Row){OP_logsumexp, "T[3]", "axes=0", NULL},
           (const double *const[]){(double[]){-INFINITY, -INFINITY, -INFINITY}}, (double[]){-INFINITY}, 1);
    double deviation = sqrt(14.0 / 3 + 1e-5);
    expect(&(Row){OP_layer_norm, "T[3] T[3] T[3]", "axes=0 epsilon=1e-5", NULL}, (const double *const[]){x, g, c},
           (double[]){-2 / deviation + 0.5, -2 / deviation, 9 / deviation}, 3);
    double rms = sqrt(41.0 / 3 + 1e-5);
    expect(&(Row){OP_rms_norm, "T[3] T[3]", "axes=0 epsilon=1e-5", NULL}, (const double *const[]){x, g},
           (double[]){1 / rms, 4 / rms, 18 / rms}, 3);
    expect(&(Row){OP_mean, "T[3]", "axes=0", NULL}, (const double *const[]){x}, (double[]){3}, 1);
}

static void channels_are_normalised(void **state)
{
    static const double x[8] = {1, 3, 2, 6, 0, 0, 5, 7}, g[4] = {1, 2, 3, 4}, c[4] = {0, 1, 0, 0};
    (void)state;
    double a = 1 / sqrt(1 + 1e-5), b = 2 / sqrt(4 + 1e-5);
    expect(&(Row){OP_instance_norm, "T[1,4,2] T[4] T[4]", "epsilon=1e-5", NULL}, (const double *const[]){x, g, c},
           (double[]){-a, a, 1 - 2 * b, 1 + 2 * b, 0, 0, -4 * a, 4 * a}, 8);
    double d = 1 / sqrt(3.5 + 1e-5);
    expect(&(Row){OP_group_norm, "T[1,4,2] T[4] T[4]", "groups=2 epsilon=1e-5", NULL}, (const double *const[]){x, g, c},
           (double[]){-2 * d, 0, 1 - 2 * d, 1 + 6 * d}, 4);
    expect(&(Row){OP_batch_norm, "T[1,2] T[2] T[2] T[2] T[2]", "epsilon=0", NULL},
           (const double *const[]){(double[]){5, 7}, (double[]){2, 3}, (double[]){1, 0}, (double[]){3, 1},
                                   (double[]){4, 9}},
           (double[]){3, 6}, 2);
    /* channels c-1 .. c+2 of size 4 */
    expect(&(Row){OP_lrn, "T[1,4]", "size=4 alpha=4 beta=1 epsilon=1", NULL},
           (const double *const[]){(double[]){1, 2, 3, 4}}, (double[]){1.0 / 15, 2.0 / 31, 3.0 / 30, 4.0 / 26}, 4);
}

static void attention_is_softmax_of_products(void **state)
{
    static const double q[2] = {1, 2}, k[2] = {3, -1}, v[2] = {10, 20}, mask[4] = {0, 1, -INFINITY, 0.5};
    (void)state;
    double p = 1 / (1 + exp((-1 + 1 - 3) * 1.0)); /* row 0: scores 3, -1 + 1 */
    expect(&(Row){OP_sdpa, "T[1,2,1] T[1,2,1] T[1,2,1] T[2,2]", "scale=1 causal=0 softcap=0", NULL},
           (const double *const[]){q, k, v, mask}, (double[]){10 * p + 20 * (1 - p), 20}, 2);
    double s = 1 / (1 + exp(-2 - 6)); /* row 1: scores 6, -2 */
    expect(&(Row){OP_sdpa, "T[1,2,1] T[1,2,1] T[1,2,1]", "scale=1 causal=1 softcap=0", NULL},
           (const double *const[]){q, k, v}, (double[]){10, 10 * s + 20 * (1 - s)}, 2);
    double t = 4 * tanh(3.0 / 4), u = 4 * tanh(-1.0 / 4), w = 1 / (1 + exp(u - t));
    expect(&(Row){OP_sdpa, "T[1,1,1] T[1,2,1] T[1,2,1]", "scale=1 causal=0 softcap=4", NULL},
           (const double *const[]){q, k, v}, (double[]){10 * w + 20 * (1 - w)}, 1);
}

/* The average of ones is one: the count is the number of taps that were added, whatever the padding and dilation. */
static void averages_count_their_taps(void **state)
{
    static const char *const windows[] = {
        "window=1,1,3 stride=1,1,1 pad_lo=0,0,1 pad_hi=0,0,1 dilation=1,1,1 count_pad=0",
        "window=1,1,3 stride=1,1,2 pad_lo=0,0,3 pad_hi=0,0,2 dilation=1,1,2 count_pad=0",
        "window=1,2,4 stride=1,1,3 pad_lo=0,1,0 pad_hi=0,0,7 dilation=1,1,3 count_pad=0",
        "window=1,1,2 stride=1,1,3 pad_lo=0,0,-1 pad_hi=0,0,1 dilation=1,1,4 count_pad=0",
        "window=1,2,3 stride=1,1,3 pad_lo=0,0,0 pad_hi=0,0,0 dilation=1,1,1 count_pad=1"};
    double ones[22];
    (void)state;
    for (int i = 0; i < 22; i++)
        ones[i] = 1;
    for (size_t i = 0; i < IG_COUNT(windows); i++) {
        OpText f = op_text_begin();
        Func *func;
        uint64_t n;
        make(&f, &(Row){OP_avg_pool, "T[1,2,11]", windows[i], NULL}, "f64", &func);
        assert_true(type_count(func_out(func, 0)->type, &n) && n > 0);
        const double *y = run(&f, func, (const double *const[]){ones}, EVAL_F64);
        for (uint64_t e = 0; e < n; e++)
            if (y[e] != 1)
                fail_msg("%s: element %d is %g", windows[i], (int)e, y[e]);
        ctx_destroy(f.ctx);
    }
}

/* A composite of f16 rounds once, at its end. */
static void narrow_floats_round_once(void **state)
{
    static const double x[3] = {1, 2, 6.5};
    (void)state;
    OpText f = op_text_begin();
    Func *func;
    make(&f, &(Row){OP_softmax, "T[3]", "axes=0 norm=div", NULL}, "f16", &func);
    const double *y = run(&f, func, (const double *const[]){x}, EVAL_REF32);
    for (int i = 0; i < 3; i++) {
        double want = exp(x[i]) / (exp(1) + exp(2) + exp(6.5));
        assert_true(y[i] == (double)f16_to_f32(f16_from_f64(want)));
    }
    ctx_destroy(f.ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bodies_are_well_typed),
                                       cmocka_unit_test(every_composite_has_a_row),
                                       cmocka_unit_test(activations_follow_their_formula),
                                       cmocka_unit_test(rows_are_normalised),
                                       cmocka_unit_test(channels_are_normalised),
                                       cmocka_unit_test(attention_is_softmax_of_products),
                                       cmocka_unit_test(averages_count_their_taps),
                                       cmocka_unit_test(narrow_floats_round_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
