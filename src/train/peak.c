#include "config.h"
#include "train/peak.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/peak.h"
#include "ops/cuda.h"

#include <stdio.h>
#include <string.h>

/* Products of type t on the CPU are made of. */
static const char *kind(enum bn_dtype t)
{
    switch (bn_cpu_isa()) {
    case BN_CPU_V4BF16:
        return t == BN_BF16 ? "AVX512_BF16" : "AVX-512";
    case BN_CPU_V4:
        return "AVX-512";
    case BN_CPU_V3:
        return "AVX2";
    default:
        return "128-bit vectors";
    }
}

double bn_peak_flops(const struct bn_dev *d, enum bn_dtype t, char *how,
                     size_t size)
{
    if (strcmp(d->name, "cuda") == 0)
        return bn_cuda_peak_flops(d, t, how, size);
    double peak = bn_peak_cpu(t);

    snprintf(how, size, "multiply-adds of %s on %d thread%s, as measured",
             kind(t), d->threads, d->threads == 1 ? "" : "s");
    return peak;
}
