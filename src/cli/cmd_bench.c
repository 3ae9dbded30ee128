/* SPDX-License-Identifier: Apache-2.0
 *
 * igata bench: latency. A step runs on bound inputs without a copy; its time is two clock readings around it (about 40 ns).
 * --compare runs eager and compiled in turns of some 10 ms, so that both see the same machine.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* getrusage, clock_gettime, ru_maxrss */
#endif
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { MAX_RUNS = 20000000, BAR = 28 };

static const CliOption options[] = {
    {"input", 'i', "NAME=VALUE", "@FILE.npy, @FILE.pb, zeros, ones or random:SEED (default random:0)"},
    {"runs", 0, "N", "measured runs"},
    {"seconds", 0, "S", "measured time (default 2)"},
    {"warmup", 0, "N", "runs before (default 10)"},
    {"json", 0, NULL, "print one JSON object"},
    {"raw", 0, "FILE", "write every latency in microseconds, one a line"},
    {"per-kernel", 0, NULL, "where the time goes: kernels on one thread, with FLOP/s and bytes/s; at most 2000 runs"},
    {"compare", 0, NULL, "eager and compiled in turns, side by side, with a histogram"},
    {0},
};

typedef struct Bench {
    Cli *cli;
    const char *engine;
    igata_session *session;
    double *us; /* latencies */
    size_t n, room;
    igata_session_stats stats;
    long page_faults, switches;
    double total;
} Bench;

double cli_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* ---- measuring ----------------------------------------------------------------------------------------------------------- */

static igata_status prepare(Bench *b, unsigned warmup)
{
    igata_status status;
    CliInputs inputs;
    igata_options *o = cli_options(b->cli, b->cli->ctx, &status);
    if (status == IGATA_OK)
        status = igata_option_set(o, "engine", b->engine);
    if (status == IGATA_OK)
        status = cli_name_inputs(b->cli, o);
    if (status == IGATA_OK)
        status = igata_session_open(b->cli->ctx, b->cli->args[0], o, &b->session);
    if (status == IGATA_OK)
        status = cli_read_inputs(b->cli, b->session, true, &inputs);
    if (status == IGATA_OK)
        status = igata_session_bind(b->session, inputs.tensor, inputs.n);
    for (unsigned i = 0; status == IGATA_OK && i <= warmup; i++)
        status = igata_session_step(b->session);
    b->stats.size = sizeof b->stats;
    if (status == IGATA_OK)
        status = igata_session_statistics(b->session, &b->stats);
    b->room = 1 << 16;
    b->us = cli_alloc(b->cli, b->room * sizeof *b->us);
    return status;
}

static void make_room(Bench *b)
{
    double *larger = cli_alloc(b->cli, 2 * b->room * sizeof *larger); /* touched here, so that no page fault is measured */
    memcpy(larger, b->us, b->n * sizeof *larger);
    b->us = larger;
    b->room *= 2;
}

/* Runs until `runs` are done or `us` microseconds passed. */
static igata_status measure(Bench *b, size_t runs, double us)
{
    struct rusage before, after;
    igata_status status = IGATA_OK;
    while (b->n + runs > b->room && b->n + runs < MAX_RUNS)
        make_room(b);
    getrusage(RUSAGE_SELF, &before);
    double start = cli_now_us(), end = start;
    for (size_t i = 0; status == IGATA_OK && i < runs && end - start < us; i++) {
        double t = cli_now_us();
        status = igata_session_step(b->session);
        end = cli_now_us();
        if (b->n == b->room)
            make_room(b);
        b->us[b->n++] = end - t;
    }
    getrusage(RUSAGE_SELF, &after);
    b->page_faults += after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt;
    b->switches += after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw;
    b->total += end - start;
    return status;
}

/* In turns: each gets its share of a round of about 10 ms. */
static igata_status measure_all(Bench *b, size_t count, double runs, double seconds)
{
    igata_status status = IGATA_OK;
    bool more = true;
    while (status == IGATA_OK && more) {
        more = false;
        for (size_t i = 0; status == IGATA_OK && i < count; i++) {
            double left_us = seconds > 0 ? seconds * 1e6 - b[i].total : 1e18, left = runs > 0 ? runs - (double)b[i].n : MAX_RUNS;
            double turn = count > 1 ? 10e3 : left_us;
            if (left_us <= 0 || left <= 0 || b[i].n >= MAX_RUNS)
                continue;
            more = true;
            status = measure(&b[i], left < 4096 ? (size_t)left : 4096, turn < left_us ? turn : left_us);
        }
    }
    return status;
}

/* ---- numbers -------------------------------------------------------------------------------------------------------------- */

typedef struct Summary {
    double min, mean, p50, p90, p99, p99_9, max, stddev;
} Summary;

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, size_t n, double q)
{
    size_t i = (size_t)ceil(q * (double)n);
    return sorted[i ? i - 1 : 0];
}

double cli_median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_size);
    return quantile(values, n, 0.5);
}

static Summary summarize(Cli *cli, const Bench *b, double **sorted_out)
{
    double *sorted = cli_alloc(cli, b->n * sizeof *sorted), sum = 0, squares = 0;
    memcpy(sorted, b->us, b->n * sizeof *sorted);
    qsort(sorted, b->n, sizeof *sorted, by_size);
    for (size_t i = 0; i < b->n; i++)
        sum += sorted[i];
    double mean = sum / (double)b->n;
    for (size_t i = 0; i < b->n; i++)
        squares += (sorted[i] - mean) * (sorted[i] - mean);
    *sorted_out = sorted;
    return (Summary){sorted[0], mean, quantile(sorted, b->n, 0.5), quantile(sorted, b->n, 0.9), quantile(sorted, b->n, 0.99),
                     quantile(sorted, b->n, 0.999), sorted[b->n - 1], sqrt(squares / (double)b->n)};
}

void cli_print_json_string(const char *text)
{
    putchar('"');
    for (; text && *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        if ((unsigned char)*text >= 0x20)
            putchar(*text);
    }
    putchar('"');
}

static unsigned thread_count(const Cli *cli)
{
    unsigned threads = 1;
    for (size_t i = 0; i < cli->n_common; i++)
        if (strcmp(cli->common[i].key, "threads") == 0)
            threads = (unsigned)strtoul(cli->common[i].value, NULL, 10);
    return threads;
}

static void print_json(const Bench *b, const Summary *s)
{
    const igata_session_stats *st = &b->stats;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"model\": ");
    cli_print_json_string(b->cli->args[0]);
    printf(", \"engine\": \"%s\", \"threads\": %u, \"target\": ", b->engine, thread_count(b->cli));
    cli_print_json_string(st->target);
    printf(", \"cpu\": ");
    cli_print_json_string(st->cpu);
    printf(", \"runs\": %zu, \"min_us\": %.3f, \"mean_us\": %.3f, \"p50_us\": %.3f, \"p90_us\": %.3f, \"p99_us\": %.3f, "
           "\"p99_9_us\": %.3f, \"max_us\": %.3f, \"stddev_us\": %.3f",
           b->n, s->min, s->mean, s->p50, s->p90, s->p99, s->p99_9, s->max, s->stddev);
    printf(", \"compile_s\": %.6f, \"open_us\": %.1f, \"first_run_us\": %.1f, \"workspace_bytes\": %zu, \"weights_bytes\": %zu, "
           "\"code_bytes\": %zu, \"artifact_bytes\": %zu",
           st->compile_s, st->open_us, st->first_run_us, st->workspace_bytes, st->weights_bytes, st->code_bytes,
           st->artifact_bytes);
    printf(", \"peak_rss_bytes\": %lld, \"flops\": %" PRIu64 ", \"page_faults\": %ld, \"ctx_switches\": %ld}",
           (long long)usage.ru_maxrss * 1024, st->flops, b->page_faults, b->switches);
}

static void print_table(const Bench *b, const Summary *s, size_t count)
{
    const struct {
        const char *name;
        size_t at;
    } rows[] = {{"min", offsetof(Summary, min)}, {"mean", offsetof(Summary, mean)}, {"p50", offsetof(Summary, p50)},
                {"p90", offsetof(Summary, p90)}, {"p99", offsetof(Summary, p99)}, {"p99.9", offsetof(Summary, p99_9)},
                {"max", offsetof(Summary, max)}, {"stddev", offsetof(Summary, stddev)}};
    printf("%-10s", "us");
    for (size_t i = 0; i < count; i++)
        printf(" %12s", b[i].engine);
    printf(count == 2 ? " %12s\n" : "\n", "ratio");
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        double value[2] = {0, 0};
        printf("%-10s", rows[r].name);
        for (size_t i = 0; i < count; i++) {
            memcpy(&value[i], (const char *)&s[i] + rows[r].at, sizeof value[i]);
            printf(" %12.3f", value[i]);
        }
        if (count == 2 && value[1] > 0)
            printf(" %11.2fx", value[0] / value[1]);
        printf("\n");
    }
    printf("%-10s", "runs");
    for (size_t i = 0; i < count; i++)
        printf(" %12zu", b[i].n);
    printf("\n");
    if (count == 2)
        printf("eager: a kernel for each operator of the model from the same code generator, called one by one; no operators are "
               "fused, no\nlayouts changed, no results written in place; they live in a cache of blocks. What a framework adds to "
               "that is not in it.\n");
    for (size_t i = 0; i < count; i++) {
        const igata_session_stats *st = &b[i].stats;
        if (st->target)
            printf("%s: %s %s, %zu kernels, workspace %zu, weights %zu, code %zu bytes; compiled in %.3f s, opened in %.0f us, "
                   "first run %.1f us\n",
                   b[i].engine, st->target, st->cpu, st->kernels, st->workspace_bytes, st->weights_bytes, st->code_bytes,
                   st->compile_s, st->open_us, st->first_run_us);
        if (st->flops && s[i].p50 > 0)
            printf("%s: %.2f GFLOP/s at p50\n", b[i].engine, (double)st->flops / s[i].p50 * 1e-3);
    }
}

/* ---- histogram: up to 14 fine rows up to the slower p99, then a row per doubling ---------------------------------------------- */

/* A share too small for a '#' shows as a '.', so that tails are seen and not mistaken for more. */
static void print_bar(size_t hits, size_t most, size_t n, bool last)
{
    size_t length = most ? (hits * BAR + most / 2) / most : 0;
    printf(" |");
    for (size_t i = 0; i < BAR && (hits || !last); i++)
        putchar(i < length ? '#' : i == 0 && hits ? '.' : ' ');
    if (hits)
        printf(" %6.2f%%", 100.0 * (double)hits / (double)n);
    else if (!last)
        printf("        ");
}

enum { BODY_ROWS = 14, MAX_ROWS = 64 };

/* Lower edges of the rows in microseconds; their number. */
static size_t make_edges(const Bench *b, double *const sorted[], size_t count, double *edge)
{
    double lo = sorted[0][0], body = 0, hi = 0;
    for (size_t i = 0; i < count; i++) {
        lo = fmin(lo, sorted[i][0]);
        body = fmax(body, quantile(sorted[i], b[i].n, 0.99));
        hi = fmax(hi, sorted[i][b[i].n - 1]);
    }
    lo = fmax(lo, 1e-3);
    double step = fmax(log2(body / lo) / BODY_ROWS, 1.0 / 32);
    size_t n = 0;
    for (; n < BODY_ROWS && (n == 0 || lo * exp2(step * (double)n) <= body); n++)
        edge[n] = lo * exp2(step * (double)n);
    for (double at = lo * exp2(step * (double)n); at <= hi && n < MAX_ROWS; at *= 2)
        edge[n++] = at;
    return n;
}

static void print_histogram(const Bench *b, double *const sorted[], size_t count)
{
    double edge[MAX_ROWS];
    size_t rows = make_edges(b, sorted, count, edge), hits[2][MAX_ROWS] = {{0}}, most[2] = {0, 0};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0, row = 0; k < b[i].n; k++) {
            while (row + 1 < rows && sorted[i][k] >= edge[row + 1])
                row++;
            if (++hits[i][row] > most[i])
                most[i] = hits[i][row];
        }
    printf("\n%21s", "us, from .. below");
    for (size_t i = 0; i < count; i++)
        printf("  %-*s", i + 1 < count ? BAR + 8 : 1, b[i].engine);
    printf("\n");
    for (size_t r = 0; r < rows; r++) {
        if (hits[0][r] + hits[1][r] == 0 && r >= BODY_ROWS)
            continue;
        printf("%10.3f ", edge[r]);
        if (r + 1 < rows)
            printf("%10.3f", edge[r + 1]);
        else
            printf("%10s", "");
        for (size_t i = 0; i < count; i++)
            print_bar(hits[i][r], most[i], b[i].n, i + 1 == count);
        printf("\n");
    }
}

/* ---- command ------------------------------------------------------------------------------------------------------------------------ */

static int write_raw(Cli *cli, const Bench *b, size_t count)
{
    const char *path = cli_value(cli, "raw");
    FILE *file = !path ? NULL : strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!path)
        return EXIT_GOOD;
    bool good = file != NULL;
    for (size_t i = 0; good && i < count; i++)
        for (size_t k = 0; k < b[i].n; k++)
            fprintf(file, count > 1 ? "%.3f %s\n" : "%.3f\n", b[i].us[k], b[i].engine);
    if (file)
        good = !ferror(file) && (file == stdout || fclose(file) == 0);
    if (!good)
        cli_error(cli, "cannot write '%s'", path);
    return good ? EXIT_GOOD : EXIT_INPUT;
}

static const char *engine_of(const Cli *cli)
{
    const char *engine = "compiled";
    for (size_t i = 0; i < cli->n_common; i++)
        if (strcmp(cli->common[i].key, "engine") == 0)
            engine = cli->common[i].value;
    return engine;
}

static int run(Cli *cli)
{
    double runs = 0, seconds = 0, warmup = 10;
    size_t count = cli_value(cli, "compare") ? 2 : 1;
    Bench b[2] = {{.cli = cli, .engine = count == 2 ? "eager" : engine_of(cli)}, {.cli = cli, .engine = "compiled"}};
    Summary summary[2];
    double *sorted[2];
    igata_status status = IGATA_OK;
    if (!cli_count(cli, "runs", 1, MAX_RUNS, &runs) || !cli_count(cli, "seconds", 1e-3, 1e6, &seconds) ||
        !cli_count(cli, "warmup", 0, 1e9, &warmup))
        return EXIT_USAGE;
    if (runs == 0 && seconds == 0)
        seconds = 2;
    bool profile = cli_value(cli, "per-kernel") != NULL;
    if (profile && (count == 2 || cli_value(cli, "raw") || strcmp(b->engine, "compiled") != 0))
        return cli_usage_error(cli, "--per-kernel is for --engine compiled, without --compare and --raw");
    bool quiet = cli->quiet;
    for (size_t i = 0; status == IGATA_OK && i < count; i++) {
        cli->quiet |= i > 0; /* the notes are the same */
        status = prepare(&b[i], (unsigned)warmup);
    }
    cli->quiet = quiet;
    if (status == IGATA_OK && profile)
        return cli_finish(cli, cli->ctx, bench_profile(cli, b->session, runs, seconds));
    if (status == IGATA_OK)
        status = measure_all(b, count, runs, seconds);
    if (status != IGATA_OK)
        return cli_finish(cli, cli->ctx, status);
    for (size_t i = 0; i < count; i++)
        summary[i] = summarize(cli, &b[i], &sorted[i]);
    bool json = cli_value(cli, "json") != NULL;
    for (size_t i = 0; json && i < count; i++) {
        printf("%s", count == 1 ? "" : i ? ",\n \"compiled\": " : "{\"eager\": ");
        print_json(&b[i], &summary[i]);
    }
    if (json)
        printf(count == 2 ? "}\n" : "\n");
    if (!json) {
        print_table(b, summary, count);
        print_histogram(b, sorted, count);
    }
    int raw = write_raw(cli, b, count);
    int finished = cli_finish(cli, cli->ctx, IGATA_OK);
    return raw ? raw : finished;
}

const Command cmd_bench = {"bench", "MODEL|ARTIFACT [--runs N | --seconds S] [--compare | --per-kernel] [--json]",
                           "Measure latency", options, 1, 1, run};
