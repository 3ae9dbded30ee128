/* SPDX-License-Identifier: Apache-2.0
 *
 * Linking without a linker. Kernel objects are position-independent, read-only and closed: they have code, constants
 * and unwind tables, no data, and refer only to one another. So a link is: concatenate the sections by kind, find each
 * symbol in its variant, patch the places. Whatever does not fit that picture is refused by name.
 */
#include "art/art_int.h"
#include <ctype.h>
#include <stdio.h>

static const char *variant_name(const Link *link, uint32_t variant)
{
    return variant < link->image->n_variants ? link->image->variants[variant].name : "run";
}

static bool bad_object(Link *link, const LinkObject *o, const char *why)
{
    return diag_report(link->ctx, 0, DIAG_art_object, variant_name(link, o->variant), why);
}

/* ---- parsing ------------------------------------------------------------------------------------------------ */

/* Section kind by flags; false after reporting for one that an artifact cannot hold. */
static bool classify(Link *link, LinkObject *o, const Elf64_Shdr *sh, LinkSection *s)
{
    s->out = OUT_NONE;
    if (!(sh->sh_flags & SHF_ALLOC) || sh->sh_size == 0 || sh->sh_type == SHT_NOTE)
        return true;
    if (sh->sh_flags & (SHF_WRITE | SHF_TLS))
        return bad_object(link, o, str_format(link->ctx, "section %s holds writable data", s->name));
    if (strcmp(s->name, ".eh_frame") == 0)
        s->out = OUT_EH_FRAME;
    else if (sh->sh_type != SHT_PROGBITS)
        return bad_object(link, o, str_format(link->ctx, "section %s is of type %u", s->name, sh->sh_type));
    else
        s->out = sh->sh_flags & SHF_EXECINSTR ? OUT_TEXT : OUT_RODATA;
    return true;
}

/* Appends a section to its output section. Unwind tables must follow one another without a gap: zeros end them. */
static void place_section(Link *link, LinkSection *s, uint64_t align)
{
    LinkPart *part = &link->parts[s->out];
    if (align == 0)
        align = 1;
    if (s->out == OUT_EH_FRAME)
        align = 4;
    part->align = align > part->align ? align : part->align;
    s->at = art_round(part->size, align);
    part->size = s->at + s->size;
}

static bool parse_symbols(Link *link, LinkObject *o, const Elf64_Shdr *table, const Elf64_Shdr *headers)
{
    const uint8_t *data = o->object->data;
    if (table->sh_link >= o->n_sections)
        return bad_object(link, o, "no symbol names");
    const Elf64_Shdr *str = &headers[table->sh_link];
    o->n_symbols = (uint32_t)(table->sh_size / sizeof(Elf64_Sym));
    o->symbols = ARENA_ARRAY(link->arena, Elf64_Sym, (size_t)o->n_symbols + 1);
    o->names = ARENA_ARRAY(link->arena, const char *, (size_t)o->n_symbols + 1);
    o->shown = ARENA_ARRAY(link->arena, Str, (size_t)o->n_symbols + 1);
    memcpy(o->symbols, data + table->sh_offset, o->n_symbols * sizeof(Elf64_Sym));
    for (uint32_t i = 0; i < o->n_symbols; i++) {
        uint64_t at = o->symbols[i].st_name;
        if (at >= str->sh_size || !memchr(data + str->sh_offset + at, 0, str->sh_size - at))
            return bad_object(link, o, "a symbol name lies outside the file");
        o->names[i] = str_intern(link->ctx, (const char *)data + str->sh_offset + at);
    }
    return true;
}

static bool parse_sections(Link *link, LinkObject *o, const Elf64_Ehdr *eh)
{
    const uint8_t *data = o->object->data;
    uint64_t size = o->object->size;
    Elf64_Shdr *headers = ARENA_ARRAY(link->arena, Elf64_Shdr, (size_t)eh->e_shnum + 1);
    memcpy(headers, data + eh->e_shoff, sizeof *headers * eh->e_shnum);
    o->n_sections = eh->e_shnum;
    o->sections = ARENA_ARRAY(link->arena, LinkSection, (size_t)eh->e_shnum + 1);
    for (uint32_t i = 0; i < eh->e_shnum; i++)
        if (headers[i].sh_type != SHT_NOBITS && !art_in(headers[i].sh_offset, headers[i].sh_size, size))
            return bad_object(link, o, "a section lies outside the file");
    if (eh->e_shstrndx >= eh->e_shnum)
        return bad_object(link, o, "no section names");
    const Elf64_Shdr *names = &headers[eh->e_shstrndx];
    uint32_t symtab = 0;
    for (uint32_t i = 0; i < eh->e_shnum; i++) {
        Elf64_Shdr *sh = &headers[i];
        LinkSection *s = &o->sections[i];
        if (sh->sh_name >= names->sh_size ||
            !memchr(data + names->sh_offset + sh->sh_name, 0, names->sh_size - sh->sh_name))
            return bad_object(link, o, "a section name lies outside the file");
        s->name = str_intern(link->ctx, (const char *)data + names->sh_offset + sh->sh_name);
        s->data = data + sh->sh_offset;
        s->size = sh->sh_size;
        if (!classify(link, o, sh, s))
            return false;
        if (s->out != OUT_NONE)
            place_section(link, s, sh->sh_addralign);
        if (sh->sh_type == SHT_SYMTAB)
            symtab = i;
    }
    for (uint32_t i = 0; i < eh->e_shnum; i++) { /* relocations, now that all sections are known */
        Elf64_Shdr *sh = &headers[i];
        if ((sh->sh_type != SHT_RELA && sh->sh_type != SHT_REL) || sh->sh_info >= eh->e_shnum)
            continue;
        LinkSection *s = &o->sections[sh->sh_info];
        if (s->out == OUT_NONE)
            continue;
        if (sh->sh_type == SHT_REL)
            return bad_object(link, o, "relocations without addends");
        s->n_relas = (uint32_t)(sh->sh_size / sizeof(Elf64_Rela));
        s->relas = ARENA_ARRAY(link->arena, Elf64_Rela, (size_t)s->n_relas + 1);
        memcpy(s->relas, data + sh->sh_offset, s->n_relas * sizeof(Elf64_Rela));
    }
    return symtab == 0 || parse_symbols(link, o, &headers[symtab], headers);
}

/* Whether a symbol has a place in the output. */
static bool symbol_defined(const LinkObject *o, uint32_t i)
{
    uint16_t section = o->symbols[i].st_shndx;
    return section != SHN_UNDEF && section < o->n_sections && o->sections[section].out != OUT_NONE;
}

static bool parse_object(Link *link, LinkObject *o)
{
    Elf64_Ehdr eh;
    const ArtObject *object = o->object;
    if (object->size < sizeof eh)
        return bad_object(link, o, "it is too short for ELF");
    memcpy(&eh, object->data, sizeof eh);
    uint16_t machine = link->image->machine == ART_X86_64 ? EM_X86_64 : EM_AARCH64;
    if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
        eh.e_ident[EI_DATA] != ELFDATA2LSB || eh.e_type != ET_REL || eh.e_shentsize != sizeof(Elf64_Shdr) ||
        !art_in(eh.e_shoff, (uint64_t)eh.e_shnum * sizeof(Elf64_Shdr), object->size))
        return bad_object(link, o, "it is not a relocatable ELF64 little-endian file");
    if (eh.e_machine != machine)
        return bad_object(link, o, "it is for another machine");
    if (!parse_sections(link, o, &eh))
        return false;
    for (uint32_t i = 1; i < o->n_symbols; i++) {
        int bind = ELF64_ST_BIND(o->symbols[i].st_info);
        if (bind == STB_LOCAL || !symbol_defined(o, i))
            continue;
        void **slot = map_slot(link->globals[o->variant], KEY(o->names[i]));
        if (*slot)
            return bad_object(link, o, str_format(link->ctx, "symbol '%s' is defined twice", o->names[i]));
        LinkSymbol *symbol = ARENA_NEW(link->arena, LinkSymbol);
        *symbol = (LinkSymbol){o, i};
        *slot = symbol;
    }
    return true;
}

/* ---- kernels ------------------------------------------------------------------------------------------------ */

/* The name that tools show: the kernel's, with the variant where there are several, made unique by a number. */
static Str shown_name(Link *link, Map *taken, uint32_t variant, uint32_t kernel)
{
    const ArtImage *image = link->image;
    Text text;
    text_init(&text, link->arena);
    for (const char *p = art_or_empty(image->variants[variant].kernels[kernel].symbol); *p; p++)
        text_add_n(&text, isalnum((unsigned char)*p) || *p == '_' || *p == '.' || *p == '$' ? p : "_", 1);
    if (text.len == 0)
        text_add(&text, "kernel");
    if (image->n_variants > 1) {
        text_add(&text, ".");
        for (const char *p = image->variants[variant].name; *p; p++)
            text_add_n(&text, isalnum((unsigned char)*p) ? p : "_", 1);
    }
    Str name = str_intern(link->ctx, text.data);
    for (int n = 2; map_has(taken, KEY(name)); n++)
        name = str_format(link->ctx, "%s.%d", text.data, n);
    map_set(taken, KEY(name), (void *)(uintptr_t)name);
    return name;
}

static bool find_kernels(Link *link)
{
    const ArtImage *image = link->image;
    Map *taken = map_create(link->arena);
    link->kernels = ARENA_ARRAY(link->arena, LinkSymbol *, (size_t)image->n_variants + 1);
    for (uint32_t v = 0; v < image->n_variants; v++)
        link->kernels[v] = ARENA_ARRAY(link->arena, LinkSymbol, (size_t)image->variants[v].n_kernels + 1);
    bool good = true;
    for (uint32_t i = 0; i < link->n_objects; i++) {
        LinkObject *o = &link->objects[i];
        if (o->variant >= image->n_variants)
            continue;
        for (uint32_t d = 0; d < o->object->n_defs; d++) {
            const ArtDef *def = &o->object->defs[d];
            LinkSymbol *symbol = map_get(link->globals[o->variant], KEY(str_intern(link->ctx, def->symbol)));
            IG_CHECK(link->ctx, def->kernel < image->variants[o->variant].n_kernels);
            if (!symbol || symbol->object != o || o->sections[o->symbols[symbol->index].st_shndx].out != OUT_TEXT) {
                good = bad_object(link, o, str_format(link->ctx, "it does not define kernel '%s'", def->symbol));
                continue;
            }
            link->kernels[o->variant][def->kernel] = *symbol;
            if (!o->shown[symbol->index])
                o->shown[symbol->index] = shown_name(link, taken, o->variant, def->kernel);
        }
    }
    for (uint32_t v = 0; good && v < image->n_variants; v++)
        for (uint32_t k = 0; k < image->variants[v].n_kernels; k++)
            if (!link->kernels[v][k].object)
                good = diag_report(link->ctx, 0, DIAG_art_kernel, image->variants[v].kernels[k].symbol,
                                   image->variants[v].name);
    return good;
}

bool link_objects(Link *link, Context *ctx, Arena *arena, const ArtImage *image, const char *prefix)
{
    *link = (Link){.ctx = ctx, .arena = arena, .image = image};
    uint32_t n = prefix ? 1 : 0;
    for (uint32_t v = 0; v < image->n_variants; v++)
        n += image->variants[v].n_objects;
    link->objects = ARENA_ARRAY(arena, LinkObject, (size_t)n + 1);
    link->globals = ARENA_ARRAY(arena, Map *, (size_t)image->n_variants + 1);
    for (uint32_t v = 0; v <= image->n_variants; v++)
        link->globals[v] = map_create(arena);
    if (prefix)
        link->weights_symbol = str_format(ctx, "%s_weights", prefix);
    for (uint32_t v = 0; v < image->n_variants; v++)
        for (uint32_t i = 0; i < image->variants[v].n_objects; i++) {
            LinkObject *o = &link->objects[link->n_objects++];
            o->variant = v;
            o->object = &image->variants[v].objects[i];
            if (!parse_object(link, o))
                return false;
        }
    if (prefix) {
        LinkObject *o = &link->objects[link->n_objects++];
        runner_make(link, prefix, o);
        place_section(link, &o->sections[1], 16);
    }
    for (int p = 0; p < OUT_COUNT; p++) {
        LinkPart *part = &link->parts[p];
        if (part->align == 0)
            part->align = 1;
        if (p == OUT_EH_FRAME && part->size > 0)
            part->size += 4; /* the zero length that ends the table */
        part->data =
            (uint8_t *)arena_alloc(arena, part->size + 17) + 16; /* reloc_apply looks at the two bytes before */
        if (p == OUT_TEXT && image->machine == ART_X86_64)
            memset(part->data, 0xcc, part->size);
    }
    for (uint32_t i = 0; i < link->n_objects; i++)
        for (uint32_t s = 0; s < link->objects[i].n_sections; s++) {
            const LinkSection *section = &link->objects[i].sections[s];
            if (section->out != OUT_NONE)
                memcpy(link->parts[section->out].data + section->at, section->data, section->size);
        }
    return find_kernels(link);
}

/* ---- references --------------------------------------------------------------------------------------------- */

bool link_resolve(const Link *link, const LinkObject *object, uint32_t index, LinkSymbol *target)
{
    if (index >= object->n_symbols)
        return bad_object((Link *)link, object, "a relocation names no symbol");
    *target = (LinkSymbol){object, index};
    if (symbol_defined(object, index))
        return true;
    const char *name = object->names[index];
    const LinkSymbol *found = map_get(link->globals[object->variant], KEY(name));
    if (!found && object->variant == link->image->n_variants)
        found = map_get(link->globals[0], KEY(name));
    if (found) {
        *target = *found;
        return true;
    }
    *target = (LinkSymbol){NULL, 0};
    if (link->weights_symbol == name && object->variant == link->image->n_variants)
        return true;
    return diag_report(link->ctx, 0, DIAG_art_undefined, name, variant_name(link, object->variant));
}

uint64_t link_address(const Link *link, LinkSymbol symbol)
{
    const Elf64_Sym *sym = &symbol.object->symbols[symbol.index];
    const LinkSection *section = &symbol.object->sections[sym->st_shndx];
    return link->parts[section->out].address + section->at + sym->st_value;
}

static bool relocate_one(Link *link, const LinkObject *o, const LinkSection *s, const Elf64_Rela *rela)
{
    const RelocRow *row = reloc_find(link->image->machine, (uint32_t)ELF64_R_TYPE(rela->r_info));
    const char *machine = link->image->machine == ART_X86_64 ? "x86-64" : "aarch64";
    LinkSymbol target;
    if (ELF64_R_TYPE(rela->r_info) == 0)
        return true; /* R_*_NONE */
    if (!link_resolve(link, o, (uint32_t)ELF64_R_SYM(rela->r_info), &target))
        return false;
    const char *name = target.object ? target.object->names[target.index] : link->weights_symbol;
    if (!row)
        return diag_report(link->ctx, 0, DIAG_art_relocation, (unsigned)ELF64_R_TYPE(rela->r_info), name, s->name,
                           machine);
    if (!art_in(rela->r_offset, reloc_bytes(row), s->size))
        return bad_object(link, o, "a relocation lies outside its section");
    LinkPart *part = &link->parts[s->out];
    uint64_t at = s->at + rela->r_offset;
    switch (reloc_apply(row, part->data + at, link_address(link, target), rela->r_addend, part->address + at)) {
    case RELOC_DONE:
        return true;
    case RELOC_ABSOLUTE:
        return diag_report(link->ctx, 0, DIAG_art_place, row->name, name, s->name, "needs an absolute address");
    case RELOC_RANGE:
        return diag_report(link->ctx, 0, DIAG_art_place, row->name, name, s->name, "is out of reach");
    default:
        return diag_report(link->ctx, 0, DIAG_art_place, row->name, name, s->name, "sits on an unfit instruction");
    }
}

bool link_relocate(Link *link)
{
    bool good = true;
    for (uint32_t i = 0; i < link->n_objects; i++)
        for (uint32_t n = 0; n < link->objects[i].n_sections; n++) {
            const LinkSection *s = &link->objects[i].sections[n];
            for (uint32_t r = 0; r < s->n_relas; r++)
                good = relocate_one(link, &link->objects[i], s, &s->relas[r]) && good;
        }
    return good;
}
