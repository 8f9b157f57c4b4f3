/* What forward and backward attention share: who sees whom in a block, and
 * blocks of rows in the forms that tiles want.
 *
 * A block is ATTN rows of one head. Its scores lie in rows of ATTN_LD floats
 * (or units, or bf16): constants, so that addresses are too.
 */
#ifndef BN_KERNELS_CPU_ATTN_H
#define BN_KERNELS_CPU_ATTN_H

#include "kernels/attn.h"
#include "kernels/cpu/pack.h"

enum {
    ATTN = 96, /* a multiple of every TILE_M and TILE_N, and even */
    ATTN_LD = ATTN + 16,
    ROW_UNITS = 256, /* of a row copied at a time */
    ROW_LD = ROW_UNITS + 16
};
_Static_assert(ATTN % TILE_M == 0 && ATTN % TILE_N == 0, "whole tiles");

/* One way in which a segment sees keys: its prefix, or its own. */
struct way {
    int start, len; /* rows of k and v */
    int first;      /* position of the first */
    bool own;
};

BN_INLINE struct way way_of(const struct bn_attn_seg *s, bool own)
{
    return own ? (struct way){s->k_start, s->k_len, s->p_len, true}
               : (struct way){s->p_start, s->p_len, 0, false};
}

/* Of n keys of way w, key 'from' on, query i sees [lo, hi) of them. */
BN_INLINE void way_seen(const struct bn_attn *a, const struct bn_attn_seg *s,
                        const struct way *w, int i, int from, int n, int *lo,
                        int *hi)
{
    int low = 0, high = w->len;

    if (w->own && s->q_off + i + 1 < high)
        high = s->q_off + i + 1;
    if (a->window > 0)
        low = s->p_len + s->q_off + i - a->window + 1 - w->first;
    low = (low < 0 ? 0 : low) - from;
    high -= from;
    *hi = high < 0 ? 0 : high > n ? n : high;
    *lo = low < 0 ? 0 : low > *hi ? *hi : low;
}

/* What each row of a block, a query of a head, sees of a block of keys. */
struct seen {
    int rows; /* queries */
    int lo[ATTN], hi[ATTN];
    bool any; /* does any see anything? */
};

BN_INLINE void seen_fill(struct seen *b, const struct bn_attn *a,
                         const struct bn_attn_seg *s, const struct way *w,
                         int q0, int rows, int from, int n)
{
    b->rows = rows;
    b->any = false;
    for (int r = 0; r < rows; r++) {
        way_seen(a, s, w, q0 + r, from, n, &b->lo[r], &b->hi[r]);
        b->any |= b->lo[r] < b->hi[r];
    }
    for (int r = rows; r < ATTN; r++)
        b->lo[r] = b->hi[r] = 0;
}

/* The queries of a block again for each of 'heads' heads, below one another. */
BN_INLINE void seen_repeat(struct seen *b, int heads)
{
    for (int r = b->rows; r < heads * b->rows; r++) {
        b->lo[r] = b->lo[r - b->rows];
        b->hi[r] = b->hi[r - b->rows];
    }
    b->rows *= heads;
}

/* Keys that any of queries [r, r + TILE_M) sees: whole of [lo, hi). */
BN_INLINE void seen_keys(const struct seen *b, int r, int *lo, int *hi)
{
    int last = r + TILE_M < b->rows ? r + TILE_M : b->rows;

    *lo = ATTN;
    *hi = 0;
    for (; r < last; r++) {
        if (b->lo[r] == b->hi[r])
            continue;
        if (b->lo[r] < *lo)
            *lo = b->lo[r];
        if (b->hi[r] > *hi)
            *hi = b->hi[r];
    }
    if (*lo > *hi)
        *lo = *hi;
}

/* Queries that see any of keys [j, j + TILE_M): all lie in [lo, hi). */
BN_INLINE void seen_queries(const struct seen *b, int j, int *lo, int *hi)
{
    *lo = b->rows;
    *hi = 0;
    for (int r = 0; r < b->rows; r++) {
        if (b->lo[r] >= j + TILE_M || b->hi[r] <= j || b->lo[r] == b->hi[r])
            continue;
        if (r < *lo)
            *lo = r;
        *hi = r + 1;
    }
    if (*lo > *hi)
        *lo = *hi;
}

/* The columns of a head, in whole tiles. */
BN_INLINE int head_cols(int hd)
{
    return (hd + TILE_N - 1) / TILE_N * TILE_N;
}

/* Units of a row of a head, copied in runs of ROW_UNITS. */
BN_INLINE int row_runs(enum bn_dtype t, int hd)
{
    return (tile_steps(t, hd) + ROW_UNITS - 1) / ROW_UNITS;
}

BN_INLINE const void *head_row(enum bn_dtype t, const void *p, int row, int ld,
                               int head, int hd)
{
    return (const char *)p
           + ((size_t)row * ld + (size_t)head * hd) * (t == BN_F32 ? 4 : 2);
}

/* Copy 'rows' rows of a head to 'room' rows of units, the rest 0: run c of row
 * r is at to + (c * ATTN + r) * ROW_LD. */
BN_INLINE void copy_rows(enum bn_dtype t, tile_unit *to, const void *from,
                         int ld, int rows, int room, int hd)
{
    int runs = row_runs(t, hd), per = tile_pairs(t) ? 2 : 1;

    for (int c = 0; c < runs; c++) {
        int at = c * ROW_UNITS * per;
        int n = hd - at < ROW_UNITS * per ? hd - at : ROW_UNITS * per;

        for (int r = 0; r < room; r++) {
            tile_unit *u = to + ((size_t)c * ATTN + r) * ROW_LD;
            size_t first = (size_t)r * ld + at;

            if (r >= rows) {
                memset(u, 0, (size_t)(n / per) * sizeof(*u));
            } else if (t == BN_F32) {
                const float *s = (const float *)from + first;

#pragma omp simd
                for (int k = 0; k < n; k++)
                    u[k] = bn_float_bits(s[k]);
            } else if (per == 2) {
                const uint16_t *s = (const uint16_t *)from + first;
                uint16_t *u16 = (uint16_t *)u;

#pragma omp simd
                for (int k = 0; k < n; k++)
                    u16[k] = s[k];
            } else {
                const uint16_t *s = (const uint16_t *)from + first;

#pragma omp simd
                for (int k = 0; k < n; k++)
                    u[k] = (uint32_t)s[k] << 16;
            }
        }
    }
}

/* Rows of a head as panels of TILE_N rows, along the head (for scores). */
BN_INLINE void rows_to_panels(enum bn_dtype t, tile_unit *to, const void *from,
                              int ld, int rows, int hd)
{
    size_t panel = (size_t)tile_steps(t, hd) * TILE_N;

    for (int j = 0; j < rows; j += TILE_N, to += panel)
        pack_rows(t, to, TILE_N, head_row(t, from, j, ld, 0, hd), (size_t)ld,
                  rows - j < TILE_N ? rows - j : TILE_N, hd);
}

/* Rows of a head as panels of TILE_N columns, along the rows. Panels are
 * tile_steps(t, ATTN) steps apart. */
BN_INLINE void cols_to_panels(enum bn_dtype t, tile_unit *to, const void *from,
                              int ld, int rows, int hd)
{
    size_t panel = (size_t)tile_steps(t, ATTN) * TILE_N;

    for (int c = 0; c < hd; c += TILE_N, to += panel)
        pack_cols(t, to, TILE_N,
                  (const char *)from + (size_t)c * (t == BN_F32 ? 4 : 2),
                  (size_t)ld, hd - c < TILE_N ? hd - c : TILE_N, rows);
}

/* s[r, j] = sum over the head of row r of 'rows' (copy_rows) times row j of
 * 'panels' (rows_to_panels), where tiles hold something that is seen. */
BN_INLINE void block_scores(enum bn_dtype t, float *s, const tile_unit *rows,
                            const tile_unit *panels, const struct seen *b,
                            int hd)
{
    int units = tile_steps(t, hd), runs = row_runs(t, hd);

    for (int r = 0; r < b->rows; r += TILE_M) {
        int lo, hi;

        seen_keys(b, r, &lo, &hi);
        for (int j = lo / TILE_N * TILE_N; j < hi; j += TILE_N) {
            for (int c = 0; c < runs; c++) {
                int left = units - c * ROW_UNITS;

                tile_mul_rows(tile_pairs(t), false, false, b->rows - r,
                              s + r * ATTN_LD + j, ATTN_LD, c > 0,
                              rows + ((size_t)c * ATTN + r) * ROW_LD, ROW_LD,
                              1,
                              panels + (size_t)(j / TILE_N) * units * TILE_N
                                  + (size_t)c * ROW_UNITS * TILE_N,
                              left < ROW_UNITS ? left : ROW_UNITS);
            }
        }
    }
}

/* Add to out[r, :] (rows of ld floats, head_cols of them) the weights of row
 * r, floats or bf16 in rows of ATTN_LD, times the rows of 'panels'
 * (cols_to_panels). Weights of what is not seen must be 0. load false: =. */
BN_INLINE void block_sum(enum bn_dtype t, float *out, int ld, bool load,
                         const void *weights, const tile_unit *panels,
                         const struct seen *b, int hd)
{
    int per = tile_pairs(t) ? 2 : 1;
    size_t panel = (size_t)tile_steps(t, ATTN) * TILE_N;

    for (int r = 0; r < b->rows; r += TILE_M) {
        int lo, hi;

        seen_keys(b, r, &lo, &hi);
        lo /= per;
        hi = (hi + per - 1) / per;
        for (int c = 0; c < hd; c += TILE_N)
            tile_mul_rows(per == 2, false, false, b->rows - r,
                          out + (size_t)r * ld + c, (size_t)ld, load,
                          (const tile_unit *)weights + r * (ATTN_LD / per)
                              + lo,
                          ATTN_LD / per, 1,
                          panels + (size_t)(c / TILE_N) * panel
                              + (size_t)lo * TILE_N,
                          hi - lo);
    }
}

#endif
