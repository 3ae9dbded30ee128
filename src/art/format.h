/* SPDX-License-Identifier: Apache-2.0
 *
 * The byte format of an artifact's description, shared by writer, reader and runtime, and its one validator.
 *
 * An artifact is an ELF64 little-endian shared object. A PT_NOTE named "igata" holds one ArtHeader followed by tables
 * of fixed-size records; everything that inspection and running need is in it, and it is readable without loading code.
 * CPU variants share inputs, outputs, states and weights; each has kernels of its own and, for every entry, a body:
 * phases, memory plan, bytes of workspace.
 * No field is an address: tables are (bytes from the header, count), texts are offsets into the string table, code and
 * weights are distances from the header in the loaded image, so the loader has nothing to relocate. The dynamic symbol
 * `igata_artifact` is the header. All numbers are little-endian, every table starts at a multiple of 8.
 * The file ends with an ArtTrailer: the SHA-256 of all bytes before it (weights are streamed, so it cannot come first).
 *
 * Nothing here may trust its input: art_find and art_check are the only gate, and whoever passes it may follow every
 * reference in the tables without another check.
 */
#ifndef IGATA_ART_FORMAT_H
#define IGATA_ART_FORMAT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ART_MAGIC "IGATA\r\n\032"
#define ART_TRAILER_MAGIC "IGATAEND"
#define ART_FORMAT_VERSION 5
#define ART_NOTE_NAME "igata" /* 6 bytes with NUL; the description starts 20 bytes into the note */
#define ART_NOTE_TYPE 1
#define ART_SYMBOL "igata_artifact"
#define ART_MAX_BUFS 256 /* buffers of one phase: their addresses lie on the stack of a run (2 KB) */
#define ART_MAX_RANK 64
#define ART_MAX_DEPTH 32 /* of nested branches and loops: a run counts on its stack (512 bytes) */
#define ART_MAX_SIZES 256 /* of one entry: their values lie on the stack where shapes are asked for (2 KB) */
#define ART_ALIGN 64    /* of every io, workspace, state and scratch address */
#define ART_FLAG_FTZ 1u /* subnormals are flushed while running (--ftz) */

/* Where the address of a kernel's buffer comes from; `offset` is added to that base. */
typedef enum ArtBufKind {
    ART_WORKSPACE, /* the planned workspace */
    ART_SCRATCH,   /* private to the thread slot that runs the tile; lies after the workspace */
    ART_INPUT,     /* io[index] */
    ART_OUTPUT,    /* io[inputs + index] */
    ART_WEIGHTS,   /* the weights segment */
    ART_STATE,     /* the caller's state block */
    ART_SIZES,     /* io[inputs + outputs]: the values of the entry's symbols, told and found */
    ART_BUF_KINDS
} ArtBufKind;

/* Kernel ABI: computes tiles [lo, hi); where an index is out of range it stores (node id << 8 | code) to *error if
 * that is still 0, clamps and goes on. */
typedef void ArtKernelFn(void *const *buf, int64_t lo, int64_t hi, uint64_t *error);

typedef uint32_t ArtText; /* offset in the string table; texts end with NUL; 0 is "" */
typedef struct ArtRef {
    uint32_t at, count;
} ArtRef;
/* A number that a run decides. The first n_symbols of an entry are what its caller says, the n_found behind them what the run
 * finds (a step of control writes them; lo is 0); the others follow from records before them. A run that is told a value outside
 * [lo, hi] is refused, one that would find one is an error. */
typedef enum ArtSizeOp {
    ART_SIZE_SYMBOL,
    ART_SIZE_NUMBER, /* lo */
    ART_SIZE_ADD,
    ART_SIZE_MUL,
    ART_SIZE_FLOORDIV,
    ART_SIZE_MOD, /* sign of the divisor */
    ART_SIZE_MIN,
    ART_SIZE_MAX,
    ART_SIZE_OPS
} ArtSizeOp;
typedef struct ArtRecSize {
    uint32_t op;
    ArtText name;  /* of a symbol; else text of the expression, or "" */
    uint32_t a, b; /* operands: numbers of earlier records of the entry */
    int64_t lo, hi;
} ArtRecSize;
typedef struct ArtRecValue { /* an input, an output or a state */
    ArtText name;
    uint32_t dtype; /* ONNX TensorProto.DataType */
    uint32_t rank;
    uint32_t first_dim;     /* in `dims`: sizes, -1 where the run decides; in `bounds` the largest, in `dim_sizes` 1 + record */
    uint64_t bytes, offset; /* packed, row-major, at the largest sizes; offset: of a state in the state block */
} ArtRecValue;
typedef struct ArtRecEntry {
    ArtText name;
    uint32_t n_inputs, n_outputs, first_value; /* inputs, then outputs, in `values` */
    uint32_t first_size, n_sizes, n_symbols, n_found;
} ArtRecEntry;
typedef struct ArtRecBody { /* an entry as one variant computes it */
    uint32_t first_phase, n_phases, first_plan, n_plan, first_step, n_steps;
    uint64_t workspace_bytes, scratch_bytes; /* multiples of ART_ALIGN; scratch: one thread slot */
    uint64_t peak_bytes, lower_bound_bytes;
} ArtRecBody;
typedef struct ArtRecPhase {
    uint32_t kernel, n_bufs, first_buf, reserved; /* kernel: counted from the variant's first */
    uint64_t tiles; /* >= 1, <= INT64_MAX */
} ArtRecPhase;
typedef struct ArtRecBuf {
    uint16_t kind, written; /* written: the kernel stores to it */
    uint32_t index;
    uint64_t offset;
} ArtRecBuf;
/* Steps of control lie between the phases of a body and nest: IF .. ELSE .. END, LOOP .. NEXT. Who leaves the straight way goes on
 * behind step `target`: an IF whose condition is false behind its ELSE, an ELSE behind its END, a LOOP that is not entered behind its
 * NEXT, a NEXT that goes round behind its LOOP. A SIZE gives a symbol the value of the s64 at `trip`, cut to [0, bound]. */
typedef enum ArtStepKind {
    ART_STEP_IF, ART_STEP_ELSE, ART_STEP_END, ART_STEP_LOOP, ART_STEP_NEXT, ART_STEP_SIZE, ART_STEP_KINDS
} ArtStepKind;
#define ART_STEP_GO 1u   /* LOOP, NEXT: goes on only if the bool at `go` is true */
#define ART_STEP_TRIP 2u /* LOOP: at most as often as the s64 at `trip` says */
#define ART_STEP_CUT 4u  /* LOOP, SIZE: to need more than the bound is an error of node `node`, code ART_ERROR_STEPS */
#define ART_ERROR_STEPS 2u
typedef struct ArtRecStep {
    uint32_t kind, phase; /* goes before this phase of the body; ascending */
    uint32_t target, depth; /* depth: constructs around it */
    uint32_t flags, node;
    uint32_t size, reserved;       /* LOOP: 0, or 1 + the symbol that the run finds here: trips begun, so trips at the end; SIZE: its own */
    int64_t bound;                 /* LOOP: trips are never more; SIZE: the size is never more */
    ArtRecBuf counter, go, trip;   /* counter: s64 in the workspace, the trip as kernels see it; go: also the condition of an IF */
} ArtRecStep;
typedef struct ArtRecKernel {
    ArtText symbol, nodes, line, classes;
    int32_t code; /* address of the function minus address of the header */
    uint32_t code_bytes;
    uint64_t flops, bytes;
} ArtRecKernel;
typedef struct ArtRecVariant {
    ArtText name;
    uint32_t first_kernel, n_kernels, first_body; /* one body an entry */
    uint64_t features;                            /* ART_CPU_*: all must be there */
} ArtRecVariant;
typedef struct ArtRecNode { /* a node that a kernel may name in its error word; ids ascend */
    uint32_t id;
    ArtText name;
} ArtRecNode;
typedef struct ArtRecWeight {
    ArtText name;
    uint32_t reserved;
    uint64_t offset, bytes; /* in the weights segment */
} ArtRecWeight;
typedef struct ArtRecPlan {
    ArtText name;
    uint32_t first, last;   /* phases of its body, inclusive */
    uint32_t view_of;       /* 1 + place in the body's plan of the buffer that it is a part of; 0: none */
    uint64_t offset, bytes; /* in the workspace */
} ArtRecPlan;

typedef struct ArtHeader {
    uint8_t magic[8];
    uint32_t version, bytes;                /* bytes: header, tables and strings */
    uint32_t machine, flags;                /* machine: ELF e_machine */
    uint64_t file_bytes;                    /* with the trailer */
    int64_t weights;                        /* address of the weights segment minus address of the header */
    uint64_t weights_bytes, weights_offset; /* offset: in the file */
    uint64_t state_bytes;
    uint64_t build_id; /* first 8 bytes of the build id, to tell a mapped file from the loaded one */
    ArtText igata_version, triple, opt_level, reserved;
    ArtRef strings, entries, values, dims, bodies, phases, bufs, kernels, variants, weight_list, plan, states, nodes;
    ArtRef bounds, dim_sizes, sizes, steps;
    uint8_t model_sha256[32], options_sha256[32], compiler_sha256[32];
} ArtHeader;
typedef struct ArtTrailer {
    uint8_t magic[8];
    uint8_t sha256[32];
} ArtTrailer;

_Static_assert(sizeof(ArtRecValue) == 32 && sizeof(ArtRecEntry) == 32 && sizeof(ArtRecBody) == 56, "file format");
_Static_assert(sizeof(ArtRecPhase) == 24 && sizeof(ArtRecBuf) == 16 && sizeof(ArtRecKernel) == 40, "file format");
_Static_assert(sizeof(ArtRecVariant) == 24 && sizeof(ArtRecWeight) == 24 && sizeof(ArtRecPlan) == 32, "file format");
_Static_assert(sizeof(ArtRecNode) == 8 && sizeof(ArtRecSize) == 32 && sizeof(ArtRecStep) == 88, "file format");
_Static_assert(sizeof(ArtHeader) == 320 && sizeof(ArtTrailer) == 40, "file format");

/* CPU features a variant may require. The numbers are part of the format. CPUID places: Intel SDM vol. 2A, CPUID. */
#define ART_CPU_X86_FEATURES(F)                                                                                        \
    /*  bit, LLVM name, leaf, subleaf, register (0 eax, 1 ebx, 2 ecx, 3 edx), bit in it, XCR0 bits needed */           \
    F(0, "sse3", 1, 0, 2, 0, 0)                                                                                        \
    F(1, "ssse3", 1, 0, 2, 9, 0)                                                                                       \
    F(2, "sse4.1", 1, 0, 2, 19, 0) F(3, "sse4.2", 1, 0, 2, 20, 0) F(4, "popcnt", 1, 0, 2, 23, 0)                       \
        F(5, "cx16", 1, 0, 2, 13, 0) F(6, "sahf", 0x80000001, 0, 2, 0, 0) F(7, "movbe", 1, 0, 2, 22, 0)                \
            F(8, "f16c", 1, 0, 2, 29, 6) F(9, "fma", 1, 0, 2, 12, 6) F(10, "avx", 1, 0, 2, 28, 6)                      \
                F(11, "avx2", 7, 0, 1, 5, 6) F(12, "bmi", 7, 0, 1, 3, 0) F(13, "bmi2", 7, 0, 1, 8, 0)                  \
                    F(14, "lzcnt", 0x80000001, 0, 2, 5, 0) F(15, "xsave", 1, 0, 2, 26, 0)                              \
                        F(16, "avx512f", 7, 0, 1, 16, 0xe6) F(17, "avx512bw", 7, 0, 1, 30, 0xe6)                       \
                            F(18, "avx512cd", 7, 0, 1, 28, 0xe6) F(19, "avx512dq", 7, 0, 1, 17, 0xe6) F(               \
                                20, "avx512vl", 7, 0, 1, 31, 0xe6) F(21, "avx512ifma", 7, 0, 1, 21, 0xe6)              \
                                F(22, "avx512vbmi", 7, 0, 2, 1, 0xe6) F(23, "avx512vbmi2", 7, 0, 2, 6, 0xe6) F(        \
                                    24, "avx512vnni", 7, 0, 2, 11, 0xe6) F(25, "avx512bitalg", 7, 0, 2, 12, 0xe6)      \
                                    F(26, "avx512vpopcntdq", 7, 0, 2, 14, 0xe6) F(27, "avx512fp16", 7, 0, 3, 23, 0xe6) \
                                        F(28, "avx512bf16", 7, 1, 0, 5, 0xe6) F(29, "avxvnni", 7, 1, 0, 4, 6)          \
                                            F(30, "avxifma", 7, 1, 0, 23, 6) F(31, "avxvnniint8", 7, 1, 3, 4, 6)       \
                                                F(32, "avxneconvert", 7, 1, 3, 5, 6) F(33, "gfni", 7, 0, 2, 8, 0)      \
                                                    F(34, "vaes", 7, 0, 2, 9, 6) F(35, "vpclmulqdq", 7, 0, 2, 10, 6)   \
                                                        F(36, "amx-tile", 7, 0, 3, 24, 0x60000)                        \
                                                            F(37, "amx-int8", 7, 0, 3, 25, 0x60000)                    \
                                                                F(38, "amx-bf16", 7, 0, 3, 22, 0x60000)                \
                                                                    F(39, "avx10.1-512", 7, 1, 3, 19, 0xe6)            \
                                                                        F(40, "avx512vp2intersect", 7, 0, 3, 8, 0xe6)
/*  bit, LLVM name, AT_HWCAP bit or -1, AT_HWCAP2 bit or -1 (Linux, arch/arm64/include/uapi/asm/hwcap.h) */
#define ART_CPU_ARM_FEATURES(F)                                                                                        \
    F(0, "fp-armv8", 0, -1)                                                                                            \
    F(1, "neon", 1, -1)                                                                                                \
    F(2, "fullfp16", 10, -1) F(3, "rdm", 12, -1) F(4, "dotprod", 20, -1) F(5, "sve", 22, -1) F(6, "fp16fml", 23, -1)   \
        F(7, "sve2", -1, 1) F(8, "i8mm", -1, 13) F(9, "bf16", -1, 14) F(10, "lse", 8, -1)

static inline const void *art_at(const ArtHeader *h, uint32_t at) { return (const uint8_t *)h + at; }
static inline const char *art_text(const ArtHeader *h, ArtText text)
{
    return (const char *)art_at(h, h->strings.at) + text;
}
#define ART_TABLE(h, field, Rec) ((const Rec *)art_at((h), (h)->field.at))

static inline bool art_in(uint64_t offset, uint64_t bytes, uint64_t limit)
{
    return offset <= limit && bytes <= limit - offset;
}

static inline bool art_size_value(const ArtRecSize *r, int64_t a, int64_t b, int64_t *value)
{
    bool divides = r->op == ART_SIZE_FLOORDIV || r->op == ART_SIZE_MOD;
    if (divides && (b == 0 || b == -1)) /* no size is negated */
        return false;
    int64_t quotient = divides ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0;
    switch (r->op) { /* op-switch: of a record, no node */
    case ART_SIZE_NUMBER:
        *value = r->lo;
        return true;
    case ART_SIZE_ADD:
        return !__builtin_add_overflow(a, b, value);
    case ART_SIZE_MUL:
        return !__builtin_mul_overflow(a, b, value);
    case ART_SIZE_FLOORDIV:
        *value = quotient;
        return true;
    case ART_SIZE_MOD:
        *value = a - b * quotient;
        return true;
    case ART_SIZE_MIN:
        *value = a < b ? a : b;
        return true;
    default:
        *value = a > b ? a : b;
        return true;
    }
}

/* All numbers of a checked entry from those of its symbols; false if one leaves its range. */
static inline bool art_find_sizes(const ArtHeader *h, const ArtRecEntry *e, const int64_t *symbols, int64_t *value)
{
    const ArtRecSize *size = ART_TABLE(h, sizes, ArtRecSize) + e->first_size;
    for (uint32_t i = 0; i < e->n_sizes; i++) {
        bool operands = size[i].op > ART_SIZE_NUMBER;
        bool symbol = i < e->n_symbols + e->n_found;
        value[i] = symbol ? symbols[i] : 0;
        if (!symbol && !art_size_value(&size[i], operands ? value[size[i].a] : 0, operands ? value[size[i].b] : 0, &value[i]))
            return false;
        if (value[i] < size[i].lo || value[i] > size[i].hi)
            return false;
    }
    return true;
}

/* ---- the steps of a run ----------------------------------------------------------------------------------------------- */

typedef struct ArtWalk { /* where a run is, zeros at its start; counts are its own, so that no kernel can make a loop endless */
    uint32_t step;       /* the next one */
    int64_t count[ART_MAX_DEPTH], limit[ART_MAX_DEPTH];
} ArtWalk;
typedef struct ArtPlaces {
    void *(*at)(const void *user, const ArtRecBuf *word); /* where a step's word lies */
    const void *user;
    int64_t *sizes;  /* of the run: what steps find is written there */
    uint64_t *error; /* gets the error of a step, if it is 0 */
} ArtPlaces;

/* Whether a loop goes round at its LOOP or NEXT `s`; makes its count visible to kernels, and what it has found. That nothing but its
 * trip count ends it, which is beyond the bound, is an error before the first trip. */
static inline bool art_goes_round(const ArtWalk *w, const ArtRecStep *s, const ArtRecStep *loop, const ArtRecStep *next, const ArtPlaces *p)
{
    int64_t count = w->count[s->depth], limit = w->limit[s->depth];
    bool cut = loop->flags & ART_STEP_CUT, endless = cut && count == 0 && limit > loop->bound && !(next->flags & ART_STEP_GO);
    bool wants = count < limit && (!(s->flags & ART_STEP_GO) || *(const uint8_t *)p->at(p->user, &s->go));
    bool goes = wants && count < loop->bound && !endless;
    if (wants && !goes && cut && *p->error == 0)
        *p->error = (uint64_t)loop->node << 8 | ART_ERROR_STEPS;
    if (loop->size)
        p->sizes[loop->size - 1] = count + goes;
    if (goes)
        memcpy(p->at(p->user, &s->counter), &count, sizeof count);
    return goes;
}

/* The word of a SIZE becomes a size that kernels see. */
static inline void art_find_size(const ArtRecStep *s, const ArtPlaces *p)
{
    int64_t size;
    memcpy(&size, p->at(p->user, &s->trip), sizeof size);
    if (size > s->bound && *p->error == 0)
        *p->error = (uint64_t)s->node << 8 | ART_ERROR_STEPS;
    if (s->size)
        p->sizes[s->size - 1] = size < 0 ? 0 : size > s->bound ? s->bound : size;
}

/* Takes the steps that lie before `phase`: the phase to run now, that behind the last at the end. */
static inline uint32_t art_walk(ArtWalk *w, const ArtRecStep *step, uint32_t n_steps, uint32_t phase, const ArtPlaces *p)
{
    while (w->step < n_steps && step[w->step].phase == phase) {
        const ArtRecStep *s = &step[w->step], *to = &step[s->target];
        bool straight = true;
        switch (s->kind) {
        case ART_STEP_IF:
            straight = *(const uint8_t *)p->at(p->user, &s->go);
            break;
        case ART_STEP_ELSE:
            straight = false;
            break;
        case ART_STEP_LOOP:
            w->count[s->depth] = 0;
            w->limit[s->depth] = INT64_MAX;
            if (s->flags & ART_STEP_TRIP)
                memcpy(&w->limit[s->depth], p->at(p->user, &s->trip), sizeof w->limit[s->depth]);
            straight = art_goes_round(w, s, s, to, p);
            break;
        case ART_STEP_NEXT:
            w->count[s->depth]++;
            straight = !art_goes_round(w, s, to, s, p);
            break;
        case ART_STEP_SIZE:
            art_find_size(s, p);
            break;
        default:
            break;
        }
        w->step = straight ? w->step + 1 : s->target + 1;
        phase = straight ? phase : to->phase;
    }
    return phase;
}

/* The name of a node by its id, or NULL. */
static inline const char *art_node_name(const ArtHeader *h, uint64_t id)
{
    const ArtRecNode *nodes = ART_TABLE(h, nodes, ArtRecNode);
    uint32_t lo = 0, hi = h->nodes.count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (nodes[mid].id == id)
            return art_text(h, nodes[mid].name);
        if (nodes[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static inline bool art_check_table(const ArtHeader *h, ArtRef ref, size_t record, size_t align)
{
    return ref.at % align == 0 && ref.at >= sizeof(ArtHeader) && art_in(ref.at, (uint64_t)ref.count * record, h->bytes);
}

static inline bool art_check_value(const ArtHeader *h, const ArtRecValue *v, uint32_t n_sizes)
{
    if (v->name >= h->strings.count || v->rank > ART_MAX_RANK || !art_in(v->first_dim, v->rank, h->dims.count))
        return false;
    for (uint32_t d = 0; d < v->rank; d++)
        if (ART_TABLE(h, dim_sizes, uint32_t)[v->first_dim + d] > n_sizes)
            return false;
    return true;
}

static inline bool art_check_phase(const ArtHeader *h, const ArtRecVariant *v, const ArtRecEntry *e,
                                   const ArtRecBody *body, const ArtRecPhase *p)
{
    if (p->kernel >= v->n_kernels || p->n_bufs > ART_MAX_BUFS || p->tiles == 0 || p->tiles > INT64_MAX ||
        !art_in(p->first_buf, p->n_bufs, h->bufs.count))
        return false;
    const ArtRecBuf *bufs = ART_TABLE(h, bufs, ArtRecBuf) + p->first_buf;
    const ArtRecValue *values = ART_TABLE(h, values, ArtRecValue) + e->first_value;
    for (uint32_t i = 0; i < p->n_bufs; i++) {
        const ArtRecBuf *b = &bufs[i];
        uint64_t limit = 0;
        switch (b->kind) {
        case ART_WORKSPACE:
            limit = body->workspace_bytes;
            break;
        case ART_SCRATCH:
            limit = body->scratch_bytes;
            break;
        case ART_WEIGHTS:
            limit = h->weights_bytes;
            break;
        case ART_STATE:
            limit = h->state_bytes;
            break;
        case ART_INPUT:
            if (b->index >= e->n_inputs)
                return false;
            limit = values[b->index].bytes;
            break;
        case ART_OUTPUT:
            if (b->index >= e->n_outputs)
                return false;
            limit = values[e->n_inputs + b->index].bytes;
            break;
        case ART_SIZES:
            if (e->n_symbols + e->n_found == 0 || b->index)
                return false;
            break;
        default:
            return false;
        }
        if (b->offset > limit)
            return false;
    }
    return true;
}

/* Whether a step of control may read (or count in) `bytes` at this place. */
static inline bool art_check_word(const ArtHeader *h, const ArtRecEntry *e, const ArtRecBody *body, const ArtRecBuf *b,
                                  uint64_t bytes)
{
    const ArtRecValue *values = ART_TABLE(h, values, ArtRecValue) + e->first_value;
    uint64_t limit = 0;
    if (b->kind == ART_WORKSPACE)
        limit = body->workspace_bytes;
    else if (b->kind == ART_WEIGHTS)
        limit = h->weights_bytes;
    else if (b->kind == ART_INPUT && b->index < e->n_inputs)
        limit = values[b->index].bytes;
    else if (b->kind == ART_OUTPUT && b->index < e->n_outputs)
        limit = values[e->n_inputs + b->index].bytes;
    return b->offset % bytes == 0 && art_in(b->offset, bytes, limit);
}

/* Whether the steps of a body nest. Then every way through them ends: a way goes back only from a NEXT to its own LOOP, which
 * `bound` limits, and a LOOP is begun anew only by way of a loop around it. */
static inline bool art_check_steps(const ArtHeader *h, const ArtRecEntry *e, const ArtRecBody *body)
{
    if (!art_in(body->first_step, body->n_steps, h->steps.count))
        return false;
    const ArtRecStep *step = ART_TABLE(h, steps, ArtRecStep) + body->first_step;
    uint32_t open[ART_MAX_DEPTH], depth = 0;
    for (uint32_t i = 0; i < body->n_steps; i++) {
        const ArtRecStep *s = &step[i];
        bool begins = s->kind == ART_STEP_IF || s->kind == ART_STEP_LOOP, finds = s->kind == ART_STEP_SIZE;
        if (s->kind >= ART_STEP_KINDS || s->phase > body->n_phases || (i > 0 && s->phase < step[i - 1].phase) ||
            s->target >= body->n_steps || (begins ? depth == ART_MAX_DEPTH || s->target <= i : depth == 0 && !finds))
            return false;
        if ((s->kind == ART_STEP_IF || s->flags & ART_STEP_GO) && !art_check_word(h, e, body, &s->go, 1))
            return false;
        if (s->flags & ART_STEP_TRIP && !art_check_word(h, e, body, &s->trip, 8))
            return false;
        if (s->size && (s->size <= e->n_symbols || s->size - e->n_symbols > e->n_found ||
                        s->bound > ART_TABLE(h, sizes, ArtRecSize)[e->first_size + s->size - 1].hi))
            return false;
        if (finds && (!(s->flags & ART_STEP_TRIP) || s->bound < 0))
            return false;
        if (begins) {
            open[depth++] = i;
        } else if (!finds) {
            const ArtRecStep *top = &step[open[depth - 1]];
            ArtStepKind first = s->kind == ART_STEP_NEXT ? ART_STEP_LOOP : s->kind == ART_STEP_END ? ART_STEP_ELSE : ART_STEP_IF;
            if (top->kind != (uint32_t)first || top->target != i || (s->kind == ART_STEP_NEXT && s->target != open[depth - 1]))
                return false;
            if (s->kind == ART_STEP_ELSE)
                open[depth - 1] = i;
            else
                depth--;
            if (s->kind == ART_STEP_ELSE && s->target <= i)
                return false;
        }
        bool loops = s->kind == ART_STEP_LOOP || s->kind == ART_STEP_NEXT;
        if (loops && (s->depth != depth - (s->kind == ART_STEP_LOOP) || s->counter.kind != ART_WORKSPACE ||
                      !art_check_word(h, e, body, &s->counter, 8)))
            return false;
    }
    return depth == 0;
}

static inline bool art_check_body(const ArtHeader *h, const ArtRecVariant *v, const ArtRecEntry *e,
                                  const ArtRecBody *body)
{
    const uint64_t limit = UINT64_C(1) << 56; /* sums of a few such sizes stay far from overflow */
    if (!art_in(body->first_phase, body->n_phases, h->phases.count) ||
        !art_in(body->first_plan, body->n_plan, h->plan.count) || body->workspace_bytes % ART_ALIGN ||
        body->scratch_bytes % ART_ALIGN || body->workspace_bytes > limit || body->scratch_bytes > limit >> 16)
        return false;
    for (uint32_t i = 0; i < body->n_plan; i++)
        if ((ART_TABLE(h, plan, ArtRecPlan) + body->first_plan)[i].view_of > body->n_plan)
            return false;
    for (uint32_t i = 0; i < body->n_phases; i++)
        if (!art_check_phase(h, v, e, body, ART_TABLE(h, phases, ArtRecPhase) + body->first_phase + i))
            return false;
    return art_check_steps(h, e, body);
}

/* Needs the entries to have been checked. */
static inline bool art_check_variant(const ArtHeader *h, const ArtRecVariant *v)
{
    if (v->name >= h->strings.count || !art_in(v->first_kernel, v->n_kernels, h->kernels.count) ||
        !art_in(v->first_body, h->entries.count, h->bodies.count))
        return false;
    for (uint32_t i = 0; i < h->entries.count; i++)
        if (!art_check_body(h, v, ART_TABLE(h, entries, ArtRecEntry) + i,
                            ART_TABLE(h, bodies, ArtRecBody) + v->first_body + i))
            return false;
    return true;
}

static inline bool art_check_sizes(const ArtHeader *h, const ArtRecEntry *e)
{
    const ArtRecSize *size = ART_TABLE(h, sizes, ArtRecSize) + e->first_size;
    if (!art_in(e->first_size, e->n_sizes, h->sizes.count) || e->n_sizes > ART_MAX_SIZES ||
        !art_in(e->n_symbols, e->n_found, e->n_sizes))
        return false;
    for (uint32_t i = 0; i < e->n_sizes; i++)
        if (size[i].op >= ART_SIZE_OPS || (size[i].op == ART_SIZE_SYMBOL) != (i < e->n_symbols + e->n_found) ||
            (i >= e->n_symbols && size[i].op == ART_SIZE_SYMBOL && size[i].lo != 0) ||
            size[i].name >= h->strings.count || size[i].lo > size[i].hi ||
            (size[i].op > ART_SIZE_NUMBER && (size[i].a >= i || size[i].b >= i)))
            return false;
    return true;
}

static inline bool art_check_entry(const ArtHeader *h, const ArtRecEntry *e)
{
    if (e->name >= h->strings.count || !art_in(e->first_value, (uint64_t)e->n_inputs + e->n_outputs, h->values.count) ||
        !art_check_sizes(h, e))
        return false;
    for (uint32_t i = 0; i < e->n_inputs + e->n_outputs; i++)
        if (!art_check_value(h, ART_TABLE(h, values, ArtRecValue) + e->first_value + i, e->n_sizes))
            return false;
    return true;
}

static inline bool art_check_tables(const ArtHeader *h)
{
    return art_check_table(h, h->strings, 1, 1) && art_check_table(h, h->entries, sizeof(ArtRecEntry), 8) &&
           art_check_table(h, h->values, sizeof(ArtRecValue), 8) && art_check_table(h, h->dims, 8, 8) &&
           art_check_table(h, h->bounds, 8, 8) && art_check_table(h, h->dim_sizes, 4, 8) &&
           h->bounds.count == h->dims.count && h->dim_sizes.count == h->dims.count &&
           art_check_table(h, h->sizes, sizeof(ArtRecSize), 8) && art_check_table(h, h->steps, sizeof(ArtRecStep), 8) &&
           art_check_table(h, h->bodies, sizeof(ArtRecBody), 8) &&
           art_check_table(h, h->phases, sizeof(ArtRecPhase), 8) && art_check_table(h, h->bufs, sizeof(ArtRecBuf), 8) &&
           art_check_table(h, h->kernels, sizeof(ArtRecKernel), 8) &&
           art_check_table(h, h->variants, sizeof(ArtRecVariant), 8) &&
           art_check_table(h, h->weight_list, sizeof(ArtRecWeight), 8) &&
           art_check_table(h, h->plan, sizeof(ArtRecPlan), 8) &&
           art_check_table(h, h->states, sizeof(ArtRecValue), 8) &&
           art_check_table(h, h->nodes, sizeof(ArtRecNode), 8);
}

/* Whether a description of at most `available` bytes is sound: every table, text and index in it lies inside it.
 * `header` is 8-byte aligned. */
static inline bool art_check(const ArtHeader *h, uint64_t available)
{
    if (available < sizeof *h || memcmp(h->magic, ART_MAGIC, 8) != 0 || h->version != ART_FORMAT_VERSION ||
        h->bytes > available || h->bytes < sizeof *h)
        return false;
    if (!art_check_tables(h))
        return false;
    uint32_t texts = h->strings.count;
    if (texts == 0 || art_text(h, 0)[texts - 1] != 0 || h->igata_version >= texts || h->triple >= texts ||
        h->opt_level >= texts || h->state_bytes > UINT64_C(1) << 56 ||
        !art_in(h->weights_offset, h->weights_bytes, h->file_bytes) || h->file_bytes < sizeof(ArtTrailer))
        return false;
    for (uint32_t i = 0; i < h->states.count; i++) {
        const ArtRecValue *s = ART_TABLE(h, states, ArtRecValue) + i;
        if (!art_check_value(h, s, 0) || !art_in(s->offset, s->bytes, h->state_bytes))
            return false;
    }
    for (uint32_t i = 0; i < h->entries.count; i++)
        if (!art_check_entry(h, ART_TABLE(h, entries, ArtRecEntry) + i))
            return false;
    for (uint32_t i = 0; i < h->kernels.count; i++) {
        const ArtRecKernel *k = ART_TABLE(h, kernels, ArtRecKernel) + i;
        if (k->symbol >= texts || k->nodes >= texts || k->line >= texts || k->classes >= texts)
            return false;
    }
    for (uint32_t i = 0; i < h->variants.count; i++)
        if (!art_check_variant(h, ART_TABLE(h, variants, ArtRecVariant) + i))
            return false;
    for (uint32_t i = 0; i < h->weight_list.count; i++) {
        const ArtRecWeight *w = ART_TABLE(h, weight_list, ArtRecWeight) + i;
        if (w->name >= texts || !art_in(w->offset, w->bytes, h->weights_bytes))
            return false;
    }
    for (uint32_t i = 0; i < h->plan.count; i++)
        if (ART_TABLE(h, plan, ArtRecPlan)[i].name >= texts)
            return false;
    for (uint32_t i = 0; i < h->nodes.count; i++)
        if (ART_TABLE(h, nodes, ArtRecNode)[i].name >= texts)
            return false;
    return true;
}

/* Whether [address, address + bytes) lies in a loaded segment with the flag, whose address is its file offset. */
static inline bool art_check_place(const uint8_t *file, uint64_t size, const Elf64_Ehdr *eh, uint32_t flag,
                                   uint64_t address, uint64_t bytes)
{
    for (uint32_t i = 0; i < eh->e_phnum; i++) {
        Elf64_Phdr ph;
        memcpy(&ph, file + eh->e_phoff + i * sizeof ph, sizeof ph);
        if (ph.p_type == PT_LOAD && (ph.p_flags & flag) && ph.p_vaddr == ph.p_offset &&
            art_in(ph.p_offset, ph.p_filesz, size) && address >= ph.p_vaddr &&
            art_in(address - ph.p_vaddr, bytes, ph.p_filesz))
            return true;
    }
    return false;
}

/* Whether code and weights are where the description says: `at` is the place of the header in the file. */
static inline bool art_check_places(const uint8_t *file, uint64_t size, const Elf64_Ehdr *eh, const ArtHeader *h,
                                    uint64_t at)
{
    const ArtRecKernel *kernel = ART_TABLE(h, kernels, ArtRecKernel);
    if (h->file_bytes != size || h->machine != eh->e_machine)
        return false;
    for (uint32_t i = 0; i < h->kernels.count; i++)
        if (!art_check_place(file, size, eh, PF_X, at + (uint64_t)(int64_t)kernel[i].code, kernel[i].code_bytes))
            return false;
    return h->weights_bytes == 0 || ((uint64_t)h->weights == h->weights_offset - at &&
                                     art_check_place(file, size, eh, PF_R, h->weights_offset, h->weights_bytes));
}

/* The description inside the bytes of a file (8-byte aligned, as a mapping is), or NULL: not an ELF64 little-endian
 * file, no igata note, or a description that art_check refuses, or that does not fit the file around it. */
static inline const ArtHeader *art_find(const uint8_t *file, uint64_t size)
{
    Elf64_Ehdr eh;
    if (size < sizeof eh)
        return NULL;
    memcpy(&eh, file, sizeof eh);
    if (memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
        eh.e_ident[EI_DATA] != ELFDATA2LSB || eh.e_phentsize != sizeof(Elf64_Phdr) ||
        !art_in(eh.e_phoff, (uint64_t)eh.e_phnum * sizeof(Elf64_Phdr), size))
        return NULL;
    for (uint32_t i = 0; i < eh.e_phnum; i++) {
        Elf64_Phdr ph;
        memcpy(&ph, file + eh.e_phoff + i * sizeof ph, sizeof ph);
        if (ph.p_type != PT_NOTE || !art_in(ph.p_offset, ph.p_filesz, size))
            continue;
        for (uint64_t at = 0; art_in(at, sizeof(Elf64_Nhdr), ph.p_filesz);) {
            Elf64_Nhdr nh;
            memcpy(&nh, file + ph.p_offset + at, sizeof nh);
            uint64_t desc = at + sizeof nh + (((uint64_t)nh.n_namesz + 3) & ~UINT64_C(3));
            if (!art_in(desc, nh.n_descsz, ph.p_filesz))
                break;
            const uint8_t *name = file + ph.p_offset + at + sizeof nh, *data = file + ph.p_offset + desc;
            if (nh.n_type == ART_NOTE_TYPE && nh.n_namesz == sizeof ART_NOTE_NAME &&
                memcmp(name, ART_NOTE_NAME, sizeof ART_NOTE_NAME) == 0) {
                const ArtHeader *h = (const ArtHeader *)(const void *)data;
                if ((ph.p_offset + desc) % 8 != 0 || !art_check(h, nh.n_descsz))
                    return NULL;
                return art_check_places(file, size, &eh, h, ph.p_offset + desc) ? h : NULL;
            }
            at = desc + (((uint64_t)nh.n_descsz + 3) & ~UINT64_C(3));
        }
    }
    return NULL;
}

#endif
