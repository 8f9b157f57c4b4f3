/* Plain sums. */
#ifndef BN_KERNELS_ADD_H
#define BN_KERNELS_ADD_H

#include <stddef.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i] += x[i], in float, rounded once to t. y and x apart or the same.
 * Bytes: 3 * n * size of t. */
void bn_add_ref(enum bn_dtype t, void *y, const void *x, size_t n);
void bn_add_cpu(enum bn_dtype t, void *y, const void *x, size_t n);
int bn_add_cuda(enum bn_dtype t, void *y, const void *x, size_t n,
                void *stream);

/* db[c] += sum_i dy[i * lddy + c], 0 <= c < cols; dy of type t, db float.
 * In the order of i (CPU), or in BN_BIAS_PARTS groups of rows added in order
 * (CUDA; 'work' is BN_BIAS_PARTS * cols floats). Tolerance 1e-6 of the sum
 * of magnitudes times log2 n, or of n in plain order. Bytes: n * cols * size
 * of t. */
enum { BN_BIAS_PARTS = 128 };
void bn_bias_grad_ref(enum bn_dtype t, float *db, const void *dy, int lddy,
                      int cols, int n);
void bn_bias_grad_cpu(enum bn_dtype t, float *db, const void *dy, int lddy,
                      int cols, int n);
int bn_bias_grad_cuda(enum bn_dtype t, float *db, const void *dy, int lddy,
                      int cols, int n, float *work, void *stream);

#ifdef __cplusplus
}
#endif

#endif
