/* Which metrics of an evaluation can say what is best. */
#include "config.h"
#include "conf/key.h"

#include "base/mem.h"

#include <string.h>

static const char *const sft[] = {"loss", "nll_loss", "mean_token_accuracy",
                                  NULL};
static const char *const orpo[] = {
    "loss", "nll_loss", "log_odds_ratio", "log_odds_chosen",
    "rewards/chosen", "rewards/rejected", "rewards/margins",
    "rewards/accuracies", "logps/chosen", "logps/rejected", NULL};

const char *const *bn_conf_metrics(enum bn_run_task task)
{
    return task == BN_RUN_TASK_SFT ? sft : orpo;
}

/* A loss, and how likely a rejected answer is, should fall. */
bool bn_conf_metric_rises(const char *name)
{
    static const char *const falls[] = {"loss", "nll_loss",
                                        "rewards/rejected",
                                        "logps/rejected"};

    for (size_t i = 0; i < BN_COUNT(falls); i++)
        if (strcmp(falls[i], name) == 0)
            return false;
    return true;
}
