/* SPDX-License-Identifier: Apache-2.0
 * .npy files: what is written reads back; both orders, both byte orders, and refusals. */
#include "support/unit.h"

#include "front/front.h"

#include <stdio.h>
#include <string.h>

static const char path[] = "front_npy_test.npy";

static void put(Context *ctx, const char *header, const void *data, size_t n)
{
    uint8_t file[512] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)strlen(header), 0};
    memcpy(file + 10, header, strlen(header));
    memcpy(file + 10 + strlen(header), data, n);
    assert_true(file_write_all(ctx, path, file, 10 + strlen(header) + n));
}

static void test_round_trip(void **state)
{
    (void)state;
    static const DType types[] = {DT_F64, DT_F32, DT_F16, DT_S64, DT_S32, DT_S16, DT_S8,
                                  DT_U64, DT_U32, DT_U16, DT_U8,  DT_C64, DT_C128};
    Context *ctx = ctx_create(NULL);
    uint8_t bytes[96];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 1);
    for (size_t i = 0; i < IG_COUNT(types); i++) {
        Tensor t = {.dtype = types[i], .store = types[i], .rank = 2, .dim = {2, 3}, .count = 6, .data = bytes}, back;
        assert_true(front_npy_write(ctx, path, &t));
        assert_true(front_npy_read(ctx, ctx_arena(ctx), path, &back));
        assert_int_equal(back.dtype, types[i]);
        assert_int_equal(back.rank, 2);
        assert_int_equal(back.dim[1], 3);
        assert_memory_equal(back.data, bytes, 6 * (size_t)dtype_bits(types[i]) / 8);
    }
    Tensor scalar = {.dtype = DT_BOOL, .store = DT_BOOL, .count = 1, .data = bytes}, back;
    assert_true(front_npy_write(ctx, path, &scalar));
    assert_true(front_npy_read(ctx, ctx_arena(ctx), path, &back));
    assert_int_equal(back.rank, 0);
    assert_int_equal(*(uint8_t *)back.data, 1);
    remove(path);
    ctx_destroy(ctx);
}

static void test_orders(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    static const int16_t columns[6] = {0, 3, 1, 4, 2, 5}, rows[6] = {0, 1, 2, 3, 4, 5};
    static const uint8_t big[4] = {0x12, 0x34, 0x56, 0x78};
    Tensor t;
    put(ctx, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }\n", columns, sizeof columns);
    assert_true(front_npy_read(ctx, ctx_arena(ctx), path, &t));
    assert_memory_equal(t.data, rows, sizeof rows);
    put(ctx, "{'shape': (1,), 'descr': '>i4', 'fortran_order': False}\n", big, sizeof big);
    assert_true(front_npy_read(ctx, ctx_arena(ctx), path, &t));
    assert_int_equal(*(int32_t *)t.data, 0x12345678);
    remove(path);
    ctx_destroy(ctx);
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", /* too few bytes */
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,2",
        "{'descr': '<f4', 'fortran_order': 7, 'shape': (1,)}",
        "{'descr': '<f4', 'shape': (1,)}",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
    };
    Context *ctx = ctx_create(NULL);
    Tensor t;
    for (size_t i = 0; i < IG_COUNT(headers); i++) {
        put(ctx, headers[i], "12345678", 8);
        diag_clear(ctx);
        assert_false(front_npy_read(ctx, ctx_arena(ctx), path, &t));
        assert_int_equal(diag_get(ctx, 0)->id, DIAG_data_file);
    }
    assert_true(file_write_all(ctx, path, "\x93NUMPY\x02\x00\xFF\xFF", 10));
    assert_false(front_npy_read(ctx, ctx_arena(ctx), path, &t));
    Tensor half = {.dtype = DT_BF16, .store = DT_BF16, .count = 1, .data = &t};
    assert_false(front_npy_write(ctx, path, &half));
    remove(path);
    ctx_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
