#include "config.h"
#include "text/scan.h"
#include "base/mem.h"

#include <string.h>

#define MARK_TAIL                                                             \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MARK_HEAD                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"

#define SUFFIX "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define ONE_MARK "[^\\r\\n\\p{L}\\p{N}]?"
#define HEAD "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define BODY "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"

static const struct {
    enum bn_scan kind;
    const char *regex;
} known[] = {
    {BN_SCAN_GPT2, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+"
                   "| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {BN_SCAN_GPT2, "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+"
                   "| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
    {BN_SCAN_LLAMA3, MARK_HEAD "\\p{N}{1,3}" MARK_TAIL},
    /* cl100k as tiktoken writes it */
    {BN_SCAN_LLAMA3, "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+"
                     "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*"
                     "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"},
    {BN_SCAN_O200K, ONE_MARK HEAD "*" BODY "+" SUFFIX "|" ONE_MARK HEAD "+" BODY
                    "*" SUFFIX "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
                    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {BN_SCAN_QWEN2, MARK_HEAD "\\p{N}" MARK_TAIL},
};

enum bn_scan bn_scan_known(const char *regex)
{
    for (size_t i = 0; i < BN_COUNT(known); i++)
        if (strcmp(known[i].regex, regex) == 0)
            return known[i].kind;
    return BN_SCAN_NONE;
}

const char *bn_scan_nth(size_t i, enum bn_scan *kind)
{
    if (i >= BN_COUNT(known))
        return NULL;
    *kind = known[i].kind;
    return known[i].regex;
}

const char *bn_scan_regex(enum bn_scan kind)
{
    for (size_t i = 0; i < BN_COUNT(known); i++)
        if (known[i].kind == kind)
            return known[i].regex;
    return NULL;
}
