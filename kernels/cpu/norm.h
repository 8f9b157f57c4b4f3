/* One row of an RMS norm and of its gradient: rows of a matrix, or heads. */
#ifndef BN_KERNELS_CPU_NORM_H
#define BN_KERNELS_CPU_NORM_H

#include "kernels/cpu/cpu.h"

/* Sums run in float over this many elements, in double over those. */
enum { NORM_SPAN = 512 };

BN_INLINE float norm_row(enum bn_dtype t, void *y, size_t yi, const void *x,
                         size_t xi, const void *w, float eps, int cols)
{
    double ss = 0;

    for (int from = 0; from < cols; from += NORM_SPAN) {
        int to = from + NORM_SPAN < cols ? from + NORM_SPAN : cols;
        float s = 0;

#pragma omp simd reduction(+ : s)
        for (int c = from; c < to; c++) {
            float u = bn_get(t, x, xi + c);

            s += u * u;
        }
        ss += s;
    }
    float r = (float)(1 / sqrt(ss / cols + eps));
#pragma omp simd
    for (int c = 0; c < cols; c++)
        bn_put(t, y, yi + c, bn_get(t, x, xi + c) * r * bn_get(t, w, c));
    return r;
}

/* dres, if not NULL, is indexed as dx. */
BN_INLINE void norm_row_grad(enum bn_dtype t, void *dx, size_t di,
                             const void *dy, size_t yi, const void *dres,
                             const void *x, size_t xi, const void *w, float r,
                             int cols)
{
    double sum = 0;

    for (int from = 0; from < cols; from += NORM_SPAN) {
        int to = from + NORM_SPAN < cols ? from + NORM_SPAN : cols;
        float s = 0;

#pragma omp simd reduction(+ : s)
        for (int c = from; c < to; c++)
            s += bn_get(t, dy, yi + c) * bn_get(t, w, c) * bn_get(t, x, xi + c);
        sum += s;
    }
    float k = (float)((double)r * r * r * sum / cols);
    if (dres != NULL) {
#pragma omp simd
        for (int c = 0; c < cols; c++)
            bn_put(t, dx, di + c,
                   bn_get(t, dres, di + c)
                       + (r * bn_get(t, dy, yi + c) * bn_get(t, w, c)
                          - bn_get(t, x, xi + c) * k));
    } else {
#pragma omp simd
        for (int c = 0; c < cols; c++)
            bn_put(t, dx, di + c,
                   r * bn_get(t, dy, yi + c) * bn_get(t, w, c)
                       - bn_get(t, x, xi + c) * k);
    }
}

#endif
