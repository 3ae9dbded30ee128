/* SPDX-License-Identifier: Apache-2.0
 * Whole models of the corpus beside a checkout (skipped where there is none), against the pinned numbers of test/models.txt:
 * how many nodes, kernels and phases, how much code; the plan within 10 % of its lower bound; after every pass the verifiers hold
 * and the text is a fixed point; bits of the evaluator with every value as an output.
 *
 * The numbers may only fall (code: 5 % of tolerance). After a change that improves them, or that is worth more than it costs, take
 * the lines that the test writes to `models.txt` in its work folder into test/models.txt. */
#include "support/artifact_run.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_MODELS = 64, MAX_IO = 1024 };

typedef struct Numbers {
    unsigned nodes, kernels, phases, code;
} Numbers;
typedef struct Pinned {
    char name[64];
    Numbers at_most;
} Pinned;

static Pinned pinned[MAX_MODELS];
static size_t n_pinned;
static FILE *found;

static const char *folder_of(Arena *arena, const char *name)
{
    return arena_printf(arena, "%s/corpus/small/%s", getenv("SHARED"), name);
}

/* Every symbol of the inputs gets the size 2. */
static Module *load(Context *ctx, Arena *arena, const char *name)
{
    const char *path = path_join(arena, folder_of(arena, name), "model.onnx");
    FrontInfo info;
    DimBinding dims[16];
    ImportOptions options = {.dims = dims};
    if (!front_onnx_info(ctx, arena, path, &info))
        return NULL;
    for (uint32_t i = 0; i < info.n_in; i++)
        for (uint32_t d = 0; d < info.in[i].rank; d++)
            if (info.in[i].dim[d].size < 0 && options.n_dims < IG_COUNT(dims))
                dims[options.n_dims++] = (DimBinding){.name = info.in[i].dim[d].symbol, .lo = 2, .hi = 2};
    return front_load(ctx, path, &options);
}

static void check_text(void *user, const char *pass, const char *text)
{
    Context *ctx = user;
    if (driver_find_pass(pass)->level != LEVEL_TENSOR)
        return;
    Module *again = ir_parse(ctx, str_intern(ctx, "printed.ig"), text, strlen(text));
    if (!again)
        fail_msg("after %s the text does not parse: %s", pass, diags_text(ctx));
    Text second;
    text_init(&second, ctx_arena(ctx));
    ir_print(&second, again);
    if (strcmp(text, second.data) != 0)
        fail_msg("after %s the text is no fixed point", pass);
    module_destroy(again);
}

static Program *compile(Context *ctx, Module *module, const TargetInfo *target, bool all_outputs)
{
    Func *func = driver_entry(ctx, module, NULL);
    assert_non_null(func);
    if (all_outputs)
        assert_true(driver_also_output(ctx, func, "all"));
    DriverOptions options = {.pass = {.opt_level = 2, .limit = -1, .verify_each = true, .print_after = "all"},
                             .target = {target},
                             .n_targets = 1,
                             .dump = all_outputs ? NULL : check_text,
                             .dump_user = ctx};
    Program *p = driver_compile(ctx, module, func, &options);
    if (!p)
        fail_msg("does not compile: %s", diags_text(ctx));
    return p;
}

static void test_numbers(void **state)
{
    const Pinned *pin = *state;
    Context *ctx = ctx_create(NULL);
    Arena *arena = arena_create(ctx);
    Module *module = load(ctx, arena, pin->name);
    if (!module)
        fail_msg("%s: %s", pin->name, diags_text(ctx));
    Program *p = compile(ctx, module, &cgen_targets()[0], false);
    const Schedule *s = p->variant[0].schedule;
    assert_true(driver_write(p, "numbers.so"));
    ArtInfo *info = art_read(ctx, "numbers.so");
    assert_non_null(info);
    Numbers now = {.kernels = s->kernels.len, .phases = s->phases.len, .code = (unsigned)info->image.variants[0].code_bytes};
    REGION_FOREACH(node, p->func->body)
        now.nodes++;
    if (found)
        fprintf(found, "%-36s %5u %5u %5u %7u\n", pin->name, now.nodes, now.kernels, now.phases, now.code);
    print_message("%s: %u nodes, %u kernels, %u phases, %u bytes of code; plan %llu of at least %llu bytes\n", pin->name, now.nodes,
                  now.kernels, now.phases, now.code, (unsigned long long)s->peak_bytes, (unsigned long long)s->lower_bound_bytes);
    assert_true(s->peak_bytes * 10 <= s->lower_bound_bytes * 11);
    assert_true(now.nodes <= pin->at_most.nodes);
    assert_true(now.kernels <= pin->at_most.kernels);
    assert_true(now.phases <= pin->at_most.phases);
    assert_true(now.code <= pin->at_most.code + pin->at_most.code / 20);
    driver_destroy(p);
    ctx_destroy(ctx);
}

static void test_bits(void **state)
{
    const Pinned *pin = *state;
    const TargetInfo *host = cgen_host_target();
    if (!host)
        skip();
    for (int all = 0; all < 2; all++) {
        Context *ctx = ctx_create(NULL);
        Arena *arena = arena_create(ctx);
        Module *module = load(ctx, arena, pin->name);
        assert_non_null(module);
        Module *optimised = module_clone(module);
        Func *func = driver_entry(ctx, module, NULL);
        if (all)
            assert_true(driver_also_output(ctx, func, "all"));
        Program *p = compile(ctx, optimised, host, all);
        ArtifactCase c = {.arena = arena, .path = "bits.so", .threads = 2};
        c.n_in = func->body->params.len;
        c.n_out = func_n_out(func);
        assert_true(c.n_in <= MAX_IO && c.n_out <= MAX_IO);
        Tensor *in[MAX_IO], *want[MAX_IO];
        for (uint32_t i = 0; i < c.n_in; i++) {
            const Type *type = func->body->params.data[i]->type;
            in[i] = tensor_random(arena, type, 77 + i, TASTE_TAME);
            if (!dtype_is_float(type->dtype)) /* ids and masks */
                for (uint64_t k = 0; k < in[i]->count; k++)
                    elem_set_s64(type->dtype, in[i]->data, k, (int64_t)(k * 7 % 5 != 0));
        }
        uint64_t error = 0;
        assert_true(eval_func(ctx, arena, EVAL_REF32, func, in, want, &error));
        c.in = in;
        c.want = want;
        assert_true(driver_write(p, c.path));
        const char *wrong = artifact_wrong(&c);
        if (wrong)
            fail_msg("%s: %s", pin->name, wrong);
        driver_destroy(p);
        ctx_destroy(ctx);
    }
}

int main(void)
{
    char line[256];
    const char *source = getenv("SRC"), *shared = getenv("SHARED");
    snprintf(line, sizeof line, "%s/test/models.txt", source ? source : ".");
    FILE *file = fopen(line, "r");
    if (!file)
        return perror(line), 1;
    while (n_pinned < MAX_MODELS && fgets(line, sizeof line, file)) {
        Pinned *p = &pinned[n_pinned];
        Numbers *n = &p->at_most;
        n_pinned += line[0] != '#' && sscanf(line, "%63s %u %u %u %u", p->name, &n->nodes, &n->kernels, &n->phases, &n->code) == 5;
    }
    fclose(file);
    snprintf(line, sizeof line, "%s/corpus/small", shared ? shared : "");
    if (!shared || access(line, R_OK) != 0) {
        fprintf(stderr, "skipped: no models beside this checkout\n");
        return 77;
    }
    found = fopen("models.txt", "w");
    static struct CMUnitTest tests[2 * MAX_MODELS];
    static char name[2 * MAX_MODELS][80];
    for (size_t i = 0; i < 2 * n_pinned; i++) {
        bool bits = i >= n_pinned;
        snprintf(name[i], sizeof name[i], "%s: %s", pinned[i % n_pinned].name, bits ? "bits" : "numbers");
        tests[i] = (struct CMUnitTest){name[i], bits ? test_bits : test_numbers, NULL, NULL, &pinned[i % n_pinned]};
    }
    int failed = _cmocka_run_group_tests("driver_models", tests, 2 * n_pinned, NULL, NULL);
    if (found)
        fclose(found);
    return failed || n_pinned == 0;
}
