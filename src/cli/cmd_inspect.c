/* SPDX-License-Identifier: Apache-2.0
 * igata inspect: what is in a model or an artifact, without running it. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const CliOption options[] = {
    {"json", 0, NULL, "as one JSON object"},
    {"dot", 0, "FILE", "write the kernels as a Graphviz graph"},
    {"html", 0, "FILE", "write one page with graph, kernels, memory and costs, for a browser"},
    {"ir", 0, NULL, "the imported model in igata's text form"},
    {0},
};

static bool write_file(Cli *cli, const char *path, const char *text)
{
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    bool good = file && fputs(text, file) >= 0;
    if (file && file != stdout)
        good &= fclose(file) == 0;
    if (!good)
        cli_error(cli, "cannot write '%s'", path);
    return good;
}

static int run(Cli *cli)
{
    igata_status status;
    const char *dot = cli_value(cli, "dot"), *html = cli_value(cli, "html"), *text;
    const char *format = cli_value(cli, "json") ? "json" : cli_value(cli, "ir") ? "ir" : dot ? "dot" : html ? "html" : "text";
    igata_options *o = cli_options(cli, cli->ctx, &status);
    if (status == IGATA_OK)
        status = igata_inspect(cli->ctx, cli->args[0], o, format, &text);
    cli_print_times(cli->ctx);
    if (status == IGATA_OK && !write_file(cli, dot ? dot : html ? html : "-", text))
        return EXIT_INPUT;
    return cli_finish(cli, cli->ctx, status);
}

const Command cmd_inspect = {"inspect", "MODEL|ARTIFACT [--json | --html FILE | --dot FILE | --ir]",
                             "Show kernels, shapes, memory plan and weights", options, 1, 1, run};
