#include "config.h"
#include "loss/loss.h"

#include <math.h>

enum {
    LOSS,
    NLL,
    RATIO,
    ODDS,
    R_CHOSEN,
    R_REJECTED,
    R_ACC,
    R_MARGIN,
    P_CHOSEN,
    P_REJECTED,
    NKEYS
};

/* log(1 - e^x), x < 0: the branch at -ln 2 keeps full precision at both
 * ends (Maechler, "Accurately computing log(1 - exp(-|a|))", 2012). */
static double log1mexp(double x)
{
    return x > -M_LN2 ? log(-expm1(x)) : log1p(-exp(x));
}

struct bn_odds bn_odds_ratio(double xw, double xl)
{
    struct bn_odds o;
    double lw = log1mexp(xw), ll = log1mexp(xl);
    double z = (xw - xl) - (lw - ll);
    /* log(1 - sigmoid(z)) = -softplus(z), log sigmoid(z) = -softplus(-z) */
    double soft = z > 0 ? log1p(exp(-z)) : log1p(exp(z)) - z;
    double log_rest = -(soft + z);

    o.log_odds = z;
    o.ratio = -soft;
    /* d log_odds / d x = 1 / (1 - e^x). The factor 1 - sigmoid(z) may be far
     * below the smallest double while the product is not: multiply logs. */
    o.dxw = -exp(log_rest - lw);
    o.dxl = exp(log_rest - ll);
    return o;
}

static int mean(const struct bn_loss_params *p, const struct bn_seqs *s,
                size_t i, double *x, long *clamped, struct bn_err *err)
{
    *x = s->smooth[i] / s->ntok[i];
    if (!isfinite(*x) || s->ntok[i] <= 0)
        return bn_fail(err, BN_ERR_NUMERIC,
                       "mean log-probability of sequence %zu is %g over %d "
                       "tokens", i, *x, s->ntok[i]);
    if (p->x_max < 0 && *x > p->x_max) {
        *x = p->x_max;
        if (clamped != NULL)
            ++*clamped;
    }
    if (!(*x < 0))
        return bn_fail(err, BN_ERR_NUMERIC,
                       "mean log-probability of sequence %zu is %g, not < 0",
                       i, *x);
    return 0;
}

static void add_metrics(double *m, const struct bn_loss_params *p, double xw,
                        double xl, double nll, const struct bn_odds *o,
                        const struct bn_loss_denom *d)
{
    double pairs = d->examples;

    m[LOSS] += nll / d->tokens - p->beta * o->ratio / pairs;
    m[NLL] += nll / d->tokens;
    m[RATIO] += o->ratio / pairs;
    m[ODDS] += o->log_odds / pairs;
    m[R_CHOSEN] += p->beta * xw / pairs;
    m[R_REJECTED] += p->beta * xl / pairs;
    m[R_ACC] += (xw > xl) / pairs;
    m[R_MARGIN] += p->beta * (xw - xl) / pairs;
    m[P_CHOSEN] += xw / pairs;
    m[P_REJECTED] += xl / pairs;
}

static int eval(const struct bn_loss_params *p, const struct bn_seqs *s,
                const struct bn_loss_denom *d, double *dlogp, double *metrics,
                long *clamped, struct bn_err *err)
{
    for (size_t i = 0; i + 2 < s->n; i += 3) {
        double xw, xl;

        if (mean(p, s, i + 1, &xw, clamped, err) < 0
            || mean(p, s, i + 2, &xl, clamped, err) < 0)
            return -1;
        struct bn_odds o = bn_odds_ratio(xw, xl);
        /* The prompt's sum is 0 where the NLL spans the answer only. */
        double nll = -(s->smooth[i] + s->smooth[i + 1]);

        if (!isfinite(nll))
            return bn_fail(err, BN_ERR_NUMERIC,
                           "log-probability of sequence %zu is %g", i, nll);
        add_metrics(metrics, p, xw, xl, nll, &o, d);
        if (dlogp != NULL) {
            double w = p->beta / d->examples;

            dlogp[i] = -1 / d->tokens;
            dlogp[i + 1] = -1 / d->tokens + w * o.dxw / s->ntok[i + 1];
            dlogp[i + 2] = w * o.dxl / s->ntok[i + 2];
        }
    }
    return 0;
}

static void count(const struct bn_seqs *s, struct bn_loss_denom *d)
{
    for (size_t i = 0; i + 2 < s->n; i += 3) {
        d->tokens += s->ntok[i] + s->ntok[i + 1];
        d->examples += 1;
    }
}

const struct bn_loss bn_loss_orpo = {
    .name = "orpo",
    .group = 3,
    .nkeys = NKEYS,
    .keys = {[LOSS] = "loss",
             [NLL] = "nll_loss",
             [RATIO] = "log_odds_ratio",
             [ODDS] = "log_odds_chosen",
             [R_CHOSEN] = "rewards/chosen",
             [R_REJECTED] = "rewards/rejected",
             [R_ACC] = "rewards/accuracies",
             [R_MARGIN] = "rewards/margins",
             [P_CHOSEN] = "logps/chosen",
             [P_REJECTED] = "logps/rejected"},
    .eval = eval,
    .count = count,
};
