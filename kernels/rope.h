/* Rotary positions, half-split as in Hugging Face's Llama. */
#ifndef BN_KERNELS_ROPE_H
#define BN_KERNELS_ROPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In place, for each head of row i, with h = hd / 2 and 0 <= j < h:
 *   (a, b) = (x[j], x[j + h]) -> (a c - b s, b c + a s),
 *   c = cosine[pos[i] * h + j], s = sine[pos[i] * h + j]
 * inverse: s is negated, which is the gradient of the forward form.
 *
 * Row i begins at x + i * ldx and has heads * hd elements of type t; the
 * tables are float [max_pos, h]. hd is even. Arithmetic in float. Tolerance:
 * 1e-6 of the larger of |a| and |b|, plus one rounding to t.
 * Bytes: 2 * n * heads * hd * size of t.
 */
void bn_rope_ref(enum bn_dtype t, void *x, int ldx, const float *cosine,
                 const float *sine, const int32_t *pos, int heads, int hd,
                 int n, bool inverse);
void bn_rope_cpu(enum bn_dtype t, void *x, int ldx, const float *cosine,
                 const float *sine, const int32_t *pos, int heads, int hd,
                 int n, bool inverse);
int bn_rope_cuda(enum bn_dtype t, void *x, int ldx, const float *cosine,
                 const float *sine, const int32_t *pos, int heads, int hd,
                 int n, bool inverse, void *stream);

#ifdef __cplusplus
}
#endif

#endif
