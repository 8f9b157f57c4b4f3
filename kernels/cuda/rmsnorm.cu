#include "kernels/rmsnorm.h"
#include "kernels/cuda/cu.h"
#include "kernels/cuda/parts.h"
#include "kernels/cuda/ptx.h"

#ifdef BN_MUTANT_ROW
enum { PAST = 1 };
#else
enum { PAST = 0 };
#endif

/* Static: what block_sum takes. */
enum { SUMS = WARP * sizeof(float) };

/* One block a row, which is kept in shared memory as it was rounded, so that
 * it is read once; each thread comes back to its own columns only. Rows too
 * long to keep are read again from xo. */
template <class T, int V>
static __global__ void rmsnorm(T *y, float *rstd, T *xo, const T *x,
                               const T *delta, const T *w, float eps,
                               int cols, bool keep)
{
    BN_SHARED_DYN(T, kept);
    size_t at = (size_t)blockIdx.x * cols;
    const T *again = keep ? kept : delta != NULL ? xo + at : x + at;
    float ss = 0;

    for (int c = (int)threadIdx.x * V; c < cols + PAST;
         c += (int)blockDim.x * V) {
        float a[V];

        load(a, x + at + c);
        if (delta != NULL) {
            float d[V];

            load(d, delta + at + c);
            BN_UNROLL
            for (int j = 0; j < V; j++)
                a[j] = rounded<T>(a[j] + d[j]);
            store(xo + at + c, a);
        }
        if (keep)
            store(kept + c, a);
        BN_UNROLL
        for (int j = 0; j < V; j++)
            ss += a[j] * a[j];
    }
    float r = 1.0f / sqrtf(block_sum(ss) / (float)cols + eps);
    if (threadIdx.x == 0)
        rstd[blockIdx.x] = r;
    for (int c = (int)threadIdx.x * V; c < cols; c += (int)blockDim.x * V) {
        float a[V], b[V];

        load(a, again + c);
        load(b, w + c);
        BN_UNROLL
        for (int j = 0; j < V; j++)
            a[j] *= r * b[j];
        store(y + at + c, a);
    }
}

template <class T, int V>
static int launch(void *y, float *rstd, void *xo, const void *x,
                  const void *delta, const void *w, float eps, int cols,
                  int n, void *stream)
{
    size_t row = (size_t)cols * sizeof(T);
    bool keep = row + SUMS <= BN_SHARED_PLAIN;
    unsigned threads = threads_for((cols + V - 1) / V, 512);
    T *py = (T *)y, *pxo = (T *)xo;
    const T *px = (const T *)x, *pd = (const T *)delta, *pw = (const T *)w;

    BN_LAUNCH((rmsnorm<T, V>), (unsigned)n, threads, keep ? row : 0, stream,
              py, rstd, pxo, px, pd, pw, eps, cols, keep);
    return status();
}

int bn_rmsnorm_cuda(enum bn_dtype t, void *y, float *rstd, void *xo,
                    const void *x, const void *delta, const void *w,
                    float eps, int cols, int n, void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        constexpr int V = 16 / sizeof(T);
        bool wide = vector_rows<T>(y, cols) && vector_rows<T>(x, cols)
                    && vector_rows<T>(w, cols) && vector_rows<T>(xo, cols)
                    && vector_rows<T>(delta, cols);

        return (wide ? launch<T, V> : launch<T, 1>)(
            y, rstd, xo, x, delta, w, eps, cols, n, stream);
    });
}

/* Copy this thread's columns of row i into a stage of shared memory. */
template <class T, int V>
static __device__ __forceinline__ void fetch(T *sx, T *sdy, const T *x,
                                             const T *dy, size_t at, int cols)
{
    for (int c = (int)threadIdx.x * V; c < cols; c += (int)blockDim.x * V) {
        if (V * sizeof(T) == 16) {
            copy_async16(sx + c, x + at + c, true);
            copy_async16(sdy + c, dy + at + c, true);
        } else {
            sx[c] = x[at + c];
            sdy[c] = dy[at + c];
        }
    }
}

/* One block a group of rows. Rows to come are under way to shared memory
 * (STAGES - 1 of them) while one is worked on; a thread reads only what it
 * fetched itself. The group's part of dw is summed in shared memory. */
template <class T, int V, int STAGES>
static __global__ void rmsnorm_grad(T *dx, float *work, const T *dy,
                                    const T *dres, const T *x, const T *w,
                                    const float *rstd, int cols, int n)
{
    BN_SHARED_DYN(float, dw);
    int padded = (cols + 7) / 8 * 8;
    T *stage = reinterpret_cast<T *>(dw + padded);
    int begin = part_begin((int)blockIdx.x, (int)gridDim.x, n);
    int end = part_begin((int)blockIdx.x + 1, (int)gridDim.x, n);

    for (int c = (int)threadIdx.x * V; c < cols; c += (int)blockDim.x * V)
        for (int j = 0; j < V; j++)
            dw[c + j] = 0;
    for (int i = begin; i < begin + STAGES - 1; i++) {
        T *s = stage + (size_t)(i % STAGES) * 2 * padded;

        if (i < end)
            fetch<T, V>(s, s + padded, x, dy, (size_t)i * cols, cols);
        copy_async_commit();
    }
    for (int i = begin; i < end; i++) {
        const T *sx = stage + (size_t)(i % STAGES) * 2 * padded;
        const T *sdy = sx + padded;
        size_t at = (size_t)i * cols;
        int ahead = i + STAGES - 1;
        float r = rstd[i], s = 0;

        if (ahead < end) {
            T *to = stage + (size_t)(ahead % STAGES) * 2 * padded;

            fetch<T, V>(to, to + padded, x, dy, (size_t)ahead * cols, cols);
        }
        copy_async_commit();
        copy_async_wait<STAGES - 1>();
        for (int c = (int)threadIdx.x * V; c < cols;
             c += (int)blockDim.x * V) {
            float a[V], g[V], b[V];

            load(a, sx + c);
            load(g, sdy + c);
            load(b, w + c);
            BN_UNROLL
            for (int j = 0; j < V; j++) {
                s += g[j] * b[j] * a[j];
                dw[c + j] += g[j] * a[j] * r;
            }
        }
        float k = block_sum(s) * r * r * r / (float)cols;
        for (int c = (int)threadIdx.x * V; c < cols;
             c += (int)blockDim.x * V) {
            float a[V], g[V], b[V], d[V];

            load(a, sx + c);
            load(g, sdy + c);
            load(b, w + c);
            BN_UNROLL
            for (int j = 0; j < V; j++)
                d[j] = 0;
            if (dres != NULL)
                load(d, dres + at + c);
            BN_UNROLL
            for (int j = 0; j < V; j++)
                d[j] += r * g[j] * b[j] - a[j] * k;
            store(dx + at + c, d);
        }
    }
    for (int c = (int)threadIdx.x * V; c < cols; c += (int)blockDim.x * V)
        for (int j = 0; j < V; j++)
            work[(size_t)blockIdx.x * cols + c + j] = dw[c + j];
}

template <class T, int V, int STAGES>
static int launch_grad(T *dx, float *dw, const T *dy, const T *dres,
                       const T *x, const T *w, const float *rstd, int cols,
                       int n, float *work, void *stream)
{
    size_t padded = (size_t)(cols + 7) / 8 * 8;
    size_t shared = padded * (4 + 2 * STAGES * sizeof(T));
    int parts = n < BN_NORM_PARTS ? n : BN_NORM_PARTS;
    unsigned threads = threads_for((cols + V - 1) / V, 512);
    int rc = BN_ALLOW_SHARED((rmsnorm_grad<T, V, STAGES>), shared);

    if (rc != 0)
        return rc;
    BN_LAUNCH((rmsnorm_grad<T, V, STAGES>), (unsigned)parts, threads, shared,
              stream, dx, work, dy, dres, x, w, rstd, cols, n);
    if (dw != NULL)
        launch_add_parts(dw, work, parts, cols, stream);
    return status();
}

int bn_rmsnorm_grad_cuda(enum bn_dtype t, void *dx, float *dw, const void *dy,
                         const void *dres, const void *x, const void *w,
                         const float *rstd, int cols, int n, float *work,
                         void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        constexpr int V = 16 / sizeof(T);
        bool wide = vector_rows<T>(dx, cols) && vector_rows<T>(dy, cols)
                    && vector_rows<T>(x, cols) && vector_rows<T>(w, cols)
                    && vector_rows<T>(dres, cols);
        /* As many rows under way as half of the memory has room for; the
         * longest rows have to do with all of it and none under way. */
        size_t row = ((size_t)cols + 8) * sizeof(T) * 2;
        size_t sums = ((size_t)cols + 8) * 4 + SUMS, most = shared_most();
        auto f = launch_grad<T, V, 1>;

        if (sums + row > most)
            return (int)BN_INVALID;
        if (sums + 4 * row <= most)
            f = wide ? launch_grad<T, V, 4> : launch_grad<T, 1, 4>;
        else
            f = wide ? launch_grad<T, V, 1> : launch_grad<T, 1, 1>;
        return f((T *)dx, dw, (const T *)dy, (const T *)dres, (const T *)x,
                 (const T *)w, rstd, cols, n, work, stream);
    });
}
