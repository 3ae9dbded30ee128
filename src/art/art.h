/* SPDX-License-Identifier: Apache-2.0
 *
 * art: writes and reads artifacts. No linker is used; what is read back is what format.h describes.
 *
 * The driver fills an ArtImage (plain data that it owns; nothing is kept after the call) and names a file. Objects are
 * relocatable ELF files as LLVM emits them: their read-only sections are laid out, relocated and named here. Everything
 * the compiler may get wrong there (an undefined symbol, a writable section, a relocation that would be left to the
 * loader) is a diagnostic, never a broken file. Bytes depend on the image alone.
 */
#ifndef IGATA_ART_H
#define IGATA_ART_H

#include "art/format.h"
#include "base/base.h"

/* ---- what is written ---------------------------------------------------------------------------------------- */

typedef enum ArtMachine { ART_X86_64, ART_AARCH64 } ArtMachine;

typedef struct ArtSize { /* ArtRecSize: a number that a run decides */
    ArtSizeOp op;
    const char *name;
    uint32_t a, b;
    int64_t lo, hi;
} ArtSize;

typedef struct ArtValue { /* an input, output or state */
    const char *name;
    DType dtype;
    uint32_t rank;
    const int64_t *dims;      /* the largest sizes */
    const uint32_t *dim_size; /* NULL, or per axis 0 or 1 + number of the entry's size that it has in a run */
    uint64_t offset; /* states only: in the state block, a multiple of ART_ALIGN */
} ArtValue;

typedef struct ArtBuf {
    ArtBufKind kind;
    uint32_t index; /* INPUT, OUTPUT: number of the input or output; WEIGHTS, STATE: number in its list (informative) */
    uint64_t offset; /* from the start of the workspace, slot scratch, io buffer, weights segment or state block */
    bool written;    /* the kernel stores to it */
} ArtBuf;

typedef struct ArtPhase {
    uint32_t kernel; /* of its variant */
    uint64_t tiles;  /* >= 1 */
    const ArtBuf *bufs;
    uint32_t n_bufs; /* <= ART_MAX_BUFS */
} ArtPhase;

typedef struct ArtStep { /* as ArtRecStep */
    ArtStepKind kind;
    uint32_t phase, target, depth, flags, node, size;
    int64_t bound;
    ArtBuf counter, go, trip;
} ArtStep;

typedef struct ArtPlan { /* one buffer of the memory plan */
    const char *name;
    uint64_t offset, bytes;
    uint32_t first, last; /* phases, inclusive */
    uint32_t view_of;     /* 1 + place in the plan of the buffer that it is a part of; 0: none */
} ArtPlan;

typedef struct ArtEntry {
    const char *name;
    const ArtValue *inputs, *outputs;
    uint32_t n_inputs, n_outputs;
    const ArtSize *sizes; /* symbols first: those that a run is told, those that it finds */
    uint32_t n_sizes, n_symbols, n_found;
} ArtEntry;

typedef struct ArtBody {             /* an entry as one variant computes it */
    uint64_t workspace_bytes;        /* rounded up to ART_ALIGN here */
    uint64_t scratch_bytes_per_slot; /* rounded up to ART_ALIGN here; 0: none */
    const ArtPhase *phases;
    uint32_t n_phases;
    const ArtStep *steps; /* of control */
    uint32_t n_steps;
    const ArtPlan *plan;
    uint32_t n_plan;
    uint64_t peak_bytes, lower_bound_bytes;
} ArtBody;

typedef struct ArtNode { /* a node that kernels may name in their error word */
    uint32_t id;
    const char *name;
} ArtNode;

typedef struct ArtKernel {
    const char *symbol;  /* as gdb, perf and objdump show it; made unique and given the variant's suffix here */
    const char *nodes;   /* source nodes, ", " between */
    const char *line;    /* of the listing: "%3 = dot %x, @w1  @kernel=fc1_gelu  -> f32[1,512,3072]" */
    const char *classes; /* arithmetic class(es) of numerics.md */
    uint64_t flops, bytes;
    uint32_t code_bytes; /* filled by art_read */
} ArtKernel;

typedef struct ArtDef {
    uint32_t kernel;    /* of its variant */
    const char *symbol; /* the global function in the object that is this kernel */
} ArtDef;

typedef struct ArtObject { /* a relocatable ELF file in memory */
    const uint8_t *data;
    size_t size;
    const ArtDef *defs;
    uint32_t n_defs;
} ArtObject;

/* All entries for one CPU level, scheduled for it: only values, states and weights are shared. Symbols of one variant
 * do not see those of another. */
typedef struct ArtVariant {
    const char *name;      /* "x86-64-v3", "generic", a CPU name */
    const char *features;  /* LLVM feature list "+avx2,+fma,..."; NULL: what the level named `name` stands for */
    const ArtBody *bodies; /* one an entry */
    const ArtKernel *kernels;
    uint32_t n_kernels;
    const ArtObject *objects;
    uint32_t n_objects;
    uint64_t code_bytes; /* filled by art_read: bytes of kernel code */
} ArtVariant;

typedef struct ArtSink ArtSink;
void art_sink_write(ArtSink *sink, const void *data, size_t bytes);

typedef struct ArtWeight {
    const char *name;
    uint64_t offset, bytes; /* in the weights segment; ascending, not overlapping; offset a multiple of ART_ALIGN */
    bool (*write)(void *user, ArtSink *sink); /* writes exactly `bytes`; false after reporting */
    void *user;
} ArtWeight;

typedef struct ArtImage {
    ArtMachine machine;
    const char *triple, *opt_level, *igata_version; /* e.g. "x86_64-pc-linux-gnu", "-O2", "igata 0.1.0" */
    bool ftz;
    const ArtEntry *entries;
    uint32_t n_entries;
    const ArtVariant *variants;
    uint32_t n_variants;
    const ArtWeight *weights;
    uint32_t n_weights;
    const ArtValue *states;
    uint32_t n_states;
    const ArtNode *nodes; /* ascending ids */
    uint32_t n_nodes;
    uint8_t model_sha256[32], options_sha256[32];
    uint8_t compiler_sha256[32]; /* computed from igata_version by the writer; filled by art_read */
} ArtImage;

/* ---- art_so.c, art_object.c: false after reporting; then no file is left ---------------------------------------- */

IG_MUST_USE bool art_write_so(Context *ctx, const ArtImage *image, const char *path);
/* One variant, the first entry; every symbol but PREFIX_run is local. `prefix` is a C identifier. */
IG_MUST_USE bool art_write_o(Context *ctx, const ArtImage *image, const char *prefix, const char *path);
IG_MUST_USE bool art_write_a(Context *ctx, const ArtImage *image, const char *prefix, const char *path);
/* The header for both: PREFIX_run of the first entry, sizes of its inputs, outputs, workspace and state as macros. */
IG_MUST_USE bool art_write_h(Context *ctx, const ArtImage *image, const char *prefix, const char *path);

/* ART_CPU_* bits of a variant; reports and returns false for an unknown level without a feature list. */
IG_MUST_USE bool art_cpu_features(Context *ctx, ArtMachine machine, const char *name, const char *features,
                                  uint64_t *bits);

/* ---- art_read.c -------------------------------------------------------------------------------------------------- */

/* A description read back, in the Context's arena: objects and write callbacks are NULL. */
typedef struct ArtInfo {
    ArtImage image;
    uint64_t file_bytes, weights_bytes, state_bytes;
} ArtInfo;

/* Does not load code; never reads past the end of the file. NULL after reporting. */
ArtInfo *art_read(Context *ctx, const char *path);
/* Compares the SHA-256 at the end of the file with its bytes; false after reporting. */
IG_MUST_USE bool art_verify(Context *ctx, const char *path);
/* Whether the file is ELF, so that it should be read as an artifact, not as a model; reports nothing. */
bool art_is_artifact(const char *path);

#endif
