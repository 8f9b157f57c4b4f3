/* Evaluation: the loss's metrics over a whole token set. */
#include "config.h"
#include "train/step.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/signal.h"
#include "train/observe.h"
#include "train/pipeline.h"
#include "train/rows.h"

#include <stdlib.h>
#include <string.h>

/* This rank's share of the set: every dp_size-th batch. */
struct share {
    uint64_t n, batch, rank, ranks;
};

static struct share my_share(const struct bn_trainer *t)
{
    return (struct share){
        .n = bn_tokens_count(t->eval),
        .batch = (uint64_t)t->run->eval.per_device_eval_batch_size,
        .rank = (uint64_t)t->mesh->dp.index,
        .ranks = (uint64_t)t->mesh->dp.size,
    };
}

/* Examples of this rank's batch number i from '*first' on; 0 at the end. */
static int batch_at(const struct share *s, uint64_t i, uint64_t *first)
{
    *first = (i * s->ranks + s->rank) * s->batch;
    if (*first >= s->n)
        return 0;
    return (int)(s->n - *first < s->batch ? s->n - *first : s->batch);
}

static int build(const struct bn_trainer *t, uint64_t first, int n,
                 struct bn_batch *b, struct bn_err *err)
{
    uint64_t *index = BN_NEWN(uint64_t, (size_t)n);
    int rc;

    for (int k = 0; k < n; k++)
        index[k] = first + (uint64_t)k;
    rc = bn_step_batch(t, t->eval, index, n, b, err);
    free(index);
    return rc;
}

/* Denominators are needed before the first batch is run: a pass over the
 * index, once, for the set stays as it is. */
static void denominators(struct bn_trainer *t, uint64_t n)
{
    struct bn_loss_denom d = {0};

    if (t->eval_counted)
        return;
    for (uint64_t i = 0; i < n; i++)
        bn_step_count(t, t->eval, i, &d);
    t->eval_denom = d;
    t->eval_counted = true;
}

/* The metrics of all, which only the last stage of a pipeline has: every rank
 * gets their sum. */
static int sum(const struct bn_mesh *mesh, double *metrics, struct bn_err *err)
{
    struct bn_comm *over[] = {mesh->dp.comm, mesh->pp.comm};

    for (int i = 0; i < 2; i++)
        if (over[i]->size > 1
            && over[i]->ops->allreduce(over[i], metrics, BN_F64,
                                       BN_LOSS_MAX_KEYS, BN_SUM, err) < 0)
            return -1;
    return 0;
}

static int one(struct bn_trainer *t, uint64_t first, int n,
               const struct bn_head_job *job, struct bn_err *err)
{
    struct bn_micro m = {0};
    int rc = build(t, first, n, &m.whole, err);

    if (rc == 0)
        rc = bn_micro_split(t, &m, err);
    if (rc == 0)
        rc = bn_pipeline_forward(t, &m, job, err);
    if (rc < 0 && err->code == BN_ERR_NUMERIC)
        bn_rows_blame(t->eval, &m, 1, "evaluation", err);
    bn_micro_release(&m);
    return rc;
}

/* A signal on any rank is one for all; looked at before each batch. */
static int asked_to_stop(const struct bn_trainer *t, bool *stopped,
                         struct bn_err *err)
{
    struct bn_comm *w = t->mesh->world;
    int64_t sig = bn_stop_signal();

    if (w->size > 1 && w->ops->allreduce(w, &sig, BN_I64, 1, BN_MAX, err) < 0)
        return -1;
    *stopped = sig != 0;
    return 0;
}

/* As many rounds on every rank; the last may have nothing for some. */
static int rounds(struct bn_trainer *t, const struct share *s,
                  const struct bn_head_job *job, bool *stopped,
                  struct bn_err *err)
{
    uint64_t first;

    for (uint64_t i = 0; i * s->ranks * s->batch < s->n; i++) {
        int n = batch_at(s, i, &first);

        bn_observe_poll();
        if (asked_to_stop(t, stopped, err) < 0)
            return -1;
        if (*stopped)
            break;
        if (n > 0 && one(t, first, n, job, err) < 0)
            return -1;
        bn_progress_update(first + (uint64_t)n, NULL);
    }
    return 0;
}

int bn_trainer_eval(struct bn_trainer *t, double *metrics, double *examples,
                    bool *stopped, struct bn_err *err)
{
    struct share s = my_share(t);
    struct bn_head_job job = {
        .loss = t->loss,
        .params = &t->loss_params,
        .denom = &t->eval_denom,
        .smoothing = t->smoothing, /* as transformers' Trainer does */
        .metrics = metrics,
    };

    memset(metrics, 0, BN_LOSS_MAX_KEYS * sizeof(*metrics));
    denominators(t, s.n);
    *examples = t->eval_denom.examples;
    *stopped = false;
    if (t->mesh->world->rank == 0)
        bn_progress_begin("evaluate", 0, s.n, 30);
    int rc = rounds(t, &s, &job, stopped, err);

    bn_progress_end();
    if (rc < 0 || *stopped)
        return rc;
    return sum(t->mesh, metrics, err);
}
