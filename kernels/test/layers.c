#include "config.h"
#include "kernels/embed.h"
#include "kernels/headnorm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/swiglu.h"
#include "kernels/test/check.h"

/* Odd sizes, one row, none, and enough for every thread. */
static const struct {
    int cols, n;
} sizes[] = {{1, 1}, {7, 3}, {64, 5}, {130, 0}, {513, 17}, {1100, 40}};

static void embed(enum bn_dtype t)
{
    for (size_t i = 0; i < BN_COUNT(sizes); i++) {
        int cols = sizes[i].cols, n = sizes[i].n, count = 11, first = 5;
        struct buf table = buf_random(t, (size_t)count * cols, 1, 1);
        struct buf dy = buf_random(t, (size_t)n * cols, 1, 1);
        struct buf y = buf_new(t, (size_t)n * cols, 0), want = buf_copy(&y);
        struct buf d = buf_random(BN_F32, (size_t)count * cols, 1, 1);
        struct buf dwant = buf_copy(&d);
        int32_t ids[64];

        for (int k = 0; k < n; k++) /* some below, some above the shard */
            ids[k] = check_below(count + 2 * first);
        bn_embed_cpu(t, y.p, table.p, ids, first, count, cols, n);
        bn_embed_ref(t, want.p, table.p, ids, first, count, cols, n);
        buf_same(&y, &want, "embed");
        bn_embed_grad_cpu(t, d.p, dy.p, ids, first, count, cols, n);
        bn_embed_grad_ref(t, dwant.p, dy.p, ids, first, count, cols, n);
        buf_close(&d, &dwant, 1e-6, 1e-5, "embed_grad");
        buf_free(&table);
        buf_free(&dy);
        buf_free(&y);
        buf_free(&want);
        buf_free(&d);
        buf_free(&dwant);
    }
}

/* The forms: without delta, with it, xo over x, xo over delta. */
static void rmsnorm_form(enum bn_dtype t, int cols, int n, int form)
{
    size_t all = (size_t)n * cols;
    struct buf x = buf_random(t, all, 1, 2), x2 = buf_copy(&x);
    struct buf delta = buf_random(t, all, 0, 2), delta2 = buf_copy(&delta);
    struct buf w = buf_random(t, (size_t)cols, 1, 1);
    struct buf xo = buf_new(t, all, 1), xo2 = buf_copy(&xo);
    struct buf y = buf_new(t, all, 1), y2 = buf_copy(&y);
    struct buf r = buf_new(BN_F32, (size_t)n, 0), r2 = buf_copy(&r);
    const void *d = form > 0 ? delta.p : NULL;
    struct buf *o = form == 2 ? &x : form == 3 ? &delta : &xo;

    bn_rmsnorm_cpu(t, y.p, r.p, form == 0 ? NULL : o->p, x.p, d, w.p, 1e-5f,
                   cols, n);
    bn_rmsnorm_ref(t, y2.p, r2.p, xo2.p, x2.p, form > 0 ? delta2.p : NULL, w.p,
                   1e-5f, cols, n);
    buf_close(&y, &y2, 2e-6, 1e-12, "rmsnorm");
    buf_close(&r, &r2, 2e-6, 0, "rstd");
    buf_same(form == 0 ? &xo2 : o, &xo2, "residual");
    buf_free(&x);
    buf_free(&x2);
    buf_free(&delta);
    buf_free(&delta2);
    buf_free(&w);
    buf_free(&xo);
    buf_free(&xo2);
    buf_free(&y);
    buf_free(&y2);
    buf_free(&r);
    buf_free(&r2);
}

/* The forms: without dres, with it, dx over dy, dx over dres. */
static void rmsnorm_grad_form(enum bn_dtype t, int cols, int n, int form)
{
    size_t all = (size_t)n * cols;
    struct buf x = buf_random(t, all, 1, 2);
    struct buf dy = buf_random(t, all, 1, 1), dy2 = buf_copy(&dy);
    struct buf dres = buf_random(t, all, 1, 1), dres2 = buf_copy(&dres);
    struct buf w = buf_random(t, (size_t)cols, 1, 1);
    struct buf dx = buf_new(t, all, 1), dx2 = buf_copy(&dx);
    struct buf dw = buf_random(BN_F32, (size_t)cols, 1, 1);
    struct buf dw2 = buf_copy(&dw);
    struct buf r = buf_new(BN_F32, (size_t)n, 0);
    struct buf *o = form == 2 ? &dy : form == 3 ? &dres : &dx;

    for (int i = 0; i < n; i++)
        ((float *)r.p)[i] = 0.5f + (float)check_below(100) / 100;
    bn_rmsnorm_grad_cpu(t, o->p, dw.p, dy.p, form == 0 ? NULL : dres.p, x.p,
                        w.p, r.p, cols, n);
    bn_rmsnorm_grad_ref(t, dx2.p, dw2.p, dy2.p, form == 0 ? NULL : dres2.p, x.p,
                        w.p, r.p, cols, n);
    buf_close(o, &dx2, 1e-5, 3e-5, "rmsnorm_grad dx");
    buf_close(&dw, &dw2, 1e-5, 1e-4, "rmsnorm_grad dw");
    buf_free(&x);
    buf_free(&dy);
    buf_free(&dy2);
    buf_free(&dres);
    buf_free(&dres2);
    buf_free(&w);
    buf_free(&dx);
    buf_free(&dx2);
    buf_free(&dw);
    buf_free(&dw2);
    buf_free(&r);
}

static void rmsnorm(enum bn_dtype t)
{
    for (size_t i = 0; i < BN_COUNT(sizes); i++) {
        for (int form = 0; form < 4; form++) {
            rmsnorm_form(t, sizes[i].cols, sizes[i].n, form);
            rmsnorm_grad_form(t, sizes[i].cols, sizes[i].n, form);
        }
    }
}

static void headnorm_form(enum bn_dtype t, int heads, int hd, int n, bool over)
{
    int ldx = heads * hd + 3, ldy = over ? ldx : heads * hd;
    struct buf x = buf_random(t, (size_t)n * ldx, 1, 2), x2 = buf_copy(&x);
    struct buf w = buf_random(t, (size_t)hd, 0, 1);
    struct buf y = buf_new(t, (size_t)n * ldy, 1);
    struct buf y2 = over ? buf_copy(&x) : buf_copy(&y);
    struct buf r = buf_new(BN_F32, (size_t)n * heads, 1), r2 = buf_copy(&r);
    struct buf dy = buf_random(t, (size_t)n * ldy, 1, 1);
    struct buf dx = buf_new(t, (size_t)n * ldx, 1);
    struct buf dx2 = over ? buf_copy(&dy) : buf_copy(&dx);
    struct buf dw = buf_random(BN_F32, (size_t)hd, 1, 1), dw2 = buf_copy(&dw);
    struct buf *oy = over ? &x : &y, *od = over ? &dy : &dx;

    bn_headnorm_ref(t, y2.p, ldy, r2.p, x2.p, ldx, w.p, 1e-6f, heads, hd, n);
    bn_headnorm_grad_ref(t, dx2.p, over ? ldy : ldx, dw2.p, dy.p, ldy, x2.p,
                         ldx, w.p, r2.p, heads, hd, n);
    bn_headnorm_cpu(t, oy->p, ldy, r.p, x.p, ldx, w.p, 1e-6f, heads, hd, n);
    bn_headnorm_grad_cpu(t, od->p, over ? ldy : ldx, dw.p, dy.p, ldy, x2.p, ldx,
                         w.p, r2.p, heads, hd, n);
    buf_close(oy, &y2, 2e-6, 1e-12, "headnorm");
    buf_close(&r, &r2, 2e-6, 0, "headnorm rstd");
    buf_close(od, &dx2, 1e-5, 3e-5, "headnorm_grad dx");
    buf_close(&dw, &dw2, 1e-5, 1e-4, "headnorm_grad dw");
    buf_free(&x);
    buf_free(&x2);
    buf_free(&w);
    buf_free(&y);
    buf_free(&y2);
    buf_free(&r);
    buf_free(&r2);
    buf_free(&dy);
    buf_free(&dx);
    buf_free(&dx2);
    buf_free(&dw);
    buf_free(&dw2);
}

static void headnorm(enum bn_dtype t)
{
    static const int hd[] = {2, 10, 64, 128, 256};

    for (size_t i = 0; i < BN_COUNT(hd); i++)
        for (int over = 0; over < 2; over++)
            headnorm_form(t, 1 + check_below(9), hd[i],
                          check_below(3) == 0 ? 1 : check_below(50), over);
}

static void rope(enum bn_dtype t)
{
    static const int hd[] = {2, 6, 64, 80, 256};

    for (size_t i = 0; i < BN_COUNT(hd); i++) {
        int heads = 1 + check_below(4), n = check_below(50), half = hd[i] / 2;
        int ld = heads * hd[i] + 5;
        struct buf x = buf_random(t, (size_t)n * ld, 1, 1), y = buf_copy(&x);
        struct buf was = buf_copy(&x);
        struct buf c = buf_new(BN_F32, (size_t)30 * half, 0), s = buf_copy(&c);
        int32_t pos[64];

        for (int k = 0; k < 30 * half; k++) {
            float a = check_normal(2);

            ((float *)c.p)[k] = cosf(a);
            ((float *)s.p)[k] = sinf(a);
        }
        for (int k = 0; k < n; k++)
            pos[k] = check_below(30);
        bn_rope_cpu(t, x.p, ld, c.p, s.p, pos, heads, hd[i], n, false);
        bn_rope_ref(t, y.p, ld, c.p, s.p, pos, heads, hd[i], n, false);
        buf_close(&x, &y, 1e-6, t == BN_F32 ? 1e-6 : 0.02, "rope");
        /* Backward is the inverse of a rotation. */
        bn_rope_cpu(t, x.p, ld, c.p, s.p, pos, heads, hd[i], n, true);
        buf_close(&x, &was, 1e-6, t == BN_F32 ? 2e-6 : 0.04, "rope back");
        buf_free(&x);
        buf_free(&y);
        buf_free(&was);
        buf_free(&c);
        buf_free(&s);
    }
}

static void swiglu(enum bn_dtype t)
{
    for (size_t i = 0; i < BN_COUNT(sizes); i++) {
        for (int form = 0; form < 3; form++) {
            size_t n = (size_t)sizes[i].n, f = (size_t)sizes[i].cols;
            struct buf gu = buf_random(t, n * 2 * f, 1, 6), gu2;
            struct buf dy = buf_random(t, n * f, 1, 1), dy2;
            struct buf y = buf_new(t, n * f, 0), y2 = buf_copy(&y);
            struct buf dgu = buf_new(t, n * 2 * f, 0), dgu2 = buf_copy(&dgu);

            if (n > 2) { /* the ends of exp's range */
                bn_put(t, gu.p, 0, -200);
                bn_put(t, gu.p, 1, 200);
                bn_put(t, gu.p, 2, -88.5f);
            }
            gu2 = buf_copy(&gu);
            dy2 = buf_copy(&dy);
            bn_swiglu_cpu(t, y.p, gu.p, (int)f, (int)n);
            bn_swiglu_ref(t, y2.p, gu2.p, (int)f, (int)n);
            buf_close(&y, &y2, 1e-6, 1e-30, "swiglu");
            /* Backward: y apart, none and in place, over dy and in place. */
            struct buf *oy = form == 2 ? &dy : &y;
            struct buf *od = form > 0 ? &gu : &dgu;
            bn_swiglu_grad_ref(t, dgu2.p, y2.p, dy2.p, gu2.p, (int)f, (int)n);
            bn_swiglu_grad_cpu(t, od->p, form == 1 ? NULL : oy->p, dy.p, gu.p,
                               (int)f, (int)n);
            buf_close(od, &dgu2, 2e-6, 2e-5, "swiglu_grad");
            if (form != 1)
                buf_close(oy, &y2, 1e-6, 1e-30, "swiglu again");
            buf_free(&gu);
            buf_free(&gu2);
            buf_free(&dy);
            buf_free(&dy2);
            buf_free(&y);
            buf_free(&y2);
            buf_free(&dgu);
            buf_free(&dgu2);
        }
    }
}

/* --- the references against differences ---------------------------------- */

enum { N = 3, COLS = 6, HEADS = 2 };
static struct buf x, w, y, dy, dx, dw, res, r;
static int32_t ids[N] = {1, 0, 1};

static void setup(int xcols, int wn, int ycols)
{
    x = buf_random(BN_F32, (size_t)N * xcols, 0, 1);
    w = buf_random(BN_F32, (size_t)wn, 0, 1);
    y = buf_new(BN_F32, (size_t)N * ycols, 0);
    dy = buf_random(BN_F32, y.n, 0, 1);
    dx = buf_new(BN_F32, x.n, 0);
    dw = buf_new(BN_F32, w.n, 0);
    memset(dw.p, 0, dw.n * 4);
    res = buf_random(BN_F32, x.n, 0, 1);
    r = buf_new(BN_F32, (size_t)N * HEADS, 0);
}

static void check_and_free(void (*forward)(void *), bool input, bool weight)
{
    if (input)
        check_slopes(&x, &dx, 1, 1, forward, NULL, &y, &dy, "dx");
    if (weight)
        check_slopes(&w, &dw, 1, 1, forward, NULL, &y, &dy, "dw");
    buf_free(&x);
    buf_free(&w);
    buf_free(&y);
    buf_free(&dy);
    buf_free(&dx);
    buf_free(&dw);
    buf_free(&res);
    buf_free(&r);
}

static void embed_forward(void *arg)
{
    (void)arg;
    bn_embed_ref(BN_F32, y.p, w.p, ids, 0, 2, COLS, N);
}

static void rmsnorm_forward(void *arg)
{
    (void)arg;
    bn_rmsnorm_ref(BN_F32, y.p, r.p, NULL, x.p, NULL, w.p, 1e-5f, COLS, N);
}

static void headnorm_forward(void *arg)
{
    (void)arg;
    bn_headnorm_ref(BN_F32, y.p, COLS, r.p, x.p, COLS, w.p, 1e-5f, HEADS,
                    COLS / HEADS, N);
}

static void swiglu_forward(void *arg)
{
    (void)arg;
    bn_swiglu_ref(BN_F32, y.p, x.p, COLS, N);
}

static void references_have_right_gradients(void **state)
{
    (void)state;
    setup(COLS, 2 * COLS, COLS);
    bn_embed_grad_ref(BN_F32, dw.p, dy.p, ids, 0, 2, COLS, N);
    check_and_free(embed_forward, false, true);

    setup(COLS, COLS, COLS);
    rmsnorm_forward(NULL);
    bn_rmsnorm_grad_ref(BN_F32, dx.p, dw.p, dy.p, res.p, x.p, w.p, r.p, COLS,
                        N);
    for (size_t i = 0; i < dx.n; i++) /* dres is only added */
        ((float *)dx.p)[i] -= ((float *)res.p)[i];
    check_and_free(rmsnorm_forward, true, true);

    setup(COLS, COLS / HEADS, COLS);
    headnorm_forward(NULL);
    bn_headnorm_grad_ref(BN_F32, dx.p, COLS, dw.p, dy.p, COLS, x.p, COLS, w.p,
                         r.p, HEADS, COLS / HEADS, N);
    check_and_free(headnorm_forward, true, true);

    setup(2 * COLS, 1, COLS);
    bn_swiglu_grad_ref(BN_F32, dx.p, NULL, dy.p, x.p, COLS, N);
    check_and_free(swiglu_forward, true, false);
}

#define EVERYWHERE(name)                                                       \
    static void name##_agrees(void **state)                                    \
    {                                                                          \
        (void)state;                                                           \
        check_all(name);                                                       \
    }
EVERYWHERE(embed)
EVERYWHERE(rmsnorm)
EVERYWHERE(headnorm)
EVERYWHERE(rope)
EVERYWHERE(swiglu)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(references_have_right_gradients),
        cmocka_unit_test(embed_agrees),
        cmocka_unit_test(rmsnorm_agrees),
        cmocka_unit_test(headnorm_agrees),
        cmocka_unit_test(rope_agrees),
        cmocka_unit_test(swiglu_agrees),
    };

    return BN_TAP_RUN(tests);
}
