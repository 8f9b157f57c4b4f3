#include "config.h"
#include "kernels/rows.h"

#include <string.h>

void bn_gather_ref(enum bn_dtype t, void *y, const void *x, const int32_t *rows,
                   int cols, int n)
{
    size_t size = bn_dtype_size(t) * (size_t)cols;

    for (int i = 0; i < n; i++)
        memcpy((char *)y + i * size, (const char *)x + rows[i] * size, size);
}

void bn_scatter_ref(enum bn_dtype t, void *dx, const void *dy,
                    const int32_t *rows, int cols, int n)
{
    size_t size = bn_dtype_size(t) * (size_t)cols;

    for (int i = 0; i < n; i++)
        memcpy((char *)dx + rows[i] * size, (const char *)dy + i * size, size);
}
