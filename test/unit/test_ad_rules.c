/* SPDX-License-Identifier: Apache-2.0
 *
 * Every gradient rule against central differences in f64, once and differentiated again, from one table: op, operand
 * types, attributes, the range of the data (kept away from kinks), elements of integer operands. The last test demands
 * a row for every op that has a gradient.
 */
#include "ad/ad.h"
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Row {
    Op op;
    const char *in, *attrs;
    double lo, hi;
    const char *ints; /* elements of integer and bool operands */
} Row;

/* clang-format off */
static const Row rows[] = {
#define UNARY(id, lo, hi) {OP_##id, "f64[2,3]", "", lo, hi, ""}
    UNARY(neg, -2, 2), UNARY(abs, 0.1, 2), UNARY(abs, -2, -0.1), UNARY(sqrt, 0.5, 3), UNARY(rsqrt, 0.5, 3), UNARY(exp, -2, 2),
    UNARY(expm1, -2, 2), UNARY(log, 0.5, 3), UNARY(log1p, -0.5, 3), UNARY(sin, -3, 3), UNARY(cos, -3, 3), UNARY(tan, -1, 1),
    UNARY(asin, -0.8, 0.8), UNARY(acos, -0.8, 0.8), UNARY(atan, -3, 3), UNARY(sinh, -2, 2), UNARY(cosh, -2, 2), UNARY(tanh, -2, 2),
    UNARY(asinh, -2, 2), UNARY(acosh, 1.5, 3), UNARY(atanh, -0.8, 0.8), UNARY(erf, -2, 2), UNARY(sigmoid, -3, 3),
#define BINARY(id, lo, hi) {OP_##id, "f64[2,3] f64[2,3]", "", lo, hi, ""}, {OP_##id, "f64[2,1,3] f64[1,2,1]", "", lo, hi, ""}
    BINARY(add, -2, 2), BINARY(sub, -2, 2), BINARY(mul, -2, 2), BINARY(div, 0.5, 2), BINARY(rem, 0.5, 4), BINARY(mod, 0.5, 4),
    BINARY(pow, 0.5, 2), BINARY(min, -2, 2), BINARY(max, -2, 2),
    {OP_select, "bool[2,3] f64[2,3] f64[1,3]", "", -2, 2, "1 0 0 1"}, {OP_fma, "f64[2,3] f64[2,1] f64[1,3]", "", -2, 2, ""},
    {OP_cast, "f64[2,3]", "dtype=f64", -2, 2, ""}, {OP_cast, "f64[2,3]", "dtype=f32", -2, 2, ""},
    {OP_broadcast, "f64[2,1,3]", "shape=2,4,3", -2, 2, ""}, {OP_reshape, "f64[2,6]", "shape=3,4", -2, 2, ""},
    {OP_transpose, "f64[2,3,4]", "perm=2,0,1", -2, 2, ""},
    {OP_slice, "f64[7,5]", "start=1,4 size=3,3 step=2,-2", -2, 2, ""}, {OP_slice, "f64[7,5]", "start=0,1 size=7,0 step=1,1", -2, 2, ""},
    {OP_pad, "f64[3,4] f64[]", "lo=1,0 hi=2,3 interior=0,2", -2, 2, ""}, {OP_pad, "f64[4,5] f64[]", "lo=-1,2 hi=0,-2 interior=1,0", -2, 2, ""},
    {OP_concat, "f64[2,3] f64[2,1] f64[2,2]", "axis=1", -2, 2, ""}, {OP_reverse, "f64[2,3,2]", "axes=0,1", -2, 2, ""},
    {OP_gather, "f64[3,4] s64[2,2]", "axis=1 batch=0", -2, 2, "3 -4 1 1"}, {OP_gather, "f64[2,3,4,2] s64[2,2]", "axis=2 batch=1", -2, 2, "3 -4 1 1"},
    {OP_gather, "f64[2,3,5] s32[2,3,2]", "axis=2 batch=2", -2, 2, "0 4 -1 2 2 1"}, {OP_gather, "f64[3,4] s64[]", "axis=0 batch=0", -2, 2, "-1"},
    {OP_gather_elements, "f64[3,4] s64[2,4]", "axis=0", -2, 2, "0 2 -1 1 0"},
    {OP_gather_nd, "f64[3,4,2] s64[3,2]", "batch=0", -2, 2, "0 1 2 -1 0 1"}, {OP_gather_nd, "f64[2,3,4] s64[2,3,1]", "batch=1", -2, 2, "0 1 2 -1 0 1"},
#define REDUCE(kind, lo, hi) {OP_reduce, "f64[2,3,4]", "axes=0,2 kind=" kind, lo, hi, ""}, {OP_reduce, "f64[2,3,2]", "axes=1 kind=" kind, lo, hi, ""}
    REDUCE("sum", -2, 2), REDUCE("prod", 0.5, 1.5), REDUCE("max", -2, 2), REDUCE("min", -2, 2), {OP_reduce, "f64[3]", "axes=0 kind=prod", 0, 0, ""},
#define CUMULATE(kind) {OP_cumulate, "f64[2,3,2]", "axis=1 kind=" kind " exclusive=0 reverse=0", 0.5, 2, ""}, \
    {OP_cumulate, "f64[4]", "axis=0 kind=" kind " exclusive=0 reverse=1", 0.5, 2, ""}
    CUMULATE("sum"), CUMULATE("prod"), CUMULATE("max"), CUMULATE("min"), {OP_cumulate, "f64[3,2]", "axis=0 kind=prod exclusive=1 reverse=0", 0, 0, ""},
    {OP_cumulate, "f64[4]", "axis=0 kind=sum exclusive=1 reverse=1", -2, 2, ""},
    {OP_reduce_window, "f64[1,2,5,6]", "window=1,1,3,2 stride=1,1,2,1 pad_lo=0,0,1,0 pad_hi=0,0,0,1 dilation=1,1,1,2 kind=sum", -2, 2, ""},
    {OP_reduce_window, "f64[1,2,5,6]", "window=1,1,3,2 stride=1,1,2,3 pad_lo=0,0,1,0 pad_hi=0,0,1,0 dilation=1,1,1,2 kind=max", -2, 2, ""},
    {OP_reduce_window, "f64[7]", "window=3 stride=1 pad_lo=0 pad_hi=0 dilation=1 kind=min", -2, 2, ""},
    {OP_dot, "f64[2,3] f64[3,4]", "lhs_batch= rhs_batch= lhs_contract=1 rhs_contract=0", -2, 2, ""},
    {OP_dot, "f64[2,3,4,2] f64[4,2,5,3]", "lhs_batch=0 rhs_batch=1 lhs_contract=1,2 rhs_contract=3,0", -2, 2, ""},
    {OP_dot, "f64[2,3] f64[2,3]", "lhs_batch=0,1 rhs_batch=0,1 lhs_contract= rhs_contract=", -2, 2, ""},
#define CONV(x, w, s, lo, hi, d, r, g, f) {OP_conv, "f64[" x "] f64[" w "]", "stride=" s " pad_lo=" lo " pad_hi=" hi " dilation=" d " lhs_dilation=" r " groups=" g " flip=" f, -2, 2, ""}
    CONV("2,2,5,4", "3,2,3,2", "1,1", "1,0", "1,0", "1,1", "1,1", "1", "0"), CONV("1,4,6", "4,2,3", "2", "1", "1", "1", "1", "2", "0"),
    CONV("1,2,7,5", "2,2,3,2", "3,2", "2,1", "0,1", "2,1", "1,1", "1", "0"), CONV("2,2,4", "3,2,3", "1", "2", "1", "1", "2", "1", "1"),
    CONV("1,4,3,3", "4,1,2,2", "2,1", "-1,1", "1,-1", "1,2", "2,3", "4", "1"),
    {OP_scatter_elements, "f64[4,3] s64[2,3] f64[2,3]", "axis=0 combine=none", -2, 2, "0 1 2 0 -1 2"},
    {OP_scatter_elements, "f64[4,3] s64[2,3] f64[2,3]", "axis=0 combine=add", -2, 2, "0 1 2 0 -1 2"},
    {OP_scatter_nd, "f64[4,3] s64[3,1] f64[3,3]", "combine=none", -2, 2, "1 -1 1"}, {OP_scatter_nd, "f64[4,3] s64[3,2] f64[3]", "combine=add", -2, 2, "1 0 1 0 3 -1"},
    {OP_topk, "f64[2,5]", "axis=1 size=3 kind=max", -2, 2, ""},
    UNARY(relu, -2, 2), {OP_leaky_relu, "f64[6]", "alpha=0.1", -2, 2, ""}, {OP_prelu, "f64[2,3] f64[1,3]", "", -2, 2, ""},
    {OP_elu, "f64[6]", "alpha=1.5", -2, 2, ""}, {OP_selu, "f64[6]", "alpha=1.67 beta=1.05", -2, 2, ""}, {OP_celu, "f64[6]", "alpha=1.5", -2, 2, ""},
    {OP_gelu, "f64[6]", "approx=none", -2, 2, ""}, {OP_gelu, "f64[6]", "approx=tanh", -2, 2, ""}, {OP_silu, "f64[6]", "alpha=1.5", -2, 2, ""},
    UNARY(mish, -2, 2), UNARY(softplus, -2, 2), UNARY(softsign, 0.1, 2), UNARY(softsign, -2, -0.1), {OP_hard_sigmoid, "f64[6]", "alpha=0.2 beta=0.5", -4, 4, ""},
    UNARY(hard_swish, -4, 4), {OP_clip, "f64[4,3] f64[] f64[]", "", -2, 2, ""},
    {OP_mean, "f64[2,3,4]", "axes=0,2", -2, 2, ""}, {OP_logsumexp, "f64[2,3]", "axes=1", -2, 2, ""},
    {OP_softmax, "f64[2,4]", "axes=1 norm=mul", -2, 2, ""}, {OP_softmax, "f64[2,2,2]", "axes=0,2 norm=div", -2, 2, ""},
    {OP_log_softmax, "f64[2,3]", "axes=1", -2, 2, ""}, {OP_layer_norm, "f64[2,4] f64[1,4] f64[1,4]", "axes=1 epsilon=0.01", -2, 2, ""},
    {OP_rms_norm, "f64[2,4] f64[1,4]", "axes=1 epsilon=0.01", -2, 2, ""}, {OP_instance_norm, "f64[2,2,3] f64[2] f64[2]", "epsilon=0.01", -2, 2, ""},
    {OP_group_norm, "f64[1,4,3] f64[4] f64[4]", "groups=2 epsilon=0.01", -2, 2, ""},
    {OP_batch_norm, "f64[2,3,2] f64[3] f64[3] f64[3] f64[3]", "epsilon=0.01", 0.5, 2, ""},
    {OP_lrn, "f64[1,4,3]", "size=3 alpha=0.3 beta=0.75 epsilon=1", -2, 2, ""},
    {OP_avg_pool, "f64[1,2,5,4]", "window=1,1,3,2 stride=1,1,2,1 pad_lo=0,0,1,0 pad_hi=0,0,1,1 dilation=1,1,1,1 count_pad=0", -2, 2, ""},
    {OP_avg_pool, "f64[1,2,5]", "window=1,1,3 stride=1,1,1 pad_lo=0,0,1 pad_hi=0,0,1 dilation=1,1,1 count_pad=1", -2, 2, ""},
    {OP_sdpa, "f64[1,2,3,2] f64[1,2,3,2] f64[1,2,3,2] f64[1,1,3,3]", "scale=0.7 causal=0 softcap=0", -1, 1, ""},
    {OP_sdpa, "f64[1,1,3,2] f64[1,1,3,2] f64[1,1,3,3]", "scale=0.7 causal=1 softcap=2", -1, 1, ""},
};
/* clang-format on */

/* ---- running a function -------------------------------------------------------------------------------------- */

typedef struct Fixture {
    Context *ctx;
    Module *module;
    Arena *arena;
    uint64_t random;
} Fixture;

static double draw(Fixture *f, double lo, double hi)
{
    f->random = f->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return lo + (hi - lo) * (double)(f->random >> 11) * 0x1p-53;
}

/* Floats are held as f64, whatever they are declared. */
static Tensor *drawn(Fixture *f, const Type *type, double lo, double hi)
{
    Tensor *t = case_tensor(f->ctx, f->arena, type_with_dtype(f->ctx, type, DT_F64));
    t->dtype = type->dtype;
    for (uint64_t i = 0; i < t->count; i++)
        ((double *)t->data)[i] = draw(f, lo, hi);
    return t;
}

static uint32_t run(Fixture *f, const Func *func, Tensor *const *params, Tensor **out)
{
    uint64_t error = 0;
    if (!eval_func(f->ctx, f->arena, EVAL_F64, func, params, out, &error))
        case_fail(f->ctx, func->name);
    assert_int_equal(error, 0);
    return func_n_out(func);
}

/* Sum over the first n results of weight times result. */
static double weigh(Fixture *f, const Func *func, Tensor *const *params, Tensor *const *weight, uint32_t n)
{
    Tensor *out[16];
    double sum = 0;
    run(f, func, params, out);
    for (uint32_t k = 0; k < n; k++)
        for (uint64_t i = 0; i < out[k]->count; i++)
            sum += ((double *)out[k]->data)[i] * ((double *)weight[k]->data)[i];
    return sum;
}

/* grad against central differences of weigh(func) in parameter p. */
static void compare(Fixture *f, const Row *row, const char *order, const Func *func, Tensor **params, uint32_t p,
                    Tensor *const *weight, uint32_t n, const Tensor *grad)
{
    Tensor *x = params[p];
    const double h = 1e-5;
    for (uint64_t i = 0; i < x->count; i++) {
        double *at = (double *)x->data + i, kept = *at;
        *at = kept + h;
        double up = weigh(f, func, params, weight, n);
        *at = kept - h;
        double down = weigh(f, func, params, weight, n);
        *at = kept;
        double want = (up - down) / (2 * h), have = ((const double *)grad->data)[i];
        if (!(fabs(have - want) <= 1e-6 * (1 + fabs(want))))
            fail_msg("%s(%s) %s: %s derivative in operand %u, element %u: %.9g, differences give %.9g",
                     op_info[row->op].name, row->in, row->attrs, order, p, (unsigned)i, have, want);
    }
}

static Tensor *tensor_for(Fixture *f, const Row *row, const Type *type)
{
    if (dtype_is_float(type->dtype))
        return drawn(f, type, row->lo, row->hi);
    Text text;
    text_init(&text, f->arena);
    type_print(&text, type);
    return case_values(f->ctx, f->arena, text.data, row->ints);
}

static void check_row(Fixture *f, const Row *row)
{
    Tensor *params[32], *out[16], *second[16], *weights[16];
    Func *func = case_func(f->module, "f", row->op, row->in, row->attrs);
    AdOutput y = {.name = str_intern(f->ctx, "y0"), .seed = str_intern(f->ctx, "seed")};
    AdRequest request = {.func = func, .name = str_intern(f->ctx, "g"), .outputs = &y, .n_outputs = 1};
    Func *g = ad_gradient(f->module, &request);
    if (!g || !ir_verify(f->module) || !op_verify(f->module))
        case_fail(f->ctx, op_info[row->op].name);
    uint32_t n = func->body->params.len, n_grads = func_n_out(g);
    for (uint32_t i = 0; i < n; i++)
        params[i] = tensor_for(f, row, func->body->params.data[i]->type);
    params[n] = drawn(f, g->body->params.data[n]->type, -1, 1);
    run(f, g, params, out);
    for (uint32_t i = 0, k = 0; i < n; i++)
        if (dtype_is_float(params[i]->dtype))
            compare(f, row, "first", func, params, i, &params[n], 1, out[k++]);
    /* again: the gradients, each weighted, in the operands and in the seed */
    AdOutput again[16];
    for (uint32_t k = 0; k < n_grads; k++)
        again[k] = (AdOutput){.name = g->out_names[k], .seed = str_format(f->ctx, "seed_%u", k)};
    AdRequest next = {.func = g, .name = str_intern(f->ctx, "h"), .outputs = again, .n_outputs = n_grads};
    Func *h = ad_gradient(f->module, &next);
    if (!h || !ir_verify(f->module) || !op_verify(f->module))
        case_fail(f->ctx, op_info[row->op].name);
    for (uint32_t k = 0; k < n_grads; k++)
        weights[k] = params[n + 1 + k] = drawn(f, h->body->params.data[n + 1 + k]->type, -1, 1);
    run(f, h, params, second);
    for (uint32_t i = 0, k = 0; i <= n; i++)
        if (dtype_is_float(params[i]->dtype))
            compare(f, row, "second", g, params, i, weights, n_grads, second[k++]);
}

static void every_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(rows); i++) {
        Fixture f = {.ctx = ctx_create(NULL), .random = i + 1};
        f.module = module_create(f.ctx);
        f.arena = arena_create(f.ctx);
        check_row(&f, &rows[i]);
        module_destroy(f.module);
        ctx_destroy(f.ctx);
    }
}

static void every_op_has_a_row(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        bool found = op_defs[op].adjoint == adjoint_nondiff || op_defs[op].adjoint == adjoint_zero;
        for (size_t i = 0; i < IG_COUNT(rows); i++)
            found |= rows[i].op == (Op)op;
        if (!found)
            fail_msg("%s has a gradient and no row", op_info[op].name);
    }
}

/* ---- kinks, where differences say nothing ---------------------------------------------------------------------- */

typedef struct Kink {
    const char *body; /* of a function of %x : f64[n] */
    const char *type, *x, *want;
} Kink;

static const Kink kinks[] = {
    {"%y = relu %x : f64[3]", "f64[3]", "0 -0 1", "0 0 1"},
    {"%y = leaky_relu %x {alpha=0.25} : f64[3]", "f64[3]", "0 -1 1", "0.25 0.25 1"},
    {"%y = abs %x : f64[3]", "f64[3]", "0 -1 1", "0 -1 1"},
    {"%lo = const {weight=@lo} : f64[]\n%hi = const {weight=@hi} : f64[]\n%y = clip %x, %lo, %hi : f64[5]", "f64[5]", "-2 -1 0 1 2",
     "0 0 1 0 0"},
    {"%y = max %x, %x : f64[2]", "f64[2]", "3 -4", "1 1"},
    {"%y = reduce %x {axes=[0], kind=\"max\"} : f64[1]", "f64[3]", "5 2 5", "0.5 0 0.5"},
    /* a norm has subgradient 0 at 0, a root of something else has none */
    {"%q = mul %x, %x : f64[2]\n%s = reduce %q {axes=[0], kind=\"sum\"} : f64[1]\n%y = sqrt %s : f64[1]", "f64[2]", "0 0", "0 0"},
    {"%q = mul %x, %x : f64[2]\n%s = reduce %q {axes=[0], kind=\"sum\"} : f64[1]\n%y = sqrt %s : f64[1]", "f64[2]", "3 -4", "0.6 -0.8"},
    {"%y = sqrt %x : f64[2]", "f64[2]", "0 4", "inf 0.25"},
};

static void kinks_follow_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(kinks); i++) {
        const Kink *k = &kinks[i];
        Fixture f = {.ctx = ctx_create(NULL)};
        f.arena = arena_create(f.ctx);
        const char *last = strrchr(k->body, ':');
        Str text = str_format(f.ctx, "weight @lo : f64[] = [-1]\nweight @hi : f64[] = [1]\n"
                                     "entry func @f(%%x : %s \"x\") -> (\"y\") {\n%s\nyield %%y\n}\n", k->type, k->body);
        f.module = ir_parse(f.ctx, "kink.ig", text, strlen(text));
        if (!f.module || !last)
            case_fail(f.ctx, k->body);
        AdOutput y = {.name = str_intern(f.ctx, "y"), .seed = str_intern(f.ctx, "seed")};
        AdRequest request = {.func = f.module->funcs.data[0], .name = str_intern(f.ctx, "g"), .outputs = &y, .n_outputs = 1};
        Func *g = ad_gradient(f.module, &request);
        if (!g)
            case_fail(f.ctx, k->body);
        Tensor *in[2] = {case_values(f.ctx, f.arena, k->type, k->x), case_values(f.ctx, f.arena, last + 2, "1")}, *out[1];
        run(&f, g, in, out);
        Tensor *want = case_values(f.ctx, f.arena, k->type, k->want);
        for (uint64_t e = 0; e < want->count; e++) {
            double have = ((const double *)out[0]->data)[e], expected = ((const double *)want->data)[e];
            if (!(have == expected || fabs(have - expected) < 1e-12))
                fail_msg("%s at %s: element %u is %g instead of %g", k->body, k->x, (unsigned)e, have, expected);
        }
        module_destroy(f.module);
        ctx_destroy(f.ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_rule), cmocka_unit_test(every_op_has_a_row),
                                       cmocka_unit_test(kinks_follow_torch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
