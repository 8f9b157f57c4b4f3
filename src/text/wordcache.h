/* One thread's memory of words and their ids.
 *
 * A hash table of 64-byte slots in huge pages. A slot holds a word of up to
 * 32 bytes and its ids, so that most words cost one cache line. Ids that do
 * not fit, and longer words, lie in a spill area. When that is full all is
 * forgotten.
 */
#ifndef BN_TEXT_WORDCACHE_H
#define BN_TEXT_WORDCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__) && defined(__AES__)
#include <immintrin.h>
#endif

enum {
    BN_WORD_KEY = 32,    /* longest word that lies in its slot */
    BN_WORD_LONG = 1024, /* longest word that is remembered */
    BN_WORD_IDS = 30,    /* bytes of ids in a slot */
    BN_WORD_SPILT = 255  /* in slot.n: the ids lie in the spill area */
};

struct bn_word_slot {
    unsigned char key[BN_WORD_KEY]; /* zero behind the word */
    uint8_t len;                    /* 0: empty slot */
    uint8_t n;                      /* ids */
    unsigned char ids[BN_WORD_IDS];
};

struct bn_wordcache {
    struct bn_word_slot *slot;
    int shift;  /* 64 - log2 of the number of slots */
    bool wide;  /* ids of 4 bytes in a slot, not 2 */
    void *block;
    int32_t *spill;
    size_t nspill;
};

/* 'wide': there are ids of 2^16 and above. */
void bn_wordcache_init(struct bn_wordcache *c, bool wide);
void bn_wordcache_release(struct bn_wordcache *c);
/* Remember a word of 1..BN_WORD_LONG bytes. 'i' is its index, if it is not
 * longer than BN_WORD_KEY. */
void bn_wordcache_put(struct bn_wordcache *c, size_t i, const char *w,
                      size_t len, const uint32_t *ids, size_t n);
/* Look for a word longer than BN_WORD_KEY: its ids and '*n', or NULL. */
const int32_t *bn_wordcache_long(const struct bn_wordcache *c, const char *w,
                                 size_t len, size_t *n);

/* The ids of a slot whose n is BN_WORD_SPILT. */
static inline const int32_t *bn_word_spilt(const struct bn_wordcache *c,
                                           const struct bn_word_slot *s,
                                           size_t *n)
{
    uint32_t to[2];

    memcpy(to, s->ids, sizeof(to));
    *n = to[1];
    return c->spill + to[0];
}

/* What a word of up to BN_WORD_KEY bytes is looked up by, in two versions:
 * with AVX2 and AES, and in plain C. An index of one version means nothing
 * to the other: a cache is used by one of them alone. */
extern const unsigned char bn_word_mask[2 * BN_WORD_KEY];

#if defined(__AVX2__) && defined(__AES__)
struct bn_word_key {
    __m256i v;
};

static inline size_t bn_word_index(const struct bn_wordcache *c,
                                   const struct bn_word_key *k)
{
    const __m128i salt = _mm_set_epi64x(0x9e3779b97f4a7c15, 0x165667b19e3779f9);
    __m128i h = _mm_aesenc_si128(_mm256_castsi256_si128(k->v),
                                 _mm256_extracti128_si256(k->v, 1));

    h = _mm_aesenc_si128(h, salt);
    h = _mm_aesenc_si128(h, salt);
    return (uint64_t)_mm_cvtsi128_si64(h) >> c->shift;
}

static inline bool bn_word_equal(const struct bn_word_slot *s,
                                 const struct bn_word_key *k, size_t len)
{
    __m256i got = _mm256_loadu_si256((const __m256i *)(const void *)s->key);

    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(got, k->v)) == -1
           && s->len == len;
}
#else
struct bn_word_key {
    uint64_t v[4];
};

static inline size_t bn_word_index(const struct bn_wordcache *c,
                                   const struct bn_word_key *k)
{
    uint64_t h = k->v[0] * 0x9e3779b97f4a7c15u + k->v[1] * 0xc2b2ae3d27d4eb4fu
                 + k->v[2] * 0x165667b19e3779f9u
                 + k->v[3] * 0xd6e8feb86659fd93u;

    h ^= h >> 32;
    return (h * 0x9fb21c651e98df25u) >> c->shift;
}

static inline bool bn_word_equal(const struct bn_word_slot *s,
                                 const struct bn_word_key *k, size_t len)
{
    return memcmp(s->key, k, BN_WORD_KEY) == 0 && s->len == len;
}
#endif

/* The zero-padded word of len <= BN_WORD_KEY bytes at 'w'; 'room' bytes may
 * be read there. */
static inline struct bn_word_key bn_word_key(const char *w, size_t len,
                                             size_t room)
{
    struct bn_word_key k;

    if (__builtin_expect(room >= BN_WORD_KEY, 1)) {
        const unsigned char *mask = bn_word_mask + BN_WORD_KEY - len;
#if defined(__AVX2__) && defined(__AES__)
        /* Not memcpy: compilers copy by halves, and the load that follows
         * waits for both to be written. */
        k.v = _mm256_and_si256(
            _mm256_loadu_si256((const __m256i *)(const void *)w),
            _mm256_loadu_si256((const __m256i *)(const void *)mask));
#else
        struct bn_word_key m;

        memcpy(&k, w, sizeof(k));
        memcpy(&m, mask, sizeof(m));
        for (int i = 0; i < 4; i++)
            k.v[i] &= m.v[i];
#endif
        return k;
    }
    memset(&k, 0, sizeof(k));
    memcpy(&k, w, len);
    return k;
}

/* The slot of a word of 1..BN_WORD_KEY bytes with its index, or NULL. */
static inline const struct bn_word_slot *
bn_wordcache_get(const struct bn_wordcache *c, size_t i,
                 const struct bn_word_key *k, size_t len)
{
    if (__builtin_expect(bn_word_equal(&c->slot[i], k, len), 1))
        return &c->slot[i];
    if (bn_word_equal(&c->slot[i ^ 1], k, len))
        return &c->slot[i ^ 1];
    return NULL;
}

#endif
