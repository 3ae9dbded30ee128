/* SPDX-License-Identifier: Apache-2.0
 * Running an artifact: results on one and several threads, through every way of bringing threads; variants; every
 * status; the floating-point environment. */
#include "igata_rt.h"
#include "rt/rt_int.h"
#include "support/art_fixture.h"
#include "support/unit.h"
#include <fenv.h>
#include <limits.h>
#include <sys/resource.h>
#include <time.h>

static Context *ctx;
static Fixture fixture;

static int setup(void **state)
{
    (void)state;
    ctx = ctx_create(NULL);
    if (!fixture_make(&fixture, FIXTURE_HOST, fixture_cc()))
        return -1;
    if (!art_write_so(ctx, &fixture.image, "fixture.so"))
        return fixture_print(ctx);
    fixture.image.ftz = true;
    return art_write_so(ctx, &fixture.image, "ftz.so") ? 0 : fixture_print(ctx);
}

static int teardown(void **state)
{
    (void)state;
    fixture_free(&fixture);
    ctx_destroy(ctx);
    return 0;
}

typedef struct Run {
    igata_model *model;
    void *io[5], *workspace;
    _Alignas(64) uint64_t state[8];
} Run;

static void start(Run *run, const igata_open_options *options, unsigned threads)
{
    memset(run, 0, sizeof *run);
    assert_int_equal(igata_open("fixture.so", options, &run->model), IGATA_OK);
    fixture_io(run->io);
    size_t bytes = igata_workspace(run->model, 0, threads);
    run->workspace = aligned_alloc(64, bytes);
    memset(run->workspace, 0xff, bytes);
}

static void stop(Run *run)
{
    igata_close(run->model);
    fixture_free_io(run->io);
    free(run->workspace);
}

static void test_one_thread(void **state)
{
    (void)state;
    static const unsigned flags[] = {0, IGATA_MMAP, IGATA_CHECK | IGATA_PREFAULT};
    for (size_t i = 0; i < IG_COUNT(flags); i++) {
        igata_open_options options = {.size = sizeof options, .flags = flags[i]};
        Run run;
        start(&run, &options, 1);
        for (int n = 0; n < 3; n++) {
            assert_int_equal(igata_run(run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
            assert_int_equal(fixture_wrong(&fixture, run.io), 0);
        }
        assert_int_equal(run.state[0], 3);
        stop(&run);
    }
}

static void test_description(void **state)
{
    (void)state;
    Run run;
    start(&run, NULL, 1);
    igata_model_info info = {.size = sizeof info};
    igata_entry entry = {.size = sizeof entry};
    igata_value value = {.size = sizeof value};
    assert_int_equal(igata_info(run.model, &info), IGATA_OK);
    assert_int_equal(info.entries, 1);
    assert_int_equal(info.state_bytes, 64);
    assert_string_equal(info.version, "igata test");
    assert_true(info.code_bytes > 100);
    assert_int_equal(igata_entry_count(run.model), 1);
    assert_int_equal(igata_entry_find(run.model, "main"), 0);
    assert_int_equal(igata_entry_find(run.model, "other"), -1);
    assert_int_equal(igata_entry_info(run.model, 0, &entry), IGATA_OK);
    assert_int_equal(entry.inputs, 3);
    assert_int_equal(entry.outputs, 2);
    assert_int_equal(igata_io_info(run.model, 0, 2, &value), IGATA_OK);
    assert_string_equal(value.name, "at");
    assert_int_equal(value.dtype, IGATA_S32);
    assert_int_equal(value.dims[0], FIXTURE_ROWS);
    assert_int_equal(igata_io_info(run.model, 0, 3, &value), IGATA_OK);
    assert_string_equal(value.name, "y");
    assert_int_equal(value.bytes, 4 * FIXTURE_N);
    assert_int_equal(igata_io_info(run.model, 0, 5, &value), IGATA_E_ARGUMENT);
    assert_int_equal(igata_state_info(run.model, 0, &value), IGATA_OK);
    assert_string_equal(value.name, "runs");
    assert_int_equal(igata_state_info(run.model, 1, &value), IGATA_E_ARGUMENT);
    assert_int_equal(igata_workspace(run.model, 0, 3), entry.workspace_bytes + 3 * entry.scratch_bytes);
    assert_int_equal(igata_workspace(run.model, 0, 0), 0);
    struct {
        igata_entry entry;
        const char *later; /* a struct of a later header */
    } longer = {.entry.size = sizeof longer};
    assert_int_equal(igata_entry_info(run.model, 0, &longer.entry), IGATA_E_ARGUMENT);
    longer.entry = (igata_entry){.size = offsetof(igata_entry, inputs), .inputs = 99};
    assert_int_equal(igata_entry_info(run.model, 0, &longer.entry), IGATA_OK);
    assert_int_equal(longer.entry.inputs, 99); /* an earlier header's struct: no more than it has is written */
    stop(&run);
}

/* Every variant that this CPU has, asked for by name, on one and three threads: its own tables answer. */
static void test_variants(void **state)
{
    (void)state;
    for (uint32_t v = 0; v < fixture.image.n_variants; v++) {
        igata_open_options options = {.size = sizeof options, .variant = fixture.variants[v].name};
        igata_model_info info = {.size = sizeof info};
        igata_entry entry = {.size = sizeof entry};
        igata_pool *pool;
        Run run;
        if (FIXTURE_HOST == ART_X86_64 && v && !__builtin_cpu_supports("avx2"))
            continue;
        start(&run, &options, 3);
        assert_int_equal(igata_info(run.model, &info), IGATA_OK);
        assert_string_equal(info.variant, fixture.variants[v].name);
        assert_int_equal(info.kernels, 3);
        assert_int_equal(igata_entry_info(run.model, 0, &entry), IGATA_OK);
        assert_int_equal(entry.workspace_bytes, FIXTURE_TMP(v) + 4 * FIXTURE_N);
        assert_int_equal(entry.scratch_bytes, (FIXTURE_SCRATCH(v) + 63) / 64 * 64);
        assert_int_equal(igata_workspace(run.model, 0, 3), entry.workspace_bytes + 3 * entry.scratch_bytes);
        assert_int_equal(igata_run(run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
        assert_int_equal(fixture_wrong(&fixture, run.io), 0);
        memset(run.io[3], 0xff, 4 * FIXTURE_N);
        assert_int_equal(igata_pool_create(3, 0, &pool), IGATA_OK);
        assert_int_equal(igata_pool_run(pool, run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
        assert_int_equal(fixture_wrong(&fixture, run.io), 0);
        igata_pool_destroy(pool);
        stop(&run);
    }
}

/* A CPU that lacks what variants need: the best of the rest, and an error where none is left. */
static void test_lesser_cpu(void **state)
{
    (void)state;
    if (FIXTURE_HOST != ART_X86_64)
        skip();
    igata_model_info info = {.size = sizeof info};
    igata_open_options options = {.size = sizeof options, .cpu_without = UINT64_C(1) << 11 /* avx2 */};
    igata_model *model;
    Run run;
    start(&run, &options, 1);
    assert_int_equal(igata_info(run.model, &info), IGATA_OK);
    assert_string_equal(info.variant, "x86-64");
    assert_int_equal(igata_run(run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
    assert_int_equal(fixture_wrong(&fixture, run.io), 0);
    stop(&run);
    options.variant = "x86-64-v3";
    assert_int_equal(igata_open("fixture.so", &options, &model), IGATA_E_CPU);
    assert_null(model);
    options.variant = "x86-64-v9";
    assert_int_equal(igata_open("fixture.so", &options, &model), IGATA_E_VARIANT);
    ArtImage image = fixture.image;
    image.variants = &fixture.variants[1];
    image.n_variants = 1;
    assert_true(art_write_so(ctx, &image, "v3.so"));
    options.variant = NULL;
    assert_int_equal(igata_open("v3.so", &options, &model), IGATA_E_CPU);
}

/* A timed run computes the same, counts each phase of a straight program once a run, and adds up. */
static void test_timed(void **state)
{
    (void)state;
    Run run;
    igata_entry entry = {.size = sizeof entry};
    igata_phase phase = {.size = sizeof phase};
    igata_timing times[16] = {{0}};
    start(&run, NULL, 1);
    assert_int_equal(igata_entry_info(run.model, 0, &entry), IGATA_OK);
    assert_in_range(entry.phases, 1, 15);
    for (int i = 0; i < 3; i++)
        assert_int_equal(igata_run_timed(run.model, 0, run.io, run.workspace, run.state, NULL, times), IGATA_OK);
    assert_int_equal(fixture_wrong(&fixture, run.io), 0);
    uint64_t ns = 0;
    for (size_t p = 0; p < entry.phases; p++) {
        assert_int_equal(times[p].executions, 3);
        assert_int_equal(igata_phase_info(run.model, 0, p, &phase), IGATA_OK);
        assert_true(*phase.kernel);
        ns += times[p].ns;
    }
    assert_true(ns > 0);
    assert_int_equal(times[entry.phases].executions, 0);
    assert_int_equal(igata_phase_info(run.model, 0, entry.phases, &phase), IGATA_E_ARGUMENT);
    assert_int_equal(igata_phase_info(run.model, 9, 0, &phase), IGATA_E_ARGUMENT);
    assert_int_equal(igata_run_timed(run.model, 0, run.io, run.workspace, run.state, NULL, NULL), IGATA_E_ARGUMENT);
    stop(&run);
}

/* The error word on one thread, through a pool with and without helpers, and the node that it names. */
static void test_error_names_node(void **state)
{
    (void)state;
    Run run;
    uint64_t error = 99;
    start(&run, NULL, 2);
    assert_int_equal(igata_run_report(run.model, 0, run.io, run.workspace, run.state, &error), IGATA_OK);
    assert_int_equal(error, 0);
    ((int32_t *)run.io[2])[7] = -5;
    assert_int_equal(igata_run_report(run.model, 0, run.io, run.workspace, run.state, NULL), IGATA_E_INDEX);
    assert_int_equal(igata_run_report(run.model, 0, run.io, run.workspace, run.state, &error), IGATA_E_INDEX);
    assert_int_equal(error, 7 << 8 | 1);
    assert_string_equal(igata_error_node(run.model, error), "layer2/pick");
    assert_string_equal(igata_error_node(run.model, 3 << 8 | 1), "elsewhere");
    assert_null(igata_error_node(run.model, 5 << 8 | 1));
    assert_null(igata_error_node(run.model, 8 << 8 | 1));
    assert_null(igata_error_node(run.model, 0));
    assert_int_equal(igata_run_report(run.model, 0, run.io, NULL, run.state, &error), IGATA_E_NULL);
    assert_int_equal(error, 0);
    for (unsigned threads = 1; threads <= 2; threads++) {
        igata_pool *pool;
        assert_int_equal(igata_pool_create(threads, 0, &pool), IGATA_OK);
        ((int32_t *)run.io[2])[7] = -5;
        assert_int_equal(igata_pool_run(pool, run.model, 0, run.io, run.workspace, run.state), IGATA_E_INDEX);
        assert_int_equal(igata_pool_error(pool), 7 << 8 | 1);
        ((int32_t *)run.io[2])[7] = 5;
        assert_int_equal(igata_pool_run(pool, run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
        assert_int_equal(igata_pool_error(pool), 0);
        igata_pool_quiesce(pool);
        igata_pool_destroy(pool);
    }
    stop(&run);
}

static void test_open_errors(void **state)
{
    (void)state;
    igata_model *model;
    size_t n;
    assert_int_equal(igata_open("missing.so", NULL, &model), IGATA_E_FILE);
    assert_int_equal(igata_open(".", NULL, &model), IGATA_E_FILE);
    assert_int_equal(igata_open(NULL, NULL, &model), IGATA_E_ARGUMENT);
    fixture_write("text.so", "hello", 5);
    assert_int_equal(igata_open("text.so", NULL, &model), IGATA_E_FORMAT);
    uint8_t *data = fixture_read("fixture.so", &n);
    fixture_write("short.so", data, n - 1);
    assert_int_equal(igata_open("short.so", NULL, &model), IGATA_E_FORMAT);
    fixture_write("half.so", data, n / 2);
    assert_int_equal(igata_open("half.so", NULL, &model), IGATA_E_FORMAT);
    const ArtHeader *good = art_find(data, n);
    ArtRecKernel *kernel = (ArtRecKernel *)(uintptr_t)ART_TABLE(good, kernels, ArtRecKernel);
    kernel->code += 1 << 20; /* a kernel outside the code */
    fixture_write("code.so", data, n);
    assert_int_equal(igata_open("code.so", NULL, &model), IGATA_E_FORMAT);
    kernel->code -= 1 << 20;
    data[good->weights_offset + 3] ^= 1;
    fixture_write("changed.so", data, n);
    igata_open_options check = {.size = sizeof check, .flags = IGATA_CHECK};
    assert_int_equal(igata_open("changed.so", &check, &model), IGATA_E_HASH);
    assert_int_equal(igata_open("changed.so", NULL, &model), IGATA_OK);
    igata_close(model);
    ArtHeader *h = (ArtHeader *)(uintptr_t)art_find(data, n);
    h->machine = FIXTURE_HOST == ART_X86_64 ? EM_AARCH64 : EM_X86_64;
    ((Elf64_Ehdr *)(void *)data)->e_machine = (uint16_t)h->machine;
    fixture_write("machine.so", data, n);
    assert_int_equal(igata_open("machine.so", NULL, &model), IGATA_E_MACHINE);
    free(data);
    for (int i = 0; i < IGATA_STATUS_COUNT; i++)
        assert_string_not_equal(igata_status_text(i), "unknown status");
    assert_string_equal(igata_status_text(99), "unknown status");
}

static void test_run_errors(void **state)
{
    (void)state;
    Run run;
    start(&run, NULL, 1);
    void *io[5];
    memcpy(io, run.io, sizeof io);
    assert_int_equal(igata_run(run.model, 1, io, run.workspace, run.state), IGATA_E_ARGUMENT);
    assert_int_equal(igata_run(NULL, 0, io, run.workspace, run.state), IGATA_E_ARGUMENT);
    assert_int_equal(igata_run(run.model, 0, NULL, run.workspace, run.state), IGATA_E_NULL);
    assert_int_equal(igata_run(run.model, 0, io, NULL, run.state), IGATA_E_NULL);
    assert_int_equal(igata_run(run.model, 0, io, run.workspace, NULL), IGATA_E_NULL);
    assert_int_equal(igata_run(run.model, 0, io, run.workspace, (char *)run.state + 8), IGATA_E_ALIGN);
    io[4] = NULL;
    assert_int_equal(igata_run(run.model, 0, io, run.workspace, run.state), IGATA_E_NULL);
    io[4] = (char *)run.io[4] + 4;
    assert_int_equal(igata_run(run.model, 0, io, run.workspace, run.state), IGATA_E_ALIGN);
    ((int32_t *)run.io[2])[7] = FIXTURE_N; /* an index out of range: clamped, and said */
    assert_int_equal(igata_run(run.model, 0, run.io, run.workspace, run.state), IGATA_E_INDEX);
    assert_memory_equal((float *)run.io[4] + 7, run.io[3], 4);
    ((int32_t *)run.io[2])[7] = 3;
    assert_int_equal(igata_run(run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
    stop(&run);
}

/* ---- threads --------------------------------------------------------------------------------------------------- */

static void sequential(void *user, unsigned n, void (*body)(void *, unsigned), void *arg)
{
    ++*(unsigned *)user;
    for (unsigned i = n; i-- > 0;)
        body(arg, i);
}

static void test_parallel_for(void **state)
{
    (void)state;
    unsigned calls = 0;
    static const unsigned threads[] = {1, 3, 6, 7, 64};
    igata_job_options options = {.size = sizeof options, .parallel_for = sequential, .parallel_user = &calls};
    for (size_t i = 0; i < IG_COUNT(threads); i++) {
        Run run;
        start(&run, NULL, threads[i]);
        void *memory = aligned_alloc(64, igata_job_bytes(threads[i]));
        igata_job *job;
        assert_int_equal(igata_job_init(memory, threads[i], &options, &job), IGATA_OK);
        assert_int_equal(igata_job_run(job, run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
        assert_int_equal(fixture_wrong(&fixture, run.io), 0);
        ((int32_t *)run.io[2])[0] = -1;
        assert_int_equal(igata_job_run(job, run.model, 0, run.io, run.workspace, run.state), IGATA_E_INDEX);
        assert_int_equal(igata_job_error(job), 7 << 8 | 1);
        ((int32_t *)run.io[2])[0] = 1;
        assert_int_equal(igata_job_run(job, run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
        assert_int_equal(run.state[0], 3);
        free(memory);
        stop(&run);
    }
    assert_int_equal(calls, 3 * IG_COUNT(threads));
}

static void test_job_errors(void **state)
{
    (void)state;
    Run run;
    start(&run, NULL, 2);
    void *memory = aligned_alloc(64, igata_job_bytes(2));
    igata_job *job;
    assert_int_equal(igata_job_bytes(0), 0);
    assert_int_equal(igata_job_bytes(IGATA_MAX_THREADS + 1), 0);
    assert_int_equal(igata_job_init((char *)memory + 8, 2, NULL, &job), IGATA_E_ALIGN);
    assert_int_equal(igata_job_init(memory, 2, NULL, &job), IGATA_OK);
    assert_int_equal(igata_work(job, 2), IGATA_E_ARGUMENT);
    assert_int_equal(igata_work(job, 0), IGATA_OK); /* nothing to do yet */
    assert_int_equal(igata_job_begin(job, run.model, 0, run.io, NULL, run.state), IGATA_E_NULL);
    assert_int_equal(igata_job_begin(job, run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
    assert_int_equal(igata_job_begin(job, run.model, 0, run.io, run.workspace, run.state), IGATA_E_BUSY);
    assert_int_equal(igata_work(job, 1), IGATA_OK); /* one thread finishes any run */
    assert_int_equal(fixture_wrong(&fixture, run.io), 0);
    free(memory);
    stop(&run);
}

static void test_pool(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads <= 4; threads++)
        for (unsigned spin = 0; spin <= 50; spin += 50) {
            Run run;
            igata_pool *pool;
            start(&run, NULL, threads);
            assert_int_equal(igata_pool_create(threads, spin, &pool), IGATA_OK);
            for (int n = 0; n < 50; n++) {
                memset(run.io[3], 0xff, 4 * FIXTURE_N);
                assert_int_equal(igata_pool_run(pool, run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
                assert_int_equal(fixture_wrong(&fixture, run.io), 0);
            }
            assert_int_equal(run.state[0], 50);
            igata_pool_quiesce(pool);
            stop(&run);
            igata_pool_destroy(pool);
        }
    igata_pool *pool;
    assert_int_equal(igata_pool_create(0, 0, &pool), IGATA_E_THREADS);
    igata_pool_destroy(NULL);
    igata_pool_quiesce(NULL);
}

/* ---- floating-point environment ---------------------------------------------------------------------------------- */

static void test_fp_environment(void **state)
{
    (void)state;
    Run run;
    start(&run, NULL, 1);
    assert_int_equal(fesetround(FE_UPWARD), 0); /* must not reach the kernels, and must be there afterwards */
    assert_int_equal(igata_run(run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    assert_int_equal(fixture_wrong(&fixture, run.io), 0);
    volatile float tiny = 1e-38f;
    for (int i = 0; i < FIXTURE_N; i++)
        ((float *)run.io[0])[i] = 0, ((float *)run.io[1])[i] = tiny;
    assert_int_equal(igata_run(run.model, 0, run.io, run.workspace, run.state), IGATA_OK);
    float kept, flushed;
    memcpy(&kept, (float *)run.io[3] + 2, 4); /* 1.25 / x + 3.125 */
    igata_model *ftz;
    assert_int_equal(igata_open("ftz.so", NULL, &ftz), IGATA_OK);
    assert_int_equal(igata_run(ftz, 0, run.io, run.workspace, run.state), IGATA_OK);
    memcpy(&flushed, (float *)run.io[3] + 2, 4);
    assert_true(kept > 1e38f && kept < 2e38f);
    assert_true(f32_bits(flushed) == 0x7f800000); /* 1.25 / 0 */
    volatile float after = tiny * 0.5f;
    assert_true(after > 0);
    igata_close(ftz);
    stop(&run);
}

/* A path whose file is replaced while a model of it is open, as happens in interactive use, gives the new model. */
static void test_replaced_file(void **state)
{
    (void)state;
    igata_model *before, *after;
    igata_model_info info = {.size = sizeof info};
    assert_true(art_write_so(ctx, &fixture.image, "replaced.so"));
    assert_int_equal(igata_open("replaced.so", NULL, &before), IGATA_OK);
    ArtImage image = fixture.image;
    image.igata_version = "another";
    assert_true(art_write_so(ctx, &image, "replaced.so"));
    assert_int_equal(igata_open("replaced.so", NULL, &after), IGATA_OK);
    assert_int_equal(igata_info(before, &info), IGATA_OK);
    assert_string_equal(info.version, "igata test");
    assert_int_equal(igata_info(after, &info), IGATA_OK);
    assert_string_equal(info.version, "another");
    igata_close(before);
    igata_close(after);
}

#define LARGE_BYTES (100u << 20)

static bool write_large(void *user, ArtSink *sink)
{
    static const char zeros[1 << 16];
    (void)user;
    for (size_t i = 0; i < LARGE_BYTES / sizeof zeros; i++)
        art_sink_write(sink, zeros, sizeof zeros);
    return true;
}

/* Opening takes no longer for 100 MB of weights: they are mapped, and no page of them is touched (they have 25,600). */
/* Page faults stand for the time it takes: below a millisecond where nothing else runs. */
static void test_opens_without_reading_weights(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* shadow memory has faults of its own */
#endif
    static const unsigned flags[] = {0, IGATA_MMAP};
    const ArtWeight weights[] = {
        fixture.weights[0], fixture.weights[1], {"large", 64 + sizeof fixture.weight, LARGE_BYTES, write_large, NULL}};
    ArtImage image = fixture.image;
    image.weights = weights;
    image.n_weights = 3;
    assert_true(art_write_so(ctx, &image, "large.so"));
    for (size_t f = 0; f < IG_COUNT(flags); f++) {
        igata_open_options options = {.size = sizeof options, .flags = flags[f]};
        double best = 1;
        long fewest = LONG_MAX;
        for (int i = 0; i < 50; i++) {
            struct timespec a, b;
            struct rusage before, after;
            igata_model *model;
            getrusage(RUSAGE_SELF, &before);
            timespec_get(&a, TIME_UTC);
            assert_int_equal(igata_open("large.so", &options, &model), IGATA_OK);
            timespec_get(&b, TIME_UTC);
            getrusage(RUSAGE_SELF, &after);
            igata_close(model);
            double seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) * 1e-9;
            long faults = after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt;
            best = seconds < best ? seconds : best;
            fewest = faults < fewest ? faults : fewest;
        }
        print_message("opened in %.0f us with %ld page faults\n", best * 1e6, fewest);
        assert_true(fewest < 100);
    }
    remove("large.so");
}

/* The features that the runtime finds are those that the C compiler's own detection finds. */
static void test_cpu_features(void **state)
{
    (void)state;
#if defined(__x86_64__)
    uint64_t found = rt_cpu_features(), level;
#define SAME(number, name) assert_int_equal(found >> (number)&1, __builtin_cpu_supports(name) != 0)
    SAME(0, "sse3");
    SAME(3, "sse4.2");
    SAME(4, "popcnt");
    SAME(9, "fma");
    SAME(10, "avx");
    SAME(11, "avx2");
    SAME(12, "bmi");
    SAME(13, "bmi2");
    SAME(16, "avx512f");
    SAME(17, "avx512bw");
    SAME(20, "avx512vl");
    SAME(24, "avx512vnni");
    assert_true(art_cpu_features(ctx, ART_X86_64, "x86-64-v4", NULL, &level));
    bool all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2");
    assert_int_equal((level & ~found) == 0, all);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_lesser_cpu),
        cmocka_unit_test(test_timed),
        cmocka_unit_test(test_error_names_node),
        cmocka_unit_test(test_open_errors),
        cmocka_unit_test(test_run_errors),
        cmocka_unit_test(test_parallel_for),
        cmocka_unit_test(test_job_errors),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_fp_environment),
        cmocka_unit_test(test_replaced_file),
        cmocka_unit_test(test_opens_without_reading_weights),
        cmocka_unit_test(test_cpu_features),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
