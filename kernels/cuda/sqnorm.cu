#include "kernels/sqnorm.h"
#include "kernels/cuda/cu.h"

enum { THREADS = 256, V = 4 };

/* Squares of a pack in float, their sums in double. */
static __global__ void sqnorm(double *work, const float *g, size_t n)
{
    size_t step = (size_t)gridDim.x * THREADS * V;
    double sum = 0;

    for (size_t i = ((size_t)blockIdx.x * THREADS + threadIdx.x) * V; i < n;
         i += step) {
        float a[V] = {0, 0, 0, 0};

        if (i + V <= n && (uintptr_t)g % 16 == 0)
            load(a, g + i);
        else
            for (int j = 0; j < V && i + j < n; j++)
                a[j] = g[i + j];
        /* In double where the squares would overflow a float. */
        float s = a[0] * a[0] + a[1] * a[1] + a[2] * a[2] + a[3] * a[3];
        if (s < 1e37f)
            sum += s;
        else
            for (int j = 0; j < V; j++)
                sum += (double)a[j] * a[j];
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        work[blockIdx.x] = sum;
}

static __global__ void sqnorm_end(double *out, const double *work, int parts)
{
    double sum = 0;

    for (int i = (int)threadIdx.x; i < parts; i += THREADS)
        sum += work[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *out += sum;
}

int bn_sqnorm_cuda(double *out, const float *g, size_t n, double *work,
                   void *stream)
{
    size_t want = (n + THREADS * V - 1) / (THREADS * V);
    int parts = want < BN_SQNORM_PARTS ? (int)want : (int)BN_SQNORM_PARTS;

    if (n == 0)
        return 0;
    BN_LAUNCH(sqnorm, (unsigned)parts, THREADS, 0, stream, work, g, n);
    BN_LAUNCH(sqnorm_end, 1, THREADS, 0, stream, out, work, parts);
    return status();
}

static __global__ void clip_scale(float *scale, const double *sq,
                                  float max_norm)
{
    double s = *sq, norm = sqrt(s);
    float k = 1;

    if (threadIdx.x != 0)
        return;
    if (!isfinite(s))
        k = __int_as_float(0x7fc00000);
    else if (max_norm > 0 && max_norm < norm + 1e-6)
        k = (float)(max_norm / (norm + 1e-6));
    *scale = k;
}

int bn_clip_scale_cuda(float *scale, const double *sq, float max_norm,
                       void *stream)
{
    BN_LAUNCH(clip_scale, 1, WARP, 0, stream, scale, sq, max_norm);
    return status();
}
