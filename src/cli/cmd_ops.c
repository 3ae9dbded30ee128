/* SPDX-License-Identifier: Apache-2.0
 * igata ops: the coverage table. */
#include "cli/cli.h"

#include <stdio.h>

static const CliOption options[] = {
    {"json", 0, NULL, "as a JSON array"},
    {"md", 0, NULL, "as doc/ops.md"},
    {0},
};

static int run(Cli *cli)
{
    const char *text;
    igata_status status = igata_ops(cli->ctx, cli_value(cli, "json") ? "json" : cli_value(cli, "md") ? "md" : "text", &text);
    if (status == IGATA_OK)
        fputs(text, stdout);
    return cli_finish(cli, cli->ctx, status);
}

const Command cmd_ops = {"ops", "[--json | --md]", "List operators and what is there for each", options, 0, 0, run};
