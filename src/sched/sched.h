/* SPDX-License-Identifier: Apache-2.0
 *
 * sched: from tensor IR to scheduled kernels with planned memory. Groups of nodes become kernels by op *kinds* (fuse), each
 * value that is materialised gets a buffer with a dim order (layout), each group becomes a naive loop nest (lower), scheduling
 * steps rewrite the nest without changing a bit (phases to parallel in passes.def), and every buffer gets its offset (plan).
 */
#ifndef IGATA_SCHED_H
#define IGATA_SCHED_H

#include "loop/loop.h"
#include "pass/pass.h"

typedef enum SlotKind {
    SLOT_WORKSPACE, SLOT_INPUT, SLOT_OUTPUT, SLOT_WEIGHTS, SLOT_STATE, SLOT_SCRATCH, SLOT_SIZES
} SlotKind;

/* A tensor value that lives in memory between kernels (or is an input or output). */
typedef struct Storage {
    const Val *val;
    Str name;
    SlotKind kind;
    uint32_t index;              /* INPUT, OUTPUT: position */
    uint32_t rank;
    int64_t dim[IR_MAX_RANK];    /* the largest sizes */
    int64_t stride[IR_MAX_RANK]; /* in elements, chosen by layout; an input or output is dense at the sizes of the run instead */
    uint64_t bytes;              /* pitched, rounded to 64 */
    uint64_t offset;             /* in the workspace, set by plan */
    uint32_t first, last;        /* phases that touch it */
    struct Storage *in_place;    /* shares the bytes of this one, or NULL */
    bool view;                   /* of in_place: lies in a part of it, beginning with element `at`, while it is made and used */
    int64_t at;
    bool merged; /* written from several places of the program, or kept from trip to trip of a loop: shares with nothing */
} Storage;

/* Nodes computed by one kernel. */
typedef struct Group {
    VEC(Node *) nodes;     /* in program order */
    VEC(Val *) results;    /* values that others need */
    VEC(Storage *) reads;
    VEC(Storage *) writes;
    Str name;              /* kernel name: source node and tail ops, unique in the schedule */
    Kernel *kernel;        /* set by lower; rewritten by the scheduling steps */
} Group;

/* A constant as kernels read it; offset into the artifact's weight segment. Equal packs share one image. */
typedef struct PackedWeight {
    Str name;
    const Pack *pack; /* never NULL: the identity for raw data */
    DType dtype;
    uint32_t rank;
    int64_t dim[LOOP_MAX_RANK];
    uint64_t bytes, offset;
} PackedWeight;

typedef struct Slot { /* of one kernel buffer */
    SlotKind kind;
    uint32_t index;
    uint64_t offset;
} Slot;
typedef struct Phase {
    Group *group;
    uint32_t kernel; /* index in kernels: groups with equal kernels share code */
    int64_t tiles;
    Slot *slots;     /* one per buffer of the kernel */
    uint64_t flops, bytes;
    const char *arith; /* arithmetic class */
} Phase;

/* A step of control (art/format.h): a branch or a loop around kernels, or a word that becomes a size. */
typedef enum StepKind { STEP_IF, STEP_ELSE, STEP_END, STEP_LOOP, STEP_NEXT, STEP_SIZE } StepKind;
typedef struct Step {
    StepKind kind;
    const Node *node;       /* if, loop or found */
    uint32_t group;         /* goes before this one */
    uint32_t target, depth; /* the step it leads behind; constructs around it */
    Storage *counter, *go, *trip; /* NULL: none */
    uint32_t size;          /* 0, or 1 + number of the symbol that the trips of the loop, or the word `trip`, are */
    int64_t bound;          /* of trips, or of the word */
    bool cut;               /* to need more is an error */
} Step;

struct Schedule {
    Context *ctx;
    Arena *arena;
    Module *module;
    Func *func;
    const Sym *const *syms; /* that the inputs' sizes have, in order of appearance: what a run is told; then those it finds */
    uint32_t n_told, n_syms;
    VEC(Group *) groups;
    VEC(Step) steps;
    VEC(Storage *) storages;
    Map *group_of;   /* node id -> Group; absent: inlined where it is used */
    Map *storage_of; /* value id -> Storage */
    VEC(PackedWeight *) weights;
    VEC(Kernel *) kernels; /* distinct, in order of first use */
    VEC(Phase) phases;
    uint64_t weight_bytes;
    uint64_t workspace_bytes, scratch_bytes; /* scratch: per thread slot */
    uint64_t peak_bytes, lower_bound_bytes;
};

/* The symbol to which the node gives a value: of `found`, or the trips of a loop, the first size of what it stacks. NULL: none. */
const Sym *sched_found_size(const Node *node);
/* An entry function, composites expanded; a size is a number or an expression of symbols that the inputs' sizes have, or that loops
 * before it find. The module must outlive the schedule. */
Schedule *sched_create(Context *ctx, Module *module, Func *func);
void sched_destroy(Schedule *schedule);
void sched_print(Text *text, const Schedule *schedule);  /* groups, storages, plan, kernels */
bool sched_verify(const Schedule *schedule, PassLevel level);
/* Element `index` .. of a packed weight, streamed in order into out (bytes of `count` elements). */
void sched_pack(const PackedWeight *weight, uint64_t index, uint64_t count, void *out);

#define PASS(id, level, optional, doc) PassFn pass_##id;
#include "sched/passes.def"
#undef PASS
extern const PassDef sched_pass_defs[]; /* ends with id NULL */

#endif
