/* SPDX-License-Identifier: Apache-2.0
 * igata opt: runs passes by name on a model in igata's text form. */
#include "cli/cli.h"

#include <stdio.h>

static const CliOption options[] = {
    {"passes", 0, "P,P", "passes, in order"},
    {"output", 'o', "FILE.ig", "where the module goes (default: standard output)"},
    {0},
};

static int run(Cli *cli)
{
    igata_status status;
    igata_network *net;
    const char *passes = cli_value(cli, "passes"), *out = cli_value(cli, "output"), *schedule = NULL;
    igata_options *o = cli_options(cli, cli->ctx, &status);
    if (status == IGATA_OK)
        status = igata_network_load(cli->ctx, cli->args[0], o, &net);
    if (status == IGATA_OK)
        status = igata_network_optimize(net, o, passes ? passes : "", &schedule);
    cli_print_times(cli->ctx);
    if (status == IGATA_OK && schedule)
        fputs(schedule, stdout);
    else if (status == IGATA_OK)
        status = igata_network_save(net, out ? out : "-");
    return cli_finish(cli, cli->ctx, status);
}

const Command cmd_opt = {"opt", "FILE.ig --passes=P,P [-o FILE.ig]", "Run passes on a module in text form", options, 1, 1, run};
