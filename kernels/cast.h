/* Conversion between element types. */
#ifndef BN_KERNELS_CAST_H
#define BN_KERNELS_CAST_H

#include <stddef.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dst[i] = src[i], rounded to nearest, ties to even; too large becomes
 * infinite, NaN stays NaN, small values keep their denormals.
 *
 * Types: any two of F32, BF16, F16, F64 (CUDA: F32, BF16, F16), or the same
 * type twice, which copies bytes and allows dst == src. Any alignment of
 * whole elements. Bytes: n * the sizes of both.
 * Returns 0, or -1 for a pair that is not supported (nothing is written);
 * CUDA: as all launchers.
 */
int bn_cast_ref(void *dst, enum bn_dtype dst_type, const void *src,
                enum bn_dtype src_type, size_t n);
int bn_cast_cpu(void *dst, enum bn_dtype dst_type, const void *src,
                enum bn_dtype src_type, size_t n);
int bn_cast_cuda(void *dst, enum bn_dtype dst_type, const void *src,
                 enum bn_dtype src_type, size_t n, void *stream);
/* 0 if this program has kernels for the device in use, else the cudaError_t
 * that says why not. */
int bn_cast_cuda_there(void);

#ifdef __cplusplus
}
#endif

#endif
