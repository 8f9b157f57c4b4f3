/* Merges: the fast ways against a heap, and both against the definition. */
#include "config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/tap.h"
#include "text/simd.h"
#include "text/tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t draw(uint64_t below)
{
    static uint64_t index;

    return bn_rng_u64(11, 1, index++) % below;
}

enum { TOKENS = 400 };

/* A model, and its ranks as a plain table. */
struct model {
    struct bn_bpe b;
    char text[TOKENS][64];
    int n;
    int rank[TOKENS][TOKENS], made[TOKENS][TOKENS]; /* rank + 1; 0: none */
};

/* A few characters from 'a' on, then merges of random tokens. trained: of tokens that
 * were made before and never one that is there, so that ranks rise from parts
 * to wholes; else in any order, and wholes may come before their parts. */
static void model_make(struct model *m, int letters, int merges, bool trained)
{
    json_t *vocab = json_object(), *list = json_array(), *all;
    struct bn_err err;

    memset(m, 0, sizeof(*m));
    for (; m->n < letters; m->n++)
        snprintf(m->text[m->n], sizeof(m->text[0]), "%c", 'a' + m->n);
    for (int i = 0; i < merges && m->n < TOKENS; i++) {
        int x = (int)draw((uint64_t)m->n), y = (int)draw((uint64_t)m->n);
        char made[128];
        int k = 0;

        snprintf(made, sizeof(made), "%s%s", m->text[x], m->text[y]);
        while (k < m->n && strcmp(m->text[k], made) != 0)
            k++;
        if (strlen(made) > 30 || (trained && k < m->n))
            continue;
        if (k == m->n)
            memcpy(m->text[m->n++], made, strlen(made) + 1);
        if (m->rank[x][y] == 0)
            json_array_append_new(list, json_pack("[ii]", x, y));
        m->rank[x][y] = 1;
        m->made[x][y] = k;
    }
    size_t nmerge = json_array_size(list);
    for (size_t i = nmerge; !trained && i > 1; i--) {
        size_t k = draw(i);
        json_t *p = json_incref(json_array_get(list, i - 1));

        json_array_set(list, i - 1, json_array_get(list, k));
        json_array_set_new(list, k, p);
    }
    for (size_t i = 0; i < nmerge; i++) {
        json_t *p = json_array_get(list, i);
        int x = (int)json_integer_value(json_array_get(p, 0));
        int y = (int)json_integer_value(json_array_get(p, 1));

        m->rank[x][y] = (int)i + 1;
        json_array_set_new(list, i, json_pack("[ss]", m->text[x], m->text[y]));
    }
    for (int i = 0; i < m->n; i++)
        json_object_set_new(vocab, m->text[i], json_integer(i));
    all = json_pack("{s:o, s:o}", "vocab", vocab, "merges", list);
    assert_int_equal(bn_bpe_init(&m->b, all, "test", &err), 0);
    json_decref(all);
}

/* The definition: the pair of least rank, the leftmost of equal ones, until
 * none is left. */
static size_t by_definition(const struct model *m, uint32_t *id, size_t n)
{
    for (;;) {
        size_t at = n;
        int best = 0;

        for (size_t i = 0; i + 1 < n; i++) {
            int r = m->rank[id[i]][id[i + 1]];

            if (r > 0 && (best == 0 || r < best)) {
                best = r;
                at = i;
            }
        }
        if (at == n)
            return n;
        id[at] = (uint32_t)m->made[id[at]][id[at + 1]];
        n--;
        memmove(id + at + 1, id + at + 2, (n - at - 1) * sizeof(*id));
    }
}

/* Runs, repeated pieces and plain random letters: what ties are made of. */
static void random_word(char *s, size_t n, uint64_t letters)
{
    for (size_t k = 0; k < n;) {
        size_t run = draw(6) == 0 ? 1 + draw(9) : 1;
        size_t back = draw(9) == 0 && k > 0 ? 1 + draw(k < 70 ? k : 70) : 0;
        char c = (char)('a' + draw(letters));

        for (run += back > 0 ? draw(90) : 0; run > 0 && k < n; run--, k++)
            s[k] = back > 0 ? s[k - back] : c;
    }
}

static void check_word(struct model *m, struct bn_bpe_work *w,
                       struct bn_bpe_work *h, const char *s, size_t n)
{
    h->n = n;
    bn_grow(&h->sym, &h->sym_cap, n, sizeof(uint32_t));
    for (size_t k = 0; k < n; k++)
        h->sym[k] = (uint32_t)(s[k] - 'a');
    if (n < 300) {
        uint32_t id[300];
        size_t want;

        memcpy(id, h->sym, n * sizeof(*id));
        want = by_definition(m, id, n);
        bn_bpe_merge_heap(&m->b, h);
        assert_int_equal(h->n, want);
        assert_memory_equal(h->sym, id, want * sizeof(*id));
    } else {
        bn_bpe_merge_heap(&m->b, h);
    }
    bn_bpe_word(&m->b, w, s, n, false);
    if (w->n != h->n || memcmp(w->sym, h->sym, w->n * sizeof(*w->sym)) != 0)
        fail_msg("ids differ for %.*s", (int)n, s);
}

static void check_models(bool trained)
{
    struct model *m = bn_malloc(sizeof(*m));
    char s[3000];

    for (int round = 0; round < 120; round++) {
        struct bn_bpe_work w = {0}, h = {0};
        int letters = 3 + round % 14;

        model_make(m, letters, 5 + 5 * (round % 80), trained);
        assert_true(!trained || m->b.seam != NULL);
        m->b.v3 &= round % 2 == 0; /* plain C too */
        for (int i = 0; i < 60; i++) {
            size_t n = 1 + draw(i < 40 ? 90 : sizeof(s));

            random_word(s, n, 1 + draw((uint64_t)letters));
            check_word(m, &w, &h, s, n);
        }
        bn_bpe_work_release(&w);
        bn_bpe_work_release(&h);
        bn_bpe_release(&m->b);
    }
    free(m);
}

static void test_trained(void **state)
{
    (void)state;
    check_models(true);
}

/* No trainer makes such models, but a file may have one. */
static void test_any_order(void **state)
{
    (void)state;
    check_models(false);
}

/* Merges whose ranks fall from left to right, so that what the last symbols
 * of a word are decides about its first ones: windows have to go back. */
static void test_chain(void **state)
{
    enum { CHAIN = 450 }; /* more symbols than the table of seams has */
    json_t *vocab = json_object(), *merges = json_array(), *model;
    struct bn_bpe_work w = {0}, h = {0};
    struct bn_bpe b;
    struct bn_err err;

    (void)state;
    for (int i = 0; i < CHAIN; i++) {
        char c[12] = "";
        int n = bn_utf8_put(c, 0x100 + (uint32_t)i);

        json_object_set_new(vocab, c, json_integer(i));
        bn_utf8_put(c + n, 0x101 + (uint32_t)i);
        if (i + 1 < CHAIN)
            json_object_set_new(vocab, c, json_integer(CHAIN + i));
    }
    for (int i = CHAIN - 2; i >= 0; i--) {
        char c[2][8] = {"", ""};

        bn_utf8_put(c[0], 0x100 + (uint32_t)i);
        bn_utf8_put(c[1], 0x101 + (uint32_t)i);
        json_array_append_new(merges, json_pack("[ss]", c[0], c[1]));
    }
    model = json_pack("{s:o, s:o}", "vocab", vocab, "merges", merges);
    assert_int_equal(bn_bpe_init(&b, model, "test", &err), 0);
    for (uint32_t from = 0; from < 300; from += from < 3 ? 1 : 99)
        for (uint32_t n = 60; n < 140; n++) {
            w.n = h.n = 2 * n;
            bn_grow(&w.sym, &w.sym_cap, w.n, sizeof(uint32_t));
            bn_grow(&h.sym, &h.sym_cap, h.n, sizeof(uint32_t));
            for (uint32_t i = 0; i < 2 * n; i++)
                w.sym[i] = h.sym[i] = from + i % n;
            bn_bpe_merge(&b, &w);
            bn_bpe_merge_heap(&b, &h);
            assert_int_equal(w.n, h.n);
            assert_memory_equal(w.sym, h.sym, w.n * sizeof(uint32_t));
        }
    bn_bpe_work_release(&w);
    bn_bpe_work_release(&h);
    bn_bpe_release(&b);
    json_decref(model);
}

/* What stands for a byte is also what merges make of other characters: that
 * is left to the heap. */
static void test_twofold(void **state)
{
    static const char *const parts[] = {"<", "0", "x", "4", "1", ">"};
    json_t *vocab = json_object(), *merges = json_array(), *model;
    struct bn_bpe_work w = {0};
    struct bn_bpe b;
    struct bn_err err;
    char made[16] = "<";

    (void)state;
    for (int i = 0; i < 6; i++)
        json_object_set_new(vocab, parts[i], json_integer(i));
    for (int i = 1; i < 6; i++) {
        json_array_append_new(merges, json_pack("[ss]", made, parts[i]));
        strcat(made, parts[i]);
        json_object_set_new(vocab, made, json_integer(5 + i));
    }
    json_object_set_new(vocab, "<0x41>0", json_integer(11));
    json_array_append_new(merges, json_pack("[ss]", made, "0"));
    model = json_pack("{s:b, s:o, s:o}", "byte_fallback", 1, "vocab", vocab,
                      "merges", merges);
    assert_int_equal(bn_bpe_init(&b, model, "test", &err), 0);
    assert_null(b.seam);
    bn_bpe_word(&b, &w, "A0<0x41>0A", 10, false);
    static const uint32_t want[] = {11, 11, 10};
    assert_int_equal(w.n, 3);
    assert_memory_equal(w.sym, want, sizeof(want));
    bn_bpe_work_release(&w);
    bn_bpe_release(&b);
    json_decref(model);
}

/* A word of one of several alphabets, as bytes of UTF-8, of characters that
 * are not unknown. */
static void alphabet_word(const struct bn_tokenizer *t, struct bn_str *s,
                          size_t n, int alphabet)
{
    static const char *const pools[] = {"ab", "etaoinshr", "=-_#*", "0123456789",
                                        "aAbBzZ09+/"};
    size_t period = draw(3) == 0 ? 1 + draw(20) : n;

    bn_str_clear(s);
    for (size_t i = 0; i < n; i++) {
        uint64_t seed = bn_rng_u64(12, n, i % period);
        char c[4];
        int len = 1;

        if (alphabet < 5) {
            const char *p = pools[alphabet];

            c[0] = p[seed % strlen(p)];
        } else if (alphabet == 5) {
            c[0] = (char)('a' + seed % 26);
        } else {
            static const uint32_t from[] = {0xac00, 0x4e00, 0xc0, 0x1f300};
            static const uint32_t count[] = {11172, 20000, 0x500, 600};
            int k = alphabet - 6;

            len = bn_utf8_put(c, from[k] + (uint32_t)(seed % count[k]));
        }
        if (t->bytes || t->bpe.fallback[0] >= 0
            || bn_bpe_id(&t->bpe, c, (size_t)len) >= 0)
            bn_str_add(s, c, (size_t)len);
    }
}

enum { ALPHABETS = 10 };

/* The symbols of a word, asked for one by one. */
static void plain_symbols(const struct bn_tokenizer *t, struct bn_bpe_work *h,
                          const struct bn_str *s)
{
    const struct bn_bpe *b = &t->bpe;

    h->n = 0;
    bn_grow(&h->sym, &h->sym_cap, s->len, sizeof(uint32_t));
    for (size_t i = 0, len; i < s->len; i += len) {
        len = 1;
        while (!t->bytes && i + len < s->len
               && ((unsigned char)s->s[i + len] & 0xc0) == 0x80)
            len++;
        int32_t id = t->bytes ? b->byte_sym[(unsigned char)s->s[i]]
                              : bn_bpe_id(b, s->s + i, len);
        if (id >= 0)
            h->sym[h->n++] = (uint32_t)id;
        else
            for (size_t k = 0; k < len; k++)
                h->sym[h->n++] =
                    (uint32_t)b->fallback[(unsigned char)s->s[i + k]];
    }
}

static void check_tokenizer(const char *path, const char *name)
{
    struct bn_err err;
    struct bn_tokenizer *t = bn_tokenizer_open(path, &err);
    struct bn_bpe_work w = {0}, h = {0};
    struct bn_str s = {0};

    if (t == NULL)
        fail_msg("%s", err.text);
    assert_non_null(t->bpe.seam);
    t->bpe.ignore_merges = false;
    for (int i = 0; i < 400; i++) {
        t->bpe.v3 = bn_has_v3() && i / ALPHABETS % 2 == 0;
        alphabet_word(t, &s, 1 + draw(i % 8 ? 200 : 3000), i % ALPHABETS);
        if (s.len == 0)
            continue;
        plain_symbols(t, &h, &s);
        bn_bpe_merge_heap(&t->bpe, &h);
        bn_bpe_word(&t->bpe, &w, s.s, s.len, t->bytes);
        if (w.n != h.n || memcmp(w.sym, h.sym, w.n * sizeof(*w.sym)) != 0)
            fail_msg("%s: ids differ for %s", name, s.s);
    }
    bn_bpe_work_release(&w);
    bn_bpe_work_release(&h);
    bn_str_release(&s);
    bn_tokenizer_close(t);
}

/* Vocabularies of real models. */
static void test_inputs(void **state)
{
    static const char *const names[] = {
        "gpt2/tokenizer.json", "qwen3/tokenizer.json", "phi-3/tokenizer.json",
        "torchtune/tokenizer.json", "torchtune/tiny_bpe_tokenizer.json",
        "minimind/tokenizer.json", "ko-bora/tokenizer.json"};
    const char *src = getenv("BN_SRCDIR"), *env = getenv("BN_SHARED");
    char *shared = env != NULL
                       ? bn_strdup(env)
                       : bn_asprintf("%s/../shared", src != NULL ? src : ".");

    (void)state;
    if (!bn_is_dir(shared)) {
        const char *all = getenv("BURNISH_TEST_REQUIRE");

        print_message("# SKIP: no folder %s\n", shared);
        assert_true(all == NULL || strstr(all, "SHARED") == NULL);
        free(shared);
        skip();
    }
    for (size_t i = 0; i < BN_COUNT(names); i++) {
        char *path = bn_asprintf("%s/inputs/tokenizers/%s", shared, names[i]);

        check_tokenizer(path, names[i]);
        free(path);
    }
    free(shared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trained),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_twofold),
        cmocka_unit_test(test_inputs),
    };

    bn_log_set_level(BN_LOG_ERROR);
    return BN_TAP_RUN(tests);
}
