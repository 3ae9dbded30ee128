/* SPDX-License-Identifier: Apache-2.0
 * Scheduling changes no bit: for small networks of every kind, the interpreted kernels equal the ref32 evaluator at every set of
 * passes (all, all minus each optional one, none) and for every target's tile shapes. */
#include "support/run_schedule.h"
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

/* ---- networks ---------------------------------------------------------------------------------------------------------------- */

typedef struct Net {
    Context *ctx;
    Module *module;
    Func *func;
    Builder b;
    uint64_t seed;
} Net;

static double next_random(Net *n)
{
    n->seed = n->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(n->seed >> 40) / (double)(1 << 23) - 1.0;
}

static Val *input(Net *n, const char *name, DType dtype, uint32_t rank, const int64_t *dims)
{
    return func_param(n->func, str_intern(n->ctx, name), type_tensor_s64(n->ctx, dtype, rank, dims));
}

static Val *weight(Net *n, uint32_t rank, const int64_t *dims)
{
    const Type *type = type_tensor_s64(n->ctx, DT_F32, rank, dims);
    uint64_t count = 0;
    assert_true(type_count(type, &count));
    float *data = ARENA_ARRAY(n->module->arena, float, count + 1);
    for (uint64_t i = 0; i < count; i++)
        data[i] = (float)next_random(n);
    return op_const_weight(&n->b, module_weight(n->module, str_format(n->ctx, "w%u", n->module->weights.len), type, data, true));
}

#define DIMS(...) (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__}

static Val *conv(Net *n, Val *x, Val *w, int64_t stride, int64_t pad, int64_t dilation, int64_t lhs, int64_t groups, bool flip)
{
    int64_t s[2] = {stride, stride}, p[2] = {pad, pad}, d[2] = {dilation, dilation}, l[2] = {lhs, lhs};
    AttrVal attrs[] = {attr_ints(s, 2), attr_ints(p, 2), attr_ints(p, 2), attr_ints(d, 2), attr_ints(l, 2), attr_int(groups),
                       attr_bool(flip)};
    return op_emit(&n->b, OP_conv, (Val *[]){x, w}, 2, attrs, 7);
}

static Val *window(Net *n, Op op, Val *x, const char *kind, int64_t size, int64_t stride, int64_t pad)
{
    int64_t w[4] = {1, 1, size, size}, s[4] = {1, 1, stride, stride}, p[4] = {0, 0, pad, pad}, d[4] = {1, 1, 1, 1};
    AttrVal attrs[] = {attr_ints(w, 4), attr_ints(s, 4), attr_ints(p, 4), attr_ints(p, 4), attr_ints(d, 4),
                       attr_str(n->ctx, kind)};
    return op_emit(&n->b, op, &x, 1, attrs, 6);
}

static void outputs(Net *n, uint32_t count, Val *const *vals)
{
    Str names[4];
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(vals[i]);
        names[i] = str_format(n->ctx, "y%u", i);
    }
    func_yield(n->func, n->b.loc, vals, names, count);
}

static void net_mlp(Net *n)
{
    Val *x = input(n, "x", DT_F32, DIMS(7, 40)), *h = op_binary(&n->b, OP_add, op_matmul(&n->b, x, weight(n, DIMS(40, 50))),
                                                               weight(n, DIMS(50)));
    AttrVal gelu = attr_str(n->ctx, "none");
    h = op_emit(&n->b, OP_gelu, &h, 1, &gelu, 1);
    Val *y = op_binary(&n->b, OP_add, op_matmul(&n->b, h, weight(n, DIMS(50, 10))), weight(n, DIMS(10)));
    AttrVal softmax[] = {attr_ints((int64_t[]){1}, 1), attr_str(n->ctx, "mul")};
    Val *p = op_emit(&n->b, OP_softmax, &y, 1, softmax, 2);
    outputs(n, 2, (Val *[]){p, h});
}

static void net_vector(Net *n) /* one row; K longer than a chain block */
{
    Val *x = input(n, "x", DT_F32, DIMS(1, 1100));
    Val *y = op_unary(&n->b, OP_tanh, op_matmul(&n->b, x, weight(n, DIMS(1100, 33))));
    outputs(n, 1, &y);
}

static void net_norms(Net *n)
{
    Val *x = input(n, "x", DT_F32, DIMS(3, 5, 37));
    AttrVal ln[] = {attr_ints((int64_t[]){2}, 1), attr_float(1e-5)};
    Val *y = op_emit(&n->b, OP_layer_norm, (Val *[]){x, weight(n, DIMS(1, 1, 37)), weight(n, DIMS(1, 1, 37))}, 3, ln, 2);
    AttrVal axes = attr_ints((int64_t[]){1}, 1);
    Val *l = op_emit(&n->b, OP_log_softmax, &y, 1, &axes, 1);
    AttrVal eps = attr_float(1e-4);
    Val *i = op_emit(&n->b, OP_instance_norm, (Val *[]){x, weight(n, DIMS(5)), weight(n, DIMS(5))}, 3, &eps, 1);
    outputs(n, 3, (Val *[]){y, l, i});
}

static void net_attention(Net *n)
{
    Val *x = input(n, "x", DT_F32, DIMS(2, 21, 32)), *mask = input(n, "mask", DT_F32, DIMS(2, 1, 1, 21));
    Val *qkv = op_binary(&n->b, OP_add, op_matmul(&n->b, x, weight(n, DIMS(32, 96))), weight(n, DIMS(96))), *head[3];
    for (int64_t i = 0; i < 3; i++) {
        Val *part = op_slice_axis(&n->b, qkv, 2, dim_const(n->ctx, 32 * i), dim_const(n->ctx, 32), 1);
        part = op_reshape_s64(&n->b, part, 4, (int64_t[]){2, 21, 4, 8});
        head[i] = op_transpose(&n->b, part, (int64_t[]){0, 2, 1, 3});
    }
    AttrVal attrs[] = {attr_float(0.25), attr_bool(false), attr_float(0)};
    Val *a = op_emit(&n->b, OP_sdpa, (Val *[]){head[0], head[1], head[2], mask}, 4, attrs, 3);
    a = op_reshape_s64(&n->b, op_transpose(&n->b, a, (int64_t[]){0, 2, 1, 3}), 3, (int64_t[]){2, 21, 32});
    Val *y = op_binary(&n->b, OP_add, x, op_matmul(&n->b, a, weight(n, DIMS(32, 32))));
    outputs(n, 1, &y);
}

static void net_cnn(Net *n)
{
    Val *x = input(n, "x", DT_F32, DIMS(2, 3, 19, 17)), *h = conv(n, x, weight(n, DIMS(20, 3, 3, 3)), 2, 1, 1, 1, 1, false);
    h = op_unary(&n->b, OP_relu, op_binary(&n->b, OP_add, h, weight(n, DIMS(20, 1, 1))));
    Val *r = conv(n, h, weight(n, DIMS(20, 20, 3, 3)), 1, 1, 1, 1, 1, false);
    r = op_unary(&n->b, OP_relu, op_binary(&n->b, OP_add, r, h));
    Val *d = conv(n, r, weight(n, DIMS(20, 1, 5, 5)), 1, 4, 2, 1, 20, false);
    Val *g = conv(n, d, weight(n, DIMS(40, 5, 3, 3)), 1, 0, 1, 1, 4, false);
    Val *p = window(n, OP_reduce_window, g, "max", 3, 2, 1);
    Val *s = window(n, OP_reduce_window, g, "sum", 2, 2, 0);
    Val *m = op_reduce(&n->b, p, "sum", (int64_t[]){2, 3}, 2);
    Val *f = op_matmul(&n->b, op_reshape_s64(&n->b, p, 2, (int64_t[]){2, 40 * 4 * 4}), weight(n, DIMS(40 * 4 * 4, 6)));
    outputs(n, 3, (Val *[]){m, f, s});
}

static void net_transposed(Net *n)
{
    Val *x = input(n, "x", DT_F32, DIMS(1, 6, 5, 7));
    Val *y = conv(n, x, weight(n, DIMS(18, 6, 4, 4)), 1, 2, 1, 2, 1, true);
    y = op_unary(&n->b, OP_sigmoid, conv(n, y, weight(n, DIMS(3, 18, 1, 1)), 1, 0, 1, 1, 1, false));
    outputs(n, 1, &y);
}

static void net_moves(Net *n)
{
    Val *x = input(n, "x", DT_F32, DIMS(4, 6, 5)), *i = input(n, "i", DT_S64, DIMS(7));
    AttrVal gather[] = {attr_int(1), attr_int(0)};
    Val *g = op_emit(&n->b, OP_gather, (Val *[]){x, i}, 2, gather, 2);
    Val *t = op_transpose(&n->b, g, (int64_t[]){2, 0, 1});
    Val *c = op_concat(&n->b, (Val *[]){t, op_unary(&n->b, OP_exp, t), op_transpose(&n->b, g, (int64_t[]){2, 0, 1})}, 3, 1);
    const Dim *lo[3] = {dim_const(n->ctx, 1), dim_const(n->ctx, 0), dim_const(n->ctx, 2)};
    const Dim *hi[3] = {dim_const(n->ctx, 0), dim_const(n->ctx, 3), dim_const(n->ctx, -1)};
    int64_t zero[3] = {0, 0, 0};
    AttrVal pad[] = {attr_dims(lo, 3), attr_dims(hi, 3), attr_ints(zero, 3)};
    Val *p = op_emit(&n->b, OP_pad, (Val *[]){c, op_const_f64(&n->b, DT_F32, 0.5)}, 2, pad, 3);
    Val *s = op_slice_axis(&n->b, p, 1, dim_const(n->ctx, 13), dim_const(n->ctx, 5), -2);
    Val *q = op_cast_to(&n->b, op_binary(&n->b, OP_lt, s, op_const_f64(&n->b, DT_F32, 0.25)), DT_S32);
    outputs(n, 4, (Val *[]){p, s, q, x});
}

static const struct {
    const char *name;
    void (*build)(Net *n);
} nets[] = {{"mlp", net_mlp},           {"vector", net_vector},         {"norms", net_norms}, {"attention", net_attention},
            {"cnn", net_cnn},           {"transposed", net_transposed}, {"moves", net_moves}};

/* ---- running --------------------------------------------------------------------------------------------------------------------- */

static const TargetInfo targets[] = {
    {"x86_64-pc-linux-gnu", "skylake-avx512", "", "x86-64-v4", 16, 32, 32768, 1 << 20},
    {"x86_64-pc-linux-gnu", "haswell", "", "x86-64-v3", 8, 16, 32768, 1 << 19},
    {"aarch64-linux-gnu", "generic", "", "aarch64", 4, 32, 32768, 1 << 19},
};
static const char *const sched_passes[] = {"fuse", "layout", "lower", "pack", "tensorize", "vectorize", "parallel", "plan"};

static void print_diags(Context *ctx)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    for (uint32_t i = 0; i < diag_count(ctx); i++) {
        diag_print(ctx, &text, diag_get(ctx, i));
        text_add(&text, "\n");
    }
    print_message("%s", text.data);
}

static bool verify(void *user, PassLevel level, const Unit *unit)
{
    (void)user;
    return sched_verify(unit->schedule, level);
}

static Tensor *random_tensor(Net *n, Arena *arena, const Type *type)
{
    Tensor *t = ARENA_NEW(arena, Tensor);
    t->dtype = t->store = type->dtype;
    t->rank = type->rank;
    for (uint32_t i = 0; i < t->rank; i++)
        t->dim[i] = type_dim(type, i);
    assert_true(type_count(type, &t->count));
    t->data = arena_alloc(arena, (t->count + 1) * 8);
    for (uint64_t i = 0; i < t->count; i++)
        if (dtype_is_float(t->dtype))
            elem_set_f64(t->dtype, t->data, i, i % 13 == 5 ? -0.0 : next_random(n) * 2);
        else
            elem_set_s64(t->dtype, t->data, i, (int64_t)(i * 5 % 6) - (i % 2 ? 6 : 0)); /* also from the end */
    return t;
}

static bool same_bits(DType dtype, const void *a, const void *b, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        size_t size = (size_t)dtype_bits(dtype) / 8;
        if (memcmp((const char *)a + i * size, (const char *)b + i * size, size) == 0)
            continue;
        double x = dtype_is_float(dtype) ? elem_get_f64(dtype, a, i) : 0, y = dtype_is_float(dtype) ? elem_get_f64(dtype, b, i) : 0;
        if (x == x || y == y) {
            print_message("element %llu: %.9g instead of %.9g\n", (unsigned long long)i, x, y);
            return false;
        }
    }
    return true;
}

/* One configuration: passes with `skip` left out (NULL: none). */
static void check(Net *n, Arena *arena, Tensor *const *in, Tensor *const *want, const TargetInfo *target, bool eager,
                  const char *skip, const char *what)
{
    const PassDef *passes[IG_COUNT(sched_passes)];
    uint32_t n_passes = 0;
    for (uint32_t i = 0; i < IG_COUNT(sched_passes); i++) {
        const PassDef *pass = pass_find(sched_pass_defs, sched_passes[i]);
        bool skipped = skip && (strcmp(skip, "all") == 0 ? pass->optional : strcmp(skip, pass->id) == 0);
        if (!skipped)
            passes[n_passes++] = pass;
    }
    PassOptions options = {.opt_level = 2, .eager = eager, .target = target, .limit = -1, .verify_each = true};
    PassCtx pc = {.ctx = n->ctx, .tmp = arena_create(n->ctx), .options = &options, .verify = verify};
    Unit unit = {.module = n->module, .schedule = sched_create(n->ctx, n->module, n->func)};
    bool ok = pass_run(&pc, &unit, passes, n_passes);
    void *in_data[4], *out_data[4];
    for (uint32_t i = 0; i < n->func->body->params.len; i++)
        in_data[i] = in[i]->data;
    for (uint32_t i = 0; i < func_n_out(n->func); i++)
        out_data[i] = arena_alloc(arena, want[i]->count * 8 + 64);
    if (ok) {
        uint64_t error = 0;
        run_schedule(unit.schedule, in_data, out_data, &error);
        assert_int_equal(error, 0);
        for (uint32_t i = 0; i < func_n_out(n->func); i++)
            if (!same_bits(want[i]->dtype, out_data[i], want[i]->data, want[i]->count)) {
                print_message("%s: output %u differs, target %s, without %s\n", what, i, target->level, skip ? skip : "nothing");
                ok = false;
            }
        assert_true(unit.schedule->peak_bytes <= unit.schedule->lower_bound_bytes * 11 / 10 + 64);
    }
    if (!ok) {
        Text text;
        text_init(&text, arena);
        print_diags(n->ctx);
        sched_print(&text, unit.schedule);
        FILE *f = fopen("schedule.txt", "w");
        if (f) {
            fputs(text.data, f);
            fclose(f);
        }
        print_message("%s, without %s: the schedule is in schedule.txt\n", what, skip ? skip : "nothing");
        fail();
    }
    sched_destroy(unit.schedule);
    arena_destroy(pc.tmp);
}

static void check_net(void **state)
{
    size_t which = *(size_t *)*state;
    Context *ctx = ctx_create(NULL);
    Net n = {.ctx = ctx, .module = module_create(ctx), .seed = 42 + which};
    n.func = module_func(n.module, str_intern(ctx, "main"), true);
    n.b = ir_at_end(n.func->body, loc_text(ctx, str_intern(ctx, nets[which].name), 1, 1));
    nets[which].build(&n);
    Arena *arena = arena_create(ctx);
    Tensor *in[4], *want[4];
    for (uint32_t i = 0; i < n.func->body->params.len; i++)
        in[i] = random_tensor(&n, arena, n.func->body->params.data[i]->type);
    uint64_t error = 0;
    if (!eval_func(ctx, arena, EVAL_REF32, n.func, in, want, &error)) {
        print_diags(ctx);
        fail();
    }
    PassOptions options = {.limit = -1};
    PassCtx pc = {.ctx = ctx, .tmp = arena_create(ctx), .options = &options};
    Unit unit = {.module = n.module};
    const PassDef *expand[] = {pass_find(pass_defs, "expand"), pass_find(pass_defs, "dce")};
    assert_true(pass_run(&pc, &unit, expand, 2));
    for (size_t t = 0; t < IG_COUNT(targets); t++)
        check(&n, arena, in, want, &targets[t], false, NULL, nets[which].name);
    check(&n, arena, in, want, &targets[0], true, NULL, nets[which].name);
    check(&n, arena, in, want, &targets[0], false, "all", nets[which].name);
    for (size_t i = 0; i < IG_COUNT(sched_passes); i++)
        if (pass_find(sched_pass_defs, sched_passes[i])->optional)
            check(&n, arena, in, want, &targets[0], false, sched_passes[i], nets[which].name);
    ctx_destroy(ctx);
}

int main(void)
{
    static size_t index[IG_COUNT(nets)];
    struct CMUnitTest tests[IG_COUNT(nets)];
    for (size_t i = 0; i < IG_COUNT(nets); i++) {
        index[i] = i;
        tests[i] = (struct CMUnitTest){nets[i].name, check_net, NULL, NULL, &index[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
