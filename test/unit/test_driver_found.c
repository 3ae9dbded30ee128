/* SPDX-License-Identifier: Apache-2.0
 *
 * ONNX operators whose results have as many elements as values say: against results written down here, in the evaluator, eager and
 * compiled, with the sizes that the run finds.
 */
#include "support/onnx_run.h"

#include "cgen/cgen.h"
#include "support/artifact_run.h"
#include "support/tensors.h"

#include <math.h>

enum { EAGER = -1 };

/* One input (x) and the expected value of one output, with its shape; in all engines. */
static void expect(const Pb *graph, int64_t opset, const void *input, uint32_t rank, const int64_t *dims, const void *want)
{
    const TargetInfo *host = cgen_host_target();
    for (int level = EAGER; level <= 2; level++) {
        Context *ctx = ctx_create(NULL);
        Arena *arena = ctx_arena(ctx);
        Module *m = onnx_load(ctx, graph, opset);
        if (!m)
            fail_msg("%s", diags_text(ctx));
        Tensor *out = NULL, *in = ARENA_NEW(arena, Tensor);
        const Type *type = m->funcs.data[0]->body->params.data[0]->type;
        *in = (Tensor){.dtype = type->dtype, .store = type->dtype, .rank = type->rank, .data = (void *)(uintptr_t)input};
        for (uint32_t a = 0; a < type->rank; a++)
            in->dim[a] = type_dim(type, a);
        assert_true(type_count(type, &in->count));
        onnx_run(ctx, m, &input, &out);
        assert_int_equal(out->rank, rank);
        for (uint32_t a = 0; a < rank; a++)
            assert_int_equal(out->dim[a], dims[a]);
        uint64_t at = 0;
        assert_true(tensor_same_bits(out->dtype, out->data, want, out->count, &at));
        DriverOptions options = {.pass = {.opt_level = level, .eager = level == EAGER, .limit = -1, .verify_each = true},
                                 .target = {host}, .n_targets = 1};
        Program *p = host ? driver_compile(ctx, m, m->funcs.data[0], &options) : NULL;
        EagerPlan *plan = NULL;
        if (host && (!p || (level == EAGER ? !(plan = driver_write_eager(p, arena, "found.so")) : !driver_write(p, "found.so"))))
            fail_msg("-O%d: %s", level, diags_text(ctx));
        ArtifactCase c = {.arena = arena, .path = "found.so", .threads = 2, .in = &in, .want = &out, .n_in = 1, .n_out = 1};
        const char *wrong = !host ? NULL : plan ? artifact_eager_wrong(&c, plan) : artifact_wrong(&c);
        if (wrong)
            fail_msg("-O%d: %s", level, wrong);
        assert_int_equal(diag_count(ctx), 0); /* no size needs a bound that is not known */
        driver_destroy(p);
        ctx_destroy(ctx);
    }
}

static void add_input(Pb *graph, int dtype, uint32_t rank, const int64_t *dims) { onnx_add_value(graph, GRAPH_IN, "x", dtype, rank, dims); }
static void add_output(Pb *graph, int dtype, uint32_t rank)
{
    static const int64_t unknown[4] = {-2, -2, -2, -2};
    onnx_add_value(graph, GRAPH_OUT, "y", dtype, rank, unknown);
}
#define DIMS(...) (const int64_t[]){__VA_ARGS__}

/* ---- NonZero, Compress ------------------------------------------------------------------------------------------------------- */

static void test_non_zero(void **state)
{
    (void)state;
    Pb graph = {.len = 0};
    add_input(&graph, ONNX_F32, 2, DIMS(2, 3));
    onnx_add_node(&graph, "NonZero", "x", "y", NULL);
    add_output(&graph, ONNX_S64, 2);
    expect(&graph, 13, (const float[]){0, NAN, -0.0f, 1e-45f, 0, -3}, 2, DIMS(2, 3), (const int64_t[]){0, 1, 1, 1, 0, 2});
    expect(&graph, 9, (const float[6]){0}, 2, DIMS(2, 0), NULL);
    graph = (Pb){.len = 0};
    add_input(&graph, ONNX_S64, 0, NULL);
    onnx_add_node(&graph, "NonZero", "x", "y", NULL);
    add_output(&graph, ONNX_S64, 2);
    expect(&graph, 13, (const int64_t[]){7}, 2, DIMS(0, 1), NULL);
    graph = (Pb){.len = 0};
    add_input(&graph, ONNX_BOOL, 3, DIMS(2, 0, 3));
    onnx_add_node(&graph, "NonZero", "x", "y", NULL);
    add_output(&graph, ONNX_S64, 2);
    expect(&graph, 13, "", 2, DIMS(3, 0), NULL);
}

static void test_other_types(void **state)
{
    (void)state;
    static const char *const ops[2] = {"NonZero", "Unique"};
    Pb graph = {.len = 0};
    onnx_add_tensor(&graph, "small", ONNX_U4, 1, DIMS(4), (const uint8_t[]){0x0f, 0xf3}, 2); /* 15 0 3 15 */
    add_input(&graph, ONNX_BOOL, 1, DIMS(4));
    onnx_add_node(&graph, "Compress", "small x", "some", NULL);
    onnx_add_node(&graph, "Unique", "some", "- y", NULL);
    add_output(&graph, ONNX_S64, 1);
    Context *ctx = ctx_create(NULL);
    Module *m = onnx_load(ctx, &graph, 21);
    Tensor *out;
    assert_non_null(m);
    onnx_run(ctx, m, (const void *[]){(const uint8_t[]){1, 1, 0, 1}}, &out);
    assert_true(out->count == 2 && ((int64_t *)out->data)[0] == 1 && ((int64_t *)out->data)[1] == 0);
    ctx_destroy(ctx);
    for (int i = 0; i < 2; i++) {
        graph = (Pb){.len = 0};
        add_input(&graph, ONNX_C64, 1, DIMS(4));
        onnx_add_node(&graph, ops[i], "x", "y", NULL);
        add_output(&graph, i ? ONNX_C64 : ONNX_S64, 2 - i);
        onnx_refused(&graph, 13, "supported are numbers and bool");
    }
}

/* What is known when the graph is built is a number, and may decide a shape. */
static void test_known(void **state)
{
    (void)state;
    Pb graph = {.len = 0};
    add_input(&graph, ONNX_F32, 1, DIMS(6));
    onnx_add_tensor(&graph, "mask", ONNX_BOOL, 1, DIMS(5), (const uint8_t[]){0, 0, 1, 1, 0}, 5);
    onnx_add_node(&graph, "NonZero", "mask", "at", NULL);
    onnx_add_node(&graph, "Squeeze", "at", "shape", NULL);
    onnx_add_node(&graph, "Reshape", "x shape", "y", NULL);
    add_output(&graph, ONNX_F32, 2);
    const float x[6] = {1, 2, 3, 4, 5, 6};
    expect(&graph, 13, x, 2, DIMS(2, 3), x);
}

/* y = x[Range(0, size of NonZero(x > 2))] ++ x at those places */
static void test_used(void **state)
{
    (void)state;
    Pb graph = {.len = 0}, axis = {.len = 0};
    const float two = 2;
    const int64_t number[3] = {0, 1, 2}, one = 1;
    add_input(&graph, ONNX_F32, 1, DIMS(5));
    onnx_add_tensor(&graph, "two", ONNX_F32, 0, NULL, &two, 4);
    onnx_add_tensor(&graph, "zero", ONNX_S64, 0, NULL, &number[0], 8);
    onnx_add_tensor(&graph, "one", ONNX_S64, 0, NULL, &number[1], 8);
    onnx_add_tensor(&graph, "ones", ONNX_S64, 1, &one, &number[1], 8);
    onnx_attr_int(&axis, "axis", 0);
    onnx_add_node(&graph, "Greater", "x two", "big", NULL);
    onnx_add_node(&graph, "NonZero", "big", "at", NULL);
    onnx_add_node(&graph, "Shape", "at", "sizes", NULL);
    onnx_add_node(&graph, "Gather", "sizes one", "count", NULL);
    onnx_add_node(&graph, "Range", "zero count one", "first", NULL);
    onnx_add_node(&graph, "Gather", "x first", "a", NULL);
    onnx_add_node(&graph, "Transpose", "at", "rows", NULL);
    onnx_add_node(&graph, "GatherND", "x rows", "b", NULL);
    onnx_add_node(&graph, "Gather", "b first", "c", NULL); /* of an axis that may be empty */
    onnx_add_node(&graph, "Concat", "a c", "y", &axis);
    add_output(&graph, ONNX_F32, 1);
    expect(&graph, 13, (const float[]){1, 3, 2, NAN, 4}, 1, DIMS(4), (const float[]){1, 3, 3, 4});
    expect(&graph, 13, (const float[]){0, 0, 0, 0, 0}, 1, DIMS(0), NULL);
}

/* What nobody needs is not counted. */
static void test_unused(void **state)
{
    (void)state;
    const TargetInfo *host = cgen_host_target();
    Pb graph = {.len = 0};
    add_input(&graph, ONNX_F32, 1, DIMS(5));
    onnx_add_node(&graph, "NonZero", "x", "at", NULL);
    onnx_add_node(&graph, "Neg", "x", "y", NULL);
    add_output(&graph, ONNX_F32, 1);
    Context *ctx = ctx_create(NULL);
    Module *m = onnx_load(ctx, &graph, 13);
    assert_non_null(m);
    DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {host}, .n_targets = 1};
    Program *p = host ? driver_compile(ctx, m, m->funcs.data[0], &options) : NULL;
    assert_true(!host || (p && p->variant[0].schedule->steps.len == 0 && p->variant[0].schedule->groups.len == 1));
    driver_destroy(p);
    ctx_destroy(ctx);
}

static void test_compress(void **state)
{
    (void)state;
    const float x[6] = {1, 2, 3, 4, 5, 6};
    Pb graph = {.len = 0}, axis = {.len = 0};
    onnx_add_tensor(&graph, "data", ONNX_F32, 2, DIMS(3, 2), x, sizeof x);
    add_input(&graph, ONNX_BOOL, 1, DIMS(4)); /* longer than the axis */
    onnx_attr_int(&axis, "axis", -2);
    onnx_add_node(&graph, "Compress", "data x", "y", &axis);
    add_output(&graph, ONNX_F32, 2);
    expect(&graph, 11, (const uint8_t[]){0, 1, 1, 1}, 2, DIMS(2, 2), (const float[]){3, 4, 5, 6});
    graph = (Pb){.len = 0};
    onnx_add_tensor(&graph, "data", ONNX_F32, 2, DIMS(3, 2), x, sizeof x);
    add_input(&graph, ONNX_BOOL, 1, DIMS(4));
    onnx_add_node(&graph, "Compress", "data x", "y", NULL); /* flat, and shorter */
    add_output(&graph, ONNX_F32, 1);
    expect(&graph, 9, (const uint8_t[]){1, 0, 0, 1}, 1, DIMS(2), (const float[]){1, 4});
    onnx_attr_int(&axis, "axis", 2);
    graph = (Pb){.len = 0};
    onnx_add_tensor(&graph, "data", ONNX_F32, 2, DIMS(3, 2), x, sizeof x);
    add_input(&graph, ONNX_F32, 1, DIMS(4));
    onnx_add_node(&graph, "Compress", "data x", "y", NULL);
    add_output(&graph, ONNX_F32, 1);
    onnx_refused(&graph, 11, "the condition is bool[n]");
}

/* ---- NonMaxSuppression --------------------------------------------------------------------------------------------------------- */

static Pb nms_graph(const float *boxes, int64_t limit, float overlap, const float *least, bool center)
{
    Pb graph = {.len = 0}, attrs = {.len = 0};
    onnx_add_tensor(&graph, "boxes", ONNX_F32, 3, DIMS(1, 4, 4), boxes, 64);
    add_input(&graph, ONNX_F32, 3, DIMS(1, 2, 4));
    onnx_add_tensor(&graph, "most", ONNX_S64, 1, DIMS(1), &limit, 8);
    onnx_add_tensor(&graph, "overlap", ONNX_F32, 0, NULL, &overlap, 4);
    if (least)
        onnx_add_tensor(&graph, "least", ONNX_F32, 1, DIMS(1), least, 4);
    onnx_attr_int(&attrs, "center_point_box", center);
    onnx_add_node(&graph, "NonMaxSuppression", least ? "boxes x most overlap least" : "boxes x most overlap", "y", &attrs);
    add_output(&graph, ONNX_S64, 2);
    return graph;
}

static void test_nms(void **state)
{
    (void)state;
    /* 0 and 1 overlap by 3/5 of their union, 2 is 0 with its corners exchanged, 3 is apart */
    const float boxes[16] = {0, 0, 1, 4, 0, 1, 1, 5, 1, 4, 0, 0, 5, 5, 6, 6}, half = 0.5f;
    const float centers[16] = {2, 0.5f, 4, 1, 3, 0.5f, 4, 1, 2, 0.5f, 4, 1, 5.5f, 5.5f, 1, 1};
    const float scores[8] = {0.7f, 0.9f, 0.7f, 0.1f, 0.5f, -INFINITY, 0.5f, 0.8f};
    for (int center = 0; center <= 1; center++) {
        const float *b = center ? centers : boxes;
        Pb graph = nms_graph(b, 9, 0.5f, NULL, center);
        expect(&graph, 11, scores, 2, DIMS(4, 3), (const int64_t[]){0, 0, 1, 0, 0, 3, 0, 1, 3, 0, 1, 0});
        graph = nms_graph(b, 9, 0.7f, NULL, center); /* of equal scores the lower index is first; -inf is a score */
        expect(&graph, 10, scores, 2, DIMS(6, 3), (const int64_t[]){0, 0, 1, 0, 0, 0, 0, 0, 3, 0, 1, 3, 0, 1, 0, 0, 1, 1});
        graph = nms_graph(b, 1, 0.5f, NULL, center);
        expect(&graph, 11, scores, 2, DIMS(2, 3), (const int64_t[]){0, 0, 1, 0, 1, 3});
        graph = nms_graph(b, 9, 0.7f, &half, center); /* above the threshold, not at it; NaN is not */
        const float close[8] = {0.7f, 0.5f, 0.7f, NAN, 0.5f, -1, 0.4f, 0.6f};
        expect(&graph, 11, close, 2, DIMS(2, 3), (const int64_t[]){0, 0, 0, 0, 1, 3});
        expect(&graph, 11, (const float[8]){0}, 2, DIMS(0, 3), NULL);
        graph = nms_graph(b, -1, 0.5f, NULL, center);
        expect(&graph, 11, scores, 2, DIMS(0, 3), NULL);
    }
    Pb graph = {.len = 0};
    add_input(&graph, ONNX_F32, 3, DIMS(1, 2, 4));
    onnx_add_node(&graph, "NonMaxSuppression", "x x", "y", NULL);
    add_output(&graph, ONNX_S64, 2);
    onnx_refused(&graph, 11, "takes boxes f32[batches,boxes,4]");
}

/* Boxes that were found, maybe none: y = kept of the boxes whose score is above 0.3 */
static void test_nms_of_found(void **state)
{
    (void)state;
    const float boxes[16] = {0, 0, 1, 4, 0, 1, 1, 5, 1, 4, 0, 0, 5, 5, 6, 6}, third = 0.3f, half = 0.5f;
    const int64_t most = INT64_MAX, shape[3] = {1, 1, -1}, flat = -1, zero = 0;
    Pb graph = {.len = 0}, axis = {.len = 0};
    onnx_attr_int(&axis, "axis", 1);
    add_input(&graph, ONNX_F32, 1, DIMS(4));
    onnx_add_tensor(&graph, "boxes", ONNX_F32, 3, DIMS(1, 4, 4), boxes, 64);
    onnx_add_tensor(&graph, "third", ONNX_F32, 0, NULL, &third, 4);
    onnx_add_tensor(&graph, "half", ONNX_F32, 0, NULL, &half, 4);
    onnx_add_tensor(&graph, "most", ONNX_S64, 1, DIMS(1), &most, 8);
    onnx_add_tensor(&graph, "shape", ONNX_S64, 1, DIMS(3), shape, sizeof shape);
    onnx_add_tensor(&graph, "flat", ONNX_S64, 1, DIMS(1), &flat, 8);
    onnx_add_tensor(&graph, "none", ONNX_S64, 1, DIMS(1), &zero, 8);
    onnx_add_node(&graph, "Greater", "x third", "big", NULL);
    onnx_add_node(&graph, "NonZero", "big", "at", NULL);
    onnx_add_node(&graph, "Reshape", "at flat", "places", NULL);
    onnx_add_node(&graph, "Gather", "boxes places", "some", &axis);
    onnx_add_node(&graph, "Gather", "x places", "scores", NULL);
    onnx_add_node(&graph, "Reshape", "scores shape", "rated", NULL);
    onnx_add_node(&graph, "NonMaxSuppression", "some rated most half", "y", NULL);
    add_output(&graph, ONNX_S64, 2);
    expect(&graph, 13, (const float[]){0.1f, 0.5f, 0.6f, 0.7f}, 2, DIMS(2, 3), (const int64_t[]){0, 0, 2, 0, 0, 1});
    expect(&graph, 13, (const float[]){0.1f, 0.2f, 0.3f, 0}, 2, DIMS(0, 3), NULL);
}

/* ---- Unique, TopK of what was found ---------------------------------------------------------------------------------------------- */

static void unique(const char *outputs, int64_t sorted, const int64_t *axis, int dtype, uint32_t rank, const int64_t *dims, int y,
                   Pb *graph)
{
    Pb attrs = {.len = 0};
    *graph = (Pb){.len = 0};
    onnx_attr_int(&attrs, "sorted", sorted);
    if (axis)
        onnx_attr_int(&attrs, "axis", *axis);
    add_input(graph, dtype, rank, dims);
    onnx_add_node(graph, "Unique", "x", outputs, &attrs);
    add_output(graph, y, y == ONNX_S64 ? 1 : axis ? rank : 1);
}

static void test_unique(void **state)
{
    (void)state;
    static const char *const outputs[4] = {"y", "- y", "- - y", "- - - y"};
    const float x[7] = {2, NAN, -0.0f, 2, 0, NAN, -INFINITY};
    const float rows[8] = {1, 2, 0, 5, 1, 2, 0, 4};
    const int64_t zero = 0, last = -1;
    static const int64_t want[2][4][7] = {{{0}, {0, 1, 2, 6}, {0, 1, 2, 0, 2, 1, 3}, {2, 2, 2, 1}}, /* by first occurrence */
                                          {{0}, {6, 2, 0, 1}, {2, 3, 1, 2, 1, 3, 0}, {1, 2, 2, 2}}};
    Pb graph;
    for (int sorted = 0; sorted <= 1; sorted++)
        for (int i = 1; i < 4; i++) {
            unique(outputs[i], sorted, NULL, ONNX_F32, 1, DIMS(7), ONNX_S64, &graph);
            expect(&graph, 11, x, 1, DIMS(i == 2 ? 7 : 4), want[sorted][i]);
        }
    unique("y", 0, NULL, ONNX_F32, 1, DIMS(7), ONNX_F32, &graph);
    expect(&graph, 11, x, 1, DIMS(4), (const float[]){2, NAN, -0.0f, -INFINITY}); /* the first of each */
    unique("y", 1, &zero, ONNX_F32, 2, DIMS(4, 2), ONNX_F32, &graph);
    expect(&graph, 11, rows, 2, DIMS(3, 2), (const float[]){0, 4, 0, 5, 1, 2});
    unique("y", 0, &last, ONNX_F32, 2, DIMS(2, 4), ONNX_F32, &graph); /* columns 1 1, 2 2, 0 0, 5 4 */
    expect(&graph, 11, rows, 2, DIMS(2, 4), rows);
    unique("y", 1, NULL, ONNX_BOOL, 1, DIMS(3), ONNX_BOOL, &graph);
    expect(&graph, 11, (const uint8_t[]){1, 0, 1}, 1, DIMS(2), (const uint8_t[]){0, 1});
    unique("- - - y", 1, NULL, ONNX_S64, 1, DIMS(0), ONNX_S64, &graph);
    expect(&graph, 11, "", 1, DIMS(0), NULL);
}

/* The min(3, n) largest or smallest of n elements that are not 0, and the number of different ones of them. */
static void test_of_found(void **state)
{
    (void)state;
    const int64_t three = 3, flat = -1;
    for (int largest = 0; largest <= 1; largest++) {
        Pb graph = {.len = 0}, attrs = {.len = 0};
        onnx_attr_int(&attrs, "largest", largest);
        add_input(&graph, ONNX_F32, 1, DIMS(6));
        onnx_add_tensor(&graph, "three", ONNX_S64, 1, DIMS(1), &three, 8);
        onnx_add_tensor(&graph, "flat", ONNX_S64, 1, DIMS(1), &flat, 8);
        onnx_add_node(&graph, "NonZero", "x", "at", NULL);
        onnx_add_node(&graph, "Reshape", "at flat", "places", NULL);
        onnx_add_node(&graph, "Gather", "x places", "some", NULL);
        onnx_add_node(&graph, "Shape", "some", "n", NULL);
        onnx_add_node(&graph, "Min", "three n", "k", NULL);
        onnx_add_node(&graph, "TopK", "some k", "v i", &attrs);
        onnx_add_node(&graph, "Unique", "v", "y", NULL);
        add_output(&graph, ONNX_F32, 1);
        const float low[3] = {-INFINITY, 1, 2}, high[2] = {2, 4}, two[2] = {-1, 3};
        expect(&graph, 13, (const float[]){4, 0, 2, 1, -INFINITY, 4}, 1, DIMS(largest ? 2 : 3), largest ? high : low);
        expect(&graph, 13, (const float[]){0, 3, 0, 0, -1, 0}, 1, DIMS(2), two);
        expect(&graph, 13, (const float[6]){0}, 1, DIMS(0), NULL);
    }
}

/* An axis of at most one element may be empty, too: a sum over it is 0 then, and so is a product of vectors. */
static void test_at_most_one(void **state)
{
    (void)state;
    const float five = 5;
    for (int dot = 0; dot <= 1; dot++) {
        Pb graph = {.len = 0};
        onnx_add_tensor(&graph, "data", ONNX_F32, 1, DIMS(1), &five, 4);
        add_input(&graph, ONNX_BOOL, 1, DIMS(1));
        onnx_add_node(&graph, "Compress", "data x", "some", NULL);
        onnx_add_node(&graph, dot ? "MatMul" : "ReduceSum", dot ? "some some" : "some", "y", NULL);
        add_output(&graph, ONNX_F32, 1 - (uint32_t)dot);
        expect(&graph, 11, "\0", 1 - (uint32_t)dot, DIMS(1), (const float[]){0});
        expect(&graph, 11, "\1", 1 - (uint32_t)dot, DIMS(1), (const float[]){dot ? 25 : 5});
    }
}

/* ---- If whose branches give other sizes ------------------------------------------------------------------------------------------ */

/* if x[0] > 0: y = places where x is not zero, else nothing */
static void test_branches(void **state)
{
    (void)state;
    Pb graph = {.len = 0}, then = {.len = 0}, other = {.len = 0}, attrs = {.len = 0};
    const int64_t zero = 0, none = 0;
    const float nil = 0;
    add_input(&graph, ONNX_F32, 1, DIMS(4));
    onnx_add_tensor(&graph, "zero", ONNX_S64, 0, NULL, &zero, 8);
    onnx_add_tensor(&graph, "nil", ONNX_F32, 0, NULL, &nil, 4);
    onnx_add_node(&graph, "Gather", "x zero", "first", NULL);
    onnx_add_node(&graph, "Greater", "first nil", "go", NULL);
    onnx_add_node(&then, "NonZero", "x", "z", NULL);
    onnx_add_value(&then, GRAPH_OUT, "z", ONNX_S64, 2, DIMS(-2, -2));
    onnx_add_tensor(&other, "empty", ONNX_S64, 2, DIMS(1, 0), &none, 0);
    onnx_add_node(&other, "Identity", "empty", "e", NULL);
    onnx_add_value(&other, GRAPH_OUT, "e", ONNX_S64, 2, DIMS(1, 0));
    onnx_attr_graph(&attrs, "then_branch", &then);
    onnx_attr_graph(&attrs, "else_branch", &other);
    onnx_add_node(&graph, "If", "go", "r", &attrs);
    onnx_add_node(&graph, "Neg", "r", "y", NULL);
    add_output(&graph, ONNX_S64, 2);
    expect(&graph, 13, (const float[]){1, 0, 0, 5}, 2, DIMS(1, 2), (const int64_t[]){0, -3});
    expect(&graph, 13, (const float[]){0, 0, 0, 5}, 2, DIMS(1, 0), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_non_zero), cmocka_unit_test(test_known), cmocka_unit_test(test_other_types),
                                       cmocka_unit_test(test_used), cmocka_unit_test(test_unused), cmocka_unit_test(test_compress),
                                       cmocka_unit_test(test_nms), cmocka_unit_test(test_nms_of_found), cmocka_unit_test(test_unique),
                                       cmocka_unit_test(test_of_found), cmocka_unit_test(test_at_most_one), cmocka_unit_test(test_branches)};
    return cmocka_run_group_tests_name("driver_found", tests, NULL, NULL);
}
