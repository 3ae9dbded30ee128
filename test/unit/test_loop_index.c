/* SPDX-License-Identifier: Apache-2.0
 *
 * Index arithmetic: random expressions keep their value and stay in their range at every point of their iterators, and
 * the chains that reshape, transpose and slice produce come out affine.
 */
#include "loop/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { N_ITERS = 4 };

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}
static int64_t draw(uint64_t *state, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(next_random(state) % (uint64_t)(hi - lo + 1));
}

/* What was asked for, kept beside what the constructors made of it. */
typedef struct Naive {
    ExprKind kind;
    const struct Naive *a, *b;
    int64_t i;
} Naive;
typedef struct Pair {
    const Naive *naive;
    const Expr *e;
} Pair;

static int64_t floored(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static int64_t naive_value(const Naive *n, const int64_t *at)
{
    int64_t x = n->a ? naive_value(n->a, at) : 0, y = n->b ? naive_value(n->b, at) : 0;
    switch (n->kind) {
    case LX_INT: return n->i;
    case LX_ITER: return at[n->i];
    case LX_IADD: return (int64_t)((uint64_t)x + (uint64_t)y);
    case LX_IMUL: return (int64_t)((uint64_t)x * (uint64_t)n->i);
    case LX_IDIV: return floored(x, n->i);
    case LX_IMOD: return x - floored(x, n->i) * n->i;
    case LX_IMIN: return x < y ? x : y;
    case LX_IMAX: return x > y ? x : y;
    case LX_ILT: return x < y;
    case LX_IEQ: return x == y;
    case LX_AND: return x && y;
    case LX_OR: return x || y;
    case LX_NOT: return !x;
    default: return 0;
    }
}

static int64_t expr_value(const Expr *e, const int64_t *at)
{
    if (e->kind == LX_ITER)
        return at[e->u.iter->id];
    if (e->kind == LX_INT || e->kind == LX_CONST)
        return e->u.i;
    Naive self = {.kind = e->kind, .i = e->u.i};
    Naive args[2] = {{.kind = LX_INT}, {.kind = LX_INT}};
    for (uint32_t i = 0; i < e->n_args; i++)
        args[i].i = expr_value(e->arg[i], at);
    self.a = &args[0];
    self.b = e->n_args > 1 ? &args[1] : NULL;
    return naive_value(&self, at);
}

static Pair make(Arena *arena, const Expr *e, Naive n) { return (Pair){arena_copy(arena, &n, sizeof n), e}; }

static Pair random_index(Kernel *k, uint64_t *rng, int depth)
{
    static const int64_t nice[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 5, 7};
    if (depth == 0 || draw(rng, 0, 9) == 0) {
        if (draw(rng, 0, 4) == 0) {
            int64_t i = draw(rng, -20, 20);
            return make(k->arena, lx_int(k, i), (Naive){.kind = LX_INT, .i = i});
        }
        int64_t i = draw(rng, 0, N_ITERS - 1);
        return make(k->arena, lx_iter(k, k->iters.data[i]), (Naive){.kind = LX_ITER, .i = i});
    }
    int64_t what = draw(rng, 0, 11);
    Pair x = random_index(k, rng, depth - 1);
    int64_t c = nice[draw(rng, 0, IG_COUNT(nice) - 1)];
    if (what < 2)
        return make(k->arena, lx_div(k, x.e, c), (Naive){.kind = LX_IDIV, .a = x.naive, .i = c});
    if (what < 4)
        return make(k->arena, lx_mod(k, x.e, c), (Naive){.kind = LX_IMOD, .a = x.naive, .i = c});
    if (what < 6) {
        c = draw(rng, 0, 5) ? c : -c;
        return make(k->arena, lx_mul(k, x.e, c), (Naive){.kind = LX_IMUL, .a = x.naive, .i = c});
    }
    Pair y = random_index(k, rng, depth - 1);
    if (what == 6)
        return make(k->arena, lx_min(k, x.e, y.e), (Naive){.kind = LX_IMIN, .a = x.naive, .b = y.naive});
    if (what == 7)
        return make(k->arena, lx_max(k, x.e, y.e), (Naive){.kind = LX_IMAX, .a = x.naive, .b = y.naive});
    return make(k->arena, lx_add(k, x.e, y.e), (Naive){.kind = LX_IADD, .a = x.naive, .b = y.naive});
}

static Pair random_pred(Kernel *k, uint64_t *rng, int depth)
{
    int64_t what = draw(rng, 0, depth ? 6 : 2);
    if (what > 2) {
        Pair p = random_pred(k, rng, depth - 1);
        if (what == 3)
            return make(k->arena, lx_not(k, p.e), (Naive){.kind = LX_NOT, .a = p.naive});
        Pair q = random_pred(k, rng, depth - 1);
        if (what == 4)
            return make(k->arena, lx_or(k, p.e, q.e), (Naive){.kind = LX_OR, .a = p.naive, .b = q.naive});
        return make(k->arena, lx_and(k, p.e, q.e), (Naive){.kind = LX_AND, .a = p.naive, .b = q.naive});
    }
    Pair x = random_index(k, rng, 2), y = random_index(k, rng, 2);
    if (what == 0)
        return make(k->arena, lx_lt(k, x.e, y.e), (Naive){.kind = LX_ILT, .a = x.naive, .b = y.naive});
    if (what == 1)
        return make(k->arena, lx_eq(k, x.e, y.e), (Naive){.kind = LX_IEQ, .a = x.naive, .b = y.naive});
    Pair less = make(k->arena, NULL, (Naive){.kind = LX_ILT, .a = y.naive, .b = x.naive}); /* x <= y is !(y < x) */
    return make(k->arena, lx_le(k, x.e, y.e), (Naive){.kind = LX_NOT, .a = less.naive});
}

static void check_everywhere(const Kernel *k, Pair p, uint64_t seed)
{
    int64_t at[N_ITERS];
    for (uint32_t i = 0; i < N_ITERS; i++)
        at[i] = k->iters.data[i]->lo;
    for (;;) {
        int64_t want = naive_value(p.naive, at), got = expr_value(p.e, at);
        if (want != got)
            fail_msg("seed %llu: %lld instead of %lld", (unsigned long long)seed, (long long)got, (long long)want);
        if (lx_is_index(p.e) && (got < p.e->lo || got > p.e->hi))
            fail_msg("seed %llu: %lld is not in [%lld, %lld]", (unsigned long long)seed, (long long)got,
                     (long long)p.e->lo, (long long)p.e->hi);
        uint32_t d = 0;
        while (d < N_ITERS && ++at[d] > k->iters.data[d]->hi) {
            at[d] = k->iters.data[d]->lo;
            d++;
        }
        if (d == N_ITERS)
            return;
    }
}

static void random_expressions_keep_their_value(void **state)
{
    Context *ctx = *state;
    for (uint64_t seed = 0; seed < 6000; seed++) {
        Arena *arena = arena_create(ctx);
        Kernel *k = kernel_create(ctx, arena, "k");
        uint64_t rng = seed;
        static const int64_t hi[] = {1, 2, 3, 5, 7, 2};
        for (int i = 0; i < N_ITERS; i++) {
            int64_t lo = draw(&rng, 0, 3) ? 0 : draw(&rng, -3, 3);
            kernel_iter(k, "i", lo, lo + hi[draw(&rng, 0, 5)]);
        }
        check_everywhere(k, random_index(k, &rng, 5), seed);
        check_everywhere(k, random_pred(k, &rng, 2), seed);
        arena_destroy(arena);
    }
}

/* Substituting iterators by themselves changes nothing: the normal form is a fixed point of the constructors. */
static void normal_form_is_a_fixed_point(void **state)
{
    Context *ctx = *state;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        Arena *arena = arena_create(ctx);
        Kernel *k = kernel_create(ctx, arena, "k");
        uint64_t rng = seed;
        for (int i = 0; i < N_ITERS; i++)
            kernel_iter(k, "i", 0, draw(&rng, 1, 30));
        const Expr *e = random_index(k, &rng, 5).e, *p = random_pred(k, &rng, 2).e;
        if (lx_subst(k, e, &(ExprSubst){0}) != e || lx_subst(k, p, &(ExprSubst){0}) != p)
            fail_msg("seed %llu: not a fixed point", (unsigned long long)seed);
        arena_destroy(arena);
    }
}

/* Index arithmetic survives the text form, and the interpreter computes the same as the naive tree. */
static void text_and_interpreter_agree(void **state)
{
    Context *ctx = *state;
    const int64_t dim[] = {1};
    for (uint64_t seed = 0; seed < 1000; seed++) {
        Arena *arena = arena_create(ctx);
        Kernel *k = kernel_create(ctx, arena, "k");
        Buf *out = kernel_buf(k, "out", DT_S64, BUF_ARG, 1, dim);
        Buf *flag = kernel_buf(k, "flag", DT_BOOL, BUF_ARG, 1, dim);
        uint64_t rng = seed;
        int64_t at[N_ITERS];
        for (int i = 0; i < N_ITERS; i++) {
            kernel_iter(k, "i", 0, draw(&rng, 1, 30));
            at[i] = draw(&rng, 0, k->iters.data[i]->hi);
        }
        Pair e = random_index(k, &rng, 5), p = random_pred(k, &rng, 2);
        const Expr *zero[] = {lx_int(k, 0)};
        Stmt **tail = ls_append(&k->body, ls_store(k, out, zero, e.e, NULL));
        ls_append(tail, ls_store(k, flag, zero, p.e, NULL));
        for (int i = 0; i < N_ITERS; i++)
            k->body = ls_for(k, k->iters.data[i], lx_int(k, at[i]), lx_int(k, at[i] + 1), 1, BIND_SEQ, k->body);
        Text text, again;
        text_init(&text, arena);
        text_init(&again, arena);
        kernel_print(&text, k);
        Kernel *parsed = kernel_parse(ctx, arena, "test", text.data, text.len);
        assert_non_null(parsed);
        kernel_print(&again, parsed);
        assert_string_equal(text.data, again.data);
        int64_t value;
        bool truth;
        assert_true(kernel_verify(parsed));
        kernel_interp(parsed, (void *[]){&value, &truth}, 0, 1, NULL);
        assert_int_equal(value, naive_value(e.naive, at));
        assert_int_equal(truth, naive_value(p.naive, at));
        arena_destroy(arena);
    }
}

typedef struct Fixture {
    Kernel *k;
    const Expr *x[8];
} Fixture;

static Fixture fixture(Context *ctx, int n, const int64_t *extent)
{
    Fixture f = {.k = kernel_create(ctx, ctx_arena(ctx), "k")};
    for (int i = 0; i < n; i++)
        f.x[i] = lx_iter(f.k, kernel_iter(f.k, "i", 0, extent[i] - 1));
    return f;
}

static const Expr *row_major(Kernel *k, int n, const Expr *const *x, const int64_t *dim)
{
    const Expr *sum = lx_int(k, 0);
    for (int i = 0; i < n; i++)
        sum = lx_add(k, lx_mul(k, sum, dim[i]), x[i]);
    return sum;
}

static void unpack(Kernel *k, const Expr *flat, int n, const int64_t *dim, const Expr **out)
{
    for (int i = n; i-- > 0; flat = lx_div(k, flat, dim[i]))
        out[i] = lx_mod(k, flat, dim[i]);
}

/* [2,5,3,64] -> reshape [2,5,192] and back: every index is its iterator. */
static void reshape_there_and_back(void **state)
{
    const int64_t dim[] = {2, 5, 3, 64}, merged[] = {2, 5, 192}, all[] = {1920};
    Fixture f = fixture(*state, 4, dim);
    const Expr *mid[3], *one[1], *back[4];
    unpack(f.k, row_major(f.k, 4, f.x, dim), 3, merged, mid);
    assert_ptr_equal(mid[2], lx_add(f.k, lx_mul(f.k, f.x[2], 64), f.x[3]));
    unpack(f.k, row_major(f.k, 3, mid, merged), 1, all, one);
    unpack(f.k, one[0], 4, dim, back);
    for (int i = 0; i < 4; i++)
        assert_ptr_equal(back[i], f.x[i]);
}

/* A head split and merge of attention: [S=7, H*d] -> [S, H, d] -> [H, S, d] -> [S, H, d] -> [S, H*d]. */
static void heads_split_and_merge(void **state)
{
    const int64_t out[] = {7, 12 * 64}, heads[] = {7, 12, 64};
    Fixture f = fixture(*state, 2, out);
    const Expr *split[3], *back[2];
    unpack(f.k, row_major(f.k, 2, f.x, out), 3, heads, split);
    assert_ptr_equal(split[0], f.x[0]);
    unpack(f.k, row_major(f.k, 3, split, heads), 2, out, back);
    assert_ptr_equal(back[0], f.x[0]);
    assert_ptr_equal(back[1], f.x[1]); /* 64*(c/64) + c%64 */
}

/* Digits of a flat index put together again, through sizes that do not divide each other. */
static void digits_recombine(void **state)
{
    const int64_t flat[] = {5 * 7 * 9}, dim[] = {5, 7, 9}, pair[] = {5, 63};
    Fixture f = fixture(*state, 1, flat);
    const Expr *d[3], *e[2], *again[1];
    unpack(f.k, f.x[0], 3, dim, d);
    assert_ptr_equal(row_major(f.k, 3, d, dim), f.x[0]);
    unpack(f.k, row_major(f.k, 3, d, dim), 2, pair, e);
    again[0] = row_major(f.k, 2, e, pair);
    assert_ptr_equal(again[0], f.x[0]);
    assert_ptr_equal(lx_add(f.k, lx_mul(f.k, d[1], 9), d[2]), lx_mod(f.k, f.x[0], 63));
    assert_ptr_equal(lx_sub(f.k, f.x[0], lx_mul(f.k, lx_div(f.k, f.x[0], 9), 9)), lx_mod(f.k, f.x[0], 9));
}

/* A slice with an offset before and after a reshape, and a pixel shuffle. */
static void slices_stay_affine(void **state)
{
    const int64_t dim[] = {4, 6, 8};
    Fixture f = fixture(*state, 3, dim);
    Kernel *k = f.k;
    const int64_t wide[] = {4, 6, 16}, merged[] = {4, 96}, shuffle[] = {4, 6, 2, 8};
    const Expr *moved[] = {f.x[0], f.x[1], lx_add(k, f.x[2], lx_int(k, 8))}, *m[2], *back[3];
    unpack(k, row_major(k, 3, moved, wide), 2, merged, m);
    assert_ptr_equal(m[1], lx_add(k, lx_add(k, lx_mul(k, f.x[1], 16), f.x[2]), lx_int(k, 8)));
    unpack(k, row_major(k, 2, m, merged), 3, wide, back);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(back[i], moved[i]);
    const Expr *four[4];
    unpack(k, row_major(k, 3, moved, wide), 4, shuffle, four);
    assert_ptr_equal(four[2], lx_int(k, 1));
    assert_ptr_equal(four[3], f.x[2]);
}

static void rules_by_name(void **state)
{
    const int64_t dim[] = {100, 64, 1000, 6};
    Fixture f = fixture(*state, 4, dim);
    Kernel *k = f.k;
    const Expr *h = f.x[0], *d = f.x[1], *e = f.x[2], *x = f.x[3];
    const Expr *hd = lx_add(k, lx_mul(k, h, 64), d);
    assert_ptr_equal(lx_div(k, hd, 64), h);
    assert_ptr_equal(lx_mod(k, hd, 64), d);
    assert_ptr_equal(lx_mod(k, lx_add(k, lx_mul(k, h, 6), e), 3), lx_mod(k, e, 3));
    assert_ptr_equal(lx_div(k, lx_div(k, e, 4), 5), lx_div(k, e, 20));
    assert_ptr_equal(lx_mod(k, lx_mod(k, e, 20), 5), lx_mod(k, e, 5));
    assert_ptr_equal(lx_div(k, lx_mod(k, e, 20), 5), lx_mod(k, lx_div(k, e, 5), 4));
    assert_ptr_equal(lx_div(k, lx_add(k, lx_mul(k, h, 6), x), 12), lx_div(k, h, 2));
    assert_ptr_equal(lx_add(k, lx_mul(k, lx_div(k, e, 7), 7), lx_mod(k, e, 7)), e);
    assert_ptr_equal(lx_min(k, x, lx_int(k, 5)), x);
    assert_ptr_equal(lx_max(k, lx_add(k, e, lx_int(k, 1)), e), lx_add(k, e, lx_int(k, 1)));
    assert_true(lx_is_true(lx_lt(k, x, lx_int(k, 6))));
    assert_true(lx_is_false(lx_lt(k, x, lx_int(k, 0))));
    assert_true(lx_is_false(lx_eq(k, lx_mul(k, e, 2), lx_int(k, 7))));
    assert_ptr_equal(lx_lt(k, lx_div(k, e, 4), lx_int(k, 3)), lx_lt(k, e, lx_int(k, 12)));
    assert_ptr_equal(lx_lt(k, lx_mul(k, e, 4), lx_int(k, 10)), lx_lt(k, e, lx_int(k, 3)));
    const Expr *low = lx_lt(k, e, lx_int(k, 5)), *lower = lx_lt(k, e, lx_int(k, 3));
    assert_ptr_equal(lx_and(k, low, lower), lower);
    assert_ptr_equal(lx_or(k, low, lower), low);
    assert_ptr_equal(lx_and(k, NULL, low), low);
    assert_true(lx_is_true(lx_and(k, NULL, NULL)));
    assert_ptr_equal(lx_not(k, lx_not(k, low)), low);
}

/* Values next to the ends of s64 are kept as written. */
static void nothing_wraps_silently(void **state)
{
    Context *ctx = *state;
    Kernel *k = kernel_create(ctx, ctx_arena(ctx), "k");
    const Expr *big = lx_iter(k, kernel_iter(k, "i", INT64_MIN, INT64_MAX));
    const Expr *next = lx_add(k, big, lx_int(k, 1));
    assert_int_equal(lx_lt(k, big, next)->kind, LX_ILT);
    assert_int_equal(lx_div(k, lx_mul(k, big, 2), 2)->kind, LX_IDIV);
    assert_int_equal(next->lo, INT64_MIN);
    assert_int_equal(next->hi, INT64_MAX);
    const int64_t top[] = {INT64_MAX};
    assert_int_equal(expr_value(lx_div(k, lx_mul(k, big, 2), 2), top), -1); /* as s64 arithmetic does */
    const Expr *least = lx_int(k, INT64_MIN);
    assert_false(lx_is_true(lx_le(k, lx_int(k, INT64_MAX), least)));
    assert_ptr_equal(lx_mod(k, least, 10), lx_int(k, 2));
    assert_ptr_equal(lx_sub(k, least, least), lx_int(k, 0));
}

static void linear_and_offset(void **state)
{
    const int64_t dim[] = {4, 6, 8};
    Fixture f = fixture(*state, 3, dim);
    Kernel *k = f.k;
    Buf *buf = kernel_buf(k, "a", DT_F32, BUF_ARG, 3, dim);
    const Expr *offset = lx_offset(k, buf, f.x), *rest;
    int64_t coef;
    assert_true(lx_linear(k, offset, k->iters.data[1], &coef, &rest));
    assert_int_equal(coef, 8);
    assert_ptr_equal(rest, lx_add(k, lx_mul(k, f.x[0], 48), f.x[2]));
    assert_false(lx_linear(k, lx_div(k, offset, 5), k->iters.data[1], &coef, NULL));
    assert_true(lx_uses_iter(offset, k->iters.data[2]));
    assert_false(lx_uses_iter(rest, k->iters.data[1]));
    assert_int_equal(offset->lo, 0);
    assert_int_equal(offset->hi, 4 * 6 * 8 - 1);
}

/* Lanes that read an aligned block, each a constant place; none where the place varies, or the buffer may end in the block. */
static void lane_blocks(void **state)
{
    Kernel *k = kernel_create(*state, ctx_arena(*state), str_intern(*state, "blocks"));
    const Iter *lane = kernel_iter(k, "lane", 0, 15), *chunk = kernel_iter(k, "chunk", 0, 3);
    const Expr *l = lx_iter(k, lane), *c = lx_add(k, lx_mul(k, lx_iter(k, chunk), 16), l);
    Buf *even = kernel_buf(k, "even", DT_F32, BUF_ARG, 1, (const int64_t[]){160});
    Buf *odd = kernel_buf(k, "odd", DT_F32, BUF_ARG, 1, (const int64_t[]){150});
    const Expr *four = lx_add(k, lx_mul(k, lx_div(k, c, 4), 4), lx_int(k, 3)), *two = lx_mul(k, lx_div(k, c, 4), 8);
    LaneBlock b;
    assert_true(lx_lane_block(k, even, four, lane, &b));
    assert_int_equal(b.width, 16);
    assert_ptr_equal(b.base, lx_mul(k, lx_iter(k, chunk), 16));
    for (int i = 0; i < 16; i++)
        assert_int_equal(b.at[i], i / 4 * 4 + 3);
    assert_true(lx_lane_block(k, even, two, lane, &b));
    assert_int_equal(b.width, 32);
    assert_int_equal(b.at[15], 24);
    assert_true(lx_lane_block(k, even, lx_add(k, lx_int(k, 18), lx_mul(k, lx_div(k, l, 8), -2)), lane, &b));
    assert_int_equal(b.width, 4);
    assert_int_equal(b.at[0], 2);
    assert_int_equal(b.at[8], 0);
    assert_false(lx_lane_block(k, odd, four, lane, &b));
    assert_false(lx_lane_block(k, even, lx_mul(k, lx_div(k, c, 4), 12), lane, &b));
    assert_false(lx_lane_block(k, even, lx_div(k, lx_add(k, c, lx_iter(k, chunk)), 4), lane, &b));
}

static int setup(void **state) { return !(*state = ctx_create(NULL)); }
static int teardown(void **state)
{
    ctx_destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_expressions_keep_their_value),
        cmocka_unit_test(normal_form_is_a_fixed_point),
        cmocka_unit_test(text_and_interpreter_agree),
        cmocka_unit_test(reshape_there_and_back),
        cmocka_unit_test(heads_split_and_merge),
        cmocka_unit_test(digits_recombine),
        cmocka_unit_test(slices_stay_affine),
        cmocka_unit_test(rules_by_name),
        cmocka_unit_test(nothing_wraps_silently),
        cmocka_unit_test(linear_and_offset),
        cmocka_unit_test(lane_blocks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
