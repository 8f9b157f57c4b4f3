#include "config.h"
#include "base/tap.h"
#include "train/gen_eval.h"

#include <math.h>
#include <string.h>

static double get(const struct bn_metric *v, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(v[i].key, key) == 0)
            return v[i].value;
    return NAN;
}

#define NEAR(key, want)                                                       \
    do {                                                                      \
        double got_ = get(v, n, key), want_ = (want);                         \
        if (!(fabs(got_ - want_) < 1e-9))                                     \
            print_message("# %s: %.12g, not %.12g\n", key, got_, want_);      \
        assert_true(fabs(got_ - want_) < 1e-9);                               \
    } while (0)

/* Brown, Cai, DasGupta 2001 and R's prop.test(correct = FALSE):
 * 3 of 10 is (0.1077913, 0.6032219), 0 of 5 is (0, 0.4344825). */
static void wilson(void **state)
{
    double low, high;

    (void)state;
    bn_wilson(3, 10, &low, &high);
    assert_true(fabs(low - 0.1077913) < 1e-6);
    assert_true(fabs(high - 0.6032219) < 1e-6);
    bn_wilson(0, 5, &low, &high);
    assert_true(low == 0 && fabs(high - 0.4344825) < 1e-6);
    bn_wilson(5, 5, &low, &high);
    assert_true(high == 1 && fabs(low - (1 - 0.4344825)) < 1e-6);
}

/* Three answers: 1 2 1 2 1 2 | 3 4 | (nothing).
 * lengths 6, 2, 0: mean 8/3, variance 28/3.
 * 4-grams of the first: 1212 2121 1212: 2 of 3 kinds, repetition 1/3.
 * distinct-1: 4 kinds of 8. Without the first 2/2, the second 2/6, the third
 *   4/8; their mean is 11/18.
 * distinct-2: 12 21 12 21 12 | 34: 3 of 6; without: 1/1, 2/5, 3/6. */
static void by_hand(void **state)
{
    static const int32_t a[] = {1, 2, 1, 2, 1, 2}, b[] = {3, 4};
    struct bn_gen_eval *e = bn_gen_eval_create();
    struct bn_metric v[BN_GEN_EVAL_KEYS];
    const double z = 1.959964;

    (void)state;
    assert_int_equal(bn_gen_eval_metrics(e, v), 0);
    bn_gen_eval_add(e, a, 6, true, " yes\n", 5, "yes");
    bn_gen_eval_add(e, b, 2, false, "no", 2, "No");
    bn_gen_eval_add(e, NULL, 0, true, "", 0, "  ");
    size_t n = bn_gen_eval_metrics(e, v);
    assert_int_equal(n, BN_GEN_EVAL_KEYS);
    NEAR("gen_examples", 3);
    NEAR("gen_length", 8.0 / 3);
    NEAR("gen_length_low", 8.0 / 3 - z * sqrt(28.0 / 3 / 3));
    NEAR("gen_length_high", 8.0 / 3 + z * sqrt(28.0 / 3 / 3));
    NEAR("gen_eos_rate", 2.0 / 3);
    NEAR("gen_exact_match", 2.0 / 3);
    NEAR("gen_exact_match_low", get(v, n, "gen_eos_rate_low"));
    NEAR("gen_repetition_4", 1.0 / 3);
    NEAR("gen_repetition_4_low", 1.0 / 3); /* of one answer */
    NEAR("gen_distinct_1", 0.5);
    double sq = pow(1 - 11.0 / 18, 2) + pow(1.0 / 3 - 11.0 / 18, 2)
                + pow(0.5 - 11.0 / 18, 2);
    double half = z * sqrt(2.0 / 3 * sq);
    NEAR("gen_distinct_1_low", fmax(0, 0.5 - half));
    NEAR("gen_distinct_1_high", fmin(1, 0.5 + half));
    NEAR("gen_distinct_2", 0.5);
    bn_gen_eval_destroy(e);
}

/* Ten equal pairs and a jackknife that can be told: each answer is 7 7, so
 * distinct-1 is 1/20 and, without any one, 1/18: no spread. */
static void alike(void **state)
{
    static const int32_t a[] = {7, 7};
    struct bn_gen_eval *e = bn_gen_eval_create();
    struct bn_metric v[BN_GEN_EVAL_KEYS];

    (void)state;
    for (int i = 0; i < 10; i++)
        bn_gen_eval_add(e, a, 2, false, "", 0, NULL);
    size_t n = bn_gen_eval_metrics(e, v);
    NEAR("gen_distinct_1", 0.05);
    NEAR("gen_distinct_1_low", 0.05);
    NEAR("gen_distinct_2", 0.1);
    NEAR("gen_length_low", 2);
    NEAR("gen_eos_rate", 0);
    assert_true(isnan(get(v, n, "gen_exact_match")));
    assert_true(isnan(get(v, n, "gen_repetition_4")));
    bn_gen_eval_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wilson),
        cmocka_unit_test(by_hand),
        cmocka_unit_test(alike),
    };

    return BN_TAP_RUN(tests);
}
