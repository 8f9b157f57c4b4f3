/* Sampling against its definition, written out with no regard to cost, and
 * against exact probabilities by counting draws.
 */
#include "config.h"
#include "kernels/sample.h"
#include "kernels/test/check.h"

static const struct bn_sample cases[] = {
    {0, 0, 1, 0, 1},        {0, 0, 1, 0, 1.7},     {1, 0, 1, 0, 1},
    {0.7, 0, 1, 0, 1},      {1.9, 5, 1, 0, 1},     {1, 1, 1, 0, 1},
    {1, 0, 0.9, 0, 1},      {1, 0, 0.3, 0, 1},     {1, 0, 1e-9, 0, 1},
    {1, 0, 1, 0.1, 1},      {1, 0, 1, 1, 1},       {0.8, 40, 0.95, 0.05, 1.3},
    {1, 0, 1, 0, 1.5},      {1.2, 10, 0.8, 0, 0.7}, {1, 100000, 1, 0, 1},
    {0.01, 7, 0.99, 0, 1},  {50, 0, 0.999, 0.3, 1}, {1, 299, 1, 0, 1},
};
static const struct bn_sample plain = {1, 0, 1, 0, 1};

static int32_t one(const struct bn_sample *s, const float *logits, int n,
                   const int32_t *seen, int nseen, double u)
{
    const int32_t ptr[] = {0, nseen};
    struct bn_sample_rows r = {1, n, n, logits, &u, ptr, seen};
    struct buf work = buf_new(BN_F64, bn_sample_work_cpu(n, 1) / 8, 0);
    int32_t id = -9;

    bn_sample_cpu(s, &r, &id, work.p);
    buf_free(&work);
    return id;
}

/* coarse: in steps of a quarter, so that there are ties. */
static void fill(struct buf *x, bool coarse, float scale)
{
    float *l = x->p;

    for (size_t i = 0; i < x->n; i++) {
        l[i] = check_normal(scale);
        if (coarse)
            l[i] = rintf(4 * l[i]) / 4;
        if (check_below(50) == 0)
            l[i] = coarse ? -0.0f : -INFINITY;
    }
    if (!isfinite(l[0]))
        l[0] = 0;
}

static void everything_agrees(int isa)
{
    static const int vocab[] = {1, 2, 31, 300, 501};

    for (int i = 0; i < 15; i++) {
        int n = vocab[i % 5], rows = 1 + check_below(4);
        int ld = n + check_below(3);
        struct buf x = buf_new(BN_F32, (size_t)rows * ld, 1);
        double u[4];
        int32_t ptr[5] = {0}, seen[200], got[4], want[4];

        fill(&x, i % 2 == 1, 3);
        for (int r = 0; r < rows; r++) {
            ((float *)x.p)[(size_t)r * ld] = 1; /* something is finite */
            u[r] = check_bits() * 0x1p-32;
            ptr[r + 1] = ptr[r] + check_below(50);
        }
        for (int k = 0; k < ptr[rows]; k++)
            seen[k] = check_below(n < 20 ? n : 20);
        for (size_t k = 0; k < BN_COUNT(cases); k++) {
            struct bn_sample_rows r = {rows, n, ld, x.p, u, ptr, seen};
            struct buf work = buf_new(BN_F64, bn_sample_work_cpu(n, rows) / 8,
                                      0);

            bn_sample_cpu(&cases[k], &r, got, work.p);
            bn_sample_ref(&cases[k], &r, want);
            for (int j = 0; j < rows; j++)
                if (got[j] != want[j])
                    fail_msg("%s, case %zu, %d tokens, u %g: %d, not %d",
                             bn_cpu_isa_name((enum bn_cpu_isa)isa), k, n,
                             u[j], got[j], want[j]);
            buf_free(&work);
        }
        buf_free(&x);
    }
}

static void tokens_are_those_of_the_definition(void **state)
{
    (void)state;
    for (int isa = 0; isa < BN_CPU_NISA; isa++)
        if (bn_cpu_isa_set((enum bn_cpu_isa)isa) == 0)
            everything_agrees(isa);
    bn_cpu_isa_set(bn_cpu_isa_best());
}

/* Weights to the last units, on every instruction set the same. */
static void weights_are_exponentials(void **state)
{
    double unit = bn_sample_unit(1), worst = 0;

    (void)state;
    assert_true(unit == 0x1p61);
    assert_true(bn_sample_unit(131071) == 0x1p45);
    assert_true(bn_sample_unit(131072) == 0x1p44);
    for (int i = 0; i <= 460000; i++) {
        double x = -1e-4 * i, want = exp(x) * unit;
        double got = (double)bn_sample_weight(x, unit);
        double off = fabs(got - want) / (want + 1);

        /* half a unit is as far as rounding goes */
        if (x > -45 && fabs(got - want) > 0.5 + want * 4e-16)
            fail_msg("weight of %g: %.17g, not %.17g", x, got, want);
        worst = x > -20 && off > worst ? off : worst;
    }
    assert_true(worst > 0); /* it is not libm's exp */
    assert_true(bn_sample_weight(0, unit) == (uint64_t)1 << 61);
    assert_true(bn_sample_weight(-INFINITY, unit) == 0);
    assert_true(bn_sample_weight(-44.99, unit) == 0);
}

/* Chi-square of draws against exact probabilities; the bound is far out for
 * any of the degrees of freedom here, and the draws are always the same. */
static void draws_follow_the_probabilities(void **state)
{
    enum { N = 12, DRAWS = 200000 };
    float logits[N];
    double u;
    double sum = 0;
    int count[N] = {0};

    (void)state;
    for (int i = 0; i < N; i++) {
        logits[i] = check_normal(1);
        sum += exp((double)logits[i]);
    }
    for (int i = 0; i < DRAWS; i++) {
        u = check_bits() * 0x1p-32 + check_bits() * 0x1p-64;
        count[one(&plain, logits, N, NULL, 0, u)]++;
    }
    double chi = 0;
    for (int i = 0; i < N; i++) {
        double want = DRAWS * exp((double)logits[i]) / sum;

        chi += (count[i] - want) * (count[i] - want) / want;
    }
    if (!(chi <= N - 1 + 4 * sqrt(2.0 * (N - 1))))
        fail_msg("chi-square is %g", chi);
}

static void the_most_likely(void **state)
{
    const float logits[] = {-1, 4, 2, 4, -INFINITY};
    struct bn_sample s = plain;
    int32_t seen[] = {1, 3, 1, 1};

    (void)state;
    s.temperature = 0;
    assert_int_equal(one(&s, logits, 5, NULL, 0, 0.99), 1);
    s.repetition_penalty = 1.5;
    assert_int_equal(one(&s, logits, 5, seen, 1, 0), 3);
    assert_int_equal(one(&s, logits, 5, seen, 2, 0), 1);
    assert_int_equal(one(&s, logits, 5, seen, 4, 0), 1); /* once, not thrice */
    s.repetition_penalty = 2.5;
    assert_int_equal(one(&s, logits, 5, seen, 2, 0), 2);
    /* The ends of the unit interval, and a token that cannot come. */
    assert_int_equal(one(&plain, logits, 5, NULL, 0, 0), 0);
    assert_int_equal(one(&plain, logits, 5, NULL, 0, nextafter(1, 0)), 3);
}

static void bad_logits(void **state)
{
    const float nan[] = {1, NAN, 2}, inf[] = {1, INFINITY, 0};
    const float none[] = {-INFINITY, -INFINITY, -INFINITY};
    const float *const all[] = {nan, inf, none};

    (void)state;
    for (size_t i = 0; i < BN_COUNT(all); i++)
        for (size_t k = 0; k < BN_COUNT(cases); k++) {
            assert_int_equal(one(&cases[k], all[i], 3, NULL, 0, 0.5), -1);
            struct bn_sample_rows r = {
                1, 3, 3, all[i], &(double){0.5}, (const int32_t[]){0, 0},
                NULL};
            int32_t id;

            bn_sample_ref(&cases[k], &r, &id);
            assert_int_equal(id, -1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_the_definition),
        cmocka_unit_test(weights_are_exponentials),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(the_most_likely),
        cmocka_unit_test(bad_logits),
    };

    return BN_TAP_RUN(tests);
}
