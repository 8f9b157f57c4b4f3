#include "kernels/cuda/attn.h"

/* Attention of single queries to long caches, as in generation: bound by
 * reading k and v, which is done once for all heads of a group, by many
 * blocks a query. Each block leaves a part of the softmax (largest score, sum
 * relative to it, sum of v) and a second kernel joins the parts in order. */

enum { WARPS = 4, MOST_GROUP = 8, NONE = 2 /* floats before a part's sum */ };

bool bn_attn_decodes(const struct bn_attn *a)
{
    if (a->nseg > BN_DECODE_ROWS || a->heads / a->kv_heads > MOST_GROUP
        || a->hd > 256)
        return false;
    for (int s = 0; s < a->nseg; s++)
        if (a->host_seg[s].q_len > 1)
            return false;
    return true;
}

static __device__ __forceinline__ float *part_of(float *parts, const bn_attn &a,
                                                 int row, int head, int split)
{
    return parts + (((size_t)row * a.heads + head) * BN_DECODE_SPLITS + split)
                   * (a.hd + NONE);
}

/* Columns lane * E ... of a row of head dimension hd. */
template <int E, class T>
static __device__ __forceinline__ void load_row(float (&f)[E], const T *p,
                                                int hd, bool wide)
{
    int c = lane_id() * E;

    if (wide && c + E <= hd) {
        load(f, p + c);
        return;
    }
    BN_UNROLL
    for (int e = 0; e < E; e++)
        f[e] = c + e < hd ? to_float(p[c + e]) : 0.0f;
}

/* What one warp, then one block, knows of a head. */
template <int E> struct partial {
    float top, sum, acc[E];
};

template <int E>
static __device__ __forceinline__ void rescale(partial<E> *p, float top)
{
    float k = p->top == top ? 1.0f : expf(p->top - top);

    p->top = top;
    p->sum *= k;
    BN_UNROLL
    for (int e = 0; e < E; e++)
        p->acc[e] *= k;
}

/* One block a segment, kv head and part of its keys; a warp takes every
 * fourth key. */
template <class T, int E>
static __global__ void __launch_bounds__(WARPS *WARP)
attn_decode(bn_attn a, float *parts, bool wide)
{
    BN_SHARED(float, left, WARPS *(WARP * E + NONE));
    bn_attn_seg sg = a.seg[blockIdx.x];
    int kvh = (int)blockIdx.y, split = (int)blockIdx.z;
    int warp = (int)threadIdx.x / WARP, lane = lane_id();
    int group = a.heads / a.kv_heads, position = sg.p_len + sg.q_off;
    int end = min(sg.p_len + sg.k_len, position + 1);
    int begin = a.window > 0 ? max(0, position - a.window + 1) : 0;
    const T *k = (const T *)a.k + (size_t)kvh * a.hd;
    const T *v = (const T *)a.v + (size_t)kvh * a.hd;
    float q[MOST_GROUP][E];
    partial<E> mine[MOST_GROUP];

    if (sg.q_len == 0)
        return;
    int each = (max(end - begin, 0) + BN_DECODE_SPLITS - 1)
               / BN_DECODE_SPLITS;
    begin += split * each;
    end = min(end, begin + each);
    BN_UNROLL
    for (int h = 0; h < MOST_GROUP; h++) {
        mine[h].top = no_score();
        mine[h].sum = 0;
        BN_UNROLL
        for (int e = 0; e < E; e++)
            q[h][e] = mine[h].acc[e] = 0;
        if (h < group)
            load_row(q[h], (const T *)a.q + (size_t)sg.q_start * a.ldq
                               + (size_t)(kvh * group + h) * a.hd,
                     a.hd, wide);
    }
    for (int j = begin + warp; j < end; j += WARPS) {
        size_t row = (size_t)key_row(sg, j);
        float x[E], y[E];

        load_row(x, k + row * a.ldk, a.hd, wide);
        load_row(y, v + row * a.ldv, a.hd, wide);
        BN_UNROLL
        for (int h = 0; h < MOST_GROUP; h++) {
            float s = 0;

            if (h >= group)
                break;
            BN_UNROLL
            for (int e = 0; e < E; e++)
                s += q[h][e] * x[e];
            s = warp_sum(s) * a.scale;
            if (s > mine[h].top)
                rescale(&mine[h], s);
            float p = s == no_score() ? 0.0f : expf(s - mine[h].top);
            mine[h].sum += p;
            BN_UNROLL
            for (int e = 0; e < E; e++)
                mine[h].acc[e] += p * y[e];
        }
    }
    BN_UNROLL
    for (int h = 0; h < MOST_GROUP; h++) {
        float *to = left + warp * (WARP * E + NONE);

        if (h >= group)
            break;
        __syncthreads(); /* the head before is joined */
        if (lane == 0) {
            to[0] = mine[h].top;
            to[1] = mine[h].sum;
        }
        BN_UNROLL
        for (int e = 0; e < E; e++)
            to[NONE + lane * E + e] = mine[h].acc[e];
        __syncthreads();
        float *out = part_of(parts, a, (int)blockIdx.x, kvh * group + h,
                             split);
        float top = no_score();
        for (int w = 0; w < WARPS; w++)
            top = fmaxf(top, left[w * (WARP * E + NONE)]);
        /* Of no keys the sums are 0; one that is NaN must not become that. */
        float base = top == no_score() ? 0.0f : top;
        for (int c = (int)threadIdx.x - NONE; c < a.hd;
             c += (int)blockDim.x) {
            float s = 0;

            for (int w = 0; w < WARPS; w++) {
                const float *p = left + w * (WARP * E + NONE);

                s += expf(p[0] - base) * p[c == -1 ? 1 : NONE + max(c, 0)];
            }
            out[c + NONE] = c == -2 ? top : s;
        }
    }
}

/* One warp a segment and head. */
template <class T>
static __global__ void attn_join(bn_attn a, float *parts)
{
    bn_attn_seg sg = a.seg[blockIdx.x];
    int head = (int)blockIdx.y;
    float top = no_score(), sum = 0;

    if (sg.q_len == 0)
        return;
    for (int i = 0; i < BN_DECODE_SPLITS; i++)
        top = fmaxf(top, part_of(parts, a, (int)blockIdx.x, head, i)[0]);
    float base = top == no_score() ? 0.0f : top;
    for (int i = 0; i < BN_DECODE_SPLITS; i++) {
        const float *p = part_of(parts, a, (int)blockIdx.x, head, i);

        sum += expf(p[0] - base) * p[1];
    }
    T *o = (T *)a.o + (size_t)sg.q_start * a.ldo + (size_t)head * a.hd;
    for (int c = lane_id(); c < a.hd; c += WARP) {
        float s = 0;

        for (int i = 0; i < BN_DECODE_SPLITS; i++) {
            const float *p = part_of(parts, a, (int)blockIdx.x, head, i);

            s += expf(p[0] - base) * p[NONE + c];
        }
        from_float(o[c], sum == 0 ? 0.0f : s / sum);
    }
    if (lane_id() == 0)
        a.lse[(size_t)head * a.nq + sg.q_start]
            = sum == 0 ? no_score() : top + logf(sum);
}

template <class T, int E>
static int launch(const struct bn_attn *a, void *stream)
{
    struct bn_attn arg = *a;
    float *parts = work_parts(a);
    bool wide = a->hd % E == 0 && wide_heads<T>(a);
    dim3 grid((unsigned)a->nseg, (unsigned)a->kv_heads, BN_DECODE_SPLITS);
    dim3 join((unsigned)a->nseg, (unsigned)a->heads);

    BN_LAUNCH((attn_decode<T, E>), grid, WARPS * WARP, 0, stream, arg, parts,
              wide);
    BN_LAUNCH(attn_join<T>, join, WARP, 0, stream, arg, parts);
    return status();
}

int bn_attn_decode_cuda(enum bn_dtype t, const struct bn_attn *a,
                        void *stream)
{
    return with_type(t, [&](auto e) {
        using T = decltype(e);

        if (a->hd <= 32)
            return launch<T, 1>(a, stream);
        if (a->hd <= 64)
            return launch<T, 2>(a, stream);
        if (a->hd <= 128)
            return launch<T, 4>(a, stream);
        return launch<T, 8>(a, stream);
    });
}
