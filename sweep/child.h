/* Run another program to its end: no shell in between. */
#ifndef BN_SWEEP_CHILD_H
#define BN_SWEEP_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct bn_child {
    const char *const *argv; /* NULL-terminated; argv[0] found on PATH */
    const char *const *env;  /* "NAME=value" to set, NULL-terminated, or NULL */
    const char *input;       /* standard input; NULL: nothing */
    size_t input_len;
    double timeout;          /* seconds, then KILL; 0: none */
    /* Results, for bn_child_release. */
    int status;              /* exit status, 128 + signal, or 127 */
    bool timed_out;
    struct bn_str out, err;  /* what it wrote, NUL-terminated */
};

/* Run and wait. 0 whatever the exit status is; -1 if it could not be started
 * (class data) or ran past the timeout (class again). The results are to be
 * released in every case. Thread safe. The process must ignore SIGPIPE if
 * there is input (bn_signals_catch does). */
int bn_child_run(struct bn_child *c, struct bn_err *err);
/* bn_child_run, and -1 too (class data) with the first line of its standard
 * error if the exit status is not 0. */
int bn_child_must(struct bn_child *c, struct bn_err *err);
void bn_child_release(struct bn_child *c);

#endif
