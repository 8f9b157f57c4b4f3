/* Words that the hot path leaves to others, and the hot path in plain C. */
#include "config.h"
#include "text/hot.h"

void bn_emit(struct bn_ids *out, const void *ids, size_t n)
{
    bn_grow(&out->v, &out->cap, out->n + n + BN_IDS_SLACK, sizeof(int32_t));
    if (n > 0)
        memcpy(out->v + out->n, ids, n * sizeof(int32_t));
    out->n += n;
}

/* A word with its spaces as marks: itself, if it has none. */
static const char *with_marks(struct bn_encoder *e, const char *w, size_t *n)
{
    const char *end = w + *n, *space = memchr(w, ' ', *n);

    if (space == NULL)
        return w;
    bn_str_clear(&e->marked);
    for (; space != NULL; space = memchr(w, ' ', (size_t)(end - w))) {
        bn_str_add(&e->marked, w, (size_t)(space - w));
        bn_str_adds(&e->marked, BN_MARK);
        w = space + 1;
    }
    bn_str_add(&e->marked, w, (size_t)(end - w));
    *n = e->marked.len;
    return e->marked.s;
}

/* A word the cache does not know: merge, remember, emit. */
static void new_word(struct bn_encoder *e, size_t i, const char *w, size_t n)
{
    const char *s = w;
    size_t len = n;

    if (e->t->plan == BN_PLAN_MARKS)
        s = with_marks(e, w, &len);
    bn_bpe_word(&e->t->bpe, &e->work, s, len, e->t->bytes);
    if (n <= BN_WORD_LONG)
        bn_wordcache_put(&e->cache, i, w, n, e->work.sym, e->work.n);
    bn_emit(&e->out, e->work.sym, e->work.n);
}

void bn_slow_word(struct bn_encoder *e, size_t i, const char *w, size_t n,
                  const struct bn_word_slot *s)
{
    const int32_t *ids = NULL;
    size_t nid;

    if (s != NULL)
        ids = bn_word_spilt(&e->cache, s, &nid);
    else if (n > BN_WORD_KEY && n <= BN_WORD_LONG)
        ids = bn_wordcache_long(&e->cache, w, n, &nid);
    if (ids == NULL)
        new_word(e, i, w, n);
    else
        bn_emit(&e->out, ids, nid);
}

const char *bn_mark_word(const struct bn_tokenizer *t, const char *s,
                         const char *end, bool spaces)
{
    return mark_word(s, end, spaces, t->lines, t->each);
}

const struct bn_hot bn_hot_plain = {hot_scan, hot_mark, hot_word};
