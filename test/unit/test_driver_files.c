/* SPDX-License-Identifier: Apache-2.0
 * What the driver writes: the same bytes by any number of threads. An artifact with two CPU variants: each has a schedule of its own, constants are stored once, both give
 * the reference's bits, a CPU without either is refused. Objects and archives: a program links them with the system's compiler and
 * computes the same bits, also for AArch64. A run-time error names the source node by the artifact alone. Kernels carry the names of
 * their nodes for objdump and gdb. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* popen */
#endif
#include "igata_rt.h"
#include "support/artifact_run.h"
#include "support/nets.h"
#include "support/tensors.h"
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Case {
    Context *ctx;
    Arena *arena;
    Net net;
    uint32_t n_in, n_out;
    Tensor *in[4], *want[4];
    Program *program;
} Case;

static const TargetInfo *level(const char *name)
{
    for (const TargetInfo *t = cgen_targets(); t->triple; t++)
        if (strcmp(t->level, name) == 0)
            return t;
    fail_msg("no level %s", name);
    return NULL;
}

static const NetDef *net_named(const char *name)
{
    for (const NetDef *def = net_defs; def->name; def++)
        if (strcmp(def->name, name) == 0)
            return def;
    fail_msg("no net %s", name);
    return NULL;
}

/* The net, its inputs, what it must give, and the program for these levels. */
static Case begin(const NetDef *def, const TargetInfo *first, const TargetInfo *second)
{
    Case c = {.ctx = ctx_create(NULL)};
    DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {first, second}, .n_targets = second ? 2 : 1};
    uint64_t error = 0;
    c.arena = arena_create(c.ctx);
    c.net = net_make(c.ctx, def, 11);
    c.n_in = c.net.func->body->params.len;
    c.n_out = func_n_out(c.net.func);
    assert_true(c.n_in <= 4 && c.n_out <= 4);
    for (uint32_t i = 0; i < c.n_in; i++)
        c.in[i] = tensor_random(c.arena, c.net.func->body->params.data[i]->type, 500 + i, TASTE_TAME);
    assert_true(eval_func(c.ctx, c.arena, EVAL_REF32, c.net.func, c.in, c.want, &error));
    assert_int_equal(error, 0);
    c.program = driver_compile(c.ctx, c.net.module, c.net.func, &options);
    if (!c.program)
        fail_msg("%s", diags_text(c.ctx));
    return c;
}

static void end(Case *c)
{
    driver_destroy(c->program);
    ctx_destroy(c->ctx);
}

static void put_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static bool has(const char *program)
{
    char command[256];
    snprintf(command, sizeof command, "command -v %s > /dev/null 2>&1", program);
    return system(command) == 0;
}

static const char *cc(void)
{
    const char *name = getenv("CC");
    return name && *name ? name : "cc";
}

/* ---- threads of the compiler --------------------------------------------------------------------------------------------------- */

static Blob artifact_by(Arena *arena, const NetDef *def, uint32_t workers, bool *in_parts)
{
    static const char model[] = "stands for the bytes of a model file";
    Context *ctx = ctx_create(NULL);
    Net net = net_make(ctx, def, 11);
    DriverOptions options = {.pass = {.opt_level = 2, .limit = -1}, .target = {level("x86-64-v3"), level("x86-64-v4")}, .n_targets = 2,
                             .workers = workers, .model = {(const uint8_t *)model, sizeof model}};
    Program *program = driver_compile(ctx, net.module, net.func, &options);
    Blob file;
    assert_non_null(program);
    assert_true(driver_write(program, "workers.so") && file_map(ctx, "workers.so", &file));
    *in_parts |= program->variant[0].objects.len > 1;
    file.data = arena_copy(arena, file.data, (size_t)file.size);
    driver_destroy(program);
    ctx_destroy(ctx);
    return file;
}

/* Who generates what, and when, leaves no trace in the artifact. */
static void test_workers(void **state)
{
    (void)state;
    static const uint32_t workers[] = {2, 5, 0};
    bool in_parts = false;
    for (const NetDef *def = net_defs; def->name; def++) {
        Context *ctx = ctx_create(NULL);
        Blob one = artifact_by(ctx_arena(ctx), def, 1, &in_parts);
        for (size_t i = 0; i < IG_COUNT(workers); i++) {
            Blob more = artifact_by(ctx_arena(ctx), def, workers[i], &in_parts);
            assert_int_equal(one.size, more.size);
            if (memcmp(one.data, more.data, (size_t)one.size) != 0)
                fail_msg("%s: %u workers write other bytes than one", def->name, (unsigned)workers[i]);
        }
        ctx_destroy(ctx);
    }
    assert_true(in_parts); /* or nothing was tested */
}

/* ---- variants ----------------------------------------------------------------------------------------------------------------- */

static bool same_schedule(const ArtVariant *a, const ArtVariant *b)
{
    const ArtBody *x = &a->bodies[0], *y = &b->bodies[0];
    if (x->n_phases != y->n_phases || x->scratch_bytes_per_slot != y->scratch_bytes_per_slot)
        return false;
    for (uint32_t i = 0; i < x->n_phases; i++)
        if (x->phases[i].tiles != y->phases[i].tiles || x->phases[i].n_bufs != y->phases[i].n_bufs)
            return false;
    return true;
}

static void test_variants(void **state)
{
    (void)state;
    static const char *const name[2] = {"x86-64-v3", "x86-64-v4"};
    const TargetInfo *host = cgen_host_target();
    uint32_t different = 0;
    for (const NetDef *def = net_defs; def->name; def++) {
        Case c = begin(def, level(name[0]), level(name[1])), alone = begin(def, level(name[1]), NULL);
        assert_true(driver_write(c.program, "both.so"));
        assert_true(driver_write(alone.program, "alone.so"));
        const ArtInfo *both = art_read(c.ctx, "both.so"), *one = art_read(c.ctx, "alone.so");
        assert_true(both && one);
        assert_int_equal(both->image.n_variants, 2);
        assert_true(both->weights_bytes < 2 * one->weights_bytes || one->weights_bytes == 0);
        different += !same_schedule(&both->image.variants[0], &both->image.variants[1]);
        for (int v = 0; v < 2; v++) {
            assert_string_equal(both->image.variants[v].name, name[v]);
            ArtifactCase run = {.arena = c.arena, .path = "both.so", .variant = name[v], .threads = 2, .n_in = c.n_in,
                                .n_out = c.n_out, .in = c.in, .want = c.want};
            if (!host || host < level(name[v]) || strncmp(host->level, "x86-64", 6) != 0)
                continue;
            const char *wrong = artifact_wrong(&run);
            if (wrong)
                fail_msg("%s on %s: %s", def->name, name[v], wrong);
        }
        /* What the description holds for the shared variant is what an artifact of it alone has. */
        assert_true(same_schedule(&both->image.variants[1], &one->image.variants[0]));
        assert_int_equal(both->image.variants[1].bodies[0].peak_bytes, one->image.variants[0].bodies[0].peak_bytes);
        end(&c);
        end(&alone);
    }
    assert_true(different > 0);
    if (!host || strncmp(host->level, "x86-64", 6) != 0)
        return;
    igata_open_options lesser = {.size = sizeof lesser, .cpu_without = UINT64_C(1) << 9 /* fma */};
    igata_model *model;
    assert_int_equal(igata_open("both.so", &lesser, &model), IGATA_E_CPU);
    assert_int_equal(igata_open("both.so", NULL, &model), IGATA_OK);
    igata_model_info info = {.size = sizeof info};
    assert_int_equal(igata_info(model, &info), IGATA_OK);
    assert_string_equal(info.variant, host == level(name[0]) ? name[0] : name[1]);
    igata_close(model);
}

/* ---- objects -------------------------------------------------------------------------------------------------------------------- */

/* Reads in_N.bin, runs twice, prints the outputs to standard output. */
static const char main_c[] =
    "#include \"my_net_2.h\"\n#include <stdio.h>\n#include <string.h>\n"
    "#define ROOM (1 << 20)\n"
    "static _Alignas(64) unsigned char in_room[MY_NET_2_INPUTS][ROOM], out_room[MY_NET_2_OUTPUTS][ROOM];\n"
    "static _Alignas(64) unsigned char ws[MY_NET_2_WORKSPACE_BYTES + 64];\n"
    "static const size_t in_bytes[] = MY_NET_2_INPUT_BYTES, out_bytes[] = MY_NET_2_OUTPUT_BYTES;\n"
    "int main(void) {\n"
    "    const void *in[MY_NET_2_INPUTS]; void *out[MY_NET_2_OUTPUTS];\n"
    "    for (int i = 0; i < MY_NET_2_INPUTS; i++) {\n"
    "        char name[24]; sprintf(name, \"in_%d.bin\", i); FILE *f = fopen(name, \"rb\");\n"
    "        if (!f || in_bytes[i] > ROOM || fread(in_room[i], 1, in_bytes[i], f) != in_bytes[i]) return 1;\n"
    "        fclose(f); in[i] = in_room[i];\n"
    "    }\n"
    "    for (int i = 0; i < MY_NET_2_OUTPUTS; i++) { if (out_bytes[i] > ROOM) return 2; out[i] = out_room[i]; }\n"
    "    for (int run = 0; run < 2; run++) {\n"
    "        memset(out_room, 0xff, sizeof out_room); memset(ws, 0xff, sizeof ws);\n"
    "        if (my_net_2_run(in, out, ws, 0) != 0) return 3;\n"
    "    }\n"
    "    for (int i = 0; i < MY_NET_2_OUTPUTS; i++) fwrite(out[i], 1, out_bytes[i], stdout);\n"
    "    return 0;\n"
    "}\n";

static void check_program(const Case *c, const char *command, const char *what)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    for (uint32_t i = 0; i < c->n_out; i++) {
        const Tensor *want = c->want[i];
        uint64_t bytes = 0, at = 0;
        assert_true(dtype_bytes(want->dtype, want->count, &bytes));
        void *got = arena_alloc(c->arena, bytes);
        if (fread(got, 1, bytes, pipe) != bytes || !tensor_same_bits(want->dtype, got, want->data, want->count, &at))
            fail_msg("%s: output %u differs from element %llu on", what, i, (unsigned long long)at);
    }
    assert_int_equal(fgetc(pipe), EOF);
    assert_int_equal(pclose(pipe), 0);
}

static void check_objects(const TargetInfo *target, const char *compiler, const char *runner)
{
    static const char *const file[] = {"my-net.2.o", "my-net.2.a"};
    char command[512];
    put_file("main.c", main_c, strlen(main_c));
    for (const NetDef *def = net_defs; def->name; def++) {
        Case c = begin(def, target, NULL);
        for (uint32_t i = 0; i < c.n_in; i++) {
            char name[24];
            uint64_t bytes = 0;
            assert_true(dtype_bytes(c.in[i]->dtype, c.in[i]->count, &bytes));
            snprintf(name, sizeof name, "in_%u.bin", i);
            put_file(name, c.in[i]->data, bytes);
        }
        for (size_t i = 0; i < IG_COUNT(file); i++) {
            assert_true(driver_write(c.program, file[i]));
            assert_int_equal(rename("my-net.2.h", "my_net_2.h"), 0);
            snprintf(command, sizeof command, "%s -std=c17 -Wall -Werror -Wl,--fatal-warnings -o program main.c %s", compiler,
                     file[i]);
            assert_int_equal(system(command), 0);
            snprintf(command, sizeof command, "%s ./program", runner);
            check_program(&c, command, def->name);
        }
        end(&c);
    }
}

static void test_objects(void **state)
{
    (void)state;
    const TargetInfo *host = cgen_host_target();
    if (!host || !has(cc()))
        skip();
    check_objects(host, cc(), "");
}

static void test_objects_aarch64(void **state)
{
    (void)state;
    if (!has("aarch64-linux-gnu-gcc") || !has("qemu-aarch64-static"))
        skip();
    check_objects(level("aarch64"), "aarch64-linux-gnu-gcc -static", "qemu-aarch64-static");
}

/* With two levels an object is for the first, and that is said; where the header cannot be written there is no object either. */
static void test_object_files(void **state)
{
    (void)state;
    Case c = begin(net_named("mlp"), level("x86-64-v3"), level("x86-64-v4"));
    uint32_t before = diag_count(c.ctx);
    assert_true(driver_write(c.program, "9.o"));
    assert_int_equal(diag_get(c.ctx, before)->id, DIAG_driver_one_cpu);
    assert_int_equal(system("grep -q 'int m9_run(' 9.h"), 0);
    assert_true(driver_write(c.program, "9.ll"));
    assert_int_equal(diag_get(c.ctx, before + 1)->id, DIAG_driver_one_cpu);
    assert_true(driver_write(c.program, "9.so"));
    assert_int_equal(diag_count(c.ctx), before + 2);
    assert_int_equal(system("mkdir -p blocked.h"), 0);
    assert_false(driver_write(c.program, "blocked.o"));
    assert_int_not_equal(access("blocked.o", F_OK), 0);
    assert_false(driver_write(c.program, "net.dll"));
    assert_int_equal(diag_get(c.ctx, diag_count(c.ctx) - 1)->id, DIAG_driver_output);
    end(&c);
}

/* ---- what an artifact says ---------------------------------------------------------------------------------------------------- */

/* An index out of range: the artifact alone says in which node of the model. */
static void test_error_names_node(void **state)
{
    (void)state;
    const TargetInfo *host = cgen_host_target();
    if (!host)
        skip();
    Case c = begin(net_named("moves"), host, NULL);
    const char *want = NULL;
    igata_model *model;
    void *io[8];
    uint64_t error = 0;
    REGION_FOREACH(node, c.net.func->body)
        if (node->op == OP_gather)
            want = loc_name(c.ctx, node->loc);
    assert_true(driver_write(c.program, "moves.so"));
    assert_int_equal(igata_open("moves.so", NULL, &model), IGATA_OK);
    for (uint32_t i = 0; i < c.n_in + c.n_out; i++) {
        igata_value value = {.size = sizeof value};
        assert_int_equal(igata_io_info(model, 0, i, &value), IGATA_OK);
        io[i] = aligned_alloc(64, (value.bytes + 64) / 64 * 64);
        assert_non_null(io[i]);
        if (i < c.n_in)
            memcpy(io[i], c.in[i]->data, value.bytes);
    }
    ((int64_t *)io[1])[2] = 99;
    void *workspace = aligned_alloc(64, igata_workspace(model, 0, 1));
    assert_int_equal(igata_run_report(model, 0, io, workspace, NULL, &error), IGATA_E_INDEX);
    assert_non_null(igata_error_node(model, error));
    assert_string_equal(igata_error_node(model, error), want);
    for (uint32_t i = 0; i < c.n_in + c.n_out; i++)
        free(io[i]);
    free(workspace);
    igata_close(model);
    end(&c);
}

/* The name that tools show for a kernel of a variant: art_link.c replaces what is no part of an assembler name. */
static void shown(char *out, size_t size, const char *symbol, const char *variant)
{
    snprintf(out, size, "%s.%s", symbol, variant);
    for (char *p = out; *p; p++)
        if (*p == '-')
            *p = '_';
}

static void test_tools_show_kernels(void **state)
{
    (void)state;
    if (!has("objdump") || cgen_host_target() == NULL || strncmp(cgen_host_target()->level, "x86-64", 6) != 0)
        skip();
    Case c = begin(net_named("cnn"), level("x86-64-v3"), level("x86-64-v4"));
    char name[256], command[1024];
    assert_true(driver_write(c.program, "tools.so"));
    const ArtInfo *info = art_read(c.ctx, "tools.so");
    assert_non_null(info);
    assert_int_equal(system("objdump -d tools.so > tools.asm 2> tools.err && test ! -s tools.err"), 0);
    for (uint32_t v = 0; v < 2; v++)
        for (uint32_t k = 0; k < info->image.variants[v].n_kernels; k++) {
            shown(name, sizeof name, info->image.variants[v].kernels[k].symbol, info->image.variants[v].name);
            snprintf(command, sizeof command, "grep -qF '<%s>:' tools.asm", name);
            if (system(command) != 0)
                fail_msg("objdump does not show %s", name);
        }
    if (has("gdb")) {
        snprintf(command, sizeof command, "gdb -batch -nx -ex \"info address %s\" tools.so 2> gdb.err | grep -q 'is at 0x'", name);
        assert_int_equal(system(command), 0);
    }
    end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_objects_aarch64),
        cmocka_unit_test(test_object_files),
        cmocka_unit_test(test_error_names_node),
        cmocka_unit_test(test_tools_show_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
