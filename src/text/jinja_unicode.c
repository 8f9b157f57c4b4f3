/* Strings as Python has them: characters, case, whitespace. Data from
 * utf8proc; what it lacks (upper case of more than one letter, Unicode's
 * SpecialCasing.txt) is in a table here.
 */
#include "config.h"
#include "text/jinja.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

size_t ju_get(const char *s, size_t n, uint32_t *cp)
{
    int len;

    if ((unsigned char)s[0] < 0x80) {
        *cp = (unsigned char)s[0];
        return 1;
    }
    len = bn_utf8_get(s, n, cp);
    if (len > 0)
        return (size_t)len;
    *cp = 0xfffd;
    return 1;
}

size_t ju_len(struct jv s)
{
    size_t n = 0;

    for (size_t i = 0; i < s.n; i++)
        n += (s.u.s[i] & 0xc0) != 0x80;
    return n;
}

size_t ju_offset(struct jv s, size_t chars)
{
    size_t i = 0;

    for (; i < s.n; i++) {
        if ((s.u.s[i] & 0xc0) == 0x80)
            continue;
        if (chars == 0)
            break;
        chars--;
    }
    return i;
}

bool ju_space(uint32_t cp)
{
    if (cp < 0x80)
        return (cp >= 0x09 && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x20);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680
           || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029
           || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool ju_printable(uint32_t cp)
{
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    case UTF8PROC_CATEGORY_ZS:
        return cp == ' ';
    default:
        return true;
    }
}

bool ju_alpha(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);

    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool ju_decimal(uint32_t cp)
{
    return utf8proc_category((utf8proc_int32_t)cp) == UTF8PROC_CATEGORY_ND;
}

static bool is_cased(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);

    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LT)
           || utf8proc_toupper((utf8proc_int32_t)cp) != (int32_t)cp
           || utf8proc_tolower((utf8proc_int32_t)cp) != (int32_t)cp;
}

/* Letters whose upper or title case is several letters. */
static const struct special {
    uint32_t cp;
    uint32_t upper[3], title[3];
} specials[] = {
#include "text/jinja_case.inc"
};

static int by_cp(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = ((const struct special *)b)->cp;

    return x < y ? -1 : x > y;
}

static void add_case(struct jb *b, uint32_t cp, int how)
{
    char ascii;

    if (cp < 0x80) {
        bool up = how != JU_LOWER;

        ascii = (char)(up && cp >= 'a' && cp <= 'z' ? cp - 32
                       : !up && cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
        jb_add(b, &ascii, 1);
        return;
    }
    if (how == JU_LOWER) {
        if (cp == 0x130)
            jb_adds(b, "i\xcc\x87");
        else
            jb_cp(b, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
        return;
    }
    const struct special *s =
        bsearch(&cp, specials, sizeof(specials) / sizeof(specials[0]),
                sizeof(specials[0]), by_cp);
    if (s == NULL) {
        jb_cp(b, (uint32_t)(how == JU_UPPER
                                ? utf8proc_toupper((utf8proc_int32_t)cp)
                                : utf8proc_totitle((utf8proc_int32_t)cp)));
        return;
    }
    const uint32_t *to = how == JU_UPPER ? s->upper : s->title;
    for (int i = 0; i < 3 && to[i] != 0; i++)
        jb_cp(b, to[i]);
}

/* Greek capital sigma ends a word as a letter of its own. */
static bool final_sigma(struct jv s, size_t i, bool word_before)
{
    if (!word_before)
        return false;
    for (i += 2; i < s.n;) {
        uint32_t cp;

        i += ju_get(s.u.s + i, s.n - i, &cp);
        if (is_cased(cp))
            return false;
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        if (c != UTF8PROC_CATEGORY_MN && cp != '\'' && cp != 0x2019)
            return true;
    }
    return true;
}

int jx_case(struct jx *x, struct jv s, int how, struct jv *out)
{
    struct jb b;
    bool in_word = false;

    jb_begin(&b, x, s.n + 1);
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        size_t len = ju_get(s.u.s + i, s.n - i, &cp);
        bool cased = cp < 0x80 ? (cp | 32) >= 'a' && (cp | 32) <= 'z'
                               : is_cased(cp);
        int to = how;

        if (how == JU_TITLE)
            to = in_word ? JU_LOWER : JU_TITLE;
        else if (how == JU_CAPITALIZE)
            to = i == 0 ? JU_TITLE : JU_LOWER;
        else if (how == JU_SWAP)
            to = cp == (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp)
                     ? JU_UPPER : JU_LOWER;
        if (cp == 0x3a3 && to == JU_LOWER && final_sigma(s, i, in_word))
            jb_cp(&b, 0x3c2);
        else if (cp == 0xfffd && len == 1)
            jb_add(&b, s.u.s + i, 1);
        else
            add_case(&b, cp, to);
        in_word = cased;
        i += len;
    }
    if (jb_end(&b, out) < 0)
        return -1;
    out->flag = s.flag;
    return 0;
}

static bool all_case(struct jv s, utf8proc_category_t want)
{
    bool any = false;

    for (size_t i = 0; i < s.n;) {
        uint32_t cp;

        i += ju_get(s.u.s + i, s.n - i, &cp);
        utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
        if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LT) {
            if (c != want)
                return false;
            any = true;
        }
    }
    return any;
}

bool ju_is_upper(struct jv s)
{
    return all_case(s, UTF8PROC_CATEGORY_LU);
}

bool ju_is_lower(struct jv s)
{
    return all_case(s, UTF8PROC_CATEGORY_LL);
}

static bool strips(const char *s, size_t n, uint32_t cp,
                   const struct jv *chars)
{
    if (chars == NULL)
        return ju_space(cp);
    for (size_t i = 0; i + n <= chars->n; i++) {
        if ((chars->u.s[i] & 0xc0) != 0x80
            && memcmp(chars->u.s + i, s, n) == 0)
            return true;
    }
    return false;
}

struct jv ju_strip(struct jv s, int sides, const struct jv *chars)
{
    uint32_t cp;

    while ((sides & JU_LEFT) != 0 && s.n > 0) {
        size_t len = ju_get(s.u.s, s.n, &cp);

        if (!strips(s.u.s, len, cp, chars))
            break;
        s.u.s += len;
        s.n -= len;
    }
    while ((sides & JU_RIGHT) != 0 && s.n > 0) {
        size_t i = s.n - 1;

        while (i > 0 && (s.u.s[i] & 0xc0) == 0x80)
            i--;
        if (i + ju_get(s.u.s + i, s.n - i, &cp) != s.n
            || !strips(s.u.s + i, s.n - i, cp, chars))
            break;
        s.n = i;
    }
    return s;
}

size_t ju_line(struct jv s, size_t *end)
{
    *end = 0;
    for (size_t i = 0; i < s.n;) {
        uint32_t cp;
        size_t len = ju_get(s.u.s + i, s.n - i, &cp);

        if ((cp >= 0x0a && cp <= 0x0d) || (cp >= 0x1c && cp <= 0x1e)
            || cp == 0x85 || cp == 0x2028 || cp == 0x2029) {
            *end = len;
            if (cp == '\r' && i + 1 < s.n && s.u.s[i + 1] == '\n')
                *end = 2;
            return i;
        }
        i += len;
    }
    return s.n;
}

/* Copy the digits of a number without the "_" between two of them. false
 * if it does not fit or a "_" stands elsewhere. */
static bool plain_number(struct jv s, char *buf, size_t room)
{
    size_t n = 0;

    s = ju_strip(s, JU_BOTH, NULL);
    for (size_t i = 0; i < s.n; i++) {
        char ch = s.u.s[i];

        if (ch == '_' && i > 0 && i + 1 < s.n
            && isalnum((unsigned char)s.u.s[i - 1])
            && isalnum((unsigned char)s.u.s[i + 1]))
            continue;
        if (ch == '_' || ch == '\0' || n + 1 >= room)
            return false;
        buf[n++] = ch;
    }
    buf[n] = '\0';
    return n > 0;
}

int jx_parse_int(struct jx *x, struct jv s, int base, int64_t *out, bool *ok)
{
    char buf[100], *end, *p = buf;

    *ok = false;
    if ((base != 0 && base < 2) || base > 36)
        return jx_fail(x, "the base of an integer is 0 or 2 to 36");
    if (!plain_number(s, buf, sizeof(buf)))
        return 0;
    p += *p == '-' || *p == '+';
    int lead = p[0] == '0' ? tolower(p[1]) : 0;
    int own = lead == 'x' ? 16 : lead == 'o' ? 8 : lead == 'b' ? 2 : 0;
    if (own != 0 && (base == 0 || base == own)) {
        base = own;
        if (own != 16) /* strtoll knows 0x alone */
            memmove(p, p + 2, strlen(p + 2) + 1);
    } else if (base == 0) {
        base = 10;
    }
    if (!isalnum((unsigned char)*p))
        return 0;
    errno = 0;
    *out = strtoll(buf, &end, base);
    *ok = *end == '\0';
    if (*ok && errno == ERANGE)
        return jx_fail(x, "integer too large: integers have 64 bits here");
    return 0;
}

bool ju_parse_float(struct jv s, double *out)
{
    static const char *const words[] = {"inf", "infinity", "nan"};
    char buf[400], *end, *p = buf;

    if (!plain_number(s, buf, sizeof(buf)))
        return false;
    p += *p == '-' || *p == '+';
    bool word = false;
    for (int i = 0; i < 3; i++)
        word |= strcasecmp(p, words[i]) == 0;
    if (!word && p[strspn(p, "0123456789.eE+-")] != '\0')
        return false;
    *out = strtod(buf, &end);
    return *end == '\0' && end != buf;
}
