/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of dot and conv. numerics.md "Contraction", literally: the position k is cut into blocks of KB = 512
 * (conv: whole kernel rows, max(1, 512 / (KW*IC)) of them; a 1x1 kernel is the dot over ic), a block is one FMA chain
 * from +0 in ascending k, blocks are added ascending. Taps in the padding or between dilated inputs are not part of the
 * chain.
 *
 * The order fixes each result element, not the order among elements: TILE neighbouring columns or channels run as
 * independent chains, which the compiler vectorises. In EVAL_F64 the same code runs in double; class wino2 is for f32 only.
 */
#include "op/eval_support.h"

enum { KB = 512, TILE = 32 };

/* Positions of the elements of both operands, by batch, free and contracted index. */
typedef struct DotPlan {
    uint64_t b, m, n, k;
    uint64_t *lhs_batch, *lhs_free, *lhs_k, *rhs_batch, *rhs_free, *rhs_k;
} DotPlan;

typedef struct ConvPlan {
    uint64_t batch, c, groups, ic, oc; /* ic, oc: of one group */
    uint64_t taps, block;              /* kernel positions; of them in one block */
    uint64_t tiles;                    /* of TILE output channels, in one group */
    uint64_t in_positions, out_positions;
    uint32_t spatial;
    bool flip, depthwise;
    int64_t in_dim[IR_MAX_RANK], out_dim[IR_MAX_RANK], kernel[IR_MAX_RANK];
    const int64_t *stride, *pad, *dilation, *lhs_dilation;
} ConvPlan;

/* Offset (of the first channel, channels last) of every tap of the output position, or -1 where it reads nothing. */
static void conv_taps(const ConvPlan *p, const int64_t *at, int64_t *tap)
{
    int64_t k[IR_MAX_RANK] = {0};
    for (uint64_t t = 0; t < p->taps; t++, eval_next(p->spatial, p->kernel, k)) {
        int64_t offset = 0;
        bool inside = true;
        for (uint32_t d = 0; d < p->spatial; d++) {
            int64_t q = at[d] * p->stride[d] + (p->flip ? p->kernel[d] - 1 - k[d] : k[d]) * p->dilation[d] - p->pad[d];
            inside &= q >= 0 && q % p->lhs_dilation[d] == 0 && q / p->lhs_dilation[d] < p->in_dim[d];
            offset = offset * p->in_dim[d] + q / p->lhs_dilation[d];
        }
        tap[t] = inside ? offset * (int64_t)p->c : -1;
    }
}

/* ---- the chains, with hardware FMA where the machine has it; the same bits either way ----------------------- */

#define DEFINE_CHAIN(name, T, attributes, FMA)                                                                         \
    attributes static void name(T *acc, const T *a, const T *b, uint64_t n)                                            \
    {                                                                                                                  \
        T s[TILE];                                                                                                     \
        memcpy(s, acc, sizeof s);                                                                                      \
        for (uint64_t i = 0; i < n; i++)                                                                               \
            for (int j = 0; j < TILE; j++)                                                                             \
                s[j] = FMA(a[i], b[i * TILE + (uint64_t)j], s[j]);                                                     \
        memcpy(acc, s, sizeof s);                                                                                      \
    }                                                                                                                  \
    attributes static void name##_each(T *restrict acc, const T *restrict a, const T *restrict b, uint64_t n)          \
    {                                                                                                                  \
        for (uint64_t j = 0; j < n; j++)                                                                               \
            acc[j] = FMA(a[j], b[j], acc[j]);                                                                          \
    }
#define MUL_ADD(a, b, c) ((a) * (b) + (c))
DEFINE_CHAIN(chain_f32_any, float, , __builtin_fmaf)
DEFINE_CHAIN(chain_f64_any, double, , __builtin_fma)
DEFINE_CHAIN(chain_int, uint64_t, , MUL_ADD)
#if defined(__x86_64__)
DEFINE_CHAIN(chain_f32_fma, float, __attribute__((target("avx2,fma"))), __builtin_fmaf)
DEFINE_CHAIN(chain_f64_fma, double, __attribute__((target("avx2,fma"))), __builtin_fma)
#define HAVE_FMA() (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#else
#define chain_f32_fma chain_f32_any
#define chain_f64_fma chain_f64_any
#define chain_f32_fma_each chain_f32_any_each
#define chain_f64_fma_each chain_f64_any_each
#define HAVE_FMA() 0
#endif

#define T float
#define NAME(x) x##_f32_any
#define CHAIN chain_f32_any
#define CHAIN_EACH chain_f32_any_each
#include "op/eval_contract.inc"
#undef NAME
#undef CHAIN
#undef CHAIN_EACH
#define NAME(x) x##_f32_fma
#define CHAIN chain_f32_fma
#define CHAIN_EACH chain_f32_fma_each
#include "op/eval_contract.inc"
#undef T
#undef NAME
#undef CHAIN
#undef CHAIN_EACH
#define T double
#define NAME(x) x##_f64_any
#define CHAIN chain_f64_any
#define CHAIN_EACH chain_f64_any_each
#include "op/eval_contract.inc"
#undef NAME
#undef CHAIN
#undef CHAIN_EACH
#define NAME(x) x##_f64_fma
#define CHAIN chain_f64_fma
#define CHAIN_EACH chain_f64_fma_each
#include "op/eval_contract.inc"
#undef T
#undef NAME
#undef CHAIN
#undef CHAIN_EACH
#define T uint64_t
#define NAME(x) x##_int
#define CHAIN chain_int
#define CHAIN_EACH chain_int_each
#include "op/eval_contract.inc"
#undef T
#undef NAME
#undef CHAIN
#undef CHAIN_EACH

typedef void DotFn(Arena *tmp, const DotPlan *p, const void *lhs, const void *rhs, void *out);
typedef void ConvFn(Arena *tmp, const ConvPlan *p, const void *x, const void *w, void *out);

/* ---- dot ------------------------------------------------------------------------------------------------------ */

/* Offsets over the listed axes of t, row-major in the order listed; their count. */
static uint64_t *axis_offsets(Arena *tmp, const Tensor *t, const int64_t *axes, uint32_t n, uint64_t *count)
{
    int64_t stride[IR_MAX_RANK], dim[IR_MAX_RANK], at[IR_MAX_RANK] = {0};
    eval_strides(t, stride);
    *count = 1;
    for (uint32_t i = 0; i < n; i++) {
        dim[i] = t->dim[axes[i]];
        *count *= (uint64_t)dim[i];
    }
    uint64_t *offset = ARENA_ARRAY(tmp, uint64_t, *count);
    for (uint64_t j = 0; j < *count; j++, eval_next(n, dim, at))
        for (uint32_t i = 0; i < n; i++)
            offset[j] += (uint64_t)(at[i] * stride[axes[i]]);
    return offset;
}

static uint32_t free_axes(const Tensor *t, const int64_t *batch, uint32_t nb, const int64_t *contract, uint32_t nc,
                          int64_t *axes)
{
    uint32_t n = 0;
    for (int64_t axis = 0; axis < t->rank; axis++) {
        bool used = false;
        for (uint32_t i = 0; i < nb; i++)
            used |= batch[i] == axis;
        for (uint32_t i = 0; i < nc; i++)
            used |= contract[i] == axis;
        if (!used)
            axes[n++] = axis;
    }
    return n;
}

static DotPlan dot_plan(Arena *tmp, const Node *node, const Tensor *x, const Tensor *y)
{
    DotPlan p;
    const int64_t *lb, *rb, *lc, *rc;
    int64_t axes[IR_MAX_RANK];
    uint32_t nb = node_ints(node, AN_lhs_batch, &lb), nc = node_ints(node, AN_lhs_contract, &lc);
    node_ints(node, AN_rhs_batch, &rb);
    node_ints(node, AN_rhs_contract, &rc);
    p.lhs_batch = axis_offsets(tmp, x, lb, nb, &p.b);
    p.rhs_batch = axis_offsets(tmp, y, rb, nb, &p.b);
    p.lhs_k = axis_offsets(tmp, x, lc, nc, &p.k);
    p.rhs_k = axis_offsets(tmp, y, rc, nc, &p.k);
    uint32_t n = free_axes(x, lb, nb, lc, nc, axes);
    p.lhs_free = axis_offsets(tmp, x, axes, n, &p.m);
    n = free_axes(y, rb, nb, rc, nc, axes);
    p.rhs_free = axis_offsets(tmp, y, axes, n, &p.n);
    return p;
}

/* The widened result, which is out's own data where that has this form. */
static void *wide_result(Arena *tmp, const Tensor *out, EvalClass c)
{
    return (void *)(uintptr_t)eval_widen(tmp, out, c);
}

bool eval_dot(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    EvalClass c = eval_class(in[0]);
    if (c == EC_NONE)
        return eval_refuse(ec, node, in[0]);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    Arena *tmp = arena_create(ec->ctx);
    DotPlan p = dot_plan(tmp, node, in[0], in[1]);
    const void *x = eval_widen(tmp, in[0], c), *y = eval_widen(tmp, in[1], c);
    void *z = wide_result(tmp, out[0], c);
    DotFn *fn = c == EC_INT   ? dot_int
                : c == EC_F32 ? (HAVE_FMA() ? dot_f32_fma : dot_f32_any)
                              : (HAVE_FMA() ? dot_f64_fma : dot_f64_any);
    fn(tmp, &p, x, y, z);
    if (z != out[0]->data)
        eval_put(out[0], c, 0, out[0]->count, z);
    arena_destroy(tmp);
    return true;
}

/* ---- conv ----------------------------------------------------------------------------------------------------- */

static ConvPlan conv_plan(const Node *node, const Tensor *x, const Tensor *w, const Tensor *out)
{
    ConvPlan p = {.spatial = x->rank - 2, .flip = node_bool(node, AN_flip)};
    node_ints(node, AN_stride, &p.stride);
    node_ints(node, AN_pad_lo, &p.pad);
    node_ints(node, AN_dilation, &p.dilation);
    node_ints(node, AN_lhs_dilation, &p.lhs_dilation);
    p.groups = (uint64_t)node_int(node, AN_groups);
    p.batch = (uint64_t)x->dim[0];
    p.c = (uint64_t)x->dim[1];
    p.ic = (uint64_t)w->dim[1];
    p.oc = (uint64_t)w->dim[0] / p.groups;
    p.tiles = (p.oc + TILE - 1) / TILE;
    p.depthwise = p.ic == 1 && p.oc == 1;
    p.taps = p.in_positions = p.out_positions = 1;
    for (uint32_t d = 0; d < p.spatial; d++) {
        p.in_dim[d] = x->dim[d + 2];
        p.out_dim[d] = out->dim[d + 2];
        p.kernel[d] = w->dim[d + 2];
        p.taps *= (uint64_t)p.kernel[d];
        p.in_positions *= (uint64_t)p.in_dim[d];
        p.out_positions *= (uint64_t)p.out_dim[d];
    }
    uint64_t kw = p.spatial ? (uint64_t)p.kernel[p.spatial - 1] : 1, row = kw * p.ic;
    p.block = kw * (row && KB / row > 1 ? KB / row : 1);
    return p;
}

/* ---- conv by Winograd F(2x2,3x3): numerics.md "wino2" ----------------------------------------------------------- */

typedef struct WinoPlan {
    int64_t ic, oc, height, width, out_height, out_width, pad[2]; /* height, width: of the input */
    int64_t down, across;                                          /* tiles of 2x2 outputs */
    bool flip;
} WinoPlan;

static WinoPlan wino_plan(const Node *node, const Tensor *x, const Tensor *w, const Tensor *out)
{
    const int64_t *pad;
    node_ints(node, AN_pad_lo, &pad);
    return (WinoPlan){.ic = w->dim[1], .oc = w->dim[0], .height = x->dim[2], .width = x->dim[3], .out_height = out->dim[2],
                      .out_width = out->dim[3], .pad = {pad[0], pad[1]}, .down = (out->dim[2] + 1) / 2,
                      .across = (out->dim[3] + 1) / 2, .flip = node_bool(node, AN_flip)};
}

/* U[4 * i + j][ic][oc] = (G g G^T)[i][j] in f64, rounded once. Row 1 of G times a column is ((g0 + g2) + g1) / 2, row 2 is
 * ((g0 + g2) - g1) / 2. */
static void wino_filters(const WinoPlan *p, const float *w, float *u)
{
    for (int64_t oc = 0; oc < p->oc; oc++)
        for (int64_t ic = 0; ic < p->ic; ic++) {
            const float *g = w + (oc * p->ic + ic) * 9;
            double half[4][3], all[4][4];
            for (int c = 0; c < 3; c++) {
                double g0 = g[p->flip ? 8 - c : c], g1 = g[p->flip ? 5 - c : 3 + c], g2 = g[p->flip ? 2 - c : 6 + c];
                half[0][c] = g0;
                half[1][c] = ((g0 + g2) + g1) / 2;
                half[2][c] = ((g0 + g2) - g1) / 2;
                half[3][c] = g2;
            }
            for (int r = 0; r < 4; r++) {
                const double *h = half[r];
                all[r][0] = h[0];
                all[r][1] = ((h[0] + h[2]) + h[1]) / 2;
                all[r][2] = ((h[0] + h[2]) - h[1]) / 2;
                all[r][3] = h[2];
            }
            for (int i = 0; i < 16; i++)
                u[(i * p->ic + ic) * p->oc + oc] = (float)all[i / 4][i % 4];
        }
}

/* V[4 * i + j][tile][ic] = (B^T d B)[i][j], d the 4x4 inputs of the tile, zeros outside the image. x: one image. */
static void wino_inputs(const WinoPlan *p, const float *x, float *v)
{
    int64_t tiles = p->down * p->across;
    for (int64_t tile = 0; tile < tiles; tile++)
        for (int64_t ic = 0; ic < p->ic; ic++) {
            float d[4][4], half[4][4];
            for (int i = 0; i < 16; i++) {
                int64_t row = tile / p->across * 2 + i / 4 - p->pad[0], column = tile % p->across * 2 + i % 4 - p->pad[1];
                bool inside = row >= 0 && row < p->height && column >= 0 && column < p->width;
                d[i / 4][i % 4] = inside ? x[(ic * p->height + row) * p->width + column] : 0;
            }
            for (int c = 0; c < 4; c++) {
                half[0][c] = d[0][c] - d[2][c];
                half[1][c] = d[1][c] + d[2][c];
                half[2][c] = d[2][c] - d[1][c];
                half[3][c] = d[1][c] - d[3][c];
            }
            for (int r = 0; r < 4; r++) {
                const float *h = half[r], all[4] = {h[0] - h[2], h[1] + h[2], h[2] - h[1], h[1] - h[3]};
                for (int c = 0; c < 4; c++)
                    v[((r * 4 + c) * tiles + tile) * p->ic + ic] = all[c];
            }
        }
}

/* y = A^T M A of each tile, where the image has it. m: [16][tile][oc]; y: one image. */
static void wino_outputs(const WinoPlan *p, const float *m, float *y)
{
    int64_t tiles = p->down * p->across;
    for (int64_t tile = 0; tile < tiles; tile++)
        for (int64_t oc = 0; oc < p->oc; oc++) {
            float half[2][4], q[4];
            for (int c = 0; c < 4; c++) {
                for (int r = 0; r < 4; r++)
                    q[r] = m[((r * 4 + c) * tiles + tile) * p->oc + oc];
                half[0][c] = (q[0] + q[1]) + q[2];
                half[1][c] = (q[1] - q[2]) - q[3];
            }
            for (int i = 0; i < 4; i++) {
                const float *h = half[i / 2];
                int64_t row = tile / p->across * 2 + i / 2, column = tile % p->across * 2 + i % 2;
                if (row < p->out_height && column < p->out_width)
                    y[(oc * p->out_height + row) * p->out_width + column] =
                        i % 2 == 0 ? (h[0] + h[1]) + h[2] : (h[1] - h[2]) - h[3];
            }
        }
}

static uint64_t *multiples(Arena *tmp, uint64_t n, int64_t step)
{
    uint64_t *v = ARENA_ARRAY(tmp, uint64_t, n);
    for (uint64_t i = 0; i < n; i++)
        v[i] = i * (uint64_t)step;
    return v;
}

/* The 16 products are dots over ic. */
static void conv_wino2(Arena *tmp, const WinoPlan *p, uint64_t images, const float *x, const float *w, float *y)
{
    int64_t tiles = p->down * p->across;
    DotPlan dot = {.b = 16, .m = (uint64_t)tiles, .n = (uint64_t)p->oc, .k = (uint64_t)p->ic};
    dot.lhs_batch = multiples(tmp, 16, tiles * p->ic);
    dot.lhs_free = multiples(tmp, dot.m, p->ic);
    dot.lhs_k = multiples(tmp, dot.k, 1);
    dot.rhs_batch = multiples(tmp, 16, p->ic * p->oc);
    dot.rhs_free = multiples(tmp, dot.n, 1);
    dot.rhs_k = multiples(tmp, dot.k, p->oc);
    float *u = ARENA_ARRAY(tmp, float, 16 * dot.k * dot.n), *v = ARENA_ARRAY(tmp, float, 16 * dot.m * dot.k);
    float *m = ARENA_ARRAY(tmp, float, 16 * dot.m * dot.n);
    wino_filters(p, w, u);
    for (uint64_t n = 0; n < images; n++) {
        Arena *scratch = arena_create(arena_context(tmp));
        wino_inputs(p, x + n * (uint64_t)(p->ic * p->height * p->width), v);
        (HAVE_FMA() ? dot_f32_fma : dot_f32_any)(scratch, &dot, v, u, m);
        wino_outputs(p, m, y + n * (uint64_t)(p->oc * p->out_height * p->out_width));
        arena_destroy(scratch);
    }
}

bool eval_conv(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    EvalClass c = eval_class(in[0]);
    if (c == EC_NONE)
        return eval_refuse(ec, node, in[0]);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    ConvPlan p = conv_plan(node, in[0], in[1], out[0]);
    if (out[0]->count == 0 || p.taps == 0)
        return true; /* nothing, or empty sums */
    Arena *tmp = arena_create(ec->ctx);
    const void *x = eval_widen(tmp, in[0], c), *w = eval_widen(tmp, in[1], c);
    void *z = wide_result(tmp, out[0], c);
    ConvFn *fn = c == EC_INT   ? conv_int
                 : c == EC_F32 ? (HAVE_FMA() ? conv_f32_fma : conv_f32_any)
                               : (HAVE_FMA() ? conv_f64_fma : conv_f64_any);
    if (c == EC_F32 && op_is_wino2(node) != TRI_NO && out[0]->dim[2] >= WINO2_MIN_SIZE && out[0]->dim[3] >= WINO2_MIN_SIZE) {
        WinoPlan wino = wino_plan(node, in[0], in[1], out[0]);
        conv_wino2(tmp, &wino, p.batch, x, w, z);
    } else {
        fn(tmp, &p, x, w, z);
    }
    if (z != out[0]->data)
        eval_put(out[0], c, 0, out[0]->count, z);
    arena_destroy(tmp);
    return true;
}
