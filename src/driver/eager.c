/* SPDX-License-Identifier: Apache-2.0
 *
 * The eager form of a program: each phase of its schedule becomes an entry of its own, with the tensors it reads as inputs and
 * those it writes as outputs. Values are numbered as the schedule's storages, which are dense and row-major here (the eager
 * pipeline runs no layout pass and plans nothing in place).
 * Control is that of the runtime (art_walk), over values instead of places in a workspace.
 */
#include "driver/driver_int.h"

#include <string.h>

static uint32_t number_of(const Schedule *s, const Storage *st)
{
    if (!st)
        return UINT32_MAX;
    for (uint32_t i = 0; i < s->storages.len; i++)
        if (s->storages.data[i] == st)
            return i;
    ig_bug(s->ctx, "storage '%s' is not in the schedule", st->name);
}

static int64_t position(Storage *const *list, uint32_t n, const Val *val)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i]->val == val)
            return i;
    return -1;
}

static const ArtValue *values_of(Arena *arena, Storage *const *list, uint32_t n)
{
    ArtValue *values = ARENA_ARRAY(arena, ArtValue, n + 1);
    for (uint32_t i = 0; i < n; i++)
        values[i] = (ArtValue){.name = list[i]->name, .dtype = list[i]->val->type->dtype, .rank = list[i]->rank,
                               .dims = list[i]->dim};
    return values;
}

/* `planned`: the phase as the image has it, with the places of its weights. */
static const ArtPhase *phase_of(Context *ctx, Arena *arena, const Phase *phase, const ArtPhase *planned)
{
    const Group *g = phase->group;
    uint32_t n = g->kernel->bufs.len;
    ArtBuf *bufs = ARENA_ARRAY(arena, ArtBuf, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const Buf *buf = g->kernel->bufs.data[i];
        if (buf->space != BUF_ARG) {
            bufs[i] = planned->bufs[i];
            continue;
        }
        int64_t out = position(g->writes.data, g->writes.len, buf->val), in = position(g->reads.data, g->reads.len, buf->val);
        IG_CHECK(ctx, out >= 0 || in >= 0);
        bufs[i] = (ArtBuf){out >= 0 ? ART_OUTPUT : ART_INPUT, (uint32_t)(out >= 0 ? out : in), 0, out >= 0};
    }
    ArtPhase *made = ARENA_NEW(arena, ArtPhase);
    *made = (ArtPhase){.kernel = phase->kernel, .tiles = (uint64_t)phase->tiles, .bufs = bufs, .n_bufs = n};
    return made;
}

static const uint32_t *numbers(const Schedule *s, Arena *arena, Storage *const *list, uint32_t n)
{
    uint32_t *number = ARENA_ARRAY(arena, uint32_t, n + 1);
    for (uint32_t i = 0; i < n; i++)
        number[i] = number_of(s, list[i]);
    return number;
}

static void make_values(const Program *p, Arena *arena, EagerPlan *plan)
{
    const Schedule *s = p->variant[0].schedule;
    uint64_t *bytes = ARENA_ARRAY(arena, uint64_t, s->storages.len + 1);
    uint32_t *last = ARENA_ARRAY(arena, uint32_t, s->storages.len + 1);
    uint32_t *in = ARENA_ARRAY(arena, uint32_t, p->func->body->params.len + 1);
    uint32_t *out = ARENA_ARRAY(arena, uint32_t, func_n_out(p->func) + 1);
    plan->n_in = p->func->body->params.len;
    plan->n_out = func_n_out(p->func);
    bool *kept = ARENA_ARRAY(arena, bool, plan->n_steps + 1); /* per step: it may run several times, or never */
    memset(in, 0xff, sizeof *in * (plan->n_in + 1)); /* UINT32_MAX: nothing reads this input */
    for (uint32_t c = 0; c < plan->n_control; c++) {
        const ArtRecStep *step = &plan->control[c];
        for (uint32_t i = step->phase; step->depth == 0 && step->target > c && i < plan->control[step->target].phase; i++)
            kept[i] = true;
    }
    for (uint32_t i = 0; i < s->storages.len; i++) {
        const Storage *st = s->storages.data[i];
        bytes[i] = st->bytes;
        if (st->kind == SLOT_INPUT)
            in[st->index] = i;
        if (st->kind == SLOT_OUTPUT)
            out[st->index] = i;
        if (st->kind != SLOT_WORKSPACE || st->merged)
            last[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < plan->n_steps; i++)
        for (uint32_t r = 0; r < plan->step[i].n_in; r++)
            if (last[plan->step[i].in[r]] != UINT32_MAX)
                last[plan->step[i].in[r]] = kept[i] ? UINT32_MAX : i;
    for (uint32_t c = 0; c < plan->n_control; c++) { /* conditions and trip counts that no kernel reads */
        const ArtRecStep *step = &plan->control[c];
        if (step->flags & ART_STEP_GO)
            last[step->go.index] = UINT32_MAX;
        if (step->flags & ART_STEP_TRIP)
            last[step->trip.index] = UINT32_MAX;
    }
    plan->n_values = s->storages.len;
    plan->bytes = bytes;
    plan->last = last;
    plan->in = in;
    plan->out = out;
}

static ArtRecBuf word_of(const Schedule *s, const Storage *st) { return (ArtRecBuf){.index = number_of(s, st)}; }

/* The steps of the image, with numbers of values in place of places. */
static bool make_control(const Schedule *s, Arena *arena, const ArtBody *body, EagerPlan *plan)
{
    ArtRecStep *control = ARENA_ARRAY(arena, ArtRecStep, body->n_steps + 1);
    for (uint32_t i = 0; i < body->n_steps; i++) {
        const Step *step = &s->steps.data[i];
        const ArtStep *a = &body->steps[i];
        if (step->depth >= ART_MAX_DEPTH)
            return diag_report(s->ctx, step->node->loc, DIAG_art_limit, "branches and loops nest too deep");
        control[i] = (ArtRecStep){.kind = a->kind, .phase = a->phase, .target = a->target, .depth = a->depth, .flags = a->flags,
                                  .node = a->node, .size = a->size, .bound = a->bound, .counter = word_of(s, step->counter),
                                  .go = word_of(s, step->go), .trip = word_of(s, step->trip)};
    }
    plan->control = control;
    plan->n_control = body->n_steps;
    plan->n_sizes = s->n_syms;
    return true;
}

static void *value_at(const void *user, const ArtRecBuf *word) { return ((void *const *)user)[word->index]; }

uint32_t driver_eager_next(const EagerPlan *plan, EagerRun *run, uint32_t step, void *const *value, int64_t *sizes)
{
    const ArtPlaces places = {value_at, value, sizes, &run->error};
    return art_walk(&run->walk, plan->control, plan->n_control, step, &places);
}

EagerPlan *driver_write_eager(Program *p, Arena *arena, const char *path)
{
    const Schedule *s = p->variant[0].schedule;
    uint32_t n = s->phases.len;
    ArtImage image;
    ArtEntry *entry = ARENA_ARRAY(arena, ArtEntry, n + 1);
    EagerStep *step = ARENA_ARRAY(arena, EagerStep, n + 1);
    ArtBody *bodies = ARENA_ARRAY(arena, ArtBody, n + 1);
    ArtVariant *variant = ARENA_NEW(arena, ArtVariant);
    driver_make_image(p, arena, &image);
    *variant = image.variants[0]; /* another level might group otherwise */
    const ArtBody planned = variant->bodies[0];
    for (uint32_t i = 0; i < n; i++) {
        const Group *g = s->phases.data[i].group;
        entry[i] = (ArtEntry){.name = arena_printf(arena, "%u_%s", i, g->name),
                              .n_inputs = g->reads.len,
                              .inputs = values_of(arena, g->reads.data, g->reads.len),
                              .n_outputs = g->writes.len,
                              .outputs = values_of(arena, g->writes.data, g->writes.len),
                              .sizes = image.entries[0].sizes, /* a step is told what steps before it found */
                              .n_sizes = s->n_syms,
                              .n_symbols = s->n_syms};
        bodies[i] = (ArtBody){.scratch_bytes_per_slot = s->scratch_bytes,
                              .phases = phase_of(p->ctx, arena, &s->phases.data[i], &planned.phases[i]),
                              .n_phases = 1};
        step[i] = (EagerStep){g->reads.len, g->writes.len, numbers(s, arena, g->reads.data, g->reads.len),
                              numbers(s, arena, g->writes.data, g->writes.len)};
    }
    image.entries = entry;
    image.n_entries = n;
    variant->bodies = bodies;
    image.variants = variant;
    image.n_variants = 1;
    EagerPlan *plan = ARENA_NEW(arena, EagerPlan);
    plan->n_steps = n;
    plan->step = step;
    if (!make_control(s, arena, &planned, plan))
        return NULL;
    make_values(p, arena, plan);
    return art_write_so(p->ctx, &image, path) ? plan : NULL;
}
