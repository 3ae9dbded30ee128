/* SPDX-License-Identifier: Apache-2.0
 * The bit contract through the whole driver: each network's artifact gives the bits of the reference evaluator at every level,
 * with every optional pass left out, eagerly, with every value as an output, on one and two threads, for each x86-64 level that
 * this machine has; and the same input gives the same file. */
#include "support/artifact_run.h"
#include "support/nets.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_OUT = 128 };

/* A network, its inputs and the bits that it must give. */
typedef struct Fixture {
    const NetDef *def;
    Context *ctx;
    Arena *arena;
    Net net;
    Func *func;
    uint32_t n_in, n_out;
    Tensor *in[2][4], *want[2][MAX_OUT]; /* on tame data, and with NaN, infinities and extreme integers */
    uint64_t error[2];
} Fixture;

/* One way of compiling it. */
typedef struct Way {
    const char *what;
    int opt_level;
    bool eager, all_outputs;
    const char *without; /* pass, or "all" optional ones */
    const TargetInfo *target;
} Way;

static Fixture begin(const NetDef *def, bool all_outputs)
{
    Fixture f = {.def = def, .ctx = ctx_create(NULL)};
    f.arena = arena_create(f.ctx);
    f.net = net_make(f.ctx, def, 7);
    f.func = f.net.func;
    if (all_outputs)
        assert_true(driver_also_output(f.ctx, f.func, "all"));
    f.n_in = f.func->body->params.len;
    f.n_out = func_n_out(f.func);
    assert_true(f.n_out <= MAX_OUT);
    for (int taste = TASTE_TAME; taste <= TASTE_SPECIAL; taste++) {
        for (uint32_t i = 0; i < f.n_in; i++)
            f.in[taste][i] = tensor_random(f.arena, f.func->body->params.data[i]->type, 1000 + i, (Taste)taste);
        assert_true(eval_func(f.ctx, f.arena, EVAL_REF32, f.func, f.in[taste], f.want[taste], &f.error[taste]));
    }
    assert_int_equal(f.error[TASTE_TAME], 0);
    return f;
}

static void give_up(const Fixture *f, const Way *way, unsigned threads, const char *wrong)
{
    print_message("%s, %s, -O%d, without %s, %s, %u threads: %s\n%s", f->def->name, way->what, way->opt_level,
                  way->without ? way->without : "nothing", way->target->level, threads, wrong, diags_text(f->ctx));
    fail();
}

static Program *compile(const Fixture *f, const Way *way)
{
    DriverOptions options = {.pass = {.opt_level = way->opt_level, .eager = way->eager, .limit = -1, .verify_each = true},
                             .target = {way->target},
                             .n_targets = 1};
    if (way->without && strcmp(way->without, "all") == 0) {
        options.pass.limit = 0;
    } else if (way->without) {
        options.pass.disabled = &way->without;
        options.pass.n_disabled = 1;
    }
    Program *p = driver_compile(f->ctx, f->net.module, f->func, &options);
    if (!p)
        give_up(f, way, 0, "does not compile");
    return p;
}

static void check(const NetDef *def, const Way *way, const char *path)
{
    Fixture f = begin(def, way->all_outputs);
    Program *p = compile(&f, way);
    ArtifactCase c = {.arena = f.arena, .path = path, .n_in = f.n_in, .n_out = f.n_out};
    EagerPlan *plan = NULL;
    if (way->eager ? !(plan = driver_write_eager(p, f.arena, path)) : !driver_write(p, path))
        give_up(&f, way, 0, "is not written");
    for (unsigned run = 0; run < (way->eager ? 2 : 4); run++) {
        int taste = run % 2 ? TASTE_SPECIAL : TASTE_TAME;
        c.threads = 1 + run / 2;
        c.in = f.in[taste];
        c.want = f.want[taste];
        c.index_error = f.error[taste] != 0;
        const char *wrong = way->eager ? artifact_eager_wrong(&c, plan) : artifact_wrong(&c);
        if (wrong)
            give_up(&f, way, c.threads, wrong);
    }
    driver_destroy(p);
    ctx_destroy(f.ctx);
}

static bool host_has(const TargetInfo *target)
{
    const TargetInfo *host = cgen_host_target();
    return host && (host == target || (strncmp(host->level, "x86-64-", 7) == 0 && strncmp(target->level, "x86-64-", 7) == 0 &&
                                       host > target)); /* levels ascend in the table */
}

static void test_levels(void **state)
{
    const NetDef *def = *state;
    for (const TargetInfo *t = cgen_targets(); t->triple; t++) {
        if (!host_has(t)) {
            print_message("[  NOTE    ] %s: this machine does not run %s\n", def->name, t->level);
            continue;
        }
        for (int level = 0; level <= 2; level++)
            check(def, &(Way){"plain", level, .target = t}, "level.so");
        check(def, &(Way){"eager", 2, .eager = true, .target = t}, "eager.so");
        check(def, &(Way){"all values", 2, .all_outputs = true, .target = t}, "all.so");
    }
}

static void test_without_passes(void **state)
{
    const TargetInfo *host = cgen_host_target();
    if (!host)
        skip();
    const PassDef *const tables[] = {pass_defs, sched_pass_defs};
    for (size_t table = 0; table < IG_COUNT(tables); table++)
        for (const PassDef *pass = tables[table]; pass->id; pass++)
            if (pass->optional)
                check(*state, &(Way){"a pass less", 2, .without = pass->id, .target = host}, "without.so");
    check(*state, &(Way){"required passes only", 2, .without = "all", .target = host}, "without.so");
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, file), *size);
    fclose(file);
    return data;
}

/* Two compilations, with the heap in another state between them, give one file; also for two variants in one artifact. */
static void test_same_bytes(void **state)
{
    static const char *const path[] = {"first.so", "second.so"};
    uint8_t *data[2];
    size_t size[2];
    void *noise[2];
    for (int i = 0; i < 2; i++) {
        noise[i] = malloc(12345 + 99991 * (size_t)i);
        Fixture f = begin(*state, false);
        DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}};
        for (const TargetInfo *t = cgen_targets(); t->triple; t++)
            if (strncmp(t->level, "x86-64", 6) == 0)
                options.target[options.n_targets++] = t;
        Program *p = driver_compile(f.ctx, f.net.module, f.func, &options);
        assert_non_null(p);
        assert_true(driver_write(p, path[i]));
        driver_destroy(p);
        ctx_destroy(f.ctx);
        data[i] = read_file(path[i], &size[i]);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(data[0], data[1], size[0]);
    for (int i = 0; i < 2; i++) {
        free(data[i]);
        free(noise[i]);
    }
}

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction run;
    } what[] = {{"levels", test_levels}, {"without passes", test_without_passes}, {"same bytes", test_same_bytes}};
    static struct CMUnitTest tests[64 * IG_COUNT(what)];
    static char name[64 * IG_COUNT(what)][64];
    size_t n = 0;
    for (size_t w = 0; w < IG_COUNT(what); w++)
        for (const NetDef *def = net_defs; def->name; def++, n++) {
            snprintf(name[n], sizeof name[n], "%s: %s", def->name, what[w].name);
            tests[n] = (struct CMUnitTest){name[n], what[w].run, NULL, NULL, (void *)(uintptr_t)def};
        }
    return _cmocka_run_group_tests("driver_bits", tests, n, NULL, NULL);
}
