/* Losses as pure functions of per-sequence log-probability sums: no logits,
 * no devices, no I/O. A new preference loss is one C file and a line in
 * registry.c.
 */
#ifndef BN_LOSS_LOSS_H
#define BN_LOSS_LOSS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Sequences as a loss sees them, in groups of loss->group. */
struct bn_seqs {
    size_t n;           /* sequences; a multiple of the group */
    const double *logp; /* [n] sum of log p over the targets */
    /* [n] the same sums with label smoothing, (1 - s) log p(target) + s *
     * mean over the vocabulary of log p; == logp where there is none */
    const double *smooth;
    const int *ntok; /* [n] targets summed over */
    const int *hits; /* [n] targets that were the most likely token */
};

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

enum { BN_LOSS_MAX_KEYS = 12, BN_LOSS_MAX_GROUP = 3 };

struct bn_loss {
    const char *name;
    int group; /* sequences an example: 1 or 3 (prompt, chosen, rejected) */
    /* The loss is a sum over tokens, so dlogp does not depend on the sums
     * and a sequence may be evaluated in pieces. */
    bool additive;
    int nkeys;
    const char *keys[BN_LOSS_MAX_KEYS]; /* TRL's names; keys[0] is "loss" */

    /* Add this micro-batch's share of every key to metrics[nkeys], and set
     * dlogp[i] = dL/d smooth[i] (dlogp may be NULL). Shares are divided by
     * 'd' already: shares of a step's micro-batches and ranks add up to the
     * step's value. *clamped (may be NULL) += sequences bounded by x_max.
     * Non-finite sums are an error of class numeric naming the sequence.
     * Local. */
    int (*eval)(const struct bn_loss_params *p, const struct bn_seqs *s,
                const struct bn_loss_denom *d, double *dlogp,
                double *metrics, long *clamped, struct bn_err *err);
    /* Add the targets and examples of 's' (only ntok is read) to 'd'. */
    void (*count)(const struct bn_seqs *s, struct bn_loss_denom *d);
};

extern const struct bn_loss bn_loss_sft;
extern const struct bn_loss bn_loss_orpo;

/* By name; NULL if there is none. */
const struct bn_loss *bn_loss_find(const char *name);

/* The odds-ratio term of one pair (arXiv 2403.07691, eq. 4, 6, 7), without
 * its weight: x are mean log-probabilities < 0;
 *   log_odds = (xw - xl) - (log1mexp(xw) - log1mexp(xl))
 *   ratio = log sigmoid(log_odds)
 *   dxw = -d ratio / d xw and dxl likewise (so they are d loss / d x).
 * Exact to double rounding over the whole range of doubles. */
struct bn_odds {
    double log_odds, ratio, dxw, dxl;
};
struct bn_odds bn_odds_ratio(double xw, double xl);

#endif
