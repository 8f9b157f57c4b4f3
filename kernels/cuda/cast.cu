#include "kernels/cast.h"
#include "kernels/cuda/cu.h"

enum { THREADS = 256, V = 8 };

template <class D, class S, int N>
static __global__ void cast(D *dst, const S *src, size_t n)
{
    size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * N;

    if (i + N <= n) {
        float a[N];

        load(a, src + i);
        store(dst + i, a);
    } else {
        for (; i < n; i++)
            from_float(dst[i], to_float(src[i]));
    }
}

template <class D, class S>
static int launch(void *dst, const void *src, size_t n, void *stream)
{
    D *d = (D *)dst;
    const S *s = (const S *)src;

    if (vector_rows<D>(dst, 0) && vector_rows<S>(src, 0)) {
        unsigned blocks = blocks_for(n, THREADS * V);

        BN_LAUNCH((cast<D, S, V>), blocks, THREADS, 0, stream, d, s, n);
    } else {
        unsigned blocks = blocks_for(n, THREADS);

        BN_LAUNCH((cast<D, S, 1>), blocks, THREADS, 0, stream, d, s, n);
    }
    return status();
}

template <class S>
static int to_type(void *dst, enum bn_dtype type, const void *src, size_t n,
                   void *stream)
{
    switch (type) {
    case BN_F32:
        return launch<float, S>(dst, src, n, stream);
    case BN_BF16:
        return launch<bf16, S>(dst, src, n, stream);
    case BN_F16:
        return launch<f16, S>(dst, src, n, stream);
    default:
        return BN_INVALID;
    }
}

int bn_cast_cuda_there(void)
{
    return BN_LOOK_FOR((cast<bf16, float, 1>));
}

int bn_cast_cuda(void *dst, enum bn_dtype dst_type, const void *src,
                 enum bn_dtype src_type, size_t n, void *stream)
{
    if (dst_type == src_type) {
        if (n == 0 || dst == src)
            return 0;
        return cudaMemcpyAsync(dst, src, n * bn_dtype_size(src_type),
                               cudaMemcpyDeviceToDevice,
                               (cudaStream_t)stream);
    }
    if (n == 0)
        return 0;
    switch (src_type) {
    case BN_F32:
        return to_type<float>(dst, dst_type, src, n, stream);
    case BN_BF16:
        return to_type<bf16>(dst, dst_type, src, n, stream);
    case BN_F16:
        return to_type<f16>(dst, dst_type, src, n, stream);
    default:
        return BN_INVALID;
    }
}
