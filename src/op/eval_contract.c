/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of dot and conv. numerics.md "Contraction", literally: the position k is cut into blocks of KB = 512
 * (conv: whole kernel rows, max(1, 512 / (KW*IC)) of them; a 1x1 kernel is the dot over ic), a block is one FMA chain
 * from +0 in ascending k, blocks are added ascending. Taps in the padding or between dilated inputs are not part of the
 * chain.
 *
 * The order fixes each result element, not the order among elements: TILE neighbouring columns or channels run as
 * independent chains, which the compiler vectorises. In EVAL_F64 the same code runs in double.
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
    fn(tmp, &p, x, w, z);
    if (z != out[0]->data)
        eval_put(out[0], c, 0, out[0]->count, z);
    arena_destroy(tmp);
    return true;
}
