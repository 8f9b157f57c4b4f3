/* Pieces of a step that evaluation uses too. */
#ifndef BN_TRAIN_STEP_H
#define BN_TRAIN_STEP_H

#include "train/trainer.h"

/* A batch of examples index[n] of 'set'. */
int bn_step_batch(const struct bn_trainer *t, const struct bn_tokens *set,
                  const uint64_t *index, int n, struct bn_batch *b,
                  struct bn_err *err);
/* Add the batch's targets and examples to 'd'. */
void bn_step_count(const struct bn_loss *loss, const struct bn_batch *b,
                   struct bn_loss_denom *d);
/* Append the places of a batch's rows: "a.jsonl:3, a.jsonl:9". */
void bn_step_where(const struct bn_tokens *set, const struct bn_batch *b,
                   struct bn_str *out);
/* Sum v[n] over the data-parallel ranks. Collective. */
int bn_step_sum(const struct bn_mesh *mesh, double *v, size_t n,
                struct bn_err *err);

/* The same of metrics[BN_LOSS_MAX_KEYS], which only the last stage of a
 * pipeline has: every rank gets them. Collective. */
int bn_step_sum_metrics(const struct bn_mesh *mesh, double *metrics,
                        struct bn_err *err);

#endif
