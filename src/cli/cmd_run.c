/* SPDX-License-Identifier: Apache-2.0
 * igata run: one run on given inputs. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const CliOption options[] = {
    {"input", 'i', "NAME=VALUE", "@FILE.npy, @FILE.pb, zeros, ones or random:SEED"},
    {"output", 'o', "NAME=@FILE.npy", "write an output; without any, a summary is printed"},
    {0},
};

static void print_summary(Cli *cli, const igata_tensor *t)
{
    printf("%s : %s = %s\n", t->name, igata_tensor_type_text(cli->ctx, t), igata_tensor_data_text(cli->ctx, t, 8));
}

static igata_status find_result(Cli *cli, igata_session *session, const char *name, igata_tensor *result)
{
    for (size_t i = 0; i < igata_session_outputs(session); i++)
        if (igata_session_result(session, i, result) == IGATA_OK && strcmp(result->name, name) == 0)
            return IGATA_OK;
    const char *names = "";
    for (size_t i = 0; i < igata_session_outputs(session); i++)
        if (igata_session_result(session, i, result) == IGATA_OK)
            names = cli_format(cli, "%s '%s'", names, result->name);
    cli_error(cli, "the model has no output '%s'; it has%s", name, names);
    return IGATA_E_MODEL;
}

/* All outputs are found before the first is written; if one cannot be written, those before it go again. */
static igata_status write_outputs(Cli *cli, igata_session *session, bool *any)
{
    igata_tensor *tensor = cli_alloc(cli, (cli->n_own + 1) * sizeof *tensor);
    const char **path = cli_alloc(cli, (cli->n_own + 1) * sizeof *path);
    size_t n = 0;
    for (size_t i = 0; i < cli->n_own; i++) {
        const char *name, *rest;
        if (strcmp(cli->own[i].key, "output") != 0)
            continue;
        cli_split(cli, "-o", cli->own[i].value, &name, &rest);
        igata_status status = find_result(cli, session, name, &tensor[n]);
        if (status != IGATA_OK)
            return status;
        path[n++] = rest + 1;
    }
    *any = n > 0;
    for (size_t i = 0; i < n; i++) {
        igata_status status = igata_tensor_write(cli->ctx, path[i], &tensor[i]);
        for (size_t k = 0; status != IGATA_OK && k < i; k++)
            if (strcmp(path[k], "-") != 0)
                remove(path[k]);
        if (status != IGATA_OK)
            return status;
    }
    return IGATA_OK;
}

static int check_outputs(Cli *cli)
{
    for (size_t i = 0; i < cli->n_own; i++) {
        const char *name, *rest;
        if (strcmp(cli->own[i].key, "output") != 0)
            continue;
        if (!cli_split(cli, "-o", cli->own[i].value, &name, &rest))
            return EXIT_USAGE;
        if (*rest != '@' || !rest[1])
            return cli_usage_error(cli, "option -o: '%s' is not NAME=@FILE.npy", cli->own[i].value);
        const char *ending = strrchr(rest, '.');
        if (ending && strcmp(ending, ".pb") == 0)
            return cli_usage_error(cli, "option -o: '%s': only .npy is written", cli->own[i].value);
    }
    return -1;
}

static int run(Cli *cli)
{
    igata_session *session = NULL;
    CliInputs inputs;
    igata_status status;
    bool any = false;
    int bad = check_outputs(cli);
    if (bad >= 0)
        return bad;
    igata_options *o = cli_options(cli, cli->ctx, &status);
    if (status == IGATA_OK)
        status = cli_name_inputs(cli, o);
    if (status == IGATA_OK)
        status = igata_session_open(cli->ctx, cli->args[0], o, &session);
    if (status == IGATA_OK)
        status = cli_read_inputs(cli, session, false, &inputs);
    if (status == IGATA_OK)
        status = igata_session_run(session, inputs.tensor, inputs.n);
    cli_print_times(cli->ctx);
    if (status == IGATA_OK)
        status = write_outputs(cli, session, &any);
    for (size_t i = 0; status == IGATA_OK && !any && i < igata_session_outputs(session); i++) {
        igata_tensor t;
        if (igata_session_result(session, i, &t) == IGATA_OK)
            print_summary(cli, &t);
    }
    return cli_finish(cli, cli->ctx, status);
}

const Command cmd_run = {"run", "MODEL|ARTIFACT [-i NAME=VALUE]... [-o NAME=@FILE.npy]...", "Run a model or an artifact once",
                         options, 1, 1, run};
