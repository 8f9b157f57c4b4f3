/* Arguments of calls: evaluating them, and sorting them by a signature. */
#include "config.h"
#include "text/jinja.h"

#include <string.h>

/* Values of '*star' after those of the list. */
static int star_args(struct jx *x, const struct jcall *c, struct jargs *out,
                     struct jv *pos)
{
    struct jv v, *more, *all;
    size_t n;

    if (jx_eval(x, c->star, &v) < 0 || jx_collect(x, v, &more, &n) < 0)
        return -1;
    all = jx_array(x, c->n + n + 1, sizeof(*all));
    if (all == NULL)
        return -1;
    memcpy(all, pos, c->n * sizeof(*all));
    memcpy(all + c->n, more, n * sizeof(*all));
    out->pos = all;
    out->npos = c->n + n;
    return 0;
}

static int star_kwargs(struct jx *x, const struct jcall *c,
                       struct jargs *out, struct jv *name, struct jv *val)
{
    struct jcursor cur;
    struct jv v, kv;
    size_t k = c->nkw;

    if (jx_eval(x, c->starstar, &v) < 0)
        return -1;
    if (v.kind != JV_DICT)
        return jx_fail(x, "'**' needs a dict, not '%s'", jv_type(v));
    struct jv *n = jx_array(x, k + v.n + 1, sizeof(*n));
    struct jv *w = jx_array(x, k + v.n + 1, sizeof(*w));
    if (n == NULL || w == NULL || jx_cursor(x, v, &cur) < 0)
        return -1;
    memcpy(n, name, k * sizeof(*n));
    memcpy(w, val, k * sizeof(*w));
    cur.view = JVIEW_ITEMS;
    while (jx_next(x, &cur, &kv)) {
        if (kv.u.v[0].kind != JV_STR)
            return jx_fail(x, "keywords must be strings");
        n[k] = kv.u.v[0];
        w[k++] = kv.u.v[1];
    }
    out->kwname = n;
    out->kwval = w;
    out->nkw = k;
    return 0;
}

int jx_args(struct jx *x, const struct jcall *c, struct jargs *out)
{
    *out = (struct jargs){0};
    if (c == NULL)
        return 0;
    struct jv *v = jarena_get(&x->mem,
                              (c->n + 2 * c->nkw + 1) * sizeof(*v));
    for (size_t i = 0; i < c->n; i++)
        if (jx_eval(x, c->arg[i], &v[i]) < 0)
            return -1;
    struct jv *name = v + c->n, *val = name + c->nkw;
    for (size_t i = 0; i < c->nkw; i++) {
        name[i] = jv_str(c->kwname[i]->s, c->kwname[i]->n);
        if (jx_eval(x, c->kwval[i], &val[i]) < 0)
            return -1;
    }
    *out = (struct jargs){.pos = v, .npos = c->n, .kwname = name,
                          .kwval = val, .nkw = c->nkw};
    if (c->star != NULL && star_args(x, c, out, v) < 0)
        return -1;
    if (c->starstar != NULL && star_kwargs(x, c, out, name, val) < 0)
        return -1;
    return 0;
}

int jx_bind(struct jx *x, const char *what, const struct jargs *a,
            const char *params, size_t min, struct jv *v)
{
    size_t n = 0;

    for (const char *p = params; *p != '\0'; n++) {
        size_t len = strcspn(p, ",");

        v[n] = (struct jv){.kind = JV_ABSENT};
        if (n < a->npos)
            v[n] = a->pos[n];
        for (size_t i = 0; i < a->nkw; i++) {
            if (a->kwname[i].n != len
                || memcmp(a->kwname[i].u.s, p, len) != 0)
                continue;
            if (v[n].kind != JV_ABSENT)
                return jx_fail(x, "%s: argument '%.*s' is given twice",
                               what, (int)len, p);
            v[n] = a->kwval[i];
        }
        if (v[n].kind == JV_ABSENT && n < min)
            return jx_fail(x, "%s: argument '%.*s' is missing", what,
                           (int)len, p);
        p += len + (p[len] == ',');
    }
    if (a->npos > n)
        return jx_fail(x, "%s takes at most %zu arguments, %zu given", what,
                       n, a->npos);
    for (size_t i = 0; i < a->nkw; i++) {
        const char *p = params;
        size_t len = strcspn(p, ",");

        while (*p != '\0' && (a->kwname[i].n != len
                              || memcmp(a->kwname[i].u.s, p, len) != 0)) {
            p += len + (p[len] == ',');
            len = strcspn(p, ",");
        }
        if (*p == '\0')
            return jx_fail(x, "%s has no argument '%.*s'", what,
                           (int)a->kwname[i].n, a->kwname[i].u.s);
    }
    return 0;
}

int jx_want_int(struct jx *x, struct jv v, const char *what, int64_t *out)
{
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (!jv_is_int(v))
        return jx_fail(x, "%s needs an integer, not '%s'", what, jv_type(v));
    *out = jv_integer(v);
    return 0;
}

int jx_want_str(struct jx *x, struct jv v, const char *what)
{
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (v.kind != JV_STR)
        return jx_fail(x, "%s needs a string, not '%s'", what, jv_type(v));
    return 0;
}
