/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared object. Address = file offset throughout, so the layout is one cursor:
 *
 *     R    ELF header, program headers, build id, description, symbol hashes, .dynsym, .dynstr, .rodata, unwind tables
 *     RX   .text
 *     RW   .dynamic (the loader patches it, then seals it: GNU_RELRO covers the page)
 *     R    weights, page-aligned, streamed
 *     -    .symtab, .strtab, .shstrtab, section headers, trailer
 *
 * Everything before the weights is assembled in memory; the build id is its SHA-256 (which covers the hashes of model,
 * options and compiler, and thereby the weights). Segments are aligned to 64 KB on AArch64, whose kernels may use such
 * pages. There is no dynamic relocation and no DT_NEEDED.
 */
#include "art/art_int.h"

enum {
    S_NULL,
    S_BUILD_ID,
    S_NOTE,
    S_GNU_HASH,
    S_HASH,
    S_DYNSYM,
    S_DYNSTR,
    S_RODATA,
    S_EH_HDR,
    S_EH_FRAME,
    S_TEXT,
    S_DYNAMIC,
    S_WEIGHTS,
    S_SYMTAB,
    S_STRTAB,
    S_SHSTRTAB,
    S_COUNT
};
#define N_PHDR 10
#define BUILD_ID_BYTES 20
#define NOTE_HEAD 20 /* of the igata note: header, name padded to 8 */

static const struct {
    const char *name;
    uint32_t type, flags, align, entsize, link;
} rows[S_COUNT] = {
    [S_NULL] = {"", SHT_NULL, 0, 0, 0, 0},
    [S_BUILD_ID] = {".note.gnu.build-id", SHT_NOTE, SHF_ALLOC, 4, 0, 0},
    [S_NOTE] = {".note.igata", SHT_NOTE, SHF_ALLOC, 4, 0, 0},
    [S_GNU_HASH] = {".gnu.hash", SHT_GNU_HASH, SHF_ALLOC, 8, 0, S_DYNSYM},
    [S_HASH] = {".hash", SHT_HASH, SHF_ALLOC, 8, 4, S_DYNSYM},
    [S_DYNSYM] = {".dynsym", SHT_DYNSYM, SHF_ALLOC, 8, sizeof(Elf64_Sym), S_DYNSTR},
    [S_DYNSTR] = {".dynstr", SHT_STRTAB, SHF_ALLOC, 1, 0, 0},
    [S_RODATA] = {".rodata", SHT_PROGBITS, SHF_ALLOC, 1, 0, 0},
    [S_EH_HDR] = {".eh_frame_hdr", SHT_PROGBITS, SHF_ALLOC, 4, 0, 0},
    [S_EH_FRAME] = {".eh_frame", SHT_PROGBITS, SHF_ALLOC, 8, 0, 0},
    [S_TEXT] = {".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 1, 0, 0},
    [S_DYNAMIC] = {".dynamic", SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, 8, sizeof(Elf64_Dyn), S_DYNSTR},
    [S_WEIGHTS] = {".igata.weights", SHT_PROGBITS, SHF_ALLOC, 64, 0, 0},
    [S_SYMTAB] = {".symtab", SHT_SYMTAB, 0, 8, sizeof(Elf64_Sym), S_STRTAB},
    [S_STRTAB] = {".strtab", SHT_STRTAB, 0, 1, 0, 0},
    [S_SHSTRTAB] = {".shstrtab", SHT_STRTAB, 0, 1, 0, 0},
};

typedef struct So {
    Context *ctx;
    Arena *arena;
    const ArtImage *image;
    Link link;
    ArtHeader *desc;
    Elf64_Shdr sections[S_COUNT];
    const void *data[S_COUNT]; /* NULL: filled later, or streamed */
    uint64_t page, cursor, r_end, file_bytes;
    uint32_t frames, first_global;
    Text strtab, dynstr, shstrtab;
    VEC(Elf64_Sym) symbols;
    Elf64_Sym dynsym[3];
    uint32_t n_dynsym;
} So;

/* ---- layout --------------------------------------------------------------------------------------------------- */

static void put_section(So *so, int index, const void *data, uint64_t size, uint64_t align)
{
    Elf64_Shdr *sh = &so->sections[index];
    so->cursor = art_round(so->cursor, align);
    *sh = (Elf64_Shdr){.sh_type = rows[index].type,
                       .sh_flags = rows[index].flags,
                       .sh_addr = rows[index].flags & SHF_ALLOC ? so->cursor : 0,
                       .sh_offset = so->cursor,
                       .sh_size = size,
                       .sh_link = rows[index].link,
                       .sh_addralign = align,
                       .sh_entsize = rows[index].entsize};
    so->data[index] = data;
    so->cursor += size;
}

static uint32_t add_name(Text *table, const char *name)
{
    size_t at = table->len;
    text_add_n(table, name, strlen(name) + 1);
    return (uint32_t)at;
}

static void add_dynamic_symbol(So *so, const char *name, int section, uint64_t value, uint64_t size)
{
    so->dynsym[so->n_dynsym++] = (Elf64_Sym){.st_name = add_name(&so->dynstr, name),
                                             .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                                             .st_shndx = (uint16_t)section,
                                             .st_value = value,
                                             .st_size = size};
}

/* GNU hash with one bucket and a one-word filter: there are at most two symbols. */
static void *make_gnu_hash(So *so, uint64_t *size)
{
    uint32_t n = so->n_dynsym - 1, *table = arena_alloc(so->arena, 28 + 4 * n);
    uint64_t filter = 0;
    table[0] = 1;
    table[1] = 1;
    table[2] = 1;
    table[3] = 6;
    table[6] = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t h = 5381;
        for (const char *p = so->dynstr.data + so->dynsym[i + 1].st_name; *p; p++)
            h = h * 33 + (unsigned char)*p;
        filter |= UINT64_C(1) << (h & 63) | UINT64_C(1) << ((h >> 6) & 63);
        table[7 + i] = (h & ~1u) | (i + 1 == n);
    }
    memcpy(&table[4], &filter, 8);
    *size = 28 + 4 * n;
    return table;
}

/* System V hash, one bucket: the chain runs through all symbols. */
static void *make_hash(So *so, uint64_t *size)
{
    uint32_t n = so->n_dynsym, *table = arena_alloc(so->arena, 12 + 4 * (uint64_t)n);
    table[0] = 1;
    table[1] = n;
    table[2] = 1;
    for (uint32_t i = 1; i + 1 < n; i++)
        table[3 + i] = i + 1;
    *size = 12 + 4 * (uint64_t)n;
    return table;
}

static void *make_note(So *so, uint64_t *size)
{
    *size = NOTE_HEAD + (uint64_t)so->desc->bytes;
    uint8_t *note = arena_alloc(so->arena, *size);
    Elf64_Nhdr head = {sizeof ART_NOTE_NAME, so->desc->bytes, ART_NOTE_TYPE};
    memcpy(note, &head, sizeof head);
    memcpy(note + sizeof head, ART_NOTE_NAME, sizeof ART_NOTE_NAME);
    memcpy(note + NOTE_HEAD, so->desc, so->desc->bytes);
    return note;
}

static void *make_build_id(So *so)
{
    uint8_t *note = arena_alloc(so->arena, 16 + BUILD_ID_BYTES);
    Elf64_Nhdr head = {4, BUILD_ID_BYTES, NT_GNU_BUILD_ID};
    memcpy(note, &head, sizeof head);
    memcpy(note + sizeof head, "GNU", 4);
    return note;
}

/* ---- symbols -------------------------------------------------------------------------------------------------- */

static void add_symbol(So *so, const char *name, int bind, int type, int section, uint64_t value, uint64_t size)
{
    Elf64_Sym symbol = {.st_name = *name ? add_name(&so->strtab, name) : 0,
                        .st_info = (uint8_t)ELF64_ST_INFO(bind, type),
                        .st_shndx = (uint16_t)section,
                        .st_value = value,
                        .st_size = size};
    vec_push(so->arena, &so->symbols, symbol);
}

/* Functions by the names to show, and AArch64 mapping symbols ($x code, $d data), which disassemblers need. Addresses
 * must be known. */
static void add_code_symbols(So *so)
{
    for (uint32_t i = 0; i < so->link.n_objects; i++) {
        const LinkObject *o = &so->link.objects[i];
        for (uint32_t s = 1; s < o->n_symbols; s++) {
            const Elf64_Sym *sym = &o->symbols[s];
            int type = ELF64_ST_TYPE(sym->st_info);
            bool mapping = type == STT_NOTYPE && o->names[s][0] == '$' && so->image->machine == ART_AARCH64;
            if ((type != STT_FUNC && !mapping) || sym->st_shndx >= o->n_sections ||
                o->sections[sym->st_shndx].out != OUT_TEXT)
                continue;
            add_symbol(so, o->shown[s] ? o->shown[s] : o->names[s], STB_LOCAL, type, S_TEXT,
                       link_address(&so->link, (LinkSymbol){o, s}), sym->st_size);
        }
    }
}

/* ---- contents ----------------------------------------------------------------------------------------------- */

static bool lay_out(So *so)
{
    const ArtImage *image = so->image;
    LinkPart *parts = so->link.parts;
    uint64_t size, weights = so->desc->weights_bytes;
    so->cursor = sizeof(Elf64_Ehdr) + N_PHDR * sizeof(Elf64_Phdr);
    put_section(so, S_BUILD_ID, make_build_id(so), 16 + BUILD_ID_BYTES, 4);
    so->cursor = art_round(so->cursor + 4, 16) - 4; /* so that the description, 20 bytes on, is aligned to 16 */
    put_section(so, S_NOTE, NULL, NOTE_HEAD + (uint64_t)so->desc->bytes, 4);
    add_dynamic_symbol(so, ART_SYMBOL, S_NOTE, so->sections[S_NOTE].sh_offset + NOTE_HEAD, so->desc->bytes);
    if (weights)
        add_dynamic_symbol(so, "igata_weights", S_WEIGHTS, 0, weights);
    Text soname;
    text_init(&soname, so->arena);
    for (int i = 0; i < 8; i++)
        text_addf(&soname, "%02x", image->model_sha256[i]);
    uint32_t soname_at = add_name(&so->dynstr, arena_printf(so->arena, "igata-%s.so", soname.data));
    void *table = make_gnu_hash(so, &size);
    put_section(so, S_GNU_HASH, table, size, 8);
    table = make_hash(so, &size);
    put_section(so, S_HASH, table, size, 8);
    put_section(so, S_DYNSYM, so->dynsym, so->n_dynsym * sizeof(Elf64_Sym), 8);
    so->sections[S_DYNSYM].sh_info = 1;
    put_section(so, S_DYNSTR, so->dynstr.data, so->dynstr.len, 1);
    put_section(so, S_RODATA, NULL, parts[OUT_RODATA].size, parts[OUT_RODATA].align);
    so->frames = frame_count(parts[OUT_EH_FRAME].data, parts[OUT_EH_FRAME].size);
    put_section(so, S_EH_HDR, NULL, so->frames ? 12 + 8 * (uint64_t)so->frames : 0, 4);
    put_section(so, S_EH_FRAME, NULL, parts[OUT_EH_FRAME].size, 8);
    so->r_end = so->cursor;
    so->cursor = art_round(so->cursor, so->page);
    put_section(so, S_TEXT, NULL, parts[OUT_TEXT].size, parts[OUT_TEXT].align);
    so->cursor = art_round(so->cursor, so->page);
    Elf64_Dyn *dynamic = ARENA_ARRAY(so->arena, Elf64_Dyn, 9);
    put_section(so, S_DYNAMIC, dynamic, 8 * sizeof *dynamic, 8);
    dynamic[0] = (Elf64_Dyn){DT_SONAME, {soname_at}};
    dynamic[1] = (Elf64_Dyn){DT_HASH, {so->sections[S_HASH].sh_addr}};
    dynamic[2] = (Elf64_Dyn){DT_GNU_HASH, {so->sections[S_GNU_HASH].sh_addr}};
    dynamic[3] = (Elf64_Dyn){DT_STRTAB, {so->sections[S_DYNSTR].sh_addr}};
    dynamic[4] = (Elf64_Dyn){DT_SYMTAB, {so->sections[S_DYNSYM].sh_addr}};
    dynamic[5] = (Elf64_Dyn){DT_STRSZ, {so->dynstr.len}};
    dynamic[6] = (Elf64_Dyn){DT_SYMENT, {sizeof(Elf64_Sym)}};
    so->cursor = art_round(so->cursor, so->page);
    put_section(so, S_WEIGHTS, NULL, weights, so->page);
    if (weights)
        so->dynsym[2].st_value = so->sections[S_WEIGHTS].sh_addr;
    parts[OUT_RODATA].address = so->sections[S_RODATA].sh_addr;
    parts[OUT_EH_FRAME].address = so->sections[S_EH_FRAME].sh_addr;
    parts[OUT_TEXT].address = so->sections[S_TEXT].sh_addr;
    if (so->sections[S_WEIGHTS].sh_addr > INT32_MAX)
        return diag_report(so->ctx, 0, DIAG_art_limit, "its code is larger than 2 GiB");
    return true;
}

/* The part after the weights; every size is known after this. */
static void lay_out_tail(So *so)
{
    add_symbol(so, "", STB_LOCAL, STT_NOTYPE, 0, 0, 0);
    add_code_symbols(so);
    so->first_global = so->symbols.len;
    for (uint32_t i = 1; i < so->n_dynsym; i++)
        add_symbol(so, so->dynstr.data + so->dynsym[i].st_name, STB_GLOBAL, STT_OBJECT, so->dynsym[i].st_shndx,
                   so->dynsym[i].st_value, so->dynsym[i].st_size);
    put_section(so, S_SYMTAB, so->symbols.data, so->symbols.len * sizeof(Elf64_Sym), 8);
    so->sections[S_SYMTAB].sh_info = so->first_global;
    put_section(so, S_STRTAB, so->strtab.data, so->strtab.len, 1);
    for (int i = 0; i < S_COUNT; i++)
        so->sections[i].sh_name = i ? add_name(&so->shstrtab, rows[i].name) : 0;
    uint32_t name = so->sections[S_SHSTRTAB].sh_name;
    put_section(so, S_SHSTRTAB, so->shstrtab.data, so->shstrtab.len, 1);
    so->sections[S_SHSTRTAB].sh_name = name;
    so->cursor = art_round(so->cursor, 8);
    so->file_bytes = so->cursor + S_COUNT * sizeof(Elf64_Shdr) + sizeof(ArtTrailer);
}

static void finish_description(So *so)
{
    uint64_t at = so->sections[S_NOTE].sh_addr + NOTE_HEAD;
    const ArtImage *image = so->image;
    ArtHeader *h = so->desc;
    ArtRecKernel *kernel = (ArtRecKernel *)(void *)((uint8_t *)h + h->kernels.at);
    h->file_bytes = so->file_bytes;
    h->weights = h->weights_bytes ? (int64_t)(so->sections[S_WEIGHTS].sh_addr - at) : 0;
    h->weights_offset = h->weights_bytes ? so->sections[S_WEIGHTS].sh_offset : 0;
    for (uint32_t v = 0; v < image->n_variants; v++)
        for (uint32_t k = 0; k < image->variants[v].n_kernels; k++, kernel++) {
            LinkSymbol symbol = so->link.kernels[v][k];
            kernel->code = (int32_t)(int64_t)(link_address(&so->link, symbol) - at);
            kernel->code_bytes = (uint32_t)symbol.object->symbols[symbol.index].st_size;
        }
}

static uint32_t make_segments(const So *so, Elf64_Phdr *ph)
{
    const Elf64_Shdr *s = so->sections;
    uint32_t n = 0;
    ph[n++] = (Elf64_Phdr){PT_LOAD, PF_R, 0, 0, 0, so->r_end, so->r_end, so->page};
#define SEGMENT(type, flags, section, size, align)                                                                     \
    ph[n++] = (Elf64_Phdr){type,   flags,  s[section].sh_offset, s[section].sh_offset, s[section].sh_offset, (size),   \
                           (size), (align)}
    SEGMENT(PT_LOAD, PF_R | PF_X, S_TEXT, s[S_TEXT].sh_size, so->page);
    SEGMENT(PT_LOAD, PF_R | PF_W, S_DYNAMIC, so->page, so->page); /* a whole page, so that all of it can be sealed */
    if (s[S_WEIGHTS].sh_size)
        SEGMENT(PT_LOAD, PF_R, S_WEIGHTS, s[S_WEIGHTS].sh_size, so->page);
    SEGMENT(PT_DYNAMIC, PF_R | PF_W, S_DYNAMIC, s[S_DYNAMIC].sh_size, 8);
    SEGMENT(PT_GNU_RELRO, PF_R, S_DYNAMIC, so->page, 1);
    SEGMENT(PT_NOTE, PF_R, S_BUILD_ID, s[S_BUILD_ID].sh_size, 4);
    SEGMENT(PT_NOTE, PF_R, S_NOTE, s[S_NOTE].sh_size, 4);
    if (so->frames)
        SEGMENT(PT_GNU_EH_FRAME, PF_R, S_EH_HDR, s[S_EH_HDR].sh_size, 4);
#undef SEGMENT
    ph[n++] = (Elf64_Phdr){PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16};
    return n;
}

static void make_header(const So *so, uint8_t *head)
{
    Elf64_Phdr segments[N_PHDR];
    uint32_t n = make_segments(so, segments);
    Elf64_Ehdr eh = {.e_type = ET_DYN,
                     .e_machine = so->image->machine == ART_X86_64 ? EM_X86_64 : EM_AARCH64,
                     .e_version = EV_CURRENT,
                     .e_phoff = sizeof eh,
                     .e_shoff = so->file_bytes - sizeof(ArtTrailer) - S_COUNT * sizeof(Elf64_Shdr),
                     .e_ehsize = sizeof eh,
                     .e_phentsize = sizeof(Elf64_Phdr),
                     .e_phnum = (uint16_t)n,
                     .e_shentsize = sizeof(Elf64_Shdr),
                     .e_shnum = S_COUNT,
                     .e_shstrndx = S_SHSTRTAB};
    memcpy(eh.e_ident, ELFMAG, SELFMAG);
    eh.e_ident[EI_CLASS] = ELFCLASS64;
    eh.e_ident[EI_DATA] = ELFDATA2LSB;
    eh.e_ident[EI_VERSION] = EV_CURRENT;
    memcpy(head, &eh, sizeof eh);
    memcpy(head + sizeof eh, segments, n * sizeof *segments);
}

/* Everything before the weights, with its build id. */
static uint8_t *make_head(So *so)
{
    uint64_t size = so->sections[S_WEIGHTS].sh_offset, note_size;
    LinkPart *parts = so->link.parts;
    uint8_t *head = arena_alloc(so->arena, size);
    make_header(so, head);
    so->data[S_NOTE] = make_note(so, &note_size);
    so->data[S_RODATA] = parts[OUT_RODATA].data;
    so->data[S_EH_FRAME] = parts[OUT_EH_FRAME].data;
    so->data[S_TEXT] = parts[OUT_TEXT].data;
    for (int i = S_BUILD_ID; i < S_WEIGHTS; i++)
        if (so->data[i] && so->sections[i].sh_size)
            memcpy(head + so->sections[i].sh_offset, so->data[i], so->sections[i].sh_size);
    if (so->frames)
        frame_write_header(head + so->sections[S_EH_HDR].sh_offset, so->sections[S_EH_HDR].sh_addr,
                           parts[OUT_EH_FRAME].data, parts[OUT_EH_FRAME].size, parts[OUT_EH_FRAME].address, so->frames,
                           so->arena);
    Sha256 sha;
    uint8_t digest[32];
    sha256_begin(&sha);
    sha256_add(&sha, head, size);
    sha256_end(&sha, digest);
    memcpy(head + so->sections[S_BUILD_ID].sh_offset + 16, digest, BUILD_ID_BYTES);
    memcpy(head + so->sections[S_NOTE].sh_offset + NOTE_HEAD + offsetof(ArtHeader, build_id), digest, 8);
    return head;
}

static bool write_file(So *so, const uint8_t *head, const char *path)
{
    ArtSink sink = {.file = file_create(so->ctx, path, true)};
    if (!sink.file)
        return false;
    sha256_begin(&sink.sha);
    art_sink_write(&sink, head, so->sections[S_WEIGHTS].sh_offset);
    if (!art_sink_weights(so->ctx, &sink, so->image, so->sections[S_WEIGHTS].sh_offset)) {
        file_abandon(sink.file);
        return false;
    }
    for (int i = S_SYMTAB; i < S_COUNT; i++) {
        art_sink_zeros(&sink, so->sections[i].sh_offset - sink.written);
        art_sink_write(&sink, so->data[i], so->sections[i].sh_size);
    }
    art_sink_zeros(&sink, art_round(sink.written, 8) - sink.written);
    art_sink_write(&sink, so->sections, sizeof so->sections);
    ArtTrailer trailer;
    memcpy(trailer.magic, ART_TRAILER_MAGIC, 8);
    Sha256 sha = sink.sha;
    sha256_end(&sha, trailer.sha256);
    art_sink_write(&sink, &trailer, sizeof trailer);
    IG_CHECK(so->ctx, sink.written == so->file_bytes);
    return file_commit(sink.file);
}

static bool build_so(So *so, const char *path)
{
    so->desc = art_describe(so->ctx, so->arena, so->image);
    if (!so->desc || !link_objects(&so->link, so->ctx, so->arena, so->image, NULL))
        return false;
    if (!lay_out(so))
        return false;
    lay_out_tail(so);
    finish_description(so);
    return link_relocate(&so->link) && write_file(so, make_head(so), path);
}

bool art_write_so(Context *ctx, const ArtImage *image, const char *path)
{
    Arena *arena = arena_create(ctx);
    So *so = ARENA_NEW(arena, So);
    *so = (So){.ctx = ctx, .arena = arena, .image = image, .page = image->machine == ART_X86_64 ? 4096 : 65536};
    text_init(&so->strtab, arena);
    text_init(&so->dynstr, arena);
    text_init(&so->shstrtab, arena);
    text_add_n(&so->strtab, "", 1);
    text_add_n(&so->dynstr, "", 1);
    text_add_n(&so->shstrtab, "", 1);
    so->n_dynsym = 1;
    bool good = build_so(so, path);
    arena_destroy(arena);
    return good;
}
