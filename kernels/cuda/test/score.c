/* From statistics of logits to a loss and back. */
#include "config.h"
#include "kernels/cuda/test/gpu.h"
#include "kernels/loss.h"
#include "kernels/score.h"

enum { SHARDS = 3 };

struct score_case {
    int rows, shards, seqs;
    unsigned most;    /* targets of a row */
    int begin;        /* targets before the chunk */
    double smoothing;
};

/* Values of targets are doubles: the device's against the reference's. */
static void close64(const double *dev, const double *want, size_t n,
                    double rel, const char *what)
{
    double *got = host_new(BN_F64, n, 0);

    gpu_get(got, dev, n * sizeof(*got));
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= rel * (1 + fabs(want[i])))
            && !(isnan(got[i]) && isnan(want[i])))
            fail_msg("%s: element %zu of %zu is %.17g, not %.17g", what, i, n,
                     got[i], want[i]);
}

static void score_run(const struct score_case *k)
{
    size_t rows = (size_t)k->rows, seqs = (size_t)k->seqs;
    int32_t *ptr = host_new(BN_I32, rows + 1, 0), *seq;

    ptr[0] = k->begin;
    for (int r = 0; r < k->rows; r++)
        ptr[r + 1] = ptr[r] + (int32_t)rnd(k->most + 1);
    int end = ptr[k->rows];
    size_t ne = (size_t)end, stride = 3 * rows + ne + 5;
    float *st = host_new(BN_F32, (size_t)k->shards * stride, 2);
    float *lse = host_new(BN_F32, rows, 0), *g = host_new(BN_F32, ne, 0);
    double *v[3], *gv[3], *sums = host_new(BN_F64, 3 * seqs, 0);
    double *dlogp = host_new(BN_F64, seqs, 0);

    seq = host_new(BN_I32, ne, 0);
    for (size_t e = 0; e < ne; e++)
        seq[e] = (int32_t)rnd((unsigned)k->seqs + 2) - 1; /* some of others */
    for (int s = 0; s < k->shards; s++)
        for (size_t r = 0; r < rows; r++) {
            float *sum = &st[(size_t)s * stride + rows + r];

            *sum = 1 + fabsf(*sum);
        }
    for (int i = 0; i < 3; i++) {
        v[i] = host_new(BN_F64, ne, 0);
        for (size_t e = 0; e < ne; e++)
            v[i][e] = -1;
        gv[i] = gpu_copy(BN_F64, v[i], ne);
    }
    for (size_t i = 0; i < 3 * seqs; i++)
        sums[i] = -0.25 * (double)i;
    for (size_t i = 0; i < seqs; i++)
        dlogp[i] = 1.0 / 3 - (double)i;
    float *gst = gpu_copy(BN_F32, st, (size_t)k->shards * stride);
    float *glse = gpu_copy(BN_F32, lse, rows), *gg = gpu_copy(BN_F32, g, ne);
    double *gsums = gpu_copy(BN_F64, sums, 3 * seqs);
    double *gd = gpu_copy(BN_F64, dlogp, seqs);
    struct bn_score_stats h = {
        k->rows, k->shards, 100, stride, st, st + rows,
        k->smoothing > 0 ? st + 2 * rows : NULL, st + 3 * rows, ptr,
        k->smoothing}, d = h;
    struct bn_score_values hv = {v[0], v[1], v[2]}, dv = {gv[0], gv[1], gv[2]};
    struct bn_score_range hr = {k->begin, end, seq}, dr = hr;

    d.max = gst;
    d.sum = gst + rows;
    d.total = k->smoothing > 0 ? gst + 2 * rows : NULL;
    d.logit = gst + 3 * rows;
    d.row_ptr = gpu_copy(BN_I32, ptr, rows + 1);
    dr.seq = gpu_copy(BN_I32, seq, ne);
    bn_score_logp_ref(&h, lse, &hv);
    gpu_ok(bn_score_logp_cuda(&d, glse, &dv, NULL), "score_logp");
    gpu_close(BN_F32, glse, lse, rows, 1e-7, NULL, "lse");
    for (int i = 0; i < 3; i++)
        close64(gv[i], v[i], ne, 1e-14, "value of a target");
    /* The sums of the reference's values: their bits. */
    for (int i = 0; i < 3; i++)
        gpu_put(gv[i], v[i], ne * sizeof(double));
    bn_score_sums_ref(sums, seqs, 1, k->seqs - 1, &hr, &hv);
    gpu_ok(bn_score_sums_cuda(gsums, seqs, 1, k->seqs - 1, &dr, &dv, NULL),
           "score_sums");
    gpu_same(gsums, sums, 3 * seqs * sizeof(double), "sums");
    for (size_t e = 0; e < ne; e++)
        seq[e] = seq[e] < 0 || seq[e] >= k->seqs ? 0 : seq[e];
    gpu_put((void *)(uintptr_t)dr.seq, seq, ne * sizeof(*seq));
    bn_score_spread_ref(g, dlogp, &hr);
    gpu_ok(bn_score_spread_cuda(gg, gd, &dr, NULL), "score_spread");
    gpu_same(gg, g, ne * sizeof(*g), "spread");
    gpu_ok(bn_score_logp_cuda(&d, glse, NULL, NULL), "score_logp");
    gpu_close(BN_F32, glse, lse, rows, 1e-7, NULL, "lse alone");
    gpu_end();
}

static void test_score(void **state)
{
    static const struct score_case k[] = {
        {1, 1, 1, 1, 0, 0},       {5, SHARDS, 3, 2, 0, 0.1},
        {300, 2, 7, 3, 17, 0},    {700, 1, 4, 1, 0, 0.25},
        {3, 1, 2, 600, 2, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(k) / sizeof(k[0]); i++)
        for (int j = 0; j < 3; j++)
            score_run(&k[i]);
    for (int i = 0; i < 12; i++) {
        struct score_case c = {1 + (int)rnd(80), 1 + (int)rnd(SHARDS),
                               1 + (int)rnd(9), 1 + rnd(5), (int)rnd(20),
                               rnd(2) ? 0.1 : 0};

        score_run(&c);
    }
}

/* Which shard's maximum is the row's, and one of none but -Inf. */
static void test_score_shards(void **state)
{
    enum { ROWS = 2, STRIDE = 3 * ROWS + 2 };
    static const float st[2 * STRIDE] = {
        -INFINITY, 2, 0, 1, 0, 0, 0, 2,     /* max, sum, total, logits */
        -1, -INFINITY, 4, 0, 0, 0, -3, 0};
    static const int32_t ptr[] = {0, 1, 2};
    double v[3][2], got;
    float lse[2];
    struct bn_score_stats s = {ROWS, 2, 8, STRIDE, NULL, NULL, NULL, NULL,
                               NULL, 0};
    struct bn_score_values gv = {gpu_new(NULL, 16), gpu_new(NULL, 16),
                                 gpu_new(NULL, 16)};
    float *gst = gpu_new(st, sizeof(st)), *glse = gpu_new(NULL, 8);

    (void)state;
    s.max = gst;
    s.sum = gst + ROWS;
    s.logit = gst + 3 * ROWS;
    s.row_ptr = gpu_new(ptr, sizeof(ptr));
    gpu_ok(bn_score_logp_cuda(&s, glse, &gv, NULL), "score_logp");
    gpu_get(lse, glse, sizeof(lse));
    gpu_get(v[0], gv.logp, 16);
    gpu_get(v[2], gv.hit, 16);
    got = -1 + log(4);
    assert_true(fabs((double)lse[0] - got) < 1e-6 && lse[1] == 2);
    assert_true(fabs(v[0][0] - (-3 - got)) < 1e-14 && v[2][0] == 0);
    assert_true(v[0][1] == 0 && v[2][1] == 1);
    gpu_end();
}

/* 'spoilt': a sequence whose sum is not finite; -1: none. */
static void loss_run(enum bn_loss_kind kind, int n, int spoilt, bool grad)
{
    size_t all = (size_t)n;
    double *sums = host_new(BN_F64, 3 * all, 0);
    double *dlogp = host_new(BN_F64, all, 0);
    int32_t *ntok = host_new(BN_I32, all, 0);
    struct bn_loss_denom denom = {37, 5};
    struct bn_loss_params p = {0.3, -1e-6};
    struct bn_loss_acc acc = {.metrics = {1, 2, 3}, .clamped = 1}, got;

    for (size_t i = 0; i < 3 * all; i++)
        sums[i] = -0.5 * (1 + (double)rnd(40));
    for (size_t i = 0; i < all; i++)
        ntok[i] = 1 + (int32_t)rnd(9);
    if (n > 4)
        sums[all + 4] = -1e-9; /* bounded, in an answer */
    if (spoilt >= 0)
        sums[spoilt] = NAN;
    double *gsums = gpu_copy(BN_F64, sums, 3 * all);
    double *gd = gpu_copy(BN_F64, dlogp, all);
    struct bn_loss_acc *gacc = gpu_new(&acc, sizeof(acc));
    struct bn_loss_seqs h = {n, sums, sums + all, sums + 2 * all, ntok};
    struct bn_loss_seqs d = {n, gsums, gsums + all, gsums + 2 * all,
                             gpu_copy(BN_I32, ntok, all)};

    bn_loss_ref(kind, &p, &h, &denom, grad ? dlogp : NULL, &acc, 3, 60);
    gpu_ok(bn_loss_cuda(kind, &p, &d, gpu_new(&denom, sizeof(denom)),
                        grad ? gd : NULL, gacc, 3, 60, NULL), "loss");
    gpu_get(&got, gacc, sizeof(got));
    for (int i = 0; i < BN_LOSS_MAX_KEYS; i++)
        if (!(fabs(got.metrics[i] - acc.metrics[i])
              <= 1e-14 * (1 + fabs(acc.metrics[i]))))
            fail_msg("metric %d is %.17g, not %.17g", i, got.metrics[i],
                     acc.metrics[i]);
    assert_true(got.clamped == acc.clamped && got.fault == acc.fault);
    assert_true(got.batch == acc.batch && got.seq == acc.seq);
    assert_true(got.ntok == acc.ntok && isnan(got.taint) == isnan(acc.taint));
    assert_int_equal(acc.fault != BN_LOSS_FINE, spoilt >= 0);
    if (spoilt >= 0)
        assert_true(acc.seq == 60 + spoilt && isnan(got.value));
    if (grad && kind != BN_LOSS_NONE)
        close64(gd, dlogp, all, 1e-13, "gradient");
    gpu_end();
}

static void test_loss(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        loss_run(BN_LOSS_SFT, 1, -1, i == 0);
        loss_run(BN_LOSS_SFT, 150, i == 0 ? -1 : 70, i == 0);
        loss_run(BN_LOSS_ORPO, 3, -1, i == 0);
        loss_run(BN_LOSS_ORPO, 3 * 131, -1, true);
        loss_run(BN_LOSS_ORPO, 3 * 131, i == 0 ? 382 : 0, true);
        loss_run(BN_LOSS_NONE, 70, i == 0 ? -1 : 69, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_score),
        cmocka_unit_test(test_score_shards),
        cmocka_unit_test(test_loss),
    };

    return BN_TAP_RUN(tests);
}
