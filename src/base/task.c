/* SPDX-License-Identifier: Apache-2.0
 * Independent pieces of work on threads that live as long as the call. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* pthread_sigmask */
#endif
#include "base/base.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 64, STACK_BYTES = 8 << 20 };

typedef struct Crew {
    const Task *tasks;
    uint32_t n;
    _Atomic uint32_t next;
} Crew;

static void *work(void *arg)
{
    Crew *crew = arg;
    for (uint32_t i; (i = atomic_fetch_add(&crew->next, 1)) < crew->n;)
        crew->tasks[i].run(crew->tasks[i].arg);
    return NULL;
}

static int by_cost(const void *a, const void *b)
{
    const Task *x = a, *y = b;
    return (x->cost < y->cost) - (x->cost > y->cost);
}

/* Signals stay with the threads of the program; where no thread can be had, the caller does everything. */
void task_run_all(Task *tasks, uint32_t n, uint32_t threads)
{
    Crew crew = {.tasks = tasks, .n = n};
    pthread_t helper[MAX_THREADS];
    pthread_attr_t attr;
    sigset_t all, old;
    uint32_t n_helpers = 0;
    if (threads == 0) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        threads = cpus > 1 ? (uint32_t)cpus : 1;
    }
    if (n > 1 && threads > 1) {
        qsort(tasks, n, sizeof *tasks, by_cost);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        if (pthread_attr_init(&attr) == 0) {
            pthread_attr_setstacksize(&attr, STACK_BYTES);
            while (n_helpers < MAX_THREADS && n_helpers + 1 < threads && n_helpers + 1 < n &&
                   pthread_create(&helper[n_helpers], &attr, work, &crew) == 0)
                n_helpers++;
            pthread_attr_destroy(&attr);
        }
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    work(&crew);
    for (uint32_t i = 0; i < n_helpers; i++)
        pthread_join(helper[i], NULL);
}
