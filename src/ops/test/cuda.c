/* The CUDA back end apart from its slots, on the emulator: copies, shapes that
 * have no kernel, errors, graphs, memory. */
#include "config.h"
#include "base/tap.h"
#include "kernels/emu/emu.h"
#include "kernels/emu/runtime.h"
#include "kernels/number.h"
#include "ops/test/twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void test_copies(void **state)
{
    enum { N = 700001 }; /* several pieces of staging memory */
    float *x = malloc(N * sizeof(*x)), *y = malloc(N * sizeof(*y));
    uint16_t *b = malloc(N * sizeof(*b));

    (void)state;
    twins_begin(NULL);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 2001 - 1000) * 0.25f;
    void *f = bn_arena_get(&arena[1], N * 4), *h = bn_arena_get(&arena[1],
                                                                N * 2);
    gpu->op.from_host(gpu, f, BN_F32, x, BN_F32, N);
    memset(x, 0, N * sizeof(*x)); /* it may be used again at once */
    gpu->op.to_host(gpu, b, BN_BF16, f, BN_F32, N);
    gpu->op.from_host(gpu, h, BN_BF16, b, BN_BF16, N);
    gpu->op.cast(gpu, f, BN_F32, h, BN_BF16, N);
    gpu->op.to_host(gpu, y, BN_F32, f, BN_F32, N);
    struct bn_cuda_memory mem;
    bn_cuda_memory(gpu, &mem);
    assert_int_equal(mem.sent, N * 6);
    assert_int_equal(mem.fetched, N * 8);
    for (int i = 0; i < N; i++)
        assert_true(y[i] == bn_bf16_to_float(bn_float_to_bf16(
                                (float)(i % 2001 - 1000) * 0.25f)));
    twins_end();
    free(x);
    free(y);
    free(b);
}

/* Shapes that no kernel has: on the CPU and counted, or refused. */
static void test_fallback(void **state)
{
    enum { COLS = 24000 };
    struct bn_cuda_options strict = {.rank = 5, .strict = true};
    struct bn_cuda_fallback f[2];
    struct bn_err err;

    (void)state;
    twins_begin(NULL);
    struct twin *x = twin(BN_F32, COLS, 1), *w = twin(BN_F32, COLS, 1);
    struct twin *y = twin(BN_F32, COLS, 1), *rstd = twin(BN_F32, 1, 1);
    struct twin *dw = twin(BN_F32, COLS, 1);
    BOTH(rmsnorm, (d, BN_F32, M(y), M(rstd), NULL, M(x), NULL, M(w), 1e-5f,
                   COLS, 1));
    assert_int_equal(bn_cuda_fallbacks(gpu, f, 2), 0);
    for (int i = 0; i < 2; i++)
        BOTH(rmsnorm_grad, (d, BN_F32, M(y), M(dw), M(y), NULL, M(x), M(w),
                            M(rstd), COLS, 1));
    near(y, 1e-5, "rmsnorm_grad on the CPU");
    near(dw, 1e-5, "rmsnorm_grad on the CPU");
    assert_int_equal(bn_cuda_fallbacks(gpu, f, 2), 1);
    assert_string_equal(f[0].slot, "rmsnorm_grad");
    assert_int_equal(f[0].times, 2);
    twins_end();

    gpu = bn_dev_cuda(&strict, &err);
    assert_non_null(gpu);
    gpu->op.rmsnorm_grad(gpu, BN_F32, NULL, NULL, NULL, NULL, NULL, NULL,
                         NULL, COLS, 1);
    assert_int_equal(bn_dev_check(gpu, &err), -1);
    assert_int_equal(err.code, BN_ERR_USAGE);
    assert_string_equal(err.text,
                        "rmsnorm_grad (F32 [1, 24000]) has no kernel on rank "
                        "5, device 0, and --strict-device forbids the CPU");
    bn_dev_destroy(gpu);
}

static void test_errors(void **state)
{
    struct bn_cuda_options o = {.ordinal = 1, .rank = 3};
    struct bn_err err;
    float host[8];

    (void)state;
    assert_null(bn_dev_cuda(&o, &err));
    assert_int_equal(err.code, BN_ERR_USAGE);
    assert_string_equal(err.text, "no CUDA device 1: 1 visible (0 to 0)");
    bn_emu_set_devices(0);
    assert_null(bn_dev_cuda(&o, &err));
    assert_int_equal(err.code, BN_ERR_USAGE);
    assert_non_null(strstr(err.text, "no CUDA device: no driver"));
    bn_emu_set_devices(1);
    o.ordinal = 0;
    bn_emu_set_capability(7, 5);
    assert_null(bn_dev_cuda(&o, &err));
    assert_int_equal(err.code, BN_ERR_USAGE);
    assert_string_equal(err.text, "CUDA device 0 on rank 3 is of compute "
                                  "capability 7.5: it takes 8.0 or later, "
                                  "or device: cpu");
    /* One that was not there when this was built, without PTX for it. */
    bn_emu_set_capability(13, 1);
    bn_emu_set_kernels(false);
    assert_null(bn_dev_cuda(&o, &err));
    assert_int_equal(err.code, BN_ERR_USAGE);
    assert_string_equal(err.text,
                        "no kernels for CUDA device 0 on rank 3, of compute "
                        "capability 13.1: cudaErrorNoKernelImageForDevice; "
                        "configure with NVCC_ARCH=-arch=sm_131");
    bn_emu_set_kernels(true);
    bn_emu_set_capability(8, 0);
    setenv("BURNISH_CUDA_HOST", "attn swiglou", 1);
    assert_null(bn_dev_cuda(&o, &err));
    assert_string_equal(err.text, "BURNISH_CUDA_HOST: no slot 'swiglou'");
    unsetenv("BURNISH_CUDA_HOST");
    gpu = bn_dev_cuda(&o, &err);
    assert_non_null(gpu);
    /* Too much memory: how much there is, and for what. */
    assert_int_equal(gpu->op.arena_init(gpu, &arena[0], "activations",
                                        (size_t)1 << 40, &err), -1);
    assert_non_null(strstr(err.text, "for activations on rank 3, device 0"));
    /* A host pointer reaches a kernel. */
    gpu->op.add(gpu, BN_F32, host, host, 8);
    assert_int_equal(bn_dev_check(gpu, &err), -1);
    assert_non_null(strstr(err.text, "add (F32 8), or a kernel before it "
                                     "(CUDA_LAUNCH_BLOCKING=1 tells which), "
                                     "on rank 3, device 0: "
                                     "cudaErrorIllegalAddress"));
    /* The first failure stays, and nothing runs after it. */
    gpu->op.swiglu(gpu, BN_F32, host, host, 4, 1);
    assert_int_equal(bn_dev_check(gpu, &err), -1);
    assert_non_null(strstr(err.text, "add (F32 8)"));
    bn_dev_destroy(gpu);
    cudaGetLastError();
    bn_emu_clear();
}

/* Devices tell of a kernel's fault when the next thing is asked of them. */
static void late_error(bool late, void (*ask)(struct bn_dev *),
                       const char *want)
{
    struct bn_cuda_options o = {.rank = 2};
    struct bn_err err;
    float host[8];

    gpu = bn_dev_cuda(&o, &err);
    assert_non_null(gpu);
    bn_emu_set_late(late);
    gpu->op.add(gpu, BN_F32, host, host, 8);
    ask(gpu);
    assert_int_equal(bn_dev_check(gpu, &err), -1);
    if (strncmp(err.text, want, strlen(want)) != 0
        || late != (strstr(err.text, ", or a kernel before it (CUDA_LAUNCH_"
                                     "BLOCKING=1 tells which),") != NULL)
        || strstr(err.text, " on rank 2, device 0: cudaErrorIllegalAddress")
               == NULL)
        fail_msg("'%s' is not '%s ...'", err.text, want);
    bn_dev_destroy(gpu);
    bn_emu_set_late(false);
    cudaGetLastError();
    bn_emu_clear();
}

static void ask_launch(struct bn_dev *d)
{
    d->op.swiglu(d, BN_F32, NULL, NULL, 4, 1);
}

static void ask_clip(struct bn_dev *d)
{
    d->op.clip_scale(d, NULL, NULL, 0.5f);
}

static void ask_cast(struct bn_dev *d)
{
    d->op.cast(d, NULL, BN_F32, NULL, BN_BF16, 70000);
}

static void ask_wait(struct bn_dev *d)
{
    d->op.sync(d);
}

static void test_late(void **state)
{
    (void)state;
    late_error(true, ask_launch, "swiglu (F32 [1, 4])");
    late_error(true, ask_clip, "clip_scale (0.5), or");
    late_error(true, ask_cast, "cast (BF16 to F32, 70000), or");
    late_error(true, ask_wait, "wait for the device after add (F32 8)");
    /* Launches are waited for: the right one, for certain. */
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    late_error(false, ask_launch, "add (F32 8) on rank");
    unsetenv("CUDA_LAUNCH_BLOCKING");
}

/* What a graph of the test holds: y = w * (x / rms(x)), with w from the host. */
static void enqueue(struct twin *x, struct twin *y, const float *scale)
{
    float *rstd = twins[2].g;

    gpu->op.from_host(gpu, twins[3].g, BN_F32, scale, BN_F32, 64);
    gpu->op.zero(gpu, y->g, 4 * 64 * 4);
    gpu->op.rmsnorm(gpu, BN_F32, y->g, rstd, NULL, x->g, NULL, twins[3].g,
                    1e-5f, 64, 4);
    gpu->op.mail(gpu, 8, y->g, 4);
}

static float got(const struct twin *y)
{
    float v[4 * 64];

    gpu->op.to_host(gpu, v, BN_F32, y->g, BN_F32, 4 * 64);
    return v[0];
}

/* Slots allocate nothing, wait for nothing, and can be a graph, which is done
 * when it is launched, as often as it is, with what it is fed. */
static void test_graph(void **state)
{
    float scale[64], plain;
    struct bn_err err;

    (void)state;
    twins_begin(NULL);
    struct twin *x = twin(BN_F32, 4 * 64, 1), *y = twin(BN_F32, 4 * 64, 1);
    (void)twin(BN_F32, 4, 1);  /* rstd */
    (void)twin(BN_F32, 64, 1); /* what is fed */
    size_t fed = gpu->fed;
    struct bn_emu_calls before = bn_emu_calls(), after;

    for (int i = 0; i < 64; i++)
        scale[i] = 2;
    enqueue(x, y, scale);
    after = bn_emu_calls();
    assert_int_equal(after.mallocs, before.mallocs);
    assert_int_equal(after.waits, before.waits);
    plain = got(y);
    struct bn_graph *g = gpu->op.graph_create(gpu, gpu->fed - fed, &err);
    assert_non_null(g);
    before = bn_emu_calls();
    for (int k = 1; k <= 3; k++) {
        gpu->op.zero(gpu, y->g, 4 * 64 * 4);
        gpu->op.graph_begin(gpu, g, k == 1);
        for (int i = 0; i < 64; i++)
            scale[i] = (float)k;
        enqueue(x, y, scale);
        scale[0] = 1000; /* it was copied */
        gpu->op.graph_end(gpu, g, true);
        after = bn_emu_calls();
        assert_int_equal(after.mallocs, before.mallocs);
        assert_int_equal(after.waits, before.waits);
        const char *box = gpu->op.collect(gpu);
        float want = plain / 2 * (float)k;
        assert_true(fabsf(got(y) - want) < 1e-6f);
        assert_true(*(const float *)(const void *)(box + 8) == got(y));
        before = bn_emu_calls();
        assert_int_equal(before.launches, k);
    }
    /* One that is not launched leaves all as it was. */
    gpu->op.graph_begin(gpu, g, false);
    enqueue(x, y, scale);
    gpu->op.graph_end(gpu, g, false);
    assert_true(fabsf(got(y) - plain / 2 * 3) < 1e-6f);
    /* Another input than was recorded is a failure, and so is waiting. */
    gpu->op.graph_begin(gpu, g, false);
    gpu->op.from_host(gpu, twins[3].g, BN_F32, scale, BN_F32, 63);
    assert_int_equal(bn_dev_check(gpu, &err), -1);
    assert_non_null(strstr(err.text, "input 0 of a graph is not what it was"));
    gpu->op.graph_end(gpu, g, true);
    gpu->failed = false;
    gpu->op.graph_begin(gpu, g, false);
    gpu->op.graph_end(gpu, g, true);
    assert_int_equal(bn_dev_check(gpu, &err), -1);
    assert_non_null(strstr(gpu->err.text, "is given 0 inputs"));
    gpu->failed = false;
    gpu->op.graph_begin(gpu, g, false);
    gpu->op.sync(gpu);
    assert_int_equal(bn_dev_check(gpu, &err), -1);
    assert_non_null(strstr(err.text, "sync in the middle of a graph"));
    gpu->op.graph_end(gpu, g, false);
    gpu->failed = false;
    gpu->op.graph_destroy(gpu, g);
    twins_end();
}

/* A device that is far behind the host: nothing that the host writes again, or
 * reads, is still on its way. */
static void test_behind(void **state)
{
    enum { N = 5 << 20 }; /* more than all staging memory */
    float *x = malloc(N * sizeof(*x)), scale[64], box[3];
    struct bn_err err;

    (void)state;
    bn_emu_set_lazy(true);
    twins_begin(NULL);
    float *far = NULL;
    assert_int_equal(cudaMalloc((void **)&far, N * sizeof(*x)), 0);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 65521);
    gpu->op.from_host(gpu, far, BN_F32, x, BN_F32, N);
    memset(x, 0, N * sizeof(*x));
    gpu->op.mail(gpu, 0, far + N - 1, 4);
    memcpy(box, gpu->op.collect(gpu), 4);
    assert_true(box[0] == (float)((N - 1) % 65521));
    gpu->op.to_host(gpu, x, BN_F32, far, BN_F32, N);
    for (int i = 0; i < N; i++)
        assert_true(x[i] == (float)(i % 65521));
    cudaFree(far);
    free(x);

    struct twin *a = twin(BN_F32, 4 * 64, 1), *b = twin(BN_F32, 4 * 64, 1);
    (void)twin(BN_F32, 4, 1);  /* rstd */
    (void)twin(BN_F32, 64, 1); /* what is fed */
    struct bn_graph *g = gpu->op.graph_create(gpu, 4096, &err);
    assert_non_null(g);
    for (int k = 1; k <= 3; k++) {
        gpu->op.graph_begin(gpu, g, k == 1);
        for (int i = 0; i < 64; i++)
            scale[i] = (float)k;
        enqueue(a, b, scale);
        gpu->op.graph_end(gpu, g, true);
        gpu->op.mail(gpu, 16 + 4 * (size_t)k, b->g, 4);
    }
    memcpy(box, (const char *)gpu->op.collect(gpu) + 20, sizeof(box));
    for (int k = 1; k <= 3; k++)
        assert_true(fabsf(box[k - 1] - box[0] * (float)k) < 1e-6f);
    gpu->op.graph_destroy(gpu, g);
    twins_end();
    bn_emu_set_lazy(false);
}

/* Nothing but arenas and scratch is on the device. */
static void test_memory(void **state)
{
    struct bn_cuda_memory mem;

    (void)state;
    twins_begin(NULL);
    bn_cuda_memory(gpu, &mem);
    assert_int_equal(mem.arenas, 8 << 20);
    assert_int_equal(mem.peak, 8 << 20);
    assert_int_equal(mem.total - mem.available, mem.arenas + mem.scratch);
    twins_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies), cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_errors), cmocka_unit_test(test_late),
        cmocka_unit_test(test_graph),  cmocka_unit_test(test_behind),
        cmocka_unit_test(test_memory),
    };

    return BN_TAP_RUN(tests);
}
