/* SPDX-License-Identifier: Apache-2.0
 *
 * Shape rules as one table: op, operand types, attributes, and the result types or the diagnostic that refuses them.
 * The last test demands a row that is accepted and one that is refused for every op of the table.
 *
 * How the texts are read: support/op_text.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "support/op_text.h"

typedef struct Row {
    Op op;
    const char *in, *attrs, *want; /* want: types, or "!diag" */
} Row;

/* clang-format off */
static const Row rows[] = {
    {OP_neg, "f32[2,N]", "", "f32[2,N]"}, {OP_neg, "bool[2]", "", "!op_dtype"},
    {OP_neg, "f32[2] f32[2]", "", "!op_arity"}, {OP_neg, "f8e4m3fn[2]", "", "!op_dtype"},
    {OP_abs, "s8[3]", "", "s8[3]"}, {OP_abs, "c64[3]", "", "!op_dtype"},
    {OP_sign, "u8[]", "", "u8[]"}, {OP_sign, "str[]", "", "!op_dtype"},
    {OP_relu, "s32[4]", "", "s32[4]"}, {OP_relu, "bool[4]", "", "!op_dtype"},
    {OP_stop_gradient, "bool[4]", "", "bool[4]"}, {OP_stop_gradient, "", "", "!op_arity"},
#define FLOATS(id) {id, "bf16[2,3]", "", "bf16[2,3]"}, {id, "s32[2,3]", "", "!op_dtype"}
    FLOATS(OP_floor), FLOATS(OP_ceil), FLOATS(OP_trunc), FLOATS(OP_rint), FLOATS(OP_sqrt), FLOATS(OP_rsqrt), FLOATS(OP_exp),
    FLOATS(OP_expm1), FLOATS(OP_log), FLOATS(OP_log1p), FLOATS(OP_sin), FLOATS(OP_cos), FLOATS(OP_tan), FLOATS(OP_asin),
    FLOATS(OP_acos), FLOATS(OP_atan), FLOATS(OP_sinh), FLOATS(OP_cosh), FLOATS(OP_tanh), FLOATS(OP_asinh), FLOATS(OP_acosh),
    FLOATS(OP_atanh), FLOATS(OP_erf), FLOATS(OP_sigmoid), FLOATS(OP_mish), FLOATS(OP_softplus), FLOATS(OP_softsign),
    FLOATS(OP_hard_swish),
    {OP_leaky_relu, "f16[2]", "alpha=0.1", "f16[2]"}, {OP_leaky_relu, "s32[2]", "alpha=0.1", "!op_dtype"},
    {OP_elu, "f16[2]", "alpha=1", "f16[2]"}, {OP_elu, "s32[2]", "alpha=1", "!op_dtype"},
    {OP_selu, "f16[2]", "alpha=1 beta=1", "f16[2]"}, {OP_selu, "s32[2]", "alpha=1 beta=1", "!op_dtype"},
    {OP_celu, "f16[2]", "alpha=1", "f16[2]"}, {OP_celu, "s32[2]", "alpha=1", "!op_dtype"},
    {OP_gelu, "f16[2]", "approx=tanh", "f16[2]"}, {OP_gelu, "f32[2]", "approx=fast", "!op_attr"},
    {OP_silu, "f16[2]", "alpha=1", "f16[2]"}, {OP_silu, "s32[2]", "alpha=1", "!op_dtype"},
    {OP_hard_sigmoid, "f16[2]", "alpha=1 beta=1", "f16[2]"}, {OP_hard_sigmoid, "s32[2]", "alpha=1 beta=1", "!op_dtype"},
    {OP_not, "bool[2]", "", "bool[2]"}, {OP_not, "f32[2]", "", "!op_dtype"},
    {OP_isnan, "f64[2]", "", "bool[2]"}, {OP_isnan, "s64[2]", "", "!op_dtype"},
    {OP_isinf, "f64[2]", "", "bool[2]"}, {OP_isinf, "s64[2]", "", "!op_dtype"},
#define PAIRS(id) {id, "f32[2,1,N] f32[1,3,N]", "", "f32[2,3,N]"}, {id, "f32[2] s32[2]", "", "!op_dtype"}
    PAIRS(OP_add), PAIRS(OP_sub), PAIRS(OP_mul), PAIRS(OP_div), PAIRS(OP_rem), PAIRS(OP_mod), PAIRS(OP_pow), PAIRS(OP_min),
    PAIRS(OP_max), PAIRS(OP_prelu), {OP_prelu, "u64[2,3] u64[1,3]", "", "u64[2,3]"}, {OP_prelu, "bool[2] bool[2]", "", "!op_dtype"},
    {OP_add, "f32[2,3] f32[2,4]", "", "!op_shape"}, {OP_add, "f32[2,3] f32[3]", "", "!op_shape"},
    {OP_add, "f32[N] f32[M]", "", "!op_shape"}, {OP_add, "f32[N] f32[4]", "", "!op_shape"}, {OP_add, "f32[0] f32[1]", "", "f32[0]"},
    {OP_add, "bool[2] bool[2]", "", "!op_dtype"}, {OP_add, "f32[2] -", "", "!op_shape"},
#define BITS(id) {id, "u32[2,1] u32[1,3]", "", "u32[2,3]"}, {id, "f32[2] f32[2]", "", "!op_dtype"}
    BITS(OP_and), BITS(OP_or), BITS(OP_xor), BITS(OP_shl), BITS(OP_shr), {OP_shl, "bool[] bool[]", "", "!op_dtype"},
#define TESTS(id) {id, "f16[2,1] f16[1,3]", "", "bool[2,3]"}, {id, "f32[2] f32[3]", "", "!op_shape"}
    TESTS(OP_eq), TESTS(OP_ne), TESTS(OP_lt), TESTS(OP_le), {OP_eq, "bool[2] bool[2]", "", "bool[2]"},
    {OP_lt, "bool[2] bool[2]", "", "!op_dtype"},
    {OP_select, "bool[2,1] f32[1,3] f32[1,1]", "", "f32[2,3]"}, {OP_select, "s32[2] f32[2] f32[2]", "", "!op_dtype"},
    {OP_fma, "f32[2] f32[1] f32[2]", "", "f32[2]"}, {OP_fma, "s32[2] s32[2] s32[2]", "", "!op_dtype"},
    {OP_cast, "u4[3]", "dtype=f16", "f16[3]"}, {OP_cast, "f32[3]", "dtype=c64", "!op_attr"},
    {OP_cast, "str[3]", "dtype=f32", "!op_dtype"},
    {OP_bitcast, "f32[3]", "dtype=u32", "u32[3]"}, {OP_bitcast, "f32[3]", "dtype=u16", "!op_attr"},
    {OP_const, "", "weight=w", "f32[2]"}, {OP_const, "f32[]", "weight=w", "!op_arity"},
    {OP_iota, "", "dtype=s64 shape=2,N axis=1", "s64[2,N]"}, {OP_iota, "", "dtype=bool shape=2 axis=0", "!op_attr"},
    {OP_iota, "", "dtype=s64 shape=2 axis=1", "!op_attr"}, {OP_iota, "", "dtype=u8 shape=1048576,1048577 axis=0", "!op_size"},
    {OP_iota, "", "dtype=u8 shape=-1 axis=0", "!op_size"}, {OP_iota, "", "dtype=u8 shape=0,1048576,1048577 axis=0", "u8[0,1048576,1048577]"},
    {OP_dimval, "", "dim=N", "s64[]"}, {OP_dimval, "s64[]", "dim=N", "!op_arity"},
    {OP_broadcast, "f32[1,3]", "shape=N,3", "f32[N,3]"}, {OP_broadcast, "f32[2,3]", "shape=4,3", "!op_shape"},
    {OP_broadcast, "f32[3]", "shape=2,3", "!op_attr"},
    {OP_reshape, "f32[N,768]", "shape=N,12,64", "f32[N,12,64]"}, {OP_reshape, "f32[6]", "shape=4", "!op_attr"},
    {OP_reshape, "f32[N,4]", "shape=4*N", "f32[4*N]"}, {OP_reshape, "f32[N]", "shape=M", "!op_attr"},
    {OP_reshape, "f32[1]", "shape=", "f32[]"}, {OP_reshape, "f32[1]", "shape=1,1,1,1,1,1,1,1,1,1,1,1,1", "!op_attr"},
    {OP_transpose, "f32[2,3,N]", "perm=2,0,1", "f32[N,2,3]"}, {OP_transpose, "f32[2,3]", "perm=0,0", "!op_attr"},
    {OP_transpose, "f32[2,3]", "perm=0", "!op_attr"}, {OP_transpose, "f32[2,3]", "perm=0,2", "!op_attr"},
    {OP_slice, "f32[10,N]", "start=9,0 size=5,N step=-2,1", "f32[5,N]"},
    {OP_slice, "f32[10]", "start=8 size=3 step=1", "!op_attr"}, {OP_slice, "f32[10]", "start=1 size=3 step=-1", "!op_attr"},
    {OP_slice, "f32[10]", "start=0 size=3 step=0", "!op_attr"}, {OP_slice, "f32[10]", "start=10 size=0 step=1", "f32[0]"},
    {OP_slice, "f32[10]", "start=0,0 size=3 step=1", "!op_attr"},
    {OP_pad, "f32[3,N] f32[]", "lo=1,0 hi=-2,3 interior=1,0", "f32[4,N+3]"}, {OP_pad, "f32[3] f32[]", "lo=-2 hi=-2 interior=0", "!op_size"},
    {OP_pad, "f32[3] f32[1]", "lo=0 hi=0 interior=0", "!op_shape"}, {OP_pad, "f32[3] f32[]", "lo=0 hi=0 interior=-1", "!op_attr"},
    {OP_pad, "f32[3] s32[]", "lo=0 hi=0 interior=0", "!op_dtype"},
    {OP_concat, "f32[2,N] f32[2,3]", "axis=1", "f32[2,N+3]"}, {OP_concat, "f32[2,3] f32[3,3]", "axis=1", "!op_shape"},
    {OP_concat, "f32[2] f16[2]", "axis=0", "!op_dtype"}, {OP_concat, "f32[2] f32[2]", "axis=-1", "!op_attr"},
    {OP_reverse, "f32[2,3]", "axes=1", "f32[2,3]"}, {OP_reverse, "f32[2,3]", "axes=1,1", "!op_attr"},
    {OP_gather, "f32[9,4] s64[2,N]", "axis=0 batch=0", "f32[2,N,4]"}, {OP_gather, "f32[9,4] f32[2]", "axis=0 batch=0", "!op_dtype"},
    {OP_gather, "f32[5,9,4] s32[5,2]", "axis=1 batch=1", "f32[5,2,4]"}, {OP_gather, "f32[9,4] s64[2]", "axis=2 batch=0", "!op_attr"},
    {OP_gather, "f32[0,4] s64[2]", "axis=0 batch=0", "!op_shape"}, {OP_gather, "f32[0,4] s64[0]", "axis=0 batch=0", "f32[0,4]"},
    {OP_gather, "f32[5,9] s64[6,2]", "axis=1 batch=1", "!op_shape"}, {OP_gather, "f32[5,9] s64[5]", "axis=0 batch=1", "!op_attr"},
    {OP_gather_elements, "f32[3,4] s64[2,9]", "axis=1", "f32[2,9]"}, {OP_gather_elements, "f32[3,4] s64[4,9]", "axis=1", "!op_shape"},
    {OP_gather_nd, "f32[3,4,5] s64[7,2]", "batch=0", "f32[7,5]"}, {OP_gather_nd, "f32[3] s64[7,2]", "batch=0", "!op_shape"},
    {OP_gather_nd, "f32[3,4,5] s64[3,2]", "batch=1", "f32[3]"}, {OP_gather_nd, "f32[3,4] s64[N,N]", "batch=0", "!op_shape"},
    {OP_reduce, "f32[2,N,4]", "axes=1,2 kind=sum", "f32[2,1,1]"}, {OP_reduce, "f32[2]", "axes=0 kind=and", "!op_dtype"},
    {OP_reduce, "bool[2]", "axes=0 kind=or", "bool[1]"}, {OP_reduce, "f32[2]", "axes=1 kind=max", "!op_attr"},
    {OP_reduce, "f32[2]", "axes=0 kind=mean", "!op_attr"},
    {OP_argreduce, "f32[2,5]", "axis=1 kind=max last=0", "s64[2,1]"}, {OP_argreduce, "f32[2,0]", "axis=1 kind=max last=0", "!op_shape"},
    {OP_cumulate, "s32[2,5]", "axis=1 kind=sum exclusive=0 reverse=1", "s32[2,5]"},
    {OP_cumulate, "s32[2]", "axis=1 kind=sum exclusive=0 reverse=1", "!op_attr"},
#define WINDOW "window=1,1,3,2 stride=1,1,2,2 pad_lo=0,0,1,0 pad_hi=0,0,1,0 dilation=1,1,1,2"
    {OP_reduce_window, "s8[1,8,7,N]", WINDOW " kind=max", "s8[1,8,4,floordiv(N+1,2)-1]"}, {OP_reduce_window, "f32[1,8,7]", WINDOW " kind=max", "!op_attr"},
    {OP_reduce_window, "f32[1]", "window=3 stride=1 pad_lo=0 pad_hi=1 dilation=1 kind=sum", "!op_shape"},
    {OP_reduce_window, "f32[9]", "window=2147483647 stride=1 pad_lo=0 pad_hi=0 dilation=2147483647 kind=sum", "!op_shape"},
    {OP_reduce_window, "f32[9]", "window=2 stride=0 pad_lo=0 pad_hi=0 dilation=1 kind=sum", "!op_attr"},
    {OP_argwindow, "f32[1,8,7,6]", WINDOW " kind=max order=row", "s64[1,8,4,2]"}, {OP_argwindow, "bool[1,8,7,6]", WINDOW " kind=max order=row", "!op_dtype"},
    {OP_avg_pool, "f32[1,8,7,6]", WINDOW " count_pad=1", "f32[1,8,4,2]"}, {OP_avg_pool, "s8[1,8,7,6]", WINDOW " count_pad=1", "!op_dtype"},
    {OP_dot, "f32[B,2,K] f32[B,K,5]", "lhs_batch=0 rhs_batch=0 lhs_contract=2 rhs_contract=1", "f32[B,2,5]"},
    {OP_dot, "f32[2,3] f32[4,5]", "lhs_batch= rhs_batch= lhs_contract=1 rhs_contract=0", "!op_shape"},
    {OP_dot, "f32[3,3] f32[3,3]", "lhs_batch=1 rhs_batch=0 lhs_contract=1 rhs_contract=1", "!op_attr"},
    {OP_dot, "f32[3,3] f32[3,3]", "lhs_batch=1 rhs_batch= lhs_contract=0 rhs_contract=1", "!op_attr"},
    {OP_dot, "f32[2,3] f16[3,5]", "lhs_batch= rhs_batch= lhs_contract=1 rhs_contract=0", "!op_dtype"},
#define CONV(g) "stride=2,1 pad_lo=1,1 pad_hi=1,1 dilation=1,1 lhs_dilation=1,2 groups=" g " flip=0"
    {OP_conv, "f32[B,8,9,4] f32[6,4,3,3]", CONV("2"), "f32[B,6,5,7]"}, {OP_conv, "f32[1,8,9,4] f32[6,8,3,3]", CONV("2"), "!op_shape"},
    {OP_conv, "f32[1,8,9,4] f32[7,4,3,3]", CONV("2"), "!op_attr"}, {OP_conv, "f32[1,8,9,4] f32[6,4,3,3]", CONV("0"), "!op_attr"},
    {OP_conv, "f32[1,8,9] f32[6,4,3,3]", CONV("2"), "!op_shape"}, {OP_conv, "f32[1,8,0,4] f32[6,4,3,3]", CONV("2"), "!op_shape"},
    {OP_scatter_elements, "f32[3,4] s64[2,9] f32[2,9]", "axis=1 combine=add", "f32[3,4]"},
    {OP_scatter_elements, "f32[3,4] s64[2,9] f32[2,8]", "axis=1 combine=add", "!op_shape"},
    {OP_scatter_elements, "bool[3] s64[2] bool[2]", "axis=0 combine=add", "!op_dtype"},
    {OP_scatter_nd, "f32[3,4] s64[7,1] f32[7,4]", "combine=none", "f32[3,4]"}, {OP_scatter_nd, "f32[3,4] s64[7,1] f32[7]", "combine=none", "!op_shape"},
    {OP_topk, "f32[3,9]", "axis=1 size=4 kind=max", "f32[3,4] s64[3,4]"}, {OP_topk, "f32[3,9]", "axis=1 size=10 kind=max", "!op_attr"},
    {OP_yield, "f32[3] s64[]", "", ""}, {OP_yield, "f32[3] -", "", "!op_shape"},
    {OP_found, "s64[]", "size=u7", ""}, {OP_found, "s64[]", "size=3", ""}, {OP_found, "s64[]", "size=2*u7", "!op_attr"},
    {OP_found, "s64[]", "size=N", "!op_attr"}, {OP_found, "s32[]", "size=u7", "!op_shape"}, {OP_found, "s64[1]", "size=u7", "!op_shape"},
    {OP_check, "bool[]", "code=7", ""}, {OP_check, "bool[1]", "code=7", "!op_shape"}, {OP_check, "bool[]", "code=0", "!op_attr"},
    {OP_if, "bool[] f32[2]", "", ""}, {OP_if, "bool[1] f32[2]", "", "!op_shape"}, {OP_if, "s64[] f32[2]", "", "!op_dtype"},
    {OP_loop, "s64[] -", "n_carried=0 n_scanned=0", ""}, {OP_loop, "s64[1] -", "n_carried=0 n_scanned=0", "!op_shape"},
    {OP_loop, "- bool[] f32[2]", "n_carried=0 n_scanned=2", "!op_attr"}, {OP_loop, "- bool[] f32[]", "n_carried=0 n_scanned=1", "!op_shape"},
    {OP_clip, "f32[2,3] - f32[]", "", "f32[2,3]"}, {OP_clip, "f32[2,3] f32[4] -", "", "!op_shape"},
    {OP_mean, "f32[2,3]", "axes=0", "f32[1,3]"}, {OP_mean, "s32[2,3]", "axes=0", "!op_dtype"},
    {OP_logsumexp, "f32[2,3]", "axes=", "f32[2,3]"}, {OP_logsumexp, "f32[2,3]", "axes=2", "!op_attr"},
    {OP_softmax, "f32[2,3]", "axes=1 norm=mul", "f32[2,3]"}, {OP_softmax, "f32[2,3]", "axes=2 norm=mul", "!op_attr"},
    {OP_log_softmax, "f32[2,3]", "axes=1", "f32[2,3]"}, {OP_log_softmax, "u8[2,3]", "axes=1", "!op_dtype"},
    {OP_layer_norm, "f32[2,3] f32[3]", "axes=1 epsilon=1e-5", "f32[2,3]"}, {OP_layer_norm, "f32[2,3] f32[3] f32[2]", "axes=1 epsilon=1e-5", "!op_shape"},
    {OP_layer_norm, "f32[2,3] f32[3] -", "axes=1 epsilon=1e-5", "f32[2,3]"},
    {OP_rms_norm, "f32[2,3] f32[3]", "axes=1 epsilon=1e-5", "f32[2,3]"}, {OP_rms_norm, "f32[2,3] f16[3]", "axes=1 epsilon=1e-5", "!op_dtype"},
    {OP_instance_norm, "f32[2,3,4] f32[3] f32[3]", "epsilon=1e-5", "f32[2,3,4]"}, {OP_instance_norm, "f32[2,3,4] f32[3] f32[4]", "epsilon=1e-5", "!op_shape"},
    {OP_group_norm, "f32[2,6,4] f32[6] f32[6]", "groups=3 epsilon=1e-5", "f32[2,6,4]"}, {OP_group_norm, "f32[2,6,4] f32[6] f32[6]", "groups=4 epsilon=1e-5", "!op_attr"},
    {OP_batch_norm, "f32[2,3] f32[3] f32[3] f32[3] f32[3]", "epsilon=1e-5", "f32[2,3]"}, {OP_batch_norm, "f32[3] f32[3] f32[3] f32[3] f32[3]", "epsilon=1e-5", "!op_shape"},
    {OP_lrn, "f32[2,3,4]", "size=5 alpha=1 beta=1 epsilon=1", "f32[2,3,4]"}, {OP_lrn, "f32[2,3]", "size=0 alpha=1 beta=1 epsilon=1", "!op_attr"},
    {OP_sdpa, "f32[B,8,S,64] f32[B,8,T,64] f32[B,8,T,32] bool[S,T]", "scale=0.125 causal=0 softcap=0", "f32[B,8,S,32]"},
    {OP_sdpa, "f32[1,8,5,64] f32[1,8,6,64] f32[1,8,7,32]", "scale=0.125 causal=0 softcap=0", "!op_shape"},
    {OP_sdpa, "f32[1,8,5,64] f32[1,8,5,64] f32[1,8,5,32] f16[5,5]", "scale=0.125 causal=0 softcap=0", "!op_dtype"},
    {OP_sdpa, "f32[1,8,5,64] f32[1,8,5,64] f32[1,8,5,32]", "scale=-1 causal=0 softcap=0", "!op_attr"},
};
/* clang-format on */

/* Result types, or "!" and the name of the first diagnostic. */
static const char *infer(OpText *f, const Row *row, Op op)
{
    Val *in[16];
    uint32_t n;
    Func *func = op_text_func(f, row->in, in, &n);
    Builder b = ir_at_end(func->body, loc_text(f->ctx, str_intern(f->ctx, "t.ig"), 1, 1));
    diag_clear(f->ctx);
    const Attrs *attrs = op_text_attrs(f, op, row->attrs);
    Text text;
    text_init(&text, f->arena);
    Val *result = NULL;
    if (op_info[op].outs > 0 && (result = op_emit_interned(&b, op, in, n, attrs)) != NULL) {
        const Val *first = result;
        for (uint32_t i = 0; i < (uint32_t)op_info[op].outs; i++) {
            text_add(&text, i ? " " : "");
            type_print(&text, i ? ir_out(result->def, i)->type : first->type);
        }
    } else if (op_info[op].outs <= 0) { /* no results to make: ask the rule */
        const Type *types[16], *out[1] = {NULL};
        for (uint32_t i = 0; i < n; i++)
            types[i] = in[i] ? in[i]->type : NULL;
        ShapeArgs args = {f->ctx, b.loc, op, attrs, types, n, out, 0};
        result = op_defs[op].shape(&args) ? in[0] : NULL;
    }
    if (diag_count(f->ctx))
        text_addf(&text, "!%s", diag_name(diag_get(f->ctx, 0)->id));
    return text.data;
}

static void all_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < IG_COUNT(rows); i++) {
        OpText f = op_text_begin();
        const char *have = infer(&f, &rows[i], rows[i].op);
        if (strcmp(have, rows[i].want) != 0) {
            Text text;
            text_init(&text, f.arena);
            if (diag_count(f.ctx))
                diag_print(f.ctx, &text, diag_get(f.ctx, 0));
            fail_msg("%s(%s) %s: got %s, want %s; %s", op_info[rows[i].op].name, rows[i].in, rows[i].attrs, have,
                     rows[i].want, text.data);
        }
        ctx_destroy(f.ctx);
    }
}

/* A diagnostic names the op, the operands and what is supported. */
static void messages(void **state)
{
    (void)state;
    OpText f = op_text_begin();
    infer(&f, &(Row){OP_exp, "s32[2,3]", "", ""}, OP_exp);
    assert_string_equal(diag_get(f.ctx, 0)->message,
                        "exp: operand 0 has element type s32, supported here: f64 f32 f16 bf16; "
                        "operands: s32[2,3]");
    infer(&f, &(Row){OP_add, "f32[2,N] f32[2,M]", "", ""}, OP_add);
    assert_string_equal(diag_get(f.ctx, 0)->message,
                        "add: axis 1 has sizes N and M, which must be equal or 1; operands: f32[2,N], f32[2,M]");
    ctx_destroy(f.ctx);
}

static void every_op_is_accepted_and_refused(void **state)
{
    (void)state;
    for (int op = 0; op < OP_COUNT; op++) {
        bool accepted = op == OP_call, refused = op == OP_call; /* call: test_op_emit */
        for (size_t i = 0; i < IG_COUNT(rows); i++) {
            accepted |= rows[i].op == (Op)op && rows[i].want[0] != '!';
            refused |= rows[i].op == (Op)op && rows[i].want[0] == '!';
        }
        if (!accepted || !refused)
            fail_msg("%s lacks an %s row", op_info[op].name, accepted ? "refused" : "accepted");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows), cmocka_unit_test(messages),
                                       cmocka_unit_test(every_op_is_accepted_and_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
