#include "kernels/embed.h"
#include "kernels/cuda/width.h"

enum { THREADS = 128 };

template <class T, int V>
static __global__ void embed(T *y, const T *table, const int32_t *ids,
                             int first, int count, int cols)
{
    size_t at = (size_t)blockIdx.x * cols;
    int id = ids[blockIdx.x] - first;
    bool ours = id >= 0 && id < count;

    for (int c = (int)threadIdx.x * V; c < cols; c += THREADS * V) {
        float a[V];

        BN_UNROLL
        for (int j = 0; j < V; j++)
            a[j] = 0;
        if (ours)
            load(a, table + (size_t)id * cols + c);
        store(y + at + c, a);
    }
}

int bn_embed_cuda(enum bn_dtype t, void *y, const void *table,
                  const int32_t *ids, int first, int count, int cols, int n,
                  void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        T *py = (T *)y;
        const T *pt = (const T *)table;
        bool wide = vector_rows<T>(y, cols) && vector_rows<T>(table, cols);

        return with_width<T>(wide, [&](auto v) {
            constexpr int V = decltype(v)::value;

            BN_LAUNCH((embed<T, V>), (unsigned)n, THREADS, 0, stream, py, pt,
                      ids, first, count, cols);
        });
    });
}

/* One block for token i and THREADS * V of the columns. Only the first token
 * with an id works: it adds the rows of all tokens with that id, in order. So
 * no row of the table has two writers, and the order is that of i. */
template <class T, int V>
static __global__ void embed_grad(float *dtable, const T *dy,
                                  const int32_t *ids, int first, int count,
                                  int cols, int n)
{
    BN_SHARED(uint32_t, same, THREADS / WARP);
    int me = (int)blockIdx.x, id = ids[me];
    int c = ((int)blockIdx.y * THREADS + (int)threadIdx.x) * V;
    bool seen = id < first || id - first >= count;
    float sum[V] = {};

    for (int j = (int)threadIdx.x; j < me && !seen; j += THREADS)
        seen = ids[j] == id;
    if (__syncthreads_or(seen))
        return;
    float *row = dtable + (size_t)(id - first) * cols;
    if (c < cols)
        load(sum, row + c);
    for (int j = me; j < n; j += THREADS) {
        int k = j + (int)threadIdx.x;
        bool is = k < n && ids[k] == id;

        if (!__syncthreads_or(is))
            continue;
        uint32_t bits = __ballot_sync(BN_ALL, is);
        if (threadIdx.x % WARP == 0)
            same[threadIdx.x / WARP] = bits;
        __syncthreads();
        for (int w = 0; w < THREADS / WARP && c < cols; w++)
            for (uint32_t b = same[w]; b != 0; b &= b - 1) {
                int i = j + w * WARP + __ffs((int)b) - 1;
                float d[V];

                load(d, dy + (size_t)i * cols + c);
                BN_UNROLL
                for (int v = 0; v < V; v++)
                    sum[v] += d[v];
            }
    }
    if (c < cols)
        store(row + c, sum);
}

int bn_embed_grad_cuda(enum bn_dtype t, float *dtable, const void *dy,
                       const int32_t *ids, int first, int count, int cols,
                       int n, void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        const T *pdy = (const T *)dy;
        bool wide = vector_rows<T>(dy, cols)
                    && vector_rows<float>(dtable, cols);

        return with_width<T>(wide, [&](auto v) {
            constexpr int V = decltype(v)::value;
            dim3 grid((unsigned)n, blocks_for((size_t)cols, THREADS * V));

            BN_LAUNCH((embed_grad<T, V>), grid, THREADS, 0, stream, dtable,
                      pdy, ids, first, count, cols, n);
        });
    });
}
