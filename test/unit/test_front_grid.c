/* SPDX-License-Identifier: Apache-2.0
 *
 * GridSample: weights, and the three ways of leaving the input.
 */
#include "support/onnx_run.h"

#include <math.h>

static Pb grid_graph(const char *mode, const char *padding, int64_t pair)
{
    const int64_t x[4] = {1, 1, 2, 2}, grid[4] = {1, 1, 4, pair}, y[4] = {1, 1, 1, 4};
    Pb graph = {.len = 0}, attrs = {.len = 0};
    onnx_attr_str(&attrs, "mode", mode);
    onnx_attr_str(&attrs, "padding_mode", padding);
    onnx_attr_int(&attrs, "align_corners", 1);
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 4, x);
    onnx_add_value(&graph, GRAPH_IN, "g", ONNX_F32, 4, grid);
    onnx_add_node(&graph, "GridSample", "x g", "y", &attrs);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 4, y);
    return graph;
}

static void test_places(void **state)
{
    (void)state;
    static const float x[4] = {1, 2, 3, 4}, places[8] = {-1, -1, 0, 0, 3, 0, 0.5f, 1};
    static const struct {
        const char *mode, *padding;
        float y[4];
    } rows[] = {{"bilinear", "zeros", {1, 2.5f, 0, 3.75f}},
                {"bilinear", "border", {1, 2.5f, 3, 3.75f}},
                {"bilinear", "reflection", {1, 2.5f, 2, 3.75f}},
                {"nearest", "zeros", {1, 1, 0, 4}},
                {"nearest", "border", {1, 1, 2, 4}},
                {"bicubic", "border", {1, 2.5f, 3, 3.7734375f}}};
    for (size_t k = 0; k < IG_COUNT(rows); k++) {
        Pb graph = grid_graph(rows[k].mode, rows[k].padding, 2);
        Context *ctx = ctx_create(NULL);
        Tensor *out;
        onnx_run(ctx, onnx_load(ctx, &graph, 16), (const void *[]){x, places}, &out);
        for (int i = 0; i < 4; i++)
            assert_true(fabsf(((float *)out->data)[i] - rows[k].y[i]) < 1e-5f);
        ctx_destroy(ctx);
    }
    Pb graph = grid_graph("bilinear", "zeros", 3);
    onnx_refused(&graph, 16, "[N,h,w,2]");
    graph = grid_graph("bilinear", "mirror", 2);
    onnx_refused(&graph, 16, "mirror");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
