/* One optimizer step: batches, denominators, forward, backward, update. */
#include "config.h"
#include "train/step.h"
#include "base/mem.h"
#include "base/times.h"
#include "train/graph.h"
#include "train/pipeline.h"
#include "train/rows.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Which of an example's tokens are scored. */
static int flags_of(const struct bn_trainer *t)
{
    return t->run->loss.nll_span == BN_RUN_NLL_FULL ? BN_BATCH_SCORE_PROMPT
                                                    : 0;
}

int bn_step_batch(const struct bn_trainer *t, const struct bn_tokens *set,
                  const uint64_t *index, int n, struct bn_batch *b,
                  struct bn_err *err)
{
    struct bn_example *ex = BN_NEWN(struct bn_example, (size_t)n);
    int rc;

    for (int i = 0; i < n; i++)
        bn_tokens_get(set, index[i], &ex[i]);
    rc = bn_batch_build(b, bn_tokens_group(set), ex, n, flags_of(t), err);
    free(ex);
    return rc;
}

void bn_step_count(const struct bn_trainer *t, const struct bn_tokens *set,
                   uint64_t i, struct bn_loss_denom *d)
{
    int ntok[BN_LOSS_MAX_GROUP];

    bn_tokens_targets(set, i, flags_of(t), ntok);
    t->loss->count(ntok, (size_t)t->loss->group, d);
}

/* The micro-batches of this rank in one step. */
struct micros {
    int n;
    struct bn_micro *m;
};

static void release(struct micros *m)
{
    for (int i = 0; i < m->n; i++)
        bn_micro_release(&m->m[i]);
    free(m->m);
}

static int build(struct bn_trainer *t, uint64_t step, struct micros *m,
                 struct bn_err *err)
{
    uint64_t *index = BN_NEWN(uint64_t, (size_t)t->plan.batch);
    int rc = 0;

    m->n = bn_plan_micros(&t->plan, step);
    m->m = BN_NEWN(struct bn_micro, (size_t)m->n);
    for (int i = 0; i < m->n && rc == 0; i++) {
        int slots = bn_plan_slots(&t->plan, step, i);
        struct bn_micro *k = &m->m[i];

        for (int s = 0; s < slots; s++)
            index[s] = bn_plan_example(&t->plan, step, i, s);
        if (slots > 0)
            rc = bn_step_batch(t, t->train, index, slots, &k->whole, err);
        if (rc == 0)
            rc = bn_micro_split(t, k, err);
    }
    free(index);
    return rc;
}

/* What micro-batch i of the step has for the rank of 'p'. */
static struct bn_loss_denom count_micro(const struct bn_trainer *t,
                                        const struct bn_plan *p, uint64_t step,
                                        int i)
{
    struct bn_loss_denom d = {0};
    int slots = bn_plan_slots(p, step, i);

    for (int s = 0; s < slots; s++)
        bn_step_count(t, t->train, bn_plan_example(p, step, i, s), &d);
    return d;
}

/* The counts of a whole step. */
struct counts {
    struct bn_loss_denom d;
    int filled; /* micro-batches that are not empty */
};

/* Every rank counts for all: they hold the same index of the data, and what
 * one has is a function of the step. Its own micro-batches keep their counts. */
static struct counts count(const struct bn_trainer *t, uint64_t step,
                           struct micros *m)
{
    struct counts c = {0};
    struct bn_plan p = t->plan;

    for (p.dp_rank = 0; p.dp_rank < p.dp_size; p.dp_rank++)
        for (int i = 0; i < m->n; i++) {
            struct bn_loss_denom d = count_micro(t, &p, step, i);

            c.d.tokens += d.tokens;
            c.d.examples += d.examples;
            c.filled += d.examples > 0;
            if (p.dp_rank == t->plan.dp_rank)
                m->m[i].denom = d;
        }
    return c;
}

/* What each micro-batch is divided by. exact: the counts of the whole step.
 * trl: those of the micro-batch, times the number of micro-batches there
 * are, which makes the step's loss the mean of the micro-batches' means. */
static void divide(const struct bn_trainer *t, const struct counts *c,
                   struct micros *m)
{
    for (int i = 0; i < m->n; i++) {
        struct bn_loss_denom *d = &m->m[i].denom;

        if (t->run->loss.loss_reduction == BN_RUN_REDUCE_TRL) {
            d->tokens *= c->filled;
            d->examples *= c->filled;
        } else {
            *d = c->d;
        }
    }
}

/* Name the rows of a step that ended in NaN or Inf. */
static int blame(struct bn_trainer *t, long step, const struct micros *m,
                 int first, int last, struct bn_err *err)
{
    char what[64];

    if (err == NULL || err->code != BN_ERR_NUMERIC)
        return -1;
    if (first == last)
        snprintf(what, sizeof(what), "step %ld, micro-batch %d", step + 1,
                 first + 1);
    else
        snprintf(what, sizeof(what), "step %ld", step + 1);
    return bn_rows_blame(t->train, m->m + first, last - first + 1, what, err);
}

/* What is fetched from the device at the end of a step, as it comes. */
struct mail {
    struct bn_loss_acc acc; /* zero on a stage without a head */
    double sq; /* of the gradient's norm */
    double sums[BN_STEP_SUMS];
};

_Static_assert(sizeof(struct mail) <= BN_MAIL, "the box is too small");

struct step {
    struct bn_trainer *t;
    long number;
    const struct micros *m;
    bool full; /* no rank has an empty micro-batch */
    struct bn_step_result *r;
};

/* What this rank's micro-batches came to into t->sums, and the sum of that
 * over all of the mesh. */
static int queue_sums(struct bn_trainer *t, const struct micros *m,
                      struct bn_err *err)
{
    const struct bn_ops *op = &t->dev->op;
    struct bn_comm *dp = t->mesh->dp.comm, *pp = t->mesh->pp.comm;
    size_t keys = BN_LOSS_MAX_KEYS;
    double own[BN_STEP_SUMS - BN_LOSS_MAX_KEYS] = {0}; /* tokens, FLOPs */

    for (int i = 0; i < m->n; i++) {
        const struct bn_batch *b = &m->m[i].whole;

        own[0] += b->ntok;
        if (b->ntok > 0)
            own[1] += bn_batch_flops(&t->model->cfg,
                                     bn_sizes_adapter(&t->sizes), b);
    }
    if (t->head.acc != NULL)
        op->cast(t->dev, t->sums, BN_F64, t->head.acc->metrics, BN_F64, keys);
    else
        op->zero(t->dev, t->sums, keys * sizeof(*t->sums));
    op->from_host(t->dev, t->sums + keys, BN_F64, own, BN_F64,
                  BN_STEP_SUMS - keys);
    if (dp->size > 1
        && dp->ops->allreduce(dp, t->sums, BN_F64, BN_STEP_SUMS, BN_SUM, err)
               < 0)
        return -1;
    /* Of the stages of a pipeline the last one has the metrics. */
    return pp->size == 1 ? 0
                         : pp->ops->allreduce(pp, t->sums, BN_F64, keys,
                                              BN_SUM, err);
}

static int queue_update(struct bn_trainer *t, const struct micros *m,
                        double lr, struct bn_err *err)
{
    const struct bn_ops *op = &t->dev->op;
    enum bn_time was = bn_times_enter(BN_TIME_OPTIMIZER);
    int rc = bn_optim_queue(t->optim, lr, err);

    if (rc == 0)
        rc = queue_sums(t, m, err);
    if (t->head.acc != NULL)
        op->mail(t->dev, offsetof(struct mail, acc), t->head.acc,
                 sizeof(*t->head.acc));
    op->mail(t->dev, offsetof(struct mail, sq), t->optim->sq,
             sizeof(*t->optim->sq));
    op->mail(t->dev, offsetof(struct mail, sums), t->sums,
             BN_STEP_SUMS * sizeof(*t->sums));
    bn_times_enter(was);
    return rc;
}

/* Enqueue all of a step; nothing waits for the device. */
static int queue(void *arg, struct bn_err *err)
{
    struct step *s = arg;
    struct bn_trainer *t = s->t;
    int at = 0, rc;

    bn_model_zero_grad(t->model);
    if (t->head.acc != NULL)
        bn_head_begin(t->model, &t->head);
    t->model->dropout.on = true;
    t->model->dropout.step = (uint64_t)s->number;
    rc = bn_pipeline_train(t, s->m->m, s->m->n, s->full, &at, &s->r->dropped,
                           err);
    t->model->dropout.on = false;
    if (rc < 0)
        return blame(t, s->number, s->m, at, at, err);
    if (s->r->dropped)
        return 0;
    s->r->lr = bn_schedule_lr(&t->schedule, s->number);
    return queue_update(t, s->m, s->r->lr, err);
}

/* Wait for what was queued. A loss or a gradient that is not finite was seen
 * on the device, which has left the weights as they were. */
static int end(struct bn_trainer *t, long step, const struct micros *m,
               struct bn_step_result *r, struct bn_err *err)
{
    enum bn_time was = bn_times_enter(BN_TIME_DEVICE);
    const struct mail *mail = t->dev->op.collect(t->dev);
    int batch = mail->acc.batch;

    bn_times_enter(was);
    if (bn_dev_check(t->dev, err) < 0)
        return -1;
    memcpy(r->metrics, mail->sums, sizeof(r->metrics));
    r->tokens = mail->sums[BN_LOSS_MAX_KEYS];
    r->flops = mail->sums[BN_LOSS_MAX_KEYS + 1];
    t->clamped += (long)mail->acc.clamped;
    int rc = bn_optim_end(t->optim, mail->sq, &r->grad_norm, err);

    /* The loss comes before the gradient, and knows better. */
    if (bn_head_fault(&mail->acc, &m->m[batch].whole, err) < 0)
        return blame(t, step, m, batch, batch, err);
    return rc < 0 ? blame(t, step, m, 0, m->n - 1, err) : 0;
}

static int queue_step(struct step *s, struct bn_err *err)
{
    struct bn_trainer *t = s->t;

    t->dev->queueing = true;
    int rc = bn_graphs_step(t->graphs, s->m->m, s->m->n, queue, s,
                            &s->r->dropped, err);

    t->dev->queueing = false;
    return rc;
}

static int run_micros(struct bn_trainer *t, long step, struct micros *m,
                      struct bn_step_result *r, struct bn_err *err)
{
    struct counts c = count(t, (uint64_t)step, m);
    struct step s = {.t = t, .number = step, .m = m, .r = r};

    s.full = c.filled == m->n * t->mesh->dp.size;
    r->examples = c.d.examples;
    divide(t, &c, m);
    if (queue_step(&s, err) < 0)
        return -1;
    return r->dropped ? 0 : end(t, step, m, r, err);
}

int bn_trainer_step(struct bn_trainer *t, long step, struct bn_step_result *r,
                    struct bn_err *err)
{
    struct micros m = {0};
    int rc;

    memset(r, 0, sizeof(*r));
    enum bn_time was = bn_times_enter(BN_TIME_DATA);

    rc = build(t, (uint64_t)step, &m, err);
    bn_times_enter(BN_TIME_OTHER);
    if (rc == 0)
        rc = run_micros(t, step, &m, r, err);
    release(&m);
    bn_times_enter(was);
    return rc;
}
