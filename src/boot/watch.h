/* What is known about ranks from elsewhere than messages (files that they
 * publish), for those that wait for them.
 */
#ifndef BN_BOOT_WATCH_H
#define BN_BOOT_WATCH_H

#include "base/err.h"

enum { BN_WATCH_WHERE = 64 };

/* Both functions may be NULL. */
struct bn_watch {
    /* Where a rank is, "load" or "step 7", into 'out' of BN_WATCH_WHERE
     * bytes; "" if it is not known. */
    void (*where)(void *arg, int rank, char *out);
    /* 0 while the rank may still come, else -1 with an error that names it
     * and has the class of its failure. Asked about once a second. */
    int (*failed)(void *arg, int rank, struct bn_err *err);
    void *arg;
};

#endif
