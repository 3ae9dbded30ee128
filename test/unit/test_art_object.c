/* SPDX-License-Identifier: Apache-2.0
 * Relocatable objects and archives: linked by the system's linker into a program that uses the generated header, alone
 * and two together, natively and for AArch64 under an emulator. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* popen */
#endif
#include "support/art_fixture.h"
#include "support/unit.h"
#include <unistd.h>

static Context *ctx;

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ctx_destroy(ctx);
    return 0;
}

/* What the driver makes with the code generator: one function that calls the kernels. %s: prefix. */
static const char run_c[] =
    "typedef long long i64; typedef unsigned long long u64;\n"
    "typedef void kernel(void *const *, i64, i64, u64 *);\n"
    "kernel scale, mix, pick;\n"
    "extern const char PREFIX(weights)[] __attribute__((visibility(\"hidden\")));\n"
    "__attribute__((visibility(\"default\")))\n"
    "int PREFIX(run)(const void *const in[], void *const out[], void *workspace, void *state) {\n"
    "    u64 error = 0; char *w = workspace;\n"
    "    { void *b[] = {(void *)in[0], (void *)(PREFIX(weights) + 64), w + 128}; scale(b, 0, 256, &error); }\n"
    "    { void *b[] = {w + 128, (void *)in[1], w + 16512 + 64, out[0]}; mix(b, 0, 256, &error); }\n"
    "    { void *b[] = {out[0], (void *)in[2], out[1], state}; pick(b, 0, 1, &error); }\n"
    "    return error ? 11 : 0;\n"
    "}\n";

/* Prints a checksum of outputs; exits with 1 where an error is not reported. */
static const char main_c[] =
    "#include \"net.h\"\n#include <fenv.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <string.h>\n"
    "static _Alignas(64) float a[4096], b[4096], y[4096], picked[48];\n"
    "static _Alignas(64) int at[48]; static _Alignas(64) char ws[NET_WORKSPACE_BYTES], state[NET_STATE_BYTES];\n"
    "int main(void) {\n"
    "    _Static_assert(NET_INPUTS == 3 && NET_OUTPUTS == 2 && NET_INPUT_0_BYTES == sizeof a, \"\");\n"
    "    _Static_assert(NET_OUTPUT_1_BYTES == 160 && NET_ALIGN == 64, \"\");\n"
    "    for (int i = 0; i < 4096; i++) a[i] = (float)(i % 101) * 0.5f - 20.0f, b[i] = (float)(i % 53) * 0.125f + "
    "0.0625f;\n"
    "    for (int i = 0; i < 40; i++) at[i] = i * 97 % 4096;\n"
    "    const void *in[] = {a, b, at}; void *out[] = {y, picked};\n"
    "    at[1] = -5;\n    if (net_run(in, out, ws, state) != 11) return 1;\n"
    "    at[1] = 97;\n    if (net_run(in, out, ws, state) != 0 || *(uint64_t *)state != 2) return 2;\n"
    "#ifdef OWN\n" /* the writer's run function keeps the caller's rounding out, and restores it */
    "    fesetround(FE_UPWARD);\n"
    "    if (net_run(in, out, ws, state) != 0 || fegetround() != FE_UPWARD) return 3;\n"
    "    fesetround(FE_TONEAREST);\n"
    "#endif\n"
    "    uint64_t h = 0;\n"
    "    for (int i = 0; i < 4096; i++) { uint32_t u; memcpy(&u, &y[i], 4); h = h * 31 + u; }\n"
    "    for (int i = 0; i < 40; i++) { uint32_t u; memcpy(&u, &picked[i], 4); h = h * 31 + u; }\n"
    "    printf(\"%016llx\\n\", (unsigned long long)h);\n"
    "    return 0;\n"
    "}\n";

static uint64_t expected(const Fixture *f)
{
    void *io[5];
    uint64_t h = 0;
    fixture_io(io);
    for (int i = 0; i < FIXTURE_N; i++)
        h = h * 31 + f32_bits(fixture_expect(f, io[0], io[1], i));
    for (int i = 0; i < FIXTURE_ROWS; i++)
        h = h * 31 + f32_bits(fixture_expect(f, io[0], io[1], ((int32_t *)io[2])[i]));
    fixture_free_io(io);
    return h;
}

static ArtObject make_run(const char *compiler, const char *prefix)
{
    char command[512], stem[64];
    snprintf(command, sizeof command, "%s" FIXTURE_FLAGS " '-DPREFIX(x)=%s_##x'", compiler, prefix);
    snprintf(stem, sizeof stem, "run-%s", prefix);
    return fixture_compile(command, stem, "c", run_c);
}

/* The image of the fixture, one variant, with a run function. */
static bool make_image(Fixture *f, ArtMachine machine, const char *compiler, const char *prefix, ArtObject *run)
{
    if (!fixture_make(f, machine, compiler))
        return false;
    f->image.n_variants = 1;
    *run = (ArtObject){0};
    if (!prefix) /* the writer's own run function */
        return true;
    *run = make_run(compiler, prefix);
    f->image.run_objects = run;
    f->image.n_run_objects = 1;
    return run->data != NULL;
}

static void check_output(const Fixture *f, const char *command)
{
    char line[64] = "", want[64];
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *got = fgets(line, sizeof line, pipe);
    assert_int_equal(pclose(pipe), 0);
    assert_non_null(got);
    snprintf(want, sizeof want, "%016llx\n", (unsigned long long)expected(f));
    assert_string_equal(line, want);
}

static void check_linked_program(const char *own_run)
{
    Fixture f;
    ArtObject run;
    assert_true(make_image(&f, FIXTURE_HOST, fixture_cc(), own_run, &run));
    if (!art_write_o(ctx, &f.image, "net", "net.o"))
        fail_msg("%d", fixture_print(ctx));
    assert_true(art_write_a(ctx, &f.image, "net", "libnet.a"));
    assert_true(art_write_h(ctx, &f.image, "net", "net.h"));
    fixture_write("main.c", main_c, strlen(main_c));
    assert_int_equal(fixture_shell("%s -Wall -Werror -Wl,--fatal-warnings -o with-o main.c net.o -lm %s", fixture_cc(),
                                   own_run ? "" : "-DOWN"),
                     0);
    check_output(&f, "./with-o");
    assert_int_equal(fixture_shell("%s -Wl,--fatal-warnings -o with-a main.c -L. -lnet -lm%s", fixture_cc(), ""), 0);
    check_output(&f, "./with-a");
    assert_int_equal(fixture_shell("readelf -W -a net.o > net.txt 2> net.err && test ! -s net.err%s%s", "", ""), 0);
    assert_int_equal(fixture_shell("test \"$(nm -g net.o | cut -c 18-)\" = 'T net_run'%s%s", "", ""), 0);
    assert_int_equal(fixture_shell("nm net.o | grep -q ' t layer1_fc_scale$'%s%s", "", ""), 0);
    free((void *)(uintptr_t)run.data);
    fixture_free(&f);
}

static void test_linked_program(void **state)
{
    (void)state;
    check_linked_program(NULL);
}

static void test_linked_program_with_run_object(void **state)
{
    (void)state;
    check_linked_program("net");
}

static void test_two_models_in_one_program(void **state)
{
    (void)state;
    static const char text[] = "#include \"one.h\"\n#include \"two.h\"\n"
                               "int main(void) { return one_run == two_run; }\n";
    static const char *const names[2] = {"one", "two"};
    for (int i = 0; i < 2; i++) {
        Fixture f;
        ArtObject run;
        char object[32], header[32];
        snprintf(object, sizeof object, "%s.o", names[i]);
        snprintf(header, sizeof header, "%s.h", names[i]);
        assert_true(make_image(&f, FIXTURE_HOST, fixture_cc(), names[i], &run));
        assert_true(art_write_o(ctx, &f.image, names[i], object));
        assert_true(art_write_h(ctx, &f.image, names[i], header));
        free((void *)(uintptr_t)run.data);
        fixture_free(&f);
    }
    fixture_write("two.c", text, sizeof text - 1);
    assert_int_equal(fixture_shell("%s -o both two.c one.o two.o && ./both%s", fixture_cc(), ""), 0);
}

static void test_aarch64_under_emulator(void **state)
{
    (void)state;
    if (!fixture_has("aarch64-linux-gnu-gcc") || !fixture_has("qemu-aarch64-static"))
        skip();
    Fixture f;
    ArtObject run;
    for (int own = 0; own < 2; own++) {
        assert_true(make_image(&f, ART_AARCH64, "aarch64-linux-gnu-gcc", own ? NULL : "net", &run));
        assert_true(art_write_o(ctx, &f.image, "net", "net64.o"));
        assert_true(art_write_h(ctx, &f.image, "net", "net.h"));
        fixture_write("main.c", main_c, strlen(main_c));
        assert_int_equal(
            fixture_shell("aarch64-linux-gnu-gcc -static -o with-o64 main.c net64.o -lm %s%s", own ? "-DOWN" : "", ""),
            0);
        check_output(&f, "qemu-aarch64-static ./with-o64");
        free((void *)(uintptr_t)run.data);
        fixture_free(&f);
    }
}

static void test_refused(void **state)
{
    (void)state;
    Fixture f;
    ArtObject run;
    assert_true(make_image(&f, FIXTURE_HOST, fixture_cc(), "net", &run));
    remove("no.o");
    diag_clear(ctx);
    assert_false(art_write_o(ctx, &f.image, "9lives", "no.o")); /* no identifier */
    assert_false(art_write_o(ctx, &f.image, "other", "no.o"));  /* nothing defines other_run */
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_art_limit);
    assert_int_equal(diag_get(ctx, 1)->id, DIAG_art_undefined);
    diag_clear(ctx);
    f.image.n_variants = 2;
    assert_false(art_write_a(ctx, &f.image, "net", "no.o"));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_art_limit);
    assert_int_not_equal(access("no.o", F_OK), 0);
    free((void *)(uintptr_t)run.data);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linked_program),
        cmocka_unit_test(test_linked_program_with_run_object),
        cmocka_unit_test(test_two_models_in_one_program),
        cmocka_unit_test(test_aarch64_under_emulator),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
