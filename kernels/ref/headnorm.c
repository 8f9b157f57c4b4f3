#include "config.h"
#include "kernels/headnorm.h"
#include "kernels/ref/ref.h"

void bn_headnorm_ref(enum bn_dtype t, void *y, int ldy, float *rstd,
                     const void *x, int ldx, const void *w, float eps,
                     int heads, int hd, int n)
{
    for (int i = 0; i < n; i++) {
        for (int h = 0; h < heads; h++) {
            size_t from = (size_t)i * ldx + (size_t)h * hd;
            size_t to = (size_t)i * ldy + (size_t)h * hd;
            double ss = 0;

            for (int j = 0; j < hd; j++)
                ss += ref_get(t, x, from + j) * ref_get(t, x, from + j);
            double r = 1 / sqrt(ss / hd + eps);
            rstd[(size_t)i * heads + h] = (float)r;
            for (int j = 0; j < hd; j++)
                ref_put(t, y, to + j,
                        ref_get(t, x, from + j) * r * ref_get(t, w, j));
        }
    }
}

void bn_headnorm_grad_ref(enum bn_dtype t, void *dx, int lddx, float *dw,
                          const void *dy, int lddy, const void *x, int ldx,
                          const void *w, const float *rstd, int heads, int hd,
                          int n)
{
    for (int j = 0; dw != NULL && j < hd; j++) {
        double sum = 0;

        for (int i = 0; i < n; i++)
            for (int h = 0; h < heads; h++)
                sum += ref_get(t, dy, (size_t)i * lddy + (size_t)h * hd + j)
                       * ref_get(t, x, (size_t)i * ldx + (size_t)h * hd + j)
                       * rstd[(size_t)i * heads + h];
        dw[j] += (float)sum;
    }
    for (int i = 0; i < n; i++) {
        for (int h = 0; h < heads; h++) {
            size_t xi = (size_t)i * ldx + (size_t)h * hd;
            size_t yi = (size_t)i * lddy + (size_t)h * hd;
            size_t di = (size_t)i * lddx + (size_t)h * hd;
            double r = rstd[(size_t)i * heads + h], s = 0;

            for (int j = 0; j < hd; j++)
                s += ref_get(t, dy, yi + j) * ref_get(t, w, j)
                     * ref_get(t, x, xi + j);
            for (int j = 0; j < hd; j++)
                ref_put(t, dx, di + j,
                        r * ref_get(t, dy, yi + j) * ref_get(t, w, j)
                            - ref_get(t, x, xi + j) * r * r * r * s / hd);
        }
    }
}
