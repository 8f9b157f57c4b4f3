/* From a window of one shard to a range of another layout's flat parameters:
 * the copying of load.c, without files or threads.
 */
#ifndef BN_CKPT_RESHARD_H
#define BN_CKPT_RESHARD_H

#include <stdbool.h>

#include "ckpt/ckpt.h"

/* What a shard's part and the target have in common. */
struct bn_reshard;

/* From 'shard' to the range [begin, begin + count) of 'params' (borrowed).
 * NULL on failure. */
struct bn_reshard *bn_reshard_begin(const struct bn_params *params,
                                    size_t begin, size_t count,
                                    const struct bn_ckpt_of *of,
                                    const struct bn_ckpt_shard *shard,
                                    struct bn_err *err);
void bn_reshard_end(struct bn_reshard *r);

/* Elements [at, at + n) of the shard's range, at 'data', to where they belong
 * in to[count]; have[count] (or NULL) becomes 1 there. With 'to' NULL nothing
 * is copied. Returns how many elements it is. Windows that do not overlap may
 * be copied by several threads at once. */
size_t bn_reshard_copy(const struct bn_reshard *r, size_t at, size_t n,
                       const float *data, float *to, unsigned char *have);

/* Whether that window goes as one run, without padding, to to[*where] on. */
bool bn_reshard_straight(const struct bn_reshard *r, size_t at, size_t n,
                         size_t *where);

#endif
