/* Where words begin, for 64 bytes at once. For hot.h with AVX2 and BMI.
 *
 * A block starts at a word's start, so nothing before it matters. Each byte
 * belongs to the class of its character; classes are masks of 64 bits, and
 * the rules of the pre-tokenizer expressions become a few operations on
 * them. What is rare and awkward (white space of several bytes, and so on)
 * ends the block early: 'sure' is the last bit that may be trusted. Where no
 * word could be found the caller goes the careful way of scan.h.
 */
#ifndef BN_TEXT_HOT_BLOCK_H
#define BN_TEXT_HOT_BLOCK_H

#include "text/scan.h"

#include <immintrin.h>

enum {
    BLOCK = 64,
    BLOCK_READ = BLOCK + 4, /* bytes that may be read at its start */
    /* A word's start is decided by what stands up to three bytes behind it,
     * and a contraction moves it by up to three. */
    BLOCK_AHEAD = 4
};

struct block {
    uint64_t letter, number, space, line; /* space: line breaks too */
    uint64_t blank;                       /* ' ' */
    uint64_t quote;                       /* '\'' */
    uint64_t more; /* bytes of a character behind its first */
    int n;         /* bytes that are classified */
};

/* x in from..from+count-1: the range is moved to the top of signed bytes. */
#define BLOCK_IN(x, from, count)                                              \
    _mm256_cmpgt_epi8(                                                        \
        _mm256_add_epi8(x, _mm256_set1_epi8((char)(128 - (from) - (count)))), \
        _mm256_set1_epi8((char)(127 - (count))))
#define BLOCK_IS(x, c) _mm256_cmpeq_epi8(x, _mm256_set1_epi8((char)(c)))

static inline uint64_t block_bits(__m256i a, __m256i b)
{
    return (uint32_t)_mm256_movemask_epi8(a)
           | (uint64_t)(uint32_t)_mm256_movemask_epi8(b) << 32;
}

/* Lead bytes of characters of three bytes that are surely letters:
 * U+5000 to U+9FFF and U+AC00 to U+D77F. y: the bytes behind. */
static inline __m256i block_han(__m256i x, __m256i y)
{
    __m256i ea = _mm256_and_si256(
        BLOCK_IS(x, 0xea), _mm256_cmpgt_epi8(_mm256_set1_epi8((char)0xb0), y));
    __m256i ed = _mm256_and_si256(
        BLOCK_IS(x, 0xed), _mm256_cmpgt_epi8(y, _mm256_set1_epi8((char)0x9d)));

    return _mm256_andnot_si256(_mm256_or_si256(ea, ed), BLOCK_IN(x, 0xe5, 9));
}

static inline __m256i block_load(const char *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* Characters that the vector code does not know, one by one. 'hard': white
 * space and, if 'digits', numbers end the block. */
static __attribute__((noinline)) void
block_others(struct block *k, const struct bn_uclass_table *t, const char *p,
             uint64_t leads, bool digits)
{
    for (; leads != 0; leads &= leads - 1) {
        int i = __builtin_ctzll(leads), len;
        unsigned c = bn_uclass_at(t, p + i, &len);
        uint64_t bits = (((uint64_t)1 << len) - 1) << i;

        if (c == BN_U_SPACE || (c == BN_U_NUMBER && digits)) {
            k->n = i;
            return;
        }
        if (c == BN_U_LETTER)
            k->letter |= bits;
        else if (c == BN_U_NUMBER)
            k->number |= bits;
    }
}

static inline __attribute__((always_inline)) void
block_classify(struct block *k, const struct bn_uclass_table *t,
               const char *p, bool digits)
{
    const __m256i fold = _mm256_set1_epi8(0x20);
    __m256i a = block_load(p), b = block_load(p + 32);
    uint64_t high = block_bits(a, b);

    k->n = BLOCK;
    k->more = 0;
    k->letter = block_bits(BLOCK_IN(_mm256_or_si256(a, fold), 'a', 26),
                           BLOCK_IN(_mm256_or_si256(b, fold), 'a', 26));
    k->number = block_bits(BLOCK_IN(a, '0', 10), BLOCK_IN(b, '0', 10));
    k->blank = block_bits(BLOCK_IS(a, ' '), BLOCK_IS(b, ' '));
    k->space = k->blank | block_bits(BLOCK_IN(a, 9, 5), BLOCK_IN(b, 9, 5));
    k->line = block_bits(_mm256_or_si256(BLOCK_IS(a, '\n'), BLOCK_IS(a, '\r')),
                         _mm256_or_si256(BLOCK_IS(b, '\n'),
                                         BLOCK_IS(b, '\r')));
    k->quote = block_bits(BLOCK_IS(a, '\''), BLOCK_IS(b, '\''));
    if (high == 0)
        return;
    uint64_t han = block_bits(block_han(a, block_load(p + 1)),
                              block_han(b, block_load(p + 33)));
    k->letter |= han | han << 1 | han << 2;
    /* Continuation bytes: 0x80 to 0xbf. */
    k->more = block_bits(_mm256_cmpgt_epi8(_mm256_set1_epi8((char)0xc0), a),
                         _mm256_cmpgt_epi8(_mm256_set1_epi8((char)0xc0), b));
    uint64_t leads = high & ~k->more & ~han;
    if (leads != 0)
        block_others(k, t, p, leads, digits);
}

/* The first bit of the run of 'set' that holds bit i - 1, or i > 0. */
static inline int block_run_start(uint64_t set, int i)
{
    uint64_t below = ~set & (((uint64_t)2 << (i - 1)) - 1);

    return below != 0 ? 64 - __builtin_clzll(below) : 0;
}

/* The last bit that may be trusted, where bits from i on may not be. */
static inline int block_sure(int i)
{
    return i > BLOCK_AHEAD ? i - BLOCK_AHEAD : 0;
}

/* See bn_scan_gpt2. */
static inline uint64_t block_gpt2(const struct block *k, int *sure)
{
    uint64_t other = ~(k->letter | k->number | k->space);
    uint64_t begin = (k->letter & ~(k->letter << 1))
                     | (k->number & ~(k->number << 1))
                     | (other & ~(other << 1));

    *sure = block_sure(k->n);
    /* A space goes to what follows; other white space stands alone. */
    return (begin & ~(k->blank << 1)) | (k->space & ~(k->space << 1))
           | (k->space & ~(k->space >> 1));
}

/* See bn_scan_llama3. */
static inline uint64_t block_llama3(const struct block *k, int digits,
                                    int *sure)
{
    uint64_t in = k->n < 64 ? ((uint64_t)1 << k->n) - 1 : ~(uint64_t)0;
    uint64_t space = k->space & in, line = k->line & in;
    uint64_t gap = space & ~line;
    uint64_t other = ~(k->letter | k->number | k->space);
    uint64_t run = other & ~(other << 1) & ~(k->blank << 1);
    /* One mark alone joins the letters behind it. Adding carries through
     * the rest of its bytes. */
    uint64_t bytes = (other & ~(other << 1)) | (other & k->more);
    uint64_t joined = (run + bytes) & ~bytes & k->letter;
    /* Marks take the line breaks behind them. */
    uint64_t taken = line & ~(((other << 1) & line) + line);
    uint64_t own = line & ~taken;
    uint64_t word = k->letter & ~(k->letter << 1) & ~(gap << 1) & ~joined;
    uint64_t begin = run | word | (own & ~(own << 1)) | (gap & ~(gap << 1))
                     | (gap & ~(space >> 1));
    uint64_t number = k->number;

    if (digits == 3) {
        uint64_t at = number & ~(number << 1);
        uint64_t fourth = number & number << 1 & number << 2 & number << 3;

        for (; at != 0; at = at << 3 & fourth)
            begin |= at;
    } else {
        begin |= number;
    }
    *sure = block_sure(k->n);
    /* White space up to its last line break is one word: where a line break
     * follows a space, or may follow behind the block, stop before. */
    uint64_t back = (gap << 1) & line;
    if (back != 0)
        *sure = block_run_start(space, __builtin_ctzll(back));
    else if (*sure > 0 && gap >> (k->n - 1) != 0)
        *sure = block_run_start(space, k->n);
    if (*sure > block_sure(k->n))
        *sure = block_sure(k->n);
    return begin;
}

/* Contractions are words of their own, whatever letters follow. */
static inline uint64_t block_quotes(const struct block *k, uint64_t begin,
                                    const char *p, const char *end, bool fold)
{
    for (uint64_t q = k->quote & begin; q != 0; q &= q - 1) {
        int i = __builtin_ctzll(q);
        size_t n = i < BLOCK - BLOCK_AHEAD
                       ? bn_scan_contraction(p + i, end, fold)
                       : 0;

        if (n > 0) {
            begin &= ~((((uint64_t)1 << n) - 2) << i);
            begin |= (uint64_t)1 << (i + (int)n);
        }
    }
    return begin;
}

/* Starts of words in the block at p, the bits 0..sure: bit 0 is set, and the
 * highest bit set is where the next block starts. BLOCK_READ bytes may be
 * read, those from 'end' on are not text. */
static inline __attribute__((always_inline)) uint64_t
block_words(enum bn_scan kind, const struct bn_uclass_table *t, const char *p,
            const char *end)
{
    struct block k;
    uint64_t begin;
    int sure;

    block_classify(&k, t, p, kind != BN_SCAN_GPT2);
    if (end - p < k.n)
        k.n = (int)(end - p);
    if (kind == BN_SCAN_GPT2)
        begin = block_gpt2(&k, &sure);
    else
        begin = block_llama3(&k, kind == BN_SCAN_LLAMA3 ? 3 : 1, &sure);
    if ((k.quote & begin) != 0)
        begin = block_quotes(&k, begin, p, end, kind != BN_SCAN_GPT2);
    return (begin | 1) & (((uint64_t)2 << sure) - 1);
}

#endif
