/* Whole texts at many bytes a step: what must be looked at everywhere but is
 * rarely found.
 */
#ifndef BN_TEXT_SIMD_H
#define BN_TEXT_SIMD_H

#include <stdbool.h>
#include <stddef.h>

/* BN_HAVE_V3 (from configure): x86-64, where parts are compiled a second time
 * for newer processors. BN_V3 marks such a function, bn_has_v3 says whether
 * it may be called. */
#ifdef BN_HAVE_V3
#define BN_V3 __attribute__((target("avx2,bmi,bmi2,aes,popcnt")))
static inline bool bn_has_v3(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi")
           && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes")
           && __builtin_cpu_supports("popcnt");
}
#else
static inline bool bn_has_v3(void)
{
    return false;
}
#endif

/* bn_utf8_check, faster: offset of the first byte that is not well-formed
 * UTF-8; n if all is. */
size_t bn_text_check(const char *s, size_t n);

/* Bytes at the start of s[0..n), well-formed UTF-8, that normalization to
 * NFC surely leaves alone (characters below U+0300, ideographs, Hangul
 * syllables). Stops at a character or at n, and may stop early. */
size_t bn_bytes_plain(const char *s, size_t n);

#endif
