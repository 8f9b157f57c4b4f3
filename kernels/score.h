/* From the statistics of a chunk of logits (head.h) to log-probabilities of
 * targets, their sums over sequences, and back to a gradient per target.
 */
#ifndef BN_KERNELS_SCORE_H
#define BN_KERNELS_SCORE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Statistics of a chunk of rows: for each shard of the vocabulary what
 * head_stats gives, the next shard's 'stride' floats on. */
struct bn_score_stats {
    int rows, shards, vocab; /* vocab: of all shards */
    size_t stride;
    const float *max, *sum, *total; /* [rows]; total: only with smoothing */
    const float *logit;             /* of each target, by its number */
    const int32_t *row_ptr;         /* [rows + 1]: targets of a row */
    double smoothing;
};

/* Values of each target, by its number. */
struct bn_score_values {
    double *logp;   /* log p(target) */
    double *smooth; /* (1 - s) log p(target) + s * mean of log p */
    double *hit;    /* 1 if no token is likelier, else 0 */
};

/* lse[rows] = log sum exp of a row over all shards, rounded once; v (NULL: not
 * wanted) of the targets row_ptr[0] <= e < row_ptr[rows]. In double, over the
 * shards in order: the same bits in every back end but for libm's exp and log
 * (1e-15 relative of lse). Bytes: 12 rows and 28 a target, a shard.
 */
void bn_score_logp_ref(const struct bn_score_stats *s, float *lse,
                       const struct bn_score_values *v);
int bn_score_logp_cuda(const struct bn_score_stats *s, float *lse,
                       const struct bn_score_values *v, void *stream);

/* Targets begin <= e < end, and the sequence of each, seq[e]. */
struct bn_score_range {
    int begin, end;
    const int32_t *seq;
};

/* sums[k * stride + q] += sum of v_k[e] over the targets of sequence q, first
 * <= q < first + n, in the order of e; k is logp, smooth, hit. The same bits
 * in every back end. CUDA: a block a sequence, so that seq is read n times.
 * Bytes: 24 a target, and 4 a target and sequence. */
void bn_score_sums_ref(double *sums, size_t stride, int first, int n,
                       const struct bn_score_range *r,
                       const struct bn_score_values *v);
int bn_score_sums_cuda(double *sums, size_t stride, int first, int n,
                       const struct bn_score_range *r,
                       const struct bn_score_values *v, void *stream);

/* g[e] = dlogp[seq[e]], rounded. Bytes: 16 a target. */
void bn_score_spread_ref(float *g, const double *dlogp,
                         const struct bn_score_range *r);
int bn_score_spread_cuda(float *g, const double *dlogp,
                         const struct bn_score_range *r, void *stream);

#ifdef __cplusplus
}
#endif

#endif
