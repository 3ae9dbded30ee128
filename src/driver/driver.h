/* SPDX-License-Identifier: Apache-2.0
 *
 * driver: pipelines as data, and the way from a module to an artifact. The API and the command line are thin above it.
 */
#ifndef IGATA_DRIVER_H
#define IGATA_DRIVER_H

#include "art/art.h"
#include "cgen/cgen.h"
#include "front/front.h"
#include "sched/sched.h"

enum { DRIVER_MAX_TARGETS = 8, DRIVER_BOUND = 1024 /* of a size that the run finds */ };

typedef struct DriverOptions {
    PassOptions pass;                                 /* target is set per variant */
    const TargetInfo *target[DRIVER_MAX_TARGETS];     /* variants of one artifact, same machine */
    uint32_t n_targets;
    bool ftz;
    Blob model;                                       /* the source file, whose SHA-256 the artifact's note has; may be empty */
    uint32_t workers;                                 /* threads that generate code; 0: one per CPU. No byte depends on it */
    void (*dump)(void *user, const char *pass, const char *text); /* --print-after, --dump-after */
    void *dump_user;
} DriverOptions;

/* One entry function compiled for one target. */
typedef struct DriverVariant {
    const TargetInfo *target;
    Schedule *schedule;
    CgenOptions code;
    CgenParts objects;            /* relocatable; together they define every kernel of the schedule */
} DriverVariant;
typedef struct Program {
    Context *ctx;
    Module *module;
    Func *func;
    DriverOptions options;
    DriverVariant variant[DRIVER_MAX_TARGETS];
    uint32_t n_variants;
    VEC(struct PassTime) times;
    uint8_t model_sha256[32];     /* zeros without a model file */
} Program;

/* pipeline.c: the passes of one level. Names refer to pass_defs and sched_pass_defs. */
typedef struct Pipeline {
    const char *const *tensor; /* each ends with NULL */
    const char *const *sched;
} Pipeline;
Pipeline driver_pipeline(int opt_level, bool eager);
const PassDef *driver_find_pass(const char *id); /* of any level; NULL if there is none */

/* The first entry function, or NULL after reporting. */
Func *driver_entry(Context *ctx, Module *module, const char *name);
/* Makes values outputs as well: name is an output's source node, or "all" for every tensor value. False after reporting. */
bool driver_also_output(Context *ctx, Func *func, const char *name);
/* Gives the symbols of a module the sizes and ranges that options name (dims, and the shapes of func's inputs). False after reporting. */
bool driver_bind_dims(Context *ctx, Func *func, const ImportOptions *options);
/* Sizes that the run finds get the bounds of their names as largest values; other bindings are passed over. */
bool driver_set_bounds(Context *ctx, Func *func, const DimBinding *bounds, uint32_t n);
/* Those that nothing bounds get DRIVER_BOUND, with a note. */
bool driver_bound_sizes(Context *ctx, Func *func);
/* Runs passes by name on the module and, from the first one that works on a schedule, on a schedule of func for the first target.
 * *scheduled: there is one; `text` gets its text form. False after reporting. */
bool driver_run_passes(Context *ctx, Module *module, Func *func, const DriverOptions *options, const char *const *names,
                       Program *times, Text *text, bool *scheduled);
/* Runs the tensor-level pipeline in place. times may be NULL. False after reporting. */
bool driver_optimize(Context *ctx, Module *module, const DriverOptions *options, Program *times);
/* Optimises (module is changed) and generates code for every target; the module must outlive the program. Its sizes are numbers, or
 * of symbols with a range that are axes of inputs (every run says what they are) or that loops find (the run says).
 * NULL after reporting. */
Program *driver_compile(Context *ctx, Module *module, Func *func, const DriverOptions *options);
void driver_destroy(Program *program);
/* Whether code was generated (--stop-after may have prevented it). */
bool driver_is_complete(const Program *program);
/* Output by extension: .so, .o, .a (with a header beside it), .ll, .s; "-": a .so. False after reporting; then no file is left. */
bool driver_write(Program *program, const char *path);
bool driver_write_so(Program *program, const char *path); /* whatever its ending */
bool driver_knows_output(Context *ctx, const char *path); /* false after reporting */
/* "dot+add+gelu"-like listing line of a phase as `inspect` shows it. */
Str driver_phase_line(const Program *program, const Schedule *schedule, uint32_t phase);

/* ---- eager execution: eager.c ---------------------------------------------------------------------------------------------------
 * A program compiled with options.pass.eager as a list of steps, one kernel each, and an artifact with one entry per step, whose
 * inputs and outputs are whole dense tensors: what a framework that dispatches op by op runs. Branches and loops lie between the
 * steps as in a schedule; who runs the steps asks driver_eager_next for each. */
typedef struct EagerStep {
    uint32_t n_in, n_out;
    const uint32_t *in, *out; /* numbers of values, in the order of the entry's inputs and outputs */
} EagerStep;
typedef struct EagerPlan {
    uint32_t n_values;
    const uint64_t *bytes;   /* per value */
    const uint32_t *last;    /* per value: the last step that reads it; UINT32_MAX: results, and what is there for the whole run */
    uint32_t n_in, n_out;
    const uint32_t *in, *out; /* values that are the program's inputs and outputs */
    uint32_t n_steps;
    const EagerStep *step;
    uint32_t n_control;
    const ArtRecStep *control; /* words are numbers of values */
    uint32_t n_sizes; /* found by the run: int64_t each, behind the io of every step */
} EagerPlan;
typedef struct EagerRun { /* where a run is; zeros at its start */
    ArtWalk walk;
    uint64_t error; /* a kernel's word: loops that need more trips than their bound */
} EagerRun;
/* Writes the artifact to `path`; the plan lives in arena. NULL after reporting. */
EagerPlan *driver_write_eager(Program *program, Arena *arena, const char *path);
/* The step to run, where `step` would be next but for branches and loops; n_steps: none. value: where each value lies. */
uint32_t driver_eager_next(const EagerPlan *plan, EagerRun *run, uint32_t step, void *const *value, int64_t *sizes);

#endif
