/* Text to ids: added tokens, normalizer, words, merges, post-processor. */
#include "config.h"
#include "base/mem.h"
#include "text/tokenizer_impl.h"
#include "text/wordcache.h"

#include <stdlib.h>
#include <string.h>

struct bn_encoder {
    const struct bn_tokenizer *t;
    const struct bn_uclass_table *classes;
    struct bn_wordcache cache;
    struct bn_matcher *matcher;
    struct bn_bpe_work work;
    struct bn_pieces pieces;
    struct bn_str norm[2];
    struct bn_str first;  /* a text's first word with its mark */
    struct bn_str marked; /* a word with its spaces as marks */
    struct bn_ids *out;
};

enum { SLACK = 16 }; /* ids that may be written behind the last */

struct bn_encoder *bn_encoder_create(const struct bn_tokenizer *t)
{
    struct bn_encoder *e = BN_NEW(struct bn_encoder);

    e->t = t;
    e->classes = bn_uclass_table();
    e->matcher = bn_matcher_create();
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

static void reserve(struct bn_ids *out, size_t more)
{
    bn_grow(&out->v, &out->cap, out->n + more + SLACK, sizeof(int32_t));
}

static void emit(struct bn_ids *out, const void *ids, size_t n)
{
    reserve(out, n);
    if (n > 0)
        memcpy(out->v + out->n, ids, n * sizeof(int32_t));
    out->n += n;
}

/* A word the cache does not know: merge, remember, emit. */
static __attribute__((noinline)) void new_word(struct bn_encoder *e,
                                               const char *w, size_t n)
{
    const char *s = w;
    size_t len = n;

    if (e->t->plan == BN_PLAN_MARKS) {
        bn_str_clear(&e->marked);
        for (size_t i = 0; i < n; i++) {
            if (w[i] == ' ')
                bn_str_adds(&e->marked, BN_MARK);
            else
                bn_str_addc(&e->marked, w[i]);
        }
        s = e->marked.s;
        len = e->marked.len;
    }
    bn_bpe_word(&e->t->bpe, &e->work, s, len, e->t->bytes);
    if (n <= BN_WORD_LONG)
        bn_wordcache_put(&e->cache, w, n, e->work.sym, e->work.n);
    emit(e->out, e->work.sym, e->work.n);
}

static __attribute__((noinline)) void long_word(struct bn_encoder *e,
                                                const char *w, size_t n)
{
    size_t nid;
    const int32_t *ids = n <= BN_WORD_LONG
                             ? bn_wordcache_long(&e->cache, w, n, &nid)
                             : NULL;

    if (ids == NULL)
        new_word(e, w, n);
    else
        emit(e->out, ids, nid);
}

/* The ids of a slot, at most SLACK of them, to 'v'. */
static inline void slot_ids(const struct bn_wordcache *c,
                            const struct bn_word_slot *s, int32_t *v)
{
    if (c->wide) {
        memcpy(v, s->ids, 28);
        return;
    }
    for (int i = 0; i < 15; i++) {
        uint16_t id;

        memcpy(&id, s->ids + 2 * i, 2);
        v[i] = id;
    }
}

/* The ids of the word at w; 'room' bytes may be read there. */
static inline void put_word(struct bn_encoder *e, const char *w, size_t n,
                            size_t room)
{
    const struct bn_word_slot *s;
    struct bn_ids *out = e->out;

    if (__builtin_expect(n > BN_WORD_KEY, 0)) {
        long_word(e, w, n);
        return;
    }
    struct bn_word_key k = bn_word_key(w, n, room);
    s = bn_wordcache_get(&e->cache, &k, n);
    if (__builtin_expect(s == NULL, 0)) {
        new_word(e, w, n);
        return;
    }
    if (__builtin_expect(s->n == BN_WORD_SPILT, 0)) {
        size_t nid;
        const int32_t *ids = bn_word_spilt(&e->cache, s, &nid);

        emit(out, ids, nid);
        return;
    }
    if (__builtin_expect(out->n + SLACK > out->cap, 0))
        reserve(out, 4096);
    slot_ids(&e->cache, s, out->v + out->n);
    out->n += s->n;
}

static inline __attribute__((always_inline)) void
scan_words(struct bn_encoder *e, enum bn_scan kind, const char *s, size_t n)
{
    const char *end = s + n;

    while (s < end) {
        const char *next = bn_scan_next(kind, e->classes, s, end);

        put_word(e, s, (size_t)(next - s), (size_t)(end - s));
        s = next;
    }
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
    switch (e->t->scan) {
    case BN_SCAN_GPT2:
        scan_words(e, BN_SCAN_GPT2, s, n);
        break;
    case BN_SCAN_LLAMA3:
        scan_words(e, BN_SCAN_LLAMA3, s, n);
        break;
    default:
        scan_words(e, BN_SCAN_QWEN2, s, n);
        break;
    }
}

/* Length of the mark (or space, where it stands for one) at s; 0: none. */
static inline size_t mark_at(const char *s, const char *end, bool spaces)
{
    if (*s == ' ')
        return spaces;
    return end - s >= 3 && memcmp(s, BN_MARK, 3) == 0 ? 3 : 0;
}

/* The end of the word at s: before the next mark that follows another
 * character, or beside a line break. */
static const char *mark_word(const struct bn_tokenizer *t, const char *s,
                             const char *end, bool spaces)
{
    bool lines = t->lines;
    size_t len;

    if (lines && *s == '\n')
        return s + 1;
    for (len = mark_at(s, end, spaces); len > 0 && s < end;) {
        s += len;
        if (s == end || t->each)
            break;
        len = mark_at(s, end, spaces);
    }
    while (s < end && mark_at(s, end, spaces) == 0 && !(lines && *s == '\n'))
        s++;
    return s;
}

static void mark_words(struct bn_encoder *e, const char *s, size_t n,
                       bool spaces)
{
    const char *end = s + n;

    while (s < end) {
        const char *next = mark_word(e->t, s, end, spaces);

        put_word(e, s, (size_t)(next - s), (size_t)(end - s));
        s = next;
    }
}

/* BN_PLAN_MARKS: the first word with the mark that is put before it. */
static void encode_marks(struct bn_encoder *e, const char *s, size_t n,
                         bool zero)
{
    const struct bn_tokenizer *t = e->t;
    const char *end = s + n;
    bool marked = t->prepend_plain || mark_at(s, end, true) > 0;
    bool more = !marked
                && (t->prepend == BN_PREPEND_ALWAYS
                    || (t->prepend == BN_PREPEND_FIRST && zero));

    if (t->prepend_plain || more) {
        const char *next = s;

        /* With a mark in front, a text that begins with marks begins with
         * one mark more, one that begins with a line break has two words. */
        if (!(t->lines && *s == '\n') && !(t->each && mark_at(s, end, true)))
            next = mark_word(t, s, end, true);
        bn_str_clear(&e->first);
        bn_str_addc(&e->first, ' ');
        bn_str_add(&e->first, s, (size_t)(next - s));
        put_word(e, e->first.s, e->first.len, e->first.len);
        s = next;
    }
    mark_words(e, s, (size_t)(end - s), true);
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
            mark_words(e, p, len, false);
        else
            put_word(e, p, len, len);
    }
    return 0;
}

static void put_added(struct bn_encoder *e, int32_t token)
{
    emit(e->out, &e->t->added[token].id, 1);
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
    size_t good = bn_utf8_check(text, len), n = out->n;

    if (good < len)
        return bn_fail(err, BN_ERR_DATA, "text is not UTF-8 at byte %zu "
                       "(0x%02x)", good, (unsigned char)text[good]);
    if (len >= INT32_MAX)
        return bn_fail(err, BN_ERR_DATA, "a text of %zu bytes is too long "
                       "(2 GiB)", len);
    e->out = out;
    reserve(out, len / 4);
    if (add_special)
        emit(out, t->before.v, t->before.n);
    if (encode_raw(e, text, len, err) < 0) {
        out->n = n;
        return -1;
    }
    if (add_special)
        emit(out, t->after.v, t->after.n);
    return 0;
}
