#include "config.h"

#include "sweep/hand.h"

#include <pthread.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "sweep/slurmlib.h"
#include "sweep/state.h"
#include "sweep/submit.h"

enum {
    MANY = 4,  /* jobs from which on libslurm is worth its start */
    HANDS = 4, /* submissions on their way at a time: what hides the waits for
                * munged and slurmctld, and no more than a few users' sbatch
                * would do to them */
};

struct row {
    const struct bn_sweep *s;
    const struct bn_hand *v;
    size_t n;
    uint32_t tokenize;
    struct bn_slurmlib *lib;
    bool chain;
    pthread_mutex_t lock; /* of all below */
    size_t next, points;
    uint32_t last; /* chain: the job before */
    bool failed;
    struct bn_err err;
};

/* Before Slurm can start them: a start after this line is the new one's. */
static int announce(const struct row *r, const struct bn_hand *h,
                    struct bn_err *err)
{
    char line[48];
    int rc = 0;
    snprintf(line, sizeof(line), "submit %.0f\n", bn_wall_time());
    for (size_t k = 0; rc == 0 && k < h->n; k++)
        rc = bn_history_add(r->s, &r->s->points[h->points[k]], line, false,
                            err);
    return rc;
}

/* Through the library where it is of use, else sbatch. */
static int submit(struct bn_slurmlib *lib, const struct bn_submission *sub,
                  uint32_t *job, struct bn_err *err)
{
    int rc = lib ? bn_slurmlib_submit(lib, sub, job, err) : 0;
    return rc == 0 ? bn_slurm_submit(sub, job, err) : rc > 0 ? 0 : -1;
}

static int hand_one(const struct row *r, const struct bn_hand *h,
                    uint32_t *job, struct bn_err *err)
{
    struct bn_submission sub = { .script = h->script,
                                 .after_ok = r->tokenize,
                                 .after_any = *job };
    if (announce(r, h, err) < 0 || submit(r->lib, &sub, job, err) < 0)
        return -1;
    if (bn_records_add(r->s, h->points, h->n, *job,
                       r->s->launch == BN_LAUNCH_ARRAY, r->tokenize, err) < 0) {
        bn_err_prefix(err, "job %u was submitted but not recorded", *job);
        return -1;
    }
    return 0;
}

/* Take one after the other until none is left or one has failed. */
static void take_turns(void *arg, int index)
{
    struct row *r = arg;
    struct bn_err err;

    (void)index;
    pthread_mutex_lock(&r->lock);
    while (!r->failed && r->next < r->n) {
        const struct bn_hand *h = &r->v[r->next++];
        uint32_t job = r->chain ? r->last : 0;

        pthread_mutex_unlock(&r->lock);
        int rc = hand_one(r, h, &job, &err);
        pthread_mutex_lock(&r->lock);
        if (rc == 0) {
            r->points += h->n;
            r->last = job;
        } else if (!r->failed) {
            r->failed = true;
            r->err = err;
        }
    }
    pthread_mutex_unlock(&r->lock);
}

int bn_hand_over(const struct bn_sweep *s, const struct bn_hand *v, size_t n,
                 uint32_t tokenize, bool chain, size_t *points,
                 struct bn_err *err)
{
    struct row r = { .s = s, .v = v, .n = n, .tokenize = tokenize,
                     .chain = chain, .lock = PTHREAD_MUTEX_INITIALIZER };
    double begin = bn_now();

    r.lib = n >= MANY ? bn_slurmlib_open() : NULL;
    bn_parallel(chain || n < MANY ? 1 : HANDS, take_turns, &r);
    bn_slurmlib_close(r.lib);
    bn_debug("handed %zu jobs to Slurm in %.4f s", n, bn_now() - begin);
    *points = r.points;
    if (r.failed)
        *err = r.err;
    return r.failed ? -1 : 0;
}
