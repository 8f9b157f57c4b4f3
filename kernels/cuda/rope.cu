#include "kernels/rope.h"
#include "kernels/cuda/cu.h"

/* One block a row; a thread turns V pairs of a head. */
template <class T, int V>
static __global__ void rope(T *x, int ldx, const float *cosine,
                            const float *sine, const int32_t *pos, int heads,
                            int h, float sign)
{
    T *row = x + (size_t)blockIdx.x * ldx;
    size_t at = (size_t)pos[blockIdx.x] * h;

    for (int k = (int)threadIdx.x * V; k < heads * h;
         k += (int)blockDim.x * V) {
        int head = k / h, j = k % h;
        T *p = row + (size_t)head * 2 * h + j;
        float a[V], b[V], c[V], s[V];

        load(a, p);
        load(b, p + h);
        load(c, cosine + at + j);
        load(s, sine + at + j);
        BN_UNROLL
        for (int i = 0; i < V; i++) {
            float u = a[i], v = b[i], w = s[i] * sign;

            a[i] = u * c[i] - v * w;
            b[i] = v * c[i] + u * w;
        }
        store(p, a);
        store(p + h, b);
    }
}

int bn_rope_cuda(enum bn_dtype t, void *x, int ldx, const float *cosine,
                 const float *sine, const int32_t *pos, int heads, int hd,
                 int n, bool inverse, void *stream)
{
    if (n == 0)
        return 0;
    return with_type(t, [&](auto e) {
        using T = decltype(e);
        constexpr int V = 16 / sizeof(T);
        T *p = (T *)x;
        int h = hd / 2;
        float sign = inverse ? -1.0f : 1.0f;

        /* The tables are float: rows of h of them must be aligned too. */
        if (vector_rows<T>(x, ldx) && h % V == 0
            && vector_rows<float>(cosine, h) && vector_rows<float>(sine, h)) {
            unsigned threads = threads_for(heads * h / V, 512);

            BN_LAUNCH((rope<T, V>), (unsigned)n, threads, 0, stream, p, ldx,
                      cosine, sine, pos, heads, h, sign);
        } else {
            unsigned threads = threads_for(heads * h, 512);

            BN_LAUNCH((rope<T, 1>), (unsigned)n, threads, 0, stream, p, ldx,
                      cosine, sine, pos, heads, h, sign);
        }
        return status();
    });
}
