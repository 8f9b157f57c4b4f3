/* What the contracts say of bytes: every array is read and written once, by
 * 16 bytes where it is aligned to that. Counted by the emulator; of arrays
 * that are as long as rows times columns, since the others stay in caches.
 */
#include "config.h"
#include "kernels/adamw.h"
#include "kernels/add.h"
#include "kernels/attn.h"
#include "kernels/cast.h"
#include "kernels/cuda/test/gpu.h"
#include "kernels/dropout.h"
#include "kernels/embed.h"
#include "kernels/head.h"
#include "kernels/headnorm.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/rows.h"
#include "kernels/sqnorm.h"
#include "kernels/swiglu.h"

enum { ROWS = 137, HEADS = 3, HD = 128, COLS = HEADS * HD, ALL = ROWS * COLS };

static struct bn_emu_watched watched[8];
static uint64_t reads[8], writes[8], narrow[8];
static int nwatched;

/* n elements of type t, at 'p' or of new memory, of which each is to be read
 * and written so often. */
static void *array_at(void *p, enum bn_dtype t, size_t n, unsigned read,
                      unsigned written)
{
    size_t bytes = n * bn_dtype_size(t);
    int k = nwatched++;

    assert_true(k < 8);
    if (p == NULL)
        p = gpu_copy(t, host_new(t, n, 1), n);
    watched[k] = (struct bn_emu_watched){.p = p, .n = bytes};
    reads[k] = read * bytes;
    writes[k] = written * bytes;
    narrow[k] = 0;
    return p;
}

static void *array(enum bn_dtype t, size_t n, unsigned read, unsigned written)
{
    return array_at(NULL, t, n, read, written);
}

/* A launch comes next; counts are from here on. */
static void count(void)
{
    bn_emu_watch(watched, nwatched);
}

static void counted(int rc, const char *what)
{
    int all = nwatched;

    nwatched = 0;
    gpu_ok(rc, what);
    bn_emu_watch(NULL, 0);
    for (int k = 0; k < all; k++) {
        const struct bn_emu_watched *w = &watched[k];

        if (w->read != reads[k] || w->written != writes[k]
            || w->narrow != narrow[k])
            fail_msg("%s, array %d: reads %llu, writes %llu, %llu of them by "
                     "less than 16 bytes; not %llu, %llu, %llu", what, k,
                     (unsigned long long)w->read,
                     (unsigned long long)w->written,
                     (unsigned long long)w->narrow,
                     (unsigned long long)reads[k],
                     (unsigned long long)writes[k],
                     (unsigned long long)narrow[k]);
    }
}

static void *apart(enum bn_dtype t, size_t n)
{
    return gpu_copy(t, host_new(t, n, 1), n);
}

static void norms(enum bn_dtype t)
{
    void *w = apart(t, COLS), *work = apart(BN_F32, BN_NORM_PARTS * COLS);
    float *rstd = apart(BN_F32, ROWS * HEADS), *dw = apart(BN_F32, COLS);
    void *x, *y, *d, *xo;

    x = array(t, ALL, 1, 0);
    y = array(t, ALL, 0, 1);
    count();
    counted(bn_rmsnorm_cuda(t, y, rstd, NULL, x, NULL, w, 1e-5f, COLS, ROWS,
                            NULL), "rmsnorm");
    x = array(t, ALL, 1, 0);
    y = array(t, ALL, 0, 1);
    d = array(t, ALL, 1, 0);
    xo = array(t, ALL, 0, 1);
    count();
    counted(bn_rmsnorm_cuda(t, y, rstd, xo, x, d, w, 1e-5f, COLS, ROWS, NULL),
            "rmsnorm of a sum");
    for (unsigned with = 0; with < 2; with++) {
        x = array(t, ALL, 1, 0);
        y = array(t, ALL, 1, 0); /* dy */
        d = array(t, ALL, with, 0);
        xo = array(t, ALL, 0, 1); /* dx */
        count();
        counted(bn_rmsnorm_grad_cuda(t, xo, dw, y, with ? d : NULL, x, w,
                                     rstd, COLS, ROWS, work, NULL),
                "rmsnorm_grad");
    }
    x = array(t, ALL, 1, 0);
    y = array(t, ALL, 0, 1);
    count();
    counted(bn_headnorm_cuda(t, y, COLS, rstd, x, COLS, w, 1e-5f, HEADS, HD,
                             ROWS, NULL), "headnorm");
    x = array(t, ALL, 1, 0);
    y = array(t, ALL, 1, 0);
    xo = array(t, ALL, 0, 1);
    count();
    counted(bn_headnorm_grad_cuda(t, xo, COLS, dw, y, COLS, x, COLS, w, rstd,
                                  HEADS, HD, ROWS, work, NULL),
            "headnorm_grad");
    gpu_end();
}

static void elements(enum bn_dtype t)
{
    struct bn_dropout p = {.scale = 2, .below = 1u << 31};
    void *x, *y, *z;

    x = array(t, 2 * ALL, 1, 0);
    y = array(t, ALL, 0, 1);
    count();
    counted(bn_swiglu_cuda(t, y, x, COLS, ROWS, NULL), "swiglu");
    for (unsigned with = 0; with < 2; with++) {
        x = array(t, 2 * ALL, 1, 1);
        y = array(t, ALL, 1, 0);
        z = array(t, ALL, 0, with);
        count();
        counted(bn_swiglu_grad_cuda(t, x, with ? z : NULL, y, x, COLS, ROWS,
                                    NULL), "swiglu_grad");
    }
    x = array(t, ALL, 1, 0);
    y = array(t, ALL, 1, 1);
    count();
    counted(bn_add_cuda(t, y, x, ALL, NULL), "add");
    p.key = gpu_new(NULL, 8 * ROWS);
    for (unsigned acc = 0; acc < 2; acc++) {
        x = array(t, ALL, 1, 0);
        y = array(t, ALL, acc, 1);
        count();
        counted(bn_dropout_cuda(t, y, x, &p, acc == 1, COLS, ROWS, NULL),
                "dropout");
    }
    x = array(t, ALL, 1, 0);
    y = array(BN_F16, ALL, 0, 1);
    count();
    counted(bn_cast_cuda(y, BN_F16, x, t, ALL, NULL), "cast");
    gpu_end();
}

static void rows(enum bn_dtype t)
{
    enum { VOCAB = ROWS + 2 };
    int32_t ids[ROWS];
    float *angle = apart(BN_F32, ROWS * HD / 2);
    void *x, *y, *work = apart(BN_F32, BN_BIAS_PARTS * COLS);

    for (int i = 0; i < ROWS; i++)
        ids[i] = ROWS - 1 - i;
    int32_t *gids = gpu_copy(BN_I32, ids, ROWS);
    x = array(t, ALL, 1, 1);
    count();
    counted(bn_rope_cuda(t, x, COLS, angle, angle, gids, HEADS, HD, ROWS,
                         false, NULL), "rope");
    x = array(t, ALL, 1, 0);
    y = array(t, ALL, 0, 1);
    count();
    counted(bn_embed_cuda(t, y, x, gids, 0, ROWS, COLS, ROWS, NULL), "embed");
    x = array(t, ALL, 1, 0);
    y = array(BN_F32, ALL, 1, 1);
    count();
    counted(bn_embed_grad_cuda(t, y, x, gids, 0, ROWS, COLS, ROWS, NULL),
            "embed_grad");
    for (int put = 0; put < 2; put++) {
        x = array(t, ALL, 1, 0);
        y = array(t, ALL, 0, 1);
        count();
        counted((put ? bn_scatter_cuda : bn_gather_cuda)(t, y, x, gids, COLS,
                                                         ROWS, NULL),
                put ? "scatter" : "gather");
    }
    x = array(t, ALL, 1, 0);
    y = apart(BN_F32, COLS);
    count();
    counted(bn_bias_grad_cuda(t, y, x, COLS, COLS, ROWS, work, NULL),
            "bias_grad");
    gpu_end();
}

static void training(enum bn_dtype t)
{
    struct bn_adamw a = {0.9f, 0.95f, 1e-8f, 0.1f};
    struct bn_adamw_now now = {1, 1e-3f, 0.1f, 0.05f};
    int32_t ptr[ROWS + 1], target[ROWS];
    float *stat = apart(BN_F32, 4 * ROWS);
    void *x, *y, *m, *v, *w;

    for (int i = 0; i <= ROWS; i++)
        ptr[i] = i;
    for (int i = 0; i < ROWS; i++)
        target[i] = i;
    struct bn_head_rows h = {ROWS, COLS, COLS, COLS,
                             gpu_copy(BN_I32, ptr, ROWS + 1),
                             gpu_copy(BN_I32, target, ROWS)};
    x = array(BN_F32, ALL, 1, 0);
    count();
    counted(bn_head_stats_cuda(&h, x, stat, stat + ROWS, stat + 2 * ROWS,
                               stat + 3 * ROWS, NULL), "head_stats");
    x = array(BN_F32, ALL, 1, 0);
    y = array(t, ALL, 0, 1);
    count();
    counted(bn_head_grad_cuda(t, &h, y, COLS, x, stat, stat, 0.1f, NULL),
            "head_grad");
    x = array(BN_F32, ALL, 1, 0);
    y = apart(BN_F64, 1);
    count();
    counted(bn_sqnorm_cuda(y, x, ALL, gpu_new(NULL, BN_SQNORM_PARTS * 8),
                           NULL), "sqnorm");
    x = array(BN_F32, ALL, 1, 1);
    m = array(BN_F32, ALL, 1, 1);
    v = array(BN_F32, ALL, 1, 1);
    y = array(BN_F32, ALL, 1, 0);
    w = array(t, ALL, 0, 1);
    if (t == BN_BF16) /* four elements a thread are eight bytes */
        narrow[nwatched - 1] = 2 * ALL;
    struct bn_adamw_now *gnow = gpu_new(&now, sizeof(now));
    count();
    counted(bn_adamw_cuda(t, &a, w, x, m, v, y, gnow, ALL, NULL), "adamw");
    gpu_end();
}

/* Two tiles of queries see one and two tiles of keys, with two heads to one
 * of k and v; so backward has three meetings a head, in which queries pass
 * keys and in which keys pass queries. (Its sums of d_o o are not counted.) */
static void attention(enum bn_dtype t)
{
    enum { H = 2 };
    const int tile = t == BN_BF16 ? 64 : 32, n = 2 * tile;
    const size_t nq = (size_t)n * H * HD, nk = (size_t)n * HD;
    struct bn_attn_seg seg = {0, n, 0, 0, n, 0, 0};
    struct bn_attn a = {.q = array(t, nq, 1, 0),
                        .k = array(t, nk, 0, 0),
                        .v = array(t, nk, 0, 0),
                        .o = array(t, nq, 0, 1),
                        .lse = apart(BN_F32, (size_t)n * H),
                        .ldq = H * HD, .ldk = HD, .ldv = HD, .ldo = H * HD,
                        .nq = n, .nkv = n, .heads = H, .kv_heads = 1, .hd = HD,
                        .scale = 0.1f, .host_seg = &seg,
                        .seg = gpu_new(&seg, sizeof(seg)), .nseg = 1};

    a.work = gpu_new(NULL, bn_attn_work_cuda(&a));
    for (int k = 1; k <= 2; k++)
        reads[k] = H * (1 + 2) * (size_t)tile * HD * bn_dtype_size(t);
    count();
    counted(bn_attn_cuda(t, &a, NULL), "attention");
    struct bn_attn_grad g = {array(t, nq, 0, 0), array(t, nq, 0, 1),
                             array(t, nk, 0, 1), array(t, nk, 0, 1)};
    const size_t one = (size_t)tile * HD * bn_dtype_size(t);
    array_at((void *)a.q, t, nq, 0, 0);
    array_at((void *)a.k, t, nk, 0, 0);
    array_at((void *)a.v, t, nk, 0, 0);
    reads[0] = reads[4] = H * (2 + 3) * one;
    reads[5] = reads[6] = (2 + 3 * H) * one;
    count();
    counted(bn_attn_grad_cuda(t, &a, &g, NULL), "attention backward");
    gpu_end();
}

static void for_both(void (*f)(enum bn_dtype t))
{
    f(BN_F32);
    f(BN_BF16);
}

static void test_norms(void **state)
{
    (void)state;
    for_both(norms);
}

static void test_elements(void **state)
{
    (void)state;
    for_both(elements);
}

static void test_rows(void **state)
{
    (void)state;
    for_both(rows);
}

static void test_training(void **state)
{
    (void)state;
    for_both(training);
}

static void test_attention(void **state)
{
    (void)state;
    for_both(attention);
}

/* That it is seen: a second pass, and accesses that are not wide. */
static void test_seen(void **state)
{
    void *x, *y;

    (void)state;
    x = array(BN_BF16, ALL + 1, 0, 0);
    y = gpu_new(NULL, 2 * ALL);
    count();
    for (int i = 0; i < 2; i++)
        gpu_ok(bn_swiglu_cuda(BN_BF16, y, (uint16_t *)x + 1, COLS / 2, ROWS,
                              NULL), "swiglu");
    bn_emu_watch(NULL, 0);
    nwatched = 0;
    assert_int_equal(watched[0].read, 2 * 2 * ALL);
    assert_int_equal(watched[0].narrow, 2 * 2 * ALL);
    gpu_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms),    cmocka_unit_test(test_elements),
        cmocka_unit_test(test_rows),     cmocka_unit_test(test_training),
        cmocka_unit_test(test_attention), cmocka_unit_test(test_seen),
    };

    return BN_TAP_RUN(tests);
}
