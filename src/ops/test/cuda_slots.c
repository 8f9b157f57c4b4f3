/* Every slot of the CUDA back end, on the emulator, against the CPU's: by its
 * kernel, and (the bits must be the CPU's) sent to the CPU by name.
 */
#include "config.h"
#include "base/tap.h"
#include "ops/test/twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ALL_SLOTS                                                             \
    "cast linear linear_f32 linear_dx linear_dw bias_grad embed embed_grad "  \
    "rmsnorm rmsnorm_grad headnorm headnorm_grad rope attn attn_grad swiglu " \
    "swiglu_grad add dropout gather scatter head_stats head_grad score_logp " \
    "score_sums score_spread loss sample sqnorm clip_scale adamw"
enum { SLOTS = 31 };

static void products(enum bn_dtype t)
{
    enum { N = 9, IN = 40, OUT = 24, LD = 30 };
    struct twin *x = twin(t, N * IN, 1), *w = twin(t, OUT * IN, 0.2);
    struct twin *y = twin(t, N * LD, 1), *bias = twin(t, OUT, 1);
    struct twin *f = twin(BN_F32, N * LD, 1), *dx = twin(t, N * IN, 1);
    struct twin *dw = twin(BN_F32, OUT * IN, 1), *db = twin(BN_F32, OUT, 1);

    for (int acc = 0; acc < 2; acc++) {
        struct bn_mat m[2] = {{w->h, OUT, IN, NULL, false},
                              {w->g, OUT, IN, NULL, false}};

        BOTH(mat_changed, (d, t, &m[on]));
        BOTH(linear, (d, t, M(y), LD, M(x), &m[on], acc ? NULL : M(bias), N,
                      acc == 1));
        BOTH(linear_f32, (d, t, M(f), LD, M(x), &m[on], N));
        BOTH(linear_dx, (d, t, M(dx), M(y), LD, &m[on], N, acc == 1));
        BOTH(linear_dw, (d, t, M(dw), M(y), LD, M(x), OUT, IN, N));
        BOTH(mat_release, (d, &m[on]));
        near(y, 1e-5, "linear");
        near(f, 1e-5, "linear_f32");
        near(dx, 1e-5, "linear_dx");
        near(dw, 1e-5, "linear_dw");
    }
    BOTH(bias_grad, (d, t, M(db), M(y), LD, OUT, N));
    near(db, 1e-5, "bias_grad");
    BOTH(linear, (d, t, M(y), LD, M(x),
                  &(struct bn_mat){M(w), OUT, IN, NULL, false},
                  NULL, 0, false));
}

static void norms(enum bn_dtype t)
{
    enum { N = 7, COLS = 48, HEADS = 3, HD = 16, LD = 56 };
    struct twin *x = twin(t, N * COLS, 1), *delta = twin(t, N * COLS, 1);
    struct twin *w = twin(t, COLS, 1), *y = twin(t, N * COLS, 1);
    struct twin *rstd = twin(BN_F32, N * HEADS, 1), *q = twin(t, N * LD, 1);
    struct twin *dw = twin(BN_F32, COLS, 1), *z = twin(t, N * LD, 1);

    BOTH(rmsnorm, (d, t, M(y), M(rstd), M(x), M(x), M(delta), M(w), 1e-5f,
                   COLS, N));
    near(x, 1e-6, "rmsnorm xo");
    near(y, 1e-6, "rmsnorm y");
    near(rstd, 1e-6, "rmsnorm rstd");
    BOTH(rmsnorm_grad, (d, t, M(delta), M(dw), M(y), M(delta), M(x), M(w),
                        M(rstd), COLS, N));
    near(delta, 1e-5, "rmsnorm_grad dx");
    near(dw, 1e-5, "rmsnorm_grad dw");
    /* From some columns to others of one matrix. */
    BOTH(headnorm, (d, t, M(z), LD, M(rstd), AT(q, 8), LD, M(w), 1e-6f, HEADS,
                    HD, N));
    near(z, 1e-6, "headnorm");
    BOTH(headnorm_grad, (d, t, M(z), LD, M(dw), M(z), LD, AT(q, 8), LD, M(w),
                         M(rstd), HEADS, HD, N));
    near(z, 1e-5, "headnorm_grad dx");
    near(dw, 1e-5, "headnorm_grad dw");
}

static void layers(enum bn_dtype t)
{
    enum { N = 11, COLS = 24, VOCAB = 13, HEADS = 3, HD = 8, F = 20 };
    struct twin *table = twin(t, VOCAB * COLS, 1);
    struct twin *ids = twin(BN_I32, N, -VOCAB), *y = twin(t, N * COLS, 1);
    struct twin *dt = twin(BN_F32, VOCAB * COLS, 1), *z = twin(t, N * COLS, 1);
    struct twin *c = twin(BN_F32, N * HD / 2, 1);
    struct twin *s = twin(BN_F32, N * HD / 2, 1);
    struct twin *pos = twin(BN_I32, N, -N), *gu = twin(t, N * 2 * F, 1);
    struct twin *a = twin(t, N * F, 1), *b = twin(t, N * F, 1);

    BOTH(embed, (d, t, M(y), M(table), M(ids), 2, VOCAB - 2, COLS, N));
    near(y, 0, "embed");
    BOTH(embed_grad, (d, t, M(dt), M(y), M(ids), 2, VOCAB - 2, COLS, N));
    near(dt, 1e-6, "embed_grad");
    BOTH(rope, (d, t, M(y), COLS, M(c), M(s), M(pos), HEADS, HD, N, true));
    near(y, 1e-6, "rope");
    BOTH(swiglu, (d, t, M(a), M(gu), F, N));
    near(a, 1e-6, "swiglu");
    BOTH(swiglu_grad, (d, t, M(gu), M(a), M(b), M(gu), F, N));
    near(gu, 1e-6, "swiglu_grad");
    near(a, 1e-6, "swiglu_grad y");
    BOTH(add, (d, t, M(a), M(b), N * F));
    near(a, 1e-6, "add");
    struct twin *key = twin(BN_I32, 2 * N, -1000);
    struct bn_dropout p[2] = {{1.25f, 1u << 30, {3, 4}, key->h, 5},
                              {1.25f, 1u << 30, {3, 4}, key->g, 5}};
    BOTH(dropout, (d, t, M(a), M(b), &p[on], true, F, N));
    near(a, 1e-6, "dropout");
    BOTH(gather, (d, t, M(z), M(y), M(pos), COLS, N - 3));
    near(z, 1e-6, "gather");
    BOTH(scatter, (d, t, M(y), M(z), M(pos), COLS, N - 3));
    near(y, 1e-6, "scatter");
    BOTH(copy_rows, (d, t, AT(z, 3), COLS, M(y), COLS, COLS - 5, N));
    near(z, 1e-6, "copy_rows");
    BOTH(zero, (d, M(z), N * COLS * bn_dtype_size(t)));
    near(z, 0, "zero");
    BOTH(cast, (d, M(s), BN_F32, M(y), t, N));
    near(s, 1e-6, "cast");
}

static void attention(enum bn_dtype t)
{
    enum { H = 4, KV = 2, HD = 16, LD = (H + 2 * KV) * HD, NQ = 60 };
    static const struct bn_attn_seg seg[] = {{0, 20, 0, 0, 20, 0, 0},
                                             {20, 15, 0, 20, 15, 0, 20},
                                             {35, 24, 0, 35, 24, 0, 20}};
    struct twin *qkv = twin(t, NQ * LD, 1), *o = twin(t, NQ * H * HD, 1);
    struct twin *lse = twin(BN_F32, H * NQ, 1), *s = twin(BN_I32, 21, -3);
    struct twin *dqkv = twin(t, NQ * LD, 1), *d_o = twin(t, NQ * H * HD, 1);
    struct bn_attn a[2];

    gpu->op.from_host(gpu, s->g, BN_I32, seg, BN_I32, 21);
    for (int on = 0; on < 2; on++) {
        struct bn_dev *d = on ? gpu : cpu;

        a[on] = (struct bn_attn){M(qkv), AT(qkv, H * HD),
                                 AT(qkv, (H + KV) * HD), M(o), M(lse), LD, LD,
                                 LD, H * HD, NQ, NQ, H, KV, HD, 0.25f, 0, seg,
                                 on ? s->g : seg, 3, NULL};
        a[on].work = bn_arena_get(&arena[on], d->op.attn_work(d, &a[on]));
    }
    BOTH(attn, (d, t, &a[on]));
    near(o, 1e-5, "attn o");
    near(lse, t == BN_F32 ? 1e-5 : 2e-3, "attn lse");
    for (int on = 0; on < 2; on++) {
        struct bn_dev *d = on ? gpu : cpu;
        struct bn_attn_grad g = {M(d_o), M(dqkv), AT(dqkv, H * HD),
                                 AT(dqkv, (H + KV) * HD)};

        d->op.attn_grad(d, t, &a[on], &g);
    }
    near(dqkv, t == BN_F32 ? 1e-5 : 2e-2, "attn_grad");
}

static void training(enum bn_dtype t)
{
    enum { ROWS = 6, V = 40, N = 70 };
    static const int32_t ptr[] = {0, 1, 1, 3, 4, 5, 6};
    struct twin *x = twin(BN_F32, ROWS * V, 2), *rp = twin(BN_I32, 7, -7);
    struct twin *target = twin(BN_I32, 6, -V), *top = twin(BN_F32, ROWS, 1);
    struct twin *sum = twin(BN_F32, ROWS, 1), *tot = twin(BN_F32, ROWS, 1);
    struct twin *tl = twin(BN_F32, 6, 1), *g = twin(BN_F32, 6, 1);
    struct twin *lse = twin(BN_F32, ROWS, 1), *dl = twin(t, ROWS * V, 1);
    struct twin *w = twin(t, N, 1), *p = twin(BN_F32, N, 1);
    struct twin *m = twin(BN_F32, N, 0.1), *v = twin(BN_F32, N, 0);
    struct twin *gr = twin(BN_F32, N, 1), *sq = twin(BN_F64, 1, 1);
    struct twin *k = twin(BN_F32, 4, 0.1);
    struct bn_adamw opt = {0.9f, 0.95f, 1e-8f, 0.1f};
    static const float now[] = {1, 1e-3f, 0.1f, 0.05f};
    struct bn_head_rows h[2] = {{ROWS, V, V, V, ptr, target->h},
                                {ROWS, V, V, V, rp->g, target->g}};

    memcpy(k->h, now, sizeof(now));
    gpu->op.from_host(gpu, k->g, BN_F32, now, BN_F32, 4);

    gpu->op.from_host(gpu, rp->g, BN_I32, ptr, BN_I32, 7);
    BOTH(head_stats, (d, &h[on], M(x), M(top), M(sum), M(tot), M(tl)));
    near(top, 0, "head_stats max");
    near(sum, 2e-6, "head_stats sum");
    near(tot, 1e-5, "head_stats total");
    near(tl, 0, "head_stats target");
    BOTH(head_grad, (d, t, &h[on], M(dl), V, M(x), M(lse), M(g), 0.1f));
    near(dl, 2e-6, "head_grad");
    BOTH(head_grad, (d, t, &h[on], M(x), t == BN_F32 ? V : 2 * V, M(x),
                     M(lse), M(g), 0));
    BOTH(sqnorm, (d, M(sq), M(gr), N));
    near(sq, 1e-6, "sqnorm");
    BOTH(clip_scale, (d, M(k), M(sq), 1.5f));
    near(k, 1e-6, "clip_scale");
    BOTH(adamw, (d, t, &opt, M(w), M(p), M(m), M(v), M(gr), M(k), N));
    near(w, 1e-6, "adamw w");
    near(p, 1e-6, "adamw p");
    near(m, 1e-6, "adamw m");
    near(v, 1e-6, "adamw v");
}

static void scores(void)
{
    enum { ROWS = 6, SHARDS = 2, STRIDE = 3 * ROWS + 10, N = 8, SEQS = 3 };
    static const int32_t ptr[] = {0, 1, 1, 3, 4, 6, 8};
    struct twin *x = twin(BN_F32, SHARDS * STRIDE, 1), *rp = twin(BN_I32, 7, -7);
    struct twin *lse = twin(BN_F32, ROWS, 1), *v[3], *seq = twin(BN_I32, N, -SEQS);
    struct twin *sums = twin(BN_F64, 3 * SEQS, 1), *g = twin(BN_F32, N, 1);
    struct twin *d_ = twin(BN_F64, SEQS, 1), *denom = twin(BN_F64, 2, 1);
    struct twin *acc = twin(BN_F64, sizeof(struct bn_loss_acc) / 8, 0);
    struct twin *ntok = twin(BN_I32, SEQS, -SEQS);
    struct bn_loss_params p = {0.25, -1e-6};

    for (int i = 0; i < SHARDS * STRIDE; i++) /* sums of exponentials */
        ((float *)x->h)[i] = fabsf(((float *)x->h)[i]);
    for (int i = 0; i < SEQS; i++)
        ((int32_t *)ntok->h)[i] = i + 1;
    memcpy(rp->h, ptr, sizeof(ptr));
    gpu->op.from_host(gpu, x->g, BN_F32, x->h, BN_F32, x->n);
    gpu->op.from_host(gpu, rp->g, BN_I32, ptr, BN_I32, 7);
    gpu->op.from_host(gpu, ntok->g, BN_I32, ntok->h, BN_I32, SEQS);
    for (int k = 0; k < 3; k++)
        v[k] = twin(BN_F64, N, 1);
    for (int on = 0; on < 2; on++) {
        struct bn_dev *d = on ? gpu : cpu;
        float *st = M(x);
        const double *sum = M(sums);
        struct bn_score_stats s = {ROWS, SHARDS, 40, STRIDE, st, st + ROWS,
                                   st + 2 * ROWS, st + 3 * ROWS, M(rp), 0.1};
        struct bn_score_values values = {M(v[0]), M(v[1]), M(v[2])};
        struct bn_score_range r = {1, N, M(seq)};
        struct bn_loss_seqs seqs = {SEQS, sum, sum + SEQS, sum + 2 * SEQS,
                                    M(ntok)};

        d->op.zero(d, M(sums), 3 * SEQS * sizeof(double));
        d->op.zero(d, M(acc), sizeof(struct bn_loss_acc));
        d->op.score_logp(d, &s, M(lse), &values);
        d->op.score_sums(d, M(sums), SEQS, 0, SEQS, &r, &values);
        d->op.loss(d, BN_LOSS_ORPO, &p, &seqs, M(denom), M(d_), M(acc), 5, 0);
        d->op.score_spread(d, M(g), M(d_), &r);
        d->op.score_logp(d, &s, M(lse), NULL);
    }
    near(lse, 1e-6, "score_logp lse");
    for (int k = 0; k < 3; k++)
        near(v[k], 1e-12, "score_logp value");
    near(sums, 1e-12, "score_sums");
    near(acc, 1e-12, "loss metrics");
    near(d_, 1e-12, "loss gradient");
    near(g, 1e-6, "score_spread");
}

static void sampling(void)
{
    enum { ROWS = 4, V = 90, LD = 93 };
    static const struct bn_sample how[] = {{0, 0, 1, 0, 1.2},
                                           {0.8, 20, 0.9, 0.01, 1.1}};
    static const int32_t ptr[] = {0, 3, 3, 4, 6};
    struct twin *x = twin(BN_F32, ROWS * LD, 3), *u = twin(BN_F64, ROWS, 1);
    struct twin *seen = twin(BN_I32, 6, -V), *p = twin(BN_I32, ROWS + 1, -7);
    struct twin *token = twin(BN_I32, ROWS, -V);
    void *work[2];

    for (int on = 0; on < 2; on++) {
        struct bn_dev *d = on ? gpu : cpu;

        work[on] = bn_arena_get(&arena[on], d->op.sample_work(d, V, ROWS));
        for (int i = 0; i < ROWS; i++)
            ((double *)u->h)[i] = 0.11 + 0.2 * i;
        d->op.from_host(d, M(u), BN_F64, u->h, BN_F64, ROWS);
        d->op.from_host(d, M(p), BN_I32, ptr, BN_I32, ROWS + 1);
    }
    for (int i = 0; i < 2; i++) {
        struct bn_sample_rows r[2] = {{ROWS, V, LD, x->h, u->h, p->h, seen->h},
                                      {ROWS, V, LD, x->g, u->g, p->g,
                                       seen->g}};
        int32_t got[ROWS];

        BOTH(sample, (d, &how[i], &r[on], M(token), work[on]));
        gpu->op.to_host(gpu, got, BN_I32, token->g, BN_I32, ROWS);
        assert_memory_equal(got, token->h, sizeof(got));
    }
}

static void every_slot(const char *host_slots)
{
    static const enum bn_dtype types[] = {BN_F32, BN_BF16};

    for (int i = 0; i < 2; i++) {
        struct bn_cuda_fallback f[40];

        twins_begin(host_slots);
        products(types[i]);
        norms(types[i]);
        layers(types[i]);
        attention(types[i]);
        training(types[i]);
        scores();
        sampling();
        assert_int_equal(bn_cuda_fallbacks(gpu, f, 40),
                         host_slots != NULL ? SLOTS : 0);
        twins_end();
    }
}

static void test_kernels(void **state)
{
    (void)state;
    every_slot(NULL);
}

static void test_on_host(void **state)
{
    (void)state;
    every_slot(ALL_SLOTS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_on_host),
    };

    return BN_TAP_RUN(tests);
}
