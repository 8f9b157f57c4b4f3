#include "config.h"
#include "text/uclass.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static struct bn_uclass_table table;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint8_t classify(uint32_t cp)
{
    if ((cp >= 9 && cp <= 13) || cp == 0x85)
        return BN_U_SPACE;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return BN_U_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return BN_U_NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return BN_U_SPACE;
    default:
        return BN_U_OTHER;
    }
}

static uint8_t halves(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
        return BN_U_HEAD;
    case UTF8PROC_CATEGORY_LL:
        return BN_U_BODY;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return BN_U_HEAD | BN_U_BODY;
    default:
        return 0;
    }
}

/* Characters that can be the second half of a composition: everything but
 * the first in some canonical decomposition. 'bits' has one bit each. */
static void mark_seconds(uint8_t *bits)
{
    for (utf8proc_int32_t c = 0; c < 0x110000; c++) {
        const utf8proc_property_t *p = utf8proc_get_property(c);
        utf8proc_int32_t to[32];
        int last = 0;

        if (p->decomp_seqindex == UINT16_MAX || p->decomp_type != 0)
            continue;
        utf8proc_ssize_t n = utf8proc_decompose_char(
            c, to, 32, UTF8PROC_DECOMPOSE, &last);
        for (utf8proc_ssize_t i = 1; i < n && i < 32; i++)
            bits[to[i] / 8] |= (uint8_t)(1 << to[i] % 8);
    }
}

/* See BN_U_NFC_INERT. Hangul syllables may take a final consonant, so their
 * parts are what is not inert. */
static bool inert(uint32_t cp, const uint8_t *seconds)
{
    const utf8proc_property_t *p =
        utf8proc_get_property((utf8proc_int32_t)cp);
    bool jamo = cp >= 0x1100 && cp < 0x1200;

    return !jamo && p->combining_class == 0
           && (p->decomp_seqindex == UINT16_MAX || p->decomp_type != 0)
           && !(seconds[cp / 8] >> cp % 8 & 1);
}

static void build(void)
{
    size_t n = 0, cap = 0;
    uint8_t *seconds = BN_NEWN(uint8_t, 0x110000 / 8);

    mark_seconds(seconds);
    for (uint32_t p = 0; p < 0x1100; p++) {
        uint8_t page[256];
        size_t i = 0;

        for (uint32_t c = 0; c < 256; c++) {
            page[c] = classify(p << 8 | c) | halves(p << 8 | c);
            if (inert(p << 8 | c, seconds))
                page[c] |= BN_U_NFC_INERT;
        }
        while (i < n && memcmp(table.data[i], page, 256) != 0)
            i++;
        if (i == n) {
            bn_grow(&table.data, &cap, n + 1, 256);
            memcpy(table.data[n++], page, 256);
        }
        table.page[p] = (uint16_t)i;
    }
    for (uint32_t c = 0; c < 128; c++)
        table.ascii[c] = (uint8_t)bn_uclass_get(&table, c);
    free(seconds);
}

const struct bn_uclass_table *bn_uclass_table(void)
{
    pthread_once(&once, build);
    return &table;
}
