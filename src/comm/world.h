/* The MPI world that groups share, and waiting in it; used by comm_mpi.c
 * only. MPI carries messages between pairs of ranks and nothing else: that
 * keeps the order of sums ours, and tells who is missing.
 */
#ifndef BN_COMM_WORLD_H
#define BN_COMM_WORLD_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

#include "comm/comm.h"
#include "comm/peer.h"

enum { BN_COMM_PIECE = 256 << 10 }; /* bytes of a message of a collective */

struct bn_later;

struct bn_world {
    int rank, size;
    double timeout;
    bool threads; /* MPI may be called by several, one at a time */
    /* Held by who calls MPI once groups have threads (later.h), and for what
     * stands below 'why'. */
    pthread_mutex_t lock;
    struct bn_watch watch; /* all NULL: none */
    struct bn_peer *peer;       /* [size]; zero until they are exchanged */
    int next_tag; /* every group has its own, so messages never mix */
    struct bn_later *later; /* is waited for, too; or NULL */
    atomic_bool broken; /* a wait has failed: messages may be anywhere */
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

/* Mark the world as failed by 'why', unless it is already, or by a call of MPI
 * that returned 'code' ("cannot send to" "rank 3: ..."). The lock is held. */
void bn_world_break(struct bn_world *w, const struct bn_err *why);
void bn_world_failed(struct bn_world *w, int code, const char *what,
                     int rank);

/* Start a message of bytes <= INT_MAX; failures show in bn_world_wait. */
void bn_world_send(struct bn_world *w, const void *buf, size_t bytes,
                   int rank, int tag);
void bn_world_recv(struct bn_world *w, void *buf, size_t bytes, int rank,
                   int tag);
/* Wait for all that were started. 'what' names the operation in messages. */
int bn_world_wait(struct bn_world *w, const char *what, struct bn_err *err);

#endif
