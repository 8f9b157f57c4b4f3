/* The gate of the feed-forward layer. */
#ifndef BN_KERNELS_SWIGLU_H
#define BN_KERNELS_SWIGLU_H

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i, c] = silu(gu[i, c]) * gu[i, f + c], silu(a) = a / (1 + exp(-a)).
 *
 * gu: [n, 2 f] (gate, then up), y: [n, f], of type t. Any alignment; y and gu
 * apart. Arithmetic in float; tolerance 1e-6 relative plus one rounding to t.
 * Bytes: 3 * n * f * size of t.
 */
void bn_swiglu_ref(enum bn_dtype t, void *y, const void *gu, int f, int n);
void bn_swiglu_cpu(enum bn_dtype t, void *y, const void *gu, int f, int n);
int bn_swiglu_cuda(enum bn_dtype t, void *y, const void *gu, int f, int n,
                   void *stream);

/* With s = 1 / (1 + exp(-g)):
 *   dgu[i, c] = dy u s (1 + g (1 - s)), dgu[i, f + c] = dy g s,
 *   y (if not NULL) = g s u.
 * dgu may be gu; y may be dy. Tolerance 2e-6 relative to |dy| (|u| + |g|)
 * plus one rounding to t. Bytes: (5 + 1 if y) * n * f * size of t.
 */
void bn_swiglu_grad_ref(enum bn_dtype t, void *dgu, void *y, const void *dy,
                        const void *gu, int f, int n);
void bn_swiglu_grad_cpu(enum bn_dtype t, void *dgu, void *y, const void *dy,
                        const void *gu, int f, int n);
int bn_swiglu_grad_cuda(enum bn_dtype t, void *dgu, void *y, const void *dy,
                        const void *gu, int f, int n, void *stream);

#ifdef __cplusplus
}
#endif

#endif
