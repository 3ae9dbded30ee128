/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line: one file per command above igata.h and igata_rt.h. Results go to standard output, messages to standard
 * error. Exit status: 0 good, 1 mismatch or failed check, 2 malformed command line, 3 bad model or data.
 */
#ifndef IGATA_CLI_H
#define IGATA_CLI_H

#include "igata.h"

#include <stdbool.h>

enum { EXIT_GOOD = 0, EXIT_MISMATCH = 1, EXIT_USAGE = 2, EXIT_INPUT = 3 };
enum { CLI_MAX = 4096 }; /* words of a command line, results of a model */

typedef struct CliOption {
    const char *name;     /* without dashes */
    char letter;          /* 0: none */
    const char *argument; /* NULL: a flag */
    const char *help;
} CliOption;

typedef struct CliSetting {
    const char *key, *value;
} CliSetting;

typedef struct Cli {
    const struct Command *command;
    const char *program;
    igata_context *ctx; /* lives as long as the process */
    CliSetting *own;    /* the command's options, in order */
    CliSetting *common; /* igata_option_rows */
    const char **args;
    size_t n_own, n_common, n_args;
    bool verbose, quiet, color, said; /* said: why it failed is printed */
} Cli;

typedef struct Command {
    const char *name, *usage, *summary;
    const CliOption *options; /* ends with name NULL */
    size_t min_args, max_args;
    int (*run)(Cli *cli);
} Command;

extern const Command cmd_compile, cmd_run, cmd_test, cmd_bench, cmd_verify, cmd_inspect, cmd_opt, cmd_grad, cmd_ops;

/* ---- cli_args.c ---- */
int cli_parse(Cli *cli, int argc, char **argv); /* -1: go on; else the exit status */
const char *cli_value(const Cli *cli, const char *name); /* the last one given; NULL */
bool cli_count(Cli *cli, const char *name, double least, double most, double *value); /* keeps *value if absent; false: said so */
void cli_help(const Command *command);
/* Options of ctx with all common settings; NULL after printing. */
igata_options *cli_options(Cli *cli, igata_context *ctx, igata_status *status);

/* ---- cli_main.c ---- */
void *cli_alloc(Cli *cli, size_t bytes); /* zeroed; ends the process when there is none */
char *cli_format(Cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the messages of ctx so far and forgets them; the exit status for `status`. A bug in the compiler aborts. */
int cli_finish(Cli *cli, igata_context *ctx, igata_status status);
void cli_error(Cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_usage_error(Cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_print_times(const igata_context *ctx);
bool cli_has_ending(const char *path, const char *ending); /* true for NULL and "-", too */
/* Whether whole standard output was written; else the exit status for that. */
int cli_flush(int status);

/* ---- cmd_bench.c, bench_profile.c ---- */
double cli_now_us(void);
void cli_print_json_string(const char *text); /* NULL is "" */
double cli_median(double *values, size_t n); /* sorts them */
/* Prints what each kernel of the bound program costs; runs, seconds: 0 for no limit. */
igata_status bench_profile(Cli *cli, igata_session *session, double runs, double seconds);

/* ---- cli_data.c ---- */
typedef struct CliInputs {
    igata_tensor *tensor;
    size_t n;
} CliInputs;
/* Names of -i, as initializers that stay inputs. */
igata_status cli_name_inputs(Cli *cli, igata_options *options);
/* The -i tensors. invent: inputs not given are random:0, and unknown sizes 1, both with a note. */
igata_status cli_read_inputs(Cli *cli, igata_session *session, bool invent, CliInputs *inputs);
/* NAME=REST; false after printing. */
bool cli_split(Cli *cli, const char *option, const char *text, const char **name, const char **rest);
/* The set'th test_data_set of folder: false if there is none, *status not IGATA_OK after a message. */
bool cli_read_set(Cli *cli, igata_context *ctx, const char *folder, unsigned set, CliInputs *inputs, CliInputs *outputs,
                  igata_status *status);
bool cli_read_tolerance(Cli *cli, const char *folder, igata_tolerance *tolerance); /* false: malformed */

#endif
