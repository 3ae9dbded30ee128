/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the error of the f32 elementary functions (base/scalar.h) against the C library's double functions.
 *
 *     scalar_exhaustive [--fn NAME]... [--step K] [--threads N] [--scalar]
 *
 * Unary functions: every K-th of all 2^32 inputs (K = 1 unless given). Binary ones: 2^30 / K pairs drawn from a counter
 * by an integer hash, a third each of any bits, of moderate size, and of results near the ends of the range.
 * --scalar measures the single-value entries instead of the array ones. Prints the largest error in ULP with its
 * argument; status 1 if one is above the bound of scalar.def.
 *
 * The error is |y - ref| / ulp, ulp the spacing of f32 numbers at ref (2^-149 below 2^-126). ref is off by about
 * 2^-29 of that, so the figure is good to the digits shown and ties need no better reference. A NaN or infinity in the
 * wrong place, a finite number instead of one, and a zero of the wrong sign count as an infinite error.
 */
#include "base/scalar.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double ref_sigmoid(double x)
{
    double e = exp(-fabs(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

static double ref_mod(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

#define ref_exp exp
#define ref_log log
#define ref_tanh tanh
#define ref_erf erf
#define ref_sin sin
#define ref_cos cos
#define ref_pow pow
#define ref_expm1 expm1
#define ref_log1p log1p
#define ref_tan tan
#define ref_asin asin
#define ref_acos acos
#define ref_atan atan
#define ref_sinh sinh
#define ref_cosh cosh
#define ref_asinh asinh
#define ref_acosh acosh
#define ref_atanh atanh
#define ref_atan2 atan2
#define ref_rem fmod

typedef struct Entry {
    double (*ref1)(double);
    double (*ref2)(double, double);
    float (*one1)(float);
    float (*one2)(float, float);
} Entry;

#define ENTRY_1(id) {.ref1 = ref_##id, .one1 = scalar_##id},
#define ENTRY_2(id) {.ref2 = ref_##id, .one2 = scalar_##id},
static const Entry entries[SCALAR_COUNT] = {
#define SCALAR_FN(id, arity, bound) ENTRY_##arity(id)
#include "base/scalar.def"
#undef SCALAR_FN
};

enum { CHUNK = 4096 };

typedef struct Job {
    ScalarFn fn;
    uint64_t first, last, step; /* indices first, first + step, .. < last */
    bool scalar;
    double worst;
    float worst_x, worst_y, worst_got;
    uint64_t tested, failures;
} Job;

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t hash(uint64_t v) /* splitmix64, S. Vigna (public domain) */
{
    v += 0x9e3779b97f4a7c15u;
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
    return v ^ (v >> 31);
}

static void draw_pair(uint64_t index, float *x, float *y)
{
    uint64_t h = hash(index);
    uint32_t a = (uint32_t)h, b = (uint32_t)(h >> 32);
    if (index % 3 == 1) { /* exponents around 0 */
        a = (a & 0x81ffffffu) + 0x3e800000u;
        b = (b & 0x87ffffffu) + 0x3c000000u;
    } else if (index % 3 == 2) { /* x near 1, y large: the hard case of pow */
        a = (a & 0x001fffffu) + 0x3f700000u;
        b = (b & 0x8fffffffu) + 0x3c000000u;
    }
    *x = from_bits(a);
    *y = from_bits(b);
}

static double ulp_error(float got, double ref)
{
    if (isnan(ref) || isnan(got))
        return isnan(ref) && isnan(got) ? 0 : INFINITY;
    if (isinf(ref))
        return (double)got == ref ? 0 : INFINITY;
    if (got == 0 && !signbit(got) != !signbit(ref))
        return INFINITY;
    if (ref == 0)
        return got == 0 ? 0 : fabs((double)got) * 0x1p149;
    uint64_t bits;
    memcpy(&bits, &ref, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent < -126)
        exponent = -126;
    if (exponent > 127) /* rounds to infinity, whatever it is */
        exponent = 127;
    double value = isinf(got) ? copysign(0x1p128, got) : got;
    if (isinf(got) && fabs(ref) > 0x1p128)
        value = ref;
    else if (fabs(ref) > 0x1p128)
        ref = copysign(0x1p128, ref);
    /* by exponent arithmetic: ldexp is slow */
    uint64_t scale_bits = (uint64_t)(1023 + 23 - exponent) << 52;
    double scale;
    memcpy(&scale, &scale_bits, sizeof scale);
    return fabs(value - ref) * scale;
}

static void run_chunk(Job *job, const float *x, const float *y, float *z, size_t n)
{
    Entry entry = entries[job->fn];
    bool two = entry.ref2 != NULL;
    if (job->scalar)
        for (size_t i = 0; i < n; i++)
            z[i] = two ? entry.one2(x[i], y[i]) : entry.one1(x[i]);
    else if (two)
        scalar_apply2(job->fn, x, y, z, n);
    else
        scalar_apply1(job->fn, x, z, n);
    for (size_t i = 0; i < n; i++) {
        double ref = two ? entry.ref2(x[i], y[i]) : entry.ref1(x[i]);
        double error = ulp_error(z[i], ref);
        job->failures += error > scalar_defs[job->fn].bound;
        if (error > job->worst) {
            job->worst = error;
            job->worst_x = x[i];
            job->worst_y = two ? y[i] : 0;
            job->worst_got = z[i];
        }
    }
    job->tested += n;
}

static void *run_job(void *arg)
{
    Job *job = arg;
    bool two = entries[job->fn].ref2 != NULL;
    float x[CHUNK], y[CHUNK], z[CHUNK];
    size_t n = 0;
    for (uint64_t i = job->first; i < job->last; i += job->step) {
        y[n] = 0;
        if (two)
            draw_pair(i, &x[n], &y[n]);
        else
            x[n] = from_bits((uint32_t)i);
        if (++n == CHUNK) {
            run_chunk(job, x, y, z, n);
            n = 0;
        }
    }
    run_chunk(job, x, y, z, n);
    return NULL;
}

static bool measure(ScalarFn fn, uint64_t step, unsigned threads, bool scalar)
{
    enum { MAX_THREADS = 64 };
    Job jobs[MAX_THREADS];
    pthread_t ids[MAX_THREADS];
    bool started[MAX_THREADS];
    if (threads > MAX_THREADS)
        threads = MAX_THREADS;
    uint64_t total = entries[fn].ref2 ? UINT64_C(1) << 30 : UINT64_C(1) << 32;
    uint64_t part = (total / threads + step) / step * step;
    for (unsigned t = 0; t < threads; t++) {
        uint64_t last = part * (t + 1) < total ? part * (t + 1) : total;
        jobs[t] = (Job){.fn = fn, .first = part * t, .last = last, .step = step, .scalar = scalar};
        started[t] = pthread_create(&ids[t], NULL, run_job, &jobs[t]) == 0;
        if (!started[t])
            run_job(&jobs[t]);
    }
    Job sum = {.worst = -1};
    for (unsigned t = 0; t < threads; t++) {
        if (started[t])
            pthread_join(ids[t], NULL);
        uint64_t tested = sum.tested + jobs[t].tested, failures = sum.failures + jobs[t].failures;
        if (jobs[t].worst > sum.worst)
            sum = jobs[t];
        sum.tested = tested;
        sum.failures = failures;
    }
    double bound = scalar_defs[fn].bound;
    bool good = sum.worst <= bound;
    printf("%-8s max %.4f ulp  bound %.2f  at %a", scalar_defs[fn].name, sum.worst, bound, (double)sum.worst_x);
    if (entries[fn].ref2)
        printf(", %a", (double)sum.worst_y);
    printf(" -> %a  tested %" PRIu64 "%s", (double)sum.worst_got, sum.tested, good ? "\n" : "");
    if (!good)
        printf("  ABOVE %" PRIu64 " times\n", sum.failures);
    fflush(stdout);
    return good;
}

int main(int argc, char **argv)
{
    bool wanted[SCALAR_COUNT] = {false}, any = false, scalar = false, good = true;
    uint64_t step = 1;
    unsigned threads = 1;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--scalar") == 0) {
            scalar = true;
            continue;
        }
        int fn = 0;
        if (strcmp(argv[i], "--fn") == 0) {
            while (fn < SCALAR_COUNT && strcmp(scalar_defs[fn].name, value) != 0)
                fn++;
            if (fn < SCALAR_COUNT)
                wanted[fn] = any = true;
        } else if (strcmp(argv[i], "--step") == 0) {
            step = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--threads") == 0) {
            threads = (unsigned)strtoul(value, NULL, 10);
        } else {
            fn = SCALAR_COUNT;
        }
        if (fn == SCALAR_COUNT || step == 0 || threads == 0) {
            fprintf(stderr, "scalar_exhaustive: bad argument '%s %s'\n", argv[i], value);
            return 2;
        }
        i++;
    }
    for (int fn = 0; fn < SCALAR_COUNT; fn++)
        if (!any || wanted[fn])
            good = measure((ScalarFn)fn, step, threads, scalar) && good;
    return good ? 0 : 1;
}
