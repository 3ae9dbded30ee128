/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention-23 .. 25: heads are split, caches joined, shared heads repeated and offsets turned into masks here; what is left
 * is `sdpa`.
 */
#include "front/onnx/onnx_int.h"

#include <math.h>
#include <string.h>

typedef struct Attention {
    Val *q, *k, *v, *mask; /* [B,H,T,d] [B,H,S,d] [B,H,S,e]; mask: bool or float, or NULL */
    const Dim *past;       /* keys before the first query; NULL: depends on the batch entry */
    bool flat;             /* 3-D inputs */
    double scale, cap;
} Attention;

/* [B,S,H*d] -> [B,H,S,d] */
static Val *split_heads(OnnxNode *n, Val *x, const char *name)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    Context *c = n->ctx;
    int64_t heads = na_int(n, name, 0);
    if (heads < 1 || heads > INT32_MAX)
        return na_bad(n, name, "it must be 1 or more for 3-D inputs"), NULL;
    const Dim *h = dim_const(c, heads);
    if (dim_divides(h, x->type->dim[2]) != TRI_YES)
        return na_bad(n, name, "%lld heads do not divide the hidden size", (long long)heads), NULL;
    const Dim *dims[4] = {x->type->dim[0], x->type->dim[1], h, dim_floordiv(c, x->type->dim[2], h)};
    return op_transpose(n->b, op_reshape(n->b, x, 4, dims), perm);
}

static bool read_operands(OnnxNode *n, Attention *at)
{
    Val **slot[3] = {&at->q, &at->k, &at->v};
    uint32_t rank = val_rank(n->in[0]);
    at->flat = rank == 3;
    for (uint32_t i = 0; i < 3; i++) {
        if (val_rank(n->in[i]) != rank || (rank != 3 && rank != 4) || !dtype_is_float(n->in[i]->type->dtype))
            return node_bad(n, "Attention takes Q, K, V of rank 4, or all of rank 3, of floats");
        *slot[i] = at->flat ? split_heads(n, n->in[i], i ? "kv_num_heads" : "q_num_heads") : n->in[i];
        if (!*slot[i])
            return false;
    }
    return true;
}

/* present = past ++ new; also results 1 and 2. */
static bool join_past(OnnxNode *n, Attention *at)
{
    Val *past_k = node_in(n, 4), *past_v = node_in(n, 5);
    at->past = dim_const(n->ctx, 0);
    if (!past_k != !past_v)
        return node_bad(n, "past_key and past_value come together");
    if (past_k) {
        if (val_rank(past_k) != 4 || val_rank(past_v) != 4)
            return node_bad(n, "past_key and past_value have rank 4");
        at->past = past_k->type->dim[2];
        at->k = op_concat(n->b, (Val *[]){past_k, at->k}, 2, 2);
        at->v = op_concat(n->b, (Val *[]){past_v, at->v}, 2, 2);
    }
    if (n->n_out > 1)
        n->out[1] = at->k;
    if (n->n_out > 2)
        n->out[2] = at->v;
    return at->k && at->v;
}

/* Each head of k or v serves `times` heads of q in a row. */
static Val *repeat_heads(OnnxNode *n, Val *x, const Dim *times)
{
    const Type *t = x->type;
    const Dim *one = dim_const(n->ctx, 1), *heads = dim_mul(n->ctx, t->dim[1], times);
    const Dim *apart[5] = {t->dim[0], t->dim[1], one, t->dim[2], t->dim[3]}, *wide[5], *out[4] = {t->dim[0], heads, t->dim[2], t->dim[3]};
    memcpy(wide, apart, sizeof wide);
    wide[2] = times;
    return op_reshape(n->b, op_broadcast(n->b, op_reshape(n->b, x, 5, apart), 5, wide), 4, out);
}

static bool share_heads(OnnxNode *n, Attention *at)
{
    const Dim *q = at->q->type->dim[1], *k = at->k->type->dim[1];
    if (dim_eq(q, k) == TRI_YES)
        return true;
    int64_t heads;
    if (dim_eq(k, at->v->type->dim[1]) != TRI_YES || !dim_is_const(k, &heads) || heads < 1 || dim_divides(k, q) != TRI_YES)
        return node_bad(n, "the heads of K and V must be equal and divide those of Q");
    const Dim *times = dim_floordiv(n->ctx, q, k);
    at->k = repeat_heads(n, at->k, times);
    at->v = repeat_heads(n, at->v, times);
    return at->k && at->v;
}

/* 0, 1, .. along one of four axes */
static Val *positions(OnnxNode *n, const Dim *size, uint32_t axis)
{
    const Dim *one = dim_const(n->ctx, 1), *dims[4] = {one, one, one, one};
    dims[axis] = size;
    AttrVal attrs[3] = {attr_dtype(DT_S64), attr_dims(dims, 4), attr_int(axis)};
    return op_emit(n->b, OP_iota, NULL, 0, attrs, 3);
}

static Val *both(OnnxNode *n, Val *a, Val *b) { return !a ? b : !b ? a : op_binary(n->b, OP_and, a, b); }

/* A mask that ends before the keys do is continued by "removed". */
static Val *lengthen_mask(OnnxNode *n, Val *mask, const Dim *keys)
{
    uint32_t rank = mask->type->rank;
    const Dim *have = mask->type->dim[rank - 1];
    int64_t size;
    if (dim_eq(have, keys) == TRI_YES || (dim_is_const(have, &size) && size == 1 && dim_le(keys, have) != TRI_YES))
        return mask;
    DType dtype = mask->type->dtype;
    Val *removed = dtype == DT_BOOL ? op_const_s64(n->b, DT_BOOL, 0) : op_const_f64(n->b, dtype, -INFINITY);
    return op_pad_end(n->b, mask, rank - 1, dim_sub(n->ctx, keys, have), removed);
}

/* Which keys position and length alone allow: causal order, windows (25), padding (24). NULL: all. */
static bool allowed_keys(OnnxNode *n, Attention *at, bool *causal, Val **allowed)
{
    Builder *b = n->b;
    const Dim *rows = at->q->type->dim[2], *keys = at->k->type->dim[2], *batch = at->q->type->dim[0];
    int64_t left = na_int(n, "left_window_size", -1), right = na_int(n, "right_window_size", -1), zero;
    Val *valid = node_in(n, 6), *row = positions(n, rows, 2), *key = positions(n, keys, 3);
    *allowed = NULL;
    *causal = na_int(n, "is_causal", 0) != 0;
    if (left < -1 || right < -1)
        return na_bad(n, left < -1 ? "left_window_size" : "right_window_size", "it is below -1");
    Val *offset = op_dimval(b, at->past);
    if (valid) {
        if (node_in(n, 4))
            return node_bad(n, "nonpad_kv_seqlen and past_key exclude each other");
        if (val_rank(valid) != 1 || valid->type->dtype != DT_S64 || dim_eq(valid->type->dim[0], batch) != TRI_YES)
            return node_bad(n, "nonpad_kv_seqlen is s64[batch]");
        const Dim *one = dim_const(n->ctx, 1), *dims[4] = {batch, one, one, one};
        Val *lengths = op_reshape(b, valid, 4, dims);
        *allowed = op_binary(b, OP_lt, key, lengths);
        offset = op_binary(b, OP_sub, lengths, op_dimval(b, rows));
    }
    row = op_binary(b, OP_add, row, offset);
    bool shifted = valid || !(dim_is_const(at->past, &zero) && zero == 0);
    if (*causal && shifted) {
        *allowed = both(n, *allowed, op_binary(b, OP_le, key, row));
        *causal = false;
    }
    if (left >= 0)
        *allowed = both(n, *allowed, op_binary(b, OP_le, op_binary(b, OP_sub, row, op_const_s64(b, DT_S64, left)), key));
    if (right >= 0)
        *allowed = both(n, *allowed, op_binary(b, OP_le, key, op_binary(b, OP_add, row, op_const_s64(b, DT_S64, right))));
    return true;
}

static bool make_mask(OnnxNode *n, Attention *at, bool *causal)
{
    Val *mask = node_in(n, 3), *allowed;
    if (mask && (val_rank(mask) < 1 || val_rank(mask) > 4 ||
                 (mask->type->dtype != DT_BOOL && mask->type->dtype != at->q->type->dtype)))
        return node_bad(n, "attn_mask is bool or of the type of Q, of rank 1 to 4");
    if (mask && !(mask = lengthen_mask(n, mask, at->k->type->dim[2])))
        return false;
    if (!allowed_keys(n, at, causal, &allowed))
        return false;
    if (mask && allowed)
        mask = mask->type->dtype == DT_BOOL
                   ? both(n, mask, allowed)
                   : op_select(n->b, allowed, mask, op_const_f64(n->b, mask->type->dtype, -INFINITY));
    at->mask = mask ? mask : allowed;
    return true;
}

/* Output 3: scores at one of four places. */
static Val *score_output(OnnxNode *n, const Attention *at, bool causal)
{
    Builder *b = n->b;
    static const int64_t batch[2] = {0, 1}, depth = 3;
    int64_t mode = na_int(n, "qk_matmul_output_mode", 0), keys = 3;
    DType dtype = at->q->type->dtype;
    Val *factor = op_const_f64(b, dtype, sqrt(at->scale));
    Val *q = op_binary(b, OP_mul, at->q, factor), *k = op_binary(b, OP_mul, at->k, factor);
    Val *s = op_dot(b, q, k, batch, batch, 2, &depth, &depth, 1);
    Val *lowest = op_const_f64(b, dtype, -INFINITY);
    if (at->cap > 0 && mode > 0) {
        Val *cap = op_const_f64(b, dtype, at->cap);
        s = op_binary(b, OP_mul, op_unary(b, OP_tanh, op_binary(b, OP_div, s, cap)), cap);
    }
    if (mode < 2)
        return s;
    if (at->mask)
        s = at->mask->type->dtype == DT_BOOL ? op_select(b, at->mask, s, lowest) : op_binary(b, OP_add, s, at->mask);
    if (causal) {
        Val *key = positions(n, at->k->type->dim[2], 3);
        s = op_select(b, op_binary(b, OP_le, key, positions(n, at->q->type->dim[2], 2)), s, lowest);
    }
    if (mode < 3 || !s)
        return s;
    AttrVal attrs[2] = {attr_ints(&keys, 1), attr_str(n->ctx, "mul")};
    Val *p = op_emit(b, OP_softmax, &s, 1, attrs, 2), *top = op_reduce(b, s, "max", &keys, 1);
    Val *empty = op_binary(b, OP_eq, top, lowest); /* all keys removed: a row of zeros */
    return op_select(b, empty, op_const_f64(b, dtype, 0), p);
}

bool import_attention(OnnxNode *n)
{
    static const int64_t perm[4] = {0, 2, 1, 3};
    Attention at = {.cap = na_float(n, "softcap", 0)};
    int64_t depth, mode = na_int(n, "qk_matmul_output_mode", 0), precision = na_int(n, "softmax_precision", 1);
    bool causal = false;
    if (mode < 0 || mode > 3)
        return na_bad(n, "qk_matmul_output_mode", "%lld is not in 0 to 3", (long long)mode);
    if (!read_operands(n, &at))
        return false;
    if (dtype_bits(dtype_from_onnx(precision)) > 32 && at.q->type->dtype != DT_F64)
        return na_bad(n, "softmax_precision", "%lld is not supported, supported is up to f32", (long long)precision);
    if (!dim_is_const(at.q->type->dim[3], &depth) || depth < 1)
        return node_bad(n, "the head size must be a number of 1 or more");
    at.scale = na_float(n, "scale", 1 / sqrt((double)depth));
    if (!(at.scale >= 0) || isinf(at.scale))
        return na_bad(n, "scale", "%g is not a finite number of 0 or more", at.scale);
    if (!join_past(n, &at) || !share_heads(n, &at) || !make_mask(n, &at, &causal))
        return false;
    if (n->n_out > 3 && *n->proto->output.data[3] && !(n->out[3] = score_output(n, &at, causal)))
        return false;
    Val *in[4] = {at.q, at.k, at.v, at.mask};
    AttrVal attrs[3] = {attr_float(at.scale), attr_bool(causal), attr_float(at.cap)};
    Val *y = op_emit(n->b, OP_sdpa, in, at.mask ? 4 : 3, attrs, 3);
    if (y && at.flat) {
        y = op_transpose(n->b, y, perm);
        const Type *t = y ? y->type : NULL;
        const Dim *dims[3] = {t ? t->dim[0] : NULL, t ? t->dim[1] : NULL, t ? dim_mul(n->ctx, t->dim[2], t->dim[3]) : NULL};
        y = y ? op_reshape(n->b, y, 3, dims) : NULL;
    }
    return node_done(n, y);
}
