/* Comparing values, and their text as Python prints them. */
#include "config.h"
#include "text/jinja.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int deeper(struct jx *x)
{
    if (++x->depth > JX_MAX_VALUE) {
        x->depth = 0;
        return jx_fail(x, "value nested too deep (over %d levels)",
                       JX_MAX_VALUE);
    }
    return jx_work(x, 1);
}

static int equal_dicts(struct jx *x, struct jv a, struct jv b, bool *out)
{
    struct jcursor c;
    struct jv kv, other;

    *out = a.n == b.n;
    if (!*out || jx_cursor(x, a, &c) < 0)
        return *out ? -1 : 0;
    c.view = JVIEW_ITEMS;
    while (*out && jx_next(x, &c, &kv)) {
        if (jx_dict_get(x, b, kv.u.v[0], &other, out) < 0
            || (*out && jx_equal(x, kv.u.v[1], other, out) < 0))
            return -1;
    }
    return 0;
}

static bool same_object(struct jv a, struct jv b)
{
    return a.kind == b.kind && a.aux == b.aux && a.u.v == b.u.v;
}

int jx_equal(struct jx *x, struct jv a, struct jv b, bool *out)
{
    *out = false;
    if (jv_is_num(a) && jv_is_num(b)) {
        *out = jv_is_int(a) && jv_is_int(b)
                   ? jv_integer(a) == jv_integer(b)
                   : jv_num(a) == jv_num(b);
        return 0;
    }
    if (a.kind != b.kind)
        return 0;
    if (deeper(x) < 0)
        return -1;
    switch (a.kind) {
    case JV_UNDEF:
    case JV_NONE:
        *out = true;
        break;
    case JV_STR:
        *out = a.n == b.n && memcmp(a.u.s, b.u.s, a.n) == 0;
        if (a.n == b.n && jx_scan(x, a.n) < 0)
            return -1;
        break;
    case JV_LIST:
    case JV_TUPLE:
    case JV_RANGE:
        *out = a.n == b.n;
        for (size_t i = 0; *out && i < a.n; i++) {
            if (jx_equal(x, jv_at(a, i), jv_at(b, i), out) < 0)
                return -1;
        }
        break;
    case JV_DICT:
        if (equal_dicts(x, a, b, out) < 0)
            return -1;
        break;
    default:
        *out = same_object(a, b);
    }
    x->depth--;
    return 0;
}

int jx_less(struct jx *x, struct jv a, struct jv b, const char *op, int *cmp)
{
    if (jv_is_num(a) && jv_is_num(b)) {
        if (jv_is_int(a) && jv_is_int(b)) {
            int64_t i = jv_integer(a), j = jv_integer(b);

            *cmp = i < j ? -1 : i > j;
        } else {
            double f = jv_num(a), g = jv_num(b);

            *cmp = f < g ? -1 : f > g ? 1 : f == g ? 0 : 2; /* 2: NaN */
        }
        return 0;
    }
    if (a.kind == JV_STR && b.kind == JV_STR) {
        /* UTF-8 sorts as its code points do */
        int c = memcmp(a.u.s, b.u.s, a.n < b.n ? a.n : b.n);

        *cmp = c != 0 ? (c < 0 ? -1 : 1) : a.n < b.n ? -1 : a.n > b.n;
        return jx_scan(x, a.n < b.n ? a.n : b.n);
    }
    if (a.kind == JV_UNDEF || b.kind == JV_UNDEF)
        return jx_undef_fail(x, a.kind == JV_UNDEF ? a : b);
    if (a.kind != b.kind || (a.kind != JV_LIST && a.kind != JV_TUPLE))
        return jx_fail(x, "'%s' not supported between instances of '%s' and "
                          "'%s'", op, jv_type(a), jv_type(b));
    if (deeper(x) < 0)
        return -1;
    for (size_t i = 0; i < a.n && i < b.n; i++) {
        bool same;

        if (jx_equal(x, jv_at(a, i), jv_at(b, i), &same) < 0)
            return -1;
        if (same)
            continue;
        if (jx_less(x, jv_at(a, i), jv_at(b, i), op, cmp) < 0)
            return -1;
        x->depth--;
        return 0;
    }
    x->depth--;
    *cmp = a.n < b.n ? -1 : a.n > b.n;
    return 0;
}

void jb_float(struct jb *b, double f)
{
    char s[64];
    int digits;

    if (!isfinite(f)) {
        jb_adds(b, isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
        return;
    }
    for (digits = 1; digits < 17; digits++) { /* the shortest that is f */
        snprintf(s, sizeof(s), "%.*e", digits - 1, f);
        if (strtod(s, NULL) == f)
            break;
    }
    snprintf(s, sizeof(s), "%.*e", digits - 1, f);
    int exp = atoi(strchr(s, 'e') + 1);
    if (exp >= -4 && exp < 16) {
        int after = digits - 1 - exp;

        jb_addf(b, "%.*f", after < 1 ? 1 : after, f);
    } else {
        *strchr(s, 'e') = '\0';
        jb_addf(b, "%se%c%02d", s, exp < 0 ? '-' : '+', abs(exp));
    }
}

static void repr_str(struct jb *b, struct jv v)
{
    bool single = memchr(v.u.s, '\'', v.n) != NULL;
    char quote = single && memchr(v.u.s, '"', v.n) == NULL ? '"' : '\'';

    jb_add(b, &quote, 1);
    for (size_t i = 0; i < v.n;) {
        uint32_t cp;
        size_t len = ju_get(v.u.s + i, v.n - i, &cp);

        if (cp == '\\' || cp == (uint32_t)quote)
            jb_addf(b, "\\%c", (char)cp);
        else if (cp == '\n')
            jb_adds(b, "\\n");
        else if (cp == '\r')
            jb_adds(b, "\\r");
        else if (cp == '\t')
            jb_adds(b, "\\t");
        else if (ju_printable(cp))
            jb_add(b, v.u.s + i, len);
        else
            jb_addf(b, cp < 0x100 ? "\\x%02x"
                       : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
        i += len;
    }
    jb_add(b, &quote, 1);
}

static int repr_seq(struct jx *x, struct jb *b, struct jv v, bool dict,
                    const char *open, const char *close)
{
    struct jcursor c;
    struct jv e;
    size_t n = 0;

    if (jx_cursor(x, v, &c) < 0)
        return -1;
    if (dict)
        c.view = JVIEW_ITEMS;
    jb_adds(b, open);
    while (jx_next(x, &c, &e)) {
        jb_adds(b, n++ > 0 ? ", " : "");
        if (!dict) {
            if (jx_repr(x, b, e) < 0)
                return -1;
            continue;
        }
        if (jx_repr(x, b, e.u.v[0]) < 0)
            return -1;
        jb_adds(b, ": ");
        if (jx_repr(x, b, e.u.v[1]) < 0)
            return -1;
    }
    jb_adds(b, v.kind == JV_TUPLE && n == 1 ? ",)" : close);
    return 0;
}

int jx_repr(struct jx *x, struct jb *b, struct jv v)
{
    int rc = 0;

    if (deeper(x) < 0)
        return -1;
    switch (v.kind) {
    case JV_UNDEF:
        jb_adds(b, "Undefined");
        break;
    case JV_NONE:
        jb_adds(b, "None");
        break;
    case JV_BOOL:
        jb_adds(b, v.u.b ? "True" : "False");
        break;
    case JV_INT:
        jb_addf(b, "%lld", (long long)v.u.i);
        break;
    case JV_FLOAT:
        jb_float(b, v.u.f);
        break;
    case JV_STR:
        jb_adds(b, v.flag & JF_MARKUP ? "Markup(" : "");
        repr_str(b, v);
        jb_adds(b, v.flag & JF_MARKUP ? ")" : "");
        break;
    case JV_LIST:
        rc = repr_seq(x, b, v, false, "[", "]");
        break;
    case JV_TUPLE:
        rc = repr_seq(x, b, v, false, "(", ")");
        break;
    case JV_DICT:
        rc = repr_seq(x, b, v, true, "{", "}");
        break;
    case JV_VIEW:
        jb_addf(b, "%s(", jv_type(v));
        rc = repr_seq(x, b, v, false, "[", "])");
        break;
    case JV_RANGE:
        jb_addf(b, v.u.r->step == 1 ? "range(%lld, %lld)"
                                    : "range(%lld, %lld, %lld)",
                (long long)v.u.r->start, (long long)v.u.r->stop,
                (long long)v.u.r->step);
        break;
    default:
        return jx_fail(x, "cannot print a %s%s", jv_type(v),
                       v.kind == JV_ITER ? " (make it a list with |list)"
                       : v.kind == JV_METHOD ? " (call it with '()')" : "");
    }
    x->depth--;
    return rc;
}

int jx_str(struct jx *x, struct jv v, struct jv *out)
{
    struct jb b;

    if (v.kind == JV_STR) {
        *out = v;
        return 0;
    }
    if (v.kind == JV_UNDEF) {
        *out = jv_str("", 0);
        return 0;
    }
    jb_begin(&b, x, 32);
    return jx_repr(x, &b, v) < 0 ? -1 : jb_end(&b, out);
}
