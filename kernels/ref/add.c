#include "config.h"
#include "kernels/add.h"
#include "kernels/ref/ref.h"

void bn_add_ref(enum bn_dtype t, void *y, const void *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ref_put(t, y, i, ref_get(t, y, i) + ref_get(t, x, i));
}

void bn_bias_grad_ref(enum bn_dtype t, float *db, const void *dy, int lddy,
                      int cols, int n)
{
    for (int c = 0; c < cols; c++) {
        double sum = 0;

        for (int i = 0; i < n; i++)
            sum += ref_get(t, dy, (size_t)i * lddy + c);
        db[c] += (float)sum;
    }
}
