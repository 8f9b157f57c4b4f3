/* Early stopping by asynchronous successive halving (ASHA; Li et al., "A
 * System for Massively Parallel Hyperparameter Tuning", MLSys 2020): a run
 * that reaches a rung, a step agreed beforehand, tells the other runs of its
 * sweep its metric there and ends unless it is among the best of those that
 * have come so far. Nobody waits for anybody, so it works whatever starts
 * the runs. Files are described in doc/formats/asha.md.
 *
 * Of n runs at a rung, this one included, max (1, n / reduction) go on,
 * rounded down; equals have the same rank. A metric that is not finite never
 * goes on.
 */
#ifndef BN_TRAIN_ASHA_H
#define BN_TRAIN_ASHA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "conf/conf.h"

struct bn_asha_verdict {
    long step;    /* the rung */
    double value; /* of the metric; NaN if not finite */
    int rank, of; /* 1 is best, of the runs at the rung by then */
    bool stop;
};

/* The rule. 'others': finite or not, [n], without 'value' itself. Fills rank,
 * of and stop. Pure. */
void bn_asha_rule(struct bn_asha_verdict *v, double value,
                  const double *others, size_t n, bool rises, int reduction);

/* Whether 'step' is a rung of the run. */
bool bn_asha_is_rung(const struct bn_run *run, long step);

/* Publish the metric of this run at a rung and say what becomes of it. The
 * verdict is on disk, in output_dir, before this returns, and a later call
 * for the same rung (after a preemption) gives it again, whatever others have
 * reached meanwhile. One process of the run calls it. */
int bn_asha_judge(struct bn_asha_verdict *v, const struct bn_run *run,
                  long step, double value, struct bn_err *err);

/* The last verdict in output_dir 'dir'. 1; 0: there is none; -1 (class data)
 * for a broken file. A half-written last line is left out. */
int bn_asha_last(struct bn_asha_verdict *v, const char *dir,
                 struct bn_err *err);

/* Take back what run 'name' has published at any rung of any folder in
 * 'root', since it starts anew. Absent folders are fine. */
int bn_asha_forget(const char *root, const char *name, struct bn_err *err);

#endif
