/* SPDX-License-Identifier: Apache-2.0
 *
 * The diagnostic sink. Formats live in diag.def, so the arguments of diag_report cannot be checked by the compiler:
 * each row has a test that prints it.
 */
#include "base/base_int.h"

#include <string.h>

typedef struct Row {
    const char *name;
    Severity severity;
    const char *format;
} Row;

static const Row rows[DIAG_COUNT] = {
#define DIAG(id, severity, format) [DIAG_##id] = {#id, SEV_##severity, format},
#include "base/diag.def"
#undef DIAG
};

void diag_begin(Context *ctx) { vec_reserve(ctx->diag_arena, &ctx->diags, 16); }

bool diag_report(Context *ctx, Loc loc, DiagId id, ...)
{
    const Row *row = &rows[id];
    va_list args;
    va_start(args, id);
    Diag diag = {.id = id, .severity = row->severity, .loc = loc};
    diag.message = arena_vprintf(ctx->diag_arena, row->format, args);
    va_end(args);
    vec_push(ctx->diag_arena, &ctx->diags, diag);
    bool bad = row->severity == SEV_ERROR || row->severity == SEV_BUG;
    ctx->n_errors += bad;
    return !bad;
}

uint32_t diag_count(const Context *ctx) { return ctx->diags.len; }

uint32_t diag_errors(const Context *ctx) { return ctx->n_errors; }

const Diag *diag_get(const Context *ctx, uint32_t index)
{
    return index < ctx->diags.len ? &ctx->diags.data[index] : NULL;
}

void diag_print(Context *ctx, Text *text, const Diag *diag)
{
    static const char *const severities[] = {
        [SEV_ERROR] = "error", [SEV_WARNING] = "warning", [SEV_NOTE] = "note", [SEV_BUG] = "bug"};
    if (diag->loc) {
        loc_print(ctx, text, diag->loc);
        text_add(text, ": ");
    }
    text_addf(text, "%s[%s]: %s", severities[diag->severity], rows[diag->id].name, diag->message);
}

void diag_clear(Context *ctx)
{
    arena_reset(ctx->diag_arena);
    memset(&ctx->diags, 0, sizeof ctx->diags);
    ctx->n_errors = 0;
    diag_begin(ctx);
}

void diag_move(Context *to, Context *from)
{
    for (uint32_t i = 0; i < from->diags.len; i++) {
        Diag diag = from->diags.data[i];
        diag.message = arena_copy(to->diag_arena, diag.message, strlen(diag.message) + 1);
        vec_push(to->diag_arena, &to->diags, diag);
    }
    to->n_errors += from->n_errors;
    diag_clear(from);
}

const char *diag_name(DiagId id) { return rows[id].name; }
