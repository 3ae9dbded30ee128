/* SPDX-License-Identifier: Apache-2.0
 * The examples build against the public header alone and work on an artifact; the runtime links statically, where it
 * maps artifacts by itself; and it works on AArch64 under an emulator. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* popen */
#endif
#include "support/art_fixture.h"
#include "support/unit.h"

static const char *source; /* the repository */

static int setup(void **state)
{
    (void)state;
    source = getenv("SRC");
    if (!source)
        source = "../..";
    return 0;
}

/* The line of output that begins with `name`, compared with what y's first elements must be. */
static void check_run(const Fixture *f, const char *command)
{
    float a[FIXTURE_N], b[FIXTURE_N];
    char line[1024], want[1024];
    for (int i = 0; i < FIXTURE_N; i++)
        a[i] = b[i] = (float)(i % 17) * 0.125f;
    int n = snprintf(want, sizeof want, "y [4096] =");
    for (int i = 0; i < 8; i++)
        n += snprintf(want + n, sizeof want - (size_t)n, " %.9g", (double)fixture_expect(f, a, b, i));
    snprintf(want + n, sizeof want - (size_t)n, " ...\n");
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *first = fgets(line, sizeof line, pipe);
    assert_non_null(first);
    assert_string_equal(line, want);
    first = fgets(line, sizeof line, pipe);
    assert_int_equal(pclose(pipe), 0);
    assert_non_null(first);
    assert_true(strncmp(line, "picked [40] =", 13) == 0);
}

static int build(const char *compiler, const char *flags, const char *out)
{
    char command[2048];
    snprintf(command, sizeof command,
             "%s -std=c17 -O1 -I%s/include -I%s/src %s/examples/run_artifact.c %s/src/rt/*.c -lpthread -o %s %s",
             compiler, source, source, source, source, out, flags);
    return system(command);
}

static void make(ArtMachine machine, const char *compiler, Fixture *f)
{
    Context *ctx = ctx_create(NULL);
    assert_true(fixture_make(f, machine, compiler));
    assert_true(art_write_so(ctx, &f->image, machine == ART_AARCH64 ? "arm.so" : "fixture.so"));
    ctx_destroy(ctx);
    fixture_free(f);
}

static void test_run_artifact(void **state)
{
    (void)state;
    Fixture f;
    make(FIXTURE_HOST, fixture_cc(), &f);
    if (FIXTURE_HOST != ART_X86_64)
        skip();
    assert_int_equal(build(fixture_cc(), "-Wall -Wextra -Werror", "run_artifact"), 0);
    check_run(&f, "./run_artifact fixture.so");
    check_run(&f, "./run_artifact fixture.so -t 3");
    assert_int_not_equal(system("./run_artifact missing.so 2> missing.err"), 0);
    assert_int_equal(system("grep -q 'cannot be opened' missing.err"), 0);
    fixture_write("at.bin", "\1\0\0\0", 4);
    assert_int_not_equal(system("./run_artifact fixture.so at=at.bin 2> short.err"), 0);
    assert_int_equal(system("grep -q '160 bytes of input at' short.err"), 0);
    int32_t rows[FIXTURE_ROWS] = {0};
    rows[4] = FIXTURE_N; /* out of range */
    fixture_write("at.bin", rows, sizeof rows);
    assert_int_not_equal(system("./run_artifact fixture.so at=at.bin 2> index.err"), 0);
    assert_int_equal(system("grep -q 'layer2/pick.*an index was out of range' index.err"), 0);
}

static void test_static_program(void **state)
{
    (void)state;
    Fixture f;
    if (FIXTURE_HOST != ART_X86_64)
        skip();
    make(FIXTURE_HOST, fixture_cc(), &f);
    if (build(fixture_cc(), "-static 2> static.err", "run_static") != 0)
        skip(); /* no static libc here */
    check_run(&f, "./run_static fixture.so -t 2");
}

static void test_aarch64(void **state)
{
    (void)state;
    if (!fixture_has("aarch64-linux-gnu-gcc") || !fixture_has("qemu-aarch64-static"))
        skip();
    Fixture f;
    make(ART_AARCH64, "aarch64-linux-gnu-gcc", &f);
    assert_int_equal(build("aarch64-linux-gnu-gcc", "-static -Wall -Wextra -Werror 2> static.err", "run_arm"), 0);
    check_run(&f, "qemu-aarch64-static ./run_arm arm.so");
    check_run(&f, "qemu-aarch64-static ./run_arm arm.so -t 2");
    assert_int_equal(build("aarch64-linux-gnu-gcc", "-Wall -Wextra -Werror", "run_arm_dynamic"), 0);
    check_run(&f, "qemu-aarch64-static -L /usr/aarch64-linux-gnu ./run_arm_dynamic arm.so"); /* its dlopen takes it */
}

/* link_object.c with a model of one f32 output in place of a real one. */
static void test_link_object(void **state)
{
    (void)state;
    static const int64_t dims[1] = {4};
    static const char code[] =
        "void kernel(void *const *b, long long lo, long long hi, unsigned long long *e) {\n"
        "    (void)e; for (long long i = lo; i < hi; i++) ((float *)b[1])[i] = ((float *)b[0])[i] + i;\n"
        "}\n";
    char command[1024];
    Context *ctx = ctx_create(NULL);
    snprintf(command, sizeof command, "%s" FIXTURE_FLAGS, fixture_cc());
    ArtDef def = {0, "kernel"};
    ArtObject object = fixture_compile(command, "net-code", "c", code);
    object.defs = &def;
    object.n_defs = 1;
    ArtKernel kernel = {.symbol = "kernel", .nodes = "", .line = "", .classes = ""};
    ArtBuf bufs[] = {{.kind = ART_INPUT, .index = 0, .offset = 0}, {.kind = ART_OUTPUT, .index = 0, .offset = 0}};
    ArtPhase phase = {0, 4, bufs, 2};
    ArtBody body = {.phases = &phase, .n_phases = 1};
    ArtVariant variant = {.name = "generic", .bodies = &body, .kernels = &kernel, .n_kernels = 1, .objects = &object, .n_objects = 1};
    ArtValue x = {"x", DT_F32, 1, dims, NULL, 0}, y = {"y", DT_F32, 1, dims, NULL, 0};
    ArtEntry entry = {.name = "main", .inputs = &x, .outputs = &y, .n_inputs = 1, .n_outputs = 1};
    ArtImage image = {.machine = FIXTURE_HOST, .entries = &entry, .n_entries = 1, .variants = &variant, .n_variants = 1};
    assert_non_null(object.data);
    assert_true(art_write_o(ctx, &image, "net", "net.o"));
    assert_true(art_write_h(ctx, &image, "net", "net.h"));
    snprintf(command, sizeof command,
             "%s -std=c17 -Wall -Wextra -Werror -I. %s/examples/link_object.c net.o -o link_object", fixture_cc(),
             source);
    assert_int_equal(system(command), 0);
    assert_int_equal(system("test \"$(./link_object | tr '\\n' ' ')\" = '0 1 2 3 '"), 0);
    free((void *)(uintptr_t)object.data);
    ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_artifact),
        cmocka_unit_test(test_static_program),
        cmocka_unit_test(test_aarch64),
        cmocka_unit_test(test_link_object),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
