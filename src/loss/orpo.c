#include "config.h"
#include "loss/loss.h"

static void count(const int *ntok, size_t n, struct bn_loss_denom *d)
{
    for (size_t i = 0; i + 2 < n; i += 3) {
        d->tokens += ntok[i] + ntok[i + 1];
        d->examples += 1;
    }
}

/* In the order of bn_loss_orpo_share. */
const struct bn_loss bn_loss_orpo = {
    .name = "orpo",
    .kind = BN_LOSS_ORPO,
    .group = 3,
    .nkeys = 10,
    .keys = {"loss", "nll_loss", "log_odds_ratio", "log_odds_chosen",
             "rewards/chosen", "rewards/rejected", "rewards/accuracies",
             "rewards/margins", "logps/chosen", "logps/rejected"},
    .count = count,
};
