/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of the elementwise ops (kind MAP), by the edge rules of numerics.md. Operands are widened in chunks, with
 * broadcasting of size-1 axes; the class of the arithmetic is that of the operands, comparisons and casts change it.
 *
 * f32 functions that have a body in base/scalar.def use it; the others (tan, asin, sinh, ..) are computed by libm in
 * double and rounded once. f64 functions are libm's in both modes.
 */
#include "base/scalar.h"
#include "op/eval_support.h"

#include <math.h>

/* ---- driving operands through chunks ----------------------------------------------------------------------- */

typedef struct Operand {
    const Tensor *t;
    EvalClass c;
    bool same; /* sizes of the result: element i is element i */
    int64_t stride[IR_MAX_RANK];
    _Alignas(16) uint8_t data[EVAL_CHUNK * EVAL_CELL];
} Operand;

static void operand_begin(Operand *op, const Tensor *t, const Tensor *out, EvalClass c)
{
    op->t = t;
    op->c = c;
    op->same = t->count == out->count;
    eval_strides(t, op->stride);
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dim[i] == 1)
            op->stride[i] = 0;
}

/* Fills data with the elements that the results first .. first + n see; at: counter over out at `first`. */
static void operand_fetch(Operand *op, const Tensor *out, const int64_t *at, uint64_t first, uint64_t n)
{
    if (op->same) {
        eval_fetch(op->t, op->c, NULL, first, n, op->data);
        return;
    }
    uint64_t index[EVAL_CHUNK];
    int64_t counter[IR_MAX_RANK];
    memcpy(counter, at, sizeof counter);
    uint32_t last = out->rank ? out->rank - 1 : 0;
    for (uint64_t i = 0; i < n;) {
        int64_t base = 0;
        for (uint32_t axis = 0; axis < out->rank; axis++)
            base += counter[axis] * op->stride[axis];
        uint64_t run = out->rank ? (uint64_t)(out->dim[last] - counter[last]) : 1;
        if (run > n - i)
            run = n - i;
        for (uint64_t k = 0; k < run; k++)
            index[i + k] = (uint64_t)(base + (out->rank ? (int64_t)k * op->stride[last] : 0));
        i += run;
        if (out->rank) {
            counter[last] += (int64_t)run - 1;
            eval_next(out->rank, out->dim, counter);
        }
    }
    eval_fetch(op->t, op->c, index, 0, n, op->data);
}

typedef void ChunkFn(void *user, uint64_t n, void *const *in, void *out);

/* out[i] = fn(in[..][i]) over the whole result; classes are given, out's elements are of class to. */
static void drive(const Tensor *const *in, uint32_t n_in, const EvalClass *from, Tensor *out, EvalClass to, ChunkFn *fn,
                  void *user)
{
    Operand op[3];
    void *data[3];
    _Alignas(16) uint8_t result[EVAL_CHUNK * EVAL_CELL];
    int64_t at[IR_MAX_RANK] = {0};
    for (uint32_t i = 0; i < n_in; i++) {
        operand_begin(&op[i], in[i], out, from[i]);
        data[i] = op[i].data;
    }
    for (uint64_t first = 0; first < out->count; first += EVAL_CHUNK) {
        uint64_t n = out->count - first < EVAL_CHUNK ? out->count - first : EVAL_CHUNK, rest = first;
        for (uint32_t axis = out->rank; axis-- > 0; rest /= (uint64_t)out->dim[axis])
            at[axis] = (int64_t)(rest % (uint64_t)out->dim[axis]);
        for (uint32_t i = 0; i < n_in; i++)
            operand_fetch(&op[i], out, at, first, n);
        fn(user, n, data, result);
        eval_put(out, to, first, n, result);
    }
}

/* ---- unary -------------------------------------------------------------------------------------------------- */

static double sigmoid_f64(double x)
{
    double e = exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

/* NaN and zeros of either sign stay what they are */
static double sign_f64(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static double neg_f64(double x) { return -x; }
static double rsqrt_f64(double x) { return 1 / sqrt(x); }

typedef double F64Fn(double);
static F64Fn *const f64_unary[OP_COUNT] = {
    [OP_neg] = neg_f64, [OP_abs] = fabs,    [OP_sign] = sign_f64,
    [OP_floor] = floor, [OP_ceil] = ceil,   [OP_trunc] = trunc,
    [OP_rint] = rint,   [OP_sqrt] = sqrt,   [OP_rsqrt] = rsqrt_f64,
    [OP_exp] = exp,     [OP_expm1] = expm1, [OP_log] = log,
    [OP_log1p] = log1p, [OP_sin] = sin,     [OP_cos] = cos,
    [OP_tan] = tan,     [OP_asin] = asin,   [OP_acos] = acos,
    [OP_atan] = atan,   [OP_sinh] = sinh,   [OP_cosh] = cosh,
    [OP_tanh] = tanh,   [OP_asinh] = asinh, [OP_acosh] = acosh,
    [OP_atanh] = atanh, [OP_erf] = erf,     [OP_sigmoid] = sigmoid_f64,
};

static bool scalar_body(Op op, ScalarFn *fn)
{
    for (int i = 0; i < SCALAR_COUNT; i++)
        if (strcmp(scalar_defs[i].name, op_info[op].name) == 0) {
            *fn = (ScalarFn)i;
            return true;
        }
    return false;
}

typedef struct MapArgs {
    Op op;
    bool is_unsigned;
    int bits;
    ScalarFn scalar;
    bool has_scalar;
} MapArgs;

/* neg, abs, sign, the roundings and sqrt are exact or rounded right in f32 when done in double and rounded once;
 * rsqrt rounds twice by definition. */
static void unary_f32(void *user, uint64_t n, void *const *in, void *out)
{
    const MapArgs *args = user;
    const float *x = in[0];
    float *y = out;
    if (args->has_scalar) {
        scalar_apply1(args->scalar, x, y, n);
        return;
    }
    if (args->op == OP_rsqrt) {
        for (uint64_t i = 0; i < n; i++)
            y[i] = 1.0f / sqrtf(x[i]);
        return;
    }
    F64Fn *fn = f64_unary[args->op];
    for (uint64_t i = 0; i < n; i++)
        y[i] = (float)fn((double)x[i]);
}

static void unary_f64(void *user, uint64_t n, void *const *in, void *out)
{
    F64Fn *fn = f64_unary[((const MapArgs *)user)->op];
    for (uint64_t i = 0; i < n; i++)
        ((double *)out)[i] = fn(((const double *)in[0])[i]);
}

static void unary_int(void *user, uint64_t n, void *const *in, void *out)
{
    const MapArgs *args = user;
    const int64_t *x = in[0];
    int64_t *y = out;
    bool is_bool = args->bits == 1;
    for (uint64_t i = 0; i < n; i++) {
        bool negative = !args->is_unsigned && x[i] < 0;
        switch ((int)args->op) {
        case OP_neg:
            y[i] = (int64_t)(0 - (uint64_t)x[i]);
            break;
        case OP_abs:
            y[i] = negative ? (int64_t)(0 - (uint64_t)x[i]) : x[i];
            break;
        case OP_sign:
            y[i] = negative ? -1 : x[i] != 0;
            break;
        default:
            y[i] = is_bool ? !x[i] : ~x[i];
            break; /* not */
        }
    }
}

static void test_f64(void *user, uint64_t n, void *const *in, void *out)
{
    bool nan = ((const MapArgs *)user)->op == OP_isnan;
    for (uint64_t i = 0; i < n; i++) {
        double x = ((const double *)in[0])[i];
        ((int64_t *)out)[i] = nan ? isnan(x) != 0 : isinf(x) != 0;
    }
}

/* Bits of the integer type as far as wrapping and shifting see them; bool is one bit. */
static int width(const Tensor *t) { return t->dtype == DT_BOOL ? 1 : dtype_bits(t->dtype); }

bool eval_unary(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    Op op = (Op)node->op;
    const Tensor *x = in[0];
    EvalClass c = eval_class(x);
    bool test = op == OP_isnan || op == OP_isinf;
    MapArgs args = {.op = op, .is_unsigned = eval_unsigned(x), .bits = width(x)};
    args.has_scalar = scalar_body(op, &args.scalar);
    bool int_op = op == OP_neg || op == OP_abs || op == OP_sign || op == OP_not;
    if (c == EC_NONE || (c == EC_INT && !int_op && !test) || (c != EC_INT && !f64_unary[op] && !test))
        return eval_refuse(ec, node, x);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    const Tensor *xs[1] = {x};
    if (test) /* widening is exact; integers are neither */
        drive(xs, 1, &(EvalClass){EC_F64}, out[0], EC_INT, test_f64, &args);
    else
        drive(xs, 1, &c, out[0], c, c == EC_F32 ? unary_f32 : c == EC_F64 ? unary_f64 : unary_int, &args);
    return true;
}

/* ---- binary -------------------------------------------------------------------------------------------------- */

/* Sign of the divisor; an exact zero keeps the dividend's sign. */
static double mod_f64(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static float mod_f32(float x, float y)
{
    float r = fmodf(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

#define EACH(T, expression)                                                                                            \
    for (uint64_t i = 0; i < n; i++) {                                                                                 \
        T a = ((const T *)in[0])[i], b = ((const T *)in[1])[i];                                                        \
        ((T *)out)[i] = (expression);                                                                                  \
    }                                                                                                                  \
    break
#define FLOAT_BINARY(T, s)                                                                                             \
    switch ((int)((const MapArgs *)user)->op) {                                                                        \
    case OP_add:                                                                                                       \
        EACH(T, a + b);                                                                                                \
    case OP_sub:                                                                                                       \
        EACH(T, a - b);                                                                                                \
    case OP_mul:                                                                                                       \
        EACH(T, a *b);                                                                                                 \
    case OP_div:                                                                                                       \
        EACH(T, a / b);                                                                                                \
    case OP_min:                                                                                                       \
        EACH(T, eval_min_##s(a, b));                                                                                   \
    case OP_max:                                                                                                       \
        EACH(T, eval_max_##s(a, b));                                                                                   \
    case OP_mod:                                                                                                       \
        EACH(T, mod_##s(a, b));

static void binary_f32(void *user, uint64_t n, void *const *in, void *out)
{
    FLOAT_BINARY(float, f32)
case OP_rem:
    EACH(float, fmodf(a, b));
case OP_pow:
    scalar_apply2(SCALAR_pow, in[0], in[1], out, n);
    break;
default:
    break;
}
}

static void binary_f64(void *user, uint64_t n, void *const *in, void *out)
{
    FLOAT_BINARY(double, f64)
case OP_rem:
    EACH(double, fmod(a, b));
case OP_pow:
    EACH(double, pow(a, b));
default:
    break;
}
}

/* Division and modulo by zero: 0 and the dividend; INT_MIN / -1 wraps. */
static int64_t int_div(int64_t a, int64_t b, bool is_unsigned)
{
    if (b == 0)
        return 0;
    if (is_unsigned)
        return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t int_rem(int64_t a, int64_t b, bool is_unsigned)
{
    if (b == 0)
        return a;
    if (is_unsigned)
        return (int64_t)((uint64_t)a % (uint64_t)b);
    return b == -1 ? 0 : a % b;
}

static int64_t int_mod(int64_t a, int64_t b, bool is_unsigned)
{
    int64_t r = int_rem(a, b, is_unsigned);
    return !is_unsigned && b != 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Exact modulo 2^64. A negative exponent is 1 / x^|y| by the rules of division: 0 unless x is 1 or -1. */
static int64_t int_pow(int64_t x, int64_t y, bool is_unsigned)
{
    if (!is_unsigned && y < 0)
        return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
    uint64_t result = 1, base = (uint64_t)x;
    for (uint64_t e = (uint64_t)y; e; e >>= 1, base *= base)
        if (e & 1)
            result *= base;
    return (int64_t)result;
}

/* By >= width: 0, or the sign. A negative amount is a large one. */
static int64_t int_shift(Op op, int64_t a, int64_t b, const MapArgs *args)
{
    bool over = (uint64_t)b >= (uint64_t)args->bits;
    if (op == OP_shl)
        return over ? 0 : (int64_t)((uint64_t)a << b);
    if (args->is_unsigned)
        return over ? 0 : (int64_t)((uint64_t)a >> b);
    return over ? (a < 0 ? -1 : 0) : a >> b;
}

static int64_t int_binary(const MapArgs *args, int64_t a, int64_t b)
{
    bool u = args->is_unsigned, less = u ? (uint64_t)a < (uint64_t)b : a < b;
    switch ((int)args->op) {
    case OP_add:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case OP_sub:
        return (int64_t)((uint64_t)a - (uint64_t)b);
    case OP_mul:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case OP_div:
        return int_div(a, b, u);
    case OP_rem:
        return int_rem(a, b, u);
    case OP_mod:
        return int_mod(a, b, u);
    case OP_pow:
        return int_pow(a, b, u);
    case OP_min:
        return less ? a : b;
    case OP_max:
        return less ? b : a;
    case OP_and:
        return a & b;
    case OP_or:
        return a | b;
    case OP_xor:
        return a ^ b;
    case OP_eq:
        return a == b;
    case OP_ne:
        return a != b;
    case OP_lt:
        return less;
    case OP_le:
        return less || a == b;
    default:
        return int_shift(args->op, a, b, args);
    }
}

static void binary_int(void *user, uint64_t n, void *const *in, void *out)
{
    for (uint64_t i = 0; i < n; i++)
        ((int64_t *)out)[i] = int_binary(user, ((const int64_t *)in[0])[i], ((const int64_t *)in[1])[i]);
}

static void compare_f64(void *user, uint64_t n, void *const *in, void *out)
{
    Op op = ((const MapArgs *)user)->op;
    for (uint64_t i = 0; i < n; i++) {
        double a = ((const double *)in[0])[i], b = ((const double *)in[1])[i];
        ((int64_t *)out)[i] = op == OP_eq ? a == b : op == OP_ne ? a != b : op == OP_lt ? a < b : a <= b;
    }
}

bool eval_binary(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    Op op = (Op)node->op;
    bool compare = op_info[op].traits & OT_COMPARE;
    bool bits = op == OP_and || op == OP_or || op == OP_xor || op == OP_shl || op == OP_shr;
    EvalClass c = eval_class(in[0]), from[2] = {c, c};
    const Tensor *xs[2] = {in[0], in[1]};
    MapArgs args = {.op = op, .is_unsigned = eval_unsigned(in[0]), .bits = width(in[0])};
    if (c == EC_NONE || (bits && c != EC_INT))
        return eval_refuse(ec, node, in[0]);
    if (eval_class(in[1]) != c)
        return eval_refuse(ec, node, in[1]);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    if (compare && c != EC_INT) {
        from[0] = from[1] = EC_F64; /* widening is exact */
        drive(xs, 2, from, out[0], EC_INT, compare_f64, &args);
    } else {
        drive(xs, 2, from, out[0], c, c == EC_F32 ? binary_f32 : c == EC_F64 ? binary_f64 : binary_int, &args);
    }
    return true;
}

/* ---- three operands --------------------------------------------------------------------------------------------- */

static void fma_f32(void *user, uint64_t n, void *const *in, void *out)
{
    (void)user;
    const float *a = in[0], *b = in[1], *c = in[2];
    for (uint64_t i = 0; i < n; i++)
        ((float *)out)[i] = fmaf(a[i], b[i], c[i]);
}

static void fma_f64(void *user, uint64_t n, void *const *in, void *out)
{
    (void)user;
    const double *a = in[0], *b = in[1], *c = in[2];
    for (uint64_t i = 0; i < n; i++)
        ((double *)out)[i] = fma(a[i], b[i], c[i]);
}

static void fma_int(void *user, uint64_t n, void *const *in, void *out)
{
    (void)user;
    const uint64_t *a = in[0], *b = in[1], *c = in[2];
    for (uint64_t i = 0; i < n; i++)
        ((uint64_t *)out)[i] = a[i] * b[i] + c[i];
}

bool eval_fma(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    EvalClass c = eval_class(in[0]), from[3] = {c, c, c};
    const Tensor *xs[3] = {in[0], in[1], in[2]};
    if (c == EC_NONE)
        return eval_refuse(ec, node, in[0]);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    drive(xs, 3, from, out[0], c, c == EC_F32 ? fma_f32 : c == EC_F64 ? fma_f64 : fma_int, NULL);
    return true;
}

static void select_4(void *user, uint64_t n, void *const *in, void *out)
{
    (void)user;
    const int64_t *cond = in[0];
    for (uint64_t i = 0; i < n; i++)
        ((uint32_t *)out)[i] = ((const uint32_t *)in[cond[i] ? 1 : 2])[i];
}

static void select_8(void *user, uint64_t n, void *const *in, void *out)
{
    (void)user;
    const int64_t *cond = in[0];
    for (uint64_t i = 0; i < n; i++)
        ((uint64_t *)out)[i] = ((const uint64_t *)in[cond[i] ? 1 : 2])[i];
}

/* Elements without arithmetic: copied one by one. */
static void select_other(Tensor *const *in, Tensor *y)
{
    int64_t stride[3][IR_MAX_RANK], at[IR_MAX_RANK] = {0};
    for (int k = 0; k < 3; k++) {
        eval_strides(in[k], stride[k]);
        for (uint32_t axis = 0; axis < in[k]->rank; axis++)
            if (in[k]->dim[axis] == 1)
                stride[k][axis] = 0;
    }
    for (uint64_t i = 0; i < y->count; i++, eval_next(y->rank, y->dim, at)) {
        int64_t from[3] = {0};
        for (int k = 0; k < 3; k++)
            for (uint32_t axis = 0; axis < in[k]->rank; axis++)
                from[k] += at[axis] * stride[k][axis];
        int chosen = eval_index(in[0], (uint64_t)from[0]) ? 1 : 2;
        eval_copy(y, i, in[chosen], (uint64_t)from[chosen]);
    }
}

/* Any element type; widening and narrowing back is exact. */
bool eval_select(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    EvalClass c = eval_class(in[1]), from[3] = {EC_INT, c, c};
    const Tensor *xs[3] = {in[0], in[1], in[2]};
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    if (c == EC_NONE)
        select_other(in, out[0]);
    else
        drive(xs, 3, from, out[0], c, eval_class_bytes(c) == 4 ? select_4 : select_8, NULL);
    return true;
}

/* ---- conversion ------------------------------------------------------------------------------------------------- */

/* An unsigned 64-bit value as a double that every narrower format rounds like the integer: low bits become sticky. */
static double unsigned_sticky(uint64_t x)
{
    return x >> 63 ? (double)(x >> 11 | ((x & 0x7FF) != 0)) * 2048.0 : (double)x;
}

static void cast_int_to_float(const Tensor *x, Tensor *y)
{
    bool big = eval_unsigned(x);
    for (uint64_t i = 0; i < y->count; i++) {
        int64_t v = elem_get_s64(x->store, x->data, i);
        if (y->store == DT_F32)
            ((float *)y->data)[i] = big ? (float)(uint64_t)v : (float)v;
        else if (y->store == DT_F64)
            ((double *)y->data)[i] = big ? (double)(uint64_t)v : (double)v;
        else if (big && v < 0)
            elem_set_f64(y->store, y->data, i, unsigned_sticky((uint64_t)v));
        else
            elem_set_s64(y->store, y->data, i, v);
    }
}

/* float -> int truncates and saturates, NaN -> 0; int -> int keeps the low bits; to bool: != 0 (NaN is true). */
bool eval_cast(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *x = in[0];
    EvalClass from = eval_class(x);
    if (from == EC_NONE)
        return eval_refuse(ec, node, x);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    Tensor *y = out[0];
    EvalClass to = eval_class(y);
    if (to == EC_NONE)
        return eval_refuse(ec, node, y);
    if (from == EC_INT && to == EC_INT) {
        for (uint64_t i = 0; i < y->count; i++)
            elem_set_s64(y->store, y->data, i, elem_get_s64(x->store, x->data, i));
    } else if (from == EC_INT) {
        cast_int_to_float(x, y);
    } else {
        for (uint64_t i = 0; i < y->count; i++)
            elem_set_f64(y->store, y->data, i, elem_get_f64(x->store, x->data, i));
    }
    return true;
}

/* The bytes of the declared types; floats that EVAL_F64 holds wide are narrowed first and widened after. */
bool eval_bitcast(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *x = in[0];
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    Tensor *y = out[0];
    uint64_t bytes = 0, room = 0;
    if (!dtype_bytes(x->dtype, x->count, &bytes) || !dtype_bytes(y->dtype, y->count, &room))
        return eval_refuse(ec, node, x);
    uint8_t *raw = arena_alloc(ec->arena, bytes > room ? bytes : room);
    for (uint64_t i = 0; x->store != x->dtype && i < x->count; i++)
        elem_set_f64(x->dtype, raw, i, elem_get_f64(x->store, x->data, i));
    if (x->store == x->dtype && bytes)
        memcpy(raw, x->data, bytes);
    if (y->store == y->dtype && room)
        memcpy(y->data, raw, room);
    for (uint64_t i = 0; y->store != y->dtype && i < y->count; i++)
        elem_set_f64(y->store, y->data, i, elem_get_f64(y->dtype, raw, i));
    return true;
}

bool eval_identity(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    (void)node;
    out[0] = tensor_new(ec, in[0]->dtype, in[0]->rank, in[0]->dim);
    eval_copy_run(out[0], 0, in[0], 0, in[0]->count);
    return true;
}
