/* The PMIx client; used by boot.c only. */
#ifndef BN_BOOT_PMIX_H
#define BN_BOOT_PMIX_H

#include "boot/boot.h"

struct bn_pmix;

/* Reach this node's PMIx server and fill 'info'. NULL on failure, 'info'
 * untouched. */
struct bn_pmix *bn_pmix_open(struct bn_boot_info *info, struct bn_err *err);
/* Leave; NULL is allowed. */
void bn_pmix_close(struct bn_pmix *p);
/* How long to wait, and whom to ask meanwhile. */
struct bn_pmix_wait {
    double timeout;
    struct bn_watch watch;
};
/* As bn_boot_bcast and bn_boot_fence. */
int bn_pmix_bcast(struct bn_pmix *p, void *buf, size_t len,
                  const struct bn_pmix_wait *wait, struct bn_err *err);
int bn_pmix_fence(struct bn_pmix *p, const struct bn_pmix_wait *wait,
                  struct bn_err *err);
/* As bn_boot_announce and bn_boot_absent. */
int bn_pmix_announce(struct bn_pmix *p, const char *key, struct bn_err *err);
void bn_pmix_absent(struct bn_pmix *p, const char *key, const int *rank,
                    int n, bool *absent);

#endif
