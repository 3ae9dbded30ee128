/* SPDX-License-Identifier: Apache-2.0
 * The shared object: accepted by the loader and by the system's tools, the same bytes every time, readable back, and
 * relocated as a real linker does it. */
#include "support/art_fixture.h"
#include "support/unit.h"
#include <dlfcn.h>
#include <unistd.h>

static Context *ctx;
static Fixture fixture;

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    if (!fixture_make(&fixture, FIXTURE_HOST, fixture_cc()))
        return -1;
    return art_write_so(ctx, &fixture.image, "fixture.so") ? 0 : fixture_print(ctx);
}

static int teardown(void **state)
{
    (void)state;
    fixture_free(&fixture);
    ctx_destroy(ctx);
    return 0;
}

static void test_tools_accept_it(void **state)
{
    (void)state;
    assert_int_equal(fixture_shell("readelf -W -a fixture.so > readelf.txt 2> readelf.err%s%s", "", ""), 0);
    assert_int_equal(fixture_shell("test ! -s readelf.err%s%s", "", ""), 0);
    assert_int_not_equal(fixture_shell("grep -q NEEDED readelf.txt%s%s", "", ""), 0);
    assert_int_not_equal(fixture_shell("readelf -W -s fixture.so | grep UND | grep -qv ' UND *$'%s%s", "", ""), 0);
    assert_int_equal(fixture_shell("grep -q 'There are no relocations' readelf.txt%s%s", "", ""), 0);
    assert_int_equal(fixture_shell("grep -q 'GNU_STACK .* RW ' readelf.txt%s%s", "", ""), 0);
    assert_int_not_equal(fixture_shell("grep -q ' RWE ' readelf.txt%s%s", "", ""), 0);
    assert_int_equal(fixture_shell("objdump -d fixture.so > objdump.txt && grep -q '<mix.*>:' objdump.txt%s%s", "", ""),
                     0);
    assert_int_equal(fixture_shell("grep -q '<layer1_fc_scale.*>:' objdump.txt%s%s", "", ""), 0);
}

static void test_debugger_shows_kernels(void **state)
{
    (void)state;
    if (!fixture_has("gdb"))
        skip();
    const char *mix = FIXTURE_HOST == ART_X86_64 ? "mix.x86_64_v3" : "mix";
    assert_int_equal(
        fixture_shell("gdb -batch -ex \"info line *(char*)&'%s'\" fixture.so 2>&1 | grep -q '<%s'", mix, mix), 0);
}

static void test_loader_accepts_it(void **state)
{
    (void)state;
    void *handle = dlopen("./fixture.so", RTLD_NOW);
    assert_non_null(handle);
    const ArtHeader *h = dlsym(handle, ART_SYMBOL);
    const char *weights = dlsym(handle, "igata_weights");
    assert_non_null(h);
    assert_true(art_check(h, h->bytes));
    assert_ptr_equal(weights, (const char *)h + h->weights);
    assert_memory_equal(weights, "0123456789\0", 11);
    assert_memory_equal(weights + 64, fixture.weight, sizeof fixture.weight);
    assert_int_equal((uintptr_t)weights % 4096, 0);
    dlclose(handle);
}

/* The unwinder finds every kernel through .eh_frame_hdr. */
struct dwarf_eh_bases {
    void *tbase, *dbase, *func;
};
extern const void *_Unwind_Find_FDE(void *pc, struct dwarf_eh_bases *bases);

static void test_unwinder_finds_kernels(void **state)
{
    (void)state;
    void *handle = dlopen("./fixture.so", RTLD_NOW);
    const ArtHeader *h = dlsym(handle, ART_SYMBOL);
    assert_int_equal(h->kernels.count, 3 * fixture.image.n_variants);
    for (uint32_t i = 0; i < h->kernels.count; i++) {
        const uint8_t *code = (const uint8_t *)h + ART_TABLE(h, kernels, ArtRecKernel)[i].code;
        struct dwarf_eh_bases bases = {0};
        assert_non_null(_Unwind_Find_FDE((void *)(uintptr_t)(code + 1), &bases));
        assert_ptr_equal(bases.func, code);
    }
    dlclose(handle);
}

static void test_same_bytes_again(void **state)
{
    (void)state;
    size_t n1, n2;
    assert_true(art_write_so(ctx, &fixture.image, "again.so"));
    uint8_t *one = fixture_read("fixture.so", &n1), *two = fixture_read("again.so", &n2);
    assert_int_equal(n1, n2);
    assert_memory_equal(one, two, n1);
    free(one);
    free(two);
}

static void test_read_back(void **state)
{
    (void)state;
    ArtInfo *info = art_read(ctx, "fixture.so");
    assert_non_null(info);
    const ArtImage *image = &info->image;
    assert_int_equal(image->n_entries, 1);
    const ArtEntry *e = &image->entries[0];
    assert_string_equal(e->name, "main");
    assert_int_equal(e->n_inputs, 3);
    assert_string_equal(e->inputs[2].name, "at");
    assert_int_equal(e->inputs[2].dtype, DT_S32);
    assert_int_equal(e->inputs[2].dims[0], FIXTURE_ROWS);
    assert_int_equal(image->n_variants, fixture.image.n_variants);
    for (uint32_t v = 0; v < image->n_variants; v++) {
        const ArtBody *body = &image->variants[v].bodies[0];
        assert_int_equal(body->workspace_bytes, FIXTURE_TMP(v) + 4 * FIXTURE_N);
        assert_int_equal(body->scratch_bytes_per_slot, (FIXTURE_SCRATCH(v) + 63) / 64 * 64);
        assert_int_equal(body->n_phases, 3);
        assert_int_equal(body->phases[1].tiles, FIXTURE_N / FIXTURE_TILE(v));
        assert_int_equal(body->phases[1].kernel, fixture.phases[v][1].kernel);
        assert_int_equal(body->phases[1].bufs[2].kind, ART_SCRATCH);
        assert_string_equal(body->plan[0].name, "tmp");
        assert_int_equal(body->plan[0].offset, FIXTURE_TMP(v));
        assert_true(image->variants[v].code_bytes > 100);
        assert_int_equal(image->variants[v].n_kernels, 3);
        for (uint32_t k = 0; k < 3; k++)
            assert_string_equal(image->variants[v].kernels[k].symbol, fixture.kernels[v][k].symbol);
        assert_string_equal(image->variants[v].kernels[2].line, fixture.kernels[v][2].line);
    }
    assert_int_equal(image->n_nodes, 2);
    assert_int_equal(image->nodes[1].id, 7);
    assert_string_equal(image->nodes[1].name, "layer2/pick");
    assert_int_equal(image->n_weights, 2);
    assert_int_equal(image->weights[1].offset, 64);
    assert_int_equal(image->n_states, 1);
    assert_int_equal(info->state_bytes, 64);
    assert_memory_equal(image->model_sha256, fixture.image.model_sha256, 32);
    assert_true(art_is_artifact("fixture.so"));
    assert_true(art_verify(ctx, "fixture.so"));
}

static void test_changed_byte_is_noticed(void **state)
{
    (void)state;
    size_t n;
    uint8_t *data = fixture_read("fixture.so", &n);
    data[n / 2] ^= 1;
    fixture_write("changed.so", data, n);
    free(data);
    diag_clear(ctx);
    assert_false(art_verify(ctx, "changed.so"));
    assert_int_equal(diag_get(ctx, diag_count(ctx) - 1)->id, DIAG_art_hash);
}

/* Truncations and flipped bits: refused or read, never a crash (under ASan: never a read outside the block). */
static void test_damaged_description(void **state)
{
    (void)state;
    size_t n;
    uint8_t *good = fixture_read("fixture.so", &n);
    const ArtHeader *h = art_find(good, n);
    assert_non_null(h);
    size_t end = (size_t)((const uint8_t *)h - good) + h->bytes, refused = 0;
    uint64_t random = 1;
    for (int i = 0; i < 4000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t size = i % 4 ? n : (size_t)(random >> 20) % n;
        uint8_t *bad = malloc(size ? size : 1);
        memcpy(bad, good, size);
        for (int k = 0; size == n && k <= i % 3; k++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            bad[(size_t)(random >> 33) % end] ^= (uint8_t)(1u << (random >> 24 & 7));
        }
        if (i % 40 == 0) { /* through the file as well */
            Context *own = ctx_create(NULL);
            fixture_write("bad.so", bad, size);
            art_read(own, "bad.so");
            ctx_destroy(own);
        }
        refused += art_find(bad, size) == NULL;
        free(bad);
    }
    free(good);
    assert_true(refused > 1000);
    diag_clear(ctx);
    fixture_write("bad.so", "\177ELF", 4);
    assert_null(art_read(ctx, "bad.so"));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_art_format);
}

/* One wrong number in the tables of a variant: indices count within the variant, not within the file. */
static void test_contradictions(void **state)
{
    (void)state;
    size_t n;
    uint8_t *data = fixture_read("fixture.so", &n);
    const ArtHeader *h = art_find(data, n);
    assert_non_null(h);
    uint32_t last = h->variants.count - 1;
#define RECORD(table, Rec, i) ((Rec *)(uintptr_t)ART_TABLE(h, table, Rec) + (i))
    ArtRecVariant *v = RECORD(variants, ArtRecVariant, last);
    ArtRecPhase *phase = RECORD(phases, ArtRecPhase, 0);
    ArtRecBody *body = RECORD(bodies, ArtRecBody, last);
    ArtRecBuf *scratch = RECORD(bufs, ArtRecBuf, RECORD(phases, ArtRecPhase, body->first_phase + 1)->first_buf + 2);
    assert_int_equal(scratch->kind, ART_SCRATCH);
    const struct {
        uint32_t *field, bad;
    } cases[] = {
        {&phase->kernel, 3}, /* the first kernel of the next variant */
        {&v->first_kernel, v->first_kernel + 1},
        {&v->n_kernels, 2},
        {&v->first_body, v->first_body + 1},
        {&body->first_phase, body->first_phase + 1},
        {&body->n_plan, 2},
        {&RECORD(plan, ArtRecPlan, 0)->view_of, 2},
        {&RECORD(nodes, ArtRecNode, 1)->name, h->strings.count},
        {&RECORD(entries, ArtRecEntry, 0)->n_outputs, 3},
        {&RECORD(entries, ArtRecEntry, 0)->n_sizes, 1},
        {&RECORD(entries, ArtRecEntry, 0)->n_symbols, 1},
        {&RECORD(entries, ArtRecEntry, 0)->n_found, 1},
        {RECORD(dim_sizes, uint32_t, 0), 1},
    };
    for (size_t i = 0; i < IG_COUNT(cases); i++) {
        uint32_t good = *cases[i].field;
        *cases[i].field = cases[i].bad;
        if (art_find(data, n))
            fail_msg("case %zu is accepted", i);
        *cases[i].field = good;
        assert_non_null(art_find(data, n));
    }
    scratch->offset = body->scratch_bytes + 1;
    assert_null(art_find(data, n));
    scratch->offset = body->scratch_bytes;
    assert_non_null(art_find(data, n));
    body->scratch_bytes -= ART_ALIGN;
    assert_null(art_find(data, n));
    free(data);
}

/* ---- against a real linker ------------------------------------------------------------------------------------ */

static Elf64_Shdr find_section(const uint8_t *elf, const char *name)
{
    Elf64_Ehdr eh;
    Elf64_Shdr sh, names;
    memcpy(&eh, elf, sizeof eh);
    memcpy(&names, elf + eh.e_shoff + eh.e_shstrndx * sizeof sh, sizeof sh);
    for (int i = 1; i < eh.e_shnum; i++) {
        memcpy(&sh, elf + eh.e_shoff + (size_t)i * sizeof sh, sizeof sh);
        if (strcmp((const char *)elf + names.sh_offset + sh.sh_name, name) == 0)
            return sh;
    }
    return (Elf64_Shdr){0};
}

/* Links one object by us, then by the system's linker with our addresses: sections must be equal. */
static void compare_with_linker(ArtMachine machine, const char *linker, ArtObject object, const char *path,
                                const char *symbol)
{
    ArtDef def = {0, symbol};
    ArtKernel kernel = {.symbol = symbol, .nodes = "", .line = "", .classes = ""};
    object.defs = &def;
    object.n_defs = 1;
    ArtVariant variant = {.name = "generic", .kernels = &kernel, .n_kernels = 1, .objects = &object, .n_objects = 1};
    ArtImage image = {.machine = machine, .variants = &variant, .n_variants = 1};
    diag_clear(ctx);
    assert_true(art_write_so(ctx, &image, "ours.so"));
    size_t n1, n2;
    uint8_t *ours = fixture_read("ours.so", &n1);
    char script[1024];
    snprintf(script, sizeof script,
             "SECTIONS { .rodata 0x%llx : { *(.rodata .rodata.*) } .eh_frame 0x%llx : { *(.eh_frame) LONG(0) }\n"
             ".text 0x%llx : { *(.text .text.*) } /DISCARD/ : { *(.note*) *(.comment) } }\n",
             (unsigned long long)find_section(ours, ".rodata").sh_addr,
             (unsigned long long)find_section(ours, ".eh_frame").sh_addr,
             (unsigned long long)find_section(ours, ".text").sh_addr);
    fixture_write("link.ld", script, strlen(script));
    char command[512];
    snprintf(command, sizeof command, "%s -static -e 0 --no-relax -T link.ld -o theirs.elf %s 2> link.err", linker,
             path);
    assert_int_equal(system(command), 0);
    uint8_t *theirs = fixture_read("theirs.elf", &n2);
    static const char *const sections[] = {".text", ".rodata"}; /* linkers rewrite .eh_frame */
    for (int i = 0; i < 2; i++) {
        Elf64_Shdr a = find_section(ours, sections[i]), b = find_section(theirs, sections[i]);
        if (a.sh_size == 0)
            continue;
        assert_int_equal(a.sh_addr, b.sh_addr);
        assert_int_equal(a.sh_size, b.sh_size);
        assert_memory_equal(ours + a.sh_offset, theirs + b.sh_offset, a.sh_size);
    }
    free(ours);
    free(theirs);
    free((void *)(uintptr_t)object.data);
}

static const char table_c[] =
    "static const float table[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};\n"
    "static const char text[] = \"0123456789abcdef\";\n"
    "__attribute__((noinline)) static float other(int i) { return table[i & 7] * 0.7f + (float)text[i & 3]; }\n"
    "float kernel(int i, double x) {\n"
    "    switch (i) { case 0: return other(i) + 2.5f; case 1: return 3.25f; case 2: return other(9) * (float)x;\n"
    "    case 3: return (float)(x * 1.0625); case 4: return other(3); case 5: return table[1] + other(i * 3);\n"
    "    case 6: return (float)x; case 7: return other(i) * 1.75f; }\n"
    "    return 0;\n"
    "}\n";

static void test_c_code_x86_64(void **state)
{
    (void)state;
    if (FIXTURE_HOST != ART_X86_64)
        skip();
    char command[512];
    snprintf(command, sizeof command, "%s" FIXTURE_FLAGS " -fno-merge-constants", fixture_cc());
    ArtObject o = fixture_compile(command, "table", "c", table_c);
    compare_with_linker(ART_X86_64, "ld", o, "table.o", "kernel");
}

static void test_c_code_aarch64(void **state)
{
    (void)state;
    if (!fixture_has("aarch64-linux-gnu-gcc"))
        skip();
    ArtObject o =
        fixture_compile("aarch64-linux-gnu-gcc" FIXTURE_FLAGS " -fno-merge-constants", "table64", "c", table_c);
    compare_with_linker(ART_AARCH64, "aarch64-linux-gnu-ld", o, "table64.o", "kernel");
}

static const char x86_s[] =
    ".text\n.globl kernel\n.hidden other\n.type kernel,@function\nkernel:\n"
    "  call other@PLT\n  jmp other\n  lea data(%rip), %rax\n"
    "  movl data+12(%rip), %edx\n  cmpl $5, data+4(%rip)\n"
    "  movabsq $data-., %r8\n  ret\n"
    ".size kernel, .-kernel\n.globl other\n.type other,@function\nother: ret\n"
    ".section .rodata\n.p2align 4\ndata: .long other-., kernel-.\n .quad other-.\n .long 1,2,3\n";

static void test_every_row_x86_64(void **state)
{
    (void)state;
    if (FIXTURE_HOST != ART_X86_64)
        skip();
    compare_with_linker(ART_X86_64, "ld", fixture_compile(fixture_cc(), "rows", "s", x86_s), "rows.o", "kernel");
}

static const char arm_s[] =
    ".text\n.globl kernel\n.type kernel,%function\nkernel:\n"
    "  bl other\n  b other\n  adrp x0, data\n  add x0, x0, :lo12:data\n  ldrb w1, [x0, :lo12:data+1]\n"
    "  ldrh w1, [x0, :lo12:data+2]\n  ldr w1, [x0, :lo12:data+4]\n  ldr x1, [x0, :lo12:data+8]\n"
    "  ldr q1, [x0, :lo12:data+16]\n  adr x2, other\n  cbz x1, other\n  tbz x1, #3, other\n  ldr x3, other\n"
    "  b.eq other\n  ret\n.size kernel, .-kernel\n"
    ".section .text.z,\"ax\"\n.globl other\n.hidden other\n.type other,%function\nother: ret\n"
    ".section .rodata\n.p2align 4\ndata: .long other-., kernel-.\n .quad other-., 5, 6\n .hword data-.\n .hword 0\n";

static void test_every_row_aarch64(void **state)
{
    (void)state;
    if (!fixture_has("aarch64-linux-gnu-as"))
        skip();
    compare_with_linker(ART_AARCH64, "aarch64-linux-gnu-ld",
                        fixture_compile("aarch64-linux-gnu-gcc", "rows64", "s", arm_s), "rows64.o", "kernel");
}

/* A reference through a global offset table, which there is none of, becomes a direct one. */
static void test_got_reference(void **state)
{
    (void)state;
    if (FIXTURE_HOST != ART_X86_64)
        skip();
    ArtObject object = fixture_compile(fixture_cc(), "got", "s",
                                       ".text\n.globl kernel\n.type kernel,@function\nkernel:\n"
                                       " movq data@GOTPCREL(%rip), %rax\n movl 4(%rax), %eax\n movq (%rdi), %rcx\n"
                                       " movl %eax, (%rcx)\n ret\n.section .rodata\n.globl data\ndata: .long 1, 77\n");
    ArtDef def = {0, "kernel"};
    ArtKernel kernel = {.symbol = "kernel", .nodes = "", .line = "", .classes = ""};
    object.defs = &def;
    object.n_defs = 1;
    ArtVariant variant = {.name = "generic", .kernels = &kernel, .n_kernels = 1, .objects = &object, .n_objects = 1};
    ArtImage image = {.machine = ART_X86_64, .variants = &variant, .n_variants = 1};
    assert_true(art_write_so(ctx, &image, "got.so"));
    void *handle = dlopen("./got.so", RTLD_NOW);
    assert_non_null(handle);
    const ArtHeader *h = dlsym(handle, ART_SYMBOL);
    int out = 0;
    void *buf[1] = {&out};
    uint64_t error = 0;
    union {
        const void *address;
        ArtKernelFn *function;
    } code = {.address = (const uint8_t *)h + ART_TABLE(h, kernels, ArtRecKernel)[0].code};
    code.function(buf, 0, 1, &error);
    assert_int_equal(out, 77);
    dlclose(handle);
    free((void *)(uintptr_t)object.data);
}

/* ---- what is refused ------------------------------------------------------------------------------------------ */

static void refuse(const char *source, const char *suffix, DiagId id)
{
    char command[512];
    snprintf(command, sizeof command, "%s" FIXTURE_FLAGS, fixture_cc());
    ArtObject object = fixture_compile(command, "refused", suffix, source);
    ArtDef def = {0, "kernel"};
    ArtKernel kernel = {.symbol = "kernel", .nodes = "", .line = "", .classes = ""};
    object.defs = &def;
    object.n_defs = 1;
    ArtVariant variant = {.name = "generic", .kernels = &kernel, .n_kernels = 1, .objects = &object, .n_objects = 1};
    ArtImage image = {.machine = FIXTURE_HOST, .variants = &variant, .n_variants = 1};
    assert_non_null(object.data);
    diag_clear(ctx);
    remove("refused.so");
    assert_false(art_write_so(ctx, &image, "refused.so"));
    assert_int_equal(diag_get(ctx, 0)->id, id);
    assert_int_not_equal(access("refused.so", F_OK), 0);
    free((void *)(uintptr_t)object.data);
}

static void test_refused_objects(void **state)
{
    (void)state;
    refuse("int memset_it(int); int kernel(int x) { return memset_it(x) + 1; }", "c", DIAG_art_undefined);
    refuse("int counter = 3; int kernel(int x) { return counter += x; }", "c", DIAG_art_object);
    refuse("int other(int x) { return x; }", "c", DIAG_art_object);
    if (FIXTURE_HOST != ART_X86_64)
        return;
    refuse(".text\n.globl kernel\n.type kernel,@function\nkernel: ret\n.section .rodata\n.quad kernel\n", "s",
           DIAG_art_place);
    refuse(".text\n.globl kernel\n.type kernel,@function\nkernel: .long kernel@SIZE\n", "s", DIAG_art_relocation);
}

static bool no_weight(void *user, ArtSink *sink)
{
    (void)user;
    (void)sink;
    return diag_report(ctx, 0, DIAG_file_read, "weights.bin", "gone");
}

static void test_refused_images(void **state)
{
    (void)state;
    ArtImage image = fixture.image;
    ArtWeight broken = {"w", 0, 8, no_weight, NULL};
    ArtVariant unknown = fixture.variants[0];
    unknown.name = "pentium-17";
    unknown.objects = NULL;
    unknown.n_objects = 0;
    diag_clear(ctx);
    remove("none.so");
    image.weights = &broken;
    image.n_weights = 1;
    image.n_entries = 0;
    assert_false(art_write_so(ctx, &image, "none.so"));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_file_read);
    image = fixture.image;
    image.variants = &unknown;
    image.n_variants = 1;
    assert_false(art_write_so(ctx, &image, "none.so"));
    assert_int_equal(diag_get(ctx, 1)->id, DIAG_art_cpu);
    unknown.features = "+avx2";
    assert_false(art_write_so(ctx, &image, "none.so"));
    assert_int_equal(diag_get(ctx, 2)->id, DIAG_art_kernel);
    image = fixture.image;
    static const int64_t huge[2] = {INT64_MAX, INT64_MAX};
    ArtValue value = {"x", DT_F32, 2, huge, NULL, 0};
    ArtEntry entry = {.name = "e", .inputs = &value, .n_inputs = 1};
    image.entries = &entry;
    diag_clear(ctx);
    assert_false(art_write_so(ctx, &image, "none.so"));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_art_limit);
    assert_int_not_equal(access("none.so", F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tools_accept_it),         cmocka_unit_test(test_debugger_shows_kernels),
        cmocka_unit_test(test_loader_accepts_it),       cmocka_unit_test(test_unwinder_finds_kernels),
        cmocka_unit_test(test_same_bytes_again),        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_changed_byte_is_noticed), cmocka_unit_test(test_damaged_description),
        cmocka_unit_test(test_contradictions),          cmocka_unit_test(test_c_code_x86_64),
        cmocka_unit_test(test_c_code_aarch64),          cmocka_unit_test(test_every_row_x86_64),
        cmocka_unit_test(test_every_row_aarch64),       cmocka_unit_test(test_got_reference),
        cmocka_unit_test(test_refused_objects),         cmocka_unit_test(test_refused_images),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
