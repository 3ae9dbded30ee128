/* SPDX-License-Identifier: Apache-2.0
 *
 * igata bench --per-kernel: where the time of a run goes, on the calling thread. The clock is read between phases, by an entry of
 * the runtime of its own. FLOPs and bytes are the compiler's counts (as `inspect` prints them): bytes are those of the
 * operands, each once, wherever they lie, so a kernel with operands in a cache can exceed the limit of memory, and a convolution of
 * class wino2, counted as a direct one, that of FMAs. Where a kernel reads sizes that the run decides, the counts are those at the
 * largest ones: they are marked, and give no rates.
 */
#include "cli/cli.h"
#include "cli/peak.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 2000, PIECES = 64, PIECE = 1 << 22 }; /* pieces, in bytes: together far more than caches hold */

typedef struct KernelTime {
    const char *name, *nodes;
    size_t calls; /* phases */
    double us;    /* median over runs of the sum of its phases */
    double flops, bytes; /* of a run */
    int bounded;         /* those at the largest sizes */
} KernelTime;

typedef struct Profile {
    Cli *cli;
    igata_session *session;
    size_t n_phases, n_kernels, runs;
    size_t *kernel_of;       /* by phase */
    igata_timing *times;     /* by phase, of one run */
    double *us;              /* [kernel][MOST_RUNS]; the last row: the whole run */
    KernelTime *kernel;
    int bounded; /* some kernel is */
    double total_us, flops, bytes, peak_flops, peak_bytes; /* flops and bytes: of a run; peaks: a microsecond, 0: unknown */
} Profile;

/* ---- measuring ----------------------------------------------------------------------------------------------------------- */

static void find_kernels(Profile *p)
{
    p->n_phases = igata_session_phases(p->session);
    p->kernel_of = cli_alloc(p->cli, (p->n_phases + 1) * sizeof *p->kernel_of);
    p->times = cli_alloc(p->cli, (p->n_phases + 1) * sizeof *p->times);
    p->kernel = cli_alloc(p->cli, (p->n_phases + 1) * sizeof *p->kernel);
    for (size_t i = 0; i < p->n_phases; i++) {
        igata_phase phase = {.size = sizeof phase};
        size_t k = 0;
        igata_session_phase(p->session, i, &phase);
        while (k < p->n_kernels && strcmp(p->kernel[k].name, phase.kernel) != 0)
            k++;
        p->n_kernels += k == p->n_kernels;
        p->kernel[k].name = phase.kernel;
        p->kernel[k].nodes = phase.nodes;
        p->kernel[k].calls++;
        p->kernel_of[i] = k;
    }
    p->us = cli_alloc(p->cli, (p->n_kernels + 1) * MOST_RUNS * sizeof *p->us);
}

static igata_status run_once(Profile *p)
{
    memset(p->times, 0, p->n_phases * sizeof *p->times);
    igata_status status = igata_session_step_timed(p->session, p->times);
    for (size_t i = 0; i < p->n_phases; i++) {
        double us = (double)p->times[i].ns * 1e-3;
        p->us[p->kernel_of[i] * MOST_RUNS + p->runs] += us;
        p->us[p->n_kernels * MOST_RUNS + p->runs] += us;
    }
    p->runs++;
    return status;
}

static int by_time(const void *a, const void *b)
{
    double x = ((const KernelTime *)a)->us, y = ((const KernelTime *)b)->us;
    return (x < y) - (x > y);
}

static void summarize(Profile *p)
{
    for (size_t k = 0; k < p->n_kernels; k++)
        p->kernel[k].us = cli_median(p->us + k * MOST_RUNS, p->runs);
    p->total_us = cli_median(p->us + p->n_kernels * MOST_RUNS, p->runs);
    for (size_t i = 0; i < p->n_phases; i++) { /* loops of the last run count as often as they went round */
        igata_phase phase = {.size = sizeof phase};
        KernelTime *k = &p->kernel[p->kernel_of[i]];
        igata_session_phase(p->session, i, &phase);
        k->flops += (double)phase.flops * (double)p->times[i].executions;
        k->bytes += (double)phase.bytes * (double)p->times[i].executions;
        k->bounded |= phase.bounded;
        p->bounded |= phase.bounded;
    }
    for (size_t k = 0; k < p->n_kernels; k++) {
        p->flops += p->kernel[k].flops;
        p->bytes += p->kernel[k].bytes;
    }
    qsort(p->kernel, p->n_kernels, sizeof *p->kernel, by_time);
}

/* The best of short tries: others who use the machine only make them slower. */
static void measure_limits(Profile *p)
{
    size_t words = PIECE / sizeof(PeakWord);
    PeakWord *word = cli_alloc(p->cli, (size_t)PIECES * PIECE);
    memset(word, 1, (size_t)PIECES * PIECE);
    for (size_t i = 0; i < PIECES; i++) {
        double start = cli_now_us();
        double flops = i % 4 ? 0 : peak_run(peak_lanes());
        double middle = cli_now_us();
        peak_read(word + i * words, words);
        p->peak_flops = fmax(p->peak_flops, flops / fmax(middle - start, 1));
        p->peak_bytes = fmax(p->peak_bytes, PIECE / (cli_now_us() - middle));
    }
}

/* ---- output ----------------------------------------------------------------------------------------------------------------- */

static double share(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/* An amount a microsecond; 0 for a kernel that did not run (the branch not taken). */
static double rate(double amount, double us) { return us > 0 ? amount / us : 0; }

static void print_row(const Profile *p, const KernelTime *k)
{
    double us = k->bounded ? 0 : k->us; /* no rate */
    const char *most = k->bounded ? "<=" : "";
    printf("%-24.24s %5zu %11.2f %6.1f %2s%10.3f %8.2f %6.1f %2s%10.3f %7.2f %6.1f  %s\n", k->name, k->calls, k->us,
           share(k->us, p->total_us), most, k->flops * 1e-6, rate(k->flops, us) * 1e-3, share(rate(k->flops, us), p->peak_flops), most,
           k->bytes * 1e-6, rate(k->bytes, us) * 1e-3, share(rate(k->bytes, us), p->peak_bytes), k->nodes);
}

static void print_table(const Profile *p)
{
    const KernelTime all = {"all", "", p->n_phases, p->total_us, p->flops, p->bytes, p->bounded};
    printf("%-24s %5s %11s %6s %12s %8s %6s %12s %7s %6s  %s\n", "kernel", "calls", "us", "%time", "MFLOP", "GFLOP/s", "%FMA", "MB", "GB/s",
           "%read", "nodes");
    for (size_t i = 0; i < p->n_kernels; i++)
        print_row(p, &p->kernel[i]);
    print_row(p, &all);
    printf("medians over %zu runs on one thread; limits measured here: %.1f GFLOP/s of FMAs, %.1f GB/s read from memory\n", p->runs,
           p->peak_flops * 1e-3, p->peak_bytes * 1e-3);
    if (p->bounded)
        printf("<=: counted at the largest sizes, where this run may have had others; no rates\n");
}

static void print_json(const Profile *p)
{
    printf("{\"model\": ");
    cli_print_json_string(p->cli->args[0]);
    printf(", \"runs\": %zu, \"us\": %.3f, \"flops\": %.0f, \"bytes\": %.0f, \"limit_gflops\": %.3f, \"limit_gbs\": %.3f,\n \"kernels\": [",
           p->runs, p->total_us, p->flops, p->bytes, p->peak_flops * 1e-3, p->peak_bytes * 1e-3);
    for (size_t i = 0; i < p->n_kernels; i++) {
        const KernelTime *k = &p->kernel[i];
        printf("%s\n  {\"name\": ", i ? "," : "");
        cli_print_json_string(k->name);
        printf(", \"nodes\": ");
        cli_print_json_string(k->nodes);
        double us = k->bounded ? 0 : k->us;
        printf(", \"calls\": %zu, \"us\": %.3f, \"share\": %.5f, \"bounded\": %s, \"flops\": %.0f, \"gflops\": %.3f, \"bytes\": %.0f, "
               "\"gbs\": %.3f}", k->calls, k->us, share(k->us, p->total_us) / 100, k->bounded ? "true" : "false", k->flops,
               rate(k->flops, us) * 1e-3, k->bytes, rate(k->bytes, us) * 1e-3);
    }
    printf("]}\n");
}

igata_status bench_profile(Cli *cli, igata_session *session, double runs, double seconds)
{
    Profile p = {.cli = cli, .session = session};
    double end = cli_now_us() + (seconds > 0 ? seconds : 1e6) * 1e6;
    size_t most = runs > 0 && runs < MOST_RUNS ? (size_t)runs : MOST_RUNS;
    igata_status status = IGATA_OK;
    find_kernels(&p);
    do
        status = run_once(&p);
    while (status == IGATA_OK && p.runs < most && cli_now_us() < end);
    if (status != IGATA_OK)
        return status;
    summarize(&p);
    measure_limits(&p);
    if (cli_value(cli, "json"))
        print_json(&p);
    else
        print_table(&p);
    return status;
}
