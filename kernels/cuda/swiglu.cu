#include "kernels/swiglu.h"
#include "kernels/cuda/width.h"

enum { THREADS = 256 };

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* Pack k of the [n, f] results: its row and column. */
template <int V>
static __device__ __forceinline__ bool place(size_t *row, int *col, int f,
                                             int n)
{
    size_t k = (size_t)blockIdx.x * THREADS + threadIdx.x;
    int per = f / V;

    *row = k / per;
    *col = (int)(k % per) * V;
    return *row < (size_t)n;
}

template <class T, int V>
static __global__ void swiglu(T *y, const T *gu, int f, int n)
{
    size_t i;
    int c;
    float g[V], u[V];

    if (!place<V>(&i, &c, f, n))
        return;
    load(g, gu + i * 2 * f + c);
    load(u, gu + i * 2 * f + f + c);
    BN_UNROLL
    for (int j = 0; j < V; j++)
        g[j] = g[j] * sigmoid(g[j]) * u[j];
    store(y + i * f + c, g);
}

template <class T, int V>
static __global__ void swiglu_grad(T *dgu, T *y, const T *dy, const T *gu,
                                   int f, int n)
{
    size_t i;
    int c;
    float g[V], u[V], d[V], r[V];

    if (!place<V>(&i, &c, f, n))
        return;
    load(g, gu + i * 2 * f + c);
    load(u, gu + i * 2 * f + f + c);
    load(d, dy + i * f + c);
    BN_UNROLL
    for (int j = 0; j < V; j++) {
        float s = sigmoid(g[j]), a = g[j] * s;

        r[j] = a * u[j];
        g[j] = d[j] * u[j] * s * (1.0f + g[j] * (1.0f - s));
        u[j] = d[j] * a;
    }
    store(dgu + i * 2 * f + c, g);
    store(dgu + i * 2 * f + f + c, u);
    if (y != NULL)
        store(y + i * f + c, r);
}

int bn_swiglu_cuda(enum bn_dtype t, void *y, const void *gu, int f, int n,
                   void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        T *py = (T *)y;
        const T *pgu = (const T *)gu;
        bool wide = vector_rows<T>(y, f) && vector_rows<T>(gu, f);

        return with_width<T>(wide, [&](auto v) {
            constexpr int V = decltype(v)::value;
            unsigned blocks = blocks_for((size_t)n * f, THREADS * V);

            BN_LAUNCH((swiglu<T, V>), blocks, THREADS, 0, stream, py, pgu, f,
                      n);
        });
    });
}

int bn_swiglu_grad_cuda(enum bn_dtype t, void *dgu, void *y, const void *dy,
                        const void *gu, int f, int n, void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        T *pdgu = (T *)dgu, *py = (T *)y;
        const T *pdy = (const T *)dy, *pgu = (const T *)gu;
        bool wide = vector_rows<T>(y, f) && vector_rows<T>(gu, f)
                    && vector_rows<T>(dy, f) && vector_rows<T>(dgu, f)
                    && vector_rows<T>(y, f);

        return with_width<T>(wide, [&](auto v) {
            constexpr int V = decltype(v)::value;
            unsigned blocks = blocks_for((size_t)n * f, THREADS * V);

            BN_LAUNCH((swiglu_grad<T, V>), blocks, THREADS, 0, stream, pdgu,
                      py, pdy, pgu, f, n);
        });
    });
}
