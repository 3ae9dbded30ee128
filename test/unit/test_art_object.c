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
    /* the run function keeps the caller's rounding out, and restores it */
    "    fesetround(FE_UPWARD);\n"
    "    if (net_run(in, out, ws, state) != 0 || fegetround() != FE_UPWARD) return 3;\n"
    "    fesetround(FE_TONEAREST);\n"
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

/* The image of the fixture, one variant. */
static bool make_image(Fixture *f, ArtMachine machine, const char *compiler)
{
    bool made = fixture_make(f, machine, compiler);
    f->image.n_variants = 1;
    return made;
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

static void test_linked_program(void **state)
{
    (void)state;
    Fixture f;
    assert_true(make_image(&f, FIXTURE_HOST, fixture_cc()));
    if (!art_write_o(ctx, &f.image, "net", "net.o"))
        fail_msg("%d", fixture_print(ctx));
    assert_true(art_write_a(ctx, &f.image, "net", "libnet.a"));
    assert_true(art_write_h(ctx, &f.image, "net", "net.h"));
    fixture_write("main.c", main_c, strlen(main_c));
    assert_int_equal(fixture_shell("%s -Wall -Werror -Wl,--fatal-warnings -o with-o main.c net.o -lm%s", fixture_cc(), ""), 0);
    check_output(&f, "./with-o");
    assert_int_equal(fixture_shell("%s -Wl,--fatal-warnings -o with-a main.c -L. -lnet -lm%s", fixture_cc(), ""), 0);
    check_output(&f, "./with-a");
    assert_int_equal(fixture_shell("readelf -W -a net.o > net.txt 2> net.err && test ! -s net.err%s%s", "", ""), 0);
    assert_int_equal(fixture_shell("test \"$(nm -g net.o | cut -c 18-)\" = 'T net_run'%s%s", "", ""), 0);
    assert_int_equal(fixture_shell("nm net.o | grep -q ' t layer1_fc_scale$'%s%s", "", ""), 0);
    fixture_free(&f);
}

static void test_two_models_in_one_program(void **state)
{
    (void)state;
    static const char text[] = "#include \"one.h\"\n#include \"two.h\"\n"
                               "int main(void) { return one_run == two_run; }\n";
    static const char *const names[2] = {"one", "two"};
    for (int i = 0; i < 2; i++) {
        Fixture f;
            char object[32], header[32];
        snprintf(object, sizeof object, "%s.o", names[i]);
        snprintf(header, sizeof header, "%s.h", names[i]);
        assert_true(make_image(&f, FIXTURE_HOST, fixture_cc()));
        assert_true(art_write_o(ctx, &f.image, names[i], object));
        assert_true(art_write_h(ctx, &f.image, names[i], header));
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
    assert_true(make_image(&f, ART_AARCH64, "aarch64-linux-gnu-gcc"));
    assert_true(art_write_o(ctx, &f.image, "net", "net64.o"));
    assert_true(art_write_h(ctx, &f.image, "net", "net.h"));
    fixture_write("main.c", main_c, strlen(main_c));
    assert_int_equal(fixture_shell("aarch64-linux-gnu-gcc -static -o with-o64 main.c net64.o -lm%s%s", "", ""), 0);
    check_output(&f, "qemu-aarch64-static ./with-o64");
    fixture_free(&f);
}

static void test_refused(void **state)
{
    (void)state;
    Fixture f;
    assert_true(make_image(&f, FIXTURE_HOST, fixture_cc()));
    remove("no.o");
    diag_clear(ctx);
    assert_false(art_write_o(ctx, &f.image, "9lives", "no.o")); /* no identifier */
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_art_limit);
    diag_clear(ctx);
    f.image.n_variants = 2;
    assert_false(art_write_a(ctx, &f.image, "net", "no.o"));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_art_limit);
    assert_int_not_equal(access("no.o", F_OK), 0);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linked_program),
        cmocka_unit_test(test_two_models_in_one_program),
        cmocka_unit_test(test_aarch64_under_emulator),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
