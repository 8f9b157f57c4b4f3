/* Pieces of a step that evaluation uses too. */
#ifndef BN_TRAIN_STEP_H
#define BN_TRAIN_STEP_H

#include "train/trainer.h"

/* A batch of examples index[n] of 'set'. */
int bn_step_batch(const struct bn_trainer *t, const struct bn_tokens *set,
                  const uint64_t *index, int n, struct bn_batch *b,
                  struct bn_err *err);
/* Add the targets and examples of example i of 'set' to 'd'. */
void bn_step_count(const struct bn_trainer *t, const struct bn_tokens *set,
                   uint64_t i, struct bn_loss_denom *d);

#endif
