#include "config.h"
#include "kernels/rope.h"
#include "kernels/cpu/cpu.h"

BN_CPU_DECLARE(rope);

BN_INLINE void rotate(enum bn_dtype t, void *x, size_t at, const float *cosine,
                      const float *sine, int half, float sign)
{
#pragma omp simd
    for (int j = 0; j < half; j++) {
        float a = bn_get(t, x, at + j), b = bn_get(t, x, at + half + j);
        float s = sine[j] * sign;

        bn_put(t, x, at + j, a * cosine[j] - b * s);
        bn_put(t, x, at + half + j, b * cosine[j] + a * s);
    }
}

void BN_CPU(rope)(enum bn_dtype t, void *x, int ldx, const float *cosine,
                  const float *sine, const int32_t *pos, int heads, int hd,
                  int n, bool inverse)
{
    float sign = inverse ? -1 : 1;
    int half = hd / 2;

#pragma omp parallel for schedule(static) if ((size_t)n * heads * hd           \
                                              > BN_CPU_SMALL)
    for (int i = 0; i < n; i++) {
        size_t angle = (size_t)pos[i] * half;

        for (int h = 0; h < heads; h++)
            BN_CPU_TYPED(t, rotate(T, x, (size_t)i * ldx + (size_t)h * hd,
                                   cosine + angle, sine + angle, half, sign));
    }
}
