#include "config.h"
#include "kernels/sqnorm.h"

#include <math.h>

void bn_sqnorm_ref(double *out, const float *g, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)g[i] * g[i];
    *out += sum;
}

void bn_clip_scale_ref(float *scale, const double *sq, float max_norm)
{
    double s = max_norm > 0 ? max_norm / (sqrt(*sq) + 1e-6) : 1;

    *scale = !isfinite(*sq) ? NAN : s < 1 ? (float)s : 1;
}
