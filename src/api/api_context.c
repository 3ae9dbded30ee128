/* SPDX-License-Identifier: Apache-2.0
 * Contexts and messages: the boundary at which unwinding becomes a status. */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#endif
#include "api/api_int.h"

#include <string.h>
#include <time.h>

typedef struct Call {
    igata_status (*body)(void *arg);
    void *arg;
    igata_status status;
} Call;

static void call_body(void *arg)
{
    Call *call = arg;
    call->status = call->body(call->arg);
}

igata_status api_run(igata_context *ctx, igata_status (*body)(void *arg), void *arg)
{
    Call call = {body, arg, IGATA_E_BUG};
    uint32_t seen = diag_count(ctx->ctx), errors = diag_errors(ctx->ctx);
    switch (ctx_protect(ctx->ctx, call_body, &call)) {
    case CTX_NOMEM:
        return IGATA_E_MEMORY;
    case CTX_BUG:
        return IGATA_E_BUG;
    default:
        break;
    }
    for (uint32_t i = seen; i < diag_count(ctx->ctx); i++) /* an invalid module after a pass is a bug that did not unwind */
        if (diag_get(ctx->ctx, i)->severity == SEV_BUG)
            return IGATA_E_BUG;
    bool reported = diag_errors(ctx->ctx) > errors;
    return call.status == IGATA_OK && reported ? IGATA_E_MODEL : call.status;
}

typedef struct Create {
    Context *ctx;
    igata_context *made;
} Create;

static void create_body(void *arg)
{
    Create *create = arg;
    create->made = ARENA_NEW(ctx_arena(create->ctx), igata_context);
    create->made->ctx = create->ctx;
}

igata_context *igata_context_create(void)
{
    Create create = {.ctx = ctx_create(NULL)};
    if (create.ctx && ctx_protect(create.ctx, create_body, &create) != CTX_OK) {
        ctx_destroy(create.ctx);
        return NULL;
    }
    return create.made;
}

void igata_context_destroy(igata_context *ctx)
{
    if (!ctx)
        return;
    while (ctx->sessions)
        igata_session_close(ctx->sessions);
    ctx_destroy(ctx->ctx);
}

size_t igata_message_count(const igata_context *ctx) { return diag_count(ctx->ctx); }

typedef struct Message {
    igata_context *ctx;
    size_t index;
    const char *text;
} Message;

static igata_status message_body(void *arg)
{
    Message *m = arg;
    const Diag *diag = m->index < diag_count(m->ctx->ctx) ? diag_get(m->ctx->ctx, (uint32_t)m->index) : NULL;
    Text text;
    if (!diag)
        return IGATA_E_ARGUMENT;
    text_init(&text, ctx_arena(m->ctx->ctx));
    diag_print(m->ctx->ctx, &text, diag);
    m->text = text.data;
    return IGATA_OK;
}

const char *igata_message_text(igata_context *ctx, size_t index)
{
    Message message = {ctx, index, ""};
    api_run(ctx, message_body, &message);
    return message.text;
}

int igata_message_is_error(const igata_context *ctx, size_t index)
{
    const Diag *diag = index < diag_count(ctx->ctx) ? diag_get(ctx->ctx, (uint32_t)index) : NULL;
    return diag && (diag->severity == SEV_ERROR || diag->severity == SEV_BUG);
}

void igata_messages_clear(igata_context *ctx) { diag_clear(ctx->ctx); }

const char *igata_version(void) { return "igata 0.1.0"; }

typedef struct Alloc {
    igata_context *ctx;
    size_t bytes;
    void *memory;
} Alloc;

static igata_status alloc_body(void *arg)
{
    Alloc *a = arg;
    a->memory = api_aligned(ctx_arena(a->ctx->ctx), a->bytes);
    return IGATA_OK;
}

void *igata_alloc(igata_context *ctx, size_t bytes)
{
    Alloc a = {ctx, bytes, NULL};
    api_run(ctx, alloc_body, &a);
    return a.memory;
}

void *api_aligned(Arena *arena, uint64_t bytes)
{
    if (bytes > SIZE_MAX - 128)
        ig_bug(arena_context(arena), "a buffer of %llu bytes", (unsigned long long)bytes);
    uint8_t *memory = arena_alloc(arena, (size_t)bytes + 64);
    return memory + (64 - (uintptr_t)memory % 64) % 64;
}

double api_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void api_add_times(igata_context *ctx, const Program *program)
{
    for (uint32_t i = 0; i < program->times.len; i++)
        vec_push(ctx_arena(ctx->ctx), &ctx->times, program->times.data[i]);
}

int igata_pass_time(const igata_context *ctx, size_t index, const char **pass, double *seconds)
{
    if (index >= ctx->times.len)
        return 0;
    *pass = ctx->times.data[index].pass;
    *seconds = ctx->times.data[index].seconds;
    return 1;
}
