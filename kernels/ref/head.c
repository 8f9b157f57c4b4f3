#include "config.h"
#include "kernels/head.h"
#include "kernels/ref/ref.h"

void bn_head_stats_ref(const struct bn_head_rows *h, const float *logits,
                       float *max, float *sum, float *total,
                       float *target_logit)
{
    for (int r = 0; r < h->rows; r++) {
        const float *x = logits + (size_t)r * h->ld;
        double top = -INFINITY, s = 0, all = 0;

        for (int v = 0; v < h->cols; v++)
            if (x[v] > top)
                top = x[v];
        for (int v = 0; v < h->cols; v++) {
            s += exp(x[v] - top);
            all += x[v];
        }
        max[r] = (float)top;
        sum[r] = (float)s;
        if (total != NULL)
            total[r] = (float)all;
        for (int e = h->row_ptr[r]; e < h->row_ptr[r + 1]; e++) {
            int v = h->target[e];

            target_logit[e] = v >= 0 && v < h->cols ? x[v] : 0;
        }
    }
}

void bn_head_grad_ref(enum bn_dtype t, const struct bn_head_rows *h,
                      void *dlogits, int ld_out, const float *logits,
                      const float *lse, const float *g, float smoothing)
{
    for (int r = 0; r < h->rows; r++) {
        const float *x = logits + (size_t)r * h->ld;
        size_t out = (size_t)r * ld_out;
        double s = smoothing, all = 0;

        for (int e = h->row_ptr[r]; e < h->row_ptr[r + 1]; e++)
            all += g[e];
        for (int v = 0; v < h->cols; v++) {
            double d = all * (s / h->vocab);

            if (h->row_ptr[r] < h->row_ptr[r + 1])
                d -= all * exp((double)x[v] - lse[r]);
            for (int e = h->row_ptr[r]; e < h->row_ptr[r + 1]; e++)
                if (h->target[e] == v)
                    d += (1 - s) * g[e];
            ref_put(t, dlogits, out + v, d);
        }
    }
}
