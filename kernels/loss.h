/* Losses as functions of per-sequence sums of log-probabilities, one example
 * at a time: the same code in every back end, so that a loss is evaluated
 * where the sums are.
 */
#ifndef BN_KERNELS_LOSS_H
#define BN_KERNELS_LOSS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define BN_LOSS_FN static __host__ __device__ inline
#else
#define BN_LOSS_FN static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { BN_LOSS_MAX_KEYS = 12, BN_LOSS_MAX_GROUP = 3 };

/* NONE: log-probabilities alone, which are looked at for NaN and Inf. */
enum bn_loss_kind { BN_LOSS_NONE, BN_LOSS_SFT, BN_LOSS_ORPO };

/* What the sums are divided by: counted over all ranks and micro-batches of
 * the step before anything is scaled. */
struct bn_loss_denom {
    double tokens;   /* targets of the NLL */
    double examples; /* sequences (sft) or pairs (preference) */
};

struct bn_loss_params {
    double beta;  /* orpo: weight of the odds-ratio term */
    double x_max; /* orpo: mean log p above this (< 0) counts as this, which
                     bounds the gradient where p rounds to 1; 0: no bound */
};

/* What is wrong with an example; 'value' of sequence 'at' of the example. */
enum bn_loss_fault {
    BN_LOSS_FINE,
    BN_LOSS_SUM,     /* log-probability not finite */
    BN_LOSS_MEAN,    /* mean log-probability not finite, or over no token */
    BN_LOSS_CERTAIN, /* mean log-probability not < 0 */
};

/* The sequences of one example: 1, or prompt, chosen and rejected. */
struct bn_loss_example {
    double logp[BN_LOSS_MAX_GROUP];   /* sum of log p over the targets */
    double smooth[BN_LOSS_MAX_GROUP]; /* the same with label smoothing */
    double hits[BN_LOSS_MAX_GROUP];   /* targets that were the likeliest */
    int ntok[BN_LOSS_MAX_GROUP];      /* targets summed over */
};

/* What it comes to. After a fault only the last three are set. */
struct bn_loss_share {
    double key[BN_LOSS_MAX_KEYS];    /* parts of the metrics, divided already */
    double dlogp[BN_LOSS_MAX_GROUP]; /* dL/d smooth */
    int clamped;                     /* sequences bounded by x_max */
    int fault, at;
    double value;
};

BN_LOSS_FN int bn_loss_group(enum bn_loss_kind kind)
{
    return kind == BN_LOSS_ORPO ? 3 : 1;
}

BN_LOSS_FN void bn_loss_blame(struct bn_loss_share *s,
                              enum bn_loss_fault fault, int at, double value)
{
    s->fault = fault;
    s->at = at;
    s->value = value;
}

/* --- sft ----------------------------------------------------------------- */

/* loss = - sum of smoothed log p / targets; nll_loss without smoothing; the
 * share of targets that were the most likely token. */
BN_LOSS_FN void bn_loss_sft_share(const struct bn_loss_example *e,
                                  const struct bn_loss_denom *d,
                                  struct bn_loss_share *s)
{
    if (!isfinite(e->smooth[0])) {
        bn_loss_blame(s, BN_LOSS_SUM, 0, e->smooth[0]);
        return;
    }
    s->key[0] = -(e->smooth[0] / d->tokens);
    s->key[1] = -(e->logp[0] / d->tokens);
    s->key[2] = e->hits[0] / d->tokens;
    s->dlogp[0] = -1 / d->tokens;
}

/* --- orpo ---------------------------------------------------------------- */

/* The odds-ratio term of one pair (arXiv 2403.07691, eq. 4, 6, 7), without
 * its weight: x are mean log-probabilities < 0;
 *   log_odds = (xw - xl) - (log1mexp(xw) - log1mexp(xl))
 *   ratio = log sigmoid(log_odds)
 *   dxw = -d ratio / d xw and dxl likewise (so they are d loss / d x).
 * Exact to double rounding over the whole range of doubles. */
struct bn_odds {
    double log_odds, ratio, dxw, dxl;
};

/* log(1 - e^x), x < 0: the branch at -ln 2 keeps full precision at both
 * ends (Maechler, "Accurately computing log(1 - exp(-|a|))", 2012). */
BN_LOSS_FN double bn_log1mexp(double x)
{
    return x > -0x1.62e42fefa39efp-1 ? log(-expm1(x)) : log1p(-exp(x));
}

BN_LOSS_FN struct bn_odds bn_odds_ratio(double xw, double xl)
{
    struct bn_odds o;
    double lw = bn_log1mexp(xw), ll = bn_log1mexp(xl);
    double z = (xw - xl) - (lw - ll);
    /* log(1 - sigmoid(z)) = -softplus(z), log sigmoid(z) = -softplus(-z) */
    double soft = z > 0 ? log1p(exp(-z)) : log1p(exp(z)) - z;
    double log_rest = -(soft + z);

    o.log_odds = z;
    o.ratio = -soft;
    /* d log_odds / d x = 1 / (1 - e^x). The factor 1 - sigmoid(z) may be far
     * below the smallest double while the product is not: multiply logs. */
    o.dxw = -exp(log_rest - lw);
    o.dxl = exp(log_rest - ll);
    return o;
}

/* The mean log-probability of an answer, bounded; blames it in 's'. */
BN_LOSS_FN double bn_loss_orpo_mean(const struct bn_loss_params *p,
                                    const struct bn_loss_example *e, int i,
                                    struct bn_loss_share *s)
{
    double x = e->smooth[i] / e->ntok[i];

    if (s->fault != BN_LOSS_FINE)
        return 0;
    if (!isfinite(x) || e->ntok[i] <= 0) {
        bn_loss_blame(s, BN_LOSS_MEAN, i, x);
    } else if (p->x_max < 0 && x > p->x_max) {
        x = p->x_max;
        s->clamped++;
    }
    if (s->fault == BN_LOSS_FINE && !(x < 0))
        bn_loss_blame(s, BN_LOSS_CERTAIN, i, x);
    return x;
}

/* In the order of the names in src/loss/orpo.c. */
BN_LOSS_FN void bn_loss_orpo_share(const struct bn_loss_params *p,
                                   const struct bn_loss_example *e,
                                   const struct bn_loss_denom *d,
                                   struct bn_loss_share *s)
{
    double xw = bn_loss_orpo_mean(p, e, 1, s);
    double xl = bn_loss_orpo_mean(p, e, 2, s);
    /* The prompt's sum is 0 where the NLL spans the answer only. */
    double nll = -(e->smooth[0] + e->smooth[1]), pairs = d->examples;
    double w = p->beta / pairs;
    struct bn_odds o;

    if (s->fault != BN_LOSS_FINE)
        return;
    if (!isfinite(nll)) {
        bn_loss_blame(s, BN_LOSS_SUM, 0, nll);
        return;
    }
    o = bn_odds_ratio(xw, xl);
    s->key[0] = nll / d->tokens - p->beta * o.ratio / pairs;
    s->key[1] = nll / d->tokens;
    s->key[2] = o.ratio / pairs;
    s->key[3] = o.log_odds / pairs;
    s->key[4] = p->beta * xw / pairs;
    s->key[5] = p->beta * xl / pairs;
    s->key[6] = (xw > xl) / pairs;
    s->key[7] = p->beta * (xw - xl) / pairs;
    s->key[8] = xw / pairs;
    s->key[9] = xl / pairs;
    s->dlogp[0] = -1 / d->tokens;
    s->dlogp[1] = -1 / d->tokens + w * o.dxw / e->ntok[1];
    s->dlogp[2] = w * o.dxl / e->ntok[2];
}

/* --- any of them --------------------------------------------------------- */

BN_LOSS_FN void bn_loss_share_of(enum bn_loss_kind kind,
                                 const struct bn_loss_params *p,
                                 const struct bn_loss_example *e,
                                 const struct bn_loss_denom *d,
                                 struct bn_loss_share *s)
{
    struct bn_loss_share none = {{0}, {0}, 0, 0, 0, 0};
    int n = bn_loss_group(kind);

    *s = none;
    for (int i = 0; i < n && s->fault == BN_LOSS_FINE; i++)
        if (!isfinite(e->logp[i]))
            bn_loss_blame(s, BN_LOSS_SUM, i, e->logp[i]);
    if (s->fault != BN_LOSS_FINE)
        return;
    if (kind == BN_LOSS_SFT)
        bn_loss_sft_share(e, d, s);
    else if (kind == BN_LOSS_ORPO)
        bn_loss_orpo_share(p, e, d, s);
}

/* The sums of sequences, [n], n a multiple of the group; device memory. */
struct bn_loss_seqs {
    int n;
    const double *logp, *smooth, *hits;
    const int32_t *ntok;
};

/* What a step comes to; device memory, all zero at first. */
struct bn_loss_acc {
    double metrics[BN_LOSS_MAX_KEYS];
    double clamped; /* sequences bounded by x_max */
    double value;   /* the first fault: what, of which sequence ... */
    int32_t fault;  /* enum bn_loss_fault */
    int32_t batch, seq, ntok;
    float taint; /* 0; NaN after a fault */
    int32_t unused;
};

/* Of each example: add its share to acc->metrics, and set dlogp of its
 * sequences (NULL: not wanted), which is NaN after a fault. The first fault
 * (of the first call that has one) is kept with 'batch' and the number of the
 * sequence, counted from 'first'. acc NULL: dlogp alone. 'denom' is device
 * memory, p host memory; both unused by NONE, which leaves dlogp alone.
 *
 * Shares are added in the order of the examples, in double: the same bits in
 * every back end but for what libm's exp, log, expm1 and log1p round (1e-15
 * relative of a share). Bytes: 28 n.
 */
void bn_loss_ref(enum bn_loss_kind kind, const struct bn_loss_params *p,
                 const struct bn_loss_seqs *s,
                 const struct bn_loss_denom *denom, double *dlogp,
                 struct bn_loss_acc *acc, int batch, int first);
int bn_loss_cuda(enum bn_loss_kind kind, const struct bn_loss_params *p,
                 const struct bn_loss_seqs *s,
                 const struct bn_loss_denom *denom, double *dlogp,
                 struct bn_loss_acc *acc, int batch, int first, void *stream);

#ifdef __cplusplus
}
#endif

#endif
