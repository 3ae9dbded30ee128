/* SPDX-License-Identifier: Apache-2.0
 * Sessions on models whose loops stack what the run decides: sizes of stacks, stacks of one trip count, bounds by any of their
 * names, more trips than can be, timed steps. */
#include "igata.h"
#include "support/onnx_bytes.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

static const char path[] = "api_loops.onnx", text[] = "api_loops.ig";
static const char *const engines[] = {"ref32", "compiled", "eager"};
static const int64_t four = 4, open_dims[2] = {-1, 4}, pair_dims[1] = {2}, plain_dims[2] = {-2, 4};

/* One trip: b = a op a, which is stacked, too. */
static void add_loop(Pb *graph, const char *op, const char *in, const char *out)
{
    Pb body = {.len = 0}, attrs = {.len = 0};
    onnx_add_value(&body, GRAPH_IN, "i", ONNX_S64, 0, NULL);
    onnx_add_value(&body, GRAPH_IN, "c", ONNX_BOOL, 0, NULL);
    onnx_add_value(&body, GRAPH_IN, "a", ONNX_F32, 1, &four);
    onnx_add_node(&body, op, "a a", "b", NULL);
    onnx_add_node(&body, "Identity", "b", "r", NULL);
    onnx_add_node(&body, "Identity", "c", "d", NULL);
    onnx_add_value(&body, GRAPH_OUT, "d", ONNX_BOOL, 0, NULL);
    onnx_add_value(&body, GRAPH_OUT, "b", ONNX_F32, 1, &four);
    if (strchr(out, ' '))
        onnx_add_value(&body, GRAPH_OUT, "r", ONNX_F32, 1, &four);
    onnx_attr_graph(&attrs, "body", &body);
    onnx_add_node(graph, "Loop", in, out, &attrs);
}

static Pb begin_graph(void)
{
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "n", ONNX_S64, 0, NULL);
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 1, &four);
    return graph;
}

static void write_model(const Pb *graph)
{
    Pb model = onnx_model(graph, 17);
    FILE *file = fopen(path, "wb");
    assert_true(model.len <= sizeof model.data);
    assert_true(file && fwrite(model.data, 1, model.len, file) == model.len && fclose(file) == 0);
}

static igata_session *open_with(igata_context *ctx, const char *model, const char *engine, const char *key, const char *value)
{
    igata_options *o = igata_options_create(ctx);
    igata_session *session;
    assert_int_equal(igata_option_set(o, "engine", engine), IGATA_OK);
    if (key)
        assert_int_equal(igata_option_set(o, key, value), IGATA_OK);
    return igata_session_open(ctx, model, o, &session) == IGATA_OK ? session : NULL;
}

static igata_status run(igata_session *session, int64_t trips)
{
    static const float x[4] = {1, 2, 3, 4};
    const igata_tensor inputs[2] = {{.name = "n", .dtype = IGATA_S64, .data = &trips, .bytes = sizeof trips},
                                    {.name = "x", .dtype = IGATA_F32, .rank = 1, .dims = &four, .data = (void *)(uintptr_t)x,
                                     .bytes = sizeof x}};
    return igata_session_run(session, inputs, 2);
}

static int count_messages(igata_context *ctx, const char *part)
{
    int n = 0;
    for (size_t i = 0; i < igata_message_count(ctx); i++)
        n += strstr(igata_message_text(ctx, i), part) != NULL;
    return n;
}

/* Nothing but their sizes is read: what finds them has to run all the same. */
static void sizes_of_stacks_alone(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    Pb graph = begin_graph();
    add_loop(&graph, "Add", "n - x", "y s");
    add_loop(&graph, "Sub", "n - x", "y2 s2");
    onnx_add_node(&graph, "Shape", "s", "z", NULL);
    onnx_add_node(&graph, "Size", "s2", "w", NULL);
    onnx_add_value(&graph, GRAPH_OUT, "z", ONNX_S64, 1, pair_dims);
    onnx_add_value(&graph, GRAPH_OUT, "w", ONNX_S64, 0, NULL);
    write_model(&graph);
    for (size_t e = 0; e < 3; e++) {
        igata_session *session = open_with(ctx, path, engines[e], NULL, NULL);
        for (int64_t n = 0; n < 4; n++) {
            igata_tensor z, w;
            assert_int_equal(run(session, n), IGATA_OK);
            assert_int_equal(igata_session_result(session, 0, &z), IGATA_OK);
            assert_int_equal(igata_session_result(session, 1, &w), IGATA_OK);
            assert_true(((int64_t *)z.data)[0] == n && ((int64_t *)z.data)[1] == 4 && *(int64_t *)w.data == 4 * n);
        }
    }
    igata_context_destroy(ctx);
}

/* s is x 2^(i+1), s2 is 0; of one trip count, so they are of one size. */
static void write_pair(void)
{
    Pb graph = begin_graph();
    add_loop(&graph, "Add", "n - x", "y s");
    add_loop(&graph, "Sub", "n - x", "y2 s2");
    onnx_add_node(&graph, "Add", "s s2", "t", NULL);
    onnx_add_value(&graph, GRAPH_OUT, "t", ONNX_F32, 2, open_dims);
    write_model(&graph);
}

static void stacks_of_one_trip_count_meet(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    write_pair();
    for (size_t e = 0; e < 3; e++) {
        igata_session *session = open_with(ctx, path, engines[e], NULL, NULL);
        for (int64_t n = 3; n >= 0; n--) {
            igata_tensor t;
            assert_int_equal(run(session, n), IGATA_OK);
            assert_int_equal(igata_session_result(session, 0, &t), IGATA_OK);
            assert_int_equal(t.dims[0], n);
            for (int64_t i = 0; i < 4 * n; i++)
                assert_true(((float *)t.data)[i] == (float)((i % 4 + 1) << (i / 4 + 1)));
        }
    }
    assert_int_equal(count_messages(ctx, "[driver_bound]"), 2); /* of one size, by each engine that compiles */
    igata_context_destroy(ctx);
}

/* In a branch, too: what it stacks by a trip count of the graph around it meets what was stacked there. */
static void stacks_of_one_trip_count_meet_inside(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    Pb graph = begin_graph(), then = {.len = 0}, otherwise = {.len = 0}, attrs = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "p", ONNX_BOOL, 0, NULL);
    add_loop(&graph, "Add", "n - x", "y s");
    add_loop(&then, "Sub", "n - x", "y2 s2");
    onnx_add_node(&then, "Sub", "s2 s", "q", NULL);
    onnx_add_value(&then, GRAPH_OUT, "q", ONNX_F32, 2, plain_dims);
    onnx_add_node(&otherwise, "Identity", "s", "r", NULL);
    onnx_add_value(&otherwise, GRAPH_OUT, "r", ONNX_F32, 2, plain_dims);
    onnx_attr_graph(&attrs, "then_branch", &then);
    onnx_attr_graph(&attrs, "else_branch", &otherwise);
    onnx_add_node(&graph, "If", "p", "t", &attrs);
    onnx_add_value(&graph, GRAPH_OUT, "t", ONNX_F32, 2, plain_dims);
    write_model(&graph);
    static const float x[4] = {1, 2, 3, 4};
    for (size_t e = 0; e < 3; e++) {
        igata_session *session = open_with(ctx, path, engines[e], NULL, NULL);
        for (int64_t n = 0; n < 6; n++) {
            uint8_t p = n % 2 == 0;
            const igata_tensor inputs[3] = {{.name = "n", .dtype = IGATA_S64, .data = &n, .bytes = sizeof n},
                                            {.name = "x", .dtype = IGATA_F32, .rank = 1, .dims = &four, .data = (void *)(uintptr_t)x, .bytes = 16},
                                            {.name = "p", .dtype = IGATA_BOOL, .data = &p, .bytes = 1}};
            igata_tensor t;
            assert_int_equal(igata_session_run(session, inputs, 3), IGATA_OK);
            assert_int_equal(igata_session_result(session, 0, &t), IGATA_OK);
            assert_int_equal(t.dims[0], n);
            for (int64_t i = 0; i < 4 * n; i++)
                assert_true(((float *)t.data)[i] == (p ? -1 : 1) * (float)((i % 4 + 1) << (i / 4 + 1)));
        }
    }
    igata_context_destroy(ctx);
}

static void bounds_by_every_name(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    write_pair();
    for (size_t e = 0; e < 3; e++)
        for (size_t k = 0; k < 2; k++) { /* "N" is what the model calls the axis of its output */
            igata_session *session = open_with(ctx, path, engines[e], "bound", k ? "N=2" : "u0=2");
            assert_non_null(session);
            assert_int_equal(run(session, 2), IGATA_OK);
            assert_int_equal(count_messages(ctx, "[driver_bound]"), 0);
            assert_int_equal(run(session, 3), IGATA_E_BOUND);
            assert_int_equal(count_messages(ctx, "more trips than"), 1);
            igata_messages_clear(ctx);
        }
    igata_options *o = igata_options_create(ctx);
    igata_network *net;
    assert_int_equal(igata_option_set(o, "bound", "u0=0"), IGATA_E_OPTION);
    assert_int_equal(igata_option_set(o, "dim", "N=2"), IGATA_OK); /* the run finds it */
    assert_int_equal(igata_network_load(ctx, path, o, &net), IGATA_E_MODEL);
    assert_int_equal(count_messages(ctx, "[driver_found]"), 1);
    igata_messages_clear(ctx);
    o = igata_options_create(ctx);
    assert_int_equal(igata_option_set(o, "bound", "M=2"), IGATA_OK);
    assert_int_equal(igata_network_load(ctx, path, o, &net), IGATA_E_MODEL);
    assert_int_equal(count_messages(ctx, "[api_name]"), 1);
    igata_messages_clear(ctx);
    /* a text keeps its bounds */
    o = igata_options_create(ctx);
    assert_int_equal(igata_option_set(o, "bound", "N=2"), IGATA_OK);
    assert_int_equal(igata_network_load(ctx, path, o, &net), IGATA_OK);
    assert_int_equal(igata_network_compile(net, o, text), IGATA_OK);
    igata_session *session = open_with(ctx, text, "compiled", NULL, NULL);
    assert_int_equal(run(session, 2), IGATA_OK);
    assert_int_equal(igata_message_count(ctx), 0);
    assert_int_equal(run(session, 3), IGATA_E_BOUND);
    igata_context_destroy(ctx);
    remove(text);
}

/* The axis of an output that is a sum of what is found: no bound of its own. Nothing is stacked: nothing is said of bounds. */
static void other_sizes_have_no_bound(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    igata_options *o = igata_options_create(ctx);
    igata_network *net;
    Pb graph = begin_graph(), axis = {.len = 0};
    onnx_attr_int(&axis, "axis", 0);
    add_loop(&graph, "Add", "n - x", "y s");
    onnx_add_node(&graph, "Concat", "s s", "t", &axis);
    onnx_add_value(&graph, GRAPH_OUT, "t", ONNX_F32, 2, open_dims);
    write_model(&graph);
    assert_int_equal(igata_option_set(o, "bound", "N=2"), IGATA_OK);
    assert_int_equal(igata_network_load(ctx, path, o, &net), IGATA_E_MODEL);
    assert_int_equal(count_messages(ctx, "[api_bound]: option --bound: 'N' is 2*u0"), 1);
    igata_messages_clear(ctx);
    graph = begin_graph();
    add_loop(&graph, "Add", "n - x", "y");
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 1, &four);
    write_model(&graph);
    igata_session *session = open_with(ctx, path, "compiled", NULL, NULL);
    assert_int_equal(run(session, 2000), IGATA_OK); /* more than any default bound */
    assert_int_equal(igata_message_count(ctx), 0);
    igata_context_destroy(ctx);
}

/* What a trip count beyond every size asks for is refused before the first trip, by all engines. */
static void trips_that_cannot_be(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    write_pair();
    for (size_t e = 0; e < 3; e++) {
        igata_session *session = open_with(ctx, path, engines[e], NULL, NULL);
        assert_int_equal(run(session, INT64_MAX), IGATA_E_BOUND);
        assert_int_equal(run(session, INT64_MIN), IGATA_OK);
    }
    igata_context_destroy(ctx);
}

static void steps_are_timed(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    Pb graph = begin_graph();
    add_loop(&graph, "Add", "n - x", "y s");
    onnx_add_node(&graph, "Neg", "s", "t", NULL);
    onnx_add_value(&graph, GRAPH_OUT, "t", ONNX_F32, 2, plain_dims);
    write_model(&graph);
    igata_session *session = open_with(ctx, path, "compiled", NULL, NULL), *other = open_with(ctx, path, "ref32", NULL, NULL);
    igata_timing times[16], none[1];
    assert_int_equal(igata_session_step_timed(session, none), IGATA_E_ARGUMENT); /* nothing is bound */
    assert_int_equal(run(other, 1), IGATA_OK);
    assert_int_equal(igata_session_step_timed(other, none), IGATA_E_ARGUMENT); /* no phases */
    for (int64_t n = 0; n < 6; n += 5) {
        assert_int_equal(run(session, n), IGATA_OK);
        size_t phases = igata_session_phases(session), inside = 0, once = 0;
        assert_true(phases >= 3 && phases <= 16);
        memset(times, 0, sizeof times);
        for (int step = 0; step < 2; step++) /* times add up */
            assert_int_equal(igata_session_step_timed(session, times), IGATA_OK);
        for (size_t i = 0; i < phases; i++) {
            assert_true(times[i].executions == 2 || times[i].executions == 2 * (uint64_t)n);
            assert_true(times[i].executions || times[i].ns == 0);
            inside += times[i].executions == 2 * (uint64_t)n;
            once += times[i].executions == 2;
        }
        assert_true(inside >= 1 && once >= 2); /* the trip; the copy before the loop and what follows it */
        igata_tensor t;
        assert_int_equal(igata_session_result(session, 0, &t), IGATA_OK);
        assert_int_equal(t.dims[0], n);
        assert_true(n == 0 || ((float *)t.data)[4 * n - 1] == -(float)(4 << n));
    }
    assert_int_equal(run(session, 5000), IGATA_E_BOUND);
    igata_messages_clear(ctx);
    memset(times, 0, sizeof times);
    assert_int_equal(igata_session_step_timed(session, times), IGATA_E_BOUND);
    igata_context_destroy(ctx);
}

/* What also-output shows inside of a program for a range is the same by the evaluator, value by value. */
static void values_inside_of_a_range_match(void **state)
{
    (void)state;
    igata_context *ctx = igata_context_create();
    const igata_tolerance bits = {.size = sizeof bits, .bits = 1};
    igata_session *session[2];
    Pb graph = {.len = 0}, to = {.len = 0};
    onnx_attr_int(&to, "to", ONNX_F32);
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, open_dims);
    onnx_add_node(&graph, "Size", "x", "count", NULL);
    onnx_add_node(&graph, "Cast", "count", "f", &to);
    onnx_add_node(&graph, "Mul", "x f", "m", NULL);
    onnx_add_node(&graph, "Neg", "m", "y", NULL);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, open_dims);
    write_model(&graph);
    for (size_t e = 0; e < 2; e++) {
        igata_options *o = igata_options_create(ctx);
        assert_int_equal(igata_option_set(o, "engine", engines[e]), IGATA_OK);
        assert_int_equal(igata_option_set(o, "dim", "N=1..8"), IGATA_OK);
        assert_int_equal(igata_option_set(o, "also-output", "all"), IGATA_OK);
        assert_int_equal(igata_session_open(ctx, path, o, &session[e]), IGATA_OK);
    }
    static float x[32];
    for (int64_t n = 1; n <= 8; n += 7) {
        const int64_t dims[2] = {n, 4};
        const igata_tensor input = {.name = "x", .dtype = IGATA_F32, .rank = 2, .dims = dims, .data = x, .bytes = (size_t)n * 16};
        for (size_t i = 0; i < 32; i++)
            x[i] = (float)i - 3;
        assert_int_equal(igata_session_run(session[0], &input, 1), IGATA_OK);
        assert_int_equal(igata_session_run(session[1], &input, 1), IGATA_OK);
        assert_true(igata_session_outputs(session[0]) >= 3);
        assert_int_equal(igata_session_outputs(session[0]), igata_session_outputs(session[1]));
        for (size_t i = 0; i < igata_session_outputs(session[0]); i++) {
            igata_tensor want, got;
            igata_difference diff = {.size = sizeof diff};
            assert_int_equal(igata_session_result(session[0], i, &want), IGATA_OK);
            assert_int_equal(igata_session_result(session[1], i, &got), IGATA_OK);
            assert_string_equal(want.name, got.name);
            assert_int_equal(igata_tensor_compare(ctx, &got, &want, &bits, &diff), IGATA_OK);
        }
    }
    igata_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_stacks_alone),     cmocka_unit_test(stacks_of_one_trip_count_meet),
        cmocka_unit_test(stacks_of_one_trip_count_meet_inside),
        cmocka_unit_test(bounds_by_every_name),      cmocka_unit_test(other_sizes_have_no_bound),
        cmocka_unit_test(trips_that_cannot_be),      cmocka_unit_test(steps_are_timed),
        cmocka_unit_test(values_inside_of_a_range_match),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    return failed;
}
