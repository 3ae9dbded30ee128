/* SPDX-License-Identifier: Apache-2.0
 *
 * An ArtImage as the tables of format.h, and the weights as a stream. The image comes from the driver, but what it
 * holds comes from a model, so limits of the format are diagnostics; contradictions are bugs, caught by running
 * art_check, the gate that every reader uses, over the result.
 */
#include "art/art_int.h"

/* ---- sink --------------------------------------------------------------------------------------------------- */

void art_sink_write(ArtSink *sink, const void *data, size_t bytes)
{
    file_write(sink->file, data, bytes);
    sha256_add(&sink->sha, data, bytes);
    sink->written += bytes;
}

void art_sink_zeros(ArtSink *sink, uint64_t count)
{
    static const uint8_t zeros[4096];
    for (; count > sizeof zeros; count -= sizeof zeros)
        art_sink_write(sink, zeros, sizeof zeros);
    art_sink_write(sink, zeros, (size_t)count);
}

uint64_t art_weights_bytes(const ArtImage *image)
{
    if (image->n_weights == 0)
        return 0;
    const ArtWeight *last = &image->weights[image->n_weights - 1];
    return art_round(last->offset + last->bytes, ART_ALIGN);
}

bool art_sink_weights(Context *ctx, ArtSink *sink, const ArtImage *image, uint64_t start)
{
    for (uint32_t i = 0; i < image->n_weights; i++) {
        const ArtWeight *w = &image->weights[i];
        uint64_t at = start + w->offset;
        IG_CHECK(ctx, at >= sink->written && w->offset % ART_ALIGN == 0);
        art_sink_zeros(sink, at - sink->written);
        if (w->bytes && !w->write(w->user, sink))
            return false;
        if (sink->written != at + w->bytes)
            ig_bug(ctx, "weight '%s': %llu bytes written, %llu declared", art_or_empty(w->name),
                   (unsigned long long)(sink->written - at), (unsigned long long)w->bytes);
    }
    art_sink_zeros(sink, start + art_weights_bytes(image) - sink->written);
    return true;
}

/* ---- tables ------------------------------------------------------------------------------------------------- */

typedef struct Describe {
    Context *ctx;
    Arena *arena;
    const ArtImage *image;
    Text strings;
    VEC(ArtRecEntry) entries;
    VEC(ArtRecValue) values;
    VEC(int64_t) dims;
    VEC(ArtRecPhase) phases;
    VEC(ArtRecBuf) bufs;
    VEC(ArtRecKernel) kernels;
    VEC(ArtRecVariant) variants;
    VEC(ArtRecCode) code;
    VEC(ArtRecWeight) weights;
    VEC(ArtRecPlan) plan;
    VEC(ArtRecValue) states;
} Describe;

static ArtText add_text(Describe *d, const char *text)
{
    if (!text || !*text)
        return 0;
    size_t at = d->strings.len;
    text_add_n(&d->strings, text, strlen(text) + 1);
    return (ArtText)at;
}

static bool describe_value(Describe *d, const ArtValue *v, const char *what, ArtRecValue *rec)
{
    uint64_t n = 1;
    bool good = v->rank <= ART_MAX_RANK;
    for (uint32_t i = 0; good && i < v->rank; i++)
        good = v->dims[i] >= 0 && !__builtin_mul_overflow(n, (uint64_t)v->dims[i], &n);
    *rec = (ArtRecValue){.name = add_text(d, v->name),
                         .dtype = (uint32_t)dtype_to_onnx(v->dtype),
                         .rank = v->rank,
                         .first_dim = d->dims.len,
                         .offset = v->offset};
    if (!good || !dtype_bytes(v->dtype, n, &rec->bytes))
        return diag_report(d->ctx, 0, DIAG_art_limit,
                           str_format(d->ctx, "%s '%s' has no static packed size", what, art_or_empty(v->name)));
    for (uint32_t i = 0; i < v->rank; i++)
        vec_push(d->arena, &d->dims, v->dims[i]);
    return true;
}

static bool describe_values(Describe *d, const ArtValue *values, uint32_t n, const char *what)
{
    for (uint32_t i = 0; i < n; i++) {
        ArtRecValue rec;
        if (!describe_value(d, &values[i], what, &rec))
            return false;
        vec_push(d->arena, &d->values, rec);
    }
    return true;
}

static bool describe_entry(Describe *d, const ArtEntry *e)
{
    ArtRecEntry rec = {.name = add_text(d, e->name),
                       .n_inputs = e->n_inputs,
                       .n_outputs = e->n_outputs,
                       .first_value = d->values.len,
                       .first_phase = d->phases.len,
                       .n_phases = e->n_phases,
                       .first_plan = d->plan.len,
                       .n_plan = e->n_plan,
                       .workspace_bytes = art_round(e->workspace_bytes, ART_ALIGN),
                       .scratch_bytes = art_round(e->scratch_bytes_per_slot, ART_ALIGN),
                       .peak_bytes = e->peak_bytes,
                       .lower_bound_bytes = e->lower_bound_bytes};
    if (!describe_values(d, e->inputs, e->n_inputs, "input") || !describe_values(d, e->outputs, e->n_outputs, "output"))
        return false;
    for (uint32_t i = 0; i < e->n_phases; i++) {
        const ArtPhase *p = &e->phases[i];
        if (p->n_bufs > ART_MAX_BUFS) {
            const char *kernel = d->image->kernels[p->kernel].symbol;
            return diag_report(d->ctx, 0, DIAG_art_limit,
                               str_format(d->ctx, "kernel '%s' has %u buffers, at most %d are supported", kernel,
                                          p->n_bufs, ART_MAX_BUFS));
        }
        ArtRecPhase phase = {.kernel = p->kernel, .n_bufs = p->n_bufs, .first_buf = d->bufs.len, .tiles = p->tiles};
        vec_push(d->arena, &d->phases, phase);
        for (uint32_t b = 0; b < p->n_bufs; b++) {
            ArtRecBuf buf = {.kind = p->bufs[b].kind, .index = p->bufs[b].index, .offset = p->bufs[b].offset};
            vec_push(d->arena, &d->bufs, buf);
        }
    }
    for (uint32_t i = 0; i < e->n_plan; i++) {
        const ArtPlan *p = &e->plan[i];
        ArtRecPlan plan = {add_text(d, p->name), p->first, p->last, 0, p->offset, p->bytes};
        vec_push(d->arena, &d->plan, plan);
    }
    vec_push(d->arena, &d->entries, rec);
    return true;
}

static bool describe_code(Describe *d)
{
    const ArtImage *image = d->image;
    for (uint32_t i = 0; i < image->n_kernels; i++) {
        const ArtKernel *k = &image->kernels[i];
        ArtRecKernel rec = {add_text(d, k->symbol),
                            add_text(d, k->nodes),
                            add_text(d, k->line),
                            add_text(d, k->classes),
                            k->flops,
                            k->bytes};
        vec_push(d->arena, &d->kernels, rec);
    }
    for (uint32_t v = 0; v < image->n_variants; v++) {
        ArtRecVariant rec = {.name = add_text(d, image->variants[v].name), .first_code = d->code.len};
        if (!art_cpu_features(d->ctx, image->machine, image->variants[v].name, image->variants[v].features,
                              &rec.features))
            return false;
        vec_push(d->arena, &d->variants, rec);
        for (uint32_t k = 0; k < image->n_kernels; k++)
            vec_push(d->arena, &d->code, (ArtRecCode){0});
    }
    return true;
}

/* ---- layout --------------------------------------------------------------------------------------------------- */

typedef struct Piece {
    ArtRef *ref;
    const void *data;
    uint64_t count, record;
} Piece;

static ArtHeader *assemble(Describe *d, ArtHeader *head)
{
    const Piece pieces[] = {
        {&head->entries, d->entries.data, d->entries.len, sizeof(ArtRecEntry)},
        {&head->values, d->values.data, d->values.len, sizeof(ArtRecValue)},
        {&head->dims, d->dims.data, d->dims.len, sizeof(int64_t)},
        {&head->phases, d->phases.data, d->phases.len, sizeof(ArtRecPhase)},
        {&head->bufs, d->bufs.data, d->bufs.len, sizeof(ArtRecBuf)},
        {&head->kernels, d->kernels.data, d->kernels.len, sizeof(ArtRecKernel)},
        {&head->variants, d->variants.data, d->variants.len, sizeof(ArtRecVariant)},
        {&head->code, d->code.data, d->code.len, sizeof(ArtRecCode)},
        {&head->weight_list, d->weights.data, d->weights.len, sizeof(ArtRecWeight)},
        {&head->plan, d->plan.data, d->plan.len, sizeof(ArtRecPlan)},
        {&head->states, d->states.data, d->states.len, sizeof(ArtRecValue)},
        {&head->strings, d->strings.data, d->strings.len, 1},
    };
    uint64_t size = sizeof *head;
    for (size_t i = 0; i < IG_COUNT(pieces); i++)
        size += art_round(pieces[i].count * pieces[i].record, 8);
    if (size > INT32_MAX) {
        diag_report(d->ctx, 0, DIAG_art_limit, "its description is larger than 2 GiB");
        return NULL;
    }
    head->bytes = (uint32_t)size;
    uint8_t *out = arena_alloc(d->arena, size);
    uint64_t at = sizeof *head;
    for (size_t i = 0; i < IG_COUNT(pieces); i++) {
        *pieces[i].ref = (ArtRef){(uint32_t)at, (uint32_t)pieces[i].count};
        if (pieces[i].count)
            memcpy(out + at, pieces[i].data, pieces[i].count * pieces[i].record);
        at += art_round(pieces[i].count * pieces[i].record, 8);
    }
    memcpy(out, head, sizeof *head);
    return (ArtHeader *)(void *)out;
}

ArtHeader *art_describe(Context *ctx, Arena *arena, const ArtImage *image)
{
    Describe d = {.ctx = ctx, .arena = arena, .image = image};
    text_init(&d.strings, arena);
    text_add_n(&d.strings, "", 1); /* text 0 */
    ArtHeader head = {.version = ART_FORMAT_VERSION,
                      .machine = image->machine == ART_X86_64 ? EM_X86_64 : EM_AARCH64,
                      .flags = image->ftz ? ART_FLAG_FTZ : 0,
                      .weights_bytes = art_weights_bytes(image),
                      .igata_version = add_text(&d, image->igata_version),
                      .triple = add_text(&d, image->triple),
                      .opt_level = add_text(&d, image->opt_level)};
    memcpy(head.magic, ART_MAGIC, 8);
    memcpy(head.model_sha256, image->model_sha256, 32);
    memcpy(head.options_sha256, image->options_sha256, 32);
    Sha256 sha;
    sha256_begin(&sha);
    sha256_add(&sha, art_or_empty(image->igata_version), strlen(art_or_empty(image->igata_version)));
    sha256_end(&sha, head.compiler_sha256);
    for (uint32_t i = 0; i < image->n_states; i++) {
        ArtRecValue rec;
        if (!describe_value(&d, &image->states[i], "state", &rec))
            return NULL;
        vec_push(arena, &d.states, rec);
        uint64_t end = art_round(rec.offset + rec.bytes, ART_ALIGN);
        head.state_bytes = end > head.state_bytes ? end : head.state_bytes;
    }
    for (uint32_t i = 0; i < image->n_entries; i++)
        if (!describe_entry(&d, &image->entries[i]))
            return NULL;
    if (!describe_code(&d))
        return NULL;
    for (uint32_t i = 0; i < image->n_weights; i++) {
        const ArtWeight *w = &image->weights[i];
        ArtRecWeight rec = {add_text(&d, w->name), 0, w->offset, w->bytes};
        vec_push(arena, &d.weights, rec);
    }
    ArtHeader *out = assemble(&d, &head);
    if (!out)
        return NULL;
    out->file_bytes = out->weights_bytes + sizeof(ArtTrailer); /* replaced at layout */
    if (!art_check(out, out->bytes))
        ig_bug(ctx, "artifact description contradicts itself (an index or offset in it)");
    return out;
}
