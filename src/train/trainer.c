#include "config.h"
#include "train/trainer.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "mesh/split.h"
#include "train/load.h"
#include "train/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Logits of one chunk: enough rows for an efficient product, little enough
 * to stay small beside the activations. */
static const size_t logit_bytes = (size_t)128 << 20;

/* Mean log-probabilities nearer to 0 than float logits can tell. */
static const double x_max = -1e-6;

int bn_trainer_config(const struct bn_run *run, struct bn_model_config *cfg,
                      struct bn_err *err)
{
    const char *from = run->model.init == BN_RUN_INIT_RANDOM
                           ? run->model.config_name
                           : run->model.model_name_or_path;
    if (!bn_exists(from))
        return bn_fail(err, BN_ERR_DATA, "%s: there is no '%s' (names of a hub"
                       " are not fetched: give a folder)",
                       run->model.init == BN_RUN_INIT_RANDOM
                           ? "config_name"
                           : "model_name_or_path", from);
    char *path = bn_is_dir(from) ? bn_path_join(from, "config.json")
                                 : bn_strdup(from);
    struct bn_str notes = {0};
    int rc = bn_model_config_load(cfg, path, &notes, err);

    if (rc == 0 && notes.len > 0)
        bn_debug("%s: %s", path, notes.s);
    bn_str_release(&notes);
    free(path);
    return rc;
}

static enum bn_dtype compute_type(const struct bn_run *run)
{
    return run->model.dtype == BN_RUN_COMPUTE_BFLOAT16 ? BN_BF16 : BN_F32;
}

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

static int at_least(int a, int64_t b)
{
    return b > a ? (int)b : a;
}

/* The largest micro-batch there can be of either token set. */
static void shape(struct bn_trainer *t, int max_tokens)
{
    struct bn_shape_plan *s = &t->shape;
    const struct bn_tokens *sets[2] = {t->train, t->eval};
    int64_t batch[2] = {t->run->optim.per_device_train_batch_size,
                        t->run->eval.per_device_eval_batch_size};

    s->max_tokens = s->max_pos = max_tokens;
    s->max_segs = s->max_seqs = s->max_scores = max_tokens > 0 ? 3 : 0;
    s->max_scores = max_tokens;
    for (int i = 0; i < 2; i++) {
        if (sets[i] == NULL)
            continue;
        int64_t n = (int64_t)bn_tokens_count(sets[i]);
        int64_t b = batch[i] < n ? batch[i] : n;
        int64_t longest = bn_tokens_longest(sets[i]);

        s->max_tokens = at_least(s->max_tokens, b * longest);
        s->max_pos = at_least(s->max_pos, longest);
        s->max_segs = at_least(s->max_segs, 3 * b);
        s->max_seqs = at_least(s->max_seqs, 3 * b);
        /* A prompt's last row is scored for both answers. */
        s->max_scores = at_least(s->max_scores, b * (longest + 1));
    }
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
    };
}

/* What this build does not do is refused, not done otherwise. */
static int check_mesh(const struct bn_run *run, struct bn_err *err)
{
    if (run->mesh.zero_stage > 1)
        return bn_fail(err, BN_ERR_USAGE, "zero_stage: %lld is not supported:"
                       " 1 shards masters and moments",
                       (long long)run->mesh.zero_stage);
    if (run->mesh.sequence_parallel)
        return bn_fail(err, BN_ERR_USAGE, "sequence_parallel: true is not "
                       "supported");
    return 0;
}

/* The part of the model that this rank holds. */
static int my_part(const struct bn_trainer *t,
                   const struct bn_model_config *cfg, struct bn_part *part,
                   struct bn_err *err)
{
    const struct bn_mesh *mesh = t->mesh;

    *part = (struct bn_part){
        .tp_size = mesh->tp.size,
        .tp_rank = mesh->tp.index,
        .has_embed = mesh->pp.index == 0,
        .has_head = mesh->pp.index == mesh->pp.size - 1,
    };
    return bn_part_stage(cfg, mesh->pp.size, mesh->pp.index,
                         &part->first_layer, &part->end_layer, err);
}

/* Weights, gradients and optimizer state. */
static int make_state(struct bn_trainer *t, const struct bn_model_config *cfg,
                      struct bn_err *err)
{
    enum bn_dtype type = compute_type(t->run);
    bool training = t->train != NULL;
    struct bn_part part;
    struct bn_params params;
    size_t begin, count;

    if (check_mesh(t->run, err) < 0 || my_part(t, cfg, &part, err) < 0
        || bn_params_init(&params, cfg, &part, err) < 0)
        return -1;
    bn_params_pad(&params, t->mesh->data.size);
    bn_optim_range(&params, &t->mesh->data, &begin, &count);
    size_t bytes = bn_model_bytes(cfg, &params, type, t->shape.max_pos,
                                  training);

    if (training)
        bytes += bn_optim_bytes(type, count);
    if (t->dev->op.arena_init(t->dev, &t->state, "model", bytes, err) < 0) {
        bn_params_release(&params);
        return -1;
    }
    t->model = bn_model_create(cfg, &params, type, t->shape.max_pos, training,
                               t->dev, t->mesh, &t->state, err);
    if (t->model == NULL)
        return -1;
    if (!training)
        return 0;
    struct bn_optim_conf oc = optim_conf(t->run);
    t->optim = bn_optim_create(&oc, t->model, begin, count, &t->state, err);
    return t->optim != NULL ? 0 : -1;
}

static struct bn_acts_size acts_size(const struct bn_trainer *t)
{
    static const enum bn_recompute modes[] = {
        [BN_RUN_RECOMPUTE_NONE] = BN_RECOMPUTE_NONE,
        [BN_RUN_RECOMPUTE_ATTENTION] = BN_RECOMPUTE_ATTENTION,
        [BN_RUN_RECOMPUTE_FULL] = BN_RECOMPUTE_FULL,
    };
    const struct bn_shape_plan *s = &t->shape;
    struct bn_acts_size size = {
        .tokens = s->max_tokens,
        .segs = s->max_segs,
        .kv = s->max_tokens,
        .recompute = modes[t->run->model.activation_recompute],
        .backward = t->train != NULL,
    };

    if (t->mesh->cp.size > 1) {
        size.tokens = bn_split_max_tokens(s->max_tokens, s->max_segs,
                                          t->mesh->cp.size);
        size.segs = 2 * s->max_segs;
    }
    return size;
}

static void carve_work(struct bn_trainer *t, struct bn_acts *a,
                       struct bn_head *h, struct bn_arena *arena)
{
    const struct bn_shape_plan *s = &t->shape;
    struct bn_acts_size size = acts_size(t);

    for (int i = 0; i < t->nacts; i++)
        bn_acts_init(&a[i], t->model, &size, arena);
    if (t->model->params.part.has_head)
        bn_head_init(h, t->model, s->chunk_rows, s->max_scores, s->max_seqs,
                     t->train != NULL, arena);
}

static void release_acts(struct bn_acts *a, int n)
{
    for (int i = 0; a != NULL && i < n; i++)
        bn_acts_release(&a[i]);
    free(a);
}

/* Activations: planned first, then laid out in one arena of that size. */
static int make_work(struct bn_trainer *t, struct bn_err *err)
{
    struct bn_arena plan;
    struct bn_head h = {0};

    t->nacts = t->train == NULL ? 1
                                : bn_pipeline_depth(t->mesh, t->plan.accum);
    struct bn_acts *a = BN_NEWN(struct bn_acts, (size_t)t->nacts);
    if (t->model->params.part.has_head)
        t->shape.chunk_rows = bn_head_chunk_rows(t->model, logit_bytes);
    if (t->shape.chunk_rows > t->shape.max_scores)
        t->shape.chunk_rows = t->shape.max_scores;
    bn_arena_plan(&plan, "activations");
    carve_work(t, a, &h, &plan);
    release_acts(a, t->nacts);
    bn_head_release(&h);
    if (t->dev->op.arena_init(t->dev, &t->work, "activations", plan.used, err)
        < 0)
        return -1;
    t->acts = BN_NEWN(struct bn_acts, (size_t)t->nacts);
    carve_work(t, t->acts, &t->head, &t->work);
    return 0;
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
    shape(t, max_tokens);
    if (make_state(t, cfg, err) < 0 || bn_trainer_load(t, err) < 0
        || make_work(t, err) < 0) {
        bn_trainer_destroy(t);
        return NULL;
    }
    return t;
}

void bn_trainer_destroy(struct bn_trainer *t)
{
    if (t == NULL)
        return;
    release_acts(t->acts, t->nacts);
    bn_head_release(&t->head);
    bn_optim_destroy(t->optim);
    bn_model_destroy(t->model);
    t->dev->op.arena_release(t->dev, &t->work);
    t->dev->op.arena_release(t->dev, &t->state);
    free(t);
}
