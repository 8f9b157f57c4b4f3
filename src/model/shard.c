#include "config.h"
#include "model/shard.h"

/* [*from, *to) of the flat parameters is layer l's, with what pads it. */
static void range(const struct bn_params *ps, int l, size_t *from, size_t *to)
{
    *from = bn_params_layer(ps, l);
    *to = bn_params_layer(ps, l + 1);
}

void bn_shard_sizes(struct bn_shard *s, const struct bn_params *ps)
{
    *s = (struct bn_shard){.params = ps, .pending = -1};
    s->first = bn_params_layer(ps, ps->part.first_layer);
    s->last = bn_params_layer(ps, ps->part.end_layer);
    for (int l = ps->part.first_layer; l < ps->part.end_layer; l++) {
        size_t from, to;

        range(ps, l, &from, &to);
        if (to - from > s->most)
            s->most = to - from;
    }
}

void bn_shard_carve(struct bn_shard *s, struct bn_arena *a)
{
    const struct bn_params *ps = s->params;
    size_t ends = s->first + ps->elems - s->last;

    s->kept = bn_arena_get(a, ps->kept * sizeof(float));
    s->layer[0] = s->layer[1] = bn_arena_get(a, s->most * sizeof(float));
    if (ps->whole > 1)
        s->layer[1] = bn_arena_get(a, s->most * sizeof(float));
    s->ends = bn_arena_get(a, ends * sizeof(float));
}

/* Where layer l's are made. */
static float *layer_of(const struct bn_shard *s, int l)
{
    return s->layer[l % BN_SHARD_WHOLE];
}

float *bn_shard_grad(const struct bn_shard *s, const struct bn_param *p)
{
    size_t from, to;

    if (p->layer >= 0) {
        range(s->params, p->layer, &from, &to);
        return layer_of(s, p->layer) + (p->offset - from);
    }
    return p->offset < s->first ? s->ends + p->offset
                                : s->ends + s->first + (p->offset - s->last);
}

static void zero(struct bn_model *m, float *g, size_t n)
{
    m->dev->op.zero(m->dev, g, n * sizeof(float));
}

void bn_shard_zero(struct bn_model *m)
{
    const struct bn_shard *s = m->shard;

    zero(m, s->kept, s->params->kept);
    for (int i = 0; i < BN_SHARD_WHOLE; i++)
        zero(m, s->layer[i], s->most);
    zero(m, s->ends, s->first + s->params->elems - s->last);
}

static void failed(struct bn_model *m, const struct bn_err *err)
{
    bn_dev_fail(m->dev, err->code, "%s", err->text);
}

/* g is of the flat parameters [from, to), and lies in pieces with the ranks
 * that keep them: call f of each. */
typedef void each_f(struct bn_model *m, float *piece, size_t at, size_t n,
                    int root);

static void each(struct bn_model *m, float *g, size_t from, size_t to,
                 each_f *f)
{
    size_t kept = m->shard->params->kept;

    for (size_t at = from; at < to && !m->dev->failed;) {
        int root = (int)(at / kept);
        size_t end = (size_t)(root + 1) * kept;
        size_t n = (end < to ? end : to) - at;

        f(m, g + (at - from), at, n, root);
        at += n;
    }
}

static void begin(struct bn_model *m, float *piece, size_t at, size_t n,
                  int root)
{
    struct bn_comm *c = m->mesh->data.comm;
    struct bn_err err;

    (void)at;
    if (c->ops->reduce_begin(c, piece, piece, BN_F32, n, root, &err) < 0)
        failed(m, &err);
}

static void keep(struct bn_model *m, float *piece, size_t at, size_t n,
                 int root)
{
    const struct bn_shard *s = m->shard;

    if (root == m->mesh->data.comm->rank)
        m->dev->op.add(m->dev, BN_F32, s->kept + (at - s->params->keep),
                       piece, n);
}

/* What was begun of g is there, or will be before the device goes on: keep
 * this rank's pieces. g is zero afterwards. */
static void take(struct bn_model *m, float *g, size_t from, size_t to)
{
    struct bn_comm *c = m->mesh->data.comm;
    struct bn_err err;

    if (!m->dev->failed && c->ops->finish(c, &err) < 0)
        failed(m, &err);
    each(m, g, from, to, keep);
    zero(m, g, to - from);
}

void bn_shard_settle(struct bn_model *m)
{
    struct bn_shard *s = m->shard;
    size_t from, to;

    if (s->pending < 0)
        return;
    range(s->params, s->pending, &from, &to);
    take(m, layer_of(s, s->pending), from, to);
    s->pending = -1;
}

void bn_shard_layer_done(struct bn_model *m, int layer)
{
    struct bn_shard *s = m->shard;
    int l = s->params->part.first_layer + layer;
    size_t from, to;

    bn_shard_settle(m);
    range(s->params, l, &from, &to);
    each(m, layer_of(s, l), from, to, begin);
    s->pending = l;
    if (s->params->whole == 1)
        bn_shard_settle(m);
}

void bn_shard_ends_done(struct bn_model *m)
{
    const struct bn_shard *s = m->shard;
    size_t n = s->params->elems;

    bn_shard_settle(m);
    each(m, s->ends, 0, s->first, begin);
    each(m, s->ends + s->first, s->last, n, begin);
    take(m, s->ends, 0, s->first);
    take(m, s->ends + s->first, s->last, n);
}
