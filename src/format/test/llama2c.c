#include "config.h"
#include "format/llama2c.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tap.h"

#include <stdlib.h>
#include <string.h>

/* dim 8, hidden 6, 2 layers, 4 heads, 2 KV heads, 5 tokens, 3 positions */
static const int32_t shape[7] = {8, 6, 2, 4, 2, 5, 3};

static void put_int(struct bn_str *s, int32_t v)
{
    bn_str_add(s, &v, 4);
}

/* n floats that say where they lie: start, start + 1, ... */
static void ramp(struct bn_str *s, int start, int n)
{
    for (int i = 0; i < n; i++) {
        float f = (float)(start + i);

        bn_str_add(s, &f, 4);
    }
}

/* As llama2.c's export.py writes them (legacy_export, version1_export). */
static void legacy(struct bn_str *s, bool shared)
{
    for (int i = 0; i < 7; i++)
        put_int(s, i == 5 && !shared ? -shape[i] : shape[i]);
    ramp(s, 1000, 5 * 8);
    ramp(s, 2000, 2 * 8);     /* attention norms */
    ramp(s, 3000, 2 * 8 * 8); /* wq */
    ramp(s, 4000, 2 * 4 * 8); /* wk */
    ramp(s, 5000, 2 * 4 * 8); /* wv */
    ramp(s, 6000, 2 * 8 * 8); /* wo */
    ramp(s, 7000, 2 * 8);     /* ffn norms */
    ramp(s, 8000, 2 * 6 * 8); /* w1 */
    ramp(s, 9000, 2 * 8 * 6); /* w2 */
    ramp(s, 10000, 2 * 6 * 8); /* w3 */
    ramp(s, 11000, 8);
    ramp(s, 0, 2 * 3 * 1); /* cosines and sines */
    if (!shared)
        ramp(s, 12000, 5 * 8);
}

static void version1(struct bn_str *s, bool shared)
{
    put_int(s, 0x616b3432);
    put_int(s, 1);
    for (int i = 0; i < 7; i++)
        put_int(s, shape[i]);
    bn_str_addc(s, shared);
    while (s->len < 256)
        bn_str_addc(s, 0);
    ramp(s, 2000, 2 * 8);
    ramp(s, 7000, 2 * 8);
    ramp(s, 11000, 8);
    ramp(s, 1000, 5 * 8);
    ramp(s, 3000, 2 * 8 * 8);
    ramp(s, 4000, 2 * 4 * 8);
    ramp(s, 5000, 2 * 4 * 8);
    ramp(s, 6000, 2 * 8 * 8);
    ramp(s, 8000, 2 * 6 * 8);
    ramp(s, 9000, 2 * 8 * 6);
    ramp(s, 10000, 2 * 6 * 8);
    if (!shared)
        ramp(s, 12000, 5 * 8);
}

static void is(const struct bn_tensors *ts, const char *name, int64_t rows,
               int64_t cols, float first)
{
    const struct bn_named *t = bn_tensors_find(ts, name);
    float f;

    if (t == NULL)
        fail_msg("no %s", name);
    assert_int_equal(t->dims[0], rows);
    assert_int_equal(t->ndim, cols > 0 ? 2 : 1);
    assert_int_equal(t->dims[1], cols);
    memcpy(&f, t->data, 4);
    assert_true(f == first);
}

static void both_versions_give_the_same_tensors(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        struct bn_str s = {0};
        struct bn_tensors ts;
        struct bn_err err = {0};
        bool shared = k % 2 == 0;

        (k < 2 ? legacy : version1)(&s, shared);
        if (bn_llama2c_parse(&ts, s.s, s.len, "x", &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(ts.n, 2 * 9 + 2 + !shared);
        is(&ts, "tok_embeddings.weight", 5, 8, 1000);
        is(&ts, "layers.1.attention_norm.weight", 8, 0, 2008);
        is(&ts, "layers.1.attention.wq.weight", 8, 8, 3064);
        is(&ts, "layers.1.attention.wk.weight", 4, 8, 4032);
        is(&ts, "layers.1.attention.wv.weight", 4, 8, 5032);
        is(&ts, "layers.1.attention.wo.weight", 8, 8, 6064);
        is(&ts, "layers.1.ffn_norm.weight", 8, 0, 7008);
        is(&ts, "layers.1.feed_forward.w1.weight", 6, 8, 8048);
        is(&ts, "layers.1.feed_forward.w2.weight", 8, 6, 9048);
        is(&ts, "layers.1.feed_forward.w3.weight", 6, 8, 10048);
        is(&ts, "norm.weight", 8, 0, 11000);
        if (!shared)
            is(&ts, "output.weight", 5, 8, 12000);
        assert_int_equal(json_integer_value(json_object_get(
                             ts.meta, "vocab_size")), 5);
        assert_int_equal(json_is_true(json_object_get(
                             ts.meta, "shared_classifier")), shared);
        bn_tensors_close(&ts);
        /* no length but the right one is read */
        for (size_t n = 0; n < s.len; n++) {
            char *cut = bn_malloc(n);

            memcpy(cut, s.s, n);
            assert_int_equal(bn_llama2c_parse(&ts, cut, n, "x", &err), -1);
            free(cut);
        }
        bn_str_addc(&s, 0);
        assert_int_equal(bn_llama2c_parse(&ts, s.s, s.len, "x", &err), -1);
        assert_non_null(strstr(err.text, "1 bytes after the last tensor"));
        bn_str_release(&s);
    }
}

static void foreign_files_are_refused(void **state)
{
    struct bn_str s = {0};
    struct bn_tensors ts;
    struct bn_err err = {0};

    (void)state;
    put_int(&s, 0x616b3432);
    put_int(&s, 2);
    assert_int_equal(bn_llama2c_parse(&ts, s.s, s.len, "x", &err), -1);
    assert_string_equal(err.text, "x: llama2.c version 2 is not supported "
                                  "(known: 0 and 1)");
    bn_str_clear(&s);
    for (int i = 0; i < 7; i++)
        put_int(&s, i == 2 ? 0 : 0x7fffffff);
    assert_int_equal(bn_llama2c_parse(&ts, s.s, s.len, "x", &err), -1);
    assert_string_equal(err.text, "x: no llama2.c file: dim is 2147483647");
    bn_str_clear(&s);
    for (int i = 0; i < 7; i++)
        put_int(&s, 1 << 24);
    assert_int_equal(bn_llama2c_parse(&ts, s.s, s.len, "x", &err), -1);
    assert_string_equal(err.text,
                        "x: no llama2.c file: 16777216 layers, dim 16777216, "
                        "16777216 and 16777216 heads");
    bn_str_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_versions_give_the_same_tensors),
        cmocka_unit_test(foreign_files_are_refused),
    };

    return BN_TAP_RUN(tests);
}
