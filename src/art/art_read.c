/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a description back. The file is mapped, art_find is the gate, and what lies behind it is followed without
 * further checks. Texts stay in the mapping, which lives as long as the Context.
 */
#include "art/art_int.h"
#include <stdio.h>

static const ArtHeader *find(Context *ctx, const char *path, Blob *blob)
{
    if (!file_map(ctx, path, blob))
        return NULL;
    const ArtHeader *h = (uintptr_t)blob->data % 8 == 0 ? art_find(blob->data, blob->size) : NULL;
    if (h && h->machine != EM_X86_64 && h->machine != EM_AARCH64)
        h = NULL;
    if (!h)
        diag_report(ctx, 0, DIAG_art_format, path);
    return h;
}

static ArtValue *read_values(Arena *arena, const ArtHeader *h, const ArtRecValue *recs, uint32_t n)
{
    ArtValue *values = ARENA_ARRAY(arena, ArtValue, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        values[i] = (ArtValue){.name = art_text(h, recs[i].name),
                               .dtype = dtype_from_onnx(recs[i].dtype),
                               .rank = recs[i].rank,
                               .dims = ART_TABLE(h, bounds, int64_t) + recs[i].first_dim,
                               .dim_size = ART_TABLE(h, dim_sizes, uint32_t) + recs[i].first_dim,
                               .offset = recs[i].offset};
    return values;
}

static ArtBuf read_buf(const ArtRecBuf *b) { return (ArtBuf){(ArtBufKind)b->kind, b->index, b->offset, b->written != 0}; }

static ArtPhase *read_phases(Arena *arena, const ArtHeader *h, const ArtRecBody *e)
{
    ArtPhase *phases = ARENA_ARRAY(arena, ArtPhase, (size_t)e->n_phases + 1);
    const ArtRecPhase *recs = ART_TABLE(h, phases, ArtRecPhase) + e->first_phase;
    for (uint32_t i = 0; i < e->n_phases; i++) {
        ArtBuf *bufs = ARENA_ARRAY(arena, ArtBuf, (size_t)recs[i].n_bufs + 1);
        const ArtRecBuf *rec = ART_TABLE(h, bufs, ArtRecBuf) + recs[i].first_buf;
        for (uint32_t b = 0; b < recs[i].n_bufs; b++)
            bufs[b] = read_buf(&rec[b]);
        phases[i] = (ArtPhase){recs[i].kernel, recs[i].tiles, bufs, recs[i].n_bufs};
    }
    return phases;
}

static ArtStep *read_steps(Arena *arena, const ArtHeader *h, const ArtRecBody *e)
{
    ArtStep *steps = ARENA_ARRAY(arena, ArtStep, (size_t)e->n_steps + 1);
    const ArtRecStep *recs = ART_TABLE(h, steps, ArtRecStep) + e->first_step;
    for (uint32_t i = 0; i < e->n_steps; i++)
        steps[i] = (ArtStep){(ArtStepKind)recs[i].kind, recs[i].phase, recs[i].target, recs[i].depth,
                             recs[i].flags, recs[i].node, recs[i].size, recs[i].bound,
                             read_buf(&recs[i].counter), read_buf(&recs[i].go), read_buf(&recs[i].trip)};
    return steps;
}

static ArtPlan *read_plan(Arena *arena, const ArtHeader *h, const ArtRecBody *e)
{
    ArtPlan *plan = ARENA_ARRAY(arena, ArtPlan, (size_t)e->n_plan + 1);
    const ArtRecPlan *recs = ART_TABLE(h, plan, ArtRecPlan) + e->first_plan;
    for (uint32_t i = 0; i < e->n_plan; i++)
        plan[i] = (ArtPlan){art_text(h, recs[i].name), recs[i].offset, recs[i].bytes, recs[i].first, recs[i].last, recs[i].view_of};
    return plan;
}

static ArtSize *read_sizes(Arena *arena, const ArtHeader *h, const ArtRecEntry *e)
{
    ArtSize *sizes = ARENA_ARRAY(arena, ArtSize, (size_t)e->n_sizes + 1);
    const ArtRecSize *recs = ART_TABLE(h, sizes, ArtRecSize) + e->first_size;
    for (uint32_t i = 0; i < e->n_sizes; i++)
        sizes[i] = (ArtSize){(ArtSizeOp)recs[i].op, art_text(h, recs[i].name), recs[i].a, recs[i].b, recs[i].lo, recs[i].hi};
    return sizes;
}

static void read_entries(Arena *arena, const ArtHeader *h, ArtImage *image)
{
    ArtEntry *entries = ARENA_ARRAY(arena, ArtEntry, (size_t)h->entries.count + 1);
    const ArtRecEntry *recs = ART_TABLE(h, entries, ArtRecEntry);
    for (uint32_t i = 0; i < h->entries.count; i++) {
        const ArtRecEntry *e = &recs[i];
        const ArtRecValue *values = ART_TABLE(h, values, ArtRecValue) + e->first_value;
        entries[i] = (ArtEntry){.name = art_text(h, e->name),
                                .inputs = read_values(arena, h, values, e->n_inputs),
                                .outputs = read_values(arena, h, values + e->n_inputs, e->n_outputs),
                                .n_inputs = e->n_inputs,
                                .n_outputs = e->n_outputs,
                                .sizes = read_sizes(arena, h, e),
                                .n_sizes = e->n_sizes,
                                .n_symbols = e->n_symbols,
                                .n_found = e->n_found};
    }
    image->entries = entries;
    image->n_entries = h->entries.count;
}

static ArtBody *read_bodies(Arena *arena, const ArtHeader *h, const ArtRecVariant *v)
{
    ArtBody *bodies = ARENA_ARRAY(arena, ArtBody, (size_t)h->entries.count + 1);
    for (uint32_t i = 0; i < h->entries.count; i++) {
        const ArtRecBody *rec = ART_TABLE(h, bodies, ArtRecBody) + v->first_body + i;
        bodies[i] = (ArtBody){.workspace_bytes = rec->workspace_bytes,
                              .scratch_bytes_per_slot = rec->scratch_bytes,
                              .phases = read_phases(arena, h, rec),
                              .n_phases = rec->n_phases,
                              .steps = read_steps(arena, h, rec),
                              .n_steps = rec->n_steps,
                              .plan = read_plan(arena, h, rec),
                              .n_plan = rec->n_plan,
                              .peak_bytes = rec->peak_bytes,
                              .lower_bound_bytes = rec->lower_bound_bytes};
    }
    return bodies;
}

static void read_variants(Arena *arena, const ArtHeader *h, ArtImage *image)
{
    ArtVariant *variants = ARENA_ARRAY(arena, ArtVariant, (size_t)h->variants.count + 1);
    for (uint32_t i = 0; i < h->variants.count; i++) {
        const ArtRecVariant *v = ART_TABLE(h, variants, ArtRecVariant) + i;
        ArtKernel *kernels = ARENA_ARRAY(arena, ArtKernel, (size_t)v->n_kernels + 1);
        variants[i] = (ArtVariant){.name = art_text(h, v->name),
                                   .bodies = read_bodies(arena, h, v),
                                   .kernels = kernels,
                                   .n_kernels = v->n_kernels};
        for (uint32_t k = 0; k < v->n_kernels; k++) {
            const ArtRecKernel *rec = ART_TABLE(h, kernels, ArtRecKernel) + v->first_kernel + k;
            kernels[k] = (ArtKernel){art_text(h, rec->symbol),
                                     art_text(h, rec->nodes),
                                     art_text(h, rec->line),
                                     art_text(h, rec->classes),
                                     rec->flops,
                                     rec->bytes,
                                     rec->code_bytes};
            variants[i].code_bytes += rec->code_bytes;
        }
    }
    image->variants = variants;
    image->n_variants = h->variants.count;
}

static void read_nodes(Arena *arena, const ArtHeader *h, ArtImage *image)
{
    ArtNode *nodes = ARENA_ARRAY(arena, ArtNode, (size_t)h->nodes.count + 1);
    for (uint32_t i = 0; i < h->nodes.count; i++) {
        const ArtRecNode *rec = ART_TABLE(h, nodes, ArtRecNode) + i;
        nodes[i] = (ArtNode){rec->id, art_text(h, rec->name)};
    }
    image->nodes = nodes;
    image->n_nodes = h->nodes.count;
}

ArtInfo *art_decode(Context *ctx, const ArtHeader *h)
{
    Arena *arena = ctx_arena(ctx);
    ArtInfo *info = ARENA_NEW(arena, ArtInfo);
    info->file_bytes = h->file_bytes;
    info->weights_bytes = h->weights_bytes;
    info->state_bytes = h->state_bytes;
    ArtImage *image = &info->image;
    image->machine = h->machine == EM_X86_64 ? ART_X86_64 : ART_AARCH64;
    image->triple = art_text(h, h->triple);
    image->opt_level = art_text(h, h->opt_level);
    image->igata_version = art_text(h, h->igata_version);
    image->ftz = h->flags & ART_FLAG_FTZ;
    memcpy(image->model_sha256, h->model_sha256, 32);
    memcpy(image->options_sha256, h->options_sha256, 32);
    memcpy(image->compiler_sha256, h->compiler_sha256, 32);
    read_entries(arena, h, image);
    read_variants(arena, h, image);
    read_nodes(arena, h, image);
    ArtWeight *weights = ARENA_ARRAY(arena, ArtWeight, (size_t)h->weight_list.count + 1);
    for (uint32_t i = 0; i < h->weight_list.count; i++) {
        const ArtRecWeight *w = ART_TABLE(h, weight_list, ArtRecWeight) + i;
        weights[i] = (ArtWeight){.name = art_text(h, w->name), .offset = w->offset, .bytes = w->bytes};
    }
    image->weights = weights;
    image->n_weights = h->weight_list.count;
    image->states = read_values(arena, h, ART_TABLE(h, states, ArtRecValue), h->states.count);
    image->n_states = h->states.count;
    return info;
}

ArtInfo *art_read(Context *ctx, const char *path)
{
    Blob blob;
    const ArtHeader *h = find(ctx, path, &blob);
    return h ? art_decode(ctx, h) : NULL;
}

bool art_verify(Context *ctx, const char *path)
{
    Blob blob;
    if (!find(ctx, path, &blob))
        return false;
    uint64_t content = blob.size - sizeof(ArtTrailer);
    Sha256 sha;
    uint8_t digest[32];
    sha256_begin(&sha);
    sha256_add(&sha, blob.data, content);
    sha256_end(&sha, digest);
    ArtTrailer trailer;
    memcpy(&trailer, blob.data + content, sizeof trailer);
    if (memcmp(trailer.magic, ART_TRAILER_MAGIC, 8) != 0 || memcmp(trailer.sha256, digest, 32) != 0)
        return diag_report(ctx, 0, DIAG_art_hash, path);
    return true;
}

bool art_is_artifact(const char *path)
{
    Elf64_Ehdr eh;
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    bool whole = fread(&eh, sizeof eh, 1, file) == 1;
    fclose(file);
    return whole && memcmp(eh.e_ident, ELFMAG, SELFMAG) == 0;
}
