/* SPDX-License-Identifier: Apache-2.0
 *
 * What an opened model says about itself, and a run on the calling thread: a loop over the phases.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#endif
#include "rt/rt_int.h"

#include <time.h>

const char *igata_status_text(igata_status status)
{
    static const char *const texts[IGATA_STATUS_COUNT] = {
        [IGATA_OK] = "no error",
        [IGATA_E_ARGUMENT] = "an argument is NULL, out of range, or a struct of unknown size",
        [IGATA_E_FILE] = "the file cannot be opened or read",
        [IGATA_E_FORMAT] = "the file is not an igata artifact, is damaged, or needs a newer runtime",
        [IGATA_E_MACHINE] = "the artifact is for another kind of machine",
        [IGATA_E_CPU] = "this CPU lacks the features that the artifact needs",
        [IGATA_E_VARIANT] = "the artifact has no variant of that name",
        [IGATA_E_HASH] = "the content of the artifact does not match its SHA-256",
        [IGATA_E_MEMORY] = "out of memory, or memory cannot be locked",
        [IGATA_E_NULL] = "an input, output, workspace or state pointer is NULL",
        [IGATA_E_ALIGN] = "an input, output, workspace or state pointer is not aligned to 64 bytes",
        [IGATA_E_INDEX] = "an index was out of range while running",
        [IGATA_E_BUSY] = "the job still runs",
        [IGATA_E_THREADS] = "too many threads, or they cannot be started",
        [IGATA_E_SIZE] = "a size is outside its range, or not what another input says",
        [IGATA_E_BOUND] =
            "a loop needs more trips than its bound (--bound, when the model is compiled), a result more elements, or a loop does not end",
    };
    return status >= 0 && status < IGATA_STATUS_COUNT ? texts[status] : "unknown status";
}

/* ---- description ------------------------------------------------------------------------------------------------ */

/* Callers of an older header have a shorter struct: they get its first fields. */
static igata_status give(void *out, const void *full, size_t full_size)
{
    size_t size;
    memcpy(&size, out, sizeof size);
    if (size < sizeof size || size > full_size)
        return IGATA_E_ARGUMENT;
    memcpy((uint8_t *)out + sizeof size, (const uint8_t *)full + sizeof size, size - sizeof size);
    return IGATA_OK;
}

igata_status igata_info(const igata_model *model, igata_model_info *info)
{
    if (!model || !info)
        return IGATA_E_ARGUMENT;
    const ArtHeader *h = model->h;
    igata_model_info full = {.variant = art_text(h, model->variant->name),
                             .triple = art_text(h, h->triple),
                             .opt_level = art_text(h, h->opt_level),
                             .version = art_text(h, h->igata_version),
                             .entries = h->entries.count,
                             .kernels = model->variant->n_kernels,
                             .states = h->states.count,
                             .state_bytes = h->state_bytes,
                             .weights_bytes = h->weights_bytes,
                             .file_bytes = h->file_bytes};
    for (uint32_t k = 0; k < model->variant->n_kernels; k++)
        full.code_bytes += model->kernels[k].code_bytes;
    return give(info, &full, sizeof full);
}

size_t igata_entry_count(const igata_model *model) { return model ? model->h->entries.count : 0; }

int igata_entry_find(const igata_model *model, const char *name)
{
    for (uint32_t i = 0; model && name && i < model->h->entries.count; i++)
        if (strcmp(art_text(model->h, model->entries[i].name), name) == 0)
            return (int)i;
    return -1;
}

igata_status igata_entry_info(const igata_model *model, size_t entry, igata_entry *info)
{
    if (!model || !info || entry >= model->h->entries.count)
        return IGATA_E_ARGUMENT;
    const ArtRecEntry *e = &model->entries[entry];
    const ArtRecBody *body = &model->bodies[entry];
    igata_entry full = {.name = art_text(model->h, e->name),
                        .inputs = e->n_inputs,
                        .outputs = e->n_outputs,
                        .phases = body->n_phases,
                        .workspace_bytes = body->workspace_bytes,
                        .scratch_bytes = body->scratch_bytes,
                        .sizes = e->n_symbols,
                        .found = e->n_found,
                        .steps = body->n_steps};
    return give(info, &full, sizeof full);
}

igata_status igata_phase_info(const igata_model *model, size_t entry, size_t index, igata_phase *info)
{
    if (!model || !info || entry >= model->h->entries.count || index >= model->bodies[entry].n_phases)
        return IGATA_E_ARGUMENT;
    const ArtRecPhase *phase = &model->phases[model->bodies[entry].first_phase + index];
    const ArtRecKernel *k = &model->kernels[phase->kernel];
    igata_phase full = {.kernel = art_text(model->h, k->symbol),
                        .nodes = art_text(model->h, k->nodes),
                        .flops = k->flops,
                        .bytes = k->bytes};
    for (uint32_t i = 0; i < phase->n_bufs; i++)
        full.bounded |= model->bufs[phase->first_buf + i].kind == ART_SIZES;
    return give(info, &full, sizeof full);
}

static igata_status give_value(const igata_model *model, const ArtRecValue *v, igata_value *info)
{
    igata_value full = {.name = art_text(model->h, v->name),
                        .dtype = (int)v->dtype,
                        .rank = v->rank,
                        .dims = ART_TABLE(model->h, dims, int64_t) + v->first_dim,
                        .bytes = v->bytes,
                        .offset = v->offset,
                        .bounds = ART_TABLE(model->h, bounds, int64_t) + v->first_dim};
    return give(info, &full, sizeof full);
}

igata_status igata_io_info(const igata_model *model, size_t entry, size_t index, igata_value *info)
{
    if (!model || !info || entry >= model->h->entries.count)
        return IGATA_E_ARGUMENT;
    const ArtRecEntry *e = &model->entries[entry];
    if (index >= (size_t)e->n_inputs + e->n_outputs)
        return IGATA_E_ARGUMENT;
    return give_value(model, &model->values[e->first_value + index], info);
}

igata_status igata_state_info(const igata_model *model, size_t index, igata_value *info)
{
    if (!model || !info || index >= model->h->states.count)
        return IGATA_E_ARGUMENT;
    return give_value(model, ART_TABLE(model->h, states, ArtRecValue) + index, info);
}

/* ---- sizes that a run decides ----------------------------------------------------------------------------------- */

static const ArtRecEntry *find_entry(const igata_model *model, size_t entry)
{
    return model && entry < model->h->entries.count ? &model->entries[entry] : NULL;
}

static int64_t dim_of(const igata_model *model, const ArtRecValue *v, uint32_t axis, const int64_t *size)
{
    uint32_t record = ART_TABLE(model->h, dim_sizes, uint32_t)[v->first_dim + axis];
    return record ? size[record - 1] : ART_TABLE(model->h, dims, int64_t)[v->first_dim + axis];
}

igata_status igata_size_info(const igata_model *model, size_t entry, size_t index, igata_size *info)
{
    const ArtRecEntry *e = find_entry(model, entry);
    if (!e || !info || index >= (size_t)e->n_symbols + e->n_found)
        return IGATA_E_ARGUMENT;
    const ArtRecSize *size = ART_TABLE(model->h, sizes, ArtRecSize) + e->first_size + index;
    igata_size full = {.name = art_text(model->h, size->name), .lo = size->lo, .hi = size->hi};
    return give(info, &full, sizeof full);
}

igata_status igata_sizes(const igata_model *model, size_t entry, const int64_t *const shapes[], int64_t sizes[])
{
    const ArtRecEntry *e = find_entry(model, entry);
    int64_t size[ART_MAX_SIZES];
    uint32_t n = e ? e->n_symbols + e->n_found : 0;
    if (!e || (e->n_inputs && !shapes) || (n && !sizes))
        return IGATA_E_ARGUMENT;
    const ArtRecValue *values = &model->values[e->first_value];
    for (uint32_t s = 0; s < n; s++)
        sizes[s] = s < e->n_symbols ? -1 : 0;
    for (uint32_t i = 0; i < e->n_inputs; i++)
        for (uint32_t d = 0; d < values[i].rank; d++) {
            uint32_t record = ART_TABLE(model->h, dim_sizes, uint32_t)[values[i].first_dim + d];
            if (record && record <= e->n_symbols)
                sizes[record - 1] = shapes[i][d];
        }
    if (!art_find_sizes(model->h, e, sizes, size))
        return IGATA_E_SIZE;
    for (uint32_t i = 0; i < e->n_inputs; i++)
        for (uint32_t d = 0; d < values[i].rank; d++)
            if (shapes[i][d] != dim_of(model, &values[i], d, size))
                return IGATA_E_SIZE;
    return IGATA_OK;
}

igata_status igata_shape(const igata_model *model, size_t entry, size_t index, const int64_t sizes[], int64_t dims[])
{
    const ArtRecEntry *e = find_entry(model, entry);
    int64_t size[ART_MAX_SIZES];
    if (!e || index >= (size_t)e->n_inputs + e->n_outputs || !dims || (e->n_symbols + e->n_found && !sizes))
        return IGATA_E_ARGUMENT;
    if (!art_find_sizes(model->h, e, sizes, size))
        return IGATA_E_SIZE;
    const ArtRecValue *v = &model->values[e->first_value + index];
    for (uint32_t d = 0; d < v->rank; d++)
        dims[d] = dim_of(model, v, d, size);
    return IGATA_OK;
}

size_t igata_workspace(const igata_model *model, size_t entry, unsigned threads)
{
    if (!model || entry >= model->h->entries.count || threads == 0 || threads > IGATA_MAX_THREADS)
        return 0;
    const ArtRecBody *body = &model->bodies[entry];
    uint64_t bytes = body->workspace_bytes + threads * body->scratch_bytes;
    return bytes ? bytes : ART_ALIGN;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* What kernels were promised about the symbols, and all that follows from it. */
static igata_status check_sizes(const igata_model *model, const ArtRecEntry *e, const int64_t *sizes)
{
    const ArtRecSize *size = ART_TABLE(model->h, sizes, ArtRecSize) + e->first_size;
    if (!sizes && e->n_symbols + e->n_found)
        return IGATA_E_NULL;
    if ((uintptr_t)sizes % sizeof *sizes)
        return IGATA_E_ALIGN;
    for (uint32_t i = 0; i < e->n_symbols; i++)
        if (sizes[i] < size[i].lo || sizes[i] > size[i].hi)
            return IGATA_E_SIZE;
    return IGATA_OK;
}

igata_status rt_check_run(const igata_model *model, size_t entry, void *const io[], const void *workspace,
                          const void *state)
{
    if (!model || entry >= model->h->entries.count)
        return IGATA_E_ARGUMENT;
    const ArtRecEntry *e = &model->entries[entry];
    const ArtRecBody *body = &model->bodies[entry];
    uint32_t n = e->n_inputs + e->n_outputs, n_sizes = e->n_symbols + e->n_found;
    uintptr_t all = (uintptr_t)workspace | (uintptr_t)state;
    if (n + n_sizes && !io)
        return IGATA_E_NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!io[i])
            return IGATA_E_NULL;
        all |= (uintptr_t)io[i];
    }
    if ((!workspace && (body->workspace_bytes || body->scratch_bytes)) || (!state && model->h->state_bytes))
        return IGATA_E_NULL;
    return all % ART_ALIGN ? IGATA_E_ALIGN : check_sizes(model, e, n_sizes ? io[n] : NULL);
}

void rt_control_begin(ArtWalk *walk, const RtRun *run, const ArtRecEntry *entry)
{
    walk->step = 0;
    for (uint32_t i = 0; i < entry->n_found; i++) /* those that no step of this run reaches are 0 */
        ((int64_t *)run->io[entry->n_inputs + entry->n_outputs])[entry->n_symbols + i] = 0;
}

typedef struct Words {
    const RtRun *run;
    const ArtRecEntry *entry;
    const ArtRecBody *body;
} Words;

static void *word_at(const void *user, const ArtRecBuf *word)
{
    const Words *w = user;
    return rt_address(w->run, w->entry, w->body, word, 0);
}

uint32_t rt_control(ArtWalk *walk, const RtRun *run, const ArtRecEntry *entry, const ArtRecBody *body, uint32_t phase,
                    uint64_t *error)
{
    if (body->n_steps == walk->step)
        return phase;
    const Words words = {run, entry, body};
    const ArtPlaces places = {word_at, &words, entry->n_found ? run->io[entry->n_inputs + entry->n_outputs] : NULL, error};
    return art_walk(walk, run->model->steps + body->first_step, body->n_steps, phase, &places);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Inlined where `times` is NULL, so that nothing of the clock is left in a run that nobody times. */
static inline __attribute__((always_inline)) igata_status run_phases(const igata_model *model, size_t entry, void *const io[],
                                                                     void *workspace, void *state, uint64_t *error,
                                                                     igata_timing *times)
{
    igata_status status = rt_check_run(model, entry, io, workspace, state);
    if (error)
        *error = 0;
    if (status != IGATA_OK)
        return status;
    const ArtRecBody *body = &model->bodies[entry];
    const ArtRecPhase *phases = model->phases + body->first_phase;
    RtRun run = {model, io, workspace, state};
    uint64_t word = 0;
    void *bufs[ART_MAX_BUFS];
    const ArtRecEntry *e = &model->entries[entry];
    ArtWalk control;
    unsigned old = rt_fp_enter(model->fp_mode);
    rt_control_begin(&control, &run, e);
    uint64_t mark = times ? now_ns() : 0;
    for (uint32_t i = 0; (i = rt_control(&control, &run, e, body, i, &word)) < body->n_phases; i++) {
        rt_resolve(&run, e, body, &phases[i], 0, bufs);
        rt_kernel(model, phases[i].kernel)(bufs, 0, (int64_t)phases[i].tiles, &word);
        if (times) {
            uint64_t end = now_ns();
            times[i].ns += end - mark;
            times[i].executions++;
            mark = end;
        }
    }
    rt_fp_leave(old, model->fp_mode);
    if (error)
        *error = word;
    return rt_status(word);
}

igata_status igata_run_report(const igata_model *model, size_t entry, void *const io[], void *workspace, void *state,
                              uint64_t *error)
{
    return run_phases(model, entry, io, workspace, state, error, NULL);
}

igata_status igata_run_timed(const igata_model *model, size_t entry, void *const io[], void *workspace, void *state,
                             uint64_t *error, igata_timing times[])
{
    if (times)
        return run_phases(model, entry, io, workspace, state, error, times);
    if (error)
        *error = 0;
    return IGATA_E_ARGUMENT;
}

igata_status igata_run(const igata_model *model, size_t entry, void *const io[], void *workspace, void *state)
{
    return igata_run_report(model, entry, io, workspace, state, NULL);
}

const char *igata_error_node(const igata_model *model, uint64_t error)
{
    return model && error ? art_node_name(model->h, error >> 8) : NULL;
}
