/* The tokenizer inside a GGUF file as the files of a Hugging Face folder. */
#ifndef BN_CONVERT_GGUF_TOKENIZER_H
#define BN_CONVERT_GGUF_TOKENIZER_H

#include "base/err.h"
#include "base/json.h"

/* What 'meta' (bn_tensors.meta of a GGUF file, named 'where') holds under
 * tokenizer.*: '*tokenizer' becomes a tokenizer.json, '*config' a
 * tokenizer_config.json with the chat template and the special tokens by
 * name; the caller owns both. Both stay NULL, and 0 is returned, if the file
 * holds no tokenizer.
 *
 * tokenizer.ggml.model "gpt2" is a byte-level BPE with the merges of the
 * file; how text is cut into words is what tokenizer.ggml.pre names. "llama"
 * is a SentencePiece BPE whose merges follow from scores: every cut of a
 * piece into two pieces is a merge; higher scores come first, of one score
 * pieces by id, of one piece cuts by the ids of their parts (as transformers
 * has made tokenizer.json files of SentencePiece models). Every token keeps
 * its id. Control and unknown tokens are special added tokens, user-defined
 * ones added tokens. BOS and EOS are put around a text as
 * tokenizer.ggml.add_bos_token and add_eos_token say; where they do not, as
 * is usual for the kind.
 *
 * Other models and unknown pre-tokenizers are refused by name (class data),
 * never guessed. On failure both stay NULL.
 */
int bn_tokenizer_of_gguf(const json_t *meta, const char *where,
                         json_t **tokenizer, json_t **config,
                         struct bn_err *err);

#endif
