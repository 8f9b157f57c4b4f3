/* Methods of strings, lists and dicts that do not change them. */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <string.h>

static int strip(struct jx *x, struct jv v, const struct jargs *a,
                 const char *name, int sides, struct jv *out)
{
    struct jv chars;

    if (jx_bind(x, name, a, "chars", 0, &chars) < 0
        || (jv_given(chars) && jx_want_str(x, chars, name) < 0))
        return -1;
    if (jv_given(chars) && jx_scan(x, v.n * chars.n) < 0)
        return -1;
    *out = ju_strip(v, sides, jv_given(chars) ? &chars : NULL);
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
    if (jv_given(p[1]) || jv_given(p[2])) {
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
        if (jx_want_str(x, e, name) < 0)
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

    if (jx_bind(x, name, a, "prefix", 1, &p) < 0 || jx_want_str(x, p, name) < 0)
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
    if (jx_want_str(x, p[1], name) < 0)
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
        || jx_center(x, jv_sub(v, sign, v.n), width - (int64_t)sign,
                     jv_str("0", 1), JU_LEFT, &digits) < 0)
        return -1;
    return jx_binary(x, JO_ADD, jv_sub(v, 0, sign), digits, out);
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
    jfilter_f *f; /* NULL: it would change the value */
    int of;
} methods[] = {
    {"strip", m_strip, S}, {"lstrip", m_lstrip, S}, {"rstrip", m_rstrip, S},
    {"split", jm_split, S}, {"startswith", m_startswith, S},
    {"endswith", m_endswith, S}, {"replace", jm_replace, S},
    {"upper", m_upper, S}, {"lower", m_lower, S}, {"title", m_title, S},
    {"capitalize", m_capitalize, S}, {"swapcase", m_swapcase, S},
    {"join", jm_join, S}, {"find", jm_find, S}, {"rfind", jm_rfind, S},
    {"rindex", jm_rindex, S}, {"rsplit", jm_rsplit, S},
    {"splitlines", jm_splitlines, S}, {"partition", jm_partition, S},
    {"rpartition", jm_rpartition, S}, {"removeprefix", m_removeprefix, S},
    {"removesuffix", m_removesuffix, S}, {"center", m_center, S},
    {"ljust", m_ljust, S}, {"rjust", m_rjust, S}, {"zfill", m_zfill, S},
    {"isspace", m_isspace, S}, {"isdigit", m_isdigit, S},
    {"isdecimal", m_isdecimal, S}, {"isalpha", m_isalpha, S},
    {"isalnum", m_isalnum, S}, {"isupper", m_isupper, S},
    {"islower", m_islower, S}, {"format", m_format, S},
    {"index", jm_index, S | L | T | R}, {"count", jm_count, S | L | T | R},
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
