/* What forward and backward attention share: who sees whom, tiles of queries,
 * and the layout of the scratch memory.
 *
 * The keys of a segment are numbered j = 0, 1, ...: its prefix, then its own.
 * With query i at position p_len + q_off + i, key j is at position j, and the
 * query sees it if j <= position (and position - j < window). So a segment is
 * plain causal attention, whose keys lie in two pieces of memory.
 */
#ifndef BN_KERNELS_CUDA_ATTN_H
#define BN_KERNELS_CUDA_ATTN_H

#include "kernels/attn.h"
#include "kernels/cuda/attn_work.h"
#include "kernels/cuda/cu.h"
#include "kernels/cuda/tile.h"

using tile = bn_attn_tile;

/* Rows of a tile of queries, and in backward of keys, by the type. */
template <class T> struct query_rows;
template <> struct query_rows<bf16> {
    static constexpr int n = 64;
};
template <> struct query_rows<float> {
    static constexpr int n = BN_ATTN_TILE_ROWS;
};

/* Single queries to a cache take a way of their own. */
bool bn_attn_decodes(const struct bn_attn *a);
int bn_attn_decode_cuda(enum bn_dtype t, const struct bn_attn *a,
                        void *stream);

/* The scratch memory: attn_work.h. */
static inline tile *work_tiles(const struct bn_attn *a)
{
    return (tile *)a->work;
}
static inline float *work_sums(const struct bn_attn *a)
{
    return (float *)((char *)a->work + bn_attn_tiles_bytes(a));
}

static inline float *work_parts(const struct bn_attn *a)
{
    return (float *)a->work;
}
/* Enqueue the kernel that fills the tiles. */
void bn_attn_tiles(const struct bn_attn *a, int rows, void *stream);

static __device__ __forceinline__ bool sees(int position, int j, int window)
{
#ifdef BN_MUTANT_MASK
    return j < position && (window <= 0 || position - j < window);
#else
    return j <= position && (window <= 0 || position - j < window);
#endif
}

/* The row of k and v where key j lies. */
static __device__ __forceinline__ int key_row(const bn_attn_seg &s, int j)
{
    return j < s.p_len ? s.p_start + j : s.k_start + j - s.p_len;
}

/* A tile of queries of one head, and the keys that any of them sees. */
struct scope {
    int rows;       /* of the tile */
    int first;      /* position of the first query */
    int begin, end; /* keys, from a multiple of the tile of keys */
    size_t row0;    /* row of the first query */
    size_t kv;      /* column of the head in rows of k and v */
};

static __device__ __forceinline__ scope scope_of(const bn_attn &a,
                                                 const bn_attn_seg &s,
                                                 tile t, int head, int rows,
                                                 int keys)
{
    scope c;

    c.rows = min(rows, s.q_len - t.first);
    c.first = s.p_len + s.q_off + t.first;
    c.end = min(s.p_len + s.k_len, c.first + c.rows);
    c.begin = a.window > 0 ? max(0, c.first - a.window + 1) / keys * keys : 0;
    c.row0 = (size_t)s.q_start + t.first;
    c.kv = (size_t)(head / (a.heads / a.kv_heads)) * a.hd;
    return c;
}

/* Begin to copy keys j0 to j0 + BN - 1 (those from 'end' on as zeros): BN
 * rows of k, then BN of v. */
template <class T, int HD, int BN>
static __device__ __forceinline__ void
fetch_keys(T *to, const bn_attn &a, const bn_attn_seg &s, const scope &c,
           int j0, bool wide)
{
    const T *k = (const T *)a.k + c.kv, *v = (const T *)a.v + c.kv;

    fetch_rows<T, HD, BN>(to, k, a.hd, wide, [&](int i) {
        return j0 + i < c.end ? k + (size_t)key_row(s, j0 + i) * a.ldk : NULL;
    });
    fetch_rows<T, HD, BN>(to + BN * padded_ld<T, HD>::n, v, a.hd, wide,
                          [&](int i) {
        return j0 + i < c.end ? v + (size_t)key_row(s, j0 + i) * a.ldv : NULL;
    });
}

/* exp for probabilities: of two in bf16, whose result is rounded anyway. */
template <class T> static __device__ __forceinline__ float soft_exp(float x)
{
    return sizeof(T) == 2 ? exp2f(x * 1.44269504f) : expf(x);
}

static __device__ __forceinline__ float no_score()
{
    return __int_as_float((int)0xff800000u); /* -inf */
}

/* Rows of q, k, v, o and so on can be moved by 16 bytes. */
template <class T> static inline bool wide_heads(const struct bn_attn *a)
{
    constexpr int V = 16 / (int)sizeof(T);

    return a->hd % V == 0 && vector_rows<T>(a->q, a->ldq)
           && vector_rows<T>(a->k, a->ldk) && vector_rows<T>(a->v, a->ldv)
           && vector_rows<T>(a->o, a->ldo);
}

/* f(constant) with the smallest head dimension that kernels are made for and
 * that holds hd: what is beyond hd is zero. */
template <int N> struct constant {
    static constexpr int n = N;
};
template <class F> static inline int with_head_dim(int hd, F f)
{
    if (hd <= 16)
        return f(constant<16>());
    if (hd <= 32)
        return f(constant<32>());
    if (hd <= 64)
        return f(constant<64>());
    if (hd <= 80)
        return f(constant<80>());
    if (hd <= 96)
        return f(constant<96>());
    if (hd <= 128)
        return f(constant<128>());
    if (hd <= 256)
        return f(constant<256>());
    return BN_INVALID;
}

#endif
