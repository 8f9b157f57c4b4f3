#include "config.h"
#include "kernels/gemm.h"
#include "kernels/cpu/pack.h"

#ifdef _OPENMP
#include <omp.h>
#endif

BN_CPU_DECLARE(gemm);
BN_CPU_DECLARE(gemm_pack);
extern __typeof__(bn_gemm_work_cpu) BN_CPU(gemm_work);
extern __typeof__(bn_gemm_packed_cpu) BN_CPU(gemm_packed);
extern __typeof__(bn_gemm_halves_cpu) BN_CPU(gemm_halves);

/* Packed b is shared by all threads and sized for the third-level cache;
 * each thread packs a block of rows of a, for the second-level cache. Where c
 * has 16 bits and k is long, sums wait as float tiles until they are whole.
 */
enum {
    B_UNITS = 2 << 20,
    A_UNITS = 96 << 10,
    A_SPACE = A_UNITS + PACK_SLACK,
    SUM_UNITS = 4 << 20,
    K_SPLIT = 512,  /* steps at a time */
    K_WHOLE = 1024, /* up to here not split where c has 16 bits */
    BLOCK_M = 16 * TILE_M,
    MAX_M = 512 * TILE_M /* rows at a time */
};

size_t BN_CPU(gemm_work)(int threads)
{
    return ((size_t)B_UNITS + SUM_UNITS + (size_t)threads * A_SPACE)
           * sizeof(tile_unit);
}

/* The shape of the blocks of one product. */
struct plan {
    const struct bn_gemm *g;
    int k_block;              /* elements of k */
    int n_block;              /* columns, a multiple of TILE_N */
    int row_parts, col_parts; /* pieces of work that threads take */
    tile_unit *b;
    float *sum; /* tiles in rows of n_block / TILE_N; NULL: straight to c */
};

BN_INLINE const void *element(enum bn_dtype t, const void *p, size_t row,
                              size_t ld, size_t col)
{
    return (const char *)p + (row * ld + col) * (t == BN_F32 ? 4 : 2);
}

/* Where columns are packed, a run of steps at a time for all panels: each
 * uses a part of a cache line that the next needs too. */
enum { RUN = 64 };

BN_INLINE void pack_a(enum bn_dtype t, const struct bn_gemm *g, tile_unit *to,
                      int i0, int rows, int p0, int k)
{
    size_t panel = (size_t)tile_steps(t, k) * TILE_M;
    int run = g->a_by_k ? RUN : k > 0 ? k : 1;

    for (int p = 0; p < k; p += run) {
        int n = k - p < run ? k - p : run;

        for (int i = 0; i < rows; i += TILE_M) {
            int count = rows - i < TILE_M ? rows - i : TILE_M;
            tile_unit *at = to + (size_t)(i / TILE_M) * panel
                            + (size_t)tile_steps(t, p) * TILE_M;

            if (g->a_by_k)
                pack_cols(t, at, TILE_M,
                          element(t, g->a, (size_t)p0 + p, g->lda, i0 + i),
                          g->lda, count, n);
            else
                pack_rows(t, at, TILE_M,
                          element(t, g->a, i0 + i, g->lda, (size_t)p0 + p),
                          g->lda, count, n);
        }
    }
}

BN_INLINE void pack_b(enum bn_dtype t, const struct bn_gemm *g, tile_unit *to,
                      int j, int p0, int k)
{
    int count = g->n - j < TILE_N ? g->n - j : TILE_N;

    if (g->b_by_k)
        pack_cols(t, to, TILE_N, element(t, g->b, p0, g->ldb, j), g->ldb, count,
                  k);
    else
        pack_rows(t, to, TILE_N, element(t, g->b, j, g->ldb, p0), g->ldb, count,
                  k);
}

/* Put a tile into c: rows x cols of it, with bias and what was there. */
BN_INLINE void put_tile(enum bn_dtype tc, const struct bn_gemm *g,
                        const float *tile, int i, int j, int rows, int cols,
                        bool acc, bool bias)
{
    float add[TILE_N] = {0};

    if (bias)
        for (int c = 0; c < cols; c++)
            add[c] = bn_get(g->t, g->bias, (size_t)j + c);
    for (int r = 0; r < rows; r++) {
        size_t at = (size_t)(i + r) * g->ldc + j;
        const float *from = tile + r * TILE_N;

        if (acc) {
#pragma omp simd
            for (int c = 0; c < cols; c++)
                bn_put(tc, g->c, at + c,
                       bn_get(tc, g->c, at + c) + (from[c] + add[c]));
        } else {
#pragma omp simd
            for (int c = 0; c < cols; c++)
                bn_put(tc, g->c, at + c, from[c] + add[c]);
        }
    }
}

BN_INLINE void one_tile(enum bn_dtype t, bool half, bool stream,
                        const struct plan *pl, const tile_unit *a,
                        const void *b, int i, int j0, int j, int p0, int k)
{
    const struct bn_gemm *g = pl->g;
    float local[TILE_M * TILE_N] __attribute__((aligned(64))), *tile = local;
    int rows = g->m - i < TILE_M ? g->m - i : TILE_M;
    int cols = g->n - j0 - j < TILE_N ? g->n - j0 - j : TILE_N;
    bool first = p0 == 0, load = false;
    bool acc = g->acc || !first, bias = first && g->bias != NULL;

    if (pl->sum != NULL) {
        tile = pl->sum
               + ((size_t)(i / TILE_M) * (pl->n_block / TILE_N) + j / TILE_N)
                     * (TILE_M * TILE_N);
        load = !first;
        acc = g->acc;
        bias = g->bias != NULL;
    }
    /* c comes from memory while the tile is computed. */
    for (int r = 0; r < rows && acc && g->tc == BN_F32; r++)
        for (int c = 0; c < cols; c += 16)
            __builtin_prefetch(
                (float *)g->c + (size_t)(i + r) * g->ldc + j0 + j + c, 1);
    tile_mul_rows(tile_pairs(t), half, stream, rows, tile, TILE_N, load, a, 1,
                  TILE_M, b, tile_steps(t, k));
    if (pl->sum != NULL && p0 + k < g->k)
        return;
    if (g->tc == BN_F32 && cols == TILE_N)
        put_tile(BN_F32, g, tile, i, j0 + j, rows, TILE_N, acc, bias);
    else if (g->tc == BN_F32)
        put_tile(BN_F32, g, tile, i, j0 + j, rows, cols, acc, bias);
    else if (cols == TILE_N)
        put_tile(BN_BF16, g, tile, i, j0 + j, rows, TILE_N, acc, bias);
    else
        put_tile(BN_BF16, g, tile, i, j0 + j, rows, cols, acc, bias);
}

/* Where part i of n begins, in whole units of 'unit'. */
BN_INLINE int part(int total, int unit, int i, int n)
{
    int at = (int)((int64_t)((total + unit - 1) / unit) * i / n) * unit;

    return at < total ? at : total;
}

/* Rows of a and columns of b that one thread multiplies. */
struct area {
    int i0, i1, jl, jh;
};

BN_INLINE struct area area_of(const struct plan *pl, int index, int cols)
{
    int row = index / pl->col_parts, col = index % pl->col_parts;

    return (struct area){
        .i0 = part(pl->g->m, TILE_M, row, pl->row_parts),
        .i1 = part(pl->g->m, TILE_M, row + 1, pl->row_parts),
        .jl = part(cols, TILE_N, col, pl->col_parts),
        .jh = part(cols, TILE_N, col + 1, pl->col_parts),
    };
}

/* The tiles of an area over k elements from p0 on: b's panel of column j
 * begins at b + j / TILE_N * panel bytes. */
BN_INLINE void one_area(enum bn_dtype t, bool half, bool stream,
                        const struct plan *pl, const struct area *r,
                        const tile_unit *a, const char *b, size_t panel,
                        int j0, int p0, int k)
{
    size_t ap = (size_t)tile_steps(t, k) * TILE_M;

    for (int j = r->jl; j < r->jh; j += TILE_N)
        for (int i = r->i0; i < r->i1; i += TILE_M)
            one_tile(t, half, stream, pl,
                     a + (size_t)((i - r->i0) / TILE_M) * ap,
                     b + (size_t)(j / TILE_N) * panel, i, j0, j, p0, k);
}

BN_INLINE int k_part(const struct plan *pl, int p0)
{
    int left = pl->g->k - p0;

    return left < pl->k_block ? left : pl->k_block;
}

/* One area over all of k, with b packed beforehand. 'high': rows of a that
 * its panels have room for; have: they are packed already. */
BN_INLINE void packed_area(enum bn_dtype t, bool half, const struct plan *pl,
                           const struct area *r, tile_unit *a, size_t high,
                           bool have, int j0)
{
    const struct bn_gemm *g = pl->g;
    size_t unit = half ? 2 : sizeof(tile_unit);
    size_t panel = (size_t)tile_steps(t, g->k) * TILE_N * unit;
    const char *b = (const char *)g->packed + (size_t)(j0 / TILE_N) * panel;

    for (int p0 = 0; p0 < g->k || p0 == 0; p0 += pl->k_block) {
        int k = k_part(pl, p0);
        size_t steps = (size_t)tile_steps(t, p0);
        tile_unit *at = a + steps * high;

        if (!have)
            pack_a(t, g, at, r->i0, r->i1 - r->i0, p0, k);
        one_area(t, half, true, pl, r, at, b + steps * TILE_N * unit, panel,
                 j0, p0, k);
    }
}

/* With b packed beforehand areas are independent over all of k. Rows of a
 * that fit as a whole are packed once for all the areas that a thread takes
 * of them. */
BN_INLINE void packed_worker(enum bn_dtype t, bool half, const struct plan *pl,
                             tile_unit *a)
{
    const struct bn_gemm *g = pl->g;
    size_t high = bn_cpu_round((size_t)g->m, TILE_M);
    bool whole = pl->row_parts == 1
                 && (size_t)tile_steps(t, g->k) * high <= A_UNITS;
    bool have = false;

    for (int j0 = 0; j0 < g->n; j0 += pl->n_block) {
        int cols = g->n - j0 < pl->n_block ? g->n - j0 : pl->n_block;

#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < pl->row_parts * pl->col_parts; i++) {
            struct area r = area_of(pl, i, cols);

            packed_area(t, half, pl, &r, a, whole ? high : 0, have, j0);
            have = whole;
        }
    }
}

/* What every thread runs. */
BN_INLINE void worker(enum bn_dtype t, const struct plan *pl, tile_unit *a)
{
    const struct bn_gemm *g = pl->g;

    for (int j0 = 0; j0 < g->n; j0 += pl->n_block) {
        int cols = g->n - j0 < pl->n_block ? g->n - j0 : pl->n_block;

        for (int p0 = 0; p0 < g->k || p0 == 0; p0 += pl->k_block) {
            int k = k_part(pl, p0);
            size_t panel = (size_t)tile_steps(t, k) * TILE_N;

#pragma omp for schedule(static)
            for (int j = 0; j < cols; j += TILE_N)
                pack_b(t, g, pl->b + (size_t)(j / TILE_N) * panel, j0 + j, p0,
                       k);
#pragma omp for schedule(dynamic, 1)
            for (int i = 0; i < pl->row_parts * pl->col_parts; i++) {
                struct area r = area_of(pl, i, cols);

                pack_a(t, g, a, r.i0, r.i1 - r.i0, p0, k);
                one_area(t, false, false, pl, &r, a, (const char *)pl->b,
                         panel * sizeof(tile_unit), j0, p0, k);
            }
        }
    }
}

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

/* Divide rows, at most 'most' tiles high, and if those are few columns too,
 * so that every thread gets as much. */
static void share_out(struct plan *pl, int most, int threads)
{
    int tiles = (pl->g->m + TILE_M - 1) / TILE_M;

    pl->row_parts = (tiles + most - 1) / most;
    pl->col_parts = 1;
    if (tiles >= 8 * threads) {
        pl->row_parts = (pl->row_parts + threads - 1) / threads * threads;
    } else if (threads > 1) {
        int few = (tiles + 7) / 8;

        if (pl->row_parts < few)
            pl->row_parts = few;
        pl->col_parts = (2 * threads + pl->row_parts - 1) / pl->row_parts;
    }
}

static struct plan make_plan(const struct bn_gemm *g, int threads)
{
    struct plan pl = {.g = g, .b = g->work};
    int steps = tile_steps(g->t, g->k);
    bool sum = g->tc != BN_F32 && steps > K_WHOLE;

    if (steps > (g->tc == BN_F32 || sum ? K_SPLIT : K_WHOLE))
        steps = K_SPLIT;
    if (steps == 0)
        steps = 1;
    pl.k_block = steps * (tile_pairs(g->t) ? 2 : 1);
    pl.n_block = g->packed != NULL ? (int)bn_cpu_round((size_t)g->n, TILE_N)
                                   : B_UNITS / steps / TILE_N * TILE_N;
    int rows = lesser(A_UNITS / steps / TILE_M * TILE_M, BLOCK_M);
    if (sum) {
        size_t high = bn_cpu_round((size_t)g->m, TILE_M);

        pl.sum = (float *)g->work + B_UNITS;
        pl.n_block =
            lesser(pl.n_block, (int)(SUM_UNITS / high / TILE_N * TILE_N));
    }
    share_out(&pl, rows / TILE_M, threads);
    return pl;
}

static void product_packed(const struct plan *pl, tile_unit *a)
{
    bool half = pl->g->packed_half;

    if (pl->g->t == BN_F32 && half)
        packed_worker(BN_F32, true, pl, a);
    else if (pl->g->t == BN_F32)
        packed_worker(BN_F32, false, pl, a);
    else if (half)
        packed_worker(BN_BF16, true, pl, a);
    else
        packed_worker(BN_BF16, false, pl, a);
}

static void product(const struct bn_gemm *g, int threads)
{
    struct plan pl = make_plan(g, threads);

#pragma omp parallel num_threads(threads)
    {
        int id = 0;

#ifdef _OPENMP
        id = omp_get_thread_num();
#endif
        tile_unit *a = pl.b + B_UNITS + SUM_UNITS + (size_t)id * A_SPACE;

        if (g->packed != NULL)
            product_packed(&pl, a);
        else if (g->t == BN_F32)
            worker(BN_F32, &pl, a);
        else
            worker(BN_BF16, &pl, a);
    }
}

bool BN_CPU(gemm_halves)(const struct bn_gemm *g)
{
    int rows = g->b_by_k ? g->k : g->n, cols = g->b_by_k ? g->n : g->k;
    int low = 0;

    if (g->t != BN_F32)
        return !tile_pairs(g->t);
#pragma omp parallel for reduction(| : low) schedule(static)
    for (int r = 0; r < rows; r++) {
        const float *b = (const float *)g->b + (size_t)r * g->ldb;
        uint32_t bits = 0;

        for (int c = 0; c < cols; c++)
            bits |= bn_float_bits(b[c]);
        low |= (int)(bits & 0xffff);
    }
    return low == 0;
}

/* The upper halves of n units. */
BN_INLINE void narrow(uint16_t *to, const tile_unit *from, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        to[i] = (uint16_t)(from[i] >> 16);
}

size_t BN_CPU(gemm_packed)(enum bn_dtype t, int n, int k)
{
    return bn_cpu_round((size_t)n, TILE_N) * (size_t)tile_steps(t, k)
           * sizeof(tile_unit);
}

/* Panels of all of k, one after the other. */
static void pack_whole(const struct bn_gemm *g, void *to)
{
    size_t panel = (size_t)tile_steps(g->t, g->k) * TILE_N;

#pragma omp parallel for schedule(static)
    for (int j = 0; j < g->n; j += TILE_N) {
        tile_unit *at = (tile_unit *)to + (size_t)(j / TILE_N) * panel;

        if (g->t == BN_F32)
            pack_b(BN_F32, g, at, j, 0, g->k);
        else
            pack_b(BN_BF16, g, at, j, 0, g->k);
    }
}

/* The same in halves, a few steps of k at a time. */
static void pack_halves(const struct bn_gemm *g, void *to)
{
    enum { STEPS = 256 };

#pragma omp parallel for schedule(static)
    for (int j = 0; j < g->n; j += TILE_N) {
        uint16_t *at = (uint16_t *)to
                       + (size_t)(j / TILE_N) * (size_t)g->k * TILE_N;
        tile_unit part[STEPS * TILE_N + PACK_SLACK];

        for (int p = 0; p < g->k; p += STEPS) {
            int k = lesser(g->k - p, STEPS);

            if (g->t == BN_F32)
                pack_b(BN_F32, g, part, j, p, k);
            else
                pack_b(BN_BF16, g, part, j, p, k);
            narrow(at + (size_t)p * TILE_N, part, (size_t)k * TILE_N);
        }
    }
}

void BN_CPU(gemm_pack)(const struct bn_gemm *g, void *to)
{
    if (g->packed_half)
        pack_halves(g, to);
    else
        pack_whole(g, to);
}

void BN_CPU(gemm)(const struct bn_gemm *g)
{
    int threads = (double)g->m * g->n * g->k > 1e5 ? g->threads : 1;

    for (int i = 0; i < g->m && g->n > 0; i += MAX_M) {
        struct bn_gemm piece = *g;

        piece.m = lesser(g->m - i, MAX_M);
        piece.a = g->a_by_k ? element(g->t, g->a, 0, g->lda, (size_t)i)
                            : element(g->t, g->a, (size_t)i, g->lda, 0);
        piece.c = (char *)g->c + (size_t)i * g->ldc * (g->tc == BN_F32 ? 4 : 2);
        product(&piece, threads);
    }
}
