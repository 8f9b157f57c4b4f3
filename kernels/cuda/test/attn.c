#include "config.h"
#include "kernels/attn.h"
#include "kernels/cuda/test/gpu.h"

#include <stdio.h>

enum { MOST_SEG = 40 }; /* more than a warp looks at at once */

struct problem {
    enum bn_dtype t;
    int heads, kv_heads, hd, window;
    int pad; /* of ld: elements, so that rows are (not) aligned */
    int nq, nkv, nseg;
    struct bn_attn_seg seg[MOST_SEG];
};

/* Pairs of answers that share a prompt, plain segments, empty ones, rows in
 * no segment, and segments whose queries are a part of their keys. */
static void random_segments(struct problem *p, int nseg, unsigned most)
{
    int q = (int)rnd(3), k = (int)rnd(3);

    p->nseg = 0;
    while (p->nseg < nseg) {
        struct bn_attn_seg *s = &p->seg[p->nseg++];
        int len = (int)rnd(most + 1), kind = (int)rnd(4);

        *s = (struct bn_attn_seg){q, len, 0, k, len, 0, 0};
        if (kind == 1) { /* earlier keys without queries: context parallel */
            s->q_off = (int)rnd(most);
            s->k_len = len + s->q_off + (int)rnd(3);
        }
        q += len;
        k += s->k_len;
        if (kind == 2) /* answers to this as their prompt */
            for (int i = 0; i < 2 && p->nseg < nseg; i++) {
                int more = (int)rnd(most + 1);

                p->seg[p->nseg++] = (struct bn_attn_seg){
                    q, more, 0, k, more, s->k_start, s->k_len};
                q += more;
                k += more;
            }
        q += (int)rnd(2);
        k += (int)rnd(2);
    }
    p->nq = q + 1;
    p->nkv = k + 1;
}

/* What the tolerance refers to: the largest of the row, but where a row
 * (nearly) cancels a tenth of the largest of all, or of the inputs. */
static float *sizes(enum bn_dtype t, const void *a, int n, int ld)
{
    float *mag = host_new(BN_F32, (size_t)n * ld, 1), top = 0;

    for (size_t i = 0; i < (size_t)n * ld; i++) {
        float x = fabsf(bn_get(t, a, i));
        top = x > top ? x : top;
    }
    for (int i = 0; i < n; i++) {
        float row = fmaxf(0.1f * top, 0.5f);

        for (int c = 0; c < ld; c++) {
            float x = fabsf(bn_get(t, a, (size_t)i * ld + c));
            row = x > row ? x : row;
        }
        for (int c = 0; c < ld; c++)
            mag[(size_t)i * ld + c] = row;
    }
    return mag;
}

static void check(enum bn_dtype t, const void *dev, const void *want, int n,
                  int ld, const char *what)
{
    gpu_close(t, dev, want, (size_t)n * ld, t == BN_F32 ? 1e-5 : 2e-2,
              sizes(t, want, n, ld), what);
}

/* Give both sides q, k, v and outputs that hold numbers to be left alone. */
static void make(const struct problem *p, struct bn_attn *h,
                 struct bn_attn *d)
{
    int ldq = p->heads * p->hd + p->pad, ldk = p->kv_heads * p->hd + p->pad;
    size_t nq = (size_t)p->nq * ldq, nk = (size_t)p->nkv * ldk;
    size_t nl = (size_t)p->heads * p->nq;

    *h = (struct bn_attn){
        host_new(p->t, nq, 1), host_new(p->t, nk, 1), host_new(p->t, nk, 1),
        host_new(p->t, nq, 1), host_new(BN_F32, nl, 1), ldq, ldk, ldk, ldq,
        p->nq, p->nkv, p->heads, p->kv_heads, p->hd,
        1.0f / sqrtf((float)p->hd), p->window, p->seg, p->seg, p->nseg, NULL};
    *d = *h;
    d->q = gpu_copy(p->t, h->q, nq);
    d->k = gpu_copy(p->t, h->k, nk);
    d->v = gpu_copy(p->t, h->v, nk);
    d->o = gpu_copy(p->t, h->o, nq);
    d->lse = gpu_copy(BN_F32, h->lse, nl);
    d->seg = gpu_new(p->seg, sizeof(p->seg[0]) * (size_t)p->nseg);
    d->work = gpu_new(NULL, bn_attn_work_cuda(d));
}

static void run(const struct problem *p)
{
    struct bn_attn h, d;
    struct bn_attn_grad gh, gd;
    char name[120];

    make(p, &h, &d);
    size_t nq = (size_t)p->nq * h.ldq, nk = (size_t)p->nkv * h.ldk;
    gh = (struct bn_attn_grad){host_new(p->t, nq, 1), host_new(p->t, nq, 1),
                               host_new(p->t, nk, 1), host_new(p->t, nk, 1)};
    gd = (struct bn_attn_grad){gpu_copy(p->t, gh.d_o, nq),
                               gpu_copy(p->t, gh.dq, nq),
                               gpu_copy(p->t, gh.dk, nk),
                               gpu_copy(p->t, gh.dv, nk)};
    snprintf(name, sizeof(name), "attention %d/%d x %d, window %d, %d rows, "
             "%d segments", p->heads, p->kv_heads, p->hd, p->window, p->nq,
             p->nseg);
    bn_attn_ref(p->t, &h);
    int rc = bn_attn_cuda(p->t, &d, NULL);
    if (p->hd > 128 && gpu_shared() < 160 << 10 && p->t == BN_F32
        && rc == cudaErrorInvalidValue) {
        (void)cudaGetLastError();
        gpu_end();
        return;
    }
    gpu_ok(rc, name);
    check(p->t, d.o, h.o, p->nq, h.ldo, name);
    float *mag = host_new(BN_F32, (size_t)p->heads * p->nq, 1);
    for (int i = 0; i < p->heads * p->nq; i++)
        mag[i] = 1 + fabsf(h.lse[i]);
    gpu_close(BN_F32, d.lse, h.lse, (size_t)p->heads * p->nq,
              p->t == BN_F32 ? 1e-5 : 2e-3, mag, "lse");
    /* Backward from the same o and lse on both sides. */
    gpu_put(d.o, h.o, nq * bn_dtype_size(p->t));
    gpu_put(d.lse, h.lse, (size_t)p->heads * p->nq * 4);
    bn_attn_grad_ref(p->t, &h, &gh);
    rc = bn_attn_grad_cuda(p->t, &d, &gd, NULL);
    if (p->hd > 128 && gpu_shared() < 160 << 10) {
        /* Refused, not done wrongly. */
        assert_int_equal(rc, cudaErrorInvalidValue);
        (void)cudaGetLastError();
        gpu_end();
        return;
    }
    gpu_ok(rc, name);
    check(p->t, gd.dq, gh.dq, p->nq, h.ldq, "dq");
    check(p->t, gd.dk, gh.dk, p->nkv, h.ldk, "dk");
    check(p->t, gd.dv, gh.dv, p->nkv, h.ldk, "dv");
    gpu_end();
}

static void test_head_dims(void **state)
{
    static const int hd[] = {2, 8, 16, 20, 32, 64, 80, 96, 128, 160, 256};

    (void)state;
    for (int i = 0; i < 22; i++) {
        struct problem p = {both_types[i % 2], 2, 1, hd[i / 2], 0, 0, 0, 0, 0,
                            {{0}}};

        random_segments(&p, 4, 50);
        run(&p);
    }
}

static void test_random(void **state)
{
    static const int heads[][2] = {{1, 1}, {3, 3}, {6, 2}, {4, 1}};
    static const int hd[] = {8, 16, 64, 128};

    (void)state;
    for (int i = 0; i < 24; i++) {
        unsigned h = rnd(4);
        struct problem p = {both_types[i % 2], heads[h][0], heads[h][1],
                            hd[rnd(4)], i % 3 == 0 ? 1 + (int)rnd(40) : 0,
                            (int)rnd(3) * 3, 0, 0, 0, {{0}}};

        random_segments(&p, 1 + (int)rnd(6), i % 4 == 0 ? 150 : 40);
        run(&p);
    }
}

static void test_edges(void **state)
{
    struct problem p = {BN_BF16, 2, 2, 64, 0, 0, 1, 1, 1,
                        {{0, 1, 0, 0, 1, 0, 0}}};

    (void)state;
    run(&p); /* one token */
    p.nq = p.nkv = 200;
    p.seg[0] = (struct bn_attn_seg){0, 200, 0, 0, 200, 0, 0};
    run(&p);
    p.window = 1; /* every query sees itself alone */
    run(&p);
    p.window = 64;
    run(&p);
    p.window = 0;
    p.seg[0] = (struct bn_attn_seg){0, 20, 0, 0, 0, 0, 0}; /* sees nothing */
    run(&p);
    p.seg[0] = (struct bn_attn_seg){0, 0, 0, 0, 0, 0, 0};
    run(&p);
    /* A prompt, and many answers to it. */
    p.nseg = MOST_SEG;
    p.seg[0] = (struct bn_attn_seg){0, 70, 0, 0, 70, 0, 0};
    for (int i = 1; i < MOST_SEG; i++)
        p.seg[i] = (struct bn_attn_seg){70 + (i - 1) * 3, 3, 0,
                                        70 + (i - 1) * 3, 3, 0, 70};
    run(&p);
    p.t = BN_F32;
    run(&p);
    p.window = 30;
    run(&p);
    /* The last keys are those of the last segments alone. */
    for (int i = 0; i < MOST_SEG; i++)
        p.seg[i] = (struct bn_attn_seg){5 * i, 5, 0, 5 * i, 5, 0, 0};
    run(&p);
}

/* One new token each of several sequences, their keys in a cache. */
static void test_decode(void **state)
{
    static const int hd[] = {2, 20, 64, 80, 128, 256};
    static const int heads[][2] = {{1, 1}, {6, 2}, {8, 1}, {9, 1}};

    (void)state;
    for (int i = 0; i < 24; i++) {
        struct problem p = {both_types[i % 2], heads[i / 2 % 4][0],
                            heads[i / 2 % 4][1], hd[i / 4],
                            i % 3 == 0 ? 1 + (int)rnd(60) : 0,
                            i % 5 == 0 ? 3 : 0, 0, 0, 5, {{0}}};
        int at = 40; /* keys of a common prompt come first */

        for (int s = 0; s < p.nseg; s++) {
            int len = s == 0 ? 1 : (int)rnd(i % 4 == 0 ? 300 : 30);

            p.seg[s] = (struct bn_attn_seg){s, s != 3, len - 1, at, len,
                                            0, s % 2 * 40};
            at += len + 1;
        }
        p.nq = p.nseg + 1;
        p.nkv = at;
        run(&p);
    }
}

#ifdef BN_EMU
/* On devices whose blocks have less of it. */
static void test_less_shared(void **state)
{
    static const int hd[] = {64, 96, 128, 160, 256};

    (void)state;
    bn_emu_set_shared(99 << 10);
    for (int i = 0; i < 20; i++) {
        struct problem p = {both_types[i % 2], 2, 1, hd[i / 4],
                            i / 2 % 2 * 50, 0, 0, 0, 0, {{0}}};

        random_segments(&p, 4, 90);
        run(&p);
        bn_emu_clear();
    }
    bn_emu_set_shared(0);
}
#endif

/* A query that is NaN sees nothing else, whatever its keys. */
static void test_nan(void **state)
{
    static const int most[] = {1, 30}; /* to a cache, and not */

    (void)state;
    for (int i = 0; i < 4; i++) {
        int n = most[i / 2];
        struct problem p = {both_types[i % 2], 2, 1, 64, 0, 0, n, 40, 1,
                            {{0, n, 0, 0, n, 0, 0}}};
        struct bn_attn h, d;

        if (n == 1)
            p.seg[0] = (struct bn_attn_seg){0, 1, 39, 0, 40, 0, 0};
        make(&p, &h, &d);
        size_t all = (size_t)p.nq * h.ldq;
        void *q = host_new(p.t, all, 1), *o = host_new(p.t, all, 1);
        for (int c = 0; c < 64; c++)
            bn_put(p.t, q, (size_t)c, NAN);
        gpu_put((void *)(uintptr_t)d.q, q, all * bn_dtype_size(p.t));
        gpu_ok(bn_attn_cuda(p.t, &d, NULL), "attention of NaN");
        gpu_get(o, d.o, all * bn_dtype_size(p.t));
        for (size_t c = 0; c < 128; c++)
            assert_true(isnan(bn_get(p.t, o, c)) == (c < 64));
        gpu_end();
    }
}

/* L = sum r . o: its derivative against the gradients. */
static void test_differences(void **state)
{
    struct problem p = {BN_F32, 4, 2, 16, 9, 0, 0, 0, 0, {{0}}};
    struct bn_attn h, d;
    struct bn_attn_grad g;
    double loss[2], eps = 5e-3, got = 0;

    (void)state;
    random_segments(&p, 5, 30);
    make(&p, &h, &d);
    size_t n[3] = {(size_t)p.nq * h.ldq, (size_t)p.nkv * h.ldk,
                   (size_t)p.nkv * h.ldk};
    float *dir[3], *moved[3], *r = host_new(BN_F32, n[0], 1);
    const float *x[3] = {h.q, h.k, h.v};
    void *dev[3] = {(void *)d.q, (void *)d.k, (void *)d.v};
    float *o = host_new(BN_F32, n[0], 1);

    /* Rows in no segment keep what o held: they do not depend on x. */
    for (int i = 0; i < 3; i++) {
        dir[i] = host_new(BN_F32, n[i], 1);
        moved[i] = host_new(BN_F32, n[i], 0);
    }
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < 3; i++) {
            for (size_t j = 0; j < n[i]; j++)
                moved[i][j] = x[i][j] + (float)(side ? eps : -eps) * dir[i][j];
            gpu_put(dev[i], moved[i], n[i] * 4);
        }
        gpu_ok(bn_attn_cuda(p.t, &d, NULL), "attention");
        gpu_get(o, d.o, n[0] * 4);
        loss[side] = dot_of(BN_F32, o, r, n[0]);
    }
    for (int i = 0; i < 3; i++)
        gpu_put(dev[i], x[i], n[i] * 4);
    gpu_ok(bn_attn_cuda(p.t, &d, NULL), "attention");
    for (int i = 0; i < 3; i++) {
        memset(moved[i], 0, n[i] * 4);
        dev[i] = gpu_copy(BN_F32, moved[i], n[i]);
    }
    g = (struct bn_attn_grad){gpu_copy(BN_F32, r, n[0]), dev[0], dev[1],
                              dev[2]};
    gpu_ok(bn_attn_grad_cuda(p.t, &d, &g, NULL), "attention backward");
    for (int i = 0; i < 3; i++) {
        gpu_get(moved[i], dev[i], n[i] * 4);
        got += dot_of(BN_F32, moved[i], dir[i], n[i]);
    }
    double want = (loss[1] - loss[0]) / (2 * eps);
    if (fabs(got - want) > 3e-3 * (fabs(want) + 1))
        fail_msg("derivative %g, by differences %g", got, want);
    gpu_end();
}

/* The same bits whatever the order of threads. */
static void test_same_bits(void **state)
{
    struct problem p = {BN_BF16, 4, 2, 64, 0, 0, 0, 0, 0, {{0}}};
    struct bn_attn h, d;
    struct bn_attn_grad g;
    unsigned char *first[3] = {NULL}, *again;

    (void)state;
    random_segments(&p, 5, 90);
    make(&p, &h, &d);
    size_t nq = (size_t)p.nq * h.ldq, nk = (size_t)p.nkv * h.ldk;
    void *zero = host_new(p.t, nq, 1);
    g = (struct bn_attn_grad){gpu_copy(p.t, host_new(p.t, nq, 1), nq),
                              gpu_copy(p.t, zero, nq),
                              gpu_new(NULL, nk * 2), gpu_new(NULL, nk * 2)};
    for (int round = 0; round < 3; round++) {
#ifdef BN_EMU
        bn_emu_seed((uint64_t)round + 100);
#endif
        gpu_ok(bn_attn_cuda(p.t, &d, NULL), "attention");
        gpu_ok(bn_attn_grad_cuda(p.t, &d, &g, NULL), "attention backward");
        void *out[3] = {g.dq, g.dk, g.dv};
        for (int i = 0; i < 3; i++) {
            size_t n = 2 * (i == 0 ? nq : nk);

            again = host_new(BN_BF16, n / 2, 0);
            gpu_get(again, out[i], n);
            if (round == 0)
                first[i] = again;
            else
                assert_memory_equal(again, first[i], n);
        }
    }
    gpu_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),     cmocka_unit_test(test_head_dims),
        cmocka_unit_test(test_random),    cmocka_unit_test(test_decode),
        cmocka_unit_test(test_nan),       cmocka_unit_test(test_differences),
        cmocka_unit_test(test_same_bits),
#ifdef BN_EMU
        cmocka_unit_test(test_less_shared),
#endif
    };

    return BN_TAP_RUN(tests);
}
