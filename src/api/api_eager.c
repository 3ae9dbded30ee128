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
    Block **value;              /* what each value lives in now */
    void **fixed;               /* inputs and outputs of the program: the caller's memory, else NULL */
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
    e->fixed = ARENA_ARRAY(arena, void *, plan->n_values + 1);
    for (uint32_t i = 0; i < plan->n_steps; i++)
        if (plan->step[i].n_in + plan->step[i].n_out > most)
            most = plan->step[i].n_in + plan->step[i].n_out;
    e->io = ARENA_ARRAY(arena, void *, most + 1);
    const Func *func = shaped->program->func;
    for (uint32_t i = 0; i < plan->n_in; i++)
        if (plan->in[i] != UINT32_MAX)
            e->fixed[plan->in[i]] = shaped->in[i]->data;
    for (uint32_t i = 0; i < plan->n_out; i++) {
        const Type *type = func_out(func, i)->type;
        Tensor *t = ARENA_NEW(arena, Tensor);
        *t = (Tensor){.dtype = type->dtype, .store = type->dtype, .rank = type->rank};
        if (!type_count(type, &t->count))
            ig_bug(s->owner->ctx, "a dynamic result in a program");
        for (uint32_t a = 0; a < type->rank; a++)
            t->dim[a] = type_dim(type, a);
        t->data = e->fixed[plan->out[i]] = api_aligned(arena, plan->bytes[plan->out[i]]);
        shaped->out[i] = t;
    }
    return e;
}

static Block *take(Eager *e, Arena *arena, uint64_t bytes)
{
    uint32_t size_class = 6;
    while ((UINT64_C(1) << size_class) < bytes)
        size_class++;
    Block *block = e->cache[size_class];
    if (block) {
        e->cache[size_class] = block->next;
        return block;
    }
    block = ARENA_NEW(arena, Block);
    block->size_class = size_class;
    block->data = api_aligned(arena, UINT64_C(1) << size_class);
    return block;
}

static void give(Eager *e, uint32_t value)
{
    Block *block = e->value[value];
    block->next = e->cache[block->size_class];
    e->cache[block->size_class] = block;
    e->value[value] = NULL;
}

static void *address(const Eager *e, uint32_t value)
{
    return e->fixed[value] ? e->fixed[value] : e->value[value]->data;
}

igata_status eager_step(igata_session *s, Shaped *shaped)
{
    Eager *e = shaped->eager;
    const EagerPlan *plan = e->plan;
    Arena *arena = ctx_arena(s->owner->ctx);
    if (!shaped->workspace) {
        size_t most = 0;
        for (uint32_t i = 0; i < plan->n_steps; i++) {
            size_t bytes = igata_workspace(shaped->model, i, s->options->threads);
            most = bytes > most ? bytes : most;
        }
        shaped->workspace = api_aligned(arena, most);
    }
    for (uint32_t i = 0; i < plan->n_steps; i++) {
        const EagerStep *step = &plan->step[i];
        for (uint32_t v = 0; v < step->n_in; v++)
            e->io[v] = address(e, step->in[v]);
        for (uint32_t v = 0; v < step->n_out; v++) {
            if (!e->fixed[step->out[v]] && !e->value[step->out[v]])
                e->value[step->out[v]] = take(e, arena, plan->bytes[step->out[v]]);
            e->io[step->n_in + v] = address(e, step->out[v]);
        }
        uint64_t error = 0;
        igata_status status;
        if (s->pool) {
            status = igata_pool_run(s->pool, shaped->model, i, e->io, shaped->workspace, NULL);
            error = status != IGATA_OK ? igata_pool_error(s->pool) : 0;
        } else {
            status = igata_run_report(shaped->model, i, e->io, shaped->workspace, NULL, &error);
        }
        if (status != IGATA_OK)
            return api_explain(s, shaped, status, error);
        for (uint32_t v = 0; v < step->n_in; v++)
            if (!e->fixed[step->in[v]] && plan->last[step->in[v]] == i && e->value[step->in[v]])
                give(e, step->in[v]);
    }
    return IGATA_OK;
}
