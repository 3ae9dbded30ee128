/* SPDX-License-Identifier: Apache-2.0
 *
 * The search table over .eh_frame that unwinders use. Only the form that compilers emit for position-independent code
 * is taken: augmentation "zR" with pc-relative signed 32-bit pointers; anything else gets no table, and debuggers then
 * read .eh_frame itself.
 */
#include "art/art_int.h"
#include <stdlib.h>

enum { PCREL_SDATA4 = 0x1b, UDATA4 = 0x03, DATAREL_SDATA4 = 0x3b };

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* Whether the common information entry at [p, end) is of the supported form: version, "zR", two LEB128 alignments, the
 * return register, augmentation length 1, encoding. */
static bool cie_is_plain(const uint8_t *p, const uint8_t *end)
{
    if (end - p < 12 || (p[8] != 1 && p[8] != 3) || memcmp(p + 9, "zR", 3) != 0)
        return false;
    p += 12;
    for (int i = 0; i < 4; i++) { /* code alignment, data alignment, return register, augmentation length */
        while (p < end && (*p & 0x80))
            p++;
        if (p++ >= end)
            return false;
    }
    return p < end && *p == PCREL_SDATA4;
}

/* Calls for each frame description with its offset; returns their number, 0 if the section is not understood. */
static uint32_t frame_walk(const uint8_t *data, uint64_t size, uint64_t *offsets)
{
    uint32_t count = 0;
    for (uint64_t at = 0; at + 4 <= size;) {
        uint64_t length = get32(data + at);
        if (length == 0)
            break;
        if (length < 8 || length >= 0xfffffff0 || !art_in(at + 4, length, size))
            return 0;
        if (get32(data + at + 4) == 0) {
            if (!cie_is_plain(data + at, data + at + 4 + length))
                return 0;
        } else {
            if (length < 12)
                return 0;
            if (offsets)
                offsets[count] = at;
            count++;
        }
        at += 4 + length;
    }
    return count;
}

uint32_t frame_count(const uint8_t *eh_frame, uint64_t size) { return frame_walk(eh_frame, size, NULL); }

static int compare_rows(const void *a, const void *b)
{
    int32_t x[2], y[2];
    memcpy(x, a, 8);
    memcpy(y, b, 8);
    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : 0;
}

void frame_write_header(uint8_t *out, uint64_t out_address, const uint8_t *eh_frame, uint64_t size, uint64_t address,
                        uint32_t count, Arena *arena)
{
    uint64_t *offsets = ARENA_ARRAY(arena, uint64_t, count);
    frame_walk(eh_frame, size, offsets);
    const uint8_t head[4] = {1, PCREL_SDATA4, UDATA4, DATAREL_SDATA4};
    memcpy(out, head, 4);
    int32_t to_frame = (int32_t)(address - (out_address + 4));
    memcpy(out + 4, &to_frame, 4);
    memcpy(out + 8, &count, 4);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t field = offsets[i] + 8; /* initial location, relative to itself */
        int32_t start = (int32_t)get32(eh_frame + field);
        int32_t row[2] = {(int32_t)(address + field + (uint64_t)(int64_t)start - out_address),
                          (int32_t)(address + offsets[i] - out_address)};
        memcpy(out + 12 + 8 * i, row, 8);
    }
    qsort(out + 12, count, 8, compare_rows);
}
