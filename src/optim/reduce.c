/* Gradients of all ranks to the sums that an optimizer step needs. */
#include "config.h"
#include "optim/adamw.h"

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

/* Each tensor rank has gradients of its own heads (or columns) only where it
 * shares the parameters with others: q and k norms and the factor of an
 * adapter that is not split with all, copied KV heads with its neighbours.
 * (Other shared ones get the same whole gradient on each.) */
static int sum_tensor_parts(struct bn_optim *o, struct bn_err *err)
{
    struct bn_model *m = o->model;
    struct bn_comm *tp = m->mesh->tp.comm;
    const struct bn_trained *t = &o->trained;

    for (int i = 0; tp->size > 1 && i < t->params->n; i++) {
        const struct bn_param *p = &t->params->item[i];
        bool norm = p->kind == BN_P_Q_NORM || p->kind == BN_P_K_NORM;
        bool factor = p->kind >= BN_P_LORA && p->split == BN_SPLIT_NONE;
        bool copied = p->split == BN_SPLIT_ROWS && p->copies > 1;
        size_t from = p->offset, to = p->offset + p->count;

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

    for (int i = 0; i < t->params->n; i++) {
        const struct bn_param *p = &t->params->item[i];

        if (p->twin
            && sum(o->model->mesh->ends, t->g + p->offset, p->count, err) < 0)
            return -1;
    }
    return 0;
}

/* Of the ranks that hold a parameter besides the data-parallel ones, which
 * split it, one counts it. */
static bool counts(const struct bn_model *m, const struct bn_param *p)
{
    return m->mesh->tp.index % p->copies == 0
           && (!p->twin || m->params.part.has_embed);
}

static int squared_norm(struct bn_optim *o, double *sq, struct bn_err *err)
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
    op->to_host(m->dev, sq, BN_F64, o->sq, BN_F64, 1);
    if (bn_dev_check(m->dev, err) < 0)
        return -1;
    return w->size == 1
               ? 0
               : w->ops->allreduce(w, sq, BN_F64, 1, BN_SUM, err);
}

int bn_optim_reduce(struct bn_optim *o, double *sq, struct bn_err *err)
{
    struct bn_comm *data = o->model->mesh->data.comm;
    float *g = o->trained.g;

    if (sum_tensor_parts(o, err) < 0 || sum_twins(o, err) < 0)
        return -1;
    if (data->size > 1 && o->model->shard == NULL
        && data->ops->reduce_scatter(data, g + o->begin, g, BN_F32, o->count,
                                     err) < 0)
        return -1;
    return squared_norm(o, sq, err);
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
