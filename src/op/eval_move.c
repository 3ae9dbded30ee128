/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of sources, data movement and indexed reads, for every element type. Indices count from the end when
 * negative; one out of range is clamped and sets the error word (numerics.md "Edge rules").
 */
#include "op/eval_support.h"

/* ---- sources ------------------------------------------------------------------------------------------------ */

bool eval_const(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    (void)in;
    const Weight *weight = node_weight(node, AN_weight);
    const Type *type = weight->type;
    Tensor *t = out[0] = ARENA_NEW(ec->arena, Tensor);
    t->dtype = t->store = type->dtype;
    t->rank = type->rank;
    t->count = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        t->dim[i] = type_dim(type, i);
        t->count *= (uint64_t)t->dim[i];
    }
    if (ec->mode == EVAL_F64 && dtype_is_float(type->dtype) && type->dtype != DT_F64) {
        Tensor raw = *t;
        raw.data = (void *)(uintptr_t)weight->data;
        out[0] = tensor_new(ec, t->dtype, t->rank, t->dim);
        for (uint64_t i = 0; i < t->count; i++)
            ((double *)out[0]->data)[i] = elem_get_f64(raw.dtype, raw.data, i);
        return true;
    }
    /* a view of a mapped file may lie anywhere; nothing writes to operands, so an aligned one is shared */
    uint64_t bytes = eval_tensor_bytes(t);
    bool aligned = (uintptr_t)weight->data % 16 == 0;
    t->data = aligned ? (void *)(uintptr_t)weight->data : arena_copy(ec->arena, weight->data, (size_t)bytes);
    return true;
}

static void put_number(Tensor *t, uint64_t i, int64_t value) { elem_set_s64(t->store, t->data, i, value); }

bool eval_iota(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    (void)in;
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    Tensor *t = out[0];
    if (eval_class(t) == EC_NONE)
        return eval_refuse(ec, node, t);
    uint64_t inner = 1, axis = (uint64_t)node_int(node, AN_axis);
    for (uint64_t i = axis + 1; i < t->rank; i++)
        inner *= (uint64_t)t->dim[i];
    for (uint64_t i = 0; i < t->count; i++)
        put_number(t, i, (int64_t)(i / inner % (uint64_t)t->dim[axis]));
    return true;
}

bool eval_dimval(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    (void)in;
    int64_t value;
    if (!eval_dim(ec, node_attr(node, AN_dim)->u.dim, &value) || !(out[0] = eval_result(ec, node, 0)))
        return false;
    put_number(out[0], 0, value);
    return true;
}

/* ---- affine moves ------------------------------------------------------------------------------------------- */

/* out[at] = x[base + sum at * stride] */
static void move_affine(Tensor *out, const Tensor *x, int64_t base, const int64_t *stride)
{
    int64_t at[IR_MAX_RANK] = {0};
    uint32_t last = out->rank ? out->rank - 1 : 0;
    uint64_t run = out->rank ? (uint64_t)out->dim[last] : 1;
    for (uint64_t i = 0; i < out->count; i += run) {
        int64_t from = base;
        for (uint32_t axis = 0; axis + 1 < out->rank; axis++)
            from += at[axis] * stride[axis];
        if (out->rank && stride[last] == 1)
            eval_copy_run(out, i, x, (uint64_t)from, run);
        else
            for (uint64_t k = 0; k < run; k++)
                eval_copy(out, i + k, x, (uint64_t)(from + (out->rank ? (int64_t)k * stride[last] : 0)));
        if (out->rank > 1)
            eval_next(last, out->dim, at);
    }
}

bool eval_broadcast(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    int64_t stride[IR_MAX_RANK];
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    eval_strides(in[0], stride);
    for (uint32_t i = 0; i < in[0]->rank; i++)
        if (in[0]->dim[i] == 1)
            stride[i] = 0;
    move_affine(out[0], in[0], 0, stride);
    return true;
}

bool eval_reshape(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    if (out[0]->count != in[0]->count)
        return diag_report(ec->ctx, ec->loc, DIAG_eval_reshape, (unsigned long long)in[0]->count,
                           (unsigned long long)out[0]->count);
    eval_copy_run(out[0], 0, in[0], 0, in[0]->count);
    return true;
}

bool eval_transpose(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const int64_t *perm;
    int64_t stride[IR_MAX_RANK], permuted[IR_MAX_RANK];
    uint32_t rank = node_ints(node, AN_perm, &perm);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    eval_strides(in[0], stride);
    for (uint32_t i = 0; i < rank; i++)
        permuted[i] = stride[perm[i]];
    move_affine(out[0], in[0], 0, permuted);
    return true;
}

bool eval_slice(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Dim *const *starts;
    const int64_t *step;
    int64_t stride[IR_MAX_RANK], base = 0;
    uint32_t rank = node_dims(node, AN_start, &starts);
    node_ints(node, AN_step, &step);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    eval_strides(in[0], stride);
    for (uint32_t i = 0; i < rank; i++) {
        int64_t start, n = out[0]->dim[i];
        if (!eval_dim(ec, starts[i], &start))
            return false;
        int64_t end = start + (n - 1) * step[i];
        if (n && out[0]->count && (start < 0 || start >= in[0]->dim[i] || end < 0 || end >= in[0]->dim[i]))
            return diag_report(ec->ctx, ec->loc, DIAG_eval_slice, (int)i, (long long)start, (long long)end,
                               (long long)in[0]->dim[i]);
        base += start * stride[i];
        stride[i] *= step[i];
    }
    move_affine(out[0], in[0], base, stride);
    return true;
}

bool eval_reverse(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const int64_t *axes;
    int64_t stride[IR_MAX_RANK], base = 0;
    uint32_t n = node_ints(node, AN_axes, &axes);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    eval_strides(in[0], stride);
    for (uint32_t i = 0; i < n; i++) {
        base += (in[0]->dim[axes[i]] - 1) * stride[axes[i]];
        stride[axes[i]] = -stride[axes[i]];
    }
    move_affine(out[0], in[0], base, stride);
    return true;
}

/* Result element p along an axis is operand element (p - lo) / (interior + 1) if that is whole and inside. */
bool eval_pad(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Dim *const *los;
    const int64_t *interior;
    int64_t lo[IR_MAX_RANK], stride[IR_MAX_RANK], at[IR_MAX_RANK] = {0};
    uint32_t rank = node_dims(node, AN_lo, &los);
    node_ints(node, AN_interior, &interior);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    for (uint32_t i = 0; i < rank; i++)
        if (!eval_dim(ec, los[i], &lo[i]))
            return false;
    eval_strides(in[0], stride);
    for (uint64_t i = 0; i < out[0]->count; i++, eval_next(rank, out[0]->dim, at)) {
        int64_t from = 0;
        bool inside = true;
        for (uint32_t axis = 0; axis < rank; axis++) {
            int64_t p = at[axis] - lo[axis], every = interior[axis] + 1;
            inside &= p >= 0 && p % every == 0 && p / every < in[0]->dim[axis];
            from += p / every * stride[axis];
        }
        eval_copy(out[0], i, inside ? in[0] : in[1], inside ? (uint64_t)from : 0);
    }
    return true;
}

bool eval_concat(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    int64_t axis = node_int(node, AN_axis);
    uint64_t inner = 1, outer = 1, done = 0;
    for (uint32_t i = 0; i < out[0]->rank; i++)
        *(i < axis ? &outer : i > axis ? &inner : &(uint64_t){0}) *= (uint64_t)out[0]->dim[i];
    uint64_t row = (uint64_t)out[0]->dim[axis] * inner;
    for (uint32_t k = 0; k < node->n_in; k++) {
        uint64_t part = (uint64_t)in[k]->dim[axis] * inner;
        for (uint64_t o = 0; o < outer; o++)
            eval_copy_run(out[0], o * row + done, in[k], o * part, part);
        done += part;
    }
    return true;
}

/* ---- indexed reads -------------------------------------------------------------------------------------------- */

/* Element i of indices as a position on an axis of n; n = 0: nothing can be read, false. */
static bool position(EvalCtx *ec, const Node *node, const Tensor *indices, uint64_t i, int64_t n, int64_t *at)
{
    int64_t p = eval_index(indices, i);
    if (p < 0 && !eval_unsigned(indices))
        p += n;
    if (p < 0 || p >= n) {
        eval_error(ec, node, EVAL_ERR_INDEX);
        p = p < 0 && !eval_unsigned(indices) ? 0 : n - 1;
    }
    *at = p;
    return n > 0;
}

static uint64_t product(const int64_t *dim, uint32_t from, uint32_t to)
{
    uint64_t n = 1;
    for (uint32_t i = from; i < to; i++)
        n *= (uint64_t)dim[i];
    return n;
}

/* ONNX Gather-13, with leading batch axes: data [B, O, n, I], indices [B, K] -> [B, O, K, I] */
bool eval_gather(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *data = in[0], *indices = in[1];
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    uint32_t axis = (uint32_t)node_int(node, AN_axis), batch = (uint32_t)node_int(node, AN_batch);
    int64_t n = data->dim[axis], at;
    uint64_t b = product(data->dim, 0, batch), o = product(data->dim, batch, axis);
    uint64_t inner = product(data->dim, axis + 1, data->rank), k = product(indices->dim, batch, indices->rank);
    uint64_t to = 0;
    for (uint64_t i = 0; i < b * o; i++)
        for (uint64_t j = 0; j < k; j++, to += inner)
            if (position(ec, node, indices, i / o * k + j, n, &at))
                eval_copy_run(out[0], to, data, (i * (uint64_t)n + (uint64_t)at) * inner, inner);
    return true;
}

/* ONNX GatherElements-13 */
bool eval_gather_elements(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *data = in[0], *indices = in[1];
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    uint32_t axis = (uint32_t)node_int(node, AN_axis);
    int64_t stride[IR_MAX_RANK], at[IR_MAX_RANK] = {0}, p;
    eval_strides(data, stride);
    for (uint64_t i = 0; i < indices->count; i++, eval_next(indices->rank, indices->dim, at)) {
        if (!position(ec, node, indices, i, data->dim[axis], &p))
            continue;
        int64_t from = p * stride[axis];
        for (uint32_t d = 0; d < data->rank; d++)
            from += d == axis ? 0 : at[d] * stride[d];
        eval_copy(out[0], i, data, (uint64_t)from);
    }
    return true;
}

/* ONNX GatherND-13: the last axis of indices holds positions on the q axes behind the batch axes. */
bool eval_gather_nd(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *data = in[0], *indices = in[1];
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    uint32_t batch = (uint32_t)node_int(node, AN_batch), last = indices->rank - 1;
    uint32_t q = (uint32_t)indices->dim[last];
    uint64_t b = product(data->dim, 0, batch), rows = product(indices->dim, batch, last);
    uint64_t inner = product(data->dim, batch + q, data->rank);
    for (uint64_t i = 0; i < b * rows; i++) {
        uint64_t from = i / rows;
        bool some = true;
        for (uint32_t d = 0; d < q; d++) {
            int64_t n = data->dim[batch + d], p;
            some &= position(ec, node, indices, i * q + d, n, &p);
            from = from * (uint64_t)n + (uint64_t)p;
        }
        if (some)
            eval_copy_run(out[0], i * inner, data, from * inner, inner);
    }
    return true;
}

/* ---- indexed writes --------------------------------------------------------------------------------------------- */

typedef enum Combine { SC_NONE, SC_PLUS, SC_TIMES, SC_MAX, SC_MIN } Combine;

static Combine combine_of(const Node *node)
{
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    int i = 0;
    while (i < 4 && !node_str_is(node, AN_combine, names[i]))
        i++;
    return (Combine)i;
}

static int64_t combine_int(Combine how, int64_t a, int64_t b, bool is_unsigned)
{
    bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
    switch (how) {
    case SC_PLUS:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case SC_TIMES:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case SC_MAX:
        return less ? b : a;
    default:
        return less ? a : b;
    }
}

/* to[i] = to[i] (how) from[j], rounded to the dtype at each update */
static void update(Combine how, EvalClass c, Tensor *to, uint64_t i, const Tensor *from, uint64_t j)
{
    union {
        float f;
        double d;
        int64_t s;
    } a, b;
    if (how == SC_NONE) {
        eval_copy(to, i, from, j);
        return;
    }
    eval_fetch(to, c, NULL, i, 1, &a);
    eval_fetch(from, c, NULL, j, 1, &b);
    if (c == EC_INT)
        a.s = combine_int(how, a.s, b.s, eval_unsigned(to));
    else if (c == EC_F32)
        a.f = how == SC_PLUS    ? a.f + b.f
              : how == SC_TIMES ? a.f * b.f
              : how == SC_MAX   ? eval_max_f32(a.f, b.f)
                                : eval_min_f32(a.f, b.f);
    else
        a.d = how == SC_PLUS    ? a.d + b.d
              : how == SC_TIMES ? a.d * b.d
              : how == SC_MAX   ? eval_max_f64(a.d, b.d)
                                : eval_min_f64(a.d, b.d);
    eval_put_at(to, c, i, &a);
}

/* The result begins as a copy of data; false after reporting. */
static bool begin_scatter(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    if (combine_of(node) != SC_NONE && eval_class(in[0]) == EC_NONE)
        return eval_refuse(ec, node, in[0]);
    return eval_identity(ec, node, in, out);
}

/* ONNX ScatterElements-18; updates in ascending order, so without reduction the last wins. */
bool eval_scatter_elements(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *indices = in[1], *updates = in[2];
    if (!begin_scatter(ec, node, in, out))
        return false;
    Combine how = combine_of(node);
    EvalClass c = eval_class(in[0]);
    uint32_t axis = (uint32_t)node_int(node, AN_axis);
    int64_t stride[IR_MAX_RANK], at[IR_MAX_RANK] = {0}, p;
    eval_strides(out[0], stride);
    for (uint64_t i = 0; i < indices->count; i++, eval_next(indices->rank, indices->dim, at)) {
        if (!position(ec, node, indices, i, out[0]->dim[axis], &p))
            continue;
        int64_t to = p * stride[axis];
        for (uint32_t d = 0; d < out[0]->rank; d++)
            to += d == axis ? 0 : at[d] * stride[d];
        update(how, c, out[0], (uint64_t)to, updates, i);
    }
    return true;
}

/* ONNX ScatterND-18 */
bool eval_scatter_nd(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *indices = in[1], *updates = in[2];
    if (!begin_scatter(ec, node, in, out))
        return false;
    Combine how = combine_of(node);
    EvalClass c = eval_class(in[0]);
    uint32_t last = indices->rank - 1, q = (uint32_t)indices->dim[last];
    uint64_t rows = product(indices->dim, 0, last), inner = product(out[0]->dim, q, out[0]->rank);
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t to = 0;
        bool some = true;
        for (uint32_t d = 0; d < q; d++) {
            int64_t n = out[0]->dim[d], p;
            some &= position(ec, node, indices, i * q + d, n, &p);
            to = to * (uint64_t)n + (uint64_t)p;
        }
        for (uint64_t k = 0; some && k < inner; k++)
            update(how, c, out[0], to * inner + k, updates, i * inner + k);
    }
    return true;
}
