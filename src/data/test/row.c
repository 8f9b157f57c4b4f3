/* Rows of JSON and CSV: what is taken, what is refused. */
#include "config.h"
#include "base/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/row.h"

static const char *names[BN_COL_COUNT];
static struct bn_str scratch;
static char why[200];

static void begin(void)
{
    for (int c = 0; c < BN_COL_COUNT; c++)
        names[c] = bn_col_name(c);
}

static const char *json(const char *s, size_t n, struct bn_row *row)
{
    /* its own block, so that a sanitizer sees a read past the end */
    char *copy = bn_malloc(n + 1);
    static char *last;
    memcpy(copy, s, n);
    copy = bn_realloc(copy, n > 0 ? n : 1, 1);
    free(last);
    last = copy;
    return bn_row_json(copy, n, names, row, &scratch, why);
}

static void is_text(const char *s, size_t n, const char *want, size_t len)
{
    struct bn_row row;
    const char *bad = json(s, n, &row);

    if (bad != NULL)
        fail_msg("%.60s: %s", s, bad);
    assert_int_equal(row.f[BN_COL_TEXT].type, BN_FIELD_STRING);
    assert_int_equal(row.f[BN_COL_TEXT].n, len);
    assert_memory_equal(row.f[BN_COL_TEXT].s, want, len);
}
#define TEXT(s, want) is_text(s, sizeof(s) - 1, want, sizeof(want) - 1)

static void test_strings(void **state)
{
    (void)state;
    TEXT("{\"text\":\"\"}", "");
    TEXT(" { \"text\" : \"plain text of some length, well\" } \r", 
         "plain text of some length, well");
    TEXT("{\"text\":\"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t\"}",
         "a\"b\\c/d\b\f\n\r\t");
    TEXT("{\"text\":\"\\u0041\\ud55c\\uD83D\\ude00\"}",
         "A\xed\x95\x9c\xf0\x9f\x98\x80");
    TEXT("{\"text\":\"한국어 \\n 그리고\"}", "한국어 \n 그리고");
    TEXT("{\"text\":\"x\\u0000y\"}", "x\0y");
    TEXT("{\"te\\u0078t\":\"key\"}", "key");
    TEXT("{\"a\":[1,-0.5e+3,{\"b\":null,\"text\":\"no\"}],\"text\":\"x\","
         "\"z\":true}", "x");
    TEXT("{\"x\":1E9999,\"y\":123456789012345678901234567890,\"text\":\"n\"}",
         "n");
}

static void refused(const char *s, size_t n, const char *word)
{
    struct bn_row row;
    const char *bad = json(s, n, &row);

    if (bad == NULL || strstr(bad, word) == NULL)
        fail_msg("%.60s: '%s' lacks '%s'", s, bad ? bad : "accepted", word);
}
#define BAD(s, word) refused(s, sizeof(s) - 1, word)

static void test_refused(void **state)
{
    (void)state;
    BAD("", "not a JSON object");
    BAD("[]", "not a JSON object");
    BAD("3", "not a JSON object");
    BAD("{", "no key");
    BAD("{\"text\"", "colon");
    BAD("{\"text\":", "no value");
    BAD("{\"text\":\"abc", "does not end");
    BAD("{\"text\":\"abc\\", "unknown escape");
    BAD("{\"text\":\"abc\"", "not closed");
    BAD("{\"text\":\"abc\",}", "no key");
    BAD("{\"text\":\"abc\"}}", "text after");
    BAD("{\"text\":\"abc\"} x", "text after");
    BAD("{\"text\":\"a\" \"b\":1}", "comma");
    BAD("{'text':\"a\"}", "no key");
    BAD("{\"text\":\"\\x\"}", "unknown escape");
    BAD("{\"text\":\"\\u12g4\"}", "four hex");
    BAD("{\"text\":\"\\ud800\"}", "lone surrogate");
    BAD("{\"text\":\"\\ud800x\"}", "lone surrogate");
    BAD("{\"text\":\"\\ud800\\u0041\"}", "lone surrogate");
    BAD("{\"text\":\"\\udc00\"}", "lone surrogate");
    BAD("{\"text\":\"a\tb\"}", "control character");
    BAD("{\"text\":\"a\0b\"}", "control character");
    BAD("{\"text\":\"\xff\"}", "not UTF-8");
    BAD("{\"text\":\"\xed\xa0\x80\"}", "not UTF-8");
    BAD("{\"text\":\"\xc0\x80\"}", "not UTF-8");
    BAD("{\"other\":\"\xe2\x82\"}", "not UTF-8");
    BAD("{\"text\":\"a\",\"text\":\"b\"}", "second time");
    BAD("{\"text\":1,\"\\u0074ext\":\"b\"}", "second time");
    BAD("{\"text\":tru}", "not JSON");
    BAD("{\"text\":NaN}", "not JSON");
    BAD("{\"text\":01}", "comma");
    BAD("{\"text\":1.}", "number");
    BAD("{\"text\":-}", "number");
    BAD("{\"text\":1e}", "number");
    BAD("{\"text\":[1,]}", "not JSON");
    BAD("{\"text\":[1}", "comma");
    BAD("{\"a\":{\"b\" 1}}", "colon");
}

static void test_depth(void **state)
{
    struct bn_str b = {0};
    struct bn_row row;

    (void)state;
    bn_str_adds(&b, "{\"a\":");
    for (int i = 0; i < 1000000; i++)
        bn_str_addc(&b, '[');
    const char *bad = json(b.s, b.len, &row);
    assert_non_null(bad);
    assert_non_null(strstr(bad, "too deep"));
    bn_str_clear(&b);
    bn_str_adds(&b, "{\"a\":");
    for (int i = 0; i < BN_ROW_DEPTH - 1; i++)
        bn_str_addc(&b, '[');
    for (int i = 0; i < BN_ROW_DEPTH - 1; i++)
        bn_str_addc(&b, ']');
    bn_str_adds(&b, ",\"text\":\"x\"}");
    TEXT("{\"text\":\"x\"}", "x");
    assert_null(json(b.s, b.len, &row));
    bn_str_release(&b);
}

static void test_types(void **state)
{
    static const char s[] = "{\"text\":null,\"prompt\":[ 1, \"]\" ],"
                            "\"chosen\":{\"a\":\"}\"},\"input\":-1.5}";
    struct bn_row row;

    (void)state;
    assert_null(json(s, sizeof(s) - 1, &row));
    assert_int_equal(row.f[BN_COL_TEXT].type, BN_FIELD_ABSENT);
    assert_int_equal(row.f[BN_COL_REJECTED].type, BN_FIELD_ABSENT);
    assert_int_equal(row.f[BN_COL_PROMPT].type, BN_FIELD_ARRAY);
    assert_int_equal(row.f[BN_COL_PROMPT].n, 10);
    assert_memory_equal(row.f[BN_COL_PROMPT].s, "[ 1, \"]\" ]", 10);
    assert_int_equal(row.f[BN_COL_CHOSEN].type, BN_FIELD_OBJECT);
    assert_int_equal(row.f[BN_COL_INPUT].type, BN_FIELD_OTHER);
}

static void test_keys(void **state)
{
    static const char s[] = "{\"a\":1,\"b\\n\":{\"c\":2}}";
    struct bn_str b = {0};

    (void)state;
    assert_null(bn_row_keys(s, sizeof(s) - 1, &b, why));
    assert_string_equal(b.s, "'a', 'b\n'");
    bn_str_release(&b);
}

/* Records of a whole text, joined by '|'. */
static void records(const char *s, const char *want)
{
    struct bn_str b = {0};
    size_t n = strlen(s), at = 0, next;

    while (at < n) {
        size_t len = bn_csv_record(s + at, n - at, true, &next);

        if (len == (size_t)-1) {
            bn_str_adds(&b, "OPEN");
            break;
        }
        bn_str_add(&b, s + at, len);
        bn_str_addc(&b, '|');
        at += next;
    }
    assert_string_equal(b.len > 0 ? b.s : "", want);
    bn_str_release(&b);
}

static void test_csv_records(void **state)
{
    size_t next;

    (void)state;
    records("a,b\nc,d\r\ne,f", "a,b|c,d|e,f|");
    records("a,\"b\nc\",d\nx,y,z\n", "a,\"b\nc\",d|x,y,z|");
    records("\"a\"\"\nb\"\nc\n", "\"a\"\"\nb\"|c|");
    records("\n\nx\n", "||x|");
    records("\"a\nb", "OPEN");
    records("a\"b\nc\n", "a\"b|c|");
    /* more may come */
    assert_int_equal(bn_csv_record("a,b", 3, false, &next), -1);
    assert_int_equal(bn_csv_record("a,\"b\"", 5, false, &next), -1);
}

static void test_csv_rows(void **state)
{
    static const char h[] = "text,label,\"prompt\"";
    struct bn_csv_head head;
    struct bn_row row;

    (void)state;
    assert_null(bn_csv_head_parse(&head, h, sizeof(h) - 1, names, why));
    assert_int_equal(head.n, 3);
    assert_string_equal(head.names, "'text', 'label', 'prompt'");
#define CSV(s) bn_row_csv(s, sizeof(s) - 1, &head, &row, &scratch, why)
    assert_null(CSV("one,0,\"two \"\"quoted\"\", with\ncomma\""));
    assert_int_equal(row.f[BN_COL_TEXT].n, 3);
    assert_memory_equal(row.f[BN_COL_TEXT].s, "one", 3);
    assert_int_equal(row.f[BN_COL_PROMPT].n, 24);
    assert_memory_equal(row.f[BN_COL_PROMPT].s,
                        "two \"quoted\", with\ncomma", 24);
    assert_null(CSV(",,"));
    assert_int_equal(row.f[BN_COL_TEXT].type, BN_FIELD_STRING);
    assert_int_equal(row.f[BN_COL_TEXT].n, 0);
    assert_non_null(strstr(CSV("a,b"), "2 fields"));
    assert_non_null(strstr(CSV("a,b,c,d"), "4 fields"));
    assert_non_null(strstr(CSV("a,b\"x\",c"), "quote inside"));
    assert_non_null(strstr(CSV("a,\"b\"x,c"), "after a closing"));
    assert_non_null(strstr(CSV("a,b,\xff"), "not UTF-8"));
    bn_csv_head_release(&head);
    assert_non_null(bn_csv_head_parse(&head, "text,text", 9, names, why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_csv_records),
        cmocka_unit_test(test_csv_rows),
    };

    begin();
    int rc = BN_TAP_RUN(tests);
    bn_str_release(&scratch);
    return rc;
}
