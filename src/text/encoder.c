/* Text to ids: added tokens, normalizer, words, merges, post-processor. */
#include "config.h"
#include "base/mem.h"
#include "text/encoder_impl.h"
#include "text/simd.h"

#include <stdlib.h>
#include <string.h>

struct bn_encoder *bn_encoder_create(const struct bn_tokenizer *t)
{
    struct bn_encoder *e = BN_NEW(struct bn_encoder);

    e->t = t;
    e->classes = bn_uclass_table();
    e->matcher = bn_matcher_create();
    e->hot = &bn_hot_plain;
#ifdef BN_HAVE_V3
    if (bn_has_v3())
        e->hot = &bn_hot_v3;
#endif
    bn_wordcache_init(&e->cache, t->nid > 65536);
    return e;
}

void bn_encoder_destroy(struct bn_encoder *e)
{
    if (e == NULL)
        return;
    bn_wordcache_release(&e->cache);
    bn_matcher_destroy(e->matcher);
    bn_bpe_work_release(&e->work);
    bn_pieces_release(&e->pieces);
    bn_str_release(&e->norm[0]);
    bn_str_release(&e->norm[1]);
    bn_str_release(&e->first);
    bn_str_release(&e->marked);
    free(e);
}

static void encode_scan(struct bn_encoder *e, const char *s, size_t n)
{
    /* The space that some tokenizers put in front joins the first word. */
    if (e->t->scan_prefix && n > 0 && *s != ' ') {
        bn_str_clear(&e->first);
        bn_str_addc(&e->first, ' ');
        bn_str_add(&e->first, s, n);
        s = e->first.s;
        n = e->first.len;
    }
    e->hot->scan(e, s, n);
}

/* BN_PLAN_MARKS: the first word with the mark that is put before it. */
static void encode_marks(struct bn_encoder *e, const char *s, size_t n,
                         bool zero)
{
    const struct bn_tokenizer *t = e->t;
    const char *end = s + n;
    bool marked = t->prepend_plain || bn_mark_at(s, end, true) > 0;
    bool more = !marked
                && (t->prepend == BN_PREPEND_ALWAYS
                    || (t->prepend == BN_PREPEND_FIRST && zero));

    if (t->prepend_plain || more) {
        const char *next = s;

        /* With a mark in front, a text that begins with marks begins with
         * one mark more, one that begins with a line break has two words. */
        if (!(t->lines && *s == '\n') && !(t->each && bn_mark_at(s, end, true)))
            next = bn_mark_word(t, s, end, true);
        bn_str_clear(&e->first);
        bn_str_addc(&e->first, ' ');
        bn_str_add(&e->first, s, (size_t)(next - s));
        e->hot->word(e, e->first.s, e->first.len);
        s = next;
    }
    e->hot->mark(e, s, (size_t)(end - s), true);
}

/* A text between added tokens, normalized unless the plan does that. */
static int encode_text(struct bn_encoder *e, const char *s, size_t n,
                       bool zero, struct bn_err *err)
{
    const struct bn_tokenizer *t = e->t;
    struct bn_pieces *w = &e->pieces;

    if (n == 0)
        return 0;
    if (t->plan == BN_PLAN_SCAN) {
        encode_scan(e, s, n);
        return 0;
    }
    if (t->plan == BN_PLAN_MARKS) {
        encode_marks(e, s, n, zero);
        return 0;
    }
    if (bn_pretok_run(&t->pretok, t->nstep, e->matcher, s, n, zero, w, err)
        < 0)
        return -1;
    for (size_t i = 0; i < w->n; i++) {
        const char *p = w->text + w->v[i].b;
        size_t len = w->v[i].e - w->v[i].b;

        if (t->marks)
            e->hot->mark(e, p, len, false);
        else
            e->hot->word(e, p, len);
    }
    return 0;
}

static void put_added(struct bn_encoder *e, int32_t token)
{
    bn_emit(&e->out, &e->t->added[token].id, 1);
}

/* A text between tokens that are found before normalizing. */
static int encode_section(struct bn_encoder *e, const char *s, size_t n,
                          bool zero, struct bn_err *err)
{
    const struct bn_tokenizer *t = e->t;
    size_t at = 0, from = 0, b, end, cut = 0;
    int32_t token;

    if (n == 0)
        return 0;
    if (t->plan != BN_PLAN_MARKS
        && bn_normalize(&t->norm, e->matcher, s, n, e->norm, &s, &n, &cut,
                        err) < 0)
        return -1;
    while (bn_added_next(&t->normal, t->added, s, n, at, &from, &b, &end,
                         &token)) {
        if (b > at
            && encode_text(e, s + at, b - at, zero && cut == 0 && at == 0,
                           err) < 0)
            return -1;
        put_added(e, token);
        at = end;
    }
    return at < n ? encode_text(e, s + at, n - at,
                                zero && cut == 0 && at == 0, err)
                  : 0;
}

static int encode_raw(struct bn_encoder *e, const char *s, size_t n,
                      struct bn_err *err)
{
    size_t at = 0, from = 0, b, end;
    int32_t token;

    while (bn_added_next(&e->t->raw, e->t->added, s, n, at, &from, &b, &end,
                         &token)) {
        if (b > at && encode_section(e, s + at, b - at, at == 0, err) < 0)
            return -1;
        put_added(e, token);
        at = end;
    }
    return at < n ? encode_section(e, s + at, n - at, at == 0, err) : 0;
}

int bn_encode(struct bn_encoder *e, const char *text, size_t len,
              bool add_special, struct bn_ids *out, struct bn_err *err)
{
    const struct bn_tokenizer *t = e->t;
    size_t good = bn_text_check(text, len);
    int rc;

    if (good < len)
        return bn_fail(err, BN_ERR_DATA, "text is not UTF-8 at byte %zu "
                       "(0x%02x)", good, (unsigned char)text[good]);
    if (len >= INT32_MAX)
        return bn_fail(err, BN_ERR_DATA, "a text of %zu bytes is too long "
                       "(2 GiB)", len);
    e->out = *out;
    if (add_special)
        bn_emit(&e->out, t->before.v, t->before.n);
    rc = encode_raw(e, text, len, err);
    if (rc == 0 && add_special)
        bn_emit(&e->out, t->after.v, t->after.n);
    if (rc < 0)
        e->out.n = out->n;
    *out = e->out;
    return rc;
}
