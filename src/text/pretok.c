/* Running pre-tokenizer steps. */
#include "config.h"
#include "text/pretok.h"
#include "base/mem.h"
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

void bn_pieces_release(struct bn_pieces *w)
{
    free(w->v);
    free(w->spare);
    bn_str_release(&w->buf[0]);
    bn_str_release(&w->buf[1]);
    *w = (struct bn_pieces){0};
}

static void push(struct bn_pieces *w, size_t b, size_t e, bool zero)
{
    if (b == e)
        return;
    bn_grow(&w->v, &w->cap, w->n + 1, sizeof(*w->v));
    w->v[w->n++] = (struct bn_piece){b, e, zero};
}

/* Ranges of a piece, each a match or a gap, under a behaviour. They are
 * taken one by one; 'open' is the one that may still grow. */
struct splitter {
    struct bn_pieces *w;
    size_t base; /* of the piece in the text */
    bool zero;
    enum bn_behavior behavior;
    bool have, last_match;
    size_t b, e;
};

static void flush(struct splitter *k)
{
    if (k->have)
        push(k->w, k->base + k->b, k->base + k->e, k->zero && k->b == 0);
    k->have = false;
}

static void take(struct splitter *k, size_t b, size_t e, bool match)
{
    bool join = false;

    switch (k->behavior) {
    case BN_SPLIT_REMOVED:
        if (!match)
            push(k->w, k->base + b, k->base + e, k->zero && b == 0);
        return;
    case BN_SPLIT_ISOLATED:
        break;
    case BN_SPLIT_CONTIGUOUS:
        join = k->have && match == k->last_match;
        break;
    case BN_SPLIT_PREVIOUS:
        join = k->have && match && !k->last_match;
        break;
    case BN_SPLIT_NEXT:
        /* Read from the right, a match joins the gap that follows it. */
        join = k->have && k->last_match && !match;
        break;
    }
    k->last_match = match;
    if (join) {
        k->e = e;
        return;
    }
    flush(k);
    k->have = true;
    k->b = b;
    k->e = e;
}

static int split_piece(const struct bn_pretok_step *st, struct bn_matcher *m,
                       const char *s, const struct bn_piece *p,
                       struct bn_pieces *w, struct bn_err *err)
{
    struct splitter k = {.w = w, .base = p->b, .zero = p->zero,
                         .behavior = st->behavior};
    struct bn_match it = {0};
    size_t n = p->e - p->b, at = 0;
    int rc;

    for (;;) {
        rc = bn_pattern_next(&st->pattern, m, s + p->b, n, &it, err);
        if (rc <= 0)
            break;
        if (at < it.b)
            take(&k, at, it.b, st->invert);
        take(&k, it.b, it.e, !st->invert);
        at = it.e;
    }
    if (at < n)
        take(&k, at, n, st->invert);
    flush(&k);
    return rc;
}

static void scan_piece(enum bn_scan kind, const char *s,
                       const struct bn_piece *p, struct bn_pieces *w)
{
    const struct bn_uclass_table *t = bn_uclass_table();
    const char *at = s + p->b, *end = s + p->e;

    while (at < end) {
        const char *next = bn_scan_next(kind, t, at, end);

        push(w, (size_t)(at - s), (size_t)(next - s),
             p->zero && at == s + p->b);
        at = next;
    }
}

static bool begins(const char *s, size_t n, const char *with, size_t nwith)
{
    return n >= nwith && memcmp(s, with, nwith) == 0;
}

/* ' ' to the mark, and a mark in front; cut before each mark if asked. */
static void metaspace(const struct bn_pretok_step *st, const char *s,
                      const struct bn_piece *p, struct bn_str *out,
                      struct bn_pieces *w)
{
    const char *mark = st->pattern.text;
    size_t nmark = st->pattern.len, from = out->len, cut;
    size_t n = p->e - p->b;
    bool marked = s[p->b] == ' ' || begins(s + p->b, n, mark, nmark);

    if (!marked
        && (st->prepend == BN_PREPEND_ALWAYS
            || (st->prepend == BN_PREPEND_FIRST && p->zero)))
        bn_str_add(out, mark, nmark);
    for (size_t i = p->b; i < p->e; i++) {
        if (s[i] == ' ')
            bn_str_add(out, mark, nmark);
        else
            bn_str_addc(out, s[i]);
    }
    cut = from;
    for (size_t i = from + 1; st->split && i < out->len; i++) {
        if (!begins(out->s + i, out->len - i, mark, nmark))
            continue;
        push(w, cut, i, p->zero && cut == from);
        cut = i;
    }
    push(w, cut, out->len, p->zero && cut == from);
}

/* Steps that rewrite a piece to 'out'. */
static void rewrite(const struct bn_pretok_step *st, const char *s,
                    const struct bn_piece *p, struct bn_str *out,
                    struct bn_pieces *w)
{
    size_t from = out->len;

    if (st->kind == BN_PRETOK_METASPACE) {
        metaspace(st, s, p, out, w);
        return;
    }
    if (st->kind == BN_PRETOK_BYTES) {
        bn_byte_names(out, s + p->b, p->e - p->b);
    } else {
        if (s[p->b] != ' ')
            bn_str_addc(out, ' ');
        bn_str_add(out, s + p->b, p->e - p->b);
    }
    push(w, from, out->len, p->zero);
}

static int run_step(const struct bn_pretok_step *st, struct bn_matcher *m,
                    struct bn_pieces *w, struct bn_str *out,
                    struct bn_err *err)
{
    struct bn_piece *in = w->v;
    size_t nin = w->n, cap = w->cap;
    const char *s = w->text;
    int rc = 0;

    w->v = w->spare;
    w->cap = w->spare_cap;
    w->spare = in;
    w->spare_cap = cap;
    w->n = 0;
    bn_str_clear(out);
    for (size_t i = 0; rc == 0 && i < nin; i++) {
        if (st->kind != BN_PRETOK_SPLIT)
            rewrite(st, s, &in[i], out, w);
        else if (st->scan != BN_SCAN_NONE)
            scan_piece(st->scan, s, &in[i], w);
        else
            rc = split_piece(st, m, s, &in[i], w, err);
    }
    if (st->kind != BN_PRETOK_SPLIT)
        w->text = out->s;
    return rc;
}

int bn_pretok_run(const struct bn_pretok *p, size_t nstep,
                  struct bn_matcher *m, const char *s, size_t n, bool zero,
                  struct bn_pieces *w, struct bn_err *err)
{
    int to = 0;

    w->n = 0;
    w->text = s;
    push(w, 0, n, zero);
    for (size_t i = 0; i < nstep && w->n > 0; i++) {
        if (run_step(&p->step[i], m, w, &w->buf[to], err) < 0)
            return -1;
        if (p->step[i].kind != BN_PRETOK_SPLIT)
            to = !to;
    }
    return 0;
}
