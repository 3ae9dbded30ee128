/* SPDX-License-Identifier: Apache-2.0
 *
 * Relocations: one table per machine. A row says how the value is computed (rule) and where its bits go (field).
 * Sources: System V ABI AMD64 supplement 1.0, table 4.9; ELF for the Arm 64-bit Architecture, section 5.7.
 * Absolute values cannot be had in a shared object without the loader's help; the rows exist so that a merged object
 * may carry them on.
 */
#include "art/art_int.h"

enum { RULE_ABS, RULE_PC, RULE_PAGE, RULE_LOW12, RULE_GOT_RELAX };
enum {
    FIELD_16, /* data words */
    FIELD_32,
    FIELD_U32,
    FIELD_64,
    FIELD_BRANCH26, /* AArch64 instructions */
    FIELD_COND19,
    FIELD_TEST14,
    FIELD_ADR21,
    FIELD_ADRP21,
    FIELD_ADD12,
    FIELD_LDST8,
    FIELD_LDST16,
    FIELD_LDST32,
    FIELD_LDST64,
    FIELD_LDST128
};

#define ROW(type, rule, field)                                                                                         \
    {                                                                                                                  \
        type, #type, rule, field                                                                                       \
    }
static const RelocRow x86_64_rows[] = {
    ROW(R_X86_64_PC32, RULE_PC, FIELD_32),
    ROW(R_X86_64_PLT32, RULE_PC, FIELD_32),
    ROW(R_X86_64_PC64, RULE_PC, FIELD_64),
    ROW(R_X86_64_PC16, RULE_PC, FIELD_16),
    ROW(R_X86_64_64, RULE_ABS, FIELD_64),
    ROW(R_X86_64_32, RULE_ABS, FIELD_U32),
    ROW(R_X86_64_32S, RULE_ABS, FIELD_32),
    ROW(R_X86_64_GOTPCRELX, RULE_GOT_RELAX, FIELD_32),
    ROW(R_X86_64_REX_GOTPCRELX, RULE_GOT_RELAX, FIELD_32),
};
static const RelocRow aarch64_rows[] = {
    ROW(R_AARCH64_CALL26, RULE_PC, FIELD_BRANCH26),
    ROW(R_AARCH64_JUMP26, RULE_PC, FIELD_BRANCH26),
    ROW(R_AARCH64_CONDBR19, RULE_PC, FIELD_COND19),
    ROW(R_AARCH64_LD_PREL_LO19, RULE_PC, FIELD_COND19),
    ROW(R_AARCH64_TSTBR14, RULE_PC, FIELD_TEST14),
    ROW(R_AARCH64_ADR_PREL_LO21, RULE_PC, FIELD_ADR21),
    ROW(R_AARCH64_ADR_PREL_PG_HI21, RULE_PAGE, FIELD_ADRP21),
    ROW(R_AARCH64_ADD_ABS_LO12_NC, RULE_LOW12, FIELD_ADD12),
    ROW(R_AARCH64_LDST8_ABS_LO12_NC, RULE_LOW12, FIELD_LDST8),
    ROW(R_AARCH64_LDST16_ABS_LO12_NC, RULE_LOW12, FIELD_LDST16),
    ROW(R_AARCH64_LDST32_ABS_LO12_NC, RULE_LOW12, FIELD_LDST32),
    ROW(R_AARCH64_LDST64_ABS_LO12_NC, RULE_LOW12, FIELD_LDST64),
    ROW(R_AARCH64_LDST128_ABS_LO12_NC, RULE_LOW12, FIELD_LDST128),
    ROW(R_AARCH64_PREL16, RULE_PC, FIELD_16),
    ROW(R_AARCH64_PREL32, RULE_PC, FIELD_32),
    ROW(R_AARCH64_PREL64, RULE_PC, FIELD_64),
    ROW(R_AARCH64_ABS64, RULE_ABS, FIELD_64),
    ROW(R_AARCH64_ABS32, RULE_ABS, FIELD_U32),
};

const RelocRow *reloc_find(ArtMachine machine, uint32_t type)
{
    const RelocRow *rows = machine == ART_X86_64 ? x86_64_rows : aarch64_rows;
    size_t n = machine == ART_X86_64 ? IG_COUNT(x86_64_rows) : IG_COUNT(aarch64_rows);
    for (size_t i = 0; i < n; i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

uint32_t reloc_bytes(const RelocRow *row) { return row->field == FIELD_16 ? 2 : row->field == FIELD_64 ? 8 : 4; }

static bool fits_signed(int64_t v, int bits)
{
    return v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1);
}

/* Replaces `bits` bits at `shift` of a 32-bit instruction. */
static void put_bits(uint8_t *place, uint64_t value, int bits, int shift)
{
    uint32_t word, mask = (uint32_t)((UINT64_C(1) << bits) - 1) << shift;
    memcpy(&word, place, 4);
    word = (word & ~mask) | ((uint32_t)(value << shift) & mask);
    memcpy(place, &word, 4);
}

static RelocResult put_branch(uint8_t *place, int64_t v, int bits, int shift)
{
    if (v % 4 != 0)
        return RELOC_FORM;
    if (!fits_signed(v, bits + 2))
        return RELOC_RANGE;
    put_bits(place, (uint64_t)v >> 2, bits, shift);
    return RELOC_DONE;
}

static RelocResult put_adr(uint8_t *place, int64_t v)
{
    if (!fits_signed(v, 21))
        return RELOC_RANGE;
    put_bits(place, (uint64_t)v & 3, 2, 29);
    put_bits(place, (uint64_t)v >> 2, 19, 5);
    return RELOC_DONE;
}

static RelocResult put_field(uint8_t field, uint8_t *place, int64_t v)
{
    switch (field) {
    case FIELD_16:
        if (!fits_signed(v, 16))
            return RELOC_RANGE;
        memcpy(place, &v, 2);
        return RELOC_DONE;
    case FIELD_32:
        if (!fits_signed(v, 32))
            return RELOC_RANGE;
        memcpy(place, &v, 4);
        return RELOC_DONE;
    case FIELD_64:
        memcpy(place, &v, 8);
        return RELOC_DONE;
    case FIELD_BRANCH26:
        return put_branch(place, v, 26, 0);
    case FIELD_COND19:
        return put_branch(place, v, 19, 5);
    case FIELD_TEST14:
        return put_branch(place, v, 14, 5);
    case FIELD_ADR21:
        return put_adr(place, v);
    case FIELD_ADRP21:
        return put_adr(place, v >> 12);
    case FIELD_ADD12:
        put_bits(place, (uint64_t)v, 12, 10);
        return RELOC_DONE;
    default: {
        int scale = field - FIELD_LDST8;
        if (v & ((1 << scale) - 1))
            return RELOC_FORM;
        put_bits(place, (uint64_t)v >> scale, 12 - scale, 10);
        return RELOC_DONE;
    }
    }
}

RelocResult reloc_apply(const RelocRow *row, uint8_t *place, uint64_t s, int64_t a, uint64_t p)
{
    uint64_t v = s + (uint64_t)a;
    switch (row->rule) {
    case RULE_PC:
        return put_field(row->field, place, (int64_t)(v - p));
    case RULE_PAGE:
        return put_field(row->field, place, (int64_t)((v & ~UINT64_C(4095)) - (p & ~UINT64_C(4095))));
    case RULE_LOW12:
        return put_field(row->field, place, (int64_t)(v & 4095));
    case RULE_GOT_RELAX: /* mov foo@GOTPCREL(%rip), reg -> lea foo(%rip), reg; AMD64 supplement B.2 */
        if (place[-2] != 0x8b)
            return RELOC_FORM;
        place[-2] = 0x8d;
        return put_field(row->field, place, (int64_t)(v - p));
    default:
        return RELOC_ABSOLUTE;
    }
}
