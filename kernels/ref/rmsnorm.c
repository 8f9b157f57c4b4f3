#include "config.h"
#include "kernels/rmsnorm.h"
#include "kernels/ref/ref.h"

void bn_rmsnorm_ref(enum bn_dtype t, void *y, float *rstd, void *xo,
                    const void *x, const void *delta, const void *w, float eps,
                    int cols, int n)
{
    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * cols;
        const void *u = delta != NULL ? xo : x;
        double ss = 0;

        if (delta != NULL)
            for (size_t k = at; k < at + cols; k++)
                ref_put(t, xo, k, ref_get(t, x, k) + ref_get(t, delta, k));
        for (size_t k = at; k < at + cols; k++)
            ss += ref_get(t, u, k) * ref_get(t, u, k);
        double r = 1 / sqrt(ss / cols + eps);
        rstd[i] = (float)r;
        for (int c = 0; c < cols; c++)
            ref_put(t, y, at + c, ref_get(t, u, at + c) * r * ref_get(t, w, c));
    }
}

void bn_rmsnorm_grad_ref(enum bn_dtype t, void *dx, float *dw, const void *dy,
                         const void *dres, const void *x, const void *w,
                         const float *rstd, int cols, int n)
{
    for (int c = 0; dw != NULL && c < cols; c++) {
        double sum = 0;

        for (int i = 0; i < n; i++) {
            size_t k = (size_t)i * cols + c;

            sum += ref_get(t, dy, k) * ref_get(t, x, k) * rstd[i];
        }
        dw[c] += (float)sum;
    }
    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * cols;
        double r = rstd[i], s = 0;

        for (int c = 0; c < cols; c++)
            s += ref_get(t, dy, at + c) * ref_get(t, w, c)
                 * ref_get(t, x, at + c);
        for (int c = 0; c < cols; c++) {
            size_t k = at + c;
            double res = dres != NULL ? ref_get(t, dres, k) : 0;

            ref_put(t, dx, k,
                    res + r * ref_get(t, dy, k) * ref_get(t, w, c)
                        - ref_get(t, x, k) * r * r * r * s / cols);
        }
    }
}
