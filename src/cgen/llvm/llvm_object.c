/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at the symbols of an emitted object: kernels must not call anything (LLVM may turn IR into library calls: memcpy,
 * fmodf, __truncdfhf2). The object comes from LLVM in this process, so its structure is trusted; the kind of file is checked.
 */
#include "cgen/llvm/llvm_int.h"

#include <elf.h>
#include <string.h>

const char *cg_object_undefined(const Blob *object)
{
    Elf64_Ehdr header;
    if (object->size < sizeof header || memcmp(object->data, ELFMAG, SELFMAG) || object->data[EI_CLASS] != ELFCLASS64)
        return "(not an ELF64 object)";
    memcpy(&header, object->data, sizeof header);
    for (uint32_t i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr table, strings;
        memcpy(&table, object->data + header.e_shoff + i * sizeof table, sizeof table);
        if (table.sh_type != SHT_SYMTAB)
            continue;
        memcpy(&strings, object->data + header.e_shoff + table.sh_link * sizeof strings, sizeof strings);
        for (uint64_t at = sizeof(Elf64_Sym); at < table.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, object->data + table.sh_offset + at, sizeof symbol);
            const char *name = (const char *)object->data + strings.sh_offset + symbol.st_name;
            if (symbol.st_shndx == SHN_UNDEF && *name)
                return name;
        }
    }
    return NULL;
}
