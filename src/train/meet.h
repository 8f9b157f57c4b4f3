/* How the ranks of one start come together on what they compute on. */
#ifndef BN_TRAIN_MEET_H
#define BN_TRAIN_MEET_H

#include "boot/boot.h"
#include "comm/comm.h"
#include "ops/ops.h"

struct bn_meeting {
    struct bn_boot *boot;
    const struct bn_boot_info *info;
    struct bn_dev *dev; /* which the communicator borrows: it outlives it */
    double timeout;     /* seconds, of every wait of the communicator */
    const struct bn_watch *watch; /* comm/comm.h; may be NULL */
    void (*dying)(const struct bn_err *why); /* comm/nccl.h; may be NULL */
};

/* The world: of itself alone, over MPI for CPUs, over NCCL for GPUs. NULL on
 * failure; class usage where ranks compute on different kinds of device, as
 * 'device: auto' may have decided, for a node may lack its driver.
 * Collective. */
struct bn_comm *bn_meet(const struct bn_meeting *m, struct bn_err *err);

#endif
