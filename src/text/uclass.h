/* Unicode classes as pre-tokenizers see them: letter, number, white space,
 * anything else; and what normalization leaves alone. One table for all code
 * points, built at first use.
 */
#ifndef BN_TEXT_UCLASS_H
#define BN_TEXT_UCLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bn_uclass {
    BN_U_OTHER,
    BN_U_LETTER, /* \p{L} */
    BN_U_NUMBER, /* \p{N} */
    BN_U_SPACE,  /* \s: the White_Space property */
    BN_U_END = 7 /* past the end of the text; never in the table */
};

/* Pages of 256 code points; equal pages are shared. */
struct bn_uclass_table {
    uint8_t ascii[128];
    uint16_t page[0x1100];
    uint8_t (*data)[256]; /* a class, and the bits below */
};

enum {
    BN_U_CLASS = 7,
    /* In NFC by itself, and never changed by or changing its neighbours. */
    BN_U_NFC_INERT = 8,
    /* In words that may begin with capitals, the two halves: */
    BN_U_HEAD = 16, /* \p{Lu}, \p{Lt}, \p{Lm}, \p{Lo}, \p{M} */
    BN_U_BODY = 32  /* \p{Ll}, \p{Lm}, \p{Lo}, \p{M} */
};

/* The table, built on the first call. Thread safe. */
const struct bn_uclass_table *bn_uclass_table(void);

static inline unsigned bn_uclass_get(const struct bn_uclass_table *t,
                                     uint32_t cp)
{
    return t->data[t->page[cp >> 8]][cp & 255] & BN_U_CLASS;
}

static inline bool bn_nfc_inert(const struct bn_uclass_table *t, uint32_t cp)
{
    return t->data[t->page[cp >> 8]][cp & 255] & BN_U_NFC_INERT;
}

/* The character at 's' (well-formed UTF-8) and its length in bytes. */
static inline uint32_t bn_uclass_char(const char *str, int *len)
{
    const unsigned char *s = (const unsigned char *)str;

    if (s[0] < 0x80) {
        *len = 1;
        return s[0];
    }
    if (s[0] < 0xe0) {
        *len = 2;
        return (s[0] & 31u) << 6 | (s[1] & 63u);
    }
    if (s[0] < 0xf0) {
        *len = 3;
        return (s[0] & 15u) << 12 | (s[1] & 63u) << 6 | (s[2] & 63u);
    }
    *len = 4;
    return (s[0] & 7u) << 18 | (s[1] & 63u) << 12 | (s[2] & 63u) << 6
           | (s[3] & 63u);
}

/* Its class. */
static inline unsigned bn_uclass_at(const struct bn_uclass_table *t,
                                    const char *s, int *len)
{
    uint32_t cp = bn_uclass_char(s, len);

    return cp < 0x80 ? t->ascii[cp] : bn_uclass_get(t, cp);
}

/* Its class and bits. */
static inline unsigned bn_uclass_bits_at(const struct bn_uclass_table *t,
                                         const char *s, int *len)
{
    uint32_t cp = bn_uclass_char(s, len);

    return t->data[t->page[cp >> 8]][cp & 255];
}

#endif
