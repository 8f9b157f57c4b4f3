#include "kernels/cuda/attn.h"
#include "kernels/cuda/tile.h"

/* Two kernels, each the only writer of what it computes, so that every sum
 * has one order: one a tile of queries for dq, one a tile of keys for dk and
 * dv. The scores are made again in both. */

#ifdef BN_MUTANT_SCALE
#define SCALE(a) 1.0f
#else
#define SCALE(a) (a).scale
#endif

/* D = sum of d_o o, one warp a row and head: [heads, nq]. */
enum { SUM_WARPS = 8 };
template <class T>
static __global__ void attn_sums(float *sums, bn_attn a, const T *d_o)
{
    size_t k = (size_t)blockIdx.x * SUM_WARPS + threadIdx.x / WARP;
    size_t i = k / a.heads;
    int head = (int)(k % a.heads);
    float s = 0;

    if (i >= (size_t)a.nq)
        return;
    size_t at = i * a.ldo + (size_t)head * a.hd;
    for (int c = lane_id(); c < a.hd; c += WARP)
        s += to_float(d_o[at + c]) * to_float(((const T *)a.o)[at + c]);
    s = warp_sum(s);
    if (lane_id() == 0)
        sums[(size_t)head * a.nq + i] = s;
}

template <class T, int HD> struct backward_q {
    static constexpr int BM = query_rows<T>::n, WARPS = BM / 16;
    static constexpr int BN = (HD > 128 ? 32 : 64) * 2 / (int)sizeof(T);
    static constexpr int LD = padded_ld<T, HD>::n;
    static constexpr int SCRATCH = 16 * padded_ld<T, BN>::n;
    /* q, d_o, then k and v twice, then scratch of float products */
    static constexpr size_t shared
        = sizeof(T) * ((size_t)(2 * BM + 4 * BN) * LD
                       + (sizeof(T) == 4 ? WARPS * SCRATCH : 0));
};

/* One block a tile of queries of one head, as in the forward kernel. */
template <class T, int HD>
static __global__ void __launch_bounds__(backward_q<T, HD>::WARPS *WARP)
attn_grad_q(bn_attn a, bn_attn_grad gr, const tile *tiles, const float *sums,
            bool wide)
{
    using S = backward_q<T, HD>;
    constexpr int BM = S::BM, BN = S::BN, LD = S::LD, NS = BN / 8;
    BN_SHARED_DYN(T, sq);
    T *sdo = sq + BM * LD, *skv = sdo + BM * LD;
    T *scratch = skv + 4 * BN * LD;
    tile me = tiles[blockIdx.x];
    int head = (int)blockIdx.y, warp = (int)threadIdx.x / WARP;
    int g = lane_id() / 4, t = lane_id() % 4 * 2;

    if (me.seg < 0)
        return;
    bn_attn_seg sg = a.seg[me.seg];
    int rows = min(BM, sg.q_len - me.first);
    int first = sg.p_len + sg.q_off + me.first;
    int end = min(sg.p_len + sg.k_len, first + rows);
    int begin = a.window > 0 ? max(0, first - a.window + 1) / BN * BN : 0;
    size_t kv = (size_t)(head / (a.heads / a.kv_heads)) * a.hd;
    const T *q = (const T *)a.q + (size_t)head * a.hd;
    const T *d_o = (const T *)gr.d_o + (size_t)head * a.hd;
    const T *k = (const T *)a.k + kv, *v = (const T *)a.v + kv;
    T *dq = (T *)gr.dq + (size_t)head * a.hd;
    size_t row0 = (size_t)sg.q_start + me.first;
    float acc[HD / 8][4], lse[2], sum[2];

    auto fetch_keys = [&](int j0, int half) {
        T *to = skv + half * 2 * BN * LD;

        fetch_rows<T, HD, BN>(to, k, a.hd, wide, [&](int i) {
            return j0 + i < end ? k + (size_t)key_row(sg, j0 + i) * a.ldk
                                : NULL;
        });
        fetch_rows<T, HD, BN>(to + BN * LD, v, a.hd, wide, [&](int i) {
            return j0 + i < end ? v + (size_t)key_row(sg, j0 + i) * a.ldv
                                : NULL;
        });
    };
    clear(acc);
    fetch_rows<T, HD, BM>(sq, q, a.hd, wide, [&](int i) {
        return i < rows ? q + (row0 + i) * a.ldq : NULL;
    });
    fetch_rows<T, HD, BM>(sdo, d_o, a.hd, wide, [&](int i) {
        return i < rows ? d_o + (row0 + i) * a.ldo : NULL;
    });
    fetch_keys(begin, 0);
    copy_async_commit();
    for (int r = 0; r < 2; r++) {
        int i = warp * 16 + g + 8 * r;
        size_t at = (size_t)head * a.nq + row0 + i;

        lse[r] = i < rows ? a.lse[at] : 0.0f;
        sum[r] = i < rows ? sums[at] : 0.0f;
    }
    for (int j0 = begin, half = 0; j0 < end; j0 += BN, half ^= 1) {
        const T *sk = skv + half * 2 * BN * LD, *sv = sk + BN * LD;
        float s[NS][4], dp[NS][4];

        if (j0 + BN < end)
            fetch_keys(j0 + BN, half ^ 1);
        copy_async_commit();
        copy_async_wait<1>();
        __syncthreads();
        clear(s);
        clear(dp);
        mul_nt<HD>(s, sq + warp * 16 * LD, LD, sk, LD);
        mul_nt<HD>(dp, sdo + warp * 16 * LD, LD, sv, LD);
        BN_UNROLL
        for (int n = 0; n < NS; n++)
            BN_UNROLL
            for (int c = 0; c < 4; c++) {
                int j = j0 + 8 * n + t + c % 2;
                int position = first + warp * 16 + g + 8 * (c / 2);

                s[n][c] = j < end && sees(position, j, a.window)
                    ? soft_exp<T>(s[n][c] * a.scale - lse[c / 2])
                      * (dp[n][c] - sum[c / 2]) * SCALE(a)
                    : 0.0f;
            }
        mul_result(acc, s, sk, LD, scratch + warp * S::SCRATCH);
        __syncthreads();
    }
    copy_async_wait<0>();
    __syncthreads();
    put_result(sq + warp * 16 * LD, LD, acc);
    __syncthreads();
    write_rows<T, HD, BM>(sq, a.hd, wide, [&](int i) {
        return i < rows ? dq + (row0 + i) * a.ldq : (T *)NULL;
    });
}

template <class T, int HD> struct backward_kv {
    /* Keys of a block, and queries of a step; each warp has 16 of them and
     * half of the columns of a product. */
    static constexpr int B = 128 / (int)sizeof(T), WARPS = B / 8;
    static constexpr int LD = padded_ld<T, HD>::n, LP = padded_ld<T, B>::n;
    /* k, v, q, d_o; p and ds [queries, keys]; lse and sums */
    static constexpr size_t shared
        = sizeof(T) * (size_t)B * (4 * LD + 2 * LP) + 2 * B * sizeof(float);
};

/* A segment as the keys of one block see it: as its own or as its prefix. */
struct view {
    int low, high; /* of the block's keys, those that lie in it */
    int j;         /* the number in the segment of the block's key 0 */
    int begin, end; /* queries that may see any of them */
};

static __device__ view view_of(const bn_attn_seg &s, bool own, int key0,
                               int keys, int window)
{
    int start = own ? s.k_start : s.p_start, len = own ? s.k_len : s.p_len;
    view v;

    v.low = max(start - key0, 0);
    v.high = min(start + len - key0, keys);
    v.j = key0 - start + (own ? s.p_len : 0);
    v.begin = max(0, v.j + v.low - s.p_len - s.q_off);
    v.end = s.q_len;
    if (window > 0)
        v.end = min(v.end, v.j + v.high - 1 + window - s.p_len - s.q_off);
    if (v.low >= v.high)
        v.end = 0;
    return v;
}

/* One block a tile of keys of one kv head: all segments that see it, all
 * heads of the group, all tiles of queries, in order. */
template <class T, int HD>
static __global__ void __launch_bounds__(backward_kv<T, HD>::WARPS *WARP)
attn_grad_kv(bn_attn a, bn_attn_grad gr, const float *sums, bool wide)
{
    using S = backward_kv<T, HD>;
    constexpr int B = S::B, LD = S::LD, LP = S::LP, HALF = HD / 2;
    constexpr int NS = B / 16, NA = HALF / 8;
    BN_SHARED_DYN(T, sk);
    BN_SHARED(uint32_t, seen, S::WARPS);
    T *sv = sk + B * LD, *sq = sv + B * LD, *sdo = sq + B * LD;
    T *sp = sdo + B * LD, *sds = sp + B * LP;
    float *slse = reinterpret_cast<float *>(sds + B * LP), *ssum = slse + B;
    int key0 = (int)blockIdx.x * B, kvh = (int)blockIdx.y;
    int warp = (int)threadIdx.x / WARP, group = a.heads / a.kv_heads;
    int r0 = warp % (B / 16) * 16, side = warp / (B / 16);
    int g = lane_id() / 4, t = lane_id() % 4 * 2;
    size_t kv = (size_t)kvh * a.hd;
    const T *k = (const T *)a.k + kv, *v = (const T *)a.v + kv;
    float dk[NA][4], dv[NA][4];

    clear(dk);
    clear(dv);
    fetch_rows<T, HD, B>(sk, k, a.hd, wide, [&](int i) {
        return key0 + i < a.nkv ? k + (size_t)(key0 + i) * a.ldk : NULL;
    });
    fetch_rows<T, HD, B>(sv, v, a.hd, wide, [&](int i) {
        return key0 + i < a.nkv ? v + (size_t)(key0 + i) * a.ldv : NULL;
    });

    auto queries = [&](const bn_attn_seg &sg, const view &w, int head,
                       int i0) {
        const T *q = (const T *)a.q + (size_t)head * a.hd;
        const T *d_o = (const T *)gr.d_o + (size_t)head * a.hd;
        size_t row0 = (size_t)sg.q_start + i0;
        int rows = min(B, w.end - i0);
        float s[NS][4], dp[NS][4];

        __syncthreads(); /* all are done with what is overwritten here */
        fetch_rows<T, HD, B>(sq, q, a.hd, wide, [&](int i) {
            return i < rows ? q + (row0 + i) * a.ldq : NULL;
        });
        fetch_rows<T, HD, B>(sdo, d_o, a.hd, wide, [&](int i) {
            return i < rows ? d_o + (row0 + i) * a.ldo : NULL;
        });
        copy_async_commit();
        for (int i = (int)threadIdx.x; i < B; i += (int)blockDim.x) {
            size_t at = (size_t)head * a.nq + row0 + i;

            slse[i] = i < rows ? a.lse[at] : 0.0f;
            ssum[i] = i < rows ? sums[at] : 0.0f;
        }
        copy_async_wait<0>();
        __syncthreads();
        clear(s);
        clear(dp);
        mul_nt<HD>(s, sq + r0 * LD, LD, sk + side * (B / 2) * LD, LD);
        mul_nt<HD>(dp, sdo + r0 * LD, LD, sv + side * (B / 2) * LD, LD);
        BN_UNROLL
        for (int n = 0; n < NS; n++)
            BN_UNROLL
            for (int c = 0; c < 4; c++) {
                int i = r0 + g + 8 * (c / 2);
                int key = side * (B / 2) + 8 * n + t + c % 2;
                int position = sg.p_len + sg.q_off + i0 + i;
                bool in = i < rows && key >= w.low && key < w.high
                          && sees(position, w.j + key, a.window);

                s[n][c] = in ? soft_exp<T>(s[n][c] * a.scale - slse[i])
                             : 0.0f;
                dp[n][c] = in ? s[n][c] * (dp[n][c] - ssum[i]) * SCALE(a)
                              : 0.0f;
            }
        put_result(sp + r0 * LP + side * (B / 2), LP, s);
        put_result(sds + r0 * LP + side * (B / 2), LP, dp);
        __syncthreads();
        /* Now the warp's 16 rows are keys. */
        mul_tn<B>(dv, sp + r0, LP, sdo + side * HALF, LD);
        mul_tn<B>(dk, sds + r0, LP, sq + side * HALF, LD);
    };

    for (int s0 = 0; s0 < a.nseg; s0 += (int)blockDim.x) {
        int mine = s0 + (int)threadIdx.x;
        bool any = false;

        for (int own = 0; own < 2 && mine < a.nseg; own++) {
            view w = view_of(a.seg[mine], own, key0, B, a.window);

            any |= w.begin < w.end;
        }
        uint32_t bits = __ballot_sync(BN_ALL, any);
        __syncthreads(); /* those behind may still read 'seen' */
        if (lane_id() == 0)
            seen[warp] = bits;
        __syncthreads();
        for (int w = 0; w < S::WARPS; w++)
            for (uint32_t b = seen[w]; b != 0; b &= b - 1) {
                bn_attn_seg sg = a.seg[s0 + w * WARP + __ffs((int)b) - 1];

                for (int own = 0; own < 2; own++) {
                    view x = view_of(sg, own, key0, B, a.window);

                    for (int h = 0; h < group; h++)
                        for (int i = x.begin; i < x.end; i += B)
                            queries(sg, x, kvh * group + h, i);
                }
            }
    }
    copy_async_wait<0>();
    __syncthreads(); /* k and v are not needed any more */
    put_result(sk + r0 * LD + side * HALF, LD, dk);
    put_result(sv + r0 * LD + side * HALF, LD, dv);
    __syncthreads();
    write_rows<T, HD, B>(sk, a.hd, wide, [&](int i) {
        return key0 + i < a.nkv
                   ? (T *)gr.dk + kv + (size_t)(key0 + i) * a.ldk : (T *)NULL;
    });
    write_rows<T, HD, B>(sv, a.hd, wide, [&](int i) {
        return key0 + i < a.nkv
                   ? (T *)gr.dv + kv + (size_t)(key0 + i) * a.ldv : (T *)NULL;
    });
}

template <class T, int HD>
static int launch_q(const struct bn_attn *a, const struct bn_attn_grad *g,
                    bool wide, void *stream)
{
    using S = backward_q<T, HD>;
    struct bn_attn arg = *a;
    struct bn_attn_grad grad = *g;
    const tile *tiles = work_tiles(a);
    const float *sums = work_sums(a);
    dim3 grid((unsigned)most_tiles(a, S::BM), (unsigned)a->heads);
    int rc = BN_ALLOW_SHARED((attn_grad_q<T, HD>), S::shared);

    static_assert(S::shared <= BN_SHARED_MAX, "does not fit");
    if (rc == 0)
        BN_LAUNCH((attn_grad_q<T, HD>), grid, S::WARPS * WARP, S::shared,
                  stream, arg, grad, tiles, sums, wide);
    return rc != 0 ? rc : status();
}

template <class T, int HD>
static int launch_kv(const struct bn_attn *a, const struct bn_attn_grad *g,
                     bool wide, void *stream)
{
    using S = backward_kv<T, HD>;
    struct bn_attn arg = *a;
    struct bn_attn_grad grad = *g;
    const float *sums = work_sums(a);
    dim3 grid((unsigned)((a->nkv + S::B - 1) / S::B), (unsigned)a->kv_heads);
    int rc = BN_ALLOW_SHARED((attn_grad_kv<T, HD>), S::shared);

    static_assert(S::shared <= BN_SHARED_MAX, "does not fit");
    if (rc == 0)
        BN_LAUNCH((attn_grad_kv<T, HD>), grid, S::WARPS * WARP, S::shared,
                  stream, arg, grad, sums, wide);
    return rc != 0 ? rc : status();
}

int bn_attn_grad_cuda(enum bn_dtype t, const struct bn_attn *a,
                      const struct bn_attn_grad *g, void *stream)
{
    return with_type(t, [&](auto e) {
        using T = decltype(e);

        return with_head_dim(a->hd, [&](auto hd) {
            constexpr int HD = decltype(hd)::n;
            bool wide = wide_heads<T>(a) && vector_rows<T>(g->d_o, a->ldo)
                        && vector_rows<T>(g->dq, a->ldq)
                        && vector_rows<T>(g->dk, a->ldk)
                        && vector_rows<T>(g->dv, a->ldv);
            int rc = 0;

            if (a->nq > 0 && a->nseg > 0) {
                struct bn_attn arg = *a;
                const T *d_o = (const T *)g->d_o;
                float *sums = work_sums(a);
                unsigned blocks = blocks_for((size_t)a->nq * a->heads,
                                             SUM_WARPS);

                BN_LAUNCH(attn_sums<T>, blocks, SUM_WARPS * WARP, 0, stream,
                          sums, arg, d_o);
                bn_attn_tiles(a, query_rows<T>::n, stream);
                rc = launch_q<T, HD>(a, g, wide, stream);
            }
            if (rc == 0 && a->nkv > 0)
                rc = launch_kv<T, HD>(a, g, wide, stream);
            return rc;
        });
    });
}
