/* One AdamW step. */
#ifndef BN_KERNELS_ADAMW_H
#define BN_KERNELS_ADAMW_H

#include <stddef.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bn_adamw {
    float beta1, beta2, eps, weight_decay;
};

/* What differs from step to step; device memory, so that the same launch does
 * for every step. */
struct bn_adamw_now {
    float scale; /* of gradients: clip_scale's */
    float lr;
    float bias1, bias2; /* 1 - beta^t */
};

/* With g = grad[i] * scale, for each of n elements:
 *   p *= 1 - lr wd; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
 *   p -= lr / bias1 * m / (sqrt(v) / sqrt(bias2) + eps)
 * where p is master[i]; then w[i] = p rounded to t, unless w is NULL or
 * master itself. A scale that is NaN: nothing is written.
 *
 * Arithmetic in float with correctly rounded sqrt and division (also on
 * CUDA: no approximations, so that a run on either is comparable). Tolerance
 * 1e-6 relative for m and v, 1e-6 (|p| + |step|) for p. All in place, apart
 * from each other. Bytes: 28 n, and the size of t for w.
 */
void bn_adamw_ref(enum bn_dtype t, const struct bn_adamw *a, void *w,
                  float *master, float *m, float *v, const float *grad,
                  const struct bn_adamw_now *now, size_t n);
void bn_adamw_cpu(enum bn_dtype t, const struct bn_adamw *a, void *w,
                  float *master, float *m, float *v, const float *grad,
                  const struct bn_adamw_now *now, size_t n);
int bn_adamw_cuda(enum bn_dtype t, const struct bn_adamw *a, void *w,
                  float *master, float *m, float *v, const float *grad,
                  const struct bn_adamw_now *now, size_t n, void *stream);

#ifdef __cplusplus
}
#endif

#endif
