/* How one rank finds the others before any communicator exists. */
#ifndef BN_BOOT_BOOT_H
#define BN_BOOT_BOOT_H

#include <stddef.h>

#include "base/err.h"

struct bn_boot_info {
    int rank, size;             /* in the job step */
    int local_rank, local_size; /* on this node; local_rank picks the GPU */
};

struct bn_boot;

/* Connect to the launcher and fill 'info'. Started alone (no launcher in the
 * environment) this is a world of one and touches neither PMIx nor MPI. A
 * launcher that says N tasks where PMIx says another number is refused with
 * class usage and how to start the program. Collective over the job step;
 * waits at most 'timeout' seconds. NULL on failure, 'info' untouched. */
struct bn_boot *bn_boot_create(struct bn_boot_info *info, double timeout,
                               struct bn_err *err);
/* Leave. NULL is allowed; errno is preserved. Collective unless a rank
 * failed. */
void bn_boot_destroy(struct bn_boot *b);

/* Give every rank a copy of rank 0's 'buf' of 'len' <= 1024 bytes.
 * Collective; may be called more than once. On failure 'buf' is unchanged. */
int bn_boot_bcast(struct bn_boot *b, void *buf, size_t len,
                  struct bn_err *err);
/* Wait for all ranks. Collective. */
int bn_boot_fence(struct bn_boot *b, struct bn_err *err);

#endif
