/* The BPE model of a tokenizer.json: vocabulary, merges, and words to ids.
 *
 * A word is a run of symbols (characters, or bytes under their byte-level
 * names). The merge of lowest rank is applied first, the leftmost of equal
 * ones, until none is left: the definition of the reference library.
 */
#ifndef BN_TEXT_BPE_H
#define BN_TEXT_BPE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    BN_BPE_ID_BITS = 21,   /* largest id + 1 is at most 2^21 */
    BN_BPE_RANK_BITS = 22, /* at most 2^22 - 1 merges */
    BN_BPE_PLACE_BITS = 6
};
#define BN_BPE_NONE INT32_MAX
#define BN_BPE_ASK INT32_MIN
#define BN_BPE_NO_RANK UINT32_MAX

/* The place between two symbols, by their kinds: see bpe_seam.c. Ranks are
 * shifted by BN_BPE_PLACE_BITS; BN_BPE_NONE: no merge, BN_BPE_ASK: ask
 * bn_bpe_rank. */
struct bn_bpe_seam {
    int32_t rank;  /* of the merge of the two */
    int32_t least; /* that any merge across it can have */
};

/* What a merge makes, and the least rank that any merge across the place
 * before and behind that can have, as above. */
struct bn_bpe_step {
    uint32_t id;
    int32_t before, behind;
};

struct bn_bpe {
    int32_t nid;       /* one past the largest id */
    int32_t ntoken;    /* number of tokens; less than nid if ids have holes */
    char *blob;        /* texts of all tokens, each with a NUL behind it */
    uint32_t *off;     /* [nid] into blob */
    uint32_t *len;     /* [nid]; UINT32_MAX: no token has this id */
    uint32_t max_len;  /* bytes of the longest token */
    uint32_t *map;     /* hash table of id + 1 by text */
    uint32_t map_mask;
    uint64_t *pairs;   /* hash table: left, right, rank + 1; 0 is empty */
    uint32_t pair_mask;
    uint64_t *maybe;   /* bits by hash: clear where no pair is. Small enough
                        * to stay near the processor. */
    int maybe_shift;
    uint32_t *made;    /* [nmerge] the id a merge makes */
    uint32_t nmerge;
    uint8_t *kind;              /* [nid] of symbols, see bpe_seam.c */
    struct bn_bpe_seam *seam;   /* [256 * 256] by two kinds; NULL: not used */
    struct bn_bpe_step *step;   /* [nmerge] */
    int32_t *char_sym;          /* [65536] id of a character below U+10000,
                                 * -1: none; NULL with prefix or suffix */
    int32_t byte_sym[256];      /* id of a byte's byte-level name, or -1 */
    bool bytes_whole;           /* every byte has one */
    int32_t fallback[256];      /* id of <0xNN>, or -1 */
    bool byte_fallback, fuse_unk, ignore_merges;
    int32_t unk;                /* -1: none */
    bool v3;                    /* bn_has_v3() */
    char *prefix, *suffix;      /* of inner and last symbols; NULL: none */
};

/* Build from the "model" object. 'where' is the file's name. */
int bn_bpe_init(struct bn_bpe *b, const json_t *model, const char *where,
                struct bn_err *err);
void bn_bpe_release(struct bn_bpe *b);
/* The id of a token's exact bytes; -1: none. */
int32_t bn_bpe_id(const struct bn_bpe *b, const char *s, size_t n);

static inline uint32_t bn_bpe_hash(uint32_t left, uint32_t right)
{
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(h >> 32);
}

/* Rank of the merge of two symbols, BN_BPE_NO_RANK if there is none. */
static inline uint32_t bn_bpe_rank(const struct bn_bpe *b, uint32_t left,
                                   uint32_t right)
{
    uint64_t key = (uint64_t)left << BN_BPE_ID_BITS | right;
    uint32_t h = bn_bpe_hash(left, right), bit = h >> b->maybe_shift;
    uint32_t i = h & b->pair_mask;

    if ((b->maybe[bit / 64] >> bit % 64 & 1) == 0)
        return BN_BPE_NO_RANK;
    for (;;) {
        uint64_t v = b->pairs[i];

        if (v == 0)
            return BN_BPE_NO_RANK;
        if (v >> BN_BPE_RANK_BITS == key)
            return (uint32_t)(v & ((1u << BN_BPE_RANK_BITS) - 1)) - 1;
        i = (i + 1) & b->pair_mask;
    }
}

/* Scratch memory of one thread, for one model: what it remembers of words is
 * that model's. A zeroed struct is empty. */
struct bn_bpe_work {
    uint32_t *sym;   /* symbols in, ids out */
    size_t sym_cap, n;
    struct bn_bpe_node *node;
    size_t node_cap;
    uint64_t *heap;
    size_t heap_cap;
    struct bn_bpe_mark *mark;
    size_t mark_cap;
    struct bn_bpe_memo *memo;
    uint32_t *win, *win_start;
    size_t win_cap, win_start_cap;
    char *text;
    size_t text_cap;
};
void bn_bpe_work_release(struct bn_bpe_work *w);

/* Ids of one word, in w->sym[0..w->n). bytes: 's' is raw bytes, to be read
 * under their byte-level names (b->bytes_whole is true); otherwise it is
 * UTF-8 and each character a symbol. Time is linear in n for all but
 * contrived vocabularies, and n log n at worst. */
void bn_bpe_word(const struct bn_bpe *b, struct bn_bpe_work *w, const char *s,
                 size_t n, bool bytes);

/* Apply all merges to w->sym[0..w->n): the step after symbols are made. Each
 * is a token of one character, a byte's, or the unknown token. */
void bn_bpe_merge(const struct bn_bpe *b, struct bn_bpe_work *w);
/* The same by a heap alone: slower, and what the faster way is tested
 * against. */
void bn_bpe_merge_heap(const struct bn_bpe *b, struct bn_bpe_work *w);

/* The character that stands for a byte in byte-level vocabularies (GPT-2's
 * table), and back; -1 where a character stands for none. */
uint32_t bn_byte_char(uint8_t byte);
int bn_char_byte(uint32_t cp);
/* Add the byte-level names of s[0..n) to 'out' as UTF-8. */
struct bn_str;
void bn_byte_names(struct bn_str *out, const char *s, size_t n);

#endif
