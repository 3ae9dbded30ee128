/* SPDX-License-Identifier: Apache-2.0
 *
 * A small artifact for tests: kernels written in C, compiled at test time by the system's compiler, and an image of one
 * entry that uses every kind of buffer. What it must compute is fixture_expect.
 *
 *     main(a: f32[N], b: f32[N], at: s32[ROWS]) -> (y: f32[N], picked: f32[ROWS])
 *     phase 0  scale   N/T tiles   tmp = a * weights
 *     phase 1  mix     N/T tiles   y = weave(tmp + b), through scratch; calls into another object; switch, constants
 *     phase 2  pick    1 tile      picked[i] = y[at[i]], clamped; counts runs in the state
 *
 * On x86-64 the second variant has a larger tile T, and with it other tile counts, scratch and workspace; its kernels
 * come in another order. Inputs, outputs, weights and state are the same.
 */
#ifndef IGATA_TEST_ART_FIXTURE_H
#define IGATA_TEST_ART_FIXTURE_H

#include "art/art.h"
#include <stdio.h>
#include <stdlib.h>

#define FIXTURE_N 4096
#define FIXTURE_ROWS 40
#define FIXTURE_TILE(variant) ((variant) ? 64 : 16)
#define FIXTURE_TMP(variant) ((variant) ? 192u : 128u) /* place of tmp in the workspace */
#define FIXTURE_SCRATCH(variant) ((variant) ? 64u + 4 * 64 : 100u)

static const char fixture_kernels_c[] =
    "typedef long long i64; typedef unsigned long long u64;\n"
    "float weave(float x, int i);\n"
    "__attribute__((visibility(\"hidden\"))) extern const float shared_table[5];\n"
    "void scale(void *const *buf, i64 lo, i64 hi, u64 *error) {\n"
    "    const float *a = buf[0], *w = buf[1]; float *t = buf[2]; (void)error;\n"
    "    for (i64 i = lo * TILE; i < hi * TILE; i++) t[i] = a[i] * w[i];\n"
    "}\n"
    "void mix(void *const *buf, i64 lo, i64 hi, u64 *error) {\n"
    "    const float *t = buf[0], *b = buf[1]; float *s = buf[2], *y = buf[3]; (void)error;\n"
    "    for (i64 c = lo; c < hi; c++) {\n"
    "        for (int i = 0; i < TILE; i++) s[i] = t[c * TILE + i] + b[c * TILE + i];\n"
    "        for (int i = 0; i < TILE; i++) y[c * TILE + i] = weave(s[i], i % 16) + shared_table[i % 16 % 5];\n"
    "    }\n"
    "}\n"
    "void pick(void *const *buf, i64 lo, i64 hi, u64 *error) {\n"
    "    const float *y = buf[0]; const int *at = buf[1]; float *out = buf[2]; u64 *runs = buf[3];\n"
    "    for (i64 c = lo; c < hi; c++) {\n"
    "        for (int i = 0; i < 40; i++) {\n"
    "            int k = at[i];\n"
    "            if (k < 0 || k >= 4096) { if (!*error) *error = 7 << 8 | 1; k = 0; }\n"
    "            out[i] = y[k];\n"
    "        }\n"
    "        ++*runs;\n"
    "    }\n"
    "}\n";
static const char fixture_helper_c[] =
    "__attribute__((visibility(\"hidden\"))) extern const float shared_table[5];\n"
    "const float shared_table[5] = {1.5f, -2.25f, 3.125f, 0.5f, 8.0f};\n"
    "float weave(float x, int i) {\n"
    "    switch (i) {\n"
    "    case 0: return x * 3.0f; case 1: return x - 7.0f; case 2: return 1.25f / x; case 3: return -x;\n"
    "    case 4: return x * x; case 5: return x + 0.1f; case 6: return 11.0f; case 7: return x * 0.3f;\n"
    "    default: return x + shared_table[(i + 1) % 5];\n"
    "    }\n"
    "}\n";

typedef struct Fixture {
    ArtImage image;
    ArtValue inputs[3], outputs[2], states[1];
    ArtEntry entry;
    ArtBuf bufs[2][3][4]; /* of each variant, as what follows */
    ArtPhase phases[2][3];
    ArtPlan plan[2];
    ArtBody bodies[2];
    ArtKernel kernels[2][3];
    ArtDef defs[2][3];
    ArtObject objects[2][2];
    ArtVariant variants[2];
    ArtWeight weights[2];
    ArtNode nodes[2];
    float weight[FIXTURE_N];
} Fixture;

static inline uint8_t *fixture_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    *size = 0;
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*size + 1);
    size_t n = data ? fread(data, 1, *size, file) : 0;
    fclose(file);
    return n == *size ? data : NULL;
}

static inline void fixture_write(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size)
        abort();
    fclose(file);
}

/* Shows why the compiler refused; -1, for set-up functions. */
static inline int fixture_print(Context *ctx)
{
    for (uint32_t i = 0; i < diag_count(ctx); i++)
        fprintf(stderr, "%s\n", diag_get(ctx, i)->message);
    return -1;
}

static inline int fixture_shell(const char *format, const char *a, const char *b)
{
    char command[1024];
    snprintf(command, sizeof command, format, a, b);
    return system(command);
}

static inline bool fixture_has(const char *program)
{
    return fixture_shell("command -v %s > /dev/null 2>&1%s", program, "") == 0;
}

/* Compiles text to an object in the current folder and returns its bytes; NULL without a compiler. */
static inline ArtObject fixture_compile(const char *compiler, const char *stem, const char *suffix, const char *text)
{
    char source[256], command[1024];
    ArtObject object = {0};
    snprintf(source, sizeof source, "%s.%s", stem, suffix);
    fixture_write(source, text, strlen(text));
    snprintf(command, sizeof command, "%s -c -o %s.o %s", compiler, stem, source);
    snprintf(source, sizeof source, "%s.o", stem);
    if (system(command) == 0)
        object.data = fixture_read(source, &object.size);
    return object;
}

static inline bool fixture_weight(void *user, ArtSink *sink)
{
    Fixture *f = user;
    art_sink_write(sink, f->weight, sizeof f->weight);
    return true;
}

static inline bool fixture_small_weight(void *user, ArtSink *sink)
{
    (void)user;
    art_sink_write(sink, "0123456789", 10);
    return true;
}

#define FIXTURE_FLAGS                                                                                                  \
    " -O2 -ffreestanding -fasynchronous-unwind-tables -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno "    \
    "-fno-stack-protector"

/* The schedule of one variant. */
static inline void fixture_schedule(Fixture *f, int v)
{
    static const char *const names[3] = {"scale", "mix", "pick"};
    static const uint32_t number[2][3] = {{0, 1, 2}, {2, 0, 1}}; /* of the kernel of a phase */
    const uint64_t tmp = FIXTURE_TMP(v);
    const ArtBuf bufs[3][4] = {
        {{ART_INPUT, 0, 0, false}, {ART_WEIGHTS, 1, 64, false}, {ART_WORKSPACE, 0, tmp, true}},
        {{ART_WORKSPACE, 0, tmp, false}, {ART_INPUT, 1, 0, false}, {ART_SCRATCH, 0, 64, false}, {ART_OUTPUT, 0, 0, true}},
        {{ART_OUTPUT, 0, 0, false}, {ART_INPUT, 2, 0, false}, {ART_OUTPUT, 1, 0, true}, {ART_STATE, 0, 0, false}},
    };
    memcpy(f->bufs[v], bufs, sizeof bufs);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t k = number[v][i];
        f->phases[v][i] = (ArtPhase){k, i == 2 ? 1 : FIXTURE_N / FIXTURE_TILE(v), f->bufs[v][i], i == 0 ? 3 : 4};
        f->kernels[v][k] = (ArtKernel){.symbol = names[i], .nodes = "node", .line = "%1 = add %a, %b  @kernel=k  -> f32[4096]",
                                       .classes = "ref32", .flops = 4096, .bytes = 16384};
        f->defs[v][i] = (ArtDef){k, names[i]};
        if (i == 0)
            f->kernels[v][k].symbol = "layer1/fc:scale"; /* shown as layer1_fc_scale */
    }
    f->plan[v] = (ArtPlan){"tmp", tmp, 4 * FIXTURE_N, 0, 1, 0};
    f->bodies[v] = (ArtBody){.workspace_bytes = tmp + 4 * FIXTURE_N,
                             .scratch_bytes_per_slot = FIXTURE_SCRATCH(v),
                             .phases = f->phases[v],
                             .n_phases = 3,
                             .plan = &f->plan[v],
                             .n_plan = 1,
                             .peak_bytes = 4 * FIXTURE_N,
                             .lower_bound_bytes = 4 * FIXTURE_N};
}

static inline bool fixture_code(Fixture *f, int v, ArtMachine machine, const char *compiler)
{
    static const char *const x86_flags[2] = {"-march=x86-64", "-march=x86-64-v3"};
    char command[512], stem[64];
    snprintf(command, sizeof command, "%s %s -DTILE=%d" FIXTURE_FLAGS, compiler,
             machine == ART_X86_64 ? x86_flags[v] : "", FIXTURE_TILE(v));
    snprintf(stem, sizeof stem, "kernels-%d-%d", (int)machine, v);
    f->objects[v][0] = fixture_compile(command, stem, "c", fixture_kernels_c);
    snprintf(stem, sizeof stem, "helper-%d-%d", (int)machine, v);
    f->objects[v][1] = fixture_compile(command, stem, "c", fixture_helper_c);
    f->objects[v][0].defs = f->defs[v];
    f->objects[v][0].n_defs = 3;
    f->variants[v] = (ArtVariant){.name = machine == ART_AARCH64 ? "generic"
                                          : v                    ? "x86-64-v3"
                                                                 : "x86-64",
                                  .bodies = &f->bodies[v],
                                  .kernels = f->kernels[v],
                                  .n_kernels = 3,
                                  .objects = f->objects[v],
                                  .n_objects = 2};
    return f->objects[v][0].data && f->objects[v][1].data;
}

/* Two variants on x86-64, one elsewhere; `compiler` makes code for `machine`. False: no such compiler. */
static inline bool fixture_make(Fixture *f, ArtMachine machine, const char *compiler)
{
    static const int64_t dims[1] = {FIXTURE_N}, rows[1] = {FIXTURE_ROWS}, one[1] = {1};
    memset(f, 0, sizeof *f);
    f->inputs[0] = (ArtValue){"a", DT_F32, 1, dims, NULL, 0};
    f->inputs[1] = (ArtValue){"b", DT_F32, 1, dims, NULL, 0};
    f->inputs[2] = (ArtValue){"at", DT_S32, 1, rows, NULL, 0};
    f->outputs[0] = (ArtValue){"y", DT_F32, 1, dims, NULL, 0};
    f->outputs[1] = (ArtValue){"picked", DT_F32, 1, rows, NULL, 0};
    f->states[0] = (ArtValue){"runs", DT_U64, 1, one, NULL, 0};
    f->nodes[0] = (ArtNode){3, "elsewhere"};
    f->nodes[1] = (ArtNode){7, "layer2/pick"};
    f->entry = (ArtEntry){.name = "main", .inputs = f->inputs, .outputs = f->outputs, .n_inputs = 3, .n_outputs = 2};
    for (int i = 0; i < FIXTURE_N; i++)
        f->weight[i] = (float)(i % 37) * 0.25f - 3.0f;
    f->weights[0] = (ArtWeight){"tag", 0, 10, fixture_small_weight, NULL};
    f->weights[1] = (ArtWeight){"w", 64, sizeof f->weight, fixture_weight, f};
    int n_variants = machine == ART_X86_64 ? 2 : 1;
    for (int v = 0; v < n_variants; v++) {
        fixture_schedule(f, v);
        if (!fixture_code(f, v, machine, compiler))
            return false;
    }
    f->image = (ArtImage){.machine = machine,
                          .triple = machine == ART_X86_64 ? "x86_64-linux-gnu" : "aarch64-linux-gnu",
                          .opt_level = "-O2",
                          .igata_version = "igata test",
                          .entries = &f->entry,
                          .n_entries = 1,
                          .variants = f->variants,
                          .n_variants = (uint32_t)n_variants,
                          .weights = f->weights,
                          .n_weights = 2,
                          .states = f->states,
                          .n_states = 1,
                          .nodes = f->nodes,
                          .n_nodes = 2};
    for (int i = 0; i < 32; i++)
        f->image.model_sha256[i] = (uint8_t)i;
    return true;
}

static inline const char *fixture_cc(void)
{
    const char *cc = getenv("CC");
    return cc && *cc ? cc : "cc";
}
#if defined(__aarch64__)
#define FIXTURE_HOST ART_AARCH64
#else
#define FIXTURE_HOST ART_X86_64
#endif

/* What phases 0 and 1 compute, in C of its own. */
static inline float fixture_expect(const Fixture *f, const float *a, const float *b, int i)
{
    static const float table[5] = {1.5f, -2.25f, 3.125f, 0.5f, 8.0f};
    float t = a[i] * f->weight[i], x = t + b[i], r;
    switch (i % 16) {
    case 0:
        r = x * 3.0f;
        break;
    case 1:
        r = x - 7.0f;
        break;
    case 2:
        r = 1.25f / x;
        break;
    case 3:
        r = -x;
        break;
    case 4:
        r = x * x;
        break;
    case 5:
        r = x + 0.1f;
        break;
    case 6:
        r = 11.0f;
        break;
    case 7:
        r = x * 0.3f;
        break;
    default:
        r = x + table[(i % 16 + 1) % 5];
        break;
    }
    return r + table[i % 16 % 5];
}

/* io buffers of the entry: a, b, at, y, picked; 64-byte aligned, filled. */
static inline void fixture_io(void *io[5])
{
    static const size_t bytes[5] = {4 * FIXTURE_N, 4 * FIXTURE_N, 4 * FIXTURE_ROWS, 4 * FIXTURE_N, 4 * FIXTURE_ROWS};
    for (int i = 0; i < 5; i++) {
        io[i] = aligned_alloc(64, (bytes[i] + 63) / 64 * 64);
        if (!io[i])
            abort();
        memset(io[i], 0xff, bytes[i]);
    }
    for (int i = 0; i < FIXTURE_N; i++) {
        ((float *)io[0])[i] = (float)(i % 101) * 0.5f - 20.0f;
        ((float *)io[1])[i] = (float)(i % 53) * 0.125f + 0.0625f;
    }
    for (int i = 0; i < FIXTURE_ROWS; i++)
        ((int32_t *)io[2])[i] = i * 97 % FIXTURE_N;
}

static inline void fixture_free_io(void *io[5])
{
    for (int i = 0; i < 5; i++)
        free(io[i]);
}

/* Number of wrong elements in y and picked. */
static inline int fixture_wrong(const Fixture *f, void *const io[5])
{
    int wrong = 0;
    const float *y = io[3], *picked = io[4];
    for (int i = 0; i < FIXTURE_N; i++) {
        float want = fixture_expect(f, io[0], io[1], i);
        wrong += memcmp(&want, &y[i], 4) != 0;
    }
    for (int i = 0; i < FIXTURE_ROWS; i++)
        wrong += memcmp(&picked[i], &y[((int32_t *)io[2])[i]], 4) != 0;
    return wrong;
}

static inline void fixture_free(Fixture *f)
{
    for (int v = 0; v < 2; v++)
        for (int o = 0; o < 2; o++)
            free((void *)(uintptr_t)f->objects[v][o].data);
}

#endif
