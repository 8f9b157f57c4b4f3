/* Where each assistant turn ends up in a rendered conversation.
 *
 * Mostly by prefixes: the text of the messages before a turn, with a
 * generation prompt, and the text up to its end begin the whole. Templates
 * that render earlier turns anew (those that drop the reasoning of all turns
 * but the last do) break one or both prefixes. Then the turn's content is
 * replaced by two marks that have nothing in common, and what the renderings
 * share tells where it stands:
 *
 *   whole   ...<user>Q</s><assistant>ANSWER</s><user>...
 *   marked  ...<user>Q</s><assistant>MARK</s><user>...
 *
 * The turn begins behind the last generation prompt before the content, and
 * the end-of-turn mark is what stands behind the content where the turn is
 * the last one.
 */
#include "config.h"
#include "text/chat.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static const char *const marks[2] = {"Qz7marked7zQ", "Xw4settled4wX"};

static bool starts(const char *s, size_t n, const struct bn_str *prefix)
{
    return prefix->len <= n
           && (prefix->len == 0 || memcmp(s, prefix->s, prefix->len) == 0);
}

static size_t shared_front(const struct bn_str *a, const struct bn_str *b)
{
    size_t n = 0;

    while (n < a->len && n < b->len && a->s[n] == b->s[n])
        n++;
    return n;
}

static size_t shared_back(const struct bn_str *a, const struct bn_str *b)
{
    size_t n = 0;

    while (n < a->len && n < b->len
           && a->s[a->len - 1 - n] == b->s[b->len - 1 - n])
        n++;
    return n;
}

/* Length of s[0..n) without white space at its end. */
static size_t stripped(const char *s, size_t n)
{
    return ju_strip(jv_str(s, n), JU_RIGHT, NULL).n;
}

static void set_span(struct bn_span *span, size_t begin, size_t end)
{
    *span = (struct bn_span){begin, end < begin ? begin : end};
}

/* The renderings that tell about turn 'i'. */
struct turn {
    const struct bn_chat *c;
    const struct bn_chat_args *args;
    size_t i;
    struct bn_str whole;     /* the conversation */
    struct bn_str bare;      /* the messages before the turn */
    struct bn_str before;    /* and a generation prompt */
    struct bn_str after;     /* up to the turn */
    struct bn_str marked[2]; /* the conversation with marks */
    struct bn_str last[2];   /* up to the turn, with marks */
};

static void turn_release(struct turn *t)
{
    bn_str_release(&t->bare);
    bn_str_release(&t->before);
    bn_str_release(&t->after);
    for (int k = 0; k < 2; k++) {
        bn_str_release(&t->marked[k]);
        bn_str_release(&t->last[k]);
    }
}

static int lost(const struct turn *t, const char *why, struct bn_err *err)
{
    return bn_fail(err, BN_ERR_DATA, "%s: cannot tell what the assistant "
                   "wrote in message %zu: %s (use a template with generation "
                   "blocks, or the last turn only)", t->c->name, t->i, why);
}

/* The first rule; 1: it does not hold. */
static int by_prefixes(struct turn *t, struct bn_span *span,
                       struct bn_err *err)
{
    if (jx_render(t->c, t->args, t->i, true, &t->before, NULL, NULL, err) < 0
        || jx_render(t->c, t->args, t->i + 1, false, &t->after, NULL, NULL,
                     err) < 0)
        return -1;
    if (!starts(t->whole.s, t->whole.len, &t->before)
        || !starts(t->whole.s, t->whole.len, &t->after))
        return 1;
    set_span(span, t->before.len, t->after.len);
    return 0;
}

/* The first 'n' messages, the content of message 'i' replaced. */
static int render_with(const struct turn *t, size_t i, const char *content,
                       size_t n, struct bn_str *out, struct bn_err *err)
{
    struct bn_chat_args a = *t->args;
    json_t *all = json_copy((json_t *)a.messages);
    json_t *one = json_copy(json_array_get(all, i));
    int rc;

    json_object_set_new(one, "content", json_string(content));
    json_array_set_new(all, i, one);
    a.messages = all;
    rc = jx_render(t->c, &a, n, false, out, NULL, NULL, err);
    json_decref(all);
    return rc;
}

static int render_marked(struct turn *t, struct bn_err *err)
{
    size_t n = json_array_size(t->args->messages);

    for (int k = 0; k < 2; k++)
        if (render_with(t, t->i, marks[k], n, &t->marked[k], err) < 0
            || render_with(t, t->i, marks[k], t->i + 1, &t->last[k], err) < 0)
            return -1;
    return jx_render(t->c, t->args, t->i, false, &t->bare, NULL, NULL, err);
}

/* Behind the last generation prompt in the first 'n' bytes of the whole;
 * 0: it is not there. */
static size_t behind_prompt(const struct turn *t, size_t n)
{
    size_t len = t->before.len - t->bare.len;
    const char *prompt = t->before.s + t->bare.len;

    if (t->before.len <= t->bare.len
        || !starts(t->before.s, t->before.len, &t->bare))
        return 0;
    for (size_t at = n; at >= len; at--)
        if (memcmp(t->whole.s + at - len, prompt, len) == 0)
            return at;
    return 0;
}

/* A mark stands once, and behind 'from': whatever else a template makes of
 * the content, it does not repeat it or move it to the front. */
static bool mark_once(const struct bn_str *s, int k, size_t from)
{
    size_t n = strlen(marks[k]);
    const char *at = memmem(s->s, s->len, marks[k], n);

    return at != NULL && (size_t)(at - s->s) >= from
           && memmem(at + n, s->len - (size_t)(at + n - s->s), marks[k], n)
                  == NULL;
}

/* True if the content of the message before the turn ends at or before byte
 * 'begin' of the whole: what stands there is this turn then. */
static int behind_previous(struct turn *t, size_t begin, struct bn_err *err)
{
    struct bn_str *s = &t->after;
    size_t n = strlen(marks[0]);
    const char *at;

    if (t->i == 0)
        return 0;
    bn_str_clear(s);
    if (render_with(t, t->i - 1, marks[0], json_array_size(t->args->messages),
                    s, err) < 0)
        return -1;
    at = memmem(s->s, s->len, marks[0], n);
    size_t left = at != NULL ? (size_t)(s->s + s->len - at) - n : s->len + 1;
    return left <= t->whole.len && t->whole.len - left <= begin
               ? 0
               : lost(t, "the message before it cannot be found", err);
}

/* Where the turn begins, behind a generation prompt. */
static int find_begin(struct turn *t, size_t *begin, struct bn_err *err)
{
    const struct bn_str *w = &t->whole;
    /* Where the content begins: one of the marks may begin as it does. */
    size_t content = shared_front(w, &t->marked[0]);
    size_t other = shared_front(w, &t->marked[1]);
    bool plain = starts(w->s, w->len, &t->before);

    if (other < content)
        content = other;
    *begin = plain ? t->before.len : behind_prompt(t, content);
    if (*begin == 0 || *begin > content)
        return lost(t, "no generation prompt stands before it", err);
    for (int k = 0; k < 2; k++)
        if (!mark_once(&t->marked[k], k, *begin)
            || !mark_once(&t->last[k], k, 0))
            return lost(t, "the template does not render its content once "
                        "and as it is", err);
    return plain ? 0 : behind_previous(t, *begin, err);
}

/* Length of the end of a turn, s[0..n), where the turn is the last one,
 * without the EOS that some templates put behind a whole conversation. */
static size_t without_eos(const struct turn *t, const char *s, size_t n)
{
    const char *eos = t->args->eos_token;
    size_t len = eos != NULL ? strlen(eos) : 0;

    return len < n && memcmp(s + n - len, eos != NULL ? eos : "", len) == 0
               ? n - len
               : n;
}

/* Where it ends. What both renderings with marks share at their back is what
 * follows the content; of that the end-of-turn mark is the turn's, and the
 * white space behind it where other messages follow that too. */
static int find_end(struct turn *t, size_t *end, struct bn_err *err)
{
    const struct bn_str *w = &t->whole, *m = &t->marked[0], *l = &t->last[0];
    size_t back = shared_back(m, &t->marked[1]);
    size_t last = shared_back(l, &t->last[1]), own = 0;
    const char *mark = l->s + l->len - last, *there = m->s + m->len - back;

    while (own < last && own < back && mark[own] == there[own])
        own++;
    if (own < stripped(mark, last)) {
        last = without_eos(t, mark, last);
        own = own < last ? own : last;
    }
    if (own < stripped(mark, last))
        return lost(t, "it ends otherwise where other messages follow", err);
    back -= own;
    if (back > w->len
        || memcmp(w->s + w->len - back, m->s + m->len - back, back) != 0)
        return lost(t, "what follows it depends on it", err);
    *end = w->len - back;
    return 0;
}

static int by_marks(struct turn *t, struct bn_span *span, struct bn_err *err)
{
    size_t begin = 0, end = 0;

    if (render_marked(t, err) < 0 || find_begin(t, &begin, err) < 0
        || find_end(t, &end, err) < 0)
        return -1;
    set_span(span, begin, end);
    return 0;
}

/* Where message 'i' of the whole text (s, n) stands, relative to 's'. */
static int locate(const struct bn_chat *c, const struct bn_chat_args *args,
                  size_t i, char *s, size_t n, struct bn_span *span,
                  struct bn_err *err)
{
    struct turn t = {.c = c, .args = args, .i = i,
                     .whole = {.s = s, .len = n}};
    int rc = by_prefixes(&t, span, err);

    if (rc > 0)
        rc = by_marks(&t, span, err);
    turn_release(&t);
    return rc;
}

static bool is_assistant(const struct bn_chat_args *args, size_t i)
{
    const char *role = json_string_value(
        json_object_get(json_array_get(args->messages, i), "role"));

    return role != NULL && strcmp(role, "assistant") == 0;
}

/* Assistant turns from message 'from' on. */
static int locate_all(const struct bn_chat *c,
                      const struct bn_chat_args *args, size_t from,
                      struct bn_str *out, struct bn_span **spans,
                      size_t *nspans, struct bn_err *err)
{
    size_t base = out->len, n = json_array_size(args->messages), cap = 0;
    struct bn_span *v = NULL;
    size_t k = 0;

    if (bn_chat_render(c, args, out, NULL, NULL, err) < 0)
        return -1;
    for (size_t i = from; i < n; i++) {
        if (!is_assistant(args, i))
            continue;
        bn_grow(&v, &cap, k + 1, sizeof(*v));
        if (locate(c, args, i, out->s + base, out->len - base, &v[k], err)
            < 0) {
            free(v);
            out->len = base;
            out->s[base] = '\0';
            return -1;
        }
        v[k].begin += base;
        v[k++].end += base;
    }
    *spans = v;
    *nspans = k;
    return 0;
}

int bn_chat_assistant_spans(const struct bn_chat *c,
                            const struct bn_chat_args *args,
                            struct bn_str *out, struct bn_span **spans,
                            size_t *nspans, struct bn_err *err)
{
    return locate_all(c, args, 0, out, spans, nspans, err);
}

int bn_chat_last_assistant_span(const struct bn_chat *c,
                                const struct bn_chat_args *args,
                                struct bn_str *out, struct bn_span **spans,
                                size_t *nspans, struct bn_err *err)
{
    size_t i = json_array_size(args->messages);

    while (i > 0 && !is_assistant(args, i - 1))
        i--;
    return locate_all(c, args, i > 0 ? i - 1 : 0, out, spans, nspans, err);
}
