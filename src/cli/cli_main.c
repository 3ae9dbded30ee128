/* SPDX-License-Identifier: Apache-2.0
 * Entry point: which command, messages, exit status. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const Command *const commands[] = {&cmd_compile, &cmd_run, &cmd_test, &cmd_bench, &cmd_verify,
                                          &cmd_inspect, &cmd_opt, &cmd_grad, &cmd_ops};
#define N_COMMANDS (sizeof commands / sizeof *commands)

void *cli_alloc(Cli *cli, size_t bytes)
{
    void *memory = igata_alloc(cli->ctx, bytes);
    if (!memory) {
        fprintf(stderr, "igata: out of memory\n");
        exit(EXIT_INPUT);
    }
    return memory;
}

char *cli_format(Cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = cli_alloc(cli, (size_t)n + 1);
    va_start(args, format);
    vsnprintf(text, (size_t)n + 1, format, args);
    va_end(args);
    return text;
}

static void say(Cli *cli, const char *format, va_list args)
{
    fprintf(stderr, "igata%s%s: ", cli->command ? " " : "", cli->command ? cli->command->name : "");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    cli->said = true;
}

void cli_error(Cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(cli, format, args);
    va_end(args);
}

int cli_usage_error(Cli *cli, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(cli, format, args);
    va_end(args);
    fprintf(stderr, "Try 'igata %s--help'.\n", cli->command ? cli_format(cli, "%s ", cli->command->name) : "");
    return EXIT_USAGE;
}

/* "LOC: error[id]: text": the severity is coloured on a terminal. */
static void print_message(const Cli *cli, const char *text, bool error)
{
    const char *word = strstr(text, error ? "error[" : "["), *end = error && word ? strchr(word, ']') : NULL;
    if (cli->color && end)
        fprintf(stderr, "%.*s\033[1;31m%.*s\033[0m%s\n", (int)(word - text), text, (int)(end + 1 - word), word, end + 1);
    else
        fprintf(stderr, "%s\n", text);
}

int cli_finish(Cli *cli, igata_context *ctx, igata_status status)
{
    bool said = cli->said;
    for (size_t i = 0; i < igata_message_count(ctx); i++) {
        bool error = igata_message_is_error(ctx, i);
        if (error || !cli->quiet)
            print_message(cli, igata_message_text(ctx, i), error);
        said |= error;
    }
    igata_messages_clear(ctx);
    if (status == IGATA_E_BUG) {
        fprintf(stderr, "igata: internal error: this is a bug in igata, not in the model\n");
        fflush(NULL);
        abort();
    }
    if (status != IGATA_OK && status != IGATA_E_MISMATCH && !said) /* a mismatch is a result, and printed as one */
        fprintf(stderr, "igata: %s\n", status < IGATA_STATUS_COUNT ? igata_status_text(status) : "failed");
    switch (status) {
    case IGATA_OK:
        return EXIT_GOOD;
    case IGATA_E_MISMATCH:
        return EXIT_MISMATCH;
    case IGATA_E_OPTION:
        return EXIT_USAGE;
    default:
        return EXIT_INPUT;
    }
}

void cli_print_times(const igata_context *ctx)
{
    const char *pass;
    double seconds, total = 0;
    for (size_t i = 0; igata_pass_time(ctx, i, &pass, &seconds); i++) {
        if (i == 0)
            fprintf(stderr, "%-12s %10s\n", "pass", "ms");
        fprintf(stderr, "%-12s %10.3f\n", pass, seconds * 1e3);
        total += seconds;
    }
    if (total > 0)
        fprintf(stderr, "%-12s %10.3f\n", "total", total * 1e3);
}

bool cli_has_ending(const char *path, const char *ending)
{
    size_t n = path ? strlen(path) : 0, m = strlen(ending);
    return !path || strcmp(path, "-") == 0 || (n >= m && strcmp(path + n - m, ending) == 0);
}

int cli_flush(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "igata: cannot write standard output: %s\n", strerror(errno));
    return status == EXIT_GOOD ? EXIT_INPUT : status;
}

static void print_help(void)
{
    printf("usage: igata COMMAND [OPTION]... [ARGUMENT]...\n\nCompiles neural networks to dependency-free binaries.\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-8s %s\n", commands[i]->name, commands[i]->summary);
    printf("\n'igata COMMAND --help' lists its options. Exit status: 0 good, 1 mismatch or failed check, 2 malformed command\n"
           "line, 3 bad or unsupported model or data.\n");
}

int main(int argc, char **argv)
{
    Cli cli = {.program = argv[0], .ctx = igata_context_create()};
    if (!cli.ctx) {
        fprintf(stderr, "igata: out of memory\n");
        return EXIT_INPUT;
    }
    const char *no_color = getenv("NO_COLOR");
    cli.color = isatty(STDERR_FILENO) && !(no_color && *no_color);
    const char *word = argc > 1 ? argv[1] : "";
    int status = -1;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help();
        status = EXIT_GOOD;
    } else if (strcmp(word, "--version") == 0) {
        printf("%s\n", igata_version());
        status = EXIT_GOOD;
    }
    for (size_t i = 0; status < 0 && i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, word) != 0)
            continue;
        cli.command = commands[i];
        status = cli_parse(&cli, argc - 2, argv + 2);
        if (status < 0)
            status = commands[i]->run(&cli);
    }
    if (status < 0)
        status = *word ? cli_usage_error(&cli, "unknown command '%s'", word) : cli_usage_error(&cli, "a command is missing");
    status = cli_flush(status);
    igata_context_destroy(cli.ctx);
    return status;
}
