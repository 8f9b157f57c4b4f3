/* One optimizer step: batches, denominators, forward, backward, update. */
#include "config.h"
#include "train/step.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/times.h"
#include "train/graph.h"
#include "train/pipeline.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

int bn_step_batch(const struct bn_trainer *t, const struct bn_tokens *set,
                  const uint64_t *index, int n, struct bn_batch *b,
                  struct bn_err *err)
{
    struct bn_example *ex = BN_NEWN(struct bn_example, (size_t)n);
    int flags = t->run->loss.nll_span == BN_RUN_NLL_FULL
                    ? BN_BATCH_SCORE_PROMPT
                    : 0;
    int rc;

    for (int i = 0; i < n; i++)
        bn_tokens_get(set, index[i], &ex[i]);
    rc = bn_batch_build(b, bn_tokens_group(set), ex, n, flags, err);
    free(ex);
    return rc;
}

void bn_step_count(const struct bn_loss *loss, const struct bn_batch *b,
                   struct bn_loss_denom *d)
{
    int *ntok = BN_NEWN(int, (size_t)b->nseq);

    for (int i = 0; i < b->nseq; i++)
        ntok[i] = b->seq[i].ntok;
    loss->count(ntok, (size_t)b->nseq, d);
    free(ntok);
}

void bn_step_where(const struct bn_tokens *set, const struct bn_batch *b,
                   struct bn_str *out)
{
    int64_t last = -1;

    for (int i = 0; i < b->nseq; i++) {
        if (b->seq[i].example == last)
            continue;
        bn_str_adds(out, last >= 0 ? ", " : "");
        last = b->seq[i].example;
        bn_tokens_where(set, (uint64_t)last, out);
    }
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
            bn_step_count(t->loss, &k->whole, &k->denom);
        if (rc == 0)
            rc = bn_micro_split(t, k, err);
    }
    free(index);
    return rc;
}

int bn_step_sum(const struct bn_mesh *mesh, double *v, size_t n,
                struct bn_err *err)
{
    struct bn_comm *c = mesh->dp.comm;

    if (c->size == 1)
        return 0;
    return c->ops->allreduce(c, v, BN_F64, n, BN_SUM, err);
}

int bn_step_sum_metrics(const struct bn_mesh *mesh, double *metrics,
                        struct bn_err *err)
{
    struct bn_comm *pp = mesh->pp.comm;

    if (bn_step_sum(mesh, metrics, BN_LOSS_MAX_KEYS, err) < 0)
        return -1;
    if (pp->size == 1)
        return 0;
    return pp->ops->allreduce(pp, metrics, BN_F64, BN_LOSS_MAX_KEYS, BN_SUM,
                              err);
}

/* What each micro-batch is divided by. exact: the counts of the whole step.
 * trl: those of the micro-batch, times the number of micro-batches there
 * are, which makes the step's loss the mean of the micro-batches' means.
 * '*full': no rank has an empty one. */
static int denominators(struct bn_trainer *t, struct micros *m,
                        double *examples, bool *full, struct bn_err *err)
{
    double sum[3] = {0};

    for (int i = 0; i < m->n; i++) {
        const struct bn_loss_denom *d = &m->m[i].denom;

        sum[0] += d->tokens;
        sum[1] += d->examples;
        sum[2] += d->examples > 0; /* micro-batches that are not empty */
    }
    if (bn_step_sum(t->mesh, sum, 3, err) < 0)
        return -1;
    *examples = sum[1];
    *full = sum[2] == (double)m->n * t->mesh->dp.size;
    bool trl = t->run->loss.loss_reduction == BN_RUN_REDUCE_TRL;
    for (int i = 0; i < m->n; i++) {
        struct bn_loss_denom *d = &m->m[i].denom;

        if (trl) {
            d->tokens *= sum[2];
            d->examples *= sum[2];
        } else {
            *d = (struct bn_loss_denom){sum[0], sum[1]};
        }
    }
    return 0;
}

/* Sums over all data of what this rank's micro-batches came to. */
static int reduce(struct bn_trainer *t, const struct micros *m,
                  struct bn_step_result *r, struct bn_err *err)
{
    double v[2] = {0};

    for (int i = 0; i < m->n; i++) {
        const struct bn_batch *b = &m->m[i].whole;

        v[0] += b->ntok;
        if (b->ntok > 0)
            v[1] += bn_batch_flops(&t->model->cfg,
                                   bn_sizes_adapter(&t->sizes), b);
    }
    if (bn_step_sum(t->mesh, v, 2, err) < 0
        || bn_step_sum_metrics(t->mesh, r->metrics, err) < 0)
        return -1;
    r->tokens = v[0];
    r->flops = v[1];
    return 0;
}

/* Name the rows of a step that ended in NaN or Inf. */
static int blame(struct bn_trainer *t, long step, const struct micros *m,
                 int first, int last, struct bn_err *err)
{
    struct bn_str rows = {0};

    if (err != NULL && err->code == BN_ERR_NUMERIC) {
        for (int i = first; i <= last; i++) {
            bn_str_adds(&rows, i > first ? ", " : "");
            bn_step_where(t->train, &m->m[i].whole, &rows);
        }
        if (first == last)
            bn_err_prefix(err, "step %ld, micro-batch %d (%s)", step + 1,
                          first + 1, rows.s != NULL ? rows.s : "");
        else
            bn_err_prefix(err, "step %ld (%s)", step + 1,
                          rows.s != NULL ? rows.s : "");
    }
    bn_str_release(&rows);
    return -1;
}

/* What is fetched from the device at the end of a step, as it comes. */
struct mail {
    struct bn_loss_acc acc; /* zero on a stage without a head */
    double sq; /* of the gradient's norm */
};

_Static_assert(sizeof(struct mail) <= BN_MAIL, "the box is too small");

struct step {
    struct bn_trainer *t;
    long number;
    const struct micros *m;
    bool full;
    struct bn_step_result *r;
};

static int queue_update(struct bn_trainer *t, double lr, struct bn_err *err)
{
    const struct bn_ops *op = &t->dev->op;
    enum bn_time was = bn_times_enter(BN_TIME_OPTIMIZER);
    int rc = bn_optim_queue(t->optim, lr, err);

    if (t->head.acc != NULL)
        op->mail(t->dev, offsetof(struct mail, acc), t->head.acc,
                 sizeof(*t->head.acc));
    op->mail(t->dev, offsetof(struct mail, sq), t->optim->sq,
             sizeof(*t->optim->sq));
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
    return queue_update(t, s->r->lr, err);
}

/* Wait for what was queued. A loss or a gradient that is not finite was seen
 * on the device, which has left the weights as they were. */
static int end(struct bn_trainer *t, long step, const struct micros *m,
               struct bn_step_result *r, struct bn_err *err)
{
    enum bn_time was = bn_times_enter(BN_TIME_OPTIMIZER);
    const struct mail *mail = t->dev->op.collect(t->dev);
    int batch = mail->acc.batch;

    bn_times_enter(was);
    if (bn_dev_check(t->dev, err) < 0)
        return -1;
    for (int k = 0; k < t->loss->nkeys; k++)
        r->metrics[k] = mail->acc.metrics[k];
    t->clamped += (long)mail->acc.clamped;
    int rc = bn_optim_end(t->optim, mail->sq, &r->grad_norm, err);

    /* The loss comes before the gradient, and knows better. */
    if (bn_head_fault(&mail->acc, &m->m[batch].whole, err) < 0)
        return blame(t, step, m, batch, batch, err);
    return rc < 0 ? blame(t, step, m, 0, m->n - 1, err) : 0;
}

static int run_micros(struct bn_trainer *t, long step, struct micros *m,
                      struct bn_step_result *r, struct bn_err *err)
{
    struct step s = {.t = t, .number = step, .m = m, .r = r};

    if (denominators(t, m, &r->examples, &s.full, err) < 0
        || bn_graphs_step(t->graphs, m->m, m->n, queue, &s, &r->dropped, err)
               < 0)
        return -1;
    if (r->dropped)
        return 0;
    return end(t, step, m, r, err) < 0 ? -1 : reduce(t, m, r, err);
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
