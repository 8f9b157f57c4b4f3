/* Methods of strings, lists and dicts that do not change them. */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <string.h>

typedef int method_f(struct jx *x, struct jv v, const struct jargs *a,
                     struct jv *out);

static bool given(struct jv v)
{
    return v.kind != JV_ABSENT && v.kind != JV_NONE;
}

static int want_str(struct jx *x, struct jv v, const char *what)
{
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (v.kind != JV_STR)
        return jx_fail(x, "%s needs a string, not '%s'", what, jv_type(v));
    return 0;
}

static int strip(struct jx *x, struct jv v, const struct jargs *a,
                 const char *name, int sides, struct jv *out)
{
    struct jv chars;

    if (jx_bind(x, name, a, "chars", 0, &chars) < 0
        || (given(chars) && want_str(x, chars, name) < 0))
        return -1;
    if (given(chars) && jx_scan(x, v.n * chars.n) < 0)
        return -1;
    *out = ju_strip(v, sides, given(chars) ? &chars : NULL);
    return 0;
}

static int m_strip(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    return strip(x, v, a, "strip", JU_BOTH, out);
}

static int m_lstrip(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return strip(x, v, a, "lstrip", JU_LEFT, out);
}

static int m_rstrip(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return strip(x, v, a, "rstrip", JU_RIGHT, out);
}

#define CASE(NAME, HOW)                                                     \
    static int m_##NAME(struct jx *x, struct jv v, const struct jargs *a,   \
                        struct jv *out)                                     \
    {                                                                       \
        return jx_bind(x, #NAME, a, "", 0, NULL) < 0                        \
                   ? -1 : jx_case(x, v, HOW, out);                          \
    }

CASE(upper, JU_UPPER)
CASE(lower, JU_LOWER)
CASE(title, JU_TITLE)
CASE(capitalize, JU_CAPITALIZE)
CASE(swapcase, JU_SWAP)

/* startswith and endswith: one affix or a tuple of them. */
static int affix(struct jx *x, struct jv v, const struct jargs *a,
                 const char *name, bool end, struct jv *out)
{
    struct jv p[3], part[3], e;
    struct jcursor c;
    bool yes = false;

    if (jx_bind(x, name, a, "prefix,start,end", 1, p) < 0)
        return -1;
    if (given(p[1]) || given(p[2])) {
        part[0] = p[1];
        part[1] = p[2];
        part[2] = jv_none();
        if (jx_slice(x, v, part, &v) < 0)
            return -1;
    }
    if (p[0].kind != JV_TUPLE)
        p[0] = jv_seq(JV_TUPLE, memcpy(jarena_get(&x->mem, sizeof(e)), &p[0],
                                       sizeof(e)), 1);
    if (jx_cursor(x, p[0], &c) < 0)
        return -1;
    while (!yes && jx_next(x, &c, &e)) {
        if (want_str(x, e, name) < 0)
            return -1;
        yes = e.n <= v.n
              && memcmp(end ? v.u.s + v.n - e.n : v.u.s, e.u.s, e.n) == 0;
    }
    *out = jv_bool(yes);
    return 0;
}

static int m_startswith(struct jx *x, struct jv v, const struct jargs *a,
                        struct jv *out)
{
    return affix(x, v, a, "startswith", false, out);
}

static int m_endswith(struct jx *x, struct jv v, const struct jargs *a,
                      struct jv *out)
{
    return affix(x, v, a, "endswith", true, out);
}

static int remove_affix(struct jx *x, struct jv v, const struct jargs *a,
                        const char *name, bool end, struct jv *out)
{
    struct jv p;

    if (jx_bind(x, name, a, "prefix", 1, &p) < 0 || want_str(x, p, name) < 0)
        return -1;
    *out = v;
    if (p.n <= v.n
        && memcmp(end ? v.u.s + v.n - p.n : v.u.s, p.u.s, p.n) == 0) {
        out->n -= p.n;
        out->u.s += end ? 0 : p.n;
    }
    return 0;
}

static int m_removeprefix(struct jx *x, struct jv v, const struct jargs *a,
                          struct jv *out)
{
    return remove_affix(x, v, a, "removeprefix", false, out);
}

static int m_removesuffix(struct jx *x, struct jv v, const struct jargs *a,
                          struct jv *out)
{
    return remove_affix(x, v, a, "removesuffix", true, out);
}

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

static struct jv sub(struct jv v, size_t from, size_t to)
{
    struct jv s = jv_str(v.u.s + from, to - from);

    s.flag = v.flag;
    return s;
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
                                      : sub(rest, 0, rest.n));
        most -= most > 0;
        if (!right) {
            while (i < rest.n) {
                size_t len = ju_get(rest.u.s + i, rest.n - i, &cp);

                if (ju_space(cp))
                    break;
                i += len;
            }
            if (add_piece(p, sub(rest, 0, i)) < 0)
                return -1;
            rest = ju_strip(sub(rest, i, rest.n), JU_LEFT, NULL);
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
        if (add_piece(p, sub(rest, i, rest.n)) < 0)
            return -1;
        rest = ju_strip(sub(rest, 0, i), JU_RIGHT, NULL);
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
        if (add_piece(p, right ? sub(v, at + sep.n, to) : sub(v, from, at))
            < 0)
            return -1;
        if (right)
            to = at;
        else
            from = at + sep.n;
    }
    return add_piece(p, sub(v, from, to));
}

static int split(struct jx *x, struct jv v, const struct jargs *a,
                 const char *name, bool right, struct jv *out)
{
    struct pieces p = {.x = x};
    struct jv arg[2];
    int64_t most = -1;
    int rc;

    if (jx_bind(x, name, a, "sep,maxsplit", 0, arg) < 0
        || (given(arg[0]) && want_str(x, arg[0], name) < 0)
        || (arg[1].kind != JV_ABSENT
            && jx_want_int(x, arg[1], name, &most) < 0))
        return -1;
    if (right && given(arg[0]) && jx_scan(x, v.n * arg[0].n) < 0)
        return -1;
    if (given(arg[0]) && arg[0].n == 0)
        return jx_fail(x, "%s: empty separator", name);
    rc = given(arg[0]) ? split_at(&p, v, arg[0], most, right)
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

static int m_split(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    return split(x, v, a, "split", false, out);
}

static int m_rsplit(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return split(x, v, a, "rsplit", true, out);
}

static int m_splitlines(struct jx *x, struct jv v, const struct jargs *a,
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

        if (add_piece(&p, sub(v, 0, n + (keep ? end : 0))) < 0)
            return -1;
        v = sub(v, n + end, v.n);
    }
    *out = jv_seq(JV_LIST, p.v, p.n);
    return 0;
}

static int partition(struct jx *x, struct jv v, const struct jargs *a,
                     const char *name, bool right, struct jv *out)
{
    struct jv sep, *t = jarena_get(&x->mem, 3 * sizeof(*t));

    if (jx_bind(x, name, a, "sep", 1, &sep) < 0
        || want_str(x, sep, name) < 0)
        return -1;
    if (sep.n == 0)
        return jx_fail(x, "%s: empty separator", name);
    if (right && jx_scan(x, v.n * sep.n) < 0)
        return -1;
    size_t at = find_in(v, 0, v.n, sep, right);
    if (at == v.n) {
        t[right ? 2 : 0] = v;
        t[1] = t[right ? 0 : 2] = sub(v, 0, 0);
    } else {
        t[0] = sub(v, 0, at);
        t[1] = sub(v, at, at + sep.n);
        t[2] = sub(v, at + sep.n, v.n);
    }
    *out = jv_seq(JV_TUPLE, t, 3);
    return 0;
}

static int m_partition(struct jx *x, struct jv v, const struct jargs *a,
                       struct jv *out)
{
    return partition(x, v, a, "partition", false, out);
}

static int m_rpartition(struct jx *x, struct jv v, const struct jargs *a,
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
    if (!given(p[0]) && !given(p[1]))
        return 0;
    if (given(p[0])) {
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
        || want_str(x, p[0], names[how]) < 0
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

static int m_find(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    return find(x, v, a, FIND, out);
}

static int m_rfind(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    return find(x, v, a, RFIND, out);
}

static int m_rindex(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return find(x, v, a, RINDEX, out);
}

/* index and count: of strings and of lists. */
static int m_index(struct jx *x, struct jv v, const struct jargs *a,
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

static int m_count(struct jx *x, struct jv v, const struct jargs *a,
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
        if (want_str(x, p[0], "count") < 0
            || window(x, v, p + 1, &from, &to) < 0)
            return -1;
        if (p[0].n == 0)
            n = ju_len(sub(v, from, to)) + 1;
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

static int m_replace(struct jx *x, struct jv v, const struct jargs *a,
                     struct jv *out)
{
    struct jv p[3];
    int64_t count = -1;

    if (jx_bind(x, "replace", a, "old,new,count", 2, p) < 0
        || want_str(x, p[0], "replace") < 0
        || want_str(x, p[1], "replace") < 0
        || (p[2].kind != JV_ABSENT
            && jx_want_int(x, p[2], "replace", &count) < 0)
        || jx_replace(x, v, p[0], p[1], count, out) < 0)
        return -1;
    out->flag = v.flag;
    return 0;
}

static int m_join(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    struct jv p;

    if (jx_bind(x, "join", a, "iterable", 1, &p) < 0)
        return -1;
    if ((v.flag & JF_MARKUP) != 0)
        return jx_fail(x, "joining with an escaped text is not supported");
    return jx_join(x, v, p, false, out);
}

int jx_center(struct jx *x, struct jv s, int64_t width, struct jv fill,
              int side, struct jv *out)
{
    struct jb b;
    int64_t n = (int64_t)ju_len(s), pad = width - n;
    /* Python puts the odd one on the left if the width is odd too */
    int64_t left = side == JU_LEFT ? pad : side == JU_RIGHT ? 0
                   : pad / 2 + (pad & width & 1);

    *out = s;
    if (pad <= 0)
        return 0;
    if (jx_work(x, (size_t)pad) < 0)
        return -1;
    jb_begin(&b, x, s.n + 32);
    for (int64_t i = 0; i < left && !b.failed; i++)
        jb_add(&b, fill.u.s, fill.n);
    jb_add(&b, s.u.s, s.n);
    for (int64_t i = left; i < pad && !b.failed; i++)
        jb_add(&b, fill.u.s, fill.n);
    return jb_end(&b, out);
}

static int justify(struct jx *x, struct jv v, const struct jargs *a,
                   const char *name, int side, struct jv *out)
{
    struct jv p[2];
    int64_t width;

    if (jx_bind(x, name, a, "width,fillchar", 1, p) < 0
        || jx_want_int(x, p[0], name, &width) < 0)
        return -1;
    if (p[1].kind == JV_ABSENT)
        p[1] = jv_str(" ", 1);
    if (want_str(x, p[1], name) < 0)
        return -1;
    if (ju_len(p[1]) != 1)
        return jx_fail(x, "%s: the fill must be one character", name);
    return jx_center(x, v, width, p[1], side, out);
}

static int m_center(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return justify(x, v, a, "center", JU_BOTH, out);
}

static int m_ljust(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    return justify(x, v, a, "ljust", JU_RIGHT, out);
}

static int m_rjust(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    return justify(x, v, a, "rjust", JU_LEFT, out);
}

static int m_zfill(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    struct jv p, digits;
    int64_t width;
    size_t sign = v.n > 0 && (v.u.s[0] == '-' || v.u.s[0] == '+');

    if (jx_bind(x, "zfill", a, "width", 1, &p) < 0
        || jx_want_int(x, p, "zfill", &width) < 0
        || jx_center(x, sub(v, sign, v.n), width - (int64_t)sign,
                     jv_str("0", 1), JU_LEFT, &digits) < 0)
        return -1;
    return jx_binary(x, JO_ADD, sub(v, 0, sign), digits, out);
}

static bool is_digit(uint32_t cp)
{
    return ju_decimal(cp);
}

static bool is_alnum(uint32_t cp)
{
    return ju_alpha(cp) || ju_decimal(cp);
}

static int all(struct jx *x, struct jv v, const struct jargs *a,
               const char *name, bool (*is)(uint32_t), struct jv *out)
{
    bool yes = v.n > 0;

    for (size_t i = 0; yes && i < v.n;) {
        uint32_t cp;

        i += ju_get(v.u.s + i, v.n - i, &cp);
        yes = is(cp);
    }
    *out = jv_bool(yes);
    return jx_bind(x, name, a, "", 0, NULL);
}

#define ALL(NAME, IS)                                                       \
    static int m_##NAME(struct jx *x, struct jv v, const struct jargs *a,   \
                        struct jv *out)                                     \
    {                                                                       \
        return all(x, v, a, #NAME, IS, out);                                \
    }

ALL(isspace, ju_space)
ALL(isdigit, is_digit)
ALL(isdecimal, is_digit)
ALL(isalpha, ju_alpha)
ALL(isalnum, is_alnum)

static int m_isupper(struct jx *x, struct jv v, const struct jargs *a,
                     struct jv *out)
{
    *out = jv_bool(ju_is_upper(v));
    return jx_bind(x, "isupper", a, "", 0, NULL);
}

static int m_islower(struct jx *x, struct jv v, const struct jargs *a,
                     struct jv *out)
{
    *out = jv_bool(ju_is_lower(v));
    return jx_bind(x, "islower", a, "", 0, NULL);
}

static int m_format(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return jx_format(x, v, a, out);
}

/* ---- dict, list ---- */

static int view(struct jx *x, struct jv v, const struct jargs *a,
                const char *name, int what, struct jv *out)
{
    struct jv *dict = jarena_get(&x->mem, sizeof(*dict));

    *dict = v;
    *out = (struct jv){.kind = JV_VIEW, .aux = (uint8_t)what, .n = v.n,
                       .u.v = dict};
    return jx_bind(x, name, a, "", 0, NULL);
}

static int m_keys(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    return view(x, v, a, "keys", JVIEW_KEYS, out);
}

static int m_values(struct jx *x, struct jv v, const struct jargs *a,
                    struct jv *out)
{
    return view(x, v, a, "values", JVIEW_VALUES, out);
}

static int m_items(struct jx *x, struct jv v, const struct jargs *a,
                   struct jv *out)
{
    return view(x, v, a, "items", JVIEW_ITEMS, out);
}

static int m_get(struct jx *x, struct jv v, const struct jargs *a,
                 struct jv *out)
{
    struct jv p[2];
    bool found;

    if (jx_bind(x, "get", a, "key,default", 1, p) < 0
        || jx_dict_get(x, v, p[0], out, &found) < 0)
        return -1;
    if (!found)
        *out = p[1].kind == JV_ABSENT ? jv_none() : p[1];
    return 0;
}

static int m_copy(struct jx *x, struct jv v, const struct jargs *a,
                  struct jv *out)
{
    *out = v; /* nothing can change either */
    return jx_bind(x, "copy", a, "", 0, NULL);
}

enum { S = 1 << JV_STR, L = 1 << JV_LIST, T = 1 << JV_TUPLE,
       D = 1 << JV_DICT, R = 1 << JV_RANGE,
       N = 1 << JV_BOOL | 1 << JV_INT | 1 << JV_FLOAT };

static const struct {
    const char *name;
    method_f *f; /* NULL: it would change the value */
    int of;
} methods[] = {
    {"strip", m_strip, S}, {"lstrip", m_lstrip, S}, {"rstrip", m_rstrip, S},
    {"split", m_split, S}, {"startswith", m_startswith, S},
    {"endswith", m_endswith, S}, {"replace", m_replace, S},
    {"upper", m_upper, S}, {"lower", m_lower, S}, {"title", m_title, S},
    {"capitalize", m_capitalize, S}, {"swapcase", m_swapcase, S},
    {"join", m_join, S}, {"find", m_find, S}, {"rfind", m_rfind, S},
    {"rindex", m_rindex, S}, {"rsplit", m_rsplit, S},
    {"splitlines", m_splitlines, S}, {"partition", m_partition, S},
    {"rpartition", m_rpartition, S}, {"removeprefix", m_removeprefix, S},
    {"removesuffix", m_removesuffix, S}, {"center", m_center, S},
    {"ljust", m_ljust, S}, {"rjust", m_rjust, S}, {"zfill", m_zfill, S},
    {"isspace", m_isspace, S}, {"isdigit", m_isdigit, S},
    {"isdecimal", m_isdecimal, S}, {"isalpha", m_isalpha, S},
    {"isalnum", m_isalnum, S}, {"isupper", m_isupper, S},
    {"islower", m_islower, S}, {"format", m_format, S},
    {"index", m_index, S | L | T | R}, {"count", m_count, S | L | T | R},
    {"keys", m_keys, D}, {"values", m_values, D}, {"items", m_items, D},
    {"get", m_get, D}, {"copy", m_copy, D | L},
    {"append", NULL, L}, {"clear", NULL, D | L}, {"pop", NULL, D | L},
    {"reverse", NULL, L}, {"insert", NULL, L}, {"sort", NULL, L},
    {"extend", NULL, L}, {"remove", NULL, L}, {"popitem", NULL, D},
    {"setdefault", NULL, D}, {"update", NULL, D},
};

/* What Python's types have beyond that. */
static const struct {
    const char *name;
    int of;
} missing[] = {
    {"encode", S}, {"translate", S}, {"maketrans", S}, {"format_map", S},
    {"expandtabs", S}, {"casefold", S}, {"isidentifier", S}, {"isascii", S},
    {"isprintable", S}, {"isnumeric", S}, {"istitle", S}, {"fromkeys", D},
    {"start", R}, {"stop", R}, {"step", R}, {"real", N}, {"imag", N},
    {"numerator", N}, {"denominator", N}, {"conjugate", N},
    {"bit_length", N}, {"bit_count", N}, {"to_bytes", N},
    {"from_bytes", N}, {"as_integer_ratio", N}, {"is_integer", N},
    {"hex", N}, {"fromhex", N},
};

static bool is_hidden(struct jv name)
{
    return name.n > 4 && memcmp(name.u.s, "__", 2) == 0;
}

bool jmethod_exists(struct jv name)
{
    for (size_t i = 0; i < BN_COUNT(methods); i++)
        if (jv_same_str(name, methods[i].name))
            return true;
    for (size_t i = 0; i < BN_COUNT(missing); i++)
        if (jv_same_str(name, missing[i].name))
            return true;
    return is_hidden(name);
}

int jx_method(struct jx *x, struct jv v, struct jv name, struct jv *out,
              bool *found)
{
    *found = (name.flag & JF_PLAIN) == 0;
    if (!*found)
        return 0;
    for (size_t i = 0; i < BN_COUNT(methods); i++) {
        if ((methods[i].of >> v.kind & 1) == 0
            || !jv_same_str(name, methods[i].name))
            continue;
        if (methods[i].f == NULL) {
            *out = (struct jv){.kind = JV_UNDEF, .aux = JU_UNSAFE,
                               .owner = v.kind, .n = name.n,
                               .u.s = name.u.s};
            return 0;
        }
        struct jv *self = jarena_get(&x->mem, sizeof(*self));
        *self = v;
        *out = (struct jv){.kind = JV_METHOD, .aux = (uint8_t)i, .u.v = self};
        return 0;
    }
    for (size_t i = 0; i < BN_COUNT(missing); i++) {
        if ((missing[i].of >> v.kind & 1) != 0
            && jv_same_str(name, missing[i].name))
            return jx_fail(x, "'%s' of %s is not supported", missing[i].name,
                           jv_type(v));
    }
    if (is_hidden(name)) {
        *out = (struct jv){.kind = JV_UNDEF, .aux = JU_UNSAFE,
                           .owner = v.kind, .n = name.n, .u.s = name.u.s};
        return 0;
    }
    *found = false;
    return 0;
}

int jx_call_method(struct jx *x, struct jv m, const struct jargs *a,
                   struct jv *out)
{
    const struct jv *self = m.u.v;

    if (self->kind == JV_STR && jx_scan(x, self->n) < 0)
        return -1;
    return methods[m.aux].f(x, *self, a, out);
}
