/* SPDX-License-Identifier: Apache-2.0
 * A run allocates nothing, takes no lock, makes no system call and uses at most 4 KB of stack. Allocation and locking
 * functions are interposed; system calls are forbidden by seccomp's strict mode, under which the kernel kills. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "igata_rt.h"
#include "support/art_fixture.h"
#include "support/unit.h"
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED /* sanitizers interpose these themselves */
static volatile int armed, calls;

#define INTERPOSE(result, name, parameters, arguments)                                                                 \
    extern result __libc_##name parameters;                                                                            \
    result name parameters                                                                                             \
    {                                                                                                                  \
        calls += armed;                                                                                                \
        return __libc_##name arguments;                                                                                \
    }
INTERPOSE(void *, malloc, (size_t n), (n))
INTERPOSE(void *, calloc, (size_t n, size_t m), (n, m))
INTERPOSE(void *, realloc, (void *p, size_t n), (p, n))
extern void __libc_free(void *p);
void free(void *p)
{
    calls += armed;
    __libc_free(p);
}
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    calls += armed;
    if (!real)
        real = (int (*)(pthread_mutex_t *))(uintptr_t)dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return real(mutex);
}

static Context *ctx;
static Fixture fixture;
static igata_model *model;
static igata_job *job;
static void *io[5], *workspace, *memory;
static _Alignas(64) uint64_t counters[8];

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    if (!fixture_make(&fixture, FIXTURE_HOST, fixture_cc()))
        return -1;
    if (!art_write_so(ctx, &fixture.image, "fixture.so"))
        return fixture_print(ctx);
    if (igata_open("fixture.so", NULL, &model) != IGATA_OK)
        return -1;
    fixture_io(io);
    workspace = aligned_alloc(64, igata_workspace(model, 0, 2));
    memory = aligned_alloc(64, igata_job_bytes(2));
    return igata_job_init(memory, 2, NULL, &job) == IGATA_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    igata_close(model);
    fixture_free_io(io);
    free(workspace);
    free(memory);
    fixture_free(&fixture);
    ctx_destroy(ctx);
    return 0;
}

static igata_status run_alone(void) { return igata_run(model, 0, io, workspace, counters); }
static igata_status run_job(void)
{
    igata_status status = igata_job_begin(job, model, 0, io, workspace, counters);
    return status == IGATA_OK ? igata_work(job, 1) : status;
}
static igata_status (*const ways[2])(void) = {run_alone, run_job};

static void test_no_allocation_no_lock(void **state)
{
    (void)state;
    calls = 0;
    armed = 1;
    void *volatile block = malloc(3); /* volatile: or compilers drop the pair */
    free(block);
    armed = 0;
    assert_int_equal(calls, 2); /* the interposers work */
    for (int way = 0; way < 2; way++) {
        calls = 0;
        armed = 1;
        igata_status first = ways[way](), second = ways[way]();
        armed = 0;
        assert_int_equal(first, IGATA_OK);
        assert_int_equal(second, IGATA_OK);
        assert_int_equal(calls, 0);
        assert_int_equal(fixture_wrong(&fixture, io), 0);
    }
}

/* Runs `body` in a child that may only read, write and exit; its exit status, or -1 if it was killed. */
static int confined(igata_status (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
            _exit(77);
        igata_status status = body();
        syscall(SYS_exit, status); /* strict mode forbids exit_group */
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static igata_status ask_pid(void) { return (igata_status)(syscall(SYS_getppid) > 0); }

static void test_no_system_call(void **state)
{
    (void)state;
    int control = confined(ask_pid);
    if (control == 77)
        skip();
    assert_int_equal(control, -1); /* the confinement works */
    for (int way = 0; way < 2; way++)
        assert_int_equal(confined(ways[way]), IGATA_OK);
}

/* Fills the stack below, runs, and looks how far down the fill has changed. */
#define DEPTH 32768
static __attribute__((noinline)) void fill_below(void)
{
    volatile uint8_t fill[DEPTH];
    for (int i = 0; i < DEPTH; i++)
        fill[i] = 0xa5;
    __asm__ volatile("" : : "r"(fill) : "memory");
}

static __attribute__((noinline)) size_t used_below(void)
{
    volatile uint8_t fill[DEPTH]; /* the same place; deliberately not initialised */
    __asm__ volatile("" : : "r"(fill) : "memory");
    int i = 0;
    while (i < DEPTH && fill[i] == 0xa5)
        i++;
    return (size_t)(DEPTH - i);
}

static void test_stack(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        fill_below();
        igata_status status = ways[way]();
        size_t used = used_below();
        assert_int_equal(status, IGATA_OK);
        assert_in_range(used, 1000, 4096); /* the address table of a phase alone is 2 KB */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_allocation_no_lock),
        cmocka_unit_test(test_no_system_call),
        cmocka_unit_test(test_stack),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
#else
int main(void) { return 77; }
#endif
