/* The "decoder" of a tokenizer.json: tokens back to text. */
#ifndef BN_TEXT_DECODER_H
#define BN_TEXT_DECODER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "text/pattern.h"

enum bn_decode_kind {
    BN_DECODE_BYTES,     /* ByteLevel */
    BN_DECODE_FALLBACK,  /* <0xNN> */
    BN_DECODE_FUSE,
    BN_DECODE_REPLACE,
    BN_DECODE_STRIP,
    BN_DECODE_METASPACE,
    BN_DECODE_SUFFIX     /* BPEDecoder */
};

struct bn_decode_step {
    enum bn_decode_kind kind;
    struct bn_pattern pattern; /* replace; metaspace: its mark */
    char *content;             /* replace, strip, suffix */
    size_t content_len;
    int64_t start, stop;       /* strip; metaspace: start 1 drops a mark at
                                * the beginning */
};

struct bn_decoder {
    struct bn_decode_step *step;
    size_t n, cap;
};

/* Parse; null means none. Unknown types are refused by name. */
int bn_decoder_init(struct bn_decoder *d, const json_t *spec,
                    const char *where, struct bn_err *err);
void bn_decoder_release(struct bn_decoder *d);

/* Texts one behind the other; text i is buf[end[i-1]..end[i]). */
struct bn_texts {
    struct bn_str buf;
    size_t *end;
    size_t n, cap;
};
void bn_texts_release(struct bn_texts *t);
void bn_texts_add(struct bn_texts *t, const char *s, size_t n);

/* Decode 'in' (it is used as scratch) and append the text to 'out'. Without
 * steps tokens are joined by spaces, as in the reference. */
int bn_decoder_run(const struct bn_decoder *d, struct bn_texts *in,
                   struct bn_str *out, struct bn_err *err);

#endif
