/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantisation: rounding and saturation, blocks, constants of 4 bits, padding of integer convolutions, what is refused.
 */
#include "support/onnx_run.h"

#include <math.h>

enum { ONNX_U8 = 2, ONNX_S8 = 3, ONNX_S32 = 6, ONNX_S4 = 22 };

static void test_halves_and_saturation(void **state)
{
    (void)state;
    static const float x[7] = {1, 3, 5, -1, 300, -300, NAN}, scale = 2;
    static const int8_t zero = 1, y[7] = {1, 3, 3, 1, 127, -128, 0};
    static const int64_t dims = 7;
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 1, &dims);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_S8, 1, &dims);
    onnx_add_f32(&graph, "s", 0, NULL, &scale);
    onnx_add_tensor(&graph, "z", ONNX_S8, 0, NULL, &zero, 1);
    onnx_add_node(&graph, "QuantizeLinear", "x s z", "y", NULL);
    Context *ctx = ctx_create(NULL);
    Tensor *out;
    onnx_run(ctx, onnx_load(ctx, &graph, 13), (const void *[]){x}, &out);
    assert_memory_equal(out->data, y, sizeof y);
    ctx_destroy(ctx);
}

/* s4[3,2] in blocks of 2 along axis 0, the last one short */
static Pb blocked_graph(int64_t blocks)
{
    static const uint8_t nibbles[3] = {0xF1, 0xE2, 0xD3}; /* 1 -1, 2 -2, 3 -3 */
    static const float scales[6] = {1, 10, 0.5f, 100, 7, 7};
    const int64_t dims[2] = {3, 2}, scale_dims[2] = {blocks, 2};
    Pb graph = {.len = 0}, attrs = {.len = 0};
    onnx_attr_int(&attrs, "axis", 0);
    onnx_attr_int(&attrs, "block_size", 2);
    onnx_add_tensor(&graph, "w", ONNX_S4, 2, dims, nibbles, sizeof nibbles);
    onnx_add_f32(&graph, "s", 2, scale_dims, scales);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, dims);
    onnx_add_node(&graph, "DequantizeLinear", "w s", "y", &attrs);
    return graph;
}

static void test_blocks_of_four_bits(void **state)
{
    (void)state;
    static const float y[6] = {1, -10, 2, -20, 1.5f, -300};
    Pb graph = blocked_graph(2);
    Context *ctx = ctx_create(NULL);
    Module *m = onnx_load(ctx, &graph, 21);
    Tensor *out;
    onnx_run(ctx, m, NULL, &out);
    assert_memory_equal(out->data, y, sizeof y);
    REGION_FOREACH(node, m->funcs.data[0]->body)
        for (uint32_t i = 0; i < node->n_out; i++)
            assert_true(dtype_bits(node->out[i].type->dtype) >= 8);
    ctx_destroy(ctx);
    graph = blocked_graph(3);
    onnx_refused(&graph, 21, "block_size");
}

/* Padding is a zero point, not a zero. */
static void test_padding_of_an_integer_convolution(void **state)
{
    (void)state;
    static const uint8_t x[2] = {3, 5}, zero = 3;
    static const int8_t w[3] = {1, 1, 1};
    static const int32_t y[2] = {2, 2};
    static const int64_t x_dims[4] = {1, 1, 1, 2}, w_dims[4] = {1, 1, 1, 3}, pads[4] = {0, 1, 0, 1};
    Pb graph = {.len = 0}, attrs = {.len = 0};
    onnx_attr_ints(&attrs, "pads", 4, pads);
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_U8, 4, x_dims);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_S32, 4, x_dims);
    onnx_add_tensor(&graph, "w", ONNX_S8, 4, w_dims, w, sizeof w);
    onnx_add_tensor(&graph, "z", ONNX_U8, 0, NULL, &zero, 1);
    onnx_add_node(&graph, "ConvInteger", "x w z", "y", &attrs);
    Context *ctx = ctx_create(NULL);
    Tensor *out;
    onnx_run(ctx, onnx_load(ctx, &graph, 10), (const void *[]){x}, &out);
    assert_memory_equal(out->data, y, sizeof y);
    ctx_destroy(ctx);
}

/* The range holds zero; all zeros give scale 0 and no NaN. */
static void test_dynamic_range(void **state)
{
    (void)state;
    static const float data[2][3] = {{2, 4, 5.1f}, {0, 0, 0}};
    static const uint8_t want[2][3] = {{100, 200, 255}, {0, 0, 0}};
    static const int64_t dims = 3;
    for (int k = 0; k < 2; k++) {
        Pb graph = {.len = 0};
        onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 1, &dims);
        onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_U8, 1, &dims);
        onnx_add_value(&graph, GRAPH_OUT, "s", ONNX_F32, 0, NULL);
        onnx_add_node(&graph, "DynamicQuantizeLinear", "x", "y s z", NULL);
        Context *ctx = ctx_create(NULL);
        Tensor *out[2];
        onnx_run(ctx, onnx_load(ctx, &graph, 11), (const void *[]){data[k]}, out);
        assert_memory_equal(out[0]->data, want[k], 3);
        assert_true(fabsf(*(float *)out[1]->data - (k ? 0 : 0.02f)) < 1e-8f);
        ctx_destroy(ctx);
    }
}

/* An operator of another domain: half to even, saturation; without that domain's operator set it is refused. */
static void test_product_of_another_domain(void **state)
{
    (void)state;
    static const uint8_t a[2] = {4, 130}, b[2] = {10, 255}, za = 2, zb = 5, zy = 1, want[2] = {3, 255};
    static const float sa = 0.5f, sb = 1, sy = 2;
    static const int64_t two = 2;
    Pb graph = {.len = 0}, node = onnx_node("QLinearMul", "a sa za b sb zb sy zy", "y", NULL);
    pb_str(&node, 7, "com.microsoft");
    onnx_add_value(&graph, GRAPH_IN, "a", ONNX_U8, 1, &two);
    onnx_add_value(&graph, GRAPH_IN, "b", ONNX_U8, 1, &two);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_U8, 1, &two);
    onnx_add_f32(&graph, "sa", 0, NULL, &sa);
    onnx_add_f32(&graph, "sb", 0, NULL, &sb);
    onnx_add_f32(&graph, "sy", 0, NULL, &sy);
    onnx_add_tensor(&graph, "za", ONNX_U8, 0, NULL, &za, 1);
    onnx_add_tensor(&graph, "zb", ONNX_U8, 0, NULL, &zb, 1);
    onnx_add_tensor(&graph, "zy", ONNX_U8, 0, NULL, &zy, 1);
    pb_sub(&graph, GRAPH_NODE, &node);
    onnx_refused(&graph, 13, "not imported");
    Pb model = onnx_model(&graph, 13), set = onnx_opset("com.microsoft", 1);
    pb_sub(&model, 8, &set);
    Context *ctx = ctx_create(NULL);
    Tensor *out;
    Module *m = front_onnx_import(ctx, "m.onnx", (Blob){model.data, model.len}, NULL);
    assert_non_null(m);
    onnx_run(ctx, m, (const void *[]){a, b}, &out);
    assert_memory_equal(out->data, want, sizeof want);
    ctx_destroy(ctx);
}

static void test_refusals(void **state)
{
    (void)state;
    static const float scale[2] = {2, 2};
    static const int8_t zero = 0;
    static const int64_t dims[2] = {2, 3}, two = 2;
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_U8, 2, dims);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, dims);
    onnx_add_f32(&graph, "s", 0, NULL, scale);
    onnx_add_tensor(&graph, "z", ONNX_S8, 0, NULL, &zero, 1);
    onnx_add_node(&graph, "DequantizeLinear", "x s z", "y", NULL);
    onnx_refused(&graph, 13, "type of the input");
    graph = (Pb){.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, dims);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_U8, 2, dims);
    onnx_add_f32(&graph, "s", 1, &two, scale);
    onnx_add_node(&graph, "QuantizeLinear", "x s", "y", NULL);
    onnx_refused(&graph, 13, "axis 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_and_saturation),
        cmocka_unit_test(test_blocks_of_four_bits),
        cmocka_unit_test(test_padding_of_an_integer_convolution),
        cmocka_unit_test(test_dynamic_range),
        cmocka_unit_test(test_product_of_another_domain),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
