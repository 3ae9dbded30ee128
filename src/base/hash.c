/* SPDX-License-Identifier: Apache-2.0
 *
 * A fast 64-bit hash for tables and deduplication (same value on every platform, not for adversaries), and SHA-256.
 */
#include "base/base.h"

#include <string.h>

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

/* FIPS 180-4 section 4.2.2: fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* FIPS 180-4 section 6.2.2, one block. */
static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
        uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
        uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
        uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t add[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += add[i];
}

void sha256_begin(Sha256 *sha)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof start);
    sha->length = 0;
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
        compress(sha->state, sha->block);
        p += n;
        size -= n;
    }
    for (; size >= 64; size -= 64, p += 64)
        compress(sha->state, p);
    if (size)
        memcpy(sha->block, p, size);
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
