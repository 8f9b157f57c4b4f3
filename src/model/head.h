/* The log-probability head: hidden states to per-sequence sums of
 * log p(target), and dL/dlogp back, over chunks of rows, so that the
 * [tokens x vocab] logits never exist.
 *
 * A chunk holds whole examples where they fit; then its logits are used for
 * forward, loss and gradient at once. An example larger than a chunk, or one
 * whose sequences are spread over ranks, is done in two passes.
 */
#ifndef BN_MODEL_HEAD_H
#define BN_MODEL_HEAD_H

#include "loss/loss.h"
#include "model/model.h"

/* Scratch of the head; sizes are fixed by the plan. */
struct bn_head {
    int chunk_rows;           /* of logits */
    int max_scores, max_seqs; /* of a batch */
    /* device memory */
    void *h, *dh;  /* [chunk_rows, hidden], type t */
    float *logits; /* [chunk_rows, vocab shard]; then their gradient */
    float *stats;  /* what head_stats gives, and all shards' of it */
    float *lse, *g;
    int32_t *rows, *row_ptr, *target;
    int32_t *seq, *ntok;  /* of a target, its sequence; of that, its targets */
    struct bn_score_values value; /* of each target */
    double *sums;                 /* of them: [3, nseq] of the batch */
    double *dlogp;                /* [nseq] */
    struct bn_loss_denom *denom;
    struct bn_loss_acc *acc; /* of all batches since bn_head_begin */
    /* host memory */
    struct bn_head_host *host;
};

/* Rows of a chunk for a budget of logit bytes: at least 16. */
int bn_head_chunk_rows(const struct bn_model *m, size_t logit_bytes);
void bn_head_init(struct bn_head *h, const struct bn_model *m, int chunk_rows,
                  int max_scores, int max_seqs, bool backward,
                  struct bn_arena *arena);
void bn_head_release(struct bn_head *h);

struct bn_head_job {
    const struct bn_loss *loss; /* NULL: log-probabilities only */
    const struct bn_loss_params *params;
    const struct bn_loss_denom *denom;
    double smoothing;
    int batch; /* its number, for bn_head_fault */
    /* out, of bn_head_run alone: */
    double *metrics;   /* += shares, loss->nkeys */
    float *score_logp; /* [batch nscore] each target's, may be NULL */
};

/* Nothing has come to *h->acc yet; enqueued. */
void bn_head_begin(struct bn_model *m, struct bn_head *h);

/* Enqueue a batch, and wait for nothing: what it comes to is added to *h->acc.
 * y: final hidden states [batch ntok, hidden]. d_y NULL: forward only; else
 * it is overwritten with dL/dy and the head's gradient is added to. After a
 * log-probability that is not finite *h->acc says so, and gradients are
 * NaN. Collective over tp and cp. */
int bn_head_queue(struct bn_model *m, struct bn_head *h,
                  const struct bn_batch *b, const void *y, void *d_y,
                  const struct bn_head_job *job, struct bn_err *err);

/* The fault that was kept in an acc that was fetched from the device, in the
 * batch b that has its number, as an error: class numeric, naming the example
 * ("example 12"). -1, or 0 if there is none. */
int bn_head_fault(const struct bn_loss_acc *acc, const struct bn_batch *b,
                  struct bn_err *err);

/* All of that for one batch, and the waiting. Collective over tp and cp. */
int bn_head_run(struct bn_model *m, struct bn_head *h,
                const struct bn_batch *b, const void *y, void *d_y,
                const struct bn_head_job *job, struct bn_err *err);

#endif
