/* SPDX-License-Identifier: Apache-2.0
 *
 * The reverse-mode driver: names and order of results, kept outputs, constants, what has no influence, inlined calls,
 * several outputs, ties, and everything it refuses.
 */
#include "ad/ad.h"
#include "support/op_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Fixture {
    Context *ctx;
    Arena *arena;
    Module *module;
} Fixture;

static int begin(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    f->ctx = ctx_create(NULL);
    f->arena = arena_create(f->ctx);
    *state = f;
    return 0;
}

static int end(void **state)
{
    Fixture *f = *state;
    ctx_destroy(f->ctx);
    free(f);
    return 0;
}

static const Func *parse(Fixture *f, const char *text)
{
    diag_clear(f->ctx);
    f->module = ir_parse(f->ctx, str_intern(f->ctx, "t.ig"), text, strlen(text));
    if (!f->module || !ir_verify(f->module) || !op_verify(f->module))
        case_fail(f->ctx, "text");
    return module_find_func(f->module, str_intern(f->ctx, "main"));
}

/* "a,b" as names */
static uint32_t names(Fixture *f, const char *text, Str *out)
{
    uint32_t n = 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        out[n++] = str_intern_n(f->ctx, text, length);
        text += length + (text[length] == ',');
    }
    return n;
}

/* The gradient function of @main; output "y:seed" or "y". */
static Func *gradient(Fixture *f, const char *outputs, const char *wrt, const char *keep)
{
    Str out[8], by[8], kept[8];
    AdOutput list[8];
    uint32_t n = names(f, outputs, out);
    for (uint32_t i = 0; i < n; i++) {
        const char *colon = strchr(out[i], ':');
        list[i].name = colon ? str_intern_n(f->ctx, out[i], (size_t)(colon - out[i])) : out[i];
        list[i].seed = colon ? str_intern(f->ctx, colon + 1) : NULL;
    }
    AdRequest request = {.func = module_find_func(f->module, str_intern(f->ctx, "main")),
                         .name = str_intern(f->ctx, "grad"),
                         .outputs = list,
                         .n_outputs = n,
                         .wrt = by,
                         .n_wrt = names(f, wrt, by),
                         .keep = kept,
                         .n_keep = names(f, keep, kept)};
    diag_clear(f->ctx);
    Func *func = ad_gradient(f->module, &request);
    if (func && (!ir_verify(f->module) || !op_verify(f->module)))
        case_fail(f->ctx, "result");
    return func;
}

/* "name=values name=values" of the function on params, in ref32. */
static const char *run(Fixture *f, const Func *func, Tensor *const *params)
{
    Tensor *out[8];
    Text text;
    text_init(&text, f->arena);
    if (!func || !eval_func(f->ctx, f->arena, EVAL_REF32, func, params, out, NULL))
        case_fail(f->ctx, "run");
    for (uint32_t i = 0; i < func_n_out(func); i++)
        text_addf(&text, "%s%s=%s", i ? "; " : "", func->out_names[i], case_text(f->arena, out[i]));
    return text.data;
}

#define VALUES(type, text) case_values(f->ctx, f->arena, type, text)
#define PARAMS(...)                                                                                                    \
    (Tensor *[]) { __VA_ARGS__ }

static const char layer[] =
    "weight @w : f32[2,2] = [1, 2, 3, 4]\n"
    "weight @bias : f32[1,2] = [0.5, -20]\n"
    "entry func @main(%x : f32[1,2] \"x\", %i : s64[1] \"i\", %unused : f32[2] \"unused\") -> (\"loss\", \"h\", \"n\") "
    "{\n"
    "  %w = const {weight=@w} : f32[2,2]\n"
    "  %bias = const {weight=@bias} : f32[1,2]\n"
    "  %p = dot %x, %w {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[1,2]\n"
    "  %q = add %p, %bias : f32[1,2]\n"
    "  %h = relu %q : f32[1,2]\n"
    "  %s = reduce %h {axes=[0,1], kind=\"sum\"} : f32[1,1]\n"
    "  %loss = reshape %s {shape=[]} : f32[]\n"
    "  yield %loss, %h, %i\n}\n";

static void inputs_and_constants(void **state)
{
    Fixture *f = *state;
    Tensor *in[4] = {VALUES("f32[1,2]", "1 2"), VALUES("s64[1]", "0"), VALUES("f32[2]", "1"),
                     VALUES("f32[1,2]", "10 100")};
    parse(f, layer); /* q = 7.5, -10 */
    assert_string_equal(run(f, gradient(f, "loss", "x,w,bias,unused", "h,loss"), in),
                        "h=7.5 0; loss=7.5; grad_x=1 3; grad_w=1 0 2 0; grad_bias=1 0; grad_unused=0 0");
    parse(f, layer);
    assert_string_equal(run(f, gradient(f, "", "", ""), in),
                        "grad_x=1 3; grad_unused=0 0"); /* first output, float inputs */
    parse(f, layer);
    Func *seeded = gradient(f, "h:dh,loss", "x", "");
    assert_string_equal(seeded->in_names[3], "dh");
    assert_string_equal(run(f, seeded, in), "grad_x=11 33"); /* outputs add up */
}

/* An initializer that equals a constant of a body, or of the primal, is told apart from the body's. */
static void equal_constants(void **state)
{
    Fixture *f = *state;
    parse(f, "weight @half : f32[] = [0.5]\n"
             "entry func @main(%x : f32[] \"x\") -> (\"y\") {\n"
             "  %h = const {weight=@half} : f32[]\n  %g = gelu %x {approx=\"none\"} : f32[]\n"
             "  %y = mul %g, %h : f32[]\n  yield %y\n}\n");
    assert_string_equal(run(f, gradient(f, "y", "half", ""), PARAMS(VALUES("f32[]", "0"))), "grad_half=0");
    parse(f, "weight @w : f32[] = [3]\n"
             "entry func @main(%x : f32[] \"x\") -> (\"y\") {\n"
             "  %a = const {weight=@w} : f32[]\n  %b = mul %x, %a : f32[]\n  %c = const {weight=@w} : f32[]\n"
             "  %y = mul %b, %c : f32[]\n  yield %y\n}\n");
    assert_string_equal(run(f, gradient(f, "y", "w,x", "y"), PARAMS(VALUES("f32[]", "2"))),
                        "y=18; grad_w=12; grad_x=9");
}

static void calls_and_stops(void **state)
{
    Fixture *f = *state;
    parse(f, "func @square(%a : f32[] \"a\") -> (\"b\") { %b = mul %a, %a : f32[] yield %b }\n"
             "entry func @main(%x : f32[] \"x\") -> (\"y\") {\n"
             "  %b = call %x {func=@square} : f32[]\n  %s = stop_gradient %b : f32[]\n  %c = call %b {func=@square} : "
             "f32[]\n"
             "  %d = mul %c, %s : f32[]\n  yield %d\n}\n"); /* x^4 * stop(x^2) */
    assert_string_equal(run(f, gradient(f, "y", "x", ""), PARAMS(VALUES("f32[]", "2"))), "grad_x=128");
}

/* Control that does not depend on what is differentiated does no harm. */
static void inactive_control(void **state)
{
    Fixture *f = *state;
    parse(f, "entry func @main(%x : f32[] \"x\", %c : bool[] \"c\", %k : f32[] \"k\") -> (\"y\", \"z\") {\n"
             "  %f = if %c, %k : f32[] { (%a : f32[]) %b = neg %a : f32[] yield %b } { (%a : f32[]) yield %a }\n"
             "  %y = mul %x, %f : f32[]\n"
             "  %z = if %c, %x : f32[] { (%a : f32[]) %b = neg %a : f32[] yield %b } { (%a : f32[]) yield %a }\n"
             "  yield %y, %z\n}\n");
    Tensor *in[3] = {VALUES("f32[]", "2"), VALUES("bool[]", "1"), VALUES("f32[]", "5")};
    assert_string_equal(run(f, gradient(f, "y", "x", ""), in), "grad_x=-5");
    AdRequest request = {.func = module_find_func(f->module, str_intern(f->ctx, "main")),
                         .name = str_intern(f->ctx, "g2")};
    AdOutput z = {.name = str_intern(f->ctx, "z")};
    request.outputs = &z;
    request.n_outputs = 1;
    assert_null(ad_gradient(f->module, &request));
    assert_string_equal(diag_name(diag_get(f->ctx, diag_count(f->ctx) - 1)->id), "ad_nondiff");
    assert_true(ir_verify(f->module));
}

/* Windows of padding only: no element is reached, no rule may look for one. */
static void empty_values(void **state)
{
    Fixture *f = *state;
    parse(f, "entry func @main(%x : f32[1,0] \"x\", %w : f32[1,1] \"w\") -> (\"y\") {\n"
             "  %e = exp %x : f32[1,0]\n"
             "  %m = reduce_window %e {window=[1,4], stride=[1,1], pad_lo=[0,2], pad_hi=[0,2], dilation=[1,1], kind=\"max\"} "
             ": f32[1,1]\n"
             "  %y = add %m, %w : f32[1,1]\n  yield %y\n}\n");
    assert_string_equal(run(f, gradient(f, "y", "x,w", ""), PARAMS(VALUES("f32[1,0]", ""), VALUES("f32[1,1]", "1"))),
                        "grad_x=; grad_w=1");
}

/* Where there is no single answer (the comments of the rules). */
static void ties(void **state)
{
    Fixture *f = *state;
    static const struct {
        const char *body, *want;
    } rows[] = {
        {"%r = abs %x : f32[4]", "0 -0 1 -1"},
        {"%r = max %x, %c : f32[4]", "0.5 0.5 1 0"},
        {"%r = min %x, %c : f32[4]", "0.5 0.5 0 1"},
        {"%t = reduce %x {axes=[0], kind=\"min\"} : f32[1]\n %r = broadcast %t {shape=[4]} : f32[4]", "0 0 0 4"},
        {"%a = abs %x : f32[4]\n %t = reduce %a {axes=[0], kind=\"max\"} : f32[1]\n %r = broadcast %t {shape=[4]} : "
         "f32[4]",
         "0 -0 2 -2"},
        {"%r = pow %x, %c : f32[4]", "0 -0 0 -0"},
    };
    for (size_t i = 0; i < IG_COUNT(rows); i++) {
        parse(f, arena_printf(f->arena,
                              "weight @c : f32[4] = [0, 0, 0, 0]\n"
                              "entry func @main(%%x : f32[4] \"x\") -> (\"y\") {\n"
                              "  %%c = const {weight=@c} : f32[4]\n  %s\n"
                              "  %%y = reduce %%r {axes=[0], kind=\"sum\"} : f32[1]\n  yield %%y\n}\n",
                              rows[i].body));
        const char *want = arena_printf(f->arena, "grad_x=%s", rows[i].want);
        assert_string_equal(run(f, gradient(f, "y", "x", ""), PARAMS(VALUES("f32[4]", "0 -0 3 -3"))), want);
    }
}

static void refusals(void **state)
{
    Fixture *f = *state;
    static const struct {
        const char *outputs, *wrt, *keep, *want;
    } rows[] = {
        {"nothing", "x", "", "ad_output"}, {"loss", "x", "nothing", "ad_output"}, {"loss", "nothing", "", "ad_wrt"},
        {"loss", "i", "", "ad_wrt_type"},  {"n", "x", "", "ad_loss_type"},        {"h", "x", "", "ad_loss_shape"},
    };
    for (size_t i = 0; i < IG_COUNT(rows); i++) {
        parse(f, layer);
        assert_null(gradient(f, rows[i].outputs, rows[i].wrt, rows[i].keep));
        assert_string_equal(diag_name(diag_get(f->ctx, 0)->id), rows[i].want);
        assert_true(ir_verify(f->module));
    }
    parse(f, layer);
    assert_non_null(gradient(f, "loss", "x", ""));
    assert_null(gradient(f, "loss", "x", ""));
    assert_string_equal(diag_name(diag_get(f->ctx, 0)->id), "ad_name");
    parse(f, "entry func @main(%d : f32[3] \"d\", %i : s64[1] \"i\", %u : f32[1] \"u\") -> (\"y\") {\n"
             "  %y = scatter_elements %d, %i, %u {axis=0, combine=\"mul\"} : f32[3]\n  yield %y\n}\n");
    assert_null(gradient(f, "y:s", "d", ""));
    assert_string_equal(diag_name(diag_get(f->ctx, 0)->id), "ad_scatter");
    parse(f, "sym S in [3, 64]\n"
             "entry func @main(%x : f32[1,1,S] \"x\", %w : f32[1,1,3] \"w\") -> (\"y\") {\n"
             "  %y = conv %x, %w {stride=[1], pad_lo=[1], pad_hi=[1], dilation=[1], lhs_dilation=[1], groups=1, "
             "flip=false} : f32[1,1,S]\n"
             "  yield %y\n}\n");
    assert_null(gradient(f, "y:s", "x", ""));
    assert_string_equal(diag_name(diag_get(f->ctx, 0)->id), "ad_static");
}

/* A symbolic batch goes through the rules. */
static void symbolic_batch(void **state)
{
    Fixture *f = *state;
    parse(f, "sym N in [1, 64]\n"
             "entry func @main(%x : f32[N,3] \"x\", %i : s64[N] \"i\") -> (\"y\") {\n"
             "  %s = softmax %x {axes=[1], norm=\"mul\"} : f32[N,3]\n"
             "  %g = gather %s, %i {axis=1, batch=1} : f32[N]\n"
             "  yield %g\n}\n");
    Tensor *in[3] = {VALUES("f32[2,3]", "0 0 0 1 1 1"), VALUES("s64[2]", "0 0"), VALUES("f32[2]", "1 0")};
    Func *g = gradient(f, "y:dy", "x", "");
    if (!g)
        case_fail(f->ctx, "symbolic");
    assert_string_equal(run(f, g, in), "grad_x=0.22222224 -0.11111111 -0.11111111 0 0 0");
}

/* The gradient function of text with the literal size 2 ("static") and with N for every "$": the same numbers. */
static void compare_symbolic(Fixture *f, const char *head, const char *body, const char *wrt, Tensor *const *in)
{
    Tensor *out[2][8];
    uint32_t n = 0;
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        Text text;
        text_init(&text, f->arena);
        text_addf(&text, "%s%s", head, symbolic ? "sym N in [2, 64]\n" : "");
        for (const char *c = body; *c; c++) { /* $3+1$ is 3*N+1 */
            int64_t factor, more = 0;
            if (*c != '$') {
                text_add_n(&text, c, 1);
                continue;
            }
            factor = strtoll(c + 1, (char **)(uintptr_t)&c, 10);
            more = *c != '$' ? strtoll(c, (char **)(uintptr_t)&c, 10) : 0;
            if (symbolic)
                text_addf(&text, "%lld*N%+lld", (long long)factor, (long long)more);
            else
                text_addf(&text, "%lld", (long long)(factor * 2 + more));
        }
        parse(f, text.data);
        Func *g = gradient(f, "y:dy", wrt, "y");
        if (!g || !eval_func(f->ctx, f->arena, EVAL_F64, g, in, out[symbolic], NULL))
            case_fail(f->ctx, body);
        n = func_n_out(g);
    }
    for (uint32_t k = 0; k < n; k++)
        for (uint64_t i = 0; i < out[0][k]->count; i++)
            assert_true(fabs(((double *)out[0][k]->data)[i] - ((double *)out[1][k]->data)[i]) <= 1e-9);
}

static void symbolic_network(void **state)
{
    Fixture *f = *state;
    Tensor *in[5] = {VALUES("f32[2,4,6,6]", "1 -2 0.5 3 0.25 -1 2"), VALUES("f32[4,2,3,3]", "0.5 -1 0.25 2 -0.125"),
                     VALUES("f32[36,3]", "1 2 -3 5 0.5"), VALUES("s64[2]", "1 2"), VALUES("f32[1]", "1")};
    compare_symbolic(f, "weight @zero : f32[] = [0]\n",
                     "entry func @main(%x : f32[$1$,4,6,6] \"x\", %w : f32[4,2,3,3] \"w\", %m : f32[36,3] \"m\", %i : "
                     "s64[$1$] \"i\") -> (\"y\") {\n"
                     "  %a = conv %x, %w {stride=[1,1], pad_lo=[1,1], pad_hi=[1,1], dilation=[1,1], "
                     "lhs_dilation=[1,1], groups=2, flip=false} : "
                     "f32[$1$,4,6,6]\n"
                     "  %b = gelu %a {approx=\"tanh\"} : f32[$1$,4,6,6]\n"
                     "  %c = reduce_window %b {window=[1,1,2,2], stride=[1,1,2,2], pad_lo=[0,0,0,0], pad_hi=[0,0,0,0], "
                     "dilation=[1,1,1,1], "
                     "kind=\"max\"} : f32[$1$,4,3,3]\n"
                     "  %d = reshape %c {shape=[$1$,36]} : f32[$1$,36]\n"
                     "  %e = softmax %d {axes=[1], norm=\"mul\"} : f32[$1$,36]\n"
                     "  %g = dot %e, %m {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[$1$,3]\n"
                     "  %h = gather %g, %i {axis=1, batch=1} : f32[$1$]\n"
                     "  %j = cumulate %h {axis=0, kind=\"prod\", exclusive=false, reverse=false} : f32[$1$]\n"
                     "  %z = const {weight=@zero} : f32[]\n"
                     "  %k = pad %j, %z {lo=[$1$], hi=[1], interior=[1]} : f32[$3$]\n"
                     "  %l = slice %k {start=[$3-1$], size=[$1$], step=[-2]} : f32[$1$]\n"
                     "  %n = concat %l, %h {axis=0} : f32[$2$]\n"
                     "  %o = mean %n {axes=[0]} : f32[1]\n"
                     "  %y = add %o, %o : f32[1]\n  yield %y\n}\n",
                     "x,w,m", in);
}

/* Gradients of weights are convs where the batch is a number, else dots. */
static void symbolic_convs(void **state)
{
    Fixture *f = *state;
    static const char *const rows[][2] = {
        {"stride=[1,1], pad_lo=[0,0], pad_hi=[0,0], dilation=[1,1], lhs_dilation=[1,1], groups=1, flip=false", "5,4"},
        {"stride=[2,3], pad_lo=[1,2], pad_hi=[2,0], dilation=[2,1], lhs_dilation=[1,1], groups=1, flip=true", "3,2"},
        {"stride=[1,1], pad_lo=[1,-1], pad_hi=[2,3], dilation=[1,2], lhs_dilation=[3,2], groups=1, flip=true", "20,9"},
        {"stride=[2,1], pad_lo=[-1,1], pad_hi=[-1,1], dilation=[1,1], lhs_dilation=[1,1], groups=2, flip=false", "2,6"},
    };
    for (size_t i = 0; i < IG_COUNT(rows); i++) {
        bool grouped = strstr(rows[i][0], "groups=2") != NULL;
        Tensor *in[3] = {
            VALUES("f32[2,4,7,6]", "1 -2 0.5 3 0.25 -1 2 -7 0.125"),
            case_values(f->ctx, f->arena, grouped ? "f32[6,2,3,3]" : "f32[6,4,3,3]", "0.5 -1 0.25 2 -0.125"),
            case_values(f->ctx, f->arena, arena_printf(f->arena, "f32[2,6,%s]", rows[i][1]), "1 2 -3 5 0.5 7 11")};
        compare_symbolic(
            f, "",
            arena_printf(f->arena,
                         "entry func @main(%%x : f32[$1$,4,7,6] \"x\", %%w : f32[6,%d,3,3] \"w\") -> (\"y\") {\n"
                         "  %%y = conv %%x, %%w {%s} : f32[$1$,6,%s]\n  yield %%y\n}\n",
                         grouped ? 2 : 4, rows[i][0], rows[i][1]),
            "x,w", in);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(inputs_and_constants),
                                       TEST(equal_constants),
                                       TEST(calls_and_stops),
                                       TEST(inactive_control),
                                       TEST(empty_values),
                                       TEST(ties),
                                       TEST(refusals),
                                       TEST(symbolic_batch),
                                       TEST(symbolic_network),
                                       TEST(symbolic_convs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
