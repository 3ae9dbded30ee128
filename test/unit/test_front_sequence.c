/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences and optionals of known length, loops over them, and branches that do not fit the sizes at hand.
 */
#include "support/onnx_run.h"

static const int64_t four = 4, free_size = -2;
static const float data[4] = {1, 2, 3, 4};

static Pb begin(void)
{
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 1, &four);
    return graph;
}
static void add_position(Pb *graph, const char *name, int64_t value)
{
    onnx_add_tensor(graph, name, ONNX_S64, 0, NULL, &value, sizeof value);
}

static void expect(const Pb *graph, const float *y, uint32_t n)
{
    Context *ctx = ctx_create(NULL);
    Module *m = onnx_load(ctx, graph, 18);
    Tensor *out;
    assert_non_null(m);
    onnx_run(ctx, m, (const void *[]){data}, &out);
    assert_int_equal(out->count, n);
    assert_memory_equal(out->data, y, n * sizeof *y);
    ctx_destroy(ctx);
}

/* [1 2] [3] [4] -> insert before the last, erase the first, join */
static void test_edit(void **state)
{
    (void)state;
    static const int64_t parts[3] = {2, 1, 1}, three = 3;
    Pb graph = begin(), attrs = {.len = 0};
    onnx_add_tensor(&graph, "parts", ONNX_S64, 1, &three, parts, sizeof parts);
    add_position(&graph, "zero", 0);
    add_position(&graph, "last", -1);
    onnx_attr_int(&attrs, "axis", 0);
    onnx_add_node(&graph, "SplitToSequence", "x parts", "s", NULL);
    onnx_add_node(&graph, "SequenceAt", "s zero", "head", NULL);
    onnx_add_node(&graph, "SequenceInsert", "s head last", "t", NULL);
    onnx_add_node(&graph, "SequenceErase", "t zero", "u", NULL);
    onnx_add_node(&graph, "ConcatFromSequence", "u", "y", &attrs);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 1, &four);
    expect(&graph, (const float[]){3, 1, 2, 4}, 4);
    add_position(&graph, "four", 4);
    onnx_add_node(&graph, "SequenceAt", "s four", "z", NULL);
    onnx_refused(&graph, 18, "outside of a sequence of 3");
}

static void test_optional(void **state)
{
    (void)state;
    Pb graph = begin();
    onnx_add_node(&graph, "Optional", "x", "o", NULL);
    onnx_add_node(&graph, "OptionalHasElement", "o", "has", NULL);
    onnx_add_node(&graph, "OptionalHasElement", "", "none", NULL);
    onnx_add_node(&graph, "OptionalGetElement", "o", "e", NULL);
    onnx_add_node(&graph, "Neg", "e", "n", NULL);
    onnx_add_node(&graph, "Where", "none n e", "a", NULL);
    onnx_add_node(&graph, "Where", "has a n", "y", NULL);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 1, &four);
    expect(&graph, data, 4);
    onnx_add_node(&graph, "Neg", "o", "bad", NULL);
    onnx_refused(&graph, 18, "is a sequence or an optional");
}

static void test_not_an_output(void **state)
{
    (void)state;
    Pb graph = begin();
    onnx_add_node(&graph, "SequenceConstruct", "x x", "y", NULL);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 1, &four);
    onnx_refused(&graph, 18, "not supported as outputs");
}

/* s = []; for i in 0..2: s.append(x + i); y = concat(s) */
static void test_loop_over_a_sequence(void **state)
{
    (void)state;
    Pb graph = begin(), body = {.len = 0}, attrs = {.len = 0}, axis = {.len = 0}, cast = {.len = 0};
    onnx_attr_int(&axis, "axis", 0);
    onnx_attr_int(&cast, "to", ONNX_F32);
    onnx_add_value(&body, GRAPH_IN, "i", ONNX_S64, 0, NULL);
    onnx_add_value(&body, GRAPH_IN, "c", ONNX_BOOL, 0, NULL);
    Pb value = {.len = 0}; /* sequences are declared by name only */
    pb_str(&value, 1, "v");
    pb_sub(&body, GRAPH_IN, &value);
    onnx_add_node(&body, "Cast", "i", "f", &cast);
    onnx_add_node(&body, "Add", "x f", "t", NULL);
    onnx_add_node(&body, "SequenceInsert", "v t", "w", NULL);
    onnx_add_node(&body, "Identity", "c", "d", NULL);
    onnx_add_value(&body, GRAPH_OUT, "d", ONNX_BOOL, 0, NULL);
    value = (Pb){.len = 0};
    pb_str(&value, 1, "w");
    pb_sub(&body, GRAPH_OUT, &value);
    onnx_attr_graph(&attrs, "body", &body);
    add_position(&graph, "two", 2);
    onnx_add_node(&graph, "SequenceEmpty", "", "s", NULL);
    onnx_add_node(&graph, "Loop", "two - s", "r", &attrs);
    onnx_add_node(&graph, "ConcatFromSequence", "r", "y", &axis);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 1, &free_size);
    expect(&graph, (const float[]){1, 2, 3, 4, 2, 3, 4, 5}, 8);
}

/* v = x; twice: v = v ++ x. The shape of v changes, so the steps stand one after the other. */
static void test_loop_that_grows(void **state)
{
    (void)state;
    Pb graph = begin(), body = {.len = 0}, attrs = {.len = 0}, axis = {.len = 0};
    onnx_attr_int(&axis, "axis", 0);
    onnx_add_value(&body, GRAPH_IN, "i", ONNX_S64, 0, NULL);
    onnx_add_value(&body, GRAPH_IN, "c", ONNX_BOOL, 0, NULL);
    onnx_add_value(&body, GRAPH_IN, "v", ONNX_F32, 1, &free_size);
    onnx_add_node(&body, "Concat", "v x", "w", &axis);
    onnx_add_node(&body, "Identity", "c", "d", NULL);
    onnx_add_value(&body, GRAPH_OUT, "d", ONNX_BOOL, 0, NULL);
    onnx_add_value(&body, GRAPH_OUT, "w", ONNX_F32, 1, &free_size);
    onnx_attr_graph(&attrs, "body", &body);
    Pb unknown = graph;
    add_position(&graph, "two", 2);
    onnx_add_value(&unknown, GRAPH_IN, "two", ONNX_S64, 0, NULL);
    onnx_add_node(&graph, "Loop", "two - x", "y", &attrs);
    onnx_add_node(&unknown, "Loop", "two - x", "y", &attrs);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 1, &free_size);
    onnx_add_value(&unknown, GRAPH_OUT, "y", ONNX_F32, 1, &free_size);
    expect(&graph, (const float[]){1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}, 12);
    onnx_refused(&unknown, 18, "trip count");
}

/* A branch whose sizes do not fit asks for the condition's value; a name that nothing defines does not. */
static void test_branch_that_does_not_fit(void **state)
{
    (void)state;
    static const float three[3];
    static const int64_t size = 3;
    for (int named = 0; named < 2; named++) {
        Pb graph = begin(), good = {.len = 0}, bad = {.len = 0}, attrs = {.len = 0};
        onnx_add_value(&graph, GRAPH_IN, "cond", ONNX_BOOL, 0, NULL);
        onnx_add_f32(&graph, "three", 1, &size, three);
        onnx_add_node(&good, "Neg", "x", "p", NULL);
        onnx_add_value(&good, GRAPH_OUT, "p", ONNX_F32, 1, &four);
        onnx_add_node(&bad, "Add", named ? "x ghost" : "x three", "q", NULL);
        onnx_add_value(&bad, GRAPH_OUT, "q", ONNX_F32, 1, &four);
        onnx_attr_graph(&attrs, "then_branch", &good);
        onnx_attr_graph(&attrs, "else_branch", &bad);
        onnx_add_node(&graph, "If", "cond", "y", &attrs);
        onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 1, &four);
        Context *ctx = ctx_create(NULL);
        bool asked = false, taken = true;
        assert_null(onnx_load(ctx, &graph, 18));
        for (uint32_t i = 0; i < diag_count(ctx); i++)
            asked |= diag_get(ctx, i)->id == DIAG_onnx_unknown;
        assert_int_equal(asked, !named);
        Tensor value = {.dtype = DT_BOOL, .store = DT_BOOL, .count = 1, .data = &taken};
        ValueBinding bound = {str_intern(ctx, "cond"), &value};
        ImportOptions options = {.values = &bound, .n_values = 1};
        Pb model = onnx_model(&graph, 18);
        assert_non_null(front_onnx_import(ctx, "m.onnx", (Blob){model.data, model.len}, &options));
        ctx_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edit),          cmocka_unit_test(test_optional),
        cmocka_unit_test(test_not_an_output), cmocka_unit_test(test_loop_over_a_sequence),
        cmocka_unit_test(test_loop_that_grows),
        cmocka_unit_test(test_branch_that_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
