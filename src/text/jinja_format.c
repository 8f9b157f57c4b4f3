/* "%s" % x and "{}".format(x), as Python has them. Numbers are laid out by
 * C's printf, whose rules are the same where both have one.
 */
#include "config.h"
#include "text/jinja.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WIDTH = 1000 };

struct spec { /* one conversion */
    char flags[8];
    int64_t width, prec; /* -1: none */
    char type;
    char align, sign;    /* format() only */
    struct jv fill;
    bool comma, alt, zero;
};

/* ---- percent ---- */

struct percent {
    struct jx *x;
    struct jb b;
    struct jv f, arg;
    size_t i, next; /* in the format; in the tuple of arguments */
    bool mapping;   /* a key was used */
};

static int next_arg(struct percent *p, struct jv *out)
{
    size_t n = p->arg.kind == JV_TUPLE ? p->arg.n : 1;

    if (p->next >= n || p->mapping)
        return jx_fail(p->x, "not enough arguments for the format string");
    *out = p->arg.kind == JV_TUPLE ? jv_at(p->arg, p->next) : p->arg;
    p->next++;
    return 0;
}

static bool more(const struct percent *p)
{
    return p->i < p->f.n;
}

/* Digits or "*" at the current place; leaves '*out' alone if neither. */
static int number(struct percent *p, int64_t *out)
{
    struct jv v;

    if (more(p) && p->f.u.s[p->i] == '*') {
        p->i++;
        return next_arg(p, &v) < 0
                   ? -1 : jx_want_int(p->x, v, "a width", out);
    }
    if (more(p) && isdigit((unsigned char)p->f.u.s[p->i]))
        *out = 0;
    while (more(p) && isdigit((unsigned char)p->f.u.s[p->i])) {
        *out = *out * 10 + (p->f.u.s[p->i++] - '0');
        if (*out > MAX_WIDTH)
            break;
    }
    return 0;
}

/* What follows a "%": key, flags, width, precision, type. */
static int parse_percent(struct percent *p, struct spec *s, struct jv *v)
{
    size_t nflags = 0;
    bool keyed = false, found;

    *s = (struct spec){.width = -1, .prec = -1};
    if (more(p) && p->f.u.s[p->i] == '(') {
        const char *from = p->f.u.s + p->i + 1;
        const char *end = memchr(from, ')', p->f.n - p->i - 1);

        if (end == NULL)
            return jx_fail(p->x, "incomplete format key");
        if (p->arg.kind != JV_DICT)
            return jx_fail(p->x, "the format needs a dict");
        if (jx_dict_get(p->x, p->arg, jv_str(from, (size_t)(end - from)), v,
                        &found) < 0)
            return -1;
        if (!found)
            return jx_fail(p->x, "the format's key '%.*s' is missing",
                           (int)(end - from), from);
        keyed = p->mapping = true;
        p->i = (size_t)(end + 1 - p->f.u.s);
    }
    while (more(p) && strchr("#0- +", p->f.u.s[p->i]) != NULL
           && p->f.u.s[p->i] != '\0') {
        if (nflags + 1 < sizeof(s->flags)
            && memchr(s->flags, p->f.u.s[p->i], nflags) == NULL)
            s->flags[nflags++] = p->f.u.s[p->i];
        p->i++;
    }
    if (number(p, &s->width) < 0)
        return -1;
    if (more(p) && p->f.u.s[p->i] == '.') {
        p->i++;
        s->prec = 0;
        if (number(p, &s->prec) < 0)
            return -1;
    }
    while (more(p) && strchr("hlL", p->f.u.s[p->i]) != NULL
           && p->f.u.s[p->i] != '\0')
        p->i++;
    if (!more(p))
        return jx_fail(p->x, "incomplete format");
    s->type = p->f.u.s[p->i++];
    if (s->width < -1) { /* "*" took a negative number */
        if (nflags + 1 < sizeof(s->flags))
            s->flags[nflags++] = '-';
        s->width = -s->width;
    }
    if (s->width > MAX_WIDTH || s->prec > MAX_WIDTH)
        return jx_fail(p->x, "a width or precision over %d", MAX_WIDTH);
    if (s->type == '%' || keyed)
        return 0;
    return next_arg(p, v);
}

static void put_padded(struct jb *b, const struct spec *s, struct jv v)
{
    size_t n = ju_len(v);
    size_t pad = s->width > (int64_t)n ? (size_t)s->width - n : 0;
    bool left = strchr(s->flags, '-') != NULL;

    jb_pad(b, ' ', left ? 0 : pad);
    jb_add(b, v.u.s, v.n);
    jb_pad(b, ' ', left ? pad : 0);
}

static int percent_number(struct percent *p, const struct spec *s,
                          struct jv v)
{
    char fmt[64], out[1500 + 400];
    bool real = strchr("eEfFgG", s->type) != NULL;
    int n = snprintf(fmt, sizeof(fmt), "%%%s", s->flags);

    if (v.kind == JV_UNDEF)
        return jx_undef_fail(p->x, v);
    if (!jv_is_num(v))
        return jx_fail(p->x, "%%%c format: a number is required, not '%s'",
                       s->type, jv_type(v));
    if (s->width >= 0)
        n += snprintf(fmt + n, sizeof(fmt) - (size_t)n, "%d", (int)s->width);
    if (s->prec >= 0)
        n += snprintf(fmt + n, sizeof(fmt) - (size_t)n, ".%d", (int)s->prec);
    if (real) {
        snprintf(fmt + n, sizeof(fmt) - (size_t)n, "%c", s->type);
        snprintf(out, sizeof(out), fmt, jv_num(v));
        jb_adds(&p->b, out);
        return 0;
    }
    if (v.kind == JV_FLOAT) {
        if (strchr("diu", s->type) == NULL)
            return jx_fail(p->x, "%%%c format: an integer is required, not "
                                 "'float'", s->type);
        if (!(v.u.f > -9e18 && v.u.f < 9e18))
            return jx_fail(p->x, "integer too large: integers have 64 bits "
                                 "here");
        v = jv_int((int64_t)v.u.f);
    }
    int64_t i = jv_integer(v);
    if (strchr("diu", s->type) == NULL
        && (i < 0 || strchr(s->flags, '#') != NULL))
        return jx_fail(p->x, "%%%c of a negative number, or with #, is not "
                             "supported", s->type);
    snprintf(fmt + n, sizeof(fmt) - (size_t)n, "ll%c",
             s->type == 'u' ? 'd' : s->type);
    snprintf(out, sizeof(out), fmt, (long long)i);
    jb_adds(&p->b, out);
    return 0;
}

static int percent_one(struct percent *p, const struct spec *s, struct jv v)
{
    struct jb r;

    switch (s->type) {
    case 's':
        if (jx_str(p->x, v, &v) < 0)
            return -1;
        break;
    case 'r':
        jb_begin(&r, p->x, 32);
        if (jx_repr(p->x, &r, v) < 0 || jb_end(&r, &v) < 0)
            return -1;
        break;
    case 'c':
        if (jv_is_int(v) && jv_integer(v) >= 0 && jv_integer(v) < 0x110000
            && !(jv_integer(v) >= 0xd800 && jv_integer(v) < 0xe000)) {
            jb_begin(&r, p->x, 8);
            jb_cp(&r, (uint32_t)jv_integer(v));
            if (jb_end(&r, &v) < 0)
                return -1;
        } else if (v.kind != JV_STR || ju_len(v) != 1) {
            return jx_fail(p->x, "%%c needs a character");
        }
        break;
    case 'd': case 'i': case 'u': case 'x': case 'X': case 'o':
    case 'e': case 'E': case 'f': case 'F': case 'g': case 'G':
        return percent_number(p, s, v);
    default:
        return jx_fail(p->x, "unsupported format character '%c'", s->type);
    }
    if (s->prec >= 0)
        v.n = ju_offset(v, (size_t)s->prec);
    put_padded(&p->b, s, v);
    return 0;
}

int jx_percent(struct jx *x, struct jv fmt, struct jv arg, struct jv *out)
{
    struct percent p = {.x = x, .f = fmt, .arg = arg};

    if ((fmt.flag & JF_MARKUP) != 0)
        return jx_fail(x, "formatting with an escaped text is not "
                          "supported");
    jb_begin(&p.b, x, fmt.n + 32);
    while (p.i < fmt.n) {
        const char *s = fmt.u.s + p.i;
        const char *at = memchr(s, '%', fmt.n - p.i);
        struct spec spec;
        struct jv v;

        if (at == NULL) {
            jb_add(&p.b, s, fmt.n - p.i);
            break;
        }
        jb_add(&p.b, s, (size_t)(at - s));
        p.i = (size_t)(at + 1 - fmt.u.s);
        if (parse_percent(&p, &spec, &v) < 0)
            return -1;
        if (spec.type == '%')
            jb_add(&p.b, "%", 1);
        else if (percent_one(&p, &spec, v) < 0)
            return -1;
    }
    if (!p.mapping && (arg.kind == JV_TUPLE ? p.next < arg.n
                       : arg.kind != JV_DICT && arg.kind != JV_LIST
                         && arg.kind != JV_RANGE && arg.kind != JV_UNDEF
                         && p.next == 0))
        return jx_fail(x, "not all arguments were used by the format");
    return jb_end(&p.b, out);
}

/* ---- format ---- */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static int parse_spec(struct jx *x, struct jv s, struct spec *o)
{
    size_t i = 0;
    uint32_t cp;

    *o = (struct spec){.width = -1, .prec = -1, .fill = jv_str(" ", 1)};
    if (s.n > 0) {
        size_t len = ju_get(s.u.s, s.n, &cp);

        if (len < s.n && strchr("<>^=", s.u.s[len]) != NULL
            && s.u.s[len] != '\0') {
            o->fill = jv_str(s.u.s, len);
            o->align = s.u.s[len];
            i = len + 1;
        } else if (cp != 0 && cp < 0x80 && strchr("<>^=", (int)cp) != NULL) {
            o->align = (char)cp;
            i = 1;
        }
    }
    if (i < s.n && strchr("+- ", s.u.s[i]) != NULL && s.u.s[i] != '\0')
        o->sign = s.u.s[i++];
    if (i < s.n && s.u.s[i] == '#') {
        o->alt = true;
        i++;
    }
    if (i < s.n && s.u.s[i] == '0') {
        o->zero = true;
        i++;
    }
    for (; i < s.n && isdigit((unsigned char)s.u.s[i]); i++) {
        o->width = (o->width < 0 ? 0 : o->width * 10) + (s.u.s[i] - '0');
        if (o->width > MAX_WIDTH)
            return jx_fail(x, "a width over %d", MAX_WIDTH);
    }
    if (i < s.n && s.u.s[i] == ',') {
        o->comma = true;
        i++;
    }
    if (i < s.n && s.u.s[i] == '.') {
        o->prec = 0;
        for (i++; i < s.n && isdigit((unsigned char)s.u.s[i]); i++) {
            o->prec = o->prec * 10 + (s.u.s[i] - '0');
            if (o->prec > MAX_WIDTH)
                return jx_fail(x, "a precision over %d", MAX_WIDTH);
        }
    }
    if (i < s.n)
        o->type = s.u.s[i++];
    if (i < s.n)
        return jx_fail(x, "invalid format specifier '%.*s'", (int)s.n,
                       s.u.s);
    return 0;
}

/* Digits of a number without sign; "" for a type it does not have. */
static int digits(struct jx *x, const struct spec *s, struct jv v, char *out,
                  size_t room)
{
    struct jb b;
    struct jv text;
    char t = s->type;
    double f = jv_num(v);

    if (v.kind != JV_FLOAT && (t == '\0' || t == 'd')) {
        int64_t i = jv_integer(v);

        snprintf(out, room, "%llu",
                 i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i);
    } else if (v.kind != JV_FLOAT && strchr("xXo", t) != NULL) {
        char fmt[8];
        int64_t i = jv_integer(v);

        snprintf(fmt, sizeof(fmt), "%%%sll%c", s->alt ? "#" : "", t);
        snprintf(out, room, fmt,
                 i < 0 ? 0 - (unsigned long long)i : (unsigned long long)i);
    } else if (t != '\0' && strchr("eEfFgG%", t) != NULL) {
        char fmt[16];

        snprintf(fmt, sizeof(fmt), "%%.%d%c", (int)(s->prec < 0 ? 6 : s->prec),
                 t == '%' ? 'f' : t);
        f = f < 0 ? -f : f;
        snprintf(out, room, fmt, t == '%' ? f * 100 : f);
        if (t == '%' && strlen(out) + 1 < room)
            strcat(out, "%");
    } else if (v.kind == JV_FLOAT && t == '\0' && s->prec < 0) {
        jb_begin(&b, x, 32);
        jb_float(&b, f < 0 ? -f : f);
        if (jb_end(&b, &text) < 0)
            return -1;
        snprintf(out, room, "%s", text.u.s);
    } else {
        return jx_fail(x, "the format '%c' of '%s' is not supported", t,
                       jv_type(v));
    }
    return 0;
}

static void put_number(struct jb *b, const struct spec *s, bool neg,
                       const char *num)
{
    char sign = neg ? '-' : s->sign == '+' || s->sign == ' ' ? s->sign : '\0';
    size_t whole = strspn(num, "0123456789");
    size_t commas = s->comma && whole > 0 ? (whole - 1) / 3 : 0;
    size_t n = strlen(num) + (sign != '\0') + commas;
    size_t pad = s->width > (int64_t)n ? (size_t)s->width - n : 0;
    char align = s->align != '\0' ? s->align : s->zero ? '=' : '>';
    struct jv fill = s->zero && s->align == '\0' ? jv_str("0", 1) : s->fill;
    size_t before = align == '>' ? pad : align == '^' ? pad / 2 : 0;

    for (size_t i = 0; i < before; i++)
        jb_add(b, fill.u.s, fill.n);
    if (sign != '\0')
        jb_add(b, &sign, 1);
    for (size_t i = 0; align == '=' && i < pad; i++)
        jb_add(b, fill.u.s, fill.n);
    for (size_t i = 0; num[i] != '\0'; i++) {
        if (commas > 0 && i > 0 && i < whole && (whole - i) % 3 == 0)
            jb_add(b, ",", 1);
        jb_add(b, num + i, 1);
    }
    for (size_t i = before; align != '=' && i < pad; i++)
        jb_add(b, fill.u.s, fill.n);
}

static int put_field(struct jx *x, struct jb *b, struct jv v, struct jv text)
{
    struct spec s;
    char num[1500 + 400];

    if (text.n == 0) {
        if (jx_str(x, v, &v) < 0)
            return -1;
        jb_add(b, v.u.s, v.n);
        return 0;
    }
    if (parse_spec(x, text, &s) < 0)
        return -1;
    if (jv_is_num(v)) {
        if (digits(x, &s, v, num, sizeof(num)) < 0)
            return -1;
        put_number(b, &s, jv_num(v) < 0, num);
        return 0;
    }
    if (v.kind != JV_STR || (s.type != '\0' && s.type != 's') || s.zero
        || s.comma || s.sign != '\0' || s.align == '=')
        return jx_fail(x, "the format '%.*s' of '%s' is not supported",
                       (int)text.n, text.u.s, jv_type(v));
    if (s.prec >= 0)
        v.n = ju_offset(v, (size_t)s.prec);
    size_t n = ju_len(v);
    size_t pad = s.width > (int64_t)n ? (size_t)s.width - n : 0;
    size_t before = s.align == '>' ? pad : s.align == '^' ? pad / 2 : 0;
    for (size_t i = 0; i < before; i++)
        jb_add(b, s.fill.u.s, s.fill.n);
    jb_add(b, v.u.s, v.n);
    for (size_t i = before; i < pad; i++)
        jb_add(b, s.fill.u.s, s.fill.n);
    return 0;
}

/* The argument a field names: "", "0", "name", then ".attr" and "[key]". */
static int field_value(struct jx *x, struct jv name, const struct jargs *a,
                       size_t *auto_index, struct jv *out)
{
    size_t n = 0, index = 0;
    bool number = true;

    while (n < name.n && name.u.s[n] != '.' && name.u.s[n] != '[') {
        number &= isdigit((unsigned char)name.u.s[n]) != 0 && n < 6;
        index = index * 10 + (size_t)(name.u.s[n] - '0');
        n++;
    }
    if (n == 0)
        index = (*auto_index)++;
    if (n == 0 || number) {
        if (index >= a->npos)
            return jx_fail(x, "format: no argument %zu", index);
        *out = a->pos[index];
    } else {
        size_t k = 0;

        while (k < a->nkw && (a->kwname[k].n != n
                              || memcmp(a->kwname[k].u.s, name.u.s, n) != 0))
            k++;
        if (k == a->nkw)
            return jx_fail(x, "format: no argument '%.*s'", (int)n,
                           name.u.s);
        *out = a->kwval[k];
    }
    if (n < name.n)
        return jx_fail(x, "format: attributes and items in a field are not "
                          "supported");
    return 0;
}

static int replace_field(struct jx *x, struct jb *b, struct jv field,
                         const struct jargs *a, size_t *auto_index)
{
    const char *colon = memchr(field.u.s, ':', field.n);
    size_t n = colon != NULL ? (size_t)(colon - field.u.s) : field.n;
    struct jv spec = jv_str(field.u.s + n + (colon != NULL),
                            field.n - n - (colon != NULL));
    struct jv name = jv_str(field.u.s, n), v;
    char conv = '\0';
    struct jb r;

    if (n >= 2 && name.u.s[n - 2] == '!') {
        conv = name.u.s[n - 1];
        name.n -= 2;
    }
    if (field_value(x, name, a, auto_index, &v) < 0)
        return -1;
    if (conv == 'r') {
        jb_begin(&r, x, 32);
        if (jx_repr(x, &r, v) < 0 || jb_end(&r, &v) < 0)
            return -1;
    } else if (conv == 's') {
        if (jx_str(x, v, &v) < 0)
            return -1;
    } else if (conv != '\0') {
        return jx_fail(x, "format: unsupported conversion '!%c'", conv);
    }
    return put_field(x, b, v, spec);
}

int jx_format(struct jx *x, struct jv fmt, const struct jargs *a,
              struct jv *out)
{
    struct jb b;
    size_t auto_index = 0;

    if ((fmt.flag & JF_MARKUP) != 0)
        return jx_fail(x, "formatting with an escaped text is not "
                          "supported");
    jb_begin(&b, x, fmt.n + 32);
    for (size_t i = 0; i < fmt.n; i++) {
        char ch = fmt.u.s[i];

        if (ch != '{' && ch != '}') {
            jb_add(&b, &ch, 1);
            continue;
        }
        if (i + 1 < fmt.n && fmt.u.s[i + 1] == ch) {
            jb_add(&b, &ch, 1);
            i++;
            continue;
        }
        const char *from = fmt.u.s + i + 1;
        const char *end = ch == '{' ? memchr(from, '}', fmt.n - i - 1) : NULL;
        if (end == NULL)
            return jx_fail(x, "format: single '%c'", ch);
        size_t n = (size_t)(end - from);
        if (memchr(from, '{', n) != NULL)
            return jx_fail(x, "format: fields within fields are not "
                              "supported");
        if (replace_field(x, &b, jv_str(from, n), a, &auto_index) < 0)
            return -1;
        i += n + 1;
    }
    return jb_end(&b, out);
}
