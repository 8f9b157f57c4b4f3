/* The engine of the stand-in for NCCL: a thread, the only one that knows MPI,
 * does the jobs it is given, one after the other.
 */
#ifndef BN_COMM_TEST_NCCL_ENGINE_H
#define BN_COMM_TEST_NCCL_ENGINE_H

#include "base/err.h"
#include "comm/comm.h"
#include "comm/nccl_emu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind {
    INIT,
    SPLIT,
    FREE,
    ALLREDUCE,
    REDUCE_SCATTER,
    REDUCE,
    ALLGATHER,
    BCAST,
    SENDRECV
};

struct bn_emu_nccl {
    struct bn_comm *c; /* the engine's */
    int rank, size;
    bool world; /* its end is the engine's */
    _Atomic ncclResult_t state;
    _Atomic bool aborted;
    char text[sizeof(((struct bn_err *)0)->text)];
    pthread_t owner;
    struct job *deferred; /* the stream is not free for it yet */
};

struct job {
    enum kind kind;
    struct bn_emu_nccl *comm, *made;
    ncclComm_t *newcomm; /* of SPLIT: where 'made' goes */
    int color, key, to, from;
    int64_t id;
    const void *src; /* device memory */
    void *dst;
    char *in, *out;
    size_t in_bytes, out_bytes, n;
    enum bn_dtype type;
    enum bn_comm_op op;
    cudaStream_t stream;
    atomic_bool done;
    bool failed;
    struct job *next;
    struct job *rest; /* of its group, begun with it */
};

/* The job is the engine's until it is done: those that nobody watches (INIT,
 * SPLIT) it frees, of others it sets 'done', or for one that failed 'failed'
 * and the state of its communicator. */
void bn_emu_nccl_give(struct job *j);
/* After a job FREE whose key is not 0, the engine's last: wait for its end. */
void bn_emu_nccl_join(void);

#endif
