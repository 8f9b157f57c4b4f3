/* Register tiles: what a matrix product is made of on this instruction set.
 *
 * A tile is TILE_M rows by TILE_N columns of float. Its operands are packed:
 * panel a holds, for each step of k, TILE_M units, panel b TILE_N units. A
 * unit is a float, or, where the machine multiplies pairs of bf16, two
 * consecutive k of bf16 (the second one 0 past the end).
 */
#ifndef BN_KERNELS_CPU_TILE_H
#define BN_KERNELS_CPU_TILE_H

#include <stdbool.h>

#include "kernels/cpu/cpu.h"

#if defined(__AVX512F__)
enum { TILE_M = 12, TILE_V = 2, TILE_LANES = 16 };
#elif defined(__AVX__)
enum { TILE_M = 6, TILE_V = 2, TILE_LANES = 8 };
#else
enum { TILE_M = 4, TILE_V = 2, TILE_LANES = 4 };
#endif
enum { TILE_N = TILE_V * TILE_LANES };

typedef float tile_vec __attribute__((vector_size(TILE_LANES * 4)));
typedef float tile_any
    __attribute__((vector_size(TILE_LANES * 4), aligned(4), may_alias));
typedef uint32_t tile_unit __attribute__((may_alias));

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__AVX512BF16__)
enum { TILE_PAIRS = 1 };
#else
enum { TILE_PAIRS = 0 };
#endif

/* Is a unit of type t a pair? How many units are k elements? */
BN_INLINE bool tile_pairs(enum bn_dtype t)
{
    return TILE_PAIRS && t == BN_BF16;
}

BN_INLINE int tile_steps(enum bn_dtype t, int k)
{
    return tile_pairs(t) ? (k + 1) / 2 : k;
}

BN_INLINE tile_vec tile_load(const void *p)
{
    return *(const tile_any *)p;
}

/* a > b ? a : b of every lane: b where either is NaN. */
BN_INLINE tile_vec tile_max(tile_vec a, tile_vec b)
{
#if defined(__AVX512F__)
    return (tile_vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    return (tile_vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (tile_vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    for (int i = 0; i < TILE_LANES; i++)
        a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
#endif
}

/* The greatest of n floats and of 'top'; NaN does not count. */
BN_INLINE float row_max(const float *x, int n, float top)
{
    tile_vec m[4];
    int i = 0;

    for (int k = 0; k < 4; k++)
        m[k] = (tile_vec){0} + top;
    for (; i + 4 * TILE_LANES <= n; i += 4 * TILE_LANES)
        for (int k = 0; k < 4; k++)
            m[k] = tile_max(tile_load(x + i + k * TILE_LANES), m[k]);
    for (; i + TILE_LANES <= n; i += TILE_LANES)
        m[0] = tile_max(tile_load(x + i), m[0]);
    for (; i < n; i++)
        top = x[i] > top ? x[i] : top;
    m[0] = tile_max(tile_max(m[0], m[1]), tile_max(m[2], m[3]));
    for (int k = 0; k < TILE_LANES; k++)
        top = m[0][k] > top ? m[0][k] : top;
    return top;
}

/* n floats, a multiple of 16, to bf16. */
BN_INLINE void row_narrow(uint16_t *to, const float *from, int n)
{
#if defined(__AVX512BF16__)
    for (int i = 0; i < n; i += 16)
        _mm256_storeu_si256(
            (__m256i *)(to + i),
            (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i)));
#else
#pragma omp simd
    for (int i = 0; i < n; i++)
        to[i] = bn_float_to_bf16(from[i]);
#endif
}

/* The sum of n products. */
BN_INLINE float row_dot(enum bn_dtype t, const void *a, size_t ai,
                        const void *b, size_t bi, int n)
{
    float sum = 0;
    int i = 0;

#if defined(__AVX512BF16__)
    if (t == BN_BF16) {
        __m512 acc = _mm512_setzero_ps();

        for (; i + 32 <= n; i += 32)
            acc = _mm512_dpbf16_ps(
                acc, (__m512bh)_mm512_loadu_si512((const uint16_t *)a + ai + i),
                (__m512bh)_mm512_loadu_si512((const uint16_t *)b + bi + i));
        sum = _mm512_reduce_add_ps(acc);
    }
#endif
#pragma omp simd reduction(+ : sum)
    for (int k = i; k < n; k++)
        sum += bn_get(t, a, ai + k) * bn_get(t, b, bi + k);
    return sum;
}

BN_INLINE tile_vec tile_fma(bool pairs, tile_vec c, const tile_unit *a,
                            tile_vec b)
{
#if defined(__AVX512BF16__)
    if (pairs)
        return (tile_vec)_mm512_dpbf16_ps(
            (__m512)c, (__m512bh)_mm512_set1_epi32((int)*a), (__m512bh)b);
#endif
    (void)pairs;
    return c + bn_bits_float(*a) * b;
}

/* TILE_LANES units, kept in 16 bits each: the upper half of a float. */
BN_INLINE tile_vec tile_load_half(const uint16_t *p)
{
#if defined(__AVX512F__)
    return (tile_vec)_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
#elif defined(__AVX2__)
    return (tile_vec)_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
#else
    tile_vec v = {0};

    for (int i = 0; i < TILE_LANES; i++)
        v[i] = bn_bits_float((uint32_t)p[i] << 16);
    return v;
#endif
}

/* c[high, TILE_N] = (load ? c : 0) + a b over 'steps' units, high <= TILE_M a
 * constant. Row i of c is at c + i * ldc; unit (i, p) of a at
 * a[i * row + p * step] (1 and TILE_M if packed; constants, or addresses will
 * not fit in registers); b is packed, in units, or with 'half' in halves of
 * them, and with 'stream' comes from memory. The same bits for a row, however
 * high the tile is. */
BN_INLINE void tile_mul_any(bool pairs, bool half, bool stream, int high,
                            float *c, size_t ldc, bool load,
                            const tile_unit *a, int row, int step,
                            const void *b, int steps)
{
    enum { AHEAD = 4096 }; /* bytes; less is too late */
    tile_vec acc[TILE_M][TILE_V];

#pragma GCC unroll 16
    for (int i = 0; i < high; i++)
#pragma GCC unroll 4
        for (int v = 0; v < TILE_V; v++)
            acc[i][v] =
                load ? tile_load(c + i * ldc + v * TILE_LANES) : (tile_vec){0};
    for (int p = 0; p < steps; p++) {
        tile_vec bv[TILE_V];

        for (int at = 0; stream && at < TILE_N * (half ? 2 : 4); at += 64)
            __builtin_prefetch((const char *)b + AHEAD + at);
#pragma GCC unroll 4
        for (int v = 0; v < TILE_V; v++)
            bv[v] = half ? tile_load_half((const uint16_t *)b
                                          + v * TILE_LANES)
                         : tile_load((const tile_unit *)b + v * TILE_LANES);
#pragma GCC unroll 16
        for (int i = 0; i < high; i++)
#pragma GCC unroll 4
            for (int v = 0; v < TILE_V; v++)
                acc[i][v] = tile_fma(pairs, acc[i][v], a + i * row, bv[v]);
        a += step;
        b = (const char *)b + TILE_N * (half ? 2 : 4);
    }
#pragma GCC unroll 16
    for (int i = 0; i < high; i++)
#pragma GCC unroll 4
        for (int v = 0; v < TILE_V; v++)
            *(tile_any *)(c + i * ldc + v * TILE_LANES) = acc[i][v];
}

/* The same of any number of rows, of which there may be few, so that not all
 * of a tile is computed for them. Rows of a and c up to TILE_M must be there,
 * and may be written. */
BN_INLINE void tile_mul_rows(bool pairs, bool half, bool stream, int rows,
                             float *c, size_t ldc, bool load,
                             const tile_unit *a, int row, int step,
                             const void *b, int steps)
{
    enum { SOME = 2 * TILE_M / 3, FEW = TILE_M / 3 };

    if (rows > SOME)
        tile_mul_any(pairs, half, stream, TILE_M, c, ldc, load, a, row, step,
                     b, steps);
    else if (rows > FEW)
        tile_mul_any(pairs, half, stream, SOME, c, ldc, load, a, row, step, b,
                     steps);
    else
        tile_mul_any(pairs, half, stream, FEW, c, ldc, load, a, row, step, b,
                     steps);
}

BN_INLINE void tile_mul(bool pairs, float *c, size_t ldc, bool load,
                        const tile_unit *a, int row, int step,
                        const tile_unit *b, int steps)
{
    tile_mul_any(pairs, false, false, TILE_M, c, ldc, load, a, row, step, b,
                 steps);
}

#endif
