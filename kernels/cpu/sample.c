#include "config.h"
#include "kernels/sample.h"
#include "kernels/cpu/cpu.h"

#include <stdbool.h>

BN_CPU_DECLARE(sample);
BN_CPU_DECLARE(sample_work);

struct choice {
    double logit;
    int32_t id;
};

/* One row's scratch, [vocab] each; used by one row after the other. */
struct scratch {
    double *logit;
    uint64_t *weight;
    struct choice *choice;
};

size_t BN_CPU(sample_work)(int vocab, int rows)
{
    (void)rows;
    return (size_t)vocab * (sizeof(double) + sizeof(uint64_t)
                            + sizeof(struct choice));
}

/* From the logit itself, so that ids seen twice are penalised once. */
static void penalise(double *logit, const float *x, double penalty,
                     const int32_t *seen, int n)
{
    for (int i = 0; i < n; i++) {
        double l = (double)x[seen[i]];

        logit[seen[i]] = l > 0 ? l / penalty : l * penalty;
    }
}

/* The first of the greatest; -1 if there is a NaN or it is not finite. */
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

static void weigh(uint64_t *weight, const double *logit, double top,
                  double temperature, int n)
{
    double unit = bn_sample_unit(n);

#pragma omp parallel for simd schedule(static) if (n > BN_CPU_SMALL)
    for (int i = 0; i < n; i++)
        weight[i] = bn_sample_weight((logit[i] - top) / temperature, unit);
}

static bool before(const struct choice *a, const struct choice *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

/* Restore the heap (most likely at 0) below i. */
static void sift(struct choice *c, int n, int i)
{
    struct choice x = c[i];

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

/* Sort the most likely of 'n' choices to the front, 'most' of them or as many
 * as hold 'enough'; returns how many. */
static int keep(struct choice *c, const uint64_t *weight, int n, int most,
                uint64_t enough)
{
    uint64_t sum = 0;
    int taken = 0;

    for (int i = n / 2 - 1; i >= 0; i--)
        sift(c, n, i);
    while (taken < most && taken < n && sum < enough) {
        struct choice top = c[0];
        int last = n - ++taken;

        sum += weight[top.id];
        c[0] = c[last];
        c[last] = top;
        if (last > 0)
            sift(c, last, 0);
    }
    for (int i = 0; i < n / 2; i++) { /* they are at the end, in reverse */
        struct choice x = c[i];

        c[i] = c[n - 1 - i];
        c[n - 1 - i] = x;
    }
    return taken;
}

static uint64_t weight_of(const struct choice *c, const uint64_t *weight,
                          int n)
{
    uint64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += weight[c[i].id];
    return sum;
}

/* The draw among what is likely enough, in the order of the choices. */
static int32_t draw(const struct choice *c, const uint64_t *weight, int n,
                    uint64_t least, double u)
{
    uint64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += weight[c[i].id] >= least ? weight[c[i].id] : 0;
    uint64_t at = bn_sample_point(u, sum);
    for (int i = 0; i < n; i++) {
        uint64_t w = weight[c[i].id];

        if (w < least)
            continue;
        if (at < w)
            return c[i].id;
        at -= w;
    }
    return -1; /* never: at is less than the sum */
}

static int32_t row_token(const struct bn_sample *s, const float *x, int vocab,
                         const int32_t *seen, int nseen, double u,
                         const struct scratch *z)
{
    double unit = bn_sample_unit(vocab);
    int n = vocab;

    for (int i = 0; i < vocab; i++)
        z->logit[i] = (double)x[i];
    if (s->repetition_penalty != 1)
        penalise(z->logit, x, s->repetition_penalty, seen, nseen);
    int best = greatest(z->logit, vocab);
    if (best < 0 || s->temperature == 0)
        return best;
    weigh(z->weight, z->logit, z->logit[best], s->temperature, vocab);
    for (int i = 0; i < vocab; i++)
        z->choice[i] = (struct choice){z->logit[i], i};
    if (s->top_k > 0 && s->top_k < n)
        n = keep(z->choice, z->weight, n, s->top_k, UINT64_MAX);
    if (s->top_p < 1)
        n = keep(z->choice, z->weight, n, n,
                 bn_sample_share(s->top_p, weight_of(z->choice, z->weight,
                                                     n)));
    return draw(z->choice, z->weight, n,
                bn_sample_share(s->min_p, (uint64_t)unit), u);
}

void BN_CPU(sample)(const struct bn_sample *s, const struct bn_sample_rows *r,
                    int32_t *token, void *work)
{
    size_t n = (size_t)r->vocab;
    struct scratch z = {.logit = work};

    z.weight = (uint64_t *)(z.logit + n);
    z.choice = (struct choice *)(void *)(z.weight + n);
    for (int i = 0; i < r->rows; i++) {
        int from = r->seen_ptr[i], nseen = r->seen_ptr[i + 1] - from;
        const int32_t *seen = nseen > 0 ? r->seen + from : NULL;

        token[i] = row_token(s, r->logits + (size_t)i * (size_t)r->ld,
                             r->vocab, seen, nseen, r->u[i], &z);
    }
}
