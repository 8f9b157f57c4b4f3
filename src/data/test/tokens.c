/* From rows to token sets: shapes, boundaries, limits, drops. */
#include "config.h"
#include "data/test/sets.h"

static void test_text(void **state)
{
    (void)state;
    given("t.jsonl", "{\"text\":\"hello\"}\n\n{\"text\":\"abxy\",\"n\":1}\n");
    make_with(tok);
    assert_int_equal(bn_tokens_count(set), 2);
    assert_int_equal(bn_tokens_group(set), 1);
    is(set, 0, "hELLO!$");
    is(set, 1, "@XY!$");
    make_with(tok_bos);
    is(set, 0, "^HELLO!$");
    o.add_eos = false;
    o.max_length = 4;
    make_with(tok_bos);
    is(set, 0, "^HEL");
    is(set, 1, "^!@XY");
    assert_int_equal(bn_tokens_stats(set)->cut, 1);
    assert_int_equal(bn_tokens_stats(set)->longest, 4);
    assert_int_equal(bn_tokens_stats(set)->tokens, 8);
    assert_int_equal(bn_tokens_stats(set)->targets, 6);
    o.add_bos = BN_CHOICE_NO;
    make_with(tok_bos);
    is(set, 0, "hELL");
    o.add_bos = BN_CHOICE_YES;
    make_with(tok);
    is(set, 0, "^HEL");
}

/* The prompt ends where tokens stop being shared, not where its text ends. */
static void test_boundary(void **state)
{
    (void)state;
    given("p.jsonl", "{\"prompt\":\"xa\",\"completion\":\"bc\"}\n"
                     "{\"prompt\":\"xy\",\"completion\":\"z\"}\n"
                     "{\"prompt\":\"\",\"completion\":\"z\"}\n"
                     "{\"prompt\":[\"q\",\"r\"],\"completion\":[\"s\",\"t\"]}"
                     "\n");
    make_with(tok_bos);
    is(set, 0, "^x!@C!$");
    is(set, 1, "^xyZ!$");
    is(set, 2, "^Z!$");
    is(set, 3, "^qS!$rT!$");
    o.completion_only_loss = BN_CHOICE_NO;
    make_with(tok_bos);
    is(set, 0, "^X!@C!$");
    is(set, 3, "^QS!$RT!$");
    given("d.jsonl", "{\"prompt\":\"xa\",\"chosen\":\"bc\",\"rejected\":"
                     "\"c\"}\n{\"prompt\":\"xa\",\"chosen\":\"c\","
                     "\"rejected\":\"bd\"}\n");
    o.task = BN_DATA_PREFERENCE;
    make_with(tok_bos);
    is(set, 0, "^x|@c$|ac$");
    is(set, 1, "^x|ac$|@d$");
    assert_int_equal(bn_tokens_length(set, 0), 8);
    assert_int_equal(bn_tokens_longest(set), 8);
    assert_int_equal(bn_tokens_stats(set)->longest, 5);
}

static void test_limits(void **state)
{
    (void)state;
    given("l.jsonl", "{\"prompt\":\"12345678\",\"chosen\":\"uvwxyz\","
                     "\"rejected\":\"n\"}\n");
    o.task = BN_DATA_PREFERENCE;
    o.max_prompt_length = 4;
    o.max_length = 8;
    make_with(tok_bos);
    is(set, 0, "^678|uvwx|n$"); /* cut answers lose their end */
    o.keep_start = true;
    make_with(tok_bos);
    is(set, 0, "^123|uvwx|n$");
    o.max_prompt_length = 0;
    refused("prompt over max_length 1", BN_ERR_DATA);
}

static void test_limits_left(void **state)
{
    (void)state;
    given("l.jsonl", "{\"prompt\":\"1234567\",\"chosen\":\"uvwxyz\","
                     "\"rejected\":\"unx\"}\n"
                     "{\"prompt\":\"1\",\"chosen\":\"a\",\"rejected\":\"b\"}"
                     "\n");
    o.task = BN_DATA_PREFERENCE;
    o.max_length = 9;
    make_with(tok_bos);
    is(set, 0, "^1|a$|b$"); /* the cut made the first one's answers equal */
    assert_int_equal(drops(BN_DROP_EQUAL), 1);
}

static void test_drops(void **state)
{
    (void)state;
    given("x.jsonl", "{\"prompt\":\"1\",\"chosen\":\"a\",\"rejected\":\"b\"}\n"
                     "{\"prompt\":\"1\",\"chosen\":\"a\",\"rejected\":\"a\"}\n"
                     "{\"prompt\":\"1\",\"chosen\":\"\",\"rejected\":\"a\"}\n"
                     "{\"prompt\":\"\",\"chosen\":\"c\",\"rejected\":\"a\"}\n"
                     "{\"prompt\":\"12345\",\"chosen\":\"c\",\"rejected\":"
                     "\"a\"}\n"
                     "{\"prompt\":\"123\",\"chosen\":\"xx\",\"rejected\":"
                     "\"xy\"}\n"
                     "{\"prompt\":\"<s>1\",\"chosen\":\"x\",\"rejected\":"
                     "\"y\"}\n"
                     "{\"prompt\":\"1\",\"chosen\":\"x\"}\n"
                     "{\"prompt\":\"1\",\"chosen\":7,\"rejected\":\"y\"}\n"
                     "{oops\n");
    o.task = BN_DATA_PREFERENCE;
    o.max_length = 4;
    make_with(tok);
    assert_int_equal(bn_tokens_count(set), 2);
    is(set, 0, "1|a$|b$");
    is(set, 1, "^1|x$|y$");
    assert_int_equal(bn_tokens_stats(set)->rows, 10);
    assert_int_equal(drops(BN_DROP_EQUAL), 2);
    assert_int_equal(drops(BN_DROP_NO_ANSWER), 1);
    assert_int_equal(drops(BN_DROP_EMPTY_PROMPT), 1);
    assert_int_equal(drops(BN_DROP_OVER_LONG), 1);
    assert_int_equal(drops(BN_DROP_BAD_ROW), 3);
    assert_non_null(strstr(bn_tokens_notes(set), "x.jsonl:8: no 'rejected'"));
    assert_non_null(strstr(bn_tokens_notes(set), "x.jsonl:9: 'chosen' is not "
                           "a string"));
    assert_non_null(strstr(bn_tokens_notes(set), "x.jsonl:10: no key"));
    make_with(tok_bos);
    assert_int_equal(drops(BN_DROP_TWO_BOS), 1);
    o.max_dropped_fraction = 0.8;
    make_with(tok);
    o.max_dropped_fraction = 0.05; /* also of a set that was made before */
    refused("8 of 10 rows dropped, more than max_dropped_fraction 0.05",
            BN_ERR_DATA);
    given("y.jsonl", "{\"prompt\":\"12345\",\"completion\":\"c\"}\n"
                     "{\"prompt\":\"1\",\"completion\":\"\"}\n"
                     "{\"prompt\":\"12\",\"completion\":\"cdef\"}\n");
    o.max_length = 3;
    make_with(tok);
    is(set, 0, "12C");
    assert_int_equal(drops(BN_DROP_OVER_LONG), 1);
    assert_int_equal(drops(BN_DROP_NO_ANSWER), 1);
}

static void test_transcripts(void **state)
{
    (void)state;
    given("h.jsonl",
          "{\"chosen\":\"\\n\\nHuman: q\\n\\nAssistant: x\\n\\nHuman: r"
          "\\n\\nAssistant: y\",\"rejected\":\"\\n\\nHuman: q\\n\\nAssistant:"
          " x\\n\\nHuman: r\\n\\nAssistant: n\"}\n"
          "{\"chosen\":\"\\n\\nHuman: q\\n\\nAssistant: x\",\"rejected\":"
          "\"\\n\\nHuman: p\\n\\nAssistant: x\"}\n"
          "{\"chosen\":\"q\",\"rejected\":\"x\"}\n");
    o.task = BN_DATA_PREFERENCE;
    make_with(tok);
    assert_int_equal(bn_tokens_count(set), 1);
    is(set, 0, "\n\nHuman: q\n\nAssistant: x\n\nHuman: r\n\nAssistant:"
               "| y$| n$");
    assert_int_equal(drops(BN_DROP_BAD_ROW), 2);
    assert_non_null(strstr(bn_tokens_notes(set), "differ before"));
}

static void test_alpaca(void **state)
{
    (void)state;
    given("a.json", "[{\"instruction\": \"do\", \"input\": \"it\", \"output\":"
                    " \"ok\", \"chosen\": \"y\", \"rejected\": \"n\"},\n"
                    " {\"instruction\": \"go\",\"input\":\"\",\"output\":"
                    "\"no\", \"chosen\": \"y\", \"rejected\": \"n\"}]\n");
    make_with(tok);
    is(set, 0, "Below is an instruction that describes a task, paired with an "
               "input that provides further context. Write a response that "
               "appropriately completes the request.\n\n### Instruction:\ndo"
               "\n\n### Input:\nit\n\n### Response:\nOK!$");
    is(set, 1, "Below is an instruction that describes a task. Write a "
               "response that appropriately completes the request.\n\n### "
               "Instruction:\ngo\n\n### Response:\nNO!$");
    struct bn_str where = {0};
    bn_tokens_where(set, 1, &where);
    assert_true(bn_str_ends(where.s, "a.json:2"));
    bn_str_release(&where);
    o.task = BN_DATA_PREFERENCE;
    make_with(tok);
    is(set, 1, "Below is an instruction that describes a task. Write a "
               "response that appropriately completes the request.\n\n### "
               "Instruction:\ngo\n\n### Response:\n|y$|n$");
}

static const char template[] =
    "{% for m in messages %}[{{ m.role[0] }}]{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}[a]{% endif %}";

#define USER "{\"role\":\"user\",\"content\":\"q\"}"
#define SAYS(x) "{\"role\":\"assistant\",\"content\":\"" x "\"}"

static void test_chats(void **state)
{
    (void)state;
    given("c.jsonl", "{\"messages\":[" USER "," SAYS("x") "," USER ","
                     SAYS("y") "]}\n{\"messages\":[" USER "]}\n"
                     "{\"messages\":[{\"content\":\"x\"}]}\n"
                     "{\"messages\":[]}\n{\"messages\":\"x\"}\n"
                     "{\"messages\":[" USER "," SAYS("z") "],\"system\":"
                     "\"k\"}\n");
    o.chat_template = template;
    make_with(tok_bos); /* no BOS: the template has none */
    assert_int_equal(bn_tokens_count(set), 3);
    is(set, 0, "[U!]Q!$![A!]X!$![U!]Q!$![A!]Y!$");
    assert_int_equal(drops(BN_DROP_BAD_ROW), 3);
    o.assistant_only_loss = true;
    make_with(tok_bos);
    assert_int_equal(bn_tokens_count(set), 2);
    is(set, 0, "[u]q$[a]X!$[u]q$[a]Y!$");
    is(set, 1, "[s]k$[u]q$[a]Z!$");
    assert_int_equal(drops(BN_DROP_NO_TARGET), 1);
    o.last_turn_only = true;
    make_with(tok_bos);
    is(set, 0, "[u]q$[a]x$[u]q$[a]Y!$");
    assert_int_equal(drops(BN_DROP_NO_TARGET), 1);
    o.completion_only_loss = BN_CHOICE_NO;
    refused("exclude each other", BN_ERR_USAGE);
    /* marked by the template */
    o.completion_only_loss = BN_CHOICE_AUTO;
    o.last_turn_only = false;
    o.chat_template = "<s>{% for m in messages %}{% if m.role == 'user' %}"
                      "{{ m.content }}a{% else %}{% generation %}b"
                      "{{ m.content }}{% endgeneration %}|{% endif %}"
                      "{% endfor %}";
    make_with(tok_bos);
    is(set, 0, "^q!@X|q!@Y|");
    o.last_turn_only = true;
    make_with(tok_bos);
    is(set, 0, "^q@x|q!@Y|");
}

static void test_sharegpt(void **state)
{
    (void)state;
    given("g.jsonl", "{\"conversations\":[{\"from\":\"human\",\"value\":"
                     "\"q\"},{\"from\":\"gpt\",\"value\":\"x\"}]}\n"
                     "{\"conversations\":[{\"from\":\"alien\",\"value\":"
                     "\"q\"}]}\n{\"conversations\":[{\"from\":\"gpt\"}]}"
                     "\n{\"conversations\":[3]}\n");
    o.chat_template = template;
    o.assistant_only_loss = true;
    make_with(tok);
    assert_int_equal(bn_tokens_count(set), 1);
    is(set, 0, "[u]q$[a]X!$");
    assert_int_equal(drops(BN_DROP_BAD_ROW), 3);
    given("g.jsonl", "{\"prompt\":[" USER "],\"completion\":[" SAYS("x")
                     "]}\n");
    o.chat_template = template;
    make_with(tok);
    is(set, 0, "[u]q$[a]X!$");
    given("g.jsonl", "{\"instruction\":\"do\",\"input\":\"it\","
                     "\"output\":\"x\",\"system\":\"k\"}\n");
    o.chat_template = template;
    make_with(tok);
    is(set, 0, "[s]k$[u]do\nit$[a]X!$");
    assert_string_equal(bn_tokens_statement(set), "alpaca, detected from "
                        "columns (instruction, input, output, system): "
                        "instruction and input as a user's turn through the "
                        "chat template");
}

static void pairs(const char *row, const char *want)
{
    given("m.jsonl", row);
    o.task = BN_DATA_PREFERENCE;
    o.chat_template = template;
    if (*want == '[') {
        make_with(tok);
        is(set, 0, want);
    } else {
        refused(want, BN_ERR_DATA);
    }
}

static void test_pairs_of_messages(void **state)
{
    static const char want[] = "[u]q$[a]|x$|y$";

    (void)state;
    /* explicit, implicit, both, a string beside, a string alone */
    pairs("{\"prompt\":[" USER "],\"chosen\":[" SAYS("x") "],\"rejected\":["
          SAYS("y") "]}", want);
    pairs("{\"chosen\":[" USER "," SAYS("x") "],\"rejected\":[" USER ","
          SAYS("y") "]}", want);
    pairs("{\"prompt\":[" USER "],\"chosen\":[" USER "," SAYS("x") "],"
          "\"rejected\":[" USER "," SAYS("y") "]}", want);
    pairs("{\"prompt\":\"q\",\"chosen\":[" USER "," SAYS("x") "],"
          "\"rejected\":[" USER "," SAYS("y") "]}", want);
    pairs("{\"prompt\":\"q\",\"chosen\":[" SAYS("x") "],\"rejected\":["
          SAYS("y") "]}", want);
    pairs("{\"chosen\":[" USER "," SAYS("w") "," USER "," SAYS("x") "],"
          "\"rejected\":[" USER "," SAYS("w") "," USER "," SAYS("y") "]}",
          "[u]q$[a]w$[u]q$[a]|x$|y$");
    pairs("{\"instruction\":\"q\",\"chosen\":\"x\",\"rejected\":\"y\"}",
          want);
    pairs("{\"chosen\":[" USER "," SAYS("x") "],\"rejected\":[" SAYS("y")
          "]}", "differ before the last turn");
    pairs("{\"chosen\":[" USER "," SAYS("w") "," USER "," SAYS("x") "],"
          "\"rejected\":[" USER "," SAYS("v") "," USER "," SAYS("y") "]}",
          "differ before the last turn");
    pairs("{\"chosen\":[" SAYS("x") "],\"rejected\":[" SAYS("y") "]}",
          "no 'prompt' and none in 'chosen'");
    pairs("{\"chosen\":[" USER "],\"rejected\":[" USER "]}",
          "do not end with a turn of the assistant");
    pairs("{\"chosen\":[" USER "," SAYS("x") "],\"rejected\":[" USER ","
          SAYS("x") "]}", "chosen equals rejected 1");
    pairs("{\"chosen\":[" USER "," SAYS("") "],\"rejected\":[" USER ","
          SAYS("x") "]}", "no answer 1");
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_boundary),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_limits_left),
        cmocka_unit_test(test_drops),
        cmocka_unit_test(test_transcripts),
        cmocka_unit_test(test_alpaca),
        cmocka_unit_test(test_chats),
        cmocka_unit_test(test_sharegpt),
        cmocka_unit_test(test_pairs_of_messages),
    };

    return BN_TAP_RUN(tests);
}

int main(void)
{
    return sets_run(run);
}
