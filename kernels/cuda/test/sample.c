/* Sampling: the CPU's token from the same logits, always. */
#include "config.h"
#include "kernels/cuda/test/gpu.h"
#include "kernels/sample.h"

enum { ROWS = 3 };

static const struct bn_sample cases[] = {
    {0, 0, 1, 0, 1},        {0, 0, 1, 0, 1.7},    {1, 0, 1, 0, 1},
    {1.9, 5, 1, 0, 1},      {1, 1, 1, 0, 1},      {1, 0, 0.9, 0, 1},
    {1, 0, 1e-9, 0, 1},     {1, 0, 1, 0.1, 1},    {0.8, 40, 0.95, 0.05, 1.3},
    {1.2, 10, 0.8, 0, 0.7}, {1, 100000, 1, 0, 1}, {0.01, 7, 0.99, 0, 1},
    {50, 0, 0.999, 0.3, 1}, {1, 500, 1, 0, 1},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

struct rows {
    struct bn_sample_rows h, g;
    int n;
};

static struct rows rows_of(int vocab, float *x, int nseen)
{
    int ld = vocab + 1;
    double *u = host_new(BN_F64, ROWS, 0);
    int32_t *ptr = host_new(BN_I32, ROWS + 1, 0);
    int32_t *seen = host_new(BN_I32, ROWS * (size_t)nseen, 0);

    for (int i = 0; i < ROWS; i++)
        u[i] = rnd(1 << 30) * 0x1p-30;
    for (int i = 0; i <= ROWS; i++)
        ptr[i] = i < 2 ? i * nseen : (i - 1) * nseen; /* one row saw none */
    for (int i = 0; i < ROWS * nseen; i++)
        seen[i] = (int32_t)rnd((unsigned)vocab);
    struct rows r = {{ROWS, vocab, ld, x, u, ptr, seen}, {0}, ld};

    r.g = r.h;
    r.g.logits = gpu_copy(BN_F32, x, ROWS * (size_t)ld);
    r.g.u = gpu_copy(BN_F64, u, ROWS);
    r.g.seen_ptr = gpu_copy(BN_I32, ptr, ROWS + 1);
    r.g.seen = gpu_copy(BN_I32, seen, ROWS * (size_t)nseen);
    return r;
}

static void same_token(const struct bn_sample *s, const struct rows *r,
                       const char *what)
{
    int32_t *want = host_new(BN_I32, ROWS, 0), got[ROWS], ref[ROWS];
    int32_t *token = gpu_new(NULL, ROWS * 4);
    void *work = gpu_new(NULL, bn_sample_work_cuda(r->h.vocab, ROWS));
    void *cpu_work = host_new(BN_F64, bn_sample_work_cpu(r->h.vocab, ROWS) / 8,
                              0);

    bn_sample_cpu(s, &r->h, want, cpu_work);
    gpu_ok(bn_sample_cuda(s, &r->g, token, work, NULL), "sample");
    gpu_get(got, token, sizeof(got));
    for (int i = 0; i < ROWS; i++)
        if (got[i] != want[i])
            fail_msg("%s, case %d, %d tokens, row %d, u %.9g: %d, the CPU has "
                     "%d", what, (int)(s - cases), r->h.vocab, i, r->h.u[i],
                     got[i], want[i]);
    if (r->h.vocab > 700)
        return;
    bn_sample_ref(s, &r->h, ref);
    for (int i = 0; i < ROWS; i++)
        if (got[i] != ref[i])
            fail_msg("%s, case %d, %d tokens, row %d, u %.9g: %d, the "
                     "reference has %d", what, (int)(s - cases), r->h.vocab,
                     i, r->h.u[i], got[i], ref[i]);
}

/* How logits lie. */
static const char *const kinds[] = {"apart", "with ties", "far apart",
                                    "all the same"};

static void fill(float *x, size_t n, int kind)
{
    for (size_t i = 0; i < n; i++) {
        float v = rnd_normal();

        x[i] = kind == 0   ? 3 * v
               : kind == 1 ? rintf(8 * v) / 4
               : kind == 2 ? 100 * v
                           : 0.5f;
        if (kind == 1 && rnd(20) == 0)
            x[i] = -0.0f;
        if (kind == 2 && rnd(20) == 0)
            x[i] = -INFINITY;
    }
}

static void test_sample(void **state)
{
    static const int vocab[] = {1, 2, 33, 511, 513, 3001};

    (void)state;
    for (int i = 0; i < 6; i++)
        for (int kind = 0; kind < 4; kind++) {
            size_t n = ROWS * ((size_t)vocab[i] + 1);

            for (int k = (i + kind) % 2; k < CASES; k += 2) {
                float *x = host_new(BN_F32, n, 0);

                fill(x, n, kind);
                for (int r = 0; r < ROWS; r++)
                    x[r * (vocab[i] + 1)] = 1; /* something is finite */
                struct rows r = rows_of(vocab[i], x, 70);

                same_token(&cases[k], &r, kinds[kind]);
                gpu_end();
            }
        }
}

/* Points on the very edges between tokens. */
static void test_sample_edges(void **state)
{
    (void)state;
    for (int k = 2; k < CASES; k++) {
        float *x = host_new(BN_F32, ROWS * 9, 0);

        for (int i = 0; i < ROWS * 9; i++)
            x[i] = i % 9 < 4 ? 2 : 1.25f;
        struct rows r = rows_of(8, x, 0);
        double u[][ROWS] = {{0, 0.25, 0.5}, {0.75, 1 - 0x1p-53, 0.125}};

        for (int i = 0; i < 2; i++) {
            r.h.u = u[i];
            r.g.u = gpu_copy(BN_F64, u[i], ROWS);
            int32_t got[ROWS], want[ROWS], *token = gpu_new(NULL, 4 * ROWS);
            void *work = gpu_new(NULL, bn_sample_work_cuda(8, ROWS));
            void *mine = host_new(BN_F64, bn_sample_work_cpu(8, ROWS) / 8, 0);

            bn_sample_cpu(&cases[k], &r.h, want, mine);
            gpu_ok(bn_sample_cuda(&cases[k], &r.g, token, work, NULL),
                   "sample");
            gpu_get(got, token, sizeof(got));
            assert_memory_equal(got, want, sizeof(got));
        }
        gpu_end();
    }
}

static void test_sample_bad(void **state)
{
    (void)state;
    for (int k = 0; k < CASES; k++) {
        int32_t got[ROWS], *token = gpu_new(NULL, 4 * ROWS);
        float *x = host_new(BN_F32, ROWS * 601, 1);

        x[577] = NAN;
        x[601 + 3] = INFINITY;
        for (int i = 0; i < 601; i++)
            x[2 * 601 + i] = -INFINITY;
        struct rows r = rows_of(600, x, 5);
        void *work = gpu_new(NULL, bn_sample_work_cuda(600, ROWS));

        gpu_ok(bn_sample_cuda(&cases[k], &r.g, token, work, NULL), "sample");
        gpu_get(got, token, sizeof(got));
        for (int i = 0; i < ROWS; i++)
            assert_int_equal(got[i], -1);
        gpu_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_sample_edges),
        cmocka_unit_test(test_sample_bad),
    };

    return BN_TAP_RUN(tests);
}
