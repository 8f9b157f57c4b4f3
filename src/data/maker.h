/* Rows to examples: which text a row means, and which tokens that is. */
#ifndef BN_DATA_MAKER_H
#define BN_DATA_MAKER_H

#include "base/err.h"
#include "data/data.h"
#include "data/row.h"
#include "text/chat.h"
#include "text/tokenizer.h"

/* How the rows of a set become text: the shape, and what varies within it. */
enum bn_form {
    BN_FORM_TEXT,          /* text */
    BN_FORM_PLAIN,         /* prompt, completion: strings or lists of them */
    BN_FORM_CHAT_PAIR,     /* prompt, completion: messages */
    BN_FORM_ALPACA,        /* Stanford's text */
    BN_FORM_ALPACA_CHAT,   /* through the chat template */
    BN_FORM_MESSAGES,
    BN_FORM_SHAREGPT,
    BN_FORM_PREF_PLAIN,      /* prompt, chosen, rejected: strings */
    BN_FORM_PREF_TRANSCRIPT, /* chosen, rejected: strings with the prompt */
    BN_FORM_PREF_ALPACA,     /* instruction, input, chosen, rejected */
    BN_FORM_PREF_ALPACA_CHAT,
    BN_FORM_PREF_CHAT,       /* chosen, rejected: messages */
};

/* What all threads share. Immutable once made. */
struct bn_held;

struct bn_recipe {
    const struct bn_data_opts *o;
    const struct bn_held *held; /* left out; may be NULL */
    const struct bn_tokenizer *t;
    const char *name[BN_COL_COUNT];
    struct bn_chat *chat; /* NULL: no template */
    enum bn_shape shape;
    enum bn_form form;
    struct bn_ids bos; /* in front of plain text */
    int32_t eos;       /* after plain text; -1: none is added */
    char *statement;
    char *notes; /* not NULL */
};

/* Tell shape and form from the first row of the files (opts->shape fixes the
 * shape), check the options against them, prepare template and special
 * tokens. All rows must then be of that form. */
int bn_recipe_init(struct bn_recipe *r, const struct bn_data_opts *o,
                   const struct bn_tokenizer *t, struct bn_err *err);
/* Whether a row's columns make a shape, or the shape is fixed. */
bool bn_recipe_knows(const struct bn_recipe *r, const struct bn_row *row);
int bn_recipe_detect(struct bn_recipe *r, const struct bn_row *first,
                     const char *keys, struct bn_err *err);
void bn_recipe_release(struct bn_recipe *r);

/* One thread's scratch memory. */
struct bn_maker;
struct bn_maker *bn_maker_create(const struct bn_recipe *r);
void bn_maker_destroy(struct bn_maker *m);

/* An example in the making; owns its lists, which are reused. */
struct bn_made {
    struct bn_ids ids, chosen, rejected;
    uint8_t *mask; /* [ids.n], sft */
    size_t mask_cap;
    bool cut; /* a length limit took tokens away */
};
void bn_made_release(struct bn_made *x);

/* The examples of a set, by their tokens (held.c). Read-only, shared by
 * threads. */
struct bn_held *bn_held_create(const struct bn_tokens *ts);
void bn_held_destroy(struct bn_held *h); /* NULL is allowed */
bool bn_held_has(const struct bn_held *h, const struct bn_made *x);

/* Make an example of a row. BN_KEPT, or why there is none; for a bad row
 * bn_maker_why says what is wrong. */
enum bn_drop bn_maker_row(struct bn_maker *m, const struct bn_row *row,
                          struct bn_made *x);
const char *bn_maker_why(const struct bn_maker *m);

#endif
