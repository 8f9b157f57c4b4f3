/* From step results to records: averages between two log lines, the keys of
 * metrics.jsonl, and the progress bar's text.
 */
#ifndef BN_TRAIN_RECORD_H
#define BN_TRAIN_RECORD_H

#include "train/metrics.h"
#include "train/trainer.h"

/* What happened since the last record. */
struct bn_window {
    double sums[BN_LOSS_MAX_KEYS];
    double tokens, flops;
    double seconds; /* in steps, without evaluation and saving */
    long steps;
    double total_tokens; /* in the run so far, resumed ones included */
    double total_examples;
    struct bn_step_result last;
};

void bn_window_add(struct bn_window *w, const struct bn_step_result *r,
                   double seconds);
/* Write the window as a record of kind train and begin a new one. */
int bn_window_write(struct bn_window *w, struct bn_metrics *m,
                    const struct bn_trainer *t, long step, double epoch,
                    struct bn_err *err);
/* A record of kind eval from bn_trainer_eval's metrics. */
int bn_record_eval(struct bn_metrics *m, const struct bn_trainer *t,
                   const double *metrics, double examples, double seconds,
                   long step, double epoch, struct bn_err *err);
/* "loss 2.31, 812 tok/s, 95 GFLOP/s"; 'out' has 160 bytes. */
void bn_window_text(const struct bn_window *w, char *out);
/* The value of a key ("nll_loss", with or without "eval_") among the loss's
 * metrics; false if the loss has no such key. */
bool bn_record_find(const struct bn_trainer *t, const double *metrics,
                    const char *key, double *value);

#endif
