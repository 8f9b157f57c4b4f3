/* A Hugging Face tokenizer (tokenizer.json) as a function from text to ids.
 *
 * Ids equal those of the reference library for byte-level and
 * SentencePiece-style BPE; everything else is refused by name when opened.
 * A tokenizer is immutable and shared by threads; an encoder holds one
 * thread's scratch memory and word cache.
 */
#ifndef BN_TEXT_TOKENIZER_H
#define BN_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"

struct bn_tokenizer;
struct bn_encoder;

/* A growing list of ids; a zeroed struct is empty. */
struct bn_ids {
    int32_t *v;
    size_t n, cap;
};
void bn_ids_release(struct bn_ids *ids);

/* Open a folder that holds tokenizer.json, or the path of a tokenizer.json.
 * Beside it tokenizer_config.json, then special_tokens_map.json, name
 * bos/eos/pad/unk tokens; the chat template is chat_template.jinja, else the
 * one of tokenizer_config.json (of a list, the one named "default"). Added
 * tokens get the ids that the reference gives them, which is by rule; a
 * warning says where the file has others. Limits: ids below 2^21, fewer than
 * 2^22 - 1 merges. NULL on failure: class data, naming file and component. */
struct bn_tokenizer *bn_tokenizer_open(const char *path, struct bn_err *err);
void bn_tokenizer_close(struct bn_tokenizer *t);

/* One past the largest id, added tokens included. */
int32_t bn_tokenizer_vocab_size(const struct bn_tokenizer *t);
/* -1 where the tokenizer has none. */
int32_t bn_tokenizer_bos(const struct bn_tokenizer *t);
int32_t bn_tokenizer_eos(const struct bn_tokenizer *t);
int32_t bn_tokenizer_pad(const struct bn_tokenizer *t);
/* The id of a token's exact text; -1 if there is none. */
int32_t bn_tokenizer_id(const struct bn_tokenizer *t, const char *token);
/* The token's text as in the vocabulary, borrowed; NULL if there is none. */
const char *bn_tokenizer_token(const struct bn_tokenizer *t, int32_t id);
bool bn_tokenizer_is_special(const struct bn_tokenizer *t, int32_t id);
/* Hash of every byte that can change an id (tokenizer.json and the parts of
 * tokenizer_config.json that are used). */
struct bn_hash bn_tokenizer_hash(const struct bn_tokenizer *t);
/* The text of the chat template, borrowed; NULL if there is none. */
const char *bn_tokenizer_chat_template(const struct bn_tokenizer *t);
/* Where it stands, for messages: "dir/chat_template.jinja". */
const char *bn_tokenizer_chat_template_name(const struct bn_tokenizer *t);
/* The text of a named special token ("bos_token", "eos_token", "pad_token",
 * "unk_token", ...) of tokenizer_config.json, borrowed; NULL if unset. */
const char *bn_tokenizer_special(const struct bn_tokenizer *t,
                                 const char *name);

struct bn_encoder *bn_encoder_create(const struct bn_tokenizer *t);
void bn_encoder_destroy(struct bn_encoder *e);

/* Append the ids of 'text' (any bytes, NUL allowed) to 'out'. add_special:
 * also run the post-processor (BOS and the like). Text that is not UTF-8, or
 * of 2 GiB, is an error of class data that names the byte offset; 'out' then
 * has the ids it had. Time is linear in 'len', also where no word ends.
 * Local. */
int bn_encode(struct bn_encoder *e, const char *text, size_t len,
              bool add_special, struct bn_ids *out, struct bn_err *err);

/* Append the text of 'n' ids to 'out', through the tokenizer's decoder. An
 * id outside the vocabulary is an error. */
int bn_decode(const struct bn_tokenizer *t, const int32_t *ids, size_t n,
              bool skip_special, struct bn_str *out, struct bn_err *err);

#endif
