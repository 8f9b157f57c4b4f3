/* Where the assistant's turns are in what a template renders. */
#include "config.h"
#include "text/test/chat.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assistant_spans),
        cmocka_unit_test(test_reasoning_spans),
    };

    return BN_TAP_RUN(tests);
}
