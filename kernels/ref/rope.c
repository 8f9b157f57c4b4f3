#include "config.h"
#include "kernels/rope.h"
#include "kernels/ref/ref.h"

void bn_rope_ref(enum bn_dtype t, void *x, int ldx, const float *cosine,
                 const float *sine, const int32_t *pos, int heads, int hd,
                 int n, bool inverse)
{
    int half = hd / 2;

    for (int i = 0; i < n; i++) {
        const float *cs = cosine + (size_t)pos[i] * half;
        const float *sn = sine + (size_t)pos[i] * half;

        for (int h = 0; h < heads; h++) {
            size_t at = (size_t)i * ldx + (size_t)h * hd;

            for (int j = 0; j < half; j++) {
                double a = ref_get(t, x, at + j);
                double b = ref_get(t, x, at + j + half);
                double c = cs[j], s = inverse ? -sn[j] : sn[j];

                ref_put(t, x, at + j, a * c - b * s);
                ref_put(t, x, at + j + half, b * c + a * s);
            }
        }
    }
}
