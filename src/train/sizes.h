/* How large everything of one rank is: functions of the run, the model, the
 * mesh and the lengths of the data, without a device. The trainer allocates
 * by them and `burnish plan` prints them, so the two cannot differ.
 */
#ifndef BN_TRAIN_SIZES_H
#define BN_TRAIN_SIZES_H

#include "conf/conf.h"
#include "mesh/mesh.h"
#include "model/head.h"
#include "model/model.h"

/* Sizes that the memory of a run follows from. */
struct bn_shape_plan {
    int max_tokens; /* of a micro-batch, training and evaluation */
    int max_segs, max_scores, max_seqs;
    int max_pos;    /* of RoPE tables */
    int chunk_rows; /* of the head's logits */
};

/* A token set: examples, and tokens of the longest. */
struct bn_set_size {
    uint64_t n; /* 0: there is none */
    int64_t longest;
};

struct bn_sizes {
    const struct bn_run *run; /* borrowed */
    const struct bn_model_config *cfg; /* borrowed */
    const struct bn_mesh *mesh; /* borrowed; only sizes and indices are read */
    bool training;
    enum bn_dtype type; /* of weights and activations */
    struct bn_shape_plan shape;
    struct bn_params params; /* this rank's; the trainer's model takes it */
    size_t elems;            /* of its flat buffer */
    struct bn_adapter adapter; /* this rank's; lora.r 0: none */
    size_t trained;            /* elements that are trained: of either */
    size_t begin, count;       /* this rank's range of them (ZeRO) */
    size_t weights, gradients, tables, optimizer; /* bytes */
    int nacts; /* micro-batches in flight */
};

/* The model's config as the run asks for it: from the model's folder or,
 * with init random, from config_name. */
int bn_trainer_config(const struct bn_run *run, struct bn_model_config *cfg,
                      struct bn_err *err);

/* The adapter that the run asks for, by lora_r or adapter, held against the
 * model; r 0: none. Release it. */
int bn_trainer_lora(const struct bn_run *run, const struct bn_model_config *cfg,
                    struct bn_lora *lora, struct bn_err *err);

/* The adapter of a layout; NULL: there is none. */
static inline const struct bn_adapter *bn_sizes_adapter(const struct bn_sizes *l)
{
    return l->adapter.lora.r > 0 ? &l->adapter : NULL;
}

/* train.n 0: no training. max_tokens: of what is scored besides, or 0. What
 * this build does not do is refused (class usage). */
int bn_sizes_init(struct bn_sizes *l, const struct bn_run *run,
                   const struct bn_model_config *cfg,
                   const struct bn_mesh *mesh, struct bn_set_size train,
                   struct bn_set_size eval, int max_tokens,
                   struct bn_err *err);
void bn_sizes_release(struct bn_sizes *l);

/* Bytes of the arena's first part: weights, gradients, tables, optimizer. */
size_t bn_sizes_state_bytes(const struct bn_sizes *l);
/* Bytes of the rest of it: activations and the head, of a model made (or only
 * planned) with this layout. */
size_t bn_sizes_work_bytes(struct bn_sizes *l, const struct bn_model *m);
/* What a step comes to over all of the mesh: the metrics of the loss, then
 * tokens and FLOPs. */
enum { BN_STEP_SUMS = BN_LOSS_MAX_KEYS + 2 };

/* Lay out a[nacts], sums[BN_STEP_SUMS] and, where the rank has it, the head. */
void bn_sizes_carve(const struct bn_sizes *l, const struct bn_model *m,
                     struct bn_acts *a, struct bn_head *h, double **sums,
                     struct bn_arena *arena);

/* Micro-batches that a pipeline stage has in flight, of 'n' in a step. */
int bn_sizes_depth(const struct bn_mesh *mesh, int n);

#endif
