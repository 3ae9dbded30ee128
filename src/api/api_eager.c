/* SPDX-License-Identifier: Apache-2.0
 *
 * Eager execution, as a framework does it without its compiler: one kernel per op of the model, called one by one; each op's
 * outputs are allocated when it runs and given back after their last use. The kernels are compiled by the same code generator
 * for one op at a time. Allocation is a cache of blocks by size class, as in frameworks: after the first run no memory is asked
 * of the system. Dispatch is one igata_run (or igata_pool_run) per op, with its argument checks.
 */
#include "api/api_int.h"

#include <string.h>

enum { SIZE_CLASSES = 64 };

typedef struct Block {
    struct Block *next;
    void *data;
    uint32_t size_class;
} Block;

struct Eager {
    const EagerPlan *plan;
    Block **value;              /* what each value lives in now; NULL: in nothing, or in the caller's memory */
    void **at;                  /* its address: of the block, or of an input or output of the program */
    int64_t *sizes;             /* that the run finds */
    Block *cache[SIZE_CLASSES]; /* of 2^i bytes, free */
    void **io;
};

Eager *eager_create(igata_session *s, Shaped *shaped, const char *path)
{
    Arena *arena = ctx_arena(s->owner->ctx);
    const EagerPlan *plan = driver_write_eager(shaped->program, arena, path);
    if (!plan)
        return NULL;
    Eager *e = ARENA_NEW(arena, Eager);
    uint32_t most = 0;
    e->plan = plan;
    e->value = ARENA_ARRAY(arena, Block *, plan->n_values + 1);
    e->at = ARENA_ARRAY(arena, void *, plan->n_values + 1);
    e->sizes = ARENA_ARRAY(arena, int64_t, plan->n_sizes + 1);
    for (uint32_t i = 0; i < plan->n_steps; i++)
        if (plan->step[i].n_in + plan->step[i].n_out > most)
            most = plan->step[i].n_in + plan->step[i].n_out;
    e->io = ARENA_ARRAY(arena, void *, most + 2);
    const Func *func = shaped->program->func;
    for (uint32_t i = 0; i < plan->n_in; i++)
        if (plan->in[i] != UINT32_MAX)
            e->at[plan->in[i]] = shaped->in[i]->data;
    for (uint32_t i = 0; i < plan->n_out; i++) {
        const Type *type = func_out(func, i)->type;
        Tensor *t = ARENA_NEW(arena, Tensor);
        *t = (Tensor){.dtype = type->dtype, .store = type->dtype, .rank = type->rank};
        t->data = e->at[plan->out[i]] = api_aligned(arena, plan->bytes[plan->out[i]]);
        shaped->out[i] = t;
    }
    return e;
}

static void take(Eager *e, Arena *arena, uint32_t value)
{
    uint32_t size_class = 6;
    if (e->at[value])
        return;
    while ((UINT64_C(1) << size_class) < e->plan->bytes[value])
        size_class++;
    Block *block = e->cache[size_class];
    if (block) {
        e->cache[size_class] = block->next;
    } else {
        block = ARENA_NEW(arena, Block);
        block->size_class = size_class;
        block->data = api_aligned(arena, UINT64_C(1) << size_class);
    }
    e->value[value] = block;
    e->at[value] = block->data;
}

static void give(Eager *e, uint32_t value)
{
    Block *block = e->value[value];
    if (!block)
        return;
    block->next = e->cache[block->size_class];
    e->cache[block->size_class] = block;
    e->value[value] = NULL;
    e->at[value] = NULL;
}

static igata_status run_step(igata_session *s, Shaped *shaped, uint32_t index)
{
    Eager *e = shaped->eager;
    const EagerStep *step = &e->plan->step[index];
    uint64_t error = 0;
    for (uint32_t v = 0; v < step->n_in; v++)
        e->io[v] = e->at[step->in[v]];
    for (uint32_t v = 0; v < step->n_out; v++) {
        take(e, ctx_arena(s->owner->ctx), step->out[v]);
        e->io[step->n_in + v] = e->at[step->out[v]];
    }
    e->io[step->n_in + step->n_out] = e->sizes;
    igata_status status = engine_run(s, shaped, index, e->io, &error);
    return status == IGATA_OK ? status : api_explain(s, shaped, status, error);
}

igata_status eager_step(igata_session *s, Shaped *shaped)
{
    Eager *e = shaped->eager;
    const EagerPlan *plan = e->plan;
    Context *ctx = s->owner->ctx;
    EagerRun run = {0};
    igata_status status = IGATA_OK;
    if (!shaped->workspace) {
        size_t most = 0;
        for (uint32_t i = 0; i < plan->n_steps; i++) {
            size_t bytes = igata_workspace(shaped->model, i, s->options->threads);
            most = bytes > most ? bytes : most;
        }
        shaped->workspace = api_aligned(ctx_arena(ctx), most);
    }
    for (uint32_t v = 0; v < plan->n_values; v++)
        if (plan->last[v] == UINT32_MAX)
            take(e, ctx_arena(ctx), v);
    memset(e->sizes, 0, plan->n_sizes * sizeof *e->sizes);
    for (uint32_t i = 0; status == IGATA_OK && (i = driver_eager_next(plan, &run, i, e->at, e->sizes)) < plan->n_steps; i++) {
        const EagerStep *step = &plan->step[i];
        status = run_step(s, shaped, i);
        for (uint32_t v = 0; v < step->n_in; v++)
            if (plan->last[step->in[v]] == i)
                give(e, step->in[v]);
    }
    for (uint32_t v = 0; v < plan->n_values; v++)
        give(e, v);
    for (uint32_t i = 0; i < plan->n_out; i++)
        api_set_shape(ctx, shaped->program, e->sizes, func_out(shaped->program->func, i)->type, shaped->out[i]);
    return status == IGATA_OK && run.error ? api_node_error(s, shaped->program->func, run.error) : status;
}
