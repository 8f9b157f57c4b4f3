/* The text of an answer as its tokens come: what is whole, and whether a stop
 * string is in it. Used by gen.c.
 */
#ifndef BN_TRAIN_GEN_TEXT_H
#define BN_TRAIN_GEN_TEXT_H

#include "text/tokenizer.h"

struct bn_gen_text {
    const struct bn_tokenizer *t; /* borrowed */
    const char *const *stop;      /* borrowed: [nstop] stop strings, not "" */
    size_t nstop;
    struct bn_str text; /* of the answer; ends before a stop string */
    size_t ready; /* bytes of it that no stop string can take back */
    int found;    /* the stop string that ended it; -1: none */
    /* private: tokens [base, done) are decoded in 'text' and give the ones
     * after them their context */
    struct bn_ids ids;
    size_t base, done;
    struct bn_str context, next;
};

/* Begin an answer to a prompt: its last tokens are the context, so that an
 * answer begins with a space where a word begins. */
int bn_gen_text_begin(struct bn_gen_text *x, const int32_t *prompt, size_t n,
                      struct bn_err *err);
/* One more token. Bytes that are not yet a character wait for those that
 * complete it; special tokens are left out, and so are ids that the tokenizer
 * does not know. */
int bn_gen_text_add(struct bn_gen_text *x, int32_t id, struct bn_err *err);
/* Nothing comes any more: what waited becomes U+FFFD, all is ready. */
int bn_gen_text_end(struct bn_gen_text *x, struct bn_err *err);
void bn_gen_text_release(struct bn_gen_text *x);

#endif
