/* SPDX-License-Identifier: Apache-2.0
 *
 * Map and Intern: hash tables of chained entries. Entries never move, so a slot pointer stays valid while others are
 * inserted, and `map_set(m, k, f(m))` is safe in any order of evaluation. Running out of memory leaves a table as it was.
 */
#include "base/base_int.h"

#include <string.h>

typedef struct Entry {
    uint64_t key;
    struct Entry *next;
    void *value;
} Entry;

struct Map {
    Arena *arena;
    Entry **buckets; /* n_buckets, a power of two */
    uint32_t n_buckets, len;
};

static uint64_t scramble(uint64_t key)
{
    key ^= key >> 32;
    key *= UINT64_C(0x9E3779B97F4A7C15);
    return key ^ (key >> 29);
}

Map *map_create(Arena *arena)
{
    Map *map = ARENA_NEW(arena, Map);
    map->arena = arena;
    map->n_buckets = 8;
    map->buckets = ARENA_ARRAY(arena, Entry *, map->n_buckets);
    return map;
}

static Entry *find(const Map *map, uint64_t key)
{
    Entry *entry = map->buckets[scramble(key) & (map->n_buckets - 1)];
    while (entry && entry->key != key)
        entry = entry->next;
    return entry;
}

static void widen(Map *map)
{
    uint32_t n = map->n_buckets * 2;
    Entry **buckets = ARENA_ARRAY(map->arena, Entry *, n);
    for (uint32_t i = 0; i < map->n_buckets; i++) {
        for (Entry *entry = map->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            Entry **bucket = &buckets[scramble(entry->key) & (n - 1)];
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    map->buckets = buckets;
    map->n_buckets = n;
}

void **map_slot(Map *map, uint64_t key)
{
    Entry *entry = find(map, key);
    if (entry)
        return &entry->value;
    if (map->len >= map->n_buckets && map->n_buckets < UINT32_C(1) << 31)
        widen(map);
    entry = ARENA_NEW(map->arena, Entry);
    Entry **bucket = &map->buckets[scramble(key) & (map->n_buckets - 1)];
    *entry = (Entry){.key = key, .next = *bucket};
    *bucket = entry;
    map->len++;
    return &entry->value;
}

void *map_get(const Map *map, uint64_t key)
{
    const Entry *entry = find(map, key);
    return entry ? entry->value : NULL;
}

bool map_has(const Map *map, uint64_t key) { return find(map, key) != NULL; }

/* Intern = Map from hash to a list of the stored byte strings with that hash. */
typedef struct Item {
    struct Item *next;
    size_t size;
    const uint8_t *bytes;
} Item;

struct Intern {
    Map *by_hash;
};

Intern *intern_create(Arena *arena)
{
    Intern *set = ARENA_NEW(arena, Intern);
    set->by_hash = map_create(arena);
    return set;
}

/* The stored copy is aligned to 16 and followed by a NUL that does not belong to it, so that a text can be a Str. */
const void *intern_bytes(Intern *set, const void *bytes, size_t size)
{
    Arena *arena = set->by_hash->arena;
    void **slot = map_slot(set->by_hash, hash_bytes(bytes, size, 0));
    for (const Item *item = *slot; item; item = item->next)
        if (item->size == size && (size == 0 || memcmp(item->bytes, bytes, size) == 0))
            return item->bytes;
    if (size == SIZE_MAX)
        ctx_unwind(arena_context(arena), CTX_NOMEM);
    uint8_t *copy = arena_alloc(arena, size + 1);
    if (size)
        memcpy(copy, bytes, size);
    Item *item = ARENA_NEW(arena, Item);
    *item = (Item){.next = *slot, .size = size, .bytes = copy};
    *slot = item;
    return copy;
}
