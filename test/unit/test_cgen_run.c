/* SPDX-License-Identifier: Apache-2.0
 * The run function of .o outputs: phases in order, every kind of slot, packed weights, the caller's floating-point state. */
#define _GNU_SOURCE
#include "cgen/cgen.h"
#include "support/unit.h"

#include <dlfcn.h>
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int RunFn(const void *const in[], void *const out[], void *workspace, void *state);

static Kernel *parse(Context *ctx, const char *text)
{
    Kernel *k = kernel_parse(ctx, ctx_arena(ctx), str_intern(ctx, "t"), text, strlen(text));
    assert_non_null(k);
    assert_true(kernel_verify(k));
    return k;
}

static void add_phase(Schedule *s, uint32_t kernel, uint32_t n, const Slot *slots)
{
    Phase phase = {.kernel = kernel, .tiles = kernel_tiles(s->kernels.data[kernel])};
    assert_int_equal(n, s->kernels.data[kernel]->bufs.len);
    phase.slots = arena_copy(s->arena, slots, n * sizeof *slots);
    vec_push(s->arena, &s->phases, phase);
}

/* t = x * w; l = t + t (scratch); y = l - state[0], checked */
static Schedule *make_schedule(Context *ctx)
{
    static const float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    Arena *arena = ctx_arena(ctx);
    Schedule *s = ARENA_NEW(arena, Schedule);
    *s = (Schedule){.ctx = ctx, .arena = arena, .workspace_bytes = 100, .scratch_bytes = 64, .weight_bytes = 96};
    vec_push(arena, &s->kernels, parse(ctx, "kernel \"scale\" {\n  arg x: f32[8]\n  weight w: f32[8]\n  arg t: f32[8] written\n"
                                            "  iter i in [0, 7]\n  for i in 0 .. 8 par {\n    store t[i] = mul.f32(x[i], w[i])\n  }\n}\n"));
    vec_push(arena, &s->kernels, parse(ctx, "kernel \"twice\" {\n  arg t: f32[8]\n  local l: f32[8] written\n  arg s: f32[1]\n"
                                            "  arg y: f32[8] written\n  iter i in [0, 7]\n  for i in 0 .. 8 vec {\n"
                                            "    check lt.bool(t[i], f32(1000)) code 258\n    store l[i] = add.f32(t[i], t[i])\n"
                                            "    store y[i] = sub.f32(l[i], s[0])\n  }\n}\n"));
    Weight *weight = ARENA_NEW(arena, Weight);
    const int64_t dims[] = {8};
    *weight = (Weight){.name = str_intern(ctx, "w"), .type = type_tensor_s64(ctx, DT_F32, 1, dims), .data = data};
    Pack *pack = ARENA_NEW(arena, Pack);
    *pack = (Pack){.weight = weight, .offset = 7, .stride = {-1}}; /* backwards */
    PackedWeight *packed = ARENA_NEW(arena, PackedWeight);
    *packed = (PackedWeight){.name = weight->name, .pack = pack, .dtype = DT_F32, .rank = 1, .dim = {8}, .bytes = 32, .offset = 64};
    vec_push(arena, &s->weights, packed);
    add_phase(s, 0, 3, (Slot[]){{SLOT_INPUT, 1, 0}, {SLOT_WEIGHTS, 0, 64}, {SLOT_WORKSPACE, 0, 64}});
    add_phase(s, 1, 4, (Slot[]){{SLOT_WORKSPACE, 0, 64}, {SLOT_SCRATCH, 0, 0}, {SLOT_STATE, 0, 4}, {SLOT_OUTPUT, 0, 0}});
    return s;
}

static void runs(void **state)
{
    (void)state;
    const TargetInfo *host = cgen_host_target();
    if (!host)
        skip();
    Context *ctx = ctx_create(NULL);
    CgenOptions options = {.target = host, .opt_level = 2, .symbol_suffix = "", .output = CGEN_OBJECT};
    CgenRun run = {make_schedule(ctx), "net", 11};
    Blob object;
    assert_true(cgen_emit_run(ctx, ctx_arena(ctx), &options, &run, &object));
    assert_true(file_write_all(ctx, "run.o", object.data, object.size));
    assert_int_equal(system("ld -shared -z noexecstack -o run.so run.o"), 0);
    void *library = dlopen("./run.so", RTLD_NOW), *address = dlsym(library, "net_run");
    assert_non_null(address);
    assert_null(dlsym(library, "scale")); /* kernels of two models do not clash */
    RunFn *fn;
    memcpy(&fn, &address, sizeof fn);
    float x[8] = {1, 1, 1, 1, 2, 2, 2, 2}, y[8], caller[2] = {100, 0.5f};
    const void *in[] = {NULL, x};
    void *out[] = {y}, *workspace = aligned_alloc(64, 256);
    memset(workspace, 0xff, 256);
    fesetround(FE_UPWARD);
    assert_int_equal(fn(in, out, workspace, caller), 0);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    for (int i = 0; i < 8; i++)
        assert_true(y[i] == 2 * x[i] * (float)(8 - i) - 0.5f);
    x[3] = 1000;
    assert_int_equal(fn(in, out, workspace, caller), 11);
    assert_true(y[0] == 15.5f);
    free(workspace);
    dlclose(library);
    ctx_destroy(ctx);
}

static void every_target(void **state)
{
    (void)state;
    for (const TargetInfo *t = cgen_targets(); t->triple; t++)
        for (int ftz = 0; ftz < 2; ftz++) {
            Context *ctx = ctx_create(NULL);
            CgenOptions options = {.target = t, .opt_level = 1, .symbol_suffix = "", .output = CGEN_OBJECT, .ftz = ftz};
            CgenRun run = {make_schedule(ctx), "net", 11};
            Blob object;
            assert_true(cgen_emit_run(ctx, ctx_arena(ctx), &options, &run, &object));
            ctx_destroy(ctx);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs), cmocka_unit_test(every_target)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
