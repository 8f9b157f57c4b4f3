/* Do the ranks of a launcher find each other? What `burnish doctor` runs. */
#ifndef BN_TRAIN_PING_H
#define BN_TRAIN_PING_H

#include "base/err.h"

/* Boot, make a communicator, meet 10 times, compare clocks with rank 0; rank
 * 0 prints one JSON object on standard output:
 *   ranks, nodes
 *   boot_seconds, barrier_seconds (the mean of 10)
 *   skew_seconds   the clock that is furthest from rank 0's, signed
 *   skew_error     half of that round trip: how far off the figure may be
 *   skew_host
 *   gpus, gpu      visible ones, or why there is none, as rank 0 sees it
 * Every wait ends after 'timeout' seconds. Collective. */
int bn_ping(double timeout, struct bn_err *err);

#endif
