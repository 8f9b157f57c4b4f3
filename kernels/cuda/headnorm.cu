#include "kernels/headnorm.h"
#include "kernels/cuda/cu.h"
#include "kernels/cuda/parts.h"

/* A lane keeps KEEP elements of a head in registers, so that each is read
 * once. */
enum { WARPS = 4, KEEP = 8, MOST = KEEP * WARP };

/* The column of a lane's pack k. */
template <int V> static __device__ __forceinline__ int column(int k)
{
    return (k * WARP + (int)threadIdx.x % WARP) * V;
}

/* One warp a head of a row. */
template <class T, int V>
static __global__ void headnorm(T *y, int ldy, float *rstd, const T *x,
                                int ldx, const T *w, float eps, int heads,
                                int hd, int n)
{
    size_t k = (size_t)blockIdx.x * WARPS + threadIdx.x / WARP;
    int lane = (int)threadIdx.x % WARP, head = (int)(k % heads);
    size_t i = k / heads;
    float a[KEEP / V][V], ss = 0;

    if (i >= (size_t)n)
        return;
    x += i * ldx + (size_t)head * hd;
    y += i * ldy + (size_t)head * hd;
    BN_UNROLL
    for (int p = 0; p < KEEP / V; p++)
        if (column<V>(p) < hd) {
            load(a[p], x + column<V>(p));
            BN_UNROLL
            for (int j = 0; j < V; j++)
                ss += a[p][j] * a[p][j];
        }
    float r = 1.0f / sqrtf(warp_sum(ss) / (float)hd + eps);
    if (lane == 0)
        rstd[k] = r;
    BN_UNROLL
    for (int p = 0; p < KEEP / V; p++)
        if (column<V>(p) < hd) {
            float b[V];

            load(b, w + column<V>(p));
            BN_UNROLL
            for (int j = 0; j < V; j++)
                a[p][j] *= r * b[j];
            store(y + column<V>(p), a[p]);
        }
}

int bn_headnorm_cuda(enum bn_dtype t, void *y, int ldy, float *rstd,
                     const void *x, int ldx, const void *w, float eps,
                     int heads, int hd, int n, void *stream)
{
    if (n == 0)
        return 0;
    if (hd > MOST)
        return (int)BN_INVALID;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        constexpr int V = 16 / sizeof(T);
        T *py = (T *)y;
        const T *px = (const T *)x, *pw = (const T *)w;
        unsigned blocks = blocks_for((size_t)n * heads, WARPS);

        if (vector_rows<T>(y, ldy) && vector_rows<T>(x, ldx)
            && vector_rows<T>(w, hd))
            BN_LAUNCH((headnorm<T, V>), blocks, WARPS * WARP, 0, stream, py,
                      ldy, rstd, px, ldx, pw, eps, heads, hd, n);
        else
            BN_LAUNCH((headnorm<T, 1>), blocks, WARPS * WARP, 0, stream, py,
                      ldy, rstd, px, ldx, pw, eps, heads, hd, n);
        return status();
    });
}

/* One block a group of heads of rows, its warps taking them in turn; each
 * warp sums its dw in shared memory. */
template <class T, int V>
static __global__ void headnorm_grad(T *dx, int lddx, float *work,
                                     const T *dy, int lddy, const T *x,
                                     int ldx, const T *w, const float *rstd,
                                     int heads, int hd, int n)
{
    BN_SHARED_DYN(float, dw);
    int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    int begin = part_begin((int)blockIdx.x, (int)gridDim.x, n) * heads;
    int end = part_begin((int)blockIdx.x + 1, (int)gridDim.x, n) * heads;
    float *mine = dw + (size_t)warp * hd;

    for (int c = lane * V; c < hd; c += WARP * V)
        for (int j = 0; j < V; j++)
            mine[c + j] = 0;
    for (int k = begin + warp; k < end; k += WARPS) {
        size_t i = (size_t)(k / heads), at = (size_t)(k % heads) * hd;
        const T *px = x + i * ldx + at, *pdy = dy + i * lddy + at;
        T *pdx = dx + i * lddx + at;
        float r = rstd[k], s = 0, a[KEEP / V][V], g[KEEP / V][V];

        BN_UNROLL
        for (int p = 0; p < KEEP / V; p++)
            if (column<V>(p) < hd) {
                int c = column<V>(p);
                float b[V];

                load(a[p], px + c);
                load(g[p], pdy + c);
                load(b, w + c);
                BN_UNROLL
                for (int j = 0; j < V; j++) {
                    mine[c + j] += g[p][j] * a[p][j] * r;
                    g[p][j] *= b[j];
                    s += g[p][j] * a[p][j];
                }
            }
        s = warp_sum(s) * r * r * r / (float)hd;
        BN_UNROLL
        for (int p = 0; p < KEEP / V; p++)
            if (column<V>(p) < hd) {
                BN_UNROLL
                for (int j = 0; j < V; j++)
                    g[p][j] = r * g[p][j] - a[p][j] * s;
                store(pdx + column<V>(p), g[p]);
            }
    }
    __syncthreads();
    for (int c = (int)threadIdx.x; c < hd; c += (int)blockDim.x) {
        float s = dw[c];

        for (int k = 1; k < WARPS; k++)
            s += dw[(size_t)k * hd + c];
        work[(size_t)blockIdx.x * hd + c] = s;
    }
}

int bn_headnorm_grad_cuda(enum bn_dtype t, void *dx, int lddx, float *dw,
                          const void *dy, int lddy, const void *x, int ldx,
                          const void *w, const float *rstd, int heads, int hd,
                          int n, float *work, void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        constexpr int V = 16 / sizeof(T);
        T *pdx = (T *)dx;
        const T *pdy = (const T *)dy, *px = (const T *)x, *pw = (const T *)w;
        int parts = n < BN_NORM_PARTS ? n : BN_NORM_PARTS;
        size_t shared = (size_t)WARPS * hd * sizeof(float);

        if (hd > MOST)
            return (int)BN_INVALID;
        if (vector_rows<T>(dx, lddx) && vector_rows<T>(dy, lddy)
            && vector_rows<T>(x, ldx) && vector_rows<T>(w, hd))
            BN_LAUNCH((headnorm_grad<T, V>), (unsigned)parts, WARPS * WARP,
                      shared, stream, pdx, lddx, work, pdy, lddy, px, ldx, pw,
                      rstd, heads, hd, n);
        else
            BN_LAUNCH((headnorm_grad<T, 1>), (unsigned)parts, WARPS * WARP,
                      shared, stream, pdx, lddx, work, pdy, lddy, px, ldx, pw,
                      rstd, heads, hd, n);
        if (dw != NULL)
            launch_add_parts(dw, work, parts, hd, stream);
        return status();
    });
}
