/* A build without CUDA has no device. */
#include "config.h"
#include "ops/cuda.h"

int bn_cuda_count(int *count, struct bn_err *err)
{
    *count = 0;
    return bn_fail(err, BN_ERR_USAGE,
                   "no CUDA device: this program was built without CUDA");
}

struct bn_dev *bn_dev_cuda(const struct bn_cuda_options *o, struct bn_err *err)
{
    int count;

    (void)o;
    (void)bn_cuda_count(&count, err);
    return NULL;
}

void *bn_cuda_stream(const struct bn_dev *d)
{
    (void)d;
    return NULL;
}

void bn_cuda_memory(const struct bn_dev *d, struct bn_cuda_memory *m)
{
    (void)d;
    *m = (struct bn_cuda_memory){0};
}

int bn_cuda_fallbacks(const struct bn_dev *d, struct bn_cuda_fallback *out,
                      int most)
{
    (void)d;
    (void)out;
    (void)most;
    return 0;
}

double bn_cuda_peak_flops(const struct bn_dev *d, enum bn_dtype t, char *name,
                          size_t size)
{
    (void)d;
    (void)t;
    (void)name;
    (void)size;
    return 0;
}

void bn_cuda_report(const struct bn_dev *d)
{
    (void)d;
}
