#include "config.h"
#include "kernels/peak.h"
#include "base/clock.h"
#include "kernels/cpu/tile.h"

BN_CPU_DECLARE(peak);

/* Sums enough to hide the latency of two multiply-adds a cycle. They stay
 * small: half of the old plus one ends at 2, and pairs add 1/2 a turn. */
enum { SUMS = 12, TURNS = 10000, ROUNDS = 16 };
static volatile float factor = 0.5f, seen;

BN_INLINE tile_vec multiply_add(bool pairs, tile_vec sum, tile_vec x)
{
#if defined(__AVX512BF16__)
    if (pairs)
        return (tile_vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)x,
                                          (__m512bh)x);
#endif
    (void)pairs;
    return sum * x + 1.0f;
}

/* FLOP that were done. */
BN_INLINE double multiply_adds(bool pairs)
{
    tile_vec sum[SUMS], x = (tile_vec){0} + factor;

    for (int k = 0; k < SUMS; k++)
        sum[k] = x * (float)k;
    for (int i = 0; i < TURNS; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++)
            sum[k] = multiply_add(pairs, sum[k], x);
    }
    for (int k = 1; k < SUMS; k++)
        sum[0] += sum[k];
    seen = sum[0][0];
    return (pairs ? 4.0 : 2.0) * TILE_LANES * SUMS * TURNS;
}

double BN_CPU(peak)(enum bn_dtype t)
{
    double best = 0;

    for (int i = 0; i < ROUNDS; i++) {
        double all = 0;

#pragma omp parallel reduction(+ : all)
        {
            double began = bn_now();
            double done = tile_pairs(t) ? multiply_adds(true)
                                        : multiply_adds(false);

            all += done / (bn_now() - began);
        }
        best = all > best ? all : best;
    }
    return best;
}
