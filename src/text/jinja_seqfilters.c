/* Filters of sequences. Those that are generators in Jinja give JV_ITER,
 * which is walked once and has no length, as there.
 */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <ctype.h>
#include <string.h>

int jx_attribute(struct jx *x, struct jv item, struct jv attr,
                 struct jv otherwise, struct jv *out)
{
    *out = item;
    if (!jv_given(attr))
        return 0;
    if (attr.kind != JV_STR) {
        if (jx_getitem(x, item, attr, out) < 0)
            return -1;
        if (jv_given(otherwise) && out->kind == JV_UNDEF)
            *out = otherwise;
        return 0;
    }
    for (size_t i = 0; i <= attr.n;) {
        size_t n = 0;
        bool number = true;
        int64_t index = 0;
        struct jv key;

        while (i + n < attr.n && attr.u.s[i + n] != '.')
            n++;
        for (size_t k = 0; k < n && number; k++) {
            number = isdigit((unsigned char)attr.u.s[i + k]) && n < 18;
            index = index * 10 + (attr.u.s[i + k] - '0');
        }
        key = number && n > 0 ? jv_int(index) : jv_str(attr.u.s + i, n);
        if (jx_getitem(x, *out, key, out) < 0)
            return -1;
        if (jv_given(otherwise) && out->kind == JV_UNDEF)
            *out = otherwise;
        i += n + 1;
    }
    return 0;
}

static int f_sum(struct jx *x, struct jv v, const struct jargs *a,
                 struct jv *out)
{
    struct jv p[2], *e, item;
    size_t n;

    if (jx_bind(x, "sum", a, "attribute,start", 0, p) < 0
        || jx_collect(x, v, &e, &n) < 0)
        return -1;
    *out = p[1].kind == JV_ABSENT ? jv_int(0) : p[1];
    if (out->kind == JV_STR)
        return jx_fail(x, "sum cannot add strings: use join");
    for (size_t i = 0; i < n; i++) {
        if (jx_attribute(x, e[i], p[0], jv_none(), &item) < 0
            || jx_binary(x, JO_ADD, *out, item, out) < 0)
            return -1;
    }
    return 0;
}

int jx_join(struct jx *x, struct jv sep, struct jv seq, bool convert,
            struct jv *out)
{
    struct jb b;
    struct jv *e;
    size_t n;

    if (jx_collect(x, seq, &e, &n) < 0)
        return -1;
    jb_begin(&b, x, 64);
    for (size_t i = 0; i < n; i++) {
        if (!convert && e[i].kind != JV_STR)
            return jx_fail(x, "join: item %zu is '%s', not a string", i,
                           jv_type(e[i]));
        if (jx_str(x, e[i], &e[i]) < 0)
            return -1;
        if (i > 0)
            jb_add(&b, sep.u.s, sep.n);
        jb_add(&b, e[i].u.s, e[i].n);
    }
    return jb_end(&b, out);
}

static int f_join(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    struct jv p[2], *e;
    size_t n;

    if (jx_bind(x, "join", a, "d,attribute", 0, p) < 0)
        return -1;
    if (p[0].kind == JV_ABSENT)
        p[0] = jv_str("", 0);
    if (jx_str(x, p[0], &p[0]) < 0)
        return -1;
    if (jv_given(p[1])) {
        if (jx_collect(x, v, &e, &n) < 0)
            return -1;
        for (size_t i = 0; i < n; i++)
            if (jx_attribute(x, e[i], p[1], jv_none(), &e[i]) < 0)
                return -1;
        v = jv_seq(JV_LIST, e, n);
    }
    return jx_join(x, p[0], v, true, out);
}

static int f_first(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    struct jcursor c;

    if (jx_bind(x, "first", a, "", 0, NULL) < 0 || jx_cursor(x, v, &c) < 0)
        return -1;
    if (!jx_next(x, &c, out))
        *out = jv_undef_text("no first item, the sequence was empty");
    return 0;
}

static int f_last(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    struct jv *e;
    size_t n;

    if (jx_bind(x, "last", a, "", 0, NULL) < 0)
        return -1;
    if (v.kind == JV_ITER)
        return jx_fail(x, "last of a generator (make it a list with |list)");
    *out = jv_undef_text("no last item, the sequence was empty");
    if ((v.kind == JV_LIST || v.kind == JV_TUPLE || v.kind == JV_RANGE)
        && v.n > 0)
        *out = jv_at(v, v.n - 1);
    else if (jx_collect(x, v, &e, &n) < 0)
        return -1;
    else if (n > 0)
        *out = e[n - 1];
    return 0;
}

static int f_list(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    struct jv *e;
    size_t n;

    if (jx_bind(x, "list", a, "", 0, NULL) < 0 || jx_collect(x, v, &e, &n) < 0)
        return -1;
    *out = jv_seq(JV_LIST, e, n);
    return 0;
}

static int f_items(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    struct jv *e = NULL;
    size_t n = 0;

    if (jx_bind(x, "items", a, "", 0, NULL) < 0)
        return -1;
    if (v.kind != JV_UNDEF && v.kind != JV_DICT)
        return jx_fail(x, "items needs a dict, not '%s'", jv_type(v));
    struct jv view = {.kind = JV_VIEW, .aux = JVIEW_ITEMS, .n = v.n,
                      .u.v = &v};
    if (v.kind == JV_DICT && jx_collect(x, view, &e, &n) < 0)
        return -1;
    *out = jx_iter_of(x, e, n);
    return 0;
}

static int f_reverse(struct jx *x, struct jv v, const struct jargs *a,
                     struct jv *out)
{
    struct jv *e, part[3] = {jv_none(), jv_none(), jv_int(-1)};
    size_t n;

    if (jx_bind(x, "reverse", a, "", 0, NULL) < 0)
        return -1;
    if (v.kind == JV_STR)
        return jx_slice(x, v, part, out);
    if (jx_collect(x, v, &e, &n) < 0)
        return -1;
    for (size_t i = 0; i < n / 2; i++) {
        struct jv t = e[i];

        e[i] = e[n - 1 - i];
        e[n - 1 - i] = t;
    }
    *out = v.kind == JV_ITER ? jv_seq(JV_LIST, e, n) : jx_iter_of(x, e, n);
    return 0;
}

static int f_map(struct jx *x, struct jv v, const struct jargs *a,
                 struct jv *out)
{
    const struct jfilter *f = NULL;
    struct jv p[2], *e;
    struct jargs rest = *a;
    size_t n;
    bool any;

    if (a->npos == 0) {
        if (jx_bind(x, "map", a, "attribute,default", 1, p) < 0)
            return -1;
    } else {
        if (a->pos[0].kind == JV_STR)
            f = jfilter_find(a->pos[0].u.s, a->pos[0].n);
        if (f == NULL)
            return jx_fail(x, "map: no filter of that name");
        rest.pos++;
        rest.npos--;
    }
    jx_truth(x, v, &any);
    if (!any) {
        *out = jx_iter_of(x, NULL, 0);
        return 0;
    }
    if (jx_collect(x, v, &e, &n) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (f != NULL) {
            if (f->f(x, e[i], &rest, &e[i]) < 0)
                return -1;
            continue;
        }
        if (jx_attribute(x, e[i], p[0], p[1], &e[i]) < 0)
            return -1;
    }
    *out = jx_iter_of(x, e, n);
    return 0;
}

static int choose(struct jx *x, struct jv v, const struct jargs *a,
                  const char *name, bool by_attr, bool want, struct jv *out)
{
    const struct jtest *t = NULL;
    struct jargs rest = *a;
    struct jv attr = jv_none(), item, *e;
    size_t n, k = 0;
    bool yes;

    if (by_attr) {
        if (rest.npos == 0)
            return jx_fail(x, "%s: the attribute's name is missing", name);
        attr = *rest.pos++;
        rest.npos--;
    }
    if (rest.npos > 0) {
        if (rest.pos[0].kind == JV_STR)
            t = jtest_find(rest.pos[0].u.s, rest.pos[0].n);
        if (t == NULL)
            return jx_fail(x, "%s: no test of that name", name);
        rest.pos++;
        rest.npos--;
    }
    jx_truth(x, v, &yes);
    if (!yes) {
        *out = jx_iter_of(x, NULL, 0);
        return 0;
    }
    if (jx_collect(x, v, &e, &n) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (jx_attribute(x, e[i], attr, jv_none(), &item) < 0
            || (t != NULL ? t->f(x, item, &rest, &yes)
                          : jx_truth(x, item, &yes)) < 0)
            return -1;
        if (yes == want)
            e[k++] = e[i];
    }
    *out = jx_iter_of(x, e, k);
    return 0;
}

static int f_select(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return choose(x, v, a, "select", false, true, out);
}

static int f_reject(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return choose(x, v, a, "reject", false, false, out);
}

static int f_selectattr(struct jx *x, struct jv v, const struct jargs *a,
                        struct jv *out)
{
    return choose(x, v, a, "selectattr", true, true, out);
}

static int f_rejectattr(struct jx *x, struct jv v, const struct jargs *a,
                        struct jv *out)
{
    return choose(x, v, a, "rejectattr", true, false, out);
}

static int f_batch(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    struct jv p[2], *e, *rows, *fill;
    int64_t size;
    size_t n, k = 0;

    if (jx_bind(x, "batch", a, "linecount,fill_with", 1, p) < 0
        || jx_want_int(x, p[0], "batch", &size) < 0
        || jx_collect(x, v, &e, &n) < 0)
        return -1;
    if (size < 1)
        return jx_fail(x, "batch needs a size of at least 1");
    rows = jx_array(x, n + 1, sizeof(*rows));
    if (rows == NULL)
        return -1;
    for (size_t i = 0; i < n; i += (size_t)size) {
        size_t m = n - i < (size_t)size ? n - i : (size_t)size;

        rows[k++] = jv_seq(JV_LIST, e + i, m);
        if (m == (size_t)size || !jv_given(p[1]))
            continue;
        fill = jx_array(x, (size_t)size, sizeof(*fill));
        if (fill == NULL || jx_work(x, (size_t)size) < 0)
            return -1;
        for (size_t j = 0; j < (size_t)size; j++)
            fill[j] = j < m ? e[i + j] : p[1];
        rows[k - 1] = jv_seq(JV_LIST, fill, (size_t)size);
        break;
    }
    *out = jx_iter_of(x, rows, k);
    return 0;
}

static const struct jfilter filters[] = {
    {"join", f_join}, {"first", f_first}, {"last", f_last},
    {"list", f_list}, {"items", f_items}, {"sort", jf_sort},
    {"dictsort", jf_dictsort}, {"unique", jf_unique}, {"min", jf_min},
    {"max", jf_max}, {"sum", f_sum}, {"reverse", f_reverse}, {"map", f_map},
    {"select", f_select}, {"reject", f_reject},
    {"selectattr", f_selectattr}, {"rejectattr", f_rejectattr},
    {"batch", f_batch},
};

const struct jfilter *jfilter_seq_find(const char *s, size_t n)
{
    for (size_t i = 0; i < BN_COUNT(filters); i++) {
        if (jv_same_str(jv_str(s, n), filters[i].name))
            return &filters[i];
    }
    return NULL;
}
