/* Put the points of a sweep to work. */
#ifndef BN_SWEEP_SUBMIT_H
#define BN_SWEEP_SUBMIT_H

#include "sweep/state.h"
#include "sweep/sweep.h"

/* What Slurm is handed: a script file, and what it waits for. */
struct bn_submission {
    const char *script;
    uint32_t after_ok, after_any; /* jobs to wait for; 0: none */
};
/* Submit; '*job' is its id. */
int bn_slurm_submit(const struct bn_submission *sub, uint32_t *job,
                    struct bn_err *err);

struct bn_submit {
    bool failed_only; /* retry: nothing new, nothing changed */
    const char *const *names; /* only these points; NULL: all */
    size_t nnames;
    /* Results. */
    size_t submitted, done, busy; /* points; busy: in the queue already */
    size_t failed;                /* launch local: points that failed */
};

/* Submit what is new, failed or changed: tokenizing first, one folder a
 * point, scripts parsed back, ids recorded as soon as Slurm gives them. In
 * launch local, run it here. The sweep was checked. One submit of a sweep at
 * a time: another is class again. A changed point's old folder moves to
 * DIR/.burnish/old. */
int bn_submit_run(const struct bn_sweep *s, struct bn_submit *sub,
                  struct bn_err *err);

/* Cancel the queued and running jobs of the sweep (of 'names' if given);
 * '*n' jobs. */
int bn_submit_cancel(const struct bn_sweep *s, const char *const *names,
                     size_t nnames, size_t *n, struct bn_err *err);

/* Run the points here, one after the other. A failed one does not stop the
 * next; a signal for us is passed on and ends the row (class again). */
int bn_local_run(const struct bn_sweep *s, const size_t *points, size_t n,
                 struct bn_submit *sub, struct bn_err *err);

#endif
