/* Collectives over a group of ranks. Three back ends: self (one rank), mpi
 * (CPU), nccl (GPU). Every call is collective over the group, in the same
 * order on all its ranks, and ends within the communicator's deadline: a rank
 * that does not come is an error of class again that names it.
 *
 * Sums are in a fixed order of ranks, so a layout gives the same bits every
 * time. Buffers lie in the domain of the back end's device; with nccl those of
 * a call may also all lie in host memory, and a failure may show only in a
 * later call or at the device (comm/nccl.h).
 */
#ifndef BN_COMM_COMM_H
#define BN_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/dtype.h"
#include "base/err.h"
#include "boot/watch.h"

enum bn_comm_op { BN_SUM, BN_MAX, BN_MIN };

struct bn_comm {
    int rank, size; /* of this process in the group */
    const struct bn_comm_ops *ops;
    void *state;
};

struct bn_comm_ops {
    const char *name; /* "self", "mpi", "nccl" */
    /* Calls on device memory take their place behind what the device has to
     * do, and do not wait for it; so those on host memory, which do, are kept
     * out of a step. */
    bool enqueues;
    /* buf[n] = op over ranks of buf[n]; F32, BF16 (added in float), F64, I64 */
    int (*allreduce)(struct bn_comm *c, void *buf, enum bn_dtype type,
                     size_t n, enum bn_comm_op op, struct bn_err *err);
    /* The sum of in[size * n]: rank r keeps part r of n elements in out.
     * out may be in + r * n. */
    int (*reduce_scatter)(struct bn_comm *c, void *out, const void *in,
                          enum bn_dtype type, size_t n, struct bn_err *err);
    /* out[n] on 'root' = the sum of in[n] over ranks; may be in. Elsewhere
     * 'out' is not used. */
    int (*reduce)(struct bn_comm *c, void *out, const void *in,
                  enum bn_dtype type, size_t n, int root,
                  struct bn_err *err);
    /* Begin a reduce, which goes on while the caller computes and calls other
     * collectives; 'in' and 'out' are not to be touched until finish. Those of
     * a group are begun in the same order on all its ranks. The bits are those
     * of reduce. */
    int (*reduce_begin)(struct bn_comm *c, void *out, const void *in,
                        enum bn_dtype type, size_t n, int root,
                        struct bn_err *err);
    /* Begin to give every rank's piece to all: rank r's 'bytes' bytes are at
     * out + r * stride, stride >= bytes. It goes on as a reduce that was begun
     * does; until finish this rank's piece may be read and the others are not
     * to be touched. */
    int (*allgather_begin)(struct bn_comm *c, void *out, size_t bytes,
                           size_t stride, struct bn_err *err);
    /* Until all that was begun in this group is done. */
    int (*finish)(struct bn_comm *c, struct bn_err *err);
    /* out[size * n] = every rank's in[n] in order; in may be out + r * n. */
    int (*allgather)(struct bn_comm *c, void *out, const void *in,
                     enum bn_dtype type, size_t n, struct bn_err *err);
    int (*bcast)(struct bn_comm *c, void *buf, size_t bytes, int root,
                 struct bn_err *err);
    int (*send)(struct bn_comm *c, const void *buf, size_t bytes, int to,
                struct bn_err *err);
    int (*recv)(struct bn_comm *c, void *buf, size_t bytes, int from,
                struct bn_err *err);
    /* Both at once, so that neighbours may send to each other; 'to' or 'from'
     * -1: only the other. Buffers must not overlap. */
    int (*sendrecv)(struct bn_comm *c, const void *out, size_t out_bytes,
                    int to, void *in, size_t in_bytes, int from,
                    struct bn_err *err);
    int (*barrier)(struct bn_comm *c, struct bn_err *err);
    /* A communicator of the ranks that give the same color, in the order of
     * key. */
    struct bn_comm *(*split)(struct bn_comm *c, int color, int key,
                             struct bn_err *err);
    /* Say that this process will come to no further call of any group of its
     * world: destroy then waits for nobody. */
    void (*leave)(struct bn_comm *c);
    /* Tear the job down from a rank that cannot go on; may not return. */
    void (*abort)(struct bn_comm *c, enum bn_err_code code);
    void (*destroy)(struct bn_comm *c);
};

/* The world of 'size' ranks over MPI (CPU memory), which is initialised here
 * and so must not be before. Waits end after 'timeout' seconds; those above
 * 30 s say for whom and in which phase. A rank whose process is gone, or that
 * 'watch' (may be NULL; copied) calls failed, ends every wait in seconds.
 * After a failure every later call fails too. One a process. Collective. */
struct bn_comm *bn_comm_mpi(int rank, int size, double timeout,
                            const struct bn_watch *watch,
                            struct bn_err *err);

/* A group of this process alone; never fails. Several may exist. */
struct bn_comm *bn_comm_self(void);
void bn_comm_destroy(struct bn_comm *c); /* NULL is allowed */

/* The agreement point: every rank brings 0 or the class of its failure, all
 * get the largest. On success 0; if any rank failed, -1 with err (kept as it
 * is on the rank that filled it) saying which rank did. */
int bn_comm_agree(struct bn_comm *c, enum bn_err_code mine,
                  struct bn_err *err);

#endif
