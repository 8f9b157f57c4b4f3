/* The filter tojson, as transformers defines it: Python's json.dumps with
 * ensure_ascii off by default, and no escaping for HTML.
 */
#include "config.h"
#include "text/jinja.h"

#include <math.h>
#include <string.h>

struct dump {
    struct jx *x;
    struct jb b;
    bool ascii, sort;
    bool pretty;
    struct jv indent; /* the text of one level */
    struct jv item, key;
    int level;
};

static void dump_str(struct dump *d, struct jv s)
{
    static const char named[] = "\"\"\\\\\nn\rr\tt\bb\ff";

    jb_add(&d->b, "\"", 1);
    for (size_t i = 0; i < s.n;) {
        size_t run = i;
        uint32_t cp;

        while (run < s.n && (unsigned char)s.u.s[run] >= ' '
               && s.u.s[run] != '"' && s.u.s[run] != '\\'
               && (!d->ascii || (unsigned char)s.u.s[run] < 0x80))
            run++;
        jb_add(&d->b, s.u.s + i, run - i);
        i = run;
        if (i == s.n)
            break;
        i += ju_get(s.u.s + i, s.n - i, &cp);
        const char *p = named;
        while (*p != '\0' && (uint32_t)*p != cp)
            p += 2;
        if (*p != '\0')
            jb_addf(&d->b, "\\%c", p[1]);
        else if (cp < 0x10000)
            jb_addf(&d->b, "\\u%04x", cp);
        else
            jb_addf(&d->b, "\\u%04x\\u%04x", 0xd7c0 + (cp >> 10),
                    0xdc00 + (cp & 0x3ff));
    }
    jb_add(&d->b, "\"", 1);
}

static void dump_float(struct dump *d, double f)
{
    if (isnan(f))
        jb_adds(&d->b, "NaN");
    else if (isinf(f))
        jb_adds(&d->b, f > 0 ? "Infinity" : "-Infinity");
    else
        jb_float(&d->b, f);
}

static void newline(struct dump *d)
{
    if (!d->pretty)
        return;
    jb_add(&d->b, "\n", 1);
    for (int i = 0; i < d->level; i++)
        jb_add(&d->b, d->indent.u.s, d->indent.n);
}

static int dump(struct dump *d, struct jv v);

static int dump_key(struct dump *d, struct jv k)
{
    struct jv s;

    switch (k.kind) {
    case JV_STR:
        dump_str(d, k);
        return 0;
    case JV_NONE:
        jb_adds(&d->b, "\"null\"");
        return 0;
    case JV_BOOL:
        jb_adds(&d->b, k.u.b ? "\"true\"" : "\"false\"");
        return 0;
    case JV_INT:
    case JV_FLOAT:
        if (jx_str(d->x, k, &s) < 0)
            return -1;
        dump_str(d, s);
        return 0;
    default:
        return jx_fail(d->x, "tojson: a key is '%s', not a string",
                       jv_type(k));
    }
}

static int dump_all(struct dump *d, struct jv v, const char *ends)
{
    struct jv view = {.kind = JV_VIEW, .aux = JVIEW_ITEMS, .n = v.n,
                      .u.v = &v};
    bool dict = v.kind == JV_DICT;
    struct jcursor c;
    struct jv e;
    bool first = true;

    if (dict && d->sort) {
        const struct jargs exact = {
            .pos = (struct jv[]){jv_bool(true)}, .npos = 1};

        if (jfilter_find("dictsort", 8)->f(d->x, v, &exact, &view) < 0)
            return -1;
    }
    if (jx_cursor(d->x, dict ? view : v, &c) < 0)
        return -1;
    jb_add(&d->b, ends, 1);
    d->level++;
    while (jx_next(d->x, &c, &e)) {
        if (!first)
            jb_add(&d->b, d->item.u.s, d->item.n);
        first = false;
        newline(d);
        if (dict) {
            if (dump_key(d, e.u.v[0]) < 0)
                return -1;
            jb_add(&d->b, d->key.u.s, d->key.n);
        }
        if (dump(d, dict ? e.u.v[1] : e) < 0)
            return -1;
    }
    d->level--;
    if (!first)
        newline(d);
    jb_add(&d->b, ends + 1, 1);
    return 0;
}

static int dump(struct dump *d, struct jv v)
{
    if (jx_work(d->x, 1) < 0)
        return -1;
    if (d->level > JX_MAX_VALUE)
        return jx_fail(d->x, "value nested too deep (over %d levels)",
                       JX_MAX_VALUE);
    switch (v.kind) {
    case JV_NONE:
        jb_adds(&d->b, "null");
        return 0;
    case JV_BOOL:
        jb_adds(&d->b, v.u.b ? "true" : "false");
        return 0;
    case JV_INT:
        jb_addf(&d->b, "%lld", (long long)v.u.i);
        return 0;
    case JV_FLOAT:
        dump_float(d, v.u.f);
        return 0;
    case JV_STR:
        dump_str(d, v);
        return 0;
    case JV_LIST:
    case JV_TUPLE:
        return dump_all(d, v, "[]");
    case JV_DICT:
        return dump_all(d, v, "{}");
    default:
        return jx_fail(d->x, "tojson: '%s' is not JSON", jv_type(v));
    }
}

static int set_indent(struct dump *d, struct jv v)
{
    struct jb b;
    int64_t n;

    d->pretty = true;
    d->item = jv_str(",", 1);
    if (v.kind == JV_STR) {
        d->indent = v;
        return 0;
    }
    if (jx_want_int(d->x, v, "tojson's indent", &n) < 0)
        return -1;
    if (n > 1000)
        return jx_fail(d->x, "tojson: an indent over 1000");
    jb_begin(&b, d->x, 32);
    jb_pad(&b, ' ', n > 0 ? (size_t)n : 0);
    return jb_end(&b, &d->indent);
}

int jx_tojson(struct jx *x, struct jv v, const struct jargs *a,
              struct jv *out)
{
    struct dump d = {.x = x, .item = jv_str(", ", 2), .key = jv_str(": ", 2)};
    struct jv p[4], *sep;
    size_t n;

    if (jx_bind(x, "tojson", a, "ensure_ascii,indent,separators,sort_keys", 0,
                p) < 0)
        return -1;
    if (p[0].kind != JV_ABSENT)
        jx_truth(x, p[0], &d.ascii);
    if (p[3].kind != JV_ABSENT)
        jx_truth(x, p[3], &d.sort);
    if (jv_given(p[1]) && set_indent(&d, p[1]) < 0)
        return -1;
    if (jv_given(p[2])) {
        if (jx_collect(x, p[2], &sep, &n) < 0)
            return -1;
        if (n != 2 || sep[0].kind != JV_STR || sep[1].kind != JV_STR)
            return jx_fail(x, "tojson: separators are two strings");
        d.item = sep[0];
        d.key = sep[1];
    }
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    jb_begin(&d.b, x, 256);
    return dump(&d, v) < 0 ? -1 : jb_end(&d.b, out);
}
