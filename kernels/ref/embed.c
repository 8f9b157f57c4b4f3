#include "config.h"
#include "kernels/embed.h"
#include "kernels/ref/ref.h"

#include <stdbool.h>

void bn_embed_ref(enum bn_dtype t, void *y, const void *table,
                  const int32_t *ids, int first, int count, int cols, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t id = (int64_t)ids[i] - first;
        bool here = id >= 0 && id < count;

        for (int c = 0; c < cols; c++)
            ref_put(t, y, (size_t)i * cols + c,
                    here ? ref_get(t, table, (size_t)id * cols + c) : 0);
    }
}

void bn_embed_grad_ref(enum bn_dtype t, float *dtable, const void *dy,
                       const int32_t *ids, int first, int count, int cols,
                       int n)
{
    for (int id = 0; id < count; id++) {
        for (int c = 0; c < cols; c++) {
            double sum = 0;

            for (int i = 0; i < n; i++)
                if ((int64_t)ids[i] - first == id)
                    sum += ref_get(t, dy, (size_t)i * cols + c);
            dtable[(size_t)id * cols + c] += (float)sum;
        }
    }
}
