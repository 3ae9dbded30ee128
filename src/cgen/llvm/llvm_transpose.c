/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies that exchange axes: `for k { for l vec { store to[.., l] = f(from[.., l*S + k]) } }`, where rows of `from` may also be looked up
 * in a table, from[.., table[l]*S + k]. A vector loop would gather each register from 16 places. Here 16 x 16 elements go through
 * registers: 16 rows of `from` are loaded, transposed by four stages of shuffles, and stand for the loads of 16 iterations of k.
 */
#include "cgen/llvm/llvm_int.h"

enum { MAX_TURNED = 2 };

typedef struct Turn {
    const Iter *along, *across;   /* iterators of the two loops: k, l */
    const Expr *load[MAX_TURNED]; /* of the value stored, contiguous along k and apart along l */
    uint32_t n;
    bool fits;
} Turn;

/* Finds the loads to turn; not `fits` if there are others that the lanes do not read side by side, or all alike. */
static void find_loads(Cg *cg, Turn *t, const Expr *e, const Buf *to)
{
    int64_t k, l;
    if (e->kind == LX_LOAD && (lx_uses_iter(e, t->along) || lx_uses_iter(e, t->across))) {
        const Expr *offset = lx_offset(cg->k, e->u.buf, e->arg);
        bool steady = lx_linear(cg->k, offset, t->along, &k, NULL), linear = lx_linear(cg->k, offset, t->across, &l, NULL);
        bool masked = e->n_args > e->u.buf->rank, known = false;
        t->fits &= steady && (linear || k == 1) && e->u.buf != to;
        for (uint32_t i = 0; i < t->n; i++)
            known |= t->load[i] == e;
        if (!steady || (linear && (l == 0 || l == 1)) || known)
            return;
        t->fits &= k == 1 && t->n < MAX_TURNED && e->dtype == DT_F32 && (!masked || !lx_uses_iter(e->arg[e->u.buf->rank], t->along));
        if (t->fits)
            t->load[t->n++] = e;
        return;
    }
    for (uint32_t i = 0; i < e->n_args; i++)
        find_loads(cg, t, e->arg[i], to);
}

static bool counts_whole_registers(const Stmt *loop)
{
    int64_t lo, hi;
    return loop->u.loop.step == 1 && lx_is_int(loop->u.loop.lo, &lo) && lo == 0 && lx_is_int(loop->u.loop.hi, &hi) && hi >= LANES &&
           hi % LANES == 0;
}

static bool turn_find(Cg *cg, const Stmt *loop, Turn *t)
{
    const Stmt *inner = loop->u.loop.body, *store = inner && inner->kind == LS_FOR ? inner->u.loop.body : NULL;
    int64_t coef;
    if (cg->lane || !store || inner->next || store->next || store->kind != LS_STORE || store->u.store.mask ||
        inner->u.loop.bind != BIND_VEC || !counts_whole_registers(loop) || !counts_whole_registers(inner))
        return false;
    *t = (Turn){.along = loop->u.loop.iter, .across = inner->u.loop.iter, .fits = true};
    if (!lx_linear(cg->k, lx_offset(cg->k, store->u.store.buf, store->u.store.index), t->across, &coef, NULL) || coef != 1)
        return false;
    find_loads(cg, t, store->u.store.value, store->u.store.buf);
    return t->fits && t->n > 0;
}

/* The lower or upper halves of the two registers' groups of four lanes, `width` lanes of each in turns. */
static LLVMValueRef unpack(Cg *cg, LLVMValueRef a, LLVMValueRef b, int width, bool upper)
{
    int64_t lane[LANES];
    for (int i = 0; i < LANES; i++) {
        int in_group = i % 4, turn = in_group / width;
        lane[i] = i / 4 * 4 + (upper ? 2 : 0) + (width == 1 ? in_group / 2 : in_group % 2) + (turn % 2) * LANES;
    }
    return cg_shuffle(cg, a, b, lane, LANES);
}

/* Groups of four lanes 0 and 2 (odd: 1 and 3) of a, then of b. */
static LLVMValueRef pick_groups(Cg *cg, LLVMValueRef a, LLVMValueRef b, bool odd)
{
    int64_t lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = (i / 4 % 2 * 2 + odd) * 4 + i % 4 + i / 8 * LANES;
    return cg_shuffle(cg, a, b, lane, LANES);
}

/* Rows of 16 x 16 elements to columns: pairs of rows, groups of four, then groups of lanes by halves and quarters. */
static void transpose(Cg *cg, LLVMValueRef *v)
{
    LLVMValueRef t[LANES];
    for (int i = 0; i < LANES; i++)
        t[i] = unpack(cg, v[i / 2 * 2], v[i / 2 * 2 + 1], 1, i % 2);
    for (int i = 0; i < LANES; i++) { /* register 4g + j: of rows 4g.., lane group q holds column 4q + j */
        int first = i / 4 * 4 + i % 4 / 2;
        v[i] = unpack(cg, t[first], t[first + 2], 2, i % 2);
    }
    for (int j = 0; j < 4; j++)
        for (int odd = 0; odd < 2; odd++) {
            LLVMValueRef low = pick_groups(cg, v[j], v[4 + j], odd), high = pick_groups(cg, v[8 + j], v[12 + j], odd);
            t[4 * odd + j] = pick_groups(cg, low, high, false);
            t[4 * odd + 8 + j] = pick_groups(cg, low, high, true);
        }
    for (int i = 0; i < LANES; i++)
        v[i] = t[i];
}

/* Rows 16*chunk .. of the load, 16 elements each from 16*block on; then columns. */
static void load_turned(Cg *cg, const Turn *t, const Expr *load, const Expr *along, const Expr *across, LLVMValueRef *v)
{
    Kernel *k = cg->k;
    const Expr *side = lx_replace_iter(k, load, t->along, lx_add(k, along, lx_iter(k, cg->lane)));
    for (int row = 0; row < LANES; row++)
        v[row] = cg_lanes(cg, lx_replace_iter(k, side, t->across, lx_add(k, across, lx_int(k, row))));
    cg_place(cg, cg->top);
    transpose(cg, v);
}

static void turned_block(Cg *cg, const Turn *t, const Stmt *store, const Expr *along, const Expr *across)
{
    Kernel *k = cg->k;
    LLVMValueRef v[MAX_TURNED][LANES];
    for (uint32_t i = 0; i < t->n; i++)
        load_turned(cg, t, t->load[i], along, across, v[i]);
    const Stmt *lanes = ls_replace_iter(k, store, t->across, lx_add(k, across, lx_iter(k, cg->lane)));
    for (int u = 0; u < LANES; u++) {
        const Expr *at = lx_add(k, along, lx_int(k, u));
        const Stmt *one = ls_replace_iter(k, lanes, t->along, at);
        for (uint32_t i = 0; i < t->n; i++) {
            const Expr *load = lx_replace_iter(k, t->load[i], t->across, lx_add(k, across, lx_iter(k, cg->lane)));
            cg_preset(cg, lx_replace_iter(k, load, t->along, at), (CgVal){.v = v[i][u], .depth = cg->top, .vec = true});
        }
        cg_store(cg, one->u.store.buf, one->u.store.index, cg_value(cg, one->u.store.value), NULL);
    }
}

bool cg_turned_loop(Cg *cg, const Stmt *s)
{
    Turn t;
    if (!turn_find(cg, s, &t))
        return false;
    Kernel *k = cg->k;
    int64_t blocks = s->u.loop.hi->u.i / LANES, chunks = s->u.loop.body->u.loop.hi->u.i / LANES;
    const Iter *block = kernel_iter(k, t.along->name, 0, blocks - 1), *chunk = kernel_iter(k, t.across->name, 0, chunks - 1);
    Loop outer, inner;
    cg_loop_begin(cg, &outer, block, cg_int(cg, 0), cg_int(cg, blocks), 1, false, true, NULL, 0);
    cg_loop_begin(cg, &inner, chunk, cg_int(cg, 0), cg_int(cg, chunks), 1, false, true, NULL, 0);
    cg->lane = kernel_iter(k, "lane", 0, LANES - 1);
    turned_block(cg, &t, s->u.loop.body->u.loop.body, lx_mul(k, lx_iter(k, block), LANES), lx_mul(k, lx_iter(k, chunk), LANES));
    cg->lane = NULL;
    cg_loop_end(cg, &inner, NULL);
    cg_loop_end(cg, &outer, NULL);
    return true;
}
