/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation of folds: reduce, cumulate, windows, arg-folds, topk. numerics.md "Reduction", literally: element i of a
 * block of 8192 goes to lane i mod 16, lanes combine j + (j+8), +4, +2, +1, blocks combine ascending. A fold sees its
 * elements as a list of offsets in logical row-major order, so no memory order can creep in.
 */
#include "op/eval_support.h"

#include <math.h>

enum { BLOCK = 8192, LANES = 16 };
typedef enum Fold { FO_SUM, FO_PROD, FO_MAX, FO_MIN, FO_AND, FO_OR } Fold;

static Fold fold_of(const Node *node)
{
    static const char *const names[] = {"sum", "prod", "max", "min", "and"};
    int i = 0;
    while (i < 5 && !node_str_is(node, AN_kind, names[i]))
        i++;
    return (Fold)i;
}

/* sum and prod of one type T in lane form */
#define LANE_FOLD(T, name)                                                                                             \
    static T name##_block(Fold fold, const T *x, uint64_t n)                                                           \
    {                                                                                                                  \
        T lane[LANES];                                                                                                 \
        for (int j = 0; j < LANES; j++)                                                                                \
            lane[j] = fold == FO_SUM ? (T)-0.0 : (T)1;                                                                 \
        for (uint64_t i = 0; i < n; i++)                                                                               \
            lane[i % LANES] = fold == FO_SUM ? lane[i % LANES] + x[i] : lane[i % LANES] * x[i];                        \
        for (int step = LANES / 2; step; step /= 2)                                                                    \
            for (int j = 0; j < step; j++)                                                                             \
                lane[j] = fold == FO_SUM ? lane[j] + lane[j + step] : lane[j] * lane[j + step];                        \
        return lane[0];                                                                                                \
    }                                                                                                                  \
    static T name##_lanes(Fold fold, const T *x, uint64_t n)                                                           \
    {                                                                                                                  \
        if (n == 0)                                                                                                    \
            return fold == FO_SUM ? (T)0 : (T)1;                                                                       \
        T result = name##_block(fold, x, n < BLOCK ? n : BLOCK);                                                       \
        for (uint64_t i = BLOCK; i < n; i += BLOCK) {                                                                  \
            T next = name##_block(fold, x + i, n - i < BLOCK ? n - i : BLOCK);                                         \
            result = fold == FO_SUM ? result + next : result * next;                                                   \
        }                                                                                                              \
        return result;                                                                                                 \
    }
LANE_FOLD(float, f32)
LANE_FOLD(double, f64)

static double plain_f64(Fold fold, const double *x, uint64_t n)
{
    double result = fold == FO_SUM ? 0 : 1;
    for (uint64_t i = 0; i < n; i++)
        result = fold == FO_SUM ? result + x[i] : result * x[i];
    return result;
}

/* max or min: a NaN anywhere wins, a zero result is +0, of nothing it is the identity; exact in any float type */
static double extreme(Fold fold, const double *x, uint64_t n)
{
    double result = fold == FO_MAX ? -INFINITY : INFINITY;
    for (uint64_t i = 0; i < n; i++)
        result = fold == FO_MAX ? eval_max_f64(result, x[i]) : eval_min_f64(result, x[i]);
    return result == 0 ? 0.0 : result;
}

/* The identity of a fold over the integer dtype. */
static int64_t int_identity(Fold fold, DType dtype)
{
    int bits = dtype == DT_BOOL ? 1 : dtype_bits(dtype);
    bool is_signed = dtype_kind(dtype) == DK_SINT;
    int64_t most = is_signed ? (int64_t)(UINT64_MAX >> (65 - bits)) : (int64_t)(UINT64_MAX >> (64 - bits));
    switch (fold) {
    case FO_PROD:
        return 1;
    case FO_MAX:
        return is_signed ? -most - 1 : 0;
    case FO_MIN:
        return most;
    case FO_AND:
        return is_signed ? -1 : most;
    default:
        return 0;
    }
}

static int64_t int_step(Fold fold, int64_t a, int64_t b, bool is_unsigned)
{
    bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
    switch (fold) {
    case FO_SUM:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case FO_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case FO_MAX:
        return less ? b : a;
    case FO_MIN:
        return less ? a : b;
    case FO_AND:
        return a & b;
    default:
        return a | b;
    }
}

/* ---- one fold over a list of elements ------------------------------------------------------------------------ */

typedef struct Folder {
    const EvalCtx *ec;
    Fold fold;
    const Tensor *x;
    EvalClass c; /* of the gathered elements: F64 for max and min of floats, which it holds exactly */
    void *element;
} Folder;

static bool folder_begin(Folder *f, EvalCtx *ec, const Node *node, const Tensor *x, Fold fold)
{
    EvalClass c = eval_class(x);
    if (c == EC_NONE || (c != EC_INT && (fold == FO_AND || fold == FO_OR)))
        return eval_refuse(ec, node, x);
    bool exact = fold == FO_MAX || fold == FO_MIN;
    *f = (Folder){.ec = ec, .fold = fold, .x = x, .c = c == EC_F32 && exact ? EC_F64 : c};
    return true;
}

/* Folds f->element[0..n) into element `to` of out. */
static void fold_into(Folder *f, uint64_t n, Tensor *out, uint64_t to)
{
    bool exact = f->fold == FO_MAX || f->fold == FO_MIN;
    if (f->c == EC_INT) {
        const int64_t *x = f->element;
        int64_t result = int_identity(f->fold, f->x->dtype);
        for (uint64_t i = 0; i < n; i++)
            result = int_step(f->fold, result, x[i], eval_unsigned(f->x));
        eval_put_at(out, EC_INT, to, &result);
    } else if (f->c == EC_F32) {
        float result = f32_lanes(f->fold, f->element, n);
        eval_put_at(out, EC_F32, to, &result);
    } else {
        double result = exact                     ? extreme(f->fold, f->element, n)
                        : f->ec->mode == EVAL_F64 ? plain_f64(f->fold, f->element, n)
                                                  : f64_lanes(f->fold, f->element, n);
        eval_put_at(out, EC_F64, to, &result);
    }
}

bool eval_reduce(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *x = in[0];
    const int64_t *axes;
    uint32_t n_axes = node_ints(node, AN_axes, &axes);
    Folder f;
    if (!folder_begin(&f, ec, node, x, fold_of(node)) || !(out[0] = eval_result(ec, node, 0)))
        return false;
    int64_t stride[IR_MAX_RANK], inner_dim[IR_MAX_RANK], at[IR_MAX_RANK] = {0};
    eval_strides(x, stride);
    uint64_t n = 1;
    for (uint32_t i = 0; i < x->rank; i++)
        inner_dim[i] = 1;
    for (uint32_t i = 0; i < n_axes; i++)
        inner_dim[axes[i]] = x->dim[axes[i]];
    for (uint32_t i = 0; i < x->rank; i++)
        n *= (uint64_t)inner_dim[i];
    Arena *tmp = arena_create(ec->ctx);
    uint64_t *offset = ARENA_ARRAY(tmp, uint64_t, n), *index = ARENA_ARRAY(tmp, uint64_t, n);
    f.element = arena_array(tmp, (size_t)n, EVAL_CELL);
    for (uint64_t i = 0; i < n; i++, eval_next(x->rank, inner_dim, at))
        for (uint32_t axis = 0; axis < x->rank; axis++)
            offset[i] += (uint64_t)(at[axis] * stride[axis]);
    memset(at, 0, sizeof at);
    for (uint64_t o = 0; o < out[0]->count; o++, eval_next(x->rank, out[0]->dim, at)) {
        uint64_t base = 0;
        for (uint32_t axis = 0; axis < x->rank; axis++)
            base += (uint64_t)(at[axis] * stride[axis]);
        for (uint64_t i = 0; i < n; i++)
            index[i] = base + offset[i];
        eval_fetch(x, f.c, index, 0, n, f.element);
        fold_into(&f, n, out[0], o);
    }
    arena_destroy(tmp);
    return true;
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static uint64_t window_positions(const WindowAttrs *w)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < w->rank; i++)
        n *= (uint64_t)w->size[i];
    return n;
}

/* Offsets of the window of result `at` in row-major order; UINT64_MAX for padding. */
static void window_offsets(const WindowAttrs *w, uint64_t n, const Tensor *x, const int64_t *stride, const int64_t *at,
                           uint64_t *offset)
{
    int64_t k[IR_MAX_RANK] = {0};
    for (uint64_t i = 0; i < n; i++, eval_next(x->rank, w->size, k)) {
        int64_t sum = 0;
        bool inside = true;
        for (uint32_t axis = 0; axis < x->rank; axis++) {
            int64_t p = at[axis] * w->stride[axis] + k[axis] * w->dilation[axis] - w->lo[axis];
            inside &= p >= 0 && p < x->dim[axis];
            sum += p * stride[axis];
        }
        offset[i] = inside ? (uint64_t)sum : UINT64_MAX;
    }
}

/* Padding is the identity of the fold: -0 for sum (0 for integers), absent for max and min. */
bool eval_reduce_window(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *x = in[0];
    Folder f;
    if (!folder_begin(&f, ec, node, x, fold_of(node)) || !(out[0] = eval_result(ec, node, 0)))
        return false;
    WindowAttrs w = op_window(node);
    uint64_t positions = window_positions(&w);
    int64_t stride[IR_MAX_RANK], at[IR_MAX_RANK] = {0};
    eval_strides(x, stride);
    Arena *tmp = arena_create(ec->ctx);
    uint64_t *offset = ARENA_ARRAY(tmp, uint64_t, positions);
    f.element = arena_array(tmp, (size_t)positions, EVAL_CELL);
    size_t cell = eval_class_bytes(f.c);
    for (uint64_t o = 0; o < out[0]->count; o++, eval_next(x->rank, out[0]->dim, at)) {
        uint64_t n = 0;
        window_offsets(&w, positions, x, stride, at, offset);
        for (uint64_t i = 0; i < positions; i++) {
            void *to = (uint8_t *)f.element + n * cell;
            if (offset[i] != UINT64_MAX)
                eval_fetch(x, f.c, &offset[i], 0, 1, to);
            else if (f.fold != FO_SUM)
                continue;
            else if (f.c == EC_F32)
                *(float *)to = -0.0f;
            else if (f.c == EC_F64)
                *(double *)to = -0.0;
            else
                *(int64_t *)to = 0;
            n++;
        }
        fold_into(&f, n, out[0], o);
    }
    arena_destroy(tmp);
    return true;
}

/* ---- arg-folds: the first NaN wins; else the first, or the last where asked, of the best ----------------------------- */

typedef struct Best {
    bool max, last, is_int, is_unsigned, some, nan;
    double f;
    int64_t s;
    int64_t at;
} Best;

static void best_offer(Best *b, const Tensor *x, uint64_t index, int64_t at)
{
    bool better, equal;
    double f = 0;
    int64_t s = 0;
    if (b->nan)
        return;
    if (b->is_int) {
        s = elem_get_s64(x->store, x->data, index);
        bool less = b->is_unsigned ? (uint64_t)s < (uint64_t)b->s : s < b->s;
        equal = s == b->s;
        better = b->max ? !less && !equal : less;
    } else {
        f = elem_get_f64(x->store, x->data, index);
        b->nan = isnan(f);
        equal = f == b->f;
        better = b->nan || (b->max ? f > b->f : f < b->f);
    }
    if (!b->some || better || (equal && b->last)) {
        b->some = true;
        b->f = f;
        b->s = s;
        b->at = at;
    }
}

static Best best_of(const Node *node, const Tensor *x)
{
    return (Best){
        .max = node_str_is(node, AN_kind, "max"), .is_int = eval_class(x) == EC_INT, .is_unsigned = eval_unsigned(x)};
}

bool eval_argreduce(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *x = in[0];
    if (eval_class(x) == EC_NONE)
        return eval_refuse(ec, node, x);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    uint32_t axis = (uint32_t)node_int(node, AN_axis);
    int64_t n = x->dim[axis];
    uint64_t inner = 1;
    for (uint32_t i = axis + 1; i < x->rank; i++)
        inner *= (uint64_t)x->dim[i];
    for (uint64_t o = 0; o < out[0]->count; o++) {
        Best best = best_of(node, x);
        best.last = node_bool(node, AN_last);
        uint64_t base = o / inner * (uint64_t)n * inner + o % inner;
        for (int64_t i = 0; i < n; i++)
            best_offer(&best, x, base + (uint64_t)i * inner, i);
        eval_put_at(out[0], EC_INT, o, &best.at);
    }
    return true;
}

/* The flat position behind the two leading axes: row-major, or the first of them fastest (ONNX MaxPool-12
 * storage_order). */
static int64_t flat_position(const Tensor *x, uint64_t offset, bool column)
{
    int64_t at[IR_MAX_RANK] = {0}, result = 0;
    uint64_t spatial = 1;
    for (uint32_t i = 2; i < x->rank; i++)
        spatial *= (uint64_t)x->dim[i];
    offset %= spatial;
    if (!column)
        return (int64_t)offset;
    for (uint32_t i = x->rank; i-- > 2; offset /= (uint64_t)x->dim[i])
        at[i] = (int64_t)(offset % (uint64_t)x->dim[i]);
    for (uint32_t i = x->rank; i-- > 2;)
        result = result * x->dim[i] + at[i];
    return result;
}

/* A window without elements answers 0. */
bool eval_argwindow(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *x = in[0];
    if (eval_class(x) == EC_NONE)
        return eval_refuse(ec, node, x);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    WindowAttrs w = op_window(node);
    uint64_t positions = window_positions(&w);
    bool column = node_str_is(node, AN_order, "column");
    int64_t stride[IR_MAX_RANK], at[IR_MAX_RANK] = {0};
    eval_strides(x, stride);
    Arena *tmp = arena_create(ec->ctx);
    uint64_t *offset = ARENA_ARRAY(tmp, uint64_t, positions);
    for (uint64_t o = 0; o < out[0]->count; o++, eval_next(x->rank, out[0]->dim, at)) {
        Best best = best_of(node, x);
        window_offsets(&w, positions, x, stride, at, offset);
        for (uint64_t i = 0; i < positions; i++)
            if (offset[i] != UINT64_MAX)
                best_offer(&best, x, offset[i], (int64_t)offset[i]);
        int64_t flat = best.some ? flat_position(x, (uint64_t)best.at, column) : 0;
        eval_put_at(out[0], EC_INT, o, &flat);
    }
    arena_destroy(tmp);
    return true;
}

/* ---- cumulate: sequential; the accumulator is not rounded between elements of a narrow float ------------------------- */

typedef union Acc {
    float f;
    double d;
    int64_t s;
} Acc;

/* acc (fold) x; `empty`: acc holds nothing yet, so that the first element stays as it is */
static void acc_step(Fold fold, EvalClass c, bool is_unsigned, bool empty, Acc *acc, Acc x)
{
    if (empty)
        *acc = x;
    else if (c == EC_INT)
        acc->s = int_step(fold, acc->s, x.s, is_unsigned);
    else if (c == EC_F32)
        acc->f = fold == FO_SUM    ? acc->f + x.f
                 : fold == FO_PROD ? acc->f * x.f
                 : fold == FO_MAX  ? eval_max_f32(acc->f, x.f)
                                   : eval_min_f32(acc->f, x.f);
    else
        acc->d = fold == FO_SUM    ? acc->d + x.d
                 : fold == FO_PROD ? acc->d * x.d
                 : fold == FO_MAX  ? eval_max_f64(acc->d, x.d)
                                   : eval_min_f64(acc->d, x.d);
}

static Acc acc_empty(Fold fold, EvalClass c, DType dtype)
{
    double f = fold == FO_MAX ? -INFINITY : fold == FO_MIN ? INFINITY : fold == FO_PROD ? 1 : 0;
    if (c == EC_INT)
        return (Acc){.s = int_identity(fold, dtype)};
    return c == EC_F32 ? (Acc){.f = (float)f} : (Acc){.d = f};
}

/* What a prefix shows: a max or min that is zero shows +0. */
static Acc acc_shown(Fold fold, EvalClass c, Acc acc)
{
    bool exact = fold == FO_MAX || fold == FO_MIN;
    if (exact && c == EC_F32 && acc.f == 0)
        acc.f = 0;
    if (exact && c == EC_F64 && acc.d == 0)
        acc.d = 0;
    return acc;
}

bool eval_cumulate(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *x = in[0];
    EvalClass c = eval_class(x);
    Fold fold = fold_of(node);
    if (c == EC_NONE)
        return eval_refuse(ec, node, x);
    if (!(out[0] = eval_result(ec, node, 0)))
        return false;
    uint32_t axis = (uint32_t)node_int(node, AN_axis);
    bool exclusive = node_bool(node, AN_exclusive), reverse = node_bool(node, AN_reverse);
    uint64_t n = (uint64_t)x->dim[axis], inner = 1;
    for (uint32_t i = axis + 1; i < x->rank; i++)
        inner *= (uint64_t)x->dim[i];
    uint64_t lines = n ? x->count / n : 0;
    for (uint64_t line = 0; line < lines; line++) {
        uint64_t base = line / inner * n * inner + line % inner;
        Acc acc = acc_empty(fold, c, x->dtype);
        for (uint64_t i = 0; i < n; i++) {
            uint64_t at = base + (reverse ? n - 1 - i : i) * inner;
            Acc element, shown = acc_shown(fold, c, acc);
            eval_fetch(x, c, NULL, at, 1, &element);
            acc_step(fold, c, eval_unsigned(x), i == 0, &acc, element);
            if (!exclusive)
                shown = acc_shown(fold, c, acc);
            eval_put_at(out[0], c, at, &shown);
        }
    }
    return true;
}

/* ---- topk ------------------------------------------------------------------------------------------------------------ */

/* Whether element i of a line goes before element j: NaN before all others, then by value, then the lower index. */
static bool goes_before(const Best *how, const Tensor *x, uint64_t i, uint64_t j)
{
    Best best = *how;
    uint64_t first = i < j ? i : j, second = i < j ? j : i;
    best_offer(&best, x, first, 0);
    best_offer(&best, x, second, 1);
    return (best.at == 0) == (i < j);
}

static void sort_line(const Best *how, const Tensor *x, uint64_t *index, uint64_t *spare, uint64_t n)
{
    for (uint64_t width = 1; width < n; width *= 2) { /* bottom-up merge sort: stable */
        for (uint64_t lo = 0; lo < n; lo += 2 * width) {
            uint64_t mid = lo + width < n ? lo + width : n, hi = lo + 2 * width < n ? lo + 2 * width : n;
            uint64_t a = lo, b = mid;
            for (uint64_t k = lo; k < hi; k++)
                spare[k] = b >= hi || (a < mid && !goes_before(how, x, index[b], index[a])) ? index[a++] : index[b++];
        }
        memcpy(index, spare, n * sizeof *index);
    }
}

/* ONNX TopK-11, sorted */
bool eval_topk(EvalCtx *ec, const Node *node, Tensor *const *in, Tensor **out)
{
    const Tensor *x = in[0];
    if (eval_class(x) == EC_NONE)
        return eval_refuse(ec, node, x);
    if (!(out[0] = eval_result(ec, node, 0)) || !(out[1] = eval_result(ec, node, 1)))
        return false;
    uint32_t axis = (uint32_t)node_int(node, AN_axis);
    uint64_t n = (uint64_t)x->dim[axis], k = (uint64_t)out[0]->dim[axis], inner = 1;
    for (uint32_t i = axis + 1; i < x->rank; i++)
        inner *= (uint64_t)x->dim[i];
    Best how = best_of(node, x);
    Arena *tmp = arena_create(ec->ctx);
    if (k > n && out[0]->count)
        eval_error(ec, node, EVAL_ERR_INDEX);
    uint64_t *index = ARENA_ARRAY(tmp, uint64_t, n), *spare = ARENA_ARRAY(tmp, uint64_t, n);
    uint64_t lines = k ? out[0]->count / k : 0;
    for (uint64_t line = 0; line < lines; line++) {
        uint64_t base = line / inner * n * inner + line % inner, to = line / inner * k * inner + line % inner;
        for (uint64_t i = 0; i < n; i++)
            index[i] = base + i * inner;
        sort_line(&how, x, index, spare, n);
        for (uint64_t i = 0; i < k && i < n; i++) {
            eval_copy(out[0], to + i * inner, x, index[i]);
            eval_put_at(out[1], EC_INT, to + i * inner, &(int64_t){(int64_t)((index[i] - base) / inner)});
        }
    }
    arena_destroy(tmp);
    return true;
}
