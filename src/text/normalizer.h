/* The "normalizer" of a tokenizer.json: a list of rewrites of the text. */
#ifndef BN_TEXT_NORMALIZER_H
#define BN_TEXT_NORMALIZER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "text/pattern.h"

enum bn_norm_kind {
    BN_NORM_NFC,
    BN_NORM_NFD,
    BN_NORM_NFKC,
    BN_NORM_NFKD,
    BN_NORM_REPLACE,
    BN_NORM_PREPEND,
    BN_NORM_STRIP,
    BN_NORM_LOWER,
    BN_NORM_BYTES
};

struct bn_norm_step {
    enum bn_norm_kind kind;
    struct bn_pattern pattern; /* replace */
    char *content;             /* replace, prepend */
    size_t content_len;
    bool left, right;          /* strip */
};

struct bn_normalizer {
    struct bn_norm_step *step;
    size_t n, cap;
};

/* Parse; null means none. Unknown types are refused by name. */
int bn_normalizer_init(struct bn_normalizer *z, const json_t *spec,
                       const char *where, struct bn_err *err);
void bn_normalizer_release(struct bn_normalizer *z);

/* Normalize s[0..n), well-formed UTF-8. '*out' is 's' itself if nothing
 * changes, else memory of buf[0] or buf[1]. '*cut': bytes of 's' that were
 * stripped at its start. */
int bn_normalize(const struct bn_normalizer *z, struct bn_matcher *m,
                 const char *s, size_t n, struct bn_str buf[2],
                 const char **out, size_t *nout, size_t *cut,
                 struct bn_err *err);

/* True if s[0..n) is surely in NFC already (false: it may be). */
bool bn_nfc_plain(const char *s, size_t n);

/* The replacement of every match; 'out' is appended to. */
int bn_replace(const struct bn_pattern *p, struct bn_matcher *m,
               const char *content, size_t ncontent, const char *s, size_t n,
               struct bn_str *out, struct bn_err *err);

#endif
