#include "config.h"
#include "text/simd.h"
#include "base/str.h"

#include <string.h>
#ifdef BN_HAVE_V3
#include <immintrin.h>
#endif

#ifdef BN_HAVE_V3
/* The check of Keiser and Lemire, "Validating UTF-8 in less than one
 * instruction per byte" (2020): three table look-ups by nibble say which
 * errors a pair of bytes may be part of. */
enum {
    TOO_SHORT = 1,      /* lead, then no continuation */
    TOO_LONG = 2,       /* ASCII, then a continuation */
    OVERLONG_3 = 4,     /* e0 80..9f */
    TOO_LARGE = 8,      /* f4 90.., f5.. */
    SURROGATE = 16,     /* ed a0.. */
    OVERLONG_2 = 32,    /* c0, c1 */
    TOO_LARGE_2 = 64,   /* f5.. 80.. */
    OVERLONG_4 = 64,    /* f0 80..8f */
    TWO_CONTS = 128,    /* a continuation behind a continuation */
    CARRY = TOO_SHORT | TOO_LONG | TWO_CONTS
};

#define TWICE(...) _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)
#define C(x) ((char)(x))

/* x shifted by n bytes, filled from the end of 'before'. */
#define SHIFT_IN(x, before, n)                                                \
    _mm256_alignr_epi8(x, _mm256_permute2x128_si256(before, x, 0x21), 16 - (n))

BN_V3 static inline __m256i errors(__m256i x, __m256i before)
{
    const __m256i low4 = _mm256_set1_epi8(15);
    const __m256i first_high = TWICE(
        TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
        TOO_LONG, C(TWO_CONTS), C(TWO_CONTS), C(TWO_CONTS), C(TWO_CONTS),
        TOO_SHORT | OVERLONG_2, TOO_SHORT, TOO_SHORT | OVERLONG_3 | SURROGATE,
        TOO_SHORT | TOO_LARGE | TOO_LARGE_2 | OVERLONG_4);
    const __m256i first_low = TWICE(
        C(CARRY | OVERLONG_3 | OVERLONG_2 | OVERLONG_4),
        C(CARRY | OVERLONG_2), C(CARRY), C(CARRY), C(CARRY | TOO_LARGE),
        C(CARRY | TOO_LARGE | TOO_LARGE_2), C(CARRY | TOO_LARGE | TOO_LARGE_2),
        C(CARRY | TOO_LARGE | TOO_LARGE_2), C(CARRY | TOO_LARGE | TOO_LARGE_2),
        C(CARRY | TOO_LARGE | TOO_LARGE_2), C(CARRY | TOO_LARGE | TOO_LARGE_2),
        C(CARRY | TOO_LARGE | TOO_LARGE_2), C(CARRY | TOO_LARGE | TOO_LARGE_2),
        C(CARRY | TOO_LARGE | TOO_LARGE_2 | SURROGATE),
        C(CARRY | TOO_LARGE | TOO_LARGE_2), C(CARRY | TOO_LARGE | TOO_LARGE_2));
    const __m256i second_high = TWICE(
        TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
        TOO_SHORT, TOO_SHORT,
        C(TOO_LONG | OVERLONG_2 | TWO_CONTS | OVERLONG_3 | TOO_LARGE_2
          | OVERLONG_4),
        C(TOO_LONG | OVERLONG_2 | TWO_CONTS | OVERLONG_3 | TOO_LARGE),
        C(TOO_LONG | OVERLONG_2 | TWO_CONTS | SURROGATE | TOO_LARGE),
        C(TOO_LONG | OVERLONG_2 | TWO_CONTS | SURROGATE | TOO_LARGE),
        TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT);
    __m256i prev1 = SHIFT_IN(x, before, 1);
    __m256i e = _mm256_and_si256(
        _mm256_and_si256(
            _mm256_shuffle_epi8(first_high,
                                _mm256_and_si256(_mm256_srli_epi16(prev1, 4),
                                                 low4)),
            _mm256_shuffle_epi8(first_low, _mm256_and_si256(prev1, low4))),
        _mm256_shuffle_epi8(second_high,
                            _mm256_and_si256(_mm256_srli_epi16(x, 4), low4)));
    /* Third and fourth bytes must be continuations, and are allowed to be
     * two in a row. */
    __m256i third = _mm256_subs_epu8(SHIFT_IN(x, before, 2),
                                     _mm256_set1_epi8(0x60));
    __m256i fourth = _mm256_subs_epu8(SHIFT_IN(x, before, 3),
                                      _mm256_set1_epi8(0x70));
    __m256i must = _mm256_and_si256(_mm256_or_si256(third, fourth),
                                    _mm256_set1_epi8(C(0x80)));

    return _mm256_xor_si256(e, must);
}

/* Bytes of s[0..n) in whole blocks that are surely well formed and end at a
 * character. */
BN_V3 static size_t check_v3(const char *s, size_t n)
{
    __m256i before = _mm256_setzero_si256();
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(s + i));

        /* All ASCII behind ASCII: the last bytes of 'before' decide. */
        if (_mm256_testz_si256(_mm256_or_si256(x, before),
                               _mm256_set1_epi8(C(0x80)))) {
            before = x;
            continue;
        }
        __m256i e = errors(x, before);
        if (!_mm256_testz_si256(e, e))
            break;
        before = x;
    }
    /* Back to the start of the last character: it may be cut. */
    while (i > 0 && ((unsigned char)s[i - 1] & 0xc0) == 0x80)
        i--;
    return i > 0 && (unsigned char)s[i - 1] >= 0xc0 ? i - 1 : i;
}

/* See bn_bytes_plain; whole blocks only. */
BN_V3 static size_t plain_v3(const char *s, size_t n)
{
    size_t i = 0;

    for (; i + 33 <= n; i += 32) {
        const __m256i *p = (const __m256i *)(const void *)(s + i);
        __m256i x = _mm256_loadu_si256(p);
        __m256i y = _mm256_loadu_si256(
            (const __m256i *)(const void *)(s + i + 1));
        __m256i low = _mm256_cmpgt_epi8(_mm256_set1_epi8(C(0xcc)), x);
        __m256i ascii = _mm256_cmpgt_epi8(x, _mm256_set1_epi8(-1));
        __m256i han = _mm256_and_si256(
            _mm256_cmpgt_epi8(x, _mm256_set1_epi8(C(0xe4))),
            _mm256_cmpgt_epi8(_mm256_set1_epi8(C(0xee)), x));
        __m256i ea = _mm256_and_si256(
            _mm256_cmpeq_epi8(x, _mm256_set1_epi8(C(0xea))),
            _mm256_cmpgt_epi8(_mm256_set1_epi8(C(0xb0)), y));
        __m256i ed = _mm256_and_si256(
            _mm256_cmpeq_epi8(x, _mm256_set1_epi8(C(0xed))),
            _mm256_cmpgt_epi8(y, _mm256_set1_epi8(C(0x9d))));
        __m256i good = _mm256_andnot_si256(
            _mm256_or_si256(ea, ed),
            _mm256_or_si256(_mm256_or_si256(low, ascii), han));
        unsigned bad = ~(unsigned)_mm256_movemask_epi8(good);

        if (bad != 0)
            return i + (size_t)__builtin_ctz(bad);
    }
    /* Not in the middle of a character. */
    while (i > 0 && i < n && ((unsigned char)s[i] & 0xc0) == 0x80)
        i--;
    return i;
}
#endif

size_t bn_text_check(const char *s, size_t n)
{
    size_t i = 0;

#ifdef BN_HAVE_V3
    if (n >= 64 && bn_has_v3())
        i = check_v3(s, n);
#endif
    return i + bn_utf8_check(s + i, n - i);
}

size_t bn_bytes_plain(const char *s, size_t n)
{
    size_t i = 0;

#ifdef BN_HAVE_V3
    if (n >= 64 && bn_has_v3())
        i = plain_v3(s, n);
    if (i + 64 < n)
        return i;
#endif
    while (i < n && (unsigned char)s[i] < 0x80)
        i++;
    return i;
}
