#include "config.h"
#include "train/gen_text.h"

#include "base/mem.h"

#include <string.h>

/* Tokens of the prompt that can change how the next ones are decoded, and
 * tokens that a character may be cut into but for its first. */
enum { CONTEXT = 8, CUT = 3 };

/* U+FFFD: what bytes that are no character are decoded to */
#define BROKEN "\xef\xbf\xbd"

static int decode(const struct bn_gen_text *x, size_t from, size_t to,
                  struct bn_str *out, struct bn_err *err)
{
    bn_str_clear(out);
    return bn_decode(x->t, x->ids.v + from, to - from, true, out, err);
}

/* A model may have more ids than its tokenizer: they have no text. */
static void add_id(struct bn_gen_text *x, int32_t id)
{
    if (bn_tokenizer_token(x->t, id) == NULL)
        return;
    bn_grow(&x->ids.v, &x->ids.cap, x->ids.n + 1, sizeof(*x->ids.v));
    x->ids.v[x->ids.n++] = id;
}

static bool starts_broken(const struct bn_str *s, size_t at)
{
    return s->len >= at + 3 && memcmp(s->s + at, BROKEN, 3) == 0;
}

int bn_gen_text_begin(struct bn_gen_text *x, const int32_t *prompt, size_t n,
                      struct bn_err *err)
{
    size_t take = n < CONTEXT ? n : CONTEXT, most = take + CUT;

    bn_str_clear(&x->text);
    x->ready = x->base = 0;
    x->found = -1;
    for (;; take++) { /* not from the middle of a character */
        x->ids.n = 0;
        for (size_t i = n - take; i < n; i++)
            add_id(x, prompt[i]);
        if (decode(x, 0, x->ids.n, &x->context, err) < 0)
            return -1;
        if (take == n || take == most || !starts_broken(&x->context, 0))
            break;
    }
    x->done = x->ids.n;
    return 0;
}

/* Whole characters that both begin with. */
static size_t common(const struct bn_str *a, const struct bn_str *b)
{
    size_t n = 0;

    while (n < a->len && n < b->len && a->s[n] == b->s[n])
        n++;
    while (n > 0 && n < b->len && (b->s[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* The first stop string in the text from byte 'from' on ends it. */
static void find_stop(struct bn_gen_text *x, size_t from)
{
    size_t end = x->text.len;

    for (size_t i = 0; i < x->nstop; i++) {
        size_t len = strlen(x->stop[i]);
        size_t at = from > len - 1 ? from - (len - 1) : 0;
        const char *hit = at < x->text.len
                              ? memmem(x->text.s + at, x->text.len - at,
                                       x->stop[i], len)
                              : NULL;

        if (hit != NULL && (size_t)(hit - x->text.s) < end) {
            end = (size_t)(hit - x->text.s);
            x->found = (int)i;
        }
    }
    if (x->found >= 0) {
        x->text.len = end;
        x->text.s[end] = '\0';
    }
}

/* Bytes at the end of the text that may be the beginning of a stop string. */
static size_t doubtful(const struct bn_gen_text *x)
{
    size_t most = 0;

    for (size_t i = 0; i < x->nstop; i++) {
        size_t n = strlen(x->stop[i]) - 1;

        if (n > x->text.len)
            n = x->text.len;
        while (n > most
               && memcmp(x->text.s + x->text.len - n, x->stop[i], n) != 0)
            n--;
        most = n > most ? n : most;
    }
    return most;
}

/* Where in x->next the text begins that x->context did not have. Tokens that
 * stand for bytes are decoded a run at a time: when one spoils the run, each
 * byte of characters given before comes again as U+FFFD. */
static size_t news(const struct bn_gen_text *x)
{
    size_t at = common(&x->context, &x->next);

    for (size_t n = x->context.len - at;
         n > 0 && starts_broken(&x->next, at); n--)
        at += 3;
    return at;
}

/* Take what the tokens after x->done add; 'last': whole or not. */
static int advance(struct bn_gen_text *x, bool last, struct bn_err *err)
{
    size_t from = x->text.len;

    if (decode(x, x->base, x->ids.n, &x->next, err) < 0)
        return -1;
    size_t at = news(x);
    bool cut = x->next.len >= 3 && starts_broken(&x->next, x->next.len - 3);
    if (x->next.len == at || (cut && !last))
        return 0;
    bn_str_add(&x->text, x->next.s + at, x->next.len - at);
    x->base = x->done;
    x->done = x->ids.n;
    find_stop(x, from);
    return decode(x, x->base, x->done, &x->context, err);
}

int bn_gen_text_add(struct bn_gen_text *x, int32_t id, struct bn_err *err)
{
    add_id(x, id);
    if (advance(x, false, err) < 0)
        return -1;
    x->ready = x->text.len - (x->found < 0 ? doubtful(x) : 0);
    return 0;
}

int bn_gen_text_end(struct bn_gen_text *x, struct bn_err *err)
{
    if (x->found < 0 && x->done < x->ids.n && advance(x, true, err) < 0)
        return -1;
    x->ready = x->text.len;
    return 0;
}

void bn_gen_text_release(struct bn_gen_text *x)
{
    bn_str_release(&x->text);
    bn_str_release(&x->context);
    bn_str_release(&x->next);
    bn_ids_release(&x->ids);
    *x = (struct bn_gen_text){0};
}
