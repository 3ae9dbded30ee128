/* SPDX-License-Identifier: Apache-2.0
 * The schedule: creation, storages, packing of constants, text form, verifier. */
#include "sched/sched_int.h"

#include <inttypes.h>
#include <string.h>

const PassDef sched_pass_defs[] = {
#define PASS(id, level, optional, doc) {#id, LEVEL_##level, optional, pass_##id, doc},
#include "sched/passes.def"
#undef PASS
    {0},
};

Group *sched_group_of(const Schedule *s, const Node *node) { return node ? map_get(s->group_of, node->id) : NULL; }

Storage *sched_storage_of(const Schedule *s, const Val *val) { return map_get(s->storage_of, val->id); }

bool sched_is_inlined(const Node *node)
{
    OpKind kind = op_info[node->op].kind;
    return node->n_out == 1 && (kind == OK_MAP || kind == OK_INDEX || kind == OK_SOURCE);
}

bool sched_is_concat(const Node *node) { return node->op == OP_concat; } /* op-switch: lowered to the whole kernel */

/* ---- storages ------------------------------------------------------------------------------------------------------------------ */

void storage_set_order(Storage *st, const uint32_t *order)
{
    int64_t stride = 1;
    uint64_t bytes = 0;
    for (uint32_t i = st->rank; i-- > 0;) {
        st->stride[order[i]] = stride;
        stride *= st->dim[order[i]] > 0 ? st->dim[order[i]] : 1;
    }
    if (dtype_bytes(st->val->type->dtype, (uint64_t)stride, &bytes))
        st->bytes = (bytes + 63) / 64 * 64;
}

Storage *sched_storage_add(Schedule *s, const Val *val)
{
    Storage *st = sched_storage_of(s, val);
    if (st)
        return st;
    uint32_t order[IR_MAX_RANK];
    st = ARENA_NEW(s->arena, Storage);
    st->val = val;
    st->rank = val->type->rank;
    st->kind = SLOT_WORKSPACE;
    st->name = str_format(s->ctx, "v%u", val->id);
    for (uint32_t i = 0; i < st->rank; i++) {
        st->dim[i] = type_bound(val->type, i);
        order[i] = i;
    }
    storage_set_order(st, order);
    if (!val->def && !val->region->node) {
        st->kind = SLOT_INPUT;
        st->index = val->out;
        st->name = s->func->in_names[val->out];
    }
    for (uint32_t i = 0; i < func_n_out(s->func); i++)
        if (func_out(s->func, i) == val) {
            st->kind = SLOT_OUTPUT;
            st->index = i;
            st->name = s->func->out_names[i];
        }
    vec_push(s->arena, &s->storages, st);
    map_set(s->storage_of, val->id, st);
    return st;
}

/* An output that is an input, a constant or another output gets a node of its own that copies it. */
static void copy_shared_outputs(Schedule *s)
{
    Node *yield = s->func->body->last;
    for (uint32_t i = 0; i < yield->n_in; i++) {
        Val *val = ir_in(yield, i);
        bool shared = !val->def || op_info[val->def->op].kind == OK_SOURCE;
        for (uint32_t j = 0; j < i; j++)
            shared |= ir_in(yield, j) == val;
        if (!shared)
            continue;
        Builder b = ir_before_node(yield, val->def ? val->def->loc : yield->loc);
        Node *copy = ir_emit(&b, OP_stop_gradient, &val, 1, attrs_make(s->ctx, NULL, 0), &val->type, 1);
        ir_set_in(yield, i, &copy->out[0]);
    }
}

typedef struct Syms {
    Arena *arena;
    VEC(const Sym *) list;
} Syms;

static const Dim *note_sym(void *user, const Sym *sym)
{
    Syms *s = user;
    for (uint32_t i = 0; i < s->list.len; i++)
        if (s->list.data[i] == sym)
            return NULL;
    vec_push(s->arena, &s->list, sym);
    return NULL;
}

static void find_syms_of_run(Syms *syms, const Region *body)
{
    REGION_FOREACH(node, body) {
        const Sym *sym = sched_found_size(node);
        if (sym)
            note_sym(syms, sym);
        for (uint32_t r = 0; r < node->n_region; r++)
            find_syms_of_run(syms, node->region[r]);
    }
}

static void find_syms(Schedule *s)
{
    Syms syms = {.arena = s->arena};
    for (uint32_t i = 0; i < s->func->body->params.len; i++)
        type_bind(s->ctx, s->func->body->params.data[i]->type, note_sym, &syms);
    s->n_told = syms.list.len;
    find_syms_of_run(&syms, s->func->body);
    s->syms = syms.list.data;
    s->n_syms = syms.list.len;
}

Schedule *sched_create(Context *ctx, Module *module, Func *func)
{
    Arena *arena = arena_create(ctx);
    Schedule *s = ARENA_NEW(arena, Schedule);
    s->ctx = ctx;
    s->arena = arena;
    s->module = module;
    s->func = func;
    s->group_of = map_create(arena);
    s->storage_of = map_create(arena);
    find_syms(s);
    control_add_copies(s, s->func->body);
    copy_shared_outputs(s);
    return s;
}

void sched_destroy(Schedule *schedule)
{
    if (schedule)
        arena_destroy(schedule->arena);
}

/* ---- constants -------------------------------------------------------------------------------------------------------------------- */

/* Elements [0, n) of a run whose i-th is `from[i * stride]`. Raw data of a model file may lie at any address: memcpy of a constant
 * size is one instruction. */
static void copy_run(char *restrict to, const char *restrict from, int64_t n, int64_t stride, size_t size)
{
#define STRIDED(bytes)                                                                                                         \
    for (int64_t i = 0; i < n; i++)                                                                                            \
        memcpy(to + i * (bytes), from + i * stride * (bytes), (bytes));
    if (stride == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: STRIDED(1) break;
    case 2: STRIDED(2) break;
    case 4: STRIDED(4) break;
    case 8: STRIDED(8) break;
    default: STRIDED((int64_t)size)
    }
#undef STRIDED
}

/* The part [*lo, *hi) of a run for which value + i * coef < limit. */
static void clip_run(int64_t value, int64_t coef, int64_t limit, int64_t *lo, int64_t *hi)
{
    int64_t room = limit - 1 - value; /* i * coef <= room */
    if (coef > 0) {
        int64_t end = room < 0 ? 0 : room / coef + 1;
        *hi = end < *hi ? end : *hi;
    } else if (coef < 0) {
        int64_t start = room >= 0 ? 0 : (-room - coef - 1) / -coef;
        *lo = start > *lo ? start : *lo;
    } else if (room < 0) {
        *hi = 0;
    }
}

/* G times a column: numerics.md "wino2". */
static double filter_row(int64_t row, double g0, double g1, double g2)
{
    return row == 0 ? g0 : row == 3 ? g2 : row == 1 ? ((g0 + g2) + g1) * 0.5 : ((g0 + g2) - g1) * 0.5;
}

static float winograd_element(const Pack *pack, int64_t element)
{
    int64_t oc = type_dim(pack->weight->type, 0), ic = type_dim(pack->weight->type, 1), which = element / oc / ic;
    int64_t first = pack->winograd == WINOGRAD_FLIPPED ? 8 : 0, step = first ? -1 : 1;
    float g[9]; /* data of a mapped file may lie anywhere */
    double half[3];
    memcpy(g, (const char *)pack->weight->data + (size_t)(element % oc * ic + element / oc % ic) * sizeof g, sizeof g);
    for (int64_t c = 0; c < 3; c++)
        half[c] = filter_row(which / 4, g[first + step * c], g[first + step * (3 + c)], g[first + step * (6 + c)]);
    return (float)filter_row(which % 4, half[0], half[1], half[2]);
}

static void winograd_run(const Pack *pack, int64_t element, int64_t n, int64_t stride, char *to)
{
    for (int64_t i = 0; i < n; i++) {
        float value = winograd_element(pack, element + i * stride);
        memcpy(to + i * (int64_t)sizeof value, &value, sizeof value);
    }
}

/* The last axis of a packed weight is a run: its element 0 at `element`, and what bounds leave of it. A guarded constant (padding)
 * has positions outside its data, which no kernel reads. */
static void pack_run(const PackedWeight *weight, const int64_t *at, int64_t n, uint64_t elements, char *out)
{
    const Pack *pack = weight->pack;
    uint32_t last = weight->rank - 1;
    size_t size = (size_t)dtype_bits(weight->dtype) / 8;
    int64_t element = pack->offset, stride = pack->stride[last], lo = 0, hi = n;
    for (uint32_t i = 0; i < weight->rank; i++)
        element += at[i] * pack->stride[i];
    clip_run(element, stride, (int64_t)elements, &lo, &hi);
    clip_run(-element, -stride, 1, &lo, &hi);
    for (int b = 0; b < pack->n_bounds; b++) {
        int64_t value = 0;
        for (uint32_t i = 0; i < weight->rank; i++)
            value += at[i] * pack->bound[b].coef[i];
        clip_run(value, pack->bound[b].coef[last], pack->bound[b].limit, &lo, &hi);
    }
    if (lo >= hi) {
        memset(out, 0, (size_t)n * size);
        return;
    }
    memset(out, 0, (size_t)lo * size);
    if (pack->winograd)
        winograd_run(pack, element + lo * stride, hi - lo, stride, out + (size_t)lo * size);
    else
        copy_run(out + (size_t)lo * size, (const char *)pack->weight->data + (element + lo * stride) * (int64_t)size, hi - lo, stride,
                 size);
    memset(out + (size_t)hi * size, 0, (size_t)(n - hi) * size);
}

void sched_pack(const PackedWeight *weight, uint64_t index, uint64_t count, void *out)
{
    int64_t at[LOOP_MAX_RANK] = {0};
    size_t size = (size_t)dtype_bits(weight->dtype) / 8;
    uint64_t rest = index, elements = 0;
    (void)type_count(weight->pack->weight->type, &elements);
    if (weight->pack->winograd)
        elements = elements / 9 * WINO2_PRODUCTS;
    if (weight->rank == 0 && count) {
        copy_run(out, (const char *)weight->pack->weight->data + weight->pack->offset * (int64_t)size, 1, 1, size);
        return;
    }
    for (uint32_t i = weight->rank; count && i-- > 0;) { /* without elements a size may be 0 */
        at[i] = (int64_t)(rest % (uint64_t)weight->dim[i]);
        rest /= (uint64_t)weight->dim[i];
    }
    for (uint64_t n = 0; n < count;) {
        uint32_t last = weight->rank - 1;
        int64_t left = weight->dim[last] - at[last], run = (uint64_t)left < count - n ? left : (int64_t)(count - n);
        pack_run(weight, at, run, elements, (char *)out + n * size);
        n += (uint64_t)run;
        at[last] += run;
        for (uint32_t i = last; i > 0 && at[i] == weight->dim[i]; i--) {
            at[i] = 0;
            at[i - 1]++;
        }
    }
}

/* ---- text --------------------------------------------------------------------------------------------------------------------------- */

static const char *slot_name(SlotKind kind)
{
    static const char *const name[] = {"workspace", "input", "output", "weights", "state", "scratch", "sizes"};
    return name[kind];
}

static void print_storages(Text *text, const char *what, Storage *const *st, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        text_addf(text, "%s%s%%%s", i ? ", " : what, i ? "" : " ", st[i]->name);
}

static void print_steps(Text *text, const Schedule *s)
{
    static const char *const kind[] = {"if", "else", "end", "loop", "next", "size"};
    for (uint32_t i = 0; i < s->steps.len; i++) {
        const Step *step = &s->steps.data[i];
        text_addf(text, "step %u: before group %u, %s", i, step->group, kind[step->kind]);
        if (step->go)
            text_addf(text, " %%%s", step->go->name);
        if (step->kind == STEP_LOOP) {
            text_addf(text, " %%%s < %" PRId64, step->counter->name, step->bound);
            if (step->trip)
                text_addf(text, ", %%%s", step->trip->name);
        } else if (step->kind == STEP_SIZE) {
            text_addf(text, " %%%s <= %" PRId64, step->trip->name, step->bound);
        }
        if (step->size)
            text_addf(text, " -> %s", s->syms[step->size - 1]->name);
        text_addf(text, ", else behind step %u\n", step->target);
    }
}

void sched_print(Text *text, const Schedule *s)
{
    text_addf(text, "schedule @%s: %u kernels\n", s->func->name, s->groups.len);
    for (uint32_t i = 0; i < s->groups.len; i++) {
        const Group *g = s->groups.data[i];
        text_addf(text, "group %u %s:", i, g->name);
        print_storages(text, " reads", g->reads.data, g->reads.len);
        print_storages(text, " writes", g->writes.data, g->writes.len);
        text_add(text, "\n");
        for (uint32_t n = 0; n < g->nodes.len; n++) {
            text_add(text, "  ");
            ir_print_node(text, g->nodes.data[n]);
            text_add(text, "\n");
        }
    }
    print_steps(text, s);
    for (uint32_t i = 0; i < s->storages.len; i++) {
        const Storage *st = s->storages.data[i];
        text_addf(text, "storage %%%s: ", st->name);
        type_print(text, st->val->type);
        text_addf(text, " %s %u strides", slot_name(st->kind), st->index);
        for (uint32_t d = 0; d < st->rank; d++)
            text_addf(text, " %" PRId64, st->stride[d]);
        text_addf(text, ", %" PRIu64 " bytes @%" PRIu64 ", phases %u..%u%s%s\n", st->bytes, st->offset, st->first, st->last,
                  st->view ? ", view of %" : st->in_place ? ", in place" : "", st->view ? st->in_place->name : "");
    }
    for (uint32_t i = 0; i < s->groups.len; i++)
        if (s->groups.data[i]->kernel)
            kernel_print(text, s->groups.data[i]->kernel);
    if (s->phases.len)
        text_addf(text, "plan: peak %" PRIu64 ", lower bound %" PRIu64 ", scratch %" PRIu64 ", weights %" PRIu64 " bytes\n",
                  s->peak_bytes, s->lower_bound_bytes, s->scratch_bytes, s->weight_bytes);
}

/* ---- verifier ------------------------------------------------------------------------------------------------------------------------ */

static bool reads_are_ready(const Schedule *s)
{
    bool ok = true;
    for (uint32_t i = 0; i < s->groups.len; i++) {
        const Group *g = s->groups.data[i];
        for (uint32_t r = 0; r < g->reads.len; r++) {
            const Node *def = g->reads.data[r]->val->def;
            bool ready = !def || g->reads.data[r]->merged;
            for (uint32_t j = 0; j < i && !ready; j++)
                ready = sched_group_of(s, def) == s->groups.data[j];
            if (!ready)
                ok = diag_report(s->ctx, g->nodes.data[0]->loc, DIAG_sched_order, g->name, g->reads.data[r]->name);
        }
    }
    return ok;
}

static const Storage *block(const Storage *st)
{
    while (st->in_place)
        st = st->in_place;
    return st;
}

static bool no_overlap(const Schedule *s)
{
    bool ok = true;
    for (uint32_t i = 0; i < s->storages.len; i++) {
        const Storage *st = s->storages.data[i], *base = block(st);
        if (st->view && st->kind == SLOT_WORKSPACE && (st->first < base->first || st->last > base->last))
            ok = diag_report(s->ctx, s->groups.data[st->first]->nodes.data[0]->loc, DIAG_sched_overlap, st->name, base->name);
        for (uint32_t j = 0; j < i; j++) {
            const Storage *a = s->storages.data[i], *b = s->storages.data[j];
            if (a->kind != SLOT_WORKSPACE || b->kind != SLOT_WORKSPACE || a->first > b->last || b->first > a->last)
                continue;
            if (block(a) != block(b) && /* sharers were checked by plan */
                a->bytes && b->bytes && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
                ok = diag_report(s->ctx, s->groups.data[a->first]->nodes.data[0]->loc, DIAG_sched_overlap, a->name, b->name);
        }
    }
    return ok;
}

bool sched_verify(const Schedule *s, PassLevel level)
{
    bool ok = reads_are_ready(s);
    if (level == LEVEL_LOOP || s->phases.len)
        for (uint32_t i = 0; i < s->groups.len; i++)
            if (s->groups.data[i]->kernel && !kernel_verify(s->groups.data[i]->kernel))
                ok = false;
    return (s->phases.len ? no_overlap(s) : true) && ok;
}
