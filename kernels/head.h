/* The log-probability head: from rows of logits to what a loss needs, and
 * back, without a softmax ever being stored.
 */
#ifndef BN_KERNELS_HEAD_H
#define BN_KERNELS_HEAD_H

#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of logits and the targets scored on them. Target e of row r (row_ptr[r]
 * <= e < row_ptr[r + 1]) is a column relative to this shard of the vocabulary;
 * one outside [0, cols) belongs to another shard. */
struct bn_head_rows {
    int rows, cols;         /* of the logits shard */
    int ld;                 /* of logits, in elements of their type */
    int vocab;              /* whole vocabulary, for label smoothing */
    const int32_t *row_ptr; /* [rows + 1] */
    const int32_t *target;  /* [row_ptr[rows]] */
};

/* Of each row of float logits: max[r], sum[r] = sum_v exp(x - max[r]),
 * total[r] = sum_v x (total may be NULL); of each target its logit, or 0
 * where it belongs to another shard. cols >= 1.
 *
 * Tolerance: max exact; sum 2e-6 relative; total 1e-6 of the sum of
 * magnitudes. A row with NaN gives NaN in sum. Same bits on any number of
 * threads. Bytes: 4 rows * cols.
 */
void bn_head_stats_ref(const struct bn_head_rows *h, const float *logits,
                       float *max, float *sum, float *total,
                       float *target_logit);
void bn_head_stats_cpu(const struct bn_head_rows *h, const float *logits,
                       float *max, float *sum, float *total,
                       float *target_logit);
int bn_head_stats_cuda(const struct bn_head_rows *h, const float *logits,
                       float *max, float *sum, float *total,
                       float *target_logit, void *stream);

/* dlogits[r, v] = sum_e g[e] ((1 - s) [v == target e] + s / vocab)
 *                 - exp(logits[r, v] - lse[r]) sum_e g[e]
 * over the targets e of row r, s the label smoothing.
 *
 * dlogits: row r begins at dlogits + r * ld_out elements of type t, and is
 * either where the row of logits begins (r * ld_out * size of t == r * ld *
 * 4: in place, the gradient over the logits that it is made from) or in
 * memory of its own. Rows without targets become 0. A target given twice in
 * a row counts twice. Tolerance 2e-6 of sum_e |g[e]| plus one rounding to t.
 * Bytes: rows * cols * (4 + size of t).
 */
void bn_head_grad_ref(enum bn_dtype t, const struct bn_head_rows *h,
                      void *dlogits, int ld_out, const float *logits,
                      const float *lse, const float *g, float smoothing);
void bn_head_grad_cpu(enum bn_dtype t, const struct bn_head_rows *h,
                      void *dlogits, int ld_out, const float *logits,
                      const float *lse, const float *g, float smoothing);
int bn_head_grad_cuda(enum bn_dtype t, const struct bn_head_rows *h,
                      void *dlogits, int ld_out, const float *logits,
                      const float *lse, const float *g, float smoothing,
                      void *stream);

#ifdef __cplusplus
}
#endif

#endif
