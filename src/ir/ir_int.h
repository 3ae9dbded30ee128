/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of ir/ share: the tables of a Context, the name tables of a Module, the lexical rules of the text
 * form.
 */
#ifndef IGATA_IR_INT_H
#define IGATA_IR_INT_H

#include "ir/ir.h"

typedef struct IrCtx {
    Arena *arena; /* the Context's */
    Intern *atoms, *products, *terms, *dims;
    Intern *keys;       /* of types and attributes */
    Map *types, *attrs; /* interned key -> object */
    Module *modules;    /* all that live, for weights that the text form names by hash */
    uint32_t n_syms;
} IrCtx;
IrCtx *ir_ctx(Context *ctx);

struct ModuleIndex {
    Map *weights_by_hash;                 /* hash -> Weight, the first of that hash */
    Map *weights, *funcs, *states, *syms; /* KEY(name) -> object */
    Module *next, **prev;                 /* in IrCtx.modules */
};

/* Calls visit(user, sym) for every symbol in the dim, repeatedly for repeated ones. */
void dim_each_sym(const Dim *dim, void (*visit)(void *user, const Sym *sym), void *user);

/* A content hash of a type: the same in every run. */
uint64_t type_hash(const Type *type);

/* [A-Za-z_][A-Za-z0-9_.$]*; what is not one is quoted in the text form. */
bool ir_is_identifier(const char *text);
void ir_print_name(Text *text, const char *name);

/* Raw bits of one packed element of at most 64 bits. */
uint64_t elem_bits(DType dtype, const void *data, uint64_t index);
void elem_set_bits(DType dtype, void *data, uint64_t index, uint64_t bits);
/* Reads one element from its text (decimal, hexadecimal float, inf, nan, true, false); false if it is not of the type.
 */
bool elem_from_text(DType dtype, const char *text, void *data, uint64_t index);

/* A path that stays inside a folder: relative, without empty, "." and ".." components. */
bool ir_path_is_inside(const char *path);

#endif
