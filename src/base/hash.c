/* SPDX-License-Identifier: Apache-2.0
 *
 * A fast 64-bit hash for tables and deduplication (same value on every platform, not for adversaries), and SHA-256.
 */
#include "base/base.h"

#include <string.h>

#include "base/sha256.inc"

#define ODD1 UINT64_C(0x9FB21C651E98DF25)
#define ODD2 UINT64_C(0xD6E8FEB86659FD93)

static uint64_t rotate_left(uint64_t x, int n) { return x << n | x >> (64 - n); }

static uint64_t read_le64(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

/* Four independent lanes over 32-byte stripes, then single words, then the last 0..7 bytes with the length. */
uint64_t hash_bytes(const void *data, size_t size, uint64_t seed)
{
    const uint8_t *p = data;
    size_t left = size;
    uint64_t h = seed ^ ODD1;
    if (left >= 32) {
        uint64_t lane[4] = {h, h ^ ODD2, h + ODD1, h - ODD2};
        for (; left >= 32; left -= 32, p += 32)
            for (int i = 0; i < 4; i++)
                lane[i] = rotate_left(lane[i] ^ read_le64(p + 8 * i) * ODD1, 29) * ODD2;
        for (int i = 0; i < 4; i++)
            h = hash_mix(h, lane[i]);
    }
    for (; left >= 8; left -= 8, p += 8)
        h = hash_mix(h, read_le64(p));
    uint64_t tail = 0;
    for (size_t i = 0; i < left; i++)
        tail |= (uint64_t)p[i] << (8 * i);
    h = hash_mix(hash_mix(h, tail), size);
    h = (h ^ h >> 32) * ODD2;
    return h ^ h >> 30;
}

void sha256_begin(Sha256 *sha)
{
    memcpy(sha->state, sha256_start, sizeof sha->state);
    sha->length = 0;
    sha->blocks = sha256_best();
}

void sha256_add(Sha256 *sha, const void *data, size_t size)
{
    const uint8_t *p = data;
    size_t held = (size_t)(sha->length % 64);
    sha->length += size;
    if (held) {
        size_t n = size < 64 - held ? size : 64 - held;
        if (n)
            memcpy(sha->block + held, p, n);
        if (held + n < 64)
            return;
        sha->blocks(sha->state, sha->block, 1);
        p += n;
        size -= n;
    }
    sha->blocks(sha->state, p, size / 64);
    if (size % 64)
        memcpy(sha->block, p + size / 64 * 64, size % 64);
}

void sha256_end(Sha256 *sha, uint8_t digest[32])
{
    uint64_t bits = sha->length * 8;
    uint8_t tail[72] = {0x80};
    size_t pad = 64 - (size_t)((sha->length + 8) % 64); /* 1..64 bytes: 0x80 and zeros */
    for (int i = 0; i < 8; i++)
        tail[pad + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(sha, tail, pad + 8);
    for (int i = 0; i < 32; i++)
        digest[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}
