/* SPDX-License-Identifier: Apache-2.0
 * What must be one kernel, is: the groups that matter for speed, and equal kernels, on every x86-64 level, with the bits of the
 * evaluator. */
#include "support/artifact_run.h"
#include "support/nets.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <string.h>

static Val *bias_add(Net *n, Val *x, int64_t size) { return op_binary(&n->b, OP_add, x, net_weight(n, DIMS(size))); }

static void matmul_bias_gelu(Net *n)
{
    Val *h = bias_add(n, op_matmul(&n->b, net_input(n, "x", DT_F32, DIMS(33, 64)), net_weight(n, DIMS(64, 80))), 80);
    AttrVal approx = attr_str(n->ctx, "none");
    Val *y = op_emit(&n->b, OP_gelu, &h, 1, &approx, 1);
    net_outputs(n, 1, &y);
}

/* As the importer leaves it: batch normalisation is part of the weights. */
static void conv_relu_residual(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 16, 14, 14));
    Val *h = net_conv(n, x, net_weight(n, DIMS(16, 16, 3, 3)), 1, 1, 1, 1, 1, false);
    h = op_binary(&n->b, OP_add, h, net_weight(n, DIMS(16, 1, 1)));
    Val *y = op_unary(&n->b, OP_relu, op_binary(&n->b, OP_add, h, x));
    net_outputs(n, 1, &y);
}

/* Under --strict it stays an operation of its own. */
static void conv_bn_relu_residual(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 16, 14, 14));
    Val *h = net_conv(n, x, net_weight(n, DIMS(16, 16, 3, 3)), 1, 1, 1, 1, 1, false);
    AttrVal eps = attr_float(1e-5);
    Val *variance = op_unary(&n->b, OP_abs, net_weight(n, DIMS(16)));
    h = op_emit(&n->b, OP_batch_norm,
                (Val *[]){h, net_weight(n, DIMS(16)), net_weight(n, DIMS(16)), net_weight(n, DIMS(16)), variance}, 5, &eps, 1);
    Val *y = op_binary(&n->b, OP_add, op_unary(&n->b, OP_relu, h), x);
    net_outputs(n, 1, &y);
}

/* gelu(x W1 + b1) * (x W2 + b2), as exporters write it: one product and a split. */
static void gated_unit(Net *n)
{
    Val *h = bias_add(n, op_matmul(&n->b, net_input(n, "x", DT_F32, DIMS(33, 64)), net_weight(n, DIMS(64, 104))), 104), *half[2];
    for (int i = 0; i < 2; i++)
        half[i] = op_slice_axis(&n->b, h, 1, dim_const(n->ctx, 52 * i), dim_const(n->ctx, 52), 1);
    AttrVal approx = attr_str(n->ctx, "none");
    Val *y = op_binary(&n->b, OP_mul, op_emit(&n->b, OP_gelu, half, 1, &approx, 1), half[1]);
    net_outputs(n, 1, &y);
}

/* silu(x W1) * (x W2) with two products, the second first. */
static void gated_products(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 96));
    Val *up = op_matmul(&n->b, x, net_weight(n, DIMS(96, 80))), *gate = op_matmul(&n->b, x, net_weight(n, DIMS(96, 80)));
    Val *y = op_binary(&n->b, OP_mul, op_binary(&n->b, OP_mul, gate, op_unary(&n->b, OP_sigmoid, gate)), up);
    net_outputs(n, 1, &y);
}

/* Rows that are normalised before a gated unit and a product: all of it a tile of rows at a time. */
static void gated_rows(Net *n)
{
    Val *x = op_matmul(&n->b, net_input(n, "x", DT_F32, DIMS(21, 96)), net_weight(n, DIMS(96, 96)));
    AttrVal attrs[] = {attr_ints((int64_t[]){1}, 1), attr_float(1e-5)};
    Val *h = op_emit(&n->b, OP_layer_norm, (Val *[]){x, net_weight(n, DIMS(1, 96)), net_weight(n, DIMS(1, 96))}, 3, attrs, 2);
    Val *up = op_matmul(&n->b, h, net_weight(n, DIMS(96, 80))), *gate = op_matmul(&n->b, h, net_weight(n, DIMS(96, 80)));
    h = op_binary(&n->b, OP_mul, op_binary(&n->b, OP_mul, gate, op_unary(&n->b, OP_sigmoid, gate)), up);
    Val *y = op_binary(&n->b, OP_add, op_matmul(&n->b, h, net_weight(n, DIMS(80, 96))), x);
    net_outputs(n, 1, &y);
}

/* A product and a residual that is looked up in a table: rows of an embedding. */
static void looked_up_residual(Net *n)
{
    Val *ids = net_input(n, "ids", DT_S64, DIMS(33)), *in[] = {net_weight(n, DIMS(100, 64)), ids};
    AttrVal attrs[] = {attr_int(0), attr_int(0)};
    Val *x = op_matmul(&n->b, net_input(n, "x", DT_F32, DIMS(33, 64)), net_weight(n, DIMS(64, 64)));
    Val *y = op_binary(&n->b, OP_add, op_emit(&n->b, OP_gather, in, 2, attrs, 2), x);
    net_outputs(n, 1, &y);
}

static void layer_norm(Net *n)
{
    AttrVal attrs[] = {attr_ints((int64_t[]){2}, 1), attr_float(1e-5)};
    Val *x = net_input(n, "x", DT_F32, DIMS(2, 9, 48));
    Val *y = op_emit(&n->b, OP_layer_norm, (Val *[]){x, net_weight(n, DIMS(1, 1, 48)), net_weight(n, DIMS(1, 1, 48))}, 3, attrs, 2);
    net_outputs(n, 1, &y);
}

static void softmax(Net *n)
{
    AttrVal attrs[] = {attr_ints((int64_t[]){1}, 1), attr_str(n->ctx, "mul")};
    Val *x = net_input(n, "x", DT_F32, DIMS(12, 51)), *y = op_emit(&n->b, OP_softmax, &x, 1, attrs, 2);
    net_outputs(n, 1, &y);
}

static void attention(Net *n)
{
    static const char *const names[] = {"q", "k", "v"};
    Val *in[4];
    for (int i = 0; i < 3; i++)
        in[i] = net_input(n, names[i], DT_F32, DIMS(2, 3, 21, 16));
    in[3] = net_input(n, "mask", DT_F32, DIMS(2, 1, 1, 21));
    AttrVal attrs[] = {attr_float(0.25), attr_bool(false), attr_float(0)};
    Val *y = op_emit(&n->b, OP_sdpa, in, 4, attrs, 3);
    net_outputs(n, 1, &y);
}

/* One query over cached keys, of which the last vector is not whole. */
static void one_query(Net *n)
{
    Val *in[] = {net_input(n, "q", DT_F32, DIMS(1, 3, 1, 32)), net_input(n, "k", DT_F32, DIMS(1, 3, 45, 32)),
                 net_input(n, "v", DT_F32, DIMS(1, 3, 45, 32))};
    AttrVal attrs[] = {attr_float(0.25), attr_bool(false), attr_float(0)};
    Val *y = op_emit(&n->b, OP_sdpa, in, 3, attrs, 3);
    net_outputs(n, 1, &y);
}

/* Keys and values of a head leave half of the second-level cache of x86-64-v3; rows of them lie apart. */
static void long_attention(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(600, 192)), *in[3];
    for (int i = 0; i < 3; i++) {
        in[i] = op_slice_axis(&n->b, x, 1, dim_const(n->ctx, 64 * i), dim_const(n->ctx, 64), 1);
        const Dim *heads[] = {dim_const(n->ctx, 600), dim_const(n->ctx, 2), dim_const(n->ctx, 32)};
        in[i] = op_transpose(&n->b, op_reshape(&n->b, in[i], 3, heads), (int64_t[]){1, 0, 2});
    }
    AttrVal attrs[] = {attr_float(0.25), attr_bool(true), attr_float(0)};
    Val *y = op_emit(&n->b, OP_sdpa, in, 3, attrs, 3);
    net_outputs(n, 1, &y);
}

/* As torch.onnx writes it: Q and K scaled, MatMul, Add mask, Softmax, rows without any key to zero, MatMul. */
static void exported_attention(Net *n)
{
    Val *q = net_input(n, "q", DT_F32, DIMS(2, 3, 21, 16)), *k = net_input(n, "k", DT_F32, DIMS(2, 3, 21, 16));
    Val *v = net_input(n, "v", DT_F32, DIMS(2, 3, 21, 16)), *mask = net_input(n, "mask", DT_F32, DIMS(2, 1, 1, 21));
    Val *scale = op_const_f64(&n->b, DT_F32, 0.5);
    k = op_transpose(&n->b, k, (int64_t[]){0, 1, 3, 2});
    Val *s = op_matmul(&n->b, op_binary(&n->b, OP_mul, q, scale), op_binary(&n->b, OP_mul, k, scale));
    s = op_binary(&n->b, OP_add, s, mask);
    AttrVal attrs[] = {attr_ints((int64_t[]){3}, 1), attr_str(n->ctx, "mul")};
    Val *p = op_emit(&n->b, OP_softmax, &s, 1, attrs, 2);
    Val *zero = op_const_f64(&n->b, DT_F32, 0);
    p = op_select(&n->b, op_unary(&n->b, OP_isnan, p), op_broadcast(&n->b, zero, p->type->rank, p->type->dim), p);
    Val *y = op_matmul(&n->b, p, v);
    net_outputs(n, 1, &y);
}

/* As shifted windows of a batch of two are written: a mask for each window, added in between reshapes. */
static void masked_windows(Net *n)
{
    Val *q = net_input(n, "q", DT_F32, DIMS(8, 3, 19, 16)), *k = net_input(n, "k", DT_F32, DIMS(8, 3, 16, 19));
    Val *v = net_input(n, "v", DT_F32, DIMS(8, 3, 19, 16)), *mask = net_input(n, "mask", DT_F32, DIMS(1, 4, 1, 19, 19));
    Val *s = op_matmul(&n->b, q, k), *split = op_reshape_s64(&n->b, s, 5, (int64_t[]){2, 4, 3, 19, 19});
    s = op_reshape(&n->b, op_binary(&n->b, OP_add, split, mask), 4, s->type->dim);
    AttrVal attrs[] = {attr_ints((int64_t[]){3}, 1), attr_str(n->ctx, "mul")};
    Val *y = op_matmul(&n->b, op_emit(&n->b, OP_softmax, &s, 1, attrs, 2), v);
    net_outputs(n, 1, &y);
}

/* Equal code over other weights. */
static void two_layers(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(33, 64));
    for (int i = 0; i < 2; i++)
        x = op_unary(&n->b, OP_relu, bias_add(n, op_matmul(&n->b, x, net_weight(n, DIMS(64, 64))), 64));
    net_outputs(n, 1, &x);
}

/* The same operations, but not over the same operands: max(a, b) - transpose(a), max(c, d) - transpose(d). */
static void not_alike(Net *n)
{
    Val *a = net_input(n, "a", DT_F32, DIMS(7, 7)), *b = net_input(n, "b", DT_F32, DIMS(7, 7));
    Val *c = net_input(n, "c", DT_F32, DIMS(7, 7)), *d = net_input(n, "d", DT_F32, DIMS(7, 7));
    const int64_t turned[] = {1, 0};
    Val *y[2] = {op_binary(&n->b, OP_sub, op_binary(&n->b, OP_max, a, b), op_transpose(&n->b, a, turned)),
                 op_binary(&n->b, OP_sub, op_binary(&n->b, OP_max, c, d), op_transpose(&n->b, d, turned))};
    net_outputs(n, 2, y);
}

/* As exporters write a linear layer. */
static void transposed_weight(Net *n)
{
    Val *w = op_transpose(&n->b, net_weight(n, DIMS(128, 192)), (int64_t[]){1, 0});
    Val *y = op_matmul(&n->b, net_input(n, "x", DT_F32, DIMS(33, 192)), w);
    net_outputs(n, 1, &y);
}

static Val *conv(Net *n, Val *x, int64_t channels, int64_t size)
{
    Val *w = net_weight(n, DIMS(channels, type_dim(x->type, 1), size, size));
    return net_conv(n, x, w, 1, size / 2, 1, 1, 1, false);
}

/* Layers that append their channels to all that came before: a kernel for what a convolution reads, and the convolution. */
static void dense_block(Net *n)
{
    Val *all[4] = {conv(n, net_input(n, "x", DT_F32, DIMS(1, 3, 9, 11)), 32, 3)}, *d = all[0];
    for (uint32_t i = 1; i < 4; i++) {
        all[i] = conv(n, op_unary(&n->b, OP_tanh, d), 16, 3);
        d = op_concat(&n->b, all, i + 1, 1);
    }
    d = op_reduce(&n->b, d, "sum", (int64_t[]){2, 3}, 2);
    net_outputs(n, 1, &d);
}

/* Both halves of a convolution's channels and what is computed from one of them meet again. */
static void split_and_join(Net *n)
{
    Val *h = op_unary(&n->b, OP_relu, conv(n, net_input(n, "x", DT_F32, DIMS(1, 8, 9, 11)), 48, 1)), *part[3];
    for (int i = 0; i < 2; i++)
        part[i] = op_slice_axis(&n->b, h, 1, dim_const(n->ctx, 24 * i), dim_const(n->ctx, 24), 1);
    part[2] = op_binary(&n->b, OP_add, conv(n, part[1], 24, 3), part[1]);
    Val *y = conv(n, op_concat(&n->b, part, 3, 1), 20, 1);
    net_outputs(n, 1, &y);
}

/* A skip connection over a smaller image. */
static void skip_joined(Net *n)
{
    Val *h = op_unary(&n->b, OP_relu, conv(n, net_input(n, "x", DT_F32, DIMS(1, 3, 12, 16)), 24, 3));
    Val *low = net_window(n, OP_reduce_window, h, "max", 2, 2, 0);
    Val *up = net_conv(n, low, net_weight(n, DIMS(32, 24, 4, 4)), 1, 2, 1, 2, 1, true);
    Val *y = conv(n, op_concat(&n->b, (Val *[]){up, h}, 2, 1), 16, 3);
    net_outputs(n, 1, &y);
}

/* As a view, the narrow skip would make all 128 channels of the result live where two other values of 128 do: it is copied, and what
 * is computed last is a view. */
static void skip_over_peak(Net *n)
{
    Val *h = conv(n, net_input(n, "x", DT_F32, DIMS(1, 3, 8, 8)), 16, 1);
    Val *t = conv(n, conv(n, conv(n, h, 128, 1), 128, 1), 112, 1);
    Val *y = conv(n, op_concat(&n->b, (Val *[]){h, t}, 2, 1), 8, 1);
    net_outputs(n, 1, &y);
}

/* Parts of the output are computed in it; the one that is an output itself is copied. */
static void joined_outputs(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(33, 64)), *part[3];
    for (int i = 0; i < 3; i++)
        part[i] = bias_add(n, op_matmul(&n->b, x, net_weight(n, DIMS(64, 48))), 48);
    net_outputs(n, 2, (Val *[]){op_concat(&n->b, part, 3, 1), part[1]});
}

/* Columns narrower than a vector are copied. */
static void narrow_columns(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(33, 64)), *part[2];
    for (int i = 0; i < 2; i++)
        part[i] = op_matmul(&n->b, x, net_weight(n, DIMS(64, 5)));
    Val *y = op_concat(&n->b, part, 2, 1);
    net_outputs(n, 1, &y);
}

/* A matmul of the windows of an image, as shifted windows transformers have it. */
static void windows(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(10, 15, 32));
    x = op_reshape_s64(&n->b, x, 5, (int64_t[]){2, 5, 3, 5, 32});
    x = op_transpose(&n->b, x, (int64_t[]){0, 2, 1, 3, 4});
    x = op_reshape_s64(&n->b, x, 3, (int64_t[]){6, 25, 32});
    Val *y = bias_add(n, op_matmul(&n->b, x, net_weight(n, DIMS(32, 48))), 48);
    net_outputs(n, 1, &y);
}

/* Some of its values are used several times, and far from what they are computed of. */
static void long_chain(Net *n)
{
    Builder *b = &n->b;
    Val *x = net_input(n, "x", DT_F32, DIMS(7, 50)), *z = net_input(n, "z", DT_F32, DIMS(7, 50));
    Val *deep = op_binary(b, OP_sub, op_binary(b, OP_add, op_binary(b, OP_mul, x, z), x), z);
    Val *side = op_binary(b, OP_add, op_binary(b, OP_mul, op_binary(b, OP_sub, z, x), x), z);
    Val *deeper = op_binary(b, OP_add, op_binary(b, OP_mul, deep, op_binary(b, OP_mul, side, deep)), op_binary(b, OP_sub, side, x));
    Val *y = op_binary(b, OP_sub, op_binary(b, OP_mul, deeper, deeper), op_binary(b, OP_mul, deeper, z));
    net_outputs(n, 1, &y);
}

static Val *picked(Net *n, Val *x, int64_t axis, int64_t size, int64_t factor, int64_t behind)
{
    int64_t index[64];
    for (int64_t i = 0; i < size * factor; i++)
        index[i] = i / factor + behind < size ? i / factor + behind : size - 1;
    AttrVal attrs[2] = {attr_int(axis), attr_int(0)};
    return op_emit(&n->b, OP_gather, (Val *[]){x, op_const_ints(&n->b, index, (uint32_t)(size * factor))}, 2, attrs, 2);
}

/* A number for each row of many elements, from a table. */
static void number_per_row(Net *n)
{
    Val *table = net_input(n, "table", DT_F32, DIMS(4, 1)), *x = net_input(n, "x", DT_F32, DIMS(12, 300));
    Val *y = op_binary(&n->b, OP_mul, x, picked(n, table, 0, 4, 3, 0));
    net_outputs(n, 1, &y);
}

static Val *resized_axis(Net *n, Val *x, uint32_t axis, int64_t size, int64_t factor)
{
    int64_t dims[4] = {1, 1, 1, 1};
    dims[axis] = size * factor;
    Val *near = op_binary(&n->b, OP_mul, picked(n, x, axis, size, factor, 0), net_weight(n, 4, dims));
    return op_binary(&n->b, OP_add, near, op_binary(&n->b, OP_mul, picked(n, x, axis, size, factor, 1), net_weight(n, 4, dims)));
}

/* Axis after axis: what one gives is not computed again for each element of the next. */
static void resized(Net *n)
{
    Val *x = net_input(n, "x", DT_F32, DIMS(1, 2, 9, 12));
    Val *y = resized_axis(n, resized_axis(n, x, 2, 9, 4), 3, 12, 4);
    net_outputs(n, 1, &y);
}

typedef struct Pinned {
    NetDef net;
    uint32_t phases, kernels;
} Pinned;
static const Pinned pinned[] = {
    {{"matmul+bias+gelu", matmul_bias_gelu}, 1, 1},
    {{"gated unit", gated_unit}, 1, 1},
    {{"gated products", gated_products}, 1, 1},
    {{"gated rows", gated_rows}, 1, 1},
    {{"conv+relu+residual", conv_relu_residual}, 1, 1},
    {{"conv+bn+relu+residual", conv_bn_relu_residual}, 1, 1},
    {{"layer norm", layer_norm}, 1, 1},
    {{"softmax", softmax}, 1, 1},
    {{"attention", attention}, 1, 1},
    {{"exported attention", exported_attention}, 1, 1},
    {{"one query", one_query}, 1, 1},
    {{"long attention", long_attention}, 1, 1},
    {{"masked windows", masked_windows}, 1, 1},
    {{"transposed weight", transposed_weight}, 1, 1},
    {{"two layers", two_layers}, 2, 1},
    {{"not alike", not_alike}, 2, 2},
    {{"dense block", dense_block}, 7, 7},
    {{"split and join", split_and_join}, 3, 3},
    {{"skip", skip_joined}, 4, 4},
    {{"skip over peak", skip_over_peak}, 6, 6},
    {{"joined outputs", joined_outputs}, 4, 3},
    {{"narrow columns", narrow_columns}, 3, 2},
    {{"windows", windows}, 1, 1},
    {{"long chain", long_chain}, 1, 1},
    {{"number per row", number_per_row}, 2, 2},
    {{"resized", resized}, 2, 2},
};

static void test_kernels(void **state)
{
    const Pinned *pin = *state;
    const NetDef *def = &pin->net;
    for (const TargetInfo *t = cgen_targets(); t->triple; t++) {
        Context *ctx = ctx_create(NULL);
        Arena *arena = arena_create(ctx);
        Net n = net_make(ctx, def, 3);
        Tensor *in[4], *want[2];
        uint64_t error = 0;
        uint32_t n_in = n.func->body->params.len, n_out = func_n_out(n.func);
        for (uint32_t i = 0; i < n_in; i++)
            in[i] = tensor_random(arena, n.func->body->params.data[i]->type, 50 + i, TASTE_TAME);
        assert_true(eval_func(ctx, arena, EVAL_REF32, n.func, in, want, &error));
        DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {t}, .n_targets = 1};
        Program *p = driver_compile(ctx, n.module, n.func, &options);
        assert_non_null(p);
        const Schedule *s = p->variant[0].schedule;
        for (uint32_t i = 0; s->phases.len != pin->phases && i < s->phases.len; i++)
            print_message("%s, %s: %s\n", def->name, t->level, driver_phase_line(p, s, i));
        assert_int_equal(s->phases.len, pin->phases);
        assert_int_equal(s->kernels.len, pin->kernels);
        if (s->phases.len == 1)
            assert_int_equal(s->peak_bytes, 0);
        if (t == cgen_host_target()) {
            ArtifactCase c = {.arena = arena, .path = "fused.so", .threads = 2, .n_in = n_in, .n_out = n_out, .in = in, .want = want};
            assert_true(driver_write(p, "fused.so"));
            const char *wrong = artifact_wrong(&c);
            if (wrong)
                fail_msg("%s: %s", def->name, wrong);
        }
        driver_destroy(p);
        ctx_destroy(ctx);
    }
}

/* A large weight is packed from where it lies; no pass makes a transposed copy of it. */
static void test_weight_is_not_copied(void **state)
{
    (void)state;
    static const NetDef def = {"transposed weight", transposed_weight};
    Context *ctx = ctx_create(NULL);
    Net n = net_make(ctx, &def, 3);
    const Weight *weight = n.module->weights.data[0];
    DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {cgen_targets()}, .n_targets = 1};
    Program *p = driver_compile(ctx, n.module, n.func, &options);
    assert_non_null(p);
    assert_int_equal(p->variant[0].schedule->weights.len, 1);
    assert_ptr_equal(p->variant[0].schedule->weights.data[0]->pack->weight, weight);
    driver_destroy(p);
    ctx_destroy(ctx);
}

/* For the first target, checked; destroyed by the caller. */
static Program *compile_net(Context *ctx, const NetDef *def)
{
    Net n = net_make(ctx, def, 3);
    DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {cgen_targets()}, .n_targets = 1};
    Program *p = driver_compile(ctx, n.module, n.func, &options);
    assert_non_null(p);
    return p;
}

static const Buf *local_named(const Kernel *k, const char *prefix, uint32_t *n)
{
    const Buf *found = NULL;
    *n = 0;
    for (uint32_t i = 0; i < k->bufs.len; i++)
        if (k->bufs.data[i]->space == BUF_LOCAL && !strncmp(k->bufs.data[i]->name, prefix, strlen(prefix))) {
            found = k->bufs.data[i];
            ++*n;
        }
    return found;
}

/* Scores, exponentials and weights of attention take one place; keys and values whose rows lie apart are packed, 16 columns each. */
static void test_attention_buffers(void **state)
{
    (void)state;
    static const NetDef def = {"long attention", long_attention};
    Context *ctx = ctx_create(NULL);
    Program *p = compile_net(ctx, &def);
    const Kernel *k = p->variant[0].schedule->kernels.data[0];
    uint32_t found, rows = 0;
    for (uint32_t i = 0; i < k->bufs.len; i++)
        rows += k->bufs.data[i]->space == BUF_LOCAL && k->bufs.data[i]->rank == 2 && k->bufs.data[i]->dim[1] == 600;
    assert_int_equal(rows, 1);
    const Buf *packed = local_named(k, "packed", &found);
    assert_int_equal(found, 2);
    assert_int_equal(packed->dim[packed->rank - 1], 16);
    driver_destroy(p);
    ctx_destroy(ctx);
}

/* Keys of a single query are turned 16 at a time, so that lanes are keys. */
static void test_query_turns_keys(void **state)
{
    (void)state;
    static const NetDef def = {"one query", one_query};
    Context *ctx = ctx_create(NULL);
    Program *p = compile_net(ctx, &def);
    uint32_t found;
    const Buf *turned = local_named(p->variant[0].schedule->kernels.data[0], "turned", &found);
    assert_int_equal(found, 2);
    assert_int_equal(turned->dim[0], 32);
    assert_int_equal(turned->dim[1], 16);
    driver_destroy(p);
    ctx_destroy(ctx);
}

static int64_t fewest_rows(const Stmt *list)
{
    int64_t fewest = INT64_MAX;
    for (const Stmt *s = list; s; s = s->next) {
        int64_t rows = s->kind == LS_FOR ? fewest_rows(s->u.loop.body) : s->kind == LS_MMA ? s->u.mma.rows : INT64_MAX;
        fewest = rows < fewest ? rows : fewest;
    }
    return fewest;
}

/* The rows of a register tile are a line of a window, as those of an image's line are, not one row each. */
static void test_rows_of_windows(void **state)
{
    (void)state;
    static const NetDef def = {"windows", windows};
    Context *ctx = ctx_create(NULL);
    Program *p = compile_net(ctx, &def);
    assert_int_equal(fewest_rows(p->variant[0].schedule->kernels.data[0]->body), 5);
    driver_destroy(p);
    ctx_destroy(ctx);
}

static uint32_t dots_left(const Stmt *list)
{
    uint32_t n = 0;
    for (const Stmt *s = list; s; s = s->next)
        n += s->kind == LS_FOR ? dots_left(s->u.loop.body) : s->kind == LS_FOLD && s->u.fold.kind == FOLD_DOT;
    return n;
}

/* Every product goes in register tiles: several over the same rows too, and where the kernel could have looked its residual up. */
static void test_products_are_tiled(void **state)
{
    (void)state;
    static const NetDef nets[] = {{"gated rows", gated_rows}, {"looked up residual", looked_up_residual}};
    for (size_t i = 0; i < IG_COUNT(nets); i++) {
        Context *ctx = ctx_create(NULL);
        Program *p = compile_net(ctx, &nets[i]);
        const Schedule *s = p->variant[0].schedule;
        for (uint32_t j = 0; j < s->kernels.len; j++)
            assert_int_equal(dots_left(s->kernels.data[j]->body), 0);
        driver_destroy(p);
        ctx_destroy(ctx);
    }
}

static bool has_check(const Stmt *list)
{
    for (const Stmt *s = list; s; s = s->next)
        if (s->kind == LS_CHECK || (s->kind == LS_FOR && has_check(s->u.loop.body)))
            return true;
    return false;
}

/* What the indices of the last axis pick are vectors along the axis before, and constants are known to be inside. */
static void test_resized_rows(void **state)
{
    (void)state;
    static const NetDef def = {"resized", resized};
    Context *ctx = ctx_create(NULL);
    Program *p = compile_net(ctx, &def);
    const Schedule *s = p->variant[0].schedule;
    const Storage *rows = NULL;
    for (uint32_t i = 0; i < s->storages.len; i++)
        rows = s->storages.data[i]->kind == SLOT_WORKSPACE ? s->storages.data[i] : rows;
    assert_non_null(rows);
    assert_int_equal(rows->stride[2], 1);
    assert_int_equal(rows->stride[3], 36);
    for (uint32_t i = 0; i < s->kernels.len; i++)
        assert_false(has_check(s->kernels.data[i]->body));
    driver_destroy(p);
    ctx_destroy(ctx);
}

int main(void)
{
    struct CMUnitTest tests[IG_COUNT(pinned) + 6];
    for (size_t i = 0; i < IG_COUNT(pinned); i++)
        tests[i] = (struct CMUnitTest){pinned[i].net.name, test_kernels, NULL, NULL, (void *)(uintptr_t)&pinned[i]};
    tests[IG_COUNT(pinned)] = (struct CMUnitTest)cmocka_unit_test(test_weight_is_not_copied);
    tests[IG_COUNT(pinned) + 1] = (struct CMUnitTest)cmocka_unit_test(test_attention_buffers);
    tests[IG_COUNT(pinned) + 2] = (struct CMUnitTest)cmocka_unit_test(test_rows_of_windows);
    tests[IG_COUNT(pinned) + 3] = (struct CMUnitTest)cmocka_unit_test(test_products_are_tiled);
    tests[IG_COUNT(pinned) + 4] = (struct CMUnitTest)cmocka_unit_test(test_query_turns_keys);
    tests[IG_COUNT(pinned) + 5] = (struct CMUnitTest)cmocka_unit_test(test_resized_rows);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
