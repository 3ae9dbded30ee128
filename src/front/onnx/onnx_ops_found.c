/* SPDX-License-Identifier: Apache-2.0
 *
 * Importers of operators whose results have as many elements as values say: the number is computed like any value, `found` makes a
 * size of it, and slices of buffers for the most that there can be have that size.
 */
#include "front/onnx/onnx_int.h"

#include <math.h>

const Dim *onnx_found_size(OnnxNode *n, Val *count, const Dim *most)
{
    int64_t value, lo, hi;
    uint32_t known;
    if (!count)
        return NULL;
    const Dim *const *dims = op_content(count, &known);
    dim_range(most, &lo, &hi);
    if (known == 1)
        return dim_min(n->ctx, dim_max(n->ctx, dims[0], dim_const(n->ctx, 0)), most);
    if (node_folds_to(n, count, &value))
        return dim_const(n->ctx, value < 0 ? 0 : value > hi ? hi : value);
    for (const Use *use = count->uses; use; use = use->next) /* the same number is the same size */
        if (use->user->op == OP_found && use->user->parent == n->b->region)
            return attrs_get(OP_found, use->user->attr, AN_size)->u.dim;
    AttrVal attr = attr_dim(onnx_unbacked_dim(n, most));
    return op_emit(n->b, OP_found, &count, 1, &attr, 1) ? attr.u.dim : NULL;
}

/* 0, 1, .. */
static Val *counting(OnnxNode *n, const Dim *size)
{
    AttrVal attrs[3] = {attr_dtype(DT_S64), attr_dims(&size, 1), attr_int(0)};
    return op_emit(n->b, OP_iota, NULL, 0, attrs, 3);
}

/* How many are true up to each element, it included. */
static Val *running_sum(OnnxNode *n, Val *mask)
{
    AttrVal sum[4] = {attr_int(0), attr_str(n->ctx, "sum"), attr_bool(false), attr_bool(false)};
    Val *ones = op_cast_to(n->b, mask, DT_S64);
    return ones ? op_emit(n->b, OP_cumulate, &ones, 1, sum, 4) : NULL;
}

/* The positions of what is true in mask, bool[N], ascending: s64[size], and the size is found. Each true element knows its place from
 * the sum of those up to it; all others go to a place behind, which the slice leaves out. */
static Val *positions_of(OnnxNode *n, Val *mask)
{
    Context *c = n->ctx;
    int64_t axis = 0;
    if (!mask)
        return NULL;
    const Dim *all = mask->type->dim[0], *one = dim_const(c, 1);
    AttrVal put[2] = {attr_int(0), attr_str(c, "none")};
    Val *total = op_reduce(n->b, op_cast_to(n->b, mask, DT_S64), "sum", &axis, 1);
    const Dim *size = onnx_found_size(n, total ? node_scalar(n, total) : NULL, all);
    if (!size)
        return NULL;
    const Dim *most = dim_max(c, all, size), *room = dim_add(c, most, one);
    Val *place = op_binary(n->b, OP_sub, running_sum(n, mask), op_const_s64(n->b, DT_S64, 1));
    place = op_select(n->b, mask, place, op_dimval(n->b, most));
    Val *in[3] = {op_broadcast(n->b, op_const_s64(n->b, DT_S64, 0), 1, &room), place, counting(n, all)};
    Val *at = place && in[0] && in[2] ? op_emit(n->b, OP_scatter_elements, in, 3, put, 2) : NULL;
    return at ? op_slice_axis(n->b, at, 0, dim_const(c, 0), size, 1) : NULL;
}

/* Elements that compare as they are; exact. */
static Val *comparable(OnnxNode *n, Val *x)
{
    DType dtype = x->type->dtype;
    int bits = (int)dtype_bits(dtype);
    if (dtype_kind(dtype) > DK_BOOL)
        return node_bad(n, "%s of such elements is not supported, supported are numbers and bool", n->row->type), NULL;
    if (dtype == DT_BOOL || (dtype_is_int(dtype) ? bits >= 8 : bits >= 16))
        return x;
    return op_cast_to(n->b, x, dtype_is_int(dtype) ? DT_S8 : DT_F32);
}

static Val *flattened(OnnxNode *n, Val *x)
{
    if (!x)
        return NULL;
    const Dim *size = dim_product(n->ctx, x->type->dim, x->type->rank);
    return op_reshape(n->b, x, 1, &size);
}

static Val *sizes_as_column(OnnxNode *n, const Dim *const *dims, uint32_t count)
{
    const int64_t one = 1, column[2] = {count, 1};
    Val *part[IR_MAX_RANK];
    for (uint32_t i = 0; i < count; i++)
        part[i] = op_reshape_s64(n->b, op_dimval(n->b, dims[i]), 1, &one);
    return op_reshape_s64(n->b, op_concat(n->b, part, count, 0), 2, column);
}

/* Indices that were found, so they are inside. */
static Val *gather_found(OnnxNode *n, Val *data, uint32_t axis, Val *at)
{
    AttrVal attrs[2] = {attr_int(axis), attr_int(0)};
    Val *in[2] = {data, at};
    return in[0] && in[1] ? op_emit(n->b, OP_gather, in, 2, attrs, 2) : NULL;
}

/* NonZero-9, -13: a column for each element that is not zero, NaN among them, in row-major order. Of a scalar, columns of no row. */
bool import_non_zero(OnnxNode *n)
{
    Val *x = comparable(n, n->in[0]);
    if (!x)
        return false;
    const Type *type = x->type;
    const Dim *stride[IR_MAX_RANK], *shape[2] = {dim_const(n->ctx, type->rank), NULL};
    bool is_bool = type->dtype == DT_BOOL;
    Val *zero = dtype_is_float(type->dtype) ? op_const_f64(n->b, type->dtype, 0) : op_const_s64(n->b, type->dtype, 0);
    Val *at = positions_of(n, flattened(n, is_bool ? x : op_binary(n->b, OP_ne, x, zero)));
    if (!at)
        return false;
    shape[1] = at->type->dim[0];
    if (type->rank == 0)
        return node_done(n, op_broadcast(n->b, op_const_s64(n->b, DT_S64, 0), 2, shape));
    for (uint32_t a = 0; a < type->rank; a++)
        stride[a] = dim_product(n->ctx, type->dim + a + 1, type->rank - a - 1);
    at = op_reshape(n->b, at, 2, (const Dim *[]){dim_const(n->ctx, 1), shape[1]});
    if (type->rank > 1) {
        at = op_binary(n->b, OP_div, at, sizes_as_column(n, stride, type->rank));
        at = op_binary(n->b, OP_mod, at, sizes_as_column(n, type->dim, type->rank));
    }
    return node_done(n, at);
}

/* Compress-9, -11: the condition may be shorter than the axis, and what it has behind the axis selects nothing. */
bool import_compress(OnnxNode *n)
{
    Val *x = n->in[0], *keep = n->in[1];
    uint32_t axis = 0;
    if (keep->type->dtype != DT_BOOL || keep->type->rank != 1)
        return node_bad(n, "Compress: the condition is bool[n]");
    if (!na_find(n, "axis"))
        x = flattened(n, x);
    else if (!node_axis(n, "axis", na_int(n, "axis", 0), x->type->rank, &axis))
        return false;
    if (!x)
        return false;
    const Dim *most = dim_min(n->ctx, keep->type->dim[0], x->type->dim[axis]);
    return node_done(n, gather_found(n, x, axis, positions_of(n, op_slice_axis(n->b, keep, 0, dim_const(n->ctx, 0), most, 1))));
}

/* Integers in the order of floats, where -0 is 0, and NaN is first for argmax or else last: with both the largest. */
static Val *keys_of(OnnxNode *n, Val *x, bool floats)
{
    x = x ? comparable(n, x) : NULL;
    if (!x || !dtype_is_float(x->type->dtype))
        return floats ? NULL : x && x->type->dtype == DT_BOOL ? op_cast_to(n->b, x, DT_U8) : x;
    x = x->type->dtype == DT_F64 ? x : op_cast_to(n->b, x, DT_F32);
    DType dtype = x->type->dtype == DT_F64 ? DT_S64 : DT_S32;
    AttrVal bits = attr_dtype(dtype);
    Val *sum = op_binary(n->b, OP_add, x, op_const_f64(n->b, x->type->dtype, 0));
    Val *key = sum ? op_emit(n->b, OP_bitcast, &sum, 1, &bits, 1) : NULL;
    Val *most = op_const_s64(n->b, dtype, dtype == DT_S64 ? INT64_MAX : INT32_MAX), *zero = op_const_s64(n->b, dtype, 0);
    key = op_select(n->b, op_binary(n->b, OP_lt, key, zero), op_binary(n->b, OP_xor, key, most), key);
    return op_select(n->b, op_unary(n->b, OP_isnan, x), most, key);
}

/* ---- NonMaxSuppression -----------------------------------------------------------------------------------------------------------
 *
 * A box that is left has a rank, which no other of its class has: key of its score * 2^32 + (boxes - 1 - index). The best box is that of
 * the largest rank, and the rank tells where it is. Each trip takes the best one of every class and the rank from it and from what it
 * covers: one pass over the boxes.
 */

enum { X_LO, X_HI, Y_LO, Y_HI, AREA, PLANES };
#define NO_RANK INT64_MIN /* less than any rank: no key is INT32_MIN */

typedef struct Nms {
    OnnxNode *n;
    Builder *b;
    const Dim *batches, *classes, *boxes;
    Val *plane[PLANES]; /* f32[batches,1,boxes] */
    Val *rows;          /* f32[batches,boxes,PLANES]: the same, to look up a box */
    Val *overlap;       /* the threshold: f32 scalar */
} Nms;

static Val *coordinate(const Nms *s, uint32_t i)
{
    const Dim *dims[3] = {s->batches, dim_const(s->n->ctx, 1), s->boxes};
    return op_reshape(s->b, op_slice_axis(s->b, s->n->in[0], 2, dim_const(s->n->ctx, i), dim_const(s->n->ctx, 1), 1), 3, dims);
}

/* A box without area covers nothing and is not covered: its area is NaN. */
static void make_planes(Nms *s, bool center)
{
    for (uint32_t a = 0; a < 2; a++) { /* x, y: corners are [y1, x1, y2, x2], or boxes [x, y, width, height] */
        Val *p = coordinate(s, center ? a : 1 - a), *q = coordinate(s, center ? a + 2 : 3 - a);
        Val *half = center ? op_binary(s->b, OP_div, q, op_const_f64(s->b, DT_F32, 2)) : NULL;
        s->plane[2 * a] = op_binary(s->b, center ? OP_sub : OP_min, p, center ? half : q);
        s->plane[2 * a + 1] = op_binary(s->b, center ? OP_add : OP_max, p, center ? half : q);
    }
    Val *area = op_binary(s->b, OP_mul, op_binary(s->b, OP_sub, s->plane[X_HI], s->plane[X_LO]),
                          op_binary(s->b, OP_sub, s->plane[Y_HI], s->plane[Y_LO]));
    Val *some = op_binary(s->b, OP_lt, op_const_f64(s->b, DT_F32, 0), area);
    s->plane[AREA] = op_select(s->b, some, area, op_const_f64(s->b, DT_F32, NAN));
}

/* The planes beside each other, f32[batches,boxes,PLANES]: what is looked up at once. */
static Val *rows_of_planes(const Nms *s)
{
    const int64_t perm[3] = {0, 2, 1};
    Val *plane[PLANES];
    for (uint32_t i = 0; i < PLANES; i++)
        if (!(plane[i] = op_transpose(s->b, s->plane[i], perm)))
            return NULL;
    return op_concat(s->b, plane, PLANES, 2);
}

/* Of two numbers; NaN and the sign of 0 do not matter here, and cost instructions in the ops max and min. */
static Val *larger(const Nms *s, Val *x, Val *y) { return op_select(s->b, op_binary(s->b, OP_lt, x, y), y, x); }
static Val *smaller(const Nms *s, Val *x, Val *y) { return op_select(s->b, op_binary(s->b, OP_lt, x, y), x, y); }

/* The length of what two boxes have in common on an axis; 0 if nothing. */
static Val *common(const Nms *s, Val *const *best, uint32_t lo)
{
    Val *begin = larger(s, s->plane[lo], best[lo]), *end = smaller(s, s->plane[lo + 1], best[lo + 1]);
    return larger(s, op_binary(s->b, OP_sub, end, begin), op_const_f64(s->b, DT_F32, 0));
}

/* Which boxes cover so much of the best one of their class that they are the same. Where both have an area what they have in common is
 * at most the smaller one, in f32 too, so that both together are more than 0. */
static Val *covered(const Nms *s, Val *best_at)
{
    const Dim *dims[2] = {s->batches, s->classes}, *one = dim_const(s->n->ctx, 1);
    AttrVal attrs[2] = {attr_int(1), attr_int(1)};
    Val *best[PLANES], *in[2] = {s->rows, op_reshape(s->b, best_at, 2, dims)};
    Val *row = in[1] ? op_emit(s->b, OP_gather, in, 2, attrs, 2) : NULL;
    for (uint32_t i = 0; i < PLANES; i++)
        best[i] = op_slice_axis(s->b, row, 2, dim_const(s->n->ctx, i), one, 1);
    Val *area = op_binary(s->b, OP_mul, common(s, best, X_LO), common(s, best, Y_LO));
    Val *both = op_binary(s->b, OP_sub, op_binary(s->b, OP_add, s->plane[AREA], best[AREA]), area);
    return op_binary(s->b, OP_lt, s->overlap, op_binary(s->b, OP_div, area, both));
}

static Val *no_rank(const Nms *s) { return op_const_s64(s->b, DT_S64, NO_RANK); }

static Val *largest_rank(const Nms *s, Val *rank)
{
    int64_t axis = 2;
    return op_reduce(s->b, rank, "max", &axis, 1);
}

static Val *some_left(const Nms *s, Val *top)
{
    const int64_t all[3] = {0, 1, 2};
    return op_reshape(s->b, op_reduce(s->b, op_binary(s->b, OP_lt, no_rank(s), top), "or", all, 3), 0, NULL);
}

/* One trip: the best box that is left of every class, or -1 in one where none is; it and what it covers are left no more. */
static bool suppress_once(const Nms *s, Val *rank, Val *top, Val **yields)
{
    const Dim *dims[2] = {s->batches, s->classes};
    Val *last = op_binary(s->b, OP_sub, op_dimval(s->b, s->boxes), op_const_s64(s->b, DT_S64, 1));
    Val *best = op_binary(s->b, OP_sub, last, op_binary(s->b, OP_and, top, op_const_s64(s->b, DT_S64, UINT32_MAX)));
    Val *gone = op_binary(s->b, OP_or, op_binary(s->b, OP_eq, rank, top), covered(s, best));
    yields[1] = op_select(s->b, gone, no_rank(s), rank);
    yields[2] = yields[1] ? largest_rank(s, yields[1]) : NULL;
    yields[0] = some_left(s, yields[2]);
    best = op_select(s->b, op_binary(s->b, OP_lt, no_rank(s), top), best, op_const_s64(s->b, DT_S64, -1));
    yields[3] = op_reshape(s->b, best, 2, dims);
    return yields[0] && yields[1] && yields[2] && yields[3];
}

static Val *ranks_of(const Nms *s, Val *key, Val *left)
{
    OnnxNode *n = s->n;
    const Dim *row[3] = {dim_const(n->ctx, 1), dim_const(n->ctx, 1), s->boxes};
    AttrVal iota[3] = {attr_dtype(DT_S64), attr_dims(row, 3), attr_int(2)};
    Val *last = op_binary(n->b, OP_sub, op_dimval(n->b, s->boxes), op_const_s64(n->b, DT_S64, 1));
    Val *behind = op_binary(n->b, OP_sub, last, op_emit(n->b, OP_iota, NULL, 0, iota, 3));
    Val *rank = op_binary(n->b, OP_mul, op_cast_to(n->b, key, DT_S64), op_const_s64(n->b, DT_S64, INT64_C(1) << 32));
    rank = op_binary(n->b, OP_add, rank, behind);
    return left ? op_select(n->b, left, rank, no_rank(s)) : rank;
}

/* The boxes chosen in each trip, s64[trips,batches,classes]. */
static Val *suppress(Nms *s, Val *rank, Val *trip, const Dim *most)
{
    Context *c = s->n->ctx;
    const Dim *dims[3] = {onnx_unbacked_dim(s->n, most), s->batches, s->classes};
    AttrVal counts[2] = {attr_int(2), attr_int(0)};
    Val *top = rank ? largest_rank(s, rank) : NULL, *yields[4];
    Val *in[6 + PLANES] = {trip, some_left(s, top), rank, top, s->overlap, rows_of_planes(s)};
    for (uint32_t i = 0; i < PLANES; i++)
        in[6 + i] = s->plane[i];
    for (uint32_t i = 0; i < IG_COUNT(in); i++)
        if (!in[i])
            return NULL;
    const Type *types[3] = {rank->type, top->type, type_tensor(c, DT_S64, 3, dims)};
    if (!types[2]) {
        node_bad(s->n, "NonMaxSuppression: too many boxes");
        return NULL;
    }
    Node *node = ir_emit(s->b, OP_loop, in, IG_COUNT(in), attrs_make(c, counts, 2), types, 3);
    Region *region = ir_add_region(node);
    Builder b = ir_at_end(region, s->b->loc);
    OnnxNode body = *s->n;
    Nms inner = *s;
    body.b = inner.b = &b;
    inner.n = &body;
    (void)region_param(region, type_tensor(c, DT_S64, 0, NULL));
    Val *left = region_param(region, rank->type), *best = region_param(region, top->type);
    inner.overlap = region_param(region, s->overlap->type);
    inner.rows = region_param(region, in[5]->type);
    for (uint32_t i = 0; i < PLANES; i++)
        inner.plane[i] = region_param(region, s->plane[i]->type);
    if (!suppress_once(&inner, left, best, yields))
        return NULL;
    ir_emit(&b, OP_yield, yields, 4, NULL, NULL, 0);
    return ir_out(node, 2);
}

/* Rows [batch, class, box]: of every class the boxes in the order in which they were chosen. */
static Val *rows_of(const Nms *s, Val *chosen)
{
    OnnxNode *n = s->n;
    const int64_t perm[3] = {1, 2, 0};
    const Dim *trips = chosen->type->dim[0], *one = dim_const(n->ctx, 1);
    Val *flat = flattened(n, op_transpose(n->b, chosen, perm)), *column[3];
    Val *at = positions_of(n, op_binary(n->b, OP_le, op_const_s64(n->b, DT_S64, 0), flat));
    if (!at)
        return NULL;
    column[0] = op_binary(n->b, OP_div, at, op_dimval(n->b, dim_mul(n->ctx, trips, s->classes)));
    column[1] = op_binary(n->b, OP_mod, op_binary(n->b, OP_div, at, op_dimval(n->b, trips)), op_dimval(n->b, s->classes));
    column[2] = gather_found(n, flat, 0, at);
    for (uint32_t i = 0; i < 3; i++)
        column[i] = op_reshape(n->b, column[i], 2, (const Dim *[]){at->type->dim[0], one});
    return op_concat(n->b, column, 3, 1);
}

/* One element of the dtype, or `missing`. */
static Val *nms_scalar(OnnxNode *n, uint32_t i, DType dtype, Val *missing)
{
    uint64_t count;
    Val *x = node_in(n, i);
    if (x && (x->type->dtype != dtype || !type_count(x->type, &count) || count != 1))
        return node_bad(n, "NonMaxSuppression: input %u is one element of %s", i, dtype_name(dtype)), NULL;
    return x ? node_scalar(n, x) : missing;
}

/* NonMaxSuppression-10, -11: boxes f32[batches,boxes,4], scores f32[batches,classes,boxes]. Of equal scores the lower index is first; a
 * score that is NaN passes no threshold, and is the first without one. */
bool import_non_max_suppression(OnnxNode *n)
{
    const Type *boxes = n->in[0]->type, *scores = n->in[1]->type;
    int64_t four, limit, none;
    bool shaped = boxes->dtype == DT_F32 && scores->dtype == DT_F32 &&
                  boxes->rank == 3 && scores->rank == 3 && dim_is_const(boxes->dim[2], &four) && four == 4;
    if (!shaped || dim_eq(boxes->dim[0], scores->dim[0]) != TRI_YES || dim_eq(boxes->dim[1], scores->dim[2]) != TRI_YES)
        return node_bad(n, "NonMaxSuppression takes boxes f32[batches,boxes,4] and scores f32[batches,classes,boxes]");
    Nms s = {.n = n, .b = n->b, .batches = scores->dim[0], .classes = scores->dim[1], .boxes = scores->dim[2]};
    int64_t center = na_int(n, "center_point_box", 0);
    if (center != 0 && center != 1)
        return na_bad(n, "center_point_box", "%lld is neither 0 nor 1", (long long)center);
    Val *most = nms_scalar(n, 2, DT_S64, op_const_s64(n->b, DT_S64, 0));
    s.overlap = nms_scalar(n, 3, DT_F32, op_const_f64(n->b, DT_F32, 0));
    Val *least = node_in(n, 4) ? nms_scalar(n, 4, DT_F32, NULL) : NULL;
    if (!most || !s.overlap || (node_in(n, 4) && !least))
        return false;
    const Dim *trips = s.boxes;
    if (node_folds_to(n, most, &limit))
        trips = dim_min(n->ctx, trips, dim_const(n->ctx, limit < 0 ? 0 : limit));
    const Dim *bound = dim_mul(n->ctx, trips, dim_mul(n->ctx, s.batches, s.classes));
    const Dim *empty[2] = {dim_const(n->ctx, 0), dim_const(n->ctx, 3)};
    if (dim_is_const(bound, &none) && none == 0)
        return node_done(n, op_broadcast(n->b, op_const_s64(n->b, DT_S64, 0), 2, empty));
    make_planes(&s, center == 1);
    s.overlap = op_binary(n->b, OP_max, s.overlap, op_const_f64(n->b, DT_F32, 0));
    Val *rank = ranks_of(&s, keys_of(n, n->in[1], true), least ? op_binary(n->b, OP_lt, least, n->in[1]) : NULL);
    Val *chosen = suppress(&s, rank, op_binary(n->b, OP_min, most, op_dimval(n->b, s.boxes)), trips);
    return node_done(n, chosen ? rows_of(&s, chosen) : NULL);
}

/* ---- Unique ------------------------------------------------------------------------------------------------------------------------ */

/* y[index] = x, combined; of the size of index, which names every place that counts */
static Val *scattered(OnnxNode *n, Val *index, Val *x, const char *combine)
{
    AttrVal attrs[2] = {attr_int(0), attr_str(n->ctx, combine)};
    if (!index || !x)
        return NULL;
    Val *base = op_broadcast(n->b, op_const_s64(n->b, x->type->dtype, 0), 1, index->type->dim);
    Val *in[3] = {base, index, x};
    return base ? op_emit(n->b, OP_scatter_elements, in, 3, attrs, 2) : NULL;
}

/* The order after a stable sort by one more column: keys [columns,rows], at: which. */
static Val *sort_by(OnnxNode *n, Val *keys, Val *at, Val *order)
{
    const Dim *rows = keys->type->dim[1];
    Val *column = op_reshape(n->b, gather_found(n, keys, 0, at), 1, &rows), *moved = gather_found(n, column, 0, order), *sorted[2];
    return moved && onnx_top_k(n, moved, 0, rows, false, sorted) ? gather_found(n, order, 0, sorted[1]) : NULL;
}

/* Rows in ascending order, equal ones as they were: s64[rows]. The last column is sorted by first, in a loop. */
static Val *order_of(OnnxNode *n, Val *keys)
{
    const Dim *columns = keys->type->dim[0], *rows = keys->type->dim[1], *last = dim_sub(n->ctx, columns, dim_const(n->ctx, 1));
    Val *order = counting(n, rows);
    int64_t one;
    if (dim_is_const(columns, &one) && one == 1)
        return sort_by(n, keys, op_const_s64(n->b, DT_S64, 0), order);
    AttrVal counts[2] = {attr_int(1), attr_int(0)};
    Val *in[4] = {op_dimval(n->b, columns), NULL, order, keys};
    if (!in[0] || !order)
        return NULL;
    Node *node = ir_emit(n->b, OP_loop, in, 4, attrs_make(n->ctx, counts, 2), &order->type, 1);
    Region *region = ir_add_region(node);
    Builder b = ir_at_end(region, n->b->loc);
    OnnxNode inner = *n;
    inner.b = &b;
    Val *i = region_param(region, type_tensor(n->ctx, DT_S64, 0, NULL)), *before = region_param(region, order->type);
    Val *all = region_param(region, keys->type), *at = op_binary(&b, OP_sub, op_dimval(&b, last), i);
    Val *yields[2] = {op_const_s64(&b, DT_BOOL, 1), at ? sort_by(&inner, all, at, before) : NULL};
    if (!yields[0] || !yields[1])
        return NULL;
    ir_emit(&b, OP_yield, yields, 2, NULL, NULL, 0);
    return ir_out(node, 0);
}

/* Unique-11: of the elements, or of the slices along an axis; sorted, or by first occurrence. As numpy: NaN equals NaN and is the last,
 * -0 equals 0, and the first of those that are equal stands for them. */
bool import_unique(OnnxNode *n)
{
    Val *x = n->in[0], *results[4];
    bool sorted = na_int(n, "sorted", 1) != 0;
    uint32_t axis = 0, from = 0;
    int64_t perm[IR_MAX_RANK], none, reduced = 0;
    if (!na_find(n, "axis"))
        x = flattened(n, x);
    else if (!node_axis(n, "axis", na_int(n, "axis", 0), x->type->rank, &axis))
        return false;
    Val *keys = keys_of(n, x, false);
    if (!keys)
        return false;
    const Dim *rows = x->type->dim[axis];
    for (uint32_t a = 0; a + 1 < x->type->rank; a++) {
        from += from == axis;
        perm[a] = from++;
    }
    perm[x->type->rank - 1] = axis;
    keys = op_transpose(n->b, keys, perm);
    keys = op_flatten_to(n->b, keys, keys ? keys->type->rank - 1 : 0);
    if (!keys)
        return false;
    if (dim_is_const(rows, &none) && none == 0) {
        const Dim *zero = dim_const(n->ctx, 0);
        for (uint32_t i = 0; i < n->n_out; i++)
            n->out[i] = i == 0 ? x : op_broadcast(n->b, op_const_s64(n->b, DT_S64, 0), 1, &zero);
        return true;
    }
    Val *order = order_of(n, keys), *place = counting(n, rows), *zero = op_const_s64(n->b, DT_S64, 0);
    Val *before = op_binary(n->b, OP_max, op_binary(n->b, OP_sub, place, op_const_s64(n->b, DT_S64, 1)), zero);
    before = order && before ? gather_found(n, order, 0, before) : NULL;
    Val *other = before ? op_binary(n->b, OP_ne, gather_found(n, keys, 1, order), gather_found(n, keys, 1, before)) : NULL;
    other = op_reshape(n->b, op_reduce(n->b, other, "or", &reduced, 1), 1, &rows);
    Val *begins = op_binary(n->b, OP_or, op_binary(n->b, OP_eq, place, zero), other); /* a group of equal rows, in their order */
    AttrVal most[4] = {attr_int(0), attr_str(n->ctx, "max"), attr_bool(false), attr_bool(false)};
    Val *group = op_binary(n->b, OP_sub, running_sum(n, begins), op_const_s64(n->b, DT_S64, 1));
    Val *start = op_select(n->b, begins, place, zero);
    start = start ? op_emit(n->b, OP_cumulate, &start, 1, most, 4) : NULL;
    Val *first = start ? gather_found(n, order, 0, start) : NULL; /* of the group, per row in order */
    if (!first || !group)
        return false;
    if (sorted) {
        Val *at = positions_of(n, begins);
        results[1] = at ? gather_found(n, order, 0, at) : NULL;
        results[2] = scattered(n, order, group, "none");
    } else {
        Val *is_first = op_binary(n->b, OP_eq, scattered(n, order, first, "none"), place);
        Val *rank = op_binary(n->b, OP_sub, running_sum(n, is_first), op_const_s64(n->b, DT_S64, 1));
        results[1] = positions_of(n, is_first);
        results[2] = rank ? gather_found(n, rank, 0, scattered(n, order, first, "none")) : NULL;
    }
    if (!results[1] || !results[2])
        return false;
    Val *ones = op_broadcast(n->b, op_const_s64(n->b, DT_S64, 1), 1, &rows), *counts = scattered(n, results[2], ones, "add");
    results[0] = gather_found(n, x, axis, results[1]);
    results[3] = counts ? op_slice_axis(n->b, counts, 0, dim_const(n->ctx, 0), results[1]->type->dim[0], 1) : NULL;
    for (uint32_t i = 0; i < n->n_out; i++)
        n->out[i] = results[i];
    return results[0] && results[3];
}
