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
    Map *texts; /* interned text -> its offset */
    VEC(ArtRecEntry) entries;
    VEC(ArtRecBody) bodies;
    VEC(ArtRecValue) values;
    VEC(int64_t) dims, bounds;
    VEC(uint32_t) dim_sizes;
    VEC(ArtRecSize) sizes;
    VEC(ArtRecPhase) phases;
    VEC(ArtRecBuf) bufs;
    VEC(ArtRecKernel) kernels;
    VEC(ArtRecVariant) variants;
    VEC(ArtRecWeight) weights;
    VEC(ArtRecPlan) plan;
    VEC(ArtRecValue) states;
    VEC(ArtRecNode) nodes;
    VEC(ArtRecStep) steps;
} Describe;

/* Equal texts are stored once: variants mostly say the same. */
static ArtText add_text(Describe *d, const char *text)
{
    if (!text || !*text)
        return 0;
    void **slot = map_slot(d->texts, KEY(str_intern(d->ctx, text)));
    if (!*slot) {
        *slot = (void *)(uintptr_t)d->strings.len;
        text_add_n(&d->strings, text, strlen(text) + 1);
    }
    return (ArtText)(uintptr_t)*slot;
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
    for (uint32_t i = 0; i < v->rank; i++) {
        uint32_t size = v->dim_size ? v->dim_size[i] : 0;
        vec_push(d->arena, &d->dims, size ? -1 : v->dims[i]);
        vec_push(d->arena, &d->bounds, v->dims[i]);
        vec_push(d->arena, &d->dim_sizes, size);
    }
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
                       .first_size = d->sizes.len,
                       .n_sizes = e->n_sizes,
                       .n_symbols = e->n_symbols,
                       .n_found = e->n_found};
    vec_push(d->arena, &d->entries, rec);
    if (e->n_sizes > ART_MAX_SIZES)
        return diag_report(d->ctx, 0, DIAG_art_limit,
                           str_format(d->ctx, "%u sizes depend on the run, at most %d are supported", e->n_sizes, ART_MAX_SIZES));
    for (uint32_t i = 0; i < e->n_sizes; i++) {
        const ArtSize *s = &e->sizes[i];
        ArtRecSize size = {s->op, add_text(d, s->name), s->a, s->b, s->lo, s->hi};
        vec_push(d->arena, &d->sizes, size);
    }
    return describe_values(d, e->inputs, e->n_inputs, "input") &&
           describe_values(d, e->outputs, e->n_outputs, "output");
}

static ArtRecBuf buf_record(const ArtBuf *b) { return (ArtRecBuf){(uint16_t)b->kind, b->written, b->index, b->offset}; }

static bool describe_body(Describe *d, const ArtVariant *v, const ArtBody *body)
{
    ArtRecBody rec = {.first_phase = d->phases.len,
                      .n_phases = body->n_phases,
                      .first_plan = d->plan.len,
                      .n_plan = body->n_plan,
                      .first_step = d->steps.len,
                      .n_steps = body->n_steps,
                      .workspace_bytes = art_round(body->workspace_bytes, ART_ALIGN),
                      .scratch_bytes = art_round(body->scratch_bytes_per_slot, ART_ALIGN),
                      .peak_bytes = body->peak_bytes,
                      .lower_bound_bytes = body->lower_bound_bytes};
    vec_push(d->arena, &d->bodies, rec);
    for (uint32_t i = 0; i < body->n_phases; i++) {
        const ArtPhase *p = &body->phases[i];
        IG_CHECK(d->ctx, p->kernel < v->n_kernels);
        if (p->n_bufs > ART_MAX_BUFS)
            return diag_report(d->ctx, 0, DIAG_art_limit,
                               str_format(d->ctx, "kernel '%s' has %u buffers, at most %d are supported",
                                          v->kernels[p->kernel].symbol, p->n_bufs, ART_MAX_BUFS));
        ArtRecPhase phase = {.kernel = p->kernel, .n_bufs = p->n_bufs, .first_buf = d->bufs.len, .tiles = p->tiles};
        vec_push(d->arena, &d->phases, phase);
        for (uint32_t b = 0; b < p->n_bufs; b++) {
            ArtRecBuf buf = buf_record(&p->bufs[b]);
            vec_push(d->arena, &d->bufs, buf);
        }
    }
    for (uint32_t i = 0; i < body->n_steps; i++) {
        const ArtStep *s = &body->steps[i];
        if (s->depth >= ART_MAX_DEPTH)
            return diag_report(d->ctx, 0, DIAG_art_limit,
                               str_format(d->ctx, "branches and loops nest deeper than %d", ART_MAX_DEPTH));
        ArtRecStep step = {s->kind, s->phase, s->target, s->depth, s->flags, s->node, s->size, 0, s->bound,
                           buf_record(&s->counter), buf_record(&s->go), buf_record(&s->trip)};
        vec_push(d->arena, &d->steps, step);
    }
    for (uint32_t i = 0; i < body->n_plan; i++) {
        const ArtPlan *p = &body->plan[i];
        ArtRecPlan plan = {add_text(d, p->name), p->first, p->last, p->view_of, p->offset, p->bytes};
        vec_push(d->arena, &d->plan, plan);
    }
    return true;
}

static bool describe_variant(Describe *d, const ArtVariant *v)
{
    const ArtImage *image = d->image;
    ArtRecVariant rec = {.name = add_text(d, v->name),
                         .first_kernel = d->kernels.len,
                         .n_kernels = v->n_kernels,
                         .first_body = d->bodies.len};
    if (!art_cpu_features(d->ctx, image->machine, v->name, v->features, &rec.features))
        return false;
    vec_push(d->arena, &d->variants, rec);
    for (uint32_t i = 0; i < v->n_kernels; i++) {
        const ArtKernel *k = &v->kernels[i];
        ArtRecKernel kernel = {.symbol = add_text(d, k->symbol),
                               .nodes = add_text(d, k->nodes),
                               .line = add_text(d, k->line),
                               .classes = add_text(d, k->classes),
                               .flops = k->flops,
                               .bytes = k->bytes};
        vec_push(d->arena, &d->kernels, kernel);
    }
    for (uint32_t i = 0; i < image->n_entries; i++)
        if (!describe_body(d, v, &v->bodies[i]))
            return false;
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
        {&head->bounds, d->bounds.data, d->bounds.len, sizeof(int64_t)},
        {&head->dim_sizes, d->dim_sizes.data, d->dim_sizes.len, sizeof(uint32_t)},
        {&head->sizes, d->sizes.data, d->sizes.len, sizeof(ArtRecSize)},
        {&head->bodies, d->bodies.data, d->bodies.len, sizeof(ArtRecBody)},
        {&head->phases, d->phases.data, d->phases.len, sizeof(ArtRecPhase)},
        {&head->bufs, d->bufs.data, d->bufs.len, sizeof(ArtRecBuf)},
        {&head->kernels, d->kernels.data, d->kernels.len, sizeof(ArtRecKernel)},
        {&head->variants, d->variants.data, d->variants.len, sizeof(ArtRecVariant)},
        {&head->weight_list, d->weights.data, d->weights.len, sizeof(ArtRecWeight)},
        {&head->plan, d->plan.data, d->plan.len, sizeof(ArtRecPlan)},
        {&head->states, d->states.data, d->states.len, sizeof(ArtRecValue)},
        {&head->nodes, d->nodes.data, d->nodes.len, sizeof(ArtRecNode)},
        {&head->steps, d->steps.data, d->steps.len, sizeof(ArtRecStep)},
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
    d.texts = map_create(arena);
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
    for (uint32_t i = 0; i < image->n_variants; i++)
        if (!describe_variant(&d, &image->variants[i]))
            return NULL;
    for (uint32_t i = 0; i < image->n_weights; i++) {
        const ArtWeight *w = &image->weights[i];
        ArtRecWeight rec = {add_text(&d, w->name), 0, w->offset, w->bytes};
        vec_push(arena, &d.weights, rec);
    }
    for (uint32_t i = 0; i < image->n_nodes; i++) {
        ArtRecNode rec = {image->nodes[i].id, add_text(&d, image->nodes[i].name)};
        IG_CHECK(ctx, i == 0 || image->nodes[i - 1].id < rec.id);
        vec_push(arena, &d.nodes, rec);
    }
    ArtHeader *out = assemble(&d, &head);
    if (!out)
        return NULL;
    out->file_bytes = out->weights_bytes + sizeof(ArtTrailer); /* replaced at layout */
    if (!art_check(out, out->bytes))
        ig_bug(ctx, "artifact description contradicts itself (an index or offset in it)");
    return out;
}
