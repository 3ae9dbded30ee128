/* SPDX-License-Identifier: Apache-2.0
 * What the artifact writer needs to know about a program, and streaming of its constants. */
#include "driver/driver_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IGATA_VERSION_TEXT "igata 0.1.0"

/* ---- text of a kernel's source --------------------------------------------------------------------------------------------- */

static Str source_nodes(Context *ctx, Arena *arena, const Group *g)
{
    Text text;
    text_init(&text, arena);
    Str last = NULL;
    for (uint32_t i = 0; i < g->nodes.len; i++) {
        Str name = loc_name(ctx, g->nodes.data[i]->loc);
        if (name == last)
            continue;
        text_addf(&text, "%s%s", last ? ", " : "", name);
        last = name;
    }
    return str_intern(ctx, text.data);
}

Str driver_phase_line(const Program *program, const Schedule *s, uint32_t index)
{
    const Phase *phase = &s->phases.data[index];
    const Group *g = phase->group;
    Text text;
    text_init(&text, s->arena);
    for (uint32_t i = 0; i < g->writes.len; i++)
        text_addf(&text, "%s%%%s", i ? ", " : "", g->writes.data[i]->name);
    text_add(&text, " = ");
    uint32_t shown = 0, last_op = OP_COUNT;
    for (uint32_t i = 0; i < g->nodes.len; i++) {
        uint32_t op = g->nodes.data[i]->op;
        if (op != last_op && shown++ < 6)
            text_addf(&text, "%s%s", i ? "+" : "", op_info[op].name);
        last_op = op;
    }
    if (shown > 6)
        text_add(&text, "+..");
    for (uint32_t i = 0; i < g->reads.len; i++)
        text_addf(&text, "%s%%%s", i ? ", " : " ", g->reads.data[i]->name);
    const Kernel *k = g->kernel;
    bool first = g->reads.len == 0;
    for (uint32_t i = 0; i < k->bufs.len; i++)
        if (k->bufs.data[i]->space == BUF_WEIGHT) {
            text_addf(&text, "%s@%s", first ? " " : ", ", k->bufs.data[i]->pack->weight->name);
            first = false;
        }
    text_addf(&text, "  @kernel=%s  -> ", s->kernels.data[phase->kernel]->name);
    for (uint32_t i = 0; i < g->results.len; i++) {
        text_add(&text, i ? ", " : "");
        type_print(&text, g->results.data[i]->type);
    }
    return str_intern(program->ctx, text.data);
}

/* ---- pieces of the image ----------------------------------------------------------------------------------------------------- */

typedef struct WeightStream {
    const PackedWeight *weight;
} WeightStream;

static bool is_identity(const PackedWeight *w)
{
    int64_t stride = 1;
    if (w->pack->offset || w->pack->n_bounds || w->pack->winograd)
        return false;
    for (uint32_t i = w->rank; i-- > 0;) {
        if (w->dim[i] != 1 && w->pack->stride[i] != stride)
            return false;
        stride *= w->dim[i];
    }
    return true;
}

static bool write_weight(void *user, ArtSink *sink)
{
    enum { CHUNK = 64 << 10 };
    const PackedWeight *w = ((const WeightStream *)user)->weight;
    uint64_t size = (uint64_t)dtype_bits(w->dtype) / 8, count = w->bytes / size;
    if (is_identity(w)) {
        art_sink_write(sink, w->pack->weight->data, w->bytes);
        return true;
    }
    uint8_t chunk[CHUNK];
    for (uint64_t i = 0; i < count;) {
        uint64_t n = CHUNK / size < count - i ? CHUNK / size : count - i;
        sched_pack(w, i, n, chunk);
        art_sink_write(sink, chunk, n * size);
        i += n;
    }
    return true;
}

/* ---- sizes that a run decides ---------------------------------------------------------------------------------------------------- */

typedef struct Sizes {
    Arena *arena;
    VEC(ArtSize) list; /* symbols in the order of the schedules first */
} Sizes;

/* Records are numbered from 1 here. */
static const void *size_record(Sizes *s, ArtSize size)
{
    for (uint32_t i = 0; i < s->list.len; i++) {
        const ArtSize *known = &s->list.data[i];
        if (known->op == size.op && known->a == size.a && known->b == size.b &&
            (size.op == ART_SIZE_SYMBOL ? known->name == size.name : size.op != ART_SIZE_NUMBER || known->lo == size.lo))
            return (const void *)(uintptr_t)(i + 1);
    }
    vec_push(s->arena, &s->list, size);
    return (const void *)(uintptr_t)s->list.len;
}

static const void *size_number(void *user, int64_t value)
{
    return size_record(user, (ArtSize){ART_SIZE_NUMBER, "", 0, 0, value, value});
}

static const void *size_symbol(void *user, const Sym *sym)
{
    return size_record(user, (ArtSize){ART_SIZE_SYMBOL, sym->name, 0, 0, sym->lo, sym->hi});
}

static const void *size_apply(void *user, DimOp op, const void *a, const void *b)
{
    static const ArtSizeOp ops[] = {[DIM_ADD] = ART_SIZE_ADD,           [DIM_MUL] = ART_SIZE_MUL, [DIM_FLOORDIV] = ART_SIZE_FLOORDIV,
                                    [DIM_MOD] = ART_SIZE_MOD,           [DIM_MIN] = ART_SIZE_MIN, [DIM_MAX] = ART_SIZE_MAX};
    uint32_t x = (uint32_t)(uintptr_t)a - 1, y = (uint32_t)(uintptr_t)b - 1;
    return size_record(user, (ArtSize){ops[op], "", x, y, INT64_MIN, INT64_MAX});
}

/* The number of the dim's record, from 1; its text and range are written down. */
static uint32_t size_of_dim(Sizes *s, const Dim *dim)
{
    DimFold fold = {s, size_number, size_symbol, size_apply};
    uint32_t number = (uint32_t)(uintptr_t)dim_fold(dim, &fold);
    ArtSize *size = &s->list.data[number - 1];
    if (size->op > ART_SIZE_NUMBER && !*size->name) {
        Text text;
        text_init(&text, s->arena);
        dim_print(&text, dim);
        size->name = text.data;
        dim_range(dim, &size->lo, &size->hi);
    }
    return number;
}

static const ArtValue *values(Sizes *s, const Str *names, Val *const *vals, uint32_t n)
{
    ArtValue *v = ARENA_ARRAY(s->arena, ArtValue, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const Type *type = vals[i]->type;
        int64_t *dims = ARENA_ARRAY(s->arena, int64_t, type->rank + 1);
        uint32_t *dim_size = ARENA_ARRAY(s->arena, uint32_t, type->rank + 1);
        for (uint32_t d = 0; d < type->rank; d++) {
            dims[d] = type_bound(type, d);
            dim_size[d] = dim_is_const(type->dim[d], NULL) ? 0 : size_of_dim(s, type->dim[d]);
        }
        v[i] = (ArtValue){.name = names[i], .dtype = type->dtype, .rank = type->rank, .dims = dims, .dim_size = dim_size};
    }
    return v;
}

static ArtBufKind buf_kind(SlotKind kind)
{
    static const ArtBufKind map[] = {
        [SLOT_WORKSPACE] = ART_WORKSPACE, [SLOT_INPUT] = ART_INPUT, [SLOT_OUTPUT] = ART_OUTPUT,
        [SLOT_WEIGHTS] = ART_WEIGHTS,     [SLOT_STATE] = ART_STATE, [SLOT_SCRATCH] = ART_SCRATCH,
        [SLOT_SIZES] = ART_SIZES,
    };
    return map[kind];
}

/* ---- weights: one segment for all variants, whose schedules may use different ones --------------------------------------------- */

typedef struct Weights {
    Arena *arena;
    VEC(const PackedWeight *) list;
    VEC(uint64_t) offset;
    uint64_t bytes;
} Weights;

static bool same_pack(const PackedWeight *a, const PackedWeight *b)
{
    const Pack *p = a->pack, *q = b->pack;
    if (p->weight != q->weight || p->winograd != q->winograd || p->offset != q->offset || p->n_bounds != q->n_bounds ||
        a->dtype != b->dtype || a->rank != b->rank || a->bytes != b->bytes)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i] || p->stride[i] != q->stride[i])
            return false;
    for (int i = 0; i < p->n_bounds; i++)
        if (p->bound[i].limit != q->bound[i].limit ||
            memcmp(p->bound[i].coef, q->bound[i].coef, sizeof *p->bound[i].coef * a->rank) != 0)
            return false;
    return true;
}

static uint64_t place_weight(Weights *w, const PackedWeight *weight)
{
    for (uint32_t i = 0; i < w->list.len; i++)
        if (w->list.data[i] == weight || same_pack(w->list.data[i], weight))
            return w->offset.data[i];
    vec_push(w->arena, &w->list, weight);
    vec_push(w->arena, &w->offset, w->bytes);
    w->bytes = (w->bytes + weight->bytes + ART_ALIGN - 1) / ART_ALIGN * ART_ALIGN;
    return w->offset.data[w->offset.len - 1];
}

/* Where the weight at `offset` of the schedule's own numbering lies in the artifact. An empty one gives way to that which shares
 * its place. */
static uint64_t moved_offset(Weights *w, const Schedule *s, uint64_t offset)
{
    const PackedWeight *found = NULL;
    for (uint32_t i = 0; i < s->weights.len && (!found || found->bytes == 0); i++)
        if (s->weights.data[i]->offset == offset)
            found = s->weights.data[i];
    if (!found)
        ig_bug(s->ctx, "no weight at offset %" PRIu64, offset);
    return place_weight(w, found);
}

static const ArtWeight *weight_list(const Weights *w)
{
    ArtWeight *list = ARENA_ARRAY(w->arena, ArtWeight, w->list.len + 1);
    for (uint32_t i = 0; i < w->list.len; i++) {
        WeightStream *stream = ARENA_NEW(w->arena, WeightStream);
        stream->weight = w->list.data[i];
        list[i] = (ArtWeight){w->list.data[i]->name, w->offset.data[i], w->list.data[i]->bytes, write_weight, stream};
    }
    return list;
}

/* ---- one variant ---------------------------------------------------------------------------------------------------------------- */

static bool writes(const Group *g, const Buf *buf)
{
    for (uint32_t i = 0; i < g->writes.len; i++)
        if (buf->space == BUF_ARG && g->writes.data[i]->val == buf->val)
            return true;
    return false;
}

static const ArtPhase *phases(Weights *w, const Schedule *s)
{
    ArtPhase *list = ARENA_ARRAY(w->arena, ArtPhase, s->phases.len + 1);
    for (uint32_t p = 0; p < s->phases.len; p++) {
        const Phase *phase = &s->phases.data[p];
        uint32_t n = phase->group->kernel->bufs.len;
        ArtBuf *bufs = ARENA_ARRAY(w->arena, ArtBuf, n + 1);
        for (uint32_t i = 0; i < n; i++) {
            const Slot *slot = &phase->slots[i];
            uint64_t offset = slot->kind == SLOT_WEIGHTS ? moved_offset(w, s, slot->offset) : slot->offset;
            bool written = writes(phase->group, phase->group->kernel->bufs.data[i]);
            bufs[i] = (ArtBuf){buf_kind(slot->kind), slot->index, offset, written};
        }
        list[p] = (ArtPhase){.kernel = phase->kernel, .tiles = (uint64_t)phase->tiles, .bufs = bufs, .n_bufs = n};
    }
    return list;
}

static ArtBuf word(const Storage *st)
{
    if (!st)
        return (ArtBuf){0};
    return (ArtBuf){.kind = buf_kind(st->kind), .index = st->index, .offset = st->kind == SLOT_WORKSPACE ? st->offset : 0};
}

static const ArtStep *steps(Arena *arena, const Schedule *s)
{
    static const ArtStepKind kind[] = {
        [STEP_IF] = ART_STEP_IF, [STEP_ELSE] = ART_STEP_ELSE, [STEP_END] = ART_STEP_END,
        [STEP_LOOP] = ART_STEP_LOOP, [STEP_NEXT] = ART_STEP_NEXT, [STEP_SIZE] = ART_STEP_SIZE,
    };
    ArtStep *list = ARENA_ARRAY(arena, ArtStep, s->steps.len + 1);
    for (uint32_t i = 0; i < s->steps.len; i++) {
        const Step *step = &s->steps.data[i];
        uint32_t flags = (step->go ? ART_STEP_GO : 0) | (step->trip ? ART_STEP_TRIP : 0) | (step->cut ? ART_STEP_CUT : 0);
        list[i] = (ArtStep){kind[step->kind], step->group, step->target, step->depth, flags, step->node->id, step->size, step->bound,
                            word(step->counter), word(step->go), word(step->trip)};
    }
    return list;
}

static const ArtKernel *kernels(Arena *arena, const Program *p, const Schedule *s)
{
    ArtKernel *list = ARENA_ARRAY(arena, ArtKernel, s->kernels.len + 1);
    for (uint32_t i = s->phases.len; i-- > 0;) { /* the first phase that uses a kernel describes it */
        const Phase *phase = &s->phases.data[i];
        list[phase->kernel] = (ArtKernel){.symbol = s->kernels.data[phase->kernel]->name,
                                          .nodes = source_nodes(p->ctx, arena, phase->group),
                                          .line = driver_phase_line(p, s, i),
                                          .classes = phase->arith,
                                          .flops = phase->flops,
                                          .bytes = phase->bytes};
    }
    return list;
}

static const ArtPlan *plan(Arena *arena, const Schedule *s, uint32_t *n)
{
    ArtPlan *list = ARENA_ARRAY(arena, ArtPlan, s->storages.len + 1);
    Map *number = map_create(arena);
    *n = 0;
    for (uint32_t i = 0; i < s->storages.len; i++)
        if (s->storages.data[i]->kind == SLOT_WORKSPACE)
            map_set(number, KEY(s->storages.data[i]), (void *)(uintptr_t)++*n);
    for (uint32_t i = 0; i < s->storages.len; i++) {
        const Storage *st = s->storages.data[i];
        uint32_t at = (uint32_t)(uintptr_t)map_get(number, KEY(st));
        uint32_t view_of = st->view ? (uint32_t)(uintptr_t)map_get(number, KEY(st->in_place)) : 0;
        if (at)
            list[at - 1] = (ArtPlan){st->name, st->offset, st->bytes, st->first, st->last, view_of};
    }
    return list;
}

static const ArtBody *body(Weights *w, const Schedule *s)
{
    ArtBody *b = ARENA_NEW(w->arena, ArtBody);
    *b = (ArtBody){.workspace_bytes = s->workspace_bytes,
                   .scratch_bytes_per_slot = s->scratch_bytes,
                   .phases = phases(w, s),
                   .n_phases = s->phases.len,
                   .steps = steps(w->arena, s),
                   .n_steps = s->steps.len,
                   .peak_bytes = s->peak_bytes,
                   .lower_bound_bytes = s->lower_bound_bytes};
    b->plan = plan(w->arena, s, &b->n_plan);
    return b;
}

static ArtVariant variant(Weights *w, const Program *p, const DriverVariant *v)
{
    const Schedule *s = v->schedule;
    ArtDef *defs = ARENA_ARRAY(w->arena, ArtDef, s->kernels.len + 1);
    ArtObject *objects = ARENA_ARRAY(w->arena, ArtObject, v->objects.len + 1);
    for (uint32_t k = 0; k < s->kernels.len; k++)
        defs[k] = (ArtDef){k, s->kernels.data[k]->name};
    for (uint32_t i = 0; i < v->objects.len; i++) {
        const CgenPart *part = &v->objects.data[i];
        objects[i] = (ArtObject){part->object.data, part->object.size, defs + part->first, part->n};
    }
    return (ArtVariant){.name = v->target->level,
                        .features = v->target->features,
                        .bodies = body(w, s),
                        .kernels = kernels(w->arena, p, s),
                        .n_kernels = s->kernels.len,
                        .objects = objects,
                        .n_objects = v->objects.len};
}

/* ---- nodes that error words name -------------------------------------------------------------------------------------------------- */

static void note_checks(const Stmt *list, Arena *arena, Map *noted)
{
    for (const Stmt *s = list; s; s = s->next) {
        if (s->kind == LS_CHECK)
            map_set(noted, s->u.check.code >> 8, noted);
        if (s->kind == LS_FOR)
            note_checks(s->u.loop.body, arena, noted);
        if (s->kind == LS_IF) {
            note_checks(s->u.branch.then, arena, noted);
            note_checks(s->u.branch.otherwise, arena, noted);
        }
    }
}

typedef struct Named {
    Arena *arena;
    VEC(ArtNode) list;
} Named;

static void name_nodes(Context *ctx, const Region *region, const Map *noted, Named *named)
{
    REGION_FOREACH(node, region) {
        ArtNode one = {node->id, loc_name(ctx, node->loc)};
        if (map_has(noted, node->id))
            vec_push(named->arena, &named->list, one);
        for (uint32_t i = 0; i < node->n_region; i++)
            name_nodes(ctx, node->region[i], noted, named);
    }
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = ((const ArtNode *)a)->id, y = ((const ArtNode *)b)->id;
    return (x > y) - (x < y);
}

static const ArtNode *nodes(Arena *arena, const Program *p, uint32_t *n)
{
    Map *noted = map_create(arena);
    Named named = {.arena = arena};
    for (uint32_t v = 0; v < p->n_variants; v++) {
        const Schedule *s = p->variant[v].schedule;
        for (uint32_t i = 0; i < s->steps.len; i++)
            if (s->steps.data[i].cut)
                map_set(noted, s->steps.data[i].node->id, noted);
    }
    for (uint32_t v = 0; v < p->n_variants; v++)
        for (uint32_t k = 0; k < p->variant[v].schedule->kernels.len; k++)
            note_checks(p->variant[v].schedule->kernels.data[k]->body, arena, noted);
    name_nodes(p->ctx, p->func->body, noted, &named);
    if (named.list.len)
        qsort(named.list.data, named.list.len, sizeof(ArtNode), by_id);
    *n = named.list.len;
    return named.list.data;
}

/* ---- the image ------------------------------------------------------------------------------------------------------------------ */

static void options_hash(const Program *p, Arena *arena, uint8_t digest[32])
{
    const PassOptions *pass = &p->options.pass;
    Text text;
    Sha256 sha;
    text_init(&text, arena);
    text_addf(&text, "O%d eager=%d strict=%d direct=%d ftz=%d limit=%" PRId64, pass->opt_level, pass->eager, pass->strict,
              pass->direct, p->options.ftz, pass->limit < 0 ? -1 : pass->limit);
    for (uint32_t i = 0; i < pass->n_disabled; i++)
        text_addf(&text, " without=%s", pass->disabled[i]);
    for (uint32_t i = 0; i < p->n_variants; i++)
        text_addf(&text, " cpu=%s", p->variant[i].target->level);
    sha256_begin(&sha);
    sha256_add(&sha, text.data, text.len);
    sha256_end(&sha, digest);
}

void driver_make_image(Program *p, Arena *arena, ArtImage *image)
{
    ArtEntry *entry = ARENA_NEW(arena, ArtEntry);
    ArtVariant *variants = ARENA_ARRAY(arena, ArtVariant, p->n_variants);
    Weights weights = {.arena = arena};
    static const char *const level[] = {"-O0", "-O1", "-O2"};
    *image = (ArtImage){.triple = p->variant[0].target->triple, .igata_version = IGATA_VERSION_TEXT, .ftz = p->options.ftz};
    image->machine = strncmp(image->triple, "aarch64", 7) == 0 ? ART_AARCH64 : ART_X86_64;
    image->opt_level = p->options.pass.eager ? "eager" : level[p->options.pass.opt_level > 2 ? 2 : p->options.pass.opt_level];
    Val **out = ARENA_ARRAY(arena, Val *, func_n_out(p->func) + 1);
    for (uint32_t i = 0; i < func_n_out(p->func); i++)
        out[i] = func_out(p->func, i);
    *entry = (ArtEntry){.name = p->func->name, .n_inputs = p->func->body->params.len, .n_outputs = func_n_out(p->func)};
    const Schedule *s = p->variant[0].schedule;
    Sizes sizes = {.arena = arena};
    for (uint32_t i = 0; i < s->n_syms; i++)
        size_symbol(&sizes, s->syms[i]);
    entry->inputs = values(&sizes, p->func->in_names, p->func->body->params.data, entry->n_inputs);
    entry->outputs = values(&sizes, p->func->out_names, out, entry->n_outputs);
    entry->sizes = sizes.list.data;
    entry->n_sizes = sizes.list.len;
    entry->n_symbols = s->n_told;
    entry->n_found = s->n_syms - s->n_told;
    image->entries = entry;
    image->n_entries = 1;
    for (uint32_t i = 0; i < p->n_variants; i++)
        variants[i] = variant(&weights, p, &p->variant[i]);
    image->variants = variants;
    image->n_variants = p->n_variants;
    image->weights = weight_list(&weights);
    image->n_weights = weights.list.len;
    image->nodes = nodes(arena, p, &image->n_nodes);
    memcpy(image->model_sha256, p->model_sha256, 32);
    options_hash(p, arena, image->options_sha256);
}

/* ---- files ------------------------------------------------------------------------------------------------------------------------ */

static bool write_text(Program *p, const char *path, CgenOutput output)
{
    const DriverVariant *v = &p->variant[0];
    Blob blob;
    CgenOptions cg = {.target = v->target, .opt_level = p->options.pass.opt_level, .output = output,
                      .ftz = p->options.ftz};
    return cgen_emit(p->ctx, v->schedule->arena, &cg, (const Kernel *const *)v->schedule->kernels.data, v->schedule->kernels.len,
                     &blob) &&
           file_write_all(p->ctx, path, blob.data, blob.size);
}

bool driver_knows_output(Context *ctx, const char *path)
{
    static const char *const known[] = {".so", ".o", ".a", ".ig", ".ll", ".s"};
    for (size_t i = 0; i < IG_COUNT(known); i++)
        if (str_ends_with(path, known[i]))
            return true;
    return strcmp(path, "-") == 0 ? true : diag_report(ctx, 0, DIAG_driver_output, path);
}

/* The file's name without folder and ending, as a C identifier. */
static char *prefix_of(Arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    char *prefix = arena_printf(arena, "m%.*s", (int)(strlen(base) - 2), base); /* .o, .a */
    for (char *c = prefix; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    bool starts = prefix[1] && !(prefix[1] >= '0' && prefix[1] <= '9');
    return starts ? prefix + 1 : prefix;
}

/* An object for the first CPU level, and its header beside it. */
static bool write_object(Program *p, Arena *arena, ArtImage *image, const char *path)
{
    const char *prefix = prefix_of(arena, path);
    char *header = arena_printf(arena, "%.*s.h", (int)(strlen(path) - 2), path);
    image->n_variants = 1;
    if (!(str_ends_with(path, ".o") ? art_write_o : art_write_a)(p->ctx, image, prefix, path))
        return false;
    if (art_write_h(p->ctx, image, prefix, header))
        return true;
    remove(path);
    return false;
}

bool driver_write_so(Program *p, const char *path)
{
    Arena *arena = arena_create(p->ctx);
    ArtImage image;
    driver_make_image(p, arena, &image);
    bool ok = art_write_so(p->ctx, &image, path);
    arena_destroy(arena);
    return ok;
}

bool driver_write(Program *p, const char *path)
{
    Arena *arena = arena_create(p->ctx);
    ArtImage image;
    bool ok;
    if (p->n_variants > 1 && !str_ends_with(path, ".so") && strcmp(path, "-") != 0)
        diag_report(p->ctx, 0, DIAG_driver_one_cpu, path, p->variant[0].target->level);
    if (str_ends_with(path, ".ll")) {
        ok = write_text(p, path, CGEN_LLVM_IR);
    } else if (str_ends_with(path, ".s")) {
        ok = write_text(p, path, CGEN_ASSEMBLY);
    } else if (str_ends_with(path, ".so") || strcmp(path, "-") == 0) {
        ok = driver_write_so(p, path);
    } else if (str_ends_with(path, ".o") || str_ends_with(path, ".a")) {
        driver_make_image(p, arena, &image);
        ok = write_object(p, arena, &image, path);
    } else {
        ok = diag_report(p->ctx, 0, DIAG_driver_output, path);
    }
    arena_destroy(arena);
    return ok;
}
