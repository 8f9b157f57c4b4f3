/* Whether a matrix looks like it was drawn, not trained. */
#include "config.h"
#include "convert/verify.h"
#include "tensor/convert.h"

#include <math.h>

enum { BLOCK = 4096, LEAST = 65536 };

struct moments {
    double n, mean, var, kurtosis;
};

static struct moments moments(const struct bn_named *t)
{
    float x[BLOCK];
    double s1 = 0, s2 = 0, s3 = 0, s4 = 0, n = (double)t->count;

    for (int64_t at = 0; at < t->count; at += BLOCK) {
        size_t k = (size_t)(t->count - at < BLOCK ? t->count - at : BLOCK);

        bn_convert(x, BN_F32, (const char *)t->data
                       + (size_t)at * bn_dtype_size(t->dtype), t->dtype, k);
        for (size_t i = 0; i < k; i++) {
            double v = (double)x[i], q = v * v;

            s1 += v;
            s2 += q;
            s3 += q * v;
            s4 += q * q;
        }
    }
    double m = s1 / n, var = s2 / n - m * m;
    double fourth = s4 / n - 4 * m * s3 / n + 6 * m * m * s2 / n
                    - 3 * m * m * m * m;
    return (struct moments){n, m, var, var > 0 ? fourth / (var * var) : 0};
}

/* Standard deviation and kurtosis within four standard errors of those of
 * such a sample: sd / sqrt(2 n) for a normal, less for a uniform; sqrt(24 / n)
 * for the kurtosis of a normal. */
static bool drawn(const struct moments *m, double sd, double kurtosis)
{
    double got = sqrt(m->var);

    return fabs(m->mean) < 4 * sd / sqrt(m->n)
           && fabs(got - sd) < 4 * sd / sqrt(2 * m->n)
           && fabs(m->kurtosis - kurtosis) < 4 * sqrt(24 / m->n);
}

const char *bn_init_like(const struct bn_named *t, double init_std)
{
    if (t->ndim != 2 || t->count < LEAST)
        return NULL;
    struct moments m = moments(t);
    if (drawn(&m, init_std, 3))
        return "normal with the config's initializer_range";
    if (drawn(&m, 1 / sqrt(3 * (double)t->dims[1]), 1.8))
        return "uniform within 1 / sqrt(columns)";
    return NULL;
}
