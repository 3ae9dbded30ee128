/* SPDX-License-Identifier: Apache-2.0
 *
 * The Context: memory source, unwinding, per-layer slots. What a Context owns dies with it: arenas, mapped files,
 * output files that were not committed.
 */
#include "base/base_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *default_alloc(void *user, size_t bytes)
{
    (void)user;
    return malloc(bytes);
}

static void default_release(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

void *ctx_take(Context *ctx, size_t bytes)
{
    void *memory = ctx->source.alloc(ctx->source.user, bytes ? bytes : 1);
    if (!memory)
        ctx_unwind(ctx, CTX_NOMEM);
    return memory;
}

void ctx_give(Context *ctx, void *pointer)
{
    if (pointer)
        ctx->source.release(ctx->source.user, pointer);
}

/* Without a ctx_protect there is nobody to return to, and going on would be undefined: that is the caller's bug. */
void ctx_unwind(Context *ctx, CtxStatus status)
{
    if (!ctx->frame)
        abort();
    ctx->status = status;
    longjmp(ctx->frame->env, 1);
}

CtxStatus ctx_protect(Context *ctx, void (*body)(void *arg), void *arg)
{
    Frame frame;
    frame.outer = ctx->frame;
    ctx->frame = &frame;
    if (setjmp(frame.env) == 0) {
        body(arg);
        ctx->status = CTX_OK;
    }
    ctx->frame = frame.outer;
    return ctx->status;
}

static void fill_context(void *arg)
{
    Context *ctx = arg;
    ctx->arena = arena_create(ctx);
    ctx->diag_arena = arena_create(ctx);
    ctx->strings = intern_create(ctx->arena);
    loc_begin(ctx);
    diag_begin(ctx);
}

Context *ctx_create(const Allocator *allocator)
{
    Allocator source = {default_alloc, default_release, NULL};
    if (allocator)
        source = *allocator;
    Context *ctx = source.alloc(source.user, sizeof *ctx);
    if (!ctx)
        return NULL;
    memset(ctx, 0, sizeof *ctx);
    ctx->source = source;
    if (ctx_protect(ctx, fill_context, ctx) != CTX_OK) {
        ctx_destroy(ctx);
        return NULL;
    }
    return ctx;
}

Context *ctx_create_inner(Context *outer)
{
    if (outer->source.alloc != default_alloc)
        return NULL;
    Context *inner = ctx_create(NULL);
    if (!inner)
        ctx_unwind(outer, CTX_NOMEM);
    inner->outer = outer;
    inner->next_inner = outer->inner;
    outer->inner = inner;
    return inner;
}

void ctx_destroy(Context *ctx)
{
    if (!ctx)
        return;
    while (ctx->inner)
        ctx_destroy(ctx->inner);
    for (Context **link = ctx->outer ? &ctx->outer->inner : NULL; link && *link; link = &(*link)->next_inner)
        if (*link == ctx) {
            *link = ctx->next_inner;
            break;
        }
    file_release_all(ctx);
    while (ctx->arenas)
        arena_destroy(ctx->arenas);
    Allocator source = ctx->source;
    source.release(source.user, ctx);
}

Arena *ctx_arena(Context *ctx) { return ctx->arena; }

void **ctx_ir_slot(Context *ctx) { return &ctx->ir; }

void ig_bug(Context *ctx, const char *format, ...)
{
    char text[2048]; /* on the stack: a bug must be reportable when little else works */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    diag_report(ctx, 0, DIAG_bug, text);
    ctx_unwind(ctx, CTX_BUG);
}
