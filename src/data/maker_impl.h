/* Private to maker*.c. */
#ifndef BN_DATA_MAKER_IMPL_H
#define BN_DATA_MAKER_IMPL_H

#include "data/maker.h"

struct bn_maker {
    const struct bn_recipe *r;
    struct bn_encoder *enc;
    struct bn_ids full[2], part;
    struct bn_str text[3];
    struct bn_err err;
    char why[480];
};

/* A piece of text. */
struct bn_text {
    const char *s;
    size_t n;
};

enum bn_drop bn_maker_bad(struct bn_maker *m, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* 'ids' = the tokens of the text, without special ones. False: a bad row. */
bool bn_maker_encode(struct bn_maker *m, const char *s, size_t n,
                     struct bn_ids *ids);
void bn_ids_add(struct bn_ids *to, const int32_t *v, size_t n);
size_t bn_ids_shared(const struct bn_ids *a, const struct bn_ids *b);
/* Set mask[from..ids.n) of 'x' to 'value'. */
void bn_made_mask(struct bn_made *x, size_t from, uint8_t value);

/* What the limits leave of an sft example whose first 'nprompt' tokens are
 * a prompt. */
enum bn_drop bn_maker_finish(struct bn_maker *m, struct bn_made *x,
                             size_t nprompt);
/* One answer (sft) or two (preference) after a prompt, as whole texts, of
 * which 'prompt' is meant to be a prefix. 'chat': rendered by a template,
 * so that no BOS and no EOS is added. */
enum bn_drop bn_maker_answers(struct bn_maker *m, struct bn_made *x,
                              struct bn_text prompt,
                              const struct bn_text *whole, int n, bool chat);

/* maker_chat.c: the forms that go through the template. */
enum bn_drop bn_maker_chat(struct bn_maker *m, const struct bn_row *row,
                           struct bn_made *x);

#endif
