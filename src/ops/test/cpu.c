#include "config.h"
#include "base/tap.h"
#include "kernels/gemm.h"
#include "kernels/test/check.h"
#include "ops/floor.h"
#include "ops/ops.h"

#include <stddef.h>

static struct bn_dev *dev(int threads)
{
    struct bn_err err;
    struct bn_dev *d = bn_dev_cpu(threads, &err);

    if (d == NULL)
        fail_msg("%s", err.text);
    return d;
}

/* All but those of graphs, which this back end has not. */
static void every_slot_is_filled(void **state)
{
    enum {
        GRAPHS = offsetof(struct bn_ops, graph_create),
        BEHIND = offsetof(struct bn_ops, graph_end) + sizeof(void (*)(void))
    };
    struct bn_dev *d = dev(2);
    void (*slot)(void);

    (void)state;
    assert_int_equal(sizeof(d->op) % sizeof(slot), 0);
    for (size_t i = 0; i < sizeof(d->op); i += sizeof(slot)) {
        memcpy(&slot, (char *)&d->op + i, sizeof(slot));
        assert_true((slot == NULL) == (i >= GRAPHS && i < BEHIND));
    }
    bn_dev_destroy(d);
}

/* Operands of one layer. */
struct layer {
    enum bn_dtype t;
    int n, rows, cols, ld;
    struct buf x, w, y, bias, dw;
    struct bn_mat mat;
};

static void layer_init(struct layer *l, enum bn_dtype t, int n, int rows,
                       int cols)
{
    *l = (struct layer){t, n, rows, cols, .ld = rows + check_below(3)};
    l->x = buf_random(t, (size_t)n * cols, 1, 1);
    l->w = buf_random(t, (size_t)rows * cols, 0, 1);
    l->y = buf_random(t, (size_t)n * l->ld, 1, 1);
    l->bias = buf_random(t, (size_t)rows, 0, 1);
    l->dw = buf_random(BN_F32, (size_t)rows * cols, 0, 1);
    l->mat = (struct bn_mat){.data = l->w.p, .rows = rows, .cols = cols};
}

static void layer_free(struct layer *l)
{
    buf_free(&l->x);
    buf_free(&l->w);
    buf_free(&l->y);
    buf_free(&l->bias);
    buf_free(&l->dw);
}

/* 'size' is that of the terms. */
static void expect(const struct buf *got, struct buf *want, struct bn_gemm g,
                   double size, const char *what)
{
    g.c = want->p;
    bn_gemm_ref(&g);
    buf_close(got, want, 1e-6, 2e-6 * size * sqrt(g.k + 1.0) + 1e-6, what);
    buf_free(want);
}

static void forward(struct bn_dev *d, struct layer *l, bool acc, bool bias)
{
    struct buf want = buf_copy(&l->y);
    const void *b = bias ? l->bias.p : NULL;

    d->op.linear(d, l->t, l->y.p, l->ld, l->x.p, &l->mat, b, l->n, acc);
    expect(&l->y, &want,
           (struct bn_gemm){.t = l->t,
                            .tc = l->t,
                            .m = l->n,
                            .n = l->rows,
                            .k = l->cols,
                            .a = l->x.p,
                            .lda = l->cols,
                            .b = l->w.p,
                            .ldb = l->cols,
                            .bias = b,
                            .ldc = l->ld,
                            .acc = acc},
           1, "linear");
}

static void logits(struct bn_dev *d, struct layer *l)
{
    struct buf y = buf_random(BN_F32, (size_t)l->n * l->ld, 0, 1);
    struct buf want = buf_copy(&y);

    d->op.linear_f32(d, l->t, y.p, l->ld, l->x.p, &l->mat, l->n);
    expect(&y, &want,
           (struct bn_gemm){.t = l->t,
                            .tc = BN_F32,
                            .m = l->n,
                            .n = l->rows,
                            .k = l->cols,
                            .a = l->x.p,
                            .lda = l->cols,
                            .b = l->w.p,
                            .ldb = l->cols,
                            .ldc = l->ld},
           1, "linear_f32");
    buf_free(&y);
}

static void backward(struct bn_dev *d, struct layer *l, bool acc)
{
    struct buf dx = buf_random(l->t, l->x.n, 1, 1), want = buf_copy(&dx);
    struct buf dwant = buf_copy(&l->dw);

    d->op.linear_dx(d, l->t, dx.p, l->y.p, l->ld, &l->mat, l->n, acc);
    expect(&dx, &want,
           (struct bn_gemm){.t = l->t,
                            .tc = l->t,
                            .m = l->n,
                            .n = l->cols,
                            .k = l->rows,
                            .a = l->y.p,
                            .lda = l->ld,
                            .b = l->w.p,
                            .ldb = l->cols,
                            .b_by_k = true,
                            .ldc = l->cols,
                            .acc = acc},
           sqrt(l->cols + 1.0), "linear_dx");
    d->op.linear_dw(d, l->t, l->dw.p, l->y.p, l->ld, l->x.p, l->rows, l->cols,
                    l->n);
    expect(&l->dw, &dwant,
           (struct bn_gemm){.t = l->t,
                            .tc = BN_F32,
                            .m = l->rows,
                            .n = l->cols,
                            .k = l->n,
                            .a = l->y.p,
                            .lda = l->ld,
                            .a_by_k = true,
                            .b = l->x.p,
                            .ldb = l->cols,
                            .b_by_k = true,
                            .ldc = l->cols,
                            .acc = true},
           sqrt(l->cols + 1.0), "linear_dw");
    buf_free(&dx);
}

static void products(bool keep_packed)
{
    static const int shape[][3] = {{0, 5, 7},    {1, 1, 1},    {1, 40, 64},
                                   {3, 130, 33}, {70, 96, 65}, {5, 600, 9},
                                   {33, 8, 1500}};
    struct bn_dev *d = dev(2);
    struct bn_err err;

    d->keep_packed = keep_packed;
    for (size_t i = 0; i < BN_COUNT(shape); i++) {
        for (int f = 0; f < 8; f++) {
            struct layer l;

            layer_init(&l, f & 4 ? BN_BF16 : BN_F32, shape[i][0], shape[i][1],
                       shape[i][2]);
            d->op.mat_changed(d, l.t, &l.mat);
            bn_put(l.t, l.w.p, 0, 0.5F); /* and once more, as in training */
            d->op.mat_changed(d, l.t, &l.mat);
            forward(d, &l, f & 1, f & 2);
            logits(d, &l);
            backward(d, &l, f & 1);
            d->op.mat_release(d, &l.mat);
            layer_free(&l);
        }
    }
    assert_int_equal(bn_dev_check(d, &err), 0);
    bn_dev_destroy(d);
}

static void products_agree_with_the_reference(void **state)
{
    (void)state;
    products(false);
}

static void packed_copies_agree_with_the_reference(void **state)
{
    (void)state;
    products(true);
}

static void library_agrees_with_the_reference(void **state)
{
    (void)state;
#ifdef HAVE_ONEDNN
    setenv("BURNISH_GEMM", "onednn", 1);
    products(true);
    unsetenv("BURNISH_GEMM");
#else
    skip();
#endif
}

static void a_way_that_is_not_there_is_refused(void **state)
{
    struct bn_err err;

    (void)state;
    setenv("BURNISH_GEMM", "fast", 1);
    assert_null(bn_dev_cpu(1, &err));
    assert_int_equal(err.code, BN_ERR_USAGE);
    assert_string_equal(err.text, "BURNISH_GEMM is 'fast': say own or onednn");
    unsetenv("BURNISH_GEMM");
}

/* The bits of a row depend on nothing but the row and the weights. */
static void rows_do_not_feel_each_other(void **state)
{
    struct bn_dev *d = dev(2), *one;
    struct layer l;

    (void)state;
    layer_init(&l, BN_BF16, 61, 200, 300);
    d->op.linear(d, l.t, l.y.p, l.ld, l.x.p, &l.mat, NULL, l.n, false);
    one = dev(1);
    for (int i = 0; i < l.n; i += 7) {
        struct buf y = buf_new(l.t, (size_t)l.ld, 0);

        one->op.linear(one, l.t, y.p, l.ld,
                       (uint16_t *)l.x.p + (size_t)i * l.cols, &l.mat, NULL, 1,
                       false);
        assert_memory_equal(y.p, (uint16_t *)l.y.p + (size_t)i * l.ld,
                            (size_t)l.rows * 2);
        buf_free(&y);
    }
    layer_free(&l);
    bn_dev_destroy(one);
    bn_dev_destroy(d);
}

static void the_first_failure_is_kept(void **state)
{
    struct bn_dev *d = dev(1);
    struct bn_err err;
    float f = 1;
    int32_t i = 7;

    (void)state;
    d->op.cast(d, &i, BN_I32, &f, BN_F32, 1);
    assert_int_equal(i, 7);
    assert_int_equal(bn_dev_check(d, &err), -1);
    assert_int_equal(err.code, BN_ERR_BUG);
    assert_string_equal(err.text, "no conversion from F32 to I32");
    d->op.zero(d, &f, sizeof(f)); /* later calls do nothing */
    assert_true(f == 1);
    bn_dev_destroy(d);
    bn_dev_destroy(NULL);
}

static void memory_slots_work(void **state)
{
    struct bn_dev *d = dev(2);
    struct bn_arena a;
    struct bn_err err;
    const float from[3] = {1.5f, -2, 1e9f};
    float back[3];

    (void)state;
    assert_int_equal(d->op.arena_init(d, &a, "test", 1 << 20, &err), 0);
    void *p = bn_arena_get(&a, sizeof(from));
    d->op.from_host(d, p, BN_BF16, from, BN_F32, 3);
    d->op.to_host(d, back, BN_F32, p, BN_BF16, 3);
    d->op.sync(d);
    assert_true(back[0] == 1.5f && back[1] == -2);
    assert_true(fabsf(back[2] - 1e9f) < 4e6f);
    d->op.zero(d, a.base, a.size);
    for (size_t i = 0; i < a.size; i++)
        assert_int_equal(a.base[i], 0);
    d->op.arena_release(d, &a);
    bn_dev_destroy(d);
}

static void the_floor_is_a_time(void **state)
{
    const struct bn_gemm_shape list[] = {{64, 48, 32, 2, BN_GEMM_FORWARD},
                                         {64, 48, 32, 1, BN_GEMM_DX},
                                         {64, 48, 32, 1, BN_GEMM_DW}};
    struct bn_dev *d = dev(2);
    struct bn_err err;

    (void)state;
    for (int t = 0; t < 2; t++) {
        double s =
            bn_gemm_floor_seconds(d, t ? BN_BF16 : BN_F32, list, 3, &err);

        assert_true(s > 0 && s < 1);
    }
    bn_dev_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slot_is_filled),
        cmocka_unit_test(products_agree_with_the_reference),
        cmocka_unit_test(packed_copies_agree_with_the_reference),
        cmocka_unit_test(library_agrees_with_the_reference),
        cmocka_unit_test(a_way_that_is_not_there_is_refused),
        cmocka_unit_test(rows_do_not_feel_each_other),
        cmocka_unit_test(the_first_failure_is_kept),
        cmocka_unit_test(memory_slots_work),
        cmocka_unit_test(the_floor_is_a_time),
    };

    unsetenv("BURNISH_GEMM");
    return BN_TAP_RUN(tests);
}
