/* SPDX-License-Identifier: Apache-2.0
 *
 * A small pool over a job. Helpers wait for the next generation: they spin for a while, then sleep on a futex. The
 * caller wakes them and starts working at once; a helper that comes late finds END or the current run, and both are
 * right. A run returns when its units are done; helpers may still be looking at it (igata_pool_quiesce).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "rt/rt_int.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct Helper {
    igata_pool *pool;
    pthread_t thread;
    unsigned slot;
} Helper;

struct igata_pool {
    _Alignas(64) _Atomic uint32_t generation;
    _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic uint32_t inside; /* helpers in igata_work */
    _Atomic bool quit;
    igata_job *job;
    void *job_memory;
    Helper *helpers;
    unsigned threads, started;
    uint64_t spin_ns;
    uint64_t error; /* of a run without helpers */
};

static void relax(void *user)
{
    (void)user;
    sched_yield();
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t wait_generation(igata_pool *pool, uint32_t seen)
{
    uint32_t now;
    if (pool->spin_ns) {
        uint64_t end = now_ns() + pool->spin_ns;
        for (unsigned n = 1; (now = atomic_load(&pool->generation)) == seen; n++) {
            rt_pause();
            if (n % 64 == 0 && now_ns() > end)
                break;
        }
    }
    while ((now = atomic_load(&pool->generation)) == seen) {
        atomic_fetch_add(&pool->sleepers, 1);
        syscall(SYS_futex, &pool->generation, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        atomic_fetch_sub(&pool->sleepers, 1);
    }
    return now;
}

static void next_generation(igata_pool *pool)
{
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers))
        syscall(SYS_futex, &pool->generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void *help(void *arg)
{
    Helper *helper = arg;
    igata_pool *pool = helper->pool;
    for (uint32_t seen = 0; seen = wait_generation(pool, seen), !atomic_load(&pool->quit);) {
        atomic_fetch_add_explicit(&pool->inside, 1, memory_order_acq_rel);
        igata_work(pool->job, helper->slot);
        atomic_fetch_sub_explicit(&pool->inside, 1, memory_order_release);
    }
    return NULL;
}

/* Helpers take no signals: those belong to the program's own threads. */
static igata_status start_helpers(igata_pool *pool)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int failed = 0;
    for (unsigned i = 0; i + 1 < pool->threads && !failed; i++) {
        Helper *helper = &pool->helpers[i];
        helper->pool = pool;
        helper->slot = i + 1;
        failed = pthread_create(&helper->thread, NULL, help, helper);
        if (!failed)
            pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed ? IGATA_E_THREADS : IGATA_OK;
}

igata_status igata_pool_create(unsigned threads, unsigned spin_us, igata_pool **out)
{
    if (!out)
        return IGATA_E_ARGUMENT;
    *out = NULL;
    if (igata_job_bytes(threads) == 0)
        return IGATA_E_THREADS;
    igata_pool *pool = aligned_alloc(64, sizeof *pool);
    if (!pool)
        return IGATA_E_MEMORY;
    memset(pool, 0, sizeof *pool);
    pool->threads = threads;
    pool->spin_ns = (uint64_t)spin_us * 1000;
    pool->job_memory = aligned_alloc(64, (igata_job_bytes(threads) + 63) / 64 * 64);
    pool->helpers = calloc(threads, sizeof *pool->helpers);
    igata_job_options options = {.size = sizeof options, .relax = relax};
    igata_status status = pool->job_memory && pool->helpers ? IGATA_OK : IGATA_E_MEMORY;
    if (status == IGATA_OK)
        status = igata_job_init(pool->job_memory, threads, &options, &pool->job);
    if (status == IGATA_OK)
        status = start_helpers(pool);
    if (status == IGATA_OK)
        *out = pool;
    else
        igata_pool_destroy(pool);
    return status;
}

void igata_pool_destroy(igata_pool *pool)
{
    if (!pool)
        return;
    atomic_store(&pool->quit, true);
    next_generation(pool);
    for (unsigned i = 0; i < pool->started; i++)
        pthread_join(pool->helpers[i].thread, NULL);
    free(pool->helpers);
    free(pool->job_memory);
    free(pool);
}

igata_status igata_pool_run(igata_pool *pool, const igata_model *model, size_t entry, void *const io[], void *workspace,
                            void *state)
{
    if (!pool)
        return IGATA_E_ARGUMENT;
    if (pool->threads == 1)
        return igata_run_report(model, entry, io, workspace, state, &pool->error);
    igata_status status = igata_job_begin(pool->job, model, entry, io, workspace, state);
    if (status != IGATA_OK)
        return status;
    next_generation(pool);
    return igata_work(pool->job, 0);
}

uint64_t igata_pool_error(const igata_pool *pool)
{
    return pool->threads == 1 ? pool->error : igata_job_error(pool->job);
}

/* Both sides modify `inside`: a helper that enters after the last look here also sees END in the job. */
void igata_pool_quiesce(igata_pool *pool)
{
    while (pool && atomic_fetch_add_explicit(&pool->inside, 0, memory_order_acq_rel))
        sched_yield();
}
