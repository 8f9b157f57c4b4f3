#include "config.h"
#include "kernels/rows.h"
#include "kernels/cpu/cpu.h"

BN_CPU_DECLARE(gather);
BN_CPU_DECLARE(scatter);

void BN_CPU(gather)(enum bn_dtype t, void *y, const void *x,
                    const int32_t *rows, int cols, int n)
{
    size_t size = bn_dtype_size(t) * (size_t)cols;

#pragma omp parallel for schedule(static) if ((size_t)n * cols > BN_CPU_SMALL)
    for (int i = 0; i < n; i++)
        memcpy((char *)y + (size_t)i * size,
               (const char *)x + (size_t)rows[i] * size, size);
}

void BN_CPU(scatter)(enum bn_dtype t, void *dx, const void *dy,
                     const int32_t *rows, int cols, int n)
{
    size_t size = bn_dtype_size(t) * (size_t)cols;

#pragma omp parallel for schedule(static) if ((size_t)n * cols > BN_CPU_SMALL)
    for (int i = 0; i < n; i++)
        memcpy((char *)dx + (size_t)rows[i] * size,
               (const char *)dy + (size_t)i * size, size);
}
