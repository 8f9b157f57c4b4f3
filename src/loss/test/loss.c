/* ORPO against mpmath's digits, gradients against central differences. */
#include "config.h"
#include "loss/loss.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double get(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

/* Relative error; values below the normal range of doubles may differ by
 * rounding of the subnormal. */
static void near(double got, double want, double tol)
{
    double err = fabs(got - want);

    if (err > tol * fabs(want) && err > 1e-300)
        fail_msg("%.17g, expected %.17g", got, want);
}

static void odds_equal_the_table(void **state)
{
    const char *src = getenv("BN_SRCDIR");
    char *path = bn_asprintf("%s/t/data/orpo-loss-values.json",
                             src != NULL ? src : ".");
    struct bn_err err;
    json_t *doc = bn_json_load(path, &err), *rows, *row;
    size_t i;

    (void)state;
    if (doc == NULL)
        fail_msg("%s", err.text);
    rows = json_object_get(doc, "rows");
    assert_int_equal(json_array_size(rows), 128);
    json_array_foreach(rows, i, row)
    {
        double beta = get(row, "beta");
        struct bn_odds o = bn_odds_ratio(get(row, "x_w"), get(row, "x_l"));

        near(o.log_odds, get(row, "log_odds"), 1e-12);
        near(-beta * o.ratio, get(row, "loss"), 1e-12);
        near(beta * o.dxw, get(row, "dloss_dx_w"), 1e-12);
        near(beta * o.dxl, get(row, "dloss_dx_l"), 1e-12);
    }
    json_decref(doc);
    free(path);
}

enum { N = 6 };
static const double logp0[N] = {-20.5, -7.25, -3.5, -4, -0.75, -16};
static const int ntok[N] = {9, 5, 4, 3, 2, 11};
static const int hits[N] = {1, 5, 0, 2, 1, 7};

static double value(const struct bn_loss *l, const double *logp, double beta)
{
    struct bn_loss_params p = {.beta = beta};
    struct bn_loss_denom d = {.tokens = 37, .examples = 5};
    struct bn_seqs s = {N, logp, logp, ntok, hits};
    double m[BN_LOSS_MAX_KEYS] = {0};
    struct bn_err err;

    assert_int_equal(l->eval(&p, &s, &d, NULL, m, NULL, &err), 0);
    return m[0];
}

static void gradients_equal_differences(void **state)
{
    static const char *const names[] = {"sft", "orpo"};

    (void)state;
    for (size_t k = 0; k < BN_COUNT(names); k++) {
        const struct bn_loss *l = bn_loss_find(names[k]);
        struct bn_loss_params p = {.beta = 0.3};
        struct bn_loss_denom d = {.tokens = 37, .examples = 5};
        struct bn_seqs s = {N, logp0, logp0, ntok, hits};
        double m[BN_LOSS_MAX_KEYS] = {0}, g[N];
        struct bn_err err;

        assert_int_equal(l->eval(&p, &s, &d, g, m, NULL, &err), 0);
        for (int i = 0; i < N; i++) {
            double up[N], down[N], h = 1e-5;

            memcpy(up, logp0, sizeof(up));
            memcpy(down, logp0, sizeof(down));
            up[i] += h;
            down[i] -= h;
            double diff = (value(l, up, 0.3) - value(l, down, 0.3)) / (2 * h);
            if (fabs(diff - g[i]) > 1e-9)
                fail_msg("%s %d: %g, differences give %g", names[k], i, g[i],
                         diff);
        }
    }
}

static void shares_add_up(void **state)
{
    const struct bn_loss *l = &bn_loss_orpo;
    struct bn_loss_params p = {.beta = 0.1};
    struct bn_loss_denom d = {0};
    struct bn_seqs all = {N, logp0, logp0, ntok, hits};
    struct bn_seqs one = {3, logp0, logp0, ntok, hits};
    struct bn_seqs two = {3, logp0 + 3, logp0 + 3, ntok + 3,
                         hits + 3};
    double a[BN_LOSS_MAX_KEYS] = {0}, b[BN_LOSS_MAX_KEYS] = {0};
    struct bn_err err;

    (void)state;
    l->count(&one, &d);
    l->count(&two, &d);
    assert_true(d.tokens == 9 + 5 + 3 + 2 && d.examples == 2);
    assert_int_equal(l->eval(&p, &all, &d, NULL, a, NULL, &err), 0);
    assert_int_equal(l->eval(&p, &one, &d, NULL, b, NULL, &err), 0);
    assert_int_equal(l->eval(&p, &two, &d, NULL, b, NULL, &err), 0);
    for (int k = 0; k < l->nkeys; k++)
        near(b[k], a[k], 1e-14);
    near(a[0], a[1] - 0.1 * a[2], 1e-14);
}

static void certain_answers_are_bounded_or_refused(void **state)
{
    double logp[3] = {0, -1e-9, -5}, g[3], m[BN_LOSS_MAX_KEYS] = {0};
    int n[3] = {0, 1, 4};
    struct bn_seqs s = {3, logp, logp, n, n};
    struct bn_loss_denom d = {.tokens = 1, .examples = 1};
    struct bn_loss_params p = {.beta = 1, .x_max = -1e-6};
    long clamped = 0;
    struct bn_err err;

    (void)state;
    logp[2] = -1e-9;
    assert_int_equal(bn_loss_orpo.eval(&p, &s, &d, g, m, &clamped, &err), 0);
    assert_int_equal(clamped, 2);
    assert_true(fabs(g[2]) < 1e6 && isfinite(m[0]));
    p.x_max = 0;
    logp[1] = 0;
    assert_int_equal(bn_loss_orpo.eval(&p, &s, &d, g, m, &clamped, &err), -1);
    assert_int_equal(err.code, BN_ERR_NUMERIC);
    logp[1] = NAN;
    p.x_max = -1e-6;
    assert_int_equal(bn_loss_orpo.eval(&p, &s, &d, g, m, &clamped, &err), -1);
    assert_null(bn_loss_find("dpo"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odds_equal_the_table),
        cmocka_unit_test(gradients_equal_differences),
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(certain_answers_are_bounded_or_refused),
    };

    return BN_TAP_RUN(tests);
}
