#include "config.h"
#include "kernels/sqnorm.h"
#include "kernels/cpu/cpu.h"

BN_CPU_DECLARE(sqnorm);
BN_CPU_DECLARE(clip_scale);

/* Parts whose number does not depend on threads; in each, lanes of double. */
enum { PARTS = 256 };

static double part(const float *g, size_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += (double)g[i] * g[i];
    return sum;
}

void BN_CPU(sqnorm)(double *out, const float *g, size_t n)
{
    double sum[PARTS];
    size_t span = bn_cpu_round((n + PARTS - 1) / PARTS, 16);

#pragma omp parallel for schedule(static) if (n > BN_CPU_SMALL)
    for (int p = 0; p < PARTS; p++) {
        size_t from = (size_t)p * span < n ? (size_t)p * span : n;

        sum[p] = part(g + from, n - from < span ? n - from : span);
    }
    for (int p = 0; p < PARTS; p++)
        *out += sum[p];
}

void BN_CPU(clip_scale)(float *scale, const double *sq, float max_norm)
{
    double s = max_norm > 0 ? max_norm / (sqrt(*sq) + 1e-6) : 1;

    *scale = !isfinite(*sq) ? NAN : s < 1 ? (float)s : 1;
}
