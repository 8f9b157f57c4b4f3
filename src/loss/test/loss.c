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
static const double hits[N] = {1, 5, 0, 2, 1, 7};

/* The n sequences from 'at' on, added to acc. */
static void add(const struct bn_loss *l, const struct bn_loss_params *p,
                const double *logp, int at, int n,
                const struct bn_loss_denom *d, double *g,
                struct bn_loss_acc *acc)
{
    struct bn_loss_seqs s = {n, logp + at, logp + at, hits + at, ntok + at};

    bn_loss_ref(l->kind, p, &s, d, g, acc, 0, at);
}

static double value(const struct bn_loss *l, const double *logp, double beta)
{
    struct bn_loss_params p = {.beta = beta};
    struct bn_loss_denom d = {.tokens = 37, .examples = 5};
    struct bn_loss_acc acc = {0};

    add(l, &p, logp, 0, N, &d, NULL, &acc);
    assert_int_equal(acc.fault, BN_LOSS_FINE);
    return acc.metrics[0];
}

static void gradients_equal_differences(void **state)
{
    static const char *const names[] = {"sft", "orpo"};

    (void)state;
    for (size_t k = 0; k < BN_COUNT(names); k++) {
        const struct bn_loss *l = bn_loss_find(names[k]);
        struct bn_loss_params p = {.beta = 0.3};
        struct bn_loss_denom d = {.tokens = 37, .examples = 5};
        double g[N];

        add(l, &p, logp0, 0, N, &d, g, NULL);
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
    struct bn_loss_acc whole = {0}, parts = {0};
    const double *a = whole.metrics, *b = parts.metrics;

    (void)state;
    l->count(ntok, 3, &d);
    l->count(ntok + 3, 3, &d);
    assert_true(d.tokens == 9 + 5 + 3 + 2 && d.examples == 2);
    add(l, &p, logp0, 0, N, &d, NULL, &whole);
    add(l, &p, logp0, 0, 3, &d, NULL, &parts);
    add(l, &p, logp0, 3, 3, &d, NULL, &parts);
    for (int k = 0; k < l->nkeys; k++)
        near(b[k], a[k], 1e-14);
    near(a[0], a[1] - 0.1 * a[2], 1e-14);
}

static void certain_answers_are_bounded_or_refused(void **state)
{
    static const int32_t n[3] = {0, 1, 4};
    double logp[3] = {0, -1e-9, -1e-9}, none[3] = {0}, g[3];
    struct bn_loss_seqs s = {3, logp, logp, none, n};
    struct bn_loss_denom d = {.tokens = 1, .examples = 1};
    struct bn_loss_params p = {.beta = 1, .x_max = -1e-6};
    struct bn_loss_acc acc = {0};

    (void)state;
    bn_loss_ref(BN_LOSS_ORPO, &p, &s, &d, g, &acc, 0, 0);
    assert_int_equal(acc.fault, BN_LOSS_FINE);
    assert_true(acc.clamped == 2 && acc.taint == 0);
    assert_true(fabs(g[2]) < 1e6 && isfinite(acc.metrics[0]));
    p.x_max = 0;
    logp[1] = 0;
    bn_loss_ref(BN_LOSS_ORPO, &p, &s, &d, g, &acc, 4, 6);
    assert_int_equal(acc.fault, BN_LOSS_CERTAIN);
    assert_true(acc.batch == 4 && acc.seq == 7 && acc.ntok == 1);
    assert_true(acc.value == 0 && isnan(acc.taint) && isnan(g[0]));
    assert_null(bn_loss_find("dpo"));
}

/* The first fault is kept; shares of other examples are added all the same. */
static void the_first_fault_is_kept(void **state)
{
    static const int32_t n[6] = {3, 0, 2, 3, 5, 2};
    double logp[6] = {-3, -4, -5, -3, NAN, -5}, g[6];
    struct bn_loss_seqs s = {6, logp, logp, hits, n};
    struct bn_loss_denom d = {.tokens = 1, .examples = 1};
    struct bn_loss_params p = {.beta = 1, .x_max = -1e-6};
    struct bn_loss_acc acc = {0};

    (void)state;
    bn_loss_ref(BN_LOSS_NONE, NULL, &s, NULL, NULL, &acc, 1, 0);
    assert_true(acc.fault == BN_LOSS_SUM && acc.seq == 4 && acc.ntok == 5);
    assert_true(isnan(acc.value) && acc.metrics[0] == 0);
    acc = (struct bn_loss_acc){0};
    bn_loss_ref(BN_LOSS_ORPO, &p, &s, &d, g, &acc, 2, 0);
    assert_true(acc.fault == BN_LOSS_MEAN && acc.batch == 2 && acc.seq == 1);
    logp[0] = logp[1] = -INFINITY;
    bn_loss_ref(BN_LOSS_SFT, &p, &s, &d, g, &acc, 3, 0);
    assert_true(acc.fault == BN_LOSS_MEAN && acc.batch == 2);
    assert_true(acc.metrics[0] == 5 + 3 + 5 && isnan(g[0]) && g[2] == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odds_equal_the_table),
        cmocka_unit_test(gradients_equal_differences),
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(certain_answers_are_bounded_or_refused),
        cmocka_unit_test(the_first_fault_is_kept),
    };

    return BN_TAP_RUN(tests);
}
