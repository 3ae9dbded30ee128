/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPUs that code is generated for. A level is a fixed set of features and a cache size, so output never depends on the
 * machine that compiles; `--cpu native` means the best of these levels that the host has. Levels of x86-64: the psABI's
 * micro-architecture levels v3 and v4. The cache size is the small end of what CPUs of a level have.
 */
#include "cgen/cgen.h"

#define V3_FEATURES                                                                                                    \
    "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+sahf,+movbe,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+xsave"
#define V4_FEATURES V3_FEATURES ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"

static const TargetInfo targets[] = {
    {"x86_64-unknown-linux-gnu", "x86-64-v3", V3_FEATURES, "x86-64-v3", 8, 16, 256 << 10},
    {"x86_64-unknown-linux-gnu", "x86-64-v4", V4_FEATURES, "x86-64-v4", 16, 32, 1 << 20},
    {"aarch64-unknown-linux-gnu", "cortex-a72", "+fp-armv8,+neon", "aarch64", 4, 32, 512 << 10},
    {0},
};

const TargetInfo *cgen_targets(void) { return targets; }

const TargetInfo *cgen_host_target(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi") ||
        !__builtin_cpu_supports("bmi2"))
        return NULL;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &targets[1];
    return &targets[0];
#elif defined(__aarch64__)
    return &targets[2];
#else
    return NULL;
#endif
}
