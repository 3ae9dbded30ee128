/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "support/kernel_bits.h"
#include "cgen/cgen.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void KernelFn(void *const *buf, int64_t lo, int64_t hi, uint64_t *error);

BitsSuite *bits_begin(void)
{
    Context *ctx = ctx_create(NULL);
    BitsSuite *suite = ARENA_NEW(ctx_arena(ctx), BitsSuite);
    suite->ctx = ctx;
    suite->arena = ctx_arena(ctx);
    suite->emulate = true;
    suite->opt_level = 2;
    return suite;
}

void bits_end(BitsSuite *suite) { ctx_destroy(suite->ctx); }

static void show_diagnostics(BitsSuite *suite)
{
    for (uint32_t i = 0; i < diag_count(suite->ctx); i++) {
        Text text;
        text_init(&text, suite->arena);
        diag_print(suite->ctx, &text, diag_get(suite->ctx, i));
        fprintf(stderr, "%s\n", text.data);
    }
    diag_clear(suite->ctx);
}

void bits_add(BitsSuite *suite, Kernel *kernel)
{
    if (!kernel_verify(kernel)) {
        show_diagnostics(suite);
        abort();
    }
    kernel->name = str_format(suite->ctx, "k%u_%s", (unsigned)suite->kernels.len, kernel->name);
    vec_push(suite->arena, &suite->kernels, kernel);
}

Kernel *bits_add_text(BitsSuite *suite, const char *text)
{
    Kernel *kernel = kernel_parse(suite->ctx, suite->arena, str_intern(suite->ctx, "case"), text, strlen(text));
    if (!kernel) {
        fprintf(stderr, "%s\n", text);
        show_diagnostics(suite);
        abort();
    }
    bits_add(suite, kernel);
    return kernel;
}

/* ---- data ---------------------------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t x = *state;
    return hash_mix(x >> 17, x);
}

/* round 0: tame values; 1: one in eight is special; 2: anything */
static double random_real(uint64_t *state, int round)
{
    static const double special[] = {0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-40, -1e-42, 3e38, -3e38, 65504, 65520, 1e-7,
                                     88.8, -104.5, 9.25e18, 2147483648.0, -2147483649.0, 16777217.0, 1e30, -0.49999997};
    uint64_t r = next_random(state);
    if (round == 2 && (r & 3) == 1) { /* pairs of the most special ones must meet */
        static const double edge[] = {0.0, -0.0, 1.0, __builtin_inf(), -__builtin_inf()};
        return edge[(r >> 8) % IG_COUNT(edge)];
    }
    if (round && (r & 7) == 0) {
        uint64_t i = (r >> 8) % (IG_COUNT(special) + 3);
        return i < IG_COUNT(special) ? special[i]
               : i == IG_COUNT(special) ? __builtin_nan("")
                                        : i == IG_COUNT(special) + 1 ? __builtin_inf() : -__builtin_inf();
    }
    double unit = (double)(r >> 11) / 9007199254740992.0 * 2 - 1;
    return round == 2 && (r & 24) == 0 ? unit * 100 : unit * 3;
}

static void fill(const Buf *buf, void *data, uint64_t *state, int round)
{
    for (int64_t i = 0; i < buf->elements; i++) {
        if (dtype_is_float(buf->dtype)) {
            elem_set_f64(buf->dtype, data, (uint64_t)i, random_real(state, round));
            continue;
        }
        uint64_t r = next_random(state);
        static const int64_t special[] = {0, 1, -1, 2, INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, 127, -128, 7, 63, 64, 31, 32};
        int64_t v = buf->dtype == DT_BOOL ? (int64_t)(r & 1)
                    : (r & 3) == 0        ? special[(r >> 8) % IG_COUNT(special)]
                    : (r & 3) == 1        ? (int64_t)(r >> 8) % 16 - 8
                                          : (int64_t)next_random(state);
        elem_set_s64(buf->dtype, data, (uint64_t)i, v);
    }
}

static size_t buf_bytes(const Buf *buf) { return (size_t)buf->elements * ((size_t)dtype_bits(buf->dtype) / 8); }

/* Ends at an inaccessible page. */
typedef struct Guarded {
    void *map, *data;
    size_t bytes;
} Guarded;

static Guarded guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    uint8_t *map = mmap(NULL, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || (whole && mprotect(map + page, whole, PROT_READ | PROT_WRITE)))
        abort();
    return (Guarded){map, map + page + whole - bytes, whole + 2 * page};
}

/* First differing element, or -1. */
static int64_t difference(const Buf *buf, const void *a, const void *b)
{
    size_t bytes = (size_t)dtype_bits(buf->dtype) / 8;
    for (int64_t i = 0; i < buf->elements; i++) {
        if (!memcmp((const char *)a + (size_t)i * bytes, (const char *)b + (size_t)i * bytes, bytes))
            continue;
        if (dtype_is_float(buf->dtype)) {
            double x = elem_get_f64(buf->dtype, a, (uint64_t)i), y = elem_get_f64(buf->dtype, b, (uint64_t)i);
            if (x != x && y != y)
                continue;
        }
        return i;
    }
    return -1;
}

typedef struct Run {
    void **want; /* after the interpreter */
    void **start;
    uint64_t want_error;
} Run;

static Run interpret(BitsSuite *suite, const Kernel *k, int round)
{
    uint32_t n = k->bufs.len;
    Run run = {ARENA_ARRAY(suite->arena, void *, n + 1), ARENA_ARRAY(suite->arena, void *, n + 1), 0};
    uint64_t state = hash_bytes(k->name, strlen(k->name), (uint64_t)round);
    for (uint32_t i = 0; i < n; i++) {
        const Buf *buf = k->bufs.data[i];
        run.start[i] = arena_alloc(suite->arena, buf_bytes(buf) + 16);
        fill(buf, run.start[i], &state, round);
        run.want[i] = arena_copy(suite->arena, run.start[i], buf_bytes(buf) + 16);
    }
    kernel_interp(k, run.want, 0, kernel_tiles(k), &run.want_error);
    return run;
}

static bool report(const Kernel *k, const char *target, int round, const Run *run, void *const *got, uint64_t error)
{
    for (uint32_t i = 0; i < k->bufs.len; i++) {
        const Buf *buf = k->bufs.data[i];
        int64_t at = buf->space == BUF_LOCAL ? -1 : difference(buf, run->want[i], got[i]);
        if (at >= 0) {
            fprintf(stderr, "%s, %s, round %d: %s[%lld] is %.9g (%llx), interpreted %.9g (%llx)\n", k->name, target, round,
                    buf->name, (long long)at, elem_get_f64(buf->dtype, got[i], (uint64_t)at),
                    (unsigned long long)elem_get_s64(dtype_is_float(buf->dtype) ? DT_S32 : buf->dtype, got[i], (uint64_t)at),
                    elem_get_f64(buf->dtype, run->want[i], (uint64_t)at),
                    (unsigned long long)elem_get_s64(dtype_is_float(buf->dtype) ? DT_S32 : buf->dtype, run->want[i], (uint64_t)at));
            return true;
        }
    }
    if (error != run->want_error)
        fprintf(stderr, "%s, %s: error word %llx, interpreted %llx\n", k->name, target, (unsigned long long)error,
                (unsigned long long)run->want_error);
    return error != run->want_error;
}

/* ---- targets ---------------------------------------------------------------------------------------------------------------- */

enum { ROUNDS = 3 };

typedef struct Emit {
    BitsSuite *suite;
    const TargetInfo *target;
    const char *path;
    bool good;
} Emit;

static void emit_body(void *user)
{
    Emit *e = user;
    BitsSuite *suite = e->suite;
    CgenOptions options = {
        .target = e->target, .opt_level = suite->opt_level, .output = CGEN_OBJECT};
    const Kernel *const *kernels = (const Kernel *const *)suite->kernels.data;
    Blob blob;
    e->good = cgen_emit(suite->ctx, suite->arena, &options, kernels, suite->kernels.len, &blob) &&
              file_write_all(suite->ctx, e->path, blob.data, blob.size);
}

static bool emit_object(BitsSuite *suite, const TargetInfo *target, const char *path)
{
    Emit e = {suite, target, path, false};
    ctx_protect(suite->ctx, emit_body, &e);
    if (!e.good)
        show_diagnostics(suite);
    return e.good;
}

static const char *symbol(BitsSuite *suite, const Kernel *k)
{
    char *name = arena_printf(suite->arena, "%s", k->name);
    for (char *c = name; *c; c++)
        if (!((*c | 32) >= 'a' && (*c | 32) <= 'z') && !(*c >= '0' && *c <= '9') && *c != '_' && *c != '.' && *c != '$')
            *c = '_';
    return name;
}

static int run_native(BitsSuite *suite, const TargetInfo *target, const Run *runs)
{
    char folder[] = "bits-XXXXXX";
    if (!mkdtemp(folder))
        abort();
    const char *object = arena_printf(suite->arena, "./%s/k.o", folder), *so = arena_printf(suite->arena, "./%s/k.so", folder);
    int bad = 0;
    if (!emit_object(suite, target, object) || system(arena_printf(suite->arena, "ld -shared -z noexecstack -o %s %s", so, object)))
        return (int)suite->kernels.len;
    void *library = dlopen(so, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    for (uint32_t i = 0; i < suite->kernels.len; i++) {
        const Kernel *k = suite->kernels.data[i];
        KernelFn *fn;
        void *address = dlsym(library, symbol(suite, k));
        memcpy(&fn, &address, sizeof fn);
        bool differs = !address;
        for (int round = 0; round < ROUNDS && !differs; round++) {
            Run run = runs[i * ROUNDS + (uint32_t)round];
            Guarded *g = ARENA_ARRAY(suite->arena, Guarded, k->bufs.len + 1);
            void **data = ARENA_ARRAY(suite->arena, void *, k->bufs.len + 1);
            for (uint32_t b = 0; b < k->bufs.len; b++) {
                g[b] = guarded(buf_bytes(k->bufs.data[b]));
                data[b] = memcpy(g[b].data, run.start[b], buf_bytes(k->bufs.data[b]));
            }
            uint64_t error = 0;
            int64_t tiles = kernel_tiles(k), half = tiles / 2;
            if (half)
                fn(data, 0, half, &error);
            fn(data, half, tiles, &error);
            differs = report(k, target->level, round, &run, data, error);
            for (uint32_t b = 0; b < k->bufs.len; b++)
                munmap(g[b].map, g[b].bytes);
        }
        bad += differs;
    }
    dlclose(library);
    remove(object);
    remove(so);
    remove(folder);
    return bad;
}

/* A C program that reads all buffers of all runs from a file, runs, and writes them back. */
static void write_driver(BitsSuite *suite, Text *text)
{
    text_add(text, "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
                   "typedef void F(void *const *, int64_t, int64_t, uint64_t *);\n");
    for (uint32_t i = 0; i < suite->kernels.len; i++)
        text_addf(text, "extern F %s;\n", symbol(suite, suite->kernels.data[i]));
    text_add(text, "static F *const f[] = {");
    for (uint32_t i = 0; i < suite->kernels.len; i++)
        text_addf(text, "%s,\n", symbol(suite, suite->kernels.data[i]));
    text_add(text, "0};\nint main(int c, char **v) { (void)c; FILE *in = fopen(v[1], \"rb\"), *out = fopen(v[2], \"wb\");\n"
                   "int64_t h[3]; while (fread(h, 8, 3, in) == 3) { void *b[64]; uint64_t n[64], e = 0;\n"
                   "for (int64_t i = 0; i < h[2]; i++) { if (fread(&n[i], 8, 1, in) != 1) return 1; b[i] = malloc(n[i] + 64);\n"
                   "if (n[i] && fread(b[i], n[i], 1, in) != 1) return 2; }\n"
                   "f[h[0]](b, 0, h[1], &e); fwrite(&e, 8, 1, out);\n"
                   "for (int64_t i = 0; i < h[2]; i++) { fwrite(b[i], 1, n[i], out); free(b[i]); } }\n"
                   "return fclose(out); }\n");
}

static int run_emulated(BitsSuite *suite, const TargetInfo *target, const Run *runs)
{
    if (system("command -v qemu-aarch64-static aarch64-linux-gnu-gcc > /dev/null")) {
        fprintf(stderr, "%s: skipped, no qemu-aarch64-static or aarch64-linux-gnu-gcc\n", target->level);
        return 0;
    }
    char folder[] = "bits-XXXXXX";
    if (!mkdtemp(folder))
        abort();
    Arena *a = suite->arena;
    Text text;
    text_init(&text, a);
    write_driver(suite, &text);
    if (!emit_object(suite, target, arena_printf(a, "%s/k.o", folder)) ||
        !file_write_all(suite->ctx, arena_printf(a, "%s/main.c", folder), text.data, text.len))
        return 1;
    FILE *in = fopen(arena_printf(a, "%s/in", folder), "wb");
    for (uint32_t i = 0; i < suite->kernels.len * ROUNDS; i++) {
        const Kernel *k = suite->kernels.data[i / ROUNDS];
        int64_t head[] = {i / ROUNDS, kernel_tiles(k), k->bufs.len};
        fwrite(head, 8, 3, in);
        for (uint32_t b = 0; b < k->bufs.len; b++) {
            uint64_t bytes = buf_bytes(k->bufs.data[b]);
            fwrite(&bytes, 8, 1, in);
            fwrite(runs[i].start[b], 1, bytes, in);
        }
    }
    fclose(in);
    if (system(arena_printf(a, "cd %s && aarch64-linux-gnu-gcc -static -O1 -o run main.c k.o && qemu-aarch64-static run in out", folder))) {
        fprintf(stderr, "%s: the program failed\n", target->level);
        return 1;
    }
    FILE *out = fopen(arena_printf(a, "%s/out", folder), "rb");
    int bad = 0;
    for (uint32_t i = 0; i < suite->kernels.len * ROUNDS; i++) {
        const Kernel *k = suite->kernels.data[i / ROUNDS];
        uint64_t error;
        if (fread(&error, 8, 1, out) != 1)
            return 1;
        void **got = ARENA_ARRAY(a, void *, k->bufs.len + 1);
        for (uint32_t b = 0; b < k->bufs.len; b++) {
            got[b] = arena_alloc(a, buf_bytes(k->bufs.data[b]) + 16);
            if (buf_bytes(k->bufs.data[b]) && fread(got[b], buf_bytes(k->bufs.data[b]), 1, out) != 1)
                return 1;
        }
        bad += report(k, target->level, (int)(i % ROUNDS), &runs[i], got, error);
    }
    fclose(out);
    if (system(arena_printf(a, "rm -r %s", folder)))
        fprintf(stderr, "%s is left behind\n", folder);
    return bad;
}

int bits_run(BitsSuite *suite)
{
    int bad = 0;
    const TargetInfo *host = cgen_host_target();
    Run *runs = ARENA_ARRAY(suite->arena, Run, suite->kernels.len * ROUNDS);
    for (uint32_t i = 0; i < suite->kernels.len * ROUNDS; i++)
        runs[i] = interpret(suite, suite->kernels.data[i / ROUNDS], (int)(i % ROUNDS));
    for (const TargetInfo *t = cgen_targets(); t->triple; t++) {
        if (!strncmp(t->triple, "aarch64", 7)) {
            bad += suite->emulate ? run_emulated(suite, t, runs) : 0;
        } else if (host && host >= t) {
            bad += run_native(suite, t, runs);
        } else {
            fprintf(stderr, "%s: skipped, this machine cannot run it\n", t->level);
        }
    }
    return bad;
}
