#include "config.h"
#include "kernels/cuda/test/gpu.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST = 256 };

static void *dev_mem[MOST], *host_mem[MOST];
static int ndev, nhost;
static uint64_t state = 1;

unsigned rnd(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % n);
}

float rnd_normal(void)
{
    /* The sum of twelve is near enough. */
    double s = -6;

    for (int i = 0; i < 12; i++)
        s += (rnd(1 << 24) + 0.5) / (1 << 24);
    return (float)s;
}

void gpu_put(void *dev, const void *host, size_t bytes)
{
    assert_int_equal(cudaMemcpy(dev, host, bytes, cudaMemcpyHostToDevice), 0);
}

void gpu_get(void *host, const void *dev, size_t bytes)
{
    assert_int_equal(cudaMemcpy(host, dev, bytes, cudaMemcpyDeviceToHost), 0);
}

void *gpu_new(const void *host, size_t bytes)
{
    void *p = NULL;

    assert_true(ndev < MOST);
    assert_int_equal(cudaMalloc(&p, bytes > 0 ? bytes : 1), cudaSuccess);
    dev_mem[ndev++] = p;
    if (host != NULL)
        gpu_put(p, host, bytes);
    else
        assert_int_equal(cudaMemsetAsync(p, 0xff, bytes, NULL), 0);
    return p;
}

static const char *why(void)
{
#ifdef BN_EMU
    return bn_emu_error();
#else
    return cudaGetErrorString(cudaPeekAtLastError());
#endif
}

void gpu_ok(int rc, const char *what)
{
    int late = rc == 0 ? (int)cudaDeviceSynchronize() : rc;

    if (late != 0)
        fail_msg("%s: %s: %s", what, cudaGetErrorName((cudaError_t)late),
                 why());
}

size_t gpu_shared(void)
{
    int bytes = 0;

    assert_int_equal(
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                               0), cudaSuccess);
    return (size_t)bytes;
}

void gpu_end(void)
{
    gpu_ok(0, "end of test");
    while (ndev > 0)
        if (cudaFree(dev_mem[--ndev]) != cudaSuccess)
            fail_msg("cudaFree: %s", why());
    while (nhost > 0)
        free(host_mem[--nhost]);
#ifdef BN_EMU
    bn_emu_seed(rnd(1 << 30));
#endif
}

void *host_new(enum bn_dtype t, size_t n, float deviation)
{
    size_t bytes = n * bn_dtype_size(t);
    void *p = malloc(bytes + 1);

    assert_non_null(p);
    assert_true(nhost < MOST);
    host_mem[nhost++] = p;
    if (deviation == 0)
        memset(p, 0xff, bytes);
    else
        for (size_t i = 0; i < n; i++)
            bn_put(t, p, i, rnd_normal() * deviation);
    return p;
}

void *gpu_copy(enum bn_dtype t, const void *host, size_t n)
{
    return gpu_new(host, n * bn_dtype_size(t));
}

void gpu_close(enum bn_dtype t, const void *dev, const void *want, size_t n,
               double rel, const float *mag, const char *what)
{
    void *got = host_new(t, n, 0);

    gpu_get(got, dev, n * bn_dtype_size(t));
    for (size_t i = 0; i < n; i++) {
        double g = bn_get(t, got, i), w = bn_get(t, want, i);
        double size = mag != NULL ? mag[i] : fabs(w);
        double most = rel * size + (t == BN_BF16 ? fabs(w) / 128 : 0);

        if (g == w || (isnan(g) && isnan(w) && mag == NULL))
            continue;
        if (!(fabs(g - w) <= most + 1e-37))
            fail_msg("%s (%s): element %zu of %zu is %.9g, not %.9g: off by "
                     "%.3g, %.3g allowed", what, bn_dtype_name(t), i, n, g, w,
                     fabs(g - w), most);
    }
}

void gpu_same(const void *dev, const void *want, size_t bytes,
              const char *what)
{
    unsigned char *got = host_new(BN_BF16, bytes / 2 + 1, 0);

    gpu_get(got, dev, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != ((const unsigned char *)want)[i])
            fail_msg("%s: byte %zu of %zu is %02x, not %02x", what, i, bytes,
                     got[i], ((const unsigned char *)want)[i]);
}

double dot_of(enum bn_dtype t, const void *a, const void *b, size_t n)
{
    double s = 0;

    for (size_t i = 0; i < n; i++)
        s += (double)bn_get(t, a, i) * bn_get(t, b, i);
    return s;
}
