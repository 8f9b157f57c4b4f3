#include "config.h"
#include "kernels/add.h"
#include "kernels/cpu/cpu.h"

BN_CPU_DECLARE(add);
BN_CPU_DECLARE(bias_grad);

enum { PIECE = 8192 };

BN_INLINE void sum_to(enum bn_dtype t, void *y, const void *x, size_t from,
                      size_t to)
{
#pragma omp simd
    for (size_t i = from; i < to; i++)
        bn_put(t, y, i, bn_get(t, y, i) + bn_get(t, x, i));
}

void BN_CPU(add)(enum bn_dtype t, void *y, const void *x, size_t n)
{
#pragma omp parallel for schedule(static) if (n > BN_CPU_SMALL)
    for (size_t at = 0; at < n; at += PIECE)
        BN_CPU_TYPED(t, sum_to(T, y, x, at, n - at < PIECE ? n : at + PIECE));
}

/* Columns are divided among threads: each is summed in the order of rows. */
enum { BLOCK = 128 };

BN_INLINE void column_sums(enum bn_dtype t, float *db, const void *dy, int lddy,
                           int n, int from, int count)
{
    float sum[BLOCK] = {0};

    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * lddy + from;

#pragma omp simd
        for (int c = 0; c < count; c++)
            sum[c] += bn_get(t, dy, at + c);
    }
    for (int c = 0; c < count; c++)
        db[from + c] += sum[c];
}

void BN_CPU(bias_grad)(enum bn_dtype t, float *db, const void *dy, int lddy,
                       int cols, int n)
{
#pragma omp parallel for schedule(static) if ((size_t)n * cols > BN_CPU_SMALL)
    for (int from = 0; from < cols; from += BLOCK) {
        int count = cols - from < BLOCK ? cols - from : BLOCK;

        if (t == BN_F32)
            column_sums(BN_F32, db, dy, lddy, n, from, count);
        else
            column_sums(BN_BF16, db, dy, lddy, n, from, count);
    }
}
