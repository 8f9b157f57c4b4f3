/* Collectives of GPUs through NCCL. The id of the world travels through PMIx,
 * so that neither MPI nor a port is needed.
 *
 * Beside what comm.h says:
 *   - Buffers of one call lie all in the device's memory or all in the host's
 *     (counts, agreements, shards on their way to a file). Calls on device
 *     memory enqueue on a communication stream, behind the work that the
 *     device's stream has so far, whose later work waits for them; they do
 *     not wait. Calls on host memory go through pinned and device memory in
 *     pieces, and wait.
 *   - What is begun to be reduced later enqueues on a stream of its own, which
 *     the device's stream waits for in 'finish'; the host does not.
 *   - A thread watches what is enqueued. A rank that does not come within the
 *     deadline, that 'watch' calls failed, or whose process is gone, and any
 *     error of NCCL's, abort all communicators: the device fails with the
 *     error (ops.h: bn_dev_check), and so does every later call. If even that
 *     does not free the stream within 30 s the process exits with class again.
 *   - The order of sums is NCCL's for the ring of the ranks: NCCL_ALGO=Ring
 *     and NCCL_PROTO=Simple unless the environment says otherwise, so that the
 *     same ranks on the same machines get the same bits every time. BF16 is
 *     rounded after each rank's part.
 */
#ifndef BN_COMM_NCCL_H
#define BN_COMM_NCCL_H

#include "boot/boot.h"
#include "comm/comm.h"
#include "ops/ops.h"

/* Bytes of device memory, and of pinned memory, that a world takes. */
enum { BN_NCCL_ROOM = 2 << 20 };

/* What rank 0 gives all ranks before a world is made (bn_boot_bcast). */
struct bn_nccl_id {
    char bytes[128];
};

/* A fresh id, on rank 0. -1 with BN_ERR_USAGE if this build has no NCCL. */
int bn_nccl_id(struct bn_nccl_id *id, struct bn_err *err);

struct bn_nccl_options {
    int rank, size;
    double timeout;               /* of every wait, seconds */
    const struct bn_watch *watch; /* may be NULL; copied */
    struct bn_boot *boot;         /* borrowed: tells who is missing */
    /* Called before the process exits out of a wait that even an abort does
     * not end; may be NULL. */
    void (*dying)(const struct bn_err *why);
};

/* The world of the ranks that hold 'id', on the GPU of 'dev' (borrowed, and
 * must outlive it). NULL on failure. Takes BN_NCCL_ROOM bytes of device memory and
 * as much pinned memory. Collective. */
struct bn_comm *bn_comm_nccl(const struct bn_nccl_id *id,
                             const struct bn_nccl_options *o,
                             struct bn_dev *dev, struct bn_err *err);

#endif
