/* What a run would take on a mesh, without a device and before it starts. */
#ifndef BN_TRAIN_PLAN_H
#define BN_TRAIN_PLAN_H

#include "train/sizes.h"

struct bn_plan_mesh {
    int dp, tp, pp, cp;
};

/* Of one rank; bytes. */
struct bn_rank_plan {
    int first_layer, end_layer; /* that it holds: first .. end-1 */
    size_t weights, gradients, tables, optimizer; /* tables: RoPE */
    size_t activations; /* and the head's logits */
    size_t gpu_scratch; /* of a GPU back end; 0 with device: cpu */
    /* host memory besides */
    size_t comm; /* buffers of collectives between CPUs */
    size_t copy; /* of the state, while a checkpoint is written */
    /* sent by this rank in a step of full micro-batches, by axis */
    double dp_bytes, tp_bytes, pp_bytes, cp_bytes;
};

/* All of these: what must fit on the device. */
size_t bn_rank_plan_device(const struct bn_rank_plan *p);

/* The plan of the rank with these coordinates (dp and cp 0: all of these are
 * alike). Threads of the CPU back end are those of the run, else of this
 * machine; with device: auto the scratch of attention is that of a CPU. A mesh
 * that the model does not admit is an error (class usage). */
int bn_plan_rank(struct bn_rank_plan *p, const struct bn_run *run,
                 const struct bn_model_config *cfg,
                 const struct bn_plan_mesh *mesh, int pp, int tp,
                 struct bn_set_size train, struct bn_set_size eval,
                 struct bn_err *err);

/* Device memory that GPU back ends take for themselves, on so many ranks. */
size_t bn_plan_gpu_scratch(int ranks);

/* Bytes of the buffers of collectives that a rank of this mesh keeps, once it
 * has trained a step or only evaluated. */
size_t bn_plan_comm_bytes(const struct bn_plan_mesh *p, bool training);

/* Over all ranks the largest device memory, and the most bytes that one sends
 * in a step. */
int bn_plan_worst(size_t *device, double *sent, const struct bn_run *run,
                  const struct bn_model_config *cfg,
                  const struct bn_plan_mesh *mesh, struct bn_set_size train,
                  struct bn_set_size eval, struct bn_err *err);

#endif
