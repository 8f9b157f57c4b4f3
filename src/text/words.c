/* The hot path: where a word ends, and what its ids are.
 *
 * Almost every word is a space and letters, and known. So the run of letters
 * is found for 32 bytes at once (ASCII letters, Hangul syllables and common
 * ideographs; anything else goes the careful way), and one look into the
 * cache gives the ids.
 */
#include "config.h"
#include "base/mem.h"
#include "text/encoder_impl.h"
#include "text/simd.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

void bn_emit(struct bn_ids *out, const void *ids, size_t n)
{
    bn_grow(&out->v, &out->cap, out->n + n + BN_IDS_SLACK, sizeof(int32_t));
    if (n > 0)
        memcpy(out->v + out->n, ids, n * sizeof(int32_t));
    out->n += n;
}

/* A word the cache does not know: merge, remember, emit. */
static void new_word(struct bn_encoder *e, const char *w, size_t n)
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
    bn_emit(&e->out, e->work.sym, e->work.n);
}

/* A word that has to go the slow way: long, new, or with many ids. */
static __attribute__((noinline)) void
slow_word(struct bn_encoder *e, const char *w, size_t n,
          const struct bn_word_slot *s)
{
    const int32_t *ids = NULL;
    size_t nid;

    if (s != NULL)
        ids = bn_word_spilt(&e->cache, s, &nid);
    else if (n > BN_WORD_KEY && n <= BN_WORD_LONG)
        ids = bn_wordcache_long(&e->cache, w, n, &nid);
    if (ids == NULL)
        new_word(e, w, n);
    else
        bn_emit(&e->out, ids, nid);
}

/* The ids of a slot, at most BN_IDS_SLACK of them, to 'v'. */
BN_INLINE void slot_ids(const struct bn_word_slot *s, bool wide, int32_t *v)
{
    if (wide) {
        memcpy(v, s->ids, 28);
        return;
    }
#ifdef __SSE2__
    const __m128i zero = _mm_setzero_si128();

    for (int i = 0; i < 2; i++) {
        /* The second half ends at the slot's end. */
        __m128i x = _mm_loadu_si128(
            (const __m128i *)(const void *)(s->ids + 14 * i));
        __m128i *to = (__m128i *)(void *)(v + 7 * i);

        _mm_storeu_si128(to, _mm_unpacklo_epi16(x, zero));
        _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(x, zero));
    }
#else
    for (int i = 0; i < 15; i++) {
        uint16_t id;

        memcpy(&id, s->ids + 2 * i, 2);
        v[i] = id;
    }
#endif
}

BN_INLINE void put_word(struct bn_encoder *e, bool wide, const char *w,
                        size_t n, size_t room)
{
    const struct bn_word_slot *s = NULL;

    if (__builtin_expect(n <= BN_WORD_KEY, 1)) {
        struct bn_word_key k = bn_word_key(w, n, room);

        s = bn_wordcache_get(&e->cache, &k, n);
        if (__builtin_expect(s != NULL && s->n != BN_WORD_SPILT
                                 && e->out.n + 2 * BN_IDS_SLACK <= e->out.cap,
                             1)) {
            slot_ids(s, wide, e->out.v + e->out.n);
            e->out.n += s->n;
            return;
        }
    }
    bn_grow(&e->out.v, &e->out.cap, e->out.n + 2 * BN_IDS_SLACK,
            sizeof(int32_t));
    if (s != NULL && s->n != BN_WORD_SPILT) {
        slot_ids(s, wide, e->out.v + e->out.n);
        e->out.n += s->n;
        return;
    }
    slow_word(e, w, n, s);
}

void bn_put_word(struct bn_encoder *e, const char *w, size_t n, size_t room)
{
    put_word(e, e->cache.wide, w, n, room);
}

#ifdef __SSE2__
/* Bit i: byte i of p[0..16) is an ASCII letter, or (in '*lead') starts a
 * character of three bytes that is a letter: U+5000 to U+9FFF, U+AC00 to
 * U+D77F. Reads 17 bytes. */
BN_INLINE unsigned letter_bits(const char *p, unsigned *lead)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i y = _mm_loadu_si128((const __m128i *)(const void *)(p + 1));
    /* Ranges, moved to the top of the signed bytes. */
    __m128i low = _mm_add_epi8(_mm_or_si128(x, _mm_set1_epi8(0x20)),
                               _mm_set1_epi8(127 - 'z'));
    __m128i ascii = _mm_cmpgt_epi8(low, _mm_set1_epi8(127 - 26));
    __m128i han = _mm_cmpgt_epi8(
        _mm_add_epi8(x, _mm_set1_epi8((char)(127 - 0xed))),
        _mm_set1_epi8(127 - 9));
    __m128i ea = _mm_and_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8((char)0xea)),
                               _mm_cmplt_epi8(y, _mm_set1_epi8((char)0xb0)));
    __m128i ed = _mm_and_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8((char)0xed)),
                               _mm_cmpgt_epi8(y, _mm_set1_epi8((char)0x9d)));

    *lead = (unsigned)_mm_movemask_epi8(
        _mm_andnot_si128(_mm_or_si128(ea, ed), han));
    return (unsigned)_mm_movemask_epi8(ascii);
}

enum { LETTERS_READ = 33, LETTERS_MOST = 30 };

/* Bytes of letters at p, whole characters; not more than 32. From
 * LETTERS_MOST on there may be more. */
BN_INLINE size_t letters(const char *p)
{
    unsigned lead0, lead1;
    unsigned a = letter_bits(p, &lead0);
    unsigned b = letter_bits(p + 16, &lead1);
    unsigned lead = (lead0 | lead1 << 16) & 0x3fffffff;
    unsigned all = (a | b << 16) | lead | lead << 1 | lead << 2;

    return all == ~0u ? 32 : (size_t)__builtin_ctz(~all);
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
    const char *end = s + n;

    while (s < end) {
        const char *next = letter_word(joins, s, end);

        if (next == NULL)
            next = bn_scan_next(kind, e->classes, s, end);
        put_word(e, wide, s, (size_t)(next - s), (size_t)(end - s));
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

BN_INLINE void scan_widths(struct bn_encoder *e, const char *s, size_t n)
{
    if (e->cache.wide)
        scan_kinds(e, true, s, n);
    else
        scan_kinds(e, false, s, n);
}

#ifdef BN_HAVE_V3
BN_V3 static void scan_v3(struct bn_encoder *e, const char *s, size_t n)
{
    scan_widths(e, s, n);
}
#else
static void scan_v3(struct bn_encoder *e, const char *s, size_t n)
{
    scan_widths(e, s, n);
}
#endif

void bn_scan_words(struct bn_encoder *e, const char *s, size_t n)
{
    if (e->v3)
        scan_v3(e, s, n);
    else
        scan_widths(e, s, n);
}

/* The first place from s on where a mark or line break may be. */
BN_INLINE const char *mark_skip(const char *s, const char *end, bool spaces,
                                bool lines)
{
#ifdef __SSE2__
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

const char *bn_mark_word(const struct bn_tokenizer *t, const char *s,
                         const char *end, bool spaces)
{
    return mark_word(s, end, spaces, t->lines, t->each);
}

BN_INLINE void mark_words(struct bn_encoder *e, bool wide, const char *s,
                          size_t n, bool spaces)
{
    bool lines = e->t->lines, each = e->t->each;
    const char *end = s + n;

    while (s < end) {
        const char *next = mark_word(s, end, spaces, lines, each);

        put_word(e, wide, s, (size_t)(next - s), (size_t)(end - s));
        s = next;
    }
}

void bn_mark_words(struct bn_encoder *e, const char *s, size_t n, bool spaces)
{
    if (e->cache.wide)
        mark_words(e, true, s, n, spaces);
    else
        mark_words(e, false, s, n, spaces);
}
