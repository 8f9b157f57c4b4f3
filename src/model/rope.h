/* Rotary position tables of a model's config, in double until the last
 * rounding. Formulas: transformers' modeling_rope_utils (Llama 3 bands; YaRN,
 * Peng et al. 2023; dynamic NTK scaling).
 */
#ifndef BN_MODEL_ROPE_H
#define BN_MODEL_ROPE_H

#include "model/config.h"

/* inv_freq[head_dim / 2]; cosines and sines are to be multiplied by
 * '*attention_factor'. 'seq_len' matters to dynamic RoPE only: it turns the
 * frequencies down when a sequence is longer than max_position, so that
 * every position of one sequence depends on its length. The answers to one
 * prompt share it, and so the length of the longest, as in a padded batch of
 * that one pair; other examples of a batch have no say.
 */
void bn_rope_freqs(const struct bn_model_config *c, int seq_len,
                   double *inv_freq, double *attention_factor);

/* cos, sin: [max_pos, head_dim / 2]; entry (p, i) of position p and
 * frequency i, which pairs elements i and i + head_dim / 2 of a head. Not for
 * dynamic RoPE, which needs a sequence's length as well.
 */
void bn_rope_init(const struct bn_model_config *c, int max_pos, float *cos,
                  float *sin);

/* The same with a row for each of n tokens: at position pos[i] of a sequence
 * of span[i] positions. cos, sin: [n, head_dim / 2]. Quick where neighbours
 * are of one span. */
void bn_rope_rows(const struct bn_model_config *c, int n, const int32_t *pos,
                  const int32_t *span, float *cos, float *sin);

#endif
