/* SPDX-License-Identifier: Apache-2.0
 *
 * PREFIX_run of an object: the run table as straight-line code, so that a linked model needs no runtime. Written as
 * machine code here because it is a dozen fixed instruction forms: per phase, store the address of each buffer in a
 * table on the stack and call the kernel. It sets the floating-point environment and restores it, as igata_run does.
 *
 *     int PREFIX_run(const void *const in[], void *const out[], void *workspace, void *state)
 *
 * Stack frame from the stack pointer up: address table, error word, two words for MXCSR.
 * x86-64 keeps in, out, workspace, state, weights in rbx, r12, r13, r14, r15; AArch64 in x19 .. x23, FPCR in x24.
 */
#include "art/art_int.h"

typedef struct Runner {
    Link *link;
    VEC(uint8_t) code;
    VEC(Elf64_Rela) relas;
    uint32_t table; /* bytes of the address table: the error word follows */
} Runner;

enum { SYM_RUN = 1, SYM_WEIGHTS, SYM_KERNELS };

static void put(Runner *r, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        vec_push(r->link->arena, &r->code, ((const uint8_t *)bytes)[i]);
}
#define PUT(r, text) put((r), (text), sizeof(text) - 1)
static void put32(Runner *r, uint32_t x) { put(r, &x, 4); }
static void put64(Runner *r, uint64_t x) { put(r, &x, 8); }

static void refer(Runner *r, uint32_t symbol, uint32_t type, int64_t addend)
{
    Elf64_Rela rela = {r->code.len, ELF64_R_INFO((uint64_t)symbol, type), addend};
    vec_push(r->link->arena, &r->relas, rela);
}

/* ---- x86-64 ----------------------------------------------------------------------------------------------------- */

static void x86_begin(Runner *r, uint32_t frame, bool ftz)
{
    PUT(r, "\x55\x48\x89\xe5\x53\x41\x54\x41\x55\x41\x56\x41\x57"); /* push rbp; mov rbp, rsp; push rbx, r12 .. r15 */
    PUT(r, "\x48\x81\xec");                                         /* sub rsp, frame */
    put32(r, frame);
    PUT(r, "\x48\x89\xfb\x49\x89\xf4\x49\x89\xd5\x49\x89\xce"); /* mov rbx, rdi; r12, rsi; r13, rdx; r14, rcx */
    PUT(r, "\x4c\x8d\x3d");                                     /* lea r15, [rip + weights] */
    refer(r, SYM_WEIGHTS, R_X86_64_PC32, -4);
    put32(r, 0);
    PUT(r, "\x48\xc7\x84\x24"); /* mov qword [rsp + error], 0 */
    put32(r, r->table);
    put32(r, 0);
    PUT(r, "\x0f\xae\x9c\x24"); /* stmxcsr [rsp + old] */
    put32(r, r->table + 8);
    PUT(r, "\xc7\x84\x24"); /* mov dword [rsp + new], word */
    put32(r, r->table + 12);
    put32(r, ftz ? 0x9fc0 : 0x1f80);
    PUT(r, "\x0f\xae\x94\x24"); /* ldmxcsr [rsp + new] */
    put32(r, r->table + 12);
}

static void x86_buffer(Runner *r, uint32_t slot, ArtBufKind kind, uint32_t index, uint64_t offset)
{
    PUT(r, "\x48\xb8"); /* mov rax, offset */
    put64(r, offset);
    switch (kind) {
    case ART_INPUT: /* add rax, [rbx + 8 index] */
        PUT(r, "\x48\x03\x83");
        put32(r, 8 * index);
        break;
    case ART_OUTPUT: /* add rax, [r12 + 8 index] */
        PUT(r, "\x49\x03\x84\x24");
        put32(r, 8 * index);
        break;
    case ART_STATE:
        PUT(r, "\x4c\x01\xf0");
        break; /* add rax, r14 */
    case ART_WEIGHTS:
        PUT(r, "\x4c\x01\xf8");
        break; /* add rax, r15 */
    default:
        PUT(r, "\x4c\x01\xe8");
        break; /* add rax, r13 */
    }
    PUT(r, "\x48\x89\x84\x24"); /* mov [rsp + 8 slot], rax */
    put32(r, 8 * slot);
}

static void x86_call(Runner *r, uint32_t symbol, uint64_t tiles)
{
    PUT(r, "\x48\x89\xe7\x31\xf6\x48\xba"); /* mov rdi, rsp; xor esi, esi; mov rdx, tiles */
    put64(r, tiles);
    PUT(r, "\x48\x8d\x8c\x24"); /* lea rcx, [rsp + error] */
    put32(r, r->table);
    PUT(r, "\xe8"); /* call kernel */
    refer(r, symbol, R_X86_64_PLT32, -4);
    put32(r, 0);
}

static void x86_end(Runner *r, uint32_t frame)
{
    PUT(r, "\x0f\xae\x94\x24"); /* ldmxcsr [rsp + old] */
    put32(r, r->table + 8);
    PUT(r, "\x31\xc0\x48\x83\xbc\x24"); /* xor eax, eax; cmp qword [rsp + error], 0 */
    put32(r, r->table);
    PUT(r, "\x00\x0f\x95\xc0\x6b\xc0\x0b"); /* setne al; imul eax, eax, 11 */
    PUT(r, "\x48\x81\xc4");                 /* add rsp, frame */
    put32(r, frame);
    PUT(r, "\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5b\x5d\xc3"); /* pop r15 .. r12, rbx, rbp; ret */
}

/* ---- AArch64 ---------------------------------------------------------------------------------------------------- */

/* movz, movk: a 64-bit value in a register. */
static void arm_value(Runner *r, uint32_t reg, uint64_t value)
{
    put32(r, 0xd2800000 | (uint32_t)(value & 0xffff) << 5 | reg);
    for (uint32_t part = 1; part < 4; part++) {
        uint32_t bits = (uint32_t)(value >> (16 * part) & 0xffff);
        if (bits)
            put32(r, 0xf2800000 | part << 21 | bits << 5 | reg);
    }
}

/* ldr, str with a scaled 12-bit offset; add, sub with an immediate. */
static uint32_t arm_scaled(uint32_t opcode, uint32_t bytes) { return opcode | bytes / 8 << 10; }
static uint32_t arm_add(uint32_t opcode, uint32_t value) { return opcode | value << 10; }

static void arm_begin(Runner *r, uint32_t frame, bool ftz)
{
    static const uint32_t save[] = {0xa9bc7bfd, 0x910003fd, 0xa90153f3, 0xa9025bf5,
                                    0xa90363f7};                                     /* stp ..; mov x29, sp */
    static const uint32_t keep[] = {0xaa0003f3, 0xaa0103f4, 0xaa0203f5, 0xaa0303f6}; /* mov x19 .. x22 */
    put(r, save, sizeof save);
    put32(r, arm_add(0xd10003ff, frame)); /* sub sp, sp, frame */
    put(r, keep, sizeof keep);
    refer(r, SYM_WEIGHTS, R_AARCH64_ADR_PREL_PG_HI21, 0);
    put32(r, 0x90000017); /* adrp x23, weights */
    refer(r, SYM_WEIGHTS, R_AARCH64_ADD_ABS_LO12_NC, 0);
    put32(r, 0x910002f7); /* add x23, x23, :lo12:weights */
    put32(r, 0xd53b4418); /* mrs x24, fpcr */
    arm_value(r, 0, ftz ? 1u << 24 : 0);
    put32(r, 0xd51b4400);                       /* msr fpcr, x0 */
    put32(r, arm_scaled(0xf90003ff, r->table)); /* str xzr, [sp, error] */
}

static void arm_buffer(Runner *r, uint32_t slot, ArtBufKind kind, uint32_t index, uint64_t offset)
{
    arm_value(r, 0, offset);
    switch (kind) {
    case ART_INPUT:
        put32(r, arm_scaled(0xf9400261, 8 * index)); /* ldr x1, [x19, 8 index] */
        put32(r, 0x8b010000);                        /* add x0, x0, x1 */
        break;
    case ART_OUTPUT:
        put32(r, arm_scaled(0xf9400281, 8 * index)); /* ldr x1, [x20, 8 index] */
        put32(r, 0x8b010000);
        break;
    case ART_STATE:
        put32(r, 0x8b160000);
        break; /* add x0, x0, x22 */
    case ART_WEIGHTS:
        put32(r, 0x8b170000);
        break; /* add x0, x0, x23 */
    default:
        put32(r, 0x8b150000);
        break; /* add x0, x0, x21 */
    }
    put32(r, arm_scaled(0xf90003e0, 8 * slot)); /* str x0, [sp, 8 slot] */
}

static void arm_call(Runner *r, uint32_t symbol, uint64_t tiles)
{
    put32(r, 0x910003e0); /* mov x0, sp */
    put32(r, 0xaa1f03e1); /* mov x1, xzr */
    arm_value(r, 2, tiles);
    put32(r, arm_add(0x910003e3, r->table)); /* add x3, sp, error */
    refer(r, symbol, R_AARCH64_CALL26, 0);
    put32(r, 0x94000000); /* bl kernel */
}

static void arm_end(Runner *r, uint32_t frame)
{
    static const uint32_t status[] = {0xf100001f, 0x52800161,
                                      0x1a9f1020}; /* cmp x0, 0; mov w1, 11; csel w0, w1, wzr, ne */
    static const uint32_t leave[] = {0xa94363f7, 0xa9425bf5, 0xa94153f3, 0xa8c47bfd, 0xd65f03c0}; /* ldp ..; ret */
    put32(r, 0xd51b4418);                                                                         /* msr fpcr, x24 */
    put32(r, arm_scaled(0xf94003e0, r->table)); /* ldr x0, [sp, error] */
    put(r, status, sizeof status);
    put32(r, arm_add(0x910003ff, frame)); /* add sp, sp, frame */
    put(r, leave, sizeof leave);
}

/* ---- the function ----------------------------------------------------------------------------------------------- */

static void emit(Runner *r, const ArtBody *body, bool x86, bool ftz)
{
    uint32_t most = 1;
    for (uint32_t p = 0; p < body->n_phases; p++)
        most = body->phases[p].n_bufs > most ? body->phases[p].n_bufs : most;
    r->table = 8 * most;
    uint32_t frame = (uint32_t)art_round(r->table + 16, 16) + (x86 ? 8 : 0); /* x86-64: 6 registers pushed, 8 off 16 */
    (x86 ? x86_begin : arm_begin)(r, frame, ftz);
    for (uint32_t p = 0; p < body->n_phases; p++) {
        const ArtPhase *phase = &body->phases[p];
        for (uint32_t i = 0; i < phase->n_bufs; i++) {
            const ArtBuf *b = &phase->bufs[i];
            uint64_t scratch = b->kind == ART_SCRATCH ? art_round(body->workspace_bytes, ART_ALIGN) : 0;
            (x86 ? x86_buffer : arm_buffer)(r, i, b->kind, b->index, b->offset + scratch);
        }
        (x86 ? x86_call : arm_call)(r, SYM_KERNELS + phase->kernel, phase->tiles);
    }
    (x86 ? x86_end : arm_end)(r, frame);
}

/* The symbol that an object of the variant gives kernel k. */
static const char *kernel_symbol(const ArtVariant *v, uint32_t k)
{
    for (uint32_t o = 0; o < v->n_objects; o++)
        for (uint32_t d = 0; d < v->objects[o].n_defs; d++)
            if (v->objects[o].defs[d].kernel == k)
                return v->objects[o].defs[d].symbol;
    return ""; /* link_objects reports it */
}

void runner_make(Link *link, const char *prefix, LinkObject *out)
{
    const ArtImage *image = link->image;
    Context *ctx = link->ctx;
    const ArtVariant *variant = &image->variants[0];
    Runner r = {.link = link};
    emit(&r, &variant->bodies[0], image->machine == ART_X86_64, image->ftz);
    static const ArtObject no_object;
    *out = (LinkObject){.variant = image->n_variants, .object = &no_object, .n_sections = 2};
    out->n_symbols = SYM_KERNELS + variant->n_kernels;
    out->sections = ARENA_ARRAY(link->arena, LinkSection, 2);
    out->symbols = ARENA_ARRAY(link->arena, Elf64_Sym, out->n_symbols);
    out->names = ARENA_ARRAY(link->arena, const char *, out->n_symbols);
    out->shown = ARENA_ARRAY(link->arena, Str, out->n_symbols);
    out->sections[0] = (LinkSection){.out = OUT_NONE, .name = ""};
    out->sections[1] = (LinkSection){.out = OUT_TEXT,
                                     .size = r.code.len,
                                     .data = r.code.data,
                                     .name = ".text",
                                     .relas = r.relas.data,
                                     .n_relas = r.relas.len};
    out->symbols[SYM_RUN] =
        (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1, .st_size = r.code.len};
    out->names[0] = "";
    out->names[SYM_RUN] = str_format(ctx, "%s_run", prefix);
    out->names[SYM_WEIGHTS] = link->weights_symbol;
    for (uint32_t k = 0; k < variant->n_kernels; k++)
        out->names[SYM_KERNELS + k] = str_intern(ctx, kernel_symbol(variant, k));
    for (uint32_t i = SYM_WEIGHTS; i < out->n_symbols; i++)
        out->symbols[i].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE);
}
