/* SPDX-License-Identifier: Apache-2.0
 * Memory runs out at every single allocation in turn: parsing, importing and compiling unwind to the boundary with
 * CTX_NOMEM, and everything that was allocated is released with the Context. */
#include "driver/driver.h"
#include "support/nets.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Scarce {
    uint64_t calls, fail_at, live;
} Scarce;

static void *scarce_alloc(void *user, size_t bytes)
{
    Scarce *s = user;
    if (++s->calls == s->fail_at)
        return NULL;
    s->live++;
    return malloc(bytes);
}

static void scarce_release(void *user, void *pointer)
{
    Scarce *s = user;
    s->live -= pointer != NULL;
    free(pointer);
}

typedef struct Work {
    Context *ctx;
    const char *text; /* of a module; NULL: the model at `path` */
    const char *path;
    bool compile, done;
} Work;

static void work(void *arg)
{
    Work *w = arg;
    Module *module = w->text ? ir_parse(w->ctx, str_intern(w->ctx, "net.ig"), w->text, strlen(w->text))
                             : front_load(w->ctx, w->path, NULL);
    if (module && w->compile) {
        DriverOptions options = {.pass = {.opt_level = 2, .limit = -1, .verify_each = true}, .target = {cgen_targets()},
                                 .n_targets = 1};
        Program *p = driver_compile(w->ctx, module, driver_entry(w->ctx, module, NULL), &options);
        w->done = p && driver_write(p, "nomem.so");
        driver_destroy(p);
    } else {
        w->done = module != NULL;
    }
}

/* Returns how many allocations there are. step: of the sweep. */
static uint64_t sweep(const Work *what, uint64_t step)
{
    for (uint64_t fail_at = 1;; fail_at += step) {
        Scarce scarce = {.fail_at = fail_at};
        Allocator allocator = {scarce_alloc, scarce_release, &scarce};
        Work w = *what;
        w.ctx = ctx_create(&allocator);
        if (w.ctx) {
            CtxStatus status = ctx_protect(w.ctx, work, &w);
            bool failed = scarce.calls >= fail_at;
            if (status == CTX_BUG || (status == CTX_OK && !w.done) || (status == CTX_NOMEM && !failed))
                fail_msg("allocation %llu: status %d, %s", (unsigned long long)fail_at, (int)status,
                         diag_count(w.ctx) ? diag_get(w.ctx, diag_count(w.ctx) - 1)->message : "no diagnostic");
            ctx_destroy(w.ctx);
            if (scarce.live)
                fail_msg("allocation %llu: %llu are never released", (unsigned long long)fail_at, (unsigned long long)scarce.live);
            if (!failed)
                return scarce.calls;
        }
        assert_int_equal(scarce.live, 0);
    }
}

static const char *text_of_net(Context *ctx, const NetDef *def)
{
    Net n = net_make(ctx, def, 5);
    Text text;
    text_init(&text, ctx_arena(ctx));
    ir_print(&text, n.module);
    return text.data;
}

static void test_text(void **state)
{
    (void)state;
    static const char text[] = "sym N in [1, 64]\nweight @w : f32[2,3] = [1, 2, 3, 4, 5, 6]\n"
                               "entry func @main(%x : f32[N,3] \"x\") -> (\"y\") {\n  %w = const {weight=@w} : f32[2,3]\n"
                               "  %t = transpose %w {perm=[1,0]} : f32[3,2]\n"
                               "  %d = dot %x, %t {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : f32[N,2]\n"
                               "  %y = relu %d : f32[N,2]\n  yield %y\n}\n";
    Text longer;
    Context *ctx = ctx_create(NULL);
    text_init(&longer, ctx_arena(ctx));
    text_add(&longer, text);
    for (int i = 0; i < 2000; i++) /* enough for many blocks */
        text_addf(&longer, "func @f%d(%%x : f32[%d] \"x\") -> (\"y\") {\n  %%y = neg %%x : f32[%d]\n  yield %%y\n}\n", i, i, i);
    assert_true(sweep(&(Work){.text = text}, 1) >= 3);
    assert_true(sweep(&(Work){.text = longer.data}, 1) >= 10);
    ctx_destroy(ctx);
}

static void test_model(void **state)
{
    (void)state;
    char path[1024];
    snprintf(path, sizeof path, "%s/examples/digits/digits.onnx", getenv("SRC") ? getenv("SRC") : ".");
    assert_true(sweep(&(Work){.path = path}, 1) >= 3);
}

static void test_compile(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    for (const NetDef *def = net_defs; def->name; def++)
        if (strcmp(def->name, "norms") == 0 || strcmp(def->name, "moves") == 0)
            assert_true(sweep(&(Work){.text = text_of_net(ctx, def), .compile = true}, 3) >= 10);
    ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_model), cmocka_unit_test(test_compile)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
