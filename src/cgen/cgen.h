/* SPDX-License-Identifier: Apache-2.0
 *
 * cgen: machine code from scheduled kernels. llvm/ is the only folder that includes llvm-c. The emitter writes final IR (register
 * tiles, 16-lane vectors, own elementary functions); no LLVM IR pass runs.
 */
#ifndef IGATA_CGEN_H
#define IGATA_CGEN_H

#include "loop/loop.h"
#include "pass/pass.h"
#include "sched/sched.h"

typedef enum CgenOutput { CGEN_OBJECT, CGEN_ASSEMBLY, CGEN_LLVM_IR } CgenOutput;
typedef struct CgenOptions {
    const TargetInfo *target;
    int opt_level;
    const char *symbol_suffix;   /* appended to kernel names (variants), "" for none */
    CgenOutput output;
    bool ftz;
} CgenOptions;
/* Compiles kernels[0..n) into one relocatable object (or text) of the target; function i is named kernels[i]->name + suffix, ABI
 * `void f(void *const *buf, int64_t lo, int64_t hi, uint64_t *error)`, buf[i] = address of kernels[j]->bufs[i] (locals included).
 * Bytes live in arena. Thread-safe over different Contexts. False after reporting. */
bool cgen_emit(Context *ctx, Arena *arena, const CgenOptions *options, const Kernel *const *kernels, uint32_t n, Blob *out);

/* One self-contained object for .o and .a outputs: the schedule's kernels (local symbols), its packed weights, and
 *     int PREFIX_run(const void *const in[], void *const out[], void *workspace, void *state)
 * which runs all phases in order on the calling thread, with its scratch after the workspace (rounded up to 64 bytes), in the
 * floating-point environment of numerics.md, and restores the caller's. Returns 0, or `index_status` if a kernel recorded an error.
 * Pointers are not checked; all are aligned to 64. */
typedef struct CgenRun {
    const Schedule *schedule;
    const char *prefix;
    int index_status;
} CgenRun;
bool cgen_emit_run(Context *ctx, Arena *arena, const CgenOptions *options, const CgenRun *run, Blob *out);

/* Constant table of the known levels. */
const TargetInfo *cgen_targets(void); /* ends with triple NULL */
/* The best level of that table that this machine has, for --cpu native; NULL if it has none. */
const TargetInfo *cgen_host_target(void);

#endif
