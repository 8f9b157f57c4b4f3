#include "config.h"
#include "text/uclass.h"
#include "base/mem.h"

#include <pthread.h>
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

static void build(void)
{
    size_t n = 0, cap = 0;

    for (uint32_t p = 0; p < 0x1100; p++) {
        uint8_t page[256];
        size_t i = 0;

        for (uint32_t c = 0; c < 256; c++)
            page[c] = classify(p << 8 | c);
        while (i < n && memcmp(table.data[i], page, 256) != 0)
            i++;
        if (i == n) {
            bn_grow(&table.data, &cap, n + 1, 256);
            memcpy(table.data[n++], page, 256);
        }
        table.page[p] = (uint16_t)i;
    }
}

const struct bn_uclass_table *bn_uclass_table(void)
{
    pthread_once(&once, build);
    return &table;
}
