/* SPDX-License-Identifier: Apache-2.0
 * Contexts, arenas, vectors, maps, interning, tasks; and what happens when any single allocation fails. */
#include "support/unit.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Counter { /* a memory source that fails from the n-th request on, and counts what is out */
    int64_t left, live;
} Counter;

static void *counted_alloc(void *user, size_t bytes)
{
    Counter *counter = user;
    if (counter->left == 0)
        return NULL;
    counter->left--;
    counter->live++;
    return malloc(bytes);
}

static void counted_release(void *user, void *pointer)
{
    ((Counter *)user)->live--;
    free(pointer);
}

static Allocator counted(Counter *counter) { return (Allocator){counted_alloc, counted_release, counter}; }

static void test_arena_gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    Arena *arena = arena_create(ctx);
    uint8_t *last = NULL;
    for (size_t size = 0; size < 3000; size += 7) {
        uint8_t *p = arena_alloc(arena, size);
        assert_int_equal((uintptr_t)p % 16, 0);
        assert_ptr_not_equal(p, last);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(p[i], 0);
        if (size)
            memset(p, 0xFF, size);
        last = p;
    }
    size_t held = arena_bytes(arena);
    assert_true(held >= 3000 * 3000 / 14);
    uint8_t *big = arena_alloc(arena, 10 << 20);
    big[(10 << 20) - 1] = 1;
    assert_true(arena_bytes(arena) >= held + (10 << 20));
    arena_reset(arena);
    assert_true(arena_bytes(arena) <= 1 << 20);
    assert_true(arena_bytes(arena) > 0);
    uint8_t *again = arena_alloc(arena, 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(again[i], 0); /* dirty memory of a kept block is cleared */
    assert_string_equal(arena_printf(arena, "%s-%d", "x", 42), "x-42");
    assert_ptr_equal(arena_context(arena), ctx);
    ctx_destroy(ctx);
}

static void array_overflow(void *arg) { arena_array(ctx_arena(arg), SIZE_MAX / 4, 8); }
static void alloc_overflow(void *arg) { arena_alloc(ctx_arena(arg), SIZE_MAX - 8); }
static void vec_overflow(void *arg)
{
    VEC(uint8_t) v = {0};
    vec_reserve(ctx_arena(arg), &v, UINT32_MAX);
}

static void test_overflow_is_no_memory(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    assert_int_equal(ctx_protect(ctx, array_overflow, ctx), CTX_NOMEM);
    assert_int_equal(ctx_protect(ctx, alloc_overflow, ctx), CTX_NOMEM);
    assert_int_equal(ctx_protect(ctx, vec_overflow, ctx), CTX_NOMEM);
    assert_int_equal(diag_count(ctx), 0);
    ctx_destroy(ctx);
}

static void test_vector_grows(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    VEC(uint32_t) v = {0};
    for (uint32_t i = 0; i < 100000; i++)
        vec_push(ctx_arena(ctx), &v, i * 3);
    assert_int_equal(v.len, 100000);
    for (uint32_t i = 0; i < v.len; i++)
        assert_int_equal(v.data[i], i * 3);
    assert_int_equal(vec_pop(&v), 99999 * 3);
    assert_int_equal(v.len, 99999);
    ctx_destroy(ctx);
}

static void test_map_finds_what_was_set(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    Map *map = map_create(ctx_arena(ctx));
    assert_null(map_get(map, 0));
    assert_false(map_has(map, 0));
    void **zero = map_slot(map, 0);
    assert_null(*zero);
    assert_true(map_has(map, 0));
    *zero = map;
    for (uint64_t i = 1; i < 20000; i++)
        map_set(map, i << 4, (void *)(uintptr_t)i);
    map_set(map, UINT64_MAX, ctx);
    for (uint64_t i = 1; i < 20000; i++) {
        assert_int_equal((uintptr_t)map_get(map, i << 4), i);
        assert_false(map_has(map, (i << 4) + 1));
    }
    assert_ptr_equal(map_get(map, UINT64_MAX), ctx);
    assert_ptr_equal(map_slot(map, 0), zero); /* slots stay where they are */
    ctx_destroy(ctx);
}

static void test_intern_keeps_one_copy(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    Intern *set = intern_create(ctx_arena(ctx));
    char a[] = "abcd", b[] = "abcd";
    const void *one = intern_bytes(set, a, 4);
    assert_ptr_equal(one, intern_bytes(set, b, 4));
    assert_ptr_not_equal(one, a);
    assert_ptr_not_equal(one, intern_bytes(set, a, 3));
    assert_non_null(intern_bytes(set, NULL, 0));
    assert_ptr_equal(intern_bytes(set, NULL, 0), intern_bytes(set, a, 0));
    assert_ptr_equal(str_intern(ctx, "conv1"), str_format(ctx, "conv%d", 1));
    assert_ptr_equal(str_intern_n(ctx, "conv1x", 5), str_intern(ctx, "conv1"));
    assert_string_equal(str_intern_n(ctx, "conv1x", 5), "conv1");
    char big[4000];
    memset(big, 'q', sizeof big);
    big[3999] = 0;
    assert_string_equal(str_format(ctx, "%s%d", big, 7) + 3999, "7");
    ctx_destroy(ctx);
}

typedef struct Nest {
    Context *ctx;
    CtxStatus inner;
    int reached;
} Nest;

static void break_invariant(void *arg)
{
    Nest *nest = arg;
    nest->reached++;
    IG_CHECK(nest->ctx, nest->reached == 100);
    nest->reached = -1;
}

static void outer_body(void *arg)
{
    Nest *nest = arg;
    nest->inner = ctx_protect(nest->ctx, break_invariant, nest);
    nest->reached++;
}

static void test_bug_unwinds_to_innermost(void **state)
{
    (void)state;
    Nest nest = {.ctx = ctx_create(NULL)};
    assert_int_equal(ctx_protect(nest.ctx, outer_body, &nest), CTX_OK);
    assert_int_equal(nest.inner, CTX_BUG);
    assert_int_equal(nest.reached, 2);
    assert_int_equal(diag_errors(nest.ctx), 1);
    const Diag *diag = diag_get(nest.ctx, 0);
    assert_int_equal(diag->id, DIAG_bug);
    assert_non_null(strstr(diag->message, "nest->reached == 100"));
    assert_null(*ctx_ir_slot(nest.ctx));
    ctx_destroy(nest.ctx);
}

enum { N_TASKS = 300 };
typedef struct Piece {
    Context *ctx;
    uint32_t number, runs, *order; /* order: of the one thread there is, or NULL */
} Piece;

static void run_piece(void *arg)
{
    Piece *piece = arg;
    piece->runs++;
    if (piece->order)
        assert_int_equal((*piece->order)++, piece->number);
    for (int i = 0; i < 20; i++)
        str_format(piece->ctx, "text %u of piece %u", (unsigned)i, (unsigned)piece->number);
    diag_report(piece->ctx, 0, DIAG_file_open, str_format(piece->ctx, "%u", (unsigned)piece->number), "why");
}

/* Every task runs once, each in a Context of its own, whose diagnostics can be moved; with one thread in the order given. */
static void test_tasks(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 7, 0};
    for (size_t t = 0; t < IG_COUNT(threads); t++) {
        Context *ctx = ctx_create(NULL);
        Task *tasks = ARENA_ARRAY(ctx_arena(ctx), Task, N_TASKS);
        Piece *pieces = ARENA_ARRAY(ctx_arena(ctx), Piece, N_TASKS);
        uint32_t order = 0;
        for (uint32_t i = 0; i < N_TASKS; i++) {
            pieces[i] = (Piece){ctx_create_inner(ctx), i, 0, threads[t] == 1 ? &order : NULL};
            tasks[i] = (Task){run_piece, &pieces[i], i % 5};
        }
        task_run_all(tasks, N_TASKS, threads[t]);
        for (uint32_t i = 0; i < N_TASKS; i++) {
            assert_int_equal(pieces[i].runs, 1);
            diag_move(ctx, pieces[i].ctx);
            assert_int_equal(diag_errors(pieces[i].ctx), 0);
            if (i % 2) /* the others die with ctx */
                ctx_destroy(pieces[i].ctx);
            char number[16];
            snprintf(number, sizeof number, "'%u'", (unsigned)i);
            assert_non_null(strstr(diag_get(ctx, i)->message, number));
        }
        assert_int_equal(diag_errors(ctx), N_TASKS);
        ctx_destroy(ctx);
    }
    Counter counter = {.left = -1};
    Allocator source = counted(&counter);
    Context *ctx = ctx_create(&source);
    assert_null(ctx_create_inner(ctx)); /* the caller's memory source may be for one thread */
    ctx_destroy(ctx);
    task_run_all(NULL, 0, 0);
}

static void use_everything(void *arg)
{
    Context *ctx = arg;
    Arena *scratch = arena_create(ctx);
    VEC(Str) names = {0};
    Map *map = map_create(scratch);
    for (int i = 0; i < 40; i++) {
        Str name = str_format(ctx, "a name that is long enough to need memory soon, number %d", i);
        vec_push(scratch, &names, name);
        map_set(map, KEY(name), &names);
        Loc loc = loc_onnx(ctx, str_intern(ctx, "m.onnx"), NULL, (uint32_t)i, name, str_intern(ctx, "Add"));
        Loc parents[] = {loc, loc_from(ctx, loc, "fold")};
        diag_report(ctx, loc_fused(ctx, parents, 2), DIAG_file_open, name, "why");
        arena_alloc(scratch, 5000);
    }
    Text text;
    text_init(&text, scratch);
    for (uint32_t i = 0; i < diag_count(ctx); i++)
        diag_print(ctx, &text, diag_get(ctx, i));
    text_add_f64(&text, 0.1);
    arena_reset(scratch);
    arena_destroy(scratch);
    Blob blob;
    if (!file_map(ctx, "/dev/null", &blob) || blob.size != 0)
        ig_bug(ctx, "empty device");
    FileWriter *file = file_create(ctx, "sweep.out", false);
    if (!file)
        ig_bug(ctx, "cannot create");
    file_write(file, "x", 1);
    file_abandon(file);
}

/* Fails the n-th request, for every n until all succeed: always CTX_NOMEM, never a crash, nothing left behind. */
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    bool done = false;
    int failures = 0;
    for (int64_t n = 0; !done && n < 10000; n++) {
        Counter counter = {.left = n};
        Allocator source = counted(&counter);
        Context *ctx = ctx_create(&source);
        if (ctx) {
            CtxStatus status = ctx_protect(ctx, use_everything, ctx);
            assert_true(status == CTX_OK || status == CTX_NOMEM);
            done = status == CTX_OK;
            if (!done) { /* the Context is still usable */
                counter.left = -1;
                diag_clear(ctx);
                assert_int_equal(ctx_protect(ctx, use_everything, ctx), CTX_OK);
                assert_int_equal(diag_errors(ctx), 40);
            }
            ctx_destroy(ctx);
        }
        failures += !done;
        assert_int_equal(counter.live, 0);
    }
    assert_true(done);
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(test_overflow_is_no_memory),
        cmocka_unit_test(test_vector_grows),
        cmocka_unit_test(test_map_finds_what_was_set),
        cmocka_unit_test(test_intern_keeps_one_copy),
        cmocka_unit_test(test_bug_unwinds_to_innermost),
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
