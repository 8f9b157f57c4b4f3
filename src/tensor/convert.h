/* Conversions between the floating formats of tensors: F64, F32, BF16, F16,
 * F8_E4M3 and F8_E5M2 (OCP 8-bit formats; E4M3 is "e4m3fn": no infinity,
 * largest value 448).
 *
 * Rules, the same for every pair:
 *   - round to nearest, ties to even; subnormals are kept on both sides
 *   - a NaN stays a NaN with its sign
 *   - F64, F32, BF16, F16, F8_E5M2: what rounds above the largest value
 *     becomes infinity of its sign; infinity stays
 *   - F8_E4M3: infinity, and what rounds above 448, becomes NaN of its sign
 *     (as PyTorch and ml_dtypes do; nothing is clamped in silence: scale
 *     first if values may be larger)
 *   - one rounding only: F64 to a narrow type does not pass through F32
 */
#ifndef BN_TENSOR_CONVERT_H
#define BN_TENSOR_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

/* True for the six formats above. */
bool bn_dtype_is_float(enum bn_dtype t);

/* dst[i] = src[i] for i < n. Both types must be floating (else it aborts:
 * check with bn_dtype_is_float what comes from outside). Any alignment; the
 * arrays must not overlap, except that dst == src is allowed when the types
 * have one size. Local, single thread.
 */
void bn_convert(void *dst, enum bn_dtype dst_type, const void *src,
                enum bn_dtype src_type, size_t n);

/* Single values. */
uint16_t bn_f32_to_bf16(float x);
float bn_bf16_to_f32(uint16_t b);
uint16_t bn_f32_to_f16(float x);
float bn_f16_to_f32(uint16_t h);

/* The first i < n whose value is not finite; n if all are. Any alignment. */
size_t bn_find_nonfinite(const void *src, enum bn_dtype type, size_t n);
/* True if every value is +0 or -0. */
bool bn_all_zero(const void *src, enum bn_dtype type, size_t n);

#endif
