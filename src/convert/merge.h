/* Tensor-parallel shards of a checkpoint as one. */
#ifndef BN_CONVERT_MERGE_H
#define BN_CONVERT_MERGE_H

#include "convert/layout.h"

/* 'out' (empty) becomes what one rank would hold: the tensors of 'src' (of
 * rank 0) and shard[0..n-1] (of the ranks after it) as bn_layout_prepare
 * says. Those that no rule reads are taken from 'src'. '*merged' counts the
 * tensors. All sets must outlive 'out'. */
int bn_layout_merge(const struct bn_layout *l,
                    const struct bn_model_config *c,
                    const struct bn_tensors *src,
                    const struct bn_tensors *shard, int n, const char *where,
                    struct bn_tensors *out, int *merged, struct bn_err *err);

#endif
