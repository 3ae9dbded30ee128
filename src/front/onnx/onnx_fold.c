/* SPDX-License-Identifier: Apache-2.0
 *
 * Folding a BatchNormalization into the Conv, ConvTranspose or Gemm that it reads (numerics.md "Two evaluators"): on that
 * edge, whatever else reads the contraction. W' = W*s, b' = (b - mean)*s + beta, s = scale/sqrt(var + eps), all in f64,
 * rounded once. The contraction's own value stays where something else needs it, and is dead code where nothing does.
 * 16-bit weights are not folded: rounding the product to them would cost more than the fold saves.
 */
#include "front/onnx/onnx_int.h"

#include <math.h>
#include <string.h>

void onnx_note_foldable(OnnxNode *n, enum FoldKindOnnx kind, Val *result)
{
    if (!result)
        return;
    Foldable *f = ARENA_NEW(n->im->arena, Foldable);
    *f = (Foldable){.kind = kind, .x = n->in[0], .w = n->in[1], .bias = node_in(n, 2), .node = *n};
    map_set(n->im->foldable, KEY(result), f);
}

typedef struct Constant {
    DType dtype;
    const void *data;
    uint64_t count;
} Constant;

static bool constant_of(const Val *val, DType dtype, Constant *c)
{
    Weight *weight = val ? val_const(val) : NULL;
    if (!weight || weight->type->dtype != dtype || !type_count(weight->type, &c->count))
        return false;
    c->dtype = dtype;
    c->data = weight->data;
    return true;
}

static double at(const Constant *c, uint64_t i) { return elem_get_f64(c->dtype, c->data, i); }

/* Of which output channel the weight's element i is. */
static uint64_t channel_of(const Foldable *f, int64_t groups, uint64_t i)
{
    const Type *w = f->w->type;
    uint64_t inner = 1;
    for (uint32_t a = 2; a < w->rank; a++)
        inner *= (uint64_t)type_dim(w, a);
    uint64_t minor = (uint64_t)type_dim(w, 1), row = i / inner / minor, column = i / inner % minor;
    if (f->kind == FOLD_OF_CONV)
        return row;
    if (f->kind == FOLD_OF_GEMM)
        return na_int(&f->node, "transB", 0) ? row : column;
    return row / ((uint64_t)type_dim(w, 0) / (uint64_t)groups) * minor + column;
}

/* A Gemm's C that is one number per column, or none. */
static bool gemm_folds(const Foldable *f, uint64_t channels)
{
    if (na_float(&f->node, "alpha", 1) != 1 || na_float(&f->node, "beta", 1) != 1)
        return false;
    if (!f->bias)
        return true;
    uint64_t count;
    uint32_t rank = f->bias->type->rank;
    return type_count(f->bias->type, &count) &&
           (count == 1 || (count == channels && type_dim(f->bias->type, rank - 1) == (int64_t)channels));
}

static Val *make_vector(OnnxNode *n, const Foldable *f, DType dtype, const Constant *bias, const Constant *p, const double *s,
                        uint64_t channels)
{
    int64_t dim = (int64_t)channels;
    const Type *type = type_tensor_s64(n->ctx, dtype, 1, &dim);
    uint8_t *data = arena_array(n->im->module->arena, channels, 8);
    for (uint64_t c = 0; c < channels; c++) {
        double b = f->bias ? at(bias, bias->count == 1 ? 0 : c) : 0;
        elem_set_f64(dtype, data, c, (b - at(&p[2], c)) * s[c] + at(&p[1], c));
    }
    return op_const_weight(n->b, module_weight(n->im->module, str_intern(n->ctx, ""), type, data, false));
}

static Val *make_weight(OnnxNode *n, const Foldable *f, const Constant *w, const double *s, int64_t groups)
{
    uint8_t *data = arena_array(n->im->module->arena, w->count, (size_t)dtype_bits(w->dtype) / 8);
    for (uint64_t i = 0; i < w->count; i++)
        elem_set_f64(w->dtype, data, i, at(w, i) * s[channel_of(f, groups, i)]);
    Str name = val_const(f->w)->name;
    return op_const_weight(n->b, module_weight(n->im->module, str_format(n->ctx, "%s.bn", name), f->w->type, data, false));
}

Val *onnx_fold_batch_norm(OnnxNode *n, double epsilon)
{
    Foldable *f = map_get(n->im->foldable, KEY(n->in[0]));
    Constant w, bias = {0}, p[4]; /* p: scale, beta, mean, variance */
    if (!f || f->x->type->kind != TY_TENSOR)
        return NULL;
    DType dtype = f->w->type->dtype;
    if ((dtype != DT_F32 && dtype != DT_F64) || !constant_of(f->w, dtype, &w) || (f->bias && !constant_of(f->bias, dtype, &bias)))
        return NULL;
    for (uint32_t i = 0; i < 4; i++)
        if (!constant_of(n->in[i + 1], dtype, &p[i]) || p[i].count != p[0].count)
            return NULL;
    uint64_t channels = p[0].count;
    int64_t size, groups = f->kind == FOLD_OF_GEMM ? 1 : na_int(&f->node, "group", 1);
    if (!dim_is_const(n->in[0]->type->dim[1], &size) || (uint64_t)size != channels || w.count == 0 ||
        (f->kind == FOLD_OF_GEMM && !gemm_folds(f, channels)))
        return NULL;
    double *s = arena_array(n->im->arena, channels, sizeof *s);
    for (uint64_t c = 0; c < channels; c++)
        s[c] = at(&p[0], c) / sqrt(at(&p[3], c) + epsilon);
    Loc own = n->b->loc, both[2] = {f->node.loc, own};
    n->b->loc = loc_fused(n->ctx, both, 2);
    OnnxNode node = f->node;
    node.b = n->b;
    Val *folded_w = make_weight(n, f, &w, s, groups), *folded_b = make_vector(n, f, dtype, &bias, p, s, channels), *y;
    if (f->kind == FOLD_OF_CONV)
        y = onnx_build_conv(&node, f->x, folded_w, folded_b);
    else if (f->kind == FOLD_OF_CONV_TRANSPOSE)
        y = onnx_build_conv_transpose(&node, f->x, folded_w, folded_b);
    else
        y = onnx_build_gemm(&node, f->x, folded_w, folded_b);
    n->b->loc = own;
    if (!y)
        ig_bug(n->ctx, "a contraction that was built once could not be built with folded weights");
    return y;
}
