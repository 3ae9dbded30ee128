/* SPDX-License-Identifier: Apache-2.0
 *
 * Importers of operators that move elements, and of those that talk about shapes. Whatever decides a shape must be known when
 * the graph is built; it may hold symbolic sizes.
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

static const Dim *num(const OnnxNode *n, int64_t value) { return dim_const(n->ctx, value); }
static bool is_number(const Dim *dim, int64_t value)
{
    int64_t size;
    return dim_is_const(dim, &size) && size == value;
}

static const char *dim_text(const OnnxNode *n, const Dim *dim)
{
    Text text;
    text_init(&text, n->im->arena);
    dim_print(&text, dim);
    return text.data;
}

/* Numbers as dims. */
static const Dim **dims_of(const OnnxNode *n, const int64_t *values, uint32_t count)
{
    const Dim **dims = ARENA_ARRAY(n->im->arena, const Dim *, count + 1);
    for (uint32_t i = 0; i < count; i++)
        dims[i] = num(n, values[i]);
    return dims;
}

/* ---- reshape and its kin ------------------------------------------------------------------------------------------------- */

/* Reshape-5 .. 25 (1: shape is an attribute): 0 copies a size (unless allowzero), one -1 takes what is left. */
bool import_reshape(OnnxNode *n)
{
    Val *x = n->in[0];
    const Dim *const *want, *dims[IR_MAX_RANK], *known = num(n, 1);
    uint32_t count, open = UINT32_MAX;
    bool zero = na_int(n, "allowzero", 0) != 0;
    if (n->row->since < 5) {
        const int64_t *listed = na_ints(n, "shape", &count);
        want = dims_of(n, listed, count);
    } else if (!node_dims_in(n, 1, "shape", &count, &want)) {
        return false;
    }
    if (count > IR_MAX_RANK)
        return node_bad(n, "Reshape to rank %u, at most %d are supported", count, IR_MAX_RANK);
    for (uint32_t a = 0; a < count; a++) {
        int64_t low, high;
        dims[a] = want[a];
        dim_range(want[a], &low, &high);
        if (high < -1)
            return node_bad(n, "Reshape: shape[%u] is %s", a, dim_text(n, want[a]));
        if (is_number(want[a], -1)) {
            if (open != UINT32_MAX)
                return node_bad(n, "Reshape: shape has more than one -1");
            open = a;
            continue;
        }
        if (is_number(want[a], 0) && !zero) {
            if (a >= x->type->rank)
                return node_bad(n, "Reshape: shape[%u] is 0, but the input has rank %u", a, x->type->rank);
            dims[a] = x->type->dim[a];
        }
        known = dim_mul(n->ctx, known, dims[a]);
    }
    if (open != UINT32_MAX) {
        const Dim *all = dim_product(n->ctx, x->type->dim, x->type->rank);
        if (is_number(known, 0))
            return node_bad(n, "Reshape: -1 beside a size of 0");
        dims[open] = dim_floordiv(n->ctx, all, known);
        if (dim_eq(dim_mul(n->ctx, dims[open], known), all) != TRI_YES)
            return node_bad(n, "Reshape: %s elements are not known to divide into %s", dim_text(n, all), dim_text(n, known));
    }
    return node_done(n, op_reshape(n->b, x, count, dims));
}

bool import_flatten(OnnxNode *n)
{
    uint32_t axis, rank = n->in[0]->type->rank;
    int64_t given = na_int(n, "axis", 1);
    if (given == rank)
        axis = rank;
    else if (!node_axis(n, "axis", given, rank, &axis))
        return false;
    return node_done(n, op_flatten_to(n->b, n->in[0], axis));
}

/* Axes of Squeeze and Unsqueeze: an attribute, from 13 on an input. */
static bool axes_list(OnnxNode *n, const int64_t **values, uint32_t *count)
{
    if (n->row->since >= 13 && node_in(n, 1))
        return node_ints_in(n, 1, "axes", count, values);
    *values = na_ints(n, "axes", count);
    return true;
}

bool import_squeeze(OnnxNode *n)
{
    const Type *x = n->in[0]->type;
    const int64_t *values;
    int64_t axes[IR_MAX_RANK];
    uint32_t count;
    if (!axes_list(n, &values, &count))
        return false;
    if (!values) {
        for (uint32_t a = 0; a < x->rank; a++)
            if (is_number(x->dim[a], 1))
                axes[count++] = a;
    } else if (!node_axes(n, "axes", values, count, x->rank, axes)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        if (!is_number(x->dim[axes[i]], 1))
            return node_bad(n, "Squeeze: axis %lld has size %s, not 1", (long long)axes[i], dim_text(n, x->dim[axes[i]]));
    return node_done(n, op_squeeze_axes(n->b, n->in[0], axes, count));
}

bool import_unsqueeze(OnnxNode *n)
{
    const Type *x = n->in[0]->type;
    const int64_t *values;
    int64_t axes[IR_MAX_RANK];
    const Dim *dims[IR_MAX_RANK] = {NULL};
    uint32_t count, from = 0;
    if (!axes_list(n, &values, &count))
        return false;
    if (x->rank + count > IR_MAX_RANK)
        return node_bad(n, "Unsqueeze to rank %u, at most %d are supported", x->rank + count, IR_MAX_RANK);
    if (!node_axes(n, "axes", values, count, x->rank + count, axes))
        return false;
    for (uint32_t i = 0; i < count; i++)
        dims[axes[i]] = num(n, 1);
    for (uint32_t a = 0; a < x->rank + count; a++)
        if (!dims[a])
            dims[a] = x->dim[from++];
    return node_done(n, op_reshape(n->b, n->in[0], x->rank + count, dims));
}

bool import_transpose(OnnxNode *n)
{
    uint32_t rank = n->in[0]->type->rank, count;
    int64_t perm[IR_MAX_RANK];
    const int64_t *given = na_ints(n, "perm", &count);
    if (given && count != rank)
        return na_bad(n, "perm", "it has %u entries, the input has rank %u", count, rank);
    for (uint32_t a = 0; a < rank; a++)
        perm[a] = rank - 1 - a;
    for (uint32_t i = 0; i < count; i++)
        if (given[i] < 0)
            return na_bad(n, "perm", "axis %lld is outside of [0,%u)", (long long)given[i], rank);
    if (given && !node_axes(n, "perm", given, count, rank, perm))
        return false;
    return node_done(n, op_transpose(n->b, n->in[0], perm));
}

/* Shapes broadcast both ways. */
bool import_expand(OnnxNode *n)
{
    const Type *x = n->in[0]->type;
    const Dim *const *want, *dims[IR_MAX_RANK];
    uint32_t count;
    if (!node_dims_in(n, 1, "shape", &count, &want))
        return false;
    uint32_t rank = count > x->rank ? count : x->rank;
    if (rank > IR_MAX_RANK)
        return node_bad(n, "Expand to rank %u, at most %d are supported", rank, IR_MAX_RANK);
    for (uint32_t a = 0; a < rank; a++) {
        const Dim *have = a + x->rank >= rank ? x->dim[a + x->rank - rank] : num(n, 1);
        const Dim *ask = a + count >= rank ? want[a + count - rank] : num(n, 1);
        bool keep = is_number(ask, 1) || dim_eq(have, ask) == TRI_YES;
        if (!keep && !is_number(have, 1))
            return node_bad(n, "Expand: axis %u has size %s, asked is %s", a, dim_text(n, have), dim_text(n, ask));
        int64_t low, high;
        dim_range(ask, &low, &high);
        if (high < 0)
            return node_bad(n, "Expand: shape has a size of %s", dim_text(n, ask));
        dims[a] = keep ? have : ask;
    }
    return node_done(n, op_broadcast(n->b, n->in[0], rank, dims));
}

/* Tile-1: one count along one axis. */
static bool tile_1(OnnxNode *n, uint32_t *count, const Dim *const **repeat)
{
    double axis, times;
    uint32_t rank = n->in[0]->type->rank, at;
    if (!node_scalar_f64(n, 1, "tiles", &times) || !node_scalar_f64(n, 2, "axis", &axis))
        return false;
    if (!(axis >= 0 && axis < rank && times >= 0 && times <= INT32_MAX))
        return node_bad(n, "Tile: %g times along axis %g", times, axis);
    const Dim **list = ARENA_ARRAY(n->im->arena, const Dim *, rank + 1);
    for (at = 0; at < rank; at++)
        list[at] = num(n, at == (uint32_t)axis ? (int64_t)times : 1);
    *count = rank;
    *repeat = list;
    return true;
}

/* [d0, d1] -> [r0, d0, r1, d1] stretched -> [r0*d0, r1*d1]; axes that do not repeat, or are of size 1, need no axis more. */
bool import_tile(OnnxNode *n)
{
    const Type *x = n->in[0]->type;
    const Dim *const *repeat, *split[2 * IR_MAX_RANK], *wide[2 * IR_MAX_RANK], *out[IR_MAX_RANK];
    uint32_t count, rank = 0;
    if (n->row->since < 6 ? !tile_1(n, &count, &repeat) : !node_dims_in(n, 1, "repeats", &count, &repeat))
        return false;
    if (count != x->rank)
        return node_bad(n, "Tile: repeats has %u entries, the input has rank %u", count, x->rank);
    for (uint32_t a = 0; a < count; a++) {
        int64_t low, high;
        dim_range(repeat[a], &low, &high);
        if (high < 0)
            return node_bad(n, "Tile: repeats[%u] is %s", a, dim_text(n, repeat[a]));
        bool one = is_number(x->dim[a], 1);
        if (!one && !is_number(repeat[a], 1)) {
            split[rank] = num(n, 1);
            wide[rank++] = repeat[a];
        }
        split[rank] = x->dim[a];
        wide[rank++] = one ? repeat[a] : x->dim[a];
        out[a] = dim_mul(n->ctx, x->dim[a], repeat[a]);
    }
    if (rank > IR_MAX_RANK)
        return node_bad(n, "Tile of %u axes at once, at most %d are supported", rank - x->rank, IR_MAX_RANK - x->rank);
    Val *y = op_broadcast(n->b, op_reshape(n->b, n->in[0], rank, split), rank, wide);
    return node_done(n, op_reshape(n->b, y, x->rank, out));
}

static bool block_attributes(OnnxNode *n, int64_t *size, bool *is_dcr)
{
    const char *mode;
    *size = na_int(n, "blocksize", 0);
    if (!na_choice(n, "mode", "DCR|CRD", "DCR", &mode))
        return false;
    *is_dcr = *mode == 'D';
    return *size >= 1 && *size <= INT16_MAX ? true : na_bad(n, "blocksize", "%lld is not in 1 to 32767", (long long)*size);
}

bool import_depth_to_space(OnnxNode *n)
{
    static const int64_t dcr[6] = {0, 3, 4, 1, 5, 2}, crd[6] = {0, 1, 4, 2, 5, 3};
    const Type *x = n->in[0]->type;
    int64_t b;
    bool is_dcr;
    if (!block_attributes(n, &b, &is_dcr))
        return false;
    if (x->rank != 4 || dim_divides(num(n, b * b), x->dim[1]) != TRI_YES)
        return node_bad(n, "%s takes [N,C,H,W] with C divisible by the square of blocksize %lld", n->row->type, (long long)b);
    const Dim *c = dim_floordiv(n->ctx, x->dim[1], num(n, b * b)), *s = num(n, b);
    const Dim *six[6] = {x->dim[0], is_dcr ? s : c, s, is_dcr ? c : s, x->dim[2], x->dim[3]};
    const Dim *out[4] = {x->dim[0], c, dim_mul(n->ctx, x->dim[2], s), dim_mul(n->ctx, x->dim[3], s)};
    Val *y = op_transpose(n->b, op_reshape(n->b, n->in[0], 6, six), is_dcr ? dcr : crd);
    return node_done(n, op_reshape(n->b, y, 4, out));
}

bool import_space_to_depth(OnnxNode *n)
{
    static const int64_t dcr[6] = {0, 3, 5, 1, 2, 4}, crd[6] = {0, 1, 3, 5, 2, 4};
    const Type *x = n->in[0]->type;
    int64_t b;
    bool is_dcr;
    if (!block_attributes(n, &b, &is_dcr))
        return false;
    const Dim *s = num(n, b);
    if (x->rank != 4 || dim_divides(s, x->dim[2]) != TRI_YES || dim_divides(s, x->dim[3]) != TRI_YES)
        return node_bad(n, "SpaceToDepth takes [N,C,H,W] with H and W divisible by blocksize %lld", (long long)b);
    const Dim *h = dim_floordiv(n->ctx, x->dim[2], s), *w = dim_floordiv(n->ctx, x->dim[3], s);
    const Dim *six[6] = {x->dim[0], x->dim[1], h, s, w, s};
    const Dim *out[4] = {x->dim[0], dim_mul(n->ctx, x->dim[1], num(n, b * b)), h, w};
    Val *y = op_transpose(n->b, op_reshape(n->b, n->in[0], 6, six), is_dcr ? dcr : crd);
    return node_done(n, op_reshape(n->b, y, 4, out));
}

/* ---- concat, split, slice ---------------------------------------------------------------------------------------------------- */

bool import_concat(OnnxNode *n)
{
    uint32_t axis;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (!n->in[i] || n->in[i]->type->kind != TY_TENSOR)
            return node_bad(n, "input %u of Concat is no tensor", i);
    return node_axis(n, "axis", na_int(n, "axis", n->row->since < 4 ? 1 : 0), n->in[0]->type->rank, &axis) &&
           node_done(n, op_concat(n->b, n->in, n->n_in, axis));
}

/* The sizes of the parts. Split-2: attribute or equal parts; 13: input; 18: num_outputs, the last part may be smaller. */
static bool split_sizes(OnnxNode *n, const Dim *whole, const Dim **sizes)
{
    const int64_t *listed = NULL;
    const Dim *const *given = NULL;
    uint32_t count = n->n_out;
    int64_t parts = na_int(n, "num_outputs", 0);
    if (n->row->since < 2 && node_in(n, 1))
        return node_bad(n, "Split-1 with an input split is not supported, supported is the attribute");
    if (n->row->since < 13 && (listed = na_ints(n, "split", &count)))
        given = dims_of(n, listed, count);
    else if (n->row->since >= 13 && node_in(n, 1) && !node_dims_in(n, 1, "split", &count, &given))
        return false;
    if (given && parts)
        return node_bad(n, "Split has both an input split and num_outputs");
    if (!given)
        count = parts ? (parts > 0 && parts < INT32_MAX ? (uint32_t)parts : 0) : n->n_out;
    if (count != n->n_out)
        return node_bad(n, "Split into %u parts, but it has %u outputs", count, n->n_out);
    const Dim *sum = num(n, 0), *chunk = dim_floordiv(n->ctx, dim_add(n->ctx, whole, num(n, count - 1)), num(n, count));
    for (uint32_t i = 0; i < count; i++) {
        int64_t low, high;
        const Dim *left = dim_sub(n->ctx, whole, sum);
        sizes[i] = given ? given[i] : i + 1 < count ? dim_min(n->ctx, chunk, left) : left;
        dim_range(sizes[i], &low, &high);
        if (high < 0)
            return node_bad(n, "Split: part %u has size %s", i, dim_text(n, sizes[i]));
        sum = dim_add(n->ctx, sum, sizes[i]);
    }
    if (dim_eq(sum, whole) != TRI_YES)
        return node_bad(n, "Split: the parts have %s elements together, the axis has %s", dim_text(n, sum), dim_text(n, whole));
    if (!given && n->row->since < 18 && dim_divides(num(n, count), whole) != TRI_YES)
        return node_bad(n, "Split: an axis of %s does not divide into %u equal parts", dim_text(n, whole), count);
    return true;
}

bool import_split(OnnxNode *n)
{
    uint32_t axis;
    Val *x = n->in[0];
    const Dim **sizes = ARENA_ARRAY(n->im->arena, const Dim *, n->n_out + 1), *start = num(n, 0);
    if (!node_axis(n, "axis", na_int(n, "axis", 0), x->type->rank, &axis) || !split_sizes(n, x->type->dim[axis], sizes))
        return false;
    for (uint32_t i = 0; i < n->n_out; i++) {
        n->out[i] = op_slice_axis(n->b, x, axis, start, sizes[i], 1);
        if (!n->out[i])
            return false;
        start = dim_add(n->ctx, start, sizes[i]);
    }
    return true;
}

static bool sign_of(const OnnxNode *n, const char *what, const Dim *dim, bool *negative)
{
    int64_t low, high;
    dim_range(dim, &low, &high);
    *negative = high < 0;
    return low >= 0 || high < 0 || node_bad(n, "Slice: the sign of %s %s is not known", what, dim_text(n, dim));
}

/* One axis of Slice-10: bounds count from the end if negative, then are clamped. */
static bool slice_bounds(const OnnxNode *n, const Dim *size, const Dim *from, const Dim *to, int64_t step, const Dim **start,
                         const Dim **count)
{
    Context *c = n->ctx;
    bool from_end, to_end;
    const Dim *zero = num(n, 0), *one = num(n, 1);
    if (!sign_of(n, "start", from, &from_end) || !sign_of(n, "end", to, &to_end))
        return false;
    from = from_end ? dim_add(c, from, size) : from;
    to = to_end ? dim_add(c, to, size) : to;
    const Dim *low = step > 0 ? zero : dim_sub(c, zero, one), *high = step > 0 ? size : dim_sub(c, size, one);
    from = dim_min(c, dim_max(c, from, zero), high);
    to = dim_min(c, dim_max(c, to, low), high);
    const Dim *span = step > 0 ? dim_sub(c, to, from) : dim_sub(c, from, to);
    int64_t stride = step > 0 ? step : -step;
    *start = from;
    *count = dim_max(c, dim_floordiv(c, dim_add(c, span, num(n, stride - 1)), num(n, stride)), zero);
    if (is_number(*count, 0))
        *start = zero;
    return true;
}

typedef struct SliceArgs {
    const Dim *const *starts, *const *ends;
    const int64_t *axes, *steps;
    uint32_t count;
} SliceArgs;

static bool slice_args(OnnxNode *n, SliceArgs *args)
{
    uint32_t ends, axes = 0, steps = 0;
    *args = (SliceArgs){0};
    if (n->row->since < 10) {
        const int64_t *from = na_ints(n, "starts", &args->count), *to = na_ints(n, "ends", &ends);
        args->axes = na_ints(n, "axes", &axes);
        args->starts = dims_of(n, from, args->count);
        args->ends = dims_of(n, to, ends);
    } else {
        if (!node_dims_in(n, 1, "starts", &args->count, &args->starts) || !node_dims_in(n, 2, "ends", &ends, &args->ends) ||
            (node_in(n, 3) && !node_ints_in(n, 3, "axes", &axes, &args->axes)) ||
            (node_in(n, 4) && !node_ints_in(n, 4, "steps", &steps, &args->steps)))
            return false;
    }
    if (ends != args->count || (args->axes && axes != ends) || (args->steps && steps != ends))
        return node_bad(n, "Slice: starts, ends, axes and steps differ in length");
    return true;
}

bool import_slice(OnnxNode *n)
{
    const Type *x = n->in[0]->type;
    SliceArgs args;
    int64_t axes[IR_MAX_RANK], step[IR_MAX_RANK];
    const Dim *start[IR_MAX_RANK], *size[IR_MAX_RANK];
    if (!slice_args(n, &args))
        return false;
    if (args.count > x->rank)
        return node_bad(n, "Slice of %u axes of a tensor of rank %u", args.count, x->rank);
    for (uint32_t i = 0; i < args.count; i++)
        axes[i] = i;
    if (args.axes && !node_axes(n, "axes", args.axes, args.count, x->rank, axes))
        return false;
    for (uint32_t a = 0; a < x->rank; a++) {
        start[a] = num(n, 0);
        size[a] = x->dim[a];
        step[a] = 1;
    }
    for (uint32_t i = 0; i < args.count; i++) {
        int64_t a = axes[i], by = args.steps ? args.steps[i] : 1;
        if (by == 0)
            return node_bad(n, "Slice: steps[%u] is 0", i);
        by = by > INT32_MAX ? INT32_MAX : by < -INT32_MAX ? -INT32_MAX : by; /* beyond any axis */
        step[a] = by;
        if (!slice_bounds(n, x->dim[a], args.starts[i], args.ends[i], by, &start[a], &size[a]))
            return false;
    }
    AttrVal attrs[3] = {attr_dims(start, x->rank), attr_dims(size, x->rank), attr_ints(step, x->rank)};
    return node_done(n, op_emit(n->b, OP_slice, n->in, 1, attrs, 3));
}

/* ---- pad ------------------------------------------------------------------------------------------------------------------------ */

/* Where position i of an axis of `size` elements, extended by repetition of some kind, comes from. */
static int64_t extended(char mode, int64_t i, int64_t size)
{
    int64_t period = mode == 'r' ? 2 * (size - 1) : size, at;
    if (mode == 'e')
        return i < 0 ? 0 : i >= size ? size - 1 : i;
    if (period == 0)
        return 0;
    at = i % period;
    at += at < 0 ? period : 0;
    return at < size ? at : period - at; /* mirrored without repeating the edge */
}

static Val *pad_axis(OnnxNode *n, Val *x, uint32_t axis, char mode, int64_t lo, int64_t hi)
{
    int64_t size, total;
    if (!dim_is_const(x->type->dim[axis], &size))
        return node_bad(n, "Pad: axis %u has a symbolic size, which only mode constant supports", axis), NULL;
    total = size + lo + hi;
    if (total < 0 || total > n->im->max_bytes / 8 || (size == 0 && total > 0))
        return node_bad(n, "Pad: axis %u of %lld elements cannot be padded by %lld and %lld", axis, (long long)size,
                        (long long)lo, (long long)hi), NULL;
    if (lo <= 0 && hi <= 0)
        return op_slice_axis(n->b, x, axis, num(n, -lo), num(n, total), 1);
    int64_t *index = ARENA_ARRAY(n->im->arena, int64_t, (size_t)total + 1);
    for (int64_t i = 0; i < total; i++)
        index[i] = extended(mode, i - lo, size);
    Val *in[2] = {x, op_const_ints(n->b, index, (uint32_t)total)};
    AttrVal attrs[2] = {attr_int(axis), attr_int(0)};
    return op_emit(n->b, OP_gather, in, 2, attrs, 2);
}

/* lo and hi of every axis. Pad-2: attribute; 11: input; 18: of listed axes. */
static bool pad_amounts(OnnxNode *n, const Dim **lo, const Dim **hi)
{
    uint32_t rank = n->in[0]->type->rank, count, listed = rank;
    const Dim *const *pads;
    const int64_t *given;
    int64_t axes[IR_MAX_RANK];
    for (uint32_t a = 0; a < rank; a++) {
        lo[a] = hi[a] = num(n, 0);
        axes[a] = a;
    }
    if (n->row->since < 11) {
        given = na_ints(n, n->row->since < 2 ? "paddings" : "pads", &count);
        pads = dims_of(n, given, count);
    } else if (!node_dims_in(n, 1, "pads", &count, &pads)) {
        return false;
    }
    if (node_in(n, 3) &&
        (!node_ints_in(n, 3, "axes", &listed, &given) || !node_axes(n, "axes", given, listed, rank, axes)))
        return false;
    if (count != 2 * listed)
        return node_bad(n, "Pad: pads has %u entries, expected %u", count, 2 * listed);
    for (uint32_t i = 0; i < listed; i++) {
        lo[axes[i]] = pads[i];
        hi[axes[i]] = pads[i + listed];
    }
    return true;
}

static bool pad_constant(OnnxNode *n, const Dim *const *lo, const Dim *const *hi)
{
    Val *x = n->in[0], *value = node_in(n, 2);
    int64_t interior[IR_MAX_RANK] = {0};
    uint32_t rank = x->type->rank;
    for (uint32_t a = 0; a < rank; a++) {
        int64_t low, high;
        dim_range(dim_add(n->ctx, x->type->dim[a], dim_add(n->ctx, lo[a], hi[a])), &low, &high);
        if (high < 0)
            return node_bad(n, "Pad: axis %u would have a negative size", a);
    }
    if (x->type->dtype == DT_STR || dtype_kind(x->type->dtype) == DK_COMPLEX)
        return node_bad(n, "Pad of %s is not supported", dtype_name(x->type->dtype));
    if (!value)
        value = dtype_is_float(x->type->dtype) ? op_const_f64(n->b, x->type->dtype, na_float(n, "value", 0))
                                               : op_const_s64(n->b, x->type->dtype, (int64_t)na_float(n, "value", 0));
    if (value->type->dtype != x->type->dtype)
        return node_bad(n, "Pad: the value has another type than the data");
    Val *in[2] = {x, node_scalar(n, value)};
    AttrVal attrs[3] = {attr_dims(lo, rank), attr_dims(hi, rank), attr_ints(interior, rank)};
    return in[1] && node_done(n, op_emit(n->b, OP_pad, in, 2, attrs, 3));
}

bool import_pad(OnnxNode *n)
{
    const Dim *lo[IR_MAX_RANK], *hi[IR_MAX_RANK];
    const char *mode;
    if (!na_choice(n, "mode", n->row->since < 18 ? "constant|reflect|edge" : "constant|reflect|edge|wrap", "constant", &mode) ||
        !pad_amounts(n, lo, hi))
        return false;
    if (*mode == 'c')
        return pad_constant(n, lo, hi);
    Val *y = n->in[0];
    for (uint32_t a = 0; y && a < n->in[0]->type->rank; a++) {
        int64_t before, after;
        if (!dim_is_const(lo[a], &before) || !dim_is_const(hi[a], &after))
            return node_bad(n, "Pad: pads depend on a symbolic size, which only mode constant supports");
        if (before > INT32_MAX || after > INT32_MAX || before < -INT32_MAX || after < -INT32_MAX)
            return node_bad(n, "Pad: pads of axis %u are beyond 2^31", a);
        if (before || after)
            y = pad_axis(n, y, a, *mode, before, after);
    }
    return node_done(n, y);
}

/* ---- shapes as data ---------------------------------------------------------------------------------------------------------------- */

static Val *size_value(OnnxNode *n, const Dim *dim)
{
    int64_t size;
    return dim_is_const(dim, &size) ? op_const_s64(n->b, DT_S64, size) : op_dimval(n->b, dim);
}

/* Shape-15 has start and end. */
bool import_shape(OnnxNode *n)
{
    const Type *x = n->in[0]->type;
    int64_t rank = x->rank, start = na_int(n, "start", 0), end = na_int(n, "end", rank), one = 1;
    start += start < 0 ? rank : 0;
    end += end < 0 ? rank : 0;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < 0 ? 0 : end > rank ? rank : end;
    Val *part[IR_MAX_RANK];
    int64_t numbers[IR_MAX_RANK];
    uint32_t count = 0, known = 0;
    for (int64_t a = start; a < end; a++, count++)
        known += dim_is_const(x->dim[a], &numbers[count]);
    if (known == count)
        return node_done(n, op_const_ints(n->b, numbers, count));
    for (uint32_t i = 0; i < count; i++)
        part[i] = op_reshape_s64(n->b, size_value(n, x->dim[start + i]), 1, &one);
    return node_done(n, op_concat(n->b, part, count, 0));
}

bool import_size(OnnxNode *n)
{
    const Dim *size = dim_product(n->ctx, n->in[0]->type->dim, n->in[0]->type->rank);
    if (!dim_is_valid(size))
        return node_bad(n, "the number of elements overflows");
    return node_done(n, size_value(n, size));
}

static Val *tensor_constant(OnnxNode *n, const TensorProto *t, const SparseTensorProto *sparse)
{
    TensorData data;
    Importer *im = n->im;
    im->tensors.loc = node_loc(n);
    bool good = sparse ? onnx_read_sparse(&im->tensors, sparse, &data) : onnx_read_tensor(&im->tensors, "constant", t, &data);
    im->tensors.loc = onnx_model_loc(im);
    if (!good)
        return NULL;
    const Type *type = type_tensor_s64(n->ctx, data.dtype, data.rank, data.dim);
    Str name = str_intern(n->ctx, n->n_out ? n->proto->output.data[0] : "");
    Weight *weight = module_weight(im->module, name, type, data.data, false);
    if (weight->data == data.data && *data.file) {
        weight->file = data.file;
        weight->file_offset = data.offset;
    }
    return op_const_weight(n->b, weight);
}

static Val *list_constant(OnnxNode *n, const AttributeProto *a)
{
    int64_t count = a->type == AT_INTS ? a->ints.len : a->floats.len;
    const Type *type = type_tensor_s64(n->ctx, a->type == AT_INTS ? DT_S64 : DT_F32, 1, &count);
    const void *data = a->type == AT_INTS ? (const void *)a->ints.data : (const void *)a->floats.data;
    static const int64_t nothing[1];
    return op_const_weight(n->b, module_weight(n->im->module, str_intern(n->ctx, ""), type, count ? data : nothing, true));
}

bool import_constant(OnnxNode *n)
{
    if (n->n_attr != 1)
        return node_bad(n, "Constant has %u attributes that give its value, expected is one", n->n_attr);
    const AttributeProto *a = n->attr[0];
    const char *name = n->attr_names[0];
    if (!strcmp(name, "value"))
        return node_done(n, tensor_constant(n, a->t, NULL));
    if (!strcmp(name, "sparse_value"))
        return node_done(n, tensor_constant(n, NULL, a->sparse_tensor));
    if (!strcmp(name, "value_float"))
        return node_done(n, op_const_f64(n->b, DT_F32, a->f));
    if (!strcmp(name, "value_int"))
        return node_done(n, op_const_s64(n->b, DT_S64, a->i));
    if (!strcmp(name, "value_ints") || !strcmp(name, "value_floats"))
        return node_done(n, list_constant(n, a));
    return na_bad(n, name, "constants of strings are not supported");
}

bool import_constant_of_shape(OnnxNode *n)
{
    const Dim *const *dims;
    uint32_t rank;
    const AttributeProto *a = na_find(n, "value");
    if (!node_dims_in(n, 0, "shape", &rank, &dims))
        return false;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t low, high;
        dim_range(dims[i], &low, &high);
        if (high < 0)
            return node_bad(n, "ConstantOfShape: size %u is %s", i, dim_text(n, dims[i]));
    }
    Val *value = a ? tensor_constant(n, a->t, NULL) : op_const_f64(n->b, DT_F32, 0);
    uint64_t count;
    if (!value)
        return false;
    if (!type_count(value->type, &count) || count != 1)
        return na_bad(n, "value", "it has more or less than one element");
    return node_done(n, op_broadcast(n->b, node_scalar(n, value), rank, dims));
}

/* ---- range ------------------------------------------------------------------------------------------------------------------------ */

/* start + i * step, in f32 for 16-bit floats. */
static Val *range_value(OnnxNode *n, DType dtype, const Dim *count, Val *start, Val *step)
{
    DType inner = dtype == DT_F16 || dtype == DT_BF16 ? DT_F32 : dtype;
    AttrVal iota[3] = {attr_dtype(inner), attr_dims(&count, 1), attr_int(0)};
    Val *index = op_emit(n->b, OP_iota, NULL, 0, iota, 3);
    Val *y = op_binary(n->b, OP_mul, index, op_cast_to(n->b, step, inner));
    y = op_binary(n->b, OP_add, y, op_cast_to(n->b, start, inner));
    return op_cast_to(n->b, y, dtype);
}

/* max(ceil((limit - start) / step), 0) */
static bool range_count(OnnxNode *n, const Dim **count)
{
    const Dim *d[3];
    int64_t step;
    double v[3];
    static const char *const names[3] = {"start", "limit", "delta"};
    bool floats = dtype_is_float(n->in[0]->type->dtype);
    for (uint32_t i = 0; i < 3; i++)
        if (floats ? !node_scalar_f64(n, i, names[i], &v[i]) : !node_dim_in(n, i, names[i], &d[i]))
            return false;
    if (floats) {
        double elements = (v[1] - v[0]) / v[2], whole = elements > 0 ? (double)(int64_t)(elements < 0x1p40 ? elements : 0x1p40) : 0;
        whole += whole < elements ? 1 : 0;
        if (v[2] == 0 || elements != elements || whole >= 0x1p40)
            return node_bad(n, "Range from %g to %g by %g", v[0], v[1], v[2]);
        *count = num(n, (int64_t)whole);
        return true;
    }
    if (!dim_is_const(d[2], &step) || step == 0 || step == INT64_MIN)
        return node_bad(n, "Range: the step %s", dim_is_const(d[2], &step) ? "is 0" : "is symbolic, supported is a number");
    const Dim *span = step > 0 ? dim_sub(n->ctx, d[1], d[0]) : dim_sub(n->ctx, d[0], d[1]);
    int64_t by = step > 0 ? step : -step;
    *count = dim_max(n->ctx, dim_floordiv(n->ctx, dim_add(n->ctx, span, num(n, by - 1)), num(n, by)), num(n, 0));
    return dim_is_valid(*count) || node_bad(n, "Range: its length overflows");
}

bool import_range(OnnxNode *n)
{
    DType dtype = n->in[0]->type->dtype;
    const Dim *count = NULL;
    Val *in[3];
    for (uint32_t i = 0; i < 3; i++) {
        if (n->in[i]->type->dtype != dtype || n->in[i]->type->rank > 1)
            return node_bad(n, "Range takes three scalars of one type");
        in[i] = node_scalar(n, n->in[i]);
        if (!in[i])
            return false;
    }
    return range_count(n, &count) && node_done(n, range_value(n, dtype, count, in[0], in[2]));
}
