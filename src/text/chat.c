/* Chat templates: from the engine to what the rest of Burnish asks for. */
#include "config.h"
#include "text/chat.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Copy the source with every line end as \n, less one at the end, as Jinja
 * does. */
static void copy_source(struct bn_chat *c, const char *s)
{
    size_t n = 0;

    c->src = jarena_get(&c->mem, strlen(s) + 1);
    for (; *s != '\0'; s++) {
        if (*s == '\r') {
            c->src[n++] = '\n';
            s += s[1] == '\n';
        } else {
            c->src[n++] = *s;
        }
    }
    if (n > 0 && c->src[n - 1] == '\n')
        n--;
    c->src[n] = '\0';
    c->len = n;
}

static int check_source(const struct bn_chat *c, struct bn_err *err, ...)
{
    size_t bad = bn_utf8_check(c->src, c->len);
    va_list none;
    int rc = 0;

    va_start(none, err);
    if (bad < c->len)
        rc = jx_fail_at(c, (uint32_t)bad, err, "not UTF-8", none);
    va_end(none);
    return rc;
}

struct bn_chat *bn_chat_create(const char *source, const char *name,
                               struct bn_err *err)
{
    struct bn_chat *c;

    if (strlen(source) > JX_MAX_SOURCE) {
        bn_fail(err, BN_ERR_DATA, "%s: template too large (over %d MiB)",
                name, JX_MAX_SOURCE >> 20);
        return NULL;
    }
    c = BN_NEW(struct bn_chat);
    c->name = bn_strdup(name);
    copy_source(c, source);
    c->loop = jintern(c, "loop", 4);
    c->caller = jintern(c, "caller", 6);
    c->varargs = jintern(c, "varargs", 7);
    c->kwargs = jintern(c, "kwargs", 6);
    if (check_source(c, err) < 0 || jparse(c, err) < 0) {
        bn_chat_destroy(c);
        return NULL;
    }
    return c;
}

void bn_chat_destroy(struct bn_chat *c)
{
    if (c == NULL)
        return;
    jarena_release(&c->mem);
    free(c->name);
    free(c);
}

bool bn_chat_uses_clock(const struct bn_chat *c)
{
    return c->uses_clock;
}

bool bn_chat_marks_generation(const struct bn_chat *c)
{
    return c->marks_generation;
}

/* Render the first 'n' messages. */
static int render(const struct bn_chat *c, const struct bn_chat_args *args,
                  size_t n, bool prompt, struct bn_str *out,
                  struct bn_span **spans, size_t *nspans, struct bn_err *err)
{
    struct jx x = {.c = c, .err = err, .args = args, .nmessages = n,
                   .generation_prompt = prompt, .out = out,
                   .base = out->len};
    int flow = JFLOW_ON, rc;

    if (!json_is_array(args->messages))
        return bn_fail(err, BN_ERR_DATA, "%s: messages must be an array",
                       c->name);
    x.frame = jx_push(&x, NULL);
    rc = jx_run(&x, c->body, &flow);
    jarena_release(&x.mem);
    if (rc < 0) {
        out->len = x.base;
        if (out->s != NULL)
            out->s[out->len] = '\0';
    }
    if (rc < 0 || spans == NULL) {
        free(x.span);
        return rc;
    }
    *spans = x.span;
    *nspans = x.nspan;
    return 0;
}

int bn_chat_render(const struct bn_chat *c, const struct bn_chat_args *args,
                   struct bn_str *out, struct bn_span **spans,
                   size_t *nspans, struct bn_err *err)
{
    return render(c, args, json_array_size(args->messages),
                  args->add_generation_prompt, out, spans, nspans, err);
}

static bool starts(const char *s, size_t n, const struct bn_str *prefix)
{
    return prefix->len <= n
           && (prefix->len == 0 || memcmp(s, prefix->s, prefix->len) == 0);
}

/* Where message 'i' of the whole text (s, n) stands, relative to 's'. */
static int locate(const struct bn_chat *c, const struct bn_chat_args *args,
                  size_t i, const char *s, size_t n, struct bn_span *span,
                  struct bn_err *err)
{
    struct bn_str before = {0}, after = {0};
    int rc = -1;

    if (render(c, args, i, true, &before, NULL, NULL, err) < 0
        || render(c, args, i + 1, false, &after, NULL, NULL, err) < 0)
        goto out;
    if (!starts(s, n, &before)) {
        bn_fail(err, BN_ERR_DATA, "%s: cannot tell what the assistant wrote "
                "in message %zu: the text before it with a generation prompt "
                "is not what it follows in the whole conversation", c->name,
                i);
        goto out;
    }
    if (!starts(s, n, &after)) {
        bn_fail(err, BN_ERR_DATA, "%s: cannot tell what the assistant wrote "
                "in message %zu: later messages change how the template "
                "renders it (use a template with generation blocks, or the "
                "last turn only)", c->name, i);
        goto out;
    }
    struct jv text = jv_str(s, after.len);
    span->end = ju_strip(text, JU_RIGHT, NULL).n;
    span->begin = before.len;
    if (span->end < span->begin)
        span->end = span->begin;
    rc = 0;
out:
    bn_str_release(&before);
    bn_str_release(&after);
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
