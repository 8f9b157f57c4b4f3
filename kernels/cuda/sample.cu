#include "kernels/sample.h"
#include "kernels/cuda/cu.h"

enum { THREADS = 512, BINS = 256 };

/* --- the order of tokens -------------------------------------------------- */

/* Likelier tokens, and of equal ones lower ids, come first: in the order of
 * the digits of 8 bits that make up a place: how far the logit is from the
 * greatest in 256 steps, which spreads tokens over the bins; the bits of the
 * logit; the id. The first is a monotone function of the logit, so that it
 * changes no order. */
struct place {
    unsigned far;
    uint64_t key;
    unsigned id;
};

/* A place up to some digit: the bits below are masked. With no digits, every
 * place is at it. */
struct cut {
    place at, mask;
};

static __device__ __forceinline__ cut no_cut()
{
    return {{0, 0, 0}, {0, 0, 0}};
}

static __device__ __forceinline__ bool is_at(const cut &c, const place &p)
{
    return (p.far & c.mask.far) == c.at.far && (p.key & c.mask.key) == c.at.key
           && (p.id & c.mask.id) == c.at.id;
}

static __device__ __forceinline__ bool is_up_to(const cut &c, const place &p)
{
    unsigned far = p.far & c.mask.far;
    uint64_t key = p.key & c.mask.key;

    if (far != c.at.far)
        return far < c.at.far;
    if (key != c.at.key)
        return key < c.at.key;
    return (p.id & c.mask.id) <= c.at.id;
}

enum { DIGITS = 1 + 8 + 4 };

static __device__ __forceinline__ unsigned digit_of(const place &p, int d)
{
    if (d == 0)
        return p.far;
    if (d <= 8)
        return (unsigned)(p.key >> (8 * (8 - d))) & 255u;
    return p.id >> (8 * (12 - d)) & 255u;
}

static __device__ __forceinline__ void append(cut *c, int d, unsigned digit)
{
    if (d == 0) {
        c->at.far = digit;
        c->mask.far = 255u;
    } else if (d <= 8) {
        c->at.key |= (uint64_t)digit << (8 * (8 - d));
        c->mask.key |= (uint64_t)255 << (8 * (8 - d));
    } else {
        c->at.id |= digit << (8 * (12 - d));
        c->mask.id |= 255u << (8 * (12 - d));
    }
}

/* --- one row -------------------------------------------------------------- */

struct row {
    const double *logit; /* [vocab] penalised */
    int32_t *list;       /* [n] what is left, in any order; NULL: all */
    int n;
    double top, temperature, unit;
    cut last;            /* of the tokens left in the list */
    uint64_t least;      /* weights below count as 0 */
};

static __device__ __forceinline__ place place_of(const row &r, unsigned id)
{
    double l = r.logit[id], d = (r.top - l) / r.temperature * (256 / 45.0);
    uint64_t bits;

    l += 0.0; /* no negative zero */
    memcpy(&bits, &l, sizeof(bits));
    bits = bits >> 63 != 0 ? bits : ~bits & ~(UINT64_C(1) << 63);
    return {d < 255 ? (unsigned)d : 255u, bits, id};
}

/* Token i of those left: its place, and whether it is left at all. */
static __device__ __forceinline__ bool left(const row &r, int i, place *p)
{
    *p = place_of(r, r.list != NULL ? (unsigned)r.list[i] : (unsigned)i);
    return is_up_to(r.last, *p);
}

static __device__ __forceinline__ uint64_t weight_of(const row &r, unsigned id)
{
    uint64_t w = bn_sample_weight((r.logit[id] - r.top) / r.temperature,
                                  r.unit);

    return w >= r.least ? w : 0;
}

/* Sums of up to 2^62 in halves, since 64-bit atomics on shared memory are
 * slow: in any order the same. */
struct bins {
    unsigned low[BINS], high[BINS], many[BINS];
};

static __device__ __forceinline__ void put(bins *b, unsigned d, uint64_t w)
{
    unsigned low = (unsigned)w, was = atomicAdd(&b->low[d], low);
    unsigned high = (unsigned)(w >> 32) + (was + low < was ? 1u : 0u);

    if (high != 0)
        atomicAdd(&b->high[d], high);
    atomicAdd(&b->many[d], 1u);
}

struct step {
    unsigned digit;
    int done;
    uint64_t need;
};

/* Among the bins, the one in which the running sum comes to 'need'. */
static __device__ step look(const bins &b, uint64_t need, bool exact)
{
    uint64_t sum = 0;
    unsigned d = 0;

    for (;; d++) {
        uint64_t mine = (uint64_t)b.high[d] << 32 | b.low[d];

        if (sum + mine >= need || d == BINS - 1)
            return {d, b.many[d] == 1 || (!exact && sum + mine == need),
                    need - sum};
        sum += mine;
    }
}

/* The place at which the running sum of weights (or of tokens, if !weigh), in
 * the order of places, comes to 'need' of those left; at most their sum. Only
 * as many digits as it takes: 'exact' asks for a place that one token has. */
static __device__ cut find(const row &r, bool weigh, bool exact, uint64_t need)
{
    BN_SHARED(bins, b, 1);
    BN_SHARED(step, next, 1);
    cut c = no_cut();

    for (int d = 0; d < DIGITS; d++) {
        for (int i = (int)threadIdx.x; i < BINS; i += THREADS)
            b->low[i] = b->high[i] = b->many[i] = 0;
        __syncthreads();
        for (int i = (int)threadIdx.x; i < r.n; i += THREADS) {
            place p;

            if (!left(r, i, &p) || !is_at(c, p))
                continue;
            uint64_t w = weigh ? weight_of(r, p.id) : 1;
            if (w != 0)
                put(b, digit_of(p, d), w);
        }
        __syncthreads();
        if (threadIdx.x == 0)
            *next = look(*b, need, exact);
#ifndef BN_MUTANT_LOOK
        __syncthreads();
#endif
        append(&c, d, next->digit);
        need = next->need;
        if (next->done)
            break;
    }
    __syncthreads(); /* 'next' may be written by another call */
    return c;
}

/* Keep the tokens up to c: as a list the first time, which is short, and by
 * their places after that. */
static __device__ void keep(row *r, int32_t *list, const cut &c)
{
    BN_SHARED(int, count, 1);

    if (r->list != NULL) {
        r->last = c;
        return;
    }
    if (threadIdx.x == 0)
        *count = 0;
    __syncthreads();
    for (int i = (int)threadIdx.x; i < r->n; i += THREADS)
        if (is_up_to(c, place_of(*r, (unsigned)i)))
            list[atomicAdd(count, 1)] = i;
    __syncthreads();
    r->list = list;
    r->n = *count;
}

/* Over the block; contains barriers. */
static __device__ uint64_t sum_of_weights(const row &r)
{
    BN_SHARED(uint64_t, part, THREADS / WARP);
    uint64_t sum = 0;

    for (int i = (int)threadIdx.x; i < r.n; i += THREADS) {
        place p;

        if (left(r, i, &p))
            sum += weight_of(r, p.id);
    }
    BN_UNROLL
    for (int o = WARP / 2; o > 0; o /= 2)
        sum += __shfl_xor_sync(BN_ALL, sum, o);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < THREADS / WARP; i++)
        sum += part[i];
    return sum;
}

/* The token that 'point' falls into in the order of ids: every thread has a
 * stretch of them. */
static __device__ void draw_by_id(const row &r, uint64_t point, int32_t *token)
{
    BN_SHARED(uint64_t, part, THREADS);
    int each = (r.n + THREADS - 1) / THREADS;
    int begin = min((int)threadIdx.x * each, r.n), end = min(begin + each, r.n);
    uint64_t sum = 0, before = 0;

    for (int i = begin; i < end; i++)
        sum += weight_of(r, (unsigned)i);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned i = 0; i < threadIdx.x; i++)
        before += part[i];
    if (point < before || point >= before + sum)
        return;
    for (int i = begin; i < end; i++) {
        uint64_t w = weight_of(r, (unsigned)i);

        if (point < before + w) {
            *token = i;
            return;
        }
        before += w;
    }
}

static __device__ void draw_by_place(const row &r, uint64_t point,
                                     int32_t *token)
{
    cut c = find(r, true, true, point + 1);

    for (int i = (int)threadIdx.x; i < r.n; i += THREADS) {
        place p;

        if (left(r, i, &p) && is_at(c, p) && weight_of(r, p.id) != 0)
            *token = (int32_t)p.id;
    }
}

/* --- the greatest logit --------------------------------------------------- */

struct best {
    double l;
    int id;
};

static __device__ __forceinline__ best better(best a, best b)
{
    return b.l > a.l || (b.l == a.l && b.id < a.id) ? b : a;
}

/* Over the block; contains barriers. */
static __device__ best block_best(best m)
{
    BN_SHARED(best, part, THREADS / WARP);

    BN_UNROLL
    for (int o = WARP / 2; o > 0; o /= 2) {
        best q;

        q.l = __shfl_xor_sync(BN_ALL, m.l, o);
        q.id = __shfl_xor_sync(BN_ALL, m.id, o);
        m = better(m, q);
    }
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = m;
    __syncthreads();
    m = part[0];
    for (int i = 1; i < THREADS / WARP; i++)
        m = better(m, part[i]);
    return m;
}

/* Penalised logits as double, and the greatest of them; its id is -1 where
 * nothing can be drawn. */
static __device__ best prepare(double *logit, const float *x, int vocab,
                               double penalty, const int32_t *seen, int nseen)
{
    best m = {-HUGE_VAL, vocab};
    int bad = 0;

    for (int i = (int)threadIdx.x; i < vocab; i += THREADS)
        logit[i] = (double)x[i];
    __syncthreads();
    /* From the logit itself: ids seen twice are penalised once. */
    for (int i = (int)threadIdx.x; i < nseen && penalty != 1; i += THREADS) {
        double l = (double)x[seen[i]];

        logit[seen[i]] = l > 0 ? l / penalty : l * penalty;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < vocab; i += THREADS) {
        bad |= isnan(logit[i]);
        m = better(m, {logit[i], i});
    }
    bad = __syncthreads_or(bad);
    m = block_best(m);
    if (bad || !isfinite(m.l))
        m.id = -1;
    return m;
}

static __global__ void sample(bn_sample s, bn_sample_rows rows, int32_t *token,
                              double *logits, int32_t *lists)
{
    size_t at = blockIdx.x, n = (size_t)rows.vocab;
    int from = rows.seen_ptr[at];
    double *logit = logits + at * n;
    best top = prepare(logit, rows.logits + at * (size_t)rows.ld, rows.vocab,
                       s.repetition_penalty, rows.seen + from,
                       rows.seen_ptr[at + 1] - from);

    if (top.id < 0 || s.temperature == 0) {
        if (threadIdx.x == 0)
            token[at] = top.id;
        return;
    }
    row r = {logit, NULL, rows.vocab, top.l, s.temperature,
             bn_sample_unit(rows.vocab), no_cut(), 0};
    bool by_id = s.top_p == 1 && (s.top_k == 0 || s.top_k >= r.n);

    if (s.top_k > 0 && s.top_k < r.n)
        keep(&r, lists + at * n, find(r, false, false, (uint64_t)s.top_k));
    if (s.top_p < 1)
        keep(&r, lists + at * n,
             find(r, true, false, bn_sample_share(s.top_p,
                                                  sum_of_weights(r))));
    r.least = bn_sample_share(s.min_p, (uint64_t)r.unit);
    uint64_t point = bn_sample_point(rows.u[at], sum_of_weights(r));
    if (by_id)
        draw_by_id(r, point, token + at);
    else
        draw_by_place(r, point, token + at);
}

size_t bn_sample_work_cuda(int vocab, int rows)
{
    return (size_t)vocab * (size_t)rows * (sizeof(double) + sizeof(int32_t));
}

int bn_sample_cuda(const struct bn_sample *s, const struct bn_sample_rows *r,
                   int32_t *token, void *work, void *stream)
{
    struct bn_sample how = *s;
    struct bn_sample_rows rows = *r;
    double *logits = (double *)work;
    int32_t *lists = (int32_t *)(logits + (size_t)r->rows * r->vocab);

    if (r->rows == 0)
        return 0;
    BN_LAUNCH(sample, (unsigned)r->rows, THREADS, 0, stream, how, rows, token,
              logits, lists);
    return status();
}
