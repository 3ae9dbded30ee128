/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to art: the link of kernel objects, and the description as bytes.
 *
 * A Link is the state between parsing objects and writing a file: every input section has an output section and an
 * offset in it, every reference has a target. art_so.c gives the output sections addresses and applies the relocations;
 * art_object.c keeps them and writes one merged relocatable object.
 */
#ifndef IGATA_ART_INT_H
#define IGATA_ART_INT_H

#include "art/art.h"

struct ArtSink {
    FileWriter *file;
    Sha256 sha;
    uint64_t written;
};
void art_sink_zeros(ArtSink *sink, uint64_t count);
/* Streams all weights, `start` being the sink position of the segment; ends at start + weights_bytes. */
bool art_sink_weights(Context *ctx, ArtSink *sink, const ArtImage *image, uint64_t start);
uint64_t art_weights_bytes(const ArtImage *image);
static inline uint64_t art_round(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }
static inline const char *art_or_empty(const char *text) { return text ? text : ""; }

/* ---- art_link.c ----------------------------------------------------------------------------------------------- */

typedef enum LinkOut { OUT_RODATA, OUT_EH_FRAME, OUT_TEXT, OUT_COUNT, OUT_NONE = OUT_COUNT } LinkOut;

typedef struct LinkSection { /* of one object */
    LinkOut out;
    uint64_t at, size;
    const uint8_t *data;
    const char *name;
    Elf64_Rela *relas;
    uint32_t n_relas;
} LinkSection;

typedef struct LinkObject {
    uint32_t variant; /* n_variants: that of PREFIX_run */
    const ArtObject *object;
    LinkSection *sections;
    uint32_t n_sections, n_symbols;
    Elf64_Sym *symbols;
    const char **names; /* of symbols; interned, "" for sections */
    Str *shown;         /* kernel functions: the name to show; NULL for others */
} LinkObject;

typedef struct LinkSymbol { /* where a reference leads */
    const LinkObject *object;
    uint32_t index;
} LinkSymbol;

typedef struct LinkPart { /* an output section */
    uint64_t size, align, address;
    uint8_t *data;
} LinkPart;

typedef struct Link {
    Context *ctx;
    Arena *arena;
    const ArtImage *image;
    LinkObject *objects;
    uint32_t n_objects;
    LinkPart parts[OUT_COUNT];
    Map **globals;        /* per variant, and one for PREFIX_run: interned name -> LinkSymbol */
    Str weights_symbol;   /* may be referred to without a definition; NULL: none */
    LinkSymbol **kernels; /* [variant][kernel] */
} Link;

/* Parses all objects, places their sections, finds kernels. With `prefix`, an object is made that defines PREFIX_run. */
bool link_objects(Link *link, Context *ctx, Arena *arena, const ArtImage *image, const char *prefix);
/* The target of a reference from `object` to its symbol `index`. A reference to the weights symbol gives object = NULL.
 */
bool link_resolve(const Link *link, const LinkObject *object, uint32_t index, LinkSymbol *target);
/* Address of a defined symbol once the parts have addresses; relative to its part before. */
uint64_t link_address(const Link *link, LinkSymbol symbol);
/* Applies every relocation; reports those that are unknown, out of reach, or would be left to the loader. */
bool link_relocate(Link *link);

/* ---- art_runner.c ----------------------------------------------------------------------------------------------- */

/* PREFIX_run for the first entry, as an object that calls the kernels of variant 0. */
void runner_make(Link *link, const char *prefix, LinkObject *out);

/* ---- art_reloc.c ------------------------------------------------------------------------------------------------ */

typedef struct RelocRow {
    uint32_t type;
    const char *name;
    uint8_t rule, field; /* private to art_reloc.c */
} RelocRow;
const RelocRow *reloc_find(ArtMachine machine, uint32_t type); /* NULL: unknown */
typedef enum RelocResult { RELOC_DONE, RELOC_ABSOLUTE, RELOC_RANGE, RELOC_FORM } RelocResult;
/* Patches `place`, which has at least reloc_bytes and two bytes before it; s symbol, a addend, p address of the place.
 */
RelocResult reloc_apply(const RelocRow *row, uint8_t *place, uint64_t s, int64_t a, uint64_t p);
uint32_t reloc_bytes(const RelocRow *row);

/* ---- art_frame.c: .eh_frame_hdr (LSB 5.0, section 10.6) ---------------------------------------------------------- */

/* Number of frame descriptions, or 0 where their pointers are not the pc-relative 32-bit form. */
uint32_t frame_count(const uint8_t *eh_frame, uint64_t size);
/* `out` has 12 + 8 * count bytes; eh_frame is relocated. */
void frame_write_header(uint8_t *out, uint64_t out_address, const uint8_t *eh_frame, uint64_t size, uint64_t address,
                        uint32_t count, Arena *arena);

/* ---- art_describe.c ---------------------------------------------------------------------------------------------- */

/* The description as bytes, all but what depends on the layout (code, weights, file_bytes, build_id). */
ArtHeader *art_describe(Context *ctx, Arena *arena, const ArtImage *image);

/* ---- art_read.c -------------------------------------------------------------------------------------------------- */

/* A description that art_check has accepted; what is returned refers to it. */
ArtInfo *art_decode(Context *ctx, const ArtHeader *header);

#endif
