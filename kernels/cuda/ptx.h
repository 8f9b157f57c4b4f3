/* The instructions that CUDA has no words for, as small device functions; on
 * the host they have the meaning that the PTX manual gives them.
 */
#ifndef BN_KERNELS_CUDA_PTX_H
#define BN_KERNELS_CUDA_PTX_H

#include "kernels/cuda/cu.h"

#ifdef BN_EMU
#include "kernels/emu/ptx.h"
#else

/* c += a b^T over a warp: a [16, 16] and b [8, 16] bf16, c [16, 8] float.
 * Lane l holds, with g = l / 4 and t = 2 (l % 4):
 *   c[0..3]: rows g, g, g + 8, g + 8, columns t, t + 1, t, t + 1;
 *   a[0..3]: pairs at (g, t), (g + 8, t), (g, t + 8), (g + 8, t + 8);
 *   b[0..1]: pairs at (g, t), (g, t + 8).
 * (PTX ISA, mma.m16n8k16) */
static __device__ __forceinline__ void
mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
                   "r"(b[1]));
}

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Four 8 x 8 matrices of 16-bit elements from shared memory: lanes 8 i to
 * 8 i + 7 give the addresses of the rows of matrix i; lane l gets of each the
 * pair at row l / 4, columns 2 (l % 4). trans: of the transposed matrix.
 * Addresses are aligned to 16. The forms for two use lanes 0 to 15. */
static __device__ __forceinline__ void ldmatrix4(uint32_t (&r)[4],
                                                 const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p))
                 : "memory");
}
static __device__ __forceinline__ void ldmatrix4_trans(uint32_t (&r)[4],
                                                       const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(p))
                 : "memory");
}
static __device__ __forceinline__ void ldmatrix2(uint32_t (&r)[2],
                                                 const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(p))
                 : "memory");
}
static __device__ __forceinline__ void ldmatrix2_trans(uint32_t (&r)[2],
                                                       const void *p)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 "
                 "{%0, %1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(shared_address(p))
                 : "memory");
}

/* Begin to copy 16 bytes from global to shared memory, both aligned to 16;
 * not there before a wait and a barrier. If !valid, src is not read and
 * zeros are written. */
static __device__ __forceinline__ void copy_async16(void *dst,
                                                    const void *src,
                                                    bool valid)
{
    int n = valid ? 16 : 0;

    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                     shared_address(dst)),
                 "l"(src), "r"(n)
                 : "memory");
}
static __device__ __forceinline__ void copy_async_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}
/* Wait until at most N groups that this thread committed are under way. */
template <int N> static __device__ __forceinline__ void copy_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

/* Two floats rounded to a bf16 pair, lo in the lower half. */
static __device__ __forceinline__ uint32_t pack_bf16(float lo, float hi)
{
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);

    return *reinterpret_cast<uint32_t *>(&v);
}
#endif

#endif
