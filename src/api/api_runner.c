/* SPDX-License-Identifier: Apache-2.0
 *
 * Artifacts of another machine: a small static program of that machine (tools/runner) opens the artifact and runs it under an
 * emulator, the --runner command. Inputs and outputs are raw files in a private folder.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "api/api_int.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_WORDS = 64 };

static bool runner_error(igata_session *s, const char *text)
{
    return diag_report(s->owner->ctx, 0, DIAG_api_runner, text);
}

/* Outputs as the program declares them: the artifact cannot be opened here. */
igata_status runner_prepare(igata_session *s, Shaped *shaped)
{
    Arena *arena = ctx_arena(s->owner->ctx);
    const Func *func = shaped->program->func;
    for (uint32_t i = 0; i < shaped->n_out; i++) {
        const Type *type = func_out(func, i)->type;
        Tensor *t = ARENA_NEW(arena, Tensor);
        uint64_t bytes = 0;
        *t = (Tensor){.dtype = type->dtype, .store = type->dtype, .rank = type->rank};
        if (!type_count_bound(type, &t->count) || !dtype_bytes(type->dtype, t->count, &bytes))
            ig_bug(s->owner->ctx, "a result without a bound in a program");
        t->data = api_aligned(arena, bytes);
        shaped->out[i] = t;
    }
    return IGATA_OK;
}

/* What the run has found: the shapes of outputs. */
static bool read_found(igata_session *s, Shaped *shaped, const char *dir)
{
    Context *ctx = s->owner->ctx;
    const Schedule *schedule = shaped->program->variant[0].schedule;
    int64_t *sizes = ARENA_ARRAY(ctx_arena(ctx), int64_t, schedule->n_syms + 1);
    Blob blob = {0};
    if (schedule->n_syms && !file_map(ctx, str_format(ctx, "%s/found0", dir), &blob))
        return false;
    if (blob.size != schedule->n_syms * sizeof *sizes)
        return runner_error(s, "what the run has found has the wrong size");
    if (blob.size)
        memcpy(sizes, blob.data, blob.size);
    for (uint32_t i = 0; i < shaped->n_out; i++)
        api_set_shape(ctx, shaped->program, sizes, func_out(shaped->program->func, i)->type, shaped->out[i]);
    return true;
}

static bool write_raw(Context *ctx, const char *path, const Tensor *t)
{
    uint64_t bytes;
    return dtype_bytes(t->dtype, t->count, &bytes) && file_write_all(ctx, path, t->data, (size_t)bytes);
}

static bool read_raw(igata_session *s, const char *path, Tensor *t)
{
    Blob blob;
    uint64_t bytes;
    if (!file_map(s->owner->ctx, path, &blob) || !dtype_bytes(t->dtype, t->count, &bytes))
        return false;
    if (blob.size != bytes)
        return runner_error(s, "an output has the wrong size");
    if (bytes)
        memcpy(t->data, blob.data, (size_t)bytes);
    return true;
}

/* Exit status of CMD PROGRAM ARTIFACT FOLDER THREADS, -1 after reporting. */
static int spawn(igata_session *s, const Shaped *shaped, const char *dir)
{
    Context *ctx = s->owner->ctx;
    const igata_options *o = s->options;
    char *words[MAX_WORDS + 6];
    uint32_t n = 0;
    for (const char *at = o->runner; *at;) {
        size_t length = strcspn(at, " ");
        if (length && n < MAX_WORDS)
            words[n++] = (char *)(uintptr_t)str_intern_n(ctx, at, length);
        at += length + (at[length] == ' ');
    }
    const char *const rest[] = {o->runner_program, shaped->artifact.path, dir, str_format(ctx, "%u", o->threads)};
    for (size_t i = 0; i < IG_COUNT(rest); i++)
        words[n++] = (char *)(uintptr_t)rest[i];
    words[n] = NULL;
    pid_t child;
    int status, error = posix_spawnp(&child, words[0], NULL, NULL, words, environ);
    if (error) {
        runner_error(s, str_format(ctx, "cannot start '%s': %s", words[0], strerror(error)));
        return -1;
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    runner_error(s, str_format(ctx, "'%s' was ended by signal %d", words[0], WTERMSIG(status)));
    return -1;
}

static igata_status run_in(igata_session *s, Shaped *shaped, const char *dir)
{
    Context *ctx = s->owner->ctx;
    for (uint32_t i = 0; i < shaped->n_in; i++)
        if (!write_raw(ctx, str_format(ctx, "%s/in%u", dir, i), shaped->in[i]))
            return IGATA_E_MODEL;
    int status = spawn(s, shaped, dir);
    if (status == IGATA_E_INDEX || status == IGATA_E_BOUND) {
        Blob word;
        uint64_t error = 0;
        if (file_map(ctx, str_format(ctx, "%s/error0", dir), &word) && word.size == sizeof error)
            memcpy(&error, word.data, sizeof error);
        return api_node_error(s, shaped->program->func, error);
    }
    if (status > 0)
        return api_status(runner_error(s, status < IGATA_STATUS_COUNT ? igata_status_text(status)
                                                                      : str_format(ctx, "exit status %d", status)));
    if (status == 0 && !read_found(s, shaped, dir))
        return IGATA_E_MODEL;
    for (uint32_t i = 0; status == 0 && i < shaped->n_out; i++)
        if (!read_raw(s, str_format(ctx, "%s/out%u", dir, i), shaped->out[i]))
            return IGATA_E_MODEL;
    return api_status(status == 0);
}

igata_status runner_step(igata_session *s, Shaped *shaped)
{
    Context *ctx = s->owner->ctx;
    if (!*s->options->runner_program || access(s->options->runner_program, X_OK) != 0)
        return api_status(runner_error(
            s, str_format(ctx, "the program '%s' that runs artifacts there is missing; it is built when a cross compiler for the "
                               "target is installed (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross), or name one with "
                               "--runner-program",
                          s->options->runner_program)));
    Str dir = api_temp_dir(s->owner);
    if (!dir)
        return IGATA_E_MODEL;
    igata_status status = run_in(s, shaped, dir);
    const char **names = ARENA_ARRAY(ctx_arena(ctx), const char *, shaped->n_in + shaped->n_out + 2);
    uint32_t n = 0;
    for (uint32_t i = 0; i < shaped->n_in; i++)
        names[n++] = str_format(ctx, "in%u", i);
    for (uint32_t i = 0; i < shaped->n_out; i++)
        names[n++] = str_format(ctx, "out%u", i);
    names[n++] = "error0";
    names[n++] = "found0";
    api_remove_dir(dir, names, n);
    return status;
}
