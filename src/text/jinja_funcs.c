/* Global functions: range, dict, namespace, raise_exception, strftime_now,
 * and those of a loop.
 */
#include "config.h"
#include "text/jinja.h"

#include <string.h>
#include <time.h>

static int make_range(struct jx *x, const struct jargs *a, struct jv *out)
{
    int64_t v[3] = {0, 0, 1};
    struct jrange *r = jarena_get(&x->mem, sizeof(*r));

    if (a->nkw > 0 || a->npos < 1 || a->npos > 3)
        return jx_fail(x, "range takes 1 to 3 integers");
    for (size_t i = 0; i < a->npos; i++)
        if (jx_want_int(x, a->pos[i], "range", &v[i]) < 0)
            return -1;
    if (a->npos == 1) {
        v[1] = v[0];
        v[0] = 0;
    }
    if (v[2] == 0)
        return jx_fail(x, "range: the step must not be zero");
    __extension__ __int128 span = v[2] > 0
                                      ? (__int128)v[1] - v[0]
                                      : (__int128)v[0] - v[1];
    __extension__ __int128 step = v[2] > 0 ? v[2] : -(__int128)v[2];
    __extension__ __int128 n = span > 0 ? (span - 1) / step + 1 : 0;
    if (n > JX_MAX_RANGE)
        return jx_fail(x, "range too big (over %d)", JX_MAX_RANGE);
    *r = (struct jrange){v[0], v[1], v[2]};
    *out = (struct jv){.kind = JV_RANGE, .n = (size_t)n, .u.r = r};
    return 0;
}

/* dict() and namespace(): a dict or pairs, then keywords. */
static int make_dict(struct jx *x, const struct jargs *a, struct jdict *d)
{
    struct jcursor c;
    struct jv e, *kv;
    size_t n;

    *d = (struct jdict){0};
    if (a->npos > 1)
        return jx_fail(x, "at most one positional argument");
    if (a->npos == 1) {
        if (a->pos[0].kind == JV_UNDEF)
            return jx_undef_fail(x, a->pos[0]);
        if (jx_cursor(x, a->pos[0], &c) < 0)
            return -1;
        if (a->pos[0].kind == JV_DICT)
            c.view = JVIEW_ITEMS;
        while (jx_next(x, &c, &e)) {
            if (jx_collect(x, e, &kv, &n) < 0)
                return -1;
            if (n != 2)
                return jx_fail(x, "dict needs pairs, got %zu elements", n);
            if (jx_dict_set(x, d, kv[0], kv[1]) < 0)
                return -1;
        }
    }
    for (size_t i = 0; i < a->nkw; i++)
        if (jx_dict_set(x, d, a->kwname[i], a->kwval[i]) < 0)
            return -1;
    return 0;
}

static int now(struct jx *x, const struct jargs *a, struct jv *out)
{
    struct jv f;
    struct tm tm;
    time_t t = time(NULL);
    size_t room, n;

    if (jx_bind(x, "strftime_now", a, "format", 1, &f) < 0)
        return -1;
    if (f.kind != JV_STR || memchr(f.u.s, '\0', f.n) != NULL)
        return jx_fail(x, "strftime_now needs a format string");
    if (f.n > 1000)
        return jx_fail(x, "strftime_now: the format is too long");
    localtime_r(&t, &tm);
    /* a final space tells an empty result from one that does not fit */
    char fmt[1002];
    memcpy(fmt, f.u.s, f.n);
    memcpy(fmt + f.n, " ", 2);
    room = 100 + 64 * f.n;
    char *s = jarena_get(&x->mem, room);
    n = strftime(s, room, fmt, &tm);
    if (n == 0)
        return jx_fail(x, "strftime_now: the result is too long");
    *out = jv_str(s, n - 1);
    return 0;
}

static int cycle(struct jx *x, struct jloop *l, const struct jargs *a,
                 struct jv *out)
{
    if (a->npos == 0 || a->nkw > 0)
        return jx_fail(x, "loop.cycle needs the values to choose from");
    *out = a->pos[(size_t)l->index0 % a->npos];
    return 0;
}

static int changed(struct jx *x, struct jloop *l, const struct jargs *a,
                   struct jv *out)
{
    struct jv now_v = jv_seq(JV_TUPLE, a->pos, a->npos);
    bool same = false;

    if (l->changed.kind != JV_ABSENT
        && jx_equal(x, l->changed, now_v, &same) < 0)
        return -1;
    l->changed = now_v;
    *out = jv_bool(!same);
    return 0;
}

int jx_call_func(struct jx *x, struct jv f, const struct jargs *a,
                 struct jv *out)
{
    struct jdict *d;
    struct jv v;

    switch (f.aux) {
    case JW_RANGE:
        return make_range(x, a, out);
    case JW_DICT:
    case JW_NAMESPACE:
        d = jarena_get(&x->mem, sizeof(*d));
        if (make_dict(x, a, d) < 0)
            return -1;
        *out = (struct jv){.kind = f.aux == JW_DICT ? JV_DICT : JV_NS,
                           .n = d->n, .u.d = d};
        return 0;
    case JW_RAISE:
        if (jx_bind(x, "raise_exception", a, "message", 1, &v) < 0
            || jx_str(x, v, &v) < 0)
            return -1;
        return jx_fail(x, "the template refuses: %.*s",
                       (int)(v.n > 400 ? 400 : v.n), v.u.s);
    case JW_STRFTIME:
        return now(x, a, out);
    case JLOOP_CYCLE:
        return cycle(x, f.u.loop, a, out);
    default:
        return changed(x, f.u.loop, a, out);
    }
}
