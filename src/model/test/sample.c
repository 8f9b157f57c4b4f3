/* Sampling against its definition, written out with no regard to cost, and
 * against exact probabilities by counting draws.
 */
#include "config.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/tap.h"
#include "model/sample.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static const struct bn_sample plain = {.temperature = 1, .top_p = 1,
                                       .repetition_penalty = 1};

/* Is a before b in order of probability? */
static bool more(const double *l, int a, int b)
{
    return l[a] > l[b] || (l[a] == l[b] && a < b);
}

/* p[i] *= keep[i], then divide by the sum. */
static void keep_only(double *p, const bool *keep, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += p[i] *= keep[i];
    for (int i = 0; i < n; i++)
        p[i] /= sum;
}

/* The definition: probabilities after every filter, in the order of them. */
static void define(const struct bn_sample *s, const float *logits, int n,
                   const int32_t *seen, int nseen, double *p)
{
    double *l = BN_NEWN(double, (size_t)n);
    bool *keep = BN_NEWN(bool, (size_t)n), *hit = BN_NEWN(bool, (size_t)n);

    for (int i = 0; i < nseen; i++)
        hit[seen[i]] = true;
    for (int i = 0; i < n; i++) {
        double x = (double)logits[i];

        if (hit[i])
            x = x < 0 ? x * s->repetition_penalty : x / s->repetition_penalty;
        l[i] = x / s->temperature;
        p[i] = exp(l[i]);
        keep[i] = true;
    }
    keep_only(p, keep, n);
    for (int i = 0; i < n && s->top_k > 0; i++) {
        int rank = 0;

        for (int j = 0; j < n; j++)
            rank += more(l, j, i);
        keep[i] = rank < s->top_k;
    }
    keep_only(p, keep, n);
    for (int i = 0; i < n && s->top_p < 1; i++) {
        double ahead = 0;

        for (int j = 0; j < n; j++)
            ahead += more(l, j, i) ? p[j] : 0;
        keep[i] = p[i] > 0 && ahead < s->top_p - 1e-12;
    }
    keep_only(p, keep, n);
    double most = 0;
    for (int i = 0; i < n; i++)
        most = fmax(most, p[i]);
    for (int i = 0; i < n; i++)
        keep[i] = p[i] >= s->min_p * most;
    keep_only(p, keep, n);
    free(l);
    free(keep);
    free(hit);
}

static const struct bn_sample cases[] = {
    {1, 0, 1, 0, 1},        {0.7, 0, 1, 0, 1},     {1.9, 5, 1, 0, 1},
    {1, 1, 1, 0, 1},        {1, 0, 0.9, 0, 1},     {1, 0, 0.3, 0, 1},
    {1, 0, 1e-9, 0, 1},     {1, 0, 1, 0.1, 1},     {1, 0, 1, 1, 1},
    {0.8, 40, 0.95, 0.05, 1.3}, {1, 0, 1, 0, 1.5}, {1.2, 10, 0.8, 0, 0.7},
    {1, 100000, 1, 0, 1},
};

static void fill(float *logits, int n, int seed)
{
    for (int i = 0; i < n; i++)
        logits[i] = (float)(3 * bn_rng_normal((uint64_t)seed, 1, (uint64_t)i));
    logits[n / 2] = logits[n / 3]; /* a tie */
}

static void choices_are_those_of_the_definition(void **state)
{
    enum { N = 300 };
    float logits[N];
    double want[N], got[N];
    int32_t seen[] = {3, 3, 150, 100, 7, 3};
    struct bn_sampler z;

    (void)state;
    bn_sampler_init(&z, N);
    for (int seed = 0; seed < 20; seed++) {
        for (size_t k = 0; k < BN_COUNT(cases); k++) {
            double sum = 0;

            fill(logits, N, seed);
            define(&cases[k], logits, N, seen, BN_COUNT(seen), want);
            int n = bn_sample_choices(&z, &cases[k], logits, seen,
                                      BN_COUNT(seen), NULL);
            for (int i = 0; i < N; i++)
                got[i] = 0;
            for (int i = 0; i < n; i++)
                sum += z.choice[i].weight;
            for (int i = 0; i < n; i++)
                got[z.choice[i].id] += z.choice[i].weight / sum;
            for (int i = 0; i < N; i++)
                if (!(fabs(got[i] - want[i]) <= 1e-12))
                    fail_msg("case %zu, seed %d: p[%d] is %.15g, not %.15g",
                             k, seed, i, got[i], want[i]);
        }
    }
    bn_sampler_release(&z);
}

/* Chi-square of draws against exact probabilities; the bound is far out for
 * any of the degrees of freedom here, and the draws are always the same. */
static void draws_follow_the_probabilities(void **state)
{
    enum { N = 12, DRAWS = 200000 };
    float logits[N];
    double p[N];
    int32_t seen[] = {2, 5};
    struct bn_sampler z;

    (void)state;
    bn_sampler_init(&z, N);
    for (size_t k = 0; k < BN_COUNT(cases); k++) {
        int count[N] = {0}, degrees = -1;
        double chi = 0;

        fill(logits, N, 77);
        for (int i = 0; i < N; i++)
            logits[i] /= 3;
        define(&cases[k], logits, N, seen, 2, p);
        for (int i = 0; i < DRAWS; i++) {
            double u = bn_rng_uniform(9, k, (uint64_t)i);

            count[bn_sample_pick(&z, &cases[k], logits, seen, 2, u, NULL)]++;
        }
        for (int i = 0; i < N; i++) {
            double d = count[i] - DRAWS * p[i];

            if (p[i] == 0)
                assert_int_equal(count[i], 0);
            else
                chi += d * d / (DRAWS * p[i]);
            degrees += p[i] > 0;
        }
        if (!(chi <= degrees + 4 * sqrt(2.0 * degrees) + 1e-6))
            fail_msg("case %zu: chi-square %g with %d degrees of freedom", k,
                     chi, degrees);
    }
    bn_sampler_release(&z);
}

static void the_most_likely(void **state)
{
    const float logits[] = {-1, 4, 2, 4, -INFINITY};
    struct bn_sample s = plain;
    struct bn_sampler z;
    int32_t seen[] = {1, 3};

    (void)state;
    bn_sampler_init(&z, 5);
    s.temperature = 0;
    assert_int_equal(bn_sample_pick(&z, &s, logits, NULL, 0, 0.99, NULL), 1);
    s.repetition_penalty = 1.5;
    assert_int_equal(bn_sample_pick(&z, &s, logits, seen, 1, 0, NULL), 3);
    assert_int_equal(bn_sample_pick(&z, &s, logits, seen, 2, 0, NULL), 1);
    s.repetition_penalty = 2.5;
    assert_int_equal(bn_sample_pick(&z, &s, logits, seen, 2, 0, NULL), 2);
    /* The ends of the unit interval, and a token that cannot come. */
    assert_int_equal(bn_sample_pick(&z, &plain, logits, NULL, 0, 0, NULL), 0);
    assert_int_equal(bn_sample_pick(&z, &plain, logits, NULL, 0,
                                    nextafter(1, 0), NULL), 3);
    bn_sampler_release(&z);
}

static void bad_logits(void **state)
{
    const float nan[] = {1, NAN, 2}, inf[] = {1, INFINITY, 0};
    const float none[] = {-INFINITY, -INFINITY, -INFINITY};
    const float *const all[] = {nan, inf, none};
    struct bn_sampler z;
    struct bn_err err;

    (void)state;
    bn_sampler_init(&z, 3);
    for (size_t i = 0; i < BN_COUNT(all); i++) {
        err.code = 0;
        assert_int_equal(bn_sample_pick(&z, &plain, all[i], NULL, 0, 0.5,
                                        &err), -1);
        assert_int_equal(err.code, BN_ERR_NUMERIC);
    }
    bn_sampler_release(&z);
}

static void bad_values(void **state)
{
    static const struct bn_sample bad[] = {
        {-1, 0, 1, 0, 1},  {NAN, 0, 1, 0, 1}, {1, -1, 1, 0, 1},
        {1, 0, 0, 0, 1},   {1, 0, 1.1, 0, 1}, {1, 0, 1, -0.1, 1},
        {1, 0, 1, 1.5, 1}, {1, 0, 1, 0, 0},   {1, 0, 1, 0, INFINITY},
    };
    struct bn_err err;

    (void)state;
    for (size_t i = 0; i < BN_COUNT(cases); i++)
        assert_int_equal(bn_sample_check(&cases[i], NULL), 0);
    for (size_t i = 0; i < BN_COUNT(bad); i++) {
        assert_int_equal(bn_sample_check(&bad[i], &err), -1);
        assert_int_equal(err.code, BN_ERR_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_those_of_the_definition),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(the_most_likely),
        cmocka_unit_test(bad_logits),
        cmocka_unit_test(bad_values),
    };

    return BN_TAP_RUN(tests);
}
