/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations. Bodies keep the operator order of the ONNX function bodies named beside them, but where those lose
 * digits or overflow (exp(x) - 1, log(1 + exp(x))): there the stable form stands (doc/ir.md, the composite rule).
 */
#include "op/op_int.h"

static double num(Op op, const Attrs *attrs, AttrName name) { return attrs_get(op, attrs, name)->u.f; }
static Val *add(Builder *b, Val *x, Val *y) { return op_binary(b, OP_add, x, y); }
static Val *mul(Builder *b, Val *x, Val *y) { return op_binary(b, OP_mul, x, y); }
static Val *divide(Builder *b, Val *x, Val *y) { return op_binary(b, OP_div, x, y); }
static Val *scale(Builder *b, double factor, Val *x) { return x ? mul(b, op_like(b, x, factor), x) : NULL; }
/* x < 0 */
static Val *negative(Builder *b, Val *x) { return op_binary(b, OP_lt, x, x ? op_like(b, x, 0) : NULL); }

/* numerics.md "Edge rules": (0 > x) ? 0 : x keeps -0 and NaN. Exact, so 16-bit floats need no widening. */
Val *body_relu(Builder *b, const Attrs *attrs, Val *const *in, uint32_t n_in, const Type *out)
{
    BODY_UNUSED;
    Val *zero = op_like(b, in[0], 0);
    return op_select(b, op_binary(b, OP_lt, in[0], zero), zero, in[0]);
}

/* numerics.md "Edge rules": min(max(x, lo), hi); an absent bound is none. Exact. */
Val *body_clip(Builder *b, const Attrs *attrs, Val *const *in, uint32_t n_in, const Type *out)
{
    BODY_UNUSED;
    Val *x = in[0];
    if (in[1])
        x = op_binary(b, OP_max, x, in[1]);
    if (in[2])
        x = op_binary(b, OP_min, x, in[2]);
    return x;
}

/* ONNX LeakyRelu-16: x < 0 ? alpha * x : x */
BODY(leaky_relu)
{
    BODY_UNUSED;
    Val *below = negative(b, in[0]);
    return op_select(b, below, scale(b, num(OP_leaky_relu, attrs, AN_alpha), in[0]), in[0]);
}

/* ONNX PRelu-16: x < 0 ? slope * x : x. The result is as large as both operands stretched. */
BODY(prelu)
{
    BODY_UNUSED;
    Val *below = negative(b, in[0]);
    return op_select(b, below, mul(b, in[1], in[0]), in[0]);
}

/* alpha * (exp(x) - 1), by expm1 so that small x keep their digits */
static Val *alpha_expm1(Builder *b, Val *x, double alpha) { return scale(b, alpha, op_unary(b, OP_expm1, x)); }

/* ONNX Elu-22: x < 0 ? alpha * (exp(x) - 1) : x */
BODY(elu)
{
    BODY_UNUSED;
    Val *below = negative(b, in[0]);
    return op_select(b, below, alpha_expm1(b, in[0], num(OP_elu, attrs, AN_alpha)), in[0]);
}

/* ONNX Selu-22: x < 0 ? gamma * (alpha * exp(x) - alpha) : gamma * x, gamma here `beta` */
BODY(selu)
{
    BODY_UNUSED;
    double alpha = num(OP_selu, attrs, AN_alpha), gamma = num(OP_selu, attrs, AN_beta);
    Val *low = scale(b, gamma, alpha_expm1(b, in[0], alpha));
    Val *below = negative(b, in[0]);
    return op_select(b, below, low, scale(b, gamma, in[0]));
}

/* ONNX Celu-12: x < 0 ? alpha * (exp(x / alpha) - 1) : x */
BODY(celu)
{
    BODY_UNUSED;
    double alpha = num(OP_celu, attrs, AN_alpha);
    Val *low = alpha_expm1(b, divide(b, in[0], op_like(b, in[0], alpha)), alpha);
    return op_select(b, negative(b, in[0]), low, in[0]);
}

/* ONNX Gelu-20. none: (0.5 * x) * (1 + erf(x / sqrt(2)));
 * tanh: (0.5 * x) * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3))) */
BODY(gelu)
{
    BODY_UNUSED;
    Val *x = in[0], *inner;
    if (attrs_get(OP_gelu, attrs, AN_approx)->u.s[0] == 'n') {
        inner = op_unary(b, OP_erf, divide(b, x, op_like(b, x, 1.4142135623730951)));
    } else {
        Val *cube = mul(b, mul(b, x, x), x);
        Val *sum = add(b, x, scale(b, 0.044715, cube));
        inner = op_unary(b, OP_tanh, scale(b, 0.79788456080286541, sum));
    }
    Val *half = scale(b, 0.5, x);
    return mul(b, half, add(b, op_like(b, x, 1), inner));
}

/* ONNX Swish-24: x * sigmoid(alpha * x) */
BODY(silu)
{
    BODY_UNUSED;
    double alpha = num(OP_silu, attrs, AN_alpha);
    Val *inner = alpha == 1 ? in[0] : scale(b, alpha, in[0]);
    return mul(b, in[0], op_unary(b, OP_sigmoid, inner));
}

/* max(x, 0) + log1p(exp(-|x|)): ONNX Softplus-22, log(exp(x) + 1), in a form that cannot overflow */
static Val *softplus(Builder *b, Val *x)
{
    Val *tail = op_unary(b, OP_log1p, op_unary(b, OP_exp, op_unary(b, OP_neg, op_unary(b, OP_abs, x))));
    return add(b, op_unary(b, OP_relu, x), tail);
}

BODY(softplus)
{
    BODY_UNUSED;
    return softplus(b, in[0]);
}

/* ONNX Mish-22: x * tanh(softplus(x)) */
BODY(mish)
{
    BODY_UNUSED;
    return mul(b, in[0], op_unary(b, OP_tanh, op_unary(b, OP_softplus, in[0])));
}

/* ONNX Softsign-22: x / (1 + |x|) */
BODY(softsign)
{
    BODY_UNUSED;
    Val *one = op_like(b, in[0], 1);
    return divide(b, in[0], add(b, one, op_unary(b, OP_abs, in[0])));
}

/* max(0, min(1, alpha * x + beta)), ONNX HardSigmoid-22 */
static Val *hard_sigmoid(Builder *b, Val *x, double alpha, double beta)
{
    Val *line = scale(b, alpha, x);
    line = add(b, line, op_like(b, x, beta));
    line = op_binary(b, OP_min, line, op_like(b, x, 1));
    return op_binary(b, OP_max, line, op_like(b, x, 0));
}

BODY(hard_sigmoid)
{
    BODY_UNUSED;
    return hard_sigmoid(b, in[0], num(OP_hard_sigmoid, attrs, AN_alpha), num(OP_hard_sigmoid, attrs, AN_beta));
}

/* ONNX HardSwish-22: x * HardSigmoid<alpha = 1/6, beta = 0.5>(x) */
BODY(hard_swish)
{
    BODY_UNUSED;
    return mul(b, in[0], hard_sigmoid(b, in[0], 1.0 / 6, 0.5));
}
