/* What every kernel uses: CUDA's language (or its emulation), storage types
 * against float, 16-byte accesses, sums over warps and blocks, launches.
 */
#ifndef BN_KERNELS_CUDA_CU_H
#define BN_KERNELS_CUDA_CU_H

#include <stddef.h>
#include <stdint.h>

#ifdef BN_EMU
#include "kernels/emu/lang.h"
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif

#include "base/dtype.h"

/* BN_ACCESS(p, n, write): n bytes are read or written at once; the emulation
 * looks at how they are aligned, and counts them. */
#ifdef BN_EMU
#define BN_ACCESS(p, n, write) \
    ((uintptr_t)(p) % (n) != 0 ? bn_emu_misaligned(p, n) \
     : bn_emu_watching > 0     ? bn_emu_access(p, n, write) \
                               : (void)0)
#else
#define BN_ACCESS(p, n, write) ((void)0)
#endif
/* BN_SHARED(T, name, n): an array of n T shared by the block, undefined at
 * first. BN_SHARED_DYN(T, name): the dynamic one, aligned to 16.
 * BN_LAUNCH(kernel, grid, block, shared, stream, arguments...): arguments are
 * plain variables (the emulation copies them, and evaluates them once a
 * thread); a kernel with template arguments goes in parentheses.
 * BN_ALLOW_SHARED(kernel, bytes): before a launch with more than 48 KiB.
 * BN_LOOK_FOR(kernel): 0 if this program has it for the device in use. */
#ifdef BN_EMU
#define BN_SHARED(T, name, n) \
    T *const name = (T *)bn_emu_shared(__FILE__, __LINE__, sizeof(T) * (n))
#define BN_SHARED_DYN(T, name) T *const name = (T *)bn_emu_shared_dynamic()
#define BN_LAUNCH(kernel, grid, block, shared, stream, ...) \
    (bn_emu_check_args(#kernel, __VA_ARGS__), \
     bn_emu_start(#kernel, grid, block, shared, (cudaStream_t)(stream), \
                  [=] { kernel(__VA_ARGS__); }))
#define BN_ALLOW_SHARED(kernel, bytes) \
    (cudaError_t) bn_emu_allow_shared(#kernel, bytes)
#define BN_LOOK_FOR(kernel) bn_emu_look_for()
#define BN_UNROLL
#else
#define BN_SHARED(T, name, n) __shared__ __align__(16) T name[n]
#define BN_SHARED_DYN(T, name) \
    extern __shared__ __align__(16) unsigned char bn_shared_bytes[]; \
    T *const name = reinterpret_cast<T *>(bn_shared_bytes)
#define BN_LAUNCH(kernel, grid, block, shared, stream, ...) \
    kernel<<<grid, block, shared, (cudaStream_t)(stream)>>>(__VA_ARGS__)
#define BN_ALLOW_SHARED(kernel, bytes) \
    cudaFuncSetAttribute(kernel, \
                         cudaFuncAttributeMaxDynamicSharedMemorySize, \
                         (int)(bytes))
#define BN_LOOK_FOR(kernel) bn_look_for((const void *)(kernel))
#define BN_UNROLL _Pragma("unroll")
#endif

typedef __nv_bfloat16 bf16;
typedef __half f16;

/* --- storage ------------------------------------------------------------- */

static __device__ __forceinline__ float to_float(float x)
{
    return x;
}
static __device__ __forceinline__ float to_float(bf16 x)
{
    return __bfloat162float(x);
}
static __device__ __forceinline__ float to_float(f16 x)
{
    return __half2float(x);
}
static __device__ __forceinline__ void from_float(float &d, float x)
{
    d = x;
}
static __device__ __forceinline__ void from_float(bf16 &d, float x)
{
    d = __float2bfloat16_rn(x);
}
static __device__ __forceinline__ void from_float(f16 &d, float x)
{
    d = __float2half_rn(x);
}
/* x as it would be read back after it was stored as T. */
template <class T> static __device__ __forceinline__ float rounded(float x)
{
    T t;

    from_float(t, x);
    return to_float(t);
}

/* V elements, by accesses of 16 bytes or of all of them, whichever is less;
 * p is aligned to that. */
template <class T, int N> struct __align__(sizeof(T) * N) pack {
    T e[N];
};
template <class T, int V> struct access {
    static constexpr int N = V * sizeof(T) > 16 ? 16 / sizeof(T) : V;
};
template <class T, int V>
static __device__ __forceinline__ void load(float (&f)[V], const T *p)
{
    constexpr int N = access<T, V>::N;

    BN_UNROLL
    for (int i = 0; i < V; i += N) {
        BN_ACCESS(p + i, sizeof(pack<T, N>), false);
        const pack<T, N> a = *reinterpret_cast<const pack<T, N> *>(p + i);

        BN_UNROLL
        for (int j = 0; j < N; j++)
            f[i + j] = to_float(a.e[j]);
    }
}
template <class T, int V>
static __device__ __forceinline__ void store(T *p, const float (&f)[V])
{
    constexpr int N = access<T, V>::N;

    BN_UNROLL
    for (int i = 0; i < V; i += N) {
        pack<T, N> a;

        BN_UNROLL
        for (int j = 0; j < N; j++)
            from_float(a.e[j], f[i + j]);
        BN_ACCESS(p + i, sizeof(a), true);
        *reinterpret_cast<pack<T, N> *>(p + i) = a;
    }
}

/* *d = *s, moved as it is. */
template <class P>
static __device__ __forceinline__ void move(P *d, const P *s)
{
    BN_ACCESS(s, sizeof(P), false);
    BN_ACCESS(d, sizeof(P), true);
    *d = *s;
}

/* --- sums ---------------------------------------------------------------- */

enum { WARP = 32 };
#define BN_ALL 0xffffffffu

/* Over a warp; every lane gets it, always added in the same order. */
template <class T> static __device__ __forceinline__ T warp_sum(T v)
{
    BN_UNROLL
    for (int o = WARP / 2; o > 0; o /= 2)
        v += __shfl_xor_sync(BN_ALL, v, o);
    return v;
}
static __device__ __forceinline__ float warp_max(float v)
{
    BN_UNROLL
    for (int o = WARP / 2; o > 0; o /= 2)
        v = fmaxf(v, __shfl_xor_sync(BN_ALL, v, o));
    return v;
}
/* Over a block of one dimension; contains barriers. */
template <class T> static __device__ __forceinline__ T block_sum(T v)
{
    BN_SHARED(T, part, WARP);
    int warps = (int)blockDim.x / WARP;

    v = warp_sum(v);
    __syncthreads(); /* part may still be read by those behind */
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = v;
#ifndef BN_MUTANT_BARRIER
    __syncthreads();
#endif
    v = part[0];
    for (int i = 1; i < warps; i++)
        v += part[i];
    return v;
}

/* --- launchers ----------------------------------------------------------- */

/* What a block may have without asking, static arrays too; what is asked for
 * at most (the smallest of sm_80, sm_90 and sm_100); what there is at least
 * (sm_86, sm_89, sm_120). */
enum {
    BN_SHARED_PLAIN = 48 << 10,
    BN_SHARED_MAX = 163 << 10,
    BN_SHARED_LEAST = 99 << 10,
};
enum { BN_INVALID = cudaErrorInvalidValue };

/* What a block may ask for on the device in use. */
static inline size_t shared_most(void)
{
    int device = 0, bytes = 0;

    if (cudaGetDevice(&device) != cudaSuccess
        || cudaDeviceGetAttribute(&bytes,
                                  cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                  device) != cudaSuccess)
        return BN_SHARED_LEAST;
    return bytes < BN_SHARED_MAX ? (size_t)bytes : (size_t)BN_SHARED_MAX;
}
#ifndef BN_EMU
static inline int bn_look_for(const void *kernel)
{
    cudaFuncAttributes a;

    return (int)cudaFuncGetAttributes(&a, kernel);
}
#endif

/* f(float()) or f(bf16()) by the name of the type. */
template <class F> static inline int with_type(enum bn_dtype t, F f)
{
    if (t == BN_F32)
        return f(float());
    if (t == BN_BF16)
        return f(bf16());
    return BN_INVALID;
}
/* All of the rows that begin at p, p + ld, ... can be read by 16 bytes. */
template <class T> static inline bool vector_rows(const void *p, size_t ld)
{
    return (uintptr_t)p % 16 == 0 && ld * sizeof(T) % 16 == 0;
}

/* Threads of a block for rows of 'items' pieces of work. */
static inline unsigned threads_for(int items, int most)
{
    int n = (items + WARP - 1) / WARP * WARP;

    return (unsigned)(n < most ? n : most);
}
static inline unsigned blocks_for(size_t items, size_t each)
{
    return (unsigned)((items + each - 1) / each);
}
static inline int status(void)
{
    return (int)cudaGetLastError();
}

#endif
