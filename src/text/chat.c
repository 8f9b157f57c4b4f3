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

int jx_render(const struct bn_chat *c, const struct bn_chat_args *args,
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
    jx_hide(&x, x.frame, c->hidden);
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
    return jx_render(c, args, json_array_size(args->messages),
                     args->add_generation_prompt, out, spans, nspans, err);
}
