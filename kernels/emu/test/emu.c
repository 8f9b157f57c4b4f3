#include "config.h"
#include "base/tap.h"
#include "kernels/emu/emu.h"
#include "kernels/emu/runtime.h"
#include "kernels/emu/test/lang.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *put(const void *host, size_t n)
{
    void *p = NULL;

    assert_int_equal(cudaMalloc(&p, n), cudaSuccess);
    if (host != NULL)
        assert_int_equal(cudaMemcpy(p, host, n, cudaMemcpyHostToDevice), 0);
    return p;
}

static void get(void *host, const void *p, size_t n)
{
    assert_int_equal(cudaMemcpy(host, p, n, cudaMemcpyDeviceToHost), 0);
}

static int wrong_reversals(int without_barrier)
{
    float x[128], y[128];
    float *dx, *dy = put(NULL, sizeof(y));
    int wrong = 0;

    for (int i = 0; i < 128; i++)
        x[i] = (float)i;
    dx = put(x, sizeof(x));
    for (unsigned seed = 1; seed <= 5; seed++) {
        bn_emu_seed(seed);
        assert_int_equal(try_reverse(dy, dx, 128, without_barrier), 0);
        get(y, dy, sizeof(y));
        for (int i = 0; i < 128; i++)
            wrong += y[i] != x[127 - i];
    }
    cudaFree(dx);
    cudaFree(dy);
    return wrong;
}

static void test_barrier(void **state)
{
    (void)state;
    assert_int_equal(wrong_reversals(0), 0);
    /* Poison or an old value is read where no barrier orders the threads. */
    assert_true(wrong_reversals(1) > 100);
}

static void test_votes(void **state)
{
    int out[640], *d;

    (void)state;
    memset(out, 0, sizeof(out));
    d = put(out, sizeof(out));
    assert_int_equal(try_votes(d), 0);
    get(out, d, sizeof(out));
    for (int i = 0; i < 64; i++) {
        int first = i / 32 * 32, lane = i % 32;

        assert_int_equal(out[i], 22);
        assert_int_equal(out[64 + i], 1);
        assert_int_equal(out[128 + i], 0);
        assert_int_equal((unsigned)out[192 + i], 0xaaaaaaaau);
        assert_int_equal(out[256 + i], first + 5);
        assert_int_equal(out[320 + i], lane == 0 ? i : i - 1);
        assert_int_equal(out[384 + i], lane >= 30 ? i : i + 2);
        assert_int_equal(out[448 + i], 16 * (2 * first + 31));
        assert_int_equal(out[512 + i], 63 * 32);
    }
    assert_int_equal(out[576], 64);
    cudaFree(d);
}

static uint16_t bf(float x)
{
    uint32_t u;

    memcpy(&u, &x, 4);
    return (uint16_t)(u >> 16);
}

static void test_product(void **state)
{
    uint16_t a[256], b[128], bt[128];
    float fa[256], fb[128], c[256];
    void *da, *db, *dt;
    float *dc = put(NULL, sizeof(c));

    (void)state;
    for (int i = 0; i < 256; i++)
        a[i] = bf(fa[i] = (float)(i * 7 % 31 - 15));
    for (int i = 0; i < 128; i++)
        b[i] = bf(fb[i] = (float)(i * 5 % 17 - 8));
    for (int n = 0; n < 8; n++)
        for (int k = 0; k < 16; k++)
            bt[k * 8 + n] = b[n * 16 + k];
    da = put(a, sizeof(a));
    db = put(b, sizeof(b));
    dt = put(bt, sizeof(bt));
    assert_int_equal(try_product(dc, da, db, dt), 0);
    get(c, dc, sizeof(c));
    for (int r = 0; r < 16; r++)
        for (int n = 0; n < 8; n++) {
            float want = 0, last = fa[r * 16 + 15] * fb[n * 16 + 15];

            for (int k = 0; k < 16; k++)
                want += fa[r * 16 + k] * fb[n * 16 + k];
            assert_true(c[r * 8 + n] == want);
            /* The last row of bt was replaced by zeros. */
            assert_true(c[128 + r * 8 + n] == want - last);
        }
    cudaFree(da);
    cudaFree(db);
    cudaFree(dt);
    cudaFree(dc);
}

static void expect(enum fault which, int n, int rc, const char *text)
{
    float *y = put(NULL, 128 * sizeof(float));

    bn_emu_clear();
    assert_int_equal(try_fault(which, y, n), rc);
    if (strstr(bn_emu_error(), text) == NULL)
        fail_msg("'%s' does not say '%s'", bn_emu_error(), text);
    bn_emu_clear();
    cudaFree(y);
    bn_emu_clear();
}

static void test_faults(void **state)
{
    float host[128];

    (void)state;
    expect(HALF_BARRIER, 0, cudaErrorLaunchFailure, "stuck, 64 of 128");
    expect(TWO_BARRIERS, 0, cudaErrorLaunchFailure, "reaches the barrier of");
    expect(HALF_WARP, 0, cudaErrorLaunchFailure, "32 inside warps");
    expect(PAST_END, 128, cudaErrorIllegalAddress,
           "byte 512 of a device allocation of 512");
    expect(TOO_LARGE, 0, cudaErrorInvalidConfiguration, "cannot be launched");
    expect(SHARED_LARGE, 0, cudaErrorInvalidValue, "49152 allowed");
    expect(SHARED_BOTH, 0, cudaErrorLaunchFailure,
           "512 bytes of static and 49152 of dynamic shared memory, 49152 at");
    expect(MISALIGNED, 0, cudaErrorLaunchFailure, "an access of 16 bytes at");
#ifndef BN_SANITIZED
    /* AddressSanitizer ends the program at this one. */
    expect(PAST_SHARED, 1, cudaErrorLaunchFailure, "outside the shared array");
#endif
    bn_emu_clear();
    assert_int_equal(try_fault(HALF_BARRIER, host, 0),
                     cudaErrorIllegalAddress);
    assert_non_null(strstr(bn_emu_error(), "argument 1 is a host pointer"));
    bn_emu_clear();
    /* And the emulator works after all of them. */
    assert_int_equal(wrong_reversals(0), 0);
}

/* In a process of its own, where it may end. */
static bool host_can_touch(volatile char *p)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        *p = 1;
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) || WTERMSIG(status) == SIGSEGV);
    return WIFEXITED(status);
}

static void test_host_touch(void **state)
{
    enum { SMALL = 512, LARGE = 5000001 };
    char *x = put(NULL, SMALL), *y = put(NULL, SMALL), *z = put(NULL, LARGE);
    char *all[] = {x, y, z, z + LARGE / 2, z + LARGE - 1};

    (void)state;
    for (int i = 0; i < 3; i++) { /* before and after launches and copies */
        for (int k = 0; k < 5; k++)
            assert_false(host_can_touch(all[k]));
        assert_int_equal(try_reverse((float *)y, (float *)x, 128, 0), 0);
        for (int k = 0; k < 5; k++)
            assert_false(host_can_touch(all[k]));
        assert_int_equal(cudaMemcpy(z, x, SMALL, cudaMemcpyDeviceToDevice), 0);
    }
    bn_emu_open_some();
    assert_false(host_can_touch(z));
    assert_true(bn_emu_open_at(z + LARGE / 2));
    assert_false(bn_emu_open_at(z));
    assert_true(host_can_touch(z) && host_can_touch(z + LARGE - 1));
    assert_false(host_can_touch(x) || host_can_touch(y));
    bn_emu_open();
    assert_true(host_can_touch(x) && host_can_touch(y));
    bn_emu_close();
    bn_emu_close();
    assert_false(bn_emu_open_at(z));
    for (int k = 0; k < 5; k++)
        assert_false(host_can_touch(all[k]));
    cudaFree(x);
    cudaFree(y);
    cudaFree(z);
}

static void test_memory(void **state)
{
    char host[100] = {0};
    char *p;

    (void)state;
    p = put(NULL, 100);
    assert_int_equal(cudaMemcpy(p + 1, host, 100, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpy(p, host, 100, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(cudaFree(p + 1), cudaErrorInvalidValue);
    /* A pitch has its limit even where there is one row. */
    assert_int_equal(cudaMemcpy2DAsync(p, (size_t)1 << 31, host,
                                       (size_t)1 << 31, 8, 1,
                                       cudaMemcpyHostToDevice, NULL),
                     cudaErrorInvalidPitchValue);
    assert_int_equal(cudaFree(p), cudaSuccess);
    assert_int_equal(bn_emu_allocated(), 0);
    cudaGetLastError();
    bn_emu_clear();
}

static void test_capture(void **state)
{
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t x;
    cudaEvent_t e;
    unsigned char *pinned;
    void *p, *q;

    (void)state;
    p = put(NULL, 64);
    assert_int_equal(cudaMallocHost((void **)&pinned, 64), 0);
    assert_int_equal(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), 0);
    assert_int_equal(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), 0);
    assert_int_equal(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal),
                     0);
    assert_int_equal(cudaMemsetAsync(p, 7, 64, s), 0);
    assert_int_equal(cudaMemcpyAsync(pinned, p, 64, cudaMemcpyDeviceToHost, s),
                     0);
    assert_int_equal(cudaEventRecord(e, s), 0);
    assert_int_equal(cudaStreamEndCapture(s, &g), 0);
    assert_non_null(g);
    /* Nothing was done so far, and the event marks no time. */
    assert_int_equal(cudaEventQuery(e), cudaErrorInvalidValue);
    assert_int_equal(cudaEventRecord(e, s), 0);
    assert_int_equal(cudaEventQuery(e), 0);
    assert_int_equal(cudaGraphInstantiate(&x, g, 0), 0);
    cudaGraphDestroy(g);
    for (int i = 0; i < 2; i++) {
        memset(pinned, 1, 64);
        assert_int_equal(cudaMemsetAsync(p, 3, 64, s), 0);
        assert_int_equal(pinned[63], 1);
        assert_int_equal(cudaGraphLaunch(x, s), 0);
        assert_int_equal(pinned[63], 7);
    }
    cudaGraphExecDestroy(x);
    cudaGetLastError();
    bn_emu_clear();
    assert_int_equal(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal),
                     0);
    assert_int_equal(cudaEventQuery(e), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(s, &g),
                     cudaErrorStreamCaptureInvalidated);
    assert_null(g);
    cudaGetLastError();
    bn_emu_clear();
    assert_int_equal(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal),
                     0);
    assert_int_equal(cudaMalloc(&q, 64), cudaErrorStreamCaptureUnsupported);
    assert_int_equal(cudaStreamEndCapture(s, &g),
                     cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    bn_emu_clear();
    cudaEventDestroy(e);
    cudaFreeHost(pinned);
    cudaStreamDestroy(s);
    cudaFree(p);
}

/* Against the compiler's own half type and the definition of bfloat16. */
static void test_convert(void **state)
{
    static const float special[] = {0, -0.0f, 1, 65504, 65520, 65519.9f,
                                    1e-8f, 6e-8f, 2.98e-8f, 3e-8f, 6.1e-5f,
                                    INFINITY, -INFINITY, 3.4e38f, 1e-40f};
    unsigned n = sizeof(special) / sizeof(special[0]);

    (void)state;
    for (unsigned i = 0; i < n + 20000; i++) {
        uint32_t u = i * 2654435761u, back;
        unsigned short b, h;
        float x, f[2];

        memcpy(&x, &u, 4);
        if (i < n)
            x = special[i];
        try_convert(f, &b, &h, x);
        if (isnan(x)) {
            assert_true(isnan(f[0]) && isnan(f[1]));
            continue;
        }
#ifdef __FLT16_MAX__
        _Float16 want = (_Float16)x;
        assert_true(f[1] == (float)want);
#endif
        memcpy(&u, &x, 4);
        memcpy(&back, &f[0], 4);
        /* No bfloat16 is nearer: the neighbours are 0x10000 apart. */
        assert_true(back - u + 0x8000u <= 0x10000u);
        if (back - u + 0x8000u == 0 || back - u + 0x8000u == 0x10000u)
            assert_int_equal(back >> 16 & 1, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_barrier),   cmocka_unit_test(test_votes),
        cmocka_unit_test(test_product),   cmocka_unit_test(test_faults),
        cmocka_unit_test(test_host_touch), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_capture),   cmocka_unit_test(test_convert),
    };

    return BN_TAP_RUN(tests);
}
