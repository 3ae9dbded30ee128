/* SPDX-License-Identifier: Apache-2.0
 * What works for which op and element type, found by doing it: functions of that one op are drawn, and a cell counts if
 * everything in graph_check held and
 *   e  the reference evaluator ran it (and every verifier and the text form were content)
 *   l  it was lowered, compiled and run, with the evaluator's bits
 *   a  it was differentiated, and the gradient again ran with the evaluator's bits
 * doc/coverage.txt keeps the table. It may only grow: a cell that is lost fails here. New cells are written to coverage.txt in
 * the test's work folder; take that file into doc/ with the change that brought them. */
#include "support/graph_check.h"
#include "support/graph_draw.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 16, ENOUGH = 3, CELL_E = 1, CELL_L = 2, CELL_A = 4 };

typedef struct Try {
    Context *ctx;
    uint64_t seed;
    Op op;
    DType dtype;
    unsigned cells;
    const char *wrong;
} Try;

static unsigned cell[OP_COUNT][DT_COUNT], kept[OP_COUNT][DT_COUNT];

/* The only op but constants, on elements of the type, and not on constants alone. */
static bool is_about(const Func *func, Op op, DType dtype)
{
    bool found = false;
    REGION_FOREACH(node, func->body) {
        if (node->op == OP_const || node->op == OP_yield)
            continue;
        const Type *type = node->n_in ? node->in[0].val->type : node->out[0].type;
        bool varies = node->n_in == 0;
        for (uint32_t i = 0; i < node->n_in; i++)
            varies |= node->in[i].val && !val_const(node->in[i].val);
        if (node->op != op || type->dtype != dtype || !varies)
            return false;
        found = true;
    }
    return found;
}

static void run_try(void *arg)
{
    Try *t = arg;
    char key[100]; /* not numbers of rows: those move */
    int length = snprintf(key, sizeof key, "%s %s %u", op_info[t->op].name, dtype_name(t->dtype), (unsigned)t->seed);
    Draw d = draw_begin((const uint8_t *)key, (size_t)length);
    d.at = d.size;
    d.dtype = t->dtype;
    Module *module = module_create(t->ctx);
    if (!draw_function(module, &d, 1, t->op) || !is_about(module_find_func(module, str_intern(t->ctx, "main")), t->op, t->dtype))
        return;
    GraphCheck check = {.ctx = t->ctx, .seed = t->seed * 3 + 1, .folder = ".", .run_code = true, .gradients = true, .quick = true};
    graph_check(&check, module);
    t->wrong = check.wrong;
    t->cells = check.wrong ? 0
                           : (check.was_evaluated ? CELL_E : 0u) | (check.was_compiled ? CELL_L : 0u) |
                                 (check.was_differentiated ? CELL_A : 0u);
}

static void test_cells(void **state)
{
    (void)state;
    unsigned bad = 0;
    for (Op op = 0; op < OP_COUNT; op++)
        for (DType dtype = 1; dtype < DT_COUNT && op_info[op].kind != OK_CONTROL; dtype++)
            for (uint64_t seed = 0, n = 0; seed < TRIES && n < ENOUGH; seed++) {
                unsigned all = CELL_E | (op_is_compiled(op) ? CELL_L : 0u) | (dtype_is_float(dtype) ? CELL_A : 0u);
                if (cell[op][dtype] == all)
                    break;
                Try t = {.ctx = ctx_create(NULL), .seed = seed, .op = op, .dtype = dtype};
                CtxStatus status = ctx_protect(t.ctx, run_try, &t);
                if (status != CTX_OK || t.wrong) {
                    print_message("%s of %s: %s\n", op_info[op].name, dtype_name(dtype), t.wrong ? t.wrong : diags_text(t.ctx));
                    bad++;
                }
                cell[op][dtype] |= t.cells;
                n += t.cells != 0;
                ctx_destroy(t.ctx);
            }
    assert_int_equal(bad, 0);
}

static void print_table(FILE *file)
{
    fprintf(file, "# SPDX-License-Identifier: Apache-2.0\n"
                  "# Written by test/unit/test_driver_coverage.c. Per op and element type of its first operand: e evaluated,\n"
                  "# l lowered and compiled, a differentiated.\n");
    for (Op op = 0; op < OP_COUNT; op++) {
        bool any = false;
        for (DType dtype = 1; dtype < DT_COUNT; dtype++) {
            unsigned c = cell[op][dtype];
            if (c && !any)
                fprintf(file, "%-16s", op_info[op].name);
            if (c)
                fprintf(file, " %s:%s%s%s", dtype_name(dtype), c & CELL_E ? "e" : "", c & CELL_L ? "l" : "", c & CELL_A ? "a" : "");
            any = any || c;
        }
        if (any)
            fprintf(file, "\n");
    }
}

static void read_table(FILE *file)
{
    char word[64];
    Op op = OP_COUNT;
    while (fscanf(file, "%63s", word) == 1) {
        char *colon = strchr(word, ':');
        if (word[0] == '#') {
            (void)!fscanf(file, "%*[^\n]");
        } else if (!colon) {
            op = op_from_name(word);
        } else if (op != OP_COUNT) {
            *colon = 0;
            kept[op][dtype_from_name(word)] = (strchr(colon + 1, 'e') ? CELL_E : 0u) | (strchr(colon + 1, 'l') ? CELL_L : 0u) |
                                              (strchr(colon + 1, 'a') ? CELL_A : 0u);
        }
    }
}

static void test_nothing_lost(void **state)
{
    (void)state;
    FILE *file = fopen("coverage.txt", "w");
    assert_non_null(file);
    print_table(file);
    fclose(file);
    const char *source = getenv("SRC");
    char path[1024];
    snprintf(path, sizeof path, "%s/doc/coverage.txt", source ? source : ".");
    file = fopen(path, "r");
    assert_non_null(file);
    read_table(file);
    fclose(file);
    unsigned lost = 0, new = 0, count = 0;
    for (Op op = 0; op < OP_COUNT; op++)
        for (DType dtype = 1; dtype < DT_COUNT; dtype++) {
            if (kept[op][dtype] & ~cell[op][dtype]) {
                print_message("lost: %s of %s\n", op_info[op].name, dtype_name(dtype));
                lost++;
            }
            new += (cell[op][dtype] & ~kept[op][dtype]) != 0;
            count += kept[op][dtype] != 0;
        }
    print_message("%u pairs of op and type in the table, %u lost, %u with new cells\n", count, lost, new);
    assert_true(count > 0);
    assert_int_equal(lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cells), cmocka_unit_test(test_nothing_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
