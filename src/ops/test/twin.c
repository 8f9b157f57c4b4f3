#include "config.h"
#include "ops/test/twin.h"
#include "base/rng.h"
#include "base/tap.h"
#include "kernels/emu/emu.h"
#include "kernels/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 80 };

struct bn_dev *cpu, *gpu;
struct bn_arena arena[2];
struct twin twins[MOST];
static int count;
static bool exact; /* the slots ran on the CPU */

void twins_begin(const char *host_slots)
{
    struct bn_cuda_options o = {.rank = 3, .threads = 1};
    struct bn_err err;

    if (host_slots != NULL)
        setenv("BURNISH_CUDA_HOST", host_slots, 1);
    else
        unsetenv("BURNISH_CUDA_HOST");
    cpu = bn_dev_cpu(1, &err);
    assert_non_null(cpu);
    gpu = bn_dev_cuda(&o, &err);
    if (gpu == NULL)
        fail_msg("%s", err.text);
    for (int i = 0; i < 2; i++) {
        struct bn_dev *d = i == 0 ? cpu : gpu;

        assert_int_equal(d->op.arena_init(d, &arena[i], "test", 8 << 20, &err),
                         0);
    }
    count = 0;
    exact = host_slots != NULL;
}

void twins_end(void)
{
    struct bn_err err;

    if (bn_dev_check(gpu, &err) < 0 || bn_dev_check(cpu, &err) < 0)
        fail_msg("%s", err.text);
    cpu->op.arena_release(cpu, &arena[0]);
    gpu->op.arena_release(gpu, &arena[1]);
    bn_dev_destroy(gpu);
    bn_dev_destroy(cpu);
    if (bn_emu_allocated() != 0)
        fail_msg("%zu bytes of device memory were not released",
                 bn_emu_allocated());
}

struct twin *twin(enum bn_dtype t, size_t n, double deviation)
{
    struct twin *w = &twins[count];
    size_t size = bn_dtype_size(t);

    assert_true(count < MOST);
    *w = (struct twin){bn_arena_get(&arena[0], n * size),
                       bn_arena_get(&arena[1], n * size), t, n};
    for (size_t i = 0; i < n; i++) {
        uint64_t stream = (uint64_t)count;

        if (t == BN_I32)
            ((int32_t *)w->h)[i] = (int32_t)bn_rng_permute(
                7, stream, (uint64_t)-deviation, i % (size_t)-deviation);
        else if (t == BN_F64)
            ((double *)w->h)[i] = deviation * bn_rng_normal(7, stream, i);
        else
            bn_put(t, w->h, i,
                   (float)(deviation * bn_rng_normal(7, stream, i)));
    }
    gpu->op.from_host(gpu, w->g, t, w->h, t, n);
    count++;
    return w;
}

void near(const struct twin *w, double rel, const char *what)
{
    char *got = malloc(w->n * bn_dtype_size(w->t) + 1);
    double top = 0;

    gpu->op.to_host(gpu, got, w->t, w->g, w->t, w->n);
    if (gpu->failed)
        fail_msg("%s: %s", what, gpu->err.text);
    if (exact) {
        assert_memory_equal(got, w->h, w->n * bn_dtype_size(w->t));
        free(got);
        return;
    }
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < w->n; i++) {
            double g, h;

            if (w->t == BN_F64) {
                g = ((double *)(void *)got)[i];
                h = ((double *)w->h)[i];
            } else {
                g = bn_get(w->t, got, i);
                h = bn_get(w->t, w->h, i);
            }
            double step = w->t == BN_BF16 ? fabs(h) / 64 + top / 100 : 0;
            if (pass == 0)
                top = fabs(h) > top ? fabs(h) : top;
            else if (!(fabs(g - h) <= rel * top + step))
                fail_msg("%s [%zu]: %.9g, the CPU has %.9g", what, i, g, h);
        }
    free(got);
}
