/* Merging a word of few symbols, many merges at a time.
 *
 * By definition merges are made one by one: the pair of least rank, the left
 * one of equals. But let w x|a b|c d be tokens at any time, and r the rank of
 * the merge (x a), here across the middle. If no merge that can ever be made
 * across the next place to the left, w|x, ranks as low as r, and none across
 * the next to the right, a|b, lower than r, then (x a) is sure: x or a could
 * only grow into something else by a merge across one of those places, and
 * (x a) is there already and comes before it. (Across a|b a merge of rank r
 * would be one of the same two tokens, further right.) And it may be made at
 * once: what it makes takes part only in merges across those two places, none
 * of which ranks lower than r, so that none of them comes too early. No two
 * sure places are neighbours.
 *
 * The bounds of what can be made across a place are from bpe_seam.c. They
 * rise while tokens on both sides grow. Where nothing is sure the pair of
 * least rank is merged, and that is the definition.
 */
#include "config.h"
#include "text/bpe_impl.h"
#include "text/simd.h"

#include <string.h>
#ifdef BN_HAVE_V3
#include <immintrin.h>
#endif

#define BN_INLINE static inline __attribute__((always_inline))

/* A place is named by the symbol behind it. The place before the first symbol
 * and the one behind the last, which nothing crosses, make the ends simple.
 * Vectors of eight are read, and written one place further on. */
enum { PLACES = BN_BPE_SMALL + 16 };

/* Ranks are those of bn_bpe_seam and bn_bpe_step, with room for a place. */
struct places {
    int32_t rank[PLACES];  /* of the merge across, and this place: the least
                            * of them is the leftmost of equal ranks */
    int32_t least[PLACES]; /* rank that a merge across can ever have */
    int32_t left[PLACES];  /* least[] of the next place to the left */
    int32_t right[PLACES]; /* to the right, or any place at that rank */
};
enum { ANY_PLACE = (1 << BN_BPE_PLACE_BITS) - 1 };

typedef int32_t v8i32 __attribute__((vector_size(32)));

/* Rank of the merge of two tokens. */
BN_INLINE int32_t look(const struct bn_bpe *b, uint32_t left, uint32_t right)
{
    uint32_t r = bn_bpe_rank(b, left, right);

    if (__builtin_expect(r == BN_BPE_NO_RANK, 1))
        return BN_BPE_NONE;
    __builtin_prefetch(&b->step[r]);
    return (int32_t)(r << BN_BPE_PLACE_BITS);
}

BN_INLINE int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

BN_INLINE void begin(const struct bn_bpe *b, const uint32_t *id, size_t n,
                     struct places *p)
{
    const struct bn_bpe_seam *seam = b->seam;
    const uint8_t *kinds = b->kind;
    size_t two = kinds[id[0]]; /* kinds of the symbols before and behind */

    p->rank[0] = p->least[0] = p->left[0] = BN_BPE_NONE;
    for (size_t i = 1; i < n; i++) {
        two = (two << 8 & 0xff00) | kinds[id[i]];
        p->rank[i] = seam[two].rank | (int32_t)i;
        p->least[i] = seam[two].least;
        if (__builtin_expect(p->rank[i] < 0, 0)) /* BN_BPE_ASK */
            p->rank[i] = look(b, id[i - 1], id[i]) | (int32_t)i;
    }
    for (size_t i = n; i <= (n + 7) / 8 * 8; i++)
        p->rank[i] = p->least[i] = BN_BPE_NONE;
    for (size_t i = 0; i < n; i += 8) {
        v8i32 here, next;

        memcpy(&here, p->least + i, sizeof(here));
        memcpy(&next, p->least + i + 1, sizeof(next));
        next |= ANY_PLACE;
        memcpy(p->left + i + 1, &here, sizeof(here));
        memcpy(p->right + i, &next, sizeof(next));
    }
}

/* Make the merge across place 'at'. 'live' has a bit for every place that is
 * left, the first always. */
BN_INLINE void make(const struct bn_bpe *b, uint32_t *id, size_t n,
                    struct places *p, uint64_t *live, unsigned at)
{
    uint64_t below = *live & (((uint64_t)1 << at) - 1);
    uint64_t above = *live & ~(uint64_t)1 << at;
    const struct bn_bpe_step *s = &b->step[p->rank[at] >> BN_BPE_PLACE_BITS];
    unsigned left = 63 - (unsigned)__builtin_clzll(below);
    unsigned right = above != 0 ? (unsigned)__builtin_ctzll(above)
                                : (unsigned)n;

    *live ^= (uint64_t)1 << at;
    p->rank[at] = BN_BPE_NONE;
    id[left] = s->id;
    if (left > 0) {
        below ^= (uint64_t)1 << left;
        unsigned far = 63 - (unsigned)__builtin_clzll(below);

        p->rank[left] = look(b, id[far], s->id) | (int32_t)left;
        p->least[left] = larger(p->least[left], s->before);
        p->right[far] = p->least[left] | ANY_PLACE;
    }
    if (right < n) {
        above &= above - 1;
        unsigned far = above != 0 ? (unsigned)__builtin_ctzll(above)
                                  : (unsigned)n;

        p->rank[right] = look(b, s->id, id[right]) | (int32_t)right;
        p->least[right] = larger(p->least[right], s->behind);
        p->left[far] = p->least[right];
    }
    p->right[left] = p->least[right] | ANY_PLACE;
    p->left[right] = p->least[left];
}

/* Bits of the places whose merge is sure; without any, of the one of least
 * rank. 0: no merge is left. */
BN_INLINE uint64_t ready(const struct places *p, size_t n)
{
    int32_t best = BN_BPE_NONE;
    uint64_t sure = 0;

    for (size_t i = 1; i < n; i++) {
        int32_t r = p->rank[i];

        sure |= (uint64_t)((r < p->left[i]) & (r <= p->right[i])) << i;
        best = r < best ? r : best;
    }
    if (sure != 0 || best == BN_BPE_NONE)
        return sure;
    return (uint64_t)1 << (best & ANY_PLACE);
}

#ifdef BN_HAVE_V3
BN_V3 static inline __m256i eight(const int32_t *v)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)v);
}

BN_V3 BN_INLINE uint64_t ready_v3(const struct places *p, size_t n)
{
    __m256i m = eight(p->rank);
    uint64_t sure = 0;

    for (size_t i = 0; i < n; i += 8) {
        __m256i r = eight(p->rank + i);
        __m256i low = _mm256_cmpgt_epi32(eight(p->left + i), r);
        __m256i high = _mm256_cmpgt_epi32(r, eight(p->right + i));
        __m256i both = _mm256_andnot_si256(high, low);

        sure |= (uint64_t)(unsigned)_mm256_movemask_ps(
                    _mm256_castsi256_ps(both)) << i;
        m = _mm256_min_epi32(m, r);
    }
    if (sure != 0)
        return sure;
    __m128i x = _mm_min_epi32(_mm256_castsi256_si128(m),
                              _mm256_extracti128_si256(m, 1));
    x = _mm_min_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_min_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    int32_t best = _mm_cvtsi128_si32(x);
    return best == BN_BPE_NONE ? 0 : (uint64_t)1 << (best & ANY_PLACE);
}
#endif

/* What is left of id[0..n) moves together. Returns the new n. */
BN_INLINE size_t collect(uint32_t *id, uint32_t *start, uint64_t live)
{
    size_t m = 0;

    for (; live != 0; live &= live - 1, m++) {
        unsigned i = (unsigned)__builtin_ctzll(live);

        id[m] = id[i];
        start[m] = i;
    }
    return m;
}

BN_INLINE size_t merge(const struct bn_bpe *b, uint32_t *id, uint32_t *start,
                       size_t n,
                       uint64_t (*ready_places)(const struct places *p,
                                                size_t n))
{
    uint64_t live = n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0;
    struct places p;

    begin(b, id, n, &p);
    for (;;) {
        uint64_t now = ready_places(&p, n);

        if (now == 0)
            return collect(id, start, live);
        for (; now != 0; now &= now - 1)
            make(b, id, n, &p, &live, (unsigned)__builtin_ctzll(now));
    }
}

#ifdef BN_HAVE_V3
BN_V3 static size_t merge_v3(const struct bn_bpe *b, uint32_t *id,
                             uint32_t *start, size_t n)
{
    /* Most windows are of this size: a loop of known length. */
    return n == BN_BPE_WINDOW
               ? merge(b, id, start, BN_BPE_WINDOW, ready_v3)
               : merge(b, id, start, n, ready_v3);
}
#endif

size_t bn_bpe_merge_small(const struct bn_bpe *b, uint32_t *id,
                          uint32_t *start, size_t n)
{
    uint32_t none[BN_BPE_SMALL];

    if (start == NULL)
        start = none;
#ifdef BN_HAVE_V3
    if (b->v3)
        return merge_v3(b, id, start, n);
#endif
    return merge(b, id, start, n, ready);
}
