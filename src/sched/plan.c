/* SPDX-License-Identifier: Apache-2.0
 *
 * plan: everything gets its address before the program runs. Values that live between kernels share one workspace: blocks are placed
 * largest first, each at the lowest offset free during its lifetime (greedy by size; Pisarchyk and Lee 2020, arXiv:2001.03288).
 * A value takes over the bytes of an operand that dies in the same kernel if that kernel reads the operand only at
 * the element it is about to overwrite. Local buffers go to a scratch area with one copy per thread slot.
 * What views lie in (views.c) lives from the first write of one to the last use of any; nothing is computed over a
 * view, nor over what a view lies in by a kernel that reads the view.
 * Equal kernels share code; equal packed constants share one image.
 * If that is above the lower bound, other orders are tried: by start, by bytes times lifetime, and then repeatedly the blocks that
 * reach the peak first; a fixed number of tries, so the result depends on the graph alone.
 * The lower bound is the largest sum of live blocks over phases, after in-place merges; nothing can be below it.
 */
#include "sched/sched_int.h"

#include <inttypes.h>
#include <string.h>

enum { ALIGN = 64 };

static uint64_t round_up(uint64_t n) { return (n + ALIGN - 1) / ALIGN * ALIGN; }

/* ---- lifetimes and in-place merges ------------------------------------------------------------------------------------------ */

static Storage *block_of(Storage *st)
{
    while (st->in_place)
        st = st->in_place;
    return st;
}

/* Before kernel `p`, or at it. */
static void touch(Storage *st, uint32_t p)
{
    if (!st)
        return;
    st->first = p < st->first ? p : st->first;
    st->last = p > st->last ? p : st->last;
}

/* What lives across a border of a loop lives over the whole of it. */
static bool stretch_over(Schedule *s, uint32_t begin, uint32_t end)
{
    bool changed = false;
    for (uint32_t i = 0; i < s->storages.len; i++) {
        Storage *st = s->storages.data[i];
        uint32_t first = st->first, last = st->last;
        if (first < begin && last >= begin && last < end)
            st->last = end;
        if (first <= end && last > end && first > begin)
            st->first = begin;
        st->merged |= first < begin ? last >= begin : first <= end && last > end;
        changed |= st->first != first || st->last != last;
    }
    return changed;
}

static void stretch_over_loops(Schedule *s)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < s->steps.len; i++) {
            const Step *step = &s->steps.data[i];
            uint32_t end = s->steps.data[step->target].group;
            if (step->kind == STEP_LOOP && end > step->group)
                changed |= stretch_over(s, step->group, end - 1);
        }
    }
}

static void touch_words(Schedule *s)
{
    uint32_t most = s->groups.len ? s->groups.len - 1 : 0;
    for (uint32_t i = 0; i < s->steps.len; i++) {
        const Step *step = &s->steps.data[i];
        bool next = step->kind == STEP_NEXT && step->group > 0;
        uint32_t p = step->group - next < most ? step->group - next : most;
        touch(step->counter, p);
        touch(step->go, p);
        touch(step->trip, p);
    }
}

void sched_find_lifetimes(Schedule *s)
{
    for (uint32_t i = 0; i < s->storages.len; i++) {
        s->storages.data[i]->first = s->storages.data[i]->merged ? UINT32_MAX : 0;
        s->storages.data[i]->last = 0;
    }
    for (uint32_t p = 0; p < s->groups.len; p++) {
        Group *g = s->groups.data[p];
        for (uint32_t i = 0; i < g->writes.len; i++) {
            if (!g->writes.data[i]->merged)
                g->writes.data[i]->first = p;
            touch(g->writes.data[i], p);
        }
        for (uint32_t i = 0; i < g->reads.len; i++)
            touch(g->reads.data[i], p);
    }
    touch_words(s);
    for (uint32_t i = 0; i < s->storages.len; i++)
        if (s->storages.data[i]->first > s->storages.data[i]->last) /* nothing touches it */
            s->storages.data[i]->first = s->storages.data[i]->last;
    stretch_over_loops(s);
    for (uint32_t i = 0; i < s->storages.len; i++) { /* void copies and views */
        Storage *st = s->storages.data[i], *block = block_of(st);
        block->first = st->first < block->first ? st->first : block->first;
        block->last = st->last > block->last ? st->last : block->last;
    }
}

typedef struct InPlace {
    const Storage *old, *new;
    bool ok;
    uint32_t stores;
    const Expr *const *index; /* of the store at hand */
    Map *seen;
} InPlace;

static bool loads_match(void *user, const Expr *e)
{
    InPlace *p = user;
    if (map_has(p->seen, KEY(e)))
        return true;
    map_set(p->seen, KEY(e), p);
    if (e->kind == LX_LOAD && e->u.buf->val == p->old->val) {
        if (!p->index)
            return false;
        for (uint32_t i = 0; i < e->u.buf->rank; i++)
            if (e->arg[i] != p->index[i])
                return false;
    }
    for (uint32_t i = 0; i < e->n_args; i++)
        if (!loads_match(user, e->arg[i]))
            return false;
    return true;
}

static void check_in_place(Kernel *k, const Stmt *list, InPlace *p)
{
    for (const Stmt *s = list; s && p->ok; s = s->next) {
        p->index = NULL;
        p->seen = map_create(k->arena);
        const Buf *stored = s->kind == LS_STORE ? s->u.store.buf : s->kind == LS_PUT ? s->u.put.buf : NULL;
        if (s->kind == LS_FOR) {
            check_in_place(k, s->u.loop.body, p);
            continue;
        }
        if (s->kind == LS_IF) {
            check_in_place(k, s->u.branch.then, p);
            check_in_place(k, s->u.branch.otherwise, p);
            continue;
        }
        if (stored && stored->val == p->new->val) {
            p->stores++;
            p->index = s->kind == LS_STORE ? s->u.store.index : s->u.put.index;
        }
        Stmt one = *s;
        one.next = NULL;
        p->ok = stmts_each_expr(&one, loads_match, p);
    }
}

static bool may_share(const Group *g, const Storage *old, const Storage *new)
{
    if (old->bytes != new->bytes || old->rank != new->rank || old->val->type->dtype != new->val->type->dtype)
        return false;
    for (uint32_t i = 0; i < old->rank; i++)
        if (old->dim[i] != new->dim[i] || old->stride[i] != new->stride[i])
            return false;
    InPlace p = {.old = old, .new = new, .ok = true};
    check_in_place(g->kernel, g->kernel->body, &p);
    return p.ok && p.stores >= 1;
}

/* Whether the kernel touches the bytes of `old` under another name, too (a view, a void copy): may_share does not see that. */
static bool has_other_name(const Group *g, Storage *old, const Storage *new)
{
    for (uint32_t i = 0; i < g->reads.len; i++)
        if (g->reads.data[i] != old && block_of(g->reads.data[i]) == block_of(old))
            return true;
    for (uint32_t i = 0; i < g->writes.len; i++)
        if (g->writes.data[i] != new && g->writes.data[i]->in_place && block_of(g->writes.data[i]) == block_of(old))
            return true;
    return false;
}

static void merge_in_place(Schedule *s)
{
    for (uint32_t p = 0; p < s->groups.len; p++) {
        Group *g = s->groups.data[p];
        for (uint32_t w = 0; w < g->writes.len; w++) {
            Storage *new = g->writes.data[w];
            if (new->kind != SLOT_WORKSPACE || new->in_place || new->merged || new->first < p) /* a view of it was made before */
                continue;
            for (uint32_t r = 0; r < g->reads.len && !new->in_place; r++) {
                Storage *old = g->reads.data[r], *block = block_of(old);
                if (block->kind == SLOT_WORKSPACE && !old->merged && !old->view && old->last == p && block->last <= p &&
                    !has_other_name(g, old, new) && may_share(g, old, new)) {
                    new->in_place = old;
                    block->last = new->last;
                }
            }
        }
    }
}

/* ---- placement ------------------------------------------------------------------------------------------------------------------ */

static bool overlap(const Storage *a, const Storage *b) { return a->first <= b->last && b->first <= a->last; }

typedef enum PlaceOrder { BY_BYTES, BY_START, BY_AREA, PLACE_ORDERS } PlaceOrder;

static uint64_t place_key(const Storage *st, PlaceOrder order)
{
    return order == BY_BYTES ? st->bytes : order == BY_START ? UINT32_MAX - st->first : st->bytes * (st->last - st->first + 1);
}

static bool goes_before(const Storage *a, const Storage *b, PlaceOrder order)
{
    uint64_t x = place_key(a, order), y = place_key(b, order);
    if (x != y)
        return x > y;
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->val->id < b->val->id;
}

static void sort_blocks(Storage **block, uint32_t n, PlaceOrder order) /* Shell sort: no library call decides ties */
{
    for (uint32_t gap = n / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < n; i++)
            for (uint32_t j = i; j >= gap && goes_before(block[j], block[j - gap], order); j -= gap) {
                Storage *t = block[j];
                block[j] = block[j - gap];
                block[j - gap] = t;
            }
}

/* Each block at the lowest free offset, in the order given. Returns the peak. */
static uint64_t place_in_order(Storage *const *block, uint32_t n)
{
    uint64_t peak = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t offset = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t j = 0; j < i; j++)
                if (overlap(block[i], block[j]) && offset < block[j]->offset + block[j]->bytes &&
                    block[j]->offset < offset + block[i]->bytes) {
                    offset = block[j]->offset + block[j]->bytes;
                    moved = true;
                }
        }
        block[i]->offset = offset;
        peak = offset + block[i]->bytes > peak ? offset + block[i]->bytes : peak;
    }
    return peak;
}

static uint64_t lower_bound(const Schedule *s, Storage *const *block, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t p = 0; p < s->groups.len; p++) {
        uint64_t live = 0;
        for (uint32_t i = 0; i < n; i++)
            live += block[i]->first <= p && p <= block[i]->last ? block[i]->bytes : 0;
        most = live > most ? live : most;
    }
    return most;
}

/* Moves the block that reaches the peak to the front. */
static void promote_peak(Storage **block, uint32_t n, uint64_t peak)
{
    for (uint32_t i = 0; i < n; i++)
        if (block[i]->offset + block[i]->bytes == peak) {
            Storage *top = block[i];
            for (; i > 0; i--)
                block[i] = block[i - 1];
            block[0] = top;
            return;
        }
}

typedef struct BestPlan {
    uint64_t peak;
    uint64_t *offset;
} BestPlan;

static void keep_if_better(BestPlan *best, Storage *const *block, const uint32_t *slot, uint32_t n, uint64_t peak)
{
    if (peak >= best->peak)
        return;
    best->peak = peak;
    for (uint32_t i = 0; i < n; i++)
        best->offset[slot[block[i]->val->id]] = block[i]->offset;
}

static void place_in_block(Storage *st)
{
    const Storage *block = block_of(st);
    int64_t at = 0;
    for (const Storage *part = st; part->in_place; part = part->in_place)
        at += part->at;
    st->kind = block->kind;
    st->index = block->index;
    st->offset = block->offset + (uint64_t)at * (uint64_t)dtype_bits(st->val->type->dtype) / 8;
}

static void place_blocks(Schedule *s)
{
    enum { PROMOTIONS = 64 };
    VEC(Storage *) block = {0};
    uint32_t *slot = ARENA_ARRAY(s->arena, uint32_t, s->module->next_id + 1); /* value id -> index in best.offset */
    for (uint32_t i = 0; i < s->storages.len; i++) {
        Storage *st = s->storages.data[i];
        if (st->kind != SLOT_WORKSPACE || st->in_place)
            continue;
        slot[st->val->id] = block.len;
        vec_push(s->arena, &block, st);
    }
    uint32_t n = block.len;
    BestPlan best = {UINT64_MAX, ARENA_ARRAY(s->arena, uint64_t, n + 1)};
    s->lower_bound_bytes = lower_bound(s, block.data, n);
    for (PlaceOrder order = 0; order < PLACE_ORDERS && best.peak > s->lower_bound_bytes; order++) {
        sort_blocks(block.data, n, order);
        uint64_t peak = place_in_order(block.data, n);
        keep_if_better(&best, block.data, slot, n, peak);
        for (int i = 0; i < PROMOTIONS && best.peak > s->lower_bound_bytes; i++) {
            promote_peak(block.data, n, peak);
            peak = place_in_order(block.data, n);
            keep_if_better(&best, block.data, slot, n, peak);
        }
    }
    s->peak_bytes = n ? best.peak : 0;
    for (uint32_t i = 0; i < n; i++)
        block.data[i]->offset = best.offset[slot[block.data[i]->val->id]];
    for (uint32_t i = 0; i < s->storages.len; i++)
        place_in_block(s->storages.data[i]);
}

/* ---- constants ------------------------------------------------------------------------------------------------------------------- */

static bool same_pack(const PackedWeight *a, const Buf *buf)
{
    if (a->pack->weight->data != buf->pack->weight->data || a->pack->winograd != buf->pack->winograd ||
        a->pack->offset != buf->pack->offset || a->dtype != buf->dtype || a->rank != buf->rank ||
        a->pack->n_bounds != buf->pack->n_bounds)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != buf->dim[i] || a->pack->stride[i] != buf->pack->stride[i])
            return false;
    for (int b = 0; b < a->pack->n_bounds; b++) {
        if (a->pack->bound[b].limit != buf->pack->bound[b].limit)
            return false;
        for (uint32_t i = 0; i < a->rank; i++)
            if (a->pack->bound[b].coef[i] != buf->pack->bound[b].coef[i])
                return false;
    }
    return true;
}

static PackedWeight *packed_weight(Schedule *s, const Buf *buf)
{
    for (uint32_t i = 0; i < s->weights.len; i++)
        if (same_pack(s->weights.data[i], buf))
            return s->weights.data[i];
    PackedWeight *w = ARENA_NEW(s->arena, PackedWeight);
    uint64_t count = 1;
    w->name = buf->pack->weight->name;
    w->pack = buf->pack;
    w->dtype = buf->dtype;
    w->rank = buf->rank;
    for (uint32_t i = 0; i < buf->rank; i++) {
        w->dim[i] = buf->dim[i];
        count *= (uint64_t)buf->dim[i];
    }
    if (!dtype_bytes(w->dtype, count, &w->bytes))
        ig_bug(s->ctx, "packed weight '%s' is too large", w->name);
    w->offset = s->weight_bytes;
    s->weight_bytes = round_up(w->offset + w->bytes);
    vec_push(s->arena, &s->weights, w);
    return w;
}

/* ---- phases ------------------------------------------------------------------------------------------------------------------------ */

/* Text of a kernel that names buffers, iterators and variables by their number and says nothing of where constants come from: equal
 * texts are equal code over the same list of buffers. */
static void print_code(Text *text, Kernel *k)
{
    Arena *arena = text->arena;
    Str name = k->name, *names = ARENA_ARRAY(arena, Str, k->bufs.len + k->iters.len + k->vars.len + 1), *at = names;
    const Pack **packs = ARENA_ARRAY(arena, const Pack *, k->bufs.len + 1);
#define EXCHANGE(list, letter)                                                                                                 \
    for (uint32_t i = 0; i < (list).len; i++) {                                                                                \
        *at++ = (list).data[i]->name;                                                                                          \
        (list).data[i]->name = arena_printf(arena, letter "%" PRIu32, i);                                                      \
    }
#define RESTORE(list)                                                                                                          \
    for (uint32_t i = 0; i < (list).len; i++)                                                                                  \
        (list).data[i]->name = *at++;
    k->name = "";
    EXCHANGE(k->bufs, "b")
    EXCHANGE(k->iters, "i")
    EXCHANGE(k->vars, "v")
    for (uint32_t i = 0; i < k->bufs.len; i++) {
        packs[i] = k->bufs.data[i]->pack;
        k->bufs.data[i]->pack = NULL;
    }
    kernel_print(text, k);
    for (uint32_t i = 0; i < k->bufs.len; i++)
        k->bufs.data[i]->pack = packs[i];
    at = names;
    RESTORE(k->bufs)
    RESTORE(k->iters)
    RESTORE(k->vars)
    k->name = name;
#undef EXCHANGE
#undef RESTORE
}

typedef struct KnownKernels {
    Arena *tmp; /* of one text */
    Intern *texts;
    Map *index; /* interned text -> index in the schedule + 1 */
} KnownKernels;

static uint32_t kernel_index(Schedule *s, KnownKernels *known, Kernel *k)
{
    Text text;
    text_init(&text, known->tmp);
    print_code(&text, k);
    void **index = map_slot(known->index, KEY(intern_bytes(known->texts, text.data, text.len)));
    arena_reset(known->tmp);
    if (!*index) {
        vec_push(s->arena, &s->kernels, k);
        *index = (void *)(uintptr_t)s->kernels.len;
    }
    return (uint32_t)(uintptr_t)*index - 1;
}

static uint64_t node_flops(const Node *node)
{
    uint64_t out = 0, in = 0, weights = 0;
    (void)type_count_bound(node->out[0].type, &out);
    if (op_info[node->op].kind == OK_FOLD) {
        (void)type_count_bound(ir_in(node, 0)->type, &in);
        return in;
    }
    if (op_info[node->op].kind != OK_CONTRACT)
        return op_info[node->op].kind == OK_MAP ? out : 0;
    (void)type_count_bound(ir_in(node, 1)->type, &weights);
    const int64_t *axes;
    if (attrs_get((Op)node->op, node->attr, AN_lhs_contract)) {
        uint64_t k = 1;
        uint32_t n = node_ints(node, AN_lhs_contract, &axes);
        for (uint32_t i = 0; i < n; i++)
            k *= (uint64_t)type_bound(ir_in(node, 0)->type, (uint32_t)axes[i]);
        return 2 * out * k;
    }
    int64_t channels = type_dim(ir_in(node, 1)->type, 0);
    return channels > 0 ? 2 * out * (weights / (uint64_t)channels) : 0;
}

static void describe_phase(Phase *phase)
{
    const Group *g = phase->group;
    phase->arith = "exact";
    for (uint32_t i = 0; i < g->nodes.len; i++) {
        const char *arith = op_class(g->nodes.data[i]);
        if (*arith && strcmp(arith, "exact") != 0)
            phase->arith = arith;
        phase->flops += node_flops(g->nodes.data[i]);
    }
}

/* What a kernel touches of a value, at most: of a stack that it adds to, one element. */
static uint64_t bytes_touched(const Schedule *s, const Group *g, const Storage *st)
{
    uint64_t count, bytes;
    for (uint32_t i = 0; i < g->nodes.len; i++) {
        const Val *out = &g->nodes.data[i]->out[0];
        if (control_stack(g->nodes.data[i]) && sched_storage_of(s, out) == st && type_count_bound(out->type, &count) &&
            dtype_bytes(out->type->dtype, count, &bytes))
            return bytes;
    }
    return st->bytes;
}

static void make_phase(Schedule *s, Group *g, KnownKernels *known)
{
    Kernel *k = g->kernel;
    Phase phase = {.group = g, .tiles = kernel_tiles(k), .slots = ARENA_ARRAY(s->arena, Slot, k->bufs.len + 1)};
    uint64_t scratch = 0;
    describe_phase(&phase);
    for (uint32_t i = 0; i < k->bufs.len; i++) {
        const Buf *buf = k->bufs.data[i];
        Slot *slot = &phase.slots[i];
        uint64_t bytes;
        if (buf->space == BUF_LOCAL) {
            if (!dtype_bytes(buf->dtype, (uint64_t)buf->elements, &bytes))
                ig_bug(s->ctx, "local buffer '%s' is too large", buf->name);
            *slot = (Slot){SLOT_SCRATCH, 0, scratch};
            scratch = round_up(scratch + bytes);
        } else if (buf->space == BUF_WEIGHT) {
            const PackedWeight *w = packed_weight(s, buf);
            *slot = (Slot){SLOT_WEIGHTS, 0, w->offset};
            phase.bytes += w->bytes;
        } else if (buf->space == BUF_SIZES) {
            *slot = (Slot){SLOT_SIZES, 0, 0};
        } else {
            const Storage *st = sched_storage_of(s, buf->val);
            *slot = (Slot){st->kind, st->index, st->offset};
            phase.bytes += bytes_touched(s, g, st);
        }
    }
    if (scratch > s->scratch_bytes)
        s->scratch_bytes = scratch;
    phase.kernel = kernel_index(s, known, k);
    vec_push(s->arena, &s->phases, phase);
}

/* Buffers that no statement touches any more (a raw constant behind its packed form, a narrow row buffer) are dropped. */
static bool mark_used(void *user, const Buf *buf, const Expr *const *index, bool is_store)
{
    bool *used = user;
    (void)index;
    (void)is_store;
    used[buf->id] = true;
    return true;
}

static void drop_unused_buffers(Kernel *k)
{
    bool *used = ARENA_ARRAY(k->arena, bool, k->bufs.len + 1);
    uint32_t n = 0;
    stmts_each_access(k->arena, k->body, mark_used, used);
    for (uint32_t i = 0; k->sizes && i < k->bufs.len; i++)
        used[k->sizes->id] |= used[i] && k->bufs.data[i]->size;
    if (k->sizes && !used[k->sizes->id])
        k->sizes = NULL;
    for (uint32_t i = 0; i < k->bufs.len; i++)
        if (used[i]) {
            k->bufs.data[i]->id = n;
            k->bufs.data[n++] = k->bufs.data[i];
        }
    k->bufs.len = n;
}

bool pass_plan(PassCtx *pc, Unit *unit)
{
    Schedule *s = unit->schedule;
    for (uint32_t i = 0; i < s->groups.len; i++)
        drop_unused_buffers(s->groups.data[i]->kernel);
    bool share = !pc->options->eager && pc->options->opt_level > 0;
    if (share)
        sched_drop_copies(s);
    sched_find_lifetimes(s);
    if (share)
        merge_in_place(s);
    place_blocks(s);
    s->workspace_bytes = s->peak_bytes;
    KnownKernels known = {arena_create(s->ctx), intern_create(pc->tmp), map_create(pc->tmp)};
    for (uint32_t i = 0; i < s->groups.len; i++)
        make_phase(s, s->groups.data[i], &known);
    arena_destroy(known.tmp);
    return true;
}
