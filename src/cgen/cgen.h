/* SPDX-License-Identifier: Apache-2.0
 *
 * cgen: machine code from scheduled kernels, and the table of CPUs that it is made for. llvm/ is the only folder that includes llvm-c.
 * The emitter writes final IR (register tiles, 16-lane vectors, own elementary functions); no LLVM IR pass runs. What calls the
 * kernels, phase by phase, is the runtime (.so) or the function that art/ puts beside them (.o, .a).
 */
#ifndef IGATA_CGEN_H
#define IGATA_CGEN_H

#include "loop/loop.h"
#include "pass/pass.h"

typedef enum CgenOutput { CGEN_OBJECT, CGEN_ASSEMBLY, CGEN_LLVM_IR } CgenOutput;
typedef struct CgenOptions {
    const TargetInfo *target;
    int opt_level;
    CgenOutput output;
    bool ftz;
} CgenOptions;
/* Compiles kernels[0..n) into one relocatable object (or text) of the target; function i is named kernels[i]->name, ABI
 * `void f(void *const *buf, int64_t lo, int64_t hi, uint64_t *error)`, buf[i] = address of kernels[j]->bufs[i] (locals included).
 * Bytes live in arena. Thread-safe over different Contexts. False after reporting. */
bool cgen_emit(Context *ctx, Arena *arena, const CgenOptions *options, const Kernel *const *kernels, uint32_t n, Blob *out);

/* The same in pieces, each an object of some of the kernels, which may be generated in any order and at the same time: how kernels
 * are divided depends on them alone, so all bytes are the same whatever runs them. For CGEN_OBJECT. */
typedef struct CgenPart {
    Context *outer, *ctx; /* ctx: of its own, or outer where there can be none; then parts run one after the other */
    const CgenOptions *options;
    const Kernel *const *kernels;
    uint32_t first, n; /* of the kernels given */
    uint64_t cost;     /* relative to other parts */
    Blob object;
    CtxStatus status;
    bool good;
} CgenPart;
typedef struct CgenParts {
    CgenPart *data;
    uint32_t len;
} CgenParts;
/* options and kernels must live until cgen_end. */
void cgen_begin(Context *ctx, Arena *arena, const CgenOptions *options, const Kernel *const *kernels, uint32_t n, CgenParts *parts);
void cgen_run_part(CgenPart *part);
/* After all have run: the objects are in arena, diagnostics in the outer Context; false if a part reported, unwinds if one did. */
bool cgen_end(Arena *arena, CgenParts *parts);

/* Constant table of the known levels. */
const TargetInfo *cgen_targets(void); /* ends with triple NULL */
/* The best level of that table that this machine has, for --cpu native; NULL if it has none. */
const TargetInfo *cgen_host_target(void);

#endif
