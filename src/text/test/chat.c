#include "config.h"
#include "base/tap.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/thread.h"
#include "text/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *data_path(const char *name)
{
    const char *src = getenv("BN_SRCDIR");

    return bn_asprintf("%s/t/data/chat/%s", src != NULL ? src : ".", name);
}

static json_t *load(const char *name)
{
    struct bn_err err = {0};
    char *path = data_path(name);
    json_t *j = bn_json_load(path, &err);

    if (j == NULL)
        fail_msg("%s", err.text);
    free(path);
    return j;
}

static const char *str(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

/* A rendering as a string, or NULL with the error. */
static char *render(const char *source, const char *name,
                    const struct bn_chat_args *args, struct bn_span **spans,
                    size_t *nspans, size_t *len, struct bn_err *err)
{
    struct bn_chat *c = bn_chat_create(source, name, err);
    struct bn_str out = {0};
    int rc;

    if (c == NULL)
        return NULL;
    rc = bn_chat_render(c, args, &out, spans, nspans, err);
    bn_chat_destroy(c);
    *len = out.len;
    if (rc == 0)
        return bn_str_take(&out);
    assert_int_equal(out.len, 0);
    bn_str_release(&out);
    return NULL;
}

/* Compare with what Jinja made of the same. Returns 1 if it differs. */
static int compare(const char *source, const char *name,
                   const struct bn_chat_args *args, const json_t *want,
                   bool lenient)
{
    struct bn_err err = {0};
    struct bn_span *span = NULL;
    size_t n = 0, len = 0;
    const json_t *text = json_object_get(want, "text");
    const json_t *spans = json_object_get(want, "spans");
    char *got = render(source, name, args, &span, &n, &len, &err);
    int bad = 0;

    if (text == NULL) {
        bad = got != NULL || err.code != BN_ERR_DATA
              || strncmp(err.text, name, strlen(name)) != 0;
        if (bad)
            print_message("# %s: %s\n#  must fail (%s)\n#  gave %s\n", name,
                          source, str(want, "error"),
                          got != NULL ? got : err.text);
    } else {
        /* what we do not have is said so, not got wrong */
        if (lenient && got == NULL && (strstr(err.text, "not supported")
                || strstr(err.text, "cannot print a")))
            return 0;
        bad = got == NULL || len != json_string_length(text)
              || memcmp(got, json_string_value(text), len) != 0;
        if (bad)
            print_message("# %s: %s\n# want: %s\n# have: %s\n", name, source,
                          json_string_value(text),
                          got != NULL ? got : err.text);
        bool same = n == json_array_size(spans);
        for (size_t i = 0; same && i < n; i++) {
            const json_t *s = json_array_get(spans, i);

            same = (json_int_t)span[i].begin
                       == json_integer_value(json_array_get(s, 0))
                   && (json_int_t)span[i].end
                          == json_integer_value(json_array_get(s, 1));
        }
        if (!bad && !same) {
            print_message("# %s: %s: spans differ\n", name, source);
            bad = 1;
        }
    }
    free(got);
    free(span);
    return bad;
}

static void test_expressions(void **state)
{
    json_t *all = load("expressions.json"), *e, *none = json_array();
    struct bn_chat_args args = {
        .messages = none, .extra = json_object_get(all, "variables")};
    size_t i;
    int bad = 0;

    (void)state;
    json_array_foreach(json_object_get(all, "cases"), i, e)
        bad += compare(str(e, "template"), "expr", &args, e, false);
    assert_true(i > 300);
    assert_int_equal(bad, 0);
    json_decref(none);
    json_decref(all);
}

/* Whether BURNISH_TEST_REQUIRE names 'word': then absence is a failure. */
static bool required(const char *word)
{
    const char *all = getenv("BURNISH_TEST_REQUIRE");

    return all != NULL && strstr(all, word) != NULL;
}

/* What chat_golden.py prints for these arguments. */
static json_t *golden(const char *arguments)
{
    const char *src = getenv("BN_SRCDIR");
    char *cmd = bn_asprintf("python3 '%s/t/peers/chat_golden.py' %s",
                            src != NULL ? src : ".", arguments);
    FILE *f = popen(cmd, "r");
    json_t *j;

    assert_non_null(f);
    j = json_loadf(f, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_int_equal(pclose(f), 0);
    assert_non_null(j);
    free(cmd);
    return j;
}

static bool have_jinja(void)
{
    if (system("python3 -c 'import jinja2; assert "
               "jinja2.__version__ >= \"3.1\"' 2>/dev/null") == 0)
        return true;
    assert_false(required("JINJA2"));
    print_message("# SKIP: no python3 with jinja2 3.1\n");
    return false;
}

/* Templates made at random, against Jinja. BN_CHAT_SEED and BN_CHAT_COUNT
 * choose others. */
static void test_random(void **state)
{
    const char *seed = getenv("BN_CHAT_SEED"), *n = getenv("BN_CHAT_COUNT");
    json_t *all, *e, *none;
    size_t i;
    int bad = 0;

    (void)state;
    if (!have_jinja())
        skip();
    char *path = data_path("expressions.txt");
    char *arg = bn_asprintf("random '%s' %s %s", path,
                            seed != NULL ? seed : "1", n != NULL ? n : "2000");
    all = golden(arg);
    none = json_array();
    struct bn_chat_args args = {
        .messages = none, .extra = json_object_get(all, "variables")};
    json_array_foreach(json_object_get(all, "cases"), i, e)
        bad += compare(str(e, "template"), "expr", &args, e, true);
    assert_true(i > 0);
    assert_int_equal(bad, 0);
    json_decref(none);
    json_decref(all);
    free(arg);
    free(path);
}

/* All cases of one template. */
static int compare_cases(const json_t *t, const char *source,
                         const json_t *cases)
{
    const json_t *tokens = json_object_get(t, "tokens");
    json_t *e, *c;
    size_t i, k;
    int bad = 0;

    json_array_foreach(json_object_get(t, "cases"), i, e) {
        struct bn_chat_args args = {
            .bos_token = str(tokens, "bos_token"),
            .eos_token = str(tokens, "eos_token"),
            .pad_token = str(tokens, "pad_token"),
            .unk_token = str(tokens, "unk_token"),
            .add_generation_prompt =
                json_is_true(json_object_get(e, "add_generation_prompt"))};

        json_array_foreach(cases, k, c) {
            if (strcmp(str(c, "name"), str(e, "case")) != 0)
                continue;
            args.messages = json_object_get(c, "messages");
            args.tools = json_object_get(c, "tools");
            args.extra = json_object_get(c, "extra");
        }
        if (compare(source, str(t, "template"), &args, e, false) > 0) {
            print_message("# in case %s\n", str(e, "case"));
            bad++;
        }
    }
    return bad;
}

static void test_templates(void **state)
{
    json_t *golden = load("golden.json"), *cases = load("cases.json"), *t;
    size_t i;
    int bad = 0;

    (void)state;
    json_array_foreach(golden, i, t) {
        struct bn_err err = {0};
        char *path = data_path(str(t, "template"));
        size_t len;
        char *source = bn_file_read(path, 1 << 20, &len, &err);

        if (source == NULL)
            fail_msg("%s", err.text);
        bad += compare_cases(t, source, cases);
        free(source);
        free(path);
    }
    assert_int_equal(i, 6);
    assert_int_equal(bad, 0);
    json_decref(golden);
    json_decref(cases);
}

/* The templates of real models, which are not ours to keep here. */
static void test_live(void **state)
{
    static const char *const models[] = {"minimind", "phi-3", "qwen3"};
    const char *src = getenv("BN_SRCDIR"), *env = getenv("BN_SHARED");
    char *shared = env != NULL
                       ? bn_strdup(env)
                       : bn_asprintf("%s/../shared", src != NULL ? src : ".");
    json_t *cases = load("cases.json");
    char *data = data_path("cases.json");
    int bad = 0;

    (void)state;
    if (!bn_is_dir(shared)) {
        assert_false(required("SHARED"));
        print_message("# SKIP: no folder %s\n", shared);
    } else if (have_jinja()) {
        for (size_t i = 0; i < BN_COUNT(models); i++) {
            char *arg = bn_asprintf(
                "live '%s' '%s/inputs/tokenizers/%s/tokenizer_config.json'",
                data, shared, models[i]);
            json_t *all = golden(arg), *t = json_array_get(all, 0);

            bad += compare_cases(t, str(t, "source"), cases);
            json_decref(all);
            free(arg);
        }
    }
    json_decref(cases);
    free(data);
    free(shared);
    assert_int_equal(bad, 0);
}

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

/* Spans of the assistant's turns as strings, joined by "/". */
static char *turns(const char *source, json_t *messages, bool last,
                   struct bn_err *err)
{
    struct bn_chat_args args = {.messages = messages, .bos_token = "<s>",
                                .eos_token = "</s>"};
    struct bn_chat *c = bn_chat_create(source, "t", err);
    struct bn_str out = {0}, joined = {0};
    struct bn_span *span = NULL;
    size_t n = 0;
    int rc;

    assert_non_null(c);
    bn_str_adds(&out, "before"); /* offsets count from the buffer's start */
    rc = (last ? bn_chat_last_assistant_span : bn_chat_assistant_spans)(
        c, &args, &out, &span, &n, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        bn_str_adds(&joined, i > 0 ? "/" : "");
        bn_str_add(&joined, out.s + span[i].begin,
                   span[i].end - span[i].begin);
    }
    if (rc < 0)
        assert_string_equal(out.s, "before");
    free(span);
    bn_str_release(&out);
    bn_chat_destroy(c);
    if (rc == 0)
        return bn_str_take(&joined);
    bn_str_release(&joined);
    return NULL;
}

static void test_assistant_spans(void **state)
{
    static const char plain[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    /* an earlier answer loses its first word */
    static const char unstable[] =
        "{% for m in messages %}<{{ m.role }}>"
        "{{ m.content if loop.last else m.content.split(' ')[-1] }}<end>\n"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    static const char wrong_prompt[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}<model>{% endif %}";
    static const char twice[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        "{{ '' if loop.last else m.content }}<end>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    static const char hidden[] =
        "{% for m in messages %}<{{ m.role }}>"
        "{{ m.content if loop.last or m.role == 'user' }}<end>{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    static const char late[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        "{{ '<end>' if loop.last else '<more>' }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    /* in the manner of Phi-3 */
    static const char closed[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>\n"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% else %}"
        "{{ eos_token }}{% endif %}";
    json_t *m = json_pack(
        "[{s:s,s:s},{s:s,s:s},{s:s,s:s},{s:s,s:s}]", "role", "user",
        "content", "a", "role", "assistant", "content", "b c", "role", "user",
        "content", "d", "role", "assistant", "content", "e f");
    struct bn_err err = {0};
    char *got = turns(plain, m, false, &err);

    (void)state;
    assert_string_equal(got, "b c<end>\n/e f<end>\n");
    free(got);
    got = turns(plain, m, true, &err);
    assert_string_equal(got, "e f<end>\n");
    free(got);
    got = turns(closed, m, false, &err);
    assert_string_equal(got, "b c<end>\n/e f<end>\n</s>");
    free(got);
    got = turns(unstable, m, false, &err);
    assert_string_equal(got, "c<end>\n/e f<end>\n");
    free(got);
    got = turns(unstable, m, true, &err);
    assert_string_equal(got, "e f<end>\n");
    free(got);
    assert_null(turns(wrong_prompt, m, false, &err));
    assert_non_null(strstr(err.text, "message 1: no generation prompt"));
    assert_null(turns(twice, m, false, &err));
    assert_non_null(strstr(err.text, "message 1: the template does not"));
    assert_null(turns(hidden, m, false, &err));
    assert_non_null(strstr(err.text, "message 1: the template does not"));
    assert_null(turns(late, m, false, &err));
    assert_non_null(strstr(err.text, "message 1: it ends otherwise"));
    json_array_clear(m);
    got = turns(plain, m, false, &err);
    assert_string_equal(got, "");
    free(got);
    json_decref(m);
}

/* In the manner of Qwen3: reasoning is dropped from the turns before the last
 * question, and an empty one is put before the last answer. */
static const char reasoning[] =
    "{% set ns = namespace(query=0) %}"
    "{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.query = loop.index0 %}{% endif %}{% endfor %}"
    "{% for m in messages %}{% set text = m.content or '' %}"
    "{% if m.role == 'assistant' %}{% set think = '' %}"
    "{% if '</think>' in text %}"
    "{% set think = text.split('</think>')[0].split('<think>')[-1] %}"
    "{% set text = text.split('</think>')[-1].lstrip('\n') %}{% endif %}"
    "<|im_start|>assistant\n"
    "{% if loop.index0 > ns.query and (loop.last or think) %}"
    "<think>\n{{ think.strip('\n') }}\n</think>\n\n{% endif %}{{ text }}"
    "{% for c in m.tool_calls or [] %}{% if text %}{{ '\n' }}{% endif %}"
    "<tool_call>{{ c.name }}</tool_call>{% endfor %}<|im_end|>\n"
    "{% else %}<|im_start|>{{ m.role }}\n{{ text }}<|im_end|>\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/* role, content, role, content, ...; a tool call where content is NULL. */
static void spans_of(const char *const *turn, size_t n, const char *all,
                     const char *last)
{
    json_t *m = json_array();
    struct bn_err err = {0};

    for (size_t i = 0; i < n; i += 2) {
        json_t *one = json_pack("{s:s,s:s?}", "role", turn[i], "content",
                                turn[i + 1]);

        if (turn[i + 1] == NULL)
            json_object_set_new(one, "tool_calls",
                                json_pack("[{s:s}]", "name", "look"));
        json_array_append_new(m, one);
    }
    for (int k = 0; k < 2; k++) {
        char *got = turns(reasoning, m, k == 1, &err);

        if (got == NULL)
            fail_msg("%s", err.text);
        assert_string_equal(got, k == 1 ? last : all);
        free(got);
    }
    json_decref(m);
}

static void test_reasoning_spans(void **state)
{
    static const char *const plain[] = {
        "user", "q", "assistant", "one", "user", "r", "assistant", "two",
        "user", "s", "assistant", "three"};
    static const char *const thinks[] = {
        "system", "k", "user", "q", "assistant",
        "<think>\nwhy\n</think>\n\none", "user", "r", "assistant",
        "<think>\nhow\n</think>\n\ntwo"};
    static const char *const tools[] = {
        "user", "q", "assistant", NULL, "tool", "t", "assistant", "one",
        "user", "r", "assistant", NULL, "tool", "u", "assistant", "two"};
    static const char *const same[] = {
        "user", "Q", "assistant", "Q", "user", "Q", "assistant", "Q",
        "user", "bye"};

    (void)state;
    spans_of(plain, 12, "one<|im_end|>\n/two<|im_end|>\n/"
             "<think>\n\n</think>\n\nthree<|im_end|>\n",
             "<think>\n\n</think>\n\nthree<|im_end|>\n");
    spans_of(thinks, 10, "one<|im_end|>\n/<think>\nhow\n</think>\n\n"
             "two<|im_end|>\n", "<think>\nhow\n</think>\n\ntwo<|im_end|>\n");
    spans_of(tools, 16, "<tool_call>look</tool_call><|im_end|>\n/"
             "one<|im_end|>\n/"
             "<tool_call>look</tool_call><|im_end|>\n/"
             "<think>\n\n</think>\n\ntwo<|im_end|>\n",
             "<think>\n\n</think>\n\ntwo<|im_end|>\n");
    spans_of(same, 10, "Q<|im_end|>\n/Q<|im_end|>\n", "Q<|im_end|>\n");
}

static void test_flags(void **state)
{
    struct bn_err err = {0};
    struct bn_chat *a = bn_chat_create("{{ strftime_now('%Y') }}", "t", &err);
    struct bn_chat *b = bn_chat_create(
        "{% generation %}x{% endgeneration %}", "t", &err);
    json_t *none = json_array();
    struct bn_chat_args args = {.messages = none};
    struct bn_str out = {0};

    (void)state;
    assert_true(bn_chat_uses_clock(a) && !bn_chat_uses_clock(b));
    assert_true(!bn_chat_marks_generation(a) && bn_chat_marks_generation(b));
    assert_int_equal(bn_chat_render(a, &args, &out, NULL, NULL, &err), 0);
    assert_true(out.len == 4 && atoi(out.s) >= 2025);
    args.messages = NULL;
    assert_int_equal(bn_chat_render(a, &args, &out, NULL, NULL, &err), -1);
    assert_string_equal(err.text, "t: messages must be an array");
    bn_str_release(&out);
    json_decref(none);
    bn_chat_destroy(a);
    bn_chat_destroy(b);
}

struct race {
    const struct bn_chat *chat;
    const struct bn_chat_args *args;
    int bad[4];
};

static void race(void *arg, int index)
{
    struct race *r = arg;

    for (int i = 0; i < 200; i++) {
        struct bn_str out = {0};
        struct bn_err err;

        if (bn_chat_render(r->chat, r->args, &out, NULL, NULL, &err) < 0
            || strcmp(out.s, "0:a1:b") != 0)
            r->bad[index]++;
        bn_str_release(&out);
    }
}

static void test_threads(void **state)
{
    struct bn_err err = {0};
    json_t *m = json_pack("[{s:s},{s:s}]", "content", "a", "content", "b");
    struct bn_chat_args args = {.messages = m};
    struct race r = {
        .chat = bn_chat_create("{% set ns = namespace(i=0) %}{% for m in "
                               "messages %}{{ ns.i }}:{{ m.content }}"
                               "{% set ns.i = ns.i + 1 %}{% endfor %}", "t",
                               &err),
        .args = &args};

    (void)state;
    bn_parallel(4, race, &r);
    for (int i = 0; i < 4; i++)
        assert_int_equal(r.bad[i], 0);
    bn_chat_destroy((struct bn_chat *)r.chat);
    json_decref(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_templates),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_hostile_deep),
        cmocka_unit_test(test_hostile_endless),
        cmocka_unit_test(test_odd_input),
        cmocka_unit_test(test_assistant_spans),
        cmocka_unit_test(test_reasoning_spans),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_threads),
    };

    return BN_TAP_RUN(tests);
}
