/* The micro-batches of a step through the stages of a pipeline; one stage is
 * the plain case of it.
 */
#ifndef BN_TRAIN_PIPELINE_H
#define BN_TRAIN_PIPELINE_H

#include "train/trainer.h"

/* One micro-batch of this rank's data. */
struct bn_micro {
    struct bn_batch whole; /* ntok 0: this rank has no example of it */
    struct bn_batch part;  /* this rank's share under context parallelism */
    struct bn_loss_denom denom;
};

/* Make the share of a whole batch, if there is context parallelism. */
int bn_micro_split(const struct bn_trainer *t, struct bn_micro *m,
                   struct bn_err *err);
void bn_micro_release(struct bn_micro *m);

/* Forward and backward of m[n], one forward and one backward in turns (1F1B).
 * Enqueued: nothing waits for the device. Gradients are added to, and begin to
 * be summed over data in the last backward pass; what the loss comes to is
 * added to t->head.acc (of the last stage), with the number of the micro-batch
 * where it is not finite. On another failure '*where' is the micro-batch. A
 * stop signal that any rank sees between two micro-batches ends it, with
 * '*stopped' true on all: at once without a pipeline, else once what is under
 * way is through. Sharded gradients are summed in every pass: there only if
 * 'full', no data-parallel rank has an empty micro-batch. Several ranks whose
 * comm enqueues do not look for signals: they would wait for the device, and
 * have enqueued the step long before it is done. Collective over all of the
 * mesh. */
int bn_pipeline_train(struct bn_trainer *t, const struct bn_micro *m, int n,
                      bool full, int *where, bool *stopped, struct bn_err *err);

/* Forward and backward of one micro-batch alone, waiting for the device before
 * and after: '*seconds' is what this rank computed, or 0 if it has no example
 * of it. Gradients are spoilt. Collective over all of the mesh. */
int bn_pipeline_measure(struct bn_trainer *t, const struct bn_micro *m,
                        double *seconds, struct bn_err *err);

/* Forward of one micro-batch; 'job' is used on the last stage, and waited for. */
int bn_pipeline_forward(struct bn_trainer *t, const struct bn_micro *m,
                        const struct bn_head_job *job, struct bn_err *err);

#endif
