/* The .bin files of llama2.c: floats one after the other behind a header.
 *
 * version 0: seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads,
 *            vocab_size, max_seq_len; vocab_size below 0: an output matrix
 *            of its own follows), then each kind of tensor for all layers:
 *            embedding, attention norm, wq, wk, wv, wo, ffn norm, w1, w2, w3,
 *            final norm, RoPE cosines and sines, output
 * version 1: "ak42", int32 1, the seven (vocab_size positive), a byte
 *            shared_classifier, zeros up to 256; attention norm, ffn norm,
 *            final norm, embedding, wq, wk, wv, wo, w1, w2, w3, output
 *
 * Version 2 (quantised) is refused.
 */
#ifndef BN_FORMAT_LLAMA2C_H
#define BN_FORMAT_LLAMA2C_H

#include "format/tensors.h"

/* Read such a file. Names are those of llama2.c's PyTorch model:
 * tok_embeddings.weight, layers.N.attention_norm.weight,
 * layers.N.attention.{wq,wk,wv,wo}.weight, layers.N.ffn_norm.weight,
 * layers.N.feed_forward.{w1,w2,w3}.weight, norm.weight, and output.weight if
 * it is not shared. Rows of wq and wk pair neighbours for RoPE (2i, 2i + 1),
 * unlike a Hugging Face folder. ts->meta has the header's numbers under the
 * names above, and "shared_classifier". '*ts' must be empty; on failure it
 * still is. Local.
 */
int bn_llama2c_open(struct bn_tensors *ts, const char *path,
                    struct bn_err *err);
/* The same of bytes in memory named 'name'; they must outlive the set. */
int bn_llama2c_parse(struct bn_tensors *ts, const void *data, size_t len,
                     const char *name, struct bn_err *err);

#endif
