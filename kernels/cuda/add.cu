#include "kernels/add.h"
#include "kernels/cuda/parts.h"
#include "kernels/cuda/width.h"

enum { THREADS = 256, COLS = 64 };

template <class T, int V>
static __global__ void add(T *y, const T *x, size_t n)
{
    size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V;

    if (i + V <= n) {
        float a[V], b[V];

        load(a, y + i);
        load(b, x + i);
        BN_UNROLL
        for (int j = 0; j < V; j++)
            a[j] += b[j];
        store(y + i, a);
    } else {
        for (; i < n; i++)
            from_float(y[i], to_float(y[i]) + to_float(x[i]));
    }
}

int bn_add_cuda(enum bn_dtype t, void *y, const void *x, size_t n,
                void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        T *py = (T *)y;
        const T *px = (const T *)x;
        bool wide = vector_rows<T>(y, 0) && vector_rows<T>(x, 0);

        return with_width<T>(wide, [&](auto v) {
            constexpr int V = decltype(v)::value;
            unsigned blocks = blocks_for(n, THREADS * V);

            BN_LAUNCH((add<T, V>), blocks, THREADS, 0, stream, py, px, n);
        });
    });
}

/* One block V * COLS columns of one group of rows. */
template <class T, int V>
static __global__ void bias_grad(float *work, const T *dy, int lddy, int cols,
                                 int n)
{
    int c = ((int)blockIdx.x * COLS + (int)threadIdx.x) * V;
    int begin = part_begin((int)blockIdx.y, (int)gridDim.y, n);
    int end = part_begin((int)blockIdx.y + 1, (int)gridDim.y, n);
    float sum[V];

    if (c >= cols)
        return;
    BN_UNROLL
    for (int j = 0; j < V; j++)
        sum[j] = 0;
    for (int i = begin; i < end; i++) {
        float d[V];

        load(d, dy + (size_t)i * lddy + c);
        BN_UNROLL
        for (int j = 0; j < V; j++)
            sum[j] += d[j];
    }
    BN_UNROLL
    for (int j = 0; j < V; j++)
        work[(size_t)blockIdx.y * cols + c + j] = sum[j];
}

int bn_bias_grad_cuda(enum bn_dtype t, float *db, const void *dy, int lddy,
                      int cols, int n, float *work, void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        const T *p = (const T *)dy;
        int parts = n < BN_BIAS_PARTS ? n : BN_BIAS_PARTS;
        bool wide = vector_rows<T>(dy, lddy) && cols * sizeof(T) % 16 == 0;

        int rc = with_width<T>(wide, [&](auto v) {
            constexpr int V = decltype(v)::value;
            dim3 grid(blocks_for((size_t)cols, COLS * V), (unsigned)parts);

            BN_LAUNCH((bias_grad<T, V>), grid, COLS, 0, stream, work, p, lddy,
                      cols, n);
        });
        if (rc != 0)
            return rc;
        launch_add_parts(db, work, parts, cols, stream);
        return status();
    });
}
