/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/artifact_run.h"
#include "igata_rt.h"
#include "support/tensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- buffers ------------------------------------------------------------------------------------------------------- */

enum { GUARD_BYTE = 0xA5 };

/* `bytes` bytes, 64-byte aligned; up to 63 guard bytes, then an inaccessible page; a page of guard bytes before. */
typedef struct Guarded {
    uint8_t *map, *data, *end;
    size_t bytes, mapped;
} Guarded;

static Guarded guarded_make(size_t bytes, int fill)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + 63) / 64 * 64, whole = (room + page - 1) / page * page + page;
    Guarded g = {.bytes = bytes, .mapped = whole + page};
    g.map = mmap(NULL, g.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map + whole, page, PROT_NONE))
        abort();
    g.end = g.map + whole;
    g.data = g.end - room;
    memset(g.map, GUARD_BYTE, whole);
    memset(g.data, fill, bytes);
    return g;
}

static bool guarded_is_intact(const Guarded *g)
{
    for (const uint8_t *p = g->map; p < g->data; p++)
        if (*p != GUARD_BYTE)
            return false;
    for (const uint8_t *p = g->data + g->bytes; p < g->end; p++)
        if (*p != GUARD_BYTE)
            return false;
    return true;
}

static void guarded_free(Guarded *g)
{
    if (g->map)
        munmap(g->map, g->mapped);
    g->map = NULL;
}

static size_t tensor_bytes(const Tensor *t)
{
    uint64_t bytes = 0;
    if (!dtype_bytes(t->dtype, t->count, &bytes))
        abort();
    return bytes;
}

/* ---- one run ---------------------------------------------------------------------------------------------------------- */

typedef struct Run {
    const ArtifactCase *c;
    igata_model *model;
    Guarded *io; /* inputs, then outputs */
    Guarded workspace;
} Run;

static const char *open_model(Run *r)
{
    igata_open_options options = {.size = sizeof options, .variant = r->c->variant};
    igata_status status = igata_open(r->c->path, &options, &r->model);
    if (status != IGATA_OK)
        return arena_printf(r->c->arena, "cannot be opened: %s", igata_status_text(status));
    r->io = ARENA_ARRAY(r->c->arena, Guarded, r->c->n_in + r->c->n_out + 1);
    for (uint32_t i = 0; i < r->c->n_in; i++) {
        r->io[i] = guarded_make(tensor_bytes(r->c->in[i]), 0);
        memcpy(r->io[i].data, r->c->in[i]->data, r->io[i].bytes);
    }
    for (uint32_t i = 0; i < r->c->n_out; i++)
        r->io[r->c->n_in + i] = guarded_make(tensor_bytes(r->c->want[i]), 0xFF);
    return NULL;
}

static void close_model(Run *r)
{
    for (uint32_t i = 0; r->io && i < r->c->n_in + r->c->n_out; i++)
        guarded_free(&r->io[i]);
    guarded_free(&r->workspace);
    if (r->model)
        igata_close(r->model);
}

static const char *check_io(const Run *r, igata_status status)
{
    const ArtifactCase *c = r->c;
    if (status != IGATA_OK && !(c->index_error && status == IGATA_E_INDEX))
        return arena_printf(c->arena, "runs with status: %s", igata_status_text(status));
    for (uint32_t i = 0; i < c->n_in + c->n_out; i++)
        if (!guarded_is_intact(&r->io[i]))
            return arena_printf(c->arena, "writes outside of io buffer %u", i);
    if (r->workspace.map && !guarded_is_intact(&r->workspace))
        return "writes outside of the workspace";
    for (uint32_t i = 0; i < c->n_in; i++)
        if (memcmp(r->io[i].data, c->in[i]->data, r->io[i].bytes) != 0)
            return arena_printf(c->arena, "changes input %u", i);
    for (uint32_t i = 0; i < c->n_out; i++) {
        const Tensor *want = c->want[i];
        const void *got = r->io[c->n_in + i].data;
        uint64_t at = 0;
        if (!tensor_same_bits(want->dtype, got, want->data, want->count, &at))
            return dtype_is_float(want->dtype)
                       ? arena_printf(c->arena, "output %u, element %llu: %.9g instead of %.9g", i, (unsigned long long)at,
                                      elem_get_f64(want->dtype, got, at), elem_get_f64(want->dtype, want->data, at))
                       : arena_printf(c->arena, "output %u, element %llu: %lld instead of %lld", i, (unsigned long long)at,
                                      (long long)elem_get_s64(want->dtype, got, at),
                                      (long long)elem_get_s64(want->dtype, want->data, at));
    }
    return NULL;
}

static const char *check_shapes(const Run *r, const int64_t *sizes)
{
    const ArtifactCase *c = r->c;
    int64_t dims[IR_MAX_RANK];
    for (uint32_t i = 0; i < c->n_out; i++)
        if (igata_shape(r->model, 0, c->n_in + i, sizes, dims) != IGATA_OK ||
            memcmp(dims, c->want[i]->dim, c->want[i]->rank * sizeof *dims) != 0)
            return arena_printf(c->arena, "tells another shape of output %u", i);
    return NULL;
}

static const char *run_twice(Run *r)
{
    const ArtifactCase *c = r->c;
    igata_entry entry = {.size = sizeof entry};
    if (igata_entry_info(r->model, 0, &entry) != IGATA_OK || entry.inputs != c->n_in || entry.outputs != c->n_out)
        return "describes other inputs and outputs";
    void **io = ARENA_ARRAY(c->arena, void *, c->n_in + c->n_out + 1);
    const int64_t **shapes = ARENA_ARRAY(c->arena, const int64_t *, c->n_in + 1);
    int64_t *sizes = ARENA_ARRAY(c->arena, int64_t, entry.sizes + entry.found + 1);
    for (uint32_t i = 0; i < c->n_in; i++)
        shapes[i] = c->in[i]->dim;
    if (igata_sizes(r->model, 0, shapes, sizes) != IGATA_OK)
        return "refuses the sizes of the inputs";
    for (uint32_t i = 0; i < c->n_in + c->n_out; i++)
        io[i] = r->io[i].data;
    const char *wrong = entry.found ? NULL : check_shapes(r, sizes);
    memset(sizes + entry.sizes, 0xFF, entry.found * sizeof *sizes);
    io[c->n_in + c->n_out] = sizes;
    r->workspace = guarded_make(igata_workspace(r->model, 0, c->threads), 0xFF);
    igata_pool *pool = NULL;
    if (c->threads > 1 && igata_pool_create(c->threads, 20, &pool) != IGATA_OK)
        return "no pool";
    for (int round = 0; round < 2 && !wrong; round++) { /* the second run finds what the first left */
        for (uint32_t i = 0; i < c->n_out; i++)
            memset(r->io[c->n_in + i].data, 0xFF, r->io[c->n_in + i].bytes);
        wrong = check_io(r, pool ? igata_pool_run(pool, r->model, 0, io, r->workspace.data, NULL)
                                 : igata_run(r->model, 0, io, r->workspace.data, NULL));
        wrong = wrong ? wrong : check_shapes(r, sizes);
    }
    if (pool) {
        igata_pool_quiesce(pool);
        igata_pool_destroy(pool);
    }
    return wrong;
}

const char *artifact_wrong(const ArtifactCase *c)
{
    Run r = {.c = c};
    const char *wrong = open_model(&r);
    if (!wrong)
        wrong = run_twice(&r);
    close_model(&r);
    return wrong;
}

/* ---- eager steps ---------------------------------------------------------------------------------------------------------- */

static const char *run_step(Run *r, const EagerPlan *plan, uint32_t index, Guarded *value, int64_t *sizes, igata_status *worst)
{
    const EagerStep *step = &plan->step[index];
    void **io = ARENA_ARRAY(r->c->arena, void *, step->n_in + step->n_out + 1);
    io[step->n_in + step->n_out] = sizes;
    for (uint32_t i = 0; i < step->n_in; i++)
        io[i] = value[step->in[i]].data;
    for (uint32_t i = 0; i < step->n_out; i++)
        io[step->n_in + i] = value[step->out[i]].data;
    Guarded workspace = guarded_make(igata_workspace(r->model, index, 1), 0xFF);
    igata_status status = igata_run(r->model, index, io, workspace.data, NULL);
    bool intact = guarded_is_intact(&workspace);
    guarded_free(&workspace);
    if (status != IGATA_OK)
        *worst = status;
    for (uint32_t i = 0; i < plan->n_values; i++)
        if (value[i].map && !guarded_is_intact(&value[i]))
            return arena_printf(r->c->arena, "step %u writes outside of value %u", index, i);
    return intact ? NULL : arena_printf(r->c->arena, "step %u writes outside of its scratch", index);
}

const char *artifact_eager_wrong(const ArtifactCase *c, const EagerPlan *plan)
{
    Run r = {.c = c};
    const char *wrong = open_model(&r);
    Guarded *value = ARENA_ARRAY(c->arena, Guarded, plan->n_values + 1);
    igata_status status = IGATA_OK;
    for (uint32_t i = 0; i < plan->n_values && !wrong; i++)
        value[i] = guarded_make(plan->bytes[i], 0xFF);
    for (uint32_t i = 0; i < plan->n_in && !wrong; i++)
        if (plan->in[i] != UINT32_MAX)
            memcpy(value[plan->in[i]].data, r.io[i].data, r.io[i].bytes);
    EagerRun run = {0};
    int64_t *sizes = ARENA_ARRAY(c->arena, int64_t, plan->n_sizes + 1);
    void **at = ARENA_ARRAY(c->arena, void *, plan->n_values + 1);
    for (uint32_t i = 0; i < plan->n_values && !wrong; i++)
        at[i] = value[i].data;
    for (uint32_t i = 0; !wrong && (i = driver_eager_next(plan, &run, i, at, sizes)) < plan->n_steps; i++) {
        wrong = run_step(&r, plan, i, value, sizes, &status);
        for (uint32_t v = 0; v < plan->n_values; v++) /* what is dead must not be read again */
            if (plan->last[v] == i)
                memset(value[v].data, 0xFF, value[v].bytes);
    }
    if (run.error)
        status = IGATA_E_BOUND;
    for (uint32_t i = 0; i < plan->n_out && !wrong; i++)
        memcpy(r.io[c->n_in + i].data, value[plan->out[i]].data, r.io[c->n_in + i].bytes);
    if (!wrong)
        wrong = check_io(&r, status);
    for (uint32_t i = 0; i < plan->n_values; i++)
        guarded_free(&value[i]);
    close_model(&r);
    return wrong;
}
