/* Template text to tokens: which bytes are text and which are code, with
 * the whitespace rules (-, +, trim_blocks, lstrip_blocks), comments and raw
 * blocks. As Jinja 3.1 does it with transformers' settings.
 */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct lexer {
    struct bn_chat *c;
    const char *s;
    size_t n, i;
    struct jtok *tok;
    size_t ntok, cap;
    struct bn_err *err;
    bool line_start; /* at 'i' a line begins, as far as the text tells */
};

static int fail(struct lexer *l, size_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int fail(struct lexer *l, size_t at, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    jx_fail_at(l->c, (uint32_t)at, l->err, fmt, ap);
    va_end(ap);
    return -1;
}

static struct jtok *add(struct lexer *l, enum jtok_type type, size_t at)
{
    bn_grow(&l->tok, &l->cap, l->ntok + 1, sizeof(*l->tok));
    l->tok[l->ntok] = (struct jtok){.type = type, .at = (uint32_t)at};
    return &l->tok[l->ntok++];
}

static bool at(const struct lexer *l, size_t i, const char *what)
{
    size_t n = strlen(what);

    return l->n - i >= n && memcmp(l->s + i, what, n) == 0;
}

/* Length of the whitespace that begins at 'i'. */
static size_t space(const struct lexer *l, size_t i)
{
    size_t from = i;

    while (i < l->n) {
        uint32_t cp;
        size_t len = ju_get(l->s + i, l->n - i, &cp);

        if (!ju_space(cp))
            break;
        i += len;
    }
    return i - from;
}

/* The text from 'from' to 'to', before a tag with the sign after it. */
static void add_data(struct lexer *l, size_t from, size_t to, char sign,
                     bool variable)
{
    struct jv t = jv_str(l->s + from, to - from);

    if (sign == '-') {
        t = ju_strip(t, JU_RIGHT, NULL);
    } else if (sign != '+' && !variable) {
        size_t line = to;

        while (line > from && l->s[line - 1] != '\n')
            line--;
        if ((line > from || l->line_start)
            && space(l, line) >= to - line)
            t.n = line - from;
    }
    if (t.n > 0) {
        struct jtok *tok = add(l, JT_DATA, from);

        tok->s = t.u.s;
        tok->n = t.n;
    }
}

/* After a closing tag that ends at 'i': what it swallows. */
static size_t after_tag(struct lexer *l, size_t i, char sign, bool trim)
{
    if (sign == '-')
        i += space(l, i);
    else if (sign != '+' && trim && i < l->n && l->s[i] == '\n')
        i++;
    l->line_start = i > 0 && l->s[i - 1] == '\n';
    return i;
}

static int comment(struct lexer *l, size_t open)
{
    size_t body = open + 2;

    body += body < l->n && (l->s[body] == '-' || l->s[body] == '+');
    for (size_t i = body; i + 1 < l->n; i++) {
        if (l->s[i] == '#' && l->s[i + 1] == '}') {
            char sign = i > body ? l->s[i - 1] : '\0';

            l->i = after_tag(l, i + 2, sign, true);
            return 0;
        }
    }
    return fail(l, open, "this comment is never closed with '#}'");
}

/* If a tag "WORD" stands at 'i' ("{%" with sign, spaces), the offset just
 * after it, else 0. '*open' its sign, '*close' the sign of its end. */
static size_t word_tag(const struct lexer *l, size_t i, const char *word,
                       char *open, char *close)
{
    if (!at(l, i, "{%"))
        return 0;
    i += 2;
    *open = i < l->n && (l->s[i] == '-' || l->s[i] == '+') ? l->s[i] : '\0';
    i += *open != '\0';
    i += space(l, i);
    if (!at(l, i, word))
        return 0;
    i += strlen(word);
    i += space(l, i);
    *close = i < l->n && (l->s[i] == '-' || l->s[i] == '+') ? l->s[i] : '\0';
    i += *close != '\0';
    return at(l, i, "%}") ? i + 2 : 0;
}

static int raw(struct lexer *l, size_t open, size_t body, char close)
{
    char sign, end_close;

    l->i = after_tag(l, body, close, false);
    for (size_t i = l->i; i + 1 < l->n; i++) {
        size_t end = l->s[i] == '{'
                         ? word_tag(l, i, "endraw", &sign, &end_close) : 0;

        if (end == 0)
            continue;
        add_data(l, l->i, i, sign, false);
        l->i = after_tag(l, end, end_close, true);
        return 0;
    }
    return fail(l, open, "this raw block is never closed with 'endraw'");
}

/* ---- inside of a tag ---- */

static size_t digits(const struct lexer *l, size_t i, int base)
{
    size_t from = i;

    while (i < l->n) {
        char ch = l->s[i];
        int d = isdigit((unsigned char)ch) ? ch - '0'
                : isalpha((unsigned char)ch) ? tolower(ch) - 'a' + 10 : 99;

        if (ch == '_' && i > from && i + 1 < l->n
            && isalnum((unsigned char)l->s[i + 1]))
            i++;
        else if (d < base)
            i++;
        else
            break;
    }
    return i - from;
}

static int number(struct lexer *l)
{
    size_t from = l->i, i = from;
    int base = 10;
    bool real = false;
    char buf[64];
    size_t n = 0;

    if (l->s[i] == '0' && i + 1 < l->n) {
        char k = (char)tolower(l->s[i + 1]);

        base = k == 'x' ? 16 : k == 'o' ? 8 : k == 'b' ? 2 : 10;
        if (base != 10 && digits(l, i + 2, base) == 0)
            base = 10;
    }
    i += base != 10 ? 2 : 0;
    i += digits(l, i, base);
    if (base == 10) {
        if (i + 1 < l->n && l->s[i] == '.'
            && isdigit((unsigned char)l->s[i + 1])
            && !(from > 0 && l->s[from - 1] == '.')) {
            real = true;
            i += 1 + digits(l, i + 1, 10);
        }
        if (i + 1 < l->n && tolower(l->s[i]) == 'e'
            && !(from > 0 && l->s[from - 1] == '.')) {
            size_t e = i + 1 + (l->s[i + 1] == '+' || l->s[i + 1] == '-');

            if (digits(l, e, 10) > 0) {
                real = true;
                i = e + digits(l, e, 10);
            }
        }
    }
    for (size_t k = from; k < i && n + 1 < sizeof(buf); k++) {
        if (l->s[k] != '_')
            buf[n++] = l->s[k];
    }
    buf[n] = '\0';
    struct jtok *t = add(l, real ? JT_FLOAT : JT_INT, from);
    errno = 0;
    if (real)
        t->f = strtod(buf, NULL);
    else
        t->i = strtoll(base == 10 || base == 16 ? buf : buf + 2, NULL, base);
    if (n + 1 >= sizeof(buf) || (!real && errno == ERANGE))
        return fail(l, from, "number too large: integers have 64 bits here");
    if (!real && base == 10 && n > 1 && buf[0] == '0' && t->i != 0)
        return fail(l, from, "a number must not begin with 0");
    l->i = i;
    return 0;
}

/* One escape sequence after the backslash at 'i'; the offset after it. */
static size_t escape(struct lexer *l, size_t i, size_t end, struct bn_str *b)
{
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    char ch = l->s[i], out[4];
    int len = ch == 'x' ? 2 : ch == 'u' ? 4 : ch == 'U' ? 8 : 0;
    uint32_t cp = 0;

    for (const char *p = plain; *p != '\0'; p += 2) {
        if (*p == ch) {
            bn_str_addc(b, p[1]);
            return i + 1;
        }
    }
    if (ch == '\n')
        return i + 1;
    if (ch >= '0' && ch <= '7') {
        for (len = 0; len < 3 && i < end && l->s[i] >= '0'
                      && l->s[i] <= '7'; len++)
            cp = cp * 8 + (uint32_t)(l->s[i++] - '0');
        bn_str_add(b, out, (size_t)bn_utf8_put(out, cp));
        return i;
    }
    if (len > 0) {
        for (int k = 1; k <= len; k++) {
            char h = i + (size_t)k < end ? l->s[i + (size_t)k] : '?';

            if (!isxdigit((unsigned char)h)) {
                fail(l, i - 1, "escape '\\%c' needs %d hex digits", ch, len);
                return 0;
            }
            cp = cp << 4 | (uint32_t)(isdigit((unsigned char)h)
                                          ? h - '0' : tolower(h) - 'a' + 10);
        }
        if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
            fail(l, i - 1, "escape is not a Unicode character "
                           "(a lone surrogate cannot be written as UTF-8)");
            return 0;
        }
        bn_str_add(b, out, (size_t)bn_utf8_put(out, cp));
        return i + 1 + (size_t)len;
    }
    if (ch == 'N') {
        fail(l, i - 1, "escapes by name (\\N{...}) are not supported: "
                       "write \\u and hex digits");
        return 0;
    }
    bn_str_addc(b, '\\');
    return i; /* an unknown escape stands for itself */
}

static int string(struct lexer *l)
{
    char quote = l->s[l->i];
    size_t from = l->i + 1, end = from;
    bool plain = true;

    while (end < l->n && l->s[end] != quote) {
        if (l->s[end] == '\\') {
            plain = false;
            end++;
        }
        end++;
    }
    if (end >= l->n)
        return fail(l, l->i, "this string is never closed with %c", quote);
    struct jtok *t = add(l, JT_STRING, l->i);
    l->i = end + 1;
    if (plain) {
        t->s = jarena_strndup(&l->c->mem, l->s + from, end - from);
        t->n = end - from;
        return 0;
    }
    struct bn_str b = {0};
    for (size_t i = from; i < end;) {
        if (l->s[i] != '\\') {
            bn_str_addc(&b, l->s[i++]);
            continue;
        }
        i = escape(l, i + 1, end, &b);
        if (i == 0) {
            bn_str_release(&b);
            return -1;
        }
    }
    t->n = b.len;
    t->s = jarena_strndup(&l->c->mem, b.s != NULL ? b.s : "", b.len);
    bn_str_release(&b);
    return 0;
}

static const struct {
    const char *s;
    enum jop op;
} operators[] = { /* two characters first */
    {"//", JO_FLOORDIV}, {"**", JO_POW}, {"==", JO_EQ}, {"!=", JO_NE},
    {"<=", JO_LE}, {">=", JO_GE}, {"+", JO_ADD}, {"-", JO_SUB},
    {"*", JO_MUL}, {"/", JO_DIV}, {"%", JO_MOD}, {"~", JO_TILDE},
    {"<", JO_LT}, {">", JO_GT}, {"=", JO_ASSIGN}, {".", JO_DOT},
    {",", JO_COMMA}, {":", JO_COLON}, {";", JO_SEMICOLON}, {"|", JO_PIPE},
    {"(", JO_LPAREN}, {")", JO_RPAREN}, {"[", JO_LBRACKET},
    {"]", JO_RBRACKET}, {"{", JO_LBRACE}, {"}", JO_RBRACE},
};

static bool name_char(uint32_t cp, bool first)
{
    return cp == '_' || ju_alpha(cp) || (!first && ju_decimal(cp));
}

/* A name or an operator; counts open brackets in 'open'. */
static int word(struct lexer *l, struct bn_str *open)
{
    size_t i = l->i;
    uint32_t cp;
    size_t len = ju_get(l->s + i, l->n - i, &cp);

    if (name_char(cp, true)) {
        while (i < l->n && name_char(cp, false)) {
            i += len;
            if (i < l->n)
                len = ju_get(l->s + i, l->n - i, &cp);
        }
        struct jtok *t = add(l, JT_NAME, l->i);
        t->s = l->s + l->i;
        t->n = i - l->i;
        l->i = i;
        return 0;
    }
    for (size_t k = 0; k < BN_COUNT(operators); k++) {
        const char *s = operators[k].s;

        if (!at(l, i, s))
            continue;
        add(l, JT_OP, i)->op = operators[k].op;
        l->i += strlen(s);
        if (strchr("([{", s[0]) != NULL) {
            bn_str_addc(open, s[0] == '(' ? ')' : s[0] == '[' ? ']' : '}');
        } else if (strchr(")]}", s[0]) != NULL) {
            if (open->len == 0)
                return fail(l, i, "unexpected '%s'", s);
            if (open->s[--open->len] != s[0])
                return fail(l, i, "unexpected '%s', expected '%c'", s,
                            open->s[open->len]);
        }
        return 0;
    }
    return fail(l, i, "unexpected character U+%04X", cp);
}

static int code(struct lexer *l, const char *close, struct bn_str *open)
{
    size_t from = l->i;
    bool block = close[0] == '%';

    while (l->i < l->n) {
        size_t i = l->i += space(l, l->i);

        if (i >= l->n)
            break;
        char sign = l->s[i];
        if (sign != '-' && !(sign == '+' && block))
            sign = '\0';
        if (open->len == 0 && at(l, i + (sign != '\0'), close)) {
            add(l, block ? JT_BLOCK_END : JT_VAR_END, i);
            l->i = after_tag(l, i + 2 + (sign != '\0'), sign, block);
            return 0;
        }
        int rc = isdigit((unsigned char)l->s[i]) ? number(l)
                 : l->s[i] == '"' || l->s[i] == '\'' ? string(l)
                 : word(l, open);
        if (rc < 0)
            return -1;
    }
    return fail(l, from, "this tag is never closed with '%s'", close);
}

/* One piece of text and the tag after it. */
static int piece(struct lexer *l, struct bn_str *open)
{
    size_t from = l->i, i = from;
    char sign, close;

    while (i < l->n
           && !(l->s[i] == '{' && i + 1 < l->n
                && strchr("{%#", l->s[i + 1]) != NULL
                && l->s[i + 1] != '\0'))
        i++;
    if (i >= l->n) {
        add_data(l, from, l->n, '+', true);
        l->i = l->n;
        return 0;
    }
    size_t body = word_tag(l, i, "raw", &sign, &close);
    if (body > 0 && close != '+') {
        add_data(l, from, i, sign, false);
        return raw(l, i, body, close);
    }
    char kind = l->s[i + 1];
    sign = i + 2 < l->n && (l->s[i + 2] == '-' || l->s[i + 2] == '+')
               ? l->s[i + 2] : '\0';
    add_data(l, from, i, sign, kind == '{');
    l->line_start = false;
    if (kind == '#')
        return comment(l, i);
    add(l, kind == '{' ? JT_VAR_BEGIN : JT_BLOCK_BEGIN, i);
    l->i = i + 2 + (sign != '\0');
    open->len = 0;
    return code(l, kind == '{' ? "}}" : "%}", open);
}

int jlex(struct bn_chat *c, struct jtok **tok, size_t *n, struct bn_err *err)
{
    struct lexer l = {.c = c, .s = c->src, .n = c->len, .err = err,
                      .line_start = true};
    struct bn_str open = {0};
    int rc = 0;

    while (rc == 0 && l.i < l.n)
        rc = piece(&l, &open);
    bn_str_release(&open);
    if (rc < 0) {
        free(l.tok);
        return -1;
    }
    add(&l, JT_EOF, l.n);
    *tok = l.tok;
    *n = l.ntok;
    return 0;
}
