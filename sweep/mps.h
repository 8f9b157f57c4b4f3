/* One MPS daemon a job, with a pipe and a log folder named after the job,
 * judged only by its own control socket. Nothing here looks for a process.
 */
#ifndef BN_SWEEP_MPS_H
#define BN_SWEEP_MPS_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum bn_mps_state {
    BN_MPS_NONE, /* no folder */
    BN_MPS_UP,   /* its control socket answers */
    BN_MPS_DOWN, /* a folder, and nobody behind the socket */
    BN_MPS_HUNG, /* there is a socket, and no answer in time */
};

/* malloc'ed: ROOT/burnish-mps-UID-JOB, or with ".2", ".3" behind it for
 * attempts after a hung daemon (attempt 1 has none). */
char *bn_mps_dir(const char *root, const char *job, int attempt);

/* Ask the daemon of 'dir'; at most 'seconds'. */
enum bn_mps_state bn_mps_ask(const char *dir, double seconds);

/* Have a daemon for 'job': the one that is up, or a new one. A hung one is
 * left alone and the next folder used; 'said' gets a line for each such
 * thing. Returns its folder, malloc'ed, or NULL. Class data if there is no
 * nvidia-cuda-mps-control. */
char *bn_mps_start(const char *root, const char *job, double seconds,
                   struct bn_str *said, struct bn_err *err);
/* Tell the daemon of 'dir' to quit and remove the folder once it is down. A
 * hung one is left with its folder: class again. */
int bn_mps_stop(const char *dir, double seconds, struct bn_err *err);

#endif
