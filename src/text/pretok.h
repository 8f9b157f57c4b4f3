/* The "pre_tokenizer" of a tokenizer.json: cuts text into words. */
#ifndef BN_TEXT_PRETOK_H
#define BN_TEXT_PRETOK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "text/pattern.h"
#include "text/scan.h"

enum bn_pretok_kind {
    BN_PRETOK_SPLIT,
    BN_PRETOK_PREFIX,   /* ' ' before a piece that has none */
    BN_PRETOK_BYTES,    /* bytes by their byte-level names */
    BN_PRETOK_METASPACE /* ' ' to a mark, and one before a piece */
};

enum bn_behavior {
    BN_SPLIT_REMOVED,
    BN_SPLIT_ISOLATED,
    BN_SPLIT_PREVIOUS,
    BN_SPLIT_NEXT,
    BN_SPLIT_CONTIGUOUS
};

enum bn_prepend { BN_PREPEND_NEVER, BN_PREPEND_FIRST, BN_PREPEND_ALWAYS };

struct bn_pretok_step {
    enum bn_pretok_kind kind;
    /* split */
    struct bn_pattern pattern;
    enum bn_scan scan; /* when it is a known expression, cut isolated */
    enum bn_behavior behavior;
    bool invert;
    /* metaspace: pattern is the mark */
    enum bn_prepend prepend;
    bool split;
};

struct bn_pretok {
    struct bn_pretok_step *step;
    size_t n, cap;
};

/* Parse; null means none. Unknown types are refused by name. */
int bn_pretok_init(struct bn_pretok *p, const json_t *spec, const char *where,
                   struct bn_err *err);
void bn_pretok_release(struct bn_pretok *p);

/* A run of the text; zero: it begins where the whole input began. */
struct bn_piece {
    size_t b, e;
    bool zero;
};

/* Scratch and result of bn_pretok_run. */
struct bn_pieces {
    struct bn_piece *v;
    size_t n, cap;
    const char *text; /* what the pieces are ranges of */
    struct bn_piece *spare;
    size_t spare_cap;
    struct bn_str buf[2];
};
void bn_pieces_release(struct bn_pieces *w);

/* Cut s[0..n) by steps 0..nstep-1. 'zero' as in the piece. The result is
 * valid until the next call with 'w', and while 's' is. */
int bn_pretok_run(const struct bn_pretok *p, size_t nstep,
                  struct bn_matcher *m, const char *s, size_t n, bool zero,
                  struct bn_pieces *w, struct bn_err *err);

#endif
