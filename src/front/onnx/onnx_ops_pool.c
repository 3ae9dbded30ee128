/* SPDX-License-Identifier: Apache-2.0
 *
 * Importers of pools.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

/* A window over all axes, batch and channels included. */
static void all_axes(const Window *w, AttrVal *attrs, int64_t store[5][IR_MAX_RANK])
{
    const int64_t *lists[5] = {w->size, w->stride, w->lo, w->hi, w->dilation};
    for (uint32_t i = 0; i < 5; i++) {
        store[i][0] = store[i][1] = i == 2 || i == 3 ? 0 : 1;
        memcpy(store[i] + 2, lists[i], w->n * sizeof(int64_t));
        attrs[i] = attr_ints(store[i], w->n + 2);
    }
}

static bool pool_window(OnnxNode *n, Window *w)
{
    const Type *x = n->in[0]->type;
    if (val_rank(n->in[0]) < 3)
        return node_bad(n, "%s takes [N,C,spatial..]", n->row->type);
    if (!window_read(n, x->dim + 2, x->rank - 2, NULL, w))
        return false;
    for (uint32_t a = 0; a < w->n; a++)
        if (w->lo[a] < 0 || w->hi[a] < 0 || w->lo[a] >= window_reach(w, a))
            return na_bad(n, "pads", "entry %u is %lld; pads of pools are 0 or more and smaller than the window", a,
                          (long long)(w->lo[a] < 0 || w->lo[a] >= window_reach(w, a) ? w->lo[a] : w->hi[a]));
    return true;
}

/* Indices are positions in the flattened input: those of argwindow are within one channel. */
static Val *pool_indices(OnnxNode *n, const AttrVal *window)
{
    Context *c = n->ctx;
    const Type *x = n->in[0]->type;
    AttrVal attrs[7];
    memcpy(attrs, window, 6 * sizeof *attrs);
    attrs[6] = attr_str(c, na_int(n, "storage_order", 0) ? "column" : "row");
    Val *inside = op_emit(n->b, OP_argwindow, n->in, 1, attrs, 7);
    if (!inside)
        return NULL;
    const Dim *dims[IR_MAX_RANK], *flat[1] = {dim_mul(c, x->dim[0], x->dim[1])};
    for (uint32_t a = 0; a < x->rank; a++)
        dims[a] = a < 2 ? x->dim[a] : dim_const(c, 1);
    AttrVal iota[3] = {attr_dtype(DT_S64), attr_dims(flat, 1), attr_int(0)};
    Val *channel = op_reshape(n->b, op_emit(n->b, OP_iota, NULL, 0, iota, 3), x->rank, dims);
    Val *start = op_binary(n->b, OP_mul, channel, op_dimval(n->b, dim_product(c, x->dim + 2, x->rank - 2)));
    return op_binary(n->b, OP_add, inside, start);
}

bool import_max_pool(OnnxNode *n)
{
    Window w;
    AttrVal attrs[6];
    int64_t store[5][IR_MAX_RANK];
    if (!pool_window(n, &w))
        return false;
    all_axes(&w, attrs, store);
    attrs[5] = attr_str(n->ctx, "max");
    n->out[0] = op_emit(n->b, OP_reduce_window, n->in, 1, attrs, 6);
    if (n->out[0] && n->n_out > 1)
        n->out[1] = pool_indices(n, attrs);
    return n->out[0] && (n->n_out < 2 || n->out[1]);
}

/* The window of what an explicit pad has made of x: nothing counts beyond it. */
static Val *padded(OnnxNode *n, Val *x, const int64_t *pads, double value, Window *w)
{
    const Dim *lo[IR_MAX_RANK], *hi[IR_MAX_RANK];
    int64_t interior[IR_MAX_RANK] = {0};
    bool any = false;
    for (uint32_t a = 0; a < x->type->rank; a++) {
        int64_t before = a < 2 ? 0 : pads[a - 2], after = a < 2 ? 0 : pads[a - 2 + w->n];
        lo[a] = dim_const(n->ctx, before);
        hi[a] = dim_const(n->ctx, after);
        any |= before || after;
        if (a >= 2) {
            w->lo[a - 2] -= before;
            w->hi[a - 2] -= after;
        }
    }
    if (!any)
        return x;
    Val *in[2] = {x, op_const_f64(n->b, x->type->dtype, value)};
    AttrVal attrs[3] = {attr_dims(lo, x->type->rank), attr_dims(hi, x->type->rank), attr_ints(interior, x->type->rank)};
    return op_emit(n->b, OP_pad, in, 2, attrs, 3);
}

/* AveragePool-22. Declared padding counts if count_include_pad; what ceil_mode adds beyond never does, so the declared
 * padding is then made explicit (-0 is the identity of a sum). */
bool import_average_pool(OnnxNode *n)
{
    Window w;
    AttrVal attrs[6];
    int64_t store[5][IR_MAX_RANK], declared[2 * IR_MAX_RANK] = {0};
    bool count_pad = na_int(n, "count_include_pad", 0) != 0, beyond = false;
    uint32_t count;
    const int64_t *pads = na_ints(n, "pads", &count);
    if (!pool_window(n, &w))
        return false;
    bool explicit_pads = !strcmp(na_str(n, "auto_pad", "NOTSET"), "NOTSET");
    for (uint32_t a = 0; a < 2 * w.n; a++) {
        declared[a] = !explicit_pads ? (a < w.n ? w.lo[a] : w.hi[a - w.n]) : pads ? pads[a] : 0;
        beyond |= a >= w.n && w.hi[a - w.n] > declared[a];
    }
    Val *x = n->in[0];
    if (count_pad && beyond) {
        x = padded(n, x, declared, -0.0, &w);
        count_pad = false;
    }
    all_axes(&w, attrs, store);
    attrs[5] = attr_bool(count_pad);
    return x && node_done(n, op_emit(n->b, OP_avg_pool, &x, 1, attrs, 6));
}

static bool spatial_axes(OnnxNode *n, int64_t *axes, uint32_t *count)
{
    uint32_t rank = val_rank(n->in[0]);
    if (rank < 3)
        return node_bad(n, "%s takes [N,C,spatial..]", n->row->type);
    *count = rank - 2;
    for (uint32_t a = 2; a < rank; a++)
        axes[a - 2] = a;
    return true;
}

/* The row's argument: 0 average, 1 maximum */
bool import_global_pool(OnnxNode *n)
{
    int64_t axes[IR_MAX_RANK];
    uint32_t count;
    if (!spatial_axes(n, axes, &count))
        return false;
    if (n->row->arg)
        return node_done(n, op_reduce(n->b, n->in[0], "max", axes, count));
    AttrVal attr = attr_ints(axes, count);
    return node_done(n, op_emit(n->b, OP_mean, n->in, 1, &attr, 1));
}

/* |x|^p and its inverse around a sum */
static Val *power(OnnxNode *n, Val *x, int64_t p)
{
    if (p == 2)
        return op_binary(n->b, OP_mul, x, x);
    Val *size = op_unary(n->b, OP_abs, x);
    return p == 1 ? size : op_binary(n->b, OP_pow, size, op_const_f64(n->b, x->type->dtype, (double)p));
}

static Val *root(OnnxNode *n, Val *sum, int64_t p)
{
    if (p == 1 || !sum)
        return sum;
    return p == 2 ? op_unary(n->b, OP_sqrt, sum)
                  : op_binary(n->b, OP_pow, sum, op_const_f64(n->b, sum->type->dtype, 1 / (double)p));
}

static bool lp_exponent(OnnxNode *n, int64_t *p)
{
    *p = na_int(n, "p", 2);
    return *p >= 1 ? dtype_is_float(n->in[0]->type->dtype) || node_bad(n, "%s takes floats", n->row->type)
                   : na_bad(n, "p", "%lld is below 1", (long long)*p);
}

bool import_global_lp_pool(OnnxNode *n)
{
    int64_t axes[IR_MAX_RANK], p;
    uint32_t count;
    return spatial_axes(n, axes, &count) && lp_exponent(n, &p) &&
           node_done_as(n, root(n, op_reduce(n->b, power(n, node_widened(n, n->in[0]), p), "sum", axes, count), p),
                        n->in[0]->type->dtype);
}

bool import_lp_pool(OnnxNode *n)
{
    Window w;
    AttrVal attrs[6];
    int64_t store[5][IR_MAX_RANK], p;
    if (!lp_exponent(n, &p) || !pool_window(n, &w))
        return false;
    all_axes(&w, attrs, store);
    attrs[5] = attr_str(n->ctx, "sum");
    Val *term = power(n, node_widened(n, n->in[0]), p);
    Val *sum = term ? op_emit(n->b, OP_reduce_window, &term, 1, attrs, 6) : NULL;
    return node_done_as(n, root(n, sum, p), n->in[0]->type->dtype);
}
