/* Operands into panels of units (tile.h). */
#ifndef BN_KERNELS_CPU_PACK_H
#define BN_KERNELS_CPU_PACK_H

#include "kernels/cpu/tile.h"

typedef uint32_t pack_quad __attribute__((vector_size(16)));
typedef uint32_t pack_any
    __attribute__((vector_size(16), aligned(2), may_alias));

/* The unit of row element p (and p + 1) of k, 0 past the end. */
BN_INLINE tile_unit pack_unit(enum bn_dtype t, const void *row, size_t step,
                              int p, int k)
{
    uint32_t lo, hi;

    if (t == BN_F32)
        return bn_float_bits(((const float *)row)[p * step]);
    lo = ((const uint16_t *)row)[p * step];
    if (!tile_pairs(t))
        return lo << 16;
    hi = p + 1 < k ? ((const uint16_t *)row)[(p + 1) * step] : 0;
    return lo | hi << 16;
}

/* Four units of a row, from element p on. */
BN_INLINE pack_quad pack_load(enum bn_dtype t, const char *row, int p)
{
    if (t == BN_F32)
        return *(const pack_any *)(row + (size_t)p * 4);
    if (tile_pairs(t))
        return *(const pack_any *)(row + (size_t)p * 2);
    const uint16_t *s = (const uint16_t *)row + p;
    return (pack_quad){s[0], s[1], s[2], s[3]} << 16;
}

BN_INLINE void pack_turn(tile_unit *to, int width, pack_quad a, pack_quad b,
                         pack_quad c, pack_quad d)
{
    pack_quad ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    pack_quad ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    pack_quad cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    pack_quad cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);

    *(pack_any *)to = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
    *(pack_any *)(to + width) = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
    *(pack_any *)(to + 2 * width) =
        __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
    *(pack_any *)(to + 3 * width) =
        __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}

#if defined(__AVX512F__)
/* Sixteen units of a row, from element p on. */
BN_INLINE __m512 pack_load16(enum bn_dtype t, const char *row, int p)
{
    if (t == BN_F32)
        return _mm512_loadu_ps((const float *)row + p);
    if (tile_pairs(t))
        return _mm512_loadu_ps((const float *)(row + (size_t)p * 2));
    __m256i half = _mm256_loadu_si256((const __m256i *)(row + (size_t)p * 2));
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
}

/* Turn sixteen rows of sixteen units: step q of all rows goes to
 * to + q * width. With fewer rows than sixteen (rows, the width) what is
 * stored past a step is overwritten by the next: 16 - rows units past the
 * last step must be there to be spoilt. */
BN_INLINE void pack_turn16(tile_unit *to, int width, const __m512 *r)
{
    __m512 t[16], u[16];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        __m512d a = (__m512d)t[i / 2 * 4 + i % 2];
        __m512d b = (__m512d)t[i / 2 * 4 + i % 2 + 2];

        u[2 * i] = (__m512)_mm512_unpacklo_pd(a, b);
        u[2 * i + 1] = (__m512)_mm512_unpackhi_pd(a, b);
    }
    /* Lane l of u[4 i + c] is now column 4 l + c of rows 4 i .. 4 i + 3. */
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        t[c] = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x44);
        t[4 + c] = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xee);
        t[8 + c] = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x44);
        t[12 + c] = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xee);
    }
#pragma GCC unroll 16
    for (int q = 0; q < 16; q++) {
        __m512 a = t[q / 8 * 4 + q % 4], b = t[q / 8 * 4 + q % 4 + 8];

        _mm512_storeu_ps((float *)(to + (size_t)q * width),
                         q / 4 % 2 == 0 ? _mm512_shuffle_f32x4(a, b, 0x88)
                                        : _mm512_shuffle_f32x4(a, b, 0xdd));
    }
}

/* As pack_rows, of 'rows' (16, or the width) rows, 'count' of which are there
 * and the others 0, and of units [0, n), n a multiple of 16. */
BN_INLINE void pack_rows16(enum bn_dtype t, tile_unit *to, int width, int rows,
                           int count, const char *from, size_t bytes, int n)
{
    int per = tile_pairs(t) ? 2 : 1;

    for (int p = 0; p < n; p += 16) {
        __m512 r[16];

#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            r[i] = i < rows && i < count
                       ? pack_load16(t, from + i * bytes, p * per)
                       : _mm512_setzero_ps();
        pack_turn16(to + (size_t)p * width, width, r);
    }
}
#endif

/* Units past the end of a panel that packing may spoil (none if its width is
 * a multiple of 16). */
enum { PACK_SLACK = 16 };

/* One panel of 'width' rows (count of them there, the rest 0), each row k
 * consecutive elements from s + row * ld. */
BN_INLINE void pack_rows(enum bn_dtype t, tile_unit *to, int width,
                         const void *s, size_t ld, int count, int k)
{
    int per = tile_pairs(t) ? 2 : 1, whole = k / (4 * per) * 4;
    size_t size = t == BN_F32 ? 4 : 2;
    const char *from = s;
    int turned = 0;

#if defined(__AVX512F__)
    enum { ROWS = 16 };
    int rows = width < ROWS ? width : ROWS;

    turned = k / (ROWS * per) * ROWS;
    for (int r = 0; r < width && turned > 0; r += rows)
        pack_rows16(t, to + r, width, rows, count - r, from + r * ld * size,
                    ld * size, turned);
#endif
    /* From the last rows on: what four lanes store past a narrow panel's step
     * is then overwritten. */
    for (int r = (width - 1) / 4 * 4; r >= 0; r -= 4) {
        int high = width - r < 4 ? width - r : 4, done = turned;
        const char *row[4];

        for (int q = 0; q < 4; q++)
            row[q] = from + (r + (q < high ? q : 0)) * ld * size;
        if (r + high <= count)
            for (; done < whole; done += 4)
                pack_turn(to + (size_t)done * width + r, width,
                          pack_load(t, row[0], done * per),
                          pack_load(t, row[1], done * per),
                          pack_load(t, row[2], done * per),
                          pack_load(t, row[3], done * per));
        for (; done < (k + per - 1) / per; done++)
            for (int q = 0; q < high; q++)
                to[(size_t)done * width + r + q] =
                    r + q < count ? pack_unit(t, row[q], 1, done * per, k) : 0;
    }
}

/* One step of a panel of columns that are all there: units from the elements
 * of 'row', and where they are pairs of the row ld elements on. */
BN_INLINE void pack_step(enum bn_dtype t, tile_unit *to, int width,
                         const char *row, size_t ld)
{
#if defined(__AVX512F__)
#pragma GCC unroll 2
    for (int r = 0; r < width; r += 16) {
        __mmask16 m =
            (__mmask16)(width - r < 16 ? (1 << (width - r)) - 1 : 0xffff);
        __m512i u;

        if (t == BN_F32) {
            u = _mm512_maskz_loadu_epi32(m, (const float *)row + r);
        } else {
            const uint16_t *lo = (const uint16_t *)row + r;

            u = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, lo));
            if (tile_pairs(t))
                u = _mm512_or_si512(
                    u,
                    _mm512_slli_epi32(_mm512_cvtepu16_epi32(
                                          _mm256_maskz_loadu_epi16(m, lo + ld)),
                                      16));
            else
                u = _mm512_slli_epi32(u, 16);
        }
        _mm512_mask_storeu_epi32(to + r, m, u);
    }
#else
    (void)ld;
    if (t == BN_F32) {
        memcpy(to, row, (size_t)width * 4);
    } else {
        const uint16_t *s = (const uint16_t *)row;

#pragma omp simd
        for (int r = 0; r < width; r++)
            to[r] = (uint32_t)s[r] << 16;
    }
#endif
}

/* The same, element p of row r being at s + p * ld + r. */
BN_INLINE void pack_cols(enum bn_dtype t, tile_unit *to, int width,
                         const void *s, size_t ld, int count, int k)
{
    int per = tile_pairs(t) ? 2 : 1;
    size_t size = t == BN_F32 ? 4 : 2;

    for (int p = 0; p < k; p += per, to += width) {
        const char *row = (const char *)s + p * ld * size;

        if (count < width || p + per > k) {
            for (int r = 0; r < width; r++)
                to[r] =
                    r < count ? pack_unit(t, row + r * size, ld, 0, k - p) : 0;
        } else {
            pack_step(t, to, width, row, ld);
        }
    }
}

#endif
