/* SPDX-License-Identifier: Apache-2.0
 * The text form: fixed points, forms kept exactly, weights in files and in memory, what is refused and where. */
#include "support/unit.h"

#include "ir/ir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static Module *parse(const char *text) { return ir_parse(ctx, str_intern(ctx, "t.ig"), text, strlen(text)); }

static const char *print(const Module *module)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    ir_print(&text, module);
    return text.data;
}

static const char *report(void)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    for (uint32_t i = 0; i < diag_count(ctx); i++) {
        diag_print(ctx, &text, diag_get(ctx, i));
        text_add(&text, "\n");
    }
    return text.data;
}

/* ---- fixed points ------------------------------------------------------------------------------------------------ */

static const char *sample_folder(void)
{
    const char *source = getenv("SRC");
    return arena_printf(ctx_arena(ctx), "%s/test/ir", source ? source : ".");
}

static void check_fixed_point(const char *path)
{
    Module *module = ir_load(ctx, path);
    if (!module)
        fail_msg("%s: %s", path, report());
    const char *first = print(module);
    Module *again = parse(first);
    if (!again)
        fail_msg("%s printed: %s", path, report());
    assert_string_equal(print(again), first);
    assert_true(ir_verify(again));
    Module *clone = module_clone(again);
    assert_string_equal(print(clone), first);
    module_destroy(clone);
    module_destroy(again);
    module_destroy(module);
}

static void test_samples_are_fixed_points(void **state)
{
    (void)state;
    const char *folder = sample_folder();
    DIR *dir = opendir(folder);
    int n = 0;
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot && strcmp(dot, ".ig") == 0 && ++n)
            check_fixed_point(path_join(ctx_arena(ctx), folder, entry->d_name));
    }
    closedir(dir);
    assert_in_range(n, 4, 1000);
}

/* Printed exactly as written: the canonical form, including what is easily lost. */
static void test_canonical_text_is_kept(void **state)
{
    (void)state;
    const char *text =
        "sym N in [1, 512]\n"
        "sym \"a b\" in [0, 4] unbacked\n"
        "meta \"k\" \"v\\x01\\\"\"\n"
        "loc #1 = fused [text \"a\" 1:1, text \"a\" 1:2, text \"a\" 1:3, text \"a\" 1:4, text \"a\" 1:5, none]\n"
        "weight @w : f32[2,2] = [1, -0.125, nan, bits 0xffc00001]\n"
        "state @kv : f16[2,N]\n"
        "\n"
        "entry func @main(%0 : f32[N,\"a b\"] \"x\", %1 : f32[1,2*N-1] \"\") -> (\"y\") {\n"
        "  %2, %3 = topk %0 {axis=0, size=min(N,2), kind=max} : f32[1], s64[1]  loc(from \"p\" #1)\n"
        "  %4 = layer_norm %0, %1, _ {axes=[0,-1], epsilon=-0} : f32[N]  loc(none)\n"
        "  yield %2  loc(onnx \"m\" \"g\" 4294967295 \"n\" \"Op\")\n"
        "}\n";
    Module *module = parse(text);
    if (!module)
        fail_msg("%s", report());
    const char *kept = print(module);
    /* `none` drops out of a fused location; it is short now, and what is derived from it is long */
    assert_non_null(strstr(kept, "loc #1 = from \"p\" fused [text \"a\" 1:1, text \"a\" 1:2, text \"a\" 1:3"));
    assert_non_null(strstr(kept, "  loc(#1)\n"));
    const char *rest = strstr(text, "weight @w"), *rest_end = strstr(text, "  loc(from");
    assert_non_null(strstr(kept, arena_printf(ctx_arena(ctx), "%.*s", (int)(rest_end - rest), rest)));
    assert_non_null(strstr(kept, strstr(text, "  %4 =")));
    assert_memory_equal(kept, text, strcspn(text, "#") - strlen("loc "));
    module_destroy(module);
}

static void test_long_location_chains_are_named_once(void **state)
{
    (void)state;
    Module *module = parse("entry func @f(%x : f32[] \"x\") -> (\"y\") { %y = neg %x : f32[] yield %y }");
    Node *neg = module->funcs.data[0]->body->first;
    for (int i = 0; i < 300; i++) /* doubling: written out it would have 2^300 parts */
        neg->loc = loc_fused(ctx, (Loc[]){loc_from(ctx, neg->loc, "a"), loc_from(ctx, neg->loc, "b")}, 2);
    const char *first = print(module);
    assert_in_range(strlen(first), 100, 100000);
    Module *again = parse(first);
    assert_non_null(again);
    assert_string_equal(print(again), first);
    assert_int_equal(again->funcs.data[0]->body->first->loc, neg->loc);
    module_destroy(again);
    module_destroy(module);
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

static Module *module_with_weight(uint32_t n, const char *name)
{
    Module *module = module_create(ctx);
    float *data = ARENA_ARRAY(ctx_arena(ctx), float, n);
    for (uint32_t i = 0; i < n; i++)
        data[i] = (float)i + 0.5f;
    const Type *type = type_tensor_s64(ctx, DT_F32, 1, (int64_t[]){n});
    AttrVal value = attr_weight(module_weight(module, str_intern(ctx, name), type, data, false));
    Func *func = module_func(module, str_intern(ctx, "main"), true);
    Builder b = ir_at_end(func->body, loc_text(ctx, str_intern(ctx, "w"), 1, 1));
    Node *node = ir_emit(&b, OP_const, NULL, 0, attrs_make(ctx, &value, 1), &type, 1);
    func_yield(func, b.loc, (Val *[]){&node->out[0]}, (Str[]){str_intern(ctx, "y")}, 1);
    return module;
}

static void test_large_weights_go_to_a_file(void **state)
{
    (void)state;
    Module *module = module_with_weight(1000, "big");
    assert_true(ir_save(module, "./saved.ig"));
    Module *loaded = ir_load(ctx, "saved.ig");
    if (!loaded)
        fail_msg("%s", report());
    const Weight *weight = loaded->weights.data[0];
    assert_string_equal(weight->name, "big");
    assert_int_equal(weight->hash, module->weights.data[0]->hash);
    assert_memory_equal(weight->data, module->weights.data[0]->data, 4000);
    assert_non_null(strstr(print(loaded), "= file \"saved.igw\" @0, hash 0x"));
    /* saved again, nothing is copied; with a new weight, all of the file is written anew */
    assert_true(ir_save(loaded, "saved.ig"));
    float *more = ARENA_ARRAY(ctx_arena(ctx), float, 100);
    const Type *type = type_tensor_s64(ctx, DT_F32, 1, (int64_t[]){100});
    module_weight(loaded, str_intern(ctx, "more"), type, more, true);
    assert_true(ir_save(loaded, "saved.ig"));
    Module *both = ir_load(ctx, "saved.ig");
    assert_non_null(both);
    assert_int_equal(both->weights.len, 2);
    assert_memory_equal(both->weights.data[0]->data, module->weights.data[0]->data, 4000);
    module_destroy(both);
    module_destroy(loaded);
    module_destroy(module);
}

static void test_weights_in_memory_are_found_by_hash(void **state)
{
    (void)state;
    Module *module = module_with_weight(65, "w");
    const char *text = print(module);
    assert_non_null(strstr(text, "= memory, hash 0x"));
    Module *again = parse(text);
    assert_non_null(again);
    assert_ptr_equal(again->weights.data[0]->data, module->weights.data[0]->data);
    module_destroy(again);
    module_destroy(module);
    assert_null(parse(text)); /* nobody holds it now */
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_ir_weight);
}

/* ---- refusals -------------------------------------------------------------------------------------------------------- */

#define IN_MAIN(body) "entry func @f(%x : f32[4] \"x\") -> (\"y\") {\n" body "\n}"

typedef struct Bad {
    DiagId id;
    const char *where, *text;
} Bad;

static const Bad bad[] = {
    {DIAG_ir_syntax, "t.ig:1:1", "frobnicate"},
    {DIAG_ir_syntax, "t.ig:2:5", "sym N\n    [1, 2]"},
    {DIAG_ir_syntax, "t.ig:1:6", "meta \"no end"},
    {DIAG_ir_syntax, "t.ig:1:6", "meta \"\\q\" \"\""},
    {DIAG_ir_syntax, "t.ig:1:6", "meta \"\\x00\" \"\""},
    {DIAG_ir_syntax, "t.ig:1:14", "entry func @f"},
    {DIAG_ir_syntax, "t.ig:1:12", "entry func f() -> () { yield }"},
    {DIAG_ir_syntax, "t.ig:3:1", IN_MAIN("%y = neg %x")},
    {DIAG_ir_syntax, "t.ig:2:13", IN_MAIN("%y = neg %x f32[4] yield %y")},
    {DIAG_ir_syntax, "t.ig:2:32", IN_MAIN("%y = reduce %x {axes=[0], kind=} : f32[1] yield %y")},
    {DIAG_ir_syntax, "t.ig:2:26", IN_MAIN("%y = neg %x : f32[4] loc(elsewhere) yield %y")},
    {DIAG_ir_value, "t.ig:1:14", "sym N in [3, 2]"},
    {DIAG_ir_value, "t.ig:1:17", "sym N in [1, 2] unbacked"},
    {DIAG_ir_value, "t.ig:1:11", "sym N in [99999999999999999999, 2]"},
    {DIAG_ir_value, "t.ig:1:19", "state @s : f32[1-2]"},
    {DIAG_ir_value, "t.ig:1:16", "state @s : f32[floordiv(1,0)]"},
    {DIAG_ir_value, "t.ig:1:22", "weight @w : s8[1] = [128]"},
    {DIAG_ir_value, "t.ig:1:26", "weight @w : f4e2m1[1] = [inf]"},
    {DIAG_ir_value, "t.ig:3:1", IN_MAIN("yield %x, %x")},
    {DIAG_ir_unknown, "t.ig:2:6", IN_MAIN("%y = frobnicate %x : f32[4] yield %y")},
    {DIAG_ir_unknown, "t.ig:2:10", IN_MAIN("%y = neg %z : f32[4] yield %y")},
    {DIAG_ir_unknown, "t.ig:2:10", IN_MAIN("%y = neg %y : f32[4] yield %y")},
    {DIAG_ir_unknown, "t.ig:2:15", IN_MAIN("%y = neg %x : f33[4] yield %y")},
    {DIAG_ir_unknown, "t.ig:2:19", IN_MAIN("%y = neg %x : f32[N] yield %y")},
    {DIAG_ir_unknown, "t.ig:2:14", IN_MAIN("%y = neg %x {axis=1} : f32[4] yield %y")},
    {DIAG_ir_unknown, "t.ig:2:20", IN_MAIN("%y = const {weight=@w} : f32[4] yield %y")},
    {DIAG_ir_unknown, "t.ig:2:20", IN_MAIN("%y = call %x {func=@g} : f32[4] yield %y")},
    {DIAG_ir_unknown, "t.ig:2:27", IN_MAIN("%y = neg %x : f32[4] loc(#1) yield %y")},
    {DIAG_ir_unknown, "t.ig:2:35", IN_MAIN("%y = if %x : f32[4] { () %z = neg %x : f32[4] yield %z } yield %y")},
    {DIAG_ir_redefined, "t.ig:2:1", IN_MAIN("%x = neg %x : f32[4] yield %x")},
    {DIAG_ir_redefined, "t.ig:1:21", "sym N in [1, 2] sym N in [1, 2]"},
    {DIAG_ir_redefined, "t.ig:1:25", "state @s : f32[1] state @s : f32[1]"},
    {DIAG_ir_redefined, "t.ig:1:32", "weight @w : f32[0] = [] weight @w : f32[0] = []"},
    {DIAG_ir_redefined, "t.ig:1:39", "entry func @f() -> () { yield }  func @f() -> () { yield }"},
    {DIAG_ir_redefined, "t.ig:1:20", "loc #1 = none loc #1 = none"},
    {DIAG_ir_redefined, "t.ig:2:25", IN_MAIN("%y = concat %x {axis=0, axis=1} : f32[4] yield %y")},
    {DIAG_ir_missing, "t.ig:2:13", IN_MAIN("%y = concat %x : f32[4] yield %y")},
    {DIAG_ir_limit, "t.ig:1:40", "state @s : f32[1,1,1,1,1,1,1,1,1,1,1,1,1]"},
    {DIAG_ir_limit, "t.ig:1:26", "weight @w : f32[65537] = [1]"},
    {DIAG_ir_weight, "t.ig:1:20", "weight @w : str[1] = [1]"},
    {DIAG_ir_weight, "t.ig:1:49", "weight @w : f32[128] = file \"../w.igw\" @0, hash 0x0"},
    {DIAG_ir_weight, "t.ig:1:47", "weight @w : f32[128] = file \"/w.igw\" @0, hash 0x0"},
    {DIAG_ir_weight, "t.ig:1:47", "weight @w : f32[128] = file \"absent\" @0, hash 0x0"},
};

static void test_refusals_name_the_place(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < IG_COUNT(bad); i++) {
        diag_clear(ctx);
        Module *module = parse(bad[i].text);
        uint32_t n = diag_count(ctx);
        const char *text = report();
        bool place = strstr(text, arena_printf(ctx_arena(ctx), "%s:", bad[i].where)) != NULL;
        if (module || n == 0 || diag_get(ctx, n - 1)->id != bad[i].id || !place) {
            print_error("%s\n  expected %s [%s], got %s\n", bad[i].text, bad[i].where, diag_name(bad[i].id), text);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void test_an_empty_file_has_no_entry(void **state)
{
    (void)state;
    assert_true(file_write_all(ctx, "empty.ig", "", 0));
    assert_null(ir_load(ctx, "empty.ig"));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_ir_no_entry);
}

static void test_bad_weight_files(void **state)
{
    (void)state;
    assert_true(file_write_all(ctx, "short.bin", "0123456789", 10));
    static const char *const texts[] = {
        "weight @w : u8[100] = file \"short.bin\" @0, hash 0x0",
        "weight @w : u8[100] = file \"short.bin\" @9223372036854775807, hash 0x0",
        "weight @w : u8[10] = file \"short.bin\" @0, hash 0x1234",
        "weight @w : u8[10] = file \"short.bin\" @-1, hash 0x1234",
        "weight @w : u8[4611686018427387904] = file \"short.bin\" @8, hash 0x0",
    };
    for (size_t i = 0; i < IG_COUNT(texts); i++)
        assert_null(parse(texts[i]));
    assert_int_equal(diag_errors(ctx), IG_COUNT(texts));
}

/* A sound file, a right hash, but reached through the parent folder. */
static void test_weight_files_stay_inside(void **state)
{
    (void)state;
    Module *module = module_with_weight(100, "w");
    assert_true(ir_save(module, "inside.ig"));
    Blob blob;
    assert_true(file_map(ctx, "inside.ig", &blob));
    const char *text = arena_printf(ctx_arena(ctx), "%.*s", (int)blob.size, (const char *)blob.data);
    const char *name = strstr(text, "inside.igw");
    assert_non_null(name);
    const char *moved = arena_printf(ctx_arena(ctx), "%.*s../%s", (int)(name - text), text, name);
    assert_null(ir_parse(ctx, str_intern(ctx, "folder/t.ig"), moved, strlen(moved)));
    assert_int_equal(diag_count(ctx), 1);
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_ir_weight);
    assert_non_null(strstr(diag_get(ctx, 0)->message, "in the folder"));
    module_destroy(module);
}

static void test_nesting_is_limited(void **state)
{
    (void)state;
    Text text;
    text_init(&text, ctx_arena(ctx));
    text_add(&text, "state @s : f32[");
    for (int i = 0; i < 100000; i++)
        text_add(&text, "(");
    assert_null(ir_parse(ctx, str_intern(ctx, "t.ig"), text.data, text.len));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_ir_limit);
    diag_clear(ctx);
    text_init(&text, ctx_arena(ctx));
    text_add(&text, "entry func @f() -> () {");
    for (int i = 0; i < 100000; i++)
        text_add(&text, "if _ {()");
    assert_null(ir_parse(ctx, str_intern(ctx, "t.ig"), text.data, text.len));
    assert_int_equal(diag_get(ctx, 0)->id, DIAG_ir_limit);
}

/* Every prefix of a sample, in memory of exactly its size: refused or parsed, never read past (seen by ASan). */
static void test_truncated_texts(void **state)
{
    (void)state;
    Blob blob;
    assert_true(file_map(ctx, path_join(ctx_arena(ctx), sample_folder(), "attributes.ig"), &blob));
    for (size_t n = 0; n < blob.size; n += 7) {
        char *copy = malloc(n + 1);
        memcpy(copy, blob.data, n);
        Context *own = ctx_create(NULL);
        Module *module = ir_parse(own, str_intern(own, "t.ig"), copy, n);
        assert_true(module ? diag_errors(own) == 0 : diag_errors(own) == 1);
        ctx_destroy(own);
        free(copy);
    }
}

/* ---- exhausted memory -------------------------------------------------------------------------------------------- */

typedef struct Supply {
    int left; /* requests until one fails; then all fail */
    int held;
} Supply;

static void *supply_alloc(void *user, size_t bytes)
{
    Supply *supply = user;
    if (supply->left-- <= 0)
        return NULL;
    supply->held++;
    return malloc(bytes);
}

static void supply_release(void *user, void *pointer)
{
    Supply *supply = user;
    supply->held -= pointer != NULL;
    free(pointer);
}

typedef struct Job {
    Context *ctx;
    const Blob *blob;
    bool done;
} Job;

static void parse_and_print(void *arg)
{
    Job *job = arg;
    Module *module = ir_parse(job->ctx, str_intern(job->ctx, "t.ig"), (const char *)job->blob->data, job->blob->size);
    Text text;
    text_init(&text, ctx_arena(job->ctx));
    ir_print(&text, module_clone(module));
    job->done = ir_verify(module);
}

/* Memory that ends at any request unwinds, and everything is given back. */
static void test_exhausted_memory(void **state)
{
    (void)state;
    Blob blob;
    assert_true(file_map(ctx, path_join(ctx_arena(ctx), sample_folder(), "regions.ig"), &blob));
    bool done = false;
    for (int n = 0; !done; n++) {
        Supply supply = {.left = n};
        Context *own = ctx_create(&(Allocator){supply_alloc, supply_release, &supply});
        if (!own) {
            assert_int_equal(supply.held, 0);
            continue;
        }
        Job job = {own, &blob, false};
        CtxStatus status = ctx_protect(own, parse_and_print, &job);
        assert_int_equal(status, job.done ? CTX_OK : CTX_NOMEM);
        done = job.done;
        ctx_destroy(own);
        assert_int_equal(supply.held, 0);
        assert_in_range(n, 0, 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples_are_fixed_points, setup, teardown),
        cmocka_unit_test_setup_teardown(test_canonical_text_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_location_chains_are_named_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_weights_go_to_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_weights_in_memory_are_found_by_hash, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals_name_the_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_empty_file_has_no_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_weight_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_weight_files_stay_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nesting_is_limited, setup, teardown),
        cmocka_unit_test_setup_teardown(test_truncated_texts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exhausted_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
