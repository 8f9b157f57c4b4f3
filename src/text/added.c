#include "config.h"
#include "text/added.h"
#include "base/mem.h"
#include "text/uclass.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct bn_finder_node {
    uint32_t child, sibling; /* 0: none */
    int32_t value;           /* -1: no text ends here */
    unsigned char byte;
};

void bn_finder_init(struct bn_finder *f)
{
    *f = (struct bn_finder){0};
    bn_grow(&f->node, &f->cap, 1, sizeof(*f->node));
    f->node[f->n++] = (struct bn_finder_node){.value = -1};
}

void bn_finder_release(struct bn_finder *f)
{
    free(f->node);
    *f = (struct bn_finder){0};
}

static uint32_t find_child(const struct bn_finder *f, uint32_t at,
                           unsigned char byte)
{
    for (at = f->node[at].child; at != 0; at = f->node[at].sibling)
        if (f->node[at].byte == byte)
            break;
    return at;
}

void bn_finder_add(struct bn_finder *f, const char *s, size_t n,
                   int32_t value)
{
    uint32_t at = 0;

    if (n == 0)
        return;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        uint32_t next = i == 0 ? f->root[c] : find_child(f, at, c);

        if (next == 0) {
            next = (uint32_t)f->n;
            bn_grow(&f->node, &f->cap, f->n + 1, sizeof(*f->node));
            f->node[f->n++] = (struct bn_finder_node){
                0, i == 0 ? 0 : f->node[at].child, -1, c};
            if (i == 0)
                f->root[c] = next;
            else
                f->node[at].child = next;
        }
        at = next;
    }
    if (f->node[at].value < 0)
        f->node[at].value = value;

    int firsts = 0;
    for (int c = 0; c < 256; c++)
        firsts += f->root[c] != 0;
    f->lone = firsts == 1 ? (unsigned char)s[0] : 0;
}

/* The longest text at s[0..n). */
static bool longest(const struct bn_finder *f, const char *s, size_t n,
                    size_t *len, int32_t *value)
{
    uint32_t at = f->root[(unsigned char)s[0]];
    bool hit = false;

    for (size_t i = 1; at != 0; i++) {
        if (f->node[at].value >= 0) {
            *len = i;
            *value = f->node[at].value;
            hit = true;
        }
        if (i == n)
            break;
        at = find_child(f, at, (unsigned char)s[i]);
    }
    return hit;
}

bool bn_finder_next(const struct bn_finder *f, const char *s, size_t n,
                    size_t from, size_t *b, size_t *e, int32_t *value)
{
    size_t len;

    if (f->n <= 1)
        return false;
    for (size_t i = from; i < n; i++) {
        if (f->lone != 0) {
            const char *p = memchr(s + i, f->lone, n - i);

            if (p == NULL)
                return false;
            i = (size_t)(p - s);
        } else {
            while (i < n && f->root[(unsigned char)s[i]] == 0)
                i++;
            if (i == n)
                return false;
        }
        if (longest(f, s + i, n - i, &len, value)) {
            *b = i;
            *e = i + len;
            return true;
        }
    }
    return false;
}

/* \w of Rust's regex crate. */
static bool is_word(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* zero-width joiners, and circled letters */
        return cp == 0x200c || cp == 0x200d || (cp >= 0x24b6 && cp <= 0x24e9)
               || (cp >= 0x1f130 && cp <= 0x1f149)
               || (cp >= 0x1f150 && cp <= 0x1f169)
               || (cp >= 0x1f170 && cp <= 0x1f189);
    }
}

static uint32_t char_at(const char *s)
{
    utf8proc_int32_t cp;

    utf8proc_iterate((const utf8proc_uint8_t *)s, -1, &cp);
    return (uint32_t)cp;
}

/* Start of the character that ends at 'at' > 0. */
static size_t back(const char *s, size_t at)
{
    at--;
    while (((unsigned char)s[at] & 0xc0) == 0x80)
        at--;
    return at;
}

static bool alone(const char *s, size_t n, size_t b, size_t e)
{
    return !(b > 0 && is_word(char_at(s + back(s, b))))
           && !(e < n && is_word(char_at(s + e)));
}

bool bn_added_next(const struct bn_finder *f, const struct bn_added *tokens,
                   const char *s, size_t n, size_t at, size_t *from,
                   size_t *b, size_t *e, int32_t *token)
{
    const struct bn_uclass_table *t;
    int len;

    for (;;) {
        if (!bn_finder_next(f, s, n, *from, b, e, token))
            return false;
        *from = *e;
        if (!tokens[*token].single_word || alone(s, n, *b, *e))
            break;
    }
    if (!tokens[*token].lstrip && !tokens[*token].rstrip)
        return true;
    t = bn_uclass_table();
    if (tokens[*token].lstrip) {
        while (*b > 0 && bn_uclass_at(t, s + back(s, *b), &len) == BN_U_SPACE)
            *b = back(s, *b);
        if (*b < at)
            *b = at;
    }
    if (tokens[*token].rstrip)
        while (*e < n && bn_uclass_at(t, s + *e, &len) == BN_U_SPACE)
            *e += (size_t)len;
    return true;
}
