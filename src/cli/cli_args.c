/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line's grammar: the command's own options first, then the compiler's (igata_option_rows), -O0..2, -v, -q.
 * --name=value and --name value are the same; an argument in brackets is optional and needs the equals sign.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "cli/cli.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cli_help(const Command *command)
{
    printf("usage: igata %s %s\n\n%s.\n\n", command->name, command->usage, command->summary);
    for (const CliOption *o = command->options; o->name; o++) {
        char left[64];
        snprintf(left, sizeof left, "%s%c%s--%s%s%s", o->letter ? "-" : "", o->letter ? o->letter : ' ', o->letter ? ", " : "   ",
                 o->name, o->argument ? " " : "", o->argument ? o->argument : "");
        printf("  %-32s %s\n", left, o->help);
    }
    printf("\nCommon options:\n  %-32s %s\n", "-O0, -O1, -O2", "optimisation; no result bit depends on it");
    for (const igata_option_row *row = igata_option_rows(); row->key; row++) {
        char left[64];
        snprintf(left, sizeof left, "    --%s%s%s", row->key, row->argument ? (*row->argument == '[' ? "" : " ") : "",
                 row->argument ? row->argument : "");
        printf("  %-32s %s\n", left, row->help);
    }
    printf("  %-32s %s\n  %-32s %s\n", "-v", "say more", "-q", "errors only");
    printf("\nPasses (those with a star may be disabled):\n");
    for (size_t i = 0; igata_pass(i).name; i++)
        printf("  %c %-30s %s\n", igata_pass(i).optional ? '*' : ' ', igata_pass(i).name, igata_pass(i).help);
}

/* ---- one word ------------------------------------------------------------------------------------------------------------ */

typedef struct Words {
    Cli *cli;
    int argc, at;
    char **argv;
} Words;

static int add_own(Words *w, const CliOption *o, const char *value)
{
    Cli *cli = w->cli;
    if (!o->argument && value)
        return cli_usage_error(cli, "option --%s takes no value", o->name);
    if (o->argument && !value) {
        if (w->at >= w->argc)
            return cli_usage_error(cli, "option --%s needs a value (%s)", o->name, o->argument);
        value = w->argv[w->at++];
    }
    cli->own[cli->n_own++] = (CliSetting){o->name, value ? value : "1"};
    return -1;
}

static int add_common(Words *w, const igata_option_row *row, const char *value)
{
    Cli *cli = w->cli;
    if (!row->argument && value)
        return cli_usage_error(cli, "option --%s takes no value", row->key);
    if (row->argument && *row->argument != '[' && !value) {
        if (w->at >= w->argc)
            return cli_usage_error(cli, "option --%s needs a value (%s)", row->key, row->argument);
        value = w->argv[w->at++];
    }
    cli->common[cli->n_common++] = (CliSetting){row->key, value ? value : "1"};
    return -1;
}

static int parse_long(Words *w, const char *word)
{
    const char *equals = strchr(word, '='), *value = equals ? equals + 1 : NULL;
    size_t n = equals ? (size_t)(equals - word) : strlen(word);
    for (const CliOption *o = w->cli->command->options; o->name; o++)
        if (strlen(o->name) == n && memcmp(o->name, word, n) == 0)
            return add_own(w, o, value);
    for (const igata_option_row *row = igata_option_rows(); row->key; row++)
        if (strlen(row->key) == n && memcmp(row->key, word, n) == 0)
            return add_common(w, row, value);
    if (strcmp(word, "help") == 0) {
        cli_help(w->cli->command);
        return EXIT_GOOD;
    }
    return cli_usage_error(w->cli, "unknown option '--%.*s'", (int)n, word);
}

static int parse_short(Words *w, const char *word)
{
    Cli *cli = w->cli;
    if (word[0] == 'O' && word[1] && !word[2]) {
        cli->common[cli->n_common++] = (CliSetting){"opt-level", word + 1};
        return -1;
    }
    for (const CliOption *o = cli->command->options; o->name; o++)
        if (o->letter && o->letter == word[0])
            return add_own(w, o, word[1] ? word + 1 : NULL);
    if (strcmp(word, "h") == 0) {
        cli_help(cli->command);
        return EXIT_GOOD;
    }
    if (strcmp(word, "v") != 0 && strcmp(word, "q") != 0)
        return cli_usage_error(cli, "unknown option '-%s'", word);
    *(word[0] == 'v' ? &cli->verbose : &cli->quiet) = true;
    return -1;
}

int cli_parse(Cli *cli, int argc, char **argv)
{
    Words w = {cli, argc, 0, argv};
    size_t room = (size_t)argc + 1;
    cli->own = cli_alloc(cli, room * sizeof *cli->own);
    cli->common = cli_alloc(cli, room * sizeof *cli->common);
    cli->args = cli_alloc(cli, room * sizeof *cli->args);
    bool only_args = false;
    while (w.at < argc) {
        const char *word = argv[w.at++];
        int status = -1;
        if (only_args || word[0] != '-' || !word[1])
            cli->args[cli->n_args++] = word;
        else if (strcmp(word, "--") == 0)
            only_args = true;
        else
            status = word[1] == '-' ? parse_long(&w, word + 2) : parse_short(&w, word + 1);
        if (status >= 0)
            return status;
    }
    if (cli->n_args < cli->command->min_args)
        return cli_usage_error(cli, "usage: igata %s %s", cli->command->name, cli->command->usage);
    if (cli->n_args > cli->command->max_args)
        return cli_usage_error(cli, "unexpected argument '%s'", cli->args[cli->command->max_args]);
    return -1;
}

/* ---- answers ----------------------------------------------------------------------------------------------------------------- */

const char *cli_value(const Cli *cli, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < cli->n_own; i++)
        if (strcmp(cli->own[i].key, name) == 0)
            value = cli->own[i].value;
    return value;
}

bool cli_count(Cli *cli, const char *name, double least, double most, double *value)
{
    const char *text = cli_value(cli, name);
    char *end = NULL;
    if (!text)
        return true;
    double x = strtod(text, &end);
    if (!*text || *end || !(x >= least && x <= most)) {
        cli_usage_error(cli, "option --%s: '%s' is not a number from %g to %g", name, text, least, most);
        return false;
    }
    *value = x;
    return true;
}

static void print_dump(void *user, const char *pass, const char *text)
{
    (void)user;
    fprintf(stderr, "---- after %s ----\n%s", pass, text);
}

/* The runner for artifacts of another machine lies beside this program. */
static igata_status set_runner_program(Cli *cli, igata_options *options)
{
    const char *target = NULL;
    char *path = cli_alloc(cli, 4200);
    for (size_t i = 0; i < cli->n_common; i++)
        if (strcmp(cli->common[i].key, "target") == 0)
            target = cli->common[i].value;
    ssize_t n = readlink("/proc/self/exe", path, 4096);
    if (n <= 0 || !target)
        return IGATA_OK;
    path[n] = 0;
    return igata_option_set(options, "runner-program",
                            cli_format(cli, "%s/igata-runner-%.*s", dirname(path), (int)strcspn(target, "-"), target));
}

igata_options *cli_options(Cli *cli, igata_context *ctx, igata_status *status)
{
    igata_options *options = igata_options_create(ctx);
    *status = options ? set_runner_program(cli, options) : IGATA_E_MEMORY;
    for (size_t i = 0; *status == IGATA_OK && i < cli->n_common; i++)
        *status = igata_option_set(options, cli->common[i].key, cli->common[i].value);
    if (*status != IGATA_OK)
        return NULL;
    igata_options_on_dump(options, print_dump, NULL);
    return options;
}
