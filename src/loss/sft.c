#include "config.h"
#include "loss/loss.h"

static void count(const int *ntok, size_t n, struct bn_loss_denom *d)
{
    for (size_t i = 0; i < n; i++)
        d->tokens += ntok[i];
    d->examples += (double)n;
}

const struct bn_loss bn_loss_sft = {
    .name = "sft",
    .kind = BN_LOSS_SFT,
    .group = 1,
    .additive = true,
    .nkeys = 3,
    .keys = {"loss", "nll_loss", "mean_token_accuracy"},
    .count = count,
};
