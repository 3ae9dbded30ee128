/* SPDX-License-Identifier: Apache-2.0
 *
 * igata verify: the compiled model against the reference. Bits must be those of ref32; the distance to the evaluator in double
 * precision is printed. --per-node compares the result of every node, --bisect finds the pass that changes a result.
 */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const CliOption options[] = {
    {"input", 'i', "NAME=VALUE", "@FILE.npy, @FILE.pb, zeros, ones or random:SEED (default random:0)"},
    {"per-node", 0, NULL, "compare the results of every node, not only the model's"},
    {"bisect", 0, NULL, "where bits differ, find the first pass that makes them differ"},
    {0},
};

static igata_status open_engine(Cli *cli, const char *engine, const char *limit, igata_session **session, igata_options **used)
{
    igata_status status;
    igata_options *o = cli_options(cli, cli->ctx, &status);
    if (status == IGATA_OK && engine)
        status = igata_option_set(o, "engine", engine);
    if (status == IGATA_OK && limit)
        status = igata_option_set(o, "pass-limit", limit);
    if (status == IGATA_OK && cli_value(cli, "per-node"))
        status = igata_option_set(o, "also-output", "all");
    if (status == IGATA_OK)
        status = cli_name_inputs(cli, o);
    if (status == IGATA_OK)
        status = igata_session_open(cli->ctx, cli->args[0], o, session);
    if (used)
        *used = o;
    return status;
}

typedef struct Worst {
    size_t wrong_values, wrong_elements;
    double max_ulp;
    const char *text;
} Worst;

/* Compares all results; prints wrong values if `say`. */
static igata_status compare_bits(Cli *cli, igata_session *got, igata_session *want, bool say, Worst *worst)
{
    const igata_tolerance bits = {.size = sizeof bits, .bits = 1};
    igata_status status = IGATA_OK;
    *worst = (Worst){.max_ulp = -1, .text = ""};
    for (size_t i = 0; i < igata_session_outputs(want); i++) {
        igata_tensor a, b;
        igata_difference diff = {.size = sizeof diff};
        if (igata_session_result(got, i, &a) != IGATA_OK || igata_session_result(want, i, &b) != IGATA_OK)
            return IGATA_E_MISMATCH;
        if (igata_tensor_compare(cli->ctx, &a, &b, &bits, &diff) == IGATA_OK)
            continue;
        status = IGATA_E_MISMATCH;
        worst->wrong_values++;
        worst->wrong_elements += diff.wrong;
        if (diff.max_ulp > worst->max_ulp) {
            worst->max_ulp = diff.max_ulp;
            worst->text = diff.text;
        }
        if (say)
            printf("differs: %s\n", diff.text);
    }
    return status;
}

/* The value whose distance to f64 is largest by its own magnitude. */
static void print_error(Cli *cli, igata_session *got, igata_session *exact)
{
    const igata_tolerance any = {.size = sizeof any, .bits = 1};
    double worst_rel = 0, worst_abs = 0;
    const char *rel_name = "", *abs_name = "";
    for (size_t i = 0; i < igata_session_outputs(exact); i++) {
        igata_tensor a, b;
        igata_difference diff = {.size = sizeof diff};
        if (igata_session_result(got, i, &a) != IGATA_OK || igata_session_result(exact, i, &b) != IGATA_OK)
            continue;
        igata_tensor_compare(cli->ctx, &a, &b, &any, &diff);
        if (diff.max_rel > worst_rel) {
            worst_rel = diff.max_rel;
            rel_name = b.name;
        }
        if (diff.max_abs > worst_abs) {
            worst_abs = diff.max_abs;
            abs_name = b.name;
        }
        if (cli->verbose)
            printf("  %-40s max abs %-12.4g max rel %-12.4g max ulp %.0f\n", b.name, diff.max_abs, diff.max_rel, diff.max_ulp);
    }
    if (worst_abs > 0)
        printf("against f64: largest absolute error %.4g in '%s', largest relative error %.4g in '%s'\n", worst_abs, abs_name,
               worst_rel, rel_name);
    else
        printf("against f64: no error\n");
}

/* Passes are added one by one: there are few, and differences need not grow monotonously. */
static igata_status bisect(Cli *cli, const CliInputs *inputs, igata_session *want)
{
    for (size_t limit = 0;; limit++) {
        igata_session *session;
        igata_options *o;
        Worst worst;
        igata_status status = open_engine(cli, NULL, cli_format(cli, "%zu", limit), &session, &o);
        if (status == IGATA_OK)
            status = igata_session_run(session, inputs->tensor, inputs->n);
        if (status != IGATA_OK)
            return status;
        if (compare_bits(cli, session, want, false, &worst) != IGATA_OK) {
            const char *pass = limit ? igata_optional_pass(o, limit - 1) : NULL;
            if (pass)
                printf("bisect: --pass-limit=%zu is good, %zu is not: pass '%s'\n", limit - 1, limit, pass);
            else
                printf("bisect: bits differ with no optional pass: lowering or code generation\n");
            return IGATA_OK;
        }
        igata_session_close(session);
        if (!igata_optional_pass(o, limit)) {
            printf("bisect: no limit shows the difference\n");
            return IGATA_OK;
        }
    }
}

static igata_status compare_all(Cli *cli, bool *differ)
{
    static const char *const engine[] = {NULL, "ref32", "f64"};
    igata_session *session[3] = {NULL, NULL, NULL};
    CliInputs inputs;
    Worst worst;
    igata_status status = IGATA_OK;
    for (size_t i = 0; status == IGATA_OK && i < 3; i++) {
        status = open_engine(cli, engine[i], NULL, &session[i], NULL);
        if (status == IGATA_OK && i == 0)
            status = cli_read_inputs(cli, session[0], true, &inputs);
        if (status == IGATA_OK)
            status = igata_session_run(session[i], inputs.tensor, inputs.n);
    }
    if (status != IGATA_OK)
        return status;
    *differ = compare_bits(cli, session[0], session[1], cli_value(cli, "per-node") != NULL, &worst) != IGATA_OK;
    if (*differ)
        printf("%zu of %zu values have other bits than ref32; the worst: %s\n", worst.wrong_values,
               igata_session_outputs(session[1]), worst.text);
    else
        printf("%zu of %zu values have the bits of ref32\n", igata_session_outputs(session[1]), igata_session_outputs(session[1]));
    print_error(cli, session[0], session[2]);
    return *differ && cli_value(cli, "bisect") ? bisect(cli, &inputs, session[1]) : IGATA_OK;
}

static int run(Cli *cli)
{
    bool differ = false;
    igata_status status = compare_all(cli, &differ);
    cli_print_times(cli->ctx);
    return cli_finish(cli, cli->ctx, status == IGATA_OK && differ ? IGATA_E_MISMATCH : status);
}

const Command cmd_verify = {"verify", "MODEL [-i NAME=VALUE]... [--per-node] [--bisect]", "Compare compiled results with the reference",
                            options, 1, 1, run};
