/* The hot path: where a word ends, and what its ids are. Compiled twice: by
 * words.c in plain C, and by words_v3.c for x86-64 processors that have AVX2,
 * BMI and AES.
 *
 * Almost every word is known. So words are found for 64 bytes at once
 * (hot_block.h), and one look into the cache gives the ids of each.
 */
#include "base/mem.h"
#include "text/encoder_impl.h"

#if defined(__AVX2__) && defined(__AES__)
#include "text/hot_block.h"
#define HOT_V3 1
#endif
#define BN_INLINE static inline __attribute__((always_inline))

/* The ids of a slot, at most BN_IDS_SLACK of them, to 'v'. */
BN_INLINE void slot_ids(const struct bn_word_slot *s, bool wide, int32_t *v)
{
    if (wide) {
        memcpy(v, s->ids, 28);
        return;
    }
#ifdef HOT_V3
    /* The second half ends at the slot's end. */
    for (int i = 0; i < 2; i++)
        _mm256_storeu_si256(
            (__m256i *)(void *)(v + 7 * i),
            _mm256_cvtepu16_epi32(_mm_loadu_si128(
                (const __m128i *)(const void *)(s->ids + 14 * i))));
#else
    for (int i = 0; i < 15; i++) {
        uint16_t id;

        memcpy(&id, s->ids + 2 * i, 2);
        v[i] = id;
    }
#endif
}

/* Room behind e->out for the ids of one more slot. */
BN_INLINE void put_room(struct bn_encoder *e)
{
    if (__builtin_expect(e->out.n + 2 * BN_IDS_SLACK > e->out.cap, 0))
        bn_grow(&e->out.v, &e->out.cap, e->out.n + 4096, sizeof(int32_t));
}

/* 'c' is a copy of the cache's handle: a local one stays in registers. */
BN_INLINE void put_word(struct bn_encoder *e, const struct bn_wordcache *c,
                        bool wide, const char *w, size_t n, size_t room)
{
    const struct bn_word_slot *s = NULL;
    size_t i = 0;

    put_room(e);
    if (__builtin_expect(n <= BN_WORD_KEY, 1)) {
        struct bn_word_key k = bn_word_key(w, n, room);

        i = bn_word_index(c, &k);
        s = bn_wordcache_get(c, i, &k, n);
        if (__builtin_expect(s != NULL && s->n != BN_WORD_SPILT, 1)) {
            slot_ids(s, wide, e->out.v + e->out.n);
            e->out.n += s->n;
            return;
        }
    }
    bn_slow_word(e, i, w, n, s);
}

#ifdef HOT_V3
/* Words are found, looked up and answered a batch at a time, so that a guess
 * gone wrong or a wait for memory in one step does not hold up the others.
 * Each word ends where the next begins; 32 bytes may be read at each. */
enum { BATCH = 256, TAIL = 100 };

struct batch {
    const char *base;
    size_t n;
    uint32_t at[BATCH + 4]; /* starts of the words, from base on */
    uint32_t index[BATCH];  /* in the cache */
};

BN_INLINE void batch_index(const struct bn_wordcache *c, struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        size_t n = b->at[i + 1] - b->at[i];
        struct bn_word_key k;

        if (__builtin_expect(n > BN_WORD_KEY, 0))
            continue;
        k = bn_word_key(b->base + b->at[i], n, BN_WORD_KEY);
        b->index[i] = (uint32_t)bn_word_index(c, &k);
        __builtin_prefetch(&c->slot[b->index[i]]);
    }
}

BN_INLINE void batch_ids(struct bn_encoder *e, const struct bn_wordcache *c,
                         bool wide, const struct batch *b)
{
    size_t out = e->out.n;

    for (size_t i = 0; i < b->n; i++) {
        const char *w = b->base + b->at[i];
        size_t n = b->at[i + 1] - b->at[i];
        const struct bn_word_slot *s = NULL;

        if (__builtin_expect(out + 2 * BN_IDS_SLACK > e->out.cap, 0)) {
            e->out.n = out;
            put_room(e);
        }
        if (__builtin_expect(n <= BN_WORD_KEY, 1)) {
            struct bn_word_key k = bn_word_key(w, n, BN_WORD_KEY);

            s = bn_wordcache_get(c, b->index[i], &k, n);
            if (__builtin_expect(s != NULL && s->n != BN_WORD_SPILT, 1)) {
                slot_ids(s, wide, e->out.v + out);
                out += s->n;
                continue;
            }
        }
        e->out.n = out;
        bn_slow_word(e, n <= BN_WORD_KEY ? b->index[i] : 0, w, n, s);
        out = e->out.n;
    }
    e->out.n = out;
}

BN_INLINE void batch_flush(struct bn_encoder *e, const struct bn_wordcache *c,
                           bool wide, struct batch *b, const char *end)
{
    b->at[b->n] = (uint32_t)(end - b->base);
    batch_index(c, b);
    batch_ids(e, c, wide, b);
    b->n = 0;
}

/* A word for every bit but the highest, whose place is returned. */
BN_INLINE const char *batch_bits(struct batch *b, const char *s, uint64_t bits)
{
    uint32_t from = (uint32_t)(s - b->base), *at = b->at + b->n;
    int count = __builtin_popcountll(bits), last = 63 - __builtin_clzll(bits);

    for (int i = 0; i < count; i += 4)
        for (int k = 0; k < 4; k++) {
            at[i + k] = from + (uint32_t)_tzcnt_u64(bits);
            bits &= bits - 1;
        }
    b->n += (size_t)count - 1;
    return s + last;
}

/* Words of s[0..n), where BLOCK_READ bytes may be read at each of them. Stops
 * where fewer than 'keep' bytes are left, and returns that place. */
BN_INLINE const char *scan_blocks(struct bn_encoder *e, enum bn_scan kind,
                                  bool wide, const char *s, size_t n,
                                  size_t keep)
{
    const struct bn_wordcache cache = e->cache;
    const struct bn_uclass_table *classes = e->classes;
    const char *end = s + n;
    struct batch b;

    b.base = s;
    b.n = 0;
    while ((size_t)(end - s) > keep) {
        /* Capitals are too much for bits. */
        uint64_t bits = kind == BN_SCAN_O200K
                            ? 1
                            : block_words(kind, classes, s, end);

        if (__builtin_expect(bits > 1, 1)) {
            s = batch_bits(&b, s, bits);
        } else {
            b.at[b.n++] = (uint32_t)(s - b.base);
            s = bn_scan_next(kind, classes, s, end);
        }
        if (b.n >= BATCH - BLOCK)
            batch_flush(e, &cache, wide, &b, s);
    }
    batch_flush(e, &cache, wide, &b, s);
    return s;
}

BN_INLINE void scan_words(struct bn_encoder *e, enum bn_scan kind, bool wide,
                          const char *s, size_t n)
{
    const char *end = s + n;
    char tail[TAIL + BLOCK_READ];

    s = scan_blocks(e, kind, wide, s, n, TAIL);
    if (s == end)
        return;
    n = (size_t)(end - s);
    memset(tail, 0, sizeof(tail));
    memcpy(tail, s, n);
    (void)scan_blocks(e, kind, wide, tail, n, 0);
}
#else
BN_INLINE void scan_words(struct bn_encoder *e, enum bn_scan kind, bool wide,
                          const char *s, size_t n)
{
    const struct bn_wordcache cache = e->cache;
    const char *end = s + n;

    while (s < end) {
        const char *next = bn_scan_next(kind, e->classes, s, end);

        put_word(e, &cache, wide, s, (size_t)(next - s), (size_t)(end - s));
        s = next;
    }
}
#endif

BN_INLINE void scan_kinds(struct bn_encoder *e, bool wide, const char *s,
                          size_t n)
{
    switch (e->t->scan) {
    case BN_SCAN_GPT2:
        scan_words(e, BN_SCAN_GPT2, wide, s, n);
        break;
    case BN_SCAN_LLAMA3:
        scan_words(e, BN_SCAN_LLAMA3, wide, s, n);
        break;
    case BN_SCAN_O200K:
        scan_words(e, BN_SCAN_O200K, wide, s, n);
        break;
    default:
        scan_words(e, BN_SCAN_QWEN2, wide, s, n);
        break;
    }
}

static void hot_scan(struct bn_encoder *e, const char *s, size_t n)
{
    if (e->cache.wide)
        scan_kinds(e, true, s, n);
    else
        scan_kinds(e, false, s, n);
}

/* The first place from s on where a mark or line break may be. */
BN_INLINE const char *mark_skip(const char *s, const char *end, bool spaces,
                                bool lines)
{
#ifdef HOT_V3
    const __m128i lead = _mm_set1_epi8(BN_MARK[0]);
    const __m128i space = _mm_set1_epi8(spaces ? ' ' : BN_MARK[0]);
    const __m128i line = _mm_set1_epi8(lines ? '\n' : BN_MARK[0]);

    for (; end - s >= 16; s += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)(const void *)s);
        int hit = _mm_movemask_epi8(
            _mm_or_si128(_mm_cmpeq_epi8(x, lead),
                         _mm_or_si128(_mm_cmpeq_epi8(x, space),
                                      _mm_cmpeq_epi8(x, line))));

        if (hit != 0)
            return s + __builtin_ctz((unsigned)hit);
    }
#endif
    while (s < end && *s != BN_MARK[0] && !(spaces && *s == ' ')
           && !(lines && *s == '\n'))
        s++;
    return s;
}

BN_INLINE const char *mark_word(const char *s, const char *end, bool spaces,
                                bool lines, bool each)
{
    size_t len;

    if (lines && *s == '\n')
        return s + 1;
    for (len = bn_mark_at(s, end, spaces); len > 0; ) {
        s += len;
        if (s == end || each)
            break;
        len = bn_mark_at(s, end, spaces);
    }
    for (;;) {
        s = mark_skip(s, end, spaces, lines);
        if (s == end || *s != BN_MARK[0] || bn_mark_at(s, end, false) > 0)
            return s;
        s++;
    }
}

/* All words of s[0..n) but those that begin in the last 'keep' bytes. */
#ifdef HOT_V3
BN_INLINE const char *mark_blocks(struct bn_encoder *e, bool wide,
                                  const char *s, size_t n, bool spaces,
                                  size_t keep)
{
    bool lines = e->t->lines, each = e->t->each;
    const struct bn_wordcache cache = e->cache;
    const char *end = s + n;
    struct batch b;

    b.base = s;
    b.n = 0;
    while ((size_t)(end - s) > keep) {
        b.at[b.n++] = (uint32_t)(s - b.base);
        s = mark_word(s, end, spaces, lines, each);
        if (b.n == BATCH)
            batch_flush(e, &cache, wide, &b, s);
    }
    batch_flush(e, &cache, wide, &b, s);
    return s;
}
#endif

BN_INLINE void mark_words(struct bn_encoder *e, bool wide, const char *s,
                          size_t n, bool spaces)
{
    bool lines = e->t->lines, each = e->t->each;
    const struct bn_wordcache cache = e->cache;
    const char *end = s + n;

#ifdef HOT_V3
    s = mark_blocks(e, wide, s, n, spaces, BN_WORD_KEY);
#endif
    while (s < end) {
        const char *next = mark_word(s, end, spaces, lines, each);

        put_word(e, &cache, wide, s, (size_t)(next - s), (size_t)(end - s));
        s = next;
    }
}

static void hot_mark(struct bn_encoder *e, const char *s, size_t n, bool spaces)
{
    if (e->cache.wide)
        mark_words(e, true, s, n, spaces);
    else
        mark_words(e, false, s, n, spaces);
}

static void hot_word(struct bn_encoder *e, const char *w, size_t n)
{
    put_word(e, &e->cache, e->cache.wide, w, n, n);
}
