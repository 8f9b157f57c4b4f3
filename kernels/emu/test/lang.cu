/* Kernels that try the emulator: right ones and wrong ones. */
#include "kernels/cuda/cu.h"
#include "kernels/cuda/ptx.h"
#include "kernels/emu/test/lang.h"

static __global__ void reverse(float *y, const float *x, int n)
{
    BN_SHARED(float, tile, 128);
    int i = (int)threadIdx.x;

    tile[i] = x[i];
    __syncthreads();
    y[i] = tile[n - 1 - i];
}

static __global__ void reverse_without(float *y, const float *x, int n)
{
    BN_SHARED(float, tile, 128);
    int i = (int)threadIdx.x;

    tile[i] = x[i];
    y[i] = tile[n - 1 - i];
}

static __global__ void half_barrier(float *y)
{
    if (threadIdx.x < 64)
        __syncthreads();
    y[threadIdx.x] = 1;
}

static __global__ void two_barriers(float *y)
{
    if (threadIdx.x < 64)
        __syncthreads();
    else
        __syncthreads();
    y[threadIdx.x] = 1;
}

static __global__ void half_warp(float *y)
{
    float v = 1;

    if (threadIdx.x % 32 < 16)
        v = __shfl_xor_sync(BN_ALL, v, 1);
    y[threadIdx.x] = v;
}

static __global__ void past_end(float *y, int n)
{
    y[threadIdx.x == 0 ? n : (int)threadIdx.x] = 1;
}

static __global__ void past_shared(float *y, int n)
{
    BN_SHARED_DYN(float, tile);

    tile[threadIdx.x + (n == 0)] = 1;
    tile[0 + n * 128] = 2;
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}

/* Static beside all of the dynamic memory there is without asking. */
static __global__ void shared_both(float *y)
{
    BN_SHARED(float, part, 128);
    BN_SHARED_DYN(float, tile);

    part[threadIdx.x] = tile[threadIdx.x] = 1;
    y[threadIdx.x] = part[threadIdx.x] + tile[threadIdx.x];
}

static __global__ void misaligned(float *y)
{
    const float a[4] = {1, 2, 3, 4};

    if (threadIdx.x == 0)
        store(y + 2, a);
}

static __global__ void votes(int *out)
{
    int i = (int)threadIdx.x;

    out[0 * 64 + i] = __syncthreads_count(i % 3 == 0);
    out[1 * 64 + i] = __syncthreads_or(i == 63);
    out[2 * 64 + i] = __syncthreads_and(i < 63);
    out[3 * 64 + i] = (int)__ballot_sync(BN_ALL, i % 2);
    out[4 * 64 + i] = __shfl_sync(BN_ALL, i, 5);
    out[5 * 64 + i] = __shfl_up_sync(BN_ALL, i, 1);
    out[6 * 64 + i] = __shfl_down_sync(BN_ALL, i, 2);
    out[7 * 64 + i] = warp_sum(i);
    out[8 * 64 + i] = block_sum(i);
    __syncwarp();
    atomicAdd(&out[9 * 64], 1);
}

/* c[16, 8] = a[16, 16] b[8, 16]^T through ldmatrix and mma, and the transposed
 * way of loading b. */
static __global__ void product(float *c, const bf16 *a, const bf16 *b,
                               const bf16 *bt)
{
    BN_SHARED(bf16, sa, 16 * 16);
    BN_SHARED(bf16, sb, 8 * 16);
    BN_SHARED(bf16, st, 16 * 8);
    int lane = (int)threadIdx.x;
    uint32_t fa[4], fb[2];
    float fc[4] = {0, 0, 0, 0};

    copy_async16(sa + lane * 8, a + lane * 8, true);
    if (lane < 16)
        copy_async16(sb + lane * 8, b + lane * 8, true);
    else
        copy_async16(st + (lane - 16) * 8, bt + (lane - 16) * 8, lane != 31);
    copy_async_commit();
    copy_async_wait<0>();
    __syncwarp();
    ldmatrix4(fa, sa + lane % 16 * 16 + lane / 16 * 8);
    ldmatrix2(fb, sb + lane % 8 * 16 + lane / 8 % 2 * 8);
    mma_bf16(fc, fa, fb);
    ldmatrix2_trans(fb, st + lane % 16 * 8);
    float ft[4] = {0, 0, 0, 0};
    mma_bf16(ft, fa, fb);
    for (int i = 0; i < 4; i++) {
        int r = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;

        c[r * 8 + col] = fc[i];
        c[128 + r * 8 + col] = ft[i];
    }
}

extern "C" int try_reverse(float *y, const float *x, int n, int wrong)
{
    if (wrong)
        BN_LAUNCH(reverse_without, 3, 128, 0, NULL, y, x, n);
    else
        BN_LAUNCH(reverse, 3, 128, 0, NULL, y, x, n);
    return status();
}
extern "C" int try_fault(enum fault which, float *y, int n)
{
    switch (which) {
    case HALF_BARRIER:
        BN_LAUNCH(half_barrier, 1, 128, 0, NULL, y);
        break;
    case TWO_BARRIERS:
        BN_LAUNCH(two_barriers, 1, 128, 0, NULL, y);
        break;
    case HALF_WARP:
        BN_LAUNCH(half_warp, 1, 64, 0, NULL, y);
        break;
    case PAST_END:
        BN_LAUNCH(past_end, 1, 32, 0, NULL, y, n);
        break;
    case PAST_SHARED:
        BN_LAUNCH(past_shared, 1, 128, 128 * sizeof(float), NULL, y, n);
        break;
    case TOO_LARGE:
        BN_LAUNCH(half_barrier, 1, 2048, 0, NULL, y);
        break;
    case SHARED_LARGE:
        BN_LAUNCH(past_shared, 1, 128, 64 << 10, NULL, y, n);
        break;
    case SHARED_BOTH:
        BN_LAUNCH(shared_both, 1, 128, 48 << 10, NULL, y);
        break;
    case MISALIGNED:
        BN_LAUNCH(misaligned, 1, 32, 0, NULL, y);
        break;
    }
    return status();
}
extern "C" int try_votes(int *out)
{
    BN_LAUNCH(votes, 1, 64, 0, NULL, out);
    return status();
}
extern "C" int try_product(float *c, const void *a, const void *b,
                           const void *bt)
{
    const bf16 *pa = (const bf16 *)a, *pb = (const bf16 *)b;
    const bf16 *pt = (const bf16 *)bt;

    BN_LAUNCH(product, 1, 32, 0, NULL, c, pa, pb, pt);
    return status();
}
extern "C" void try_convert(float *f, unsigned short *bf, unsigned short *h,
                            float x)
{
    bf16 b = __float2bfloat16_rn(x);
    f16 a = __float2half_rn(x);

    __builtin_memcpy(bf, &b, 2);
    __builtin_memcpy(h, &a, 2);
    f[0] = to_float(b);
    f[1] = to_float(a);
}
