/* From the shards of one layout to a range of another's flat parameters. */
#include "config.h"
#include "ckpt/ckpt.h"
#include "base/mem.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

/* The target range and one source after the other. */
struct reader {
    float *to;           /* [count] */
    unsigned char *have; /* which elements were found; NULL: not asked */
    size_t begin, count;
    /* the shard in work */
    const struct bn_params *source; /* the table of its part */
    const float *data;              /* [s_count]: one of its three arrays */
    size_t s_begin, s_count;
};

/* Copy n elements at flat position 'at' of the target from flat position
 * 'from' of the shard, as far as both lie in their ranges. */
static void copy_run(struct reader *r, size_t at, size_t from, size_t n)
{
    size_t skip = 0;

    if (at < r->begin)
        skip = r->begin - at;
    if (from + skip < r->s_begin)
        skip = r->s_begin - from;
    if (skip >= n)
        return;
    at += skip, from += skip, n -= skip;
    if (at >= r->begin + r->count || from >= r->s_begin + r->s_count)
        return;
    if (n > r->begin + r->count - at)
        n = r->begin + r->count - at;
    if (n > r->s_begin + r->s_count - from)
        n = r->s_begin + r->s_count - from;
    memcpy(r->to + (at - r->begin), r->data + (from - r->s_begin),
           n * sizeof(float));
    if (r->have != NULL)
        memset(r->have + (at - r->begin), 1, n);
}

static int overlap(int a0, int an, int b0, int bn, int *begin)
{
    int end = a0 + an < b0 + bn ? a0 + an : b0 + bn;

    *begin = a0 > b0 ? a0 : b0;
    return end > *begin ? end - *begin : 0;
}

/* The part of target parameter p that the shard holds, row by row. */
static void copy_param(struct reader *r, const struct bn_param *p)
{
    const struct bn_param *q = bn_param_find(r->source, p->kind, p->layer);
    int row, col;

    if (q == NULL)
        return;
    int rows = overlap(p->row0, p->rows, q->row0, q->rows, &row);
    int cols = overlap(p->col0, p->cols, q->col0, q->cols, &col);
    if (cols == 0)
        return;
    if (cols == p->cols && cols == q->cols && rows > 0) {
        copy_run(r, p->offset + (size_t)(row - p->row0) * (size_t)cols,
                 q->offset + (size_t)(row - q->row0) * (size_t)cols,
                 (size_t)rows * (size_t)cols);
        return;
    }
    for (int k = 0; k < rows; k++, row++)
        copy_run(r,
                 p->offset + (size_t)(row - p->row0) * (size_t)p->cols
                     + (size_t)(col - p->col0),
                 q->offset + (size_t)(row - q->row0) * (size_t)q->cols
                     + (size_t)(col - q->col0),
                 (size_t)cols);
}

/* Everything of the target range that one shard has. */
static int take_shard(struct reader *r, const struct bn_params *params,
                      const struct bn_ckpt_of *of,
                      const struct bn_ckpt_shard *s, const float *data,
                      struct bn_err *err)
{
    struct bn_params source;

    if (bn_params_init_lora(&source, of->cfg, &s->part, of->lora, err) < 0)
        return -1;
    r->source = &source;
    r->data = data;
    r->s_begin = s->begin;
    r->s_count = s->count;
    for (int k = 0; k < params->n; k++) {
        const struct bn_param *p = &params->item[k];

        if (p->offset + p->count > r->begin
            && p->offset < r->begin + r->count)
            copy_param(r, p);
    }
    bn_params_release(&source);
    return 0;
}

/* Whether every parameter of the range was found. */
static int check_all(const struct reader *r, const struct bn_params *params,
                     const char *where, struct bn_err *err)
{
    for (int k = 0; k < params->n; k++) {
        const struct bn_param *p = &params->item[k];
        size_t at = p->offset, end = p->offset + p->count;

        if (end <= r->begin || at >= r->begin + r->count)
            continue;
        if (at < r->begin)
            at = r->begin;
        if (end > r->begin + r->count)
            end = r->begin + r->count;
        if (memchr(r->have + (at - r->begin), 0, end - at) != NULL)
            return bn_fail(err, BN_ERR_DATA, "checkpoint '%s' does not hold "
                           "all of '%s'", where, p->name);
    }
    return 0;
}

/* Zero what of the target range lies between parameters and behind the last
 * one; the rest is copied, and writing it twice would cost a pass. */
static void zero_padding(struct reader *r, const struct bn_params *params)
{
    size_t end = r->begin + r->count, at = r->begin;

    for (int k = 0; k <= params->n && at < end; k++) {
        const struct bn_param *p = k < params->n ? &params->item[k] : NULL;
        size_t next = p != NULL && p->offset < end ? p->offset : end;

        if (next > at)
            memset(r->to + (at - r->begin), 0, (next - at) * sizeof(float));
        if (p != NULL && p->offset + p->count > at)
            at = p->offset + p->count;
    }
}

/* Masters, first and second moments are read by a thread each. */
struct part_job {
    const struct bn_ckpt *c;
    const struct bn_params *params;
    struct reader r[3];
    int rc[3];
    struct bn_err err[3];
};

static void read_part(void *arg, int k)
{
    struct part_job *j = arg;
    struct reader *r = &j->r[k];
    const struct bn_ckpt_of of = {&j->c->cfg, &j->c->lora, NULL};

    zero_padding(r, j->params);
    for (size_t i = 0; j->rc[k] == 0 && i < j->c->n; i++) {
        const struct bn_ckpt_shard *s = &j->c->shard[i];
        const float *data = (const float *)(const void *)j->c->map[i].data;

        j->rc[k] = take_shard(r, j->params, &of, s,
                              data + (size_t)k * s->count, &j->err[k]);
    }
}

int bn_ckpt_read_host(const struct bn_ckpt *c, const struct bn_params *params,
                      size_t begin, size_t count, float *const *to, int parts,
                      struct bn_err *err)
{
    struct part_job j = {.c = c, .params = params};
    int rc = 0;

    for (int k = 0; k < parts; k++)
        j.r[k] = (struct reader){.to = to[k], .begin = begin, .count = count};
    j.r[0].have = bn_calloc(count, 1);
    bn_parallel(parts, read_part, &j);
    for (int k = 0; rc == 0 && k < parts; k++)
        if (j.rc[k] < 0)
            rc = bn_fail(err, j.err[k].code, "%s", j.err[k].text);
    if (rc == 0)
        rc = check_all(&j.r[0], params, c->path, err);
    free(j.r[0].have);
    return rc;
}

int bn_ckpt_place(float *flat, const struct bn_params *params,
                  const struct bn_ckpt_of *of,
                  const struct bn_ckpt_shard *shard, const float *master,
                  struct bn_err *err)
{
    struct reader r = {.to = flat, .count = params->elems};

    return take_shard(&r, params, of, shard, master, err);
}
