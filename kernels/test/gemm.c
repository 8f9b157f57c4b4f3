#include "config.h"
#include "base/clock.h"
#include "kernels/gemm.h"
#include "kernels/peak.h"
#include "kernels/test/check.h"

#include <omp.h>

enum { THREADS = 3 };
static void *work;

static int halved; /* products with a copy of half the size */

/* The same with b packed beforehand, which is then not read. */
static void one_packed(struct bn_gemm g, bool half, const struct buf *start,
                       const struct buf *want)
{
    struct buf c = buf_copy(start);
    size_t bytes = bn_gemm_packed_cpu(g.t, g.n, g.k) / (half ? 2 : 1);

    halved += half;
    g.packed_half = half;
    void *packed = aligned_alloc(64, (bytes + 64) / 64 * 64);

    bn_gemm_pack_cpu(&g, packed);
    g.packed = packed;
    g.b = NULL;
    g.c = c.p;
    bn_gemm_cpu(&g);
    buf_same(&c, want, "with a packed operand");
    buf_free(&c);
    free(packed);
}

/* Operands with rows a little longer than needed. */
static void one(struct bn_gemm g)
{
    int pad = check_below(3), ka = g.a_by_k ? g.k : g.m;
    int kb = g.b_by_k ? g.k : g.n;

    g.lda = (g.a_by_k ? g.m : g.k) + pad;
    g.ldb = (g.b_by_k ? g.n : g.k) + check_below(3);
    g.ldc = g.n + check_below(3);
    struct buf a = buf_random(g.t, (size_t)ka * g.lda, pad, 1);
    struct buf b = buf_random(g.t, (size_t)kb * g.ldb, 0, 1);
    bool exact = check_below(2); /* all elements are bf16's */
    for (size_t i = 0; exact && g.t == BN_F32 && i < (size_t)kb * g.ldb; i++)
        bn_put(BN_F32, b.p, i,
               bn_bits_float(bn_float_bits(bn_get(BN_F32, b.p, i))
                             & 0xffff0000));
    struct buf bias = buf_random(g.t, (size_t)g.n, 1, 1);
    struct buf c = buf_random(g.tc, (size_t)g.m * g.ldc, pad, 1);
    struct buf want = buf_copy(&c), again = buf_copy(&c);
    struct buf start = buf_copy(&c);

    if (!g.acc) /* poison */
        for (int i = 0; i < g.m; i++)
            for (int j = 0; j < g.n; j++)
                bn_put(g.tc, c.p, (size_t)i * g.ldc + j, NAN);
    g.a = a.p;
    g.b = b.p;
    g.bias = check_below(2) ? bias.p : NULL;
    g.work = work;
    g.threads = 1 + check_below(THREADS);
    g.c = c.p;
    bn_gemm_cpu(&g);
    g.threads = THREADS;
    g.c = again.p;
    bn_gemm_cpu(&g);
    buf_same(&c, &again, "another number of threads");
    one_packed(g, false, &start, &c);
    if (bn_gemm_halves_cpu(&g))
        one_packed(g, true, &start, &c);
    g.c = want.p;
    bn_gemm_ref(&g);
    /* The contract's, for terms of variance 1, and room for where they are
     * more than that. */
    buf_close(&c, &want, 1e-6, 1e-6 * g.k + 2e-6 * sqrt(g.k + 1.0) + 1e-6,
              "product");
    buf_free(&a);
    buf_free(&b);
    buf_free(&bias);
    buf_free(&c);
    buf_free(&want);
    buf_free(&again);
    buf_free(&start);
}

static int some_size(int big)
{
    return check_below(4) == 0 ? 1 + check_below(3) : 1 + check_below(big);
}

static void shapes(enum bn_dtype t)
{
    for (int i = 0; i < 100; i++) {
        struct bn_gemm g = {.t = t, .tc = check_below(2) ? t : BN_F32};
        int form = check_below(4);

        g.m = some_size(60);
        g.n = some_size(150);
        g.k = check_below(8) == 0 ? check_below(3) : some_size(200);
        g.a_by_k = form & 1;
        g.b_by_k = form & 2;
        g.acc = check_below(2);
        one(g);
    }
    /* Long sums: split, with and without a place to wait in. */
    for (int i = 0; i < 4; i++)
        one((struct bn_gemm){.t = t,
                             .tc = i & 1 ? BN_F32 : t,
                             .m = 13,
                             .n = 70,
                             .k = 2500 + i,
                             .a_by_k = i & 1,
                             .b_by_k = i > 1,
                             .acc = i & 2});
    /* Many rows and columns: every block boundary. */
    one((struct bn_gemm){.t = t, .tc = t, .m = 6200, .n = 33, .k = 7});
    one((struct bn_gemm){.t = t, .tc = t, .m = 3, .n = 4500, .k = 600});
}

static void agrees_with_the_reference(void **state)
{
    (void)state;
    check_all(shapes);
    assert_true(halved > 100);
}

/* FLOP/s of a product that stays in the cache. */
static double speed(enum bn_dtype t)
{
    enum { SIZE = 192 };
    struct buf a = buf_random(t, SIZE * SIZE, 0, 1);
    struct buf b = buf_random(t, SIZE * SIZE, 0, 1);
    struct buf c = buf_new(BN_F32, SIZE * SIZE, 0);
    struct bn_gemm g = {.t = t, .tc = BN_F32, .m = SIZE, .n = SIZE, .k = SIZE,
                        .a = a.p, .b = b.p, .c = c.p, .lda = SIZE,
                        .ldb = SIZE, .ldc = SIZE, .threads = 1, .work = work};
    double began = bn_now();

    bn_gemm_cpu(&g);
    double seconds = bn_now() - began;
    buf_free(&a);
    buf_free(&b);
    buf_free(&c);
    return 2.0 * SIZE * SIZE * SIZE / seconds;
}

/* Both are the best of several, in turn: other work slows both. */
static void peak_is_above_a_product(enum bn_dtype t)
{
    double peak = 0, product = 0;

    for (int i = 0; i < 8; i++) {
        double p = bn_peak_cpu(t), s = speed(t);

        peak = p > peak ? p : peak;
        product = s > product ? s : product;
    }
    if (!(product < 1.2 * peak))
        fail_msg("%s: a product at %.3g FLOP/s, the peak is %.3g",
                 bn_cpu_isa_name(bn_cpu_isa()), product, peak);
#ifndef BN_SANITIZED /* there products are slow */
    if (!(product > peak / 8))
        fail_msg("%s: a product at %.3g FLOP/s only, the peak is %.3g",
                 bn_cpu_isa_name(bn_cpu_isa()), product, peak);
#endif
}

static void the_peak_is_that_of_this_machine(void **state)
{
    (void)state;
    omp_set_num_threads(1);
    check_all(peak_is_above_a_product);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_reference),
        cmocka_unit_test(the_peak_is_that_of_this_machine),
    };
    size_t most = 0;

    for (int isa = 0; isa < BN_CPU_NISA; isa++)
        if (bn_cpu_isa_set((enum bn_cpu_isa)isa) == 0
            && bn_gemm_work_cpu(THREADS) > most)
            most = bn_gemm_work_cpu(THREADS);
    work = aligned_alloc(64, most);
    int rc = BN_TAP_RUN(tests);
    free(work);
    return rc;
}
