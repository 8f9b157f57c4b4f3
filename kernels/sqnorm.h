/* Size of the gradient, and the factor that clips it. */
#ifndef BN_KERNELS_SQNORM_H
#define BN_KERNELS_SQNORM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Partial sums of the CUDA form. */
enum { BN_SQNORM_PARTS = 1024 };

/* *out += sum_i g[i]^2. Squares and sums in double, or products in double of
 * sums of at most 64 squares in float; the order depends on n only. Tolerance
 * 1e-6 relative. A g that is not finite makes *out not finite.
 * CUDA: out is in device memory, 'work' is BN_SQNORM_PARTS doubles there.
 * Bytes: 4 n.
 */
void bn_sqnorm_ref(double *out, const float *g, size_t n);
void bn_sqnorm_cpu(double *out, const float *g, size_t n);
int bn_sqnorm_cuda(double *out, const float *g, size_t n, double *work,
                   void *stream);

/* *scale = min(1, max_norm / (sqrt(*sq) + 1e-6)), 1 if max_norm <= 0; NaN if
 * *sq is not finite. Computed in double, rounded once. */
void bn_clip_scale_ref(float *scale, const double *sq, float max_norm);
void bn_clip_scale_cpu(float *scale, const double *sq, float max_norm);
int bn_clip_scale_cuda(float *scale, const double *sq, float max_norm,
                       void *stream);

#ifdef __cplusplus
}
#endif

#endif
