/* SPDX-License-Identifier: Apache-2.0
 * Random functions (graph_draw) with a symbol in place of a size: compiled once, run at the ends of the range and between, they give
 * the bits of ref32. Nodes that do not fit a symbolic size are left out.
 *     test_driver_sizes FIRST LAST    these seeds instead; PRINT=1 shows what they draw */
#include "driver/driver.h"
#include "support/artifact_run.h"
#include "support/graph_draw.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_IO = 80, MOST = 41 };

typedef struct Seed {
    Context *ctx;
    uint64_t seed;
    Module *module; /* with the symbol */
    const Sym *sym;
    int64_t old; /* the size that it stands for */
    const char *wrong;
    unsigned runs;
} Seed;

/* ---- a symbol for a size ------------------------------------------------------------------------------------------------------ */

static const Dim *with_symbol(const Seed *s, const Dim *dim)
{
    int64_t size;
    if (!dim_is_const(dim, &size) || size <= 0 || size % s->old)
        return dim;
    return dim_mul(s->ctx, dim_sym(s->ctx, s->sym), dim_const(s->ctx, size / s->old));
}

static const Type *symbolic_type(const Seed *s, const Type *type)
{
    const Dim *dims[IR_MAX_RANK];
    for (uint32_t a = 0; a < type->rank; a++) /* only the size itself: it has to be an axis alone */
        dims[a] = type_dim(type, a) == s->old ? dim_sym(s->ctx, s->sym) : type->dim[a];
    return type_tensor(s->ctx, type->dtype, type->rank, dims);
}

static Val *emit_again(Seed *s, Builder *b, const Node *node, Val *const *in)
{
    AttrVal attrs[IR_MAX_ATTRS];
    uint32_t n = node->attr ? node->attr->n : 0;
    for (uint32_t i = 0; i < n; i++) {
        attrs[i] = node->attr->val[i];
        const Dim **dims = ARENA_ARRAY(s->module->arena, const Dim *, attrs[i].n + 1);
        if (attrs[i].kind == AK_DIM)
            attrs[i].u.dim = with_symbol(s, attrs[i].u.dim);
        for (uint32_t d = 0; attrs[i].kind == AK_DIMS && d < attrs[i].n; d++)
            dims[d] = with_symbol(s, attrs[i].u.dims[d]);
        if (attrs[i].kind == AK_DIMS)
            attrs[i].u.dims = dims;
        if (attrs[i].kind == AK_WEIGHT) {
            const Weight *w = attrs[i].u.weight;
            attrs[i].u.weight = module_weight(s->module, w->name, w->type, w->data, true);
        }
    }
    return op_emit(b, (Op)node->op, in, node->n_in, attrs, n);
}

/* The drawn function again, its values by id; those that nothing reads are outputs. */
static bool rebuild(Seed *s, const Func *from)
{
    Func *func = module_func(s->module, from->name, true);
    Map *made = map_create(s->module->arena);
    Builder b = ir_at_end(func->body, loc_text(s->ctx, str_intern(s->ctx, "drawn.ig"), 1, 1));
    for (uint32_t i = 0; i < from->body->params.len; i++) {
        const Val *param = from->body->params.data[i];
        map_set(made, param->id, func_param(func, from->in_names[i], symbolic_type(s, param->type)));
    }
    REGION_FOREACH(node, from->body) {
        Val *in[64], *out;
        bool complete = node != from->body->last && node->n_in <= 64;
        for (uint32_t i = 0; i < node->n_in && complete; i++) {
            in[i] = ir_in(node, i) ? map_get(made, ir_in(node, i)->id) : NULL;
            complete = in[i] || !ir_in(node, i);
        }
        if (!complete || !(out = emit_again(s, &b, node, in)))
            continue;
        for (uint32_t i = 0; i < node->n_out; i++)
            map_set(made, node->out[i].id, out->def && out->def->n_out == node->n_out ? ir_out(out->def, i) : out);
    }
    diag_clear(s->ctx);
    Val *out[MAX_IO];
    Str names[MAX_IO];
    uint32_t n = 0;
    REGION_FOREACH(node, func->body)
        for (uint32_t i = 0; i < node->n_out && n < MAX_IO; i++)
            if (!node->out[i].uses && node->op != OP_const) {
                names[n] = str_format(s->ctx, "y%u", n);
                out[n++] = &node->out[i];
            }
    func_yield(func, b.loc, out, names, n);
    return n > 0;
}

/* The sizes of inputs that can become a symbol. */
static int64_t choose_size(const Func *func, uint64_t seed)
{
    int64_t sizes[MAX_IO];
    uint32_t n = 0;
    for (uint32_t i = 0; i < func->body->params.len; i++) {
        const Type *type = func->body->params.data[i]->type;
        for (uint32_t a = 0; a < type->rank && n < MAX_IO; a++)
            if (type_dim(type, a) > 1)
                sizes[n++] = type_dim(type, a);
    }
    return n ? sizes[seed / 7 % n] : 0;
}

/* ---- checks -------------------------------------------------------------------------------------------------------------------- */

static void set_wrong(Seed *s, const char *what, int64_t size)
{
    if (!s->wrong)
        s->wrong = arena_printf(ctx_arena(s->ctx), "size %lld: %s\n%s", (long long)size, what, diags_text(s->ctx));
}

static bool is_refusal(Context *ctx)
{
    static const DiagId kinds[] = {DIAG_op_uncompiled, DIAG_cgen_unsupported, DIAG_driver_dynamic, DIAG_driver_not_tensor,
                                   DIAG_driver_range, DIAG_driver_negative, DIAG_op_shape, DIAG_eval_dtype};
    for (uint32_t i = 0; i < diag_count(ctx); i++) {
        bool known = diag_get(ctx, i)->severity == SEV_NOTE || diag_get(ctx, i)->severity == SEV_WARNING;
        for (size_t k = 0; k < IG_COUNT(kinds); k++)
            known |= diag_get(ctx, i)->id == kinds[k];
        if (!known)
            return false;
    }
    return diag_errors(ctx) > 0;
}

static const Dim *size_of_sym(void *user, const Sym *sym)
{
    (void)sym;
    return user;
}

static void check_size(Seed *s, const Func *func, const char *path, int64_t size)
{
    Arena *arena = arena_create(s->ctx);
    Tensor *in[MAX_IO], *want[MAX_IO];
    uint64_t error = 0;
    uint32_t n_in = func->body->params.len;
    const Dim *dim = dim_const(s->ctx, size);
    for (uint32_t i = 0; i < n_in; i++) {
        const Type *type = type_bind(s->ctx, func->body->params.data[i]->type, size_of_sym, (void *)(uintptr_t)dim);
        in[i] = tensor_random(arena, type, s->seed * 64 + i, s->seed % 3 ? TASTE_TAME : TASTE_SPECIAL);
    }
    if (!eval_func(s->ctx, arena, EVAL_REF32, func, in, want, &error)) {
        diag_clear(s->ctx); /* a negative size, say */
    } else {
        ArtifactCase run = {.arena = arena, .path = path, .threads = 1 + s->seed % 2, .n_in = n_in, .n_out = func_n_out(func),
                            .in = in, .want = want, .index_error = error != 0};
        const char *wrong = artifact_wrong(&run);
        if (wrong)
            set_wrong(s, wrong, size);
        s->runs++;
    }
    arena_destroy(arena);
}

static void check_module(Seed *s)
{
    Module *clone = module_clone(s->module);
    Func *func = clone->funcs.data[0];
    DriverOptions options = {.pass = {.opt_level = s->seed % 4 ? 2 : 0, .limit = -1, .verify_each = true},
                             .target = {cgen_host_target()},
                             .n_targets = 1};
    char *path = arena_printf(ctx_arena(s->ctx), "./sizes-%ld.so", (long)getpid());
    Program *p = driver_compile(s->ctx, clone, func, &options);
    if (!p) {
        if (!is_refusal(s->ctx))
            set_wrong(s, "does not compile", 0);
        return;
    }
    if (!driver_write(p, path))
        set_wrong(s, "is not written", 0);
    const int64_t sizes[] = {s->sym->lo, s->sym->lo + 1, 16, 17, s->old, MOST};
    for (size_t i = 0; i < IG_COUNT(sizes) && !s->wrong; i++)
        if (sizes[i] <= MOST)
            check_size(s, s->module->funcs.data[0], path, sizes[i]);
    unlink(path);
    driver_destroy(p);
}

static void print_module(const Module *module)
{
    Text text;
    text_init(&text, ctx_arena(module->ctx));
    ir_print(&text, module);
    fprintf(stderr, "%s\n", text.data);
}

static void run_seed(void *arg)
{
    Seed *s = arg;
    Draw d = draw_seeded(s->seed);
    Module *drawn = module_create(s->ctx);
    if (!draw_function(drawn, &d, 12, OP_COUNT))
        return;
    const Func *func = drawn->funcs.data[0];
    s->old = choose_size(func, s->seed);
    if (s->old == 0)
        return;
    s->module = module_create(s->ctx);
    s->sym = module_sym(s->module, str_intern(s->ctx, "N"), 1 + (int64_t)(s->seed % 2), MOST);
    if (!rebuild(s, func))
        return;
    if (getenv("PRINT"))
        print_module(s->module);
    if (!ir_verify(s->module) || !op_verify(s->module))
        set_wrong(s, "the verifier refuses it", 0);
    else
        check_module(s);
}

static bool seed_holds(uint64_t seed, unsigned *runs)
{
    Seed s = {.ctx = ctx_create(NULL), .seed = seed};
    CtxStatus status = ctx_protect(s.ctx, run_seed, &s);
    bool ok = status == CTX_OK && !s.wrong;
    if (!ok) {
        fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, status == CTX_OK ? s.wrong : diags_text(s.ctx));
        if (s.module)
            print_module(s.module);
    }
    *runs += s.runs;
    ctx_destroy(s.ctx);
    return ok;
}

static unsigned search(uint64_t first, uint64_t last, unsigned *runs)
{
    unsigned bad = 0;
    for (uint64_t seed = first; seed <= last; seed++)
        bad += !seed_holds(seed, runs);
    return bad;
}

static void one_program_for_all_sizes(void **state)
{
    (void)state;
    unsigned runs = 0;
    if (!cgen_host_target())
        skip();
    assert_int_equal(search(1, 100, &runs), 0);
    assert_true(runs > 100);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_program_for_all_sizes)};
    unsigned runs = 0, bad = 0;
    if (argc < 3)
        return cmocka_run_group_tests(tests, NULL, NULL);
    bad = search(strtoull(argv[1], NULL, 0), strtoull(argv[2], NULL, 0), &runs);
    fprintf(stderr, "%u functions are wrong, %u runs\n", bad, runs);
    return bad != 0;
}
