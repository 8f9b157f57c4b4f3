/* AdamW over the flat parameters of a rank that are trained (those of
 * bn_model_trained): fp32 masters and moments of the range [begin, begin +
 * count), which is all of them on one rank and a shard of them under ZeRO.
 */
#ifndef BN_OPTIM_ADAMW_H
#define BN_OPTIM_ADAMW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/model.h"
#include "ops/ops.h"

struct bn_optim_conf {
    double beta1, beta2, eps;
    double weight_decay;
    bool decay_all;       /* else matrices only, no norms and biases */
    double max_grad_norm; /* 0: no clipping */
    /* Elements of layers at least whose gradients are begun to be summed at
     * a time, while a backward pass goes on. */
    size_t bucket;
};

struct bn_optim {
    struct bn_optim_conf conf;
    struct bn_model *model; /* borrowed */
    struct bn_trained trained; /* its */
    size_t begin, count;    /* elements of the flat parameters */
    float *master;          /* [count]; the weights themselves in fp32 */
    float *m, *v;           /* [count] */
    /* Device memory: the squared norm of the step's gradient, over the whole
     * model; what else differs from step to step; a float that is NaN if the
     * step must not be made for another reason (NULL: there is none). */
    double *sq;
    struct bn_adamw_now *now;
    const float *taint;
    long step; /* optimizer steps done */
    size_t begun, parts; /* from there on gradients are being summed over
                            data; were summed over tp (reduce.c) */
    /* weights that are updated are given to the other ranks while the rest is;
     * the caller's to set, false at first */
    bool gather_beside;
    /* of the tensor ranks that hold the same KV heads; NULL: no two do */
    struct bn_comm *copies;
};

/* Bytes that bn_optim_create takes from its arena. */
size_t bn_optim_bytes(enum bn_dtype t, size_t count);

/* The range of this rank among the ranks that hold the same parameters
 * (ZeRO stage 1); the parameters must be padded for that many. */
void bn_optim_range(const struct bn_params *params, const struct bn_axis *data,
                    size_t *begin, size_t *count);

/* State of a new run: masters from the model's weights, moments zero.
 * Collective over tp. */
struct bn_optim *bn_optim_create(const struct bn_optim_conf *conf,
                                 struct bn_model *model, size_t begin,
                                 size_t count, struct bn_arena *arena,
                                 struct bn_err *err);
void bn_optim_destroy(struct bn_optim *o);
/* Copy the model's weights to the masters (after they were loaded). */
void bn_optim_set_masters(struct bn_optim *o);

/* Enqueue one step with this rank's gradients, and wait for nothing: sum them
 * over the ranks that hold the same parameters (each keeps its range of the
 * sum; sharded gradients are such sums already), clip, update the range,
 * gather the weights, tell the model. The norm is *o->sq then: if that is not
 * finite on the device, weights and moments are left as they were there.
 * bn_optim_end must follow. Collective. */
int bn_optim_queue(struct bn_optim *o, double lr, struct bn_err *err);
/* The end of the step, whose squared norm was fetched from the device: *norm
 * is the gradient's norm before clipping, over the whole model. One that is
 * not finite is an error of class numeric: the step was not made. Local. */
int bn_optim_end(struct bn_optim *o, double sq, double *norm,
                 struct bn_err *err);
/* Both, and the waiting between them. Collective. */
int bn_optim_step(struct bn_optim *o, double lr, double *norm,
                  struct bn_err *err);

/* Sum the gradients while the backward pass goes on that is the last of a
 * step: what bn_model.made is for. bn_optim_queue, which must follow, does the
 * rest; the bits are the same without. Failures are the device's. Collective
 * over tp and data. */
void bn_optim_made(void *optim, int layer);

/* The part of it before the update (reduce.c): after it bn_model_grad in the
 * range is the gradient of the whole step, and *o->sq its squared norm over
 * the whole model, every parameter counted once, plus *o->taint squared.
 * Waits for nothing. Collective. */
int bn_optim_reduce(struct bn_optim *o, struct bn_err *err);
/* After the update: every rank's range of the weights to all. Collective. */
int bn_optim_gather(struct bn_optim *o, struct bn_err *err);

#endif
