/* SPDX-License-Identifier: Apache-2.0
 *
 * Resize-10 .. 19 and Upsample-1 .. 9. Where an element comes from depends on sizes and attributes only, so it is decided
 * here: per axis a table of input positions (nearest), or of positions and weights (linear, cubic). Axes are resized one
 * after the other, ascending; each reads what the one before gave, rounded to the element type (16-bit floats and integers: f32).
 *
 * An element is ((x[i0]*w0 + x[i1]*w1) + x[i2]*w2) .. over its taps in ascending position; above MAX_CHAIN taps (antialiased
 * shrinking by much) the products are summed by the reduction rule of numerics.md. Coordinates and weights are f64, weights
 * are rounded once. Taps of weight zero take part, so an infinity beside an element makes it NaN. Integers round half to
 * even and saturate, as the reference does.
 *
 * Where sizes are symbols the graph computes positions and weights, by the same operations in f64.
 */
#include "front/onnx/onnx_int.h"

#include <math.h>
#include <string.h>

enum { MAX_CHAIN = 16, MAX_TAPS = 1 << 24 };

typedef enum Coordinate { CO_HALF_PIXEL, CO_SYMMETRIC, CO_PYTORCH, CO_CORNERS, CO_ASYMMETRIC, CO_TF_NN, CO_CROP } Coordinate;
static const struct {
    const char *name;
    Coordinate coordinate;
} coordinates[] = {{"half_pixel", CO_HALF_PIXEL},         {"half_pixel_symmetric", CO_SYMMETRIC},
                   {"pytorch_half_pixel", CO_PYTORCH},    {"align_corners", CO_CORNERS},
                   {"asymmetric", CO_ASYMMETRIC},         {"tf_half_pixel_for_nn", CO_TF_NN},
                   {"tf_crop_and_resize", CO_CROP}};

typedef struct Resize {
    OnnxNode *n;
    char mode; /* n l c */
    Coordinate coordinate;
    const char *nearest;
    bool antialias, exclude_outside;
    double cubic_a, extrapolation;
    uint32_t rank;
    bool resized[IR_MAX_RANK];
    double scale[IR_MAX_RANK], roi_lo[IR_MAX_RANK], roi_hi[IR_MAX_RANK]; /* scale 0: follows from sizes that are symbols */
    const Dim *size[IR_MAX_RANK];
} Resize;

/* Of one axis of numbers. */
typedef struct Table {
    int64_t in, out;
    uint32_t taps;
    int64_t *index; /* [out][taps], inside the axis */
    double *weight; /* [out][taps] */
    bool *outside;  /* [out]: takes the extrapolation value; NULL: none does */
} Table;

/* ---- tables ------------------------------------------------------------------------------------------------------------ */

/* Resize-19, coordinate_transformation_mode */
static double original_position(const Resize *r, uint32_t axis, const Table *t, int64_t o)
{
    double scale = r->scale[axis], x = (double)o, in = (double)t->in, out = (double)t->out;
    double lo = r->roi_lo[axis], hi = r->roi_hi[axis];
    switch (r->coordinate) {
    case CO_HALF_PIXEL: return (x + 0.5) / scale - 0.5;
    case CO_SYMMETRIC: return in / 2 * (1 - out / (scale * in)) + (x + 0.5) / scale - 0.5;
    case CO_PYTORCH: return t->out > 1 ? (x + 0.5) / scale - 0.5 : 0;
    case CO_CORNERS: return t->out > 1 ? x * (in - 1) / (out - 1) : 0;
    case CO_ASYMMETRIC: return x / scale;
    case CO_TF_NN: return (x + 0.5) / scale;
    case CO_CROP: return t->out > 1 ? lo * (in - 1) + x * (hi - lo) * (in - 1) / (out - 1) : 0.5 * (lo + hi) * (in - 1);
    }
    return 0;
}

static int64_t clamped(double position, int64_t size)
{
    return position > (double)(size - 1) ? size - 1 : position > 0 ? (int64_t)position : 0;
}

static double nearest_position(const Resize *r, double x)
{
    double floor_x = floor(x), rest = x - floor_x;
    if (!strcmp(r->nearest, "floor"))
        return floor_x;
    if (!strcmp(r->nearest, "ceil"))
        return ceil(x);
    return rest > 0.5 || (rest == 0.5 && !strcmp(r->nearest, "round_prefer_ceil")) ? floor_x + 1 : floor_x;
}

/* The kernel at distance d, in units of the wider of the two grids where antialiased. */
static double kernel_weight(const Resize *r, double d)
{
    double a = r->cubic_a;
    d = fabs(d);
    if (r->mode == 'l')
        return d < 1 ? 1 - d : 0;
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static bool count_taps(const Resize *r, uint32_t axis, Table *t)
{
    double reach = r->mode == 'l' ? 1 : 2, shrink = r->antialias && r->scale[axis] < 1 ? r->scale[axis] : 1;
    double taps = -2 * floor(-reach / shrink); /* 2, 4 where nothing is stretched */
    if (r->mode == 'n')
        taps = 1;
    if (!(taps * (double)t->out <= MAX_TAPS))
        return node_bad(r->n, "axis %u asks for more than %d weights", axis, MAX_TAPS);
    t->taps = (uint32_t)taps;
    return true;
}

/* The taps of one element: `taps` positions around x, those outside held at the edge or (exclude_outside) without weight. */
static void fill_row(const Resize *r, uint32_t axis, const Table *t, double x, int64_t *index, double *weight)
{
    double shrink = r->antialias && r->scale[axis] < 1 ? r->scale[axis] : 1, sum = 0;
    double first = ceil(x) - t->taps / 2;
    for (uint32_t k = 0; k < t->taps; k++) {
        double at = first + k;
        bool inside = at >= 0 && at <= (double)(t->in - 1);
        index[k] = clamped(at, t->in);
        weight[k] = r->exclude_outside && !inside ? 0 : kernel_weight(r, (at - x) * shrink);
        sum += weight[k];
    }
    for (uint32_t k = 0; k < t->taps && (r->exclude_outside || r->antialias) && sum != 0; k++)
        weight[k] /= sum;
}

static bool fill_table(const Resize *r, uint32_t axis, Table *t)
{
    Arena *arena = r->n->im->arena;
    if (!count_taps(r, axis, t))
        return false;
    t->index = ARENA_ARRAY(arena, int64_t, (uint64_t)t->out * t->taps + 1);
    t->weight = ARENA_ARRAY(arena, double, (uint64_t)t->out * t->taps + 1);
    for (int64_t o = 0; o < t->out; o++) {
        double x = original_position(r, axis, t, o);
        if (r->mode == 'n')
            t->index[o] = clamped(nearest_position(r, x), t->in);
        else
            fill_row(r, axis, t, x, t->index + o * t->taps, t->weight + o * t->taps);
        if (r->coordinate == CO_CROP && !(x >= 0 && x <= (double)(t->in - 1))) {
            t->outside = t->outside ? t->outside : ARENA_ARRAY(arena, bool, (uint64_t)t->out);
            t->outside[o] = true;
        }
    }
    return true;
}

/* ---- one axis ---------------------------------------------------------------------------------------------------------- */

/* A list of numbers along one axis of `rank` */
static Val *along(const Resize *r, DType dtype, uint32_t rank, uint32_t axis, const double *values, int64_t count)
{
    int64_t dims[IR_MAX_RANK];
    for (uint32_t a = 0; a < rank; a++)
        dims[a] = a == axis ? count : 1;
    return node_const(r->n, dtype, rank, dims, values);
}

/* Each element `times` in a row: what nearest by a whole factor is, of numbers or symbols. */
static Val *repeat(const Resize *r, Val *x, uint32_t axis, int64_t times)
{
    const Dim *apart[IR_MAX_RANK + 1], *out[IR_MAX_RANK];
    uint32_t rank = x->type->rank;
    for (uint32_t a = 0; a < rank; a++) {
        apart[a + (a > axis)] = out[a] = x->type->dim[a];
    }
    out[axis] = dim_mul(r->n->ctx, out[axis], dim_const(r->n->ctx, times));
    apart[axis + 1] = dim_const(r->n->ctx, 1);
    Val *y = op_reshape(r->n->b, x, rank + 1, apart);
    apart[axis + 1] = dim_const(r->n->ctx, times);
    return op_reshape(r->n->b, op_broadcast(r->n->b, y, rank + 1, apart), rank, out);
}

static int64_t whole_factor(const Table *t)
{
    int64_t times = t->in ? t->out / t->in : 0;
    if (times < 1 || times * t->in != t->out)
        return 0;
    for (int64_t o = 0; o < t->out; o++)
        if (t->index[o] != o / times)
            return 0;
    return times;
}

static Val *pick(const Resize *r, Val *x, uint32_t axis, const int64_t *index, uint32_t count)
{
    Val *in[2] = {x, op_const_ints(r->n->b, index, count)};
    AttrVal attrs[2] = {attr_int(axis), attr_int(0)};
    return op_emit(r->n->b, OP_gather, in, 2, attrs, 2);
}

static Val *sum_taps(const Resize *r, Val *x, uint32_t axis, const Table *t)
{
    Builder *b = r->n->b;
    Val *y = NULL;
    int64_t *index = ARENA_ARRAY(r->n->im->arena, int64_t, (uint64_t)t->out);
    double *weight = ARENA_ARRAY(r->n->im->arena, double, (uint64_t)t->out);
    for (uint32_t k = 0; k < t->taps; k++) {
        for (int64_t o = 0; o < t->out; o++) {
            index[o] = t->index[o * t->taps + k];
            weight[o] = t->weight[o * t->taps + k];
        }
        Val *term = op_binary(b, OP_mul, pick(r, x, axis, index, (uint32_t)t->out),
                              along(r, x->type->dtype, x->type->rank, axis, weight, t->out));
        y = k ? op_binary(b, OP_add, y, term) : term;
        if (!y)
            return NULL;
    }
    return y;
}

/* All products beside each other, [.., out, taps, ..] */
static Val *reduce_taps(const Resize *r, Val *x, uint32_t axis, const Table *t)
{
    Builder *b = r->n->b;
    uint32_t rank = x->type->rank;
    const Dim *apart[IR_MAX_RANK];
    int64_t dims[IR_MAX_RANK], taps_axis = axis + 1;
    if (rank == IR_MAX_RANK)
        return node_bad(r->n, "an antialiased Resize of rank %u is not supported", rank), NULL;
    for (uint32_t a = 0; a <= rank; a++)
        dims[a] = a == axis ? t->out : a == axis + 1 ? t->taps : 1;
    Val *y = pick(r, x, axis, t->index, (uint32_t)(t->out * t->taps));
    if (!y)
        return NULL;
    for (uint32_t a = 0; a < rank; a++)
        apart[a + (a > axis)] = y->type->dim[a];
    apart[axis] = dim_const(r->n->ctx, t->out);
    apart[axis + 1] = dim_const(r->n->ctx, t->taps);
    y = op_binary(b, OP_mul, op_reshape(b, y, rank + 1, apart), node_const(r->n, x->type->dtype, rank + 1, dims, t->weight));
    return op_squeeze_axes(b, op_reduce(b, y, "sum", &taps_axis, 1), &taps_axis, 1);
}

/* ---- one axis whose sizes are symbols ----------------------------------------------------------------------------------- */

typedef struct Sized {
    Builder *b;
    Val *in, *out, *scale; /* f64 scalars */
    Val *at;               /* f64[out]: 0, 1 .. */
    Val *position;         /* of each element in the operand */
} Sized;

static Val *number(const Sized *s, double value) { return op_const_f64(s->b, DT_F64, value); }
static Val *plus(const Sized *s, Val *x, Val *y) { return op_binary(s->b, OP_add, x, y); }
static Val *minus(const Sized *s, Val *x, Val *y) { return op_binary(s->b, OP_sub, x, y); }
static Val *times(const Sized *s, Val *x, Val *y) { return op_binary(s->b, OP_mul, x, y); }
static Val *over(const Sized *s, Val *x, Val *y) { return op_binary(s->b, OP_div, x, y); }
static Val *below(const Sized *s, Val *x, Val *y) { return op_binary(s->b, OP_lt, x, y); }

static Val *size_value(Builder *b, const Dim *size) { return op_cast_to(b, op_dimval(b, size), DT_F64); }

/* original_position */
static Val *sized_position(const Resize *r, const Sized *s)
{
    Val *half = number(s, 0.5), *one = number(s, 1), *several = below(s, one, s->out);
    Val *centred = minus(s, over(s, plus(s, s->at, half), s->scale), half), *shift, *corners;
    switch (r->coordinate) {
    case CO_HALF_PIXEL: return centred;
    case CO_SYMMETRIC:
        shift = times(s, over(s, s->in, number(s, 2)), minus(s, one, over(s, s->out, times(s, s->scale, s->in))));
        return minus(s, plus(s, shift, over(s, plus(s, s->at, half), s->scale)), half);
    case CO_PYTORCH: return op_select(s->b, several, centred, number(s, 0));
    case CO_CORNERS:
        corners = over(s, times(s, s->at, minus(s, s->in, one)), minus(s, s->out, one));
        return op_select(s->b, several, corners, number(s, 0));
    case CO_ASYMMETRIC: return over(s, s->at, s->scale);
    default: return over(s, plus(s, s->at, half), s->scale); /* CO_TF_NN */
    }
}

static Val *sized_nearest(const Resize *r, const Sized *s)
{
    Val *x = s->position, *floor_x = op_unary(s->b, OP_floor, x), *half = number(s, 0.5), *rest = minus(s, x, floor_x);
    if (!strcmp(r->nearest, "floor"))
        return floor_x;
    if (!strcmp(r->nearest, "ceil"))
        return op_unary(s->b, OP_ceil, x);
    bool ceil_half = !strcmp(r->nearest, "round_prefer_ceil");
    Val *up = ceil_half ? op_binary(s->b, OP_le, half, rest) : below(s, half, rest);
    return op_select(s->b, up, plus(s, floor_x, number(s, 1)), floor_x);
}

/* kernel_weight */
static Val *sized_weight(const Resize *r, const Sized *s, Val *d)
{
    double a = r->cubic_a;
    Val *zero = number(s, 0), *one = number(s, 1);
    d = op_unary(s->b, OP_abs, d);
    if (r->mode == 'l')
        return op_select(s->b, below(s, d, one), minus(s, one, d), zero);
    Val *near = minus(s, times(s, number(s, a + 2), d), number(s, a + 3));
    near = plus(s, times(s, times(s, near, d), d), one);
    Val *far = plus(s, times(s, minus(s, times(s, number(s, a), d), number(s, 5 * a)), d), number(s, 8 * a));
    far = minus(s, times(s, far, d), number(s, 4 * a));
    return op_select(s->b, op_binary(s->b, OP_le, d, one), near, op_select(s->b, below(s, d, number(s, 2)), far, zero));
}

/* The elements of x at positions that are clamped to the axis. */
static Val *pick_at(const Sized *s, Val *x, uint32_t axis, Val *position)
{
    Val *last = minus(s, s->in, number(s, 1));
    position = op_binary(s->b, OP_min, op_binary(s->b, OP_max, position, number(s, 0)), last);
    Val *in[2] = {x, op_cast_to(s->b, position, DT_S64)};
    AttrVal attrs[2] = {attr_int(axis), attr_int(0)};
    return op_emit(s->b, OP_gather, in, 2, attrs, 2);
}

/* fill_row and sum_taps; the same size on both sides keeps every bit. */
static Val *sized_taps(const Resize *r, const Sized *s, Val *x, uint32_t axis)
{
    enum { MOST = 4 };
    int taps = r->mode == 'l' ? 2 : MOST;
    Val *first = minus(s, op_unary(s->b, OP_ceil, s->position), number(s, taps / 2)), *at[MOST], *weight[MOST], *sum = NULL, *y = NULL;
    Val *last = minus(s, s->in, number(s, 1));
    for (int k = 0; k < taps; k++) {
        at[k] = plus(s, first, number(s, k));
        weight[k] = sized_weight(r, s, minus(s, at[k], s->position));
        Val *inside = op_binary(s->b, OP_and, op_binary(s->b, OP_le, number(s, 0), at[k]), op_binary(s->b, OP_le, at[k], last));
        weight[k] = r->exclude_outside ? op_select(s->b, inside, weight[k], number(s, 0)) : weight[k];
        sum = k ? plus(s, sum, weight[k]) : plus(s, number(s, 0), weight[k]);
    }
    for (int k = 0; k < taps && s->position; k++) {
        const Dim *dims[IR_MAX_RANK];
        Val *scaled = over(s, weight[k], sum), *nothing = op_binary(s->b, OP_eq, sum, number(s, 0));
        Val *w = r->exclude_outside ? op_select(s->b, nothing, weight[k], scaled) : weight[k];
        for (uint32_t a = 0; a < r->rank; a++)
            dims[a] = a == axis ? r->size[axis] : dim_const(r->n->ctx, 1);
        w = op_reshape(s->b, op_cast_to(s->b, w, x->type->dtype), r->rank, dims);
        Val *term = op_binary(s->b, OP_mul, pick_at(s, x, axis, at[k]), w);
        y = k ? op_binary(s->b, OP_add, y, term) : term;
    }
    bool same = r->scale[axis] == 0 || r->scale[axis] == 1;
    Val *equal = op_binary(s->b, OP_eq, s->in, s->out);
    return y && same && r->coordinate < CO_TF_NN ? op_select(s->b, equal, pick_at(s, x, axis, s->at), y) : y;
}

static Val *resize_sized(const Resize *r, Val *x, uint32_t axis)
{
    const Dim *in = x->type->dim[axis], *out = r->size[axis];
    int64_t low, high;
    dim_range(in, &low, &high);
    if (low < 1 || r->antialias || r->coordinate == CO_CROP)
        return node_bad(r->n, "axis %u has a symbolic size; not supported there: antialias, tf_crop_and_resize, sizes that may be 0; "
                              "give input shapes, or ranges from 1", axis), NULL;
    AttrVal iota[3] = {attr_dtype(DT_F64), attr_dims(&out, 1), attr_int(0)};
    Sized s = {.b = r->n->b, .in = size_value(r->n->b, in), .out = size_value(r->n->b, out)};
    s.scale = r->scale[axis] != 0 ? number(&s, r->scale[axis]) : over(&s, s.out, s.in);
    s.at = op_emit(s.b, OP_iota, NULL, 0, iota, 3);
    s.position = sized_position(r, &s);
    return r->mode == 'n' ? pick_at(&s, x, axis, sized_nearest(r, &s)) : sized_taps(r, &s, x, axis);
}

static Val *resize_axis(const Resize *r, Val *x, uint32_t axis)
{
    Table t = {0};
    OnnxNode *n = r->n;
    const Dim *in = x->type->dim[axis];
    bool numbers = dim_is_const(in, &t.in) && dim_is_const(r->size[axis], &t.out);
    double scale = r->scale[axis];
    if (!numbers) { /* a whole factor, or nothing to do */
        bool centred = r->coordinate == CO_HALF_PIXEL || r->coordinate == CO_SYMMETRIC || r->coordinate == CO_PYTORCH;
        bool rows = r->mode == 'n' && ((r->coordinate == CO_ASYMMETRIC && !strcmp(r->nearest, "floor")) ||
                                       (centred && !strncmp(r->nearest, "round", 5)));
        if (dim_eq(in, r->size[axis]) == TRI_YES && (scale == 1 || scale == 0) && r->coordinate < CO_TF_NN)
            return x;
        if (rows && scale >= 1 && scale < 1 << 20 && scale == floor(scale))
            return repeat(r, x, axis, (int64_t)scale);
        return resize_sized(r, x, axis);
    }
    if (t.out == 0)
        return op_slice_axis(n->b, x, axis, dim_const(n->ctx, 0), dim_const(n->ctx, 0), 1);
    if (t.in == 0 || t.out > INT32_MAX)
        return node_bad(n, "axis %u is resized from %lld to %lld elements", axis, (long long)t.in, (long long)t.out), NULL;
    if (t.in == t.out && scale == 1 && r->coordinate < CO_TF_NN && r->mode != 'n')
        return x;
    if (!fill_table(r, axis, &t))
        return NULL;
    int64_t times = r->mode == 'n' ? whole_factor(&t) : 0;
    Val *y = times == 1 ? x
             : times && x->type->rank < IR_MAX_RANK ? repeat(r, x, axis, times)
             : r->mode == 'n' ? pick(r, x, axis, t.index, (uint32_t)t.out)
             : t.taps <= MAX_CHAIN ? sum_taps(r, x, axis, &t) : reduce_taps(r, x, axis, &t);
    if (!y || !t.outside)
        return y;
    double *mask = ARENA_ARRAY(n->im->arena, double, (uint64_t)t.out);
    for (int64_t o = 0; o < t.out; o++)
        mask[o] = t.outside[o];
    return op_select(n->b, along(r, DT_BOOL, y->type->rank, axis, mask, t.out),
                     op_like(n->b, y, r->extrapolation), y);
}

/* ---- attributes and inputs ----------------------------------------------------------------------------------------------- */

static bool read_attributes(OnnxNode *n, Resize *r)
{
    const char *mode, *coordinate, *policy, *choices = "half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|"
                                                       "tf_half_pixel_for_nn|tf_crop_and_resize";
    bool old = !na_find(n, "coordinate_transformation_mode") && (n->row->since < 11 || !strcmp(n->row->type, "Upsample"));
    if (!na_choice(n, "mode", "nearest|linear|cubic|bilinear", "nearest", &mode) ||
        !na_choice(n, "coordinate_transformation_mode", choices, old ? "asymmetric" : "half_pixel", &coordinate) ||
        !na_choice(n, "nearest_mode", "round_prefer_floor|round_prefer_ceil|floor|ceil", old ? "floor" : "round_prefer_floor",
                   &r->nearest) ||
        !na_choice(n, "keep_aspect_ratio_policy", "stretch|not_larger|not_smaller", "stretch", &policy))
        return false;
    for (size_t i = 0; i < IG_COUNT(coordinates); i++)
        if (!strcmp(coordinates[i].name, coordinate))
            r->coordinate = coordinates[i].coordinate;
    r->mode = *mode == 'b' ? 'l' : *mode;
    r->antialias = na_int(n, "antialias", 0) != 0;
    r->exclude_outside = na_int(n, "exclude_outside", 0) != 0;
    r->cubic_a = na_float(n, "cubic_coeff_a", -0.75);
    r->extrapolation = na_float(n, "extrapolation_value", 0);
    return !(r->antialias && r->mode == 'n') || na_bad(n, "antialias", "it is meant for linear and cubic, not for nearest");
}

/* An input of no elements is absent (Resize-11). */
static bool is_given(const OnnxNode *n, uint32_t i)
{
    uint64_t count;
    Val *val = node_in(n, i);
    return val && !(val->type->kind == TY_TENSOR && type_count(val->type, &count) && count == 0);
}

static bool use_scales(Resize *r, const double *scales, uint32_t count, const int64_t *axes, uint32_t n_axes)
{
    OnnxNode *n = r->n;
    if (count != n_axes)
        return node_bad(n, "%s has %u scales, expected %u", n->row->type, count, n_axes);
    for (uint32_t i = 0; i < count; i++) {
        const Dim *in = n->in[0]->type->dim[axes[i]];
        double scale = scales[i];
        int64_t size;
        if (!(scale > 0) || isinf(scale))
            return node_bad(n, "scale %u of %s is %g, it must be a finite number above 0", i, n->row->type, scale);
        r->scale[axes[i]] = scale;
        if (dim_is_const(in, &size)) {
            double out = floor(scale * (double)size);
            if (out > INT32_MAX)
                return node_bad(n, "%s makes axis %u %g elements long", n->row->type, (uint32_t)axes[i], out);
            r->size[axes[i]] = dim_const(n->ctx, (int64_t)out);
        } else if (scale == floor(scale) && scale <= INT32_MAX) {
            r->size[axes[i]] = dim_mul(n->ctx, in, dim_const(n->ctx, (int64_t)scale));
        } else {
            return node_bad(n, "axis %u has a symbolic size and the scale %g; give input shapes", (uint32_t)axes[i], scale);
        }
    }
    return true;
}

/* keep_aspect_ratio_policy: one scale for all axes, sizes round half up. */
static bool keep_aspect(Resize *r, const int64_t *axes, uint32_t n_axes)
{
    const char *policy = na_str(r->n, "keep_aspect_ratio_policy", "stretch");
    double scale = 0;
    if (!strcmp(policy, "stretch"))
        return true;
    for (uint32_t i = 0; i < n_axes; i++) {
        double own = r->scale[axes[i]];
        if (own == 0)
            return na_bad(r->n, "keep_aspect_ratio_policy", "sizes must be numbers");
        if (i == 0 || (!strcmp(policy, "not_larger") ? own < scale : own > scale))
            scale = own;
    }
    for (uint32_t i = 0; i < n_axes; i++) {
        double out = floor(scale * (double)type_dim(r->n->in[0]->type, (uint32_t)axes[i]) + 0.5);
        if (out > INT32_MAX)
            return node_bad(r->n, "Resize makes axis %u %g elements long", (uint32_t)axes[i], out);
        r->scale[axes[i]] = scale;
        r->size[axes[i]] = dim_const(r->n->ctx, (int64_t)out);
    }
    return true;
}

static bool use_sizes(Resize *r, uint32_t input, const int64_t *axes, uint32_t n_axes)
{
    OnnxNode *n = r->n;
    uint32_t count;
    const Dim *const *sizes;
    if (!node_dims_in(n, input, "sizes", &count, &sizes))
        return false;
    if (count != n_axes)
        return node_bad(n, "%s has %u sizes, expected %u", n->row->type, count, n_axes);
    for (uint32_t i = 0; i < count; i++) {
        int64_t in, out, low, high, times;
        const Dim *have = n->in[0]->type->dim[axes[i]];
        dim_range(sizes[i], &low, &high);
        if (high < 0)
            return node_bad(n, "size %u of %s is %lld, it must be 0 or more", i, n->row->type, (long long)high);
        bool numbers = dim_is_const(have, &in) && dim_is_const(sizes[i], &out);
        const Dim *factor = dim_floordiv(n->ctx, sizes[i], have);
        bool whole = !numbers && dim_is_const(factor, &times) && dim_eq(dim_mul(n->ctx, factor, have), sizes[i]) == TRI_YES;
        r->size[axes[i]] = sizes[i];
        r->scale[axes[i]] = numbers && in ? (double)out / (double)in : whole ? (double)times : 0;
    }
    return keep_aspect(r, axes, n_axes);
}

static bool use_roi(Resize *r, uint32_t input, const int64_t *axes, uint32_t n_axes)
{
    uint32_t count;
    const double *values;
    if (r->coordinate != CO_CROP)
        return true;
    if (!is_given(r->n, input))
        return node_bad(r->n, "tf_crop_and_resize needs the input roi");
    if (!node_floats_in(r->n, input, "roi", &count, &values))
        return false;
    if (count != 2 * n_axes)
        return node_bad(r->n, "roi has %u entries, expected %u", count, 2 * n_axes);
    for (uint32_t i = 0; i < n_axes; i++) {
        r->roi_lo[axes[i]] = values[i];
        r->roi_hi[axes[i]] = values[i + n_axes];
    }
    return true;
}

static bool read_axes(Resize *r, int64_t *axes, uint32_t *n_axes)
{
    uint32_t count;
    const int64_t *given = na_ints(r->n, "axes", &count);
    r->rank = val_rank(r->n->in[0]);
    *n_axes = given ? count : r->rank;
    for (uint32_t a = 0; a < r->rank; a++) {
        axes[a] = a;
        r->size[a] = r->n->in[0]->type->dim[a];
        r->scale[a] = r->roi_hi[a] = 1;
    }
    if (given && !node_axes(r->n, "axes", given, count, r->rank, axes))
        return false;
    for (uint32_t i = 0; i < *n_axes; i++)
        r->resized[axes[i]] = true;
    return true;
}

static bool emit_resize(const Resize *r)
{
    OnnxNode *n = r->n;
    Val *x = n->in[0];
    DType dtype = x->type->dtype;
    bool integers = r->mode != 'n' && !dtype_is_float(dtype);
    if (integers && !dtype_is_int(dtype))
        return node_bad(n, "%s by linear or cubic takes numbers", n->row->type);
    x = r->mode == 'n' ? x : integers ? op_cast_to(n->b, x, DT_F32) : node_widened(n, x);
    for (uint32_t a = 0; a < r->rank && x; a++)
        if (r->resized[a])
            x = resize_axis(r, x, a);
    return node_done_as(n, integers ? op_unary(n->b, OP_rint, x) : x, dtype);
}

bool import_resize(OnnxNode *n)
{
    Resize r = {.n = n};
    int64_t axes[IR_MAX_RANK];
    uint32_t n_axes, count, first = n->row->since < 11 ? 1 : 2;
    const double *scales;
    if (n->in[0]->type->kind != TY_TENSOR || !read_attributes(n, &r) || !read_axes(&r, axes, &n_axes))
        return false;
    bool scaled = is_given(n, first), sized = first == 2 && is_given(n, 3);
    if (scaled == sized)
        return node_bad(n, "Resize takes scales or sizes, %s", scaled ? "not both" : "it has neither");
    if (sized ? !use_sizes(&r, 3, axes, n_axes)
              : !node_floats_in(n, first, "scales", &count, &scales) || !use_scales(&r, scales, count, axes, n_axes))
        return false;
    return (first == 1 || use_roi(&r, 1, axes, n_axes)) && emit_resize(&r);
}

/* Upsample: nearest takes the lower position, coordinates are x / scale. */
bool import_upsample(OnnxNode *n)
{
    Resize r = {.n = n};
    int64_t axes[IR_MAX_RANK];
    uint32_t n_axes, count = 0;
    const double *scales = NULL;
    double list[IR_MAX_RANK] = {1, 1};
    if (n->in[0]->type->kind != TY_TENSOR || !read_attributes(n, &r) || !read_axes(&r, axes, &n_axes))
        return false;
    if (n->row->since >= 9) {
        if (!node_floats_in(n, 1, "scales", &count, &scales))
            return false;
    } else {
        const AttributeProto *a = na_find(n, "scales");
        count = a ? a->floats.len : 4;
        if (count > IR_MAX_RANK)
            return na_bad(n, "scales", "it has %u entries", count);
        list[2] = na_float(n, "height_scale", 1);
        list[3] = na_float(n, "width_scale", 1);
        for (uint32_t i = 0; a && i < count; i++)
            list[i] = a->floats.data[i];
        scales = list;
    }
    return use_scales(&r, scales, count, axes, n_axes) && emit_resize(&r);
}
