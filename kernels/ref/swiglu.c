#include "config.h"
#include "kernels/swiglu.h"
#include "kernels/ref/ref.h"

void bn_swiglu_ref(enum bn_dtype t, void *y, const void *gu, int f, int n)
{
    for (int i = 0; i < n; i++) {
        for (int c = 0; c < f; c++) {
            double g = ref_get(t, gu, (size_t)i * 2 * f + c);
            double u = ref_get(t, gu, (size_t)i * 2 * f + f + c);

            ref_put(t, y, (size_t)i * f + c, g / (1 + exp(-g)) * u);
        }
    }
}

void bn_swiglu_grad_ref(enum bn_dtype t, void *dgu, void *y, const void *dy,
                        const void *gu, int f, int n)
{
    for (int i = 0; i < n; i++) {
        for (int c = 0; c < f; c++) {
            size_t gi = (size_t)i * 2 * f + c, ui = gi + f;
            size_t yi = (size_t)i * f + c;
            double g = ref_get(t, gu, gi), u = ref_get(t, gu, ui);
            double d = ref_get(t, dy, yi), s = 1 / (1 + exp(-g));

            ref_put(t, dgu, gi, d * u * s * (1 + g * (1 - s)));
            ref_put(t, dgu, ui, d * g * s);
            if (y != NULL)
                ref_put(t, y, yi, g * s * u);
        }
    }
}
