/* Rows picked out of a matrix and put back. */
#ifndef BN_KERNELS_ROWS_H
#define BN_KERNELS_ROWS_H

#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[i, :] = x[rows[i], :]. x, y: rows of 'cols' elements of type t. Exact.
 * Bytes: 2 * n * cols * size of t. */
void bn_gather_ref(enum bn_dtype t, void *y, const void *x, const int32_t *rows,
                   int cols, int n);
void bn_gather_cpu(enum bn_dtype t, void *y, const void *x, const int32_t *rows,
                   int cols, int n);
int bn_gather_cuda(enum bn_dtype t, void *y, const void *x, const int32_t *rows,
                   int cols, int n, void *stream);

/* dx[rows[i], :] = dy[i, :]; the rows are all different, others are left
 * alone. Exact. Bytes: 2 * n * cols * size of t. */
void bn_scatter_ref(enum bn_dtype t, void *dx, const void *dy,
                    const int32_t *rows, int cols, int n);
void bn_scatter_cpu(enum bn_dtype t, void *dx, const void *dy,
                    const int32_t *rows, int cols, int n);
int bn_scatter_cuda(enum bn_dtype t, void *dx, const void *dy,
                    const int32_t *rows, int cols, int n, void *stream);

#ifdef __cplusplus
}
#endif

#endif
