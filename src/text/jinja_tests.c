/* Tests: what stands after "is". */
#include "config.h"
#include "text/jinja.h"
#include "base/mem.h"

#include <string.h>

static int none(struct jx *x, const struct jargs *a, const char *name)
{
    return jx_bind(x, name, a, "", 0, NULL);
}

#define SIMPLE(NAME, TEXT, YES)                                             \
    static int t_##NAME(struct jx *x, struct jv v, const struct jargs *a,   \
                        bool *out)                                          \
    {                                                                       \
        *out = (YES);                                                       \
        return none(x, a, TEXT);                                            \
    }

SIMPLE(defined, "defined", v.kind != JV_UNDEF)
SIMPLE(undefined, "undefined", v.kind == JV_UNDEF)
SIMPLE(none_, "none", v.kind == JV_NONE)
SIMPLE(boolean, "boolean", v.kind == JV_BOOL)
SIMPLE(true_, "true", v.kind == JV_BOOL && v.u.b)
SIMPLE(false_, "false", v.kind == JV_BOOL && !v.u.b)
SIMPLE(integer, "integer", v.kind == JV_INT)
SIMPLE(float_, "float", v.kind == JV_FLOAT)
SIMPLE(number, "number", jv_is_num(v))
SIMPLE(string, "string", v.kind == JV_STR)
SIMPLE(mapping, "mapping", v.kind == JV_DICT)
SIMPLE(escaped, "escaped", v.kind == JV_STR && (v.flag & JF_MARKUP) != 0)
SIMPLE(callable, "callable", v.kind == JV_MACRO || v.kind == JV_METHOD
                             || v.kind == JV_FUNC || v.kind == JV_LOOP
                             || v.kind == JV_UNDEF)
/* Python's question is whether len() and indexing exist. */
SIMPLE(sequence, "sequence", v.kind == JV_STR || v.kind == JV_LIST
                             || v.kind == JV_TUPLE || v.kind == JV_DICT
                             || v.kind == JV_RANGE || v.kind == JV_UNDEF)
SIMPLE(iterable, "iterable", v.kind == JV_STR || v.kind == JV_LIST
                             || v.kind == JV_TUPLE || v.kind == JV_DICT
                             || v.kind == JV_RANGE || v.kind == JV_UNDEF
                             || v.kind == JV_VIEW || v.kind == JV_ITER
                             || v.kind == JV_LOOP)

static int cased(struct jx *x, struct jv v, const struct jargs *a,
                 const char *name, bool (*is)(struct jv), bool *out)
{
    if (none(x, a, name) < 0 || jx_str(x, v, &v) < 0)
        return -1;
    *out = is(v);
    return 0;
}

static int t_lower(struct jx *x, struct jv v, const struct jargs *a,
                   bool *out)
{
    return cased(x, v, a, "lower", ju_is_lower, out);
}

static int t_upper(struct jx *x, struct jv v, const struct jargs *a,
                   bool *out)
{
    return cased(x, v, a, "upper", ju_is_upper, out);
}

static int modulo(struct jx *x, struct jv v, struct jv by, struct jv is,
                  bool *out)
{
    return jx_binary(x, JO_MOD, v, by, &v) < 0 ? -1
                                               : jx_equal(x, v, is, out);
}

static int t_odd(struct jx *x, struct jv v, const struct jargs *a, bool *out)
{
    return none(x, a, "odd") < 0 ? -1
                                 : modulo(x, v, jv_int(2), jv_int(1), out);
}

static int t_even(struct jx *x, struct jv v, const struct jargs *a, bool *out)
{
    return none(x, a, "even") < 0 ? -1
                                  : modulo(x, v, jv_int(2), jv_int(0), out);
}

static int t_divisibleby(struct jx *x, struct jv v, const struct jargs *a,
                         bool *out)
{
    struct jv p;

    return jx_bind(x, "divisibleby", a, "num", 1, &p) < 0
               ? -1 : modulo(x, v, p, jv_int(0), out);
}

static int compare(struct jx *x, struct jv v, const struct jargs *a,
                   enum jop op, bool *out)
{
    struct jv p;

    return jx_bind(x, "this test", a, "other", 1, &p) < 0
               ? -1 : jx_compare(x, op, v, p, out);
}

#define COMPARE(NAME, OP)                                                   \
    static int t_##NAME(struct jx *x, struct jv v, const struct jargs *a,   \
                        bool *out)                                          \
    {                                                                       \
        return compare(x, v, a, OP, out);                                   \
    }

COMPARE(eq, JO_EQ)
COMPARE(ne, JO_NE)
COMPARE(lt, JO_LT)
COMPARE(le, JO_LE)
COMPARE(gt, JO_GT)
COMPARE(ge, JO_GE)
COMPARE(in, JO_IN)

static int t_sameas(struct jx *x, struct jv v, const struct jargs *a,
                    bool *out)
{
    struct jv p;

    if (jx_bind(x, "sameas", a, "other", 1, &p) < 0)
        return -1;
    *out = false;
    if (v.kind != p.kind)
        return 0;
    if (v.kind == JV_NONE || v.kind == JV_BOOL)
        return jx_equal(x, v, p, out);
    if (v.kind == JV_INT || v.kind == JV_FLOAT || v.kind == JV_STR)
        return jx_fail(x, "sameas compares identities, which numbers and "
                          "strings do not have here: use ==");
    *out = v.u.v == p.u.v;
    return 0;
}

static int t_filter(struct jx *x, struct jv v, const struct jargs *a,
                    bool *out)
{
    *out = v.kind == JV_STR && jfilter_find(v.u.s, v.n) != NULL;
    return none(x, a, "filter");
}

static int t_test(struct jx *x, struct jv v, const struct jargs *a, bool *out)
{
    *out = v.kind == JV_STR && jtest_find(v.u.s, v.n) != NULL;
    return none(x, a, "test");
}

static const struct jtest tests[] = {
    {"defined", t_defined}, {"undefined", t_undefined}, {"none", t_none_},
    {"boolean", t_boolean}, {"true", t_true_}, {"false", t_false_},
    {"integer", t_integer}, {"float", t_float_}, {"number", t_number},
    {"string", t_string}, {"mapping", t_mapping}, {"escaped", t_escaped},
    {"callable", t_callable}, {"sequence", t_sequence},
    {"iterable", t_iterable}, {"lower", t_lower}, {"upper", t_upper},
    {"odd", t_odd}, {"even", t_even}, {"divisibleby", t_divisibleby},
    {"eq", t_eq}, {"equalto", t_eq}, {"==", t_eq}, {"ne", t_ne},
    {"!=", t_ne}, {"lt", t_lt}, {"lessthan", t_lt}, {"<", t_lt},
    {"le", t_le}, {"<=", t_le}, {"gt", t_gt}, {"greaterthan", t_gt},
    {">", t_gt}, {"ge", t_ge}, {">=", t_ge}, {"in", t_in},
    {"sameas", t_sameas}, {"filter", t_filter}, {"test", t_test},
};

const struct jtest *jtest_find(const char *s, size_t n)
{
    for (size_t i = 0; i < BN_COUNT(tests); i++) {
        if (jv_same_str(jv_str(s, n), tests[i].name))
            return &tests[i];
    }
    return NULL;
}
