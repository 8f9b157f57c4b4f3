/* Hand jobs to Slurm and record their ids. */
#ifndef BN_SWEEP_HAND_H
#define BN_SWEEP_HAND_H

#include "sweep/sweep.h"

/* A job to be: its script, and the points that it runs. */
struct bn_hand {
    char *script;
    const size_t *points; /* [n] by index */
    size_t n;
};

/* Submit v[0..n). A point's history says so before Slurm can start it, and
 * its id is recorded as soon as Slurm gives it. All wait for the job
 * 'tokenize' (0: none); with 'chain' each waits for the one before to end as
 * well. Many go through libslurm where it can be used, several at a time, so
 * that ids need not rise in the order of the points. '*points' counts those
 * that are in Slurm, after an error too: the first one ends the row, less
 * what is on its way. */
int bn_hand_over(const struct bn_sweep *s, const struct bn_hand *v, size_t n,
                 uint32_t tokenize, bool chain, size_t *points,
                 struct bn_err *err);

#endif
