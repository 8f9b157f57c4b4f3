#include "config.h"
#include "loss/loss.h"

#include <math.h>

/* loss = - sum of smoothed log p / targets; nll_loss without smoothing. */
static int eval(const struct bn_loss_params *p, const struct bn_seqs *s,
                const struct bn_loss_denom *d, double *dlogp, double *metrics,
                long *clamped, struct bn_err *err)
{
    (void)p;
    (void)clamped;
    for (size_t i = 0; i < s->n; i++) {
        if (!isfinite(s->smooth[i]))
            return bn_fail(err, BN_ERR_NUMERIC,
                           "log-probability of sequence %zu is %g", i,
                           s->smooth[i]);
        metrics[0] -= s->smooth[i] / d->tokens;
        metrics[1] -= s->logp[i] / d->tokens;
        metrics[2] += s->hits[i] / d->tokens;
        if (dlogp != NULL)
            dlogp[i] = -1 / d->tokens;
    }
    return 0;
}

static void count(const struct bn_seqs *s, struct bn_loss_denom *d)
{
    for (size_t i = 0; i < s->n; i++)
        d->tokens += s->ntok[i];
    d->examples += (double)s->n;
}

const struct bn_loss bn_loss_sft = {
    .name = "sft",
    .group = 1,
    .additive = true,
    .nkeys = 3,
    .keys = {"loss", "nll_loss", "mean_token_accuracy"},
    .eval = eval,
    .count = count,
};
