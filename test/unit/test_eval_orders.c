/* SPDX-License-Identifier: Apache-2.0
 *
 * The orders of numerics.md, made visible in bits: 2^24 absorbs single ones in f32, but not twos, so a sum tells which
 * ones met each other first. Then rows alone against rows of a batch, composites against their text, and the f64 mode.
 */
#include "base/scalar.h"
#include "support/op_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* assert_float_equal takes neighbours for equal */
#define EXACT(have, want) assert_int_equal(f32_bits(have), f32_bits(want))
#define BIG 16777216.0f /* 2^24 */
#define DOT "lhs_batch= rhs_batch= lhs_contract=0 rhs_contract=0"

typedef struct Fixture {
    Context *ctx;
    Arena *arena;
} Fixture;

static int begin(void **state)
{
    static Fixture f;
    f.ctx = ctx_create(NULL);
    f.arena = arena_create(f.ctx);
    *state = &f;
    return 0;
}

static int end(void **state)
{
    ctx_destroy(((Fixture *)*state)->ctx);
    return 0;
}

static Tensor *zeros(Fixture *f, const char *type) { return case_values(f->ctx, f->arena, type, ""); }
static Tensor *ones(Fixture *f, const char *type) { return case_values(f->ctx, f->arena, type, "1"); }
static float *f32(Tensor *t) { return t->data; }

static Tensor *run(Fixture *f, Op op, const char *attrs, Tensor *x, Tensor *y)
{
    Tensor *in[2] = {x, y};
    uint64_t error = 0;
    return case_run(f->ctx, f->arena, EVAL_REF32, op, attrs, in, y ? 2 : 1, &error);
}

/* A sum of 2^24 at place 0 and ones at two others, everything else 0. */
static float sum_of(Fixture *f, const char *type, int one, int other)
{
    Tensor *x = zeros(f, type);
    f32(x)[0] = BIG;
    f32(x)[one] = f32(x)[other] = 1;
    return f32(run(f, OP_reduce, "axes=0 kind=sum", x, NULL))[0];
}

static void sum_lanes(void **state)
{
    Fixture *f = *state;
    EXACT(sum_of(f, "f32[32]", 8, 24), BIG + 2);        /* lane 8 sums its own first */
    EXACT(sum_of(f, "f32[64]", 16, 32), BIG);           /* lane 0, ascending */
    EXACT(sum_of(f, "f32[32]", 1, 3), BIG + 2);         /* lane 3 joins 1 before that joins 0 */
    EXACT(sum_of(f, "f32[32]", 4, 12), BIG + 2);        /* 12 joins 4 */
    EXACT(sum_of(f, "f32[32]", 8, 4), BIG);             /* 8 joins 0, then 4 does */
    EXACT(sum_of(f, "f32[9000]", 8192, 8208), BIG + 2); /* lane 0 of the second block */
    EXACT(sum_of(f, "f32[30000]", 8192, 16384), BIG);   /* blocks, ascending */
    EXACT(sum_of(f, "f32[9000]", 4096, 8176), BIG);     /* not before 8192 */
    EXACT(sum_of(f, "f32[30000]", 8191, 8192), BIG);    /* the boundary: lane 15 of block 0, block 1 */
}

static void product_lanes(void **state)
{
    Fixture *f = *state;
    Tensor *x = ones(f, "f32[32]");
    f32(x)[0] = 0x1p100f;
    f32(x)[16] = 0x1p100f; /* overflows in lane 0 */
    f32(x)[1] = 0x1p-100f;
    assert_true(isinf(f32(run(f, OP_reduce, "axes=0 kind=prod", x, NULL))[0]));
    f32(x)[16] = 1;
    f32(x)[9] = 0x1p100f; /* meets lane 1 first */
    EXACT(f32(run(f, OP_reduce, "axes=0 kind=prod", x, NULL))[0], 0x1p100f);
}

/* Any axes, any layout: the order is that of the logical index. */
static void sum_axes(void **state)
{
    Fixture *f = *state;
    Tensor *x = zeros(f, "f32[4,3,8]");
    for (int i = 0; i < 96; i++)
        f32(x)[i] = (float)(1.0 / (i + 1));
    Tensor *y = run(f, OP_reduce, "axes=0,2 kind=sum", x, NULL);
    for (int m = 0; m < 3; m++) {
        float lane[16];
        for (int j = 0; j < 16; j++)
            lane[j] = -0.0f;
        for (int i = 0; i < 32; i++)
            lane[i % 16] += f32(x)[i / 8 * 24 + m * 8 + i % 8];
        for (int step = 8; step; step /= 2)
            for (int j = 0; j < step; j++)
                lane[j] += lane[j + step];
        assert_int_equal(f32_bits(f32(y)[m]), f32_bits(lane[0]));
    }
}

static float dot_of(Fixture *f, const char *type, int big, int one, int other)
{
    Tensor *x = zeros(f, type);
    f32(x)[big] = BIG;
    f32(x)[one] = f32(x)[other] = 1;
    return f32(run(f, OP_dot, DOT, x, ones(f, type)))[0];
}

static void dot_chain(void **state)
{
    Fixture *f = *state;
    EXACT(dot_of(f, "f32[1024]", 0, 1, 2), BIG); /* one chain, ascending */
    EXACT(dot_of(f, "f32[1024]", 2, 0, 1), BIG + 2);
    EXACT(dot_of(f, "f32[1024]", 0, 512, 513), BIG + 2); /* the second block for itself */
    EXACT(dot_of(f, "f32[1024]", 0, 511, 512), BIG);
    EXACT(dot_of(f, "f32[1024]", 0, 510, 511), BIG);
    EXACT(dot_of(f, "f32[2048]", 0, 512, 1024), BIG); /* (p0 + p1) + p2 */
    Tensor *x = case_values(f->ctx, f->arena, "f32[2]", "1 1.000244140625");
    Tensor *y = case_values(f->ctx, f->arena, "f32[2]", "-1 1.000244140625");
    EXACT(f32(run(f, OP_dot, DOT, x, y))[0], 0x1p-11 + 0x1p-24); /* one rounding a step */
}

/* k is row-major over the contracted axes as listed */
static void dot_axes(void **state)
{
    Fixture *f = *state;
    Tensor *x = zeros(f, "f32[2,512]"), *y = ones(f, "f32[2,512]");
    f32(x)[0] = BIG;
    f32(x)[512] = f32(x)[513] = 1; /* listed 0,1: the second block */
    EXACT(f32(run(f, OP_dot, "lhs_batch= rhs_batch= lhs_contract=0,1 rhs_contract=0,1", x, y))[0], BIG + 2);
    EXACT(f32(run(f, OP_dot, "lhs_batch= rhs_batch= lhs_contract=1,0 rhs_contract=1,0", x, y))[0], BIG);
}

#define CONV2 "stride=1,1 pad_lo=0,0 pad_hi=0,0 dilation=1,1 lhs_dilation=1,1 groups=1 flip=0"

/* Tap (kh, kw) of channel ic; both in x [1,IC,3,3]. */
static float conv_of(Fixture *f, int ic, const int at[3][3])
{
    char type[64];
    snprintf(type, sizeof type, "f32[1,%d,3,3]", ic);
    Tensor *x = zeros(f, type), *w = ones(f, type);
    for (int i = 0; i < 3; i++)
        f32(x)[(at[i][2] * 3 + at[i][0]) * 3 + at[i][1]] = i ? 1 : BIG;
    return f32(run(f, OP_conv, CONV2, x, w))[0];
}

static void conv_blocks(void **state)
{
    Fixture *f = *state;
    /* IC = 64: a row is 192, two rows a block */
    EXACT(conv_of(f, 64, (const int[3][3]){{0, 0, 0}, {2, 0, 0}, {2, 1, 0}}), BIG + 2);
    EXACT(conv_of(f, 64, (const int[3][3]){{0, 0, 0}, {1, 0, 0}, {1, 1, 0}}), BIG);
    /* IC = 200: a row of 600 is one block */
    EXACT(conv_of(f, 200, (const int[3][3]){{0, 0, 0}, {1, 0, 0}, {1, 2, 199}}), BIG + 2);
    EXACT(conv_of(f, 200, (const int[3][3]){{0, 0, 0}, {0, 2, 198}, {0, 2, 199}}), BIG);
    /* (kh, kw, ic): ones of (0,0,*) come before 2^24 at (0,1,0), those of channel order (0,2,0) behind */
    EXACT(conv_of(f, 8, (const int[3][3]){{0, 1, 0}, {0, 0, 6}, {0, 0, 7}}), BIG + 2);
    EXACT(conv_of(f, 8, (const int[3][3]){{0, 1, 0}, {0, 2, 0}, {0, 1, 1}}), BIG);
}

/* A 1x1 conv is the dot over ic in blocks of 512; of one axis longer than 512 with KW > 1 there is one block. */
static void conv_rows(void **state)
{
    Fixture *f = *state;
    const char *attrs = "stride=1 pad_lo=0 pad_hi=0 dilation=1 lhs_dilation=1 groups=1 flip=0";
    Tensor *x = zeros(f, "f32[1,1024,1]");
    f32(x)[0] = BIG;
    f32(x)[512] = f32(x)[513] = 1;
    EXACT(f32(run(f, OP_conv, attrs, x, ones(f, "f32[1,1024,1]")))[0], BIG + 2);
    x = zeros(f, "f32[1,512,2]"); /* (kw, ic): 512 and 513 are tap 1 of channels 0 and 1 */
    f32(x)[0] = BIG;
    f32(x)[1] = f32(x)[3] = 1;
    EXACT(f32(run(f, OP_conv, attrs, x, ones(f, "f32[1,512,2]")))[0], BIG);
}

/* Padding taps are no part of the chain: an infinite weight there does no harm. A block without taps is +0. */
static void conv_padding(void **state)
{
    Fixture *f = *state;
    const char *attrs = "stride=1 pad_lo=1 pad_hi=1 dilation=1 lhs_dilation=1 groups=1 flip=0";
    Tensor *w = case_values(f->ctx, f->arena, "f32[1,1,3]", "inf 1 1"),
           *x = case_values(f->ctx, f->arena, "f32[1,1,1]", "3");
    EXACT(f32(run(f, OP_conv, attrs, x, w))[0], 3);
    x = case_values(f->ctx, f->arena, "f32[1,1,1]", "0");
    w = case_values(f->ctx, f->arena, "f32[1,1,3]", "1 -1 1");
    assert_int_equal(f32_bits(f32(run(f, OP_conv, attrs, x, w))[0]), 0);
    /* between dilated inputs there are no taps either; flip turns the places, not the order */
    x = case_values(f->ctx, f->arena, "f32[1,1,2]", "1 10");
    w = case_values(f->ctx, f->arena, "f32[1,1,2]", "2 3");
    attrs = "stride=1 pad_lo=1 pad_hi=1 dilation=1 lhs_dilation=2 groups=1 flip=1";
    assert_string_equal(case_text(f->arena, run(f, OP_conv, attrs, x, w)), "2 3 20 30"); /* ConvTranspose, stride 2 */
}

/* Depthwise and grouped convs against the same filter alone. */
static void conv_groups(void **state)
{
    Fixture *f = *state;
    Tensor *x = zeros(f, "f32[2,6,5]"), *w = zeros(f, "f32[6,1,3]"), *one = zeros(f, "f32[2,1,5]"),
           *filter = zeros(f, "f32[1,1,3]");
    for (int i = 0; i < 60; i++)
        f32(x)[i] = (float)sin(i);
    for (int i = 0; i < 18; i++)
        f32(w)[i] = (float)cos(i);
    Tensor *all = run(f, OP_conv, "stride=2 pad_lo=1 pad_hi=1 dilation=1 lhs_dilation=1 groups=6 flip=0", x, w);
    for (int c = 0; c < 6; c++) {
        for (int n = 0; n < 2; n++)
            memcpy(f32(one) + n * 5, f32(x) + (n * 6 + c) * 5, 20);
        memcpy(f32(filter), f32(w) + c * 3, 12);
        Tensor *alone =
            run(f, OP_conv, "stride=2 pad_lo=1 pad_hi=1 dilation=1 lhs_dilation=1 groups=1 flip=0", one, filter);
        for (int n = 0; n < 2; n++)
            assert_memory_equal(f32(all) + (n * 6 + c) * 3, f32(alone) + n * 3, 12);
    }
}

/* ---- independence of the batch; composites by their text ------------------------------------------------------ */

static void rows_alone(void **state)
{
    Fixture *f = *state;
    Tensor *x = zeros(f, "f32[5,700]"), *w = zeros(f, "f32[700,37]"), *row = zeros(f, "f32[1,700]");
    srand(1);
    for (uint64_t i = 0; i < x->count; i++)
        f32(x)[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (uint64_t i = 0; i < w->count; i++)
        f32(w)[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    const char *dot = "lhs_batch= rhs_batch= lhs_contract=1 rhs_contract=0";
    Tensor *all = run(f, OP_dot, dot, x, w), *soft = run(f, OP_softmax, "axes=1 norm=mul", x, NULL);
    for (int r = 0; r < 5; r++) {
        memcpy(f32(row), f32(x) + r * 700, 2800);
        assert_memory_equal(f32(run(f, OP_dot, dot, row, w)), f32(all) + r * 37, 37 * 4);
        assert_memory_equal(f32(run(f, OP_softmax, "axes=1 norm=mul", row, NULL)), f32(soft) + r * 700, 2800);
    }
    for (int r = 0; r < 5; r++) /* an element against its chain written down */
        for (int c = 0; c < 37; c++) {
            float first = 0, second = 0;
            for (int k = 0; k < 700; k++) {
                float *acc = k < 512 ? &first : &second;
                *acc = fmaf(f32(x)[r * 700 + k], f32(w)[k * 37 + c], *acc);
            }
            assert_int_equal(f32_bits(f32(all)[r * 37 + c]), f32_bits(first + second));
        }
}

static float lane_sum(const float *x, int n)
{
    float lane[16];
    for (int j = 0; j < 16; j++)
        lane[j] = -0.0f;
    for (int i = 0; i < n; i++)
        lane[i % 16] += x[i];
    for (int step = 8; step; step /= 2)
        for (int j = 0; j < step; j++)
            lane[j] += lane[j + step];
    return lane[0];
}

static void softmax_text(void **state)
{
    Fixture *f = *state;
    Tensor *x = zeros(f, "f32[1,50]");
    float e[50], max = -INFINITY;
    for (int i = 0; i < 50; i++) {
        f32(x)[i] = (float)sin(i * 1.7) * 5 - (i % 3 ? 0 : 84); /* some below 87 under the largest */
        max = f32(x)[i] > max ? f32(x)[i] : max;
    }
    Tensor *mul = run(f, OP_softmax, "axes=1 norm=mul", x, NULL), *div = run(f, OP_softmax, "axes=1 norm=div", x, NULL);
    Tensor *log = run(f, OP_log_softmax, "axes=1", x, NULL);
    for (int i = 0; i < 50; i++)
        e[i] = scalar_exp(f32(x)[i] - max);
    float kept = lane_sum(e, 50); /* by log_softmax */
    int none = 0;
    for (int i = 0; i < 50; i++)
        if (f32(x)[i] - max < -87)
            e[i] = 0, none++;
    assert_in_range(none, 5, 12); /* of 17 */
    float s = lane_sum(e, 50), scale = 1 / s;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(f32_bits(f32(mul)[i]), f32_bits(e[i] * scale));
        assert_int_equal(f32_bits(f32(div)[i]), f32_bits(e[i] / s));
        assert_int_equal(f32_bits(f32(log)[i]), f32_bits(f32(x)[i] - max - scalar_log(kept)));
    }
}

static void layer_norm_text(void **state)
{
    Fixture *f = *state;
    Tensor *in[3] = {zeros(f, "f32[1,50]"), zeros(f, "f32[1,50]"), zeros(f, "f32[1,50]")};
    uint64_t error = 0;
    float d[50], q[50];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 50; i++)
            f32(in[k])[i] = (float)sin(i * 1.7 + k);
    Tensor *y = case_run(f->ctx, f->arena, EVAL_REF32, OP_layer_norm, "axes=1 epsilon=1e-5", in, 3, &error);
    float mean = lane_sum(f32(in[0]), 50) / 50;
    for (int i = 0; i < 50; i++) {
        d[i] = f32(in[0])[i] - mean;
        q[i] = d[i] * d[i];
    }
    float r = 1 / sqrtf(lane_sum(q, 50) / 50 + 1e-5f);
    for (int i = 0; i < 50; i++)
        assert_int_equal(f32_bits(f32(y)[i]), f32_bits(d[i] * r * f32(in[1])[i] + f32(in[2])[i]));
}

/* Composites of 16-bit floats compute inside in f32 and round once. */
static void composite_of_half(void **state)
{
    Fixture *f = *state;
    Tensor *x = zeros(f, "f32[1,50]"), *h = zeros(f, "f16[1,50]");
    for (int i = 0; i < 50; i++) {
        ((uint16_t *)h->data)[i] = f16_from_f32((float)sin(i * 1.7));
        f32(x)[i] = f16_to_f32(((uint16_t *)h->data)[i]);
    }
    Tensor *wide = run(f, OP_softmax, "axes=1 norm=mul", x, NULL),
           *narrow = run(f, OP_softmax, "axes=1 norm=mul", h, NULL);
    for (int i = 0; i < 50; i++)
        assert_int_equal(((uint16_t *)narrow->data)[i], f16_from_f32(f32(wide)[i]));
}

/* The other mode: nothing is lost, floats are held as doubles whatever their type. */
static void f64_mode(void **state)
{
    Fixture *f = *state;
    Tensor *x = zeros(f, "f32[40]"), *in[2] = {x, ones(f, "f32[40]")};
    uint64_t error = 0;
    f32(x)[0] = BIG;
    f32(x)[16] = f32(x)[32] = 1;
    Tensor *sum = case_run(f->ctx, f->arena, EVAL_F64, OP_reduce, "axes=0 kind=sum", in, 1, &error);
    assert_int_equal(sum->store, DT_F64);
    assert_int_equal(sum->dtype, DT_F32);
    assert_true(*(double *)sum->data == 16777218);
    assert_true(*(double *)case_run(f->ctx, f->arena, EVAL_F64, OP_dot, DOT, in, 2, &error)->data == 16777218);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(sum_lanes),    TEST(product_lanes),   TEST(sum_axes),          TEST(dot_chain),   TEST(dot_axes),
        TEST(conv_blocks),  TEST(conv_rows),       TEST(conv_padding),      TEST(conv_groups), TEST(rows_alone),
        TEST(softmax_text), TEST(layer_norm_text), TEST(composite_of_half), TEST(f64_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
