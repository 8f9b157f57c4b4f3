#include "config.h"
#include "optim/adamw.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

static size_t moments(enum bn_dtype t)
{
    return t == BN_F32 ? 2 : 3; /* in fp32 the weights are the masters */
}

size_t bn_optim_bytes(enum bn_dtype t, size_t count)
{
    size_t one = (count * sizeof(float) + BN_ARENA_ALIGN - 1)
                 / BN_ARENA_ALIGN * BN_ARENA_ALIGN;

    return moments(t) * one + 2 * BN_ARENA_ALIGN;
}

void bn_optim_range(const struct bn_params *params, const struct bn_axis *data,
                    size_t *begin, size_t *count)
{
    *count = params->elems / (size_t)data->size;
    *begin = *count * (size_t)data->index;
}

/* More tensor ranks than KV heads: neighbours hold the same ones. */
static int split_copies(struct bn_optim *o, struct bn_err *err)
{
    const struct bn_axis *tp = &o->model->mesh->tp;
    int n = tp->size / o->model->cfg.kv_heads;

    if (n <= 1)
        return 0;
    o->copies = tp->comm->ops->split(tp->comm, tp->index / n, tp->index, err);
    return o->copies != NULL ? 0 : -1;
}

struct bn_optim *bn_optim_create(const struct bn_optim_conf *conf,
                                 struct bn_model *model, size_t begin,
                                 size_t count, struct bn_arena *arena,
                                 struct bn_err *err)
{
    const struct bn_ops *op = &model->dev->op;
    struct bn_optim *o = BN_NEW(struct bn_optim);
    size_t bytes = count * sizeof(float);

    o->conf = *conf;
    o->model = model;
    o->trained = bn_model_trained(model);
    o->begin = begin;
    o->count = count;
    o->begun = o->parts = o->trained.params->elems;
    o->m = bn_arena_get(arena, bytes);
    o->v = bn_arena_get(arena, bytes);
    o->master = model->t == BN_F32 ? (float *)o->trained.w + begin
                                   : bn_arena_get(arena, bytes);
    o->sq = bn_arena_get(arena, sizeof(*o->sq));
    o->now = bn_arena_get(arena, sizeof(*o->now));
    op->zero(model->dev, o->m, bytes);
    op->zero(model->dev, o->v, bytes);
    if (split_copies(o, err) < 0 || bn_dev_check(model->dev, err) < 0) {
        bn_optim_destroy(o);
        return NULL;
    }
    return o;
}

void bn_optim_destroy(struct bn_optim *o)
{
    if (o != NULL)
        bn_comm_destroy(o->copies);
    free(o);
}

void bn_optim_set_masters(struct bn_optim *o)
{
    struct bn_model *m = o->model;

    if (m->t != BN_F32)
        m->dev->op.cast(m->dev, o->master, BN_F32,
                        (char *)o->trained.w
                            + o->begin * bn_dtype_size(m->t),
                        m->t, o->count);
}

/* What differs in this step, with the clipping factor, on the device. */
static void set_now(struct bn_optim *o, double lr)
{
    struct bn_dev *d = o->model->dev;
    double t = (double)(o->step + 1);
    struct bn_adamw_now now = {
        .lr = (float)lr,
        .bias1 = (float)(1 - pow(o->conf.beta1, t)),
        .bias2 = (float)(1 - pow(o->conf.beta2, t)),
    };

    d->op.from_host(d, o->now, BN_F32, &now, BN_F32,
                    sizeof(now) / sizeof(float));
    d->op.clip_scale(d, &o->now->scale, o->sq, (float)o->conf.max_grad_norm);
}

/* Update what lies in [begin, end) of one parameter. */
static void update_param(struct bn_optim *o, const struct bn_param *p,
                         size_t begin, size_t end, const struct bn_adamw *a)
{
    struct bn_model *m = o->model;
    size_t from = p->offset > begin ? p->offset : begin;
    size_t to = p->offset + p->count < end ? p->offset + p->count : end;

    if (from >= to)
        return;
    size_t at = from - o->begin;
    m->dev->op.adamw(m->dev, m->t, a,
                     (char *)o->trained.w + from * bn_dtype_size(m->t),
                     o->master + at, o->m + at, o->v + at,
                     bn_model_grad(m, from), o->now, to - from);
}

static void update(struct bn_optim *o, size_t begin, size_t end,
                   struct bn_adamw a)
{
    const struct bn_optim_conf *c = &o->conf;

    for (int i = 0; i < o->trained.params->n; i++) {
        const struct bn_param *p = &o->trained.params->item[i];
        bool decays = c->decay_all || p->decay;

        a.weight_decay = decays ? (float)c->weight_decay : 0;
        update_param(o, p, begin, end, &a);
    }
}

/* How much of a range is updated and given away at a time: a bucket or more,
 * as much on all ranks. Few of them, so that what one call costs does not
 * count; of the last one nobody is left to compute. */
static size_t gather_step(const struct bn_optim *o)
{
    enum { MOST = 16, ALIGNED = 64 };
    size_t n = (o->count + MOST - 1) / MOST;

    if (n < o->conf.bucket)
        n = o->conf.bucket;
    return (n + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Update the range, and give each part of it to the other ranks while the
 * next one is updated. */
static int update_beside(struct bn_optim *o, const struct bn_adamw *a,
                         struct bn_err *err)
{
    struct bn_model *m = o->model;
    struct bn_comm *data = m->mesh->data.comm;
    size_t es = bn_dtype_size(m->t), step = gather_step(o);

    for (size_t at = 0; at < o->count; at += step) {
        size_t n = o->count - at < step ? o->count - at : step;

        update(o, o->begin + at, o->begin + at + n, *a);
        if (data->ops->allgather_begin(data, (char *)o->trained.w + at * es,
                                       n * es, o->count * es, err) < 0)
            return -1;
    }
    return data->ops->finish(data, err);
}

int bn_optim_queue(struct bn_optim *o, double lr, struct bn_err *err)
{
    struct bn_model *m = o->model;
    const struct bn_optim_conf *c = &o->conf;
    struct bn_adamw a = {
        .beta1 = (float)c->beta1,
        .beta2 = (float)c->beta2,
        .eps = (float)c->eps,
    };

    if (bn_optim_reduce(o, err) < 0)
        return -1;
    set_now(o, lr);
    o->step++;
    if (o->gather_beside && m->mesh->data.size > 1) {
        if (update_beside(o, &a, err) < 0)
            return -1;
    } else {
        update(o, o->begin, o->begin + o->count, a);
        if (bn_optim_gather(o, err) < 0)
            return -1;
    }
    if (m->adapter != NULL)
        bn_model_adapter_changed(m);
    else
        bn_model_changed(m);
    return bn_dev_check(m->dev, err);
}

int bn_optim_end(struct bn_optim *o, double sq, double *norm,
                 struct bn_err *err)
{
    *norm = sqrt(sq);
    if (isfinite(*norm))
        return 0;
    o->step--;
    return bn_fail(err, BN_ERR_NUMERIC, "gradient norm is %g",
                   fabs(*norm)); /* a NaN has no sign worth showing */
}

int bn_optim_step(struct bn_optim *o, double lr, double *norm,
                  struct bn_err *err)
{
    struct bn_dev *d = o->model->dev;
    double sq;

    if (bn_optim_queue(o, lr, err) < 0)
        return -1;
    d->op.to_host(d, &sq, BN_F64, o->sq, BN_F64, 1);
    if (bn_dev_check(d, err) < 0)
        return -1;
    return bn_optim_end(o, sq, norm, err);
}
