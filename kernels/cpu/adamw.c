#include "config.h"
#include "kernels/adamw.h"
#include "kernels/cpu/cpu.h"

#include <stdbool.h>

BN_CPU_DECLARE(adamw);

/* Elements of one piece of work: their state fits the second-level cache. */
enum { BLOCK = 16384 };

BN_INLINE void piece(bool narrow, const struct bn_adamw *a,
                     const struct bn_adamw_now *now, uint16_t *w,
                     float *master, float *m, float *v, const float *grad,
                     size_t n)
{
    float scale = now->scale, keep = 1.0f - now->lr * a->weight_decay;
    float b1 = a->beta1, b2 = a->beta2, c1 = 1.0f - b1, c2 = 1.0f - b2;
    float step = now->lr / now->bias1, eps = a->eps;
    float root = 1.0f / sqrtf(now->bias2);

#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * scale;
        float mi = b1 * m[i] + c1 * g;
        float vi = b2 * v[i] + c2 * g * g;
        float p = master[i] * keep - step * (mi / (sqrtf(vi) * root + eps));

        m[i] = mi;
        v[i] = vi;
        master[i] = p;
        if (narrow)
            w[i] = bn_float_to_bf16(p);
    }
}

void BN_CPU(adamw)(enum bn_dtype t, const struct bn_adamw *a, void *w,
                   float *master, float *m, float *v, const float *grad,
                   const struct bn_adamw_now *now, size_t n)
{
    if (isnan(now->scale))
        return;
    bool narrow = w != NULL && t == BN_BF16;
    bool copy = w != NULL && t == BN_F32 && w != master;
#pragma omp parallel for schedule(static) if (n > BLOCK)
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t k = n - at < BLOCK ? n - at : BLOCK;

        if (narrow)
            piece(true, a, now, (uint16_t *)w + at, master + at, m + at, v + at,
                  grad + at, k);
        else
            piece(false, a, now, NULL, master + at, m + at, v + at, grad + at,
                  k);
        if (copy)
            memcpy((float *)w + at, master + at, k * sizeof(float));
    }
}
