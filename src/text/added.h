/* Added tokens: texts that become one id wherever they occur. */
#ifndef BN_TEXT_ADDED_H
#define BN_TEXT_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bn_added {
    char *content;
    size_t len;
    int32_t id;
    bool special, single_word, lstrip, rstrip, normalized;
};

/* A set of texts to look for: the leftmost, of those the longest. */
struct bn_finder {
    struct bn_finder_node *node; /* a trie */
    size_t n, cap;
    uint32_t root[256]; /* by first byte; 0: none starts so */
    unsigned char lone; /* the first byte if all texts share it, else 0 */
};

void bn_finder_init(struct bn_finder *f);
void bn_finder_release(struct bn_finder *f);
/* 'value' >= 0 is given back on a hit; the first of equal texts counts. */
void bn_finder_add(struct bn_finder *f, const char *s, size_t n,
                   int32_t value);
/* The next hit in s[from..n): true with its place and value. */
bool bn_finder_next(const struct bn_finder *f, const char *s, size_t n,
                    size_t from, size_t *b, size_t *e, int32_t *value);

/* The next added token in s[at..n), with single_word, lstrip and rstrip
 * applied. '*from' is where the search goes on (at first equal to 'at');
 * 'tokens' are what the finder's values index. True with the token and its
 * range [*b, *e), which may begin before 'at' when an rstrip before it ate
 * white space that is a token too. */
bool bn_added_next(const struct bn_finder *f, const struct bn_added *tokens,
                   const char *s, size_t n, size_t at, size_t *from,
                   size_t *b, size_t *e, int32_t *token);

#endif
