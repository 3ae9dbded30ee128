/* SPDX-License-Identifier: Apache-2.0
 *
 * Locations: interned, so that a Loc is 32 bits in every node. Derived ones (FROM, FUSED) form a DAG whose leaves are
 * source positions; printing walks to a leaf without recursion, as rewriting can make long chains.
 */
#include "base/base_int.h"

#include <string.h>

void loc_begin(Context *ctx)
{
    ctx->loc_keys = intern_create(ctx->arena);
    ctx->loc_ids = map_create(ctx->arena);
    LocInfo none = {.kind = LOC_NONE};
    vec_push(ctx->arena, &ctx->locs, none);
}

/* All strings and the parent list must be interned: the key is made of their addresses. */
static Loc intern_loc(Context *ctx, const LocInfo *info)
{
    uint64_t key[] = {(uint64_t)info->kind, KEY(info->file),    info->line,      info->column,
                      KEY(info->node),      KEY(info->op_type), KEY(info->path), KEY(info->what),
                      KEY(info->parents),   info->n_parents};
    void **slot = map_slot(ctx->loc_ids, KEY(intern_bytes(ctx->loc_keys, key, sizeof key)));
    if (!*slot) {
        vec_push(ctx->arena, &ctx->locs, *info);
        *slot = (void *)(uintptr_t)(ctx->locs.len - 1);
    }
    return (Loc)(uintptr_t)*slot;
}

static Str or_empty(Context *ctx, Str text) { return text ? text : str_intern(ctx, ""); }

Loc loc_text(Context *ctx, Str file, uint32_t line, uint32_t column)
{
    return intern_loc(ctx, &(LocInfo){.kind = LOC_TEXT, .file = or_empty(ctx, file), .line = line, .column = column});
}

Loc loc_onnx(Context *ctx, Str file, Str path, uint32_t index, Str node, Str op_type)
{
    return intern_loc(ctx, &(LocInfo){.kind = LOC_ONNX,
                                      .file = or_empty(ctx, file),
                                      .line = index,
                                      .node = or_empty(ctx, node),
                                      .op_type = or_empty(ctx, op_type),
                                      .path = or_empty(ctx, path)});
}

static const Loc *intern_parents(Context *ctx, const Loc *parents, uint32_t n)
{
    return intern_bytes(ctx->loc_keys, parents, n * sizeof *parents);
}

/* The same rule applied to its own result adds nothing. */
Loc loc_from(Context *ctx, Loc parent, const char *what)
{
    Str reason = str_intern(ctx, what);
    const LocInfo *info = loc_info(ctx, parent);
    if (info->kind == LOC_FROM && info->what == reason)
        return parent;
    return intern_loc(
        ctx, &(LocInfo){
                 .kind = LOC_FROM, .what = reason, .parents = intern_parents(ctx, &parent, 1), .n_parents = 1});
}

/* Keeps the order, drops repetitions and unknowns; one left is itself. */
Loc loc_fused(Context *ctx, const Loc *parents, uint32_t n)
{
    Arena *tmp = arena_create(ctx);
    Map *seen = map_create(tmp);
    Loc *kept = ARENA_ARRAY(tmp, Loc, n);
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (parents[i] && !map_has(seen, parents[i])) {
            map_slot(seen, parents[i]);
            kept[n_kept++] = parents[i];
        }
    }
    Loc loc = n_kept ? kept[0] : 0;
    if (n_kept > 1)
        loc = intern_loc(ctx, &(LocInfo){.kind = LOC_FUSED,
                                         .parents = intern_parents(ctx, kept, n_kept),
                                         .n_parents = n_kept});
    arena_destroy(tmp);
    return loc;
}

const LocInfo *loc_info(Context *ctx, Loc loc)
{
    IG_CHECK(ctx, loc < ctx->locs.len);
    return &ctx->locs.data[loc];
}

static const LocInfo *leaf_of(Context *ctx, Loc loc)
{
    const LocInfo *info = loc_info(ctx, loc);
    while (info->n_parents)
        info = loc_info(ctx, info->parents[0]);
    return info;
}

void loc_print(Context *ctx, Text *text, Loc loc)
{
    const LocInfo *info = loc_info(ctx, loc), *leaf = leaf_of(ctx, loc);
    if (leaf->kind == LOC_NONE)
        text_add(text, "unknown");
    else if (*leaf->file)
        text_add(text, leaf->file);
    if (leaf->kind == LOC_TEXT && leaf->line) {
        text_addf(text, ":%u", leaf->line);
        if (leaf->column)
            text_addf(text, ":%u", leaf->column);
    }
    if (leaf->kind == LOC_ONNX && (*leaf->op_type || *leaf->node)) {
        if (*leaf->file)
            text_add(text, ": ");
        if (*leaf->path)
            text_addf(text, "in '%s': ", leaf->path);
        text_add(text, "node ");
        if (*leaf->node)
            text_addf(text, "'%s' ", leaf->node);
        text_addf(text, "(%s, #%u)", *leaf->op_type ? leaf->op_type : "?", leaf->line);
    }
    if (info->kind == LOC_FROM)
        text_addf(text, " [%s]", info->what);
    if (info->kind == LOC_FUSED)
        text_addf(text, " (and %u more)", info->n_parents - 1);
}

static Str leaf_name(Context *ctx, const LocInfo *leaf)
{
    if (leaf->kind == LOC_ONNX && *leaf->node)
        return leaf->node;
    if (leaf->kind == LOC_ONNX && *leaf->op_type)
        return leaf->op_type;
    if (leaf->kind == LOC_TEXT && leaf->line)
        return str_format(ctx, "line%u", leaf->line);
    return str_intern(ctx, "node");
}

/* Of a fused location the first three parents are named. */
Str loc_name(Context *ctx, Loc loc)
{
    const LocInfo *info = loc_info(ctx, loc);
    while (info->n_parents == 1)
        info = loc_info(ctx, info->parents[0]);
    if (!info->n_parents)
        return leaf_name(ctx, info);
    Str name = "";
    for (uint32_t i = 0; i < info->n_parents && i < 3; i++)
        name = str_format(ctx, "%s%s%s", name, i ? "+" : "", leaf_name(ctx, leaf_of(ctx, info->parents[i])));
    return name;
}
