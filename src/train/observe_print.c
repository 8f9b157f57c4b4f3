/* Saying what was seen, to people and to metrics.jsonl. */
#include "config.h"
#include "train/observe.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "train/phase.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const class_name[BN_MEMORIES] = {
    "weights", "gradients", "tables",      "optimizer", "activations", "comm",
    "copy",    "data",      "scratch",     "gpu_scratch", "staging",
    "rounding",
};

static uint64_t max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Each figure is the most of any rank. */
static struct bn_memory_use most(const struct bn_observed *all, int n, int k)
{
    struct bn_memory_use u = {0};

    for (int r = 0; r < n; r++) {
        const struct bn_memory_use *v = &all[r].memory[k];

        u.planned = max64(u.planned, v->planned);
        u.allocated = max64(u.allocated, v->allocated);
        u.touched = max64(u.touched, v->touched);
        u.peak = max64(u.peak, v->peak);
    }
    return u;
}

static bool planned(int k)
{
    return k <= BN_MEMORY_COPY || k == BN_MEMORY_GPU_SCRATCH;
}

static const char *domain(const struct bn_observed *o, int k)
{
    bool host = k == BN_MEMORY_COMM || k == BN_MEMORY_COPY
                || k == BN_MEMORY_DATA || k == BN_MEMORY_SCRATCH
                || k == BN_MEMORY_ROUNDING;

    if (k == BN_MEMORY_STAGING)
        return "pinned";
    return host || !o->on_gpu ? "host" : "device";
}

static void memory_line(const char *name, const char *where,
                        const struct bn_memory_use *u, bool has_plan)
{
    char t[4][32];

    bn_str_bytes(t[0], u->planned);
    bn_str_bytes(t[1], u->allocated);
    bn_str_bytes(t[2], u->touched);
    bn_str_bytes(t[3], u->peak);
    bn_info("  %-12s %-7s %12s %12s %12s %12s", name, where,
            has_plan ? t[0] : "-", t[1], t[2], t[3]);
}

static void print_memory(const struct bn_observed *all, int n)
{
    struct bn_memory_use sum[2] = {{0}}; /* of the host, of devices */
    uint64_t rss = 0;
    char a[32], b[32], c[32];

    bn_info("  %-12s %-7s %12s %12s %12s %12s", "memory", "domain", "planned",
            "allocated", "touched", "peak");
    for (int k = 0; k < BN_MEMORIES; k++) {
        struct bn_memory_use u = most(all, n, k);
        const char *where = domain(&all[0], k);
        struct bn_memory_use *s = &sum[strcmp(where, "device") == 0];

        if (u.allocated > 0 || u.planned > 0)
            memory_line(class_name[k], where, &u, planned(k));
        s->planned += u.planned;
        s->allocated += u.allocated;
        s->touched += u.touched;
        s->peak += u.peak;
    }
    memory_line("in all", "host", &sum[0], true);
    if (all[0].on_gpu)
        memory_line("in all", "device", &sum[1], true);
    for (int r = 0; r < n; r++)
        rss = max64(rss, all[r].resident_peak);
    bn_info("  process: %s resident, %s at most, of %s that it may have",
            bn_str_bytes(a, all[0].resident), bn_str_bytes(b, rss),
            bn_str_bytes(c, bn_memory_limit()));
    if (all[0].on_gpu)
        bn_info("  device: %s of %s free, whoever has the rest",
                bn_str_bytes(a, all[0].device_free),
                bn_str_bytes(b, all[0].device_total));
}

static void print_times(const struct bn_observed *all, int n)
{
    struct bn_str s = {0};
    double wall = 0;

    for (int r = 0; r < n; r++)
        wall += all[r].wall / n;
    bn_str_addf(&s, "  time: %.3f s =", wall);
    for (int k = 0; k < BN_TIMES; k++) {
        double mean = 0, high = 0;

        for (int r = 0; r < n; r++) {
            double v = all[r].seconds[k];

            mean += v / n;
            high = v > high ? v : high;
        }
        bn_str_addf(&s, "%s %s %.3f", k > 0 ? " +" : "",
                    bn_time_name((enum bn_time)k), mean);
        if (n > 1)
            bn_str_addf(&s, " (most %.3f)", high);
        else
            bn_str_addf(&s, " (%.1f %%)", 100 * mean / (wall > 0 ? wall : 1));
    }
    bn_info("%s", s.s);
    bn_str_release(&s);
    if (all[0].on_gpu)
        bn_info("  time is the host's: work on the GPU counts where the host "
                "waits for it");
}

double bn_observe_mfu(const struct bn_observed *all, int n)
{
    double can = 0;

    for (int r = 0; r < n; r++)
        can += all[r].peak_flops / n * all[r].ranks;
    if (can <= 0 || all[0].step_seconds <= 0)
        return 0;
    return all[0].flops / all[0].step_seconds / can;
}

static void print_mfu(const struct bn_observed *all, int n)
{
    const struct bn_observed *o = &all[0];

    if (o->steps == 0)
        return;
    bn_info("  FLOPs of the model: 6 a matrix weight and token + 12 x heads x "
            "head_dim a layer and visible (query, key) pair; forward and "
            "backward, no recomputation");
    bn_info("  %ld steps: %.6g FLOP in %.3f s = %.4g FLOP/s in all ranks",
            o->steps, o->flops, o->step_seconds,
            o->flops / (o->step_seconds > 0 ? o->step_seconds : 1));
    if (o->peak_flops > 0)
        bn_info("  MFU = FLOP/s / (%d rank%s x %.4g FLOP/s) = %.2f %%; a "
                "rank's peak: %s", o->ranks, o->ranks > 1 ? "s" : "",
                o->peak_flops,
                100 * bn_observe_mfu(all, n), o->peak_how);
    else
        bn_info("  MFU: the peak of this device is not known (%s)",
                o->peak_how);
}

static void print_off(const struct bn_observed *all, int n)
{
    for (int r = 0; r < n; r++)
        if (all[r].off[0] != '\0') {
            bn_info("  ran on the CPU instead of the GPU (rank %d): %s", r,
                    all[r].off);
            return;
        }
    bn_info("  operations off their device: none");
}

void bn_observe_print(const struct bn_observed *all, int n)
{
    long step;
    const char *phase = bn_phase_name(&step);

    bn_info("report: phase %s, step %ld%s", phase, step,
            n > 1 ? ", the most of any rank" : "");
    print_memory(all, n);
    print_times(all, n);
    print_off(all, n);
    print_mfu(all, n);
}

static size_t put(struct bn_metric *v, size_t i, double value,
                  const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Keys live until the next call of bn_observe_metrics. */
static size_t put(struct bn_metric *v, size_t i, double value,
                  const char *fmt, ...)
{
    static char keys[BN_OBSERVE_KEYS][48];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(keys[i], sizeof(keys[i]), fmt, ap);
    va_end(ap);
    v[i] = (struct bn_metric){keys[i], value};
    return i + 1;
}

size_t bn_observe_metrics(const struct bn_observed *all, int n,
                          struct bn_metric *v)
{
    double wall = 0;
    uint64_t rss = 0;
    size_t i = 0;

    for (int k = 0; k < BN_TIMES; k++) {
        double mean = 0;

        for (int r = 0; r < n; r++)
            mean += all[r].seconds[k] / n;
        i = put(v, i, mean, "time/%s", bn_time_name((enum bn_time)k));
    }
    for (int r = 0; r < n; r++) {
        wall += all[r].wall / n;
        rss = max64(rss, all[r].resident_peak);
    }
    i = put(v, i, wall, "time/wall");
    for (int k = 0; k < BN_MEMORIES; k++) {
        struct bn_memory_use u = most(all, n, k);
        const char *name = class_name[k];

        if (planned(k))
            i = put(v, i, (double)u.planned, "memory/%s/planned", name);
        i = put(v, i, (double)u.allocated, "memory/%s/allocated", name);
        i = put(v, i, (double)u.touched, "memory/%s/touched", name);
        i = put(v, i, (double)u.peak, "memory/%s/peak", name);
    }
    i = put(v, i, (double)rss, "memory/resident_peak");
    if (bn_observe_mfu(all, n) > 0)
        i = put(v, i, bn_observe_mfu(all, n), "mfu");
    return i;
}
