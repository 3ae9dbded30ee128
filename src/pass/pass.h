/* SPDX-License-Identifier: Apache-2.0
 *
 * pass: the pass runner and the passes on the tensor IR. A pass is one row of passes.def, one file, one line in
 * driver/pipeline.c. No pass calls another; no pass prints. How to add one: doc/adding-a-pass.md.
 */
#ifndef IGATA_PASS_H
#define IGATA_PASS_H

#include "eval/eval.h"

typedef struct Schedule Schedule; /* sched/sched.h */

/* What a pass works on. module: always; schedule: from the level SCHED on. */
typedef struct Unit {
    Module *module;
    Schedule *schedule;
} Unit;
typedef enum PassLevel { LEVEL_TENSOR, LEVEL_SCHED, LEVEL_LOOP } PassLevel;

/* Target facts that scheduling asks for; the table is cgen/targets.c. Fixed per level, so that output never depends on the host. */
typedef struct TargetInfo {
    const char *triple, *cpu, *features; /* LLVM spelling */
    const char *level;                   /* "x86-64-v3", "x86-64-v4", "aarch64" */
    int f32_lanes;                       /* of one vector register: 16, 8, 4 */
    int vector_registers;                /* 32, 16 */
    int64_t l2_bytes;
} TargetInfo;

typedef struct PassOptions {
    int opt_level;               /* 0, 1, 2 */
    bool eager;                  /* one kernel per source node */
    bool strict;
    bool direct;                 /* no class wino2; part of strict */
    const TargetInfo *target;    /* for LEVEL_SCHED and LEVEL_LOOP */
    const Str *disabled;         /* names of optional passes to skip */
    uint32_t n_disabled;
    int64_t limit;               /* run at most this many optional passes; < 0: all (bisection) */
    const char *stop_after;      /* NULL: none */
    const char *print_after;     /* pass name, "all", or NULL; printed through `dump` */
    bool verify_each;
    bool time;
} PassOptions;
typedef struct PassCtx {
    Context *ctx;
    Arena *tmp; /* reset by the runner after every pass */
    const PassOptions *options;
    void (*dump)(void *user, const char *pass, const char *text); /* print_after / dump_after sink; may be NULL */
    void *dump_user;
    bool (*verify)(void *user, PassLevel level, const Unit *unit); /* level verifiers beyond the tensor level; may be NULL */
    void (*print_unit)(void *user, Text *text, PassLevel level, const Unit *unit); /* likewise */
    void *level_user;
    VEC(struct PassTime { const char *pass; double seconds; bool changed; }) times;
    int64_t n_optional_run;
    bool stopped; /* stop_after was reached */
} PassCtx;
typedef bool PassFn(PassCtx *pc, Unit *unit); /* returns whether it changed anything; errors go to the sink */
typedef struct PassDef {
    const char *id;
    PassLevel level;
    bool optional; /* may be disabled without changing a result bit */
    PassFn *run;
    const char *doc;
} PassDef;

#define PASS(id, level, optional, doc) PassFn pass_##id;
#include "pass/passes.def"
#undef PASS
extern const PassDef pass_defs[]; /* the tensor-level passes, ends with id NULL */

/* Runs passes in order; false if any reported an error or verification failed (the failing pass is named). */
bool pass_run(PassCtx *pc, Unit *unit, const PassDef *const *passes, uint32_t n);
/* For passes: visit on every node, in program order, those of its regions before it. visit may erase the node and insert others before
 * later ones; whether any visit changed something is returned. */
bool pass_each_node(Module *module, bool (*visit)(Node *node));
const PassDef *pass_find(const PassDef *table, const char *id);

#endif
