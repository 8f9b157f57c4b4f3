#include "config.h"
#include "train/pipeline.h"
#include "base/crash.h"
#include "base/mem.h"
#include "base/signal.h"
#include "base/times.h"
#include "mesh/split.h"
#include "train/observe.h"

#include <stdlib.h>

int bn_micro_split(const struct bn_trainer *t, struct bn_micro *m,
                   struct bn_err *err)
{
    const struct bn_axis *cp = &t->mesh->cp;

    if (cp->size == 1 || m->whole.ntok == 0)
        return 0;
    return bn_mesh_split(&m->part, &m->whole, cp->size, cp->index, err);
}

void bn_micro_release(struct bn_micro *m)
{
    bn_batch_release(&m->whole);
    bn_batch_release(&m->part);
}

static const struct bn_batch *batch_of(const struct bn_trainer *t,
                                       const struct bn_micro *m)
{
    return t->mesh->cp.size > 1 ? &m->part : &m->whole;
}

/* One rank's run through the micro-batches that are not empty. */
struct run {
    struct bn_trainer *t;
    struct bn_comm *pp;
    const struct bn_micro **m;
    int n, depth;
    double *metrics;
};

static bool is_first(const struct run *r)
{
    return r->pp->rank == 0;
}

static bool is_last(const struct run *r)
{
    return r->pp->rank == r->pp->size - 1;
}

static struct bn_acts *acts(const struct run *r, int k)
{
    return &r->t->acts[k % r->depth];
}

static size_t bytes(const struct run *r, int k)
{
    const struct bn_model *m = r->t->model;

    return (size_t)batch_of(r->t, r->m[k])->ntok
           * (size_t)m->cfg.hidden_size * bn_dtype_size(m->t);
}

/* Talk to the stage before: give the gradient of micro-batch b's input and
 * take the input of f; -1: not that. */
static int before(struct run *r, int b, int f, struct bn_err *err)
{
    int prev = r->pp->rank - 1;

    if (is_first(r) || (b < 0 && f < 0))
        return 0;
    return r->pp->ops->sendrecv(
        r->pp, b >= 0 ? acts(r, b)->d_x : NULL, b >= 0 ? bytes(r, b) : 0,
        b >= 0 ? prev : -1, f >= 0 ? bn_acts_input(acts(r, f)) : NULL,
        f >= 0 ? bytes(r, f) : 0, f >= 0 ? prev : -1, err);
}

/* Talk to the stage after: give the output of micro-batch f and take the
 * gradient of b's. */
static int after(struct run *r, int f, int b, struct bn_err *err)
{
    int next = r->pp->rank + 1;

    if (is_last(r) || (b < 0 && f < 0))
        return 0;
    return r->pp->ops->sendrecv(
        r->pp, f >= 0 ? bn_acts_output(acts(r, f)) : NULL,
        f >= 0 ? bytes(r, f) : 0, f >= 0 ? next : -1,
        b >= 0 ? acts(r, b)->d_x : NULL, b >= 0 ? bytes(r, b) : 0,
        b >= 0 ? next : -1, err);
}

static int run_forward(struct run *r, int k, struct bn_err *err)
{
    struct bn_trainer *t = r->t;
    struct bn_acts *a = acts(r, k);
    const struct bn_batch *b = batch_of(t, r->m[k]);
    struct bn_head_job job = {
        .loss = t->loss,
        .params = &t->loss_params,
        .denom = &r->m[k]->denom,
        .smoothing = t->smoothing,
        .metrics = r->metrics,
        .clamped = &t->clamped,
    };

    bn_crash_micro(k, r->n);
    if (bn_model_forward(t->model, a, b, err) < 0)
        return -1;
    if (!is_last(r))
        return 0;
    return bn_head_run(t->model, &t->head, b, a->y_f, a->d_x, &job, err);
}

static int forward(struct run *r, int k, struct bn_err *err)
{
    enum bn_time was = bn_times_enter(BN_TIME_FORWARD);
    int rc = run_forward(r, k, err);

    bn_times_enter(was);
    return rc;
}

static int backward(struct run *r, int k, struct bn_err *err)
{
    struct bn_acts *a = acts(r, k);
    enum bn_time was = bn_times_enter(BN_TIME_BACKWARD);

    bn_crash_micro(k, r->n);
    bn_model_backward(r->t->model, a, a->d_x);
    int rc = bn_dev_check(r->t->dev, err);
    bn_times_enter(was);
    return rc;
}

/* Ranks of one tp and cp group run the same micro-batches in step, so they
 * must stop at the same one. */
static int asked_to_stop(const struct run *r, bool *stop, struct bn_err *err)
{
    struct bn_comm *groups[] = {r->t->mesh->tp.comm, r->t->mesh->cp.comm};
    int64_t sig = bn_stop_signal();

    for (int i = 0; i < 2; i++) {
        struct bn_comm *c = groups[i];

        if (c->size > 1
            && c->ops->allreduce(c, &sig, BN_I64, 1, BN_MAX, err) < 0)
            return -1;
    }
    *stop = sig != 0;
    return 0;
}

/* What is done between two micro-batches; a pipeline, and ranks that sum
 * sharded gradients in every micro-batch, are looked at after the step. */
static int between(const struct run *r, bool *stop, struct bn_err *err)
{
    bn_observe_poll();
    return r->pp->size == 1 && r->t->model->shard == NULL
               ? asked_to_stop(r, stop, err)
               : 0;
}

/* '*at' is the micro-batch in work. */
static int one_f_one_b(struct run *r, int *at, bool *stop,
                       struct bn_err *err)
{
    int warm = r->pp->size - 1 - r->pp->rank, f = 0, b = 0;

    if (warm > r->n)
        warm = r->n;
    for (*at = 0; f < warm; f++, *at = f)
        if (before(r, -1, f, err) < 0 || forward(r, f, err) < 0
            || after(r, f, -1, err) < 0)
            return -1;
    if (f < r->n && before(r, -1, f, err) < 0)
        return -1;
    while (f < r->n) {
        *at = f;
        if (f > 0 && between(r, stop, err) < 0)
            return -1;
        if (*stop)
            return 0;
        if (forward(r, f, err) < 0 || after(r, f, b, err) < 0)
            return -1;
        *at = b;
        f++;
        if (backward(r, b, err) < 0
            || before(r, b, f < r->n ? f : -1, err) < 0)
            return -1;
        b++;
    }
    for (; b < r->n; b++) {
        *at = b;
        if (after(r, -1, b, err) < 0 || backward(r, b, err) < 0
            || before(r, b, -1, err) < 0)
            return -1;
    }
    return 0;
}

int bn_pipeline_train(struct bn_trainer *t, const struct bn_micro *m, int n,
                      double *metrics, int *where, bool *stopped,
                      struct bn_err *err)
{
    struct run r = {.t = t, .pp = t->mesh->pp.comm, .metrics = metrics};
    int at = 0, rc;

    *stopped = false;
    /* Empty ones are empty on all stages: they hold the same data. */
    r.m = BN_NEWN(const struct bn_micro *, (size_t)n);
    for (int i = 0; i < n; i++)
        if (m[i].whole.ntok > 0)
            r.m[r.n++] = &m[i];
    r.depth = bn_sizes_depth(t->mesh, r.n);
    rc = r.n > 0 ? one_f_one_b(&r, &at, stopped, err) : 0;
    bn_crash_micro(0, 0);
    if (rc < 0)
        *where = (int)(r.m[at] - m);
    /* The other data-parallel ranks may have more that are not empty. */
    for (int i = r.n; i < n && rc == 0; i++) {
        bn_model_backward_none(t->model);
        rc = bn_dev_check(t->dev, err);
    }
    free(r.m);
    return rc;
}

int bn_pipeline_forward(struct bn_trainer *t, const struct bn_micro *m,
                        const struct bn_head_job *job, struct bn_err *err)
{
    struct run r = {.t = t, .pp = t->mesh->pp.comm, .m = &m, .n = 1,
                    .depth = 1};
    struct bn_acts *a = &t->acts[0];
    const struct bn_batch *b = batch_of(t, m);

    if (before(&r, -1, 0, err) < 0
        || bn_model_forward(t->model, a, b, err) < 0)
        return -1;
    if (!is_last(&r))
        return after(&r, 0, -1, err);
    return bn_head_run(t->model, &t->head, b, a->y_f, NULL, job, err);
}
