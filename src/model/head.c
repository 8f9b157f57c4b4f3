#include "config.h"
#include "model/head.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run of unique rows, [row, row + rows), with its targets and sequences. */
struct chunk {
    int row, rows;
    int score, scores;
    int seq, seqs;
    bool whole; /* holds all targets of its sequences */
};

struct bn_head_host {
    int32_t *rows, *row_ptr, *target, *order; /* order: index of the score */
    int nrows, nchunks;
    struct chunk *chunk;
    float *stats, *lse, *g;
    double *logp, *smooth, *dlogp;
    int *ntok, *hits;
};

enum { NSTAT = 3 }; /* max, sum, total: then the target logits */

int bn_head_chunk_rows(const struct bn_model *m, size_t logit_bytes)
{
    size_t rows = logit_bytes / ((size_t)m->vocab * sizeof(float));

    return rows < 16 ? 16 : rows > 65536 ? 65536 : (int)rows;
}

/* Room for the statistics of one chunk of one shard of the vocabulary. */
static size_t stat_size(const struct bn_head *h)
{
    return NSTAT * (size_t)h->chunk_rows + (size_t)h->max_scores;
}

void bn_head_init(struct bn_head *h, const struct bn_model *m, int chunk_rows,
                  int max_scores, int max_seqs, bool backward,
                  struct bn_arena *a)
{
    size_t rows = (size_t)chunk_rows, scores = (size_t)max_scores;
    size_t hidden = rows * (size_t)m->cfg.hidden_size * bn_dtype_size(m->t);
    size_t seqs = (size_t)max_seqs;

    *h = (struct bn_head){.chunk_rows = chunk_rows,
                          .max_scores = max_scores,
                          .max_seqs = max_seqs};
    size_t stats = stat_size(h) * (size_t)(m->mesh->tp.size + 1);
    h->h = bn_arena_get(a, hidden);
    h->dh = backward ? bn_arena_get(a, hidden) : NULL;
    h->logits = bn_arena_get(a, rows * (size_t)m->vocab * sizeof(float));
    h->stats = bn_arena_get(a, stats * sizeof(float));
    h->lse = bn_arena_get(a, rows * sizeof(float));
    h->g = bn_arena_get(a, scores * sizeof(float));
    h->rows = bn_arena_get(a, scores * sizeof(int32_t));
    h->row_ptr = bn_arena_get(a, (scores + 1) * sizeof(int32_t));
    h->target = bn_arena_get(a, scores * sizeof(int32_t));
    if (a->base == NULL)
        return; /* only a plan */
    struct bn_head_host *o = h->host = BN_NEW(struct bn_head_host);
    o->rows = BN_NEWN(int32_t, scores);
    o->row_ptr = BN_NEWN(int32_t, scores + 1);
    o->target = BN_NEWN(int32_t, scores);
    o->order = BN_NEWN(int32_t, scores);
    o->chunk = BN_NEWN(struct chunk, scores + 1);
    o->stats = BN_NEWN(float, stats);
    o->lse = BN_NEWN(float, rows);
    o->g = BN_NEWN(float, scores);
    o->logp = BN_NEWN(double, seqs);
    o->smooth = BN_NEWN(double, seqs);
    o->dlogp = BN_NEWN(double, seqs);
    o->ntok = BN_NEWN(int, seqs);
    o->hits = BN_NEWN(int, seqs);
}

void bn_head_release(struct bn_head *h)
{
    struct bn_head_host *o = h->host;

    if (o != NULL) {
        free(o->rows);
        free(o->row_ptr);
        free(o->target);
        free(o->order);
        free(o->chunk);
        free(o->stats);
        free(o->lse);
        free(o->g);
        free(o->logp);
        free(o->smooth);
        free(o->dlogp);
        free(o->ntok);
        free(o->hits);
        free(o);
    }
    *h = (struct bn_head){0};
}

/* --- Planning the chunks of a batch ----------------------------------- */

static void list_rows(struct bn_head_host *o, const struct bn_batch *b,
                      int vocab_first)
{
    o->nrows = 0;
    for (int e = 0; e < b->nscore; e++) {
        const struct bn_score *s = &b->score[e];
        bool same = e > 0 && b->score[e - 1].row == s->row
                    && b->score[e - 1].seq / b->group == s->seq / b->group;

        if (!same) {
            o->rows[o->nrows] = s->row;
            o->row_ptr[o->nrows++] = e;
        }
        o->target[e] = s->target - vocab_first;
    }
    o->row_ptr[o->nrows] = b->nscore;
}

/* The example (group of sequences) that unique row r belongs to. */
static int example_of(const struct bn_head_host *o, const struct bn_batch *b,
                      int r)
{
    return b->score[o->row_ptr[r]].seq / b->group;
}

static void add_chunk(struct bn_head_host *o, const struct bn_batch *b,
                      int row, int end, bool whole)
{
    struct chunk *c = &o->chunk[o->nchunks++];
    int first = example_of(o, b, row), last = example_of(o, b, end - 1);

    *c = (struct chunk){.row = row, .rows = end - row, .whole = whole};
    c->score = o->row_ptr[row];
    c->scores = o->row_ptr[end] - c->score;
    c->seq = first * b->group;
    c->seqs = (last + 1 - first) * b->group;
}

/* Whole examples while they fit; one that never does is cut. */
static void plan_chunks(struct bn_head *h, const struct bn_batch *b,
                        bool whole)
{
    struct bn_head_host *o = h->host;
    int start = 0, r = 0;

    o->nchunks = 0;
    while (r < o->nrows) {
        int end = r + 1, ex = example_of(o, b, r);

        while (end < o->nrows && example_of(o, b, end) == ex)
            end++;
        if (end - start > h->chunk_rows && r > start) {
            add_chunk(o, b, start, r, whole);
            start = r;
        }
        if (end - start > h->chunk_rows) {
            for (; start < end; start += h->chunk_rows) {
                int stop = start + h->chunk_rows;

                add_chunk(o, b, start, stop < end ? stop : end, false);
            }
            start = end;
        }
        r = end;
    }
    if (start < o->nrows)
        add_chunk(o, b, start, o->nrows, whole);
}

/* --- One chunk --------------------------------------------------------- */

static struct bn_head_rows head_rows(const struct bn_model *m,
                                     const struct bn_head *h,
                                     const struct chunk *c)
{
    return (struct bn_head_rows){
        .rows = c->rows,
        .cols = m->vocab,
        .ld = m->vocab,
        .vocab = m->cfg.vocab_size,
        .row_ptr = h->row_ptr + c->row,
        .target = h->target,
    };
}

/* Logits of the chunk, and their statistics on the host for every shard of
 * the vocabulary, one stat_size block each. */
static int chunk_logits(struct bn_model *m, struct bn_head *h,
                        const struct chunk *c, const void *y, bool smoothing,
                        struct bn_err *err)
{
    const struct bn_ops *op = &m->dev->op;
    struct bn_head_rows hr = head_rows(m, h, c);
    struct bn_comm *tp = m->mesh->tp.comm;
    size_t size = stat_size(h), rows = (size_t)h->chunk_rows;
    float *mine = h->stats, *all = h->stats;

    if (tp->size > 1)
        all = h->stats + size;
    op->gather(m->dev, m->t, h->h, y, h->rows + c->row, m->cfg.hidden_size,
               c->rows);
    op->linear_f32(m->dev, m->t, h->logits, m->vocab, h->h, &m->head,
                   c->rows);
    op->head_stats(m->dev, &hr, h->logits, mine, mine + rows,
                   smoothing ? mine + 2 * rows : NULL, mine + NSTAT * rows);
    if (tp->size > 1
        && tp->ops->allgather(tp, all, mine, BN_F32, size, err) < 0)
        return -1;
    op->to_host(m->dev, h->host->stats, BN_F32, all, BN_F32,
                size * (size_t)tp->size);
    return bn_dev_check(m->dev, err);
}

/* What the logits of a row come to, over the shards of the vocabulary. */
struct row {
    double max, lse, total;
};

static struct row row_stats(const struct bn_model *m, const struct bn_head *h,
                            int i)
{
    size_t size = stat_size(h), rows = (size_t)h->chunk_rows;
    int shards = m->mesh->tp.size;
    struct row r = {.max = -INFINITY};
    double sum = 0;

    for (int s = 0; s < shards; s++) {
        const float *st = h->host->stats + (size_t)s * size;

        r.max = fmax(r.max, (double)st[i]);
    }
    for (int s = 0; s < shards; s++) {
        const float *st = h->host->stats + (size_t)s * size;

        sum += st[rows + (size_t)i] * exp((double)st[i] - r.max);
        r.total += st[2 * rows + (size_t)i];
    }
    r.lse = r.max + log(sum);
    return r;
}

static double target_logit(const struct bn_model *m, const struct bn_head *h,
                           int e)
{
    size_t at = NSTAT * (size_t)h->chunk_rows + (size_t)e;
    double x = 0;

    for (int s = 0; s < m->mesh->tp.size; s++)
        x += h->host->stats[(size_t)s * stat_size(h) + at];
    return x;
}

/* Add the chunk's log-probabilities to the sums of their sequences. */
static void chunk_sums(struct bn_model *m, struct bn_head *h,
                       const struct bn_batch *b, const struct chunk *c,
                       const struct bn_head_job *job)
{
    struct bn_head_host *o = h->host;
    double s = job->smoothing;

    for (int i = 0; i < c->rows; i++) {
        struct row r = row_stats(m, h, i);
        double mean = s > 0 ? r.total / m->cfg.vocab_size - r.lse : 0;

        o->lse[i] = (float)r.lse;
        for (int e = o->row_ptr[c->row + i]; e < o->row_ptr[c->row + i + 1];
             e++) {
            int seq = b->score[e].seq;
            double x = target_logit(m, h, e), lp = x - r.lse;

            if (job->score_logp != NULL)
                job->score_logp[e] = (float)lp;
            o->logp[seq] += lp;
            o->smooth[seq] += (1 - s) * lp + s * mean;
            o->hits[seq] += x >= r.max;
        }
    }
}

/* From dL/d(sum) of every sequence to d_y and the head's gradient; the
 * chunk's logits and lse are in place. */
static void chunk_backward(struct bn_model *m, struct bn_head *h,
                           const struct bn_batch *b, const struct chunk *c,
                           void *d_y, double smoothing)
{
    const struct bn_ops *op = &m->dev->op;
    struct bn_head_host *o = h->host;
    struct bn_head_rows hr = head_rows(m, h, c);
    /* The gradient of a row starts where its logits do. */
    int ld = m->vocab * (int)(sizeof(float) / bn_dtype_size(m->t));
    int hidden = m->cfg.hidden_size;

    for (int e = c->score; e < c->score + c->scores; e++)
        o->g[e] = (float)o->dlogp[b->score[e].seq];
    op->from_host(m->dev, h->g + c->score, BN_F32, o->g + c->score, BN_F32,
                  (size_t)c->scores);
    op->from_host(m->dev, h->lse, BN_F32, o->lse, BN_F32, (size_t)c->rows);
    op->head_grad(m->dev, m->t, &hr, h->logits, ld, h->logits, h->lse, h->g,
                  (float)smoothing);
    op->linear_dx(m->dev, m->t, h->dh, h->logits, ld, &m->head, c->rows,
                  false);
    if (m->g_head != NULL)
        op->linear_dw(m->dev, m->t, m->g_head, h->logits, ld, h->h, m->vocab,
                      hidden, c->rows);
    op->scatter(m->dev, m->t, d_y, h->dh, h->rows + c->row, hidden, c->rows);
}

/* --- The batch --------------------------------------------------------- */

static int check_sums(const struct bn_head_host *o, const struct bn_batch *b,
                      int seq, int n, struct bn_err *err)
{
    for (int i = seq; i < seq + n; i++)
        if (!isfinite(o->logp[i]))
            return bn_fail(err, BN_ERR_NUMERIC, "log-probability of example "
                           "%lld is %g", (long long)b->seq[i].example,
                           o->logp[i]);
    return 0;
}

/* The loss of sequences [seq, seq + n), whose sums are complete. */
static int eval(struct bn_head *h, const struct bn_batch *b, int seq, int n,
                const struct bn_head_job *job, struct bn_err *err)
{
    struct bn_head_host *o = h->host;
    struct bn_seqs s = {(size_t)n, o->logp + seq, o->smooth + seq,
                        o->ntok + seq, o->hits + seq};

    if (check_sums(o, b, seq, n, err) < 0)
        return -1;
    if (job->loss == NULL || n == 0)
        return 0;
    if (job->loss->eval(job->params, &s, job->denom, o->dlogp + seq,
                        job->metrics, job->clamped, err) < 0)
        return bn_err_prefix(err, "examples %lld to %lld",
                             (long long)b->seq[seq].example,
                             (long long)b->seq[seq + n - 1].example);
    return 0;
}

static int begin(struct bn_model *m, struct bn_head *h,
                 const struct bn_batch *b, struct bn_err *err)
{
    const struct bn_ops *op = &m->dev->op;
    struct bn_head_host *o = h->host;
    size_t n = (size_t)b->nscore;

    if (b->nscore > h->max_scores || b->nseq > h->max_seqs)
        return bn_fail(err, BN_ERR_BUG, "batch of %d targets in %d sequences,"
                       " planned for %d in %d", b->nscore, b->nseq,
                       h->max_scores, h->max_seqs);
    list_rows(o, b, m->vocab_first);
    plan_chunks(h, b, m->mesh->cp.size == 1);
    op->from_host(m->dev, h->rows, BN_I32, o->rows, BN_I32,
                  (size_t)o->nrows);
    op->from_host(m->dev, h->row_ptr, BN_I32, o->row_ptr, BN_I32,
                  (size_t)o->nrows + 1);
    op->from_host(m->dev, h->target, BN_I32, o->target, BN_I32, n);
    for (int i = 0; i < b->nseq; i++) {
        o->logp[i] = o->smooth[i] = 0;
        o->hits[i] = 0;
        o->ntok[i] = b->seq[i].ntok;
    }
    return 0;
}

/* dL/d(sum) of an additive loss, whatever the sums are. */
static void set_additive_gradient(struct bn_head *h, const struct chunk *c,
                                  const struct bn_head_job *job)
{
    struct bn_head_host *o = h->host;
    double unused[BN_LOSS_MAX_KEYS] = {0};
    struct bn_seqs s = {(size_t)c->seqs, o->logp + c->seq, o->smooth + c->seq,
                        o->ntok + c->seq, o->hits + c->seq};

    /* Sums that are not finite are reported by finish_sums. */
    job->loss->eval(job->params, &s, job->denom, o->dlogp + c->seq, unused,
                    NULL, NULL);
}

/* First pass over all chunks. Whole ones are finished in it, and so is the
 * gradient of an additive loss, which needs no sums. */
static int first_pass(struct bn_model *m, struct bn_head *h,
                      const struct bn_batch *b, const void *y, void *d_y,
                      const struct bn_head_job *job, struct bn_err *err)
{
    struct bn_head_host *o = h->host;

    for (int k = 0; k < o->nchunks; k++) {
        const struct chunk *c = &o->chunk[k];

        if (chunk_logits(m, h, c, y, job->smoothing > 0, err) < 0)
            return -1;
        chunk_sums(m, h, b, c, job);
        if (c->whole) {
            if (eval(h, b, c->seq, c->seqs, job, err) < 0)
                return -1;
        } else if (d_y == NULL || !job->loss->additive) {
            continue;
        } else {
            set_additive_gradient(h, c, job);
        }
        if (d_y != NULL)
            chunk_backward(m, h, b, c, d_y, job->smoothing);
    }
    return 0;
}

/* The sums of all sequences over the context-parallel ranks, and the loss of
 * the whole batch, the same on each. */
static int share_sums(struct bn_model *m, struct bn_head *h,
                      const struct bn_batch *b, const struct bn_head_job *job,
                      struct bn_err *err)
{
    struct bn_head_host *o = h->host;
    struct bn_comm *cp = m->mesh->cp.comm;
    size_t n = (size_t)b->nseq;
    double *sum = BN_NEWN(double, 3 * n);

    memcpy(sum, o->logp, n * sizeof(*sum));
    memcpy(sum + n, o->smooth, n * sizeof(*sum));
    for (size_t i = 0; i < n; i++)
        sum[2 * n + i] = o->hits[i];
    int rc = cp->ops->allreduce(cp, sum, BN_F64, 3 * n, BN_SUM, err);
    memcpy(o->logp, sum, n * sizeof(*sum));
    memcpy(o->smooth, sum + n, n * sizeof(*sum));
    for (size_t i = 0; i < n; i++)
        o->hits[i] = (int)sum[2 * n + i];
    free(sum);
    return rc < 0 ? -1 : eval(h, b, 0, b->nseq, job, err);
}

/* Complete the sums of sequences that were not whole, and their loss. */
static int finish_sums(struct bn_model *m, struct bn_head *h,
                       const struct bn_batch *b,
                       const struct bn_head_job *job, struct bn_err *err)
{
    struct bn_head_host *o = h->host;

    if (m->mesh->cp.size > 1)
        return share_sums(m, h, b, job, err);
    for (int k = 0; k < o->nchunks;) {
        const struct chunk *c = &o->chunk[k++];
        int end = c->seq + c->seqs;

        if (c->whole)
            continue;
        while (k < o->nchunks && !o->chunk[k].whole
               && o->chunk[k].seq < end)
            k++; /* further pieces of the same example */
        if (eval(h, b, c->seq, end - c->seq, job, err) < 0)
            return -1;
    }
    return 0;
}

static int second_pass(struct bn_model *m, struct bn_head *h,
                       const struct bn_batch *b, const void *y, void *d_y,
                       const struct bn_head_job *job, struct bn_err *err)
{
    struct bn_head_host *o = h->host;

    for (int k = 0; k < o->nchunks; k++) {
        const struct chunk *c = &o->chunk[k];

        if (c->whole)
            continue;
        if (chunk_logits(m, h, c, y, false, err) < 0)
            return -1;
        for (int i = 0; i < c->rows; i++)
            o->lse[i] = (float)row_stats(m, h, i).lse;
        chunk_backward(m, h, b, c, d_y, job->smoothing);
    }
    return 0;
}

int bn_head_run(struct bn_model *m, struct bn_head *h,
                const struct bn_batch *b, const void *y, void *d_y,
                const struct bn_head_job *job, struct bn_err *err)
{
    struct bn_head_host *o = h->host;

    if (begin(m, h, b, err) < 0)
        return -1;
    if (d_y != NULL)
        m->dev->op.zero(m->dev, d_y, (size_t)b->ntok
                        * (size_t)m->cfg.hidden_size * bn_dtype_size(m->t));
    if (first_pass(m, h, b, y, d_y, job, err) < 0
        || finish_sums(m, h, b, job, err) < 0)
        return -1;
    if (d_y != NULL && !job->loss->additive
        && second_pass(m, h, b, y, d_y, job, err) < 0)
        return -1;
    /* Each shard of the vocabulary has added its part; where rows are shared
     * out they are summed to their ranks by the backward pass. */
    struct bn_comm *tp = m->mesh->tp.comm;
    if (d_y != NULL && tp->size > 1 && !m->mesh->sequence
        && tp->ops->allreduce(tp, d_y, m->t, (size_t)b->ntok
                                  * (size_t)m->cfg.hidden_size, BN_SUM, err)
               < 0)
        return -1;
    if (job->seq_logp != NULL)
        memcpy(job->seq_logp, o->logp, (size_t)b->nseq * sizeof(double));
    return bn_dev_check(m->dev, err);
}
