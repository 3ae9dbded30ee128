/* SPDX-License-Identifier: Apache-2.0
 * Text, numbers as text (also under a locale with a decimal comma), hashes, locations, diagnostics. */
#include "support/unit.h"

#include "base/base.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.inc"

static Context *ctx;
static Text text;

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    text_init(&text, ctx_arena(ctx));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ctx_destroy(ctx);
    return 0;
}

static void test_text_grows_and_stays_terminated(void **state)
{
    (void)state;
    assert_string_equal(text.data, "");
    for (int i = 0; i < 1000; i++)
        text_addf(&text, "%d,", i);
    assert_int_equal(text.len, strlen(text.data));
    text_add_n(&text, "abcdef", 2);
    assert_string_equal(text.data + text.len - 6, "999,ab");
    char big[5000];
    memset(big, 'z', sizeof big);
    big[sizeof big - 1] = 0;
    text_addf(&text, "%s!", big);
    assert_int_equal(text.data[text.len - 1], '!');
    assert_int_equal(text.len, strlen(text.data));
}

static void test_quoted(void **state)
{
    (void)state;
    text_add_quoted(&text, "a\"b\\c\n\t\x01\x7f\xc3\xa9");
    assert_string_equal(text.data, "\"a\\\"b\\\\c\\n\\t\\x01\\x7F\xc3\xa9\"");
}

static const char *f64(double value)
{
    text_init(&text, ctx_arena(ctx));
    text_add_f64(&text, value);
    return text.data;
}

static const char *f32(float value)
{
    text_init(&text, ctx_arena(ctx));
    text_add_f32(&text, value);
    return text.data;
}

static void test_floats_are_shortest(void **state)
{
    (void)state;
    assert_string_equal(f64(0), "0");
    assert_string_equal(f64(-0.0), "-0");
    assert_string_equal(f64(1), "1");
    assert_string_equal(f64(-100000), "-100000");
    assert_string_equal(f64(0.1), "0.1");
    assert_string_equal(f64(1.0 / 3), "0.3333333333333333");
    assert_string_equal(f64(123.456), "123.456");
    assert_string_equal(f64(1e15), "1e15");
    assert_string_equal(f64(0.00001), "0.00001");
    assert_string_equal(f64(1.5e-6), "1.5e-6");
    assert_string_equal(f64(5e-324), "5e-324");
    assert_string_equal(f64(DBL_MAX), "1.7976931348623157e308");
    assert_string_equal(f64(HUGE_VAL), "inf");
    assert_string_equal(f64(-HUGE_VAL), "-inf");
    assert_string_equal(f64((double)NAN), "nan");
    assert_string_equal(f32(0.1f), "0.1");
    assert_string_equal(f32(16777216.0f), "16777216");
    assert_string_equal(f32(FLT_MAX), "3.4028235e38");
    assert_string_equal(f32(1e-45f), "1e-45");
}

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    return hash_mix(*state, 1);
}

static void check_round_trips(void)
{
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        double x = f64_from_bits(next_random(&seed)), back;
        float y = f32_from_bits((uint32_t)next_random(&seed));
        if (!isnan(x)) {
            assert_true(text_parse_f64(f64(x), &back));
            assert_int_equal(f64_bits(back), f64_bits(x));
        }
        if (!isnan(y)) {
            assert_true(text_parse_f64(f32(y), &back));
            assert_int_equal(f32_bits((float)back), f32_bits(y));
        }
    }
}

static void test_floats_round_trip_in_any_locale(void **state)
{
    (void)state;
    check_round_trips();
    static const char *const commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "de_DE"};
    for (size_t i = 0; i < IG_COUNT(commas); i++) {
        if (!setlocale(LC_ALL, commas[i]))
            continue;
        assert_string_equal(f64(1.5), "1.5");
        double x;
        assert_true(text_parse_f64("2.5", &x));
        assert_true(x == 2.5);
        assert_false(text_parse_f64("2,5", &x));
        setlocale(LC_ALL, "C");
        return;
    }
}

static void test_parse_f64_wants_one_number(void **state)
{
    (void)state;
    double x = 7;
    static const char *const bad[] = {"", " 1", "1 ", "1x", "-", "+", ".", "1e999", "-1e999", "infinity", "nan(1)", "0x", "e5"};
    for (size_t i = 0; i < IG_COUNT(bad); i++)
        assert_false(text_parse_f64(bad[i], &x));
    assert_true(x == 7);
    assert_true(text_parse_f64("-0x1.8p1", &x) && x == -3);
    assert_true(text_parse_f64("-inf", &x) && isinf(x) && x < 0);
    assert_true(text_parse_f64("nan", &x) && isnan(x));
    assert_true(text_parse_f64("1e-400", &x) && x == 0);
}

static void test_parse_s64(void **state)
{
    (void)state;
    int64_t x = 7;
    static const char *const bad[] = {"", "-", "+", "1.0", " 1", "1 ", "9223372036854775808", "-9223372036854775809",
                                      "99999999999999999999", "0x10", "--1"};
    for (size_t i = 0; i < IG_COUNT(bad); i++)
        assert_false(text_parse_s64(bad[i], &x));
    assert_int_equal(x, 7);
    assert_true(text_parse_s64("9223372036854775807", &x) && x == INT64_MAX);
    assert_true(text_parse_s64("-9223372036854775808", &x) && x == INT64_MIN);
    assert_true(text_parse_s64("+12", &x) && x == 12);
    assert_true(text_parse_s64("-0", &x) && x == 0);
}

static void digest_of(uint8_t digest[32], Sha256Blocks *blocks, const void *data, size_t size, size_t step)
{
    Sha256 sha;
    sha256_begin(&sha);
    sha.blocks = blocks;
    for (size_t i = 0; i < size; i += step)
        sha256_add(&sha, (const uint8_t *)data + i, size - i < step ? size - i : step);
    sha256_end(&sha, digest);
}

static void check_sha(const char *expected, const void *data, size_t size, size_t step)
{
    Sha256Blocks *const each[] = {sha256_best(), sha256_portable};
    for (size_t b = 0; b < IG_COUNT(each); b++) {
        uint8_t digest[32];
        char hex[65];
        digest_of(digest, each[b], data, size, step);
        for (int i = 0; i < 32; i++)
            snprintf(hex + 2 * i, 3, "%02x", digest[i]);
        assert_string_equal(hex, expected);
    }
}

/* Vectors of NIST's FIPS 180-4 examples, whole and in pieces. */
static void test_sha256(void **state)
{
    (void)state;
    check_sha("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "", 0, 1);
    check_sha("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "abc", 3, 3);
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    for (size_t step = 1; step < 200; step += 31) {
        check_sha("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", two, 56, step);
        check_sha("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", million, 1000000, step);
    }
    free(million);
}

/* The CPU's instructions, where it has any, and the portable form: every length around the ends of blocks, unaligned. */
static void test_sha256_of_cpu(void **state)
{
    (void)state;
    uint8_t data[400], best[32], portable[32];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(hash_mix(i, 3) >> 24);
    for (size_t size = 0; size < 330; size++) {
        digest_of(best, sha256_best(), data + size % 17, size, size / 3 + 1);
        digest_of(portable, sha256_portable, data + size % 17, size, size + 1);
        assert_memory_equal(best, portable, 32);
    }
}

/* Every byte, the length and the seed matter; the value is part of what must not differ between platforms. */
static void test_hash(void **state)
{
    (void)state;
    uint8_t bytes[100] = {0};
    uint64_t seen[200];
    uint32_t n = 0;
    for (size_t size = 0; size <= 100; size++)
        seen[n++] = hash_bytes(bytes, size, 0);
    for (size_t i = 0; i < 90; i++) {
        bytes[i] = 1;
        seen[n++] = hash_bytes(bytes, 100, 0);
        bytes[i] = 0;
    }
    seen[n++] = hash_bytes(bytes, 100, 1);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    assert_int_equal(hash_bytes("igata", 5, 0), UINT64_C(0x58c1fd64d4099885));
    assert_int_equal(hash_bytes("abcdefghijklmnopqrstuvwxyz0123456789", 36, 7), UINT64_C(0x0820f91536c92d49));
}

static const char *printed(Loc loc)
{
    text_init(&text, ctx_arena(ctx));
    loc_print(ctx, &text, loc);
    return text.data;
}

static void test_locations(void **state)
{
    (void)state;
    Str file = str_intern(ctx, "m.onnx"), none = str_intern(ctx, ""), gemm = str_intern(ctx, "Gemm");
    Loc a = loc_onnx(ctx, file, none, 3, str_intern(ctx, "fc1"), gemm);
    Loc b = loc_onnx(ctx, file, none, 4, none, str_intern(ctx, "Relu"));
    Loc c = loc_text(ctx, str_intern(ctx, "t.ig"), 12, 5);
    assert_int_equal(a, loc_onnx(ctx, file, NULL, 3, str_intern(ctx, "fc1"), gemm));
    assert_int_not_equal(a, b);
    assert_int_not_equal(a, 0);
    assert_string_equal(printed(a), "m.onnx: node 'fc1' (Gemm, #3)");
    assert_string_equal(printed(b), "m.onnx: node (Relu, #4)");
    assert_string_equal(printed(c), "t.ig:12:5");
    assert_string_equal(printed(loc_onnx(ctx, file, str_intern(ctx, "loop/body"), 1, none, gemm)),
                        "m.onnx: in 'loop/body': node (Gemm, #1)");
    assert_string_equal(printed(loc_onnx(ctx, file, none, 0, none, none)), "m.onnx");

    Loc from = loc_from(ctx, a, "adjoint");
    assert_string_equal(printed(from), "m.onnx: node 'fc1' (Gemm, #3) [adjoint]");
    assert_int_equal(loc_from(ctx, from, "adjoint"), from);
    Loc parents[] = {a, 0, b, a, from};
    Loc fused = loc_fused(ctx, parents, 5);
    assert_int_equal(loc_info(ctx, fused)->n_parents, 3);
    assert_int_equal(loc_fused(ctx, parents, 2), a);
    assert_int_equal(loc_fused(ctx, parents + 1, 1), 0);
    assert_int_equal(loc_fused(ctx, NULL, 0), 0);
    assert_string_equal(printed(fused), "m.onnx: node 'fc1' (Gemm, #3) (and 2 more)");
    assert_string_equal(loc_name(ctx, a), "fc1");
    assert_string_equal(loc_name(ctx, b), "Relu");
    assert_string_equal(loc_name(ctx, from), "fc1");
    assert_string_equal(loc_name(ctx, c), "line12");
    assert_string_equal(loc_name(ctx, 0), "node");
    assert_string_equal(loc_name(ctx, fused), "fc1+Relu+fc1");

    Loc chain = a;
    for (int i = 0; i < 200000; i++)
        chain = loc_from(ctx, chain, i % 2 ? "x" : "y");
    assert_string_equal(printed(chain), "m.onnx: node 'fc1' (Gemm, #3) [x]");
}

static void test_diagnostics(void **state)
{
    (void)state;
    Loc loc = loc_text(ctx, str_intern(ctx, "t.ig"), 2, 0);
    assert_false(diag_report(ctx, loc, DIAG_file_read, "a.npy", "truncated"));
    assert_false(diag_report(ctx, 0, DIAG_file_open, "b", "no such file"));
    assert_int_equal(diag_count(ctx), 2);
    assert_int_equal(diag_errors(ctx), 2);
    diag_print(ctx, &text, diag_get(ctx, 0));
    text_add(&text, "\n");
    diag_print(ctx, &text, diag_get(ctx, 1));
    assert_string_equal(text.data, "t.ig:2: error[file_read]: cannot read 'a.npy': truncated\n"
                                   "error[file_open]: cannot open 'b': no such file");
    assert_null(diag_get(ctx, 2));
    assert_string_equal(diag_name(DIAG_file_write), "file_write");
    diag_clear(ctx);
    assert_int_equal(diag_count(ctx), 0);
    assert_int_equal(diag_errors(ctx), 0);
    diag_report(ctx, 0, DIAG_file_open, "b", "again");
    assert_string_equal(diag_get(ctx, 0)->message, "cannot open 'b': again");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_text_grows_and_stays_terminated),
        TEST(test_quoted),
        TEST(test_floats_are_shortest),
        TEST(test_floats_round_trip_in_any_locale),
        TEST(test_parse_f64_wants_one_number),
        TEST(test_parse_s64),
        TEST(test_sha256),
        TEST(test_sha256_of_cpu),
        TEST(test_hash),
        TEST(test_locations),
        TEST(test_diagnostics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
