#include "config.h"
#include "kernels/dropout.h"
#include "kernels/ref/ref.h"

/* The same bits, written out. */
static uint32_t mix(uint32_t h)
{
    h ^= h >> 16;
    h *= 2246822507u;
    h ^= h >> 13;
    h *= 3266489909u;
    return h ^ h >> 16;
}

static bool stays(const struct bn_dropout *p, int row, int col)
{
    if (p->below == 0)
        return true;
    uint32_t k0 = p->key[2 * row] ^ p->salt[0];
    uint32_t k1 = p->key[2 * row + 1] ^ p->salt[1];
    uint32_t c = (uint32_t)(p->col0 + col);

    return mix(mix(c * 2654435761u + k0) + k1) >= p->below;
}

void bn_dropout_ref(enum bn_dtype t, void *y, const void *x,
                    const struct bn_dropout *p, bool acc, int cols, int n)
{
    for (int i = 0; i < n; i++)
        for (int c = 0; c < cols; c++) {
            size_t k = (size_t)i * cols + c;
            double v = acc ? ref_get(t, y, k) : 0;

            if (stays(p, i, c))
                v += (double)p->scale * ref_get(t, x, k);
            ref_put(t, y, k, v);
        }
}
