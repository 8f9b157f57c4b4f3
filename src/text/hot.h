/* The hot path: where a word ends, and what its ids are. Compiled twice: by
 * words.c in plain C, and by words_v3.c for x86-64 processors that have AVX2,
 * BMI and AES.
 *
 * Almost every word is a space and letters, and known. So the run of letters
 * is found for 32 bytes at once (ASCII letters, Hangul syllables and common
 * ideographs; anything else goes the careful way), and one look into the
 * cache gives the ids.
 */
#include "base/mem.h"
#include "text/encoder_impl.h"

#if defined(__AVX2__) && defined(__AES__)
#include <immintrin.h>
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

/* 'c' is a copy of the cache's handle: a local one stays in registers. */
BN_INLINE void put_word(struct bn_encoder *e, const struct bn_wordcache *c,
                        bool wide, const char *w, size_t n, size_t room)
{
    const struct bn_word_slot *s = NULL;
    size_t i = 0;

    if (__builtin_expect(e->out.n + 2 * BN_IDS_SLACK > e->out.cap, 0))
        bn_grow(&e->out.v, &e->out.cap, e->out.n + 4096, sizeof(int32_t));
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
enum { LETTERS_READ = 33, LETTERS_MOST = 30 };

/* Bytes of letters at p. From LETTERS_MOST on there may be more, and the last
 * character may be cut. Letters are ASCII's, and of those with
 * three bytes U+5000 to U+9FFF and U+AC00 to U+D77F; others end the run. */
BN_INLINE size_t letters(const char *p)
{
    __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)p);
    /* Ranges, moved to the top of the signed bytes. */
    __m256i low = _mm256_add_epi8(_mm256_or_si256(x, _mm256_set1_epi8(0x20)),
                                  _mm256_set1_epi8(127 - 'z'));
    __m256i ascii = _mm256_cmpgt_epi8(low, _mm256_set1_epi8(127 - 26));
    unsigned all = (unsigned)_mm256_movemask_epi8(ascii);

    if (_mm256_movemask_epi8(x) != 0) {
        __m256i y = _mm256_loadu_si256((const __m256i *)(const void *)(p + 1));
        __m256i han = _mm256_cmpgt_epi8(
            _mm256_add_epi8(x, _mm256_set1_epi8((char)(127 - 0xed))),
            _mm256_set1_epi8(127 - 9));
        __m256i ea = _mm256_and_si256(
            _mm256_cmpeq_epi8(x, _mm256_set1_epi8((char)0xea)),
            _mm256_cmpgt_epi8(_mm256_set1_epi8((char)0xb0), y));
        __m256i ed = _mm256_and_si256(
            _mm256_cmpeq_epi8(x, _mm256_set1_epi8((char)0xed)),
            _mm256_cmpgt_epi8(y, _mm256_set1_epi8((char)0x9d)));
        unsigned lead = (unsigned)_mm256_movemask_epi8(
            _mm256_andnot_si256(_mm256_or_si256(ea, ed), han));

        all |= lead | lead << 1 | lead << 2;
    }
    return _tzcnt_u32(~all);
}

/* bn_scan_next for a word of letters, if it is one that 'letters' knows
 * whole; else NULL. joins[c]: c may stand before the letters. */
BN_INLINE const char *letter_word(const unsigned char *joins, const char *s,
                                  const char *end)
{
    if (end - s < LETTERS_READ + 2)
        return NULL;
    const char *p = s + joins[(unsigned char)*s];
    size_t n = letters(p);

    if (n - 1 >= LETTERS_MOST - 1 || (unsigned char)p[n] >= 0x80)
        return NULL;
    return p + n;
}
#else
BN_INLINE const char *letter_word(const unsigned char *joins, const char *s,
                                  const char *end)
{
    (void)joins;
    (void)s;
    (void)end;
    return NULL;
}
#endif

/* What may stand before letters in one word: for GPT-2 a space, for the
 * others any ASCII character but letters, digits, line breaks, and '\'',
 * which may begin a contraction. */
static const unsigned char joins_gpt2[256] = {[' '] = 1};
static const unsigned char joins_mark[256] = {
    [0 ... 9] = 1,    [11 ... 12] = 1,  [14 ... 38] = 1,   [40 ... 47] = 1,
    [58 ... 64] = 1,  [91 ... 96] = 1,  [123 ... 127] = 1,
};

BN_INLINE void scan_words(struct bn_encoder *e, enum bn_scan kind, bool wide,
                          const char *s, size_t n)
{
    const unsigned char *joins =
        kind == BN_SCAN_GPT2 ? joins_gpt2 : joins_mark;
    const struct bn_wordcache cache = e->cache;
    const struct bn_uclass_table *classes = e->classes;
    const char *end = s + n;

    while (s < end) {
        const char *next = letter_word(joins, s, end);

        if (next == NULL)
            next = bn_scan_next(kind, classes, s, end);
        put_word(e, &cache, wide, s, (size_t)(next - s), (size_t)(end - s));
        s = next;
    }
}

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

BN_INLINE void mark_words(struct bn_encoder *e, bool wide, const char *s,
                          size_t n, bool spaces)
{
    bool lines = e->t->lines, each = e->t->each;
    const struct bn_wordcache cache = e->cache;
    const char *end = s + n;

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
