#include "config.h"
#include "kernels/adamw.h"
#include "kernels/add.h"
#include "kernels/cast.h"
#include "kernels/dropout.h"
#include "kernels/head.h"
#include "kernels/rows.h"
#include "kernels/sqnorm.h"
#include "kernels/test/check.h"

static const int lengths[] = {0, 1, 15, 257, 4099, 70001};

static void add(enum bn_dtype t)
{
    for (size_t i = 0; i < BN_COUNT(lengths); i++) {
        size_t n = (size_t)lengths[i];
        struct buf x = buf_random(t, n, 1, 1), y = buf_random(t, n, 0, 1);
        struct buf want = buf_copy(&y);

        bn_add_cpu(t, y.p, x.p, n);
        bn_add_ref(t, want.p, x.p, n);
        buf_same(&y, &want, "add");
        buf_free(&x);
        buf_free(&y);
        buf_free(&want);
    }
}

static void bias_grad(enum bn_dtype t)
{
    for (int i = 0; i < 8; i++) {
        int cols = 1 + check_below(600), ld = cols + check_below(5);
        int n = check_below(60);
        struct buf dy = buf_random(t, (size_t)n * ld, 1, 1);
        struct buf db = buf_random(BN_F32, (size_t)cols, 1, 1);
        struct buf want = buf_copy(&db);

        bn_bias_grad_cpu(t, db.p, dy.p, ld, cols, n);
        bn_bias_grad_ref(t, want.p, dy.p, ld, cols, n);
        buf_close(&db, &want, 1e-6, 1e-5, "bias_grad");
        buf_free(&dy);
        buf_free(&db);
        buf_free(&want);
    }
}

static void dropout(enum bn_dtype t)
{
    uint32_t key[2 * 40];

    for (int i = 0; i < 16; i++) {
        int cols = 1 + check_below(900), n = check_below(40);
        struct buf x = buf_random(t, (size_t)n * cols, 1, 1);
        struct buf y = buf_random(t, (size_t)n * cols, i % 3, 1);
        struct buf want = buf_copy(&y);
        struct bn_dropout p = {.scale = 1.25f,
                               .below = i % 4 < 2 ? 0 : 858993459u,
                               .salt = {check_bits(), check_bits()},
                               .key = i % 4 < 2 ? NULL : key,
                               .col0 = check_below(50)};

        for (int k = 0; k < 2 * 40; k++)
            key[k] = check_bits();
        bn_dropout_cpu(t, y.p, x.p, &p, i % 2 != 0, cols, n);
        bn_dropout_ref(t, want.p, x.p, &p, i % 2 != 0, cols, n);
        buf_close(&y, &want, 2e-7, 2e-7, "dropout");
        buf_free(&x);
        buf_free(&y);
        buf_free(&want);
    }
}

/* The share that is dropped is the one asked for, and neighbours, other rows
 * and other salts have masks of their own: agreement as by chance. */
static void dropout_masks_are_random(void **state)
{
    enum { ROWS = 64, COLS = 1000, N = ROWS * COLS };
    uint32_t key[2 * (ROWS + 1)];
    float *x = malloc(N * sizeof(*x)), *a = malloc(N * sizeof(*x));
    float *b = malloc(N * sizeof(*x));
    struct bn_dropout p = {.scale = 1, .below = 1u << 30, .key = key};
    int kept = 0, right = 0, down = 0, salted = 0;

    (void)state;
    for (int i = 0; i < N; i++)
        x[i] = 1;
    for (int i = 0; i < 2 * (ROWS + 1); i++)
        key[i] = (uint32_t)i / 2; /* as alike as keys can be */
    bn_dropout_ref(BN_F32, a, x, &p, false, COLS, ROWS);
    p.salt[0] = 1;
    bn_dropout_ref(BN_F32, b, x, &p, false, COLS, ROWS);
    for (int i = 0; i < N; i++) {
        kept += a[i] > 0;
        right += a[i] == a[i / COLS * COLS + (i + 1) % COLS];
        down += a[i] == a[(i + COLS) % N];
        salted += a[i] == b[i];
    }
    /* 5 standard deviations: of 1/4 dropped; of 1/16 + 9/16 that agree. */
    assert_true(abs(kept - N * 3 / 4) < 550);
    assert_true(abs(right - N * 5 / 8) < 610 * 2);
    assert_true(abs(down - N * 5 / 8) < 610 * 2);
    assert_true(abs(salted - N * 5 / 8) < 610 * 2);
    free(x);
    free(a);
    free(b);
}

static void rows(enum bn_dtype t)
{
    for (int i = 0; i < 6; i++) {
        int32_t pick[40];
        int cols = 1 + check_below(900), n = check_below(40);
        struct buf x = buf_random(t, (size_t)50 * cols, 1, 1);
        struct buf y = buf_new(t, (size_t)n * cols, 1), y2 = buf_copy(&y);
        struct buf d = buf_new(t, x.n, 1), d2 = buf_copy(&d);

        for (int k = 0; k < n; k++)
            pick[k] = (k * 7 + i) % 50; /* all different */
        bn_gather_cpu(t, y.p, x.p, pick, cols, n);
        bn_gather_ref(t, y2.p, x.p, pick, cols, n);
        buf_same(&y, &y2, "gather");
        bn_scatter_cpu(t, d.p, y.p, pick, cols, n);
        bn_scatter_ref(t, d2.p, y.p, pick, cols, n);
        buf_same(&d, &d2, "scatter");
        buf_free(&x);
        buf_free(&y);
        buf_free(&y2);
        buf_free(&d);
        buf_free(&d2);
    }
}

/* Every pattern of 16 bits, and floats around every step of theirs. */
static void cast(enum bn_dtype t)
{
    static const enum bn_dtype types[] = {BN_F32, BN_BF16, BN_F16, BN_F64};
    size_t n = 3 << 16;
    struct buf f = buf_new(BN_F64, n, 1);

    for (size_t i = 0; i < n; i++) {
        uint16_t half = (uint16_t)(i / 3);
        double d =
            t == BN_BF16 ? bn_bf16_to_float(half) : bn_f16_to_float(half);
        /* the value, and just beside the middle to the next */
        if (i % 3 != 0)
            d *= 1 + (t == BN_BF16 ? 0x1p-9 : 0x1p-12)
                 + (i % 3 == 1 ? 0x1p-40 : -0x1p-40);
        ((double *)f.p)[i] = d;
    }
    for (size_t s = 0; s < BN_COUNT(types); s++) {
        struct buf src = buf_new(types[s], n, 1);

        assert_int_equal(bn_cast_ref(src.p, types[s], f.p, BN_F64, n), 0);
        for (size_t d = 0; d < BN_COUNT(types); d++) {
            struct buf a = buf_new(types[d], n, 1), b = buf_copy(&a);

            assert_int_equal(bn_cast_cpu(a.p, types[d], src.p, types[s], n), 0);
            bn_cast_ref(b.p, types[d], src.p, types[s], n);
            buf_same(&a, &b, "cast");
            buf_free(&a);
            buf_free(&b);
        }
        buf_free(&src);
    }
    assert_int_equal(bn_cast_cpu(f.p, BN_I32, f.p, BN_F64, 1), -1);
    assert_int_equal(bn_cast_cpu(f.p, BN_F64, f.p, BN_F64, n), 0);
    buf_free(&f);
}

static void cast_reference_is_right(void **state)
{
    /* From the definitions of the formats. */
    static const struct {
        double d;
        uint16_t bf16, f16;
    } known[] = {
        {1, 0x3f80, 0x3c00},
        {-2, 0xc000, 0xc000},
        {65504, 0x4780, 0x7bff},
        {65519.999, 0x4780, 0x7bff},
        {65520, 0x4780, 0x7c00},
        {1 + 0x1p-8, 0x3f80, 0x3c04},              /* a tie to even */
        {1 + 0x1p-8 + 0x1p-50, 0x3f81, 0x3c04},    /* just above it */
        {1 + 3 * 0x1p-8, 0x3f82, 0x3c0c},          /* to even, up */
        {0x1p-24, 0x3380, 0x0001},                 /* least of F16 */
        {0x1p-25, 0x3300, 0x0000},                 /* tie to zero */
        {0x1p-25 * (1 + 0x1p-40), 0x3300, 0x0001}, /* just above */
        {0x1p-133, 0x0001, 0x0000},                /* least of BF16 */
        {1e300, 0x7f80, 0x7c00},
        {-INFINITY, 0xff80, 0xfc00},
    };

    (void)state;
    for (size_t i = 0; i < BN_COUNT(known); i++) {
        uint16_t b, h;

        bn_cast_ref(&b, BN_BF16, &known[i].d, BN_F64, 1);
        bn_cast_ref(&h, BN_F16, &known[i].d, BN_F64, 1);
        if (b != known[i].bf16 || h != known[i].f16)
            fail_msg("%a becomes %04x %04x, not %04x %04x", known[i].d, b, h,
                     known[i].bf16, known[i].f16);
    }
}

static void sqnorm(enum bn_dtype t)
{
    (void)t;
    for (size_t i = 0; i < BN_COUNT(lengths); i++) {
        struct buf g = buf_random(BN_F32, (size_t)lengths[i], 1, 3);
        double a = 1, b = 1;

        bn_sqnorm_cpu(&a, g.p, g.n);
        bn_sqnorm_ref(&b, g.p, g.n);
        if (!(fabs(a - b) <= 1e-6 * b))
            fail_msg("sqnorm %.9g, not %.9g", a, b);
        if (g.n > 0) {
            ((float *)g.p)[g.n - 1] = NAN;
            bn_sqnorm_cpu(&a, g.p, g.n);
            assert_true(isnan(a));
        }
        buf_free(&g);
    }
    const double sq[] = {0, 4, 1e-30, 1e300, INFINITY, NAN};
    for (size_t i = 0; i < BN_COUNT(sq); i++) {
        for (int m = 0; m < 3; m++) {
            float a, b;

            bn_clip_scale_cpu(&a, &sq[i], (float)m);
            bn_clip_scale_ref(&b, &sq[i], (float)m);
            assert_memory_equal(&a, &b, sizeof(a));
            assert_true(isfinite(sq[i]) ? a >= 0 && a <= 1 : isnan(a));
        }
    }
}

/* The forms: w apart, none, the master itself. */
static void adamw_form(enum bn_dtype t, size_t n, int form)
{
    const struct bn_adamw a = {0.9f, 0.99f, 1e-8f, 0.1f};
    struct bn_adamw_now now = {NAN, 1e-2f, 0.3f, 0.05f};
    struct buf p = buf_random(BN_F32, n, 1, 1), p2;
    struct buf m = buf_random(BN_F32, n, 1, 1), m2;
    struct buf v = buf_random(BN_F32, n, 0, 1), v2;
    struct buf g = buf_random(BN_F32, n, 0, 1);
    struct buf w = buf_new(t, n, 1), w2 = buf_copy(&w);

    for (size_t i = 0; i < n; i++) { /* some as before the first step */
        ((float *)v.p)[i] = i % 5 == 0 ? 0 : 0.1f + fabsf(((float *)v.p)[i]);
        ((float *)m.p)[i] *= i % 5 == 0 ? 0 : 1;
    }
    m2 = buf_copy(&m);
    v2 = buf_copy(&v);
    p2 = buf_copy(&p);
    void *to = form == 0 ? w.p : form == 1 ? NULL : p.p;
    if (form == 2 && t != BN_F32)
        to = NULL;
    bn_adamw_cpu(t, &a, to, p.p, m.p, v.p, g.p, &now, n);
    buf_same(&p, &p2, "adamw skipped");
    buf_same(&m, &m2, "adamw skipped");
    now.scale = 0.5f;
    bn_adamw_cpu(t, &a, to, p.p, m.p, v.p, g.p, &now, n);
    bn_adamw_ref(t, &a, form == 0 ? w2.p : NULL, p2.p, m2.p, v2.p, g.p, &now,
                 n);
    buf_close(&p, &p2, 1e-6, 1e-7, "adamw p");
    buf_close(&m, &m2, 1e-6, 1e-7, "adamw m");
    buf_close(&v, &v2, 1e-6, 1e-9, "adamw v");
    if (form == 0) /* w is the rounded master */
        for (size_t i = 0; i < n; i++)
            bn_put(t, w2.p, i, ((float *)p.p)[i]);
    buf_same(&w, &w2, "adamw w");
    buf_free(&p);
    buf_free(&p2);
    buf_free(&m);
    buf_free(&m2);
    buf_free(&v);
    buf_free(&v2);
    buf_free(&g);
    buf_free(&w);
    buf_free(&w2);
}

static void adamw(enum bn_dtype t)
{
    for (size_t i = 0; i < BN_COUNT(lengths); i++)
        for (int form = 0; form < 3; form++)
            adamw_form(t, (size_t)lengths[i], form);
}

enum { HEAD_ROWS = 9, MAX_TARGETS = 64 };

struct head {
    struct bn_head_rows h;
    int32_t ptr[HEAD_ROWS + 1], target[MAX_TARGETS];
    struct buf logits, max, sum, total, tl, lse, g;
};

/* Rows with none, one and many targets, some of other shards, some twice. */
static void head_init(struct head *d, int cols)
{
    int n = 0;

    for (int r = 0; r < HEAD_ROWS; r++) {
        int count = r == 2 ? 0 : r == 5 ? 12 : 1 + check_below(2);

        d->ptr[r] = n;
        for (int e = 0; e < count; e++)
            d->target[n++] = check_below(cols + 4) - 2;
    }
    d->target[d->ptr[1]] = d->target[d->ptr[0]] = cols - 1;
    d->ptr[HEAD_ROWS] = n;
    d->h = (struct bn_head_rows){HEAD_ROWS,    cols,   cols + 3,
                                 3 * cols + 7, d->ptr, d->target};
    d->logits = buf_random(BN_F32, (size_t)HEAD_ROWS * d->h.ld, 1, 4);
    d->max = buf_new(BN_F32, HEAD_ROWS, 0);
    d->sum = buf_new(BN_F32, HEAD_ROWS, 1);
    d->total = buf_new(BN_F32, HEAD_ROWS, 1);
    d->tl = buf_new(BN_F32, (size_t)n, 1);
    d->g = buf_random(BN_F32, (size_t)n, 1, 1);
    d->lse = buf_new(BN_F32, HEAD_ROWS, 1);
}

static void head_free(struct head *d)
{
    buf_free(&d->logits);
    buf_free(&d->max);
    buf_free(&d->sum);
    buf_free(&d->total);
    buf_free(&d->tl);
    buf_free(&d->g);
    buf_free(&d->lse);
}

static void head_one(enum bn_dtype t, int cols)
{
    struct head d;

    head_init(&d, cols);
    struct buf max = buf_copy(&d.max), sum = buf_copy(&d.sum);
    struct buf total = buf_copy(&d.total), tl = buf_copy(&d.tl);
    int ld = d.h.ld + 2;
    struct buf out = buf_new(t, (size_t)HEAD_ROWS * ld, 1);
    struct buf want = buf_copy(&out);

    bn_head_stats_cpu(&d.h, d.logits.p, d.max.p, d.sum.p, d.total.p, d.tl.p);
    bn_head_stats_ref(&d.h, d.logits.p, max.p, sum.p, total.p, tl.p);
    buf_same(&d.max, &max, "head max");
    buf_close(&d.sum, &sum, 2e-6, 0, "head sum");
    buf_close(&d.total, &total, 1e-6, 1e-6 * cols, "head total");
    buf_same(&d.tl, &tl, "target logit");
    bn_head_stats_cpu(&d.h, d.logits.p, d.max.p, d.sum.p, NULL, d.tl.p);
    for (int r = 0; r < HEAD_ROWS; r++)
        ((float *)d.lse.p)[r] = ((float *)max.p)[r] + logf(((float *)sum.p)[r]);
    bn_head_grad_cpu(t, &d.h, out.p, ld, d.logits.p, d.lse.p, d.g.p, 0.1f);
    bn_head_grad_ref(t, &d.h, want.p, ld, d.logits.p, d.lse.p, d.g.p, 0.1f);
    buf_close(&out, &want, 1e-6, 1e-5, "head_grad");
    /* In place: each row over the logits it is made from. */
    int over = t == BN_F32 ? d.h.ld : 2 * d.h.ld;
    bn_head_grad_cpu(t, &d.h, d.logits.p, over, d.logits.p, d.lse.p, d.g.p,
                     0.1f);
    for (int r = 0; r < HEAD_ROWS; r++) {
        size_t size = bn_dtype_size(t);

        assert_memory_equal((char *)out.p + (size_t)r * ld * size,
                            (char *)d.logits.p + (size_t)r * over * size,
                            (size_t)cols * size);
    }
    buf_free(&max);
    buf_free(&sum);
    buf_free(&total);
    buf_free(&tl);
    buf_free(&out);
    buf_free(&want);
    head_free(&d);
}

static void head(enum bn_dtype t)
{
    static const int cols[] = {1, 2, 33, 1024, 1025, 5003};

    for (size_t i = 0; i < BN_COUNT(cols); i++)
        head_one(t, cols[i]);
}

/* log p of every target, smoothed, as the formulas of loss/ have it. */
static struct buf logp;

static void head_forward(void *arg)
{
    struct head *d = arg;
    double s = 0.1, vocab = d->h.cols;

    bn_head_stats_ref(&d->h, d->logits.p, d->max.p, d->sum.p, d->total.p,
                      d->tl.p);
    for (int r = 0; r < HEAD_ROWS; r++) {
        double lse = ((float *)d->max.p)[r] + log(((float *)d->sum.p)[r]);

        ((float *)d->lse.p)[r] = (float)lse;
        for (int e = d->ptr[r]; e < d->ptr[r + 1]; e++)
            ((float *)logp.p)[e] =
                (float)((1 - s) * ((float *)d->tl.p)[e]
                        + s * ((float *)d->total.p)[r] / vocab - lse);
    }
}

static void head_reference_has_right_gradient(void **state)
{
    struct head d;

    (void)state;
    head_init(&d, 7);
    d.h.vocab = d.h.cols;
    for (int e = 0; e < d.ptr[HEAD_ROWS]; e++) /* all of this shard */
        d.target[e] = check_below(d.h.cols);
    logp = buf_new(BN_F32, d.g.n, 0);
    struct buf dx = buf_new(BN_F32, d.logits.n, 0);
    head_forward(&d);
    bn_head_grad_ref(BN_F32, &d.h, dx.p, d.h.ld, d.logits.p, d.lse.p, d.g.p,
                     0.1f);
    check_slopes(&d.logits, &dx, d.h.ld, d.h.cols, head_forward, &d, &logp,
                 &d.g, "dlogits");
    buf_free(&dx);
    buf_free(&logp);
    head_free(&d);
}

#define EVERYWHERE(name)                                                       \
    static void name##_agrees(void **state)                                    \
    {                                                                          \
        (void)state;                                                           \
        check_all(name);                                                       \
    }
EVERYWHERE(add)
EVERYWHERE(bias_grad)
EVERYWHERE(dropout)
EVERYWHERE(rows)
EVERYWHERE(cast)
EVERYWHERE(sqnorm)
EVERYWHERE(adamw)
EVERYWHERE(head)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cast_reference_is_right),
        cmocka_unit_test(head_reference_has_right_gradient),
        cmocka_unit_test(add_agrees),
        cmocka_unit_test(bias_grad_agrees),
        cmocka_unit_test(dropout_masks_are_random),
        cmocka_unit_test(dropout_agrees),
        cmocka_unit_test(rows_agrees),
        cmocka_unit_test(cast_agrees),
        cmocka_unit_test(sqnorm_agrees),
        cmocka_unit_test(adamw_agrees),
        cmocka_unit_test(head_agrees),
    };

    return BN_TAP_RUN(tests);
}
