/* Products of small matrices in shared memory, a warp at a time: by tensor
 * cores for bf16, by plain arithmetic for float, with one layout of results.
 *
 * A result of 16 rows and 8 N columns is float c[N][4] in each lane: with
 * g = lane / 4 and t = 2 (lane % 4), c[n][0..1] are row g, columns 8 n + t
 * and + 1, c[n][2..3] the same of row g + 8.
 *
 * Matrices are row-major with ld elements from row to row; rows begin at
 * multiples of 16 bytes, and ld * size / 16 is odd, so that eight rows of one
 * column lie in different banks (padded_ld).
 */
#ifndef BN_KERNELS_CUDA_TILE_H
#define BN_KERNELS_CUDA_TILE_H

#include "kernels/cuda/cu.h"
#include "kernels/cuda/ptx.h"

template <class T, int COLS> struct padded_ld {
    static constexpr int per = 16 / (int)sizeof(T);
    static constexpr int n = COLS / per % 2 == 0 ? COLS + per : COLS;
};

static __device__ __forceinline__ int lane_id()
{
    return (int)threadIdx.x % WARP;
}

template <int N> static __device__ __forceinline__ void clear(float (&c)[N][4])
{
    BN_UNROLL
    for (int n = 0; n < N; n++)
        BN_UNROLL
        for (int i = 0; i < 4; i++)
            c[n][i] = 0;
}

/* --- bf16 ---------------------------------------------------------------- */

/* c += fa * (16 x 8N) where b gives two fragments at a time: address(n) is
 * this lane's row for column blocks n and n + 1. */
template <bool TRANS, int N, class F>
static __device__ __forceinline__ void
mma_row(float (&c)[N][4], const uint32_t (&fa)[4], F address)
{
    BN_UNROLL
    for (int n = 0; n + 1 < N; n += 2) {
        uint32_t fb[4];

        if (TRANS)
            ldmatrix4_trans(fb, address(n));
        else
            ldmatrix4(fb, address(n));
        const uint32_t b0[2] = {fb[0], fb[1]}, b1[2] = {fb[2], fb[3]};
        mma_bf16(c[n], fa, b0);
        mma_bf16(c[n + 1], fa, b1);
    }
    if (N % 2 == 1) {
        uint32_t fb[2];

        if (TRANS)
            ldmatrix2_trans(fb, address(N - 1));
        else
            ldmatrix2(fb, address(N - 1));
        mma_bf16(c[N - 1], fa, fb);
    }
}

/* c += a[16, K] b[8 N, K]^T */
template <int K, int N>
static __device__ __forceinline__ void
mul_nt(float (&c)[N][4], const bf16 *a, int lda, const bf16 *b, int ldb)
{
    int lane = lane_id();
    const bf16 *pa = a + lane % 16 * lda + lane / 16 * 8;
    const bf16 *pb = b + (lane / 16 * 8 + lane % 8) * ldb + lane / 8 % 2 * 8;

    BN_UNROLL
    for (int k = 0; k < K; k += 16) {
        uint32_t fa[4];

        ldmatrix4(fa, pa + k);
        mma_row<false>(c, fa, [&](int n) {
            /* The last of an odd number is read by lanes 0 to 15 alone. */
            return n + 1 < N || lane < 16 ? pb + n * 8 * ldb + k : pb;
        });
    }
}

/* c += a b with a[16, K], or with TRANS a^T b with a[K, 16]; b[K, 8 N] */
template <bool TRANS, int K, int N>
static __device__ __forceinline__ void
mul_n(float (&c)[N][4], const bf16 *a, int lda, const bf16 *b, int ldb)
{
    int lane = lane_id();
    int row = TRANS ? lane % 8 + lane / 16 * 8 : lane % 16;
    int col = TRANS ? lane / 8 % 2 * 8 : lane / 16 * 8;
    const bf16 *pa = a + row * lda + col;
    const bf16 *pb = b + lane % 16 * ldb;
    int right = lane / 16 * 8;

    BN_UNROLL
    for (int k = 0; k < K; k += 16) {
        uint32_t fa[4];

        if (TRANS)
            ldmatrix4_trans(fa, pa + k * lda);
        else
            ldmatrix4(fa, pa + k);
        mma_row<true>(c, fa, [&](int n) {
            return pb + k * ldb + n * 8 + (n + 1 < N ? right : 0);
        });
    }
}

/* c += p b with p[16, 8 M] a result as above, rounded to bf16, and
 * b[8 M, 8 N]; M even. */
template <int M, int N>
static __device__ __forceinline__ void
mul_result(float (&c)[N][4], const float (&p)[M][4], const bf16 *b, int ldb,
           bf16 *)
{
    int lane = lane_id();
    const bf16 *pb = b + lane % 16 * ldb;
    int right = lane / 16 * 8;

    BN_UNROLL
    for (int m = 0; m < M; m += 2) {
        const uint32_t fa[4] = {
            pack_bf16(p[m][0], p[m][1]), pack_bf16(p[m][2], p[m][3]),
            pack_bf16(p[m + 1][0], p[m + 1][1]),
            pack_bf16(p[m + 1][2], p[m + 1][3])};

        mma_row<true>(c, fa, [&](int n) {
            return pb + m * 8 * ldb + n * 8 + (n + 1 < N ? right : 0);
        });
    }
}

/* --- float --------------------------------------------------------------- */

template <int K, int N>
static __device__ __forceinline__ void
mul_nt(float (&c)[N][4], const float *a, int lda, const float *b, int ldb)
{
    int g = lane_id() / 4, t = lane_id() % 4 * 2;

    for (int k = 0; k < K; k += 4) {
        float up[4], down[4];

        load(up, a + g * lda + k);
        load(down, a + (g + 8) * lda + k);
        BN_UNROLL
        for (int n = 0; n < N; n++) {
            float left[4], right[4];

            load(left, b + (8 * n + t) * ldb + k);
            load(right, b + (8 * n + t + 1) * ldb + k);
            BN_UNROLL
            for (int i = 0; i < 4; i++) {
                c[n][0] += up[i] * left[i];
                c[n][1] += up[i] * right[i];
                c[n][2] += down[i] * left[i];
                c[n][3] += down[i] * right[i];
            }
        }
    }
}

/* One step of a product: column k of a and row k of b. */
template <int N>
static __device__ __forceinline__ void
outer(float (&c)[N][4], float up, float down, const float *b, int t)
{
    BN_UNROLL
    for (int n = 0; n < N; n++) {
        float r[2];

        load(r, b + 8 * n + t);
        c[n][0] += up * r[0];
        c[n][1] += up * r[1];
        c[n][2] += down * r[0];
        c[n][3] += down * r[1];
    }
}

template <bool TRANS, int K, int N>
static __device__ __forceinline__ void
mul_n(float (&c)[N][4], const float *a, int lda, const float *b, int ldb)
{
    int g = lane_id() / 4, t = lane_id() % 4 * 2;
    int down = 8 * (TRANS ? 1 : lda), next = TRANS ? lda : 1;

    a += g * (TRANS ? 1 : lda);
    for (int k = 0; k < K; k++)
        outer(c, a[k * next], a[k * next + down], b + k * ldb, t);
}

/* 'scratch' is the warp's own: 16 rows of padded_ld<float, 8 M>. */
template <int M, int N>
static __device__ __forceinline__ void
mul_result(float (&c)[N][4], const float (&p)[M][4], const float *b, int ldb,
           float *scratch)
{
    constexpr int LD = padded_ld<float, 8 * M>::n;
    int g = lane_id() / 4, t = lane_id() % 4 * 2;

    BN_UNROLL
    for (int m = 0; m < M; m++) {
        const float up[2] = {p[m][0], p[m][1]}, down[2] = {p[m][2], p[m][3]};

        store(scratch + g * LD + 8 * m + t, up);
        store(scratch + (g + 8) * LD + 8 * m + t, down);
    }
    __syncwarp();
    for (int k = 0; k < 8 * M; k++)
        outer(c, scratch[g * LD + k], scratch[(g + 8) * LD + k], b + k * ldb,
              t);
    __syncwarp();
}

/* --- results to memory --------------------------------------------------- */

/* d[16, 8 N] = c, rounded to T. */
template <class T, int N>
static __device__ __forceinline__ void put_result(T *d, int ld,
                                                  const float (&c)[N][4])
{
    int g = lane_id() / 4, t = lane_id() % 4 * 2;

    BN_UNROLL
    for (int n = 0; n < N; n++) {
        const float up[2] = {c[n][0], c[n][1]}, down[2] = {c[n][2], c[n][3]};

        store(d + g * ld + 8 * n + t, up);
        store(d + (g + 8) * ld + 8 * n + t, down);
    }
}

/* --- rows between global and shared memory ------------------------------- */

/* Begin to copy row(i), 0 <= i < ROWS, to s + i * LD, with columns from hd up
 * to HD and rows that are NULL as zeros; by all threads of the block. Not
 * there before a wait and a barrier. */
template <class T, int HD, int ROWS, class F>
static __device__ __forceinline__ void
fetch_rows(T *s, const T *any, int hd, bool wide, F row)
{
    constexpr int V = 16 / (int)sizeof(T), PER = HD / V;
    constexpr int LD = padded_ld<T, HD>::n;

    for (int k = (int)threadIdx.x; k < ROWS * PER; k += (int)blockDim.x) {
        int i = k / PER, c = k % PER * V;
        const T *from = row(i);
        T *to = s + i * LD + c;

        if (wide) {
            bool in = from != NULL && c < hd;

            copy_async16(to, in ? from + c : any, in);
        } else {
            for (int j = 0; j < V; j++)
                if (from != NULL && c + j < hd) {
                    BN_ACCESS(from + c + j, sizeof(T), false);
                    to[j] = from[c + j];
                } else
                    from_float(to[j], 0.0f);
        }
    }
}

/* Write columns below hd of the rows of s to row(i), unless it is NULL; by
 * all threads of the block, after a barrier. */
template <class T, int HD, int ROWS, class F>
static __device__ __forceinline__ void
write_rows(const T *s, int hd, bool wide, F row)
{
    constexpr int V = 16 / (int)sizeof(T), PER = HD / V;
    constexpr int LD = padded_ld<T, HD>::n;

    for (int k = (int)threadIdx.x; k < ROWS * PER; k += (int)blockDim.x) {
        int i = k / PER, c = k % PER * V;
        T *to = row(i);
        const T *from = s + i * LD + c;

        if (to == NULL || c >= hd)
            continue;
        if (wide) {
            BN_ACCESS(to + c, 16, true);
            *reinterpret_cast<uint4 *>(to + c)
                = *reinterpret_cast<const uint4 *>(from);
        } else
            for (int j = 0; j < V && c + j < hd; j++) {
                BN_ACCESS(to + c + j, sizeof(T), true);
                to[c + j] = from[j];
            }
    }
}

#endif
