/* SPDX-License-Identifier: Apache-2.0
 *
 * A run on several threads. A run is a list of phases, a phase a number of independent units (tiles, or groups of tiles
 * where there are more than 65,535). A phase ends when its *units* are done, not when threads arrive, so a late or
 * preempted thread delays only the unit it holds.
 *
 * One cache line holds what threads contend for (measured: spreading it over lines costs 4x on two threads):
 *     cur   {tag, phase}          tag grows by one a phase, across runs, so that a stale thread's claim fails
 *     done  units finished in this phase
 *     slot  {tag, next, end}      the units left of each thread's own range; initialised by whoever comes first
 * A thread takes its own range from the front and steals others' from the back, by compare-and-swap. Who ends a phase also runs the
 * phases of one tile that follow, before it moves `cur`.
 *
 * Why relaxed operations on slots suffice: a claim succeeds only on a slot with the tag of the current phase, whose
 * value of `cur` the claimer has acquired; `cur` was released after all of the previous phase's units had been counted
 * in `done` (acq_rel), so their writes are visible. All tags before the current one have no unit left or a newer tag in
 * the slot, so a stale claim fails.
 *
 * What a thread reads before its first claim of a phase may belong to a run that is already over: only atomics, and the
 * table of phases is used only if `cur` has not moved since. (igata_job_begin stores the table after it has seen END in
 * `cur`; whoever reads the new table by acquire therefore finds that `cur` moved.) After a claim the run cannot end, so
 * the plain fields of the run may be read.
 */
#include "rt/rt_int.h"

#include <stdatomic.h>

#define END UINT32_MAX
#define MAX_UNITS 65535u
#define LINE_SLOTS 6 /* fit in the line; jobs for more threads have a line per slot */
#define PAUSES 40    /* about 1 us; longer before `relax` was measured to be too late */

struct igata_job {
    _Alignas(64) _Atomic uint64_t cur;
    _Atomic uint32_t done;
    _Atomic uint64_t line_slots[LINE_SLOTS];
    _Alignas(64) _Atomic(const ArtRecPhase *) phases; /* of the entry that runs */
    _Atomic uint64_t error;
    _Atomic uint64_t *slots;
    uint32_t n_slots, stride;
    const ArtRecBody *body;
    const ArtRecEntry *entry;
    RtRun run;
    ArtWalk control; /* of whoever ends a phase */
    uint32_t refreshed; /* the tag when slots were last given a new one */
    igata_job_options options;
};

static uint64_t pack(uint32_t high, uint32_t low) { return (uint64_t)high << 32 | low; }

typedef struct Worker {
    igata_job *job;
    unsigned me;
    unsigned fp_old, fp_now;
    uint64_t cur;
} Worker;

typedef struct Phase {
    const ArtRecPhase *rec;
    uint32_t tag, units;
    uint64_t group; /* tiles a unit */
} Phase;

size_t igata_job_bytes(unsigned threads)
{
    if (threads == 0 || threads > IGATA_MAX_THREADS)
        return 0;
    return sizeof(igata_job) + (threads > LINE_SLOTS ? 64 * (size_t)threads : 0);
}

igata_status igata_job_init(void *memory, unsigned threads, const igata_job_options *options, igata_job **out)
{
    if (!memory || !out || igata_job_bytes(threads) == 0)
        return IGATA_E_ARGUMENT;
    if ((uintptr_t)memory % 64)
        return IGATA_E_ALIGN;
    igata_job *job = memory;
    memset(memory, 0, igata_job_bytes(threads));
    if (options) {
        if (options->size < sizeof options->size || options->size > sizeof *options)
            return IGATA_E_ARGUMENT;
        memcpy(&job->options, options, options->size);
    }
    bool wide = threads > LINE_SLOTS;
    job->n_slots = threads;
    job->stride = wide ? 64 / sizeof(uint64_t) : 1;
    job->slots = wide ? (_Atomic uint64_t *)(void *)(job + 1) : job->line_slots;
    atomic_store(&job->cur, pack(0, END));
    *out = job;
    return IGATA_OK;
}

/* Tags are compared by their difference, which is right for 2^31 phases; a slot may stay unused for longer. The new tag
 * is the one before the next phase's: newer than any stale thread's, older than any real one's. */
static void refresh_slots(igata_job *job, uint32_t tag)
{
    if (tag - job->refreshed < UINT32_C(1) << 30)
        return;
    for (uint32_t i = 0; i < job->n_slots; i++)
        atomic_store_explicit(&job->slots[i * job->stride], pack(tag - 1, 0), memory_order_relaxed);
    job->refreshed = tag;
}

/* The value of `cur` that starts `phase`, or whatever the steps before it lead to: one thread takes them, so all go the same way. */
static uint64_t next_phase(igata_job *job, uint32_t tag, uint32_t phase)
{
    uint64_t error = 0, none = 0;
    refresh_slots(job, tag);
    uint32_t next = rt_control(&job->control, &job->run, job->entry, job->body, phase, &error);
    if (error)
        atomic_compare_exchange_strong_explicit(&job->error, &none, error, memory_order_relaxed, memory_order_relaxed);
    return pack(tag, next < job->body->n_phases ? next : END);
}

igata_status igata_job_begin(igata_job *job, const igata_model *model, size_t entry, void *const io[], void *workspace,
                             void *state)
{
    if (!job)
        return IGATA_E_ARGUMENT;
    igata_status status = rt_check_run(model, entry, io, workspace, state);
    if (status != IGATA_OK)
        return status;
    uint64_t cur = atomic_load_explicit(&job->cur, memory_order_acquire);
    if ((uint32_t)cur != END)
        return IGATA_E_BUSY;
    uint32_t tag = (uint32_t)(cur >> 32) + 1;
    job->body = &model->bodies[entry];
    job->entry = &model->entries[entry];
    job->run = (RtRun){model, io, workspace, state};
    atomic_store_explicit(&job->error, 0, memory_order_relaxed);
    atomic_store_explicit(&job->phases, model->phases + job->body->first_phase, memory_order_release);
    rt_control_begin(&job->control, &job->run, job->entry);
    atomic_store_explicit(&job->cur, next_phase(job, tag, 0), memory_order_release);
    return IGATA_OK;
}

/* Claims one unit of slot `index`: its number, NONE if the range is used up, STALE if the phase is over. */
enum { NONE = -1, STALE = -2 };
static int32_t claim(igata_job *job, const Phase *phase, unsigned index, bool own)
{
    uint32_t lo = (uint32_t)((uint64_t)phase->units * index / job->n_slots);
    uint32_t hi = (uint32_t)((uint64_t)phase->units * (index + 1) / job->n_slots);
    if (lo == hi)
        return NONE;
    _Atomic uint64_t *slot = &job->slots[index * job->stride];
    uint64_t x = atomic_load_explicit(slot, memory_order_relaxed);
    for (;;) {
        uint32_t tag = (uint32_t)(x >> 32), next = (uint32_t)x >> 16, end = (uint32_t)x & 0xffff;
        if (tag != phase->tag) {
            if ((int32_t)(tag - phase->tag) > 0)
                return STALE;
            next = lo;
            end = hi;
        }
        if (next >= end)
            return NONE;
        uint32_t unit = own ? next++ : --end;
        if (atomic_compare_exchange_weak_explicit(slot, &x, pack(phase->tag, next << 16 | end), memory_order_relaxed,
                                                  memory_order_relaxed))
            return (int32_t)unit;
    }
}

static void run_unit(Worker *w, const Phase *phase, uint32_t unit, void *const *bufs)
{
    igata_job *job = w->job;
    uint64_t lo = unit * phase->group, hi = lo + phase->group, error = 0, none = 0;
    if (hi > phase->rec->tiles)
        hi = phase->rec->tiles;
    rt_kernel(job->run.model, phase->rec->kernel)(bufs, (int64_t)lo, (int64_t)hi, &error);
    if (error)
        atomic_compare_exchange_strong_explicit(&job->error, &none, error, memory_order_relaxed, memory_order_relaxed);
}

static void enter_fp(Worker *w, unsigned mode)
{
    if ((w->fp_now & RT_FP_CONTROL) == mode)
        return;
    w->fp_now = (w->fp_now & ~RT_FP_CONTROL) | mode;
    rt_fp_write(w->fp_now);
}

/* Does what can be had of a phase: the number of units run. */
static uint32_t work_on(Worker *w, const Phase *phase)
{
    igata_job *job = w->job;
    void *bufs[ART_MAX_BUFS];
    uint32_t got = 0;
    for (unsigned k = 0; k < job->n_slots; k++) {
        unsigned index = (w->me + k) % job->n_slots;
        int32_t unit;
        while ((unit = claim(job, phase, index, k == 0)) >= 0) {
            if (got++ == 0) {
                enter_fp(w, job->run.model->fp_mode);
                rt_resolve(&job->run, job->entry, job->body, phase->rec, w->me, bufs);
            }
            run_unit(w, phase, (uint32_t)unit, bufs);
        }
        if (unit == STALE)
            break;
    }
    return got;
}

/* Phases of one tile from `cur` on, which nobody else has seen yet: whoever ended the phase before runs them, since to publish each
 * costs more than most of them take. What follows them is returned. */
static uint64_t run_alone(Worker *w, const ArtRecPhase *phases, uint64_t cur)
{
    igata_job *job = w->job;
    for (uint32_t index; (index = (uint32_t)cur) != END && phases[index].tiles == 1;) {
        void *bufs[ART_MAX_BUFS];
        Phase phase = {.rec = &phases[index], .group = 1};
        rt_resolve(&job->run, job->entry, job->body, phase.rec, w->me, bufs);
        run_unit(w, &phase, 0, bufs);
        cur = next_phase(job, (uint32_t)(cur >> 32), index + 1);
    }
    return cur;
}

/* Waits until `cur` has moved on from w->cur. */
static void wait_phase(Worker *w)
{
    const igata_job_options *o = &w->job->options;
    uint64_t cur;
    for (unsigned n = 1; (cur = atomic_load_explicit(&w->job->cur, memory_order_acquire)) == w->cur; n++) {
        rt_pause();
        if (n % PAUSES == 0 && o->relax)
            o->relax(o->relax_user);
    }
    w->cur = cur;
}

igata_status igata_work(igata_job *job, unsigned slot)
{
    if (!job || slot >= job->n_slots)
        return IGATA_E_ARGUMENT;
    Worker w = {.job = job, .me = slot, .fp_old = rt_fp_read()};
    w.fp_now = w.fp_old;
    w.cur = atomic_load_explicit(&job->cur, memory_order_acquire);
    for (uint32_t index; (index = (uint32_t)w.cur) != END;) {
        const ArtRecPhase *phases = atomic_load_explicit(&job->phases, memory_order_acquire);
        uint64_t now = atomic_load_explicit(&job->cur, memory_order_acquire);
        if (now != w.cur) {
            w.cur = now;
            continue;
        }
        Phase phase = {.rec = &phases[index], .tag = (uint32_t)(w.cur >> 32), .group = 1};
        if (phase.rec->tiles > MAX_UNITS)
            phase.group = (phase.rec->tiles - 1) / MAX_UNITS + 1;
        phase.units = (uint32_t)((phase.rec->tiles - 1) / phase.group + 1);
        uint32_t got = work_on(&w, &phase);
        if (got && atomic_fetch_add_explicit(&job->done, got, memory_order_acq_rel) + got == phase.units) {
            atomic_store_explicit(&job->done, 0, memory_order_relaxed);
            w.cur = run_alone(&w, phases, next_phase(job, phase.tag + 1, index + 1));
            atomic_store_explicit(&job->cur, w.cur, memory_order_release);
        } else {
            wait_phase(&w);
        }
    }
    if (w.fp_now != w.fp_old)
        rt_fp_write(w.fp_old);
    return rt_status(atomic_load_explicit(&job->error, memory_order_relaxed));
}

uint64_t igata_job_error(const igata_job *job)
{
    return job ? atomic_load_explicit(&((igata_job *)(uintptr_t)job)->error, memory_order_relaxed) : 0;
}

static void work_body(void *job, unsigned index) { igata_work(job, index); }

igata_status igata_job_run(igata_job *job, const igata_model *model, size_t entry, void *const io[], void *workspace,
                           void *state)
{
    igata_status status = igata_job_begin(job, model, entry, io, workspace, state);
    if (status != IGATA_OK)
        return status;
    if (job->options.parallel_for)
        job->options.parallel_for(job->options.parallel_user, job->n_slots, work_body, job);
    return igata_work(job, 0); /* all is done by now, unless there was no parallel_for or it called nothing */
}
