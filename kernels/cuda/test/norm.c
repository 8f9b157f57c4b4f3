#include "config.h"
#include "kernels/cuda/test/gpu.h"
#include "kernels/headnorm.h"
#include "kernels/rmsnorm.h"

static const int shapes[][2] = {{1, 1},   {3, 31},  {2, 256}, {5, 257},
                                {1, 4104}, {9, 64}, {131, 72}, {2, 14000}};
enum { NSHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* Beside those: odd sizes, and now and then rows of whole vectors. */
enum { NRANDOM = 16 };
static int random_cols(int most)
{
    int cols = 1 + (int)rnd((unsigned)most);

    return rnd(3) == 0 ? (cols + 7) / 8 * 8 : cols;
}

static void norm_forward(enum bn_dtype t, int n, int cols, int with_delta,
                         int alias, int off)
{
    size_t all = (size_t)n * cols;
    char *x = host_new(t, all, 1), *delta = host_new(t, all, 1);
    void *w = host_new(t, (size_t)cols, 1), *y = host_new(t, all, 0);
    void *xo = host_new(t, all, 0);
    float *rstd = host_new(BN_F32, (size_t)n, 0);
    size_t size = bn_dtype_size(t);
    /* 'off' elements into an allocation: not aligned to 16 */
    char *dx = gpu_new(NULL, (all + (size_t)off) * size);
    void *dy = gpu_new(NULL, all * size), *dw = gpu_copy(t, w, (size_t)cols);
    void *ddelta = gpu_copy(t, delta, all), *dxo = gpu_new(NULL, all * size);
    float *drstd = gpu_new(NULL, (size_t)n * 4);

    dx += (size_t)off * size;
    gpu_put(dx, x, all * size);
    if (alias)
        dxo = dx;
    bn_rmsnorm_ref(t, y, rstd, xo, x, with_delta ? delta : NULL, w, 1e-5f,
                   cols, n);
    gpu_ok(bn_rmsnorm_cuda(t, dy, drstd, with_delta ? dxo : NULL, dx,
                           with_delta ? ddelta : NULL, dw, 1e-5f, cols, n,
                           NULL), "rmsnorm");
    gpu_close(BN_F32, drstd, rstd, (size_t)n, 2e-6, NULL, "rstd");
    gpu_close(t, dy, y, all, 2e-6, NULL, "y");
    if (with_delta)
        gpu_close(t, dxo, xo, all, 1e-7, NULL, "xo");
    gpu_end();
}

static void test_rmsnorm(void **state)
{
    (void)state;
    for (int k = 0; k < NSHAPES; k++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 4; j++)
                norm_forward(both_types[i], shapes[k][0], shapes[k][1],
                             j > 0, j == 2, j == 3);
    for (int k = 0; k < NRANDOM; k++)
        norm_forward(both_types[k % 2], 1 + (int)rnd(50), random_cols(700),
                     k / 2 % 2, k / 4 % 2, (int)rnd(3));
    assert_int_equal(bn_rmsnorm_cuda(BN_F32, NULL, NULL, NULL, NULL, NULL,
                                     NULL, 0, 8, 0, NULL), 0);
}

/* sum over rows of the magnitudes that dw adds up, plus where it began */
static float *dw_size(enum bn_dtype t, const void *dy, const void *x,
                      const float *rstd, const float *dw, int cols, size_t n)
{
    float *mag = host_new(BN_F32, (size_t)cols, 1);

    for (int c = 0; c < cols; c++) {
        mag[c] = fabsf(dw[c]);
        for (size_t i = 0; i < n; i++)
            mag[c] += fabsf(bn_get(t, dy, i * (size_t)cols + (size_t)c)
                            * bn_get(t, x, i * (size_t)cols + (size_t)c)
                            * rstd[i]);
    }
    return mag;
}

/* the largest term of a row of dx: where it cancels, so does the precision */
static float *row_size(enum bn_dtype t, const void *dx, const void *dy,
                       const void *w, const float *rstd, int cols, int n)
{
    float *mag = host_new(BN_F32, (size_t)cols * n, 1);

    for (int i = 0; i < n; i++) {
        float top = 0;

        for (int c = 0; c < cols; c++) {
            size_t k = (size_t)i * cols + c;

            top = fmaxf(top, fabsf(bn_get(t, dx, k)));
            top = fmaxf(top, fabsf(bn_get(t, dy, k) * rstd[i]
                                   * bn_get(t, w, (size_t)c)));
        }
        for (int c = 0; c < cols; c++)
            mag[(size_t)i * cols + c] = top;
    }
    return mag;
}

static void norm_backward(enum bn_dtype t, int n, int cols, int with_dres,
                          int alias)
{
    size_t all = (size_t)n * cols;
    void *x = host_new(t, all, 1), *dy = host_new(t, all, 1);
    void *w = host_new(t, (size_t)cols, 1), *dres = host_new(t, all, 1);
    void *y = host_new(t, all, 0), *dx = host_new(t, all, 0);
    float *rstd = host_new(BN_F32, (size_t)n, 0);
    float *dw = host_new(BN_F32, (size_t)cols, 1);
    void *gx = gpu_copy(t, x, all), *gdy = gpu_copy(t, dy, all);
    void *gw = gpu_copy(t, w, (size_t)cols), *gdres = gpu_copy(t, dres, all);
    void *gdx = alias ? gdy : gpu_copy(t, dx, all);
    float *gdw = gpu_copy(BN_F32, dw, (size_t)cols);
    float *work = gpu_new(NULL, (size_t)BN_NORM_PARTS * cols * 4);

    bn_rmsnorm_ref(t, y, rstd, NULL, x, NULL, w, 1e-5f, cols, n);
    float *grstd = gpu_copy(BN_F32, rstd, (size_t)n);
    float *mag = dw_size(t, dy, x, rstd, dw, cols, (size_t)n);
    bn_rmsnorm_grad_ref(t, dx, dw, dy, with_dres ? dres : NULL, x, w, rstd,
                        cols, n);
    int rc = bn_rmsnorm_grad_cuda(t, gdx, gdw, gdy, with_dres ? gdres : NULL,
                                  gx, gw, grstd, cols, n, work, NULL);
    size_t least = ((size_t)cols + 8) * (4 + 2 * bn_dtype_size(t)) + 128;
    if (least > gpu_shared() || least > 163 << 10) {
        /* Does not fit in shared memory: refused, not done wrongly. */
        assert_int_equal(rc, cudaErrorInvalidValue);
    } else {
        gpu_ok(rc, "rmsnorm_grad");
        gpu_close(t, gdx, dx, all, 1e-5,
                  row_size(t, dx, dy, w, rstd, cols, n), "dx");
        gpu_close(BN_F32, gdw, dw, (size_t)cols, 1e-5, mag, "dw");
    }
    gpu_end();
}

static void test_rmsnorm_grad(void **state)
{
    (void)state;
    for (int k = 0; k < NSHAPES; k++)
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++)
                norm_backward(both_types[i], shapes[k][0], shapes[k][1],
                              j > 0, j == 2);
    for (int k = 0; k < NRANDOM; k++)
        norm_backward(both_types[k % 2], 1 + (int)rnd(200), random_cols(400),
                      k / 2 % 2, k / 4 % 2);
}

/* Rows about where they are just kept in shared memory, beside the sums. */
static void test_rmsnorm_long(void **state)
{
    static const int bytes[] = {48 << 10, (48 << 10) - 128, (48 << 10) - 112};

    (void)state;
    for (int i = 0; i < 6; i++) {
        enum bn_dtype t = both_types[i % 2];

        norm_forward(t, 2, bytes[i / 2] / (int)bn_dtype_size(t), 1, 0, 0);
    }
}

#ifdef BN_EMU
/* On devices whose blocks have less shared memory. */
static void test_less_shared(void **state)
{
    static const int cols[] = {3072, 4096, 5120, 8192, 8432, 12656, 12664};

    (void)state;
    bn_emu_set_shared(99 << 10);
    for (int i = 0; i < 14; i++)
        norm_backward(both_types[i % 2], 3, cols[i / 2], 1, 0);
    bn_emu_set_shared(0);
}
#endif

/* L = sum r . y: its derivative along d against the gradients. */
static void test_rmsnorm_differences(void **state)
{
    enum { N = 4, COLS = 40, ALL = N * COLS };
    float *x = host_new(BN_F32, ALL, 1), *d = host_new(BN_F32, ALL, 1);
    float *w = host_new(BN_F32, COLS, 1), *r = host_new(BN_F32, ALL, 1);
    float *y = host_new(BN_F32, ALL, 0), *dx = host_new(BN_F32, ALL, 0);
    float *moved = host_new(BN_F32, ALL, 0), dw[COLS] = {0};
    float *gx = gpu_copy(BN_F32, x, ALL), *gw = gpu_copy(BN_F32, w, COLS);
    float *gr = gpu_copy(BN_F32, r, ALL), *gy = gpu_new(NULL, ALL * 4);
    float *rstd = gpu_new(NULL, N * 4), *gdw = gpu_new(dw, sizeof(dw));
    float *work = gpu_new(NULL, BN_NORM_PARTS * COLS * 4);
    double loss[2], h = 1e-2;

    (void)state;
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < ALL; i++)
            moved[i] = x[i] + (float)(side ? h : -h) * d[i];
        gpu_put(gx, moved, ALL * 4);
        gpu_ok(bn_rmsnorm_cuda(BN_F32, gy, rstd, NULL, gx, NULL, gw, 1e-5f,
                               COLS, N, NULL), "rmsnorm");
        gpu_get(y, gy, ALL * 4);
        loss[side] = dot_of(BN_F32, y, r, ALL);
    }
    gpu_put(gx, x, ALL * 4);
    gpu_ok(bn_rmsnorm_cuda(BN_F32, gy, rstd, NULL, gx, NULL, gw, 1e-5f, COLS,
                           N, NULL), "rmsnorm");
    gpu_get(y, gy, ALL * 4);
    gpu_ok(bn_rmsnorm_grad_cuda(BN_F32, gy, gdw, gr, NULL, gx, gw, rstd, COLS,
                                N, work, NULL), "rmsnorm_grad");
    gpu_get(dx, gy, ALL * 4);
    double want = (loss[1] - loss[0]) / (2 * h);
    double got = dot_of(BN_F32, dx, d, ALL);
    if (fabs(got - want) > 3e-3 * (fabs(want) + 1))
        fail_msg("derivative %g, by differences %g", got, want);
    /* y is linear in w: sum dw . w = L. */
    gpu_get(dw, gdw, sizeof(dw));
    assert_true(fabs(dot_of(BN_F32, dw, w, COLS) - dot_of(BN_F32, y, r, ALL))
                < 1e-3);
    gpu_end();
}

static void head_case(enum bn_dtype t, int n, int heads, int hd, int extra,
                      int alias)
{
    int ldx = heads * hd + extra, ldy = alias ? ldx : heads * hd + 2 * extra;
    size_t nx = (size_t)n * ldx, ny = (size_t)n * ldy;
    size_t k = (size_t)n * heads;
    void *x = host_new(t, nx, 1), *w = host_new(t, (size_t)hd, 1);
    void *y = host_new(t, ny, 1), *dx = host_new(t, nx, 1);
    void *gy = gpu_copy(t, y, ny), *gx = gpu_copy(t, x, nx);
    void *gw = gpu_copy(t, w, (size_t)hd), *gdx = gpu_copy(t, dx, nx);
    float *rstd = host_new(BN_F32, k, 0), *dw = host_new(BN_F32, 256, 1);
    float *grstd = gpu_new(NULL, k * 4), *gdw = gpu_copy(BN_F32, dw, 256);
    float *work = gpu_new(NULL, (size_t)BN_NORM_PARTS * hd * 4);
    void *dy = host_new(t, ny, 1), *gdy = gpu_copy(t, dy, ny);

    bn_headnorm_ref(t, y, ldy, rstd, x, ldx, w, 1e-6f, heads, hd, n);
    gpu_ok(bn_headnorm_cuda(t, gy, ldy, grstd, gx, ldx, gw, 1e-6f, heads, hd,
                            n, NULL), "headnorm");
    gpu_close(t, gy, y, ny, 2e-6, NULL, "headnorm y");
    gpu_close(BN_F32, grstd, rstd, k, 2e-6, NULL, "headnorm rstd");
    bn_headnorm_grad_ref(t, alias ? dy : dx, alias ? ldy : ldx, dw, dy, ldy,
                         x, ldx, w, rstd, heads, hd, n);
    gpu_ok(bn_headnorm_grad_cuda(t, alias ? gdy : gdx, alias ? ldy : ldx, gdw,
                                 gdy, ldy, gx, ldx, gw, grstd, heads, hd, n,
                                 work, NULL), "headnorm_grad");
    size_t most = (ny > nx ? ny : nx) + 256;
    float *mag = host_new(BN_F32, most, 1);
    for (size_t i = 0; i < most; i++)
        mag[i] = 6;
    if (alias)
        gpu_close(t, gdy, dy, ny, 1e-5, mag, "headnorm dx over dy");
    else
        gpu_close(t, gdx, dx, nx, 1e-5, mag, "headnorm dx");
    gpu_close(BN_F32, gdw, dw, 256, 1e-5, mag, "headnorm dw");
    gpu_end();
}

static void test_headnorm(void **state)
{
    static const int s[][4] = {{1, 1, 2, 0},  {3, 2, 64, 0}, {2, 3, 80, 16},
                               {5, 1, 128, 3}, {2, 2, 256, 8}, {140, 1, 6, 1}};

    (void)state;
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < 4; i++)
            head_case(both_types[i % 2], s[k][0], s[k][1], s[k][2], s[k][3],
                      i / 2);
    for (int k = 0; k < NRANDOM; k++)
        head_case(both_types[k % 2], 1 + (int)rnd(40), 1 + (int)rnd(6),
                  2 * (1 + (int)rnd(k % 4 == 0 ? 128 : 40)),
                  (int)rnd(3) * (int)rnd(9), k / 2 % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm),
        cmocka_unit_test(test_rmsnorm_grad),
        cmocka_unit_test(test_rmsnorm_long),
#ifdef BN_EMU
        cmocka_unit_test(test_less_shared),
#endif
        cmocka_unit_test(test_rmsnorm_differences),
        cmocka_unit_test(test_headnorm),
    };

    return BN_TAP_RUN(tests);
}
