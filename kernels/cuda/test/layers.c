#include "config.h"
#include "kernels/add.h"
#include "kernels/cast.h"
#include "kernels/cuda/test/gpu.h"
#include "kernels/dropout.h"
#include "kernels/embed.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "kernels/swiglu.h"

/* Random shapes beside those of the tables: odd, and of whole vectors. */
enum { NRANDOM = 12 };
static int random_cols(int most)
{
    int cols = 1 + (int)rnd((unsigned)most);

    return rnd(3) == 0 ? (cols + 7) / 8 * 8 : cols;
}

static void rope_case(enum bn_dtype t, int n, int heads, int hd, int extra)
{
    enum { MAX_POS = 37 };
    int ldx = heads * hd + extra, h = hd / 2;
    size_t all = (size_t)n * ldx, tab = (size_t)MAX_POS * h;
    void *x = host_new(t, all, 1), *gx = gpu_copy(t, x, all);
    float *c = host_new(BN_F32, tab, 1), *s = host_new(BN_F32, tab, 1);
    int32_t *pos = host_new(BN_F32, (size_t)n, 0);
    float *mag = host_new(BN_F32, all, 1);

    for (size_t i = 0; i < tab; i++) {
        s[i] = sinf(c[i]);
        c[i] = cosf(c[i]);
    }
    for (int i = 0; i < n; i++)
        pos[i] = (int32_t)rnd(MAX_POS);
    for (size_t i = 0; i < all; i++)
        mag[i] = 6;
    float *gc = gpu_copy(BN_F32, c, tab), *gs = gpu_copy(BN_F32, s, tab);
    int32_t *gpos = gpu_copy(BN_F32, pos, (size_t)n);
    for (int inverse = 0; inverse < 2; inverse++) {
        bn_rope_ref(t, x, ldx, c, s, pos, heads, hd, n, inverse == 1);
        gpu_ok(bn_rope_cuda(t, gx, ldx, gc, gs, gpos, heads, hd, n,
                            inverse == 1, NULL), "rope");
        gpu_close(t, gx, x, all, t == BN_F32 ? 1e-6 : 8e-3, mag, "rope");
        gpu_put(gx, x, all * bn_dtype_size(t));
    }
    gpu_end();
}

static void test_rope(void **state)
{
    static const int s[][4] = {{1, 1, 2, 0},  {3, 2, 64, 0},  {2, 3, 80, 16},
                               {5, 1, 128, 3}, {2, 40, 96, 8}, {7, 1, 6, 1}};

    (void)state;
    for (int k = 0; k < 6; k++)
        for (int i = 0; i < 2; i++)
            rope_case(both_types[i], s[k][0], s[k][1], s[k][2], s[k][3]);
    for (int k = 0; k < NRANDOM; k++)
        rope_case(both_types[k % 2], 1 + (int)rnd(30), 1 + (int)rnd(9),
                  2 * (1 + (int)rnd(64)), (int)rnd(3) * (int)rnd(9));
}

static void swiglu_case(enum bn_dtype t, int n, int f, int alias)
{
    size_t all = (size_t)n * f;
    void *gu = host_new(t, 2 * all, 3), *y = host_new(t, all, 0);
    void *dy = host_new(t, all, 1), *dgu = host_new(t, 2 * all, 0);
    void *ggu = gpu_copy(t, gu, 2 * all), *gy = gpu_copy(t, y, all);
    void *gdy = gpu_copy(t, dy, all), *gdgu = gpu_copy(t, dgu, 2 * all);
    float *mag = host_new(BN_F32, 2 * all, 1);

    bn_swiglu_ref(t, y, gu, f, n);
    gpu_ok(bn_swiglu_cuda(t, gy, ggu, f, n, NULL), "swiglu");
    gpu_close(t, gy, y, all, 1e-6, NULL, "swiglu y");
    for (size_t i = 0; i < all; i++) {
        size_t g = i / (size_t)f * 2 * (size_t)f + i % (size_t)f;

        mag[g] = mag[g + (size_t)f] = fabsf(bn_get(t, dy, i))
            * (fabsf(bn_get(t, gu, g)) + fabsf(bn_get(t, gu, g + (size_t)f)));
    }
    if (alias) {
        gdgu = ggu;
        gy = gdy;
    }
    bn_swiglu_grad_ref(t, dgu, y, dy, gu, f, n);
    gpu_ok(bn_swiglu_grad_cuda(t, gdgu, alias == 2 ? NULL : gy, gdy, ggu, f,
                               n, NULL), "swiglu_grad");
    gpu_close(t, gdgu, dgu, 2 * all, 2e-6, mag, "swiglu dgu");
    if (alias < 2)
        gpu_close(t, gy, y, all, 1e-6, NULL, "swiglu y again");
    gpu_end();
}

static void test_swiglu(void **state)
{
    static const int s[][2] = {{1, 1}, {3, 31}, {2, 512}, {5, 264}, {70, 9}};

    (void)state;
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 6; i++)
            swiglu_case(both_types[i % 2], s[k][0], s[k][1], i / 2);
    for (int k = 0; k < NRANDOM; k++)
        swiglu_case(both_types[k % 2], 1 + (int)rnd(40), random_cols(300),
                    k / 2 % 3);
}

static void embed_case(enum bn_dtype t, int n, int cols, int first, int count,
                       unsigned vocab)
{
    size_t all = (size_t)n * cols, tab = (size_t)count * cols;
    void *table = host_new(t, tab, 1), *y = host_new(t, all, 0);
    void *dy = host_new(t, all, 1), *gdy = gpu_copy(t, dy, all);
    void *gt = gpu_copy(t, table, tab), *gy = gpu_copy(t, y, all);
    float *dt = host_new(BN_F32, tab, 1), *gdt = gpu_copy(BN_F32, dt, tab);
    float *mag = host_new(BN_F32, tab, 1);
    int32_t *ids = host_new(BN_F32, (size_t)n, 0);

    for (size_t i = 0; i < tab; i++)
        mag[i] = fabsf(dt[i]);
    for (int i = 0; i < n; i++) {
        ids[i] = (int32_t)rnd(vocab);
        int k = ids[i] - first;
        for (int c = 0; k >= 0 && k < count && c < cols; c++)
            mag[(size_t)k * cols + c] += fabsf(
                bn_get(t, dy, (size_t)i * cols + c));
    }
    int32_t *gids = gpu_copy(BN_F32, ids, (size_t)n);
    bn_embed_ref(t, y, table, ids, first, count, cols, n);
    gpu_ok(bn_embed_cuda(t, gy, gt, gids, first, count, cols, n, NULL),
           "embed");
    gpu_same(gy, y, all * bn_dtype_size(t), "embed");
    bn_embed_grad_ref(t, dt, dy, ids, first, count, cols, n);
    gpu_ok(bn_embed_grad_cuda(t, gdt, gdy, gids, first, count, cols, n, NULL),
           "embed_grad");
    gpu_close(BN_F32, gdt, dt, tab, 1e-6, mag, "embed_grad");
    gpu_end();
}

static void test_embed(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        embed_case(both_types[i], 1, 1, 0, 1, 1);
        embed_case(both_types[i], 300, 24, 0, 5, 5);
        embed_case(both_types[i], 150, 33, 10, 20, 40);
        embed_case(both_types[i], 40, 1100, 0, 50, 50);
    }
    for (int k = 0; k < NRANDOM; k++)
        embed_case(both_types[k % 2], 1 + (int)rnd(200), random_cols(150),
                   (int)rnd(8), 1 + (int)rnd(20), 1 + rnd(40));
}

static void rows_case(enum bn_dtype t, int n, int cols, int total)
{
    size_t all = (size_t)n * cols, big = (size_t)total * cols;
    size_t size = bn_dtype_size(t);
    char *x = host_new(t, big, 1), *y = host_new(t, all, 0);
    void *gx = gpu_copy(t, x, big), *gy = gpu_copy(t, y, all);
    int32_t *rows = host_new(BN_F32, (size_t)total, 0);

    for (int i = 0; i < total; i++)
        rows[i] = i;
    for (int i = 0; i < total; i++) {
        int j = (int)rnd((unsigned)total), k = rows[i];
        rows[i] = rows[j];
        rows[j] = k;
    }
    int32_t *grows = gpu_copy(BN_F32, rows, (size_t)total);
    bn_gather_ref(t, y, x, rows, cols, n);
    gpu_ok(bn_gather_cuda(t, gy, gx, grows, cols, n, NULL), "gather");
    gpu_same(gy, y, all * size, "gather");
    y = host_new(t, all, 1);
    gpu_put(gy, y, all * size);
    bn_scatter_ref(t, x, y, rows, cols, n);
    gpu_ok(bn_scatter_cuda(t, gx, gy, grows, cols, n, NULL), "scatter");
    gpu_same(gx, x, big * size, "scatter");
    gpu_end();
}

static void test_rows(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        rows_case(both_types[i], 1, 1, 1);
        rows_case(both_types[i], 5, 33, 9);
        rows_case(both_types[i], 3, 1032, 4);
    }
    for (int k = 0; k < NRANDOM; k++) {
        int few = 1 + (int)rnd(50);

        rows_case(both_types[k % 2], few, random_cols(400),
                  few + (int)rnd(20));
    }
}

static void test_add(void **state)
{
    static const size_t n[] = {1, 7, 8, 2049, 5000};

    (void)state;
    for (int i = 0; i < 10 + NRANDOM; i++) {
        enum bn_dtype t = both_types[i % 2];
        size_t all = i < 10 ? n[i / 2] : 1 + rnd(9000), size = bn_dtype_size(t);
        char *x = host_new(t, all + 1, 1), *y = host_new(t, all, 1);
        char *gx = gpu_copy(t, x, all + 1);
        void *gy = gpu_copy(t, y, all);
        size_t off = all % 2 * size; /* not aligned for odd sizes */

        bn_add_ref(t, y, x + off, all);
        gpu_ok(bn_add_cuda(t, gy, gx + off, all, NULL), "add");
        gpu_same(gy, y, all * size, "add");
        gpu_end();
    }
}

static void test_dropout(void **state)
{
    static const int s[][2] = {{1, 1}, {5, 33}, {9, 64}, {40, 264}};
    uint32_t key[2 * 40];

    (void)state;
    for (int i = 0; i < 32 + NRANDOM; i++) {
        enum bn_dtype t = both_types[i % 2];
        int n = i < 32 ? s[i / 8][0] : 1 + (int)rnd(40);
        int cols = i < 32 ? s[i / 8][1] : random_cols(300);
        bool acc = i / 2 % 2 != 0, drop = i / 4 % 2 != 0;
        size_t all = (size_t)n * cols;
        void *x = host_new(t, all, 1), *y = host_new(t, all, 1);
        void *gx = gpu_copy(t, x, all), *gy = gpu_copy(t, y, all);
        float *mag = host_new(BN_F32, all, 1);
        struct bn_dropout p = {.scale = 1.25f,
                               .below = drop ? 858993459u : 0,
                               .salt = {77, (uint32_t)i},
                               .col0 = 3};

        for (int k = 0; k < 2 * n; k++)
            key[k] = (uint32_t)k * 2654435761u;
        for (size_t k = 0; k < all; k++)
            mag[k] = 1.25f * fabsf(bn_get(t, x, k))
                     + (acc ? fabsf(bn_get(t, y, k)) : 0);
        p.key = key;
        bn_dropout_ref(t, y, x, &p, acc, cols, n);
        p.key = drop ? gpu_copy(BN_I32, key, 2 * (size_t)n) : NULL;
        gpu_ok(bn_dropout_cuda(t, gy, gx, &p, acc, cols, n, NULL), "dropout");
        gpu_close(t, gy, y, all, 2e-7, mag, "dropout");
        gpu_end();
    }
}

static void test_bias_grad(void **state)
{
    static const int s[][3] = {
        {1, 1, 0}, {5, 33, 2}, {300, 72, 8}, {2, 1000, 0}};

    (void)state;
    for (int k = 0; k < 8 + NRANDOM; k++) {
        enum bn_dtype t = both_types[k % 2];
        int n = k < 8 ? s[k / 2][0] : 1 + (int)rnd(300);
        int cols = k < 8 ? s[k / 2][1] : random_cols(300);
        int ld = cols + (k < 8 ? s[k / 2][2] : (int)rnd(9));
        size_t all = (size_t)n * ld;
        void *dy = host_new(t, all, 1), *gdy = gpu_copy(t, dy, all);
        float *db = host_new(BN_F32, (size_t)cols, 1);
        float *gdb = gpu_copy(BN_F32, db, (size_t)cols);
        float *work = gpu_new(NULL, (size_t)BN_BIAS_PARTS * cols * 4);
        float *mag = host_new(BN_F32, (size_t)cols, 1);

        for (int c = 0; c < cols; c++) {
            mag[c] = fabsf(db[c]);
            for (int i = 0; i < n; i++)
                mag[c] += fabsf(bn_get(t, dy, (size_t)i * ld + c));
        }
        bn_bias_grad_ref(t, db, dy, ld, cols, n);
        gpu_ok(bn_bias_grad_cuda(t, gdb, gdy, ld, cols, n, work, NULL),
               "bias_grad");
        gpu_close(BN_F32, gdb, db, (size_t)cols, 1e-6, mag, "bias_grad");
        gpu_end();
    }
}

static void test_cast(void **state)
{
    static const enum bn_dtype types[] = {BN_F32, BN_BF16, BN_F16};
    static const float odd[] = {0, -0.0f, INFINITY, NAN, 65519, 65520, 1e-7f,
                                6e-8f, 1e-40f, 3.4e38f, 1.00390625f};

    (void)state;
    for (int i = 0; i < 9; i++) {
        enum bn_dtype d = types[i % 3], s = types[i / 3];
        size_t n = 2048 + rnd(300), ds = bn_dtype_size(d), ss = bn_dtype_size(s);
        float *f = host_new(BN_F32, n, 100);
        char *src = host_new(BN_F32, n, 0), *dst = host_new(BN_F32, n, 0);

        memcpy(f, odd, sizeof(odd));
        if (d == BN_F16 && s == BN_BF16)
            f[3] = 1; /* the bits of a NaN are not promised */
        assert_int_equal(bn_cast_ref(src, s, f, BN_F32, n), 0);
        if (d != s)
            f[3] = 1;
        assert_int_equal(bn_cast_ref(src, s, f, BN_F32, n), 0);
        char *gs = gpu_new(src, n * ss), *gd = gpu_new(NULL, n * ds);
        for (size_t off = 0; off < 2; off++) {
            size_t m = n - off - 3 * off;

            assert_int_equal(bn_cast_ref(dst, d, src + off * ss, s, m), 0);
            gpu_ok(bn_cast_cuda(gd, d, gs + off * ss, s, m, NULL), "cast");
            gpu_same(gd, dst, m * ds, "cast");
        }
        gpu_end();
    }
    assert_int_equal(bn_cast_cuda(NULL, BN_I8, NULL, BN_F32, 1, NULL),
                     cudaErrorInvalidValue);
    assert_int_equal(bn_cast_cuda(NULL, BN_F32, NULL, BN_U8, 1, NULL),
                     cudaErrorInvalidValue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope),   cmocka_unit_test(test_swiglu),
        cmocka_unit_test(test_embed),  cmocka_unit_test(test_rows),
        cmocka_unit_test(test_add),    cmocka_unit_test(test_bias_grad),
        cmocka_unit_test(test_cast),   cmocka_unit_test(test_dropout),
    };

    return BN_TAP_RUN(tests);
}
