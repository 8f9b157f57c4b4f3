/* Loading weights; used by trainer.c only. */
#ifndef BN_TRAIN_LOAD_H
#define BN_TRAIN_LOAD_H

#include "train/trainer.h"

/* Fill the model's weights (and the optimizer's masters) from the folder the
 * run names, or at random with its seed. */
int bn_trainer_load(struct bn_trainer *t, struct bn_err *err);

#endif
