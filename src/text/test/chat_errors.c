/* Templates and messages that are wrong, mean harm, or are merely odd. */
#include "config.h"
#include "text/test/chat.h"

/* Errors say where and what, of what Jinja has and we have not, too. */
static void test_errors(void **state)
{
    static const struct {
        const char *source, *want;
    } cases[] = {
        {"a\n {% nope %}", "t:2:5: unknown tag 'nope'"},
        {"{% include 'x' %}", "t:1:4: the tag 'include' is not supported"},
        {"{% for x in y recursive %}{% endfor %}",
         "t:1:15: recursive loops are not supported"},
        {"{% block a %}{% endblock %}", "t:1:4: the tag 'block'"},
        {"{{ x|xmlattr }}", "t:1:6: no filter named 'xmlattr'"},
        {"{{ 1 is nope }}", "t:1:9: no test named 'nope'"},
        {"\n\n{% if x %}", "t:3:4: this block is never closed (expected "
                            "'endif')"},
        {"{% raw %}", "t:1:1: this raw block is never closed"},
        {"{{ '한' + 1 }}", "t:1:8: unsupported operand types for +: 'str' "
                           "and 'int'"},
        {"{{ raise_exception('no\nway') }}",
         "t:1:19: the template refuses: no?way"},
        {"{{ nope.x }}", "t:1:8: 'nope' is undefined"},
        {"{{ [].append(1) }}", "t:1:13: access to attribute 'append' of "
                               "'list' object is unsafe"},
        {"{{ 'a'.encode() }}", "t:1:7: 'encode' of str is not supported"},
        {"{{ (1).real }}", "t:1:7: 'real' of int is not supported"},
        {"{{ cycler('a') }}", "t:1:4: 'cycler' is not supported"},
        {"{{ [1]|map('upper') }}", "t:1:8: cannot print a generator"},
        {"{{ ''.join }}", "t:1:6: cannot print a method (call it"},
        {"{{ 99999999999999999999 }}", "t:1:4: number too large"},
        {"{{ 9223372036854775807 + 1 }}", "t:1:24: integer too large"},
        {"{{ 2 ** 63 }}", "t:1:6: integer too large"},
        {"{{ '99999999999999999999'|int }}", "t:1:27: integer too large"},
        {"{% generation %}{% generation %}{% endgeneration %}"
         "{% endgeneration %}", "t:1:20: a generation block inside"},
        {"{% macro f() %}{% generation %}{% endgeneration %}{% endmacro %}"
         "{{ f() }}", "t:1:19: a generation block inside of a macro"},
        {"{{ \"\\ud800\" }}", "t:1:5: escape is not a Unicode character"},
        {"{{ '\\N{BULLET}' }}", "t:1:5: escapes by name"},
        {"a\xff", "t:1:2: not UTF-8"},
        {"{{ strftime_now(1) }}", "t:1:16: strftime_now needs a format"},
        {"{{ messages|tojson(indent=-1, x=2) }}",
         "t:1:13: tojson has no argument 'x'"},
    };
    json_t *none = json_array();
    struct bn_chat_args args = {.messages = none};

    (void)state;
    for (size_t i = 0; i < BN_COUNT(cases); i++) {
        struct bn_err err = {0};
        size_t len;
        char *got = render(cases[i].source, "t", &args, NULL, NULL, &len,
                           &err);

        if (got != NULL || strncmp(err.text, cases[i].want,
                                   strlen(cases[i].want)) != 0)
            fail_msg("%s\nwant: %s\nhave: %s", cases[i].source,
                     cases[i].want, got != NULL ? got : err.text);
        assert_int_equal(err.code, BN_ERR_DATA);
    }
    json_decref(none);
}

/* 'n' times 'a', then 'mid', then 'n' times 'b'. */
static char *nest(size_t n, const char *a, const char *mid, const char *b)
{
    struct bn_str s = {0};

    for (size_t i = 0; i < n; i++)
        bn_str_adds(&s, a);
    bn_str_adds(&s, mid);
    for (size_t i = 0; i < n; i++)
        bn_str_adds(&s, b);
    return bn_str_take(&s);
}

static void refuse(char *source, const char *want)
{
    json_t *none = json_array();
    struct bn_chat_args args = {.messages = none};
    struct bn_err err = {0};
    size_t len;
    char *got = render(source, "t", &args, NULL, NULL, &len, &err);

    if (got != NULL || strstr(err.text, want) == NULL)
        fail_msg("%.60s\nwant: %s\nhave: %.100s", source, want,
                 got != NULL ? got : err.text);
    assert_null(strchr(err.text, '\n'));
    free(source);
    json_decref(none);
}

/* Templates that mean harm end in an error, soon. */
static void test_hostile_deep(void **state)
{
    static const char *const open[][2] = {
        {"(", ")"}, {"[", "]"}, {"{1:", "}"}, {"not ", ""}, {"-", ""},
        {"a[", "]"}, {"f(", ")"}, {"1 if 1 else ", ""}, {"f(*", ")"}};
    static const char *const chain[] = {"+1", "|e", ".a", "[0]", "()",
                                        " and 1", "==1 and 1"};
    const size_t deep = 100000;

    (void)state;
    for (size_t i = 0; i < BN_COUNT(open); i++) {
        char *inner = nest(deep, open[i][0], "1", open[i][1]);
        char *s = bn_asprintf("{{ %s }}", inner);

        free(inner);
        refuse(s, "too deep");
    }
    refuse(nest(deep, "{% if 1 %}", "x", "{% endif %}"), "too deep");
    refuse(nest(deep, "{% for x in y %}", "", ""), "too deep");
    for (size_t i = 0; i < BN_COUNT(chain); i++) {
        char *inner = nest(deep, chain[i], "", "");
        char *s = bn_asprintf("{{ a%s }}", inner);

        free(inner);
        refuse(s, "too deep");
    }
    refuse(nest(1, "{% set x = namespace(v=[]) %}{% for i in range(5000) %}"
                   "{% set x.v = [x.v] %}{% endfor %}{{ x.v }}", "", ""),
           "too deep");
    refuse(nest(1, "{% set x = namespace(v=[]) %}{% for i in range(5000) %}"
                   "{% set x.v = [x.v] %}{% endfor %}{{ x.v|tojson }}", "",
                ""), "too deep");
    refuse(nest(1, "{% set x = namespace(v=[], w=[]) %}"
                   "{% for i in range(5000) %}{% set x.v = [x.v] %}"
                   "{% set x.w = [x.w] %}{% endfor %}{{ x.v == x.w }}", "",
                ""), "too deep");
}

static void test_hostile_endless(void **state)
{
    static const char *const cases[][2] = {
        {"{% for i in range(10**12) %}x{% endfor %}", "range too big"},
        {"{% for i in range(99999) %}{% for i in range(99999) %}"
         "{% endfor %}{% endfor %}", "too long"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
         "macros call each other too deep"},
        {"{% macro f(n) %}{{ f(n+1) }}{{ f(n+1) }}{% endmacro %}{{ f(0) }}",
         "too deep"},
        {"{% for i in range(99999) %}{{ 'x' * 1000 }}{% endfor %}",
         "writes too much"},
        {"{{ 'x' * 10**12 }}", "too"},
        {"{{ [0] * 10**12 }}", "too"},
        {"{{ ('x' * 10**6)|replace('', 'y' * 10**6) }}", "too much memory"},
        {"{{ 'x'.center(10**15) }}", "too"},
        {"{{ 'x'|indent(10**12, true) }}", "too much memory"},
        {"{{ '%1000000000d' % 1 }}", "a width"},
        {"{{ '{:9999999999}'.format(1) }}", "a width"},
        {"{{ range(3)|batch(10**12, 0)|list }}", "too"},
        {"{% set n = namespace(s='x') %}{% for i in range(99) %}"
         "{% set n.s = n.s + n.s %}{% endfor %}", "too much memory"},
        {"{% set n = namespace(s=[1]) %}{% for i in range(99) %}"
         "{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s|tojson }}", "too"},
        {"{% set n = namespace(a=[], b=[]) %}{% for i in range(60) %}"
         "{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}"
         "{{ n.a == n.b }}", "too long"},
        {"{% set s = 'ab' * 500000 %}{% for i in range(99999) %}"
         "{% if s[i] == 'c' %}x{% endif %}{% endfor %}", "too long"},
        {"{{ ('a' * 2000000).rfind('b' + 'a' * 1000000) }}", "too long"},
        {"{{ range(99999)|map('string')|unique|list|length }}", "too long"},
        {"{% for i in range(99999) %}{% set x = [1, 2, 3, 4, 5, 6, 7, 8, 9] "
         "* 100 %}{% endfor %}", "too"},
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(cases); i++)
        refuse(bn_strdup(cases[i][0]), cases[i][1]);
}

/* What jansson lets through is rendered as it is: NUL, control characters.
 * A long conversation is no runaway. */
static void test_odd_input(void **state)
{
    json_t *m = json_pack("[{s:s, s:s%}]", "role", "user", "content",
                          "a\0b\x01", (size_t)4);
    struct bn_chat_args args = {.messages = m};
    struct bn_err err = {0};
    size_t len;
    char *got = render("{{ messages[0].content }}|{{ messages[0].content|"
                       "tojson }}", "t", &args, NULL, NULL, &len, &err);

    (void)state;
    assert_non_null(got);
    assert_int_equal(len, 4 + 1 + 16);
    assert_memory_equal(got, "a\0b\x01|\"a\\u0000b\\u0001\"", len);
    free(got);
    char *big = nest(5 << 20, "ab", "", "");
    json_object_set_new(json_array_get(m, 0), "content", json_string(big));
    got = render("{{ messages[0].content.strip() + '\n' }}", "t", &args, NULL,
                 NULL, &len, &err);
    assert_non_null(got);
    assert_int_equal(len, (10 << 20) + 1);
    free(got);
    free(big);
    json_decref(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_hostile_deep),
        cmocka_unit_test(test_hostile_endless),
        cmocka_unit_test(test_odd_input),
    };

    return BN_TAP_RUN(tests);
}
