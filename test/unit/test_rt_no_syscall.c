/* SPDX-License-Identifier: Apache-2.0
 * A run allocates nothing, takes no lock, makes no system call and uses at most 16 KB of stack, 4 KB but for kernels. Allocation and locking
 * functions are interposed; system calls are forbidden by seccomp's strict mode, under which the kernel kills.
 *   test_rt_no_syscall                the tests, on a small artifact
 *   test_rt_no_syscall ARTIFACT ..    the same of any artifacts at their largest sizes: floats are 0.5, integers 1 */
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
static void *of_fixture[5], **io, *workspace, *memory, *states;
static _Alignas(64) uint64_t counters[8];

static int prepare_runs(const char *path)
{
    if (igata_open(path, NULL, &model) != IGATA_OK)
        return -1;
    workspace = aligned_alloc(64, igata_workspace(model, 0, 2));
    memory = aligned_alloc(64, igata_job_bytes(2));
    return igata_job_init(memory, 2, NULL, &job) == IGATA_OK ? 0 : -1;
}

static void end_runs(void)
{
    igata_close(model);
    free(workspace);
    free(memory);
}

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    if (!fixture_make(&fixture, FIXTURE_HOST, fixture_cc()))
        return -1;
    if (!art_write_so(ctx, &fixture.image, "fixture.so"))
        return fixture_print(ctx);
    io = of_fixture;
    fixture_io(io);
    states = counters;
    return prepare_runs("fixture.so");
}

static int teardown(void **state)
{
    (void)state;
    end_runs();
    fixture_free_io(io);
    fixture_free(&fixture);
    ctx_destroy(ctx);
    return 0;
}

static igata_status run_alone(void) { return igata_run(model, 0, io, workspace, states); }
static igata_status run_job(void)
{
    igata_status status = igata_job_begin(job, model, 0, io, workspace, states);
    return status == IGATA_OK ? igata_work(job, 1) : status;
}
static igata_status (*const ways[2])(void) = {run_alone, run_job};

/* Allocations and locks of two runs in each way; -1: a run failed. */
static int calls_of_runs(int way)
{
    calls = 0;
    armed = 1;
    igata_status first = ways[way](), second = ways[way]();
    armed = 0;
    return first == IGATA_OK && second == IGATA_OK ? calls : -1;
}

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
        assert_int_equal(calls_of_runs(way), 0);
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

enum { MOST_STACK = 16384, MOST_OWN_STACK = 4096 }; /* bytes of a run, and of one whose kernels need none */

/* Fills the stack below, runs, and looks how far down the fill has changed. */
#define DEPTH (1 << 18)
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

static size_t stack_of_run(int way)
{
    fill_below();
    igata_status status = ways[way]();
    size_t used = used_below();
    return status == IGATA_OK ? used : SIZE_MAX;
}

static void test_stack(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++)
        assert_in_range(stack_of_run(way), 1000, MOST_OWN_STACK); /* the address table of a phase alone is 2 KB */
}

/* ---- any artifact ------------------------------------------------------------------------------------------------- */

static void *new_value(const igata_value *value)
{
    size_t count = 1;
    for (size_t a = 0; a < value->rank; a++)
        count *= (size_t)value->bounds[a];
    uint8_t *data = aligned_alloc(64, (value->bytes / 64 + 1) * 64);
    memset(data, 0, value->bytes);
    for (size_t i = 0; i < count && value->bytes >= count; i++) {
        const float half = 0.5f;
        if (value->dtype == IGATA_F32)
            memcpy(data + i * sizeof half, &half, sizeof half);
        else
            data[i * (value->bytes / count)] = 1; /* little-endian */
    }
    return data;
}

/* What is wrong, or NULL; *most becomes the largest use of stack. */
static const char *artifact_fault(const char *path, size_t *most)
{
    igata_entry entry = {.size = sizeof entry};
    igata_model_info info = {.size = sizeof info};
    if (prepare_runs(path) != 0 || igata_entry_info(model, 0, &entry) != IGATA_OK || igata_info(model, &info) != IGATA_OK)
        return "cannot be opened";
    size_t n = entry.inputs + entry.outputs;
    int64_t *sizes = calloc(entry.sizes + entry.found + 1, sizeof *sizes);
    io = calloc(n + 1, sizeof *io);
    states = aligned_alloc(64, (info.state_bytes / 64 + 1) * 64);
    memset(states, 0, info.state_bytes);
    for (size_t i = 0; i < n; i++) {
        igata_value value = {.size = sizeof value};
        igata_io_info(model, 0, i, &value);
        io[i] = new_value(&value);
    }
    for (size_t i = 0; i < entry.sizes; i++) {
        igata_size size = {.size = sizeof size};
        igata_size_info(model, 0, i, &size);
        sizes[i] = size.hi;
    }
    io[n] = sizes;
    const char *fault = NULL;
    for (int way = 0; way < 2 && !fault; way++) {
        int made = calls_of_runs(way);
        size_t stack = stack_of_run(way);
        *most = stack > *most ? stack : *most;
        if (made < 0)
            fault = "does not run on such inputs";
        else if (made > 0)
            fault = "allocates or locks";
        else if (confined(ways[way]) != IGATA_OK)
            fault = "makes a system call";
        else if (stack > MOST_STACK)
            fault = "uses too much stack";
    }
    for (size_t i = 0; i < n; i++)
        free(io[i]);
    free(io);
    free(sizes);
    free(states);
    end_runs();
    return fault;
}

static int check_artifacts(char *const *paths, int n)
{
    int failed = 0;
    for (int i = 0; i < n; i++) {
        size_t stack = 0;
        const char *fault = artifact_fault(paths[i], &stack);
        printf("%s: %s, %zu bytes of stack\n", paths[i], fault ? fault : "ok", stack);
        failed |= fault != NULL;
    }
    return failed;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return check_artifacts(argv + 1, argc - 1);
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
