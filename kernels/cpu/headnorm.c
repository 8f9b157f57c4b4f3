#include "config.h"
#include "kernels/headnorm.h"
#include "kernels/cpu/norm.h"

BN_CPU_DECLARE(headnorm);
BN_CPU_DECLARE(headnorm_grad);

void BN_CPU(headnorm)(enum bn_dtype t, void *y, int ldy, float *rstd,
                      const void *x, int ldx, const void *w, float eps,
                      int heads, int hd, int n)
{
#pragma omp parallel for schedule(static) if ((size_t)n * heads * hd           \
                                              > BN_CPU_SMALL)
    for (int i = 0; i < n; i++)
        for (int h = 0; h < heads; h++)
            BN_CPU_TYPED(t, rstd[(size_t)i * heads + h] = norm_row(
                                T, y, (size_t)i * ldy + (size_t)h * hd, x,
                                (size_t)i * ldx + (size_t)h * hd, w, eps, hd));
}

/* dw is summed in this many groups of rows, columns in pieces of BLOCK. */
enum { GROUPS = 16, BLOCK = 64 };

/* Add the part of rows [i0, i1) to sum[count], columns from 'from'. */
BN_INLINE void grad_w(enum bn_dtype t, float *sum, const void *dy, int lddy,
                      const void *x, int ldx, const float *rstd, int heads,
                      int hd, int i0, int i1, int from, int count)
{
    for (int i = i0; i < i1; i++) {
        for (int h = 0; h < heads; h++) {
            size_t yi = (size_t)i * lddy + (size_t)h * hd + from;
            size_t xi = (size_t)i * ldx + (size_t)h * hd + from;
            float r = rstd[(size_t)i * heads + h];

#pragma omp simd
            for (int c = 0; c < count; c++)
                sum[c] += bn_get(t, dy, yi + c) * bn_get(t, x, xi + c) * r;
        }
    }
}

static void grad_block(enum bn_dtype t, float *dw, const void *dy, int lddy,
                       const void *x, int ldx, const float *rstd, int heads,
                       int hd, int n, int from, int count)
{
    float sum[GROUPS][BLOCK] = {{0}};

#pragma omp parallel for schedule(static) if ((size_t)n * heads * hd           \
                                              > BN_CPU_SMALL)
    for (int g = 0; g < GROUPS; g++) {
        int i0 = (int)((int64_t)n * g / GROUPS);
        int i1 = (int)((int64_t)n * (g + 1) / GROUPS);

        if (count == BLOCK)
            BN_CPU_TYPED(t, grad_w(T, sum[g], dy, lddy, x, ldx, rstd, heads, hd,
                                   i0, i1, from, BLOCK));
        else
            BN_CPU_TYPED(t, grad_w(T, sum[g], dy, lddy, x, ldx, rstd, heads, hd,
                                   i0, i1, from, count));
    }
    for (int g = 0; g < GROUPS; g++)
        for (int c = 0; c < count; c++)
            dw[from + c] += sum[g][c];
}

void BN_CPU(headnorm_grad)(enum bn_dtype t, void *dx, int lddx, float *dw,
                           const void *dy, int lddy, const void *x, int ldx,
                           const void *w, const float *rstd, int heads, int hd,
                           int n)
{
    /* dw first: dx may be written over dy. */
    for (int from = 0; dw != NULL && from < hd; from += BLOCK)
        grad_block(t, dw, dy, lddy, x, ldx, rstd, heads, hd, n, from,
                   hd - from < BLOCK ? hd - from : BLOCK);
#pragma omp parallel for schedule(static) if ((size_t)n * heads * hd           \
                                              > BN_CPU_SMALL)
    for (int i = 0; i < n; i++)
        for (int h = 0; h < heads; h++)
            BN_CPU_TYPED(
                t, norm_row_grad(T, dx, (size_t)i * lddx + (size_t)h * hd, dy,
                                 (size_t)i * lddy + (size_t)h * hd, NULL, x,
                                 (size_t)i * ldx + (size_t)h * hd, w,
                                 rstd[(size_t)i * heads + h], hd));
}
