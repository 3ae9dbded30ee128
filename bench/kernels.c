/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_kernels FILE.loop ..: speed of kernels in percent of a loop of nothing but FMAs, measured in turns in the same run.
 * A kernel's flops are those of its mma statements, absent taps included. One thread.
 */
#define _GNU_SOURCE
#include "cgen/cgen.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef void KernelFn(void *const *buf, int64_t lo, int64_t hi, uint64_t *error);

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others use this machine too */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- peak: 24 independent accumulators (12 of the 16 registers for AVX2) ------------------------------------------------------ */

#if defined(__x86_64__)
#define PEAK(name, isa, type, count, set1, fma, add, lanes, store)                                                     \
    __attribute__((target(isa))) static double name(long n, float *out)                                               \
    {                                                                                                                  \
        type acc[count], x = set1(1.0000001f), y = set1(1e-7f);                                                        \
        for (int i = 0; i < (count); i++)                                                                              \
            acc[i] = set1((float)i);                                                                                   \
        for (long k = 0; k < n; k++)                                                                                   \
            _Pragma("GCC unroll 24") for (int i = 0; i < (count); i++) acc[i] = fma(acc[i], x, y);                     \
        for (int i = 1; i < (count); i++)                                                                              \
            acc[0] = add(acc[0], acc[i]);                                                                              \
        store(out, acc[0]);                                                                                            \
        return 2.0 * (lanes) * (count) * (double)n;                                                                    \
    }
PEAK(peak512, "avx512f", __m512, 24, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, 16, _mm512_storeu_ps)
PEAK(peak256, "avx2,fma", __m256, 12, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, 8, _mm256_storeu_ps)
#endif

static double peak_rate(const TargetInfo *target)
{
#if defined(__x86_64__)
    float out[16];
    double start = now();
    double flops = target->f32_lanes == 16 ? peak512(1000000, out) : peak256(2000000, out);
    return flops / (now() - start);
#else
    (void)target;
    return 0;
#endif
}

/* ---- kernels --------------------------------------------------------------------------------------------------------------------- */

static double flops_of(const Stmt *list)
{
    double sum = 0;
    for (const Stmt *s = list; s; s = s->next) {
        if (s->kind == LS_FOR) {
            int64_t lo = 0, hi = 1;
            bool known = lx_is_int(s->u.loop.lo, &lo) && lx_is_int(s->u.loop.hi, &hi);
            sum += (known ? (double)((hi - lo + s->u.loop.step - 1) / s->u.loop.step) : 1) * flops_of(s->u.loop.body);
        }
        if (s->kind == LS_MMA) {
            double n = 2.0 * (double)s->u.mma.rows * (double)s->u.mma.cols;
            for (uint32_t i = 0; i < s->u.mma.n_axes; i++)
                n *= (double)s->u.mma.axis[i].extent;
            sum += n;
        }
    }
    return sum;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static KernelFn *load(const char *object, const char *name)
{
    char so[128], command[512];
    snprintf(so, sizeof so, "%s.so", object);
    snprintf(command, sizeof command, "ld -shared -z noexecstack -o %s %s", so, object);
    if (system(command))
        return NULL;
    void *library = dlopen(so, RTLD_NOW), *address = library ? dlsym(library, name) : NULL;
    KernelFn *fn = NULL;
    memcpy(&fn, &address, sizeof fn);
    remove(so);
    remove(object);
    return fn;
}

static void run(Context *ctx, const Kernel *k, const TargetInfo *target)
{
    enum { ROUNDS = 15 };
    Arena *arena = ctx_arena(ctx);
    char object[] = "./bench-XXXXXX";
    int fd = mkstemp(object);
    CgenOptions options = {.target = target, .opt_level = 2, .symbol_suffix = "", .output = CGEN_OBJECT};
    Blob blob;
    double start = now();
    if (fd < 0 || close(fd) || !cgen_emit(ctx, arena, &options, &k, 1, &blob))
        return;
    double compile = now() - start;
    if (!file_write_all(ctx, object, blob.data, blob.size))
        return;
    KernelFn *fn = load(object, k->name);
    if (!fn)
        return;
    void **data = ARENA_ARRAY(arena, void *, k->bufs.len);
    for (uint32_t i = 0; i < k->bufs.len; i++) {
        size_t bytes = ((size_t)k->bufs.data[i]->elements * (size_t)dtype_bits(k->bufs.data[i]->dtype) / 8 + 127) / 64 * 64;
        data[i] = aligned_alloc(64, bytes);
        for (size_t j = 0; j < bytes / 4; j++)
            ((float *)data[i])[j] = (float)(j * 2654435761u % 1000) * 0.001f - 0.5f;
    }
    double flops = flops_of(k->body), time[ROUNDS], share[ROUNDS], peak = 0;
    uint64_t error = 0;
    for (int r = -1; r < ROUNDS; r++) {
        peak = peak_rate(target);
        int n = 0;
        start = now();
        do {
            fn(data, 0, kernel_tiles(k), &error);
            n++;
        } while (now() - start < 0.02);
        double each = (now() - start) / n;
        peak = (peak + peak_rate(target)) / 2;
        if (r < 0)
            continue;
        time[r] = each;
        share[r] = flops / each / peak;
    }
    qsort(time, ROUNDS, sizeof *time, compare);
    qsort(share, ROUNDS, sizeof *share, compare);
    printf("%-20s %-10s %9.1f us  %7.1f GFLOP/s  %5.1f %% of peak  (compiled in %.1f ms)\n", k->name, target->level,
           time[ROUNDS / 2] * 1e6, flops / time[ROUNDS / 2] * 1e-9, share[ROUNDS / 2] * 100, compile * 1e3);
    for (uint32_t i = 0; i < k->bufs.len; i++)
        free(data[i]);
}

int main(int argc, char **argv)
{
    Context *ctx = ctx_create(NULL);
    const TargetInfo *host = cgen_host_target();
    for (int i = 1; i < argc && host; i++) {
        Blob blob;
        Kernel *k = NULL;
        if (file_map(ctx, argv[i], &blob))
            k = kernel_parse(ctx, ctx_arena(ctx), str_intern(ctx, argv[i]), (const char *)blob.data, blob.size);
        for (const TargetInfo *t = cgen_targets(); k && kernel_verify(k) && t <= host; t++)
            run(ctx, k, t);
    }
    Text text;
    text_init(&text, ctx_arena(ctx));
    for (uint32_t i = 0; i < diag_count(ctx); i++)
        diag_print(ctx, &text, diag_get(ctx, i));
    fputs(text.data, stderr);
    bool failed = diag_errors(ctx) != 0;
    ctx_destroy(ctx);
    return failed || !host;
}
