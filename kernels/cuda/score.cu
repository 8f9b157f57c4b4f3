#include "kernels/score.h"
#include "kernels/cuda/cu.h"

#include <math.h>

enum { THREADS = 256, NVALUE = 3 };

/* A thread a row: few rows, and few shards. */
static __global__ void score_logp(bn_score_stats s, float *lse,
                                  bn_score_values v)
{
    int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    double top = -HUGE_VAL, sum = 0, total = 0, mean = 0;

    if (i >= s.rows)
        return;
    for (int k = 0; k < s.shards; k++)
        top = fmax(top, (double)s.max[k * s.stride + i]);
    for (int k = 0; k < s.shards; k++) {
        size_t at = k * s.stride + i;

        sum += s.sum[at] * exp((double)s.max[at] - top);
        total += s.smoothing > 0 ? (double)s.total[at] : 0.0;
    }
    double all = top + log(sum);
    if (s.smoothing > 0)
        mean = total / s.vocab - all;
    lse[i] = (float)all;
    if (v.logp == NULL)
        return;
    for (int e = s.row_ptr[i]; e < s.row_ptr[i + 1]; e++) {
        double x = 0;

        for (int k = 0; k < s.shards; k++)
            x += s.logit[k * s.stride + e];
        v.logp[e] = x - all;
        v.smooth[e] = (1 - s.smoothing) * (x - all) + s.smoothing * mean;
        v.hit[e] = x >= top;
    }
}

int bn_score_logp_cuda(const struct bn_score_stats *s, float *lse,
                       const struct bn_score_values *v, void *stream)
{
    struct bn_score_stats stats = *s;
    struct bn_score_values values = {NULL, NULL, NULL};
    unsigned blocks = blocks_for((size_t)s->rows, THREADS);

    if (s->rows == 0)
        return 0;
    if (v != NULL)
        values = *v;
    BN_LAUNCH(score_logp, blocks, THREADS, 0, stream, stats, lse, values);
    return status();
}

/* A block a sequence. Values are staged by all threads, those of others as 0,
 * which changes no sum, and added by one thread a value, in order. */
static __global__ void score_sums(double *sums, size_t stride, int first,
                                  bn_score_range r, bn_score_values v)
{
    BN_SHARED(double, part, NVALUE * THREADS);
    int q = first + (int)blockIdx.x, t = (int)threadIdx.x;
    double sum = t < NVALUE ? sums[t * stride + q] : 0;

    for (int at = r.begin; at < r.end; at += THREADS) {
        int e = at + t;
        bool mine = e < r.end && r.seq[e] == q;

        if (!__syncthreads_or(mine))
            continue;
        part[t] = mine ? v.logp[e] : 0.0;
        part[THREADS + t] = mine ? v.smooth[e] : 0.0;
        part[2 * THREADS + t] = mine ? v.hit[e] : 0.0;
#ifndef BN_MUTANT_STAGE
        __syncthreads();
#endif
        for (int i = 0; t < NVALUE && i < THREADS; i++)
            sum += part[t * THREADS + i];
    }
    if (t < NVALUE)
        sums[t * stride + q] = sum;
}

int bn_score_sums_cuda(double *sums, size_t stride, int first, int n,
                       const struct bn_score_range *r,
                       const struct bn_score_values *v, void *stream)
{
    struct bn_score_range range = *r;
    struct bn_score_values values = *v;

    if (n == 0 || r->begin >= r->end)
        return 0;
    BN_LAUNCH(score_sums, (unsigned)n, THREADS, 0, stream, sums, stride, first,
              range, values);
    return status();
}

static __global__ void score_spread(float *g, const double *dlogp,
                                    bn_score_range r)
{
    int e = r.begin + (int)(blockIdx.x * THREADS + threadIdx.x);

    if (e < r.end)
        g[e] = (float)dlogp[r.seq[e]];
}

int bn_score_spread_cuda(float *g, const double *dlogp,
                         const struct bn_score_range *r, void *stream)
{
    struct bn_score_range range = *r;
    unsigned blocks;

    if (r->begin >= r->end)
        return 0;
    blocks = blocks_for((size_t)(r->end - r->begin), THREADS);
    BN_LAUNCH(score_spread, blocks, THREADS, 0, stream, g, dlogp, range);
    return status();
}
