#include "config.h"
#include "train/trainer.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "train/graph.h"
#include "train/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Mean log-probabilities nearer to 0 than float logits can tell. */
static const double x_max = -1e-6;

static void schedule(struct bn_trainer *t)
{
    static const enum bn_schedule_type types[] = {
        [BN_RUN_LR_LINEAR] = BN_SCHED_LINEAR,
        [BN_RUN_LR_COSINE] = BN_SCHED_COSINE,
        [BN_RUN_LR_CONSTANT] = BN_SCHED_CONSTANT,
        [BN_RUN_LR_CONSTANT_WITH_WARMUP] = BN_SCHED_CONSTANT,
        [BN_RUN_LR_WARMUP_STABLE_DECAY] = BN_SCHED_WSD,
    };
    const struct bn_run_optim *o = &t->run->optim;
    double total = (double)t->total_steps;
    bool warm = o->lr_scheduler_type != BN_RUN_LR_CONSTANT;

    t->schedule = (struct bn_schedule){
        .type = types[o->lr_scheduler_type],
        .lr = o->learning_rate,
        .min_ratio = o->min_lr_ratio,
        .warmup = o->warmup_steps > 0 ? o->warmup_steps
                                      : (long)ceil(o->warmup_ratio * total),
        .warmup_one = o->warmup_first == BN_RUN_WARMUP_ONE,
        .decay = o->lr_decay_steps > 0 ? o->lr_decay_steps
                                       : (long)ceil(o->lr_decay_ratio * total),
        .decay_cosine = o->lr_decay_type == BN_RUN_LR_DECAY_COSINE,
        .total = t->total_steps,
    };
    if (!warm)
        t->schedule.warmup = 0;
}

static void order(struct bn_trainer *t)
{
    const struct bn_run_optim *o = &t->run->optim;

    t->plan = (struct bn_plan){
        .n = bn_tokens_count(t->train),
        .seed = (uint64_t)t->run->data.data_seed,
        .shuffle = t->run->data.shuffle,
        .batch = (int)o->per_device_train_batch_size,
        .accum = (int)o->gradient_accumulation_steps,
        .dp_rank = t->mesh->dp.index,
        .dp_size = t->mesh->dp.size,
    };
    double per_epoch = (double)bn_plan_steps_per_epoch(&t->plan);
    t->total_steps = o->max_steps > 0
                         ? o->max_steps
                         : (long)ceil(o->num_train_epochs * per_epoch);
}

static struct bn_optim_conf optim_conf(const struct bn_run *run)
{
    const struct bn_run_optim *o = &run->optim;

    return (struct bn_optim_conf){
        .beta1 = o->adam_beta1,
        .beta2 = o->adam_beta2,
        .eps = o->adam_epsilon,
        .weight_decay = o->weight_decay,
        .decay_all = o->weight_decay_groups == BN_RUN_DECAY_ALL,
        .max_grad_norm = o->max_grad_norm,
        .bucket = (size_t)run->mesh.reduce_bucket_size,
    };
}

/* One arena, of the planned size: first what stays, then activations. */
static int make_arena(struct bn_trainer *t, struct bn_err *err)
{
    struct bn_sizes *l = &t->sizes;
    struct bn_model m;

    bn_model_plan(&m, l->cfg, &l->params, bn_sizes_adapter(l), l->type,
                  t->dev, t->mesh);
    return t->dev->op.arena_init(t->dev, &t->arena, "model and activations",
                                 bn_sizes_state_bytes(l)
                                     + bn_sizes_work_bytes(l, &m), err);
}

/* Weights, gradients and optimizer state. */
static int make_state(struct bn_trainer *t, struct bn_err *err)
{
    struct bn_sizes *l = &t->sizes;
    bool training = t->train != NULL;

    t->model = bn_model_create(l->cfg, &l->params, bn_sizes_adapter(l),
                               l->type, l->shape.max_pos, training, t->dev,
                               t->mesh, &t->arena, err);
    if (t->model == NULL)
        return -1;
    if (!training)
        return 0;
    struct bn_optim_conf oc = optim_conf(t->run);
    t->model->dropout.seed = (uint64_t)t->run->seed;
    t->optim = bn_optim_create(&oc, t->model, l->begin, l->count, &t->arena,
                               err);
    if (t->optim == NULL)
        return -1;
    t->optim->gather_beside = t->run->mesh.overlap_param_gather;
    if (!t->run->mesh.cuda_graph)
        return 0;
    t->graphs = bn_graphs_create(t->dev, t->mesh->world->size, err);
    return t->graphs != NULL ? 0 : -1;
}

static void release_acts(struct bn_acts *a, int n)
{
    for (int i = 0; a != NULL && i < n; i++)
        bn_acts_release(&a[i]);
    free(a);
}

/* Activations and the head. */
static void make_work(struct bn_trainer *t)
{
    t->state = t->arena.used;
    t->acts = BN_NEWN(struct bn_acts, (size_t)t->sizes.nacts);
    bn_sizes_carve(&t->sizes, t->model, t->acts, &t->head, &t->sums,
                    &t->arena);
    if (t->optim != NULL && t->head.acc != NULL)
        t->optim->taint = &t->head.acc->taint;
}

static struct bn_set_size size_of(const struct bn_tokens *ts)
{
    if (ts == NULL)
        return (struct bn_set_size){0};
    return (struct bn_set_size){bn_tokens_count(ts), bn_tokens_longest(ts)};
}

struct bn_trainer *bn_trainer_create(const struct bn_run *run,
                                     const struct bn_model_config *cfg,
                                     const struct bn_tokens *train,
                                     const struct bn_tokens *eval,
                                     int max_tokens, struct bn_dev *dev,
                                     const struct bn_mesh *mesh,
                                     struct bn_err *err)
{
    struct bn_trainer *t = BN_NEW(struct bn_trainer);

    t->run = run;
    t->train = train;
    t->eval = eval;
    t->dev = dev;
    t->mesh = mesh;
    t->loss = run->task == BN_RUN_TASK_ORPO ? &bn_loss_orpo : &bn_loss_sft;
    t->loss_params = (struct bn_loss_params){run->loss.beta, x_max};
    t->smoothing = run->loss.label_smoothing_factor;
    if (train != NULL) {
        order(t);
        schedule(t);
    }
    if (bn_sizes_init(&t->sizes, run, cfg, mesh, size_of(train),
                       size_of(eval), max_tokens, err) < 0
        || make_arena(t, err) < 0 || make_state(t, err) < 0
        || bn_trainer_load(t, err) < 0) {
        bn_trainer_destroy(t);
        return NULL;
    }
    make_work(t);
    return t;
}

void bn_trainer_destroy(struct bn_trainer *t)
{
    if (t == NULL)
        return;
    bn_graphs_destroy(t->graphs);
    release_acts(t->acts, t->sizes.nacts);
    bn_head_release(&t->head);
    bn_optim_destroy(t->optim);
    bn_model_destroy(t->model);
    bn_sizes_release(&t->sizes);
    t->dev->op.arena_release(t->dev, &t->arena);
    free(t);
}
