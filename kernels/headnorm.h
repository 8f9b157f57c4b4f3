/* RMSNorm of each head of a row (the q and k norm of Qwen 3). */
#ifndef BN_KERNELS_HEADNORM_H
#define BN_KERNELS_HEADNORM_H

#include "base/dtype.h"
#include "kernels/rmsnorm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i, h, :] = x[i, h, :] * rstd[i, h] * w, rstd[i, h] = 1 / sqrt(mean_j
 * x[i, h, j]^2 + eps).
 *
 * Row i of x begins at x + i * ldx, head h of it at h * hd; y likewise with
 * ldy. w: [hd] of type t; rstd: [n, heads] float. y may be x if ldx == ldy.
 * Elements of a row beyond heads * hd are not touched. CUDA: hd <= 256. As
 * bn_rmsnorm for the rest. Bytes: 2 * n * heads * hd * size of t.
 */
void bn_headnorm_ref(enum bn_dtype t, void *y, int ldy, float *rstd,
                     const void *x, int ldx, const void *w, float eps,
                     int heads, int hd, int n);
void bn_headnorm_cpu(enum bn_dtype t, void *y, int ldy, float *rstd,
                     const void *x, int ldx, const void *w, float eps,
                     int heads, int hd, int n);
int bn_headnorm_cuda(enum bn_dtype t, void *y, int ldy, float *rstd,
                     const void *x, int ldx, const void *w, float eps,
                     int heads, int hd, int n, void *stream);

/* As bn_rmsnorm_grad on [n * heads, hd] without dres; dw[hd] += over rows and
 * heads. dx may be dy if lddx == lddy. CUDA's work: BN_NORM_PARTS * hd. The
 * CPU sums dw in groups of rows whose number does not depend on threads. dw
 * may be NULL: it is not wanted. Bytes: 3 * n * heads * hd * size of t. */
void bn_headnorm_grad_ref(enum bn_dtype t, void *dx, int lddx, float *dw,
                          const void *dy, int lddy, const void *x, int ldx,
                          const void *w, const float *rstd, int heads, int hd,
                          int n);
void bn_headnorm_grad_cpu(enum bn_dtype t, void *dx, int lddx, float *dw,
                          const void *dy, int lddy, const void *x, int ldx,
                          const void *w, const float *rstd, int heads, int hd,
                          int n);
int bn_headnorm_grad_cuda(enum bn_dtype t, void *dx, int lddx, float *dw,
                          const void *dy, int lddy, const void *x, int ldx,
                          const void *w, const float *rstd, int heads, int hd,
                          int n, float *work, void *stream);

#ifdef __cplusplus
}
#endif

#endif
