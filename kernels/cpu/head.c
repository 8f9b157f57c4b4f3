#include "config.h"
#include "kernels/head.h"
#include "kernels/cpu/tile.h"

BN_CPU_DECLARE(head_stats);
BN_CPU_DECLARE(head_grad);

/* Columns at a time of the gradient; and of sums, which run in float over so
 * many, then in double. */
enum { BLOCK = 1024, SPAN = 256 };

static void row_sums(const float *x, int cols, float top, float *sum,
                     float *total)
{
    double s = 0, all = 0;

    for (int from = 0; from < cols; from += SPAN) {
        int to = from + SPAN < cols ? from + SPAN : cols;
        float s1 = 0, all1 = 0;

#pragma omp simd reduction(+ : s1, all1)
        for (int v = from; v < to; v++) {
            s1 += bn_cpu_exp_low(x[v] - top);
            all1 += x[v];
        }
        s += s1;
        all += all1;
    }
    *sum = (float)s;
    *total = (float)all;
}

void BN_CPU(head_stats)(const struct bn_head_rows *h, const float *logits,
                        float *max, float *sum, float *total,
                        float *target_logit)
{
#pragma omp parallel for schedule(static) if ((size_t)h->rows * h->cols        \
                                              > BN_CPU_SMALL)
    for (int r = 0; r < h->rows; r++) {
        const float *x = logits + (size_t)r * h->ld;
        float all;

        max[r] = row_max(x, h->cols, -INFINITY);
        row_sums(x, h->cols, max[r], &sum[r], &all);
        if (total != NULL)
            total[r] = all;
        for (int e = h->row_ptr[r]; e < h->row_ptr[r + 1]; e++) {
            int v = h->target[e];

            target_logit[e] = v >= 0 && v < h->cols ? x[v] : 0;
        }
    }
}

/* The block is computed aside before it is stored, since the stores may go
 * over the logits that it comes from. */
BN_INLINE void row_grad(enum bn_dtype t, void *dlogits, size_t out,
                        const float *x, float lse, const int32_t *target,
                        const float *g, int count, float all, float spread,
                        float own, int cols)
{
    float d[BLOCK];

    for (int from = 0; from < cols; from += BLOCK) {
        int n = cols - from < BLOCK ? cols - from : BLOCK;

#pragma omp simd
        for (int v = 0; v < n; v++)
            d[v] = spread - all * bn_cpu_exp_low(x[from + v] - lse);
        for (int e = 0; e < count; e++)
            if (target[e] >= from && target[e] < from + n)
                d[target[e] - from] += own * g[e];
#pragma omp simd
        for (int v = 0; v < n; v++)
            bn_put(t, dlogits, out + from + v, d[v]);
    }
}

void BN_CPU(head_grad)(enum bn_dtype t, const struct bn_head_rows *h,
                       void *dlogits, int ld_out, const float *logits,
                       const float *lse, const float *g, float smoothing)
{
    size_t size = bn_dtype_size(t);

#pragma omp parallel for schedule(static) if ((size_t)h->rows * h->cols        \
                                              > BN_CPU_SMALL)
    for (int r = 0; r < h->rows; r++) {
        const float *x = logits + (size_t)r * h->ld;
        size_t out = (size_t)r * ld_out;
        int e0 = h->row_ptr[r], count = h->row_ptr[r + 1] - e0;
        float all = 0;

        for (int e = e0; e < e0 + count; e++)
            all += g[e];
        float spread = all * (smoothing / (float)h->vocab);
        if (count == 0)
            memset((char *)dlogits + out * size, 0, (size_t)h->cols * size);
        else if (t == BN_F32)
            row_grad(BN_F32, dlogits, out, x, lse[r], h->target + e0, g + e0,
                     count, all, spread, 1 - smoothing, h->cols);
        else
            row_grad(BN_BF16, dlogits, out, x, lse[r], h->target + e0, g + e0,
                     count, all, spread, 1 - smoothing, h->cols);
    }
}
