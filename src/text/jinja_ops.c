/* Operators: arithmetic as Python's, comparison, membership, access. */
#include "config.h"
#include "text/jinja.h"

#include <math.h>
#include <string.h>

static int too_large(struct jx *x)
{
    return jx_fail(x, "integer too large: integers have 64 bits here");
}

static const char *op_text(enum jop op)
{
    static const char *const text[] = {
        [JO_ADD] = "+", [JO_SUB] = "-", [JO_MUL] = "*", [JO_DIV] = "/",
        [JO_FLOORDIV] = "//", [JO_MOD] = "%", [JO_POW] = "**",
        [JO_LT] = "<", [JO_LE] = "<=", [JO_GT] = ">", [JO_GE] = ">="};

    return text[op];
}

static int int_pow(struct jx *x, int64_t base, int64_t exp, int64_t *out)
{
    int64_t r = 1;

    while (exp > 0) {
        if ((exp & 1) != 0 && __builtin_mul_overflow(r, base, &r))
            return too_large(x);
        exp >>= 1;
        if (exp > 0 && __builtin_mul_overflow(base, base, &base))
            return too_large(x);
    }
    *out = r;
    return 0;
}

static int int_op(struct jx *x, enum jop op, int64_t a, int64_t b,
                  struct jv *out)
{
    int64_t r = 0;
    bool over = false;

    switch (op) {
    case JO_ADD:
        over = __builtin_add_overflow(a, b, &r);
        break;
    case JO_SUB:
        over = __builtin_sub_overflow(a, b, &r);
        break;
    case JO_MUL:
        over = __builtin_mul_overflow(a, b, &r);
        break;
    case JO_POW:
        if (int_pow(x, a, b, &r) < 0)
            return -1;
        break;
    default: /* // and %, b is not 0 */
        if (b == -1) { /* INT64_MIN / -1 traps */
            over = op == JO_FLOORDIV && __builtin_sub_overflow(0, a, &r);
            break;
        }
        r = op == JO_FLOORDIV ? a / b : a % b;
        if (a % b != 0 && (a < 0) != (b < 0))
            r += op == JO_FLOORDIV ? -1 : b;
    }
    if (over)
        return too_large(x);
    *out = jv_int(r);
    return 0;
}

static double float_mod(double a, double b)
{
    double m = fmod(a, b);

    if (m != 0)
        return (m < 0) != (b < 0) ? m + b : m;
    return copysign(0.0, b);
}

static int number_op(struct jx *x, enum jop op, struct jv a, struct jv b,
                     struct jv *out)
{
    bool ints = jv_is_int(a) && jv_is_int(b);
    double f = jv_num(a), g = jv_num(b), r;

    if ((op == JO_DIV || op == JO_FLOORDIV || op == JO_MOD) && g == 0)
        return jx_fail(x, "division by zero");
    if (ints && op != JO_DIV && !(op == JO_POW && jv_integer(b) < 0))
        return int_op(x, op, jv_integer(a), jv_integer(b), out);
    switch (op) {
    case JO_ADD:
        r = f + g;
        break;
    case JO_SUB:
        r = f - g;
        break;
    case JO_MUL:
        r = f * g;
        break;
    case JO_DIV:
        r = f / g;
        break;
    case JO_MOD:
        r = float_mod(f, g);
        break;
    case JO_FLOORDIV:
        r = rint((f - float_mod(f, g)) / g); /* as CPython computes it */
        break;
    default:
        if (f == 0 && g < 0)
            return jx_fail(x, "0 cannot be raised to a negative power");
        r = pow(f, g);
        if (isnan(r) && !isnan(f) && !isnan(g))
            return jx_fail(x, "complex numbers are not supported");
    }
    *out = jv_float(r);
    return 0;
}

static int repeat(struct jx *x, struct jv v, int64_t times, struct jv *out)
{
    size_t n = times > 0 ? (size_t)times : 0;

    if (n > 0 && v.n > ((size_t)1 << 40) / n)
        return jx_room(x, SIZE_MAX);
    if (jx_work(x, v.kind == JV_STR ? n : n * v.n) < 0)
        return -1;
    if (v.kind == JV_STR) {
        struct jb b;

        jb_begin(&b, x, 32);
        for (size_t i = 0; i < n && !b.failed; i++)
            jb_add(&b, v.u.s, v.n);
        if (jb_end(&b, out) < 0)
            return -1;
        out->flag = v.flag;
        return 0;
    }
    struct jv *a = jx_array(x, n * v.n + 1, sizeof(*a));
    if (a == NULL)
        return -1;
    for (size_t i = 0; i < n * v.n; i++)
        a[i] = jv_at(v, i % v.n);
    *out = jv_seq(v.kind, a, n * v.n);
    return 0;
}

int jx_escape(struct jx *x, struct jv v, struct jv *out)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;",
                                     "&#34;"};
    struct jb b;

    if (jx_str(x, v, &v) < 0)
        return -1;
    if ((v.flag & JF_MARKUP) == 0) {
        jb_begin(&b, x, v.n + 1);
        for (size_t i = 0; i < v.n; i++) {
            const char *p = v.u.s[i] != '\0' ? strchr(from, v.u.s[i]) : NULL;

            if (p != NULL)
                jb_adds(&b, to[p - from]);
            else
                jb_add(&b, &v.u.s[i], 1);
        }
        if (jb_end(&b, &v) < 0)
            return -1;
    }
    v.flag |= JF_MARKUP;
    *out = v;
    return 0;
}

static int join_two(struct jx *x, struct jv a, struct jv b, struct jv *out)
{
    uint8_t markup = (a.flag | b.flag) & JF_MARKUP;
    struct jb s;

    if (a.kind == JV_STR) {
        if (markup != 0
            && (jx_escape(x, a, &a) < 0 || jx_escape(x, b, &b) < 0))
            return -1;
        jb_begin(&s, x, a.n + b.n + 1);
        jb_add(&s, a.u.s, a.n);
        jb_add(&s, b.u.s, b.n);
        if (jb_end(&s, out) < 0)
            return -1;
        out->flag = markup;
        return 0;
    }
    if (jx_work(x, a.n + b.n) < 0)
        return -1;
    struct jv *v = jx_array(x, a.n + b.n + 1, sizeof(*v));
    if (v == NULL)
        return -1;
    for (size_t i = 0; i < a.n; i++)
        v[i] = jv_at(a, i);
    for (size_t i = 0; i < b.n; i++)
        v[a.n + i] = jv_at(b, i);
    *out = jv_seq(a.kind, v, a.n + b.n);
    return 0;
}

static bool can_repeat(struct jv v)
{
    return v.kind == JV_STR || v.kind == JV_LIST || v.kind == JV_TUPLE;
}

int jx_binary(struct jx *x, enum jop op, struct jv a, struct jv b,
              struct jv *out)
{
    if (jv_is_num(a) && jv_is_num(b))
        return number_op(x, op, a, b, out);
    if (op == JO_MOD && a.kind == JV_STR)
        return jx_percent(x, a, b, out);
    if (a.kind == JV_UNDEF || b.kind == JV_UNDEF)
        return jx_undef_fail(x, a.kind == JV_UNDEF ? a : b);
    if (op == JO_ADD && a.kind == b.kind && can_repeat(a))
        return join_two(x, a, b, out);
    if (op == JO_MUL && can_repeat(a) && jv_is_int(b))
        return repeat(x, a, jv_integer(b), out);
    if (op == JO_MUL && can_repeat(b) && jv_is_int(a))
        return repeat(x, b, jv_integer(a), out);
    return jx_fail(x, "unsupported operand types for %s: '%s' and '%s'",
                   op_text(op), jv_type(a), jv_type(b));
}

int jx_negate(struct jx *x, struct jv v, struct jv *out)
{
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (!jv_is_num(v))
        return jx_fail(x, "bad operand type for unary -: '%s'", jv_type(v));
    if (v.kind == JV_FLOAT) {
        *out = jv_float(-v.u.f);
        return 0;
    }
    return int_op(x, JO_SUB, 0, jv_integer(v), out);
}

int jx_contains(struct jx *x, struct jv in, struct jv v, bool *out)
{
    struct jcursor c;
    struct jv e;

    *out = false;
    if (in.kind == JV_STR) {
        if (v.kind != JV_STR)
            return jx_fail(x, "'in' a string needs a string on its left, "
                              "not '%s'", jv_type(v));
        if (jx_scan(x, in.n) < 0)
            return -1;
        *out = v.n == 0 || (v.n <= in.n
                            && memmem(in.u.s, in.n, v.u.s, v.n) != NULL);
        return 0;
    }
    if (in.kind == JV_DICT)
        return jx_dict_get(x, in, v, &e, out);
    if (jx_cursor(x, in, &c) < 0)
        return -1;
    while (!*out && jx_next(x, &c, &e)) {
        if (jx_equal(x, v, e, out) < 0 || jx_work(x, 1) < 0)
            return -1;
    }
    return 0;
}

int jx_compare(struct jx *x, enum jop op, struct jv a, struct jv b, bool *out)
{
    int cmp;

    if (op == JO_EQ || op == JO_NE) {
        if (jx_equal(x, a, b, out) < 0)
            return -1;
        *out ^= op == JO_NE;
        return 0;
    }
    if (op == JO_IN || op == JO_NOTIN) {
        if (jx_contains(x, b, a, out) < 0)
            return -1;
        *out ^= op == JO_NOTIN;
        return 0;
    }
    if (jx_less(x, a, b, op_text(op), &cmp) < 0)
        return -1;
    *out = cmp != 2 && (op == JO_LT ? cmp < 0 : op == JO_LE ? cmp <= 0
                        : op == JO_GT ? cmp > 0 : cmp >= 0);
    return 0;
}

static struct jv no_attribute(struct jv v, struct jv name)
{
    return (struct jv){.kind = JV_UNDEF, .aux = JU_ATTR, .owner = v.kind,
                       .n = name.n, .u.s = name.u.s};
}

/* What Python's getattr finds; not the entries of a dict. */
static int python_attr(struct jx *x, struct jv v, struct jv name,
                       struct jv *out, bool *found)
{
    *found = false;
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (v.kind == JV_LOOP)
        return jx_loop_attr(x, v.u.loop, name, out, found);
    if (v.kind == JV_NS) {
        struct jv d = {.kind = JV_DICT, .n = v.u.d->n, .u.d = v.u.d};

        return jx_dict_get(x, d, name, out, found);
    }
    return jx_method(x, v, name, out, found);
}

int jx_getattr(struct jx *x, struct jv v, struct jv name, struct jv *out)
{
    bool found;

    if (python_attr(x, v, name, out, &found) < 0)
        return -1;
    if (!found && v.kind == JV_DICT
        && jx_dict_get(x, v, name, out, &found) < 0)
        return -1;
    if (!found)
        *out = no_attribute(v, name);
    return 0;
}

static int char_at(struct jv s, int64_t i, struct jv *out)
{
    int64_t n = (int64_t)ju_len(s);
    uint32_t cp;

    i += i < 0 ? n : 0;
    if (i < 0 || i >= n)
        return -1;
    size_t from = ju_offset(s, (size_t)i);
    *out = jv_str(s.u.s + from, ju_get(s.u.s + from, s.n - from, &cp));
    out->flag = s.flag;
    return 0;
}

int jx_getitem(struct jx *x, struct jv v, struct jv key, struct jv *out)
{
    bool found = false;

    if (v.kind == JV_DICT) {
        if ((key.kind == JV_LIST || key.kind == JV_DICT))
            key = jv_str("", 0); /* TypeError in Python: undefined */
        else if (jx_dict_get(x, v, key, out, &found) < 0)
            return -1;
    } else if (jv_is_int(key)
               && (v.kind == JV_LIST || v.kind == JV_TUPLE
                   || v.kind == JV_RANGE || v.kind == JV_STR)) {
        int64_t i = jv_integer(key);

        if (v.kind == JV_STR) {
            if (jx_scan(x, v.n) < 0)
                return -1;
            found = char_at(v, i, out) == 0;
        } else {
            i += i < 0 ? (int64_t)v.n : 0;
            found = i >= 0 && i < (int64_t)v.n;
            if (found)
                *out = jv_at(v, (size_t)i);
        }
    }
    if (!found && key.kind == JV_STR
        && python_attr(x, v, key, out, &found) < 0)
        return -1;
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (found)
        return 0;
    if (jv_is_int(key))
        *out = (struct jv){.kind = JV_UNDEF, .aux = JU_ITEM, .owner = v.kind,
                           .u.i = jv_integer(key)};
    else if (key.kind == JV_STR)
        *out = no_attribute(v, key);
    else
        *out = jv_undef_text("no element of that key");
    return 0;
}

/* A slice's part as an integer; '*given' false for None and absent. */
static int slice_part(struct jx *x, struct jv v, int64_t *out, bool *given)
{
    *given = v.kind != JV_NONE && v.kind != JV_ABSENT;
    if (!*given)
        return 0;
    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (!jv_is_int(v))
        return jx_fail(x, "slice indices must be integers, not '%s'",
                       jv_type(v));
    *out = jv_integer(v);
    return 0;
}

static int64_t clamp(int64_t i, int64_t n, int64_t low, int64_t high)
{
    if (i < 0)
        i = i < -n ? -1 : i + n;
    return i < low ? low : i > high ? high : i;
}

static int slice_str(struct jx *x, struct jv s, int64_t from, int64_t step,
                     size_t count, struct jv *out)
{
    struct jb b;

    if (step == 1) {
        size_t at = ju_offset(s, (size_t)from);
        struct jv rest = jv_str(s.u.s + at, s.n - at);

        *out = jv_str(rest.u.s, ju_offset(rest, count));
        out->flag = s.flag;
        return 0;
    }
    size_t n = ju_len(s), at = 0, *start = jx_array(x, n + 1, sizeof(*start));
    if (start == NULL || jx_work(x, count) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        uint32_t cp;

        start[i] = at;
        at += ju_get(s.u.s + at, s.n - at, &cp);
    }
    start[n] = s.n;
    jb_begin(&b, x, count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t k = (size_t)(from + (int64_t)i * step);

        jb_add(&b, s.u.s + start[k], start[k + 1] - start[k]);
    }
    if (jb_end(&b, out) < 0)
        return -1;
    out->flag = s.flag;
    return 0;
}

int jx_slice(struct jx *x, struct jv v, const struct jv part[3],
             struct jv *out)
{
    int64_t i = 0, j = 0, step = 1;
    bool has_i, has_j, has_step;

    if (v.kind == JV_UNDEF)
        return jx_undef_fail(x, v);
    if (v.kind != JV_STR && v.kind != JV_LIST && v.kind != JV_TUPLE
        && v.kind != JV_RANGE)
        return jx_fail(x, "'%s' object cannot be sliced", jv_type(v));
    if (slice_part(x, part[0], &i, &has_i) < 0
        || slice_part(x, part[1], &j, &has_j) < 0
        || slice_part(x, part[2], &step, &has_step) < 0)
        return -1;
    if (v.kind == JV_STR && jx_scan(x, v.n) < 0)
        return -1;
    if (step == 0)
        return jx_fail(x, "slice step cannot be zero");
    int64_t n = (int64_t)(v.kind == JV_STR ? ju_len(v) : v.n);
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    i = has_i ? clamp(i, n, low, high) : step < 0 ? high : low;
    j = has_j ? clamp(j, n, low, high) : step < 0 ? low : high;
    if (step > n)
        step = n + 1; /* one step leaves the sequence all the same */
    if (step < -n)
        step = -n - 1;
    int64_t span = step > 0 ? j - i : i - j, size = step > 0 ? step : -step;
    size_t count = span > 0 ? (size_t)((span - 1) / size + 1) : 0;

    if (v.kind == JV_STR)
        return slice_str(x, v, i, step, count, out);
    if (v.kind == JV_RANGE) {
        struct jrange *r = jarena_get(&x->mem, sizeof(*r));

        *r = (struct jrange){v.u.r->start + i * v.u.r->step,
                             v.u.r->start + j * v.u.r->step,
                             v.u.r->step * step};
        *out = (struct jv){.kind = JV_RANGE, .n = count, .u.r = r};
        return 0;
    }
    struct jv *a = jx_array(x, count + 1, sizeof(*a));
    if (a == NULL || jx_work(x, count) < 0)
        return -1;
    for (size_t k = 0; k < count; k++)
        a[k] = jv_at(v, (size_t)(i + (int64_t)k * step));
    *out = jv_seq(v.kind, a, count);
    return 0;
}
