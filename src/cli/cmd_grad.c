/* SPDX-License-Identifier: Apache-2.0
 * igata grad: a model that computes gradients. */
#include "cli/cli.h"

#include <stddef.h>

static const CliOption options[] = {
    {"loss", 0, "NAME", "output to differentiate (default: the first)"},
    {"wrt", 0, "A,B", "inputs and initializers (default: every float input)"},
    {"seed", 0, "NAME", "new input: the gradient that a loss which is no scalar starts with"},
    {"output", 'o', "OUT", "file: .ig, or what compile writes (default: text on standard output)"},
    {0},
};

static int run(Cli *cli)
{
    igata_status status;
    igata_network *net, *gradient;
    const char *out = cli_value(cli, "output");
    igata_options *o = cli_options(cli, cli->ctx, &status);
    if (status == IGATA_OK)
        status = igata_network_load(cli->ctx, cli->args[0], o, &net);
    if (status == IGATA_OK)
        status = igata_network_gradient(net, cli_value(cli, "loss"), cli_value(cli, "wrt"), cli_value(cli, "seed"), &gradient);
    if (status == IGATA_OK)
        status = cli_has_ending(out, ".ig") ? igata_network_save(gradient, out ? out : "-")
                                            : igata_network_compile(gradient, o, out);
    return cli_finish(cli, cli->ctx, status);
}

const Command cmd_grad = {"grad", "MODEL --loss Y --wrt A,B [-o OUT]", "Make a model that computes gradients", options, 1, 1, run};
