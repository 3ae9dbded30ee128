/* SPDX-License-Identifier: Apache-2.0
 *
 * Register tiles: mma and put, in a form of which LLVM's register allocator spills nothing: rows x cols/16 accumulators as phis
 * through all loops, pointer cursors for both operands, per position the vectors of b first, then one broadcast of a and its FMAs
 * per row, 1, 2 or 4 positions an iteration.
 *
 * A guard's terms that do not depend on the row are branches at the outermost loop that decides them. The others (taps that
 * fall outside the image for some pixels of the tile) are decided by unrolling the axes they use: each repetition knows its
 * live rows, and is a basic block of its own, lest loads shared by overlapping taps live too long.
 * What stays undecided is a branch per row: right, but slow; schedules avoid it.
 *
 * A tile larger than the registers (a schedule made for another target) is computed in parts that fit, one after the other.
 *
 * With more than one block or part the tile lives in memory, to which each block's chain is added; -0 before the first makes that
 * exact. An epilogue of some size runs in a loop over the rows.
 */
#include "cgen/llvm/llvm_int.h"

enum { MAX_TILE = 64, MAX_UNIT = 8, UNROLL_AXIS = 16, UNROLLED_PUT = 96 };

typedef struct Mma {
    const Stmt *s;
    Tile *tile;
    int64_t row0, rows, vec0, vecs; /* the part of the tile under work */
    DType dtype;
    const Expr *a[MAX_UNIT][MAX_TILE], *b[MAX_UNIT][MAX_TILE]; /* by position and row, by position and vector */
    const Expr *row_guard[NEST_MAX_GUARDS];
    uint32_t n_row_guards;
    LLVMValueRef mask[MAX_TILE], acc[MAX_TILE];
    bool absent[MAX_TILE]; /* vectors beyond the column limit; by vector of the tile, like mask */
    const Expr *live[MAX_TILE]; /* per row: NULL yes, false no, or undecided */
    bool blocked; /* totals of blocks are in memory */
} Mma;

/* ---- tile memory ------------------------------------------------------------------------------------------------------------- */

LLVMValueRef cg_tile_memory(Cg *cg, Tile *tile)
{
    if (tile->slot)
        return tile->slot->memory;
    for (uint32_t i = 0; i < cg->slots.len && !tile->slot; i++)
        if (!cg->slots.data[i]->busy)
            tile->slot = cg->slots.data[i];
    if (!tile->slot) {
        tile->slot = ARENA_NEW(cg->arena, TileSlot);
        tile->slot->memory = cg_alloca(cg, cg->i8, cg->tile_bytes, 64);
        vec_push(cg->arena, &cg->slots, tile->slot);
    }
    tile->slot->busy = true;
    return tile->slot->memory;
}

static LLVMTypeRef tile_type(Cg *cg, const Tile *tile) { return cg_vec_type(cg_memory_type(cg, tile->dtype)); }

LLVMValueRef cg_tile_at(Cg *cg, Tile *tile, LLVMValueRef index)
{
    LLVMValueRef memory = cg_tile_memory(cg, tile);
    cg_place(cg, cg->top);
    return LLVMBuildGEP2(cg->b, tile_type(cg, tile), memory, &index, 1, "");
}

static LLVMValueRef tile_load(Cg *cg, Tile *tile, LLVMValueRef index)
{
    LLVMValueRef p = cg_tile_at(cg, tile, index);
    return LLVMBuildLoad2(cg->b, tile_type(cg, tile), p, "");
}

static void tile_store(Cg *cg, Tile *tile, LLVMValueRef index, LLVMValueRef v)
{
    LLVMValueRef p = cg_tile_at(cg, tile, index);
    LLVMBuildStore(cg->b, v, p);
}

static void tile_spill(Cg *cg, Tile *tile)
{
    for (int64_t i = 0; tile->reg && i < tile->rows * tile->vecs; i++)
        tile_store(cg, tile, cg_int(cg, i), tile->reg[i]);
    tile->reg = NULL;
}

/* ---- mma ------------------------------------------------------------------------------------------------------------------------ */

/* Which rows take part, given the unrolled axes' values. */
static void decide_rows(Cg *cg, const Nest *nest, Mma *m)
{
    for (int64_t row = 0; row < m->rows; row++) {
        m->live[row] = NULL;
        for (uint32_t g = 0; g < m->n_row_guards; g++) {
            const Expr *e = lx_replace_iter(cg->k, m->row_guard[g], m->s->u.mma.row, lx_int(cg->k, m->row0 + row));
            for (uint32_t i = 0; i < nest->n_axes; i++)
                if (nest->axis[i].unroll)
                    e = lx_replace_iter(cg->k, e, i + 1 == nest->n_axes ? nest->step : nest->axis[i].iter,
                                      lx_int(cg->k, nest->value[i]));
            m->live[row] = lx_is_true(e) ? m->live[row] : lx_and(cg->k, m->live[row], e);
        }
    }
}

static void fma_row(Cg *cg, Mma *m, int64_t u, int64_t row, const LLVMValueRef *b)
{
    int64_t vecs = m->vecs;
    LLVMValueRef *acc = &m->acc[row * vecs];
    Branch branch;
    const Expr *live = m->live[row];
    if (live)
        cg_if_begin(cg, &branch, cg_scalar(cg, live), false, acc, (uint32_t)vecs);
    LLVMValueRef a = cg_lanes(cg, m->a[u][row]);
    cg_place(cg, cg->top);
    a = cg_cast(cg, m->dtype, m->a[u][row]->dtype, a);
    for (int64_t j = 0; j < vecs; j++)
        if (!m->absent[m->vec0 + j])
            acc[j] = cg_fma(cg, m->dtype, a, b[j], acc[j]);
    if (live)
        cg_if_end(cg, &branch, acc);
}

/* b is a constant that L2 does not hold, and few row tiles read it once it is there. */
static bool is_streamed(const Cg *cg, const Expr *b)
{
    enum { MOST_TILES = 32 };
    int64_t tiles = 1;
    if (b->kind != LX_LOAD || b->u.buf->space != BUF_WEIGHT ||
        b->u.buf->elements * (int64_t)cg_bytes(b->u.buf->dtype) <= cg->options->target->l2_bytes)
        return false;
    for (int d = 1; d <= cg->top && tiles <= MOST_TILES; d++) {
        const Iter *iter = cg->scope[d].iter;
        tiles *= iter && !lx_uses_iter(b, iter) ? iter->hi - iter->lo + 1 : 1;
    }
    return tiles <= MOST_TILES;
}

/* Before a streamed load a prefetch of what its stream reads some hundred cycles later: the hardware's own prefetching ends with each
 * page. Panels lie one behind the other. Not for single rows: those wait for memory alone, and were 3 % slower with it. */
static void prefetch_ahead(Cg *cg, const Expr *b, LLVMValueRef load)
{
    enum { AHEAD = 4096, L1 = 3 };
    if (!LLVMIsALoadInst(load) || !is_streamed(cg, b))
        return;
    LLVMValueRef ahead = cg_int(cg, AHEAD);
    LLVMPositionBuilderBefore(cg->b, load);
    LLVMValueRef p = LLVMBuildGEP2(cg->b, cg->i8, LLVMGetOperand(load, 0), &ahead, 1, "");
    LLVMValueRef args[] = {p, LLVMConstInt(cg->i32, 0, false), LLVMConstInt(cg->i32, L1, false), LLVMConstInt(cg->i32, 1, false)};
    LLVMTypeRef type = LLVMTypeOf(p);
    cg_intrinsic(cg, "llvm.prefetch", &type, 1, args, 4);
}

enum { FEW_LINES = 4 };

/* Elements of b in a cache line. */
static int64_t line_of(const Stmt *s) { return 64 / (int64_t)cg_bytes(s->u.mma.b->u.buf->dtype); }

/* `lines` prefetches from `at` in what the tile reads ahead, `step` elements apart. */
static void prefetch_lines(Cg *cg, const Mma *m, const Expr *at, int64_t lines, int64_t step)
{
    const Stmt *s = m->s;
    for (int64_t i = 0; i < lines && m->row0 == 0 && m->vec0 == 0; i++)
        cg_prefetch(cg, s->u.mma.b->u.buf, lx_add(cg->k, lx_add(cg->k, s->u.mma.ahead, at), lx_int(cg->k, i * step)));
}

/* What the tile reads ahead, if that is little: at once. */
static void read_ahead_at_once(Cg *cg, const Mma *m)
{
    int64_t lines = m->s->u.mma.ahead ? (m->s->u.mma.n_ahead + line_of(m->s) - 1) / line_of(m->s) : 0;
    if (lines <= FEW_LINES)
        prefetch_lines(cg, m, lx_int(cg->k, 0), lines, line_of(m->s));
}

/* If it is more: the share of this unit of positions, lines that are at most a line apart (or the same again). */
static void read_ahead(Cg *cg, const Mma *m, const Nest *nest)
{
    const Expr *at = lx_int(cg->k, 0);
    int64_t units = 1, line = line_of(m->s), n = m->s->u.mma.n_ahead;
    if (!m->s->u.mma.ahead || n <= FEW_LINES * line || nest->axis[0].size)
        return;
    for (uint32_t i = 0; i < nest->n_axes; i++) {
        bool last = i + 1 == nest->n_axes;
        int64_t trips = last ? nest->axis[i].extent / nest->unit : nest->axis[i].extent;
        at = lx_add(cg->k, lx_mul(cg->k, at, trips), lx_iter(cg->k, last ? nest->step : nest->axis[i].iter));
        units *= trips;
    }
    int64_t lines = (n + units * line - 1) / (units * line), step = (n + units * lines - 1) / (units * lines);
    prefetch_lines(cg, m, lx_mul(cg->k, at, lines * step), lines, step);
}

static void mma_body(Cg *cg, Nest *nest, int64_t count)
{
    Mma *m = nest->user;
    int64_t rows = m->rows, vecs = m->vecs;
    decide_rows(cg, nest, m);
    bool any = false;
    for (int64_t row = 0; row < rows; row++)
        any |= !m->live[row] || !lx_is_false(m->live[row]);
    if (any && count == nest->unit)
        read_ahead(cg, m, nest);
    for (int64_t u = 0; any && u < count; u++) {
        LLVMValueRef b[MAX_TILE] = {0};
        for (int64_t j = 0; j < vecs; j++) {
            if (m->absent[m->vec0 + j])
                continue;
            cg->mask = m->mask[m->vec0 + j];
            cg->mask_depth = cg->top;
            b[j] = cg_lanes(cg, m->b[u][j]);
            if (rows > 1 && !m->s->u.mma.ahead)
                prefetch_ahead(cg, m->b[u][j], b[j]);
            cg_place(cg, cg->top);
            b[j] = cg_cast(cg, m->dtype, m->b[u][j]->dtype, b[j]);
        }
        cg->mask = NULL;
        for (int64_t row = 0; row < rows; row++)
            if (!m->live[row] || !lx_is_false(m->live[row]))
                fma_row(cg, m, u, row, b);
    }
}

static void mma_before(Cg *cg, Nest *nest)
{
    Mma *m = nest->user;
    LLVMValueRef zero = cg_splat_const(cg_const_bits(cg, m->dtype, 0));
    for (uint32_t i = 0; i < nest->n_acc; i++)
        m->acc[i] = zero;
}

/* Index in the tile of accumulator i of the part. */
static LLVMValueRef tile_index(const Cg *cg, const Mma *m, int64_t i)
{
    return cg_int(cg, (m->row0 + i / m->vecs) * m->tile->vecs + m->vec0 + i % m->vecs);
}

static void mma_after(Cg *cg, Nest *nest, bool only)
{
    Mma *m = nest->user;
    for (uint32_t i = 0; i < nest->n_acc && !only; i++) {
        LLVMValueRef total = tile_load(cg, m->tile, tile_index(cg, m, i));
        tile_store(cg, m->tile, tile_index(cg, m, i), cg_add(cg, m->dtype, total, m->acc[i]));
    }
}

static void clear_totals(Cg *cg, Mma *m)
{
    uint64_t bits = m->dtype == DT_F32 ? f32_bits(-0.0f) : m->dtype == DT_F64 ? f64_bits(-0.0) : 0;
    LLVMValueRef v = cg_splat_const(cg_const_bits(cg, m->dtype, bits));
    for (int64_t i = 0; i < m->rows * m->vecs; i++)
        tile_store(cg, m->tile, tile_index(cg, m, i), v);
}

/* Terms with the row are the body's; the axes they use are unrolled if short. A tile of one row has none. */
static void split_guard(Cg *cg, Mma *m, Nest *nest, const Expr *guard)
{
    uint32_t kept = 0;
    cg_nest_split_guard(cg, nest, guard);
    for (uint32_t i = 0; i < nest->n_guards; i++) {
        const Expr *e = nest->guard[i];
        if (lx_uses_iter(e, m->s->u.mma.row) || nest->guard_level[i] >= (int)nest->n_axes - 1) {
            m->row_guard[m->n_row_guards++] = e;
            for (uint32_t j = 0; j < nest->n_axes; j++)
                if (lx_uses_iter(e, nest->axis[j].iter) && nest->axis[j].extent <= UNROLL_AXIS && !nest->axis[j].size)
                    nest->axis[j].unroll = true;
            continue;
        }
        nest->guard[kept] = e;
        nest->guard_level[kept++] = nest->guard_level[i];
    }
    nest->n_guards = kept;
}

/* Positions an iteration: up to 4, a divisor of what a block holds of the last axis; a very short axis whole. */
static int64_t choose_unit(const Nest *nest, int64_t block, int64_t fmas)
{
    const NestAxis *last = &nest->axis[nest->n_axes - 1];
    int64_t run = nest->n_axes == 1 && last->extent > block ? block : last->extent;
    if (last->unroll || last->size)
        return 1;
    if (run <= MAX_UNIT && run == last->extent && run * fmas <= 128)
        return run;
    for (int64_t unit = 4; unit > 1; unit /= 2)
        if (run % unit == 0 && last->extent % unit == 0 && unit * fmas <= 128)
            return unit;
    return 1;
}

static void spread(Cg *cg, Mma *m, Nest *nest, const Expr *a, const Expr *b)
{
    NestAxis *last = &nest->axis[nest->n_axes - 1];
    const Iter *iter = last->iter;
    nest->step = kernel_iter(cg->k, iter->name, 0, last->extent / nest->unit - 1);
    for (int64_t u = 0; u < nest->unit; u++) {
        const Expr *at = lx_mul(cg->k, lx_iter(cg->k, nest->step), nest->unit);
        at = lx_add(cg->k, at, lx_int(cg->k, u));
        const Expr *au = lx_replace_iter(cg->k, a, iter, at), *bu = lx_replace_iter(cg->k, b, iter, at);
        for (int64_t row = 0; row < m->rows; row++)
            m->a[u][row] = lx_replace_iter(cg->k, au, m->s->u.mma.row, lx_int(cg->k, m->row0 + row));
        for (int64_t j = 0; j < m->vecs; j++) {
            const Expr *col = lx_add(cg->k, lx_iter(cg->k, cg->lane), lx_int(cg->k, LANES * (m->vec0 + j)));
            m->b[u][j] = lx_replace_iter(cg->k, bu, m->s->u.mma.col, col);
        }
    }
    for (uint32_t g = 0; g < m->n_row_guards; g++)
        if (nest->unit == 1)
            m->row_guard[g] = lx_replace_iter(cg->k, m->row_guard[g], iter, lx_iter(cg->k, nest->step));
}

static Nest plan(Cg *cg, Mma *m, int64_t block)
{
    const Stmt *s = m->s;
    FoldAxis axis[LOOP_MAX_FOLD_ITERS];
    uint32_t n = s->u.mma.n_axes;
    for (uint32_t i = 0; i < n; i++)
        axis[i] = s->u.mma.axis[i];
    if (n == 0) {
        axis[0] = (FoldAxis){kernel_iter(cg->k, "once", 0, 0), 1, NULL};
        n = 1;
    }
    const Expr *exprs[] = {s->u.mma.a, s->u.mma.b, s->u.mma.guard};
    m->n_row_guards = 0;
    if (m->rows == 1)
        for (int i = 0; i < 3; i++)
            exprs[i] = lx_replace_iter(cg->k, exprs[i], s->u.mma.row, lx_int(cg->k, m->row0));
    n = cg_merge_axes(cg, axis, n, exprs, 3);
    Nest nest = {.n_axes = n, .body = mma_body, .user = m, .acc = m->acc, .unit = 1, .apart = true};
    for (uint32_t i = 0; i < n; i++)
        nest.axis[i] = (NestAxis){.iter = axis[i].iter, .extent = axis[i].extent, .size = axis[i].size};
    if (!cg_nest_can_split(&nest, block))
        cg_nest_flatten(cg, &nest, exprs, 3);
    split_guard(cg, m, &nest, exprs[2]);
    if (cg_nest_positions(&nest, 0) > block)
        nest.axis[0].unroll = false;
    bool by_position = false;
    for (uint32_t g = 0; g < m->n_row_guards; g++)
        by_position |= lx_uses_iter(m->row_guard[g], nest.axis[nest.n_axes - 1].iter);
    nest.unit = by_position ? 1 : choose_unit(&nest, block, m->rows * m->vecs);
    spread(cg, m, &nest, exprs[0], exprs[1]);
    nest.n_acc = (uint32_t)(m->rows * m->vecs);
    return nest;
}

static int64_t even_parts(int64_t total, int64_t most)
{
    int64_t parts = (total + most - 1) / most;
    return (total + parts - 1) / parts;
}

/* Rows and vectors that fit the registers: accumulators, a row of b and one broadcast, rows*vecs + vecs + 1 <= 32. */
static void choose_part(const Cg *cg, const Tile *tile, int64_t *rows, int64_t *vecs)
{
    int64_t each = LANES * (int64_t)cg_bytes(tile->dtype) / (4 * cg->options->target->f32_lanes);
    int64_t room = (cg->options->target->vector_registers - 1) / (each > 0 ? each : 1);
    *rows = tile->rows;
    *vecs = tile->vecs;
    if (tile->rows * tile->vecs + tile->vecs <= room + 1) /* one more than fits costs less than two parts */
        return;
    int64_t best = 0;
    for (int64_t v = 1; v <= tile->vecs && v * 2 <= room; v++) {
        int64_t most = room / v - 1, r = even_parts(tile->rows, most < tile->rows ? most : tile->rows), w = even_parts(tile->vecs, v);
        /* fewest loads for the work: b's vectors and a's broadcasts an FMA, halved by short tails */
        int64_t score = r * w * 1000 / (r + w * each);
        if (w == v && score > best) {
            best = score;
            *rows = r;
            *vecs = w;
        }
    }
}

/* The part of the tile from row0 and vec0; `whole`: it is all of it. */
static void mma_part(Cg *cg, Mma *m, int64_t block, bool empty, bool whole)
{
    Nest nest = {.n_acc = (uint32_t)(m->rows * m->vecs), .user = m};
    if (empty) {
        mma_before(cg, &nest);
    } else {
        nest = plan(cg, m, block);
        nest.acc = m->acc;
        m->blocked = cg_nest_positions(&nest, 0) > block;
        if (m->blocked)
            clear_totals(cg, m);
        read_ahead_at_once(cg, m);
        NestBlocks blocks = {.block = block, .before = mma_before, .after = mma_after};
        cg_nest_run(cg, &nest, &blocks);
    }
    for (uint32_t i = 0; i < nest.n_acc && !whole && !m->blocked; i++)
        tile_store(cg, m->tile, tile_index(cg, m, i), m->acc[i]);
}

void cg_mma(Cg *cg, const Stmt *s)
{
    Mma *m = ARENA_NEW(cg->arena, Mma);
    Tile *tile = ARENA_NEW(cg->arena, Tile);
    *tile = (Tile){.rows = s->u.mma.rows, .vecs = s->u.mma.cols / LANES, .dtype = s->u.mma.tile->dtype};
    IG_CHECK(cg->ctx, !cg->lane && s->u.mma.cols % LANES == 0 && tile->rows * tile->vecs <= MAX_TILE && tile->rows > 0);
    m->s = s;
    m->tile = tile;
    m->dtype = tile->dtype;
    cg_bind_var(cg, s->u.mma.tile, (CgVal){0}, tile);
    vec_push(cg->arena, &cg->tiles, tile);
    bool empty = false;
    for (uint32_t i = 0; i < s->u.mma.n_axes; i++)
        empty |= s->u.mma.axis[i].extent == 0;
    for (int64_t j = 0; j < tile->vecs; j++)
        m->mask[j] = cg_column_mask(cg, s->u.mma.col_limit, LANES * j, &m->absent[j]);
    cg->lane = kernel_iter(cg->k, "lane", 0, LANES - 1);
    int64_t block = s->u.mma.kb > 0 ? s->u.mma.kb : INT64_MAX, rows, vecs;
    choose_part(cg, tile, &rows, &vecs);
    bool whole = rows == tile->rows && vecs == tile->vecs;
    for (m->vec0 = 0; m->vec0 < tile->vecs; m->vec0 += vecs)
        for (m->row0 = 0; m->row0 < tile->rows; m->row0 += rows) {
            m->rows = tile->rows - m->row0 < rows ? tile->rows - m->row0 : rows;
            m->vecs = tile->vecs - m->vec0 < vecs ? tile->vecs - m->vec0 : vecs;
            mma_part(cg, m, block, empty, whole);
        }
    cg->lane = NULL;
    if (whole && !m->blocked)
        tile->reg = m->acc;
}

/* ---- put ------------------------------------------------------------------------------------------------------------------------ */

/* Rough size of the code of a value, for 16 lanes. */
static int64_t weight(const Expr *e, Map *seen)
{
    void **slot = map_slot(seen, KEY(e));
    if (*slot || lx_is_index(e))
        return 0;
    *slot = seen;
    int64_t sum = e->kind == LX_MAP ? (op_info[e->op].traits & OT_COSTLY) && e->op != OP_div ? 30 : 1 : e->kind == LX_LOAD;
    for (uint32_t i = 0; i < e->n_args; i++)
        sum += weight(e->arg[i], seen);
    return sum;
}

typedef struct Put {
    const Stmt *s;
    Tile *tile;
    LLVMValueRef mask[MAX_TILE];
    bool absent[MAX_TILE];
} Put;

/* One vector of a row; `row` is its index expression. */
static void put_vector(Cg *cg, const Put *put, int64_t j, LLVMValueRef v, const Expr *row)
{
    const Stmt *s = put->s;
    const Expr *index[LOOP_MAX_RANK];
    const Expr *col = lx_add(cg->k, lx_iter(cg->k, cg->lane), lx_int(cg->k, LANES * j));
    cg_scope_push(cg, NULL, false);
    cg_bind_var(cg, s->u.put.tile, (CgVal){.v = v, .vec = true, .depth = cg->top}, put->tile);
    cg->mask = put->mask[j];
    cg->mask_depth = cg->top;
    for (uint32_t i = 0; i < s->u.put.n_index; i++)
        index[i] = lx_replace_iter(cg->k, lx_replace_iter(cg->k, s->u.put.index[i], s->u.put.col, col), s->u.put.row, row);
    const Expr *value = lx_replace_iter(cg->k, lx_replace_iter(cg->k, s->u.put.value, s->u.put.col, col), s->u.put.row, row);
    CgVal val = cg_splat(cg, cg_value(cg, value), 0);
    cg_store(cg, s->u.put.buf, index, val, NULL);
    cg->mask = NULL;
    cg_scope_pop(cg);
    cg_bind_var(cg, s->u.put.tile, (CgVal){0}, put->tile);
}

void cg_put(Cg *cg, const Stmt *s)
{
    Put put = {.s = s, .tile = cg_var(cg, s->u.put.tile)->tile};
    Tile *tile = put.tile;
    IG_CHECK(cg->ctx, tile && !cg->lane && tile->rows == s->u.put.rows && tile->vecs * LANES == s->u.put.cols);
    for (int64_t j = 0; j < tile->vecs; j++)
        put.mask[j] = cg_column_mask(cg, s->u.put.col_limit, LANES * j, &put.absent[j]);
    cg->lane = kernel_iter(cg->k, "lane", 0, LANES - 1);
    int64_t size = (weight(s->u.put.value, map_create(cg->arena)) + 1) * tile->rows * tile->vecs;
    if (tile->reg && (size <= UNROLLED_PUT || tile->rows == 1) && !s->u.put.row_limit) {
        for (int64_t row = 0; row < tile->rows; row++)
            for (int64_t j = 0; j < tile->vecs; j++)
                if (!put.absent[j])
                    put_vector(cg, &put, j, tile->reg[row * tile->vecs + j], lx_int(cg->k, row));
    } else {
        tile_spill(cg, tile);
        Loop loop;
        const Expr *limit = s->u.put.row_limit;
        LLVMValueRef rows = limit ? cg_scalar(cg, lx_min(cg->k, limit, lx_int(cg->k, tile->rows))) : cg_int(cg, tile->rows);
        cg_loop_begin(cg, &loop, s->u.put.row, cg_int(cg, 0), rows, 1, limit && limit->lo < 1, true, NULL, 0);
        LLVMValueRef first = LLVMBuildMul(cg->b, loop.phi[0], cg_int(cg, tile->vecs), "");
        for (int64_t j = 0; j < tile->vecs; j++) {
            if (put.absent[j])
                continue;
            cg_place(cg, cg->top);
            LLVMValueRef v = tile_load(cg, tile, LLVMBuildAdd(cg->b, first, cg_int(cg, j), ""));
            put_vector(cg, &put, j, v, lx_iter(cg->k, s->u.put.row));
        }
        cg_loop_end(cg, &loop, NULL);
    }
    cg->lane = NULL;
}
