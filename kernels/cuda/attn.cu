#include "kernels/cuda/attn.h"

enum { PLAN_THREADS = 256 };

/* One block: the tiles of all segments, those of one from its end, since they
 * see the most keys. */
static __global__ void attn_tiles(tile *out, const bn_attn_seg *seg, int nseg,
                                  int rows, int most)
{
    BN_SHARED(int, sum, PLAN_THREADS / WARP);
    int lane = lane_id(), warp = (int)threadIdx.x / WARP, base = 0;

    for (int s0 = 0; s0 < nseg; s0 += PLAN_THREADS) {
        int s = s0 + (int)threadIdx.x;
        int n = s < nseg ? (seg[s].q_len + rows - 1) / rows : 0, upto = n;

        for (int o = 1; o < WARP; o *= 2) {
            int below = __shfl_up_sync(BN_ALL, upto, o);

            if (lane >= o)
                upto += below;
        }
        if (lane == WARP - 1)
            sum[warp] = upto;
        __syncthreads();
        int at = base + upto - n;
        for (int w = 0; w < PLAN_THREADS / WARP; w++) {
            at += w < warp ? sum[w] : 0;
            base += sum[w];
        }
        for (int i = 0; i < n; i++)
            out[at + i] = {s, (n - 1 - i) * rows};
        __syncthreads();
    }
    for (int i = base + (int)threadIdx.x; i < most; i += PLAN_THREADS)
        out[i] = {-1, 0};
}

void bn_attn_tiles(const struct bn_attn *a, int rows, void *stream)
{
    tile *out = work_tiles(a);
    const bn_attn_seg *seg = a->seg;
    int nseg = a->nseg, most = most_tiles(a, rows);

    BN_LAUNCH(attn_tiles, 1, PLAN_THREADS, 0, stream, out, seg, nseg, rows,
              most);
}

size_t bn_attn_work_cuda(const struct bn_attn *a)
{
    return bn_attn_work_bytes(a);
}

/* Shapes of the forward kernel: each warp has 16 queries. */
template <class T, int HD> struct forward {
    static constexpr int BM = query_rows<T>::n, WARPS = BM / 16;
    static constexpr int BN = (HD > 128 ? 32 : 64) * 2 / (int)sizeof(T);
    static constexpr int LD = padded_ld<T, HD>::n;
    static constexpr int SCRATCH = 16 * padded_ld<T, BN>::n;
    /* q, then k and v twice, then scratch of float products */
    static constexpr size_t shared
        = sizeof(T) * ((size_t)(BM + 4 * BN) * LD
                       + (sizeof(T) == 4 ? WARPS * SCRATCH : 0));
};

/* Scores of 16 queries, of which this lane has rows g and g + 8 (the first at
 * 'position'), with keys from j0 on: to probabilities relative to the largest
 * score so far, to which sums and results so far are scaled too. */
template <class T, int NS, int NA>
static __device__ __forceinline__ void
soften(float (&s)[NS][4], float (&acc)[NA][4], float (&top)[2],
       float (&sum)[2], const bn_attn &a, int position, int j0, int end)
{
    int t = lane_id() % 4 * 2;

    BN_UNROLL
    for (int r = 0; r < 2; r++) {
        float m = top[r], l = 0;

        BN_UNROLL
        for (int n = 0; n < NS; n++)
            BN_UNROLL
            for (int c = 2 * r; c < 2 * r + 2; c++) {
                int j = j0 + 8 * n + t + c % 2;

                s[n][c] = j < end && sees(position + 8 * r, j, a.window)
                              ? s[n][c] * a.scale : no_score();
                m = fmaxf(m, s[n][c]);
            }
        m = fmaxf(m, __shfl_xor_sync(BN_ALL, m, 1));
        m = fmaxf(m, __shfl_xor_sync(BN_ALL, m, 2));
        float base = m == no_score() ? 0.0f : m;
        BN_UNROLL
        for (int n = 0; n < NS; n++)
            BN_UNROLL
            for (int c = 2 * r; c < 2 * r + 2; c++) {
                s[n][c] = soft_exp<T>(s[n][c] - base);
                l += s[n][c];
            }
        float fade = soft_exp<T>(top[r] - base);
        sum[r] = sum[r] * fade + l;
        top[r] = m;
        BN_UNROLL
        for (int n = 0; n < NA; n++) {
            acc[n][2 * r] *= fade;
            acc[n][2 * r + 1] *= fade;
        }
    }
}

/* Divide by the sums; lse: of this lane's first row, of 'left' rows that are
 * there from it on. */
template <int NA>
static __device__ __forceinline__ void
finish(float (&acc)[NA][4], float (&top)[2], float (&sum)[2], float *lse,
       int left)
{
    BN_UNROLL
    for (int r = 0; r < 2; r++) {
        sum[r] += __shfl_xor_sync(BN_ALL, sum[r], 1);
        sum[r] += __shfl_xor_sync(BN_ALL, sum[r], 2);
        /* No keys: 0. A sum that is NaN must not become a zero. */
        float k = sum[r] == 0 ? 0.0f : 1.0f / sum[r];
        BN_UNROLL
        for (int n = 0; n < NA; n++) {
            acc[n][2 * r] *= k;
            acc[n][2 * r + 1] *= k;
        }
        if (lane_id() % 4 == 0 && 8 * r < left)
            lse[8 * r] = sum[r] == 0 ? no_score() : top[r] + logf(sum[r]);
    }
}

/* One block a tile of queries of one head. Keys come in tiles too, the next
 * under way to shared memory while one is worked on; the softmax is kept
 * relative to the largest score so far. */
template <class T, int HD>
static __global__ void __launch_bounds__(forward<T, HD>::WARPS *WARP)
attn_forward(bn_attn a, const tile *tiles, bool wide)
{
    using S = forward<T, HD>;
    constexpr int BM = S::BM, BN = S::BN, LD = S::LD;
    BN_SHARED_DYN(T, sq);
    T *skv = sq + BM * LD, *scratch = skv + 4 * BN * LD;
    tile me = tiles[blockIdx.x];
    int head = (int)blockIdx.y, warp = (int)threadIdx.x / WARP;
    int mine = warp * 16 + lane_id() / 4; /* this lane's first query */

    if (me.seg < 0)
        return;
    const bn_attn_seg sg = a.seg[me.seg];
    const scope c = scope_of(a, sg, me, head, BM, BN);
    const T *q = (const T *)a.q + (size_t)head * a.hd;
    T *o = (T *)a.o + (size_t)head * a.hd;
    float acc[HD / 8][4], top[2] = {no_score(), no_score()}, sum[2] = {0, 0};

    clear(acc);
    fetch_rows<T, HD, BM>(sq, q, a.hd, wide, [&](int i) {
        return i < c.rows ? q + (c.row0 + i) * a.ldq : NULL;
    });
    fetch_keys<T, HD, BN>(skv, a, sg, c, c.begin, wide);
    copy_async_commit();
    for (int j0 = c.begin, half = 0; j0 < c.end; j0 += BN, half ^= 1) {
        const T *sk = skv + half * 2 * BN * LD, *sv = sk + BN * LD;
        float s[BN / 8][4];

        if (j0 + BN < c.end)
            fetch_keys<T, HD, BN>(skv + (half ^ 1) * 2 * BN * LD, a, sg, c,
                                  j0 + BN, wide);
        copy_async_commit();
#ifndef BN_MUTANT_WAIT
        copy_async_wait<1>();
#endif
        __syncthreads();
        clear(s);
        mul_nt<HD>(s, sq + warp * 16 * LD, LD, sk, LD);
        soften<T>(s, acc, top, sum, a, c.first + mine, j0, c.end);
        mul_result(acc, s, sv, LD, scratch + warp * S::SCRATCH);
#ifndef BN_MUTANT_RACE
        __syncthreads();
#endif
    }
    copy_async_wait<0>();
    __syncthreads(); /* sq is there even if there were no keys: reuse it */
    finish(acc, top, sum, a.lse + (size_t)head * a.nq + c.row0 + mine,
           c.rows - mine);
    put_result(sq + warp * 16 * LD, LD, acc);
    __syncthreads();
    write_rows<T, HD, BM>(sq, a.hd, wide, [&](int i) {
        return i < c.rows ? o + (c.row0 + i) * a.ldo : (T *)NULL;
    });
}

int bn_attn_cuda(enum bn_dtype t, const struct bn_attn *a, void *stream)
{
    if (a->nq == 0 || a->nseg == 0)
        return 0;
    if (bn_attn_decodes(a))
        return bn_attn_decode_cuda(t, a, stream);
    return with_type(t, [&](auto e) {
        using T = decltype(e);

        return with_head_dim(a->hd, [&](auto hd) {
            using S = forward<T, decltype(hd)::n>;
            constexpr int HD = decltype(hd)::n;
            struct bn_attn arg = *a;
            const tile *tiles = work_tiles(a);
            bool wide = wide_heads<T>(a);
            dim3 grid((unsigned)most_tiles(a, S::BM), (unsigned)a->heads);
            int rc = BN_ALLOW_SHARED((attn_forward<T, HD>), S::shared);

            static_assert(S::shared <= BN_SHARED_MAX, "does not fit");
            if (rc != 0)
                return rc;
            bn_attn_tiles(a, S::BM, stream);
            BN_LAUNCH((attn_forward<T, HD>), grid, S::WARPS * WARP, S::shared,
                      stream, arg, tiles, wide);
            return status();
        });
    });
}
