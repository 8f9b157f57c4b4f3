/* Text that comes token by token equals the text of all tokens, and a stop
 * string is found wherever tokens cut it.
 */
#include "config.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/tap.h"
#include "train/gen_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* SentencePiece style: a mark for a space, dropped at the beginning, and
 * bytes where a character has no token. */
static const char spec[] =
    "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null,"
    " \"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true,"
    " \"single_word\": false, \"lstrip\": false, \"rstrip\": false,"
    " \"normalized\": false}], \"normalizer\": null, \"pre_tokenizer\": null,"
    " \"post_processor\": null, \"decoder\": {\"type\": \"Sequence\","
    " \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\":"
    " \"\\u2581\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"},"
    " {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \","
    " \"start\": 1, \"stop\": 0}]}, \"model\": {\"type\": \"BPE\","
    " \"dropout\": null, \"unk_token\": null,"
    " \"continuing_subword_prefix\": null, \"end_of_word_suffix\": null,"
    " \"fuse_unk\": false, \"byte_fallback\": true, \"merges\": [],"
    " \"vocab\": {\"<s>\": 0, \"\\u2581\": 1, \"\\u2581a\": 2, \"b\": 3,"
    " \"\\uc548\": 4, \"<0xEB>\": 5, \"<0x85>\": 6, \"<0x95>\": 7,"
    " \"\\u2581\\u2581\": 8}}}";
enum { BOS, SPACE, SPACE_A, B, AN, EB, X85, X95, TWO, NIDS };

static struct bn_tokenizer *tokenizer;

static void open_tokenizer(void)
{
    char dir[] = "/tmp/bn-gen-text-XXXXXX";
    struct bn_err err = {.text = "no temporary folder"};

    if (mkdtemp(dir) != NULL) {
        char *path = bn_path_join(dir, "tokenizer.json");

        if (bn_file_write(path, spec, strlen(spec), &err) == 0)
            tokenizer = bn_tokenizer_open(path, &err);
        bn_remove_tree(dir, NULL);
        free(path);
    }
    if (tokenizer == NULL) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
}

static void begin(struct bn_gen_text *x, const int32_t *prompt, size_t n)
{
    x->t = tokenizer;
    assert_int_equal(bn_gen_text_begin(x, prompt, n, NULL), 0);
}

static void add(struct bn_gen_text *x, int32_t id, const char *ready)
{
    assert_int_equal(bn_gen_text_add(x, id, NULL), 0);
    if (x->ready != strlen(ready)
        || (x->ready > 0 && memcmp(x->text.s, ready, x->ready) != 0))
        fail_msg("ready is '%.*s', not '%s'", (int)x->ready, x->text.s,
                 ready);
}

static void spaces_depend_on_what_is_before(void **state)
{
    const int32_t bos[] = {BOS}, more[] = {BOS, SPACE_A};
    struct bn_gen_text x = {0};

    (void)state;
    begin(&x, bos, 1); /* the first word of all */
    add(&x, SPACE_A, "a");
    add(&x, SPACE_A, "a a");
    begin(&x, more, 2); /* "a" is there already */
    add(&x, SPACE_A, " a");
    add(&x, SPACE, " a ");
    add(&x, B, " a b");
    bn_gen_text_release(&x);
}

static void characters_are_whole(void **state)
{
    const int32_t bos[] = {BOS};
    struct bn_gen_text x = {0};

    (void)state;
    begin(&x, bos, 1);
    add(&x, AN, "안");
    add(&x, EB, "안");
    add(&x, X85, "안");
    add(&x, X95, "안녕");
    add(&x, BOS, "안녕"); /* special: no text */
    add(&x, NIDS + 5, "안녕"); /* padding of the model's vocabulary */
    add(&x, EB, "안녕");
    add(&x, B, "안녕\xef\xbf\xbd" "b");
    add(&x, X85, "안녕\xef\xbf\xbd" "b");
    assert_int_equal(bn_gen_text_end(&x, NULL), 0);
    assert_string_equal(x.text.s, "안녕\xef\xbf\xbd" "b\xef\xbf\xbd");
    bn_gen_text_release(&x);
}

static void stop_strings(void **state)
{
    static const char *const stops[] = {"ab안녕", "b b", "bbb안"};
    const int32_t bos[] = {BOS};
    struct bn_gen_text x = {.stop = stops, .nstop = 3};

    (void)state;
    begin(&x, bos, 1);
    add(&x, SPACE_A, "");     /* may be the first */
    add(&x, B, "");           /* still */
    add(&x, AN, "");          /* still */
    add(&x, SPACE_A, "ab안 "); /* it is not; 'a' may be again */
    add(&x, B, "ab안 ");
    add(&x, B, "ab안 a");     /* "bb" may be the third */
    add(&x, SPACE, "ab안 ab"); /* "b " the second */
    add(&x, B, "ab안 ab");
    assert_int_equal(x.found, 1);
    assert_string_equal(x.text.s, "ab안 ab");
    begin(&x, bos, 1); /* found in a character of three tokens */
    add(&x, SPACE_A, "");
    add(&x, B, "");
    add(&x, AN, "");
    add(&x, EB, "");
    add(&x, X85, "");
    add(&x, X95, "");
    assert_int_equal(x.found, 0);
    assert_string_equal(x.text.s, "");
    begin(&x, bos, 1); /* what was held back comes at the end */
    add(&x, B, "");
    add(&x, SPACE, "");
    assert_int_equal(bn_gen_text_end(&x, NULL), 0);
    assert_int_equal(x.found, -1);
    assert_string_equal(x.text.s, "b ");
    assert_int_equal(x.ready, 2);
    bn_gen_text_release(&x);
}

/* Any tokens whose bytes are characters: the pieces are the whole. */
static void pieces_are_the_whole(void **state)
{
    static const int32_t chars[] = {SPACE, SPACE_A, B, AN, TWO, BOS};
    struct bn_gen_text x = {0};
    struct bn_str all = {0};

    (void)state;
    for (uint64_t row = 0; row < 300; row++) {
        int32_t ids[64];
        size_t n = 0, prompt = 1 + row % 20, shown = 0;

        while (n < 60) {
            uint64_t k = bn_rng_u64(5, row, n) % 8;

            if (k < 6) {
                ids[n++] = chars[k];
                continue;
            }
            ids[n++] = EB;
            ids[n++] = X85;
            ids[n++] = X95;
        }
        while (ids[prompt - 1] == EB || ids[prompt - 1] == X85)
            prompt++; /* not in a character */
        bn_str_clear(&all);
        assert_int_equal(bn_decode(tokenizer, ids, n, true, &all, NULL), 0);
        size_t whole = all.len;
        bn_str_addc(&all, '\0');
        assert_int_equal(bn_decode(tokenizer, ids, prompt, true, &all, NULL),
                         0);
        size_t before = all.len - whole - 1;
        begin(&x, ids, prompt);
        for (size_t i = prompt; i < n; i++) {
            assert_int_equal(bn_gen_text_add(&x, ids[i], NULL), 0);
            assert_true(x.ready >= shown);
            shown = x.ready;
        }
        assert_int_equal(bn_gen_text_end(&x, NULL), 0);
        if (x.text.len != whole - before
            || memcmp(x.text.s, all.s + before, x.text.len) != 0)
            fail_msg("row %d: '%.*s' is not the end of '%s'", (int)row,
                     (int)x.text.len, x.text.s, all.s);
    }
    bn_str_release(&all);
    bn_gen_text_release(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_depend_on_what_is_before),
        cmocka_unit_test(characters_are_whole),
        cmocka_unit_test(stop_strings),
        cmocka_unit_test(pieces_are_the_whole),
    };

    open_tokenizer();
    int rc = BN_TAP_RUN(tests);
    bn_tokenizer_close(tokenizer);
    return rc;
}
