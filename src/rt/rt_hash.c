/* SPDX-License-Identifier: Apache-2.0
 * SHA-256 (FIPS 180-4) of an artifact against its trailer, where IGATA_CHECK asks for it. */
#include "rt/rt_int.h"

#include "base/sha256.inc"

bool rt_hash_matches(const uint8_t *file, uint64_t size)
{
    uint32_t state[8];
    Sha256Blocks *add_blocks = sha256_best();
    if (size < sizeof(ArtTrailer))
        return false;
    uint64_t content = size - sizeof(ArtTrailer), whole = content / 64 * 64;
    ArtTrailer trailer;
    memcpy(&trailer, file + content, sizeof trailer);
    memcpy(state, sha256_start, sizeof state);
    add_blocks(state, file, (size_t)(whole / 64));
    uint8_t last[128] = {0};
    size_t rest = (size_t)(content - whole), blocks = rest < 56 ? 1 : 2;
    memcpy(last, file + whole, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++)
        last[64 * blocks - 1 - (size_t)i] = (uint8_t)(content * 8 >> (8 * i));
    add_blocks(state, last, blocks);
    uint8_t digest[32];
    for (int i = 0; i < 32; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
    return memcmp(trailer.magic, ART_TRAILER_MAGIC, 8) == 0 && memcmp(trailer.sha256, digest, 32) == 0;
}
