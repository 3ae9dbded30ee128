/* SPDX-License-Identifier: Apache-2.0
 * The verifier of schedules accepts what the passes make of every small network, and finds kernels out of order, live values
 * that share bytes and views that outlive what they lie in. */
#include "support/unit.h"

#include "sched/tile.h"
#include "support/nets.h"

#include <string.h>

static const TargetInfo target = {"x86_64-pc-linux-gnu", "haswell", "", "x86-64-v3", 8, 16, 1 << 19};

static void run(Context *ctx, Unit *unit, const PassDef *table, const char *const *names, uint32_t n)
{
    const PassDef *passes[16];
    for (uint32_t i = 0; i < n; i++)
        passes[i] = pass_find(table, names[i]);
    PassOptions options = {.opt_level = 2, .target = &target, .limit = -1};
    PassCtx pc = {.ctx = ctx, .tmp = arena_create(ctx), .options = &options};
    if (!pass_run(&pc, unit, passes, n))
        fail_msg("%s", diag_get(ctx, 0)->message);
    arena_destroy(pc.tmp);
}

static const NetDef *find_net(const char *name)
{
    const NetDef *def = net_defs;
    while (strcmp(def->name, name))
        def++;
    return def;
}

static Schedule *schedule(Context *ctx, const NetDef *def)
{
    Net net = net_make(ctx, def, 42);
    Unit unit = {.module = net.module};
    run(ctx, &unit, pass_defs, (const char *[]){"expand", "dce"}, 2);
    unit.schedule = sched_create(ctx, net.module, net.func);
    run(ctx, &unit, sched_pass_defs, (const char *[]){"fuse", "layout", "views", "lower", "phases", "plan"}, 6);
    assert_true(sched_verify(unit.schedule, LEVEL_LOOP));
    return unit.schedule;
}

static void assert_found(const Schedule *s, DiagId id)
{
    diag_clear(s->ctx);
    assert_false(sched_verify(s, LEVEL_SCHED));
    assert_int_equal(diag_get(s->ctx, 0)->id, id);
    diag_clear(s->ctx);
}

static void order(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    Schedule *s = schedule(ctx, &net_defs[0]);
    uint32_t last = s->groups.len - 1;
    assert_true(last > 0);
    Group *first = s->groups.data[0];
    s->groups.data[0] = s->groups.data[last];
    s->groups.data[last] = first;
    assert_found(s, DIAG_sched_order);
    sched_destroy(s);
    ctx_destroy(ctx);
}

/* Lies every pair of live values over each other, a pair at a time. */
static uint32_t overlaps(Schedule *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->storages.len; i++)
        for (uint32_t j = 0; j < i; j++) {
            Storage *a = s->storages.data[i], *b = s->storages.data[j];
            if (a->kind != SLOT_WORKSPACE || b->kind != SLOT_WORKSPACE || a->in_place || b->in_place || !a->bytes || !b->bytes ||
                a->first > b->last || b->first > a->last)
                continue;
            uint64_t offset = a->offset;
            a->offset = b->offset + b->bytes - 1;
            assert_found(s, DIAG_sched_overlap);
            a->offset = offset;
            n++;
        }
    return n;
}

static void overlap(void **state)
{
    (void)state;
    uint32_t found = 0;
    for (const NetDef *def = net_defs; def->name; def++) {
        Context *ctx = ctx_create(NULL);
        Schedule *s = schedule(ctx, def);
        found += overlaps(s);
        sched_destroy(s);
        ctx_destroy(ctx);
    }
    assert_true(found > 0);
}

/* The bytes of a view given away before it is made, or before it was used last. */
static void views(void **state)
{
    (void)state;
    uint32_t found = 0;
    for (const NetDef *def = net_defs; def->name; def++) {
        Context *ctx = ctx_create(NULL);
        Schedule *s = schedule(ctx, def);
        for (uint32_t i = 0; i < s->storages.len; i++) {
            const Storage *st = s->storages.data[i];
            Storage *base = st->in_place;
            if (!st->view || st->kind != SLOT_WORKSPACE)
                continue;
            while (base->in_place)
                base = base->in_place;
            uint32_t first = base->first, last = base->last;
            base->first = st->first + 1;
            assert_found(s, DIAG_sched_overlap);
            base->first = first;
            if (st->last > first) {
                base->last = st->last - 1;
                assert_found(s, DIAG_sched_overlap);
                base->last = last;
            }
            found++;
        }
        sched_destroy(s);
        ctx_destroy(ctx);
    }
    assert_true(found >= 8);
}

static uint32_t count_kind(const Stmt *list, StmtKind kind)
{
    uint32_t n = 0;
    for (const Stmt *s = list; s; s = s->next)
        n += (s->kind == kind) + (s->kind == LS_FOR ? count_kind(s->u.loop.body, kind) : 0) +
             (s->kind == LS_IF ? count_kind(s->u.branch.then, kind) + count_kind(s->u.branch.otherwise, kind) : 0);
    return n;
}

static uint32_t count_phases(const Stmt *list)
{
    uint32_t n = 0;
    for (const Stmt *s = list; s; s = s->next)
        if (s->kind == LS_FOR)
            n += !strncmp(s->u.loop.iter->name, "phase", 5) + count_phases(s->u.loop.body);
    return n;
}

typedef struct Ahead {
    Kernel *k;
    bool *covered; /* elements of the buffer */
    const Buf *buf;
} Ahead;

/* Marks what the mma statements of the list read ahead, in every iteration of their loops. */
static void mark_ahead(Ahead *a, Stmt *list)
{
    for (Stmt *s = list; s; s = s->next) {
        int64_t lo, hi, from;
        if (s->kind == LS_FOR) {
            assert_true(lx_is_int(s->u.loop.lo, &lo) && lx_is_int(s->u.loop.hi, &hi));
            for (; lo < hi; lo += s->u.loop.step)
                mark_ahead(a, ls_replace_iter(a->k, s->u.loop.body, s->u.loop.iter, lx_int(a->k, lo)));
        }
        if (s->kind == LS_IF)
            mark_ahead(a, lx_is_true(s->u.branch.cond) ? s->u.branch.then : s->u.branch.otherwise);
        if (s->kind != LS_MMA || !s->u.mma.ahead || s->u.mma.b->u.buf != a->buf)
            continue;
        assert_true(lx_is_int(s->u.mma.ahead, &from) && from >= 0);
        for (int64_t i = from; i < from + s->u.mma.n_ahead && i < a->buf->elements; i++)
            a->covered[i] = true;
    }
}

static const Stmt *find_ahead(const Stmt *list)
{
    const Stmt *found = NULL;
    for (const Stmt *s = list; s && !found; s = s->next)
        found = s->kind == LS_FOR                      ? find_ahead(s->u.loop.body)
                : s->kind == LS_IF                     ? find_ahead(s->u.branch.then)
                : s->kind == LS_MMA && s->u.mma.ahead ? s
                                                       : NULL;
    return found;
}

/* Constants of register tiles are read ahead by the row tiles of the panel before: all of them but those of the first panel. */
static void panels_read_ahead(void **state)
{
    (void)state;
    uint32_t found = 0, batches = 0;
    for (const NetDef *def = net_defs; def->name; def++) {
        Context *ctx = ctx_create(NULL);
        Net net = net_make(ctx, def, 42);
        Unit unit = {.module = net.module};
        run(ctx, &unit, pass_defs, (const char *[]){"expand", "dce"}, 2);
        unit.schedule = sched_create(ctx, net.module, net.func);
        run(ctx, &unit, sched_pass_defs, (const char *[]){"fuse", "layout", "views", "lower", "phases", "groups", "pack", "tensorize"}, 8);
        for (uint32_t i = 0; i < unit.schedule->groups.len; i++) {
            Kernel *k = unit.schedule->groups.data[i]->kernel;
            const Stmt *mma = find_ahead(k->body);
            if (!mma)
                continue;
            const Buf *b = mma->u.mma.b->u.buf;
            Ahead a = {k, ARENA_ARRAY(ctx_arena(ctx), bool, (size_t)b->elements), b};
            mark_ahead(&a, k->body);
            int64_t first = mma->u.mma.cols;
            for (uint32_t j = 0; j < mma->u.mma.n_axes; j++)
                first *= mma->u.mma.axis[j].extent;
            assert_true(first < b->elements);
            for (int64_t j = first; j < b->elements; j++)
                assert_true(a.covered[j]);
            found++;
            batches += b->pack->winograd != WINOGRAD_NONE;
        }
        sched_destroy(unit.schedule);
        ctx_destroy(ctx);
    }
    assert_true(found >= 4 && batches >= 2);
}

/* Convolutions of few channels a group run along the channels of all groups: of the net's six only those with one group are register
 * tiles, and no chain is left as a fold. Nor is one of a dilated
 * convolution, which becomes several plain ones along axes whose size its dilation divides: 20 by 4, 12 and 10 by 4 / 2. */
static void small_groups(void **state)
{
    static const struct {
        const char *name;
        uint32_t with_tiles, phases;
    } nets[] = {{"groups", 2, 0}, {"dilated", 1, 3}};
    (void)state;
    for (size_t which = 0; which < IG_COUNT(nets); which++) {
        Context *ctx = ctx_create(NULL);
        Net net = net_make(ctx, find_net(nets[which].name), 42);
        Unit unit = {.module = net.module};
        run(ctx, &unit, pass_defs, (const char *[]){"expand", "dce"}, 2);
        unit.schedule = sched_create(ctx, net.module, net.func);
        run(ctx, &unit, sched_pass_defs,
            (const char *[]){"fuse", "layout", "views", "lower", "phases", "groups", "pack", "tensorize", "vectorize", "window"}, 10);
        uint32_t with_tiles = 0, phases = 0;
        for (uint32_t i = 0; i < unit.schedule->groups.len; i++) {
            const Stmt *body = unit.schedule->groups.data[i]->kernel->body;
            with_tiles += count_kind(body, LS_MMA) > 0;
            phases += count_phases(body);
            assert_int_equal(count_kind(body, LS_FOLD), 0);
        }
        assert_int_equal(with_tiles, nets[which].with_tiles);
        assert_int_equal(phases, nets[which].phases);
        sched_destroy(unit.schedule);
        ctx_destroy(ctx);
    }
}

/* What a convolution reads through a transpose, from channels last to its own order, stays channels last. */
static void read_through_transpose(void **state)
{
    (void)state;
    Context *ctx = ctx_create(NULL);
    Schedule *s = schedule(ctx, find_net("dilated"));
    const Storage *st = s->groups.data[0]->writes.data[0];
    assert_int_equal(st->rank, 4);
    assert_int_equal(st->stride[3], 1);
    sched_destroy(s);
    ctx_destroy(ctx);
}

/* Constants from beyond L2 are read once, by one row tile, where that has the registers; from L2, as often as suits the registers. */
static void skinny_tiles(void **state)
{
    (void)state;
    static const TargetInfo wide = {"x86_64-pc-linux-gnu", "skylake-avx512", "", "x86-64-v4", 16, 32, 1 << 20};
    for (int64_t rows = 1; rows <= 16; rows++)
        assert_int_equal(tile_choose(&wide, rows, 896, 896).rows, rows);
    TileShape far = tile_choose(&wide, 16, 896, 896), near = tile_choose(&wide, 16, 384, 384);
    assert_int_equal(far.vectors, 1);
    assert_int_equal(near.rows, 8);
    assert_true(near.vectors > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(order),
                                       cmocka_unit_test(overlap),
                                       cmocka_unit_test(views),
                                       cmocka_unit_test(small_groups),
                                       cmocka_unit_test(read_through_transpose),
                                       cmocka_unit_test(skinny_tiles),
                                       cmocka_unit_test(panels_read_ahead)};
    return cmocka_run_group_tests_name("sched_verify", tests, NULL, NULL);
}
