#include "kernels/cuda/attn.h"

/* One kernel with two kinds of blocks, each the only writer of what it makes,
 * so that every sum has one order: a block makes dk and dv of a tile of keys,
 * or dq of a tile of queries. Its tile stays in shared memory while those of
 * the other kind pass by. The scores are made again in both. */

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

template <class T, int HD> struct backward {
    /* Rows of a tile; in a product each warp has 16 of them and half of the
     * columns. */
    static constexpr int B = query_rows<T>::n, WARPS = B / 8, HALF = HD / 2;
    static constexpr int LD = padded_ld<T, HD>::n, LP = padded_ld<T, B>::n;
    /* A tile is q and d_o of queries, or k and v of keys, [2][B][LD], and
     * float [2][B]: lse and sums of queries. Where there is room, the next to
     * pass is under way while one is used: two stages. */
    static constexpr int SECOND = B * LD, NUMBERS = 2 * SECOND;
    static constexpr int TILE = NUMBERS + 2 * B * (int)(4 / sizeof(T));
    static constexpr int STAGES = HD > 128 ? 1 : 2; /* at most */
    static constexpr size_t shared(int stages)
    {
        return sizeof(T) * (size_t)((1 + stages) * TILE + 2 * B * LP);
    }
    /* So many have room in a multiprocessor; 1 KiB of each is the system's. */
    static constexpr int BLOCKS = HD > 64 ? 1 : 2;
};

/* What a block was given, and what lies in its shared memory. */
template <class T, int HD> struct grad_block {
    const bn_attn &a;
    const bn_attn_grad &g;
    const float *sums; /* [heads, nq] */
    int group;         /* heads of a kv head */
    bool wide;
    T *stays, *passes; /* one tile; STAGES of them */
    T *p, *ds;         /* [B queries][LP keys] */
    int r0, c0;        /* this warp's rows and columns of a product */
};

/* Begin to copy 'rows' queries of a head from row0 on, with what belongs to
 * them, which is there after a barrier too. */
template <class T, int HD>
static __device__ __forceinline__ void
fetch_queries(const grad_block<T, HD> &b, T *to, int head, size_t row0,
              int rows)
{
    using S = backward<T, HD>;
    const T *q = (const T *)b.a.q + (size_t)head * b.a.hd;
    const T *d_o = (const T *)b.g.d_o + (size_t)head * b.a.hd;
    float *lse = reinterpret_cast<float *>(to + S::NUMBERS);

    fetch_rows<T, HD, S::B>(to, q, b.a.hd, b.wide, [&](int i) {
        return i < rows ? q + (row0 + i) * b.a.ldq : NULL;
    });
    fetch_rows<T, HD, S::B>(to + S::SECOND, d_o, b.a.hd, b.wide, [&](int i) {
        return i < rows ? d_o + (row0 + i) * b.a.ldo : NULL;
    });
    for (int i = (int)threadIdx.x; i < S::B; i += (int)blockDim.x) {
        size_t at = (size_t)head * b.a.nq + row0 + i;

        lse[i] = i < rows ? b.a.lse[at] : 0.0f;
        lse[S::B + i] = i < rows ? b.sums[at] : 0.0f;
    }
}

/* Of two tiles, query i < rows sees key j, low <= j < high, if
 * sees(ahead + i, j). */
struct pairs {
    int rows, low, high, ahead;
};

/* ds of two tiles, and p if it is WANTED: each warp makes 16 queries and half
 * of the keys. */
template <bool WANTED, class T, int HD>
static __device__ __forceinline__ void
make_scores(const grad_block<T, HD> &b, const pairs &m, const T *queries,
            const T *keys)
{
    using S = backward<T, HD>;
    constexpr int B = S::B, LD = S::LD, LP = S::LP, NS = B / 16;
    const float *lse = reinterpret_cast<const float *>(queries + S::NUMBERS);
    int k0 = (int)threadIdx.x / WARP / (B / 16) * (B / 2);
    int g = lane_id() / 4, t = lane_id() % 4 * 2;
    float s[NS][4], dp[NS][4];

    clear(s);
    clear(dp);
    queries += b.r0 * LD;
    keys += k0 * LD;
    mul_nt<HD>(s, queries, LD, keys, LD);
    mul_nt<HD>(dp, queries + S::SECOND, LD, keys + S::SECOND, LD);
    BN_UNROLL
    for (int n = 0; n < NS; n++)
        BN_UNROLL
        for (int c = 0; c < 4; c++) {
            int i = b.r0 + g + 8 * (c / 2), j = k0 + 8 * n + t + c % 2;
            bool in = i < m.rows && j >= m.low && j < m.high
                      && sees(m.ahead + i, j, b.a.window);

            s[n][c] = in ? soft_exp<T>(s[n][c] * b.a.scale - lse[i]) : 0.0f;
            dp[n][c] = in ? s[n][c] * (dp[n][c] - lse[B + i]) * SCALE(b.a)
                          : 0.0f;
        }
    if (WANTED)
        put_result(b.p + b.r0 * LP + k0, LP, s);
    put_result(b.ds + b.r0 * LP + k0, LP, dp);
}

/* use(pairs, tile) for each tile that passes, in order; afterwards all
 * threads are done with the shared memory. */
template <class T, int HD, int STAGES, class P, class F>
static __device__ __forceinline__ void pass_by(P &passing, T *passes, F use)
{
    using S = backward<T, HD>;
    constexpr int ahead = STAGES - 1;

    auto advance = [&](int half) {
        const bool more = passing.next();

        if (more)
            passing.fetch(passes + half * S::TILE);
        copy_async_commit();
        return more;
    };
    bool more = advance(0);
    for (int half = 0; more; half ^= ahead) {
        const pairs now = passing.now();

        copy_async_wait<0>();
        __syncthreads(); /* it is there, and the one before is done with */
        if (ahead)
            more = advance(half ^ 1);
        use(now, passes + half * S::TILE);
        if (!ahead) {
            __syncthreads();
            more = advance(0);
        }
    }
    copy_async_wait<0>();
    __syncthreads();
}

/* A segment as the keys of one block see it: as its own or as its prefix. */
struct view {
    int low, high;  /* of the block's keys, those that lie in it */
    int ahead;      /* of query 0, see struct pairs */
    int begin, end; /* queries that may see any of them */
    int row;        /* of query 0 */
};

/* What passes keys: all segments that see any of them, all heads of the
 * group, all tiles of queries. Views are made again rather than kept, since
 * registers are few. */
template <class T, int HD> struct passing_queries {
    static constexpr int B = backward<T, HD>::B;
    const grad_block<T, HD> &b;
    int key0, kv_head;
    int seg = -1, head = 0, i = 0; /* head of the group, query of seg */
    bool own = true;

    __device__ passing_queries(const grad_block<T, HD> &block, int key, int h)
        : b(block), key0(key), kv_head(h)
    {
    }
    __device__ view view_of(int k, bool as_own) const
    {
        const bn_attn_seg &s = b.a.seg[k];
        int start = (as_own ? s.k_start : s.p_start) - key0;
        int len = as_own ? s.k_len : s.p_len;
        view v;

        v.low = max(start, 0);
        v.high = min(start + len, B);
        v.ahead = (as_own ? 0 : s.p_len) + s.q_off + start;
        v.begin = max(0, v.low - v.ahead);
        v.end = s.q_len;
        v.row = s.q_start;
        if (b.a.window > 0)
            v.end = min(v.end, v.high - 1 + b.a.window - v.ahead);
        if (v.low >= v.high)
            v.end = 0;
        return v;
    }
    /* The next segment that sees keys of the block, or nseg. */
    __device__ int next_segment() const
    {
        for (int s0 = seg + 1; s0 < b.a.nseg; s0 += WARP) {
            int s = s0 + lane_id();
            bool any = false;

            for (int k = 0; k < 2 && s < b.a.nseg; k++) {
                view v = view_of(s, k);

                any |= v.begin < v.end;
            }
            uint32_t bits = __ballot_sync(BN_ALL, any);
            if (bits != 0)
                return s0 + __ffs((int)bits) - 1;
        }
        return b.a.nseg;
    }
    __device__ bool next()
    {
        view v = {};

        if (seg >= 0) {
            v = view_of(seg, own);
            i += B;
            if (i >= v.end && ++head < b.group)
                i = v.begin;
        }
        while (i >= v.end) {
            own = !own;
            if (!own)
                seg = next_segment();
            if (seg == b.a.nseg)
                return false;
            v = view_of(seg, own);
            i = v.begin;
            head = 0;
        }
        return true;
    }
    __device__ pairs now() const
    {
        view v = view_of(seg, own);

        return {min(B, v.end - i), v.low, v.high, v.ahead + i};
    }
    __device__ void fetch(T *to) const
    {
        view v = view_of(seg, own);

        fetch_queries(b, to, kv_head * b.group + head, (size_t)v.row + i,
                      min(B, v.end - i));
    }
};

template <int STAGES, class T, int HD>
static __device__ __forceinline__ void
grad_of_keys(const grad_block<T, HD> &b, int key0, int kv_head)
{
    using S = backward<T, HD>;
    constexpr int B = S::B, LD = S::LD, LP = S::LP;
    passing_queries<T, HD> queries(b, key0, kv_head);
    bn_attn_seg all = {};
    scope c = {};
    float dk[S::HALF / 8][4], dv[S::HALF / 8][4];

    clear(dk);
    clear(dv);
    c.end = b.a.nkv; /* all keys, whatever segments they are in */
    c.kv = (size_t)kv_head * b.a.hd;
    fetch_keys<T, HD, B>(b.stays, b.a, all, c, key0, b.wide);
    pass_by<T, HD, STAGES>(queries, b.passes,
                           [&](const pairs &m, const T *passed) {
        make_scores<true>(b, m, passed, b.stays);
        __syncthreads();
        mul_n<true, B>(dv, b.p + b.r0, LP, passed + S::SECOND + b.c0, LD);
        mul_n<true, B>(dk, b.ds + b.r0, LP, passed + b.c0, LD);
    });
    put_result(b.stays + b.r0 * LD + b.c0, LD, dk);
    put_result(b.stays + S::SECOND + b.r0 * LD + b.c0, LD, dv);
    __syncthreads();
    auto row = [&](void *p, int ld, int i) {
        return key0 + i < b.a.nkv ? (T *)p + c.kv + (size_t)(key0 + i) * ld
                                  : (T *)NULL;
    };
    write_rows<T, HD, B>(b.stays, b.a.hd, b.wide,
                         [&](int i) { return row(b.g.dk, b.a.ldk, i); });
    write_rows<T, HD, B>(b.stays + S::SECOND, b.a.hd, b.wide,
                         [&](int i) { return row(b.g.dv, b.a.ldv, i); });
}

/* What passes queries: the keys that any of them sees. */
template <class T, int HD> struct passing_keys {
    static constexpr int B = backward<T, HD>::B;
    const grad_block<T, HD> &b;
    const bn_attn_seg s;
    const scope c;
    int j;

    __device__ passing_keys(const grad_block<T, HD> &block, tile me, int head)
        : b(block), s(b.a.seg[me.seg]), c(scope_of(b.a, s, me, head, B, B)),
          j(c.begin - B)
    {
    }
    __device__ bool next()
    {
        j += B;
        return j < c.end;
    }
    __device__ pairs now() const
    {
        return {c.rows, 0, c.end - j, c.first - j};
    }
    __device__ void fetch(T *to) const
    {
        fetch_keys<T, HD, B>(to, b.a, s, c, j, b.wide);
    }
};

template <int STAGES, class T, int HD>
static __device__ __forceinline__ void
grad_of_queries(const grad_block<T, HD> &b, tile me, int head)
{
    using S = backward<T, HD>;
    constexpr int B = S::B, LD = S::LD, LP = S::LP;
    passing_keys<T, HD> keys(b, me, head);
    const scope &c = keys.c;
    T *to = (T *)b.g.dq + (size_t)head * b.a.hd;
    float dq[S::HALF / 8][4];

    clear(dq);
    fetch_queries(b, b.stays, head, c.row0, c.rows);
    pass_by<T, HD, STAGES>(keys, b.passes,
                           [&](const pairs &m, const T *passed) {
        make_scores<false>(b, m, b.stays, passed);
        __syncthreads();
        mul_n<false, B>(dq, b.ds + b.r0 * LP, LP, passed + b.c0, LD);
    });
    put_result(b.stays + b.r0 * LD + b.c0, LD, dq);
    __syncthreads();
    write_rows<T, HD, B>(b.stays, b.a.hd, b.wide, [&](int i) {
        return i < c.rows ? to + (c.row0 + i) * b.a.ldq : (T *)NULL;
    });
}

/* Blocks of keys come first: they have the most to do. Of both the heads of
 * one tile follow each other. */
template <class T, int HD, int STAGES>
static __global__ void
__launch_bounds__(backward<T, HD>::WARPS *WARP, backward<T, HD>::BLOCKS)
attn_grad(bn_attn a, bn_attn_grad g, const tile *tiles, const float *sums,
          int of_keys, int group, bool wide)
{
    using S = backward<T, HD>;
    BN_SHARED_DYN(T, stays);
    T *passes = stays + S::TILE, *p = passes + STAGES * S::TILE;
    int warp = (int)threadIdx.x / WARP, k = (int)blockIdx.x;
    const grad_block<T, HD> b
        = {a, g, sums, group, wide, stays, passes, p, p + S::B * S::LP,
           warp % (S::B / 16) * 16, warp / (S::B / 16) * S::HALF};

    if (k < of_keys) {
        grad_of_keys<STAGES>(b, k / a.kv_heads * S::B, k % a.kv_heads);
        return;
    }
    k -= of_keys;
    tile me = tiles[k / a.heads];
    if (me.seg >= 0)
        grad_of_queries<STAGES>(b, me, k % a.heads);
}

/* What the kernel needs beside its inputs: the tiles of queries, and sums. */
template <class T>
static void prepare(const struct bn_attn *a, const struct bn_attn_grad *g,
                    void *stream)
{
    struct bn_attn arg = *a;
    const T *d_o = (const T *)g->d_o;
    float *sums = work_sums(a);
    unsigned blocks = blocks_for((size_t)a->nq * a->heads, SUM_WARPS);

    BN_LAUNCH(attn_sums<T>, blocks, SUM_WARPS * WARP, 0, stream, sums, arg,
              d_o);
    bn_attn_tiles(a, query_rows<T>::n, stream);
}

template <class T, int HD, int STAGES>
static int launch(const struct bn_attn *a, const struct bn_attn_grad *g,
                  void *stream)
{
    using S = backward<T, HD>;
    struct bn_attn arg = *a;
    struct bn_attn_grad grad = *g;
    const tile *tiles = work_tiles(a);
    const float *sums = work_sums(a);
    int group = a->heads / a->kv_heads;
    bool any = a->nq > 0 && a->nseg > 0;
    bool wide = wide_heads<T>(a) && vector_rows<T>(g->d_o, a->ldo)
                && vector_rows<T>(g->dq, a->ldq)
                && vector_rows<T>(g->dk, a->ldk)
                && vector_rows<T>(g->dv, a->ldv);
    int of_keys = (a->nkv + S::B - 1) / S::B * a->kv_heads;
    int blocks = of_keys + (any ? most_tiles(a, S::B) * a->heads : 0);
    constexpr size_t shared = S::shared(STAGES);
    int rc = BN_ALLOW_SHARED((attn_grad<T, HD, STAGES>), shared);

    static_assert((shared + 1024) * S::BLOCKS <= BN_SHARED_MAX + 1024,
                  "does not fit");
    if (rc != 0 || blocks == 0)
        return rc;
    if (any)
        prepare<T>(a, g, stream);
    BN_LAUNCH((attn_grad<T, HD, STAGES>), (unsigned)blocks, S::WARPS * WARP,
              shared, stream, arg, grad, tiles, sums, of_keys, group, wide);
    return status();
}

/* With one stage on devices that have no room for two. */
template <class T, int HD>
static int fit(const struct bn_attn *a, const struct bn_attn_grad *g,
               void *stream)
{
    using S = backward<T, HD>;

    if constexpr (S::STAGES > 1 && S::shared(S::STAGES) > BN_SHARED_LEAST)
        if (S::shared(S::STAGES) > shared_most())
            return launch<T, HD, 1>(a, g, stream);
    return launch<T, HD, S::STAGES>(a, g, stream);
}

int bn_attn_grad_cuda(enum bn_dtype t, const struct bn_attn *a,
                      const struct bn_attn_grad *g, void *stream)
{
    return with_type(t, [&](auto e) {
        using T = decltype(e);

        return with_head_dim(a->hd, [&](auto hd) {
            return fit<T, decltype(hd)::n>(a, g, stream);
        });
    });
}
