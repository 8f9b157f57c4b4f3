/* What the tests of token sets share: options, one file, the sets made of it,
 * and examples as text that a person can read.
 */
#ifndef BN_DATA_TEST_SETS_H
#define BN_DATA_TEST_SETS_H

#include "data/test/util.h"

static struct bn_tokenizer *tok, *tok_bos;
static struct bn_data_opts o;
static struct bn_tokens *set, *held;
static struct bn_err err;
static char *file;

/* Begin a case: the options' defaults and one file with these bytes. */
static inline void given(const char *name, const char *data)
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

static inline void drop_sets(void)
{
    bn_tokens_close(set);
    bn_tokens_close(held);
    set = held = NULL;
}

static inline void make_with(const struct bn_tokenizer *t)
{
    drop_sets();
    if (bn_tokens_make(&set, &held, &o, t, &err) < 0)
        fail_msg("%s", err.text);
}

static inline void refused(const char *word, enum bn_err_code code)
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
static inline void put(struct bn_str *b, int32_t id, int target)
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

/* The index counts what a batch of the example alone has. */
static inline void targets_are_counted(const struct bn_tokens *ts, uint64_t i,
                                       const struct bn_example *ex)
{
    for (int flags = 0; flags <= BN_BATCH_SCORE_PROMPT; flags++) {
        struct bn_batch b;
        int ntok[3];

        bn_tokens_targets(ts, i, flags, ntok);
        assert_int_equal(bn_batch_build(&b, bn_tokens_group(ts), ex, 1, flags,
                                        NULL), 0);
        for (int k = 0; k < b.nseq; k++)
            assert_int_equal(ntok[k], b.seq[k].ntok);
        bn_batch_release(&b);
    }
}

static inline void is(const struct bn_tokens *ts, uint64_t i, const char *want)
{
    struct bn_example ex;
    struct bn_str b = {0};

    assert_true(i < bn_tokens_count(ts));
    bn_tokens_get(ts, i, &ex);
    assert_int_equal(ex.index, i);
    targets_are_counted(ts, i, &ex);
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

static inline uint64_t drops(enum bn_drop d)
{
    return bn_tokens_stats(set)->drops[d];
}

static inline int sets_run(int (*run)(void))
{
    test_begin();
    tok = test_tokenizer(false, "");
    tok_bos = test_tokenizer(true, "");
    int rc = run();
    drop_sets();
    bn_tokenizer_close(tok);
    bn_tokenizer_close(tok_bos);
    free(file);
    test_end();
    return rc;
}

#endif
