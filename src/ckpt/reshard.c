/* From the shards of one layout to a range of another's flat parameters. */
#include "config.h"
#include "ckpt/ckpt.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Elements held in common by a row of the target and a row of a source. */
struct reader {
    const struct bn_ckpt *c;
    struct bn_params *source; /* the table of each shard's part */
    float *host[3];           /* the range in host memory */
    unsigned char *have;      /* which elements were found */
    size_t begin, count;
};

/* Copy n elements at flat position 'at' of the target from flat position
 * 'from' of shard i, as far as both lie in their ranges. */
static void copy_run(struct reader *r, size_t i, size_t at, size_t from,
                     size_t n)
{
    const struct bn_ckpt_shard *s = &r->c->shard[i];
    const float *data = (const float *)(const void *)r->c->map[i].data;
    size_t skip = 0;

    if (at < r->begin)
        skip = r->begin - at;
    if (from + skip < s->begin)
        skip = s->begin - from;
    if (skip >= n)
        return;
    at += skip, from += skip, n -= skip;
    if (at >= r->begin + r->count || from >= s->begin + s->count)
        return;
    if (n > r->begin + r->count - at)
        n = r->begin + r->count - at;
    if (n > s->begin + s->count - from)
        n = s->begin + s->count - from;
    for (int k = 0; k < 3; k++)
        memcpy(r->host[k] + (at - r->begin),
               data + (size_t)k * s->count + (from - s->begin),
               n * sizeof(float));
    memset(r->have + (at - r->begin), 1, n);
}

static int overlap(int a0, int an, int b0, int bn, int *begin)
{
    int end = a0 + an < b0 + bn ? a0 + an : b0 + bn;

    *begin = a0 > b0 ? a0 : b0;
    return end > *begin ? end - *begin : 0;
}

/* The part of target parameter p that shard i holds, row by row. */
static void copy_param(struct reader *r, const struct bn_param *p, size_t i)
{
    const struct bn_param *q = bn_param_find(&r->source[i], p->kind,
                                             p->layer);
    int row, col;

    if (q == NULL)
        return;
    int rows = overlap(p->row0, p->rows, q->row0, q->rows, &row);
    int cols = overlap(p->col0, p->cols, q->col0, q->cols, &col);
    if (cols == 0)
        return;
    for (int k = 0; k < rows; k++, row++)
        copy_run(r, i,
                 p->offset + (size_t)(row - p->row0) * (size_t)p->cols
                     + (size_t)(col - p->col0),
                 q->offset + (size_t)(row - q->row0) * (size_t)q->cols
                     + (size_t)(col - q->col0),
                 (size_t)cols);
}

static int find_all(struct reader *r, const struct bn_params *params,
                    struct bn_err *err)
{
    for (int k = 0; k < params->n; k++) {
        const struct bn_param *p = &params->item[k];
        size_t at = p->offset, end = p->offset + p->count;

        if (end <= r->begin || at >= r->begin + r->count)
            continue;
        for (size_t i = 0; i < r->c->n; i++)
            copy_param(r, p, i);
        if (at < r->begin)
            at = r->begin;
        if (end > r->begin + r->count)
            end = r->begin + r->count;
        if (memchr(r->have + (at - r->begin), 0, end - at) != NULL)
            return bn_fail(err, BN_ERR_DATA, "checkpoint '%s' does not hold "
                           "all of '%s'", r->c->path, p->name);
    }
    return 0;
}

int bn_ckpt_read(const struct bn_ckpt *c, const struct bn_params *params,
                 size_t begin, size_t count, const struct bn_ckpt_state *to,
                 struct bn_dev *dev, struct bn_err *err)
{
    struct reader r = {.c = c, .begin = begin, .count = count};
    float *const out[3] = {to->master, to->m, to->v};
    size_t made = 0;
    int rc = 0;

    r.source = BN_NEWN(struct bn_params, c->n);
    for (; rc == 0 && made < c->n; made++)
        rc = bn_params_init(&r.source[made], &c->cfg, &c->shard[made].part,
                            err);
    for (int k = 0; k < 3; k++)
        r.host[k] = BN_NEWN(float, count);
    r.have = bn_calloc(count, 1);
    if (rc == 0)
        rc = find_all(&r, params, err);
    for (int k = 0; rc == 0 && k < 3; k++)
        dev->op.from_host(dev, out[k], BN_F32, r.host[k], BN_F32, count);
    dev->op.sync(dev);
    if (rc == 0)
        rc = bn_dev_check(dev, err);
    for (size_t i = 0; i < made; i++)
        bn_params_release(&r.source[i]);
    for (int k = 0; k < 3; k++)
        free(r.host[k]);
    free(r.have);
    free(r.source);
    return rc;
}
