#include "config.h"
#include "kernels/adamw.h"
#include "kernels/ref/ref.h"

void bn_adamw_ref(enum bn_dtype t, const struct bn_adamw *a, void *w,
                  float *master, float *m, float *v, const float *grad,
                  const struct bn_adamw_now *now, size_t n)
{
    if (isnan(now->scale))
        return;
    for (size_t i = 0; i < n; i++) {
        double g = (double)grad[i] * now->scale;
        double p = master[i] * (1 - (double)now->lr * a->weight_decay);
        double m1 = (double)a->beta1 * m[i] + (1 - (double)a->beta1) * g;
        double v1 = (double)a->beta2 * v[i] + (1 - (double)a->beta2) * g * g;

        p -= now->lr / (double)now->bias1 * m1
             / (sqrt(v1) / sqrt((double)now->bias2) + a->eps);
        m[i] = (float)m1;
        v[i] = (float)v1;
        master[i] = (float)p;
        if (w != NULL && w != master)
            bn_put(t, w, i, master[i]);
    }
}
