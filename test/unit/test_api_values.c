/* SPDX-License-Identifier: Apache-2.0
 * Inputs whose values decide shapes: a session compiles once per distinct values and never reuses what is for others; compile
 * takes them from --input-value. Names that the model lacks are refused. */
#include "igata.h"
#include "support/onnx_bytes.h"
#include "support/unit.h"

#include <stdio.h>

static const char path[] = "api_values.onnx";

/* y = Reshape(x, s) for x : f32[N, 6], s : s64[2] */
static int make_model(void **state)
{
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, (int64_t[]){-1, 6});
    onnx_add_value(&graph, GRAPH_IN, "s", ONNX_S64, 1, (int64_t[]){2});
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, (int64_t[]){-2, -2});
    onnx_add_node(&graph, "Reshape", "x s", "y", NULL);
    Pb model = onnx_model(&graph, 17);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(model.data, 1, model.len, file) != model.len || fclose(file) != 0)
        return -1;
    *state = igata_context_create();
    return *state ? 0 : -1;
}

static int drop_model(void **state)
{
    igata_context_destroy(*state);
    return remove(path);
}

static int has_message(igata_context *ctx, const char *text)
{
    for (size_t i = 0; i < igata_message_count(ctx); i++)
        if (strstr(igata_message_text(ctx, i), text))
            return 1;
    return 0;
}

static igata_options *with(igata_context *ctx, const char *key, const char *value)
{
    igata_options *o = igata_options_create(ctx);
    assert_non_null(o);
    assert_int_equal(igata_option_set(o, key, value), IGATA_OK);
    return o;
}

static void values_are_part_of_the_key(void **state)
{
    static const char *const engine[] = {"compiled", "eager", "ref32"};
    igata_context *ctx = *state;
    float x[12];
    int64_t shape[][2] = {{3, 4}, {4, 3}, {12, 1}, {3, 4}}, x_dims[] = {2, 6}, s_dims[] = {2};
    for (size_t i = 0; i < 12; i++)
        x[i] = (float)i;
    for (size_t e = 0; e < 3; e++) {
        igata_session *session;
        assert_int_equal(igata_session_open(ctx, path, with(ctx, "engine", engine[e]), &session), IGATA_OK);
        for (size_t i = 0; i < 4; i++) {
            igata_tensor in[] = {{.name = "x", .dtype = IGATA_F32, .rank = 2, .dims = x_dims, .data = x, .bytes = sizeof x},
                                 {.name = "s", .dtype = IGATA_S64, .rank = 1, .dims = s_dims, .data = shape[i], .bytes = 16}};
            igata_tensor y;
            assert_int_equal(igata_session_run(session, in, 2), IGATA_OK);
            assert_int_equal(igata_message_count(ctx), 0); /* what the first import lacked is not shown */
            assert_int_equal(igata_session_result(session, 0, &y), IGATA_OK);
            assert_int_equal(y.rank, 2);
            assert_memory_equal(y.dims, shape[i], sizeof shape[i]);
            assert_memory_equal(y.data, x, sizeof x);
        }
        int64_t wrong[] = {5, 5};
        igata_tensor in[] = {{.name = "x", .dtype = IGATA_F32, .rank = 2, .dims = x_dims, .data = x, .bytes = sizeof x},
                             {.name = "s", .dtype = IGATA_S64, .rank = 1, .dims = s_dims, .data = wrong, .bytes = 16}};
        assert_int_equal(igata_session_run(session, in, 2), IGATA_E_MODEL);
        assert_true(igata_message_count(ctx) > 0);
        igata_messages_clear(ctx);
        igata_session_close(session);
    }
}

static void compile_says_what_to_give(void **state)
{
    igata_context *ctx = *state;
    igata_network *net;
    assert_int_equal(igata_network_load(ctx, path, with(ctx, "dim", "N=2"), &net), IGATA_E_MODEL);
    assert_true(has_message(ctx, "error[onnx_unknown]"));
    assert_true(has_message(ctx, "note[api_fix]"));
    assert_true(has_message(ctx, "'s' (s64[2])"));
    igata_messages_clear(ctx);
    static const char *const bad[] = {"s=3", "s=3,x", "s=", "s=1,2,3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(igata_network_load(ctx, path, with(ctx, "input-value", bad[i]), &net), IGATA_E_MODEL);
        assert_true(has_message(ctx, "input 's'"));
        igata_messages_clear(ctx);
    }
}

/* The input is gone: a model of it cannot be given another value. */
static void a_fixed_input_is_a_constant(void **state)
{
    igata_context *ctx = *state;
    igata_network *net;
    igata_session *session;
    igata_options *o = with(ctx, "input-value", "s=4,3");
    assert_int_equal(igata_option_set(o, "dim", "N=2"), IGATA_OK);
    assert_int_equal(igata_network_load(ctx, path, o, &net), IGATA_OK);
    assert_int_equal(igata_network_compile(net, o, "api_values.so"), IGATA_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(igata_session_open(ctx, i ? path : "api_values.so", i ? o : igata_options_create(ctx), &session), IGATA_OK);
        assert_int_equal(igata_session_inputs(session), 1);
        igata_session_close(session);
    }
    remove("api_values.so");
}

static void unknown_names_are_refused(void **state)
{
    static const struct {
        const char *key, *value, *text;
    } bad[] = {{"dim", "M=3", "no symbolic size 'M'; it has 'N'"},
               {"bound", "M=3", "no symbolic size 'M'; it has 'N'"},
               {"shape", "z=1x6", "no input 'z'; it has 'x', 's'"},
               {"input-value", "z=1", "no input 'z'; it has 'x', 's'"}};
    igata_context *ctx = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        igata_network *net;
        igata_session *session;
        igata_options *o = with(ctx, bad[i].key, bad[i].value);
        assert_int_equal(igata_session_open(ctx, path, o, &session), IGATA_E_MODEL);
        assert_true(has_message(ctx, bad[i].text));
        igata_messages_clear(ctx);
        assert_int_equal(igata_network_load(ctx, path, o, &net), IGATA_E_MODEL);
        assert_true(has_message(ctx, "error[api_name]"));
        igata_messages_clear(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_are_part_of_the_key, make_model, drop_model),
        cmocka_unit_test_setup_teardown(compile_says_what_to_give, make_model, drop_model),
        cmocka_unit_test_setup_teardown(a_fixed_input_is_a_constant, make_model, drop_model),
        cmocka_unit_test_setup_teardown(unknown_names_are_refused, make_model, drop_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
