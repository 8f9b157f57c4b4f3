/* From files to token sets: every format, damaged files, endless lines. */
#include "config.h"
#include "data/test/sets.h"

#include <fcntl.h>
#include <zlib.h>
#include <zstd.h>

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

static int run(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_long_line),
    };

    return BN_TAP_RUN(tests);
}

int main(void)
{
    return sets_run(run);
}
