/* The device on which a program computes. */
#ifndef BN_TRAIN_DEVICE_H
#define BN_TRAIN_DEVICE_H

#include "conf/conf.h"
#include "ops/ops.h"

struct bn_device_want {
    enum bn_run_device kind; /* auto: a GPU if there is one */
    int rank, local_rank;    /* on a node with several GPUs, which one */
    int threads;             /* of the CPU; 0: those allowed */
    bool strict;             /* a GPU leaves nothing to the CPU */
    bool graphs;             /* nor may it, for steps are made graphs */
    bool quiet;              /* do not say why auto took the CPU */
};

/* NULL on failure: BN_ERR_USAGE if a GPU is asked for and there is none. */
struct bn_dev *bn_device_open(const struct bn_device_want *w,
                              struct bn_err *err);
/* Log what a GPU was asked for, if it was one, and destroy (NULL: nothing). */
void bn_device_close(struct bn_dev *d);

#endif
