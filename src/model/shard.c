#include "config.h"
#include "model/shard.h"

/* [*from, *to) of the flat parameters is layer l's, with what pads it. */
static void range(const struct bn_params *ps, int l, size_t *from, size_t *to)
{
    int i = 0;

    while (ps->item[i].layer != l)
        i++;
    *from = ps->item[i].offset;
    while (i < ps->n && ps->item[i].layer == l)
        i++;
    *to = i < ps->n ? ps->item[i].offset
                    : ps->item[i - 1].offset + ps->item[i - 1].count;
}

void bn_shard_sizes(struct bn_shard *s, const struct bn_params *ps)
{
    size_t from, to;

    s->most = 0;
    for (int l = ps->part.first_layer; l < ps->part.end_layer; l++) {
        range(ps, l, &from, &to);
        if (l == ps->part.first_layer)
            s->first = from;
        s->last = to;
        if (to - from > s->most)
            s->most = to - from;
    }
}

void bn_shard_carve(struct bn_shard *s, const struct bn_params *ps,
                    struct bn_arena *a)
{
    size_t ends = s->first + ps->elems - s->last;

    s->kept = bn_arena_get(a, ps->kept * sizeof(float));
    s->layer = bn_arena_get(a, s->most * sizeof(float));
    s->ends = bn_arena_get(a, ends * sizeof(float));
}

float *bn_shard_grad(const struct bn_shard *s, const struct bn_params *ps,
                     const struct bn_param *p)
{
    size_t from, to;

    if (p->layer >= 0) {
        range(ps, p->layer, &from, &to);
        return s->layer + (p->offset - from);
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

    zero(m, s->kept, m->params.kept);
    zero(m, s->layer, s->most);
    zero(m, s->ends, s->first + m->params.elems - s->last);
}

/* Sum g, which is of the flat parameters [from, to), each piece to the rank
 * that keeps it; g is zero afterwards. */
static void give(struct bn_model *m, float *g, size_t from, size_t to)
{
    struct bn_comm *c = m->mesh->data.comm;
    size_t kept = m->params.kept;
    struct bn_err err;

    for (size_t at = from; at < to && !m->dev->failed;) {
        int root = (int)(at / kept);
        size_t end = (size_t)(root + 1) * kept;
        size_t n = (end < to ? end : to) - at;
        float *piece = g + (at - from);

        if (c->ops->reduce(c, piece, piece, BN_F32, n, root, &err) < 0)
            bn_dev_fail(m->dev, err.code, "%s", err.text);
        else if (root == c->rank)
            m->dev->op.add(m->dev, BN_F32,
                           m->shard->kept + (at - m->params.keep), piece, n);
        at += n;
    }
    zero(m, g, to - from);
}

void bn_shard_layer_done(struct bn_model *m, int layer)
{
    size_t from, to;

    range(&m->params, m->params.part.first_layer + layer, &from, &to);
    give(m, m->shard->layer, from, to);
}

void bn_shard_ends_done(struct bn_model *m)
{
    const struct bn_shard *s = m->shard;

    give(m, s->ends, 0, s->first);
    give(m, s->ends + s->first, s->last, m->params.elems);
}
