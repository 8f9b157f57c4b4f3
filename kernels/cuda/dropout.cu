#include "kernels/dropout.h"
#include "kernels/cuda/width.h"

enum { THREADS = 256 };

/* V neighbours of one row a thread; cols is a multiple of V. */
template <class T, int V>
static __global__ void dropout(T *y, const T *x, struct bn_dropout p, bool acc,
                               int cols, size_t n)
{
    size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V;
    float a[V], b[V];

    if (i >= n)
        return;
    size_t row = i / (size_t)cols;
    uint32_t col = (uint32_t)(i - row * (size_t)cols) + (uint32_t)p.col0;
    uint32_t k0 = 0, k1 = 0;

    if (p.below != 0) {
        k0 = p.key[2 * row] ^ p.salt[0];
        k1 = p.key[2 * row + 1] ^ p.salt[1];
    }
    BN_UNROLL
    for (int j = 0; j < V; j++)
        a[j] = 0;
    if (acc)
        load(a, y + i);
    load(b, x + i);
    BN_UNROLL
    for (int j = 0; j < V; j++) {
        uint32_t h;

        BN_DROPOUT_BITS(h, k0, k1, col + (uint32_t)j);
        if (h >= p.below)
            a[j] += p.scale * b[j];
    }
    store(y + i, a);
}

int bn_dropout_cuda(enum bn_dtype t, void *y, const void *x,
                    const struct bn_dropout *p, bool acc, int cols, int n,
                    void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        T *py = (T *)y;
        const T *px = (const T *)x;
        struct bn_dropout d = *p;
        size_t all = (size_t)n * cols;
        bool wide = vector_rows<T>(y, cols) && vector_rows<T>(x, cols);

        return with_width<T>(wide, [&](auto v) {
            constexpr int V = decltype(v)::value;
            unsigned blocks = blocks_for(all, THREADS * V);

            BN_LAUNCH((dropout<T, V>), blocks, THREADS, 0, stream, py, px, d,
                      acc, cols, all);
        });
    });
}
