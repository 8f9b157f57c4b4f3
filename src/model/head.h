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
    /* out: */
    double *metrics;   /* += shares, loss->nkeys */
    long *clamped;     /* += , may be NULL */
    double *seq_logp;  /* [batch nseq] sums, may be NULL */
    float *score_logp; /* [batch nscore] each target's, may be NULL */
};

/* y: final hidden states [batch ntok, hidden]. d_y NULL: forward only; else
 * it is overwritten with dL/dy and the head's gradient is added to. A
 * log-probability that is not finite is class numeric and names the example
 * ("example 12"). Collective over tp and cp. */
int bn_head_run(struct bn_model *m, struct bn_head *h,
                const struct bn_batch *b, const void *y, void *d_y,
                const struct bn_head_job *job, struct bn_err *err);

#endif
