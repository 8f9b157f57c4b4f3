#include "kernels/cuda/attn.h"

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
    int mine = warp * 16 + lane_id() / 4, t = lane_id() % 4 * 2;

    if (me.seg < 0)
        return;
    const bn_attn_seg sg = a.seg[me.seg];
    const scope c = scope_of(a, sg, me, head, BM, BN);
    const T *q = (const T *)a.q + (size_t)head * a.hd;
    const T *d_o = (const T *)gr.d_o + (size_t)head * a.hd;
    T *dq = (T *)gr.dq + (size_t)head * a.hd;
    float acc[HD / 8][4], lse[2], sum[2];

    clear(acc);
    fetch_rows<T, HD, BM>(sq, q, a.hd, wide, [&](int i) {
        return i < c.rows ? q + (c.row0 + i) * a.ldq : NULL;
    });
    fetch_rows<T, HD, BM>(sdo, d_o, a.hd, wide, [&](int i) {
        return i < c.rows ? d_o + (c.row0 + i) * a.ldo : NULL;
    });
    fetch_keys<T, HD, BN>(skv, a, sg, c, c.begin, wide);
    copy_async_commit();
    for (int r = 0; r < 2; r++) {
        bool in = mine + 8 * r < c.rows;
        size_t at = (size_t)head * a.nq + c.row0 + mine + 8 * r;

        lse[r] = in ? a.lse[at] : 0.0f;
        sum[r] = in ? sums[at] : 0.0f;
    }
    for (int j0 = c.begin, half = 0; j0 < c.end; j0 += BN, half ^= 1) {
        const T *sk = skv + half * 2 * BN * LD, *sv = sk + BN * LD;
        float s[NS][4], dp[NS][4];

        if (j0 + BN < c.end)
            fetch_keys<T, HD, BN>(skv + (half ^ 1) * 2 * BN * LD, a, sg, c,
                                  j0 + BN, wide);
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
            for (int i = 0; i < 4; i++) {
                int j = j0 + 8 * n + t + i % 2;

                s[n][i] = j < c.end && sees(c.first + mine + 8 * (i / 2), j,
                                            a.window)
                    ? soft_exp<T>(s[n][i] * a.scale - lse[i / 2])
                      * (dp[n][i] - sum[i / 2]) * SCALE(a)
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
        return i < c.rows ? dq + (c.row0 + i) * a.ldq : (T *)NULL;
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

/* What lies in shared memory of a block of keys. */
template <class T, int HD> struct keys_shared {
    T *k, *v, *q, *d_o; /* [B][LD] */
    T *p, *ds;          /* [B queries][LP keys] */
    float *lse, *sums;  /* [B] */

    __device__ keys_shared(T *at)
    {
        using S = backward_kv<T, HD>;

        k = at;
        v = k + S::B * S::LD;
        q = v + S::B * S::LD;
        d_o = q + S::B * S::LD;
        p = d_o + S::B * S::LD;
        ds = p + S::B * S::LP;
        lse = reinterpret_cast<float *>(ds + S::B * S::LP);
        sums = lse + S::B;
    }
};

/* Copy 'rows' queries of a head from row0 on, with what belongs to them. */
template <class T, int HD>
static __device__ __forceinline__ void
fetch_queries(const keys_shared<T, HD> &m, const bn_attn &a,
              const bn_attn_grad &gr, const float *sums, int head,
              size_t row0, int rows, bool wide)
{
    constexpr int B = backward_kv<T, HD>::B;
    const T *q = (const T *)a.q + (size_t)head * a.hd;
    const T *d_o = (const T *)gr.d_o + (size_t)head * a.hd;

    fetch_rows<T, HD, B>(m.q, q, a.hd, wide, [&](int i) {
        return i < rows ? q + (row0 + i) * a.ldq : NULL;
    });
    fetch_rows<T, HD, B>(m.d_o, d_o, a.hd, wide, [&](int i) {
        return i < rows ? d_o + (row0 + i) * a.ldo : NULL;
    });
    copy_async_commit();
    for (int i = (int)threadIdx.x; i < B; i += (int)blockDim.x) {
        size_t at = (size_t)head * a.nq + row0 + i;

        m.lse[i] = i < rows ? a.lse[at] : 0.0f;
        m.sums[i] = i < rows ? sums[at] : 0.0f;
    }
    copy_async_wait<0>();
}

/* p and ds of the queries fetched, the first at 'position': each warp makes
 * 16 queries and half of the keys. */
template <class T, int HD>
static __device__ __forceinline__ void
make_scores(const keys_shared<T, HD> &m, const bn_attn &a, const view &w,
            int position, int rows)
{
    using S = backward_kv<T, HD>;
    constexpr int B = S::B, LD = S::LD, LP = S::LP, NS = B / 16;
    int warp = (int)threadIdx.x / WARP;
    int r0 = warp % (B / 16) * 16, k0 = warp / (B / 16) * (B / 2);
    int g = lane_id() / 4, t = lane_id() % 4 * 2;
    float s[NS][4], dp[NS][4];

    clear(s);
    clear(dp);
    mul_nt<HD>(s, m.q + r0 * LD, LD, m.k + k0 * LD, LD);
    mul_nt<HD>(dp, m.d_o + r0 * LD, LD, m.v + k0 * LD, LD);
    BN_UNROLL
    for (int n = 0; n < NS; n++)
        BN_UNROLL
        for (int c = 0; c < 4; c++) {
            int i = r0 + g + 8 * (c / 2), key = k0 + 8 * n + t + c % 2;
            bool in = i < rows && key >= w.low && key < w.high
                      && sees(position + i, w.j + key, a.window);

            s[n][c] = in ? soft_exp<T>(s[n][c] * a.scale - m.lse[i]) : 0.0f;
            dp[n][c] = in ? s[n][c] * (dp[n][c] - m.sums[i]) * SCALE(a)
                          : 0.0f;
        }
    put_result(m.p + r0 * LP + k0, LP, s);
    put_result(m.ds + r0 * LP + k0, LP, dp);
}

/* One block a tile of keys of one kv head: all segments that see it, all
 * heads of the group, all tiles of queries, in order. */
template <class T, int HD>
static __global__ void __launch_bounds__(backward_kv<T, HD>::WARPS *WARP)
attn_grad_kv(bn_attn a, bn_attn_grad gr, const float *sums, bool wide)
{
    using S = backward_kv<T, HD>;
    constexpr int B = S::B, LD = S::LD, LP = S::LP, HALF = HD / 2;
    BN_SHARED_DYN(T, bytes);
    BN_SHARED(uint32_t, seen, S::WARPS);
    const keys_shared<T, HD> m(bytes);
    int key0 = (int)blockIdx.x * B, kvh = (int)blockIdx.y;
    int warp = (int)threadIdx.x / WARP, group = a.heads / a.kv_heads;
    int r0 = warp % (B / 16) * 16, c0 = warp / (B / 16) * HALF;
    float dk[HALF / 8][4], dv[HALF / 8][4];

    auto row = [&](const void *p, int ld, int i) {
        return key0 + i < a.nkv ? (T *)p + (size_t)kvh * a.hd
                                      + (size_t)(key0 + i) * ld
                                : (T *)NULL;
    };
    clear(dk);
    clear(dv);
    fetch_rows<T, HD, B>(m.k, (const T *)a.k, a.hd, wide,
                         [&](int i) { return row(a.k, a.ldk, i); });
    fetch_rows<T, HD, B>(m.v, (const T *)a.v, a.hd, wide,
                         [&](int i) { return row(a.v, a.ldv, i); });

    auto queries = [&](const bn_attn_seg &sg, const view &w, int head,
                       int i0) {
        int rows = min(B, w.end - i0);

        __syncthreads(); /* all are done with what is overwritten here */
        fetch_queries(m, a, gr, sums, head, (size_t)sg.q_start + i0, rows,
                      wide);
        __syncthreads();
        make_scores(m, a, w, sg.p_len + sg.q_off + i0, rows);
        __syncthreads();
        /* Now the warp's 16 rows are keys. */
        mul_tn<B>(dv, m.p + r0, LP, m.d_o + c0, LD);
        mul_tn<B>(dk, m.ds + r0, LP, m.q + c0, LD);
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
        int most = 2 * min((int)blockDim.x, a.nseg - s0);
        for (int k = 0; k < most; k++) {
            if ((seen[k / (2 * WARP)] >> (k / 2 % WARP) & 1) == 0)
                continue;
            const bn_attn_seg sg = a.seg[s0 + k / 2];
            const view w = view_of(sg, k % 2, key0, B, a.window);

            for (int h = 0; h < group; h++)
                for (int i = w.begin; i < w.end; i += B)
                    queries(sg, w, kvh * group + h, i);
        }
    }
    copy_async_wait<0>();
    __syncthreads(); /* k and v are not needed any more */
    put_result(m.k + r0 * LD + c0, LD, dk);
    put_result(m.v + r0 * LD + c0, LD, dv);
    __syncthreads();
    write_rows<T, HD, B>(m.k, a.hd, wide,
                         [&](int i) { return row(gr.dk, a.ldk, i); });
    write_rows<T, HD, B>(m.v, a.hd, wide,
                         [&](int i) { return row(gr.dv, a.ldv, i); });
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
