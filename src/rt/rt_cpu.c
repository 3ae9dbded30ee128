/* SPDX-License-Identifier: Apache-2.0
 *
 * What this CPU (and its operating system: XCR0) can do, as the feature bits of format.h. Read at open; no state is kept.
 */
#include "rt/rt_int.h"

#if defined(__x86_64__)

static void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
    __asm__ volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(leaf), "c"(subleaf));
}

static uint64_t saved_states(void)
{
    uint32_t r[4], low, high;
    cpuid(1, 0, r);
    if (!(r[2] >> 27 & 1)) return 0; /* OSXSAVE */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* CPUID: basic leaves are 0 .. eax of leaf 0, extended ones 0x80000000 .. eax of leaf 0x80000000; sub-leaf 0 of leaf 7
 * says how many it has. */
static bool has(uint32_t leaf, uint32_t subleaf, int reg, int bit, uint64_t need, uint64_t states)
{
    uint32_t r[4];
    cpuid(leaf & 0x80000000, 0, r);
    if (r[0] < leaf) return false;
    if (subleaf) {
        cpuid(leaf, 0, r);
        if (r[0] < subleaf) return false;
    }
    cpuid(leaf, subleaf, r);
    return (r[reg] >> bit & 1) && (states & need) == need;
}

uint64_t rt_cpu_features(void)
{
    uint64_t bits = 0, states = saved_states();
#define ASK(number, name, leaf, sub, reg, pos, need)                                                                   \
    if (has(leaf, sub, reg, pos, need, states)) bits |= UINT64_C(1) << number;
    ART_CPU_X86_FEATURES(ASK)
    return bits;
}

int rt_cpu_machine(void) { return EM_X86_64; }

#else

#include <sys/auxv.h>

uint64_t rt_cpu_features(void)
{
    uint64_t bits = 0, caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
#define ASK(number, name, cap, cap2)                                                                                   \
    if ((cap) >= 0 ? caps >> ((cap) & 63) & 1 : caps2 >> ((cap2) & 63) & 1) bits |= UINT64_C(1) << number;
    ART_CPU_ARM_FEATURES(ASK)
    return bits;
}

int rt_cpu_machine(void) { return EM_AARCH64; }

#endif
