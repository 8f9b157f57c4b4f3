/* What the ways to merge a word share; for bpe_merge.c and bpe_windows.c. */
#ifndef BN_TEXT_BPE_IMPL_H
#define BN_TEXT_BPE_IMPL_H

#include "text/bpe.h"
#include "text/simd.h"

#include <string.h>
#ifdef BN_HAVE_V3
#include <immintrin.h>
#endif

enum { BN_BPE_SMALL = 64 }; /* symbols that are merged by an array */
#define BN_BPE_GONE UINT32_MAX

/* Merge id[0..n) in place, n > 0; len[i], if not NULL, becomes the number of
 * symbols in id[i]. Returns the new n. */
size_t bn_bpe_piece(const struct bn_bpe *b, struct bn_bpe_work *w, uint32_t *id,
                    uint32_t *len, size_t n);
/* Merge w->sym[0..w->n), more than BN_BPE_SMALL symbols, no prefix. */
void bn_bpe_windows(const struct bn_bpe *b, struct bn_bpe_work *w);

typedef int32_t v8i32 __attribute__((vector_size(32)));

#define BN_INLINE static inline __attribute__((always_inline))

/* The least of v[0..n), n a multiple of 8 and at least 8. */
BN_INLINE int32_t bn_least(const int32_t *v, size_t n)
{
    v8i32 m, x;
    int32_t best;

    memcpy(&m, v, sizeof(m));
    for (size_t i = 8; i < n; i += 8) {
        memcpy(&x, v + i, sizeof(x));
        v8i32 less = x < m;
        m = (x & less) | (m & ~less);
    }
    best = m[0];
    for (int i = 1; i < 8; i++)
        best = m[i] < best ? m[i] : best;
    return best;
}

#ifdef BN_HAVE_V3
/* The same in fewer steps. */
BN_V3 static inline int32_t bn_least_v3(const int32_t *v, size_t n)
{
    const __m256i *p = (const __m256i *)(const void *)v;
    __m256i m = _mm256_loadu_si256(p);

    for (size_t i = 1; i < n / 8; i++)
        m = _mm256_min_epi32(m, _mm256_loadu_si256(p + i));
    __m128i x = _mm_min_epi32(_mm256_castsi256_si128(m),
                              _mm256_extracti128_si256(m, 1));
    x = _mm_min_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    x = _mm_min_epi32(x, _mm_shuffle_epi32(x, 0xb1));
    return _mm_cvtsi128_si32(x);
}
#endif


#endif
