/* SPDX-License-Identifier: Apache-2.0
 *
 * igata test: ONNX test-case folders. Each folder has a context of its own, so memory does not add up. A data set of new shapes
 * makes the session compile anew.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "cli/cli.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const CliOption options[] = {
    {"bits", 0, NULL, "also: the same bits as --engine ref32"},
    {0},
};

typedef struct Counts {
    size_t passed, failed, skipped;
} Counts;

typedef struct Folder {
    Cli *cli;
    igata_context *ctx;
    const char *path;
    igata_session *session, *reference;
    const char *fault; /* NULL: good so far */
    bool skipped;
} Folder;

static void set_fault(Folder *f, const char *text)
{
    if (!f->fault)
        f->fault = cli_format(f->cli, "%s", text);
}

/* The first error of the context, which is cleared. */
static void take_error(Folder *f, igata_status status)
{
    if (status == IGATA_E_BUG)
        cli_finish(f->cli, f->ctx, status);
    for (size_t i = 0; i < igata_message_count(f->ctx); i++)
        if (igata_message_is_error(f->ctx, i))
            set_fault(f, igata_message_text(f->ctx, i));
    if (status != IGATA_OK)
        set_fault(f, igata_status_text(status));
    f->skipped |= status == IGATA_E_CPU;
    igata_messages_clear(f->ctx);
}

static bool find_result(igata_session *session, const char *name, size_t index, igata_tensor *result)
{
    for (size_t i = 0; *name && i < igata_session_outputs(session); i++)
        if (igata_session_result(session, i, result) == IGATA_OK && strcmp(result->name, name) == 0)
            return true;
    return !*name && igata_session_result(session, index, result) == IGATA_OK;
}

static void check_outputs(Folder *f, unsigned set, const CliInputs *want, const igata_tolerance *tolerance)
{
    for (size_t i = 0; i < want->n; i++) {
        igata_tensor got;
        igata_difference diff = {.size = sizeof diff};
        if (!find_result(f->session, want->tensor[i].name, i, &got))
            set_fault(f, cli_format(f->cli, "the model has no output '%s'", want->tensor[i].name));
        else if (igata_tensor_compare(f->ctx, &got, &want->tensor[i], tolerance, &diff) != IGATA_OK)
            set_fault(f, cli_format(f->cli, "set %u: %s", set, diff.text));
    }
}

static void check_bits(Folder *f, unsigned set, const CliInputs *inputs)
{
    const igata_tolerance bits = {.size = sizeof bits, .bits = 1};
    igata_status status = igata_session_run(f->reference, inputs->tensor, inputs->n);
    if (status != IGATA_OK) {
        take_error(f, status);
        return;
    }
    for (size_t i = 0; i < igata_session_outputs(f->session); i++) {
        igata_tensor got, want;
        igata_difference diff = {.size = sizeof diff};
        if (igata_session_result(f->session, i, &got) != IGATA_OK || igata_session_result(f->reference, i, &want) != IGATA_OK)
            set_fault(f, "the engines have different outputs");
        else if (igata_tensor_compare(f->ctx, &got, &want, &bits, &diff) != IGATA_OK)
            set_fault(f, cli_format(f->cli, "set %u: other bits than ref32: %s", set, diff.text));
    }
}

static void name_inputs(const Folder *f, CliInputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++) {
        igata_tensor declared;
        if (!*inputs->tensor[i].name && igata_session_input(f->session, i, &declared) == IGATA_OK)
            inputs->tensor[i].name = declared.name;
    }
}

static bool open_sessions(Folder *f, const CliInputs *inputs)
{
    igata_status status;
    const char *model = cli_format(f->cli, "%s/model.onnx", f->path);
    igata_options *o = cli_options(f->cli, f->ctx, &status);
    for (size_t i = 0; status == IGATA_OK && i < inputs->n; i++)
        if (*inputs->tensor[i].name)
            status = igata_option_set(o, "input", inputs->tensor[i].name);
    if (status == IGATA_OK)
        status = igata_session_open(f->ctx, model, o, &f->session);
    if (status == IGATA_OK && cli_value(f->cli, "bits")) {
        igata_options *reference = igata_options_copy(o);
        status = igata_option_set(reference, "engine", "ref32");
        if (status == IGATA_OK)
            status = igata_session_open(f->ctx, model, reference, &f->reference);
    }
    take_error(f, status);
    return status == IGATA_OK;
}

static void test_sets(Folder *f)
{
    igata_tolerance tolerance;
    igata_status status;
    CliInputs inputs, outputs;
    if (!cli_read_tolerance(f->cli, f->path, &tolerance))
        set_fault(f, "tolerance.json is malformed");
    for (unsigned set = 0; !f->fault && cli_read_set(f->cli, f->ctx, f->path, set, &inputs, &outputs, &status); set++) {
        if (status == IGATA_OK && !f->session && !open_sessions(f, &inputs))
            return;
        if (status == IGATA_OK) {
            name_inputs(f, &inputs);
            status = igata_session_run(f->session, inputs.tensor, inputs.n);
        }
        take_error(f, status);
        if (f->fault)
            return;
        check_outputs(f, set, &outputs, &tolerance);
        if (f->reference && !f->fault)
            check_bits(f, set, &inputs);
        take_error(f, IGATA_OK);
    }
    if (!f->session)
        set_fault(f, "there is no test_data_set_0");
}

static void test_folder(Cli *cli, const char *path, Counts *counts)
{
    Folder f = {.cli = cli, .ctx = igata_context_create(), .path = path};
    if (!f.ctx)
        f.fault = "out of memory";
    else
        test_sets(&f);
    if (f.fault)
        printf("%s %s: %s\n", f.skipped ? "skip" : "FAIL", path, f.fault);
    else if (cli->verbose)
        printf("ok %s\n", path);
    fflush(stdout);
    *(f.skipped ? &counts->skipped : f.fault ? &counts->failed : &counts->passed) += 1;
    if (cli->verbose && f.ctx)
        cli_print_times(f.ctx);
    igata_context_destroy(f.ctx);
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* A folder without a model stands for the folders in it that have one. */
static bool test_below(Cli *cli, const char *path, Counts *counts)
{
    enum { MAX_FOLDERS = 1 << 14 };
    const char **names = cli_alloc(cli, MAX_FOLDERS * sizeof *names);
    size_t n = 0;
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && n < MAX_FOLDERS && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && access(cli_format(cli, "%s/%s/model.onnx", path, entry->d_name), R_OK) == 0)
            names[n++] = cli_format(cli, "%s/%s", path, entry->d_name);
    if (dir)
        closedir(dir);
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++)
        test_folder(cli, names[i], counts);
    return n > 0;
}

static int run(Cli *cli)
{
    Counts counts = {0};
    igata_status status;
    bool progress = isatty(STDERR_FILENO) && !cli->quiet && !cli->verbose;
    if (!cli_options(cli, cli->ctx, &status)) /* a malformed option is said once, not per folder */
        return cli_finish(cli, cli->ctx, status);
    for (size_t i = 0; i < cli->n_args; i++) {
        if (progress)
            fprintf(stderr, "\r%zu/%zu ", i + 1, cli->n_args);
        if (access(cli_format(cli, "%s/model.onnx", cli->args[i]), R_OK) == 0 || !test_below(cli, cli->args[i], &counts)) {
            test_folder(cli, cli->args[i], &counts);
        }
    }
    if (progress)
        fprintf(stderr, "\r            \r");
    if (counts.skipped)
        printf("%zu skipped\n", counts.skipped);
    printf("%zu passed, %zu failed\n", counts.passed, counts.failed);
    return counts.failed ? EXIT_MISMATCH : EXIT_GOOD;
}

const Command cmd_test = {"test", "DIR... [--bits]", "Check ONNX test-case folders", options, 1, CLI_MAX, run};
