#include "config.h"
#include "kernels/score.h"

#include <math.h>

/* What the logits of a row come to, over the shards of the vocabulary. */
struct row {
    double max, lse, total;
};

static struct row row_of(const struct bn_score_stats *s, int i)
{
    struct row r = {.max = -INFINITY};
    double sum = 0;

    for (int k = 0; k < s->shards; k++)
        r.max = fmax(r.max, (double)s->max[(size_t)k * s->stride + (size_t)i]);
    for (int k = 0; k < s->shards; k++) {
        size_t at = (size_t)k * s->stride + (size_t)i;

        sum += s->sum[at] * exp((double)s->max[at] - r.max);
        r.total += s->smoothing > 0 ? (double)s->total[at] : 0;
    }
    r.lse = r.max + log(sum);
    return r;
}

static double logit_of(const struct bn_score_stats *s, int e)
{
    double x = 0;

    for (int k = 0; k < s->shards; k++)
        x += s->logit[(size_t)k * s->stride + (size_t)e];
    return x;
}

void bn_score_logp_ref(const struct bn_score_stats *s, float *lse,
                       const struct bn_score_values *v)
{
    double k = s->smoothing;

    for (int i = 0; i < s->rows; i++) {
        struct row r = row_of(s, i);
        double mean = k > 0 ? r.total / s->vocab - r.lse : 0;

        lse[i] = (float)r.lse;
        for (int e = s->row_ptr[i]; v != NULL && e < s->row_ptr[i + 1]; e++) {
            double x = logit_of(s, e), lp = x - r.lse;

            v->logp[e] = lp;
            v->smooth[e] = (1 - k) * lp + k * mean;
            v->hit[e] = x >= r.max;
        }
    }
}

void bn_score_sums_ref(double *sums, size_t stride, int first, int n,
                       const struct bn_score_range *r,
                       const struct bn_score_values *v)
{
    for (int e = r->begin; e < r->end; e++) {
        int q = r->seq[e];

        if (q < first || q >= first + n)
            continue;
        sums[q] += v->logp[e];
        sums[stride + (size_t)q] += v->smooth[e];
        sums[2 * stride + (size_t)q] += v->hit[e];
    }
}

void bn_score_spread_ref(float *g, const double *dlogp,
                         const struct bn_score_range *r)
{
    for (int e = r->begin; e < r->end; e++)
        g[e] = (float)dlogp[r->seq[e]];
}
