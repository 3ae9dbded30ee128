/* SPDX-License-Identifier: Apache-2.0
 *
 * GridSample-16 .. 22: places are data, so an element is a sum of gathered neighbours. Coordinates are f32 (f64 of f64).
 *
 * Padding `border` clips and `reflection` folds back the place itself (cubic: each neighbour); `zeros` replaces neighbours outside.
 * Neighbours are summed in row-major order, each times the product of its weights, ((wz * wy) * wx).
 */
#include "front/onnx/onnx_int.h"

#include <string.h>

enum { MAX_AXES = 3, MAX_NEAR = 4 };

typedef struct Near {
    Val *at, *weight, *inside; /* along one axis: position (a whole float inside the axis), weight or NULL, bool or NULL */
} Near;
typedef struct Grid {
    OnnxNode *n;
    Builder *b;
    DType dtype;
    char mode, padding; /* linear nearest cubic; zeros border reflection: the first letter */
    bool align;
    uint32_t axes;
    int64_t size[MAX_AXES];
} Grid;

static Val *num(const Grid *g, double value) { return op_const_f64(g->b, g->dtype, value); }
static Val *bin(const Grid *g, Op op, Val *x, Val *y) { return op_binary(g->b, op, x, y); }

static Val *clip(const Grid *g, Val *x, int64_t size)
{
    return bin(g, OP_min, bin(g, OP_max, x, num(g, 0)), num(g, (double)(size - 1)));
}

/* Mirrored at the borders (align_corners: at the centres of the outer elements) until inside */
static Val *reflect(const Grid *g, Val *x, int64_t size)
{
    double low = g->align ? 0 : -0.5, span = (double)size - (g->align ? 1 : 0);
    if (span == 0)
        return bin(g, OP_mul, x, num(g, 0));
    Val *far = op_unary(g->b, OP_abs, bin(g, OP_sub, x, num(g, low)));
    Val *turns = op_unary(g->b, OP_floor, bin(g, OP_div, far, num(g, span)));
    Val *rest = bin(g, OP_sub, far, bin(g, OP_mul, turns, num(g, span)));
    Val *half = op_unary(g->b, OP_floor, bin(g, OP_mul, turns, num(g, 0.5)));
    Val *even = bin(g, OP_eq, bin(g, OP_add, half, half), turns);
    return op_select(g->b, even, bin(g, OP_add, rest, num(g, low)), bin(g, OP_sub, num(g, low + span), rest));
}

static Val *padded(const Grid *g, Val *x, int64_t size)
{
    if (g->padding == 'z')
        return x;
    return clip(g, g->padding == 'r' ? reflect(g, x, size) : x, size);
}

/* A neighbour at a whole position that may be outside. */
static Near neighbour(const Grid *g, Val *at, Val *weight, int64_t size)
{
    Near near = {.weight = weight};
    if (g->padding == 'z')
        near.inside = bin(g, OP_and, bin(g, OP_le, num(g, 0), at), bin(g, OP_le, at, num(g, (double)(size - 1))));
    near.at = g->mode == 'c' ? clip(g, padded(g, at, size), size) : clip(g, at, size);
    return near;
}

/* Cubic convolution with a = -0.75 at a distance d: of [0,1] (inner) or [1,2] */
static Val *cubic_weight(const Grid *g, Val *d, bool inner)
{
    double a = -0.75, c3 = inner ? a + 2 : a, c2 = inner ? -(a + 3) : -5 * a, c1 = inner ? 0 : 8 * a, c0 = inner ? 1 : -4 * a;
    Val *y = bin(g, OP_add, bin(g, OP_mul, num(g, c3), d), num(g, c2));
    y = bin(g, OP_add, bin(g, OP_mul, y, d), num(g, c1));
    return bin(g, OP_add, bin(g, OP_mul, y, d), num(g, c0));
}

/* Neighbours along an axis of the places u in [-1, 1]; returns how many. */
static uint32_t neighbours(const Grid *g, Val *u, int64_t size, Near *near)
{
    Val *one = num(g, 1), *x = bin(g, OP_add, u, one);
    x = g->align ? bin(g, OP_mul, x, num(g, (double)(size - 1) / 2))
                 : bin(g, OP_div, bin(g, OP_sub, bin(g, OP_mul, x, num(g, (double)size)), one), num(g, 2));
    if (g->mode != 'c')
        x = padded(g, x, size);
    if (g->mode == 'n')
        return near[0] = neighbour(g, op_unary(g->b, OP_rint, x), NULL, size), 1;
    Val *base = op_unary(g->b, OP_floor, x), *rest = bin(g, OP_sub, x, base), *left = bin(g, OP_sub, one, rest);
    if (g->mode == 'l') {
        near[0] = neighbour(g, base, left, size);
        near[1] = neighbour(g, bin(g, OP_add, base, one), rest, size);
        return 2;
    }
    Val *distance[4] = {bin(g, OP_add, rest, one), rest, left, bin(g, OP_add, left, one)};
    for (uint32_t k = 0; k < 4; k++)
        near[k] = neighbour(g, bin(g, OP_add, base, num(g, (double)k - 1)), cubic_weight(g, distance[k], k == 1 || k == 2), size);
    return 4;
}

/* rows [N, elements, C]; the choice of one neighbour per axis */
static Val *term(const Grid *g, Val *rows, const Near *const *chosen)
{
    Val *index = NULL, *weight = NULL, *inside = NULL;
    for (uint32_t a = 0; a < g->axes; a++) {
        const Near *near = chosen[a];
        Val *at = op_cast_to(g->b, near->at, DT_S64);
        index = index ? bin(g, OP_add, bin(g, OP_mul, index, op_const_s64(g->b, DT_S64, g->size[a])), at) : at;
        weight = weight && near->weight ? bin(g, OP_mul, weight, near->weight) : near->weight;
        inside = inside && near->inside ? bin(g, OP_and, inside, near->inside) : near->inside;
    }
    if (!index)
        return NULL;
    Val *in[2] = {rows, index};
    AttrVal attrs[2] = {attr_int(1), attr_int(1)};
    Val *value = op_emit(g->b, OP_gather, in, 2, attrs, 2);
    if (inside)
        value = op_select(g->b, onnx_with_axis(g->n, inside, 2), value, num(g, 0));
    return weight ? bin(g, OP_mul, value, onnx_with_axis(g->n, weight, 2)) : value;
}

/* [N, C, size..] -> [N, elements, C] */
static Val *as_rows(const Grid *g, Val *x)
{
    static const int64_t perm[3] = {0, 2, 1};
    Context *c = g->n->ctx;
    const Dim *flat[3] = {x->type->dim[0], x->type->dim[1], dim_product(c, x->type->dim + 2, g->axes)};
    return op_transpose(g->b, op_reshape(g->b, x, 3, flat), perm);
}

static Val *sample(const Grid *g, Val *rows, Val *places)
{
    Near near[MAX_AXES][MAX_NEAR];
    uint32_t count = 1, each = 0;
    static const int64_t last = 2;
    Val *sum = NULL;
    for (uint32_t a = 0; a < g->axes; a++) { /* the grid lists x first */
        Val *u = op_slice_axis(g->b, places, 2, dim_const(g->n->ctx, g->axes - 1 - a), dim_const(g->n->ctx, 1), 1);
        each = neighbours(g, op_squeeze_axes(g->b, u, &last, 1), g->size[a], near[a]);
        count *= each;
    }
    for (uint32_t k = 0; k < count; k++) {
        const Near *chosen[MAX_AXES];
        for (uint32_t a = g->axes, left = k; a-- > 0; left /= each)
            chosen[a] = &near[a][left % each];
        Val *next = term(g, rows, chosen);
        sum = sum ? bin(g, OP_add, sum, next) : next;
        if (!sum)
            return NULL;
    }
    return sum;
}

bool import_grid_sample(OnnxNode *n)
{
    static const int64_t perm[3] = {0, 2, 1};
    const char *mode, *padding;
    Val *x = n->in[0], *grid = n->in[1];
    uint32_t rank = val_rank(x);
    Grid g = {.n = n, .b = n->b, .axes = rank < 2 ? 0 : rank - 2, .align = na_int(n, "align_corners", 0) != 0};
    int64_t pair;
    if (!na_choice(n, "mode", "linear|nearest|cubic|bilinear|bicubic", "linear", &mode) ||
        !na_choice(n, "padding_mode", "zeros|border|reflection", "zeros", &padding))
        return false;
    if (rank < 4 || rank > 2 + MAX_AXES || val_rank(grid) != rank || !dtype_is_float(x->type->dtype) ||
        !dtype_is_float(grid->type->dtype) || !dim_is_const(grid->type->dim[rank - 1], &pair) || pair != g.axes ||
        dim_eq(grid->type->dim[0], x->type->dim[0]) != TRI_YES)
        return node_bad(n, "GridSample takes floats [N,C,H,W] and a grid [N,h,w,2], or [N,C,D,H,W] and [N,d,h,w,3]");
    for (uint32_t a = 0; a < g.axes; a++)
        if (!dim_is_const(x->type->dim[a + 2], &g.size[a]) || g.size[a] < 1)
            return node_bad(n, "axis %u of the input of GridSample must be a number of 1 or more", a + 2);
    g.mode = !strcmp(mode, "nearest") ? 'n' : strstr(mode, "cubic") ? 'c' : 'l';
    g.padding = *padding;
    g.dtype = x->type->dtype == DT_F64 ? DT_F64 : DT_F32;
    if (g.mode == 'c' && g.axes != 2)
        return na_bad(n, "mode", "cubic takes two spatial axes");
    const Dim *flat[3] = {grid->type->dim[0], dim_product(n->ctx, grid->type->dim + 1, g.axes), grid->type->dim[rank - 1]};
    Val *places = op_reshape(n->b, op_cast_to(n->b, grid, g.dtype), 3, flat), *rows = as_rows(&g, op_cast_to(n->b, x, g.dtype));
    if (!places || !rows)
        return false;
    const Dim *out[IR_MAX_RANK] = {x->type->dim[0], x->type->dim[1]};
    memcpy(out + 2, grid->type->dim + 1, g.axes * sizeof *out);
    Val *y = op_transpose(n->b, sample(&g, rows, places), perm);
    return node_done_as(n, op_reshape(n->b, y, rank, out), x->type->dtype);
}
