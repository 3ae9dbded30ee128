/* SPDX-License-Identifier: Apache-2.0 */
#include "support/nets.h"

double net_random(Net *n)
{
    n->seed = n->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(n->seed >> 40) / (double)(1 << 23) - 1.0;
}

Val *net_input(Net *n, const char *name, DType dtype, uint32_t rank, const int64_t *dims)
{
    return func_param(n->func, str_intern(n->ctx, name), type_tensor_s64(n->ctx, dtype, rank, dims));
}

Val *net_weight(Net *n, uint32_t rank, const int64_t *dims)
{
    const Type *type = type_tensor_s64(n->ctx, DT_F32, rank, dims);
    uint64_t count = 0;
    IG_CHECK(n->ctx, type_count(type, &count));
    float *data = ARENA_ARRAY(n->module->arena, float, count + 1);
    for (uint64_t i = 0; i < count; i++)
        data[i] = (float)net_random(n);
    return op_const_weight(&n->b, module_weight(n->module, str_format(n->ctx, "w%u", n->module->weights.len), type, data, true));
}

Val *net_conv(Net *n, Val *x, Val *w, int64_t stride, int64_t pad, int64_t dilation, int64_t lhs, int64_t groups, bool flip)
{
    int64_t s[2] = {stride, stride}, p[2] = {pad, pad}, d[2] = {dilation, dilation}, l[2] = {lhs, lhs};
    AttrVal attrs[] = {attr_ints(s, 2), attr_ints(p, 2), attr_ints(p, 2), attr_ints(d, 2), attr_ints(l, 2), attr_int(groups),
                       attr_bool(flip)};
    return op_emit(&n->b, OP_conv, (Val *[]){x, w}, 2, attrs, 7);
}

Val *net_window(Net *n, Op op, Val *x, const char *kind, int64_t size, int64_t stride, int64_t pad)
{
    int64_t w[4] = {1, 1, size, size}, s[4] = {1, 1, stride, stride}, p[4] = {0, 0, pad, pad}, d[4] = {1, 1, 1, 1};
    AttrVal attrs[] = {attr_ints(w, 4), attr_ints(s, 4), attr_ints(p, 4), attr_ints(p, 4), attr_ints(d, 4),
                       attr_str(n->ctx, kind)};
    return op_emit(&n->b, op, &x, 1, attrs, 6);
}

void net_outputs(Net *n, uint32_t count, Val *const *vals)
{
    Str names[4];
    for (uint32_t i = 0; i < count; i++) {
        IG_CHECK(n->ctx, vals[i]);
        names[i] = str_format(n->ctx, "y%u", i);
    }
    func_yield(n->func, n->b.loc, vals, names, count);
}

static void net_mlp(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(7, 40)), *h = op_binary(&n->b, OP_add, op_matmul(&n->b, x, net_weight(n, DIMS(40, 50))),
                                                               net_weight(n, DIMS(50)));
    AttrVal gelu = attr_str(n->ctx, "none");
    h = op_emit(&n->b, OP_gelu, &h, 1, &gelu, 1);
    Val *y = op_binary(&n->b, OP_add, op_matmul(&n->b, h, net_weight(n, DIMS(50, 10))), net_weight(n, DIMS(10)));
    AttrVal softmax[] = {attr_ints((int64_t[]){1}, 1), attr_str(n->ctx, "mul")};
    Val *p = op_emit(&n->b, OP_softmax, &y, 1, softmax, 2);
    net_outputs(n, 2, (Val *[]){p, h});
}

static void net_vector(Net *n) /* one row; K longer than a chain block */
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 1100));
    Val *y = op_unary(&n->b, OP_tanh, op_matmul(&n->b, x, net_weight(n, DIMS(1100, 33))));
    net_outputs(n, 1, &y);
}

static void net_norms(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(3, 5, 37));
    AttrVal ln[] = {attr_ints((int64_t[]){2}, 1), attr_float(1e-5)};
    Val *y = op_emit(&n->b, OP_layer_norm, (Val *[]){x, net_weight(n, DIMS(1, 1, 37)), net_weight(n, DIMS(1, 1, 37))}, 3, ln, 2);
    AttrVal axes = attr_ints((int64_t[]){1}, 1);
    Val *l = op_emit(&n->b, OP_log_softmax, &y, 1, &axes, 1);
    AttrVal eps = attr_float(1e-4);
    Val *i = op_emit(&n->b, OP_instance_norm, (Val *[]){x, net_weight(n, DIMS(5)), net_weight(n, DIMS(5))}, 3, &eps, 1);
    net_outputs(n, 3, (Val *[]){y, l, i});
}

static void net_nested(Net *n) /* folds over some of the axes that the fold before them reduced */
{
    Val *x = net_input(n, "x", DT_F32, DIMS(3, 5, 37));
    AttrVal all[] = {attr_ints((int64_t[]){0, 1, 2}, 3), attr_float(1e-5)}, last[] = {attr_ints((int64_t[]){2}, 1), attr_str(n->ctx, "mul")};
    Val *y = op_emit(&n->b, OP_layer_norm, (Val *[]){x, net_weight(n, DIMS(3, 5, 37)), net_weight(n, DIMS(3, 5, 37))}, 3, all, 2);
    Val *p = op_emit(&n->b, OP_softmax, &y, 1, last, 2), *m = op_reduce(&n->b, y, "max", (int64_t[]){1}, 1);
    Val *d = op_binary(&n->b, OP_sub, y, m);
    net_outputs(n, 2, (Val *[]){p, d});
}

static void net_joined(Net *n) /* a contraction wants the concat in memory, a map reads it too */
{
    Val *x = net_input(n, "x", DT_F32, DIMS(9, 31)), *c = op_concat(&n->b, (Val *[]){x, x}, 2, 0);
    Val *d = op_matmul(&n->b, c, net_weight(n, DIMS(31, 4))), *m = op_unary(&n->b, OP_relu, c);
    net_outputs(n, 2, (Val *[]){d, m});
}

static void net_attention(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(2, 21, 32)), *mask = net_input(n, "mask", DT_F32, DIMS(2, 1, 1, 21));
    Val *qkv = op_binary(&n->b, OP_add, op_matmul(&n->b, x, net_weight(n, DIMS(32, 96))), net_weight(n, DIMS(96))), *head[3];
    for (int64_t i = 0; i < 3; i++) {
        Val *part = op_slice_axis(&n->b, qkv, 2, dim_const(n->ctx, 32 * i), dim_const(n->ctx, 32), 1);
        part = op_reshape_s64(&n->b, part, 4, (int64_t[]){2, 21, 4, 8});
        head[i] = op_transpose(&n->b, part, (int64_t[]){0, 2, 1, 3});
    }
    AttrVal attrs[] = {attr_float(0.25), attr_bool(false), attr_float(0)};
    Val *a = op_emit(&n->b, OP_sdpa, (Val *[]){head[0], head[1], head[2], mask}, 4, attrs, 3);
    a = op_reshape_s64(&n->b, op_transpose(&n->b, a, (int64_t[]){0, 2, 1, 3}), 3, (int64_t[]){2, 21, 32});
    Val *y = op_binary(&n->b, OP_add, x, op_matmul(&n->b, a, net_weight(n, DIMS(32, 32))));
    net_outputs(n, 1, &y);
}

static void net_cnn(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(2, 3, 19, 17)), *h = net_conv(n, x, net_weight(n, DIMS(20, 3, 3, 3)), 2, 1, 1, 1, 1, false);
    h = op_unary(&n->b, OP_relu, op_binary(&n->b, OP_add, h, net_weight(n, DIMS(20, 1, 1))));
    Val *r = net_conv(n, h, net_weight(n, DIMS(20, 20, 3, 3)), 1, 1, 1, 1, 1, false);
    r = op_unary(&n->b, OP_relu, op_binary(&n->b, OP_add, r, h));
    Val *d = net_conv(n, r, net_weight(n, DIMS(20, 1, 5, 5)), 1, 4, 2, 1, 20, false);
    Val *g = net_conv(n, d, net_weight(n, DIMS(40, 5, 3, 3)), 1, 0, 1, 1, 4, false);
    Val *p = net_window(n, OP_reduce_window, g, "max", 3, 2, 1);
    Val *s = net_window(n, OP_reduce_window, g, "sum", 2, 2, 0);
    Val *m = op_reduce(&n->b, p, "sum", (int64_t[]){2, 3}, 2);
    Val *f = op_matmul(&n->b, op_reshape_s64(&n->b, p, 2, (int64_t[]){2, 40 * 4 * 4}), net_weight(n, DIMS(40 * 4 * 4, 6)));
    net_outputs(n, 3, (Val *[]){m, f, s});
}

static void net_transposed(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 6, 5, 7));
    Val *y = net_conv(n, x, net_weight(n, DIMS(18, 6, 4, 4)), 1, 2, 1, 2, 1, true);
    y = op_unary(&n->b, OP_sigmoid, net_conv(n, y, net_weight(n, DIMS(3, 18, 1, 1)), 1, 0, 1, 1, 1, false));
    net_outputs(n, 1, &y);
}

/* Tiles of pixels: borders at all sides, odd and even sizes, strides, wide filters, a residual in place, a channel tail. */
static void net_depthwise(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(2, 24, 12, 18)), *three = net_weight(n, DIMS(24, 1, 3, 3));
    Val *h = op_unary(&n->b, OP_relu, net_conv(n, x, three, 1, 1, 1, 1, 24, false));
    h = op_binary(&n->b, OP_add, net_conv(n, h, net_weight(n, DIMS(24, 1, 3, 3)), 1, 1, 1, 1, 24, false), h);
    Val *five = net_conv(n, h, net_weight(n, DIMS(24, 1, 5, 5)), 1, 2, 1, 1, 24, false);
    Val *half = net_conv(n, five, three, 2, 1, 1, 1, 24, false), *odd = net_conv(n, half, three, 1, 0, 1, 1, 24, false);
    Val *apart = net_conv(n, five, net_weight(n, DIMS(24, 1, 3, 3)), 1, 2, 2, 1, 24, false);
    net_outputs(n, 3, (Val *[]){half, op_unary(&n->b, OP_tanh, odd), apart});
}

/* Blocks of channels, of which the last is smaller, around all rows; a long epilogue over the pixels of a tile. */
static void net_depthwise_blocks(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 112, 5, 7));
    Val *y = net_conv(n, x, net_weight(n, DIMS(112, 1, 3, 3)), 1, 1, 1, 1, 112, false);
    y = op_binary(&n->b, OP_mul, y, op_unary(&n->b, OP_sigmoid, y));
    net_outputs(n, 1, &y);
}

/* Dilated: borders wider than a tile, whose rows lack the same taps in stretches; the first reads through a transpose what a product
 * over the channels made, the last is read through one. */
static void net_dilated(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 23, 20, 16));
    Val *h = op_transpose(&n->b, op_matmul(&n->b, x, net_weight(n, DIMS(16, 16))), (int64_t[]){0, 3, 1, 2});
    h = net_conv(n, h, net_weight(n, DIMS(16, 1, 5, 5)), 1, 8, 4, 1, 16, false);
    h = net_conv(n, h, net_weight(n, DIMS(16, 1, 3, 3)), 1, 9, 9, 1, 16, false);
    h = net_conv(n, h, net_weight(n, DIMS(16, 1, 3, 3)), 2, 4, 4, 1, 16, false);
    h = op_transpose(&n->b, h, (int64_t[]){0, 2, 3, 1});
    net_outputs(n, 1, &h);
}

/* Few channels a group, channels last: as many outputs as inputs, more, fewer; a residual, strides, dilation, one pixel wide. The
 * first and the last convolution have one group. */
static void net_groups(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(2, 6, 9, 13)), *h = net_conv(n, x, net_weight(n, DIMS(64, 6, 1, 1)), 1, 0, 1, 1, 1, false);
    h = op_binary(&n->b, OP_add, op_unary(&n->b, OP_relu, net_conv(n, h, net_weight(n, DIMS(64, 4, 3, 3)), 1, 1, 1, 1, 16, false)), h);
    h = net_conv(n, h, net_weight(n, DIMS(64, 8, 3, 3)), 2, 1, 1, 1, 8, false);
    h = net_conv(n, h, net_weight(n, DIMS(32, 8, 1, 1)), 1, 0, 1, 1, 8, false);
    h = op_unary(&n->b, OP_tanh, net_conv(n, h, net_weight(n, DIMS(64, 1, 3, 3)), 1, 2, 2, 1, 32, false));
    h = net_conv(n, h, net_weight(n, DIMS(32, 4, 5, 5)), 1, 2, 1, 1, 16, false);
    Val *y = net_conv(n, h, net_weight(n, DIMS(5, 32, 1, 1)), 1, 0, 1, 1, 1, false);
    net_outputs(n, 1, &y);
}

static void net_moves(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(4, 6, 5)), *i = net_input(n, "i", DT_S64, DIMS(7));
    AttrVal gather[] = {attr_int(1), attr_int(0)};
    Val *g = op_emit(&n->b, OP_gather, (Val *[]){x, i}, 2, gather, 2);
    Val *t = op_transpose(&n->b, g, (int64_t[]){2, 0, 1});
    Val *c = op_concat(&n->b, (Val *[]){t, op_unary(&n->b, OP_exp, t), op_transpose(&n->b, g, (int64_t[]){2, 0, 1})}, 3, 1);
    const Dim *lo[3] = {dim_const(n->ctx, 1), dim_const(n->ctx, 0), dim_const(n->ctx, 2)};
    const Dim *hi[3] = {dim_const(n->ctx, 0), dim_const(n->ctx, 3), dim_const(n->ctx, -1)};
    int64_t zero[3] = {0, 0, 0};
    AttrVal pad[] = {attr_dims(lo, 3), attr_dims(hi, 3), attr_ints(zero, 3)};
    Val *p = op_emit(&n->b, OP_pad, (Val *[]){c, op_const_f64(&n->b, DT_F32, 0.5)}, 2, pad, 3);
    Val *s = op_slice_axis(&n->b, p, 1, dim_const(n->ctx, 13), dim_const(n->ctx, 5), -2);
    Val *q = op_cast_to(&n->b, op_binary(&n->b, OP_lt, s, op_const_f64(&n->b, DT_F32, 0.25)), DT_S32);
    net_outputs(n, 4, (Val *[]){p, s, q, x});
}

static void net_across(Net *n) /* loads across the vectors: whole blocks and rests of both loops, and a sum of both directions */
{
    Val *x = net_input(n, "x", DT_F32, DIMS(3, 37, 21)), *square = net_input(n, "s", DT_F32, DIMS(48, 48));
    Val *y[] = {op_unary(&n->b, OP_neg, op_transpose(&n->b, x, (int64_t[]){0, 2, 1})),
                op_binary(&n->b, OP_add, square, op_transpose(&n->b, square, (int64_t[]){1, 0})),
                op_transpose(&n->b, x, (int64_t[]){2, 0, 1})};
    net_outputs(n, 3, y);
}

static void net_half(Net *n) /* 16-bit floats: folds widen, every value is rounded */
{
    Val *x = net_input(n, "x", DT_F16, DIMS(9, 37)), *v = net_input(n, "v", DT_BF16, DIMS(2, 5, 600));
    Val *w = op_cast_to(&n->b, net_weight(n, DIMS(37, 20)), DT_F16);
    Val *y = op_unary(&n->b, OP_relu, op_matmul(&n->b, x, w));
    AttrVal attrs[] = {attr_ints((int64_t[]){1}, 1), attr_str(n->ctx, "mul")};
    Val *p = op_emit(&n->b, OP_softmax, &y, 1, attrs, 2);
    Val *s = op_reduce(&n->b, v, "sum", (int64_t[]){2}, 1), *d = op_matmul(&n->b, v, op_transpose(&n->b, v, (int64_t[]){0, 2, 1}));
    net_outputs(n, 4, (Val *[]){y, p, s, d});
}

static void net_ints(Net *n)
{
    Val *x = net_input(n, "x", DT_S8, DIMS(7, 40)), *w = net_input(n, "w", DT_S8, DIMS(40, 18));
    Val *u = net_input(n, "u", DT_U64, DIMS(3, 33)), *k = net_input(n, "k", DT_S32, DIMS(3, 33));
    Val *y = op_matmul(&n->b, op_cast_to(&n->b, x, DT_S32), op_cast_to(&n->b, w, DT_S32));
    Val *q = op_binary(&n->b, OP_div, k, op_binary(&n->b, OP_sub, k, op_const_s64(&n->b, DT_S32, 1)));
    q = op_binary(&n->b, OP_xor, q, op_binary(&n->b, OP_shr, k, op_const_s64(&n->b, DT_S32, 2)));
    AttrVal argmax[] = {attr_int(1), attr_str(n->ctx, "max"), attr_bool(true)};
    Val *a = op_emit(&n->b, OP_argreduce, &y, 1, argmax, 3), *m = op_reduce(&n->b, u, "max", (int64_t[]){0}, 1);
    net_outputs(n, 4, (Val *[]){y, q, a, m});
}

static Val *opaque(Net *n, Op op, uint32_t n_in, Val *const *in, uint32_t n_attrs, const AttrVal *attrs)
{
    return op_emit(&n->b, op, in, n_in, attrs, n_attrs);
}

/* Element `i mod size` as an index: many are equal, some negative. */
static Val *wild_index(Net *n, Val *i, int64_t size)
{
    return op_binary(&n->b, OP_rem, i, op_const_s64(&n->b, DT_S64, size));
}

static void net_scatter(Net *n) /* lines enough for several threads */
{
    Val *x = net_input(n, "x", DT_F32, DIMS(140, 30, 8)), *i = net_input(n, "i", DT_S64, DIMS(140, 40, 8));
    Val *r = net_input(n, "r", DT_S64, DIMS(2, 150, 1)), *u = net_input(n, "u", DT_F32, DIMS(2, 150, 30, 8));
    AttrVal along[] = {attr_int(1), attr_str(n->ctx, "add")}, last[] = {attr_int(1), attr_str(n->ctx, "none")};
    AttrVal rows = attr_str(n->ctx, "mul");
    Val *table = op_reduce(&n->b, u, "max", (int64_t[]){0}, 1);
    table = op_slice_axis(&n->b, op_reshape_s64(&n->b, table, 3, (int64_t[]){150, 30, 8}), 0, dim_const(n->ctx, 5),
                          dim_const(n->ctx, 140), 1);
    Val *updates = opaque(n, OP_gather_elements, 2, (Val *[]){table, wild_index(n, i, 30)}, 1, along);
    Val *a = opaque(n, OP_scatter_elements, 3, (Val *[]){x, wild_index(n, i, 29), updates}, 2, along);
    Val *b = opaque(n, OP_scatter_elements, 3, (Val *[]){a, wild_index(n, i, 7), updates}, 2, last);
    Val *c = opaque(n, OP_scatter_nd, 3, (Val *[]){b, wild_index(n, r, 140), u}, 1, &rows);
    net_outputs(n, 3, (Val *[]){a, b, c});
}

static void net_order(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(3, 120, 70)), *h = net_input(n, "h", DT_F16, DIMS(90, 300));
    Val *image = net_input(n, "image", DT_F32, DIMS(2, 8, 40, 33));
    AttrVal top[] = {attr_int(2), attr_dim(dim_const(n->ctx, 9)), attr_str(n->ctx, "max")};
    Val *values = opaque(n, OP_topk, 1, &x, 3, top), *places = ir_out(values->def, 1);
    AttrVal sum[] = {attr_int(1), attr_str(n->ctx, "sum"), attr_bool(false), attr_bool(true)};
    Val *cumulated = op_unary(&n->b, OP_neg, opaque(n, OP_cumulate, 1, &values, 4, sum));
    AttrVal product[] = {attr_int(1), attr_str(n->ctx, "prod"), attr_bool(true), attr_bool(false)};
    Val *half = opaque(n, OP_cumulate, 1, &h, 4, product);
    int64_t window[] = {1, 1, 3, 2}, stride[] = {1, 1, 1, 2}, pad[] = {0, 0, 1, 1}, ones[] = {1, 1, 1, 1};
    AttrVal taps[] = {attr_ints(window, 4), attr_ints(stride, 4), attr_ints(pad, 4),        attr_ints(pad, 4),
                      attr_ints(ones, 4),   attr_str(n->ctx, "max"), attr_str(n->ctx, "row")};
    Val *best = opaque(n, OP_argwindow, 1, &image, 7, taps);
    net_outputs(n, 4, (Val *[]){cumulated, places, half, best});
}

static void net_tail(Net *n) /* many values behind one product, each used twice */
{
    Val *h = op_matmul(&n->b, net_input(n, "x", DT_F32, DIMS(13, 24)), net_weight(n, DIMS(24, 33)));
    for (int i = 0; i < 12; i++)
        h = op_binary(&n->b, OP_sub, op_unary(&n->b, OP_abs, h), op_binary(&n->b, OP_mul, h, op_const_f64(&n->b, DT_F32, 0.25)));
    net_outputs(n, 1, &h);
}

/* Class wino2: whole tiles with a residual; odd sizes, batch and a group of channels that is no multiple of 16. */
static void net_wino2(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(2, 32, 11, 9));
    Val *a = op_unary(&n->b, OP_relu, net_conv(n, x, net_weight(n, DIMS(36, 32, 3, 3)), 1, 2, 1, 1, 1, true)); /* 13 x 11 */
    a = op_binary(&n->b, OP_add, net_conv(n, a, net_weight(n, DIMS(32, 36, 3, 3)), 1, 0, 1, 1, 1, false), x);  /* 11 x 9 */
    Val *whole = net_conv(n, a, net_weight(n, DIMS(32, 32, 2, 2)), 1, 0, 1, 1, 1, false);                      /* 10 x 8 */
    Val *y = net_conv(n, whole, net_weight(n, DIMS(32, 32, 3, 3)), 1, 1, 1, 1, 1, false);
    y = op_binary(&n->b, OP_add, y, net_weight(n, DIMS(32, 1, 1)));
    y = op_unary(&n->b, OP_relu, op_binary(&n->b, OP_add, y, whole));
    net_outputs(n, 1, &y);
}

/* With filters that are no constants, and computed inputs. */
static void net_wino2_filters(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 32, 8, 9)), *w = net_input(n, "w", DT_F32, DIMS(32, 32, 3, 3));
    const int64_t perm[] = {0, 1, 3, 2};
    Val *y = net_conv(n, op_transpose(&n->b, x, perm), op_unary(&n->b, OP_abs, w), 1, 1, 1, 1, 1, false);
    net_outputs(n, 1, &y);
}

/* Blocks that append channels, parts of one value, a skip over a smaller image, and values over which nothing may be written: `twice`
 * has the shape and strides of the view that dies with it, but reads all of the joined rows; `less` those of the joined rows, but reads
 * the view in them over and over. */
static void net_views(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 5, 12, 10)), *m = net_input(n, "m", DT_F32, DIMS(16, 24)), *all[4], *d;
    all[0] = op_unary(&n->b, OP_relu, net_conv(n, x, net_weight(n, DIMS(32, 5, 3, 3)), 1, 1, 1, 1, 1, false));
    d = all[0];
    for (uint32_t i = 1; i < 4; i++) {
        all[i] = net_conv(n, op_unary(&n->b, OP_tanh, d), net_weight(n, DIMS(16, 16 + 16 * i, 3, 3)), 1, 1, 1, 1, 1, false);
        d = op_concat(&n->b, all, i + 1, 1);
    }
    Val *up = net_conv(n, net_window(n, OP_reduce_window, all[0], "max", 2, 2, 0), net_weight(n, DIMS(20, 32, 4, 4)), 1, 2, 1, 2, 1, true);
    Val *low = op_slice_axis(&n->b, d, 1, dim_const(n->ctx, 0), dim_const(n->ctx, 40), 1);
    Val *high = op_slice_axis(&n->b, d, 1, dim_const(n->ctx, 40), dim_const(n->ctx, 40), 1);
    Val *y = op_concat(&n->b, (Val *[]){up, low, high, x}, 4, 1);
    y = net_conv(n, y, net_weight(n, DIMS(18, 105, 1, 1)), 1, 0, 1, 1, 1, false);
    Val *part[] = {op_matmul(&n->b, m, net_weight(n, DIMS(24, 32))), op_unary(&n->b, OP_tanh, op_matmul(&n->b, m, net_weight(n, DIMS(24, 32))))};
    Val *rows = op_concat(&n->b, part, 2, 0);
    AttrVal axis = attr_ints((int64_t[]){0}, 1);
    Val *back = op_slice_axis(&n->b, op_emit(&n->b, OP_reverse, &rows, 1, &axis, 1), 0, dim_const(n->ctx, 8), dim_const(n->ctx, 16), 1);
    Val *twice = op_binary(&n->b, OP_mul, part[0], back);
    Val *r = op_matmul(&n->b, twice, net_weight(n, DIMS(32, 7)));
    Val *out = op_concat(&n->b, (Val *[]){op_matmul(&n->b, r, net_weight(n, DIMS(7, 48))), op_matmul(&n->b, r, net_weight(n, DIMS(7, 20)))}, 2, 1);
    Val *row[] = {op_unary(&n->b, OP_tanh, op_slice_axis(&n->b, m, 0, dim_const(n->ctx, 3), dim_const(n->ctx, 1), 1)),
                  op_unary(&n->b, OP_tanh, op_slice_axis(&n->b, m, 0, dim_const(n->ctx, 4), dim_const(n->ctx, 7), 1))};
    Val *eight = op_concat(&n->b, row, 2, 0), *less = op_binary(&n->b, OP_sub, eight, row[0]);
    Val *spread = op_binary(&n->b, OP_add, less, op_reduce(&n->b, less, "sum", (int64_t[]){0}, 1));
    net_outputs(n, 4, (Val *[]){y, r, out, spread});
}

const NetDef net_defs[] = {{"mlp", net_mlp},           {"vector", net_vector},         {"norms", net_norms}, {"nested", net_nested}, {"joined", net_joined}, {"views", net_views}, {"attention", net_attention},
                           {"cnn", net_cnn},           {"transposed", net_transposed}, {"depthwise", net_depthwise}, {"moves", net_moves},     {"across", net_across},
                           {"depthwise_blocks", net_depthwise_blocks}, {"groups", net_groups}, {"dilated", net_dilated},
                           {"wino2", net_wino2},       {"wino2_filters", net_wino2_filters},
                           {"half", net_half},         {"ints", net_ints},             {"scatter", net_scatter},
                           {"order", net_order},       {"tail", net_tail}, {0}};

Net net_make(Context *ctx, const NetDef *def, uint64_t seed)
{
    Net n = {.ctx = ctx, .module = module_create(ctx), .seed = seed};
    n.func = module_func(n.module, str_intern(ctx, "main"), true);
    n.b = ir_at_end(n.func->body, loc_text(ctx, str_intern(ctx, def->name), 1, 1));
    def->build(&n);
    return n;
}
