/* SPDX-License-Identifier: Apache-2.0
 *
 * Artifacts: a file that begins like ELF is searched for a description, anything else is taken as one. What the check
 * accepts must be readable to the last byte: everything the reader returns is touched.
 */
#include "art/art_int.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t touch_text(const char *text) { return hash_bytes(text, strlen(text), 1); }

static uint64_t touch_values(const ArtValue *values, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += touch_text(values[i].name) + hash_bytes(values[i].dims, values[i].rank * sizeof(int64_t), 1);
    return sum;
}

static uint64_t touch_body(const ArtBody *body, uint32_t n_kernels)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < body->n_phases; i++) {
        const ArtPhase *phase = &body->phases[i];
        if (phase->kernel >= n_kernels || phase->n_bufs > ART_MAX_BUFS || phase->tiles == 0)
            abort();
        sum += hash_bytes(phase->bufs, phase->n_bufs * sizeof(ArtBuf), 1);
    }
    for (uint32_t i = 0; i < body->n_plan; i++)
        sum += touch_text(body->plan[i].name);
    return sum;
}

static uint64_t touch_variant(const ArtVariant *v, uint32_t n_entries)
{
    uint64_t sum = touch_text(v->name);
    for (uint32_t i = 0; i < n_entries; i++)
        sum += touch_body(&v->bodies[i], v->n_kernels);
    for (uint32_t i = 0; i < v->n_kernels; i++)
        sum += touch_text(v->kernels[i].symbol) + touch_text(v->kernels[i].nodes) + touch_text(v->kernels[i].line) +
               touch_text(v->kernels[i].classes);
    return sum;
}

static void check(void *arg)
{
    void **input = arg;
    Context *ctx = input[0];
    const ArtInfo *info = art_decode(ctx, input[1]);
    const ArtImage *image = &info->image;
    volatile uint64_t sum = touch_text(image->triple) + touch_text(image->igata_version) + touch_text(image->opt_level);
    for (uint32_t i = 0; i < image->n_entries; i++) {
        const ArtEntry *e = &image->entries[i];
        sum += touch_text(e->name) + touch_values(e->inputs, e->n_inputs) + touch_values(e->outputs, e->n_outputs);
    }
    for (uint32_t i = 0; i < image->n_variants; i++)
        sum += touch_variant(&image->variants[i], image->n_entries);
    for (uint32_t i = 0; i < image->n_nodes; i++)
        sum += touch_text(image->nodes[i].name);
    for (uint32_t i = 0; i < image->n_weights; i++)
        sum += touch_text(image->weights[i].name);
    sum += touch_values(image->states, image->n_states);
    (void)sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1); /* aligned, and not a byte longer */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    const ArtHeader *h = NULL;
    if (size >= SELFMAG && memcmp(copy, ELFMAG, SELFMAG) == 0)
        h = art_find(copy, size);
    else if (art_check((const ArtHeader *)(const void *)copy, size))
        h = (const ArtHeader *)(const void *)copy;
    if (h) {
        Context *ctx = ctx_create(NULL);
        void *input[2] = {ctx, (void *)(uintptr_t)h};
        if (ctx && ctx_protect(ctx, check, input) == CTX_BUG)
            abort();
        ctx_destroy(ctx);
    }
    free(copy);
    return 0;
}
