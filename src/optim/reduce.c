/* Gradients of all ranks to the sums that an optimizer step needs. */
#include "config.h"
#include "optim/adamw.h"

#include "model/shard.h"

#include <stdbool.h>

static int sum(struct bn_comm *c, float *g, size_t n, struct bn_err *err)
{
    return c->ops->allreduce(c, g, BN_F32, n, BN_SUM, err);
}

/* What of [*from, *to) is this rank's to update. */
static void clip_range(const struct bn_optim *o, size_t *from, size_t *to)
{
    if (*from < o->begin)
        *from = o->begin;
    if (*to > o->begin + o->count)
        *to = o->begin + o->count;
}

/* Norms of whole rows, of which a tensor rank may hold a part. */
static bool of_rows(enum bn_param_kind kind)
{
    return kind == BN_P_ATTN_NORM || kind == BN_P_MLP_NORM
           || kind == BN_P_FINAL_NORM;
}

/* Each tensor rank has gradients of its own heads (or columns, or rows) only
 * where it shares the parameters with others: norms of heads, norms of rows
 * that are shared out, and the factor of an adapter that is not split, with
 * all; copied KV heads with its neighbours. Of those that begin in [begin,
 * end). (Other shared ones get the same whole gradient on each.) */
static int sum_tensor_parts(struct bn_optim *o, size_t begin, size_t end,
                            struct bn_err *err)
{
    struct bn_model *m = o->model;
    struct bn_comm *tp = m->mesh->tp.comm;
    const struct bn_trained *t = &o->trained;

    for (int i = 0; tp->size > 1 && i < t->params->n; i++) {
        const struct bn_param *p = &t->params->item[i];
        bool norm = p->kind == BN_P_Q_NORM || p->kind == BN_P_K_NORM
                    || (m->mesh->sequence && of_rows(p->kind));
        bool factor = p->kind >= BN_P_LORA && p->split == BN_SPLIT_NONE;
        bool copied = p->split == BN_SPLIT_ROWS && p->copies > 1;
        size_t from = p->offset, to = p->offset + p->count;

        if (from < begin || from >= end)
            continue;
        /* Sharded gradients are cut alike on all of the tensor ranks. */
        if (m->shard != NULL)
            clip_range(o, &from, &to);
        if (from >= to)
            continue;
        if (((norm || factor)
             && sum(tp, bn_model_grad(m, from), to - from, err) < 0)
            || (copied && sum(o->copies, bn_model_grad(m, from), to - from,
                              err) < 0))
            return -1;
    }
    return 0;
}

/* A tied embedding on the first and the last stage has one gradient. */
static int sum_twins(struct bn_optim *o, struct bn_err *err)
{
    const struct bn_trained *t = &o->trained;
    const struct bn_shard *s = o->model->shard;

    for (int i = 0; i < t->params->n; i++) {
        const struct bn_param *p = &t->params->item[i];

        if (!p->twin)
            continue;
        float *g = s != NULL ? bn_shard_grad(s, p) : t->g + p->offset;
        if (sum(o->model->mesh->ends, g, p->count, err) < 0)
            return -1;
    }
    return 0;
}

/* Begin to sum the gradients from 'from' on that are not begun yet, each
 * piece to the rank that updates it. */
static int begin_sums(struct bn_optim *o, size_t from, struct bn_err *err)
{
    struct bn_comm *data = o->model->mesh->data.comm;
    size_t to = o->begun;

    o->begun = from;
    for (size_t at = from; data->size > 1 && at < to;) {
        int root = (int)(at / o->count);
        size_t end = (size_t)(root + 1) * o->count;
        float *g = o->trained.g + at;

        end = end < to ? end : to;
        if (data->ops->reduce_begin(data, g, g, BN_F32, end - at, root, err)
            < 0)
            return -1;
        at = end;
    }
    return 0;
}

/* Buckets are cut by what layers hold, which is as much on all ranks of a
 * tensor-parallel group: they do the same things in the same order. */
static size_t bucket_size(const struct bn_optim *o, size_t from)
{
    const struct bn_params *ps = o->trained.params;
    size_t end = bn_params_layer(ps, ps->part.end_layer);

    return (o->begun < end ? o->begun : end) - from;
}

void bn_optim_made(void *optim, int layer)
{
    struct bn_optim *o = optim;
    size_t from = bn_params_layer(o->trained.params, layer);
    struct bn_err err;
    int rc = 0;

    if (o->model->dev->failed)
        return;
    rc = sum_tensor_parts(o, from, o->parts, &err);
    o->parts = from;
    if (rc == 0 && bucket_size(o, from) >= o->conf.bucket)
        rc = begin_sums(o, from, &err);
    if (rc < 0)
        bn_dev_fail(o->model->dev, err.code, "%s", err.text);
}

/* Of the ranks that hold a parameter besides the data-parallel ones, which
 * split it, one counts it. */
static bool counts(const struct bn_model *m, const struct bn_param *p)
{
    return m->mesh->tp.index % p->copies == 0
           && (!p->twin || m->params.part.has_embed);
}

/* Into *o->sq. A taint (0 or NaN) of one rank spoils the norm of all. */
static int squared_norm(struct bn_optim *o, struct bn_err *err)
{
    struct bn_model *m = o->model;
    const struct bn_ops *op = &m->dev->op;
    struct bn_comm *w = m->mesh->world;
    const struct bn_trained *t = &o->trained;

    op->zero(m->dev, o->sq, sizeof(*o->sq));
    for (int i = 0; i < t->params->n; i++) {
        const struct bn_param *p = &t->params->item[i];
        size_t from = p->offset, to = p->offset + p->count;

        clip_range(o, &from, &to);
        if (from < to && counts(m, p))
            op->sqnorm(m->dev, o->sq, bn_model_grad(m, from), to - from);
    }
    if (o->taint != NULL)
        op->sqnorm(m->dev, o->sq, o->taint, 1);
    if (bn_dev_check(m->dev, err) < 0)
        return -1;
    return w->size == 1
               ? 0
               : w->ops->allreduce(w, o->sq, BN_F64, 1, BN_SUM, err);
}

int bn_optim_reduce(struct bn_optim *o, struct bn_err *err)
{
    struct bn_model *m = o->model;
    struct bn_comm *data = m->mesh->data.comm;
    size_t all = o->trained.params->elems;

    if (sum_twins(o, err) < 0)
        return -1;
    if (m->shard != NULL)
        bn_shard_ends_done(m);
    if (sum_tensor_parts(o, 0, o->parts, err) < 0)
        return -1;
    if (m->shard == NULL
        && (begin_sums(o, 0, err) < 0 || data->ops->finish(data, err) < 0))
        return -1;
    o->begun = o->parts = all;
    return squared_norm(o, err);
}

int bn_optim_gather(struct bn_optim *o, struct bn_err *err)
{
    struct bn_model *m = o->model;
    struct bn_comm *data = m->mesh->data.comm;

    if (data->size == 1)
        return 0;
    char *w = o->trained.w;
    return data->ops->allgather(data, w,
                                w + o->begin * bn_dtype_size(m->t), m->t,
                                o->count, err);
}
