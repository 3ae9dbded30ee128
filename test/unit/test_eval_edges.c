/* SPDX-License-Identifier: Apache-2.0
 *
 * The edge rules of numerics.md, a row each: op, attributes, operands, the result in ref32 as text, and the error code.
 * NaNs are not told apart, zeros are.
 */
#include "support/op_case.h"

#include <string.h>

typedef struct Row {
    Op op;
    const char *attrs;
    const char *type[4], *values[4];
    const char *want;
    int code;
} Row;

#define WINDOW "window=1,1,3 stride=1,1,1 pad_lo=0,0,1 pad_hi=0,0,1 dilation=1,1,1 "

/* clang-format off */
static const Row rows[] = {
    /* NaN and signed zero */
    {OP_relu, "", {"f32[5]"}, {"-1 -0 0 nan 2"}, "0 -0 0 nan 2", 0},
    {OP_max, "", {"f32[6]", "f32[6]"}, {"1 nan 1 -0 0 nan", "2 1 nan 0 -0 nan"}, "2 nan nan 0 -0 nan", 0},
    {OP_min, "", {"f32[6]", "f32[6]"}, {"1 nan 1 -0 0 nan", "2 1 nan 0 -0 nan"}, "1 nan nan 0 -0 nan", 0},
    {OP_clip, "", {"f32[5]", "f32[]", "f32[]"}, {"nan -3 3 -0 0.5", "-1", "1"}, "nan -1 1 -0 0.5", 0},
    {OP_clip, "", {"f32[2]", "f32[]", "f32[]"}, {"1 5", "3", "2"}, "2 2", 0},
    {OP_sign, "", {"f32[5]"}, {"-3 -0 0 nan inf"}, "-1 -0 0 nan 1", 0}, {OP_sign, "", {"s8[3]"}, {"-128 0 7"}, "-1 0 1", 0},
    {OP_reduce, "axes=0 kind=max", {"f32[20]"}, {"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 nan 3"}, "nan", 0},
    {OP_reduce, "axes=0 kind=min", {"f32[3]"}, {"nan -inf 1"}, "nan", 0},
    {OP_reduce, "axes=0 kind=max", {"f32[2]"}, {"-0 -0"}, "0", 0}, {OP_reduce, "axes=0 kind=min", {"f32[2]"}, {"-0 0"}, "0", 0},
    {OP_reduce_window, WINDOW "kind=max", {"f32[1,1,4]"}, {"-1 nan 3 -5"}, "nan nan nan 3", 0},
    {OP_softmax, "axes=0 norm=mul", {"f32[3]"}, {"1 nan 2"}, "nan nan nan", 0},
    {OP_softmax, "axes=0 norm=mul", {"f32[4]"}, {"0 -87.01 -103 -inf"}, "1 0 0 0", 0}, /* never subnormal: decision 010 */
    {OP_softmax, "axes=0 norm=div", {"f32[2]"}, {"-87 0"}, "1.6458115e-38 1", 0},
    {OP_softmax, "axes=0 norm=mul", {"f32[2]"}, {"-inf -inf"}, "nan nan", 0},
    {OP_softmax, "axes=0 norm=mul", {"f32[3]"}, {"-100 nan 0"}, "nan nan nan", 0},
    {OP_softmax, "axes=0 norm=mul", {"bf16[2]"}, {"0 -88"}, "1 0", 0},
    {OP_softmax, "axes=0 norm=mul", {"f64[2]"}, {"0 -709"}, "1 0", 0},
    {OP_exp, "", {"f32[1]"}, {"-90"}, "8.19401e-40", 0},
    {OP_argreduce, "axis=0 kind=max last=0", {"f32[5]"}, {"1 nan 9 nan 9"}, "1", 0},
    {OP_argreduce, "axis=0 kind=min last=1", {"f32[5]"}, {"1 -9 nan nan -9"}, "2", 0},
    {OP_neg, "", {"f32[3]"}, {"0 -0 1"}, "-0 0 -1", 0}, {OP_abs, "", {"f32[3]"}, {"-0 -2 nan"}, "0 2 nan", 0},
    {OP_trunc, "", {"f32[3]"}, {"-0.5 0.5 -1.5"}, "-0 0 -1", 0}, {OP_ceil, "", {"f32[1]"}, {"-0.5"}, "-0", 0},
    {OP_eq, "", {"f32[3]", "f32[3]"}, {"nan 0 1", "nan -0 2"}, "0 1 0", 0}, {OP_ne, "", {"f32[2]", "f32[2]"}, {"nan 0", "nan -0"}, "1 0", 0},
    {OP_le, "", {"f32[2]", "f32[2]"}, {"nan 0", "1 -0"}, "0 1", 0},
    {OP_isnan, "", {"f16[3]"}, {"nan inf 1"}, "1 0 0", 0}, {OP_isinf, "", {"f32[3]"}, {"nan -inf 1"}, "0 1 0", 0},
    /* ties */
    {OP_rint, "", {"f32[6]"}, {"0.5 1.5 2.5 -0.5 -1.5 0x1p30"}, "0 2 2 -0 -2 1073741800", 0},
    {OP_argreduce, "axis=0 kind=max last=0", {"s32[4]"}, {"1 5 5 2"}, "1", 0}, {OP_argreduce, "axis=0 kind=max last=1", {"s32[4]"}, {"1 5 5 2"}, "2", 0},
    {OP_argwindow, WINDOW "kind=max order=row", {"f32[1,1,4]"}, {"2 2 1 1"}, "0 0 1 2", 0},
    {OP_topk, "axis=0 size=3 kind=max", {"f32[5]"}, {"1 3 3 -0 3"}, "3 3 3", 0},
    /* integers */
    {OP_add, "", {"s8[2]", "s8[2]"}, {"127 -128", "1 -1"}, "-128 127", 0}, {OP_mul, "", {"u8[1]", "u8[1]"}, {"16", "17"}, "16", 0},
    {OP_sub, "", {"u64[1]", "u64[1]"}, {"0", "1"}, "18446744073709551615", 0},
    {OP_div, "", {"s32[6]", "s32[6]"}, {"7 -7 7 5 -2147483648 0", "2 2 -2 0 -1 0"}, "3 -3 -3 0 -2147483648 0", 0},
    {OP_div, "", {"s8[1]", "s8[1]"}, {"-128", "-1"}, "-128", 0},
    {OP_div, "", {"u64[2]", "u64[2]"}, {"18446744073709551615 3", "2 0"}, "9223372036854775807 0", 0},
    {OP_rem, "", {"s32[5]", "s32[5]"}, {"7 -7 7 5 -2147483648", "3 3 -3 0 -1"}, "1 -1 1 5 0", 0},
    {OP_mod, "", {"s32[5]", "s32[5]"}, {"7 -7 7 5 -2147483648", "3 3 -3 0 -1"}, "1 2 -2 5 0", 0},
    {OP_mod, "", {"f32[4]", "f32[4]"}, {"5.5 -5.5 5.5 -6", "2 2 -2 3"}, "1.5 0.5 -0.5 -0", 0},
    {OP_neg, "", {"s16[2]"}, {"-32768 5"}, "-32768 -5", 0}, {OP_abs, "", {"s64[1]"}, {"-9223372036854775808"}, "-9223372036854775808", 0},
    {OP_shl, "", {"u8[4]", "u8[4]"}, {"1 1 255 1", "7 8 4 200"}, "128 0 240 0", 0},
    {OP_shr, "", {"s8[4]", "s8[4]"}, {"-128 -1 64 -128", "7 9 9 -1"}, "-1 -1 0 -1", 0}, {OP_shr, "", {"u32[2]", "u32[2]"}, {"4294967295 8", "31 32"}, "1 0", 0},
    {OP_pow, "", {"s32[6]", "s32[6]"}, {"3 2 -1 1 0 2", "20 32 -3 -9 0 -1"}, "-808182895 0 -1 1 1 0", 0},
    {OP_lt, "", {"u64[1]", "u64[1]"}, {"1", "18446744073709551615"}, "1", 0}, {OP_max, "", {"u8[1]", "u8[1]"}, {"200", "3"}, "200", 0},
    {OP_not, "", {"bool[2]"}, {"1 0"}, "0 1", 0}, {OP_not, "", {"u8[1]"}, {"15"}, "240", 0},
    {OP_reduce, "axes=0 kind=sum", {"s8[3]"}, {"100 100 100"}, "44", 0},
    {OP_dot, "lhs_batch= rhs_batch= lhs_contract=0 rhs_contract=0", {"s32[2]", "s32[2]"}, {"2147483647 1", "2 3"}, "1", 0},
    /* casts */
    {OP_cast, "dtype=s8", {"f32[7]"}, {"nan 300 -300 1.9 -1.9 inf -0"}, "0 127 -128 1 -1 127 0", 0}, {OP_cast, "dtype=u8", {"f32[3]"}, {"-1 256 255.9"}, "0 255 255", 0},
    {OP_cast, "dtype=s64", {"f64[2]"}, {"1e300 -1e300"}, "9223372036854775807 -9223372036854775808", 0},
    {OP_cast, "dtype=s8", {"s32[3]"}, {"300 -129 128"}, "44 127 -128", 0}, {OP_cast, "dtype=bool", {"f32[4]"}, {"0 -0 nan 0.1"}, "0 0 1 1", 0},
    {OP_cast, "dtype=f16", {"f32[4]"}, {"65520 65519 0x1p-25 1.00048828125"}, "inf 65504 0 1", 0},
    {OP_cast, "dtype=f32", {"s64[1]"}, {"9007199791611905"}, "9.0072e15", 0}, /* 2^53 + 2^29 + 1: once, not by way of f64 */
    {OP_cast, "dtype=f32", {"u64[1]"}, {"18446744073709551615"}, "1.8446744e19", 0},
    /* empty tensors */
    {OP_reduce, "axes=0 kind=sum", {"f32[0]"}, {""}, "0", 0}, {OP_reduce, "axes=0 kind=prod", {"f32[0]"}, {""}, "1", 0},
    {OP_reduce, "axes=0 kind=max", {"f32[0]"}, {""}, "-inf", 0}, {OP_reduce, "axes=0 kind=min", {"f32[0]"}, {""}, "inf", 0},
    {OP_reduce, "axes=0 kind=max", {"s8[0]"}, {""}, "-128", 0}, {OP_reduce, "axes=0 kind=min", {"u16[0]"}, {""}, "65535", 0},
    {OP_reduce, "axes=0 kind=and", {"bool[0]"}, {""}, "1", 0}, {OP_reduce, "axes=0 kind=or", {"bool[0]"}, {""}, "0", 0},
    {OP_reduce, "axes=0 kind=sum", {"f32[2]"}, {"-0 -0"}, "-0", 0},
    {OP_dot, "lhs_batch= rhs_batch= lhs_contract=1 rhs_contract=0", {"f32[2,0]", "f32[0,1]"}, {"", ""}, "0 0", 0},
    {OP_concat, "axis=0", {"f32[0]", "f32[2]"}, {"", "1 2"}, "1 2", 0},
    /* indices */
    {OP_gather, "axis=0 batch=0", {"f32[3]", "s64[4]"}, {"1 2 3", "0 -1 -3 2"}, "1 3 1 3", 0},
    {OP_gather, "axis=0 batch=0", {"f32[3]", "s64[3]"}, {"1 2 3", "3 -4 1"}, "3 1 2", 1}, {OP_gather, "axis=1 batch=1", {"s8[2,3]", "u8[2,1]"}, {"1 2 3 4 5 6", "1 255"}, "2 6", 1},
    {OP_gather_elements, "axis=1", {"f32[2,3]", "s64[2,2]"}, {"1 2 3 4 5 6", "0 -1 9 1"}, "1 3 6 5", 1},
    {OP_gather_nd, "batch=0", {"f32[2,2]", "s64[2,2]"}, {"1 2 3 4", "1 0 -1 -1"}, "3 4", 0}, {OP_gather_nd, "batch=1", {"f32[2,2]", "s64[2,1]"}, {"1 2 3 4", "1 0"}, "2 3", 0},
    {OP_scatter_elements, "axis=0 combine=add", {"f32[2]", "s64[3]", "f32[3]"}, {"1 0", "1 1 -1", "0x1p24 1 1"}, "1 16777216", 0}, /* ascending */
    {OP_scatter_elements, "axis=0 combine=none", {"f32[2]", "s64[2]", "f32[2]"}, {"1 2", "0 0", "7 8"}, "8 2", 0},
    {OP_scatter_elements, "axis=0 combine=none", {"f32[2]", "s64[1]", "f32[1]"}, {"1 2", "5", "7"}, "1 7", 1},
    {OP_scatter_nd, "combine=mul", {"s32[3]", "s64[2,1]", "s32[2]"}, {"1 2 3", "2 2", "5 7"}, "1 2 105", 0},
    /* moves of narrow elements */
    {OP_reverse, "axes=0", {"u4[5]"}, {"1 2 3 4 15"}, "15 4 3 2 1", 0}, {OP_transpose, "perm=1,0", {"s2[2,3]"}, {"-2 -1 0 1 -1 1"}, "-2 1 -1 -1 0 1", 0},
    {OP_pad, "lo=-1,1 hi=1,0 interior=0,1", {"s32[2,2]", "s32[]"}, {"1 2 3 4", "9"}, "9 3 9 4 9 9 9 9", 0},
    {OP_slice, "start=4 size=3 step=-2", {"f32[5]"}, {"1 2 3 4 5"}, "5 3 1", 0}, {OP_broadcast, "shape=2,2", {"bf16[2,1]"}, {"1 2"}, "1 1 2 2", 0},
    {OP_select, "", {"bool[2]", "f32[2]", "f32[1]"}, {"1 0", "nan 5", "-0"}, "nan -0", 0}, {OP_select, "", {"bool[2,1]", "u4[1,3]", "u4[2,3]"}, {"1 0", "1 2 15", "5 6 7"}, "1 2 15 5 6 7", 0},
    /* windows and scans */
    {OP_reduce_window, WINDOW "kind=sum", {"f32[1,1,3]"}, {"1 2 3"}, "3 6 5", 0}, {OP_reduce_window, WINDOW "kind=sum", {"f32[1,1,1]"}, {"-0"}, "-0", 0},
    {OP_cumulate, "axis=0 kind=sum exclusive=0 reverse=0", {"f32[3]"}, {"-0 -0 1"}, "-0 -0 1", 0}, {OP_cumulate, "axis=0 kind=sum exclusive=1 reverse=1", {"f32[3]"}, {"1 2 3"}, "5 3 0", 0},
    {OP_cumulate, "axis=0 kind=prod exclusive=1 reverse=0", {"s8[3]"}, {"100 2 3"}, "1 100 -56", 0},
    {OP_cumulate, "axis=0 kind=sum exclusive=0 reverse=0", {"f32[3]"}, {"0x1p24 1 1"}, "16777216 16777216 16777216", 0}, /* sequential */
    /* rounding after each node; denormals kept */
    {OP_add, "", {"f16[1]", "f16[1]"}, {"2048", "1"}, "2048", 0}, {OP_mul, "", {"bf16[1]", "bf16[1]"}, {"1.0078125", "1.0078125"}, "1.015625", 0},
    {OP_mul, "", {"f32[1]", "f32[1]"}, {"0x1p-100", "0x1p-49"}, "1e-45", 0}, {OP_add, "", {"f32[1]", "f32[1]"}, {"0x1p-149", "0x1p-149"}, "3e-45", 0},
    {OP_sigmoid, "", {"f32[4]"}, {"-inf inf nan 0"}, "0 1 nan 0.5", 0}, {OP_rsqrt, "", {"f32[3]"}, {"4 0 -1"}, "0.5 inf nan", 0},
    {OP_bitcast, "dtype=s32", {"f32[2]"}, {"1 -0"}, "1065353216 -2147483648", 0},
    {OP_fma, "", {"f32[1]", "f32[1]", "f32[1]"}, {"1.000244140625", "1.000244140625", "-1"}, "0.00048834085", 0},
};
/* clang-format on */

static void every_row(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(rows); i++) {
        const Row *row = &rows[i];
        Context *ctx = ctx_create(NULL);
        Arena *arena = arena_create(ctx);
        Tensor *in[4];
        uint32_t n = 0;
        uint64_t error = 0;
        for (; n < 4 && row->type[n]; n++)
            in[n] = case_values(ctx, arena, row->type[n], row->values[n]);
        const char *have = case_text(arena, case_run(ctx, arena, EVAL_REF32, row->op, row->attrs, in, n, &error));
        if (strcmp(have, row->want) != 0 || (int)(error & 0xFF) != row->code)
            fail_msg("%s(%s) %s: got %s (error %d), want %s (error %d)", op_info[row->op].name, row->values[0],
                     row->attrs, have, (int)(error & 0xFF), row->want, row->code);
        ctx_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
