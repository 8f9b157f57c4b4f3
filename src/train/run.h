/* A whole run, from the run file to the last record. */
#ifndef BN_TRAIN_RUN_H
#define BN_TRAIN_RUN_H

#include "base/err.h"
#include "conf/conf.h"

enum bn_train_flags {
    BN_TRAIN_CHECK = 1,     /* do everything but train */
    BN_TRAIN_EVAL_ONLY = 2, /* evaluate the model as it is, and print */
};

/* Train (or only check, or only evaluate). Writes metrics.jsonl, checkpoints
 * and, at the end, the Hugging Face folder output_dir/model. A stop signal
 * saves a checkpoint (save_on_signal) and is an error of class again.
 * Collective. */
int bn_train_run(const struct bn_run *run, unsigned flags,
                 struct bn_err *err);

#endif
