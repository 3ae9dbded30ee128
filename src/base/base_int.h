/* SPDX-License-Identifier: Apache-2.0
 *
 * What only base/ may see of a Context, and the raw memory functions under the arenas.
 */
#ifndef IGATA_BASE_INT_H
#define IGATA_BASE_INT_H

#include "base/base.h"

#include <sys/stat.h>

typedef struct Frame { /* one ctx_protect on the stack */
    jmp_buf env;
    struct Frame *outer;
} Frame;

typedef struct OwnedBlob {
    struct OwnedBlob *next;
    void *data;
    size_t size;
    bool mapped;
    struct stat file; /* mapped: what it was then */
} OwnedBlob;

struct Context {
    Allocator source;
    Frame *frame;
    CtxStatus status; /* of the unwinding under way */
    Arena *arenas;    /* all that live */
    Arena *arena;
    void *ir; /* of the layer above */

    Intern *strings;

    Intern *loc_keys;
    Map *loc_ids; /* interned key -> Loc */
    VEC(LocInfo) locs;

    Arena *diag_arena;
    VEC(Diag) diags;
    uint32_t n_errors;

    OwnedBlob *blobs;
    Context *inner, *outer, *next_inner; /* ctx_create_inner */

    FileWriter *writers; /* neither committed nor abandoned */
    uint32_t n_temporaries;
};

/* Bytes from the Context's source, not zeroed; unwinds when there are none. */
void *ctx_take(Context *ctx, size_t bytes);
void ctx_give(Context *ctx, void *pointer);

char *arena_vprintf(Arena *arena, const char *format, va_list args) IG_PRINTF(2, 0);

void loc_begin(Context *ctx);
void diag_begin(Context *ctx);
void file_release_all(Context *ctx);

#endif
