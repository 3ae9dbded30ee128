/* SPDX-License-Identifier: Apache-2.0
 *
 * What this CPU (and its operating system: XCR0) can do, as the feature bits of format.h. Read at open; no state is
 * kept.
 */
#include "rt/rt_int.h"

#if defined(__x86_64__)

static void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
    __asm__ volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(leaf), "c"(subleaf));
}

/* The leaves that features are in. Each CPUID may cost microseconds under a hypervisor: every leaf is read once. */
enum { LEAF_1, LEAF_7, LEAF_7_1, LEAF_EXTENDED, LEAVES };

static int leaf_index(uint32_t leaf, uint32_t subleaf)
{
    return leaf == 1 ? LEAF_1 : leaf == 7 ? (subleaf ? LEAF_7_1 : LEAF_7) : LEAF_EXTENDED;
}

/* Leaves that the CPU does not have stay 0. Basic ones go up to eax of leaf 0, extended ones to eax of 0x80000000; eax
 * of leaf 7 is its last sub-leaf. */
static void read_leaves(uint32_t leaves[LEAVES][4])
{
    uint32_t r[4];
    memset(leaves, 0, sizeof(uint32_t[LEAVES][4]));
    cpuid(0, 0, r);
    uint32_t last = r[0];
    if (last >= 1)
        cpuid(1, 0, leaves[LEAF_1]);
    if (last >= 7)
        cpuid(7, 0, leaves[LEAF_7]);
    if (last >= 7 && leaves[LEAF_7][0] >= 1)
        cpuid(7, 1, leaves[LEAF_7_1]);
    cpuid(0x80000000, 0, r);
    if (r[0] >= 0x80000001)
        cpuid(0x80000001, 0, leaves[LEAF_EXTENDED]);
}

/* XCR0: the register states that the operating system saves. */
static uint64_t saved_states(uint32_t leaves[LEAVES][4])
{
    uint32_t low, high;
    if (!(leaves[LEAF_1][2] >> 27 & 1))
        return 0; /* OSXSAVE */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

uint64_t rt_cpu_features(void)
{
    uint32_t leaves[LEAVES][4];
    read_leaves(leaves);
    uint64_t bits = 0, states = saved_states(leaves);
#define ASK(number, name, leaf, sub, reg, pos, need)                                                                   \
    if ((leaves[leaf_index(leaf, sub)][reg] >> (pos)&1) && (states & (need)) == (need))                                \
        bits |= UINT64_C(1) << number;
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
    if ((cap) >= 0 ? caps >> ((cap)&63) & 1 : caps2 >> ((cap2)&63) & 1)                                                \
        bits |= UINT64_C(1) << number;
    ART_CPU_ARM_FEATURES(ASK)
    return bits;
}

int rt_cpu_machine(void) { return EM_AARCH64; }

#endif
