/* What a tokenizer.json calls a pattern: a literal string, or a regular
 * expression of the Oniguruma dialect that the reference library uses, here
 * compiled by PCRE2 (JIT). Where the two dialects differ (\s, \w, \h, line
 * anchors) the expression is translated; what cannot be is refused.
 */
#ifndef BN_TEXT_PATTERN_H
#define BN_TEXT_PATTERN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct bn_pattern {
    char *text; /* the literal, or the source of the expression */
    size_t len;
    void *re; /* pcre2_code; NULL for a literal */
};

/* One thread's scratch memory for matching. */
struct bn_matcher;
struct bn_matcher *bn_matcher_create(void);
void bn_matcher_destroy(struct bn_matcher *m);

/* Parse {"String": s} or {"Regex": s}. 'where' names the component. */
int bn_pattern_parse(struct bn_pattern *p, const json_t *spec,
                     const char *where, struct bn_err *err);
int bn_pattern_regex(struct bn_pattern *p, const char *source,
                     const char *where, struct bn_err *err);
void bn_pattern_literal(struct bn_pattern *p, const char *s, size_t n);
void bn_pattern_release(struct bn_pattern *p);

/* Iterate over the matches in s[0..n): a zeroed 'it' starts. Returns 1 with
 * the match in it->b, it->e; 0 at the end; -1 with 'err' when the regular
 * expression runs out of its limits. s is well-formed UTF-8. */
struct bn_match {
    size_t b, e;
    size_t next; /* where to look from */
    bool begun;
};
int bn_pattern_next(const struct bn_pattern *p, struct bn_matcher *m,
                    const char *s, size_t n, struct bn_match *it,
                    struct bn_err *err);

#endif
