#include "config.h"
#include "train/peak.h"
#include "ops/cuda.h"

#include <stdio.h>
#include <string.h>

/* Cycles a second: the highest the CPU is allowed, else what it has now. */
static double clock_rate(void)
{
    FILE *f = fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq",
                    "re");
    char line[256];
    double rate = 0, mhz;

    if (f != NULL) {
        if (fscanf(f, "%lf", &rate) != 1)
            rate = 0;
        fclose(f);
        if (rate > 0)
            return rate * 1e3;
    }
    f = fopen("/proc/cpuinfo", "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "cpu MHz : %lf", &mhz) == 1 && mhz * 1e6 > rate)
            rate = mhz * 1e6;
    if (f != NULL)
        fclose(f);
    return rate;
}

/* FLOPs a cycle and core. */
static double per_cycle(enum bn_dtype t, const char **name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool wide = __builtin_cpu_supports("avx512f");
    /* The first of AMD's with AVX2, and with AVX-512, do it in halves. */
    bool halves = wide ? __builtin_cpu_is("amdfam19h") != 0
                       : __builtin_cpu_is("znver1") != 0;

    if (t == BN_BF16 && __builtin_cpu_supports("avx512bf16")) {
        *name = "AVX512_BF16";
        return halves ? 64 : 128;
    }
    if (wide || __builtin_cpu_supports("avx2")) {
        *name = wide ? "AVX-512" : "AVX2";
        return (wide ? 64 : 32) / (halves ? 2 : 1);
    }
    *name = "SSE";
    return 8;
#else
    (void)t;
    *name = "128-bit vectors";
    return 16;
#endif
}

double bn_peak_flops(const struct bn_dev *d, enum bn_dtype t, char *how,
                     size_t size)
{
    const char *name;

    if (strcmp(d->name, "cuda") == 0)
        return bn_cuda_peak_flops(d, t, how, size);
    double rate = clock_rate(), each = per_cycle(t, &name);
    snprintf(how, size, "%d thread%s x %.2f GHz x %.0f FLOP a cycle (%s)",
             d->threads, d->threads == 1 ? "" : "s", rate / 1e9, each, name);
    return d->threads * rate * each;
}
