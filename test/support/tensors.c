/* SPDX-License-Identifier: Apache-2.0 */
#include "support/tensors.h"

#include <string.h>

static uint64_t step(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return hash_mix(*state >> 11, *state);
}

static double random_real(uint64_t *state, Taste taste)
{
    static const double special[] = {0.0,  -0.0,   1.0,   -1.0,  0.5,    2.5,           -2.5,        1e-40,
                                     3e38, -3e38,  65504, 1e-7,  -104.5, 2147483648.0,  9.25e18,     16777217.0,
                                     88.8, -1e-42, -0.49999997};
    uint64_t r = step(state);
    if (taste == TASTE_SPECIAL && (r & 7) == 0) {
        uint64_t i = (r >> 8) % (IG_COUNT(special) + 3);
        return i < IG_COUNT(special)       ? special[i]
               : i == IG_COUNT(special)     ? __builtin_nan("")
               : i == IG_COUNT(special) + 1 ? __builtin_inf()
                                            : -__builtin_inf();
    }
    if (r % 13 == 5)
        return -0.0;
    return ((double)(step(state) >> 40) / (double)(1 << 23) - 1.0) * 2;
}

static int64_t random_int(uint64_t *state, Taste taste)
{
    static const int64_t special[] = {INT64_MIN, INT64_MAX, INT32_MIN, INT32_MAX, 127, -128, 63, 64, 31, 32};
    uint64_t r = step(state);
    if (taste == TASTE_SPECIAL && (r & 7) == 0)
        return special[(r >> 8) % IG_COUNT(special)];
    return (int64_t)((r >> 16) % 12) - 6;
}

Tensor *tensor_random(Arena *arena, const Type *type, uint64_t seed, Taste taste)
{
    Tensor *t = ARENA_NEW(arena, Tensor);
    t->dtype = t->store = type->dtype;
    t->rank = type->rank;
    for (uint32_t i = 0; i < t->rank; i++)
        t->dim[i] = type_dim(type, i);
    IG_CHECK(arena_context(arena), type_count(type, &t->count));
    t->data = arena_alloc(arena, (t->count + 1) * 16);
    for (uint64_t i = 0; i < t->count; i++)
        if (dtype_is_float(t->dtype))
            elem_set_f64(t->dtype, t->data, i, random_real(&seed, taste));
        else if (dtype_kind(t->dtype) == DK_BOOL)
            elem_set_s64(t->dtype, t->data, i, (int64_t)(step(&seed) >> 20 & 1));
        else
            elem_set_s64(t->dtype, t->data, i, random_int(&seed, taste));
    return t;
}

bool tensor_same_bits(DType dtype, const void *a, const void *b, uint64_t count, uint64_t *at)
{
    uint64_t bits = (uint64_t)dtype_bits(dtype), size = (bits + 7) / 8;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *p = (const uint8_t *)a + i * bits / 8, *q = (const uint8_t *)b + i * bits / 8;
        if (bits < 8 ? ((*p ^ *q) >> i * bits % 8 & ((1u << bits) - 1)) == 0 : memcmp(p, q, size) == 0)
            continue;
        double x = dtype_is_float(dtype) ? elem_get_f64(dtype, a, i) : 0, y = dtype_is_float(dtype) ? elem_get_f64(dtype, b, i) : 0;
        *at = i;
        if (x == x || y == y)
            return false;
    }
    return true;
}

const char *diags_text(Context *ctx)
{
    Text text;
    text_init(&text, ctx_arena(ctx));
    for (uint32_t i = 0; i < diag_count(ctx); i++) {
        diag_print(ctx, &text, diag_get(ctx, i));
        text_add(&text, "\n");
    }
    return text.data;
}
