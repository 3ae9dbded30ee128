/* SPDX-License-Identifier: Apache-2.0
 * Stress of the job algorithm: every tile exactly once, none before its phase, across runs of two entries with
 * different phase tables, with threads that come and go. The kernels are in this file and use plain memory, so that
 * ThreadSanitizer proves that phases order it. The model is built in memory. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "rt/rt_int.h"
#include "support/unit.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_THREAD__)
#define RUNS 1500
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RUNS 1500
#endif
#endif
#ifndef RUNS
#define RUNS 12000
#endif

#define MAX_PHASES 12
#define MAX_TILES 48
#define BIG_TILES 200001 /* more than a slot can count: tiles are grouped */

/* Counters of the workspace: phase p of an entry has a row; a big phase has an area of its own. */
typedef struct Info { /* what a kernel is told through the weights */
    uint32_t tiles, before, entry;
} Info;

static struct {
    ArtHeader header;
    ArtRecEntry entries[3];
    ArtRecBody bodies[3];
    ArtRecPhase phases[3 * MAX_PHASES];
    ArtRecBuf bufs[3 * MAX_PHASES * 5];
    ArtRecKernel kernels[1];
    ArtRecVariant variants[1];
    char strings[8];
} image;
static Info infos[3 * MAX_PHASES];
static igata_model model;
static atomic_uint wrong;
static const void *one_tile; /* scratch of the thread that ran the last phase of one tile */

/* bufs: own row, row of the phase before, info, run number, slot scratch. */
static void count_tiles(void *const *buf, int64_t lo, int64_t hi, uint64_t *error)
{
    uint32_t *own = buf[0], *before = buf[1], *run = buf[3], *scratch = buf[4];
    const Info *info = buf[2];
    if (lo < 0 || hi > info->tiles || lo >= hi)
        atomic_fetch_add(&wrong, 1);
    *scratch = (uint32_t)lo; /* nobody else may have this slot's scratch now */
    for (uint32_t i = 0; i < info->before; i++)
        if (before[i] != *run)
            atomic_fetch_add(&wrong, 1);
    for (int64_t i = lo; i < hi; i++)
        if (++own[i] != *run)
            atomic_fetch_add(&wrong, 1);
    if (*scratch != (uint32_t)lo)
        atomic_fetch_add(&wrong, 1);
    if (info->tiles == 1) { /* two such phases in a row are one thread's */
        if (info->before == 1 && one_tile != scratch)
            atomic_fetch_add(&wrong, 1);
        one_tile = scratch;
    }
    if (info->entry == 1 && info->tiles == 3 && !*error)
        *error = 5;
}

static void add_phase(uint32_t entry, uint32_t p, uint32_t tiles, uint32_t before)
{
    uint32_t n = entry * MAX_PHASES + p;
    uint64_t row = 4 * (uint64_t)MAX_TILES;
    image.phases[n] = (ArtRecPhase){.n_bufs = 5, .first_buf = 5 * n, .tiles = tiles};
    ArtRecBuf *b = &image.bufs[5 * n];
    b[0] = (ArtRecBuf){.kind = ART_WORKSPACE, .offset = p * row};
    b[1] = (ArtRecBuf){.kind = ART_WORKSPACE, .offset = p ? (p - 1) * row : 0};
    b[2] = (ArtRecBuf){.kind = ART_WEIGHTS, .offset = n * sizeof(Info)};
    b[3] = (ArtRecBuf){.kind = ART_STATE, .offset = 0};
    b[4] = (ArtRecBuf){.kind = ART_SCRATCH, .offset = 0};
    infos[n] = (Info){tiles, before, entry};
}

static int setup(void **state)
{
    (void)state;
    static const uint32_t tiles[2][MAX_PHASES] = {{16, 1, 2, 48, 3, 1, 1, 7, 40, 2, 5, 48}, {1, 48, 3, 2, 16, 31}};
    static const uint32_t n_phases[3] = {12, 6, 1};
    image.header = (ArtHeader){.version = ART_FORMAT_VERSION,
                               .bytes = sizeof image,
                               .state_bytes = 64,
                               .weights_bytes = sizeof infos,
                               .file_bytes = sizeof image + sizeof infos + 64};
    memcpy(image.header.magic, ART_MAGIC, 8);
    ArtHeader *h = &image.header;
#define PLACE(field, n) (ArtRef){(uint32_t)((char *)image.field - (char *)&image), n}
    h->entries = PLACE(entries, 3);
    h->bodies = PLACE(bodies, 3);
    h->phases = PLACE(phases, 3 * MAX_PHASES);
    h->bufs = PLACE(bufs, 15 * MAX_PHASES);
    h->kernels = PLACE(kernels, 1);
    h->variants = PLACE(variants, 1);
    h->strings = PLACE(strings, 8);
    h->values = h->dims = h->bounds = h->dim_sizes = h->sizes = h->weight_list = h->plan = h->states = PLACE(strings, 0);
    h->nodes = h->steps = PLACE(strings, 0);
    image.variants[0].n_kernels = 1;
    for (uint32_t e = 0; e < 3; e++) {
        for (uint32_t p = 0; p < n_phases[e]; p++)
            add_phase(e, p, e < 2 ? tiles[e][p] : BIG_TILES, p ? tiles[e][p - 1] : 0);
        uint64_t bytes = e < 2 ? 4 * MAX_TILES * MAX_PHASES : 4 * BIG_TILES;
        image.bodies[e] = (ArtRecBody){.first_phase = e * MAX_PHASES,
                                       .n_phases = n_phases[e],
                                       .workspace_bytes = (bytes + 63) / 64 * 64,
                                       .scratch_bytes = 64};
    }
    image.kernels[0].code = (int32_t)((intptr_t)count_tiles - (intptr_t)&image);
    model = (igata_model){.h = h,
                          .entries = image.entries,
                          .phases = image.phases,
                          .bufs = image.bufs,
                          .steps = ART_TABLE(h, steps, ArtRecStep),
                          .bodies = image.bodies,
                          .kernels = image.kernels,
                          .variant = image.variants,
                          .weights = (const uint8_t *)infos,
                          .fp_mode = RT_FP_PLAIN};
    const ArtHeader *volatile any = h; /* keeps the compiler from judging the empty tables */
    return art_check(any, sizeof image) ? 0 : -1;
}

typedef struct Threads {
    igata_job *job;
    atomic_bool stop;
    atomic_uint next_slot;
    bool coming_and_going;
} Threads;

static void yield(void *user)
{
    (void)user;
    sched_yield();
}

static void *help(void *arg)
{
    Threads *t = arg;
    unsigned slot = 1 + atomic_fetch_add(&t->next_slot, 1);
    for (unsigned n = 0; !atomic_load(&t->stop); n++) {
        igata_work(t->job, slot);
        if (t->coming_and_going)
            for (unsigned i = 0; i < n % 7; i++)
                sched_yield();
    }
    return NULL;
}

static void stress(unsigned threads, unsigned runs, uint64_t first_cur, bool coming_and_going)
{
    static _Alignas(64) uint32_t run_number[16];
    uint8_t *workspaces[2];
    uint32_t numbers[2] = {0, 0};
    void *memory = aligned_alloc(64, igata_job_bytes(threads));
    igata_job_options options = {.size = sizeof options, .relax = yield};
    Threads t = {.coming_and_going = coming_and_going};
    assert_int_equal(igata_job_init(memory, threads, &options, &t.job), IGATA_OK);
    if (first_cur)
        *(_Atomic uint64_t *)memory = first_cur; /* a job that has run for long */
    for (int e = 0; e < 2; e++)
        workspaces[e] = calloc(1, igata_workspace(&model, (size_t)e, threads) + 64);
    pthread_t handles[16];
    for (unsigned i = 0; i + 1 < threads; i++)
        pthread_create(&handles[i], NULL, help, &t);
    for (unsigned r = 0; r < runs; r++) {
        size_t e = r % 5 < 3 ? 0 : 1;
        uint8_t *workspace = workspaces[e] + (64 - (uintptr_t)workspaces[e] % 64) % 64;
        *run_number = ++numbers[e];
        assert_int_equal(igata_job_begin(t.job, &model, e, NULL, workspace, run_number), IGATA_OK);
        igata_status status = igata_work(t.job, 0);
        assert_int_equal(status, e == 1 ? IGATA_E_INDEX : IGATA_OK);
        assert_int_equal(igata_job_error(t.job), e == 1 ? 5 : 0);
        for (uint32_t p = 0; p < image.bodies[e].n_phases; p++)
            for (uint32_t i = 0; i < infos[e * MAX_PHASES + p].tiles; i++)
                if (((uint32_t *)(void *)workspace)[p * MAX_TILES + i] != numbers[e])
                    atomic_fetch_add(&wrong, 1);
        assert_int_equal(atomic_load(&wrong), 0);
    }
    atomic_store(&t.stop, true);
    for (unsigned i = 0; i + 1 < threads; i++)
        pthread_join(handles[i], NULL);
    for (int e = 0; e < 2; e++)
        free(workspaces[e]);
    free(memory);
}

static void test_two_threads(void **state)
{
    (void)state;
    stress(2, RUNS, 0, false);
}

static void test_four_threads(void **state)
{
    (void)state;
    stress(4, RUNS, 0, true);
}

static void test_line_per_slot(void **state)
{
    (void)state;
    stress(8, RUNS / 4, 0, true);
}

/* Tags compare by difference; slots that stayed unused must be refreshed before it overflows, and tags wrap around. */
static void test_old_job(void **state)
{
    (void)state;
    static const uint64_t tags[] = {0x3fffffff, 0x7ffffff0, 0x80000005, 0xfffffff0};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        stress(3, 60, tags[i] << 32 | UINT32_MAX, false);
}

static void test_many_tiles(void **state)
{
    (void)state;
    static _Alignas(64) uint32_t run_number[16] = {1};
    void *workspace = aligned_alloc(64, igata_workspace(&model, 2, 3)), *memory = aligned_alloc(64, igata_job_bytes(3));
    memset(workspace, 0, igata_workspace(&model, 2, 3));
    igata_job *job;
    assert_int_equal(igata_job_init(memory, 3, NULL, &job), IGATA_OK);
    for (; *run_number <= 2; ++*run_number) {
        assert_int_equal(igata_job_begin(job, &model, 2, NULL, workspace, run_number), IGATA_OK);
        assert_int_equal(igata_work(job, 1), IGATA_OK);
        for (uint32_t i = 0; i < BIG_TILES; i++)
            if (((uint32_t *)workspace)[i] != *run_number)
                atomic_fetch_add(&wrong, 1);
        assert_int_equal(atomic_load(&wrong), 0);
    }
    free(workspace);
    free(memory);
}

static void test_pool_runs(void **state)
{
    (void)state;
    static _Alignas(64) uint32_t run_number[16];
    igata_pool *pool;
    assert_int_equal(igata_pool_create(4, 20, &pool), IGATA_OK);
    size_t bytes = igata_workspace(&model, 0, 4);
    void *workspace = aligned_alloc(64, bytes);
    memset(workspace, 0, bytes);
    for (unsigned r = 0; r < RUNS / 8; r++) {
        ++*run_number;
        assert_int_equal(igata_pool_run(pool, &model, 0, NULL, workspace, run_number), IGATA_OK);
        assert_int_equal(atomic_load(&wrong), 0);
        if (r % 100 == 0)
            igata_pool_quiesce(pool);
    }
    igata_pool_destroy(pool);
    free(workspace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_threads), cmocka_unit_test(test_four_threads), cmocka_unit_test(test_line_per_slot),
        cmocka_unit_test(test_old_job),     cmocka_unit_test(test_many_tiles),   cmocka_unit_test(test_pool_runs),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
