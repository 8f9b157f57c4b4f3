/* How a packed stream of rows is cut into attention segments. */
#ifndef BN_KERNELS_SEGMENT_H
#define BN_KERNELS_SEGMENT_H

#include <stdint.h>

/* A run of query rows and the key/value rows that it may see.
 *
 * Query i (0 <= i < q_len, row q_start + i) sees
 *   every prefix key  j, 0 <= j < p_len (row p_start + j), and
 *   its own keys      j, 0 <= j <= q_off + i, j < k_len (row k_start + j),
 * where with a sliding window of W > 0 keys (the query's own included) only
 * those at a distance below W stay. Positions for that distance: prefix key
 * j is at j, own key j at p_len + j, query i at p_len + q_off + i.
 *
 * In a batch that is whole on one rank q_start == k_start, q_len == k_len and
 * q_off == 0. Several segments may share a prefix. Every query row lies in at
 * most one segment. q_len 0 is allowed.
 */
struct bn_attn_seg {
    int32_t q_start, q_len, q_off;
    int32_t k_start, k_len;
    int32_t p_start, p_len;
};

#endif
