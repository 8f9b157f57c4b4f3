/* What /proc says of processes: enough to prove whose one is, and to signal
 * that very one and never a later owner of its pid. Linux only.
 */
#ifndef BN_SWEEP_PROC_H
#define BN_SWEEP_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct bn_proc {
    pid_t pid;
    uid_t uid;      /* real */
    char state;     /* R S D Z T ... */
    uint64_t start; /* clock ticks since boot: with pid, an identity */
    double born;    /* seconds since 1970 */
    char *exe;      /* path, without " (deleted)"; "" if not readable */
    char *env;      /* NUL-separated, or "" if not readable */
    size_t env_len;
};

/* Fill 'p' for a live process. -1 without an error text if there is none
 * (any more). 'p' is to be released if 0. */
int bn_proc_read(struct bn_proc *p, pid_t pid);
void bn_proc_release(struct bn_proc *p);
/* The value of an environment variable it was started with, or NULL. */
const char *bn_proc_env(const struct bn_proc *p, const char *name);

/* All processes of 'uid', by pid. malloc'ed array of '*n'. */
struct bn_proc *bn_proc_list(uid_t uid, size_t *n);
void bn_proc_list_free(struct bn_proc *v, size_t n);

/* A handle (pidfd) on the process that 'p' describes: -1 if that one is
 * gone, even when its pid is in use again. Close it with close(2). */
int bn_proc_open(const struct bn_proc *p);
/* Send a signal through the handle. 0, or -1 if it is gone. */
int bn_proc_signal(int handle, int sig);
/* Wait until it ended: true, or false after 'seconds'. */
bool bn_proc_wait(int handle, double seconds);

/* Which process listens on a TCP port: 1 and '*pid' (0: one that we may not
 * look into) with its '*uid', or 0 if nobody does. */
int bn_port_holder(int port, pid_t *pid, uid_t *uid);
/* A TCP port of this host nobody listens on, from 'from' upwards; 0: none.
 */
int bn_port_free(int from);

/* Whether any process that we may look into has 'path' open or mapped. */
bool bn_file_in_use(const char *path);

#endif
