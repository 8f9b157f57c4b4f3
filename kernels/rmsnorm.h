/* Root mean square norm of rows, with the residual addition before it. */
#ifndef BN_KERNELS_RMSNORM_H
#define BN_KERNELS_RMSNORM_H

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scratch of the CUDA gradients of parameters: partial sums of this many
 * groups of rows, added in order. */
enum { BN_NORM_PARTS = 128 };

/* xo = x + delta, rounded to t (delta NULL: xo is not written, may be NULL,
 * and x stands for it);
 * rstd[i] = 1 / sqrt(mean_c xo[i, c]^2 + eps);
 * y[i, c] = xo[i, c] * rstd[i] * w[c].
 *
 * x, delta, xo, y: [n, cols] of type t; w: [cols] of type t; rstd: [n] float.
 * xo may be x or delta; y is apart from all. Any alignment. Sums run in float
 * or wider. Tolerance: 2e-6 relative per element plus one rounding to t (of
 * the rounded xo, not of x + delta). Same bits on any number of threads.
 * Bytes: (2 + 2 if delta) * n * cols * size of t.
 */
void bn_rmsnorm_ref(enum bn_dtype t, void *y, float *rstd, void *xo,
                    const void *x, const void *delta, const void *w, float eps,
                    int cols, int n);
void bn_rmsnorm_cpu(enum bn_dtype t, void *y, float *rstd, void *xo,
                    const void *x, const void *delta, const void *w, float eps,
                    int cols, int n);
int bn_rmsnorm_cuda(enum bn_dtype t, void *y, float *rstd, void *xo,
                    const void *x, const void *delta, const void *w, float eps,
                    int cols, int n, void *stream);

/* With x what was normalised, r = rstd[i], s = sum_c dy[i, c] w[c] x[i, c]:
 *   dx[i, c] = dres[i, c] + r dy[i, c] w[c] - x[i, c] r^3 s / cols
 *   dw[c] += sum_i dy[i, c] x[i, c] r
 * dres NULL: 0. dx may be dy or dres; =. dw is float (NULL: not wanted), +=,
 * in the order of i (CPU) or in BN_NORM_PARTS groups (CUDA; 'work' is
 * BN_NORM_PARTS * cols floats). Tolerance: 1e-5 of the largest |dx| of the row plus one rounding
 * to t; dw 1e-5 of the sum of magnitudes. Bytes: 3 (4) * n * cols * size.
 */
void bn_rmsnorm_grad_ref(enum bn_dtype t, void *dx, float *dw, const void *dy,
                         const void *dres, const void *x, const void *w,
                         const float *rstd, int cols, int n);
void bn_rmsnorm_grad_cpu(enum bn_dtype t, void *dx, float *dw, const void *dy,
                         const void *dres, const void *x, const void *w,
                         const float *rstd, int cols, int n);
int bn_rmsnorm_grad_cuda(enum bn_dtype t, void *dx, float *dw, const void *dy,
                         const void *dres, const void *x, const void *w,
                         const float *rstd, int cols, int n, float *work,
                         void *stream);

#ifdef __cplusplus
}
#endif

#endif
