/* SPDX-License-Identifier: Apache-2.0
 *
 * The ONNX reader: the wire format's rules, the rules of graphs and names, versions, symbols, folding of batch norms,
 * sub-graphs, and that every refusal names what is wrong. Models are bytes made here.
 */
#include "support/unit.h"

#include "support/onnx_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const int64_t two_three[] = {2, 3};
static const ImportOptions no_options;

static Module *load(Context *ctx, const Pb *model, const ImportOptions *options)
{
    assert_true(model->len <= sizeof model->data);
    return front_onnx_import(ctx, "m.onnx", (Blob){model->data, model->len}, options);
}

/* The model is refused with a diagnostic of that row whose text holds `text`. */
static void refused(const Pb *model, const ImportOptions *options, DiagId id, const char *text)
{
    Context *ctx = ctx_create(NULL);
    assert_null(load(ctx, model, options));
    bool found = false;
    for (uint32_t i = 0; i < diag_count(ctx); i++) {
        Text line;
        text_init(&line, ctx_arena(ctx));
        diag_print(ctx, &line, diag_get(ctx, i));
        found |= diag_get(ctx, i)->id == id && strstr(line.data, text) && strstr(line.data, "m.onnx");
        if (i + 1 == diag_count(ctx) && !found)
            print_error("wanted [%s] '%s', last was: %s\n", diag_name(id), text, line.data);
    }
    assert_true(found);
    ctx_destroy(ctx);
}

/* y = Relu(x), x f32[2,3] */
static Pb relu_graph(void)
{
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, two_three);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, two_three);
    onnx_add_node(&graph, "Relu", "x", "y", NULL);
    return graph;
}

static void test_relu_is_one_node(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    Pb graph = relu_graph(), model = onnx_model(&graph, 17);
    Module *m = load(ctx, &model, NULL);
    assert_non_null(m);
    assert_true(ir_verify(m) && op_verify(m));
    Func *f = m->funcs.data[0];
    assert_true(f->entry);
    assert_string_equal(f->in_names[0], "x");
    assert_string_equal(f->out_names[0], "y");
    Node *node = f->body->first;
    assert_int_equal(node->op, OP_relu);
    const LocInfo *loc = loc_info(ctx, node->loc);
    assert_int_equal(loc->kind, LOC_ONNX);
    assert_string_equal(loc->op_type, "Relu");
    ctx_destroy(ctx);
}

/* ---- wire ---------------------------------------------------------------------------------------------------------------- */

static void test_every_prefix_is_refused(void **state)
{
    (void)state;
    Pb graph = relu_graph(), model = onnx_model(&graph, 17);
    for (size_t n = 0; n < model.len; n++) {
        Context *ctx = ctx_create(NULL);
        uint8_t *exact = malloc(n ? n : 1); /* so that AddressSanitizer sees a read past the end */
        memcpy(exact, model.data, n);
        assert_null(front_onnx_import(ctx, "m.onnx", (Blob){exact, n}, NULL));
        assert_true(diag_errors(ctx) > 0);
        ctx_destroy(ctx);
        free(exact);
    }
}

static void test_wire_refusals(void **state)
{
    (void)state;
    Pb graph = relu_graph(), base = onnx_model(&graph, 17), bad;

    bad = base; /* a group */
    pb_tag(&bad, 100, 3);
    refused(&bad, NULL, DIAG_onnx_wire, "groups");
    bad = base; /* a wire type that does not exist */
    pb_tag(&bad, 100, 7);
    refused(&bad, NULL, DIAG_onnx_wire, "wire type");
    bad = base; /* field number 0 */
    pb_tag(&bad, 0, 0);
    pb_varint(&bad, 1);
    refused(&bad, NULL, DIAG_onnx_wire, "field number");
    bad = base; /* 11 bytes of varint */
    pb_tag(&bad, 100, 0);
    pb_raw(&bad, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11);
    refused(&bad, NULL, DIAG_onnx_wire, "64 bits");
    bad = base; /* 10 bytes that hold more than 64 bits */
    pb_tag(&bad, 100, 0);
    pb_raw(&bad, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 10);
    refused(&bad, NULL, DIAG_onnx_wire, "64 bits");
    bad = base; /* a length that wraps the position */
    pb_tag(&bad, 100, 2);
    pb_varint(&bad, UINT64_MAX);
    refused(&bad, NULL, DIAG_onnx_wire, "past the end");
    bad = base; /* graph as a number: the path names the field */
    pb_int(&bad, 7, 5);
    refused(&bad, NULL, DIAG_onnx_wire, "ModelProto.graph");

    Pb named = relu_graph(); /* a name that is not UTF-8 */
    pb_bytes(&named, 2, "\xC0\xAF", 2);
    bad = onnx_model(&named, 17);
    refused(&bad, NULL, DIAG_onnx_wire, "UTF-8");
}

static void test_unknown_fields_and_padded_varints_are_fine(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    Pb graph = relu_graph(), model = onnx_model(&graph, 17);
    pb_str(&model, 1000, "unknown");
    pb_tag(&model, 1001, 1);
    pb_raw(&model, "12345678", 8);
    pb_tag(&model, 1, 0); /* ir_version again, with a padded varint: the last one wins */
    pb_raw(&model, "\x89\x80\x00", 3);
    assert_non_null(load(ctx, &model, NULL));
    ctx_destroy(ctx);
    pb_int(&model, 1, 9999);
    refused(&model, NULL, DIAG_onnx_model, "9999");
}

static void test_packed_and_unpacked_dims_are_equal(void **state)
{
    (void)state;
    static const float raw[6] = {1, 2, 3, 4, 5, 6};
    for (int packed = 0; packed < 2; packed++) {
        Context *ctx = ctx_create(NULL);
        Pb graph = {.len = 0}, tensor = {.len = 0}, model;
        if (packed)
            pb_bytes(&tensor, 1, "\x02\x03", 2);
        for (int i = 0; i < 2 && !packed; i++)
            pb_int(&tensor, 1, two_three[i]);
        pb_int(&tensor, 2, ONNX_F32);
        if (packed)
            pb_bytes(&tensor, 4, raw, sizeof raw);
        for (int i = 0; i < 6 && !packed; i++)
            pb_f32(&tensor, 4, raw[i]);
        pb_str(&tensor, 8, "w");
        pb_sub(&graph, GRAPH_INIT, &tensor);
        onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, two_three);
        onnx_add_node(&graph, "Identity", "w", "y", NULL);
        model = onnx_model(&graph, 17);
        Module *m = load(ctx, &model, NULL);
        assert_non_null(m);
        Weight *w = val_const(func_out(m->funcs.data[0], 0));
        assert_non_null(w);
        assert_memory_equal(w->data, raw, sizeof raw);
        assert_int_equal(type_dim(w->type, 1), 3);
        ctx_destroy(ctx);
    }
}

/* ---- graphs --------------------------------------------------------------------------------------------------------------------- */

static void test_graph_rules(void **state)
{
    (void)state;
    static const float raw[6];
    Pb graph, model;

    graph = relu_graph(); /* two makers of a name */
    onnx_add_node(&graph, "Neg", "x", "y", NULL);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_value, "'y'");

    graph = (Pb){.len = 0}; /* out of order */
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, two_three);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, two_three);
    onnx_add_node(&graph, "Neg", "t", "y", NULL);
    onnx_add_node(&graph, "Relu", "x", "t", NULL);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_value, "topological");

    graph = relu_graph();
    onnx_add_node(&graph, "Neg", "ghost", "z", NULL);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_value, "ghost");

    graph = relu_graph(); /* weights: too short, named twice */
    onnx_add_tensor(&graph, "w", ONNX_F32, 2, two_three, raw, 20);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_tensor, "raw_data has 20 bytes");
    graph = relu_graph();
    onnx_add_tensor(&graph, "w", ONNX_F32, 2, two_three, raw, 24);
    onnx_add_tensor(&graph, "w", ONNX_F32, 2, two_three, raw, 24);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_value, "'w'");

    graph = relu_graph(); /* an output that nothing makes; one of another type than declared */
    onnx_add_value(&graph, GRAPH_OUT, "z", ONNX_F32, 2, two_three);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_value, "'z'");
    graph = relu_graph();
    onnx_add_value(&graph, GRAPH_OUT, "z", ONNX_S64, 2, two_three);
    onnx_add_node(&graph, "Neg", "x", "z", NULL);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_value, "declared as s64");
}

static void test_attributes_and_counts(void **state)
{
    (void)state;
    Pb graph, model, attrs = {.len = 0};
    onnx_attr_int(&attrs, "sparkle", 1);
    graph = relu_graph();
    onnx_add_node(&graph, "Relu", "x", "t", &attrs);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_attr, "sparkle");

    attrs.len = 0; /* an int where ints are due */
    onnx_attr_int(&attrs, "perm", 0);
    graph = relu_graph();
    onnx_add_node(&graph, "Transpose", "x", "t", &attrs);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_attr, "perm");

    graph = relu_graph(); /* required, missing */
    onnx_add_node(&graph, "Concat", "x x", "t", NULL);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_attr, "axis");

    graph = relu_graph();
    onnx_add_node(&graph, "Neg", "x x", "t", NULL);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_node, "Neg has 2 inputs");
    graph = relu_graph();
    onnx_add_node(&graph, "Add", "x", "t", NULL);
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_node, "Add has 1 inputs");
}

static void test_versions(void **state)
{
    (void)state;
    Pb graph = relu_graph(), model = onnx_model(&graph, 9999), none = {.len = 0};
    refused(&model, NULL, DIAG_onnx_model, "9999");
    pb_int(&none, 1, 8);
    pb_sub(&none, 7, &graph);
    refused(&none, NULL, DIAG_onnx_model, "opset_import");

    graph = relu_graph(); /* all that lacks is reported at once: unknown, too new, of a foreign domain */
    onnx_add_node(&graph, "Frob1", "x", "a", NULL);
    onnx_add_node(&graph, "Gelu", "x", "b", NULL);
    model = onnx_model(&graph, 13);
    refused(&model, NULL, DIAG_onnx_unsupported, "Frob1: there is no such operator");
    refused(&model, NULL, DIAG_onnx_unsupported, "Gelu: it exists from operator set 20 on");

    Context *ctx = ctx_create(NULL); /* a domain that no node uses is fine */
    graph = relu_graph();
    model = onnx_model(&graph, 17);
    Pb other = onnx_opset("com.example", 3);
    pb_sub(&model, 8, &other);
    assert_non_null(load(ctx, &model, NULL));
    ctx_destroy(ctx);
}

/* Softmax before 13 folds all axes from `axis` on; after, one. */
static void test_softmax_changed_at_13(void **state)
{
    (void)state;
    static const int64_t dims[] = {2, 3, 4};
    for (int64_t opset = 12; opset <= 13; opset++) {
        Context *ctx = ctx_create(NULL);
        Pb graph = {.len = 0}, attrs = {.len = 0};
        onnx_attr_int(&attrs, "axis", 1);
        onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 3, dims);
        onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 3, dims);
        onnx_add_node(&graph, "Softmax", "x", "y", &attrs);
        Pb model = onnx_model(&graph, opset);
        Module *m = load(ctx, &model, NULL);
        assert_non_null(m);
        const int64_t *axes;
        assert_int_equal(node_ints(func_out(m->funcs.data[0], 0)->def, AN_axes, &axes), opset == 12 ? 2 : 1);
        ctx_destroy(ctx);
    }
}

/* Pow by a constant 2 or 3 is a product; by others, and where the exponent has more axes than the base, it stays. */
static void test_small_powers(void **state)
{
    (void)state;
    static const struct {
        float exponent;
        uint32_t rank; /* of the exponent */
        Op op;
    } powers[] = {{2, 0, OP_mul}, {3, 2, OP_mul}, {2, 3, OP_pow}, {4, 0, OP_pow}, {0.5f, 0, OP_pow}, {-1, 0, OP_pow}};
    static const int64_t ones[] = {1, 1, 1};
    static const int64_t out_dims[] = {1, 2, 3};
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
        Context *ctx = ctx_create(NULL);
        Pb graph = {.len = 0};
        bool wider = powers[i].rank == 3;
        onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, two_three);
        onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, wider ? 3 : 2, wider ? out_dims : two_three);
        onnx_add_f32(&graph, "e", powers[i].rank, ones, &powers[i].exponent);
        onnx_add_node(&graph, "Pow", "x e", "y", NULL);
        Module *m = onnx_load(ctx, &graph, 17);
        assert_non_null(m);
        const Node *y = func_out(m->funcs.data[0], 0)->def;
        assert_int_equal(y->op, powers[i].op);
        if (powers[i].exponent == 3)
            assert_int_equal(y->in[0].val->def->op, OP_mul);
        ctx_destroy(ctx);
    }
}

static void test_symbols(void **state)
{
    (void)state;
    static const int64_t n_three[] = {-1, 3}, n_one[] = {-1, 1}, five[] = {5, 3}, six[] = {6, 1};
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, n_three);
    onnx_add_value(&graph, GRAPH_IN, "z", ONNX_F32, 2, n_one);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, n_three);
    onnx_add_node(&graph, "Add", "x z", "y", NULL);
    Pb model = onnx_model(&graph, 17);
    Context *ctx = ctx_create(NULL);
    Module *m = load(ctx, &model, NULL);
    assert_non_null(m);
    assert_non_null(module_find_sym(m, str_intern(ctx, "N")));
    DimBinding four = {.name = str_intern(ctx, "N"), .lo = 4, .hi = 4};
    ImportOptions options = {.dims = &four, .n_dims = 1};
    m = load(ctx, &model, &options);
    assert_non_null(m);
    assert_int_equal(type_dim(func_out(m->funcs.data[0], 0)->type, 0), 4);
    ShapeBinding shape = {str_intern(ctx, "x"), 2, five}; /* binds N for z too */
    options = (ImportOptions){.shapes = &shape, .n_shapes = 1};
    m = load(ctx, &model, &options);
    assert_non_null(m);
    assert_int_equal(type_dim(m->funcs.data[0]->body->params.data[1]->type, 0), 5);
    ctx_destroy(ctx);
    ctx = ctx_create(NULL);
    ShapeBinding both[2] = {{str_intern(ctx, "x"), 2, five}, {str_intern(ctx, "z"), 2, six}};
    options = (ImportOptions){.shapes = both, .n_shapes = 2};
    assert_null(load(ctx, &model, &options));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_onnx_value);
    ctx_destroy(ctx);
}

/* A shape that is an input is refused by a row of its own, and fine once the value is given. */
static void test_values_of_inputs(void **state)
{
    (void)state;
    static const int64_t two[] = {2};
    static int64_t shape[] = {3, 2};
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, two_three);
    onnx_add_value(&graph, GRAPH_IN, "s", ONNX_S64, 1, two);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, two_three);
    onnx_add_node(&graph, "Reshape", "x s", "y", NULL);
    Pb model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_unknown, "Reshape");
    Context *ctx = ctx_create(NULL);
    Tensor value = {.dtype = DT_S64, .store = DT_S64, .rank = 1, .dim = {2}, .count = 2, .data = shape};
    ValueBinding binding = {str_intern(ctx, "s"), &value};
    ImportOptions options = {.values = &binding, .n_values = 1};
    Module *m = load(ctx, &model, &options);
    assert_non_null(m);
    assert_int_equal(m->funcs.data[0]->body->params.len, 2);
    assert_int_equal(type_dim(func_out(m->funcs.data[0], 0)->type, 0), 3);
    ctx_destroy(ctx);
}

/* An initializer that is an input too is a constant, unless named. */
static void test_overridable(void **state)
{
    (void)state;
    static const float raw[6];
    Pb graph = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, two_three);
    onnx_add_value(&graph, GRAPH_IN, "w", ONNX_F32, 2, two_three);
    onnx_add_tensor(&graph, "w", ONNX_F32, 2, two_three, raw, sizeof raw);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, two_three);
    onnx_add_node(&graph, "Add", "x w", "y", NULL);
    Pb model = onnx_model(&graph, 17);
    Context *ctx = ctx_create(NULL);
    Module *m = load(ctx, &model, NULL);
    assert_int_equal(m->funcs.data[0]->body->params.len, 1);
    Str name = str_intern(ctx, "w");
    ImportOptions options = {.overridable = &name, .n_overridable = 1};
    m = load(ctx, &model, &options);
    assert_int_equal(m->funcs.data[0]->body->params.len, 2);
    ctx_destroy(ctx);
}

static void test_small_file_cannot_ask_for_much(void **state)
{
    (void)state;
    static const int64_t shape[] = {1 << 20, 1 << 20}, two[] = {2};
    Pb graph = {.len = 0};
    onnx_add_tensor(&graph, "s", ONNX_S64, 1, two, shape, sizeof shape);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, two_three);
    onnx_add_node(&graph, "ConstantOfShape", "s", "y", NULL);
    Pb model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_node, "--max-bytes");
}

/* ---- sub-graphs ------------------------------------------------------------------------------------------------------------------- */

/* if c: y = x + w else y = x - w, where w is a weight: x is captured, w is made again inside. */
static Pb if_graph(const char *then_out)
{
    static const float raw[6] = {1, 1, 1, 1, 1, 1};
    Pb graph = {.len = 0}, branch[2] = {{.len = 0}, {.len = 0}}, attrs = {.len = 0};
    for (int i = 0; i < 2; i++) {
        onnx_add_node(&branch[i], i ? "Sub" : "Add", "x w", i ? "t1" : then_out, NULL);
        onnx_add_value(&branch[i], GRAPH_OUT, i ? "t1" : then_out, ONNX_F32, 2, two_three);
        onnx_attr_graph(&attrs, i ? "else_branch" : "then_branch", &branch[i]);
    }
    onnx_add_value(&graph, GRAPH_IN, "c", ONNX_BOOL, 0, NULL);
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 2, two_three);
    onnx_add_tensor(&graph, "w", ONNX_F32, 2, two_three, raw, sizeof raw);
    onnx_add_node(&graph, "If", "c", "y", &attrs);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 2, two_three);
    return graph;
}

static void test_if_captures(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    Pb graph = if_graph("t0"), model = onnx_model(&graph, 17);
    Module *m = load(ctx, &model, NULL);
    assert_non_null(m);
    assert_true(ir_verify(m) && op_verify(m));
    Node *node = func_out(m->funcs.data[0], 0)->def;
    assert_int_equal(node->op, OP_if);
    assert_int_equal(node->n_in, 2); /* the condition and x */
    uint8_t yes = 1;
    float x[6] = {1, 2, 3, 4, 5, 6};
    Tensor cond = {.dtype = DT_BOOL, .store = DT_BOOL, .count = 1, .data = &yes};
    Tensor data = {.dtype = DT_F32, .store = DT_F32, .rank = 2, .dim = {2, 3}, .count = 6, .data = x}, *out;
    Arena *arena = arena_create(ctx);
    for (yes = 0; yes < 2; yes++) {
        assert_true(eval_func(ctx, arena, EVAL_REF32, m->funcs.data[0], (Tensor *[]){&cond, &data}, &out, NULL));
        assert_true(((float *)out->data)[5] == (yes ? 7.0f : 5.0f));
    }
    ctx_destroy(ctx);
    graph = if_graph("x"); /* a branch may not define a name that it sees */
    model = onnx_model(&graph, 17);
    refused(&model, NULL, DIAG_onnx_value, "'x'");
}

/* ---- batch norm ---------------------------------------------------------------------------------------------------------------------- */

enum { CHANNELS = 4 };

/* x [1,2,5,5] -> Conv 3x3 -> BatchNormalization -> y; also_conv: the convolution's own value is an output. */
static Pb conv_bn(bool also_conv)
{
    static const int64_t in[] = {1, 2, 5, 5}, w_dims[] = {CHANNELS, 2, 3, 3}, out[] = {1, CHANNELS, 3, 3}, c[] = {CHANNELS};
    static const char *const names[5] = {"bias", "scale", "beta", "mean", "var"};
    float w[CHANNELS * 18], v[CHANNELS];
    Pb graph = {.len = 0};
    for (int i = 0; i < CHANNELS * 18; i++)
        w[i] = (float)(i % 7) / 5 - 0.5f;
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 4, in);
    onnx_add_tensor(&graph, "w", ONNX_F32, 4, w_dims, w, sizeof w);
    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < CHANNELS; i++)
            v[i] = 0.3f + 0.17f * (float)(i + k);
        onnx_add_tensor(&graph, names[k], ONNX_F32, 1, c, v, sizeof v);
    }
    onnx_add_node(&graph, "Conv", "x w bias", "t", NULL);
    onnx_add_node(&graph, "BatchNormalization", "t scale beta mean var", "y", NULL);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 4, out);
    if (also_conv)
        onnx_add_value(&graph, GRAPH_OUT, "t", ONNX_F32, 4, out);
    return graph;
}

static uint32_t count_op(const Module *m, Op op)
{
    uint32_t n = 0;
    REGION_FOREACH(node, m->funcs.data[0]->body)
        n += node->op == op;
    return n;
}

static void run_conv_bn(Context *ctx, const Module *m, float *y)
{
    float x[50];
    for (int i = 0; i < 50; i++)
        x[i] = sinf((float)i);
    Tensor data = {.dtype = DT_F32, .store = DT_F32, .rank = 4, .dim = {1, 2, 5, 5}, .count = 50, .data = x}, *out[2];
    assert_true(eval_func(ctx, ctx_arena(ctx), EVAL_REF32, m->funcs.data[0], (Tensor *[]){&data}, out, NULL));
    memcpy(y, out[0]->data, CHANNELS * 9 * sizeof *y);
}

static void test_batch_norm_folds_on_its_edge(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    float folded[CHANNELS * 9], plain[CHANNELS * 9], tapped[CHANNELS * 9];
    Pb graph = conv_bn(false), model = onnx_model(&graph, 17), tap_graph = conv_bn(true), tap = onnx_model(&tap_graph, 17);
    ImportOptions strict = {.strict = true};
    Module *m = load(ctx, &model, NULL);
    assert_int_equal(count_op(m, OP_batch_norm), 0);
    assert_int_equal(count_op(m, OP_conv), 1);
    run_conv_bn(ctx, m, folded);
    m = load(ctx, &model, &strict);
    assert_int_equal(count_op(m, OP_batch_norm), 1);
    run_conv_bn(ctx, m, plain);
    for (int i = 0; i < CHANNELS * 9; i++)
        assert_true(fabsf(folded[i] - plain[i]) <= 1e-5f + 1e-5f * fabsf(plain[i]));
    m = load(ctx, &tap, NULL); /* a tapped value changes no bit of the other */
    assert_int_equal(count_op(m, OP_conv), 2);
    run_conv_bn(ctx, m, tapped);
    assert_memory_equal(folded, tapped, sizeof folded);
    ctx_destroy(ctx);
}

/* BatchNormalization-15 in training mode on [3, 2, 2]: Y by the statistics of the batch, and the running ones. */
static void test_batch_norm_of_the_batch(void **state)
{
    (void)state;
    const int64_t dims[] = {3, 2, 2}, channels = 2;
    const float scale[] = {2, -1}, bias[] = {0.5f, 3}, mean[] = {1, -2}, var[] = {4, 0.25f}, momentum = 0.75f;
    float x[12];
    Pb graph = {.len = 0}, attrs = {.len = 0};
    onnx_add_value(&graph, GRAPH_IN, "x", ONNX_F32, 3, dims);
    onnx_add_f32(&graph, "scale", 1, &channels, scale);
    onnx_add_f32(&graph, "bias", 1, &channels, bias);
    onnx_add_f32(&graph, "mean", 1, &channels, mean);
    onnx_add_f32(&graph, "var", 1, &channels, var);
    onnx_attr_int(&attrs, "training_mode", 1);
    onnx_attr_f32(&attrs, "momentum", momentum);
    onnx_add_node(&graph, "BatchNormalization", "x scale bias mean var", "y new_mean new_var", &attrs);
    onnx_add_value(&graph, GRAPH_OUT, "y", ONNX_F32, 3, dims);
    onnx_add_value(&graph, GRAPH_OUT, "new_mean", ONNX_F32, 1, &channels);
    onnx_add_value(&graph, GRAPH_OUT, "new_var", ONNX_F32, 1, &channels);
    for (int i = 0; i < 12; i++)
        x[i] = sinf((float)i);
    Context *ctx = ctx_create(NULL);
    Module *m = onnx_load(ctx, &graph, 15);
    Tensor *out[3];
    assert_non_null(m);
    onnx_run(ctx, m, (const void *[]){x}, out);
    for (int c = 0; c < 2; c++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < 12; i++)
            sum += i / 2 % 2 == c ? x[i] : 0;
        for (int i = 0; i < 12; i++)
            squares += i / 2 % 2 == c ? (x[i] - sum / 6) * (x[i] - sum / 6) : 0;
        for (int i = 0; i < 12; i++)
            if (i / 2 % 2 == c)
                assert_true(fabs(((float *)out[0]->data)[i] -
                                 ((x[i] - sum / 6) / sqrt(squares / 6 + 1e-5) * scale[c] + bias[c])) < 1e-5);
        assert_true(fabs(((float *)out[1]->data)[c] - (mean[c] * 0.75 + sum / 6 * 0.25)) < 1e-6);
        assert_true(fabs(((float *)out[2]->data)[c] - (var[c] * 0.75 + squares / 6 * 0.25)) < 1e-6);
    }
    ctx_destroy(ctx);
    onnx_refused(&graph, 9, "training_mode"); /* had no such attribute */
}

/* ---- memory -------------------------------------------------------------------------------------------------------------------------------- */

typedef struct Failing {
    long left, live;
} Failing;
static void *failing_alloc(void *user, size_t bytes)
{
    Failing *f = user;
    void *p = f->left-- > 0 ? malloc(bytes) : NULL;
    f->live += p != NULL;
    return p;
}
static void failing_release(void *user, void *pointer)
{
    ((Failing *)user)->live -= pointer != NULL;
    free(pointer);
}
typedef struct Import {
    Context *ctx;
    const Pb *model;
    Module *module;
} Import;
static void import_body(void *arg)
{
    Import *i = arg;
    i->module = load(i->ctx, i->model, NULL);
}

/* Wherever memory ends, the import unwinds and everything is released. */
static void test_allocation_failures(void **state)
{
    (void)state;
    Pb graph = if_graph("t0"), model = onnx_model(&graph, 17);
    bool done = false;
    for (long n = 0; n < 3000 && !done; n++) {
        Failing failing = {.left = n};
        Context *ctx = ctx_create(&(Allocator){failing_alloc, failing_release, &failing});
        if (!ctx)
            continue;
        Import import = {ctx, &model, NULL};
        CtxStatus status = ctx_protect(ctx, import_body, &import);
        assert_true(status == CTX_NOMEM || (status == CTX_OK && import.module));
        done = status == CTX_OK;
        ctx_destroy(ctx);
        assert_int_equal(failing.live, 0);
    }
    assert_true(done);
}

static void test_declared(void **state)
{
    (void)state;
    static const int64_t dims[] = {-1, 3, -2};
    Pb graph = relu_graph();
    onnx_add_value(&graph, GRAPH_IN, "z", ONNX_S64, 3, dims);
    Pb model = onnx_model(&graph, 17);
    Context *ctx = ctx_create(NULL);
    assert_true(file_write_all(ctx, "declared.onnx", model.data, model.len));
    FrontInfo info;
    assert_true(front_onnx_info(ctx, ctx_arena(ctx), "declared.onnx", &info));
    assert_int_equal(info.n_in, 2);
    assert_int_equal(info.in[1].dtype, DT_S64);
    assert_string_equal(info.in[1].dim[0].symbol, "N");
    assert_int_equal(info.in[1].dim[0].size, -1);
    assert_int_equal(info.in[1].dim[1].size, 3);
    assert_non_null(front_load(ctx, "declared.onnx", &no_options));
    assert_null(front_load(ctx, "declared.txt", NULL));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_front_format);
    remove("declared.onnx");
    ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relu_is_one_node),
        cmocka_unit_test(test_every_prefix_is_refused),
        cmocka_unit_test(test_wire_refusals),
        cmocka_unit_test(test_unknown_fields_and_padded_varints_are_fine),
        cmocka_unit_test(test_packed_and_unpacked_dims_are_equal),
        cmocka_unit_test(test_graph_rules),
        cmocka_unit_test(test_attributes_and_counts),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_softmax_changed_at_13),
        cmocka_unit_test(test_small_powers),
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_values_of_inputs),
        cmocka_unit_test(test_overridable),
        cmocka_unit_test(test_small_file_cannot_ask_for_much),
        cmocka_unit_test(test_if_captures),
        cmocka_unit_test(test_batch_norm_folds_on_its_edge),
        cmocka_unit_test(test_batch_norm_of_the_batch),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_declared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
