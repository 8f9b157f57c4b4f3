/* How much scratch memory attention takes on a GPU, and what lies in it. Plain
 * C: `burnish plan`, which knows no CUDA, asks as well.
 */
#ifndef BN_KERNELS_CUDA_ATTN_WORK_H
#define BN_KERNELS_CUDA_ATTN_WORK_H

#include "kernels/attn.h"

/* Queries first, first + 1, ... of segment seg; seg < 0: none. */
struct bn_attn_tile {
    int seg, first;
};

/* Rows of the smallest tile; calls of single queries to a cache have at most
 * so many rows, whose keys are cut into this many parts. */
enum {
    BN_ATTN_TILE_ROWS = 32,
    BN_DECODE_ROWS = 128,
    BN_DECODE_SPLITS = 8,
};

/* Segments have together at most this many tiles. */
static inline int most_tiles(const struct bn_attn *a, int rows)
{
    return a->nq / rows + a->nseg;
}

static inline size_t bn_attn_tiles_bytes(const struct bn_attn *a)
{
    size_t n = (size_t)most_tiles(a, BN_ATTN_TILE_ROWS)
               * sizeof(struct bn_attn_tile);

    return (n + 63) / 64 * 64;
}

/* Tiles, then sums of d_o o [heads, nq]; or the parts of each segment and
 * head, hd + 2 floats. */
static inline size_t bn_attn_work_bytes(const struct bn_attn *a)
{
    size_t rows = (size_t)(a->nseg < BN_DECODE_ROWS ? a->nseg
                                                    : BN_DECODE_ROWS);
    size_t parts = rows * (size_t)a->heads * BN_DECODE_SPLITS
                   * (size_t)(a->hd + 2) * sizeof(float);
    size_t n = bn_attn_tiles_bytes(a)
               + (size_t)a->heads * (size_t)a->nq * sizeof(float);

    return n > parts ? n : parts;
}

#endif
