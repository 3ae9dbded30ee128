/* SPDX-License-Identifier: Apache-2.0
 *
 * Importers of contractions and normalisations.
 */
#include "front/onnx/onnx_int.h"

#include <math.h>
#include <string.h>

/* [C] -> [C,1,..] against [N,C,spatial..] */
static Val *channel_vector(OnnxNode *n, Val *v, uint32_t rank)
{
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t a = 0; a + 1 < rank; a++)
        dims[a] = a ? dim_const(n->ctx, 1) : v->type->dim[0];
    return op_reshape(n->b, v, rank - 1, dims);
}

static Val *add_bias(OnnxNode *n, Val *y, Val *bias)
{
    if (!y || !bias)
        return y;
    if (val_rank(bias) != 1 || dim_eq(bias->type->dim[0], y->type->dim[1]) != TRI_YES)
        return node_bad(n, "the bias must have one element per output channel"), NULL;
    return op_binary(n->b, OP_add, y, channel_vector(n, bias, y->type->rank));
}

/* ---- convolution ------------------------------------------------------------------------------------------------------------ */

/* [N,C,spatial..] and [.., .., kernel..] with numbers as kernel sizes. */
static bool conv_operands(OnnxNode *n, const Val *x, const Val *w, int64_t *kernel, int64_t *groups)
{
    uint32_t rank = val_rank(x);
    *groups = na_int(n, "group", 1);
    if (rank < 3 || val_rank(w) != rank)
        return node_bad(n, "%s takes [N,C,spatial..] and a weight of the same rank", n->row->type);
    if (*groups < 1 || *groups > INT32_MAX)
        return na_bad(n, "group", "%lld is below 1", (long long)*groups);
    for (uint32_t a = 2; a < rank; a++)
        if (!dim_is_const(w->type->dim[a], &kernel[a - 2]) || kernel[a - 2] < 1)
            return node_bad(n, "the kernel sizes of the weight must be numbers of 1 or more");
    return true;
}

static Val *emit_conv(OnnxNode *n, Val *x, Val *w, const Window *win, const int64_t *holes, int64_t groups, bool flip)
{
    Val *in[2] = {x, w};
    AttrVal attrs[7] = {attr_ints(win->stride, win->n), attr_ints(win->lo, win->n),  attr_ints(win->hi, win->n),
                        attr_ints(win->dilation, win->n), attr_ints(holes, win->n), attr_int(groups), attr_bool(flip)};
    return op_emit(n->b, OP_conv, in, 2, attrs, 7);
}

Val *onnx_build_conv(OnnxNode *n, Val *x, Val *w, Val *bias)
{
    int64_t kernel[IR_MAX_RANK], ones[IR_MAX_RANK], groups, outs;
    Window win;
    if (!conv_operands(n, x, w, kernel, &groups))
        return NULL;
    if (dim_is_const(w->type->dim[0], &outs) && outs % groups)
        return na_bad(n, "group", "%lld output channels do not divide into %lld groups", (long long)outs, (long long)groups), NULL;
    if (dim_eq(x->type->dim[1], dim_mul(n->ctx, w->type->dim[1], dim_const(n->ctx, groups))) == TRI_NO)
        return node_bad(n, "the channels of the input are not group (%lld) times those of the weight", (long long)groups), NULL;
    if (!window_read(n, x->type->dim + 2, x->type->rank - 2, kernel, &win))
        return NULL;
    for (uint32_t a = 0; a < win.n; a++)
        ones[a] = 1;
    return add_bias(n, emit_conv(n, x, w, &win, ones, groups, false), bias);
}

bool import_conv(OnnxNode *n)
{
    Val *y = onnx_build_conv(n, n->in[0], n->in[1], node_in(n, 2));
    onnx_note_foldable(n, FOLD_OF_CONV, y);
    return node_done(n, y);
}

/* [C, M/g, kernel..] -> [M, C/g, kernel..] */
static Val *transposed_weight(OnnxNode *n, Val *w, int64_t groups)
{
    Context *c = n->ctx;
    uint32_t rank = w->type->rank;
    const Dim *g = dim_const(c, groups), *dims[IR_MAX_RANK + 1];
    int64_t perm[IR_MAX_RANK + 1];
    if (rank + 1 > IR_MAX_RANK)
        return node_bad(n, "ConvTranspose of rank %u, at most %d is supported", rank, IR_MAX_RANK - 1), NULL;
    if (dim_divides(g, w->type->dim[0]) != TRI_YES)
        return na_bad(n, "group", "%lld does not divide the channels of the weight", (long long)groups), NULL;
    dims[0] = g;
    dims[1] = dim_floordiv(c, w->type->dim[0], g);
    memcpy(dims + 2, w->type->dim + 1, (rank - 1) * sizeof *dims);
    for (uint32_t a = 0; a <= rank; a++)
        perm[a] = a == 1 ? 2 : a == 2 ? 1 : a;
    Val *y = op_transpose(n->b, op_reshape(n->b, w, rank + 1, dims), perm);
    const Dim *out[IR_MAX_RANK];
    out[0] = dim_mul(c, w->type->dim[1], g);
    out[1] = dims[1];
    memcpy(out + 2, w->type->dim + 2, (rank - 2) * sizeof *out);
    return op_reshape(n->b, y, rank, out);
}

/* Pads from output_shape or auto_pad (ConvTranspose-11): total = stride * (size - 1) + output_padding + reach - output. */
static bool transpose_pads(OnnxNode *n, const Type *x, Window *win, const int64_t *extra)
{
    const char *mode = na_str(n, "auto_pad", "NOTSET");
    uint32_t count;
    const int64_t *shape = na_ints(n, "output_shape", &count);
    bool same = !strncmp(mode, "SAME", 4);
    if (shape && count == win->n + 2) { /* with batch and channels, as some exporters write it */
        shape += 2;
        count -= 2;
    }
    if (shape && count != win->n)
        return na_bad(n, "output_shape", "it has %u entries, expected %u", count, win->n);
    for (uint32_t a = 0; a < win->n && (shape || same); a++) {
        int64_t size;
        if (!dim_is_const(x->dim[a + 2], &size))
            return node_bad(n, "spatial axis %u has a symbolic size; pads that depend on it are not supported", a);
        int64_t out = shape ? shape[a] : size * win->stride[a];
        if (out < 1 || out > INT32_MAX || size > INT32_MAX)
            return na_bad(n, "output_shape", "entry %u is %lld, supported are 1 to 2^31-1", a, (long long)out);
        int64_t total = win->stride[a] * (size - 1) + extra[a] + window_reach(win, a) - out;
        win->lo[a] = total < 0 ? 0 : !strcmp(mode, "SAME_UPPER") ? total / 2 : total - total / 2;
        win->hi[a] = total - win->lo[a]; /* negative: zeros at the end */
    }
    return true;
}

/* As a convolution over the input with holes: reach - 1 - pad elements of zeros around, taps in reverse (numerics.md:
 * the chain runs over (kh, kw, ic) of the ONNX filter). */
Val *onnx_build_conv_transpose(OnnxNode *n, Val *x, Val *w, Val *bias)
{
    int64_t kernel[IR_MAX_RANK], holes[IR_MAX_RANK], extra[IR_MAX_RANK] = {0}, groups;
    uint32_t count;
    Window win;
    if (!conv_operands(n, x, w, kernel, &groups))
        return NULL;
    const int64_t *given = na_ints(n, "output_padding", &count);
    if (!window_read(n, x->type->dim + 2, x->type->rank - 2, kernel, &win))
        return NULL;
    if (given && count != win.n)
        return na_bad(n, "output_padding", "it has %u entries, expected %u", count, win.n), NULL;
    for (uint32_t a = 0; a < win.n; a++) {
        extra[a] = given ? given[a] : 0;
        if (extra[a] < 0 || extra[a] > INT32_MAX)
            return na_bad(n, "output_padding", "entry %u is %lld", a, (long long)extra[a]), NULL;
    }
    if (dim_eq(x->type->dim[1], w->type->dim[0]) == TRI_NO)
        return node_bad(n, "the channels of the input are not those of the weight"), NULL;
    if (!transpose_pads(n, x->type, &win, extra))
        return NULL;
    for (uint32_t a = 0; a < win.n; a++) {
        win.lo[a] = window_reach(&win, a) - 1 - win.lo[a];
        win.hi[a] = window_reach(&win, a) - 1 - win.hi[a] + extra[a];
        holes[a] = win.stride[a];
        win.stride[a] = 1;
    }
    Val *turned = transposed_weight(n, w, groups);
    return turned ? add_bias(n, emit_conv(n, x, turned, &win, holes, groups, true), bias) : NULL;
}

bool import_conv_transpose(OnnxNode *n)
{
    Val *y = onnx_build_conv_transpose(n, n->in[0], n->in[1], node_in(n, 2));
    onnx_note_foldable(n, FOLD_OF_CONV_TRANSPOSE, y);
    return node_done(n, y);
}

/* ---- matrices ----------------------------------------------------------------------------------------------------------------- */

/* alpha * A' B' + beta * C. Transposition is the choice of the contracted axis. */
Val *onnx_build_gemm(OnnxNode *n, Val *x, Val *w, Val *bias)
{
    float alpha = (float)na_float(n, "alpha", 1), beta = (float)na_float(n, "beta", 1);
    bool trans_a = na_int(n, "transA", 0) != 0, trans_b = na_int(n, "transB", 0) != 0;
    if (val_rank(x) != 2 || val_rank(w) != 2)
        return node_bad(n, "Gemm takes matrices"), NULL;
    int64_t k_x = !trans_a, k_w = trans_b;
    Val *y = op_dot(n->b, x, w, NULL, NULL, 0, &k_x, &k_w, 1);
    if (y && alpha != 1)
        y = op_binary(n->b, OP_mul, y, op_const_f64(n->b, y->type->dtype, alpha));
    if (!y || !bias)
        return y;
    if (beta != 1)
        bias = op_binary(n->b, OP_mul, bias, op_const_f64(n->b, bias->type->dtype, beta));
    const Type *product = y->type;
    y = op_binary(n->b, OP_add, y, bias);
    if (y && y->type != product)
        return node_bad(n, "C of Gemm does not stretch to the product"), NULL;
    return y;
}

bool import_gemm(OnnxNode *n)
{
    Val *y = onnx_build_gemm(n, n->in[0], n->in[1], node_in(n, 2));
    onnx_note_foldable(n, FOLD_OF_GEMM, y);
    return node_done(n, y);
}

bool import_mat_mul(OnnxNode *n) { return node_done(n, op_matmul(n->b, n->in[0], n->in[1])); }

/* ---- normalisation ------------------------------------------------------------------------------------------------------------ */

/* Whether the statistics are those of the batch: training_mode, which operator set 14 defines. */
static bool batch_norm_form(OnnxNode *n, bool *training)
{
    *training = na_int(n, "training_mode", 0) != 0;
    if (n->row->since < 7 && !na_int(n, "is_test", 0))
        return na_bad(n, "is_test", "training is supported from operator set 14 on");
    if (!na_int(n, "spatial", 1))
        return na_bad(n, "spatial", "0 is not supported, supported is 1");
    if (!*training && n->n_out > 1 && *n->proto->output.data[1])
        return node_bad(n, "BatchNormalization has one output but in training_mode, which is supported from operator set 14 on");
    for (uint32_t i = 1; i < 5; i++) { /* from 15 on the vectors may have other types than x */
        const Type *x = n->in[0]->type, *type = n->in[i]->type;
        if (!dtype_is_float(type->dtype))
            return node_bad(n, "BatchNormalization takes floats");
        if (x->rank >= 2 && (type->rank != 1 || dim_eq(type->dim[0], x->dim[1]) == TRI_NO))
            return node_bad(n, "input %u of BatchNormalization must have one element per channel", i);
    }
    return true;
}

/* running * momentum + of_batch * (1 - momentum), in the type of the running input */
static Val *running_statistic(OnnxNode *n, uint32_t input, Val *running, Val *of_batch)
{
    Builder *b = n->b;
    double momentum = na_float(n, "momentum", 0.9f);
    if (!of_batch)
        return NULL;
    Val *old = op_binary(b, OP_mul, running, op_like(b, running, momentum));
    Val *recent = op_binary(b, OP_mul, of_batch, op_like(b, of_batch, 1 - momentum));
    return op_cast_to(b, op_binary(b, OP_add, old, recent), n->in[input]->type->dtype);
}

/* BatchNormalization-14 in training mode: in[3] and in[4] become mean and population variance of the batch, per channel;
 * the outputs behind Y are the running ones. */
static bool batch_statistics(OnnxNode *n, Val **in)
{
    Builder *b = n->b;
    const Type *x = in[0]->type;
    int64_t axes[IR_MAX_RANK];
    uint32_t count = 0;
    if (x->rank < 2)
        return node_bad(n, "BatchNormalization in training_mode needs an input of rank 2 or more, this one has %u", x->rank);
    for (uint32_t a = 0; a < x->rank; a++)
        if (a != 1)
            axes[count++] = a;
    AttrVal attr = attr_ints(axes, count);
    Val *mean = op_emit(b, OP_mean, &in[0], 1, &attr, 1), *off = op_binary(b, OP_sub, in[0], mean);
    Val *square = op_binary(b, OP_mul, off, off), *variance = square ? op_emit(b, OP_mean, &square, 1, &attr, 1) : NULL;
    if (!variance)
        return false;
    Val *statistic[2] = {op_reshape(b, mean, 1, &x->dim[1]), op_reshape(b, variance, 1, &x->dim[1])};
    for (uint32_t i = 0; i < 2; i++) {
        if (n->n_out > 1 + i)
            n->out[1 + i] = running_statistic(n, 3 + i, in[3 + i], statistic[i]);
        in[3 + i] = statistic[i];
    }
    return in[3] && in[4];
}

bool import_batch_normalization(OnnxNode *n)
{
    bool training;
    if (!batch_norm_form(n, &training))
        return false;
    DType dtype = n->in[0]->type->dtype, wide = dtype;
    double epsilon = na_float(n, "epsilon", 1e-5f);
    Val *in[5], *folded = training || n->im->options->strict ? NULL : onnx_fold_batch_norm(n, epsilon);
    if (folded)
        return node_done(n, folded);
    for (uint32_t i = 1; i < 5; i++)
        wide = dtype_bits(n->in[i]->type->dtype) > dtype_bits(wide) ? n->in[i]->type->dtype : wide;
    if (training && dtype_bits(wide) < 32) /* "computed in float for float16 inputs" */
        wide = DT_F32;
    for (uint32_t i = 0; i < 5; i++)
        in[i] = op_cast_to(n->b, n->in[i], wide);
    if (training && !batch_statistics(n, in))
        return false;
    AttrVal attr = attr_float(epsilon);
    return node_done(n, op_cast_to(n->b, op_emit(n->b, OP_batch_norm, in, 5, &attr, 1), dtype));
}

static uint32_t axes_from(uint32_t first, uint32_t rank, int64_t *axes)
{
    uint32_t count = 0;
    for (uint32_t a = first; a < rank; a++)
        axes[count++] = a;
    return count;
}

/* stash_type 1: inside in f32, as every composite of 16-bit floats here. */
static bool check_stash(const OnnxNode *n)
{
    int64_t stash = na_int(n, "stash_type", 1);
    return stash == 1 || dtype_from_onnx(stash) == n->in[0]->type->dtype
               ? true
               : na_bad(n, "stash_type", "%lld is not supported, supported is 1 (f32)", (long long)stash);
}

/* Mean and InvStdDev, in the stash type */
static bool layer_statistics(OnnxNode *n, const int64_t *axes, uint32_t count, double epsilon)
{
    Builder *b = n->b;
    DType wide = n->in[0]->type->dtype == DT_F64 ? DT_F64 : DT_F32;
    Val *x = op_cast_to(b, n->in[0], wide);
    AttrVal attr = attr_ints(axes, count);
    Val *mean = op_emit(b, OP_mean, &x, 1, &attr, 1), *d = op_binary(b, OP_sub, x, mean), *square = op_binary(b, OP_mul, d, d);
    Val *variance = square ? op_emit(b, OP_mean, &square, 1, &attr, 1) : NULL;
    Val *deviation = op_unary(b, OP_sqrt, op_binary(b, OP_add, variance, op_const_f64(b, wide, epsilon)));
    n->out[1] = mean;
    if (n->n_out > 2)
        n->out[2] = op_binary(b, OP_div, op_const_f64(b, wide, 1), deviation);
    return mean && deviation;
}

bool import_layer_normalization(OnnxNode *n)
{
    const Type *x = n->in[0]->type;
    uint32_t axis;
    int64_t axes[IR_MAX_RANK];
    double epsilon = na_float(n, "epsilon", 1e-5f);
    if (!node_axis(n, "axis", na_int(n, "axis", -1), x->rank, &axis) || !check_stash(n))
        return false;
    uint32_t count = axes_from(axis, x->rank, axes);
    AttrVal attrs[2] = {attr_ints(axes, count), attr_float(epsilon)};
    n->out[0] = op_emit(n->b, OP_layer_norm, n->in, n->n_in, attrs, 2);
    return n->out[0] && (n->n_out < 2 || layer_statistics(n, axes, count, epsilon));
}

bool import_rms_normalization(OnnxNode *n)
{
    const Type *x = n->in[0]->type;
    uint32_t axis;
    int64_t axes[IR_MAX_RANK];
    if (!node_axis(n, "axis", na_int(n, "axis", -1), x->rank, &axis) || !check_stash(n))
        return false;
    AttrVal attrs[2] = {attr_ints(axes, axes_from(axis, x->rank, axes)), attr_float(na_float(n, "epsilon", 1e-5f))};
    Val *in[2] = {n->in[0], n->in[1]};
    bool mixed = in[1]->type->dtype != x->dtype; /* x and scale may have different types: the result has scale's */
    DType wide = dtype_bits(in[1]->type->dtype) > dtype_bits(x->dtype) ? in[1]->type->dtype : x->dtype;
    for (uint32_t i = 0; i < 2 && mixed; i++)
        in[i] = op_cast_to(n->b, in[i], wide);
    return node_done(n, op_cast_to(n->b, op_emit(n->b, OP_rms_norm, in, 2, attrs, 2), n->in[1]->type->dtype));
}

bool import_instance_normalization(OnnxNode *n)
{
    AttrVal attr = attr_float(na_float(n, "epsilon", 1e-5f));
    return node_done(n, op_emit(n->b, OP_instance_norm, n->in, 3, &attr, 1));
}

bool import_group_normalization(OnnxNode *n)
{
    int64_t groups = na_int(n, "num_groups", 0);
    if (groups < 1)
        return na_bad(n, "num_groups", "%lld is below 1", (long long)groups);
    AttrVal attrs[2] = {attr_int(groups), attr_float(na_float(n, "epsilon", 1e-5f))};
    return check_stash(n) && node_done(n, op_emit(n->b, OP_group_norm, n->in, 3, attrs, 2));
}

bool import_lrn(OnnxNode *n)
{
    int64_t size = na_int(n, "size", 0);
    if (size < 1 || size > INT32_MAX)
        return na_bad(n, "size", "%lld is below 1 or above 2^31-1", (long long)size);
    AttrVal attrs[4] = {attr_int(size), attr_float(na_float(n, "alpha", 1e-4f)), attr_float(na_float(n, "beta", 0.75)),
                        attr_float(na_float(n, "bias", 1))};
    return node_done(n, op_emit(n->b, OP_lrn, n->in, 1, attrs, 4));
}

/* MeanVarianceNormalization-13, its function body: (x - E[x]) / (sqrt(E[x^2] - E[x]^2) + 1e-9) */
bool import_mean_variance_normalization(OnnxNode *n)
{
    static const int64_t channels_last[3] = {0, 2, 3};
    Builder *b = n->b;
    DType dtype = n->in[0]->type->dtype;
    Val *x = node_widened(n, n->in[0]), *square = op_binary(b, OP_mul, x, x);
    int64_t axes[IR_MAX_RANK];
    uint32_t count;
    const int64_t *given = na_ints(n, "axes", &count);
    if (!node_axes(n, "axes", given ? given : channels_last, given ? count : 3, x->type->rank, axes))
        return false;
    AttrVal attr = attr_ints(axes, given ? count : 3);
    Val *mean = op_emit(b, OP_mean, &x, 1, &attr, 1), *second = square ? op_emit(b, OP_mean, &square, 1, &attr, 1) : NULL;
    Val *variance = op_binary(b, OP_sub, second, op_binary(b, OP_mul, mean, mean));
    Val *deviation = op_unary(b, OP_sqrt, variance);
    if (!deviation)
        return false;
    deviation = op_binary(b, OP_add, deviation, op_const_f64(b, x->type->dtype, 1e-9));
    return node_done_as(n, op_binary(b, OP_div, op_binary(b, OP_sub, x, mean), deviation), dtype);
}

/* x divided by its 1- or 2-norm along an axis; 0 where the norm is 0. */
bool import_lp_normalization(OnnxNode *n)
{
    Builder *b = n->b;
    DType dtype = n->in[0]->type->dtype;
    Val *x = node_widened(n, n->in[0]);
    uint32_t axis;
    int64_t p = na_int(n, "p", 2);
    if (p != 1 && p != 2)
        return na_bad(n, "p", "%lld is neither 1 nor 2", (long long)p);
    if (!node_axis(n, "axis", na_int(n, "axis", -1), x->type->rank, &axis))
        return false;
    int64_t along = axis;
    Val *term = p == 1 ? op_unary(b, OP_abs, x) : op_binary(b, OP_mul, x, x);
    Val *norm = op_reduce(b, term, "sum", &along, 1);
    norm = p == 1 ? norm : op_unary(b, OP_sqrt, norm);
    if (!norm)
        return false;
    Val *none = op_binary(b, OP_eq, norm, op_const_f64(b, x->type->dtype, 0));
    norm = op_select(b, none, op_const_f64(b, x->type->dtype, 1), norm);
    return node_done_as(n, op_binary(b, OP_div, x, norm), dtype);
}
