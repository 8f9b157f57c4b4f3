/* The head and the optimizer. */
#include "config.h"
#include "kernels/adamw.h"
#include "kernels/cuda/test/gpu.h"
#include "kernels/head.h"
#include "kernels/sqnorm.h"

struct head_case {
    int rows, cols, pad, vocab, first;
    unsigned most; /* targets of a row */
};

static void head_run(enum bn_dtype t, const struct head_case *k, int in_place,
                     float smoothing)
{
    int ld = k->cols + k->pad;
    size_t all = (size_t)k->rows * ld, n = (size_t)k->rows;
    int32_t *ptr = host_new(BN_F32, n + 1, 0), *target;
    float *x = host_new(BN_F32, all, 4);

    ptr[0] = 0;
    for (int r = 0; r < k->rows; r++)
        ptr[r + 1] = ptr[r] + (int32_t)rnd(k->most + 1);
    size_t ne = (size_t)ptr[k->rows];
    target = host_new(BN_F32, ne, 0);
    for (size_t e = 0; e < ne; e++)
        target[e] = (int32_t)rnd((unsigned)k->vocab) - k->first;
    float *out[8], *dev[8]; /* max, sum, total, target_logit and the device's */
    for (int i = 0; i < 4; i++) {
        out[i] = host_new(BN_F32, i < 3 ? n : ne, 0);
        dev[i] = gpu_copy(BN_F32, out[i], i < 3 ? n : ne);
    }
    float *g = host_new(BN_F32, ne, 1), *lse = host_new(BN_F32, n, 0);
    float *mag = host_new(BN_F32, all, 1), *gx = gpu_copy(BN_F32, x, all);
    struct bn_head_rows h = {k->rows, k->cols, ld, k->vocab, ptr, target}, d;

    d = h;
    d.row_ptr = gpu_copy(BN_F32, ptr, n + 1);
    d.target = gpu_copy(BN_F32, target, ne);
    bn_head_stats_ref(&h, x, out[0], out[1], out[2], out[3]);
    gpu_ok(bn_head_stats_cuda(&d, gx, dev[0], dev[1], dev[2], dev[3], NULL),
           "head_stats");
    gpu_same(dev[0], out[0], n * 4, "max");
    gpu_close(BN_F32, dev[1], out[1], n, 2e-6, NULL, "sum");
    for (size_t i = 0; i < n; i++)
        mag[i] = 4 * (float)k->cols;
    gpu_close(BN_F32, dev[2], out[2], n, 1e-6, mag, "total");
    gpu_same(dev[3], out[3], ne * 4, "target_logit");

    for (int r = 0; r < k->rows; r++) {
        float sum = 0;

        lse[r] = out[0][r] + logf(out[1][r]);
        for (int32_t e = ptr[r]; e < ptr[r + 1]; e++)
            sum += fabsf(g[e]);
        for (int c = 0; c < ld; c++)
            mag[(size_t)r * ld + c] = sum;
    }
    float *glse = gpu_copy(BN_F32, lse, n), *gg = gpu_copy(BN_F32, g, ne);
    int out_ld = t == BN_BF16 && in_place ? 2 * ld : ld;
    size_t nout = n * (size_t)out_ld;
    void *dl = host_new(t, nout, 1), *gdl = gpu_copy(t, dl, nout);
    if (in_place) {
        memcpy(dl, x, nout * bn_dtype_size(t));
        gdl = gx;
    }
    bn_head_grad_ref(t, &h, dl, out_ld, x, lse, g, smoothing);
    gpu_ok(bn_head_grad_cuda(t, &d, gdl, out_ld, gx, glse, gg, smoothing,
                             NULL), "head_grad");
    for (int r = 0; r < k->rows; r++)
        gpu_close(t, (char *)gdl + (size_t)r * out_ld * bn_dtype_size(t),
                  (char *)dl + (size_t)r * out_ld * bn_dtype_size(t),
                  (size_t)k->cols, 2e-6, mag + (size_t)r * ld, "dlogits");
    gpu_end();
}

static void test_head(void **state)
{
    static const struct head_case k[] = {
        {1, 1, 0, 1, 0, 1},           {5, 31, 2, 31, 0, 2},
        {3, 2056, 8, 4112, 2056, 3},  {2, 8192, 0, 8192, 0, 2},
        {2, 40, 0, 40, 0, 90},        {4, 700, 0, 1400, 0, 1}};

    (void)state;
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++)
            head_run(both_types[j % 2], &k[i], j / 2, j == 1 ? 0.1f : 0);
    for (int i = 0; i < 16; i++) { /* odd sizes, whole vectors, shards */
        int cols = i % 3 == 0 ? 8 * (1 + (int)rnd(90)) : 1 + (int)rnd(700);
        int shards = 1 + (int)rnd(3);
        struct head_case c = {1 + (int)rnd(9), cols,
                              i % 3 == 0 ? 8 * (int)rnd(3) : (int)rnd(9),
                              shards * cols,
                              (int)rnd((unsigned)shards) * cols, 1 + rnd(4)};

        head_run(both_types[i % 2], &c, i / 2 % 2, i % 4 == 1 ? 0.1f : 0);
    }
}

static void test_head_odd(void **state)
{
    enum { ROWS = 4, COLS = 600 };
    float *x = host_new(BN_F32, ROWS * COLS, 1), sum[ROWS], top[ROWS];
    int32_t ptr[ROWS + 1] = {0};
    struct bn_head_rows h = {ROWS, COLS, COLS, COLS, NULL, NULL};

    (void)state;
    x[5] = NAN;
    for (int c = 0; c < 595; c++)
        x[COLS + c] = -INFINITY; /* a masked row */
    for (int c = 0; c < COLS; c++)
        x[2 * COLS + c] += 1e4f;
    float *gx = gpu_copy(BN_F32, x, ROWS * COLS);
    float *gtop = gpu_new(NULL, sizeof(top));
    float *gsum = gpu_new(NULL, sizeof(sum));
    h.row_ptr = gpu_new(ptr, sizeof(ptr));
    h.target = gpu_new(NULL, 4);
    gpu_ok(bn_head_stats_cuda(&h, gx, gtop, gsum, NULL, NULL, NULL),
           "head_stats");
    gpu_get(sum, gsum, sizeof(sum));
    gpu_get(top, gtop, sizeof(top));
    assert_true(isnan(sum[0]));
    for (int r = 1; r < ROWS; r++) {
        double want = 0;

        for (int c = 0; c < COLS; c++)
            want += exp((double)x[r * COLS + c] - top[r]);
        assert_true(fabs(sum[r] - want) < 2e-6 * want);
    }
    gpu_end();
}

static void test_sqnorm(void **state)
{
    static const size_t n[] = {1, 3, 1024, 5000, 1100003};

    (void)state;
    for (int i = 0; i < 5 + 8; i++) {
        size_t size = i < 5 ? n[i] : 1 + rnd(20000);
        float *g = host_new(BN_F32, size + 1, i == 4 ? 0 : 1);
        double want = 0.5, got;

        for (size_t j = 0; i == 4 && j <= size; j++)
            g[j] = (float)(j % 13) - 6;
        if (i == 2)
            g[7] = 1e25f; /* its square is beyond a float */
        float *gg = gpu_copy(BN_F32, g, size + 1);
        double *out = gpu_new(&want, 8);
        double *work = gpu_new(NULL, BN_SQNORM_PARTS * 8);

        bn_sqnorm_ref(&want, g + size % 2, size);
        gpu_ok(bn_sqnorm_cuda(out, gg + size % 2, size, work, NULL),
               "sqnorm");
        gpu_get(&got, out, 8);
        if (!(fabs(got - want) <= 1e-6 * want))
            fail_msg("sqnorm of %zu: %.17g, not %.17g", size, got, want);
        gpu_end();
    }
}

static void test_clip_scale(void **state)
{
    static const double sq[] = {0, 4, 1e-20, 1e300, INFINITY, NAN};
    static const float most[] = {1, 0, -1, 100, 1e-3f};

    (void)state;
    for (int i = 0; i < 30; i++) {
        float want, got;
        double *gsq = gpu_new(&sq[i / 5], 8);
        float *out = gpu_new(NULL, 4);

        bn_clip_scale_ref(&want, &sq[i / 5], most[i % 5]);
        gpu_ok(bn_clip_scale_cuda(out, gsq, most[i % 5], NULL), "clip_scale");
        gpu_get(&got, out, 4);
        if (got != want && !(isnan(got) && isnan(want)))
            fail_msg("clip_scale(%g, %g): %.9g, not %.9g", sq[i / 5],
                     (double)most[i % 5], (double)got, (double)want);
        gpu_end();
    }
}

static void adamw_run(enum bn_dtype t, size_t n, float scale, size_t off,
                      bool with_w)
{
    struct bn_adamw a = {0.9f, 0.95f, 1e-8f, 0.1f};
    struct bn_adamw_now now = {scale, 1e-3f, 0.1f, 0.05f};
    float *p = host_new(BN_F32, n, 1), *m = host_new(BN_F32, n, 0.1f);
    float *v = host_new(BN_F32, n, 0.1f), *g = host_new(BN_F32, n + off, 1);
    float *mag = host_new(BN_F32, n, 1);
    void *w = host_new(t, n, 1);

    for (size_t i = 0; i < n; i++) {
        v[i] *= v[i];
        mag[i] = p[i];
    }
    float *gp = gpu_copy(BN_F32, p, n), *gm = gpu_copy(BN_F32, m, n);
    float *gv = gpu_copy(BN_F32, v, n), *gg = gpu_copy(BN_F32, g, n + off);
    struct bn_adamw_now *gnow = gpu_new(&now, sizeof(now));
    void *gw = gpu_copy(t, w, n);
    bn_adamw_ref(t, &a, with_w ? w : NULL, p, m, v, g + off, &now, n);
    for (size_t i = 0; i < n; i++) /* where v is small the step is large */
        mag[i] = fabsf(mag[i]) + fabsf(p[i] - mag[i]);
    gpu_ok(bn_adamw_cuda(t, &a, with_w ? gw : NULL, gp, gm, gv, gg + off,
                         gnow, n, NULL), "adamw");
    gpu_close(BN_F32, gp, p, n, 1e-6, mag, "p");
    gpu_close(t, gw, w, n, 1e-6, mag, "w");
    for (size_t i = 0; i < n; i++)
        mag[i] = 0.1f;
    gpu_close(BN_F32, gm, m, n, 1e-6, mag, "m");
    gpu_close(BN_F32, gv, v, n, 1e-6, mag, "v");
    gpu_end();
}

static void test_adamw(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        adamw_run(both_types[i], 1, 1, 0, true);
        adamw_run(both_types[i], 2051, 0.37f, 0, true);
        adamw_run(both_types[i], 600, 1, 1, true);
        adamw_run(both_types[i], 600, 1, 0, false);
        adamw_run(both_types[i], 100, NAN, 0, true);
    }
    for (int i = 0; i < 12; i++)
        adamw_run(both_types[i % 2], 1 + rnd(5000), 0.1f + (float)rnd(9) / 9,
                  rnd(3), rnd(4) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),       cmocka_unit_test(test_head_odd),
        cmocka_unit_test(test_sqnorm),     cmocka_unit_test(test_clip_scale),
        cmocka_unit_test(test_adamw),
    };

    return BN_TAP_RUN(tests);
}
