/* What is inside a tokenizer; for the files of src/text only. */
#ifndef BN_TEXT_TOKENIZER_IMPL_H
#define BN_TEXT_TOKENIZER_IMPL_H

#include "text/added.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/pretok.h"
#include "text/tokenizer.h"

/* How a text between added tokens becomes words. */
enum bn_plan {
    BN_PLAN_STEPS, /* run every pre-tokenizer step */
    BN_PLAN_SCAN,  /* one known expression over raw bytes */
    BN_PLAN_MARKS  /* words that begin with a space mark, see plan.c */
};

struct bn_tokenizer {
    char *path; /* of tokenizer.json */
    struct bn_bpe bpe;
    struct bn_normalizer norm;
    struct bn_pretok pretok;
    struct bn_decoder decoder;
    struct bn_added *added;
    size_t nadded, added_cap;
    struct bn_finder raw, normal; /* of tokens not normalized, normalized */
    struct bn_ids before, after;  /* the post-processor */

    enum bn_plan plan;
    size_t nstep;       /* pre-tokenizer steps to run under BN_PLAN_STEPS */
    bool bytes;         /* words are raw bytes, not characters */
    enum bn_scan scan;  /* BN_PLAN_SCAN */
    bool scan_prefix;   /* a space before a text that has none */
    bool marks;         /* cut words at marks: proven for this vocabulary */
    bool lines;         /* and at line breaks */
    bool each;          /* a mark ends the word before even after a mark */
    /* BN_PLAN_MARKS: in place of normalizer and pre-tokenizer */
    bool prepend_plain; /* a mark before every text */
    enum bn_prepend prepend; /* a mark before a text that has none */

    int32_t nid; /* one past the largest id */
    const char **text; /* [nid], NULL: no such token */
    uint32_t *text_len;
    /* What stands for an added token in decoding when that is not its text,
     * NULL else: as in the reference, a normalized token's normalized text,
     * which is then not skipped as special either. */
    char **shown; /* [nid] */
    bool *special;
    int32_t bos, eos, pad;
    json_t *names;  /* "bos_token": its text, ... */
    char *template; /* chat template or NULL */
    char *template_name; /* where it stands; NULL likewise */
    struct bn_hash hash;
};

/* Choose the plan once all parts are read. */
void bn_tokenizer_plan(struct bn_tokenizer *t);
/* Read tokenizer_config.json and chat_template.jinja of a folder. */
int bn_tokenizer_config(struct bn_tokenizer *t, const char *dir,
                        struct bn_err *err);
/* Read "post_processor". */
int bn_post_init(struct bn_tokenizer *t, const json_t *spec,
                 struct bn_err *err);

#define BN_MARK "\xe2\x96\x81" /* U+2581, the space mark */

#endif
