/* Prompts of a command line or of a file of JSON lines, as ids. */
#ifndef BN_CMD_PROMPTS_H
#define BN_CMD_PROMPTS_H

#include <jansson.h>

#include "comm/comm.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct bn_prompts {
    const struct bn_tokenizer *t; /* borrowed */
    int vocab;                    /* of the model */
    int max;                      /* tokens of a prompt */
    struct bn_ids *v;             /* [n] */
    size_t n, cap;
    /* A member of each row that holds the answer that is expected; NULL: none.
     * Set before reading. */
    const char *reference_key; /* borrowed */
    char **reference;          /* [n] with it */
    size_t reference_cap;
    /* private */
    struct bn_encoder *enc;
    struct bn_chat *chat;
    struct bn_str text;
};

/* 't' must outlive it. */
void bn_prompts_init(struct bn_prompts *p, const struct bn_tokenizer *t,
                     int vocab, int max);
void bn_prompts_release(struct bn_prompts *p);

/* Text of a command line; chat: as what a user says, by the tokenizer's chat
 * template. Class data if it has no tokens or too many. */
int bn_prompts_add(struct bn_prompts *p, const char *text, bool chat,
                   struct bn_err *err);
/* Rows of a file ("-": standard input), each an object with one of
 *   prompt    text, with the tokenizer's special tokens (BOS) added
 *   messages  a chat, rendered with 'tools' and 'chat_template_kwargs' if
 *             there, and with what begins an answer
 *   ids       token ids as they are
 * Other members are left alone; empty lines too. Errors name file and line.
 */
int bn_prompts_read(struct bn_prompts *p, const char *file,
                    struct bn_err *err);

/* Give every rank the prompts of rank 0. Collective. */
int bn_prompts_share(struct bn_prompts *p, struct bn_comm *world,
                     struct bn_err *err);

#endif
