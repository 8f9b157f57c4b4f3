/* Context parallelism: the one place that splits a sequence.
 *
 * Every segment of a batch is cut into 2 * size runs of near-equal length,
 * of which rank r holds runs r and 2 * size - 1 - r: the early rows of a
 * causal segment see few keys and the late ones many, so all ranks compute
 * about as many pairs. Targets go with their rows. Keys and values of all
 * rows are gathered (data/batch.h: kv_row), so that segments keep speaking
 * of the whole batch's rows.
 */
#ifndef BN_MESH_SPLIT_H
#define BN_MESH_SPLIT_H

#include "data/batch.h"

/* Rank 'rank' of 'size''s share of 'whole', into memory of its own. A batch
 * that is split already is a bug of the caller and refused. Local. */
int bn_mesh_split(struct bn_batch *out, const struct bn_batch *whole,
                  int size, int rank, struct bn_err *err);

/* The most tokens that a share can have of a batch of so many; of segments
 * it can have twice as many. */
int bn_split_max_tokens(int max_tokens, int max_segs, int size);

#endif
