/* The residual stream under tensor parallelism. Without mesh.sequence every
 * rank of the tp group holds all of its rows, and a row-parallel product is
 * summed over the group in place. With it (sequence parallelism, Korthikanti
 * et al. 2022, "Reducing activation recomputation in large transformer
 * models") each rank holds a run of near-equal length of its rows, with the
 * norms and what is kept of them: products are summed to the ranks that hold
 * the rows, and gathered again for what reads them. As many bytes are sent
 * forward; backward the input of each column-parallel matrix is gathered once
 * more.
 */
#ifndef BN_MODEL_SEQ_H
#define BN_MODEL_SEQ_H

#include "model/model.h"

/* Of n rows each rank holds this many at most; those of the last ones are
 * fewer. A buffer of all rows is as long as this many a rank. */
int bn_seq_pad(const struct bn_mesh *mesh, int n);
/* Rows that this rank holds of n. */
int bn_seq_rows(const struct bn_mesh *mesh, int n);

/* Where this rank's rows begin in a buffer of all rows. */
void *bn_seq_mine(const struct bn_model *m, const struct bn_acts *a,
                  void *all);
/* All rows of 'mine', this rank's: in a->all until the next call, or 'mine'
 * itself where it has them all. Collective over tp. */
const void *bn_seq_all(struct bn_model *m, struct bn_acts *a,
                       const void *mine);
/* The same within a buffer of all rows. */
void bn_seq_gather(struct bn_model *m, struct bn_acts *a, void *all);
/* Sum 'all', parts of which all ranks have made, to bn_seq_mine of it.
 * Collective over tp. Failures are the device's. */
void bn_seq_sum(struct bn_model *m, struct bn_acts *a, void *all);
/* The same to 'mine' elsewhere; with mesh.sequence only. */
void bn_seq_sum_to(struct bn_model *m, struct bn_acts *a, void *mine,
                   void *all);

#endif
