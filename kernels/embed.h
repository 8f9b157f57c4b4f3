/* Rows of a table by token id, and the gradient of the table. */
#ifndef BN_KERNELS_EMBED_H
#define BN_KERNELS_EMBED_H

#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i, :] = table[ids[i] - first, :] if 0 <= ids[i] - first < count, else 0.
 *
 * y: [n, cols], table: [count, cols], both of type t. Any alignment, exact.
 * Bytes: 2 * n * cols * size of t.
 */
void bn_embed_ref(enum bn_dtype t, void *y, const void *table,
                  const int32_t *ids, int first, int count, int cols, int n);
void bn_embed_cpu(enum bn_dtype t, void *y, const void *table,
                  const int32_t *ids, int first, int count, int cols, int n);
int bn_embed_cuda(enum bn_dtype t, void *y, const void *table,
                  const int32_t *ids, int first, int count, int cols, int n,
                  void *stream);

/* dtable[ids[i] - first, :] += dy[i, :] for i = 0, 1, ... in that order; ids
 * outside [first, first + count) are skipped.
 *
 * dtable: [count, cols] float, dy: [n, cols] of type t. Sums run in float, in
 * the order of i (double in the reference). Tolerance 1e-6 relative to the
 * sum of magnitudes. Same bits on any number of threads. Bytes: n * cols *
 * size of t, and 8 * cols for each row of the table that is added to.
 */
void bn_embed_grad_ref(enum bn_dtype t, float *dtable, const void *dy,
                       const int32_t *ids, int first, int count, int cols,
                       int n);
void bn_embed_grad_cpu(enum bn_dtype t, float *dtable, const void *dy,
                       const int32_t *ids, int first, int count, int cols,
                       int n);
int bn_embed_grad_cuda(enum bn_dtype t, float *dtable, const void *dy,
                       const int32_t *ids, int first, int count, int cols,
                       int n, void *stream);

#ifdef __cplusplus
}
#endif

#endif
