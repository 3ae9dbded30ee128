/* SPDX-License-Identifier: Apache-2.0
 *
 * RNN, GRU, LSTM: against the ONNX equations in f64; unrolled and looped forms, sequence lengths, directions, refusals.
 */
#include "support/onnx_run.h"

#include <math.h>

enum { I = 2, H = 3, B = 2, MAX_T = 70 };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static float wave(int i) { return (float)(sin(i * 1.7) * 0.8); }

typedef struct Model { /* one direction; gates * H rows */
    int gates;
    float w[4 * H][I], r[4 * H][H], bias[8 * H];
} Model;

static Model weights(int gates)
{
    Model m = {.gates = gates};
    for (int g = 0; g < gates * H; g++) {
        for (int k = 0; k < I; k++)
            m.w[g][k] = wave(g * I + k);
        for (int k = 0; k < H; k++)
            m.r[g][k] = wave(100 + g * H + k);
    }
    for (int g = 0; g < 2 * gates * H; g++)
        m.bias[g] = wave(300 + g) / 2;
    return m;
}

/* One row of the batch, `length` of its steps. */
static void reference(const Model *m, const float *x, int stride, int length, bool reverse, double *y, double *h, double *c)
{
    for (int k = 0; k < length; k++) {
        int t = reverse ? length - 1 - k : k;
        double gate[4 * H], old[H];
        memcpy(old, h, sizeof old);
        for (int g = 0; g < m->gates * H; g++) {
            gate[g] = m->bias[g] + m->bias[m->gates * H + g];
            for (int i = 0; i < I; i++)
                gate[g] += (double)x[t * stride + i] * m->w[g][i];
            for (int i = 0; i < H && !(m->gates == 3 && g >= 2 * H); i++)
                gate[g] += old[i] * m->r[g][i];
        }
        for (int j = 0; j < H; j++) {
            if (m->gates == 1) {
                h[j] = tanh(gate[j]);
            } else if (m->gates == 4) {
                c[j] = sigmoid(gate[2 * H + j]) * c[j] + sigmoid(gate[j]) * tanh(gate[3 * H + j]);
                h[j] = sigmoid(gate[H + j]) * tanh(c[j]);
            } else {
                double z = sigmoid(gate[j]), hidden = gate[2 * H + j];
                for (int i = 0; i < H; i++)
                    hidden += sigmoid(gate[H + i]) * old[i] * m->r[2 * H + j][i];
                h[j] = (1 - z) * tanh(hidden) + z * old[j];
            }
            y[t * H + j] = h[j];
        }
    }
}

static Pb graph_of(const Model *m, int64_t steps, const char *direction, const char *inputs)
{
    const int64_t x[3] = {steps, B, I}, y[4] = {steps, 1, B, H}, h[3] = {1, B, H}, batch = B;
    const int64_t w_dims[3] = {1, m->gates * H, I}, r_dims[3] = {1, m->gates * H, H}, b_dims[2] = {1, 2 * m->gates * H};
    Pb graph = {.len = 0}, attrs = {.len = 0};
    onnx_attr_str(&attrs, "direction", direction);
    onnx_attr_int(&attrs, "hidden_size", H);
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 3, x);
    onnx_add_value(&graph, GRAPH_IN, "lens", 6, 1, &batch);
    onnx_add_f32(&graph, "w", 3, w_dims, &m->w[0][0]);
    onnx_add_f32(&graph, "r", 3, r_dims, &m->r[0][0]);
    onnx_add_f32(&graph, "b", 2, b_dims, m->bias);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 4, y);
    onnx_add_value(&graph, GRAPH_OUT, "h", ONNX_F32, 3, h);
    onnx_add_node(&graph, m->gates == 1 ? "RNN" : m->gates == 3 ? "GRU" : "LSTM", inputs, "y h", &attrs);
    return graph;
}

/* Both forms, both directions, with a short row in the batch. */
static void test_equations(void **state)
{
    (void)state;
    static const int steps[2] = {5, MAX_T}, gates[3] = {1, 3, 4};
    for (int k = 0; k < 12; k++) {
        bool reverse = k & 1;
        int n = steps[k >> 1 & 1], lengths[B] = {n, 2};
        Model model = weights(gates[k >> 2]);
        float x[MAX_T * B * I];
        for (int i = 0; i < n * B * I; i++)
            x[i] = wave(500 + i);
        Pb graph = graph_of(&model, n, reverse ? "reverse" : "forward", "x w r b lens");
        Context *ctx = ctx_create(NULL);
        Module *m = onnx_load(ctx, &graph, 14);
        Tensor *out[2];
        assert_non_null(m);
        assert_int_equal(onnx_count_op(m, OP_loop), n > 64);
        onnx_run(ctx, m, (const void *[]){x, lengths}, out);
        for (int row = 0; row < B; row++) {
            double y[MAX_T * H] = {0}, h[H] = {0}, c[H] = {0};
            reference(&model, x + row * I, B * I, lengths[row], reverse, y, h, c);
            for (int t = 0; t < n; t++)
                for (int j = 0; j < H; j++)
                    assert_true(fabs(((float *)out[0]->data)[(t * B + row) * H + j] - y[t * H + j]) < 2e-6);
            for (int j = 0; j < H; j++)
                assert_true(fabs(((float *)out[1]->data)[row * H + j] - h[j]) < 2e-6);
        }
        ctx_destroy(ctx);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    Model lstm = weights(4), gru = weights(3);
    Pb graph = graph_of(&lstm, 4, "sideways", "x w r");
    onnx_refused(&graph, 14, "sideways");
    graph = graph_of(&lstm, 4, "bidirectional", "x w r");
    onnx_refused(&graph, 14, "axis 0 of W");
    graph = graph_of(&gru, 4, "forward", "x w w");
    onnx_refused(&graph, 14, "hidden_size");
    graph = graph_of(&gru, 4, "forward", "x w r lens");
    onnx_refused(&graph, 14, "B of GRU");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_equations), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
