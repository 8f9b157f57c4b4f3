/* Whether the process behind a rank still runs, where that can be seen. */
#ifndef BN_COMM_PEER_H
#define BN_COMM_PEER_H

#include <stdbool.h>
#include <stdint.h>

/* Names a process as long as its machine is up. */
struct bn_peer {
    uint64_t host; /* the running kernel and its space of process ids */
    int64_t pid;
    uint64_t born; /* start time: process ids are used again */
};

struct bn_peer bn_peer_self(void);
/* True only if 'p' ran on this host and is gone (or a zombie). */
bool bn_peer_gone(const struct bn_peer *p, uint64_t this_host);

#endif
