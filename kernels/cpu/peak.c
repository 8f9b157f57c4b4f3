#include "config.h"
#include "kernels/peak.h"
#include "base/clock.h"
#include "kernels/cpu/tile.h"

BN_CPU_DECLARE(peak);

/* Sums enough to hide the latency of two multiply-adds a cycle, which end
 * (FACTOR of the old plus one is 2) and so never grow. */
enum { SUMS = 12, TURNS = 10000, ROUNDS = 16 };
static volatile float factor = 0.5f, seen;

static double multiply_adds(void)
{
    tile_vec sum[SUMS], x = (tile_vec){0} + factor;

    for (int k = 0; k < SUMS; k++)
        sum[k] = x * (float)k;
    for (int i = 0; i < TURNS; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++)
            sum[k] = sum[k] * x + 1.0f;
    }
    for (int k = 1; k < SUMS; k++)
        sum[0] += sum[k];
    seen = sum[0][0];
    return 2.0 * TILE_LANES * SUMS * TURNS;
}

#if defined(__AVX512BF16__)
static double pairs(void)
{
    __m512 sum[SUMS], x = _mm512_set1_ps(factor);

    for (int k = 0; k < SUMS; k++)
        sum[k] = x * (float)k;
    for (int i = 0; i < TURNS; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < SUMS; k++)
            sum[k] = _mm512_dpbf16_ps(sum[k], (__m512bh)x, (__m512bh)x);
    }
    for (int k = 1; k < SUMS; k++)
        sum[0] += sum[k];
    seen = sum[0][0];
    return 4.0 * 16 * SUMS * TURNS;
}
#endif

static double flop(enum bn_dtype t)
{
#if defined(__AVX512BF16__)
    if (t == BN_BF16)
        return pairs();
#endif
    (void)t;
    return multiply_adds();
}

double BN_CPU(peak)(enum bn_dtype t)
{
    double best = 0;

    for (int i = 0; i < ROUNDS; i++) {
        double all = 0;

#pragma omp parallel reduction(+ : all)
        {
            double began = bn_now(), done = flop(t);

            all += done / (bn_now() - began);
        }
        best = all > best ? all : best;
    }
    return best;
}
