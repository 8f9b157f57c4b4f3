/* The MPI world that groups share, and waiting in it; used by comm_mpi.c
 * only. MPI carries messages between pairs of ranks and nothing else: that
 * keeps the order of sums ours, and tells who is missing.
 */
#ifndef BN_COMM_WORLD_H
#define BN_COMM_WORLD_H

#include <mpi.h>

#include "comm/comm.h"
#include "comm/peer.h"

struct bn_world {
    int rank, size;
    double timeout;
    struct bn_watch watch; /* all NULL: none */
    struct bn_peer *peer;       /* [size]; zero until they are exchanged */
    int next_tag; /* every group has its own, so messages never mix */
    bool broken;  /* a wait has failed: messages may be anywhere */
    struct bn_err why;
    /* requests in flight */
    MPI_Request *req;
    int *to; /* the world rank at the other end of each */
    int n, cap;
};

/* Initialise MPI and meet. NULL on failure. */
struct bn_world *bn_world_open(int rank, int size, double timeout,
                               const struct bn_watch *watch,
                               struct bn_err *err);
/* Meet once more and finalise MPI; of a broken world only the memory is
 * released. */
void bn_world_close(struct bn_world *w);

/* Start a message of bytes <= INT_MAX; failures show in bn_world_wait. */
void bn_world_send(struct bn_world *w, const void *buf, size_t bytes,
                   int rank, int tag);
void bn_world_recv(struct bn_world *w, void *buf, size_t bytes, int rank,
                   int tag);
/* Wait for all that were started. 'what' names the operation in messages. */
int bn_world_wait(struct bn_world *w, const char *what, struct bn_err *err);

#endif
