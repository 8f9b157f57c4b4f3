/* Filters that put elements in order: sort, dictsort, unique, min, max. */
#include "config.h"
#include "text/jinja.h"

#include <string.h>

static int flag(struct jx *x, struct jv v, bool *out)
{
    *out = false;
    return v.kind == JV_ABSENT ? 0 : jx_truth(x, v, out);
}

static int fold(struct jx *x, struct jv v, bool case_sensitive,
                struct jv *out)
{
    *out = v;
    return case_sensitive || v.kind != JV_STR ? 0
                                              : jx_case(x, v, JU_LOWER, out);
}

/* What an element is sorted or compared by; a list for "a,b" if 'multi'. */
static int sort_key(struct jx *x, struct jv item, struct jv attr,
                    bool case_sensitive, bool multi, struct jv *out)
{
    size_t parts = 1, k = 0;

    if (!multi)
        return jx_attribute(x, item, attr, jv_none(), out) < 0
                   ? -1 : fold(x, *out, case_sensitive, out);
    if (attr.kind != JV_STR) {
        struct jv *one = jarena_get(&x->mem, sizeof(*one));

        *out = jv_seq(JV_LIST, one, 1);
        return jx_attribute(x, item, attr, jv_none(), one) < 0
                   ? -1 : fold(x, *one, case_sensitive, one);
    }
    for (size_t i = 0; i < attr.n; i++)
        parts += attr.u.s[i] == ',';
    struct jv *v = jarena_get(&x->mem, parts * sizeof(*v));
    for (size_t i = 0; i <= attr.n;) {
        size_t n = 0;

        while (i + n < attr.n && attr.u.s[i + n] != ',')
            n++;
        if (jx_attribute(x, item, jv_str(attr.u.s + i, n), jv_none(),
                         &v[k]) < 0
            || fold(x, v[k], case_sensitive, &v[k]) < 0)
            return -1;
        k++;
        i += n + 1;
    }
    *out = jv_seq(JV_LIST, v, k);
    return 0;
}

/* Stable merge sort of 'order' by key[order[]]; 'tmp' is as large. */
static int merge_sort(struct jx *x, const struct jv *key, size_t *order,
                      size_t *tmp, size_t n, bool reverse)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = lo + width < n ? lo + width : n;
            size_t hi = lo + 2 * width < n ? lo + 2 * width : n;
            size_t i = lo, j = mid;

            for (size_t k = lo; k < hi; k++) {
                int cmp = 0;

                if (i < mid && j < hi
                    && (jx_work(x, 1) < 0
                        || jx_less(x, key[order[j]], key[order[i]], "<",
                                   &cmp) < 0))
                    return -1;
                bool right = i >= mid
                             || (j < hi && (reverse ? cmp == 1 : cmp == -1));
                tmp[k] = right ? order[j++] : order[i++];
            }
        }
        memcpy(order, tmp, n * sizeof(*order));
    }
    return 0;
}

static int sort_by(struct jx *x, struct jv *v, const struct jv *key, size_t n,
                   bool reverse, struct jv *out)
{
    size_t *order = jx_array(x, 2 * n + 1, sizeof(*order));
    struct jv *sorted = jx_array(x, n + 1, sizeof(*sorted));

    if (order == NULL || sorted == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    if (merge_sort(x, key, order, order + n, n, reverse) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        sorted[i] = v[order[i]];
    *out = jv_seq(JV_LIST, sorted, n);
    return 0;
}

int jf_sort(struct jx *x, struct jv v, const struct jargs *a,
            struct jv *out)
{
    struct jv p[3], *e, *key;
    bool reverse, exact;
    size_t n;

    if (jx_bind(x, "sort", a, "reverse,case_sensitive,attribute", 0, p) < 0
        || flag(x, p[0], &reverse) < 0 || flag(x, p[1], &exact) < 0
        || jx_collect(x, v, &e, &n) < 0)
        return -1;
    key = jx_array(x, n + 1, sizeof(*key));
    if (key == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (sort_key(x, e[i], p[2], exact, true, &key[i]) < 0)
            return -1;
    return sort_by(x, e, key, n, reverse, out);
}

int jf_dictsort(struct jx *x, struct jv v, const struct jargs *a,
                struct jv *out)
{
    struct jv p[3], *e, *key;
    bool exact, reverse, by_value;
    size_t n;

    if (jx_bind(x, "dictsort", a, "case_sensitive,by,reverse", 0, p) < 0
        || flag(x, p[0], &exact) < 0 || flag(x, p[2], &reverse) < 0)
        return -1;
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (v.kind != JV_DICT)
        return jx_fail(x, "dictsort needs a dict, not '%s'", jv_type(v));
    by_value = p[1].kind != JV_ABSENT && jv_same_str(p[1], "value");
    if (p[1].kind != JV_ABSENT && !by_value && !jv_same_str(p[1], "key"))
        return jx_fail(x, "dictsort: 'by' is \"key\" or \"value\"");
    struct jv view = {.kind = JV_VIEW, .aux = JVIEW_ITEMS, .n = v.n,
                      .u.v = &v};
    if (jx_collect(x, view, &e, &n) < 0)
        return -1;
    key = jx_array(x, n + 1, sizeof(*key));
    if (key == NULL)
        return -1;
    for (size_t i = 0; i < n; i++)
        if (fold(x, e[i].u.v[by_value], exact, &key[i]) < 0)
            return -1;
    return sort_by(x, e, key, n, reverse, out);
}

int jf_unique(struct jx *x, struct jv v, const struct jargs *a,
              struct jv *out)
{
    struct jv p[2], *e, *key;
    bool exact, seen;
    size_t n, k = 0;

    if (jx_bind(x, "unique", a, "case_sensitive,attribute", 0, p) < 0
        || flag(x, p[0], &exact) < 0 || jx_collect(x, v, &e, &n) < 0)
        return -1;
    key = jx_array(x, n + 1, sizeof(*key));
    if (key == NULL)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (sort_key(x, e[i], p[1], exact, false, &key[k]) < 0)
            return -1;
        if (key[k].kind == JV_LIST || key[k].kind == JV_DICT)
            return jx_fail(x, "unhashable type: '%s'", jv_type(key[k]));
        seen = false;
        for (size_t j = 0; j < k && !seen; j++) {
            if (jx_work(x, 1) < 0 || jx_equal(x, key[k], key[j], &seen) < 0)
                return -1;
        }
        if (!seen)
            e[k++] = e[i];
    }
    *out = jx_iter_of(x, e, k);
    return 0;
}

static int extreme(struct jx *x, struct jv v, const struct jargs *a,
                   const char *name, int want, struct jv *out)
{
    struct jv p[2], key, best, *e;
    bool exact;
    size_t n;

    if (jx_bind(x, name, a, "case_sensitive,attribute", 0, p) < 0
        || flag(x, p[0], &exact) < 0 || jx_collect(x, v, &e, &n) < 0)
        return -1;
    *out = jv_undef_text("no aggregated item, the sequence was empty");
    for (size_t i = 0; i < n; i++) {
        int cmp = want;

        if (sort_key(x, e[i], p[1], exact, false, &key) < 0
            || (i > 0 && jx_less(x, key, best, want < 0 ? "<" : ">",
                                 &cmp) < 0))
            return -1;
        if (cmp == want) {
            best = key;
            *out = e[i];
        }
    }
    return 0;
}

int jf_min(struct jx *x, struct jv v, const struct jargs *a,
           struct jv *out)
{
    return extreme(x, v, a, "min", -1, out);
}

int jf_max(struct jx *x, struct jv v, const struct jargs *a,
           struct jv *out)
{
    return extreme(x, v, a, "max", 1, out);
}
