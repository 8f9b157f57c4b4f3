/* How the ranks of a run are arranged. Axes from the fastest varying: tp, cp,
 * dp, pp, so that the ranks of one tp group are neighbours (one node's GPUs):
 *   rank = ((pp_i * dp + dp_i) * cp + cp_i) * tp + tp_i
 */
#ifndef BN_MESH_MESH_H
#define BN_MESH_MESH_H

#include "base/err.h"
#include "comm/comm.h"

struct bn_axis {
    int size, index;      /* index: this rank's coordinate */
    struct bn_comm *comm; /* of the ranks that differ in this axis only */
};

struct bn_mesh {
    struct bn_comm *world; /* borrowed */
    struct bn_axis tp, cp, dp, pp;
    /* Of what lies between tensor-parallel matrices each rank of tp holds a
     * part of the rows (model/seq.h); false after bn_mesh_init. */
    bool sequence;
    /* Ranks that hold the same parameters: dp and cp together. Gradients are
     * summed, and optimizer state is sharded, over these. */
    struct bn_axis data;
    /* The first and the last stage of a pipeline, which both hold a tied
     * embedding; NULL on stages between, and without a pipeline. */
    struct bn_comm *ends;
};

/* Sizes of 0 for dp mean: whatever is left. The product must be the world's
 * size, and the sizes those of all ranks. Collective. */
int bn_mesh_init(struct bn_mesh *m, struct bn_comm *world, int dp, int tp,
                 int pp, int cp, struct bn_err *err);
void bn_mesh_release(struct bn_mesh *m);

#endif
