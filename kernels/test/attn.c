#include "config.h"
#include "kernels/attn.h"
#include "kernels/test/check.h"

#ifdef _OPENMP
#include <omp.h>
#endif

enum { MAX_SEG = 40 };

/* Everything of one call, on buffers of its own. */
struct call {
    enum bn_dtype t;
    struct bn_attn a;
    struct bn_attn_grad g;
    struct bn_attn_seg seg[MAX_SEG];
    struct buf q, k, v, o, lse, d_o, dq, dk, dv;
};

/* Cut rows into documents: some plain, some a prompt with two or three
 * answers, some empty, some split as context parallel ranks do. */
static void make_segments(struct call *c, int docs, int len)
{
    int q = 0, k = 0, n = 0;

    for (int d = 0; d < docs; d++) {
        int kind = check_below(4), p = check_below(len);
        int answers = kind == 0 ? 2 + check_below(2) : 0;

        if (kind == 1) { /* the later queries of a document */
            int all = 1 + check_below(len), here = 1 + check_below(all);

            c->seg[n++] =
                (struct bn_attn_seg){q, here, all - here, k, all, 0, 0};
            q += here;
            k += all;
            continue;
        }
        int prefix = k;

        c->seg[n++] = (struct bn_attn_seg){q, p, 0, k, p, 0, 0};
        q += p;
        k += p;
        for (int i = 0; i < answers; i++) {
            int own = check_below(len);

            c->seg[n++] = (struct bn_attn_seg){q, own, 0, k, own, prefix, p};
            q += own;
            k += own;
        }
        if (check_below(3) == 0) { /* rows in no segment */
            q += 2;
            k += 2;
        }
    }
    c->a.nseg = n;
    c->a.nq = q;
    c->a.nkv = k;
}

static void call_init(struct call *c, enum bn_dtype t, int docs, int len,
                      int hd, int heads, int kv_heads, int window)
{
    memset(c, 0, sizeof(*c));
    c->t = t;
    make_segments(c, docs, len);
    struct bn_attn *a = &c->a;
    a->heads = heads;
    a->kv_heads = kv_heads;
    a->hd = hd;
    a->window = window;
    a->scale = 1 / sqrtf((float)hd);
    a->ldq = heads * hd + 2 * check_below(2);
    a->ldk = kv_heads * hd + 2 * check_below(2);
    a->ldv = kv_heads * hd + 1 * check_below(2);
    a->ldo = heads * hd;
    c->q = buf_random(t, (size_t)a->nq * a->ldq, 1, 2);
    c->k = buf_random(t, (size_t)a->nkv * a->ldk, 0, 2);
    c->v = buf_random(t, (size_t)a->nkv * a->ldv, 1, 1);
    c->d_o = buf_random(t, (size_t)a->nq * a->ldo, 0, 1);
    c->o = buf_new(t, (size_t)a->nq * a->ldo, 1);
    c->lse = buf_new(BN_F32, (size_t)a->nq * heads, 0);
    c->dq = buf_new(t, c->q.n, 0);
    c->dk = buf_new(t, c->k.n, 1);
    c->dv = buf_new(t, c->v.n, 0);
    a->q = c->q.p;
    a->k = c->k.p;
    a->v = c->v.p;
    a->o = c->o.p;
    a->lse = c->lse.p;
    a->host_seg = a->seg = c->seg;
    c->g = (struct bn_attn_grad){c->d_o.p, c->dq.p, c->dk.p, c->dv.p};
}

static void call_free(struct call *c)
{
    struct buf *all[] = {&c->q,   &c->k,  &c->v,  &c->o, &c->lse,
                         &c->d_o, &c->dq, &c->dk, &c->dv};

    for (size_t i = 0; i < BN_COUNT(all); i++)
        buf_free(all[i]);
}

/* Scratch exactly as large as asked for, full of NaN. */
static void run_cpu(struct call *c)
{
    struct buf work = buf_new(BN_U8, bn_attn_work_cpu(&c->a), 0);

    c->a.work = work.p;
    bn_attn_cpu(c->t, &c->a);
    memset(work.p, 0xff, work.n);
    bn_attn_grad_cpu(c->t, &c->a, &c->g);
    buf_free(&work);
}

/* |got - want| against the largest of the row, or for gradients, which are
 * what is left of terms that cancel, of at least 'floor' and of all. */
static void rows_close(const struct buf *got, const struct buf *want, int ld,
                       double floor, double tol, const char *what)
{
    size_t span = floor > 0 ? want->n : (size_t)ld;

    for (size_t from = 0; from < want->n; from += span) {
        size_t to = from + span < want->n ? from + span : want->n;
        double top = floor;

        for (size_t i = from; i < to; i++)
            top = fmax(top, fabs(bn_get(want->t, want->p, i)));
        for (size_t i = from; i < to; i++) {
            double g = bn_get(got->t, got->p, i);
            double w = bn_get(want->t, want->p, i);

            if (isnan(g) != isnan(w) || fabs(g - w) > tol * top)
                fail_msg("%s, %s: row %zu column %zu is %g, not %g (max %g)",
                         what, bn_cpu_isa_name(bn_cpu_isa()), i / ld, i % ld, g,
                         w, top);
        }
    }
}

static void compare(enum bn_dtype t, int docs, int len, int hd, int heads,
                    int kv_heads, int window)
{
    struct call c, r;
    uint64_t seed = check_seed;
    double tol = t == BN_F32 ? 2e-5 : 3e-2;

    call_init(&c, t, docs, len, hd, heads, kv_heads, window);
    check_seed = seed;
    call_init(&r, t, docs, len, hd, heads, kv_heads, window);
    run_cpu(&c);
    bn_attn_ref(t, &r.a);
    bn_attn_grad_ref(t, &r.a, &r.g);
    rows_close(&c.o, &r.o, c.a.ldo, 0, t == BN_F32 ? 1e-5 : 2e-2, "o");
    buf_close(&c.lse, &r.lse, t == BN_F32 ? 1e-5 : 2e-3,
              t == BN_F32 ? 1e-5 : 2e-3, "lse");
    rows_close(&c.dq, &r.dq, c.a.ldq, 0.5, tol, "dq");
    rows_close(&c.dk, &r.dk, c.a.ldk, 0.5, tol, "dk");
    rows_close(&c.dv, &r.dv, c.a.ldv, 0.5, tol, "dv");
    call_free(&r);

    /* The same bits on another number of threads. */
    check_seed = seed;
    call_init(&r, t, docs, len, hd, heads, kv_heads, window);
#ifdef _OPENMP
    int threads = omp_get_max_threads();
    omp_set_num_threads(3);
#endif
    run_cpu(&r);
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
    buf_same(&c.o, &r.o, "o again");
    buf_same(&c.dq, &r.dq, "dq again");
    buf_same(&c.dk, &r.dk, "dk again");
    buf_same(&c.dv, &r.dv, "dv again");
    call_free(&r);
    call_free(&c);
}

static void shapes(enum bn_dtype t)
{
    static const int hd[] = {2, 8, 64, 80, 96, 128, 14};

    for (int i = 0; i < 14; i++) {
        int kv = 1 + check_below(2), group = 1 + check_below(6);

        compare(t, check_below(5), 2 + check_below(40), hd[i % 7], kv * group,
                kv, check_below(3) == 0 ? 1 + check_below(30) : 0);
    }
    /* Beyond one block in every direction, and beyond a job. */
    compare(t, 2, 300, 8, 2, 1, 0);
    compare(t, 2, 300, 16, 2, 2, 120);
    compare(t, 1, 460, 8, 1, 1, 0);
    compare(t, 2, 30, 256, 1, 1, 0);
    compare(t, 2, 20, 600, 1, 1, 0);
}

static void agrees_with_the_reference(void **state)
{
    (void)state;
    check_all(shapes);
}

static void forward(void *p)
{
    bn_attn_ref(BN_F32, p);
}

static void reference_gradient_is_right(void **state)
{
    struct call c;

    (void)state;
    for (int window = 0; window < 8; window += 5) {
        call_init(&c, BN_F32, 4, 6, 4, 4, 2, window);
        memset(c.o.p, 0, c.o.n * 4); /* rows in no segment */
        forward(&c.a);
        memset(c.dq.p, 0, c.dq.n * 4);
        bn_attn_grad_ref(BN_F32, &c.a, &c.g);
        check_slopes(&c.q, &c.dq, c.a.ldq, 16, forward, &c.a, &c.o, &c.d_o,
                     "dq");
        check_slopes(&c.k, &c.dk, c.a.ldk, 8, forward, &c.a, &c.o, &c.d_o,
                     "dk");
        check_slopes(&c.v, &c.dv, c.a.ldv, 8, forward, &c.a, &c.o, &c.d_o,
                     "dv");
        call_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_gradient_is_right),
        cmocka_unit_test(agrees_with_the_reference),
    };

    return BN_TAP_RUN(tests);
}
