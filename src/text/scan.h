/* Hand-written matchers for the pre-tokenizer expressions that nearly all
 * byte-level tokenizers use. Each is equal to its regular expression
 * (bn_scan_regex) on all well-formed UTF-8.
 *
 * The expressions look only forward, so the end of a word depends on nothing
 * before its start. They match everywhere: words cover the text.
 */
#ifndef BN_TEXT_SCAN_H
#define BN_TEXT_SCAN_H

#include "text/uclass.h"

#include <stdbool.h>

enum bn_scan {
    BN_SCAN_NONE,
    BN_SCAN_GPT2,   /* letters, digits, the rest, each with one space */
    BN_SCAN_LLAMA3, /* any mark before letters, digits by up to three */
    BN_SCAN_QWEN2,  /* the same, digits one by one */
    BN_SCAN_O200K   /* as Llama 3, capitals begin a word (GPT-4o, gpt-oss) */
};

/* The family of an expression; BN_SCAN_NONE if it is not a known one. */
enum bn_scan bn_scan_known(const char *regex);
/* An expression of the family, and the i-th known of all (NULL: there are no
 * more), for tests. */
const char *bn_scan_regex(enum bn_scan kind);
const char *bn_scan_nth(size_t i, enum bn_scan *kind);

/* Length of the contraction ('s, 're, ...) at s, where s[0] is '\''; 0 if
 * there is none. fold: in any case, the long s included. */
static inline size_t bn_scan_contraction(const char *s, const char *end,
                                         bool fold)
{
    size_t n = (size_t)(end - s);
    unsigned a = n > 1 ? (unsigned char)s[1] : 0;
    unsigned b = n > 2 ? (unsigned char)s[2] : 0;

    if (fold) {
        if (a == 0xc5 && b == 0xbf)
            return 3;
        a |= a < 0x80 && a >= 'A' ? 0x20 : 0;
        b |= b < 0x80 && b >= 'A' ? 0x20 : 0;
    }
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if ((a == 'l' && b == 'l') || (a == 'v' && b == 'e')
        || (a == 'r' && b == 'e'))
        return 3;
    return 0;
}

/* The end of the run of class 'want' that goes on at s. */
static inline const char *bn_scan_run(const struct bn_uclass_table *t,
                                      const char *s, const char *end,
                                      unsigned want)
{
    int len;

    while (s < end && bn_uclass_at(t, s, &len) == want)
        s += len;
    return s;
}

/* White space at s: up to its last line break if 'lines'; else all of it
 * before the end, or all but the last character, which goes to what follows
 * or stands alone. */
static inline const char *bn_scan_space(const struct bn_uclass_table *t,
                                        const char *s, const char *end,
                                        bool lines)
{
    const char *p = s, *last = s, *brk = NULL;
    int len;

    while (p < end && bn_uclass_at(t, p, &len) == BN_U_SPACE) {
        last = p;
        if (*p == '\n' || *p == '\r')
            brk = p + 1;
        p += len;
    }
    if (lines && brk != NULL)
        return brk;
    return p == end || last == s ? p : last;
}

static inline const char *bn_scan_gpt2(const struct bn_uclass_table *t,
                                       const char *s, const char *end)
{
    const char *p = s;
    int len;

    if (*s == '\'') {
        size_t n = bn_scan_contraction(s, end, false);

        if (n > 0)
            return s + n;
    }
    if (*s == ' ' && s + 1 < end)
        p = s + 1;
    unsigned c = bn_uclass_at(t, p, &len);
    if (c == BN_U_SPACE)
        return bn_scan_space(t, s, end, false);
    return bn_scan_run(t, p + len, end, c);
}

static inline const char *bn_scan_digits(const struct bn_uclass_table *t,
                                         const char *s, const char *end,
                                         int most)
{
    int len;

    while (most-- > 0 && s < end && bn_uclass_at(t, s, &len) == BN_U_NUMBER)
        s += len;
    return s;
}

static inline const char *bn_scan_llama3(const struct bn_uclass_table *t,
                                         const char *s, const char *end,
                                         int digits)
{
    int len, len2 = 0;
    unsigned next = BN_U_END;

    if (*s == '\'') {
        size_t n = bn_scan_contraction(s, end, true);

        if (n > 0)
            return s + n;
    }
    unsigned c = bn_uclass_at(t, s, &len);
    if (c == BN_U_LETTER)
        return bn_scan_run(t, s + len, end, c);
    if (c == BN_U_NUMBER)
        return bn_scan_digits(t, s, end, digits);
    if (s + len < end)
        next = bn_uclass_at(t, s + len, &len2);
    if (next == BN_U_LETTER && *s != '\n' && *s != '\r')
        return bn_scan_run(t, s + len + len2, end, next);
    if (c == BN_U_SPACE && !(*s == ' ' && next == BN_U_OTHER))
        return bn_scan_space(t, s, end, true);
    const char *p = bn_scan_run(t, s + len, end, BN_U_OTHER);
    while (p < end && (*p == '\n' || *p == '\r'))
        p++;
    return p;
}

/* The longest "HEAD* BODY+" at s, as the expression finds it; NULL: none, and
 * '*head' is where the run of HEAD ends. Characters may be of both; then HEAD
 * has taken them, and gives back as little as it must. */
static inline const char *bn_scan_capitals(const struct bn_uclass_table *t,
                                           const char *s, const char *end,
                                           const char **head)
{
    const char *both = NULL;
    unsigned bits = 0;
    int len = 0;

    for (; s < end; s += len) {
        bits = bn_uclass_bits_at(t, s, &len);
        if (!(bits & BN_U_HEAD))
            break;
        if (bits & BN_U_BODY)
            both = s + len;
    }
    *head = s;
    if (s == end || !(bits & BN_U_BODY))
        return both;
    do
        s += len;
    while (s < end && bn_uclass_bits_at(t, s, &len) & BN_U_BODY);
    return s;
}

/* A word of letters at s, one mark in front allowed; NULL: there is none. */
static inline const char *bn_scan_cased(const struct bn_uclass_table *t,
                                        const char *s, const char *end)
{
    const char *from = s, *p, *head, *own;
    int len;
    unsigned bits = bn_uclass_bits_at(t, s, &len);

    if ((bits & BN_U_CLASS) != BN_U_LETTER)
        from = s + len;
    p = bn_scan_capitals(t, from, end, &head);
    /* A mark that combines is a letter itself if need be. */
    if (p == NULL && from > s && bits & BN_U_BODY)
        p = bn_scan_capitals(t, s, end, &own);
    if (p == NULL && head > from)
        p = head;
    return p != NULL && p < end && *p == '\''
               ? p + bn_scan_contraction(p, end, true)
               : p;
}

static inline const char *bn_scan_o200k(const struct bn_uclass_table *t,
                                        const char *s, const char *end)
{
    int len, len2;
    unsigned c = bn_uclass_at(t, s, &len);
    const char *p;

    if (c == BN_U_NUMBER)
        return bn_scan_digits(t, s, end, 3);
    p = *s == '\n' || *s == '\r' ? NULL : bn_scan_cased(t, s, end);
    if (p != NULL)
        return p;
    if (c == BN_U_SPACE
        && !(*s == ' ' && s + 1 < end
             && bn_uclass_at(t, s + 1, &len2) == BN_U_OTHER))
        return bn_scan_space(t, s, end, true);
    p = bn_scan_run(t, s + len, end, BN_U_OTHER);
    while (p < end && (*p == '\n' || *p == '\r' || *p == '/'))
        p++;
    return p;
}

/* The end of the word that starts at s < end. */
static inline const char *bn_scan_next(enum bn_scan kind,
                                       const struct bn_uclass_table *t,
                                       const char *s, const char *end)
{
    switch (kind) {
    case BN_SCAN_GPT2:
        return bn_scan_gpt2(t, s, end);
    case BN_SCAN_LLAMA3:
        return bn_scan_llama3(t, s, end, 3);
    case BN_SCAN_O200K:
        return bn_scan_o200k(t, s, end);
    default:
        return bn_scan_llama3(t, s, end, 1);
    }
}

#endif
