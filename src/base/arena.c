/* SPDX-License-Identifier: Apache-2.0
 *
 * Arenas: a list of blocks, the newest first; allocation moves a cursor in the newest. Under AddressSanitizer the unused
 * part of a block is poisoned and 16 bytes are left between allocations, so that overruns are seen inside arenas too.
 */
#include "base/base_int.h"

#include <stdio.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define POISONING 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONING 1
#endif
#endif
#ifdef POISONING
#include <sanitizer/asan_interface.h>
#define GAP 16
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define GAP 0
#endif

#define ALIGN ((size_t)16)
#define FIRST_BLOCK ((size_t)4096)
#define LARGEST_BLOCK ((size_t)1 << 20)

typedef struct Block {
    struct Block *next;
    size_t size; /* of the payload */
    size_t used;
    size_t shift; /* from the header's end to the first aligned byte */
} Block;

struct Arena {
    Context *ctx;
    Arena *prev, *next; /* in ctx->arenas */
    Block *blocks;
    size_t held;
};

static uint8_t *payload(Block *block) { return (uint8_t *)(block + 1) + block->shift; }

Arena *arena_create(Context *ctx)
{
    Arena *arena = ctx_take(ctx, sizeof *arena);
    *arena = (Arena){.ctx = ctx, .next = ctx->arenas};
    if (ctx->arenas)
        ctx->arenas->prev = arena;
    ctx->arenas = arena;
    return arena;
}

static void release_block(Arena *arena, Block *block)
{
    ASAN_UNPOISON_MEMORY_REGION(payload(block), block->size);
    arena->held -= block->size;
    ctx_give(arena->ctx, block);
}

static void release_chain(Arena *arena, Block *block)
{
    while (block) {
        Block *next = block->next;
        release_block(arena, block);
        block = next;
    }
}

void arena_destroy(Arena *arena)
{
    if (!arena)
        return;
    release_chain(arena, arena->blocks);
    if (arena->prev)
        arena->prev->next = arena->next;
    else
        arena->ctx->arenas = arena->next;
    if (arena->next)
        arena->next->prev = arena->prev;
    ctx_give(arena->ctx, arena);
}

Context *arena_context(const Arena *arena) { return arena->ctx; }

size_t arena_bytes(const Arena *arena) { return arena->held; }

/* Keeps the first block that is not oversized: a scratch arena then stops asking the memory source. */
void arena_reset(Arena *arena)
{
    Block *kept = NULL;
    for (Block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        if (!kept && block->size <= LARGEST_BLOCK)
            kept = block;
        else
            release_block(arena, block);
    }
    arena->blocks = kept;
    if (kept) {
        kept->next = NULL;
        kept->used = 0;
        ASAN_POISON_MEMORY_REGION(payload(kept), kept->size);
    }
}

/* A request larger than a block gets a block of its own behind the current one, whose rest stays in use. */
static Block *add_block(Arena *arena, size_t need)
{
    Block *current = arena->blocks;
    size_t size = current ? current->size * 2 : FIRST_BLOCK;
    if (size > LARGEST_BLOCK)
        size = LARGEST_BLOCK;
    bool oversized = need > size / 2;
    if (oversized)
        size = need;
    if (size > SIZE_MAX - sizeof(Block) - ALIGN)
        ctx_unwind(arena->ctx, CTX_NOMEM);
    Block *block = ctx_take(arena->ctx, sizeof(Block) + ALIGN + size);
    *block = (Block){.size = size, .shift = (ALIGN - (uintptr_t)(block + 1) % ALIGN) % ALIGN};
    ASAN_POISON_MEMORY_REGION(payload(block), size);
    if (oversized && current) {
        block->next = current->next;
        current->next = block;
    } else {
        block->next = current;
        arena->blocks = block;
    }
    arena->held += size;
    return block;
}

void *arena_alloc(Arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        ctx_unwind(arena->ctx, CTX_NOMEM);
    size_t need = ((bytes + ALIGN - 1) & ~(ALIGN - 1)) + GAP;
    if (need == 0)
        need = ALIGN; /* distinct objects have distinct addresses */
    Block *block = arena->blocks;
    if (!block || block->size - block->used < need)
        block = add_block(arena, need);
    uint8_t *memory = payload(block) + block->used;
    block->used += need;
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
    memset(memory, 0, bytes);
    return memory;
}

void *arena_copy(Arena *arena, const void *data, size_t bytes)
{
    void *copy = arena_alloc(arena, bytes);
    if (bytes)
        memcpy(copy, data, bytes);
    return copy;
}

void *arena_array(Arena *arena, size_t count, size_t bytes_each)
{
    if (bytes_each && count > SIZE_MAX / bytes_each)
        ctx_unwind(arena->ctx, CTX_NOMEM);
    return arena_alloc(arena, count * bytes_each);
}

char *arena_vprintf(Arena *arena, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    if (length < 0) {
        va_end(again);
        ig_bug(arena->ctx, "unprintable format '%s'", format);
    }
    char *text = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *arena_printf(Arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}
