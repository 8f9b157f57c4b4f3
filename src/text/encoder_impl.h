/* What is inside an encoder; for encoder.c and the hot path only. */
#ifndef BN_TEXT_ENCODER_IMPL_H
#define BN_TEXT_ENCODER_IMPL_H

#include "text/tokenizer_impl.h"
#include "text/wordcache.h"

enum { BN_IDS_SLACK = 16 }; /* ids that may be written behind the last */

struct bn_encoder {
    char apart[64]; /* threads' encoders never share a cache line */
    const struct bn_tokenizer *t;
    const struct bn_uclass_table *classes;
    const struct bn_hot *hot;
    struct bn_wordcache cache;
    struct bn_matcher *matcher;
    struct bn_bpe_work work;
    struct bn_pieces pieces;
    struct bn_str norm[2];
    struct bn_str first;  /* a text's first word with its mark */
    struct bn_str marked; /* a word with its spaces as marks */
    /* The caller's list while a text is encoded; always has BN_IDS_SLACK of
     * room. A copy, so that threads never write to one cache line. */
    struct bn_ids out;
    char apart_too[64];
};

/* Append ids, keeping the slack. */
void bn_emit(struct bn_ids *out, const void *ids, size_t n);

/* The hot path in one version. */
struct bn_hot {
    /* Append the ids of all words of a known expression (t->scan). */
    void (*scan)(struct bn_encoder *e, const char *s, size_t n);
    /* Append the ids of all words that end before a mark, see plan.c;
     * spaces: ' ' is a mark too. */
    void (*mark)(struct bn_encoder *e, const char *s, size_t n, bool spaces);
    /* Append the ids of one word of n > 0 bytes. */
    void (*word)(struct bn_encoder *e, const char *w, size_t n);
};
extern const struct bn_hot bn_hot_plain, bn_hot_v3;

/* The hot path's exit: a word that is long, new, or has many ids ('s' is its
 * slot, else NULL). 'i' is its index in the cache. */
void bn_slow_word(struct bn_encoder *e, size_t i, const char *w, size_t n,
                  const struct bn_word_slot *s);

/* Length of the mark at s < end; 0: none is there. */
static inline size_t bn_mark_at(const char *s, const char *end, bool spaces)
{
    if (*s == ' ')
        return spaces;
    return end - s >= 3 && memcmp(s, BN_MARK, 3) == 0 ? 3 : 0;
}
/* The end of the word at s < end. */
const char *bn_mark_word(const struct bn_tokenizer *t, const char *s,
                         const char *end, bool spaces);

#endif
