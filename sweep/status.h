/* Where every point of a sweep is. */
#ifndef BN_SWEEP_STATUS_H
#define BN_SWEEP_STATUS_H

#include <jansson.h>

#include "base/str.h"
#include "sweep/state.h"

struct bn_status {
    struct bn_look look;
    int ranks;            /* that have said a word; 0: none */
    int size;             /* ranks that there are; 0: not known */
    char phase[16];       /* of the slowest rank; "" */
    long step;            /* of the slowest rank; -1: not known */
    int slowest;          /* that rank */
    int silent;           /* ranks not heard of for 'patience' seconds */
    int silent_rank;      /* one of them */
    double silent_since;  /* its last word */
    double tokens_per_second, eta; /* seconds; 0: not known */
    int error_rank;       /* -1: the line is from the log */
    char error[480];      /* last error line, or "" */
};

/* Fill v[s->n]. patience: seconds without a word after which a rank of a
 * running point is silent. If the queue cannot be asked, 'notes' says so and
 * the rest is as far as files tell. */
void bn_status_read(const struct bn_sweep *s, double patience,
                    struct bn_status *v, struct bn_str *notes);

/* A table for people, with error lines below it. */
void bn_status_table(const struct bn_sweep *s, const struct bn_status *v,
                     struct bn_str *out);
/* {"name", "points": [{"name", "state", ...}]}; the caller owns it. */
json_t *bn_status_json(const struct bn_sweep *s, const struct bn_status *v);

#endif
