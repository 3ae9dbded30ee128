/* SPDX-License-Identifier: Apache-2.0
 * Dims: random expressions against their values, normal forms that must coincide, questions, overflow. */
#include "support/unit.h"

#include "ir/ir.h"

#include <string.h>

enum { N_SYMS = 3 };

static Context *ctx;
static Module *module;
static Sym *sym[N_SYMS];
static const Dim *N, *M, *K;

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    module = module_create(ctx);
    static const char *const names[N_SYMS] = {"N", "M", "K"};
    static const int64_t lo[N_SYMS] = {1, 0, 2}, hi[N_SYMS] = {9, 6, 5};
    for (int i = 0; i < N_SYMS; i++)
        sym[i] = module_sym(module, str_intern(ctx, names[i]), lo[i], hi[i]);
    N = dim_sym(ctx, sym[0]);
    M = dim_sym(ctx, sym[1]);
    K = dim_sym(ctx, sym[2]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    module_destroy(module);
    ctx_destroy(ctx);
    return 0;
}

static const Dim *num(int64_t value) { return dim_const(ctx, value); }

static const char *text_of(const Dim *dim)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    dim_print(&text, dim);
    return text.data;
}

/* ---- random expressions, evaluated beside the dims -------------------------------------------------------------- */

enum { POINTS = 24 };
typedef struct Expr {
    const Dim *dim;
    int64_t value[POINTS]; /* at each binding */
} Expr;

static int64_t binding[POINTS][N_SYMS];
static uint64_t seed;

static uint32_t next_random(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static int64_t apply(uint32_t op, int64_t a, int64_t b)
{
    switch (op) {
    case 0:
        return a + b;
    case 1:
        return a - b;
    case 2:
        return a * b;
    case 3:
        return floor_div(a, b);
    case 4:
        return a - b * floor_div(a, b);
    case 5:
        return a < b ? a : b;
    default:
        return a > b ? a : b;
    }
}

static Expr random_expr(int depth)
{
    static const Dim *(*const make[])(Context * c, const Dim *a, const Dim *b) = {
        dim_add, dim_sub, dim_mul, dim_floordiv, dim_mod, dim_min, dim_max};
    Expr e;
    if (depth == 0 || next_random(4) == 0) {
        uint32_t leaf = next_random(N_SYMS + 2);
        int64_t value = (int64_t)next_random(13) - 4;
        e.dim = leaf < N_SYMS ? dim_sym(ctx, sym[leaf]) : num(value);
        for (int p = 0; p < POINTS; p++)
            e.value[p] = leaf < N_SYMS ? binding[p][leaf] : value;
        return e;
    }
    Expr a = random_expr(depth - 1), b = random_expr(depth - 1);
    uint32_t op = next_random(7);
    if (op == 3 || op == 4) /* only where the divisor is 0 nowhere */
        for (int p = 0; p < POINTS; p++)
            op = b.value[p] == 0 || op == 0 ? 0 : op;
    int64_t lo, hi;
    dim_range(b.dim, &lo, &hi);
    if (op == 3 || op == 4)
        op = lo <= 0 && hi >= 0 && dim_is_const(b.dim, NULL) ? 1 : op;
    e.dim = make[op](ctx, a.dim, b.dim);
    for (int p = 0; p < POINTS; p++)
        e.value[p] = apply(op, a.value[p], b.value[p]);
    return e;
}

static const Dim *bind_point(void *user, const Sym *s)
{
    const int64_t *point = user;
    for (int i = 0; i < N_SYMS; i++)
        if (s == sym[i])
            return num(point[i]);
    return NULL;
}

static void draw_bindings(void)
{
    for (int p = 0; p < POINTS; p++)
        for (int i = 0; i < N_SYMS; i++)
            binding[p][i] = sym[i]->lo + (int64_t)next_random((uint32_t)(sym[i]->hi - sym[i]->lo + 1));
}

static void test_random_expressions_keep_their_value(void **state)
{
    (void)state;
    seed = 1;
    draw_bindings();
    int simplified = 0;
    for (int round = 0; round < 4000; round++) {
        Expr e = random_expr(4);
        if (!dim_is_valid(e.dim))
            continue;
        int64_t lo, hi, value = 0;
        dim_range(e.dim, &lo, &hi);
        simplified += dim_is_const(e.dim, NULL);
        for (int p = 0; p < POINTS; p++) {
            const Dim *bound = dim_bind(ctx, e.dim, bind_point, binding[p]);
            assert_true(dim_is_const(bound, &value));
            if (value != e.value[p])
                fail_msg("%s is %lld, expected %lld", text_of(e.dim), (long long)value, (long long)e.value[p]);
            if (value < lo || value > hi)
                fail_msg("%s is %lld, outside [%lld,%lld]", text_of(e.dim), (long long)value, (long long)lo,
                         (long long)hi);
        }
    }
    assert_true(simplified > 100);
}

static void test_answers_hold_everywhere(void **state)
{
    (void)state;
    seed = 2;
    draw_bindings();
    int decided = 0;
    for (int round = 0; round < 4000; round++) {
        Expr a = random_expr(3), b = random_expr(3);
        Tri eq = dim_eq(a.dim, b.dim), le = dim_le(a.dim, b.dim), divides = dim_divides(a.dim, b.dim);
        decided += (eq != TRI_UNKNOWN) + (le != TRI_UNKNOWN) + (divides != TRI_UNKNOWN);
        for (int p = 0; p < POINTS; p++) {
            int64_t x = a.value[p], y = b.value[p];
            bool x_divides_y = x == 0 ? y == 0 : y % x == 0;
            if ((eq != TRI_UNKNOWN && (eq == TRI_YES) != (x == y)) ||
                (le != TRI_UNKNOWN && (le == TRI_YES) != (x <= y)))
                fail_msg("%s and %s: eq %d, le %d, but %lld and %lld", text_of(a.dim), text_of(b.dim), (int)eq, (int)le,
                         (long long)x, (long long)y);
            if (divides != TRI_UNKNOWN && (divides == TRI_YES) != x_divides_y)
                fail_msg("%s divides %s: %d, but %lld and %lld", text_of(a.dim), text_of(b.dim), (int)divides,
                         (long long)x, (long long)y);
        }
    }
    assert_in_range(decided, 2000, 12000);
}

static void test_ring_identities_are_pointer_equal(void **state)
{
    (void)state;
    seed = 3;
    draw_bindings();
    for (int round = 0; round < 1000; round++) {
        const Dim *a = random_expr(2).dim, *b = random_expr(2).dim, *c = random_expr(2).dim;
        const Dim *left = dim_mul(ctx, a, dim_add(ctx, b, c));
        const Dim *right = dim_add(ctx, dim_mul(ctx, a, b), dim_mul(ctx, a, c));
        if (!dim_is_valid(left) || !dim_is_valid(right))
            continue;
        assert_ptr_equal(dim_add(ctx, a, b), dim_add(ctx, b, a));
        assert_ptr_equal(dim_mul(ctx, a, b), dim_mul(ctx, b, a));
        assert_ptr_equal(dim_min(ctx, a, b), dim_min(ctx, b, a));
        assert_ptr_equal(dim_max(ctx, a, b), dim_max(ctx, b, a));
        assert_ptr_equal(dim_sub(ctx, dim_add(ctx, a, b), b), a);
    }
}

/* ---- normal forms ------------------------------------------------------------------------------------------------ */

static void test_normal_forms(void **state)
{
    (void)state;
    const Dim *two_n = dim_mul(ctx, num(2), N), *nm = dim_mul(ctx, N, M);
    assert_string_equal(text_of(dim_add(ctx, dim_mul(ctx, N, num(3)), num(2))), "3*N+2");
    assert_string_equal(text_of(dim_sub(ctx, num(1), dim_mul(ctx, M, N))), "-M*N+1");
    assert_string_equal(text_of(dim_sub(ctx, N, N)), "0");
    assert_ptr_equal(dim_floordiv(ctx, dim_mul(ctx, nm, num(6)), dim_mul(ctx, num(3), N)), dim_mul(ctx, num(2), M));
    /* (3N+5)/3 = N + 1 + 2/3 */
    assert_ptr_equal(dim_floordiv(ctx, dim_add(ctx, dim_mul(ctx, num(3), N), num(5)), num(3)), dim_add(ctx, N, num(1)));
    /* (N/2)/3 = N/6, 2N/4 = N/2, (2N+1)/4 = N/2 */
    const Dim *half = dim_floordiv(ctx, N, num(2));
    assert_ptr_equal(dim_floordiv(ctx, half, num(3)), dim_floordiv(ctx, N, num(6)));
    assert_ptr_equal(dim_floordiv(ctx, two_n, num(4)), half);
    assert_ptr_equal(dim_floordiv(ctx, dim_add(ctx, two_n, num(1)), num(4)), half);
    assert_string_equal(text_of(half), "floordiv(N,2)");
    /* 2*(N/2) + N mod 2 = N */
    assert_ptr_equal(dim_add(ctx, dim_mul(ctx, num(2), half), dim_mod(ctx, N, num(2))), N);
    assert_ptr_equal(dim_mod(ctx, dim_add(ctx, dim_mul(ctx, num(4), N), num(7)), num(4)), num(3));
    assert_ptr_equal(dim_mod(ctx, N, num(16)), N);          /* N <= 9 */
    assert_ptr_equal(dim_floordiv(ctx, M, num(7)), num(0)); /* M <= 6 */
    assert_ptr_equal(dim_min(ctx, N, dim_add(ctx, N, M)), N);
    assert_ptr_equal(dim_max(ctx, N, num(0)), N);
    /* (N+1)*(M+K) / (N+1) */
    const Dim *np1 = dim_add(ctx, N, num(1)), *mk = dim_add(ctx, M, K);
    assert_ptr_equal(dim_floordiv(ctx, dim_mul(ctx, np1, mk), np1), mk);
    /* the divisor may be 0: no cancelling */
    assert_false(dim_floordiv(ctx, nm, M) == N);
}

static void test_questions(void **state)
{
    (void)state;
    const Dim *half = dim_floordiv(ctx, N, num(2));
    assert_int_equal(dim_le(half, N), TRI_YES);
    assert_int_equal(dim_le(dim_mul(ctx, num(2), half), N), TRI_YES);
    assert_int_equal(dim_le(N, dim_add(ctx, dim_mul(ctx, num(2), half), num(1))), TRI_YES);
    assert_int_equal(dim_le(dim_add(ctx, N, num(1)), N), TRI_NO);
    assert_int_equal(dim_le(N, M), TRI_UNKNOWN);
    assert_int_equal(dim_le(dim_min(ctx, N, M), M), TRI_YES);
    assert_int_equal(dim_le(dim_sub(ctx, N, dim_max(ctx, N, M)), num(0)), TRI_YES);
    assert_int_equal(dim_eq(dim_mul(ctx, num(2), N), num(7)), TRI_NO); /* even */
    assert_int_equal(dim_eq(N, M), TRI_UNKNOWN);
    assert_int_equal(dim_eq(N, N), TRI_YES);
    assert_int_equal(dim_divides(num(4), dim_mul(ctx, num(8), M)), TRI_YES);
    assert_int_equal(dim_divides(num(4), dim_add(ctx, dim_mul(ctx, num(8), M), num(2))), TRI_NO);
    assert_int_equal(dim_divides(M, dim_mul(ctx, N, M)), TRI_YES);
    assert_int_equal(dim_divides(num(2), N), TRI_UNKNOWN);
    assert_int_equal(dim_divides(num(0), num(0)), TRI_YES);
    assert_int_equal(dim_divides(num(0), N), TRI_NO);
}

static void test_what_cannot_be_said_is_invalid(void **state)
{
    (void)state;
    const Dim *big = num(INT64_MAX), *bad = dim_add(ctx, big, num(1));
    assert_false(dim_is_valid(bad));
    assert_false(dim_is_valid(dim_mul(ctx, bad, num(0))));
    assert_false(dim_is_valid(dim_min(ctx, N, bad)));
    assert_false(dim_is_valid(dim_floordiv(ctx, N, num(0))));
    assert_false(dim_is_valid(dim_mod(ctx, N, num(0))));
    assert_false(dim_is_valid(dim_floordiv(ctx, num(INT64_MIN), num(-1))));
    assert_false(dim_is_valid(dim_mul(ctx, dim_mul(ctx, N, big), num(2))));
    assert_int_equal(dim_eq(bad, bad), TRI_UNKNOWN);
    assert_string_equal(text_of(bad), "invalid");
    const Dim *power = N;
    for (int i = 0; i < 40; i++) /* the degree is limited */
        power = dim_mul(ctx, power, N);
    assert_false(dim_is_valid(power));
    const Dim *deep = N;
    for (int i = 0; i < 200 && dim_is_valid(deep); i++) /* so is the depth */
        deep = dim_mod(ctx, dim_mul(ctx, deep, deep), dim_add(ctx, M, num(1000)));
    assert_false(dim_is_valid(deep));
    assert_null(type_tensor(ctx, DT_F32, 1, &bad));
    const Dim *negative = dim_sub(ctx, M, num(7));
    assert_null(type_tensor(ctx, DT_F32, 1, &negative));
}

static const Dim *bind_n_to_2k(void *user, const Sym *s)
{
    (void)user;
    return s == sym[0] ? dim_mul(ctx, num(2), K) : NULL;
}

static void test_bind_replaces_inside_atoms(void **state)
{
    (void)state;
    const Dim *dim = dim_add(ctx, dim_floordiv(ctx, N, num(2)), dim_max(ctx, M, N));
    assert_ptr_equal(dim_bind(ctx, dim, bind_n_to_2k, NULL), dim_add(ctx, K, dim_max(ctx, M, dim_mul(ctx, num(2), K))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_expressions_keep_their_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answers_hold_everywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ring_identities_are_pointer_equal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_normal_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_questions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_said_is_invalid, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bind_replaces_inside_atoms, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
