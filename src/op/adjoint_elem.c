/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of the elementwise ops. Kinks: abs and relu at 0 have slope 0, leaky relu has its slope alpha; clip has slope 0 on
 * its bounds (torch's hardtanh and relu6); min and max of equal operands give each one half (torch); pow has slope 0 in x
 * where y = 0, and in y where x = 0 (torch); a norm, the root of a sum of squares, has subgradient 0 where it is 0. Operands on
 * which select or pow must not depend are made harmless before they enter, not after, so that no 0 * inf arises in a second
 * derivative.
 */
#include "op/adjoint_int.h"

#include <math.h>

/* ---- unary: in_grad = g * f'(x), from x and y = f(x) --------------------------------------------------------- */

static Val *square(Builder *b, Val *x) { return adj_mul(b, x, x); }
static Val *neg(Builder *b, Val *x) { return op_unary(b, OP_neg, x); }
static Val *minus(Builder *b, Val *x, Val *y) { return op_binary(b, OP_sub, x, y); }
static Val *over(Builder *b, Val *x, Val *y) { return op_binary(b, OP_div, x, y); }
/* 1 - x */
static Val *one_minus(Builder *b, Val *x) { return x ? minus(b, op_like(b, x, 1), x) : NULL; }

/* A sum of squares, whatever moves stand between: its root is a norm. */
static bool is_square_sum(const Val *x)
{
    const Node *node = x->def;
    while (node && (node->op == OP_reshape || node->op == OP_broadcast || node->op == OP_cast))
        node = ir_in(node, 0)->def;
    if (!node || node->op != OP_reduce || !node_str_is(node, AN_kind, "sum"))
        return false;
    const Node *square_of = ir_in(node, 0)->def;
    return square_of && square_of->op == OP_mul && ir_in(square_of, 0) == ir_in(square_of, 1);
}

/* y, and inf where y is 0: what is divided by it vanishes there, and so does every derivative of that. */
static Val *where_positive(Builder *b, Val *y)
{
    Val *zero = op_binary(b, OP_eq, y, op_like(b, y, 0));
    return op_select(b, zero, op_like(b, y, INFINITY), y);
}

/* name: b, x, y, g are at hand; the expression is the operand's gradient */
#define RULE(name, expression)                                                                                         \
    bool adjoint_##name(AdjointArgs *args)                                                                             \
    {                                                                                                                  \
        Builder *b = args->b;                                                                                          \
        Val *x = adj_in(args, 0), *y = adj_out(args, 0), *g = args->out_grad[0];                                       \
        (void)b, (void)x, (void)y;                                                                                     \
        if (!adj_wanted(args, 0))                                                                                      \
            return true;                                                                                               \
        return adj_give(args, 0, expression);                                                                          \
    }
RULE(neg, neg(b, g))
RULE(abs, adj_mul(b, g, op_unary(b, OP_sign, x)))
static Val *sqrt_slope(Builder *b, Val *x, Val *y, Val *g)
{
    Val *half = adj_scale(b, g, 0.5);
    return over(b, half, is_square_sum(x) ? where_positive(b, y) : y);
}
RULE(sqrt, sqrt_slope(b, x, y, g))
RULE(rsqrt, adj_mul(b, g, adj_scale(b, adj_mul(b, square(b, y), y), -0.5)))
RULE(exp, adj_mul(b, g, y))
RULE(expm1, adj_mul(b, g, adj_plus(b, y, 1)))
RULE(log, over(b, g, x))
RULE(log1p, over(b, g, adj_plus(b, x, 1)))
RULE(sin, adj_mul(b, g, op_unary(b, OP_cos, x)))
RULE(cos, adj_mul(b, g, neg(b, op_unary(b, OP_sin, x))))
RULE(tan, adj_mul(b, g, adj_plus(b, square(b, y), 1)))
RULE(asin, adj_mul(b, g, op_unary(b, OP_rsqrt, one_minus(b, square(b, x)))))
RULE(acos, adj_mul(b, g, neg(b, op_unary(b, OP_rsqrt, one_minus(b, square(b, x))))))
RULE(atan, over(b, g, adj_plus(b, square(b, x), 1)))
RULE(sinh, adj_mul(b, g, op_unary(b, OP_cosh, x)))
RULE(cosh, adj_mul(b, g, op_unary(b, OP_sinh, x)))
RULE(tanh, adj_mul(b, g, one_minus(b, square(b, y))))
RULE(asinh, adj_mul(b, g, op_unary(b, OP_rsqrt, adj_plus(b, square(b, x), 1))))
RULE(acosh, adj_mul(b, g, op_unary(b, OP_rsqrt, adj_plus(b, square(b, x), -1))))
RULE(atanh, over(b, g, one_minus(b, square(b, x))))
RULE(erf, adj_mul(b, g, adj_scale(b, op_unary(b, OP_exp, neg(b, square(b, x))), 1.12837916709551257390)))
RULE(sigmoid, adj_mul(b, g, adj_mul(b, y, one_minus(b, y))))
/* slope 0 at 0 (torch) */
static Val *relu_slope(Builder *b, Val *x, Val *g)
{
    Val *zero = op_like(b, x, 0);
    return op_select(b, op_binary(b, OP_lt, zero, x), g, zero);
}
RULE(relu, relu_slope(b, x, g))
RULE(cast, op_cast_to(b, g, x->type->dtype))

/* slope alpha at 0 (torch) */
static Val *leaky_relu_slope(Builder *b, Val *x, Val *g, double alpha)
{
    Val *above = op_binary(b, OP_lt, op_like(b, x, 0), x);
    return op_select(b, above, g, adj_scale(b, g, alpha));
}
RULE(leaky_relu, leaky_relu_slope(b, x, g, node_float(args->node, AN_alpha)))

/* ---- binary and ternary ------------------------------------------------------------------------------------------ */

/* first, second: gradients of the operands; i, j the operands, g the result's gradient */
#define RULE2(name, first, second)                                                                                     \
    bool adjoint_##name(AdjointArgs *args)                                                                             \
    {                                                                                                                  \
        Builder *b = args->b;                                                                                          \
        Val *x = adj_in(args, 0), *y = adj_in(args, 1), *out = adj_out(args, 0), *g = args->out_grad[0];               \
        (void)b, (void)x, (void)y, (void)out;                                                                          \
        if (!adj_wanted(args, 0))                                                                                      \
            return true;                                                                                               \
        return adj_give(args, 0, first) && adj_give(args, 1, second);                                                  \
    }

/* one operand of max (min) is greater (smaller): it takes g; both equal: half each; else nothing */
static Val *winner(Builder *b, Val *g, Val *loser, Val *x)
{
    Val *zero = g ? op_like(b, g, 0) : NULL;
    Val *wins = op_binary(b, OP_lt, loser, x), *tie = op_binary(b, OP_eq, loser, x);
    Val *half = adj_scale(b, g, 0.5);
    return op_select(b, tie, half, op_select(b, wins, g, zero));
}

static Val *winner_min(Builder *b, Val *g, Val *loser, Val *x)
{
    Val *zero = g ? op_like(b, g, 0) : NULL;
    Val *wins = op_binary(b, OP_lt, x, loser), *tie = op_binary(b, OP_eq, loser, x);
    Val *half = adj_scale(b, g, 0.5);
    return op_select(b, tie, half, op_select(b, wins, g, zero));
}

/* y * x^(y-1), 0 where y is 0 */
static Val *pow_in_base(Builder *b, Val *x, Val *y)
{
    Val *zero = op_binary(b, OP_eq, y, op_like(b, y, 0));
    Val *one = op_like(b, y, 1);
    Val *exponent = op_select(b, zero, one, adj_plus(b, y, -1));
    return adj_mul(b, y, op_binary(b, OP_pow, x, exponent));
}

/* log(x), 0 where x is 0 and y is not negative */
static Val *pow_log(Builder *b, Val *x, Val *y)
{
    Val *zero = op_binary(b, OP_eq, x, op_like(b, x, 0));
    Val *quiet = op_binary(b, OP_and, zero, op_binary(b, OP_le, op_like(b, y, 0), y));
    return op_unary(b, OP_log, op_select(b, quiet, op_like(b, x, 1), x));
}

RULE2(add, g, g)
RULE2(sub, g, neg(b, g))
RULE2(mul, adj_mul(b, g, y), adj_mul(b, g, x))
RULE2(div, over(b, g, y), neg(b, over(b, adj_mul(b, g, out), y)))
RULE2(rem, g, neg(b, adj_mul(b, g, op_unary(b, OP_trunc, over(b, x, y)))))
RULE2(mod, g, neg(b, adj_mul(b, g, op_unary(b, OP_floor, over(b, x, y)))))
RULE2(max, winner(b, g, y, x), winner(b, g, x, y))
RULE2(min, winner_min(b, g, y, x), winner_min(b, g, x, y))
RULE2(pow, adj_mul(b, g, pow_in_base(b, x, y)), adj_mul(b, g, adj_mul(b, out, pow_log(b, x, y))))

bool adjoint_select(AdjointArgs *args)
{
    Builder *b = args->b;
    Val *cond = adj_in(args, 0), *g = args->out_grad[0];
    if (!adj_wanted(args, 1))
        return true;
    Val *zero = op_like(b, g, 0);
    return adj_give(args, 1, op_select(b, cond, g, zero)) && adj_give(args, 2, op_select(b, cond, zero, g));
}

bool adjoint_fma(AdjointArgs *args)
{
    Builder *b = args->b;
    Val *x = adj_in(args, 0), *y = adj_in(args, 1), *g = args->out_grad[0];
    if (!adj_wanted(args, 0))
        return true;
    return adj_give(args, 0, adj_mul(b, g, y)) && adj_give(args, 1, adj_mul(b, g, x)) && adj_give(args, 2, g);
}

/* min(max(x, lo), hi): x takes g between the bounds, a bound where it won; on a bound nobody does (torch's hardtanh) */
bool adjoint_clip(AdjointArgs *args)
{
    Builder *b = args->b;
    Val *x = adj_in(args, 0), *lo = adj_in(args, 1), *hi = adj_in(args, 2), *g = args->out_grad[0];
    if (!adj_wanted(args, 0))
        return true;
    Val *zero = op_like(b, x, 0), *low = op_binary(b, OP_lt, x, lo), *ordered = op_binary(b, OP_le, lo, hi);
    Val *inside = op_binary(b, OP_lt, lo, x);
    inside = op_binary(b, OP_and, inside, op_binary(b, OP_lt, x, hi));
    Val *high = op_binary(b, OP_lt, hi, op_binary(b, OP_max, x, lo));
    return adj_give(args, 0, op_select(b, inside, g, zero)) &&
           adj_give(args, 1, op_select(b, op_binary(b, OP_and, low, ordered), g, zero)) &&
           adj_give(args, 2, op_select(b, high, g, zero));
}
