/* Chat templates: messages to text, and which spans an assistant wrote.
 *
 * The template language is the part of Jinja that real templates use, with
 * the settings of transformers (trim_blocks, lstrip_blocks, loop controls,
 * the generation tag, tojson, raise_exception, strftime_now).
 */
#ifndef BN_TEXT_CHAT_H
#define BN_TEXT_CHAT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct bn_chat;

/* Parse a template. 'name' is for messages. Immutable afterwards and shared
 * by threads. NULL on failure: class data, "name:line:column: what". */
struct bn_chat *bn_chat_create(const char *source, const char *name,
                               struct bn_err *err);
void bn_chat_destroy(struct bn_chat *c);

/* Whether the template asks for today's date: its text then differs from
 * day to day, and must not be cached as if it did not. */
bool bn_chat_uses_clock(const struct bn_chat *c);
/* Whether the template has {% generation %} blocks. */
bool bn_chat_marks_generation(const struct bn_chat *c);

/* A half-open range of bytes in the rendered text. */
struct bn_span {
    size_t begin, end;
};

struct bn_chat_args {
    const json_t *messages;     /* array of {role, content, ...} */
    const json_t *tools;        /* array or NULL */
    const json_t *extra;        /* object of further variables or NULL */
    bool add_generation_prompt;
    /* special tokens as variables (bos_token, ...): NULL leaves undefined */
    const char *bos_token, *eos_token, *pad_token, *unk_token;
};

/* Render to 'out' (appended). spans: where {% generation %} blocks came out,
 * a malloc'ed array of '*nspans' for the caller to free; both may be NULL.
 * Limits on depth, iterations and output size turn a runaway template into
 * an error. On failure 'out' is as it was. Thread safe. */
int bn_chat_render(const struct bn_chat *c, const struct bn_chat_args *args,
                   struct bn_str *out, struct bn_span **spans,
                   size_t *nspans, struct bn_err *err);

/* Where each assistant message's content ends up, whether or not the
 * template marks generation blocks: found by rendering the messages up to
 * and without each assistant turn and comparing prefixes; where a template
 * renders earlier turns anew (without their reasoning, say), by rendering
 * with other content and comparing. An error if neither finds it. Malloc'ed
 * '*spans'.
 *
 * A span begins behind the generation prompt; it reaches to the end of the
 * turn, the template's end-of-turn mark and the line break behind it included,
 * as in the generation blocks that TRL puts into such templates. Costs two
 * renderings a turn, up to eight where the prefixes do not tell. */
int bn_chat_assistant_spans(const struct bn_chat *c,
                            const struct bn_chat_args *args,
                            struct bn_str *out, struct bn_span **spans,
                            size_t *nspans, struct bn_err *err);
/* The same for the last assistant turn alone (0 or 1 spans). */
int bn_chat_last_assistant_span(const struct bn_chat *c,
                                const struct bn_chat_args *args,
                                struct bn_str *out, struct bn_span **spans,
                                size_t *nspans, struct bn_err *err);

#endif
