/* A plain forward pass over named tensors, to ask what a checkpoint
 * computes. It shares no code with the training back ends but the RoPE
 * frequencies, needs no BLAS, and reads weights where they lie.
 */
#ifndef BN_CONVERT_PROBE_H
#define BN_CONVERT_PROBE_H

#include "format/tensors.h"
#include "model/config.h"

/* A wrong reading of the same weights, to see that it is worse. */
struct bn_probe_cut {
    /* Row of [q; k; v] that stands for each row: (heads + 2 kv_heads) *
     * head_dim entries; NULL: itself. */
    const int32_t *qkv;
    bool swap_gate; /* gate for up and up for gate */
};

/* logits[n, vocab_size] of the one sequence ids[0..n), positions from 0. ts:
 * Hugging Face tensors that passed bn_hf_check, in any floating formats. cut:
 * NULL for the right reading. Activations and sums are float. Returns 0, or
 * -1 (class again) without memory. Local; uses all CPUs.
 */
int bn_probe_logits(const struct bn_tensors *ts,
                    const struct bn_model_config *c,
                    const struct bn_probe_cut *cut, const int32_t *ids, int n,
                    float *logits, struct bn_err *err);

/* Mean of -log p(ids[i + 1] | ids[0..i]) over i < n - 1, in nats; n >= 2. */
double bn_probe_nll(const float *logits, int vocab, const int32_t *ids,
                    int n);
/* Mean over n rows of KL(softmax a || softmax b), in nats. */
double bn_probe_kl(const float *a, const float *b, int vocab, int n);

#endif
