/* From the shards of one layout to a range of another's flat parameters. */
#include "config.h"
#include "ckpt/reshard.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The same parameter in the target and in the shard's part. */
struct pair {
    const struct bn_param *p, *q;
};

struct bn_reshard {
    struct bn_params source; /* the table of the shard's part */
    struct pair *pair;
    size_t n;
    size_t begin, count; /* of the target */
    size_t s_begin;      /* of the shard */
};

struct bn_reshard *bn_reshard_begin(const struct bn_params *params,
                                    size_t begin, size_t count,
                                    const struct bn_ckpt_of *of,
                                    const struct bn_ckpt_shard *shard,
                                    struct bn_err *err)
{
    struct bn_reshard *r = BN_NEW(struct bn_reshard);

    if (bn_params_init_lora(&r->source, of->cfg, &shard->part, of->lora, err)
        < 0) {
        free(r);
        return NULL;
    }
    r->begin = begin, r->count = count;
    r->s_begin = shard->begin;
    r->pair = BN_NEWN(struct pair, (size_t)params->n);
    for (int k = 0; k < params->n; k++) {
        const struct bn_param *p = &params->item[k];
        const struct bn_param *q = bn_param_find(&r->source, p->kind,
                                                 p->layer);

        if (q != NULL && p->offset + p->count > begin
            && p->offset < begin + count)
            r->pair[r->n++] = (struct pair){p, q};
    }
    return r;
}

void bn_reshard_end(struct bn_reshard *r)
{
    if (r == NULL)
        return;
    bn_params_release(&r->source);
    free(r->pair);
    free(r);
}

/* A window of the source, and where its elements go. */
struct window {
    const struct bn_reshard *r;
    size_t begin, end; /* flat positions in the shard's part */
    const float *data; /* of 'begin' on */
    float *to;
    unsigned char *have;
    size_t copied;
    size_t shift;  /* of the first run: where it goes less where it lies */
    bool straight; /* all runs so far have it */
};

/* Copy n elements at flat position 'at' of the target from flat position
 * 'from' of the part, as far as both lie in their ranges. */
static void copy_run(struct window *w, size_t at, size_t from, size_t n)
{
    const struct bn_reshard *r = w->r;
    size_t skip = 0;

    if (at < r->begin)
        skip = r->begin - at;
    if (from + skip < w->begin)
        skip = w->begin - from;
    if (skip >= n)
        return;
    at += skip, from += skip, n -= skip;
    if (at >= r->begin + r->count || from >= w->end)
        return;
    if (n > r->begin + r->count - at)
        n = r->begin + r->count - at;
    if (n > w->end - from)
        n = w->end - from;
    if (w->copied == 0)
        w->shift = at - r->begin - from;
    w->straight &= at - r->begin - from == w->shift;
    w->copied += n;
    if (w->to == NULL)
        return;
    memcpy(w->to + (at - r->begin), w->data + (from - w->begin),
           n * sizeof(float));
    if (w->have != NULL)
        memset(w->have + (at - r->begin), 1, n);
}

static int overlap(int a0, int an, int b0, int bn, int *begin)
{
    int end = a0 + an < b0 + bn ? a0 + an : b0 + bn;

    *begin = a0 > b0 ? a0 : b0;
    return end > *begin ? end - *begin : 0;
}

/* Of 'rows' rows of q from 'row' on, those that the window touches. */
static int rows_in(const struct window *w, const struct bn_param *q,
                   int *row, int rows)
{
    size_t cols = (size_t)q->cols, k0 = (size_t)(*row - q->row0);
    size_t k1 = k0 + (size_t)rows;
    size_t first = w->begin > q->offset ? (w->begin - q->offset) / cols : 0;
    size_t last = w->end > q->offset ? (w->end - q->offset + cols - 1) / cols
                                     : 0;

    k0 = k0 > first ? k0 : first;
    k1 = k1 < last ? k1 : last;
    *row = q->row0 + (int)k0;
    return k1 > k0 ? (int)(k1 - k0) : 0;
}

/* The part of target parameter p that the window holds, row by row. */
static void copy_param(struct window *w, const struct bn_param *p,
                       const struct bn_param *q)
{
    int row, col;
    int rows = overlap(p->row0, p->rows, q->row0, q->rows, &row);
    int cols = overlap(p->col0, p->cols, q->col0, q->cols, &col);

    if (cols == 0 || rows == 0)
        return;
    if (cols == p->cols && cols == q->cols) {
        copy_run(w, p->offset + (size_t)(row - p->row0) * (size_t)cols,
                 q->offset + (size_t)(row - q->row0) * (size_t)cols,
                 (size_t)rows * (size_t)cols);
        return;
    }
    rows = rows_in(w, q, &row, rows);
    for (int k = 0; k < rows; k++, row++)
        copy_run(w,
                 p->offset + (size_t)(row - p->row0) * (size_t)p->cols
                     + (size_t)(col - p->col0),
                 q->offset + (size_t)(row - q->row0) * (size_t)q->cols
                     + (size_t)(col - q->col0),
                 (size_t)cols);
}

static void copy_all(struct window *w, size_t at, size_t n)
{
    const struct bn_reshard *r = w->r;

    w->begin = r->s_begin + at;
    w->end = w->begin + n;
    w->straight = true;
    for (size_t k = 0; k < r->n; k++) {
        const struct bn_param *q = r->pair[k].q;

        if (q->offset + q->count > w->begin && q->offset < w->end)
            copy_param(w, r->pair[k].p, q);
    }
}

size_t bn_reshard_copy(const struct bn_reshard *r, size_t at, size_t n,
                       const float *data, float *to, unsigned char *have)
{
    struct window w = {.r = r, .data = data, .to = to, .have = have};

    copy_all(&w, at, n);
    return w.copied;
}

bool bn_reshard_straight(const struct bn_reshard *r, size_t at, size_t n,
                         size_t *where)
{
    struct window w = {.r = r};

    copy_all(&w, at, n);
    *where = w.begin + w.shift;
    return w.copied == n && w.straight;
}

int bn_ckpt_place(float *flat, const struct bn_params *params,
                  const struct bn_ckpt_of *of,
                  const struct bn_ckpt_shard *shard, const float *master,
                  struct bn_err *err)
{
    struct bn_reshard *r = bn_reshard_begin(params, 0, params->elems, of,
                                            shard, err);

    if (r == NULL)
        return -1;
    bn_reshard_copy(r, 0, shard->count, master, flat, NULL);
    bn_reshard_end(r);
    return 0;
}
