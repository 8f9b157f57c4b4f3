/* How one rank finds the others before any communicator exists. */
#ifndef BN_BOOT_BOOT_H
#define BN_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "boot/watch.h"

struct bn_boot_info {
    int rank, size;             /* in the job step */
    int local_rank, local_size; /* on this node; local_rank picks the GPU */
    char launch[96]; /* the same for all ranks of this start, and for no other
                        start that may have left files behind */
};

struct bn_boot;

/* Ask the launcher who this is and fill 'info'. Started alone (no launcher in
 * the environment) this is a world of one and touches neither PMIx nor MPI. A
 * launcher that says N tasks where PMIx says another number is refused with
 * class usage and how to start the program. Later waits end after 'timeout'
 * seconds. Local. NULL on failure, 'info' untouched. */
struct bn_boot *bn_boot_create(struct bn_boot_info *info, double timeout,
                               struct bn_err *err);
/* While it waits, ask 'watch' (copied) for ranks that have failed. */
void bn_boot_watch(struct bn_boot *b, const struct bn_watch *watch);
/* Leave. NULL is allowed; errno is preserved. Local. */
void bn_boot_destroy(struct bn_boot *b);

/* Give every rank a copy of rank 0's 'buf' of 'len' <= 1024 bytes.
 * Collective; may be called more than once. On failure 'buf' is unchanged. */
int bn_boot_bcast(struct bn_boot *b, void *buf, size_t len,
                  struct bn_err *err);
/* Wait for all ranks; ends with an error that names those that do not come,
 * and says for whom it waits after 30 s. Collective. */
int bn_boot_fence(struct bn_boot *b, struct bn_err *err);

/* Let the other ranks see that this one is at 'key' (< 200 bytes, said once),
 * and ask which of rank[n] are not seen there: absent[i]. They are given a
 * second to get there. Local; any thread. */
int bn_boot_announce(struct bn_boot *b, const char *key, struct bn_err *err);
void bn_boot_absent(struct bn_boot *b, const char *key, const int *rank,
                    int n, bool *absent);

#endif
