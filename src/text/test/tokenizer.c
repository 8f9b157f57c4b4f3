/* The fast ways of the tokenizer against its slow ones, and hostile files. */
#include "config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/tap.h"
#include "text/simd.h"
#include "text/tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint64_t draw(uint64_t below)
{
    static uint64_t index;

    return bn_rng_u64(7, 1, index++) % below;
}

/* Random Unicode with the characters that matter often. Not from the planes
 * where PCRE2 and utf8proc may know different versions of Unicode. */
static void random_text(struct bn_str *s, size_t chars)
{
    static const char *const often[] = {
        "a", "b", "s", "T", "re", "ll", " ", " ", "  ", "\n", "\r\n", "\t",
        "'", "'s", "'LL", "\xc5\xbf", "1", "42", "12345", ".", "--", "(", "$",
        "\xed\x95\x9c", "\xea\xb5\xad\xec\x96\xb4", "\xea\xaf\xbf",
        "\xea\xb0\x80", "\xed\x9e\xa3", "\xed\x9e\xb0", "\xe4\xb8\xad",
        "\xe4\xb7\x80", "\xe5\x80\x80", "\xe9\xbf\xbf", "\xc3\xa9",
        "e\xcc\x81", "\xcc\x81", "ABC", "Xy", "\xc7\x85", "\xca\xb0", "/",
        "\xc2\xbd", "\xe3\x80\x80", "\xc2\xa0", "\xe2\x80\xa9",
        "\xe1\xa0\x8e", "\xf0\x9f\x99\x82", BN_MARK, BN_MARK BN_MARK,
        "\xe2\x96\x82", "\xe0\xa7\x87\xe0\xa6\xbe",
        "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", ""};

    bn_str_clear(s);
    bn_str_adds(s, "");
    while (chars-- > 0) {
        char c[4];
        uint32_t cp = (uint32_t)draw(draw(4) == 0 ? 0x10000 : 0x3000);

        if (draw(5) > 0)
            bn_str_adds(s, often[draw(BN_COUNT(often))]);
        else if (cp < 0xd800 || cp >= 0xe000)
            bn_str_add(s, c, (size_t)bn_utf8_put(c, cp));
    }
}

static void test_scan(void **state)
{
    const struct bn_uclass_table *t = bn_uclass_table();
    struct bn_matcher *m = bn_matcher_create();
    struct bn_str s = {0};
    struct bn_err err;
    enum bn_scan kind;
    const char *regex;

    (void)state;
    for (size_t r = 0; (regex = bn_scan_nth(r, &kind)) != NULL; r++) {
        struct bn_pattern p = {0};

        assert_int_equal(bn_pattern_regex(&p, regex, "test", &err), 0);
        for (int i = 0; i < 4000; i++) {
            struct bn_match it = {0};
            size_t at = 0;

            random_text(&s, 1 + draw(12));
            while (at < s.len) {
                const char *end = bn_scan_next(kind, t, s.s + at,
                                               s.s + s.len);
                int rc = bn_pattern_next(&p, m, s.s, s.len, &it, &err);

                if (rc != 1 || it.b != at
                    || it.e != (size_t)(end - s.s))
                    fail_msg("expression %zu at %zu of '%s': %zu, regex %d %zu",
                             r, at, s.s, (size_t)(end - s.s), rc, it.e);
                at = it.e;
            }
        }
        bn_pattern_release(&p);
    }
    bn_matcher_destroy(m);
    bn_str_release(&s);
}

static void test_utf8(void **state)
{
    struct bn_str s = {0};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        random_text(&s, 20 + draw(80));
        for (uint64_t k = draw(3); k > 0 && s.len > 0; k--)
            s.s[draw(s.len)] = (char)draw(256);
        assert_int_equal(bn_text_check(s.s, s.len),
                         bn_utf8_check(s.s, s.len));
    }
    bn_str_release(&s);
}

static void test_nfc(void **state)
{
    struct bn_normalizer z;
    struct bn_str s = {0}, buf[2] = {0};
    struct bn_err err;
    json_t *spec = json_pack("{s:s}", "type", "NFKC");
    int plain = 0;

    (void)state;
    assert_int_equal(bn_normalizer_init(&z, spec, "test", &err), 0);
    z.step[0].kind = BN_NORM_NFC;
    for (int i = 0; i < 30000; i++) {
        const char *out;
        size_t n, cut;

        random_text(&s, 1 + draw(i % 2 ? 4 : 60));
        if (!bn_nfc_plain(s.s, s.len))
            continue;
        plain++;
        /* Anything in front makes the whole be normalized. */
        struct bn_str probe = {0};
        bn_str_adds(&probe, "e\xcc\x81 ");
        bn_str_add(&probe, s.s, s.len);
        assert_int_equal(bn_normalize(&z, NULL, probe.s, probe.len, buf, &out,
                                      &n, &cut, &err), 0);
        assert_int_equal(n, s.len + 3);
        assert_memory_equal(out + 3, s.s, s.len);
        bn_str_release(&probe);
    }
    assert_true(plain > 3000);
    json_decref(spec);
    bn_normalizer_release(&z);
    bn_str_release(&s);
    bn_str_release(&buf[0]);
    bn_str_release(&buf[1]);
}

/* Open a tokenizer.json given as a value (taken) or as text. */
static struct bn_tokenizer *open_text(const char *text, struct bn_err *err)
{
    char *path = bn_asprintf("tokenizer-test.%ld.json", (long)getpid());
    struct bn_tokenizer *t;

    assert_int_equal(bn_file_write(path, text, strlen(text), NULL), 0);
    t = bn_tokenizer_open(path, err);
    unlink(path);
    free(path);
    return t;
}

static struct bn_tokenizer *open_value(json_t *v)
{
    char *text = json_dumps(v, 0);
    struct bn_err err;
    struct bn_tokenizer *t = open_text(text, &err);

    if (t == NULL)
        fail_msg("%s", err.text);
    free(text);
    json_decref(v);
    return t;
}

/* All bytes by name, and merges over what random_text writes. */
static json_t *byte_model(bool wide)
{
    json_t *vocab = json_object(), *merges = json_array();
    int n = wide ? 70000 : 0;

    for (int i = 0; i < 256; i++, n++) {
        struct bn_str s = {0};
        char byte = (char)i;

        bn_byte_names(&s, &byte, 1);
        json_object_set_new(vocab, s.s, json_integer(n));
        bn_str_release(&s);
    }
    static const char *const pairs[][2] = {
        {"a", "b"}, {"\xc4\xa0", "a"}, {"ab", "c"}, {"\xc3\xad", "\xc4\xb7"},
        {"d", "e"}, {"abc", "de"}, {"\xc4\xa0", "\xc4\xa0"}, {"r", "e"},
        {"'", "s"}, {"l", "l"}, {"-", "-"}, {"\xc3\xa3", "\xc4\xa2"}};
    for (size_t i = 0; i < BN_COUNT(pairs); i++, n++) {
        char *made = bn_asprintf("%s%s", pairs[i][0], pairs[i][1]);

        json_object_set_new(vocab, made, json_integer(n));
        json_array_append_new(merges,
                              json_pack("[ss]", pairs[i][0], pairs[i][1]));
        free(made);
    }
    return json_pack("{s:s, s:o, s:o}", "type", "BPE", "vocab", vocab,
                     "merges", merges);
}

static json_t *byte_tokenizer(const char *regex, bool wide)
{
    return json_pack(
        "{s:o, s:{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}, "
        "s:{s:s}}",
        "model", byte_model(wide), "pre_tokenizer", "type", "Sequence",
        "pretokenizers", "type", "Split", "pattern", "Regex", regex,
        "behavior", "Isolated", "invert", 0, "type", "ByteLevel",
        "add_prefix_space", 0, "use_regex", 0, "decoder", "type",
        "ByteLevel");
}

/* Both encode random texts to the same ids, and decode gives the text. */
static void compare(struct bn_tokenizer *a, struct bn_tokenizer *b,
                    bool decodes, int rounds)
{
    struct bn_encoder *x = bn_encoder_create(a), *y = bn_encoder_create(b);
    struct bn_ids p = {0}, q = {0};
    struct bn_str s = {0}, back = {0};
    struct bn_err err;

    for (int i = 0; i < rounds; i++) {
        random_text(&s, 1 + draw(i % 10 ? 40 : 400));
        p.n = q.n = back.len = 0;
        assert_int_equal(bn_encode(x, s.s, s.len, false, &p, &err), 0);
        assert_int_equal(bn_encode(y, s.s, s.len, false, &q, &err), 0);
        if (p.n != q.n || memcmp(p.v, q.v, p.n * sizeof(*p.v)) != 0)
            fail_msg("ids differ for '%s'", s.s);
        if (!decodes)
            continue;
        assert_int_equal(bn_decode(a, p.v, p.n, false, &back, &err), 0);
        assert_int_equal(back.len, s.len);
        assert_memory_equal(back.s, s.s, s.len);
    }
    bn_encoder_destroy(x);
    bn_encoder_destroy(y);
    bn_ids_release(&p);
    bn_ids_release(&q);
    bn_str_release(&s);
    bn_str_release(&back);
}

/* A known expression takes the hot path, the same in a group does not. */
static void test_hot(void **state)
{
    (void)state;
    for (int kind = BN_SCAN_GPT2; kind <= BN_SCAN_O200K; kind++)
        for (int wide = 0; wide < 2; wide++) {
            const char *regex = bn_scan_regex(kind);
            char *group = bn_asprintf("(?:%s)", regex);
            struct bn_tokenizer *a = open_value(byte_tokenizer(regex, wide));
            struct bn_tokenizer *b = open_value(byte_tokenizer(group, wide));

            assert_int_equal(a->plan, BN_PLAN_SCAN);
            assert_int_equal(b->plan, BN_PLAN_STEPS);
            compare(a, b, true, 2000);
            bn_tokenizer_close(a);
            bn_tokenizer_close(b);
            free(group);
        }
}

static json_t *piece_tokenizer(bool metaspace, bool bridge)
{
    json_t *model = json_pack(
        "{s:s, s:s, s:b, s:{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, "
        "s:i, s:i}, s:[[ss], [ss], [ss], [ss]]}",
        "type", "BPE", "unk_token", "<unk>", "fuse_unk", 1, "vocab", "<unk>",
        0, BN_MARK, 1, "a", 2, "b", 3, "s", 4, BN_MARK "a", 5, "ab", 6,
        BN_MARK BN_MARK, 7, BN_MARK "ab", 8, "\xed\x95\x9c", 9,
        "a" BN_MARK, 10, "merges", BN_MARK, "a", "a", "b", BN_MARK, BN_MARK,
        BN_MARK, "ab");

    if (bridge)
        json_array_append_new(json_object_get(model, "merges"),
                              json_pack("[ss]", "a", BN_MARK));
    if (metaspace)
        return json_pack("{s:o, s:{s:s, s:s, s:s, s:b}}", "model", model,
                         "pre_tokenizer", "type", "Metaspace", "replacement",
                         BN_MARK, "prepend_scheme", "always", "split", 0);
    /* The same, but by a regular expression: no plan sees through it. */
    return json_pack("{s:o, s:{s:s, s:[{s:s, s:{s:s}, s:s}, "
                     "{s:s, s:{s:s}, s:s}]}}",
                     "model", model, "normalizer", "type", "Sequence",
                     "normalizers", "type", "Replace", "pattern", "Regex",
                     "\\A(?![ " BN_MARK "])", "content", BN_MARK, "type",
                     "Replace", "pattern", "Regex", " ", "content", BN_MARK);
}

static void test_marks(void **state)
{
    (void)state;
    for (int bridge = 0; bridge < 2; bridge++) {
        struct bn_tokenizer *a = open_value(piece_tokenizer(true, bridge));
        struct bn_tokenizer *b = open_value(piece_tokenizer(false, bridge));

        /* A token with a mark inside forbids the cut. */
        assert_int_equal(a->plan == BN_PLAN_MARKS, !bridge);
        assert_int_equal(b->plan, BN_PLAN_STEPS);
        b->marks = false; /* merge whole texts */
        compare(a, b, false, 3000);
        bn_tokenizer_close(a);
        bn_tokenizer_close(b);
    }
}

#define VOCAB "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,"     \
              "\"ab\":2},\"merges\":[\"a b\"]}"

static void test_hostile(void **state)
{
    static const struct {
        const char *json, *says;
    } bad[] = {
        {"", "invalid JSON"},
        {"{\"model\": {\"type\": \"BPE\", \"voc", "invalid JSON"},
        {"[]", "has no 'model'"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "'Unigram'"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "'WordPiece'"},
        {"{\"model\":{\"vocab\":[[\"a\",-1.0]]}}", "'Unigram'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}",
         "vocab is empty"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a\":1},"
         "\"merges\":[]}}", "duplicate object key"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},"
         "\"merges\":[]}}", "have the same id 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4294967296},"
         "\"merges\":[]}}", "from 0 to 2097151"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
         "from 0 to 2097151"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1e99},"
         "\"merges\":[]}}", "from 0 to 2097151"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
         "\"merges\":[\"a x\"]}}", "merges[0]: 'x' is not in the vocabulary"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
         "\"merges\":[\"a a\"]}}", "makes 'aa', which is not"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
         "\"merges\":[\"a\"]}}", "must be two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
         "\"merges\":[[\"a\",1]]}}", "must be two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],"
         "\"dropout\":0.1}}", "chance"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],"
         "\"unk_token\":\"<u>\"}}", "unk_token '<u>' is not"},
        {"{" VOCAB ",\"normalizer\":{\"type\":\"Precompiled\"}}",
         "normalizer 'Precompiled'"},
        {"{" VOCAB ",\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}}",
         "pre_tokenizer 'BertPreTokenizer'"},
        {"{" VOCAB ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
         "{\"Regex\":\"(\"},\"behavior\":\"Isolated\"}}",
         "bad regular expression"},
        {"{" VOCAB ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
         "{\"Regex\":\"[a&&b]\"},\"behavior\":\"Isolated\"}}",
         "not supported at"},
        {"{" VOCAB ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
         "{\"String\":\"a\"},\"behavior\":\"Sideways\"}}", "'Sideways'"},
        {"{" VOCAB ",\"post_processor\":{\"type\":\"Other\"}}",
         "post_processor 'Other'"},
        {"{" VOCAB ",\"post_processor\":{\"type\":\"TemplateProcessing\","
         "\"single\":[{\"SpecialToken\":{\"id\":\"s\"}}],"
         "\"special_tokens\":{}}}", "special token 's' has no ids"},
        {"{" VOCAB ",\"post_processor\":{\"type\":\"BertProcessing\","
         "\"cls\":[\"c\",99],\"sep\":[\"s\",0]}}", "from 0 to 2"},
        {"{" VOCAB ",\"decoder\":{\"type\":\"CTC\"}}", "decoder 'CTC'"},
        {"{" VOCAB ",\"added_tokens\":[{\"id\":3,\"content\":\"x\"},"
         "{\"id\":4,\"content\":\"x\"}]}", "'x' is repeated"},
        {"{" VOCAB ",\"added_tokens\":[{\"id\":99999999,\"content\":\"x\"}]}",
         "'id' must be"},
        {"{" VOCAB ",\"added_tokens\":[{\"id\":3}]}", "string 'content'"},
        {"{" VOCAB ",\"normalizer\":{}}", "has no 'type'"},
    };
    struct bn_err err;

    (void)state;
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        err = (struct bn_err){0};
        assert_null(open_text(bad[i].json, &err));
        assert_int_equal(err.code, BN_ERR_DATA);
        if (strstr(err.text, bad[i].says) == NULL
            || strchr(err.text, '\n') != NULL)
            fail_msg("'%s' gives \"%s\", not \"%s\"", bad[i].json, err.text,
                     bad[i].says);
    }
    struct bn_str deep = {0};
    bn_str_adds(&deep, "{" VOCAB ",\"decoder\":");
    for (int i = 0; i < 100; i++)
        bn_str_adds(&deep, "{\"type\":\"Sequence\",\"decoders\":[");
    for (int i = 0; i < 100; i++)
        bn_str_adds(&deep, "]}");
    bn_str_adds(&deep, "}");
    assert_null(open_text(deep.s, &err));
    assert_non_null(strstr(err.text, "nested too deep"));
    bn_str_release(&deep);
}

/* Merges that make what they are made of (ab + a = a + ba) end all the same,
 * and errors leave the caller's list as it was. */
static void test_encode(void **state)
{
    struct bn_err err;
    struct bn_ids ids = {0};
    struct bn_str text = {0};
    struct bn_tokenizer *t = open_text(
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,"
        "\"ba\":3,\"aba\":4},\"merges\":[\"a b\",\"b a\",\"ab a\",\"a ba\"]},"
        "\"truncation\":{\"max_length\":2},"
        "\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true}],"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
        "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},"
        "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":"
        "{\"<s>\":{\"id\":\"<s>\",\"ids\":[5],\"tokens\":[\"<s>\"]}}}}",
        &err);

    (void)state;
    assert_non_null(t);
    struct bn_encoder *e = bn_encoder_create(t);
    assert_int_equal(bn_encode(e, "ababab<s>x", 10, true, &ids, &err), 0);
    static const int32_t want[] = {5, 2, 2, 2, 5};
    assert_int_equal(ids.n, 5);
    assert_memory_equal(ids.v, want, sizeof(want));
    assert_int_equal(bn_encode(e, "ab\xff", 3, true, &ids, &err), -1);
    assert_int_equal(err.code, BN_ERR_DATA);
    assert_non_null(strstr(err.text, "byte 2"));
    assert_int_equal(ids.n, 5);
    assert_int_equal(bn_encode(e, "", 0, false, &ids, &err), 0);
    assert_int_equal(ids.n, 5);
    assert_int_equal(bn_decode(t, want, 5, true, &text, &err), 0);
    assert_string_equal(text.s, "ab ab ab");
    static const int32_t wrong[] = {0, 6};
    assert_int_equal(bn_decode(t, wrong, 2, false, &text, &err), -1);
    assert_non_null(strstr(err.text, "id 6 is not in the vocabulary"));
    assert_int_equal(bn_tokenizer_vocab_size(t), 6);
    assert_int_equal(bn_tokenizer_id(t, "<s>"), 5);
    assert_true(bn_tokenizer_is_special(t, 5));
    assert_string_equal(bn_tokenizer_token(t, 4), "aba");
    assert_null(bn_tokenizer_token(t, 6));
    assert_int_equal(bn_tokenizer_bos(t), -1);
    bn_encoder_destroy(e);
    bn_tokenizer_close(t);
    bn_ids_release(&ids);
    bn_str_release(&text);
}

/* More words than the cache has room for, each twice. */
static void test_cache(void **state)
{
    struct bn_tokenizer *t =
        open_value(byte_tokenizer(bn_scan_regex(BN_SCAN_GPT2), false));
    struct bn_encoder *e = bn_encoder_create(t);
    struct bn_ids ids = {0};
    struct bn_str s = {0}, back = {0};
    struct bn_err err;

    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t word = i % 50000;
        uint64_t n = 1 + bn_rng_u64(8, word, 0) % (word % 7 ? 60 : 1500);

        bn_str_clear(&s);
        for (uint64_t k = 1; k <= n; k++)
            bn_str_addc(&s, (char)('a' + bn_rng_u64(8, word, k) % 6));
        ids.n = back.len = 0;
        assert_int_equal(bn_encode(e, s.s, s.len, false, &ids, &err), 0);
        assert_int_equal(bn_decode(t, ids.v, ids.n, false, &back, &err), 0);
        assert_string_equal(back.s, s.s);
    }
    bn_encoder_destroy(e);
    bn_tokenizer_close(t);
    bn_ids_release(&ids);
    bn_str_release(&s);
    bn_str_release(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan),    cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_nfc),     cmocka_unit_test(test_hot),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_hostile), cmocka_unit_test(test_encode),
        cmocka_unit_test(test_cache),
    };

    bn_log_set_level(BN_LOG_ERROR);
    return BN_TAP_RUN(tests);
}
