#include "kernels/head.h"
#include "kernels/cuda/cu.h"

enum { THREADS = 512, V = 4 };

/* A sum of exponentials relative to the largest exponent so far. */
struct partial {
    float max, sum, total;
};

static __device__ __forceinline__ float least()
{
    return __int_as_float((int)0xff800000u);
}

/* Both in one: those of the smaller maximum are rescaled. A maximum of -inf
 * has no terms yet (or only terms that are zero). */
static __device__ __forceinline__ partial merge(partial a, partial b)
{
    float m = fmaxf(a.max, b.max);
    float ka = a.max == m ? 1.0f : expf(a.max - m);
    float kb = b.max == m ? 1.0f : expf(b.max - m);

    return {m, a.sum * ka + b.sum * kb, a.total + b.total};
}

template <int N>
static __device__ __forceinline__ void take(partial *p, const float *x)
{
    float a[N], m = p->max;

    load(a, x);
    BN_UNROLL
    for (int j = 0; j < N; j++)
        m = fmaxf(m, a[j]);
    if (m > p->max) {
        p->sum *= p->max == least() ? 0.0f : expf(p->max - m);
        p->max = m;
    }
    BN_UNROLL
    for (int j = 0; j < N; j++) {
        p->total += a[j];
        /* While all are -inf there is nothing to subtract from. */
        if (m != least() || isnan(a[j]))
            p->sum += expf(a[j] - m);
    }
}

static __device__ __forceinline__ partial merge_warp(partial p)
{
    BN_UNROLL
    for (int o = WARP / 2; o > 0; o /= 2) {
        partial q;

        q.max = __shfl_xor_sync(BN_ALL, p.max, o);
        q.sum = __shfl_xor_sync(BN_ALL, p.sum, o);
        q.total = __shfl_xor_sync(BN_ALL, p.total, o);
        /* In one order on both sides, so that all lanes agree. */
        p = (threadIdx.x & o) == 0 ? merge(p, q) : merge(q, p);
    }
    return p;
}

template <int N>
static __global__ void head_stats(bn_head_rows h, const float *logits,
                                  float *max_, float *sum, float *total,
                                  float *target_logit)
{
    BN_SHARED(partial, part, WARP);
    int r = (int)blockIdx.x, warps = (int)blockDim.x / WARP;
    const float *x = logits + (size_t)r * h.ld;
    partial p = {least(), 0, 0};

    for (int c = (int)threadIdx.x * N; c < h.cols; c += (int)blockDim.x * N)
        take<N>(&p, x + c);
    p = merge_warp(p);
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = p;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < warps; i++)
            p = merge(p, part[i]);
        max_[r] = p.max;
        sum[r] = p.sum;
        if (total != NULL)
            total[r] = p.total;
    }
    for (int e = h.row_ptr[r] + (int)threadIdx.x; e < h.row_ptr[r + 1];
         e += (int)blockDim.x) {
        int v = h.target[e];

        target_logit[e] = v >= 0 && v < h.cols ? x[v] : 0.0f;
    }
}

int bn_head_stats_cuda(const struct bn_head_rows *h, const float *logits,
                       float *max, float *sum, float *total,
                       float *target_logit, void *stream)
{
    struct bn_head_rows rows = *h;

    if (h->rows == 0)
        return 0;
    if (vector_rows<float>(logits, h->ld) && h->cols % V == 0) {
        unsigned threads = threads_for(h->cols / V, THREADS);

        BN_LAUNCH(head_stats<V>, (unsigned)h->rows, threads, 0, stream, rows,
                  logits, max, sum, total, target_logit);
    } else {
        unsigned threads = threads_for(h->cols, THREADS);

        BN_LAUNCH(head_stats<1>, (unsigned)h->rows, threads, 0, stream, rows,
                  logits, max, sum, total, target_logit);
    }
    return status();
}

/* The gradient at column v of a row with all its targets, of which x is the
 * logit; for the few columns that are targets. */
static __device__ float at_target(const bn_head_rows &h, int begin, int end,
                                  int v, float x, float lse, const float *g,
                                  float all, float smoothing)
{
    float hit = 0;

    for (int e = begin; e < end; e++)
        if (h.target[e] == v)
            hit += g[e];
    return hit * (1.0f - smoothing) + all * (smoothing / (float)h.vocab)
           - expf(x - lse) * all;
}

/* One block a row. dlogits may lie over the row of logits with elements of
 * half the size: the threads read a stretch of columns, wait for each other
 * and only then write, and what they write lies before what they read next.
 * The logits at targets are picked up first, since their gradient is written
 * last. */
template <class T, int N>
static __global__ void head_grad(bn_head_rows h, T *dlogits, int ld_out,
                                 const float *logits, const float *lse_,
                                 const float *g, float smoothing)
{
    int r = (int)blockIdx.x, begin = h.row_ptr[r], end = h.row_ptr[r + 1];
    int mine = begin + (int)threadIdx.x, v = -1;
    bool few = end - begin <= (int)blockDim.x;
    const float *x = logits + (size_t)r * h.ld;
    T *d = dlogits + (size_t)r * ld_out;
    float lse = lse_[r], all = 0, hit = 0;

    for (int e = begin; e < end; e++)
        all += g[e];
    if (few && mine < end)
        v = h.target[mine];
    if (v >= 0 && v < h.cols)
        hit = x[v];
    float even = all * (smoothing / (float)h.vocab);
    for (int c0 = 0; c0 < h.cols; c0 += (int)blockDim.x * N) {
        int c = c0 + (int)threadIdx.x * N;
        float a[N];

        if (c < h.cols) {
            load(a, x + c);
            BN_UNROLL
            for (int j = 0; j < N; j++)
                if (few)
                    a[j] = all != 0 ? even - expf(a[j] - lse) * all : 0.0f;
                else
                    a[j] = at_target(h, begin, end, c + j, a[j], lse, g, all,
                                     smoothing);
        }
        __syncthreads();
        if (c < h.cols)
            store(d + c, a);
    }
    __syncthreads();
    if (v >= 0 && v < h.cols)
        from_float(d[v], at_target(h, begin, end, v, hit, lse, g, all,
                                   smoothing));
}

template <class T, int N>
static int launch_grad(const struct bn_head_rows *h, void *dlogits,
                       int ld_out, const float *logits, const float *lse,
                       const float *g, float smoothing, void *stream)
{
    struct bn_head_rows rows = *h;
    unsigned threads = threads_for((h->cols + N - 1) / N, THREADS);
    T *d = (T *)dlogits;

    BN_LAUNCH((head_grad<T, N>), (unsigned)h->rows, threads, 0, stream, rows,
              d, ld_out, logits, lse, g, smoothing);
    return status();
}

int bn_head_grad_cuda(enum bn_dtype t, const struct bn_head_rows *h,
                      void *dlogits, int ld_out, const float *logits,
                      const float *lse, const float *g, float smoothing,
                      void *stream)
{
    if (h->rows == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        constexpr int N = 16 / sizeof(T);
        bool wide = vector_rows<float>(logits, h->ld)
                    && vector_rows<T>(dlogits, ld_out) && h->cols % N == 0;

        return (wide ? launch_grad<T, N> : launch_grad<T, 1>)(
            h, dlogits, ld_out, logits, lse, g, smoothing, stream);
    });
}
