/* Filters of one value: text and numbers. Sequences are in
 * jinja_seqfilters.c.
 */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int f_trim(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    struct jv chars;

    if (jx_bind(x, "trim", a, "chars", 0, &chars) < 0
        || jx_str(x, v, &v) < 0)
        return -1;
    if (jv_given(chars) && chars.kind != JV_STR)
        return jx_fail(x, "trim needs a string of characters, not '%s'",
                       jv_type(chars));
    if (jv_given(chars) && jx_scan(x, v.n * chars.n) < 0)
        return -1;
    *out = ju_strip(v, JU_BOTH, jv_given(chars) ? &chars : NULL);
    return 0;
}

static int change_case(struct jx *x, struct jv v, const struct jargs *a,
                       const char *name, int how, struct jv *out)
{
    if (jx_bind(x, name, a, "", 0, NULL) < 0 || jx_str(x, v, &v) < 0)
        return -1;
    return jx_case(x, v, how, out);
}

static int f_upper(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    return change_case(x, v, a, "upper", JU_UPPER, out);
}

static int f_lower(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    return change_case(x, v, a, "lower", JU_LOWER, out);
}

static int f_capitalize(struct jx *x, struct jv v, const struct jargs *a,
                        struct jv *out)
{
    return change_case(x, v, a, "capitalize", JU_CAPITALIZE, out);
}

/* Jinja's own title: words begin after -, space, (, {, [ and <. */
static int f_title(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    struct jb b;

    if (jx_bind(x, "title", a, "", 0, NULL) < 0 || jx_str(x, v, &v) < 0)
        return -1;
    jb_begin(&b, x, v.n + 1);
    for (size_t i = 0; i < v.n;) {
        size_t end = i;
        uint32_t cp;
        struct jv word;

        while (end < v.n) {
            size_t len = ju_get(v.u.s + end, v.n - end, &cp);

            if (ju_space(cp) || (cp < 0x80 && strchr("-({[<", (int)cp)
                                 && cp != 0))
                break;
            end += len;
        }
        if (end == i) {
            end += ju_get(v.u.s + i, v.n - i, &cp);
            jb_add(&b, v.u.s + i, end - i);
        } else {
            size_t first = ju_get(v.u.s + i, v.n - i, &cp);

            if (jx_case(x, jv_str(v.u.s + i, first), JU_UPPER, &word) < 0)
                return -1;
            jb_add(&b, word.u.s, word.n);
            if (jx_case(x, jv_str(v.u.s + i + first, end - i - first),
                        JU_LOWER, &word) < 0)
                return -1;
            jb_add(&b, word.u.s, word.n);
        }
        i = end;
    }
    return jb_end(&b, out);
}

static int f_replace(struct jx *x, struct jv v, const struct jargs *a,
                     struct jv *out)
{
    struct jv p[3];
    int64_t count = -1;

    if (jx_bind(x, "replace", a, "old,new,count", 2, p) < 0
        || jx_str(x, v, &v) < 0 || jx_str(x, p[0], &p[0]) < 0
        || jx_str(x, p[1], &p[1]) < 0
        || (jv_given(p[2]) && jx_want_int(x, p[2], "replace", &count) < 0))
        return -1;
    return jx_replace(x, v, p[0], p[1], count, out);
}

static int f_string(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return jx_bind(x, "string", a, "", 0, NULL) < 0 ? -1 : jx_str(x, v, out);
}

static int from_float(struct jx *x, double f, struct jv otherwise,
                      struct jv *out)
{
    if (!isfinite(f)) {
        *out = otherwise;
        return 0;
    }
    if (fabs(f) >= 9223372036854775808.0)
        return jx_fail(x, "integer too large: integers have 64 bits here");
    *out = jv_int((int64_t)f);
    return 0;
}

static int f_int(struct jx *x, struct jv v, const struct jargs *a,
                 struct jv *out)
{
    struct jv p[2];
    int64_t base = 10, i;
    double f;
    bool ok;

    if (jx_bind(x, "int", a, "default,base", 0, p) < 0
        || (p[1].kind != JV_ABSENT && jx_want_int(x, p[1], "int", &base) < 0))
        return -1;
    *out = p[0].kind == JV_ABSENT ? jv_int(0) : p[0];
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (jv_is_int(v)) {
        *out = jv_int(jv_integer(v));
    } else if (v.kind == JV_FLOAT) {
        return from_float(x, v.u.f, *out, out);
    } else if (v.kind == JV_STR) {
        if (base < 0 || base > 36) /* ValueError, then float() is tried */
            ok = false;
        else if (jx_parse_int(x, v, (int)base, &i, &ok) < 0)
            return -1;
        if (ok)
            *out = jv_int(i);
        else if (ju_parse_float(v, &f))
            return from_float(x, f, *out, out);
    }
    return 0;
}

static int f_float(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    struct jv p;
    double f;

    if (jx_bind(x, "float", a, "default", 0, &p) < 0)
        return -1;
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    *out = p.kind == JV_ABSENT ? jv_float(0) : p;
    if (jv_is_num(v))
        *out = jv_float(jv_num(v));
    else if (v.kind == JV_STR && ju_parse_float(v, &f))
        *out = jv_float(f);
    return 0;
}

static int want_number(struct jx *x, struct jv v, const char *what)
{
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (!jv_is_num(v))
        return jx_fail(x, "%s needs a number, not '%s'", what, jv_type(v));
    return 0;
}

static int f_abs(struct jx *x, struct jv v, const struct jargs *a,
                 struct jv *out)
{
    if (jx_bind(x, "abs", a, "", 0, NULL) < 0
        || want_number(x, v, "abs") < 0)
        return -1;
    if (v.kind == JV_FLOAT) {
        *out = jv_float(fabs(v.u.f));
        return 0;
    }
    *out = jv_int(jv_integer(v));
    return out->u.i < 0 ? jx_negate(x, *out, out) : 0;
}

/* Half to even, in decimal, as Python's round(). */
static int round_common(struct jx *x, struct jv v, int64_t places,
                        struct jv *out)
{
    char buf[400];

    if (jv_is_int(v)) {
        int64_t i = jv_integer(v), unit = 1;

        for (; places < 0 && unit < INT64_MAX / 100; places++)
            unit *= 10;
        if (places < 0)
            i = 0;
        if (unit > 1) {
            int64_t rest = ((i % unit) + unit) % unit, down = i - rest;
            bool up = rest > unit / 2
                      || (rest == unit / 2 && (down / unit) % 2 != 0);

            i = down + (up ? unit : 0);
        }
        *out = jv_int(i);
        return 0;
    }
    if (places < 0)
        return jx_fail(x, "rounding a float to tens is not supported");
    if (places > 40 || !isfinite(v.u.f)) {
        *out = v;
        return 0;
    }
    snprintf(buf, sizeof(buf), "%.*f", (int)places, v.u.f);
    *out = jv_float(strtod(buf, NULL));
    return 0;
}

static int f_round(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    struct jv p[2];
    int64_t places = 0;

    if (jx_bind(x, "round", a, "precision,method", 0, p) < 0
        || want_number(x, v, "round") < 0
        || (p[0].kind != JV_ABSENT
            && jx_want_int(x, p[0], "round", &places) < 0))
        return -1;
    if (p[1].kind == JV_ABSENT || jv_same_str(p[1], "common"))
        return round_common(x, v, places, out);
    bool ceiling = jv_same_str(p[1], "ceil");
    if (!ceiling && !jv_same_str(p[1], "floor"))
        return jx_fail(x, "round: the method is common, ceil or floor");
    double scale = pow(10, (double)places);
    double f = jv_num(v) * scale;
    *out = jv_float((ceiling ? ceil(f) : floor(f)) / scale);
    return 0;
}

static int f_safe(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    if (jx_bind(x, "safe", a, "", 0, NULL) < 0 || jx_str(x, v, out) < 0)
        return -1;
    out->flag |= JF_MARKUP;
    return 0;
}

static int f_escape(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return jx_bind(x, "escape", a, "", 0, NULL) < 0 ? -1
                                                    : jx_escape(x, v, out);
}

static int f_forceescape(struct jx *x, struct jv v, const struct jargs *a,
                         struct jv *out)
{
    if (jx_bind(x, "forceescape", a, "", 0, NULL) < 0
        || jx_str(x, v, &v) < 0)
        return -1;
    v.flag = 0;
    return jx_escape(x, v, out);
}

static int f_indent(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    struct jv p[3];
    struct jb b;
    bool first = false, blank = false, started = false;
    uint8_t flag = v.flag;
    int64_t width = 4;

    if (jx_bind(x, "indent", a, "width,first,blank", 0, p) < 0)
        return -1;
    if (v.kind != JV_STR)
        return v.kind == JV_UNDEF
                   ? jx_undef_fail(x, v)
                   : jx_fail(x, "indent needs a string, not '%s'",
                             jv_type(v));
    if (p[0].kind != JV_ABSENT && p[0].kind != JV_STR
        && jx_want_int(x, p[0], "indent", &width) < 0)
        return -1;
    if (p[1].kind != JV_ABSENT)
        jx_truth(x, p[1], &first);
    if (p[2].kind != JV_ABSENT)
        jx_truth(x, p[2], &blank);
    if (width < 0)
        width = 0;
    jb_begin(&b, x, v.n + 64);
    /* Jinja adds a line end and splits: an empty text is one line */
    for (bool more = true; more;) {
        size_t end, n = ju_line(v, &end);

        more = end > 0;
        if (started)
            jb_adds(&b, "\n");
        if (started ? n > 0 || blank : first) {
            if (p[0].kind == JV_STR)
                jb_add(&b, p[0].u.s, p[0].n);
            else
                jb_pad(&b, ' ', (size_t)width);
        }
        jb_add(&b, v.u.s, n);
        started = true;
        v.u.s += n + end;
        v.n -= n + end;
        if (jx_work(x, 1) < 0)
            return -1;
    }
    if (jb_end(&b, out) < 0)
        return -1;
    out->flag = flag;
    return 0;
}

static int f_default(struct jx *x, struct jv v, const struct jargs *a,
                     struct jv *out)
{
    struct jv p[2];
    bool boolean = false, yes;

    if (jx_bind(x, "default", a, "default_value,boolean", 0, p) < 0)
        return -1;
    if (p[1].kind != JV_ABSENT)
        jx_truth(x, p[1], &boolean);
    jx_truth(x, v, &yes);
    *out = v;
    if (v.kind == JV_UNDEF || (boolean && !yes))
        *out = p[0].kind == JV_ABSENT ? jv_str("", 0) : p[0];
    return 0;
}

static int f_length(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    size_t n;

    if (jx_bind(x, "length", a, "", 0, NULL) < 0 || jx_len(x, v, &n) < 0)
        return -1;
    *out = jv_int((int64_t)n);
    return 0;
}

static int f_tojson(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return jx_tojson(x, v, a, out);
}

static int f_format(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    struct jdict *d;
    struct jv arg = jv_seq(JV_TUPLE, a->pos, a->npos);

    if (jx_str(x, v, &v) < 0)
        return -1;
    if (a->npos > 0 && a->nkw > 0)
        return jx_fail(x, "format: positional or keyword arguments, not "
                          "both");
    if (a->nkw > 0) {
        d = jarena_get(&x->mem, sizeof(*d));
        *d = (struct jdict){0};
        for (size_t i = 0; i < a->nkw; i++)
            if (jx_dict_set(x, d, a->kwname[i], a->kwval[i]) < 0)
                return -1;
        arg = (struct jv){.kind = JV_DICT, .n = d->n, .u.d = d};
    }
    return jx_percent(x, v, arg, out);
}

static int f_center(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    struct jv p;
    int64_t width = 80;

    if (jx_bind(x, "center", a, "width", 0, &p) < 0 || jx_str(x, v, &v) < 0
        || (p.kind != JV_ABSENT && jx_want_int(x, p, "center", &width) < 0))
        return -1;
    return jx_center(x, v, width, jv_str(" ", 1), JU_BOTH, out);
}

static int f_truncate(struct jx *x, struct jv v, const struct jargs *a,
                      struct jv *out)
{
    struct jv p[4], end = jv_str("...", 3);
    int64_t length = 255, leeway = 5;
    bool kill = false;

    size_t size;

    if (jx_bind(x, "truncate", a, "length,killwords,end,leeway", 0, p) < 0
        || jx_len(x, v, &size) < 0
        || (p[0].kind != JV_ABSENT
            && jx_want_int(x, p[0], "truncate", &length) < 0)
        || (jv_given(p[3]) && jx_want_int(x, p[3], "truncate", &leeway) < 0))
        return -1;
    if (p[1].kind != JV_ABSENT)
        jx_truth(x, p[1], &kill);
    if (p[2].kind != JV_ABSENT && jx_str(x, p[2], &end) < 0)
        return -1;
    int64_t n = (int64_t)size, tail = (int64_t)ju_len(end);
    if (length < tail || leeway < 0)
        return jx_fail(x, "truncate: the length must be at least %lld and "
                          "the leeway not negative", (long long)tail);
    *out = v;
    if (n - leeway <= length)
        return 0; /* of whatever type */
    if (v.kind != JV_STR)
        return jx_fail(x, "truncate needs a string, not '%s'", jv_type(v));
    v.n = ju_offset(v, (size_t)(length - tail));
    for (size_t i = v.n; !kill && i-- > 0;) {
        if (v.u.s[i] == ' ') {
            v.n = i;
            break;
        }
    }
    return jx_binary(x, JO_ADD, v, end, out);
}

static int f_wordcount(struct jx *x, struct jv v, const struct jargs *a,
                       struct jv *out)
{
    int64_t n = 0;
    bool in = false;

    if (jx_bind(x, "wordcount", a, "", 0, NULL) < 0 || jx_str(x, v, &v) < 0)
        return -1;
    for (size_t i = 0; i < v.n;) {
        uint32_t cp;
        bool word;

        i += ju_get(v.u.s + i, v.n - i, &cp);
        word = cp == '_' || ju_alpha(cp) || ju_decimal(cp);
        n += word && !in;
        in = word;
    }
    *out = jv_int(n);
    return 0;
}

static int f_attr(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    struct jv p;
    bool found;

    if (jx_bind(x, "attr", a, "name", 1, &p) < 0)
        return -1;
    if (p.kind != JV_STR)
        return jx_fail(x, "attr needs the name of an attribute");
    if (v.kind == JV_DICT) { /* its entries do not count */
        if (jx_method(x, v, p, out, &found) < 0)
            return -1;
        if (!found)
            *out = jv_undef(p.u.s, p.n);
        return 0;
    }
    return jx_getattr(x, v, p, out);
}

static const struct jfilter filters[] = {
    {"trim", f_trim}, {"upper", f_upper}, {"lower", f_lower},
    {"title", f_title}, {"capitalize", f_capitalize},
    {"replace", f_replace}, {"string", f_string}, {"int", f_int},
    {"float", f_float}, {"abs", f_abs}, {"round", f_round},
    {"safe", f_safe}, {"escape", f_escape}, {"e", f_escape},
    {"forceescape", f_forceescape}, {"indent", f_indent},
    {"default", f_default}, {"d", f_default}, {"length", f_length},
    {"count", f_length}, {"tojson", f_tojson}, {"format", f_format},
    {"center", f_center}, {"truncate", f_truncate},
    {"wordcount", f_wordcount}, {"attr", f_attr},
};

const struct jfilter *jfilter_find(const char *s, size_t n)
{
    for (size_t i = 0; i < BN_COUNT(filters); i++) {
        if (jv_same_str(jv_str(s, n), filters[i].name))
            return &filters[i];
    }
    return jfilter_seq_find(s, n);
}
