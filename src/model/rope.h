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
 * every position of one sequence depends on its length.
 */
void bn_rope_freqs(const struct bn_model_config *c, int seq_len,
                   double *inv_freq, double *attention_factor);

/* cos, sin: [max_pos, head_dim / 2]; entry (p, i) of position p and
 * frequency i, which pairs elements i and i + head_dim / 2 of a head. Under
 * dynamic RoPE the table is that of sequences of max_pos positions.
 */
void bn_rope_init(const struct bn_model_config *c, int max_pos, float *cos,
                  float *sin);

#endif
