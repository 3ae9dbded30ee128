/* SPDX-License-Identifier: Apache-2.0
 * The public API: options, sessions by every engine, comparison rules, gradients. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* O_TMPFILE */
#endif
#include "igata.h"
#include "support/unit.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char model[] = "sym N in [1, 64]\n"
                            "weight @w : f32[3,2] = [1, -2, 0.5, 4, -0.25, 3]\n"
                            "entry func @main(%x : f32[N,3] \"x\", %b : f32[N,2] \"b\") -> (\"y\") {\n"
                            "  %w = const {weight=@w} : f32[3,2]\n"
                            "  %d = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[N,2]\n"
                            "  %s = add %d, %b : f32[N,2]\n"
                            "  %y = tanh %s : f32[N,2]\n"
                            "  yield %y\n"
                            "}\n";

static const char path[] = "api_session.ig";

static int make_context(void **state)
{
    FILE *file = fopen(path, "w");
    if (!file || fputs(model, file) < 0 || fclose(file) != 0)
        return -1;
    *state = igata_context_create();
    return *state ? 0 : -1;
}

static int drop_context(void **state)
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

static igata_options *with_engine(igata_context *ctx, const char *engine)
{
    igata_options *o = igata_options_create(ctx);
    assert_non_null(o);
    assert_int_equal(igata_option_set(o, "engine", engine), IGATA_OK);
    return o;
}

static void fill(igata_context *ctx, igata_session *session, size_t rows, igata_tensor inputs[2])
{
    int64_t dims[2][2] = {{(int64_t)rows, 3}, {(int64_t)rows, 2}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(igata_session_input(session, i, &inputs[i]), IGATA_OK);
        int64_t *kept = igata_alloc(ctx, sizeof dims[i]);
        memcpy(kept, dims[i], sizeof dims[i]);
        inputs[i].dims = kept;
        assert_int_equal(igata_tensor_fill(ctx, &inputs[i], i ? "random:7" : "random:5"), IGATA_OK);
    }
}

static void engines_agree_for_every_shape(void **state)
{
    static const char *const engine[] = {"ref32", "compiled", "eager"};
    igata_context *ctx = *state;
    igata_session *session[3];
    const igata_tolerance bits = {.size = sizeof bits, .bits = 1};
    for (size_t e = 0; e < 3; e++)
        assert_int_equal(igata_session_open(ctx, path, with_engine(ctx, engine[e]), &session[e]), IGATA_OK);
    for (size_t round = 0; round < 2; round++) /* the second time from what was kept */
        for (size_t rows = 1; rows < 20; rows += 8) {
            igata_tensor inputs[2], result[3];
            fill(ctx, session[0], rows, inputs);
            for (size_t e = 0; e < 3; e++) {
                igata_difference diff = {.size = sizeof diff};
                assert_int_equal(igata_session_run(session[e], inputs, 2), IGATA_OK);
                assert_int_equal(igata_session_result(session[e], 0, &result[e]), IGATA_OK);
                assert_int_equal(result[e].dims[0], (int64_t)rows);
                assert_int_equal(igata_tensor_compare(ctx, &result[e], &result[0], &bits, &diff), IGATA_OK);
            }
            const float *x = inputs[0].data, *b = inputs[1].data;
            double y = tanh((double)x[0] + 0.5 * (double)x[1] - 0.25 * (double)x[2] + (double)b[0]);
            assert_true(fabs(y - (double)((const float *)result[0].data)[0]) < 1e-6);
        }
    assert_int_equal(igata_message_count(ctx), 0);
}

/* A killed process cannot clean up: while sessions are open, their artifacts have no name where the system allows that. */
static void artifacts_leave_no_file(void **state)
{
    static const char *const engine[] = {"compiled", "eager"};
    igata_context *ctx = *state;
    char dir[] = "temporary-XXXXXX";
    assert_non_null(mkdtemp(dir));
    int fd = open(dir, O_TMPFILE | O_RDWR, 0600);
    assert_int_equal(setenv("TMPDIR", dir, 1), 0);
    igata_session *session[2];
    for (size_t e = 0; e < 2; e++) {
        igata_tensor inputs[2];
        assert_int_equal(igata_session_open(ctx, path, with_engine(ctx, engine[e]), &session[e]), IGATA_OK);
        fill(ctx, session[e], 3, inputs);
        assert_int_equal(igata_session_run(session[e], inputs, 2), IGATA_OK);
    }
    if (fd >= 0)
        assert_int_equal(rmdir(dir), 0); /* it is empty */
    for (size_t e = 0; e < 2; e++)
        igata_session_close(session[e]);
    if (fd < 0)
        assert_int_equal(rmdir(dir), 0);
    else
        close(fd);
    unsetenv("TMPDIR");
}

static void wrong_inputs_are_named(void **state)
{
    igata_context *ctx = *state;
    igata_session *session;
    igata_tensor inputs[2];
    assert_int_equal(igata_session_open(ctx, path, with_engine(ctx, "ref32"), &session), IGATA_OK);
    fill(ctx, session, 4, inputs);
    assert_int_equal(igata_session_run(session, inputs, 1), IGATA_E_MODEL);
    assert_true(has_message(ctx, "input 'b': missing; declared is f32[N,2]"));
    igata_messages_clear(ctx);

    int64_t other[2] = {5, 2};
    const int64_t *good = inputs[1].dims;
    inputs[1].dims = other; /* N is 4 in x */
    assert_int_equal(igata_session_run(session, inputs, 2), IGATA_E_MODEL);
    assert_true(has_message(ctx, "'N'"));
    igata_messages_clear(ctx);

    inputs[1].dims = good;
    inputs[1].dtype = IGATA_S32;
    assert_int_equal(igata_session_run(session, inputs, 2), IGATA_E_MODEL);
    assert_true(has_message(ctx, "given is s32[4,2], declared is f32[N,2]"));
    igata_messages_clear(ctx);
    inputs[1].dtype = IGATA_F32;
    inputs[1].name = "c";
    assert_int_equal(igata_session_run(session, inputs, 2), IGATA_E_MODEL);
    assert_true(has_message(ctx, "input 'c': the model has no such input"));
}

static void bad_options_are_refused(void **state)
{
    static const struct {
        const char *key, *value;
    } bad[] = {{"nonsense", "1"}, {"engine", "steam"}, {"opt-level", "3"}, {"threads", "0"}, {"dim", "N"},
               {"dim", "N=4..2"}, {"shape", "x=1xx"}, {"cpu", "z80"}, {"target", "z80"}, {"disable-pass", "expand"},
               {"stop-after", "nothing"}, {"pass-limit", "-1"}, {"fast-math", "reassociate"}, {"strict", "perhaps"}};
    igata_context *ctx = *state;
    igata_options *o = igata_options_create(ctx);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(igata_option_set(o, bad[i].key, bad[i].value), IGATA_E_OPTION);
        assert_int_equal(igata_message_count(ctx), i + 1);
        assert_true(has_message(ctx, bad[i].key));
    }
    for (const igata_option_row *row = igata_option_rows(); row->key; row++)
        assert_true(*row->help);
}

static void copies_of_options_are_independent(void **state)
{
    igata_context *ctx = *state;
    igata_network *net;
    igata_options *o = igata_options_create(ctx), *copy = igata_options_copy(o);
    assert_int_equal(igata_option_set(copy, "dim", "N=3"), IGATA_OK);
    assert_int_equal(igata_network_load(ctx, path, copy, &net), IGATA_OK);
    assert_non_null(strstr(igata_network_text(net), "f32[3,3]"));
    assert_int_equal(igata_network_load(ctx, path, o, &net), IGATA_OK);
    assert_non_null(strstr(igata_network_text(net), "f32[N,3]"));
    assert_int_equal(igata_network_compile(net, o, "never.o"), IGATA_E_MODEL); /* N is open */
    assert_null(fopen("never.o", "r"));
}

static igata_status compare(igata_context *ctx, float got, float want, igata_tolerance tolerance)
{
    int64_t dims[1] = {1};
    igata_tensor a = {.name = "a", .dtype = IGATA_F32, .rank = 1, .dims = dims, .data = &got, .bytes = sizeof got}, b = a;
    igata_difference diff = {.size = sizeof diff};
    b.data = &want;
    tolerance.size = sizeof tolerance;
    return igata_tensor_compare(ctx, &a, &b, &tolerance, &diff);
}

static void tolerances_mean_what_they_say(void **state)
{
    igata_context *ctx = *state;
    const igata_tolerance exact = {.rtol = 0}, bits = {.bits = 1}, ulp = {.ulp = 2}, loose = {.rtol = 0.1, .atol = 0.01};
    const float one = 1, next = nextafterf(1, 2), third = nextafterf(nextafterf(next, 2), 2);
    assert_int_equal(compare(ctx, one, one, exact), IGATA_OK);
    assert_int_equal(compare(ctx, one, next, exact), IGATA_E_MISMATCH);
    assert_int_equal(compare(ctx, one, next, ulp), IGATA_OK);
    assert_int_equal(compare(ctx, one, third, ulp), IGATA_E_MISMATCH);
    assert_int_equal(compare(ctx, -1e-45f, 1e-45f, ulp), IGATA_OK); /* across zero */
    assert_int_equal(compare(ctx, 0.0f, -0.0f, exact), IGATA_OK);
    assert_int_equal(compare(ctx, 0.0f, -0.0f, bits), IGATA_E_MISMATCH);
    assert_int_equal(compare(ctx, NAN, -NAN, bits), IGATA_OK);
    assert_int_equal(compare(ctx, NAN, 1, loose), IGATA_E_MISMATCH);
    assert_int_equal(compare(ctx, INFINITY, 1e38f, loose), IGATA_E_MISMATCH);
    assert_int_equal(compare(ctx, INFINITY, INFINITY, exact), IGATA_OK);
    assert_int_equal(compare(ctx, 1.1f, 1.0f, loose), IGATA_OK);
    assert_int_equal(compare(ctx, 1.12f, 1.0f, loose), IGATA_E_MISMATCH);
}

static void gradient_runs(void **state)
{
    igata_context *ctx = *state;
    igata_network *net, *gradient;
    igata_session *session;
    igata_tensor inputs[3], result;
    igata_options *o = with_engine(ctx, "compiled");
    assert_int_equal(igata_network_load(ctx, path, o, &net), IGATA_OK);
    assert_int_equal(igata_network_gradient(net, "y", "b", NULL, &gradient), IGATA_E_MODEL); /* y is no scalar */
    igata_messages_clear(ctx);
    assert_int_equal(igata_network_gradient(net, "y", "b", "seed", &gradient), IGATA_OK);
    assert_int_equal(igata_network_save(gradient, "api_gradient.ig"), IGATA_OK);
    assert_int_equal(igata_session_open(ctx, "api_gradient.ig", o, &session), IGATA_OK);
    fill(ctx, session, 2, inputs);
    inputs[2] = inputs[1];
    inputs[2].name = "seed";
    assert_int_equal(igata_tensor_fill(ctx, &inputs[2], "ones"), IGATA_OK);
    assert_int_equal(igata_session_run(session, inputs, 3), IGATA_OK);
    assert_int_equal(igata_session_result(session, 0, &result), IGATA_OK);
    assert_string_equal(result.name, "grad_b");
    const float *x = inputs[0].data, *b = inputs[1].data;
    double y = tanh((double)x[0] + 0.5 * (double)x[1] - 0.25 * (double)x[2] + (double)b[0]);
    assert_true(fabs(1 - y * y - (double)((const float *)result.data)[0]) < 1e-6);
    remove("api_gradient.ig");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(engines_agree_for_every_shape, make_context, drop_context),
        cmocka_unit_test_setup_teardown(artifacts_leave_no_file, make_context, drop_context),
        cmocka_unit_test_setup_teardown(wrong_inputs_are_named, make_context, drop_context),
        cmocka_unit_test_setup_teardown(bad_options_are_refused, make_context, drop_context),
        cmocka_unit_test_setup_teardown(copies_of_options_are_independent, make_context, drop_context),
        cmocka_unit_test_setup_teardown(tolerances_mean_what_they_say, make_context, drop_context),
        cmocka_unit_test_setup_teardown(gradient_runs, make_context, drop_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
