/* CUDA's language on the host, as far as kernels/cuda uses it. Included by
 * kernels/cuda/cu.h instead of CUDA's own headers when BN_EMU is defined.
 */
#ifndef BN_KERNELS_EMU_LANG_H
#define BN_KERNELS_EMU_LANG_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/emu/emu.h"
#include "kernels/emu/runtime.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

using std::isfinite;
using std::isnan;

struct dim3 : bn_emu_dim {
    dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
        : bn_emu_dim{a, b, c}
    {
    }
};

extern "C" struct bn_emu_dim bn_emu_thread, bn_emu_block, bn_emu_block_dim,
    bn_emu_grid_dim;
#define threadIdx bn_emu_thread
#define blockIdx bn_emu_block
#define blockDim bn_emu_block_dim
#define gridDim bn_emu_grid_dim

struct __align__(8) float2 {
    float x, y;
};
struct __align__(16) float4 {
    float x, y, z, w;
};
struct __align__(8) int2 {
    int x, y;
};
struct __align__(16) int4 {
    int x, y, z, w;
};
struct __align__(8) uint2 {
    unsigned x, y;
};
struct __align__(16) uint4 {
    unsigned x, y, z, w;
};
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return {x, y, z, w};
}

/* --- bfloat16: round to nearest even, NaN stays NaN ---------------------- */
struct __align__(2) __nv_bfloat16 {
    uint16_t bits;
};
struct __align__(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
static inline float __bfloat162float(__nv_bfloat16 h)
{
    uint32_t u = (uint32_t)h.bits << 16;
    float f;

    memcpy(&f, &u, 4);
    return f;
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return {0x7fff};
    return {(uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y)
{
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}
static inline float2 __bfloat1622float2(__nv_bfloat162 h)
{
    return {__bfloat162float(h.x), __bfloat162float(h.y)};
}

/* --- half: the same ------------------------------------------------------ */
struct __align__(2) __half {
    uint16_t bits;
};
static inline float __half2float(__half h)
{
    uint32_t s = (uint32_t)(h.bits & 0x8000u) << 16, e = h.bits >> 10 & 31;
    uint32_t m = h.bits & 0x3ffu, u;
    float f;

    if (e == 0) {
        f = (float)m * 0x1p-24f;
        return s != 0 ? -f : f;
    }
    u = s | (e == 31 ? 0x7f800000u : (e + 112) << 23) | m << 13;
    memcpy(&f, &u, 4);
    return f;
}
static inline __half __float2half_rn(float f)
{
    uint32_t u;

    memcpy(&u, &f, 4);
    uint16_t s = (uint16_t)(u >> 16 & 0x8000u);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u)
        return {0x7fff};
    if (u >= 0x477ff000u)
        return {(uint16_t)(s | 0x7c00u)};
    if (u < 0x38800000u) {
        float a;

        memcpy(&a, &u, 4);
        return {(uint16_t)(s | (unsigned)nearbyintf(a * 0x1p24f))};
    }
    u += 0xfffu + (u >> 13 & 1);
    return {(uint16_t)(s | ((u >> 13) - (112u << 10)))};
}

/* --- arithmetic ---------------------------------------------------------- */
template <class T> static inline T min(T a, T b)
{
    return b < a ? b : a;
}
template <class T> static inline T max(T a, T b)
{
    return a < b ? b : a;
}
static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
static inline float __frcp_rn(float x)
{
    return 1 / x;
}
static inline float __int_as_float(int i)
{
    float f;

    memcpy(&f, &i, 4);
    return f;
}
static inline unsigned __float_as_uint(float f)
{
    unsigned u;

    memcpy(&u, &f, 4);
    return u;
}
static inline float __uint_as_float(unsigned u)
{
    float f;

    memcpy(&f, &u, 4);
    return f;
}
static inline int __popc(unsigned u)
{
    return __builtin_popcount(u);
}
static inline int __ffs(int i)
{
    return __builtin_ffs(i);
}
template <class T> static inline T __ldg(const T *p)
{
    return *p;
}
template <class T> static inline T __ldcs(const T *p)
{
    return *p;
}
template <class T> static inline void __stcs(T *p, T v)
{
    *p = v;
}

/* --- barriers, warps, atomics -------------------------------------------- */
#define __syncthreads() \
    ((void)bn_emu_barrier(__FILE__, __LINE__, 0, BN_EMU_SUM))
#define __syncthreads_count(p) \
    bn_emu_barrier(__FILE__, __LINE__, (p) != 0, BN_EMU_SUM)
#define __syncthreads_or(p) \
    bn_emu_barrier(__FILE__, __LINE__, (p) != 0, BN_EMU_OR)
#define __syncthreads_and(p) \
    bn_emu_barrier(__FILE__, __LINE__, (p) != 0, BN_EMU_AND)
#define __syncwarp() \
    ((void)bn_emu_warp("syncwarp", __LINE__, 0xffffffffu, nullptr, 0))

static inline unsigned bn_emu_lane_id()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y
                                                          * threadIdx.z)) % 32;
}
template <class T>
static inline const bn_emu_lane *bn_emu_give(const char *what, int line,
                                             unsigned mask, const T &v)
{
    bn_emu_lane mine;

    static_assert(sizeof(T) <= sizeof(mine), "too large for a deposit");
    if constexpr (sizeof(T) <= sizeof(mine.word[0])) {
        uint64_t word = 0; /* read as one word, so stored as one */

        memcpy(&word, &v, sizeof(T));
        mine.word[0] = word;
    } else {
        memcpy(&mine, &v, sizeof(T));
    }
    return bn_emu_warp(what, line, mask, &mine, sizeof(T));
}
template <class T>
static inline T bn_emu_take(const bn_emu_lane *all, unsigned lane)
{
    T v;

    memcpy(&v, &all[lane], sizeof(T));
    return v;
}
template <class T>
static inline T bn_emu_shfl(int line, unsigned mask, T v, int from)
{
    const bn_emu_lane *all = bn_emu_give("shfl", line, mask, v);

    return from < 0 || from > 31 ? v : bn_emu_take<T>(all, (unsigned)from);
}
#define __shfl_sync(mask, v, from) \
    bn_emu_shfl(__LINE__, mask, v, (int)((from) & 31))
#define __shfl_xor_sync(mask, v, bits) \
    bn_emu_shfl(__LINE__, mask, v, (int)bn_emu_lane_id() ^ (int)(bits))
#define __shfl_down_sync(mask, v, by) \
    bn_emu_shfl(__LINE__, mask, v, (int)bn_emu_lane_id() + (int)(by))
#define __shfl_up_sync(mask, v, by) \
    bn_emu_shfl(__LINE__, mask, v, (int)bn_emu_lane_id() - (int)(by))
static inline unsigned bn_emu_ballot(int line, unsigned mask, bool p)
{
    const bn_emu_lane *all = bn_emu_give("vote", line, mask, p);
    unsigned bits = 0;

    for (unsigned i = 0; i < 32; i++)
        bits |= (unsigned)bn_emu_take<bool>(all, i) << i;
    return bits;
}
#define __ballot_sync(mask, p) bn_emu_ballot(__LINE__, mask, (p) != 0)
#define __any_sync(mask, p) (bn_emu_ballot(__LINE__, mask, (p) != 0) != 0)
#define __all_sync(mask, p) \
    (bn_emu_ballot(__LINE__, mask, (p) != 0) == 0xffffffffu)

template <class T> static inline T atomicAdd(T *p, T v)
{
    T old = *p;

    *p = old + v;
    return old;
}
template <class T> static inline T atomicMax(T *p, T v)
{
    T old = *p;

    *p = max(old, v);
    return old;
}
template <class T> static inline T atomicExch(T *p, T v)
{
    T old = *p;

    *p = v;
    return old;
}
template <class T> static inline T atomicCAS(T *p, T want, T v)
{
    T old = *p;

    if (old == want)
        *p = v;
    return old;
}
static inline void __threadfence()
{
}

/* --- launches ------------------------------------------------------------ */
template <class T> static inline void bn_emu_check_arg(const char *, int, T)
{
}
template <class T>
static inline void bn_emu_check_arg(const char *kernel, int i, T *p)
{
    bn_emu_check_pointer(kernel, i, (const void *)p);
}
template <class... A>
static inline void bn_emu_check_args(const char *kernel, A... a)
{
    int i = 0;

    (bn_emu_check_arg(kernel, ++i, a), ...);
}
template <class F>
static inline void bn_emu_start(const char *kernel, dim3 grid, dim3 block,
                                size_t shared, cudaStream_t stream, F f)
{
    static_assert(__is_trivially_copyable(F), "arguments are kept as bytes");
    bn_emu_runtime_launch(kernel, grid, block, shared, stream,
                          [](void *p) { (*(F *)p)(); }, &f, sizeof(f));
}
#endif
