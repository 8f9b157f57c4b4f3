#include "config.h"
#include "train/pipeline.h"
#include "base/clock.h"
#include "base/crash.h"
#include "base/mem.h"
#include "base/signal.h"
#include "base/times.h"
#include "mesh/split.h"
#include "model/seq.h"
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
    const struct bn_micro *all, **m; /* 'm': those that are not empty */
    int n, depth;
    bool stoppable; /* by a signal, between micro-batches */
    int64_t heard;  /* of a signal, by this stage or one behind it */
    bool cut;       /* 'n' is fewer than there were */
    bool agreed;    /* on whether the step is dropped, which is 'dropped' */
    bool dropped;
    double *spent; /* computing, by this rank; NULL: not measured */
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

    return (size_t)bn_seq_rows(m->mesh, batch_of(r->t, r->m[k])->ntok)
           * (size_t)m->cfg.hidden_size * bn_dtype_size(m->t);
}

/* --- Stopping ------------------------------------------------------------- */

/* A signal is answered before forward passes that are this many apart. The
 * first stage looks; from then on no stage gets a further micro-batch, and
 * those under way are run to their end. In between, stages send each other a
 * word with what they send anyway: down whether to stop, up what was heard. */
static bool looks(const struct run *r, int k)
{
    return r->stoppable && k > 0 && k % r->pp->size == 0;
}

/* Words to and from a neighbour: 'out' if a micro-batch 'give' is sent to it,
 * '*in' if 'take' comes from it; -1: none. */
static int talk(struct run *r, int peer, int64_t out, int give, int64_t *in,
                int take, struct bn_err *err)
{
    bool gives = looks(r, give), takes = looks(r, take);

    if (!gives && !takes)
        return 0;
    return r->pp->ops->sendrecv(r->pp, &out, sizeof(out), gives ? peer : -1,
                                in, sizeof(*in), takes ? peer : -1, err);
}

static void stop_at(struct run *r, int f)
{
    r->n = f;
    r->cut = true;
}

/* Ranks of one tp and cp group run the same micro-batches in step, so they
 * must stop at the same one; with sharded gradients those of dp too. */
static int asked_to_stop(struct run *r, bool *stop, struct bn_err *err)
{
    const struct bn_mesh *m = r->t->mesh;
    struct bn_comm *groups[] = {m->tp.comm, m->cp.comm, m->dp.comm};
    int n = r->t->model->shard != NULL ? 3 : 2;
    int64_t sig = bn_stop_signal() != 0 || r->heard != 0;

    for (int i = 0; i < n; i++) {
        struct bn_comm *c = groups[i];

        if (c->size > 1
            && c->ops->allreduce(c, &sig, BN_I64, 1, BN_MAX, err) < 0)
            return -1;
    }
    *stop = sig != 0;
    return 0;
}

/* Of the first stage, before the forward pass of f. */
static int look(struct run *r, int f, struct bn_err *err)
{
    bool stop;

    if (!is_first(r) || !looks(r, f))
        return 0;
    if (asked_to_stop(r, &stop, err) < 0)
        return -1;
    if (stop)
        stop_at(r, f);
    return 0;
}

/* A rank that stopped has no use for the micro-batches of the other
 * data-parallel ranks: all drop the step. They agree before the last backward
 * pass, which the sums of gradients begin in. The ranks of a stage have to
 * wait for each other there alone: those of other stages come to the same. */
static int agree(struct run *r, struct bn_err *err)
{
    struct bn_comm *dp = r->t->mesh->dp.comm;
    int64_t v = r->cut;

    if (r->agreed)
        return 0;
    r->agreed = true;
    if (r->stoppable && dp->size > 1
        && dp->ops->allreduce(dp, &v, BN_I64, 1, BN_MAX, err) < 0)
        return -1;
    r->dropped = v != 0;
    return 0;
}

/* --- Passes ----------------------------------------------------------------- */

/* Talk to the stage before: give the gradient of micro-batch b's input and
 * take the input of f; -1: not that. */
static int before(struct run *r, int b, int f, struct bn_err *err)
{
    int prev = r->pp->rank - 1;

    int64_t heard = r->heard != 0 || bn_stop_signal() != 0, stop = 0;

    if (is_first(r) || (b < 0 && f < 0))
        return 0;
    if (talk(r, prev, heard, b, &stop, f, err) < 0)
        return -1;
    if (stop != 0) {
        stop_at(r, f);
        f = -1;
    }
    return r->pp->ops->sendrecv(
        r->pp, b >= 0 ? acts(r, b)->d_x : NULL, b >= 0 ? bytes(r, b) : 0,
        b >= 0 ? prev : -1, f >= 0 ? bn_acts_input(acts(r, f)) : NULL,
        f >= 0 ? bytes(r, f) : 0, f >= 0 ? prev : -1, err);
}

/* Talk to the stage after: give the output of micro-batch f and take the
 * gradient of b's. f that is r->n: tell it that there is none. */
static int after(struct run *r, int f, int b, struct bn_err *err)
{
    int next = r->pp->rank + 1;
    int64_t stop = f == r->n, heard = 0;

    if (is_last(r) || (b < 0 && f < 0))
        return 0;
    if (talk(r, next, stop, f, &heard, b, err) < 0)
        return -1;
    r->heard |= heard;
    if (stop)
        f = -1;
    return r->pp->ops->sendrecv(
        r->pp, f >= 0 ? bn_acts_output(r->t->model, acts(r, f)) : NULL,
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
        .batch = (int)(r->m[k] - r->all),
    };

    bn_crash_micro(k, r->n);
    if (bn_model_forward(t->model, a, b, err) < 0)
        return -1;
    if (!is_last(r))
        return 0;
    return bn_head_queue(t->model, &t->head, b, a->y_f, a->d_y, &job, err);
}

/* What is measured is between two waits for the device. */
static double begin_measure(const struct run *r)
{
    if (r->spent == NULL)
        return 0;
    r->t->dev->op.sync(r->t->dev);
    return bn_now();
}

static void end_measure(const struct run *r, double began)
{
    if (r->spent == NULL)
        return;
    r->t->dev->op.sync(r->t->dev);
    *r->spent += bn_now() - began;
}

static int forward(struct run *r, int k, struct bn_err *err)
{
    enum bn_time was = bn_times_enter(BN_TIME_FORWARD);
    double began = begin_measure(r);
    int rc = run_forward(r, k, err);

    end_measure(r, began);
    bn_times_enter(was);
    return rc;
}

/* The gradients of a step's last backward pass are summed as they are made. */
static int sum_as_made(struct run *r, struct bn_err *err)
{
    struct bn_trainer *t = r->t;

    if (agree(r, err) < 0)
        return -1;
    if (!r->dropped && t->model->shard == NULL && r->spent == NULL
        && t->run->mesh.overlap_grad_reduce) {
        t->model->made.f = bn_optim_made;
        t->model->made.arg = t->optim;
    }
    return 0;
}

static int run_backward(struct run *r, int k, struct bn_err *err)
{
    struct bn_model *m = r->t->model;
    struct bn_acts *a = acts(r, k);

    bn_crash_micro(k, r->n);
    if (k == r->n - 1 && sum_as_made(r, err) < 0)
        return -1;
    bn_model_backward(m, a, a->d_y);
    m->made.f = NULL;
    return bn_dev_check(r->t->dev, err);
}

/* Of n micro-batches all but 'mine' have no data here. Other data-parallel
 * ranks may have some, and this one has to take part in the same sums. */
static int run_empty(struct run *r, int mine, int n, struct bn_err *err)
{
    struct bn_model *m = r->t->model;

    for (int k = mine; k < n; k++) {
        if (mine == 0 && k == n - 1 && sum_as_made(r, err) < 0)
            return -1;
        bn_model_backward_none(m);
        m->made.f = NULL;
        if (bn_dev_check(r->t->dev, err) < 0)
            return -1;
    }
    return 0;
}

static int backward(struct run *r, int k, struct bn_err *err)
{
    enum bn_time was = bn_times_enter(BN_TIME_BACKWARD);
    double began = begin_measure(r);
    int rc = run_backward(r, k, err);

    end_measure(r, began);
    bn_times_enter(was);
    return rc;
}

/* '*at' is the micro-batch in work. */
static int one_f_one_b(struct run *r, int *at, struct bn_err *err)
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
        bn_observe_poll();
        if (look(r, f, err) < 0)
            return -1;
        if (r->cut)
            break;
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
        /* One that was cut has told nobody yet. */
        if (after(r, r->cut && b == f - warm ? f : -1, b, err) < 0
            || backward(r, b, err) < 0
            || before(r, b, -1, err) < 0)
            return -1;
    }
    return 0;
}

/* All of m[n]; '*where' is the one that failed. */
static int run_all(struct run *r, const struct bn_micro *m, int n, int *where,
                   struct bn_err *err)
{
    int at = 0, rc;

    r->all = m;
    /* Empty ones are empty on all stages: they hold the same data. */
    r->m = BN_NEWN(const struct bn_micro *, (size_t)n);
    for (int i = 0; i < n; i++)
        if (m[i].whole.ntok > 0)
            r->m[r->n++] = &m[i];
    r->depth = bn_sizes_depth(r->t->mesh, r->n);
    int mine = r->n;
    rc = mine > 0 ? one_f_one_b(r, &at, err) : 0;
    bn_crash_micro(0, 0);
    if (rc < 0)
        *where = (int)(r->m[at] - m);
    if (rc == 0)
        rc = run_empty(r, mine, n, err);
    if (rc == 0)
        rc = agree(r, err);
    free(r->m);
    return rc;
}

int bn_pipeline_train(struct bn_trainer *t, const struct bn_micro *m, int n,
                      bool full, int *where, bool *stopped, struct bn_err *err)
{
    const struct bn_comm *world = t->mesh->world;
    struct run r = {.t = t, .pp = t->mesh->pp.comm};

    r.stoppable = n > 1 && (t->model->shard == NULL || full)
                  && (world->size == 1 || !world->ops->enqueues);
    int rc = run_all(&r, m, n, where, err);

    *stopped = r.dropped;
    return rc;
}

int bn_pipeline_measure(struct bn_trainer *t, const struct bn_micro *m,
                        double *seconds, struct bn_err *err)
{
    struct run r = {.t = t, .pp = t->mesh->pp.comm, .spent = seconds};
    int where;

    *seconds = 0;
    if (t->head.acc != NULL)
        bn_head_begin(t->model, &t->head);
    return run_all(&r, m, 1, &where, err);
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
