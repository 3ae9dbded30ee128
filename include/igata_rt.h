/* SPDX-License-Identifier: Apache-2.0
 *
 * igata_rt: runs compiled artifacts (.so files written by `igata compile`). Needs libc only.
 *
 *     igata_model *model;
 *     igata_status status = igata_open("net.so", NULL, &model);
 *     void *workspace = aligned_alloc(64, igata_workspace(model, 0, 1));
 *     void *io[] = {input, output};                 // inputs, outputs (64-byte aligned), sizes if the entry has or finds any
 *     status = igata_run(model, 0, io, workspace, NULL);
 *
 * igata_open does everything that may fail or block. igata_run, igata_job_begin and igata_work allocate nothing, take
 * no lock, make no system call and use at most 16 KB of stack, 4 KB of them by the runtime and the rest by kernels; they are
 * re-entrant as long as workspace, outputs, sizes (where the entry finds any), state and job are not shared. Nothing starts
 * threads by itself: call igata_run on one thread, or bring threads (igata_job_*), or a parallel-for, or ask for a pool.
 * Structs begin with their size: set it to sizeof the struct, zero the rest. Fields are only ever added.
 */
#ifndef IGATA_RT_H
#define IGATA_RT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int igata_status;
enum {
    IGATA_OK = 0,
    IGATA_E_ARGUMENT = 1, /* a NULL or out-of-range argument, a struct of unknown size */
    IGATA_E_FILE = 2,     /* the file cannot be opened or read */
    IGATA_E_FORMAT = 3,   /* not an artifact, damaged, or of a newer format */
    IGATA_E_MACHINE = 4,  /* made for another machine */
    IGATA_E_CPU = 5,      /* this CPU lacks the features of every variant (or of the one asked for) */
    IGATA_E_VARIANT = 6,  /* no variant of that name */
    IGATA_E_HASH = 7,     /* the content does not match its SHA-256 */
    IGATA_E_MEMORY = 8,   /* out of memory, or pages cannot be locked */
    IGATA_E_NULL = 9,     /* an input, output, workspace or state pointer is NULL */
    IGATA_E_ALIGN = 10,   /* one of them is not 64-byte aligned */
    IGATA_E_INDEX = 11,   /* an index was out of range while running: outputs are defined but meaningless */
    IGATA_E_BUSY = 12,    /* the job still runs */
    IGATA_E_THREADS = 13, /* too many threads, or they cannot be started */
    IGATA_E_SIZE = 14,    /* a size is outside its range, or not what another input says */
    IGATA_E_BOUND = 15,   /* a loop needs more trips, or a result more elements, than compiled for (--bound) */
    IGATA_STATUS_COUNT
};
const char *igata_status_text(igata_status status);

/* ONNX TensorProto.DataType numbers. */
enum {
    IGATA_F32 = 1,
    IGATA_U8 = 2,
    IGATA_S8 = 3,
    IGATA_U16 = 4,
    IGATA_S16 = 5,
    IGATA_S32 = 6,
    IGATA_S64 = 7,
    IGATA_STR = 8,
    IGATA_BOOL = 9,
    IGATA_F16 = 10,
    IGATA_F64 = 11,
    IGATA_U32 = 12,
    IGATA_U64 = 13,
    IGATA_C64 = 14,
    IGATA_C128 = 15,
    IGATA_BF16 = 16,
    IGATA_F8E4M3FN = 17,
    IGATA_F8E4M3FNUZ = 18,
    IGATA_F8E5M2 = 19,
    IGATA_F8E5M2FNUZ = 20,
    IGATA_U4 = 21,
    IGATA_S4 = 22,
    IGATA_F4E2M1 = 23,
    IGATA_F8E8M0 = 24,
    IGATA_U2 = 25,
    IGATA_S2 = 26
};

#define IGATA_ALIGN 64
#define IGATA_MAX_THREADS 256

/* ---- opening ------------------------------------------------------------------------------------------------ */

typedef struct igata_model igata_model;

enum {
    IGATA_PREFAULT = 1, /* read the weights into memory now */
    IGATA_LOCK = 2,     /* and lock them there */
    IGATA_CHECK = 4,    /* compare the whole file with its SHA-256 */
    IGATA_MMAP = 8      /* map the file here instead of asking dlopen (debuggers will not see its symbols) */
};
typedef struct igata_open_options {
    size_t size;
    unsigned flags;
    const char *variant;  /* NULL: the one that uses most of this CPU */
    uint64_t cpu_without; /* CPU features to treat as absent (ART_CPU bits); for tests */
} igata_open_options;

igata_status igata_open(const char *path, const igata_open_options *options, igata_model **model);
/* No run of the model may be in progress, and no helper inside igata_work (igata_pool_quiesce). NULL is ignored. */
void igata_close(igata_model *model);

/* ---- what is inside ----------------------------------------------------------------------------------------- */

typedef struct igata_model_info {
    size_t size;
    const char *variant, *triple, *opt_level, *version;
    size_t entries, kernels, states, state_bytes, weights_bytes, code_bytes, file_bytes;
} igata_model_info;
typedef struct igata_entry {
    size_t size;
    const char *name;
    size_t inputs, outputs;
    size_t phases, workspace_bytes, scratch_bytes; /* of the chosen variant; igata_workspace adds the bytes up */
    size_t sizes;                                  /* numbers that each run is told: see igata_sizes */
    size_t found;                                  /* numbers that each run finds, behind those: see igata_shape */
    size_t steps;                                  /* of branches and loops, for which phases run several times, or never */
} igata_entry;
typedef struct igata_value {
    size_t size;
    const char *name;
    int dtype;
    size_t rank;
    const int64_t *dims;   /* -1: decided by the sizes of a run */
    size_t bytes;          /* packed, row-major, at the bounds: what a buffer needs */
    size_t offset;         /* states: in the state block */
    const int64_t *bounds; /* the largest dims */
} igata_value;
typedef struct igata_size {
    size_t size;
    const char *name;
    int64_t lo, hi; /* the range, inclusive */
} igata_size;

/* An execution of a kernel; flops and bytes by the compiler's count; `bounded`: at the bounds of sizes that a run decides. Equal kernels share code: kernel and nodes
 * are those of the first execution of it; they live as long as the model. */
typedef struct igata_phase {
    size_t size;
    const char *kernel, *nodes;
    uint64_t flops, bytes;
    int bounded;
} igata_phase;

igata_status igata_info(const igata_model *model, igata_model_info *info);
size_t igata_entry_count(const igata_model *model);
/* Number of the entry of that name, or -1. */
int igata_entry_find(const igata_model *model, const char *name);
igata_status igata_entry_info(const igata_model *model, size_t entry, igata_entry *info);
/* index: inputs first, then outputs, as in io[]. */
igata_status igata_io_info(const igata_model *model, size_t entry, size_t index, igata_value *info);
igata_status igata_state_info(const igata_model *model, size_t index, igata_value *info);
igata_status igata_phase_info(const igata_model *model, size_t entry, size_t index, igata_phase *info);
/* A number that a run is told (index below igata_entry.sizes) or finds (those behind). */
igata_status igata_size_info(const igata_model *model, size_t entry, size_t index, igata_size *info);
/* The sizes of a run (igata_entry.sizes + found numbers) from the dims of its inputs, shapes[input][axis]; IGATA_E_SIZE if they do
 * not fit the entry. What a run finds is 0 for now. */
igata_status igata_sizes(const igata_model *model, size_t entry, const int64_t *const shapes[], int64_t sizes[]);
/* The dims of an input or output (index as in io[]) at these sizes. Where a result's size is found by the run (how often a loop
 * went round), its buffer is made for igata_value.bounds, and igata_shape after the run tells what is in it: dense, row-major. */
igata_status igata_shape(const igata_model *model, size_t entry, size_t index, const int64_t sizes[], int64_t dims[]);
/* Bytes of workspace for a run on `threads` threads, at least 1; 0 for a bad argument. */
size_t igata_workspace(const igata_model *model, size_t entry, unsigned threads);

/* ---- running on the calling thread ------------------------------------------------------------------------------ */

/* io: inputs, then outputs, dense and row-major at the sizes of this run; behind them, if igata_entry.sizes or .found is not 0, a
 * pointer to the sizes (int64_t): those it is told, then place for those it finds, which the run writes.
 * state: igata_model_info.state_bytes, NULL if that is 0. */
igata_status igata_run(const igata_model *model, size_t entry, void *const io[], void *workspace, void *state);
/* The same; *error (NULL allowed) becomes the run's error word: (node id << 8 | code) of the first index that was out
 * of range, or loop that went on behind its bound; 0 if none was. */
igata_status igata_run_report(const igata_model *model, size_t entry, void *const io[], void *workspace, void *state,
                              uint64_t *error);
/* Measuring: the same, and for each phase of the entry its executions and the time from the end of the phase before, steps of
 * control included. times: igata_entry.phases elements, which the run adds to; NULL is IGATA_E_ARGUMENT. */
typedef struct igata_timing {
    uint64_t ns, executions;
} igata_timing;
igata_status igata_run_timed(const igata_model *model, size_t entry, void *const io[], void *workspace, void *state,
                             uint64_t *error, igata_timing times[]);
/* Name of the source node that an error word is about, as the model calls it; NULL if the artifact does not say. */
const char *igata_error_node(const igata_model *model, uint64_t error);

/* ---- running on threads that the caller brings ---------------------------------------------------------------------
 */

typedef struct igata_job igata_job;
typedef struct igata_job_options {
    size_t size;
    /* Called by a waiting thread after about 1 us of pauses; sched_yield is right unless threads are pinned to CPUs of
     * their own. NULL: only pauses. */
    void (*relax)(void *user);
    void *relax_user;
    /* Calls body(arg, i) for 0 <= i < n on up to n threads at once and returns when all calls have (OpenMP, TBB ...).
     */
    void (*parallel_for)(void *user, unsigned n, void (*body)(void *arg, unsigned index), void *arg);
    void *parallel_user;
} igata_job_options;

/* A job lives in memory of the caller (64-byte aligned, igata_job_bytes long) and serves any number of runs, one at a
 * time. Its memory must outlive every thread inside igata_work. */
size_t igata_job_bytes(unsigned threads);
igata_status igata_job_init(void *memory, unsigned threads, const igata_job_options *options, igata_job **job);
/* Publishes a run; the workspace is for the job's number of threads. IGATA_E_BUSY while the last one is not done. */
igata_status igata_job_begin(igata_job *job, const igata_model *model, size_t entry, void *const io[], void *workspace,
                             void *state);
/* Works on the current run until it is done and returns its status. Slots 0 .. threads-1, no two threads in one slot.
 * Any number of threads, from one, finishes the run; a late one finds nothing to do. `io` must stay until then. */
igata_status igata_work(igata_job *job, unsigned slot);
/* begin + work in every slot through options.parallel_for. */
igata_status igata_job_run(igata_job *job, const igata_model *model, size_t entry, void *const io[], void *workspace,
                           void *state);
/* The error word of the last run (igata_run_report). */
uint64_t igata_job_error(const igata_job *job);

/* ---- a pool -------------------------------------------------------------------------------------------------- */

typedef struct igata_pool igata_pool;
/* `threads` counts the caller of igata_pool_run. Idle helpers spin for spin_us microseconds, then sleep: 0 costs no
 * idle CPU and pays for runs over about 0.1 ms; waking takes 30-60 us. */
igata_status igata_pool_create(unsigned threads, unsigned spin_us, igata_pool **pool);
void igata_pool_destroy(igata_pool *pool);
igata_status igata_pool_run(igata_pool *pool, const igata_model *model, size_t entry, void *const io[], void *workspace,
                            void *state);
/* The error word of the last run (igata_run_report). */
uint64_t igata_pool_error(const igata_pool *pool);
/* Waits until no helper looks at a past run: needed before igata_close or before freeing what the run used. */
void igata_pool_quiesce(igata_pool *pool);

#ifdef __cplusplus
}
#endif
#endif
