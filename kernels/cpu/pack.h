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

/* One panel of 'width' rows (count of them there, the rest 0), each row k
 * consecutive elements from s + row * ld. */
BN_INLINE void pack_rows(enum bn_dtype t, tile_unit *to, int width,
                         const void *s, size_t ld, int count, int k)
{
    int per = tile_pairs(t) ? 2 : 1, whole = k / (4 * per) * 4;
    size_t size = t == BN_F32 ? 4 : 2;
    const char *from = s;

    for (int r = 0; r < width; r += 4) {
        const char *r0 = from + r * ld * size;
        int done = 0;

        if (r + 4 <= count) {
            const char *r1 = r0 + ld * size, *r2 = r1 + ld * size;
            const char *r3 = r2 + ld * size;

            for (; done < whole; done += 4)
                pack_turn(
                    to + (size_t)done * width + r, width,
                    pack_load(t, r0, done * per), pack_load(t, r1, done * per),
                    pack_load(t, r2, done * per), pack_load(t, r3, done * per));
        }
        for (; done < (k + per - 1) / per; done++)
            for (int q = r; q < r + 4; q++)
                to[(size_t)done * width + q] =
                    q < count
                        ? pack_unit(t, from + q * ld * size, 1, done * per, k)
                        : 0;
    }
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
        } else if (t == BN_F32) {
            memcpy(to, row, (size_t)width * 4);
        } else {
            const uint16_t *lo = (const uint16_t *)row, *hi = lo + ld;

#pragma omp simd
            for (int r = 0; r < width; r++)
                to[r] = per == 2 ? lo[r] | (uint32_t)hi[r] << 16
                                 : (uint32_t)lo[r] << 16;
        }
    }
}

#endif
