#include "config.h"
#include "base/tap.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
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
                   const struct bn_chat_args *args, const json_t *want)
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
        bad += compare(str(e, "template"), "expr", &args, e);
    assert_true(i > 300);
    assert_int_equal(bad, 0);
    json_decref(none);
    json_decref(all);
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
        if (compare(source, str(t, "template"), &args, e) > 0) {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_templates),
    };

    return BN_TAP_RUN(tests);
}
