/* SPDX-License-Identifier: Apache-2.0
 *
 * What a variant asks of the CPU, as the feature bits of format.h. Levels: x86-64 psABI, "Micro-Architecture Levels".
 * Features without a bit are ignored: code generation uses vector and bit-manipulation features only, and those are all
 * listed.
 */
#include "art/art_int.h"

typedef struct Feature {
    const char *name;
    uint64_t bit;
} Feature;
#define X86_ROW(bit, name, leaf, sub, reg, pos, xcr0) {name, UINT64_C(1) << bit},
#define ARM_ROW(bit, name, hwcap, hwcap2) {name, UINT64_C(1) << bit},
static const Feature x86_features[] = {ART_CPU_X86_FEATURES(X86_ROW)};
static const Feature arm_features[] = {ART_CPU_ARM_FEATURES(ARM_ROW)};

#define V2 "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+cx16,+sahf"
#define V3 V2 ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
#define V4 V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"
static const struct {
    ArtMachine machine;
    const char *name, *features;
} levels[] = {
    {ART_X86_64, "x86-64", ""},
    {ART_X86_64, "generic", ""},
    {ART_X86_64, "x86-64-v2", V2},
    {ART_X86_64, "x86-64-v3", V3},
    {ART_X86_64, "x86-64-v4", V4},
    {ART_AARCH64, "generic", "+fp-armv8,+neon"},
    {ART_AARCH64, "armv8-a", "+fp-armv8,+neon"},
    {ART_AARCH64, "aarch64", "+fp-armv8,+neon"},
};

bool art_cpu_features(Context *ctx, ArtMachine machine, const char *name, const char *features, uint64_t *bits)
{
    const Feature *rows = machine == ART_X86_64 ? x86_features : arm_features;
    size_t n_rows = machine == ART_X86_64 ? IG_COUNT(x86_features) : IG_COUNT(arm_features);
    *bits = 0;
    for (size_t i = 0; !features && i < IG_COUNT(levels); i++)
        if (levels[i].machine == machine && strcmp(levels[i].name, name) == 0)
            features = levels[i].features;
    if (!features)
        return diag_report(ctx, 0, DIAG_art_cpu, name);
    for (const char *p = features; *p;) {
        size_t length = strcspn(p, ",");
        for (size_t i = 0; *p == '+' && i < n_rows; i++)
            if (strlen(rows[i].name) == length - 1 && memcmp(rows[i].name, p + 1, length - 1) == 0)
                *bits |= rows[i].bit;
        p += length + (p[length] == ',');
    }
    return true;
}
