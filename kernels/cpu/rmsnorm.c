#include "config.h"
#include "kernels/rmsnorm.h"
#include "kernels/cpu/norm.h"

BN_CPU_DECLARE(rmsnorm);
BN_CPU_DECLARE(rmsnorm_grad);

BN_INLINE float row(enum bn_dtype t, void *y, void *xo, const void *x,
                    const void *delta, const void *w, float eps, int cols,
                    size_t at)
{
    if (delta != NULL) {
#pragma omp simd
        for (int c = 0; c < cols; c++)
            bn_put(t, xo, at + c,
                   bn_get(t, x, at + c) + bn_get(t, delta, at + c));
    }
    return norm_row(t, y, at, delta != NULL ? xo : x, at, w, eps, cols);
}

void BN_CPU(rmsnorm)(enum bn_dtype t, void *y, float *rstd, void *xo,
                     const void *x, const void *delta, const void *w, float eps,
                     int cols, int n)
{
#pragma omp parallel for schedule(static) if ((size_t)n * cols > BN_CPU_SMALL)
    for (int i = 0; i < n; i++)
        BN_CPU_TYPED(t, rstd[i] = row(T, y, xo, x, delta, w, eps, cols,
                                      (size_t)i * cols));
}

/* dw before dx, which may be written over dy. Columns are divided among
 * threads, so that each column is summed in the order of rows. */
enum { BLOCK = 128 };

BN_INLINE void grad_w(enum bn_dtype t, float *dw, const void *dy, const void *x,
                      const float *rstd, int cols, int n, int from, int count)
{
    float sum[BLOCK] = {0};

    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * cols + from;
        float r = rstd[i];

#pragma omp simd
        for (int c = 0; c < count; c++)
            sum[c] += bn_get(t, dy, at + c) * bn_get(t, x, at + c) * r;
    }
    for (int c = 0; c < count; c++)
        dw[from + c] += sum[c];
}

void BN_CPU(rmsnorm_grad)(enum bn_dtype t, void *dx, float *dw, const void *dy,
                          const void *dres, const void *x, const void *w,
                          const float *rstd, int cols, int n)
{
    int wanted = dw != NULL ? cols : 0;

#pragma omp parallel if ((size_t)n * cols > BN_CPU_SMALL)
    {
#pragma omp for schedule(static)
        for (int from = 0; from < wanted; from += BLOCK) {
            if (cols - from >= BLOCK)
                BN_CPU_TYPED(t,
                             grad_w(T, dw, dy, x, rstd, cols, n, from, BLOCK));
            else
                BN_CPU_TYPED(
                    t, grad_w(T, dw, dy, x, rstd, cols, n, from, cols - from));
        }
#pragma omp for schedule(static)
        for (int i = 0; i < n; i++) {
            size_t at = (size_t)i * cols;

            BN_CPU_TYPED(t, norm_row_grad(T, dx, at, dy, at, dres, x, at, w,
                                          rstd[i], cols));
        }
    }
}
