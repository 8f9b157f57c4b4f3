#include "config.h"
#include "model/sample.h"

#include "base/mem.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

int bn_sample_check(const struct bn_sample *s, struct bn_err *err)
{
    if (!(s->temperature >= 0 && isfinite(s->temperature)))
        return bn_fail(err, BN_ERR_USAGE, "temperature is %g; it must be 0 "
                       "(most likely token) or more", s->temperature);
    if (s->top_k < 0)
        return bn_fail(err, BN_ERR_USAGE,
                       "top-k is %d; it must be 0 (no limit) or more",
                       s->top_k);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return bn_fail(err, BN_ERR_USAGE,
                       "top-p is %g; it must be above 0 and at most 1",
                       s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return bn_fail(err, BN_ERR_USAGE, "min-p is %g; it must be in 0 to 1",
                       s->min_p);
    if (!(s->repetition_penalty > 0 && isfinite(s->repetition_penalty)))
        return bn_fail(err, BN_ERR_USAGE, "repetition-penalty is %g; it must "
                       "be above 0 (1: none)", s->repetition_penalty);
    return 0;
}

void bn_sampler_init(struct bn_sampler *z, int vocab)
{
    *z = (struct bn_sampler){.vocab = vocab};
    z->logit = BN_NEWN(double, (size_t)vocab);
    z->choice = BN_NEWN(struct bn_choice, (size_t)vocab);
    z->mark = BN_NEWN(uint64_t, (size_t)vocab);
}

void bn_sampler_release(struct bn_sampler *z)
{
    free(z->logit);
    free(z->choice);
    free(z->mark);
    *z = (struct bn_sampler){0};
}

/* Each id counts once, however often it was seen. */
static void penalize(struct bn_sampler *z, double penalty,
                     const int32_t *seen, int n)
{
    z->stamp++;
    for (int i = 0; i < n; i++) {
        double *l = &z->logit[seen[i]];

        if (z->mark[seen[i]] == z->stamp)
            continue;
        z->mark[seen[i]] = z->stamp;
        *l = *l > 0 ? *l / penalty : *l * penalty;
    }
}

/* The first of the greatest; -1 if there is a NaN or nothing is finite. */
static int greatest(const double *l, int n)
{
    int best = 0;

    for (int i = 0; i < n; i++) {
        if (isnan(l[i]))
            return -1;
        if (l[i] > l[best])
            best = i;
    }
    return isfinite(l[best]) ? best : -1;
}

static bool before(const struct bn_choice *a, const struct bn_choice *b)
{
    return a->weight > b->weight || (a->weight == b->weight && a->id < b->id);
}

/* Restore the heap (most likely at 0) below i. */
static void sift(struct bn_choice *c, int n, int i)
{
    struct bn_choice x = c[i];

    for (;;) {
        int k = 2 * i + 1;

        if (k + 1 < n && before(&c[k + 1], &c[k]))
            k++;
        if (k >= n || !before(&c[k], &x))
            break;
        c[i] = c[k];
        i = k;
    }
    c[i] = x;
}

/* Sort the first of 'n' choices to the end of the array, the most likely
 * last, until there are 'most' or they weigh 'enough'; returns how many. */
static int take(struct bn_choice *c, int n, int most, double enough)
{
    double sum = 0;
    int taken = 0;

    for (int i = n / 2 - 1; i >= 0; i--)
        sift(c, n, i);
    while (taken < most && taken < n && sum < enough) {
        struct bn_choice top = c[0];
        int last = n - ++taken;

        sum += top.weight;
        c[0] = c[last];
        c[last] = top;
        if (last > 0)
            sift(c, last, 0);
    }
    return taken;
}

static double weight_of(const struct bn_choice *c, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += c[i].weight;
    return sum;
}

/* Leave the 'most' heaviest, or the fewest that hold 'enough', at the front,
 * the heaviest first. */
static int keep(struct bn_choice *c, int n, int most, double enough)
{
    int taken = take(c, n, most, enough);

    for (int i = 0; i < n / 2; i++) {
        struct bn_choice x = c[i];

        c[i] = c[n - 1 - i];
        c[n - 1 - i] = x;
    }
    return taken;
}

int bn_sample_choices(struct bn_sampler *z, const struct bn_sample *s,
                      const float *logits, const int32_t *seen, int nseen,
                      struct bn_err *err)
{
    struct bn_choice *c = z->choice;
    int n = 0;

    for (int i = 0; i < z->vocab; i++)
        z->logit[i] = (double)logits[i];
    if (s->repetition_penalty != 1)
        penalize(z, s->repetition_penalty, seen, nseen);
    int best = greatest(z->logit, z->vocab);
    if (best < 0)
        return bn_fail(err, BN_ERR_NUMERIC, "logits are not finite");
    if (s->temperature == 0) {
        c[0] = (struct bn_choice){1, best};
        return 1;
    }
    for (int i = 0; i < z->vocab; i++) {
        double w = exp((z->logit[i] - z->logit[best]) / s->temperature);

        if (w > 0)
            c[n++] = (struct bn_choice){w, i};
    }
    if (s->top_k > 0 && s->top_k < n)
        n = keep(c, n, s->top_k, INFINITY);
    if (s->top_p < 1)
        n = keep(c, n, n, s->top_p * weight_of(c, n));
    if (s->min_p > 0) {
        int left = 0;

        for (int i = 0; i < n; i++)
            if (c[i].weight >= s->min_p)
                c[left++] = c[i];
        n = left;
    }
    return n;
}

int32_t bn_sample_pick(struct bn_sampler *z, const struct bn_sample *s,
                       const float *logits, const int32_t *seen, int nseen,
                       double u, struct bn_err *err)
{
    int n = bn_sample_choices(z, s, logits, seen, nseen, err), i = 0;

    if (n < 0)
        return -1;
    double at = u * weight_of(z->choice, n);
    while (i < n - 1 && at >= z->choice[i].weight)
        at -= z->choice[i++].weight;
    return z->choice[i].id;
}
