/* Chat templates rendered as Jinja renders them. */
#include "config.h"
#include "base/thread.h"
#include "text/test/chat.h"

#include <stdio.h>

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
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_threads),
    };

    return BN_TAP_RUN(tests);
}
