/* Every backward slot of the CPU's table against central differences of its
 * forward slot, in float, with rows of ld elements where a slot takes them.
 */
#include "config.h"
#include "kernels/test/check.h"
#include "ops/ops.h"

#include <stdio.h>

enum { N = 5, COLS = 12, ROWS = 9, LD = ROWS + 2, HEADS = 3, HD = 4, VOCAB = 4 };

static struct bn_dev *d;
static struct buf x, w, b, y, dy, dx, dw, db, xo, dxo, r;
static struct bn_mat mat;
static float cosine[8 * HD / 2], sine[8 * HD / 2];
static const int32_t ids[N] = {3, 1, 5, 4, 3}; /* 5 and 1: other shards' */
static const int32_t pos[N] = {0, 1, 2, 0, 7};
static const int32_t some[N - 2] = {4, 0, 2};

static struct buf zeros(size_t n)
{
    struct buf z = buf_new(BN_F32, n, 0);

    memset(z.p, 0, n * sizeof(float));
    return z;
}

/* Of so many elements: x, w and y. */
static void begin(size_t nx, size_t nw, size_t ny)
{
    x = buf_random(BN_F32, nx, 1, 1);
    w = buf_random(BN_F32, nw, 0, 1);
    b = buf_random(BN_F32, ROWS, 0, 1);
    y = zeros(ny);
    dy = buf_random(BN_F32, ny, 0, 1);
    dx = zeros(nx);
    dw = zeros(nw);
    db = zeros(ROWS);
    xo = zeros(nx);
    dxo = buf_random(BN_F32, nx, 0, 1);
    r = zeros((size_t)N * HEADS);
    for (int i = 0; i < 8 * HD / 2; i++) {
        cosine[i] = cosf((float)i);
        sine[i] = sinf((float)i);
    }
}

static void end(void)
{
    struct buf *all[] = {&x, &w, &b, &y, &dy, &dx, &dw, &db, &xo, &dxo, &r};
    struct bn_err err;

    for (size_t i = 0; i < BN_COUNT(all); i++)
        buf_free(all[i]);
    if (bn_dev_check(d, &err) < 0)
        fail_msg("%s", err.text);
}

static void slopes(struct buf *of, const struct buf *got, void (*forward)(void *),
                   const char *what)
{
    check_slopes(of, got, 1, 1, forward, NULL, &y, &dy, what);
}

/* --- products --------------------------------------------------------------- */

static void linear(void *arg)
{
    (void)arg;
    d->op.mat_changed(d, BN_F32, &mat); /* w may have been moved */
    d->op.linear(d, BN_F32, y.p, LD, x.p, &mat, b.p, N, false);
}

static void logits(void *arg)
{
    (void)arg;
    d->op.mat_changed(d, BN_F32, &mat);
    d->op.linear_f32(d, BN_F32, y.p, LD, x.p, &mat, N);
}

static void products(void **state)
{
    (void)state;
    begin((size_t)N * COLS, (size_t)ROWS * COLS, (size_t)N * LD);
    for (size_t i = 0; i < dy.n; i++) /* between the rows is nothing */
        if (i % LD >= ROWS)
            ((float *)dy.p)[i] = 0;
    mat = (struct bn_mat){.data = w.p, .rows = ROWS, .cols = COLS};
    linear(NULL);
    d->op.linear_dx(d, BN_F32, dx.p, dy.p, LD, &mat, N, false);
    d->op.linear_dw(d, BN_F32, dw.p, dy.p, LD, x.p, ROWS, COLS, N);
    d->op.bias_grad(d, BN_F32, db.p, dy.p, LD, ROWS, N);
    slopes(&x, &dx, linear, "linear, dx");
    slopes(&w, &dw, linear, "linear, dw");
    slopes(&b, &db, linear, "linear, bias");
    slopes(&x, &dx, logits, "linear_f32, dx");
    slopes(&w, &dw, logits, "linear_f32, dw");
    d->op.mat_release(d, &mat);
    end();
}

/* --- layers ----------------------------------------------------------------- */

static void embed(void *arg)
{
    (void)arg;
    d->op.embed(d, BN_F32, y.p, w.p, ids, 2, VOCAB - 1, COLS, N);
}

static void embed_has_its_slopes(void **state)
{
    (void)state;
    begin(1, (size_t)(VOCAB - 1) * COLS, (size_t)N * COLS);
    d->op.embed_grad(d, BN_F32, dw.p, dy.p, ids, 2, VOCAB - 1, COLS, N);
    slopes(&w, &dw, embed, "embed, dw");
    end();
}

static void rmsnorm(void *arg)
{
    (void)arg;
    d->op.rmsnorm(d, BN_F32, y.p, r.p, NULL, x.p, NULL, w.p, 1e-5f, COLS, N);
}

/* y = norm(x + delta) + (x + delta), which is what a layer makes of them. */
static void sum_norm(void *arg)
{
    (void)arg;
    d->op.rmsnorm(d, BN_F32, y.p, r.p, xo.p, x.p, dxo.p, w.p, 1e-5f, COLS, N);
    d->op.add(d, BN_F32, y.p, xo.p, x.n);
}

static void rmsnorm_has_its_slopes(void **state)
{
    (void)state;
    begin((size_t)N * COLS, COLS, (size_t)N * COLS);
    rmsnorm(NULL);
    d->op.rmsnorm_grad(d, BN_F32, dx.p, dw.p, dy.p, NULL, x.p, w.p, r.p, COLS,
                       N);
    slopes(&x, &dx, rmsnorm, "rmsnorm, dx");
    slopes(&w, &dw, rmsnorm, "rmsnorm, dw");
    sum_norm(NULL);
    memset(dw.p, 0, dw.n * sizeof(float));
    d->op.rmsnorm_grad(d, BN_F32, dx.p, dw.p, dy.p, dy.p, xo.p, w.p, r.p, COLS,
                       N);
    slopes(&x, &dx, sum_norm, "rmsnorm of a sum, dx");
    slopes(&w, &dw, sum_norm, "rmsnorm of a sum, dw");
    end();
}

static void headnorm(void *arg)
{
    (void)arg;
    d->op.headnorm(d, BN_F32, y.p, COLS, r.p, x.p, COLS, w.p, 1e-5f, HEADS, HD,
                   N);
}

static void headnorm_has_its_slopes(void **state)
{
    (void)state;
    begin((size_t)N * COLS, HD, (size_t)N * COLS);
    headnorm(NULL);
    d->op.headnorm_grad(d, BN_F32, dx.p, COLS, dw.p, dy.p, COLS, x.p, COLS,
                        w.p, r.p, HEADS, HD, N);
    slopes(&x, &dx, headnorm, "headnorm, dx");
    slopes(&w, &dw, headnorm, "headnorm, dw");
    end();
}

static void rope(void *arg)
{
    (void)arg;
    memcpy(y.p, x.p, x.n * sizeof(float));
    d->op.rope(d, BN_F32, y.p, COLS, cosine, sine, pos, HEADS, HD, N, false);
}

static void rope_has_its_slopes(void **state)
{
    (void)state;
    begin((size_t)N * COLS, 1, (size_t)N * COLS);
    memcpy(dx.p, dy.p, dy.n * sizeof(float));
    d->op.rope(d, BN_F32, dx.p, COLS, cosine, sine, pos, HEADS, HD, N, true);
    slopes(&x, &dx, rope, "rope, dx");
    end();
}

static void swiglu(void *arg)
{
    (void)arg;
    d->op.swiglu(d, BN_F32, y.p, x.p, COLS, N);
}

static void swiglu_has_its_slopes(void **state)
{
    (void)state;
    begin((size_t)N * 2 * COLS, 1, (size_t)N * COLS);
    d->op.swiglu_grad(d, BN_F32, dx.p, NULL, dy.p, x.p, COLS, N);
    slopes(&x, &dx, swiglu, "swiglu, dx");
    end();
}

static const uint32_t keys[2 * N] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
static const struct bn_dropout half = {
    .scale = 2, .below = 1u << 31, .salt = {3, 4}, .key = keys};

static void dropout(void *arg)
{
    (void)arg;
    d->op.dropout(d, BN_F32, y.p, x.p, &half, false, COLS, N);
}

static void dropout_has_its_slopes(void **state)
{
    (void)state;
    begin((size_t)N * COLS, 1, (size_t)N * COLS);
    d->op.dropout(d, BN_F32, dx.p, dy.p, &half, false, COLS, N);
    slopes(&x, &dx, dropout, "dropout, dx");
    end();
}

static void gather(void *arg)
{
    (void)arg;
    d->op.gather(d, BN_F32, y.p, x.p, some, COLS, N - 2);
}

static void gather_has_its_slopes(void **state)
{
    (void)state;
    begin((size_t)N * COLS, 1, (size_t)(N - 2) * COLS);
    d->op.scatter(d, BN_F32, dx.p, dy.p, some, COLS, N - 2);
    slopes(&x, &dx, gather, "gather, dx");
    end();
}

/* --- attention -------------------------------------------------------------- */

/* Two answers that share a prompt, and a row that nobody sees; x holds the
 * rows of q, k and v. */
enum { AROWS = 9, KV = 1, ALD = (HEADS + 2 * KV) * HD };
static const struct bn_attn_seg segments[] = {
    {.q_start = 0, .q_len = 3, .k_start = 0, .k_len = 3},
    {.q_start = 3, .q_len = 3, .k_start = 3, .k_len = 3, .p_len = 3},
    {.q_start = 6, .q_len = 2, .k_start = 6, .k_len = 2, .p_len = 3},
};

static struct bn_attn attn_of(const struct buf *rows, int window)
{
    float *q = rows->p;

    return (struct bn_attn){
        .q = q,
        .k = q + HEADS * HD,
        .v = q + (HEADS + KV) * HD,
        .o = y.p,
        .lse = r.p,
        .ldq = ALD,
        .ldk = ALD,
        .ldv = ALD,
        .ldo = HEADS * HD,
        .nq = AROWS,
        .nkv = AROWS,
        .heads = HEADS,
        .kv_heads = KV,
        .hd = HD,
        .scale = 0.5f,
        .window = window,
        .host_seg = segments,
        .seg = segments,
        .nseg = BN_COUNT(segments),
        .work = xo.p,
    };
}

static void attn(void *arg)
{
    d->op.attn(d, BN_F32, arg);
}

static void attention_has_its_slopes(void **state)
{
    (void)state;
    for (int window = 0; window <= 3; window += 3) {
        begin((size_t)AROWS * ALD, 1, (size_t)AROWS * HEADS * HD);
        buf_free(&r);
        r = zeros((size_t)AROWS * HEADS);
        struct bn_attn a = attn_of(&x, window), g = attn_of(&dx, window);

        buf_free(&xo);
        xo = zeros(d->op.attn_work(d, &a) / sizeof(float) + 1);
        a.work = xo.p;
        d->op.attn(d, BN_F32, &a);
        struct bn_attn_grad grad = {dy.p, (void *)g.q, (void *)g.k,
                                    (void *)g.v};
        d->op.attn_grad(d, BN_F32, &a, &grad);
        check_slopes(&x, &dx, 1, 1, attn, &a, &y, &dy, "attention");
        end();
    }
}

/* --- from logits to a loss -------------------------------------------------- */

enum { SROWS = 7, TARGETS = 11, SEQS = 6 };
static const int32_t row_ptr[SROWS + 1] = {0, 2, 2, 5, 6, 8, 9, TARGETS};
static const int32_t target[TARGETS] = {0, 7, 3, 3, 1, 8, 2, 5, 6, 4, 0};
static const int32_t seq_of[TARGETS] = {0, 1, 1, 2, 0, 1, 2, 3, 4, 5, 5};
static const int32_t tokens[SEQS] = {2, 3, 2, 1, 1, 2};

static struct {
    enum bn_loss_kind kind;
    double smoothing;
    float stat[3 * SROWS + TARGETS], lse[SROWS], g[TARGETS];
    double value[3][TARGETS], sums[3 * SEQS], dlogp[SEQS];
} c;
static const struct bn_head_rows head = {SROWS, ROWS, ROWS, ROWS, row_ptr,
                                         target};
static const struct bn_score_range range = {0, TARGETS, seq_of};

/* y[0] = the loss of the logits x */
static void chain(void *arg)
{
    const struct bn_score_values v = {c.value[0], c.value[1], c.value[2]};
    const struct bn_score_stats st = {
        SROWS, 1, ROWS, 0, c.stat, c.stat + SROWS, c.stat + 2 * SROWS,
        c.stat + 3 * SROWS, row_ptr, c.smoothing};
    const struct bn_loss_seqs seqs = {SEQS, c.sums, c.sums + SEQS,
                                      c.sums + 2 * SEQS, tokens};
    struct bn_loss_denom denom = {7, c.kind == BN_LOSS_ORPO ? 2 : SEQS};
    struct bn_loss_params p = {0.7, 0};
    struct bn_loss_acc acc = {0};

    (void)arg;
    memset(c.sums, 0, sizeof(c.sums));
    d->op.head_stats(d, &head, x.p, c.stat, c.stat + SROWS, c.stat + 2 * SROWS,
                     c.stat + 3 * SROWS);
    d->op.score_logp(d, &st, c.lse, &v);
    d->op.score_sums(d, c.sums, SEQS, 0, SEQS, &range, &v);
    d->op.loss(d, c.kind, &p, &seqs, &denom, c.dlogp, &acc, 0, 0);
    assert_int_equal(acc.fault, BN_LOSS_FINE);
    ((float *)y.p)[0] = (float)acc.metrics[0];
}

static void loss_has_its_slopes(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        begin((size_t)SROWS * ROWS, 1, 1);
        ((float *)dy.p)[0] = 1;
        c.kind = i < 2 ? BN_LOSS_SFT : BN_LOSS_ORPO;
        c.smoothing = i % 2 ? 0.2 : 0;
        chain(NULL);
        d->op.score_spread(d, c.g, c.dlogp, &range);
        d->op.head_grad(d, BN_F32, &head, dx.p, ROWS, x.p, c.lse, c.g,
                        (float)c.smoothing);
        slopes(&x, &dx, chain, i < 2 ? "sft" : "orpo");
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(embed_has_its_slopes),
        cmocka_unit_test(rmsnorm_has_its_slopes),
        cmocka_unit_test(headnorm_has_its_slopes),
        cmocka_unit_test(rope_has_its_slopes),
        cmocka_unit_test(swiglu_has_its_slopes),
        cmocka_unit_test(dropout_has_its_slopes),
        cmocka_unit_test(gather_has_its_slopes),
        cmocka_unit_test(attention_has_its_slopes),
        cmocka_unit_test(loss_has_its_slopes),
    };
    struct bn_err err;

    d = bn_dev_cpu(2, &err);
    if (d == NULL) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int failed = BN_TAP_RUN(tests);

    bn_dev_destroy(d);
    return failed;
}
