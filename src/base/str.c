#include "config.h"
#include "base/str.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bn_str_release(struct bn_str *b)
{
    free(b->s);
    *b = (struct bn_str){0};
}

void bn_str_clear(struct bn_str *b)
{
    b->len = 0;
    if (b->s != NULL)
        b->s[0] = '\0';
}

void bn_str_add(struct bn_str *b, const void *s, size_t n)
{
    bn_grow(&b->s, &b->cap, b->len + n + 1, 1);
    if (n > 0)
        memcpy(b->s + b->len, s, n);
    b->len += n;
    b->s[b->len] = '\0';
}

void bn_str_adds(struct bn_str *b, const char *s)
{
    bn_str_add(b, s, strlen(s));
}

void bn_str_addc(struct bn_str *b, char c)
{
    bn_str_add(b, &c, 1);
}

void bn_str_vaddf(struct bn_str *b, const char *fmt, va_list ap)
{
    va_list copy;
    int n;

    va_copy(copy, ap);
    n = vsnprintf(NULL, 0, fmt, copy);
    va_end(copy);
    if (n < 0)
        return;
    bn_grow(&b->s, &b->cap, b->len + (size_t)n + 1, 1);
    vsnprintf(b->s + b->len, (size_t)n + 1, fmt, ap);
    b->len += (size_t)n;
}

void bn_str_addf(struct bn_str *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    bn_str_vaddf(b, fmt, ap);
    va_end(ap);
}

char *bn_str_take(struct bn_str *b)
{
    char *s = b->s != NULL ? b->s : bn_strdup("");

    *b = (struct bn_str){0};
    return s;
}

void bn_str_add_json(struct bn_str *b, const char *s, size_t n)
{
    bn_str_addc(b, '"');
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = bn_utf8_get(s + i, n - i, &cp);

        if (len == 0) {
            bn_str_adds(b, "\xef\xbf\xbd");
            i++;
            continue;
        }
        if (cp == '"' || cp == '\\')
            bn_str_addf(b, "\\%c", (char)cp);
        else if (cp == '\n')
            bn_str_adds(b, "\\n");
        else if (cp < ' ' || cp == 0x7f)
            bn_str_addf(b, "\\u%04x", cp);
        else
            bn_str_add(b, s + i, (size_t)len);
        i += (size_t)len;
    }
    bn_str_addc(b, '"');
}

int bn_utf8_put(char *out, uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 63));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 63));
        out[2] = (char)(0x80 | (cp & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 63));
    out[2] = (char)(0x80 | (cp >> 6 & 63));
    out[3] = (char)(0x80 | (cp & 63));
    return 4;
}

int bn_utf8_get(const char *str, size_t n, uint32_t *cp)
{
    const unsigned char *s = (const unsigned char *)str;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int len;
    uint32_t c;

    if (s[0] < 0x80) {
        *cp = s[0];
        return 1;
    }
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    len = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (n < (size_t)len)
        return 0;
    c = s[0] & (0x7fu >> len);
    for (int i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *cp = c;
    return len;
}

size_t bn_utf8_check(const char *s, size_t n)
{
    size_t i = 0;

    while (i < n) {
        uint64_t eight;
        uint32_t cp;
        int len;

        while (i + 8 <= n) {
            memcpy(&eight, s + i, 8);
            if ((eight & 0x8080808080808080u) != 0)
                break;
            i += 8;
        }
        if (i == n)
            break;
        len = bn_utf8_get(s + i, n - i, &cp);
        if (len == 0)
            return i;
        i += (size_t)len;
    }
    return n;
}

int bn_str_distance(const char *a, const char *b)
{
    enum { MAX = 64 };
    int d[MAX + 1][MAX + 1];
    int n = (int)strlen(a), m = (int)strlen(b);

    if (n > MAX || m > MAX)
        return n > m ? n : m;
    for (int i = 0; i <= n; i++)
        d[i][0] = i;
    for (int j = 0; j <= m; j++)
        d[0][j] = j;
    for (int i = 1; i <= n; i++) {
        for (int j = 1; j <= m; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);

            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]
                && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *bn_str_nearest(const char *word, const char *const *names,
                           size_t n)
{
    const char *best = NULL;
    int least = (int)strlen(word) / 3 + 1;

    for (size_t i = 0; i < n; i++) {
        int d = bn_str_distance(word, names[i]);

        if (d < least || (d == least && best == NULL)) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

bool bn_str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool bn_str_ends(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);

    return n >= m && strcmp(s + n - m, suffix) == 0;
}

char *bn_str_bytes(char *out, uint64_t n)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)n;
    int u = 0;

    while (x >= 1024 && u < 4) {
        x /= 1024;
        u++;
    }
    if (u == 0)
        snprintf(out, 32, "%.0f B", x);
    else
        snprintf(out, 32, "%.*f %s", x < 10 ? 2 : 1, x, unit[u]);
    return out;
}
