#include "config.h"
#include "kernels/swiglu.h"
#include "kernels/cpu/cpu.h"

BN_CPU_DECLARE(swiglu);
BN_CPU_DECLARE(swiglu_grad);

/* Columns a piece of work takes, so that one row can be shared too. */
enum { BLOCK = 1024 };

BN_INLINE void forward(enum bn_dtype t, void *y, size_t yi, const void *gu,
                       size_t gi, int f, int count)
{
#pragma omp simd
    for (int c = 0; c < count; c++) {
        float g = bn_get(t, gu, gi + c), u = bn_get(t, gu, gi + f + c);

        bn_put(t, y, yi + c, g / (1.0f + bn_cpu_exp(-g)) * u);
    }
}

void BN_CPU(swiglu)(enum bn_dtype t, void *y, const void *gu, int f, int n)
{
#pragma omp parallel for collapse(2)                                           \
    schedule(static) if ((size_t)n * f > BN_CPU_SMALL)
    for (int i = 0; i < n; i++)
        for (int from = 0; from < f; from += BLOCK)
            BN_CPU_TYPED(t, forward(T, y, (size_t)i * f + from, gu,
                                    (size_t)i * 2 * f + from, f,
                                    f - from < BLOCK ? f - from : BLOCK));
}

BN_INLINE void backward(enum bn_dtype t, void *dgu, void *y, const void *dy,
                        size_t yi, const void *gu, size_t gi, int f, int count)
{
#pragma omp simd
    for (int c = 0; c < count; c++) {
        float g = bn_get(t, gu, gi + c), u = bn_get(t, gu, gi + f + c);
        float d = bn_get(t, dy, yi + c);
        float s = 1.0f / (1.0f + bn_cpu_exp(-g));

        bn_put(t, dgu, gi + c, d * u * s * (1.0f + g * (1.0f - s)));
        bn_put(t, dgu, gi + f + c, d * g * s);
        if (y != NULL)
            bn_put(t, y, yi + c, g * s * u);
    }
}

void BN_CPU(swiglu_grad)(enum bn_dtype t, void *dgu, void *y, const void *dy,
                         const void *gu, int f, int n)
{
#pragma omp parallel for collapse(2)                                           \
    schedule(static) if ((size_t)n * f > BN_CPU_SMALL)
    for (int i = 0; i < n; i++) {
        for (int from = 0; from < f; from += BLOCK) {
            size_t yi = (size_t)i * f + from, gi = (size_t)i * 2 * f + from;
            int count = f - from < BLOCK ? f - from : BLOCK;

            if (y != NULL)
                BN_CPU_TYPED(t, backward(T, dgu, y, dy, yi, gu, gi, f, count));
            else
                BN_CPU_TYPED(t,
                             backward(T, dgu, NULL, dy, yi, gu, gi, f, count));
        }
    }
}
