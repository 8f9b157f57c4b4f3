#include "config.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/tap.h"
#include "tensor/convert.h"

#include <stdlib.h>
#include <string.h>

static char *data(const char *name)
{
    return bn_asprintf("%s/t/data/%s", getenv("BN_SRCDIR"), name);
}

/* t/data/quants.gguf has random blocks of every type, written by the gguf
 * package; quants.safetensors what that package makes of them. */
static void quantised_blocks_become_the_values_of_ggml(void **state)
{
    struct bn_tensors ts, want;
    struct bn_err err = {0};
    char *a = data("quants.gguf"), *b = data("quants.safetensors");

    (void)state;
    if (bn_gguf_open(&ts, a, &err) < 0
        || bn_safetensors_open(&want, b, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(ts.n, 10);
    assert_int_equal(want.n, 10);
    for (size_t i = 0; i < ts.n; i++) {
        const struct bn_named *t = &ts.item[i], *w = &want.item[i];

        assert_string_equal(t->name, w->name);
        assert_int_equal(t->dtype, w->dtype);
        assert_int_equal(t->ndim, w->ndim);
        assert_memory_equal(t->dims, w->dims, sizeof(t->dims));
        if (t->name[0] == 'Q')
            assert_string_equal(t->quant, t->name);
        else
            assert_null(t->quant);
        for (int64_t k = 0; k < t->count; k++) {
            float x, y;

            bn_convert(&x, BN_F32, (const char *)t->data
                           + (size_t)k * bn_dtype_size(t->dtype),
                       t->dtype, 1);
            bn_convert(&y, BN_F32, (const char *)w->data
                           + (size_t)k * bn_dtype_size(w->dtype),
                       w->dtype, 1);
            if (x != y)
                fail_msg("%s[%lld] is %g, not %g", t->name, (long long)k, x,
                         y);
        }
    }
    bn_tensors_close(&want);
    json_t *m = ts.meta;
    assert_int_equal(json_integer_value(json_object_get(
                         m, "llama.block_count")), 2);
    assert_true(json_real_value(json_object_get(m, "llama.eps")) == 1e-5f);
    assert_true(json_is_true(json_object_get(m, "flag")));
    assert_true(json_integer_value(json_object_get(m, "big"))
                == -((json_int_t)1 << 60));
    assert_string_equal(json_string_value(json_object_get(m, "s")), "x y");
    json_t *tok = json_object_get(m, "tokens");
    assert_string_equal(json_string_value(json_array_get(tok, 1)),
                        "b\xc3\xa9");
    assert_int_equal(json_integer_value(json_array_get(
                         json_object_get(m, "types"), 2)), -3);
    bn_tensors_close(&ts);
    free(a);
    free(b);
}

/* Builds a file field by field. */
static void put(struct bn_str *s, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        bn_str_addc(s, (char)(v >> 8 * i));
}

static void text(struct bn_str *s, const char *t)
{
    put(s, strlen(t), 8);
    bn_str_adds(s, t);
}

static void head(struct bn_str *s, uint64_t tensors, uint64_t pairs)
{
    bn_str_clear(s);
    bn_str_adds(s, "GGUF");
    put(s, 3, 4);
    put(s, tensors, 8);
    put(s, pairs, 8);
}

static void tensor(struct bn_str *s, const char *name, uint64_t ext,
                   uint64_t type, uint64_t offset)
{
    text(s, name);
    put(s, 1, 4);
    put(s, ext, 8);
    put(s, type, 4);
    put(s, offset, 8);
}

static void pad(struct bn_str *s, size_t more)
{
    while (s->len % 32 != 0)
        bn_str_addc(s, 0);
    for (size_t i = 0; i < more; i++)
        bn_str_addc(s, 0);
}

static void says(struct bn_str *s, const char *want)
{
    struct bn_tensors ts = {0};
    struct bn_err err = {0};
    char *exact = bn_malloc(s->len); /* so that a tool sees overruns */

    memcpy(exact, s->s, s->len);
    int rc = bn_gguf_parse(&ts, exact, s->len, "x", &err);
    assert_string_equal(rc < 0 ? err.text : "read", want);
    bn_tensors_close(&ts);
    free(exact);
}

static void hostile_files_get_one_line(void **state)
{
    struct bn_str s = {0};

    (void)state;
    bn_str_adds(&s, "GGML0000111122223333444455556666");
    says(&s, "x: no GGUF file");
    head(&s, 0, 0);
    s.s[4] = 1;
    says(&s, "x: GGUF version 1 is not supported (known: 2 and 3, "
             "little-endian)");
    head(&s, UINT64_MAX, 0);
    says(&s, "x: too short for its 18446744073709551615 tensors");
    head(&s, 0, UINT64_MAX);
    says(&s, "x: ends at byte 24 in the middle of a field: it is cut short");
    head(&s, 0, 1);
    put(&s, UINT64_MAX, 8); /* length of the key */
    says(&s, "x: ends at byte 32 in the middle of a field: it is cut short");
    head(&s, 0, 1);
    text(&s, "a");
    put(&s, 13, 4);
    says(&s, "x: value of unknown type 13");
    head(&s, 0, 1);
    text(&s, "a");
    put(&s, 9, 4);
    put(&s, 0, 4);
    put(&s, UINT64_MAX, 8); /* elements */
    says(&s, "x: ends at byte 49 in the middle of a field: it is cut short");
    head(&s, 0, 1);
    text(&s, "a");
    for (int i = 0; i < 7; i++) { /* arrays in arrays */
        put(&s, 9, 4);
        if (i > 0)
            put(&s, 1, 8);
    }
    says(&s, "x: value of unknown type 9");
    head(&s, 0, 2);
    for (int i = 0; i < 2; i++) {
        text(&s, "a");
        put(&s, 7, 4);
        put(&s, 1, 1);
    }
    says(&s, "x: key 'a' is twice there");
    head(&s, 1, 1);
    text(&s, "general.alignment");
    put(&s, 4, 4);
    put(&s, 0, 4);
    tensor(&s, "t", 4, 0, 0);
    says(&s, "x: general.alignment must be a size");
    bn_str_release(&s);
}

static void hostile_tensors_get_one_line(void **state)
{
    struct bn_str s = {0};

    (void)state;
    head(&s, 1, 0);
    tensor(&s, "t", 4, 0, 0);
    pad(&s, 16);
    says(&s, "read");
    s.len--;
    says(&s, "x: tensor 't' ends after the file: it is cut short");
    head(&s, 1, 0);
    tensor(&s, "t", 4, 0, 33);
    says(&s, "x: tensor 't' is not aligned to 32 bytes");
    head(&s, 1, 0);
    tensor(&s, "t", 4, 0, UINT64_MAX - 31);
    pad(&s, 64);
    says(&s, "x: tensor 't' ends after the file: it is cut short");
    head(&s, 1, 0);
    tensor(&s, "t", UINT64_MAX, 0, 0);
    says(&s, "x: tensor 't' is too big");
    head(&s, 1, 0);
    tensor(&s, "t", (uint64_t)1 << 61, 0, 0);
    says(&s, "x: tensor 't' is too big");
    head(&s, 1, 0);
    tensor(&s, "t", 256, 10, 0);
    says(&s, "x: tensor 't' has type 10 (Q2_K), which is not supported");
    head(&s, 1, 0);
    tensor(&s, "t", 256, 99, 0);
    says(&s, "x: tensor 't' has type 99 (unknown), which is not supported");
    head(&s, 1, 0);
    tensor(&s, "t", 33, 2, 0);
    says(&s, "x: rows of tensor 't' are no whole blocks of Q4_0");
    head(&s, 1, 0);
    text(&s, "t");
    put(&s, 9, 4);
    pad(&s, 64);
    says(&s, "x: tensor 't' has 9 dimensions");
    head(&s, 2, 0);
    tensor(&s, "t", 16, 0, 0);
    tensor(&s, "u", 16, 0, 32);
    pad(&s, 96);
    says(&s, "x: tensors 't' and 'u' overlap");
    head(&s, 2, 0);
    tensor(&s, "t", 8, 0, 0);
    tensor(&s, "t", 8, 0, 32);
    pad(&s, 64);
    says(&s, "tensor 't' is twice there, in 'x' and 'x'");
    bn_str_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantised_blocks_become_the_values_of_ggml),
        cmocka_unit_test(hostile_files_get_one_line),
        cmocka_unit_test(hostile_tensors_get_one_line),
    };

    return BN_TAP_RUN(tests);
}
