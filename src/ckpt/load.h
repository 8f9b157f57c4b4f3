/* What restore.c uses of load.c. */
#ifndef BN_CKPT_LOAD_H
#define BN_CKPT_LOAD_H

#include "ckpt/ckpt.h"

/* bn_ckpt_load_host, but what lies in a shard just as it belongs is not
 * copied: it is added to 'runs', in order, and to[] is not touched there. On
 * failure 'runs' may hold anything; it is the caller's to release. Local. */
int bn_ckpt_load_runs(const struct bn_ckpt *c, const struct bn_params *params,
                      size_t begin, size_t count, float *const *to, int parts,
                      int checkers, int mine, struct bn_ckpt_runs *runs,
                      struct bn_err *err);

/* Bring in bytes [from, from + n) of a mapping by one call rather than a fault
 * for every page: 0 or an errno, where a fault could only send a signal. A
 * kernel before 5.14, which cannot, leaves it to the faults. */
int bn_ckpt_fetch(const struct bn_map *map, size_t from, size_t n);

#endif
