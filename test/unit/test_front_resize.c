/* SPDX-License-Identifier: Apache-2.0
 *
 * Resize: positions and weights of each mode, whole factors of symbolic axes, what is refused.
 */
#include "support/onnx_run.h"

#include <math.h>

/* y = Resize(x) along the last axis of x f32[1,1,n] to `out` elements by `sizes`; roi over all axes. */
static Pb resize_graph(int64_t n, int64_t out, const Pb *attrs, const float *roi)
{
    const int64_t in_dims[3] = {1, 1, n}, out_dims[3] = {1, 1, out}, three = 3, six = 6;
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 3, in_dims);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 3, out_dims);
    if (roi)
        onnx_add_f32(&graph, "roi", 1, &six, roi);
    onnx_add_tensor(&graph, "sizes", ONNX_S64, 1, &three, out_dims, sizeof out_dims);
    onnx_add_node(&graph, "Resize", roi ? "x roi - sizes" : "x - - sizes", "y", attrs);
    return graph;
}

static void expect(const Pb *graph, const float *x, const float *y, uint32_t n, float tolerance)
{
    Context *ctx = ctx_create(NULL);
    Module *m = onnx_load(ctx, graph, 19);
    Tensor *out;
    assert_non_null(m);
    onnx_run(ctx, m, (const void *[]){x}, &out);
    assert_int_equal(out->count, n);
    for (uint32_t i = 0; i < n; i++)
        assert_true(fabsf(((float *)out->data)[i] - y[i]) <= tolerance);
    ctx_destroy(ctx);
}

static void test_linear_weights(void **state)
{
    (void)state;
    static const float x[2] = {10, 20}, half[4] = {10, 12.5f, 17.5f, 20}, corners[3] = {10, 15, 20};
    Pb attrs = {.len = 0}, graph;
    onnx_attr_str(&attrs, "mode", "linear");
    graph = resize_graph(2, 4, &attrs, NULL);
    expect(&graph, x, half, 4, 0);
    onnx_attr_str(&attrs, "coordinate_transformation_mode", "align_corners");
    graph = resize_graph(2, 3, &attrs, NULL);
    expect(&graph, x, corners, 3, 0);
}

/* Catmull-Rom (a = -0.5) is exact on straight lines away from the edges. */
static void test_cubic_keeps_lines(void **state)
{
    (void)state;
    float x[8], y[16];
    Pb attrs = {.len = 0}, graph;
    for (int i = 0; i < 8; i++)
        x[i] = (float)i;
    onnx_attr_str(&attrs, "mode", "cubic");
    onnx_attr_f32(&attrs, "cubic_coeff_a", -0.5f);
    graph = resize_graph(8, 16, &attrs, NULL);
    Context *ctx = ctx_create(NULL);
    Tensor *out;
    onnx_run(ctx, onnx_load(ctx, &graph, 19), (const void *[]){x}, &out);
    memcpy(y, out->data, sizeof y);
    for (int o = 4; o < 12; o++)
        assert_true(fabsf(y[o] - (((float)o + 0.5f) / 2 - 0.5f)) < 1e-5f);
    assert_true(y[0] < 0.0f); /* and overshoots beside them */
    ctx_destroy(ctx);
}

static void test_outside_of_a_crop(void **state)
{
    (void)state;
    static const float x[4] = {1, 2, 3, 4}, roi[6] = {0, 0, 0, 1, 1, 2}, y[3] = {1, 4, -7};
    Pb attrs = {.len = 0}, graph;
    onnx_attr_str(&attrs, "mode", "linear");
    onnx_attr_str(&attrs, "coordinate_transformation_mode", "tf_crop_and_resize");
    onnx_attr_f32(&attrs, "extrapolation_value", -7);
    graph = resize_graph(4, 3, &attrs, roi);
    expect(&graph, x, y, 3, 0);
}

/* Both ways of summing (few taps, many taps) keep constants, and mirror images mirrored. */
static void test_antialias(void **state)
{
    (void)state;
    static const int64_t sizes[2] = {8, 48};
    for (int k = 0; k < 2; k++) {
        float x[48], ones[2] = {1, 1}, *y;
        Pb attrs = {.len = 0}, graph;
        onnx_attr_str(&attrs, "mode", "linear");
        onnx_attr_int(&attrs, "antialias", 1);
        graph = resize_graph(sizes[k], 2, &attrs, NULL);
        for (int64_t i = 0; i < sizes[k]; i++)
            x[i] = 1;
        expect(&graph, x, ones, 2, 1e-6f);
        for (int64_t i = 0; i < sizes[k]; i++)
            x[i] = (float)i;
        Context *ctx = ctx_create(NULL);
        Module *m = onnx_load(ctx, &graph, 19);
        Tensor *out;
        onnx_run(ctx, m, (const void *[]){x}, &out);
        y = out->data;
        assert_true(fabsf(y[0] + y[1] - (float)(sizes[k] - 1)) < 1e-4f && y[0] > (float)sizes[k] / 5);
        assert_int_equal(onnx_count_op(m, OP_reduce), k);
        ctx_destroy(ctx);
    }
}

/* A whole factor is a broadcast: no table, so symbolic sizes pass. */
static void test_whole_factor_of_a_symbol(void **state)
{
    (void)state;
    static const int64_t in[3] = {1, 1, -1}, out[3] = {1, 1, -2}, three = 3;
    static const float scales[3] = {1, 1, 3};
    for (int linear = 0; linear < 2; linear++) {
        Pb graph = {.len = 0}, attrs = {.len = 0};
        onnx_attr_str(&attrs, "mode", linear ? "linear" : "nearest");
        onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 3, in);
        onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 3, out);
        onnx_add_f32(&graph, "scales", 1, &three, scales);
        onnx_add_node(&graph, "Resize", "x - scales", "y", &attrs);
        if (linear) {
            onnx_refused(&graph, 19, "symbolic");
            continue;
        }
        Context *ctx = ctx_create(NULL);
        Module *m = onnx_load(ctx, &graph, 19);
        assert_non_null(m);
        assert_int_equal(onnx_count_op(m, OP_broadcast), 1);
        assert_int_equal(onnx_count_op(m, OP_gather), 0);
        ctx_destroy(ctx);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const int64_t three = 3, dims[3] = {1, 1, 4};
    static const float scales[3] = {1, 1, -2};
    Pb attrs = {.len = 0}, graph = resize_graph(4, 8, NULL, NULL);
    onnx_add_f32(&graph, "scales", 1, &three, scales);
    onnx_add_node(&graph, "Resize", "x - scales sizes", "z", NULL);
    onnx_refused(&graph, 19, "not both");
    graph = (Pb){.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 3, dims);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 3, dims);
    onnx_add_f32(&graph, "scales", 1, &three, scales);
    onnx_add_node(&graph, "Resize", "x - scales", "y", NULL);
    onnx_refused(&graph, 19, "above 0");
    onnx_attr_str(&attrs, "mode", "sinc");
    graph = resize_graph(4, 8, &attrs, NULL);
    onnx_refused(&graph, 19, "sinc");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_weights),    cmocka_unit_test(test_cubic_keeps_lines),
        cmocka_unit_test(test_outside_of_a_crop), cmocka_unit_test(test_antialias),
        cmocka_unit_test(test_whole_factor_of_a_symbol), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
