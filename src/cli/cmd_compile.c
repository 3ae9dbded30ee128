/* SPDX-License-Identifier: Apache-2.0
 * igata compile: models to artifacts and other forms. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const CliOption options[] = {
    {"output", 'o', "OUT", "file (.so, .o, .a with a .h, .ig, .ll, .s; - is a .so on standard output), or folder"},
    {0},
};

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* model.onnx in the folder NAME is called NAME. */
static const char *default_name(Cli *cli, const char *model)
{
    const char *slash = strrchr(model, '/'), *base = slash ? slash + 1 : model, *dot = strrchr(base, '.');
    size_t n = dot ? (size_t)(dot - base) : strlen(base);
    return cli_format(cli, "%.*s.so", (int)n, strcmp(model, "-") == 0 ? "model" : base);
}

static igata_status compile_one(Cli *cli, igata_options *o, const char *model)
{
    const char *out = cli_value(cli, "output");
    igata_network *net;
    if (!out)
        out = default_name(cli, model);
    else if (is_folder(out))
        out = cli_format(cli, "%s/%s", out, default_name(cli, model));
    igata_status status = igata_network_load(cli->ctx, model, o, &net);
    if (status == IGATA_OK)
        status = igata_network_compile(net, o, out);
    if (status == IGATA_OK && cli->verbose && strcmp(out, "-") != 0)
        printf("%s\n", out);
    return status;
}

static int run(Cli *cli)
{
    igata_status status;
    const char *out = cli_value(cli, "output");
    igata_options *o = cli_options(cli, cli->ctx, &status);
    bool has_cpu = false;
    for (size_t i = 0; i < cli->n_common; i++)
        has_cpu |= strcmp(cli->common[i].key, "cpu") == 0 || strcmp(cli->common[i].key, "target") == 0;
    if (o && out && cli->n_args > 1 && !is_folder(out))
        return cli_usage_error(cli, "-o must be a folder for several models");
    if (o && !has_cpu) /* one artifact for all machines of this kind */
        status = igata_option_set(o, "cpu", "portable");
    for (size_t i = 0; status == IGATA_OK && i < cli->n_args; i++)
        status = compile_one(cli, o, cli->args[i]);
    cli_print_times(cli->ctx);
    return cli_finish(cli, cli->ctx, status);
}

const Command cmd_compile = {"compile", "MODEL... [-o OUT]", "Compile models to artifacts", options, 1, CLI_MAX, run};
