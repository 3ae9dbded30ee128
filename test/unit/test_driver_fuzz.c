/* SPDX-License-Identifier: Apache-2.0
 * A fixed set of random functions, drawn from the op table, through everything (graph_check), and the drawing itself: every row of
 * the table can be drawn, so a new op is checked by existing. test/fuzz/graph.c does the same for longer. */
#include "support/graph_check.h"
#include "support/graph_draw.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    unsigned drawn[OP_COUNT], evaluated[OP_COUNT], compiled[OP_COUNT];
    unsigned functions, n_evaluated, n_compiled;
} seen;

typedef struct Seed {
    Context *ctx;
    uint64_t seed;
    Op only;
    GraphCheck check;
    Module *module;
} Seed;

/* The text form without weights that nothing uses. */
static void print_short(FILE *file, const char *text)
{
    for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        size_t name = strncmp(line, "weight @", 8) == 0 ? strcspn(line + 7, " ") : 0;
        bool used = name == 0;
        for (const char *at = end; name && !used && (at = strchr(at, '@')); at++)
            used = strncmp(at, line + 7, name) == 0 && !(at[name] >= '0' && at[name] <= '9');
        if (used)
            fprintf(file, "%.*s\n", (int)(end - line), line);
    }
}

static void print_module(const Module *module)
{
    Text text;
    text_init(&text, ctx_arena(module->ctx));
    ir_print(&text, module);
    print_short(stderr, text.data);
}

static void run_seed(void *arg)
{
    Seed *s = arg;
    Draw d = draw_seeded(s->seed);
    s->module = module_create(s->ctx);
    if (!draw_function(s->module, &d, s->only == OP_COUNT ? 12 : 3, s->only))
        return;
    seen.functions++;
    if (getenv("PRINT")) /* what crashes cannot be printed afterwards */
        print_module(s->module);
    s->check = (GraphCheck){.ctx = s->ctx, .seed = s->seed, .folder = ".", .run_code = true, .gradients = s->seed % 3 == 1};
    graph_check(&s->check, s->module);
    seen.n_evaluated += s->check.was_evaluated;
    seen.n_compiled += s->check.was_compiled;
    REGION_FOREACH(node, module_find_func(s->module, str_intern(s->ctx, "main"))->body) {
        seen.drawn[node->op]++;
        seen.evaluated[node->op] += s->check.was_evaluated;
        seen.compiled[node->op] += s->check.was_compiled;
    }
}

/* False after describing what is wrong. */
static bool seed_holds(uint64_t seed, Op only)
{
    Seed s = {.ctx = ctx_create(NULL), .seed = seed, .only = only};
    CtxStatus status = ctx_protect(s.ctx, run_seed, &s);
    bool ok = status == CTX_OK && !s.check.wrong;
    if (!ok) {
        fprintf(stderr, "seed %llu (%s): %s\n", (unsigned long long)seed, only == OP_COUNT ? "any op" : op_info[only].name,
                status == CTX_OK ? s.check.wrong : diags_text(s.ctx));
        if (s.module)
            print_module(s.module);
    }
    ctx_destroy(s.ctx);
    return ok;
}

static void test_each_op(void **state)
{
    (void)state;
    unsigned bad = 0;
    for (Op op = 0; op < OP_COUNT; op++) {
        if (op_info[op].kind == OK_CONTROL || op == OP_const)
            continue;
        for (uint64_t seed = 1; seed <= 4; seed++)
            bad += !seed_holds(seed * 1000 + op, op);
    }
    assert_int_equal(bad, 0);
}

static void test_mixed(void **state)
{
    (void)state;
    unsigned bad = 0;
    for (uint64_t seed = 1; seed <= 120; seed++)
        bad += !seed_holds(seed, OP_COUNT);
    assert_int_equal(bad, 0);
}

static void test_every_op_is_drawn(void **state)
{
    (void)state;
    unsigned missing = 0;
    for (Op op = 0; op < OP_COUNT; op++) {
        if (op_info[op].kind == OK_CONTROL || op == OP_dimval) /* a dimval of a known size becomes a constant */
            continue;
        bool needs_code = op_is_compiled(op) && !op_is_evalonly(op);
        if (seen.drawn[op] && seen.evaluated[op] && (seen.compiled[op] || !needs_code))
            continue;
        print_message("%s: drawn %u, evaluated %u, compiled %u times\n", op_info[op].name, seen.drawn[op], seen.evaluated[op],
                      seen.compiled[op]);
        missing++;
    }
    print_message("%u functions, %u evaluated, %u compiled\n", seen.functions, seen.n_evaluated, seen.n_compiled);
    assert_int_equal(missing, 0);
}

/* test_driver_fuzz FIRST LAST [OP]: these seeds instead; a way to search longer and to come back to one. */
static int search(int argc, char **argv)
{
    unsigned bad = 0;
    Op only = argc > 3 ? op_from_name(argv[3]) : OP_COUNT;
    for (uint64_t seed = strtoull(argv[1], NULL, 0), last = strtoull(argv[2], NULL, 0); seed <= last; seed++)
        bad += !seed_holds(seed, only);
    fprintf(stderr, "%u of %u functions are wrong (%u evaluated, %u compiled)\n", bad, seen.functions, seen.n_evaluated,
            seen.n_compiled);
    return bad != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_op),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_every_op_is_drawn),
    };
    return argc > 2 ? search(argc, argv) : cmocka_run_group_tests(tests, NULL, NULL);
}
