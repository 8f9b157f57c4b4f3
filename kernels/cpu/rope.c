#include "config.h"
#include "kernels/rope.h"
#include "kernels/cpu/cpu.h"

BN_CPU_DECLARE(rope);

BN_INLINE void rotate(enum bn_dtype t, void *x, int ldx, const float *cosine,
                      const float *sine, const int32_t *pos, int heads, int hd,
                      int n, float sign)
{
    int half = hd / 2;

#pragma omp parallel for schedule(static) if ((size_t)n * heads * hd           \
                                              > BN_CPU_SMALL)
    for (int i = 0; i < n; i++) {
        const float *cs = cosine + (size_t)pos[i] * half;
        const float *sn = sine + (size_t)pos[i] * half;

        for (int h = 0; h < heads; h++) {
            size_t at = (size_t)i * ldx + (size_t)h * hd;

#pragma omp simd
            for (int j = 0; j < half; j++) {
                float a = bn_get(t, x, at + j);
                float b = bn_get(t, x, at + half + j);
                float s = sn[j] * sign;

                bn_put(t, x, at + j, a * cs[j] - b * s);
                bn_put(t, x, at + half + j, b * cs[j] + a * s);
            }
        }
    }
}

void BN_CPU(rope)(enum bn_dtype t, void *x, int ldx, const float *cosine,
                  const float *sine, const int32_t *pos, int heads, int hd,
                  int n, bool inverse)
{
    float sign = inverse ? -1 : 1;

    if (t == BN_F32)
        rotate(BN_F32, x, ldx, cosine, sine, pos, heads, hd, n, sign);
    else
        rotate(BN_BF16, x, ldx, cosine, sine, pos, heads, hd, n, sign);
}
