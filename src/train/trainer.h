/* A run in memory: everything that one rank needs to take a step. The order
 * of a run (loop.h) is: data on disk, then boot, then device and model.
 */
#ifndef BN_TRAIN_TRAINER_H
#define BN_TRAIN_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/hash.h"
#include "conf/conf.h"
#include "data/data.h"
#include "data/order.h"
#include "loss/loss.h"
#include "mesh/mesh.h"
#include "model/head.h"
#include "model/model.h"
#include "optim/adamw.h"
#include "optim/schedule.h"
#include "text/tokenizer.h"
#include "train/sizes.h"

struct bn_trainer {
    const struct bn_run *run;      /* borrowed */
    const struct bn_mesh *mesh;    /* borrowed */
    struct bn_dev *dev;            /* borrowed */
    const struct bn_tokens *train; /* borrowed; NULL when only evaluating */
    const struct bn_tokens *eval;  /* borrowed, may be NULL */
    const struct bn_loss *loss;
    struct bn_loss_params loss_params;
    double smoothing;
    struct bn_sizes sizes;
    struct bn_arena arena; /* all of the device that the run takes: */
    size_t state;          /* bytes of model and optimizer, then activations */
    struct bn_model *model;
    struct bn_optim *optim; /* NULL when only evaluating */
    struct bn_graphs *graphs; /* of steps (graph.h); NULL: none are made */
    struct bn_acts *acts; /* [sizes.nacts]: micro-batches in flight */
    struct bn_head head;
    double *sums; /* [BN_STEP_SUMS] of a step; device memory */
    struct bn_loss_denom eval_denom; /* of 'eval', once it was counted */
    bool eval_counted;
    char base[BN_HASH_HEX]; /* of the frozen model's weights; "": none is */
    struct bn_plan plan; /* order of the training examples */
    struct bn_schedule schedule;
    long total_steps;
    long clamped; /* answers whose mean log p was bounded, in this run */
};

/* Lay everything out and load (or draw) the weights. tokens may be NULL
 * together with training false, then max_tokens is what is scored at once.
 * Borrowed things must outlive the trainer. Collective. */
struct bn_trainer *bn_trainer_create(const struct bn_run *run,
                                     const struct bn_model_config *cfg,
                                     const struct bn_tokens *train,
                                     const struct bn_tokens *eval,
                                     int max_tokens, struct bn_dev *dev,
                                     const struct bn_mesh *mesh,
                                     struct bn_err *err);
void bn_trainer_destroy(struct bn_trainer *t);

/* What a step did; the values are those of all ranks. */
struct bn_step_result {
    double metrics[BN_LOSS_MAX_KEYS]; /* by loss->keys */
    double grad_norm, lr;
    double tokens;   /* computed, prompts counted once */
    double examples;
    double flops;    /* model FLOPs, forward and backward, no recompute */
    bool dropped;    /* a stop signal came; nothing else is set */
};

/* Optimizer step 'step' (from 0): forward, backward and update over its
 * micro-batches. A NaN or Inf names step, micro-batch and rows, with the
 * weights as they were before the step. A stop signal that any rank sees
 * between two micro-batches drops the step on all of them: weights and
 * optimizer are as they were before it, so that it is made anew, to the bit,
 * by whoever goes on. One that comes later finishes the step, and so does any
 * where several ranks enqueue their steps as a whole (train/pipeline.h).
 * Collective. */
int bn_trainer_step(struct bn_trainer *t, long step,
                    struct bn_step_result *r, struct bn_err *err);

/* The loss's metrics over the whole evaluation set, exact means whatever the
 * batch size and the number of ranks. A stop signal on any rank ends it on
 * all, with '*stopped' true and no metrics. Collective. */
int bn_trainer_eval(struct bn_trainer *t, double *metrics, double *examples,
                    bool *stopped, struct bn_err *err);

/* FLOPs of one forward and backward pass over the batch: 6 per matrix weight
 * and token (the head's only where a row is scored), 12 * heads * head_dim a
 * layer and visible (query, key) pair. Recomputation is not counted. With an
 * adapter (NULL: none) 4 per weight that is frozen and 6 per one that is
 * trained. */
double bn_batch_flops(const struct bn_model_config *cfg,
                      const struct bn_adapter *adapter,
                      const struct bn_batch *b);

#endif
