#include "config.h"
#include "model/rope.h"
#include "base/mem.h"
#include "base/tap.h"

#include <math.h>
#include <stdlib.h>

/* t/data/rope.json: the functions of transformers, evaluated in double. */
static void frequencies_are_those_of_transformers(void **state)
{
    char *path = bn_asprintf("%s/t/data/rope.json", getenv("BN_SRCDIR"));
    json_t *root = bn_json_load(path, NULL);
    json_t *cases = json_object_get(root, "cases"), *o;
    size_t i;

    (void)state;
    assert_int_equal(json_array_size(cases), 14);
    json_array_foreach(cases, i, o)
    {
        struct bn_model_config c;
        struct bn_err err = {0};
        json_t *want = json_object_get(o, "inv_freq");
        double f[64], scale;

        if (bn_model_config_parse(&c, json_object_get(o, "config"), "case",
                                  NULL, &err) < 0)
            fail_msg("case %zu: %s", i, err.text);
        bn_rope_freqs(&c, (int)json_integer_value(
                              json_object_get(o, "seq_len")), f, &scale);
        double a = json_number_value(json_object_get(o, "attention_factor"));
        assert_true(fabs(scale - a) < 1e-14);
        assert_int_equal(json_array_size(want), c.head_dim / 2);
        for (int k = 0; k < c.head_dim / 2; k++) {
            double w = json_number_value(json_array_get(want, (size_t)k));

            if (!(fabs(f[k] - w) <= 4e-15 * w))
                fail_msg("case %zu, frequency %d: %.17g, not %.17g", i, k,
                         f[k], w);
        }
    }
    json_decref(root);
    free(path);
}

static void tables_hold_cosine_and_sine(void **state)
{
    struct bn_model_config c = {
        .head_dim = 4,
        .max_position = 8,
        .rope = {.type = BN_ROPE_YARN, .theta = 100, .factor = 1,
                 .attention_factor = 2, .original_max_position = 8,
                 .beta_fast = 32, .beta_slow = 1, .truncate = true},
    };
    float cs[6], sn[6];

    (void)state;
    bn_rope_init(&c, 3, cs, sn);
    for (int p = 0; p < 3; p++) {
        assert_true(cs[2 * p] == (float)(2 * cos(p)));
        assert_true(sn[2 * p] == (float)(2 * sin(p)));
        assert_true(fabs(cs[2 * p + 1] - 2 * cos(p * 0.1)) < 1e-7);
        assert_true(fabs(sn[2 * p + 1] - 2 * sin(p * 0.1)) < 1e-7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frequencies_are_those_of_transformers),
        cmocka_unit_test(tables_hold_cosine_and_sine),
    };

    return BN_TAP_RUN(tests);
}
