/* Methods that look for text in text: split, find, replace and the like. */
#include "config.h"
#include "text/jinja.h"

#include <string.h>

/* A growing list of strings in the arena. */
struct pieces {
    struct jx *x;
    struct jv *v;
    size_t n, cap;
};

static int add_piece(struct pieces *p, struct jv v)
{
    if (p->n == p->cap) {
        size_t cap = p->cap * 2 + 8;
        struct jv *more = jx_array(p->x, cap, sizeof(*more));

        if (more == NULL)
            return -1;
        if (p->n > 0)
            memcpy(more, p->v, p->n * sizeof(*more));
        p->v = more;
        p->cap = cap;
    }
    p->v[p->n++] = v;
    return jx_work(p->x, 1);
}

/* The first (or last) place of 'what' in v[from, to); to if none. */
static size_t find_in(struct jv v, size_t from, size_t to, struct jv what,
                      bool last)
{
    if (!last) {
        const char *p = memmem(v.u.s + from, to - from, what.u.s, what.n);

        return p != NULL ? (size_t)(p - v.u.s) : to;
    }
    for (size_t i = to - from >= what.n ? to - what.n + 1 : from; i > from;) {
        i--;
        if (memcmp(v.u.s + i, what.u.s, what.n) == 0)
            return i;
    }
    return to;
}

/* str.split() at runs of whitespace, at most 'most' times. */
static int split_space(struct pieces *p, struct jv v, int64_t most,
                       bool right)
{
    struct jv rest = ju_strip(v, JU_BOTH, NULL);
    uint32_t cp;

    while (rest.n > 0) {
        size_t i = right ? rest.n : 0;

        if (most == 0)
            return add_piece(p, right ? ju_strip(rest, JU_RIGHT, NULL)
                                      : jv_sub(rest, 0, rest.n));
        most -= most > 0;
        if (!right) {
            while (i < rest.n) {
                size_t len = ju_get(rest.u.s + i, rest.n - i, &cp);

                if (ju_space(cp))
                    break;
                i += len;
            }
            if (add_piece(p, jv_sub(rest, 0, i)) < 0)
                return -1;
            rest = ju_strip(jv_sub(rest, i, rest.n), JU_LEFT, NULL);
            continue;
        }
        while (i > 0) {
            size_t k = i - 1;

            while (k > 0 && (rest.u.s[k] & 0xc0) == 0x80)
                k--;
            ju_get(rest.u.s + k, i - k, &cp);
            if (ju_space(cp))
                break;
            i = k;
        }
        if (add_piece(p, jv_sub(rest, i, rest.n)) < 0)
            return -1;
        rest = ju_strip(jv_sub(rest, 0, i), JU_RIGHT, NULL);
    }
    return 0;
}

static int split_at(struct pieces *p, struct jv v, struct jv sep,
                    int64_t most, bool right)
{
    size_t from = 0, to = v.n;

    while (most != 0) {
        size_t at = find_in(v, from, to, sep, right);

        if (at == to)
            break;
        most -= most > 0;
        struct jv piece = right ? jv_sub(v, at + sep.n, to)
                                : jv_sub(v, from, at);

        if (add_piece(p, piece) < 0)
            return -1;
        if (right)
            to = at;
        else
            from = at + sep.n;
    }
    return add_piece(p, jv_sub(v, from, to));
}

static int split(struct jx *x, struct jv v, const struct jargs *a,
                 const char *name, bool right, struct jv *out)
{
    struct pieces p = {.x = x};
    struct jv arg[2];
    int64_t most = -1;
    int rc;

    if (jx_bind(x, name, a, "sep,maxsplit", 0, arg) < 0
        || (jv_given(arg[0]) && jx_want_str(x, arg[0], name) < 0)
        || (arg[1].kind != JV_ABSENT
            && jx_want_int(x, arg[1], name, &most) < 0))
        return -1;
    if (right && jv_given(arg[0]) && jx_scan(x, v.n * arg[0].n) < 0)
        return -1;
    if (jv_given(arg[0]) && arg[0].n == 0)
        return jx_fail(x, "%s: empty separator", name);
    rc = jv_given(arg[0]) ? split_at(&p, v, arg[0], most, right)
                       : split_space(&p, v, most, right);
    if (rc < 0)
        return -1;
    for (size_t i = 0; right && i < p.n / 2; i++) {
        struct jv t = p.v[i];

        p.v[i] = p.v[p.n - 1 - i];
        p.v[p.n - 1 - i] = t;
    }
    *out = jv_seq(JV_LIST, p.v, p.n);
    return 0;
}

int jm_split(struct jx *x, struct jv v, const struct jargs *a,
             struct jv *out)
{
    return split(x, v, a, "split", false, out);
}

int jm_rsplit(struct jx *x, struct jv v, const struct jargs *a,
              struct jv *out)
{
    return split(x, v, a, "rsplit", true, out);
}

int jm_splitlines(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    struct pieces p = {.x = x};
    struct jv arg;
    bool keep = false;

    if (jx_bind(x, "splitlines", a, "keepends", 0, &arg) < 0)
        return -1;
    if (arg.kind != JV_ABSENT)
        jx_truth(x, arg, &keep);
    while (v.n > 0) {
        size_t end, n = ju_line(v, &end);

        if (add_piece(&p, jv_sub(v, 0, n + (keep ? end : 0))) < 0)
            return -1;
        v = jv_sub(v, n + end, v.n);
    }
    *out = jv_seq(JV_LIST, p.v, p.n);
    return 0;
}

static int partition(struct jx *x, struct jv v, const struct jargs *a,
                     const char *name, bool right, struct jv *out)
{
    struct jv sep, *t = jarena_get(&x->mem, 3 * sizeof(*t));

    if (jx_bind(x, name, a, "sep", 1, &sep) < 0
        || jx_want_str(x, sep, name) < 0)
        return -1;
    if (sep.n == 0)
        return jx_fail(x, "%s: empty separator", name);
    if (right && jx_scan(x, v.n * sep.n) < 0)
        return -1;
    size_t at = find_in(v, 0, v.n, sep, right);
    if (at == v.n) {
        t[right ? 2 : 0] = v;
        t[1] = t[right ? 0 : 2] = jv_sub(v, 0, 0);
    } else {
        t[0] = jv_sub(v, 0, at);
        t[1] = jv_sub(v, at, at + sep.n);
        t[2] = jv_sub(v, at + sep.n, v.n);
    }
    *out = jv_seq(JV_TUPLE, t, 3);
    return 0;
}

int jm_partition(struct jx *x, struct jv v, const struct jargs *a,
                 struct jv *out)
{
    return partition(x, v, a, "partition", false, out);
}

int jm_rpartition(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    return partition(x, v, a, "rpartition", true, out);
}

/* Start and end arguments, in characters, to bytes. */
static int window(struct jx *x, struct jv v, const struct jv *p, size_t *from,
                  size_t *to)
{
    struct jv part[3] = {p[0], jv_none(), jv_none()}, rest;

    *from = 0;
    *to = v.n;
    if (!jv_given(p[0]) && !jv_given(p[1]))
        return 0;
    if (jv_given(p[0])) {
        if (jx_slice(x, v, part, &rest) < 0)
            return -1;
        *from = (size_t)(rest.u.s - v.u.s);
    }
    part[0] = jv_none();
    part[1] = p[1];
    if (jx_slice(x, v, part, &rest) < 0)
        return -1;
    *to = rest.n < *from ? *from : rest.n;
    return 0;
}

enum { FIND, RFIND, INDEX, RINDEX };

static int find(struct jx *x, struct jv v, const struct jargs *a, int how,
                struct jv *out)
{
    static const char *const names[] = {"find", "rfind", "index", "rindex"};
    struct jv p[3];
    size_t from, to;

    if (jx_bind(x, names[how], a, "sub,start,end", 1, p) < 0
        || jx_want_str(x, p[0], names[how]) < 0
        || window(x, v, p + 1, &from, &to) < 0)
        return -1;
    bool last = how == RFIND || how == RINDEX;
    if (last && jx_scan(x, v.n * p[0].n) < 0)
        return -1;
    size_t at = find_in(v, from, to, p[0], last);
    if (p[0].n == 0)
        at = last ? to : from;
    else if (at == to) {
        if (how >= INDEX)
            return jx_fail(x, "substring not found");
        *out = jv_int(-1);
        return 0;
    }
    *out = jv_int((int64_t)ju_len(jv_str(v.u.s, at)));
    return 0;
}

int jm_find(struct jx *x, struct jv v, const struct jargs *a,
            struct jv *out)
{
    return find(x, v, a, FIND, out);
}

int jm_rfind(struct jx *x, struct jv v, const struct jargs *a,
             struct jv *out)
{
    return find(x, v, a, RFIND, out);
}

int jm_rindex(struct jx *x, struct jv v, const struct jargs *a,
              struct jv *out)
{
    return find(x, v, a, RINDEX, out);
}

/* index and count: of strings and of lists. */
int jm_index(struct jx *x, struct jv v, const struct jargs *a,
             struct jv *out)
{
    struct jv p;
    bool same;

    if (v.kind == JV_STR)
        return find(x, v, a, INDEX, out);
    if (jx_bind(x, "index", a, "value", 1, &p) < 0)
        return -1;
    for (size_t i = 0; i < v.n; i++) {
        if (jx_equal(x, jv_at(v, i), p, &same) < 0)
            return -1;
        if (same) {
            *out = jv_int((int64_t)i);
            return 0;
        }
    }
    return jx_fail(x, "value is not in the %s", jv_type(v));
}

int jm_count(struct jx *x, struct jv v, const struct jargs *a,
             struct jv *out)
{
    struct jv p[3];
    size_t from, to, n = 0;
    bool same;

    if (jx_bind(x, "count", a, "value,start,end", 1, p) < 0)
        return -1;
    if (v.kind != JV_STR) {
        for (size_t i = 0; i < v.n; i++) {
            if (jx_equal(x, jv_at(v, i), p[0], &same) < 0)
                return -1;
            n += same;
        }
    } else {
        if (jx_want_str(x, p[0], "count") < 0
            || window(x, v, p + 1, &from, &to) < 0)
            return -1;
        if (p[0].n == 0)
            n = ju_len(jv_sub(v, from, to)) + 1;
        while (p[0].n > 0) {
            size_t at = find_in(v, from, to, p[0], false);

            if (at == to)
                break;
            n++;
            from = at + p[0].n;
        }
    }
    *out = jv_int((int64_t)n);
    return 0;
}

int jx_replace(struct jx *x, struct jv s, struct jv from, struct jv to,
               int64_t count, struct jv *out)
{
    struct jb b;
    size_t i = 0;

    jb_begin(&b, x, s.n + 1);
    while (count != 0 && !b.failed) {
        uint32_t cp;
        size_t at = find_in(s, i, s.n, from, false);

        if (from.n == 0) { /* before each character, and at the end */
            jb_add(&b, to.u.s, to.n);
            count -= count > 0;
            if (i == s.n)
                break;
            size_t len = ju_get(s.u.s + i, s.n - i, &cp);
            jb_add(&b, s.u.s + i, len);
            i += len;
            continue;
        }
        if (at == s.n)
            break;
        jb_add(&b, s.u.s + i, at - i);
        jb_add(&b, to.u.s, to.n);
        i = at + from.n;
        count -= count > 0;
    }
    jb_add(&b, s.u.s + i, s.n - i);
    return jb_end(&b, out);
}

int jm_replace(struct jx *x, struct jv v, const struct jargs *a,
               struct jv *out)
{
    struct jv p[3];
    int64_t count = -1;

    if (jx_bind(x, "replace", a, "old,new,count", 2, p) < 0
        || jx_want_str(x, p[0], "replace") < 0
        || jx_want_str(x, p[1], "replace") < 0
        || (p[2].kind != JV_ABSENT
            && jx_want_int(x, p[2], "replace", &count) < 0)
        || jx_replace(x, v, p[0], p[1], count, out) < 0)
        return -1;
    out->flag = v.flag;
    return 0;
}

int jm_join(struct jx *x, struct jv v, const struct jargs *a,
            struct jv *out)
{
    struct jv p;

    if (jx_bind(x, "join", a, "iterable", 1, &p) < 0)
        return -1;
    if ((v.flag & JF_MARKUP) != 0)
        return jx_fail(x, "joining with an escaped text is not supported");
    return jx_join(x, v, p, false, out);
}
