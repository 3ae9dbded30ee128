#include "cli/cli.h"
static const CliOption options[] = {{0}};
static int run(Cli *cli) { return cli_usage_error(cli, "later"); }
const Command cmd_grad = {"grad", "", "", options, 0, 9, run};
