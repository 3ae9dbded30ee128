/* SPDX-License-Identifier: Apache-2.0
 *
 * base: memory, containers, text, element types, source locations, diagnostics.
 *
 * Rules that the whole compiler relies on:
 *  - Everything hangs on a Context; there is no mutable global. Several Contexts may live in several threads.
 *  - Memory comes from arenas and is released with its owner; nobody frees single objects. Arena functions never
 *    return NULL: running out of memory unwinds to the API boundary (ctx_protect) with status CTX_NOMEM.
 *  - Bad input is a diagnostic in the Context's sink; a broken invariant is ig_bug(). Nothing here prints or exits.
 */
#ifndef IGATA_BASE_H
#define IGATA_BASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Context Context;
typedef struct Arena Arena;

#if defined(__GNUC__)
#define IG_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define IG_NORETURN __attribute__((noreturn))
#define IG_MUST_USE __attribute__((warn_unused_result))
#else
#define IG_PRINTF(f, a)
#define IG_NORETURN
#define IG_MUST_USE
#endif
#define IG_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- context.c ------------------------------------------------------------------------------------------- */

/* Memory source of a Context. `alloc` returns NULL on failure; tests pass one that fails at the N-th call. */
typedef struct Allocator {
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *pointer);
    void *user;
} Allocator;

typedef enum CtxStatus { CTX_OK, CTX_BUG, CTX_NOMEM } CtxStatus;

/* NULL: malloc and free. Returns NULL if not even the Context can be had. */
Context *ctx_create(const Allocator *allocator);
void ctx_destroy(Context *ctx);
/* A Context for work in another thread, with nothing in it; dies with `outer` unless destroyed before. NULL where memory comes
 * from an Allocator of the caller, which need not be safe to use from several threads. */
Context *ctx_create_inner(Context *outer);
Arena *ctx_arena(Context *ctx); /* lives as long as the Context: types, attributes, strings, locations */

/* Runs body(arg); a bug or an exhausted memory source inside it unwinds to here. Nests; the only longjmp there is.
 * After CTX_BUG the sink's last diagnostic says what broke. */
CtxStatus ctx_protect(Context *ctx, void (*body)(void *arg), void *arg);
/* Goes on to the next ctx_protect outwards: for those who only release something of their own on the way. */
IG_NORETURN void ctx_unwind(Context *ctx, CtxStatus status);

/* A broken invariant: records the text as a diagnostic and unwinds to the innermost ctx_protect. */
IG_NORETURN void ig_bug(Context *ctx, const char *format, ...) IG_PRINTF(2, 3);
#define IG_CHECK(ctx, condition) ((condition) ? (void)0 : ig_bug((ctx), "%s:%d: %s", __FILE__, __LINE__, #condition))

/* Where ir/ keeps its tables of a Context: NULL until it allocates them, from ctx_arena, at first use. */
void **ctx_ir_slot(Context *ctx);

/* ---- arena.c --------------------------------------------------------------------------------------------- */

Arena *arena_create(Context *ctx);
void arena_destroy(Arena *arena);
Context *arena_context(const Arena *arena);
void arena_reset(Arena *arena);             /* forgets everything, keeps one block */
void *arena_alloc(Arena *arena, size_t bytes); /* zeroed, aligned to 16 */
void *arena_copy(Arena *arena, const void *data, size_t bytes);
#define ARENA_NEW(arena, Type) ((Type *)arena_alloc((arena), sizeof(Type)))
/* count elements, zeroed; an overflowing product is an exhausted memory source. */
void *arena_array(Arena *arena, size_t count, size_t bytes_each);
#define ARENA_ARRAY(arena, Type, count) ((Type *)arena_array((arena), (count), sizeof(Type)))
char *arena_printf(Arena *arena, const char *format, ...) IG_PRINTF(2, 3);
size_t arena_bytes(const Arena *arena); /* held, for statistics and limits */

/* ---- vec.c: growable array in an arena. Old storage stays in the arena until it dies. ----------------------- */

#define VEC(Type)                                                                                                  \
    struct {                                                                                                       \
        Type *data;                                                                                                \
        uint32_t len, cap;                                                                                         \
    }
void vec_grow(Arena *arena, void *data_pointer, uint32_t *cap, uint32_t need, size_t bytes_each);
#define vec_reserve(arena, v, n)                                                                                   \
    ((n) > (v)->cap ? vec_grow((arena), &(v)->data, &(v)->cap, (n), sizeof(*(v)->data)) : (void)0)
#define vec_push(arena, v, x) (vec_reserve((arena), (v), (v)->len + 1), (void)((v)->data[(v)->len++] = (x)))
#define vec_pop(v) ((v)->data[--(v)->len])

/* ---- map.c: u64 -> pointer-sized value; no iteration, so that no order can leak into an output. ------------- */

typedef struct Map Map;
Map *map_create(Arena *arena);
void **map_slot(Map *map, uint64_t key); /* inserts NULL if absent */
void *map_get(const Map *map, uint64_t key); /* NULL if absent */
bool map_has(const Map *map, uint64_t key);
#define map_set(map, key, value) (*map_slot((map), (key)) = (value))
#define KEY(pointer) ((uint64_t)(uintptr_t)(pointer))

/* Content-addressed set: returns the one stored copy of `bytes` (hash-consing). Stored in the map's arena. */
typedef struct Intern Intern;
Intern *intern_create(Arena *arena);
const void *intern_bytes(Intern *set, const void *bytes, size_t size);

/* ---- str.c ------------------------------------------------------------------------------------------------- */

typedef const char *Str; /* interned in a Context: equal texts are equal pointers; ends with NUL */
Str str_intern(Context *ctx, const char *text);
Str str_intern_n(Context *ctx, const char *text, size_t length);
Str str_format(Context *ctx, const char *format, ...) IG_PRINTF(2, 3);
bool str_ends_with(const char *text, const char *end);

/* Text under construction. */
typedef struct Text {
    Arena *arena;
    char *data; /* always NUL-terminated, also when empty */
    size_t len, cap;
} Text;
void text_init(Text *text, Arena *arena);
void text_add(Text *text, const char *string);
void text_add_n(Text *text, const char *string, size_t length);
void text_addf(Text *text, const char *format, ...) IG_PRINTF(2, 3);
/* Shortest decimal form that reads back to the same bits; inf, -inf and nan by name. Locale-independent. */
void text_add_f64(Text *text, double value);
void text_add_f32(Text *text, float value);
void text_add_quoted(Text *text, const char *string); /* "..." with \" \\ \n \t \xHH */
/* Locale-independent; false unless the whole text is one number. */
bool text_parse_f64(const char *string, double *value);
bool text_parse_s64(const char *string, int64_t *value);

/* The greatest common divisor, not negative; 0 of zeros. */
static inline int64_t gcd_s64(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t rest = x % y;
        x = y;
        y = rest;
    }
    return (int64_t)x;
}

/* ---- hash.c --------------------------------------------------------------------------------------------- */

uint64_t hash_bytes(const void *data, size_t size, uint64_t seed);
static inline uint64_t hash_mix(uint64_t h, uint64_t x)
{
    h ^= x + UINT64_C(0x9E3779B97F4A7C15) + (h << 6) + (h >> 2);
    h *= UINT64_C(0xBF58476D1CE4E5B9);
    return h ^ (h >> 29);
}
typedef struct Sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
    void (*blocks)(uint32_t state[8], const uint8_t *data, size_t n_blocks); /* the best of this CPU: sha256.inc */
} Sha256;
void sha256_begin(Sha256 *sha);
void sha256_add(Sha256 *sha, const void *data, size_t size);
void sha256_end(Sha256 *sha, uint8_t digest[32]); /* FIPS 180-4 */

/* ---- dtype.c ------------------------------------------------------------------------------------------------ */

typedef enum DType {
    DT_NONE,
#define DTYPE(id, name, bits, kind, onnx, torch) DT_##id,
#include "base/dtype.def"
#undef DTYPE
    DT_COUNT
} DType;
typedef enum DKind { DK_NONE, DK_FLOAT, DK_SINT, DK_UINT, DK_BOOL, DK_COMPLEX, DK_STRING } DKind;

const char *dtype_name(DType dtype);
int dtype_bits(DType dtype);
DKind dtype_kind(DType dtype);
DType dtype_from_name(const char *name);  /* DT_NONE if unknown */
DType dtype_from_onnx(int64_t data_type); /* DT_NONE if unknown */
int dtype_to_onnx(DType dtype);
static inline bool dtype_is_float(DType t) { return dtype_kind(t) == DK_FLOAT; }
static inline bool dtype_is_int(DType t) { return dtype_kind(t) == DK_SINT || dtype_kind(t) == DK_UINT; }
/* Bytes of n packed elements; false on overflow or for str. */
IG_MUST_USE bool dtype_bytes(DType dtype, uint64_t n, uint64_t *bytes);

/* Bit conversions. Narrowing rounds half to even; f8 narrowing saturates where `saturate` (ONNX Cast, `saturate`). */
float f16_to_f32(uint16_t bits);
uint16_t f16_from_f32(float value);
uint16_t f16_from_f64(double value);
float bf16_to_f32(uint16_t bits);
uint16_t bf16_from_f32(float value);
float f8_to_f32(DType dtype, uint8_t bits);
uint8_t f8_from_f32(DType dtype, float value, bool saturate); /* e8m0: E8M0_UP */
/* ONNX Cast-24, `round_mode` and `saturate`. */
typedef enum E8M0Round { E8M0_UP, E8M0_DOWN, E8M0_NEAREST } E8M0Round;
uint8_t f8e8m0_from_f64(double value, E8M0Round round, bool saturate);
static inline uint32_t f32_bits(float x) { union { float f; uint32_t u; } v = {.f = x}; return v.u; }
static inline float f32_from_bits(uint32_t x) { union { uint32_t u; float f; } v = {.u = x}; return v.f; }
static inline uint64_t f64_bits(double x) { union { double f; uint64_t u; } v = {.f = x}; return v.u; }
static inline double f64_from_bits(uint64_t x) { union { uint64_t u; double f; } v = {.u = x}; return v.f; }

/* One element of a packed array as a double (floats; integers up to 2^53 exactly) or as an integer. */
double elem_get_f64(DType dtype, const void *data, uint64_t index);
int64_t elem_get_s64(DType dtype, const void *data, uint64_t index);
void elem_set_f64(DType dtype, void *data, uint64_t index, double value); /* rounds; integers truncate, saturate */
void elem_set_s64(DType dtype, void *data, uint64_t index, int64_t value); /* integers wrap */

/* ---- task.c ---------------------------------------------------------------------------------------------- */

/* A piece of work that shares nothing that changes with other pieces of the same call; it must not unwind out of itself. */
typedef struct Task {
    void (*run)(void *arg);
    void *arg;
    uint64_t cost; /* a guess; the costliest are begun first */
} Task;
/* Returns when all are done. threads, the calling one among them; 0: one per CPU. Sorts the list. With one thread the tasks run
 * in the order given, on the calling thread, and may unwind. */
void task_run_all(Task *tasks, uint32_t n, uint32_t threads);

/* ---- file.c ---------------------------------------------------------------------------------------------- */

/* Read-only bytes of a file, mapped; or owned memory. Released with the Context. */
typedef struct Blob {
    const uint8_t *data;
    uint64_t size;
} Blob;
/* Reports and returns false when the file cannot be read. "-" reads standard input. A file that is mapped already is not mapped
 * again. */
IG_MUST_USE bool file_map(Context *ctx, const char *path, Blob *blob);
/* Writes all or nothing: a temporary file beside `path` is renamed over it. "-" writes standard output. */
typedef struct FileWriter FileWriter;
FileWriter *file_create(Context *ctx, const char *path, bool executable); /* NULL after reporting */
void file_write(FileWriter *file, const void *data, size_t size);
void file_seek_zero_to(FileWriter *file, uint64_t offset); /* pads with zeros up to offset */
uint64_t file_offset(const FileWriter *file);
IG_MUST_USE bool file_commit(FileWriter *file); /* false after reporting; nothing is left behind then */
void file_abandon(FileWriter *file);
IG_MUST_USE bool file_write_all(Context *ctx, const char *path, const void *data, size_t size);
/* Directory part of a path, "." if none. */
char *path_dir(Arena *arena, const char *path);
char *path_join(Arena *arena, const char *dir, const char *name);

/* ---- loc.c: where a node comes from. 0 is "unknown" and refused by the verifier. --------------------------- */

typedef uint32_t Loc;
typedef enum LocKind { LOC_NONE, LOC_TEXT, LOC_ONNX, LOC_FROM, LOC_FUSED } LocKind;
typedef struct LocInfo {
    LocKind kind;
    Str file;                /* TEXT, ONNX */
    uint32_t line, column;   /* TEXT: position; ONNX: line = index of the node in its graph */
    Str node, op_type, path; /* ONNX: node name ("" if unnamed), operator, "/"-joined sub-graph path */
    Str what;                /* FROM: the pass or rule that made it */
    const Loc *parents;      /* FROM: one; FUSED: n_parents */
    uint32_t n_parents;
} LocInfo;
Loc loc_text(Context *ctx, Str file, uint32_t line, uint32_t column);
Loc loc_onnx(Context *ctx, Str file, Str path, uint32_t index, Str node, Str op_type);
Loc loc_from(Context *ctx, Loc parent, const char *what);
Loc loc_fused(Context *ctx, const Loc *parents, uint32_t n);
const LocInfo *loc_info(Context *ctx, Loc loc);
void loc_print(Context *ctx, Text *text, Loc loc);      /* "m.onnx: node 'fc1' (Gemm, #3)" */
Str loc_name(Context *ctx, Loc loc);                    /* short name for kernels: node name or op type; never "" */

/* ---- diag.c ------------------------------------------------------------------------------------------------- */

typedef enum DiagId {
#define DIAG(id, severity, format) DIAG_##id,
#include "base/diag.def"
#undef DIAG
    DIAG_COUNT
} DiagId;
typedef enum Severity { SEV_ERROR, SEV_WARNING, SEV_NOTE, SEV_BUG } Severity;
typedef struct Diag {
    DiagId id;
    Severity severity;
    Loc loc;
    const char *message; /* without location */
} Diag;
/* Appends to the sink; the arguments follow the format of the row in diag.def. Returns false for errors, so that
 * `return diag_report(...)` reads well. */
bool diag_report(Context *ctx, Loc loc, DiagId id, ...);
uint32_t diag_count(const Context *ctx);  /* of all diagnostics */
uint32_t diag_errors(const Context *ctx); /* of errors and bugs */
const Diag *diag_get(const Context *ctx, uint32_t index);
void diag_print(Context *ctx, Text *text, const Diag *diag); /* "LOC: error[id]: message" */
void diag_clear(Context *ctx);
void diag_move(Context *to, Context *from); /* appends; locations of the diagnostics must be those of `to` */
const char *diag_name(DiagId id);

#endif
