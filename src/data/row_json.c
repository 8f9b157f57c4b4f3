/* The hot path of reading: one pass over the bytes of a row. */
#include "config.h"
#include "data/row.h"

#include "base/mem.h"
#include "text/simd.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct scan {
    const char *p, *end, *begin;
    struct bn_str *scratch; /* has room for all strings of the row */
    const char *bad;        /* what is wrong; NULL so far */
    char *why;
};

static bool stop(struct scan *s, const char *what)
{
    if (s->bad == NULL) {
        snprintf(s->why, 200, "%s at byte %zu of the row", what,
                 (size_t)(s->p - s->begin) + 1);
        s->bad = s->why;
    }
    return false;
}

static void skip_space(struct scan *s)
{
    while (s->p < s->end
           && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r'
               || *s->p == '\t'))
        s->p++;
}

/* A bit pattern that is not zero if one of the eight bytes is a quote, a
 * backslash or a control character. High bytes may give false alarms, which
 * cost only time. */
static uint64_t special(uint64_t x)
{
    const uint64_t ones = 0x0101010101010101u, high = ones * 0x80;
    uint64_t q = x ^ ones * '"', b = x ^ ones * '\\';

    return ((q - ones) & ~q & high) | ((b - ones) & ~b & high)
           | ((x - ones * 0x20) & ~x & high);
}

/* Move to the next quote, backslash or control character. */
static void skip_plain(struct scan *s)
{
    const char *p = s->p;
    uint64_t x;

    while (s->end - p >= 8) {
        memcpy(&x, p, 8);
        uint64_t hit = special(x);
        if (hit != 0) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            p += __builtin_ctzll(hit) / 8;
#endif
            break;
        }
        p += 8;
    }
    while (p < s->end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
        p++;
    s->p = p;
}

static int hex4(struct scan *s)
{
    int v = 0;

    if (s->end - s->p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = *s->p++;

        if (c >= '0' && c <= '9')
            v = v * 16 + (c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            v = v * 16 + ((c | 32) - 'a' + 10);
        else
            return -1;
    }
    return v;
}

/* \uXXXX, perhaps two of them; s->p is after the u. */
static bool unescape_u(struct scan *s, char *out, int *len)
{
    int a = hex4(s), b;

    if (a < 0)
        return stop(s, "a \\u without four hex digits");
    if (a >= 0xdc00 && a <= 0xdfff)
        return stop(s, "a lone surrogate");
    if (a >= 0xd800 && a <= 0xdbff) {
        if (s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u')
            return stop(s, "a lone surrogate");
        s->p += 2;
        b = hex4(s);
        if (b < 0xdc00 || b > 0xdfff)
            return stop(s, "a lone surrogate");
        a = 0x10000 + ((a - 0xd800) << 10) + (b - 0xdc00);
    }
    *len = bn_utf8_put(out, (uint32_t)a);
    return true;
}

static bool unescape(struct scan *s, char *out, int *len)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = s->p < s->end ? *s->p++ : 0;
    const char *at = c != 0 ? strchr(from, c) : NULL;

    if (c == 'u')
        return unescape_u(s, out, len);
    if (at == NULL)
        return stop(s, "an unknown escape");
    out[0] = to[at - from];
    *len = 1;
    return true;
}

/* A string; s->p is at its quote. 'f' may be NULL: only pass over it. */
static bool string(struct scan *s, struct bn_field *f)
{
    struct bn_str *b = s->scratch;
    size_t mark = b->len;
    const char *from = ++s->p;

    for (;;) {
        skip_plain(s);
        if (s->p == s->end)
            return stop(s, "a string that does not end");
        if (*s->p == '"')
            break;
        if (*s->p != '\\')
            return stop(s, "a control character in a string");
        char c[4];
        int len;

        memcpy(b->s + b->len, from, (size_t)(s->p - from));
        b->len += (size_t)(s->p - from);
        s->p++;
        if (!unescape(s, c, &len))
            return false;
        memcpy(b->s + b->len, c, (size_t)len);
        b->len += (size_t)len;
        from = s->p;
    }
    if (f != NULL && b->len == mark) {
        *f = (struct bn_field){BN_FIELD_STRING, from, (size_t)(s->p - from)};
    } else if (f != NULL) {
        memcpy(b->s + b->len, from, (size_t)(s->p - from));
        b->len += (size_t)(s->p - from);
        *f = (struct bn_field){BN_FIELD_STRING, b->s + mark, b->len - mark};
    } else {
        b->len = mark;
    }
    s->p++;
    return true;
}

static bool digits(struct scan *s)
{
    const char *from = s->p;

    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > from ? true : stop(s, "a malformed number");
}

static bool number(struct scan *s)
{
    if (*s->p == '-')
        s->p++;
    if (s->p < s->end && *s->p == '0')
        s->p++;
    else if (!digits(s))
        return false;
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!digits(s))
            return false;
    }
    if (s->p < s->end && (*s->p | 32) == 'e') {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
            s->p++;
        return digits(s);
    }
    return true;
}

static bool word(struct scan *s, const char *w)
{
    size_t n = strlen(w);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, w, n) != 0)
        return stop(s, "something that is not JSON");
    s->p += n;
    return true;
}

static bool value(struct scan *s, struct bn_field *f, int depth);

/* An array or an object; s->p is at its bracket. */
static bool nested(struct scan *s, char close, int depth)
{
    if (depth >= BN_ROW_DEPTH)
        return stop(s, "nesting too deep");
    s->p++;
    skip_space(s);
    if (s->p < s->end && *s->p == close) {
        s->p++;
        return true;
    }
    for (;;) {
        skip_space(s);
        if (close == '}') {
            if (s->p == s->end || *s->p != '"')
                return stop(s, "no key where one should be");
            if (!string(s, NULL))
                return false;
            skip_space(s);
            if (s->p == s->end || *s->p++ != ':')
                return stop(s, "no colon after a key");
        }
        if (!value(s, NULL, depth + 1))
            return false;
        skip_space(s);
        if (s->p == s->end)
            return stop(s, "a bracket that is not closed");
        char c = *s->p++;
        if (c == close)
            return true;
        if (c != ',') {
            s->p--;
            return stop(s, "no comma between values");
        }
    }
}

static bool value(struct scan *s, struct bn_field *f, int depth)
{
    const char *from;
    enum bn_field_type type = BN_FIELD_OTHER;
    bool ok;

    skip_space(s);
    if (s->p == s->end)
        return stop(s, "no value where one should be");
    from = s->p;
    switch (*from) {
    case '"':
        return string(s, f);
    case '{':
        type = BN_FIELD_OBJECT;
        ok = nested(s, '}', depth);
        break;
    case '[':
        type = BN_FIELD_ARRAY;
        ok = nested(s, ']', depth);
        break;
    case 't':
        ok = word(s, "true");
        break;
    case 'f':
        ok = word(s, "false");
        break;
    case 'n':
        type = BN_FIELD_ABSENT;
        ok = word(s, "null");
        break;
    default:
        ok = (*from == '-' || (*from >= '0' && *from <= '9'))
                 ? number(s)
                 : stop(s, "something that is not JSON");
    }
    if (ok && f != NULL)
        *f = (struct bn_field){type, from, (size_t)(s->p - from)};
    return ok;
}

/* What to do with a key and the value that follows it. */
typedef bool member_f(struct scan *s, const struct bn_field *key, void *arg);

static const char *object(struct scan *s, member_f *f, void *arg)
{
    skip_space(s);
    if (s->p == s->end || *s->p != '{')
        return stop(s, "not a JSON object"), s->bad;
    s->p++;
    skip_space(s);
    bool more = !(s->p < s->end && *s->p == '}');

    if (!more)
        s->p++;
    while (more) {
        struct bn_field key;

        skip_space(s);
        if (s->p == s->end || *s->p != '"')
            return stop(s, "no key where one should be"), s->bad;
        if (!string(s, &key))
            return s->bad;
        skip_space(s);
        if (s->p == s->end || *s->p != ':')
            return stop(s, "no colon after a key"), s->bad;
        s->p++;
        if (!f(s, &key, arg))
            return s->bad;
        skip_space(s);
        if (s->p == s->end)
            return stop(s, "a bracket that is not closed"), s->bad;
        if (*s->p != ',' && *s->p != '}')
            return stop(s, "no comma between values"), s->bad;
        more = *s->p++ == ',';
    }
    skip_space(s);
    if (s->p != s->end)
        stop(s, "text after the object");
    return s->bad;
}

struct want {
    const char *const *name;
    size_t len[BN_COL_COUNT];
    bool seen[BN_COL_COUNT];
    struct bn_row *row;
};

static bool pick(struct scan *s, const struct bn_field *key, void *arg)
{
    struct want *w = arg;
    struct bn_field f;
    bool want = false;

    for (int c = 0; c < BN_COL_COUNT; c++) {
        if (key->n != w->len[c] || memcmp(key->s, w->name[c], key->n) != 0)
            continue;
        if (w->seen[c])
            return stop(s, "a key for the second time");
        w->seen[c] = want = true;
    }
    if (!value(s, want ? &f : NULL, 1))
        return false;
    if (!want)
        return true;
    for (int c = 0; c < BN_COL_COUNT; c++) {
        if (key->n == w->len[c] && memcmp(key->s, w->name[c], key->n) == 0)
            w->row->f[c] = f;
    }
    return true;
}

/* Nothing but UTF-8, and room for every string of the row. */
static bool begin(struct scan *s, const char *text, size_t n,
                  struct bn_str *scratch, char *why)
{
    size_t bad = bn_text_check(text, n);

    bn_str_clear(scratch);
    bn_grow(&scratch->s, &scratch->cap, n + 8, 1);
    *s = (struct scan){text, text + n, text, scratch, NULL, why};
    if (bad == n)
        return true;
    s->p += bad;
    return stop(s, "not UTF-8");
}

const char *bn_row_json(const char *text, size_t n,
                        const char *const name[BN_COL_COUNT],
                        struct bn_row *row, struct bn_str *scratch, char *why)
{
    struct scan s;
    struct want w = {.name = name, .row = row};

    *row = (struct bn_row){0};
    for (int c = 0; c < BN_COL_COUNT; c++)
        w.len[c] = strlen(name[c]);
    if (!begin(&s, text, n, scratch, why))
        return s.bad;
    return object(&s, pick, &w);
}

static bool list(struct scan *s, const struct bn_field *key, void *arg)
{
    struct bn_str *out = arg;

    bn_str_adds(out, out->len > 0 ? ", '" : "'");
    bn_str_add(out, key->s, key->n);
    bn_str_addc(out, '\'');
    return value(s, NULL, 1);
}

const char *bn_row_keys(const char *text, size_t n, struct bn_str *out,
                        char *why)
{
    struct bn_str scratch = {0};
    struct scan s;
    const char *bad;

    bad = begin(&s, text, n, &scratch, why) ? object(&s, list, out) : s.bad;
    bn_str_release(&scratch);
    return bad;
}
