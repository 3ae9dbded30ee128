/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as a relocatable object, alone or in an archive, with its C header. All objects are merged into one so that
 * every symbol but PREFIX_run can be local: two models link into one program without a clash. Relocations stay, moved
 * to their place in the merged sections; the weights are a section of their own, streamed.
 * Archive format: System V ABI, chapter 7, "Archive File", with the symbol table member "/".
 */
#include "art/art_int.h"
#include <ctype.h>
#include <stdio.h>

enum {
    O_NULL,
    O_TEXT, /* a part's section and its relocations follow one another */
    O_RELA_TEXT,
    O_RODATA,
    O_RELA_RODATA,
    O_EH_FRAME,
    O_RELA_EH_FRAME,
    O_WEIGHTS,
    O_STACK,
    O_SYMTAB,
    O_STRTAB,
    O_SHSTRTAB,
    O_COUNT
};

static const struct {
    const char *name;
    uint32_t type, flags, entsize, link, info;
} rows[O_COUNT] = {
    [O_NULL] = {"", SHT_NULL, 0, 0, 0, 0},
    [O_TEXT] = {".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, 0, 0},
    [O_RELA_TEXT] = {".rela.text", SHT_RELA, SHF_INFO_LINK, sizeof(Elf64_Rela), O_SYMTAB, O_TEXT},
    [O_RODATA] = {".rodata", SHT_PROGBITS, SHF_ALLOC, 0, 0, 0},
    [O_RELA_RODATA] = {".rela.rodata", SHT_RELA, SHF_INFO_LINK, sizeof(Elf64_Rela), O_SYMTAB, O_RODATA},
    [O_EH_FRAME] = {".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0, 0, 0},
    [O_RELA_EH_FRAME] = {".rela.eh_frame", SHT_RELA, SHF_INFO_LINK, sizeof(Elf64_Rela), O_SYMTAB, O_EH_FRAME},
    [O_WEIGHTS] = {".rodata.igata_weights", SHT_PROGBITS, SHF_ALLOC, 0, 0, 0},
    [O_STACK] = {".note.GNU-stack", SHT_PROGBITS, 0, 0, 0, 0},
    [O_SYMTAB] = {".symtab", SHT_SYMTAB, 0, sizeof(Elf64_Sym), O_STRTAB, 0},
    [O_STRTAB] = {".strtab", SHT_STRTAB, 0, 0, 0, 0},
    [O_SHSTRTAB] = {".shstrtab", SHT_STRTAB, 0, 0, 0, 0},
};
static const int section_of[OUT_COUNT] = {[OUT_TEXT] = O_TEXT, [OUT_RODATA] = O_RODATA, [OUT_EH_FRAME] = O_EH_FRAME};

typedef struct Merge {
    Context *ctx;
    Arena *arena;
    const ArtImage *image;
    const char *prefix;
    Link link;
    Elf64_Ehdr header;
    Elf64_Shdr sections[O_COUNT];
    const void *data[O_COUNT];
    VEC(Elf64_Sym) symbols;
    VEC(Elf64_Rela) relas[OUT_COUNT];
    VEC(const char *) globals; /* names, for an archive's symbol table */
    uint32_t **numbers;        /* per object: merged number of each symbol */
    uint32_t weights_number, first_global;
    Text strtab, shstrtab;
    uint64_t bytes;
} Merge;

/* ---- symbols and relocations ------------------------------------------------------------------------------------- */

static uint32_t add_symbol(Merge *m, const char *name, int bind, int type, int section, uint64_t value, uint64_t size)
{
    Elf64_Sym symbol = {.st_info = (uint8_t)ELF64_ST_INFO(bind, type),
                        .st_shndx = (uint16_t)section,
                        .st_value = value,
                        .st_size = size};
    if (*name) {
        symbol.st_name = (uint32_t)m->strtab.len;
        text_add_n(&m->strtab, name, strlen(name) + 1);
    }
    vec_push(m->arena, &m->symbols, symbol);
    return m->symbols.len - 1;
}

/* Visible outside: PREFIX_run. */
static bool is_exported(const Merge *m, const LinkObject *o, uint32_t i)
{
    size_t n = strlen(m->prefix);
    return o->variant == m->image->n_variants && ELF64_ST_BIND(o->symbols[i].st_info) != STB_LOCAL &&
           strncmp(o->names[i], m->prefix, n) == 0 && o->names[i][n] == '_';
}

static void add_symbols(Merge *m, bool exported)
{
    for (uint32_t n = 0; n < m->link.n_objects; n++) {
        const LinkObject *o = &m->link.objects[n];
        for (uint32_t i = 1; i < o->n_symbols; i++) {
            const Elf64_Sym *sym = &o->symbols[i];
            int type = ELF64_ST_TYPE(sym->st_info);
            if (sym->st_shndx == SHN_UNDEF || sym->st_shndx >= o->n_sections || is_exported(m, o, i) != exported)
                continue;
            const LinkSection *s = &o->sections[sym->st_shndx];
            if (s->out == OUT_NONE)
                continue;
            if (type == STT_SECTION) { /* the merged section's symbol is its number 1 + part */
                m->numbers[n][i] = 1 + (uint32_t)s->out;
                continue;
            }
            m->numbers[n][i] = add_symbol(m, o->shown[i] ? o->shown[i] : o->names[i], exported ? STB_GLOBAL : STB_LOCAL,
                                          type, section_of[s->out], s->at + sym->st_value, sym->st_size);
            if (exported)
                vec_push(m->arena, &m->globals, o->names[i]);
        }
    }
}

static bool move_relocation(Merge *m, const LinkObject *o, const LinkSection *s, Elf64_Rela rela)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(rela.r_info), number = m->weights_number;
    LinkSymbol target;
    if (type == 0)
        return true;
    if (!link_resolve(&m->link, o, (uint32_t)ELF64_R_SYM(rela.r_info), &target))
        return false;
    if (!reloc_find(m->image->machine, type))
        return diag_report(m->ctx, 0, DIAG_art_relocation, (unsigned)type,
                           target.object ? target.object->names[target.index] : m->link.weights_symbol, s->name,
                           m->image->machine == ART_X86_64 ? "x86-64" : "aarch64");
    if (target.object) {
        const Elf64_Sym *sym = &target.object->symbols[target.index];
        number = m->numbers[target.object - m->link.objects][target.index];
        if (ELF64_ST_TYPE(sym->st_info) == STT_SECTION)
            rela.r_addend += (int64_t)target.object->sections[sym->st_shndx].at;
    }
    rela.r_offset += s->at;
    rela.r_info = ELF64_R_INFO((uint64_t)number, type);
    vec_push(m->arena, &m->relas[s->out], rela);
    return true;
}

static bool move_relocations(Merge *m)
{
    bool good = true;
    for (uint32_t i = 0; i < m->link.n_objects; i++)
        for (uint32_t n = 0; n < m->link.objects[i].n_sections; n++) {
            const LinkSection *s = &m->link.objects[i].sections[n];
            for (uint32_t r = 0; r < s->n_relas; r++)
                good = move_relocation(m, &m->link.objects[i], s, s->relas[r]) && good;
        }
    return good;
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

static void put_section(Merge *m, int index, const void *data, uint64_t size, uint64_t align)
{
    m->bytes = art_round(m->bytes, align);
    m->sections[index] = (Elf64_Shdr){.sh_name = index ? (uint32_t)m->shstrtab.len : 0,
                                      .sh_type = rows[index].type,
                                      .sh_flags = rows[index].flags,
                                      .sh_offset = index ? m->bytes : 0,
                                      .sh_size = size,
                                      .sh_link = rows[index].link,
                                      .sh_info = rows[index].info,
                                      .sh_addralign = index ? align : 0,
                                      .sh_entsize = rows[index].entsize};
    if (index)
        text_add_n(&m->shstrtab, rows[index].name, strlen(rows[index].name) + 1);
    m->data[index] = data;
    m->bytes += size;
}

static void lay_out(Merge *m)
{
    m->bytes = sizeof(Elf64_Ehdr);
    put_section(m, O_NULL, NULL, 0, 1);
    static const LinkOut order[OUT_COUNT] = {OUT_TEXT, OUT_RODATA, OUT_EH_FRAME};
    for (int i = 0; i < OUT_COUNT; i++) {
        LinkPart *part = &m->link.parts[order[i]];
        uint64_t size = part->size;
        if (order[i] == OUT_EH_FRAME && size)
            size -= 4; /* the end mark belongs to the final link */
        put_section(m, section_of[order[i]], part->data, size, part->align);
        put_section(m, section_of[order[i]] + 1, m->relas[order[i]].data, m->relas[order[i]].len * sizeof(Elf64_Rela),
                    8);
    }
    put_section(m, O_WEIGHTS, NULL, art_weights_bytes(m->image), ART_ALIGN);
    put_section(m, O_STACK, NULL, 0, 1);
    put_section(m, O_SYMTAB, m->symbols.data, m->symbols.len * sizeof(Elf64_Sym), 8);
    m->sections[O_SYMTAB].sh_info = m->first_global;
    put_section(m, O_STRTAB, m->strtab.data, m->strtab.len, 1);
    uint64_t names = m->shstrtab.len + strlen(rows[O_SHSTRTAB].name) + 1;
    put_section(m, O_SHSTRTAB, NULL, names, 1);
    m->data[O_SHSTRTAB] = m->shstrtab.data;
    m->bytes = art_round(m->bytes, 8);
    m->header = (Elf64_Ehdr){.e_type = ET_REL,
                             .e_machine = m->image->machine == ART_X86_64 ? EM_X86_64 : EM_AARCH64,
                             .e_version = EV_CURRENT,
                             .e_shoff = m->bytes,
                             .e_ehsize = sizeof(Elf64_Ehdr),
                             .e_shentsize = sizeof(Elf64_Shdr),
                             .e_shnum = O_COUNT,
                             .e_shstrndx = O_SHSTRTAB};
    memcpy(m->header.e_ident, ELFMAG, SELFMAG);
    m->header.e_ident[EI_CLASS] = ELFCLASS64;
    m->header.e_ident[EI_DATA] = ELFDATA2LSB;
    m->header.e_ident[EI_VERSION] = EV_CURRENT;
    m->bytes += sizeof m->sections;
}

static bool check_image(Context *ctx, const ArtImage *image, const char *prefix)
{
    bool identifier = isalpha((unsigned char)*prefix) || *prefix == '_';
    for (const char *p = prefix; *p; p++)
        identifier = identifier && (isalnum((unsigned char)*p) || *p == '_');
    if (!identifier)
        return diag_report(ctx, 0, DIAG_art_limit, str_format(ctx, "'%s' is not a C identifier to name it by", prefix));
    if (image->n_variants != 1 || image->n_entries == 0)
        return diag_report(ctx, 0, DIAG_art_limit,
                           str_format(ctx, "an object holds one CPU variant and an entry, not %u and %u",
                                      image->n_variants, image->n_entries));
    if (art_weights_bytes(image) > INT32_MAX)
        return diag_report(ctx, 0, DIAG_art_limit, "the constants of an object must fit in 2 GiB");
    if (image->entries[0].n_symbols)
        return diag_report(ctx, 0, DIAG_art_limit,
                           str_format(ctx, "the run function of an object has fixed sizes: give one for '%s', or write a .so",
                                      image->entries[0].sizes[0].name));
    if (image->entries[0].n_found)
        return diag_report(ctx, 0, DIAG_art_limit,
                           str_format(ctx, "the run function of an object has fixed sizes, but '%s' is found by the run: write a .so",
                                      image->entries[0].sizes[0].name));
    if (image->variants[0].bodies[0].n_steps)
        return diag_report(ctx, 0, DIAG_art_limit,
                           "the run function of an object has no branches and loops between kernels: write a .so");
    if (image->entries[0].n_inputs > 4096 || image->entries[0].n_outputs > 4096)
        return diag_report(ctx, 0, DIAG_art_limit,
                           "the run function of an object takes at most 4096 inputs and outputs");
    return true;
}

static bool merge(Merge *m, Context *ctx, Arena *arena, const ArtImage *image, const char *prefix)
{
    *m = (Merge){.ctx = ctx, .arena = arena, .image = image, .prefix = prefix};
    /* art_describe checks the image; its result has no place in an object. */
    if (!check_image(ctx, image, prefix) || !art_describe(ctx, arena, image) ||
        !link_objects(&m->link, ctx, arena, image, prefix))
        return false;
    text_init(&m->strtab, arena);
    text_init(&m->shstrtab, arena);
    text_add_n(&m->strtab, "", 1);
    text_add_n(&m->shstrtab, "", 1);
    m->numbers = ARENA_ARRAY(arena, uint32_t *, (size_t)m->link.n_objects + 1);
    for (uint32_t i = 0; i < m->link.n_objects; i++)
        m->numbers[i] = ARENA_ARRAY(arena, uint32_t, (size_t)m->link.objects[i].n_symbols + 1);
    add_symbol(m, "", STB_LOCAL, STT_NOTYPE, 0, 0, 0);
    for (int part = 0; part < OUT_COUNT; part++)
        add_symbol(m, "", STB_LOCAL, STT_SECTION, section_of[part], 0, 0);
    m->weights_number =
        add_symbol(m, m->link.weights_symbol, STB_LOCAL, STT_OBJECT, O_WEIGHTS, 0, art_weights_bytes(image));
    add_symbols(m, false);
    m->first_global = m->symbols.len;
    add_symbols(m, true);
    if (!move_relocations(m))
        return false;
    lay_out(m);
    return true;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static bool write_object(Merge *m, ArtSink *sink)
{
    uint64_t base = sink->written;
    art_sink_write(sink, &m->header, sizeof m->header);
    for (int i = 1; i < O_COUNT; i++) {
        art_sink_zeros(sink, base + m->sections[i].sh_offset - sink->written);
        if (i == O_WEIGHTS) {
            if (!art_sink_weights(m->ctx, sink, m->image, sink->written))
                return false;
        } else if (m->sections[i].sh_size) {
            art_sink_write(sink, m->data[i], m->sections[i].sh_size);
        }
    }
    art_sink_zeros(sink, base + m->header.e_shoff - sink->written);
    art_sink_write(sink, m->sections, sizeof m->sections);
    IG_CHECK(m->ctx, sink->written == base + m->bytes);
    return true;
}

static void write_member_header(ArtSink *sink, const char *name, uint64_t size)
{
    char header[96];
    snprintf(header, sizeof header, "%-16s%-12u%-6u%-6u%-8s%-10llu`\n", name, 0u, 0u, 0u, "644",
             (unsigned long long)size);
    art_sink_write(sink, header, 60);
}

static void write_big_endian(ArtSink *sink, uint32_t x)
{
    uint8_t bytes[4] = {(uint8_t)(x >> 24), (uint8_t)(x >> 16), (uint8_t)(x >> 8), (uint8_t)x};
    art_sink_write(sink, bytes, 4);
}

static bool write_archive(Merge *m, ArtSink *sink)
{
    uint64_t names = 0;
    for (uint32_t i = 0; i < m->globals.len; i++)
        names += strlen(m->globals.data[i]) + 1;
    uint64_t table = art_round(4 + 4 * (uint64_t)m->globals.len + names, 2);
    if (m->bytes >= UINT64_C(10000000000))
        return diag_report(m->ctx, 0, DIAG_art_limit, "an archive member holds at most 10^10 bytes");
    art_sink_write(sink, "!<arch>\n", 8);
    write_member_header(sink, "/", table);
    write_big_endian(sink, m->globals.len);
    for (uint32_t i = 0; i < m->globals.len; i++)
        write_big_endian(sink, (uint32_t)(8 + 60 + table));
    for (uint32_t i = 0; i < m->globals.len; i++)
        art_sink_write(sink, m->globals.data[i], strlen(m->globals.data[i]) + 1);
    art_sink_zeros(sink, 8 + 60 + table - sink->written);
    write_member_header(sink, "model.o/", m->bytes);
    return write_object(m, sink); /* its size is even */
}

static bool write_merged(Context *ctx, const ArtImage *image, const char *prefix, const char *path,
                         bool (*write)(Merge *, ArtSink *))
{
    Arena *arena = arena_create(ctx);
    Merge *m = ARENA_NEW(arena, Merge);
    ArtSink sink = {0};
    bool good = merge(m, ctx, arena, image, prefix);
    if (good) {
        sha256_begin(&sink.sha);
        sink.file = file_create(ctx, path, false);
        good = sink.file && write(m, &sink);
        if (good)
            good = file_commit(sink.file);
        else if (sink.file)
            file_abandon(sink.file);
    }
    arena_destroy(arena);
    return good;
}

bool art_write_o(Context *ctx, const ArtImage *image, const char *prefix, const char *path)
{
    return write_merged(ctx, image, prefix, path, write_object);
}

bool art_write_a(Context *ctx, const ArtImage *image, const char *prefix, const char *path)
{
    return write_merged(ctx, image, prefix, path, write_archive);
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

static void add_values(Text *text, const char *macro, const char *kind, const ArtHeader *h, const ArtRecValue *values,
                       uint32_t n)
{
    text_addf(text, "#define %s_%sS %u\n", macro, kind, n);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t *dims = ART_TABLE(h, dims, int64_t) + values[i].first_dim;
        text_addf(text, "#define %s_%s_%u_BYTES %llu /* ", macro, kind, i, (unsigned long long)values[i].bytes);
        for (const char *p = art_text(h, values[i].name); *p; p++)
            text_add_n(text, isprint((unsigned char)*p) && *p != '*' && *p != '\\' ? p : "_", 1);
        text_addf(text, ": %s[", dtype_name(dtype_from_onnx(values[i].dtype)));
        for (uint32_t k = 0; k < values[i].rank; k++)
            text_addf(text, "%s%lld", k ? "," : "", (long long)dims[k]);
        text_add(text, "] */\n");
    }
    text_addf(text, "#define %s_%s_BYTES {", macro, kind); /* an initialiser, for loops over them */
    for (uint32_t i = 0; i < n; i++)
        text_addf(text, "%s%llu", i ? ", " : "", (unsigned long long)values[i].bytes);
    text_add(text, n ? "}\n" : "0}\n");
}

bool art_write_h(Context *ctx, const ArtImage *image, const char *prefix, const char *path)
{
    Arena *arena = arena_create(ctx);
    const ArtHeader *h = check_image(ctx, image, prefix) ? art_describe(ctx, arena, image) : NULL;
    if (!h) {
        arena_destroy(arena);
        return false;
    }
    const ArtRecEntry *e = ART_TABLE(h, entries, ArtRecEntry);
    const ArtRecValue *values = ART_TABLE(h, values, ArtRecValue) + e->first_value;
    const ArtRecBody *body = ART_TABLE(h, bodies, ArtRecBody); /* of the one variant */
    char *macro = arena_printf(arena, "%s", prefix);
    for (char *p = macro; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    Text text;
    text_init(&text, arena);
    text_addf(&text,
              "/* Made by %s for %s. All pointers are aligned to %s_ALIGN bytes; a size of 0 allows NULL.\n"
              " * %s_run returns 0, or 11 where an index was out of range (igata_rt.h: IGATA_E_INDEX). It may run in\n"
              " * several threads with separate buffers. */\n",
              art_text(h, h->igata_version), art_text(h, h->triple), macro, prefix);
    text_addf(&text, "#ifndef %s_H\n#define %s_H\n\n#define %s_ALIGN %d\n", macro, macro, macro, ART_ALIGN);
    add_values(&text, macro, "INPUT", h, values, e->n_inputs);
    add_values(&text, macro, "OUTPUT", h, values + e->n_inputs, e->n_outputs);
    text_addf(&text, "#define %s_WORKSPACE_BYTES %llu\n#define %s_STATE_BYTES %llu\n\n", macro,
              (unsigned long long)(body->workspace_bytes + body->scratch_bytes), macro,
              (unsigned long long)h->state_bytes);
    text_addf(&text,
              "#ifdef __cplusplus\nextern \"C\"\n#endif\nint %s_run(const void *const in[], void *const out[], "
              "void *workspace, void *state);\n\n#endif\n",
              prefix);
    bool good = file_write_all(ctx, path, text.data, text.len);
    arena_destroy(arena);
    return good;
}
