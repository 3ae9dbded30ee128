/* SPDX-License-Identifier: Apache-2.0
 *
 * Winograd F(2x2,3x3) (Lavin and Gray, 2015, section 4.1): which convolutions are computed so (numerics.md, class wino2), and
 * its three transforms as expressions of the loop IR. Each is a product M x M^T with a small constant matrix: rows are combined
 * first, then columns. The evaluator has its own (eval_contract.c).
 */
#include "op/op.h"

enum { MIN_CHANNELS = 32 };

static bool all_equal(const Node *node, AttrName name, int64_t value)
{
    const int64_t *v;
    uint32_t n = node_ints(node, name, &v);
    for (uint32_t i = 0; i < n; i++)
        if (v[i] != value)
            return false;
    return true;
}

Tri op_is_wino2(const Node *node)
{
    if (node->op != OP_conv) /* op-switch: the rule is about this op */
        return TRI_NO;
    const Type *w = ir_in(node, 1)->type, *y = node->out[0].type;
    if (y->rank != 4 || y->dtype != DT_F32 || node_int(node, AN_groups) != 1 || !all_equal(node, AN_stride, 1) ||
        !all_equal(node, AN_dilation, 1) || !all_equal(node, AN_lhs_dilation, 1) || module_is_strict(node->parent->module))
        return TRI_NO;
    int64_t oc, ic, kh, kw, lo[2], hi[2], least = WINO2_MIN_SIZE;
    if (!dim_is_const(w->dim[0], &oc) || !dim_is_const(w->dim[1], &ic) || !dim_is_const(w->dim[2], &kh) ||
        !dim_is_const(w->dim[3], &kw) || kh != 3 || kw != 3 || oc < MIN_CHANNELS || ic < MIN_CHANNELS)
        return TRI_NO;
    for (uint32_t i = 0; i < 2; i++)
        dim_range(y->dim[i + 2], &lo[i], &hi[i]);
    return lo[0] >= least && lo[1] >= least ? TRI_YES : hi[0] >= least && hi[1] >= least ? TRI_UNKNOWN : TRI_NO;
}

/* ---- transforms ---------------------------------------------------------------------------------------------------------- */

static const Expr *binary(Kernel *k, Op op, const Expr *a, const Expr *b)
{
    return lx_map(k, op, a->dtype, (const Expr *[]){a, b}, 2);
}
static const Expr *sum(Kernel *k, const Expr *a, const Expr *b) { return binary(k, OP_add, a, b); }
static const Expr *difference(Kernel *k, const Expr *a, const Expr *b) { return binary(k, OP_sub, a, b); }

/* Row i of B^T, of G and of A^T times the column x. */
static const Expr *input_row(Kernel *k, int i, const Expr *const *x)
{
    if (i < 2)
        return i == 0 ? difference(k, x[0], x[2]) : sum(k, x[1], x[2]);
    return i == 2 ? difference(k, x[2], x[1]) : difference(k, x[1], x[3]);
}

static const Expr *filter_row(Kernel *k, int i, const Expr *const *x)
{
    if (i == 0 || i == 3)
        return i == 0 ? x[0] : x[2];
    const Expr *outer = sum(k, x[0], x[2]), *both = i == 1 ? sum(k, outer, x[1]) : difference(k, outer, x[1]);
    return binary(k, OP_mul, both, lx_const_f64(k, both->dtype, 0.5));
}

static const Expr *output_row(Kernel *k, int i, const Expr *const *x)
{
    return i == 0 ? sum(k, sum(k, x[0], x[1]), x[2]) : difference(k, difference(k, x[1], x[2]), x[3]);
}

typedef const Expr *RowFn(Kernel *k, int i, const Expr *const *x);

/* Element (i, j) of M x M^T, x being n by n; let names the row sums, NULL: they stay expressions. */
static void transform(Kernel *k, RowFn *row, int n_in, int n_out, const Expr *const *x, const Expr **y, Wino2Let *let, void *user)
{
    const Expr *column[4], *half[4][4];
    for (int j = 0; j < n_in; j++) {
        for (int i = 0; i < n_in; i++)
            column[i] = x[i * n_in + j];
        for (int i = 0; i < n_out; i++) {
            half[i][j] = row(k, i, column);
            half[i][j] = let ? let(user, half[i][j]) : half[i][j];
        }
    }
    for (int i = 0; i < n_out; i++)
        for (int j = 0; j < n_out; j++)
            y[i * n_out + j] = row(k, j, half[i]);
}

void wino2_input(Kernel *k, const Expr *const *d, const Expr **v, Wino2Let *let, void *user)
{
    transform(k, input_row, 4, 4, d, v, let, user);
}

void wino2_filter(Kernel *k, const Expr *const *g, const Expr **u, Wino2Let *let, void *user)
{
    transform(k, filter_row, 3, 4, g, u, let, user);
}

void wino2_output(Kernel *k, const Expr *const *m, const Expr **y) { transform(k, output_row, 4, 2, m, y, NULL, NULL); }
