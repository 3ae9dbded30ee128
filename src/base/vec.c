/* SPDX-License-Identifier: Apache-2.0
 *
 * Growth of VEC. The element type is unknown here, so the data pointer is read and written as bytes.
 */
#include "base/base_int.h"

#include <string.h>

void vec_grow(Arena *arena, void *data_pointer, uint32_t *cap, uint32_t need, size_t bytes_each)
{
    if (need > UINT32_MAX / 2) /* so that len + 1 cannot wrap */
        ctx_unwind(arena_context(arena), CTX_NOMEM);
    uint32_t larger = *cap < 8 ? 8 : *cap * 2;
    if (larger < need)
        larger = need;
    void *old;
    memcpy(&old, data_pointer, sizeof old);
    void *data = arena_array(arena, larger, bytes_each);
    if (*cap)
        memcpy(data, old, *cap * bytes_each);
    memcpy(data_pointer, &data, sizeof data);
    *cap = larger;
}
