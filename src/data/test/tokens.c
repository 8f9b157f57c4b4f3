/* From files to token sets: shapes, boundaries, limits, drops, the cache. */
#include "config.h"
#include "data/test/util.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zlib.h>
#include <zstd.h>

static struct bn_tokenizer *tok, *tok_bos;
static struct bn_data_opts o;
static struct bn_tokens *set, *held;
static struct bn_err err;
static char *file;

/* Begin a case: the options' defaults and one file with these bytes. */
static void given(const char *name, const char *data)
{
    free(file);
    file = test_file(name, data, strlen(data));
    bn_data_opts_init(&o);
    o.files = (const char *const *)&file;
    o.nfiles = 1;
    o.cache_dir = test_dir;
    o.quiet = true;
    o.max_dropped_fraction = 1;
}

static void drop_sets(void)
{
    bn_tokens_close(set);
    bn_tokens_close(held);
    set = held = NULL;
}

static void make_with(const struct bn_tokenizer *t)
{
    drop_sets();
    if (bn_tokens_make(&set, &held, &o, t, &err) < 0)
        fail_msg("%s", err.text);
}

static void refused(const char *word, enum bn_err_code code)
{
    drop_sets();
    if (bn_tokens_make(&set, &held, &o, tok, &err) == 0)
        fail_msg("accepted where '%s' should be said", word);
    assert_null(set);
    if (strstr(err.text, word) == NULL)
        fail_msg("'%s' lacks '%s'", err.text, word);
    assert_int_equal(err.code, code);
}

/* One example as text: bytes as they are, <s> as ^, </s> as $, "ab" as its
 * token as @, targets in upper case or after !. */
static void put(struct bn_str *b, int32_t id, int target)
{
    static const char special[] = "?^$";
    char c = id < 3 ? special[id] : id == 259 ? 'a' : id == 260 ? 'b'
             : id == 261 ? '@' : (char)(id - 3);

    if (target && c >= 'a' && c <= 'z')
        c = (char)(c - 32);
    else if (target)
        bn_str_addc(b, '!');
    bn_str_addc(b, c);
}

static void is(const struct bn_tokens *ts, uint64_t i, const char *want)
{
    struct bn_example ex;
    struct bn_str b = {0};

    assert_true(i < bn_tokens_count(ts));
    bn_tokens_get(ts, i, &ex);
    assert_int_equal(ex.index, i);
    for (int k = 0; k < ex.n; k++)
        put(&b, ex.ids[k], ex.mask != NULL && ex.mask[k]);
    if (bn_tokens_group(ts) == 3) {
        bn_str_addc(&b, '|');
        for (int k = 0; k < ex.nchosen; k++)
            put(&b, ex.chosen[k], 0);
        bn_str_addc(&b, '|');
        for (int k = 0; k < ex.nrejected; k++)
            put(&b, ex.rejected[k], 0);
    }
    assert_string_equal(b.len > 0 ? b.s : "", want);
    bn_str_release(&b);
}

static uint64_t drops(enum bn_drop d)
{
    return bn_tokens_stats(set)->drops[d];
}

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

/* The same rows in every format are the same tokens. */
static void test_formats(void **state)
{
    static const char rows[] = "{\"text\":\"one, \\\"1\\\"\"}\n"
                               "{\"text\":\"two\\n2\"}\n";
    static const char array[] = "\xef\xbb\xbf \n[\n {\n  \"text\": \"one, "
                                "\\\"1\\\"\"\n }\n , {\"x\":[{}], \"text\":"
                                "\"two\\n2\"} ]\n ";
    static const char csv[] = "id,text\r\n1,\"one, \"\"1\"\"\"\r\n"
                              "2,\"two\n2\"";
    char packed[1000];

    (void)state;
    for (int i = 0; i < 8; i++) {
        given("f.jsonl", rows);
        free(file);
        file = NULL;
        if (i == 0) {
            file = test_file("g.jsonl", rows, strlen(rows));
        } else if (i == 1) {
            file = test_file("g.jsonl", rows, strlen(rows) - 1);
        } else if (i == 2) {
            file = test_file("g.json", array, strlen(array));
        } else if (i == 3) {
            file = test_file("g.csv", csv, strlen(csv));
        } else if (i == 4 || i == 5) { /* two members */
            file = bn_path_join(test_dir, "g.jsonl.gz");
            gzFile z = gzopen(file, "wb");
            gzwrite(z, rows, i == 4 ? strlen(rows) : 10);
            gzclose(z);
            z = gzopen(file, "ab");
            gzwrite(z, rows + 10, i == 4 ? 0 : (unsigned)strlen(rows) - 10);
            gzclose(z);
        } else if (i == 6) {
            size_t n = ZSTD_compress(packed, sizeof(packed), csv,
                                     strlen(csv), 3);
            file = test_file("g.CSV.zst", packed, n);
        } else {
            file = bn_path_join(test_dir, "f*.jsonl");
        }
        o.files = (const char *const *)&file;
        make_with(tok);
        assert_int_equal(bn_tokens_count(set), 2);
        is(set, 0, "oNE!,! !\"!1!\"!$");
        is(set, 1, "tWO!\n!2!$");
    }
}

static void test_bad_files(void **state)
{
    char packed[1000];

    (void)state;
    given("e.jsonl", "");
    refused("no row of data", BN_ERR_DATA);
    given("e.jsonl", " \n\n");
    refused("no row of data", BN_ERR_DATA);
    given("e.json", "[ ]");
    refused("no row of data", BN_ERR_DATA);
    given("e.csv", "text\n");
    refused("no row of data", BN_ERR_DATA);
    given("e.json", "[{\"text\":\"x\"},");
    refused("e.json:1: the array that ends", BN_ERR_DATA);
    given("e.json", "[{\"text\":\"x\"}\n{\"text\":\"x\"}]");
    refused("e.json:2: no comma", BN_ERR_DATA);
    given("e.json", "[{\"text\":\"\\\"]}\"},{\"text\":\"\\\\\"}]");
    make_with(tok);
    is(set, 0, "\"!]!}!$");
    is(set, 1, "\\!$");
    given("e.json", "[{\"text\":\"x\"}]\n\n]");
    refused("e.json:3: text after", BN_ERR_DATA);
    given("e.csv", "text\nx\n\"y\nz\n");
    refused("e.csv:3: a quote", BN_ERR_DATA);
    given("e.parquet", "PAR1");
    refused("convert once", BN_ERR_DATA);
    given("e.txt", "x");
    refused("known endings", BN_ERR_DATA);
    given("e.jsonl", "\xff\xfe{");
    refused("UTF-16", BN_ERR_DATA);
    given("e.jsonl", "{\"question\":\"x\", \"answer\":\"y\"}\n");
    refused("e.jsonl:1: no sft shape has the columns 'question', 'answer'",
            BN_ERR_DATA);
    o.column[BN_COL_PROMPT] = "question";
    o.column[BN_COL_COMPLETION] = "answer";
    make_with(tok);
    is(set, 0, "xY!$");
    assert_string_equal(bn_tokens_statement(set), "prompt_completion, "
                        "detected from columns (question, answer): "
                        "completion after prompt, no template");
    given("e.jsonl", "{bad\n{\"text\":\"\"}\n");
    refused("all 2 rows were dropped: bad row 1, no target 1; first: ",
            BN_ERR_DATA);
    given("e.jsonl", "{\"text\":\"x\"}\n");
    o.completion_only_loss = BN_CHOICE_YES;
    refused("completion_only_loss", BN_ERR_USAGE);
    given("e.jsonl", "{\"text\":\"x\"}\n");
    o.shape = BN_SHAPE_PREFERENCE;
    refused("does not fit", BN_ERR_USAGE);
    given("e.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}"
                     "\n");
    refused("need a chat template", BN_ERR_DATA);
    given("e.jsonl", "{\"text\":\"x\"}\n");
    free(file);
    file = bn_path_join(test_dir, "none*.jsonl");
    refused("no file matches", BN_ERR_DATA);
    free(file);
    file = bn_strdup(test_dir);
    refused("is a directory", BN_ERR_DATA);
    free(file);
    file = bn_path_join(test_dir, "none.jsonl");
    refused("No such file", BN_ERR_DATA);
    /* cut in the middle */
    struct bn_str b = {0};
    for (int i = 0; i < 20000; i++)
        bn_str_addf(&b, "{\"text\":\"%d\"}\n", i * 7919);
    free(file);
    file = bn_path_join(test_dir, "cut.jsonl.gz");
    gzFile z = gzopen(file, "wb");
    gzwrite(z, b.s, (unsigned)b.len);
    gzclose(z);
    make_with(tok);
    assert_int_equal(bn_tokens_count(set), 20000);
    assert_int_equal(truncate(file, 20000), 0);
    refused("cut.jsonl.gz' is damaged: its end is missing", BN_ERR_DATA);
    free(file);
    size_t n = ZSTD_compress(packed, sizeof(packed), b.s, 900, 3);
    file = test_file("cut.jsonl.zst", packed, n - 5);
    refused("is damaged", BN_ERR_DATA);
    free(file);
    file = bn_path_join(test_dir, "bad.jsonl.gz");
    z = gzopen(file, "wb");
    gzwrite(z, b.s, (unsigned)b.len);
    gzclose(z);
    int fd = open(file, O_WRONLY);
    assert_int_equal(pwrite(fd, "damage", 6, 20000), 6);
    close(fd);
    refused("bad.jsonl.gz' is damaged", BN_ERR_DATA);
    bn_str_release(&b);
}

/* 'n' rows of text that differ. */
static char *many(size_t n)
{
    struct bn_str b = {0};

    for (size_t i = 0; i < n; i++)
        bn_str_addf(&b, "{\"text\":\"row %zu %.*s\"}\n", i, (int)(i % 90),
                    "abababababababababababababababababababababababababababab"
                    "ababababababababababababababababab");
    return bn_str_take(&b);
}

static char *contents(const char *dir, const char *name, size_t *n)
{
    char *path = bn_path_join(dir, name);
    char *s = bn_file_read(path, 1 << 30, n, &err);

    if (s == NULL)
        fail_msg("%s", err.text);
    free(path);
    return s;
}

static void test_threads(void **state)
{
    static const char *const name[] = {"ids.bin", "mask.bin", "train.idx",
                                       "eval.idx", "meta.json"};
    char *data = many(100000), *dir[2] = {0}, *cache[2] = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        given("many.jsonl", data);
        cache[i] = bn_path_join(test_dir, i ? "cache4" : "cache1");
        o.cache_dir = cache[i];
        o.threads = i ? 4 : 1;
        o.eval_split = 0.1;
        make_with(tok_bos);
        dir[i] = bn_strdup(bn_tokens_path(set));
        assert_false(bn_tokens_was_cached(set));
        assert_int_equal(bn_tokens_count(set), 90000);
        assert_int_equal(bn_tokens_count(held), 10000);
    }
    for (size_t i = 0; i < BN_COUNT(name); i++) {
        size_t n[2];
        char *a = contents(dir[0], name[i], &n[0]);
        char *b = contents(dir[1], name[i], &n[1]);

        assert_int_equal(n[0], n[1]);
        assert_memory_equal(a, b, n[0]);
        free(a);
        free(b);
    }
    make_with(tok_bos);
    assert_true(bn_tokens_was_cached(set));
    for (int i = 0; i < 2; i++) {
        free(dir[i]);
        free(cache[i]);
    }
    free(data);
}

static uint64_t digest(const struct bn_tokens *ts, uint64_t i)
{
    struct bn_example ex;

    bn_tokens_get(ts, i, &ex);
    return bn_hash_bytes(ex.ids, (size_t)ex.n * sizeof(*ex.ids)).lo;
}

/* Names with 'part' in a directory of the cache. */
static int entries(const char *dir, const char *part)
{
    char *path = bn_path_join(test_dir, dir);
    DIR *d = opendir(path);
    int n = 0;

    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL;
         e = readdir(d))
        n += e->d_name[0] != '.' && strstr(e->d_name, part) != NULL;
    if (d != NULL)
        closedir(d);
    free(path);
    return n;
}

static void test_split(void **state)
{
    struct bn_str b = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) /* every row twice */
        bn_str_addf(&b, "{\"text\":\"r%d\"}\n", i % 500);
    given("s.jsonl", b.s);
    o.eval_split = 0.05;
    make_with(tok);
    assert_int_equal(bn_tokens_count(held), 50);
    assert_int_equal(bn_tokens_count(set), 950);
    for (uint64_t i = 0; i < 50; i++) {
        for (uint64_t j = 0; j < 950; j++)
            assert_int_not_equal(digest(held, i), digest(set, j));
    }
    uint64_t first = digest(held, 0);
    o.split_seed = 1;
    make_with(tok);
    assert_int_equal(bn_tokens_count(held), 50);
    assert_int_not_equal(digest(held, 0), first);
    bn_str_release(&b);
    given("s.jsonl", "{\"text\":\"one\"}\n");
    make_with(tok);
    assert_int_equal(bn_tokens_count(set), 1);
    o.eval_split = 0.1;
    refused("none is left to train on", BN_ERR_DATA);
    char *other = test_file("other.jsonl", "{\"text\":\"held\"}\n", 16);
    o.eval_split = 0;
    o.eval_files = (const char *const *)&other;
    o.neval_files = 1;
    make_with(tok);
    is(set, 0, "oNE!$");
    is(held, 0, "hELD!$");
    free(other);
}

static void test_key(void **state)
{
    char *was;

    (void)state;
    given("k.jsonl", "{\"text\":\"abc\"}\n");
    make_with(tok);
    was = bn_strdup(bn_tokens_path(set));
    make_with(tok);
    assert_true(bn_tokens_was_cached(set));
    o.max_length = 2;
    make_with(tok);
    assert_false(bn_tokens_was_cached(set));
    assert_string_not_equal(was, bn_tokens_path(set));
    o.max_length = 1024;
    make_with(tok_bos);
    assert_string_not_equal(was, bn_tokens_path(set));
    /* another file of the same size, at once, under the same name */
    given("k.jsonl", "{\"text\":\"xyz\"}\n");
    make_with(tok);
    assert_string_not_equal(was, bn_tokens_path(set));
    is(set, 0, "xYZ!$");
    given("other-name.jsonl", "{\"text\":\"abc\"}\n");
    make_with(tok);
    assert_true(bn_tokens_was_cached(set));
    assert_string_equal(was, bn_tokens_path(set));
    /* damage is seen */
    char *path = bn_path_join(was, "ids.bin");
    assert_int_equal(truncate(path, 4), 0);
    refused("has 4 bytes where 12 should be", BN_ERR_DATA);
    free(path);
    free(was);
    /* a file this young may change without a trace: its hash is not kept */
    assert_int_equal(entries("files", ""), 0);
}

/* A lock whose process number is in use again, by another process. */
static void test_reused_pid(void **state)
{
    char boot[64] = "";
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    struct stat ns;

    (void)state;
    assert_int_equal(fscanf(f, "%63s", boot), 1);
    fclose(f);
    assert_int_equal(stat("/proc/self/ns/pid", &ns), 0);
    given("r.jsonl", "{\"text\":\"reused\"}\n");
    make_with(tok);
    char *dir = bn_strdup(bn_tokens_path(set)), host[128] = "";
    gethostname(host, sizeof(host) - 1);
    bn_remove_tree(dir, NULL);
    char *path = bn_asprintf("%s.lock", dir);
    char *text = bn_asprintf("%s %ld 1 %s %lu\n", host, (long)getpid(), boot,
                             (unsigned long)ns.st_ino);
    assert_int_equal(bn_file_write(path, text, strlen(text), &err), 0);
    o.wait_seconds = 5;
    make_with(tok);
    assert_false(bn_tokens_was_cached(set));
    /* one that another machine holds is waited for */
    bn_remove_tree(dir, NULL);
    free(text);
    text = bn_asprintf("elsewhere 1 1 %s 1\n", boot);
    assert_int_equal(bn_file_write(path, text, strlen(text), &err), 0);
    o.wait_seconds = 0.3;
    refused("for process 1 on elsewhere to tokenize", BN_ERR_AGAIN);
    unlink(path);
    free(text);
    free(path);
    free(dir);
}

/* A line of 100 MB and one of 40 MB among good ones. */
static void test_long_line(void **state)
{
    size_t big = (size_t)100 << 20;
    char *data = bn_malloc(big);
    char *path = bn_path_join(test_dir, "long.jsonl");
    int fd;

    (void)state;
    memset(data, 'x', big);
    given("long.jsonl", "");
    fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    assert_true(write(fd, "{\"text\":\"a\"}\n{\"text\":\"", 23) == 23);
    assert_true(write(fd, data, big) == (ssize_t)big);
    assert_true(write(fd, "\"}\n{\"text\":\"b\"}\n{\"text\":\"", 26) == 26);
    assert_true(write(fd, data, (size_t)40 << 20) == (ssize_t)40 << 20);
    assert_true(write(fd, "\"}\n{\"text\":\"c\"}", 15) == 15);
    close(fd);
    o.threads = 2;
    make_with(tok);
    assert_int_equal(bn_tokens_count(set), 3);
    is(set, 2, "c!$");
    assert_int_equal(drops(BN_DROP_BAD_ROW), 2);
    assert_non_null(strstr(bn_tokens_notes(set),
                           "long.jsonl:2: longer than 32 MiB"));
    assert_non_null(strstr(bn_tokens_notes(set),
                           "long.jsonl:4: longer than 32 MiB"));
    unlink(path);
    free(path);
    free(data);
}

/* Start a process that makes the set of 'o' and exits 0 (made), 1 (found) or
 * 2. */
static pid_t start(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct bn_tokens *a, *b;
        int rc = bn_tokens_make(&a, &b, &o, tok, &err);

        _exit(rc < 0 ? 2 : bn_tokens_was_cached(a));
    }
    return pid;
}

static void test_two_processes(void **state)
{
    char *data = many(200000);
    pid_t pid[3];
    int made = 0;

    (void)state;
    given("two.jsonl", data);
    o.threads = 1;
    for (int i = 0; i < 3; i++)
        pid[i] = start();
    for (int i = 0; i < 3; i++) {
        int status;

        waitpid(pid[i], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
        made += WEXITSTATUS(status) == 0;
    }
    assert_int_equal(made, 1);
    make_with(tok);
    assert_true(bn_tokens_was_cached(set));
    free(data);
}

static void test_killed(void **state)
{
    char *data = many(400000);
    int status;

    (void)state;
    given("kill.jsonl", data);
    o.threads = 1;
    pid_t pid = start();
    for (int i = 0; i < 2000 && entries("tokens", "tmp") != 1; i++)
        usleep(1000);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(entries("tokens", "lock"), 1);
    assert_int_equal(entries("tokens", "tmp"), 1);
    make_with(tok);
    assert_false(bn_tokens_was_cached(set));
    assert_int_equal(bn_tokens_count(set), 400000);
    assert_int_equal(entries("tokens", "lock"), 0);
    assert_int_equal(entries("tokens", "tmp"), 0);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),      cmocka_unit_test(test_boundary),
        cmocka_unit_test(test_limits_left), cmocka_unit_test(test_chats),
        cmocka_unit_test(test_sharegpt),
        cmocka_unit_test(test_pairs_of_messages),
        cmocka_unit_test(test_drops),     cmocka_unit_test(test_transcripts),
        cmocka_unit_test(test_alpaca),    cmocka_unit_test(test_formats),
        cmocka_unit_test(test_bad_files), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_split),     cmocka_unit_test(test_key),
        cmocka_unit_test(test_reused_pid), cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_two_processes),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_limits),
    };

    test_begin();
    tok = test_tokenizer(false, "");
    tok_bos = test_tokenizer(true, "");
    int rc = BN_TAP_RUN(tests);
    drop_sets();
    bn_tokenizer_close(tok);
    bn_tokenizer_close(tok_bos);
    free(file);
    test_end();
    return rc;
}
