/* End and remove what jobs that are over left behind on this machine: only
 * what is provably this user's, of this installation, and stale.
 *
 * A process is ended if all of this holds, read from /proc and proved again
 * through a pidfd just before the signal:
 *  - it runs as this user;
 *  - its executable is a program of this installation;
 *  - it was started by a Slurm job of this cluster (SLURM_JOB_ID, and
 *    SLURM_CONF and SLURM_CLUSTER_NAME where both sides have them);
 *  - that job is not in the queue; or it is pending there and the process
 *    was born before we asked; or it is our own job and the process belongs
 *    to an earlier start of it (SLURM_RESTART_COUNT).
 * If Slurm cannot be asked, no process is ended.
 *
 * Removed, if owned by this user: segments of NCCL and Open MPI in /dev/shm
 * that no process has open or mapped and that are older than 'min_age';
 * spmix_appdir_* of jobs that are not in the queue; pid.N folders in
 * ompi.HOST.UID whose process is gone; MPS folders of jobs that are not in
 * the queue, after "quit" to their own sockets; locks of the token cache
 * whose owner is known to be gone. The locks of a sweep and of a run's folder
 * are the kernel's (flock): they end with their holder, and the files that
 * stay are in nobody's way.
 */
#ifndef BN_SWEEP_CLEAN_H
#define BN_SWEEP_CLEAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct bn_clean {
    bool act;             /* false: only say what would be done */
    double grace;         /* seconds from TERM to KILL */
    double min_age;       /* seconds; of /dev/shm segments */
    const char *bin;      /* folder of this installation's programs */
    const char *shm;      /* /dev/shm */
    const char *const *tmp; /* folders to look for session folders in */
    size_t ntmp;
    const char *cache;    /* the token cache */
    /* Results. */
    size_t ended, removed, left; /* left: was to be ended and could not */
    struct bn_str said;   /* a line for each thing done, or left and why */
};

/* Clean. -1 if Slurm could not be asked (the rest is done all the same). */
int bn_clean_run(struct bn_clean *c, struct bn_err *err);

/* After bn_clean_run: the port to use in place of 'port', which is 'port'
 * itself if nobody listens there (any more). Says who holds it otherwise. */
int bn_clean_port(struct bn_clean *c, int port, struct bn_err *err);

#endif
