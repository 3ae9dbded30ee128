/* SPDX-License-Identifier: Apache-2.0
 *
 * What one thread of this machine can do at most: loops of nothing but FMAs (24 independent accumulators; 12 of the 16 registers
 * for AVX2) and of nothing but loads. For what measures, this program's bench command and bench/kernels.c.
 */
#ifndef IGATA_CLI_PEAK_H
#define IGATA_CLI_PEAK_H

#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define PEAK(name, isa, type, count, set1, fma, add, lanes, store)                                                     \
    isa static inline double name(long n, float *out)                                                                 \
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
#if defined(__x86_64__)
PEAK(peak_512, __attribute__((target("avx512f"))), __m512, 24, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, 16, _mm512_storeu_ps)
PEAK(peak_256, __attribute__((target("avx2,fma"))), __m256, 12, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, 8, _mm256_storeu_ps)
#elif defined(__aarch64__)
PEAK(peak_128, , float32x4_t, 24, vdupq_n_f32, vfmaq_f32, vaddq_f32, 4, vst1q_f32)
#endif

/* Runs FMAs for roughly a millisecond or a few; their number of flops. lanes: of the machine level, 0 where there is no loop for it. */
static inline double peak_run(unsigned lanes)
{
    float out[16];
#if defined(__x86_64__)
    return lanes == 16 ? peak_512(1000000, out) : lanes == 8 ? peak_256(2000000, out) : 0;
#elif defined(__aarch64__)
    return lanes ? peak_128(1000000, out) : 0;
#else
    (void)out;
    return lanes * 0.0;
#endif
}

static inline unsigned peak_lanes(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512f") ? 16 : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 8 : 0;
#elif defined(__aarch64__)
    return 4;
#else
    return 0;
#endif
}

typedef uint64_t PeakWord __attribute__((vector_size(16)));

/* Loads n words, a multiple of 8; the compiler must believe that their sum matters. */
static inline void peak_read(const PeakWord *word, size_t n)
{
    PeakWord sum[8] = {{0}};
    for (size_t i = 0; i < n; i += 8)
        _Pragma("GCC unroll 8") for (size_t k = 0; k < 8; k++) sum[k] += word[i + k];
    for (size_t k = 1; k < 8; k++)
        sum[0] += sum[k];
    __asm__ volatile("" : : "r"(sum[0][0] + sum[0][1]));
}

#endif
