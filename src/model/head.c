#include "config.h"
#include "model/head.h"
#include "base/mem.h"

#include <stdlib.h>

/* A run of unique rows, [row, row + rows), with its targets and sequences. */
struct chunk {
    int row, rows;
    int score, scores;
    int seq, seqs;
    bool whole; /* holds all targets of its sequences */
};

struct bn_head_host {
    int32_t *rows, *row_ptr, *target, *seq, *ntok;
    int nrows, nchunks;
    struct chunk *chunk;
};

/* max, sum, total: then the target logits; and as many values of a target */
enum { NSTAT = 3 };

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
    h->seq = bn_arena_get(a, scores * sizeof(int32_t));
    h->ntok = bn_arena_get(a, seqs * sizeof(int32_t));
    h->value.logp = bn_arena_get(a, scores * sizeof(double));
    h->value.smooth = bn_arena_get(a, scores * sizeof(double));
    h->value.hit = bn_arena_get(a, scores * sizeof(double));
    h->sums = bn_arena_get(a, NSTAT * seqs * sizeof(double));
    h->dlogp = bn_arena_get(a, seqs * sizeof(double));
    h->denom = bn_arena_get(a, sizeof(*h->denom));
    h->acc = bn_arena_get(a, sizeof(*h->acc));
    if (a->base == NULL)
        return; /* only a plan */
    struct bn_head_host *o = h->host = BN_NEW(struct bn_head_host);
    o->rows = BN_NEWN(int32_t, scores);
    o->row_ptr = BN_NEWN(int32_t, scores + 1);
    o->target = BN_NEWN(int32_t, scores);
    o->seq = BN_NEWN(int32_t, scores);
    o->ntok = BN_NEWN(int32_t, seqs);
    o->chunk = BN_NEWN(struct chunk, scores + 1);
}

void bn_head_release(struct bn_head *h)
{
    struct bn_head_host *o = h->host;

    if (o != NULL) {
        free(o->rows);
        free(o->row_ptr);
        free(o->target);
        free(o->seq);
        free(o->ntok);
        free(o->chunk);
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
        o->seq[e] = s->seq;
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

/* Logits of the chunk, and their statistics for every shard of the
 * vocabulary, one stat_size block each, at '*stats'. */
static int chunk_logits(struct bn_model *m, struct bn_head *h,
                        const struct chunk *c, const void *y, bool smoothing,
                        const float **stats, struct bn_err *err)
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
    *stats = all;
    return 0;
}

static struct bn_score_stats score_stats(const struct bn_model *m,
                                         const struct bn_head *h,
                                         const struct chunk *c,
                                         const float *stats, double smoothing)
{
    size_t rows = (size_t)h->chunk_rows;

    return (struct bn_score_stats){
        .rows = c->rows,
        .shards = m->mesh->tp.size,
        .vocab = m->cfg.vocab_size,
        .stride = stat_size(h),
        .max = stats,
        .sum = stats + rows,
        .total = stats + 2 * rows,
        .logit = stats + NSTAT * rows,
        .row_ptr = h->row_ptr + c->row,
        .smoothing = smoothing,
    };
}

static struct bn_score_range range_of(const struct bn_head *h,
                                      const struct chunk *c)
{
    return (struct bn_score_range){c->score, c->score + c->scores, h->seq};
}

/* Add the chunk's log-probabilities to the sums of their sequences. */
static void chunk_sums(struct bn_model *m, struct bn_head *h,
                       const struct bn_batch *b, const struct chunk *c,
                       const float *stats, double smoothing)
{
    const struct bn_ops *op = &m->dev->op;
    struct bn_score_stats s = score_stats(m, h, c, stats, smoothing);
    struct bn_score_range r = range_of(h, c);

    op->score_logp(m->dev, &s, h->lse, &h->value);
    op->score_sums(m->dev, h->sums, (size_t)b->nseq, c->seq, c->seqs, &r,
                   &h->value);
}

/* From dL/d(sum) of every sequence to d_y and the head's gradient; the
 * chunk's logits and lse are in place. */
static void chunk_backward(struct bn_model *m, struct bn_head *h,
                           const struct chunk *c, void *d_y, double smoothing)
{
    const struct bn_ops *op = &m->dev->op;
    struct bn_head_rows hr = head_rows(m, h, c);
    struct bn_score_range r = range_of(h, c);
    /* The gradient of a row starts where its logits do. */
    int ld = m->vocab * (int)(sizeof(float) / bn_dtype_size(m->t));
    int hidden = m->cfg.hidden_size;

    op->score_spread(m->dev, h->g, h->dlogp, &r);
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

/* The loss of sequences [seq, seq + n), into 'acc' (NULL: only its gradient,
 * of sums that may be of a part). */
static void eval(struct bn_model *m, struct bn_head *h,
                 const struct bn_batch *b, int seq, int n,
                 const struct bn_head_job *job, struct bn_loss_acc *acc)
{
    enum bn_loss_kind kind = job->loss != NULL ? job->loss->kind
                                               : BN_LOSS_NONE;
    const double *sums = h->sums + seq;
    struct bn_loss_seqs s = {n, sums, sums + b->nseq, sums + 2 * b->nseq,
                             h->ntok + seq};

    m->dev->op.loss(m->dev, kind, job->params, &s, h->denom, h->dlogp + seq,
                    acc, job->batch, seq);
}

static int begin(struct bn_model *m, struct bn_head *h,
                 const struct bn_batch *b, const struct bn_head_job *job,
                 struct bn_err *err)
{
    struct bn_dev *d = m->dev;
    const struct bn_ops *op = &d->op;
    struct bn_head_host *o = h->host;
    size_t n = (size_t)b->nscore, seqs = (size_t)b->nseq;

    if (b->nscore > h->max_scores || b->nseq > h->max_seqs)
        return bn_fail(err, BN_ERR_BUG, "batch of %d targets in %d sequences,"
                       " planned for %d in %d", b->nscore, b->nseq,
                       h->max_scores, h->max_seqs);
    list_rows(o, b, m->vocab_first);
    plan_chunks(h, b, m->mesh->cp.size == 1);
    for (size_t i = 0; i < seqs; i++)
        o->ntok[i] = b->seq[i].ntok;
    op->from_host(d, h->rows, BN_I32, o->rows, BN_I32, (size_t)o->nrows);
    op->from_host(d, h->row_ptr, BN_I32, o->row_ptr, BN_I32,
                  (size_t)o->nrows + 1);
    op->from_host(d, h->target, BN_I32, o->target, BN_I32, n);
    op->from_host(d, h->seq, BN_I32, o->seq, BN_I32, n);
    op->from_host(d, h->ntok, BN_I32, o->ntok, BN_I32, seqs);
    if (job->denom != NULL)
        op->from_host(d, h->denom, BN_F64, job->denom, BN_F64,
                      sizeof(*h->denom) / sizeof(double));
    op->zero(d, h->sums, NSTAT * seqs * sizeof(double));
    return 0;
}

/* First pass over all chunks. Whole ones are finished in it, and so is the
 * gradient of an additive loss, which needs no sums. */
static int first_pass(struct bn_model *m, struct bn_head *h,
                      const struct bn_batch *b, const void *y, void *d_y,
                      const struct bn_head_job *job, struct bn_err *err)
{
    struct bn_head_host *o = h->host;
    const float *stats;

    for (int k = 0; k < o->nchunks; k++) {
        const struct chunk *c = &o->chunk[k];

        if (chunk_logits(m, h, c, y, job->smoothing > 0, &stats, err) < 0)
            return -1;
        chunk_sums(m, h, b, c, stats, job->smoothing);
        if (c->whole)
            eval(m, h, b, c->seq, c->seqs, job, h->acc);
        else if (d_y == NULL || !job->loss->additive)
            continue;
        else /* sums that are not finite are kept by finish_sums */
            eval(m, h, b, c->seq, c->seqs, job, NULL);
        if (d_y != NULL)
            chunk_backward(m, h, c, d_y, job->smoothing);
    }
    return 0;
}

/* Complete the sums of sequences that were not whole, and their loss: over
 * the context-parallel ranks, where each comes to the same. */
static int finish_sums(struct bn_model *m, struct bn_head *h,
                       const struct bn_batch *b,
                       const struct bn_head_job *job, struct bn_err *err)
{
    struct bn_head_host *o = h->host;
    struct bn_comm *cp = m->mesh->cp.comm;

    if (cp->size > 1) {
        int rc = cp->ops->allreduce(cp, h->sums, BN_F64,
                                    NSTAT * (size_t)b->nseq, BN_SUM, err);

        eval(m, h, b, 0, b->nseq, job, h->acc);
        return rc;
    }
    for (int k = 0; k < o->nchunks;) {
        const struct chunk *c = &o->chunk[k++];
        int end = c->seq + c->seqs;

        if (c->whole)
            continue;
        while (k < o->nchunks && !o->chunk[k].whole
               && o->chunk[k].seq < end)
            k++; /* further pieces of the same example */
        eval(m, h, b, c->seq, end - c->seq, job, h->acc);
    }
    return 0;
}

static int second_pass(struct bn_model *m, struct bn_head *h, const void *y,
                       void *d_y, const struct bn_head_job *job,
                       struct bn_err *err)
{
    struct bn_head_host *o = h->host;
    const float *stats;

    for (int k = 0; k < o->nchunks; k++) {
        const struct chunk *c = &o->chunk[k];

        if (c->whole)
            continue;
        if (chunk_logits(m, h, c, y, false, &stats, err) < 0)
            return -1;
        struct bn_score_stats s = score_stats(m, h, c, stats, 0);
        m->dev->op.score_logp(m->dev, &s, h->lse, NULL);
        chunk_backward(m, h, c, d_y, job->smoothing);
    }
    return 0;
}

void bn_head_begin(struct bn_model *m, struct bn_head *h)
{
    m->dev->op.zero(m->dev, h->acc, sizeof(*h->acc));
}

int bn_head_queue(struct bn_model *m, struct bn_head *h,
                  const struct bn_batch *b, const void *y, void *d_y,
                  const struct bn_head_job *job, struct bn_err *err)
{
    if (begin(m, h, b, job, err) < 0)
        return -1;
    if (d_y != NULL)
        m->dev->op.zero(m->dev, d_y, (size_t)b->ntok
                        * (size_t)m->cfg.hidden_size * bn_dtype_size(m->t));
    if (first_pass(m, h, b, y, d_y, job, err) < 0
        || finish_sums(m, h, b, job, err) < 0)
        return -1;
    if (d_y != NULL && !job->loss->additive
        && second_pass(m, h, y, d_y, job, err) < 0)
        return -1;
    /* Each shard of the vocabulary has added its part; where rows are shared
     * out they are summed to their ranks by the backward pass. */
    struct bn_comm *tp = m->mesh->tp.comm;
    if (d_y != NULL && tp->size > 1 && !m->mesh->sequence
        && tp->ops->allreduce(tp, d_y, m->t, (size_t)b->ntok
                                  * (size_t)m->cfg.hidden_size, BN_SUM, err)
               < 0)
        return -1;
    return bn_dev_check(m->dev, err);
}

int bn_head_fault(const struct bn_loss_acc *acc, const struct bn_batch *b,
                  struct bn_err *err)
{
    if (acc->fault == BN_LOSS_FINE)
        return 0;
    long long example = (long long)b->seq[acc->seq].example;

    switch ((enum bn_loss_fault)acc->fault) {
    case BN_LOSS_MEAN:
        return bn_fail(err, BN_ERR_NUMERIC, "mean log-probability of example "
                       "%lld is %g over %d tokens", example, acc->value,
                       acc->ntok);
    case BN_LOSS_CERTAIN:
        return bn_fail(err, BN_ERR_NUMERIC, "mean log-probability of example "
                       "%lld is %g, not < 0", example, acc->value);
    default:
        return bn_fail(err, BN_ERR_NUMERIC, "log-probability of example %lld "
                       "is %g", example, acc->value);
    }
}

/* Log-probabilities of single targets, which are kept in double. */
static void fetch_scores(struct bn_model *m, const struct bn_head *h, int n,
                         float *out)
{
    double *logp = BN_NEWN(double, (size_t)n);

    m->dev->op.to_host(m->dev, logp, BN_F64, h->value.logp, BN_F64,
                       (size_t)n);
    for (int e = 0; e < n; e++)
        out[e] = (float)logp[e];
    free(logp);
}

int bn_head_run(struct bn_model *m, struct bn_head *h,
                const struct bn_batch *b, const void *y, void *d_y,
                const struct bn_head_job *job, struct bn_err *err)
{
    const struct bn_ops *op = &m->dev->op;
    int nkeys = job->loss != NULL ? job->loss->nkeys : 0;
    struct bn_loss_acc acc = {0};

    /* Added to the metrics there are, in the order of the examples. */
    for (int k = 0; k < nkeys; k++)
        acc.metrics[k] = job->metrics[k];
    op->from_host(m->dev, h->acc, BN_U8, &acc, BN_U8, sizeof(acc));
    if (bn_head_queue(m, h, b, y, d_y, job, err) < 0)
        return -1;
    op->to_host(m->dev, &acc, BN_U8, h->acc, BN_U8, sizeof(acc));
    if (job->score_logp != NULL)
        fetch_scores(m, h, b->nscore, job->score_logp);
    if (bn_dev_check(m->dev, err) < 0)
        return -1;
    for (int k = 0; k < nkeys; k++)
        job->metrics[k] = acc.metrics[k];
    return bn_head_fault(&acc, b, err);
}
