#include "config.h"
#include "kernels/dropout.h"
#include "kernels/cpu/cpu.h"

BN_CPU_DECLARE(dropout);

BN_INLINE void scale_row(enum bn_dtype t, void *y, const void *x, size_t at,
                         float scale, bool acc, int cols)
{
    if (acc) {
#pragma omp simd
        for (int c = 0; c < cols; c++)
            bn_put(t, y, at + c,
                   bn_get(t, y, at + c) + scale * bn_get(t, x, at + c));
    } else {
#pragma omp simd
        for (int c = 0; c < cols; c++)
            bn_put(t, y, at + c, scale * bn_get(t, x, at + c));
    }
}

BN_INLINE void drop_row(enum bn_dtype t, void *y, const void *x, size_t at,
                        const struct bn_dropout *p, uint32_t k0, uint32_t k1,
                        bool acc, int cols)
{
    uint32_t below = p->below, col0 = (uint32_t)p->col0;
    float scale = p->scale;

#pragma omp simd
    for (int c = 0; c < cols; c++) {
        uint32_t h;
        float old = acc ? bn_get(t, y, at + c) : 0;

        BN_DROPOUT_BITS(h, k0, k1, col0 + (uint32_t)c);
        float v = h < below ? 0 : scale * bn_get(t, x, at + c);
        bn_put(t, y, at + c, old + v);
    }
}

void BN_CPU(dropout)(enum bn_dtype t, void *y, const void *x,
                     const struct bn_dropout *p, bool acc, int cols, int n)
{
#pragma omp parallel for schedule(static) if ((size_t)n * cols > BN_CPU_SMALL)
    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * cols;

        if (p->below == 0) {
            BN_CPU_TYPED(t, scale_row(T, y, x, at, p->scale, acc, cols));
        } else {
            uint32_t k0 = p->key[2 * i] ^ p->salt[0];
            uint32_t k1 = p->key[2 * i + 1] ^ p->salt[1];

            if (acc)
                BN_CPU_TYPED(t, drop_row(T, y, x, at, p, k0, k1, true, cols));
            else
                BN_CPU_TYPED(t, drop_row(T, y, x, at, p, k0, k1, false, cols));
        }
    }
}
