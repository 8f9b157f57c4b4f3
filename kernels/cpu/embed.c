#include "config.h"
#include "kernels/embed.h"
#include "kernels/cpu/cpu.h"

BN_CPU_DECLARE(embed);
BN_CPU_DECLARE(embed_grad);

void BN_CPU(embed)(enum bn_dtype t, void *y, const void *table,
                   const int32_t *ids, int first, int count, int cols, int n)
{
    size_t size = bn_dtype_size(t) * (size_t)cols;

#pragma omp parallel for schedule(static) if ((size_t)n * cols > BN_CPU_SMALL)
    for (int i = 0; i < n; i++) {
        int64_t id = (int64_t)ids[i] - first;
        char *to = (char *)y + (size_t)i * size;

        if (id >= 0 && id < count)
            memcpy(to, (const char *)table + (size_t)id * size, size);
        else
            memset(to, 0, size);
    }
}

/* Columns are divided, not rows: equal ids may then add in order. */
enum { BLOCK = 128 };

BN_INLINE void add_rows(enum bn_dtype t, float *dtable, const void *dy,
                        const int32_t *ids, int first, int count, int cols,
                        int n, int from, int to)
{
    for (int i = 0; i < n; i++) {
        int64_t id = (int64_t)ids[i] - first;

        if (id < 0 || id >= count)
            continue;
        float *d = dtable + (size_t)id * cols;
        size_t at = (size_t)i * cols;
#pragma omp simd
        for (int c = from; c < to; c++)
            d[c] += bn_get(t, dy, at + c);
    }
}

void BN_CPU(embed_grad)(enum bn_dtype t, float *dtable, const void *dy,
                        const int32_t *ids, int first, int count, int cols,
                        int n)
{
#pragma omp parallel for schedule(static) if ((size_t)n * cols > BN_CPU_SMALL)
    for (int from = 0; from < cols; from += BLOCK) {
        int to = from + BLOCK < cols ? from + BLOCK : cols;

        if (t == BN_F32)
            add_rows(BN_F32, dtable, dy, ids, first, count, cols, n, from, to);
        else
            add_rows(BN_BF16, dtable, dy, ids, first, count, cols, n, from, to);
    }
}
