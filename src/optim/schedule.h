/* The learning rate as a function of the step alone. */
#ifndef BN_OPTIM_SCHEDULE_H
#define BN_OPTIM_SCHEDULE_H

#include <stdbool.h>

enum bn_schedule_type {
    BN_SCHED_LINEAR,
    BN_SCHED_COSINE,
    BN_SCHED_CONSTANT,
    BN_SCHED_WSD, /* warm-up, stable, then decay */
};

struct bn_schedule {
    enum bn_schedule_type type;
    double lr;        /* peak */
    double min_ratio; /* of the peak, where the decay ends */
    long warmup;      /* steps */
    bool warmup_one;  /* step 0 has lr / warmup, else 0 as in transformers */
    long decay;       /* wsd: steps of decay at the end */
    bool decay_cosine; /* wsd: the decay's form, else linear */
    long total;       /* steps of the run */
};

/* The rate of optimizer step 'step' (from 0). With w warm-up steps and
 * s < w: lr * s / w (warmup_one: lr * (s + 1) / w); after that with
 * u = (s - w) / (total - w): linear 1 - u, cosine (1 + cos(pi u)) / 2, each
 * between the peak and min_ratio of it; wsd: 1 until the last 'decay' steps,
 * then 1 - r or (1 + cos(pi r)) / 2, r the part of the decay that is over. At
 * or past 'total' the final value. */
double bn_schedule_lr(const struct bn_schedule *s, long step);

#endif
