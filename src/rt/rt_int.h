/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to rt: the opened model, address resolution, and the floating-point environment per machine.
 */
#ifndef IGATA_RT_INT_H
#define IGATA_RT_INT_H

#include "art/format.h"
#include "igata_rt.h"

struct igata_model {
    const ArtHeader *h; /* in the loaded image */
    const ArtRecEntry *entries;
    const ArtRecBody *bodies; /* of the chosen variant, by entry */
    const ArtRecValue *values;
    const ArtRecPhase *phases;
    const ArtRecBuf *bufs;
    const ArtRecStep *steps;
    const ArtRecKernel *kernels; /* of the chosen variant */
    const ArtRecVariant *variant;
    const uint8_t *weights;
    unsigned fp_mode;
    void *handle;  /* of dlopen, or NULL: */
    void *mapping; /* own mapping */
    size_t mapping_bytes;
};

/* What one run works on. Kernels get their addresses from it. */
typedef struct RtRun {
    const igata_model *model;
    void *const *io;
    uint8_t *workspace, *state;
} RtRun;

/* rt_cpu.c */
uint64_t rt_cpu_features(void);
int rt_cpu_machine(void); /* ELF e_machine */

/* rt_hash.c: whether the trailer of a mapped artifact matches. */
bool rt_hash_matches(const uint8_t *file, uint64_t size);

/* rt_run.c */
igata_status rt_check_run(const igata_model *model, size_t entry, void *const io[], const void *workspace,
                          const void *state);

/* The status that an error word stands for. */
static inline igata_status rt_status(uint64_t error)
{
    return !error ? IGATA_OK : (error & 0xff) == ART_ERROR_STEPS ? IGATA_E_BOUND : IGATA_E_INDEX;
}

static inline ArtKernelFn *rt_kernel(const igata_model *model, uint32_t kernel)
{
    union {
        const void *address;
        ArtKernelFn *function;
    } code = {.address = (const uint8_t *)model->h + model->kernels[kernel].code};
    return code.function;
}

/* The address of a buffer for thread slot `slot`. */
static inline void *rt_address(const RtRun *run, const ArtRecEntry *entry, const ArtRecBody *body, const ArtRecBuf *buf,
                               unsigned slot)
{
    switch (buf->kind) {
    case ART_WORKSPACE:
        return run->workspace + buf->offset;
    case ART_SCRATCH:
        return run->workspace + body->workspace_bytes + slot * body->scratch_bytes + buf->offset;
    case ART_INPUT:
        return (uint8_t *)run->io[buf->index] + buf->offset;
    case ART_OUTPUT:
        return (uint8_t *)run->io[entry->n_inputs + buf->index] + buf->offset;
    case ART_STATE:
        return run->state + buf->offset;
    case ART_SIZES:
        return run->io[entry->n_inputs + entry->n_outputs];
    default:
        return (uint8_t *)(uintptr_t)run->model->weights + buf->offset; /* only ever read */
    }
}

/* The addresses of a phase's buffers for thread slot `slot`; art_check has bounded n_bufs. */
static inline void rt_resolve(const RtRun *run, const ArtRecEntry *entry, const ArtRecBody *body, const ArtRecPhase *phase,
                              unsigned slot, void **out)
{
    const ArtRecBuf *bufs = run->model->bufs + phase->first_buf;
    for (uint32_t i = 0; i < phase->n_bufs; i++)
        out[i] = rt_address(run, entry, body, &bufs[i], slot);
}

void rt_control_begin(ArtWalk *walk, const RtRun *run, const ArtRecEntry *entry);
/* art_walk in a run. */
uint32_t rt_control(ArtWalk *walk, const RtRun *run, const ArtRecEntry *entry, const ArtRecBody *body, uint32_t phase,
                    uint64_t *error);

/* ---- floating-point environment (numerics.md: round to nearest, no traps, subnormals kept unless asked) -------------- */

/* The control word is written only where it differs: that saves 3 ns a run. rt_fp_enter returns the old word. */
#if defined(__x86_64__)
#define RT_FP_PLAIN 0x1f80u /* MXCSR: all exceptions masked; Intel SDM vol. 1, 10.2.3 */
#define RT_FP_FTZ 0x9fc0u   /* and FZ, DAZ */
#define RT_FP_CONTROL 0xffc0u
static inline unsigned rt_fp_read(void)
{
    unsigned word;
    __asm__ volatile("stmxcsr %0" : "=m"(word));
    return word;
}
static inline void rt_fp_write(unsigned word) { __asm__ volatile("ldmxcsr %0" : : "m"(word) : "memory"); }
static inline void rt_pause(void) { __asm__ volatile("pause" : : : "memory"); }
#elif defined(__aarch64__)
#define RT_FP_PLAIN 0u        /* FPCR; Arm ARM, C5.2 */
#define RT_FP_FTZ 0x01000000u /* FZ */
#define RT_FP_CONTROL 0x07c89f07u
static inline unsigned rt_fp_read(void)
{
    uint64_t word;
    __asm__ volatile("mrs %0, fpcr" : "=r"(word));
    return (unsigned)word;
}
static inline void rt_fp_write(unsigned word) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)word) : "memory"); }
static inline void rt_pause(void) { __asm__ volatile("isb" : : : "memory"); }
#else
#error "igata_rt supports x86-64 and AArch64"
#endif

static inline unsigned rt_fp_enter(unsigned mode)
{
    unsigned old = rt_fp_read();
    if ((old & RT_FP_CONTROL) != mode)
        rt_fp_write((old & ~RT_FP_CONTROL) | mode);
    return old;
}

static inline void rt_fp_leave(unsigned old, unsigned mode)
{
    if ((old & RT_FP_CONTROL) != mode)
        rt_fp_write(old);
}

#endif
