/* SPDX-License-Identifier: Apache-2.0
 *
 * How large a register tile: the cycles of each shape that fits the registers, by counting what two FMA ports and two load ports do.
 */
#include "sched/tile.h"

bool tile_fits(const TargetInfo *t, int64_t rows, int64_t vectors)
{
    int64_t parts = LOOP_LANES / t->f32_lanes, acc = rows * vectors * parts;
    return acc + vectors * parts + 1 <= t->vector_registers && (t->vector_registers < 32 || acc <= 26);
}

/* Cycles per position of k: FMAs on two ports, loads on two, four cycles of FMA latency. Loads that wait cost a little even where
 * they are not the limit, and accumulators that just cover the latency do not quite. */
static double tile_cycles(const TargetInfo *t, int64_t rows, int64_t vectors)
{
    double parts = (double)(LOOP_LANES / t->f32_lanes), fma = (double)(rows * vectors) * parts / 2,
           loads = ((double)vectors * parts + (double)rows) / 2, cycles = fma > loads ? fma : loads;
    return (cycles > 4.5 ? cycles : 4.5) + loads / 16;
}

double tile_covering_cycles(const TargetInfo *t, TileShape shape, int64_t n_rows, int64_t n_vectors, double k)
{
    double total = 0;
    for (int side = 0; side < 2; side++) { /* full panels, then the narrower last one */
        int64_t vectors = side ? n_vectors % shape.vectors : shape.vectors;
        double panels = side ? vectors > 0 : (double)(n_vectors / shape.vectors);
        if (panels <= 0)
            continue;
        int64_t rest = n_rows % shape.rows;
        double overhead = 20 + 4 * (double)(shape.rows * vectors);
        total += panels * (double)(n_rows / shape.rows) * (k * tile_cycles(t, shape.rows, vectors) + overhead);
        if (rest)
            total += panels * (k * tile_cycles(t, rest, vectors) + overhead);
    }
    return total;
}

/* Cycles of waiting for b where it comes from beyond L2, at FAR bytes a cycle: the first row tile of a panel reads it while it
 * computes, a tenth of which does not overlap; the others read the panel from L2, at 64 bytes a cycle. */
static double far_cycles(const TargetInfo *t, TileShape shape, int64_t n_rows, int64_t n_vectors, double k)
{
    enum { FAR = 12, NEAR = 64 };
    double total = 0, again = (double)((n_rows + shape.rows - 1) / shape.rows - 1);
    for (int side = 0; side < 2; side++) { /* full panels, then the narrower last one */
        int64_t vectors = side ? n_vectors % shape.vectors : shape.vectors;
        double panels = side ? 1 : (double)(n_vectors / shape.vectors), bytes = (double)(vectors * LOOP_LANES) * sizeof(float);
        if (vectors == 0)
            continue;
        double work = tile_cycles(t, shape.rows, vectors), wait = bytes / FAR;
        total += panels * k * ((wait > work ? wait - work + work / 10 : wait / 10) + again * bytes / NEAR);
    }
    return total;
}

TileShape tile_choose(const TargetInfo *t, int64_t n_rows, int64_t n_cols, double k)
{
    TileShape best = {1, 1};
    double best_cycles = 0, column = k * LOOP_LANES * sizeof(float);
    int64_t n_vectors = (n_cols + LOOP_LANES - 1) / LOOP_LANES;
    bool far = column * (double)n_vectors > (double)t->l2_bytes;
    for (int64_t vectors = 1; vectors <= 8 && vectors <= n_vectors; vectors++)
        for (int64_t rows = 1; rows <= MAX_TILE_ROWS && rows <= n_rows; rows++) {
            TileShape shape = {rows, vectors};
            if (!tile_fits(t, rows, vectors))
                continue;
            double panel = column * (double)vectors; /* shares the cache with the rows that pass it */
            double cycles = tile_covering_cycles(t, shape, n_rows, n_vectors, k) * (1 + 0.1 * panel / (double)t->l2_bytes);
            cycles += far ? far_cycles(t, shape, n_rows, n_vectors, k) : 0;
            if (best_cycles == 0 || cycles < best_cycles) {
                best = shape;
                best_cycles = cycles;
            }
        }
    return best;
}
