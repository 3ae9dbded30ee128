/* SPDX-License-Identifier: Apache-2.0 */
#include "support/run_schedule.h"

#include <string.h>

void run_schedule(const Schedule *s, void *const *in, void *const *out, uint64_t *error)
{
    Arena *arena = arena_create(s->ctx);
    char *workspace = arena_alloc(arena, s->workspace_bytes + 64), *scratch = arena_alloc(arena, s->scratch_bytes + 64);
    char *weights = arena_alloc(arena, s->weight_bytes + 64);
    memset(workspace, 0xFF, s->workspace_bytes);
    for (uint32_t i = 0; i < s->weights.len; i++) {
        const PackedWeight *w = s->weights.data[i];
        sched_pack(w, 0, w->bytes / ((uint64_t)dtype_bits(w->dtype) / 8), weights + w->offset);
    }
    for (uint32_t p = 0; p < s->phases.len; p++) {
        const Phase *phase = &s->phases.data[p];
        const Kernel *k = s->kernels.data[phase->kernel];
        void **data = ARENA_ARRAY(arena, void *, k->bufs.len + 1);
        for (uint32_t b = 0; b < k->bufs.len; b++) {
            const Slot *slot = &phase->slots[b];
            data[b] = slot->kind == SLOT_INPUT     ? in[slot->index]
                      : slot->kind == SLOT_OUTPUT  ? (char *)out[slot->index] + slot->offset
                      : slot->kind == SLOT_WEIGHTS ? weights + slot->offset
                      : slot->kind == SLOT_SCRATCH ? scratch + slot->offset
                                                   : workspace + slot->offset;
        }
        for (int64_t tile = phase->tiles; tile-- > 0;) {
            memset(scratch, 0xFF, s->scratch_bytes);
            kernel_interp(k, data, tile, tile + 1, error);
        }
    }
    arena_destroy(arena);
}
